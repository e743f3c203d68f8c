//! The plan that reads the head of a chunk and verifies it, before blocks are read.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::{EXTENDED_HEADER_LEN, LazyChunk, LazyHead};
use b2_core::memory;
use bytes::Bytes;

use crate::format::digest::{Sum, sum};
use crate::format::index::Entry;
use crate::format::runs::VerifiedChunk;
use crate::format::runs::{self, Runs};
use crate::format::starts::Starts;
use crate::read::chunk_head::ChunkLocation;
use crate::read::chunk_head::{ChunkHead, HeadContent};
use crate::read::plan::{Step, ended};
use crate::read::sums::PageRequest;
use crate::read::super_chunk::FramePlan;
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

/// If the positions of blocks are known: those that start at most this many bytes after the head are read with it.
const HEAD_GAP: u64 = 64 << 10;
/// This many times the largest read may be requested along with a head.
const MAX_AHEAD: u64 = 8;

/// A range of blocks is read with a margin of one part in this many of the chunk, since blocks differ in size.
const MARGIN: u64 = 48;
/// Smallest such margin, in bytes.
const MIN_MARGIN: u64 = 4 << 10;
/// Larger chunks are summed in pieces, and their bytes are not cached for decoding.
const MAX_WHOLE_SUM_LEN: usize = 8 << 20;
/// Size of these pieces, in bytes.
const SUM_PIECE_LEN: u64 = 1 << 20;

/// A plan that reads the head of a chunk. It also verifies the head with its checksum, or the whole chunk if there are no
/// sums of its blocks, as [`Compare`](crate::Compare) demands. It usually takes one round.
///
/// | State | What was requested | What follows |
/// | --- | --- | --- |
/// | `Special` | nothing, since the chunk is not stored | the end |
/// | `Start` | nothing | `Head` |
/// | `Head` | the first bytes, and blocks and sums that will probably be needed | `Head`, if the head is longer; the end, if nothing is to be verified; `RunSums`, `Whole` or `Piece` |
/// | `RunSums` | the page with the sums of the chunk's runs | the end, or `Whole` or `Piece` if there are none |
/// | `Whole` | all bytes of the chunk, unless the first ones were all, and the page with its sum | the end |
/// | `Piece` | the next piece of a large chunk, and once the page with its sum | `Piece`, then the end |
/// | `Ended` | | an error |
pub(crate) struct ChunkPlan {
    nchunk: usize,
    /// The blocks that will be read next, in ascending order.
    blocks: Vec<Range<usize>>,
    /// Bytes read ahead, with their offsets in the chunk, in ascending order.
    ahead: Vec<(usize, Bytes)>,
    verifies: bool,
    state: ChunkState,
}

/// The state of a [`ChunkPlan`].
enum ChunkState {
    Special(Box<LazyChunk>),
    Start(ChunkLocation),
    Head(ChunkLocation, Box<PrefetchedRange>),
    RunSums(ChunkHead, PageRequest),
    Whole {
        head: ChunkHead,
        /// Whether bytes of the chunk were missing.
        is_partial: bool,
        page: Option<PageRequest>,
    },
    Piece {
        head: ChunkHead,
        sums: Box<Sum>,
        /// Offset in the file at which the piece ends.
        at: u64,
        page: Option<PageRequest>,
    },
    Ended,
}

/// Ranges requested along with the first `len` bytes of a chunk.
#[derive(Default)]
struct PrefetchedRange {
    len: u64,
    /// Further parts of the chunk, by their offsets in it.
    ahead: Vec<usize>,
    /// Pages that verifying the chunk will need, and one of block starts for further chunks.
    pages: Vec<PageRequest>,
}

