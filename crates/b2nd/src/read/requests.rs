//! A selection as requests and decode jobs, for drivers other than the local one: a plan says which
//! bytes of which file to fetch, and what to decode when they arrive. It does no I/O, starts no
//! threads, and accepts any order.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use b2_core::{Control, memory};
use b2_frame::{Extent, FrameError, SuperChunk};
use bytes::Bytes;

use crate::model::element::decode;
use crate::read::disjoint::{Destination, Disjoint, Shared};
use crate::read::part::{Blocks, PartPlan, PartStep, Reading};
use crate::read::uniform::Uniform;
use crate::read::view::{buffer, check_len};
use crate::select::moves::{ChunkPart, Moves};
use crate::{Element, NdArray, NdError, Slice};

/// A range of bytes to fetch for a [`SelectionPlan`].
#[derive(Clone, Debug)]
pub struct Request {
    /// Identifies the request in [`SelectionPlan::answer`].
    pub id: u64,
    /// The bytes to fetch.
    pub extent: Extent,
}

/// Reads a selection through requests and decode jobs.
///
/// A driver takes requests as long as there are any, fetches them in any order, answers each, and
/// runs the jobs in any order on any thread. Reading is complete when no request, answer or job is
/// outstanding.
pub struct SelectionPlan<'a> {
    reading: &'a Reading<'a>,
    buffer: &'a Disjoint<'a>,
    control: &'a Control,
    /// A lock that serializes jobs if several items may share a place.
    turn: Option<&'a Mutex<()>>,
    next_part: u64,
    next_id: u64,
    requests: VecDeque<Request>,
    asked: HashMap<u64, Asked<'a>>,
    jobs: VecDeque<DecodeJob<'a>>,
    planning: HashMap<u64, Planning<'a>>,
}

/// What a request was made for.
enum Asked<'a> {
    /// Input number `at` of the plan of a part.
    Plan { npart: u64, at: usize },
    /// Block 0, which other blocks refer to, and the groups that wait for it.
    Reference { blocks: Arc<Shareable<'a>>, extent: Extent, waiting: Vec<Arrived> },
    /// A group of blocks. `reference` is the id of the request for block 0.
    Group { blocks: Arc<Shareable<'a>>, group: Stretch, reference: Option<u64> },
}

struct Planning<'a> {
    plan: PartPlan<'a>,
    answers: Vec<Bytes>,
    missing: usize,
}

/// Blocks that are read at once, as a range in the part's list of blocks.
#[derive(Clone)]
struct Stretch {
    blocks: Range<usize>,
    extent: Option<Extent>,
}

struct Arrived {
    group: Stretch,
    bytes: Bytes,
}

/// The blocks of a part, shared between jobs.
struct Shareable<'a> {
    blocks: Blocks<'a>,
    /// The decoded block 0, if other blocks refer to it.
    block0: OnceLock<Option<Vec<u8>>>,
}

/// A piece of work that a [`SelectionPlan`] hands out: decoding blocks or filling places.
pub struct DecodeJob<'a> {
    buffer: &'a Disjoint<'a>,
    control: &'a Control,
    turn: Option<&'a Mutex<()>>,
    /// Size of a block of the array, in bytes.
    size: usize,
    work: Work<'a>,
}

