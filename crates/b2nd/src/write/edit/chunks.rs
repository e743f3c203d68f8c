//! Puts chunks into the frame. Their items come from the old array, with other items at some positions along an axis.

use std::io;
use std::ops::Range;

use b2_chunk::{Chunk, Compression, SpecialKind};
use b2_core::{Control, OutOfMemory, memory};
use b2_frame::{Entry, MAX_NCHUNKS, SuperChunk};

use crate::model::default_shapes::growable;
use crate::model::geometry::{for_each_position, product, strides};
use crate::model::meta::{METALAYER, OLD_METALAYER};
use crate::select::copy::copy_box;
use crate::select::copy_plan::linear;
use crate::write::edit::editor::ArrayEditor;
use crate::write::produce::{ChunkProducer, ProducedChunk};
use crate::write::source::{ChunkContent, Region, RegionSource, SharedRegions, StridedItems};
use crate::{Dtype, Geometry, NdArray, NdError};

/// The origin of one chunk of the changed array.
pub(super) enum ChunkOrigin {
    /// The chunk with this number in the old array, unchanged.
    Kept(usize),
    /// The next of the chunks that were appended to the frame.
    Appended,
}

/// The chunks that are rewritten when positions along an axis change.
pub(super) struct RewrittenChunks<K> {
    /// The position along the axis of the first of them. Earlier chunks stay.
    pub(super) first: u64,
    /// Whether all chunks that stay keep their numbers.
    pub(super) in_place: bool,
    /// Returns the number of the old chunk that becomes a later one of the new grid unchanged.
    pub(super) kept: K,
}

/// Returns the position along an axis of the chunk with the item at `start`.
pub(super) fn first_chunk(new: &Geometry, axis: usize, start: u64) -> u64 {
    match new.chunkshape()[axis] {
        0 => 0,
        c => (start / u64::from(c)).min(new.grid()[axis]),
    }
}

impl ArrayEditor {
    fn to_chunk(&self, produced: ProducedChunk) -> Result<Chunk, NdError> {
        match produced {
            ProducedChunk::Special(kind) => special(&self.geometry, kind, self.has_blocksize),
            ProducedChunk::Chunk(chunk) => Ok(chunk),
        }
    }

    /// Appends `count` chunks of zeros to the frame.
    pub(super) fn append_zeros(&mut self, count: u64) -> Result<(), NdError> {
        if count == 0 {
            return Ok(());
        }
        let chunk = special(&self.geometry, SpecialKind::Zeros, self.has_blocksize)?;
        for _ in 0..count {
            self.frame.append(chunk.clone())?;
        }
        Ok(())
    }

    /// Replaces the positions `range` along an axis by those of a source, when no rows are pending. `new` is the
    /// geometry of the result.
    pub(super) fn replace(
        &mut self,
        new: &Geometry,
        axis: usize,
        range: Range<u64>,
        source: &mut dyn RegionSource,
        control: &Control,
        renewed: RewrittenChunks<impl Fn(&[u64]) -> Option<usize> + Send + Sync>,
    ) -> Result<(), NdError> {
        let mut shape = new.shape().to_vec();
        let len = shape[axis] + (range.end - range.start) - self.geometry.shape()[axis];
        shape[axis] = len;
        let data = new.within(&shape);
        self.guarded(|editor| {
            let old = editor.now()?.clone().with_control(control.quiet());
            check_memory(&old)?;
            editor.renew(
                new,
                control,
                &ChangedArray { old: &old, axis, range, len, data },
                source,
                renewed,
            )?;
            drop(old);
            editor.set_shape(new.clone())
        })
    }

    /// Produces the changed chunks and puts all chunks in order.
    fn renew(
        &mut self,
        new: &Geometry,
        control: &Control,
        changed: &ChangedArray<'_>,
        source: &mut dyn RegionSource,
        RewrittenChunks { first, in_place, kept }: RewrittenChunks<
            impl Fn(&[u64]) -> Option<usize> + Send + Sync,
        >,
    ) -> Result<(), NdError> {
        let old = self.geometry.clone();
        let all: Vec<Range<u64>> = new.grid().iter().map(|&n| 0..n).collect();
        let mut grid = all.clone();
        grid[changed.axis].start = first;
        let before = self.frame.nchunks();
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
        match NewItems::new(changed, source, &dtype) {
            Some(items) => producer.run_shared(&grid, skip, &SharedChangedArray { changed, items }, put)?,
            None => producer.run(&grid, skip, &mut SequentialChangedArray { changed, source }, put)?,
        }
        if in_place {
            return self.truncate(new.nchunks());
        }
        let mut origins = Vec::new();
        for_each_position(&all, |at| -> Result<(), NdError> {
            origins.push(match at[changed.axis] < first {
                true => ChunkOrigin::Kept(linear(at, old.grid()) as usize),
                false => kept(at).map_or(ChunkOrigin::Appended, ChunkOrigin::Kept),
            });
            Ok(())
        })?;
        self.rearrange(before, &origins)
    }

