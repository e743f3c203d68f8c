//! Super-chunks that are read asynchronously.

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::Chunk;
use b2_core::memory;
use b2_frame::{
    Checksums, ChunkInfo, Entry, FrameError, Metalayers, Plan, ReadCosts, ReadOptions, Step, SuperChunk,
    VlMetalayers,
};

use crate::arrived::{Arrived, ArrivedFiles};
use crate::flock::Flock;
use crate::reader::RangeReader;
use crate::remote::{IN_FLIGHT, Remote};

/// Uncompressed bytes that are fetched before they are decoded.
const WINDOW: u64 = 32 << 20;

/// A frame that is read asynchronously, contiguous or sparse. Cloning is cheap.
///
/// Its methods are those of [`SuperChunk`], with the same results. While a future is polled, it
/// decodes on the pool of the call.
///
/// ```
/// use b2_async::AsyncSuperChunk;
/// use b2_chunk::CParams;
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
/// let cparams = CParams::builder(1).build()?;
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

impl<R> Clone for AsyncSuperChunk<R> {
    fn clone(&self) -> Self {
        Self { remote: self.remote.clone(), frame: self.frame.clone() }
    }
}

impl<R: RangeReader> AsyncSuperChunk<R> {
    /// Opens a frame: reads header, index and trailer, but no chunks.
    ///
    /// # Errors
    /// When the store fails or holds no frame.
    pub async fn open(reader: R) -> Result<Self, FrameError> {
        let options = SuperChunk::options().costs(ReadCosts::REMOTE);
        Self::open_with(reader, &options).await
    }

