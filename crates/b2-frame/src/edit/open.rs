//! Opening frames for changing, and creating new ones to change.

use std::path::Path;
use std::sync::Arc;

use ::bytes::Bytes;

use crate::checksums::Checksums;
use crate::contiguous::Contiguous;
use crate::edit::contiguous::{ContiguousStore, Home};
use crate::edit::memory::MemoryFile;
use crate::edit::sparse::SparseStore;
use crate::edit::state::State;
use crate::edit::{FrameEditor, Store, leftover};
use crate::fit::Fit;
use crate::lock::FrameLock;
use crate::options::{OpenOptions, Source};
use crate::plan::{FrameFile, OpenFile};
use crate::redo::Redo;
use crate::sparse::{INDEX_NAME, open_file};
use crate::staging::{self, Durability};
use crate::storage::{FileKind, Links, ReadAt, WriteAt};
use crate::{FrameError, FrameParams, FrameWriter, Storage, SuperChunk, WriteOptions};

impl OpenOptions {
    /// Opens the file of a contiguous frame or the directory of a sparse one for changing. Waits for the lock,
    /// unless locking is switched off.
    ///
    /// # Errors
    /// As [`SuperChunk::open`], when the lock file cannot be opened or created, and when there are bytes behind
    /// the frame that are not part of it ([`FrameError::ForeignBytes`], see [`OpenOptions::force`]).
    pub fn edit(&self, path: impl AsRef<Path>) -> Result<FrameEditor, FrameError> {
        let path = path.as_ref();
        match staging::io(path, self.fs.kind(path, Links::Follow))? {
            FileKind::File => self.edit_file(path),
            FileKind::Directory => self.edit_directory(path),
            FileKind::Link | FileKind::Other => {
                Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
            }
        }
    }

