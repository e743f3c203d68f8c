use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use b2_chunk::{BlockInfo, Container, DParams};
use b2_core::Control;
use bytes::Bytes;

use crate::format::checksums::{Checksums, Page, Sums};
use crate::format::header::{FrameHeader, Storage};
use crate::format::index::{Entry, Index};
use crate::format::metalayers::{Metalayers, VlMetalayers};
use crate::format::trailer::Trailer;
use crate::read::open_plan::{FrameLayout, OpenedFrame};
use crate::read::options::Compare;
use crate::read::options::FrameOrigin;
use crate::read::plan::{Driver, Plan, Step};
use crate::read::sizes::ChunkSizes;
use crate::storage::files::FrameFiles;
use crate::{FrameError, ReadOptions, ReadTuning};

/// A frame that is open for reading: a sequence of chunks and named metadata.
///
/// Opening reads header, index and trailer. Chunks are read on request, with positioned reads through `&self`, so any
/// number of threads may read concurrently. Cloning is cheap.
///
/// # Writing
/// A [`FrameWriter`](crate::FrameWriter) writes a new frame chunk by chunk, to a file, a directory or memory. The frame
/// appears when it is [finished](crate::FrameWriter::finish).
///
/// ```
/// use b2_chunk::{Compression, Chunk};
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
///
/// let cparams = Compression::new().itemsize(4).build()?;
/// let raw: Vec<u8> = (0..30_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// for part in raw.chunks(50_000) {
///     writer.append(Chunk::compress_bytes(part, &cparams)?)?;
/// }
/// writer.set_vlmetalayer("station", b"\xa7north-3")?;
/// let frame = writer.finish()?.into_bytes();
/// assert_eq!(SuperChunk::from_bytes(frame)?.nbytes(), 120_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Reading
/// Items are read by their number and decoded block by block; [`chunk`](Self::chunk) returns a view of one chunk.
///
/// ```
/// # use b2_chunk::{Compression, Chunk};
/// # use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// # let cparams = Compression::new().itemsize(4).build()?;
/// # let raw: Vec<u8> = (0..30_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// # for part in raw.chunks(50_000) {
/// #     writer.append(Chunk::compress_bytes(part, &cparams)?)?;
/// # }
/// # writer.set_vlmetalayer("station", b"\xa7north-3")?;
/// # let frame = writer.finish()?.into_bytes();
/// let schunk = SuperChunk::from_bytes(frame)?;
/// assert_eq!(schunk.nchunks(), 3);
/// assert_eq!(schunk.read_items(12_400..12_600)?, raw[49_600..50_400]);
/// assert_eq!(schunk.chunk(2).decompress()?, raw[100_000..]);
/// assert_eq!(schunk.vlmetalayers().get("station")?.as_deref(), Some(&b"\xa7north-3"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Changing
/// A [`FrameEditor`](crate::FrameEditor) changes chunks, bytes and metadata, and
/// [commits](crate::FrameEditor::commit) all changes in one step. A super-chunk that is open keeps its state until
/// [`refresh`](Self::refresh).
///
/// ```
/// use b2_chunk::Compression;
/// use b2_frame::{FrameEditor, FrameParams, SuperChunk};
///
/// let params = FrameParams::from_cparams(&Compression::new().itemsize(2).build()?).chunksize(1000);
/// let mut editor = FrameEditor::memory(params)?;
/// editor.append_bytes(&[1; 2500])?;
/// editor.commit()?;
/// let schunk = SuperChunk::from_bytes(editor.into_bytes().ok_or("not in memory")?)?;
/// assert_eq!((schunk.nchunks(), schunk.nitems()), (3, 1250));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Parallel
/// Calls use several threads, according to the [`Control`] that [`ReadOptions::control`] or
/// [`with_control`](Self::with_control) sets. Results do not depend on it.
///
/// ```
/// # use b2_chunk::{Compression, Chunk};
/// # use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// use std::ops::ControlFlow;
/// use b2_core::Control;
/// # let cparams = Compression::new().itemsize(4).build()?;
/// # let raw: Vec<u8> = (0..30_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// # for part in raw.chunks(50_000) {
/// #     writer.append(Chunk::compress_bytes(part, &cparams)?)?;
/// # }
/// # let frame = writer.finish()?.into_bytes();
/// let control = Control::new().threads(2).progress(|progress| {
///     println!("{} of {} bytes", progress.nbytes, progress.total);
///     ControlFlow::Continue(()) // `Break` would stop the call
/// });
/// let schunk = SuperChunk::options().control(control).from_bytes(frame)?;
/// assert_eq!(schunk.read_items(0..30_000)?, raw);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Remote files
/// Storage with high latency reports it by [`ReadAt::in_flight`](crate::ReadAt::in_flight). Ranges are then requested
/// concurrently, and [`ReadTuning::REMOTE`] determines which of them share a request. `b2-http` opens URLs in this way,
/// and `b2-async` reads with futures. [`RemoteFile`](crate::RemoteFile) turns anything that serves ranges into a file,
/// and checks that all responses have the same version:
///
/// ```
/// # use b2_chunk::{Compression, Chunk};
/// # use b2_frame::{FrameParams, FrameWriter};
/// use std::io;
/// use std::ops::Range;
/// use std::sync::Arc;
/// use b2_frame::{RangeResponse, OpenResponse, ReadTuning, RemoteFile, RemoteSource, SuperChunk, Version};
/// use bytes::Bytes;
///
/// /// A server with one file.
/// struct Server(Bytes);
///
/// impl RemoteSource for Server {
///     fn range(&self, range: Range<u64>) -> io::Result<RangeResponse> {
///         let bytes = self.0.slice(range.start as usize..range.end as usize);
///         Ok(RangeResponse::new(bytes, Version::default().etag(Some("\"1\"".into()))))
///     }
///     fn in_flight(&self) -> usize {
///         16
///     }
/// }
///
/// # let cparams = Compression::new().itemsize(4).build()?;
/// # let raw: Vec<u8> = (0..30_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// # for part in raw.chunks(50_000) {
/// #     writer.append(Chunk::compress_bytes(part, &cparams)?)?;
/// # }
/// # let frame = writer.finish()?.into_bytes();
/// let (server, len) = (Server(frame.clone()), frame.len() as u64);
/// let RangeResponse { bytes: first, version, .. } = server.range(0..len.min(OpenResponse::FIRST))?;
/// let last = server.range(len.saturating_sub(OpenResponse::LAST)..len)?.bytes;
/// let file = RemoteFile::new(server, OpenResponse::new(first, last, len, version));
/// let schunk = SuperChunk::options().tuning(ReadTuning::REMOTE).from_reader(Arc::new(file), "remote")?;
/// assert_eq!(schunk.read_items(12_400..12_600)?, raw[49_600..50_400]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Own storage
/// [`ReadOptions::from_reader`] opens a frame in anything that implements [`ReadAt`](crate::ReadAt), and
/// [`ReadOptions::file_system`] takes a [`ReadFiles`](crate::ReadFiles), in which paths are names. Bytes in memory
/// are such a storage, too:
///
/// ```
/// use std::sync::Arc;
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// # use b2_chunk::Compression;
///
/// # let params = FrameParams::from_cparams(&Compression::new().itemsize(1).build()?);
/// let stored = FrameWriter::memory(params)?.finish()?.into_bytes();
/// let schunk = SuperChunk::options().from_reader(Arc::new(stored), "in memory")?;
/// assert_eq!(schunk.nchunks(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SuperChunk {
    pub(crate) opened: Arc<OpenedFrame>,
    pub(crate) files: Arc<dyn FrameFiles>,
    pub(crate) dparams: DParams,
    /// The sizes of chunks, if they are individual; read when first needed.
    pub(crate) sizes: Arc<OnceLock<ChunkSizes>>,
    /// Where the frame was opened, for `refresh`.
    pub(crate) source: Option<Arc<FrameOrigin>>,
    /// The name in errors, if the frame was not opened by its path.
    pub(crate) name: Option<Arc<str>>,
    /// When chunks are compared with their checksums.
    pub(crate) compare: Compare,
    /// Whether the data will be stored again. Chunks are then always verified as a whole, so that damaged data do not
    /// get a valid checksum.
    pub(crate) keeps: bool,
    /// Read tuning, which determines what is read together.
    pub(crate) tuning: ReadTuning,
    /// The offset from which on stored chunks were put by this process into memory that nothing can change: they need
    /// not be compared.
    pub(crate) trusted_from: Option<u64>,
    /// Whether the start of the file is damaged and was replaced by its copy.
    pub(crate) restored: bool,
}

