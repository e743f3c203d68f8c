//! Inserting and removing along an axis.

use std::io;
use std::ops::Range;

use crate::copy::copy_box;
use crate::edit::ArrayEditor;
use crate::edit::chunks::{Target, check_memory, same_numbers};
use crate::geometry::{for_each_position, product, strides};
use crate::moves::linear;
use crate::produce::Job;
use crate::read::read_to_keep;
use crate::source::{ChunkContent, Region, RegionSource};
use crate::{Geometry, NdArray, NdError};
use b2_chunk::memory;

impl ArrayEditor {
    /// Inserts items along an axis, before position `at`; see [`append`](Self::append). Chunks that only move
    /// are not touched; where the shift is no multiple of a chunk's length, all behind `at` are made anew, in
    /// bounded memory.
    ///
    /// # Errors
    /// As [`append`](Self::append), and when `at` is beyond the end.
    pub fn insert(
        &mut self,
        axis: usize,
        at: u64,
        len: u64,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        self.splice(axis, at..at, len, source)
    }

    /// Removes the positions `range` along an axis; see [`insert`](Self::insert) for what that costs.
    ///
    /// # Errors
    /// When there is no such axis, the range is not inside it, or reading or writing fails.
    pub fn delete(&mut self, axis: usize, range: Range<u64>) -> Result<(), NdError> {
        self.splice(axis, range, 0, &mut &[][..])
    }

    /// Puts `len` positions in the place of `range` along an axis.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`delete`](Self::delete).
    pub fn splice(
        &mut self,
        axis: usize,
        range: Range<u64>,
        len: u64,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        self.usable()?;
        self.flush()?;
        self.splice_stored(axis, range, len, source)
    }

    /// The same, with no rows waiting.
    pub(super) fn splice_stored(
        &mut self,
        axis: usize,
        range: Range<u64>,
        len: u64,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        let length = self.length(axis)?;
        if range.start > range.end || range.end > length {
            let what = format!("positions {}..{} are not inside length {length}", range.start, range.end);
            return Err(NdError::Slice { dim: axis, what });
        }
        let removed = range.end - range.start;
        let new_length = (length - removed).checked_add(len).ok_or(NdError::TooLarge { asked: u64::MAX })?;
        let mut shape = self.shape().to_vec();
        shape[axis] = new_length;
        let new = self.with_shape(&shape)?;
        shape[axis] = len;
        let data = self.with_shape(&shape)?;
        if removed == 0 && len == 0 {
            return self.usable();
        }
        self.guarded(|editor| {
            let cparams = editor.cparams()?;
            let old = editor.now()?.clone();
            check_memory(&old)?;
            let spliced = Spliced { old: &old, axis, range, len, source, data };
            editor.put_spliced(&new, cparams, spliced)?;
            drop(old);
            editor.set_shape(new)
        })
    }

    pub(super) fn length(&self, axis: usize) -> Result<u64, NdError> {
        self.shape().get(axis).copied().ok_or_else(|| NdError::Slice {
            dim: axis,
            what: format!("the array has {} dimensions", self.shape().len()),
        })
    }

    fn put_spliced(
        &mut self,
        new: &Geometry,
        cparams: b2_chunk::CParams,
        mut spliced: Spliced<'_>,
    ) -> Result<(), NdError> {
        let old = self.geometry.clone();
        let axis = spliced.axis;
        // Chunks before the first that changes stay.
        let first = match old.chunkshape()[axis] {
            0 => 0,
            c => (spliced.range.start / u64::from(c)).min(new.grid()[axis]),
        };
        let mut grid: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        grid[axis].start = first;
        let moves = spliced.moves();
        let kept = |at: &[u64]| moves.kept(&old, new, at);
        let (before, in_place) = (self.frame.nchunks(), same_numbers(&old, new));
        // Kept chunks that move along the axis get other numbers.
        let in_place = in_place && !moves.any_moves(&old, new);
        let job = Job { geometry: new, cparams: &cparams, grid: &grid, skip: &|at| kept(at).is_some() };
        job.run(&mut spliced, |nchunk, produced| {
            let chunk = self.to_chunk(produced)?;
            match in_place && (nchunk as usize) < before {
                true => self.frame.update(nchunk as usize, chunk)?,
                false => drop(self.frame.append(chunk)?),
            }
            Ok(())
        })?;
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

/// An old array with a part along an axis replaced.
struct Spliced<'a> {
    old: &'a NdArray,
    axis: usize,
    range: Range<u64>,
    len: u64,
    source: &'a mut dyn RegionSource,
    /// Of the source.
    data: Geometry,
}

/// How positions along the axis move.
struct Shift {
    axis: usize,
    range: Range<u64>,
    len: u64,
}

impl Shift {
    /// The old chunk that makes up a new one as it is.
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
        // Cut alike, too: what was cut off must be cleared.
        let whole = from.is_multiple_of(c) && len == c.min(old.shape()[self.axis] - from);
        if !whole {
            return None;
        }
        let mut coords = at.to_vec();
        coords[self.axis] = from / c;
        Some(linear(&coords, old.grid()) as usize)
    }

