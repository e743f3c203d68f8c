//! A frame of a C program: a file, a directory, or bytes in memory, with its editor, lock and dead space.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use b2_chunk::Plugins;
use b2_frame::{
    Compare, Durability, EditOptions, FileSystem, FrameEditor, FrameError, FrameParams, HeldLock, INDEXES,
    ReadFiles, ReadOptions, RetryPolicy, Storage, SuperChunk, WriteOptions, retry_on_change,
};
use bytes::Bytes;

use crate::abi::code;
use crate::core::error::{Error, Result, ensure};
use crate::core::offset_files::OffsetFiles;
use crate::core::params::limits;

/// A name and its content.
pub(crate) type NamedContent = (Vec<u8>, Vec<u8>);

/// A name and the chunk that holds its content.
pub(crate) type NamedChunk = (Vec<u8>, Bytes);

/// A frame: a file, a directory, or bytes in memory.
pub(crate) struct Frame {
    location: FrameLocation,
    /// The state read or written last, unless `editor` is newer.
    pub(super) reader: Option<SuperChunk>,
    pub(super) editor: Option<FrameEditor>,
    /// Whether each change takes the lock.
    locking: bool,
    /// Whether a change of another handle was read that [`refresh`](Self::refresh) has not reported yet.
    is_stale: bool,
    /// How often the program holds the lock.
    lock_depth: u32,
    /// Nesting depth of transactions; the outermost one commits.
    transaction_depth: u32,
    dead_space: DeadSpace,
    plugins: Plugins,
    /// The description of python-blosc2's indexes before this handle changed items. The commit marks them as outdated
    /// in the file, but the program that changes the items may still update them from this.
    indexes: Option<Bytes>,
    reading: ReadLock,
}

/// The dead space of a contiguous frame, as far as known.
#[derive(Default)]
struct DeadSpace {
    /// Whether the bytes of the stored chunks were counted: the number in the header includes dead ones.
    counted: bool,
    /// Bytes not in use after the last rewrite of the frame.
    rest: u64,
}

impl DeadSpace {
    /// A frame is rewritten if more than this part (a quarter) is dead, so that rewriting costs at most five times the
    /// changes.
    const MAX_DEAD_PART: u64 = 4;
    /// Dead bytes that are always allowed.
    const MIN_DEAD_LEN: u64 = 8192;

    fn is_wasted(&self, frame_len: u64, used: u64) -> bool {
        let used = used.saturating_add(self.rest);
        frame_len > used.saturating_add(used / Self::MAX_DEAD_PART).saturating_add(Self::MIN_DEAD_LEN)
    }
}

enum FrameLocation {
    Path { path: PathBuf, files: Files, offset: u64 },
    Bytes,
}

/// How files are accessed.
#[derive(Clone)]
pub(crate) enum Files {
    /// Files of the system.
    Disk,
    /// Through functions of the program, or mapped into memory.
    Program(Arc<dyn FileSystem>),
}

impl Files {
    fn write(&self, options: WriteOptions) -> WriteOptions {
        match self {
            Self::Disk => options,
            Self::Program(fs) => options.file_system(fs.clone()),
        }
    }
}

pub(super) fn to_read(files: Option<&Files>, plugins: &Plugins, offset: u64) -> ReadOptions {
    let options = ReadOptions::default()
        .limits(limits())
        .plugins(plugins.clone())
        .offset(offset)
        .compare(Compare::Once);
    match files {
        Some(Files::Program(fs)) => options.file_system(fs.clone() as Arc<dyn ReadFiles>),
        _ => options,
    }
}

/// Options for frames of C programs: nothing beyond what C-Blosc2 writes, and no syncs.
pub(crate) fn to_write() -> WriteOptions {
    let sums = crate::core::environment::is_set("B2KIT_CHECKSUMS");
    let sync = crate::core::environment::is_set("B2KIT_SYNC");
    WriteOptions::default().ignore_tables().checksums(sums).block_starts(false).durability(if sync {
        Durability::Sync
    } else {
        Durability::None
    })
}

