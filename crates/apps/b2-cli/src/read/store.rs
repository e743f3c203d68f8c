//! Stores of python-blosc2, opened by `b2-store` and shown by the command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use b2_store::{MemberLocation, StoreError};
use b2kit::frame::ReadOptions;
use b2kit::nd::Object;
use serde_json::json;

use super::input::{Input, cut_off_or};
use crate::args::Global;
use crate::files::recognition::open_regular;
use crate::files::{is_pipe, is_stdin, recognition, urls};
use crate::print::{count, printable};

/// Why a member cannot be changed.
pub(crate) const UNCHANGEABLE: &str = "only members of stores in directories (.b2d) can be changed";
/// Rows to count at a time.
const BATCH_ROWS: u64 = 16 << 20;

/// An open store.
pub(crate) struct Store {
    store: b2_store::Store,
    path: PathBuf,
    options: ReadOptions,
    global: Global,
}

impl Store {
    /// Opens the store at byte `offset` of `path`; `None` if it is something else, or for standard input.
    pub(crate) fn open(path: &Path, offset: u64, global: Global) -> Result<Option<Self>> {
        if is_stdin(path) || is_pipe(path) {
            return Ok(None);
        }
        if urls::is_url(path) {
            urls::kind(path)?;
        }
        let options = global.reading(path).offset(offset);
        let Some(store) = b2_store::Store::open(path, &options).map_err(|error| plain(error, path))? else {
            return refuse_archive(path, offset).map(|()| None);
        };
        Ok(Some(Self { store, path: path.to_owned(), options, global }))
    }

    /// The store in an open frame, the file at `path`; `None` if the frame is not a store.
    pub(crate) fn of(input: &Input, path: &Path, global: Global) -> Result<Option<Self>> {
        let Some(frame) = input.frame() else { return Ok(None) };
        let options = global.reading_stored(frame.header().frame_len());
        let store = b2_store::Store::from_frame(frame.clone()).map_err(|error| plain(error, path))?;
        Ok(store.map(|store| Self { store, path: path.to_owned(), options, global }))
    }

    /// The keys in order, except for those that python-blosc2 uses for attributes and indexes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.store.keys()
    }

    /// All keys in order, including those that python-blosc2 uses for attributes and indexes.
    pub(crate) fn every_key(&self) -> impl Iterator<Item = &str> {
        self.store.members().keys().map(String::as_str)
    }

    /// Compares the directory of an archive with the headers of its members.
    pub(crate) fn verify_directory(&self) -> Result<()> {
        self.store.verify_directory().map_err(|error| plain(error, &self.path))
    }

    /// Opens a member. The leading slash may be omitted.
    pub(crate) fn member(&self, key: &str) -> Result<Input> {
        let opened = || -> Result<Input> {
            let path = self.store.member(key).ok().and_then(|member| match &member.place {
                MemberLocation::Path(path) => Some(path),
                _ => None,
            });
            // The limits follow from the size of the member if it is a file, otherwise from that of the store.
            let options = path.map(|path| self.global.reading(path));
            let frame = self.store.frame(key, options.as_ref().unwrap_or(&self.options));
            let frame = frame.map_err(|error| match path {
                Some(path) => cut_off_or(path, plain(error, path)),
                None => plain(error, &self.path),
            })?;
            Input::of_frame(frame, self.global)
        };
        opened().with_context(|| format!("key {key}"))
    }

    /// Whether a member cannot be opened because it is a reference to a server, or compressed in an archive.
    pub(crate) fn is_unsupported(error: &Error) -> bool {
        let error = error.downcast_ref::<StoreError>();
        error.is_some_and(|error| matches!(error.detail(), StoreError::Unsupported(_)))
    }
}

/// A table of python-blosc2 (`CTable`) in a store.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The key of its group; `/` for the root.
    pub(crate) key: String,
    /// The names of the columns, each with python-blosc2's name of its type.
    pub(crate) columns: Vec<(String, String)>,
    pub(crate) rows: u64,
}

impl Table {
    /// The table in a few words.
    pub(crate) fn describe(&self) -> String {
        format!("table, {}, {}", count(self.columns.len() as u64, "column"), count(self.rows, "row"))
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let columns = self.columns.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
        json!({"kind": "ctable", "columns": columns.collect::<Vec<_>>(), "rows": self.rows})
    }
}

impl Store {
    /// The tables of python-blosc2 in the store.
    pub(crate) fn tables(&self) -> Result<Vec<Table>> {
        let groups = self.every_key().filter_map(|key| key.strip_suffix("/_meta"));
        let tables = groups.filter(|group| self.store.is_table(group, &self.options));
        tables.map(|group| self.table(group).with_context(|| format!("table {group}/"))).collect()
    }

