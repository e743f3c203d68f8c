//! Decoding the filters of HDF5.
//!
//! Codecs come from Blosc2 and bzip2; everything else is implemented here. A decoder fills its destination exactly, reads its
//! stream to the end and compares the checksum if there is one; otherwise it fails.

mod bits;
mod bitshuffle;
pub(crate) mod blosc;
pub(crate) mod codecs;
mod lzf;
mod nbit;
mod scale_offset;
mod szip;
mod zfp;

use b2_codecs::{CodecContext, CodecError, CodecId};
use b2_core::{Control, Limits, memory};
use b2_filters::{Filter as _, FilterContext, Shuffle};
use bytes::Bytes;

use self::codecs::codec;

const GZIP: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SZIP: u16 = 4;
const NBIT: u16 = 5;
const SCALE_OFFSET: u16 = 6;
const BZIP2: u16 = 307;
const LZF: u16 = 32000;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const BITSHUFFLE: u16 = 32008;
const ZFP: u16 = 32013;
const ZSTD: u16 = 32015;
pub(crate) const BLOSC2: u16 = 32026;

/// Filters of a data set: HDF5 has no more.
const MAX_FILTERS: usize = 32;

/// Maximum growth of incompressible data in headers, in addition to an eighth of its size.
const ROOM: usize = 1024;

/// Limit of the sum of all intermediate results of a chunk: this many chunks, plus this many bytes.
const BETWEEN: (usize, usize) = (8, 16 << 20);

/// A filter of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// The number under which it is registered.
    pub id: u16,
    /// Its parameters.
    pub params: Vec<u32>,
    /// The name in the file, if it has one.
    name: Option<String>,
}

impl Filter {
    pub(crate) fn new(id: u16, name: Option<String>, params: Vec<u32>) -> Self {
        Self { id, params, name }
    }

    /// Returns the name in the file; of filters that are part of HDF5, which have none there, HDF5's own name.
    pub fn hdf5_name(&self) -> &str {
        match (self.name.as_deref(), self.id) {
            (Some(name), _) if !name.is_empty() => name,
            (_, GZIP) => "deflate",
            (_, SHUFFLE) => "shuffle",
            (_, FLETCHER32) => "fletcher32",
            (_, SZIP) => "szip",
            (_, NBIT) => "nbit",
            (_, SCALE_OFFSET) => "scaleoffset",
            _ => "",
        }
    }

    /// Returns a human-readable name.
    pub fn name(&self) -> String {
        match (known(self.id), &self.name) {
            (Some(name), _) if self.has_binary_scale() => format!("{name} (E-scale)"),
            (Some(name), _) => name.into(),
            (None, Some(name)) if !name.is_empty() => format!("{name} ({})", self.id),
            (None, _) => format!("filter {}", self.id),
        }
    }

    /// Whether data with this filter can be read.
    pub fn is_known(&self) -> bool {
        use b2_codecs::CodecId as Id;
        match self.id {
            GZIP => codec(Id::ZLIB).is_some(),
            ZSTD => codec(Id::ZSTD).is_some(),
            SCALE_OFFSET => !self.has_binary_scale(),
            SHUFFLE | FLETCHER32 | SZIP | NBIT | BZIP2 | LZF | BLOSC | LZ4 | BITSHUFFLE | ZFP | BLOSC2 => {
                true
            }
            _ => false,
        }
    }

    /// Returns the size of its output for an input of this size, if that does not depend on the content.
    fn len_made(&self, len: usize) -> Option<usize> {
        match self.id {
            SHUFFLE => Some(len),
            BITSHUFFLE if !self.is_compressed() => Some(len),
            FLETCHER32 => len.checked_add(4),
            _ => None,
        }
    }

    /// Returns the maximum size of its output for an input of this size.
    fn most_made(&self, len: usize) -> usize {
        self.len_made(len).unwrap_or_else(|| match self.id {
            // Blocks may be as short as a few bytes, each with a header.
            LZ4 | BITSHUFFLE => len.saturating_mul(8).saturating_add(ROOM),
            // Short dimensions are filled up to blocks of four items.
            ZFP => zfp::most_coded(&self.params).unwrap_or(0),
            _ => len.saturating_add(len / 8).saturating_add(ROOM),
        })
    }

    /// Whether bitshuffle is followed by a compression.
    fn is_compressed(&self) -> bool {
        self.params.get(4).is_some_and(|&compression| compression != 0)
    }

