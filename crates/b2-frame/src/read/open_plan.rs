//! Opens frames: reads and checks header, index and trailer, but no chunks.

use std::ops::Range;

use b2_chunk::{ChunkHeader, DParams};
use bytes::Bytes;

use crate::error::{max_metadata, max_nchunks, within};
use crate::format::checksums::{
    self, Checksums, FrameParts, SumCheck, SumTable, Sums, block_len, stored_block_len,
};
use crate::format::digest;
use crate::format::header::{
    CBYTES_OFFSET, FIXED_HEADER_LEN, FRAME_LEN_OFFSET, FRAME_TYPE_OFFSET, FrameHeader, NBYTES_OFFSET, Storage,
};
use crate::format::index::Index;
use crate::format::metalayers::Metalayers;
use crate::format::records::{FoundTable, RecordTable, TableKind};
use crate::format::runs::VerifiedChunks;
use crate::format::trailer;
use crate::format::trailer::{TRAILER_TAIL_LEN, Trailer};
use crate::names::FrameFile;
use crate::read::plan::{Plan, Step};
use crate::storage::files::Extent;
use crate::{FrameError, Structure};

/// Length of the first read, which contains nearly every header and the whole of small frames.
const PAGE_LEN: u64 = 4096;
/// Index and trailer are read together up to this size. Above it their exact ranges are determined first, since there
/// may be dead space between them.
const MAX_SINGLE_READ: u64 = 1 << 20;
/// Length of the read that locates the trailer in that case.
const TAIL_LEN: u64 = 64 * 1024;

/// Everything in a frame except its chunks.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedFrame {
    /// The parsed header.
    pub header: FrameHeader,
    /// The stored header with its metalayers.
    pub(crate) header_bytes: Bytes,
    /// The metalayers in the header.
    pub(crate) metalayers: Metalayers,
    /// The index with the positions of the chunks.
    pub(crate) index: Index,
    /// The trailer with the vlmetalayers.
    pub(crate) trailer: Trailer,
    /// A sum of index and trailer, which C-Blosc2 may change without changing the header.
    pub(crate) tail_sum: u64,
    /// The byte ranges of the parts of the frame.
    pub(crate) layout: FrameLayout,
    /// The result of checking the frame's checksums.
    pub(crate) checksums: Checksums,
    /// The sums of the chunks, if they exist and are reliable.
    pub(crate) sums: Option<Sums>,
    /// Where the blocks of the chunks probably are, if the frame records it.
    pub(crate) starts: Option<RecordTable>,
    /// The sums of runs of blocks, if they exist and the sums of the chunks are reliable.
    pub(crate) runs: Option<RecordTable>,
    /// The chunks verified with these sums.
    pub(crate) compared: VerifiedChunks,
}

/// Byte ranges in a contiguous frame, or in the index file of a sparse one, from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameLayout {
    /// The header with its metalayers.
    pub header: Range<u64>,
    /// The chunk data, including dead space; empty in sparse frames.
    pub data: Range<u64>,
    /// The index chunk; empty in frames without chunks.
    pub index: Range<u64>,
    /// The trailer. Bytes between index and trailer belong to neither.
    pub trailer: Range<u64>,
}

/// A plan that opens a frame, usually with two reads: the first page, then index and trailer.
///
/// ```
/// use b2_frame::{Plan, Step, Storage, SuperChunk};
/// # let frame = b2_frame::FrameWriter::memory(b2_frame::FrameParams::new(1))?.finish()?.into_bytes();
///
/// // A driver works like this; `frame` represents a file.
/// let mut plan = SuperChunk::options().open_plan(frame.len() as u64, Storage::Contiguous);
/// let mut parts = Vec::new();
/// let opened = loop {
///     match plan.step(parts)? {
///         Step::Done(opened) => break opened,
///         Step::Need(extents) => {
///             let range = |e: &b2_frame::Extent| e.range.start as usize..e.range.end as usize;
///             parts = extents.iter().map(|e| frame.slice(range(e))).collect();
///         }
///     }
/// };
/// assert_eq!(opened.header.frame_len(), frame.len() as u64);
/// # Ok::<(), b2_frame::FrameError>(())
/// ```
#[derive(Debug)]
pub struct OpenPlan {
    len: u64,
    whole: bool,
    checksums: bool,
    /// Length of the first read.
    first: u64,
    storage: Storage,
    dparams: DParams,
    state: OpenState,
}

