//! Opening arrays and reading from them.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::path::Path;

use b2_chunk::{CParams, Container, Limits, Plugins};
use b2_frame::{FrameError, OpenOptions, SuperChunk};
use bytes::Bytes;

use crate::geometry::Part;
use crate::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::uniform::Uniform;
use crate::{Dtype, Geometry, NdError, Select, Slice};

/// An N-dimensional array in a frame, open for reading. Any number of threads may read at once. Cloning is
/// cheap.
///
/// Opening reads header, index and trailer, never the data; reading a part decodes only the blocks it
/// touches.
///
/// ```
/// use b2nd::{ArrayBuilder, Dtype, NdArray, SliceDim};
///
/// let items: Vec<u8> = (0..60u32).flat_map(|i| i.to_le_bytes()).collect();
/// let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("<u4")?).to_memory(&mut &items[..])?;
///
/// let array = NdArray::from_bytes(frame)?;
/// assert_eq!(array.shape(), [3, 4, 5]);
/// let part = array.slice(&[SliceDim::Index(-1), SliceDim::range(1..3)])?;
/// assert_eq!(part.shape(), [2, 5]);
/// assert_eq!(part.to_vec::<u32>()?, [45, 46, 47, 48, 49, 50, 51, 52, 53, 54]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NdArray {
    frame: SuperChunk,
    meta: ArrayMeta,
    geometry: Geometry,
    dtype: Dtype,
}

