//! Reading: chunks and blocks in parallel, each block decoded in the cache of its thread and copied from there to
//! its places in the result.

use b2_chunk::{DParams, SpecialKind, parallel};
use b2_frame::BlockReader;

use crate::block::Worker;
use crate::disjoint::Disjoint;
use crate::moves::{Moves, Part};
use crate::{NdArray, NdError};

/// Reads selected items into a buffer.
pub(crate) fn read_moves(array: &NdArray, moves: &dyn Moves, dst: &mut [u8]) -> Result<(), NdError> {
    let nparts = moves.nparts();
    if nparts == 0 {
        return Ok(());
    }
    let streaming = array.super_chunk().dparams().destination.is_streaming(dst.len());
    let job = Job { array, size: array.geometry().block_nbytes(), streaming };
    if !moves.disjoint() {
        return (0..nparts).try_for_each(|npart| job.whole_part(&moves.part(npart), dst));
    }
    // SAFETY: Each block of each part has a writer of its own, which is asked for the places of the items of
    // that block. An item is in one block, and its place in the buffer is no other's, as `disjoint` says.
    #[allow(unsafe_code)]
    let buffer = unsafe { Disjoint::new(dst) };
    let first = moves.part(0);
    if nparts == 1 {
        return job.part(&first, &buffer);
    }
    // What is decoded, not what is selected of it, is the work.
    let work = nparts.saturating_mul((first.nblocks.len() * job.size) as u64);
    // Chunks in parallel; a single one, or the last ones, in parallel by blocks.
    parallel::for_each(0..nparts, work, || Ok(()), |(), npart| job.part(&moves.part(npart), &buffer))
}

struct Job<'a> {
    array: &'a NdArray,
    /// Of a block of the array, in bytes.
    size: usize,
    /// Whether the result is larger than the caches.
    streaming: bool,
}

impl Job<'_> {
    fn part(&self, part: &Part<'_>, buffer: &Disjoint<'_>) -> Result<(), NdError> {
        let reader = self.array.super_chunk().block_reader(part.nchunk)?;
        let chunk = reader.chunk();
        self.array.check_chunk(part.nchunk, chunk.header().nbytes())?;
        let dparams = self.array.super_chunk().dparams();
        let hooked = dparams.has_postfilter();
        if let (Some(SpecialKind::Zeros | SpecialKind::Uninit), false) = (chunk.header().special(), hooked) {
            // Nothing to decode.
            return parallel::for_each(
                part.nblocks.iter(),
                (part.nblocks.len() * self.size) as u64,
                || Ok(()),
                |(), &nblock| {
                    let mut writer = buffer.writer();
                    (part.moves)(nblock, &mut |step| {
                        if let Some(loops) = step.to_buffer() {
                            loops.fill(0, &mut writer);
                        }
                    });
                    Ok(())
                },
            );
        }
        if chunk.blocksize() != self.size {
            // Another block size: legal to read, only the order of bytes in the chunk matters.
            let plain = self.array.super_chunk().decompress_chunk(part.nchunk)?;
            for &nblock in &part.nblocks {
                let block = &plain[nblock * self.size..(nblock + 1) * self.size];
                let mut writer = buffer.writer();
                (part.moves)(nblock, &mut |step| {
                    if let Some(loops) = step.to_buffer() {
                        loops.copy(block, &mut writer);
                    }
                });
            }
            return Ok(());
        }
        let block0 = block0(&reader, dparams)?;
        parallel::for_each(
            reader.groups(&part.nblocks),
            (part.nblocks.len() * self.size) as u64,
            || Worker::new(&reader, dparams, block0.as_deref(), self.streaming),
            |worker, group| {
                let stored = reader.read(group)?;
                group.iter().try_for_each(|&nblock| {
                    worker.copy(part, nblock, stored.of(nblock), &mut buffer.writer())
                })
            },
        )
    }

    /// The same without threads.
    fn whole_part(&self, part: &Part<'_>, dst: &mut [u8]) -> Result<(), NdError> {
        let plain = self.array.super_chunk().decompress_chunk(part.nchunk)?;
        self.array.check_chunk(part.nchunk, plain.len())?;
        for &nblock in &part.nblocks {
            let block = &plain[nblock * self.size..(nblock + 1) * self.size];
            (part.moves)(nblock, &mut |step| {
                if let Some(loops) = step.to_buffer() {
                    loops.copy(block, dst);
                }
            });
        }
        Ok(())
    }
}

/// Block 0 if the others refer to it (the delta filter).
fn block0(reader: &BlockReader, dparams: &DParams) -> Result<Option<Vec<u8>>, NdError> {
    let chunk = reader.chunk();
    if !chunk.needs_block0() {
        return Ok(None);
    }
    let mut block = vec![0; chunk.block_range(0).len()];
    chunk.decoder(dparams)?.decode_reference(0, reader.read(&[0])?.of(0), None, &mut block)?;
    Ok(Some(block))
}
