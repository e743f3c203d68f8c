//! Shared by all readers of remote storage: the bytes that come with the opening of a file, its version, and the check
//! of each response.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::storage::request_stats::RequestStats;
use crate::storage::traits::{ReadAt, eof};

/// Maximum number of files that [`OpenFiles`] keeps. Each holds 80 KiB.
const MAX_OPEN_FILES: usize = 64;

/// The version of a file, as reported by a store. Responses of different versions are never mixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// The HTTP entity tag, including quotes, and the prefix `W/` if it is weak.
    pub etag: Option<String>,
    /// The modification time, in any form that differs between versions.
    pub last_modified: Option<String>,
    /// Length of the whole file in bytes.
    pub len: Option<u64>,
}

impl Version {
    /// Sets the entity tag.
    #[must_use]
    pub fn etag(self, etag: Option<String>) -> Self {
        Self { etag, ..self }
    }

    /// Sets the modification time.
    #[must_use]
    pub fn last_modified(self, last_modified: Option<String>) -> Self {
        Self { last_modified, ..self }
    }

    /// Sets the length of the whole file in bytes.
    #[must_use]
    pub fn len(self, len: Option<u64>) -> Self {
        Self { len, ..self }
    }

    /// Returns the bytes of the response to a request for `range` of a file of this version. There are fewer than
    /// requested only if the file ends there and its length was not known.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if the file has changed, [`io::ErrorKind::InvalidData`] if there are
    /// too many bytes, and [`io::ErrorKind::UnexpectedEof`] if there are too few.
    pub fn accept(&self, range: &Range<u64>, answer: RangeResponse) -> io::Result<Bytes> {
        if !self.may_be(&answer.version) {
            let what = "the file has changed since it was opened";
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what));
        }
        let (got, requested) = (answer.bytes.len() as u64, range.end.saturating_sub(range.start));
        let wrong = |kind| {
            let what = format!("the store returned {got} bytes where {requested} were requested");
            Err(io::Error::new(kind, what))
        };
        let end = range.start.saturating_add(got);
        match self.len.or(answer.version.len) {
            _ if got > requested => wrong(io::ErrorKind::InvalidData),
            Some(len) if got < requested && end < len => wrong(io::ErrorKind::UnexpectedEof),
            _ => Ok(answer.bytes),
        }
    }

    fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// Returns whether changes of the file can be noticed at all: by a strong ETag or by the
    /// modification time.
    pub fn is_guarded(&self) -> bool {
        self.strong().is_some() || self.last_modified.is_some()
    }

    /// Returns whether both may be the same version: their strong ETags are equal, or, if one has
    /// none, no field that both have differs.
    fn may_be(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        let same = agree(&self.last_modified, &other.last_modified) && agree(&self.len, &other.len);
        match (self.strong(), other.strong()) {
            (Some(a), Some(b)) => a == b && agree(&self.len, &other.len),
            // If a server stops sending the ETag, another server may have answered.
            (Some(_), None) | (None, Some(_)) => same && self.last_modified == other.last_modified,
            (None, None) => same && agree(&self.etag, &other.etag),
        }
    }
}

/// The response to a request for a range of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RangeResponse {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// The version that they belong to.
    pub version: Version,
}

impl RangeResponse {
    /// Creates an answer from the bytes of a range and their version.
    pub fn new(bytes: Bytes, version: Version) -> Self {
        Self { bytes, version }
    }
}

/// A remote file in the version that was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenResponse {
    /// The first bytes of the file.
    pub first: Bytes,
    /// The last bytes of the file.
    pub last: Bytes,
    /// Length of the file in bytes.
    pub len: u64,
    /// The version that both parts belong to.
    pub version: Version,
}

impl OpenResponse {
    /// Creates it from both ends of a file, its length and its version.
    pub fn new(first: Bytes, last: Bytes, len: u64, version: Version) -> Self {
        Self { first, last, len, version }
    }
}

impl OpenResponse {
    /// How many bytes to request from the start of a file.
    pub const FIRST: u64 = 16 << 10;
    /// How many bytes to request from its end: trailer, index and checksums of most frames.
    pub const LAST: u64 = 64 << 10;

    /// Returns the bytes of `range`, if they came with the opening.
    pub fn received(&self, range: &Range<u64>) -> Option<Bytes> {
        let parts = [(0, &self.first), (self.len.saturating_sub(self.last.len() as u64), &self.last)];
        parts.into_iter().find_map(|(at, bytes)| {
            let index = |offset: u64| usize::try_from(offset.checked_sub(at)?).ok();
            let inside = index(range.start)?..index(range.end)?;
            bytes.get(inside.clone()).map(|part| bytes.slice_ref(part))
        })
    }
}

