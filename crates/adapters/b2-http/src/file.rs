//! A file on a server.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use b2_frame::{OpenResponse, RangeResponse, RemoteFile, RemoteSource, RequestStats};
use bytes::Bytes;

use crate::client::{Client, RangeReply, RangeRequest};
use crate::url::Url;

/// Length of the first read of a chunk file, in bytes. It has no metadata at its end, so no second read is needed.
const CHUNK_FILE_HEAD_LEN: u64 = 128 << 10;

/// A file on a server, read in ranges.
pub type HttpFile = RemoteFile<HttpSource>;

/// The source of a file's ranges.
#[derive(Debug)]
pub struct HttpSource {
    client: Arc<Client>,
    url: Url,
    /// The URL that redirects led to, so that they need not be followed again.
    target: Mutex<Option<Url>>,
}

pub(crate) fn open(client: &Arc<Client>, url: Url) -> io::Result<HttpFile> {
    let request_stats = RequestStats::default();
    let get = |requested| {
        let flight = request_stats.begin();
        let reply = client.get(&url, requested)?;
        flight.end(reply.answer.bytes.len() as u64);
        Ok::<_, io::Error>(reply)
    };
    let start = |len| get(RangeRequest::Part(0, len));
    let (first, last) = if url.name().ends_with(".chunk") {
        (start(CHUNK_FILE_HEAD_LEN), None)
    } else {
        thread::scope(|scope| {
            let last = || get(RangeRequest::Last(OpenResponse::LAST));
            match thread::Builder::new().spawn_scoped(scope, last) {
                Ok(other) => {
                    let first = start(OpenResponse::FIRST);
                    let last = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    (first, Some(last))
                }
                Err(_) => (start(OpenResponse::FIRST), None),
            }
        })
    };
    let RangeReply { answer: first, url: target } = first?;
    let (mut version, mut end) = (first.version, Bytes::new());
    match last {
        Some(Ok(RangeReply { answer: last, .. })) => {
            version.len = version.len.or(last.version.len);
            let range = 0..last.bytes.len() as u64;
            end = version.accept(&range, last)?;
        }
        // Some servers do not support ranges that count from the end. If the length is known, they are not needed.
        Some(Err(error)) if version.len.is_none() => return Err(error),
        _ => {}
    }
    let Some(len) = version.len else {
        let what = "the server does not report the length of the file";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    let target = Mutex::new((target != url).then_some(target));
    let opening = OpenResponse::new(first.bytes, end, len, version);
    Ok(RemoteFile::new(HttpSource { client: client.clone(), url, target }, opening)
        .with_request_stats(request_stats))
}

impl RemoteSource for HttpSource {
    fn range(&self, range: Range<u64>) -> io::Result<RangeResponse> {
        let requested = RangeRequest::Part(range.start, range.end);
        let lock = || self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let target = lock().clone();
        let reply = match &target {
            None => self.client.get(&self.url, requested),
            Some(target) => self.client.get(target, requested).or_else(|_| {
                // The target of a redirect may have expired.
                let reply = self.client.get(&self.url, requested)?;
                *lock() = (reply.url != self.url).then(|| reply.url.clone());
                Ok(reply)
            }),
        };
        reply.map(|reply| reply.answer)
    }

    fn in_flight(&self) -> usize {
        self.client.options.in_flight
    }
}
