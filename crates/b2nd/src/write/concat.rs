//! Joins arrays along an axis.

use std::io;

use b2_chunk::Chunk;
use b2_frame::{Entry, FrameError, ReadAhead};

use crate::model::geometry::{dimensions, product, strides};
use crate::read::output::check_len;
use crate::select::resolved::{AxisSelection, OutDim};
use crate::write::source::{Amount, ChunkContent, Region, RegionSource, invalid};
use crate::{ArrayBuilder, Dtype, Geometry, NdArray, NdError, Slice};

/// Several arrays or views joined along an axis, as the source of a new array.
///
/// Chunks whose boundaries match those of the new array are copied without recompression. The
/// others are recompressed in bounded memory.
///
/// ```
/// use b2nd::{ArrayBuilder, Concat, NdArray, source};
/// # let make = |rows| ArrayBuilder::new::<u8>([rows, 3]).to_bytes(source::by_index(|i| i as u8));
/// # let (a, b) = (NdArray::from_bytes(make(2)?)?, NdArray::from_bytes(make(1)?)?);
///
/// let joined = Concat::new([a.all(), b.all()], 0)?;
/// let array = NdArray::from_bytes(joined.builder().to_bytes(joined)?)?;
/// assert_eq!((array.shape(), array.all().read_bytes()?), (&[3, 3][..], vec![0, 1, 2, 3, 4, 5, 0, 1, 2]));
///
/// let stacked = Concat::stack([a.slice([1])?, b.slice([0])?], 1)?;
/// let array = NdArray::from_bytes(stacked.builder().to_bytes(stacked)?)?;
/// assert_eq!((array.shape(), array.all().read_bytes()?), (&[3, 2][..], vec![3, 0, 4, 1, 5, 2]));
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Concat {
    parts: Vec<Slice>,
    axis: usize,
    shape: Vec<u64>,
    /// Position of each part along the axis.
    starts: Vec<u64>,
    recompress: bool,
    /// Reads the chunks that are copied from the only part.
    ahead: Option<ReadAhead>,
}

impl Concat {
    /// Joins arrays along an existing axis, like `numpy.concatenate`.
    ///
    /// # Errors
    /// [`NdError::Argument`] when there are no arrays, or they differ in dtype or in a length along another axis;
    /// [`NdError::Slice`] when the axis does not exist.
    pub fn new(parts: impl Into<Vec<Slice>>, axis: usize) -> Result<Self, NdError> {
        let parts = parts.into();
        let Some(first) = parts.first() else { return Err(NdError::argument("no arrays to join")) };
        let mut shape = first.own_shape();
        if axis >= shape.len() {
            let what = format!("out of range, the arrays have {}", dimensions(shape.len()));
            return Err(NdError::Slice { dim: axis, what });
        }
        let mut starts = Vec::with_capacity(parts.len());
        shape[axis] = 0;
        let across = shape.clone();
        for part in &parts {
            let mut other = part.own_shape();
            let len = other.get_mut(axis).map(std::mem::take).unwrap_or_default();
            if other != across || part.dtype() != first.dtype() || part.shape().len() != shape.len() {
                return Err(NdError::argument(format!(
                    "cannot join arrays of shape {:?} (dtype {}) and {:?} (dtype {}) along axis {axis}",
                    first.shape(),
                    first.dtype(),
                    part.shape(),
                    part.dtype()
                )));
            }
            starts.push(shape[axis]);
            shape[axis] = shape[axis].checked_add(len).ok_or_else(|| NdError::too_long(axis))?;
        }
        // Several parts take turns, so that what follows in each is not known.
        let ahead =
            <&[_; 1]>::try_from(&parts[..]).ok().map(|[part]| ReadAhead::new(part.array().super_chunk()));
        Ok(Self { parts, axis, shape, starts, recompress: false, ahead })
    }

    /// Joins arrays of the same shape along a new axis, like `numpy.stack`.
    ///
    /// # Errors
    /// [`NdError::Argument`] when there are no arrays, or they differ in dtype or shape; [`NdError::Slice`] when `axis`
    /// is greater than their number of dimensions, or the result has too many dimensions.
    pub fn stack(parts: impl Into<Vec<Slice>>, axis: usize) -> Result<Self, NdError> {
        let parts: Vec<Slice> = parts.into();
        let expanded: Result<Vec<_>, _> = parts.iter().map(|part| part.expand_dims(axis)).collect();
        Self::new(expanded?, axis)
    }

    /// Sets whether all chunks are recompressed, even those that could be copied.
    pub fn recompress(mut self, recompress: bool) -> Self {
        self.recompress = recompress;
        self
    }

    /// Returns a builder for the result, with the chunks, blocks and compression of the first part.
    /// Along a new axis chunks have length 1.
    pub fn builder(&self) -> ArrayBuilder {
        let first = &self.parts[0];
        let array = first.array();
        let Some((_, out)) = first.dims() else {
            return ArrayBuilder::of_dtype(&self.shape[..], first.dtype().clone());
        };
        let along = |lengths: &[u32]| -> Vec<u32> {
            let dim = |dim: &OutDim| if let OutDim::Of(of) = dim { lengths[*of] } else { 1 };
            out.iter().map(dim).collect()
        };
        let builder = ArrayBuilder::like(array);
        if first.itemsize() != array.itemsize() {
            let builder = ArrayBuilder::of_dtype(&self.shape[..], first.dtype().clone());
            return builder.inherit(along(array.chunkshape()), along(array.blockshape()));
        }
        builder.shape(&self.shape[..]).inherit(along(array.chunkshape()), along(array.blockshape()))
    }

