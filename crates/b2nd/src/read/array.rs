//! Opens arrays and reads from them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use b2_chunk::{CParams, Container};
use b2_core::{Control, ErrorKind};
use b2_frame::{FrameError, ReadOptions, Structure, SuperChunk};
use bytes::Bytes;

use crate::model::geometry::GeometryPart;
use crate::model::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::model::object::check_items;
use crate::{Dtype, Geometry, NdError};

/// An N-dimensional array in a frame, open for reading. Any number of threads may read it concurrently,
/// and cloning is cheap.
///
/// Opening reads the header, index and trailer, but no data. Reading a part decodes only the blocks
/// that hold it.
///
/// # Reading
/// [`slice`](Self::slice) takes numbers, ranges, lists, masks, and tuples of them (or `s![]` of `ndarray`), and checks them;
/// [`Slice::read`](crate::Slice::read) returns the values, [`Slice::read_into`](crate::Slice::read_into) writes them to
/// memory of the caller.
///
/// ```
/// use b2nd::{ArrayBuilder, NdArray, range, source};
///
/// let frame = ArrayBuilder::new::<u32>([3, 4, 5]).to_bytes(source::arange(0u32, 1))?;
/// let array = NdArray::from_bytes(frame)?;
/// assert_eq!((array.shape(), array.dtype().as_str()), (&[3, 4, 5][..], "<u4"));
/// let part = array.slice((-1, 1..3))?;
/// assert_eq!(part.shape(), [2, 5]);
/// assert_eq!(part.read::<Vec<u32>>()?, [45, 46, 47, 48, 49, 50, 51, 52, 53, 54]);
/// let mut reversed = [0u32; 4];
/// array.slice((0, range(..).step(-1), 0))?.read_into(&mut reversed)?;
/// assert_eq!(reversed, [15, 10, 5, 0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
///
/// # Writing
/// [`write`](Self::write) writes values with default settings, [`ArrayBuilder`](crate::ArrayBuilder) with others. The file
/// appears when it is complete. Values, arrays and views are sources of items; [`source`](crate::source) has more.
///
/// ```
/// use b2_chunk::Compression;
/// use b2nd::{ArrayBuilder, NdArray, source};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("table.b2nd");
/// ArrayBuilder::new::<f64>([200, 300])
///     .chunks([100, 100])
///     .compression(Compression::zstd(9))
///     .write(&path, source::by_position(|at: &[u64]| at[0] as f64 / (1 + at[1]) as f64))?;
/// assert_eq!(NdArray::open(&path)?.slice((3, 2))?.read::<Vec<f64>>()?, [1.0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
///
/// # Changing
/// [`edit`](Self::edit) opens an array for changing, and [`ArrayEditor::commit`](crate::ArrayEditor::commit) makes all
/// changes visible in one step. An array that is open elsewhere keeps its state until [`refresh`](Self::refresh).
///
/// ```
/// use b2nd::{Axis, NdArray};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log.b2nd");
/// NdArray::write(&path, [1u16, 2, 3])?;
/// let mut reader = NdArray::open(&path)?;
///
/// let mut editor = NdArray::edit(&path)?;
/// editor.append(Axis(0), &[4u16, 5])?;
/// editor.set(0, &[9u16])?;
/// editor.commit()?;
/// assert_eq!(reader.len(), 3);
/// assert!(reader.refresh()?);
/// assert_eq!(reader.all().read::<Vec<u16>>()?, [9, 2, 3, 4, 5]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
///
/// # Parallel
/// Each call uses the threads of the rayon pool it runs in, or of one pool per process; a [`Control`] sets how many, and
/// reports progress or stops the call. Results do not depend on it. Reading takes `&self`, so that threads of your own can
/// share an array; [`SharedEditor`](crate::SharedEditor) lets several threads change one.
///
/// ```
/// use std::ops::ControlFlow;
/// use b2_core::Control;
/// use b2nd::{ArrayBuilder, NdArray, source};
///
/// let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([500, 500]).to_bytes(source::zeros())?)?;
/// let control = Control::new().threads(2).progress(|progress| {
///     println!("{} of {} bytes", progress.nbytes, progress.total);
///     ControlFlow::Continue(())
/// });
/// assert_eq!(array.with_control(control).all().read_bytes()?.len(), 250_000);
/// # Ok::<(), b2nd::NdError>(())
/// ```
///
/// # Remote arrays
/// An array on a web server opens by its URL with the options of the crate `b2-http`:
/// `NdArray::open_with("https://example.org/field.b2nd", &b2_http::options())`. With
/// [`ReadTuning::REMOTE`](b2_frame::ReadTuning::REMOTE), larger ranges are read than from a disk, and what a call needs is
/// requested together. The crate `b2-async` reads with futures. A custom store only has to serve range requests:
///
/// ```
/// use std::io;
/// use std::ops::Range;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use b2_frame::{RangeResponse, OpenResponse, ReadTuning, RemoteFile, RemoteSource, SuperChunk, Version};
/// use b2nd::{ArrayBuilder, NdArray, source};
/// use bytes::Bytes;
///
/// /// A server with one file, which counts requests.
/// struct Server(Bytes, Arc<AtomicUsize>);
///
/// impl RemoteSource for Server {
///     fn range(&self, range: Range<u64>) -> io::Result<RangeResponse> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         let bytes = self.0.slice(range.start as usize..range.end as usize);
///         Ok(RangeResponse::new(bytes, Version::default().etag(Some("\"1\"".into()))))
///     }
///     fn in_flight(&self) -> usize {
///         16
///     }
/// }
///
/// let by_place = source::by_index(|i| i as u32 ^ 0x5bd1);
/// let file = ArrayBuilder::new::<u32>([500, 400]).chunks([100, 100]).to_bytes(by_place)?;
/// let (requests, len) = (Arc::new(AtomicUsize::new(0)), file.len() as u64);
/// let server = Server(file, requests.clone());
/// let both = |range| server.range(range).map(|answer| answer.bytes).unwrap();
/// let (first, last) = (both(0..len.min(OpenResponse::FIRST)), both(len.saturating_sub(OpenResponse::LAST)..len));
/// let opening = OpenResponse::new(first, last, len, Version::default().etag(Some("\"1\"".into())));
///
/// let options = SuperChunk::options().tuning(ReadTuning::REMOTE);
/// let array = NdArray::from_super_chunk(options.from_reader(Arc::new(RemoteFile::new(server, opening)), "remote")?)?;
/// assert_eq!(array.slice((3, 7))?.read::<Vec<u32>>()?, [(3 * 400 + 7) ^ 0x5bd1]);
/// assert!(requests.load(Ordering::Relaxed) <= 4); // of which two have opened the file
/// # Ok::<(), b2nd::NdError>(())
/// ```
///
/// # Own storage
/// Anything that returns bytes at an offset can hold an array: implement [`ReadAt`](b2_frame::ReadAt). To find
/// arrays by name in it, implement [`ReadFiles`](b2_frame::ReadFiles) and pass it to
/// [`ReadOptions::file_system`]; to change them, [`FileSystem`](b2_frame::FileSystem).
///
/// ```
/// use std::io;
/// use std::sync::Arc;
/// use b2_frame::{ReadAt, SuperChunk};
/// use b2nd::{ArrayBuilder, NdArray};
///
/// /// Bytes that are stored with all bits flipped.
/// struct Flipped(Vec<u8>);
///
/// impl ReadAt for Flipped {
///     fn len(&self) -> io::Result<u64> {
///         Ok(self.0.len() as u64)
///     }
///     fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
///         let stored = self.0.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
///         let stored = stored.ok_or(io::ErrorKind::UnexpectedEof)?;
///         buf.iter_mut().zip(stored).for_each(|(to, byte)| *to = !byte);
///         Ok(())
///     }
/// }
///
/// let frame = ArrayBuilder::new::<i32>([3]).to_bytes([7, 8, 9])?;
/// let flipped = Flipped(frame.iter().map(|byte| !byte).collect());
/// let frame = SuperChunk::options().from_reader(Arc::new(flipped), "flipped")?;
/// assert_eq!(NdArray::from_super_chunk(frame)?.all().read::<Vec<i32>>()?, [7, 8, 9]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NdArray(Arc<ArrayInner>);

