//! The checksums of frames (docs/format/checksums.md): taken off, or made to fit again. A changed frame would otherwise
//! be refused for its sums, and nothing behind them be tested.

use b2_chunk::Chunk;
use b2_msgpack::Reader;
use twox_hash::{XxHash3_64, XxHash3_128};

use super::frame::Places;
use super::{le32, le64, put};

/// Makes a frame one without checksums: the block, if there is one, stays behind as dead bytes.
pub(crate) fn strip(bytes: &mut [u8]) {
    let len = bytes.len();
    if let Some(places) = Places::find(bytes) {
        if let Some(block) = bytes.get_mut(places.block(len)) {
            block.fill(0);
        }
        bytes[len - 17..].fill(0);
    }
}

/// Length of the end of the block, which the list of pages is in front of.
const END_LEN: usize = 56;
/// Length of an entry of that list: offset, number of sums, sum of the page.
const PAGE_LEN: usize = 24;

/// Computes all sums anew, in the pages that there are.
pub(crate) fn reseal(bytes: &mut [u8]) -> Option<()> {
    let len = bytes.len();
    let places = Places::find(bytes)?;
    let end = places.trailer.checked_sub(END_LEN)?;
    let npages = le32(bytes, end + 12)? as usize;
    let block = end.checked_sub(npages.checked_mul(PAGE_LEN)?)?..places.trailer;
    if !bytes.get(end..)?.starts_with(b"b2sums") {
        return None;
    }
    let sums = chunk_sums(bytes, &places)?;
    let mut rest = &sums[..];
    for at in (block.start..end).step_by(PAGE_LEN) {
        let (offset, count) = (le64(bytes, at)?, le64(bytes, at + 8)?);
        let start = usize::try_from(offset).ok()?;
        let stop = start.checked_add(usize::try_from(count).ok()?.checked_mul(8)?)?;
        let page = bytes.get_mut(start..stop)?;
        let (these, others) = rest.split_at(rest.len().min(page.len()));
        page[..these.len()].copy_from_slice(these);
        rest = others;
        let sum = sum(page);
        put(bytes, at + 16, &sum);
    }
    put(bytes, end + 16, &(sums.len() as u64 / 8).to_le_bytes());
    let header = bytes.get(..places.header_len)?;
    let parts = [
        sum(header),
        sum(&stable(header)?),
        sum(bytes.get(places.index.clone())?),
        sum(bytes.get(places.trailer..len - 23)?),
    ];
    put(bytes, end + 24, &parts.concat());
    let fingerprint = XxHash3_128::oneshot(bytes.get(block)?).to_le_bytes();
    bytes[len - 17] = 3;
    bytes[len - 16..].copy_from_slice(&fingerprint);
    Some(())
}

/// The sums of the stored chunks that the index names, one after the other.
fn chunk_sums(bytes: &[u8], places: &Places) -> Option<Vec<u8>> {
    let index = Chunk::parse(bytes.get(places.index.clone())?.to_vec().into()).ok()?;
    // It may say that it holds gigabytes.
    if index.nbytes() > 1 << 16 {
        return None;
    }
    let entries = index.decompress().ok()?;
    let mut sums = Vec::new();
    for entry in entries.as_chunks::<8>().0 {
        let Ok(offset) = usize::try_from(i64::from_le_bytes(*entry)) else { continue };
        let stored = places.header_len.checked_add(offset).and_then(|start| {
            let cbytes = le32(bytes, start.checked_add(12)?)? as usize;
            bytes.get(start..start.checked_add(cbytes)?)
        });
        sums.extend(stored.map_or([0; 8], sum));
    }
    Some(sums)
}

fn sum(part: &[u8]) -> [u8; 8] {
    XxHash3_64::oneshot(part).to_le_bytes()
}

/// The header with zeros for what C-Blosc2 changes in place.
fn stable(header: &[u8]) -> Option<Vec<u8>> {
    let mut stable = header.to_vec();
    for at in [63, 64, 66, 67] {
        *stable.get_mut(at)? = 0;
    }
    let mut r = Reader::at(header, 87);
    r.marker(0x93).ok()?;
    r.number::<u16>().ok()?;
    for _ in 0..r.map16().ok()? {
        r.fixstr().ok()?;
        let offset = r.number::<i32>().ok()? as usize;
        let value = Reader::at(header, offset).bin32().ok()?;
        let start = offset.checked_add(5)?;
        stable.get_mut(start..start.checked_add(value.len())?)?.fill(0);
    }
    Some(stable)
}
