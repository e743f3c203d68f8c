//! Plans that read the headers of many chunks: for their sizes, if chunks have individual ones, and for information
//! about them.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, EXTENDED_HEADER_LEN, SpecialKind};
use b2_core::memory;
use bytes::Bytes;

use crate::error::{max_chunk_nbytes, max_metadata, within};
use crate::format::header::NBYTES_OFFSET;
use crate::format::index::Entry;
use crate::names::FrameFile;
use crate::read::chunk_head::ChunkLocation;
use crate::read::plan::{CoalescedRanges, Plan, Step, drive};
use crate::read::sizes::{ChunkSizes, SizeRun};
use crate::storage::files::Extent;
use crate::{FrameError, Structure, SuperChunk};

/// Number of chunk headers requested at a time.
const HEADER_BATCH: usize = 4096;

impl SuperChunk {
    /// Returns the uncompressed size of chunk `nchunk` in bytes. If chunks have individual sizes,
    /// this reads the chunk header.
    ///
    /// # Errors
    /// When the chunk does not exist, or its header cannot be read.
    pub(crate) fn chunk_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
        if let Some(nbytes) = self.opened.expected_nbytes(nchunk) {
            return Ok(nbytes);
        }
        let known = self.sizes.get().and_then(|sizes| sizes.nbytes(nchunk));
        match (self.entry(nchunk)?, known) {
            (_, Some(nbytes)) => Ok(nbytes),
            (Entry::Stored(_), None) => self
                .headers(&[nchunk])
                .map(|headers| headers.first().map_or(0, |header| header.nbytes() as u64)),
            (Entry::Special(_), None) => Ok(self.chunk_sizes()?.nbytes(nchunk).unwrap_or(0)),
        }
    }

    /// Reads the headers of the stored ones of these chunks.
    pub(crate) fn headers(&self, nchunks: &[usize]) -> Result<Vec<ChunkHeader>, FrameError> {
        drive(self.headers_plan(nchunks)?, &*self.files)
    }

    /// Returns a plan that reads the headers of the stored ones of these chunks.
    pub(crate) fn headers_plan(&self, nchunks: &[usize]) -> Result<HeadersPlan, FrameError> {
        let mut places = memory::list(nchunks.len())?;
        for &nchunk in nchunks {
            if let Entry::Stored(offset) = self.entry(nchunk)? {
                places.push(self.opened.place(nchunk, offset, &self.dparams)?);
            }
        }
        Ok(HeadersPlan::new(places, self.tuning.coalesce_gap / 2))
    }

    /// Creates the chunk of a special entry.
    pub(crate) fn special(&self, nchunk: usize, kind: SpecialKind) -> Result<Chunk, FrameError> {
        if self.chunksize() > 0 {
            return self.opened.special_chunk(nchunk, kind, &self.dparams);
        }
        let nbytes = self.chunk_nbytes(nchunk)?;
        within("uncompressed chunk, in bytes", nbytes, max_chunk_nbytes(&self.dparams))?;
        let kind = if kind == SpecialKind::Uninit { SpecialKind::Zeros } else { kind };
        Chunk::special(kind, &[], usize::try_from(nbytes).unwrap_or(usize::MAX), self.itemsize(), 0)
            .map(|chunk| chunk.with_nchunk(Some(nchunk)))
            .map_err(self.chunk_error(nchunk))
    }

    /// Returns the sizes of all chunks, which are read once.
    pub(crate) fn chunk_sizes(&self) -> Result<&ChunkSizes, FrameError> {
        if self.sizes.get().is_none() {
            drive(SizesPlan::new(self), &*self.files)?;
        }
        Ok(self.sizes.get_or_init(ChunkSizes::default))
    }

    /// Returns a plan that reads the sizes of all chunks, if they are individual and not known yet. Later uses of the
    /// sizes then need no reads.
    #[doc(hidden)]
    pub fn sizes_plan(&self) -> impl Plan<Output = ()> {
        SizesPlan::new(self)
    }
}

/// A plan that reads the headers of all chunks for their sizes, in batches.
pub(crate) struct SizesPlan<'a> {
    frame: &'a SuperChunk,
    /// The runs of chunks with the same entry.
    runs: Option<Vec<Range<usize>>>,
    /// The only run of a special chunk. Its size follows from the others.
    special: Option<usize>,
    /// The sizes of chunks of the first runs.
    sizes: Vec<u64>,
    headers: Option<HeadersPlan>,
}

impl<'a> SizesPlan<'a> {
    pub(crate) fn new(frame: &'a SuperChunk) -> Self {
        Self { frame, runs: None, special: None, sizes: Vec::new(), headers: None }
    }

    fn list(&mut self) -> Result<(), FrameError> {
        let frame = self.frame;
        let (mut runs, mut nchunk) = (Vec::new(), 0);
        while nchunk < frame.nchunks() {
            let (entry, run) = frame.index().run(nchunk)?;
            // C-Blosc2 writes special entries to such frames although their size is not stored.
            if matches!(entry, Entry::Special(_))
                && (self.special.replace(runs.len()).is_some() || run.len() > 1)
            {
                return Err(frame.opened.unknown_size(nchunk));
            }
            nchunk = run.end;
            memory::push(&mut runs, run)?;
            let table = (runs.len() * (size_of::<Range<usize>>() + size_of::<SizeRun>())) as u64;
            within("table of chunk sizes, in bytes", table, max_metadata(&frame.dparams))?;
        }
        self.sizes = memory::list(runs.len())?;
        self.runs = Some(runs);
        Ok(())
    }