    fn wrong(&self) -> String {
        format!("{}: the data of a chunk does not fit", self.name())
    }

    /// Whether floats are scaled by powers of two, which HDF5 defines but does not implement.
    fn has_binary_scale(&self) -> bool {
        self.id == SCALE_OFFSET && self.params.first() == Some(&scale_offset::BINARY)
    }
}

fn known(id: u16) -> Option<&'static str> {
    Some(match id {
        GZIP => "gzip",
        SHUFFLE => "shuffle",
        FLETCHER32 => "fletcher32",
        SZIP => "szip",
        NBIT => "nbit",
        SCALE_OFFSET => "scaleoffset",
        BZIP2 => "bzip2",
        LZF => "lzf",
        BLOSC => "blosc",
        LZ4 => "lz4",
        BITSHUFFLE => "bitshuffle",
        ZFP => "zfp",
        ZSTD => "zstd",
        32017 => "sz",
        32024 => "sz3",
        BLOSC2 => "blosc2",
        _ => return None,
    })
}

/// How a chunk is decoded.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) filters: Vec<Filter>,
    /// The chunk shape, in items.
    pub(crate) chunk: Vec<u64>,
    /// Bytes of an item.
    pub(crate) itemsize: usize,
    pub(crate) limits: Limits,
}

impl Pipeline {
    /// Decodes a chunk, which fills `dst`, with the threads of `control`, which may cancel it. The filters in `mask` were not applied to it.
    ///
    /// # Errors
    /// Describes the problem, prefixed with the name of the filter.
    pub(crate) fn decode(
        &self,
        stored: Bytes,
        mask: u32,
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), String> {
        if self.filters.len() > MAX_FILTERS {
            return Err(format!("{} filters, more than the {MAX_FILTERS} that HDF5 has", self.filters.len()));
        }
        let applied = self.applied(mask);
        let Some((first, later)) = applied.split_first() else {
            return copy_whole(&stored, dst);
        };
        let mut left = dst.len().saturating_mul(BETWEEN.0).saturating_add(BETWEEN.1);
        let mut bytes = stored;
        for (n, filter) in later.iter().enumerate().rev() {
            control.advance(0).map_err(|error| error.to_string())?;
            let before = applied.get(..=n).unwrap_or_default();
            let made = self.undo_later(filter, before, dst.len(), &mut left, bytes, control)?;
            bytes = made.into();
        }
        self.undo(first, bytes, dst, control)
    }

    /// Reverses a filter that was applied to the output of the filters `before` it, for a chunk of `nbytes`. Subtracts its output from
    /// the bytes `left` between the filters.
    fn undo_later(
        &self,
        filter: &Filter,
        before: &[&Filter],
        nbytes: usize,
        left: &mut usize,
        src: Bytes,
        control: &Control,
    ) -> Result<Vec<u8>, String> {
        let too_long = || format!("{}: more bytes than the filters before it make", filter.name());
        let exact = before.iter().try_fold(nbytes, |len, filter| filter.len_made(len));
        let len = match exact {
            Some(len) => Some(len),
            None => self.decoded_len(filter, &src)?,
        };
        let most = before.iter().fold(nbytes, |len, filter| filter.most_made(len));
        if len.is_some_and(|len| len > most) {
            return Err(too_long());
        }
        if len.is_some_and(|len| len > *left) {
            return Err("filters: too many bytes between them, for the size of the chunk".into());
        }
        let room = len.unwrap_or(most).min(*left);
        self.limits.check_memory("chunk, in bytes", room as u64).map_err(|error| error.to_string())?;
        let mut made = memory::zeroed(room).map_err(|error| error.to_string())?;
        match (len, Stream::of(filter.id)) {
            (None, Some(stream)) => {
                let len = stream.decode_up_to(&src, &mut made).ok_or_else(|| filter.wrong())?;
                made.truncate(len);
            }
            _ => self.undo(filter, src, &mut made, control)?,
        }
        *left = left.saturating_sub(made.len());
        Ok(made)
    }

