//! Buffers that a thread reuses from chunk to chunk.

use std::cell::RefCell;

use b2_core::memory::{OutOfMemory, sized};

/// Most streams that are passed to a filter as separate planes.
pub(crate) const MAX_PLANES: usize = 16;

/// Padding between planes, in bytes. Without it, planes a power of two apart would compete for the same cache sets.
const GAP: usize = 192;

/// Larger buffers are freed after use, in bytes.
const LARGEST_KEPT: usize = 8 << 20;

/// Buffers for one block each. Their contents are unspecified, except for [`Planes`].
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) planes: Planes,
    pub(crate) a: Vec<u8>,
    pub(crate) b: Vec<u8>,
    pub(crate) block: Vec<u8>,
    pub(crate) plain: Vec<u8>,
    first: Vec<u8>,
}

thread_local! {
    /// The scratch last used on this thread. Mapping fresh memory page by page takes longer than decoding a block
    /// into it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    /// Takes the scratch of this thread, or an empty one if it is in use.
    pub(crate) fn take() -> Self {
        SCRATCH.try_with(RefCell::take).unwrap_or_default()
    }

    /// Adds `block` as buffer if there is none yet.
    pub(crate) fn with_block(mut self, block: Vec<u8>) -> Self {
        if self.block.is_empty() {
            self.block = block;
        }
        self
    }

    /// Takes the buffer for the first block alone. The rest of the scratch stays for the encoders of this thread.
    pub(crate) fn take_first() -> Vec<u8> {
        SCRATCH.try_with(|kept| std::mem::take(&mut kept.borrow_mut().first)).unwrap_or_default()
    }

    /// Returns the buffer for the first block to its thread.
    pub(crate) fn keep_first(first: Vec<u8>) {
        if first.len() <= LARGEST_KEPT {
            let _ = SCRATCH.try_with(|kept| kept.borrow_mut().first = first);
        }
    }

    /// Returns the scratch to its thread.
    pub(crate) fn keep(self) {
        if [&self.planes.bytes, &self.a, &self.b, &self.block, &self.plain]
            .iter()
            .all(|b| b.len() <= LARGEST_KEPT)
        {
            // During thread exit the thread-local may already be gone.
            let _ = SCRATCH.try_with(|kept| kept.replace(self));
        }
    }
}

/// Buffers for the planes of one block. They remember which planes hold a single byte value, so that constant planes
/// are filled once rather than for every block.
#[derive(Default)]
pub(crate) struct Planes {
    bytes: Vec<u8>,
    len: usize,
    runs: [Option<u8>; MAX_PLANES],
}

impl Planes {
    /// Allocates `count` planes, at most [`MAX_PLANES`], of `len` bytes.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn prepare(&mut self, count: usize, len: usize) -> Result<(), OutOfMemory> {
        let need = count * stride(len);
        if self.len != len || self.bytes.len() < need {
            (self.len, self.runs) = (len, Default::default());
        }
        sized(&mut self.bytes, need).map(|_| ())
    }

    /// Returns plane `j` for writing.
    pub(crate) fn plane_mut(&mut self, j: usize) -> &mut [u8] {
        self.runs[j] = None;
        &mut self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Fills plane `j` with one byte value.
    pub(crate) fn fill(&mut self, j: usize, value: u8) {
        if self.runs[j] != Some(value) {
            self.plane_mut(j).fill(value);
            self.runs[j] = Some(value);
        }
    }

    /// Returns plane `j`.
    pub(crate) fn plane(&self, j: usize) -> &[u8] {
        &self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Returns whether all bytes of plane `j` are known to be `value`.
    pub(crate) fn holds(&self, j: usize, value: u8) -> bool {
        self.runs[j] == Some(value)
    }
}

fn stride(len: usize) -> usize {
    len.next_multiple_of(64) + GAP
}