impl SuperChunk {
    /// Returns default options for reading: plugins, limits, threads, file system.
    pub fn options() -> ReadOptions {
        ReadOptions::default()
    }

    /// Creates a super-chunk from an opened frame and its files, for callers with custom storage.
    pub(crate) fn new(opened: OpenedFrame, files: Arc<dyn FrameFiles>, dparams: DParams) -> Self {
        let container = Container::default()
            .itemsize(Some(opened.header.itemsize()))
            .frame_blocksize(opened.header.blocksize());
        let dparams = dparams.container(container);
        let opened = Arc::new(opened);
        let (compare, tuning) = (Compare::default(), ReadTuning::default());
        Self {
            opened,
            files,
            dparams,
            sizes: Arc::default(),
            source: None,
            name: None,
            compare,
            keeps: false,
            tuning,
            trusted_from: None,
            restored: false,
        }
    }

    /// Returns the frame header.
    pub fn header(&self) -> &FrameHeader {
        &self.opened.header
    }
    /// Returns the bytes of the header with which the frame was opened. Those in the file may be newer.
    #[doc(hidden)]
    pub fn header_bytes(&self) -> &[u8] {
        &self.opened.header_bytes
    }
    /// Returns whether the header of the file is damaged and was replaced by the copy that the checksums hold
    /// (docs/format/start-copy.md). All data are compared with their checksums, so everything that can be read is
    /// right. Such a frame is not changed; [`salvage`](crate::salvage) writes an intact one.
    pub fn is_restored(&self) -> bool {
        self.restored
    }

