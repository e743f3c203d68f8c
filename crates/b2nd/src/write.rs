//! Writing whole arrays.

use std::io;
use std::path::Path;

use b2_chunk::{CParams, Chunk};
use b2_frame::{FrameParams, FrameWriter, WriteOptions};
use bytes::Bytes;

use crate::geometry::{copy_box, for_each_position, strides};
use crate::meta::{ArrayMeta, METALAYER};
use crate::{Dtype, Geometry, NdError, default_blockshape, default_chunkshape};

/// Where the items of a new array come from.
///
/// Implemented for byte slices that hold all items in C order; a file reader can implement it to write
/// arrays larger than memory.
pub trait RegionSource {
    /// Reads the box of items that starts at `start` and has `shape`, in C order, into all of `dst`.
    ///
    /// Boxes are asked for in the order of the chunks and cover each item once.
    ///
    /// # Errors
    /// When the items cannot be read.
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()>;
}

impl RegionSource for &[u8] {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()> {
        if self.len() as u64 != geometry.nbytes() {
            let what = format!("{} bytes, the array has {}", self.len(), geometry.nbytes());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let itemsize = geometry.itemsize();
        let src_strides = strides(geometry.shape().iter().map(|&n| n as usize), itemsize);
        let dst_strides = strides(shape.iter().map(|&n| n as usize), itemsize);
        let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let offset: isize = start.iter().zip(&src_strides).map(|(&at, &stride)| at as isize * stride).sum();
        copy_box(&counts, itemsize, (self, offset as usize, &src_strides), (dst, 0, &dst_strides));
        Ok(())
    }
}

/// Bytes of items read at once, as far as a single chunk is not larger.
const BATCH: usize = 64 << 20;

/// Describes a new array and writes it.
///
/// ```
/// use b2nd::{ArrayBuilder, Dtype, NdArray};
/// use b2_chunk::{CParams, CodecId};
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("ramp.b2nd");
/// let items: Vec<u8> = (0..10_000u16).flat_map(|i| i.to_le_bytes()).collect();
/// ArrayBuilder::new([100, 100], Dtype::parse("<u2")?)
///     .chunkshape([50, 100])
///     .cparams(CParams::builder(2).codec(CodecId::LZ4).build()?)
///     .create(&path, &mut &items[..])?;
/// assert_eq!(NdArray::open(&path)?.all().read()?, items);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArrayBuilder {
    shape: Vec<u64>,
    dtype: Dtype,
    chunkshape: Option<Vec<u32>>,
    blockshape: Option<Vec<u32>>,
    cparams: Option<CParams>,
    metalayers: Vec<(Vec<u8>, Vec<u8>)>,
    vlmetalayers: Vec<(Vec<u8>, Vec<u8>)>,
    options: WriteOptions,
}

