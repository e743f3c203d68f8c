//! Where a writer's bytes go: a buffer, a file, a directory.

use std::sync::Arc;

use b2_chunk::EXTENDED_HEADER_LEN;
use b2_chunk::memory::{self, OutOfMemory};
use bytes::Bytes;

use crate::error::FrameError;
use crate::sparse::{INDEX_NAME, chunk_name};
use crate::staging::{Durability, Staged};
use crate::storage::{Links, WriteAt};

/// Small chunks are collected up to this size before they are written, in bytes.
const BUFFER: usize = 1 << 20;

/// Magic, header length and the marker behind it.
const FIRST: usize = 16;

pub(crate) enum Sink {
    Memory(Vec<u8>),
    File(FileSink),
    Directory(DirectorySink),
}

impl Sink {
    /// Appends a chunk and returns its index entry. `header_len` bytes in front are left for the header.
    pub(crate) fn append(&mut self, chunk: &Bytes, header_len: u64) -> Result<u64, FrameError> {
        match self {
            Self::Memory(buf) => {
                let offset = buf.len() as u64 - header_len;
                memory::reserve(buf, chunk.len())?;
                buf.extend_from_slice(chunk);
                Ok(offset)
            }
            Self::File(file) => {
                let offset = file.len() - header_len;
                file.write(chunk)?;
                Ok(offset)
            }
            Self::Directory(dir) => dir.append(chunk).map(u64::from),
        }
    }

    /// What the header has to say as `cbytes`.
    pub(crate) fn cbytes(&self, header_len: u64) -> u64 {
        match self {
            Self::Memory(buf) => buf.len() as u64 - header_len,
            Self::File(file) => file.len() - header_len,
            // C-Blosc2 takes file numbers for offsets and wants them to lie inside.
            Self::Directory(dir) if dir.nfiles == 0 => 0,
            Self::Directory(dir) => dir.sum.max(u64::from(dir.nfiles) - 1 + EXTENDED_HEADER_LEN as u64),
        }
    }

    /// Bytes in front of the index chunk.
    pub(crate) fn index_at(&self, header_len: u64) -> u64 {
        match self {
            Self::Directory(_) => header_len,
            _ => header_len + self.cbytes(header_len),
        }
    }

    /// Writes index and trailer, then the header, and gives all of it its name.
    pub(crate) fn finish(self, header: &[u8], tail: &[u8]) -> Result<Bytes, FrameError> {
        match self {
            Self::Memory(mut buf) => {
                memory::reserve(&mut buf, tail.len())?;
                buf.extend_from_slice(tail);
                if let Some(start) = buf.get_mut(..header.len()) {
                    start.copy_from_slice(header);
                }
                Ok(buf.into())
            }
            Self::File(file) => file.finish(header, tail).map(|()| Bytes::new()),
            Self::Directory(dir) => dir.finish(header, tail),
        }
    }
}

/// A frame in a file, written from front to end: a staged file, or the end of one that is there.
pub(crate) struct FileSink {
    staged: Option<Staged>,
    file: Arc<dyn WriteAt>,
    name: String,
    durability: Durability,
    /// Where the frame starts in the file.
    base: u64,
    written: u64,
    buf: Vec<u8>,
}

impl FileSink {
    pub(crate) fn new(
        staged: Staged,
        file: Arc<dyn WriteAt>,
        header_len: usize,
    ) -> Result<Self, OutOfMemory> {
        let (name, durability) = (staged.temporary().display().to_string(), staged.durability());
        let buf = memory::zeroed(header_len)?;
        Ok(Self { staged: Some(staged), file, name, durability, base: 0, written: 0, buf })
    }

    /// From byte `base` of a file on.
    pub(crate) fn behind(
        file: Arc<dyn WriteAt>,
        name: String,
        durability: Durability,
        base: u64,
        header_len: usize,
    ) -> Result<Self, OutOfMemory> {
        let buf = memory::zeroed(header_len)?;
        Ok(Self { staged: None, file, name, durability, base, written: 0, buf })
    }

    fn len(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    fn write(&mut self, data: &[u8]) -> Result<(), FrameError> {
        if self.buf.len() + data.len() > BUFFER {
            self.flush()?;
        }
        if data.len() > BUFFER {
            self.write_at(self.written, data)?;
            self.written += data.len() as u64;
        } else {
            memory::reserve(&mut self.buf, data.len())?;
            self.buf.extend_from_slice(data);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FrameError> {
        if !self.buf.is_empty() {
            self.write_at(self.written, &self.buf)?;
            self.written += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), FrameError> {
        self.file.write_all_at(self.base + offset, data).map_err(FrameError::io(&*self.name))
    }

    fn sync(&self) -> Result<(), FrameError> {
        match self.durability {
            Durability::Sync => self.file.sync().map_err(FrameError::io(&*self.name)),
            Durability::None => Ok(()),
        }
    }

    fn finish(mut self, header: &[u8], tail: &[u8]) -> Result<(), FrameError> {
        self.write(tail)?;
        self.flush()?;
        let mut start = header;
        if self.staged.is_none() {
            // Nothing gives the frame a name at the end: it is one as soon as it has the first bytes of the
            // header. However their write is torn, there is no frame without the last of them.
            let (first, rest) = header.split_at(FIRST.min(header.len()));
            self.write_at(first.len() as u64, rest)?;
            self.sync()?;
            start = first;
        }
        self.write_at(0, start)?;
        self.sync()?;
        self.staged.map_or(Ok(()), Staged::commit)
    }
}

/// A staged directory with a file for each chunk.
pub(crate) struct DirectorySink {
    staged: Staged,
    nfiles: u32,
    sum: u64,
}

impl DirectorySink {
    pub(crate) fn new(staged: Staged) -> Self {
        Self { staged, nfiles: 0, sum: 0 }
    }

    fn append(&mut self, chunk: &Bytes) -> Result<u32, FrameError> {
        // There are fewer chunks in a frame than file numbers.
        let id = self.nfiles;
        self.create(&chunk_name(id), chunk)?;
        self.nfiles += 1;
        self.sum += chunk.len() as u64;
        Ok(id)
    }

    fn finish(self, header: &[u8], tail: &[u8]) -> Result<Bytes, FrameError> {
        let mut index = memory::list(header.len() + tail.len())?;
        index.extend_from_slice(header);
        index.extend_from_slice(tail);
        self.create(INDEX_NAME, &index)?;
        if self.staged.durability() == Durability::Sync {
            // At the end: by now the system has begun to write most of it by itself.
            for name in (0..self.nfiles).map(chunk_name).chain([INDEX_NAME.to_owned()]) {
                self.sync(&name)?;
            }
            let dir = self.staged.temporary();
            self.staged.fs().sync_dir(dir).map_err(FrameError::io(dir.display().to_string()))?;
        }
        self.staged.commit()?;
        Ok(Bytes::new())
    }

    fn create(&self, name: &str, data: &[u8]) -> Result<(), FrameError> {
        let path = self.staged.temporary().join(name);
        let created = self.staged.fs().create_new(&path);
        created
            .and_then(|file| file.write_all_at(0, data))
            .map_err(FrameError::io(path.display().to_string()))
    }

    fn sync(&self, name: &str) -> Result<(), FrameError> {
        let path = self.staged.temporary().join(name);
        let opened = self.staged.fs().open_write(&path, Links::Refuse);
        opened.and_then(|file| file.sync()).map_err(FrameError::io(path.display().to_string()))
    }
}