enum Work<'a> {
    Fill(Uniform, ChunkPart<'a>, Range<usize>),
    Decode(Arc<Shareable<'a>>, Arrived),
}

impl<'a> SelectionPlan<'a> {
    /// Returns the next bytes to fetch, or `None` if there are none until something is answered.
    /// Chunks are planned one at a time, so that pending requests take little memory.
    ///
    /// # Errors
    /// When the index or a chunk is damaged.
    pub fn request(&mut self) -> Result<Option<Request>, NdError> {
        loop {
            if let Some(request) = self.requests.pop_front() {
                return Ok(Some(request));
            }
            if self.next_part >= self.reading.moves.nparts() {
                return Ok(None);
            }
            let (npart, plan) = (self.next_part, PartPlan::new(self.reading, self.next_part));
            self.next_part += 1;
            self.step(npart, plan, Vec::new())?;
        }
    }

    /// Takes the bytes that a request asked for.
    ///
    /// # Errors
    /// When the bytes violate the format, or the request is unknown or already answered.
    pub fn answer(&mut self, id: u64, bytes: Bytes) -> Result<(), NdError> {
        let unasked =
            || FrameError::Argument { name: "id", what: "no request with this id is open".to_owned() };
        match self.asked.remove(&id).ok_or_else(unasked)? {
            Asked::Plan { npart, at } => {
                let Some(mut planning) = self.planning.remove(&npart) else { return Ok(()) };
                planning.answers[at] = bytes;
                planning.missing -= 1;
                if planning.missing == 0 {
                    return self.step(npart, planning.plan, planning.answers);
                }
                self.planning.insert(npart, planning);
            }
            Asked::Reference { blocks, extent, waiting } => {
                let stored = blocks.blocks.head().stored(0, Some(&extent), &bytes)?;
                let block0 = blocks.blocks.decode_reference(stored)?;
                let _ = blocks.block0.set(block0);
                waiting.into_iter().for_each(|arrived| self.decode(&blocks, arrived));
            }
            Asked::Group { blocks, group, reference } => {
                let arrived = Arrived { group, bytes };
                match reference.and_then(|id| self.asked.get_mut(&id)) {
                    Some(Asked::Reference { waiting, .. }) => memory::push(waiting, arrived)?,
                    _ => self.decode(&blocks, arrived),
                }
            }
        }
        Ok(())
    }

    /// Returns the next job that can run now.
    pub fn job(&mut self) -> Option<DecodeJob<'a>> {
        self.jobs.pop_front()
    }

    /// Returns whether nothing is left to fetch, answer or run, except for jobs already taken.
    pub fn is_done(&self) -> bool {
        self.next_part >= self.reading.moves.nparts()
            && self.requests.is_empty()
            && self.asked.is_empty()
            && self.jobs.is_empty()
    }

    fn check_done(&self) -> Result<(), NdError> {
        match self.is_done() {
            true => Ok(()),
            false => {
                Err(FrameError::Argument { name: "drive", what: "it ended before the plan".to_owned() })?
            }
        }
    }

    /// Returns the settings of the call.
    pub fn control(&self) -> &Control {
        self.control
    }

    /// Returns how many jobs may run at once.
    pub fn workers(&self) -> usize {
        let limits = &self.reading.frame.dparams().limits;
        // Each job holds a block, its parts and its neighbour.
        b2_core::workers(self.control).min(limits.threads(3 * self.reading.size as u64)).max(1)
    }

    fn step(&mut self, npart: u64, mut plan: PartPlan<'a>, answers: Vec<Bytes>) -> Result<(), NdError> {
        match plan.step(answers)? {
            PartStep::Need(extents) => {
                for (at, extent) in extents.iter().enumerate() {
                    self.ask(extent.clone(), Asked::Plan { npart, at })?;
                }
                let answers = memory::collect(extents.iter().map(|_| Bytes::new()))?;
                self.planning.insert(npart, Planning { plan, missing: answers.len(), answers });
            }
            PartStep::Fill(uniform, part) => {
                let item = self.reading.moves.item();
                self.work(Work::Fill(uniform, part, item));
            }
            PartStep::Blocks(blocks) => self.blocks(blocks)?,
        }
        Ok(())
    }

    fn blocks(&mut self, blocks: Blocks<'a>) -> Result<(), NdError> {
        let costs = self.reading.frame.costs();
        let block0 = OnceLock::new();
        let extent = match blocks.reference(costs) {
            Some(group) if group.extent().is_none() => {
                let stored = blocks.head().stored(0, None, &[])?;
                let _ = block0.set(blocks.decode_reference(stored)?);
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
        for group in blocks.groups(costs) {
            let end = start + group.nblocks().len();
            memory::push(&mut groups, Stretch { blocks: start..end, extent: group.extent().clone() })?;
            start = end;
        }
        let blocks = Arc::new(Shareable { blocks, block0 });
        let reference = match extent {
            Some(extent) => {
                let asked =
                    Asked::Reference { blocks: blocks.clone(), extent: extent.clone(), waiting: Vec::new() };
                Some(self.ask(extent, asked)?)
            }
            None => None,
        };
        for group in groups {
            match (&group.extent, reference.and_then(|id| self.asked.get_mut(&id))) {
                (Some(extent), _) => {
                    let extent = extent.clone();
                    self.ask(extent, Asked::Group { blocks: blocks.clone(), group, reference })?;
                }
                (None, Some(Asked::Reference { waiting, .. })) => {
                    memory::push(waiting, Arrived { group, bytes: Bytes::new() })?;
                }
                (None, _) => self.decode(&blocks, Arrived { group, bytes: Bytes::new() }),
            }
        }
        Ok(())
    }

    fn ask(&mut self, extent: Extent, asked: Asked<'a>) -> Result<u64, NdError> {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, asked);
        self.requests.push_back(Request { id, extent });
        Ok(id)
    }

    fn decode(&mut self, blocks: &Arc<Shareable<'a>>, arrived: Arrived) {
        self.work(Work::Decode(blocks.clone(), arrived));
    }

    fn work(&mut self, work: Work<'a>) {
        let Self { buffer, control, turn, .. } = *self;
        let size = self.reading.size;
        self.jobs.push_back(DecodeJob { buffer, control, turn, size, work });
    }
}

impl DecodeJob<'_> {
    /// Returns the number of bytes that the job decodes or fills, roughly.
    pub fn work(&self) -> u64 {
        match &self.work {
            Work::Fill(_, part, _) => (part.nblocks.len() * self.size) as u64,
            Work::Decode(_, arrived) => (arrived.group.blocks.len() * self.size) as u64,
        }
    }

    /// Runs the job, which writes to its places in the destination.
    ///
    /// # Errors
    /// When a block does not decode, or the call was cancelled.
    pub fn run(self) -> Result<(), NdError> {
        self.control.check()?;
        let _turn = self.turn.map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        let nbytes = match self.work {
            Work::Fill(uniform, part, item) => uniform.fill_part(&part, &item, &mut self.buffer.writer()),
            Work::Decode(shared, Arrived { group, bytes }) => {
                let Shareable { blocks, block0 } = &*shared;
                let mut worker = blocks.worker(block0.get().and_then(Option::as_deref))?;
                let mut nbytes = 0;
                for &nblock in &blocks.nblocks()[group.blocks] {
                    let stored = blocks.head().stored(nblock, group.extent.as_ref(), &bytes)?;
                    nbytes += blocks.copy(&mut worker, nblock, stored, &mut self.buffer.writer())?;
                }
                nbytes
            }
        };
        Ok(self.control.advance(nbytes as u64)?)
    }
}

impl Slice {
    /// Reads the stored items in C order into `dst` through a plan that `drive` works off. This is
    /// for storage without positioned reads.
    ///
    /// # Errors
    /// As for [`read_into`](Self::read_into), and when `drive` returns before the plan is done.
    #[doc(hidden)]
    pub fn read_with(
        &self,
        dst: &mut [u8],
        drive: impl FnOnce(&mut SelectionPlan<'_>) -> Result<(), NdError>,
    ) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        let frame = self.array().super_chunk();
        read_by_requests(self.array(), frame, &*self.moves(0, &self.strides())?, dst.into(), drive)
    }

    /// Reads the stored items in C order into `dst` through a plan that an asynchronous driver works
    /// off.
    async fn read_stored_by(&self, dst: &mut [u8], driver: &impl SelectionDriver) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        let moves = self.moves(0, &self.strides())?;
        let frame = self.array().super_chunk();
        let Some(prepared) = Prepared::new(self.array(), frame, &*moves, dst.into())? else { return Ok(()) };
        let mut plan = prepared.plan();
        driver.drive(&mut plan).await?;
        plan.check_done()
    }

    /// Like [`read_bytes_into`](Self::read_bytes_into), with an asynchronous driver.
    #[doc(hidden)]
    pub async fn read_bytes_into_by(
        &self,
        dst: &mut [u8],
        driver: &impl SelectionDriver,
    ) -> Result<(), NdError> {
        self.read_stored_by(dst, driver).await?;
        self.to_native(dst);
        Ok(())
    }

    /// Like [`read_bytes`](Self::read_bytes), with an asynchronous driver. The caller checks the
    /// size of the result ([`NdArray::check_result`]).
    #[doc(hidden)]
    pub async fn read_bytes_by(&self, driver: &impl SelectionDriver) -> Result<Vec<u8>, NdError> {
        let mut out = buffer(self.nbytes())?;
        self.read_bytes_into_by(&mut out, driver).await?;
        Ok(out)
    }

    /// Like [`read_into`](Self::read_into), with an asynchronous driver.
    #[doc(hidden)]
    pub async fn read_into_by<T: Element>(
        &self,
        dst: &mut [T],
        driver: &impl SelectionDriver,
    ) -> Result<(), NdError> {
        let other_order = self.byte_order::<T>()?;
        check_len(dst.len().saturating_mul(T::ITEMSIZE), self.nbytes())?;
        if let Some(bytes) = T::as_le_bytes_mut(dst) {
            self.read_stored_by(bytes, driver).await?;
            if other_order {
                bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
            }
            return Ok(());
        }
        let mut bytes = buffer(self.nbytes())?;
        self.read_stored_by(&mut bytes, driver).await?;
        dst.copy_from_slice(&decode(&mut bytes, T::ITEMSIZE, other_order)?);
        Ok(())
    }

    /// Like [`read`](Self::read) of a `Vec<T>`, with an asynchronous driver. The caller checks the
    /// size of the result ([`NdArray::check_result`]).
    #[doc(hidden)]
    pub async fn read_by<T: Element>(&self, driver: &impl SelectionDriver) -> Result<Vec<T>, NdError> {
        self.byte_order::<T>()?;
        let nbytes = self.nbytes();
        let len = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let mut items = T::zeroed(len).map_err(|_| NdError::TooLarge { asked: nbytes })?;
        self.read_into_by(&mut items, driver).await?;
        Ok(items)
    }
}

