//! Makes a readable frame from a damaged one.

mod files;
mod find;
mod head;
mod rebuild;
mod scan;
mod sums;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use b2_chunk::{Chunk, ChunkHeader, CodecId, Compression, Container, SpecialKind};
use b2_core::{Report, memory};

use crate::error::within;
use crate::format::digest;
use crate::format::index::{Entry, Index};
use crate::format::indexes::INDEXES;
use crate::format::trailer::Trailer;
use crate::read::options::Compare;
use crate::{
    FrameError, FrameHeader, FrameParams, FrameWriter, Metalayers, ReadOptions, Structure, WriteOptions,
};

use files::DamagedFiles;
use find::{
    EmbeddedIndex, believable_torn, damaged_trailer, drop_strangers, first_chunks, first_headers, in_order,
    index_among, index_in_place, intact_chunk_files, is_believable, is_listed, is_outdated, place_torn,
    sizes, trailer_in_place, without_place,
};
use head::{AgainstSum, RepairedHeader};
pub use head::{Condition, KnownHeader};
use rebuild::{RebuiltChunk, rebuild};
use scan::{FoundChunk, Scan};
use sums::FoundSums;

/// Consecutive chunks that could not be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostChunks {
    /// Their positions in the damaged frame; guesses if the index is lost.
    pub nchunks: Range<usize>,
    /// Whether fill values have replaced them, or some of their [`blocks`](Self::blocks). In frames with individual
    /// chunk sizes they are omitted instead, and all later chunks move up.
    pub filled: bool,
    /// The recovered blocks of the chunk, if any. The group is then a single chunk.
    pub blocks: Option<LostBlocks>,
    /// The reason why the first of them was lost.
    pub why: String,
}

/// The recovered part of a chunk whose head is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostBlocks {
    /// The number of blocks in the chunk.
    pub nblocks: usize,
    /// The blocks that do not decode or were overwritten by zeros. They are replaced by fill values.
    pub lost: Vec<usize>,
    /// The blocks that were used because they decode, although the chunk does not match its checksum.
    pub suspect: Vec<usize>,
}

/// The report of [`salvage`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The fixed part of the header.
    pub header: Condition,
    /// The metalayers; an array that lost them is a plain super-chunk.
    pub metalayers: Condition,
    /// The index. Without one, chunks are in the order in which they were found, chunks that only the index records
    /// (mainly zeros) count as lost, and chunks that were replaced earlier may reappear.
    pub index: Condition,
    /// The trailer with the vlmetalayers.
    pub trailer: Condition,
    /// Number of chunks in the new frame.
    pub nchunks: usize,
    /// How many of them come from the damaged frame.
    pub recovered: usize,
    /// How many of those are proven unchanged by their checksums.
    pub verified: usize,
    /// How many of those are stored chunks that decode, but may have wrong values: the frame has checksums, but theirs
    /// are lost.
    pub uncompared: usize,
    /// How many chunks could not be recovered.
    pub nlost: usize,
    /// The lost chunks; the first 4096 groups.
    pub lost: Vec<LostChunks>,
    /// Names of vlmetalayers whose value could not be recovered.
    pub lost_vlmetalayers: Vec<String>,
    /// Uncompressed size of the output, in bytes.
    pub nbytes: u64,
    /// Whether number and order of the chunks are known: from the index, from checksums, or because the chunks that
    /// were found add up exactly to the size in the header.
    pub certain: bool,
}

/// The maximum number of reported groups of lost chunks.
const MAX_GROUPS: usize = 4096;

/// Writes everything readable from the frame at `input`, which may be damaged anywhere, to `output` as a new frame
/// with the same storage.
///
/// A readable index gives the positions of the chunks. Otherwise all bytes are searched (in sparse frames: all chunk
/// files, ordered by their numbers). Checksums, if found, show which chunks are intact and where each belongs; without
/// them, each chunk is decoded to check it. With [`ReadOptions::checksums`] switched off, everything that decodes is
/// used. Lost chunks are replaced by zeros, so that the others keep their positions.
///
/// A call that is cancelled (by the [`Control`](b2_core::Control) of `options`) writes nothing to `output`. With
/// [`WriteOptions::keep_better`] it does not replace a frame that has more intact chunks than were saved.
///
/// # Errors
/// [`FrameError::NotAFrame`] if nothing was found that belongs to a frame, [`FrameError::NothingLeft`] if only its
/// trailer or checksums are left, [`FrameError::HoldsMore`], and errors from reading and writing.
pub fn salvage(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &ReadOptions,
    write: &WriteOptions,
) -> Result<SalvageReport, FrameError> {
    salvage_with(input, output, options, write, |_, _| None, ChunkUse::Intact, None, |_, _| Ok(Vec::new()))
}

