//! Partial reads of chunks, through either storage interface of zarrs.

use std::any::Any;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use b2nd::{MaybeSendFuture, RangedOpening, RangedRead, Selection, Slice};
use bytes::Bytes;
use zarrs_chunk_grid::{Indexer, IndexerError};
use zarrs_codec::{
    ArrayBytes, ArrayBytesRaw, ArrayPartialDecoderTraits, BytesPartialDecoderTraits, CodecError,
    CodecOptions, StoragePartialDecoder, StoragePartialEncoder,
};
use zarrs_data_type::DataType;
use zarrs_storage::byte_range::ByteRange;
use zarrs_storage::{ReadableWritableStorage, StorageError};

use crate::chunk::{ZarrChunk, control};
use crate::options::{B2ND as NAME, failed};

/// Number of bytes requested at the end of a chunk: enough for index and checksums of chunks of up to 8 MiB.
const TAIL_LEN: u64 = 4096;
/// Chunks of at most this many bytes of items are fetched whole: a second request would take longer than the transfer.
const MAX_WHOLE_CHUNK_LEN: u64 = 64 << 10;
/// Maximum number of request rounds per chunk; damaged chunks may request more.
const MAX_ROUNDS: usize = 16;

/// Fetches byte ranges of a chunk.
pub(crate) trait RangeFetcher {
    /// Fetches several ranges; `None` if the chunk does not exist.
    fn fetch(
        &self,
        ranges: Vec<ByteRange>,
        options: &CodecOptions,
    ) -> impl MaybeSendFuture<Output = Result<Option<Vec<Bytes>>, CodecError>>;

    /// Returns whether fetching parts is cheaper than fetching the whole.
    fn has_parts(&self) -> bool;

    /// Returns whether a suffix may be requested before the length of the chunk is known, after a first range that is
    /// at least as long. Only blocking stores allow it: they process ranges in order and fail at the first. Others
    /// would underflow the offset, and for inner chunks of a shard they would return the preceding bytes.
    fn supports_suffix(&self) -> bool;
}

fn to_bytes(parts: Vec<ArrayBytesRaw<'_>>) -> Vec<Bytes> {
    parts.into_iter().map(|part| Bytes::from(part.into_owned())).collect()
}

/// The blocking interface. Its futures are ready immediately.
struct BlockingFetcher(Arc<dyn BytesPartialDecoderTraits>);

impl RangeFetcher for BlockingFetcher {
    async fn fetch(
        &self,
        ranges: Vec<ByteRange>,
        options: &CodecOptions,
    ) -> Result<Option<Vec<Bytes>>, CodecError> {
        Ok(self.0.partial_decode_many(Box::new(ranges.into_iter()), options)?.map(to_bytes))
    }

    fn has_parts(&self) -> bool {
        self.0.supports_partial_decode()
    }

    fn supports_suffix(&self) -> bool {
        let handle: &dyn Any = &*self.0;
        handle.is::<StoragePartialDecoder>() || handle.is::<StoragePartialEncoder<ReadableWritableStorage>>()
    }
}

/// Runs a future that is ready immediately.
fn run<T>(future: impl Future<Output = Result<T, CodecError>>) -> Result<T, CodecError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(CodecError::Other(format!("{NAME}: a blocking store did not block"))),
    }
}

/// Reads parts of one chunk. Its head and end are cached, so that the next part needs only its blocks.
pub(crate) struct PartialDecoder<F> {
    source: F,
    chunk: ZarrChunk,
    /// Length of the first request: includes the block positions if the writer followed the specification.
    first: u64,
    opened: Mutex<Option<Arc<RangedOpening>>>,
}

impl<F: RangeFetcher> PartialDecoder<F> {
    fn new(source: F, chunk: ZarrChunk, blocks: Option<&[u32]>) -> Self {
        // The frame header with shapes and dtype, and the chunk header.
        let known = 256 + 24 * chunk.shape.len() as u64 + 48;
        let starts = match blocks {
            Some(blocks) if blocks.len() == chunk.shape.len() => {
                let along =
                    chunk.shape.iter().zip(blocks).map(|(length, &block)| length.div_ceil(block.into()));
                along.fold(4, |size: u64, n| size.saturating_mul(n))
            }
            _ => TAIL_LEN,
        };
        let first = known.saturating_add(starts).clamp(TAIL_LEN, chunk.max_frame());
        Self { source, chunk, first, opened: Mutex::default() }
    }

