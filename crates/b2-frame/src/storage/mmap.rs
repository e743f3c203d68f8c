//! Memory-mapped files (feature `mmap`), which are read without copying. They are not covered by
//! the promise that no input can do harm.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::storage::disk::{Disk, DiskFile};
use crate::storage::traits::{FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles};

/// The file system of the operating system, with files mapped into memory when they are opened for
/// reading.
///
/// ```no_run
/// use std::sync::Arc;
/// use b2_frame::{MappedDisk, SuperChunk};
///
/// // SAFETY: `big.b2nd` is not changed or truncated while it is open.
/// let mapped = unsafe { MappedDisk::new() };
/// let schunk = SuperChunk::options().file_system(Arc::new(mapped)).open("big.b2nd")?;
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Debug)]
pub struct MappedDisk(());

impl MappedDisk {
    /// Creates a file system that maps every file it opens for reading.
    ///
    /// # Safety
    ///
    /// While a file, or anything read from it, is in use, it must not be changed or truncated. A truncated file ends
    /// the process with a signal; changed bytes are undefined behaviour. Our commits append and then write the header,
    /// and C-Blosc2 writes in place, so map only files that never change.
    #[allow(unsafe_code, reason = "the contract is the caller's, nothing here can check it")]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

struct MappedFile {
    bytes: Bytes,
    file: DiskFile,
}

impl ReadAt for MappedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(offset, buf)
    }
    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.bytes.read_at(range)
    }
    fn identity(&self) -> io::Result<Option<FileId>> {
        self.file.identity()
    }
}

#[warn(clippy::missing_trait_methods)]
impl ReadFiles for MappedDisk {
    #[allow(unsafe_code, reason = "the one call that maps")]
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        let file = Disk.open_file(path, links)?;
        let bytes = if file.len()? == 0 {
            Bytes::new()
        } else {
            // SAFETY: The caller of `MappedDisk::new` has promised that the file is not changed or
            // truncated, and `open_file` has checked that it is a regular file.
            Bytes::from_owner(unsafe { memmap2::Mmap::map(file.as_file()) }?)
        };
        Ok(Arc::new(MappedFile { bytes, file }))
    }
    fn open_with_len(&self, path: &Path, links: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        let file = self.open(path, links)?;
        let len = file.len()?;
        Ok((file, len))
    }
    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        Disk.kind(path, links)
    }
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        Disk.identity(path, links)
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Disk.is_locked(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        Disk.list(dir)
    }
    fn is_local(&self) -> bool {
        Disk.is_local()
    }
    /// Files that are changed are not mapped.
    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(Arc::new(Disk))
    }
}

#[cfg(test)]
mod tests {
    use b2_chunk::{Chunk, Compression};

    use super::*;
    use crate::{FrameParams, FrameWriter, SuperChunk};

    #[test]
    #[allow(unsafe_code, reason = "the files are this test's own")]
    fn mapped_frames_read_as_others_do() {
        let dir = tempfile::tempdir().unwrap();
        let cparams = Compression::new().itemsize(4).build().unwrap();
        let raw: Vec<u8> = (0..100_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        let (file, folder) = (dir.path().join("a"), dir.path().join("b"));
        for mut writer in [
            FrameWriter::create(&file, FrameParams::from_cparams(&cparams)).unwrap(),
            FrameWriter::options()
                .storage(crate::Storage::Sparse)
                .create(&folder, FrameParams::from_cparams(&cparams))
                .unwrap(),
        ] {
            for part in raw.chunks(60_000) {
                writer.append(Chunk::compress_bytes(part, &cparams).unwrap()).unwrap();
            }
            writer.finish().unwrap();
        }
        // SAFETY: Only this test uses the files.
        let options = SuperChunk::options().file_system(Arc::new(unsafe { MappedDisk::new() }));
        for path in [file, folder] {
            let schunk = options.open(&path).unwrap();
            assert!(schunk.read_bytes(0..schunk.nbytes()).unwrap() == raw);
            assert!(schunk.read_items(12_345..12_400).unwrap() == raw[49_380..49_600]);
        }
        // Anything else is refused: an empty file, a directory.
        let empty = dir.path().join("empty");
        std::fs::write(&empty, []).unwrap();
        assert!(options.open(&empty).is_err());
        assert!(options.open(dir.path()).is_err());
    }
}
