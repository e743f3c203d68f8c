//! Kernels for several instruction sets, and the choice between them.
//!
//! All kernels transpose a [`Tile`]. Byte shuffle is one transpose of the whole block, bit shuffle is two in a row. A
//! vector kernel can only be called through a value that its `detect` function returns, so the `unsafe` calls into
//! `#[target_feature]` functions depend on one check per instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bounds;
mod generic;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_vector;
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

use std::sync::LazyLock;

pub(crate) use kernel::{Kernels, Tile};
pub(crate) use scan::Scan;
pub(crate) use streaming::{MAX_PIECE_LEN, fill_past_caches};

#[cfg(fuzzing)]
thread_local! {
    /// The kernels of this thread, selected by a fuzz target.
    pub(crate) static SELECTED_KERNELS: std::cell::Cell<Option<&'static dyn Kernels>> = const { std::cell::Cell::new(None) };
}

/// Returns the kernels to use: the best for this CPU, or those that the environment variable [`KERNELS_VARIABLE`] names. They
/// are chosen once.
pub(crate) fn best() -> &'static dyn Kernels {
    #[cfg(fuzzing)]
    if let Some(kernels) = SELECTED_KERNELS.get() {
        return kernels;
    }
    static BEST: LazyLock<&'static dyn Kernels> =
        LazyLock::new(|| choose(std::env::var(KERNELS_VARIABLE).ok().as_deref(), &available()));
    *BEST
}

/// Returns the named kernels if this CPU supports them, otherwise the best.
fn choose(name: Option<&str>, available: &[&'static dyn Kernels]) -> &'static dyn Kernels {
    let named = available.iter().find(|kernels| Some(kernels.name()) == name);
    named.or(available.first()).copied().unwrap_or(&generic::Generic)
}

/// The environment variable that selects the kernels.
const KERNELS_VARIABLE: &str = "B2KIT_SIMD";

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
