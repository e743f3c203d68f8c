//! Checksums that C-Blosc2 ignores (docs/format/checksums.md): sums of the stored chunks in pages,
//! a block between index and trailer that lists the pages, and the fingerprint of that block in the
//! trailer.
//!
//! ```text
//! pages, anywhere in the frame: u64 sum of each stored chunk
//! block: for each page u64 offset, u64 number of sums, u64 sum of the page
//!        "b2sums" 00 01   u32 algorithm   u32 number of pages   u64 number of stored chunks
//!        u64 sums of: header, header without what C-Blosc2 changes in place, index chunk, trailer
//! ```
//!
//! All numbers are little-endian. Sums are XXH3 with 64 bits; the fingerprint is XXH3 with 128 bits
//! over the block. A frame without chunks has no block, because C-Blosc2 expects its trailer
//! directly after the header. Readers rebuild the block and compare the fingerprint, which consists
//! of two sums of it.

mod chunks;
mod pages;

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;
use twox_hash::XxHash3_128;

pub(crate) use self::chunks::ChunkSums;
pub(crate) use self::pages::{ChunkSum, EntryHashing, Lookup, Page, PagePlan, SumTable, Sums, read_table};
use crate::format::digest::sum;
use crate::format::header::patch;
use crate::format::metalayers::Metalayers;
use crate::{FrameError, Structure};

pub(crate) const MAGIC: [u8; 8] = *b"b2sums\0\x01";
/// Identifies XXH3 with 64 bits and seed 0, the only algorithm so far.
const XXH3: u32 = 1;
/// Size of the fixed end of the block, after the list of pages, in bytes.
pub(crate) const END_LEN: usize = 56;
/// The metalayer of arrays.
const ARRAY: &[u8] = b"b2nd";
/// The fingerprint kind for 128 bits.
const KIND: u8 = 3;

/// Kind and value of the fingerprint in a trailer.
pub(crate) type Fingerprint = (u8, [u8; 16]);

/// The fingerprint of frames without checksums.
pub(crate) const NO_FINGERPRINT: Fingerprint = (0, [0; 16]);

/// The result of checking a frame's checksums, without reading chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// The frame has no checksums.
    None,
    /// The frame has checksums, and those of header, index and metadata match.
    Ok,
    /// A program that does not support the checksums has changed the frame, so they cannot show which
    /// bytes are damaged.
    Changed,
}

/// Returns the length of the block that ends with `end`, but no more than `most`.
pub(crate) fn block_len(end: &[u8], most: u64) -> u64 {
    let npages = match end.split_last_chunk::<END_LEN>() {
        Some((_, end)) if end.starts_with(&MAGIC) => u64::from(u32::from_le_bytes(*field(end, 12))),
        _ => 0,
    };
    npages.saturating_mul(Page::LEN as u64).saturating_add(END_LEN as u64).min(most)
}

/// Returns the length of the block at the end of `before_trailer`, or 0 if there is none.
pub(crate) fn stored_block_len(before_trailer: &[u8]) -> usize {
    match before_trailer.last_chunk::<END_LEN>() {
        Some(end) if end.starts_with(&MAGIC) => {
            let len = block_len(before_trailer, before_trailer.len() as u64);
            usize::try_from(len).unwrap_or(before_trailer.len())
        }
        _ => 0,
    }
}

/// Returns the field at offset `at` of the end of a block.
fn field<const N: usize>(end: &[u8; END_LEN], at: usize) -> &[u8; N] {
    end.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(&[0; N])
}

/// The parts of a frame that are covered by the block's own sums, as stored.
#[derive(Clone, Copy)]
pub(crate) struct FrameParts<'a> {
    /// The whole header.
    pub(crate) header: &'a Bytes,
    /// The index chunk; empty in a frame without chunks.
    pub(crate) index: &'a [u8],
    /// The trailer up to its length field.
    pub(crate) vlmetalayers: &'a [u8],
}

/// The result of a check.
pub(crate) struct SumCheck {
    pub(crate) checksums: Checksums,
    /// The pages with the sums of the chunks; `None` if there are none or they are unreliable.
    pub(crate) pages: Option<Vec<Page>>,
}