    /// Removes chunks from the end of the frame until `nchunks` are left.
    pub(super) fn truncate(&mut self, nchunks: u64) -> Result<(), NdError> {
        while self.frame.nchunks() as u64 > nchunks {
            self.frame.delete(self.frame.nchunks() - 1)?;
        }
        Ok(())
    }

    /// Puts the chunks in the order of `origins` and removes those that are not among them. `old`
    /// is the number of chunks before any were appended.
    pub(super) fn rearrange(&mut self, old: usize, origins: &[ChunkOrigin]) -> Result<(), NdError> {
        let total = self.frame.nchunks();
        let mut used = memory::collect((0..total).map(|_| false))?;
        let mut appended = old;
        let mut order = memory::list(total)?;
        for origin in origins {
            let nchunk = match origin {
                ChunkOrigin::Kept(nchunk) => *nchunk,
                ChunkOrigin::Appended => {
                    appended += 1;
                    appended - 1
                }
            };
            used[nchunk] = true;
            order.push(nchunk);
        }
        let kept = order.len() as u64;
        order.extend((0..total).filter(|&nchunk| !used[nchunk]));
        self.frame.reorder(&order)?;
        self.truncate(kept)
    }

    /// Returns the geometry for another shape, if that is valid.
    pub(super) fn with_shape(&self, shape: &[u64]) -> Result<Geometry, NdError> {
        let g = &self.geometry;
        let new =
            Geometry::new(shape.to_vec(), g.chunkshape().to_vec(), g.blockshape().to_vec(), g.itemsize())?;
        if new.nchunks() > MAX_NCHUNKS as u64 {
            let what = format!("shape {shape:?} needs {} chunks, at most {MAX_NCHUNKS}", new.nchunks());
            return Err(NdError::geometry(what));
        }
        Ok(new)
    }

    /// Gives chunks and blocks a length along dimensions where they have none, if such a dimension is to get items by a
    /// change to `shape`. C-Blosc2 writes such arrays, and cannot change their shape.
    pub(super) fn open_dimensions(&mut self, shape: &[u64]) -> Result<(), NdError> {
        let old = &self.geometry;
        let is_closed = |(dim, &length): (usize, &u64)| {
            let none = |lengths: &[u32]| lengths.get(dim) == Some(&0);
            length > 0 && (none(old.chunkshape()) || none(old.blockshape()))
        };
        if !shape.iter().enumerate().any(is_closed) {
            return Ok(());
        }
        let (chunks, blocks) = growable(old.shape(), old.chunkshape(), old.blockshape(), old.itemsize());
        let new = Geometry::new(old.shape().to_vec(), chunks, blocks, old.itemsize())?;
        let cparams = self.cparams.clone().map(|cparams| {
            let like = Compression::from(cparams).blocksize(new.block_nbytes());
            like.blockshape(new.blockshape()).build()
        });
        let cparams = cparams.transpose()?;
        self.guarded(|editor| {
            editor.frame.set_chunksize(new.chunk_nbytes())?;
            editor.frame.set_blocksize(new.block_nbytes())?;
            editor.set_shape(new)
        })?;
        (self.cparams, self.has_blocksize) = (cparams, true);
        Ok(())
    }

    /// Writes the shapes to the metalayer and leaves everything else in it unchanged.
    pub(super) fn set_shape(&mut self, geometry: Geometry) -> Result<(), NdError> {
        let metalayers = self.frame.metalayers().clone();
        for name in [METALAYER, OLD_METALAYER] {
            let Some(meta) = metalayers.get(name) else { continue };
            let mut meta = meta.to_vec();
            // Three bytes and the marker of the list come first; each length then has a marker and
            // 8 bytes.
            let (shape, rest) = meta[4..].split_at_mut(9 * geometry.ndim());
            for (field, length) in shape.chunks_exact_mut(9).zip(geometry.shape()) {
                field[1..].copy_from_slice(&length.to_be_bytes());
            }
            // Then two lists, with 4 bytes for each length.
            let (chunks, rest) = rest.split_at_mut(1 + 5 * geometry.ndim());
            for (list, lengths) in [(chunks, geometry.chunkshape()), (rest, geometry.blockshape())] {
                for (field, length) in list[1..].chunks_exact_mut(5).zip(lengths) {
                    field[1..].copy_from_slice(&length.to_be_bytes());
                }
            }
            self.frame.set_metalayer(name, &meta)?;
            break;
        }
        self.geometry = geometry;
        Ok(())
    }
}

