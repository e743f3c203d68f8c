//! Decodes the bytes of a chunk to its items with the codecs of an array.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::base::memory;
use b2kit::chunk::{ChunkRef, CodecId, DParams};
use b2kit::codecs::{Codec, CodecContext, CodecError};
use b2kit::filters::{Filter as _, FilterContext, Shuffle};
use b2kit::frame::{MAGIC, ReadAt};
use b2kit::nd::{DtypeKind, Field, NdError};
use b2kit::{Dtype, Limits, NdArray, Plugins, SuperChunk};
use bytes::Bytes;
use serde_json::{Map, Value as Json};

use super::boxes::{Region, coordinates, copy_shared, fill_shared};
use super::data_type::named;
use super::filters::Filter;
use super::product;

/// Maximum number of codecs, more than any real array has.
const MAX_CODECS: usize = 32;
/// Maximum nesting of shards, more than any real array has.
const MAX_SHARD_DEPTH: usize = 4;
/// Maximum growth of incompressible input in bytes, in addition to an eighth of its size.
const ROOM: u64 = 4096;

/// The codecs of an array, in the order in which they were applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain(pub(super) Vec<Step>);

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Dimension n of the result is this one of the input.
    Transpose(Vec<usize>),
    Filter(Filter),
    /// Items become bytes, as in memory.
    Bytes,
    /// Items become a frame with an array of this type (docs/reference/zarr.md).
    Array(Box<Dtype>),
    Sharding(Arc<Sharding>),
    Compress(Compression),
    /// The first bytes of all items, then the second ones. The number is the item size.
    Shuffle(usize),
    /// A checksum after the bytes.
    Crc32c,
}

/// Compression of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compression {
    Zstd,
    Zlib,
    Gzip,
    Lz4,
    /// A chunk of Blosc or Blosc2, or a frame.
    Blosc,
}

/// A shard: inner chunks with an index.
#[derive(Clone, Debug)]
pub(super) struct Sharding {
    pub(super) shape: Vec<u64>,
    pub(super) chain: Chain,
    index: Chain,
    pub(super) at_start: bool,
}

/// The data between two codecs.
#[derive(Clone, Debug)]
struct State {
    shape: Vec<u64>,
    itemsize: usize,
    /// Bytes; `None` if their number is known only after decoding.
    len: Option<u64>,
}

impl State {
    fn of(shape: &[u64], itemsize: usize) -> Self {
        let len = Some(product(shape).saturating_mul(itemsize as u64));
        Self { shape: shape.to_vec(), itemsize, len }
    }

    /// Maximum number of bytes.
    fn most(&self) -> u64 {
        let items = product(&self.shape).saturating_mul(self.itemsize as u64);
        self.len.unwrap_or_else(|| items.saturating_add(items / 8).saturating_add(ROOM))
    }
}

/// Version 3: whether the codec `bytes` makes numbers big-endian, including in shards.
pub(super) fn is_big_endian(codecs: &[Json]) -> bool {
    codecs.iter().any(|codec| match named(codec) {
        Ok(("bytes", parameters)) => parameters.get("endian").and_then(Json::as_str) == Some("big"),
        Ok(("sharding_indexed", parameters)) => {
            parameters.get("codecs").and_then(Json::as_array).is_some_and(|inner| is_big_endian(inner))
        }
        _ => false,
    })
}

impl Chain {
    /// The codecs of version 2: order, filters, and the compressor.
    pub(super) fn version_2(
        dtype: &Dtype,
        ndim: usize,
        order: &Json,
        filters: &Json,
        compressor: &Json,
    ) -> Result<Self> {
        let mut steps = Vec::new();
        match order.as_str() {
            Some("F") if ndim > 1 => steps.push(Step::Transpose((0..ndim).rev().collect())),
            Some("F" | "C") | None => {}
            Some(other) => bail!("order {other} is not known"),
        }
        let none = Vec::new();
        let filters = filters.as_array().unwrap_or(&none);
        ensure!(filters.len() < MAX_CODECS, "{} filters are too many", filters.len());
        let empty = Map::new();
        for codec in filters.iter().chain(Some(compressor).filter(|json| !json.is_null())) {
            let parameters = codec.as_object().unwrap_or(&empty);
            let name =
                parameters.get("id").and_then(Json::as_str).with_context(|| format!("{codec}: no id"))?;
            steps.push(numcodecs(name, parameters, dtype)?);
        }
        Ok(Self(steps))
    }

