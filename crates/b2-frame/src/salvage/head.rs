//! What can be told from a header, damaged or not.

use b2_chunk::DParams;
use bytes::Bytes;

use super::Condition;
use crate::header::{FIXED_HEADER_LEN, FrameHeader, MAGIC, MIN_HEADER_LEN};
use crate::plan::{Extent, FrameFile, OpenFile};
use crate::{FrameError, Metalayers, Storage};

/// Markers of the fixed header: bytes that are the same in all frames.
const MARKERS: [(usize, u8); 12] = [
    (0x0A, 0xD2),
    (0x0F, 0xCF),
    (0x18, 0xA4),
    (0x1D, 0xD3),
    (0x26, 0xD3),
    (0x2F, 0xD2),
    (0x34, 0xD2),
    (0x39, 0xD2),
    (0x3E, 0xD1),
    (0x41, 0xD1),
    (0x45, 0xD8),
    (0x57, 0x93),
];
/// Of those and the magic bytes so many must be right for the other fields to be believed.
const ENOUGH: usize = 16;

/// A header, its gaps filled.
pub(super) struct Head {
    pub(super) header: FrameHeader,
    pub(super) condition: Condition,
    pub(super) metalayers: Metalayers,
    pub(super) metalayers_condition: Condition,
}

/// Reads the header as far as it is to be believed.
pub(super) fn read(file: &OpenFile, storage: Storage, dparams: &DParams) -> Result<Option<Head>, FrameError> {
    let page = file.read(&Extent::at_most(FrameFile::Main, 0..FIXED_HEADER_LEN as u64 + 1))?;
    let parsed = FrameHeader::parse(&page).ok().filter(|header| header.storage() == storage);
    let (header, condition) = match parsed {
        Some(header) => (header, Condition::Intact),
        None => match mend(&page, storage, file.len()) {
            Some(header) => (header, Condition::Damaged),
            None => return Ok(None),
        },
    };
    let len = (header.header_len() as u64).min(file.len()).min(dparams.limits.max_metadata);
    let bytes = file.read(&Extent::at_most(FrameFile::Main, 0..len))?;
    let metalayers = parse_metalayers(&bytes);
    let metalayers_condition = if metalayers.is_some() { Condition::Intact } else { Condition::Lost };
    let metalayers = metalayers.unwrap_or_default();
    Ok(Some(Head { header, condition, metalayers, metalayers_condition }))
}

fn parse_metalayers(header: &Bytes) -> Option<Metalayers> {
    Metalayers::parse(header).ok()
}

/// Puts the fixed bytes right, and numbers that cannot be to what they can be.
fn mend(page: &[u8], storage: Storage, file_len: u64) -> Option<FrameHeader> {
    let mut bytes: [u8; FIXED_HEADER_LEN + 1] = page.try_into().ok()?;
    let right = MARKERS.iter().filter(|(at, marker)| bytes[*at] == *marker).count()
        + MAGIC.iter().zip(&bytes).filter(|(a, b)| a == b).count();
    if right < ENOUGH {
        return None;
    }
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    for (at, marker) in MARKERS {
        bytes[at] = marker;
    }
    let fixed = &mut bytes[..FIXED_HEADER_LEN];
    let int = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_be_bytes)
    };
    // The length is not needed: what there is, is the file.
    put(fixed, 16, &file_len.max(132).to_be_bytes());
    let header_len = int(fixed, 11);
    if header_len < MIN_HEADER_LEN as i32 || header_len as u64 > file_len.max(132) {
        put(fixed, 11, &(MIN_HEADER_LEN as i32).to_be_bytes());
    }
    if fixed[25] & 0x0F > 3 {
        fixed[25] = 0x12;
    }
    fixed[26] = u8::from(storage == Storage::Sparse);
    for at in [30, 39] {
        fixed[at] &= 0x7F;
    }
    if int(fixed, 48) <= 0 {
        put(fixed, 48, &1i32.to_be_bytes());
    }
    if int(fixed, 58) < 0 {
        put(fixed, 58, &0i32.to_be_bytes());
    }
    if fixed[68] & 0xFE != 0xC2 {
        fixed[68] = 0xC2;
    }
    if fixed[70] > 6 {
        fixed[70] = 6;
    }
    FrameHeader::parse(fixed).ok()
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    crate::header::patch::put(header, at, bytes);
}
