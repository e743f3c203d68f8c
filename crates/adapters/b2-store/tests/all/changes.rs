//! Changes of a store in a directory.

use std::fs;

use b2_frame::SuperChunk;
use b2_frame::{EditOptions, FrameWriter};
use b2_store::{MemberKind, Store, StoreError, StoreLayout, StoreWriter};
use b2nd::ArrayBuilder;

use crate::{bytes, items, open, options};

/// Adds an array as programs do: at the path that the store returns.
fn add(store: &Store, key: &str, overwrite: bool, values: &[u32]) -> Result<(), StoreError> {
    let path = store.place_for(key, MemberKind::Array, overwrite)?;
    let inside = store.directory().expect("a directory");
    let write = FrameWriter::options().overwrite(overwrite).file_system(inside);
    ArrayBuilder::new::<u32>([values.len() as u64]).write_options(write).write(path, values).unwrap();
    Ok(())
}

#[test]
fn members_groups_and_attributes_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.b2d");
    StoreWriter::create(&path, StoreLayout::Directory, false).unwrap().finish().unwrap();
    add(&open(&path), "a", false, &[1, 2]).unwrap();
    add(&open(&path), "/g/h/b", false, &[3]).unwrap();
    add(&open(&path), "/g/h/b", true, &[4, 5]).unwrap();
    let store = open(&path);
    assert!(store.keys().eq(["/a", "/g/h/b"]));
    assert_eq!(items(store.frame("/g/h/b", &options()).unwrap()), [4, 5]);
    for (key, overwrite) in [("/a", false), ("/g", true), ("/g/h", false), ("/a/b", true), ("/a/b/c", true)] {
        assert!(matches!(add(&store, key, overwrite, &[1]), Err(StoreError::Exists(_))), "{key}");
    }
    for key in ["", "/", "../x", "/g/../../x", "g//x", "/g/..", "a\\b", "a\nb", "__vlmeta__", "/g/__vlmeta__"]
    {
        assert!(matches!(store.place_for(key, MemberKind::Array, true), Err(StoreError::Key(_))), "{key}");
        assert!(matches!(store.create_group(key), Err(StoreError::Key(_))), "{key}");
    }
    assert!(matches!(store.place_for(&"d/".repeat(64), MemberKind::Array, true), Err(StoreError::Key(_))));
    store.create_group("/new/group").unwrap();
    assert!(path.join("new/group").is_dir());
    assert!(store.keys().eq(open(&path).keys()));

    let set = |group: &str, changed: &[(&str, &[u8])], removed: &[&str]| {
        let changed: Vec<_> =
            changed.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        let removed: Vec<_> = removed.iter().map(|name| (*name).to_owned()).collect();
        open(&path).set_attributes(group, &changed, &removed, &options())
    };
    let get = |group: &str, name: &str| {
        let frame = open(&path).attributes(group, &options()).unwrap()?;
        frame.vlmetalayers().get(name).unwrap()
    };
    set("", &[("title", b"\x01")], &[]).unwrap();
    set("/g", &[("a", b"\x02"), ("b", b"\x03")], &[]).unwrap();
    set("/g", &[("b", b"\x04")], &["a"]).unwrap();
    assert!(matches!(set("/g", &[("c", b"\x05")], &["a"]), Err(StoreError::NoSuchKey(name)) if name == "a"));
    assert!(matches!(set("/none", &[("c", b"\x05")], &["a"]), Err(StoreError::NoSuchKey(_))));
    assert_eq!(get("", "title").unwrap(), [1]);
    assert_eq!((get("/g", "a"), get("/g", "b").unwrap(), get("/g", "c")), (None, vec![4], None));
    assert!(set("/../out", &[("c", b"\x05")], &[]).is_err() && !folder.path().join("out").exists());

    open(&path).remove("/a").unwrap();
    open(&path).remove("g/h").unwrap();
    assert_eq!(open(&path).keys().count(), 0);
    assert!(matches!(open(&path).remove("/a"), Err(StoreError::NoSuchKey(_))));
    open(&path).remove("/g").unwrap();
    assert!(!path.join("g").exists() && get("/g", "b").is_none());
}

#[test]
fn tables_have_attributes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.b2d");
    StoreWriter::create(&path, StoreLayout::Directory, false).unwrap().finish().unwrap();
    fs::create_dir(path.join("t")).unwrap();
    fs::write(path.join("t/_meta.b2f"), crate::raw(&bytes(b""))).unwrap();
    let mut meta = EditOptions::from(options()).edit(path.join("t/_meta.b2f")).unwrap();
    meta.vlmeta().set("kind", b"\xa6ctable").unwrap();
    meta.commit().unwrap();
    let set =
        |value: &[u8]| open(&path).set_attributes("t", &[("a".into(), value.to_vec())], &[], &options());
    for value in [b"\x01", b"\x02"] {
        set(value).unwrap();
        let store = open(&path);
        assert!(store.is_table("/t", &options()) && store.keys().eq(["/t/_meta", "/t/_vlmeta"]));
        let frame = store.attributes("t", &options()).unwrap().unwrap();
        assert_eq!(frame.vlmetalayers().get("a").unwrap().unwrap(), value);
    }
}

