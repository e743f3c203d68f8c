//! Tables of python-blosc2 (`CTable`): effects of changes of their members.
//!
//! A table is a group with the member `_meta`. Its columns are arrays of equal length below `_cols`, `_valid_rows` marks the
//! rows that exist, and indexes are below `_indexes`. `_meta` describes the indexes and counts the changes, which python-blosc2
//! compares before it uses them (docs/format/b2nd.md).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::format::indexes::{OutdatedIndexes, outdate_catalog};
use crate::storage::staging::Staging;
use crate::storage::traits::{FileKind, Links};
use crate::write::edit::FrameEditor;
use crate::write::options::{EditOptions, Tables, WriteOptions};
use crate::{FrameError, ReadOptions, SuperChunk};

/// The file that makes a directory a table.
const META: &str = "_meta.b2f";
/// The directories of a table, and the array that marks the rows that exist.
const DIRECTORIES: [&str; 2] = ["_cols", "_indexes"];
const ROWS: &str = "_valid_rows.b2nd";
/// The deepest store that b2kit reads.
const MAX_DEPTH: usize = 64;

const CATALOG: &str = "index_catalog";
const NO_INDEXES: &[u8] = b"\x80";
/// The description of the columns in JSON. The columns after this key are computed from others, and stored with this mark.
const SCHEMA: &str = "schema";
const GENERATED: &str = "\"materialized_columns\": [";
const CURRENT: &str = "\"stale\": false";
const OUTDATED: &str = "\"stale\": true";
/// Number of changes of values, and of rows that were added or removed.
const VALUES: &str = "value_epoch";
const VISIBILITY: &str = "visibility_epoch";

/// Returns whether a frame is the member `_meta` of a table.
pub fn is_table(frame: &SuperChunk) -> bool {
    matches!(frame.vlmetalayers().get("kind"), Ok(Some(kind)) if kind == b"\xa6ctable")
}

/// A table that has the file of a member.
#[derive(Clone, Debug)]
pub struct Table {
    meta: PathBuf,
    /// The path of the member in the table.
    member: PathBuf,
}

impl Table {
    /// Returns the table that has the member at a path, if any. Reads nothing unless the path is one of a member.
    pub fn of(path: &Path, options: &ReadOptions) -> Option<Self> {
        Self::find(path, options, |name| name == ROWS)
    }

    /// Returns the table that could not be read without the file, directory or key at a path, if any.
    pub fn needing(path: &Path, options: &ReadOptions) -> Option<Self> {
        Self::find(path, options, |name| {
            [META, ROWS].iter().any(|own| *own == name || Path::new(own).file_stem() == Some(name))
        })
    }

    fn find(path: &Path, options: &ReadOptions, is_own: impl Fn(&OsStr) -> bool) -> Option<Self> {
        let fs = options.frame_file_system();
        let real = fs.clone().writable().and_then(|fs| fs.resolve(path).ok());
        let path = std::path::absolute(real.as_deref().unwrap_or(path)).ok()?;
        let inside = |part: &OsStr| DIRECTORIES.iter().any(|name| part == *name);
        if !path.iter().any(inside) && path.file_name().is_none_or(|name| !is_own(name)) {
            return None;
        }
        path.ancestors().skip(1).take(MAX_DEPTH).find_map(|dir| {
            let meta = dir.join(META);
            let member = path.strip_prefix(dir).ok()?.to_owned();
            matches!(fs.kind(&meta, Links::Refuse), Ok(FileKind::File)).then_some(())?;
            let frame = options.clone().offset(0).open(&meta).ok()?;
            is_table(&frame).then_some(Self { meta, member })
        })
    }

    /// Prepares for the replacement of a file or directory: fails if it is a member of a table, unless that is allowed.
    pub(crate) fn before_replacement(path: &Path, options: &WriteOptions) -> Result<(), FrameError> {
        let Staging { fs, overwrite, durability } = &options.target;
        if !overwrite || options.tables == Tables::Ignored || fs.kind(path, Links::Follow).is_err() {
            return Ok(());
        }
        let read = ReadOptions { fs: fs.clone(), ..ReadOptions::default() };
        match Self::needing(path, &read) {
            None => Ok(()),
            Some(table) if options.tables == Tables::Marked => {
                table.outdate(true, &EditOptions::from(read).durability(*durability))
            }
            Some(table) => Err(FrameError::argument("overwrite", table.refusal())),
        }
    }

