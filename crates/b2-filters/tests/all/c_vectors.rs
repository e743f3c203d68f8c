//! Results of C-Blosc2 3.3.5, as FNV-1a hashes.
//!
//! Shuffle and bitshuffle: `blosc2_shuffle`, `blosc2_unshuffle`, `blosc2_bitshuffle`, `blosc2_bitunshuffle` called on
//! `noise`. The other filters: a chunk of two blocks of `ramp` compressed with zlib, not split, and the zlib streams
//! of its two blocks inflated, which gives the filtered blocks.

use b2_filters::{FilterContext, FilterError, FilterId, builtin};

type Plain = fn(usize, &[u8], &mut [u8]) -> Result<(), FilterError>;

fn noise(nbytes: usize) -> Vec<u8> {
    (0..nbytes as u64).map(|k| (((k * 2_654_435_761) & 0xFFFF_FFFF) >> 13) as u8).collect()
}

fn ramp(nbytes: usize) -> Vec<u8> {
    (0..nbytes).map(|k| ((k * k) >> 8) as u8 & 0x3F).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Typesize, bytes, then the hashes of shuffle, unshuffle, bitshuffle and bitunshuffle.
#[rustfmt::skip]
const SHUFFLES: [(usize, usize, [u64; 4]); 12] = [
    (2, 1000, [0xa3b219970956986b, 0xd4c9717a60256def, 0x40325323704b489b, 0x4ca39598c89e1885]),
    (3, 1003, [0x2ca9858543513a85, 0xc8f8e3c7ea4b2595, 0x6772ca53d5ac5d02, 0x06720ef3a1153083]),
    (4, 4096, [0x8ed8c80f7657b739, 0x2b2dc829b4d973d1, 0x79afcf4d37ca029f, 0xd72adb7e3afa0aba]),
    (5, 777, [0x46ec366fe030d55f, 0x7c9fdc7b05f97a63, 0x76d0b2c900db9052, 0x56b0c2c577564ffd]),
    (7, 2000, [0x3482989ea002716c, 0x271adcbefd646160, 0x19ae2c19585fa491, 0xb03ebd5f59d930d5]),
    (8, 5000, [0x9d60ba9651352020, 0x371dfc0090657aa6, 0x7c500ea6004d8f5e, 0x979cd7e0217b8711]),
    (12, 3005, [0x3366dfd23396a61d, 0x5dbe6afe8a66a919, 0x52e60f76eb469545, 0xee708299145e720a]),
    (16, 8192, [0x1185237577823d59, 0x3ec4682a66e7cae9, 0x602bd131a34690b0, 0x78453cf5cf343c3f]),
    (17, 4000, [0xd55d7d5d0779b8ae, 0xa96b364205e51f9a, 0x0c0c4fb3b2a0d46e, 0x14383e0620e082b9]),
    (24, 4801, [0xffcf5430573bb809, 0x09d9e8151dc5cb9d, 0x54d60c8b6b46c43d, 0xdd2c592b207905aa]),
    (32, 4096, [0x3ff6bee8bb8be4f1, 0xb6ef31d53d929655, 0xbf962d0a07d2ecdc, 0x3b283aea0d4d8d94]),
    (255, 10000, [0x512bb61e5d15c927, 0x1cb59785146a9c63, 0xd6eb742eab1c2429, 0x3dca1ae5dfc5bb10]),
];

/// Filter, parameter, typesize, block size, hashes of the two filtered blocks.
#[rustfmt::skip]
const BLOCKS: [(u8, u8, usize, usize, [u64; 2]); 10] = [
    (1, 3, 4, 2000, [0x398246856285ffe8, 0x5d76ae6649d4957b]),
    (3, 0, 4, 2000, [0x67c3e203ff9a8c0b, 0xe9a9b26a9d5e3cf4]),
    (3, 0, 3, 999, [0xfa40f41abba5f73b, 0xdcfdc62de5bcbcf6]),
    (3, 0, 24, 1200, [0xff4385a294163cdc, 0xb2d2edb244799860]),
    (4, 10, 4, 2000, [0x76582c747e8be90c, 0x795c24e4a841b510]),
    (4, 211, 8, 2000, [0xa49db250ea01f89b, 0x6b6f8578aae86b1e]),
    (35, 4, 4, 2000, [0x3738bb3a023360cf, 0x2aa4340a4fea2015]),
    (35, 7, 4, 1000, [0xa61fa3e69f4fe7cb, 0xdb974e836728dc5c]),
    (36, 5, 2, 2000, [0xdaa310b7e8be77ed, 0x5aae208f0ae04ac5]),
    (36, 196, 8, 2000, [0xca29bba643198045, 0x9ad07d71dddb43c5]),
];

/// Filter, parameter, item size, block shape, hash of the filtered block. Items are `ramp`, as u8, f32 or f64.
#[rustfmt::skip]
const CELLS: [(u8, u8, usize, &[u32], u64); 4] = [
    (32, 3, 4, &[7, 9, 5], 0x92d351b96d0b61d2),
    (32, 4, 1, &[30, 33], 0xdc88430172b9ac08),
    (33, 3, 4, &[7, 9, 5], 0xdd75cd66f5def7c4),
    (33, 4, 8, &[13, 17], 0x7c818399616be7eb),
];

#[test]
fn shuffles() {
    let functions: [Plain; 4] =
        [b2_filters::shuffle, b2_filters::unshuffle, b2_filters::bitshuffle, b2_filters::bitunshuffle];
    for (typesize, nbytes, hashes) in SHUFFLES {
        for (which, (function, expected)) in functions.into_iter().zip(hashes).enumerate() {
            let mut dst = vec![0xEE; nbytes];
            function(typesize, &noise(nbytes), &mut dst).unwrap();
            assert_eq!(hash(&dst), expected, "function {which}, typesize {typesize}, {nbytes} bytes");
        }
    }
}

#[test]
fn blocks() {
    let filters = builtin();
    for (id, meta, typesize, blocksize, hashes) in BLOCKS {
        let filter = filters.iter().find(|f| f.id() == FilterId(id)).unwrap();
        let raw = ramp(2 * blocksize);
        for (block, expected) in raw.chunks_exact(blocksize).zip(hashes) {
            let reference = (block.as_ptr() != raw.as_ptr()).then_some(&raw[..blocksize]);
            let cx = FilterContext::new(typesize).reference(reference);
            let mut dst = vec![0xEE; blocksize];
            filter.forward(&cx, meta, block, &mut dst).unwrap();
            assert_eq!(hash(&dst), expected, "{filter:?}, parameter {meta}, typesize {typesize}");
        }
    }
}

#[test]
fn cells() {
    let filters = builtin();
    for (id, meta, itemsize, blockshape, expected) in CELLS {
        let filter = filters.iter().find(|f| f.id() == FilterId(id)).unwrap();
        let items = ramp(blockshape.iter().product::<u32>() as usize).into_iter();
        let src: Vec<u8> = match itemsize {
            1 => items.collect(),
            4 => items.flat_map(|x| f32::from(x).to_le_bytes()).collect(),
            _ => items.flat_map(|x| f64::from(x).to_le_bytes()).collect(),
        };
        let cx = FilterContext::new(itemsize).full_itemsize(Some(itemsize)).blockshape(blockshape);
        let mut dst = vec![0xEE; src.len()];
        filter.forward(&cx, meta, &src, &mut dst).unwrap();
        assert_eq!(hash(&dst), expected, "{filter:?}, side {meta}, {blockshape:?}");
    }
}

/// C still writes the historic byte delta on request. We only read it: the first block as C writes it (see the hash
/// above) must decode to the ramp.
#[test]
fn historic_bytedelta() {
    let filters = builtin();
    let filter = filters.iter().find(|f| f.id() == FilterId::BYTEDELTA_HISTORIC).unwrap();
    for (nplanes, blocksize, expected) in [(4, 2000, 0x1776d7d56446c9ed), (3, 999, 0xda147e842e59d266)] {
        let plain = ramp(blocksize);
        let plane = blocksize / nplanes;
        let stored: Vec<u8> = (0..blocksize)
            .map(|at| match at % plane {
                k if k == 0 || k == plane & !15 => plain[at],
                _ => plain[at].wrapping_sub(plain[at - 1]),
            })
            .collect();
        assert_eq!(hash(&stored), expected, "the test's own encoder");
        let mut back = vec![0xEE; blocksize];
        filter.backward(&FilterContext::new(nplanes), nplanes as u8, &stored, &mut back).unwrap();
        assert_eq!(back, plain);
    }
}
