//! The interface to storage.

use std::io;
use std::ops::Range;

use b2_frame::{FrameFile, OpenResponse, RangeResponse, Version};
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
/// The frame is one object ([`FrameFile::Main`]), or many if it is sparse: the index, which is `FrameFile::Main` too,
/// and one object per chunk ([`FrameFile::Chunk`]). Several ranges are requested concurrently, by calls whose futures
/// are polled together.
///
/// ```
/// use std::{io, ops::Range};
/// use b2_async::{RangeResponse, OpenResponse, RangeReader, Version};
/// use b2_frame::FrameFile;
///
/// struct Store(bytes::Bytes);
///
/// impl RangeReader for Store {
///     fn name(&self) -> String {
///         "frame in memory".to_owned()
///     }
///     async fn open(&self, _: FrameFile, first: u64, last: u64) -> io::Result<OpenResponse> {
///         // An HTTP client would request `bytes=0-(first-1)` and `bytes=-(last)` concurrently.
///         let len = self.0.len();
///         let first = self.0.slice(..len.min(first as usize));
///         let last = self.0.slice(len.saturating_sub(last as usize)..);
///         Ok(OpenResponse::new(first, last, len as u64, Version::default()))
///     }
///     async fn range(&self, _: FrameFile, range: Range<u64>) -> io::Result<RangeResponse> {
///         let bytes = self.0.slice(range.start as usize..range.end as usize);
///         Ok(RangeResponse::new(bytes, Version::default()))
///     }
/// }
/// ```
pub trait RangeReader: MaybeSend + MaybeSync {
    /// Returns the name of the frame for errors. It must not contain credentials.
    fn name(&self) -> String;

    /// Reads the first and the last bytes of a file concurrently; fewer if the file is shorter. They may overlap.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such file, or any other error of the storage. It becomes
    /// [`FrameError::Io`](b2_frame::FrameError::Io).
    fn open(
        &self,
        file: FrameFile,
        first: u64,
        last: u64,
    ) -> impl Future<Output = io::Result<OpenResponse>> + MaybeSend;

    /// Reads a range of a file. The result is shorter only if the file ends inside or before the
    /// range.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if the file is no longer the one that was opened, which becomes
    /// [`FrameError::Changed`](b2_frame::FrameError::Changed); any other error of the storage becomes
    /// [`FrameError::Io`](b2_frame::FrameError::Io).
    fn range(
        &self,
        file: FrameFile,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<RangeResponse>> + MaybeSend;

    /// Returns the maximum number of concurrent requests; 64 by default. It adapts to the latency: at most 32 below 40
    /// ms, and 16 below 10 ms or where there is no clock, as on wasm.
    fn in_flight(&self) -> usize {
        64
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
    ) -> impl Future<Output = io::Result<OpenResponse>> + MaybeSend {
        (**self).open(file, first, last)
    }
    fn range(
        &self,
        file: FrameFile,
        range: Range<u64>,
    ) -> impl Future<Output = io::Result<RangeResponse>> + MaybeSend {
        (**self).range(file, range)
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
}

/// A contiguous frame in memory.
impl RangeReader for Bytes {
    fn name(&self) -> String {
        "frame in memory".to_owned()
    }

    async fn open(&self, file: FrameFile, first: u64, last: u64) -> io::Result<OpenResponse> {
        let len = self.len() as u64;
        let version = Version::default().len(Some(len));
        let first = part(self, file, 0..first)?;
        Ok(OpenResponse::new(first, part(self, file, len.saturating_sub(last)..len)?, len, version))
    }

    async fn range(&self, file: FrameFile, range: Range<u64>) -> io::Result<RangeResponse> {
        let version = Version::default().len(Some(self.len() as u64));
        Ok(RangeResponse::new(part(self, file, range)?, version))
    }
}

fn part(bytes: &Bytes, file: FrameFile, range: Range<u64>) -> io::Result<Bytes> {
    if file != FrameFile::Main {
        return Err(io::ErrorKind::NotFound.into());
    }
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    Ok(bytes.slice(at(range.start)..at(range.end).max(at(range.start))))
}