impl NdArray {
    /// Opens an array: a contiguous frame in a file, or the directory of a sparse one.
    ///
    /// # Errors
    /// When it cannot be read, is no frame or no array, or its parts contradict each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NdError> {
        Self::options().open(path)
    }

    /// Takes an array from a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, NdError> {
        Self::options().from_bytes(frame)
    }

    /// Options for opening.
    pub fn options() -> ArrayOptions {
        ArrayOptions::default()
    }

    /// Takes an array from an open frame.
    ///
    /// # Errors
    /// When the frame is no array, or its parts contradict each other.
    pub fn from_super_chunk(mut frame: SuperChunk) -> Result<Self, NdError> {
        let metalayers = frame.metalayers();
        let stored =
            [METALAYER, OLD_METALAYER].into_iter().find_map(|name| Some((name, metalayers.get(name)?)));
        let (name, stored) = stored.ok_or(NdError::NotAnArray)?;
        let meta = ArrayMeta::parse(name, stored)?;
        let contradiction = |part: Part, dim, what| NdError::Contradiction {
            name,
            field: part.name(),
            offset: meta.offset_of(part, dim),
            what,
        };
        frame.dparams().limits.check_dimensions(meta.shape.len())?;
        let chunksize = frame.header().chunksize();
        let itemsize = lost_itemsize(&meta, frame.header().typesize(), chunksize);
        let (shape, chunkshape, blockshape) = (&meta.shape, &meta.chunkshape, &meta.blockshape);
        let geometry = Geometry::checked(shape.clone(), chunkshape.clone(), blockshape.clone(), itemsize)
            .map_err(|fault| contradiction(fault.part, fault.dim, fault.what))?;
        let (needed, nchunks) = (geometry.nchunks(), frame.nchunks() as u64);
        if needed != nchunks {
            let what = format!(
                "{shape:?} in chunks of {chunkshape:?} needs {needed} chunks, the frame has {nchunks}"
            );
            return Err(contradiction(Part::Shape, 0, what));
        }
        if nchunks > 0 {
            check_chunksize(name, &meta, &geometry, chunksize)?;
        }
        let dtype = dtype(&meta, itemsize);
        frame.set_container(Container {
            itemsize: Some(itemsize),
            frame_blocksize: frame.header().blocksize(),
            blockshape: meta.blockshape.as_slice().into(),
        });
        Ok(Self { frame, meta, geometry, dtype })
    }

    /// Length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        self.geometry.shape()
    }
    /// Length of a chunk along each dimension, in items.
    pub fn chunkshape(&self) -> &[u32] {
        self.geometry.chunkshape()
    }
    /// Length of a block along each dimension, in items.
    pub fn blockshape(&self) -> &[u32] {
        self.geometry.blockshape()
    }
    /// All shapes and what follows from them.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// The item type. Opaque bytes when the file names none that can be understood.
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }
    /// The array metalayer as stored.
    pub fn meta(&self) -> &ArrayMeta {
        &self.meta
    }
    /// Size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.geometry.itemsize()
    }
    /// Size of all items in bytes.
    pub fn nbytes(&self) -> u64 {
        self.geometry.nbytes()
    }
    /// How chunks of this array are compressed by default, as the frame header tells it.
    ///
    /// # Errors
    /// When the header names a codec or filter that is not at hand, or contradicts itself.
    pub fn cparams(&self) -> Result<CParams, NdError> {
        let header = self.frame.header();
        let builder = CParams::builder(self.itemsize())
            .codec(header.codec())
            .codec_meta(header.codec_meta())
            .clevel(header.clevel().min(9))
            .filters(header.filters())
            .splitmode(header.splitmode())
            .use_dict(header.use_dict())
            .blocksize(self.geometry.block_nbytes())
            .blockshape(self.blockshape())
            .plugins(self.frame.dparams().plugins.clone());
        Ok(builder.build()?)
    }
    /// Fails when more bytes of the data than [`max_output`](Limits::max_output) are such that no stored data stands
    /// for them. To be called before all of an untrusted array is expanded: it expands nothing, and looks no further
    /// than the header when the data as a whole are below the limit.
    ///
    /// # Errors
    /// [`FrameError::LimitExceeded`], or when the index cannot be read.
    pub fn check_output(&self) -> Result<(), NdError> {
        // With padding, which is decoded too.
        let nbytes = self.frame.nbytes().max(self.nbytes());
        let many = self.frame.nchunks() > FEW_CHUNKS && Uniform::of_all(self)?.is_none();
        self.check(nbytes, many)
    }

    /// The same before a result of `nbytes` is allocated.
    pub(crate) fn check_result(&self, nbytes: u64) -> Result<(), NdError> {
        self.check(nbytes, false)
    }

    /// With `many`, chunks that nothing is stored for count as some bytes at least, since each is some work.
    fn check(&self, nbytes: u64, many: bool) -> Result<(), NdError> {
        let limit = self.frame.dparams().limits.max_output;
        if nbytes <= limit && !many {
            return Ok(());
        }
        let unstored = self.frame.unstored(0..self.frame.nchunks(), limit)?;
        // The padding of special chunks is never made.
        let special = unstored.special.min(self.nbytes());
        let mut asked = special.saturating_add(unstored.stored).min(nbytes);
        if many {
            let work = unstored.special_chunks.saturating_mul(SPECIAL_WORK);
            asked = asked.max(work).saturating_add(unstored.shared_chunks.saturating_mul(SHARED_WORK));
        }
        if asked > limit {
            let what = "bytes of output that no stored data stands for";
            return Err(FrameError::LimitExceeded { what, asked, name: "max_output", limit }.into());
        }
        Ok(())
    }

    /// The frame that holds the array, with metalayers and vlmetalayers.
    pub fn super_chunk(&self) -> &SuperChunk {
        &self.frame
    }
    /// The frame that holds the array.
    pub fn into_super_chunk(self) -> SuperChunk {
        self.frame
    }

    /// Selects a part; nothing is read yet. Missing trailing dimensions are taken whole.
    ///
    /// Takes ranges, indices, lists, [`SliceDim`](crate::SliceDim)s where there are steps, or [`Select`]s where
    /// all of these are mixed with masks, new axes or an ellipsis:
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray, SliceDim};
    /// # let frame = ArrayBuilder::new([8, 9], Dtype::parse("|u1")?).to_memory(&mut &[0; 72][..])?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.slice([2..4, 0..5])?.shape(), [2, 5]);
    /// assert_eq!(array.slice([-1])?.shape(), [9]);
    /// assert_eq!(array.slice([SliceDim::Index(3), SliceDim::range(1..).step_by(2)])?.shape(), [4]);
    /// assert_eq!(array.slice([vec![5, 0, 5], vec![-1]])?.shape(), [3, 1]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When there are too many dimensions, an index is out of range, a step is 0, a mask has the wrong length,
    /// or the result would have more than 2^63 bytes.
    pub fn slice<D: Clone + Into<Select>>(&self, selection: impl AsRef<[D]>) -> Result<Slice<'_>, NdError> {
        self.all().slice(selection)
    }

    /// Selects every combination of the positions listed for each dimension: `oindex` in Zarr, `numpy.ix_` in
    /// NumPy. Lists may be in any order and repeat positions; negative ones count from the end.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn oindex(&self, lists: &[Vec<i64>]) -> Result<Slice<'_>, NdError> {
        self.slice(lists)
    }

    /// Selects everything.
    pub fn all(&self) -> Slice<'_> {
        Slice::whole(self)
    }

    pub(crate) fn check_chunk(&self, nchunk: usize, nbytes: usize) -> Result<(), NdError> {
        if nbytes != self.geometry.chunk_nbytes() {
            let need = self.geometry.chunk_nbytes();
            return Err(NdError::geometry(format!(
                "chunk {nchunk} has {nbytes} bytes, the array needs {need}"
            )));
        }
        Ok(())
    }
}

