//! Opens frames for changing, and creates new frames to change.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::checksums::Checksums;
use crate::format::starts::{ChunkStarts, StartsPolicy};
use crate::names::FrameFile;
use crate::names::INDEX_NAME;
use crate::read::options::{FrameOrigin, ReadOptions};
use crate::read::restored::restored_error;
use crate::storage::absolute_paths::absolute_file_system;
use crate::storage::files::Contiguous;
use crate::storage::files::OpenFile;
use crate::storage::files::open_file;
use crate::storage::lock::FrameLock;
use crate::storage::redo::{Redo, RepairedFile};
use crate::storage::staging::{self, Durability};
use crate::storage::traits::{FileKind, FileSystem, Links, WriteAt};
use crate::write::draft::ChunkRules;
use crate::write::draft::Draft;
use crate::write::edit::FrameEditor;
use crate::write::edit::table::Table;
use crate::write::options::{EditOptions, Tables, WriteOptions};
use crate::write::state::FrameState;
use crate::write::store::memory::CopyOnRead;
use crate::write::store::{ContiguousStore, FrameHome, MemoryStore, SparseStore, Store, trailing_bytes};
use crate::{FrameError, FrameParams, FrameWriter, Storage, SuperChunk};

impl EditOptions {
    /// Opens a contiguous frame (a file) or a sparse frame (a directory) for changing. Waits for
    /// the lock unless locking is switched off.
    ///
    /// If the frame is a column of a table of python-blosc2 (`CTable`), commits mark the indexes of the table as outdated
    /// first, and fail if the table could not be read after them, see [`allow_table_edit`](Self::allow_table_edit).
    ///
    /// # Errors
    /// As for [`SuperChunk::open`]; [`FrameError::Lock`] when the lock file cannot be opened, created or locked;
    /// [`FrameError::Argument`] when the options have an offset; [`FrameError::ForeignBytes`] when there are bytes
    /// after the frame that are not part of it, and [`FrameError::HardLinks`] when the file has several hard links,
    /// see [`EditOptions::force`].
    pub fn edit(&self, path: impl AsRef<Path>) -> Result<FrameEditor, FrameError> {
        let path = path.as_ref();
        let read_only = || io::Error::new(io::ErrorKind::Unsupported, "this storage can only be read");
        let fs = absolute_file_system(staging::io(path, self.fs.as_ref().ok_or_else(read_only))?, path)?;
        let read = ReadOptions { fs: fs.clone(), ..self.read.clone() };
        let editor = Self { read, ..self.clone() }.edit_absolute(path, &fs);
        let mut editor = editor.map_err(|error| error.of(&path.display().to_string()))?;
        if self.tables != Tables::Ignored
            && let Some(table) = Table::of(path, &self.read)
        {
            let (allowed, options) = (self.tables == Tables::Marked, self.clone());
            editor.before_commit = Some(Box::new(move |resized| table.before(resized, allowed, &options)));
        }
        Ok(editor)
    }

