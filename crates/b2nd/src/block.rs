//! One block on its way into a result: decoded as far as it takes, in the cache of its thread.

use std::cell::RefCell;
use std::ops::Range;

use b2_chunk::memory::sized;
use b2_chunk::{BlockDecoder, BlockParts, DParams, Limits, SpecialKind};
use b2_frame::BlockReader;

use crate::NdError;
use crate::copy::{Loops, Target};
use crate::moves::Part;

/// Rows from this length on are written straight to their places, in bytes.
const LONG_ROW: usize = 1024;
/// Items are picked one by one when at most one of this many is wanted.
const SPARSE: usize = 8;

thread_local! {
    /// A block, kept from one read to the next: mapping fresh memory takes longer than decoding into it.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Largest block that is kept, in bytes.
const LARGEST_KEPT: usize = 8 << 20;

/// Decodes blocks of one chunk: the scratch of one thread.
pub(crate) struct Worker<'a> {
    decoder: BlockDecoder<'a>,
    limits: &'a Limits,
    /// What the decoder takes for a block, in bytes.
    decoding: u64,
    /// The same for a part of one.
    in_part: u64,
    block0: Option<&'a [u8]>,
    plain: Vec<u8>,
    /// Of a block, in bytes.
    size: usize,
    streaming: bool,
    /// For chunks whose blocks are all equal: whether `plain` holds one.
    filled: Option<bool>,
}

impl<'a> Worker<'a> {
    /// `block0`: the decoded block 0 if the others refer to it. `streaming`: whether the result is larger than the
    /// caches.
    pub(crate) fn new(
        reader: &'a BlockReader,
        dparams: &'a DParams,
        block0: Option<&'a [u8]>,
        streaming: bool,
    ) -> Result<Self, NdError> {
        let (header, size) = (reader.chunk().header(), reader.chunk().blocksize());
        let width = match header.special() {
            Some(SpecialKind::Value) => header.cbytes().saturating_sub(header.header_len()).max(1),
            Some(SpecialKind::NaN) => header.typesize(),
            _ => 0,
        };
        let alike = width > 0 && size.is_multiple_of(width) && !dparams.has_postfilter();
        let filled = alike.then_some(false);
        let decoder = reader.chunk().decoder(dparams)?;
        let (decoding, in_part) = (reader.chunk().block_memory(), reader.chunk().part_memory());
        let limits = &dparams.limits;
        Ok(Self { decoder, limits, decoding, in_part, block0, plain: PLAIN.take(), size, streaming, filled })
    }

    /// Copies the items that are wanted of a block.
    pub(crate) fn copy(
        &mut self,
        part: &Part<'_>,
        nblock: usize,
        stored: &[u8],
        dst: &mut impl Target,
    ) -> Result<(), NdError> {
        let Survey { hull, only } = survey(part, nblock);
        let Self { decoder, limits, decoding, in_part, block0, plain, size, streaming, filled } = self;
        let block0 = block0.filter(|_| nblock > 0);
        if filled.is_none()
            && let Some(loops) = &only
        {
            if let Some(parts) = decoder.parts(nblock, stored, hull.clone())? {
                // Rows that are put together first.
                let rows = if loops.row() < LONG_ROW { hull.len() as u64 } else { 0 };
                limits.check_memory("buffers for a block, in bytes", decoding.saturating_add(rows))?;
                return undo(&parts, loops, hull, plain, *streaming, dst);
            }
            if let Some((0, to, len)) = loops.contiguous()
                && len == *size
            {
                return Ok(decoder.decode(nblock, stored, block0, dst.place(to, len))?);
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
            None => (part.moves)(nblock, &mut |step| {
                if let Some(loops) = step.to_buffer() {
                    loops.without_first(hull.start).copy(plain, dst);
                }
            }),
        }
        Ok(())
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let plain = std::mem::take(&mut self.plain);
        if plain.len() <= LARGEST_KEPT {
            // While a thread ends there may be nothing to keep it in any more.
            let _ = PLAIN.try_with(|kept| kept.replace(plain));
        }
    }
}

/// What is wanted of a block.
struct Survey {
    /// Its bytes from the first to the last that is wanted.
    hull: Range<usize>,
    /// If it is all one box.
    only: Option<Loops>,
}

fn survey(part: &Part<'_>, nblock: usize) -> Survey {
    let (mut count, mut survey) = (0, Survey { hull: 0..0, only: None });
    (part.moves)(nblock, &mut |step| {
        let Some(loops) = step.to_buffer() else { return };
        let Range { start, end } = loops.source();
        survey.hull = match count {
            0 => start..end,
            _ => survey.hull.start.min(start)..survey.hull.end.max(end),
        };
        count += 1;
        survey.only = (count == 1).then_some(loops);
    });
    survey
}

/// Copies a box out of a block whose last filter is not undone yet, undoing no more of it than is worth it.
fn undo(
    parts: &BlockParts<'_>,
    loops: &Loops,
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
    if loops.wanted().saturating_mul(SPARSE) <= hull.len() && loops.gathers() {
        let mut gathered = true;
        loops.each_run(|from, step, count, to| {
            gathered = gathered && parts.gather(from, step, row, dst.place(to, count * row));
        });
        if gathered {
            return Ok(());
        }
    }
    // By pieces of the outermost loop, as long as they do not overlap.
    let scratch = sized(scratch, hull.len())?;
    for piece in loops.pieces() {
        let source = piece.source();
        let plain = &mut scratch[..source.len()];
        parts.copy(source.clone(), plain, false)?;
        piece.without_first(source.start).copy(plain, dst);
    }
    Ok(())
}