impl ChunkPlan {
    /// Plans to read the head of chunk `nchunk`, which is needed to read its blocks.
    ///
    /// # Errors
    /// When the chunk does not exist, its entry is malformed, or it exceeds a limit.
    pub(crate) fn new(frame: &SuperChunk, nchunk: usize) -> Result<Self, FrameError> {
        let state = match frame.entry(nchunk)? {
            Entry::Stored(offset) => ChunkState::Start(frame.opened.place(nchunk, offset, &frame.dparams)?),
            Entry::Special(kind) => {
                let lazy = frame.special(nchunk, kind)?.lazy(&frame.dparams);
                ChunkState::Special(Box::new(lazy.map_err(FrameError::chunk(Structure::Index))?))
            }
        };
        Ok(Self { nchunk, blocks: Vec::new(), ahead: Vec::new(), verifies: false, state })
    }

    /// Also verifies the chunk, if that is required.
    #[must_use]
    pub(crate) fn verified(self) -> Self {
        Self { verifies: true, ..self }
    }

    /// Announces which blocks will be read next, as ranges in ascending order. If requests are expensive
    /// ([`ReadTuning::prefetch`](crate::ReadTuning::prefetch)), it requests the bytes that probably hold them together with the
    /// head, so that no second round is needed. The head decides what these bytes are, so a wrong guess costs a round,
    /// never a wrong value. If the frame records where the blocks are, only what is needed is requested.
    #[must_use]
    pub(crate) fn with_blocks(self, blocks: Vec<Range<usize>>) -> Self {
        Self { blocks, ..self }
    }

    /// Returns how many bytes to read from the start of the chunk, and further ranges that hold the blocks if the block
    /// starts recorded in the frame are correct.
    fn known_ranges(
        &self,
        frame: &SuperChunk,
        place: &ChunkLocation,
        starts: &Starts,
    ) -> (u64, Vec<Range<u64>>) {
        let tuning = &frame.tuning;
        let len = starts.len().min(place.guess);
        let head = starts.head().clamp(EXTENDED_HEADER_LEN as u64, len.max(EXTENDED_HEADER_LEN as u64));
        if len <= tuning.whole_chunk_max {
            return (len.max(head), Vec::new());
        }
        let record = frame.runs_of(self.nchunk).ok().and_then(Result::ok).flatten();
        let compares = frame.compares_stored() && frame.compared(self.nchunk).is_none();
        if self.compares_all(frame) {
            return if len <= tuning.coalesce_max { (len, Vec::new()) } else { (head, Vec::new()) };
        }
        let runs = starts.runs(if compares { runs::min_len(record.as_deref()) } else { 0 });
        let reference = if starts.needs_block0 { 0..1 } else { 0..0 };
        let (mut first, mut ahead, mut total) = (head, Vec::<Range<u64>>::new(), head);
        // Several of the ranges may be in one run.
        let mut done = 0;
        for blocks in std::iter::once(&reference).chain(&self.blocks) {
            let blocks = blocks.start..blocks.end.min(starts.nblocks());
            if blocks.is_empty() {
                continue;
            }
            let blocks = starts.in_runs(&runs, &blocks);
            let rest = blocks.start.max(done)..blocks.end;
            done = done.max(blocks.end);
            for nblock in rest {
                let block = starts.start(nblock).min(len)..starts.end(nblock).min(len);
                total = total.saturating_add(block.end.saturating_sub(block.start));
                let (from, end, gap) = match ahead.last_mut() {
                    Some(last) => (last.start, &mut last.end, tuning.coalesce_gap),
                    None => (0, &mut first, tuning.coalesce_gap.min(HEAD_GAP)),
                };
                if block.start <= end.saturating_add(gap)
                    && block.end.saturating_sub(from) <= tuning.coalesce_max
                {
                    *end = block.end.max(*end);
                } else if !block.is_empty() {
                    ahead.push(block);
                }
            }
        }
        match total <= tuning.coalesce_max.saturating_mul(MAX_AHEAD) {
            true => (first, ahead),
            // The driver limits the bytes of blocks in flight, but not those of heads.
            false => (head, Vec::new()),
        }
    }

    /// Returns whether it is known that the whole chunk will be compared.
    fn compares_all(&self, frame: &SuperChunk) -> bool {
        let whole = frame.keeps || frame.opened.runs.is_none();
        whole && frame.compares_stored() && frame.compared(self.nchunk).is_none()
    }

