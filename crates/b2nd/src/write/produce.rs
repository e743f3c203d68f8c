//! Turns items into compressed chunks, several at once, in bounded memory.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use b2_chunk::{CParams, Chunk, EXTENDED_HEADER_LEN, SpecialKind};
use b2_core::{Control, memory};
use bytes::Bytes;

use crate::model::geometry::{for_each_position, product};
use crate::select::moves::linear;
use crate::write::cut::Cut;
use crate::write::source::{ChunkContent, Region, RegionSource, Strided, failed};
use crate::{Dtype, Geometry, NdError};

/// Bytes of items handled at once when arrays are changed. A single chunk may be larger.
pub(crate) const BATCH: usize = 64 << 20;
/// Bytes of items read from a source at once. One chunk per thread may be more.
const READ: usize = 8 << 20;

/// A chunk that is ready to be put into a frame.
pub(crate) enum Produced {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Produces the chunks of an array.
pub(crate) struct ChunkProducer<'a> {
    geometry: &'a Geometry,
    dtype: &'a Dtype,
    cparams: CParams,
    control: &'a Control,
}

impl<'a> ChunkProducer<'a> {
    /// `control` is that of the call; it counts the items of the produced chunks.
    pub(crate) fn new(
        geometry: &'a Geometry,
        dtype: &'a Dtype,
        cparams: &CParams,
        control: &'a Control,
    ) -> Result<Self, NdError> {
        Ok(Self { geometry, dtype, cparams: controlled(cparams, control)?, control })
    }

