//! The interface of the kernels of every instruction set.

use std::fmt::Debug;

use super::scan::{self, Scan};

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

/// Writes methods of [`Kernels`] that call the functions of the same name in the module. These may require CPU features:
/// a value of the type must exist only if the CPU has them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! call_functions {
    ($($method:ident)*) => {
        $(call_functions! { @$method })*
    };
    (@gather) => { call_functions! { @unsafe gather(items: &[u8], tile: Tile, planes: &mut [u8]) } };
    (@scatter) => { call_functions! { @unsafe scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) } };
    (@gather_bits) => { call_functions! { @unsafe gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) } };
    (@scatter_bits) => { call_functions! { @unsafe scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) } };
    (@stream) => { call_functions! { @unsafe stream(src: &[u8], dst: &mut [u8]) } };
    (@unsafe $method:ident($($name:ident: $type:ty),*)) => {
        fn $method(&self, $($name: $type),*) {
            // SAFETY: `self` exists, so the CPU has the features that the function enables.
            unsafe { $method($($name),*) }
        }
    };
    (@prefetch) => {
        fn prefetch(&self, bytes: &[u8]) {
            prefetch(bytes);
        }
    };
    (@fence) => {
        fn fence(&self) {
            fence();
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use call_functions;
