//! Checksums that C-Blosc2 leaves alone (docs/format/checksums.md): a block between index and trailer, and its
//! fingerprint in the trailer.
//!
//! ```text
//! "b2sums" 00 01   u32 algorithm   u32 nchunks
//! u64 sums of: header, header without what C-Blosc2 changes in place, index chunk, vlmetalayers
//! u64 sum of each chunk, 0 for those that are not stored
//! ```
//!
//! All numbers are little-endian, sums are XXH3 of 64 bits, the fingerprint is XXH3 of 128 bits over the block. In
//! frames without chunks the block is left out: C-Blosc2 looks for the trailer right behind the header there, and the
//! block follows from the rest.

use std::collections::HashMap;

use b2_chunk::memory::{self, OutOfMemory};
use bytes::Bytes;
use twox_hash::{XxHash3_64, XxHash3_128};

use crate::header::patch;
use crate::metalayers::Metalayers;
use crate::{FrameError, Structure};

const MAGIC: [u8; 8] = *b"b2sums\0\x01";
/// XXH3 of 64 bits with seed 0, the only one so far.
const XXH3: u32 = 1;
/// Size of the block without the sums of chunks, in bytes.
const HEAD_LEN: usize = 48;
/// Fingerprints of 128 bits, the kind used here.
const KIND: u8 = 3;

/// The sum of some bytes.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
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

/// Sums of the stored chunks of a frame that is being written, by index entry: two entries that are equal have the
/// same bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkSums(HashMap<i64, u64>);

impl ChunkSums {
    /// Those of a frame with these entries.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn of(entries: &[i64], sums: &[u8]) -> Result<Self, OutOfMemory> {
        let sums = sums.as_chunks::<8>().0.iter().map(|sum| u64::from_le_bytes(*sum));
        let mut all = Self::default();
        all.reserve(entries.len())?;
        all.0.extend(entries.iter().copied().zip(sums).filter(|(raw, _)| *raw >= 0));
        Ok(all)
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let bytes = (more as u64).saturating_mul(size_of::<(i64, u64)>() as u64);
        self.0.try_reserve(more).map_err(|_| OutOfMemory { bytes })
    }

    /// Notes the chunk that the entry stands for from now on.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn put(&mut self, raw: i64, chunk: &[u8]) -> Result<(), OutOfMemory> {
        self.put_sum(raw, sum(chunk))
    }

    /// Notes a sum that was known before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn put_sum(&mut self, raw: i64, sum: u64) -> Result<(), OutOfMemory> {
        self.reserve(1)?;
        self.0.insert(raw, sum);
        Ok(())
    }

    pub(crate) fn get(&self, raw: i64) -> Option<u64> {
        if raw < 0 { Some(0) } else { self.0.get(&raw).copied() }
    }

    /// Those of all entries in order, if they are known; 0 for what is not stored.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn all(&self, entries: &[i64]) -> Result<Option<Vec<u64>>, OutOfMemory> {
        let mut all = memory::list(entries.len())?;
        for raw in entries {
            let Some(sum) = self.get(*raw) else { return Ok(None) };
            all.push(sum);
        }
        Ok(Some(all))
    }

    /// Forgets all but the chunks of these entries, when there are many more.
    pub(crate) fn tidy(&mut self, entries: &[i64]) {
        if self.0.len() > 2 * entries.len() + 64 {
            let mut kept = Self::default();
            // Without memory for fewer the many stay.
            if kept.reserve(entries.len()).is_ok() {
                kept.0.extend(entries.iter().filter_map(|raw| Some((*raw, *self.0.get(raw)?))));
                *self = kept;
            }
        }
    }
}

