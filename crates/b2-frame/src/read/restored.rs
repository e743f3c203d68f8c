//! Files whose start is damaged, read with the copy that is stored with the checksums (docs/format/start-copy.md).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use twox_hash::XxHash3_128;

use crate::format::checksums::{END_LEN, MAGIC, block_len, stable};
use crate::format::digest::sum;
use crate::format::header::FrameHeader;
use crate::format::metalayers::Metalayers;
use crate::format::records::{FoundTable, TableKind};
use crate::format::start_copy;
use crate::format::trailer::{TRAILER_TAIL_LEN, Trailer};
use crate::names::FrameFile;
use crate::storage::files::{Extent, OpenFile};
use crate::storage::redo::RepairedFile;
use crate::{FrameError, Structure};

/// Returns the error of operations that need the header in the file itself.
pub(crate) fn restored_error() -> FrameError {
    let what = "a copy of it is intact, from which `salvage` makes a sound file";
    FrameError::Checksum { structure: Structure::Header, what }
}

/// The copy of the start of a frame whose newest state ends with its file.
#[derive(Debug)]
pub(crate) struct StartCopy {
    bytes: Bytes,
    /// The sums of the header: of all of it, and of the part that C-Blosc2 does not change.
    header: [u64; 2],
}

impl StartCopy {
    /// Finds the copy from the end of the file. It is used only if it belongs to the last state: trailer, checksums,
    /// list and copy must match each other, and the frame must end with the file.
    pub(crate) fn find(file: &OpenFile, limit: u64) -> Option<Self> {
        let read = |range: Range<u64>| {
            let is_short = range.end.checked_sub(range.start)? <= limit;
            is_short.then(|| file.read(&Extent::exactly(FrameFile::Main, range)).ok())?
        };
        let frame_len = file.len();
        let tail = read(frame_len.checked_sub(TRAILER_TAIL_LEN as u64)?..frame_len)?;
        let trailer = frame_len.checked_sub(Trailer::len(&tail, frame_len).ok()? as u64)?;
        let end = read(trailer.checked_sub(END_LEN as u64)?..trailer)?;
        if !end.starts_with(&MAGIC) {
            return None;
        }
        let block_start = trailer.checked_sub(block_len(&end, limit))?;
        let block = read(block_start..trailer)?;
        if tail.last_chunk() != Some(&XxHash3_128::oneshot(&block).to_le_bytes()) {
            return None;
        }
        let number = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|n| u64::from_le_bytes(*n));
        let list_end = TableKind::Sums.end_len() as u64;
        let list = number(&read(block_start.checked_sub(list_end)?..block_start)?, 8)?;
        let list_start = block_start.checked_sub(list)?;
        let list = read(list_start..block_start)?;
        let (index, nstored) = (number(&end, 40)?, number(&end, 16)?);
        let page = FoundTable::at_end(TableKind::Sums, &list, list_start, index, nstored).table()?.copy?;
        let bytes = start_copy::in_page(&page, &read(page.range()?)?)?;
        let header = FrameHeader::parse(&bytes).ok()?;
        (header.frame_len() == frame_len)
            .then_some(Self { bytes, header: [number(&end, 24)?, number(&end, 32)?] })
    }

    /// Returns whether the header at the start of `file` matches its checksum, except for fields that C-Blosc2 changes.
    pub(crate) fn header_is_intact(&self, file: &OpenFile) -> bool {
        let Ok(header) = FrameHeader::parse(&self.bytes) else { return false };
        let len = header.header_len() as u64;
        let Ok(there) = file.read(&Extent::at_most(FrameFile::Main, 0..len)) else { return false };
        sum(&there) == self.header[0]
            || Metalayers::parse(&there)
                .is_ok_and(|values| stable(&there, &values).is_ok_and(|there| sum(&there) == self.header[1]))
    }

    /// Returns the file with the copy in place of its start; only what follows the header if `behind_header`. `None` if
    /// they are the same.
    pub(crate) fn applied(&self, file: &OpenFile, behind_header: bool) -> Option<OpenFile> {
        let header = FrameHeader::parse(&self.bytes).ok()?;
        let start = if behind_header { header.header_len().min(self.bytes.len()) } else { 0 };
        let bytes = self.bytes.slice(start..);
        let there = start as u64..(start as u64).checked_add(bytes.len() as u64)?;
        if file.read(&Extent::exactly(FrameFile::Main, there)).is_ok_and(|there| there == bytes) {
            return None;
        }
        let file = OpenFile::new(
            Arc::new(RepairedFile { file: file.storage().clone(), start, bytes }),
            file.name(),
            0,
        );
        file.ok()
    }
}

/// Returns the file with its header restored, if that is damaged and there is a copy of it.
pub(crate) fn restored(file: &OpenFile, limit: u64) -> Option<OpenFile> {
    let copy = StartCopy::find(file, limit)?;
    if copy.header_is_intact(file) { None } else { copy.applied(file, false) }
}
