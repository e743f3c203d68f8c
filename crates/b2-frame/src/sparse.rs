//! Sparse frames (docs/format/frame-sparse.md): a directory with an index file and a file for each chunk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::FrameError;
use crate::plan::{FrameFile, FrameFiles, OpenFile};
use crate::storage::{FileKind, FileSystem, Links};

/// Name of the index file.
pub const INDEX_NAME: &str = "chunks.b2frame";
/// Name of the lock file that other programs may leave in the directory.
pub(crate) const LOCK_NAME: &str = ".b2lock";

/// Name of the file with chunk `id`.
pub(crate) fn chunk_name(id: u32) -> String {
    format!("{id:08X}.chunk")
}

/// Whether a sparse frame may hold a file of that name.
pub(crate) fn is_member(name: &str) -> bool {
    let is_chunk = name.strip_suffix(".chunk").is_some_and(|id| {
        id.len() == 8 && id.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
    });
    is_chunk || name == INDEX_NAME || name == LOCK_NAME
}

/// The files of a sparse frame. Chunk files are opened when they are read.
pub(crate) struct Sparse {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    index: OpenFile,
}

impl Sparse {
    pub(crate) fn open(fs: Arc<dyn FileSystem>, dir: PathBuf) -> Result<Self, FrameError> {
        let index = open_file(&*fs, &dir.join(INDEX_NAME), Links::Refuse, 0)?;
        Ok(Self { fs, dir, index })
    }
}

impl FrameFiles for Sparse {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        match file {
            FrameFile::Main => Ok(self.index.clone()),
            FrameFile::Chunk(id) => open_file(&*self.fs, &self.dir.join(chunk_name(id)), Links::Refuse, 0),
        }
    }
}

/// Opens a regular file; anything else is refused without being opened.
pub(crate) fn open_file(
    fs: &dyn FileSystem,
    path: &Path,
    links: Links,
    base: u64,
) -> Result<OpenFile, FrameError> {
    let name = path.display().to_string();
    match fs.kind(path, links).map_err(FrameError::io(&*name))? {
        FileKind::File => {}
        _ => return Err(FrameError::NotRegular { path: path.to_owned(), or_directory: false }),
    }
    let file = fs.open(path, links).map_err(FrameError::io(&*name))?;
    OpenFile::new(file, name, base)
}
