//! The items of a data set: where they are stored, and how they are read.

use std::sync::{Arc, Mutex, PoisonError};

use b2_core::{Control, Limits, memory};
use bytes::Bytes;

use super::buffers::Buffers;
use super::chunks::Chunks;
use super::header::Below;
use super::items::Items;
use super::slots::ChunkRecord;
use crate::Hdf5Error;
use crate::boxes::{BoxBounds, Place, Row, RowsOfPieces, SharedRows, copy_shared, product, strides};
use crate::filters::{Pipeline, blosc};

/// Maximum bytes of cached chunks of which only a part was requested.
const MAX_CACHED_LEN: usize = 64 << 20;

/// Rows of at least this many bytes are decoded directly to the result; blocks with shorter rows are decoded to a buffer first.
const LONG_ROW: usize = 1024;

/// Results of at least this many bytes are written with stores that bypass the caches.
const STREAMED: usize = 8 << 20;

/// Where items are stored.
pub(super) enum Stores {
    /// They were never written.
    Nothing,
    Memory(Vec<u8>),
    /// From this byte of the file on.
    Contiguous(u64),
    Chunks {
        chunks: Arc<Chunks>,
        pipeline: Pipeline,
        has_plain_edges: bool,
    },
}

/// A chunk of which a part was requested.
#[derive(Clone)]
pub(super) enum CachedChunk {
    /// As stored: for the first part, only the blocks that it touches were decoded.
    Stored(Bytes),
    Plain(Arc<Vec<u8>>),
}

impl CachedChunk {
    fn len(&self) -> usize {
        match self {
            Self::Stored(bytes) => bytes.len(),
            Self::Plain(plain) => plain.len(),
        }
    }
}

/// The items of a data set.
pub(crate) struct Data {
    pub(super) path: String,
    pub(super) below: Arc<Below>,
    pub(super) limits: Limits,
    /// The shape in HDF5, without the dimensions of an item.
    pub(super) shape: Vec<u64>,
    /// The shape of the array, which is longer along netCDF dimensions that other variables have extended.
    pub(super) extent: Vec<u64>,
    pub(super) items: Items,
    /// The stored bytes of an item that was never written; `None` for zeros.
    pub(super) fill: Option<Vec<u8>>,
    /// The same for an item outside HDF5's shape.
    pub(super) beyond: Option<Vec<u8>>,
    pub(super) place: Stores,
    /// Chunks of which parts were requested, and their positions in the grid, the most recent one last.
    pub(super) cache: Mutex<Vec<(Vec<u64>, CachedChunk)>>,
    /// Memory of chunks that were read and decoded.
    pub(super) buffers: Arc<Buffers>,
}

impl Data {
    /// Begins a call with a new budget for metadata.
    pub(crate) fn begin(&self) {
        self.below.pages.begin();
    }

    /// Reads the whole index of the chunks.
    pub(crate) fn load(&self) -> Result<(), Hdf5Error> {
        match &self.place {
            Stores::Chunks { chunks, .. } => chunks.check().map_err(|what| self.damaged(what)),
            _ => Ok(()),
        }
    }

