//! The head of a stored chunk, from which the places of its blocks follow: header, block starts and
//! dictionary.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::{ChunkError, DParams, EXTENDED_HEADER_LEN, LazyChunk, LazyHead};
use b2_core::memory;
use bytes::Bytes;

use crate::format::digest::{Sum, sum};
use crate::format::index::Entry;
use crate::format::runs::{self, Runs};
use crate::format::starts::Starts;
use crate::names::FrameFile;
use crate::read::locate::ChunkLocation;
use crate::read::plan::{Step, ended};
use crate::read::sums::PageRequest;
use crate::read::super_chunk::FramePlan;
use crate::read::verified::VerifiedChunk;
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

/// Larger chunks are summed in pieces, and their bytes are not kept for decoding.
const MAX_WHOLE_SUM_LEN: usize = 8 << 20;
/// Size of these pieces, in bytes.
const SUM_PIECE_LEN: u64 = 1 << 20;

/// The head of a chunk (header, block starts, dictionary) with everything that was read along with
/// it. Returned by [`HeadPlan`].
#[derive(Clone, Debug)]
pub(crate) struct ChunkHead(Box<HeadContent>);

/// The content of a head, boxed because heads are moved often.
#[derive(Clone, Debug)]
struct HeadContent {
    nchunk: usize,
    /// `None` for special chunks, which are not stored.
    place: Option<ChunkLocation>,
    lazy: LazyChunk,
    /// Everything that was read, from the start of the chunk.
    bytes: Bytes,
    /// What was read ahead: offsets in the chunk and bytes, in ascending order.
    ahead: Vec<(usize, Bytes)>,
    /// The runs of the chunk, if they are compared when their blocks are taken.
    runs: Option<Arc<Runs>>,
}

impl ChunkHead {
    /// Returns the chunk's header and tables.
    pub(crate) fn chunk(&self) -> &LazyChunk {
        &self.0.lazy
    }

    /// Returns whether the chunk is stored. A special chunk is not.
    pub(crate) fn is_stored(&self) -> bool {
        self.0.place.is_some()
    }

    /// Returns the file that holds the chunk.
    pub(crate) fn file(&self) -> FrameFile {
        self.0.place.as_ref().map_or(FrameFile::Main, |place| place.file)
    }

    pub(crate) fn into_chunk(self) -> LazyChunk {
        self.0.lazy
    }

    /// Returns the chunk's name in errors.
    pub(crate) fn structure(&self) -> Structure {
        self.0.place.as_ref().map_or(Structure::Index, ChunkLocation::structure)
    }

    /// Returns the part of the chunk that must be available to take a block: the block, or its run if that has to be
    /// compared first.
    pub(crate) fn span(&self, nblock: usize) -> Range<usize> {
        let block = self.0.lazy.block_extent(nblock);
        match self.pending(&block) {
            Some((_, run)) => run,
            None => block,
        }
    }

    /// Returns the run that has to be compared before a block is decoded, and its number.
    fn pending(&self, block: &Range<usize>) -> Option<(usize, Range<usize>)> {
        let runs = self.0.runs.as_ref().filter(|_| !block.is_empty())?;
        runs.pending(block.start)
    }

    /// Returns the bytes read with the head that contain a part of the chunk, and the part's range in them.
    fn found(&self, span: &Range<usize>) -> Option<(&Bytes, Range<usize>)> {
        if self.0.bytes.get(span.clone()).is_some() {
            return Some((&self.0.bytes, span.clone()));
        }
        let after = self.0.ahead.partition_point(|(start, _)| *start <= span.start);
        let (start, ahead) = self.0.ahead.get(after.checked_sub(1)?)?;
        let range = span.start.checked_sub(*start)?..span.end.checked_sub(*start)?;
        ahead.get(range.clone()).is_some().then_some((ahead, range))
    }

    /// Returns the range of a part of the chunk in the file, which is empty if it came with the head.
    pub(crate) fn to_read(&self, span: &Range<usize>) -> Range<u64> {
        match (self.found(span), &self.0.place) {
            (None, Some(place)) => {
                let at = |n: usize| place.start.saturating_add(n as u64);
                at(span.start)..at(span.end)
            }
            _ => 0..0,
        }
    }

