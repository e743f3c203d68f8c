//! Decoders on arbitrary bytes, and round trips through encoders.

use std::sync::Arc;

use b2_codecs::{Codec, CodecContext, CodecId, Encoded};

use crate::checks::{filled, same};
use crate::dice::{Dice, Params};
use crate::internals::loops;

/// Maximum uncompressed size of a stream that is decoded.
const MAX_PLAIN: usize = 1 << 16;

pub(crate) fn codec(id: CodecId) -> Arc<dyn Codec> {
    let all = b2_codecs::builtin().into_iter().chain(b2_zfp::codecs()).chain([Arc::new(b2_pco::Pco) as _]);
    all.into_iter().find(|codec| codec.id() == id).expect("a codec")
}

/// Decodes one stream with the loops of every instruction set. All must return the same bytes or the same error,
/// whatever the destination held before. Also decodes only the start of the stream, and with space after stream and
/// result, as in chunks.
///
/// The input holds flags, result length, parameter byte, item size, shape and dictionary, followed by the stream.
pub(crate) fn decode(id: CodecId, data: &[u8]) {
    let mut params = Params::new(data);
    let flags = params.u8();
    // Mostly short, to keep each run fast.
    let len = usize::from(params.u16()) % if flags & 8 != 0 { MAX_PLAIN } else { 600 };
    let meta = params.u8();
    let typesize = usize::from(params.u8()).max(1);
    let ndim = if flags & 2 != 0 { params.up_to(5) } else { 0 };
    let shape: Vec<u32> = (0..ndim).map(|_| u32::from(params.u8())).collect();
    // Choose a shape that fits its block, so that the codec gets past its first check.
    let len = match shape.iter().try_fold(typesize, |n, dim| n.checked_mul(*dim as usize)) {
        Some(n) if flags & 4 != 0 && ndim > 0 && n <= MAX_PLAIN => n,
        _ => len,
    };
    let dict_len = if flags & 1 != 0 { usize::from(params.u16()) } else { 0 };
    let dict = params.bytes(dict_len);
    let stream = params.rest();
    let cx = CodecContext::new(5)
        .meta(meta)
        .itemsize(typesize)
        .blockshape(&shape)
        .dict((flags & 1 != 0).then_some(dict));
    let codec = codec(id);
    let all = loops::available();
    let mut reference = None;
    // The portable loops run last, so that their result is the reference.
    for isa in all.iter().rev() {
        loops::force(Some(isa));
        let outcome = filled(len, |dst| {
            codec.decoder(&cx).and_then(|mut decoder| decoder.decode(stream, dst)).map_err(|error| match id {
                // The C library keeps literals in the unused part of the destination. Depending on what they overwrite,
                // it reports a stream that does not fit as malformed or as too long.
                CodecId::ZSTD => "zstd".to_owned(),
                _ => error.to_string(),
            })
        });
        match &reference {
            None => reference = Some(outcome),
            Some(expected) => same(expected, &outcome, isa),
        }
        // Other codecs do not have a loop for each instruction set.
        if !matches!(id, CodecId::BLOSCLZ | CodecId::LZ4) {
            break;
        }
    }
    let Some(whole) = reference else { return };
    let mut dice = Dice::of(data);
    for isa in [all[0], all[all.len() - 1]] {
        loops::force(Some(isa));
        let part = dice.below(len + 1);
        let start = filled(part, |dst| codec.decoder(&cx)?.decode_start(stream, dst, len));
        if let Ok(whole) = &whole {
            let start = start.expect("the start of a stream that decodes");
            assert!(start == whole[..part], "the first {part} of {len} bytes are others");
        }
        // Bytes after the stream must not matter: other bytes, or a copy of the stream.
        let mut longer = stream.to_vec();
        match dice.below(3) {
            0 => {}
            1 => longer.resize(stream.len() + dice.below(200), dice.below(256) as u8),
            _ => longer.extend_from_slice(stream),
        }
        let mut roomy = vec![dice.below(256) as u8; len + dice.below(200)];
        let result = codec
            .decoder(&cx)
            .and_then(|mut decoder| decoder.decode_with_room(&longer, stream.len(), &mut roomy, len));
        assert!(result.is_ok() == whole.is_ok(), "{isa}: with room {result:?}");
        if let Ok(whole) = &whole {
            assert!(roomy[..len] == **whole, "{isa}: other bytes with room");
        }
    }
    loops::force(None);
}

/// Checks that an encoder's output decodes to its input, stays inside the output buffer, and is the same on a second
/// run.
pub(crate) fn roundtrip(data: &[u8]) {
    let codecs = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    let mut params = Params::new(data);
    let id = codecs[params.up_to(codecs.len() - 1)];
    let clevel = params.u8() % 10;
    let typesize = usize::from(params.u8()).max(1);
    let flags = params.u8();
    let room = params.u16();
    let dict_len = if flags & 1 != 0 && id != CodecId::BLOSCLZ && id != CodecId::ZLIB {
        usize::from(params.u16() % 512)
    } else {
        0
    };
    let dict = params.bytes(dict_len);
    // Repeat short inputs, because encoders look for repetition.
    let repeats = usize::from(params.u8() % 8);
    let seed = params.rest();
    let mut src = seed.to_vec();
    for k in 0..repeats {
        src.extend_from_slice(&seed[..seed.len() - (k * 7) % (seed.len() / 2 + 1)]);
    }
    let cx = CodecContext::new(clevel).itemsize(typesize);
    let cx = cx.dict((dict_len > 0 && !dict.is_empty()).then_some(dict));
    let codec = codec(id);
    let room = match flags >> 1 & 3 {
        0 => src.len() + src.len() / 200 + 64,
        1 => src.len(),
        2 => src.len().saturating_sub(1),
        _ => usize::from(room) % (src.len() + 1),
    };
    let mut encoder = match codec.encoder(&cx) {
        Ok(encoder) => encoder,
        // The codec does not accept the dictionary.
        Err(_) => return,
    };
    let mut len = None;
    let encoded = filled(room, |dst| {
        let written = match encoder.encode(&src, dst) {
            Ok(Encoded::Len(n)) => n,
            Ok(Encoded::TooBig) => usize::MAX,
            Err(error) => return Err(error),
        };
        assert!(*len.get_or_insert(written) == written, "another length the second time");
        if written != usize::MAX {
            // Ignore what the encoder left after its output.
            dst[written..].fill(0);
        } else {
            dst.fill(0);
        }
        Ok(())
    })
    .expect("only lack of room keeps an encoder from its work");
    let Some(len @ 0..usize::MAX) = len else { return };
    for isa in loops::available() {
        loops::force(Some(isa));
        let plain = filled(src.len(), |dst| codec.decoder(&cx)?.decode(&encoded[..len], dst));
        assert!(plain.as_deref() == Ok(&src[..]), "{id:?} level {clevel} does not come back");
    }
    loops::force(None);
}
