//! Joining arrays along an axis.

use std::io;

use b2_chunk::{CodecId, FilterId};
use b2_frame::Entry;

use crate::geometry::{product, strides};
use crate::read::read_to_keep;
use crate::select::{Along, OutDim};
use crate::source::{ChunkContent, RegionSource, invalid};
use crate::view::check_len;
use crate::{ArrayBuilder, Geometry, NdArray, NdError, Slice};

/// Several arrays, or views of arrays, joined along an axis; the source of a new array.
///
/// Chunks that are cut alike in the new array are copied as they are, the others are compressed anew, in
/// bounded memory.
///
/// ```
/// use b2nd::{ArrayBuilder, ByIndex, Concat, NdArray};
/// # let make = |rows| ArrayBuilder::of::<u8>([rows, 3]).to_memory(&mut ByIndex(|i| i as u8));
/// # let (a, b) = (NdArray::from_bytes(make(2)?)?, NdArray::from_bytes(make(1)?)?);
///
/// let joined = Concat::new([a.all(), b.all()], 0)?;
/// let array = NdArray::from_bytes(joined.builder().to_memory(&mut { joined })?)?;
/// assert_eq!((array.shape(), array.all().read()?), (&[3, 3][..], vec![0, 1, 2, 3, 4, 5, 0, 1, 2]));
///
/// let stacked = Concat::stack([a.slice([1])?, b.slice([0])?], 1)?;
/// let array = NdArray::from_bytes(stacked.builder().to_memory(&mut { stacked })?)?;
/// assert_eq!((array.shape(), array.all().read()?), (&[3, 2][..], vec![3, 0, 4, 1, 5, 2]));
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concat<'a> {
    parts: Vec<Slice<'a>>,
    axis: usize,
    shape: Vec<u64>,
    /// Where each part starts along the axis.
    starts: Vec<u64>,
    recompress: bool,
}

impl<'a> Concat<'a> {
    /// Joins arrays along an axis that they have, `numpy.concatenate`.
    ///
    /// # Errors
    /// When there are none, or they differ in dtype or in a length along another axis.
    pub fn new(parts: impl Into<Vec<Slice<'a>>>, axis: usize) -> Result<Self, NdError> {
        let parts = parts.into();
        let Some(first) = parts.first() else { return Err(NdError::geometry("there is nothing to join")) };
        let mut shape = first.own_shape();
        if axis >= shape.len() {
            let what = format!("the arrays have {} dimensions", shape.len());
            return Err(NdError::Slice { dim: axis, what });
        }
        let mut starts = Vec::with_capacity(parts.len());
        shape[axis] = 0;
        let across = shape.clone();
        for part in &parts {
            let mut other = part.own_shape();
            let len = other.get_mut(axis).map(std::mem::take).unwrap_or_default();
            if other != across || part.dtype() != first.dtype() || part.shape().len() != shape.len() {
                return Err(NdError::geometry(format!(
                    "arrays of {:?} {} and {:?} {} cannot be joined along axis {axis}",
                    first.shape(),
                    first.dtype(),
                    part.shape(),
                    part.dtype()
                )));
            }
            starts.push(shape[axis]);
            shape[axis] = shape[axis].checked_add(len).ok_or(NdError::TooLarge { asked: u64::MAX })?;
        }
        Ok(Self { parts, axis, shape, starts, recompress: false })
    }

    /// Joins arrays of the same shape along a new axis, `numpy.stack`.
    ///
    /// # Errors
    /// When there are none, they differ in dtype or shape, or there is no room for the axis.
    pub fn stack(parts: impl Into<Vec<Slice<'a>>>, axis: usize) -> Result<Self, NdError> {
        let parts: Vec<Slice<'a>> = parts.into();
        let expanded: Result<Vec<_>, _> = parts.iter().map(|part| part.expand_dims(axis)).collect();
        Self::new(expanded?, axis)
    }

    /// Whether chunks that could be copied are compressed anew all the same.
    pub fn recompress(mut self, recompress: bool) -> Self {
        self.recompress = recompress;
        self
    }

    /// Shape of the result.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The result as a new array: chunks, blocks and compression are those of the first part, with chunks of
    /// length 1 along a new axis.
    pub fn builder(&self) -> ArrayBuilder {
        let first = &self.parts[0];
        let array = first.array();
        let along = |lengths: &[u32]| -> Vec<u32> {
            let dim = |dim: &OutDim| if let OutDim::Of(of) = dim { lengths[*of] } else { 1 };
            first.dims().1.iter().map(dim).collect()
        };
        let builder = ArrayBuilder::like(array);
        if first.itemsize() != array.itemsize() {
            let builder = ArrayBuilder::new(&self.shape[..], first.dtype().clone());
            return builder.chunkshape(along(array.chunkshape())).blockshape(along(array.blockshape()));
        }
        builder
            .shape(&self.shape[..])
            .chunkshape(along(array.chunkshape()))
            .blockshape(along(array.blockshape()))
    }

    /// The parts that `start..end` along the axis touches: which, and which range of each.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&Slice<'a>, u64, u64)> {
        let axis = self.axis;
        let first = self.starts.partition_point(|&s| s <= start).saturating_sub(1);
        self.parts.iter().zip(&self.starts).skip(first).map_while(move |(part, &at)| {
            let stop = at + part.own_shape()[axis];
            (at < end).then(|| (part, start.max(at) - at, end.min(stop).max(at) - at))
        })
    }
}