    /// Returns the stored bytes of a block, and compares its run first if that is due. `read` are the
    /// bytes of `extent`; they are not needed for what came with the head.
    ///
    /// # Errors
    /// When the stored bytes do not match their checksum.
    pub(crate) fn stored<'b>(
        &'b self,
        nblock: usize,
        extent: Option<&Extent>,
        read: &'b [u8],
    ) -> Result<&'b [u8], FrameError> {
        let block = self.0.lazy.block_extent(nblock);
        let pending = self.pending(&block);
        let span = pending.as_ref().map_or(&block, |(_, run)| run);
        let (bytes, start) = match self.found(span) {
            Some((bytes, range)) => (bytes.get(range).unwrap_or_default(), span.start),
            None => {
                let start = self.0.place.as_ref().map_or(0, |place| place.start);
                let base = extent.and_then(|extent| extent.range.start.checked_sub(start));
                (read, base.and_then(|base| usize::try_from(base).ok()).unwrap_or(usize::MAX))
            }
        };
        self.take(block, pending, bytes, start)
    }

    /// Returns the stored bytes of a block from bytes of the chunk that begin at `start`, after comparing
    /// its run if that is due.
    pub(crate) fn take<'b>(
        &self,
        block: Range<usize>,
        pending: Option<(usize, Range<usize>)>,
        bytes: &'b [u8],
        start: usize,
    ) -> Result<&'b [u8], FrameError> {
        let part = |range: &Range<usize>| {
            let range = range.start.checked_sub(start)?..range.end.checked_sub(start)?;
            bytes.get(range)
        };
        if let (Some((number, run)), Some(runs)) = (pending, &self.0.runs) {
            let fits = run.start <= block.start && block.end <= run.end;
            let compared = part(&run).filter(|_| fits).map(|bytes| runs.compare(number, bytes));
            if compared != Some(Ok(())) {
                return Err(self.damaged(&run));
            }
        }
        Ok(part(&block).unwrap_or_default())
    }

    /// Returns the error for a run that does not match its checksum.
    fn damaged(&self, run: &Range<usize>) -> FrameError {
        let lazy = &self.0.lazy;
        let in_run = |nblock: &usize| run.contains(&lazy.block_extent(*nblock).start);
        let nchunk = self.0.nchunk;
        let structure = match (0..lazy.nblocks()).find(in_run) {
            Some(first) => {
                let last = (first..lazy.nblocks()).rev().find(in_run).unwrap_or(first);
                Structure::Blocks { nchunk, first, last }
            }
            None => Structure::Chunk(nchunk),
        };
        FrameError::Checksum { structure, what: "the bytes do not match the checksum" }
    }

    /// Returns a plan that compares the head of the chunk with its checksum, or the whole chunk if there are no
    /// sums of its blocks, as [`Compare`](crate::Compare) demands.
    pub(crate) fn compare(self) -> ComparePlan {
        ComparePlan { head: Some(self), state: CompareState::Start }
    }
}

/// A plan that reads the head of a chunk, usually in one round. Heads of unexpected size take a
/// second one.
#[derive(Clone, Debug)]
pub(crate) struct HeadPlan {
    nchunk: usize,
    /// The blocks that will be read next, in ascending order.
    blocks: Vec<Range<usize>>,
    /// What was read ahead: offsets in the chunk and bytes, in ascending order.
    ahead: Vec<(usize, Bytes)>,
    state: HeadState,
}

#[derive(Clone, Debug)]
enum HeadState {
    /// A special chunk, for which nothing is stored.
    Made(Box<LazyChunk>),
    Start(ChunkLocation),
    PrefetchedRange(ChunkLocation, Box<PrefetchedRange>),
    Spent,
}

/// What was requested along with the first `len` bytes of a chunk.
#[derive(Clone, Debug, Default)]
struct PrefetchedRange {
    len: u64,
    /// Further parts of the chunk, by their offsets in it.
    ahead: Vec<usize>,
    /// Pages that comparing the chunk will need, and one of block starts for further chunks.
    pages: Vec<PageRequest>,
}