/// Which parts of a damaged chunk are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkUse {
    /// Nothing.
    Intact,
    /// The blocks that decode, if its head is intact and others explain why the chunk does not fit its checksum: they do
    /// not decode, or a sector of zeros is in them. The chunk still counts as lost. With
    /// [`WriteOptions::keep_suspect`] also where no block explains it.
    Blocks,
}

/// As [`salvage`], for frames whose metalayers define how chunks are decoded: `container` gets the header and the
/// metalayers that were found. Codecs and filters for arrays need the shape of the blocks.
///
/// `given` replaces a lost header or lost metalayers. Chunks of another size than in `given` are an error.
///
/// `fill` returns the item that replaces lost ones. It gets the metalayers that were found, and the item
/// size in bytes; no bytes mean zeros.
///
/// # Errors
/// As [`salvage`], and the errors of `fill`; [`FrameError::Argument`] if `given` does not fit the chunks.
#[allow(clippy::too_many_arguments, reason = "internal; two crates call it")]
pub fn salvage_with(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &ReadOptions,
    write: &WriteOptions,
    container: impl Fn(&FrameHeader, &Metalayers) -> Option<Container>,
    used: ChunkUse,
    given: Option<&KnownHeader>,
    fill: impl Fn(Option<&Metalayers>, usize) -> Result<Vec<u8>, FrameError>,
) -> Result<SalvageReport, FrameError> {
    let mut damaged = DamagedFiles::open(input.as_ref(), options)?;
    let head = head::read(&damaged.main, damaged.storage(), &damaged.dparams)?;
    // A trailer without a fingerprint belongs to a frame without checksums. Those in the file are of an earlier state.
    let trailer = head.as_ref().and_then(|head| trailer_in_place(&damaged, head));
    let fingerprint = trailer.map(|trailer| trailer.has_fingerprint());
    let has_sums = fingerprint.unwrap_or(true);
    let sums =
        if damaged.options.checksums && has_sums { sums::find(&damaged, head.as_ref())? } else { None };
    let head = match (head, &sums) {
        (Some(head), Some(sums)) => Some(head.compared(&damaged.main, sums.header, &damaged.dparams)?),
        (head, _) => head,
    };
    let head = match given {
        Some(given) => Some(RepairedHeader::completed(head, given, damaged.storage())),
        None => head,
    };
    if let Some(head) = &head {
        let plain = Container::default()
            .itemsize(Some(head.header.itemsize()))
            .frame_blocksize(head.header.blocksize());
        damaged.dparams.container = container(&head.header, &head.metalayers).unwrap_or(plain);
    }
    let lost = head.as_ref().is_none_or(|head| head.metalayers_condition == Condition::Lost);
    damaged.meaning_lost = lost;
    let has_sums = damaged.options.checksums && (fingerprint == Some(true) || sums.is_some());
    let mut wreck = DamagedFrame::survey(damaged, head, sums)?;
    wreck.has_sums = has_sums;
    let itemsize = wreck.damaged.dparams.container.itemsize.unwrap_or(wreck.typesize);
    wreck.used = used;
    wreck.fill = fill(wreck.head.as_ref().map(|head| &head.metalayers), itemsize)?;
    wreck.write(output.as_ref(), write)
}

/// Where the chunks are.
enum Order {
    /// From the index; its offsets count from this byte.
    Index(Index, u64),
    /// At these positions, `None` for missing chunks.
    Found(Vec<Option<u64>>),
}

/// Everything that is known before writing starts.
struct DamagedFrame<'a> {
    damaged: DamagedFiles<'a>,
    head: Option<RepairedHeader>,
    order: Order,
    index: Condition,
    trailer: Option<Trailer>,
    trailer_condition: Condition,
    typesize: usize,
    /// Uncompressed size of all chunks but the last; 0 if they have individual sizes.
    chunksize: usize,
    /// Uncompressed size of all chunks together, if the header defines it.
    nbytes: Option<u64>,
    /// Whether more chunks were found than there should be.
    surplus: bool,
    /// Checksums of the chunks, where they are known.
    sums: Vec<Option<u64>>,
    /// Whether the frame has checksums, known or not.
    has_sums: bool,
    /// Whether the checksums determined the order of all chunks.
    ordered: bool,
    /// Whether the index belongs to an older state.
    outdated: bool,
    /// Names of vlmetalayers whose value is lost.
    lost_vlmetalayers: Vec<String>,
    /// Headers of a few chunks, by which those of others are rebuilt.
    alike: OnceCell<Vec<(usize, ChunkHeader)>>,
    /// The item that replaces lost ones; empty for zeros.
    fill: Vec<u8>,
    used: ChunkUse,
}

