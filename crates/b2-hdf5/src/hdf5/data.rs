//! The items of a data set: where they are stored, and how they are read.

use std::sync::{Arc, Mutex, PoisonError};

use b2_core::{Limits, memory};
use bytes::Bytes;

use super::chunks::{Chunks, Stored};
use super::header::Below;
use super::items::Items;
use crate::Hdf5Error;
use crate::boxes::{Held, Place, copy_run, copy_shared, product};
use crate::filters::{Pipeline, blosc};

/// Bytes of decoded chunks that are kept, where only a part of a chunk was asked for.
const KEPT: usize = 64 << 20;

/// Rows of fewer bytes are copied from whole chunks.
const SHORT: u64 = 64;

/// Where items are stored.
pub(super) enum Stores {
    /// They were never written.
    Nothing,
    Memory(Vec<u8>),
    /// From this byte of the file on.
    Contiguous(u64),
    Chunks {
        chunks: Box<Chunks>,
        pipeline: Pipeline,
        has_plain_edges: bool,
    },
}

/// A decoded chunk, and its position in the grid.
type Kept = (Vec<u64>, Arc<Vec<u8>>);

/// The items of a data set.
pub(crate) struct Data {
    pub(super) path: String,
    pub(super) below: Arc<Below>,
    pub(super) limits: Limits,
    /// What HDF5 has, without the dimensions of an item.
    pub(super) shape: Vec<u64>,
    /// What the array has of that: more along dimensions of netCDF that have grown meanwhile.
    pub(super) extent: Vec<u64>,
    pub(super) items: Items,
    /// The stored bytes of an item that was never written; `None` for zeros.
    pub(super) fill: Option<Vec<u8>>,
    pub(super) place: Stores,
    /// Chunks that were decoded for a part of them, the last one last.
    pub(super) kept: Mutex<Vec<Kept>>,
    /// Memory of chunks that were decoded.
    pub(super) spare: Mutex<Vec<Vec<u8>>>,
}

impl Data {
    /// Reads the whole index of the chunks.
    pub(crate) fn load(&self) -> Result<(), Hdf5Error> {
        match &self.place {
            Stores::Chunks { chunks, .. } => chunks.all().map(drop).map_err(|what| self.damaged(what)),
            _ => Ok(()),
        }
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

    /// The dimensions that an item has by itself.
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

    /// Returns bytes to be overwritten: those of an earlier call if there are some, since memory that is new to the process
    /// takes longer to fill than to decode into.
    fn scratch(&self, len: u64) -> Result<Vec<u8>, Hdf5Error> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match (spare, usize::try_from(len)) {
            (Some(mut bytes), Ok(len)) if bytes.capacity() >= len => {
                bytes.resize(len, 0);
                Ok(bytes)
            }
            _ => self.zeroed(len),
        }
    }

    /// Keeps bytes for the next call.
    fn give_back(&self, bytes: Vec<u8>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = spare.iter().map(Vec::capacity).sum();
        if held.saturating_add(bytes.capacity()) <= KEPT {
            spare.push(bytes);
        }
    }

    /// Reads a box of the array.
    pub(crate) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<(), Hdf5Error> {
        let ndim = self.shape.len();
        let (Some((start, inner_start)), Some((shape, inner_shape))) =
            (start.split_at_checked(ndim), shape.split_at_checked(ndim))
        else {
            return Err(self.damaged("a box of other dimensions"));
        };
        if inner_shape == self.items.dims {
            self.read_extent(start, shape, dst)?;
        } else {
            // A part of items that are arrays.
            let nbytes = product(shape).saturating_mul(self.items.stored as u64);
            let mut whole = self.zeroed(nbytes)?;
            self.read_extent(start, shape, &mut whole)?;
            let zeros = vec![0; self.items.dims.len()];
            let from_start = [start, &zeros].concat();
            let from_shape = [shape, &self.items.dims].concat();
            let (to_start, to_shape) = ([start, inner_start].concat(), [shape, inner_shape].concat());
            let (from, to) = (
                Held { start: &from_start, shape: &from_shape },
                Held { start: &to_start, shape: &to_shape },
            );
            copy_shared(from, &whole, to, dst, self.items.dtype.itemsize())
                .ok_or_else(|| self.damaged("a box that does not fit"))?;
        }
        self.items.mend(dst);
        Ok(())
    }

