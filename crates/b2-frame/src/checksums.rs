//! Checksums that C-Blosc2 leaves alone (docs/format/checksums.md): sums of the stored chunks in pages, a block between
//! index and trailer that lists the pages, and the fingerprint of that block in the trailer.
//!
//! ```text
//! pages, anywhere in the frame: u64 sum of each stored chunk
//! block: for each page u64 offset, u64 number of sums, u64 sum of the page
//!        "b2sums" 00 01   u32 algorithm   u32 number of pages   u64 number of stored chunks
//!        u64 sums of: header, header without what C-Blosc2 changes in place, index chunk, trailer
//! ```
//!
//! All numbers are little-endian, sums are XXH3 of 64 bits, the fingerprint is XXH3 of 128 bits over the block. In
//! frames without chunks the block is left out: C-Blosc2 looks for the trailer right behind the header there. It
//! follows from the rest, and two sums of it are the fingerprint.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

mod chunks;
mod pages;

use std::hash::Hasher;

use b2_chunk::ChunkHeader;
use b2_chunk::memory::{self, OutOfMemory};
use bytes::Bytes;
use twox_hash::{XxHash3_64, XxHash3_128};

pub(crate) use self::chunks::ChunkSums;
pub(crate) use self::pages::{Kept, Page, Plan, SumTable, Sums, read_table};
use crate::header::patch;
use crate::metalayers::Metalayers;
use crate::{FrameError, Structure};

pub(crate) const MAGIC: [u8; 8] = *b"b2sums\0\x01";
/// XXH3 of 64 bits with seed 0, the only one so far.
const XXH3: u32 = 1;
/// Size of the block without the list of pages, in bytes. It is the end of the block.
pub(crate) const END_LEN: usize = 56;
/// Fingerprints of 128 bits, the kind used here.
const KIND: u8 = 3;

/// The sum of some bytes.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The sum of bytes that come in pieces.
#[derive(Default)]
pub(crate) struct Sum(XxHash3_64);

impl Sum {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.write(piece);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Kind and value of the fingerprint in a trailer.
pub(crate) type Fingerprint = (u8, [u8; 16]);

/// The fingerprint of frames without checksums.
pub(crate) const NO_FINGERPRINT: Fingerprint = (0, [0; 16]);

/// What the checksums of a frame say, as far as it is known without reading chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// There are none.
    None,
    /// They are there, and those of header, index and metadata are right.
    Ok,
    /// Another program, which does not know them, changed the frame: what it did not change cannot be told from
    /// what it did.
    Changed,
}

/// When chunks are compared with their checksums on decoding, if they have some.
/// [`SuperChunk::chunk`](crate::SuperChunk::chunk) and
/// [`SuperChunk::verify_checksums`](crate::SuperChunk::verify_checksums) always compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compare {
    /// Where all of a chunk is decoded and comparing takes less than about 5 % of that: with lz4 and blosclz chunks that shrank
    /// to a seventh, with zstd to three sevenths, with zlib to six.
    #[default]
    WhereCheap,
    /// Where all of a chunk is read.
    WholeChunks,
    /// Also where a part of a chunk is wanted; all of it is read then.
    Always,
}

impl Compare {
    /// Whether a chunk is compared of which the whole is wanted, or a part.
    pub(crate) fn asks(self, header: &ChunkHeader, whole: bool) -> bool {
        match self {
            Self::WhereCheap => whole && is_cheap(header),
            Self::WholeChunks => whole,
            Self::Always => true,
        }
    }
}

/// Whether comparing a chunk takes little beside decoding it. A sum is made of 25 to 35 GB/s, and a fast codec writes about
/// 10 GB/s: 5 % of its time are enough for a seventh of the bytes.
fn is_cheap(header: &ChunkHeader) -> bool {
    let (stored, plain) = (header.cbytes() as u64, header.nbytes() as u64);
    stored.saturating_mul(7) <= plain.saturating_mul(header.decoding_cost())
}

/// Length of the block, given the bytes it ends with; never more than `most`.
pub(crate) fn block_len(end: &[u8], most: u64) -> u64 {
    let npages = match end.split_last_chunk::<END_LEN>() {
        Some((_, end)) if end.starts_with(&MAGIC) => u64::from(u32::from_le_bytes(*field(end, 12))),
        _ => 0,
    };
    npages.saturating_mul(Page::LEN as u64).saturating_add(END_LEN as u64).min(most)
}

/// The number at `at` of the end of a block.
fn field<const N: usize>(end: &[u8; END_LEN], at: usize) -> &[u8; N] {
    end.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(&[0; N])
}

/// The parts of a frame that the sums are taken of, as stored.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The whole header.
    pub(crate) header: &'a Bytes,
    /// The index chunk; empty without chunks.
    pub(crate) index: &'a [u8],
    /// The trailer up to its length field.
    pub(crate) vlmetalayers: &'a [u8],
}

