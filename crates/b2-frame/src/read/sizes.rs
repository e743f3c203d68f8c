//! The sizes of chunks in frames with individual chunk sizes. The frame header does not define
//! them, so the chunk headers have to be read.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, SpecialKind};
use b2_core::memory;

use crate::error::{max_chunk_nbytes, max_metadata, within};
use crate::format::header::NBYTES_OFFSET;
use crate::format::index::Entry;
use crate::read::fetch::HeadersPlan;
use crate::read::plan::drive;
use crate::{FrameError, Structure, SuperChunk};

/// Number of chunk headers that are requested at once.
const HEADERS_AT_ONCE: usize = 4096;

/// Consecutive chunks of equal size.
#[derive(Clone, Copy, Debug)]
struct Run {
    nchunk: usize,
    /// Offset of the first of these chunks in the data.
    start: u64,
    /// Size of each chunk.
    nbytes: u64,
}

/// The offsets of all chunks in the data, followed by a run for the end. A run of chunks with the
/// same entry takes as much memory as one, so that a small file cannot demand much.
#[derive(Debug, Default)]
pub(crate) struct ChunkSizes(Vec<Run>);

impl ChunkSizes {
    /// Creates the table from the size of each chunk.
    pub(crate) fn of(sizes: &[u32]) -> Self {
        let mut start = 0;
        let place = |(nchunk, nbytes): (usize, &u32)| {
            let run = Run { nchunk, start, nbytes: u64::from(*nbytes) };
            start += run.nbytes;
            run
        };
        let mut runs: Vec<Run> = sizes.iter().enumerate().map(place).collect();
        runs.push(Run { nchunk: sizes.len(), start, nbytes: 0 });
        Self(runs)
    }

    /// Returns the chunk that holds byte `at`, its range, and the end of the run of chunks with the
    /// same entry. `at` must be inside the data.
    pub(crate) fn chunk_at(&self, at: u64) -> Option<(usize, Range<u64>, u64)> {
        // Use the last run that starts here; runs before it at the same offset are empty.
        let next = self.0.partition_point(|run| run.start <= at);
        let (run, end) = (self.0.get(next.checked_sub(1)?)?, self.0.get(next)?.start);
        let n = (at - run.start).checked_div(run.nbytes)?;
        let start = run.start + n * run.nbytes;
        Some((run.nchunk + usize::try_from(n).ok()?, start..start + run.nbytes, end))
    }

    fn nbytes(&self, nchunk: usize) -> Option<u64> {
        let next = self.0.partition_point(|run| run.nchunk <= nchunk);
        // There is another run behind every chunk.
        self.0.get(next).and(self.0.get(next.checked_sub(1)?)).map(|run| run.nbytes)
    }
}

impl SuperChunk {
    /// Returns the uncompressed size of chunk `nchunk` in bytes. If chunks have individual sizes,
    /// this reads the chunk header.
    ///
    /// # Errors
    /// When the chunk does not exist, or its header cannot be read.
    pub fn chunk_nbytes(&self, nchunk: usize) -> Result<u64, FrameError> {
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
        let mut places = memory::list(nchunks.len())?;
        for &nchunk in nchunks {
            if let Entry::Stored(offset) = self.entry(nchunk)? {
                places.push(self.opened.place(nchunk, offset, &self.dparams)?);
            }
        }
        drive(HeadersPlan::new(places, self.costs.gap / 2), &*self.files)
    }

    /// Creates the chunk that a special entry stands for.
    pub(crate) fn special(&self, nchunk: usize, kind: SpecialKind) -> Result<Chunk, FrameError> {
        if self.chunksize() > 0 {
            return self.opened.special_chunk(nchunk, kind, &self.dparams);
        }
        let nbytes = self.chunk_nbytes(nchunk)?;
        within("uncompressed chunk, in bytes", nbytes, max_chunk_nbytes(&self.dparams))?;
        let kind = if kind == SpecialKind::Uninit { SpecialKind::Zeros } else { kind };
        Chunk::special(kind, &[], usize::try_from(nbytes).unwrap_or(usize::MAX), self.typesize(), 0)
            .map(|chunk| chunk.with_nchunk(Some(nchunk)))
            .map_err(self.chunk_error(nchunk))
    }

    /// Returns the sizes of all chunks, which are read once.
    pub(crate) fn chunk_sizes(&self) -> Result<&ChunkSizes, FrameError> {
        if let Some(sizes) = self.sizes.get() {
            return Ok(sizes);
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut special = None;
        let mut nchunk = 0;
        while nchunk < self.nchunks() {
            let (entry, run) = self.index().run(nchunk)?;
            if matches!(entry, Entry::Special(_)) {
                // C-Blosc2 writes special entries to such frames although their size is not stored.
                // The size of a single one follows from the others.
                if special.replace(nchunk).is_some() || run.len() > 1 {
                    return Err(self.opened.untold_size(nchunk));
                }
            }
            nchunk = run.end;
            memory::push(&mut runs, run)?;
            let table = size_of::<Range<usize>>() + size_of::<Run>();
            within(
                "table of chunk sizes, in bytes",
                (runs.len() * table) as u64,
                max_metadata(&self.dparams),
            )?;
        }

        let mut sizes = memory::list(runs.len())?;
        for batch in runs.chunks(HEADERS_AT_ONCE) {
            let nchunks: Vec<usize> = batch.iter().map(|run| run.start).collect();
            let mut headers = self.headers(&nchunks)?.into_iter();
            for run in batch {
                let nbytes = match special {
                    Some(special) if special == run.start => None,
                    _ => headers.next().map(|header| header.nbytes() as u64),
                };
                sizes.push((run, nbytes));
            }
        }
        let known = sizes.iter().try_fold(0u64, |sum, (run, nbytes)| {
            sum.checked_add(nbytes.unwrap_or(0).checked_mul(run.len() as u64)?)
        });
        let rest = match known.and_then(|known| self.nbytes().checked_sub(known)) {
            Some(rest) if rest == 0 || special.is_some() => rest,
            _ => {
                let (value, expected) = (self.nbytes(), "the sum of the chunks' sizes");
                return Err(FrameError::field(Structure::Header, "nbytes", NBYTES_OFFSET, value, expected));
            }
        };
        let mut start = 0;
        let place = |(run, nbytes): (&Range<usize>, Option<u64>)| {
            let nbytes = nbytes.unwrap_or(rest);
            let placed = Run { nchunk: run.start, start, nbytes };
            // The sum was checked above, so this cannot overflow.
            start += nbytes * run.len() as u64;
            placed
        };
        let mut placed = memory::list(sizes.len() + 1)?;
        placed.extend(sizes.into_iter().map(place));
        placed.push(Run { nchunk: self.nchunks(), start: self.nbytes(), nbytes: 0 });
        let sizes = ChunkSizes(placed);
        Ok(self.sizes.get_or_init(|| sizes))
    }
}
