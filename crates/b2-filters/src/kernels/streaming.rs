//! Stores that bypass the caches.
//!
//! A normal store to memory outside the caches first reads the cache line and evicts another one. A streaming store
//! does neither, but is only efficient for whole lines. Neither items nor destinations are aligned to lines. So pieces
//! are assembled in a buffer that stays in the first-level cache, and copied from there line by line.

use super::bounds::LINE;
use super::kernel::Kernels;

/// Largest piece, in bytes.
pub(crate) const PIECE: usize = 8192;

/// The bytes before a piece, then the piece.
#[repr(align(64))]
struct Buffer([u8; LINE + PIECE]);

/// Fills `dst` with pieces of `step` bytes, at most [`PIECE`]; the last one may be shorter. `make` gets the offset of a
/// piece in `dst`, and the buffer for its bytes.
pub(crate) fn fill_past_caches(
    kernels: &dyn Kernels,
    dst: &mut [u8],
    step: usize,
    mut make: impl FnMut(usize, &mut [u8]),
) {
    debug_assert!((LINE..=PIECE).contains(&step));
    let Buffer(buffer) = &mut Buffer([0; LINE + PIECE]);
    let nbytes = dst.len();
    // Everything before `done` is in `dst`. Bytes from there to the start of the piece precede it in the buffer.
    let mut done = 0;
    for start in (0..nbytes).step_by(step) {
        let end = nbytes.min(start + step);
        make(start, &mut buffer[LINE..LINE + end - start]);
        let ready = &buffer[LINE + done - start..LINE + end - start];
        let to = &mut dst[done..end];
        // Copy up to the first line boundary of the destination, then whole lines; the rest is kept for the next piece.
        let head = to.as_ptr().align_offset(LINE).min(to.len());
        let lines = (to.len() - head) / LINE * LINE;
        to[..head].copy_from_slice(&ready[..head]);
        kernels.stream(&ready[head..head + lines], &mut to[head..head + lines]);
        done += head + lines;
        if end == nbytes {
            to[head + lines..].copy_from_slice(&ready[head + lines..]);
        }
        buffer.copy_within(LINE + done - start..LINE + end - start, LINE + done - end);
    }
    kernels.fence();
}
