//! Checks and constants that the kernels share.

/// Copies the last items of a block and pads them with zeros, for loads that extend past the end.
#[cfg(target_arch = "aarch64")]
pub(super) fn padded<'a>(rest: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    buffer[..rest.len()].copy_from_slice(rest);
    buffer
}

/// Bytes in a cache line.
pub(crate) const CACHE_LINE_LEN: usize = 64;

/// Returns whether `bytes` holds `N` bytes from `at` on, which every access of `N` bytes relies on. Only one comparison
/// depends on `at`, so the other can be hoisted out of loops.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
pub(super) fn fits<const N: usize>(bytes: &[u8], at: usize) -> bool {
    bytes.len().checked_sub(N).is_some_and(|last| at <= last)
}
