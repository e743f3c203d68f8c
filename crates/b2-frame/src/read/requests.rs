//! A read as requests and decode jobs, for drivers other than the local one: it states which bytes of which file to
//! fetch, and what to decode when they arrive. It does no I/O, starts no threads, and accepts any order.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use b2_core::{Control, memory};
use bytes::Bytes;

use crate::read::disjoint::{Destination, DisjointBuffer, SharedBuffer};
use crate::read::part_plan::{Blocks, PartPlan, PartStep};
use crate::read::scatter_plan::{ReadContext, ScatterPlan};
use crate::storage::files::Extent;
use crate::{FrameError, SuperChunk};

/// A range of bytes that a [`Read`] needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Identifies the request in [`Read::put`].
    pub id: u64,
    /// The bytes to fetch.
    pub extent: Extent,
}

/// The limits that a driver sets for a [`Read`]: bytes in flight and in memory.
#[derive(Clone, Copy, Debug)]
pub struct RequestBudget {
    /// Maximum number of requests.
    pub requests: usize,
    /// Maximum number of bytes requested, or received and not yet decoded.
    pub bytes: u64,
}

/// A read for use with a custom driver: it owns what it needs, requests bytes, and returns jobs that decode what has
/// arrived.
///
/// A driver takes requests as long as there are any, fetches them in any order, puts the bytes of each,
/// and runs the jobs in any order on any thread. The read is complete when no request and no job is
/// outstanding; [`finish`](Self::finish) then returns the destination.
///
/// `b2nd` begins reads (`Slice::begin`), and has a name for their type (`SliceRead`).
pub struct Read<'d, P: ScatterPlan> {
    shared: Arc<SharedRead<'d, P>>,
    next_part: u64,
    next_id: u64,
    requests: VecDeque<Request>,
    asked: HashMap<u64, RequestPurpose<P>>,
    /// The requests that were returned and not yet answered, by id, with their lengths in bytes.
    in_flight: HashMap<u64, u64>,
    jobs: VecDeque<Job<'d, P>>,
    planning: HashMap<u64, PlannedPart>,
    /// Whether an error was returned, after which the destination may be incomplete.
    failed: bool,
}

/// State shared by a read and its jobs.
struct SharedRead<'d, P> {
    frame: SuperChunk,
    places: P,
    buffer: DisjointBuffer<'d>,
    control: Control,
    /// A lock that serializes jobs if several selected bytes may share a place.
    turn: Option<Mutex<()>>,
    streaming: bool,
    /// Number of jobs that have not run to their end without an error.
    outstanding: AtomicUsize,
    /// Number of bytes that have arrived and have not been dropped.
    held: Arc<AtomicU64>,
}

/// Received bytes, counted as long as they are in memory.
struct ReceivedBytes {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl ReceivedBytes {
    fn add(&mut self, bytes: &Bytes) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.all.fetch_add(bytes.len() as u64, Relaxed);
    }
}

impl Drop for ReceivedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl<P> SharedRead<'_, P> {
    /// Returns a group whose blocks came with the head.
    fn nothing(&self, group: BlockGroup) -> ReceivedBlocks {
        ReceivedBlocks { group, bytes: Bytes::new(), _held: self.hold(&Bytes::new()) }
    }

    /// Counts bytes as long as the result exists.
    fn hold(&self, bytes: &Bytes) -> ReceivedBytes {
        let mut held = ReceivedBytes { all: self.held.clone(), bytes: 0 };
        held.add(bytes);
        held
    }

    fn reading(&self) -> ReadContext<'_, P> {
        ReadContext { frame: &self.frame, places: &self.places, streaming: self.streaming }
    }
}

/// The purpose of a request.
enum RequestPurpose<P: ScatterPlan> {
    /// Input number `at` of the plan of a part.
    Plan { npart: u64, at: usize },
    /// Block 0, which other blocks refer to, and the groups that wait for it.
    Reference { blocks: Arc<SharedBlocks<P>>, extent: Extent, waiting: Vec<ReceivedBlocks> },
    /// A group of blocks. `reference` is the id of the request for block 0.
    Group { blocks: Arc<SharedBlocks<P>>, group: BlockGroup, reference: Option<u64> },
}

struct PlannedPart {
    plan: PartPlan,
    answers: Vec<Bytes>,
    missing: usize,
    held: ReceivedBytes,
}

/// Blocks that are read together, as a range in the part's list of blocks.
#[derive(Clone)]
struct BlockGroup {
    blocks: Range<usize>,
    extent: Option<Extent>,
}