impl HeadPlan {
    /// Plans to read the head of chunk `nchunk`, which is needed to read its blocks.
    ///
    /// # Errors
    /// When the chunk does not exist, its entry is malformed, or it exceeds a limit.
    pub(crate) fn new(frame: &SuperChunk, nchunk: usize) -> Result<Self, FrameError> {
        let state = match frame.entry(nchunk)? {
            Entry::Stored(offset) => HeadState::Start(frame.opened.place(nchunk, offset, &frame.dparams)?),
            Entry::Special(kind) => {
                let lazy = frame.special(nchunk, kind)?.lazy(&frame.dparams);
                HeadState::Made(Box::new(lazy.map_err(FrameError::chunk(Structure::Index))?))
            }
        };
        Ok(Self { nchunk, blocks: Vec::new(), ahead: Vec::new(), state })
    }

    /// Tells the plan which blocks will be read next, as ranges in ascending order. If requests are expensive
    /// ([`ReadCosts::ahead`](crate::ReadCosts::ahead)), it requests the bytes that probably hold them together with the
    /// head, so that no second round is needed. The head decides what these bytes are, so a wrong guess costs a round,
    /// never a wrong value. If the frame records where the blocks are, only what is needed is requested.
    #[must_use]
    pub(crate) fn with_blocks(self, blocks: Vec<Range<usize>>) -> Self {
        Self { blocks, ..self }
    }

