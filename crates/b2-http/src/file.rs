//! A file on a server.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use b2_async::Version;
use b2_frame::ReadAt;
use bytes::Bytes;

use crate::client::{Asked, Client, Reply};
use crate::url::Url;

/// Length of the first read, in bytes.
const FIRST: u64 = 16 << 10;
/// Length of the read at the end, in bytes; enough for trailer, index and checksums of most frames.
const LAST: u64 = 64 << 10;
/// Length of the first read of a chunk file, in bytes. Its end has no metadata and needs no separate read.
const CHUNK: u64 = 128 << 10;

/// A file on a server, read in ranges.
#[derive(Debug)]
pub struct HttpFile {
    client: Arc<Client>,
    url: Url,
    /// The URL that redirects led to, so that they need not be followed again.
    target: Mutex<Option<Url>>,
    len: u64,
    version: Version,
    /// Parts that were fetched on opening, with their offsets.
    known: Vec<(u64, Bytes)>,
}

impl HttpFile {
    pub(crate) fn open(client: &Arc<Client>, url: Url) -> io::Result<Self> {
        let (first, last) = if url.name().ends_with(".chunk") {
            (client.get(&url, Asked::Part(0, CHUNK)), None)
        } else {
            thread::scope(|scope| {
                let last = || client.get(&url, Asked::Last(LAST));
                match thread::Builder::new().spawn_scoped(scope, last) {
                    Ok(other) => {
                        let first = client.get(&url, Asked::Part(0, FIRST));
                        let last = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                        (first, Some(last))
                    }
                    Err(_) => (client.get(&url, Asked::Part(0, FIRST)), None),
                }
            })
        };
        let first = first?;
        let mut version = first.version.clone();
        let mut known = vec![(0, first.bytes)];
        match last {
            Some(Ok(last)) => {
                if !version.may_be(&last.version) {
                    return Err(changed());
                }
                version.len = version.len.or(last.version.len);
                known.push((last.start, last.bytes));
            }
            // Some servers do not support ranges that count from the end. If the length is known, they are not needed.
            Some(Err(error)) if version.len.is_none() => return Err(error),
            _ => {}
        }
        let Some(len) = version.len else {
            let what = "the server does not tell the length of the file";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        let target = Mutex::new((first.url != url).then_some(first.url));
        Ok(Self { client: client.clone(), url, target, len, version, known })
    }

    /// Returns whether a change of the file between two requests would be noticed. If not, the
    /// server sends neither strong ETags nor modification times.
    pub fn is_guarded(&self) -> bool {
        self.version.is_guarded()
    }

    /// Returns the version of the content that the server reported when the file was opened.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the URL without user, password and query.
    pub fn shown(&self) -> String {
        self.url.shown()
    }

    fn get(&self, asked: Asked) -> io::Result<Reply> {
        let lock = || self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let target = lock().clone();
        match &target {
            None => self.client.get(&self.url, asked),
            Some(target) => self.client.get(target, asked).or_else(|_| {
                // The target of a redirect may have expired.
                let reply = self.client.get(&self.url, asked)?;
                *lock() = (reply.url != self.url).then(|| reply.url.clone());
                Ok(reply)
            }),
        }
    }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::StaleNetworkFileHandle, "the file has changed since it was opened")
}

impl ReadAt for HttpFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.read_at(offset..offset.saturating_add(buf.len() as u64))?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let Range { start, end } = range;
        if start >= end {
            return Ok(Bytes::new());
        }
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (at, bytes) in &self.known {
            let index = |offset: u64| usize::try_from(offset.checked_sub(*at)?).ok();
            if let (Some(from), Some(to)) = (index(start), index(end))
                && to <= bytes.len()
            {
                return Ok(bytes.slice(from..to));
            }
        }
        let reply = self.get(Asked::Part(start, end))?;
        if !self.version.may_be(&reply.version) {
            return Err(changed());
        }
        // A server that does not report the length may send less.
        match reply.bytes.len() as u64 == end.saturating_sub(start) {
            true => Ok(reply.bytes),
            false => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server sends less than was asked for"))
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.client.options.in_flight
    }
}