impl<'a> DamagedFrame<'a> {
    fn survey(
        damaged: DamagedFiles<'a>,
        head: Option<RepairedHeader>,
        mut sums: Option<FoundSums>,
    ) -> Result<Self, FrameError> {
        let mut trailer = head.as_ref().and_then(|head| trailer_in_place(&damaged, head));
        let mut trailer_condition = if trailer.is_some() { Condition::Intact } else { Condition::Lost };
        let start = head.as_ref().and_then(RepairedHeader::data_start);
        let (index_sum, had_sums) = (sums.as_ref().map(|sums| sums.index), sums.is_some());
        let mut lost_vlmetalayers = Vec::new();
        match &trailer {
            // Also where the structure is intact, some of its bytes may not be.
            Some(_) if sums.as_ref().is_some_and(|sums| !sums.fit_trailer(&damaged)) => {
                trailer_condition = Condition::Damaged;
            }
            Some(_) => {}
            None => {
                let left = head.as_ref().and_then(|head| damaged_trailer(&damaged, head, sums.as_ref()));
                if let Some((there, lost)) = left {
                    (trailer, trailer_condition) = (Some(there), Condition::Damaged);
                    lost_vlmetalayers = lost;
                }
            }
        }
        let known = sums.as_ref().map(FoundSums::known).unwrap_or_default();
        let index = head.as_ref().and_then(|head| index_in_place(&damaged, head));
        let index = match index {
            Some((index, sum))
                if index_sum == Some(sum) || is_believable(&damaged, &index, start.unwrap_or(0))? =>
            {
                Some((index, sum))
            }
            _ => None,
        };
        let mut index_condition = Condition::Intact;
        let mut found = Scan::default();
        if index.is_none() || trailer.is_none() {
            let from = head.as_ref().map_or(0, |head| head.end);
            found = scan::scan(&damaged, from, damaged.searched(), &known)?;
            if trailer.is_none()
                && let Some(there) = found.trailer.take()
            {
                (trailer, trailer_condition) = (Some(there), Condition::Found);
            }
        }
        let candidates = found.chunks.clone();
        let mut torn = std::mem::take(&mut found.torn);
        // Part of a copy of the frame's start, with the head of the first chunk, may be left.
        if let Some(start) = start {
            let head = |at: u64| damaged.stored(at, at.checked_add(32)).filter(|_| damaged.dir.is_none());
            let first = head(start);
            torn.retain(|chunk| chunk.offset == start || first.is_none() || head(chunk.offset) != first);
        }
        if index.is_none() && damaged.dir.is_some() {
            (found.chunks, torn) = intact_chunk_files(&damaged, &known)?;
        }
        let mut index = index.map(|(index, sum)| (index, start.unwrap_or(0), sum));
        let (mut places, mut outdated) = (None, false);
        if index.is_none() {
            index_condition = Condition::Lost;
            let like = head.as_ref().map(|head| &head.header);
            torn = believable_torn(&found.chunks, &torn, like);
            let chunks = found.chunks.iter().chain(&torn);
            let by_place: HashMap<u64, FoundChunk> = chunks.map(|chunk| (chunk.offset, *chunk)).collect();
            let trailer = found.trailers.last().copied();
            let among = |index_sum| index_among(&damaged, &candidates, &by_place, start, trailer, index_sum);
            sums = sums.filter(|sums| !is_outdated(&damaged, sums.end, &candidates));
            // An index that the checksums do not match belongs to another state.
            let there = sums.as_ref().and_then(|sums| among(Some(sums.index)));
            if there.is_none()
                && let Some(sums) = &sums
            {
                places = sums.places(&damaged, &found.chunks)?;
            }
            if let Some(there) = &mut places {
                let damaged_ones = without_place(head.as_ref(), &damaged, &found.chunks, &torn, there);
                place_torn(there, &damaged_ones);
                let those: HashSet<u64> = there.iter().copied().flatten().collect();
                found.chunks.retain(|chunk| those.contains(&chunk.offset));
            } else if let Some(EmbeddedIndex { index: there, base, sum, at }) = there.or_else(|| among(None))
            {
                index_condition = Condition::Found;
                outdated = is_outdated(&damaged, at, &candidates);
                found.chunks.retain(|chunk| is_listed(&there, base, chunk.offset));
                index = Some((there, base, sum));
            } else {
                let trailers = if damaged.dir.is_none() { &found.trailers[..] } else { &[] };
                drop_strangers(&mut found.chunks, head.as_ref(), trailers);
                torn = believable_torn(&found.chunks, &torn, head.as_ref().map(|head| &head.header));
                found.chunks.extend(&torn);
                found.chunks.sort_unstable_by_key(|chunk| chunk.offset);
            }
        }
        if let Some((index, base, _)) = &index
            && index_condition == Condition::Intact
        {
            found.chunks = first_chunks(&damaged, index, *base);
        }
        let (typesize, chunksize) = sizes(head.as_ref(), &found.chunks);
        let nbytes = head.as_ref().filter(|head| head.is_complete()).map(|head| head.header.nbytes());
        // Lost chunks are replaced by zeros: as index entries, or as stored chunks where entries cannot express them.
        let most = if chunksize.is_multiple_of(typesize) {
            (damaged.dparams.limits.max_metadata / MADE_UP_SHARE).max(found.chunks.len() as u64 * 2)
        } else {
            MAX_MADE_UP
        };
        let nchunks = nbytes.filter(|_| chunksize > 0).map(|n| n.div_ceil(chunksize as u64));
        let nchunks = nchunks.filter(|n| *n <= most);
        // Without an index and its checksum, the header could claim any number of them.
        let vouched = sums.is_some()
            && head.as_ref().is_some_and(|head| head.against_sum != AgainstSum::Differs)
            || head.as_ref().is_some_and(|head| head.condition == Condition::Given);
        let plain = found.chunks.iter().map(|chunk| chunk.nbytes as u64).sum::<u64>();
        let plausible = plain.saturating_mul(MAX_ZEROS_PER_FOUND).saturating_add(MAX_MADE_UP_NBYTES);
        let nchunks = nchunks.filter(|n| vouched || n.saturating_mul(chunksize as u64) <= plausible);
        let (mut surplus, mut ordered) = (false, false);
        let mut chunk_sums = Vec::new();
        let order = match (index, places) {
            (Some((index, base, sum)), _) => {
                let index_memory = (index.len() as u64).saturating_mul(32);
                let limit = ("max_memory", damaged.dparams.limits.max_memory);
                within("index of what is saved, in bytes", index_memory, limit)?;
                // The checksums may belong to another state.
                if let Some(sums) = sums.filter(|sums| sums.index == sum) {
                    chunk_sums = sums.by_index(&index);
                }
                Order::Index(index, base)
            }
            (None, Some(mut places)) => {
                let complete = sums.as_ref().is_some_and(FoundSums::is_complete);
                ordered = complete && nchunks == Some(places.len() as u64);
                chunk_sums = sums.map(|sums| sums.chunks).unwrap_or_default();
                // Chunks that were not stored are lost with the index. A short chunk is the last one.
                let missing = nchunks.unwrap_or(0).saturating_sub(places.len() as u64) as usize;
                let is_short = found.chunks.last().is_some_and(|chunk| chunk.nbytes < chunksize);
                let at = places.len() - usize::from(is_short && !places.is_empty());
                places.splice(at..at, std::iter::repeat_n(None, missing));
                chunk_sums.splice(at..at, std::iter::repeat_n(None, missing));
                Order::Found(places)
            }
            (None, None) => {
                let start = start.unwrap_or(0);
                let (places, more) = in_order(&found.chunks, start, typesize, chunksize, nchunks);
                // Files between these numbers were removed, so the numbers do not give the order.
                let gaps = places.iter().zip(0..).any(|(place, id)| *place != Some(id));
                surplus = more || damaged.dir.is_some() && gaps;
                Order::Found(places)
            }
        };
        if let Some(given) = head.as_ref().filter(|head| head.condition == Condition::Given) {
            check_given(&given.header, &found.chunks)?;
        }
        let nothing = match &order {
            Order::Index(..) => false,
            Order::Found(places) => places.iter().flatten().next().is_none(),
        };
        if head.is_none() && nothing {
            let end_is_left = trailer.is_some() || had_sums;
            return Err(if end_is_left { FrameError::NothingLeft } else { FrameError::NotAFrame });
        }
        Ok(Self {
            damaged,
            head,
            order,
            index: index_condition,
            trailer,
            trailer_condition,
            typesize,
            chunksize,
            nbytes,
            surplus,
            sums: chunk_sums,
            has_sums: false,
            ordered,
            outdated,
            lost_vlmetalayers,
            alike: OnceCell::new(),
            fill: Vec::new(),
            used: ChunkUse::Intact,
        })
    }