    /// Fetches head and end of the chunk, or all of it, and opens it; `None` if it does not exist.
    async fn open(
        &self,
        all: bool,
        options: &CodecOptions,
    ) -> Result<Option<Arc<RangedOpening>>, CodecError> {
        let known = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let whole = async || {
            let parts = self.source.fetch(vec![ByteRange::FromStart(0, None)], options).await?;
            Ok::<_, CodecError>(parts.map(|parts| (u64::MAX, parts)))
        };
        let parts = if all || self.chunk.nbytes <= MAX_WHOLE_CHUNK_LEN || !self.source.has_parts() {
            whole().await?
        } else {
            let mut ranges = vec![ByteRange::FromStart(0, Some(self.first))];
            if self.source.supports_suffix() {
                // The first range is at least as long, so a shorter chunk fails before the suffix is requested.
                ranges.push(ByteRange::Suffix(TAIL_LEN));
            }
            match self.source.fetch(ranges, options).await {
                Ok(parts) => parts.map(|parts| (self.first, parts)),
                // Most stores reject ranges that are longer than the object. Other errors will recur.
                Err(_) => whole().await?,
            }
        };
        let Some((asked, parts)) = parts else { return Ok(None) };
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or_default();
        // The first part of a short chunk includes its end.
        let end = parts.next().filter(|_| first.len() as u64 == asked).unwrap_or_default();
        let mut opening = RangedOpening::new(self.chunk.read_options(options), asked, first, end);
        for _ in 0..MAX_ROUNDS {
            let missing = opening.step().map_err(|error| failed(NAME, &error))?;
            if missing.is_empty() {
                let array = opening.array().ok_or_else(missing_ranges_error)?;
                self.chunk.check(array)?;
                let opening = Arc::new(opening);
                *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening.clone());
                return Ok(Some(opening));
            }
            let Some(answers) = self.fetch_more(&missing, options).await? else { return Ok(None) };
            missing.into_iter().zip(answers).for_each(|(range, bytes)| opening.put(range, bytes));
        }
        Err(missing_ranges_error())
    }

    /// Fetches the ranges requested by a read.
    async fn fetch_more(
        &self,
        ranges: &[Range<u64>],
        options: &CodecOptions,
    ) -> Result<Option<Vec<Bytes>>, CodecError> {
        if ranges.iter().any(|range| range.end > self.chunk.max_frame()) {
            let what = format!("{NAME}: the chunk claims to be larger than a chunk of its shape can be");
            return Err(CodecError::Other(what));
        }
        let ranges =
            ranges.iter().map(|range| ByteRange::FromStart(range.start, Some(range.end - range.start)));
        self.source.fetch(ranges.collect(), options).await
    }

    /// Reads the items that an indexer selects, in its order.
    async fn read(
        &self,
        indexer: &dyn Indexer,
        options: &CodecOptions,
    ) -> Result<ArrayBytes<'static>, CodecError> {
        let selection = IndexerSelection::new(indexer, &self.chunk.shape)?;
        let nitems = indexer.len();
        let Some(opening) = self.open(selection.is_all(&self.chunk.shape), options).await? else {
            return self.chunk.fill_values(nitems);
        };
        let control = control(options);
        let array = opening.array().ok_or_else(missing_ranges_error)?.with_control(control.clone());
        let slice = selection.slice(&array).map_err(|error| failed(NAME, &error))?.native();
        let mut items = self.chunk.zeroed(slice.nbytes())?;
        if slice.nbytes() / self.chunk.dtype.itemsize() as u64 != nitems {
            return Err(IndexerError::new_incompatible_length(slice.len(), nitems).into());
        }
        let mut fetched = opening.fetched().clone();
        let mut read = RangedRead::new(&slice, &mut items[..]).map_err(|error| failed(NAME, &error))?;
        for _ in 0..MAX_ROUNDS {
            let missing = read.step(&fetched, &control).map_err(|error| failed(NAME, &error))?;
            if missing.is_empty() {
                read.finish().map_err(|error| failed(NAME, &error))?;
                drop(read);
                slice.to_native(&mut items);
                return Ok(ArrayBytes::new_flen(items));
            }
            let Some(answers) = self.fetch_more(&missing, options).await? else {
                return self.chunk.fill_values(nitems);
            };
            missing.into_iter().zip(answers).for_each(|(range, bytes)| fetched.put(range, bytes));
        }
        Err(missing_ranges_error())
    }

    fn size_held(&self) -> usize {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().map_or(0, |opening| opening.fetched().nbytes())
    }
}

fn missing_ranges_error() -> CodecError {
    CodecError::Other(format!("{NAME}: the chunk never completes its list of required ranges"))
}

/// The selection of an indexer.
enum IndexerSelection {
    Box(Vec<Range<u64>>),
    /// The positions of single items, by dimension.
    Points(Vec<Vec<i64>>),
}

