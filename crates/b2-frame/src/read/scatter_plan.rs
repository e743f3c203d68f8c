//! The result of a read: which bytes of which blocks go where, and the memory that receives them.

use std::ops::Range;

use b2_chunk::{DParams, LazyChunk};
use b2_core::Cancelled;

use crate::{FrameError, SuperChunk};

/// The selected bytes of a frame and their places in a destination, split by chunk and by block.
///
/// Byte ranges and lists of items are `Pieces`; `b2nd` has the selections
/// of arrays.
///
/// # Safety
/// If [`disjoint`](Self::disjoint) returns true, no two blocks, and no two parts, may request from a [`Target`]
/// the same byte: several threads write to one destination then, each for other blocks. If in addition
/// [`nbytes`](Self::nbytes) is the length of the destination, no block may request a byte twice, except
/// after the target was made to [forget](Target::forget) it.
#[allow(unsafe_code)]
pub unsafe trait ScatterPlan: Send + Sync {
    /// The error type.
    type Error: From<FrameError> + From<Cancelled> + Send;
    /// The value of all bytes of a part that hold the same item.
    type Fill: Send;
    /// The selected bytes of one chunk.
    type Part: Send + Sync;
    /// Decodes blocks of one chunk on one thread.
    type Worker<'w>;

    /// Returns the number of bytes to deliver.
    fn nbytes(&self) -> u64;

    /// Returns the number of chunks that hold selected bytes.
    fn nparts(&self) -> u64;

    /// Returns the chunk number of part `npart`.
    fn nchunk(&self, npart: u64) -> usize;

    /// Returns whether no two selected bytes share a place in the destination.
    fn disjoint(&self) -> bool;

    /// Returns how much memory a thread needs to decode blocks of a chunk, in bytes, roughly.
    fn worker_memory(&self) -> u64;

    /// Returns how many bytes have to be decoded, roughly.
    ///
    /// # Errors
    /// When the index is damaged, or there is not enough memory.
    fn decode_cost(&self) -> Result<u64, Self::Error>;

    /// Returns the value of a part, which belongs to chunk `nchunk`, if the index alone determines it. Then nothing has
    /// to be read.
    ///
    /// # Errors
    /// When the index is damaged, or a limit is exceeded.
    fn constant(&self, npart: u64, nchunk: usize) -> Result<Option<Self::Fill>, Self::Error>;

    /// Returns the blocks of a part that will probably be needed, as ranges in ascending order. May be
    /// empty.
    ///
    /// # Errors
    /// When there is not enough memory.
    fn expected_blocks(&self, npart: u64) -> Result<Vec<Range<usize>>, Self::Error>;

    /// Decides how to handle part `npart` of chunk `nchunk`, after the head of the chunk has been read and compared.
    ///
    /// # Errors
    /// When the chunk contradicts the frame, or a limit is exceeded.
    fn resolve(
        &self,
        part: (u64, usize),
        chunk: &LazyChunk,
    ) -> Result<ResolvedPart<Self::Fill, Self::Part>, Self::Error>;

    /// Returns the numbers of the blocks that hold the bytes of a part, in ascending order.
    fn nblocks<'p>(&'p self, part: &'p Self::Part) -> &'p [usize];

    /// Fills the places of a part. Returns their size in bytes.
    fn fill(&self, fill: &Self::Fill, dst: &mut impl Target) -> usize;

    /// Creates a decoder for blocks of a part on one thread. `block0` is the decoded block 0, if other blocks refer to
    /// it; `streaming` is whether the destination exceeds the caches.
    ///
    /// # Errors
    /// When the chunk cannot be decoded.
    fn worker<'w>(
        &self,
        part: &Self::Part,
        chunk: &'w LazyChunk,
        dparams: &'w DParams,
        block0: Option<&'w [u8]>,
        streaming: bool,
    ) -> Result<Self::Worker<'w>, Self::Error>;

    /// Decodes a block from its stored bytes and copies its selected bytes to their places. Returns
    /// their number, for progress.
    ///
    /// # Errors
    /// When the block does not decode, or a limit is exceeded.
    fn copy(
        &self,
        worker: &mut Self::Worker<'_>,
        part: &Self::Part,
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, Self::Error>;
}

/// How to handle a part.
#[derive(Clone, Copy, Debug)]
pub enum ResolvedPart<F, P> {
    /// All its items are equal; nothing more has to be read.
    Fill(F),
    /// Blocks have to be read and decoded.
    Blocks(P),
}

/// The shared state of all parts of a read.
pub(crate) struct ReadContext<'a, P> {
    pub(crate) frame: &'a SuperChunk,
    pub(crate) places: &'a P,
    /// Whether the destination exceeds the caches.
    pub(crate) streaming: bool,
}

/// Memory that decoded bytes are written to: a slice, or a buffer that several threads fill.
pub trait Target {
    /// Returns the bytes `at..at + len`, which the caller must overwrite completely; their old
    /// content is arbitrary. Panics if the range is out of bounds.
    fn place(&mut self, at: usize, len: usize) -> &mut [u8];

    /// Writes `bytes` at offset `at`.
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.place(at, bytes.len()).copy_from_slice(bytes);
    }

    /// Copies rows of `src`. Panics if a row is out of bounds.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "documented: rows out of bounds panic"
    )]
    fn put_rows(&mut self, rows: RowCopy, src: &[u8]) {
        let RowCopy { len, count, mut from, from_step, mut to, to_step } = rows;
        for _ in 0..count {
            self.put(to, &src[from..from + len]);
            (from, to) = (from + from_step, to + to_step);
        }
    }

    /// Sets the bytes `at..at + len` to `byte`.
    #[inline]
    fn fill(&mut self, at: usize, len: usize, byte: u8) {
        self.place(at, len).fill(byte);
    }

    /// Takes back `len` bytes of the places handed out so far: the caller did not write them and
    /// will request them again.
    fn forget(&mut self, len: usize) {
        let _ = len;
    }
}

/// Rows at equal distances in a source and in a target, all numbers in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RowCopy {
    /// The length of a row.
    pub len: usize,
    /// The number of rows.
    pub count: usize,
    /// The offset of the first row in the source.
    pub from: usize,
    /// The distance between the starts of two rows in the source.
    pub from_step: usize,
    /// The offset of the first row in the target.
    pub to: usize,
    /// The distance between the starts of two rows in the target.
    pub to_step: usize,
}

impl Target for [u8] {
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "documented: places out of bounds panic"
    )]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self[at..at + len]
    }
}
