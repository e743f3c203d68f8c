//! The bytes of a file below the metadata, in pages.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use b2_core::memory;
use b2_frame::ReadAt;
use bytes::Bytes;

/// Bytes of a page. Metadata is read in many small pieces that are often near each other.
const PAGE: u64 = 4 << 10;
/// Maximum number of cached pages.
const MAX_CACHED_PAGES: usize = 4096;
/// Larger pieces are not cached.
const LARGE: u64 = 16 * PAGE;
/// Bytes of metadata that one call may use: this many times the length of the file, and some for small files. This bounds
/// the time that cycles in a damaged file can take.
const TIMES: u64 = 8;
const SOME: u64 = 64 << 20;
/// Minimum bytes that a piece counts.
const MIN_CHARGED_LEN: u64 = 64;

/// The part of a file after its user block.
pub(crate) struct Pages {
    file: Arc<dyn ReadAt>,
    /// Where the addresses of the file start.
    base: u64,
    /// Bytes from there on.
    len: u64,
    /// Maximum bytes of one piece.
    most: u64,
    /// Bytes of metadata that the current call has used.
    used: AtomicU64,
    pages: Mutex<HashMap<u64, Bytes>>,
}

impl Pages {
    pub(crate) fn new(file: Arc<dyn ReadAt>, base: u64, len: u64, most: u64) -> Self {
        let len = len.saturating_sub(base);
        Self { file, base, len, most, used: AtomicU64::new(0), pages: Mutex::default() }
    }

    /// Reads bytes of the data, which are not cached.
    pub(crate) fn data(&self, address: u64, len: u64) -> io::Result<Bytes> {
        let range = self.range(address, len)?;
        self.file.read_at(range)
    }

    pub(crate) fn file(&self) -> &dyn ReadAt {
        &*self.file
    }

    /// Where in the file an address is.
    pub(crate) fn position(&self, address: u64) -> u64 {
        self.base.saturating_add(address)
    }

    /// Number of bytes that follow an address.
    pub(crate) fn len_from(&self, address: u64) -> u64 {
        self.len.saturating_sub(address)
    }

    /// Returns the position in the file of bytes at an address, which must be inside the file.
    pub(crate) fn range(&self, address: u64, len: u64) -> io::Result<std::ops::Range<u64>> {
        let end = address.checked_add(len).filter(|&end| end <= self.len);
        if end.is_none() {
            let text = format!("{len} bytes at {address} lie after the end of the file");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        let start = self.position(address);
        Ok(start..start.saturating_add(len))
    }

    /// Begins a call with a new budget for metadata. Concurrent calls share the budget, which the last one
    /// to begin has reset.
    pub(crate) fn begin(&self) {
        self.used.store(0, Ordering::Relaxed);
    }

    /// Counts bytes of metadata that are used.
    pub(crate) fn spend(&self, len: u64) -> io::Result<()> {
        let allowed = self.len.saturating_mul(TIMES).saturating_add(SOME);
        if self.used.fetch_add(len.max(MIN_CHARGED_LEN), Ordering::Relaxed) > allowed {
            let text = "more metadata is used than a file of this length can have";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(())
    }

    /// Reads bytes of the metadata.
    pub(crate) fn metadata(&self, address: u64, len: u64) -> io::Result<Vec<u8>> {
        self.spend(len)?;
        self.unspent(address, len)
    }

    /// Reads bytes of the metadata that the caller counts.
    pub(crate) fn unspent(&self, address: u64, len: u64) -> io::Result<Vec<u8>> {
        self.range(address, len)?;
        if len > self.most {
            let text = format!("{len} bytes of metadata at {address} are more than is allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut out = memory::zeroed(usize::try_from(len).map_err(io::Error::other)?)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        if len > LARGE {
            self.file.read_exact_at(self.position(address), &mut out)?;
            return Ok(out);
        }
        let mut rest = &mut out[..];
        let mut at = address;
        while !rest.is_empty() {
            let number = at / PAGE;
            // Pages that follow each other are fetched together.
            let last = at.saturating_add(rest.len() as u64).saturating_sub(1) / PAGE;
            let page = self.page(number, last)?;
            let skipped = usize::try_from(at % PAGE).map_err(io::Error::other)?;
            let bytes = page.get(skipped..).unwrap_or_default();
            let (to, later) = rest.split_at_mut(bytes.len().min(rest.len()));
            to.copy_from_slice(bytes.get(..to.len()).unwrap_or_default());
            if to.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at = at.saturating_add(to.len() as u64);
            rest = later;
        }
        Ok(out)
    }

    /// Returns a page, and fetches those up to `last` with it if it is not there.
    fn page(&self, number: u64, last: u64) -> io::Result<Bytes> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&number) {
            return Ok(page.clone());
        }
        let start = number.saturating_mul(PAGE);
        let end = last.saturating_add(1).saturating_mul(PAGE).min(self.len);
        let bytes = self.data(start, end.saturating_sub(start))?;
        if pages.len() >= MAX_CACHED_PAGES {
            pages.clear();
        }
        let mut rest = bytes.clone();
        for number in number..=last {
            let page = rest.split_to(rest.len().min(PAGE as usize));
            pages.insert(number, page);
        }
        Ok(bytes.slice(..bytes.len().min(PAGE as usize)))
    }
}
