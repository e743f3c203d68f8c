//! Selected bytes of a chunk: runs of the same length at regular distances, in several dimensions.

use std::ops::Range;

/// Runs of selected bytes in ascending order, none of which overlap.
pub(crate) struct Runs {
    /// Where the first run begins.
    base: usize,
    /// Number of steps and their length in bytes, the longest steps first.
    dims: Vec<Dim>,
    /// Length of a run in bytes.
    run: usize,
}

struct Dim {
    count: usize,
    stride: usize,
    /// Selected bytes in one step.
    inside: usize,
}

impl Runs {
    /// Checks that all runs lie within `nbytes`, in ascending order. `dims` are numbers of steps and their lengths in
    /// bytes. Returns `None` otherwise, and if nothing is selected.
    pub(crate) fn new(base: usize, dims: &[(usize, usize)], run: usize, nbytes: usize) -> Option<Self> {
        let (mut made, mut inside, mut extent) = (Vec::with_capacity(dims.len()), run, run);
        for &(count, stride) in dims.iter().rev() {
            if count == 0 || stride < extent {
                return None;
            }
            made.push(Dim { count, stride, inside });
            inside = inside.checked_mul(count)?;
            extent = extent.checked_add(stride.checked_mul(count - 1)?)?;
        }
        made.reverse();
        (run > 0 && base.checked_add(extent)? <= nbytes).then_some(Self { base, dims: made, run })
    }

    /// Returns the number of selected bytes.
    pub(crate) fn len(&self) -> usize {
        self.dims.first().map_or(self.run, |dim| dim.inside * dim.count)
    }

    /// Returns how many of the bytes before `offset` are selected.
    pub(crate) fn before(&self, offset: usize) -> usize {
        let Some(mut rest) = offset.checked_sub(self.base) else { return 0 };
        let mut found = 0;
        for dim in &self.dims {
            let steps = (rest / dim.stride).min(dim.count);
            found += steps * dim.inside;
            if steps == dim.count {
                return found;
            }
            rest -= steps * dim.stride;
        }
        found + rest.min(self.run)
    }

    /// Copies the selected bytes of `src`, which are those of the chunk at `place`, to `dst`, which is as long as they are.
    pub(crate) fn copy(&self, place: &Range<usize>, src: &[u8], mut dst: &mut [u8]) {
        let mut at = self.before(place.start);
        while !dst.is_empty() {
            let (offset, begun, steps, stride) = self.find(at);
            let Some(from) = offset.checked_sub(place.start).and_then(|from| src.get(from..)) else { return };
            let whole = if begun == 0 { steps.min(dst.len() / self.run) } else { 0 };
            // Where a run began before these bytes or ends after them, only a part of it is here.
            let len = if whole > 0 { whole * self.run } else { (self.run - begun).min(dst.len()) };
            let (now, behind) = std::mem::take(&mut dst).split_at_mut(len);
            match self.run {
                _ if whole == 0 => now.copy_from_slice(from.get(..len).unwrap_or_default()),
                1 => gather::<1>(from, stride, now),
                2 => gather::<2>(from, stride, now),
                4 => gather::<4>(from, stride, now),
                8 => gather::<8>(from, stride, now),
                16 => gather::<16>(from, stride, now),
                run => {
                    for (run, from) in now.chunks_exact_mut(run).zip(from.chunks(stride)) {
                        run.copy_from_slice(from.get(..run.len()).unwrap_or_default());
                    }
                }
            }
            (dst, at) = (behind, at + len);
        }
    }

    /// Returns for a selected byte: where its run has it, how many bytes of the run are before it, and how many runs
    /// follow at which distance, itself included.
    fn find(&self, at: usize) -> (usize, usize, usize, usize) {
        let (mut offset, mut rest, mut last) = (self.base, at, (1, self.run));
        for dim in &self.dims {
            let step = rest / dim.inside;
            rest %= dim.inside;
            offset += step * dim.stride;
            last = (dim.count - step, dim.stride);
        }
        (offset + rest, rest, last.0, last.1)
    }
}

/// Copies runs of `N` bytes that begin every `stride` bytes.
fn gather<const N: usize>(src: &[u8], stride: usize, dst: &mut [u8]) {
    let (runs, _) = dst.as_chunks_mut::<N>();
    for (run, from) in runs.iter_mut().zip(src.chunks(stride)) {
        if let Some((first, _)) = from.split_first_chunk::<N>() {
            *run = *first;
        }
    }
}
