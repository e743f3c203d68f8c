//! Copies items at single positions between blocks and a buffer.

use std::convert::Infallible;
use std::ops::Range;

use b2_core::{OutOfMemory, memory};

use crate::Geometry;
use crate::model::geometry::{for_each_position, product, strides};
use crate::select::copy_plan::{ChunkPart, CopyPlan, CopyRegion, PartDim, Units, cut, separate};
use crate::select::resolved::{AxisSelection, PositionRun, ResolvedPoints};

/// Points in some dimensions of the array, combined with every combination of the positions chosen
/// along the other dimensions.
pub(crate) struct PointCopyPlan {
    /// Number of blocks of a chunk.
    per_chunk: u64,
    /// The points sorted by block; points of the same block keep their order.
    points: Vec<Point>,
    /// The range of `points` that lies in each chunk (a group).
    groups: Vec<Range<usize>>,
    /// Stride between points in the buffer, in bytes.
    stride: isize,
    others: Vec<RemainingDimension>,
    /// The range of bytes that is moved of each item.
    item: Range<usize>,
    buffer_offset: usize,
    nbytes: u64,
    /// How many of `others` come before the first dimension of the points, and before the last.
    before: usize,
    within: usize,
    /// If other dimensions lie between those of the points: pairs of a group and a combination of
    /// chunks along these dimensions, sorted by chunk number.
    middle: Vec<(usize, u64)>,
}

/// A dimension that the points do not name.
struct RemainingDimension {
    axis: Axis,
    along: AxisSelection,
    /// Stride in the buffer, in bytes.
    stride: isize,
    /// The chunks that hold positions, and the ranks of these positions.
    chunks: Vec<(u64, Range<u64>)>,
}

/// A dimension of the array. The number of a chunk (or of a block in its chunk) is a sum over the
/// dimensions, so the dimensions of the points and the other ones contribute to it separately.
#[derive(Clone)]
struct Axis {
    /// Length of a chunk and of a block, in items.
    chunk: u64,
    block: u64,
    /// Number of chunks of the array and of blocks of a chunk.
    nchunks: u64,
    nblocks: u64,
    /// The increments of the chunk and block numbers per step along this dimension.
    chunk_step: u64,
    block_step: u64,
    /// Stride of items in a block, in bytes.
    stride: isize,
}

impl Axis {
    /// Returns the axes of an array. The steps are meaningless if the array has no items.
    fn all(geometry: &Geometry) -> Vec<Self> {
        let strides = strides(geometry.blockshape().iter().map(|&b| b as usize), geometry.itemsize());
        let mut axes = Vec::with_capacity(strides.len());
        let (mut chunk_step, mut block_step) = (1u64, 1u64);
        for (dim, &stride) in strides.iter().enumerate().rev() {
            let (nchunks, nblocks) = (geometry.grid()[dim], u64::from(geometry.blocks()[dim]));
            let (chunk, block) = (geometry.chunkshape()[dim].into(), geometry.blockshape()[dim].into());
            axes.push(Self { chunk, block, nchunks, nblocks, chunk_step, block_step, stride });
            (chunk_step, block_step) = (chunk_step.wrapping_mul(nchunks), block_step.wrapping_mul(nblocks));
        }
        axes.reverse();
        axes
    }

    /// Returns the first position of a chunk along this dimension.
    fn chunk_start(&self, nchunk: u64) -> u64 {
        nchunk / self.chunk_step % self.nchunks * self.chunk
    }

    /// Returns the index of a block in its chunk along this dimension.
    fn block_at(&self, nblock: u64) -> u64 {
        nblock / self.block_step % self.nblocks
    }
}

#[derive(Clone, Debug)]
struct Point {
    /// The points' contribution to the block number, with blocks counted through all chunks.
    block: u64,
    /// Offset of its first item in the block, in bytes.
    offset: usize,
    /// Index of the point in the result.
    place: usize,
}

