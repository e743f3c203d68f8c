//! Super-chunks that are read asynchronously.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::Chunk;
use b2_core::Control;
use b2_frame::{
    Checksums, ChunkInfo, Destination, Entry, FrameError, Metalayers, Read, ScatterPlan, SuperChunk,
    VlMetalayers,
};

use crate::future_set::FutureSet;
use crate::options::AsyncOptions;
use crate::reader::RangeReader;
use crate::remote::Remote;

/// A frame that is read asynchronously, contiguous or sparse. Cloning is cheap.
///
/// Its methods are those of [`SuperChunk`], with the same results. Blocks are decoded while a
/// future is polled, on the pool of the call.
///
/// ```
/// use b2_async::AsyncSuperChunk;
/// use b2_chunk::Compression;
/// use b2_frame::{FrameParams, FrameWriter};
///
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
/// #             return done;
/// #         }
/// #     }
/// # }
/// # block_on(async {
/// let cparams = Compression::new().itemsize(1).build()?;
/// let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// writer.append(b2_chunk::Chunk::compress_bytes(b"some bytes", &cparams)?)?;
/// let store = writer.finish()?.into_bytes();
///
/// let frame = AsyncSuperChunk::open(store).await?;
/// assert_eq!(frame.read_bytes(5..9).await?, b"byte");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct AsyncSuperChunk<R> {
    remote: Arc<Remote<R>>,
    frame: SuperChunk,
}

impl<R> std::fmt::Debug for AsyncSuperChunk<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncSuperChunk").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl<R> Clone for AsyncSuperChunk<R> {
    fn clone(&self) -> Self {
        Self { remote: self.remote.clone(), frame: self.frame.clone() }
    }
}

impl<R: RangeReader> AsyncSuperChunk<R> {
    /// Opens a frame: reads header, index and trailer, but no chunks.
    ///
    /// # Errors
    /// [`FrameError::Io`] when the store fails, [`FrameError::Changed`] when the file changes in the meantime; as for
    /// [`SuperChunk::open`] when it holds no frame or a damaged one: [`FrameError::Unreadable`].
    pub async fn open(reader: R) -> Result<Self, FrameError> {
        Self::open_with(reader, &AsyncOptions::new()).await
    }

    /// Opens a frame with options: plugins, limits, checksums, tuning, bytes in flight, and the offset of a
    /// contiguous frame in its file. The file system is not used.
    ///
    /// # Errors
    /// As for [`open`](Self::open); [`FrameError::OutOfRange`] when the offset is beyond the end of the file,
    /// [`FrameError::Argument`] when a sparse frame is opened with an offset.
    pub async fn open_with(reader: R, options: &AsyncOptions) -> Result<Self, FrameError> {
        let (remote, frame) = Remote::open(reader, &options.options, options.max_bytes).await?;
        Ok(Self { remote: Arc::new(remote), frame })
    }

    pub(crate) fn from_parts(remote: Arc<Remote<R>>, frame: SuperChunk) -> Self {
        Self { remote, frame }
    }

    pub(crate) fn into_parts(self) -> (Arc<Remote<R>>, SuperChunk) {
        (self.remote, self.frame)
    }

    /// Returns what is known without reading: header, index, metalayers and settings. Reading from
    /// it fails.
    pub fn super_chunk(&self) -> &SuperChunk {
        &self.frame
    }

    /// Returns whether a change of the frame between two requests would be noticed. It would not if
    /// the store provides neither strong ETags nor modification times.
    pub fn is_guarded(&self) -> bool {
        self.remote.version().is_guarded()
    }

    /// Changes settings of the frame. `change` must return the frame that it gets.
    #[must_use]
    pub fn with(self, change: impl FnOnce(SuperChunk) -> SuperChunk) -> Self {
        Self { frame: change(self.frame), ..self }
    }