    /// Returns the stored chunks: the position in the grid and the location of each.
    pub(crate) fn stored_chunks(&self) -> Result<Vec<(Vec<u64>, ChunkRecord)>, Hdf5Error> {
        match &self.place {
            Stores::Chunks { chunks, .. } => chunks.stored().map_err(|what| self.damaged(what)),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns where a stored chunk starts in the file.
    pub(crate) fn position(&self, stored: ChunkRecord) -> u64 {
        self.below.pages.position(stored.address)
    }

    /// Bytes of the chunks.
    pub(crate) fn chunks_nbytes(&self) -> u64 {
        match &self.place {
            Stores::Chunks { chunks, .. } => chunks.nbytes(),
            _ => 0,
        }
    }

    /// The dtype, if it is not that of texts of variable length.
    pub(crate) fn dtype(&self) -> Option<&b2nd::Dtype> {
        (!self.items.is_long_text).then_some(&self.items.dtype)
    }

    /// The shape of the array.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.extent.iter().chain(&self.items.dims).copied().collect()
    }

    /// The dimensions of an item.
    pub(crate) fn inner_dims(&self) -> &[u64] {
        &self.items.dims
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> Hdf5Error {
        Hdf5Error::damaged(&self.path, what)
    }

    pub(super) fn zeroed(&self, len: u64) -> Result<Vec<u8>, Hdf5Error> {
        self.limits.check_memory("items, in bytes", len).map_err(Hdf5Error::limit(&self.path))?;
        let len = usize::try_from(len).map_err(|error| self.damaged(error.to_string()))?;
        memory::zeroed(len).map_err(|error| self.damaged(error.to_string()))
    }

    /// Returns a buffer with arbitrary contents, to be overwritten.
    fn scratch(&self, len: u64) -> Result<Vec<u8>, Hdf5Error> {
        self.limits.check_memory("items, in bytes", len).map_err(Hdf5Error::limit(&self.path))?;
        let len = usize::try_from(len).map_err(|error| self.damaged(error.to_string()))?;
        self.buffers.take(len).map_err(|error| self.damaged(error.to_string()))
    }

    /// Reads a box of the array. A chunk is decoded by at most `threads` threads.
    pub(crate) fn read_box(
        &self,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let ndim = self.shape.len();
        let (Some((start, inner_start)), Some((shape, inner_shape))) =
            (start.split_at_checked(ndim), shape.split_at_checked(ndim))
        else {
            return Err(self.damaged("a box of other dimensions"));
        };
        if inner_shape == self.items.dims {
            self.read_extent(start, shape, dst, control)?;
        } else {
            // A part of items that are arrays.
            let nbytes = product(shape).saturating_mul(self.items.stored as u64);
            let mut whole = self.zeroed(nbytes)?;
            self.read_extent(start, shape, &mut whole, control)?;
            let zeros = vec![0; self.items.dims.len()];
            let from_start = [start, &zeros].concat();
            let from_shape = [shape, &self.items.dims].concat();
            let (to_start, to_shape) = ([start, inner_start].concat(), [shape, inner_shape].concat());
            let (from, to) = (
                BoxBounds { start: &from_start, shape: &from_shape },
                BoxBounds { start: &to_start, shape: &to_shape },
            );
            copy_shared(from, &whole, to, dst, self.items.dtype.itemsize()).ok_or_else(|| self.no_fit())?;
        }
        self.items.mend(dst);
        Ok(())
    }

    /// Reads items as they are stored, and fills in those outside HDF5's shape.
    pub(super) fn read_extent(
        &self,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let ends = start.iter().zip(shape).zip(&self.shape);
        let within: Vec<u64> = ends
            .map(|((&at, &length), &whole)| at.saturating_add(length).min(whole).saturating_sub(at))
            .collect();
        if within == shape {
            return self.read_stored(start, shape, dst, control);
        }
        fill_with(self.beyond.as_deref(), dst);
        let mut part = self.zeroed(product(&within).saturating_mul(self.items.stored as u64))?;
        if part.is_empty() {
            return Ok(());
        }
        self.read_stored(start, &within, &mut part, control)?;
        copy_shared(
            BoxBounds { start, shape: &within },
            &part,
            BoxBounds { start, shape },
            dst,
            self.items.stored,
        )
        .ok_or_else(|| self.no_fit())
    }

    /// Reads stored items.
    fn read_stored(
        &self,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let itemsize = self.items.stored;
        match &self.place {
            Stores::Nothing => self.fill_in(dst),
            Stores::Memory(bytes) => {
                let zeros = vec![0; start.len()];
                let (from, to) =
                    (BoxBounds { start: &zeros, shape: &self.shape }, BoxBounds { start, shape });
                copy_shared(from, bytes, to, dst, itemsize).ok_or_else(|| self.no_fit())?;
            }
            Stores::Contiguous(at) => {
                let place = Place { whole: &self.shape, start, shape, itemsize };
                place.read(self.below.pages.file(), *at, dst).map_err(Hdf5Error::io(&self.path))?;
            }
            Stores::Chunks { chunks, pipeline, .. } => {
                let lengths = &pipeline.chunk;
                let first: Vec<u64> = start.iter().zip(lengths).map(|(&at, &length)| at / length).collect();
                let ends = start.iter().zip(shape).zip(lengths);
                let end: Vec<u64> =
                    ends.map(|((&at, &n), &length)| at.saturating_add(n).div_ceil(length)).collect();
                if dst.is_empty() {
                    return Ok(());
                }
                let mut at = first.clone();
                loop {
                    self.read_from_chunk((chunks, pipeline), &at, BoxBounds { start, shape }, dst, control)?;
                    if !advance(&mut at, &first, &end) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies the intersection of a chunk and a box.
    fn read_from_chunk(
        &self,
        (chunks, pipeline): (&Chunks, &Pipeline),
        at: &[u64],
        to: BoxBounds<'_>,
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let start: Vec<u64> =
            at.iter().zip(&pipeline.chunk).map(|(&at, &length)| at.saturating_mul(length)).collect();
        let from = BoxBounds { start: &start, shape: &pipeline.chunk };
        let itemsize = self.items.stored;
        let wrong = |what: String| self.damaged(what);
        if from.start == to.start && from.shape == to.shape {
            return match chunks.get(at).map_err(wrong)? {
                Some(stored) => {
                    self.decode(self.stored_bytes(stored)?, self.mask(stored, at), at, dst, control)
                }
                None => {
                    self.fill_in(dst);
                    Ok(())
                }
            };
        }
        let copy = |src: &[u8], dst: &mut [u8]| {
            copy_shared(from, src, to, dst, itemsize).ok_or_else(|| self.no_fit())
        };
        let nbytes = product(&pipeline.chunk).saturating_mul(itemsize as u64);
        let Some(stored) = chunks.get(at).map_err(wrong)? else {
            // A chunk may be much larger than the requested part.
            let (start, shape) = shared(from, to);
            let mut plain = self.zeroed(product(&shape).saturating_mul(itemsize as u64))?;
            self.fill_in(&mut plain);
            let part = BoxBounds { start: &start, shape: &shape };
            return copy_shared(part, &plain, to, dst, itemsize).ok_or_else(|| self.no_fit());
        };
        // The chunk is probably needed again if the box ends within it, and not at the end of the data set.
        let ends = start.iter().zip(&pipeline.chunk).zip(to.start.iter().zip(to.shape)).zip(&self.shape);
        let is_part = { ends }.any(|(((&a, &n), (&b, &m)), &whole)| {
            a < b || b.saturating_add(m) < a.saturating_add(n).min(whole)
        });
        let mask = self.mask(stored, at);
        if pipeline.is_plain(mask) {
            // Only the part of the chunk is read.
            let (part_start, part) = shared(from, to);
            let inner: Vec<u64> =
                part_start.iter().zip(&start).map(|(&at, &first)| at.saturating_sub(first)).collect();
            let mut bytes = self.scratch(product(&part).saturating_mul(itemsize as u64))?;
            let place = Place { whole: &pipeline.chunk, start: &inner, shape: &part, itemsize };
            if stored.len != nbytes || nbytes > self.below.pages.len_from(stored.address) {
                return Err(self.damaged(format!("chunk {at:?}: {} bytes, expected {nbytes}", stored.len)));
            }
            let position = self.below.pages.position(stored.address);
            place.read(self.below.pages.file(), position, &mut bytes).map_err(Hdf5Error::io(&self.path))?;
            let copied =
                copy_shared(BoxBounds { start: &part_start, shape: &part }, &bytes, to, dst, itemsize);
            self.buffers.give_back(bytes);
            return copied.ok_or_else(|| self.no_fit());
        }
        let cached = if is_part { self.cached(at) } else { None };
        let (bytes, is_first) = match cached {
            Some(CachedChunk::Plain(plain)) => return copy(&plain, dst),
            Some(CachedChunk::Stored(bytes)) => (bytes, false),
            None => (self.stored_bytes(stored)?, true),
        };
        let is_read = match self.chunk_array(pipeline, at, (&bytes, mask), control)? {
            Some(array) => {
                self.read_from_array(&array, at, (from, to), dst)?;
                true
            }
            // A chunk from which several parts are requested is decoded completely, once.
            None => (is_first || !is_part) && self.scatter(pipeline, (at, &bytes, mask), from, to, dst)?,
        };
        if is_read {
            if is_part && is_first {
                self.keep(at, CachedChunk::Stored(bytes));
            }
            return Ok(());
        }
        let mut plain = self.scratch(nbytes)?;
        self.decode(bytes, mask, at, &mut plain, control)?;
        copy(&plain, dst)?;
        match is_part {
            true => self.keep(at, CachedChunk::Plain(Arc::new(plain))),
            false => self.buffers.give_back(plain),
        }
        Ok(())
    }

    fn cached(&self, at: &[u64]) -> Option<CachedChunk> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().find(|(own, _)| own == at).map(|(_, chunk)| chunk.clone())
    }

    fn keep(&self, at: &[u64], chunk: CachedChunk) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|(own, _)| own != at);
        let mut len: usize = cache.iter().map(|(_, chunk)| chunk.len()).sum();
        while len.saturating_add(chunk.len()) > MAX_CACHED_LEN && !cache.is_empty() {
            len = len.saturating_sub(cache.remove(0).1.len());
        }
        if chunk.len() <= MAX_CACHED_LEN {
            cache.push((at.to_vec(), chunk));
        }
    }

    /// Copies the intersection of a box and an array stored as a chunk to the box. Only the blocks that the box touches are
    /// decoded.
    fn read_from_array(
        &self,
        array: &b2nd::NdArray,
        at: &[u64],
        (from, to): (BoxBounds<'_>, BoxBounds<'_>),
        dst: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        let (start, shape) = shared(from, to);
        let wrong = |error: b2nd::NdError| self.damaged(format!("chunk {at:?}: {error}"));
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let ranges = start.iter().zip(&shape).zip(from.start).map(|((&at, &length), &first)| {
            let at = at.saturating_sub(first);
            let (start, stop) = (Some(number(at)), Some(number(at.saturating_add(length))));
            b2nd::Selection::Range { start, stop, step: 1 }
        });
        let slice = array.slice(ranges.collect::<Vec<_>>()).map_err(wrong)?;
        let place = || {
            let strides = strides(to.shape, self.items.stored as u64);
            let steps = start.iter().zip(to.start).zip(&strides);
            let first = { steps }.try_fold(0_u64, |n, ((&at, &first), &stride)| {
                n.checked_add(at.checked_sub(first)?.checked_mul(stride)?)
            })?;
            let strides =
                strides.iter().map(|&stride| isize::try_from(stride).ok()).collect::<Option<Vec<_>>>()?;
            Some((usize::try_from(first).ok()?, strides))
        };
        let (first, strides) = place().ok_or_else(|| self.no_fit())?;
        let dst = dst.get_mut(first..).ok_or_else(|| self.no_fit())?;
        slice.read_bytes_strided(dst, &strides).map_err(wrong)
    }

    /// Decodes a Blosc chunk block by block, directly to the rows of the box. Returns `false`, and does nothing, if the chunk is
    /// something else.
    fn scatter(
        &self,
        pipeline: &Pipeline,
        (at, bytes, mask): (&[u64], &[u8], u32),
        from: BoxBounds<'_>,
        to: BoxBounds<'_>,
        dst: &mut [u8],
    ) -> Result<bool, Hdf5Error> {
        let itemsize = self.items.stored;
        if !pipeline.is_blosc(mask) {
            return Ok(false);
        }
        let wrong = |what: String| self.damaged(format!("chunk {at:?}: blosc: {what}"));
        let chunk = blosc::Blocks::open(bytes, &self.limits).map_err(wrong)?;
        let nbytes = product(from.shape).saturating_mul(itemsize as u64);
        if chunk.nbytes() != nbytes {
            return Err(wrong(format!("{} bytes in a chunk, expected {nbytes}", chunk.nbytes())));
        }
        if !chunk.is_regular() {
            return Ok(false);
        }
        let rows = SharedRows::new(from, to, itemsize).ok_or_else(|| self.no_fit())?;
        let mut rows = RowsOfPieces::new(rows);
        let is_streamed = dst.len() >= STREAMED;
        let mut decoder = chunk.decoder().map_err(wrong)?;
        let mut buffer = self.scratch(chunk.largest_block())?;
        for nblock in 0..chunk.nblocks() {
            let block = chunk.block_range(nblock);
            if !rows.are_in(&block) {
                continue;
            }
            if rows.length() >= LONG_ROW
                && let Some(parts) = decoder.parts(nblock).map_err(wrong)?
            {
                while let Some(Row { from, to, len }) = rows.next_in(&block) {
                    let place = dst.get_mut(to..to.saturating_add(len)).ok_or_else(|| self.no_fit())?;
                    let copied = parts.copy(from..from.saturating_add(len), place, is_streamed);
                    copied.map_err(|error| wrong(error.to_string()))?;
                }
                continue;
            }
            let plain =
                buffer.get_mut(..block.len()).ok_or_else(|| wrong("a block of another size".into()))?;
            decoder.decode(nblock, plain).map_err(wrong)?;
            while let Some(Row { from, to, len }) = rows.next_in(&block) {
                let place = dst.get_mut(to..to.saturating_add(len)).ok_or_else(|| self.no_fit())?;
                let row = plain.get(from..from.saturating_add(len)).ok_or_else(|| self.no_fit())?;
                place.copy_from_slice(row);
            }
        }
        drop(decoder);
        self.buffers.give_back(buffer);
        Ok(true)
    }

    fn no_fit(&self) -> Hdf5Error {
        self.damaged("a box that does not fit")
    }

    /// Decodes a chunk.
    fn decode(
        &self,
        bytes: Bytes,
        mask: u32,
        at: &[u64],
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let Stores::Chunks { pipeline, .. } = &self.place else { return Err(self.damaged("no chunks")) };
        let named = |what: String| match pipeline.filters.iter().find(|filter| !filter.is_known()) {
            Some(filter) => Hdf5Error::unsupported(&self.path, format!("filter {}", filter.name())),
            None => self.damaged(format!("chunk {at:?}: {what}")),
        };
        pipeline.decode(bytes, mask, dst, control).map_err(named)
    }

    fn stored_bytes(&self, stored: ChunkRecord) -> Result<Bytes, Hdf5Error> {
        self.limits.check_memory("chunk, in bytes", stored.len).map_err(Hdf5Error::limit(&self.path))?;
        let io = Hdf5Error::io(&self.path);
        let range = self.below.pages.range(stored.address, stored.len).map_err(&io)?;
        let mut bytes = self.scratch(stored.len)?;
        self.below.pages.file().read_exact_at(range.start, &mut bytes).map_err(&io)?;
        Ok(self.buffers.lend(bytes))
    }

    /// The filters that were not applied to a chunk, one bit each.
    fn mask(&self, stored: ChunkRecord, at: &[u64]) -> u32 {
        let Stores::Chunks { pipeline, has_plain_edges: true, .. } = &self.place else { return stored.mask };
        let mut ends = at.iter().zip(&pipeline.chunk).zip(&self.shape);
        let is_edge = ends.any(|((&at, &length), &n)| at.saturating_add(1).saturating_mul(length) > n);
        if is_edge { u32::MAX } else { stored.mask }
    }

    /// Fills items that were never written.
    pub(super) fn fill_in(&self, dst: &mut [u8]) {
        fill_with(self.fill.as_deref(), dst);
    }

    /// Returns an array in a chunk of filter 32026, if the chunks can become chunks of an array unchanged.
    pub(crate) fn sample(&self) -> Result<Option<b2nd::NdArray>, Hdf5Error> {
        let Stores::Chunks { chunks, pipeline, .. } = &self.place else { return Ok(None) };
        if !self.items.are_plain() || !self.items.dims.is_empty() {
            return Ok(None);
        }
        // Only chunks of filter 32026 qualify.
        if pipeline.filters.first().is_none_or(|filter| filter.id != crate::filters::BLOSC2) {
            return Ok(None);
        }
        match chunks.first().map_err(|what| self.damaged(what))? {
            Some((at, stored)) => {
                let bytes = self.stored_bytes(stored)?;
                self.chunk_array(pipeline, &at, (&bytes, self.mask(stored, &at)), &Control::new())
            }
            None => Ok(None),
        }
    }

    /// Returns the array stored as a chunk, if it is one.
    fn chunk_array(
        &self,
        pipeline: &Pipeline,
        at: &[u64],
        (bytes, mask): (&Bytes, u32),
        control: &Control,
    ) -> Result<Option<b2nd::NdArray>, Hdf5Error> {
        let wrong = |what: String| self.damaged(format!("chunk {at:?}: {what}"));
        let Some(frame) = pipeline.frame(bytes, mask).map_err(wrong)? else { return Ok(None) };
        blosc::chunk_array(frame, &pipeline.chunk, self.items.stored, &self.limits, control).map_err(wrong)
    }

    /// Returns a chunk that can be moved unchanged into an array with these blocks.
    pub(crate) fn ready(
        &self,
        at: &[u64],
        blockshape: &[u32],
    ) -> Result<Option<blosc::MovableChunk>, Hdf5Error> {
        let Stores::Chunks { chunks, pipeline, .. } = &self.place else { return Ok(None) };
        let Some(stored) = chunks.get(at).map_err(|what| self.damaged(what))? else {
            let is_zero = self.fill.as_ref().is_none_or(|fill| fill.iter().all(|&byte| byte == 0));
            return Ok(is_zero.then_some(blosc::MovableChunk::Special(b2_chunk::SpecialKind::Zeros)));
        };
        // The padding after the items of a chunk may not be the fill value.
        let ends = at.iter().zip(&pipeline.chunk).zip(self.shape.iter().zip(&self.extent));
        let is_cut = { ends }.any(|((&at, &length), (&have, &need))| {
            have < need && at.saturating_add(1).saturating_mul(length) > have
        });
        if is_cut {
            return Ok(None);
        }
        if pipeline.filters.first().is_none_or(|filter| filter.id != crate::filters::BLOSC2) {
            return Ok(None);
        }
        let bytes = self.stored_bytes(stored)?;
        match self.chunk_array(pipeline, at, (&bytes, self.mask(stored, at)), &Control::new())? {
            Some(array) => blosc::only_chunk(&array, blockshape)
                .map_err(|what| self.damaged(format!("chunk {at:?}: {what}"))),
            None => Ok(None),
        }
    }
}

/// The intersection of two boxes: its first item and its shape.
fn shared(a: BoxBounds<'_>, b: BoxBounds<'_>) -> (Vec<u64>, Vec<u64>) {
    let parts = a.start.iter().zip(a.shape).zip(b.start.iter().zip(b.shape));
    parts
        .map(|((&a, &n), (&b, &m))| {
            let (start, end) = (a.max(b), a.saturating_add(n).min(b.saturating_add(m)));
            (start, end.saturating_sub(start))
        })
        .unzip()
}

/// Moves to the next position of a box of the grid. Returns `false` after the last.
fn advance(at: &mut [u64], first: &[u64], end: &[u64]) -> bool {
    for ((at, &first), &end) in at.iter_mut().zip(first).zip(end).rev() {
        *at = at.saturating_add(1);
        if *at < end {
            return true;
        }
        *at = first;
    }
    false
}

fn fill_with(fill: Option<&[u8]>, dst: &mut [u8]) {
    match fill {
        Some(fill) => dst.chunks_exact_mut(fill.len().max(1)).for_each(|item| item.copy_from_slice(fill)),
        None => dst.fill(0),
    }
}