    /// The codecs of version 3.
    pub(super) fn version_3(dtype: &Dtype, shape: &[u64], codecs: &[Json]) -> Result<Self> {
        Self::inner(dtype, shape, codecs, MAX_SHARD_DEPTH)
    }

    fn inner(dtype: &Dtype, shape: &[u64], codecs: &[Json], depth: usize) -> Result<Self> {
        ensure!(codecs.len() <= MAX_CODECS, "{} codecs are too many", codecs.len());
        let mut steps = Vec::new();
        let (mut has_bytes, mut shape) = (false, shape.to_vec());
        for codec in codecs {
            let (name, parameters) = named(codec)?;
            let with_name = || format!("codec {name}");
            let step = match name {
                "transpose" => {
                    let order = parameters.get("order").with_context(with_name)?;
                    let order = permutation(order, shape.len()).with_context(with_name)?;
                    shape = order.iter().filter_map(|&dim| shape.get(dim).copied()).collect();
                    Step::Transpose(order)
                }
                "bytes" => Step::Bytes,
                "b2kit.b2nd" => Step::Array(Box::new(dtype.clone())),
                "sharding_indexed" => {
                    ensure!(depth > 0, "shards in shards in shards are too many");
                    Step::Sharding(Arc::new(
                        Sharding::of(dtype, &shape, parameters, depth - 1).with_context(with_name)?,
                    ))
                }
                "zstd" => Step::Compress(Compression::Zstd),
                "gzip" => Step::Compress(Compression::Gzip),
                "blosc" | "b2kit.blosc2" => Step::Compress(Compression::Blosc),
                "crc32c" => Step::Crc32c,
                _ => match name.strip_prefix("numcodecs.") {
                    Some(inner) => numcodecs(inner, parameters, dtype)?,
                    None => bail!("codec {name} is not supported"),
                },
            };
            let makes_bytes = matches!(step, Step::Bytes | Step::Array(_) | Step::Sharding(_));
            let takes_items = makes_bytes || matches!(step, Step::Transpose(_) | Step::Filter(_));
            ensure!(takes_items != has_bytes, "codec {name} is at the wrong place");
            has_bytes |= makes_bytes;
            steps.push(step);
        }
        ensure!(has_bytes, "no codec makes bytes of the items");
        Ok(Self(steps))
    }

    /// The input of each codec, and the output of the last one.
    fn states(&self, shape: &[u64], itemsize: usize) -> Result<Vec<State>> {
        let mut state = State::of(shape, itemsize);
        let mut states = vec![state.clone()];
        for step in &self.0 {
            state = match step {
                Step::Transpose(order) => {
                    let shape: Vec<u64> =
                        order.iter().filter_map(|&dim| state.shape.get(dim).copied()).collect();
                    State::of(&shape, state.itemsize)
                }
                Step::Filter(filter) => {
                    let (decoded, encoded) = filter.sizes();
                    ensure!(
                        decoded == state.itemsize,
                        "a filter of items of {decoded} bytes, these have {}",
                        state.itemsize
                    );
                    State::of(&state.shape, encoded)
                }
                Step::Bytes | Step::Shuffle(_) => state,
                Step::Array(_) | Step::Sharding(_) | Step::Compress(_) => State { len: None, ..state },
                Step::Crc32c => State { len: state.len.map(|len| len.saturating_add(4)), ..state },
            };
            states.push(state.clone());
        }
        Ok(states)
    }

    /// Size of an encoded chunk in bytes, if it is always the same.
    fn encoded_len(&self, shape: &[u64], itemsize: usize) -> Result<Option<u64>> {
        Ok(self.states(shape, itemsize)?.last().and_then(|state| state.len))
    }

    /// Checks that chunks of this shape can be decoded.
    pub(super) fn check(&self, shape: &[u64], itemsize: usize, limits: &Limits) -> Result<()> {
        for state in self.states(shape, itemsize)? {
            limits.check_memory("chunk, in bytes", state.most())?;
        }
        Ok(())
    }

