//! Writing new stores.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use b2_frame::{
    Disk, Durability, EditOptions, Extent, FileSystem, FrameEditor, FrameFile, FrameParams, FrameWriter,
    INDEXES, ReadOptions, Storage, SuperChunk, refuse_device,
};
use rawzip::ZipArchiveWriter;
use rawzip::path::EntryPath;
use tempfile::TempDir;

use crate::StoreError;
use crate::change::{Attributes, check_unused, empty_frame_params, write_attributes};
use crate::members::kind_of;
use crate::names::{self, ATTRIBUTES, EMBEDDED, EMBEDDED_MAP, MAX_MEMBERS, last_part};
use crate::store::Store;
use crate::table;

/// Chunk size of the frame for small members, as python-blosc2 creates it, in bytes.
const EMBEDDED_CHUNKSIZE: usize = 1 << 13;
/// Number of bytes copied at a time.
const COPY_LEN: u64 = 1 << 20;

/// The layout of a store on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreLayout {
    /// A directory with a file per member, as in `TreeStore`: `.b2d`.
    Directory,
    /// A zip archive of these files: `.b2z`.
    Archive,
    /// One frame whose bytes are the members, as in `EmbedStore`: `.b2e`.
    Frame,
}

/// Writes a new store, which appears under its name when it is [finished](Self::finish). Dropping it before leaves
/// nothing behind.
pub struct StoreWriter {
    target: PathBuf,
    overwrite: bool,
    /// Must come before `staging`: Windows removes a directory only when no file in it is open.
    inner: LayoutWriter,
    /// A directory next to the target; the store is `new` in it.
    staging: TempDir,
    members: BTreeSet<String>,
    groups: BTreeSet<String>,
    attributes: BTreeMap<String, Attributes>,
    /// Whether a member could not be written, so that the store is incomplete.
    failed: bool,
}

enum LayoutWriter {
    Directory(PathBuf),
    Archive(ZipArchiveWriter<File>),
    Frame { editor: Box<FrameEditor>, map: Vec<(String, u64, u64)> },
}

