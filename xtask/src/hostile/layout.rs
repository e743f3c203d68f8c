//! Finds all fields of all structures in a valid frame or chunk.
//!
//! This reader is independent of the library under test. It does not validate, since bases are valid.

use std::ops::Range;

use b2_testkit::hostile::{CHUNK_HEADER, EXTENDED_HEADER, FRAME_HEADER, MAGIC, Number};

use super::fields::Field;
use super::groups::Group;

/// Maximum number of blocks of a chunk that are mapped.
const BLOCKS: usize = 6;

/// Ranges of the parts of a frame, or of an index file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) header: Range<usize>,
    /// The index chunk; empty without chunks.
    pub(crate) index: Range<usize>,
    /// The block of checksums; empty if there is none.
    pub(crate) sums: Range<usize>,
    /// The pages with the sums of chunks.
    pub(crate) pages: Vec<Range<usize>>,
    pub(crate) trailer: Range<usize>,
    /// Values of metalayers, without their marker and length.
    pub(crate) metalayers: Vec<(Vec<u8>, Range<usize>)>,
    pub(crate) vlmetalayers: Vec<(Vec<u8>, Range<usize>)>,
}

/// Collects the fields of one file.
pub(crate) struct Map<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) file: usize,
    pub(crate) fields: Vec<Field>,
    /// Bytes of codec streams.
    pub(crate) streams: Vec<(Range<usize>, Option<usize>)>,
    chunk: Option<usize>,
}

impl<'a> Map<'a> {
    pub(crate) fn new(bytes: &'a [u8], file: usize) -> Self {
        Self { bytes, file, fields: Vec::new(), streams: Vec::new(), chunk: None }
    }

    fn add(&mut self, group: Group, at: usize, width: usize, big_endian: bool, name: impl Into<String>) {
        if at + width <= self.bytes.len() {
            let file = self.file;
            let number = Number { at, width, big_endian };
            self.fields.push(Field { group, name: name.into(), file, number });
        }
    }

    fn be(&self, at: usize, width: usize) -> usize {
        let bytes = self.bytes.get(at..at + width).unwrap_or_default();
        bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
    }