/// Works off plans for selections, see [`SelectionPlan`].
#[doc(hidden)]
pub trait SelectionDriver {
    /// Fetches what the plan requests, and runs its jobs, until it is done.
    fn drive(&self, plan: &mut SelectionPlan<'_>) -> impl MaybeSendFuture<Output = Result<(), NdError>>;
}

/// A future that can be sent to another thread, except on wasm, where there are none.
#[doc(hidden)]
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSendFuture: Future + Send {}
#[cfg(not(target_family = "wasm"))]
impl<F: Future + Send> MaybeSendFuture for F {}

/// A future that can be sent to another thread, except on wasm, where there are none.
#[doc(hidden)]
#[cfg(target_family = "wasm")]
pub trait MaybeSendFuture: Future {}
#[cfg(target_family = "wasm")]
impl<F: Future> MaybeSendFuture for F {}

/// Like [`read_selection`](crate::read::jobs::read_selection), with another driver.
pub(crate) fn read_by_requests(
    array: &NdArray,
    frame: &SuperChunk,
    moves: &dyn Moves,
    destination: Destination<'_>,
    drive: impl FnOnce(&mut SelectionPlan<'_>) -> Result<(), NdError>,
) -> Result<(), NdError> {
    let Some(prepared) = Prepared::new(array, frame, moves, destination)? else { return Ok(()) };
    let mut plan = prepared.plan();
    drive(&mut plan)?;
    plan.check_done()
}

/// What a [`SelectionPlan`] refers to.
struct Prepared<'a> {
    reading: Reading<'a>,
    buffer: Disjoint<'a>,
    control: Control,
    /// Present if several items may share a place.
    turn: Option<Mutex<()>>,
}

impl<'a> Prepared<'a> {
    /// Returns `None` if nothing has to be read; the destination is then filled.
    fn new(
        array: &'a NdArray,
        frame: &'a SuperChunk,
        moves: &'a dyn Moves,
        destination: Destination<'a>,
    ) -> Result<Option<Self>, NdError> {
        let (nbytes, item, disjoint) = (moves.nbytes(), moves.item(), moves.disjoint());
        let control = frame.dparams().control.begin(nbytes, item.len() as u64);
        if disjoint
            && nbytes == destination.len() as u64
            && moves.nparts() > 0
            && let Some(uniform) = Uniform::of_all(array)?
        {
            uniform.fill(&item, destination.into_slice());
            control.advance(nbytes)?;
            return Ok(None);
        }
        let streaming = frame.dparams().destination.is_streaming(destination.len());
        let reading = Reading { array, frame, moves, size: array.geometry().block_nbytes(), streaming };
        // SAFETY: As in `read_selection`; jobs run one at a time if places may overlap.
        #[allow(unsafe_code)]
        let buffer = unsafe { Disjoint::new(destination, !disjoint) };
        let turn = (!disjoint).then(Mutex::default);
        Ok(Some(Self { reading, buffer, control, turn }))
    }

    fn plan(&self) -> SelectionPlan<'_> {
        SelectionPlan {
            reading: &self.reading,
            buffer: &self.buffer,
            control: &self.control,
            turn: self.turn.as_ref(),
            next_part: 0,
            next_id: 0,
            requests: VecDeque::new(),
            asked: HashMap::new(),
            jobs: VecDeque::new(),
            planning: HashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