/// Compares the chunks that the metalayer asks for with those that the frame has.
pub(crate) fn check_chunksize(
    name: &'static str,
    meta: &ArrayMeta,
    geometry: &Geometry,
    chunksize: usize,
) -> Result<(), NdError> {
    let (need, itemsize) = (geometry.chunk_nbytes(), geometry.itemsize());
    if need == chunksize {
        return Ok(());
    }
    let (chunkshape, blockshape) = (&meta.chunkshape, &meta.blockshape);
    let what = format!(
        "chunks of {chunkshape:?} padded to blocks of {blockshape:?} with items of {itemsize} bytes have {need} bytes, the frame says {chunksize}"
    );
    let part = Part::Chunkshape;
    Err(NdError::Contradiction { name, field: part.name(), offset: meta.offset_of(part, 0), what })
}

/// So many chunks are no work worth counting.
const FEW_CHUNKS: usize = 1 << 16;
/// A special chunk takes as long as filling so many bytes, however small it is.
const SPECIAL_WORK: u64 = 512;
/// The same for one that has the stored bytes of another: it is decoded again.
const SHARED_WORK: u64 = 16 << 10;

/// Options for opening an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayOptions {
    pub(crate) options: OpenOptions,
    pub(crate) offset: u64,
}

impl ArrayOptions {
    /// Codecs and filters beyond the built-in ones.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.options = self.options.plugins(plugins);
        self
    }
    /// What the file may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options = self.options.limits(limits);
        self
    }
    /// All options of the frame: how it is changed, and its file system, too.
    pub fn frame_options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }
    /// The frame starts at this byte of the file.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }
    /// Opens an array in a file or directory.
    ///
    /// # Errors
    /// As [`NdArray::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<NdArray, NdError> {
        NdArray::from_super_chunk(match self.offset {
            0 => self.options.open(path)?,
            offset => self.options.open_at(path, offset)?,
        })
    }
    /// Takes an array from a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`NdArray::open`].
    pub fn from_bytes(&self, frame: impl Into<Bytes>) -> Result<NdArray, NdError> {
        NdArray::from_super_chunk(self.options.open_bytes(frame)?)
    }
}

/// C-Blosc2 may write 1 for item sizes above 255; the chunk size tells the real one (docs/format/b2nd.md,
/// section 1.1).
pub(crate) fn lost_itemsize(meta: &ArrayMeta, typesize: usize, chunksize: usize) -> usize {
    if typesize != 1 {
        return typesize;
    }
    let nitems = meta
        .chunkshape
        .iter()
        .zip(&meta.blockshape)
        .try_fold(1u64, |n, (&c, &b)| n.checked_mul(u64::from(c).checked_next_multiple_of(b.into())?));
    match nitems {
        Some(n @ 1..) if (chunksize as u64).is_multiple_of(n) => (chunksize as u64)
            .checked_div(n)
            .and_then(|quotient| usize::try_from(quotient).ok())
            .filter(|quotient| *quotient > 255)
            .unwrap_or(typesize),
        _ => typesize,
    }
}

/// The stored dtype; a text that cannot be understood, or says another item size, leaves opaque bytes.
fn dtype(meta: &ArrayMeta, itemsize: usize) -> Dtype {
    let Some(stored) = &meta.dtype else { return Dtype::opaque(format!("|V{itemsize}"), itemsize) };
    let text = String::from_utf8_lossy(stored);
    if meta.dtype_format == 0
        && let Ok(dtype) = Dtype::parse(&text)
        && dtype.itemsize() == itemsize
        && dtype.as_str() == text
    {
        return dtype;
    }
    Dtype::opaque(text, itemsize)
}