    fn edit_absolute(&self, path: &Path, fs: &Arc<dyn FileSystem>) -> Result<FrameEditor, FrameError> {
        self.check_offset()?;
        match staging::io(path, fs.kind(path, Links::Follow))? {
            FileKind::File => self.edit_file(path, fs),
            FileKind::Directory => self.edit_directory(path, fs),
            FileKind::Link | FileKind::Other => {
                Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true })
            }
        }
    }

    /// Opens a contiguous frame in memory for changing. The buffer must hold nothing but the frame,
    /// and is copied only if others share it. [`FrameEditor::into_bytes`] returns the changed
    /// frame.
    ///
    /// # Errors
    /// As for [`SuperChunk::from_bytes`]; [`FrameError::Argument`] when the options have an offset.
    pub fn edit_bytes(&self, frame: impl Into<Bytes>) -> Result<FrameEditor, FrameError> {
        self.check_offset()?;
        // Only a vector is certain not to change any more.
        let frame = Bytes::from(Vec::from(frame.into()));
        let file = OpenFile::new(Arc::new(CopyOnRead(frame.clone())), "frame in memory", 0)?;
        let schunk = self.read.open_files(Arc::new(Contiguous(file)), Storage::Contiguous, true)?;
        let store = MemoryStore::of(&frame, schunk.layout());
        self.editor(&schunk, |_| Ok(store.into()), None)
    }

    fn check_offset(&self) -> Result<(), FrameError> {
        let what = "cannot change a frame that does not start at the beginning of its file";
        if self.read.offset > 0 { Err(FrameError::argument("offset", what)) } else { Ok(()) }
    }

    fn edit_file(&self, path: &Path, fs: &Arc<dyn FileSystem>) -> Result<FrameEditor, FrameError> {
        let mut real = path.to_owned();
        if staging::io(path, fs.kind(path, Links::Refuse))? == FileKind::Link {
            real = staging::io(path, fs.resolve(path))?;
        }
        let lock = if self.lock { Some(FrameLock::file(&**fs, path, &real)?) } else { None };
        // Open the file only under the lock: another writer may have replaced it.
        let file = staging::io(&real, fs.open_write(&real, Links::Refuse))?;
        let name: Arc<str> = real.display().to_string().into();
        if !self.force {
            trailing_bytes::remove_own_link(&**fs, &real, &*file).map_err(FrameError::io(&*name))?;
            staging::check_links(&name, &*file)?;
        }
        self.repair(&file, &name)?;
        let frame = OpenFile::new(file.clone(), name.clone(), 0)?;
        let files = Arc::new(Contiguous(frame.clone()));
        let schunk = match self.read.open_files(files, Storage::Contiguous, false) {
            Ok(schunk) => schunk,
            // Readers use the copy of the header. Nothing is changed before it is there again.
            Err(error) => return Err(if self.read.can_restore(&frame) { restored_error() } else { error }),
        };
        self.clear_behind(&*file, &name, schunk.header().frame_len())?;
        let home = FrameHome::Disk { fs: fs.clone(), path: real, lock, force: self.force };
        let store = ContiguousStore::of(home, file, name, &schunk, self.durability);
        self.editor(&schunk, |_| Ok(store.into()), Some(path))
    }

    /// Finishes a commit that was interrupted while it wrote the header.
    fn repair(&self, file: &Arc<dyn WriteAt>, name: &Arc<str>) -> Result<(), FrameError> {
        let limit = self.read.dparams.limits.max_metadata;
        let redo = Redo::pending(&**file, limit).map_err(FrameError::io(&**name))?;
        let Some(redo) = redo else { return Ok(()) };
        let (start, new) = (redo.start as u64, redo.new.clone());
        // Overwrite nothing unless the file really contains the state that the record describes.
        let repaired = OpenFile::new(Arc::new(RepairedFile::by(redo, file.clone())), name.clone(), 0)?;
        self.read.open_files(Arc::new(Contiguous(repaired)), Storage::Contiguous, false)?;
        file.write_all_at(start, &new).map_err(FrameError::io(&**name))?;
        match self.durability {
            Durability::Sync => file.sync().map_err(FrameError::io(&**name)),
            Durability::None => Ok(()),
        }
    }

    /// Truncates bytes that an interrupted commit has left after the frame.
    fn clear_behind(&self, file: &dyn WriteAt, name: &str, frame_len: u64) -> Result<(), FrameError> {
        let len = file.len().map_err(FrameError::io(name))?;
        if len <= frame_len {
            return Ok(());
        }
        if !self.force && !trailing_bytes::is_ours(file, frame_len).map_err(FrameError::io(name))? {
            return Err(FrameError::ForeignBytes {
                name: name.to_owned(),
                offset: frame_len,
                len: len - frame_len,
            });
        }
        // The leftover may be the record for a header that a killed process wrote but did not sync,
        // so sync the header first.
        let safe = if self.durability == Durability::Sync { file.sync() } else { Ok(()) };
        safe.and_then(|()| file.set_len(frame_len)).map_err(FrameError::io(name))
    }

    fn edit_directory(&self, dir: &Path, fs: &Arc<dyn FileSystem>) -> Result<FrameEditor, FrameError> {
        let lock = if self.lock {
            // Check before the lock file is created in this directory.
            open_file(&**fs, &dir.join(INDEX_NAME), Links::Refuse, 0)?;
            Some(FrameLock::directory(&**fs, dir)?)
        } else {
            None
        };
        let schunk = self.read.open_directory(dir)?;
        if schunk.is_restored() {
            return Err(restored_error());
        }
        let index = schunk.files.open(FrameFile::Main)?.storage().clone();
        let store = |state: &FrameState| {
            let store = SparseStore::of(fs.clone(), dir.to_owned(), lock, self.durability, index, state)?;
            Ok(store.into())
        };
        self.editor(&schunk, store, Some(dir))
    }

    fn editor(
        &self,
        schunk: &SuperChunk,
        store: impl FnOnce(&FrameState) -> Result<Store, FrameError>,
        path: Option<&Path>,
    ) -> Result<FrameEditor, FrameError> {
        let state = FrameState::of(schunk)?;
        let sums = schunk.chunk_sums()?;
        // The first chunks decide whether there is space for block starts.
        let new = sums.is_some() && schunk.nchunks() == 0;
        let starts = schunk.chunk_starts()?.or_else(|| new.then(|| ChunkStarts::new(StartsPolicy::IfSmall)));
        Ok(FrameEditor {
            tail: None,
            cparams: None,
            has_sums: (
                match schunk.checksums() {
                    Checksums::Ok | Checksums::Changed => sums.is_some(),
                    // The checksums were not compared, but may exist; the next commit drops them.
                    Checksums::None => schunk.trailer().has_fingerprint(),
                },
                sums.is_some(),
            ),
            stale_sums: schunk.checksums() == Checksums::Changed,
            had_starts: starts.is_some(),
            opened_copy: Some(schunk.start_copy()),
            committed: state.clone(),
            draft: Draft {
                store: store(&state)?,
                state,
                rules: ChunkRules::of(schunk.header(), schunk.dparams().clone()),
                sums,
                starts,
                max_vlmetalayers: self.max_vlmetalayers,
            },
            source: path.map(|path| Arc::new(FrameOrigin::new(&self.read, path))),
            accounted: 0,
            epoch: Arc::default(),
            before_commit: None,
        })
    }
}

