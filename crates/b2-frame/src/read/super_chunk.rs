use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use b2_chunk::{BlockInfo, Chunk, ChunkError, ChunkHeader, Container, DParams, LazyChunk};
use b2_core::{Control, ErrorKind, memory};
use bytes::Bytes;

use crate::format::checksums::{Checksums, ChunkSum, ChunkSums, Page, Sums, sum};
use crate::format::header::{FrameHeader, Storage};
use crate::format::index::{Entry, Index};
use crate::format::metalayers::{Metalayers, VlMetalayers};
use crate::format::trailer::Trailer;
use crate::names::FrameFile;
use crate::read::compare::Compare;
use crate::read::fetch::Comparing;
use crate::read::head::ChunkHead;
use crate::read::open::{Layout, Opened};
use crate::read::options::FrameOrigin;
use crate::read::plan::{Driver, On};
use crate::read::sizes::ChunkSizes;
use crate::read::sums::{PageOf, SumsPlan};
use crate::storage::files::{Extent, FrameFiles};
use crate::{FrameError, ReadCosts, ReadOptions};

/// A frame that is open for reading: a sequence of chunks and named metadata.
///
/// Opening reads header, index and trailer. Chunks are read on request, with positioned reads
/// through `&self`, so any number of threads may read at once. Cloning is cheap.
///
/// ```
/// use b2_chunk::{CParams, Chunk};
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
///
/// let cparams = CParams::builder(4).build()?;
/// let raw: Vec<u8> = (0..30_000u32).flat_map(|i| i.to_le_bytes()).collect();
/// let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// for part in raw.chunks(50_000) {
///     writer.append(Chunk::compress_bytes(part, &cparams)?)?;
/// }
/// writer.set_vlmetalayer("station", b"\xa7north-3")?;
/// let frame = writer.finish()?.into_bytes();
///
/// let schunk = SuperChunk::from_bytes(frame)?;
/// assert_eq!((schunk.nchunks(), schunk.nbytes()), (3, 120_000));
/// assert_eq!(schunk.decompress_chunk(2)?, raw[100_000..]);
/// assert_eq!(schunk.read_items(12_400..12_600)?, raw[49_600..50_400]);
/// assert_eq!(schunk.vlmetalayers().get("station")?.as_deref(), Some(&b"\xa7north-3"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SuperChunk {
    pub(crate) opened: Arc<Opened>,
    pub(crate) files: Arc<dyn FrameFiles>,
    pub(crate) dparams: DParams,
    /// The sizes of chunks, if they are individual; read when first needed.
    pub(crate) sizes: Arc<OnceLock<ChunkSizes>>,
    /// Where the frame was opened, for `refresh`.
    pub(crate) source: Option<Arc<FrameOrigin>>,
    /// When chunks are compared with their checksums.
    pub(crate) compare: Compare,
    /// Whether what is read will be stored again, so that chunks are always compared as a whole:
    /// damaged data must not get a valid checksum.
    pub(crate) keeps: bool,
    /// Read costs, which decide what is read at once.
    pub(crate) costs: ReadCosts,
}

