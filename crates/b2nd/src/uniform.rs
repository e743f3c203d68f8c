//! Chunks whose items are all equal: nothing is stored for them, and whatever number of chunks or blocks they are
//! said to be, filling the result is all there is to do.

use std::ops::Range;

use b2_chunk::{Chunk, SpecialKind};
use b2_frame::Entry;

use crate::copy::Target;
use crate::moves::Part;
use crate::{NdArray, NdError};

/// Larger items are not looked at, in bytes.
const LARGEST_ITEM: usize = 4096;

/// What all items of a chunk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Uniform {
    /// All bytes are 0.
    Zeros,
    /// The bytes of an item.
    Item(Vec<u8>),
}

impl Uniform {
    /// What all items of the array are, if the index says so at once.
    pub(crate) fn of_all(array: &NdArray) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        if frame.nchunks() == 0 {
            return Ok(None);
        }
        match frame.index().run(0)? {
            // The last chunk may be shorter than the others, and is looked at as well.
            (Entry::Special(_), run) if run.end == frame.nchunks() => {
                Self::of_entry(array, run.end - 1)?;
                Self::of_entry(array, 0)
            }
            _ => Ok(None),
        }
    }

    /// What all items of a chunk are, if the index says so.
    pub(crate) fn of_entry(array: &NdArray, nchunk: usize) -> Result<Option<Self>, NdError> {
        let frame = array.super_chunk();
        match frame.entry(nchunk)? {
            Entry::Stored(_) => Ok(None),
            // Quickly for zeros: there may be very many.
            Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) if !frame.dparams().has_postfilter() => {
                let nbytes = frame.chunk_nbytes(nchunk)?;
                frame.dparams().limits.check_chunk(nbytes)?;
                array.check_chunk(nchunk, usize::try_from(nbytes).unwrap_or(usize::MAX))?;
                Ok(Some(Self::Zeros))
            }
            Entry::Special(_) => {
                let chunk = frame.chunk(nchunk)?;
                array.check_chunk(nchunk, chunk.nbytes())?;
                Ok(Self::of_chunk(array, &chunk))
            }
        }
    }

    /// What all items of a chunk are, if its header says so.
    fn of_chunk(array: &NdArray, chunk: &Chunk) -> Option<Self> {
        let (header, itemsize) = (chunk.header(), array.itemsize());
        let dparams = array.super_chunk().dparams();
        if dparams.has_postfilter() {
            return None;
        }
        let width = match header.special()? {
            SpecialKind::Zeros | SpecialKind::Uninit => return Some(Self::Zeros),
            SpecialKind::NaN => header.typesize(),
            SpecialKind::Value => chunk.cbytes().checked_sub(header.header_len())?,
        };
        // Whole items, so that their order does not matter.
        if width == 0 || itemsize > LARGEST_ITEM || !itemsize.is_multiple_of(width) {
            return None;
        }
        chunk.get_bytes(0..itemsize.min(chunk.nbytes()), dparams).ok().map(Self::Item)
    }

    /// Fills `dst` with these bytes of each item.
    pub(crate) fn fill(&self, item: &Range<usize>, dst: &mut [u8]) {
        match self {
            Self::Zeros => dst.fill(0),
            Self::Item(bytes) => b2_chunk::fill(dst, bytes.get(item.clone()).unwrap_or_default(), 0),
        }
    }

    /// Fills the places of a part.
    pub(crate) fn fill_part(&self, part: &Part<'_>, item: &Range<usize>, dst: &mut impl Target) {
        for &nblock in &part.nblocks {
            (part.moves)(nblock, &mut |step| {
                let Some(loops) = step.to_buffer() else { return };
                match self {
                    Self::Zeros => loops.fill(0, dst),
                    Self::Item(_) => {
                        let row = loops.row();
                        loops.each_row(|_, to| self.fill(item, dst.place(to, row)));
                    }
                }
            });
        }
    }
}
