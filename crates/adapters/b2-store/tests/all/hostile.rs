//! Hostile stores: they lead elsewhere, contradict themselves, or are too large.

use std::fs;
use std::io;
use std::path::Path;

use b2_store::{MemberLocation, Store, StoreError, StoreLayout, StoreWriter};
use b2_testkit::Rng;
use b2_testkit::hostile::overwrite;

use crate::{bytes, embedding, open, options, raw, refused};

/// A member of an archive, with its header and directory entry.
#[derive(Clone)]
struct ArchiveEntry<'a> {
    name: &'a str,
    data: &'a [u8],
    /// Method, and flags.
    how: [u16; 2],
    /// Length in the directory, compressed and uncompressed, if it is not that of the data.
    lens: Option<[u32; 2]>,
    /// Offset in the directory, if it is not that of the header.
    at: Option<u32>,
    /// Extra fields of the header and of the directory.
    extra: [&'a [u8]; 2],
}

fn entry<'a>(name: &'a str, data: &'a [u8]) -> ArchiveEntry<'a> {
    ArchiveEntry { name, data, how: [0, 0], lens: None, at: None, extra: [b"", b""] }
}

fn zip(entries: &[ArchiveEntry<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let put = |to: &mut Vec<u8>, numbers: &[u16]| to.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    for entry in entries {
        let at = entry.at.unwrap_or(out.len() as u32);
        let lens = entry.lens.unwrap_or([entry.data.len() as u32; 2]);
        let [method, flags] = entry.how;
        let common = |to: &mut Vec<u8>, extra: &[u8]| {
            put(to, &[20, flags, method, 0, 0, 0, 0]);
            to.extend(lens.iter().flat_map(|len| len.to_le_bytes()));
            put(to, &[entry.name.len() as u16, extra.len() as u16]);
        };
        out.extend(b"PK\x03\x04");
        common(&mut out, entry.extra[0]);
        out.extend([entry.name.as_bytes(), entry.extra[0], entry.data].concat());
        directory.extend(b"PK\x01\x02\x14\0");
        common(&mut directory, entry.extra[1]);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend([entry.name.as_bytes(), entry.extra[1]].concat());
    }
    let (at, len, n) = (out.len() as u32, directory.len() as u32, entries.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    put(&mut out, &[n, n]);
    out.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
    put(&mut out, &[0]);
    out
}

/// Opens an archive with these bytes.
fn archive(bytes: &[u8]) -> Result<Option<Store>, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.b2z");
    fs::write(&path, bytes).unwrap();
    // The file stays readable when its name is gone.
    Store::open(&path, &options())
}

fn read(store: &Store, key: &str) -> Result<Vec<u8>, StoreError> {
    let frame = store.frame(key, &options())?;
    Ok(frame.read_bytes(0..frame.nbytes())?)
}

#[test]
fn names_in_archives_do_not_lead_out() {
    let frame = raw(&bytes(b"hello"));
    for name in [
        "../a.b2nd",
        "/a.b2nd",
        "g/../../a.b2nd",
        "./a.b2nd",
        "g//a.b2nd",
        "g\\a.b2nd",
        "..\\a.b2nd",
        "a\0.b2nd",
        ".../a.b2nd",
    ] {
        refused(archive(&zip(&[entry(name, &frame)])), "is not a path inside the archive");
    }
    // Entries that are not members do no harm, since nothing is unpacked.
    let store = archive(&zip(&[entry("../notes.txt", b"x"), entry("g/a.b2nd", &frame)])).unwrap().unwrap();
    assert_eq!(read(&store, "/g/a").unwrap(), b"hello");
    assert!(matches!(store.frame("/../notes.txt", &options()), Err(StoreError::NoSuchKey(_))));
    assert!(archive(&zip(&[entry("notes.txt", b"x")])).unwrap().is_none());
    // The frame with small members is in the root only.
    let store = archive(&zip(&[entry("g/embed.b2e", &frame), entry("a.b2f", &frame)])).unwrap().unwrap();
    assert!(store.keys().eq(["/a"]));
}

#[test]
fn entries_that_contradict_each_other() {
    let (one, two) = (raw(&bytes(b"first")), raw(&bytes(b"second")));
    // Of two of one name, the last one counts, as in Python.
    let store = archive(&zip(&[entry("x.b2f", &one), entry("x.b2f", &two)])).unwrap().unwrap();
    assert_eq!((store.members().len(), read(&store, "/x").unwrap()), (1, b"second".to_vec()));
    // Two at the same offset.
    let same = ArchiveEntry { at: Some(0), ..entry("y.b2f", &one) };
    refused(archive(&zip(&[entry("x.b2f", &one), same])), "overlap");
    // One that overlaps the next or the directory, according to the directory.
    let longer = Some([one.len() as u32 + 1; 2]);
    refused(
        archive(&zip(&[ArchiveEntry { lens: longer, ..entry("x.b2f", &one) }, entry("y.b2f", &two)])),
        "overlap",
    );
    refused(archive(&zip(&[ArchiveEntry { lens: longer, ..entry("x.b2f", &one) }])), "overlap");
    // The same because of an extra field that only the header has.
    let extra = ArchiveEntry { extra: [&[0; 8], b""], ..entry("x.b2f", &one[..one.len() - 8]) };
    let mut bytes = zip(&[extra, entry("y.b2f", &two)]);
    assert_eq!(bytes[18] as usize, (one.len() - 8) & 0xFF);
    let directory = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    for at in [20, 24] {
        bytes[directory + at..][..4].copy_from_slice(&(one.len() as u32).to_le_bytes());
    }
    let store = archive(&bytes).unwrap().unwrap();
    refused(read(&store, "/x"), "longer than its slot in the archive");
    assert_eq!(read(&store, "/y").unwrap(), b"second");
    // A frame that is longer than its member.
    let shorter = &one[..one.len() - 1];
    let store = archive(&zip(&[entry("x.b2f", shorter), entry("y.b2f", &two)])).unwrap().unwrap();
    refused(read(&store, "/x"), "its slot in the archive");
    // No member at the offset, and one beyond the end.
    let mut bytes = zip(&[entry("x.b2f", &one), entry("y.b2f", &two)]);
    let header = 35 + one.len();
    bytes[header] = 0;
    let store = archive(&bytes).unwrap().unwrap();
    refused(read(&store, "/y"), &format!("no member starts at byte {header}"));
    assert_eq!(read(&store, "/x").unwrap(), b"first");
    refused(archive(&zip(&[ArchiveEntry { at: Some(u32::MAX - 9), ..entry("x.b2f", &one) }])), "overlap");
}

#[test]
fn what_is_packed_or_encrypted_is_listed_and_refused() {
    let frame = raw(&bytes(b"hello"));
    let bomb = Some([frame.len() as u32, u32::MAX - 1]);
    let entries = [
        ArchiveEntry { how: [8, 0], lens: bomb, ..entry("bomb.b2nd", &frame) },
        ArchiveEntry { how: [0, 1], ..entry("locked.b2nd", &frame) },
        ArchiveEntry { lens: bomb, ..entry("odd.b2nd", &frame) },
        entry("plain.b2f", &frame),
    ];
    let store = archive(&zip(&entries)).unwrap().unwrap();
    assert!(store.keys().eq(["/bomb", "/locked", "/odd", "/plain"]));
    for (key, why) in [("/bomb", "compressed"), ("/locked", "encrypted"), ("/odd", "two different lengths")] {
        refused(read(&store, key), why);
        assert!(
            matches!(&store.member(key).unwrap().place, MemberLocation::Unreadable(reported) if reported.contains(why))
        );
        assert_eq!(store.window(key).unwrap(), None);
    }
    assert_eq!(read(&store, "/plain").unwrap(), b"hello");
    refused(archive(&zip(&[ArchiveEntry { how: [8, 0], ..entry("embed.b2e", &frame) }])), "compressed");
}

#[test]
fn lengths_in_64_bits() {
    let frame = raw(&bytes(b"hello"));
    let field = |len: u64| [&[1, 0, 16, 0][..], &len.to_le_bytes(), &len.to_le_bytes()].concat();
    let made = |len: u64| {
        let extra = field(len);
        let entry =
            ArchiveEntry { lens: Some([u32::MAX; 2]), extra: [&extra, &extra], ..entry("x.b2f", &frame) };
        archive(&zip(&[entry]))
    };
    assert_eq!(read(&made(frame.len() as u64).unwrap().unwrap(), "/x").unwrap(), b"hello");
    for len in [u64::MAX, u64::MAX - 40, 1 << 40] {
        refused(made(len), "overlap");
    }
    let longer = made(frame.len() as u64 + 1).unwrap().unwrap();
    refused(read(&longer, "/x"), "longer than its slot in the archive");
}

#[test]
fn archives_cut_anywhere_or_with_changed_bytes() {
    let frame = raw(&bytes(b"hello"));
    let embed = raw(&embedding(
        &frame,
        &format!(r#"{{"embed_map": {{"/s": {{"offset": 0, "length": {}}}}}}}"#, frame.len()),
    ));
    let whole = zip(&[entry("x.b2f", &frame), entry("g/y.b2nd", &frame), entry("embed.b2e", &embed)]);
    assert_eq!(read(&archive(&whole).unwrap().unwrap(), "/s").unwrap(), b"hello");
    for len in (0..whole.len()).step_by(7) {
        assert!(!matches!(archive(&whole[..len]), Ok(Some(_))), "{len}");
    }
    let mut rng = Rng::new(3);
    for _ in 0..600 {
        let mut odd = whole.clone();
        for _ in 0..rng.within(1..=3) {
            // Mostly in the directory.
            let start = if rng.chance(70) { whole.len() - 220 } else { 0 };
            overwrite(&mut odd[start..], 8, &mut rng);
        }
        if let Ok(Some(store)) = archive(&odd) {
            for key in store.members().keys() {
                assert!(key.starts_with('/') && !key.contains(".."), "{key}");
                let _ = read(&store, key);
            }
        }
    }
}

/// Verifies everything, then reads all members by key.
fn verified(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let store = archive(bytes)?.ok_or_else(|| StoreError::Damaged("not a store".to_owned()))?;
    store.verify_directory()?;
    let mut all = Vec::new();
    for key in store.members().keys() {
        store.frame(key, &options())?.verify()?;
        all.push((key.clone(), read(&store, key)?));
    }
    Ok(all)
}

#[test]
fn each_flip_of_a_directory_or_header_is_seen_or_harmless() {
    let (one, two) = (raw(&bytes(b"first")), raw(&bytes(b"second")));
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path().join("s.b2z"), StoreLayout::Archive, false).unwrap();
    writer.put("a", &bytes(b"first")).unwrap();
    writer.put("g/\u{e4}", &bytes(b"second")).unwrap();
    writer.finish().unwrap();
    let field = [&[9, 9, 1, 0, 7, 1, 0, 16, 0][..], &(one.len() as u64).to_le_bytes().repeat(2)].concat();
    let long = ArchiveEntry { lens: Some([u32::MAX; 2]), extra: [&field, &field], ..entry("long.b2f", &one) };
    let archives = [
        fs::read(folder.path().join("s.b2z")).unwrap(),
        zip(&[entry("x.b2f", &one), entry("notes.txt", b"text"), entry("g/y.b2f", &two), long]),
    ];
    for whole in archives {
        let expected = verified(&whole).unwrap();
        assert!(expected.len() >= 2);
        let directory = whole.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let mut places: Vec<usize> = (directory..whole.len()).collect();
        for (at, w) in whole.windows(4).enumerate() {
            match w {
                b"PK\x03\x04" => places.extend(at..at + 60),
                b"PK\x07\x08" => places.extend(at..at + 16),
                _ => {}
            }
        }
        for at in places {
            for mask in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut odd = whole.clone();
                odd[at] ^= mask;
                if let Ok(found) = verified(&odd) {
                    assert_eq!(found, expected, "byte {at} of {}, mask {mask}", whole.len());
                }
            }
        }
    }
}