impl IndexerSelection {
    fn new(indexer: &dyn Indexer, shape: &[u64]) -> Result<Self, CodecError> {
        if indexer.dimensionality() != shape.len() {
            let (got, expected) = (indexer.dimensionality(), shape.len());
            return Err(IndexerError::new_incompatible_dimensionality(got, expected).into());
        }
        let outside = |at: &[u64]| IndexerError::new_oob(at.to_vec(), shape.to_vec());
        if let Some(subset) = indexer.as_array_subset() {
            let ranges = subset.to_ranges();
            if ranges.iter().zip(shape).any(|(range, &length)| range.end > length) {
                return Err(outside(&subset.end_exc()).into());
            }
            return Ok(Self::Box(ranges));
        }
        let mut points = vec![Vec::new(); shape.len()];
        for at in indexer.iter_indices() {
            if at.len() != shape.len() || at.iter().zip(shape).any(|(at, length)| at >= length) {
                return Err(outside(&at).into());
            }
            // Dimension lengths are below 2^31.
            points.iter_mut().zip(at).for_each(|(points, at)| points.push(at as i64));
        }
        Ok(Self::Points(points))
    }

    fn is_all(&self, shape: &[u64]) -> bool {
        match self {
            Self::Box(ranges) => ranges.iter().zip(shape).all(|(range, &length)| *range == (0..length)),
            Self::Points(_) => false,
        }
    }

    fn slice(self, array: &b2nd::NdArray) -> Result<Slice, b2nd::NdError> {
        match self {
            Self::Box(ranges) => array.slice(ranges.into_iter().map(Selection::from).collect::<Vec<_>>()),
            // An array without dimensions has one item.
            Self::Points(points) if points.is_empty() => Ok(array.all()),
            Self::Points(points) => array.points(points.into_iter().map(Selection::List).collect::<Vec<_>>()),
        }
    }
}

pub(crate) fn blocking(
    handle: Arc<dyn BytesPartialDecoderTraits>,
    chunk: ZarrChunk,
    blocks: Option<&[u32]>,
) -> Arc<dyn ArrayPartialDecoderTraits> {
    Arc::new(PartialDecoder::new(BlockingFetcher(handle), chunk, blocks))
}

impl ArrayPartialDecoderTraits for PartialDecoder<BlockingFetcher> {
    fn data_type(&self) -> &DataType {
        &self.chunk.data_type
    }

    fn exists(&self) -> Result<bool, StorageError> {
        self.source.0.exists()
    }

    fn size_held(&self) -> usize {
        self.source.0.size_held() + self.size_held()
    }

    fn partial_decode(
        &self,
        indexer: &dyn Indexer,
        options: &CodecOptions,
    ) -> Result<ArrayBytes<'_>, CodecError> {
        run(self.read(indexer, options))
    }

    fn supports_partial_decode(&self) -> bool {
        self.source.has_parts()
    }
}

#[cfg(feature = "async")]
pub(crate) use asynchronous::asynchronous;

#[cfg(feature = "async")]
mod asynchronous {
    use zarrs_codec::{AsyncArrayPartialDecoderTraits, AsyncBytesPartialDecoderTraits};

    use super::*;

    /// The asynchronous interface.
    struct AsyncFetcher(Arc<dyn AsyncBytesPartialDecoderTraits>);

    impl RangeFetcher for AsyncFetcher {
        async fn fetch(
            &self,
            ranges: Vec<ByteRange>,
            options: &CodecOptions,
        ) -> Result<Option<Vec<Bytes>>, CodecError> {
            Ok(self.0.partial_decode_many(Box::new(ranges.into_iter()), options).await?.map(to_bytes))
        }

        fn has_parts(&self) -> bool {
            self.0.supports_partial_decode()
        }

        fn supports_suffix(&self) -> bool {
            false
        }
    }

    pub(crate) fn asynchronous(
        handle: Arc<dyn AsyncBytesPartialDecoderTraits>,
        chunk: ZarrChunk,
        blocks: Option<&[u32]>,
    ) -> Arc<dyn AsyncArrayPartialDecoderTraits> {
        Arc::new(PartialDecoder::new(AsyncFetcher(handle), chunk, blocks))
    }

    #[cfg_attr(target_arch = "wasm32", async_trait::async_trait(?Send))]
    #[cfg_attr(not(target_arch = "wasm32"), async_trait::async_trait)]
    impl AsyncArrayPartialDecoderTraits for PartialDecoder<AsyncFetcher> {
        fn data_type(&self) -> &DataType {
            &self.chunk.data_type
        }

        async fn exists(&self) -> Result<bool, StorageError> {
            self.source.0.exists().await
        }

        fn size_held(&self) -> usize {
            self.source.0.size_held() + self.size_held()
        }

        async fn partial_decode<'a>(
            &'a self,
            indexer: &dyn Indexer,
            options: &CodecOptions,
        ) -> Result<ArrayBytes<'a>, CodecError> {
            self.read(indexer, options).await
        }

        fn supports_partial_decode(&self) -> bool {
            self.source.has_parts()
        }
    }
}
