//! Walks over frames and chunks: the positions of their parts, and position and name of every field.
//!
//! This reader is independent of the library under test. It checks only enough to stay inside the file, since the file
//! may be damaged already.

use std::fmt::Arguments;
use std::ops::Range;

use super::number::{CHUNK_HEADER, EXTENDED_HEADER, FRAME_HEADER, Number, NumberField};

/// The start of a block of checksums (docs/format/checksums.md).
pub(super) const MAGIC: &[u8; 8] = b"b2sums\0\x01";
/// Maximum number of blocks of a chunk that are walked over.
const MAX_BLOCKS: usize = 6;
/// Maximum number of metalayers, and of vlmetalayers.
const MAX_LAYERS: usize = 40;
/// Length of the end of the checksum block, and of an entry in the list of pages that precedes it.
const SUMS_END_LEN: usize = 56;
const PAGE_ENTRY_LEN: usize = 24;
/// Length of the end of a trailer: its length and the fingerprint.
const TRAILER_END_LEN: usize = 23;

/// The part of a file to which a field belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilePart {
    /// The fixed part of the frame header.
    Header,
    /// The map of the metalayers.
    Metalayers,
    /// The metalayer of arrays.
    Array,
    /// The map of the vlmetalayers, and the chunks in it.
    VlMetalayers,
    /// The index chunk.
    Index,
    /// The trailer without its map.
    Trailer,
    /// The block and the pages of checksums.
    Checksums,
    /// The header of a data chunk.
    ChunkHeader,
    /// Block starts, lengths of streams and tokens of a data chunk.
    Streams,
}

/// The name of a metalayer and the range of its value, without marker and length.
pub type Layer = (Vec<u8>, Range<usize>);

/// The ranges of the parts of a frame or an index file.
#[derive(Clone, Debug, Default)]
pub struct FrameLayout {
    /// The header, which starts at byte 0.
    pub header: Range<usize>,
    /// The index chunk; empty without chunks.
    pub index: Range<usize>,
    /// The block of checksums; empty if there is none.
    pub sums: Range<usize>,
    /// The pages with the sums of chunks.
    pub pages: Vec<Range<usize>>,
    /// The trailer, up to the end of the frame.
    pub trailer: Range<usize>,
    /// The values of the metalayers.
    pub metalayers: Vec<Layer>,
    /// The values of the vlmetalayers.
    pub vlmetalayers: Vec<Layer>,
}

impl FrameLayout {
    /// Finds the parts of a frame, without its fields.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Walk::new(bytes, &mut |_, _, _| {}).frame()
    }

    /// Returns the range of the value of the array metalayer.
    pub fn array(&self) -> Option<Range<usize>> {
        self.metalayers.iter().find(|(name, _)| name == b"b2nd").map(|(_, value)| value.clone())
    }
}

/// Returns the range of the chunk that starts here, by the length in its header.
pub fn stored(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let cbytes = Number { at: start.checked_add(12)?, width: 4, big_endian: false }.get(bytes)?;
    let end = start.checked_add(usize::try_from(cbytes).ok()?)?;
    (cbytes >= 16 && end <= bytes.len()).then_some(start..end)
}

/// The receiver of the fields: part, name, number.
type FieldSink<'a> = &'a mut dyn FnMut(FilePart, Arguments<'_>, Number);

/// A walk over a file, which reports each field.
pub struct Walk<'a> {
    bytes: &'a [u8],
    sink: FieldSink<'a>,
    /// The codec streams seen so far.
    pub streams: Vec<Range<usize>>,
}

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").finish_non_exhaustive()
    }
}

