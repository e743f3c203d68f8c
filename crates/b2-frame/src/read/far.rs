//! The driver for remote storage: several requests are in flight at once, each on a thread that waits for it. Threads
//! decode what has arrived before they fetch more.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use bytes::Bytes;

use crate::FrameError;
use crate::read::places::Places;
use crate::read::requests::{Read, Request};
use crate::storage::files::FrameFiles;

/// Maximum number of bytes in flight at once. A single request is always allowed.
const MOST_BYTES: u64 = 64 << 20;

/// Runs a read to its end, with as many requests in flight as the files of the frame ask for.
pub(crate) fn work_off<P: Places>(read: &mut Read<'_, P>) -> Result<(), P::Error> {
    let files = read.frame().files.clone();
    let (most, workers) = (files.in_flight(), read.workers());
    let state =
        State { read, held: None, flying: 0, bytes: 0, decoding: 0, idle: 0, threads: 1, error: None };
    let shared = Work { files: &*files, most, workers, state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|scope| shared.run(scope));
    match shared.state.into_inner().unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct Work<'a, 'd, P: Places> {
    files: &'a dyn FrameFiles,
    /// Maximum number of requests in flight.
    most: usize,
    /// Maximum number of jobs that run at once.
    workers: usize,
    state: Mutex<State<'a, 'd, P>>,
    changed: Condvar,
}

struct State<'a, 'd, P: Places> {
    read: &'a mut Read<'d, P>,
    /// A request that has to wait for others.
    held: Option<Request>,
    /// Number of requests in flight, followed by their bytes.
    flying: usize,
    bytes: u64,
    /// Number of running jobs.
    decoding: usize,
    /// Number of threads, followed by the number of those that wait for work.
    threads: usize,
    idle: usize,
    /// The first error. Nothing is started after it.
    error: Option<P::Error>,
}

impl<P: Places> State<'_, '_, P> {
    /// Takes the next request, if it may be sent now.
    fn request(&mut self, most: usize) -> Result<Option<Request>, P::Error> {
        if self.flying >= most {
            return Ok(None);
        }
        let next = match self.held.take() {
            Some(request) => Some(request),
            None => self.read.need()?,
        };
        let Some(request) = next else { return Ok(None) };
        let bytes = size(&request);
        if self.flying > 0 && self.bytes.saturating_add(bytes) > MOST_BYTES {
            self.held = Some(request);
            return Ok(None);
        }
        self.flying += 1;
        self.bytes += bytes;
        Ok(Some(request))
    }
}

fn size(request: &Request) -> u64 {
    request.extent.range.end.saturating_sub(request.extent.range.start)
}

impl<'a, 'd, P: Places> Work<'a, 'd, P> {
    fn lock(&self) -> MutexGuard<'_, State<'a, 'd, P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of each thread: decode if possible, else fetch, else wait, until nothing is left.
    fn run<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let _wake = Wake(self);
        let mut state = self.lock();
        while state.error.is_none() {
            let result = if state.decoding < self.workers
                && let Some(job) = state.read.job()
            {
                state.decoding += 1;
                self.call(scope, &mut state);
                drop(state);
                let result = job.run();
                state = self.lock();
                state.decoding -= 1;
                result
            } else {
                match state.request(self.most) {
                    Ok(Some(request)) => {
                        self.call(scope, &mut state);
                        drop(state);
                        let bytes = self.fetch(&request);
                        state = self.lock();
                        state.flying -= 1;
                        state.bytes -= size(&request);
                        bytes.and_then(|bytes| state.read.put(request.id, bytes))
                    }
                    Ok(None) if state.flying == 0 && state.decoding == 0 => break,
                    Ok(None) => {
                        state.idle += 1;
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        state.idle -= 1;
                        continue;
                    }
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn fetch(&self, request: &Request) -> Result<Bytes, P::Error> {
        Ok(self.files.open(request.extent.file)?.read(&request.extent)?)
    }

    /// Gets another thread to work, since this one is about to be busy: wakes a waiting one or starts a new one.
    fn call<'s>(&'s self, scope: &'s Scope<'s, '_>, state: &mut State<'_, '_, P>) {
        if state.idle > 0 {
            self.changed.notify_one();
        } else if state.threads <= self.most {
            // If no thread can be started, the others do its work.
            let spawned = thread::Builder::new().spawn_scoped(scope, || self.run(scope));
            state.threads += usize::from(spawned.is_ok());
        }
    }
}

/// Stops the other threads if this one panics. They would otherwise wait for it.
struct Wake<'w, 'a, 'd, P: Places>(&'w Work<'a, 'd, P>);

impl<P: Places> Drop for Wake<'_, '_, '_, P> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().error.get_or_insert_with(|| FrameError::argument("thread", "panicked").into());
            self.0.changed.notify_all();
        }
    }
}