impl SuperChunk {
    /// Opens a contiguous frame (a file, in which bytes after the frame are ignored) or a sparse
    /// frame (a directory). Uses the built-in plugins and default limits.
    ///
    /// # Errors
    /// When the path does not exist, is neither a regular file nor a directory, or is not a frame.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FrameError> {
        Self::options().open(path)
    }

    /// Opens a contiguous frame in memory. The buffer must hold nothing but the frame.
    ///
    /// # Errors
    /// When the buffer is not exactly one valid frame.
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, FrameError> {
        Self::options().from_bytes(frame)
    }

    /// Moves to the newest committed state. Returns whether there was a newer one.
    ///
    /// Until then a super-chunk shows the state in which it was opened. For a contiguous frame this
    /// always works; for a sparse frame reading fails with [`FrameError::Changed`] after another
    /// writer has changed it. Frames in memory never change.
    ///
    /// Settings from [`set_container`](Self::set_container) and a postfilter are kept.
    ///
    /// # Errors
    /// As for opening. After an error this super-chunk is unchanged.
    pub fn refresh(&mut self) -> Result<bool, FrameError> {
        let Some(source) = self.source.clone() else { return Ok(false) };
        let Some(newest) = source.newer_than(self)? else { return Ok(false) };
        let dparams = std::mem::take(&mut self.dparams);
        *self = newest.with_compare(self.compare).with_costs(self.costs);
        self.dparams = dparams;
        Ok(true)
    }

    /// Returns the error for bytes that could not be used: [`FrameError::Changed`] if another program has
    /// changed the frame since it was opened, else the same error.
    #[doc(hidden)]
    #[must_use]
    pub fn explain(&self, error: FrameError) -> FrameError {
        let changed = if error.kind() == ErrorKind::Damaged { self.changed() } else { None };
        changed.unwrap_or(error)
    }

    /// Fails with [`FrameError::Changed`] if another program has changed the frame since it was opened.
    #[doc(hidden)]
    pub fn changed(&self) -> Option<FrameError> {
        let name = || match &self.source {
            Some(source) => source.path.display().to_string(),
            None => "the frame".to_owned(),
        };
        self.has_changed().then(|| FrameError::Changed { name: name() })
    }

    /// Returns whether header or trailer are no longer what they were on opening. C-Blosc2 changes both
    /// when it overwrites chunks. What cannot be read again counts as unchanged.
    fn has_changed(&self) -> bool {
        let (layout, trailer) = (self.layout(), self.trailer());
        if layout.trailer.is_empty() {
            // This is a snapshot of an editor, which has no header and trailer of its own.
            return false;
        }
        let differs = |newest: &Self| {
            newest.opened.header_bytes != self.opened.header_bytes
                || newest.trailer().fingerprint() != trailer.fingerprint()
        };
        // Open by name, since the file may have been replaced.
        if let Some(Ok(Some(newest))) = self.source.as_ref().map(|source| source.newer_than(self))
            && differs(&newest)
        {
            return true;
        }
        let ends = [layout.header.clone(), layout.trailer.clone()];
        let ends = ends.map(|range| Extent::at_most(FrameFile::Main, range));
        let Ok(read) = self.driver().read(&ends) else { return false };
        let [header, end] = &read[..] else { return false };
        let fingerprint = [&[trailer.fingerprint_kind][..], &trailer.fingerprint].concat();
        *header != self.opened.header_bytes || !end.ends_with(&fingerprint)
    }

    /// Returns default options for reading: plugins, limits, threads, file system.
    pub fn options() -> ReadOptions {
        ReadOptions::default()
    }

    /// Creates a super-chunk from an opened frame and its files, for callers with custom storage.
    pub fn new(opened: Opened, files: Arc<dyn FrameFiles>, dparams: DParams) -> Self {
        let container = Container {
            itemsize: Some(opened.header.typesize()),
            frame_blocksize: opened.header.blocksize(),
            blockshape: Arc::default(),
        };
        let dparams = dparams.with_container(container);
        let opened = Arc::new(opened);
        let (compare, costs) = (Compare::default(), ReadCosts::default());
        Self { opened, files, dparams, sizes: Arc::default(), source: None, compare, keeps: false, costs }
    }

    /// Returns the frame header.
    pub fn header(&self) -> &FrameHeader {
        &self.opened.header
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
    pub fn typesize(&self) -> usize {
        self.header().typesize()
    }
    /// Returns the uncompressed size of every chunk except possibly the last, in bytes; 0 if chunks
    /// have individual sizes.
    pub fn chunksize(&self) -> usize {
        self.header().chunksize()
    }
    /// Returns the number of whole items.
    pub fn nitems(&self) -> u64 {
        self.nbytes() / self.typesize() as u64
    }
    /// Returns the index.
    pub fn index(&self) -> &Index {
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
    pub fn trailer(&self) -> &Trailer {
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

    /// Returns the same frame for reading data that will be stored again. Each chunk is then compared
    /// as a whole, since damaged data must not get a valid checksum.
    #[doc(hidden)]
    #[must_use]
    pub fn to_keep(&self) -> Self {
        Self { keeps: true, ..self.clone() }
    }

    /// Sets the threads, the progress callback and the cancellation of further calls.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.dparams.control = control;
        self
    }

    /// Returns the sums of the chunks, if they exist and are reliable.
    pub(crate) fn chunk_sums(&self) -> Result<Option<ChunkSums>, FrameError> {
        let Some(Sums::Pages(table)) = &self.opened.sums else { return Ok(None) };
        self.driver().run(SumsPlan::all(self))?;
        let pages = (0..table.pages().len()).map(|npage| table.page(npage));
        let sums = pages.flat_map(|page| page.as_chunks::<8>().0).map(|sum| u64::from_le_bytes(*sum));
        let entries = self.index().to_entries(self.dparams.limits.max_metadata)?;
        let mut all = memory::list(entries.len())?;
        for (nstored, whole) in sums.enumerate() {
            let runs = match &self.opened.runs {
                Some(table) => self.record(table, PageOf::Runs, nstored as u64)?.unwrap_or_default(),
                None => Bytes::new(),
            };
            memory::push(&mut all, ChunkSum { whole, runs: memory::copied(&runs)?.into() })?;
        }
        Ok(Some(ChunkSums::of(&entries, all.into_iter())?))
    }

    /// Returns the pages with the sums of the chunks.
    pub(crate) fn sum_pages(&self) -> &[Page] {
        match &self.opened.sums {
            Some(Sums::Pages(table)) => table.pages(),
            _ => &[],
        }
    }

    /// Compares all stored chunks with their checksums, if there are any, without decoding them.
    /// Everything else was compared when the frame was opened.
    ///
    /// # Errors
    /// [`FrameError::Checksum`] for the first damaged chunk, and when a chunk cannot be read.
    pub fn verify_checksums(&self) -> Result<Checksums, FrameError> {
        let control = self.dparams.control.begin(self.nbytes(), self.typesize() as u64);
        self.verify_between()?;
        let mut driver = self.driver();
        let mut nchunk = 0;
        // Remote storage answers many requests in the time of one.
        let most = self.files.in_flight();
        while nchunk < self.nchunks() && self.opened.sums.is_some() {
            let (mut runs, mut plans) = (Vec::new(), Vec::new());
            while nchunk < self.nchunks() && plans.len() < most {
                let (entry, run) = self.index().run(nchunk)?;
                nchunk = run.end;
                if let Entry::Stored(_) = entry {
                    memory::push(&mut plans, self.plan_chunk(run.start, Comparing::No)?)?;
                    memory::push(&mut runs, run)?;
                }
            }
            for (run, chunk) in runs.into_iter().zip(driver.run_all(plans)?) {
                // Chunks that share their bytes have one sum each.
                let chunk = chunk?;
                let sum = sum(chunk.as_bytes());
                let count = run.len() as u64;
                for nchunk in run {
                    driver.run(SumsPlan::of(self, nchunk)?)?;
                    self.check_sum(nchunk, || sum)?;
                }
                control.advance((chunk.nbytes() as u64).saturating_mul(count))?;
            }
        }
        Ok(self.checksums())
    }

    /// Returns a driver for plans of this frame.
    pub(crate) fn driver(&self) -> Driver<'_> {
        Driver::new(&*self.files)
    }

    /// Returns the files of the frame, for drivers.
    pub fn files(&self) -> &dyn FrameFiles {
        &*self.files
    }

    /// Returns the byte ranges of the parts of the frame.
    pub fn layout(&self) -> &Layout {
        &self.opened.layout
    }
    /// Returns everything that opening has read, for custom plans.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }
    /// Returns the parameters for decoding chunks: plugins, limits, and what the frame knows about
    /// its chunks.
    pub fn dparams(&self) -> &DParams {
        &self.dparams
    }
    /// Sets a function that processes every block after codec and filters, see
    /// [`DParams::with_postfilter`]. It receives the numbers of the chunk and the block.
    #[must_use]
    pub fn with_postfilter(
        self,
        postfilter: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { dparams: self.dparams.with_postfilter(postfilter), ..self }
    }
    /// Sets what is known about the chunks beyond the frame header, such as the shape of a block,
    /// or an item size that the header could not hold.
    pub fn set_container(&mut self, container: Container) {
        self.dparams.container = container;
    }

    /// Returns the index entry of chunk `nchunk`: whether it is stored, or which special value it
    /// has.
    ///
    /// # Errors
    /// When the chunk does not exist, or its entry is malformed.
    pub fn entry(&self, nchunk: usize) -> Result<Entry, FrameError> {
        self.index().entry(nchunk)
    }

    /// Reads chunk `nchunk` without decoding it; special chunks are created from their entry. The
    /// chunk is compared with its checksum, if it has one, unless [`Compare::Never`] is set.
    ///
    /// # Errors
    /// When the chunk does not exist, cannot be read, is damaged, or contradicts the frame.
    pub fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError> {
        self.driver().run(self.chunk_plan(nchunk)?).map_err(|error| self.explain(error))
    }

    /// Reads the head of chunk `nchunk`: header, block starts and dictionary.
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk`].
    pub fn chunk_head(&self, nchunk: usize) -> Result<LazyChunk, FrameError> {
        self.driver().run(On(self, self.head_plan(nchunk)?)).map(ChunkHead::into_chunk)
    }

    fn decode_whole<T>(
        &self,
        nchunk: usize,
        decode: impl FnOnce(&Chunk) -> Result<T, ChunkError>,
    ) -> Result<T, FrameError> {
        let chunk = self.driver().run(self.plan_chunk(nchunk, Comparing::Decoded)?);
        let decoded = chunk.and_then(|chunk| decode(&chunk).map_err(self.chunk_error(nchunk)));
        decoded.map_err(|error| self.explain(error))
    }

    /// Reads the header of chunk `nchunk`; `None` if the chunk is not stored.
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk`].
    pub fn chunk_header(&self, nchunk: usize) -> Result<Option<ChunkHeader>, FrameError> {
        match self.entry(nchunk)? {
            Entry::Special(_) => Ok(None),
            Entry::Stored(_) => self.headers(&[nchunk]).map(|mut headers| headers.pop()),
        }
    }

    /// Decompresses chunk `nchunk`. Its blocks are decoded in parallel, as the [`Control`] of the
    /// frame says.
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk`], and when the chunk does not decode.
    pub fn decompress_chunk(&self, nchunk: usize) -> Result<Vec<u8>, FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.decompress_bytes_with(&self.dparams))
    }

    /// Decompresses chunk `nchunk` into `dst`, which must have exactly its size.
    ///
    /// # Errors
    /// As for [`SuperChunk::decompress_chunk`], and when `dst` has another length.
    pub fn decompress_chunk_into(&self, nchunk: usize, dst: &mut [u8]) -> Result<(), FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.decompress_bytes_into(dst, &self.dparams))
    }

    /// Decompresses the blocks of chunk `nchunk` one by one: the values of a frame with
    /// variable-length blocks.
    ///
    /// # Errors
    /// As for [`SuperChunk::decompress_chunk`].
    pub fn chunk_blocks(&self, nchunk: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.blocks(&self.dparams))
    }
}

impl fmt::Debug for SuperChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperChunk").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// A source of chunks.
pub trait ChunkSource: Send + Sync {
    /// Returns the number of chunks.
    fn nchunks(&self) -> usize;

    /// Returns the chunk at position `nchunk`.
    ///
    /// # Errors
    /// When the chunk does not exist or cannot be read.
    fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError>;
}

impl ChunkSource for SuperChunk {
    fn nchunks(&self) -> usize {
        self.nchunks()
    }

    fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError> {
        self.chunk(nchunk)
    }
}
