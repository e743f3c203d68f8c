//! Blocks whose streams are all runs: a few stored bytes expand to a whole block. They are filled directly into the
//! result, without intermediate buffers.

use b2_filters::Effect;

use super::{Block, BlockDecoder};
use crate::ChunkError;
use crate::decode::streams::Stream;
use crate::model::layout::Body;

/// Maximum number of streams per block: one for each byte of an item.
const MAX_STREAMS: usize = 255;

/// The pattern that a block repeats.
pub(super) struct RepeatedPattern {
    bytes: [u8; MAX_STREAMS],
    len: usize,
}

impl RepeatedPattern {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl BlockDecoder<'_> {
    /// Returns whether the streams of a block are runs that make it a repeated pattern, so that no codec is needed.
    pub(crate) fn is_repeated(&self, nblock: usize, stored: &[u8], len: usize) -> Result<bool, ChunkError> {
        match self.layout.body {
            Body::Blocks { .. } => Ok(self.repeated(&self.block(nblock, stored, len)?).is_some()),
            _ => Ok(false),
        }
    }

    /// Returns the pattern that the block repeats from its first byte on, if all its streams are runs.
    pub(super) fn repeated(&self, block: &Block<'_>) -> Option<RepeatedPattern> {
        let mut streams = block.streams.clone();
        let Ok(Stream::Run(_)) = streams.clone().next() else { return None };
        let mut repeated = RepeatedPattern { bytes: [0; MAX_STREAMS], len: block.nstreams };
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
            [filter] if filter.has_byte_planes() => {
                // Either each stream is one byte of the item, or all bytes are equal and their order does not matter.
                let planes = filter.planes_of(whole);
                constant || planes.is_some_and(|planes| planes.count == block.nstreams)
            }
            filters => zeros && filters.iter().all(|filter| filter.effect == Effect::Reorders),
        };
        known.then_some(repeated)
    }
}