#[test]
fn what_is_embedded_gets_a_file_and_what_is_archived_cannot_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (small, path) = (folder.path().join("small.b2e"), folder.path().join("s.b2d"));
    let mut writer = StoreWriter::create(&small, StoreLayout::Frame, false).unwrap();
    writer.put("/g/a", &bytes(b"x")).unwrap();
    writer.put("/g/b", &bytes(b"yz")).unwrap();
    writer.put("/h/c", &bytes(b"")).unwrap();
    for (name, value) in [("z", b"\x00"), ("old", b"\x01"), ("z", b"\x03")] {
        writer.set_attribute("/g", name, value).unwrap();
    }
    writer.finish().unwrap();
    fs::create_dir(&path).unwrap();
    fs::copy(&small, path.join("embed.b2e")).unwrap();
    let store = open(&path);
    let plain = |frame: SuperChunk| frame.read_bytes(0..frame.nbytes()).unwrap();
    // Changing a member moves it out of the frame with small members.
    let file = store.file_of("g/b", &options()).unwrap();
    assert_eq!(file, std::path::absolute(&path).unwrap().join("g/b.b2f"));
    assert_eq!(store.file_of("/g/b", &options()).unwrap(), file);
    assert_eq!(open(&path).file_of("/g/b", &options()).unwrap(), file);
    assert_eq!(plain(open(&path).frame("/g/b", &options()).unwrap()), b"yz");
    assert!(matches!(open(&path).file_of("/g/d", &options()), Err(StoreError::NoSuchKey(_))));
    fs::remove_file(&file).unwrap();
    assert!(matches!(open(&path).frame("/g/b", &options()), Err(StoreError::NoSuchKey(_))));
    open(&path).remove("/h").unwrap();
    assert!(open(&path).keys().eq(["/g/a"]));
    // Attributes that python-blosc2 embedded are moved to a separate file.
    store.set_attributes("/g", &[("new".to_owned(), b"\x02".to_vec())], &[], &options()).unwrap();
    let frame = open(&path).attributes("/g", &options()).unwrap().unwrap();
    assert!(frame.vlmetalayers().names().eq(["z", "old", "new"]));
    assert!(path.join("g/__vlmeta__.b2f").is_file());
    // A file takes precedence over an embedded member with the same key.
    add(&open(&path), "/g/a", true, &[7]).unwrap();
    assert_eq!(items(open(&path).frame("/g/a", &options()).unwrap()), [7]);
    open(&path).remove("/g/a").unwrap();
    assert_eq!(open(&path).keys().count(), 0);
    let store = open(&small);
    assert!(matches!(store.file_of("/g/a", &options()), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.place_for("/b", MemberKind::Array, false), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.remove("/g/a"), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.create_group("/h"), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.set_attributes("", &[], &[], &options()), Err(StoreError::Unsupported(_))));
}

#[test]
fn keys_of_new_stores_do_not_collide() {
    let folder = tempfile::tempdir().unwrap();
    for (layout, name) in
        [(StoreLayout::Directory, "d"), (StoreLayout::Archive, "z"), (StoreLayout::Frame, "e")]
    {
        let mut writer = StoreWriter::create(folder.path().join(name), layout, false).unwrap();
        let frame = bytes(b"x");
        writer.put("/g/a", &frame).unwrap();
        for key in ["/g/a", "g/a", "/g", "/g/a/b"] {
            assert!(matches!(writer.put(key, &frame), Err(StoreError::Exists(_))), "{key}");
        }
        for key in ["", "/", "../x", "/g/../../x", "g//x", "/..", "a\\b", "a\tb", "a\0b", "g/__vlmeta__"] {
            assert!(matches!(writer.put(key, &frame), Err(StoreError::Key(_))), "{key}");
        }
        assert!(matches!(writer.set_attribute("/g/a", "n", b"\x01"), Err(StoreError::Exists(_))));
        for group in ["/..", "../x", "a\\b", "g//h"] {
            assert!(matches!(writer.set_attribute(group, "n", b"\x01"), Err(StoreError::Key(_))), "{group}");
        }
        writer.finish().unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_key_with_two_files_is_replaced_and_removed_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.b2d");
    let mut writer = StoreWriter::create(&path, StoreLayout::Directory, false).unwrap();
    writer.put("/a", &bytes(b"first")).unwrap();
    writer.finish().unwrap();
    assert!(path.join("a.b2f").is_file());
    // An array would be written to a.b2nd, but readers would go on to find a.b2f.
    assert!(matches!(open(&path).place_for("/a", MemberKind::Array, true), Err(StoreError::Exists(_))));
    open(&path).place_for("/a", MemberKind::SuperChunk, true).unwrap();
    fs::copy(path.join("a.b2f"), path.join("a.b2nd")).unwrap();
    open(&path).remove("/a").unwrap();
    assert_eq!(open(&path).keys().count(), 0);
}
