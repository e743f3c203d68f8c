//! Writing whole arrays.

use std::ops::Range;
use std::path::Path;

use b2_chunk::CParams;
use b2_frame::{FrameParams, FrameWriter, WriteOptions};
use bytes::Bytes;

use crate::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::produce::{Job, Produced};
use crate::{
    Dtype, Element, Geometry, NdArray, NdError, RegionSource, default_blockshape, default_chunkshape,
};

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
    /// Whether the block shape goes with the chunk shape of another array.
    inherited: bool,
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
            inherited: false,
            cparams: None,
            metalayers: Vec::new(),
            vlmetalayers: Vec::new(),
            options: FrameWriter::options(),
        }
    }

    /// A new array of `shape` with items of type `T`.
    pub fn of<T: Element>(shape: impl Into<Vec<u64>>) -> Self {
        let itemsize = T::ITEMSIZE;
        let dtype = Dtype::parse(T::DTYPE).unwrap_or_else(|_| Dtype::opaque(T::DTYPE, itemsize));
        Self::new(shape, dtype)
    }

    /// A new array with shape, dtype, chunks, blocks and compression of another. Metalayers are not taken
    /// over (see [`layers_of`](Self::layers_of)).
    ///
    /// With the other array as source it is copied in bounded memory, here into other chunks:
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray};
    /// # let items: Vec<u8> = (0..60).collect();
    /// # let frame = ArrayBuilder::of::<u8>([6, 10]).chunkshape([1, 10]).to_memory(&mut &items[..])?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// let copy = ArrayBuilder::like(&array).chunkshape([6, 2]).layers_of(&array)?.to_memory(&mut &array)?;
    /// assert_eq!(NdArray::from_bytes(copy)?.all().read()?, array.all().read()?);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    pub fn like(array: &NdArray) -> Self {
        let mut builder = Self::new(array.shape(), array.dtype().clone())
            .chunkshape(array.chunkshape())
            .blockshape(array.blockshape());
        builder.inherited = true;
        // A codec that this build does not have is replaced by the default one.
        builder.cparams = array.cparams().ok();
        builder
    }

    /// Takes over the metalayers and vlmetalayers of another array, but for the array's own.
    ///
    /// # Errors
    /// When a vlmetalayer cannot be decompressed.
    pub fn layers_of(mut self, array: &NdArray) -> Result<Self, NdError> {
        let frame = array.super_chunk();
        let own = |name: &[u8]| name == METALAYER.as_bytes() || name == OLD_METALAYER.as_bytes();
        for (name, value) in frame.metalayers().iter().filter(|(name, _)| !own(name)) {
            self = self.metalayer(name, value);
        }
        for (name, _) in frame.vlmetalayers().iter() {
            if let Some(value) = frame.vlmetalayers().get(name)? {
                self = self.vlmetalayer(name, value);
            }
        }
        Ok(self)
    }

    /// Sets the shape, in items.
    pub fn shape(mut self, shape: impl Into<Vec<u64>>) -> Self {
        self.shape = shape.into();
        self
    }
    /// Sets the length of a chunk along each dimension, in items.
    pub fn chunkshape(mut self, chunkshape: impl Into<Vec<u32>>) -> Self {
        self.chunkshape = Some(chunkshape.into());
        if std::mem::take(&mut self.inherited) {
            self.blockshape = None;
        }
        self
    }
    /// Sets the length of a block along each dimension, in items.
    pub fn blockshape(mut self, blockshape: impl Into<Vec<u32>>) -> Self {
        self.blockshape = Some(blockshape.into());
        self.inherited = false;
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
        // The array's metalayer comes first, as C writes it.
        let mut params = FrameParams::from_cparams(&cparams)
            .chunksize(geometry.chunk_nbytes())
            .metalayer(METALAYER, meta.to_bytes());
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
        let grid: Vec<Range<u64>> = geometry.grid().iter().map(|&n| 0..n).collect();
        let job = Job { geometry: &geometry, cparams: &cparams, grid: &grid, skip: &|_| false };
        job.run(source, |_, produced| {
            match produced {
                Produced::Special(kind) => writer.append_special(kind, geometry.chunk_nbytes())?,
                Produced::Chunk(chunk) => writer.append(chunk)?,
            }
            Ok(())
        })?;
        Ok(writer.finish()?.into_bytes())
    }
}