    /// Opens a contiguous frame in memory for changing. The buffer must hold the frame and nothing else; it is
    /// not copied unless others share it. [`FrameEditor::into_bytes`] gives it back.
    ///
    /// # Errors
    /// As [`SuperChunk::from_bytes`].
    pub fn edit_bytes(&self, frame: impl Into<Bytes>) -> Result<FrameEditor, FrameError> {
        let memory = Arc::new(MemoryFile::new(frame.into()));
        let name: Arc<str> = "frame in memory".into();
        let file = OpenFile::new(memory.clone(), name.clone(), 0)?;
        let schunk = self.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, true)?;
        let home = Home::Memory(memory.clone());
        let store = ContiguousStore::new(home, memory, name, &schunk, Durability::None);
        self.editor(&schunk, |_| Ok(Store::Contiguous(store)), None)
    }

    fn edit_file(&self, path: &Path) -> Result<FrameEditor, FrameError> {
        let fs = &self.fs;
        let mut real = path.to_owned();
        if staging::io(path, fs.kind(path, Links::Refuse))? == FileKind::Link {
            real = staging::io(path, fs.resolve(path))?;
        }
        let lock = if self.lock { Some(FrameLock::file(&**fs, path, &real)?) } else { None };
        // Only now: another writer may have put another file in its place.
        let file = staging::io(&real, fs.open_write(&real, Links::Refuse))?;
        let name: Arc<str> = real.display().to_string().into();
        self.repair(&*file).map_err(FrameError::io(&*name))?;
        let frame = OpenFile::new(file.clone(), name.clone(), 0)?;
        let schunk = self.open_files(Arc::new(Contiguous(frame)), Storage::Contiguous, false)?;
        self.clear_behind(&*file, &name, schunk.header().frame_len())?;
        let home = Home::Disk { fs: fs.clone(), path: real, lock, force: self.force };
        let store = ContiguousStore::new(home, file, name, &schunk, self.durability);
        self.editor(&schunk, |_| Ok(Store::Contiguous(store)), Some(path))
    }

    /// Finishes a commit that was cut short while it wrote the header.
    fn repair(&self, file: &dyn WriteAt) -> std::io::Result<()> {
        let Some(redo) = Redo::pending(&AsRead(file), self.dparams.limits.max_metadata)? else {
            return Ok(());
        };
        file.write_all_at(redo.start as u64, &redo.new)?;
        match self.durability {
            Durability::Sync => file.sync(),
            Durability::None => Ok(()),
        }
    }

    /// Removes what a commit that did not happen has left behind the frame.
    fn clear_behind(&self, file: &dyn WriteAt, name: &str, frame_len: u64) -> Result<(), FrameError> {
        let len = file.len().map_err(FrameError::io(name))?;
        if len <= frame_len {
            return Ok(());
        }
        if !self.force && !leftover::is_ours(&AsRead(file), frame_len).map_err(FrameError::io(name))? {
            return Err(FrameError::ForeignBytes {
                name: name.to_owned(),
                offset: frame_len,
                len: len - frame_len,
            });
        }
        // It may be the record of a header that a killed process wrote and did not sync: header first.
        let safe = if self.durability == Durability::Sync { file.sync() } else { Ok(()) };
        safe.and_then(|()| file.set_len(frame_len)).map_err(FrameError::io(name))
    }

    fn edit_directory(&self, dir: &Path) -> Result<FrameEditor, FrameError> {
        let fs = &self.fs;
        // Before the lock file is made there.
        let path = dir.join(INDEX_NAME);
        open_file(&**fs, &path, Links::Refuse, 0)?;
        let lock = if self.lock { Some(FrameLock::directory(&**fs, dir)?) } else { None };
        let schunk = self.open(dir)?;
        if schunk.storage() != Storage::Sparse {
            return Err(FrameError::Changed { name: dir.display().to_string() });
        }
        let index = schunk.files.open(FrameFile::Main)?.storage().clone();
        let store = |state: &State| {
            let store = SparseStore::new(fs.clone(), dir.to_owned(), lock, self.durability, index, state)?;
            Ok(Store::Sparse(store))
        };
        self.editor(&schunk, store, Some(dir))
    }

    fn editor(
        &self,
        schunk: &SuperChunk,
        store: impl FnOnce(&State) -> Result<Store, FrameError>,
        path: Option<&Path>,
    ) -> Result<FrameEditor, FrameError> {
        let state = State::of(schunk)?;
        let (typesize, blocksize) = (schunk.typesize(), schunk.header().blocksize());
        // As for new frames: a block of less than an item would make C-Blosc2 refuse chunks of NaNs.
        let blocksize = if blocksize < typesize { 0 } else { blocksize };
        let sums = schunk.chunk_sums()?;
        Ok(FrameEditor {
            store: store(&state)?,
            committed: state.clone(),
            staged: state,
            tail: None,
            fit: Fit { typesize, blocksize, dparams: schunk.dparams().clone() },
            cparams: None,
            max_vlmetalayers: self.max_vlmetalayers,
            has_sums: (
                match schunk.checksums() {
                    Checksums::Ok | Checksums::Changed => sums.is_some(),
                    // Not compared, but maybe there: the next commit drops them.
                    Checksums::None => schunk.trailer().has_fingerprint(),
                },
                sums.is_some(),
            ),
            stale_sums: schunk.checksums() == Checksums::Changed,
            sums,
            source: path.map(|path| Arc::new(Source::new(self, path))),
            accounted: 0,
            epoch: Arc::default(),
        })
    }
}

impl FrameEditor {
    /// Creates an empty contiguous frame in a file, and opens it for changing. `options` says whether a frame
    /// of that name may be replaced.
    ///
    /// # Errors
    /// As [`WriteOptions::contiguous`] and [`OpenOptions::edit`].
    pub fn create(
        path: impl AsRef<Path>,
        params: FrameParams,
        options: &WriteOptions,
    ) -> Result<Self, FrameError> {
        let open = options.to_open(&params);
        options.contiguous(&path, params)?.finish()?;
        open.edit(path)
    }

    /// Creates an empty sparse frame in a directory, and opens it for changing.
    ///
    /// # Errors
    /// As [`WriteOptions::sparse`] and [`OpenOptions::edit`].
    pub fn create_sparse(
        path: impl AsRef<Path>,
        params: FrameParams,
        options: &WriteOptions,
    ) -> Result<Self, FrameError> {
        let open = options.to_open(&params);
        options.sparse(&path, params)?.finish()?;
        open.edit(path)
    }

    /// Creates an empty frame in memory, to be changed.
    ///
    /// # Errors
    /// As [`FrameWriter::memory`].
    pub fn memory(params: FrameParams) -> Result<Self, FrameError> {
        let options = FrameWriter::options();
        let open = options.to_open(&params);
        open.edit_bytes(options.memory(params)?.finish()?.into_bytes())
    }
}

/// A file to write, for what only reads.
struct AsRead<'a>(&'a dyn WriteAt);

impl ReadAt for AsRead<'_> {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(offset, buf)
    }
}