    /// Returns how many bytes to read from the start of the chunk, and a further range of the chunk
    /// that probably holds the blocks, which may be empty.
    fn guessed(&self, frame: &SuperChunk, place: &ChunkLocation) -> (u64, Range<u64>) {
        let tuning = &frame.tuning;
        if place.guess <= tuning.whole_chunk_max {
            return (place.guess, 0..0);
        }
        let tables = place.nblocks.saturating_mul(4).saturating_add(EXTENDED_HEADER_LEN as u64);
        let least = tuning.head_len.max(EXTENDED_HEADER_LEN as u64).min(place.guess);
        let head = tables.clamp(least, place.guess);
        let all = self.blocks.last().is_some_and(|blocks| blocks.end == usize::MAX);
        if tuning.prefetch && place.guess <= tuning.coalesce_max && (all || self.compares_all(frame)) {
            return (place.guess, 0..0);
        }
        let span = |first: &Range<usize>, last: &Range<usize>| first.start as u64..last.end as u64;
        let blocks = match (self.blocks.first(), self.blocks.last()) {
            // The whole chunk will be compared.
            _ if self.compares_all(frame) => 0..place.nblocks,
            (Some(first), Some(last)) => span(first, last),
            _ => 0..0,
        };
        let blocks = blocks.start..blocks.end.min(place.nblocks);
        if !tuning.prefetch || blocks.is_empty() || tables >= place.guess {
            return (head, 0..0);
        }
        // Blocks are mostly of similar sizes, and stored in order.
        let offset = |nblock: u64| {
            let data = u128::from(place.guess.saturating_sub(tables));
            let at = data.saturating_mul(nblock.into()).checked_div(place.nblocks.into()).unwrap_or(0);
            tables.saturating_add(u64::try_from(at).unwrap_or(u64::MAX))
        };
        let run = if frame.compares_stored() { runs::MIN_LEN } else { 0 };
        let margin = (place.guess / MARGIN).max(offset(1).saturating_sub(tables)).max(MIN_MARGIN);
        let margin = margin.saturating_add(run);
        let start = offset(blocks.start).saturating_sub(margin);
        let end = offset(blocks.end).saturating_add(margin).min(place.guess);
        let most = tuning.coalesce_max;
        let asked = end.saturating_sub(start);
        match start <= head.saturating_add(tuning.coalesce_gap.min(place.guess / 4)) {
            true if end <= most => (end.max(head), 0..0),
            false if asked.saturating_add(place.guess / 4) >= place.guess && place.guess <= most => {
                (place.guess, 0..0)
            }
            false if asked <= most => (head, start..end),
            _ => (head, 0..0),
        }
    }

    fn request_head(
        &mut self,
        frame: &SuperChunk,
        place: ChunkLocation,
    ) -> Result<Step<ChunkHead>, FrameError> {
        let (starts, start_page) = match self.blocks.iter().all(Range::is_empty) {
            true => (None, None),
            false => frame.starts_of(self.nchunk),
        };
        let (len, ahead) = match &starts {
            Some(starts) => self.known_ranges(frame, &place, starts),
            None => {
                let (len, ahead) = self.guessed(frame, &place);
                (len, if ahead.is_empty() { Vec::new() } else { vec![ahead] })
            }
        };
        let mut pages = frame.pages_ahead(self.nchunk, place.guess)?;
        pages.extend(start_page);
        let mut need = memory::list(ahead.len().saturating_add(4))?;
        need.push(place.at_most(len));
        need.extend(ahead.iter().map(|range| place.part(range)));
        need.extend(pages.iter().map(|page| page.extent.clone()));
        let offset = |range: &Range<u64>| usize::try_from(range.start).unwrap_or(usize::MAX);
        let ahead = memory::collect(ahead.iter().map(offset))?;
        self.state = ChunkState::Head(place, Box::new(PrefetchedRange { len, ahead, pages }));
        Ok(Step::Need(need))
    }