    /// Returns how many bytes to read from the start of the chunk, and further ranges that hold the blocks if the block
    /// starts recorded in the frame are correct.
    fn told(&self, frame: &SuperChunk, place: &ChunkLocation, starts: &Starts) -> (u64, Vec<Range<u64>>) {
        let costs = &frame.costs;
        let len = starts.len().min(place.guess);
        let head = starts.head().clamp(EXTENDED_HEADER_LEN as u64, len.max(EXTENDED_HEADER_LEN as u64));
        if len <= costs.small {
            return (len.max(head), Vec::new());
        }
        let record = frame.runs_of(self.nchunk).ok().and_then(Result::ok).flatten();
        let compares = frame.compares_stored() && frame.compared(self.nchunk).is_none();
        if self.compares_all(frame) {
            return if len <= costs.at_once { (len, Vec::new()) } else { (head, Vec::new()) };
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
                    Some(last) => (last.start, &mut last.end, costs.gap),
                    None => (0, &mut first, costs.gap.min(HEAD_GAP)),
                };
                if block.start <= end.saturating_add(gap) && block.end.saturating_sub(from) <= costs.at_once {
                    *end = block.end.max(*end);
                } else if !block.is_empty() {
                    ahead.push(block);
                }
            }
        }
        match total <= costs.at_once.saturating_mul(MAX_AHEAD) {
            true => (first, ahead),
            // The driver limits the bytes of blocks in flight, but not those of heads.
            false => (head, Vec::new()),
        }
    }

    /// Returns whether the whole chunk will be compared, as far as that is known.
    fn compares_all(&self, frame: &SuperChunk) -> bool {
        let whole = frame.keeps || frame.opened.runs.is_none();
        whole && frame.compares_stored() && frame.compared(self.nchunk).is_none()
    }

    /// Returns how many bytes to read from the start of the chunk, and a further range of the chunk
    /// that probably holds the blocks, which may be empty.
    fn guessed(&self, frame: &SuperChunk, place: &ChunkLocation) -> (u64, Range<u64>) {
        let costs = &frame.costs;
        if place.guess <= costs.small {
            return (place.guess, 0..0);
        }
        let tables = place.nblocks.saturating_mul(4).saturating_add(EXTENDED_HEADER_LEN as u64);
        let least = costs.head.max(EXTENDED_HEADER_LEN as u64).min(place.guess);
        let head = tables.clamp(least, place.guess);
        let all = self.blocks.last().is_some_and(|blocks| blocks.end == usize::MAX);
        if costs.ahead && place.guess <= costs.at_once && (all || self.compares_all(frame)) {
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
        if !costs.ahead || blocks.is_empty() || tables >= place.guess {
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
        let most = costs.at_once;
        let asked = end.saturating_sub(start);
        match start <= head.saturating_add(costs.gap.min(place.guess / 4)) {
            true if end <= most => (end.max(head), 0..0),
            false if asked.saturating_add(place.guess / 4) >= place.guess && place.guess <= most => {
                (place.guess, 0..0)
            }
            false if asked <= most => (head, start..end),
            _ => (head, 0..0),
        }
    }
}

/// If the positions of blocks are known: those that start at most this many bytes after the head are read with it.
const HEAD_GAP: u64 = 64 << 10;
/// This many times the largest read may be requested along with a head.
const MAX_AHEAD: u64 = 8;

/// A range of blocks is read with a margin of one part in this many of the chunk, since blocks differ in size.
const MARGIN: u64 = 48;
/// Smallest such margin, in bytes.
const MIN_MARGIN: u64 = 4 << 10;

impl FramePlan for HeadPlan {
    type Output = ChunkHead;

    fn step(&mut self, frame: &SuperChunk, parts: Vec<Bytes>) -> Result<Step<ChunkHead>, FrameError> {
        let nchunk = self.nchunk;
        match std::mem::replace(&mut self.state, HeadState::Spent) {
            HeadState::Made(lazy) => Ok(Step::Done(ChunkHead(Box::new(HeadContent {
                nchunk,
                place: None,
                lazy: *lazy,
                bytes: Bytes::new(),
                ahead: Vec::new(),
                runs: None,
            })))),
            HeadState::Start(place) => {
                let (starts, start_page) = match self.blocks.iter().all(Range::is_empty) {
                    true => (None, None),
                    false => frame.starts_of(nchunk),
                };
                let (len, ahead) = match &starts {
                    Some(starts) => self.told(frame, &place, starts),
                    None => {
                        let (len, ahead) = self.guessed(frame, &place);
                        (len, if ahead.is_empty() { Vec::new() } else { vec![ahead] })
                    }
                };
                let mut pages = frame.pages_ahead(nchunk, place.guess)?;
                pages.extend(start_page);
                let mut need = memory::list(ahead.len().saturating_add(4))?;
                need.push(place.at_most(len));
                need.extend(ahead.iter().map(|range| place.part(range)));
                need.extend(pages.iter().map(|page| page.extent.clone()));
                let offset = |range: &Range<u64>| usize::try_from(range.start).unwrap_or(usize::MAX);
                let ahead = memory::collect(ahead.iter().map(offset))?;
                self.state =
                    HeadState::PrefetchedRange(place, Box::new(PrefetchedRange { len, ahead, pages }));
                Ok(Step::Need(need))
            }
            HeadState::PrefetchedRange(place, asked) => {
                let PrefetchedRange { len, ahead, pages } = *asked;
                let mut parts = parts.into_iter();
                let bytes = parts.next().unwrap_or_default();
                for offset in ahead {
                    memory::push(&mut self.ahead, (offset, parts.next().unwrap_or_default()))?;
                }
                for page in pages {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                let available = place.available(len, bytes.len());
                let header = place.header(&bytes, available)?;
                let parsed = LazyChunk::parse(&bytes, available, &frame.dparams);
                let more = match parsed.map_err(FrameError::chunk(place.structure()))? {
                    // The lengths of variable-length blocks are stored in front of the blocks, so
                    // all bytes are needed.
                    LazyHead::Ready(lazy) if lazy.header().is_vl() && bytes.len() < header.cbytes() => {
                        header.cbytes()
                    }
                    LazyHead::Ready(lazy) => {
                        let lazy = lazy.with_nchunk(Some(nchunk));
                        return Ok(Step::Done(ChunkHead(Box::new(HeadContent {
                            nchunk,
                            place: Some(place),
                            lazy,
                            bytes,
                            ahead: std::mem::take(&mut self.ahead),
                            runs: None,
                        }))));
                    }
                    LazyHead::Need(len) if len > bytes.len() => len,
                    LazyHead::Need(_) | LazyHead::Whole => header.cbytes(),
                };
                let need = place.within_limit(more)?;
                self.state = HeadState::PrefetchedRange(
                    place,
                    Box::new(PrefetchedRange { len: more as u64, ..PrefetchedRange::default() }),
                );
                Ok(Step::Need(vec![need]))
            }
            HeadState::Spent => Err(ended()),
        }
    }
}

/// A plan that compares the head of a chunk with its checksum, or the whole chunk, and reads what that
/// needs. Returned by [`ChunkHead::compare`].
pub(crate) struct ComparePlan {
    /// `None` after the plan has ended.
    head: Option<ChunkHead>,
    state: CompareState,
}

enum CompareState {
    Start,
    /// The page with the sums of the chunk's runs.
    Runs(PageRequest),
    /// A chunk that is not large is read completely and kept. `whole` says whether bytes of it are
    /// missing.
    Rest {
        whole: bool,
        page: Option<PageRequest>,
    },
    /// The piece of a large chunk that ends at offset `at` of the file.
    Piece {
        sums: Box<Sum>,
        at: u64,
        page: Option<PageRequest>,
    },
    Spent,
}

impl ComparePlan {
    fn start(&mut self, frame: &SuperChunk) -> Result<Step<ChunkHead>, FrameError> {
        let Some(ChunkHead(head)) = &mut self.head else { return Err(ended()) };
        if head.place.is_none() || !frame.compares_stored() {
            return self.finish();
        }
        if frame.keeps {
            return self.whole(frame);
        }
        match frame.compared(head.nchunk) {
            Some(VerifiedChunk::Whole) => return self.finish(),
            Some(VerifiedChunk::Runs(runs)) if runs.fits(&head.lazy) => {
                head.runs = Some(runs.clone());
                return self.finish();
            }
            _ => {}
        }
        match frame.runs_of(head.nchunk)? {
            Ok(record) => self.divide(frame, record),
            Err(page) => {
                let need = vec![page.extent.clone()];
                self.state = CompareState::Runs(page);
                Ok(Step::Need(need))
            }
        }
    }

    /// Compares the head of the chunk and divides it into runs, if there is a record of these. Otherwise
    /// all of the chunk is compared.
    fn divide(&mut self, frame: &SuperChunk, record: Option<Bytes>) -> Result<Step<ChunkHead>, FrameError> {
        let Some(ChunkHead(head)) = &mut self.head else { return Err(ended()) };
        let runs = record.and_then(|record| Runs::new(&head.lazy, &record, &head.bytes));
        let Some(runs) = runs else { return self.whole(frame) };
        let Ok(runs) = runs else {
            let (structure, what) = (Structure::Chunk(head.nchunk), "its head does not match the checksum");
            return Err(FrameError::Checksum { structure, what });
        };
        let runs = Arc::new(runs);
        frame.put_compared(head.nchunk, VerifiedChunk::Runs(runs.clone()));
        // Another thread may have been faster.
        head.runs = match frame.compared(head.nchunk) {
            Some(VerifiedChunk::Runs(known)) => Some(known.clone()),
            _ => Some(runs),
        };
        self.finish()
    }

    fn whole(&mut self, frame: &SuperChunk) -> Result<Step<ChunkHead>, FrameError> {
        let Some(head) = &self.head else { return Err(ended()) };
        let Some(place) = &head.0.place else { return self.finish() };
        let cbytes = head.0.lazy.header().cbytes();
        let page = frame.sum_of(head.0.nchunk)?.err();
        if cbytes > MAX_WHOLE_SUM_LEN {
            let start = place.start;
            return self.piece(frame, Box::default(), start, page);
        }
        let whole = head.0.bytes.len() < cbytes;
        let mut need = Vec::new();
        if whole {
            need.push(place.exactly(cbytes));
        }
        need.extend(page.iter().map(|page| page.extent.clone()));
        if need.is_empty() {
            return self.check(frame);
        }
        self.state = CompareState::Rest { whole, page };
        Ok(Step::Need(need))
    }

    /// Requests the next piece of a large chunk, which starts at offset `at`.
    fn piece(
        &mut self,
        frame: &SuperChunk,
        sums: Box<Sum>,
        at: u64,
        page: Option<PageRequest>,
    ) -> Result<Step<ChunkHead>, FrameError> {
        let Some(head) = &self.head else { return Err(ended()) };
        let start = head.0.place.as_ref().map_or(at, |place| place.start);
        let end = start.saturating_add(head.0.lazy.header().cbytes() as u64);
        if at >= end {
            frame.check_sum(head.0.nchunk, || sums.finish())?;
            frame.put_compared(head.0.nchunk, VerifiedChunk::Whole);
            return self.finish();
        }
        let piece = at..end.min(at.saturating_add(SUM_PIECE_LEN));
        let at = piece.end;
        let mut need = vec![Extent::exactly(head.file(), piece)];
        need.extend(page.iter().map(|page| page.extent.clone()));
        self.state = CompareState::Piece { sums, at, page };
        Ok(Step::Need(need))
    }

    fn check(&mut self, frame: &SuperChunk) -> Result<Step<ChunkHead>, FrameError> {
        let Some(head) = &mut self.head else { return Err(ended()) };
        head.0.bytes.truncate(head.0.lazy.header().cbytes());
        frame.check_sum(head.0.nchunk, || sum(&head.0.bytes))?;
        frame.put_compared(head.0.nchunk, VerifiedChunk::Whole);
        self.finish()
    }

    fn finish(&mut self) -> Result<Step<ChunkHead>, FrameError> {
        self.state = CompareState::Spent;
        self.head.take().map(Step::Done).ok_or_else(ended)
    }
}

impl FramePlan for ComparePlan {
    type Output = ChunkHead;

    fn step(&mut self, frame: &SuperChunk, parts: Vec<Bytes>) -> Result<Step<ChunkHead>, FrameError> {
        let mut parts = parts.into_iter();
        match std::mem::replace(&mut self.state, CompareState::Spent) {
            CompareState::Start => self.start(frame),
            CompareState::Runs(page) => {
                frame.take_page(&page, parts.next().unwrap_or_default())?;
                let Some(head) = &self.head else { return Err(ended()) };
                // A missing page is treated like a damaged one.
                let record = frame.runs_of(head.0.nchunk)?.unwrap_or_default();
                self.divide(frame, record)
            }
            CompareState::Rest { whole, page } => {
                if whole {
                    let bytes = parts.next().unwrap_or_default();
                    let Some(head) = &mut self.head else { return Err(ended()) };
                    // Compare exactly the bytes of the head that were parsed.
                    let len = head.0.bytes.len().min(head.0.lazy.header().cbytes());
                    if bytes.get(..len) != head.0.bytes.get(..len) {
                        let structure = Structure::Chunk(head.0.nchunk);
                        let what = "its head differs from what was read before";
                        return Err(FrameError::Checksum { structure, what });
                    }
                    head.0.bytes = bytes;
                }
                if let Some(page) = page {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                self.check(frame)
            }
            CompareState::Piece { mut sums, at, page } => {
                sums.add(&parts.next().unwrap_or_default());
                if let Some(page) = page {
                    frame.take_page(&page, parts.next().unwrap_or_default())?;
                }
                self.piece(frame, sums, at, None)
            }
            CompareState::Spent => Err(ended()),
        }
    }
}

impl ChunkHead {
    /// Decodes block 0 from its stored bytes if other blocks refer to it (delta filter), as
    /// [`BlockDecoder::decode`](b2_chunk::BlockDecoder::decode) needs it.
    ///
    /// # Errors
    /// When the block does not decode.
    pub(crate) fn decode_block0(
        &self,
        stored: &[u8],
        dparams: &DParams,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        if !self.0.lazy.needs_block0() {
            return Ok(None);
        }
        block0(&self.0.lazy, stored, dparams).map(Some).map_err(FrameError::chunk(self.structure()))
    }
}

pub(crate) fn block0(lazy: &LazyChunk, stored: &[u8], dparams: &DParams) -> Result<Vec<u8>, ChunkError> {
    let mut block = memory::zeroed(lazy.block_range(0).len())?;
    lazy.decoder(dparams)?.decode_reference(0, stored, None, &mut block)?;
    Ok(block)
}
