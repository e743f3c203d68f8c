//! Files that the page reads for the engine.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2_async::{OpenResponse, RangeReader, RangeResponse, Version};
use b2_frame::{FrameFile, FrameHeader, MAGIC};
use bytes::Bytes;

use crate::host::Host;

/// A file, or a part of one. Cloning is cheap.
#[derive(Clone, Debug)]
pub enum Source {
    /// Of the page.
    File(Arc<File>),
    /// In memory: a member that was decoded.
    Memory(String, Bytes),
}

/// A file of the page.
#[derive(Clone, Debug)]
pub struct File {
    host: Host,
    name: String,
    number: u32,
    /// The first bytes of the part.
    first: Bytes,
    /// Where the part is in the file.
    part: Range<u64>,
    /// The version reported by the page when the file was opened.
    version: Version,
}

impl File {
    /// Opens a file: reads its first bytes and determines its length.
    ///
    /// # Errors
    /// The error reported by the page.
    pub async fn open(host: &Host, number: u32, name: &str) -> io::Result<Self> {
        let found = host.read(number, None, 0..OpenResponse::FIRST).await?;
        let short = (found.bytes.len() as u64) < OpenResponse::FIRST;
        let first = found.bytes;
        let len = match found.version.len {
            Some(len) => len,
            None if short => first.len() as u64,
            // Most servers do not expose the length to other origins; the header of a frame has it.
            None if first.starts_with(&MAGIC) => match FrameHeader::parse(&first) {
                Ok(header) => header.frame_len(),
                Err(_) => host.length(number).await?,
            },
            None => host.length(number).await?,
        };
        let version = found.version.len(None);
        Ok(Self { host: host.clone(), name: name.to_owned(), number, first, part: 0..len, version })
    }

    /// Returns its first bytes.
    #[must_use]
    pub fn first(&self) -> &Bytes {
        &self.first
    }

    /// Returns its length, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.part.end.saturating_sub(self.part.start)
    }

    /// Returns whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a part of it as a file.
    ///
    /// # Errors
    /// The error reported by the page.
    pub async fn part(&self, name: &str, range: Range<u64>) -> io::Result<Self> {
        let start = self.part.start.saturating_add(range.start);
        let part = start..self.part.start.saturating_add(range.end).min(self.part.end).max(start);
        let head = part.start..part.start.saturating_add(OpenResponse::FIRST).min(part.end);
        let first = self.read(head).await?;
        Ok(Self { name: name.to_owned(), first, part, ..self.clone() })
    }

    /// Reads a range of the whole file, of the version that was opened.
    async fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let found = self.host.read(self.number, None, range.clone()).await?;
        self.version.accept(&range, RangeResponse::new(found.bytes, found.version))
    }

    /// Reads a range.
    ///
    /// # Errors
    /// The error reported by the page; [`io::ErrorKind::StaleNetworkFileHandle`] when the file has changed.
    pub async fn range(&self, range: Range<u64>) -> io::Result<Bytes> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(kept) = self.first.get(at(range.start)..at(range.end)) {
            return Ok(self.first.slice_ref(kept));
        }
        let start = self.part.start;
        self.read(start.saturating_add(range.start)..start.saturating_add(range.end)).await
    }
}

impl RangeReader for Source {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.name.clone(),
            Self::Memory(name, _) => name.clone(),
        }
    }

    async fn open(&self, which: FrameFile, first: u64, last: u64) -> io::Result<OpenResponse> {
        if which != FrameFile::Main {
            return Err(split_ranges());
        }
        match self {
            Self::Memory(_, bytes) => bytes.open(which, first, last).await,
            Self::File(file) => {
                let len = file.len();
                let head = file.range(0..first.min(len)).await?;
                let tail = file.range(len.saturating_sub(last)..len).await?;
                // The file is shorter than its header states.
                if (tail.len() as u64) < last.min(len) {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early"));
                }
                Ok(OpenResponse::new(head, tail, len, Version::default()))
            }
        }
    }

    async fn range(&self, which: FrameFile, range: Range<u64>) -> io::Result<RangeResponse> {
        match (self, which) {
            (Self::File(file), FrameFile::Chunk(chunk)) if file.part.start == 0 => {
                let found = file.host.read(file.number, Some(chunk), range).await?;
                Ok(RangeResponse::new(found.bytes, found.version))
            }
            _ if which != FrameFile::Main => Err(split_ranges()),
            (Self::Memory(_, bytes), _) => bytes.range(which, range).await,
            (Self::File(file), _) => Ok(RangeResponse::new(file.range(range).await?, Version::default())),
        }
    }
}

/// Members of stores consist of a single file.
fn split_ranges() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the chunks of this sparse frame are not in the store")
}