    /// Opens a frame with options: plugins, limits, checksums, costs, and the offset of a
    /// contiguous frame in its file. The file system is not used.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_with(reader: R, options: &ReadOptions) -> Result<Self, FrameError> {
        Self::open_bounded(reader, options, IN_FLIGHT).await
    }

    pub(crate) async fn open_bounded(
        reader: R,
        options: &ReadOptions,
        max_bytes: u64,
    ) -> Result<Self, FrameError> {
        let (remote, frame) = Remote::open(reader, options, max_bytes).await?;
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

    /// Returns whether a change of the frame between two requests would be noticed. If not, the
    /// store tells neither strong ETags nor times of change.
    pub fn is_guarded(&self) -> bool {
        self.remote.version().is_guarded()
    }

    /// Returns the same frame with other settings, which `change` makes. It must not replace it.
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

    /// Runs a call on a frame that holds what has arrived, fetches what it misses, and runs it
    /// again until it misses nothing.
    async fn replay<T>(
        &self,
        arrived: &Arc<Arrived>,
        mut call: impl FnMut(&SuperChunk) -> Result<T, FrameError>,
    ) -> Result<T, FrameError> {
        let frame = self.on(arrived);
        loop {
            let result = call(&frame);
            let missing = arrived.missing();
            if result.is_ok() || missing.is_empty() {
                return result;
            }
            self.remote.fetch_into(arrived, &missing).await?;
        }
    }

    fn on(&self, arrived: &Arc<Arrived>) -> SuperChunk {
        self.frame.clone().with_files(Arc::new(ArrivedFiles(arrived.clone())))
    }

    fn arrived(&self) -> Arc<Arrived> {
        self.remote.arrived()
    }

    /// Fetches what the plans for some chunks request, all at once.
    async fn fetch_plans<P: Plan>(
        &self,
        arrived: &Arc<Arrived>,
        plans: impl Iterator<Item = Result<P, FrameError>>,
    ) -> Result<(), FrameError> {
        let mut flock = Flock::new();
        let fetch = async |mut plan: P| {
            let mut parts = Vec::new();
            // Whatever is wrong with the bytes is told by the call that decodes them.
            while let Ok(Step::Need(extents)) = plan.step(parts) {
                parts = Vec::new();
                for extent in &extents {
                    let bytes = self.remote.fetch(extent).await?;
                    arrived.insert(extent, bytes.clone());
                    parts.push(bytes);
                }
            }
            Ok::<_, FrameError>(())
        };
        let mut plans = plans;
        loop {
            while flock.len() < self.remote.most()
                && let Some(plan) = plans.next()
            {
                let Ok(plan) = plan else { continue };
                flock.push(fetch(plan));
            }
            match flock.next().await {
                Some(fetched) => fetched?,
                None => return Ok(()),
            }
        }
    }

    /// Reads chunk `nchunk` without decoding it, like [`SuperChunk::chunk`].
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk`].
    pub async fn chunk(&self, nchunk: usize) -> Result<Chunk, FrameError> {
        self.remote.run(self.frame.chunk_plan(nchunk)?).await
    }

    /// Decompresses chunk `nchunk`.
    ///
    /// # Errors
    /// As for [`SuperChunk::decompress_chunk`].
    pub async fn decompress_chunk(&self, nchunk: usize) -> Result<Vec<u8>, FrameError> {
        self.replay(&self.arrived(), |frame| frame.decompress_chunk(nchunk)).await
    }

    /// Decompresses the blocks of chunk `nchunk` one by one: the values of a frame with
    /// variable-length blocks.
    ///
    /// # Errors
    /// As for [`SuperChunk::chunk_blocks`].
    pub async fn chunk_blocks(&self, nchunk: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        self.replay(&self.arrived(), |frame| frame.chunk_blocks(nchunk)).await
    }

    /// Reads and decodes some blocks of chunk `nchunk`. `each` receives their numbers and plain
    /// bytes in the order of `nblocks`.
    ///
    /// # Errors
    /// As for [`SuperChunk::blocks`].
    pub async fn blocks(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        each: impl FnMut(usize, &[u8]),
    ) -> Result<(), FrameError> {
        let stored = self.remote.run(self.frame.blocks_plan(nchunk, nblocks)?).await?;
        stored.decode(self.frame.dparams(), each)
    }

    /// Returns information about all chunks, in order. This reads the chunk headers.
    ///
    /// # Errors
    /// When a header cannot be read.
    pub async fn chunk_infos(&self) -> Result<Vec<ChunkInfo>, FrameError> {
        self.replay(&self.arrived(), |frame| frame.chunk_infos().collect()).await
    }

    /// Decompresses the bytes `range` of the data, and reads only the blocks that hold them.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes`].
    pub async fn read_bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        self.replay(&self.arrived(), |frame| frame.check_bytes(&range)).await?;
        let nbytes = range.end.saturating_sub(range.start);
        let len = usize::try_from(nbytes).unwrap_or(usize::MAX);
        let mut dst = memory::zeroed(len)?;
        self.read_checked(range.start, &mut dst).await?;
        Ok(dst)
    }

    /// Decompresses the bytes from `start` on into `dst`.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_bytes_into`].
    pub async fn read_bytes_into(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        self.read_checked(start, dst).await
    }

    async fn read_checked(&self, start: u64, dst: &mut [u8]) -> Result<(), FrameError> {
        let total = dst.len() as u64;
        let control = self.frame.dparams().control.begin(total, self.frame.typesize() as u64);
        let quiet = self.clone().with(|frame| frame.with_control(control.quiet()));
        let chunksize = self.frame.chunksize() as u64;
        let (mut at, mut rest) = (start, dst);
        if rest.is_empty() {
            return quiet.replay(&self.arrived(), |frame| frame.read_bytes_into(at, &mut [])).await;
        }
        while !rest.is_empty() {
            // Windows end where chunks do, so that none is fetched twice.
            let window = WINDOW.checked_div(chunksize).unwrap_or(0).max(1).saturating_mul(chunksize);
            let begin = at.checked_div(chunksize).unwrap_or(0).saturating_mul(chunksize);
            let end = match chunksize {
                0 => at.saturating_add(WINDOW),
                _ => begin.saturating_add(window),
            };
            let len = end.saturating_sub(at).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(usize::try_from(len).unwrap_or(usize::MAX));
            let arrived = self.arrived();
            quiet.fetch_plans(&arrived, quiet.pieces(at..at.saturating_add(len))).await?;
            quiet.replay(&arrived, |frame| frame.read_bytes_into(at, now)).await?;
            control.advance(len)?;
            at = at.saturating_add(len);
            rest = later;
        }
        Ok(())
    }

    /// The plans for the parts of chunks that hold these bytes.
    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Result<Either<'_>, FrameError>> {
        let chunksize = self.frame.chunksize() as u64;
        let first = range.start.checked_div(chunksize).unwrap_or(0);
        let last = if chunksize == 0 { 0 } else { range.end.min(self.nbytes()).div_ceil(chunksize) };
        let mut shared = None;
        (first..last).filter_map(move |nchunk| {
            let begin = nchunk.saturating_mul(chunksize);
            let end = begin.saturating_add(chunksize).min(self.nbytes());
            let nchunk = usize::try_from(nchunk).ok()?;
            let Ok(Entry::Stored(offset)) = self.frame.entry(nchunk) else { return None };
            // Neighbours that share their bytes are read once.
            if shared.replace(offset) == Some(offset) {
                return None;
            }
            let inside = range.start.max(begin)..range.end.min(end);
            Some(if inside == (begin..end) {
                self.frame.chunk_plan(nchunk).map(Either::Chunk)
            } else {
                let size = (self.frame.header().blocksize() as u64).max(1);
                let block = |at: u64| at.saturating_sub(begin).checked_div(size).unwrap_or(0);
                let blocks = block(inside.start)..=block(inside.end.saturating_sub(1));
                let numbers: Vec<usize> = blocks.filter_map(|n| usize::try_from(n).ok()).collect();
                self.frame.blocks_plan(nchunk, &numbers).map(Either::Blocks)
            })
        })
    }

    /// Decompresses the items `range`, like [`read_bytes`](Self::read_bytes) in units of the item
    /// size.
    ///
    /// # Errors
    /// As for [`SuperChunk::read_items`].
    pub async fn read_items(&self, range: Range<u64>) -> Result<Vec<u8>, FrameError> {
        let len = self.frame.nitems();
        if range.start > range.end || range.end > len {
            return Err(FrameError::OutOfRange { what: "items", start: range.start, end: range.end, len });
        }
        let typesize = self.frame.typesize() as u64;
        let bytes = |item: u64| item.saturating_mul(typesize);
        self.read_bytes(bytes(range.start)..bytes(range.end)).await
    }

    /// Decompresses the items with these numbers, in this order. Numbers may repeat. Each touched
    /// chunk is read once.
    ///
    /// # Errors
    /// As for [`SuperChunk::gather`].
    pub async fn gather(&self, items: &[u64]) -> Result<Vec<u8>, FrameError> {
        self.replay(&self.arrived(), |frame| frame.check_items(items)).await?;
        let typesize = self.frame.typesize();
        let chunksize = self.frame.chunksize() as u64;
        let total = (items.len() as u64).saturating_mul(typesize as u64);
        let mut out = memory::zeroed(usize::try_from(total).unwrap_or(usize::MAX))?;
        let control = self.frame.dparams().control.begin(total, typesize as u64);
        let quiet = self.clone().with(|frame| frame.with_control(control.quiet()));
        let mut order = memory::collect(0..items.len())?;
        let number = |at: usize| items.get(at).copied().unwrap_or_default();
        order.sort_by_key(|at| number(*at));
        let chunk_of = |at: usize| number(at).saturating_mul(typesize as u64).checked_div(chunksize);
        let most = WINDOW.checked_div(chunksize.max(1)).unwrap_or(0).clamp(1, 1024);
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let limit = chunk_of(*first).map(|first| first.saturating_add(most));
            let count = rest.partition_point(|at| chunk_of(*at) < limit || limit.is_none());
            let (now, later) = rest.split_at(count.max(1));
            let numbers: Vec<u64> = now.iter().map(|at| number(*at)).collect();
            let arrived = self.arrived();
            quiet.fetch_plans(&arrived, quiet.singles(&numbers)).await?;
            let found = quiet.replay(&arrived, |frame| frame.gather(&numbers)).await?;
            for (at, item) in now.iter().zip(found.chunks_exact(typesize)) {
                let start = at.saturating_mul(typesize);
                if let Some(slot) = out.get_mut(start..start.saturating_add(typesize)) {
                    slot.copy_from_slice(item);
                }
            }
            control.advance(found.len() as u64)?;
            rest = later;
        }
        Ok(out)
    }

    /// The plans for the blocks that hold items, whose numbers ascend.
    fn singles(&self, items: &[u64]) -> impl Iterator<Item = Result<Either<'_>, FrameError>> {
        let chunksize = self.frame.chunksize() as u64;
        let typesize = self.frame.typesize() as u64;
        let size = (self.frame.header().blocksize() as u64).max(1);
        let mut wanted: Vec<(u64, Vec<usize>)> = Vec::new();
        for item in items.iter().take(if chunksize == 0 { 0 } else { usize::MAX }) {
            let start = item.saturating_mul(typesize);
            let end = start.saturating_add(typesize);
            let nchunk = start.checked_div(chunksize).unwrap_or(0);
            let inside = |at: u64| at.saturating_sub(nchunk.saturating_mul(chunksize));
            let last = inside(end).min(chunksize).saturating_sub(1).checked_div(size).unwrap_or(0);
            let blocks = inside(start).checked_div(size).unwrap_or(0)..=last;
            if wanted.last().is_none_or(|(known, _)| *known != nchunk) {
                wanted.push((nchunk, Vec::new()));
            }
            if let Some((_, numbers)) = wanted.last_mut() {
                let known = numbers.last().copied();
                let new =
                    blocks.filter_map(|n| usize::try_from(n).ok()).filter(|n| known.is_none_or(|k| *n > k));
                numbers.extend(new);
            }
        }
        wanted.into_iter().filter_map(|(nchunk, numbers)| {
            let nchunk = usize::try_from(nchunk).ok()?;
            matches!(self.frame.entry(nchunk), Ok(Entry::Stored(_)))
                .then(|| self.frame.blocks_plan(nchunk, &numbers).map(Either::Blocks))
        })
    }

    /// Compares all stored chunks with their checksums, like [`SuperChunk::verify_checksums`].
    ///
    /// # Errors
    /// As for [`SuperChunk::verify_checksums`].
    pub async fn verify_checksums(&self) -> Result<Checksums, FrameError> {
        let control = self.frame.dparams().control.begin(self.nbytes(), self.frame.typesize() as u64);
        // Chunks are compared by their plans, whatever the settings are.
        let frame = self.frame.clone().with_compare(b2_frame::Compare::Always);
        if !frame.compares_stored() {
            return Ok(self.frame.checksums());
        }
        let mut flock = Flock::new();
        let verify = async |nchunk: usize| {
            let chunk = self.remote.run(frame.chunk_plan(nchunk)?).await?;
            Ok::<_, FrameError>(chunk.nbytes() as u64)
        };
        let stored = |nchunk: &usize| !matches!(frame.entry(*nchunk), Ok(Entry::Special(_)));
        let mut nchunks = (0..self.nchunks()).filter(stored);
        loop {
            while flock.len() < self.remote.most()
                && let Some(nchunk) = nchunks.next()
            {
                flock.push(verify(nchunk));
            }
            match flock.next().await {
                Some(nbytes) => control.advance(nbytes?)?,
                None => return Ok(self.frame.checksums()),
            }
        }
    }
}

/// A plan for a whole chunk or some of its blocks.
enum Either<'a> {
    Chunk(b2_frame::ChunkPlan<'a>),
    Blocks(b2_frame::BlocksPlan<'a>),
}

impl Plan for Either<'_> {
    type Output = ();

    fn step(&mut self, parts: Vec<bytes::Bytes>) -> Result<Step<()>, FrameError> {
        let need = match self {
            Self::Chunk(plan) => match plan.step(parts)? {
                Step::Need(need) => Some(need),
                Step::Done(_) => None,
            },
            Self::Blocks(plan) => match plan.step(parts)? {
                Step::Need(need) => Some(need),
                Step::Done(_) => None,
            },
        };
        Ok(need.map_or(Step::Done(()), Step::Need))
    }
}

impl<R: RangeReader> Remote<R> {
    pub(crate) async fn fetch_into(
        &self,
        arrived: &Arrived,
        missing: &[b2_frame::Extent],
    ) -> Result<(), FrameError> {
        let parts = self.fetch_all(missing).await?;
        missing.iter().zip(parts).for_each(|(extent, bytes)| arrived.insert(extent, bytes));
        Ok(())
    }
}