/// Creates a special chunk in the form that C-Blosc2 can read. `has_blocksize` is whether the frame header has the
/// block size of the array.
pub(super) fn special(g: &Geometry, kind: SpecialKind, has_blocksize: bool) -> Result<Chunk, NdError> {
    let zeros = matches!(kind, SpecialKind::Zeros | SpecialKind::Uninit);
    // C-Blosc2 reads special index entries with the block size of the frame header.
    if zeros && !has_blocksize {
        return Ok(Chunk::zero_runs(g.chunk_nbytes(), g.itemsize(), g.block_nbytes())?);
    }
    Ok(Chunk::special(kind, &[], g.chunk_nbytes(), g.itemsize(), g.block_nbytes())?)
}

/// Returns whether chunks with the same grid position have the same number in both grids, and no
/// other chunks do.
pub(super) fn same_numbers(old: &Geometry, new: &Geometry) -> bool {
    let common = product(old.grid().iter().zip(new.grid()).map(|(&a, &b)| a.min(b)));
    if common != old.nchunks().min(new.nchunks()) {
        return false;
    }
    let (mut old_step, mut new_step) = (1u64, 1u64);
    for (&a, &b) in old.grid().iter().zip(new.grid()).rev() {
        if a.min(b) > 1 && old_step != new_step {
            return false;
        }
        (old_step, new_step) = (old_step.saturating_mul(a), new_step.saturating_mul(b));
    }
    true
}

/// Fails if a chunk is too large to be changed, which needs memory for its plain and its compressed
/// bytes.
pub(super) fn check_memory(array: &NdArray) -> Result<(), NdError> {
    let nbytes = (array.geometry().chunk_nbytes() as u64).saturating_mul(2);
    Ok(array.super_chunk().dparams().limits.check_memory("a chunk to be changed, in bytes", nbytes)?)
}

/// Decodes chunk `nchunk`, block after block. Returns `None` if all its bytes are zero.
pub(super) fn plain(array: &NdArray, nchunk: usize) -> Result<Option<Vec<u8>>, NdError> {
    let frame: &SuperChunk = array.super_chunk();
    if let Entry::Special(SpecialKind::Zeros | SpecialKind::Uninit) = frame.chunk(nchunk).entry()? {
        return Ok(None);
    }
    check_memory(array)?;
    // The items go into a new chunk, so damage must be found: it must not get a valid checksum.
    let plain = frame.for_rewrite().chunk(nchunk).decompress()?;
    array.check_chunk(nchunk, plain.len())?;
    Ok(Some(plain))
}

/// Returns the chunk with zeros outside the box `0..keep`.
pub(super) fn cropped(geometry: &Geometry, chunk: &[u8], keep: &[u64]) -> Result<Vec<u8>, OutOfMemory> {
    let itemsize = geometry.itemsize();
    let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), itemsize);
    let mut out = memory::zeroed(chunk.len())?;
    let size = geometry.block_nbytes();
    let mut blocks = out.chunks_exact_mut(size).zip(chunk.chunks_exact(size));
    let ranges: Vec<_> = geometry.blocks().iter().map(|&n| 0..u64::from(n)).collect();
    let mut counts = vec![0; keep.len()];
    let done: Result<(), std::convert::Infallible> = for_each_position(&ranges, |block| {
        let Some((dst, src)) = blocks.next() else { return Ok(()) };
        for (dim, &j) in block.iter().enumerate() {
            let b = u64::from(geometry.blockshape()[dim]);
            counts[dim] = keep[dim].saturating_sub(j * b).min(b) as usize;
        }
        copy_box(&counts, itemsize, (src, 0, &block_strides), (dst, 0, &block_strides));
        Ok(())
    });
    let Ok(()) = done;
    Ok(out)
}

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
        // First copy the items before and after the inserted positions.
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

/// Inserted items that several threads can read concurrently.
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

/// A changed array whose inserted items several threads can read concurrently.
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
