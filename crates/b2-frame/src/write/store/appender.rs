//! Appends to the file of a contiguous frame: collects small chunks before they are written, reserves space,
//! and starts writing to the disk early.

use std::io;
use std::sync::Arc;

use crate::FrameError;
use crate::storage::staging::Durability;
use crate::storage::traits::{FileId, ReadAt, WriteAt};
use b2_core::memory;

/// Small chunks are collected up to this size before they are written, in bytes.
const BUFFER_LEN: usize = 1 << 20;

/// New files reserve space for what is written behind this many bytes, right before it is written.
///
/// When a file replaces another, ext4 allocates and writes out at the rename what was not reserved, which takes as long as
/// writing it.
const RESERVE_FROM: u64 = 256 << 10;

/// Files longer than this reserve this many more bytes at a time. Giving back what is left over takes longer than several
/// reservations.
const RESERVE_LEN: u64 = 16 << 20;

/// After this many bytes, writing them to disk is started early, which shortens the final sync.
const START_SYNC: u64 = 8 << 20;

/// The file of a frame, from the frame's start on.
pub(super) struct Appender {
    pub(super) file: Arc<dyn WriteAt>,
    pub(super) name: Arc<str>,
    /// Offset of the frame in the file. All others count from here.
    base: u64,
    pub(super) durability: Durability,
    /// Offset of `buf`: the end of what is written.
    pub(super) at: u64,
    buf: Vec<u8>,
    /// End of the bytes that may have been written.
    high: u64,
    /// End of the reserved space, if the file is new.
    reserved: Option<u64>,
    /// End of the bytes for which writing to disk was started.
    sync_started: u64,
    /// Number of bytes written so far.
    pub(super) written: u64,
    /// The first bytes that were appended to a new frame.
    pub(super) first: Vec<u8>,
    /// How many of them to keep.
    keep_first: usize,
}

impl Appender {
    /// Appends to the first `end` bytes of a file.
    pub(super) fn new(file: Arc<dyn WriteAt>, name: Arc<str>, durability: Durability, end: u64) -> Self {
        Self {
            file,
            name,
            base: 0,
            durability,
            at: end,
            buf: Vec::new(),
            high: end,
            reserved: None,
            sync_started: end,
            written: 0,
            first: Vec::new(),
            keep_first: 0,
        }
    }

    /// Reserves space from now on.
    pub(super) fn reserving(self) -> Self {
        Self { reserved: Some(0), ..self }
    }

    /// Counts offsets from this byte of the file.
    pub(super) fn at_byte(self, base: u64) -> Self {
        Self { base, ..self }
    }

    /// Leaves space at the start, to be written later, and keeps a copy of up to `first` bytes that follow.
    pub(super) fn skip(&mut self, len: u64, first: usize) -> Result<(), FrameError> {
        self.keep_first = first;
        self.buf = memory::zeroed(len as usize)?;
        Ok(())
    }

    /// Adds the name of the file to an error.
    pub(super) fn io<T>(&self, result: io::Result<T>) -> Result<T, FrameError> {
        result.map_err(FrameError::io(&*self.name))
    }

    /// Returns the end of what was appended.
    pub(super) fn end(&self) -> u64 {
        self.at + self.buf.len() as u64
    }

    /// Returns whether there may be bytes behind `end`.
    pub(super) fn reaches_behind(&self, end: u64) -> bool {
        self.end() > end || self.high > end
    }

    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), FrameError> {
        let rest = self.keep_first.saturating_sub(self.first.len());
        if rest > 0 {
            let first = data.get(..rest).unwrap_or(data);
            memory::reserve(&mut self.first, first.len())?;
            self.first.extend_from_slice(first);
        }
        if self.buf.len() + data.len() > BUFFER_LEN {
            self.flush()?;
            if data.len() > BUFFER_LEN {
                self.write(self.at, data)?;
                self.at += data.len() as u64;
                return Ok(());
            }
        }
        memory::reserve(&mut self.buf, data.len())?;
        self.buf.extend_from_slice(data);
        Ok(())
    }

    /// Writes the collected bytes.
    pub(super) fn flush(&mut self) -> Result<(), FrameError> {
        if !self.buf.is_empty() {
            let buf = std::mem::take(&mut self.buf);
            let result = self.write(self.at, &buf);
            self.buf = buf;
            result?;
            self.at += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }

    /// Writes bytes at an offset, and appends nothing.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> Result<(), FrameError> {
        let end = at + data.len() as u64;
        if let Some(reserved) = &mut self.reserved
            && end > self.high.max(*reserved).max(RESERVE_FROM)
        {
            *reserved = if end > RESERVE_LEN { end + RESERVE_LEN } else { end };
            self.file.reserve(at..*reserved);
        }
        self.high = self.high.max(end);
        self.io(self.file.write_all_at(self.base + at, data))?;
        self.written += data.len() as u64;
        if self.durability == Durability::Sync && end >= self.sync_started + START_SYNC {
            self.file.start_sync(self.base + self.sync_started..self.base + end);
            self.sync_started = end;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.durability {
            Durability::Sync => self.file.sync(),
            Durability::None => Ok(()),
        }
    }

    /// Truncates what may be behind `len`.
    pub(super) fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.high > len {
            self.file.set_len(len)?;
            self.high = len;
        }
        Ok(())
    }

    /// Releases the space that was reserved and is not used.
    pub(super) fn release(&mut self) -> Result<(), FrameError> {
        if self.reserved.is_some_and(|reserved| reserved > self.at) {
            self.io(self.file.set_len(self.at))?;
            self.reserved = Some(0);
        }
        Ok(())
    }

    /// Continues behind `end`, without the collected bytes.
    pub(super) fn go_to(&mut self, end: u64) {
        self.at = end;
        self.buf.clear();
    }

    /// Continues behind the end of another file, which has replaced this one.
    pub(super) fn replace(&mut self, by: Self) {
        let len = by.at;
        self.file = by.file;
        self.written += len;
        self.high = len;
        self.go_to(len);
    }

    /// Closes the file where another could not be renamed over it otherwise: on Windows. Returns its identity if the
    /// file was closed.
    pub(super) fn close_to_replace(&mut self) -> Option<Option<FileId>> {
        if !cfg!(windows) {
            return None;
        }
        let identity = self.file.identity().ok()?;
        self.file = Arc::new(ClosedFile);
        Some(identity)
    }
}

/// In place of a file that was closed so that another can take its name.
#[derive(Debug)]
struct ClosedFile;

impl ClosedFile {
    fn error() -> io::Error {
        io::Error::other("the file is closed")
    }
}

impl ReadAt for ClosedFile {
    fn len(&self) -> io::Result<u64> {
        Err(Self::error())
    }
    fn read_exact_at(&self, _offset: u64, _buf: &mut [u8]) -> io::Result<()> {
        Err(Self::error())
    }
}

impl WriteAt for ClosedFile {
    fn write_all_at(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(Self::error())
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(Self::error())
    }
    fn sync(&self) -> io::Result<()> {
        Err(Self::error())
    }
    fn lock(&self) -> io::Result<()> {
        Err(Self::error())
    }
}