    /// Returns the decoded size of a filter, if it is known without decoding.
    fn decoded_len(&self, filter: &Filter, src: &Bytes) -> Result<Option<usize>, String> {
        let header = |at: usize, len: usize| src.get(at..at.checked_add(len)?);
        let big = |bytes: &[u8]| {
            bytes.iter().try_fold(0_usize, |n, &byte| n.checked_mul(256)?.checked_add(byte.into()))
        };
        let len = match filter.id {
            GZIP | ZSTD | BZIP2 | LZF => return Ok(None),
            SHUFFLE => Some(src.len()),
            FLETCHER32 => src.len().checked_sub(4),
            NBIT => nbit::decoded_len(&filter.params, src.len()),
            SCALE_OFFSET => scale_offset::decoded_len(&filter.params, src.len()),
            LZ4 => header(0, 8).and_then(big),
            BITSHUFFLE => match filter.is_compressed() {
                true => header(0, 8).and_then(big),
                false => Some(src.len()),
            },
            SZIP => szip::decoded_len(src),
            ZFP => zfp::decoded_len(&filter.params),
            BLOSC => Some(blosc::decoded_len(src)?),
            BLOSC2 => Some(blosc::frame_len(src.clone(), &self.limits)?),
            _ => return Err(format!("{}, which is not supported", filter.name())),
        };
        len.map(Some).ok_or_else(|| filter.wrong())
    }

    /// Returns the filters that were applied to a chunk.
    fn applied(&self, mask: u32) -> Vec<&Filter> {
        let skipped = |n: usize| n < 32 && mask >> n & 1 == 1;
        self.filters.iter().enumerate().filter(|(n, _)| !skipped(*n)).map(|(_, filter)| filter).collect()
    }

    /// Whether a chunk is stored as its items are. The filters in `mask` were not applied to it.
    pub(crate) fn is_plain(&self, mask: u32) -> bool {
        self.applied(mask).is_empty()
    }

    /// Whether a chunk is one of Blosc 1, and nothing else.
    pub(crate) fn is_blosc(&self, mask: u32) -> bool {
        matches!(self.applied(mask)[..], [only] if only.id == BLOSC)
    }

    /// Returns the frame of Blosc2 that a chunk is, if it is one, perhaps with a checksum around it.
    pub(crate) fn frame(&self, stored: &Bytes, mask: u32) -> Result<Option<Bytes>, String> {
        match &self.applied(mask)[..] {
            [only] if only.id == BLOSC2 => Ok(Some(stored.clone())),
            [first, sum] if (first.id, sum.id) == (BLOSC2, FLETCHER32) => {
                Ok(Some(stored.slice(..checked(stored)?.len())))
            }
            _ => Ok(None),
        }
    }

    /// Undoes one filter, which fills `dst`.
    fn undo(&self, filter: &Filter, src: Bytes, dst: &mut [u8], control: &Control) -> Result<(), String> {
        let params = &filter.params;
        let done = match filter.id {
            SHUFFLE => self.unshuffle(params, &src, dst),
            FLETCHER32 => return copy_whole(checked(&src)?, dst),
            GZIP | ZSTD | BZIP2 | LZF => Stream::of(filter.id).and_then(|stream| stream.decode(&src, dst)),
            LZ4 => bitshuffle::decode_lz4(&src, dst),
            BITSHUFFLE => bitshuffle::decode(params, &src, dst),
            SZIP => szip::decode(params, &src, dst),
            ZFP => zfp::decode(params, &src, dst),
            NBIT => nbit::decode(params, &src, dst),
            SCALE_OFFSET => scale_offset::decode(params, &src, dst),
            BLOSC => {
                let decoded = blosc::decode(&src, dst, &self.limits, control);
                return decoded.map_err(|what| format!("blosc: {what}"));
            }
            BLOSC2 => {
                let decoded =
                    blosc::decode_frame(src, (&self.chunk, self.itemsize), dst, &self.limits, control);
                return decoded.map_err(|what| format!("blosc2: {what}"));
            }
            _ => return Err(format!("{}, which is not supported", filter.name())),
        };
        done.ok_or_else(|| filter.wrong())
    }

    fn unshuffle(&self, params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
        let size = params.first().map_or(Some(self.itemsize), |&size| usize::try_from(size).ok());
        let size = size.filter(|&size| size > 0 && src.len() == dst.len())?;
        Shuffle.backward(&FilterContext::new(size), 0, src, dst).ok()
    }
}

/// A compression whose streams do not state the decoded length.
#[derive(Clone, Copy)]
enum Stream {
    Codec(CodecId),
    Bzip2,
    Lzf,
}

impl Stream {
    fn of(id: u16) -> Option<Self> {
        Some(match id {
            GZIP => Self::Codec(CodecId::ZLIB),
            ZSTD => Self::Codec(CodecId::ZSTD),
            BZIP2 => Self::Bzip2,
            LZF => Self::Lzf,
            _ => return None,
        })
    }

