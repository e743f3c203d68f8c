//! The checksums of damaged frames: recomputed, or zeroed as C-Blosc2 does when it changes a frame.

use std::ops::Range;

use twox_hash::{XxHash3_64, XxHash3_128};

use super::walk::{FrameLayout, MAGIC};

/// How the checksums of a damaged frame are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Unchanged, so that the damage must be detected.
    Stale,
    /// Recomputed, as an attacker would do.
    Sealed,
    /// The fingerprint says that there are none, as after a change by C-Blosc2.
    Zeroed,
}

impl Seal {
    /// Treats the checksums of a frame in `bytes`; `chunks` are the sums of its stored chunks.
    pub fn apply(self, bytes: &mut [u8], layout: &FrameLayout, chunks: &[u64]) {
        match self {
            Self::Stale => {}
            Self::Sealed => seal(bytes, layout, chunks),
            Self::Zeroed => fingerprint(bytes, &layout.trailer, 0, [0; 16]),
        }
    }
}

/// Computes the sum of bytes.
pub fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Rewrites the pages and the block of checksums, and the fingerprint over the block.
fn seal(bytes: &mut [u8], layout: &FrameLayout, sums_of_chunks: &[u64]) {
    let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default().to_vec();
    let mut header = part(&layout.header);
    let whole = sum(&header);
    let threads = [63..65, 66..68];
    for range in layout.metalayers.iter().map(|(_, value)| value).chain(&threads) {
        if let Some(value) = header.get_mut(range.clone()) {
            value.fill(0);
        }
    }
    // The trailer up to its length field.
    let end = layout.trailer.end.saturating_sub(23).max(layout.trailer.start);
    let sums = [whole, sum(&header), sum(&part(&layout.index)), sum(&part(&(layout.trailer.start..end)))];
    let mut block = Vec::new();
    let mut chunks = sums_of_chunks.iter();
    for range in &layout.pages {
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
    block.extend_from_slice(&(layout.pages.len() as u32).to_le_bytes());
    for number in [sums_of_chunks.len() as u64].iter().chain(&sums) {
        block.extend_from_slice(&number.to_le_bytes());
    }
    if layout.index.is_empty() {
        // Without chunks there is no block, and the fingerprint is two sums of it.
        let with = sum(&block);
        block[24..32].fill(0);
        let value = (u128::from(sum(&block)) << 64 | u128::from(with)).to_le_bytes();
        return fingerprint(bytes, &layout.trailer, 3, value);
    }
    if let Some(stored) = bytes.get_mut(layout.sums.clone())
        && stored.len() == block.len()
    {
        stored.copy_from_slice(&block);
    }
    fingerprint(bytes, &layout.trailer, 3, XxHash3_128::oneshot(&block).to_le_bytes());
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
        let layout = FrameLayout {
            header: 0..100,
            index: 140..180,
            pages: vec![180..200],
            sums: 204..284,
            trailer: 284..340,
            metalayers: vec![(b"name".to_vec(), 90..95)],
            vlmetalayers: vec![],
        };
        let sealed = |at: usize| {
            let mut bytes: Vec<u8> = (0..340).map(|i| i as u8).collect();
            bytes[at] ^= 1;
            Seal::Sealed.apply(&mut bytes, &layout, &[7, 8]);
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
        Seal::Zeroed.apply(&mut bytes, &layout, &[]);
        assert_eq!((&bytes[..323], &bytes[323..]), (&[9; 323][..], &[0; 17][..]));
        // Places outside the file are ignored.
        Seal::Sealed.apply(&mut [0; 10], &layout, &[7, 8]);
        Seal::Zeroed.apply(&mut [0; 10], &layout, &[]);
    }
}