    fn len(&self) -> usize {
        match &self.order {
            Order::Index(index, _) => index.len(),
            Order::Found(places) => places.len(),
        }
    }

    /// Uncompressed size of chunk `nchunk`, if it follows from the others.
    fn expected(&self, nchunk: usize) -> Option<usize> {
        if self.chunksize == 0 {
            return None;
        }
        let whole = self.chunksize as u64;
        let last = self.nbytes.and_then(|nbytes| nbytes.checked_sub(nchunk as u64 * whole));
        match last {
            Some(last) if nchunk + 1 == self.len() && (1..=whole).contains(&last) => Some(last as usize),
            _ => Some(self.chunksize),
        }
    }

    /// Returns the location of the chunk at a position: a byte of the file, or the number of a chunk file; or its
    /// special value if it is not stored.
    fn place(&self, nchunk: usize) -> Result<Result<u64, SpecialKind>, String> {
        Ok(Ok(match &self.order {
            Order::Found(places) => places.get(nchunk).copied().flatten().ok_or("not found")?,
            Order::Index(index, base) => {
                match index.entry(nchunk).map_err(|error| Report(&error).to_string())? {
                    Entry::Special(kind) => return Ok(Err(kind)),
                    Entry::Stored(offset) if self.damaged.dir.is_some() => offset,
                    Entry::Stored(offset) => base.checked_add(offset).ok_or("its offset is too large")?,
                }
            }
        }))
    }

