//! Zstandard through the C library: one frame per Blosc stream, contexts and digested dictionaries reused.

use super::PROPERTIES;
use super::dict::{DICTS, Dict};
use crate::probe::{Prober, StreamKind};
use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
use b2_core::Pooled;
use b2_core::memory;
use std::cell::RefCell;
use std::sync::Arc;
use zstd::zstd_safe::{
    self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, Strategy, zstd_sys,
};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The zstd codec over the C library (feature `zstd-c`).
///
/// Dictionaries are digested at the level of the clevel, whereas C-Blosc2 always digests at level 1: higher clevels
/// give smaller streams and slower writing. Every reader can read them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zstd;

/// The library parameters of a clevel.
#[derive(Clone, Copy)]
struct Effort {
    /// C-Blosc2's level for the clevel; 22 is the maximum.
    level: i32,
    /// log2 of the hash table length and of the number of positions tried; 0 for the level's own.
    ///
    /// The levels' own tables are designed for long streams. For the streams of a chunk, which fit a cache, smaller
    /// tables find the same matches and are faster: 1.2 to 1.6 times at clevels 4 to 6 over all data sets, with sizes
    /// within 0.7 % on average.
    hash_log: u32,
    search_log: u32,
    /// How matches are chosen; `None` for the level's own, which depends on the length of the stream. For streams up to
    /// 16 KiB and 128 KiB, the levels around 9 and 11 search binary trees, which takes 1.5 to 3 times as long as a lazy
    /// search and saves 0.2 % on arrays, 1 to 3 % on text.
    strategy: Option<Strategy>,
    /// Whether probing the stream pays off. The fast levels skip noise quickly themselves.
    probe: bool,
}

impl Effort {
    fn of(clevel: u8) -> Self {
        let e = |level, hash_log, search_log, strategy, probe| Self {
            level,
            hash_log,
            search_log,
            strategy,
            probe,
        };
        let (lazy, lazy2) = (Some(Strategy::ZSTD_lazy), Some(Strategy::ZSTD_lazy2));
        match clevel {
            0 | 1 => e(1, 0, 0, None, false),
            2 => e(3, 0, 0, None, false),
            3 => e(5, 15, 0, None, true),
            4 => e(7, 16, 0, lazy, true),
            5 => e(9, 16, 4, lazy, true),
            6 => e(11, 16, 5, lazy2, true),
            7 => e(13, 0, 0, None, true),
            8 => e(15, 0, 5, None, true),
            _ => e(22, 0, 0, None, true),
        }
    }

    fn searches_lazily(&self) -> bool {
        matches!(self.strategy, Some(Strategy::ZSTD_lazy | Strategy::ZSTD_lazy2))
    }
}

/// The parameters set in a context.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    level: i32,
    hash_log: u32,
    search_log: u32,
    strategy: Option<Strategy>,
    /// The shortest repeat that is searched for, in bytes; 0 for the level's own.
    min_match: u32,
}

/// The encoder state: a context and its current parameters.
struct Compressor {
    context: CCtx<'static>,
    setting: Option<Setting>,
    prober: Prober,
}

thread_local! {
    static COMPRESSORS: RefCell<Vec<Compressor>> = const { RefCell::new(Vec::new()) };
    static DECOMPRESSORS: RefCell<Vec<Decompressor>> = const { RefCell::new(Vec::new()) };
}

