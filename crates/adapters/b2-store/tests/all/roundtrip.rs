//! Round trips in every layout.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use b2_frame::{FileKind, FrameEditor, FrameParams, FrameWriter, Storage, SuperChunk};
use b2_store::{ATTRIBUTES, MemberKind, MemberLocation, Store, StoreError, StoreLayout, StoreWriter};
use b2_testkit::Rng;

use crate::{array, bytes, items, open, options, raw};

const LAYOUTS: [(StoreLayout, &str); 3] =
    [(StoreLayout::Directory, "s.b2d"), (StoreLayout::Archive, "s.b2z"), (StoreLayout::Frame, "s.b2e")];

#[test]
fn random_stores_in_every_layout() {
    for case in 0..30 {
        let mut rng = Rng::case(20, case);
        let folder = tempfile::tempdir().unwrap();
        let (layout, name) = *rng.pick(&LAYOUTS);
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        let (mut expected, mut attributes) = (BTreeMap::new(), BTreeMap::<_, BTreeMap<_, _>>::new());
        for n in 0..rng.below(8) {
            let depth = rng.below(4);
            let group: String = (0..depth).map(|_| format!("/g{}", rng.below(2))).collect();
            let key = format!("{group}/ä {n}.x");
            let (values, frame) = array(&mut rng);
            writer.put(if rng.chance(50) { &key } else { &key[1..] }, &frame).unwrap();
            expected.insert(key, values);
            let value = vec![0xA0 | 3, b'a', b'b', b'0' + n as u8];
            writer.set_attribute(&group, format!("n{n}"), &value).unwrap();
            attributes.entry(group).or_default().insert(format!("n{n}"), value);
        }
        assert!(!path.exists());
        writer.finish().unwrap();
        check(&open(&path), &expected, &attributes);
        // A copy in any layout is the same, and so is a copy of a group.
        let (layout, name) = *rng.pick(&LAYOUTS);
        let copy = folder.path().join("copy").join(name);
        fs::create_dir(folder.path().join("copy")).unwrap();
        let has_group = expected.keys().any(|key| key.starts_with("/g0/"));
        let group = if has_group && rng.chance(50) { "/g0" } else { "" };
        let mut writer = StoreWriter::create(&copy, layout, false).unwrap();
        writer.copy(&open(&path), group, &options()).unwrap();
        writer.finish().unwrap();
        let below = |key: &str| {
            Some(key.strip_prefix(group)?).filter(|k| k.is_empty() || k.starts_with('/')).map(str::to_owned)
        };
        let expected = expected.into_iter().filter_map(|(key, v)| Some((below(&key)?, v))).collect();
        let attributes = attributes.into_iter().filter_map(|(key, v)| Some((below(&key)?, v))).collect();
        check(&open(&copy), &expected, &attributes);
        let left: BTreeSet<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

/// Members that are written in place are those that are copied, in every layout; a failure leaves no store.
#[test]
fn members_are_written_in_place() {
    for (case, (layout, name)) in (0..).zip(LAYOUTS) {
        let mut rng = Rng::case(21, case);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        let mut expected = BTreeMap::new();
        for key in ["/a", "/g/b.x", "/g/h/ä"] {
            let (values, frame) = array(&mut rng);
            writer.put_with(key, |to| Ok::<_, Box<dyn Error>>(fs::write(to, raw(&frame))?)).unwrap();
            expected.insert(key.to_owned(), values);
        }
        let never = |_: &Path| -> Result<(), StoreError> { panic!("the key is checked first") };
        assert!(matches!(writer.put_with("g", never), Err(StoreError::Exists(_))));
        assert!(matches!(writer.put_with("a\nb", never), Err(StoreError::Key(_))));
        writer.finish().unwrap();
        check(&open(&path), &expected, &BTreeMap::new());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // A description of indexes is left out, as of copied members.
        let mut editor = FrameEditor::memory(FrameParams::new(1)).unwrap();
        editor.vlmeta().set("blosc2_indexes", b"\x80").unwrap();
        editor.commit().unwrap();
        let indexed = editor.into_bytes().unwrap();
        let path = folder.path().join(format!("indexed {name}"));
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        writer.put_with("x", |to| Ok::<_, Box<dyn Error>>(fs::write(to, &indexed)?)).unwrap();
        writer.finish().unwrap();
        assert_eq!(open(&path).frame("x", &options()).unwrap().vlmetalayers().iter().count(), 0);
        // Neither what was not written nor what is no frame is in a store.
        for bytes in [None, Some(&b"no frame"[..])] {
            let path = folder.path().join(format!("failed {name}"));
            let mut writer = StoreWriter::create(&path, layout, false).unwrap();
            let write = |to: &Path| {
                bytes.map_or(Ok(()), |bytes| fs::write(to, bytes))?;
                Ok::<_, Box<dyn Error>>(())
            };
            writer.put_with("x", write).unwrap_err();
            assert!(matches!(writer.finish(), Err(StoreError::Unsupported(_))));
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }
}

fn check(
    store: &Store,
    expected: &BTreeMap<String, Vec<u32>>,
    attributes: &BTreeMap<String, BTreeMap<String, Vec<u8>>>,
) {
    assert!(store.keys().eq(expected.keys()));
    for (key, values) in expected {
        assert_eq!(&items(store.frame(key, &options()).unwrap()), values, "{key}");
        assert_eq!(&items(store.frame(&key[1..], &options()).unwrap()), values, "{key}");
    }
    for (group, expected) in attributes {
        let frame = store.attributes(group, &options()).unwrap().expect("attributes");
        let layers = frame.vlmetalayers();
        assert!(layers.names().eq(expected.keys().map(String::as_str)));
        for (name, value) in expected {
            assert_eq!(layers.get(name).unwrap().as_ref(), Some(value));
        }
    }
    assert!(store.attributes("/none", &options()).unwrap().is_none());
    assert_eq!(store.members().keys().filter(|key| key.ends_with(ATTRIBUTES)).count(), attributes.len());
}

#[test]
fn members_tell_where_they_are() {
    let mut rng = Rng::new(1);
    let folder = tempfile::tempdir().unwrap();
    let ((values, frame), text) = (array(&mut rng), bytes(b"hello"));
    for (layout, name) in LAYOUTS {
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        writer.put("/g/a", &frame).unwrap();
        writer.put("/t", &text).unwrap();
        writer.finish().unwrap();
        let store = open(&path);
        let found: Vec<_> = store.members().values().map(|member| (member.kind, &member.place)).collect();
        match (layout, &found[..]) {
            (
                StoreLayout::Directory,
                [
                    (MemberKind::Array, MemberLocation::Path(a)),
                    (MemberKind::SuperChunk, MemberLocation::Path(t)),
                ],
            ) => {
                assert!(a.ends_with("g/a.b2nd") && t.ends_with("t.b2f"));
                assert_eq!(fs::read(a).unwrap(), raw(&frame));
                assert_eq!(fs::read_dir(&path).unwrap().count(), 3, "the frame for small members too");
            }
            (
                StoreLayout::Archive,
                [(MemberKind::Array, MemberLocation::Archived { .. }), (MemberKind::SuperChunk, _)],
            ) => {
                let window = store.window("g/a").unwrap().unwrap();
                let file = fs::read(&path).unwrap();
                assert_eq!(file[window.start as usize..window.end as usize], raw(&frame));
                let read = options().offset(window.start).open(&path).unwrap();
                assert_eq!(items(read), values);
            }
            (
                StoreLayout::Frame,
                [
                    (MemberKind::Unknown, MemberLocation::Embedded(a)),
                    (MemberKind::Unknown, MemberLocation::Embedded(t)),
                ],
            ) => {
                assert_eq!((a.start, a.end), (0, t.start));
                let plain = SuperChunk::open(&path).unwrap().read_bytes(a.clone()).unwrap();
                assert_eq!(plain, raw(&frame));
            }
            _ => panic!("{found:?}"),
        }
        assert_eq!(store.frame("/t", &options()).unwrap().read_bytes(0..5).unwrap(), b"hello");
        assert!(matches!(store.frame("/u", &options()), Err(StoreError::NoSuchKey(_))));
        assert_eq!(store.directory().is_some(), layout == StoreLayout::Directory);
    }
    assert!(Store::open(folder.path().join("none"), &options()).is_err());
    fs::write(folder.path().join("a.b2nd"), raw(&frame)).unwrap();
    fs::write(folder.path().join("text"), b"text").unwrap();
    for other in ["a.b2nd", "text"] {
        assert!(Store::open(folder.path().join(other), &options()).unwrap().is_none());
    }
}

#[test]
fn stores_are_members_of_stores() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(2);
    let (values, frame) = array(&mut rng);
    let inner = folder.path().join("inner.b2e");
    let mut writer = StoreWriter::create(&inner, StoreLayout::Frame, false).unwrap();
    writer.put("/deep/a", &frame).unwrap();
    writer.finish().unwrap();
    for (layout, name) in LAYOUTS {
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        writer.put("/within", &SuperChunk::open(&inner).unwrap()).unwrap();
        writer.finish().unwrap();
        let found = Store::from_frame(open(&path).frame("/within", &options()).unwrap()).unwrap().unwrap();
        assert_eq!(items(found.frame("/deep/a", &options()).unwrap()), values);
        // A member that is not a store.
        assert!(Store::from_frame(found.frame("/deep/a", &options()).unwrap()).unwrap().is_none());
    }
}

#[test]
fn sparse_frames_become_contiguous_members() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = folder.path().join("d.b2d/x.b2f");
    fs::create_dir(folder.path().join("d.b2d")).unwrap();
    let writer = FrameWriter::options().storage(Storage::Sparse);
    let mut writer = writer.create(&sparse, b2_frame::FrameParams::new(1)).unwrap();
    let cparams = b2_chunk::Compression::new().itemsize(1).build().unwrap();
    writer.append(b2_chunk::Chunk::compress_bytes(b"hello", &cparams).unwrap()).unwrap();
    writer.finish().unwrap();
    let store = open(folder.path().join("d.b2d"));
    let path = folder.path().join("s.b2z");
    let mut writer = StoreWriter::create(&path, StoreLayout::Archive, false).unwrap();
    writer.copy(&store, "", &options()).unwrap();
    writer.finish().unwrap();
    assert_eq!(open(path).frame("/x", &options()).unwrap().read_bytes(0..5).unwrap(), b"hello");
}

#[test]
fn nothing_is_left_and_nothing_is_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let frame = bytes(b"x");
    for (layout, name) in LAYOUTS {
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        writer.put("/a", &frame).unwrap();
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let late = StoreWriter::create(&path, layout, false).unwrap();
        StoreWriter::create(&path, layout, false).unwrap().finish().unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        assert!(matches!(late.finish(), Err(StoreError::Exists(_))));
        assert!(matches!(StoreWriter::create(&path, layout, false), Err(StoreError::Exists(_))));
        assert_eq!(open(&path).members().len(), 0);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        match (layout, StoreWriter::create(&path, layout, true)) {
            (StoreLayout::Directory, Err(StoreError::Exists(_))) => fs::remove_dir_all(&path).unwrap(),
            (_, Ok(mut writer)) => {
                writer.put("/a", &frame).unwrap();
                writer.finish().unwrap();
                assert_eq!(open(&path).members().len(), 1);
                fs::remove_file(&path).unwrap();
            }
            (_, Err(error)) => panic!("{error}"),
        }
        // A directory is never replaced.
        fs::create_dir(&path).unwrap();
        assert!(matches!(StoreWriter::create(&path, layout, true), Err(StoreError::Exists(_))));
        fs::remove_dir(&path).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    #[cfg(unix)]
    {
        // A link is kept and its target replaced.
        let (real, link) = (folder.path().join("real"), folder.path().join("link.b2z"));
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        StoreWriter::create(&link, StoreLayout::Archive, true).unwrap().finish().unwrap();
        assert!(
            link.is_symlink()
                && b2_frame::ReadFiles::kind(&b2_frame::Disk, &real, b2_frame::Links::Refuse).unwrap()
                    == FileKind::File
        );
        assert!(Store::open(&real, &options()).unwrap().is_some());
    }
}

#[test]
#[cfg(unix)]
fn keys_with_colons_are_kept() {
    for (layout, name) in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, false).unwrap();
        let keys = ["/levels/t2m:850", "/levels/u10m:850", "/t:850", "/x1:y/a"];
        for (n, key) in keys.iter().enumerate() {
            writer.put(key, &bytes(&[n as u8])).unwrap();
        }
        writer.set_attribute("/x1:y", "unit", b"\xa1K").unwrap();
        writer.finish().unwrap();
        let store = open(&path);
        assert!(store.keys().eq(keys), "{name}");
        for (n, key) in keys.iter().enumerate() {
            let frame = store.frame(key, &options()).unwrap();
            assert_eq!(frame.read_bytes(0..1).unwrap(), [n as u8], "{name}: {key}");
        }
        assert!(store.attributes("/x1:y", &options()).unwrap().is_some());
    }
    // An archive can store such a name only without marking it as UTF-8.
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path().join("z"), StoreLayout::Archive, false).unwrap();
    assert!(matches!(writer.put("/\u{e4}:b", &bytes(b"x")), Err(StoreError::Unsupported(_))));
}

