//! Finds an array at the start of a file, or after another one.

use anyhow::Result;

use b2_view::npy::MAGIC;
use b2kit::frame::ReadAt;

use super::header::{self, NpyHeader};

/// Number of bytes that are enough for any header.
const ENOUGH: u64 = (1 << 20) + 12;

impl NpyHeader {
    /// Reads the header of the array at byte `start` of a file of `len` bytes; `None` if there is something else.
    ///
    /// # Errors
    /// Fails if the header is invalid, or if items are missing.
    pub(crate) fn at(file: &dyn ReadAt, start: u64, len: u64) -> Result<Option<Self>> {
        let first = |n: u64| -> Result<Vec<u8>> {
            let mut bytes = vec![0; usize::try_from(n.min(len.saturating_sub(start)))?];
            file.read_exact_at(start, &mut bytes)?;
            Ok(bytes)
        };
        if first(MAGIC.len() as u64)? != MAGIC {
            return Ok(None);
        }
        let mut header = Self::read(&mut &first(ENOUGH)?[..])?;
        header.data_offset = header.data_offset.saturating_add(start);
        header.check_len(len)?;
        Ok(Some(header))
    }

    /// Like [`at`](Self::at), for a file that holds nothing but one array.
    ///
    /// # Errors
    /// Same as [`at`](Self::at). Also fails if anything follows.
    pub(crate) fn alone(file: &dyn ReadAt, len: u64) -> Result<Option<Self>> {
        match Self::at(file, 0, len)? {
            Some(header) if header.end() < len => Err(data_after(file, header.end(), len)),
            header => Ok(header),
        }
    }

    /// Where the items end.
    pub(crate) fn end(&self) -> u64 {
        self.data_offset.saturating_add(self.nbytes)
    }
}

/// The error for data after an array that ends at byte `end`.
pub(crate) fn data_after(file: &dyn ReadAt, end: u64, len: u64) -> anyhow::Error {
    let mut magic = [0; MAGIC.len()];
    let another = file.read_exact_at(end, &mut magic).is_ok() && magic == *MAGIC;
    header::data_after(end, len, another)
}