    fn take_head(
        &mut self,
        frame: &SuperChunk,
        place: ChunkLocation,
        asked: PrefetchedRange,
        mut parts: impl Iterator<Item = Bytes>,
    ) -> Result<Step<ChunkHead>, FrameError> {
        let bytes = parts.next().unwrap_or_default();
        for offset in asked.ahead {
            memory::push(&mut self.ahead, (offset, parts.next().unwrap_or_default()))?;
        }
        for page in asked.pages {
            frame.take_page(&page, parts.next().unwrap_or_default())?;
        }
        let available = place.available(asked.len, bytes.len());
        let header = place.header(&bytes, available)?;
        let parsed = LazyChunk::parse(&bytes, available, &frame.dparams);
        let more = match parsed.map_err(FrameError::chunk(place.structure()))? {
            // The lengths of variable-length blocks are stored in front of the blocks, so all bytes are needed.
            LazyHead::Ready(lazy) if lazy.header().is_vl() && bytes.len() < header.cbytes() => {
                header.cbytes()
            }
            LazyHead::Ready(lazy) => {
                let lazy = lazy.with_nchunk(Some(self.nchunk));
                let ahead = std::mem::take(&mut self.ahead);
                let head =
                    HeadContent { nchunk: self.nchunk, place: Some(place), lazy, bytes, ahead, runs: None };
                return self.verify(frame, ChunkHead(Box::new(head)));
            }
            LazyHead::Need(len) if len > bytes.len() => len,
            LazyHead::Need(_) | LazyHead::Whole => header.cbytes(),
        };
        let need = place.within_limit(more)?;
        let asked = PrefetchedRange { len: more as u64, ..PrefetchedRange::default() };
        self.state = ChunkState::Head(place, Box::new(asked));
        Ok(Step::Need(vec![need]))
    }

    fn verify(&mut self, frame: &SuperChunk, mut head: ChunkHead) -> Result<Step<ChunkHead>, FrameError> {
        if !self.verifies || !frame.compares_stored() {
            return Ok(Step::Done(head));
        }
        if frame.keeps {
            return self.whole(frame, head);
        }
        match frame.compared(self.nchunk) {
            Some(VerifiedChunk::Whole) => return Ok(Step::Done(head)),
            Some(VerifiedChunk::Runs(runs)) if runs.fits(&head.0.lazy) => {
                head.0.runs = Some(runs.clone());
                return Ok(Step::Done(head));
            }
            _ => {}
        }
        match frame.runs_of(self.nchunk)? {
            Ok(record) => self.divide(frame, head, record),
            Err(page) => {
                let need = vec![page.extent.clone()];
                self.state = ChunkState::RunSums(head, page);
                Ok(Step::Need(need))
            }
        }
    }

    /// Verifies the head of the chunk and divides it into runs, if there is a record of these. Otherwise all of the chunk
    /// is verified.
    fn divide(
        &mut self,
        frame: &SuperChunk,
        mut head: ChunkHead,
        record: Option<Bytes>,
    ) -> Result<Step<ChunkHead>, FrameError> {
        let runs = record.and_then(|record| Runs::new(&head.0.lazy, &record, &head.0.bytes));
        let Some(runs) = runs else { return self.whole(frame, head) };
        let runs = Arc::new(runs.map_err(|_| self.damaged("its head does not match the checksum"))?);
        frame.put_compared(self.nchunk, VerifiedChunk::Runs(runs.clone()));
        // Another thread may have been faster.
        head.0.runs = match frame.compared(self.nchunk) {
            Some(VerifiedChunk::Runs(known)) => Some(known.clone()),
            _ => Some(runs),
        };
        Ok(Step::Done(head))
    }

    fn damaged(&self, what: &'static str) -> FrameError {
        FrameError::Checksum { structure: Structure::Chunk(self.nchunk), what }
    }

