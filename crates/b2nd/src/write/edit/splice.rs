//! Inserts and removes along an axis.

use std::io;
use std::ops::Range;

use b2_core::{Control, memory};

use crate::model::geometry::{for_each_position, product, strides};
use crate::select::copy::copy_box;
use crate::select::moves::linear;
use crate::write::edit::chunks::{Target, check_memory, same_numbers};
use crate::write::edit::{ArrayEditor, Axis};
use crate::write::produce::ChunkProducer;
use crate::write::source::{ChunkContent, Region, RegionSource, SharedRegions, Strided};
use crate::{Dtype, Geometry, NdArray, NdError};

impl ArrayEditor {
    /// Inserts all items of a source along an axis, before position `at`. [`append`](Self::append)
    /// says how many positions a source has.
    ///
    /// Chunks that only change their position are not rewritten. If the shift is not a multiple of
    /// the chunk length, all chunks after `at` are rewritten, in bounded memory.
    ///
    /// # Errors
    /// As for [`append`](Self::append), and when `at` is beyond the end.
    pub fn insert(
        &mut self,
        axis: impl Into<Axis>,
        at: u64,
        source: impl RegionSource,
    ) -> Result<(), NdError> {
        self.splice(axis, at..at, source)
    }

    /// Removes the positions `range` along an axis; see [`insert`](Self::insert) for the cost.
    ///
    /// # Errors
    /// When the axis does not exist, the range is out of bounds, or reading or writing fails.
    pub fn delete(&mut self, axis: impl Into<Axis>, range: Range<u64>) -> Result<(), NdError> {
        self.splice(axis, range, [0u8; 0])
    }

    /// Replaces the positions `range` along an axis by all items of a source.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert) and [`delete`](Self::delete).
    pub fn splice(
        &mut self,
        axis: impl Into<Axis>,
        range: Range<u64>,
        mut source: impl RegionSource,
    ) -> Result<(), NdError> {
        let axis = axis.into().0;
        let length = self.length(axis)?;
        self.with_lengths(axis, &mut source, |editor, source, len| {
            if range.start > range.end || range.end > length {
                let what = format!("range {}..{} is out of bounds, length {length}", range.start, range.end);
                return Err(NdError::Slice { dim: axis, what });
            }
            let left = length - (range.end - range.start);
            let mut shape = editor.shape().to_vec();
            shape[axis] = left.checked_add(len).ok_or(NdError::TooLarge { asked: u64::MAX })?;
            let new = editor.with_shape(&shape)?;
            editor.splice_to(new, axis, range, len, source)
        })
    }

    /// Replaces positions like [`splice`](Self::splice); `new` is the resulting geometry.
    pub(super) fn splice_to(
        &mut self,
        new: Geometry,
        axis: usize,
        range: Range<u64>,
        len: u64,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        self.flush()?;
        if range.is_empty() && len == 0 {
            return Ok(());
        }
        let shift = Shift { axis, range: range.clone(), len };
        let control = self.control.begin(shift.made(&self.geometry, &new), new.itemsize() as u64);
        self.splice_stored(new, axis, range, len, source, &control)
    }

    /// Replaces positions like [`splice_to`](Self::splice_to), when no rows are pending.
    pub(super) fn splice_stored(
        &mut self,
        new: Geometry,
        axis: usize,
        range: Range<u64>,
        len: u64,
        source: &mut dyn RegionSource,
        control: &Control,
    ) -> Result<(), NdError> {
        let mut shape = new.shape().to_vec();
        shape[axis] = len;
        let data = new.within(&shape);
        self.guarded(|editor| {
            let old = editor.now()?.clone().with_control(control.quiet());
            check_memory(&old)?;
            let spliced = Spliced { old: &old, axis, range, len, data };
            editor.put_spliced(&new, control, spliced, source)?;
            drop(old);
            editor.set_shape(new)
        })
    }

    pub(super) fn length(&self, axis: usize) -> Result<u64, NdError> {
        self.shape().get(axis).copied().ok_or_else(|| NdError::Slice {
            dim: axis,
            what: format!("out of range, the array has {} dimensions", self.shape().len()),
        })
    }

    fn put_spliced(
        &mut self,
        new: &Geometry,
        control: &Control,
        spliced: Spliced<'_>,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        let old = self.geometry.clone();
        let axis = spliced.axis;
        let moves = spliced.moves();
        let first = moves.first(new);
        let mut grid: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        grid[axis].start = first;
        let kept = |at: &[u64]| moves.kept(&old, new, at);
        let (before, in_place) = (self.frame.nchunks(), same_numbers(&old, new));
        // Kept chunks that move along the axis get new numbers.
        let in_place = in_place && !moves.any_moves(&old, new);
        let (cparams, dtype) = (self.cparams(control)?, self.dtype.clone());
        let producer = ChunkProducer::new(new, &dtype, &cparams, control)?;
        let skip = |at: &[u64]| kept(at).is_some();
        let put = |nchunk, produced| {
            let chunk = self.to_chunk(produced)?;
            match in_place && (nchunk as usize) < before {
                true => self.frame.update(nchunk as usize, chunk)?,
                false => drop(self.frame.append(chunk)?),
            }
            Ok(())
        };
        match Rows::new(&spliced, source, &dtype) {
            Some(rows) => {
                producer.run_shared(&grid, skip, &SharedSpliced { spliced: &spliced, rows }, put)?;
            }
            None => producer.run(&grid, skip, &mut ReadSpliced { spliced: &spliced, source }, put)?,
        }
        if in_place {
            return self.truncate(new.nchunks());
        }
        let mut targets = Vec::new();
        let all: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        for_each_position(&all, |at| -> Result<(), NdError> {
            targets.push(match at[axis] < first {
                true => Target::Kept(linear(at, old.grid()) as usize),
                false => kept(at).map_or(Target::Appended, Target::Kept),
            });
            Ok(())
        })?;
        self.rearrange(before, &targets)
    }
}

