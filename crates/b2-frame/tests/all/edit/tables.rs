//! Changes of members of tables of python-blosc2 (`CTable`).

use std::path::{Path, PathBuf};

use b2_frame::{FrameEditor, FrameError, FrameParams, FrameWriter, SuperChunk, WriteOptions};

use super::options;
use crate::common::{self, data};

const ITEMS: usize = 4000;

/// Writes a frame of two chunks with these vlmetalayers.
fn frame(path: &Path, vlmeta: &[(&str, &[u8])]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, common::frame(&data(ITEMS, 1), ITEMS / 2, &common::cparams(4))).unwrap();
    let mut editor = options().ignore_tables().edit(path).unwrap();
    for (name, value) in vlmeta {
        editor.vlmeta().set(name, value).unwrap();
    }
    editor.commit().unwrap();
}

/// Writes a table and returns the paths of a column, of the rows, and of `_meta`.
fn table(dir: &Path) -> [PathBuf; 3] {
    let paths = ["_cols/deep/id.b2nd", "_valid_rows.b2nd", "_meta.b2f"].map(|name| dir.join(name));
    frame(&paths[0], &[]);
    frame(&paths[1], &[]);
    frame(&paths[2], &[("kind", b"\xa6ctable"), ("value_epoch", b"\xcc\xff")]);
    paths
}

fn change(editor: &mut FrameEditor) -> Result<(), FrameError> {
    let chunk = common::compress(&data(ITEMS / 2, 2), &common::cparams(4));
    editor.update(0, chunk)?;
    editor.commit().map(drop)
}

fn append(editor: &mut FrameEditor) -> Result<(), FrameError> {
    editor.append_bytes(&data(ITEMS / 2, 3))?;
    editor.commit().map(drop)
}

/// Returns the counters of changes of values and of rows, as stored.
fn epochs(meta: &Path) -> [Option<Vec<u8>>; 2] {
    let meta = SuperChunk::open(meta).unwrap();
    ["value_epoch", "visibility_epoch"].map(|name| meta.vlmetalayers().get(name).unwrap())
}

#[test]
fn a_changed_column_is_announced_to_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let [column, rows, meta] = table(dir.path());
    change(&mut options().edit(&column).unwrap()).unwrap();
    assert_eq!(epochs(&meta), [Some(b"\xcd\x01\x00".to_vec()), None]);
    // Another length needs permission, and so do other rows.
    for (path, step) in [(&column, append as fn(&mut FrameEditor) -> _), (&rows, change), (&rows, append)] {
        let before = std::fs::read(path).unwrap();
        let error = step(&mut options().edit(path).unwrap()).unwrap_err();
        assert!(error.to_string().contains("belongs to a table of python-blosc2"), "{error}");
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
    assert_eq!(epochs(&meta), [Some(b"\xcd\x01\x00".to_vec()), None]);
    append(&mut options().allow_table_edit(true).edit(&column).unwrap()).unwrap();
    change(&mut options().allow_table_edit(true).edit(&rows).unwrap()).unwrap();
    assert_eq!(epochs(&meta), [Some(b"\xcd\x01\x02".to_vec()), Some(b"\x02".to_vec())]);
    // Callers that maintain the table themselves mark it as changed.
    append(&mut options().ignore_tables().edit(&column).unwrap()).unwrap();
    assert_eq!(epochs(&meta), [Some(b"\xcd\x01\x02".to_vec()), Some(b"\x02".to_vec())]);
}

#[test]
fn columns_that_are_computed_from_others_are_marked_as_outdated() {
    let dir = tempfile::tempdir().unwrap();
    let [column, _, meta] = table(dir.path());
    // A mark inside a string of JSON stays as it is.
    let quoted = r#"{"columns": [{"default": "\"stale\": false", "stale": false}], "#;
    let schema = |stale: &str| {
        let generated =
            r#""materialized_columns": [{"name": "g", "expression": "\"stale\": false", "stale": "#;
        let mut value = vec![0xD9, 0];
        value.extend([quoted, generated, stale, r#"}, {"stale": true}]}"#].concat().bytes());
        value[1] = u8::try_from(value.len() - 2).unwrap();
        value
    };
    let stored = || SuperChunk::open(&meta).unwrap().vlmetalayers().get("schema").unwrap();
    for (before, after) in
        [(schema("false"), schema("true")), (schema("true"), schema("true")), (vec![7], vec![7])]
    {
        let mut editor = options().ignore_tables().edit(&meta).unwrap();
        editor.vlmeta().set("schema", &before).unwrap();
        editor.commit().unwrap();
        drop(editor);
        change(&mut options().edit(&column).unwrap()).unwrap();
        assert_eq!(stored(), Some(after));
    }
}

#[cfg(unix)]
#[test]
fn a_column_is_recognised_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let [column, _, meta] = table(&dir.path().join("table"));
    let link = dir.path().join("link.b2nd");
    std::os::unix::fs::symlink(&column, &link).unwrap();
    append(&mut options().edit(&link).unwrap()).unwrap_err();
    change(&mut options().edit(&link).unwrap()).unwrap();
    assert_eq!(epochs(&meta)[0].as_deref(), Some(&b"\xcd\x01\x00"[..]));
}

#[test]
fn other_files_with_such_names_are_no_members() {
    let dir = tempfile::tempdir().unwrap();
    let [column, ..] = table(&dir.path().join("table"));
    // No `_meta`, and one of something else.
    let alone = dir.path().join("_cols/id.b2nd");
    frame(&alone, &[]);
    append(&mut options().edit(&alone).unwrap()).unwrap();
    frame(&dir.path().join("_meta.b2f"), &[("kind", b"\xa5other")]);
    append(&mut options().edit(&alone).unwrap()).unwrap();
    append(&mut options().edit(&column).unwrap()).unwrap_err();
}

#[test]
fn members_of_tables_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let [column, rows, meta] = table(dir.path());
    let replace = |path: &Path, options: WriteOptions| {
        let mut writer = options.overwrite(true).create(path, FrameParams::new(4))?;
        writer.append(common::compress(&data(ITEMS, 7), &common::cparams(4)))?;
        writer.finish().map(drop)
    };
    for path in [&column, &rows, &meta] {
        let before = std::fs::read(path).unwrap();
        let refused = replace(path, FrameWriter::options()).unwrap_err();
        assert!(matches!(&refused, FrameError::Argument { .. }), "{refused}");
        assert!(refused.to_string().contains("belongs to a table"), "{refused}");
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
    assert_eq!(epochs(&meta), [Some(b"\xcc\xff".to_vec()), None]);
    replace(&column, FrameWriter::options().ignore_tables()).unwrap();
    assert_eq!(epochs(&meta), [Some(b"\xcc\xff".to_vec()), None]);
    replace(&column, FrameWriter::options().allow_table_edit(true)).unwrap();
    assert_eq!(epochs(&meta), [Some(b"\xcd\x01\x00".to_vec()), Some(b"\x01".to_vec())]);
    // New files of the table, and files outside it, are written.
    replace(&dir.path().join("_cols/new.b2nd"), FrameWriter::options()).unwrap();
    replace(&dir.path().join("free.b2nd"), FrameWriter::options()).unwrap();
    replace(&dir.path().join("free.b2nd"), FrameWriter::options()).unwrap();
}
