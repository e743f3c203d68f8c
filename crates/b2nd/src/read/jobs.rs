//! The local driver. Threads take chunks, or blocks of one chunk; each reads its next blocks,
//! decodes them in its cache, and copies the selected items to their places in the result.

use std::mem::MaybeUninit;

use b2_core::Control;
use b2_frame::{Driver, SuperChunk};

use crate::read::disjoint::{Destination, Disjoint, Shared, Unfilled};
use crate::read::far;
use crate::read::part::{Blocks, PartPlan, PartStep, Reading};
use crate::read::requests::read_by_requests;
use crate::read::uniform::Uniform;
use crate::select::moves::Moves;
use crate::{NdArray, NdError};

/// Reads the selected items to memory of any layout. The places that `moves` gives must lie inside
/// the destination. On success, uninitialised memory is written completely, including bytes that
/// belong to no item.
pub(crate) fn read_selection<'d>(
    array: &NdArray,
    moves: &dyn Moves,
    destination: impl Into<Destination<'d>>,
) -> Result<(), NdError> {
    read_from(array, array.super_chunk(), moves, destination.into())
}

/// Reads the selected items to uninitialised memory, and returns that memory as an initialised
/// slice.
pub(crate) fn read_uninit<'d>(
    array: &NdArray,
    moves: &dyn Moves,
    memory: &'d mut [MaybeUninit<u8>],
) -> Result<&'d mut [u8], NdError> {
    read_selection(array, moves, &mut *memory)?;
    // SAFETY: This is the same memory, still borrowed exclusively, and every byte of it was
    // written.
    #[allow(unsafe_code)]
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), memory.len()) };
    Ok(bytes)
}

/// Reads items that will be stored again. All chunks are compared with their checksums, since
/// damaged data must not get a valid checksum.
pub(crate) fn read_to_keep(array: &NdArray, moves: &dyn Moves, dst: &mut [u8]) -> Result<(), NdError> {
    let frame = array.super_chunk().to_keep();
    read_from(array, &frame, moves, dst.into())
}

fn read_from(
    array: &NdArray,
    frame: &SuperChunk,
    moves: &dyn Moves,
    destination: Destination<'_>,
) -> Result<(), NdError> {
    read_parts(array, frame, moves, destination).map_err(|error| array.explain(error))
}

fn read_parts(
    array: &NdArray,
    frame: &SuperChunk,
    moves: &dyn Moves,
    destination: Destination<'_>,
) -> Result<(), NdError> {
    let (nbytes, disjoint) = (moves.nbytes(), moves.disjoint());
    // Whether there are neither gaps nor overlaps between items.
    let dense = disjoint && nbytes == destination.len() as u64;
    if moves.nparts() == 0 {
        destination.into_slice();
        return Ok(());
    }
    let item = moves.item();
    let dparams = frame.dparams();
    let control = &dparams.control.begin(nbytes, item.len() as u64);
    if dense && let Some(uniform) = Uniform::of_all(array)? {
        uniform.fill(&item, destination.into_slice());
        return Ok(control.advance(nbytes)?);
    }
    if frame.files().in_flight() > 1 {
        return read_by_requests(array, frame, moves, destination, |plan| far::work_off(plan, frame));
    }
    let size = array.geometry().block_nbytes();
    let streaming = dparams.destination.is_streaming(destination.len());
    let reading = Reading { array, frame, moves, size, streaming };
    if destination.is_initialised() || !dense {
        // SAFETY: Each block of each part has its own writer, which hands out only the places of
        // the items in that block. Every item is in one block, and if `disjoint` is true, no two
        // items share a place. Otherwise blocks are processed one after the other.
        #[allow(unsafe_code)]
        let buffer = &unsafe { Disjoint::new(destination, !disjoint) };
        return ReadJob { reading, control, serial: !disjoint, buffer }.run();
    }
    // SAFETY: As above, and each block has a filler that hands out each place once.
    #[allow(unsafe_code)]
    let buffer = &unsafe { Unfilled::new(destination) };
    // Bytes are written twice here, so they should stay in the cache.
    let reading = Reading { streaming: false, ..reading };
    ReadJob { reading, control, serial: false, buffer }.run()?;
    assert!(buffer.is_filled(), "the places of all items cover the destination");
    Ok(())
}

struct ReadJob<'a, B> {
    reading: Reading<'a>,
    control: &'a Control,
    /// Whether several items may share a place, so that blocks must be processed one after the
    /// other.
    serial: bool,
    buffer: &'a B,
}

