//! What all encoders share: the limits of the format, unaligned reads, lengths of matches.
//!
//! Encoders see a window: the dictionary, if there is one, with the stream right behind it.

/// Shortest match.
pub(super) const MIN_MATCH: usize = 4;
/// The last bytes of a block are literals, this many or more. Decoders in C rely on it.
pub(super) const LAST_LITERALS: usize = 5;
/// Distances are less than this.
pub(super) const FAR: u32 = 1 << 16;

#[inline(always)]
pub(super) fn read_u64(window: &[u8], pos: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[pos..][..8]);
    u64::from_le_bytes(bytes)
}
