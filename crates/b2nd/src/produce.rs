//! From items to compressed chunks, several at once, in bounded memory.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use b2_chunk::{CParams, Chunk, EXTENDED_HEADER_LEN, SpecialKind, memory, parallel};
use bytes::Bytes;

use crate::cut::Cut;
use crate::geometry::{for_each_position, product, strides};
use crate::moves::linear;
use crate::source::{ChunkContent, Region, RegionSource};
use crate::{Geometry, NdError};

/// Bytes of items handled at once when arrays are changed, as far as a single chunk is not larger.
pub(crate) const BATCH: usize = 64 << 20;
/// Bytes of items read from a source at once, as far as a chunk for each thread is not more.
const READ: usize = 8 << 20;

/// A chunk on its way into a frame.
pub(crate) enum Produced {
    Special(SpecialKind),
    Chunk(Chunk),
}

/// Which chunks are made.
pub(crate) struct Job<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) cparams: &'a CParams,
    /// A box of places in the grid.
    pub(crate) grid: &'a [Range<u64>],
    /// Places in the box to leave out.
    pub(crate) skip: &'a dyn Fn(&[u64]) -> bool,
}

impl Job<'_> {
    /// Makes the chunks, in the order of their numbers, which `each` gets too.
    pub(crate) fn run(
        &self,
        source: &mut dyn RegionSource,
        mut each: impl FnMut(u64, Produced) -> Result<(), NdError> + Send,
    ) -> Result<(), NdError> {
        let geometry = self.geometry;
        // Chunks that follow each other along `axis` are neighbours in the file too: behind it there is one.
        let axis = self.grid.iter().rposition(|range| range.end - range.start > 1);
        let row = axis.map_or(0..1, |axis| self.grid[axis].clone());
        let mut outer = self.grid.to_vec();
        if let Some(axis) = axis {
            outer[axis] = 0..1;
        }
        let most = chunks_at_once(geometry.chunk_nbytes(), threads());
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
            let ask =
                |source: &mut dyn RegionSource, k| source.chunk(geometry, number(k)).map_err(NdError::Source);
            let mut k = row.start;
            // An answer that ended a batch.
            let mut asked = None;
            while k < row.end {
                if asked.is_none() && (self.skip)(&coords(k)) {
                    k += 1;
                    continue;
                }
                let content = match asked.take() {
                    Some(content) => content,
                    None => ask(source, k)?,
                };
                match content {
                    ChunkContent::Special(kind) => {
                        each(number(k), Produced::Special(kind))?;
                        k += 1;
                        continue;
                    }
                    ChunkContent::Chunk(chunk) => {
                        check(geometry, &chunk)?;
                        each(number(k), Produced::Chunk(chunk))?;
                        k += 1;
                        continue;
                    }
                    ChunkContent::Items => {}
                }
                let mut count = 1;
                while count < most && k + count < row.end && !(self.skip)(&coords(k + count)) {
                    match ask(source, k + count)? {
                        ChunkContent::Items => count += 1,
                        other => {
                            asked = Some(other);
                            break;
                        }
                    }
                }
                self.batch(&coords(k), axis, count, source, (&mut buffer, &buffers), |n, chunk| {
                    each(number(k + n), Produced::Chunk(chunk))
                })?;
                k += count;
            }
            Ok(())
        })
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
        let read;
        let region = match source.region(geometry, &start, &shape) {
            Some(region) => region,
            None => {
                let nbytes = product(shape.iter().copied()).saturating_mul(geometry.itemsize() as u64);
                let items = grown(buffer, nbytes)?;
                source.read_region(geometry, &start, &shape, items).map_err(NdError::Source)?;
                read = &*items;
                let strides = strides(shape.iter().map(|&n| n as usize), geometry.itemsize());
                let strides: Vec<usize> = strides.into_iter().map(|stride| stride as usize).collect();
                Region::new(read, &shape, geometry.itemsize(), 0, strides)?
            }
        };
        let compress = |k: u64| {
            let mut at = vec![0; shape.len()];
            let mut part = shape.clone();
            if let Some(axis) = axis {
                let c = u64::from(geometry.chunkshape()[axis]);
                at[axis] = k * c;
                part[axis] = (shape[axis] - at[axis]).min(c);
            }
            let cut = Cut::new(geometry, &region, &at, part);
            with_scratch(geometry.chunk_nbytes(), |plain| {
                cut.chunk(plain);
                buffers.compress(plain, self.cparams)
            })
        };
        in_order(count, geometry.chunk_nbytes() as u64, compress, each)
    }
}