impl Codec for Zstd {
    fn id(&self) -> CodecId {
        CodecId::ZSTD
    }
    fn name(&self) -> &str {
        "zstd"
    }
    fn properties(&self) -> CodecProperties {
        PROPERTIES
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        let effort = Effort::of(cx.level);
        let state = Pooled::take(
            &COMPRESSORS,
            |_| true,
            || {
                let context = CCtx::try_create().ok_or_else(|| backend("no memory for a context"))?;
                Ok::<_, CodecError>(Compressor { context, setting: None, prober: Prober::new()? })
            },
        )?;
        let dict = match cx.dict {
            Some(dict) => Some(DICTS.for_encoding(dict, effort.level).ok_or_else(bad_dict)?),
            None => None,
        };
        Ok(Box::new(ZstdEncoder { state, effort, dict }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        let state = Pooled::take(
            &DECOMPRESSORS,
            |_| true,
            || {
                let context = DCtx::try_create().ok_or_else(|| backend("no memory for a context"))?;
                Ok::<_, CodecError>(Decompressor { context, whole: Vec::new() })
            },
        )?;
        let dict = match cx.dict {
            Some(dict) => Some(DICTS.for_decoding(dict).ok_or_else(bad_dict)?),
            None => None,
        };
        Ok(Box::new(ZstdDecoder { state, dict }))
    }
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let total = sample_lens.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
        let Some(samples) = total.and_then(|total| samples.get(..total)) else {
            return Err(CodecError::Unsupported {
                codec: CodecId::ZSTD,
                what: "samples longer than their bytes",
            });
        };
        let mut dict = memory::list(max_len)?;
        // Training fails if there is too little to learn from, which is not an error.
        Ok(zstd_safe::train_from_buffer(&mut dict, samples, sample_lens).ok().map(|_| dict))
    }
}

struct ZstdEncoder {
    state: Pooled<Compressor>,
    effort: Effort,
    dict: Option<Arc<Dict>>,
}

impl Encoder for ZstdEncoder {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let state = &mut *self.state;
        let result = match self.dict.as_deref().and_then(Dict::encoding) {
            Some(dict) => state.context.compress_using_cdict(dst, src, dict),
            None => match state.setting_for(&self.effort, src) {
                Some(setting) => {
                    state.set(setting)?;
                    state.context.compress2(dst, src)
                }
                None => return Ok(Encoded::TooBig),
            },
        };
        match result {
            Ok(len) => Ok(Encoded::Len(len)),
            Err(code) if code == DST_TOO_SMALL => Ok(Encoded::TooBig),
            Err(code) => Err(failed(code)),
        }
    }
}

impl Compressor {
    /// Returns the parameters for `src`, or `None` if compression would not help.
    fn setting_for(&mut self, effort: &Effort, src: &[u8]) -> Option<Setting> {
        let Effort { level, search_log, strategy, .. } = *effort;
        // For streams above 512 KiB, one hash entry per eight bytes is enough.
        let hash_log = match effort.hash_log {
            0 => 0,
            log => log.max(src.len().max(1).ilog2().saturating_sub(3)).min(MAX_HASH_LOG),
        };
        let usual = Setting { level, hash_log, search_log, strategy, min_match: 0 };
        match if effort.probe { self.prober.stream(src) } else { StreamKind::Mixed } {
            StreamKind::Noise => None,
            // There are almost no repeats to find. The fastest level gives up on the search soon, and its entropy
            // coding is as good as that of other levels.
            StreamKind::Uneven => {
                Some(Setting { level: 1, hash_log: 0, search_log: 0, strategy: None, min_match: 0 })
            }
            // Finding the best of many long repeats is worth a search, which is short because each covers many bytes.
            StreamKind::Long => Some(Setting { search_log: 0, strategy: None, ..usual }),
            // Without the short repeats the stream has fewer parts: it is smaller, and faster both ways. The optimal
            // strategies weigh that themselves.
            StreamKind::Few if effort.searches_lazily() => Some(Setting { min_match: 6, ..usual }),
            StreamKind::Constant | StreamKind::Few | StreamKind::Mixed => Some(usual),
        }
    }

    fn set(&mut self, setting: Setting) -> Result<(), CodecError> {
        if self.setting == Some(setting) {
            return Ok(());
        }
        self.setting = None;
        let Setting { level, hash_log, search_log, strategy, min_match } = setting;
        // There is no other way to restore the strategy of a level. A session remains after a stream that did not fit.
        self.context.reset(ResetDirective::SessionAndParameters).map_err(failed)?;
        let parameters = [
            CParameter::CompressionLevel(level),
            CParameter::HashLog(hash_log),
            CParameter::SearchLog(search_log),
            CParameter::MinMatch(min_match),
        ];
        for parameter in parameters.into_iter().chain(strategy.map(CParameter::Strategy)) {
            self.context.set_parameter(parameter).map_err(failed)?;
        }
        self.setting = Some(setting);
        Ok(())
    }
}

/// Maximum log2 of the hash table length.
const MAX_HASH_LOG: u32 = 22;