    /// Reads items as they are stored, and fills in those that HDF5 does not have.
    pub(super) fn read_extent(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<(), Hdf5Error> {
        let ends = start.iter().zip(shape).zip(&self.shape);
        let kept: Vec<u64> = ends
            .map(|((&at, &length), &whole)| at.saturating_add(length).min(whole).saturating_sub(at))
            .collect();
        if kept == shape {
            return self.read_stored(start, shape, dst);
        }
        self.fill_in(dst);
        let mut part = self.zeroed(product(&kept).saturating_mul(self.items.stored as u64))?;
        if part.is_empty() {
            return Ok(());
        }
        self.read_stored(start, &kept, &mut part)?;
        copy_shared(Held { start, shape: &kept }, &part, Held { start, shape }, dst, self.items.stored)
            .ok_or_else(|| self.damaged("a box that does not fit"))
    }

    /// Reads stored items.
    fn read_stored(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<(), Hdf5Error> {
        let itemsize = self.items.stored;
        match &self.place {
            Stores::Nothing => self.fill_in(dst),
            Stores::Memory(bytes) => {
                let zeros = vec![0; start.len()];
                let (from, to) = (Held { start: &zeros, shape: &self.shape }, Held { start, shape });
                copy_shared(from, bytes, to, dst, itemsize)
                    .ok_or_else(|| self.damaged("a box that does not fit"))?;
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
                    self.read_from_chunk(chunks, pipeline, &at, Held { start, shape }, dst)?;
                    if !advance(&mut at, &first, &end) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies what a chunk and a box share.
    fn read_from_chunk(
        &self,
        chunks: &Chunks,
        pipeline: &Pipeline,
        at: &[u64],
        to: Held<'_>,
        dst: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        let start: Vec<u64> =
            at.iter().zip(&pipeline.chunk).map(|(&at, &length)| at.saturating_mul(length)).collect();
        let from = Held { start: &start, shape: &pipeline.chunk };
        let itemsize = self.items.stored;
        let wrong = |what: String| self.damaged(what);
        if from.start == to.start && from.shape == to.shape {
            return match chunks.get(at).map_err(wrong)? {
                Some(stored) => self.decode(stored, at, dst),
                None => {
                    self.fill_in(dst);
                    Ok(())
                }
            };
        }
        let copy = |src: &[u8], dst: &mut [u8]| {
            copy_shared(from, src, to, dst, itemsize).ok_or_else(|| self.damaged("a box that does not fit"))
        };
        let nbytes = product(&pipeline.chunk).saturating_mul(itemsize as u64);
        let Some(stored) = chunks.get(at).map_err(wrong)? else {
            // The box within the data set is smaller than the chunk may be.
            let mut plain = self.zeroed(nbytes)?;
            self.fill_in(&mut plain);
            return copy(&plain, dst);
        };
        let (part_start, part) = shared(from, to);
        if part != pipeline.chunk
            && let Some(array) = self.chunk_array(pipeline, at, stored)?
        {
            // Of an array only the blocks are decoded that the box touches.
            let wrong = |error: b2nd::NdError| self.damaged(format!("chunk {at:?}: {error}"));
            let ranges: Vec<b2nd::Selection> = part_start
                .iter()
                .zip(&part)
                .zip(&start)
                .map(|((&at, &length), &first)| {
                    let at = at.saturating_sub(first);
                    let end = at.saturating_add(length);
                    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                    b2nd::Selection::Range { start: Some(number(at)), stop: Some(number(end)), step: 1 }
                })
                .collect();
            let bytes = array.slice(ranges).and_then(|slice| slice.read_bytes()).map_err(wrong)?;
            return copy_shared(Held { start: &part_start, shape: &part }, &bytes, to, dst, itemsize)
                .ok_or_else(|| self.damaged("a box that does not fit"));
        }
        // The chunk is asked for again if the box ends within it, and not at the end of the data set.
        let ends = start.iter().zip(&pipeline.chunk).zip(to.start.iter().zip(to.shape)).zip(&self.shape);
        let is_part = { ends }.any(|(((&a, &n), (&b, &m)), &whole)| {
            a < b || b.saturating_add(m) < a.saturating_add(n).min(whole)
        });
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if is_part {
            let found = lock().iter().find(|(kept, _)| kept == at).map(|(_, plain)| plain.clone());
            if let Some(plain) = found {
                return copy(&plain, dst);
            }
        }
        if pipeline.is_plain(self.mask(stored, at)) {
            // Only the part of the chunk is read.
            let inner: Vec<u64> =
                part_start.iter().zip(&start).map(|(&at, &first)| at.saturating_sub(first)).collect();
            let mut bytes = self.scratch(product(&part).saturating_mul(itemsize as u64))?;
            let place = Place { whole: &pipeline.chunk, start: &inner, shape: &part, itemsize };
            if stored.len != nbytes || nbytes > self.below.pages.behind(stored.address) {
                return Err(self.damaged(format!("chunk {at:?}: {} bytes, expected {nbytes}", stored.len)));
            }
            let position = self.below.pages.position(stored.address);
            place.read(self.below.pages.file(), position, &mut bytes).map_err(Hdf5Error::io(&self.path))?;
            let copied = copy_shared(Held { start: &part_start, shape: &part }, &bytes, to, dst, itemsize);
            self.give_back(bytes);
            return copied.ok_or_else(|| self.damaged("a box that does not fit"));
        }
        if !is_part && self.scatter(pipeline, (at, stored), from, to, dst)? {
            return Ok(());
        }
        let mut plain = self.scratch(nbytes)?;
        self.decode(stored, at, &mut plain)?;
        copy(&plain, dst)?;
        if !is_part {
            self.give_back(plain);
        } else {
            let mut kept = lock();
            let mut held: usize = kept.iter().map(|(_, plain)| plain.len()).sum();
            while held.saturating_add(plain.len()) > KEPT && !kept.is_empty() {
                held = held.saturating_sub(kept.remove(0).1.len());
            }
            if plain.len() <= KEPT {
                kept.push((at.to_vec(), Arc::new(plain)));
            }
        }
        Ok(())
    }

    /// Decodes a chunk of Blosc block by block, and copies each while it is in the cache. Returns `false`, and does nothing, if
    /// the chunk is something else, or has short rows.
    fn scatter(
        &self,
        pipeline: &Pipeline,
        (at, stored): (&[u64], Stored),
        from: Held<'_>,
        to: Held<'_>,
        dst: &mut [u8],
    ) -> Result<bool, Hdf5Error> {
        let itemsize = self.items.stored;
        let row = from.shape.last().map_or(0, |&length| length.saturating_mul(itemsize as u64));
        if row < SHORT || !pipeline.is_blosc(self.mask(stored, at)) {
            return Ok(false);
        }
        let wrong = |what: String| self.damaged(format!("chunk {at:?}: blosc: {what}"));
        let mut chunk = blosc::Blocks::open(self.stored_bytes(stored)?, &self.limits).map_err(wrong)?;
        let nbytes = product(from.shape).saturating_mul(itemsize as u64);
        if chunk.nbytes() != nbytes {
            return Err(wrong(format!("{} bytes in a chunk, expected {nbytes}", chunk.nbytes())));
        }
        let block = chunk.block_nbytes().min(nbytes);
        if block == 0 || !block.is_multiple_of(itemsize as u64) {
            return Ok(false);
        }
        let mut bytes = self.scratch(block)?;
        let mut place = 0;
        while place < nbytes {
            let len = usize::try_from(block.min(nbytes.saturating_sub(place))).unwrap_or(usize::MAX);
            let run = bytes.get_mut(..len).ok_or_else(|| wrong("a block of another size".into()))?;
            chunk.read(place, run).map_err(wrong)?;
            copy_run(from, place, run, to, dst, itemsize)
                .ok_or_else(|| self.damaged("a box that does not fit"))?;
            place = place.saturating_add(len as u64);
        }
        self.give_back(bytes);
        Ok(true)
    }

    /// Decodes a chunk.
    fn decode(&self, stored: Stored, at: &[u64], dst: &mut [u8]) -> Result<(), Hdf5Error> {
        let Stores::Chunks { pipeline, .. } = &self.place else { return Err(self.damaged("no chunks")) };
        let bytes = self.stored_bytes(stored)?;
        let mask = self.mask(stored, at);
        let named = |what: String| match pipeline.filters.iter().find(|filter| !filter.is_known()) {
            Some(filter) => Hdf5Error::unsupported(&self.path, format!("filter {}", filter.name())),
            None => self.damaged(format!("chunk {at:?}: {what}")),
        };
        pipeline.decode(bytes, mask, dst).map_err(named)
    }

    fn stored_bytes(&self, stored: Stored) -> Result<Bytes, Hdf5Error> {
        self.limits.check_memory("chunk, in bytes", stored.len).map_err(Hdf5Error::limit(&self.path))?;
        self.below.pages.data(stored.address, stored.len).map_err(Hdf5Error::io(&self.path))
    }

    /// The filters that were not applied to a chunk, one bit each.
    fn mask(&self, stored: Stored, at: &[u64]) -> u32 {
        let Stores::Chunks { pipeline, has_plain_edges: true, .. } = &self.place else { return stored.mask };
        let mut ends = at.iter().zip(&pipeline.chunk).zip(&self.shape);
        let is_edge = ends.any(|((&at, &length), &n)| at.saturating_add(1).saturating_mul(length) > n);
        if is_edge { u32::MAX } else { stored.mask }
    }

    /// Fills items that were never written.
    pub(super) fn fill_in(&self, dst: &mut [u8]) {
        match &self.fill {
            Some(fill) => dst.chunks_exact_mut(fill.len().max(1)).for_each(|item| item.copy_from_slice(fill)),
            None => dst.fill(0),
        }
    }

    /// Returns an array in a chunk of filter 32026, if the chunks can become chunks of an array as they are.
    pub(crate) fn sample(&self) -> Result<Option<b2nd::NdArray>, Hdf5Error> {
        let Stores::Chunks { chunks, pipeline, .. } = &self.place else { return Ok(None) };
        if !self.items.are_plain() || !self.items.dims.is_empty() {
            return Ok(None);
        }
        // Only those of filter 32026 can be.
        if pipeline.filters.first().is_none_or(|filter| filter.id != crate::filters::BLOSC2) {
            return Ok(None);
        }
        match chunks.first().map_err(|what| self.damaged(what))? {
            Some((at, stored)) => self.chunk_array(pipeline, &at, stored),
            None => Ok(None),
        }
    }

    fn chunk_array(
        &self,
        pipeline: &Pipeline,
        at: &[u64],
        stored: Stored,
    ) -> Result<Option<b2nd::NdArray>, Hdf5Error> {
        if pipeline.filters.first().is_none_or(|filter| filter.id != crate::filters::BLOSC2) {
            return Ok(None);
        }
        let wrong = |what: String| self.damaged(format!("chunk {at:?}: {what}"));
        let bytes = self.stored_bytes(stored)?;
        let Some(frame) = pipeline.frame(&bytes, self.mask(stored, at)).map_err(wrong)? else {
            return Ok(None);
        };
        blosc::chunk_array(frame, &pipeline.chunk, self.items.stored, &self.limits).map_err(wrong)
    }

    /// Returns a chunk that an array with these blocks can take as it is.
    pub(crate) fn ready(&self, at: &[u64], blockshape: &[u32]) -> Result<Option<blosc::Ready>, Hdf5Error> {
        let Stores::Chunks { chunks, pipeline, .. } = &self.place else { return Ok(None) };
        let Some(stored) = chunks.get(at).map_err(|what| self.damaged(what))? else {
            let is_zero = self.fill.as_ref().is_none_or(|fill| fill.iter().all(|&byte| byte == 0));
            return Ok(is_zero.then_some(blosc::Ready::Special(b2_chunk::SpecialKind::Zeros)));
        };
        // What follows the stored items in a chunk is not known to be the fill value.
        let ends = at.iter().zip(&pipeline.chunk).zip(self.shape.iter().zip(&self.extent));
        let is_cut = { ends }.any(|((&at, &length), (&have, &need))| {
            have < need && at.saturating_add(1).saturating_mul(length) > have
        });
        if is_cut {
            return Ok(None);
        }
        match self.chunk_array(pipeline, at, stored)? {
            Some(array) => blosc::only_chunk(&array, blockshape)
                .map_err(|what| self.damaged(format!("chunk {at:?}: {what}"))),
            None => Ok(None),
        }
    }
}

/// The box that two boxes share: its first item and its shape.
fn shared(a: Held<'_>, b: Held<'_>) -> (Vec<u64>, Vec<u64>) {
    let parts = a.start.iter().zip(a.shape).zip(b.start.iter().zip(b.shape));
    parts
        .map(|((&a, &n), (&b, &m))| {
            let (start, end) = (a.max(b), a.saturating_add(n).min(b.saturating_add(m)));
            (start, end.saturating_sub(start))
        })
        .unzip()
}

/// Moves to the next position of a box of the grid. Returns `false` behind the last.
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