    fn table(&self, group: &str) -> Result<Table> {
        let meta = self.store.frame(&format!("{group}/_meta"), &self.options)?;
        let schema = meta.vlmetalayers().get("schema")?.context("there is no schema")?;
        let schema = Object::decode("schema", &schema, &meta.dparams().limits)?;
        let Object::Text(schema) = schema else { bail!("the schema is not text") };
        let schema: serde_json::Value = serde_json::from_str(&schema).context("the schema is not JSON")?;
        let columns = schema["columns"].as_array().context("the schema has no columns")?;
        let text = |column: &serde_json::Value, name| column[name].as_str().unwrap_or_default().to_owned();
        let columns = columns.iter().map(|column| (text(column, "name"), text(column, "kind")));
        let key = if group.is_empty() { "/".to_owned() } else { group.to_owned() };
        Ok(Table { key, columns: columns.collect(), rows: self.rows(group)? })
    }

    /// Counts the rows of a table.
    fn rows(&self, group: &str) -> Result<u64> {
        let input = self.member(&format!("{group}/_valid_rows"))?;
        let Input::Array(array) = &input else { bail!("_valid_rows is not an array") };
        let [len] = *array.shape() else { bail!("_valid_rows has {} dimensions", array.shape().len()) };
        ensure!(array.itemsize() == 1, "the items of _valid_rows have {} bytes", array.itemsize());
        let (mut rows, mut at) = (0, 0);
        while at < len {
            let end = at.saturating_add(BATCH_ROWS).min(len);
            let items = array.slice(at..end)?.read_bytes()?;
            rows += items.iter().filter(|item| **item != 0).count() as u64;
            at = end;
        }
        Ok(rows)
    }

    /// The attributes of a group; none if it has none.
    #[cfg(feature = "hdf5")]
    pub(crate) fn attributes(&self, group: &str) -> Result<Vec<(String, rmpv::Value)>> {
        let found = self.store.attributes(group, &self.options).map_err(|error| plain(error, &self.path))?;
        let Some(frame) = found else { return Ok(Vec::new()) };
        let mut layers = Vec::new();
        for (name, _) in frame.vlmetalayers().iter() {
            if let Some(value) = frame.vlmetalayers().get(name)? {
                layers.push((String::from_utf8_lossy(name).into_owned(), value));
            }
        }
        Ok(b2_hdf5::attributes_of(&layers))
    }
}

/// The file of a member of a store that can be changed, a directory. A small member, in a frame with others, is moved to
/// a separate file first.
///
/// # Errors
/// Fails if there is no such store or member, or if the store cannot be changed.
pub(crate) fn file_of(path: &Path, key: &str, lock: bool, global: Global) -> Result<PathBuf> {
    let options = global.reading(path);
    let store = b2_store::Store::open(path, &options).map_err(|error| plain(error, path))?;
    let store = store.context(UNCHANGEABLE)?.lock(lock);
    store.file_of(key, &options).map_err(|error| plain(error, path))
}

/// The error as the command reports it, whose context names the file.
fn plain(error: StoreError, path: &Path) -> Error {
    match error {
        StoreError::Frame(error) => error.into(),
        StoreError::Io { name, source, .. } if Path::new(&name) == path => source.into(),
        StoreError::NoSuchKey(_) => anyhow!("there is no such key; `b2kit ls` lists them"),
        error => error.into(),
    }
}

/// Rejects archives of other formats, with their names.
fn refuse_archive(path: &Path, offset: u64) -> Result<()> {
    if offset > 0 || urls::is_url(path) || !path.is_file() {
        return Ok(());
    }
    let file = open_regular(path)?;
    let len = file.len()?;
    let head = file.read_at(0..recognition::LOOK.min(len))?;
    match recognition::recognise(path, &head, len).filter(|_| head.starts_with(b"PK")) {
        Some(found) => bail!("not a store of Blosc2 files but {}: {}", found.what, found.hint),
        None => Ok(()),
    }
}

/// Formats the keys as a tree, one per line. `describe` describes a member.
pub(crate) fn tree<'a>(
    keys: impl Iterator<Item = &'a str>,
    mut describe: impl FnMut(&str) -> String,
) -> String {
    #[derive(Default)]
    struct Node<'a> {
        key: Option<&'a str>,
        inner: BTreeMap<&'a str, Node<'a>>,
    }
    let mut root = Node::default();
    for key in keys {
        let mut node = &mut root;
        for part in key.split('/').filter(|part| !part.is_empty()) {
            node = node.inner.entry(part).or_default();
        }
        node.key = Some(key);
    }
    let mut out = String::new();
    // Depth first, without recursion, since keys may be nested deeply.
    let mut stack: Vec<(String, &str, &Node<'_>, bool)> = Vec::new();
    for (i, (name, node)) in root.inner.iter().rev().enumerate() {
        stack.push((String::new(), name, node, i == 0));
    }
    while let Some((indent, name, node, last)) = stack.pop() {
        let details = node.key.map(&mut describe).unwrap_or_default();
        let line = format!("{indent}{} {}  {details}", if last { "└──" } else { "├──" }, printable(name));
        out.push_str(line.trim_end());
        out.push('\n');
        let indent = format!("{indent}{}", if last { "    " } else { "│   " });
        for (i, (name, node)) in node.inner.iter().rev().enumerate() {
            stack.push((indent.clone(), name, node, i == 0));
        }
    }
    out
}