    /// Whether a chunk that is kept has another place along the axis.
    fn any_moves(&self, old: &Geometry, new: &Geometry) -> bool {
        let c = u64::from(old.chunkshape()[self.axis]);
        let tail = old.shape()[self.axis] - self.range.end;
        let shift = self.len.abs_diff(self.range.end - self.range.start);
        // The first chunk that lies in the shifted tail.
        let first = (self.range.start + self.len).next_multiple_of(c.max(1));
        shift > 0 && tail > 0 && shift.is_multiple_of(c.max(1)) && first < new.shape()[self.axis]
    }
}

impl Spliced<'_> {
    fn moves(&self) -> Shift {
        Shift { axis: self.axis, range: self.range.clone(), len: self.len }
    }

    /// Reads a box of new items. `dst_strides` are those of the result, `offset` is in bytes.
    fn read_new(
        &mut self,
        start: &[u64],
        shape: &[u64],
        (dst, offset, dst_strides): (&mut [u8], usize, &[isize]),
    ) -> io::Result<()> {
        let itemsize = self.data.itemsize();
        let nbytes = product(shape.iter().copied()) as usize * itemsize;
        if nbytes == dst.len() {
            return self.source.read_region(&self.data, start, shape, dst);
        }
        let mut part = memory::zeroed(nbytes).map_err(io::Error::other)?;
        self.source.read_region(&self.data, start, shape, &mut part)?;
        let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let strides = strides(counts.iter().copied(), itemsize);
        copy_box(&counts, itemsize, (&part, 0, &strides), (dst, offset, dst_strides));
        Ok(())
    }
}

impl RegionSource for Spliced<'_> {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()> {
        let axis = self.axis;
        let dst_strides = strides(shape.iter().map(|&n| n as usize), geometry.itemsize());
        let (first, last) = (start[axis], start[axis] + shape[axis]);
        let inserted = self.range.start..self.range.start + self.len;
        let offset = |at: u64| (at - first) as usize * dst_strides[axis] as usize;
        let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
        // What is before, inside and behind the new positions.
        for (at, end, from) in
            [(first, last.min(inserted.start), None), (first.max(inserted.end), last, Some(self.range.end))]
        {
            if at < end {
                start[axis] = from.map_or(at, |from| at - inserted.end + from);
                shape[axis] = end - at;
                let part = self.old.all().boxed(&start, &shape).map_err(io::Error::other)?;
                let moves = part.moves(offset(at), &dst_strides).map_err(io::Error::other)?;
                read_to_keep(self.old, &moves, dst).map_err(io::Error::other)?;
            }
        }
        let (at, end) = (first.max(inserted.start), last.min(inserted.end));
        if at < end {
            (start[axis], shape[axis]) = (at - inserted.start, end - at);
            self.read_new(&start, &shape, (dst, offset(at), &dst_strides))?;
        }
        Ok(())
    }

    fn region(&self, _: &Geometry, start: &[u64], shape: &[u64]) -> Option<Region<'_>> {
        let mut start = start.to_vec();
        // Only where all of it is new.
        start[self.axis] = start[self.axis].checked_sub(self.range.start)?;
        let new = start[self.axis] + shape[self.axis] <= self.len;
        new.then(|| self.source.region(&self.data, &start, shape))?
    }

    fn chunk(&mut self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        let mut at = geometry.chunk_coords(nchunk);
        let (start, len) = geometry.chunk_box(&at);
        let (start, len) = (start[self.axis], len[self.axis]);
        let c = u64::from(geometry.chunkshape()[self.axis]);
        let Some(from) = start.checked_sub(self.range.start) else { return Ok(ChunkContent::Items) };
        // A chunk of the source, cut alike.
        let alike = from < self.len && from.is_multiple_of(c) && len == c.min(self.len - from);
        if !alike {
            return Ok(ChunkContent::Items);
        }
        at[self.axis] = from / c;
        self.source.chunk(&self.data, linear(&at, self.data.grid()))
    }
}
