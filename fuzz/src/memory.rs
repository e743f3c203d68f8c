//! How much memory an input may use.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Maximum memory that an input may use, in bytes: what the command allows for small files.
const MAX_ALLOCATED: usize = 768 << 20;

/// Runs a target on an input, and checks how much memory it uses.
pub fn bounded(target: fn(&[u8]), data: &[u8]) {
    within(MAX_ALLOCATED, &format!("an input of {} bytes", data.len()), || target(data));
}

/// Panics if `run` uses more than `most` bytes of memory.
pub(crate) fn within(most: usize, what: &str, run: impl FnOnce()) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    run();
    let taken = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(taken <= most, "{what}: {} MiB of memory", taken >> 20);
}
