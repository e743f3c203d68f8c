//! Blocks of one chunk by their numbers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use b2_chunk::{BlockDecoder, ChunkError, DParams, LazyChunk};
use b2_core::memory;

use crate::read::disjoint::Destination;
use crate::read::local::read_places;
use crate::read::places::{Found, Places};
use crate::read::target::Target;
use crate::{FrameError, SuperChunk};

/// Size of the blocks that are decoded at once, in bytes.
const AT_ONCE: usize = 8 << 20;

/// Blocks of one chunk, which are decoded into memory of their own.
#[doc(hidden)]
pub struct NumberedBlocks {
    frame: SuperChunk,
    nchunk: usize,
    /// Their numbers in ascending order, each once.
    numbers: Vec<usize>,
    decoded: Mutex<BTreeMap<usize, Vec<u8>>>,
}

impl SuperChunk {
    /// Reads and decodes some blocks of chunk `nchunk`. `each` receives their numbers and plain
    /// bytes in the order of `nblocks`. Only the head of the chunk and these blocks are read, and block 0
    /// if the delta filter needs it; neighbours are read at once.
    ///
    /// # Errors
    /// When the chunk or a block does not exist, cannot be read, or does not decode.
    pub fn blocks(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), FrameError> {
        let control = self.dparams.control.quiet();
        let mut rest = nblocks;
        loop {
            let (now, later) = rest.split_at(NumberedBlocks::at_once(self).min(rest.len()));
            let blocks = NumberedBlocks::new(self, nchunk, now)?;
            let read = read_places(self, &blocks, Destination::nowhere(), &control);
            read.map_err(|error| self.explain(error))?;
            blocks.each(now, &mut each);
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }
}

impl NumberedBlocks {
    /// Lists blocks, which need not exist.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(frame: &SuperChunk, nchunk: usize, nblocks: &[usize]) -> Result<Self, FrameError> {
        let mut numbers = memory::collect(nblocks.iter().copied())?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self { frame: frame.clone(), nchunk, numbers, decoded: Mutex::default() })
    }

    /// Returns how many blocks to decode at once, as all of them are kept until the last one is decoded.
    pub fn at_once(frame: &SuperChunk) -> usize {
        let size = match (frame.header().blocksize(), frame.chunksize()) {
            (0, 0) => return 1,
            (0, size) | (size, _) => size,
        };
        AT_ONCE.checked_div(size).unwrap_or(1).max(1)
    }

    /// Passes the plain bytes of the blocks on, in this order, after they have been read.
    pub fn each(self, nblocks: &[usize], mut each: impl FnMut(usize, &[u8])) {
        let decoded = self.decoded.into_inner().unwrap_or_else(PoisonError::into_inner);
        for nblock in nblocks {
            if let Some(plain) = decoded.get(nblock) {
                each(*nblock, plain);
            }
        }
    }

    fn damaged(&self) -> impl FnOnce(ChunkError) -> FrameError {
        |error| FrameError::chunk(self.frame.structure(self.nchunk))(error)
    }
}

/// Decodes blocks of one chunk.
#[doc(hidden)]
pub struct WholeBlocks<'a> {
    chunk: &'a LazyChunk,
    decoder: BlockDecoder<'a>,
    block0: Option<&'a [u8]>,
}

// SAFETY: It asks for no places.
#[allow(unsafe_code)]
unsafe impl Places for &NumberedBlocks {
    type Error = FrameError;
    type Fill = ();
    type Part = ();
    type Worker<'w> = WholeBlocks<'w>;

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

    fn work(&self) -> Result<u64, FrameError> {
        Ok(0)
    }

    fn known(&self, _: u64, _: usize) -> Result<Option<()>, FrameError> {
        Ok(None)
    }

    fn expected(&self, _: u64) -> Result<Vec<Range<usize>>, FrameError> {
        Ok(memory::collect(self.numbers.iter().map(|&nblock| nblock..nblock.saturating_add(1)))?)
    }

    fn found(&self, _: (u64, usize), chunk: &LazyChunk) -> Result<Found<(), ()>, FrameError> {
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
                Ok(Found::Blocks(()))
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
    ) -> Result<WholeBlocks<'w>, FrameError> {
        Ok(WholeBlocks { chunk, decoder: chunk.decoder(dparams).map_err(self.damaged())?, block0 })
    }

    fn copy(
        &self,
        worker: &mut WholeBlocks<'_>,
        (): &(),
        nblock: usize,
        stored: &[u8],
        _: &mut impl Target,
    ) -> Result<usize, FrameError> {
        let WholeBlocks { chunk, decoder, block0 } = worker;
        let mut plain = memory::zeroed(chunk.block_range(nblock).len())?;
        let block0 = block0.filter(|_| nblock > 0);
        decoder.decode(nblock, stored, block0, &mut plain).map_err(self.damaged())?;
        let nbytes = plain.len();
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner).insert(nblock, plain);
        Ok(nbytes)
    }
}