#[derive(Debug)]
enum OpenState {
    Start,
    Page,
    Header(Box<HeaderRead>),
    Tail(Box<HeaderRead>, WantedRanges),
    Exact(Box<HeaderRead>, WantedRanges),
    Spent,
}

/// Parts of the frame to read, and the end of the frame, which was read before and may contain some
/// of them.
#[derive(Debug)]
struct WantedRanges {
    /// The index (or its header), the trailer, and the block of checksums (or its end), which
    /// precedes the trailer.
    ranges: [Range<u64>; 3],
    end: Bytes,
    /// Offset of `end` in the frame.
    base: u64,
}

impl WantedRanges {
    /// `block_len` is the known length of the block of checksums.
    fn new(index: Range<u64>, trailer: Range<u64>, block_len: u64, end: Bytes, base: u64) -> Self {
        // The bytes read before the block may contain the tables of block starts and block sums.
        let start = match block_len {
            0 => trailer.start,
            len => trailer.start.saturating_sub(len).min(base),
        };
        let block = start.max(index.end)..trailer.start;
        Self { ranges: [index, trailer, block], end, base }
    }

    fn received(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() { Some(Bytes::new()) } else { sub(&self.end, self.base, range.clone()).ok() }
    }

    /// Returns the ranges that have to be read.
    fn extents(&self) -> Vec<Extent> {
        let unknown = self.ranges.iter().filter(|range| self.received(range).is_none());
        unknown.map(|range| Extent::exactly(FrameFile::Main, range.clone())).collect()
    }

    /// Returns the parts, given the answers to [`extents`](Self::extents).
    fn parts(&self, answers: Vec<Bytes>) -> [Bytes; 3] {
        let mut answers = answers.into_iter();
        self.ranges
            .each_ref()
            .map(|range| self.received(range).or_else(|| answers.next()).unwrap_or_default())
    }
}

#[derive(Debug)]
struct HeaderRead {
    header: FrameHeader,
    /// The header bytes; `None` while they are being read.
    bytes: Option<Bytes>,
    /// Offset at which the chunk data ends and index and trailer follow.
    rest: u64,
}

impl OpenPlan {
    /// Opens a frame at the start of `len` bytes. Other bytes may follow it.
    pub(crate) fn new(len: u64, storage: Storage, dparams: &DParams) -> Self {
        let mut dparams = dparams.clone();
        if dparams.control.is_watched() {
            dparams.control = dparams.control.unwatched();
        }
        Self {
            len,
            whole: false,
            checksums: true,
            first: PAGE_LEN,
            storage,
            dparams,
            state: OpenState::Start,
        }
    }

    /// Sets whether checksums are compared (the default).
    pub(crate) fn checksums(self, checksums: bool) -> Self {
        Self { checksums, ..self }
    }

    /// Sets the length of the first read in bytes, at least that of the fixed header. A larger value saves a round for
    /// longer headers.
    #[must_use]
    pub fn first(self, len: u64) -> Self {
        Self { first: len.max(FIXED_HEADER_LEN as u64), ..self }
    }