    /// Returns the plan for the next headers; `None` if there are no more.
    fn next(&mut self) -> Result<Option<HeadersPlan>, FrameError> {
        let runs = self.runs.as_deref().unwrap_or_default();
        if self.special == Some(self.sizes.len()) {
            self.sizes.push(0);
        }
        let start = self.sizes.len();
        let end = match self.special {
            Some(special) if special > start => special.min(start + HEADER_BATCH),
            _ => runs.len().min(start + HEADER_BATCH),
        };
        let Some(batch @ [_, ..]) = runs.get(start..end) else { return Ok(None) };
        let nchunks = memory::collect(batch.iter().map(|run| run.start))?;
        self.frame.headers_plan(&nchunks).map(Some)
    }

    fn finish(&mut self) -> Result<(), FrameError> {
        let (frame, runs) = (self.frame, self.runs.take().unwrap_or_default());
        let known = self
            .sizes
            .iter()
            .zip(&runs)
            .try_fold(0u64, |sum, (nbytes, run)| sum.checked_add(nbytes.checked_mul(run.len() as u64)?));
        let rest = match known.and_then(|known| frame.nbytes().checked_sub(known)) {
            Some(rest) if rest == 0 || self.special.is_some() => rest,
            _ => {
                let (value, expected) = (frame.nbytes(), "the sum of the chunks' sizes");
                return Err(FrameError::field(Structure::Header, "nbytes", NBYTES_OFFSET, value, expected));
            }
        };
        let (mut start, mut placed) = (0, memory::list(runs.len() + 1)?);
        for (at, (run, nbytes)) in runs.iter().zip(&self.sizes).enumerate() {
            let nbytes = if self.special == Some(at) { rest } else { *nbytes };
            placed.push(SizeRun { nchunk: run.start, start, nbytes });
            // The sum was checked above, so this cannot overflow.
            start += nbytes * run.len() as u64;
        }
        placed.push(SizeRun { nchunk: frame.nchunks(), start: frame.nbytes(), nbytes: 0 });
        frame.sizes.get_or_init(|| ChunkSizes(placed));
        Ok(())
    }
}

impl Plan for SizesPlan<'_> {
    type Output = ();

    fn step(&mut self, mut parts: Vec<Bytes>) -> Result<Step<()>, FrameError> {
        if self.frame.chunksize() > 0 || self.frame.sizes.get().is_some() {
            return Ok(Step::Done(()));
        }
        if self.runs.is_none() {
            self.list()?;
        }
        loop {
            if let Some(plan) = &mut self.headers {
                match plan.step(std::mem::take(&mut parts))? {
                    Step::Need(need) => return Ok(Step::Need(need)),
                    Step::Done(headers) => {
                        self.sizes.extend(headers.iter().map(|header| header.nbytes() as u64));
                    }
                }
            }
            self.headers = self.next()?;
            if self.headers.is_none() {
                return self.finish().map(Step::Done);
            }
        }
    }
}

/// A plan that reads the headers of many chunks; neighbours are read together.
#[derive(Clone, Debug)]
pub(crate) struct HeadersPlan {
    places: Vec<ChunkLocation>,
    /// Largest gap between headers that are read together, in bytes.
    gap: u64,
    reads: Option<(CoalescedRanges, bool)>,
}

impl HeadersPlan {
    pub(crate) fn new(places: Vec<ChunkLocation>, gap: u64) -> Self {
        Self { places, gap, reads: None }
    }
}

impl Plan for HeadersPlan {
    type Output = Vec<ChunkHeader>;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Vec<ChunkHeader>>, FrameError> {
        let Some((coalesced, one_file)) = &self.reads else {
            let one_file = self.places.iter().all(|place| place.file == FrameFile::Main);
            let heads =
                memory::collect(self.places.iter().map(|place| place.at_most(EXTENDED_HEADER_LEN as u64)))?;
            let coalesced = if one_file {
                let wanted = memory::collect(heads.iter().map(|extent| extent.range.clone()))?;
                CoalescedRanges::new(&wanted, self.gap)?
            } else {
                CoalescedRanges::default()
            };
            let need = if one_file {
                let reads = coalesced.reads.iter();
                memory::collect(reads.map(|read| Extent::exactly(FrameFile::Main, read.clone())))?
            } else {
                heads
            };
            self.reads = Some((coalesced, one_file));
            return Ok(Step::Need(need));
        };
        let headers = self.places.iter().enumerate().map(|(i, place)| {
            let head =
                if *one_file { coalesced.pick(&parts, i) } else { parts.get(i).cloned().unwrap_or_default() };
            place.header(&head, place.room())
        });
        let mut all = memory::list(self.places.len())?;
        for header in headers {
            all.push(header?);
        }
        Ok(Step::Done(all))
    }
}
