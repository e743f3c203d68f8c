//! Frames in memory.
//!
//! Each chunk is a separate piece, and the bytes of a piece never change. A commit makes a new list of pieces, from
//! which replaced chunks are missing: their memory is freed immediately, unless a snapshot holds it, and new chunks get
//! their offsets. So snapshots do not change, and dead space does not grow.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

use crate::FrameError;
use crate::format::index::Entry;
use crate::format::records::Pages;
use crate::format::start_copy;
use crate::read::open_plan::FrameLayout;
use crate::storage::files::Contiguous;
use crate::storage::files::{FrameFiles, OpenFile};
use crate::storage::traits::{ReadAt, copied};
use crate::write::encode::{self, EncodedMetadata, FrameContent, PagePosition};
use crate::write::state::StoredHeader;
use crate::write::store::CommitChange;
use crate::write::store::pieces::{Holes, Pieces};

const NAME: &str = "frame in memory";

/// Replaced chunks that are not committed are dropped when they may have at least this many bytes. In tests that is
/// often.
const GARBAGE_THRESHOLD: usize = if cfg!(debug_assertions) { 256 } else { 4 << 20 };

/// A frame in memory, new or open for changing.
pub(crate) struct MemoryStore {
    header_len: u64,
    /// The committed content; `None` for a new frame.
    committed: Option<MemoryVersion>,
    /// The start of the frame: its content when it was opened, without index and trailer.
    base: Bytes,
    /// The data collected for a new frame.
    new: Vec<u8>,
    /// The chunks after `base`, committed or not.
    pieces: Pieces,
    /// Where chunks may be put in front of the end.
    holes: Holes,
    /// Bytes put since unused pieces were last dropped.
    garbage_len: usize,
    /// Number of bytes written so far.
    pub(super) written: u64,
}

/// The content of a frame at some moment. Nothing changes it.
#[derive(Clone, Default)]
struct MemoryVersion {
    /// The header, in place of the one in `base`.
    header: Bytes,
    base: Bytes,
    pieces: Pieces,
    /// Index, checksums and trailer: the last bytes.
    tail: Bytes,
    len: u64,
    /// All of it in one piece, except perhaps the header.
    whole: Option<Bytes>,
    /// Whether reads of at most some bytes end with the chunk.
    by_chunk: bool,
}

impl MemoryStore {
    /// Creates the store of a new frame.
    pub(crate) fn create(header_len: u64) -> Result<Self, FrameError> {
        Ok(Self {
            header_len,
            committed: None,
            base: Bytes::new(),
            new: memory::zeroed(header_len as usize)?,
            pieces: Pieces::default(),
            holes: Holes::default(),
            garbage_len: 0,
            written: 0,
        })
    }

    /// Creates the store of an existing frame.
    pub(crate) fn of(frame: &Bytes, layout: &FrameLayout) -> Self {
        let part = |range: Range<usize>| {
            let end = range.end.min(frame.len());
            frame.slice(range.start.min(end)..end)
        };
        let header_len = layout.header.end;
        let split = layout.index.start.min(layout.trailer.start).max(header_len) as usize;
        let base = part(0..split);
        let version = MemoryVersion {
            header: part(0..header_len as usize),
            base: base.clone(),
            tail: part(split..frame.len()),
            len: frame.len() as u64,
            whole: Some(frame.clone()),
            ..MemoryVersion::default()
        };
        Self {
            header_len,
            committed: Some(version),
            base,
            new: Vec::new(),
            pieces: Pieces::default(),
            holes: Holes::default(),
            garbage_len: 0,
            written: 0,
        }
    }

    /// Returns the end of the chunks.
    fn end(&self) -> u64 {
        let base = if self.new.is_empty() { self.base.len() } else { self.new.len() };
        self.pieces.end().max(base as u64)
    }

    /// Stores a chunk and returns the offset for its index entry.
    pub(super) fn put(&mut self, chunk: Bytes) -> Result<u64, FrameError> {
        let len = chunk.len();
        let at = if self.new.is_empty() {
            let chunk = owned(chunk)?;
            let at = self.holes.take(len as u64).unwrap_or_else(|| self.end());
            self.pieces.insert(at, chunk)?;
            at
        } else {
            let at = self.new.len() as u64;
            memory::reserve(&mut self.new, len)?;
            self.new.extend_from_slice(&chunk);
            at
        };
        self.written += len as u64;
        self.garbage_len += len;
        Ok(at - self.header_len)
    }

    /// Drops pieces to which neither `entries` nor the committed state refers.
    pub(super) fn collect_garbage(&mut self, entries: &[i64]) {
        if self.garbage_len < GARBAGE_THRESHOLD.max(entries.len().saturating_mul(16)) {
            return;
        }
        // Without memory for that, they stay.
        let (Some(committed), Ok(live)) = (&self.committed, self.live(entries)) else { return };
        self.pieces.retain(|at| live.binary_search(&at).is_ok() || committed.pieces.contains(at));
        self.reset_holes();
    }

