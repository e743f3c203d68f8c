//! Mutates chunks: the header, the table of block starts, the streams.

use b2_chunk::{CParams, Chunk, CodecId, Compression, FilterId, FilterSlot, SpecialKind, SplitMode};
use b2_testkit::hostile::{Number, Walk};

use super::{Rng, put, raw};

const FILTERS: [u8; 10] = [0, 1, 2, 3, 4, 32, 33, 34, 35, 36];

/// Mutates a chunk.
pub fn chunk(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.len() < 32 {
        *bytes = made(&[7; 100], rng).unwrap_or_default();
        return;
    }
    let mut streams = Vec::new();
    let numbers = Walk::numbers(bytes, |walk| {
        walk.chunk(0, None);
        streams = std::mem::take(&mut walk.streams);
    });
    // Where the streams start, if there are any.
    let data = streams.iter().map(|stream| stream.start).min().unwrap_or(32).min(bytes.len() - 1);
    match rng.below(14) {
        0..=7 if rng.one_in(5) => {
            let slot = rng.below(6);
            bytes[0x10 + slot] = *rng.pick(&FILTERS);
            // The codec format, the split bit, or the kind of special value.
            match rng.below(4) {
                0 => bytes[2] = bytes[2] & 0x1F | (rng.below(8) as u8) << 5,
                1 => bytes[2] ^= 0x10,
                2 => bytes[2] ^= 0x02,
                _ => bytes[0x1F] = bytes[0x1F] & 0x8F | (rng.below(6) as u8) << 4,
            }
        }
        0..=7 => Number::damage_one(&numbers, bytes, rng),
        8 | 9 => raw(bytes, data..usize::MAX, false),
        10 => {
            // Set sizes that are consistent with each other, but not with the streams.
            let blocksize = 1 + rng.below(4096) as u32;
            let nbytes = blocksize * (1 + rng.below(5) as u32) + rng.below(7) as u32;
            put(bytes, 4, &nbytes.to_le_bytes());
            put(bytes, 8, &blocksize.to_le_bytes());
        }
        11 => {
            let keep = rng.below(bytes.len());
            bytes.truncate(keep.max(16));
        }
        _ => {
            if let Some(made) = made(&bytes[data..], rng) {
                *bytes = made;
            }
        }
    }
    if !rng.one_in(6) {
        let len = bytes.len() as u32;
        put(bytes, 12, &len.to_le_bytes());
    }
}

/// Compresses data like `plain` into a chunk, with parameters of all kinds.
pub(crate) fn made(plain: &[u8], dice: &mut Rng) -> Option<Vec<u8>> {
    let typesize = *dice.pick(&[1, 2, 3, 4, 4, 8, 8, 16, 17, 255]);
    let mut data = plain.repeat(1 + dice.below(1 + 6000 / plain.len().max(1)));
    if dice.one_in(2) {
        data = data.iter().enumerate().map(|(i, byte)| byte & 0x0F ^ (i / 64) as u8).collect();
    }
    if dice.one_in(2) {
        data.truncate(data.len() / typesize * typesize);
    }
    if dice.one_in(12) {
        let kind =
            *dice.pick(&[SpecialKind::Zeros, SpecialKind::NaN, SpecialKind::Value, SpecialKind::Uninit]);
        let value = if kind == SpecialKind::Value { &[1, 2, 3, 4][..] } else { &[] };
        let nbytes = 8 * dice.below(4000);
        let made = Chunk::special(kind, value, nbytes, 4, 64 * dice.below(9));
        return made.ok().map(|chunk| chunk.into_bytes().to_vec());
    }
    let cparams = parameters(typesize, dice)?;
    let made = if dice.one_in(8) {
        let parts: Vec<&[u8]> = data.chunks(1 + dice.below(500)).take(40).collect();
        Chunk::compress_vl(&parts, &cparams)
    } else {
        Chunk::compress_bytes(&data, &cparams)
    };
    made.ok().map(|chunk| chunk.into_bytes().to_vec())
}

/// Returns arbitrary compression parameters that this library supports.
pub(crate) fn parameters(typesize: usize, dice: &mut Rng) -> Option<CParams> {
    let codec = *dice.pick(&[CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD]);
    let filters: Vec<FilterSlot> = (0..dice.below(4))
        .map(|_| {
            let id = *dice.pick(&[
                FilterId::SHUFFLE,
                FilterId::SHUFFLE,
                FilterId::BITSHUFFLE,
                FilterId::DELTA,
                FilterId::BYTEDELTA,
                FilterId::TRUNC_PREC,
            ]);
            let meta = match id {
                FilterId::BYTEDELTA => typesize as u8,
                FilterId::TRUNC_PREC => 10,
                _ => 0,
            };
            FilterSlot::new(id, meta)
        })
        .collect();
    let split = *dice.pick(&[SplitMode::Always, SplitMode::Never, SplitMode::Auto, SplitMode::ForwardCompat]);
    let blocksize = *dice.pick(&[0, 0, 64, 256, 1000, 1024]);
    Compression::new()
        .itemsize(typesize)
        .codec(codec)
        .level(*dice.pick(&[0, 1, 3, 5, 5, 9]))
        .filters(filters)
        .splitmode(split)
        .use_dict(dice.one_in(5))
        .blocksize(blocksize)
        .build()
        .ok()
}
