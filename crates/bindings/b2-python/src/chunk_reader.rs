//! Reading blocks of one chunk whose bytes the caller fetches: finds the blocks, and decodes them. For chunks that
//! Zarr stores, of C-Blosc 1 and Blosc2. Nothing here waits for I/O.

use std::ops::Range;

use b2_core::for_each;
use b2kit::chunk::{ChunkError, Container, DParams, LazyChunk, LazyHead};
use b2kit::{Control, Limits};
use bytes::Bytes;
use numpy::{PyReadonlyArray1, PyReadwriteArray1, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::control::How;
use crate::errors::{OrRaise, argument, exception};
use crate::options::plugins;
use crate::runs::Runs;
use crate::source::bytes_of;

/// Blocks whose stored bytes have at least this many in total are decoded by several threads, and interruptibly.
const LONG: usize = 1 << 20;

/// A chunk whose header and block starts are known.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct ChunkReader {
    lazy: LazyChunk,
    dparams: DParams,
}

/// Stored bytes of a chunk, by their offset.
type Part = (u64, Bytes);

/// Returns the stored bytes `range` of the chunk, if one of the parts has them.
fn stored(parts: &[Part], range: &Range<usize>) -> Option<Bytes> {
    if range.is_empty() {
        return Some(Bytes::new());
    }
    let after = parts.partition_point(|(start, _)| *start <= range.start as u64);
    let (start, bytes) = parts.get(after.checked_sub(1)?)?;
    let from = usize::try_from((range.start as u64).checked_sub(*start)?).ok()?;
    let to = from.checked_add(range.len())?;
    (to <= bytes.len()).then(|| bytes.slice(from..to))
}

impl ChunkReader {
    fn decode_blocks(
        &self,
        blocks: Vec<(usize, Bytes)>,
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), ChunkError> {
        let (mut rest, mut at, mut work) = (dst, 0usize, 0u64);
        let mut items = Vec::with_capacity(blocks.len());
        for (nblock, bytes) in blocks {
            let range = self.lazy.block_range(nblock);
            // Blocks are in order, so each is after the previous one.
            let skip = range.start.saturating_sub(at).min(rest.len());
            let (_, behind) = std::mem::take(&mut rest).split_at_mut(skip);
            let (block, behind) = behind.split_at_mut(range.len().min(behind.len()));
            (rest, at) = (behind, range.end);
            work = work.saturating_add(block.len() as u64);
            items.push((nblock, bytes, block));
        }
        let decoder = || self.lazy.decoder(&self.dparams);
        for_each(control, usize::MAX, items.into_iter(), work, decoder, |decoder, (nblock, bytes, block)| {
            decoder.decode(nblock, &bytes, None, block)?;
            Ok(control.advance(block.len() as u64)?)
        })
    }

    /// Copies the selected bytes of `blocks`, which are all those that have any, to `dst`, which is as long as they are.
    fn decode_runs(
        &self,
        blocks: Vec<(usize, Bytes)>,
        runs: &Runs,
        mut dst: &mut [u8],
        control: &Control,
    ) -> Result<(), ChunkError> {
        let mut work = 0u64;
        let mut items = Vec::with_capacity(blocks.len());
        for (nblock, bytes) in blocks {
            let place = self.lazy.block_range(nblock);
            let selected = (runs.before(place.end) - runs.before(place.start)).min(dst.len());
            let (now, behind) = std::mem::take(&mut dst).split_at_mut(selected);
            dst = behind;
            work = work.saturating_add(place.len() as u64);
            items.push((nblock, bytes, place, now));
        }
        // Blocks of which only a part is selected are decoded to memory of the thread.
        let state = || Ok((self.lazy.decoder(&self.dparams)?, Vec::new()));
        for_each(control, usize::MAX, items.into_iter(), work, state, |state, (nblock, bytes, place, dst)| {
            let (decoder, block) = state;
            if dst.len() == place.len() {
                decoder.decode(nblock, &bytes, None, dst)?;
            } else {
                block.resize(place.len(), 0);
                decoder.decode(nblock, &bytes, None, block)?;
                runs.copy(&place, block, dst);
            }
            Ok(control.advance(place.len() as u64)?)
        })
    }

