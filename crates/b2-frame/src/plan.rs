//! Reading without doing I/O: a plan says which bytes of which file it needs, a driver fetches them, and so
//! on until the plan is done. The driver here fetches synchronously; an asynchronous one runs the same plans.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::ops::Range;
use std::sync::Arc;

use b2_chunk::memory::{self, OutOfMemory};
use bytes::Bytes;

use crate::storage::ReadAt;
use crate::{FrameError, Structure};

/// One of the files that a frame consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameFile {
    /// The contiguous frame itself, or the index file of a sparse frame.
    Main,
    /// The chunk file with this id (sparse frames).
    Chunk(u32),
}

/// Bytes that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// In which file.
    pub file: FrameFile,
    /// Which bytes of it, from the frame's start.
    pub range: Range<u64>,
    /// If the file ends inside or before the range: whether the bytes there are will do.
    pub or_less: bool,
}

impl Extent {
    /// Exactly these bytes.
    pub fn exactly(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: false }
    }

    /// These bytes, or as many of them as the file has.
    pub fn at_most(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: true }
    }
}

/// A computation that asks for bytes instead of reading them.
pub trait Plan {
    /// What it computes.
    type Output;

    /// Goes on with the bytes asked for: `parts` answers the last [`Step::Need`] in order, and is empty on
    /// the first call.
    ///
    /// # Errors
    /// When the bytes are not what the format allows. The plan is of no use afterwards.
    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Self::Output>, FrameError>;
}

/// What a [`Plan`] answers.
#[derive(Clone, Debug)]
pub enum Step<T> {
    /// Fetch these and call again.
    Need(Vec<Extent>),
    /// Done.
    Done(T),
}

/// The files of one frame.
pub trait FrameFiles: Send + Sync {
    /// Opens one of them for reading.
    ///
    /// # Errors
    /// [`FrameError::Io`] or [`FrameError::NotRegular`], with the file's name.
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError>;
}

/// A file of a frame, open for reading.
#[derive(Clone)]
pub struct OpenFile {
    file: Arc<dyn ReadAt>,
    name: Arc<str>,
    base: u64,
    len: u64,
}

impl OpenFile {
    /// A frame's file: what `file` holds from byte `base` on. Its length is taken now; `name` is for errors.
    ///
    /// # Errors
    /// [`FrameError::Io`] if there is no length to be had, [`FrameError::OutOfRange`] if `base` is behind the
    /// end.
    pub fn new(file: Arc<dyn ReadAt>, name: impl Into<Arc<str>>, base: u64) -> Result<Self, FrameError> {
        let name = name.into();
        let len = file.len().map_err(FrameError::io(&*name))?;
        let Some(len) = len.checked_sub(base) else {
            return Err(FrameError::OutOfRange { what: "file bytes", start: base, end: base, len });
        };
        Ok(Self { file, name, base, len })
    }