#[test]
fn members_and_directory_are_compared() {
    let frame = raw(&bytes(b"hello"));
    let whole = zip(&[entry("x.b2f", &frame), entry("notes.txt", b"text"), entry("y.b2f", &frame)]);
    let directory = whole.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let flipped = |at: usize, mask: u8| {
        let mut odd = whole.clone();
        odd[at] ^= mask;
        odd
    };
    // Opening a member compares its header.
    for (at, what) in
        [(6, "the flags"), (8, "method"), (14, "the checksum"), (22, "the length"), (30, "its name")]
    {
        let mask = if at == 6 { 8 } else { 1 };
        let store = archive(&flipped(at, mask)).unwrap().unwrap();
        refused(read(&store, "/x"), what);
        assert_eq!(read(&store, "/y").unwrap(), b"hello");
    }
    // An entry that is not a member, and one that is missing in the directory.
    let store = archive(&flipped(directory + 46 + 4, 1)).unwrap().unwrap();
    assert!(store.keys().eq(["/y"]));
    refused(store.verify_directory(), "its name");
    let mut odd = whole[..directory].to_vec();
    let end = whole.len() - 22;
    odd.extend(&whole[directory + 51..end]);
    let len = (end - directory - 51) as u32;
    odd.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    odd.extend([len.to_le_bytes(), (directory as u32).to_le_bytes()].concat());
    odd.extend([0, 0]);
    let store = archive(&odd).unwrap().unwrap();
    assert!(store.keys().eq(["/y"]));
    refused(store.verify_directory(), "the member at byte 0 is missing from the directory");
}

