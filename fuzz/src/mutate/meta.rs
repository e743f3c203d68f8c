//! Mutates the array metalayer: its numbers and its dtype.

use b2_testkit::hostile::{Number, Walk};

use super::{Rng, put, raw};

/// Parts of dtypes, valid and invalid.
const WORDS: [&str; 20] = [
    "<f4",
    ">i8",
    "|u1",
    "|S5",
    "<U3",
    "<M8[ns]",
    "<c16",
    "|V7",
    "|b1",
    "[('a', '<f4')]",
    "(2,3)",
    "', '",
    "[(",
    ")]",
    "\\x00",
    "'",
    "u8",
    "=f2",
    "(1,)",
    "[('b', [('c', '<i2', (2,))])]",
];

/// Mutates an array metalayer.
pub fn meta(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let len = bytes.len();
    let numbers = Walk::numbers(bytes, |walk| walk.array(&(0..len)));
    match rng.below(8) {
        0 | 1 => {
            let small = rng.below(40) as u64;
            if let Some(number) = rng.pick_some(&numbers) {
                number.set(bytes, small);
            }
        }
        2..=3 | 6 => Number::damage_one(&numbers, bytes, rng),
        4 => *bytes = fresh(rng),
        5 => {
            // Insert words into the dtype at the end.
            let dtype = bytes.iter().rposition(|byte| *byte == 0xDB).map_or(len, |at| at + 5).min(len);
            let at = dtype + rng.below(len - dtype + 1);
            let word = *rng.pick(&WORDS);
            let end = if rng.one_in(2) { at } else { (at + word.len()).min(len) };
            bytes.splice(at..end, word.bytes());
            let dtype_len = (bytes.len() - dtype) as u32;
            put(bytes, dtype.saturating_sub(4), &dtype_len.to_be_bytes());
        }
        _ => raw(bytes, 0..len, false),
    }
}

/// Returns a well-formed metalayer, whose shapes need not be consistent.
fn fresh(rng: &mut Rng) -> Vec<u8> {
    let most = if rng.one_in(8) { 18 } else { 5 };
    let nd = rng.below(most) as u8;
    let mut out = vec![0x97, 0, nd];
    for (marker, width) in [(0xD3, 8), (0xD2, 4), (0xD2, 4)] {
        out.push(0x90_u8.wrapping_add(nd));
        for _ in 0..nd {
            out.push(marker);
            let n = (if rng.one_in(20) { rng.next() } else { rng.below(20) as u64 }).to_be_bytes();
            out.extend_from_slice(&n[8 - width..]);
        }
    }
    let dtype = *rng.pick(&WORDS);
    out.extend([0, 0xDB]);
    out.extend((dtype.len() as u32).to_be_bytes());
    out.extend(dtype.bytes());
    out
}
