//! Changing frames, through the public API.

#[path = "../common/mod.rs"]
mod common;

mod model;

use std::path::PathBuf;

use b2_chunk::CParams;
use b2_frame::{Durability, FrameEditor, FrameParams, FrameWriter, OpenOptions, Storage, SuperChunk};
use bytes::Bytes;
use tempfile::TempDir;

/// Where a frame under test lives.
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
                let writer = match storage {
                    Storage::Contiguous => options.contiguous(path, params),
                    Storage::Sparse => options.sparse(path, params),
                };
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
            Self::Memory(bytes) => SuperChunk::options().edit_bytes(bytes.take().unwrap()).unwrap(),
            Self::Disk(..) => options().edit(self.path()).unwrap(),
        }
    }

    /// Ends editing; changes that are not committed are lost.
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
}

pub(crate) fn options() -> OpenOptions {
    SuperChunk::options().durability(Durability::None)
}

pub(crate) fn params(cparams: &CParams) -> FrameParams {
    FrameParams::from_cparams(cparams)
}

pub(crate) fn chunks(schunk: &SuperChunk) -> Vec<Vec<u8>> {
    (0..schunk.nchunks()).map(|nchunk| schunk.decompress_chunk(nchunk).unwrap()).collect()
}
