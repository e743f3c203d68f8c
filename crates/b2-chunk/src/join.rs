//! The streams of a chunk's blocks, put behind each other in the order of the blocks, whichever thread is ready first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ChunkError;
use crate::encoder::EncodedLen;
use crate::memory::{self, OutOfMemory, sized};
use crate::scratch::Scratch;

/// Takes encoded blocks in any order.
pub(crate) struct Joiner<'d> {
    state: Mutex<State<'d>>,
}

struct State<'d> {
    /// What is not written yet; empty while it is lent to the one who encodes the next block.
    rest: &'d mut [u8],
    next: usize,
    /// Where each block ends that has its place.
    ends: Vec<usize>,
    /// Blocks that wait for others in front of them, with their lengths.
    waiting: Vec<(usize, Vec<u8>, usize)>,
    spare: Vec<Vec<u8>>,
    full: bool,
    all_zero: bool,
}

/// What the joined blocks are.
pub(crate) struct Joined {
    /// Where each block ends.
    pub(crate) ends: Vec<usize>,
    /// Whether all their streams are runs of zeros.
    pub(crate) all_zero: bool,
}

impl<'d> Joiner<'d> {
    pub(crate) fn new(dst: &'d mut [u8], nblocks: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            state: Mutex::new(State {
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

    fn lock(&self) -> MutexGuard<'_, State<'d>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has block `nblock` encoded, which takes at most `most` bytes: right where it belongs if all blocks in front of
    /// it have their place, else into `buffer`, in whose place another may be left. The encoder gets `most` bytes in
    /// any case, so that its result does not depend on which it is.
    pub(crate) fn write(
        &self,
        nblock: usize,
        most: usize,
        buffer: &mut Vec<u8>,
        encode: impl FnOnce(&mut [u8]) -> Result<EncodedLen, ChunkError>,
    ) -> Result<(), ChunkError> {
        let mut state = self.lock();
        if state.full {
            // The chunk is going to be stored.
            return Ok(());
        }
        if nblock == state.next && state.rest.len() >= most {
            let rest = std::mem::take(&mut state.rest);
            if state.spare.is_empty() && !buffer.is_empty() {
                // Not needed here: lent to one who is not in turn.
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

    /// Writes the blocks that waited for the one just placed.
    fn write_waiting(&self, mut state: MutexGuard<'_, State<'d>>) {
        let mut ready = Vec::new();
        while let Some(at) = state.waiting.iter().position(|(nblock, ..)| *nblock == state.next) {
            let (_, block, len) = state.waiting.swap_remove(at);
            let Some(place) = state.place(len) else { return };
            ready.push((place, block));
        }
        // Copied while others may hand in theirs.
        drop(state);
        if !ready.is_empty() {
            for (place, block) in &mut ready {
                place.copy_from_slice(&block[..place.len()]);
            }
            self.lock().spare.extend(ready.into_iter().map(|(_, block)| block));
        }
    }

    /// `None` when the blocks did not fit.
    pub(crate) fn finish(self) -> Option<Joined> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = state.spare.into_iter().next() {
            Scratch::take().with_block(block).keep();
        }
        (!state.full).then_some(Joined { ends: state.ends, all_zero: state.all_zero })
    }
}

impl<'d> State<'d> {
    /// Gives the next block its place.
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
    use crate::encoder::EncodedLen;

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
