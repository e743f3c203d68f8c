//! Fetches the bytes that plans request, and checks the responses of the store.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use b2_frame::{
    Extent, FrameError, FrameFile, FrameFiles, FrameHeader, OpenFile, Places, Plan, Read, ReadAt,
    ReadOptions, Request, Step, Storage, Structure, SuperChunk,
};
use b2nd::{NdError, Selected, SelectionDriver};
use bytes::Bytes;

use crate::flock::Flock;
use crate::reader::{Opening, RangeReader, Version};

/// Length of the first read, in bytes.
const FIRST: u64 = 16 << 10;
/// Length of the read of the end, in bytes: trailer, index and checksums of most frames.
const LAST: u64 = 64 << 10;
/// Default limit on the bytes in flight.
pub(crate) const IN_FLIGHT: u64 = 64 << 20;

/// An open frame in a store.
pub(crate) struct Remote<R> {
    reader: R,
    name: Arc<str>,
    /// Offset of the frame in the main file.
    base: u64,
    /// Length of the main file from `base` on.
    len: u64,
    /// The start of the main file, and its end with its offset.
    ends: [(u64, Bytes); 2],
    /// The version of each file that was read.
    versions: Mutex<HashMap<FrameFile, Version>>,
    pub(crate) max_bytes: u64,
}

impl<R: RangeReader> Remote<R> {
    /// Opens the main file, and then the frame in it.
    pub(crate) async fn open(
        reader: R,
        options: &ReadOptions,
        max_bytes: u64,
    ) -> Result<(Self, SuperChunk), FrameError> {
        let (name, base) = (Arc::<str>::from(reader.name()), options.frame_offset());
        let first = base.saturating_add(FIRST);
        let opening = reader.open(FrameFile::Main, first, LAST).await;
        let Opening { first: start, last, len, version } = opening.map_err(|error| failed(&name, error))?;
        let wrong = |what: &str| failed(&name, io::Error::new(io::ErrorKind::InvalidData, what));
        if start.len() as u64 != first.min(len)
            || last.len() as u64 != LAST.min(len)
            || version.len.is_some_and(|told| told != len)
        {
            return Err(wrong("the store answered with another length than it tells"));
        }
        let Some(room) = len.checked_sub(base) else {
            return Err(FrameError::OutOfRange { what: "file bytes", start: base, end: base, len });
        };
        let ends = [(0, start), (len.saturating_sub(last.len() as u64), last)];
        let version = Version { len: Some(len), ..version };
        let versions = Mutex::new(HashMap::from([(FrameFile::Main, version)]));
        let remote = Self { reader, name, base, len: room, ends, versions, max_bytes };
        let extent = Extent::at_most(FrameFile::Main, 0..FIRST);
        let header = FrameHeader::parse(&remote.fetch(&extent).await?)?;
        let storage = header.storage();
        if base > 0 && storage == Storage::Sparse {
            return Err(FrameError::Argument { name: "offset", what: "this frame is sparse".to_owned() });
        }
        let opened = remote.run(options.open_plan(room, storage)).await?;
        let nowhere = Arc::new(Nowhere(remote.name.clone()));
        let frame = options.opened(opened, nowhere);
        Ok((remote, frame))
    }

    pub(crate) fn version(&self) -> Version {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&FrameFile::Main).cloned().unwrap_or_default()
    }

    /// Runs a plan to its end. The ranges of each step are requested at once.
    pub(crate) async fn run<P: Plan>(&self, mut plan: P) -> Result<P::Output, FrameError> {
        let mut parts = Vec::new();
        loop {
            match plan.step(parts)? {
                Step::Done(output) => return Ok(output),
                Step::Need(extents) => parts = self.fetch_all(&extents).await?,
            }
        }
    }

    /// Fetches extents, in any order, and returns them in the given one.
    pub(crate) async fn fetch_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        let mut parts = vec![Bytes::new(); extents.len()];
        let mut flock = Flock::new();
        let numbered = async |at: usize, extent: Extent| (at, self.fetch(&extent).await);
        let mut rest = extents.iter().cloned().enumerate();
        loop {
            while flock.len() < self.most()
                && let Some((at, extent)) = rest.next()
            {
                flock.push(numbered(at, extent));
            }
            let Some((at, bytes)) = flock.next().await else { return Ok(parts) };
            if let Some(part) = parts.get_mut(at) {
                *part = bytes?;
            }
        }
    }

    pub(crate) fn most(&self) -> usize {
        self.reader.in_flight().max(1)
    }

    /// Fetches an extent, like [`OpenFile::read`].
    pub(crate) async fn fetch(&self, extent: &Extent) -> Result<Bytes, FrameError> {
        let Extent { file, mut range, or_less } = extent.clone();
        let main = file == FrameFile::Main;
        if main && range.end > self.len {
            if !or_less {
                return Err(truncated(extent, self.len));
            }
            range.end = self.len;
        }
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        if main {
            range = range.start.saturating_add(self.base)..range.end.saturating_add(self.base);
            if let Some(known) = self.ends.iter().find_map(|(at, bytes)| known(*at, bytes, &range)) {
                return Ok(known);
            }
        }
        let asked = range.end.saturating_sub(range.start);
        let answer =
            self.reader.range(file, range.clone()).await.map_err(|error| failed(&self.name, error))?;
        let (got, len) = (answer.bytes.len() as u64, answer.version.len);
        self.check(file, answer.version)?;
        let wrong = |what: String| failed(&self.name, io::Error::new(io::ErrorKind::InvalidData, what));
        if got > asked {
            return Err(wrong(format!("the store answered {got} bytes where {asked} were asked for")));
        }
        if got < asked {
            let end = range.start.saturating_add(got);
            // A short answer is only legitimate at the end of a file whose length was not known.
            if main || len.is_some_and(|len| end < len) {
                let what = format!("the store answered {got} bytes where {asked} were asked for");
                return Err(failed(&self.name, io::Error::new(io::ErrorKind::UnexpectedEof, what)));
            }
            if !or_less {
                return Err(truncated(extent, end));
            }
        }
        Ok(answer.bytes)
    }

    /// Fails if this is not the version of the file that was read before.
    fn check(&self, file: FrameFile, version: Version) -> Result<(), FrameError> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(&file) {
            Some(known) if !known.may_be(&version) => {
                Err(FrameError::Changed { name: self.name.to_string() })
            }
            Some(_) => Ok(()),
            None => {
                versions.insert(file, version);
                Ok(())
            }
        }
    }

    async fn answer(&self, request: Request) -> (u64, u64, Result<Bytes, FrameError>) {
        (request.id, size(&request), self.fetch(&request.extent).await)
    }
}