impl ArrayBuilder {
    /// A new array of `shape` and `dtype`, with default chunks, blocks and compression.
    pub fn new(shape: impl Into<Vec<u64>>, dtype: Dtype) -> Self {
        Self {
            shape: shape.into(),
            dtype,
            chunkshape: None,
            blockshape: None,
            cparams: None,
            metalayers: Vec::new(),
            vlmetalayers: Vec::new(),
            options: FrameWriter::options(),
        }
    }
    /// Sets the length of a chunk along each dimension, in items.
    pub fn chunkshape(mut self, chunkshape: impl Into<Vec<u32>>) -> Self {
        self.chunkshape = Some(chunkshape.into());
        self
    }
    /// Sets the length of a block along each dimension, in items.
    pub fn blockshape(mut self, blockshape: impl Into<Vec<u32>>) -> Self {
        self.blockshape = Some(blockshape.into());
        self
    }
    /// Sets how chunks are compressed. Item size, block size and block shape come from the array.
    pub fn cparams(mut self, cparams: CParams) -> Self {
        self.cparams = Some(cparams);
        self
    }
    /// Adds a metalayer: fixed size, at most 15 beside the array's own.
    pub fn metalayer(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.metalayers.push((name.into(), value.into()));
        self
    }
    /// Adds a vlmetalayer: of any size, at most 16.
    pub fn vlmetalayer(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.vlmetalayers.push((name.into(), value.into()));
        self
    }
    /// Whether a file or directory that is there already is replaced.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.options = self.options.overwrite(overwrite);
        self
    }
    /// Sets how the frame is written: replacing, durability, file system.
    pub fn write_options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Shapes as they will be written, defaults filled in.
    ///
    /// # Errors
    /// When the shapes do not fit each other or the format.
    pub fn geometry(&self) -> Result<Geometry, NdError> {
        let itemsize = self.dtype.itemsize();
        let (chunkshape, blockshape) = match (&self.chunkshape, &self.blockshape) {
            (Some(chunks), Some(blocks)) => (chunks.clone(), blocks.clone()),
            (Some(chunks), None) => {
                // Blocks of the chunk, not of the array.
                let within: Vec<u64> = chunks.iter().map(|&c| c.into()).collect();
                (chunks.clone(), default_blockshape(&within, itemsize))
            }
            (None, blocks) => {
                let blocks = blocks.clone().unwrap_or_else(|| default_blockshape(&self.shape, itemsize));
                if blocks.len() != self.shape.len() {
                    return Err(NdError::geometry(format!(
                        "shape has {} dimensions, blockshape {}",
                        self.shape.len(),
                        blocks.len()
                    )));
                }
                (default_chunkshape(&self.shape, &blocks, itemsize), blocks)
            }
        };
        Geometry::new(self.shape.clone(), chunkshape, blockshape, itemsize)
    }

    /// Writes the array into a contiguous frame in a file. The file appears when it is complete.
    ///
    /// # Errors
    /// When parameters are out of range, the source fails, or writing does.
    pub fn create(&self, path: impl AsRef<Path>, source: &mut dyn RegionSource) -> Result<(), NdError> {
        self.write(source, |params| self.options.contiguous(path, params))?;
        Ok(())
    }

    /// Writes the array into a sparse frame, a directory. It appears when it is complete.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_sparse(
        &self,
        path: impl AsRef<Path>,
        source: &mut dyn RegionSource,
    ) -> Result<(), NdError> {
        self.write(source, |params| self.options.sparse(path, params))?;
        Ok(())
    }

    /// Writes the array into a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn to_memory(&self, source: &mut dyn RegionSource) -> Result<Bytes, NdError> {
        self.write(source, |params| self.options.memory(params))
    }

    /// Parameters of the frame, and of its chunks.
    fn params(&self, geometry: &Geometry) -> Result<(FrameParams, CParams), NdError> {
        let itemsize = geometry.itemsize();
        let given = self.cparams.clone().map_or_else(|| CParams::builder(itemsize).build(), Ok)?;
        let cparams = given
            .to_builder()
            .typesize(itemsize)
            .blocksize(geometry.block_nbytes())
            .blockshape(geometry.blockshape())
            .build()?;
        let meta = ArrayMeta {
            shape: geometry.shape().to_vec(),
            chunkshape: geometry.chunkshape().to_vec(),
            blockshape: geometry.blockshape().to_vec(),
            dtype_format: 0,
            dtype: Some(self.dtype.as_str().as_bytes().to_vec()),
        };
        let chunksize = if geometry.nitems() == 0 { 0 } else { geometry.chunk_nbytes() };
        // The array's metalayer comes first, as C writes it.
        let mut params =
            FrameParams::from_cparams(&cparams).chunksize(chunksize).metalayer(METALAYER, meta.to_bytes());
        for (name, value) in &self.metalayers {
            params = params.metalayer(name, value);
        }
        Ok((params, cparams))
    }

    fn write(
        &self,
        source: &mut dyn RegionSource,
        start: impl FnOnce(FrameParams) -> Result<FrameWriter, b2_frame::FrameError>,
    ) -> Result<Bytes, NdError> {
        let geometry = self.geometry()?;
        let (params, cparams) = self.params(&geometry)?;
        let mut writer = start(params)?;
        for (name, value) in &self.vlmetalayers {
            writer.set_vlmetalayer(name, value)?;
        }
        if geometry.nchunks() > 0 {
            write_chunks(&geometry, &cparams, source, &mut writer)?;
        }
        Ok(writer.finish()?.into_bytes())
    }
}