    /// Decodes a chunk. Returns its items in C order. `fill` is an item that is missing.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        shape: &[u64],
        fill: &[u8],
        itemsize: usize,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let states = self.states(shape, itemsize)?;
        let most = states.last().map_or(0, State::most);
        ensure!(
            stored.len() as u64 <= most
                || self.0.iter().any(|step| matches!(step, Step::Array(_) | Step::Sharding(_))),
            "too long"
        );
        let mut bytes = None;
        for (step, before) in self.0.iter().zip(&states).rev() {
            let src = bytes.as_deref().unwrap_or(stored);
            let made = match step {
                Step::Bytes => continue,
                Step::Transpose(order) => {
                    check_len(src, before)?;
                    transposed(src, &before.shape, order, before.itemsize)?
                }
                Step::Filter(filter) => filter.decode(src)?,
                Step::Array(dtype) => array_items(src, &before.shape, dtype, limits)?,
                Step::Sharding(sharding) => sharding.decode(src, &before.shape, fill, limits)?,
                Step::Compress(kind) => {
                    limits.check_memory("chunk, in bytes", before.most())?;
                    let (exact, most) = (before.len.is_some(), usize::try_from(before.most())?);
                    kind.decode(src, most, exact, limits)
                        .map_err(|what| anyhow!("{kind:?}: {what}").context("damaged"))?
                }
                Step::Shuffle(size) => {
                    let mut out = memory::zeroed(src.len())?;
                    Shuffle.backward(&FilterContext::new(*size), 0, src, &mut out)?;
                    out
                }
                Step::Crc32c => {
                    let (data, sum) =
                        src.split_last_chunk::<4>().context("crc32c: the checksum is missing")?;
                    ensure!(
                        crc32c(data) == u32::from_le_bytes(*sum),
                        "crc32c: the data does not match its checksum"
                    );
                    memory::copied(data)?
                }
            };
            if before.len.is_some() {
                check_len(&made, before)?;
            }
            bytes = Some(made);
        }
        let items = match bytes {
            Some(bytes) => bytes,
            None => memory::copied(stored)?,
        };
        if let Some(first) = states.first() {
            check_len(&items, first)?;
        }
        Ok(items)
    }
}

fn check_len(bytes: &[u8], state: &State) -> Result<()> {
    let expected = product(&state.shape).saturating_mul(state.itemsize as u64);
    let expected = state.len.unwrap_or(expected);
    ensure!(bytes.len() as u64 == expected, "{} bytes, expected {expected}", bytes.len());
    Ok(())
}

/// A codec of numcodecs.
fn numcodecs(name: &str, parameters: &Map<String, Json>, dtype: &Dtype) -> Result<Step> {
    let size =
        || parameters.get("elementsize").and_then(Json::as_u64).and_then(|size| usize::try_from(size).ok());
    Ok(match name {
        "zstd" => Step::Compress(Compression::Zstd),
        "zlib" => Step::Compress(Compression::Zlib),
        "gzip" => Step::Compress(Compression::Gzip),
        "lz4" => Step::Compress(Compression::Lz4),
        "blosc" | "blosc2" => Step::Compress(Compression::Blosc),
        "shuffle" => Step::Shuffle(size().unwrap_or(4).max(1)),
        "crc32c" => Step::Crc32c,
        _ => match Filter::of(name, parameters, dtype).with_context(|| format!("filter {name}"))? {
            Some(filter) => Step::Filter(filter),
            None => bail!("codec {name} is not supported"),
        },
    })
}

/// The order of dimensions.
fn permutation(order: &Json, ndim: usize) -> Result<Vec<usize>> {
    match order.as_str() {
        Some("C") => return Ok((0..ndim).collect()),
        Some("F") => return Ok((0..ndim).rev().collect()),
        _ => {}
    }
    let dims = order.as_array().map(Vec::as_slice).unwrap_or_default();
    let dims: Vec<usize> = dims.iter().filter_map(|dim| usize::try_from(dim.as_u64()?).ok()).collect();
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    ensure!(sorted == (0..ndim).collect::<Vec<_>>(), "{order} is not an order of {ndim} dimensions");
    Ok(dims)
}

