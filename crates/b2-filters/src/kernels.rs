//! Instruction sets with kernels of their own, and the choice between them.
//!
//! All kernels move the same data, a [`Tile`]; byte shuffle is one of them over the whole block, bit shuffle is
//! two of them in a row. A vector kernel is reached through a value that only its `detect` hands out, so the
//! `unsafe` calls into `#[target_feature]` functions rest on one check per instruction set.

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

/// A transpose: `n` items of `cols` bytes on one side, `cols` planes of `n` bytes on the other.
///
/// Byte `j` of item `i` sits at `i * pitch + j` on the item side and at `j * stride + i` on the plane side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Number of items.
    pub(crate) n: usize,
    /// Bytes taken of each item, 1 to 16. It equals `pitch` unless it is 8 or 16.
    pub(crate) cols: usize,
    /// Distance between items, in bytes.
    pub(crate) pitch: usize,
    /// Distance between planes, in bytes; at least `n`. Where planes are slices of their own it does not count.
    pub(crate) stride: usize,
}

impl Tile {
    /// Items that lie side by side.
    pub(crate) fn dense(n: usize, cols: usize, stride: usize) -> Self {
        Self { n, cols, pitch: cols, stride }
    }

    /// Bytes spanned on the item side.
    pub(crate) fn items_len(&self) -> usize {
        self.n.saturating_sub(1) * self.pitch + if self.n == 0 { 0 } else { self.cols }
    }
}

/// The kernels of one instruction set. Bytes outside the tile are left alone.
///
/// The `_bits` pair works on items of 8 bytes only (`cols` and `pitch` are 8) and takes each item as an 8 x 8 bit
/// matrix to be transposed on the item side. Run over the bytes of one plane, it turns bits into rows.
pub(crate) trait Kernels: Debug + Sync {
    /// Short name, for reports.
    fn name(&self) -> &'static str;
    /// Items to planes.
    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]);
    /// Planes to items.
    fn scatter(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]);
    /// Asks for bytes that are going to be read soon.
    fn prefetch(&self, bytes: &[u8]) {
        let _ = bytes;
    }
    /// Copies whole cache lines, past the caches where that is possible. `dst` starts and ends at lines. Ended by
    /// [`fence`](Self::fence).
    fn stream(&self, src: &[u8], dst: &mut [u8]) {
        dst.copy_from_slice(src);
    }
    /// Ends a series of streaming copies: their bytes become visible before anything that follows.
    fn fence(&self) {}
    /// Transposes the bits of each item, then gathers.
    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]);
    /// Scatters, then transposes the bits of each item.
    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]);
    /// Adds up `src` from its start to each element. The slices have the same length.
    fn scan(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        scan::scan(what, src, dst);
    }
    /// Undoes [`scan`](Self::scan): what each element adds.
    fn differences(&self, what: Scan, src: &[u8], dst: &mut [u8]) {
        scan::differences(what, src, dst);
    }
    /// XOR of two blocks of one length; `streaming` asks for stores past the caches.
    fn xor(&self, a: &[u8], b: &[u8], dst: &mut [u8], streaming: bool) {
        let _ = streaming;
        scan::xor(a, b, dst);
    }
}

/// The kernels to use: the best this CPU has, or those that the environment variable [`VARIABLE`] names. Chosen once.
pub(crate) fn best() -> &'static dyn Kernels {
    #[cfg(fuzzing)]
    if let Some(kernels) = crate::fuzzing::forced() {
        return kernels;
    }
    static BEST: LazyLock<&'static dyn Kernels> =
        LazyLock::new(|| choose(std::env::var(VARIABLE).ok().as_deref(), &available()));
    *BEST
}

/// The kernels named, if this CPU can run them, else the best.
fn choose(name: Option<&str>, available: &[&'static dyn Kernels]) -> &'static dyn Kernels {
    let named = available.iter().find(|kernels| Some(kernels.name()) == name);
    named.or(available.first()).copied().unwrap_or(&generic::Generic)
}

/// Environment variable that names the kernels to use.
const VARIABLE: &str = "B2KIT_SIMD";

/// The last items of a block with zeros after them, for loads that reach beyond the end.
#[cfg(target_arch = "aarch64")]
fn padded<'a>(rest: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    buffer[..rest.len()].copy_from_slice(rest);
    buffer
}

/// Bytes in a cache line.
pub(crate) const LINE: usize = 64;

/// Whether `bytes` holds `N` bytes from `at` on: what an access of `N` bytes rests on. Written so that only one
/// comparison depends on `at`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
fn fits<const N: usize>(bytes: &[u8], at: usize) -> bool {
    bytes.len().checked_sub(N).is_some_and(|last| at <= last)
}

/// Cuts `n` items into tiles of `step`; the last one reaches back so as to hold at least `least` items when there
/// are that many. Kernels may do the items in common twice: they write the same bytes.
pub(crate) fn tiles(n: usize, step: usize, least: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(step).map(move |start| {
        let len = step.min(n - start);
        if len < least && n >= least { (n - least, least) } else { (start, len) }
    })
}

/// All kernels this CPU can run, best first. The last one runs everywhere.
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
