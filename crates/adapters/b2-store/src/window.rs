//! Members stored as a range of an archive or frame.

use std::io;
use std::sync::Arc;

use b2_frame::{ReadAt, RequestStats, SuperChunk};

/// A range of a file as a separate file, so that nothing outside it is read.
pub(crate) struct FileWindow {
    file: Arc<dyn ReadAt>,
    start: u64,
    len: u64,
}

impl FileWindow {
    /// The range must be inside the file.
    pub(crate) fn new(file: Arc<dyn ReadAt>, start: u64, len: u64) -> Self {
        Self { file, start, len }
    }
}

impl ReadAt for FileWindow {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        match self.start.checked_add(offset) {
            Some(start) if end.is_some_and(|end| end <= self.len) => self.file.read_exact_at(start, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn in_flight(&self) -> usize {
        self.file.in_flight()
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        self.file.request_stats()
    }
}

/// The uncompressed bytes of a frame, decoded on demand.
pub(crate) struct FrameData(pub(crate) SuperChunk);

impl ReadAt for FrameData {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.nbytes())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_bytes_into(offset, buf).map_err(io::Error::other)
    }
}
