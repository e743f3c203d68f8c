//! Mutates frames: header fields, metalayers, index entries, chunks, trailer, lengths, checksums.

use std::ops::Range;

use b2_chunk::{CParams, Chunk};
use b2_testkit::hostile::FRAME_HEADER;

use super::{Rng, be32, be64, le32, put, seal};
use crate::dice::Dice;

/// The positions of the parts of a frame, if its lengths are plausible.
pub(super) struct Places {
    pub(super) header_len: usize,
    /// The index chunk; empty if there is none.
    pub(super) index: Range<usize>,
    /// Where the trailer starts.
    pub(super) trailer: usize,
}

impl Places {
    pub(super) fn find(bytes: &[u8]) -> Option<Self> {
        let len = bytes.len();
        let header_len = be32(bytes, 11)? as usize;
        let trailer = len.checked_sub(be32(bytes, len.checked_sub(22)?)? as usize)?;
        let nbytes = be64(bytes, 30)?;
        let start = usize::try_from(be64(bytes, 39)?).ok()?.checked_add(header_len)?;
        let index = match le32(bytes, start.checked_add(12)?) {
            Some(cbytes) if nbytes > 0 => start..start.checked_add(cbytes as usize)?,
            _ => trailer..trailer,
        };
        (header_len >= 97 && header_len <= trailer && index.start <= index.end && index.end <= trailer)
            .then_some(Self { header_len, index, trailer })
    }

    /// The checksum block, or whatever is in its place.
    pub(super) fn block(&self) -> Range<usize> {
        self.index.end..self.trailer
    }
}

/// Mutates a contiguous frame, or the index file of a sparse one.
pub fn frame(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let len = bytes.len();
    let Some(places) = Places::find(bytes) else {
        // The lengths are implausible: fix them, or change anything.
        mend(bytes);
        rng.raw(bytes, 0..len, false);
        return;
    };
    match rng.0.below(16) {
        0..=2 => {
            rng.header(bytes, &[FRAME_HEADER], true);
        }
        3 | 4 => {
            entries(bytes, &places, rng);
        }
        5..=7 => {
            one_chunk(bytes, &places, rng);
        }
        8 => {
            array_meta(bytes, &places, rng);
        }
        9 => {
            // Change names, offsets or values of metalayers.
            rng.raw(bytes, 87..places.header_len, true);
        }
        10 => {
            // The same, but changing the length.
            rng.raw(bytes, 87..places.header_len, false);
            let header_len = places.header_len + bytes.len() - len;
            put(bytes, 11, &(header_len as u32).to_be_bytes());
        }
        11 => {
            let end = bytes.len() - 23;
            rng.raw(bytes, places.trailer..end, false);
            let trailer_len = bytes.len() - places.trailer;
            let at = bytes.len() - 22;
            put(bytes, at, &(trailer_len as u32).to_be_bytes());
        }
        12 => {
            // Change a chunk inside the trailer: the value of a vlmetalayer.
            nested_chunk(bytes, places.trailer..len - 23, rng);
        }
        13 => {
            let at = places.index.start;
            nested_chunk(bytes, at..places.index.end, rng);
        }
        14 => {
            // Change the end of the file: trailer length and fingerprint.
            rng.raw(bytes, len - 23..len, true);
        }
        _ => {
            let at = rng.0.below(len);
            match rng.0.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_within(at..),
                _ => drop(bytes.drain(at..(at + rng.0.below(64)).min(len))),
            }
        }
    }
    if !rng.0.one_in(5) {
        mend(bytes);
    }
    match rng.0.below(3) {
        0 => seal::strip(bytes),
        1 => drop(seal::reseal(bytes)),
        _ => {}
    }
}

/// Sets the frame's length to the number of bytes.
fn mend(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    put(bytes, 16, &len.to_be_bytes());
}

