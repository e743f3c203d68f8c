//! The requests that the engine has for the page: ranges of files.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use b2_frame::Version;
use bytes::Bytes;

/// What the page is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Read a range of a file.
    Read {
        /// Number of the request.
        request: u32,
        /// Number of the file, which the page has given.
        file: u32,
        /// Of a sparse frame: the chunk whose file it is. `None` is the file itself.
        chunk: Option<u32>,
        /// The bytes.
        range: Range<u64>,
    },
    /// Find out how long a file is.
    Length {
        /// Number of the request.
        request: u32,
        /// Number of the file.
        file: u32,
    },
    /// Nobody waits for this request any more.
    Forget {
        /// Number of the request.
        request: u32,
    },
}

/// What the page has found.
#[derive(Clone, Debug, Default)]
pub struct HostResponse {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// What is known about the version of the file, and its length.
    pub version: Version,
}

#[derive(Debug, Default)]
struct HostState {
    next: u32,
    asks: VecDeque<HostRequest>,
    /// The requests that somebody waits for, and what was found for them.
    waiting: HashMap<u32, Option<io::Result<HostResponse>>>,
}

/// The page, as the engine sees it. Cloning is cheap.
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

    /// Takes the answer to a request. Answers that nobody waits for are dropped.
    pub fn answer(&self, request: u32, found: io::Result<HostResponse>) {
        if let Some(place) = self.lock().waiting.get_mut(&request) {
            *place = Some(found);
        }
    }

    /// Reads a range of a file, or of one with a chunk of a sparse frame.
    ///
    /// # Errors
    /// What the page answers.
    pub async fn read(&self, file: u32, chunk: Option<u32>, range: Range<u64>) -> io::Result<HostResponse> {
        self.ask(|request| HostRequest::Read { request, file, chunk, range }).await
    }

    /// Finds out how long a file is.
    ///
    /// # Errors
    /// What the page answers; [`io::ErrorKind::Unsupported`] when it does not know.
    pub async fn length(&self, file: u32) -> io::Result<u64> {
        let found = self.ask(|request| HostRequest::Length { request, file }).await?;
        let unknown =
            || io::Error::new(io::ErrorKind::Unsupported, "the server does not tell how long the file is");
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
                // The engine polls all tasks after each answer.
                None => Poll::Pending,
            }
        })
        .await
    }
}
