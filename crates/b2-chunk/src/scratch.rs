//! Memory that a thread keeps from chunk to chunk.

use std::cell::RefCell;

use crate::memory::{OutOfMemory, sized};

/// Streams that are given to a filter as planes, at most.
pub(crate) const MAX_PLANES: usize = 16;

/// Distance of planes beyond their length, in bytes: planes a power of two apart would share few cache lines' places.
const GAP: usize = 192;

/// Largest buffer that outlives its use, in bytes.
const LARGEST_KEPT: usize = 8 << 20;

/// Buffers for one block each. What they hold is arbitrary, but for [`Planes`].
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) planes: Planes,
    pub(crate) a: Vec<u8>,
    pub(crate) b: Vec<u8>,
    pub(crate) block: Vec<u8>,
}

thread_local! {
    /// Scratch of the last use on this thread. Mapping fresh memory page by page takes longer than decoding a block
    /// of it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    /// The scratch of this thread, or an empty one while it is in use.
    pub(crate) fn take() -> Self {
        SCRATCH.try_with(RefCell::take).unwrap_or_default()
    }

    /// With this buffer, if it had none.
    pub(crate) fn with_block(mut self, block: Vec<u8>) -> Self {
        if self.block.is_empty() {
            self.block = block;
        }
        self
    }

    /// Gives it back to the thread.
    pub(crate) fn keep(self) {
        if [&self.planes.bytes, &self.a, &self.b, &self.block].iter().all(|b| b.len() <= LARGEST_KEPT) {
            // While a thread ends there may be nothing to keep it in any more.
            let _ = SCRATCH.try_with(|kept| kept.replace(self));
        }
    }
}

/// Places for the planes of one block. It remembers which of them hold one byte value all over, so that constant
/// planes are filled once, not for each block.
#[derive(Default)]
pub(crate) struct Planes {
    bytes: Vec<u8>,
    len: usize,
    runs: [Option<u8>; MAX_PLANES],
}

impl Planes {
    /// Makes room for `count` planes of `len` bytes, at most [`MAX_PLANES`].
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn prepare(&mut self, count: usize, len: usize) -> Result<(), OutOfMemory> {
        let need = count * stride(len);
        if self.len != len || self.bytes.len() < need {
            (self.len, self.runs) = (len, Default::default());
        }
        sized(&mut self.bytes, need).map(|_| ())
    }

    /// Plane `j`, to be written.
    pub(crate) fn plane_mut(&mut self, j: usize) -> &mut [u8] {
        self.runs[j] = None;
        &mut self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Fills plane `j` with one value.
    pub(crate) fn fill(&mut self, j: usize, value: u8) {
        if self.runs[j] != Some(value) {
            self.plane_mut(j).fill(value);
            self.runs[j] = Some(value);
        }
    }

    /// Plane `j`.
    pub(crate) fn plane(&self, j: usize) -> &[u8] {
        &self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Whether plane `j` holds `value` all over.
    pub(crate) fn holds(&self, j: usize, value: u8) -> bool {
        self.runs[j] == Some(value)
    }
}

fn stride(len: usize) -> usize {
    len.next_multiple_of(64) + GAP
}
