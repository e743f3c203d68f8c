//! Kernels for several instruction sets, and the choice between them.
//!
//! All kernels transpose a [`Tile`]. Byte shuffle is one transpose of the whole block, bit shuffle is two in a row. A
//! vector kernel can only be called through a value that its `detect` function returns, so the `unsafe` calls into
//! `#[target_feature]` functions depend on one check per instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod generic;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scan;
#[cfg(target_arch = "x86_64")]
mod sse2;
mod streaming;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
mod views;

use std::fmt::Debug;
use std::sync::LazyLock;

pub(crate) use scan::Scan;
pub(crate) use streaming::{PIECE, fill_past_caches};

/// A transpose between `n` items of `cols` bytes and `cols` planes of `n` bytes.
///
/// Byte `j` of item `i` is at `i * pitch + j` on the item side and at `j * stride + i` on the plane side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Number of items.
    pub(crate) n: usize,
    /// Bytes of each item to transpose, 1 to 16. Equal to `pitch` unless it is 8 or 16.
    pub(crate) cols: usize,
    /// Distance between items, in bytes.
    pub(crate) pitch: usize,
    /// Distance between planes, in bytes; at least `n`. Ignored if the planes are separate slices.
    pub(crate) stride: usize,
}

impl Tile {
    /// Creates a tile of adjacent items.
    pub(crate) fn dense(n: usize, cols: usize, stride: usize) -> Self {
        Self { n, cols, pitch: cols, stride }
    }

    /// Returns the length of the item side, in bytes.
    pub(crate) fn items_len(&self) -> usize {
        self.n.saturating_sub(1) * self.pitch + if self.n == 0 { 0 } else { self.cols }
    }
}

/// The kernels of one instruction set. They do not access bytes outside the tile.
///
/// The `_bits` methods require items of 8 bytes (`cols` and `pitch` are 8). On the item side they also transpose each
/// item as an 8 x 8 bit matrix. Applied to the bytes of one plane, that turns bits into rows.
pub(crate) trait Kernels: Debug + Sync {
    /// Returns the name of the instruction set.
    fn name(&self) -> &'static str;
    /// Gathers items into planes.
    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]);
    /// Scatters planes into items.
    fn scatter(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]);
    /// Prefetches bytes that will be read soon.
    fn prefetch(&self, bytes: &[u8]) {
        let _ = bytes;
    }
    /// Copies whole cache lines, bypassing the caches if possible. `dst` must start and end at cache lines. Call
    /// [`fence`](Self::fence) afterwards.
    fn stream(&self, src: &[u8], dst: &mut [u8]) {
        dst.copy_from_slice(src);
    }
    /// Ends a series of streaming copies: their stores become visible before any later ones.
    fn fence(&self) {}
    /// Transposes the bits of each item, then gathers items into planes.
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]);
    /// Scatters planes into items, then transposes the bits of each item.
    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]);
    /// Computes running sums of `src`. The slices must have the same length.
    fn scan(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        scan::scan(what, src, dst);
    }
    /// Reverses [`scan`](Self::scan) by computing differences.
    fn differences(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        scan::differences(what, src, dst);
    }
    /// XORs two blocks of equal length. If `streaming`, stores bypass the caches.
    fn xor(&self, a: &[u8], b: &[u8], dst: &mut [u8], streaming: bool) {
        let _ = streaming;
        scan::xor(a, b, dst);
    }
}

/// Returns the kernels to use: the best for this CPU, or those that the environment variable [`VARIABLE`] names. They
/// are chosen once.
pub(crate) fn best() -> &'static dyn Kernels {
    #[cfg(fuzzing)]
    if let Some(kernels) = crate::fuzzing::forced() {
        return kernels;
    }
    static BEST: LazyLock<&'static dyn Kernels> =
        LazyLock::new(|| choose(std::env::var(VARIABLE).ok().as_deref(), &available()));
    *BEST
}

/// Returns the named kernels if this CPU supports them, otherwise the best.
fn choose(name: Option<&str>, available: &[&'static dyn Kernels]) -> &'static dyn Kernels {
    let named = available.iter().find(|kernels| Some(kernels.name()) == name);
    named.or(available.first()).copied().unwrap_or(&generic::Generic)
}

/// The environment variable that selects the kernels.
const VARIABLE: &str = "B2KIT_SIMD";

/// Copies the last items of a block and pads them with zeros, for loads that extend past the end.
#[cfg(target_arch = "aarch64")]
fn padded<'a>(rest: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    buffer[..rest.len()].copy_from_slice(rest);
    buffer
}

/// Bytes in a cache line.
pub(crate) const LINE: usize = 64;

/// Returns whether `bytes` holds `N` bytes from `at` on, which every access of `N` bytes relies on. Only one comparison
/// depends on `at`, so the other can be hoisted out of loops.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
fn fits<const N: usize>(bytes: &[u8], at: usize) -> bool {
    bytes.len().checked_sub(N).is_some_and(|last| at <= last)
}

/// Splits `n` items into tiles of `step` items. The last tile is extended backwards to at least `least` items, if there
/// are that many. Kernels may process the overlap twice, with the same result.
pub(crate) fn tiles(n: usize, step: usize, least: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(step).map(move |start| {
        let len = step.min(n - start);
        if len < least && n >= least { (n - least, least) } else { (start, len) }
    })
}

/// Returns all kernels that this CPU supports, best first. The last ones are portable.
pub(crate) fn available() -> Vec<&'static dyn Kernels> {
    #[cfg(target_arch = "x86_64")]
    let vector =
        [avx512::Avx512::detect(), avx2::Avx2::detect_gfni(), avx2::Avx2::detect(), Some(&sse2::Sse2)];
    #[cfg(target_arch = "aarch64")]
    let vector = [neon::Neon::detect()];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let vector: [Option<&'static dyn Kernels>; 0] = [];
    let everywhere: &'static dyn Kernels = &generic::Generic;
    vector.into_iter().flatten().chain([everywhere]).collect()
}