    /// Returns the stored bytes of blocks, which can be decoded one by one.
    fn stored(
        &self,
        py: Python<'_>,
        nblocks: impl Iterator<Item = usize>,
        parts: &[(u64, Bound<'_, PyAny>)],
    ) -> PyResult<Vec<(usize, Bytes)>> {
        if self.is_whole() {
            return Err(argument(py, "the blocks of this chunk cannot be decoded one by one"));
        }
        let mut bytes = Vec::with_capacity(parts.len());
        for (start, part) in parts {
            match bytes_of(part)? {
                Some(part) => bytes.push((*start, part)),
                None => return Err(argument(py, "these are no bytes")),
            }
        }
        bytes.sort_unstable_by_key(|(start, _)| *start);
        let found = |nblock| match stored(&bytes, &self.lazy.block_extent(nblock)) {
            Some(stored) => Ok((nblock, stored)),
            None => Err(exception(py, "DamagedError", "the chunk is shorter than its header says")),
        };
        nblocks.map(found).collect()
    }

    /// Returns how these blocks are decoded: by several threads and interruptibly, if they are many.
    fn how(&self, blocks: &[(usize, Bytes)]) -> How {
        let long = blocks.len().saturating_mul(self.blocksize()) >= LONG;
        if long { How::threads(None) } else { How::short(Some(1)) }
    }

    /// Returns the numbers of the marked blocks.
    fn marked(&self, py: Python<'_>, marks: &PyReadonlyArray1<'_, bool>) -> PyResult<Vec<usize>> {
        let marks = marks.as_array();
        if marks.len() != self.lazy.nblocks() {
            let what = format!("{} marks for {} blocks", marks.len(), self.lazy.nblocks());
            return Err(argument(py, what));
        }
        Ok(marks.iter().enumerate().filter(|(_, mark)| **mark).map(|(nblock, _)| nblock).collect())
    }
}

#[pymethods]
impl ChunkReader {
    /// Parses the first bytes of a chunk, which has at most `available` bytes. Returns a reader, or how many of its
    /// first bytes are needed. `itemsize` and `blocks` are those of the array that the chunk belongs to, if it is one of
    /// a frame.
    #[staticmethod]
    #[pyo3(signature = (head, available, itemsize = None, blocks = None))]
    fn parse<'py>(
        py: Python<'py>,
        head: &Bound<'py, PyAny>,
        available: u64,
        itemsize: Option<usize>,
        blocks: Option<Vec<u32>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(bytes) = bytes_of(head)? else {
            return Err(argument(py, "these are no bytes"));
        };
        let have = bytes.len();
        let container = Container::default().itemsize(itemsize).blockshape(blocks.unwrap_or_default());
        let dparams = DParams::default().plugins(plugins()).limits(Limits::default()).container(container);
        let need = match LazyChunk::parse(&bytes, available, &dparams).or_raise(py)? {
            LazyHead::Ready(lazy) if lazy.header().is_vl() && have < lazy.header().cbytes() => {
                lazy.header().cbytes()
            }
            LazyHead::Ready(lazy) => {
                return Ok(Py::new(py, Self { lazy, dparams })?.into_bound(py).into_any());
            }
            LazyHead::Need(len) => len,
            // The header has been parsed, or this would have failed.
            LazyHead::Whole => b2kit::chunk::ChunkHeader::parse(&bytes).or_raise(py)?.cbytes(),
        };
        if need <= have || need as u64 > available {
            return Err(exception(py, "DamagedError", "the chunk is shorter than its header says"));
        }
        need.into_bound_py_any(py)
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.lazy.header().nbytes()
    }

    #[getter]
    fn cbytes(&self) -> usize {
        self.lazy.header().cbytes()
    }

    #[getter]
    fn nblocks(&self) -> usize {
        self.lazy.nblocks()
    }

    #[getter]
    fn blocksize(&self) -> usize {
        self.lazy.blocksize()
    }

    /// Returns whether only whole chunks can be decoded, because blocks refer to each other or have no fixed lengths.
    #[getter]
    fn is_whole(&self) -> bool {
        self.lazy.needs_block0() || self.lazy.header().is_vl()
    }

    /// Returns the ranges of stored bytes to fetch for the marked blocks, in order. Ranges with at most `gap` bytes
    /// in between are joined.
    fn ranges(
        &self,
        py: Python<'_>,
        marks: PyReadonlyArray1<'_, bool>,
        gap: usize,
    ) -> PyResult<Vec<(usize, usize)>> {
        let blocks = self.marked(py, &marks)?;
        let mut extents: Vec<Range<usize>> = blocks
            .into_iter()
            .map(|nblock| self.lazy.block_extent(nblock))
            .filter(|e| !e.is_empty())
            .collect();
        // Threads of C-Blosc store blocks in the order in which they end.
        extents.sort_unstable_by_key(|extent| extent.start);
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for extent in extents {
            match ranges.last_mut() {
                Some((_, end)) if extent.start <= end.saturating_add(gap) => *end = (*end).max(extent.end),
                _ => ranges.push((extent.start, extent.end)),
            }
        }
        Ok(ranges)
    }

    /// Decodes the marked blocks to their places in `out`, which has the size of the chunk. `parts` are stored bytes by
    /// their offsets. Other bytes of `out` are not touched.
    fn decode(
        &self,
        py: Python<'_>,
        marks: PyReadonlyArray1<'_, bool>,
        parts: Vec<(u64, Bound<'_, PyAny>)>,
        mut out: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let blocks = self.stored(py, self.marked(py, &marks)?.into_iter(), &parts)?;
        let (nbytes, have) = (self.nbytes(), out.len());
        let Some(dst) = out.as_slice_mut().ok().filter(|out| out.len() == nbytes) else {
            return Err(argument(py, format!("out has {have} bytes, but the chunk {nbytes}")));
        };
        let how = self.how(&blocks);
        how.run(py, |control| self.decode_blocks(blocks, dst, &control.begin(nbytes as u64, 1)))
    }

    /// Decodes the selected bytes of the chunk to `out`: runs of `run` bytes in ascending order, of which the first begins at
    /// `base`. `steps` are numbers of runs and their distances in bytes, the longest distance first. `parts` are as for
    /// `decode`.
    fn decode_runs_into(
        &self,
        py: Python<'_>,
        base: usize,
        steps: Vec<(usize, usize)>,
        run: usize,
        parts: Vec<(u64, Bound<'_, PyAny>)>,
        mut out: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let Some(runs) = Runs::new(base, &steps, run, self.nbytes()) else {
            return Err(argument(py, "these runs are not in the chunk, or not in order"));
        };
        let selected = |nblock: &usize| {
            let place = self.lazy.block_range(*nblock);
            runs.before(place.start) < runs.before(place.end)
        };
        let blocks = self.stored(py, (0..self.lazy.nblocks()).filter(selected), &parts)?;
        let (nbytes, have) = (runs.len(), out.len());
        let Some(dst) = out.as_slice_mut().ok().filter(|out| out.len() == nbytes) else {
            return Err(argument(py, format!("out has {have} bytes, but the selection {nbytes}")));
        };
        let how = self.how(&blocks);
        how.run(py, |control| self.decode_runs(blocks, &runs, dst, &control.begin(nbytes as u64, 1)))
    }
}
