//! Damage to bytes of any format.

use crate::Rng;

/// Returns a copy with one bit flipped.
pub fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[bit / 8] ^= 1 << (bit % 8);
    out
}

/// Returns every `step`th bit, each with a copy in which it is flipped.
pub fn flips(bytes: &[u8], step: usize) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..bytes.len() * 8).step_by(step).map(|bit| (bit, flipped(bytes, bit)))
}

/// Damages at most `most` bytes, or swaps two pieces of at most that length, without moving others, in one of 13 ways.
pub fn overwrite(bytes: &mut [u8], most: usize, rng: &mut Rng) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    let n = rng.magnitude(1, most.min(len));
    // Half of the pieces are aligned like sectors.
    let aligned = if rng.chance(50) { n } else { 1 };
    let mut place = || rng.below((len - n) / aligned + 1) * aligned;
    let (from, to) = (place(), place());
    let piece = &mut bytes[to..to + n];
    match rng.below(13) {
        0 => piece[0] ^= 1 << rng.below(8),
        1 => piece[0] = rng.next() as u8,
        2 => piece[0] = *rng.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
        3 => piece[0] = piece[0].wrapping_add(*rng.pick(&[1, 0xFF])),
        4 => piece.fill(0),
        5 => piece.fill(0xFF),
        6 => piece.copy_from_slice(&rng.bytes(n)),
        7 => piece.iter_mut().for_each(|byte| *byte ^= 1 << rng.below(8)),
        8 => piece.reverse(),
        // A number: large, or the position of a byte.
        kind @ (9 | 10) => {
            let value = if kind == 9 { u64::MAX >> rng.below(64) } else { rng.below(len) as u64 };
            let width = n.min(8);
            piece[..width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        11 => bytes.copy_within(from..from + n, to),
        _ => {
            let there = bytes[to..to + n].to_vec();
            bytes.copy_within(from..from + n, to);
            bytes[from..from + n].copy_from_slice(&there);
        }
    }
}

/// Damages bytes as [`overwrite`] does, or in one of 5 ways that move or lose others.
pub fn damage(bytes: &mut Vec<u8>, most: usize, rng: &mut Rng) {
    let len = bytes.len();
    let (at, to) = (rng.below(len), rng.below(len + 1));
    let end = len.min(at + rng.magnitude(1, most));
    match rng.below(18) {
        0 => bytes.truncate(at),
        1 => bytes[at..].fill(0),
        2 => bytes.extend_from_within(at..),
        3 => drop(bytes.drain(at..end)),
        4 => drop(bytes.splice(to..to, bytes[at..end].to_vec())),
        _ => overwrite(bytes, most, rng),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_limited() {
        let whole: Vec<u8> = (1..=200).collect();
        let mut unchanged = 0;
        for case in 0..10_000 {
            let rng = &mut Rng::case(1, case);
            let (len, most) = (rng.below(200), rng.within(1..=64));
            let (mut bytes, mut again) = (whole[..len].to_vec(), whole[..len].to_vec());
            overwrite(&mut bytes, most, rng);
            assert!((0..len).filter(|&at| bytes[at] != whole[at]).count() <= 2 * most, "{case}");
            unchanged += u32::from(bytes == again);
            damage(&mut again, most, rng);
            assert!(again.len() <= 2 * len);
        }
        assert!(unchanged < 1500, "{unchanged}");
        assert_eq!(flips(&[0, 7], 3).map(|(bit, bytes)| (bit, bytes[1])).last(), Some((15, 0x87)));
    }

    /// The same seed gives the same damage, and every way of damage occurs.
    #[test]
    fn seeds_repeat() {
        let made = |seed| {
            let (mut bytes, rng) = ((0..100).collect(), &mut Rng::new(seed));
            (0..3).for_each(|_| damage(&mut bytes, 32, rng));
            bytes
        };
        assert_eq!(made(5), made(5));
        assert!((0..200).map(made).collect::<std::collections::BTreeSet<_>>().len() > 195);
    }
}
