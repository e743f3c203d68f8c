//! Fetches the bytes that plans request, and checks the responses of the store.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(target_family = "wasm"))]
use b2_frame::RequestTimer;
use b2_frame::{
    Extent, FrameError, FrameFile, FrameFiles, FrameHeader, OpenFile, OpenResponse, Plan, Read, ReadAt,
    ReadOptions, Request, RequestBudget, RequestStats, ScatterPlan, Step, Storage, SuperChunk, Version,
};
use b2nd::{NdError, SelectionDriver, SelectionRead};
use bytes::Bytes;

use crate::future_set::FutureSet;
use crate::reader::RangeReader;

/// Default limit on the bytes in flight.
pub(crate) const DEFAULT_MAX_BYTES: u64 = 64 << 20;

/// An open frame in a store.
pub(crate) struct Remote<R> {
    reader: R,
    name: Arc<str>,
    /// Offset of the frame in the main file.
    base: u64,
    /// The main file.
    main: OpenResponse,
    /// The version of each chunk file that was read.
    versions: Mutex<HashMap<FrameFile, Version>>,
    pub(crate) max_bytes: u64,
    request_stats: Arc<RequestStats>,
}

impl<R: RangeReader> Remote<R> {
    /// Opens the main file, and then the frame in it.
    pub(crate) async fn open(
        reader: R,
        options: &ReadOptions,
        max_bytes: u64,
    ) -> Result<(Self, SuperChunk), FrameError> {
        let (name, base) = (Arc::<str>::from(reader.name()), options.frame_offset());
        let (first, last) = (base.saturating_add(OpenResponse::FIRST), OpenResponse::LAST);
        let request_stats = Arc::<RequestStats>::default();
        let flight = begin(&request_stats);
        let opening = reader.open(FrameFile::Main, first, last).await;
        let mut main = opening.map_err(|error| failed(&name, error))?;
        end(flight, main.first.len().saturating_add(main.last.len()));
        let len = main.len;
        if main.first.len() as u64 != first.min(len)
            || main.last.len() as u64 != last.min(len)
            || main.version.len.is_some_and(|reported| reported != len)
        {
            let what = "the store returned a different number of bytes than it reported";
            return Err(failed(&name, io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        main.version.len = Some(len);
        let Some(room) = len.checked_sub(base) else {
            return Err(FrameError::out_of_range("file bytes", base, base, len));
        };
        let remote = Self { reader, name, base, main, versions: Mutex::default(), max_bytes, request_stats };
        let extent = Extent::at_most(FrameFile::Main, 0..OpenResponse::FIRST);
        let header =
            FrameHeader::parse(&remote.fetch(&extent).await?).map_err(|error| error.of(&remote.name))?;
        let storage = header.storage();
        if base > 0 && storage == Storage::Sparse {
            return Err(FrameError::argument("offset", "this frame is sparse"));
        }
        let opened = remote.run(options.open_plan(room, storage)).await?;
        let nowhere = Arc::new(NoLocalStorage {
            name: remote.name.clone(),
            request_stats: remote.request_stats.clone(),
            in_flight: remote.reader.in_flight(),
        });
        let frame = options.opened(opened, nowhere).with_name(remote.name.clone());
        Ok((remote, frame))
    }

    pub(crate) fn version(&self) -> &Version {
        &self.main.version
    }

    /// Runs a plan to its end. The ranges of each step are requested concurrently.
    pub(crate) async fn run<P: Plan>(&self, plan: P) -> Result<P::Output, FrameError> {
        self.run_plan(plan).await.map_err(|error| error.of(&self.name))
    }

    async fn run_plan<P: Plan>(&self, mut plan: P) -> Result<P::Output, FrameError> {
        let mut parts = Vec::new();
        loop {
            match plan.step(parts)? {
                Step::Done(output) => return Ok(output),
                Step::Need(extents) => parts = self.fetch_all(&extents).await?,
            }
        }
    }

    /// Fetches extents in any order and returns them in the given order.
    pub(crate) async fn fetch_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        let mut parts = vec![Bytes::new(); extents.len()];
        let mut futures = FutureSet::new();
        let numbered = async |at: usize, extent: Extent| (at, self.fetch(&extent).await);
        let mut rest = extents.iter().cloned().enumerate();
        loop {
            while futures.len() < self.max_requests()
                && let Some((at, extent)) = rest.next()
            {
                futures.push(numbered(at, extent));
            }
            let Some((at, bytes)) = futures.next().await else { return Ok(parts) };
            if let Some(part) = parts.get_mut(at) {
                *part = bytes?;
            }
        }
    }

    pub(crate) fn max_requests(&self) -> usize {
        self.request_stats.in_flight(self.reader.in_flight())
    }

    /// Fetches an extent, like [`OpenFile::read`].
    pub(crate) async fn fetch(&self, extent: &Extent) -> Result<Bytes, FrameError> {
        let main = extent.file == FrameFile::Main;
        let mut range = extent.range.clone();
        if main {
            range = extent.within(self.main.len.saturating_sub(self.base))?;
            range = range.start.saturating_add(self.base)..range.end.saturating_add(self.base);
        }
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        if let Some(bytes) = self.main.received(&range).filter(|_| main) {
            return Ok(bytes);
        }
        let flight = begin(&self.request_stats);
        let answer = self.reader.range(extent.file, range.clone()).await;
        if let Ok(answer) = &answer {
            end(flight, answer.bytes.len());
        }
        let bytes = answer.and_then(|answer| match main {
            true => self.main.version.accept(&range, answer),
            false => self.known(extent.file, &answer.version).accept(&range, answer),
        });
        let bytes = bytes.map_err(|error| failed(&self.name, error))?;
        // The length of a chunk file is not known in advance.
        extent.within(range.start.saturating_add(bytes.len() as u64))?;
        Ok(bytes)
    }

    /// Returns the version of a chunk file that was read first: this one, if there is no other.
    fn known(&self, file: FrameFile, version: &Version) -> Version {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.entry(file).or_insert_with(|| version.clone()).clone()
    }

    async fn answer(&self, request: Request) -> (u64, Result<Bytes, FrameError>) {
        (request.id, self.fetch(&request.extent).await)
    }
}

/// Starts timing a request. Browsers have no clock for it.
#[cfg(not(target_family = "wasm"))]
fn begin(request_stats: &RequestStats) -> RequestTimer<'_> {
    request_stats.begin()
}

#[cfg(not(target_family = "wasm"))]
fn end(flight: RequestTimer<'_>, bytes: usize) {
    flight.end(bytes as u64);
}

#[cfg(target_family = "wasm")]
fn begin(_: &RequestStats) {}

#[cfg(target_family = "wasm")]
fn end(_: (), _: usize) {}

fn failed(name: &str, error: io::Error) -> FrameError {
    FrameError::io(name)(error)
}

impl<R: RangeReader> SelectionDriver for Remote<R> {
    async fn drive(&self, read: &mut Read<'_, SelectionRead>) -> Result<(), NdError> {
        self.drive(read).await
    }
}

impl<R: RangeReader> Remote<R> {
    /// Fetches what a read needs with concurrent requests, and runs its jobs, until it is done.
    pub(crate) async fn drive<P: ScatterPlan>(&self, read: &mut Read<'_, P>) -> Result<(), P::Error> {
        let (control, workers) = (read.control().clone(), read.workers());
        let mut futures = FutureSet::new();
        loop {
            let budget = RequestBudget { requests: self.max_requests(), bytes: self.max_bytes };
            while let Some(request) = read.next_request(budget)? {
                futures.push(self.answer(request));
            }
            let mut answers = futures.ready().await;
            if answers.is_empty() && !read.has_jobs() {
                // Nothing new has arrived, and there is nothing to decode in the meantime.
                match futures.next().await {
                    Some(answer) => answers.push(answer),
                    None => return Ok(()),
                }
            }
            for (id, answer) in answers {
                read.put(id, answer?)?;
            }
            let (mut some, mut work) = (Vec::new(), 0u64);
            while work < DECODE_BATCH_LEN
                && let Some(job) = read.job()
            {
                work = work.saturating_add(job.work());
                some.push(job);
            }
            b2_core::for_each(&control, workers, some.into_iter(), work, || Ok(()), |(), job| job.run())?;
        }
    }
}

/// Number of bytes that are decoded before requests are handled again: responses arrive only while they are polled.
const DECODE_BATCH_LEN: u64 = 8 << 20;

/// A placeholder for the files of a frame that can only be read asynchronously.
#[derive(Clone)]
struct NoLocalStorage {
    name: Arc<str>,
    request_stats: Arc<RequestStats>,
    in_flight: usize,
}

impl FrameFiles for NoLocalStorage {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(Arc::new(self.clone()), self.name.clone(), 0)
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        Some(&self.request_stats)
    }

    fn in_flight(&self) -> usize {
        self.request_stats.in_flight(self.in_flight)
    }
}

impl ReadAt for NoLocalStorage {
    /// Unknown, so any length must be accepted.
    fn len(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        let what = "this frame is read asynchronously: through AsyncNdArray or AsyncSuperChunk";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    fn read_at(&self, _: Range<u64>) -> io::Result<Bytes> {
        self.read_exact_at(0, &mut []).map(|()| Bytes::new())
    }
}
