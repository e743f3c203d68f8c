//! Where trailer, index and chunks are: at their places, or among what was found.

use std::collections::HashSet;

use b2_chunk::{ChunkHeader, Container};

use super::head::Head;
use super::scan::Found;
use super::{Condition, Damaged};
use crate::FrameError;
use crate::format::checksums::sum;
use crate::format::index::{Entry, Index};
use crate::format::trailer::Trailer;
use crate::names::FrameFile;
use crate::storage::files::Extent;

/// The trailer, if it is where the header says.
pub(super) fn trailer_in_place(damaged: &Damaged<'_>, head: &Head) -> Option<Trailer> {
    let end = head.header.frame_len();
    let main = FrameFile::Main;
    if head.condition != Condition::Intact || end > damaged.main.len() {
        return None;
    }
    let tail = damaged.main.read(&Extent::exactly(main, end.checked_sub(25)?..end)).ok()?;
    let len = Trailer::len(&tail, end).ok()? as u64;
    if len > damaged.dparams.limits.max_metadata {
        return None;
    }
    let bytes = damaged.main.read(&Extent::exactly(main, end - len..end)).ok()?;
    Trailer::parse(&bytes, end - len, &damaged.dparams).ok()
}

/// The index, if it is where the header says, and its checksum.
pub(super) fn index_in_place(damaged: &Damaged<'_>, head: &Head) -> Option<(Index, u64)> {
    let header = &head.header;
    if head.condition != Condition::Intact {
        return None;
    }
    if header.nbytes() == 0 {
        return Some((Index::default(), sum(&[])));
    }
    let start = header.header_len() as u64;
    let at = if damaged.dir.is_none() { start.checked_add(header.cbytes())? } else { start };
    let nchunks = match header.chunksize() as u64 {
        0 => None,
        chunksize => Some(header.nbytes().div_ceil(chunksize)),
    };
    read_index(damaged, at, nchunks)
}

/// Whether a chunk starts at most of the places in the index, and no two at the same.
///
/// # Errors
/// When the call is to stop.
pub(super) fn is_believable(damaged: &Damaged<'_>, index: &Index, base: u64) -> Result<bool, FrameError> {
    let (mut stored, mut chunks) = (HashSet::new(), 0);
    for nchunk in 0..index.len() {
        match index.entry(nchunk) {
            Ok(Entry::Special(_)) => {}
            Ok(Entry::Stored(offset)) if stored.insert(offset) => {
                damaged.go_on()?;
                let base = if damaged.dir.is_some() { 0 } else { base };
                let place = base.checked_add(offset);
                chunks += usize::from(place.is_some_and(|place| damaged.chunk_header(place).is_ok()));
            }
            _ => return Ok(false),
        }
    }
    Ok(chunks * 2 >= stored.len())
}

/// A few of the chunks in the index, by their headers, to compare the frame's header with.
pub(super) fn first_chunks(damaged: &Damaged<'_>, index: &Index, base: u64) -> Vec<Found> {
    let places = (0..index.len()).filter_map(|nchunk| match index.entry(nchunk) {
        Ok(Entry::Stored(offset)) if damaged.dir.is_some() => Some(offset),
        Ok(Entry::Stored(offset)) => base.checked_add(offset),
        _ => None,
    });
    let chunks = places.take(16).filter_map(|offset| {
        let (header, ..) = damaged.chunk_header(offset).ok()?;
        let (cbytes, nbytes, typesize) = (header.cbytes() as u64, header.nbytes(), header.typesize());
        Some(Found { offset, cbytes, nbytes, typesize })
    });
    chunks.collect()
}

