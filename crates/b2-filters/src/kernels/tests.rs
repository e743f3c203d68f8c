//! Compares every kernel with the reference implementation, at all item sizes and at lengths around the edges of groups
//! and tiles.

use super::{Kernels, Tile, available, best, choose, tiles};
use crate::{bitshuffle, shuffle};

type Forward = fn(usize, &[u8], &mut [u8]);
type With = fn(&dyn Kernels, usize, &[u8], &mut [u8]);
type WithStreaming = fn(&dyn Kernels, usize, &[u8], &mut [u8], bool);

/// The reference implementations, forward and backward, and the functions that use kernels.
const PAIRS: [(&str, Forward, Forward, With, WithStreaming); 2] = [
    (
        "shuffle",
        shuffle::scalar::shuffle,
        shuffle::scalar::unshuffle,
        shuffle::shuffle_with,
        shuffle::unshuffle_with,
    ),
    (
        "bitshuffle",
        bitshuffle::scalar::bitshuffle,
        bitshuffle::scalar::bitunshuffle,
        bitshuffle::bitshuffle_with,
        bitshuffle::bitunshuffle_with,
    ),
];

fn typesizes() -> impl Iterator<Item = usize> {
    (1..=40).chain([64, 100, 255])
}

/// Reproducible noise (xorshift).
pub(super) fn noise(nbytes: usize, seed: usize) -> Vec<u8> {
    let mut x = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    })
    .take(nbytes)
    .collect()
}

fn check(typesize: usize, nbytes: usize) {
    let src = noise(nbytes, nbytes + typesize);
    for (name, forward, backward, forward_with, backward_with) in PAIRS {
        let mut stored = vec![0x33; nbytes];
        forward(typesize, &src, &mut stored);
        let mut back = vec![0x44; nbytes];
        backward(typesize, &stored, &mut back);
        assert!(
            back == src,
            "the definition of {name} is not a bijection: typesize {typesize}, {nbytes} bytes"
        );
        for kernels in available() {
            let case = format!("{} of {name}, typesize {typesize}, {nbytes} bytes", kernels.name());
            // Use unaligned destinations that already hold other bytes.
            for shift in [0, 1] {
                let mut dst = vec![0xAA; nbytes + shift];
                forward_with(kernels, typesize, &src, &mut dst[shift..]);
                assert!(dst[shift..] == stored, "forward, {case}");
                let mut dst = vec![0x55; nbytes + shift];
                backward_with(kernels, typesize, &stored, &mut dst[shift..], false);
                assert!(dst[shift..] == src, "backward, {case}");
            }
        }
    }
}

#[test]
fn the_vector_kernels_of_this_cpu_are_under_test() {
    let names: Vec<_> = available().into_iter().map(Kernels::name).collect();
    assert!(names.contains(&"generic"));
    assert_eq!(names, crate::available_kernels());
    assert_eq!(crate::kernels(), best().name());
    #[cfg(target_arch = "aarch64")]
    assert!(names.contains(&"neon"));
    #[cfg(target_arch = "x86_64")]
    {
        assert_eq!(names.contains(&"avx2"), std::is_x86_feature_detected!("avx2"));
        let wide = std::is_x86_feature_detected!("avx512vbmi")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("gfni");
        assert_eq!(names.contains(&"avx512"), wide);
    }
}

#[test]
fn a_name_forces_kernels() {
    let available = available();
    for &kernels in &available {
        assert_eq!(choose(Some(kernels.name()), &available).name(), kernels.name());
    }
    for name in [None, Some(""), Some("AVX2"), Some("avx9")] {
        assert_eq!(choose(name, &available).name(), available[0].name());
    }
    assert_eq!(choose(Some("avx2"), &available[available.len() - 1..]).name(), "generic");
}

/// A subset that is fast enough for Miri: a group and a rest for each kernel.
#[test]
fn small_blocks() {
    for (typesize, nitems, tail) in [(1, 33, 0), (2, 33, 1), (4, 17, 0), (8, 9, 3), (16, 9, 0)] {
        check(typesize, nitems * typesize + tail);
    }
}

#[test]
fn every_short_length() {
    for typesize in [1, 2, 3, 4, 5, 7, 8, 12, 16, 17] {
        for nbytes in 0..=300 {
            check(typesize, nbytes);
        }
    }
}

#[test]
fn lengths_around_groups() {
    for typesize in typesizes() {
        for nitems in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 71, 72, 95, 96, 127, 128, 129, 130]
        {
            for tail in [0, 1, typesize - 1] {
                check(typesize, nitems * typesize + tail);
            }
        }
    }
}

#[test]
fn lengths_around_tiles() {
    for typesize in typesizes() {
        let step = (16384 / typesize.min(16)) & !511;
        for nitems in [255, 256, 257, 263, 511, 512, 513, 520, step - 1, step, step + 1, step + 8, step + 504]
        {
            if nitems * typesize <= 70_000 {
                check(typesize, nitems * typesize);
            }
        }
    }
}

#[test]
fn long_blocks_of_any_length() {
    for typesize in typesizes() {
        for seed in 0..3 {
            let pick =
                noise(8, typesize * 3 + seed).into_iter().fold(0_usize, |n, b| (n << 8) | usize::from(b));
            check(typesize, 1000 + pick % 69_000);
        }
    }
}

