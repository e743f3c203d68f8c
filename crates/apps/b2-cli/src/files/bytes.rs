//! Positioned reads.

use std::fs::File;
use std::io;
use std::sync::Arc;

use b2kit::frame::ReadAt;

/// Bytes that several threads can read concurrently at any position.
pub(crate) trait ByteSource {
    /// Fills `buf` with the bytes from `offset` on.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

impl ByteSource for File {
    #[cfg(unix)]
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buf, offset)
    }

    #[cfg(not(unix))]
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        // On this platform a file has one cursor, which all threads share.
        static CURSOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _cursor = CURSOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (&*self).seek(SeekFrom::Start(offset))?;
        (&*self).read_exact(buf)
    }
}

impl ByteSource for Arc<dyn ReadAt> {
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        ReadAt::read_exact_at(&**self, offset, buf)
    }
}