    /// Requires that the frame fills all bytes, as C-Blosc2 does for frames in memory.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    fn page(&self, page: Bytes) -> Result<(Box<HeaderRead>, Step<OpenedFrame>), FrameError> {
        let header = FrameHeader::parse(&page)?;
        if header.storage != self.storage {
            let (value, expected) = match header.storage {
                Storage::Contiguous => (0, "1: an index file in the directory of a sparse frame"),
                Storage::Sparse => (1, "0: a contiguous frame (this is the index of a sparse one)"),
            };
            return Err(FrameError::field(
                Structure::Header,
                "frame type",
                FRAME_TYPE_OFFSET,
                value,
                expected,
            ));
        }
        if header.frame_len > self.len {
            return Err(FrameError::Truncated {
                structure: Structure::Frame,
                offset: 0,
                need: header.frame_len,
                have: self.len,
            });
        }
        if self.whole && header.frame_len < self.len {
            let expected = "the length of the buffer";
            return Err(FrameError::field(
                Structure::Header,
                "frame_len",
                FRAME_LEN_OFFSET,
                header.frame_len,
                expected,
            ));
        }
        within("frame header, in bytes", header.header_len.into(), max_metadata(&self.dparams))?;
        let rest = rest_of(&header)?;
        let header_range = 0..u64::from(header.header_len);
        let rest_range = rest..header.frame_len;
        if header.frame_len <= page.len() as u64 {
            let bytes = sub(&page, 0, header_range)?;
            let head = Box::new(HeaderRead { header, bytes: Some(bytes), rest });
            let rest = sub(&page, 0, rest_range)?;
            let opened = self.finish_from(&head, rest, head.rest)?;
            return Ok((head, Step::Done(opened)));
        }
        let mut need = Vec::new();
        let bytes = sub(&page, 0, header_range.clone()).ok();
        if bytes.is_none() {
            need.push(Extent::exactly(FrameFile::Main, header_range));
        }
        // `rest_of` has checked that index and trailer follow `rest`.
        let few = header.frame_len.saturating_sub(rest) <= MAX_SINGLE_READ;
        let start = if few { rest } else { header.frame_len.saturating_sub(TAIL_LEN) };
        need.push(Extent::exactly(FrameFile::Main, start..header.frame_len));
        Ok((Box::new(HeaderRead { header, bytes, rest }), Step::Need(need)))
    }

    /// Returns the ranges of index (or of its header) and trailer, given the last bytes of the
    /// frame, which start at `base`.
    fn tail(
        &self,
        head: &HeaderRead,
        tail: &Bytes,
        base: u64,
    ) -> Result<(Range<u64>, Range<u64>), FrameError> {
        let frame_len = head.header.frame_len;
        let trailer_len = Trailer::len(tail, frame_len)? as u64;
        let trailer = frame_len.saturating_sub(trailer_len)..frame_len;
        if trailer.start < head.rest {
            let at = Trailer::len_at(frame_len);
            let expected = "a trailer that starts after header and chunks";
            return Err(FrameError::field(Structure::Trailer, "trailer_len", at, trailer_len, expected));
        }
        within("trailer, in bytes", trailer_len, max_metadata(&self.dparams))?;
        if head.header.nbytes == 0 {
            return Ok((head.rest..head.rest, trailer));
        }
        let gap = head.rest..trailer.start;
        let need = b2_chunk::EXTENDED_HEADER_LEN as u64;
        let have = gap.end.saturating_sub(gap.start);
        if have < need {
            return Err(FrameError::Truncated { structure: Structure::Index, offset: gap.start, need, have });
        }
        let head = gap.start..gap.start.saturating_add(need);
        if base > gap.start {
            // The index header is read first.
            return Ok((head, trailer));
        }
        let header = sub(tail, base, head)?;
        Ok((self.index_range(&header, &gap)?, trailer))
    }

    fn index_range(&self, header: &Bytes, gap: &Range<u64>) -> Result<Range<u64>, FrameError> {
        let header = ChunkHeader::parse(header).map_err(FrameError::chunk(Structure::Index))?;
        let (cbytes, have) = (header.cbytes() as u64, gap.end.saturating_sub(gap.start));
        if cbytes > have {
            return Err(FrameError::Truncated {
                structure: Structure::Index,
                offset: gap.start,
                need: cbytes,
                have,
            });
        }
        within("index chunk, in bytes", cbytes, max_metadata(&self.dparams))?;
        Ok(gap.start..gap.start.saturating_add(cbytes))
    }

    /// Finishes with all bytes from `base` to the end of the frame. `base` must not be after the
    /// start of the index.
    fn finish_from(&self, head: &HeaderRead, rest: Bytes, base: u64) -> Result<OpenedFrame, FrameError> {
        let (index, trailer) = self.tail(head, &rest, base)?;
        let index_bytes = sub(&rest, base, index.clone())?;
        let trailer_bytes = sub(&rest, base, trailer.clone())?;
        let gap = sub(&rest, base, index.end..trailer.start)?;
        self.finish(head, [index_bytes, trailer_bytes, gap], index, trailer)
    }

    fn finish(
        &self,
        head: &HeaderRead,
        [index_bytes, trailer_bytes, before_trailer]: [Bytes; 3],
        index: Range<u64>,
        trailer: Range<u64>,
    ) -> Result<OpenedFrame, FrameError> {
        let header = head.header.clone();
        let header_bytes = head.bytes.clone().unwrap_or_default();
        let metalayers = Metalayers::parse(&header_bytes)?;
        let nchunks = nchunks(&header, &self.dparams)?;
        let decoded = match nchunks {
            Some(0) => Index::default(),
            _ => Index::decode(index_bytes.clone(), nchunks, &self.dparams)?,
        };
        let tail_sum = tail_sum(&index_bytes, &trailer_bytes);
        let trailer_start = trailer.start;
        let trailer_parsed = Trailer::parse(&trailer_bytes, trailer_start, &self.dparams)?;
        let gap_start = trailer_start.saturating_sub(before_trailer.len() as u64);
        let (starts, runs) = match nchunks {
            Some(0) => (None, None),
            _ => {
                let before_block = before_trailer.len().saturating_sub(stored_block_len(&before_trailer));
                let nstored = decoded.nstored(decoded.len()) as u64;
                let index_sum = digest::sum(&index_bytes);
                let table = |kind, end: usize| {
                    let gap = before_trailer.slice(..end.min(before_trailer.len()));
                    FoundTable::at_end(kind, &gap, gap_start, index_sum, nstored).table()
                };
                let runs = table(TableKind::Sums, before_block);
                let end = runs.as_ref().map_or(before_block, |runs| {
                    let start = runs.list().start.saturating_sub(gap_start);
                    usize::try_from(start).unwrap_or(before_block)
                });
                (table(TableKind::Starts, end), runs)
            }
        };
        let (checksums, sums) = if self.checksums {
            let index = if decoded.is_empty() { Bytes::new() } else { index_bytes };
            let values = trailer::values(&trailer_bytes);
            let parts = FrameParts { header: &header_bytes, index: &index, vlmetalayers: values };
            let nstored = (!decoded.is_empty()).then(|| decoded.nstored(decoded.len()) as u64);
            let SumCheck { checksums, pages } =
                parts.check(nstored, &before_trailer, trailer_parsed.fingerprint())?;
            if let (Some(runs), Some(_), Checksums::Changed) = (&runs, &pages, checksums) {
                parts.check_array(runs.extra)?;
            }
            (checksums, pages.map(|pages| Sums::Pages(SumTable::new(pages, (gap_start, before_trailer)))))
        } else {
            (Checksums::None, None)
        };
        let runs = runs.filter(|_| sums.is_some());
        let data_start = u64::from(header.header_len);
        let data = match header.storage {
            // In a frame without chunks the stored size may be outdated.
            Storage::Contiguous => data_start..head.rest,
            Storage::Sparse => data_start..data_start,
        };
        let layout = FrameLayout { header: 0..data_start, data, index, trailer };
        Ok(OpenedFrame {
            header,
            header_bytes,
            metalayers,
            index: decoded,
            trailer: trailer_parsed,
            tail_sum,
            layout,
            checksums,
            sums,
            starts,
            runs,
            compared: VerifiedChunks::default(),
        })
    }
}