impl<B: Shared> ReadJob<'_, B> {
    fn run(&self) -> Result<(), NdError> {
        let Reading { moves, size, .. } = self.reading;
        let nparts = moves.nparts();
        if nparts == 1 {
            return self.part(0);
        }
        // The work is what has to be decoded, not just the selected part of it.
        let per_part = moves.nbytes() / nparts;
        let nblocks = if self.reading.uniform(0)?.is_some() { 0 } else { moves.part(0)?.nblocks.len() };
        let work = nparts.saturating_mul(((nblocks * size) as u64).max(per_part));
        // Decode chunks in parallel. A single chunk, or the last ones, are decoded in parallel by
        // blocks.
        let threads = self.threads(3 * size as u64);
        b2_core::for_each(self.control, threads, 0..nparts, work, || Ok(()), |(), npart| self.part(npart))
    }

    /// Returns how many threads may work at once if each needs `memory` bytes.
    fn threads(&self, memory: u64) -> usize {
        if self.serial { 1 } else { self.reading.frame.dparams().limits.threads(memory) }
    }

    fn part(&self, npart: u64) -> Result<(), NdError> {
        let frame = self.reading.frame;
        let mut driver = Driver::new(frame.files());
        let mut plan = PartPlan::new(&self.reading, npart);
        let mut parts = Vec::new();
        let blocks = loop {
            match plan.step(parts)? {
                PartStep::Need(extents) => parts = driver.read(&extents)?,
                PartStep::Fill(uniform, part) => {
                    let nbytes =
                        uniform.fill_part(&part, &self.reading.moves.item(), &mut self.buffer.writer());
                    return Ok(self.control.advance(nbytes as u64)?);
                }
                PartStep::Blocks(blocks) => break blocks,
            }
        };
        self.blocks(&blocks, &mut driver)
    }

    fn blocks(&self, blocks: &Blocks<'_>, driver: &mut Driver<'_>) -> Result<(), NdError> {
        let Reading { frame, .. } = self.reading;
        // Each thread reads its own groups.
        let file = match blocks.head().is_stored() {
            true => Some(driver.file(blocks.head().file())?.clone()),
            false => None,
        };
        let read = |group: &b2_frame::Group<'_>| match (group.extent(), &file) {
            (Some(extent), Some(file)) => file.read(extent),
            _ => Ok(bytes::Bytes::new()),
        };
        let block0 = match blocks.reference(frame.costs()) {
            Some(group) => blocks.decode_reference(group.stored(blocks.head(), 0, &read(&group)?)?)?,
            None => None,
        };
        b2_core::for_each(
            self.control,
            self.threads(blocks.head().chunk().block_memory()),
            blocks.groups(frame.costs()),
            blocks.work(),
            || blocks.worker(block0.as_deref()),
            |worker, group| {
                let bytes = read(&group)?;
                let mut nbytes = 0;
                for &nblock in group.nblocks() {
                    let stored = group.stored(blocks.head(), nblock, &bytes)?;
                    nbytes += blocks.copy(worker, nblock, stored, &mut self.buffer.writer())?;
                }
                Ok(self.control.advance(nbytes as u64)?)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use b2_chunk::FilterSlot;
    use b2_testkit::Rng;

    use super::*;
    use crate::select::moves::extent;
    use crate::{ArrayBuilder, Slice};

    struct Dice(Rng);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0.below(n)
        }

        fn array(&mut self, shape: &[u64], kind: usize) -> NdArray {
            let n: u64 = shape.iter().product();
            let items: Vec<u8> = match kind {
                0 => vec![0; n as usize * 4],
                1 => [7, 8, 9, 10].repeat(n as usize),
                _ => (0..n as u32).flat_map(|i| (i * 7 + 1).to_le_bytes()).collect(),
            };
            let chunks: Vec<u32> = shape.iter().map(|&n| 1 + self.below(n as usize + 2) as u32).collect();
            let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + self.below(c as usize) as u32).collect();
            let filters: &[FilterSlot] =
                [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][self.below(3)];
            let frame = ArrayBuilder::new::<u32>(shape.to_vec())
                .chunks(chunks)
                .blocks(blocks)
                .compression(b2_chunk::Compression::lz4().filters(filters))
                .to_bytes(items)
                .unwrap();
            NdArray::from_bytes(frame).unwrap()
        }

        fn view(&mut self, array: &NdArray) -> Slice {
            let dims = array.shape().iter().map(|&n| {
                let n = n as i64;
                match self.below(3) {
                    0 => crate::Selection::List(
                        (0..self.below(5)).map(|_| self.below(n as usize) as i64).collect(),
                    ),
                    1 => (self.below(n as usize) as i64..n).into(),
                    _ => (..).into(),
                }
            });
            let dims: Vec<crate::Selection> = dims.collect();
            let view = array.slice(dims).unwrap();
            if self.below(2) == 0 { view.transpose() } else { view }
        }
    }

    /// Returns strides of a random layout without overlaps: dimensions in any order, with or
    /// without gaps, forward or backward.
    fn layout(dice: &mut Dice, shape: &[u64], gaps: bool) -> Vec<isize> {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, dice.below(i + 1));
        }
        let (mut step, mut strides) = (4, vec![0; shape.len()]);
        for dim in order {
            step += if gaps { dice.below(3) } else { 0 };
            strides[dim] = if dice.below(3) == 0 { -(step as isize) } else { step as isize };
            step *= shape[dim].max(1) as usize;
        }
        strides
    }

    #[test]
    fn memory_of_any_layout_is_filled() {
        let dice = &mut Dice(Rng::new(10));
        for case in 0..600 {
            let shape: Vec<u64> = (0..dice.below(4)).map(|_| 1 + dice.below(9) as u64).collect();
            let array = dice.array(&shape, case % 4);
            let view = dice.view(&array);
            let (plain, shape) = (view.read_bytes().unwrap(), view.shape());
            // Uninitialised memory in C order.
            let mut memory = vec![MaybeUninit::uninit(); plain.len()];
            read_selection(&array, &*view.moves(0, &view.strides()).unwrap(), &mut memory[..]).unwrap();
            let expect = |strides: &[isize], (offset, len): (usize, usize), before: u8| {
                let mut expected = vec![before; len];
                let from = (&plain[..], 0, &view.strides()[..]);
                let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
                crate::select::copy::copy_box(&counts, 4, from, (&mut expected, offset, strides));
                expected
            };
            assert_eq!(bytes(&memory), plain);
            // Memory of any layout.
            for gaps in [false, true] {
                let strides = layout(dice, &shape, gaps);
                let (offset, len) = extent(&shape, &strides, 4).unwrap();
                let moves = view.moves(offset, &strides).unwrap();
                assert!(moves.disjoint());
                let mut memory = vec![9; len];
                read_selection(&array, &*moves, &mut memory[..]).unwrap();
                assert_eq!(memory, expect(&strides, (offset, len), 9), "{shape:?} {strides:?}");
                let mut memory = vec![MaybeUninit::uninit(); len];
                read_selection(&array, &*moves, &mut memory[..]).unwrap();
                assert_eq!(bytes(&memory), expect(&strides, (offset, len), 0));
            }
            // All items along a dimension share one place.
            if !shape.is_empty() && shape.iter().all(|&n| n > 0) {
                let mut strides = view.strides();
                let dim = dice.below(shape.len());
                strides[dim] = 0;
                let (offset, len) = extent(&shape, &strides, 4).unwrap();
                let moves = view.moves(offset, &strides).unwrap();
                assert!(shape[dim] == 1 || !moves.disjoint());
                let mut memory = vec![MaybeUninit::uninit(); len];
                read_selection(&array, &*moves, &mut memory[..]).unwrap();
                let last = plain.len() as isize;
                assert!(last >= 4 && bytes(&memory).len() == len);
            }
        }
    }

    fn bytes(memory: &[MaybeUninit<u8>]) -> Vec<u8> {
        // SAFETY: The test has read a selection into this memory, which writes every byte.
        #[allow(unsafe_code)]
        memory.iter().map(|byte| unsafe { byte.assume_init() }).collect()
    }

    #[test]
    fn layouts_beyond_memory_are_refused() {
        assert_eq!(extent(&[2, 3], &[-12, 4], 4), Some((12, 24)));
        assert_eq!(extent(&[2, 0], &[isize::MIN, 4], 4), Some((0, 0)));
        assert_eq!(extent(&[], &[], 4), Some((0, 4)));
        assert_eq!(extent(&[2, 2], &[isize::MAX, isize::MIN], 4), None);
        assert_eq!(extent(&[u64::MAX], &[2], 4), None);
        assert_eq!(extent(&[2], &[isize::MAX - 1], 4), None);
    }

    #[test]
    fn reading_tells_its_progress_and_stops() {
        use std::ops::ControlFlow;
        use std::sync::{Arc, Mutex};

        let array = Dice(Rng::new(3)).array(&[40, 30], 2);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&seen);
        let control = Control::new().with_progress(move |progress| {
            tell.lock().unwrap().push(progress);
            ControlFlow::Continue(())
        });
        let view = array.slice([3..20, 5..9]).unwrap();
        let mut dst = vec![0; view.nbytes() as usize];
        let mut read = |control: Control| {
            let frame = array.super_chunk().clone().with_control(control);
            let moves = view.moves(0, &view.strides()).unwrap();
            read_from(&array, &frame, &*moves, Destination::from(&mut dst[..]))
        };
        read(control).unwrap();
        let seen = seen.lock().unwrap();
        let last = seen.last().unwrap();
        assert_eq!((last.nbytes, last.total, last.items()), (17 * 4 * 4, 17 * 4 * 4, 17 * 4));
        let stop = Control::new().with_progress(|_| ControlFlow::Break(()));
        assert!(matches!(read(stop), Err(NdError::Cancelled(_))));
    }
}
