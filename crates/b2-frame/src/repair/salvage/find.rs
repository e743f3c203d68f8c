//! Locates the trailer, the index and the chunks: at their expected positions, or among the results of the scan.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use b2_chunk::{ChunkHeader, Container};

use super::files::DamagedFiles;
use super::head::{AgainstSum, Condition, RepairedHeader};
use super::scan::{ChunkTraits, FoundChunk};
use super::sums::FoundSums;
use crate::format::digest::sum;
use crate::format::index::{Entry, Index};
use crate::format::metalayers::show;
use crate::format::trailer::Trailer;
use crate::names::FrameFile;
use crate::storage::files::Extent;
use crate::{FrameError, FrameHeader, VlMetalayers};

/// The trailer, if it is at the position in the header.
pub(super) fn trailer_in_place(damaged: &DamagedFiles<'_>, head: &RepairedHeader) -> Option<Trailer> {
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

/// The rest of a damaged trailer, and the names of lost values. It starts after the checksums that belong to the header
/// or, without them, after the index.
pub(super) fn damaged_trailer(
    damaged: &DamagedFiles<'_>,
    head: &RepairedHeader,
    sums: Option<&FoundSums>,
) -> Option<(Trailer, Vec<String>)> {
    let header = &head.header;
    let start = match sums {
        _ if head.condition != Condition::Intact || header.nbytes() == 0 => return None,
        Some(sums) if head.against_sum == AgainstSum::Fits => sums.end,
        _ => {
            let stored = if damaged.dir.is_none() { header.cbytes() } else { 0 };
            let index = (header.header_len() as u64).checked_add(stored)?;
            let bytes = damaged.main.read(&Extent::at_most(FrameFile::Main, index..index.checked_add(32)?));
            index.checked_add(ChunkHeader::parse(&bytes.ok()?).ok()?.cbytes() as u64)?
        }
    };
    let end = header.frame_len().min(start.saturating_add(damaged.dparams.limits.max_metadata));
    let bytes = damaged.main.read(&Extent::at_most(FrameFile::Main, start..end)).ok()?;
    let mut lost = Vec::new();
    let vlmetalayers = VlMetalayers::parse_damaged(&bytes, &damaged.dparams, &mut lost).ok()?;
    let lost = lost.iter().map(|name| show(name)).collect();
    Some((Trailer { vlmetalayers, fingerprint_kind: 0, fingerprint: [0; 16] }, lost))
}

/// The index, if it is at the position in the header, and its checksum.
pub(super) fn index_in_place(damaged: &DamagedFiles<'_>, head: &RepairedHeader) -> Option<(Index, u64)> {
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

/// Whether chunks start at most of the positions in the index, and no position occurs twice.
///
/// # Errors
/// When the call is cancelled.
pub(super) fn is_believable(
    damaged: &DamagedFiles<'_>,
    index: &Index,
    base: u64,
) -> Result<bool, FrameError> {
    let (mut stored, mut chunks) = (HashSet::new(), 0);
    for nchunk in 0..index.len() {
        match as_written(index, nchunk) {
            Some(Entry::Special(_)) => {}
            Some(Entry::Stored(offset)) if stored.insert(offset) => {
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

/// An entry of an index that may be damaged, or `None` if no writer could have written it. Readers check only three
/// bits of special values, and random bytes often have one of them set.
fn as_written(index: &Index, nchunk: usize) -> Option<Entry> {
    index.entry(nchunk).ok().filter(|entry| index.raw(nchunk) == Some(entry.to_raw()))
}

/// A few of the chunks in the index, by their headers, to compare with the frame header.
pub(super) fn first_chunks(damaged: &DamagedFiles<'_>, index: &Index, base: u64) -> Vec<FoundChunk> {
    let places = (0..index.len()).filter_map(|nchunk| match index.entry(nchunk) {
        Ok(Entry::Stored(offset)) if damaged.dir.is_some() => Some(offset),
        Ok(Entry::Stored(offset)) => base.checked_add(offset),
        _ => None,
    });
    let chunks = places.take(16).filter_map(|offset| {
        let (header, ..) = damaged.chunk_header(offset).ok()?;
        Some(FoundChunk::new(offset, &header))
    });
    chunks.collect()
}

/// The headers of the first chunks in the index, and the numbers of those chunks. Of equal ones the first two are enough.
pub(super) fn first_headers(
    damaged: &DamagedFiles<'_>,
    index: &Index,
    base: u64,
) -> Vec<(usize, ChunkHeader)> {
    const LOOKED_AT: usize = 64;
    const MAX_HEADERS: usize = 8;
    let mut out: Vec<(usize, ChunkHeader)> = Vec::new();
    let mut looked_at = 0;
    for nchunk in 0..index.len() {
        let Ok(Entry::Stored(offset)) = index.entry(nchunk) else { continue };
        let place = if damaged.dir.is_some() { Some(offset) } else { base.checked_add(offset) };
        looked_at += 1;
        if looked_at > LOOKED_AT || out.len() == MAX_HEADERS || damaged.go_on().is_err() {
            break;
        }
        if let Some(Ok((header, ..))) = place.map(|place| damaged.chunk_header(place)) {
            let look = |header: &ChunkHeader| FoundChunk::new(0, header).look;
            let same = out.iter().filter(|(_, other)| {
                look(other) == look(&header) && other.is_memcpyed() == header.is_memcpyed()
            });
            if same.count() < 2 {
                out.push((nchunk, header));
            }
        }
    }
    out
}

/// Reads an index and its checksum.
fn read_index(damaged: &DamagedFiles<'_>, at: u64, nchunks: Option<u64>) -> Option<(Index, u64)> {
    let head = damaged.main.read(&Extent::exactly(FrameFile::Main, at..at.checked_add(32)?)).ok()?;
    let header = ChunkHeader::parse(&head).ok()?;
    let end = at + header.cbytes() as u64;
    if header.cbytes() as u64 > damaged.dparams.limits.max_metadata {
        return None;
    }
    let bytes = damaged.main.read(&Extent::exactly(FrameFile::Main, at..end)).ok()?;
    let plain = damaged.dparams.clone().container(Container::default());
    let sum = sum(&bytes);
    Some((Index::decode(bytes, nchunks, &plain).ok()?, sum))
}

/// All chunk files with an intact chunk, ordered by their numbers, which take the place of offsets; and the files that
/// only start like a chunk.
pub(super) fn intact_chunk_files(
    damaged: &DamagedFiles<'_>,
    known: &HashSet<u64>,
) -> Result<(Vec<FoundChunk>, Vec<FoundChunk>), FrameError> {
    let (mut found, mut torn) = (Vec::new(), Vec::new());
    for id in damaged.chunk_files()? {
        let Ok((header, ..)) = damaged.chunk_header(id.into()) else { continue };
        let file = FoundChunk { cbytes: 1, ..FoundChunk::new(id.into(), &header) };
        let is_intact = match damaged.chunk(id.into()) {
            Ok(chunk) => damaged.is_intact(&chunk, known, &mut 0)?,
            Err(_) => false,
        };
        if is_intact { found.push(file) } else { torn.push(file) }
    }
    Ok((found, torn))
}

/// An index that was found among the chunks.
pub(super) struct EmbeddedIndex {
    pub(super) index: Index,
    /// The byte from which its offsets count.
    pub(super) base: u64,
    /// Its checksum.
    pub(super) sum: u64,
    /// Where it starts.
    pub(super) at: u64,
}

/// Returns whether some of the chunks are newer than the structure at byte `at`, which then belongs to an older state.
pub(super) fn is_outdated(damaged: &DamagedFiles<'_>, at: u64, chunks: &[FoundChunk]) -> bool {
    let Some(first) = chunks.first().filter(|_| damaged.dir.is_none()) else { return false };
    // Values of vlmetalayers are chunks too.
    let alike = |chunk: &&FoundChunk| (chunk.typesize, chunk.nbytes) == (first.typesize, first.nbytes);
    chunks.iter().filter(alike).any(|chunk| chunk.offset > at)
}

/// The last candidate that can only be an index: most of its entries point to chunks, or the trailer at byte `trailer`
/// follows it. `chunks` are all that were found, intact or damaged. `start` is where the first may be, according to
/// the header. `index_sum` is the index's checksum, if known.
pub(super) fn index_among(
    damaged: &DamagedFiles<'_>,
    candidates: &[FoundChunk],
    chunks: &HashMap<u64, FoundChunk>,
    start: Option<u64>,
    trailer: Option<u64>,
    index_sum: Option<u64>,
) -> Option<EmbeddedIndex> {
    let mut places: Vec<u64> = chunks.keys().copied().collect();
    places.sort_unstable();
    let maybe = candidates.iter().rev().filter(|chunk| chunk.typesize == 8 && chunk.nbytes.is_multiple_of(8));
    // Usually the last one is the index; the others would be data that looks like one.
    for candidate in maybe.take(16) {
        let Some((index, sum)) = read_index(damaged, candidate.offset, None) else { continue };
        if index_sum.is_some_and(|known| known != sum) {
            continue;
        }
        let entries = (0..index.len()).map(|nchunk| as_written(&index, nchunk));
        let mut stored = HashSet::new();
        let plausible = entries.into_iter().all(|entry| match entry {
            Some(Entry::Stored(offset)) => stored.insert(offset),
            Some(Entry::Special(_)) => true,
            None => false,
        });
        if !plausible || stored.is_empty() {
            continue;
        }
        let mut stored: Vec<u64> = stored.into_iter().collect();
        stored.sort_unstable();
        let mut bases: Vec<u64> = match damaged.dir {
            Some(_) => vec![0],
            None => start.into_iter().collect(),
        };
        if damaged.dir.is_none() {
            bases.extend(likely_bases(&stored, &places));
        }
        let places_at = |base: u64| stored.iter().map(move |offset| base.saturating_add(*offset));
        let hits = |base: u64| places_at(base).filter(|place| chunks.contains_key(place)).count();
        // With two chunks, one may be lost. The remaining one fits both positions, but only one end.
        let ends = |base: u64| {
            let next = places_at(base).skip(1).chain([candidate.offset]);
            let ends_there = |(place, next)| chunks.get(&place).is_some_and(|chunk| chunk.end() == next);
            places_at(base).zip(next).filter(|both| ends_there(*both)).count()
        };
        let before = |base: &u64| {
            damaged.dir.is_some()
                || stored.iter().all(|offset| base.saturating_add(*offset) < candidate.offset)
        };
        let hits: Vec<(usize, u64)> =
            bases.into_iter().filter(before).map(|base| (hits(base), base)).collect();
        let most = hits.iter().map(|(hits, _)| *hits).max().unwrap_or(0);
        let best = hits.into_iter().filter(|(hits, _)| *hits == most).map(|(_, base)| base);
        // On a tie take the smallest base, since only the header precedes the first chunk.
        let best = best.max_by_key(|&base| (ends(base), start == Some(base), Reverse(base)));
        let Some(base) = best else { continue };
        // Other entries may be damaged. Its checksum or its position then proves that it is the index.
        let proven = index_sum.is_some() || trailer == Some(candidate.end());
        if most * 2 > stored.len() || proven {
            return Some(EmbeddedIndex { index, base, sum, at: candidate.offset });
        }
    }
    None
}

/// The bytes from which the offsets of an index may count, computed from each pair of a position and an offset among
/// the first or last ones.
fn likely_bases(stored: &[u64], places: &[u64]) -> HashSet<u64> {
    const MAX_BASES: usize = 24;
    let ends = |all: &[u64]| {
        let (first, last) = (all.iter().take(MAX_BASES), all.iter().rev().take(MAX_BASES));
        first.chain(last).copied().collect::<Vec<u64>>()
    };
    let (stored, places) = (ends(stored), ends(places));
    places.iter().flat_map(|place| stored.iter().filter_map(|offset| place.checked_sub(*offset))).collect()
}

/// The damaged chunks that probably belong to the frame: they look like the intact ones and lie between them. If no
/// chunk is intact, `like` defines their size and their headers.
pub(super) fn believable_torn(
    chunks: &[FoundChunk],
    torn: &[FoundChunk],
    like: Option<&FrameHeader>,
) -> Vec<FoundChunk> {
    // The headers of a frame's chunks differ little, so the first ones suffice as examples.
    const MAX_EXAMPLES: usize = 16;
    let mut looks: Vec<(ChunkTraits, usize, usize)> = Vec::new();
    for chunk in chunks {
        let few = looks.len() < MAX_EXAMPLES;
        match looks.iter_mut().find(|seen| (seen.0, seen.1) == (chunk.look, chunk.typesize)) {
            Some(seen) => seen.2 = seen.2.max(chunk.nbytes),
            None if few => looks.push((chunk.look, chunk.typesize, chunk.nbytes)),
            None => {}
        }
    }
    let mut out: Vec<FoundChunk> = Vec::new();
    for chunk in torn {
        let alike = |(look, typesize, most): &(ChunkTraits, usize, usize)| {
            (*look, *typesize) == (chunk.look, chunk.typesize) && chunk.nbytes <= *most
        };
        let fits_header = |header: &FrameHeader| {
            let (typesize, chunksize) = (header.itemsize(), header.chunksize());
            chunk.typesize == if typesize > 255 { 1 } else { typesize }
                && chunksize > 0
                && (chunk.nbytes == chunksize || chunk.nbytes as u64 == header.nbytes() % chunksize as u64)
                && [0, chunk.look.1].contains(&header.blocksize())
        };
        let looks = if chunks.is_empty() { like.is_some_and(fits_header) } else { looks.iter().any(alike) };
        let next = chunks.partition_point(|other| other.offset < chunk.offset);
        let free = chunks.get(next).is_none_or(|next| chunk.end() <= next.offset)
            && out.last().is_none_or(|last| last.end() <= chunk.offset);
        if looks && free {
            out.push(*chunk);
        }
    }
    out
}

/// Drops what cannot be a chunk of data in a frame whose index is lost.
pub(super) fn drop_strangers(chunks: &mut Vec<FoundChunk>, head: Option<&RepairedHeader>, trailers: &[u64]) {
    // A chunk directly before a trailer is an index.
    chunks.retain(|chunk| !trailers.contains(&chunk.end()));
    let stated = head.map(|head| (head.header.itemsize(), head.header.chunksize()));
    if stated.is_some_and(|(_, chunksize)| chunksize == 0)
        && head.is_some_and(|head| head.condition == Condition::Intact)
    {
        return;
    }
    // The chunk size that covers most of the bytes, unless sizes are individual.
    let mut sizes: HashMap<(usize, usize), (usize, u64)> = HashMap::new();
    for chunk in chunks.iter() {
        let (count, cbytes) = sizes.entry((chunk.typesize, chunk.nbytes)).or_default();
        (*count, *cbytes) = (*count + 1, *cbytes + chunk.cbytes);
    }
    let Some((&(typesize, nbytes), &(count, cbytes))) =
        sizes.iter().max_by_key(|(size, most)| (most.1, **size))
    else {
        return;
    };
    let all: u64 = chunks.iter().map(|chunk| chunk.cbytes).sum();
    if count * 2 < chunks.len() && cbytes * 2 < all {
        return;
    }
    let whole: Vec<FoundChunk> =
        chunks.iter().filter(|chunk| (chunk.typesize, chunk.nbytes) == (typesize, nbytes)).copied().collect();
    let (Some(last), Some(look)) = (whole.last().copied(), whole.first().map(|chunk| chunk.look)) else {
        return;
    };
    let rest = head
        .filter(|head| head.is_complete() && head.header.chunksize() == nbytes)
        .map(|head| head.header.nbytes() % nbytes as u64);
    chunks.retain(|chunk| {
        // A shorter chunk is the last one. If its size does not follow from the header, it must look like the others
        // and follow them directly: the index of a frame does not look like its data.
        let is_last = match rest {
            Some(rest) => chunk.offset > last.offset && chunk.nbytes as u64 == rest,
            None => chunk.offset == last.end() && chunk.look == look && chunk.nbytes < nbytes,
        };
        chunk.typesize == typesize && (chunk.nbytes == nbytes || is_last)
    });
}

pub(super) fn is_listed(index: &Index, base: u64, place: u64) -> bool {
    let Some(offset) = place.checked_sub(base) else { return false };
    // The smallest offset that is at least this one.
    match offset.checked_sub(1) {
        Some(before) => index.next_offset(before).is_ok_and(|next| next == Some(offset)),
        None => (0..index.len()).any(|nchunk| matches!(index.entry(nchunk), Ok(Entry::Stored(0)))),
    }
}

/// Item and chunk size: the header's if any chunk has them, otherwise what all chunks but the last have in common.
pub(super) fn sizes(head: Option<&RepairedHeader>, chunks: &[FoundChunk]) -> (usize, usize) {
    let stated = head.map(|head| (head.header.itemsize(), head.header.chunksize()));
    let fits = |(typesize, chunksize): &(usize, usize)| {
        let typesize = if *typesize > 255 { 1 } else { *typesize };
        let fits = |chunk: &FoundChunk| {
            chunk.typesize == typesize
                && (*chunksize == 0
                    || chunk.nbytes == *chunksize
                    || chunks.len() == 1 && chunk.nbytes < *chunksize)
        };
        chunks.is_empty() || chunks.iter().any(fits)
    };
    // Individual sizes are marked twice: by a chunk size of 0 and by a flag.
    let individual = head.is_some_and(|head| head.header.general_flags() & 0x40 != 0);
    let states_size = |(_, chunksize): &(usize, usize)| *chunksize > 0 || individual || chunks.is_empty();
    if let Some(stated) = stated.filter(|stated| states_size(stated) && fits(stated)) {
        return stated;
    }
    let Some((last, others)) = chunks.split_last() else { return (1, 0) };
    let chunksize = others.first().map_or(last.nbytes, |chunk| chunk.nbytes);
    let equal = others.iter().all(|chunk| chunk.nbytes == chunksize) && last.nbytes <= chunksize;
    let typesize = match stated {
        Some((typesize, _)) if typesize > 255 && last.typesize == 1 => typesize,
        _ => last.typesize,
    };
    (typesize, if equal { chunksize } else { 0 })
}

/// The chunks that belong to the frame, with gaps where some may be missing; and whether there were too many.
pub(super) fn in_order(
    chunks: &[FoundChunk],
    start: u64,
    typesize: usize,
    chunksize: usize,
    nchunks: Option<u64>,
) -> (Vec<Option<u64>>, bool) {
    let in_chunk = if typesize > 255 { 1 } else { typesize };
    let fits: Vec<&FoundChunk> = chunks
        .iter()
        .filter(|chunk| chunk.typesize == in_chunk && (chunksize == 0 || chunk.nbytes <= chunksize))
        .collect();
    // A chunk that is shorter than the others is the last one.
    let whole = fits.iter().filter(|chunk| chunksize == 0 || chunk.nbytes == chunksize);
    let mut places: Vec<&FoundChunk> = whole.copied().collect();
    let short = fits.iter().rev().find(|chunk| chunksize > 0 && chunk.nbytes < chunksize);
    places.extend(short.filter(|chunk| places.last().is_none_or(|last| last.offset < chunk.offset)));
    let Some(nchunks) = nchunks.and_then(|n| usize::try_from(n).ok()) else {
        return (places.iter().map(|chunk| Some(chunk.offset)).collect(), places.len() < chunks.len());
    };
    let mut missing = nchunks.saturating_sub(places.len());
    let mut out = Vec::new();
    let mut end = start;
    for chunk in &places {
        // Bytes that belong to no chunk were probably one.
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

/// Puts damaged chunks into gaps, where the number of candidates between the neighbours equals the length of the gap.
pub(super) fn place_torn(places: &mut [Option<u64>], torn: &[FoundChunk]) {
    let mut before = None;
    let mut i = 0;
    while i < places.len() {
        if places[i].is_some() {
            before = places[i];
            i += 1;
            continue;
        }
        let len = places[i..].iter().take_while(|place| place.is_none()).count();
        let after = places.get(i + len).copied().flatten();
        let fits = |chunk: &&FoundChunk| {
            before.is_none_or(|before| before < chunk.offset)
                && after.is_none_or(|after| chunk.offset < after)
        };
        if torn.iter().filter(fits).count() == len {
            for (place, chunk) in places[i..].iter_mut().zip(torn.iter().filter(fits)) {
                *place = Some(chunk.offset);
            }
        }
        i += len;
    }
}

/// The damaged chunks, plus those that decode but match no checksum. Older chunks, left in the frame by changes, look
/// the same, so the latter are used only if nothing but chunks precedes the index.
pub(super) fn without_place(
    head: Option<&RepairedHeader>,
    damaged: &DamagedFiles<'_>,
    found: &[FoundChunk],
    torn: &[FoundChunk],
    places: &[Option<u64>],
) -> Vec<FoundChunk> {
    let mut out = torn.to_vec();
    let stored: u64 = found.iter().chain(torn).map(|chunk| chunk.cbytes).sum();
    let is_dense =
        head.is_some_and(|head| head.condition == Condition::Intact && head.header.cbytes() == stored);
    if is_dense && damaged.dir.is_none() {
        let taken: HashSet<u64> = places.iter().copied().flatten().collect();
        out.extend(found.iter().filter(|chunk| !taken.contains(&chunk.offset)));
        out.sort_unstable_by_key(|chunk| chunk.offset);
    }
    out
}
