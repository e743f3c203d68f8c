//! Stores that bypass the caches.
//!
//! A normal store to memory outside the caches first reads the cache line and evicts another one. A streaming store
//! does neither, but is only efficient for whole lines. Neither items nor destinations are aligned to lines. So pieces
//! are assembled in a buffer that stays in the first-level cache, and copied from there line by line.

use super::bounds::CACHE_LINE_LEN;
use super::kernel::Kernels;

/// Largest piece, in bytes.
pub(crate) const MAX_PIECE_LEN: usize = 8192;

/// The bytes before a piece, then the piece.
#[repr(align(64))]
struct Buffer([u8; CACHE_LINE_LEN + MAX_PIECE_LEN]);

/// Fills `dst` with pieces of `step` bytes, at most [`MAX_PIECE_LEN`]; the last one may be shorter. `make` gets the offset of a
/// piece in `dst`, and the buffer for its bytes.
pub(crate) fn fill_past_caches(
    kernels: &dyn Kernels,
    dst: &mut [u8],
    step: usize,
    mut make: impl FnMut(usize, &mut [u8]),
) {
    debug_assert!((CACHE_LINE_LEN..=MAX_PIECE_LEN).contains(&step));
    let Buffer(buffer) = &mut Buffer([0; CACHE_LINE_LEN + MAX_PIECE_LEN]);
    let nbytes = dst.len();
    // Everything before `done` is in `dst`. Bytes from there to the start of the piece precede it in the buffer.
    let mut done = 0;
    for start in (0..nbytes).step_by(step) {
        let end = nbytes.min(start + step);
        make(start, &mut buffer[CACHE_LINE_LEN..CACHE_LINE_LEN + end - start]);
        let ready = &buffer[CACHE_LINE_LEN + done - start..CACHE_LINE_LEN + end - start];
        let to = &mut dst[done..end];
        // Copy up to the first line boundary of the destination, then whole lines; the rest stays for the next piece.
        let head = to.as_ptr().align_offset(CACHE_LINE_LEN).min(to.len());
        let lines = (to.len() - head) / CACHE_LINE_LEN * CACHE_LINE_LEN;
        to[..head].copy_from_slice(&ready[..head]);
        kernels.stream(&ready[head..head + lines], &mut to[head..head + lines]);
        done += head + lines;
        if end == nbytes {
            to[head + lines..].copy_from_slice(&ready[head + lines..]);
        }
        buffer.copy_within(
            CACHE_LINE_LEN + done - start..CACHE_LINE_LEN + end - start,
            CACHE_LINE_LEN + done - end,
        );
    }
    kernels.fence();
}
