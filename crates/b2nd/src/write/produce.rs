//! Turns items into compressed chunks concurrently in bounded memory.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use b2_chunk::{CParams, Chunk, EXTENDED_HEADER_LEN, PlainBlocks, SpecialKind};
use b2_core::{Control, in_order, memory};
use bytes::Bytes;

use crate::model::geometry::{for_each_position, product};
use crate::select::copy_plan::linear;
use crate::write::chunk_blocks::{ChunkItems, DirectBlocks};
use crate::write::source::{ChunkContent, Region, RegionSource, SharedRegions, StridedItems, failed};
use crate::{Dtype, Geometry, NdError};

/// Bytes of items handled at a time when arrays are changed. A single chunk may be larger.
pub(crate) const BATCH: usize = 64 << 20;
/// Bytes of items read at a time from a source that allows only one thread. May be exceeded by one chunk per thread.
const READ_BATCH_LEN: usize = 8 << 20;
/// Bytes of items that one thread reads at a time from a shared source. May be exceeded by a single chunk.
const SHARED_READ_LEN: usize = 2 << 20;
/// Bytes of items in memory that one thread takes at a time. May be exceeded by a single chunk.
const MEMORY_BATCH_LEN: usize = 512 << 10;

/// A chunk that is ready to be put into a frame.
pub(crate) enum ProducedChunk {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Produces the chunks of an array.
pub(crate) struct ChunkProducer<'a> {
    geometry: &'a Geometry,
    dtype: &'a Dtype,
    cparams: CParams,
    control: &'a Control,
    buffers: Arc<Buffers>,
}

/// Neighbouring chunks of the grid, with consecutive numbers.
struct ChunkRun {
    /// Grid position of the first chunk.
    at: Vec<u64>,
    /// Their axis; `None` if there is only one.
    axis: Option<usize>,
    count: u64,
}

impl ChunkRun {
    fn position(&self, k: u64) -> Vec<u64> {
        let mut at = self.at.clone();
        if let Some(axis) = self.axis {
            at[axis] += k;
        }
        at
    }

    /// Returns the box of items that the chunks cover.
    fn items(&self, geometry: &Geometry) -> (Vec<u64>, Vec<u64>) {
        let (start, mut shape) = geometry.chunk_box(&self.at);
        if let Some(axis) = self.axis {
            let c = u64::from(geometry.chunkshape()[axis]);
            shape[axis] = (self.count * c).min(geometry.shape()[axis] - start[axis]);
        }
        (start, shape)
    }
}