/// Returns the sum of an index and a trailer for [`OpenedFrame::tail_sum`].
pub(crate) fn tail_sum(index: &[u8], trailer: &[u8]) -> u64 {
    digest::sum(index).rotate_left(1) ^ digest::sum(trailer)
}

impl Plan for OpenPlan {
    type Output = OpenedFrame;

    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<OpenedFrame>, FrameError> {
        match std::mem::replace(&mut self.state, OpenState::Spent) {
            OpenState::Start => {
                self.state = OpenState::Page;
                Ok(Step::Need(vec![Extent::exactly(FrameFile::Main, 0..self.len.min(self.first))]))
            }
            OpenState::Page => {
                let (head, step) = self.page(parts.into_iter().next().unwrap_or_default())?;
                self.state = OpenState::Header(head);
                Ok(step)
            }
            OpenState::Header(mut head) => {
                let mut parts = parts.into_iter();
                if head.bytes.is_none() {
                    head.bytes = Some(parts.next().unwrap_or_default());
                }
                let rest = parts.next().unwrap_or_default();
                let Some(base) = head.header.frame_len.checked_sub(rest.len() as u64) else {
                    return Err(FrameError::argument("parts", "longer than was asked for"));
                };
                if base <= head.rest {
                    return self.finish_from(&head, rest, base).map(Step::Done);
                }
                let (index, trailer) = self.tail(&head, &rest, base)?;
                // The length of the block follows from its end.
                let block_len = if head.header.nbytes == 0 { 0 } else { checksums::END_LEN as u64 };
                let wanted = WantedRanges::new(index, trailer, block_len, rest, base);
                let need = wanted.extents();
                self.state = match head.header.nbytes {
                    0 => OpenState::Exact(head, wanted),
                    _ => OpenState::Tail(head, wanted),
                };
                Ok(Step::Need(need))
            }
            OpenState::Tail(head, wanted) => {
                let [index_header, _, block_end] = wanted.parts(parts);
                let WantedRanges { ranges: [_, trailer, _], end, base } = wanted;
                let index = self.index_range(&index_header, &(head.rest..trailer.start))?;
                let most = trailer.start.saturating_sub(index.end).min(self.dparams.limits.max_metadata);
                let wanted = WantedRanges::new(index, trailer, block_len(&block_end, most), end, base);
                let need = wanted.extents();
                self.state = OpenState::Exact(head, wanted);
                Ok(Step::Need(need))
            }
            OpenState::Exact(head, wanted) => {
                let parts = wanted.parts(parts);
                let [index, trailer, _] = wanted.ranges;
                self.finish(&head, parts, index, trailer).map(Step::Done)
            }
            OpenState::Spent => Err(FrameError::argument("plan", "has ended")),
        }
    }
}

