//! Writing a state as a whole new frame: for frames that are or become empty, and to get rid of dead space.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::edit::state::State;
use crate::index::{self, Entry};
use crate::sink::{FileSink, Sink};
use crate::staging::{Staged, Target};
use crate::storage::WriteAt;
use crate::{FrameError, SuperChunk, trailer};

/// A frame that was written.
pub(crate) struct Rewritten<T> {
    pub(crate) place: T,
    pub(crate) header: Bytes,
    pub(crate) entries: Vec<i64>,
    /// Of the frame, in bytes.
    pub(crate) len: u64,
}

/// A frame to be written.
pub(crate) struct Whole<'a> {
    pub(crate) header_len: u64,
    pub(crate) state: &'a State,
    /// A snapshot of that state.
    pub(crate) source: &'a SuperChunk,
}

impl Whole<'_> {
    pub(crate) fn memory(&self) -> Result<Rewritten<Bytes>, FrameError> {
        let mut sink = Sink::Memory(vec![0; self.header_len as usize]);
        let entries = self.chunks(&mut sink)?;
        let (header, tail, len) = self.ends(&sink, &entries)?;
        Ok(Rewritten { place: sink.finish(&header, &tail)?, header, entries, len })
    }

    /// Returns the file, which is at `path` now.
    pub(crate) fn disk(
        &self,
        target: Target,
        path: &Path,
        before_rename: impl FnOnce() -> Result<u64, FrameError>,
    ) -> Result<Rewritten<Arc<dyn WriteAt>>, FrameError> {
        let (staged, file) = Staged::file(target, path)?;
        let mut sink = Sink::File(FileSink::new(staged, file.clone(), self.header_len as usize));
        let entries = self.chunks(&mut sink)?;
        let (header, tail, len) = self.ends(&sink, &entries)?;
        before_rename()?;
        sink.finish(&header, &tail)?;
        Ok(Rewritten { place: file, header, entries, len })
    }

    /// Copies the chunks in order. Two entries that share a chunk get one each.
    fn chunks(&self, sink: &mut Sink) -> Result<Vec<i64>, FrameError> {
        let mut entries = Vec::with_capacity(self.state.nchunks());
        for (nchunk, raw) in self.state.entries.iter().enumerate() {
            entries.push(match Entry::from_raw(*raw) {
                Some(Entry::Stored(_)) => {
                    let chunk = self.source.chunk(nchunk)?;
                    Entry::Stored(sink.append(chunk.as_bytes(), self.header_len)?).to_raw()
                }
                _ => *raw,
            });
        }
        Ok(entries)
    }

    fn ends(&self, sink: &Sink, entries: &[i64]) -> Result<(Bytes, Vec<u8>, u64), FrameError> {
        let mut tail = Vec::new();
        if self.state.nbytes > 0 {
            tail.extend_from_slice(index::encode(entries)?.as_bytes());
        }
        tail.extend_from_slice(&trailer::encode(&self.state.vlmetalayers)?);
        let cbytes = sink.cbytes(self.header_len);
        let frame_len = sink.index_at(self.header_len) + tail.len() as u64;
        Ok((self.state.encode_header(cbytes, frame_len), tail, frame_len))
    }
}