/// The read lock of a handle with locking.
#[derive(Default)]
struct ReadLock {
    lock: Option<Arc<LockFile>>,
    /// The path of the lock file.
    path: Option<PathBuf>,
    /// The change counter of the lock file when last read.
    counter: Option<u64>,
}

/// An open lock file, and the number of reads of this handle that hold its lock.
struct LockFile(File, Mutex<u32>);

impl ReadLock {
    /// Waits for a shared lock of the frame at `path`. As in C, the lock file is created if it does not exist. Returns
    /// `None` if it cannot be opened or locked, as in a folder that is read-only.
    fn shared(&mut self, path: &Path) -> Option<SharedLock> {
        loop {
            let lock = match self.lock.take() {
                Some(lock) => lock,
                None => Arc::new(LockFile(self.open(path)?, Mutex::new(0))),
            };
            let mut users = lock.users();
            let first = *users == 0;
            if first {
                lock.0.lock_shared().ok()?;
            }
            *users += 1;
            drop(users);
            let shared = SharedLock { lock: lock.clone(), first, held: None };
            // It may have been removed, and others lock a new one.
            if !first || lock.0.metadata().ok()?.nlink() > 0 {
                self.lock = Some(lock);
                return Some(shared);
            }
        }
    }

    fn open(&mut self, path: &Path) -> Option<File> {
        let lock = match self.path.take() {
            Some(lock) => lock,
            None => {
                let mut lock = path.as_os_str().to_owned();
                lock.push(if std::fs::metadata(path).ok()?.is_dir() { "/.b2lock" } else { ".b2lock" });
                lock.into()
            }
        };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = match options.clone().write(true).create(true).truncate(false).open(&lock) {
            Err(_) => options.open(&lock),
            opened => opened,
        };
        self.path = Some(lock);
        let file = file.ok()?;
        file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
    }
}

impl LockFile {
    fn users(&self) -> MutexGuard<'_, u32> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shared lock of a frame, shared by all concurrent reads of a handle.
pub(crate) struct SharedLock {
    lock: Arc<LockFile>,
    first: bool,
    /// Spares the reads of the newest state their checks for changes.
    held: Option<HeldLock>,
}

impl SharedLock {
    /// Returns the change counter of the lock file.
    fn counter(&self) -> u64 {
        let mut bytes = [0; 8];
        // A new lock file is empty.
        let _ = self.lock.0.read_exact_at(&mut bytes, 8);
        u64::from_le_bytes(bytes)
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        self.held = None;
        let mut users = self.lock.users();
        *users -= 1;
        if *users == 0 {
            let _ = self.lock.0.unlock();
        }
    }
}

impl Frame {
    /// Opens a file or directory.
    pub(crate) fn open(
        path: &Path,
        files: Files,
        offset: u64,
        locking: bool,
        plugins: Plugins,
    ) -> Result<Self> {
        let mut reading = ReadLock::default();
        let shared = if locking { reading.shared(path) } else { None };
        let reader = to_read(Some(&files), &plugins, offset).open(path)?;
        drop(shared);
        let location = FrameLocation::Path { path: path.to_owned(), files, offset };
        Ok(Self {
            location,
            reader: Some(reader),
            editor: None,
            locking,
            is_stale: false,
            lock_depth: 0,
            transaction_depth: 0,
            dead_space: DeadSpace::default(),
            plugins,
            indexes: None,
            reading,
        })
    }

    /// Opens a frame in memory.
    pub(crate) fn from_bytes(bytes: Bytes, plugins: Plugins) -> Result<Self> {
        let reader = to_read(None, &plugins, 0).from_bytes(bytes)?;
        Ok(Self {
            location: FrameLocation::Bytes,
            reader: Some(reader),
            editor: None,
            locking: false,
            is_stale: false,
            lock_depth: 0,
            transaction_depth: 0,
            dead_space: DeadSpace::default(),
            plugins,
            indexes: None,
            reading: ReadLock::default(),
        })
    }