impl FrameParts<'_> {
    fn sums(&self) -> Result<[u64; 4], FrameError> {
        let stable = stable(self.header, &Metalayers::parse(self.header)?)?;
        Ok([sum(self.header), sum(&stable), sum(self.index), sum(self.vlmetalayers)])
    }

    /// Returns the block and its fingerprint. `pages` hold the sums of all stored chunks.
    pub(crate) fn encode(&self, pages: &[Page]) -> Result<(Vec<u8>, Fingerprint), FrameError> {
        let mut block = Vec::new();
        pages.iter().for_each(|page| page.encode(&mut block));
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&XXH3.to_le_bytes());
        let npages = u32::try_from(pages.len());
        let npages = npages.map_err(|_| FrameError::argument("chunks", "too many to have checksums"))?;
        block.extend_from_slice(&npages.to_le_bytes());
        block.extend_from_slice(&pages.iter().map(|page| page.count).sum::<u64>().to_le_bytes());
        for sum in self.sums()? {
            block.extend_from_slice(&sum.to_le_bytes());
        }
        let fingerprint = (KIND, XxHash3_128::oneshot(&block).to_le_bytes());
        Ok((block, fingerprint))
    }

    /// Returns the fingerprint of a frame without chunks. It consists of two sums of the block that
    /// is not stored: with and without the sum of the whole header.
    pub(crate) fn fingerprint_of_empty(&self) -> Result<Fingerprint, FrameError> {
        let mut block = self.encode(&[])?.0;
        let with = sum(&block);
        if let Some(header) = block.get_mut(24..32) {
            header.fill(0);
        }
        let mut value = [0; 16];
        for (place, sum) in value.as_chunks_mut::<8>().0.iter_mut().zip([with, sum(&block)]) {
            *place = sum.to_le_bytes();
        }
        Ok((KIND, value))
    }

    /// Computes the sum of the parts of an array's metadata that C-Blosc2 never changes: everything but the shape. It
    /// is 0 for frames that are not arrays.
    pub(crate) fn array_sum(&self) -> Result<u64, FrameError> {
        let metalayers = Metalayers::parse(self.header)?;
        let Some(value) = metalayers.get(ARRAY) else { return Ok(0) };
        let mut value = memory::copied(value)?;
        // After the version, the number of dimensions and the length of the shape: a marker and 8 bytes for each
        // dimension.
        let ndim = value.get(2).copied().unwrap_or(0).into();
        for dim in value.get_mut(4..).unwrap_or_default().as_chunks_mut::<9>().0.iter_mut().take(ndim) {
            let [_, number @ ..] = dim;
            number.fill(0);
        }
        Ok(sum(&value))
    }

    /// Compares the metadata of an array in a frame that C-Blosc2 may have changed.
    pub(crate) fn check_array(&self, expected: u64) -> Result<(), FrameError> {
        match self.array_sum()? == expected {
            true => Ok(()),
            false => Err(FrameError::Checksum {
                structure: Structure::Metalayers,
                what: "dtype, chunk or block shape of the array do not match their checksum",
            }),
        }
    }

    fn check_empty(&self, fingerprint: Fingerprint) -> Result<SumCheck, FrameError> {
        let (_, expected) = self.fingerprint_of_empty()?;
        let checksums = match (
            fingerprint.1 == expected,
            fingerprint.1.last_chunk::<8>() == expected.last_chunk::<8>(),
        ) {
            (true, _) => Checksums::Ok,
            (false, true) => Checksums::Changed,
            (false, false) => {
                let what = "header and trailer do not match the fingerprint";
                return Err(FrameError::Checksum { structure: Structure::Frame, what });
            }
        };
        Ok(SumCheck { checksums, pages: Some(Vec::new()) })
    }

    /// Checks these parts against the block at the end of `before_trailer` and against the
    /// fingerprint. `nstored` is the number of stored chunks; `None` if the frame has no chunks and
    /// so no block.
    pub(crate) fn check(
        &self,
        nstored: Option<u64>,
        before_trailer: &[u8],
        fingerprint: Fingerprint,
    ) -> Result<SumCheck, FrameError> {
        let rest = (before_trailer.len() as u64).saturating_sub(block_len(before_trailer, u64::MAX));
        let stored = usize::try_from(rest).ok().and_then(|at| before_trailer.get(at..)).unwrap_or_default();
        if fingerprint == NO_FINGERPRINT {
            // When C-Blosc2 changes vlmetalayers, it zeroes the fingerprint and leaves the block in
            // place.
            let left_behind = stored.last_chunk::<END_LEN>().is_some_and(|end| end.starts_with(&MAGIC));
            let checksums = if left_behind { Checksums::Changed } else { Checksums::None };
            return Ok(SumCheck { checksums, pages: None });
        }
        let fail = |structure, what| Err(FrameError::Checksum { structure, what });
        if fingerprint.0 != KIND {
            return fail(Structure::Trailer, "the fingerprint does not have 128 bits");
        }
        let Some(nstored) = nstored else { return self.check_empty(fingerprint) };
        let block = stored;
        if XxHash3_128::oneshot(block).to_le_bytes() != fingerprint.1 {
            return fail(Structure::Checksums, "they do not match the fingerprint in the trailer");
        }
        let Some((table, end)) = block.split_last_chunk::<END_LEN>() else {
            return fail(Structure::Checksums, "they are truncated");
        };
        let pages = read_table(table);
        let count = pages.iter().try_fold(0u64, |sum, page| sum.checked_add(page.count));
        let counted = u64::from_le_bytes(*field(end, 16));
        if !end.starts_with(&MAGIC)
            || *field(end, 8) != XXH3.to_le_bytes()
            || count != Some(counted)
            || counted != nstored
        {
            return fail(Structure::Checksums, "they have an unknown algorithm or belong to other chunks");
        }
        let [header, stable, index, vlmetalayers] = self.sums()?;
        let is = |at: usize, sum: u64| u64::from_le_bytes(*field(end, at)) == sum;
        if !is(40, index) {
            return fail(Structure::Index, "it does not match its checksum");
        }
        if !is(48, vlmetalayers) {
            return fail(Structure::Trailer, "the vlmetalayers do not match their checksum");
        }
        let checksums = match (is(24, header), is(32, stable)) {
            (true, true) => Checksums::Ok,
            // C-Blosc2 changes values of metalayers and numbers of threads in place.
            (false, true) => Checksums::Changed,
            _ => return fail(Structure::Header, "it does not match its checksum"),
        };
        Ok(SumCheck { checksums, pages: Some(pages) })
    }
}

/// Returns the header with zeros in place of the fields that C-Blosc2 changes in place: values of
/// metalayers, numbers of threads.
pub(crate) fn stable(header: &Bytes, metalayers: &Metalayers) -> Result<Vec<u8>, OutOfMemory> {
    let mut stable = memory::copied(header)?;
    let values = metalayers.iter().filter_map(|(name, _)| metalayers.place(header, name));
    for range in values.chain(patch::NTHREADS) {
        if let Some(bytes) = stable.get_mut(range) {
            bytes.fill(0);
        }
    }
    Ok(stable)
}