/// The decoder state.
struct Decompressor {
    context: DCtx<'static>,
    /// Buffer for streams that are decoded in part.
    whole: Vec<u8>,
}

struct ZstdDecoder {
    state: Pooled<Decompressor>,
    dict: Option<Arc<Dict>>,
}

impl Decoder for ZstdDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        self.state.context.decode(src, dst, self.dict.as_deref())
    }

    /// The library decodes block by block, at most 128 KiB each, so only streams of several blocks can stop early.
    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        let Decompressor { context, whole } = &mut *self.state;
        if len >= 2 * BLOCK_MAX && dst.len() <= len / 2 && self.dict.is_none() {
            check_frame(src)?;
            if let Some(result) = context.decode_start(src, dst, len) {
                return result;
            }
        }
        let plain = memory::sized(whole, len)?;
        let result = context.decode(src, plain, self.dict.as_deref());
        dst.copy_from_slice(&plain[..dst.len()]);
        if len > MAX_CACHED_LEN {
            *whole = Vec::new();
        }
        result
    }
}

/// Maximum uncompressed length of a block.
const BLOCK_MAX: usize = 128 << 10;
/// Buffers above this size are freed after use, in bytes.
const MAX_CACHED_LEN: usize = 8 << 20;

/// Decoding with the library's context.
trait Decompress {
    fn decode(&mut self, src: &[u8], dst: &mut [u8], dict: Option<&Dict>) -> Result<(), CodecError>;
    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Option<Result<(), CodecError>>;
}

impl Decompress for DCtx<'static> {
    fn decode(&mut self, src: &[u8], dst: &mut [u8], dict: Option<&Dict>) -> Result<(), CodecError> {
        check_frame(src)?;
        // In single-shot mode `dst` is the window, so sizes announced in the frame do not cause allocations.
        let result = match dict.and_then(Dict::decoding) {
            Some(dict) => self.decompress_using_ddict(dst, src, dict),
            None => self.decompress(dst, src),
        };
        match result {
            Ok(len) if len == dst.len() => Ok(()),
            Ok(len) => Err(wrong_length(len, dst)),
            Err(code) if code == DST_TOO_SMALL => Err(wrong_length(dst.len().saturating_add(1), dst)),
            Err(code) => Err(failed(code)),
        }
    }

    /// Decodes the start of a frame of `len` bytes into `dst`. Returns `None` if the frame announces a window above
    /// `len`: it may be valid, but the library would allocate that much.
    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Option<Result<(), CodecError>> {
        let mut run = || {
            self.reset(ResetDirective::SessionOnly)?;
            self.set_parameter(DParameter::WindowLogMax(len.ilog2() + 1))?;
            let (mut input, mut output) = (InBuffer::around(src), OutBuffer::around(&mut *dst));
            while output.pos() < output.capacity() {
                let before = (input.pos(), output.pos());
                let left = self.decompress_stream(&mut output, &mut input)?;
                if left == 0 || before == (input.pos(), output.pos()) {
                    break;
                }
            }
            Ok(output.pos())
        };
        match run() {
            Ok(got) if got == dst.len() => Some(Ok(())),
            Ok(got) => Some(Err(wrong_length(got, dst))),
            Err(code) if code == WINDOW_TOO_LARGE => None,
            Err(code) => Some(Err(failed(code))),
        }
    }
}

/// Checks that the stream is exactly one frame. The library would also accept several, and skippable ones.
fn check_frame(src: &[u8]) -> Result<(), CodecError> {
    if !src.starts_with(&MAGIC) {
        return Err(malformed(0, "not a zstd frame"));
    }
    if frame_end(src) == Some(src.len()) {
        return Ok(());
    }
    match zstd_safe::find_frame_compressed_size(src) {
        Ok(len) if len == src.len() => Ok(()),
        Ok(len) => Err(malformed(len, "extra bytes after the frame")),
        Err(code) => Err(failed(code)),
    }
}

