//! Delta, id 3: XOR against block 0 of the chunk; in block 0 itself against the word before.
//!
//! Words are 1, 2, 4 or 8 bytes, by item size; their byte order does not matter to XOR. What follows the last
//! whole word is copied.

use crate::{Filter, FilterContext, FilterError, FilterId, same_length};

/// The delta filter, id 3. The parameter byte is not used.
///
/// The reference is the *decoded* block 0, which [`FilterContext::with_reference`] hands over for the other blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delta;

impl Filter for Delta {
    fn id(&self) -> FilterId {
        FilterId::DELTA
    }
    fn name(&self) -> &str {
        "delta"
    }
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let word = prepare(cx, src, dst)?;
        match cx.reference {
            Some(reference) => xor_block(word, src, reference, dst),
            None => {
                let body = src.len() - src.len() % word;
                for ((d, s), before) in dst[..body].iter_mut().zip(src).skip(word).zip(src) {
                    *d = s ^ before;
                }
                let first = word.min(src.len());
                dst[..first].copy_from_slice(&src[..first]);
                dst[body..].copy_from_slice(&src[body..]);
                Ok(())
            }
        }
    }
    fn backward(
        &self,
        cx: &FilterContext<'_>,
        _meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let word = prepare(cx, src, dst)?;
        match (cx.reference, word) {
            (Some(reference), _) => return xor_block(word, src, reference, dst),
            (None, 1) => prefix_xor::<1>(src, dst),
            (None, 2) => prefix_xor::<2>(src, dst),
            (None, 4) => prefix_xor::<4>(src, dst),
            (None, _) => prefix_xor::<8>(src, dst),
        }
        Ok(())
    }
}

/// Checks what both directions need and gives the word size in bytes.
fn prepare(cx: &FilterContext<'_>, src: &[u8], dst: &[u8]) -> Result<usize, FilterError> {
    same_length(FilterId::DELTA, src, dst)?;
    match cx.typesize {
        0 => Err(FilterError::ItemSize { filter: FilterId::DELTA, typesize: 0 }),
        1 | 2 | 4 | 8 => Ok(cx.typesize),
        typesize if typesize % 8 == 0 => Ok(8),
        _ => Ok(1),
    }
}

/// Another block than the first. The operation is its own inverse.
fn xor_block(word: usize, src: &[u8], reference: &[u8], dst: &mut [u8]) -> Result<(), FilterError> {
    let body = src.len() - src.len() % word;
    let Some(reference) = reference.get(..body) else {
        return Err(FilterError::Container {
            filter: FilterId::DELTA,
            what: "the reference block is shorter than the block",
        });
    };
    for ((d, s), r) in dst.iter_mut().zip(src).zip(reference) {
        *d = s ^ r;
    }
    dst[body..].copy_from_slice(&src[body..]);
    Ok(())
}

/// Each word XOR all words before it; `WORD` is 1, 2, 4 or 8.
fn prefix_xor<const WORD: usize>(src: &[u8], dst: &mut [u8]) {
    let body = src.len() - src.len() % WORD;
    // One word, as often as it fits into eight bytes.
    let repeat = match WORD {
        1 => 0x0101_0101_0101_0101,
        2 => 0x0001_0001_0001_0001,
        4 => 0x0000_0001_0000_0001,
        _ => 1,
    };
    let mut before = 0_u64;
    let (words, _) = src[..body].as_chunks::<8>();
    let (outs, _) = dst[..body].as_chunks_mut::<8>();
    for (s, d) in words.iter().zip(outs) {
        let mut x = u64::from_le_bytes(*s);
        let mut bits = 8 * WORD;
        while bits < 64 {
            x ^= x << bits;
            bits *= 2;
        }
        *d = (x ^ before.wrapping_mul(repeat)).to_le_bytes();
        // From block to block only this XOR waits for the previous round.
        before ^= x >> (64 - 8 * WORD);
    }
    for at in words.len() * 8..body {
        dst[at] = src[at] ^ if at < WORD { 0 } else { dst[at - WORD] };
    }
    dst[body..].copy_from_slice(&src[body..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typesize: usize, reference: Option<&[u8]>, plain: &[u8], stored: &[u8]) {
        let cx = FilterContext::new(typesize).with_reference(reference);
        let mut out = vec![0xEE; plain.len()];
        Delta.forward(&cx, 0, plain, &mut out).unwrap();
        assert_eq!(out, stored, "forward, typesize {typesize}");
        let mut back = vec![0x55; plain.len()];
        Delta.backward(&cx, 0, stored, &mut back).unwrap();
        assert_eq!(back, plain, "backward, typesize {typesize}");
    }

    #[test]
    fn first_block_by_hand() {
        check(1, None, &[], &[]);
        check(1, None, &[7], &[7]);
        check(1, None, &[1, 3, 2, 2], &[1, 2, 1, 0]);
        check(2, None, &[1, 2, 3, 4, 9], &[1, 2, 1 ^ 3, 2 ^ 4, 9]);
        check(4, None, &[1, 2, 3, 4, 1, 2, 3, 5, 6, 7, 8], &[1, 2, 3, 4, 0, 0, 0, 1, 6, 7, 8]);
        // 3 is no word size: single bytes.
        check(3, None, &[1, 2, 3, 4], &[1, 3, 1, 7]);
        check(8, None, &[5; 7], &[5; 7]);
        check(8, None, &[5; 17], &[5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        // 16 and 24 go by words of 8, 12 by bytes.
        check(16, None, &[5; 16], &[5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(24, None, &[6; 16], &[6, 6, 6, 6, 6, 6, 6, 6, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(12, None, &[5; 12], &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_blocks_by_hand() {
        check(1, Some(&[1, 2, 3]), &[7, 7], &[6, 5]);
        // A tail is copied, and the reference need not reach it.
        check(4, Some(&[1, 1, 1, 1]), &[1, 2, 3, 4, 9, 9], &[0, 3, 2, 5, 9, 9]);
        check(2, Some(&[]), &[9], &[9]);
    }

    #[test]
    fn short_reference_is_an_error() {
        let cx = FilterContext::new(1).with_reference(Some(&[1, 2]));
        for result in
            [Delta.forward(&cx, 0, &[0; 3], &mut [0; 3]), Delta.backward(&cx, 0, &[0; 3], &mut [0; 3])]
        {
            assert!(matches!(result, Err(FilterError::Container { filter: FilterId::DELTA, .. })));
        }
    }

    #[test]
    fn prefix_xor_carries_over_eight_bytes() {
        for typesize in [1, 2, 4, 8] {
            for nbytes in 0..100 {
                let plain: Vec<u8> = (0..nbytes).map(|k| (k * k + 3 * k) as u8).collect();
                let cx = FilterContext::new(typesize);
                let (mut stored, mut back) = (vec![0; plain.len()], vec![1; plain.len()]);
                Delta.forward(&cx, 0, &plain, &mut stored).unwrap();
                Delta.backward(&cx, 0, &stored, &mut back).unwrap();
                assert_eq!(back, plain, "typesize {typesize}, {nbytes} bytes");
            }
        }
    }
}
