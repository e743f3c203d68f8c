//! Changing frames, through the public API.

mod indexes;
mod locks;
mod meta;
mod model;
mod operations;
mod reading;
mod snapshots;
mod tables;
mod trailing_bytes;
mod write_volume;

use crate::common;
use std::path::{Path, PathBuf};

use b2_chunk::CParams;
use b2_frame::{
    CommitReport, Durability, EditOptions, FrameEditor, FrameError, FrameParams, FrameWriter, Storage,
    SuperChunk,
};
use bytes::Bytes;
use tempfile::TempDir;

/// Where the frame under test is stored.
pub(crate) enum Home {
    Memory(Option<Bytes>),
    Disk(TempDir, Storage),
}

pub(crate) const HOMES: [Option<Storage>; 3] = [None, Some(Storage::Contiguous), Some(Storage::Sparse)];

impl Home {
    pub(crate) fn new(storage: Option<Storage>, params: FrameParams) -> Self {
        let home = match storage {
            None => Self::Memory(None),
            Some(storage) => Self::Disk(tempfile::tempdir().unwrap(), storage),
        };
        let options = FrameWriter::options().durability(Durability::None);
        match home {
            Self::Memory(_) => {
                Self::Memory(Some(options.memory(params).unwrap().finish().unwrap().into_bytes()))
            }
            Self::Disk(dir, storage) => {
                let path = dir.path().join("frame");
                let writer = options.storage(storage).create(path, params);
                writer.unwrap().finish().unwrap();
                Self::Disk(dir, storage)
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Memory(_) => PathBuf::new(),
            Self::Disk(dir, _) => dir.path().join("frame"),
        }
    }

    pub(crate) fn edit(&mut self) -> FrameEditor {
        match self {
            Self::Memory(bytes) => FrameEditor::options().edit_bytes(bytes.take().unwrap()).unwrap(),
            Self::Disk(..) => options().edit(self.path()).unwrap(),
        }
    }

    /// Ends editing; uncommitted changes are lost.
    pub(crate) fn close(&mut self, editor: FrameEditor) {
        match self {
            Self::Memory(bytes) => *bytes = editor.into_bytes(),
            Self::Disk(..) => drop(editor),
        }
    }

    pub(crate) fn read(&self) -> SuperChunk {
        match self {
            Self::Memory(bytes) => SuperChunk::from_bytes(bytes.clone().unwrap()).unwrap(),
            Self::Disk(..) => SuperChunk::open(self.path()).unwrap(),
        }
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut FrameEditor)) -> CommitReport {
        let mut editor = self.edit();
        change(&mut editor);
        let committed = editor.commit().unwrap();
        self.close(editor);
        committed
    }
}

pub(crate) fn options() -> EditOptions {
    FrameEditor::options().durability(Durability::None)
}

pub(crate) fn params(cparams: &CParams) -> FrameParams {
    FrameParams::from_cparams(cparams)
}

/// Writes `raw` to a file as a contiguous frame.
pub(crate) fn file(dir: &Path, raw: &[u8], chunksize: usize) -> PathBuf {
    let path = dir.join("frame");
    std::fs::write(&path, common::frame(raw, chunksize, &common::cparams(4))).unwrap();
    path
}

pub(crate) fn chunks(schunk: &SuperChunk) -> Vec<Vec<u8>> {
    (0..schunk.nchunks()).map(|nchunk| schunk.chunk(nchunk).decompress().unwrap()).collect()
}

pub(crate) fn is_argument<T: std::fmt::Debug>(result: Result<T, FrameError>) {
    assert!(matches!(result, Err(FrameError::Argument { .. })), "{result:?}");
}

pub(crate) fn out_of_range<T: std::fmt::Debug>(result: Result<T, FrameError>) {
    assert!(matches!(result, Err(FrameError::OutOfRange { .. })), "{result:?}");
}
