//! The interface to storage.

use std::io;
use std::ops::Range;

use b2_frame::FrameFile;
use bytes::Bytes;

/// `Send`, except on wasm, where futures stay on their thread.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send`, except on wasm, where futures stay on their thread.
#[cfg(target_family = "wasm")]
pub trait MaybeSend {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSend for T {}

/// `Sync`, except on wasm, where futures stay on their thread.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Sync + ?Sized> MaybeSync for T {}
/// `Sync`, except on wasm, where futures stay on their thread.
#[cfg(target_family = "wasm")]
pub trait MaybeSync {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSync for T {}

/// Storage that serves byte ranges of one frame.
///
/// The frame is one object ([`FrameFile::Main`]), or many if it is sparse: the index, which is
/// `FrameFile::Main` too, and one object per chunk ([`FrameFile::Chunk`]). Several ranges are
/// requested at once, by several calls whose futures are polled together.
///
/// ```
/// use std::{io, ops::Range};
/// use b2_async::{Answer, Opening, RangeReader, Version};
/// use b2_frame::FrameFile;
///
/// struct Store(bytes::Bytes);
///
/// impl RangeReader for Store {
///     fn name(&self) -> String {
///         "frame in memory".to_owned()
///     }
///     async fn open(&self, _: FrameFile, first: u64, last: u64) -> io::Result<Opening> {
///         // An HTTP client would request `bytes=0-(first-1)` and `bytes=-(last)` at once.
///         let len = self.0.len();
///         Ok(Opening {
///             first: self.0.slice(..len.min(first as usize)),
///             last: self.0.slice(len.saturating_sub(last as usize)..),
///             len: len as u64,
///             version: Version::default(),
///         })
///     }
///     async fn range(&self, _: FrameFile, range: Range<u64>) -> io::Result<Answer> {
///         let bytes = self.0.slice(range.start as usize..range.end as usize);
///         Ok(Answer { bytes, version: Version::default() })
///     }
/// }
/// ```
pub trait RangeReader: MaybeSend + MaybeSync {
    /// Returns the name of the frame for errors. It must not contain credentials.
    fn name(&self) -> String;

    /// Reads the first and the last bytes of a file at once; fewer if the file is shorter. They may
    /// overlap.
    ///
    /// # Errors
    /// Any error of the storage.
    fn open(
        &self,
        file: FrameFile,
        first: u64,
        last: u64,
    ) -> impl Future<Output = io::Result<Opening>> + MaybeSend;

    /// Reads a range of a file. The answer is shorter only if the file ends inside or before the
    /// range.
    ///
    /// # Errors
    /// Any error of the storage. [`io::ErrorKind::StaleNetworkFileHandle`] says that the file is no
    /// longer the one that was opened.
    fn range(
        &self,
        file: FrameFile,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<Answer>> + MaybeSend;

    /// Returns how many requests may be in flight at once; 16 by default.
    fn in_flight(&self) -> usize {
        16
    }
}

impl<R: RangeReader + ?Sized> RangeReader for std::sync::Arc<R>
where
    Self: MaybeSend + MaybeSync,
{
    fn name(&self) -> String {
        (**self).name()
    }
    fn open(
        &self,
        file: FrameFile,
        first: u64,
        last: u64,
    ) -> impl Future<Output = io::Result<Opening>> + MaybeSend {
        (**self).open(file, first, last)
    }
    fn range(
        &self,
        file: FrameFile,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<Answer>> + MaybeSend {
        (**self).range(file, range)
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
}

/// The answer to [`RangeReader::open`].
#[derive(Clone, Debug)]
pub struct Opening {
    /// The first bytes of the file.
    pub first: Bytes,
    /// The last bytes of the file.
    pub last: Bytes,
    /// Length of the file in bytes.
    pub len: u64,
    /// The version that both parts belong to.
    pub version: Version,
}

/// The answer to [`RangeReader::range`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// The version that they belong to.
    pub version: Version,
}

/// What a store reports about the version of a file. Responses of different versions are never
/// mixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The HTTP entity tag, including quotes, and the prefix `W/` if it is weak.
    pub etag: Option<String>,
    /// The modification time, in any form that differs between versions.
    pub last_modified: Option<String>,
    /// Length of the whole file in bytes.
    pub len: Option<u64>,
}

impl Version {
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
    pub fn may_be(&self, other: &Self) -> bool {
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

/// A contiguous frame in memory.
impl RangeReader for Bytes {
    fn name(&self) -> String {
        "frame in memory".to_owned()
    }

    async fn open(&self, file: FrameFile, first: u64, last: u64) -> io::Result<Opening> {
        let len = self.len() as u64;
        let version = Version { len: Some(len), ..Version::default() };
        let first = part(self, file, 0..first)?;
        Ok(Opening { first, last: part(self, file, len.saturating_sub(last)..len)?, len, version })
    }

    async fn range(&self, file: FrameFile, range: Range<u64>) -> io::Result<Answer> {
        let version = Version { len: Some(self.len() as u64), ..Version::default() };
        Ok(Answer { bytes: part(self, file, range)?, version })
    }
}

fn part(bytes: &Bytes, file: FrameFile, range: Range<u64>) -> io::Result<Bytes> {
    if file != FrameFile::Main {
        return Err(io::ErrorKind::NotFound.into());
    }
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    Ok(bytes.slice(at(range.start)..at(range.end).max(at(range.start))))
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
