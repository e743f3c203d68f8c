//! Removes the checksums of frames (docs/format/checksums.md) or recomputes them. Otherwise a mutated frame would be
//! rejected for its checksums, and nothing after them would be tested.

use std::ops::Range;

use b2_chunk::Chunk;
use b2_msgpack::Reader;
use b2_testkit::hostile::{self, MAGIC};

use super::frame::Places;
use super::{le32, le64};

/// Removes the checksums from a frame. The checksum block, if any, stays behind as dead bytes.
pub(crate) fn strip(bytes: &mut [u8]) {
    let len = bytes.len();
    if let Some(places) = Places::find(bytes) {
        if let Some(block) = bytes.get_mut(places.block()) {
            block.fill(0);
        }
        hostile::zero(bytes, &(places.trailer..len));
    }
}

/// Length of the end of the checksum block. The list of pages precedes it.
const END_LEN: usize = 56;
/// Length of an entry in that list: offset, number of sums, sum of the page.
const PAGE_LEN: usize = 24;

/// Recomputes all checksums, in the existing pages.
pub(crate) fn reseal(bytes: &mut [u8]) -> Option<()> {
    let places = Places::find(bytes)?;
    let end = places.trailer.checked_sub(END_LEN)?;
    let npages = le32(bytes, end + 12)? as usize;
    let block = end.checked_sub(npages.checked_mul(PAGE_LEN)?)?..places.trailer;
    if !bytes.get(end..)?.starts_with(MAGIC) {
        return None;
    }
    let page = |at| {
        let (offset, count) = (le64(bytes, at)?, le64(bytes, at + 8)?);
        let start = usize::try_from(offset).ok()?;
        let stop = start.checked_add(usize::try_from(count).ok()?.checked_mul(8)?)?;
        (stop <= bytes.len()).then_some(start..stop)
    };
    let places = hostile::Places {
        header: 0..places.header_len,
        index: places.index.clone(),
        pages: (block.start..end).step_by(PAGE_LEN).map(page).collect::<Option<_>>()?,
        sums: block,
        trailer: places.trailer..bytes.len(),
        metalayers: metalayers(bytes.get(..places.header_len)?)?,
        chunks: chunk_sums(bytes, &places)?,
    };
    hostile::seal(bytes, &places);
    Some(())
}

/// Returns the checksums of the stored chunks that the index refers to, in order.
fn chunk_sums(bytes: &[u8], places: &Places) -> Option<Vec<u64>> {
    let index = Chunk::from_bytes(bytes.get(places.index.clone())?.to_vec()).ok()?;
    // The index may claim to hold gigabytes.
    if index.nbytes() > 1 << 16 {
        return None;
    }
    let entries = index.decompress_bytes().ok()?;
    let mut sums = Vec::new();
    for entry in entries.as_chunks::<8>().0 {
        let Ok(offset) = usize::try_from(i64::from_le_bytes(*entry)) else { continue };
        let stored = places.header_len.checked_add(offset).and_then(|start| {
            let cbytes = le32(bytes, start.checked_add(12)?)? as usize;
            bytes.get(start..start.checked_add(cbytes)?)
        });
        sums.push(stored.map_or(0, hostile::sum));
    }
    Some(sums)
}

/// Returns the ranges of metalayer values, which C-Blosc2 changes in place.
fn metalayers(header: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut values = Vec::new();
    let mut r = Reader::at(header, 87);
    r.marker(0x93).ok()?;
    r.number::<u16>().ok()?;
    for _ in 0..r.map16().ok()? {
        r.fixstr().ok()?;
        let offset = r.number::<i32>().ok()? as usize;
        let value = Reader::at(header, offset).bin32().ok()?;
        let start = offset.checked_add(5)?;
        values.push(start..start.checked_add(value.len())?);
    }
    Some(values)
}