    /// Returns the parts of a stored chunk that are in sectors of zeros: probably lost sectors of a disk. Compressed
    /// data have none.
    fn erased(&self, nchunk: usize, len: usize) -> Vec<Range<usize>> {
        const SECTOR: u64 = 512;
        let Ok(Ok(place)) = self.place(nchunk) else { return Vec::new() };
        let start = if self.damaged.dir.is_some() { 0 } else { place };
        let first = start / SECTOR * SECTOR;
        let end = start.saturating_add(len as u64).next_multiple_of(SECTOR);
        let bytes = match self.damaged.dir {
            Some(_) => self.damaged.stored(place, None),
            None => self.damaged.stored(first, Some(end.min(self.damaged.main.len()))),
        };
        let Some(bytes) = bytes else { return Vec::new() };
        let sectors = bytes.chunks(SECTOR as usize).enumerate();
        let zeros = sectors.filter(|(_, sector)| sector.iter().all(|byte| *byte == 0));
        let inside = zeros.map(|(n, sector)| {
            let at = first.saturating_add(n as u64 * SECTOR);
            let from = at.saturating_sub(start) as usize;
            from..at.saturating_add(sector.len() as u64).saturating_sub(start) as usize
        });
        inside.collect()
    }

    /// Returns the chunk at a position: a stored one that is intact, or a special one from the index.
    fn fetch(&self, nchunk: usize, seen: &mut HashSet<u64>) -> Result<FetchedChunk, DamagedChunk> {
        let place = match self.place(nchunk)? {
            Ok(place) => place,
            Err(kind) => return Ok(FetchedChunk::Special(kind)),
        };
        if !seen.insert(place) {
            return Err("the index gives it the place of another chunk".into());
        }
        let chunk = self.damaged.chunk(place).map_err(|error| {
            let why = Report(&error).to_string();
            DamagedChunk {
                why,
                chunk: if self.used == ChunkUse::Blocks { self.damaged.cut_off(place) } else { None },
            }
        })?;
        let broken = |why: String| DamagedChunk { why, chunk: Some((chunk.clone(), chunk.as_bytes().len())) };
        let verified = match self.sums.get(nchunk).copied().flatten() {
            Some(sum) if sum == digest::sum(chunk.as_bytes()) => {
                match chunk.check(&self.damaged.dparams).0 {
                    Ok(()) => true,
                    // Unchanged, whether or not it can be decoded here.
                    Err(error) if self.damaged.excuses(&error) => true,
                    Err(error) => return Err(Report(&error).to_string().into()),
                }
            }
            Some(_) => return Err(broken("its bytes do not fit the checksum".into())),
            None => {
                let checked = chunk.check(&self.damaged.dparams).0;
                checked.map_err(|error| broken(Report(&error).to_string()))?;
                false
            }
        };
        // For the last chunk its own size counts, not the header's chunk size.
        let is_last = nchunk + 1 == self.len() && chunk.nbytes() <= self.chunksize;
        match self.expected(nchunk) {
            Some(nbytes) if chunk.nbytes() != nbytes && !is_last => {
                Err(format!("has {} bytes uncompressed instead of {nbytes}", chunk.nbytes()).into())
            }
            _ => Ok(FetchedChunk::Stored(chunk, verified)),
        }
    }