    fn reset_holes(&mut self) {
        self.holes = Holes::of(&self.pieces, self.base.len() as u64);
        self.garbage_len = 0;
    }

    /// Returns the sorted offsets of the chunks after `base` that entries refer to.
    fn live(&self, entries: &[i64]) -> Result<Vec<u64>, OutOfMemory> {
        let offset = |raw: &i64| match Entry::from_raw(*raw) {
            Some(Entry::Stored(offset)) => {
                offset.checked_add(self.header_len).filter(|at| *at >= self.base.len() as u64)
            }
            _ => None,
        };
        let mut live = memory::collect(entries.iter().filter_map(offset))?;
        live.sort_unstable();
        Ok(live)
    }

    /// Makes the collected data of a new frame readable. Further chunks follow it.
    fn freeze(&mut self) {
        if !self.new.is_empty() {
            self.base = std::mem::take(&mut self.new).into();
        }
    }

    /// Returns the chunks stored so far, for a snapshot.
    pub(super) fn staged(&mut self) -> Result<(Arc<dyn FrameFiles>, FrameLayout), FrameError> {
        self.freeze();
        let end = self.end();
        let header = self.committed.as_ref().map(|version| version.header.clone()).unwrap_or_default();
        let (base, pieces) = (self.base.clone(), self.pieces.clone());
        let version =
            MemoryVersion { header, base, pieces, len: end, by_chunk: true, ..MemoryVersion::default() };
        let layout = FrameLayout {
            header: 0..self.header_len,
            data: self.header_len..end,
            index: end..end,
            trailer: end..end,
        };
        Ok((version.files()?, layout))
    }

    /// Returns the first offset of chunks that this store has put into memory.
    pub(super) fn trusted_from(&self) -> u64 {
        match self.committed {
            Some(_) => self.base.len() as u64 - self.header_len,
            None => 0,
        }
    }

    /// Returns the committed frame.
    pub(super) fn files(&self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        self.committed.clone().unwrap_or_default().files()
    }

    /// Commits a state and returns the stored header.
    pub(super) fn commit(&mut self, change: &CommitChange<'_>) -> Result<Arc<StoredHeader>, FrameError> {
        let &CommitChange { old, new, sums, starts, metadata_only, .. } = change;
        if metadata_only && let Some(committed) = &mut self.committed {
            let head = new.head(old.head.header.cbytes, committed.len);
            committed.header = head.bytes.clone();
            self.written += head.len();
            return Ok(head);
        }
        let mut pieces = self.pieces.clone();
        if self.committed.is_some() {
            let live = self.live(&new.entries)?;
            pieces.retain(|at| live.binary_search(&at).is_ok());
        }
        let base = if self.new.is_empty() { self.base.len() } else { self.new.len() };
        let end = pieces.end().max(base as u64);
        let kept = Pages::default();
        let data = self.header_len..end.min(self.header_len + start_copy::MAX_COPIED_LEN as u64);
        let first = match self.new.get(data.start as usize..data.end as usize) {
            Some(first) => memory::copied(first)?,
            None => {
                let (base, pieces) = (self.base.clone(), pieces.clone());
                copied(&MemoryVersion { base, pieces, len: end, ..MemoryVersion::default() }, data)
                    .map_err(FrameError::io(NAME))?
                    .into()
            }
        };
        let content = FrameContent {
            state: new,
            sums,
            starts,
            kept: &kept,
            first: &first,
            cbytes: end - self.header_len,
            index_at: end,
            pages: PagePosition::BeforeIndex,
        };
        let EncodedMetadata { head, tail, .. } = encode::encode(&content)?;
        self.written += tail.len() as u64 + head.len();
        let len = end + tail.len() as u64;
        let mut version = MemoryVersion { header: head.bytes.clone(), len, ..MemoryVersion::default() };
        if self.new.is_empty() {
            (version.base, version.pieces, version.tail) = (self.base.clone(), pieces.clone(), tail.into());
        } else {
            memory::reserve(&mut self.new, tail.len())?;
            let mut frame = std::mem::take(&mut self.new);
            frame.extend_from_slice(&tail);
            if let Some(start) = frame.get_mut(..head.bytes.len()) {
                start.copy_from_slice(&head.bytes);
            }
            let frame = Bytes::from(frame);
            (version.base, version.tail) = (frame.slice(..base), frame.slice(base..));
            version.whole = Some(frame);
            self.base = version.base.clone();
        }
        self.committed = Some(version);
        self.pieces = pieces;
        self.reset_holes();
        Ok(head)
    }

    /// Discards everything stored since the last commit.
    pub(super) fn rollback(&mut self) {
        if let Some(committed) = &self.committed {
            self.pieces = committed.pieces.clone();
            self.reset_holes();
        }
    }

