//! Writing a state as a whole new frame: for frames that are or become empty, to get rid of dead space, and to
//! put a frame behind what a file holds.

use std::path::Path;
use std::sync::Arc;

use ::bytes::{Bytes, BytesMut};

use crate::checksums::{ChunkSums, Page};
use crate::edit::state::State;
use crate::ends::{self, Content, Ends};
use crate::header::{MAGIC, patch};
use crate::index::Entry;
use crate::lock::FrameLock;
use crate::sink::{FileSink, Sink};
use crate::staging::{self, Staged, Target};
use crate::storage::{FileKind, Links, WriteAt};
use crate::{FrameError, SuperChunk, WriteOptions};
use b2_chunk::memory::{self, OutOfMemory};

/// A frame that was written.
pub(crate) struct Rewritten<T> {
    pub(crate) place: T,
    pub(crate) header: Bytes,
    pub(crate) entries: Vec<i64>,
    /// Of the chunks at their new places.
    pub(crate) sums: Option<ChunkSums>,
    pub(crate) pages: Vec<Page>,
    /// Of the frame, in bytes.
    pub(crate) len: u64,
}

/// A frame to be written.
pub(crate) struct Whole<'a> {
    pub(crate) header_len: u64,
    pub(crate) state: &'a State,
    /// A snapshot of that state.
    pub(crate) source: &'a SuperChunk,
    /// Of the chunks where they are now, if they are known. They are taken over, not made anew: damage that happens on
    /// the way shows.
    pub(crate) sums: Option<&'a ChunkSums>,
    /// Whether to write checksums.
    pub(crate) checksums: bool,
}

impl Whole<'_> {
    pub(crate) fn memory(&self) -> Result<Rewritten<Bytes>, FrameError> {
        self.write_to(Sink::Memory(memory::zeroed(self.header_len as usize)?))
    }

    /// Returns the file, which is at `path` now.
    pub(crate) fn disk(
        &self,
        target: Target,
        path: &Path,
        before_rename: impl FnOnce() -> Result<u64, FrameError>,
    ) -> Result<Rewritten<Arc<dyn WriteAt>>, FrameError> {
        let (staged, file) = Staged::file(target, path)?;
        let mut sink = Sink::File(FileSink::new(staged, file.clone(), self.header_len as usize)?);
        let (entries, sums) = self.chunks(&mut sink)?;
        let Ends { header, tail, pages } = self.ends(&sink, &entries, sums.as_ref())?;
        let len = sink.index_at(self.header_len) + tail.len() as u64;
        before_rename()?;
        sink.finish(&header, &tail)?;
        Ok(Rewritten { place: file, header, entries, sums, pages, len })
    }

    fn write_to(&self, mut sink: Sink) -> Result<Rewritten<Bytes>, FrameError> {
        let (entries, sums) = self.chunks(&mut sink)?;
        let Ends { header, tail, pages } = self.ends(&sink, &entries, sums.as_ref())?;
        let len = sink.index_at(self.header_len) + tail.len() as u64;
        Ok(Rewritten { place: sink.finish(&header, &tail)?, header, entries, sums, pages, len })
    }

    /// Copies the chunks in order. Two entries that share a chunk get one each.
    fn chunks(&self, sink: &mut Sink) -> Result<(Vec<i64>, Option<ChunkSums>), FrameError> {
        let mut entries = memory::list(self.state.nchunks())?;
        let mut sums = self.sums.map(|_| ChunkSums::default());
        for (nchunk, raw) in self.state.entries.iter().enumerate() {
            entries.push(match Entry::from_raw(*raw) {
                Some(Entry::Stored(_)) => {
                    let chunk = self.source.chunk(nchunk)?;
                    let new = Entry::Stored(sink.append(chunk.as_bytes(), self.header_len)?).to_raw();
                    if let (Some(sums), Some(sum)) = (&mut sums, self.sums.and_then(|sums| sums.get(*raw))) {
                        sums.put_sum(new, sum)?;
                    }
                    new
                }
                _ => *raw,
            });
        }
        Ok((entries, sums))
    }

    fn ends(&self, sink: &Sink, entries: &[i64], sums: Option<&ChunkSums>) -> Result<Ends, FrameError> {
        let (cbytes, index_at) = (sink.cbytes(self.header_len), sink.index_at(self.header_len));
        let header = |tail_len| self.state.encode_header(cbytes, index_at + tail_len);
        let content = Content {
            entries,
            vlmetalayers: &self.state.vlmetalayers,
            sums: sums.filter(|_| self.checksums),
            kept: &[],
            index_at,
        };
        ends::encode(&content, header)
    }
}

impl SuperChunk {
    /// The super-chunk as a contiguous frame in memory, without dead space: what a file with nothing but it
    /// would hold.
    ///
    /// # Errors
    /// When a chunk cannot be read.
    pub fn to_frame(&self) -> Result<Bytes, FrameError> {
        self.write_whole(|header_len| Ok(Sink::Memory(memory::zeroed(header_len)?)))
    }

    /// Appends the whole super-chunk, as a contiguous frame, to a file that exists, and returns its offset for
    /// [`SuperChunk::open_at`]. What is in the file stays as it is; if that is a frame, it can no longer be
    /// changed without [`force`](crate::OpenOptions::force). The appended frame is for reading only.
    ///
    /// The start of the header is written last, so that after a crash there is a whole frame or none at that offset. Of the
    /// options, durability and file system count.
    ///
    /// # Errors
    /// When there is no such file, it cannot be written, or a chunk cannot be read. The file then is as it was.
    pub fn append_to_file(&self, path: impl AsRef<Path>, options: &WriteOptions) -> Result<u64, FrameError> {
        let path = path.as_ref();
        let Target { fs, durability, .. } = options.target();
        let mut real = path.to_owned();
        if staging::io(path, fs.kind(path, Links::Refuse))? == FileKind::Link {
            real = staging::io(path, fs.resolve(path))?;
        }
        let file = staging::io(&real, fs.open_write(&real, Links::Refuse))?;
        // Whoever changes a frame that is there must not write to the same place.
        let is_frame = file.read_at(0..MAGIC.len() as u64).is_ok_and(|start| *start == MAGIC);
        let _lock = if is_frame { Some(FrameLock::file(&**fs, path, &real)?) } else { None };
        let base = staging::io(&real, file.len())?;
        let name = real.display().to_string();
        let result = self.write_whole(|header_len| {
            FileSink::behind(file.clone(), name, *durability, base, header_len).map(Sink::File)
        });
        if result.is_err() {
            let _ = file.set_len(base);
        }
        result.map(|_| base)
    }

    fn write_whole(
        &self,
        sink: impl FnOnce(usize) -> Result<Sink, OutOfMemory>,
    ) -> Result<Bytes, FrameError> {
        let mut header = BytesMut::from(&self.opened.header_bytes[..]);
        patch::put(&mut header, patch::STORAGE, &[0]);
        let state = State { header: header.freeze(), ..State::of(self)? };
        let header_len = state.header.len();
        let sums = self.chunk_sums()?;
        let (header_len_u64, sums, checksums) = (header_len as u64, sums.as_ref(), sums.is_some());
        let whole = Whole { header_len: header_len_u64, state: &state, source: self, sums, checksums };
        whole.write_to(sink(header_len)?).map(|written| written.place)
    }
}