/// Returns the bytes of a range, if `bytes` at offset `at` contain it.
fn known(at: u64, bytes: &Bytes, range: &std::ops::Range<u64>) -> Option<Bytes> {
    let index = |offset: u64| usize::try_from(offset.checked_sub(at)?).ok();
    let inside = index(range.start)?..index(range.end)?;
    bytes.get(inside.clone())?;
    Some(bytes.slice(inside))
}

fn size(request: &Request) -> u64 {
    request.extent.range.end.saturating_sub(request.extent.range.start)
}

fn truncated(extent: &Extent, len: u64) -> FrameError {
    let structure = match extent.file {
        FrameFile::Main => Structure::Frame,
        FrameFile::Chunk(id) => Structure::ChunkFile(id),
    };
    let start = extent.range.start;
    let (need, have) = (extent.range.end.saturating_sub(start), len.saturating_sub(start));
    FrameError::Truncated { structure, offset: start, need, have }
}

fn failed(name: &str, error: io::Error) -> FrameError {
    match error.kind() {
        io::ErrorKind::StaleNetworkFileHandle => FrameError::Changed { name: name.to_owned() },
        _ => FrameError::Io { name: name.to_owned(), source: error },
    }
}

impl<R: RangeReader> SelectionDriver for Remote<R> {
    async fn drive(&self, read: &mut Read<'_, Selected>) -> Result<(), NdError> {
        self.work_off(read).await
    }
}

impl<R: RangeReader> Remote<R> {
    /// Fetches what a read needs, with several requests in flight, and runs its jobs until it is
    /// done.
    pub(crate) async fn work_off<P: Places>(&self, read: &mut Read<'_, P>) -> Result<(), P::Error> {
        let mut flock = Flock::new();
        let (mut bytes, mut held) = (0u64, None::<Request>);
        loop {
            while flock.len() < self.most() {
                let next = match held.take() {
                    Some(request) => Some(request),
                    None => read.need()?,
                };
                let Some(request) = next else { break };
                // A single request is always allowed, however large.
                if flock.len() > 0 && bytes.saturating_add(size(&request)) > self.max_bytes {
                    held = Some(request);
                    break;
                }
                bytes = bytes.saturating_add(size(&request));
                flock.push(self.answer(request));
            }
            let mut answers = flock.ready().await;
            let mut jobs = Vec::new();
            let more = answers.len();
            if more == 0 {
                // Nothing new has arrived: decode what there is before waiting.
                jobs.extend(std::iter::from_fn(|| read.job()).take(JOBS));
                if jobs.is_empty() {
                    match flock.next().await {
                        Some(answer) => answers.push(answer),
                        None if held.is_none() => return Ok(()),
                        None => {}
                    }
                }
            }
            for (id, size, answer) in answers {
                bytes = bytes.saturating_sub(size);
                read.put(id, answer?)?;
            }
            // Decode what has arrived before requesting more, so that memory stays bounded.
            jobs.extend(std::iter::from_fn(|| read.job()).take(JOBS));
            if !jobs.is_empty() {
                let work = jobs.iter().map(|job| job.work()).fold(0, u64::saturating_add);
                let (control, workers) = (read.control().clone(), read.workers());
                b2_core::for_each(&control, workers, jobs.into_iter(), work, || Ok(()), |(), job| job.run())?;
            }
        }
    }
}

/// Number of jobs that run before requests are handled again.
const JOBS: usize = 64;

/// Stands for the files of a frame that can only be read asynchronously.
struct Nowhere(Arc<str>);

impl FrameFiles for Nowhere {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(Arc::new(Self(self.0.clone())), self.0.clone(), 0)
    }
}

impl ReadAt for Nowhere {
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
