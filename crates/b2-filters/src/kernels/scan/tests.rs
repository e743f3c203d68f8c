//! Compares each instruction set with the reference implementation, at all short lengths and alignments.

use super::{Op, Scan, Sums, Xors};
use crate::kernels::available;
use crate::kernels::tests::noise;

const ALL: [Scan; 5] = [Scan::Sum, Scan::Xor1, Scan::Xor2, Scan::Xor4, Scan::Xor8];

fn plain(what: Scan, src: &[u8]) -> Vec<u8> {
    let mut dst = vec![0; src.len()];
    match what {
        Scan::Sum => Sums::plain(src, &mut dst, 0),
        Scan::Xor1 => Xors::<1>::plain(src, &mut dst, 0),
        Scan::Xor2 => Xors::<2>::plain(src, &mut dst, 0),
        Scan::Xor4 => Xors::<4>::plain(src, &mut dst, 0),
        Scan::Xor8 => Xors::<8>::plain(src, &mut dst, 0),
    }
    dst
}

fn check(nbytes: usize, shift: usize) {
    let noise = noise(shift + nbytes, nbytes);
    let src = &noise[shift..];
    for what in ALL {
        let sums = plain(what, src);
        for kernels in available() {
            let case = format!("{} {what:?}, {nbytes} bytes", kernels.name());
            let mut dst = vec![0xAA; nbytes];
            kernels.scan(what, src, &mut dst);
            assert!(dst == sums, "scan, {case}");
            dst.fill(0x55);
            kernels.differences(what, &sums, &mut dst);
            assert!(dst == src, "differences, {case}");
        }
    }
}

#[test]
fn by_hand() {
    assert_eq!(plain(Scan::Sum, &[1, 2, 3, 255]), [1, 3, 6, 5]);
    assert_eq!(plain(Scan::Xor1, &[1, 2, 4, 1]), [1, 3, 7, 6]);
    assert_eq!(plain(Scan::Xor2, &[1, 2, 4, 1, 7]), [1, 2, 5, 3, 2]);
    assert_eq!(plain(Scan::Xor4, &[1, 2, 4, 1, 7, 0, 0, 1, 1]), [1, 2, 4, 1, 6, 2, 4, 0, 7]);
    assert_eq!(plain(Scan::Xor8, &[5; 17])[8..], [0, 0, 0, 0, 0, 0, 0, 0, 5]);
}

#[test]
fn every_short_length_and_some_long_ones() {
    for nbytes in (0..=330).chain([1000, 4095, 4096, 4097, 65_537]) {
        check(nbytes, nbytes % 3);
    }
}

#[test]
fn sums_wrap() {
    for kernels in available() {
        let mut dst = [0; 200];
        kernels.scan(Scan::Sum, &[255; 200], &mut dst);
        assert_eq!(dst, std::array::from_fn(|k| 255 - k as u8), "{}", kernels.name());
    }
}

/// Streaming stores need aligned addresses, so try every alignment of the destination.
#[test]
fn xor_writes_the_same_bytes_wherever_the_block_lies() {
    for nbytes in [0, 1, 31, 63, 64, 65, 127, 128, 200, 1000] {
        let (a, b) = (noise(nbytes, 1), noise(nbytes, 2));
        let expected: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        for kernels in available() {
            for shift in 0..64 {
                for streaming in [false, true] {
                    let mut dst = vec![0x55; shift + nbytes + 64];
                    kernels.xor(&a, &b, &mut dst[shift..][..nbytes], streaming);
                    let (before, rest) = dst.split_at(shift);
                    let (block, after) = rest.split_at(nbytes);
                    let case = format!("{}, {nbytes} bytes, shift {shift}", kernels.name());
                    assert!(block == expected, "{case}");
                    assert!(before.iter().chain(after).all(|&b| b == 0x55), "{case}");
                }
            }
        }
    }
}
