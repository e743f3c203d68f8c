//! Writes whole arrays.

use std::ops::Range;
use std::path::Path;

use b2_chunk::{CParams, Compatibility, Compression};
use b2_core::Control;
use b2_frame::{FrameParams, FrameWriter, INDEXES, Storage, WriteOptions};
use bytes::Bytes;

use crate::model::default_shapes::{default_blockshape, growable};
use crate::model::geometry::wrong_length;
use crate::model::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::write::produce::{ChunkProducer, ProducedChunk};
use crate::write::source::{Amount, RegionSource};
use crate::{Dtype, Element, Geometry, NdArray, NdError, default_chunkshape};

/// Describes a new array and writes it.
///
/// ```
/// use b2nd::{ArrayBuilder, NdArray};
/// use b2_chunk::Compression;
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("ramp.b2nd");
/// let items: Vec<u16> = (0..10_000).collect();
/// ArrayBuilder::new::<u16>([100, 100])
///     .chunks([50, 100])
///     .compression(Compression::lz4())
///     .write(&path, &items)?;
/// assert_eq!(NdArray::open(&path)?.all().read::<Vec<u16>>()?, items);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ArrayBuilder {
    shape: Vec<u64>,
    dtype: Dtype,
    chunks: Option<Vec<u32>>,
    blocks: Option<Vec<u32>>,
    /// Whether the block shape was taken from another array and becomes invalid with a new chunk
    /// shape.
    inherited: bool,
    compression: Compression,
    metalayers: Vec<(Vec<u8>, Vec<u8>)>,
    vlmetalayers: Vec<(Vec<u8>, Vec<u8>)>,
    options: WriteOptions,
    /// `None` for that of `options`.
    storage: Option<Storage>,
    control: Option<Control>,
}

impl ArrayBuilder {
    /// Describes an array of `shape` with items of type `T` and default chunks, blocks and
    /// compression.
    pub fn new<T: Element>(shape: impl Into<Vec<u64>>) -> Self {
        Self::of_dtype(shape, Dtype::of::<T>())
    }

    /// Describes an array of `shape` with items of any dtype and default chunks, blocks and
    /// compression.
    pub fn of_dtype(shape: impl Into<Vec<u64>>, dtype: Dtype) -> Self {
        Self {
            shape: shape.into(),
            dtype,
            chunks: None,
            blocks: None,
            inherited: false,
            compression: Compression::new(),
            metalayers: Vec::new(),
            vlmetalayers: Vec::new(),
            options: FrameWriter::options(),
            storage: None,
            control: None,
        }
    }