/// Undoes a transposition. `shape` is that of the result.
fn transposed(src: &[u8], shape: &[u64], order: &[usize], itemsize: usize) -> Result<Vec<u8>> {
    let mut dst = memory::zeroed(src.len())?;
    // Strides of the source along each of its dimensions, then in the order of the dimensions of the result.
    let mut strides = vec![0_usize; shape.len()];
    let mut stride = itemsize;
    for &dim in order.iter().rev() {
        if let (Some(own), Some(&length)) = (strides.get_mut(dim), shape.get(dim)) {
            *own = stride;
            stride = stride.saturating_mul(usize::try_from(length)?);
        }
    }
    let mut at = vec![0_u64; shape.len()];
    let mut from = 0_usize;
    for item in dst.chunks_exact_mut(itemsize.max(1)) {
        let source = src.get(from..from.saturating_add(itemsize)).context("transpose: too few items")?;
        item.copy_from_slice(source);
        for ((at, &length), &stride) in at.iter_mut().zip(shape).zip(&strides).rev() {
            *at = at.saturating_add(1);
            from = from.saturating_add(stride);
            if *at < length {
                break;
            }
            *at = 0;
            from = from.saturating_sub(stride.saturating_mul(usize::try_from(length)?));
        }
    }
    Ok(dst)
}

impl Compression {
    /// Decodes up to `most` bytes, or exactly this many.
    fn decode(self, src: &[u8], most: usize, exact: bool, limits: &Limits) -> Result<Vec<u8>> {
        let (src, len) = match self {
            Self::Lz4 => {
                let (len, src) = src.split_first_chunk::<4>().context("too short")?;
                (src, Some(usize::try_from(u32::from_le_bytes(*len))?))
            }
            Self::Blosc if src.starts_with(&MAGIC) => return frame_bytes(src, most, exact, limits),
            Self::Blosc => (src, Some(ChunkRef::from_slice(src)?.nbytes())),
            _ => (src, exact.then_some(most)),
        };
        if let Some(len) = len {
            ensure!(len <= most && (!exact || len == most), "{len} bytes, expected {most}");
        }
        let mut dst = memory::zeroed(len.unwrap_or(most))?;
        let len = match self {
            Self::Blosc => {
                let dparams = DParams::default().limits(limits.clone());
                ChunkRef::from_slice(src)?.decompress_bytes_into(&mut dst, &dparams)?;
                dst.len()
            }
            Self::Gzip => gunzip(src, &mut dst)?,
            Self::Zstd => stream(CodecId::ZSTD, src, &mut dst)?,
            Self::Zlib => stream(CodecId::ZLIB, src, &mut dst)?,
            Self::Lz4 if dst.is_empty() => 0,
            Self::Lz4 => stream(CodecId::LZ4, src, &mut dst)?,
        };
        ensure!(!exact || len == most, "{len} bytes, expected {most}");
        dst.truncate(len);
        Ok(dst)
    }
}

/// Opens a frame in memory.
fn frame(src: &[u8], limits: &Limits) -> Result<SuperChunk> {
    let src: Arc<dyn ReadAt> = Arc::new(Bytes::from(memory::copied(src)?));
    Ok(SuperChunk::options().limits(limits.clone()).from_reader(src, "chunk")?)
}

/// The bytes of a frame, those of an array in C order: up to `most`, or exactly this many.
fn frame_bytes(src: &[u8], most: usize, exact: bool, limits: &Limits) -> Result<Vec<u8>> {
    let frame = frame(src, limits)?;
    let array = match NdArray::from_super_chunk(frame.clone()) {
        Ok(array) => Some(array),
        Err(error) if matches!(error.detail(), NdError::NotAnArray) => None,
        Err(error) => return Err(error.into()),
    };
    let len = array.as_ref().map_or(frame.nbytes(), NdArray::nbytes);
    ensure!(len <= most as u64 && (!exact || len == most as u64), "{len} bytes, expected {most}");
    match array {
        Some(array) => Ok(array.all().read_bytes()?),
        None => Ok(frame.read_bytes(0..len)?),
    }
}

