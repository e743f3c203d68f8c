//! Remembers what has been compared with checksums since a frame was opened, so that reading the same
//! again costs nothing more.

use std::sync::{Arc, OnceLock};

use crate::format::runs::Runs;

/// Number of chunks whose states are allocated together.
const TOGETHER: usize = 64;

type Slots = Box<[OnceLock<ComparedChunk>; TOGETHER]>;

/// What has been compared in each chunk of a frame.
#[derive(Debug, Default)]
pub(crate) struct Compared(OnceLock<Box<[OnceLock<Slots>]>>);

/// What has been compared in a chunk.
#[derive(Clone, Debug)]
pub(crate) enum ComparedChunk {
    /// All of it.
    Whole,
    /// The head, and some runs.
    Runs(Arc<Runs>),
}

impl ComparedChunk {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::Whole => true,
            Self::Runs(runs) => runs.all_compared(),
        }
    }
}

impl Compared {
    pub(crate) fn get(&self, nchunk: usize) -> Option<&ComparedChunk> {
        self.0.get()?.get(nchunk / TOGETHER)?.get()?.get(nchunk % TOGETHER)?.get()
    }

    /// Remembers that a chunk of a frame with `nchunks` chunks was compared. If there is no memory for that, the chunk
    /// will be compared again.
    pub(crate) fn put(&self, nchunk: usize, nchunks: usize, chunk: ComparedChunk) {
        let groups = self.0.get_or_init(|| {
            let mut groups = b2_core::memory::list(nchunks.div_ceil(TOGETHER)).unwrap_or_default();
            if groups.capacity() > 0 {
                groups.resize_with(nchunks.div_ceil(TOGETHER), OnceLock::new);
            }
            groups.into()
        });
        let Some(slots) = groups.get(nchunk / TOGETHER) else { return };
        let slots = slots.get_or_init(|| Box::new([const { OnceLock::new() }; TOGETHER]));
        let Some(slot) = slots.get(nchunk % TOGETHER) else { return };
        match (slot.get(), chunk) {
            (None, chunk) => drop(slot.set(chunk)),
            (Some(ComparedChunk::Runs(runs)), ComparedChunk::Whole) => runs.mark_all(),
            (Some(_), _) => {}
        }
    }
}