    /// Returns why the member cannot be removed or replaced.
    pub fn refusal(&self) -> String {
        format!(
            "{} belongs to a table of python-blosc2, which could not be read without it: change the table with \
             python-blosc2, or remove the member first (allow_table_edit=True)",
            self.member.display()
        )
    }

    /// Prepares for a commit that changes the member, which gets another size or not: checks it unless all is `allowed`, and
    /// marks the indexes of the table as outdated.
    pub(super) fn before(
        &self,
        resized: bool,
        allowed: bool,
        options: &EditOptions,
    ) -> Result<(), FrameError> {
        let is_rows = self.member.as_os_str() == ROWS;
        let name = self.member.display();
        let why = if is_rows {
            "marks the rows that exist, whose number python-blosc2 stores elsewhere as well"
        } else if resized {
            "would have another length than the other columns"
        } else {
            return self.outdate(false, options);
        };
        if !allowed {
            return Err(FrameError::argument(
                "change",
                format!(
                    "{name} belongs to a table of python-blosc2, and {why}: add and remove rows with python-blosc2, or \
                     allow it (--allow-table-edit, allow_table_edit=True)"
                ),
            ));
        }
        self.outdate(true, options)
    }

    /// Marks the indexes and the generated columns of the table as outdated and counts the change, as python-blosc2 does.
    pub fn outdate(&self, rows: bool, options: &EditOptions) -> Result<(), FrameError> {
        let mut meta = options.edit(&self.meta)?;
        let catalog = meta.vlmetalayers().chunk(CATALOG).unwrap_or_default().is_some();
        if catalog {
            let value = meta.vlmetalayers().get(CATALOG).ok().flatten();
            match value.map_or(OutdatedIndexes::Unreadable, |value| outdate_catalog(&value)) {
                OutdatedIndexes::Same => {}
                OutdatedIndexes::New(value) => meta.vlmeta().set(CATALOG, &value)?,
                OutdatedIndexes::Unreadable => meta.vlmeta().set(CATALOG, NO_INDEXES)?,
            }
        }
        let schema = meta.vlmetalayers().get(SCHEMA).ok().flatten();
        if let Some(schema) = schema.and_then(|schema| outdate_generated(&schema)) {
            meta.vlmeta().set(SCHEMA, &schema)?;
        }
        for epoch in [VALUES, VISIBILITY].into_iter().take(if rows { 2 } else { 1 }) {
            count(&mut meta, epoch)?;
        }
        meta.commit().map(drop)
    }
}

/// Marks all generated columns as outdated, whichever column has changed, given the value of [`SCHEMA`]. `None` if there is
/// none to be marked.
fn outdate_generated(schema: &[u8]) -> Option<Vec<u8>> {
    let (schema, _) = rmp::decode::read_str_from_slice(schema).ok()?;
    // In strings of JSON the quotes would be escaped, so these are keys.
    let (columns, generated) = schema.split_once(GENERATED)?;
    let marked = generated.replace(CURRENT, OUTDATED);
    let mut new = Vec::new();
    // Writing to memory does not fail.
    let _ = rmp::encode::write_str(&mut new, &[columns, GENERATED, &marked].concat());
    (marked != generated).then_some(new)
}

/// Adds 1 to a vlmetalayer that holds a number, whose default in python-blosc2 is 0.
pub fn count(editor: &mut FrameEditor, name: &str) -> Result<(), FrameError> {
    let old = editor.vlmetalayers().get(name).ok().flatten().unwrap_or_default();
    let old: u64 = rmp::decode::read_int(&mut old.as_slice()).unwrap_or_default();
    let mut new = Vec::new();
    // Writing to memory does not fail.
    let _ = rmp::encode::write_uint(&mut new, old.saturating_add(1));
    editor.vlmeta().set(name, &new)
}
