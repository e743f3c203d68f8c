//! Stores of python-blosc2: several frames under keys, in one frame (`.b2e`), in a directory (`.b2d`) or in a zip
//! archive (`.b2z`), told apart by content.
//!
//! Keys only select from what was listed and are never used as paths, so none can lead out of the store.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use b2kit::SuperChunk;
use b2kit::frame::{FileKind, FrameFile, FrameFiles, INDEX_NAME, OpenFile, ReadAt};
use b2kit::frame::{FrameError, Storage};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipLocator};
use rmpv::Value;

use crate::args::Global;
use crate::foreign;
use crate::input::{Input, open_regular};
use crate::stdio::is_stdin;
use crate::web;

/// Name of the frame with small members, in directories and archives.
const EMBEDDED: &str = "embed.b2e";
/// Metalayers that mark frames with embedded members.
const MARKS: [&str; 3] = ["b2embed", "b2dict", "b2tree"];
/// The vlmetalayer with the positions of the embedded members.
const MAP: &str = "estore_metadata";
/// Extensions of the names of members in directories and archives; they are not part of the key.
const SUFFIXES: [&str; 4] = [".b2nd", ".b2f", ".b2b", ".b2e"];
/// Suffix of members with the attributes of a group, which python-blosc2 does not list.
const HIDDEN: &str = "__vlmeta__";
/// Maximum nesting of directories.
const MAX_DEPTH: usize = 64;
/// Maximum number of members of a directory or archive.
const MAX_MEMBERS: usize = 1 << 20;

/// Where a member is.
#[derive(Clone, Debug)]
enum Place {
    /// A file, or the directory of a sparse frame.
    Path(PathBuf),
    /// A range of bytes of the archive.
    Inside { offset: u64, len: u64 },
    /// Stored in the archive in a form that cannot be read in place.
    Packed(CompressionMethod),
    /// A range of uncompressed bytes of the frame with small members.
    Embedded { offset: u64, len: u64 },
}

/// An open store: the keys and where their members are.
pub(crate) struct Store {
    path: PathBuf,
    global: Global,
    members: BTreeMap<String, Place>,
    embedded: Option<SuperChunk>,
}

impl Store {
    /// Opens the store at byte `offset` of `path`; `None` if there is something else, or for standard input.
    ///
    /// # Errors
    /// Fails if the store is damaged, or cannot be read.
    pub(crate) fn open(path: &Path, offset: u64, global: Global) -> Result<Option<Self>> {
        if is_stdin(path) {
            return Ok(None);
        }
        let mut store = Self { path: path.to_owned(), global, members: BTreeMap::new(), embedded: None };
        let (is_dir, is_file) = match web::is_url(path) {
            true => (false, web::kind(path)? == FileKind::File),
            false => {
                let there = fs::metadata(path)?;
                (there.is_dir(), there.is_file())
            }
        };
        if is_dir {
            if path.join(INDEX_NAME).exists() || !has_member(path) {
                return Ok(None);
            }
            store.list_directory(path, "", 0)?;
        } else if is_file {
            let start = start_of(path, offset)?;
            if offset == 0 && (start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06")) {
                store.list_archive(path)?;
                if store.members.is_empty()
                    && let Some(found) =
                        foreign::recognise(path, &start_of_archive(path)?, open_regular(path)?.len()?)
                {
                    bail!("not a store of Blosc2 files but {}: {}", found.what, found.hint);
                }
            } else if start.len() == 4 && b2kit::frame::MAGIC.starts_with(&start) {
                // Errors of the frame are reported when it is opened as a frame.
                let Ok(frame) = global.reading(path).offset(offset).open(path) else { return Ok(None) };
                if !is_store(&frame) {
                    return Ok(None);
                }
                store.list_embedded(frame)?;
            } else {
                return Ok(None);
            }
        } else {
            return Ok(None);
        }
        match store.members.remove("/embed") {
            Some(Place::Path(path)) => store.list_embedded(global.reading(&path).open(&path)?)?,
            Some(Place::Inside { offset, len }) => {
                let frame = global.reading(path).offset(offset).open(path)?;
                check_len(frame.header().frame_len(), len).context(EMBEDDED)?;
                store.list_embedded(frame)?;
            }
            Some(Place::Packed(method)) => bail!("{EMBEDDED}: {}", packed(method)),
            Some(embedded) => drop(store.members.insert("/embed".into(), embedded)),
            None => {}
        }
        Ok(Some(store))
    }

