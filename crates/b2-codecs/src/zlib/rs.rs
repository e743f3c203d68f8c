//! zlib through `zlib-rs`: one RFC 1950 stream per Blosc stream, with reused state.
//!
//! With the feature `libdeflate`, that library decodes whole streams, and encodes streams that are searched for repeats throughout. It
//! needs all input and all output in one call, so the start of a stream and streams of several parts remain with `zlib-rs`,
//! and so do malformed streams, whose faults it reports exactly.
//!
//! The library only gets data in which a search for repeats is useful. Data that the [probe](crate::probe) classifies
//! as noise, as uneven values without repeats, or as a single byte value is written by [`deflate`](super::deflate):
//! equally small, and many times faster.

use super::deflate::BitWriter;
use super::{PROPERTIES, level, malformed, wrong_length};
use crate::probe::{Prober, SEGMENT, StreamKind};
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use b2_core::OutOfMemory;
use b2_core::Pooled;
#[cfg(feature = "libdeflate")]
use b2_core::memory::sized;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{UnwindSafe, catch_unwind};
use zlib_rs::adler32::adler32;
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

/// A window of 32 KiB, the maximum, which C uses as well.
const WINDOW_BITS: u8 = 15;

/// The zlib codec over the `zlib-rs` crate (feature `zlib-rs`). The compression level is the clevel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zlib;

/// The encoder state.
struct Compressor {
    /// Writes raw deflate streams at `level`.
    deflate: Deflate,
    /// Writes whole streams, at levels where it is faster.
    #[cfg(feature = "libdeflate")]
    whole: Option<libdeflater::Compressor>,
    level: u8,
    prober: Prober,
    parts: Vec<StreamPart>,
}

thread_local! {
    static COMPRESSORS: RefCell<Vec<Compressor>> = const { RefCell::new(Vec::new()) };
    static INFLATES: RefCell<Vec<Inflate>> = const { RefCell::new(Vec::new()) };
    #[cfg(feature = "libdeflate")]
    static WHOLE_INFLATES: RefCell<Vec<WholeInflate>> = const { RefCell::new(Vec::new()) };
}

impl Codec for Zlib {
    fn id(&self) -> CodecId {
        CodecId::ZLIB
    }
    fn name(&self) -> &str {
        "zlib"
    }
    fn properties(&self) -> CodecProperties {
        PROPERTIES
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        cx.refuse_dict(self.id())?;
        let level = level(cx);
        let make = || {
            let deflate = deflate(level)?;
            Ok::<_, CodecError>(Compressor {
                deflate,
                #[cfg(feature = "libdeflate")]
                whole: whole_deflate(level)?,
                level,
                prober: Prober::new()?,
                parts: Vec::new(),
            })
        };
        Ok(Box::new(ZlibEncoder(Pooled::take(&COMPRESSORS, |state| state.level == level, make)?)))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        cx.refuse_dict(self.id())?;
        Ok(Box::new(ZlibDecoder {
            #[cfg(feature = "libdeflate")]
            whole: Pooled::take(&WHOLE_INFLATES, |_| true, WholeInflate::new)?,
            inflate: None,
        }))
    }
}

fn deflate(level: u8) -> Result<Deflate, CodecError> {
    or_out_of_memory(|| Deflate::new(i32::from(level), false, WINDOW_BITS))
}

/// The levels at which libdeflate writes smaller streams in less time than `zlib-rs`. At level 1 it is slower; from
/// level 8 on its streams are up to 1 % larger.
#[cfg(feature = "libdeflate")]
const WHOLE_LEVELS: std::ops::RangeInclusive<u8> = 2..=7;

#[cfg(feature = "libdeflate")]
fn whole_deflate(level: u8) -> Result<Option<libdeflater::Compressor>, CodecError> {
    if !WHOLE_LEVELS.contains(&level) {
        return Ok(None);
    }
    let level = libdeflater::CompressionLvl::new(i32::from(level)).unwrap_or_default();
    or_out_of_memory(move || Some(libdeflater::Compressor::new(level)))
}

