//! Constants of the format, and code shared by its decoders.

use crate::{CodecError, CodecId};

/// Longest literal run of a token.
pub(super) const LITERAL_MAX: usize = 32;
/// Distances from here on take two more bytes.
pub(super) const FAR_BASE: usize = 8192;

#[cold]
pub(super) fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::BLOSCLZ, offset, what }
}

/// Returns the `N` bytes at `at`, if they are inside `bytes`.
#[inline(always)]
pub(super) fn read_array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}