impl std::fmt::Debug for StoreWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreWriter")
            .field("target", &self.target)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl StoreWriter {
    /// Starts a store. With `overwrite`, a file of this name is replaced; a directory never is.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the path is taken, [`StoreError::Io`] or [`StoreError::Frame`] when nothing can be
    /// created next to it.
    pub fn create(path: impl AsRef<Path>, layout: StoreLayout, overwrite: bool) -> Result<Self, StoreError> {
        let mut target = std::path::absolute(path.as_ref()).map_err(StoreError::io(path.as_ref()))?;
        check_target(&target, layout, overwrite)?;
        if target.is_symlink() {
            // Keep the user's link and replace its target.
            target = Disk.resolve(&target).map_err(StoreError::io(&target))?;
        }
        let parent = target.parent().unwrap_or(&target);
        let staging = tempfile::Builder::new().prefix(".b2kit-").suffix(".tmp").tempdir_in(parent);
        let staging = staging.map_err(StoreError::io(&target))?;
        let new = staging.path().join("new");
        let inner = match layout {
            StoreLayout::Directory => {
                fs::create_dir(&new).map_err(StoreError::io(&target))?;
                LayoutWriter::Directory(new)
            }
            StoreLayout::Archive => LayoutWriter::Archive(ZipArchiveWriter::new(
                File::create_new(new).map_err(StoreError::io(&target))?,
            )),
            StoreLayout::Frame => {
                let editor = FrameEditor::create(new, embedding("b2embed"), &FrameWriter::options())?;
                LayoutWriter::Frame { editor: Box::new(editor), map: Vec::new() }
            }
        };
        let (members, groups) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self {
            target,
            overwrite,
            staging,
            inner,
            members,
            groups,
            attributes: BTreeMap::new(),
            failed: false,
        })
    }

    /// Adds a member: a copy of the frame, byte by byte if it is contiguous. The description of python-blosc2's indexes
    /// of an array is left out, since they are not copied.
    ///
    /// # Errors
    /// [`StoreError::Key`] when the key is not a relative path, [`StoreError::Exists`] when it is taken;
    /// [`StoreError::Frame`] when the frame cannot be read; [`StoreError::Io`] or [`StoreError::Frame`] when the copy
    /// cannot be written; [`StoreError::Unsupported`] when an archive cannot store the name, or the store has too many
    /// members. If writing has begun, the store is incomplete, and cannot be finished.
    pub fn put(&mut self, key: &str, frame: &SuperChunk) -> Result<(), StoreError> {
        let key = self.take(key)?;
        let written = self.write(&key, frame);
        self.failed |= written.is_err();
        written
    }

    /// Adds a member that `write` writes as a contiguous frame: a new file at the path that it gets, which is on the same
    /// file system as the store. In a directory this file becomes the member; in other layouts it is copied and removed.
    /// If `write` fails, the store is incomplete, and cannot be finished.
    ///
    /// ```
    /// # use b2_store::{StoreError, StoreLayout, StoreWriter};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("new.b2d");
    /// let mut store = StoreWriter::create(&path, StoreLayout::Directory, false)?;
    /// store.put_with("counts", |path| {
    ///     b2nd::ArrayBuilder::new::<u32>([4]).write(path, b2nd::source::arange(0_u32, 1))?;
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// store.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `write`; otherwise as for [`put`](Self::put).
    pub fn put_with<T, E: From<StoreError>>(
        &mut self,
        key: &str,
        write: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<T, E> {
        let key = self.take(key)?;
        let path = self.staging.path().join("member");
        let written = write(&path).and_then(|value| Ok(self.adopt(&key, &path).map(|()| value)?));
        self.failed |= written.is_err();
        written
    }

    /// Makes a frame in the staging directory a member.
    fn adopt(&mut self, key: &str, path: &Path) -> Result<(), StoreError> {
        let frame = SuperChunk::open(path)?;
        let name = format!("{}{}", key.trim_start_matches('/'), names::suffix(kind_of(&frame)));
        let member = match &self.inner {
            LayoutWriter::Directory(root) if !has_indexes(&frame) => root.join(name),
            _ => {
                self.write(key, &frame)?;
                drop(frame);
                return fs::remove_file(path).map_err(StoreError::io(&self.target));
            }
        };
        // Windows renames no open files.
        drop(frame);
        let renamed = (|| {
            // Windows syncs only files that are open for writing.
            File::options().write(true).open(path)?.sync_all()?;
            if let Some(parent) = member.parent() {
                fs::create_dir_all(parent)?;
            }
            refuse_device(&member)?;
            Disk.rename_new(path, &member)
        })();
        renamed.map_err(StoreError::io(&self.target))
    }

    /// Sets an attribute of a group, which need not have members. The value is msgpack; the root is `""`.
    ///
    /// # Errors
    /// [`StoreError::Key`] when the group is not a relative path, [`StoreError::Exists`] when a member of that name
    /// exists.
    pub fn set_attribute(
        &mut self,
        group: &str,
        name: impl AsRef<[u8]>,
        value: &[u8],
    ) -> Result<(), StoreError> {
        let key = names::member_of(group, ATTRIBUTES);
        names::parts(&key)?;
        if self.members.contains(names::absolute(group).as_str()) {
            return Err(StoreError::Exists(format!("{group}: a member of that name exists")));
        }
        self.note_groups(&key);
        self.attributes.entry(key).or_default().set(name.as_ref(), value.to_vec());
        Ok(())
    }

    /// Adds the members and attributes of a group of another store, and of the groups below it; the root is `""`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] when there is no such group; as for [`Store::frame`] when a member cannot be opened;
    /// otherwise as for [`put`](Self::put). If a member cannot be copied, the store cannot be finished.
    pub fn copy(&mut self, store: &Store, group: &str, options: &ReadOptions) -> Result<(), StoreError> {
        let copied = self.copy_below(store, group, options);
        self.failed |= copied.is_err();
        copied
    }

    fn copy_below(&mut self, store: &Store, group: &str, options: &ReadOptions) -> Result<(), StoreError> {
        let start = format!("{}/", names::absolute(group).trim_end_matches('/'));
        if start != "/" && !store.members().keys().any(|key| key.starts_with(&start)) {
            return Err(StoreError::NoSuchKey(group.to_owned()));
        }
        let members = store.members().keys().filter(|key| !table::is_index(last_part(key)));
        let below = members.filter_map(|key| Some((key, key.strip_prefix(&start)?)));
        for (key, relative) in below {
            let frame = store.frame(key, options)?;
            let (group, name) = relative.rsplit_once('/').unwrap_or(("", relative));
            if name != ATTRIBUTES {
                self.put(relative, &frame)?;
                continue;
            }
            for (name, _) in frame.vlmetalayers().iter() {
                let value = frame.vlmetalayers().get(name)?.unwrap_or_default();
                self.set_attribute(group, name, &value)?;
            }
        }
        Ok(())
    }

    /// Completes the store, syncs it, and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] when an earlier member could not be written; [`StoreError::Io`] or
    /// [`StoreError::Frame`] when something cannot be written now; [`StoreError::Exists`]
    /// when the path has been taken in the meantime.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if self.failed {
            let what = "a member could not be written, so the store is incomplete".to_owned();
            return Err(StoreError::Unsupported(what));
        }
        for (key, attributes) in std::mem::take(&mut self.attributes) {
            let frame =
                write_attributes(FrameWriter::memory(empty_frame_params())?, &attributes)?.into_bytes();
            self.write(&key, &SuperChunk::from_bytes(frame)?)?;
        }
        let new = self.staging.path().join("new");
        let io = || StoreError::io(&self.target);
        if !matches!(self.inner, LayoutWriter::Frame { .. }) {
            let mut empty = FrameWriter::memory(embedding("b2tree"))?;
            empty.set_vlmetalayer(EMBEDDED_MAP, &encode(&[], 0))?;
            let empty = SuperChunk::from_bytes(empty.finish()?.into_bytes())?;
            write_file(&mut self.inner, EMBEDDED, &empty).map_err(|error| error.or(&self.target))?;
        }
        let layout = match self.inner {
            LayoutWriter::Directory(root) => {
                sync_dirs(&root).map_err(io())?;
                StoreLayout::Directory
            }
            LayoutWriter::Archive(writer) => {
                let file = writer.finish().map_err(into_io).map_err(io())?;
                file.sync_all().map_err(io())?;
                StoreLayout::Archive
            }
            LayoutWriter::Frame { mut editor, map } => {
                let end = editor.nbytes();
                editor.vlmeta().set(EMBEDDED_MAP, &encode(&map, end))?;
                editor.commit()?;
                StoreLayout::Frame
            }
        };
        let taken = check_target(&self.target, layout, self.overwrite)?;
        if taken {
            Disk.copy_attributes(&self.target, &new).map_err(io())?;
        }
        match self.overwrite || layout == StoreLayout::Directory {
            true => Disk.rename(&new, &self.target),
            false => Disk.rename_new(&new, &self.target),
        }
        .map_err(io())?;
        let parent = self.target.parent().unwrap_or(&self.target);
        Disk.sync_dir(parent).map_err(StoreError::io(parent))
    }

    /// Reserves the key of a new member.
    fn take(&mut self, key: &str) -> Result<String, StoreError> {
        names::parts(key)?;
        let key = names::absolute(key);
        let (members, groups) = (&self.members, &self.groups);
        check_unused(&key, false, |key| members.contains(key), |group| groups.contains(group))?;
        if members.len() >= MAX_MEMBERS {
            return Err(StoreError::Unsupported(format!("a store holds at most {MAX_MEMBERS} members")));
        }
        self.note_groups(&key);
        self.members.insert(key.clone());
        Ok(key)
    }

    /// Copies a frame without the description of its indexes.
    fn without_indexes(&self, frame: &SuperChunk) -> Result<SuperChunk, StoreError> {
        let path = self.staging.path().join("copy");
        let io = || StoreError::io(&self.target);
        let mut file = File::create(&path).map_err(io())?;
        copy(frame, |piece| file.write_all(piece).map_err(WriteFailure::Io))
            .map_err(|error| error.or(&self.target))?;
        drop(file);
        let (limits, plugins) = (frame.dparams().limits.clone(), frame.dparams().plugins.clone());
        let read = ReadOptions::default().limits(limits).plugins(plugins);
        let edit = EditOptions::from(read.clone()).lock(false).durability(Durability::None);
        let mut editor = edit.many_vlmetalayers(true).edit(&path)?;
        editor.vlmeta().remove(INDEXES);
        editor.compact()?;
        drop(editor);
        Ok(read.open(&path)?)
    }

    fn note_groups(&mut self, key: &str) {
        let slashes = key.match_indices('/').map(|(at, _)| at.saturating_add(1)).skip(1);
        self.groups.extend(slashes.filter_map(|end| key.get(..end)).map(str::to_owned));
    }

    fn write(&mut self, key: &str, frame: &SuperChunk) -> Result<(), StoreError> {
        let without;
        let frame = match has_indexes(frame) {
            true => {
                without = self.without_indexes(frame)?;
                &without
            }
            false => frame,
        };
        if let LayoutWriter::Frame { editor, map } = &mut self.inner {
            let start = editor.nbytes();
            copy(frame, |piece| Ok(editor.append_bytes(piece)?)).map_err(|error| error.or(&self.target))?;
            map.push((key.to_owned(), start, editor.nbytes().saturating_sub(start)));
            return Ok(());
        }
        let name = format!("{}{}", key.trim_start_matches('/'), names::suffix(kind_of(frame)));
        write_file(&mut self.inner, &name, frame).map_err(|error| error.or(&self.target))
    }
}

