//! Decodes one block in the thread's cache, as far as needed, and copies its selected items to the
//! result.

use std::cell::RefCell;
use std::ops::Range;

use b2_chunk::{BlockDecoder, BlockParts, DParams, LazyChunk, SpecialKind};
use b2_core::Limits;
use b2_core::memory::sized;
use b2_frame::Target;

use crate::NdError;
use crate::select::copy::StridedCopy;
use crate::select::copy_plan::{ChunkPart, CopyPlan};

/// Rows of at least this many bytes are written straight to their places.
const LONG_ROW: usize = 1024;
/// Items of a box are copied one by one if at most one in this many bytes is selected.
const SPARSE: usize = 8;
/// Items in no order are copied one by one if there is at most one in this many bytes. Finding the bytes of an item
/// takes about as long as undoing a shuffle for this many.
const FAR_APART: usize = 256;

thread_local! {
    /// The buffer for a block, kept between reads: mapping fresh memory takes longer than decoding
    /// into it.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are not kept, in bytes.
const MAX_CACHED_LEN: usize = 8 << 20;

/// Decodes blocks of one chunk on one thread.
pub struct BlockCopier<'a> {
    chunk: &'a LazyChunk,
    decoder: BlockDecoder<'a>,
    limits: &'a Limits,
    /// Memory that decoding a whole block needs, in bytes.
    decoding: u64,
    /// Memory that decoding a part of a block needs, in bytes.
    in_part: u64,
    block0: Option<&'a [u8]>,
    plain: Vec<u8>,
    /// Size of a block in bytes.
    size: usize,
    streaming: bool,
    /// For a chunk whose blocks are all equal: whether `plain` already holds one of them.
    filled: Option<bool>,
}

impl std::fmt::Debug for BlockCopier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCopier").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

impl<'a> BlockCopier<'a> {
    /// `block0` is the decoded block 0, if the other blocks refer to it. `streaming` is whether
    /// the result exceeds the caches.
    pub(crate) fn new(
        chunk: &'a LazyChunk,
        dparams: &'a DParams,
        block0: Option<&'a [u8]>,
        streaming: bool,
    ) -> Result<Self, NdError> {
        let (header, size) = (chunk.header(), chunk.blocksize());
        let width = match header.special() {
            Some(SpecialKind::Value) => header.cbytes().saturating_sub(header.header_len()).max(1),
            Some(SpecialKind::NaN) => header.itemsize(),
            _ => 0,
        };
        let alike = width > 0 && size.is_multiple_of(width) && !dparams.has_postfilter();
        let filled = alike.then_some(false);
        let decoder = chunk.decoder(dparams)?;
        let (decoding, in_part) = (chunk.block_memory(), chunk.part_memory());
        let limits = &dparams.limits;
        Ok(Self {
            chunk,
            decoder,
            limits,
            decoding,
            in_part,
            block0,
            plain: PLAIN.take(),
            size,
            streaming,
            filled,
        })
    }

