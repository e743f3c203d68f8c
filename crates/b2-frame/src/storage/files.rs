//! The open files of a frame, and requests for ranges of their bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use b2_core::memory;
use bytes::Bytes;

use crate::names::FrameFile;
use crate::storage::traits::ReadAt;
use crate::{FrameError, Structure};

/// A range of bytes that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The file.
    pub file: FrameFile,
    /// The bytes of the file, counted from the start of the frame.
    pub range: Range<u64>,
    /// Whether a shorter result is acceptable if the file ends inside or before the range.
    pub or_less: bool,
}

impl Extent {
    /// Requests exactly these bytes.
    pub fn exactly(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: false }
    }

    /// Requests these bytes, or as many of them as the file has.
    pub fn at_most(file: FrameFile, range: Range<u64>) -> Self {
        Self { file, range, or_less: true }
    }
}

/// Opens the files of one frame.
pub trait FrameFiles: Send + Sync {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`FrameError::Io`] or [`FrameError::NotRegular`] with the name of the file.
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError>;

    /// Returns how many reads should be in flight at once, see [`ReadAt::in_flight`].
    fn in_flight(&self) -> usize {
        1
    }

    /// Reads extents together, and returns their bytes in the given order. The default opens each
    /// file and reads from it, [`in_flight`](Self::in_flight) at once.
    ///
    /// # Errors
    /// The first error in the given order.
    fn read_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        read_together(extents, self.in_flight(), |extent| self.open(extent.file)?.read(extent))
    }
}

/// Reads extents on up to `most` threads, which mostly wait.
fn read_together(
    extents: &[Extent],
    most: usize,
    read: impl Fn(&Extent) -> Result<Bytes, FrameError> + Sync,
) -> Result<Vec<Bytes>, FrameError> {
    let next = AtomicUsize::new(0);
    let mut parts = memory::list(extents.len())?;
    let work = || {
        let mut mine = Vec::new();
        while let Some((at, extent)) = claim(&next, extents) {
            let answer = read(extent);
            let failed = answer.is_err();
            mine.push((at, answer));
            if failed {
                // Others need not begin.
                next.store(extents.len(), Ordering::Relaxed);
            }
        }
        mine
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..most.min(extents.len()))
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        parts.extend(work());
        for helper in helpers {
            match helper.join() {
                Ok(mine) => parts.extend(mine),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().map(|(_, answer)| answer).collect()
}

fn claim<'a>(next: &AtomicUsize, extents: &'a [Extent]) -> Option<(usize, &'a Extent)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    extents.get(at).map(|extent| (at, extent))
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
    /// Creates the file from what `file` holds from byte `base` on. Its length is read now; `name`
    /// appears in errors.
    ///
    /// # Errors
    /// [`FrameError::Io`] if the length cannot be read, [`FrameError::OutOfRange`] if `base` is
    /// beyond the end.
    pub fn new(file: Arc<dyn ReadAt>, name: impl Into<Arc<str>>, base: u64) -> Result<Self, FrameError> {
        let name = name.into();
        let len = file.len().map_err(FrameError::io(&*name))?;
        let Some(len) = len.checked_sub(base) else {
            return Err(FrameError::OutOfRange { what: "file bytes", start: base, end: base, len });
        };
        Ok(Self { file, name, base, len })
    }

    /// Returns the number of bytes from the start of the frame to the end of the file.
    #[allow(clippy::len_without_is_empty, reason = "a length to compare with, not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns how many reads should be in flight at once, see [`ReadAt::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.file.in_flight()
    }

    /// Returns the underlying storage, in which the frame may have an offset.
    pub(crate) fn storage(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// Returns whether the frame starts where the file does.
    pub(crate) fn is_whole(&self) -> bool {
        self.base == 0
    }

    /// Returns the name of the file for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the bytes of an extent.
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
        // The range is inside the file, whose length is at least `base` + `end`.
        self.file.read_at(self.base + start..self.base + end).map_err(FrameError::io(&*self.name))
    }
}