/// Reads boxes of several chunks, compresses their chunks in parallel and appends them in order.
fn write_chunks(
    geometry: &Geometry,
    cparams: &CParams,
    source: &mut dyn RegionSource,
    writer: &mut FrameWriter,
) -> Result<(), NdError> {
    // Chunks that follow each other along `axis` are neighbours in the file too: behind it the grid is 1.
    let axis = geometry.grid().iter().rposition(|&n| n > 1);
    let row = axis.map_or(1, |axis| geometry.grid()[axis]);
    let batch = ((BATCH / geometry.chunk_nbytes().max(1)).max(1) as u64).min(row);
    let mut region = Vec::new();
    let mut nchunk = 0;
    while nchunk < geometry.nchunks() {
        let first = geometry.chunk_coords(nchunk);
        let count = axis.map_or(1, |axis| batch.min(row - first[axis]));
        let (start, mut shape) = geometry.chunk_box(&first);
        if let Some(axis) = axis {
            let c = u64::from(geometry.chunkshape()[axis]);
            shape[axis] = (count * c).min(geometry.shape()[axis] - start[axis]);
        }
        let nbytes = shape.iter().product::<u64>() as usize * geometry.itemsize();
        region.resize(nbytes, 0);
        source.read_region(geometry, &start, &shape, &mut region).map_err(NdError::Source)?;
        let compress = |k: u64| {
            let offset = axis.map_or(0, |axis| k * u64::from(geometry.chunkshape()[axis]));
            let mut at = vec![0; shape.len()];
            let mut part = shape.clone();
            if let Some(axis) = axis {
                at[axis] = offset;
                part[axis] = (shape[axis] - offset).min(geometry.chunkshape()[axis].into());
            }
            let chunk = to_blocks(geometry, &region, &shape, &at, &part);
            Chunk::compress(&chunk, cparams)
        };
        for chunk in in_parallel(count, compress) {
            writer.append(chunk?)?;
        }
        nchunk += count;
    }
    Ok(())
}

/// Results of `work` for `0..count`, in order.
fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    #[cfg(feature = "rayon")]
    if count > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        // A batch is a few dozen chunks.
        return (0..count as usize).into_par_iter().with_max_len(1).map(|k| work(k as u64)).collect();
    }
    (0..count).map(work).collect()
}

/// A chunk as it is stored, block after block, padded with zeros: the items `at..at + part` of a region.
fn to_blocks(geometry: &Geometry, region: &[u8], region_shape: &[u64], at: &[u64], part: &[u64]) -> Vec<u8> {
    let itemsize = geometry.itemsize();
    let src_strides = strides(region_shape.iter().map(|&n| n as usize), itemsize);
    let dst_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), itemsize);
    let mut chunk = vec![0; geometry.chunk_nbytes()];
    let mut blocks = chunk.chunks_exact_mut(geometry.block_nbytes());
    let ranges: Vec<_> = geometry.blocks().iter().map(|&n| 0..u64::from(n)).collect();
    let mut counts = vec![0; at.len()];
    let done: Result<(), std::convert::Infallible> = for_each_position(&ranges, |block| {
        let Some(dst) = blocks.next() else { return Ok(()) };
        let mut offset = 0;
        for (dim, &j) in block.iter().enumerate() {
            let b = u64::from(geometry.blockshape()[dim]);
            counts[dim] = part[dim].saturating_sub(j * b).min(b) as usize;
            offset += (at[dim] + j * b) as isize * src_strides[dim];
        }
        copy_box(&counts, itemsize, (region, offset as usize, &src_strides), (dst, 0, &dst_strides));
        Ok(())
    });
    let Ok(()) = done;
    chunk
}
