//! What can be told from a header, damaged or not.

use std::sync::Arc;

use b2_chunk::DParams;
use b2_core::memory;
use bytes::Bytes;

use super::Condition;
use crate::format::checksums::{stable, sum};
use crate::format::header::{FIXED_HEADER_LEN, FrameHeader, MAGIC, MIN_HEADER_LEN};
use crate::names::FrameFile;
use crate::storage::files::{Extent, OpenFile};
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
/// How many of these markers and of the magic bytes must be right for the other fields to be trusted.
const ENOUGH: usize = 7;

/// A header, its gaps filled.
pub(super) struct Head {
    pub(super) header: FrameHeader,
    pub(super) condition: Condition,
    pub(super) metalayers: Metalayers,
    pub(super) metalayers_condition: Condition,
    /// No chunk is before this byte, whatever the header says about its length.
    pub(super) end: u64,
    pub(super) against_sum: AgainstSum,
}

/// What the checksum says of a header in which nothing contradicts the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgainstSum {
    /// It is right, or there is none.
    Fits,
    /// One byte was wrong, and is right now.
    PutRight,
    /// Something is wrong.
    Differs,
}

/// Headers up to this size are put right where one byte is wrong, in bytes: the sum tells which one by trying.
const BYTE_BY_BYTE: usize = 2 << 10;
/// Up to this size where one bit is wrong.
const BIT_BY_BIT: usize = 16 << 10;

impl Head {
    /// Compared with its checksums, those of all of it and of what C-Blosc2 does not change. One wrong byte is put right.
    pub(super) fn compared(
        mut self,
        file: &OpenFile,
        sums: [u64; 2],
        dparams: &DParams,
    ) -> Result<Self, FrameError> {
        let len = self.header.header_len() as u64;
        if self.condition != Condition::Intact || len > dparams.limits.max_metadata {
            return Ok(self);
        }
        let bytes = file.read(&Extent::at_most(FrameFile::Main, 0..len))?;
        if sum(&bytes) == sums[0] || sum(&stable(&bytes, &self.metalayers)?) == sums[1] {
            return Ok(self);
        }
        if let Some(right) = put_right(&bytes, sums[0])? {
            let file = OpenFile::new(Arc::new(Bytes::from(right)), file.name(), 0)?;
            if let Some(head) = read(&file, self.header.storage(), dparams)? {
                return Ok(Self { against_sum: AgainstSum::PutRight, ..head });
            }
        }
        self.against_sum = AgainstSum::Differs;
        Ok(self)
    }

    /// What is to be said of the header.
    pub(super) fn told(&self) -> Condition {
        match self.condition {
            Condition::Intact if self.against_sum != AgainstSum::Fits => Condition::Damaged,
            condition => condition,
        }
    }

    /// What is to be said of the metalayers.
    pub(super) fn metalayers_told(&self) -> Condition {
        match self.metalayers_condition {
            Condition::Intact if self.against_sum == AgainstSum::Differs => Condition::Damaged,
            condition => condition,
        }
    }
}

/// The bytes that have this sum and differ from `bytes` in one byte, if there are some; of long ones in one bit.
fn put_right(bytes: &[u8], expected: u64) -> Result<Option<Vec<u8>>, FrameError> {
    let one_bit = [1, 2, 4, 8, 16, 32, 64, 128];
    let any: [u8; 255] = std::array::from_fn(|i| i as u8 + 1);
    let changes = if bytes.len() <= BYTE_BY_BYTE { &any[..] } else { &one_bit };
    if bytes.len() > BIT_BY_BIT {
        return Ok(None);
    }
    let mut right = memory::copied(bytes)?;
    for at in 0..right.len() {
        for &change in changes {
            if let Some(byte) = right.get_mut(at) {
                *byte ^= change;
            }
            if sum(&right) == expected {
                return Ok(Some(right));
            }
            if let Some(byte) = right.get_mut(at) {
                *byte ^= change;
            }
        }
    }
    Ok(None)
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
    let read = |len: u64| file.read(&Extent::at_most(FrameFile::Main, 0..len));
    let mut header = header;
    let bytes = read(len)?;
    let mut metalayers = Metalayers::parse(&bytes).ok();
    let mut end = metalayers.as_ref().map_or(FIXED_HEADER_LEN, |there| end_of(there, &bytes));
    if metalayers.is_none() || condition != Condition::Intact {
        // The length may be what is wrong: the metalayers tell where they end.
        let bytes = read(WINDOW.min(dparams.limits.max_metadata))?;
        if let Ok(there) = Metalayers::parse(&bytes) {
            end = end_of(&there, &bytes);
            header.header_len = end as u32;
            metalayers = Some(there);
        }
    }
    let metalayers_condition = if metalayers.is_some() { Condition::Intact } else { Condition::Lost };
    let metalayers = metalayers.unwrap_or_default();
    let end = end.min(header.header_len()) as u64;
    Ok(Some(Head { header, condition, metalayers, metalayers_condition, end, against_sum: AgainstSum::Fits }))
}

/// Where metalayers are looked for if nothing tells how long they are, in bytes.
const WINDOW: u64 = 1 << 20;

/// The end of the header that `bytes` start with. Values are slices of `bytes`.
fn end_of(metalayers: &Metalayers, bytes: &Bytes) -> usize {
    let ends = metalayers
        .iter()
        .map(|(_, value)| (value.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize) + value.len());
    ends.max().unwrap_or(MIN_HEADER_LEN)
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
    crate::format::header::patch::put(header, at, bytes);
}