    /// Copies the selected items of a block. Returns their size in bytes.
    pub(crate) fn copy(
        &mut self,
        (moves, part): (&dyn CopyPlan, &ChunkPart),
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, NdError> {
        let SelectedBytes { wanted, hull, only } = survey(moves, part, nblock);
        let Self { decoder, limits, decoding, in_part, block0, plain, size, streaming, filled, .. } = self;
        let block0 = block0.filter(|_| nblock > 0);
        let size_of_item = moves.item().len().max(1);
        if filled.is_none()
            && only.is_none()
            && (wanted / size_of_item).saturating_mul(FAR_APART) <= hull.len()
            && decoder.gathers(size_of_item)
            && let Some(parts) = decoder.parts(nblock, stored, hull.clone())?
        {
            limits.check_memory("buffers for a block, in bytes", *decoding)?;
            pick(&parts, (moves, part), nblock, dst)?;
            return Ok(wanted);
        }
        if filled.is_none()
            && let Some(loops) = &only
        {
            if let Some(parts) = decoder.parts(nblock, stored, hull.clone())? {
                // Short rows are assembled in a buffer first.
                let rows = if loops.row() < LONG_ROW { hull.len() as u64 } else { 0 };
                limits.check_memory("buffers for a block, in bytes", decoding.saturating_add(rows))?;
                undo(&parts, loops, hull, plain, *streaming, dst)?;
                return Ok(wanted);
            }
            if let Some((0, to, len)) = loops.contiguous()
                && len == *size
            {
                decoder.decode(nblock, stored, block0, dst.place(to, len))?;
                return Ok(wanted);
            }
        }
        let decoding = if hull.len() < *size { *in_part } else { *decoding };
        limits.check_memory("buffers for a block, in bytes", decoding.saturating_add(hull.len() as u64))?;
        let (hull, have) = match filled {
            Some(filled) => (0..*size, std::mem::replace(filled, true)),
            None => (hull, false),
        };
        let plain = sized(plain, hull.len())?;
        if !have {
            decoder.decode_part(nblock, stored, block0, hull.clone(), plain)?;
        }
        match only {
            Some(loops) => loops.without_first(hull.start).copy(plain, dst),
            None => moves.visit(part, nblock, &mut |step| {
                if let Some((from, to, len)) = step.item() {
                    dst.put(to, &plain[from - hull.start..][..len]);
                } else if let Some(loops) = step.to_buffer() {
                    loops.without_first(hull.start).copy(plain, dst);
                }
            }),
        }
        Ok(wanted)
    }
}

impl BlockCopier<'_> {
    /// Copies the selected items of a block in a chunk whose block size differs from the array's;
    /// only the byte order in the chunk matters. `size` is the size of an array block. Returns the size of the copied items in bytes.
    pub(crate) fn copy_foreign(
        &mut self,
        (moves, part): (&dyn CopyPlan, &ChunkPart),
        nblock: usize,
        size: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<usize, NdError> {
        let bytes = self.chunk.block_range(nblock);
        // From here on, blocks are those of the array.
        let first = part.nblocks.partition_point(|nblock| (nblock + 1) * size <= bytes.start);
        let touched = || part.nblocks[first..].iter().copied().take_while(|nblock| nblock * size < bytes.end);
        let mut hull: Option<Range<usize>> = None;
        for of_array in touched() {
            let start = of_array * size;
            let Range { start: low, end: high } = survey(moves, part, of_array).hull;
            let wanted = (start + low).max(bytes.start)..(start + high).min(bytes.end);
            if wanted.start < wanted.end {
                hull = Some(match hull {
                    Some(hull) => hull.start.min(wanted.start)..hull.end.max(wanted.end),
                    None => wanted,
                });
            }
        }
        let Some(hull) = hull else { return Ok(0) };
        let memory = self.decoding.saturating_add(hull.len() as u64);
        self.limits.check_memory("buffers for a block, in bytes", memory)?;
        let block0 = self.block0.filter(|_| nblock > 0);
        let plain = sized(&mut self.plain, hull.len())?;
        let within = hull.start - bytes.start..hull.end - bytes.start;
        self.decoder.decode_part(nblock, stored, block0, within, plain)?;
        let mut copied = 0;
        for of_array in touched() {
            let start = of_array * size;
            moves.visit(part, of_array, &mut |step| {
                let Some(loops) = step.to_buffer() else { return };
                let source = loops.source();
                if hull.start <= start + source.start && start + source.end <= hull.end {
                    loops.moved(start, hull.start).copy(plain, dst);
                    copied += loops.nbytes();
                    return;
                }
                // Copy the part of each row that lies in this block.
                let row = loops.row();
                loops.each_row(|from, to| {
                    let low = (start + from).max(hull.start);
                    let high = (start + from + row).min(hull.end);
                    if low < high {
                        dst.put(to + low - (start + from), &plain[low - hull.start..high - hull.start]);
                        copied += high - low;
                    }
                });
            });
        }
        Ok(copied)
    }
}

impl Drop for BlockCopier<'_> {
    fn drop(&mut self) {
        let plain = std::mem::take(&mut self.plain);
        if plain.len() <= MAX_CACHED_LEN {
            // While a thread ends, its thread-local storage may already be gone.
            let _ = PLAIN.try_with(|cached| cached.replace(plain));
        }
    }
}