/// Whether a frame describes python-blosc2's indexes of it.
fn has_indexes(frame: &SuperChunk) -> bool {
    frame.vlmetalayers().iter().any(|(name, _)| name == INDEXES.as_bytes())
}

/// A failure of reading, or of writing to a file that has no name yet.
enum WriteFailure {
    Store(StoreError),
    Io(io::Error),
}

impl WriteFailure {
    fn or(self, target: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Io(error) => StoreError::io(target)(error),
        }
    }
}

impl<E: Into<StoreError>> From<E> for WriteFailure {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// A failure of writing an archive is an I/O error, whatever the zip library calls it.
fn into_io(error: rawzip::Error) -> io::Error {
    io::Error::other(error)
}

fn not_written(error: rawzip::Error) -> WriteFailure {
    WriteFailure::Io(into_io(error))
}

/// Writes a file of a directory or archive.
fn write_file(inner: &mut LayoutWriter, name: &str, frame: &SuperChunk) -> Result<(), WriteFailure> {
    match inner {
        LayoutWriter::Directory(root) => {
            let path = root.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(WriteFailure::Io)?;
            }
            let mut file =
                refuse_device(&path).and_then(|()| File::create_new(path)).map_err(WriteFailure::Io)?;
            copy(frame, |piece| file.write_all(piece).map_err(WriteFailure::Io))?;
            file.sync_all().map_err(WriteFailure::Io)
        }
        LayoutWriter::Archive(archive) => {
            let (mut entry, config) = archive.new_file(entry_path(name)?).start().map_err(not_written)?;
            let mut writer = config.wrap(&mut entry);
            copy(frame, |piece| writer.write_all(piece).map_err(WriteFailure::Io))?;
            let (_, end) = writer.finish().map_err(not_written)?;
            entry.finish(end).map_err(not_written)?;
            Ok(())
        }
        LayoutWriter::Frame { .. } => Ok(()),
    }
}

