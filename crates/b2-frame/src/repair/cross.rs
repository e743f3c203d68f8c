//! Compares chunk headers, index and frame header with each other if there are no checksums. These findings do not
//! prevent reading: every reader accepts it, but no known writer produces it.

use b2_chunk::{Chunk, ChunkHeader, CodecFormat, EXTENDED_HEADER_LEN, FilterSlot, SpecialKind};

use crate::format::header::Storage;
use crate::format::index::Entry;
use crate::{FrameError, Structure, SuperChunk};

/// Number of chunk headers read at a time.
const HEADER_BATCH: usize = 4096;
/// The number of findings to keep; the others are only counted.
const MAX_FINDINGS: usize = 8;
/// The maximum number of chunks whose positions are compared with each other, since these must be sorted.
const MAX_COMPARED_CHUNKS: usize = 1 << 20;
/// Size of the largest chunk that is decoded to check its content, in bytes.
const MAX_DECODED_LEN: usize = 64 << 20;

/// Offsets in the chunk header.
const TYPESIZE_AT: u64 = 3;
const FILTERS_AT: u64 = 0x10;
const UDCODEC_AT: u64 = 0x16;
const CODEC_META_AT: u64 = 0x17;
const METAS_AT: u64 = 0x18;
const FLAGS2_AT: u64 = 0x1E;
const BLOSC2_FLAGS_AT: u64 = 0x1F;
/// Size of the records in an instrumented chunk, in bytes.
const RECORD_LEN: usize = 16;

/// Inconsistencies in a frame that can be read without error. Returned by [`SuperChunk::cross_check`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CrossCheck {
    /// Findings that can only be damage.
    pub damage: Vec<FrameError>,
    /// Findings that no known writer produces, but may be intended: the first few.
    pub odd: Vec<FrameError>,
    /// The number of further findings.
    pub more: usize,
}

/// How chunk headers differ from the frame header's settings for new chunks.
#[derive(Default)]
struct Pipelines {
    /// Number of chunks whose streams match the frame header.
    alike: usize,
    /// Number of the others.
    different: usize,
    /// The last of these, if it differs in a single bit.
    one_bit: Option<FrameError>,
}