/// The parts of a block that a selection needs.
struct SelectedBytes {
    /// Size of the selected items in bytes.
    wanted: usize,
    /// The range from the first to the last selected byte of the block.
    hull: Range<usize>,
    /// The only box of selected items, if there is just one.
    only: Option<StridedCopy>,
}

fn survey(moves: &dyn CopyPlan, part: &ChunkPart, nblock: usize) -> SelectedBytes {
    let (mut count, mut survey) = (0, SelectedBytes { wanted: 0, hull: 0..0, only: None });
    moves.visit(part, nblock, &mut |step| {
        let (Range { start, end }, wanted) = match step.item() {
            // Loops take some time to build, and are needed for a single item only if it is the only one.
            Some((from, _, len)) if count > 0 => (from..from + len, len),
            _ => {
                let Some(loops) = step.to_buffer() else { return };
                let found = (loops.source(), loops.nbytes());
                survey.only = (count == 0).then_some(loops);
                found
            }
        };
        survey.hull = match count {
            0 => start..end,
            _ => survey.hull.start.min(start)..survey.hull.end.max(end),
        };
        count += 1;
        survey.wanted += wanted;
    });
    if count > 1 {
        survey.only = None;
    }
    survey
}

/// Copies widely spaced items of a block whose last filter is not undone yet. Undoing it for these items only takes
/// less time than for all between them.
fn pick(
    parts: &BlockParts<'_>,
    (moves, part): (&dyn CopyPlan, &ChunkPart),
    nblock: usize,
    dst: &mut impl Target,
) -> Result<(), NdError> {
    let mut result = Ok(());
    let mut copy = |from: usize, to, len: usize| {
        if result.is_ok() {
            let place = dst.place(to, len);
            if !parts.gather(from, len, len, place) {
                result = parts.copy(from..from + len, place, false);
            }
        }
    };
    moves.visit(part, nblock, &mut |step| {
        if let Some((from, to, len)) = step.item() {
            copy(from, to, len);
        } else if let Some(loops) = step.to_buffer() {
            let row = loops.row();
            loops.each_row(|from, to| copy(from, to, row));
        }
    });
    Ok(result?)
}

/// Copies a box from a block whose last filter is not undone yet, and undoes the filter only where
/// needed.
fn undo(
    parts: &BlockParts<'_>,
    loops: &StridedCopy,
    hull: Range<usize>,
    scratch: &mut Vec<u8>,
    streaming: bool,
    dst: &mut impl Target,
) -> Result<(), NdError> {
    if let Some(plain) = parts.plain() {
        loops.copy(plain, dst);
        return Ok(());
    }
    let row = loops.row();
    let mut result = Ok(());
    if row >= LONG_ROW {
        loops.each_row(|from, to| {
            if result.is_ok() {
                result = parts.copy(from..from + row, dst.place(to, row), streaming);
            }
        });
        return Ok(result?);
    }
    if loops.nbytes().saturating_mul(SPARSE) <= hull.len() && loops.gathers() {
        let (mut gathered, mut len) = (true, 0);
        loops.each_run(|from, step, count, to| {
            if gathered {
                len += count * row;
                gathered = parts.gather(from, step, row, dst.place(to, count * row));
            }
        });
        if gathered {
            return Ok(());
        }
        dst.forget(len);
    }
    // Go piece by piece along the outermost loop, as long as the pieces do not overlap.
    let scratch = sized(scratch, hull.len())?;
    for piece in loops.pieces() {
        let source = piece.source();
        let plain = &mut scratch[..source.len()];
        parts.copy(source.clone(), plain, false)?;
        piece.without_first(source.start).copy(plain, dst);
    }
    Ok(())
}