    fn le(&self, at: usize) -> i64 {
        let four = self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        i64::from(i32::from_le_bytes(four))
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Maps the frame that starts at byte 0.
    pub(crate) fn frame(&mut self) -> Layout {
        for (at, width, name) in FRAME_HEADER {
            self.add(Group::Header, *at, *width, true, format!("header: {name}"));
        }
        let (header_len, frame_len) = (self.be(11, 4), self.be(16, 8));
        let trailer_len = self.be(frame_len.saturating_sub(22), 4);
        let trailer = frame_len.saturating_sub(trailer_len)..frame_len;
        let mut layout = Layout { header: 0..header_len, trailer: trailer.clone(), ..Layout::default() };
        layout.metalayers = self.section(Group::Metalayers, 87, 0, header_len);
        for (name, range) in &layout.metalayers {
            if matches!(name.as_slice(), b"b2nd" | b"caterva") {
                self.array(range);
            }
        }
        if self.be(30, 8) > 0 {
            let data_len = if self.byte(26) == 1 { 0 } else { self.be(39, 8) };
            let start = header_len + data_len;
            let end = start + self.le(start + 12) as usize;
            layout.index = start..end;
            self.chunk_at(start, Group::Index, Group::Index, "index");
            // The block before the trailer has 24 bytes per page, and 56 more.
            let at = trailer.start.saturating_sub(56);
            if self.bytes.get(at..).is_some_and(|bytes| bytes.starts_with(MAGIC)) {
                let npages = self.le(at + 12) as usize;
                layout.sums = at - 24 * npages..trailer.start;
                layout.pages = (0..npages).map(|n| self.page(layout.sums.start + 24 * n)).collect();
            }
        }
        self.sums(&layout);
        self.trailer(&mut layout);
        layout
    }

    /// Maps a section of metalayers, which has the same form in header and trailer. It starts at `start` with the byte
    /// `93`; offsets count from `base`.
    fn section(
        &mut self,
        group: Group,
        start: usize,
        base: usize,
        end: usize,
    ) -> Vec<(Vec<u8>, Range<usize>)> {
        let what = if base == 0 { "metalayers" } else { "vlmetalayers" };
        for (at, width, name) in
            [(0, 1, "marker"), (1, 1, "marker"), (2, 2, "size"), (4, 1, "marker"), (5, 2, "count")]
        {
            self.add(group, start + at, width, true, format!("{what}: {name}"));
        }
        let count = self.be(start + 5, 2);
        let mut at = start + 7;
        let mut out = Vec::new();
        for n in 0..count.min(40) {
            let len = usize::from(self.byte(at) & 0x1F);
            let name = self.bytes.get(at + 1..at + 1 + len).unwrap_or_default().to_vec();
            self.add(group, at, 1, true, format!("{what} {n}: marker of name"));
            self.add(group, at + 1, 1, true, format!("{what} {n}: name"));
            self.add(group, at + 1 + len, 1, true, format!("{what} {n}: marker of offset"));
            self.add(group, at + 2 + len, 4, true, format!("{what} {n}: offset"));
            let value = base + self.be(at + 2 + len, 4);
            let value_len = self.be(value + 1, 4);
            self.add(group, value, 1, true, format!("{what} {n}: marker of value"));
            self.add(group, value + 1, 4, true, format!("{what} {n}: length"));
            if value + 5 + value_len <= end {
                out.push((name, value + 5..value + 5 + value_len));
            }
            at += 6 + len;
        }
        self.add(group, at, 1, true, format!("{what}: marker of values"));
        self.add(group, at + 1, 2, true, format!("{what}: number of values"));
        out
    }

    fn array(&mut self, range: &Range<usize>) {
        let group = Group::Array;
        let mut at = range.start;
        for name in ["marker", "version", "ndim"] {
            self.add(group, at, 1, true, format!("b2nd: {name}"));
            at += 1;
        }
        let ndim = usize::from(self.byte(at - 1));
        for (name, width) in [("shape", 8), ("chunkshape", 4), ("blockshape", 4)] {
            self.add(group, at, 1, true, format!("b2nd: marker of {name}"));
            at += 1;
            for k in 0..ndim {
                self.add(group, at, 1, true, format!("b2nd: marker of {name} {k}"));
                self.add(group, at + 1, width, true, format!("b2nd: {name} {k}"));
                at += 1 + width;
            }
        }
        self.add(group, at, 1, true, "b2nd: dtype format");
        self.add(group, at + 1, 1, true, "b2nd: marker of dtype");
        self.add(group, at + 2, 4, true, "b2nd: length of dtype");
        for k in 0..range.end.saturating_sub(at + 6).min(4) {
            self.add(group, at + 6 + k, 1, true, format!("b2nd: dtype byte {k}"));
        }
    }

    /// Returns the page that is listed at offset `at` of the block.
    fn page(&self, at: usize) -> Range<usize> {
        let number = |at: usize| {
            self.bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |n| u64::from_le_bytes(*n) as usize)
        };
        number(at)..number(at) + 8 * number(at + 8)
    }

    fn sums(&mut self, layout: &Layout) {
        if layout.sums.is_empty() {
            return;
        }
        let mut at = layout.sums.start;
        for (n, page) in layout.pages.iter().enumerate() {
            for name in ["place", "number of sums", "sum"] {
                self.add(Group::Checksums, at, 8, false, format!("checksums: {name} of page {n}"));
                at += 8;
            }
            for (n, at) in page.clone().step_by(8).take(4).enumerate() {
                self.add(Group::Checksums, at, 8, false, format!("checksums: sum of chunk {n}"));
            }
        }
        self.add(Group::Checksums, at, 8, false, "checksums: magic");
        self.add(Group::Checksums, at + 8, 4, false, "checksums: algorithm");
        self.add(Group::Checksums, at + 12, 4, false, "checksums: number of pages");
        let names = ["number of chunks", "sum of header", "sum of rest", "sum of index", "sum of trailer"];
        for (n, name) in names.iter().enumerate() {
            self.add(Group::Checksums, at + 16 + 8 * n, 8, false, format!("checksums: {name}"));
        }
    }