/// Returns the name of an entry as stored: the archive writer drops what precedes a colon, except from raw bytes, which
/// it cannot mark as UTF-8.
fn entry_path(name: &str) -> Result<EntryPath<'_>, StoreError> {
    match (name.contains(':'), name.is_ascii()) {
        (false, _) => Ok(EntryPath::conformant(name)),
        (true, true) => Ok(EntryPath::verbatim(name.as_bytes())),
        (true, false) => Err(StoreError::Unsupported(format!(
            "{name}: a name with both a colon and non-ASCII letters cannot be stored in an archive"
        ))),
    }
}

/// Passes the bytes of a frame to `put`, piece by piece.
///
/// It takes the header from memory: another program may commit a change in the meantime, which overwrites the header in
/// the file, but no other part of the opened state.
fn copy(
    frame: &SuperChunk,
    mut put: impl FnMut(&[u8]) -> Result<(), WriteFailure>,
) -> Result<(), WriteFailure> {
    if frame.storage() == Storage::Sparse {
        return put(&frame.to_frame()?);
    }
    let (file, len) = (frame.files().open(FrameFile::Main)?, frame.header().frame_len());
    let head = frame.header_bytes();
    put(head)?;
    let mut at = head.len() as u64;
    while at < len {
        let end = at.saturating_add(COPY_LEN).min(len);
        put(&file.read(&Extent::exactly(FrameFile::Main, at..end))?)?;
        at = end;
    }
    Ok(())
}

/// Parameters of a frame with embedded members; the value of its mark is `{"version": 1}`.
fn embedding(mark: &str) -> FrameParams {
    FrameParams::new(1).chunksize(EMBEDDED_CHUNKSIZE).metalayer(mark, b"\x81\xa7version\x01")
}

/// Encodes the positions of embedded members.
fn encode(map: &[(String, u64, u64)], end: u64) -> Vec<u8> {
    use rmp::encode::{write_map_len, write_str, write_uint};
    let mut out = Vec::new();
    let written = (|| -> Result<(), rmp::encode::ValueWriteError> {
        write_map_len(&mut out, 2)?;
        write_str(&mut out, "embed_map")?;
        write_map_len(&mut out, u32::try_from(map.len()).unwrap_or(u32::MAX))?;
        for (key, start, len) in map {
            write_str(&mut out, key)?;
            write_map_len(&mut out, 2)?;
            write_str(&mut out, "offset")?;
            write_uint(&mut out, *start)?;
            write_str(&mut out, "length")?;
            write_uint(&mut out, *len)?;
        }
        write_str(&mut out, "current_offset")?;
        write_uint(&mut out, end).map(drop)
    })();
    debug_assert!(written.is_ok(), "writing to memory does not fail");
    out
}

/// Returns whether a file is to be replaced.
fn check_target(target: &Path, layout: StoreLayout, overwrite: bool) -> Result<bool, StoreError> {
    let exists = || Err(StoreError::Exists(format!("{}: already exists", target.display())));
    refuse_device(target).map_err(StoreError::io(target))?;
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io(target)(error)),
        Ok(_) if !overwrite || layout == StoreLayout::Directory => exists(),
        Ok(_) if fs::metadata(target).is_ok_and(|there| there.is_file()) => Ok(true),
        Ok(_) => exists(),
    }
}

fn sync_dirs(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_dirs(&entry.path())?;
        }
    }
    Disk.sync_dir(dir)
}