/// One file in remote storage, read by requests that block.
pub trait RemoteSource: Send + Sync {
    /// Requests a range inside the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if the file is no longer the one that was opened, which becomes
    /// [`FrameError::Changed`](crate::FrameError::Changed); or any error of the storage.
    fn range(&self, range: Range<u64>) -> io::Result<RangeResponse>;

    /// Returns how many requests may be in flight concurrently, see [`ReadAt::in_flight`]. It decreases if the latency is
    /// low, see [`RequestStats`].
    fn in_flight(&self) -> usize {
        1
    }
}

/// An open file in remote storage. Responses of another version than the one that was opened are errors.
#[derive(Debug)]
pub struct RemoteFile<S> {
    opening: OpenResponse,
    source: S,
    request_stats: RequestStats,
}

impl<S> RemoteFile<S> {
    /// Creates the file from the response to its opening.
    pub fn new(source: S, opening: OpenResponse) -> Self {
        Self { opening, source, request_stats: RequestStats::default() }
    }

    /// Sets the statistics of the requests for opening the file.
    #[must_use]
    pub fn with_request_stats(self, request_stats: RequestStats) -> Self {
        Self { request_stats, ..self }
    }

    /// Returns the version of the content, as the storage reported it when the file was opened.
    pub fn version(&self) -> &Version {
        &self.opening.version
    }
}

impl<S: RemoteSource> ReadAt for RemoteFile<S> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.opening.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.read_at(offset..offset.saturating_add(buf.len() as u64))?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        if range.end > self.opening.len {
            return Err(eof());
        }
        match self.opening.received(&range) {
            Some(cached) => Ok(cached),
            None => {
                let flight = self.request_stats.begin();
                let answer = self.source.range(range.clone())?;
                flight.end(answer.bytes.len() as u64);
                let bytes = self.opening.version.accept(&range, answer)?;
                // Storage that does not report the length may have sent less.
                if bytes.len() as u64 == range.end - range.start { Ok(bytes) } else { Err(eof()) }
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.request_stats.in_flight(self.source.in_flight())
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        Some(&self.request_stats)
    }
}

/// Open files by name. They are cached, since opening one takes requests, and assumed not to change.
#[derive(Debug)]
pub struct OpenFiles<S>(Mutex<HashMap<String, Arc<RemoteFile<S>>>>);

impl<S> Default for OpenFiles<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> OpenFiles<S> {
    /// Returns the file of this name, and opens it if it is not cached.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(
        &self,
        name: &str,
        open: impl FnOnce() -> io::Result<RemoteFile<S>>,
    ) -> io::Result<Arc<RemoteFile<S>>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = lock().get(name) {
            return Ok(file.clone());
        }
        // Others may open files in the meantime.
        let file = Arc::new(open()?);
        let mut files = lock();
        if files.len() >= MAX_OPEN_FILES {
            files.clear();
        }
        files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    /// Forgets all files.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: &str, time: &str, len: u64) -> Version {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Version { etag: text(etag), last_modified: text(time), len: (len > 0).then_some(len) }
    }

    #[test]
    fn versions_differ_where_they_can_be_told_apart() {
        let same = |a: Version, b: Version| a.may_be(&b) && b.may_be(&a);
        assert!(same(version("\"a\"", "", 0), version("\"a\"", "later", 0)));
        assert!(!same(version("\"a\"", "now", 7), version("\"b\"", "now", 7)));
        assert!(!same(version("\"a\"", "", 7), version("\"a\"", "", 8)));
        // Weak tags and times.
        assert!(same(version("W/\"a\"", "now", 7), version("W/\"a\"", "now", 7)));
        assert!(!same(version("W/\"a\"", "now", 7), version("W/\"b\"", "now", 7)));
        assert!(!same(version("W/\"a\"", "now", 7), version("W/\"a\"", "later", 7)));
        assert!(!same(version("\"a\"", "now", 7), version("", "", 7)));
        assert!(same(version("\"a\"", "now", 7), version("", "now", 7)));
        assert!(!same(version("", "", 7), version("", "", 8)));
        // Nothing is known.
        assert!(same(version("", "", 0), version("", "", 8)));
        assert!(!version("W/\"a\"", "", 7).is_guarded());
        assert!(version("\"a\"", "", 0).is_guarded() && version("", "now", 0).is_guarded());
    }
}