/// The items of an array in a frame, in the byte order of `dtype`.
fn array_items(src: &[u8], shape: &[u64], dtype: &Dtype, limits: &Limits) -> Result<Vec<u8>> {
    let array = NdArray::from_super_chunk(frame(src, limits)?)?;
    let (have, want) = (array.dtype().as_str(), dtype.as_str());
    let fits = array.shape() == shape && array.itemsize() == dtype.itemsize();
    ensure!(fits, "an array of {have} {:?}, expected {want} {shape:?}", array.shape());
    let mut items = array.all().read_bytes()?;
    // Types that Blosc2 does not have are opaque.
    if have != want && !have.starts_with("|V") {
        let mut units = Vec::new();
        ensure!(swaps(array.dtype(), dtype, 0, &mut units), "items of {have}, expected {want}");
        for item in items.chunks_exact_mut(dtype.itemsize().max(1)) {
            units.iter().for_each(|unit| item.get_mut(unit.clone()).unwrap_or_default().reverse());
        }
    }
    Ok(items)
}

/// Adds the parts of an item that differ in their byte order. Returns whether the types differ in nothing else.
fn swaps(have: &Dtype, want: &Dtype, at: usize, units: &mut Vec<Range<usize>>) -> bool {
    match (have.kind(), want.kind()) {
        (DtypeKind::Struct(have), DtypeKind::Struct(want)) => {
            let same = |(have, want): (&Field, &Field)| {
                let placed = have.name == want.name && have.offset == want.offset;
                let whole = have.shape.is_empty() && want.shape.is_empty();
                placed && whole && swaps(&have.dtype, &want.dtype, at.saturating_add(have.offset), units)
            };
            have.len() == want.len() && have.iter().zip(want).all(same)
        }
        (
            DtypeKind::Simple { code, big_endian: have_order },
            DtypeKind::Simple { big_endian: want_order, .. },
        ) => {
            let size = want.itemsize();
            let unit = match code {
                'c' => size / 2,
                'U' => 4,
                _ => size,
            };
            if have_order != want_order {
                units.extend((0..size / unit.max(1)).map(|n| at + n * unit..at + (n + 1) * unit));
            }
            have.as_str().get(1..) == want.as_str().get(1..)
        }
        _ => false,
    }
}

/// Decodes a stream, which may be shorter than `dst`. Returns its length.
fn stream(id: CodecId, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    static PLUGINS: LazyLock<Plugins> = LazyLock::new(Plugins::builtin);
    let codec: &Arc<dyn Codec> = PLUGINS.codec(id)?;
    let mut decoder = codec.decoder(&CodecContext::new(0))?;
    match decoder.decode(src, dst) {
        Ok(()) => Ok(dst.len()),
        // Decode again with the known length, since the first call may have stopped before the checksum.
        Err(CodecError::WrongLength { got, .. }) if got < dst.len() => {
            decoder.decode(src, dst.get_mut(..got).unwrap_or_default())?;
            Ok(got)
        }
        Err(error) => Err(error.into()),
    }
}

fn gunzip(src: &[u8], dst: &mut [u8]) -> Result<usize> {
    let mut decoder = flate2::read::MultiGzDecoder::new(src);
    let mut len = 0_usize;
    loop {
        let mut beyond = [0];
        let rest = dst.get_mut(len..).filter(|rest| !rest.is_empty());
        let is_full = rest.is_none();
        match decoder.read(rest.unwrap_or(&mut beyond))? {
            0 => return Ok(len),
            _ if is_full => bail!("more bytes than expected"),
            more => len = len.saturating_add(more),
        }
    }
}

/// The extents of the chunks in a shard; `None` for missing ones.
#[derive(Clone, Debug)]
pub(super) struct Index(Vec<Option<(u64, u64)>>);

