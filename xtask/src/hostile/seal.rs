//! The checksums of damaged frames: left stale, made right again, or zeroed as C-Blosc2 does when it changes a frame.

use std::ops::Range;

use twox_hash::{XxHash3_64, XxHash3_128};

use super::layout::Layout;

/// What a block of checksums begins with (docs/format/checksums.md).
pub(crate) const MAGIC: &[u8; 8] = b"b2sums\0\x01";

/// What becomes of the checksums of a damaged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// They stay as they were: the damage must be seen.
    Stale,
    /// They are made to fit, as somebody would who means harm.
    Sealed,
    /// The fingerprint says that there are none, as after a change by C-Blosc2.
    Zeroed,
}

pub(crate) const SEALS: [Seal; 3] = [Seal::Stale, Seal::Sealed, Seal::Zeroed];

/// Where the parts are that sums are taken of, after the damage.
pub(crate) struct Places {
    pub(crate) header: Range<usize>,
    pub(crate) index: Range<usize>,
    /// The block of checksums.
    pub(crate) sums: Range<usize>,
    /// The pages with the sums of chunks.
    pub(crate) pages: Vec<Range<usize>>,
    pub(crate) trailer: Range<usize>,
    /// Values of metalayers.
    pub(crate) metalayers: Vec<Range<usize>>,
    /// Sums of the stored chunks.
    pub(crate) chunks: Vec<u64>,
}

impl Places {
    /// Those of a frame whose fields changed in place.
    pub(crate) fn of(layout: &Layout, chunks: Vec<u64>) -> Self {
        Self {
            header: layout.header.clone(),
            index: layout.index.clone(),
            sums: layout.sums.clone(),
            pages: layout.pages.clone(),
            trailer: layout.trailer.clone(),
            metalayers: layout.metalayers.iter().map(|(_, range)| range.clone()).collect(),
            chunks,
        }
    }
}

/// The sum of some bytes.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Writes pages and block of checksums anew, and the fingerprint over it.
pub(crate) fn seal(bytes: &mut [u8], places: &Places) {
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
        if let Some(stored) = bytes.get_mut(range.clone())
            && stored.len() == page.len()
        {
            stored.copy_from_slice(&page);
        }
        for number in [range.start as u64, range.len() as u64 / 8, sum(&page)] {
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

/// Makes the fingerprint that of frames without checksums.
pub(crate) fn zero(bytes: &mut [u8], trailer: &Range<usize>) {
    fingerprint(bytes, trailer, 0, [0; 16]);
}

fn fingerprint(bytes: &mut [u8], trailer: &Range<usize>, kind: u8, value: [u8; 16]) {
    if let Some([at, stored @ ..]) = bytes.get_mut(trailer.end.saturating_sub(17)..trailer.end) {
        *at = kind;
        stored.copy_from_slice(&value);
    }
}
