//! Recovers information from a header, damaged or not.

use std::sync::Arc;

use b2_chunk::DParams;
use b2_core::memory;
use bytes::Bytes;

use crate::format::checksums::stable;
use crate::format::digest::sum;
use crate::format::header::{FIXED_HEADER_LEN, FrameHeader, MAGIC, MIN_HEADER_LEN};
use crate::names::FrameFile;
use crate::storage::files::{Extent, OpenFile};
use crate::{FrameError, FrameParams, Metalayers, Storage};

/// How a part of a damaged frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// Complete and in its place.
    Intact,
    /// Some of its fields could not be trusted.
    Damaged,
    /// Not at the position in the header, or the position is unknown: found by searching all bytes.
    Found,
    /// It was damaged, and its copy was used (docs/format/start-copy.md).
    Restored,
    /// Lost or damaged; replaced by the caller's value.
    Given,
    /// Nothing is left of it.
    Lost,
}

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
const MIN_MARKERS: usize = 7;

/// Information from the caller about a frame that may have lost its header.
#[derive(Clone, Debug)]
pub struct KnownHeader {
    /// Item, block and chunk size, defaults, and metalayers.
    pub params: FrameParams,
    /// Uncompressed size of all chunks together, in bytes.
    pub nbytes: u64,
}

/// A header with its damaged fields filled in.
pub(super) struct RepairedHeader {
    pub(super) header: FrameHeader,
    pub(super) condition: Condition,
    pub(super) metalayers: Metalayers,
    pub(super) metalayers_condition: Condition,
    /// No chunk starts before this byte, whatever length the header gives.
    pub(super) end: u64,
    pub(super) against_sum: AgainstSum,
}

/// The checksum's verdict on a header that is valid in itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgainstSum {
    /// The checksum matches, or there is none.
    Fits,
    /// One byte was wrong and has been corrected.
    PutRight,
    /// The checksum does not match.
    Differs,
}

/// Headers up to this size are corrected if one byte is wrong, in bytes: by trying which change matches the checksum.
const BYTE_BY_BYTE: usize = 2 << 10;
/// Headers up to this size are corrected if one bit is wrong.
const BIT_BY_BIT: usize = 16 << 10;

impl RepairedHeader {
    /// Compares the header with its checksums: of the whole header, and of the part that C-Blosc2 does not change.
    /// Corrects one wrong byte.
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

    /// Replaces lost parts (the whole header, or metalayers) by those of `given`. Parts that match their checksum are
    /// not replaced.
    pub(super) fn completed(head: Option<Self>, given: &KnownHeader, storage: Storage) -> Self {
        let metalayers = |found: &Metalayers| {
            let given = given.params.metalayers.iter().map(|(name, value)| (&name[..], &value[..]));
            let is_given = |name: &[u8]| given.clone().any(|(given, _)| given == name);
            let others = found.iter().filter(|(name, _)| !is_given(name));
            let all = given.clone().chain(others).map(|(name, value)| (name.to_vec(), value.to_vec()));
            Metalayers::new(all.collect()).unwrap_or_default()
        };
        match head {
            Some(head) if head.condition == Condition::Intact => {
                let there = |name: &[u8]| head.metalayers.get(name).is_some();
                let complete = given.params.metalayers.iter().all(|(name, _)| there(name));
                if complete && head.against_sum != AgainstSum::Differs {
                    return head;
                }
                let metalayers = metalayers(&head.metalayers);
                Self { metalayers, metalayers_condition: Condition::Given, ..head }
            }
            damaged => {
                let found = damaged.map(|head| head.metalayers).unwrap_or_default();
                let header = FrameHeader {
                    nbytes: given.nbytes,
                    chunksize: given.params.chunksize.map_or(0, |size| size as i32),
                    ..given.params.header(storage, false)
                };
                Self {
                    header,
                    condition: Condition::Given,
                    metalayers: metalayers(&found),
                    metalayers_condition: Condition::Given,
                    end: 0,
                    against_sum: AgainstSum::Fits,
                }
            }
        }
    }

    /// The start of the chunks, if the header defines it.
    pub(super) fn data_start(&self) -> Option<u64> {
        (self.condition != Condition::Given).then(|| self.header.header_len() as u64)
    }

    /// Returns whether the header is complete: that in the file, or one that was given.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.condition, Condition::Intact | Condition::Given)
    }

    /// The reported condition of the header. `restored` is whether it is a copy.
    pub(super) fn condition(&self, restored: bool) -> Condition {
        match self.condition {
            Condition::Intact if restored && self.against_sum == AgainstSum::Fits => Condition::Restored,
            Condition::Intact if self.against_sum != AgainstSum::Fits => Condition::Damaged,
            condition => condition,
        }
    }

    /// The reported condition of the metalayers. `restored` is whether they are copies.
    pub(super) fn metalayers_told(&self, restored: bool) -> Condition {
        match self.metalayers_condition {
            Condition::Intact if restored && self.against_sum == AgainstSum::Fits => Condition::Restored,
            Condition::Intact if self.against_sum == AgainstSum::Differs => Condition::Damaged,
            condition => condition,
        }
    }
}

/// Finds bytes with this checksum that differ from `bytes` in one byte, or in one bit if `bytes` is long.
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

/// Reads the header as far as it can be trusted.
pub(super) fn read(
    file: &OpenFile,
    storage: Storage,
    dparams: &DParams,
) -> Result<Option<RepairedHeader>, FrameError> {
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
        // The length itself may be wrong: the metalayers define their own end.
        let bytes = read(WINDOW_LEN.min(dparams.limits.max_metadata))?;
        if let Ok(there) = Metalayers::parse(&bytes) {
            end = end_of(&there, &bytes);
            header.header_len = end as u32;
            metalayers = Some(there);
        }
    }
    let (metalayers, metalayers_condition) = match metalayers {
        Some(metalayers) => (metalayers, Condition::Intact),
        None => match Metalayers::parse_damaged(&bytes, &mut Vec::new()) {
            // The length in the header counts: that of the metalayers is unknown.
            Ok(some) if some.iter().len() > 0 => (some, Condition::Damaged),
            _ => (Metalayers::default(), Condition::Lost),
        },
    };
    let end = end.min(header.header_len()) as u64;
    Ok(Some(RepairedHeader {
        header,
        condition,
        metalayers,
        metalayers_condition,
        end,
        against_sum: AgainstSum::Fits,
    }))
}

/// Where to look for metalayers if their length is unknown, in bytes.
const WINDOW_LEN: u64 = 1 << 20;

/// Returns the end of the header that `bytes` start with. Values are slices of `bytes`.
fn end_of(metalayers: &Metalayers, bytes: &Bytes) -> usize {
    let ends = metalayers
        .iter()
        .map(|(_, value)| (value.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize) + value.len());
    ends.max().unwrap_or(MIN_HEADER_LEN)
}

/// Corrects the constant bytes, and replaces impossible numbers by possible ones.
fn mend(page: &[u8], storage: Storage, file_len: u64) -> Option<FrameHeader> {
    let mut bytes: [u8; FIXED_HEADER_LEN + 1] = page.try_into().ok()?;
    let right = MARKERS.iter().filter(|(at, marker)| bytes[*at] == *marker).count()
        + MAGIC.iter().zip(&bytes).filter(|(a, b)| a == b).count();
    if right < MIN_MARKERS {
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
    // The stored length is not needed: use that of the file.
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
