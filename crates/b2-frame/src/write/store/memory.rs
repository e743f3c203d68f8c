//! The buffer of a frame in memory that is being changed.

use std::io;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;

use crate::storage::traits::{ReadAt, WriteAt, part};

/// A buffer with any number of readers and one writer.
#[derive(Debug)]
pub(crate) struct MemoryFile(RwLock<Vec<u8>>);

impl MemoryFile {
    /// Takes over the buffer, and copies it only if others share it.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(RwLock::new(bytes.into()))
    }

    /// Replaces the content.
    pub(crate) fn put(&self, bytes: Vec<u8>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// Returns the content without copying it.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the content.
    pub(crate) fn copy(&self) -> Vec<u8> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReadAt for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        buf.copy_from_slice(part(&bytes, offset, buf.len())?);
        Ok(())
    }
}

impl WriteAt for MemoryFile {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).map_err(|_| out_of_memory())?;
        let end = start.checked_add(data.len()).ok_or_else(out_of_memory)?;
        if end > bytes.len() {
            let more = end - bytes.len();
            bytes.try_reserve(more).map_err(|_| out_of_memory())?;
            if start == bytes.len() {
                bytes.extend_from_slice(data);
                return Ok(());
            }
            bytes.resize(end, 0);
        }
        if let Some(part) = bytes.get_mut(start..end) {
            part.copy_from_slice(data);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}