/// Decodes the index, changes entries, and stores it again.
fn entries(bytes: &mut Vec<u8>, places: &Places, rng: &mut Rng) -> Option<()> {
    let index = Chunk::from_bytes(bytes.get(places.index.clone())?.to_vec()).ok()?;
    if index.nbytes() > 1 << 16 {
        return None;
    }
    let mut plain = index.decompress_bytes().ok()?;
    let n = plain.len() / 8;
    for _ in 0..1 + rng.0.below(2) {
        let nchunk = rng.0.below(n);
        let other = rng.0.below(n);
        match rng.0.below(6) {
            0 => {
                let entry: [u8; 8] = *plain.get(8 * other..)?.first_chunk()?;
                put(&mut plain, 8 * nchunk, &entry);
            }
            1 => {
                // Insert a special value, with its kind in the bits below the sign.
                let kind = (0x80 | rng.0.below(8) as u8) as u64;
                put(&mut plain, 8 * nchunk, &(kind << 56).to_le_bytes());
            }
            2 => plain.extend_from_slice(&rng.0.next().to_le_bytes()),
            3 => plain.truncate(8 * nchunk + 8),
            4 => {
                let offset = rng.0.below(bytes.len()) as u64;
                put(&mut plain, 8 * nchunk, &offset.to_le_bytes());
            }
            _ => rng.field(&mut plain, 8 * nchunk, 8, false),
        }
    }
    let cparams = CParams::builder(8).level(rng.0.below(2) as u8 * 5).build().ok()?;
    let new = Chunk::compress_bytes(&plain, &cparams).ok()?.into_bytes();
    bytes.splice(places.index.clone(), new);
    if rng.0.one_in(2) {
        // Set the data size in the header to match the current number of chunks.
        let chunksize = u64::from(be32(bytes, 58)?);
        put(bytes, 30, &chunksize.saturating_mul(plain.len() as u64 / 8).to_be_bytes());
    }
    Some(())
}

/// Changes a chunk in place.
fn one_chunk(bytes: &mut Vec<u8>, places: &Places, rng: &mut Rng) -> Option<()> {
    let starts = starts_of_chunks(bytes, places.header_len..places.index.start, &mut rng.0);
    let start = starts?;
    nested_chunk(bytes, start..places.index.start, rng)
}

/// Returns an offset in `part` where a chunk seems to start.
fn starts_of_chunks(bytes: &[u8], part: Range<usize>, dice: &mut Dice) -> Option<usize> {
    let mut at = part.start;
    let mut found = None;
    for n in 1..=32 {
        let cbytes = le32(bytes, at + 12)? as usize;
        if cbytes < 16 || at + cbytes > part.end {
            break;
        }
        if dice.one_in(n) {
            found = Some(at);
        }
        at += cbytes;
    }
    found
}

/// Changes the first chunk in `part`, without moving the bytes after it.
fn nested_chunk(bytes: &mut Vec<u8>, part: Range<usize>, rng: &mut Rng) -> Option<()> {
    let inside = bytes.get(part.clone())?;
    // Look for an extended header of version 5 or 6: the start of all chunks written today.
    let start = (0..inside.len().saturating_sub(32).min(4096))
        .find(|at| matches!(inside[*at], 2..=6) && inside[at + 1] == 1)?;
    let cbytes = (le32(inside, start + 12)? as usize).clamp(16, inside.len() - start);
    let mut chunk = inside[start..start + cbytes].to_vec();
    super::chunk(&mut chunk, rng);
    let old_len = chunk.len();
    if chunk.len() != cbytes {
        chunk.resize(cbytes, 0);
        if old_len > cbytes && !rng.0.one_in(4) {
            put(&mut chunk, 12, &(cbytes as u32).to_le_bytes());
        }
    }
    put(bytes, part.start + start, &chunk);
    Some(())
}

/// Changes the array metalayer in place.
fn array_meta(bytes: &mut Vec<u8>, places: &Places, rng: &mut Rng) -> Option<()> {
    let header = bytes.get(..places.header_len)?;
    let name = header.windows(5).position(|w| w == b"\xa4b2nd")?;
    let at = be32(header, name + 6)? as usize;
    let len = be32(header, at + 1)? as usize;
    let (start, end) = (at + 5, (at + 5).checked_add(len)?);
    let mut meta = header.get(start..end)?.to_vec();
    super::meta(&mut meta, rng);
    meta.resize(len, 0);
    put(bytes, start, &meta);
    Some(())
}
