//! Blocks of one chunk by their numbers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use b2_chunk::{BlockDecoder, DParams, LazyChunk};
use b2_core::memory;

use crate::read::chunk::ChunkRef;
use crate::read::disjoint::Destination;
use crate::read::local::read_places;
use crate::read::scatter_plan::Target;
use crate::read::scatter_plan::{ResolvedPart, ScatterPlan};
use crate::{FrameError, SuperChunk};

/// Size of the blocks that are decoded at a time, in bytes.
const DECODE_BATCH_LEN: usize = 8 << 20;

/// Some blocks of one chunk, which are decoded into separate memory.
pub struct NumberedBlocks<'n> {
    frame: SuperChunk,
    nchunk: usize,
    nblocks: &'n [usize],
    /// Their numbers in ascending order, each once.
    numbers: Vec<usize>,
    decoded: Mutex<BTreeMap<usize, Vec<u8>>>,
}

impl ChunkRef<'_> {
    /// Reads and decodes some blocks. `each` receives their numbers and plain bytes in the order of `nblocks`. Only the
    /// head of the chunk and these blocks are read, and block 0 if the delta filter needs it; neighbours are read
    /// together.
    ///
    /// # Errors
    /// [`FrameError::OutOfRange`] if the chunk or a block does not exist; otherwise as for
    /// [`decompress`](Self::decompress).
    pub fn blocks(self, nblocks: &[usize], mut each: impl FnMut(usize, &[u8])) -> Result<(), FrameError> {
        let control = self.frame.dparams.control.quiet();
        for blocks in self.block_reads(nblocks) {
            let blocks = blocks?;
            let read = read_places(self.frame, &blocks, Destination::empty(), &control);
            read.map_err(|error| self.frame.explain(error))?;
            blocks.each(&mut each);
        }
        Ok(())
    }

    /// Divides a read of blocks, which need not exist, into reads of bounded size, as all blocks of a read stay in
    /// memory until the last one is decoded. There is at least one.
    ///
    /// # Errors
    /// When there is not enough memory.
    #[doc(hidden)]
    pub fn block_reads<'n>(
        self,
        nblocks: &'n [usize],
    ) -> impl Iterator<Item = Result<NumberedBlocks<'n>, FrameError>> {
        let size = match (self.frame.header().blocksize(), self.frame.chunksize()) {
            (0, size) | (size, _) => size,
        };
        let at_once = DECODE_BATCH_LEN.checked_div(size).unwrap_or(1).max(1);
        let mut rest = Some(nblocks);
        std::iter::from_fn(move || {
            let nblocks = rest.take()?;
            let (now, later) = nblocks.split_at(at_once.min(nblocks.len()));
            rest = (!later.is_empty()).then_some(later);
            Some(NumberedBlocks::new(self, now))
        })
    }
}

impl std::fmt::Debug for NumberedBlocks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberedBlocks").field("nchunk", &self.nchunk).finish_non_exhaustive()
    }
}

impl<'n> NumberedBlocks<'n> {
    fn new(chunk: ChunkRef<'_>, nblocks: &'n [usize]) -> Result<Self, FrameError> {
        let mut numbers = memory::collect(nblocks.iter().copied())?;
        numbers.sort_unstable();
        numbers.dedup();
        let (frame, nchunk) = (chunk.frame.clone(), chunk.nchunk);
        Ok(Self { frame, nchunk, nblocks, numbers, decoded: Mutex::default() })
    }

    /// Passes the plain bytes of the blocks on, in their order, after they have been read.
    pub fn each(self, mut each: impl FnMut(usize, &[u8])) {
        let decoded = self.decoded.into_inner().unwrap_or_else(PoisonError::into_inner);
        for nblock in self.nblocks {
            if let Some(plain) = decoded.get(nblock) {
                each(*nblock, plain);
            }
        }
    }
}

// SAFETY: It requests no places.
#[allow(unsafe_code)]
unsafe impl ScatterPlan for &NumberedBlocks<'_> {
    type Error = FrameError;
    type Fill = ();
    type Part = ();
    type Worker<'w> = (&'w LazyChunk, BlockDecoder<'w>, Option<&'w [u8]>);

    fn nbytes(&self) -> u64 {
        0
    }

    fn nparts(&self) -> u64 {
        1
    }

    fn nchunk(&self, _: u64) -> usize {
        self.nchunk
    }

    fn disjoint(&self) -> bool {
        true
    }

    fn worker_memory(&self) -> u64 {
        (self.frame.header().blocksize() as u64).saturating_mul(3)
    }

    fn decode_cost(&self) -> Result<u64, FrameError> {
        Ok(0)
    }

    fn constant(&self, _: u64, _: usize) -> Result<Option<()>, FrameError> {
        Ok(None)
    }

    fn expected_blocks(&self, _: u64) -> Result<Vec<Range<usize>>, FrameError> {
        Ok(memory::collect(self.numbers.iter().map(|&nblock| nblock..nblock.saturating_add(1)))?)
    }

    fn resolve(&self, _: (u64, usize), chunk: &LazyChunk) -> Result<ResolvedPart<(), ()>, FrameError> {
        match self.numbers.last() {
            Some(&bad) if bad >= chunk.nblocks() => {
                let (start, len) = (bad as u64, chunk.nblocks() as u64);
                Err(FrameError::OutOfRange { what: "blocks", start, end: start.saturating_add(1), len })
            }
            _ => {
                if self.numbers.len() > 1 {
                    let decoded = (chunk.blocksize() as u64).saturating_mul(self.numbers.len() as u64);
                    let limits = &self.frame.dparams.limits;
                    limits.check_memory("decoded blocks, in bytes", decoded)?;
                }
                Ok(ResolvedPart::Blocks(()))
            }
        }
    }

    fn nblocks<'p>(&'p self, (): &'p ()) -> &'p [usize] {
        &self.numbers
    }

    fn fill(&self, (): &(), _: &mut impl Target) -> usize {
        0
    }

    fn worker<'w>(
        &self,
        (): &(),
        chunk: &'w LazyChunk,
        dparams: &'w DParams,
        block0: Option<&'w [u8]>,
        _: bool,
    ) -> Result<Self::Worker<'w>, FrameError> {
        let decoder = chunk.decoder(dparams).map_err(self.frame.chunk_error(self.nchunk))?;
        Ok((chunk, decoder, block0))
    }

    fn copy(
        &self,
        (chunk, decoder, block0): &mut Self::Worker<'_>,
        (): &(),
        nblock: usize,
        stored: &[u8],
        _: &mut impl Target,
    ) -> Result<usize, FrameError> {
        let mut plain = memory::zeroed(chunk.block_range(nblock).len())?;
        let block0 = block0.filter(|_| nblock > 0);
        let decoded = decoder.decode(nblock, stored, block0, &mut plain);
        decoded.map_err(self.frame.chunk_error(self.nchunk))?;
        let nbytes = plain.len();
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner).insert(nblock, plain);
        Ok(nbytes)
    }
}