impl Index {
    /// The extent of the chunk at this position in a shard.
    pub(super) fn extent(&self, n: usize) -> Option<(u64, u64)> {
        self.0.get(n).copied().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Sharding {
    fn of(dtype: &Dtype, shard: &[u64], parameters: &Map<String, Json>, depth: usize) -> Result<Self> {
        let shape = lengths(parameters.get("chunk_shape")).context("chunk_shape")?;
        let fits = shape.len() == shard.len()
            && shape.iter().zip(shard).all(|(&inner, &outer)| inner > 0 && outer % inner == 0);
        ensure!(fits, "chunks {shape:?} do not fill shards {shard:?}");
        let list =
            |name: &str| parameters.get(name).and_then(Json::as_array).with_context(|| name.to_owned());
        let chain = Chain::inner(dtype, &shape, list("codecs")?, depth)?;
        let numbers = Dtype::parse("<u8")?;
        let counts: Vec<u64> =
            shard.iter().zip(&shape).map(|(outer, inner)| outer / inner).chain([2]).collect();
        let index_codecs = list("index_codecs")?;
        ensure!(!is_big_endian(index_codecs), "an index in big-endian numbers is not supported");
        let index = Chain::inner(&numbers, &counts, index_codecs, 0)?;
        ensure!(index.encoded_len(&counts, 8)?.is_some(), "an index that is compressed");
        let at_start = match parameters.get("index_location").and_then(Json::as_str) {
            Some("start") => true,
            Some("end") | None => false,
            Some(other) => bail!("index_location {other} is not known"),
        };
        Ok(Self { shape, chain, index, at_start })
    }

    /// How many chunks a shard of this shape has along each dimension.
    pub(super) fn counts(&self, shard: &[u64]) -> Vec<u64> {
        shard.iter().zip(&self.shape).map(|(outer, inner)| outer / (*inner).max(1)).collect()
    }

    /// Bytes of the index of a shard of this shape.
    pub(super) fn index_len(&self, shard: &[u64], limits: &Limits) -> Result<u64> {
        let counts: Vec<u64> = self.counts(shard).into_iter().chain([2]).collect();
        let len = self.index.encoded_len(&counts, 8)?.context("the index has no length")?;
        limits.check_memory("index of a shard, in bytes", len.saturating_mul(2))?;
        Ok(len)
    }

    /// Decodes the index of a shard of this shape.
    pub(super) fn index(&self, stored: &[u8], shard: &[u64], limits: &Limits) -> Result<Index> {
        let counts: Vec<u64> = self.counts(shard).into_iter().chain([2]).collect();
        let bytes = self.index.decode(stored, &counts, &[0; 8], 8, limits).context("index of a shard")?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let (pairs, _) = numbers.as_chunks::<2>();
        let extents =
            pairs.iter().map(|[start, len]| match (u64::from_le_bytes(*start), u64::from_le_bytes(*len)) {
                (u64::MAX, u64::MAX) => None,
                extent => Some(extent),
            });
        Ok(Index(memory::collect(extents)?))
    }

    /// Decodes a whole shard.
    fn decode(&self, stored: &[u8], shard: &[u64], fill: &[u8], limits: &Limits) -> Result<Vec<u8>> {
        let index_len = usize::try_from(self.index_len(shard, limits)?)?;
        let index = match self.at_start {
            true => stored.get(..index_len),
            false => stored.len().checked_sub(index_len).and_then(|at| stored.get(at..)),
        };
        let index = self.index(index.context("a shard that is shorter than its index")?, shard, limits)?;
        let itemsize = fill.len();
        let nbytes = product(shard).saturating_mul(itemsize as u64);
        limits.check_memory("chunk, in bytes", nbytes)?;
        let mut items = memory::zeroed(usize::try_from(nbytes)?)?;
        let whole = Region { start: &vec![0; shard.len()], shape: shard };
        let counts = self.counts(shard);
        for n in 0..index.len() {
            let coords = coordinates(n as u64, &counts);
            let start: Vec<u64> = coords.iter().zip(&self.shape).map(|(at, length)| at * length).collect();
            let inner = Region { start: &start, shape: &self.shape };
            match index.extent(n) {
                None => fill_shared(inner, whole, fill, &mut items)?,
                Some((at, len)) => {
                    let end = at.checked_add(len).and_then(|end| usize::try_from(end).ok());
                    let extent = usize::try_from(at).ok().zip(end).and_then(|(at, end)| stored.get(at..end));
                    let chunk = extent.context("a chunk outside of its shard")?;
                    let decoded = self.chain.decode(chunk, &self.shape, fill, itemsize, limits)?;
                    copy_shared(inner, &decoded, whole, &mut items, itemsize)?;
                }
            }
        }
        Ok(items)
    }
}

/// Lengths of dimensions.
pub(super) fn lengths(json: Option<&Json>) -> Result<Vec<u64>> {
    let list = json.and_then(Json::as_array).context("is missing")?;
    ensure!(list.len() <= 64, "{} dimensions are too many", list.len());
    let lengths = list.iter().map(|length| length.as_u64().filter(|length| i64::try_from(*length).is_ok()));
    lengths.collect::<Option<_>>().context("not a list of lengths")
}

/// The checksum CRC-32C (Castagnoli).
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
        std::array::from_fn(|n| {
            let first = u32::try_from(n).unwrap_or_default();
            (0..8).fold(first, |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 })
        })
    });
    let next = |sum: u32, byte: &u8| {
        let [low, ..] = (sum ^ u32::from(*byte)).to_le_bytes();
        TABLE.get(usize::from(low)).copied().unwrap_or_default() ^ sum >> 8
    };
    !bytes.iter().fold(!0, next)
}

