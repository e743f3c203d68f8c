//! Remembers what has been compared with checksums since a frame was opened, so that reading the same
//! again costs nothing more.

use std::sync::{Arc, OnceLock};

use crate::format::runs::Runs;

/// Number of chunks whose states are allocated together.
const SLOTS_PER_GROUP: usize = 64;

type Slots = Box<[OnceLock<VerifiedChunk>; SLOTS_PER_GROUP]>;

/// What has been compared in each chunk of a frame.
#[derive(Debug, Default)]
pub(crate) struct VerifiedChunks(OnceLock<Box<[OnceLock<Slots>]>>);

/// What has been compared in a chunk.
#[derive(Clone, Debug)]
pub(crate) enum VerifiedChunk {
    /// All of it.
    Whole,
    /// The head, and some runs.
    Runs(Arc<Runs>),
}

impl VerifiedChunk {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Whole => true,
            Self::Runs(runs) => runs.all_compared(),
        }
    }
}

impl VerifiedChunks {
    pub(crate) fn get(&self, nchunk: usize) -> Option<&VerifiedChunk> {
        self.0.get()?.get(nchunk / SLOTS_PER_GROUP)?.get()?.get(nchunk % SLOTS_PER_GROUP)?.get()
    }

    /// Remembers that a chunk of a frame with `nchunks` chunks was compared. If there is no memory for that, the chunk
    /// will be compared again.
    pub(crate) fn put(&self, nchunk: usize, nchunks: usize, chunk: VerifiedChunk) {
        let groups = self.0.get_or_init(|| {
            let mut groups = b2_core::memory::list(nchunks.div_ceil(SLOTS_PER_GROUP)).unwrap_or_default();
            if groups.capacity() > 0 {
                groups.resize_with(nchunks.div_ceil(SLOTS_PER_GROUP), OnceLock::new);
            }
            groups.into()
        });
        let Some(slots) = groups.get(nchunk / SLOTS_PER_GROUP) else { return };
        let slots = slots.get_or_init(|| Box::new([const { OnceLock::new() }; SLOTS_PER_GROUP]));
        let Some(slot) = slots.get(nchunk % SLOTS_PER_GROUP) else { return };
        match (slot.get(), chunk) {
            (None, chunk) => drop(slot.set(chunk)),
            (Some(VerifiedChunk::Runs(runs)), VerifiedChunk::Whole) => runs.mark_all(),
            (Some(_), _) => {}
        }
    }
}