    fn whole(&mut self, frame: &SuperChunk, head: ChunkHead) -> Result<Step<ChunkHead>, FrameError> {
        let Some(place) = &head.0.place else { return Ok(Step::Done(head)) };
        let cbytes = head.0.lazy.header().cbytes();
        let page = frame.sum_of(self.nchunk)?.err();
        if cbytes > MAX_WHOLE_SUM_LEN {
            let start = place.start;
            return self.piece(frame, head, Box::default(), start, page);
        }
        let is_partial = head.0.bytes.len() < cbytes;
        let mut need = Vec::new();
        if is_partial {
            need.push(place.exactly(cbytes));
        }
        need.extend(page.iter().map(|page| page.extent.clone()));
        if need.is_empty() {
            return self.check(frame, head);
        }
        self.state = ChunkState::Whole { head, is_partial, page };
        Ok(Step::Need(need))
    }

    /// Requests the next piece of a large chunk, which starts at offset `at`.
    fn piece(
        &mut self,
        frame: &SuperChunk,
        head: ChunkHead,
        sums: Box<Sum>,
        at: u64,
        page: Option<PageRequest>,
    ) -> Result<Step<ChunkHead>, FrameError> {
        let start = head.0.place.as_ref().map_or(at, |place| place.start);
        let end = start.saturating_add(head.0.lazy.header().cbytes() as u64);
        if at >= end {
            frame.check_sum(self.nchunk, || sums.finish())?;
            frame.put_compared(self.nchunk, VerifiedChunk::Whole);
            return Ok(Step::Done(head));
        }
        let piece = at..end.min(at.saturating_add(SUM_PIECE_LEN));
        let at = piece.end;
        let mut need = vec![Extent::exactly(head.file(), piece)];
        need.extend(page.iter().map(|page| page.extent.clone()));
        self.state = ChunkState::Piece { head, sums, at, page };
        Ok(Step::Need(need))
    }

    fn check(&self, frame: &SuperChunk, mut head: ChunkHead) -> Result<Step<ChunkHead>, FrameError> {
        head.0.bytes.truncate(head.0.lazy.header().cbytes());
        frame.check_sum(self.nchunk, || sum(&head.0.bytes))?;
        frame.put_compared(self.nchunk, VerifiedChunk::Whole);
        Ok(Step::Done(head))
    }
}

impl FramePlan for ChunkPlan {
    type Output = ChunkHead;

    fn step(&mut self, frame: &SuperChunk, parts: Vec<Bytes>) -> Result<Step<ChunkHead>, FrameError> {
        let mut parts = parts.into_iter();
        match std::mem::replace(&mut self.state, ChunkState::Ended) {
            ChunkState::Special(lazy) => Ok(Step::Done(ChunkHead(Box::new(HeadContent {
                nchunk: self.nchunk,
                place: None,
                lazy: *lazy,
                bytes: Bytes::new(),
                ahead: Vec::new(),
                runs: None,
            })))),
            ChunkState::Start(place) => self.request_head(frame, place),
            ChunkState::Head(place, asked) => self.take_head(frame, place, *asked, parts),
            ChunkState::RunSums(head, page) => {
                frame.take_page(&page, parts.next().unwrap_or_default())?;
                // A missing page is treated like a damaged one.
                let record = frame.runs_of(self.nchunk)?.unwrap_or_default();
                self.divide(frame, head, record)
            }
            ChunkState::Whole { mut head, is_partial, page } => {
                if is_partial {
                    let bytes = parts.next().unwrap_or_default();
                    // Verify exactly the bytes of the head that were parsed.
                    let len = head.0.bytes.len().min(head.0.lazy.header().cbytes());
                    if bytes.get(..len) != head.0.bytes.get(..len) {
                        return Err(self.damaged("its head differs from what was read before"));
                    }
                    head.0.bytes = bytes;
                }
                if let Some(page) = page {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                self.check(frame, head)
            }
            ChunkState::Piece { head, mut sums, at, page } => {
                sums.add(&parts.next().unwrap_or_default());
                if let Some(page) = page {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                self.piece(frame, head, sums, at, None)
            }
            ChunkState::Ended => Err(ended()),
        }
    }
}
