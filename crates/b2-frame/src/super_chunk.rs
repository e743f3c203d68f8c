use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use b2_chunk::{Chunk, ChunkError, ChunkHeader, Container, DParams, memory};
use bytes::Bytes;

use crate::checksums::{Checksums, ChunkSums, Compare, Page, Sums, sum};
use crate::error::{max_metadata, within};
use crate::fetch::StoredBlocks;
use crate::header::{FrameHeader, Storage};
use crate::index::{Entry, Index};
use crate::metalayers::{Metalayers, VlMetalayers};
use crate::open::{Layout, Opened};
use crate::options::Source;
use crate::plan::{Extent, FrameFile, FrameFiles, drive};
use crate::sizes::ChunkSizes;
use crate::trailer::Trailer;
use crate::{FrameError, OpenOptions, Structure};

/// A frame, open for reading: a sequence of chunks and named metadata.
///
/// Opening reads header, index and trailer. Chunks are read when they are asked for, with positioned reads
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
///     writer.append(Chunk::compress(part, &cparams)?)?;
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
    /// For chunks of individual sizes; read when first needed.
    pub(crate) sizes: Arc<OnceLock<ChunkSizes>>,
    /// Where it was opened, to look there again.
    pub(crate) source: Option<Arc<Source>>,
    /// When chunks are compared with their sums.
    pub(crate) compare: Compare,
}

