//! Writing past the caches.
//!
//! A store to memory that is not in a cache reads the line first and pushes another one out; a streaming store does
//! neither, but only whole lines are worth it. Items need not end where lines do, nor does a destination start at
//! one. So pieces are made in a buffer that stays in the first-level cache, and go from there line by line.

use super::{Kernels, LINE};

/// Largest piece, in bytes.
pub(crate) const PIECE: usize = 8192;

/// What precedes a piece, then the piece.
#[repr(align(64))]
struct Buffer([u8; LINE + PIECE]);

/// Fills `dst` with pieces of `step` bytes (at most [`PIECE`]; the last one is shorter): `make` is given where a piece
/// starts in `dst`, and its bytes.
pub(crate) fn fill_past_caches(
    kernels: &dyn Kernels,
    dst: &mut [u8],
    step: usize,
    mut make: impl FnMut(usize, &mut [u8]),
) {
    debug_assert!((LINE..=PIECE).contains(&step));
    let Buffer(buffer) = &mut Buffer([0; LINE + PIECE]);
    let nbytes = dst.len();
    // The end of what is in `dst`; from here to the start of the piece, bytes stand in front of it in the buffer.
    let mut done = 0;
    for start in (0..nbytes).step_by(step) {
        let end = nbytes.min(start + step);
        make(start, &mut buffer[LINE..LINE + end - start]);
        let ready = &buffer[LINE + done - start..LINE + end - start];
        let to = &mut dst[done..end];
        // Up to the first line of the destination, whole lines, and what is left for the next piece.
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