/// The old array with a range along an axis replaced.
struct Spliced<'a> {
    old: &'a NdArray,
    axis: usize,
    range: Range<u64>,
    len: u64,
    /// The geometry of the inserted items.
    data: Geometry,
}

/// The shift of positions along the axis.
struct Shift {
    axis: usize,
    range: Range<u64>,
    len: u64,
}

impl Shift {
    /// Returns the position along the axis of the first chunk that changes. Earlier ones stay.
    fn first(&self, new: &Geometry) -> u64 {
        match new.chunkshape()[self.axis] {
            0 => 0,
            c => (self.range.start / u64::from(c)).min(new.grid()[self.axis]),
        }
    }

    /// Returns the size in bytes of all items in chunks that are rewritten.
    fn made(&self, old: &Geometry, new: &Geometry) -> u64 {
        let mut coords = vec![0; new.ndim()];
        let along = (self.first(new)..new.grid()[self.axis]).map(|k| {
            coords[self.axis] = k;
            if self.kept(old, new, &coords).is_some() { 0 } else { new.chunk_box(&coords).1[self.axis] }
        });
        let along = along.sum();
        let mut lengths = new.shape().to_vec();
        lengths[self.axis] = along;
        product(lengths).saturating_mul(new.itemsize() as u64)
    }

    /// Returns the old chunk that becomes the new chunk at `at` without changes, if there is one.
    fn kept(&self, old: &Geometry, new: &Geometry, at: &[u64]) -> Option<usize> {
        let (start, len) = new.chunk_box(at);
        let (start, len) = (start[self.axis], len[self.axis]);
        let c = u64::from(new.chunkshape()[self.axis]);
        let from = if start + len <= self.range.start {
            start
        } else if start >= self.range.start + self.len {
            start - self.len - self.range.start + self.range.end
        } else {
            return None;
        };
        // The old chunk must also be clipped alike at the edge, since clipped values must be
        // cleared.
        let whole = from.is_multiple_of(c) && len == c.min(old.shape()[self.axis] - from);
        if !whole {
            return None;
        }
        let mut coords = at.to_vec();
        coords[self.axis] = from / c;
        Some(linear(&coords, old.grid()) as usize)
    }

    /// Returns whether any kept chunk changes its position along the axis.
    fn any_moves(&self, old: &Geometry, new: &Geometry) -> bool {
        let c = u64::from(old.chunkshape()[self.axis]);
        let tail = old.shape()[self.axis] - self.range.end;
        let shift = self.len.abs_diff(self.range.end - self.range.start);
        // The first chunk boundary in the shifted tail.
        let first = (self.range.start + self.len).next_multiple_of(c.max(1));
        shift > 0 && tail > 0 && shift.is_multiple_of(c.max(1)) && first < new.shape()[self.axis]
    }
}

impl Spliced<'_> {
    fn moves(&self) -> Shift {
        Shift { axis: self.axis, range: self.range.clone(), len: self.len }
    }

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
            let mut items = memory::zeroed(nbytes).map_err(io::Error::other)?;
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
enum Rows<'s> {
    Memory(Strided<'s>),
    Shared(&'s dyn SharedRegions),
}

impl<'s> Rows<'s> {
    fn new(spliced: &Spliced<'_>, source: &'s dyn RegionSource, dtype: &Dtype) -> Option<Self> {
        let (shape, start) = (spliced.data.shape(), vec![0; spliced.data.ndim()]);
        match source.lend_region(&Region { whole: shape, dtype, start: &start, shape }) {
            Some(items) => Some(Self::Memory(items)),
            None => source.shared().map(Self::Shared),
        }
    }
}

/// A spliced array whose inserted items several threads can read at once.
struct SharedSpliced<'a> {
    spliced: &'a Spliced<'a>,
    rows: Rows<'a>,
}

impl SharedRegions for SharedSpliced<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.spliced.read_region(region, dst, |part, dst| match &self.rows {
            Rows::Memory(items) => items.read(part, dst),
            Rows::Shared(source) => source.read_region(part, dst),
        })
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<Strided<'_>> {
        let start = self.spliced.new_start(region)?;
        let part = Region { whole: self.spliced.data.shape(), start: &start, ..*region };
        match &self.rows {
            Rows::Memory(items) => items.lend_region(&part),
            Rows::Shared(source) => source.lend_region(&part),
        }
    }
}

/// A spliced array whose inserted items one thread reads at a time.
struct ReadSpliced<'a> {
    spliced: &'a Spliced<'a>,
    source: &'a mut dyn RegionSource,
}

impl RegionSource for ReadSpliced<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.spliced.read_region(region, dst, |part, dst| self.source.read_region(part, dst))
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<Strided<'_>> {
        let start = self.spliced.new_start(region)?;
        self.source.lend_region(&Region { whole: self.spliced.data.shape(), start: &start, ..*region })
    }

    fn chunk(&mut self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        let Spliced { axis, range, len, data, .. } = self.spliced;
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