/// Creates a state of the library, which panics if there is no memory for it.
fn or_out_of_memory<T>(make: impl FnOnce() -> T + UnwindSafe) -> Result<T, CodecError> {
    catch_unwind(make).map_err(|_| OutOfMemory::new(STATE_LEN).into())
}

/// Approximate maximum size of a state, in bytes.
const STATE_LEN: u64 = 400 << 10;

struct ZlibEncoder(Pooled<Compressor>);

impl Encoder for ZlibEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let state = &mut *self.0;
        if state.plan(src) {
            return Ok(Encoded::TooBig);
        }
        #[cfg(feature = "libdeflate")]
        if let (Some(whole), [StreamPart { way: Way::Search, .. }]) = (&mut state.whole, &state.parts[..]) {
            return Ok(whole.zlib_compress(src, dst).map_or(Encoded::TooBig, Encoded::Len));
        }
        match state.write(src, dst)? {
            Some(len) => Ok(Encoded::Len(len)),
            None => {
                // A reset does not clear all of the library's buffer after an unfinished stream.
                state.deflate = deflate(state.level)?;
                Ok(Encoded::TooBig)
            }
        }
    }
}

/// A range of the stream that is written in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StreamPart {
    way: Way,
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the library, with a search for repeats.
    Search,
    /// As literals only.
    Literals,
    /// As a run of one byte value.
    Run,
}

/// Shorter parts of other kinds are passed to the library, which has to restart after each of them.
const MIN_SKIPPED: usize = 2 * SEGMENT;
/// Bytes per block of literals, which share one Huffman code.
const LITERAL_BLOCK: usize = 32 << 10;
/// Stream headers: deflate with a window of 32 KiB. The other bits encode the level and a check value.
const HEAD: [[u8; 2]; 4] = [[0x78, 0x01], [0x78, 0x5e], [0x78, 0x9c], [0x78, 0xda]];

impl Compressor {
    /// Divides `src` into parts, at least one. Returns whether all of it is noise.
    fn plan(&mut self, src: &[u8]) -> bool {
        let parts = &mut self.parts;
        parts.clear();
        let (mut start, mut all_noise) = (0, true);
        self.prober.segments(src, |kind| {
            all_noise &= kind == StreamKind::Noise;
            let end = (start + SEGMENT).min(src.len());
            let way = match kind {
                StreamKind::Noise | StreamKind::Uneven => Way::Literals,
                StreamKind::Constant => Way::Run,
                StreamKind::Long | StreamKind::Few | StreamKind::Mixed => Way::Search,
            };
            push(parts, way, start..end);
            start = end;
        });
        if start < src.len() || parts.is_empty() {
            all_noise = false;
            push(parts, Way::Search, start..src.len());
        }
        settle(parts);
        all_noise
    }