    /// Returns whether the frame is contiguous or sparse.
    pub fn storage(&self) -> Storage {
        self.header().storage()
    }
    /// Returns the number of chunks.
    pub fn nchunks(&self) -> usize {
        self.opened.nchunks()
    }
    /// Returns the uncompressed size of all chunks, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.header().nbytes()
    }
    /// Returns the compressed size as stored in the header, in bytes.
    pub fn cbytes(&self) -> u64 {
        self.header().cbytes()
    }
    /// Returns the item size in bytes.
    pub fn itemsize(&self) -> usize {
        self.header().itemsize()
    }
    /// Returns the uncompressed size of every chunk except possibly the last, in bytes; 0 if chunks
    /// have individual sizes.
    pub fn chunksize(&self) -> usize {
        self.header().chunksize()
    }
    /// Returns the number of whole items.
    pub fn nitems(&self) -> u64 {
        self.nbytes() / self.itemsize() as u64
    }
    /// Returns the index.
    pub(crate) fn index(&self) -> &Index {
        &self.opened.index
    }
    /// Returns the metalayers.
    pub fn metalayers(&self) -> &Metalayers {
        &self.opened.metalayers
    }
    /// Returns the vlmetalayers.
    pub fn vlmetalayers(&self) -> &VlMetalayers {
        &self.opened.trailer.vlmetalayers
    }
    /// Returns the trailer.
    pub(crate) fn trailer(&self) -> &Trailer {
        &self.opened.trailer
    }
    /// Returns the result of checking the checksums when the frame was opened, without reading
    /// chunks.
    pub fn checksums(&self) -> Checksums {
        self.opened.checksums
    }

    /// Sets when chunks are compared with their checksums on decoding.
    #[must_use]
    pub fn with_compare(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    /// Sets the read tuning, which determines what is read together.
    #[must_use]
    pub fn with_tuning(self, tuning: ReadTuning) -> Self {
        Self { tuning, ..self }
    }

    /// Returns the same frame for reading data that will be stored again. Each chunk is then compared
    /// as a whole, since damaged data must not get a valid checksum.
    #[must_use]
    #[doc(hidden)]
    pub fn for_rewrite(&self) -> Self {
        Self { keeps: true, ..self.clone() }
    }

    /// Sets the threads, the progress callback and the cancellation of further calls.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.dparams.control = control;
        self
    }

    /// Returns the pages with the sums of the chunks.
    pub(crate) fn sum_pages(&self) -> &[Page] {
        match &self.opened.sums {
            Some(Sums::Pages(table)) => table.pages(),
            _ => &[],
        }
    }

    /// Returns a driver for plans of this frame.
    pub(crate) fn driver(&self) -> Driver<'_> {
        Driver::new(&*self.files)
    }

    /// Returns the files of the frame, for drivers.
    #[doc(hidden)]
    pub fn files(&self) -> &dyn FrameFiles {
        &*self.files
    }

    /// Returns the byte ranges of the parts of the frame.
    #[doc(hidden)]
    pub fn layout(&self) -> &FrameLayout {
        &self.opened.layout
    }
    /// Returns everything that opening has read, for custom plans.
    pub(crate) fn opened(&self) -> &OpenedFrame {
        &self.opened
    }
    /// Returns the parameters for decoding chunks: plugins, limits, and what the frame knows about
    /// its chunks.
    pub fn dparams(&self) -> &DParams {
        &self.dparams
    }
    /// Sets a function that processes every block after codec and filters, see
    /// [`DParams::postfilter`]. It receives the numbers of the chunk and the block.
    #[must_use]
    pub fn with_postfilter(
        self,
        postfilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { dparams: self.dparams.postfilter(postfilter), ..self }
    }
    /// Sets what is known about the chunks beyond the frame header, such as the shape of a block,
    /// or an item size that the header could not hold.
    pub fn set_container(&mut self, container: Container) {
        self.dparams.container = container;
    }

    /// Returns the index entry of a chunk.
    pub(crate) fn entry(&self, nchunk: usize) -> Result<Entry, FrameError> {
        self.opened.index.entry(nchunk)
    }
}

impl fmt::Debug for SuperChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperChunk").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// A [`Plan`] that does not hold its frame, which is passed to each step instead. So it can be stored next to the frame
/// that it reads.
pub(crate) trait FramePlan {
    /// The result of the plan.
    type Output;

    /// Continues with the requested bytes, like [`Plan::step`].
    fn step(&mut self, frame: &SuperChunk, parts: Vec<Bytes>) -> Result<Step<Self::Output>, FrameError>;
}

/// A [`FramePlan`] with its frame.
pub(crate) struct BoundPlan<'a, P>(pub(crate) &'a SuperChunk, pub(crate) P);

impl<P: FramePlan> Plan for BoundPlan<'_, P> {
    type Output = P::Output;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<P::Output>, FrameError> {
        self.1.step(self.0, parts)
    }
}