impl CrossCheck {
    fn add_contradiction(&mut self, error: FrameError) {
        if self.odd.len() < MAX_FINDINGS {
            self.odd.push(error);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    fn damage(&mut self, error: FrameError) {
        if self.damage.len() < MAX_FINDINGS {
            self.damage.push(error);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

impl SuperChunk {
    /// Compares the headers of all stored chunks with the frame header, and the positions of chunks with each other.
    /// Decodes only special chunks that hold more data than they need.
    ///
    /// `uniform`: one writer made all chunks for one purpose, as in an array. Then a chunk with another item size is
    /// damaged, and so is a single chunk among several whose filters differ in one bit. In other frames chunks may
    /// come from anywhere.
    ///
    /// # Errors
    /// If a chunk's header cannot be read, [`FrameError::Io`] or [`FrameError::Changed`]; if it is malformed or its
    /// index entry is, [`FrameError::Chunk`], [`FrameError::Truncated`] or [`FrameError::Field`];
    /// [`FrameError::Limit`].
    pub fn cross_check(&self, uniform: bool) -> Result<CrossCheck, FrameError> {
        let mut found = CrossCheck::default();
        let mut pipelines = Pipelines::default();
        let mut places = Vec::new();
        let mut vl = (0usize, 0usize);
        let mut nchunk = 0;
        let mut batch = Vec::new();
        while nchunk < self.nchunks() {
            let (entry, run) = self.index().run(nchunk)?;
            match entry {
                Entry::Special(_) => self.check_special_entry(nchunk, &mut found),
                Entry::Stored(_) => batch.push(nchunk),
            }
            if run.len() > 1 && matches!(entry, Entry::Stored(_)) {
                found.add_contradiction(self.shared(nchunk.saturating_add(1)));
            }
            nchunk = run.end;
            if batch.len() == HEADER_BATCH || nchunk >= self.nchunks() {
                for (&nchunk, header) in batch.iter().zip(self.headers(&batch)?) {
                    self.check_header(nchunk, &header, uniform, &mut pipelines, &mut found)?;
                    match header.is_vl() {
                        _ if header.special().is_some() || header.nbytes() == 0 => {}
                        true => vl.0 = vl.0.saturating_add(1),
                        false => vl.1 = vl.1.saturating_add(1),
                    }
                    if let (Entry::Stored(at), true) =
                        (self.entry(nchunk)?, places.len() < MAX_COMPARED_CHUNKS)
                    {
                        places.push((at, at.saturating_add(header.cbytes() as u64), nchunk));
                    }
                }
                batch.clear();
            }
        }
        match pipelines.one_bit {
            Some(error) if uniform && pipelines.different == 1 && pipelines.alike > 1 => found.damage(error),
            Some(error) => found.add_contradiction(error),
            None => {}
        }
        if let (1.., 1..) = vl {
            let at = FLAGS2_AT;
            let expected = "blocks of variable lengths in all chunks or in none";
            found.add_contradiction(FrameError::field(
                Structure::Chunk(0),
                "flags2",
                at,
                vl.0 as u64,
                expected,
            ));
        }
        places.sort_unstable();
        for (before, after) in places.iter().zip(places.iter().skip(1)) {
            let overlap = match self.storage() {
                Storage::Contiguous => after.0 < before.1,
                Storage::Sparse => after.0 == before.0,
            };
            if overlap {
                found.add_contradiction(self.shared(before.2.max(after.2)));
            }
        }
        Ok(found)
    }

    fn shared(&self, nchunk: usize) -> FrameError {
        let raw = self.index().raw(nchunk).unwrap_or(0);
        FrameError::entry(nchunk, raw, "bytes that belong to no other chunk")
    }

    fn check_special_entry(&self, nchunk: usize, found: &mut CrossCheck) {
        let raw = self.index().raw(nchunk).unwrap_or(0);
        let usual = self.entry(nchunk).is_ok_and(|entry| entry.to_raw() == raw);
        if !usual {
            let expected = "81, 82 or 84 (hexadecimal) in the first byte, 0 in the others";
            found.add_contradiction(FrameError::entry(nchunk, raw, expected));
        }
    }

    fn check_header(
        &self,
        nchunk: usize,
        header: &ChunkHeader,
        uniform: bool,
        pipelines: &mut Pipelines,
        found: &mut CrossCheck,
    ) -> Result<(), FrameError> {
        let field = |name, at, value: usize, expected| {
            FrameError::field(self.structure(nchunk), name, at, value as u64, expected)
        };
        if let Some(kind) = header.special() {
            if kind != SpecialKind::Value && header.cbytes() > EXTENDED_HEADER_LEN {
                let error = field("cbytes", 0x0C, header.cbytes(), "32 in a chunk of one repeated value");
                if self.holds_other_data(nchunk)? {
                    found.damage(error)
                } else {
                    found.add_contradiction(error)
                }
            }
            return Ok(());
        }
        if header.nbytes() == 0 {
            return Ok(());
        }
        let record = [RECORD_LEN, RECORD_LEN.saturating_mul(header.itemsize())];
        if header.is_instrumented() && (uniform || !record.contains(&header.blocksize())) {
            let expected = "no instrumented bit where blocks are not records of 16 bytes";
            found.damage(field("blosc2_flags", BLOSC2_FLAGS_AT, 0x80, expected));
        }
        let typesize = if self.itemsize() > 255 { 1 } else { self.itemsize() };
        if header.itemsize() != typesize {
            let error = field("typesize", TYPESIZE_AT, header.itemsize(), "the item size of the frame");
            // C-Blosc2 uses items of 1 byte where it cannot store the real size.
            if uniform && header.itemsize() != 1 {
                found.damage(error)
            } else {
                found.add_contradiction(error)
            }
        }
        // Filters have no effect if only runs are stored, so such chunks are made without them.
        let runs = header.nblocks().saturating_mul(8).saturating_add(EXTENDED_HEADER_LEN);
        if header.is_memcpyed() || !header.is_extended() || header.cbytes() == runs {
            return Ok(());
        }
        let Some((name, at, value, bits)) = self.other_pipeline(header) else {
            pipelines.alike = pipelines.alike.saturating_add(1);
            return Ok(());
        };
        pipelines.different = pipelines.different.saturating_add(1);
        let error = field(name, at, value.into(), "what the frame header says");
        if bits == 1 && pipelines.different == 1 {
            pipelines.one_bit = Some(error);
        } else {
            pipelines.one_bit.take().into_iter().for_each(|earlier| found.add_contradiction(earlier));
            found.add_contradiction(error);
        }
        Ok(())
    }

    /// Returns the first field of the chunk's pipeline that differs from the frame header, its offset and value, and
    /// how many bits differ in all.
    fn other_pipeline(&self, header: &ChunkHeader) -> Option<(&'static str, u64, u8, u32)> {
        let frame = self.header();
        let mut first = None;
        let mut bits = 0u32;
        let mut compare = |name, at: u64, ours: u8, theirs: u8| {
            bits = bits.saturating_add((ours ^ theirs).count_ones());
            if ours != theirs {
                first.get_or_insert((name, at, ours));
            }
        };
        for (slot, (ours, theirs)) in (0u64..).zip(header.filters().into_iter().zip(frame.filters())) {
            compare("filters", FILTERS_AT.saturating_add(slot), ours.id.0, theirs.id.0);
            if self.has_own_meta(ours, theirs) {
                continue;
            }
            compare("filters_meta", METAS_AT.saturating_add(slot), ours.meta, theirs.meta);
        }
        if header.codec_format() == CodecFormat::USER_DEFINED {
            let codec = header.codec().map_or(0, |codec| codec.0);
            compare("udcodec", UDCODEC_AT, codec, frame.codec().0);
            compare("codec_meta", CODEC_META_AT, header.codec_meta(), frame.codec_meta());
        }
        first.map(|(name, at, value)| (name, at, value, bits))
    }

    /// Whether the parameters differ only because one header has 0, which means the item size.
    fn has_own_meta(&self, ours: FilterSlot, theirs: FilterSlot) -> bool {
        ours.id == theirs.id
            && (ours.meta == 0 || theirs.meta == 0)
            && self.dparams.plugins.filter_properties(ours, self.itemsize()).zero_is_itemsize
    }

    /// Whether a special chunk holds blocks that decode to something other than its special value.
    fn holds_other_data(&self, nchunk: usize) -> Result<bool, FrameError> {
        let chunk = self.chunk(nchunk).read()?;
        if chunk.nbytes() > MAX_DECODED_LEN {
            return Ok(false);
        }
        // Kind 3 with an item as its value is also only one bit away from the others.
        if chunk.cbytes() == EXTENDED_HEADER_LEN.saturating_add(self.itemsize()) {
            return Ok(true);
        }
        let mut plain = chunk.as_bytes().to_vec();
        if let Some(flags) = plain.get_mut(0x1F) {
            *flags &= !0x70;
        }
        let Ok(plain) = Chunk::from_bytes(plain) else { return Ok(false) };
        match (plain.decompress_bytes_with(&self.dparams), chunk.decompress_bytes_with(&self.dparams)) {
            (Ok(data), Ok(special)) => Ok(data != special),
            _ => Ok(false),
        }
    }
}
