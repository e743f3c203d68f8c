//! Blocks of which all streams are runs: a few bytes that stand for a block of any length. They are filled in
//! directly, in no memory but the result's.

use b2_filters::FilterId;

use super::{Block, BlockDecoder};
use crate::ChunkError;
use crate::layout::Body;
use crate::streams::Stream;

/// Streams of a block, at most: one for each byte of an item.
const MAX_STREAMS: usize = 255;

/// What a block repeats.
pub(super) struct Repeated {
    bytes: [u8; MAX_STREAMS],
    len: usize,
}

impl Repeated {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl BlockDecoder<'_> {
    /// Whether a block of `len` plain bytes repeats what its streams tell at once: no codec has a say in it.
    pub(crate) fn is_repeated(&self, nblock: usize, stored: &[u8], len: usize) -> Result<bool, ChunkError> {
        match self.layout.body {
            Body::Blocks { .. } => Ok(self.repeated(&self.block(nblock, stored, len)?).is_some()),
            _ => Ok(false),
        }
    }

    /// What the plain bytes of a block repeat, from its first byte on, if its streams tell that at once.
    pub(super) fn repeated(&self, block: &Block<'_>) -> Option<Repeated> {
        let mut streams = block.streams.clone();
        let mut repeated = Repeated { bytes: [0; MAX_STREAMS], len: block.nstreams };
        for byte in repeated.bytes.get_mut(..block.nstreams)? {
            let Ok(Stream::Run(value)) = streams.next() else { return None };
            *byte = value;
        }
        let (first, others) = repeated.bytes().split_first()?;
        let constant = others.iter().all(|byte| byte == first);
        let zeros = constant && *first == 0;
        let whole = block.nstreams.checked_mul(block.stream_len)?;
        let known = match self.filters.as_slice() {
            [] => constant,
            [(filter, meta)] if filter.id() == FilterId::SHUFFLE => {
                // Each stream is one byte of the item, or the order of bytes does not matter.
                constant || filter.planes(&self.context(None, false), *meta, whole) == Some(block.nstreams)
            }
            filters => {
                let keeps_zeros = |id| id == FilterId::SHUFFLE || id == FilterId::BITSHUFFLE;
                zeros && filters.iter().all(|(filter, _)| keeps_zeros(filter.id()))
            }
        };
        known.then_some(repeated)
    }
}