#[test]
fn a_block_shorter_than_its_item_is_copied() {
    for typesize in [2, 16, 17, 300, usize::MAX] {
        for nbytes in [0, 1] {
            let src = noise(nbytes, 5);
            for (_, _, _, forward_with, backward_with) in PAIRS {
                for kernels in available() {
                    let mut dst = vec![0xAA; nbytes];
                    forward_with(kernels, typesize, &src, &mut dst);
                    assert_eq!(dst, src);
                    dst.fill(0x55);
                    backward_with(kernels, typesize, &src, &mut dst, false);
                    assert_eq!(dst, src);
                }
            }
        }
    }
}

/// Streaming stores need aligned addresses, so try every alignment of the destination.
#[test]
fn streaming_writes_the_same_bytes_wherever_the_block_lies() {
    for typesize in [1, 2, 3, 4, 8, 12, 16, 17, 40, 255] {
        for nitems in [31, 32, 33, 64, 65, 127, 128, 520, 1000, 1032, 2056, 9000] {
            if nitems * typesize > 200_000 {
                continue;
            }
            let src = noise(nitems * typesize, nitems);
            for (name, forward, _, _, backward_with) in PAIRS {
                let mut stored = vec![0; src.len()];
                forward(typesize, &src, &mut stored);
                for kernels in available() {
                    let every = if typesize == 3 && nitems < 2000 { 1 } else { 8 };
                    for shift in (0..64).step_by(every).chain([1, 63]) {
                        let mut dst = vec![0x55; shift + src.len() + 64];
                        backward_with(kernels, typesize, &stored, &mut dst[shift..][..src.len()], true);
                        let (before, rest) = dst.split_at(shift);
                        let (block, after) = rest.split_at(src.len());
                        let case = format!("{} of {name}, {nitems} x {typesize}", kernels.name());
                        assert!(block == src, "{case}, shift {shift}");
                        assert!(before.iter().chain(after).all(|&b| b == 0x55), "{case}, shift {shift}");
                    }
                }
            }
        }
    }
}

type Plane<'a> = dyn Fn(usize) -> &'a [u8] + 'a;

/// Parts of all lengths and positions, from planes at arbitrary addresses.
#[test]
fn parts_of_a_block() {
    for typesize in [1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 40, 255] {
        for nitems in [8, 16, 72, 600, 1040] {
            let src = noise(nitems * typesize, nitems);
            for (name, forward, ..) in PAIRS {
                let mut stored = vec![0; src.len()];
                forward(typesize, &src, &mut stored);
                let planes: Vec<Vec<u8>> = stored.chunks(nitems).map(<[u8]>::to_vec).collect();
                let plane: &Plane<'_> = &|j| &planes[j];
                for kernels in available() {
                    for pick in noise(8, typesize).chunks(2) {
                        let start = usize::from(pick[0]) * src.len() / 256;
                        let rest = src.len() - start;
                        for len in [0, 1, typesize, 8 * typesize, usize::from(pick[1]) * rest / 256, rest] {
                            let range = start..start + len.min(rest);
                            let case =
                                format!("{} of {name}, {nitems} x {typesize}, {range:?}", kernels.name());
                            for streaming in [false, true] {
                                let mut dst = vec![0x55; range.len()];
                                let part = range.clone();
                                match name {
                                    "shuffle" => shuffle::unshuffle_part(
                                        kernels, typesize, plane, part, &mut dst, streaming,
                                    ),
                                    _ => bitshuffle::bitunshuffle_part(
                                        kernels, typesize, plane, part, &mut dst, streaming,
                                    ),
                                }
                                assert!(dst == src[range.clone()], "{case}");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Calls the kernels directly, with guard bytes around the tile that must stay unchanged.
#[test]
fn nothing_outside_a_tile_is_written() {
    for kernels in available() {
        for (cols, pitch) in (2..=16).map(|cols| (cols, cols)).chain([
            (16, 17),
            (16, 24),
            (16, 255),
            (8, 17),
            (8, 40),
            (8, 255),
        ]) {
            for n in [0, 1, 8, 31, 32, 40, 63, 64, 65, 100, 128, 200] {
                let tile = Tile { n, cols, pitch, stride: n + 5 };
                let case = format!("{} {tile:?}", kernels.name());
                let items = noise(n * pitch, n + cols);
                let mut planes = vec![0xAA; cols * tile.stride];
                kernels.gather(&items, tile, &mut planes);
                for (at, &byte) in planes.iter().enumerate() {
                    let (j, i) = (at / tile.stride, at % tile.stride);
                    let expected = if i < n { items[i * pitch + j] } else { 0xAA };
                    assert_eq!(byte, expected, "gather, {case}, plane byte {at}");
                }
                let mut back = vec![0x55; n * pitch + 70];
                let planes: Vec<&[u8]> = planes.chunks(tile.stride).collect();
                kernels.scatter(&planes, tile, &mut back);
                for (at, &byte) in back.iter().enumerate() {
                    let inside = at < n * pitch && at % pitch < cols;
                    let expected = if inside { items[at] } else { 0x55 };
                    assert_eq!(byte, expected, "scatter, {case}, item byte {at}");
                }
            }
        }
    }
}

#[test]
fn the_last_tile_reaches_back() {
    let cut = |n, step, least| tiles(n, step, least).collect::<Vec<_>>();
    assert_eq!(cut(0, 4, 2), []);
    assert_eq!(cut(1, 4, 2), [(0, 1)]);
    assert_eq!(cut(4, 4, 2), [(0, 4)]);
    assert_eq!(cut(5, 4, 2), [(0, 4), (3, 2)]);
    assert_eq!(cut(7, 4, 2), [(0, 4), (4, 3)]);
}