    /// Creates an empty frame.
    pub(crate) fn create(
        path: &Path,
        files: Files,
        locking: bool,
        sparse: bool,
        params: FrameParams,
        plugins: Plugins,
    ) -> Result<Self> {
        let storage = if sparse { Storage::Sparse } else { Storage::Contiguous };
        let options = files.write(to_write()).storage(storage);
        options.create(path, params.plugins(plugins.clone()))?.finish()?;
        Self::open(path, files, 0, locking, plugins)
    }

    /// Returns the newest known state for reading.
    pub(crate) fn reader(&mut self) -> Result<&SuperChunk> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => match &mut self.editor {
                Some(editor) => editor.snapshot()?,
                None => self.reopened()?,
            },
        };
        Ok(self.reader.insert(reader))
    }

    fn reopened(&self) -> Result<SuperChunk> {
        match &self.location {
            FrameLocation::Path { path, files, offset } => {
                Ok(to_read(Some(files), &self.plugins, *offset).open(path)?)
            }
            FrameLocation::Bytes => Err(Error(code::FAILURE)),
        }
    }

    /// Checks whether another handle or program changed the frame. Returns whether it did and, with locking on, a lock
    /// that prevents further changes. `to_read`: only chunks are read next, which finds changes, too.
    pub(crate) fn refresh(&mut self, to_read: bool) -> Result<(bool, Option<SharedLock>)> {
        let here = !matches!(&self.location, FrameLocation::Path { files: Files::Disk, .. });
        if here || self.lock_depth > 0 || self.transaction_depth > 0 {
            return Ok((false, None));
        }
        let mut shared = self.shared();
        let counter = shared.as_ref().map(SharedLock::counter);
        if counter.is_some() && counter == self.reading.counter {
            // Programs that do not lock are noticed by the header.
            self.hold(&mut shared);
        }
        self.look(match (&shared, to_read) {
            (Some(_), _) => SuperChunk::refresh_locked,
            (None, true) => SuperChunk::refresh_to_read,
            (None, false) => SuperChunk::refresh,
        })?;
        self.reading.counter = counter;
        self.hold(&mut shared);
        Ok((self.take_stale(), shared))
    }

    /// Reads the newest state, if it changed. Returns whether it did.
    fn look(&mut self, refresh: impl FnOnce(&mut SuperChunk) -> Result<bool, FrameError>) -> Result<bool> {
        self.reader()?;
        let newer = self.reader.as_mut().map_or(Ok(false), refresh)?;
        if newer {
            self.editor = None;
            self.is_stale = true;
        }
        Ok(newer)
    }

    /// Records that the newest state is held by a lock.
    fn hold(&self, shared: &mut Option<SharedLock>) {
        if let (Some(shared), Some(reader)) = (shared, &self.reader) {
            shared.held = reader.hold_lock();
        }
    }

    /// With locking on, waits for writers and blocks them until the result is dropped. Does nothing while this handle
    /// holds the lock, or without a lock file.
    fn shared(&mut self) -> Option<SharedLock> {
        match &self.location {
            FrameLocation::Path { path, .. }
                if self.locking && self.lock_depth == 0 && self.transaction_depth == 0 =>
            {
                self.reading.shared(path)
            }
            _ => None,
        }
    }

    /// Returns whether a change of another handle was read but not reported yet.
    fn take_stale(&mut self) -> bool {
        let is_stale = std::mem::take(&mut self.is_stale);
        if is_stale {
            self.indexes = None;
        }
        is_stale
    }

    /// Whether each change takes the lock.
    pub(crate) fn locks(&self) -> bool {
        self.locking
    }

    /// With locking on, reloads changes and blocks writers until the result is dropped.
    pub(super) fn refresh_locked(&mut self) -> Result<Option<SharedLock>> {
        let mut shared = self.shared();
        if let Some(counter) = shared.as_ref().filter(|shared| shared.first).map(SharedLock::counter) {
            if self.reading.counter.replace(counter) != Some(counter) {
                self.look(SuperChunk::refresh_locked)?;
            }
            self.hold(&mut shared);
        }
        Ok(shared)
    }

    /// Runs a read. With locking on, it sees earlier changes of other handles and blocks further ones. Writers that do
    /// not lock may remove what is being read: then it reloads and tries again.
    pub(crate) fn reading<T>(&mut self, mut read: impl FnMut(&SuperChunk) -> Result<T>) -> Result<T> {
        let attempt = |frame: &mut Self| {
            let _unchanged = frame.refresh_locked()?;
            read(frame.reader()?)
        };
        let recover = |frame: &mut Self, _: &Error, pause| {
            let waits = frame.locking && frame.lock_depth == 0 && frame.transaction_depth == 0;
            let retries = waits && frame.look(SuperChunk::refresh)?;
            if retries {
                std::thread::sleep(pause);
            }
            Ok(retries)
        };
        retry_on_change(RetryPolicy::default(), self, attempt, recover)
    }

    fn options(&self, files: Option<&Files>) -> EditOptions {
        let durability =
            if crate::core::environment::is_set("B2KIT_SYNC") { Durability::Sync } else { Durability::None };
        // python-blosc2 creates and changes its tables through this library, and maintains them itself.
        let options = EditOptions::from(to_read(files, &self.plugins, 0)).ignore_tables();
        // Existing ones stay.
        options.durability(durability).many_vlmetalayers(true)
    }

    /// Opens an editor. Fails if other bytes follow the frame in its file, since the editor would truncate them.
    fn opened(&mut self, lock: bool) -> Result<FrameEditor> {
        match &self.location {
            FrameLocation::Path { offset: 0, path, files } => {
                let options = self.options(Some(files)).lock(lock);
                match options.edit(path) {
                    // C-Blosc2 changes files with several names, so this does. Bytes after the frame stay, too.
                    Err(error) if matches!(error.detail(), FrameError::HardLinks { .. }) => {
                        let len = std::fs::metadata(path)?.len();
                        ensure(self.reopened()?.header().frame_len() == len, code::FILE_WRITE)?;
                        Ok(options.force(true).edit(path)?)
                    }
                    editor => Ok(editor?),
                }
            }
            FrameLocation::Path { path, files: Files::Disk, offset } => {
                let (path, offset) = (std::fs::canonicalize(path)?, *offset);
                let window = Files::Program(Arc::new(OffsetFiles::new(path.clone(), offset)));
                Ok(self.options(Some(&window)).lock(lock).edit(&path)?)
            }
            FrameLocation::Path { .. } => Err(Error(code::FILE_WRITE)),
            FrameLocation::Bytes => {
                let bytes = self.reader()?.to_frame()?;
                Ok(self.options(None).lock(false).edit_bytes(bytes)?)
            }
        }
    }

    /// Takes the lock and reloads changes of others.
    fn take_lock(&mut self) -> Result<FrameEditor> {
        self.editor = None;
        let editor = self.opened(true)?;
        let newer = self.reader.as_mut().map(SuperChunk::refresh_locked);
        self.is_stale |= !matches!(newer, Some(Ok(false)));
        Ok(editor)
    }

    /// Changes the frame: applies all of `change` or, after an error, nothing.
    pub(super) fn change<T>(
        &mut self,
        change: &mut dyn FnMut(&mut FrameEditor) -> Result<T, FrameError>,
    ) -> Result<T> {
        let mut again = true;
        loop {
            let mut editor = self.take_editor()?;
            self.reader = None;
            if self.lock_depth > 0 || self.transaction_depth > 0 {
                let result = change(&mut editor);
                self.editor = Some(editor);
                return Ok(result?);
            }
            let result = editor.transaction(|editor| change(editor));
            self.return_editor(editor);
            match result {
                Ok(value) => return Ok(value),
                // Another handle has changed the file: reload, once.
                Err(error) if again && matches!(error.detail(), FrameError::Changed { .. }) => {
                    again = false;
                    (self.editor, self.reader, self.is_stale) = (None, None, true);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Changes items or the shape, like [`change`](Self::change).
    pub(super) fn change_items<T>(
        &mut self,
        change: &mut dyn FnMut(&mut FrameEditor) -> Result<T, FrameError>,
    ) -> Result<T> {
        let before = if self.indexes.is_none() { self.stored_indexes() } else { None };
        let changed = self.change(change)?;
        if before.is_some() && !self.is_stale {
            self.indexes = before;
        }
        Ok(changed)
    }

    fn stored_indexes(&self) -> Option<Bytes> {
        let layers = match (&self.editor, &self.reader) {
            (Some(editor), _) => editor.vlmetalayers(),
            (None, Some(reader)) => reader.vlmetalayers().clone(),
            (None, None) => return None,
        };
        layers.iter().find(|(name, _)| *name == INDEXES.as_bytes()).map(|(_, chunk)| chunk.clone())
    }

    /// Returns the description of the indexes to show to the program instead of the stored one.
    pub(super) fn shown_indexes(&self) -> Option<Bytes> {
        self.indexes.clone()
    }

    /// Records that the program has set or removed the description.
    pub(super) fn forget_indexes(&mut self) {
        self.indexes = None;
    }

    /// Takes the lock until the matching [`unlock`](Self::unlock). Changes in between become one commit. Does nothing
    /// with locking off. Returns whether others had changed the frame.
    pub(crate) fn lock(&mut self) -> Result<bool> {
        if !self.locking {
            return Ok(false);
        }
        if self.lock_depth == 0 {
            self.editor = Some(self.take_lock()?);
            self.reader = None;
        }
        self.lock_depth += 1;
        Ok(self.take_stale())
    }

    pub(crate) fn unlock(&mut self) -> Result<()> {
        if !self.locking {
            return Ok(());
        }
        self.lock_depth = self.lock_depth.checked_sub(1).ok_or(Error(code::LOCK))?;
        if self.lock_depth > 0 {
            return Ok(());
        }
        self.finish(true)
    }

    /// Begins a transaction. Returns whether others had changed the frame.
    pub(crate) fn begin(&mut self) -> Result<bool> {
        if self.lock_depth == 0 && self.transaction_depth == 0 {
            if self.locking {
                self.editor = Some(self.take_lock()?);
                self.reader = None;
            } else {
                self.is_stale = self.refresh(false)?.0;
            }
        }
        self.transaction_depth += 1;
        Ok(self.take_stale())
    }

    /// Ends the transaction: commits it or, after a failure, rolls it back.
    pub(crate) fn end(&mut self, done: bool) -> Result<()> {
        self.transaction_depth -= 1;
        if self.transaction_depth > 0 || self.lock_depth > 0 {
            return Ok(());
        }
        self.finish(done)
    }

    fn finish(&mut self, done: bool) -> Result<()> {
        let Some(mut editor) = self.editor.take() else { return Ok(()) };
        self.reader = None;
        let result = if done { editor.commit().map(|_| ()) } else { Ok(()) };
        if !done || result.is_err() {
            editor.rollback();
        }
        self.return_editor(editor);
        Ok(result?)
    }

    /// Counts the bytes of the stored chunks, before the first change that makes some dead. Returns `None` if they are
    /// known already, or if a chunk is damaged. Not for program-provided files, which would need a call per chunk, nor
    /// for directories, which have no dead space.
    pub(super) fn count(&mut self) -> Result<Option<u64>> {
        if self.dead_space.counted
            || matches!(&self.location, FrameLocation::Path { files: Files::Program(_), .. })
        {
            return Ok(None);
        }
        self.dead_space.counted = true;
        let reader = self.reader()?;
        if reader.storage() != Storage::Contiguous {
            return Ok(None);
        }
        Ok(reader.chunk_infos().map(|info| info.map(|info| info.cbytes)).sum::<Result<u64, _>>().ok())
    }

    /// Invalidates the count, since others may have changed the frame.
    pub(crate) fn forget_count(&mut self) {
        self.dead_space.counted = false;
    }

    /// Rewrites a file if much of it is dead, because its chunks were replaced or removed. `live` are the bytes of the
    /// stored chunks. The file is unchanged if that is not possible, or if it has another name, which would keep the
    /// old content.
    pub(super) fn reclaim(&mut self, live: u64) {
        let here = matches!(&self.location, FrameLocation::Path { files: Files::Disk, offset: 0, .. });
        if !here
            || !self.dead_space.counted
            || self.lock_depth > 0
            || self.transaction_depth > 0
            || self.has_other_names()
        {
            return;
        }
        let Ok(reader) = self.reader() else { return };
        if reader.storage() != Storage::Contiguous {
            return;
        }
        let frame_len = reader.header().frame_len();
        let metas: usize = reader.metalayers().iter().map(|(_, value)| value.len()).sum();
        let vlmetas: usize = reader.vlmetalayers().iter().map(|(_, chunk)| chunk.len()).sum();
        let index = reader.nchunks() * size_of::<i64>();
        let used = live.saturating_add((metas + vlmetas + index) as u64);
        if self.dead_space.is_wasted(frame_len, used) {
            let _ = self.compact();
            let left = self.reader().map_or(frame_len, |reader| reader.header().frame_len());
            // Otherwise a frame that cannot shrink would be rewritten for each change.
            self.dead_space.rest = left.saturating_sub(used);
        }
    }

    /// Whether the file has several hard links.
    fn has_other_names(&self) -> bool {
        let FrameLocation::Path { path, files: Files::Disk, .. } = &self.location else { return false };
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.nlink() > 1)
    }

    fn compact(&mut self) -> Result<()> {
        let mut editor = self.take_editor()?;
        self.reader = None;
        let result = editor.compact();
        if result.is_err() {
            editor.rollback();
        }
        self.return_editor(editor);
        result?;
        Ok(())
    }

    /// Returns the editor of the open transaction, or a new one; with locking on, under the lock.
    fn take_editor(&mut self) -> Result<FrameEditor> {
        match self.editor.take() {
            Some(editor) => Ok(editor),
            None if self.locking => self.take_lock(),
            None => self.opened(false),
        }
    }

    /// Stores an editor after a change. With locking on, its lock is released and only its written state is kept, so
    /// that later differences are changes of others.
    fn return_editor(&mut self, mut editor: FrameEditor) {
        if self.locking {
            self.reader = editor.snapshot().ok();
            self.is_stale |= self.reader.is_none();
        } else {
            self.editor = Some(editor);
        }
    }

    /// Adds a metalayer, which enlarges the header of the frame. The commit rewrites a contiguous frame.
    pub(super) fn add_meta(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        // The file of a frame at an offset has other content, and another name of the file would keep the old content.
        let alone =
            !matches!(&self.location, FrameLocation::Path { offset: 1.., .. }) && !self.has_other_names();
        ensure(alone, code::FILE_WRITE)?;
        self.change(&mut |editor| editor.add_metalayer(name, value))
    }
}

/// Sets the chunk size of a frame as part of a change, while no chunk defines it.
pub(super) fn set_chunksize(editor: &mut FrameEditor, chunksize: Option<usize>) -> Result<(), FrameError> {
    match chunksize {
        Some(size) if editor.nchunks() == 0 && editor.chunksize() != size => editor.set_chunksize(size),
        _ => Ok(()),
    }
}

/// The parameters of a frame like another one.
pub(super) fn like(reader: &SuperChunk) -> FrameParams {
    if reader.nchunks() == 0 && reader.header().stored_chunksize() == 0 {
        return from_header(reader);
    }
    FrameParams::like(reader.header())
}

/// The parameters in the header of a frame without chunks, whose first chunk will define the chunk size.
fn from_header(reader: &SuperChunk) -> FrameParams {
    let header = reader.header();
    let plugins = reader.dparams().plugins.clone();
    match header.compression().blocksize(0).plugins(plugins).build() {
        Ok(params) => FrameParams::from_cparams(&params).blocksize(header.blocksize()),
        Err(_) => FrameParams::like(header),
    }
}

impl Frame {
    pub(super) fn metas(&mut self) -> Result<Vec<NamedContent>> {
        Ok(self.reader()?.metalayers().iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
    }

    pub(super) fn vlmetas(&mut self) -> Result<Vec<NamedChunk>> {
        Ok(self.reader()?.vlmetalayers().iter().map(|(name, chunk)| (name.to_vec(), chunk.clone())).collect())
    }
}