/// What checking has found.
pub(crate) struct Checked {
    pub(crate) checksums: Checksums,
    /// Where the sums of the chunks are; `None` if the frame has none, or they cannot be relied on.
    pub(crate) pages: Option<Vec<Page>>,
}

impl Parts<'_> {
    fn sums(&self) -> Result<[u64; 4], FrameError> {
        let stable = stable(self.header, &Metalayers::parse(self.header)?)?;
        Ok([sum(self.header), sum(&stable), sum(self.index), sum(self.vlmetalayers)])
    }

    /// The block and its fingerprint. `pages` are those with the sums of all stored chunks.
    pub(crate) fn encode(&self, pages: &[Page]) -> Result<(Vec<u8>, Fingerprint), FrameError> {
        let mut block = Vec::new();
        pages.iter().for_each(|page| page.encode(&mut block));
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&XXH3.to_le_bytes());
        let npages = u32::try_from(pages.len());
        let npages = npages.map_err(|_| FrameError::argument("chunks", "too many for checksums"))?;
        block.extend_from_slice(&npages.to_le_bytes());
        block.extend_from_slice(&pages.iter().map(|page| page.count).sum::<u64>().to_le_bytes());
        for sum in self.sums()? {
            block.extend_from_slice(&sum.to_le_bytes());
        }
        let fingerprint = (KIND, XxHash3_128::oneshot(&block).to_le_bytes());
        Ok((block, fingerprint))
    }

    /// The fingerprint of a frame without chunks: two sums of the block that is not there, with and without that of
    /// the whole header.
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

    fn check_empty(&self, fingerprint: Fingerprint) -> Result<Checked, FrameError> {
        let (_, expected) = self.fingerprint_of_empty()?;
        let checksums = match (
            fingerprint.1 == expected,
            fingerprint.1.last_chunk::<8>() == expected.last_chunk::<8>(),
        ) {
            (true, _) => Checksums::Ok,
            (false, true) => Checksums::Changed,
            (false, false) => {
                let what = "header and trailer do not fit the fingerprint";
                return Err(FrameError::Checksum { structure: Structure::Frame, what });
            }
        };
        Ok(Checked { checksums, pages: Some(Vec::new()) })
    }

    /// Checks these parts against the block, which `before_trailer` ends with, and the fingerprint.
    /// `nstored`: how many chunks are stored; `None` if there are no chunks, and so no block.
    pub(crate) fn check(
        &self,
        nstored: Option<u64>,
        before_trailer: &[u8],
        fingerprint: Fingerprint,
    ) -> Result<Checked, FrameError> {
        let rest = (before_trailer.len() as u64).saturating_sub(block_len(before_trailer, u64::MAX));
        let stored = usize::try_from(rest).ok().and_then(|at| before_trailer.get(at..)).unwrap_or_default();
        if fingerprint == NO_FINGERPRINT {
            // C-Blosc2 zeroes it, and leaves the block where it was when it changes vlmetalayers.
            let left_behind = stored.last_chunk::<END_LEN>().is_some_and(|end| end.starts_with(&MAGIC));
            let checksums = if left_behind { Checksums::Changed } else { Checksums::None };
            return Ok(Checked { checksums, pages: None });
        }
        let fail = |structure, what| Err(FrameError::Checksum { structure, what });
        if fingerprint.0 != KIND {
            return fail(Structure::Trailer, "the fingerprint is of another kind than 128 bits");
        }
        let Some(nstored) = nstored else { return self.check_empty(fingerprint) };
        let block = stored;
        if XxHash3_128::oneshot(block).to_le_bytes() != fingerprint.1 {
            return fail(Structure::Checksums, "they, or the fingerprint in the trailer");
        }
        let Some((table, end)) = block.split_last_chunk::<END_LEN>() else {
            return fail(Structure::Checksums, "they are too short");
        };
        let pages = read_table(table);
        let count = pages.iter().try_fold(0u64, |sum, page| sum.checked_add(page.count));
        let told = u64::from_le_bytes(*field(end, 16));
        if !end.starts_with(&MAGIC)
            || *field(end, 8) != XXH3.to_le_bytes()
            || count != Some(told)
            || told != nstored
        {
            return fail(Structure::Checksums, "they are of an unknown kind, or of other chunks");
        }
        let [header, stable, index, vlmetalayers] = self.sums()?;
        let is = |at: usize, sum: u64| u64::from_le_bytes(*field(end, at)) == sum;
        if !is(40, index) {
            return fail(Structure::Index, "it does not fit its checksum");
        }
        if !is(48, vlmetalayers) {
            return fail(Structure::Trailer, "the vlmetalayers do not fit their checksum");
        }
        let checksums = match (is(24, header), is(32, stable)) {
            (true, true) => Checksums::Ok,
            // Values of metalayers and numbers of threads are changed in place by C-Blosc2.
            (false, true) => Checksums::Changed,
            _ => return fail(Structure::Header, "it does not fit its checksum"),
        };
        Ok(Checked { checksums, pages: Some(pages) })
    }
}

/// The header with zeros for what C-Blosc2 changes in place: values of metalayers, numbers of threads.
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