    /// Returns the number of chunks.
    pub fn nchunks(&self) -> usize {
        self.frame.nchunks()
    }
    /// Returns the uncompressed size of all chunks, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.frame.nbytes()
    }
    /// Returns the metalayers.
    pub fn metalayers(&self) -> &Metalayers {
        self.frame.metalayers()
    }
    /// Returns the vlmetalayers, which were read on opening.
    pub fn vlmetalayers(&self) -> &VlMetalayers {
        self.frame.vlmetalayers()
    }

    /// Reads the sizes of chunks, if they are individual and not known yet.
    async fn read_sizes(&self) -> Result<(), FrameError> {
        self.remote.run(self.frame.sizes_plan()).await
    }

    /// Reads the sizes of chunks if that of chunk `nchunk` follows from the others.
    async fn read_size_of(&self, nchunk: usize) -> Result<(), FrameError> {
        match self.frame.chunk(nchunk).entry()? {
            Entry::Special(_) => self.read_sizes().await,
            Entry::Stored(_) => Ok(()),
        }
    }

    /// Reads chunk `nchunk` without decoding it, like [`ChunkRef::read`](b2_frame::ChunkRef::read).
    ///
    /// # Errors
    /// As for [`ChunkRef::read`](b2_frame::ChunkRef::read).
    pub async fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError> {
        self.read_size_of(nchunk).await?;
        self.remote.run(self.frame.chunk(nchunk).plan()?).await
    }

    /// Decompresses chunk `nchunk`.
    ///
    /// # Errors
    /// As for [`ChunkRef::decompress`](b2_frame::ChunkRef::decompress).
    pub async fn decompress_chunk(&self, nchunk: usize) -> Result<Vec<u8>, FrameError> {
        self.read_size_of(nchunk).await?;
        let decode = |chunk: &Chunk| chunk.decompress_bytes_with(self.frame.dparams());
        self.remote.run(self.frame.chunk(nchunk).plan_decoding(decode)?).await
    }

    /// Decompresses the blocks of chunk `nchunk` one by one: the values of a frame with
    /// variable-length blocks.
    ///
    /// # Errors
    /// As for [`ChunkRef::all_blocks`](b2_frame::ChunkRef::all_blocks).
    pub async fn chunk_blocks(&self, nchunk: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        self.read_size_of(nchunk).await?;
        let decode = |chunk: &Chunk| chunk.blocks(self.frame.dparams());
        self.remote.run(self.frame.chunk(nchunk).plan_decoding(decode)?).await
    }

    /// Reads and decodes some blocks of chunk `nchunk`. `each` receives their numbers and plain
    /// bytes in the order of `nblocks`.
    ///
    /// # Errors
    /// As for [`ChunkRef::blocks`](b2_frame::ChunkRef::blocks).
    pub async fn blocks(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), FrameError> {
        self.read_size_of(nchunk).await?;
        let control = self.frame.dparams().control.quiet();
        for blocks in self.frame.chunk(nchunk).block_reads(nblocks) {
            let blocks = blocks?;
            self.read(&blocks, Destination::empty(), control.clone()).await?;
            blocks.each(&mut each);
        }
        Ok(())
    }

    /// Returns information about all chunks, in order. This reads the chunk headers.
    ///
    /// # Errors
    /// As for [`ChunkRef::read`](b2_frame::ChunkRef::read) when a header cannot be read or is damaged.
    pub async fn chunk_infos(&self) -> Result<Vec<ChunkInfo>, FrameError> {
        let mut infos = Vec::new();
        while infos.len() < self.nchunks() {
            infos.extend(self.remote.run(self.frame.infos_plan(infos.len())).await?);
        }
        Ok(infos)
    }

    /// Decompresses the bytes `range` of the data, and reads only the blocks that hold them.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub async fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.read_sizes().await?;
        let mut dst = self.frame.room_for(&range)?;
        self.read_bytes_into(range.start, &mut dst).await?;
        Ok(dst)
    }

    /// Decompresses the bytes from `start` on into `dst`.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes_into`].
    pub async fn read_bytes_into(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        self.read_sizes().await?;
        let control = self.frame.dparams().control.begin(dst.len() as u64, self.frame.itemsize() as u64);
        for read in self.frame.byte_reads(start, dst) {
            let (places, dst) = read?;
            self.read(places, dst, control.clone()).await?;
        }
        Ok(())
    }

    async fn read<P: ScatterPlan<Error = FrameError>>(
        &self,
        places: P,
        destination: Destination<'_>,
        control: Control,
    ) -> Result<(), FrameError> {
        let mut read = Read::new(&self.frame, places, destination, control);
        let done = self.remote.drive(&mut read).await.and_then(|()| read.finish().map(drop));
        done.map_err(|error| self.frame.explain(error))
    }

    /// Decompresses the items `range`, like [`read_bytes`](Self::read_bytes) in units of the item
    /// size.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_items`].
    pub async fn read_items(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        let len = self.frame.nitems();
        if range.start > range.end || range.end > len {
            return Err(FrameError::out_of_range("items", range.start, range.end, len));
        }
        let typesize = self.frame.itemsize() as u64;
        let bytes = |item: u64| item.saturating_mul(typesize);
        self.read_bytes(bytes(range.start)..bytes(range.end)).await
    }

    /// Decompresses the items with these numbers, in this order. Numbers may repeat. Each touched
    /// chunk is read once.
    ///
    /// # Errors
    /// As for [`SuperChunk::gather`].
    pub async fn gather(&self, items: &[u64]) -> Result<Vec<u8>, FrameError> {
        self.read_sizes().await?;
        let (places, mut dst) = self.frame.item_read(items)?;
        let control = self.frame.dparams().control.begin(dst.len() as u64, self.frame.itemsize() as u64);
        self.read(places, Destination::from(&mut dst[..]), control).await?;
        Ok(dst)
    }

    /// Compares all stored chunks with their checksums, like [`SuperChunk::verify_checksums`].
    ///
    /// # Errors
    /// As for [`SuperChunk::verify_checksums`].
    pub async fn verify_checksums(&self) -> Result<Checksums, FrameError> {
        let control = self.frame.dparams().control.begin(self.nbytes(), self.frame.itemsize() as u64);
        // Compare every chunk while reading it, whatever the settings are.
        let frame = self.frame.clone().with_compare(b2_frame::Compare::Always);
        if !frame.compares_stored() {
            return Ok(self.frame.checksums());
        }
        let mut futures = FutureSet::new();
        let verify = async |nchunk: usize| {
            let chunk = self.remote.run(frame.chunk(nchunk).plan()?).await?;
            Ok::<_, FrameError>(chunk.nbytes() as u64)
        };
        let stored = |nchunk: &usize| !matches!(frame.chunk(*nchunk).entry(), Ok(Entry::Special(_)));
        let mut nchunks = (0..self.nchunks()).filter(stored);
        loop {
            while futures.len() < self.remote.max_requests()
                && let Some(nchunk) = nchunks.next()
            {
                futures.push(verify(nchunk));
            }
            match futures.next().await {
                Some(nbytes) => control.advance(nbytes?)?,
                None => return Ok(self.frame.checksums()),
            }
        }
    }
}