    /// Recovers a chunk that is damaged after its head: recompresses the blocks that decode, with fill values in place
    /// of the others. `None` if no block decodes. Only the first `there` bytes of the chunk exist, and blocks that are
    /// `known`.
    fn patched(
        &self,
        nchunk: usize,
        chunk: &Chunk,
        there: usize,
        known: impl Fn(usize) -> bool,
        keep_suspect: bool,
    ) -> Option<(Chunk, LostBlocks)> {
        let nbytes = self.expected(nchunk).filter(|nbytes| *nbytes == chunk.nbytes())?;
        let header = chunk.header();
        if self.used == ChunkUse::Intact
            || header.is_vl()
            || header.special().is_some()
            || header.blocksize() == 0
        {
            return None;
        }
        let limits = &self.damaged.dparams.limits;
        limits.check_memory("a damaged chunk, in bytes", nbytes as u64).ok()?;
        let mut plain = self.filler(nbytes)?;
        let lazy = chunk.lazy(&self.damaged.dparams).ok()?;
        let erased = self.erased(nchunk, chunk.as_bytes().len());
        let is_there = |nblock| {
            let extent = lazy.block_extent(nblock);
            let is_erased = erased.iter().any(|run| run.start < extent.end && extent.start < run.end);
            extent.end <= there && known(nblock) && !is_erased
        };
        if lazy.needs_block0() && !is_there(0) {
            return None;
        }
        let blocksize = lazy.blocksize();
        let mut lost = Vec::new();
        let mut block = Vec::new();
        for (nblock, place) in plain.chunks_mut(blocksize).enumerate() {
            memory::sized(&mut block, place.len()).ok()?;
            block.truncate(place.len());
            let start = nblock.checked_mul(blocksize)?;
            match chunk.get_bytes_into(start, &mut block, &self.damaged.dparams) {
                // The padding with zeros would decode as zeros.
                Ok(()) if is_there(nblock) => place.copy_from_slice(&block),
                _ => lost.push(nblock),
            }
        }
        let nblocks = lazy.nblocks();
        if lost.len() == nblocks || lost.is_empty() && !keep_suspect {
            return None;
        }
        let suspect = (0..nblocks).filter(|nblock| lost.binary_search(nblock).is_err()).collect();
        // Use a codec that every reader has; the chunk's own may be lossy.
        let recompressed = [CodecId::ZSTD, CodecId::LZ4, CodecId::BLOSCLZ].into_iter().find_map(|codec| {
            let cparams =
                Compression::new().itemsize(header.itemsize()).codec(codec).level(5).blocksize(blocksize);
            Chunk::compress_bytes(&plain, &cparams.build().ok()?).ok()
        })?;
        Some((recompressed, LostBlocks { nblocks, lost, suspect }))
    }

    /// Rebuilds the head of a chunk, if its position is in the index and other chunks are similar.
    fn rebuilt(&self, nchunk: usize) -> Option<RebuiltChunk> {
        let Order::Index(index, base) = &self.order else { return None };
        let Ok(Entry::Stored(offset)) = index.entry(nchunk) else { return None };
        let place = if self.damaged.dir.is_some() { offset } else { base.checked_add(offset)? };
        let next = match (index.next_offset(offset).ok()?, &self.head) {
            _ if self.damaged.dir.is_some() => None,
            (Some(next), _) => Some(base.checked_add(next)?),
            (None, Some(head)) => Some(base.checked_add(head.header.cbytes())?),
            (None, None) => return None,
        };
        let stored = self.damaged.stored(place, next)?;
        let nbytes = self.expected(nchunk)?;
        let alike = self.alike.get_or_init(|| first_headers(&self.damaged, index, *base));
        let others = alike.iter().filter(|(other, _)| *other != nchunk);
        let rebuilt = others.filter_map(|(_, like)| rebuild(&stored, nbytes, like));
        rebuilt.max_by_key(|rebuilt| rebuilt.known.iter().filter(|known| **known).count())
    }

    /// Returns a chunk whose head alone was lost, if its checksum proves that it is right again.
    fn whole_again(&self, nchunk: usize) -> Option<Chunk> {
        let expected = self.sums.get(nchunk).copied().flatten()?;
        let RebuiltChunk { chunk, .. } = self.rebuilt(nchunk)?;
        (digest::sum(chunk.as_bytes()) == expected && chunk.check(&self.damaged.dparams).0.is_ok())
            .then_some(chunk)
    }

    /// Returns this many bytes of fill values.
    fn filler(&self, nbytes: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        memory::sized(&mut out, nbytes).ok()?;
        out.truncate(nbytes);
        out.fill(0);
        if !self.fill.is_empty() {
            for item in out.chunks_exact_mut(self.fill.len()) {
                item.copy_from_slice(&self.fill);
            }
        }
        Some(out)
    }

    /// Writes a chunk of fill values in place of a lost one.
    fn append_fill(&self, writer: &mut FrameWriter, nbytes: usize) -> Result<(), FrameError> {
        if self.fill.iter().all(|byte| *byte == 0) || !nbytes.is_multiple_of(self.fill.len()) {
            writer.append_special(SpecialKind::Zeros, nbytes)?;
            return Ok(());
        }
        // Use the item size of the chunk, because the frame's may be lost.
        let blocksize = self.damaged.dparams.container.frame_blocksize;
        let chunk = Chunk::special(SpecialKind::Value, &self.fill, nbytes, self.fill.len(), blocksize);
        writer.append(chunk.map_err(FrameError::chunk(Structure::Frame))?)?;
        Ok(())
    }