    /// Produces the chunks in a box of the grid, except those that `skip` selects. `each` receives
    /// them with their numbers, in ascending order.
    pub(crate) fn run(
        &self,
        grid: &[Range<u64>],
        skip: impl Fn(&[u64]) -> bool,
        source: &mut dyn RegionSource,
        mut each: impl FnMut(u64, Produced) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        let geometry = self.geometry;
        // The last axis along which the box has several chunks: neighbours along it have
        // consecutive numbers.
        let axis = grid.iter().rposition(|range| range.end - range.start > 1);
        let row = axis.map_or(0..1, |axis| grid[axis].clone());
        let mut outer = grid.to_vec();
        if let Some(axis) = axis {
            outer[axis] = 0..1;
        }
        let most = chunks_at_once(geometry.chunk_nbytes(), b2_core::workers(self.control));
        let mut buffer = Vec::new();
        let buffers = Arc::default();
        for_each_position(&outer, |at| {
            let coords = |k: u64| {
                let mut coords = at.to_vec();
                if let Some(axis) = axis {
                    coords[axis] = k;
                }
                coords
            };
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
                    ChunkContent::Special(kind) => Some(Produced::Special(kind)),
                    ChunkContent::Chunk(chunk) => {
                        check(geometry, &chunk)?;
                        Some(Produced::Chunk(chunk))
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
                self.batch(&coords(k), axis, count, source, (&mut buffer, &buffers), |n, chunk| {
                    each(number(k + n), Produced::Chunk(chunk))?;
                    Ok(self.control.advance(self.nbytes_of(&coords(k + n)))?)
                })?;
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

    /// Compresses `count` chunks along `axis` in parallel.
    fn batch(
        &self,
        first: &[u64],
        axis: Option<usize>,
        count: u64,
        source: &mut dyn RegionSource,
        (buffer, buffers): (&mut Vec<u8>, &Arc<Buffers>),
        each: impl FnMut(u64, Chunk) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        let geometry = self.geometry;
        let (start, mut shape) = geometry.chunk_box(first);
        if let Some(axis) = axis {
            let c = u64::from(geometry.chunkshape()[axis]);
            shape[axis] = (count * c).min(geometry.shape()[axis] - start[axis]);
        }
        let region = Region { whole: geometry.shape(), dtype: self.dtype, start: &start, shape: &shape };
        let items = match source.lend_region(&region) {
            Some(items) => items,
            None => {
                let nbytes = region.nitems().saturating_mul(geometry.itemsize() as u64);
                let items = grown(buffer, nbytes)?;
                source.read_region(&region, items).map_err(failed)?;
                Strided::packed(items, &shape, geometry.itemsize())?
            }
        };
        let nchunk = |k: u64| {
            let mut at = first.to_vec();
            if let Some(axis) = axis {
                at[axis] += k;
            }
            usize::try_from(linear(&at, geometry.grid())).unwrap_or(usize::MAX)
        };
        let compress = |k: u64| {
            let mut at = vec![0; shape.len()];
            let mut part = shape.clone();
            if let Some(axis) = axis {
                let c = u64::from(geometry.chunkshape()[axis]);
                at[axis] = k * c;
                part[axis] = (shape[axis] - at[axis]).min(c);
            }
            let cut = Cut::new(geometry, &items, &at, part);
            with_scratch(geometry.chunk_nbytes(), |plain| {
                cut.chunk(plain);
                buffers.compress(plain, &self.cparams.for_chunk(nchunk(k)))
            })
        };
        in_order(self.control, count, geometry.chunk_nbytes() as u64, compress, each)
    }
}

/// Returns the parameters for chunks that are made within a call: with its threads, but without its
/// progress callback.
pub(crate) fn controlled(cparams: &CParams, control: &Control) -> Result<CParams, NdError> {
    Ok(cparams.to_builder().control(control.quiet()).build()?)
}

/// Buffers of compressed chunks, reused because fresh memory would have to be mapped page by page.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Compresses a chunk into a buffer that returns here when the chunk is dropped.
    fn compress(self: &Arc<Self>, plain: &[u8], cparams: &CParams) -> Result<Chunk, NdError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = kept.unwrap_or_default();
        let need = plain.len() + EXTENDED_HEADER_LEN;
        if bytes.len() < need {
            bytes = Vec::new();
            grown(&mut bytes, need as u64)?;
        }
        let mut lent = Lent { bytes, len: 0, home: self.clone() };
        lent.len = Chunk::compress_bytes_into(plain, &mut lent.bytes, cparams)?;
        Ok(Chunk::from_bytes(Bytes::from_owner(lent))?)
    }
}

struct Lent {
    bytes: Vec<u8>,
    len: usize,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

thread_local! {
    /// The buffer for the chunk that this thread splits into blocks, kept because fresh memory
    /// would have to be mapped.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are not kept, in bytes.
const LARGEST_KEPT: usize = 16 << 20;

/// Calls `work` with a buffer whose content is arbitrary.
fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> Result<T, NdError>) -> Result<T, NdError> {
    // Take the buffer: `work` may end up here again, if this thread helps with other work while it
    // waits.
    let mut plain = PLAIN.take();
    let result = work(grown(&mut plain, len as u64)?);
    if plain.len() <= LARGEST_KEPT {
        PLAIN.replace(plain);
    }
    result
}

/// Returns the first `len` bytes of a buffer, growing it if needed.
fn grown(buffer: &mut Vec<u8>, len: u64) -> Result<&mut [u8], NdError> {
    let too_large = || NdError::TooLarge { asked: len };
    let nbytes = usize::try_from(len).map_err(|_| too_large())?;
    let more = nbytes.saturating_sub(buffer.len());
    memory::reserve(buffer, more).map_err(|_| too_large())?;
    buffer.resize(buffer.len() + more, 0);
    Ok(&mut buffer[..nbytes])
}

/// Returns how many chunks to read at once: enough for all threads and for large reads, but no more
/// than can be addressed.
fn chunks_at_once(chunk_nbytes: usize, threads: usize) -> u64 {
    let nbytes = chunk_nbytes.max(1);
    (READ / nbytes).max(threads).min(isize::MAX as usize / 2 / nbytes).max(1) as u64
}

/// Makes results for `0..count` in parallel. `each` receives them in order, on any thread, while
/// others are still being made. `nbytes` is the size of one result.
fn in_order<T: Send, E: FnMut(u64, T) -> Result<(), NdError> + Send>(
    control: &Control,
    count: u64,
    nbytes: u64,
    make: impl Fn(u64) -> Result<T, NdError> + Sync,
    each: E,
) -> Result<(), NdError> {
    struct Made<T> {
        results: Vec<Option<T>>,
        /// Index of the first result that `each` has not received.
        next: usize,
    }
    let made = Mutex::new(Made { results: (0..count).map(|_| None).collect(), next: 0 });
    let take = || {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let next = made.next;
        let result = made.results.get_mut(next)?.take()?;
        made.next += 1;
        Some((next as u64, result))
    };
    let each = Mutex::new(each);
    // A thread that has made the next result also delivers all others that are ready, while the
    // rest keep making.
    let hand_over = |each: &mut E| -> Result<(), NdError> {
        while let Some((k, result)) = take() {
            each(k, result)?;
        }
        Ok(())
    };
    // Encoding a byte costs several times as much as decoding one.
    b2_core::for_each(
        control,
        usize::MAX,
        0..count,
        count.saturating_mul(nbytes).saturating_mul(4),
        || Ok(()),
        |(), k| {
            let result = make(k)?;
            made.lock().unwrap_or_else(PoisonError::into_inner).results[k as usize] = Some(result);
            each.try_lock().map_or(Ok(()), |mut each| hand_over(&mut each))
        },
    )?;
    // Deliver results that became ready while another thread was delivering.
    hand_over(&mut each.into_inner().unwrap_or_else(PoisonError::into_inner))
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

/// Returns the results of `work` for `0..count`, in order.
pub(crate) fn in_parallel<T: Send>(
    control: &Control,
    count: u64,
    work: impl Fn(u64) -> T + Sync,
) -> Result<Vec<T>, NdError> {
    // A batch has a few dozen chunks at most.
    let mut results = memory::collect((0..count).map(|_| None))?;
    let slots = results.iter_mut().zip(0..);
    b2_core::for_each(
        control,
        usize::MAX,
        slots,
        u64::MAX,
        || Ok::<_, NdError>(()),
        |(), (slot, k)| {
            *slot = Some(work(k));
            Ok(())
        },
    )?;
    Ok(results.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_at_once_can_be_addressed() {
        for chunk_nbytes in [0, 1, 1000, READ, 64 << 20, 1 << 30, i32::MAX as usize - 32] {
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
        assert_eq!(grown(&mut buffer, 3).unwrap(), [1, 2, 0]);
        assert_eq!(grown(&mut buffer, 2).unwrap(), [1, 2]);
        // A 32-bit machine may well have 2 GiB.
        for len in [u64::max(isize::MAX as u64, 1 << 40), u64::MAX] {
            assert!(matches!(grown(&mut buffer, len), Err(NdError::TooLarge { asked }) if asked == len));
        }
    }
}
