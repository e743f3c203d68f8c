//! The checksums of frames (docs/format/checksums.md): taken off, or made to fit again. A changed frame would otherwise
//! be refused for its sums, and nothing behind them be tested.

use b2_chunk::Chunk;
use b2_msgpack::Reader;
use twox_hash::{XxHash3_64, XxHash3_128};

use super::frame::Places;

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

/// Computes all sums anew.
pub(super) fn reseal(bytes: &mut [u8]) -> Option<()> {
    let len = bytes.len();
    let places = Places::find(bytes)?;
    let sum = |part: &[u8]| XxHash3_64::oneshot(part).to_le_bytes();
    let index = bytes.get(places.index.clone())?;
    let entries = match index.is_empty() {
        true => Vec::new(),
        false => Chunk::parse(index.to_vec().into()).ok()?.decompress().ok()?,
    };
    let entries = entries.as_chunks::<8>().0;
    let mut block = b"b2sums\0\x01\x01\0\0\0".to_vec();
    block.extend((entries.len() as u32).to_le_bytes());
    let header = bytes.get(..places.header_len)?;
    block.extend(sum(header));
    block.extend(sum(&stable(header)?));
    block.extend(sum(index));
    block.extend(sum(bytes.get(places.trailer..len - 23)?));
    for entry in entries {
        let offset = i64::from_le_bytes(*entry);
        let stored = usize::try_from(offset).ok().and_then(|offset| {
            let start = places.header_len.checked_add(offset)?;
            let cbytes = super::le32(bytes, start.checked_add(12)?)? as usize;
            bytes.get(start..start.checked_add(cbytes)?)
        });
        block.extend(stored.map_or([0; 8], sum));
    }
    let fingerprint = XxHash3_128::oneshot(&block).to_le_bytes();
    if !entries.is_empty() {
        let start = places.trailer.checked_sub(block.len())?;
        bytes.get_mut(start..places.trailer)?.copy_from_slice(&block);
    }
    bytes[len - 17] = 3;
    bytes[len - 16..].copy_from_slice(&fingerprint);
    Some(())
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