impl PointCopyPlan {
    /// `item` is the range of bytes that is moved of each item. The last argument is the buffer's
    /// offset of the first item, its stride between points, and its stride along each dimension of
    /// the array, in bytes.
    pub(crate) fn new(
        geometry: &Geometry,
        along: &[AxisSelection],
        points: &ResolvedPoints,
        item: Range<usize>,
        (buffer_offset, stride, buffer_strides): (usize, isize, Vec<isize>),
    ) -> Result<Self, OutOfMemory> {
        let dims = &points.dims[..];
        let axes = Axis::all(geometry);
        let mut others = Vec::with_capacity(along.len() - dims.len());
        for (dim, (along, &stride)) in along.iter().zip(&buffer_strides).enumerate() {
            if !dims.contains(&dim) {
                let axis = axes[dim].clone();
                let chunks = cut(along, 0, axis.chunk, u64::MAX)?;
                others.push(RemainingDimension { axis, along: along.clone(), stride, chunks });
            }
        }
        let nitems = product(others.iter().map(|other| other.along.len()).chain([points.len as u64]));
        let nbytes = nitems.saturating_mul(item.len() as u64);
        // `others` does not contain the dimensions of the points, so they are not counted.
        let before = dims.first().map_or(0, |&first| first);
        let within = dims.last().map_or(0, |&last| last + 1 - dims.len());
        let mut moves = Self {
            per_chunk: geometry.nblocks() as u64,
            points: memory::list(points.len)?,
            groups: Vec::new(),
            stride,
            others,
            item,
            buffer_offset,
            nbytes,
            before,
            within,
            middle: Vec::new(),
        };
        if nbytes > 0 {
            let axes: Vec<Axis> = dims.iter().map(|&dim| axes[dim].clone()).collect();
            moves.group(&axes, points)?;
        }
        Ok(moves)
    }

    /// Computes the block of each point and groups the points by chunk. `axes` are those of the
    /// points.
    fn group(&mut self, axes: &[Axis], points: &ResolvedPoints) -> Result<(), OutOfMemory> {
        for place in 0..points.len {
            let (mut chunk, mut block, mut offset) = (0, 0, 0);
            for (axis, &at) in axes.iter().zip(points.point(place)) {
                let in_chunk = at % axis.chunk;
                chunk += at / axis.chunk * axis.chunk_step;
                block += in_chunk / axis.block * axis.block_step;
                offset += (in_chunk % axis.block) as usize * axis.stride as usize;
            }
            self.points.push(Point { block: chunk * self.per_chunk + block, offset, place });
        }
        self.points.sort_unstable_by_key(|point| (point.block, point.place));
        let mut rest = &self.points[..];
        while let Some(first) = rest.first() {
            let end = (first.block / self.per_chunk + 1) * self.per_chunk;
            let start = self.points.len() - rest.len();
            let len = rest.partition_point(|point| point.block < end);
            memory::push(&mut self.groups, start..start + len)?;
            rest = &rest[len..];
        }
        if self.within > self.before {
            let nbetween = self.nchunks(self.before..self.within);
            let mut middle = memory::list(self.groups.len().saturating_mul(nbetween as usize))?;
            for group in 0..self.groups.len() {
                middle.extend((0..nbetween).map(|between| (group, between)));
            }
            middle.sort_by_cached_key(|&(group, between)| {
                self.share(self.before..self.within, between) + self.share_of_group(group)
            });
            self.middle = middle;
        }
        Ok(())
    }

    /// Returns the number of combinations of chunks along some of the other dimensions.
    fn nchunks(&self, others: Range<usize>) -> u64 {
        product(self.others[others].iter().map(|other| other.chunks.len() as u64))
    }

    /// Returns the contribution of such a combination to the chunk number.
    fn share(&self, others: Range<usize>, mut combination: u64) -> u64 {
        let mut share = 0;
        for other in self.others[others].iter().rev() {
            let len = other.chunks.len() as u64;
            share += other.chunks[(combination % len) as usize].0 * other.axis.chunk_step;
            combination /= len;
        }
        share
    }

    /// Returns the contribution of a group of points to the chunk number.
    fn share_of_group(&self, group: usize) -> u64 {
        self.points[self.groups[group].start].block / self.per_chunk
    }

    /// Returns the chunk number of a part, and the group of its points.
    fn chunk(&self, npart: u64) -> (u64, usize) {
        let (ngroups, nothers) = (self.groups.len() as u64, self.others.len());
        let nafter = self.nchunks(self.within..nothers);
        let nmiddle = ngroups * self.nchunks(self.before..self.within);
        let (outer, after) = (npart / nafter, npart % nafter);
        let (before, middle) = (outer / nmiddle, (outer % nmiddle) as usize);
        let (group, between) = if self.within > self.before { self.middle[middle] } else { (middle, 0) };
        let nchunk = self.share_of_group(group)
            + self.share(0..self.before, before)
            + self.share(self.before..self.within, between)
            + self.share(self.within..nothers, after);
        (nchunk, group)
    }
}

