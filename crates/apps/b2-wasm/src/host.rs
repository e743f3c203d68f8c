//! The engine's requests to the page for ranges of files.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use b2_frame::Version;
use bytes::Bytes;

/// A request to the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Read a range of a file.
    Read {
        /// Number of the request.
        request: u32,
        /// Number of the file, assigned by the page.
        file: u32,
        /// The chunk of a sparse frame whose file it is; `None` for the main file.
        chunk: Option<u32>,
        /// The bytes.
        range: Range<u64>,
    },
    /// Determine the length of a file.
    Length {
        /// Number of the request.
        request: u32,
        /// Number of the file.
        file: u32,
    },
    /// The request is no longer needed.
    Forget {
        /// Number of the request.
        request: u32,
    },
}

/// The response of the page.
#[derive(Clone, Debug, Default)]
pub struct HostResponse {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// The version of the file, as far as known, and its length.
    pub version: Version,
}

#[derive(Debug, Default)]
struct HostState {
    next: u32,
    asks: VecDeque<HostRequest>,
    /// Pending requests and their responses.
    waiting: HashMap<u32, Option<io::Result<HostResponse>>>,
}

/// The page's side of the engine. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Host(Arc<Mutex<HostState>>);

/// A request that is forgotten when it is dropped.
struct PendingRequest {
    host: Host,
    request: u32,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let mut state = self.host.lock();
        if let Some(None) = state.waiting.remove(&self.request) {
            state.asks.push_back(HostRequest::Forget { request: self.request });
        }
    }
}

impl Host {
    fn lock(&self) -> MutexGuard<'_, HostState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next request for the page.
    #[must_use]
    pub fn next(&self) -> Option<HostRequest> {
        self.lock().asks.pop_front()
    }

    /// Accepts the response to a request. Responses to forgotten requests are dropped.
    pub fn answer(&self, request: u32, found: io::Result<HostResponse>) {
        if let Some(place) = self.lock().waiting.get_mut(&request) {
            *place = Some(found);
        }
    }

    /// Reads a range of a file, or of a chunk file of a sparse frame.
    ///
    /// # Errors
    /// The error reported by the page.
    pub async fn read(&self, file: u32, chunk: Option<u32>, range: Range<u64>) -> io::Result<HostResponse> {
        self.ask(|request| HostRequest::Read { request, file, chunk, range }).await
    }

    /// Determines the length of a file.
    ///
    /// # Errors
    /// The error reported by the page; [`io::ErrorKind::Unsupported`] if the length is unknown.
    pub async fn length(&self, file: u32) -> io::Result<u64> {
        let found = self.ask(|request| HostRequest::Length { request, file }).await?;
        let unknown = || {
            io::Error::new(io::ErrorKind::Unsupported, "the server does not report the length of the file")
        };
        found.version.len.ok_or_else(unknown)
    }

    async fn ask(&self, ask: impl FnOnce(u32) -> HostRequest) -> io::Result<HostResponse> {
        let pending = {
            let mut state = self.lock();
            state.next = state.next.wrapping_add(1);
            let request = state.next;
            state.waiting.insert(request, None);
            state.asks.push_back(ask(request));
            PendingRequest { host: self.clone(), request }
        };
        poll_fn(|_| {
            let mut state = pending.host.lock();
            match state.waiting.get_mut(&pending.request).and_then(Option::take) {
                Some(found) => {
                    state.waiting.remove(&pending.request);
                    Poll::Ready(found)
                }
                // The engine polls all tasks after each response.
                None => Poll::Pending,
            }
        })
        .await
    }
}
