//! Chunks whose items are all equal. The file stores nothing for them, so reading only fills the
//! result, however many chunks or blocks the file claims.

use std::ops::Range;

use b2_chunk::{Chunk, ChunkHeader, LazyChunk, SpecialKind};
use b2_core::memory;
use b2_frame::{Entry, Target};

use crate::select::copy_plan::{ChunkPart, CopyPlan};
use crate::{NdArray, NdError};

/// Larger items are not examined, in bytes.
const LARGEST_ITEM: usize = 4096;

/// The value of all items of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uniform {
    /// All bytes are 0.
    Zeros,
    /// The bytes of one item.
    Item(Vec<u8>),
}

impl Uniform {
    /// Returns the value of all items of the array, if the first entry of the index covers them
    /// all.
    pub(crate) fn of_all(array: &NdArray) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        if frame.nchunks() == 0 {
            return Ok(None);
        }
        match frame.chunk(0).run()? {
            // The last chunk may be shorter than the others, so it is checked too.
            (Entry::Special(_), run) if run.end == frame.nchunks() => {
                Self::of_entry(array, run.end - 1)?;
                Self::of_entry(array, 0)
            }
            _ => Ok(None),
        }
    }

    /// Returns the value of all items of a chunk, if the index determines it.
    pub(crate) fn of_entry(array: &NdArray, nchunk: usize) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        match frame.chunk(nchunk).entry()? {
            Entry::Stored(_) => Ok(None),
            // A fast path for zeros, since there may be very many such chunks.
            Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) if !frame.dparams().has_postfilter() => {
                let nbytes = frame.chunk(nchunk).nbytes()?;
                frame.dparams().limits.check_chunk(nbytes)?;
                array.check_chunk(nchunk, usize::try_from(nbytes).unwrap_or(usize::MAX))?;
                Ok(Some(Self::Zeros))
            }
            Entry::Special(_) => {
                let chunk = frame.chunk(nchunk).read()?;
                array.check_chunk(nchunk, chunk.nbytes())?;
                Ok(Self::of_stored(array, &chunk))
            }
        }
    }

    /// Returns the value of all items of a chunk, if its header determines it.
    fn of_stored(array: &NdArray, chunk: &Chunk) -> Option<Self> {
        let dparams = array.super_chunk().dparams();
        Self::of_header(array, chunk.header(), |itemsize| {
            chunk.get_bytes(0..itemsize.min(chunk.nbytes()), dparams).ok()
        })
    }

    /// Returns the value of all items of a chunk whose head has been read, if its header determines
    /// it.
    pub(crate) fn of_chunk(array: &NdArray, chunk: &LazyChunk) -> Result<Option<Self>, NdError> {
        let dparams = array.super_chunk().dparams();
        let mut decoder = chunk.decoder(dparams)?;
        Ok(Self::of_header(array, chunk.header(), |itemsize| {
            let mut item = memory::zeroed(itemsize).ok()?;
            // A special chunk stores no data for its blocks.
            let first = chunk.block_range(0).len() >= itemsize;
            (first && decoder.decode_part(0, &[], None, 0..itemsize, &mut item).is_ok()).then_some(item)
        }))
    }

    fn of_header(
        array: &NdArray,
        header: &ChunkHeader,
        item: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let itemsize = array.itemsize();
        if array.super_chunk().dparams().has_postfilter() {
            return None;
        }
        let width = match header.special()? {
            SpecialKind::Zeros | SpecialKind::Uninit => return Some(Self::Zeros),
            SpecialKind::NaN => header.itemsize(),
            SpecialKind::Value => header.cbytes().checked_sub(header.header_len())?,
        };
        // The item must be a whole number of repeated values, so that the item order does not
        // matter.
        if width == 0 || itemsize > LARGEST_ITEM || !itemsize.is_multiple_of(width) {
            return None;
        }
        item(itemsize).map(Self::Item)
    }

    /// Fills `dst` with the bytes `item` of each item.
    pub(crate) fn fill(&self, item: &Range<usize>, dst: &mut [u8]) {
        match self {
            Self::Zeros => dst.fill(0),
            Self::Item(bytes) => b2_chunk::fill(dst, bytes.get(item.clone()).unwrap_or_default(), 0),
        }
    }

    /// Fills the places of a part. Returns their size in bytes.
    pub(crate) fn fill_part(
        &self,
        (moves, part): (&dyn CopyPlan, &ChunkPart),
        dst: &mut impl Target,
    ) -> usize {
        let (mut nbytes, item) = (0, moves.item());
        for &nblock in &part.nblocks {
            moves.visit(part, nblock, &mut |step| {
                let Some(loops) = step.to_buffer() else { return };
                nbytes += loops.wanted();
                match self {
                    Self::Zeros => loops.fill(0, dst),
                    Self::Item(_) => {
                        let row = loops.row();
                        loops.each_row(|_, to| self.fill(&item, dst.place(to, row)));
                    }
                }
            });
        }
        nbytes
    }
}
