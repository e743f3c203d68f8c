//! Buffers for results.

use b2_core::memory;

use crate::NdError;

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