    /// Decodes a stream whose result fills `dst`.
    fn decode(self, src: &[u8], dst: &mut [u8]) -> Option<()> {
        match self {
            Self::Codec(id) => codec(id)?.decoder(&CodecContext::new(0)).ok()?.decode(src, dst).ok(),
            _ => (self.decode_up_to(src, dst)? == dst.len()).then_some(()),
        }
    }

    /// Decodes a stream whose result fits into `dst`. Returns its length.
    fn decode_up_to(self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        match self {
            Self::Codec(id) => {
                let mut decoder = codec(id)?.decoder(&CodecContext::new(0)).ok()?;
                match decoder.decode(src, dst) {
                    Ok(()) => Some(dst.len()),
                    // Decode again with the known length, since the first call may have stopped before the checksum.
                    Err(CodecError::WrongLength { got, .. }) => {
                        decoder.decode(src, dst.get_mut(..got)?).ok().map(|()| got)
                    }
                    Err(_) => None,
                }
            }
            Self::Bzip2 => bzip2(src, dst),
            Self::Lzf => lzf::decode(src, dst),
        }
    }
}

/// Decodes a stream of bzip2 to its end, where its checksum is. Returns the length of the result, which has to fit into `dst`.
fn bzip2(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    use std::io::Read;
    let mut decoder = bzip2::read::BzDecoder::new(src);
    let mut len = 0_usize;
    loop {
        let mut beyond = [0];
        let rest = dst.get_mut(len..).filter(|rest| !rest.is_empty());
        let is_full = rest.is_none();
        match decoder.read(rest.unwrap_or(&mut beyond)).ok()? {
            0 => return Some(len),
            _ if is_full => return None,
            more => len = len.checked_add(more)?,
        }
    }
}

fn copy_whole(src: &[u8], dst: &mut [u8]) -> Result<(), String> {
    if src.len() != dst.len() {
        return Err(format!("a chunk of {} bytes, expected {}", src.len(), dst.len()));
    }
    dst.copy_from_slice(src);
    Ok(())
}

/// Compares the checksum after the data, and returns the data.
fn checked(src: &[u8]) -> Result<&[u8], String> {
    let (data, sum) = src.split_last_chunk::<4>().ok_or("fletcher32: the checksum is missing")?;
    let (stored, found) = (u32::from_le_bytes(*sum), fletcher32(data));
    // HDF5 before 1.6.3 swapped the bytes of both halves; such files are still valid.
    let swapped = (found & 0x00FF_00FF) << 8 | found >> 8 & 0x00FF_00FF;
    if stored != found && stored != swapped {
        return Err("fletcher32: the data does not match its checksum".into());
    }
    Ok(data)
}

