//! Shared by all encoders: the limits of the format, and unaligned reads.
//!
//! Encoders work on a window: the dictionary, if any, followed by the stream.

/// Length of the shortest match.
pub(super) const MIN_MATCH: usize = 4;
/// A block ends with at least this many literals. Decoders in C rely on it.
pub(super) const LAST_LITERALS: usize = 5;
/// Distances are below this.
pub(super) const FAR: u32 = 1 << 16;

#[inline(always)]
pub(super) fn read_u64(window: &[u8], pos: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[pos..][..8]);
    u64::from_le_bytes(bytes)
}