    /// Bytes from the frame's start to the end of the file.
    #[allow(clippy::len_without_is_empty, reason = "a length to compare with, not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What it is read from, whatever the offset of the frame in it.
    pub(crate) fn storage(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// The file's name, for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of an extent.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the file is too short, [`FrameError::Io`] if it cannot be read.
    pub fn read(&self, extent: &Extent) -> Result<Bytes, FrameError> {
        let Range { start, mut end } = extent.range;
        if end > self.len {
            if !extent.or_less {
                let have = self.len.saturating_sub(start);
                let structure = match extent.file {
                    FrameFile::Main => Structure::Frame,
                    FrameFile::Chunk(id) => Structure::ChunkFile(id),
                };
                return Err(FrameError::Truncated { structure, offset: start, need: end - start, have });
            }
            end = self.len;
        }
        if start >= end {
            return Ok(Bytes::new());
        }
        // Both are inside the file, whose length is `base` more.
        self.file.read_at(self.base + start..self.base + end).map_err(FrameError::io(&*self.name))
    }
}

/// Runs a plan to its end with positioned reads, one after the other, on the calling thread.
///
/// # Errors
/// What the plan or the files answer.
pub fn drive<P: Plan>(mut plan: P, files: &dyn FrameFiles) -> Result<P::Output, FrameError> {
    // Steps of one plan mostly read the same file.
    let mut open: Option<(FrameFile, OpenFile)> = None;
    let mut parts = Vec::new();
    loop {
        let extents = match plan.step(parts)? {
            Step::Done(output) => return Ok(output),
            Step::Need(extents) => extents,
        };
        parts = memory::list(extents.len())?;
        for extent in &extents {
            let file = match &open {
                Some((name, file)) if *name == extent.file => file,
                _ => &open.insert((extent.file, files.open(extent.file)?)).1,
            };
            parts.push(file.read(extent)?);
        }
    }
}

/// Ranges to read such that a list of wanted ranges lies inside them: neighbours become one read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coalesced {
    /// The ranges to read, in ascending order.
    pub(crate) reads: Vec<Range<u64>>,
    /// For each wanted range: which read holds it, and where in it.
    places: Vec<(usize, Range<u64>)>,
}

impl Coalesced {
    /// Joins ranges that are at most `gap` bytes apart.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new(wanted: &[Range<u64>], gap: u64) -> Result<Self, OutOfMemory> {
        let mut order = memory::collect(0..wanted.len())?;
        if !wanted.is_sorted_by_key(|range| range.start) {
            order.sort_unstable_by_key(|&i| (wanted.get(i).map_or(0, |range| range.start), i));
        }
        let mut reads: Vec<Range<u64>> = Vec::new();
        let mut places = memory::collect(wanted.iter().map(|_| (0, 0..0)))?;
        for i in order {
            let (Some(range), Some(place)) = (wanted.get(i), places.get_mut(i)) else { continue };
            if range.is_empty() {
                continue;
            }
            match reads.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(gap) => {
                    last.end = last.end.max(range.end);
                }
                _ => memory::push(&mut reads, range.clone())?,
            }
            let start = reads.last().map_or(0, |last| last.start);
            *place = (reads.len() - 1, range.start - start..range.end - start);
        }
        Ok(Self { reads, places })
    }

    /// The bytes of wanted range `i`, given the answers to `reads`.
    pub(crate) fn pick(&self, parts: &[Bytes], i: usize) -> Bytes {
        let place = self.places.get(i).and_then(|(read, range)| {
            let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
            let part = parts.get(*read)?;
            part.get(range.clone())?;
            Some(part.slice(range))
        });
        place.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn check(wanted: &[Range<u64>], gap: u64, reads: &[Range<u64>]) {
        let file: Vec<u8> = (0..200).collect();
        let coalesced = Coalesced::new(wanted, gap).unwrap();
        assert_eq!(coalesced.reads, reads, "{wanted:?}");
        let parts: Vec<Bytes> =
            reads.iter().map(|r| Bytes::copy_from_slice(&file[r.start as usize..r.end as usize])).collect();
        for (i, range) in wanted.iter().enumerate() {
            assert_eq!(
                coalesced.pick(&parts, i),
                file[range.start as usize..range.end as usize],
                "{range:?}"
            );
        }
    }

    #[test]
    fn neighbours_are_read_at_once() {
        check(&[], 0, &[]);
        check(&[5..5, 3..7], 0, slice::from_ref(&(3..7)));
        check(&[3..7, 7..9], 0, slice::from_ref(&(3..9)));
        check(&[3..7, 8..9], 0, &[3..7, 8..9]);
        check(&[3..7, 8..9, 20..30], 1, &[3..9, 20..30]);
        // Any order, overlaps, repetitions, empty ranges.
        check(&[20..30, 3..7, 25..40, 3..7, 5..5, 22..23], 4, &[3..7, 20..40]);
        check(&[0..100, 10..20, 90..120], 0, slice::from_ref(&(0..120)));
    }
}