struct ReceivedBlocks {
    group: BlockGroup,
    bytes: Bytes,
    _held: ReceivedBytes,
}

/// The blocks of a part, shared between jobs.
struct SharedBlocks<P: ScatterPlan> {
    blocks: Blocks<P>,
    /// The decoded block 0, if other blocks refer to it.
    block0: OnceLock<Option<Vec<u8>>>,
    /// The bytes that arrived with the head.
    _held: ReceivedBytes,
}

/// A piece of work from a [`Read`]: decoding blocks or filling places.
pub struct Job<'d, P: ScatterPlan> {
    shared: Arc<SharedRead<'d, P>>,
    work: Work<P>,
}

enum Work<P: ScatterPlan> {
    Fill(P::Fill),
    Decode(Arc<SharedBlocks<P>>, ReceivedBlocks),
}

impl<P: ScatterPlan> std::fmt::Debug for Read<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read")
            .field("requests", &self.requests)
            .field("jobs", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

impl<'d, P: ScatterPlan> Read<'d, P> {
    /// Creates a read of selected bytes into a destination, whose uninitialised memory is zeroed.
    #[doc(hidden)]
    pub fn new(frame: &SuperChunk, places: P, destination: Destination<'d>, control: Control) -> Self {
        let streaming = frame.dparams.destination.is_streaming(destination.len());
        let disjoint = places.disjoint();
        // SAFETY: As in `read_places`; jobs run one at a time if places may overlap.
        #[allow(unsafe_code)]
        let buffer = unsafe { DisjointBuffer::new(destination, !disjoint) };
        let turn = (!disjoint).then(Mutex::default);
        Self {
            shared: Arc::new(SharedRead {
                frame: frame.clone().with_tuning(frame.tuning.adapted(&*frame.files)),
                places,
                buffer,
                control,
                turn,
                streaming,
                outstanding: AtomicUsize::new(0),
                held: Arc::default(),
            }),
            next_part: 0,
            next_id: 0,
            requests: VecDeque::new(),
            asked: HashMap::new(),
            in_flight: HashMap::new(),
            jobs: VecDeque::new(),
            planning: HashMap::new(),
            failed: false,
        }
    }

    /// Returns the frame that is read.
    pub fn frame(&self) -> &SuperChunk {
        &self.shared.frame
    }

    /// Returns the next bytes to fetch, or `None` if there are none until something has been put.
    /// Chunks are planned one at a time, so that pending requests take little memory.
    ///
    /// # Errors
    /// An error of the kind [`Damaged`](b2_core::ErrorKind::Damaged) when the index or a chunk is damaged,
    /// [`Limit`](b2_core::ErrorKind::Limit) when a limit is exceeded, or [`Memory`](b2_core::ErrorKind::Memory).
    pub fn need(&mut self) -> Result<Option<Request>, P::Error> {
        self.next_request(RequestBudget { requests: usize::MAX, bytes: u64::MAX })
    }

    /// Like [`need`](Self::need), within a budget. Also returns `None` if the next request has to wait until another one
    /// was put or a job has ended; if nothing is outstanding, the next request is returned however large it is.
    ///
    /// # Errors
    /// As for [`need`](Self::need).
    pub fn next_request(&mut self, budget: RequestBudget) -> Result<Option<Request>, P::Error> {
        if self.in_flight.len() >= budget.requests {
            return Ok(None);
        }
        while self.requests.is_empty() && self.next_part < self.shared.places.nparts() {
            let (npart, plan) = (self.next_part, PartPlan::new(&self.shared.places, self.next_part));
            self.next_part += 1;
            let held = self.shared.hold(&Bytes::new());
            let stepped = self.step(npart, plan, (Vec::new(), held));
            self.failed |= stepped.is_err();
            stepped?;
        }
        let Some(request) = self.requests.front() else { return Ok(None) };
        let len = request.extent.range.end.saturating_sub(request.extent.range.start);
        let waits = !self.in_flight.is_empty() || self.shared.outstanding.load(Relaxed) > 0;
        let in_flight = self.in_flight.values().fold(len, |sum, &len| sum.saturating_add(len));
        if waits && in_flight.saturating_add(self.bytes_in_use()) > budget.bytes {
            return Ok(None);
        }
        self.in_flight.insert(request.id, len);
        Ok(self.requests.pop_front())
    }

    /// Returns the number of requests that were returned and not yet put.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Takes the bytes of a request.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the request is unknown or already answered; otherwise an error of the kind
    /// [`Damaged`](b2_core::ErrorKind::Damaged) when the bytes violate the format,
    /// [`Unsupported`](b2_core::ErrorKind::Unsupported) when a codec or filter is missing,
    /// [`Limit`](b2_core::ErrorKind::Limit), or [`Memory`](b2_core::ErrorKind::Memory).
    pub fn put(&mut self, id: u64, bytes: Bytes) -> Result<(), P::Error> {
        let unknown = || FrameError::argument("id", "no request with this id is open");
        let asked = self.asked.remove(&id).ok_or_else(unknown)?;
        self.in_flight.remove(&id);
        let taken = self.take(asked, bytes);
        self.failed |= taken.is_err();
        taken
    }

    fn take(&mut self, asked: RequestPurpose<P>, bytes: Bytes) -> Result<(), P::Error> {
        match asked {
            RequestPurpose::Plan { npart, at } => {
                let Some(mut planning) = self.planning.remove(&npart) else { return Ok(()) };
                planning.held.add(&bytes);
                if let Some(answer) = planning.answers.get_mut(at) {
                    *answer = bytes;
                }
                planning.missing -= 1;
                if planning.missing == 0 {
                    return self.step(npart, planning.plan, (planning.answers, planning.held));
                }
                self.planning.insert(npart, planning);
            }
            RequestPurpose::Reference { blocks, extent, waiting } => {
                let head = &blocks.blocks.head;
                let stored = head.stored(0, Some(&extent), &bytes)?;
                let _ = blocks.block0.set(head.decode_block0(stored, &self.shared.frame.dparams)?);
                waiting.into_iter().for_each(|arrived| self.decode(&blocks, arrived));
            }
            RequestPurpose::Group { blocks, group, reference } => {
                let arrived = ReceivedBlocks { group, _held: self.shared.hold(&bytes), bytes };
                match reference.and_then(|id| self.asked.get_mut(&id)) {
                    Some(RequestPurpose::Reference { waiting, .. }) => {
                        memory::push(waiting, arrived).map_err(FrameError::from)?;
                    }
                    _ => self.decode(&blocks, arrived),
                }
            }
        }
        Ok(())
    }

    /// Returns the next job that can run now.
    pub fn job(&mut self) -> Option<Job<'d, P>> {
        self.jobs.pop_front()
    }

    /// Returns whether [`job`](Self::job) would return one.
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Returns the number of received bytes whose jobs have not ended.
    fn bytes_in_use(&self) -> u64 {
        self.shared.held.load(Relaxed)
    }

    /// Returns whether there is nothing left to fetch, put or run, except for jobs already taken.
    pub fn is_done(&self) -> bool {
        self.next_part >= self.shared.places.nparts()
            && self.requests.is_empty()
            && self.asked.is_empty()
            && self.jobs.is_empty()
    }

    /// Returns the destination.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the read is not complete: a request was not answered, or a job was dropped, still
    /// runs or has failed.
    pub fn finish(self) -> Result<&'d mut [u8], P::Error> {
        let done = self.is_done() && !self.failed;
        let complete = |shared: &SharedRead<'d, P>| done && shared.outstanding.load(Relaxed) == 0;
        match Arc::into_inner(self.shared).filter(complete) {
            Some(shared) => Ok(shared.buffer.into_slice()),
            None => Err(FrameError::argument("read", "is not complete"))?,
        }
    }

    /// Returns the settings of the call.
    pub fn control(&self) -> &Control {
        &self.shared.control
    }

    /// Returns the maximum number of concurrent jobs.
    pub fn workers(&self) -> usize {
        let limits = &self.shared.frame.dparams.limits;
        let most = limits.threads(self.shared.places.worker_memory());
        b2_core::workers(&self.shared.control).min(most).max(1)
    }

    /// Continues a part. `held` counts all bytes that have arrived for it.
    fn step(
        &mut self,
        npart: u64,
        mut plan: PartPlan,
        (answers, held): (Vec<Bytes>, ReceivedBytes),
    ) -> Result<(), P::Error> {
        match plan.step(&self.shared.reading(), answers)? {
            PartStep::Need(extents) => {
                let answers =
                    memory::collect(extents.iter().map(|_| Bytes::new())).map_err(FrameError::from)?;
                for (at, extent) in extents.into_iter().enumerate() {
                    self.ask(extent, RequestPurpose::Plan { npart, at });
                }
                self.planning.insert(npart, PlannedPart { plan, missing: answers.len(), answers, held });
            }
            PartStep::Fill(fill) => self.work(Work::Fill(fill)),
            PartStep::Blocks(blocks) => self.blocks(blocks, held)?,
        }
        Ok(())
    }

    fn blocks(&mut self, blocks: Blocks<P>, held: ReceivedBytes) -> Result<(), FrameError> {
        let shared = self.shared.clone();
        let block0 = OnceLock::new();
        let extent = match blocks.reference(&shared.frame) {
            Some(group) if group.extent().is_none() => {
                let stored = blocks.head.stored(0, None, &[])?;
                let _ = block0.set(blocks.head.decode_block0(stored, &shared.frame.dparams)?);
                None
            }
            Some(group) => group.extent().clone(),
            None => {
                let _ = block0.set(None);
                None
            }
        };
        let mut groups = Vec::new();
        let mut start = 0;
        for group in blocks.groups(&shared.reading()) {
            let end = start + group.nblocks().len();
            memory::push(&mut groups, BlockGroup { blocks: start..end, extent: group.extent().clone() })?;
            start = end;
        }
        let blocks = Arc::new(SharedBlocks { blocks, block0, _held: held });
        let reference = extent.map(|extent| {
            let asked = RequestPurpose::Reference {
                blocks: blocks.clone(),
                extent: extent.clone(),
                waiting: Vec::new(),
            };
            self.ask(extent, asked)
        });
        for group in groups {
            match (&group.extent, reference.and_then(|id| self.asked.get_mut(&id))) {
                (Some(extent), _) => {
                    let extent = extent.clone();
                    self.ask(extent, RequestPurpose::Group { blocks: blocks.clone(), group, reference });
                }
                (None, Some(RequestPurpose::Reference { waiting, .. })) => {
                    memory::push(waiting, shared.nothing(group))?;
                }
                (None, _) => self.decode(&blocks, shared.nothing(group)),
            }
        }
        Ok(())
    }

    fn ask(&mut self, extent: Extent, asked: RequestPurpose<P>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, asked);
        self.requests.push_back(Request { id, extent });
        id
    }

    fn decode(&mut self, blocks: &Arc<SharedBlocks<P>>, arrived: ReceivedBlocks) {
        self.work(Work::Decode(blocks.clone(), arrived));
    }

    fn work(&mut self, work: Work<P>) {
        self.shared.outstanding.fetch_add(1, Relaxed);
        self.jobs.push_back(Job { shared: self.shared.clone(), work });
    }
}