    /// Writes the planned parts. Returns `None` if they do not fit.
    fn write(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, CodecError> {
        let head = HEAD[match self.level {
            0 | 1 => 0,
            2..=5 => 1,
            6 => 2,
            _ => 3,
        }];
        let Some((to, _)) = dst.split_first_chunk_mut() else { return Ok(None) };
        *to = head;
        let mut len = head.len();
        for (n, part) in self.parts.iter().enumerate() {
            let last = n + 1 == self.parts.len();
            let data = &src[part.range.clone()];
            let end = match part.way {
                Way::Search => search(&mut self.deflate, data, dst, len, last)?,
                Way::Literals => literals(data, dst, len, last),
                Way::Run => run(data, dst, len, last),
            };
            match end {
                Some(end) => len = end,
                None => return Ok(None),
            }
        }
        let Some((to, _)) = dst[len..].split_first_chunk_mut() else { return Ok(None) };
        *to = adler32(1, src).to_be_bytes();
        Ok(Some(len + to.len()))
    }
}

/// Appends a part. Adjacent parts of the same kind are merged, and short parts of other kinds become part of a
/// neighbouring search.
fn push(parts: &mut Vec<StreamPart>, way: Way, range: Range<usize>) {
    match &mut parts[..] {
        [.., last] if last.way == way => last.range.end = range.end,
        // The last part is short, and the one before it, if any, is not a search.
        [.., last] if way == Way::Search && last.range.len() < MIN_SKIPPED => {
            *last = StreamPart { way, range: last.range.start..range.end };
            join(parts);
        }
        _ => {
            settle(parts);
            parts.push(StreamPart { way, range });
        }
    }
}

/// Merges a short last part into a search before it.
fn settle(parts: &mut Vec<StreamPart>) {
    if let [.., before, last] = &mut parts[..]
        && before.way == Way::Search
        && last.way != Way::Search
        && last.range.len() < MIN_SKIPPED
    {
        before.range.end = last.range.end;
        parts.pop();
    }
}

/// Merges the last two parts if both are searches.
fn join(parts: &mut Vec<StreamPart>) {
    if let [.., before, last] = &mut parts[..]
        && before.way == Way::Search
        && last.way == Way::Search
    {
        before.range.end = last.range.end;
        parts.pop();
    }
}

/// Appends `data` with the library, starting and ending at a byte boundary. Returns its end in `dst`.
fn search(
    deflate: &mut Deflate,
    data: &[u8],
    dst: &mut [u8],
    len: usize,
    last: bool,
) -> Result<Option<usize>, CodecError> {
    deflate.reset();
    let flush = if last { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
    let room = dst.len() - len;
    match deflate.compress(data, &mut dst[len..], flush) {
        Ok(status) => {
            let written = length(deflate.total_out());
            // The library takes at most 4 GiB per call. If a flush fills the buffer, it may be incomplete.
            let all = deflate.total_in() == data.len() as u64;
            let done = if last { status == Status::StreamEnd } else { written < room };
            Ok((all && done).then_some(len + written))
        }
        Err(error) => {
            Err(CodecError::Backend { codec: CodecId::ZLIB, message: format!("deflate: {error:?}") })
        }
    }
}

/// Appends `data` as literals, starting and ending at a byte boundary. Returns its end in `dst`.
fn literals(data: &[u8], dst: &mut [u8], len: usize, last: bool) -> Option<usize> {
    let mut out = BitWriter::new(dst, len);
    let mut blocks = data.chunks(LITERAL_BLOCK).peekable();
    while let Some(block) = blocks.next() {
        out.literals(block, last && blocks.peek().is_none())?;
    }
    if !last {
        out.align()?;
    }
    out.finish()
}

/// Appends `data`, which consists of a few runs, starting and ending at a byte boundary. Returns its end in `dst`.
fn run(data: &[u8], dst: &mut [u8], len: usize, last: bool) -> Option<usize> {
    let mut out = BitWriter::new(dst, len);
    let mut runs = data.chunk_by(|a, b| a == b).peekable();
    while let Some(run) = runs.next() {
        out.run(run[0], run.len(), last && runs.peek().is_none())?;
    }
    if !last {
        out.align()?;
    }
    out.finish()
}

/// Converts a byte count of the library.
fn length(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Decodes whole streams with libdeflate.
///
/// The last 25 bytes of its input, it decodes with checks for each byte. If they encode long repeats, they stand for up to
/// 24 KiB, which takes as long as all the rest. So streams that seem to end like that are decoded from a copy with padding.
#[cfg(feature = "libdeflate")]
struct WholeInflate {
    library: libdeflater::Decompressor,
    padded: Vec<u8>,
}

#[cfg(feature = "libdeflate")]
impl WholeInflate {
    const PADDING: [u8; 32] = [0xff; 32];
    /// Copying longer streams takes as long as it gains.
    const MAX_COPIED: usize = 256 << 10;

    fn new() -> Result<Self, CodecError> {
        Ok(Self { library: or_out_of_memory(libdeflater::Decompressor::new)?, padded: Vec::new() })
    }

    /// Returns whether `src` is a stream of `dst.len()` bytes.
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> bool {
        let len = src.len();
        if len <= Self::MAX_COPIED
            && (len < dst.len() / 16 || ends_in_repeats(src))
            && let Ok(padded) = sized(&mut self.padded, len + Self::PADDING.len())
        {
            padded[..len].copy_from_slice(src);
            padded[len..].copy_from_slice(&Self::PADDING);
            if self.library.zlib_decompress(padded, dst) != Ok(dst.len()) {
                return false;
            }
            // No checksum ends in two bytes of the padding, since its halves are below 65521, but it may end in one.
            let [start @ .., last] = libdeflater::adler32(dst).to_be_bytes();
            if last != Self::PADDING[0] || !src.ends_with(&start) {
                return true;
            }
        }
        self.library.zlib_decompress(src, dst) == Ok(dst.len())
    }
}

/// Returns whether the codes near the end of a stream seem to repeat, as those of one long repeat do.
#[cfg(feature = "libdeflate")]
fn ends_in_repeats(src: &[u8]) -> bool {
    // After these bytes come the rest of the codes, and the checksum.
    let Some(codes) = src.len().checked_sub(28).and_then(|start| src[start..].first_chunk()) else {
        return false;
    };
    let codes = u128::from_le_bytes(*codes);
    // `n` bits are the period of `n` bytes, or of fewer.
    (1..=8).any(|n| codes >> (8 * n) == codes & (u128::MAX >> (8 * n)))
}

struct ZlibDecoder {
    #[cfg(feature = "libdeflate")]
    whole: Pooled<WholeInflate>,
    /// Created on first use.
    inflate: Option<Pooled<Inflate>>,
}

impl ZlibDecoder {
    /// Returns a state of `zlib-rs` at the start of a stream.
    fn inflate(&mut self) -> Result<&mut Inflate, CodecError> {
        let inflate = match self.inflate.take() {
            Some(inflate) => inflate,
            None => {
                Pooled::take(&INFLATES, |_| true, || or_out_of_memory(|| Inflate::new(true, WINDOW_BITS)))?
            }
        };
        let inflate = self.inflate.insert(inflate);
        inflate.reset(true);
        Ok(inflate)
    }
}

impl Decoder for ZlibDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        #[cfg(feature = "libdeflate")]
        if self.whole.decode(src, dst) {
            return Ok(());
        }
        let state = self.inflate()?;
        let status = state.decompress(src, dst, InflateFlush::Finish);
        let (read, written) = (length(state.total_in()), length(state.total_out()));
        match status {
            // The library has checked the Adler-32. Bytes after the end of the stream are ignored, as in C.
            Ok(Status::StreamEnd) if written == dst.len() => Ok(()),
            Ok(Status::StreamEnd) => Err(wrong_length(written, dst)),
            Ok(_) if read < src.len() => Err(wrong_length(written.saturating_add(1), dst)),
            Ok(_) => Err(malformed(read, "stream is truncated")),
            Err(_) => Err(malformed(read, state.error_message().unwrap_or("not a zlib stream"))),
        }
    }

    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        let state = self.inflate()?;
        let status = state.decompress(src, dst, InflateFlush::NoFlush);
        let (read, written) = (length(state.total_in()), length(state.total_out()));
        match status {
            _ if written == dst.len() => Ok(()),
            Ok(Status::StreamEnd) => Err(wrong_length(written, dst)),
            Ok(_) => Err(malformed(read, "stream is truncated")),
            Err(_) => Err(malformed(read, state.error_message().unwrap_or("not a zlib stream"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ways: &[(Way, usize)]) -> Vec<(Way, usize)> {
        let (mut parts, mut start) = (Vec::new(), 0);
        for &(way, nsegments) in ways {
            for _ in 0..nsegments {
                push(&mut parts, way, start..start + SEGMENT);
                start += SEGMENT;
            }
        }
        settle(&mut parts);
        let mut end = 0;
        for part in &parts {
            assert_eq!(part.range.start, end);
            end = part.range.end;
        }
        assert_eq!(end, start);
        parts.into_iter().map(|part| (part.way, part.range.len() / SEGMENT)).collect()
    }

    #[test]
    fn short_parts_are_joined() {
        use Way::{Literals as L, Run as R, Search as S};
        assert_eq!(parts(&[(S, 3)]), [(S, 3)]);
        assert_eq!(parts(&[(L, 3)]), [(L, 3)]);
        assert_eq!(parts(&[(L, 1)]), [(L, 1)]);
        assert_eq!(parts(&[(L, 1), (S, 1)]), [(S, 2)]);
        assert_eq!(parts(&[(S, 1), (R, 1)]), [(S, 2)]);
        assert_eq!(parts(&[(S, 1), (L, 1), (S, 1)]), [(S, 3)]);
        assert_eq!(parts(&[(S, 1), (L, 2), (S, 1)]), [(S, 1), (L, 2), (S, 1)]);
        assert_eq!(parts(&[(L, 2), (S, 1), (R, 1), (S, 2), (R, 4)]), [(L, 2), (S, 4), (R, 4)]);
        assert_eq!(parts(&[(L, 4), (R, 1), (S, 1)]), [(L, 4), (S, 2)]);
        assert_eq!(parts(&[(S, 1), (R, 1), (L, 3)]), [(S, 2), (L, 3)]);
    }

    /// Streams that end in repeats are decoded from a copy with padding, which must not stand for missing bytes.
    #[test]
    #[cfg(feature = "libdeflate")]
    fn padding_is_not_part_of_the_stream() {
        let mut inflate = WholeInflate::new().unwrap();
        let (mut copied, mut tempting) = (0, 0);
        for head in 0..600 {
            let noise = (0..head % 7 * 50).map(|i: u32| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8);
            let plain: Vec<u8> = noise.chain(std::iter::repeat_n((head % 256) as u8, 9_000)).collect();
            let mut stream = vec![0; 1_000];
            let len = libdeflater::Compressor::new(libdeflater::CompressionLvl::default())
                .zlib_compress(&plain, &mut stream)
                .unwrap();
            let mut decode = |src: &[u8]| {
                let mut got = vec![1; plain.len()];
                let mut decoder = Zlib.decoder(&CodecContext::new(0)).unwrap();
                let done = decoder.decode(src, &mut got).is_ok();
                assert_eq!(inflate.decode(src, &mut vec![2; plain.len()]), done);
                assert!(!done || got == plain);
                done
            };
            assert!((0..9).all(|more| decode(&stream[..len + more])), "{head}");
            assert!((1..9).all(|less| !decode(&stream[..len - less])), "{head}");
            tempting += usize::from(stream[len - 1] == WholeInflate::PADDING[0]);
            copied += usize::from(!inflate.padded.is_empty());
        }
        assert!(copied > 0 && tempting > 0, "{copied} {tempting}");
    }

    /// Streams with all kinds of parts, at sizes around those of segments and blocks.
    #[test]
    fn parts_decode() {
        let mut seed = 1_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 40) as usize
        };
        for round in 0..60 {
            let mut raw = Vec::new();
            for _ in 0..random() % 9 {
                let len =
                    [SEGMENT, 2 * SEGMENT, 4 * SEGMENT, 70_000][random() % 4] - [0, 0, 1, 300][random() % 4];
                match random() % 5 {
                    0 => raw.extend(std::iter::repeat_with(|| random() as u8).take(len)),
                    1 => raw
                        .extend(std::iter::repeat_with(|| (random() % 100 + random() % 100) as u8).take(len)),
                    2 => raw.extend(std::iter::repeat_n(random() as u8, len)),
                    3 => raw.extend((0..len).map(|i| (i % 100 + i / 300) as u8)),
                    _ => raw.extend(b"some words, ".iter().cycle().take(len)),
                }
            }
            for clevel in [1, 5, 9] {
                let mut dst = vec![0; raw.len() + 1_000];
                let mut encoder = Zlib.encoder(&CodecContext::new(clevel)).unwrap();
                let Encoded::Len(len) = encoder.encode(&raw, &mut dst).unwrap() else { continue };
                let mut decoder = Zlib.decoder(&CodecContext::new(0)).unwrap();
                let mut got = vec![1; raw.len()];
                decoder.decode(&dst[..len], &mut got).unwrap();
                assert!(got == raw, "{round}");
                for part in [1, raw.len() / 3, raw.len().saturating_sub(1)] {
                    let mut got = vec![1; part.min(raw.len())];
                    decoder.decode_start(&dst[..len], &mut got, raw.len()).unwrap();
                    assert!(got == raw[..got.len()]);
                }
                // With less room, the stream must be the same or too big.
                for room in [0, 1, 2, 5, len / 2, len - 1] {
                    assert_eq!(encoder.encode(&raw, &mut vec![0; room]).unwrap(), Encoded::TooBig, "{round}");
                }
            }
        }
    }
}