    /// The keys in order, except for those that python-blosc2 uses for attributes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str).filter(|key| !key.ends_with(HIDDEN))
    }

    /// All keys in order, including those that python-blosc2 uses for attributes.
    pub(crate) fn every_key(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Opens a member. The leading slash may be omitted.
    ///
    /// # Errors
    /// Fails if the key does not exist, or if the member cannot be opened.
    pub(crate) fn member(&self, key: &str) -> Result<Input> {
        let place = self.members.get(key).or_else(|| self.members.get(&format!("/{key}")));
        let opened = || -> Result<Input> {
            match place.context("there is no such key; `b2kit ls` lists them")? {
                Place::Path(path) => Input::open(path, 0, self.global),
                Place::Inside { offset, len } => {
                    let input = Input::open(&self.path, *offset, self.global)?;
                    let stored = match (&input, input.frame()) {
                        (_, Some(frame)) => frame.header().frame_len(),
                        (Input::Chunk(chunk), _) => chunk.cbytes() as u64,
                        _ => 0,
                    };
                    check_len(stored, *len)?;
                    Ok(input)
                }
                Place::Packed(method) => bail!("{}", packed(*method)),
                Place::Embedded { offset, len } => {
                    let frame = self.embedded.clone().context("no frame for it")?;
                    // Derive the limits from the frame only: for the whole directory, it would be listed again for each
                    // member.
                    let options = self.global.reading_stored(frame.header().frame_len());
                    let part = Part { frame, offset: *offset, len: *len };
                    let file = OpenFile::new(Arc::new(part), key, 0)?;
                    Input::from_frame(options.open_files(
                        Arc::new(Whole(file)),
                        Storage::Contiguous,
                        false,
                    )?)
                }
            }
        };
        opened().with_context(|| format!("key {key}"))
    }

    fn insert(&mut self, key: String, place: Place) -> Result<()> {
        ensure!(self.members.len() < MAX_MEMBERS, "more than {MAX_MEMBERS} members");
        // The depth of a member of the deepest directory. It is limited because a tree is indented, so that its size
        // grows with the square of the depth.
        let depth = key.split('/').count();
        ensure!(
            depth <= MAX_DEPTH + 2,
            "a key is nested {depth} deep, at most {} are allowed",
            MAX_DEPTH + 2
        );
        match (self.members.get(&key), &place) {
            // The names differ only in their extension. Which one is used must not depend on the order of the
            // directory.
            (Some(Place::Path(there)), Place::Path(path)) if there < path => {}
            // In archives the last one is used, as in Python.
            _ => drop(self.members.insert(key, place)),
        }
        Ok(())
    }

    fn list_directory(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<()> {
        ensure!(depth <= MAX_DEPTH, "directories are nested more than {MAX_DEPTH} deep");
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // The type of the entry itself, so that links are skipped.
            let kind = entry.file_type()?;
            let path = entry.path();
            match key_of(&name) {
                Some(key) if kind.is_file() || kind.is_dir() && path.join(INDEX_NAME).exists() => {
                    self.insert(format!("{prefix}/{key}"), Place::Path(path))?;
                }
                _ if kind.is_dir() => self.list_directory(&path, &format!("{prefix}/{name}"), depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn list_archive(&mut self, path: &Path) -> Result<()> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let file = Archive(open_regular(path)?);
        let end = file.0.len()?;
        let located = ZipLocator::new().locate_in_reader(file, &mut buffer, end);
        let archive = located.map_err(|(_, error)| error).context("zip archive")?;
        let mut found = Vec::new();
        let mut entries = archive.entries(&mut buffer);
        while let Some(entry) = entries.next_entry().context("zip archive")? {
            let name = entry.file_path();
            let Ok(name) = std::str::from_utf8(name.as_bytes()) else { continue };
            let (folder, last) = name.rsplit_once('/').map_or(("", name), |(folder, last)| (folder, last));
            if let Some(key) = key_of(last) {
                check_name(name)?;
                let folder = if folder.is_empty() { String::new() } else { format!("/{folder}") };
                ensure!(found.len() < MAX_MEMBERS, "more than {MAX_MEMBERS} members");
                found.push((format!("{folder}/{key}"), entry.compression_method(), entry.wayfinder()));
            }
        }
        for (key, method, wayfinder) in found {
            let place = if method == CompressionMethod::STORE {
                // Take the range from the member's own header, since its length may differ from that in the directory.
                let entry =
                    archive.get_entry(wayfinder).with_context(|| format!("zip archive, member {key}"))?;
                let (offset, end) = entry.compressed_data_range();
                Place::Inside { offset, len: end.saturating_sub(offset) }
            } else {
                Place::Packed(method)
            };
            self.insert(key, place)?;
        }
        Ok(())
    }

    fn list_embedded(&mut self, frame: SuperChunk) -> Result<()> {
        let map = frame.vlmetalayers().get(MAP)?.unwrap_or_default();
        let map = crate::json::read_value(&map).with_context(|| format!("{MAP} is not msgpack"))?;
        let entries = get(&map, "embed_map").and_then(Value::as_map);
        for (key, value) in entries.map(Vec::as_slice).unwrap_or_default() {
            let number = |name| get(value, name).and_then(Value::as_u64);
            let (Some(key), Some(offset), Some(len)) = (key.as_str(), number("offset"), number("length"))
            else {
                bail!("{MAP}: an entry is malformed");
            };
            let inside = offset.checked_add(len).is_some_and(|end| end <= frame.nbytes());
            ensure!(inside, "{MAP}: key {key}: bytes {offset} + {len} are outside the frame");
            self.insert(key.to_owned(), Place::Embedded { offset, len })?;
        }
        self.embedded = Some(frame);
        Ok(())
    }
}

/// Checks that a member is not longer than its place in the archive, since it would reach into its neighbours.
fn check_len(stored: u64, room: u64) -> Result<()> {
    ensure!(stored <= room, "has {stored} bytes, its place in the archive {room}");
    Ok(())
}

fn packed(method: CompressionMethod) -> String {
    format!("compressed in the archive ({method}), must be stored; unpack the archive and use the directory")
}

fn get<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

/// Whether the frame has embedded members.
pub(crate) fn is_store(frame: &SuperChunk) -> bool {
    MARKS.iter().any(|mark| frame.metalayers().get(mark).is_some())
        && frame.vlmetalayers().iter().any(|(name, _)| name == MAP.as_bytes())
}

/// Whether the directory, or one of its subdirectories, has an entry with the name of a member.
pub(crate) fn has_member(dir: &Path) -> bool {
    let names = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let is_member = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(key_of).is_some();
    names(dir).any(|entry| {
        is_member(&entry)
            || entry.file_type().is_ok_and(|kind| kind.is_dir())
                && names(&entry.path()).any(|e| is_member(&e))
    })
}

/// The last part of the key for a file name.
fn key_of(name: &str) -> Option<&str> {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).filter(|key| !key.is_empty())
}

/// Rejects names that would lead out of a directory.
fn check_name(name: &str) -> Result<()> {
    let bad = name.contains(['\\', '\0']) || name.split('/').any(|part| matches!(part, "" | "." | ".."));
    ensure!(!bad, "zip archive: the member name {name:?} is no path inside the archive");
    Ok(())
}

/// Reads enough of an archive to recognise its first member.
fn start_of_archive(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let len = file.len()?;
    Ok(file.read_at(0..foreign::LOOK.min(len))?.to_vec())
}

fn start_of(path: &Path, offset: u64) -> Result<Vec<u8>> {
    let file = open_regular(path)?;
    let len = file.len()?;
    Ok(file.read_at(offset.min(len)..offset.saturating_add(4).min(len))?.to_vec())
}

/// Adapts a file to the reader of archives.
struct Archive(Arc<dyn ReadAt>);

impl ReaderAt for Archive {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = self.0.len()?.saturating_sub(offset);
        let count = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Some(buf) = buf.get_mut(..count) {
            self.0.read_exact_at(offset, buf)?;
        }
        Ok(count)
    }
}

/// A range of the uncompressed bytes of a frame, decoded on demand.
struct Part {
    frame: SuperChunk,
    offset: u64,
    len: u64,
}

impl ReadAt for Part {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The whole range is known to be inside the frame.
        self.frame.read_bytes_into(self.offset + offset, buf).map_err(io::Error::other)
    }
}

/// A contiguous frame in such a range.
struct Whole(OpenFile);

impl FrameFiles for Whole {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        match file {
            FrameFile::Main => Ok(self.0.clone()),
            FrameFile::Chunk(_) => Err(FrameError::NotAFrame),
        }
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
        let told = node.key.map(&mut describe).unwrap_or_default();
        let line = format!("{indent}{} {name}  {told}", if last { "└──" } else { "├──" });
        out.push_str(line.trim_end());
        out.push('\n');
        let indent = format!("{indent}{}", if last { "    " } else { "│   " });
        for (i, (name, node)) in node.inner.iter().rev().enumerate() {
            stack.push((indent.clone(), name, node, i == 0));
        }
    }
    out
}
