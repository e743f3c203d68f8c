//! How items are stored.

/// How items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// Filter 32026: unchanged chunks of the array, each in a separate frame. Readers need a filter for Blosc2.
    Blosc2,
    /// Shuffle and gzip of this level (0 to 9), which every reader has.
    Gzip(u8),
    /// Chunks without compression.
    None,
}
