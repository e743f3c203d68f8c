//! Mutates frames: fields, metalayers, index entries, chunks, trailer, lengths, checksums.

use std::iter;
use std::ops::Range;

use b2_chunk::{Chunk, Compression};
use b2_testkit::hostile::{FrameLayout, Number, Seal, Walk, damage, stored, sum};

use super::{Rng, in_place, put, raw};

/// Mutates a contiguous frame, or the index file of a sparse one.
pub fn frame(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let len = bytes.len();
    let mut layout = None;
    let numbers = Walk::numbers(bytes, |walk| layout = walk.frame());
    let Some(layout) = layout else {
        // The lengths are implausible: fix them, or change anything.
        mend(bytes);
        raw(bytes, 0..len, false);
        return;
    };
    let (header_len, trailer) = (layout.header.end, layout.trailer.clone());
    match rng.below(16) {
        0..=2 => Number::damage_one(&numbers, bytes, rng),
        3 | 4 => drop(entries(bytes, &layout, rng)),
        5..=7 => {
            let chunks = chunks(bytes, header_len..layout.index.start);
            one_chunk(bytes, &chunks, rng);
        }
        8 => in_place(bytes, layout.array().unwrap_or_default(), super::meta, rng),
        // Change names, offsets or values of metalayers.
        9 => raw(bytes, 87..header_len, true),
        10 => {
            // The same, but changing the length.
            raw(bytes, 87..header_len, false);
            let header_len = header_len + bytes.len() - len;
            put(bytes, 11, &(header_len as u32).to_be_bytes());
        }
        11 => {
            raw(bytes, trailer.start..trailer.end - 23, false);
            let end = trailer.end + bytes.len() - len;
            put(bytes, end - 22, &((end - trailer.start) as u32).to_be_bytes());
        }
        12 => {
            let values: Vec<_> = layout.vlmetalayers.iter().map(|(_, value)| value.clone()).collect();
            one_chunk(bytes, &values, rng);
        }
        13 => one_chunk(bytes, std::slice::from_ref(&layout.index), rng),
        // Change trailer length and fingerprint.
        14 => raw(bytes, trailer.end - 23..trailer.end, true),
        _ => damage(bytes, 64, rng),
    }
    if !rng.one_in(5) {
        mend(bytes);
    }
    let how = *rng.pick(&[Seal::Stale, Seal::Sealed, Seal::Zeroed]);
    seal(bytes, how);
}

/// Sets the frame's length to the number of bytes.
fn mend(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    put(bytes, 16, &len.to_be_bytes());
}

/// Recomputes the checksums of a frame, or removes them (docs/format/checksums.md). Otherwise a mutated frame would be
/// rejected for its checksums, and nothing after them would be tested. Returns `None` if it is not a frame.
pub(crate) fn seal(bytes: &mut [u8], how: Seal) -> Option<()> {
    let layout = FrameLayout::of(bytes)?;
    let sums = if how == Seal::Sealed { chunk_sums(bytes, &layout)? } else { Vec::new() };
    if how == Seal::Zeroed {
        bytes[layout.index.end..layout.trailer.start].fill(0);
    }
    how.apply(bytes, &layout, &sums);
    Some(())
}

/// Returns the entries of the index. It may claim to hold gigabytes.
fn index(bytes: &[u8], layout: &FrameLayout) -> Option<Vec<u8>> {
    let index = Chunk::from_bytes(bytes[layout.index.clone()].to_vec()).ok()?;
    if index.nbytes() > 1 << 16 { None } else { index.decompress_bytes().ok() }
}

/// Returns the checksums of the stored chunks that the index refers to, in order.
fn chunk_sums(bytes: &[u8], layout: &FrameLayout) -> Option<Vec<u64>> {
    if layout.index.is_empty() {
        return Some(Vec::new());
    }
    let entries = index(bytes, layout)?;
    let offsets =
        entries.as_chunks().0.iter().filter_map(|entry| usize::try_from(i64::from_le_bytes(*entry)).ok());
    let place = |offset: usize| stored(bytes, layout.header.end.checked_add(offset)?);
    Some(offsets.map(|offset| place(offset).map_or(0, |chunk| sum(&bytes[chunk]))).collect())
}

/// Decodes the index, changes entries, and stores it again.
fn entries(bytes: &mut Vec<u8>, layout: &FrameLayout, rng: &mut Rng) -> Option<()> {
    let mut plain = index(bytes, layout)?;
    let n = plain.len() / 8;
    for _ in 0..1 + rng.below(2) {
        let nchunk = rng.below(n);
        let entry = Number { at: 8 * nchunk, width: 8, big_endian: false };
        match rng.below(6) {
            0 => {
                let other = Number { at: 8 * rng.below(n), ..entry };
                let other = other.get(&plain)?;
                entry.set(&mut plain, other);
            }
            1 => {
                // Insert a special value, with its kind in the bits below the sign.
                let kind = (0x80 | rng.below(8) as u8) as u64;
                entry.set(&mut plain, kind << 56);
            }
            2 => plain.extend_from_slice(&rng.next().to_le_bytes()),
            3 => plain.truncate(8 * nchunk + 8),
            4 => {
                let offset = rng.below(bytes.len()) as u64;
                entry.set(&mut plain, offset);
            }
            _ => Number::damage_one(&[entry], &mut plain, rng),
        }
    }
    let cparams = Compression::new().itemsize(8).level(rng.below(2) as u8 * 5).build().ok()?;
    let new = Chunk::compress_bytes(&plain, &cparams).ok()?.into_bytes();
    bytes.splice(layout.index.clone(), new);
    if rng.one_in(2) {
        // Set the data size in the header to match the current number of chunks.
        let chunksize = Number { at: 58, width: 4, big_endian: true }.get(bytes)?;
        put(bytes, 30, &chunksize.saturating_mul(plain.len() as u64 / 8).to_be_bytes());
    }
    Some(())
}

/// Returns the first chunks in a part of a frame.
fn chunks(bytes: &[u8], part: Range<usize>) -> Vec<Range<usize>> {
    let bytes = &bytes[..part.end];
    iter::successors(stored(bytes, part.start), |last| stored(bytes, last.end)).take(32).collect()
}

/// Changes one of these chunks, without moving the bytes after it.
fn one_chunk(bytes: &mut [u8], chunks: &[Range<usize>], rng: &mut Rng) {
    let Some(chunk) = rng.pick_some(chunks).cloned() else { return };
    let mutator = |chunk: &mut Vec<u8>, rng: &mut Rng| {
        let len = chunk.len();
        super::chunk(chunk, rng);
        if chunk.len() > len && !rng.one_in(4) {
            put(chunk, 12, &(len as u32).to_le_bytes());
        }
    };
    in_place(bytes, chunk, mutator, rng);
}
