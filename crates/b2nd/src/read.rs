//! Reading: chunks and blocks in parallel, each block decoded in the cache of its thread and copied from there to
//! its places in the result.

use b2_chunk::{DParams, SpecialKind, memory, parallel};
use b2_frame::{BlockReader, Compare, SuperChunk};

use crate::block::Worker;
use crate::disjoint::Disjoint;
use crate::moves::Moves;
use crate::uniform::Uniform;
use crate::{NdArray, NdError};

/// Reads selected items into a buffer.
pub(crate) fn read_moves(array: &NdArray, moves: &dyn Moves, dst: &mut [u8]) -> Result<(), NdError> {
    read_from(array, array.super_chunk(), moves, dst)
}

/// The same for items that will be stored again: all chunks are compared with their checksums, since damage must not get
/// a new one.
pub(crate) fn read_to_keep(array: &NdArray, moves: &dyn Moves, dst: &mut [u8]) -> Result<(), NdError> {
    read_from(array, &array.super_chunk().clone().with_compare(Compare::Always), moves, dst)
}

fn read_from(array: &NdArray, frame: &SuperChunk, moves: &dyn Moves, dst: &mut [u8]) -> Result<(), NdError> {
    let nparts = moves.nparts();
    if nparts == 0 {
        return Ok(());
    }
    let streaming = array.super_chunk().dparams().destination.is_streaming(dst.len());
    let job = Job { array, frame, moves, size: array.geometry().block_nbytes(), streaming };
    if !moves.disjoint() {
        return (0..nparts).try_for_each(|npart| job.whole_part(npart, dst));
    }
    // SAFETY: Each block of each part has a writer of its own, which is asked for the places of the items of
    // that block. An item is in one block, and its place in the buffer is no other's, as `disjoint` says.
    #[allow(unsafe_code)]
    let buffer = unsafe { Disjoint::new(dst) };
    if nparts == 1 {
        return job.part(0, &buffer);
    }
    // What is decoded, not what is selected of it, is the work.
    let per_part = moves.nbytes() / nparts;
    let nblocks = if job.uniform(0)?.is_some() { 0 } else { moves.part(0)?.nblocks.len() };
    let work = nparts.saturating_mul(((nblocks * job.size) as u64).max(per_part));
    // Chunks in parallel; a single one, or the last ones, in parallel by blocks.
    let threads = array.super_chunk().dparams().limits.threads(3 * job.size as u64);
    parallel::for_each_on(threads, 0..nparts, work, || Ok(()), |(), npart| job.part(npart, &buffer))
}

struct Job<'a> {
    array: &'a NdArray,
    /// That of the array.
    frame: &'a SuperChunk,
    moves: &'a dyn Moves,
    /// Of a block of the array, in bytes.
    size: usize,
    /// Whether the result is larger than the caches.
    streaming: bool,
}

impl Job<'_> {
    /// What all items of the chunk of a part are, if the index says so.
    fn uniform(&self, npart: u64) -> Result<Option<Uniform>, NdError> {
        Uniform::of_entry(self.array, self.moves.nchunk(npart))
    }

    fn part(&self, npart: u64, buffer: &Disjoint<'_>) -> Result<(), NdError> {
        if let Some(uniform) = self.uniform(npart)?
            && let Some(part) = self.moves.unblocked(npart)?
        {
            uniform.fill_part(&part, &self.moves.item(), &mut buffer.writer());
            return Ok(());
        }
        let frame = self.frame;
        let mut reader = frame.block_reader(self.moves.nchunk(npart))?;
        let chunk = reader.chunk();
        self.array.check_chunk(self.moves.nchunk(npart), chunk.header().nbytes())?;
        if chunk.header().special().is_some() {
            // Its few bytes are all there is to read.
            frame.compare_blocks(&mut reader, true)?;
        }
        let chunk = reader.chunk();
        let dparams = self.array.super_chunk().dparams();
        let hooked = dparams.has_postfilter();
        if let (Some(SpecialKind::Zeros | SpecialKind::Uninit), false) = (chunk.header().special(), hooked)
            && let Some(part) = self.moves.unblocked(npart)?
        {
            // Nothing to decode.
            Uniform::Zeros.fill_part(&part, &self.moves.item(), &mut buffer.writer());
            return Ok(());
        }
        let part = &self.moves.part(npart)?;
        if chunk.blocksize() != self.size {
            // Another block size: legal to read, only the order of bytes in the chunk matters.
            let plain = self.plain(part.nchunk)?;
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
        frame.compare_blocks(&mut reader, part.whole)?;
        let (chunk, block0) = (reader.chunk(), block0(&reader, dparams)?);
        parallel::for_each_on(
            dparams.limits.threads(chunk.block_memory()),
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
    fn whole_part(&self, npart: u64, dst: &mut [u8]) -> Result<(), NdError> {
        let part = &self.moves.part(npart)?;
        let plain = self.plain(part.nchunk)?;
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

impl Job<'_> {
    /// All of a chunk.
    fn plain(&self, nchunk: usize) -> Result<Vec<u8>, NdError> {
        let frame = self.frame;
        let nbytes = self.array.geometry().chunk_nbytes();
        frame.dparams().limits.check_memory("chunk that is decoded whole, in bytes", nbytes as u64)?;
        Ok(frame.decompress_chunk(nchunk)?)
    }
}

/// Block 0 if the others refer to it (the delta filter).
fn block0(reader: &BlockReader, dparams: &DParams) -> Result<Option<Vec<u8>>, NdError> {
    let chunk = reader.chunk();
    if !chunk.needs_block0() {
        return Ok(None);
    }
    let mut block = memory::zeroed(chunk.block_range(0).len())?;
    chunk.decoder(dparams)?.decode_reference(0, reader.read(&[0])?.of(0), None, &mut block)?;
    Ok(Some(block))
}
