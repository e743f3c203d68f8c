//! zfp (filter 32013), as H5Z-ZFP stores it.
//!
//! ```text
//! parameters  = version, words of zfp's header
//! ```
//!
//! The header is as the machine that wrote it had it in memory. Big-endian machines have each word reversed, and their items, too.

use b2_zfp::Header;

/// Most words of a header: 148 bits.
const MAX_WORDS: usize = 5;

/// Decodes a chunk into `dst`. Returns `None` for data or parameters that do not fit.
pub(super) fn decode(params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
    let (header, itemsize_if_big) = header(params)?;
    header.decode(src, dst)?;
    if let Some(size) = itemsize_if_big {
        dst.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Some(())
}

/// Returns the bytes that a chunk has by its parameters.
pub(super) fn decoded_len(params: &[u32]) -> Option<usize> {
    usize::try_from(header(params)?.0.nbytes()).ok()
}

/// Returns the maximum bytes of the stream of a chunk.
pub(super) fn most_coded(params: &[u32]) -> Option<usize> {
    header(params)?.0.maximum_size()
}

/// Returns the header, and the bytes of an item if the machine that wrote it was big-endian.
fn header(params: &[u32]) -> Option<(Header, Option<usize>)> {
    let (_version, words) = params.split_first()?;
    let words = words.get(..words.len().min(MAX_WORDS))?;
    let bytes =
        |to_bytes: fn(u32) -> [u8; 4]| words.iter().flat_map(|&word| to_bytes(word)).collect::<Vec<u8>>();
    match Header::parse(&bytes(u32::to_le_bytes)) {
        Some(header) => Some((header, None)),
        None => {
            let header = Header::parse(&bytes(u32::to_be_bytes))?;
            let size = header.itemsize();
            Some((header, Some(size)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What hdf5plugin writes for four integers, without loss.
    const PARAMS: [u32; 4] = [0x1010_5111, 0x0570_667A, 0x30, 0x8800_0000];
    const STREAM: [u8; 7] = [0x1F, 0, 0, 0, 0x02, 0x60, 0];

    #[test]
    fn the_byte_order_of_the_header_is_that_of_the_items() {
        let mut dst = [0; 16];
        assert_eq!(decoded_len(&PARAMS), Some(16));
        decode(&PARAMS, &STREAM, &mut dst).unwrap();
        let items: Vec<u8> = [1_i32, 2, 3, -4].iter().flat_map(|item| item.to_le_bytes()).collect();
        assert_eq!(dst, items[..]);
        let swapped = PARAMS.map(u32::swap_bytes);
        decode(&swapped, &STREAM, &mut dst).unwrap();
        let items: Vec<u8> = [1_i32, 2, 3, -4].iter().flat_map(|item| item.to_be_bytes()).collect();
        assert_eq!(dst, items[..]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut dst = [0; 16];
        assert_eq!(decode(&PARAMS, &STREAM, &mut [0; 12]), None);
        assert_eq!(decode(&PARAMS, &[], &mut dst), None);
        assert_eq!(decode(&PARAMS, &[STREAM; 2].concat(), &mut dst), None);
        for len in 0..PARAMS.len() {
            assert_eq!(decoded_len(&PARAMS[..len]), None, "{len}");
        }
        let mut other_version = PARAMS;
        other_version[1] ^= 1 << 24;
        assert_eq!(decoded_len(&other_version), None);
    }

    #[test]
    fn damage_is_no_panic() {
        let mut rng = b2_testkit::Rng::new(1);
        let mut decoded = 0;
        for _ in 0..20_000 {
            let (mut params, mut src) = (PARAMS, rng.bytes(200));
            // The magic number stays.
            params[2..].iter_mut().for_each(|word| *word ^= 1 << rng.below(32));
            if rng.one_in(2) {
                params[2] = rng.below(1 << 16) as u32;
            }
            src.truncate(rng.below(200));
            let len = decoded_len(&params).filter(|&len| len <= 1 << 16).unwrap_or(16);
            decoded += usize::from(decode(&params, &src, &mut vec![0; len]).is_some());
        }
        assert!(decoded > 20, "{decoded}");
    }
}