/// An index, and its checksum.
fn read_index(damaged: &Damaged<'_>, at: u64, nchunks: Option<u64>) -> Option<(Index, u64)> {
    let head = damaged.main.read(&Extent::exactly(FrameFile::Main, at..at.checked_add(32)?)).ok()?;
    let header = ChunkHeader::parse(&head).ok()?;
    let end = at + header.cbytes() as u64;
    if header.cbytes() as u64 > damaged.dparams.limits.max_metadata {
        return None;
    }
    let bytes = damaged.main.read(&Extent::exactly(FrameFile::Main, at..end)).ok()?;
    let plain = damaged.dparams.clone().with_container(Container::default());
    let sum = sum(&bytes);
    Some((Index::decode(bytes, nchunks, &plain).ok()?, sum))
}

/// All chunk files with an intact chunk, in the order of their numbers, which stand for the offsets.
pub(super) fn intact_chunk_files(
    damaged: &Damaged<'_>,
    known: &HashSet<u64>,
) -> Result<Vec<Found>, FrameError> {
    let mut found = Vec::new();
    for id in damaged.chunk_files()? {
        let Ok(chunk) = damaged.chunk(id.into()) else { continue };
        if damaged.is_intact(&chunk, known, &mut 0)? {
            let typesize = chunk.header().typesize();
            found.push(Found { offset: id.into(), cbytes: 1, nbytes: chunk.nbytes(), typesize });
        }
    }
    Ok(found)
}

/// An index among the chunks that were found.
pub(super) struct Among {
    pub(super) index: Index,
    /// The byte that its offsets count from.
    pub(super) base: u64,
    /// Its checksum.
    pub(super) sum: u64,
    /// Where it starts.
    pub(super) at: u64,
}

/// Whether some of the chunks came later than what is at byte `at`: it belongs to an older state then.
pub(super) fn is_outdated(damaged: &Damaged<'_>, at: u64, chunks: &[Found]) -> bool {
    let Some(first) = chunks.first().filter(|_| damaged.dir.is_none()) else { return false };
    // Values of vlmetalayers are chunks, too.
    let alike = |chunk: &&Found| (chunk.typesize, chunk.nbytes) == (first.typesize, first.nbytes);
    chunks.iter().filter(alike).any(|chunk| chunk.offset > at)
}

/// The last of the candidates that can only be an index: most of its entries are places of intact chunks. `starts`: where the first chunk may be. `told`: its checksum, if
/// it is known.
pub(super) fn index_among(
    damaged: &Damaged<'_>,
    candidates: &[Found],
    offsets: &HashSet<u64>,
    starts: [u64; 2],
    told: Option<u64>,
) -> Option<Among> {
    let maybe = candidates.iter().rev().filter(|chunk| chunk.typesize == 8 && chunk.nbytes.is_multiple_of(8));
    // The last one is it as a rule; others would be data that looks the same.
    for candidate in maybe.take(16) {
        let Some((index, sum)) = read_index(damaged, candidate.offset, None) else { continue };
        if told.is_some_and(|told| told != sum) {
            continue;
        }
        let entries = (0..index.len()).map(|nchunk| index.entry(nchunk));
        let mut stored = HashSet::new();
        let plausible = entries.into_iter().all(|entry| match entry {
            Ok(Entry::Stored(offset)) => stored.insert(offset),
            Ok(Entry::Special(_)) => true,
            Err(_) => false,
        });
        let Some(least) = stored.iter().min().filter(|_| plausible) else { continue };
        let [start, first] = starts;
        let bases = match damaged.dir {
            Some(_) => [0, 0],
            None => [start, first.saturating_sub(*least)],
        };
        for base in bases {
            let places = stored.iter().map(|offset| base.saturating_add(*offset));
            let hits = places.clone().filter(|place| offsets.contains(place)).count();
            let before = damaged.dir.is_some() || places.clone().all(|place| place < candidate.offset);
            // Others may be damaged. Its checksum leaves no doubt that it is the index.
            let enough = if told.is_some() { hits > 0 } else { hits * 2 > stored.len() };
            if before && enough {
                return Some(Among { index, base, sum, at: candidate.offset });
            }
        }
    }
    None
}

