//! Reads the old array with other items at some positions along an axis.

use std::io;
use std::ops::Range;

use b2_core::memory;

use crate::model::geometry::strides;
use crate::select::copy::copy_box;
use crate::select::copy_plan::linear;
use crate::write::source::{ChunkContent, Region, RegionSource, SharedRegions, StridedItems};
use crate::{Dtype, Geometry, NdArray, NdError};

/// The old array with a range along an axis replaced.
pub(super) struct ChangedArray<'a> {
    pub(super) old: &'a NdArray,
    pub(super) axis: usize,
    pub(super) range: Range<u64>,
    pub(super) len: u64,
    /// The geometry of the inserted items.
    pub(super) data: Geometry,
}

impl ChangedArray<'_> {
    /// Reads a box of the result. `read_new` reads a box of the inserted items.
    fn read_region(
        &self,
        region: &Region<'_>,
        dst: &mut [u8],
        read_new: impl FnOnce(&Region<'_>, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (axis, start, shape) = (self.axis, region.start, region.shape);
        let dst_strides = strides(shape.iter().map(|&n| n as usize), region.itemsize());
        let (first, last) = (start[axis], start[axis] + shape[axis]);
        let inserted = self.range.start..self.range.start + self.len;
        let offset = |at: u64| (at - first) as usize * dst_strides[axis] as usize;
        let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
        // First copy what lies before and after the inserted positions.
        for (at, end, from) in
            [(first, last.min(inserted.start), None), (first.max(inserted.end), last, Some(self.range.end))]
        {
            if at < end {
                start[axis] = from.map_or(at, |from| at - inserted.end + from);
                shape[axis] = end - at;
                let part = self.old.all().boxed(&start, &shape).map_err(io::Error::other)?;
                part.keep_at(dst, offset(at), &dst_strides).map_err(io::Error::other)?;
            }
        }
        let (at, end) = (first.max(inserted.start), last.min(inserted.end));
        if at < end {
            (start[axis], shape[axis]) = (at - inserted.start, end - at);
            let part = Region { whole: self.data.shape(), start: &start, shape: &shape, dtype: region.dtype };
            let nbytes = part.nbytes() as usize;
            if nbytes == dst.len() {
                return read_new(&part, dst);
            }
            let mut items = memory::zeroed(nbytes).map_err(NdError::from).map_err(io::Error::other)?;
            read_new(&part, &mut items)?;
            let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
            let strides = strides(counts.iter().copied(), region.itemsize());
            copy_box(&counts, region.itemsize(), (&items, 0, &strides), (dst, offset(at), &dst_strides));
        }
        Ok(())
    }

    /// Returns the start of a box among the inserted items, if it contains nothing else.
    fn new_start(&self, region: &Region<'_>) -> Option<Vec<u64>> {
        let mut start = region.start.to_vec();
        start[self.axis] = start[self.axis].checked_sub(self.range.start)?;
        (start[self.axis] + region.shape[self.axis] <= self.len).then_some(start)
    }
}

/// Inserted items that several threads can read at once.
pub(super) enum NewItems<'s> {
    Memory(StridedItems<'s>),
    Shared(&'s dyn SharedRegions),
}

impl<'s> NewItems<'s> {
    pub(super) fn new(
        changed: &ChangedArray<'_>,
        source: &'s dyn RegionSource,
        dtype: &Dtype,
    ) -> Option<Self> {
        let (shape, start) = (changed.data.shape(), vec![0; changed.data.ndim()]);
        match source.lend_region(&Region { whole: shape, dtype, start: &start, shape }) {
            Some(items) => Some(Self::Memory(items)),
            None => source.shared().map(Self::Shared),
        }
    }
}

/// A changed array whose inserted items several threads can read at once.
pub(super) struct SharedChangedArray<'a> {
    pub(super) changed: &'a ChangedArray<'a>,
    pub(super) items: NewItems<'a>,
}

impl SharedRegions for SharedChangedArray<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.changed.read_region(region, dst, |part, dst| match &self.items {
            NewItems::Memory(items) => items.read(part, dst),
            NewItems::Shared(source) => source.read_region(part, dst),
        })
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        let start = self.changed.new_start(region)?;
        let part = Region { whole: self.changed.data.shape(), start: &start, ..*region };
        match &self.items {
            NewItems::Memory(items) => items.lend_region(&part),
            NewItems::Shared(source) => source.lend_region(&part),
        }
    }
}

/// A changed array whose inserted items one thread reads at a time.
pub(super) struct SequentialChangedArray<'a> {
    pub(super) changed: &'a ChangedArray<'a>,
    pub(super) source: &'a mut dyn RegionSource,
}

impl RegionSource for SequentialChangedArray<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.changed.read_region(region, dst, |part, dst| self.source.read_region(part, dst))
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        let start = self.changed.new_start(region)?;
        self.source.lend_region(&Region { whole: self.changed.data.shape(), start: &start, ..*region })
    }

    fn chunk(&mut self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        let ChangedArray { axis, range, len, data, .. } = self.changed;
        let mut at = geometry.chunk_coords(nchunk);
        let (start, length) = geometry.chunk_box(&at);
        let (start, length) = (start[*axis], length[*axis]);
        let c = u64::from(geometry.chunkshape()[*axis]);
        let Some(from) = start.checked_sub(range.start) else { return Ok(ChunkContent::Items) };
        // A chunk of the source whose boundaries match can be copied.
        let alike = from < *len && from.is_multiple_of(c) && length == c.min(len - from);
        if !alike {
            return Ok(ChunkContent::Items);
        }
        at[*axis] = from / c;
        self.source.chunk(data, linear(&at, data.grid()))
    }
}