#[cfg(test)]
mod tests {
    use b2_testkit::hostile;
    use serde_json::json;

    use super::*;

    fn chain(codecs: &Json, shape: &[u64]) -> Result<Chain> {
        Chain::version_3(&Dtype::parse("<i2").unwrap(), shape, codecs.as_array().unwrap())
    }

    #[test]
    fn checksums_are_those_of_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn chunks_of_our_own_codecs() {
        let limits = Limits::default();
        let items = [1_i16, -2, 3, 4, 5, 600].map(i16::to_le_bytes).concat();
        let array = |dtype: &str, items: &[u8]| {
            let builder = b2kit::ArrayBuilder::of_dtype([2, 3], Dtype::parse(dtype).unwrap());
            builder.to_bytes(b2kit::nd::source::reader(items)).unwrap()
        };
        let decode = |codecs: Json, stored: &[u8]| {
            chain(&codecs, &[2, 3])?.decode(stored, &[2, 3], &[0; 2], 2, &limits)
        };
        let own = json!([{"name": "b2kit.b2nd", "configuration": {}}]);
        let swapped = [1_i16, -2, 3, 4, 5, 600].map(i16::to_be_bytes).concat();
        for (dtype, stored) in [("<i2", &items), (">i2", &swapped), ("|V2", &items)] {
            assert_eq!(decode(own.clone(), &array(dtype, stored)).unwrap(), items, "{dtype}");
        }
        for (dtype, shape) in [("<u2", [2, 3]), ("<i2", [3, 2])] {
            let builder = b2kit::ArrayBuilder::of_dtype(shape, Dtype::parse(dtype).unwrap());
            let other = builder.to_bytes(b2kit::nd::source::reader(&items[..])).unwrap();
            decode(own.clone(), &other).unwrap_err();
        }
        // Structures of which all fields, or some, have another byte order.
        let records = |fields: &str| Dtype::parse(fields).unwrap();
        let want = records("[('a', '<i2'), ('b', '<c8'), ('c', '<U1')]");
        let stored: Vec<u8> = (0..14).collect();
        for (have, bytes) in [
            ("[('a', '>i2'), ('b', '>c8'), ('c', '>U1')]", [1, 0, 5, 4, 3, 2, 9, 8, 7, 6, 13, 12, 11, 10]),
            ("[('a', '<i2'), ('b', '>c8'), ('c', '<U1')]", [0, 1, 5, 4, 3, 2, 9, 8, 7, 6, 10, 11, 12, 13]),
        ] {
            let builder = b2kit::ArrayBuilder::of_dtype([1], records(have));
            let frame = builder.to_bytes(b2kit::nd::source::reader(&bytes[..])).unwrap();
            assert_eq!(array_items(&frame, &[1], &want, &limits).unwrap(), stored, "{have}");
            let others = [
                "[('a', '<i2'), ('z', '<c8'), ('c', '<U1')]",
                "[('a', '<i2'), ('b', '<f4', (2,)), ('c', '<U1')]",
            ];
            for other in others {
                array_items(&frame, &[1], &records(other), &limits).unwrap_err();
            }
        }
        let turned =
            json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "b2kit.b2nd"}]);
        let columns = b2kit::ArrayBuilder::of_dtype([3, 2], Dtype::parse("<i2").unwrap());
        let stored = [1_i16, 4, -2, 5, 3, 600].map(i16::to_le_bytes).concat();
        let columns = columns.to_bytes(b2kit::nd::source::reader(&stored[..]));
        assert_eq!(decode(turned, &columns.unwrap()).unwrap(), items);
        let chunk =
            b2kit::Chunk::compress_bytes(&items, &b2kit::Compression::new().itemsize(2).build().unwrap())
                .unwrap();
        for codec in ["b2kit.blosc2", "numcodecs.blosc2"] {
            for stored in [chunk.as_bytes(), &array("<i2", &items)] {
                assert_eq!(decode(json!(["bytes", codec]), stored).unwrap(), items, "{codec}");
                decode(json!(["bytes", codec]), &stored[..stored.len() - 1]).unwrap_err();
                assert!(
                    chain(&json!(["bytes", codec]), &[5])
                        .unwrap()
                        .decode(stored, &[5], &[0; 2], 2, &limits)
                        .is_err()
                );
            }
        }
    }

    #[test]
    fn transposed_items_return() {
        let codecs = json!([{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, "bytes"]);
        let shape = [2, 3, 4];
        // The item at [i, j, k] is stored at [k, i, j].
        let mut stored = vec![0; 48];
        for n in 0..24_usize {
            let (i, j, k) = (n / 12, n / 4 % 3, n % 4);
            stored[((k * 2 + i) * 3 + j) * 2] = n as u8;
        }
        let items =
            chain(&codecs, &shape).unwrap().decode(&stored, &shape, &[0; 2], 2, &Limits::default()).unwrap();
        assert_eq!(items, (0..24).flat_map(|n| [n, 0]).collect::<Vec<u8>>());
    }

    #[test]
    fn chains_that_cannot_be_are_refused() {
        for codecs in [
            json!([]),
            json!(["zstd"]),
            json!(["bytes", "bytes"]),
            json!(["bytes", {"name": "transpose", "configuration": {"order": [0, 1]}}]),
            json!([{"name": "transpose", "configuration": {"order": [0, 0]}}, "bytes"]),
            json!([{"name": "transpose", "configuration": {"order": [1]}}, "bytes"]),
            json!(["bytes", "lzma"]),
            json!(["bytes", 5]),
            json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": ["bytes"]}}]),
            json!([{"name": "sharding_indexed",
                    "configuration": {"chunk_shape": [3, 2], "codecs": ["bytes"], "index_codecs": ["bytes"]}}]),
            json!([{"name": "sharding_indexed",
                    "configuration": {"chunk_shape": [2, 2], "codecs": ["bytes"], "index_codecs": ["bytes", "zstd"]}}]),
        ] {
            chain(&codecs, &[4, 4]).unwrap_err();
        }
    }

    /// Any bytes give either an error or the expected number of items.
    #[test]
    fn damaged_chunks_are_errors() {
        let shard = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [2, 2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]);
        let mut rng = b2_testkit::Rng::new(3);
        let plain = vec![7; 32];
        let frame = |id: CodecId| {
            let codec = Plugins::builtin().codec(id).unwrap().clone();
            let mut out = vec![0; 200];
            let mut encoder = codec.encoder(&CodecContext::new(5)).unwrap();
            let b2kit::codecs::Encoded::Len(len) = encoder.encode(&plain, &mut out).unwrap() else {
                panic!()
            };
            out.truncate(len);
            out
        };
        for (codecs, stored) in [
            (json!(["bytes", "zstd"]), frame(CodecId::ZSTD)),
            (json!(["bytes", "numcodecs.zlib"]), frame(CodecId::ZLIB)),
            (json!(["bytes", "gzip"]), vec![31, 139, 8, 0, 0, 0, 0, 0]),
            (
                json!(["bytes", "blosc"]),
                b2kit::compress(&[7_u8; 32], &b2kit::Compression::zstd(5)).unwrap().into_bytes()[..].to_vec(),
            ),
            (json!(["bytes", "crc32c"]), [&plain[..], &crc32c(&plain).to_le_bytes()].concat()),
            (shard, vec![0; 100]),
        ] {
            let chain = chain(&codecs, &[4, 4]).unwrap();
            let decode = |bytes: &[u8]| chain.decode(bytes, &[4, 4], &[0; 2], 2, &Limits::default());
            if let Ok(items) = decode(&stored) {
                assert_eq!(items, plain, "{codecs}");
            }
            for _ in 0..300 {
                let mut damaged = stored.clone();
                (0..1 + rng.below(3)).for_each(|_| hostile::overwrite(&mut damaged, 4, &mut rng));
                damaged.truncate(1 + rng.below(damaged.len()));
                if let Ok(items) = decode(&damaged) {
                    assert_eq!(items.len(), 32, "{codecs}");
                }
            }
        }
    }
}
