//! Mutators that know the formats. They change fields, tables and entries, and fix what the change would break
//! elsewhere, so that code after the first checks is reached.
//!
//! Each does a few changes and ends; none loops on values from the input.

mod chunk;
mod frame;
mod hdf5;
mod meta;
mod sparse;

use std::ops::Range;

use b2_testkit::Rng;
use libfuzzer_sys::fuzzer_mutate;

pub use chunk::chunk;
pub(crate) use chunk::{made, parameters};
pub use frame::frame;
pub(crate) use frame::seal;
pub use hdf5::hdf5;
pub use meta::meta;
pub use sparse::sparse;

/// Mutates an input with `mutator`, or one time in four as libFuzzer does. Returns the new size.
pub fn with(
    mutator: fn(&mut Vec<u8>, &mut Rng),
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
) -> usize {
    let mut rng = Rng::new(seed.into());
    if rng.one_in(4) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut bytes = data[..size].to_vec();
    // Do not count the mutator's memory as the target's.
    crate::memory::within(64 << 20, &format!("{size} bytes to change"), || {
        for _ in 0..1 + rng.below(3) {
            mutator(&mut bytes, &mut rng);
        }
    });
    let size = bytes.len().min(max_size);
    data[..size].copy_from_slice(&bytes[..size]);
    size
}

/// Maximum size of a mutated input, in bytes.
const MAX_LEN: usize = 1 << 16;

/// Lets libFuzzer mutate a part of the input, keeping its length if `keep` is set.
fn raw(bytes: &mut Vec<u8>, part: Range<usize>, keep: bool) {
    let (start, end) = (part.start.min(bytes.len()), part.end.min(bytes.len()));
    if start >= end {
        return;
    }
    let mut inner = bytes[start..end].to_vec();
    let len = inner.len();
    let room = if keep { len } else { (len + 64).min(MAX_LEN) };
    inner.resize(room.max(len), 0);
    let new = fuzzer_mutate(&mut inner, len, room);
    inner.truncate(new);
    if keep {
        inner.resize(len, 0);
    }
    bytes.splice(start..end, inner);
}

/// Lets a mutator change a part without moving the bytes after it.
fn in_place(bytes: &mut [u8], part: Range<usize>, mutator: fn(&mut Vec<u8>, &mut Rng), rng: &mut Rng) {
    let Some(stored) = bytes.get_mut(part) else { return };
    let mut new = stored.to_vec();
    mutator(&mut new, rng);
    new.resize(stored.len(), 0);
    stored.copy_from_slice(&new);
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(old) = at.checked_add(new.len()).and_then(|end| bytes.get_mut(at..end)) {
        old.copy_from_slice(new);
    }
}
