//! Concatenates the encoded blocks of a chunk in order, whichever thread finishes first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ChunkError;
use crate::block::scratch::ScratchGuard;
use crate::encode::encoder::EncodedLen;
use b2_core::{
    OutOfMemory,
    memory::{self, sized},
};

/// Collects encoded blocks, which may arrive in any order.
pub(crate) struct Joiner<'d> {
    state: Mutex<JoinState<'d>>,
}

struct JoinState<'d> {
    /// The unused end of the output. Empty while a thread encodes the next block directly into it.
    rest: &'d mut [u8],
    next: usize,
    /// The end of each block that has been placed.
    ends: Vec<usize>,
    /// Finished blocks that wait for earlier ones: index, buffer, encoded length.
    waiting: Vec<(usize, Vec<u8>, usize)>,
    spare: Vec<Vec<u8>>,
    full: bool,
    all_zero: bool,
}

/// The result of joining all blocks.
pub(crate) struct JoinedBlocks {
    /// The end of each block.
    pub(crate) ends: Vec<usize>,
    /// Whether all their streams are runs of zeros.
    pub(crate) all_zero: bool,
}

impl<'d> Joiner<'d> {
    pub(crate) fn new(dst: &'d mut [u8], nblocks: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            state: Mutex::new(JoinState {
                rest: dst,
                next: 0,
                ends: memory::list(nblocks)?,
                waiting: Vec::new(),
                spare: Vec::new(),
                full: false,
                all_zero: true,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, JoinState<'d>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes block `nblock`, which takes at most `most` bytes.
    ///
    /// If all earlier blocks have been placed, it is encoded directly into the output; otherwise into `buffer`, which
    /// may be exchanged for another one. The encoder gets exactly `most` bytes in both cases, so its output does not
    /// depend on the timing of threads.
    pub(crate) fn write(
        &self,
        nblock: usize,
        most: usize,
        buffer: &mut Vec<u8>,
        encode: impl FnOnce(&mut [u8]) -> Result<EncodedLen, ChunkError>,
    ) -> Result<(), ChunkError> {
        let mut state = self.lock();
        if state.full {
            // The blocks do not fit: the caller will store the chunk uncompressed.
            return Ok(());
        }
        if nblock == state.next && state.rest.len() >= most {
            let rest = std::mem::take(&mut state.rest);
            if state.spare.is_empty() && !buffer.is_empty() {
                // This thread does not need its buffer now: leave it for a thread that has to wait.
                state.spare.push(std::mem::take(buffer));
            }
            drop(state);
            let done = encode(&mut rest[..most])?;
            let mut state = self.lock();
            state.rest = rest;
            state.all_zero &= done.all_zero;
            state.place(done.len);
            self.write_waiting(state);
            return Ok(());
        }
        drop(state);
        let done = encode(sized(buffer, most)?)?;
        let mut state = self.lock();
        state.all_zero &= done.all_zero;
        if nblock != state.next {
            let other = state.spare.pop().unwrap_or_default();
            state.waiting.push((nblock, std::mem::replace(buffer, other), done.len));
            return Ok(());
        }
        let place = state.place(done.len);
        self.write_waiting(state);
        if let Some(place) = place {
            place.copy_from_slice(&buffer[..done.len]);
        }
        Ok(())
    }

    /// Places the blocks that were waiting for the one just placed.
    fn write_waiting(&self, mut state: MutexGuard<'_, JoinState<'d>>) {
        let mut ready = Vec::new();
        while let Some(at) = state.waiting.iter().position(|(nblock, ..)| *nblock == state.next) {
            let (_, block, len) = state.waiting.swap_remove(at);
            let Some(place) = state.place(len) else { return };
            ready.push((place, block));
        }
        // Copy without the lock, so that other threads can hand in their blocks.
        drop(state);
        if !ready.is_empty() {
            for (place, block) in &mut ready {
                place.copy_from_slice(&block[..place.len()]);
            }
            self.lock().spare.extend(ready.into_iter().map(|(_, block)| block));
        }
    }

    /// Returns the result, or `None` if the blocks did not fit.
    pub(crate) fn finish(self) -> Option<JoinedBlocks> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = state.spare.into_iter().next() {
            let mut scratch = ScratchGuard::of_thread();
            if scratch.block.is_empty() {
                scratch.block = block;
            }
        }
        (!state.full).then_some(JoinedBlocks { ends: state.ends, all_zero: state.all_zero })
    }
}

impl<'d> JoinState<'d> {
    /// Reserves space for the next block. Returns `None` and marks the output as full if there is too little.
    fn place(&mut self, len: usize) -> Option<&'d mut [u8]> {
        let Some((place, rest)) = std::mem::take(&mut self.rest).split_at_mut_checked(len) else {
            self.full = true;
            return None;
        };
        self.rest = rest;
        self.next += 1;
        self.ends.push(self.ends.last().unwrap_or(&0) + len);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::Joiner;
    use crate::encode::encoder::EncodedLen;

    fn join(order: &[usize], room: usize) -> Option<Vec<u8>> {
        let mut dst = vec![0; room];
        let joiner = Joiner::new(&mut dst, order.len()).unwrap();
        let mut buffer = Vec::new();
        for &nblock in order {
            let encode = |out: &mut [u8]| {
                assert_eq!(out.len(), 20);
                out.fill(nblock as u8);
                Ok(EncodedLen { len: nblock + 1, all_zero: nblock != 3 })
            };
            joiner.write(nblock, 20, &mut buffer, encode).unwrap();
        }
        let joined = joiner.finish()?;
        assert!(!joined.all_zero);
        dst.truncate(*joined.ends.last().unwrap());
        Some(dst)
    }

    #[test]
    fn any_order_gives_the_same() {
        let expected = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
            for room in [10, 12, 21, 100] {
                assert_eq!(join(&order, room).as_deref(), Some(&expected[..]));
            }
            assert_eq!(join(&order, 9), None);
        }
    }
}
