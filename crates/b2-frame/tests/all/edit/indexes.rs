//! The vlmetalayer in which python-blosc2 describes its indexes.

use super::*;

const NAME: &str = "blosc2_indexes";

/// `{"version": 1, "indexes": {"__self__": {"kind": "full", "stale": <stale>}}}`
fn value(stale: bool) -> Vec<u8> {
    let mut value = b"\x82\xa7version\x01\xa7indexes\x81\xa8__self__\x82\xa4kind\xa4full\xa5stale".to_vec();
    value.push(0xC2 | u8::from(stale));
    value
}

fn described(editor: &FrameEditor) -> Option<Vec<u8>> {
    editor.vlmetalayers().get(NAME).unwrap()
}

#[test]
fn each_commit_of_changed_items_marks_them() {
    type Change = fn(&mut FrameEditor);
    let changes: [(&str, Change); 7] = [
        ("append", |editor| editor.append_bytes(&[1, 2]).unwrap()),
        ("write", |editor| editor.write_bytes(3, &[9]).unwrap()),
        ("update", |editor| editor.update_bytes(1, &[7; 8]).unwrap()),
        ("insert", |editor| editor.insert_bytes(0, &[7; 8]).unwrap()),
        ("delete", |editor| editor.delete(0).unwrap()),
        ("reorder", |editor| editor.reorder(&[1, 0, 2]).unwrap()),
        ("metalayer", |editor| editor.set_metalayer("shape", b"4321").unwrap()),
    ];
    for storage in HOMES {
        for (name, change) in changes {
            let params = FrameParams::new(1).chunksize(8).metalayer("shape", b"1234");
            let mut home = Home::new(storage, params);
            let mut editor = home.edit();
            editor.append_bytes(&[5; 24]).unwrap();
            editor.vlmeta().set(NAME, &value(false)).unwrap();
            editor.vlmeta().set("other", b"\x01").unwrap();
            editor.commit().unwrap();
            assert_eq!(described(&editor), Some(value(false)), "{name}: set after the change");
            // Neither attributes nor rewriting change items.
            editor.vlmeta().set("other", b"\x02").unwrap();
            editor.commit().unwrap();
            editor.compact().unwrap();
            assert_eq!(described(&editor), Some(value(false)), "{name}: nothing changed");
            change(&mut editor);
            editor.rollback();
            editor.commit().unwrap();
            assert_eq!(described(&editor), Some(value(false)), "{name}: rolled back");
            change(&mut editor);
            editor.commit().unwrap();
            assert_eq!(described(&editor), Some(value(true)), "{name}");
            assert_eq!(editor.vlmetalayers().get("other").unwrap(), Some(vec![2]));
            // Later settings of the caller apply.
            editor.vlmeta().set(NAME, &value(false)).unwrap();
            editor.commit().unwrap();
            assert_eq!(described(&editor), Some(value(false)), "{name}: set again");
        }
    }
}

#[test]
fn what_cannot_be_read_is_removed() {
    for bad in [&b"\x81\xa7indexes\x07"[..], b"", b"\xc1", b"\x81\xa7indexes\x81"] {
        let mut home = Home::new(None, FrameParams::new(1).chunksize(8));
        let mut editor = home.edit();
        editor.append_bytes(&[5; 24]).unwrap();
        editor.vlmeta().set(NAME, bad).unwrap();
        editor.commit().unwrap();
        editor.write_bytes(0, &[1]).unwrap();
        editor.commit().unwrap();
        assert_eq!(described(&editor), None, "{bad:?}");
    }
}

#[test]
fn copies_do_not_have_them() {
    let mut home = Home::new(None, FrameParams::new(1).chunksize(8));
    let mut editor = home.edit();
    editor.append_bytes(&[5; 24]).unwrap();
    editor.vlmeta().set(NAME, &value(false)).unwrap();
    editor.vlmeta().set("other", b"\x01").unwrap();
    let mut writer = FrameWriter::memory(FrameParams::new(1).chunksize(8)).unwrap();
    editor.snapshot().unwrap().copy_into(&mut writer, None, None).unwrap();
    let copy = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    assert!(copy.vlmetalayers().names().eq(["other"]));
}