/// Returns where the frame at the start of `src` ends: the sum of the lengths in its descriptor and blocks. The library's
/// function takes a tenth of the time of decoding a short stream. Returns `None` if the library should decide.
fn frame_end(src: &[u8]) -> Option<usize> {
    let descriptor = *src.get(MAGIC.len())?;
    let single_segment = usize::from(descriptor >> 5 & 1);
    let window = 1 - single_segment;
    let dict_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = [single_segment, 2, 4, 8][usize::from(descriptor >> 6)];
    let checksum = usize::from(descriptor & 4);
    let mut at = MAGIC.len() + 1 + window + dict_id + content_size;
    loop {
        let [a, b, c] = *src.get(at..)?.first_chunk()?;
        let head = u32::from_le_bytes([a, b, c, 0]);
        let stored = match head >> 1 & 3 {
            1 => 1,
            3 => return None,
            _ => (head >> 3) as usize,
        };
        at = at.checked_add(3 + stored)?;
        if head & 1 == 1 {
            return at.checked_add(checksum);
        }
    }
}

/// zstd returns error codes as negated values.
const DST_TOO_SMALL: usize = (zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();
const WINDOW_TOO_LARGE: usize =
    (zstd_sys::ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge as usize).wrapping_neg();

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::ZSTD, offset, what }
}

#[cold]
fn wrong_length(got: usize, dst: &[u8]) -> CodecError {
    CodecError::WrongLength { codec: CodecId::ZSTD, got, expected: dst.len() }
}

#[cold]
fn backend(message: &str) -> CodecError {
    CodecError::Backend { codec: CodecId::ZSTD, message: message.to_owned() }
}

#[cold]
fn failed(code: usize) -> CodecError {
    backend(zstd_safe::get_error_name(code))
}