impl<'a> Walk<'a> {
    /// Returns all numbers that a walk over `bytes` finds.
    pub fn numbers(bytes: &[u8], over: impl FnOnce(&mut Walk<'_>)) -> Vec<Number> {
        let mut numbers = Vec::new();
        over(&mut Walk::new(bytes, &mut |_, _, number| numbers.push(number)));
        numbers
    }

    /// Starts a walk over `bytes`, which reports each field to `sink`.
    pub fn new(bytes: &'a [u8], sink: FieldSink<'a>) -> Self {
        Self { bytes, sink, streams: Vec::new() }
    }

    fn field(&mut self, part: FilePart, at: usize, width: usize, big_endian: bool, name: Arguments<'_>) {
        if at.saturating_add(width) <= self.bytes.len() {
            (self.sink)(part, name, Number { at, width, big_endian });
        }
    }

    /// Reports the fields of a structure that starts at `start`.
    fn fields(
        &mut self,
        part: FilePart,
        start: usize,
        big_endian: bool,
        label: Arguments<'_>,
        rows: &[NumberField],
    ) {
        for (offset, width, name) in rows {
            self.field(
                part,
                start.saturating_add(*offset),
                *width,
                big_endian,
                format_args!("{label}: {name}"),
            );
        }
    }

    fn get(&self, at: usize, width: usize, big_endian: bool) -> usize {
        Number { at, width, big_endian }
            .get(self.bytes)
            .map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn be(&self, at: usize, width: usize) -> usize {
        self.get(at, width, true)
    }

    fn le(&self, at: usize) -> usize {
        self.get(at, 4, false)
    }

    fn byte(&self, at: usize) -> usize {
        self.get(at, 1, true)
    }

    /// Walks over the frame that starts at byte 0. Returns `None` if its lengths contradict each other.
    pub fn frame(&mut self) -> Option<FrameLayout> {
        self.fields(FilePart::Header, 0, true, format_args!("header"), FRAME_HEADER);
        let (header_len, frame_len) = (self.be(11, 4), self.be(16, 8));
        let trailer = frame_len.checked_sub(self.be(frame_len.checked_sub(TRAILER_END_LEN - 1)?, 4))?;
        let mut layout = FrameLayout {
            header: 0..header_len,
            index: trailer..trailer,
            trailer: trailer..frame_len,
            ..FrameLayout::default()
        };
        if self.be(30, 8) > 0 {
            let data_len = if self.byte(26) == 1 { 0 } else { self.be(39, 8) };
            layout.index = stored(self.bytes, header_len.checked_add(data_len)?)?;
        }
        let order = [97, header_len, layout.index.start, layout.index.end, trailer];
        if !order.is_sorted() || frame_len - trailer < TRAILER_END_LEN || frame_len > self.bytes.len() {
            return None;
        }
        layout.metalayers = self.section(FilePart::Metalayers, 87, &layout.header);
        for (name, value) in &layout.metalayers {
            if matches!(name.as_slice(), b"b2nd" | b"caterva") {
                self.array(value);
            }
        }
        if !layout.index.is_empty() {
            self.chunk_of(layout.index.start, FilePart::Index, FilePart::Index, format_args!("index"));
            self.checksums(&mut layout);
        }
        self.trailer(&mut layout);
        Some(layout)
    }

    /// Walks over a section of metalayers, which has the same form in header and trailer. It starts at `start` with the
    /// byte `93`; offsets count from the start of `whole`.
    fn section(&mut self, part: FilePart, start: usize, whole: &Range<usize>) -> Vec<Layer> {
        let what = if part == FilePart::Metalayers { "metalayers" } else { "vlmetalayers" };
        let head = [(0, 1, "marker"), (1, 1, "marker"), (2, 2, "size"), (4, 1, "marker"), (5, 2, "count")];
        self.fields(part, start, true, format_args!("{what}"), &head);
        let mut at = start + 7;
        let mut layers = Vec::new();
        for n in 0..self.be(start + 5, 2).min(MAX_LAYERS) {
            let len = self.byte(at) & 0x1F;
            let name = self.bytes.get(at + 1..at + 1 + len).unwrap_or_default().to_vec();
            let rows = [
                (0, 1, "marker of name"),
                (1, 1, "name"),
                (1 + len, 1, "marker of offset"),
                (2 + len, 4, "offset"),
            ];
            self.fields(part, at, true, format_args!("{what} {n}"), &rows);
            let value = whole.start + self.be(at + 2 + len, 4);
            let rows = [(0, 1, "marker of value"), (1, 4, "length")];
            self.fields(part, value, true, format_args!("{what} {n}"), &rows);
            let end = value + 5 + self.be(value + 1, 4);
            if end <= whole.end {
                layers.push((name, value + 5..end));
            }
            at += 6 + len;
        }
        let rows = [(0, 1, "marker of values"), (1, 2, "number of values")];
        self.fields(part, at, true, format_args!("{what}"), &rows);
        layers
    }

    /// Walks over the metalayer of arrays.
    pub fn array(&mut self, value: &Range<usize>) {
        let head = [(0, 1, "marker"), (1, 1, "version"), (2, 1, "ndim")];
        self.fields(FilePart::Array, value.start, true, format_args!("b2nd"), &head);
        let ndim = self.byte(value.start + 2);
        let mut at = value.start + 3;
        for (name, width) in [("shape", 8), ("chunkshape", 4), ("blockshape", 4)] {
            self.field(FilePart::Array, at, 1, true, format_args!("b2nd: marker of {name}"));
            at += 1;
            for k in 0..ndim {
                self.field(FilePart::Array, at, 1, true, format_args!("b2nd: marker of {name} {k}"));
                self.field(FilePart::Array, at + 1, width, true, format_args!("b2nd: {name} {k}"));
                at += 1 + width;
            }
        }
        let rows = [(0, 1, "dtype format"), (1, 1, "marker of dtype"), (2, 4, "length of dtype")];
        self.fields(FilePart::Array, at, true, format_args!("b2nd"), &rows);
        for k in 0..value.end.saturating_sub(at + 6).min(4) {
            self.field(FilePart::Array, at + 6 + k, 1, true, format_args!("b2nd: dtype byte {k}"));
        }
    }

    fn checksums(&mut self, layout: &mut FrameLayout) {
        // The block ends where the trailer starts.
        let Some(end) = layout.trailer.start.checked_sub(SUMS_END_LEN) else { return };
        let start = end.checked_sub(self.le(end + 12).saturating_mul(PAGE_ENTRY_LEN));
        let Some(start) = start.filter(|start| layout.index.end <= *start) else { return };
        if !self.bytes.get(end..).is_some_and(|bytes| bytes.starts_with(MAGIC)) {
            return;
        }
        let part = FilePart::Checksums;
        layout.sums = start..layout.trailer.start;
        for (n, at) in (start..end).step_by(PAGE_ENTRY_LEN).enumerate() {
            let (page, nsums) = (self.get(at, 8, false), self.get(at + 8, 8, false));
            layout.pages.push(page..page.saturating_add(nsums.saturating_mul(8)));
            for (k, name) in ["place", "number of sums", "sum"].iter().enumerate() {
                self.field(part, at + 8 * k, 8, false, format_args!("checksums: {name} of page {n}"));
            }
            for n in 0..nsums.min(4) {
                let at = page.saturating_add(8 * n);
                self.field(part, at, 8, false, format_args!("checksums: sum of chunk {n}"));
            }
        }
        let rows = [
            (0, 8, "magic"),
            (8, 4, "algorithm"),
            (12, 4, "number of pages"),
            (16, 8, "number of chunks"),
            (24, 8, "sum of header"),
            (32, 8, "sum of rest"),
            (40, 8, "sum of index"),
            (48, 8, "sum of trailer"),
        ];
        self.fields(part, end, false, format_args!("checksums"), &rows);
    }

    fn trailer(&mut self, layout: &mut FrameLayout) {
        let range = layout.trailer.clone();
        let head = [(0, 1, "marker"), (1, 1, "version")];
        self.fields(FilePart::Trailer, range.start, true, format_args!("trailer"), &head);
        layout.vlmetalayers = self.section(FilePart::VlMetalayers, range.start + 2, &range);
        for (_, value) in &layout.vlmetalayers {
            let part = FilePart::VlMetalayers;
            self.chunk_of(value.start, part, part, format_args!("vlmetalayer"));
        }
        let rows = [
            (0, 1, "marker of length"),
            (1, 4, "length"),
            (5, 1, "marker of fingerprint"),
            (6, 1, "kind of fingerprint"),
        ];
        let end = range.end - TRAILER_END_LEN;
        self.fields(FilePart::Trailer, end, true, format_args!("trailer"), &rows);
        let rows = [(7, 8, "fingerprint"), (15, 8, "fingerprint, second half")];
        self.fields(FilePart::Trailer, end, false, format_args!("trailer"), &rows);
    }

    /// Walks over the data chunk that starts here, with number `chunk` in its frame.
    pub fn chunk(&mut self, start: usize, chunk: Option<usize>) {
        match chunk {
            Some(n) => {
                self.chunk_of(start, FilePart::ChunkHeader, FilePart::Streams, format_args!("chunk {n}"))
            }
            None => self.chunk_of(start, FilePart::ChunkHeader, FilePart::Streams, format_args!("chunk")),
        }
    }

    fn chunk_of(&mut self, start: usize, header: FilePart, tables: FilePart, label: Arguments<'_>) {
        self.fields(header, start, false, label, CHUNK_HEADER);
        let flags = self.byte(start + 2);
        let extended = flags & 5 == 5;
        if extended {
            self.fields(header, start, false, label, EXTENDED_HEADER);
        }
        let header_len = if extended { 32 } else { 16 };
        let (nbytes, blocksize, cbytes) = (self.le(start + 4), self.le(start + 8), self.le(start + 12));
        let special = extended && self.byte(start + 31) & 0x70 != 0;
        let vl = extended && self.byte(start + 30) & 1 != 0;
        let is_size = |n: usize| 0 < n && n <= i32::MAX as usize;
        if flags & 2 != 0 || special || !is_size(nbytes) || !is_size(blocksize) {
            if special && cbytes > header_len {
                self.field(header, start + header_len, 1, false, format_args!("{label}: repeated value"));
            }
            return;
        }
        let blocksize = if vl { blocksize } else { blocksize.min(nbytes) };
        let nblocks = if vl { blocksize } else { nbytes.div_ceil(blocksize) };
        let bstarts = start + header_len;
        for n in 0..nblocks.min(MAX_BLOCKS) {
            self.field(tables, bstarts + 4 * n, 4, false, format_args!("{label}: bstart {n}"));
        }
        let tables_at = bstarts + 4 * nblocks;
        if extended && self.byte(start + 31) & 1 != 0 {
            self.field(tables, tables_at, 4, false, format_args!("{label}: size of dictionary"));
            self.stream(tables_at + 4, self.le(tables_at));
        }
        for n in 0..nblocks.min(MAX_BLOCKS) {
            let block = start + self.le(bstarts + 4 * n);
            if vl {
                self.field(tables, block, 4, false, format_args!("{label}: size of block {n}"));
                let end = if n + 1 < nblocks { self.le(bstarts + 4 * (n + 1)) } else { cbytes };
                self.stream(block + 4, (start + end).saturating_sub(block + 4));
                continue;
            }
            let short = n + 1 == nblocks && nbytes % blocksize != 0;
            let split = flags & 0x10 == 0 && !short;
            let nstreams = if split { self.byte(start + 3).max(1) } else { 1 };
            self.block(block, nstreams, tables, format_args!("{label}: block {n}"));
        }
    }

    fn block(&mut self, start: usize, nstreams: usize, part: FilePart, label: Arguments<'_>) {
        let mut at = start;
        for stream in 0..nstreams {
            let csize = self.le(at);
            if stream < 3 || stream + 1 == nstreams {
                self.field(part, at, 4, false, format_args!("{label}: csize {stream}"));
            }
            at += 4;
            if csize > i32::MAX as usize {
                self.field(part, at, 1, false, format_args!("{label}: token {stream}"));
                at += 1;
            } else {
                self.stream(at, csize);
                at += csize;
            }
        }
    }

    fn stream(&mut self, start: usize, len: usize) {
        if len > 0 && start + len <= self.bytes.len() {
            self.streams.push(start..start + len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Two blocks in one stream each, and a special value.
    fn chunk() -> Vec<u8> {
        let mut bytes = vec![5, 1, 0x15, 1, 20, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0];
        bytes.resize(32, 0);
        for start in [40, 47] {
            bytes.extend_from_slice(&u32::to_le_bytes(start));
        }
        bytes.extend_from_slice(&[3, 0, 0, 0, 9, 9, 9, 0xFF, 0xFF, 0xFF, 0xFF, 1]);
        bytes[12] = bytes.len() as u8;
        bytes
    }

    #[test]
    fn all_fields_of_a_chunk_have_names_and_places() {
        let bytes = chunk();
        let mut names = Vec::new();
        let sink =
            &mut |part, name: Arguments<'_>, number: Number| names.push((part, name.to_string(), number.at));
        let mut walk = Walk::new(&bytes, sink);
        walk.chunk(0, Some(3));
        assert_eq!(walk.streams, std::slice::from_ref(&(44..47)));
        assert_eq!(names.len(), CHUNK_HEADER.len() + EXTENDED_HEADER.len() + 5);
        for (part, name, at) in [
            (FilePart::ChunkHeader, "chunk 3: cbytes", 12),
            (FilePart::Streams, "chunk 3: bstart 1", 36),
            (FilePart::Streams, "chunk 3: block 0: csize 0", 40),
            (FilePart::Streams, "chunk 3: block 1: token 0", 51),
        ] {
            assert!(names.contains(&(part, name.to_owned(), at)), "{name}: {names:?}");
        }
        assert_eq!(
            (stored(&bytes, 0), stored(&bytes, 1), stored(&bytes, usize::MAX)),
            (Some(0..52), None, None)
        );
    }

    #[test]
    fn damaged_files_are_walked_over_without_a_panic() {
        for case in 0..20_000 {
            let rng = &mut Rng::case(5, case);
            let mut bytes = if rng.chance(50) { chunk() } else { rng.bytes(400) };
            for _ in 0..rng.below(9) {
                let at = rng.below(bytes.len());
                bytes[at] = *rng.pick(&[0, 1, 2, 0x7F, 0x80, 0xFF, 200]);
            }
            let len = bytes.len() as u64;
            if len > 97 {
                bytes[11..15].copy_from_slice(&97u32.to_be_bytes());
                bytes[16..24].copy_from_slice(&len.to_be_bytes());
                bytes[len as usize - 22..][..4].copy_from_slice(&(len as u32 - 150).to_be_bytes());
                bytes[30..47].fill(0);
            }
            let inside = &mut |_, _: Arguments<'_>, number: Number| assert!(number.get(&bytes).is_some());
            let mut walk = Walk::new(&bytes, inside);
            let found = walk.frame();
            assert_eq!(found.is_some(), len > 97, "case {case}");
            walk.chunk(0, None);
            walk.array(&(0..bytes.len()));
        }
    }
}