impl CopyPlan for PointCopyPlan {
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    fn nparts(&self) -> u64 {
        match self.nbytes {
            0 => 0,
            _ => self.nchunks(0..self.others.len()) * self.groups.len() as u64,
        }
    }

    fn disjoint(&self) -> bool {
        let others = self.others.iter().map(|other| (other.stride, other.along.len()));
        separate(self.item.len(), others.chain([(self.stride, self.points.len() as u64)]))
    }

    fn item(&self) -> Range<usize> {
        self.item.clone()
    }

    fn nchunk(&self, npart: u64) -> usize {
        self.chunk(npart).0 as usize
    }

    fn unblocked(&self, _npart: u64) -> Result<Option<ChunkPart>, OutOfMemory> {
        Ok(None)
    }

    fn part(&self, npart: u64) -> Result<ChunkPart, OutOfMemory> {
        let (nchunk, group) = self.chunk(npart);
        let points = &self.points[self.groups[group].clone()];
        let first_block = self.share_of_group(group) * self.per_chunk;
        let mut dims = Vec::with_capacity(self.others.len());
        for other in &self.others {
            let start = other.axis.chunk_start(nchunk);
            let blocks = cut(&other.along, start, other.axis.block, start + other.axis.chunk)?;
            dims.push(PartDim { start, blocks });
        }
        let ranges: Vec<Range<u64>> = dims.iter().map(|dim| 0..dim.blocks.len() as u64).collect();
        let mut nblocks = Vec::new();
        for same in points.chunk_by(|a, b| a.block == b.block) {
            for_each_position(&ranges, |at| {
                let share = |((dim, other), &i): ((&PartDim, &RemainingDimension), &u64)| {
                    dim.blocks[i as usize].0 * other.axis.block_step
                };
                let shares = dims.iter().zip(&self.others).zip(at).map(share);
                let nblock = same[0].block - first_block + shares.sum::<u64>();
                memory::push(&mut nblocks, nblock as usize)
            })?;
        }
        nblocks.sort_unstable();
        let (nchunk, members) = (nchunk as usize, Vec::new());
        Ok(ChunkPart { nchunk, nblocks, whole: false, units: Units::Blocks, group, dims, members })
    }

    fn visit(&self, part: &ChunkPart, nblock: usize, each: &mut dyn FnMut(CopyRegion<'_>)) {
        // Subtract the contributions of the other dimensions; the contribution of the points remains.
        let mut block = self.share_of_group(part.group) * self.per_chunk + nblock as u64;
        // For each other dimension, the first position of the block and the positions chosen in it.
        let mut chosen: Vec<(u64, Vec<PositionRun>)> = Vec::with_capacity(part.dims.len());
        for (dim, other) in part.dims.iter().zip(&self.others) {
            let at = other.axis.block_at(nblock as u64);
            // Callers pass only members of `nblocks`, so the block is always found.
            let Some(ranks) = dim.ranks(at) else { return };
            block -= at * other.axis.block_step;
            chosen.push((dim.start + at * other.axis.block, other.along.runs(ranks)));
        }
        let points = &self.points[self.groups[part.group].clone()];
        let first = points.partition_point(|point| point.block < block);
        let points = || points[first..].iter().take_while(|point| point.block == block);
        let ranges: Vec<Range<u64>> = chosen.iter().map(|(_, runs)| 0..runs.len() as u64).collect();
        let mut counts = vec![0; chosen.len()];
        let (mut from_strides, mut to_strides) = (vec![0; chosen.len()], vec![0; chosen.len()]);
        let done: Result<(), Infallible> = for_each_position(&ranges, |k| {
            let (mut from, mut to) = (self.item.start as isize, self.buffer_offset as isize);
            for (n, (RemainingDimension { axis, stride, .. }, &i)) in self.others.iter().zip(k).enumerate() {
                let (origin, run) = (chosen[n].0, chosen[n].1[i as usize]);
                counts[n] = run.count as usize;
                from += (run.position - origin) as isize * axis.stride;
                to += run.place as isize * stride;
                // The step of a single item is meaningless and may be huge.
                let (step, place_step) = if run.count > 1 { (run.step, run.place_step) } else { (1, 1) };
                from_strides[n] = axis.stride * step as isize;
                to_strides[n] = stride * place_step as isize;
            }
            for point in points() {
                let from = from as usize + point.offset;
                let to = (to + point.place as isize * self.stride) as usize;
                each(CopyRegion::new(&counts, self.item.len(), (from, &from_strides), (to, &to_strides)));
            }
            Ok(())
        });
        let Ok(()) = done;
    }
}