#[cold]
fn bad_dict() -> CodecError {
    backend("dictionary is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| b"abcdefgh"[((i * i / 7 + i / 1000) % 8) as usize]).collect()
    }

    /// Checks that parameters and data of one stream do not affect the next.
    #[test]
    fn streams_are_independent() {
        let noise: Vec<u8> =
            (0..70_000_u64).map(|i| (i.wrapping_mul(i ^ 0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
        let uneven: Vec<u8> = noise.iter().zip(&noise[7..]).map(|(a, b)| a / 4 + b / 4).collect();
        let raws = [text(70_000), uneven, noise[..20_000].repeat(3), text(300_000), text(10), noise];
        for clevel in [1, 3, 5, 8] {
            let alone = |raw: &[u8]| {
                // A new thread has no pooled state.
                std::thread::scope(|scope| scope.spawn(|| encode(clevel, &[raw]).remove(0)).join().unwrap())
            };
            let expected: Vec<_> = raws.iter().map(|raw| alone(raw)).collect();
            let order: Vec<_> = [0, 1, 2, 0, 3, 5, 4, 1, 3, 0, 5].to_vec();
            let got = encode(clevel, &order.iter().map(|&n| &raws[n][..]).collect::<Vec<_>>());
            for (n, got) in order.into_iter().zip(got) {
                assert!(got == expected[n], "{clevel} {n}");
            }
        }
    }

    /// A stream of another kind, with other parameters, follows one that did not fit.
    #[test]
    fn a_stream_that_does_not_fit_leaves_nothing_behind() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u8
        };
        let noise: Vec<u8> = (0..70_000).map(|_| next()).collect();
        let uneven: Vec<u8> = noise.iter().zip(&noise[7..]).map(|(a, b)| a / 4 + b / 4).collect();
        let words: Vec<u8> = noise.iter().flat_map(|&n| [n / 64, 100, n / 64, 3, 2, 1]).collect();
        let mixed = noise
            .chunks(8)
            .flat_map(|n| [n, &noise[usize::from(n[0]) % 100 * 8..][..8]].concat())
            .take(70_000);
        let kinds = [words, uneven, noise[..20_000].repeat(3), mixed.collect()];
        let found: Vec<_> = kinds.iter().map(|stream| Prober::new().unwrap().stream(stream)).collect();
        assert_eq!(found, [StreamKind::Few, StreamKind::Uneven, StreamKind::Long, StreamKind::Mixed]);
        for clevel in [3, 4, 5, 6, 9] {
            for (first, second) in [(0, 1), (1, 0), (2, 1), (1, 2), (0, 3), (3, 0)] {
                let mut dst = vec![0; encode(clevel, &[&kinds[first]])[0].len() - 10];
                let mut encoder = Zstd.encoder(&CodecContext::new(clevel)).unwrap();
                assert_eq!(encoder.encode(&kinds[first], &mut dst).unwrap(), Encoded::TooBig);
                let mut dst = vec![0; kinds[second].len() + 1_000];
                let Encoded::Len(len) = encoder.encode(&kinds[second], &mut dst).unwrap() else { panic!() };
                assert!(dst[..len] == encode(clevel, &[&kinds[second]])[0], "{clevel} {first} {second}");
            }
        }
    }

    fn encode(clevel: u8, raws: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut encoder = Zstd.encoder(&CodecContext::new(clevel)).unwrap();
        let encode = |raw: &&[u8]| {
            let mut dst = vec![0; raw.len() + 1_000];
            match encoder.encode(raw, &mut dst).unwrap() {
                Encoded::Len(len) => dst[..len].to_vec(),
                Encoded::TooBig => Vec::new(),
            }
        };
        raws.iter().map(encode).collect()
    }

    /// Frames with all parts that a frame may have.
    #[test]
    fn ends_of_frames() {
        let mut ends = 0;
        for len in [0, 1, 255, 256, 65_791, 65_792, 300_000] {
            for (checksum, content_size, window_log) in
                [(false, true, 0), (true, true, 0), (false, false, 0), (true, false, 17), (false, true, 17)]
            {
                for raw in [text(len), vec![7; len]] {
                    let mut context = CCtx::create();
                    context.set_parameter(CParameter::ChecksumFlag(checksum)).unwrap();
                    context.set_parameter(CParameter::ContentSizeFlag(content_size)).unwrap();
                    context.set_parameter(CParameter::WindowLog(window_log)).unwrap();
                    let mut frame = vec![0; len + 1_000];
                    let end = context.compress2(&mut frame[..], &raw).unwrap();
                    for more in [0, 1, 100] {
                        assert_eq!(
                            frame_end(&frame[..end + more]),
                            Some(end),
                            "{len} {checksum} {content_size}"
                        );
                        assert_eq!(check_frame(&frame[..end + more]).is_ok(), more == 0);
                    }
                    for cut in [0, 1, 4, 5, end / 2, end - 1] {
                        assert!(frame_end(&frame[..cut]) != Some(cut));
                        assert!(check_frame(&frame[..cut]).is_err());
                    }
                    ends += 1;
                }
            }
        }
        assert_eq!(ends, 70);
    }

    #[test]
    fn long_streams_are_decoded_in_part() {
        let raw = text(700_000);
        let stream = encode(5, &[&raw]).remove(0);
        let mut decoder = Zstd.decoder(&CodecContext::new(0)).unwrap();
        for part in [0, 1, 1_000, 128 << 10, (128 << 10) + 1, 350_000, 350_001, 699_999, 700_000] {
            let mut got = vec![1; part];
            decoder.decode_start(&stream, &mut got, raw.len()).unwrap();
            assert!(got == raw[..part], "{part}");
            let mut whole = vec![1; raw.len()];
            decoder.decode(&stream, &mut whole).unwrap();
            assert!(whole == raw);
        }
        // The announced length is too large, or the stream is truncated.
        assert!(decoder.decode_start(&stream, &mut vec![1; 700_001], 2_000_000).is_err());
        assert!(decoder.decode_start(&stream[..stream.len() / 4], &mut vec![1; 300_000], 700_000).is_err());
        // The window is larger than the stream.
        let mut context = CCtx::create();
        context.set_parameter(CParameter::WindowLog(24)).unwrap();
        context.set_parameter(CParameter::ContentSizeFlag(false)).unwrap();
        let mut dst = vec![0; 700_000];
        let mut output = OutBuffer::around(&mut dst[..]);
        context.compress_stream(&mut output, &mut InBuffer::around(&raw)).unwrap();
        while context.end_stream(&mut output).unwrap() > 0 {}
        let len = output.pos();
        let mut got = vec![1; 1_000];
        decoder.decode_start(&dst[..len], &mut got, raw.len()).unwrap();
        assert!(got == raw[..1_000]);
    }
}