#[test]
fn what_could_not_be_written_whole_gets_no_name() {
    for (layout, name) in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.b2nd");
        fs::write(&path, raw(&bytes(&[7; 100_000]))).unwrap();
        let frame = SuperChunk::open(&path).unwrap();
        // Most of the file is gone, so that reading it fails in the middle.
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40).unwrap();
        let target = folder.path().join(name);
        let mut writer = StoreWriter::create(&target, layout, false).unwrap();
        writer.put("/a", &bytes(b"x")).unwrap();
        assert!(writer.put("/b", &frame).is_err());
        writer.put("/c", &bytes(b"y")).unwrap();
        assert!(matches!(writer.finish(), Err(StoreError::Unsupported(_))), "{name}");
        assert!(!target.exists());
    }
}

#[test]
fn groups_are_copied_under_any_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.b2d");
    let mut writer = StoreWriter::create(&path, StoreLayout::Directory, false).unwrap();
    writer.put("/ocean/a", &bytes(b"x")).unwrap();
    writer.finish().unwrap();
    let store = open(&path);
    for (n, (group, keys)) in
        [("ocean", "/a"), ("/ocean", "/a"), ("/ocean/", "/a"), ("/", "/ocean/a"), ("", "/ocean/a")]
            .into_iter()
            .enumerate()
    {
        let path = folder.path().join(format!("{n}.b2z"));
        let mut writer = StoreWriter::create(&path, StoreLayout::Archive, false).unwrap();
        writer.copy(&store, group, &options()).unwrap();
        writer.finish().unwrap();
        assert!(open(&path).keys().eq([keys]), "{group:?}");
    }
    let mut writer =
        StoreWriter::create(folder.path().join("none.b2z"), StoreLayout::Archive, false).unwrap();
    assert!(matches!(writer.copy(&store, "/land", &options()), Err(StoreError::NoSuchKey(_))));
    assert!(writer.finish().is_err());
    assert!(!folder.path().join("none.b2z").exists());
}

#[test]
fn copies_are_of_the_frame_as_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.b2f");
    fs::write(&path, raw(&bytes(b"first"))).unwrap();
    let frame = SuperChunk::open(&path).unwrap();
    let mut editor = b2_frame::FrameEditor::options().edit(&path).unwrap();
    editor.append_bytes(&[1; 5000]).unwrap();
    editor.commit().unwrap();
    let target = folder.path().join("s.b2z");
    let mut writer = StoreWriter::create(&target, StoreLayout::Archive, false).unwrap();
    // Either the old frame, or an error saying that it changed.
    if writer.put("/a", &frame).is_ok() {
        writer.finish().unwrap();
        let copied = open(&target).frame("/a", &options()).unwrap();
        assert_eq!(copied.read_bytes(0..copied.nbytes()).unwrap(), b"first");
    }
}