#[test]
fn names_that_are_not_utf8_are_listed_and_can_be_read() {
    let frame = raw(&bytes(b"hello"));
    let mut whole = zip(&[entry("g/caf?.b2f", &frame), entry("x.b2f", &frame)]);
    for at in 0..whole.len() {
        if whole[at] == b'?' && whole[..at].ends_with(b"g/caf") {
            whole[at] = 0xE9;
        }
    }
    let store = archive(&whole).unwrap().unwrap();
    assert!(store.keys().eq(["/g/caf\\xE9", "/x"]));
    assert_eq!(read(&store, "/g/caf\\xE9").unwrap(), b"hello");
    store.verify_directory().unwrap();
}

#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn names_of_files_that_are_not_utf8_are_listed_and_can_be_read() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join(OsStr::from_bytes(b"gr\xFC"));
    fs::create_dir(&group).unwrap();
    fs::write(group.join(OsStr::from_bytes(b"caf\xE9.b2f")), raw(&bytes(b"hello"))).unwrap();
    let store = open(folder.path());
    assert!(store.keys().eq(["/gr\\xFC/caf\\xE9"]));
    assert_eq!(read(&store, "/gr\\xFC/caf\\xE9").unwrap(), b"hello");
}

#[test]
fn counts_and_depths_are_bounded() {
    let frame = raw(&bytes(b"x"));
    for (depth, fine) in [(64, true), (65, false), (10_000, false)] {
        let name = "d/".repeat(depth) + "a.b2f";
        let made = archive(&zip(&[entry(&name, &frame)]));
        if fine { assert!(made.is_ok()) } else { refused(made, "nested") }
    }
    let key = "/d".repeat(70);
    let map = format!(r#"{{"embed_map": {{"{key}": {{"offset": 0, "length": 1}}}}}}"#);
    refused(Store::from_frame(embedding(&frame, &map)), "nested");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.b2f"), &frame).unwrap();
    fs::create_dir_all(folder.path().join("d/".repeat(64))).unwrap();
    assert!(open(folder.path()).keys().eq(["/a"]));
    fs::create_dir_all(folder.path().join("d/".repeat(65))).unwrap();
    refused(Store::open(folder.path(), &options()), "nested more than 64 deep");
    // A directory with too many entries: 48 MB of entries for empty files.
    let count: u32 = (1 << 20) + 1;
    let mut out = zip(&[entry("a.b2f", &frame)]);
    let start = out.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    out.truncate(start);
    for _ in 0..count {
        out.extend(b"PK\x01\x02\x14\0\x14\0");
        out.extend([0; 20]);
        out.extend([1, 0]);
        out.extend([0; 16]);
        out.push(b'x');
    }
    let (offset, len) = (start as u64, (out.len() - start) as u64);
    let end = out.len() as u64;
    out.extend([b"PK\x06\x06", &44u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8]].concat());
    out.extend([u64::from(count), count.into(), len, offset].iter().flat_map(|n| n.to_le_bytes()));
    out.extend([b"PK\x06\x07", &[0; 4][..], &end.to_le_bytes(), &[1, 0, 0, 0]].concat());
    out.extend([b"PK\x05\x06\0\0\0\0", &[0xFF; 12][..], &[0; 2]].concat());
    refused(archive(&out), "more than 1048576 members");
}