    /// Replaces this frame by a newly written one, which is committed to `whole`.
    pub(super) fn replace(&mut self, whole: Self) {
        let written = self.written + whole.written;
        *self = Self { written, ..whole };
    }

    /// Takes the committed frame, if there is one. It is copied only if others hold parts of it.
    ///
    /// # Errors
    /// When there is no memory for one contiguous piece.
    pub(super) fn take(&mut self) -> Result<Option<Bytes>, OutOfMemory> {
        let committed = self.committed.take();
        (self.base, self.pieces) = Default::default();
        committed.map(MemoryVersion::into_bytes).transpose()
    }
}

/// Returns the bytes as a vector, and copies them only if others share them.
fn unshared(bytes: Bytes) -> Result<Vec<u8>, OutOfMemory> {
    if bytes.is_unique() { Ok(Vec::from(bytes)) } else { memory::copied(&bytes) }
}

/// Returns bytes that are not shared, in memory of exactly their size.
fn owned(bytes: Bytes) -> Result<Bytes, OutOfMemory> {
    let mut bytes = unshared(bytes)?;
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

/// The content of a version from some offset on.
enum VersionPart<'a> {
    /// Bytes up to the end of this slice, and whether they are a chunk that was put here.
    Bytes(&'a Bytes, usize, bool),
    /// This many zeros.
    Zeros(u64),
}

impl MemoryVersion {
    fn files(self) -> Result<Arc<dyn FrameFiles>, FrameError> {
        Ok(Arc::new(Contiguous(OpenFile::new(Arc::new(self), NAME, 0)?)))
    }

    fn part(&self, at: u64) -> VersionPart<'_> {
        let tail = self.len - self.tail.len() as u64;
        if at < self.header.len() as u64 {
            VersionPart::Bytes(&self.header, at as usize, false)
        } else if at < self.base.len() as u64 {
            VersionPart::Bytes(&self.base, at as usize, false)
        } else if at >= tail {
            VersionPart::Bytes(&self.tail, (at - tail) as usize, false)
        } else {
            match self.pieces.find(at) {
                Some(piece) if piece.at <= at => {
                    VersionPart::Bytes(&piece.bytes, (at - piece.at) as usize, true)
                }
                next => VersionPart::Zeros(next.map_or(tail, |piece| piece.at) - at),
            }
        }
    }

    fn check(&self, range: &Range<u64>) -> io::Result<()> {
        match range.start <= range.end && range.end <= self.len {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn into_bytes(self) -> Result<Bytes, OutOfMemory> {
        let Self { header, base, pieces, tail, len, whole, .. } = self;
        let mut frame = match whole {
            Some(whole) if whole.starts_with(&header) => return Ok(whole),
            Some(whole) => {
                drop((base, tail));
                unshared(whole)?
            }
            None => {
                let mut frame = unshared(base)?;
                let more = (len as usize).saturating_sub(frame.len());
                memory::reserve(&mut frame, more)?;
                for piece in pieces.iter() {
                    frame.resize(piece.at as usize, 0);
                    frame.extend_from_slice(&piece.bytes);
                }
                frame.extend_from_slice(&tail);
                frame
            }
        };
        if let Some(start) = frame.get_mut(..header.len()) {
            start.copy_from_slice(&header);
        }
        Ok(frame.into())
    }
}

impl ReadAt for MemoryVersion {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        self.check(&(offset..offset.saturating_add(buf.len() as u64)))?;
        let mut at = offset;
        while !buf.is_empty() {
            let part = self.part(at);
            let most = match &part {
                VersionPart::Bytes(bytes, from, _) => bytes.len() - from,
                VersionPart::Zeros(len) => usize::try_from(*len).unwrap_or(usize::MAX),
            };
            let (dst, rest) = buf.split_at_mut(most.min(buf.len()));
            match part {
                VersionPart::Bytes(bytes, from, _) => dst.copy_from_slice(&bytes[from..from + dst.len()]),
                VersionPart::Zeros(_) => dst.fill(0),
            }
            at += dst.len() as u64;
            buf = rest;
        }
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.check(&range)?;
        let len = (range.end - range.start) as usize;
        if let VersionPart::Bytes(bytes, from, _) = self.part(range.start)
            && bytes.len() - from >= len
        {
            return Ok(bytes.slice(from..from + len));
        }
        copied(self, range)
    }

    fn read_at_most(&self, range: Range<u64>) -> io::Result<Bytes> {
        match self.part(range.start) {
            VersionPart::Bytes(bytes, from, true) if self.by_chunk => {
                self.check(&range)?;
                let len = (range.end - range.start).min((bytes.len() - from) as u64) as usize;
                Ok(bytes.slice(from..from + len))
            }
            _ => self.read_at(range),
        }
    }
}

/// A frame in memory whose parts are copied when they are read, so that the copies do not keep the frame in memory.
pub(crate) struct CopyOnRead(pub(crate) Bytes);

impl ReadAt for CopyOnRead {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.0)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buf)
    }
}