    /// Describes an array with the shape, dtype, chunks, blocks and compression of another. Its
    /// metalayers are not copied (see [`layers_of`](Self::layers_of)).
    ///
    /// Pass the other array as source to copy it in bounded memory, here with other chunks:
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray};
    /// # let items: Vec<u8> = (0..60).collect();
    /// # let frame = ArrayBuilder::new::<u8>([6, 10]).chunks([1, 10]).to_bytes(items)?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// let copy = ArrayBuilder::like(&array).chunks([6, 2]).layers_of(&array)?.to_bytes(&array)?;
    /// assert_eq!(NdArray::from_bytes(copy)?.all().read_bytes()?, array.all().read_bytes()?);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    pub fn like(array: &NdArray) -> Self {
        let mut builder = Self::of_dtype(array.shape(), array.dtype().clone())
            .chunks(array.chunkshape())
            .blocks(array.blockshape());
        builder.inherited = true;
        // If this build lacks the codec, the default compression is used.
        if let Ok(cparams) = array.cparams() {
            builder.compression = cparams.into();
        }
        builder
    }

    /// Adds the metalayers and vlmetalayers of another array, except for the array metalayer
    /// itself and the description of the indexes of python-blosc2, which are files of that array.
    ///
    /// # Errors
    /// [`NdError::Frame`] when a vlmetalayer cannot be decompressed, as for
    /// [`VlMetalayers::get`](b2_frame::VlMetalayers::get).
    pub fn layers_of(mut self, array: &NdArray) -> Result<Self, NdError> {
        let frame = array.super_chunk();
        let own = |name: &[u8]| name == METALAYER.as_bytes() || name == OLD_METALAYER.as_bytes();
        for (name, value) in frame.metalayers().iter().filter(|(name, _)| !own(name)) {
            self = self.metalayer(name, value);
        }
        for (name, _) in frame.vlmetalayers().iter().filter(|(name, _)| *name != INDEXES.as_bytes()) {
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
    /// Sets the length of a chunk along each dimension, in items. Along a dimension without items, 0 means that the
    /// length is chosen automatically.
    pub fn chunks(mut self, chunks: impl Into<Vec<u32>>) -> Self {
        self.chunks = Some(chunks.into());
        if std::mem::take(&mut self.inherited) {
            self.blocks = None;
        }
        self
    }
    /// Sets the length of a block along each dimension, in items: at most that of a chunk.
    pub fn blocks(mut self, blocks: impl Into<Vec<u32>>) -> Self {
        self.blocks = Some(blocks.into());
        self.inherited = false;
        self
    }
    /// Sets chunks and blocks to those of another array: with other chunks, other blocks are chosen.
    pub(crate) fn inherit(self, chunks: Vec<u32>, blocks: Vec<u32>) -> Self {
        Self { chunks: Some(chunks), blocks: Some(blocks), inherited: true, ..self }
    }
    /// Sets the compression of chunks. Item size, block size and block shape come from the array.
    pub fn compression(mut self, compression: impl Into<Compression>) -> Self {
        self.compression = compression.into();
        self
    }
    /// Adds a metalayer, whose size is fixed. At most 15 are possible besides the array's own.
    pub fn metalayer(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.metalayers.push((name.into(), value.into()));
        self
    }
    /// Adds a vlmetalayer, which may have any size. At most 16 are possible.
    pub fn vlmetalayer(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.vlmetalayers.push((name.into(), value.into()));
        self
    }
    /// Sets whether the array is written to one file (the default) or to a directory with a file
    /// for each chunk.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }
    /// Sets the write options: replacing, durability, checksums and file system. Their storage is used unless
    /// [`storage`](Self::storage) is set, before or after.
    pub fn write_options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }
    /// Sets the threads, the thread pool and the progress callback, which may cancel writing. By
    /// default those of the [`compression`](Self::compression) are used.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdError, source};
    /// use std::ops::ControlFlow;
    /// use b2_core::Control;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.b2nd");
    /// let control = Control::new().progress(|_| ControlFlow::Break(()));
    /// let written = ArrayBuilder::new::<u8>([1000]).control(control).write(&path, source::zeros());
    /// assert!(matches!(written, Err(NdError::Cancelled(_))) && !path.exists());
    /// ```
    pub fn control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }
    /// Returns the shapes that will be written, with defaults filled in.
    ///
    /// # Errors
    /// [`NdError::Geometry`] when the shapes contradict each other or exceed the limits of the format.
    pub fn geometry(&self) -> Result<Geometry, NdError> {
        let itemsize = self.dtype.itemsize();
        let (chunkshape, blockshape) = match (&self.chunks, &self.blocks) {
            (Some(chunks), Some(blocks)) => (chunks.clone(), blocks.clone()),
            (Some(chunks), None) => {
                // Blocks divide a chunk, so their default depends on the chunk shape, not on the
                // array's.
                let within: Vec<u64> = chunks.iter().map(|&c| c.into()).collect();
                (chunks.clone(), default_blockshape(&within, itemsize))
            }
            (None, blocks) => {
                let blocks = blocks.clone().unwrap_or_else(|| default_blockshape(&self.shape, itemsize));
                if blocks.len() != self.shape.len() {
                    let what = wrong_length("block shape", blocks.len(), self.shape.len());
                    return Err(NdError::geometry(what));
                }
                (default_chunkshape(&self.shape, &blocks, itemsize), blocks)
            }
        };
        // A dimension with a length of 0, which other programs may write, could not grow. Shapes that contradict each
        // other are rejected below.
        let fits = [chunkshape.len(), blockshape.len()] == [self.shape.len(); 2];
        let (chunkshape, blockshape) = match fits {
            true => growable(&self.shape, &chunkshape, &blockshape, itemsize),
            false => (chunkshape, blockshape),
        };
        let (larger, inherited) =
            (chunkshape.iter().zip(&blockshape).position(|(c, b)| b > c), self.inherited);
        if let (Some(dim), false) = (larger, inherited) {
            // Other programs may have written such arrays, and copies keep their shapes.
            return Err(NdError::geometry(format!(
                "blocks {blockshape:?} are larger than chunks {chunkshape:?} along dimension {dim}"
            )));
        }
        Geometry::new(self.shape.clone(), chunkshape, blockshape, itemsize)
    }

    /// Writes the array to a path, where it appears only when it is complete.
    ///
    /// # Errors
    /// [`NdError::Geometry`] or [`NdError::Chunk`] when shapes or compression parameters are out of range, the latter
    /// also when a chunk cannot be compressed; [`NdError::Argument`] when the compression is for C-Blosc 1 or for items
    /// of another dtype ([`Dtype::check_compression`]), or when the source or one of its chunks has another shape, or it
    /// ends too early; [`NdError::Element`] or
    /// [`NdError::BufferLength`] when values have another type or number than the items; [`NdError::Source`] when the
    /// source fails;
    /// [`NdError::Frame`] when writing fails, as for [`WriteOptions::create`] and [`FrameWriter::finish`];
    /// [`NdError::Limit`], [`NdError::Cancelled`], [`NdError::TooLarge`], [`NdError::OutOfMemory`]. Nothing is left
    /// in that case, except after [`FrameError::NotSynced`](b2_frame::FrameError::NotSynced).
    pub fn write(&self, path: impl AsRef<Path>, source: impl RegionSource) -> Result<(), NdError> {
        self.run(source, |params| self.options().create(path, params))?.finish()?;
        Ok(())
    }

    /// Like [`write`](Self::write), but runs `check` on the finished array before it appears at the path. If `check`
    /// fails, no file is created, and a file that was to be replaced is unchanged.
    ///
    /// # Errors
    /// As for [`write`](Self::write), and those of `check`.
    pub fn write_checked<E: From<NdError>>(
        &self,
        path: impl AsRef<Path>,
        source: impl RegionSource,
        check: impl FnOnce(NdArray) -> Result<(), E>,
    ) -> Result<(), E> {
        let create = |params| self.options().create(path, params);
        let mut writer = self.run(source, create)?;
        check(NdArray::from_super_chunk(writer.snapshot().map_err(NdError::from)?)?)?;
        writer.finish().map_err(NdError::from)?;
        Ok(())
    }

    /// Writes the array to memory, as a contiguous frame.
    ///
    /// # Errors
    /// As for [`write`](Self::write), except for errors of files.
    pub fn to_bytes(&self, source: impl RegionSource) -> Result<Bytes, NdError> {
        let writer = self.run(source, |params| self.options.memory(params))?;
        Ok(writer.finish()?.into_bytes())
    }

    fn options(&self) -> WriteOptions {
        let options = self.options.clone();
        match self.storage {
            Some(storage) => options.storage(storage),
            None => options,
        }
    }

    /// Returns the parameters of the frame and of its chunks.
    fn params(&self, geometry: &Geometry) -> Result<(FrameParams, CParams), NdError> {
        let itemsize = geometry.itemsize();
        let cparams = self
            .compression
            .clone()
            .itemsize(itemsize)
            .blocksize(geometry.block_nbytes())
            .blockshape(geometry.blockshape())
            .build()?;
        if cparams.compatibility() != Compatibility::Blosc2 {
            return Err(NdError::argument("arrays need chunks of Blosc2"));
        }
        self.dtype.check_compression(&cparams)?;
        let meta = ArrayMeta {
            shape: geometry.shape().to_vec(),
            chunkshape: geometry.chunkshape().to_vec(),
            blockshape: geometry.blockshape().to_vec(),
            dtype_format: 0,
            dtype: Some(self.dtype.as_str().as_bytes().to_vec()),
        };
        // The array's metalayer comes first, as in C.
        let mut params = FrameParams::from_cparams(&cparams)
            .chunksize(geometry.chunk_nbytes())
            .metalayer(METALAYER, meta.to_bytes());
        for (name, value) in &self.metalayers {
            params = params.metalayer(name, value);
        }
        Ok((params, cparams))
    }

    /// Returns the parameters of the frame, and the uncompressed size of all its chunks in bytes.
    pub(crate) fn frame_params(&self) -> Result<(FrameParams, u64), NdError> {
        let geometry = self.geometry()?;
        let nbytes = geometry.nchunks().checked_mul(geometry.chunk_nbytes() as u64);
        let nbytes = nbytes.ok_or_else(|| NdError::geometry("the array is too large"))?;
        Ok((self.params(&geometry)?.0, nbytes))
    }

    fn run(
        &self,
        mut source: impl RegionSource,
        start: impl FnOnce(FrameParams) -> Result<FrameWriter, b2_frame::FrameError>,
    ) -> Result<FrameWriter, NdError> {
        let geometry = self.geometry()?;
        let (params, cparams) = self.params(&geometry)?;
        let control = self
            .control
            .as_ref()
            .unwrap_or(cparams.control())
            .begin(geometry.nbytes(), geometry.itemsize() as u64);
        let mut writer = start(params)?;
        for (name, value) in &self.vlmetalayers {
            writer.set_vlmetalayer(name, value)?;
        }
        let grid: Vec<Range<u64>> = geometry.grid().iter().map(|&n| 0..n).collect();
        let producer = ChunkProducer::new(&geometry, &self.dtype, &cparams, &control)?;
        producer.run(
            &grid,
            |_| false,
            &mut source,
            |_, produced| {
                match produced {
                    ProducedChunk::Special(kind) => writer.append_special(kind, geometry.chunk_nbytes())?,
                    ProducedChunk::Chunk(chunk) => writer.append(chunk)?,
                };
                Ok(())
            },
        )?;
        Ok(writer)
    }
}

impl NdArray {
    /// Writes an array to a file with default chunks, blocks and compression. Shape and dtype are
    /// those of the source: an array, a view of one, or one-dimensional values. Use
    /// [`ArrayBuilder`] for all other cases.
    ///
    /// ```
    /// use b2nd::NdArray;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.b2nd");
    /// NdArray::write(&path, [0.5, 1.5])?;
    /// assert_eq!(NdArray::open(&path)?.all().read::<Vec<f64>>()?, [0.5, 1.5]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Argument`] when the source does not define its shape or dtype, otherwise as for
    /// [`ArrayBuilder::write`].
    pub fn write(path: impl AsRef<Path>, source: impl RegionSource) -> Result<(), NdError> {
        let unknown =
            |what| NdError::argument(format!("the source does not define its {what}: use `ArrayBuilder`"));
        let dtype = source.item_dtype().ok_or_else(|| unknown("item type"))?;
        let shape = match source.amount() {
            Amount::Shape(shape) => shape,
            Amount::Bytes(nbytes) => vec![nbytes / dtype.itemsize().max(1) as u64],
            Amount::Length(_) | Amount::Endless => return Err(unknown("shape")),
        };
        ArrayBuilder::of_dtype(shape, dtype).write(path, source)
    }
}