/// Fletcher's checksum of big-endian words of 16 bits.
fn fletcher32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (0_u32, 0_u32);
    let fold = |sum: u32| (sum & 0xFFFF).wrapping_add(sum >> 16);
    let (words, odd) = data.as_chunks::<2>();
    // As many words at a time as cannot overflow the sums.
    for words in words.chunks(360) {
        for word in words {
            low = low.wrapping_add(u16::from_be_bytes(*word).into());
            high = high.wrapping_add(low);
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [byte] = odd {
        low = low.wrapping_add(u32::from(*byte) << 8);
        high = high.wrapping_add(low);
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn checksums_are_those_of_hdf5() {
        assert_eq!(fletcher32(&[0, 1, 0, 2]), 0x0004_0003);
        assert_eq!(fletcher32(&[1, 2, 3]), 0x0504_0402);
        let data: Vec<u8> = (0..2000_u32).map(|n| (n * 7) as u8).collect();
        let mut stored = [&data[..], &fletcher32(&data).to_le_bytes()].concat();
        assert_eq!(checked(&stored).unwrap(), data);
        stored[1000] ^= 1;
        assert!(checked(&stored).is_err());
    }

    fn pipeline(filters: &[(u16, &[u32])], nbytes: u64) -> Pipeline {
        let filters = filters.iter().map(|(id, params)| Filter::new(*id, None, params.to_vec())).collect();
        Pipeline { filters, chunk: vec![nbytes], itemsize: 1, limits: Limits::default() }
    }

    fn decode(filters: &[(u16, &[u32])], stored: &[u8], nbytes: usize) -> Result<Vec<u8>, String> {
        let mut dst = vec![0; nbytes];
        let stored = Bytes::copy_from_slice(stored);
        pipeline(filters, nbytes as u64).decode(stored, 0, &mut dst, &Control::new().threads(1)).map(|()| dst)
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; plain.len() + plain.len() / 8 + 100];
        let mut encoder = codec(CodecId::ZLIB).unwrap().encoder(&CodecContext::new(6)).unwrap();
        let b2_codecs::Encoded::Len(len) = encoder.encode(plain, &mut stream).unwrap() else {
            panic!("no room")
        };
        stream.truncate(len);
        stream
    }

    fn bzip2_of(plain: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(9));
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn text() -> Vec<u8> {
        (0..300_u32).flat_map(|n| format!("{} ", n * n % 97).into_bytes()).collect()
    }

    #[test]
    fn flips_that_a_checksum_covers_are_errors() {
        let plain = text();
        for (id, stream) in [(GZIP, zlib(&plain)), (BZIP2, bzip2_of(&plain))] {
            let good = decode(&[(id, &[])], &stream, plain.len());
            assert_eq!(good.unwrap(), plain);
            for (bit, flipped) in b2_testkit::hostile::flips(&stream, 1) {
                // A bit without meaning, such as padding, may have any value.
                let found = decode(&[(id, &[])], &flipped, plain.len());
                assert!(found.as_ref().map_or(true, |found| *found == plain), "filter {id}, bit {bit}");
            }
        }
    }

    #[test]
    fn results_of_another_length_are_errors() {
        let plain = text();
        for (id, stream) in [(GZIP, zlib(&plain)), (BZIP2, bzip2_of(&plain))] {
            for len in [0, 1, plain.len() - 1, plain.len() + 1, plain.len() * 2] {
                decode(&[(id, &[])], &stream, len).unwrap_err();
            }
            for cut in [1, 4, stream.len() / 2, stream.len() - 1] {
                decode(&[(id, &[])], &stream[..stream.len() - cut], plain.len()).unwrap_err();
            }
        }
    }

    #[test]
    fn compressions_follow_each_other() {
        let plain = text();
        let stream = bzip2_of(&zlib(&zlib(&plain)));
        let sum = fletcher32(&stream).to_le_bytes();
        let stored = [&stream[..], &sum].concat();
        let filters: &[(u16, &[u32])] = &[(GZIP, &[]), (GZIP, &[]), (BZIP2, &[]), (FLETCHER32, &[])];
        assert_eq!(decode(filters, &stored, plain.len()).unwrap(), plain);
        // The first filter was not applied.
        let mut dst = vec![0; zlib(&plain).len()];
        let chunk = pipeline(filters, dst.len() as u64);
        chunk.decode(Bytes::from(stored), 1, &mut dst, &Control::new()).unwrap();
        assert_eq!(dst, zlib(&plain));
    }

    #[test]
    fn a_chunk_is_cancelled_between_its_filters() {
        let plain = text();
        let stored = Bytes::from(zlib(&zlib(&zlib(&plain))));
        let chunk = pipeline(&[(GZIP, &[][..]); 3], plain.len() as u64);
        let mut dst = vec![0; plain.len()];
        for after in 0..3 {
            let mut calls = 0;
            let control = Control::new().progress(move |_| {
                calls += 1;
                if calls > after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let control = control.begin(plain.len() as u64, 1).quiet();
            let result = chunk.decode(stored.clone(), 0, &mut dst, &control);
            // In the last filter but one, and the one before it.
            assert_eq!((result.is_err(), control.check().is_err()), (after < 2, after < 2), "{after}");
        }
        assert_eq!(dst, plain);
    }

    #[test]
    fn long_chains_are_bounded() {
        let many: Vec<(u16, &[u32])> = vec![(SHUFFLE, &[1]); 33];
        assert!(decode(&many, &[1; 10], 10).unwrap_err().contains("33 filters"));
        assert_eq!(decode(&many[..32], &[1; 10], 10).unwrap(), [1; 10]);
        // 31 filters that decode almost nothing to 8 MB.
        let plain = vec![0; 8 << 20];
        let mut filters = vec![(SHUFFLE, &[4][..]); 30];
        filters.push((GZIP, &[]));
        let error = decode(&filters, &zlib(&plain), plain.len()).unwrap_err();
        assert!(error.contains("too many bytes"), "{error}");
        // A stream between filters that is much longer than a chunk.
        let error = decode(&[(GZIP, &[]), (GZIP, &[])], &zlib(&plain), 100).unwrap_err();
        assert!(error.contains("gzip"), "{error}");
    }
}