/// Length of the block of a frame with `nchunks` chunks, in bytes.
pub(crate) fn block_len(nchunks: usize) -> usize {
    if nchunks == 0 { 0 } else { HEAD_LEN + 8 * nchunks }
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

impl Parts<'_> {
    fn sums(&self) -> Result<[u64; 4], FrameError> {
        let stable = stable(self.header, &Metalayers::parse(self.header)?)?;
        Ok([sum(self.header), sum(&stable), sum(self.index), sum(self.vlmetalayers)])
    }

    /// The block, as it is to be stored, and its fingerprint. `sums` are those of the chunks.
    pub(crate) fn encode(&self, sums: &[u64]) -> Result<(Vec<u8>, Fingerprint), FrameError> {
        let mut block = self.block(sums)?;
        let fingerprint = (KIND, XxHash3_128::oneshot(&block).to_le_bytes());
        block.truncate(block_len(sums.len()));
        Ok((block, fingerprint))
    }

    fn block(&self, sums: &[u64]) -> Result<Vec<u8>, FrameError> {
        let mut block = memory::list(HEAD_LEN + 8 * sums.len())?;
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&XXH3.to_le_bytes());
        // There are fewer than 2^28 chunks.
        block.extend_from_slice(&(sums.len() as u32).to_le_bytes());
        for sum in self.sums()?.iter().chain(sums) {
            block.extend_from_slice(&sum.to_le_bytes());
        }
        Ok(block)
    }

    /// Checks these parts against the block, which `before_trailer` ends with, and the fingerprint.
    ///
    /// With the answer come the sums of the chunks: empty if the frame has none, or they cannot be relied on.
    pub(crate) fn check(
        &self,
        nchunks: usize,
        before_trailer: &Bytes,
        fingerprint: Fingerprint,
    ) -> Result<(Checksums, Bytes), FrameError> {
        let start = before_trailer.len().saturating_sub(block_len(nchunks));
        let stored = before_trailer.slice(start..);
        if fingerprint == NO_FINGERPRINT {
            // C-Blosc2 zeroes it, and leaves the block where it was when it changes vlmetalayers.
            let left_behind = stored.starts_with(&MAGIC);
            return Ok((if left_behind { Checksums::Changed } else { Checksums::None }, Bytes::new()));
        }
        let fail = |structure, what| Err(FrameError::Checksum { structure, what });
        if fingerprint.0 != KIND {
            return fail(Structure::Trailer, "the fingerprint is of another kind than 128 bits");
        }
        let made;
        let block = if nchunks == 0 {
            made = self.block(&[])?;
            &made[..]
        } else {
            &stored[..]
        };
        if XxHash3_128::oneshot(block).to_le_bytes() != fingerprint.1 {
            return fail(Structure::Trailer, "the block of checksums does not fit the fingerprint");
        }
        let Some((head, rest)) = block.split_first_chunk::<HEAD_LEN>() else {
            return fail(Structure::Trailer, "the block of checksums is too short");
        };
        let head =
            |at: usize| head.get(at..).and_then(|rest| rest.first_chunk::<8>()).copied().unwrap_or_default();
        let expected = [XXH3.to_le_bytes(), (nchunks as u32).to_le_bytes()].concat();
        if head(0) != MAGIC || head(8)[..] != expected || rest.len() != 8 * nchunks {
            return fail(Structure::Trailer, "the checksums are of an unknown kind, or of other chunks");
        }
        let [header, stable, index, vlmetalayers] = self.sums()?;
        let is = |at: usize, sum: u64| u64::from_le_bytes(head(at)) == sum;
        if !is(32, index) {
            return fail(Structure::Index, "the index chunk does not fit its checksum");
        }
        if !is(40, vlmetalayers) {
            return fail(Structure::Trailer, "the vlmetalayers do not fit their checksum");
        }
        let sums = stored.slice(HEAD_LEN.min(stored.len())..);
        match (is(16, header), is(24, stable)) {
            (true, true) => Ok((Checksums::Ok, sums)),
            // Values of metalayers and numbers of threads are changed in place by C-Blosc2.
            (false, true) => Ok((Checksums::Changed, sums)),
            _ => fail(Structure::Header, "the header does not fit its checksum"),
        }
    }
}

/// The header with zeros for what C-Blosc2 changes in place: values of metalayers, numbers of threads.
fn stable(header: &Bytes, metalayers: &Metalayers) -> Result<Vec<u8>, OutOfMemory> {
    let mut stable = memory::copied(header)?;
    let values = metalayers.iter().filter_map(|(name, _)| metalayers.place(header, name));
    for range in values.chain(patch::NTHREADS) {
        if let Some(bytes) = stable.get_mut(range) {
            bytes.fill(0);
        }
    }
    Ok(stable)
}
