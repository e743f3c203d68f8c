//! The checksums of damaged frames: recomputed, or zeroed as C-Blosc2 does when it changes a frame.

use std::ops::Range;

use twox_hash::{XxHash3_64, XxHash3_128};

/// The start of a block of checksums (docs/format/checksums.md).
pub const MAGIC: &[u8; 8] = b"b2sums\0\x01";

/// Where the parts covered by checksums are after the damage.
pub struct Places {
    /// The header, which starts at byte 0.
    pub header: Range<usize>,
    /// The index chunk; empty if there are no chunks.
    pub index: Range<usize>,
    /// The block of checksums.
    pub sums: Range<usize>,
    /// The pages with the sums of chunks.
    pub pages: Vec<Range<usize>>,
    /// The trailer, up to the end of the frame.
    pub trailer: Range<usize>,
    /// Values of metalayers.
    pub metalayers: Vec<Range<usize>>,
    /// Sums of the stored chunks.
    pub chunks: Vec<u64>,
}

/// Computes the sum of bytes.
pub fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Rewrites the pages and the block of checksums, and the fingerprint over the block.
pub fn seal(bytes: &mut [u8], places: &Places) {
    let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default().to_vec();
    let mut header = part(&places.header);
    let whole = sum(&header);
    let threads = [63..65, 66..68];
    for range in places.metalayers.iter().chain(&threads) {
        if let Some(value) = header.get_mut(range.clone()) {
            value.fill(0);
        }
    }
    // The trailer up to its length field.
    let end = places.trailer.end.saturating_sub(23).max(places.trailer.start);
    let sums = [whole, sum(&header), sum(&part(&places.index)), sum(&part(&(places.trailer.start..end)))];
    let mut block = Vec::new();
    let mut chunks = places.chunks.iter();
    for range in &places.pages {
        let page: Vec<u8> = chunks.by_ref().take(range.len() / 8).flat_map(|sum| sum.to_le_bytes()).collect();
        // A page may have space for more sums than there are chunks; the rest remains unchanged.
        let sum = match bytes.get_mut(range.clone()) {
            Some(stored) => {
                stored[..page.len()].copy_from_slice(&page);
                sum(stored)
            }
            None => sum(&page),
        };
        for number in [range.start as u64, range.len() as u64 / 8, sum] {
            block.extend_from_slice(&number.to_le_bytes());
        }
    }
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&1u32.to_le_bytes());
    block.extend_from_slice(&(places.pages.len() as u32).to_le_bytes());
    for number in [places.chunks.len() as u64].iter().chain(&sums) {
        block.extend_from_slice(&number.to_le_bytes());
    }
    if places.index.is_empty() {
        // Without chunks there is no block, and the fingerprint is two sums of it.
        let with = sum(&block);
        block[24..32].fill(0);
        let value = (u128::from(sum(&block)) << 64 | u128::from(with)).to_le_bytes();
        return fingerprint(bytes, &places.trailer, 3, value);
    }
    if let Some(stored) = bytes.get_mut(places.sums.clone())
        && stored.len() == block.len()
    {
        stored.copy_from_slice(&block);
    }
    fingerprint(bytes, &places.trailer, 3, XxHash3_128::oneshot(&block).to_le_bytes());
}

/// Sets the fingerprint to that of frames without checksums.
pub fn zero(bytes: &mut [u8], trailer: &Range<usize>) {
    fingerprint(bytes, trailer, 0, [0; 16]);
}

fn fingerprint(bytes: &mut [u8], trailer: &Range<usize>, kind: u8, value: [u8; 16]) {
    if let Some([at, stored @ ..]) = bytes.get_mut(trailer.end.saturating_sub(17)..trailer.end) {
        *at = kind;
        stored.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "the ranges are meant, not their numbers")]
    fn seals_depend_on_all_parts_but_what_may_change() {
        let places = Places {
            header: 0..100,
            index: 140..180,
            pages: vec![180..200],
            sums: 204..284,
            trailer: 284..340,
            metalayers: vec![90..95],
            chunks: vec![7, 8],
        };
        let sealed = |at: usize| {
            let mut bytes: Vec<u8> = (0..340).map(|i| i as u8).collect();
            bytes[at] ^= 1;
            seal(&mut bytes, &places);
            assert!(bytes[228..].starts_with(MAGIC));
            // All of the block except the sum of the whole header, and the fingerprint.
            (bytes[228..252].to_vec(), bytes[260..284].to_vec(), bytes[323..].to_vec())
        };
        let (_, rest, fingerprint) = sealed(110);
        for at in [0, 62, 65, 89, 95, 99, 140, 179, 284, 316] {
            assert_ne!(sealed(at).1, rest, "{at}");
        }
        for at in [63, 64, 66, 67, 90, 94] {
            assert_eq!(sealed(at).1, rest, "{at}");
            assert_ne!(sealed(at).2, fingerprint, "{at}");
        }
        let mut bytes = vec![9; 340];
        zero(&mut bytes, &places.trailer);
        assert_eq!((&bytes[..323], &bytes[323..]), (&[9; 323][..], &[0; 17][..]));
        // Places outside the file are ignored.
        seal(&mut [0; 10], &places);
        zero(&mut [0; 10], &places.trailer);
    }
}