impl RegionSource for Concat<'_> {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let itemsize = g.itemsize();
        if g.shape() != self.shape || self.parts.iter().any(|part| part.itemsize() != itemsize) {
            return invalid(format!("the source has shape {:?}, the array {:?}", self.shape, g.shape()));
        }
        check_len(dst.len(), product(shape.iter().copied()) * itemsize as u64).map_err(io::Error::other)?;
        let dst_strides = strides(shape.iter().map(|&n| n as usize), itemsize);
        let axis = self.axis;
        let mut offset = 0;
        for (part, from, to) in self.overlapping(start[axis], start[axis] + shape[axis]) {
            let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
            (start[axis], shape[axis]) = (from, to.saturating_sub(from));
            let part = part.boxed(&start, &shape).map_err(io::Error::other)?;
            let moves = part.moves(offset, &dst_strides).map_err(io::Error::other)?;
            read_to_keep(part.array(), &moves, dst).map_err(io::Error::other)?;
            offset += shape[axis] as usize * dst_strides[axis] as usize;
        }
        Ok(())
    }

    fn chunk(&mut self, g: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        if self.recompress {
            return Ok(ChunkContent::Items);
        }
        let (start, len) = g.chunk_box(&g.chunk_coords(nchunk));
        let axis = self.axis;
        let mut parts =
            self.overlapping(start[axis], start[axis] + len[axis]).filter(|(_, from, to)| from < to);
        let (Some((part, from, _)), None) = (parts.next(), parts.next()) else {
            return Ok(ChunkContent::Items);
        };
        match same_chunk(part, g, axis, from, &start, &len) {
            Some(nchunk) => as_stored(part.array(), nchunk).map_err(io::Error::other),
            None => Ok(ChunkContent::Items),
        }
    }
}

/// The chunk of a part that holds the same items in the same order as the box `start`, `len` of the result,
/// which begins at `from` along the axis.
fn same_chunk(
    part: &Slice<'_>,
    g: &Geometry,
    axis: usize,
    from: u64,
    start: &[u64],
    len: &[u64],
) -> Option<usize> {
    let array = part.array();
    let own = array.geometry();
    if array.itemsize() != g.itemsize()
        || part.itemsize() != g.itemsize()
        // An item size that the header has lost is put right in the copy.
        || array.super_chunk().typesize() != array.itemsize()
    {
        return None;
    }
    let (along, out) = part.dims();
    let mut coords = Vec::with_capacity(own.ndim());
    for (k, dim) in out.iter().enumerate() {
        match *dim {
            OutDim::Of(of) => {
                let Along::Steps(p) = along[of] else { return None };
                let at = p.start + if k == axis { from } else { start[k] };
                let c = u64::from(g.chunkshape()[k]);
                // In the order of the array, cut alike, and not a piece of a chunk.
                let alike = of == coords.len()
                    && (p.step == 1 || p.len == 1)
                    && (own.chunkshape()[of], own.blockshape()[of]) == (g.chunkshape()[k], g.blockshape()[k])
                    && at.is_multiple_of(c)
                    && len[k] == c.min(array.shape()[of] - at);
                if !alike {
                    return None;
                }
                coords.push(at / c);
            }
            OutDim::New(_) if (g.chunkshape()[k], g.blockshape()[k]) == (1, 1) => {}
            OutDim::New(_) => return None,
        }
    }
    // Dimensions that were dropped, or shape-dependent compression of blocks with another shape.
    if coords.len() != own.ndim() || (g.ndim() != own.ndim() && !shapeless(array, &coords)) {
        return None;
    }
    usize::try_from(crate::moves::linear(&coords, own.grid())).ok()
}

/// Whether a chunk decodes without the shape of its blocks.
fn shapeless(array: &NdArray, coords: &[u64]) -> bool {
    let nchunk = crate::moves::linear(coords, array.geometry().grid()) as usize;
    let Ok(header) = array.super_chunk().chunk_header(nchunk) else { return false };
    let Some(header) = header else { return true };
    let known = [
        FilterId::NONE,
        FilterId::SHUFFLE,
        FilterId::BITSHUFFLE,
        FilterId::DELTA,
        FilterId::TRUNC_PREC,
        FilterId::BYTEDELTA,
        FilterId::INT_TRUNC,
    ];
    let codecs = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    header.special().is_some()
        || header.is_memcpyed()
        || (header.filters().iter().all(|slot| known.contains(&slot.id))
            && header.codec().is_some_and(|codec| codecs.contains(&codec)))
}

/// A chunk as it is, if it can stand in another frame.
fn as_stored(array: &NdArray, nchunk: usize) -> Result<ChunkContent, NdError> {
    let frame = array.super_chunk();
    if let Entry::Special(kind) = frame.entry(nchunk)? {
        return Ok(ChunkContent::Special(kind));
    }
    let chunk = frame.chunk(nchunk)?;
    let (header, geometry) = (chunk.header(), array.geometry());
    let fits = chunk.nbytes() == geometry.chunk_nbytes()
        && !header.is_vl()
        && header.blocksize() == geometry.block_nbytes();
    Ok(if fits { ChunkContent::Chunk(chunk) } else { ChunkContent::Items })
}