impl<P: ScatterPlan> std::fmt::Debug for Job<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl<P: ScatterPlan> Job<'_, P> {
    /// Returns the number of bytes that the job decodes or fills, roughly.
    pub fn work(&self) -> u64 {
        let places = &self.shared.places;
        match &self.work {
            Work::Fill(_) => places.nbytes().checked_div(places.nparts()).unwrap_or(0),
            Work::Decode(shareable, arrived) => shareable.blocks.nbytes(arrived.group.blocks.len()),
        }
    }

    /// Runs the job, which writes to its places in the destination.
    ///
    /// # Errors
    /// [`Cancelled`](b2_core::Cancelled); an error of the kind [`Damaged`](b2_core::ErrorKind::Damaged) when a block
    /// does not decode, [`Unsupported`](b2_core::ErrorKind::Unsupported) when a codec or filter is missing,
    /// [`Limit`](b2_core::ErrorKind::Limit), or [`Memory`](b2_core::ErrorKind::Memory).
    pub fn run(self) -> Result<(), P::Error> {
        let SharedRead { places, buffer, control, turn, .. } = &*self.shared;
        control.check()?;
        let _turn = turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        let nbytes = match self.work {
            Work::Fill(fill) => places.fill(&fill, &mut buffer.writer()),
            Work::Decode(shareable, ReceivedBlocks { group, bytes, _held }) => {
                let SharedBlocks { blocks, block0, .. } = &*shareable;
                let reading = self.shared.reading();
                let mut worker = blocks.worker(&reading, block0.get().and_then(Option::as_deref))?;
                let nblocks = blocks.nblocks(places).get(group.blocks).unwrap_or_default();
                let read = (group.extent.as_ref(), &bytes[..]);
                blocks.copy(places, &mut worker, nblocks, read, || buffer.writer())?
            }
        };
        control.advance(nbytes as u64)?;
        self.shared.outstanding.fetch_sub(1, Relaxed);
        Ok(())
    }
}