    /// Returns the parts that overlap `start..end` along the axis, each with the overlapping range
    /// in that part.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&Slice, u64, u64)> {
        let axis = self.axis;
        let first = self.starts.partition_point(|&s| s <= start).saturating_sub(1);
        self.parts.iter().zip(&self.starts).skip(first).map_while(move |(part, &at)| {
            let stop = at + part.own_shape()[axis];
            (at < end).then(|| (part, start.max(at) - at, end.min(stop).max(at) - at))
        })
    }
}

impl RegionSource for Concat {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let Region { whole, start, shape, .. } = *region;
        let itemsize = region.itemsize();
        if whole != self.shape || self.parts.iter().any(|part| part.itemsize() != itemsize) {
            return invalid(format!("the source has shape {:?}, the array {whole:?}", self.shape));
        }
        check_len(dst.len(), product(shape.iter().copied()) * itemsize as u64).map_err(io::Error::other)?;
        let dst_strides = strides(shape.iter().map(|&n| n as usize), itemsize);
        let axis = self.axis;
        let mut offset = 0;
        for (part, from, to) in self.overlapping(start[axis], start[axis] + shape[axis]) {
            let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
            (start[axis], shape[axis]) = (from, to.saturating_sub(from));
            let part = part.boxed(&start, &shape).map_err(io::Error::other)?;
            part.keep_at(dst, offset, &dst_strides).map_err(io::Error::other)?;
            offset += shape[axis] as usize * dst_strides[axis] as usize;
        }
        Ok(())
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape.clone())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        self.parts.first().map(|part| part.dtype().clone())
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
        let Some(nchunk) = same_chunk(part, g, axis, from, &start, &len) else {
            return Ok(ChunkContent::Items);
        };
        let array = part.array().clone();
        drop(parts);
        let read = |nchunk| match &mut self.ahead {
            Some(ahead) => ahead.read(nchunk),
            None => array.super_chunk().chunk(nchunk).read(),
        };
        as_stored(&array, nchunk, read).map_err(io::Error::other)
    }
}

/// Finds the chunk of a part that holds the same items in the same order as the box `start`, `len`
/// of the result. The box begins at position `from` of the part along the axis.
fn same_chunk(
    part: &Slice,
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
        // If the header has lost the item size, copying would lose it again; compressing repairs
        // it.
        || array.super_chunk().itemsize() != array.itemsize()
    {
        return None;
    }
    let (along, out) = part.dims()?;
    let mut coords = Vec::with_capacity(own.ndim());
    for (k, dim) in out.iter().enumerate() {
        match *dim {
            OutDim::Of(of) => {
                let AxisSelection::Steps(p) = along[of] else { return None };
                let at = p.start + if k == axis { from } else { start[k] };
                let c = u64::from(g.chunkshape()[k]);
                // The dimensions are in the array's order, the boundaries match, and it is not a
                // fragment of a chunk.
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
            OutDim::New(_) | OutDim::Points => return None,
        }
    }
    // The part dropped a dimension, or the blocks would get another number of dimensions and their
    // codec or filters depend on the shape.
    if coords.len() != own.ndim() || (g.ndim() != own.ndim() && !shapeless(array, &coords)) {
        return None;
    }
    usize::try_from(crate::select::copy_plan::linear(&coords, own.grid())).ok()
}

/// Returns whether a chunk decodes without knowing the shape of its blocks.
fn shapeless(array: &NdArray, coords: &[u64]) -> bool {
    let nchunk = crate::select::copy_plan::linear(coords, array.geometry().grid()) as usize;
    let Ok(header) = array.super_chunk().chunk(nchunk).header() else { return false };
    let Some(header) = header else { return true };
    let plugins = &array.super_chunk().dparams().plugins;
    let needs_shape = |slot| !plugins.filter_properties(slot, header.itemsize()).shapeless;
    header.special().is_some()
        || header.is_memcpyed()
        || (!header.filters().into_iter().any(needs_shape)
            && header.codec().is_some_and(|codec| plugins.codec_properties(codec).shapeless))
}

/// Returns a stored chunk unchanged if it is valid in another frame; otherwise requests its items.
fn as_stored(
    array: &NdArray,
    nchunk: usize,
    read: impl FnOnce(usize) -> Result<Chunk, FrameError>,
) -> Result<ChunkContent, NdError> {
    let frame = array.super_chunk();
    if let Entry::Special(kind) = frame.chunk(nchunk).entry()? {
        return Ok(ChunkContent::Special(kind));
    }
    let chunk = read(nchunk)?;
    let (header, geometry) = (chunk.header(), array.geometry());
    let fits = chunk.nbytes() == geometry.chunk_nbytes()
        && !header.is_vl()
        && header.blocksize() == geometry.block_nbytes();
    Ok(if fits { ChunkContent::Chunk(chunk) } else { ChunkContent::Items })
}