/// Memory of compressed chunks, used again: fresh memory would have to be mapped page by page.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A compressed chunk, whose memory comes back when the chunk is dropped.
    fn compress(self: &Arc<Self>, plain: &[u8], cparams: &CParams) -> Result<Chunk, NdError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = kept.unwrap_or_default();
        let need = plain.len() + EXTENDED_HEADER_LEN;
        if bytes.len() < need {
            bytes = Vec::new();
            grown(&mut bytes, need as u64)?;
        }
        let mut lent = Lent { bytes, len: 0, home: self.clone() };
        lent.len = Chunk::compress_into(plain, &mut lent.bytes, cparams)?;
        Ok(Chunk::parse(Bytes::from_owner(lent))?)
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
    /// The chunk that this thread cut last; fresh memory would have to be mapped for each.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Largest chunk whose memory is kept, in bytes.
const LARGEST_KEPT: usize = 16 << 20;

/// Calls back with a buffer of any content.
fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> Result<T, NdError>) -> Result<T, NdError> {
    // The callback may come back here, on a thread that helps itself to other work.
    let mut plain = PLAIN.take();
    let result = work(grown(&mut plain, len as u64)?);
    if plain.len() <= LARGEST_KEPT {
        PLAIN.replace(plain);
    }
    result
}

/// The first `len` bytes of a buffer, which grows if it has to.
fn grown(buffer: &mut Vec<u8>, len: u64) -> Result<&mut [u8], NdError> {
    let too_large = || NdError::TooLarge { asked: len };
    let nbytes = usize::try_from(len).map_err(|_| too_large())?;
    let more = nbytes.saturating_sub(buffer.len());
    memory::reserve(buffer, more).map_err(|_| too_large())?;
    buffer.resize(buffer.len() + more, 0);
    Ok(&mut buffer[..nbytes])
}

/// How many chunks are read at once: enough for all threads, and for reading in large pieces, but no more than can
/// be addressed.
fn chunks_at_once(chunk_nbytes: usize, threads: usize) -> u64 {
    let nbytes = chunk_nbytes.max(1);
    (READ / nbytes).max(threads).min(isize::MAX as usize / 2 / nbytes).max(1) as u64
}

/// Makes results for `0..count` in parallel; `each` gets them in order, on whatever thread, while others are made.
/// `nbytes`: of each.
fn in_order<T: Send, E: FnMut(u64, T) -> Result<(), NdError> + Send>(
    count: u64,
    nbytes: u64,
    make: impl Fn(u64) -> Result<T, NdError> + Sync,
    each: E,
) -> Result<(), NdError> {
    struct Made<T> {
        results: Vec<Option<T>>,
        /// The first one that was not taken yet.
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
    // Who makes the next one takes all that are ready; others go on making.
    let hand_over = |each: &mut E| -> Result<(), NdError> {
        while let Some((k, result)) = take() {
            each(k, result)?;
        }
        Ok(())
    };
    // Encoding a byte costs several times what decoding one does.
    parallel::for_each(
        0..count,
        count.saturating_mul(nbytes).saturating_mul(4),
        || Ok(()),
        |(), k| {
            let result = make(k)?;
            made.lock().unwrap_or_else(PoisonError::into_inner).results[k as usize] = Some(result);
            each.try_lock().map_or(Ok(()), |mut each| hand_over(&mut each))
        },
    )?;
    // What was ready while somebody was handing over.
    hand_over(&mut each.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What C-Blosc2 needs of a chunk that was not compressed for this array.
fn check(geometry: &Geometry, chunk: &Chunk) -> Result<(), NdError> {
    let (have, need) = (chunk.nbytes(), geometry.chunk_nbytes());
    let header = chunk.header();
    if have != need || header.is_vl() || header.blocksize() != geometry.block_nbytes() {
        return Err(NdError::geometry(format!(
            "a chunk of {have} bytes in blocks of {} does not fit an array with chunks of {need} in blocks of {}",
            header.blocksize(),
            geometry.block_nbytes()
        )));
    }
    Ok(())
}

/// Threads at hand.
fn threads() -> usize {
    #[cfg(feature = "rayon")]
    return rayon::current_num_threads();
    #[cfg(not(feature = "rayon"))]
    return 1;
}

/// Results of `work` for `0..count`, in order.
pub(crate) fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    #[cfg(feature = "rayon")]
    if count > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        // A batch is a few dozen chunks.
        return (0..count as usize).into_par_iter().with_max_len(1).map(|k| work(k as u64)).collect();
    }
    (0..count).map(work).collect()
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
        // With sizes of 32 bits there may well be 2 GiB.
        for len in [u64::max(isize::MAX as u64, 1 << 40), u64::MAX] {
            assert!(matches!(grown(&mut buffer, len), Err(NdError::TooLarge { asked }) if asked == len));
        }
    }
}