impl SuperChunk {
    /// Opens a frame for changing with default options. Use [`FrameEditor::options`] for others.
    ///
    /// # Errors
    /// As for [`EditOptions::edit`].
    pub fn edit(path: impl AsRef<Path>) -> Result<FrameEditor, FrameError> {
        FrameEditor::options().edit(path)
    }
}

impl FrameEditor {
    /// Returns default options for changing: durability, lock, plugins, limits, threads, file
    /// system.
    pub fn options() -> EditOptions {
        EditOptions::default()
    }

    /// Creates an empty frame at `path` and opens it for changing. `options` sets its storage, and
    /// whether an existing frame may be replaced.
    ///
    /// # Errors
    /// As for [`WriteOptions::create`] and [`EditOptions::edit`].
    pub fn create(
        path: impl AsRef<Path>,
        params: FrameParams,
        options: &WriteOptions,
    ) -> Result<Self, FrameError> {
        let edit = options.to_edit(&params);
        options.create(&path, params)?.finish()?;
        edit.edit(path)
    }

    /// Creates an empty frame in memory and opens it for changing.
    ///
    /// # Errors
    /// As for [`FrameWriter::memory`].
    pub fn memory(params: FrameParams) -> Result<Self, FrameError> {
        let options = FrameWriter::options();
        let edit = options.to_edit(&params);
        edit.edit_bytes(options.memory(params)?.finish()?.into_bytes())
    }
}