/// Where the items of a run come from.
#[derive(Clone, Copy)]
enum Access<'s> {
    /// They are in memory. The position is that of the first item there.
    Memory(&'s StridedItems<'s>, &'s [u64]),
    Shared(&'s dyn SharedRegions),
}

impl<'a> ChunkProducer<'a> {
    /// `control` is that of the call; it counts the items of the produced chunks.
    pub(crate) fn new(
        geometry: &'a Geometry,
        dtype: &'a Dtype,
        cparams: &CParams,
        control: &'a Control,
    ) -> Result<Self, NdError> {
        let buffers = Arc::default();
        Ok(Self { geometry, dtype, cparams: controlled(cparams, control)?, control, buffers })
    }

    /// Produces the chunks in a box of the grid, except those that `skip` selects. `each` receives
    /// them with their numbers, in ascending order.
    pub(crate) fn run(
        &self,
        grid: &[Range<u64>],
        skip: impl Fn(&[u64]) -> bool + Send,
        source: &mut dyn RegionSource,
        mut each: impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        let (start, shape) = self.items_of(grid);
        let region = Region { whole: self.geometry.shape(), dtype: self.dtype, start: &start, shape: &shape };
        if let Some(items) = source.lend_region(&region) {
            return self.pipeline(grid, skip, Access::Memory(&items, &start), each);
        }
        if let Some(shared) = source.shared() {
            return self.pipeline(grid, skip, Access::Shared(shared), each);
        }
        self.in_turns(grid, skip, source, &mut each)
    }

    /// Produces chunks like [`run`](Self::run), from a source that any number of threads may read.
    pub(crate) fn run_shared(
        &self,
        grid: &[Range<u64>],
        skip: impl Fn(&[u64]) -> bool + Send,
        source: &dyn SharedRegions,
        each: impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        self.pipeline(grid, skip, Access::Shared(source), each)
    }

    /// Returns the box of items in a box of the grid.
    fn items_of(&self, grid: &[Range<u64>]) -> (Vec<u64>, Vec<u64>) {
        let g = self.geometry;
        let lengths = grid.iter().zip(g.chunkshape()).zip(g.shape());
        lengths
            .map(|((range, &c), &n)| {
                let start = range.start.saturating_mul(c.into()).min(n);
                (start, range.end.saturating_mul(c.into()).min(n) - start)
            })
            .unzip()
    }

    /// Produces chunks in a box of the grid. Each thread reads the items of its chunks itself.
    fn pipeline(
        &self,
        grid: &[Range<u64>],
        skip: impl Fn(&[u64]) -> bool + Send,
        access: Access<'_>,
        mut each: impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        let g = self.geometry;
        let most = match access {
            Access::Memory(..) => MEMORY_BATCH_LEN,
            Access::Shared(_) => SHARED_READ_LEN,
        };
        let most = (most / g.chunk_nbytes().max(1)).max(1) as u64;
        let runs = ChunkRuns::new(grid, skip, most);
        let (_, shape) = self.items_of(grid);
        let nbytes = product(shape).saturating_mul(g.itemsize() as u64);
        self.produce(runs, nbytes, |run| self.make(run, access), &mut each)
    }

    /// Makes the chunks of `runs` and passes them on in order.
    fn produce(
        &self,
        runs: impl Iterator<Item = ChunkRun> + Send,
        nbytes: u64,
        make: impl Fn(&ChunkRun) -> Result<Vec<Chunk>, NdError> + Sync,
        each: &mut (impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send),
    ) -> Result<(), NdError> {
        let make = |run: ChunkRun| Ok((make(&run)?, run));
        let each = |(chunks, run): (Vec<Chunk>, ChunkRun)| {
            for (k, chunk) in (0..).zip(chunks) {
                let at = run.position(k);
                each(linear(&at, self.geometry.grid()), ProducedChunk::Chunk(chunk))?;
                self.control.advance(self.nbytes_of(&at))?;
            }
            Ok(())
        };
        // Besides the results in progress, one result per thread may wait.
        let ahead = 2 * b2_core::workers(self.control);
        // Encoding a byte costs several times as much as decoding one.
        in_order(self.control, usize::MAX, nbytes.saturating_mul(4), ahead, runs, make, each)
    }

    fn make(&self, run: &ChunkRun, access: Access<'_>) -> Result<Vec<Chunk>, NdError> {
        let (start, shape) = run.items(self.geometry);
        let region = Region { whole: self.geometry.shape(), dtype: self.dtype, start: &start, shape: &shape };
        match access {
            Access::Memory(items, first) => {
                let at: Vec<u64> = start.iter().zip(first).map(|(start, first)| start - first).collect();
                self.compress_run(run, items, &at)
            }
            Access::Shared(source) => {
                if let Some(items) = source.lend_region(&region) {
                    return self.compress_run(run, &items, &vec![0; start.len()]);
                }
                if run.count == 1 && source.is_plain() && DirectBlocks::pays(self.geometry) {
                    let blocks = DirectBlocks::new(self.geometry, self.dtype, source, start, shape);
                    return Ok(vec![self.compress(&blocks, &run.at).map_err(|error| blocks.cause(error))?]);
                }
                self.buffers.with_plain(region.nbytes(), |plain| {
                    source.read_region(&region, plain).map_err(failed)?;
                    let items = StridedItems::packed(plain, &shape, self.geometry.itemsize())?;
                    self.compress_run(run, &items, &vec![0; start.len()])
                })
            }
        }
    }

    /// Compresses the chunks of a run whose first item is at `at` of `items`.
    fn compress_run(
        &self,
        run: &ChunkRun,
        items: &StridedItems<'_>,
        at: &[u64],
    ) -> Result<Vec<Chunk>, NdError> {
        let g = self.geometry;
        let compress = |k| {
            let position = run.position(k);
            let (_, shape) = g.chunk_box(&position);
            let mut at = at.to_vec();
            if let Some(axis) = run.axis {
                at[axis] += k * u64::from(g.chunkshape()[axis]);
            }
            self.compress(&ChunkItems::new(g, items, &at, shape), &position)
        };
        (0..run.count).map(compress).collect()
    }

    fn compress(&self, blocks: &dyn PlainBlocks, at: &[u64]) -> Result<Chunk, NdError> {
        let nchunk = usize::try_from(linear(at, self.geometry.grid())).unwrap_or(usize::MAX);
        self.buffers.compress(blocks, &self.cparams.for_chunk(nchunk))
    }

    /// Produces chunks from a source that only one thread may read at a time: batches are read and then compressed in
    /// parallel. The source may provide chunks in compressed form.
    fn in_turns(
        &self,
        grid: &[Range<u64>],
        skip: impl Fn(&[u64]) -> bool,
        source: &mut dyn RegionSource,
        each: &mut (impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send),
    ) -> Result<(), NdError> {
        let geometry = self.geometry;
        let (axis, row, outer) = rows(grid);
        let most = chunks_at_once(geometry.chunk_nbytes(), b2_core::workers(self.control));
        let mut buffer = Vec::new();
        for_each_position(&outer, |at| {
            let coords = |k: u64| ChunkRun { at: at.to_vec(), axis, count: 1 }.position(k - row.start);
            let number = |k: u64| linear(&coords(k), geometry.grid());
            let ask = |source: &mut dyn RegionSource, k| source.chunk(geometry, number(k)).map_err(failed);
            let mut k = row.start;
            // A ready chunk that the source returned while the previous batch was collected.
            let mut asked = None;
            while k < row.end {
                if asked.is_none() && skip(&coords(k)) {
                    k += 1;
                    continue;
                }
                let content = match asked.take() {
                    Some(content) => content,
                    None => ask(source, k)?,
                };
                let ready = match content {
                    ChunkContent::Special(kind) => Some(ProducedChunk::Special(kind)),
                    ChunkContent::Chunk(chunk) => {
                        check(geometry, &chunk)?;
                        Some(ProducedChunk::Chunk(chunk))
                    }
                    ChunkContent::Items => None,
                };
                if let Some(ready) = ready {
                    each(number(k), ready)?;
                    self.control.advance(self.nbytes_of(&coords(k)))?;
                    k += 1;
                    continue;
                }
                let mut count = 1;
                while count < most && k + count < row.end && !skip(&coords(k + count)) {
                    match ask(source, k + count)? {
                        ChunkContent::Items => count += 1,
                        other => {
                            asked = Some(other);
                            break;
                        }
                    }
                }
                let run = ChunkRun { at: coords(k), axis, count };
                self.batch(&run, source, &mut buffer, each)?;
                k += count;
            }
            Ok(())
        })
    }

    /// Returns the size in bytes of a chunk's items, without padding.
    fn nbytes_of(&self, coords: &[u64]) -> u64 {
        let (_, shape) = self.geometry.chunk_box(coords);
        product(shape).saturating_mul(self.geometry.itemsize() as u64)
    }

    /// Reads a run and compresses its chunks in parallel.
    fn batch(
        &self,
        run: &ChunkRun,
        source: &mut dyn RegionSource,
        buffer: &mut Vec<u8>,
        each: &mut (impl FnMut(u64, ProducedChunk) -> Result<(), NdError> + Send),
    ) -> Result<(), NdError> {
        let (start, shape) = run.items(self.geometry);
        let region = Region { whole: self.geometry.shape(), dtype: self.dtype, start: &start, shape: &shape };
        let items = match source.lend_region(&region) {
            Some(items) => items,
            None => {
                let items = sized(buffer, region.nbytes())?;
                source.read_region(&region, items).map_err(failed)?;
                StridedItems::packed(items, &shape, self.geometry.itemsize())?
            }
        };
        let runs = (0..run.count).map(|k| ChunkRun { at: run.position(k), axis: None, count: 1 });
        let nbytes = run.count.saturating_mul(self.geometry.chunk_nbytes() as u64);
        self.produce(runs, nbytes, |run| self.make(run, Access::Memory(&items, &start)), each)
    }
}

/// Returns the last axis along which a box of the grid has several chunks: neighbours along it have consecutive numbers.
fn row_axis(grid: &[Range<u64>]) -> Option<usize> {
    grid.iter().rposition(|range| range.end - range.start > 1)
}

/// Returns the axis of [`row_axis`], the range of positions along it, and the box with only the first of them.
fn rows(grid: &[Range<u64>]) -> (Option<usize>, Range<u64>, Vec<Range<u64>>) {
    let axis = row_axis(grid);
    let mut outer = grid.to_vec();
    let row = match axis {
        Some(axis) => {
            let first = grid[axis].start;
            std::mem::replace(&mut outer[axis], first..first + 1)
        }
        None => 0..1,
    };
    (axis, row, outer)
}

/// The chunks of a box of the grid in C order, in runs of at most `most`.
struct ChunkRuns<F> {
    grid: Vec<Range<u64>>,
    axis: Option<usize>,
    skip: F,
    most: u64,
    /// The next position; `None` at the end.
    next: Option<Vec<u64>>,
}

impl<F: Fn(&[u64]) -> bool> ChunkRuns<F> {
    fn new(grid: &[Range<u64>], skip: F, most: u64) -> Self {
        let axis = row_axis(grid);
        let next =
            (!grid.iter().any(Range::is_empty)).then(|| grid.iter().map(|range| range.start).collect());
        Self { grid: grid.to_vec(), axis, skip, most, next }
    }

    /// Advances by one chunk.
    fn advance(&mut self) {
        let Some(at) = &mut self.next else { return };
        for (at, range) in at.iter_mut().zip(&self.grid).rev() {
            *at += 1;
            if *at < range.end {
                return;
            }
            *at = range.start;
        }
        self.next = None;
    }
}

impl<F: Fn(&[u64]) -> bool> Iterator for ChunkRuns<F> {
    type Item = ChunkRun;

    fn next(&mut self) -> Option<ChunkRun> {
        while (self.skip)(self.next.as_ref()?) {
            self.advance();
        }
        let at = self.next.clone()?;
        let mut count = 1;
        self.advance();
        while count < self.most
            && let (Some(axis), Some(next)) = (self.axis, &self.next)
            && next[axis] == at[axis] + count
            && !(self.skip)(next)
        {
            count += 1;
            self.advance();
        }
        Some(ChunkRun { at, axis: self.axis, count })
    }
}

/// Returns the parameters for chunks that are made within a call: with its threads, but without its
/// progress callback.
pub(crate) fn controlled(cparams: &CParams, control: &Control) -> Result<CParams, NdError> {
    Ok(cparams.to_builder().control(control.quiet()).build()?)
}

/// Buffers that are reused because fresh memory would have to be mapped page by page.
#[derive(Debug, Default)]
struct Buffers {
    /// For compressed chunks.
    chunks: Mutex<Vec<Vec<u8>>>,
    /// For items read from a source.
    plain: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Compresses a chunk into a buffer that returns here when the chunk is dropped.
    fn compress(self: &Arc<Self>, blocks: &dyn PlainBlocks, cparams: &CParams) -> Result<Chunk, NdError> {
        let mut bytes = take(&self.chunks);
        sized(&mut bytes, (blocks.nbytes() + EXTENDED_HEADER_LEN) as u64)?;
        let mut lent = BorrowedBuffer { bytes, len: 0, home: self.clone() };
        lent.len = Chunk::compress_blocks_into(blocks, &mut lent.bytes, cparams)?;
        Ok(Chunk::from_bytes(Bytes::from_owner(lent))?)
    }

    /// Calls `work` with a buffer of `len` bytes whose content is arbitrary.
    fn with_plain<T>(
        &self,
        len: u64,
        work: impl FnOnce(&mut [u8]) -> Result<T, NdError>,
    ) -> Result<T, NdError> {
        let mut plain = take(&self.plain);
        let result = work(sized(&mut plain, len)?);
        put(&self.plain, plain);
        result
    }
}

fn take(pool: &Mutex<Vec<Vec<u8>>>) -> Vec<u8> {
    pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
}

fn put(pool: &Mutex<Vec<Vec<u8>>>, buffer: Vec<u8>) {
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
}

struct BorrowedBuffer {
    bytes: Vec<u8>,
    len: usize,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for BorrowedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for BorrowedBuffer {
    fn drop(&mut self) {
        put(&self.home.chunks, std::mem::take(&mut self.bytes));
    }
}

/// Returns the first `len` bytes of a buffer, whose content is arbitrary. Pages that are not written to cost nothing.
fn sized(buffer: &mut Vec<u8>, len: u64) -> Result<&mut [u8], NdError> {
    let too_large = || NdError::TooLarge { asked: len };
    let nbytes = usize::try_from(len).map_err(|_| too_large())?;
    memory::sized(buffer, nbytes).map_err(|_| too_large())
}

/// Returns how many chunks to read at a time: enough for all threads and for large reads, but no more
/// than can be addressed.
fn chunks_at_once(chunk_nbytes: usize, threads: usize) -> u64 {
    let nbytes = chunk_nbytes.max(1);
    (READ_BATCH_LEN / nbytes).max(threads).min(isize::MAX as usize / 2 / nbytes).max(1) as u64
}

/// Checks that a ready-made chunk has the sizes that C-Blosc2 requires for this array.
fn check(geometry: &Geometry, chunk: &Chunk) -> Result<(), NdError> {
    let (have, need) = (chunk.nbytes(), geometry.chunk_nbytes());
    let header = chunk.header();
    if have != need || header.is_vl() || header.blocksize() != geometry.block_nbytes() {
        return Err(NdError::argument(format!(
            "a chunk of {have} bytes in blocks of {} does not fit: the array has chunks of {need} in blocks of {}",
            header.blocksize(),
            geometry.block_nbytes()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_at_once_can_be_addressed() {
        for chunk_nbytes in [0, 1, 1000, READ_BATCH_LEN, 64 << 20, 1 << 30, i32::MAX as usize - 32] {
            for threads in [1, 2, 64] {
                let chunks = chunks_at_once(chunk_nbytes, threads);
                assert!(chunks >= 1, "{chunk_nbytes} {threads}");
                let nbytes = chunks * chunk_nbytes as u64;
                assert!(chunks == 1 || nbytes <= isize::MAX as u64 / 2, "{chunk_nbytes} {threads}");
            }
        }
        assert_eq!(chunks_at_once(1 << 20, 2), 8);
        assert_eq!(chunks_at_once(16 << 20, 4), 4);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let mut buffer = vec![1, 2];
        assert_eq!(sized(&mut buffer, 2).unwrap(), [1, 2]);
        assert_eq!(sized(&mut buffer, 3).unwrap(), [0; 3]);
        // A 32-bit machine may be able to allocate 2 GiB.
        for len in [u64::max(isize::MAX as u64, 1 << 40), u64::MAX] {
            assert!(matches!(sized(&mut buffer, len), Err(NdError::TooLarge { asked }) if asked == len));
        }
    }
}
