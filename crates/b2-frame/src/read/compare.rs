//! Decides which chunks are compared with their checksums when they are read.

use b2_chunk::{ChunkHeader, Plugins};

/// When chunks that have a checksum are compared with it on decoding.
///
/// [`SuperChunk::chunk`](crate::SuperChunk::chunk) compares with every setting but `Never`, and
/// [`SuperChunk::verify_checksums`](crate::SuperChunk::verify_checksums) with every setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compare {
    /// Never compare, not even in [`SuperChunk::chunk`](crate::SuperChunk::chunk). This is for
    /// storage that has its own checksums.
    Never,
    /// Compare chunks that are decoded completely if that adds less than about 5 % to the time:
    /// chunks that shrank to a seventh with lz4 or blosclz, to three sevenths with zstd, or to six
    /// sevenths with zlib.
    #[default]
    WhereCheap,
    /// Compare chunks that are read completely.
    WholeChunks,
    /// Compare all chunks. If only a part of a chunk is needed, the whole chunk is read.
    Always,
}

impl Compare {
    /// Returns whether a chunk is compared when the `whole` or a part of it is decoded.
    pub(crate) fn asks(self, header: &ChunkHeader, whole: bool, plugins: &Plugins) -> bool {
        match self {
            Self::Never => false,
            Self::WhereCheap => whole && is_cheap(header, plugins),
            Self::WholeChunks => whole,
            Self::Always => true,
        }
    }
}

/// Returns whether comparing a chunk is cheap in relation to decoding it. Sums are computed at 25
/// to 35 GB/s and a fast codec decodes about 10 GB/s, so 5 % of its time is enough for a seventh of
/// the bytes.
fn is_cheap(header: &ChunkHeader, plugins: &Plugins) -> bool {
    let (stored, plain) = (header.cbytes() as u64, header.nbytes() as u64);
    stored.saturating_mul(7) <= plain.saturating_mul(plugins.decoding_cost(header))
}
