//! Delta (id 3): XOR with block 0 of the chunk; in block 0, XOR with the previous word.
//!
//! Words have 1, 2, 4 or 8 bytes, depending on the item size. XOR does not depend on their byte order. Bytes after the
//! last whole word are copied.

use crate::error::Result;
use crate::filter::same_length;
use crate::kernels::{self, Kernels, Scan};
use crate::{Filter, FilterContext, FilterError, FilterId, FilterProperties, Reference};

/// The delta filter (id 3). The parameter byte is unused.
///
/// The reference is the *decoded* block 0, which [`FilterContext::reference`] gives for the other blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delta;

impl Filter for Delta {
    fn id(&self) -> FilterId {
        FilterId::DELTA
    }
    fn name(&self) -> &str {
        "delta"
    }
    fn properties(&self, cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties {
            lossless: true,
            shapeless: true,
            reference: Reference::Words,
            // C-Blosc2 would lose the bytes after the last whole word.
            chunk_multiple: words(cx.itemsize).map_or(1, |(word, _)| word),
            ..FilterProperties::UNKNOWN
        }
    }
    fn forward(&self, cx: &FilterContext<'_>, _meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        apply(cx, src, dst, |kernels, what, src, dst| kernels.differences(what, src, dst))
    }
    fn backward(&self, cx: &FilterContext<'_>, _meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        apply(cx, src, dst, |kernels, what, src, dst| kernels.scan(what, src, dst))
    }
}

/// Implements both directions, which differ only in block 0.
fn apply(
    cx: &FilterContext<'_>,
    src: &[u8],
    dst: &mut [u8],
    first_block: impl FnOnce(&dyn Kernels, Scan, &[u8], &mut [u8]),
) -> Result<()> {
    let (word, what) = words(cx.itemsize)?;
    same_length(FilterId::DELTA, src, dst)?;
    let body = src.len() - src.len() % word;
    let (words, tail) = src.split_at(body);
    let (outs, rest) = dst.split_at_mut(body);
    rest.copy_from_slice(tail);
    match cx.reference {
        None => first_block(kernels::best(), what, words, outs),
        // The operation is its own inverse.
        Some(reference) => {
            let Some(reference) = reference.get(..body) else {
                return Err(FilterError::Container {
                    filter: FilterId::DELTA,
                    what: "the reference block is shorter than the block",
                });
            };
            kernels::best().xor(words, reference, outs, cx.streaming);
        }
    }
    Ok(())
}

/// Returns the word size in bytes for an item size.
fn words(typesize: usize) -> Result<(usize, Scan)> {
    match typesize {
        0 => Err(FilterError::ItemSize { filter: FilterId::DELTA, itemsize: typesize }),
        2 => Ok((2, Scan::Xor2)),
        4 => Ok((4, Scan::Xor4)),
        typesize if typesize % 8 == 0 => Ok((8, Scan::Xor8)),
        _ => Ok((1, Scan::Xor1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typesize: usize, reference: Option<&[u8]>, plain: &[u8], stored: &[u8]) {
        let cx = FilterContext::new(typesize).reference(reference);
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
        // 3 is not a word size, so single bytes are used.
        check(3, None, &[1, 2, 3, 4], &[1, 3, 1, 7]);
        check(8, None, &[5; 7], &[5; 7]);
        check(8, None, &[5; 17], &[5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        // 16 and 24 use words of 8 bytes, 12 uses single bytes.
        check(16, None, &[5; 16], &[5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(24, None, &[6; 16], &[6, 6, 6, 6, 6, 6, 6, 6, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(12, None, &[5; 12], &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_blocks_by_hand() {
        check(1, Some(&[1, 2, 3]), &[7, 7], &[6, 5]);
        // The tail is copied, and the reference may end before it.
        check(4, Some(&[1, 1, 1, 1]), &[1, 2, 3, 4, 9, 9], &[0, 3, 2, 5, 9, 9]);
        check(2, Some(&[]), &[9], &[9]);
    }

    #[test]
    fn short_reference_is_an_error() {
        let cx = FilterContext::new(1).reference(Some(&[1, 2]));
        for result in
            [Delta.forward(&cx, 0, &[0; 3], &mut [0; 3]), Delta.backward(&cx, 0, &[0; 3], &mut [0; 3])]
        {
            assert!(matches!(result, Err(FilterError::Container { filter: FilterId::DELTA, .. })));
        }
    }

    #[test]
    fn blocks_come_back() {
        for typesize in [1, 2, 4, 8, 24] {
            for nbytes in 0..200 {
                let plain: Vec<u8> = (0..nbytes).map(|k| (k * k + 3 * k) as u8).collect();
                let reference: Vec<u8> = (0..nbytes).map(|k| (7 * k + k / 5) as u8).collect();
                for reference in [None, Some(&reference[..])] {
                    for streaming in [false, true] {
                        let cx = FilterContext::new(typesize).reference(reference).streaming(streaming);
                        let (mut stored, mut back) = (vec![0; plain.len()], vec![1; plain.len()]);
                        Delta.forward(&cx, 0, &plain, &mut stored).unwrap();
                        Delta.backward(&cx, 0, &stored, &mut back).unwrap();
                        assert_eq!(back, plain, "typesize {typesize}, {nbytes} bytes");
                    }
                }
            }
        }
    }
}
