//! Allocates results, and limits the output that reading an array may cost.

use b2_core::{LimitExceeded, memory};

use crate::read::selected::ConstantValue;
use crate::{NdArray, NdError};

/// Up to this many chunks, the work per chunk is negligible and not counted.
const FEW_CHUNKS: usize = 1 << 16;
/// A special chunk costs as much work as filling this many bytes, however small it is.
const SPECIAL_WORK: u64 = 512;
/// A chunk that shares the stored bytes of another is decoded again, which costs as much work as
/// filling this many bytes.
const SHARED_WORK: u64 = 16 << 10;

/// The costs of a read that count against the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// The bytes of its result.
    Output,
    /// Also a minimum of bytes for each chunk without stored data, because each costs some work.
    OutputAndWork,
}

impl NdArray {
    /// Fails if the data expand to more than [`max_output`](b2_core::Limits::max_output) bytes that the file
    /// does not store.
    ///
    /// Special chunks (such as runs of zeros) and chunks that share stored bytes let a tiny file
    /// expand to any size. Call this before expanding all of an untrusted array. It decodes no
    /// data, and if all data together are below the limit it reads only the header.
    ///
    /// # Errors
    /// [`NdError::Limit`] when the data exceed the limit; [`NdError::Frame`] when the index or chunk sizes cannot be
    /// read, as for [`SuperChunk::unstored`](b2_frame::SuperChunk::unstored).
    pub fn check_output(&self) -> Result<(), NdError> {
        // Padding counts, since it is decoded too.
        let nbytes = self.super_chunk().nbytes().max(self.nbytes());
        let many = self.super_chunk().nchunks() > FEW_CHUNKS && ConstantValue::of_all(self)?.is_none();
        self.check(nbytes, if many { Cost::OutputAndWork } else { Cost::Output })
    }

    /// Like [`check_output`](Self::check_output), for a result of `nbytes`, before it
    /// is allocated.
    #[doc(hidden)]
    pub fn check_result(&self, nbytes: u64) -> Result<(), NdError> {
        self.check(nbytes, Cost::Output)
    }

    fn check(&self, nbytes: u64, cost: Cost) -> Result<(), NdError> {
        let limit = self.super_chunk().dparams().limits.max_output;
        if nbytes <= limit && cost == Cost::Output {
            return Ok(());
        }
        let unstored = self.super_chunk().unstored(0..self.super_chunk().nchunks(), limit)?;
        // The padding of special chunks is never produced.
        let special = unstored.special.min(self.nbytes());
        let mut asked = special.saturating_add(unstored.stored).min(nbytes);
        if cost == Cost::OutputAndWork {
            let work = unstored.special_chunks.saturating_mul(SPECIAL_WORK);
            asked = asked.max(work).saturating_add(unstored.shared_chunks.saturating_mul(SHARED_WORK));
        }
        Ok(LimitExceeded::check("bytes of zeros and repeated values", asked, "max_output", limit)?)
    }
}

/// Allocates a zeroed buffer. Running out of memory is an error, not an abort.
pub(crate) fn buffer(nbytes: u64) -> Result<Vec<u8>, NdError> {
    let too_large = || NdError::TooLarge { asked: nbytes };
    let len = usize::try_from(nbytes).map_err(|_| too_large())?;
    memory::zeroed(len).map_err(|_| too_large())
}

pub(crate) fn check_len(have: usize, need: u64) -> Result<(), NdError> {
    match have as u64 == need {
        true => Ok(()),
        false => Err(NdError::BufferLength { have, need: usize::try_from(need).unwrap_or(usize::MAX) }),
    }
}