#[derive(Clone, Debug)]
struct ArrayInner {
    frame: SuperChunk,
    /// Shared by handles that read the same array with different options.
    about: Arc<ArrayInfo>,
}

/// The description of an array, without its frame.
#[derive(Debug)]
pub(crate) struct ArrayInfo {
    meta: ArrayMeta,
    geometry: Arc<Geometry>,
    dtype: Dtype,
}

impl ArrayInfo {
    /// Returns the array with a frame that holds staged changes and this geometry. The caller has
    /// checked both.
    pub(crate) fn staged(&self, frame: SuperChunk, geometry: Geometry) -> NdArray {
        let meta = ArrayMeta {
            shape: geometry.shape().to_vec(),
            chunkshape: geometry.chunkshape().to_vec(),
            blockshape: geometry.blockshape().to_vec(),
            ..self.meta.clone()
        };
        let about = Self { meta, geometry: Arc::new(geometry), dtype: self.dtype.clone() };
        NdArray(Arc::new(ArrayInner { frame, about: Arc::new(about) }))
    }
}

impl NdArray {
    /// Opens an array: a contiguous frame in a file, or the directory of a sparse frame.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`SuperChunk::open`]. [`NdError::Unreadable`] if the frame is not an array, with one of these as
    /// [`detail`](NdError::detail): [`NotAnArray`](NdError::NotAnArray), [`NoItems`](NdError::NoItems),
    /// [`Meta`](NdError::Meta), [`Contradiction`](NdError::Contradiction), [`Limit`](NdError::Limit).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NdError> {
        Self::open_with(path, &SuperChunk::options())
    }

    /// Opens an array with options: plugins, limits, threads, file system, offset in its file, and more. The path may be
    /// anything that the file system of the options supports, such as a URL.
    ///
    /// ```no_run
    /// use b2_chunk::Limits;
    /// use b2_frame::SuperChunk;
    /// use b2nd::NdArray;
    ///
    /// let limits = Limits::default().max_memory(100 << 20);
    /// let array = NdArray::open_with("untrusted.b2nd", &SuperChunk::options().limits(limits))?;
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, NdError> {
        Self::from_super_chunk(options.open(path)?)
    }

    /// Opens an array in a contiguous frame in memory.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`SuperChunk::from_bytes`]; one of the details that [`open`](Self::open) names, by
    /// itself, if the frame is not an array.
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, NdError> {
        Self::from_super_chunk(SuperChunk::from_bytes(frame)?)
    }

    /// Opens an array in an open frame, which [`ReadOptions`] open from a file, memory, or any other storage:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use b2_frame::SuperChunk;
    /// use b2nd::{ArrayBuilder, NdArray, source};
    ///
    /// let stored = ArrayBuilder::new::<u8>([2, 3]).to_bytes(source::zeros())?;
    /// let frame = SuperChunk::options().from_reader(Arc::new(stored), "download")?;
    /// assert_eq!(NdArray::from_super_chunk(frame)?.shape(), [2, 3]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As [`detail`](NdError::detail) of [`NdError::Unreadable`] if the frame has a name:
    /// [`NotAnArray`](NdError::NotAnArray) or [`NoItems`](NdError::NoItems) when the frame is not an array,
    /// [`Meta`](NdError::Meta) or [`Contradiction`](NdError::Contradiction) when its fields are malformed or contradict
    /// each other, [`Limit`](NdError::Limit) when it has too many dimensions.
    pub fn from_super_chunk(frame: SuperChunk) -> Result<Self, NdError> {
        let name = frame.name().map(Cow::into_owned);
        Self::checked(frame).map_err(|error| match name {
            Some(name) => error.of(&name),
            None => error,
        })
    }

    fn checked(mut frame: SuperChunk) -> Result<Self, NdError> {
        let metalayers = frame.metalayers();
        let stored =
            [METALAYER, OLD_METALAYER].into_iter().find_map(|name| Some((name, metalayers.get(name)?)));
        let (name, stored) = stored.ok_or(NdError::NotAnArray)?;
        Self::check_items(&frame)?;
        let meta = ArrayMeta::parse(name, stored)?;
        let contradiction = |part: GeometryPart, dim, what| NdError::Contradiction {
            name,
            field: part.name(),
            offset: meta.offset_of(part, dim),
            what,
        };
        frame.dparams().limits.check_dimensions(meta.shape.len())?;
        let chunksize = frame.header().chunksize();
        let itemsize = lost_itemsize(&meta, frame.header().itemsize(), chunksize);
        let (shape, chunkshape, blockshape) = (&meta.shape, &meta.chunkshape, &meta.blockshape);
        let geometry = Geometry::checked(shape.clone(), chunkshape.clone(), blockshape.clone(), itemsize)
            .map_err(|fault| contradiction(fault.part, fault.dim, fault.what))?;
        let (needed, nchunks) = (geometry.nchunks(), frame.nchunks() as u64);
        if needed != nchunks {
            let what = format!(
                "{shape:?} in chunks of {chunkshape:?} needs {needed} chunks, the frame has {nchunks}"
            );
            return Err(contradiction(GeometryPart::Shape, 0, what));
        }
        if nchunks > 0 {
            check_chunksize(name, &meta, &geometry, chunksize)?;
        }
        let dtype = dtype(&meta, itemsize);
        let container = Container::default()
            .itemsize(Some(itemsize))
            .frame_blocksize(frame.header().blocksize())
            .blockshape(meta.blockshape.as_slice());
        frame.set_container(container);
        Ok(Self(Arc::new(ArrayInner {
            frame,
            about: Arc::new(ArrayInfo { meta, geometry: Arc::new(geometry), dtype }),
        })))
    }

    /// Returns an array in a frame without its metalayer. The caller has checked that they fit.
    pub(crate) fn of(frame: SuperChunk, geometry: Geometry, dtype: Dtype) -> Self {
        let meta = ArrayMeta {
            shape: geometry.shape().to_vec(),
            chunkshape: geometry.chunkshape().to_vec(),
            blockshape: geometry.blockshape().to_vec(),
            dtype_format: 0,
            dtype: Some(dtype.as_str().as_bytes().to_vec()),
        };
        let about = ArrayInfo { meta, geometry: Arc::new(geometry), dtype };
        Self(Arc::new(ArrayInner { frame, about: Arc::new(about) }))
    }

    /// Fails if the items of `frame`, an array or not, are computed or fetched by python-blosc2 when they are read there.
    /// All arrays are checked when they are opened.
    ///
    /// # Errors
    /// [`NdError::NoItems`].
    #[doc(hidden)]
    pub fn check_items(frame: &SuperChunk) -> Result<(), NdError> {
        check_items(frame.metalayers(), &frame.dparams().limits)
    }

    /// Returns the description of the array, which does not keep its frame open.
    pub(crate) fn about(&self) -> Arc<ArrayInfo> {
        self.0.about.clone()
    }

    /// Returns the length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        self.geometry().shape()
    }
    /// Returns the length of a chunk along each dimension, in items.
    pub fn chunkshape(&self) -> &[u32] {
        self.geometry().chunkshape()
    }
    /// Returns the length of a block along each dimension, in items.
    pub fn blockshape(&self) -> &[u32] {
        self.geometry().blockshape()
    }
    /// Returns the shapes of the array, its chunks and its blocks, with the numbers derived from
    /// them.
    pub fn geometry(&self) -> &Geometry {
        &self.0.about.geometry
    }

    /// Returns whether both are handles of one open array, perhaps with different options.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.about, &other.0.about)
    }

    pub(crate) fn shared_geometry(&self) -> Arc<Geometry> {
        self.0.about.geometry.clone()
    }
    /// Returns the type of the items: opaque bytes if the file has no dtype that can be parsed.
    pub fn dtype(&self) -> &Dtype {
        &self.0.about.dtype
    }
    /// Returns the array metalayer as stored.
    pub fn meta(&self) -> &ArrayMeta {
        &self.0.about.meta
    }
    /// Returns the size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.geometry().itemsize()
    }
    /// Returns the size of all items in bytes, without padding.
    pub fn nbytes(&self) -> u64 {
        self.geometry().nbytes()
    }
    /// Returns the number of dimensions.
    pub fn ndim(&self) -> usize {
        self.geometry().ndim()
    }
    /// Returns the number of items.
    pub fn len(&self) -> u64 {
        self.geometry().nitems()
    }
    /// Returns whether the array has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the compression parameters that the frame header gives for chunks of this array.
    ///
    /// # Errors
    /// [`NdError::Chunk`] when the header names an unknown codec or filter, or contradicts itself, as for
    /// [`Compression::build`](b2_chunk::Compression::build).
    pub fn cparams(&self) -> Result<CParams, NdError> {
        let header = self.0.frame.header();
        let builder = header
            .compression()
            .itemsize(self.itemsize())
            .blocksize(self.geometry().block_nbytes())
            .blockshape(self.blockshape())
            .plugins(self.0.frame.dparams().plugins.clone());
        Ok(builder.build()?)
    }
    /// Returns the frame that holds the array.
    pub fn super_chunk(&self) -> &SuperChunk {
        &self.0.frame
    }
    /// Returns the same array with other threads, progress callback or cancellation.
    #[must_use]
    pub fn with_control(&self, control: Control) -> Self {
        let frame = self.0.frame.clone().with_control(control);
        Self(Arc::new(ArrayInner { frame, about: self.0.about.clone() }))
    }

    /// Adds details to the error of a failed read: whether another program has changed the array, or which items are
    /// damaged.
    pub(crate) fn explain(&self, error: NdError) -> NdError {
        let may_be_a_change = match &error {
            NdError::Frame(error) => error.may_be_a_change(),
            other => other.kind() == ErrorKind::Damaged,
        };
        if may_be_a_change && let Some(changed) = self.super_chunk().changed() {
            return changed.into();
        }
        if error.kind() != ErrorKind::Damaged {
            return self.add_name(error);
        }
        self.add_name(match error {
            NdError::Frame(source) => match damaged_chunk(source.detail()) {
                Some(nchunk) => {
                    let source = Box::new(source.into_detail());
                    NdError::Damaged { items: self.items_of(nchunk), source }
                }
                None => source.into(),
            },
            other => other,
        })
    }

    /// Adds the name of the array to an error about its content.
    pub(crate) fn add_name(&self, error: NdError) -> NdError {
        match self.super_chunk().name() {
            Some(name) => error.of(&name),
            None => error,
        }
    }

    /// Returns the items of a chunk, as a slice.
    fn items_of(&self, nchunk: usize) -> String {
        let geometry = self.geometry();
        let (starts, shape) = geometry.chunk_box(&geometry.chunk_coords(nchunk as u64));
        let range = |(start, length): (&u64, &u64)| format!("{start}:{}", start.saturating_add(*length));
        let ranges: Vec<String> = starts.iter().zip(&shape).map(range).collect();
        format!("[{}]", ranges.join(", "))
    }

    pub(crate) fn check_chunk(&self, nchunk: usize, nbytes: usize) -> Result<(), NdError> {
        let need = self.geometry().chunk_nbytes();
        if nbytes == need { Ok(()) } else { Err(NdError::ChunkSize { nchunk, have: nbytes, need }) }
    }
}

/// Returns the chunk that an error is about.
fn damaged_chunk(error: &FrameError) -> Option<usize> {
    match error {
        FrameError::Checksum { structure: Structure::Chunk(nchunk), .. }
        | FrameError::Checksum { structure: Structure::Blocks { nchunk, .. }, .. } => Some(*nchunk),
        _ => None,
    }
}

/// Checks that the chunk size of the frame header matches the metalayer.
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
    let part = GeometryPart::Chunkshape;
    Err(NdError::Contradiction { name, field: part.name(), offset: meta.offset_of(part, 0), what })
}

/// Returns the item size. C-Blosc2 may write 1 for sizes above 255; the real size then follows from
/// the chunk size (docs/format/b2nd.md, section 1.1).
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

/// Returns the stored dtype, or opaque bytes if it cannot be parsed or has another item size.
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