/// Returns the offset at which the chunk data ends.
fn rest_of(header: &FrameHeader) -> Result<u64, FrameError> {
    let header_len = u64::from(header.header_len);
    let mut need = TRAILER_TAIL_LEN as u64;
    let mut rest = Some(header_len);
    if header.nbytes > 0 {
        need = const { (TRAILER_TAIL_LEN + b2_chunk::EXTENDED_HEADER_LEN) as u64 };
        if header.storage == Storage::Contiguous {
            rest = header_len.checked_add(header.cbytes);
        }
    }
    match rest {
        Some(rest) if rest.checked_add(need).is_some_and(|end| end <= header.frame_len) => Ok(rest),
        _ => {
            let expected = "room for index and trailer before frame_len";
            Err(FrameError::field(Structure::Header, "cbytes", CBYTES_OFFSET, header.cbytes, expected))
        }
    }
}

/// Returns the number of chunks, if the header defines it.
fn nchunks(header: &FrameHeader, dparams: &DParams) -> Result<Option<u64>, FrameError> {
    if header.nbytes == 0 {
        return Ok(Some(0));
    }
    if header.chunksize == 0 {
        return Ok(None);
    }
    let n = header.nbytes.div_ceil(header.chunksize() as u64);
    if n > i32::MAX as u64 / 8 {
        let expected = "at most 268435455 chunks, the limit of the format";
        return Err(FrameError::field(Structure::Header, "nbytes", NBYTES_OFFSET, header.nbytes, expected));
    }
    within("chunks in the frame", n, max_nchunks(dparams))?;
    Ok(Some(n))
}

/// Returns the range of the frame from `bytes`, which start at offset `base` of the frame.
fn sub(bytes: &Bytes, base: u64, range: Range<u64>) -> Result<Bytes, FrameError> {
    let index = |at: u64| at.checked_sub(base).and_then(|at| usize::try_from(at).ok());
    match (index(range.start), index(range.end)) {
        (Some(start), Some(end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => Err(FrameError::Truncated {
            structure: Structure::Frame,
            offset: range.start,
            need: range.end.saturating_sub(range.start),
            have: (bytes.len() as u64).saturating_sub(range.start.saturating_sub(base)),
        }),
    }
}

const _: () = assert!(FIXED_HEADER_LEN as u64 <= PAGE_LEN);