pub(super) fn is_listed(index: &Index, base: u64, place: u64) -> bool {
    let Some(offset) = place.checked_sub(base) else { return false };
    // The smallest offset that is not below this one.
    match offset.checked_sub(1) {
        Some(before) => index.next_offset(before).is_ok_and(|next| next == Some(offset)),
        None => (0..index.len()).any(|nchunk| matches!(index.entry(nchunk), Ok(Entry::Stored(0)))),
    }
}

/// Item and chunk size: the header's if any chunk has them, else what all chunks but the last have in common.
pub(super) fn sizes(head: Option<&Head>, chunks: &[Found]) -> (usize, usize) {
    let told = head.map(|head| (head.header.typesize(), head.header.chunksize()));
    let fits = |(typesize, chunksize): &(usize, usize)| {
        let typesize = if *typesize > 255 { 1 } else { *typesize };
        let fits = |chunk: &Found| {
            chunk.typesize == typesize
                && (*chunksize == 0
                    || chunk.nbytes == *chunksize
                    || chunks.len() == 1 && chunk.nbytes < *chunksize)
        };
        chunks.is_empty() || chunks.iter().any(fits)
    };
    // Individual sizes are told twice: by a chunk size of 0 and by a flag.
    let individual = head.is_some_and(|head| head.header.general_flags() & 0x40 != 0);
    let is_told = |(_, chunksize): &(usize, usize)| *chunksize > 0 || individual || chunks.is_empty();
    if let Some(told) = told.filter(|told| is_told(told) && fits(told)) {
        return told;
    }
    let Some((last, others)) = chunks.split_last() else { return (1, 0) };
    let chunksize = others.first().map_or(last.nbytes, |chunk| chunk.nbytes);
    let equal = others.iter().all(|chunk| chunk.nbytes == chunksize) && last.nbytes <= chunksize;
    let typesize = match told {
        Some((typesize, _)) if typesize > 255 && last.typesize == 1 => typesize,
        _ => last.typesize,
    };
    (typesize, if equal { chunksize } else { 0 })
}

/// The chunks that belong to the frame, with gaps where some may be missing; and whether there were too many.
pub(super) fn in_order(
    chunks: &[Found],
    start: u64,
    typesize: usize,
    chunksize: usize,
    nchunks: Option<u64>,
) -> (Vec<Option<u64>>, bool) {
    let in_chunk = if typesize > 255 { 1 } else { typesize };
    let fits: Vec<&Found> = chunks
        .iter()
        .filter(|chunk| chunk.typesize == in_chunk && (chunksize == 0 || chunk.nbytes <= chunksize))
        .collect();
    // A chunk that is shorter than the others is the last one.
    let whole = fits.iter().filter(|chunk| chunksize == 0 || chunk.nbytes == chunksize);
    let mut places: Vec<&Found> = whole.copied().collect();
    let short = fits.iter().rev().find(|chunk| chunksize > 0 && chunk.nbytes < chunksize);
    places.extend(short.filter(|chunk| places.last().is_none_or(|last| last.offset < chunk.offset)));
    let Some(nchunks) = nchunks.and_then(|n| usize::try_from(n).ok()) else {
        return (places.iter().map(|chunk| Some(chunk.offset)).collect(), places.len() < chunks.len());
    };
    let mut missing = nchunks.saturating_sub(places.len());
    let mut out = Vec::new();
    let mut end = start;
    for chunk in &places {
        // Bytes that belong to no chunk were one.
        if chunk.offset > end && missing > 0 {
            out.push(None);
            missing -= 1;
        }
        out.push(Some(chunk.offset));
        end = chunk.end();
    }
    let is_short = places.last().is_some_and(|last| last.nbytes < chunksize);
    let at = out.len() - usize::from(is_short && !out.is_empty());
    out.splice(at..at, std::iter::repeat_n(None, missing));
    let surplus = out.len() > nchunks;
    out.truncate(nchunks);
    (out, surplus)
}