    fn params(&self) -> FrameParams {
        let params = match &self.head {
            Some(head) => FrameParams::like(&head.header),
            None => FrameParams::new(self.typesize),
        };
        let mut params = params.plugins(self.damaged.dparams.plugins.clone());
        params.typesize = self.typesize;
        params.clevel = params.clevel.min(9);
        params.blocksize = params.blocksize.min(b2_chunk::MAX_BLOCKSIZE);
        params.chunksize = (self.len() > 0).then_some(self.chunksize);
        for (name, value) in self.head.iter().flat_map(|head| head.metalayers.iter()) {
            params = params.metalayer(name, value);
        }
        params
    }

    /// Refuses to replace a frame that holds more than was saved: an earlier, better result, or the only copy.
    fn keep_better(&self, output: &Path, saved: usize) -> Result<(), FrameError> {
        // A file that is missing or cannot be opened holds nothing.
        let options = self.damaged.options.clone().control(self.damaged.call.quiet());
        let Ok(there) = options.compare(Compare::Never).open(output) else { return self.damaged.go_on() };
        let known = HashSet::new();
        let mut intact = 0;
        for nchunk in 0..if there.nchunks() > saved { there.nchunks() } else { 0 } {
            self.damaged.go_on()?;
            // Zeros and other values that are not stored may themselves be replacements for lost chunks.
            let is_stored = matches!(there.entry(nchunk), Ok(Entry::Stored(_)));
            let Some(chunk) = is_stored.then(|| there.chunk(nchunk).read().ok()).flatten() else { continue };
            if chunk.header().special().is_none() && self.damaged.is_intact(&chunk, &known, &mut 0)? {
                intact += 1;
            }
            if intact > saved {
                return Err(FrameError::HoldsMore { path: output.to_owned(), saved });
            }
        }
        Ok(())
    }

    fn write(self, output: &Path, options: &WriteOptions) -> Result<SalvageReport, FrameError> {
        let replaces = options.target.overwrite && options.keep_better;
        let (restored, keep_suspect) = (self.damaged.restored, options.keep_suspect);
        let options = options.clone().many_vlmetalayers(true);
        let mut writer = options.storage(self.damaged.storage()).create(output, self.params())?;
        let mut report = SalvageReport {
            header: self.head.as_ref().map_or(Condition::Lost, |head| head.condition(restored)),
            metalayers: self.head.as_ref().map_or(Condition::Lost, |head| head.metalayers_told(restored)),
            index: self.index,
            trailer: self.trailer_condition,
            nchunks: 0,
            recovered: 0,
            verified: 0,
            uncompared: 0,
            nlost: 0,
            lost: Vec::new(),
            lost_vlmetalayers: self.lost_vlmetalayers.clone(),
            nbytes: 0,
            certain: false,
        };
        let mut seen = HashSet::new();
        let (mut vl, mut with_data) = (None, 0);
        for nchunk in 0..self.len() {
            let fetched = self.fetch(nchunk, &mut seen).or_else(|broken| match self.whole_again(nchunk) {
                Some(chunk) => Ok(FetchedChunk::Stored(chunk, true)),
                None => Err(broken),
            });
            // A chunk is not lost just because the call was cancelled.
            self.damaged.go_on()?;
            let broken = match (fetched, self.expected(nchunk)) {
                (Ok(FetchedChunk::Stored(chunk, verified)), _)
                    if *vl.get_or_insert(chunk.header().is_vl()) == chunk.header().is_vl() =>
                {
                    with_data += usize::from(chunk.header().special().is_none());
                    writer.append(chunk)?;
                    report.verified += usize::from(verified);
                    report.uncompared += usize::from(self.has_sums && !verified);
                    None
                }
                (Ok(FetchedChunk::Special(kind)), Some(nbytes)) if vl != Some(true) => {
                    append_special(&mut writer, kind, nbytes)?;
                    None
                }
                (Ok(_), _) => Some(DamagedChunk::from("is of another kind than the others")),
                (Err(broken), _) => Some(broken),
            };
            let Some(DamagedChunk { why, chunk }) = broken else {
                report.recovered += 1;
                continue;
            };
            // Where zeros are in the head of a chunk, its blocks would decode from wrong places.
            let patched = self
                .rebuilt(nchunk)
                .and_then(|RebuiltChunk { chunk, known }| {
                    let there = chunk.as_bytes().len();
                    self.patched(
                        nchunk,
                        &chunk,
                        there,
                        |nblock| known.get(nblock) == Some(&true),
                        keep_suspect,
                    )
                })
                .or_else(|| {
                    let (chunk, there) = chunk?;
                    self.patched(nchunk, &chunk, there, |_| true, keep_suspect)
                });
            if let Some((chunk, blocks)) = patched.filter(|_| vl != Some(true)) {
                with_data += 1;
                writer.append(chunk)?;
                report.lose(nchunk, !blocks.lost.is_empty(), Some(blocks), why);
                continue;
            }
            self.damaged.go_on()?;
            let fill = self.expected(nchunk).filter(|_| vl != Some(true));
            if let Some(nbytes) = fill {
                self.append_fill(&mut writer, nbytes)?;
            }
            report.lose(nchunk, fill.is_some(), None, why);
        }
        if let Some(trailer) = &self.trailer {
            // The indexes of python-blosc2 do not fit what may be lost.
            let layers = trailer.vlmetalayers.iter().filter(|(name, _)| *name != INDEXES.as_bytes());
            for (name, _) in layers {
                match (trailer.vlmetalayers.get(name), trailer.vlmetalayers.chunk(name)) {
                    (Ok(Some(_)), Ok(Some(chunk))) => writer.set_vlmetalayer_chunk(name, chunk)?,
                    _ => report.lost_vlmetalayers.push(crate::format::metalayers::show(name)),
                }
            }
        }
        if replaces {
            self.keep_better(output, with_data)?;
        }
        // The last chance to cancel: after this, there is an output.
        self.damaged.go_on()?;
        let written = writer.finish()?;
        (report.nchunks, report.nbytes) = (written.nchunks, written.nbytes);
        let all_there = report.nlost == 0 && !self.surplus && self.nbytes == Some(written.nbytes);
        let known = self.index != Condition::Lost || self.ordered || all_there;
        let trusted = self.head.as_ref().is_none_or(|head| head.against_sum != AgainstSum::Differs);
        report.certain = known && trusted && !self.outdated;
        Ok(report)
    }
}