    fn trailer(&mut self, layout: &mut Layout) {
        let range = layout.trailer.clone();
        self.add(Group::Trailer, range.start, 1, true, "trailer: marker");
        self.add(Group::Trailer, range.start + 1, 1, true, "trailer: version");
        layout.vlmetalayers = self.section(Group::VlMetalayers, range.start + 2, range.start, range.end);
        for (_, value) in layout.vlmetalayers.clone() {
            self.chunk_at(value.start, Group::VlMetalayers, Group::VlMetalayers, "vlmetalayer");
        }
        let end = range.end - 23;
        self.add(Group::Trailer, end, 1, true, "trailer: marker of length");
        self.add(Group::Trailer, end + 1, 4, true, "trailer: length");
        self.add(Group::Trailer, end + 5, 1, true, "trailer: marker of fingerprint");
        self.add(Group::Trailer, end + 6, 1, true, "trailer: kind of fingerprint");
        self.add(Group::Trailer, end + 7, 8, false, "trailer: fingerprint");
        self.add(Group::Trailer, end + 15, 8, false, "trailer: fingerprint, second half");
    }

    /// Maps the data chunk that starts here, with number `chunk` in its frame.
    pub(crate) fn data_chunk(&mut self, start: usize, chunk: Option<usize>) {
        self.chunk = chunk;
        let label = chunk.map_or("chunk".into(), |n| format!("chunk {n}"));
        self.chunk_at(start, Group::ChunkHeader, Group::Streams, &label);
        self.chunk = None;
    }

    fn chunk_at(&mut self, start: usize, header: Group, tables: Group, label: &str) {
        for (at, width, name) in CHUNK_HEADER {
            self.add(header, start + at, *width, false, format!("{label}: {name}"));
        }
        let flags = self.byte(start + 2);
        let extended = flags & 5 == 5;
        if extended {
            for (at, width, name) in EXTENDED_HEADER {
                self.add(header, start + at, *width, false, format!("{label}: {name}"));
            }
        }
        let header_len = if extended { 32 } else { 16 };
        let (nbytes, blocksize, cbytes) =
            (self.le(start + 4), self.le(start + 8), self.le(start + 12) as usize);
        let special = extended && self.byte(start + 31) & 0x70 != 0;
        let vl = extended && self.byte(start + 30) & 1 != 0;
        if flags & 2 != 0 || special || nbytes <= 0 || blocksize <= 0 {
            if special && cbytes > header_len {
                self.add(header, start + header_len, 1, false, format!("{label}: repeated value"));
            }
            return;
        }
        let blocksize = if vl { blocksize } else { blocksize.min(nbytes) };
        let nblocks = if vl { blocksize } else { (nbytes + blocksize - 1) / blocksize } as usize;
        let mut at = start + header_len;
        for n in 0..nblocks.min(BLOCKS) {
            self.add(tables, at + 4 * n, 4, false, format!("{label}: bstart {n}"));
        }
        let bstarts = at;
        at += 4 * nblocks;
        if extended && self.byte(start + 31) & 1 != 0 {
            self.add(tables, at, 4, false, format!("{label}: size of dictionary"));
            let dict = at + 4..at + 4 + self.le(at) as usize;
            self.stream(dict);
        }
        for n in 0..nblocks.min(BLOCKS) {
            let block = start + self.le(bstarts + 4 * n) as usize;
            if vl {
                self.add(tables, block, 4, false, format!("{label}: size of block {n}"));
                let end = if n + 1 < nblocks { self.le(bstarts + 4 * (n + 1)) as usize } else { cbytes };
                self.stream(block + 4..start + end);
                continue;
            }
            let short = n + 1 == nblocks && nbytes % blocksize != 0;
            let split = flags & 0x10 == 0 && !short;
            let nstreams = if split { usize::from(self.byte(start + 3)).max(1) } else { 1 };
            self.block(block, nstreams, tables, &format!("{label}: block {n}"));
        }
    }

    fn block(&mut self, start: usize, nstreams: usize, group: Group, label: &str) {
        let mut at = start;
        for stream in 0..nstreams {
            let csize = self.le(at);
            if stream < 3 || stream + 1 == nstreams {
                self.add(group, at, 4, false, format!("{label}: csize {stream}"));
            }
            at += 4;
            if csize < 0 {
                self.add(group, at, 1, false, format!("{label}: token {stream}"));
                at += 1;
            } else {
                self.stream(at..at + csize as usize);
                at += csize as usize;
            }
        }
    }

    fn stream(&mut self, range: Range<usize>) {
        if !range.is_empty() && range.end <= self.bytes.len() {
            self.streams.push((range, self.chunk));
        }
    }
}