#[test]
fn maps_of_embedded_members() {
    let frame = raw(&bytes(b"hello"));
    let len = frame.len();
    let made =
        |entry: &str| Store::from_frame(embedding(&frame, &format!(r#"{{"embed_map": {{{entry}}}}}"#)));
    for entry in [
        format!(r#""/s": {{"offset": {len}, "length": 1}}"#),
        format!(r#""/s": {{"offset": {}, "length": 1}}"#, u64::MAX),
        format!(r#""/s": {{"offset": 0, "length": {}}}"#, u64::MAX),
        r#""/s": {"offset": -1, "length": 1}"#.to_owned(),
        r#""/s": {"offset": "0", "length": 1}"#.to_owned(),
        r#""/s": {"offset": 0}"#.to_owned(),
        r#""/s": 5"#.to_owned(),
    ] {
        refused(made(&entry), "estore_metadata");
    }
    refused(Store::from_frame(embedding(&frame, "{}")), "estore_metadata");
    refused(Store::from_frame(embedding(&frame, "5")), "estore_metadata");
    // Keys are not paths; copying to a directory would turn them into paths.
    let whole = format!(r#"{{"offset": 0, "length": {len}}}"#);
    let store = made(&format!(
        r#""/../../s": {whole}, "t": {whole}, "/short": {{"offset": 0, "length": {}}}"#,
        len - 1
    ));
    let store = store.unwrap().unwrap();
    assert_eq!(
        (read(&store, "/../../s").unwrap(), read(&store, "/t").unwrap()),
        (b"hello".to_vec(), b"hello".to_vec())
    );
    refused(read(&store, "/short"), "truncated");
    let folder = tempfile::tempdir().unwrap();
    for (layout, name) in
        [(StoreLayout::Directory, "d"), (StoreLayout::Archive, "z"), (StoreLayout::Frame, "e")]
    {
        let mut writer = StoreWriter::create(folder.path().join(name), layout, false).unwrap();
        assert!(matches!(writer.copy(&store, "", &options()), Err(StoreError::Key(_))));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // References are listed but not followed.
    let store = made(r#""/far": {"urlbase": "http://127.0.0.1:9/", "path": "@public/a"}"#).unwrap().unwrap();
    assert!(store.keys().eq(["/far"]));
    refused(read(&store, "/far"), "not followed");
}

/// A member that refers to itself as a store ends where the bytes do: each level is shorter than the one around it.
#[test]
fn a_store_in_itself() {
    let frame = raw(&bytes(b"hello"));
    let map = |len: usize| format!(r#"{{"embed_map": {{"/s": {{"offset": 0, "length": {len}}}}}}}"#);
    let mut outer = frame;
    for _ in 0..5 {
        outer = raw(&embedding(&outer, &map(outer.len())));
    }
    let mut frame = b2_frame::SuperChunk::from_bytes(outer).unwrap();
    let mut depth = 0;
    while let Some(store) = Store::from_frame(frame.clone()).unwrap() {
        frame = store.frame("/s", &options()).unwrap();
        depth += 1;
    }
    assert_eq!((depth, frame.read_bytes(0..5).unwrap()), (5, b"hello".to_vec()));
}

#[cfg(unix)]
#[test]
fn links_in_directories_are_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("s.b2d"), folder.path().join("out"));
    fs::create_dir_all(path.join("g")).unwrap();
    fs::create_dir_all(&out).unwrap();
    let write = |path: &Path, data: &[u8]| fs::write(path, raw(&bytes(data))).unwrap();
    write(&path.join("g/a.b2f"), b"hello");
    write(&out.join("a.b2f"), b"secret");
    write(&out.join("b.b2f"), b"secret");
    symlink(out.join("a.b2f"), path.join("link.b2f")).unwrap();
    symlink(&out, path.join("aside")).unwrap();
    symlink("../..", path.join("g/up")).unwrap();
    let store = open(&path);
    assert!(store.keys().eq(["/g/a"]));
    for key in ["/link", "/aside/a", "/g/up/out/a", "/../out/a", "/g/../../out/a"] {
        assert!(matches!(store.frame(key, &options()), Err(StoreError::NoSuchKey(_))), "{key}");
    }
    for key in ["aside/new", "g/up/new"] {
        assert!(store.place_for(key, b2_store::MemberKind::Array, false).is_err(), "{key}");
        assert!(store.create_group(&format!("{key}/deep")).is_err(), "{key}");
        assert!(store.set_attributes(key, &[("a".to_owned(), vec![1])], &[], &options()).is_err(), "{key}");
    }
    // A directory that becomes a link after the store was opened.
    fs::rename(path.join("g"), folder.path().join("was")).unwrap();
    symlink(&out, path.join("g")).unwrap();
    assert!(store.frame("/g/a", &options()).is_err());
    assert!(store.place_for("/g/c", b2_store::MemberKind::Array, false).is_err());
    assert!(store.set_attributes("/g", &[("a".to_owned(), vec![1])], &[], &options()).is_err());
    assert!(store.remove("/g/a").is_err());
    assert!(out.join("a.b2f").exists() && fs::read_dir(&out).unwrap().count() == 2);
    // Removing a group removes links in it, not their targets.
    fs::remove_file(path.join("g")).unwrap();
    fs::rename(folder.path().join("was"), path.join("g")).unwrap();
    open(&path).remove("/g").unwrap();
    assert!(!path.join("g").exists() && out.join("a.b2f").exists());
    // A link in place of the frame with small members, and of a store.
    symlink(out.join("a.b2f"), path.join("embed.b2e")).unwrap();
    assert!(Store::open(&path, &options()).is_err());
    symlink(&path, folder.path().join("named.b2d")).unwrap();
    fs::remove_file(path.join("embed.b2e")).unwrap();
    assert!(
        Store::open(folder.path().join("named.b2d"), &options()).unwrap().is_some(),
        "the user's own link"
    );
}

/// A storage error is not an error of the store.
#[test]
fn failing_storage_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Store::open(folder.path().join("none.b2z"), &options()).err().unwrap();
    assert!(matches!(missing, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound));
    assert!(StoreWriter::create(folder.path().join("none/s.b2z"), StoreLayout::Archive, false).is_err());
}