/// The maximum number of chunks of zeros that are stored in place of lost ones.
const MAX_MADE_UP: u64 = 4096;
/// The limit for metadata divided by this is the number of index entries for zeros that are made without an index.
/// Each entry takes dozens of bytes while the frame is written, and only the header supports their number.
const MADE_UP_SHARE: u64 = 64;

/// How many bytes of zeros to make for each byte found, if only a header without a checksum claims them.
const MAX_ZEROS_PER_FOUND: u64 = 64;
/// This many bytes of zeros are allowed in any case.
const MAX_MADE_UP_NBYTES: u64 = 4 << 30;

/// Checks that chunks that were found can be those of a header that the caller gave.
fn check_given(header: &FrameHeader, found: &[FoundChunk]) -> Result<(), FrameError> {
    let Some(chunk) = found.first() else { return Ok(()) };
    let typesize = if header.itemsize() > 255 { 1 } else { header.itemsize() };
    let (chunksize, blocksize) = (header.chunksize(), header.blocksize());
    let fits = |chunk: &FoundChunk| {
        chunk.typesize == typesize
            && chunk.nbytes == chunksize
            && (blocksize == 0 || chunk.look.1 == blocksize || chunk.look.1 == 0)
    };
    if found.iter().any(fits) {
        return Ok(());
    }
    let what = format!(
        "the chunks in the file hold {} bytes in blocks of {}, with items of {} bytes; given were {chunksize}, \
         {blocksize} and {}",
        chunk.nbytes,
        chunk.look.1,
        chunk.typesize,
        header.itemsize()
    );
    Err(FrameError::argument("shape of chunks", what))
}

/// A damaged chunk.
struct DamagedChunk {
    why: String,
    /// Its bytes, if they look like a chunk, and how many of them exist: the rest is padded with zeros.
    chunk: Option<(Chunk, usize)>,
}

impl<T: Into<String>> From<T> for DamagedChunk {
    fn from(why: T) -> Self {
        Self { why: why.into(), chunk: None }
    }
}

enum FetchedChunk {
    /// The flag is whether its checksum matches.
    Stored(Chunk, bool),
    Special(SpecialKind),
}

fn append_special(writer: &mut FrameWriter, kind: SpecialKind, nbytes: usize) -> Result<usize, FrameError> {
    match writer.append_special(kind, nbytes) {
        Err(FrameError::Argument { .. }) => writer.append_special(SpecialKind::Zeros, nbytes),
        result => result,
    }
}

impl SalvageReport {
    fn lose(&mut self, nchunk: usize, filled: bool, blocks: Option<LostBlocks>, why: String) {
        self.nlost += 1;
        if let Some(last) = self.lost.last_mut()
            && blocks.is_none()
            && last.blocks.is_none()
            && (last.nchunks.end, last.filled, &last.why) == (nchunk, filled, &why)
        {
            last.nchunks.end += 1;
        } else if self.lost.len() < MAX_GROUPS {
            self.lost.push(LostChunks { nchunks: nchunk..nchunk + 1, filled, blocks, why });
        }
    }
}