impl SuperChunk {
    /// Opens a file with a contiguous frame (bytes behind the frame are ignored) or the directory of a sparse
    /// one, told apart by what is there. Uses the built-in plugins and default limits.
    ///
    /// # Errors
    /// When there is no such file, it is neither a regular file nor a directory, or not a frame.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FrameError> {
        Self::options().open(path)
    }

    /// Opens a contiguous frame that starts at byte `offset` of a file.
    ///
    /// # Errors
    /// As [`SuperChunk::open`].
    pub fn open_at(path: impl AsRef<Path>, offset: u64) -> Result<Self, FrameError> {
        Self::options().open_at(path, offset)
    }

    /// Opens a contiguous frame in memory. The buffer must hold the frame and nothing else.
    ///
    /// # Errors
    /// When it does not.
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, FrameError> {
        Self::options().open_bytes(frame)
    }

    /// Goes over to the newest committed state, and tells whether there was one. Until then a super-chunk shows
    /// the state it was opened in: for ever if it is contiguous, and of a sparse frame as long as nobody
    /// changes it ([`FrameError::Changed`] then asks to refresh). Frames in memory never change.
    ///
    /// Block shape or item size that were set with [`set_container`](Self::set_container) stay set.
    ///
    /// # Errors
    /// As opening; this one stays as it was then.
    pub fn refresh(&mut self) -> Result<bool, FrameError> {
        let Some(source) = self.source.clone() else { return Ok(false) };
        let Some(newest) = source.newer_than(self)? else { return Ok(false) };
        let container = std::mem::take(&mut self.dparams.container);
        *self = newest.with_compare(self.compare);
        self.dparams.container = container;
        Ok(true)
    }

    /// Options for opening: plugins, limits, file system.
    pub fn options() -> OpenOptions {
        OpenOptions::default()
    }

    /// Puts an opened frame and its files together; for callers with storage of their own.
    pub fn new(opened: Opened, files: Arc<dyn FrameFiles>, dparams: DParams) -> Self {
        let container = Container {
            itemsize: Some(opened.header.typesize()),
            frame_blocksize: opened.header.blocksize(),
            blockshape: Arc::default(),
        };
        let dparams = dparams.with_container(container);
        let opened = Arc::new(opened);
        Self { opened, files, dparams, sizes: Arc::default(), source: None, compare: Compare::default() }
    }

    /// The frame header.
    pub fn header(&self) -> &FrameHeader {
        &self.opened.header
    }
    /// Contiguous or sparse.
    pub fn storage(&self) -> Storage {
        self.header().storage()
    }
    /// Number of chunks.
    pub fn nchunks(&self) -> usize {
        self.opened.nchunks()
    }
    /// Uncompressed size of all chunks, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.header().nbytes()
    }
    /// Compressed size as the header tells it, in bytes.
    pub fn cbytes(&self) -> u64 {
        self.header().cbytes()
    }
    /// Item size in bytes.
    pub fn typesize(&self) -> usize {
        self.header().typesize()
    }
    /// Uncompressed size of every chunk but possibly the last, in bytes; 0 when chunks have individual sizes.
    pub fn chunksize(&self) -> usize {
        self.header().chunksize()
    }
    /// Number of whole items.
    pub fn nitems(&self) -> u64 {
        self.nbytes() / self.typesize() as u64
    }
    /// The index.
    pub fn index(&self) -> &Index {
        &self.opened.index
    }
    /// The metalayers.
    pub fn metalayers(&self) -> &Metalayers {
        &self.opened.metalayers
    }
    /// The vlmetalayers.
    pub fn vlmetalayers(&self) -> &VlMetalayers {
        &self.opened.trailer.vlmetalayers
    }
    /// The trailer.
    pub fn trailer(&self) -> &Trailer {
        &self.opened.trailer
    }
    /// What the frame's checksums say, as far as it is known without reading chunks.
    pub fn checksums(&self) -> Checksums {
        self.opened.checksums
    }

    /// Changes when chunks are compared with their checksums on decoding.
    #[must_use]
    pub fn with_compare(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    /// The sums of the chunks, if the frame has some that can be relied on.
    pub(crate) fn chunk_sums(&self) -> Result<Option<ChunkSums>, FrameError> {
        let Some(Sums::Pages(table)) = &self.opened.sums else { return Ok(None) };
        let mut sums = memory::list(table.pages().len())?;
        for npage in 0..table.pages().len() {
            sums.push(table.page(npage, |range| self.sums_at(range))?);
        }
        let sums =
            sums.into_iter().flat_map(|page| page.as_chunks::<8>().0).map(|sum| u64::from_le_bytes(*sum));
        let entries = self.index().to_entries(self.dparams.limits.max_metadata)?;
        Ok(Some(ChunkSums::of(&entries, sums)?))
    }

    /// Where the sums of the chunks are.
    pub(crate) fn sum_pages(&self) -> &[Page] {
        match &self.opened.sums {
            Some(Sums::Pages(table)) => table.pages(),
            _ => &[],
        }
    }

    /// Whether a chunk with this header is to be compared with its sum: the `whole` of it is wanted, or a part.
    pub(crate) fn compares(&self, header: &ChunkHeader, whole: bool) -> bool {
        self.opened.sums.is_some() && self.compare.asks(header, whole)
    }

    fn sums_at(&self, range: Range<u64>) -> Result<Bytes, FrameError> {
        within("page of checksums, in bytes", range.end - range.start, max_metadata(&self.dparams))?;
        self.files.open(FrameFile::Main)?.read(&Extent::exactly(FrameFile::Main, range))
    }

    /// Compares all stored chunks with their checksums, if there are some; what is not stored in chunks was compared
    /// when the frame was opened. Nothing is decoded.
    ///
    /// # Errors
    /// [`FrameError::Checksum`] names the first chunk that is damaged; also when one cannot be read.
    pub fn verify_checksums(&self) -> Result<Checksums, FrameError> {
        let mut nchunk = 0;
        while nchunk < self.nchunks() && self.opened.sums.is_some() {
            let (entry, run) = self.index().run(nchunk)?;
            if let Entry::Stored(_) = entry {
                // Chunks that share their bytes have a sum each.
                let sum =
                    sum(drive(self.opened.chunk_plan(nchunk, &self.dparams)?, &*self.files)?.as_bytes());
                run.clone().try_for_each(|nchunk| self.expect_sum(nchunk, || sum))?;
            }
            nchunk = run.end;
        }
        Ok(self.checksums())
    }

    /// Compares the bytes of a stored chunk with its sum, if there is one.
    pub(crate) fn compare_sum(&self, nchunk: usize, bytes: &[u8]) -> Result<(), FrameError> {
        self.expect_sum(nchunk, || sum(bytes))
    }

    pub(crate) fn expect_sum(&self, nchunk: usize, sum: impl FnOnce() -> u64) -> Result<(), FrameError> {
        let expected = match (&self.opened.sums, self.entry(nchunk)?) {
            (Some(Sums::Pages(table)), _) => {
                table.get(self.index().nstored(nchunk) as u64, |range| self.sums_at(range))?
            }
            (Some(Sums::Known(sums)), entry) => sums.get(&entry.to_raw()).copied(),
            _ => None,
        };
        match expected {
            Some(expected) if expected != sum() => Err(FrameError::Checksum {
                structure: Structure::Chunk(nchunk),
                what: "the bytes do not fit the checksum",
            }),
            _ => Ok(()),
        }
    }

    /// Before a part of a chunk is read: compares all of it, where that is wanted.
    pub(crate) fn compare_part(&self, nchunk: usize) -> Result<(), FrameError> {
        if self.compare == Compare::Always && self.opened.sums.is_some() {
            self.compare_blocks(&mut self.block_reader(nchunk)?, false)?;
        }
        Ok(())
    }

    /// The files it is read from.
    pub(crate) fn files(&self) -> &dyn FrameFiles {
        &*self.files
    }

    /// Which bytes of the frame hold what.
    pub fn layout(&self) -> &Layout {
        &self.opened.layout
    }
    /// All that opening has read, for plans of one's own.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }
    /// How chunks are decoded: plugins, limits, and what the frame knows about its chunks.
    pub fn dparams(&self) -> &DParams {
        &self.dparams
    }
    /// Changes what is known about the chunks beyond the frame header: the shape of a block, say, or an item
    /// size that the header has lost.
    pub fn set_container(&mut self, container: Container) {
        self.dparams.container = container;
    }

    /// Whether chunk `nchunk` is stored, or which value it stands for.
    ///
    /// # Errors
    /// When there is no such chunk or its entry is malformed.
    pub fn entry(&self, nchunk: usize) -> Result<Entry, FrameError> {
        self.index().entry(nchunk)
    }

    /// Reads chunk `nchunk` as it is stored; one that is not stored is made up. It is compared with its checksum, if
    /// it has one.
    ///
    /// # Errors
    /// When there is no such chunk, it cannot be read, is damaged, or contradicts the frame.
    pub fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError> {
        self.chunk_if(nchunk, |_| true)
    }

    fn decode_whole<T>(
        &self,
        nchunk: usize,
        decode: impl FnOnce(&Chunk) -> Result<T, ChunkError>,
    ) -> Result<T, FrameError> {
        let chunk = self.chunk_if(nchunk, |header| self.compares(header, true))?;
        decode(&chunk).map_err(|error| {
            // If it is damaged, that says more.
            let damage = self.compare_sum(nchunk, chunk.as_bytes()).err();
            damage.unwrap_or_else(|| self.chunk_error(nchunk)(error))
        })
    }

    fn chunk_if(
        &self,
        nchunk: usize,
        compare: impl FnOnce(&ChunkHeader) -> bool,
    ) -> Result<Chunk, FrameError> {
        match self.entry(nchunk)? {
            Entry::Special(kind) if self.chunksize() == 0 => self.inferred_special(nchunk, kind),
            Entry::Special(_) => drive(self.opened.chunk_plan(nchunk, &self.dparams)?, &*self.files),
            Entry::Stored(_) => {
                let chunk = drive(self.opened.chunk_plan(nchunk, &self.dparams)?, &*self.files)?;
                if compare(chunk.header()) {
                    self.compare_sum(nchunk, chunk.as_bytes())?;
                }
                Ok(chunk)
            }
        }
    }

    /// Reads the header of chunk `nchunk`; `None` if the chunk is not stored.
    ///
    /// # Errors
    /// As [`SuperChunk::chunk`].
    pub fn chunk_header(&self, nchunk: usize) -> Result<Option<ChunkHeader>, FrameError> {
        match self.entry(nchunk)? {
            Entry::Special(_) => Ok(None),
            Entry::Stored(_) => self.headers(&[nchunk]).map(|mut headers| headers.pop()),
        }
    }

    /// Decompresses chunk `nchunk`. Its blocks are decoded in parallel on the current rayon pool.
    ///
    /// # Errors
    /// As [`SuperChunk::chunk`], and when it does not decode.
    pub fn decompress_chunk(&self, nchunk: usize) -> Result<Vec<u8>, FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.decompress_with(&self.dparams))
    }

    /// Decompresses chunk `nchunk` into `dst`, which must have exactly its size.
    ///
    /// # Errors
    /// As [`SuperChunk::decompress_chunk`], and when `dst` has another length.
    pub fn decompress_chunk_into(&self, nchunk: usize, dst: &mut [u8]) -> Result<(), FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.decompress_into(dst, &self.dparams))
    }

    /// Decompresses the blocks of chunk `nchunk` one by one: the values of a frame with variable-length
    /// blocks.
    ///
    /// # Errors
    /// As [`SuperChunk::decompress_chunk`].
    pub fn chunk_blocks(&self, nchunk: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        self.decode_whole(nchunk, |chunk| chunk.blocks(&self.dparams))
    }

    /// Reads some blocks of chunk `nchunk` without decoding them: only the chunk's head and those blocks are
    /// read (and block 0 where the delta filter needs it), neighbours at once.
    ///
    /// # Errors
    /// When there is no such chunk or block, it cannot be read, or contradicts the frame.
    pub fn stored_blocks(&self, nchunk: usize, nblocks: &[usize]) -> Result<StoredBlocks, FrameError> {
        self.compare_part(nchunk)?;
        drive(self.opened.blocks_plan(nchunk, nblocks, &self.dparams)?, &*self.files)
    }

    /// Reads and decodes some blocks of chunk `nchunk`; `each` gets number and plain bytes of each, in the
    /// order of `nblocks`.
    ///
    /// # Errors
    /// As [`SuperChunk::stored_blocks`], and when a block does not decode.
    pub fn blocks(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        each: impl FnMut(usize, &[u8]),
    ) -> Result<(), FrameError> {
        self.stored_blocks(nchunk, nblocks)?.decode(&self.dparams, each)
    }
}

impl fmt::Debug for SuperChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperChunk").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// Something that has chunks.
pub trait ChunkSource: Send + Sync {
    /// How many.
    fn nchunks(&self) -> usize;

    /// The chunk at position `nchunk`.
    ///
    /// # Errors
    /// When there is no such chunk, or it cannot be had.
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
