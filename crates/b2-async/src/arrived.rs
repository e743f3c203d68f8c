//! Bytes that have been fetched, as files for calls that read synchronously.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use b2_frame::{Extent, FrameError, FrameFile, FrameFiles, OpenFile, ReadAt};
use bytes::Bytes;

/// Holds fetched ranges. Reading others fails, and notes what is missing.
pub(crate) struct Arrived {
    state: Mutex<State>,
    /// Length of the main file from the start of the frame.
    len: u64,
}

#[derive(Default)]
struct State {
    /// For each file, ranges by their start, with their end and bytes. The bytes are fewer if the
    /// file ends before the range does.
    files: HashMap<FrameFile, BTreeMap<u64, (u64, Bytes)>>,
    missing: Vec<Extent>,
}

impl Arrived {
    pub(crate) fn new(len: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), len })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, extent: &Extent, bytes: Bytes) {
        let mut state = self.lock();
        let file = state.files.entry(extent.file).or_default();
        let Range { start, end } = extent.range;
        // The same start may be asked for with different lengths.
        if file.get(&start).is_none_or(|(known, _)| *known < end) {
            file.insert(start, (end, bytes));
        }
    }

    /// Returns what calls have missed since the last time.
    pub(crate) fn missing(&self) -> Vec<Extent> {
        std::mem::take(&mut self.lock().missing)
    }

    fn find(&self, extent: &Extent) -> Option<Bytes> {
        let state = self.lock();
        let (Range { start, end }, file) = (&extent.range, state.files.get(&extent.file)?);
        file.range(..=start).rev().take(8).find(|(_, (known, _))| known >= end).map(|(at, (_, bytes))| {
            let index = |offset: u64| usize::try_from(offset.saturating_sub(*at)).unwrap_or(usize::MAX);
            let (from, to) = (index(*start).min(bytes.len()), index(*end).min(bytes.len()));
            bytes.slice(from..to)
        })
    }
}

/// The files of a frame as far as they have arrived.
pub(crate) struct ArrivedFiles(pub(crate) Arc<Arrived>);

impl FrameFiles for ArrivedFiles {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(Arc::new(ArrivedFile(self.0.clone(), file)), "what has arrived", 0)
    }

    /// Makes sure that all extents of a step are noted as missing at once.
    fn in_flight(&self) -> usize {
        2
    }

    fn read_all(&self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        let found: Vec<Option<Bytes>> = extents.iter().map(|extent| self.0.find(extent)).collect();
        let absent = extents.iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<Extent> = absent.map(|(extent, _)| extent.clone()).collect();
        if missing.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        self.0.lock().missing.extend(missing);
        Err(FrameError::Io { name: String::new(), source: io::ErrorKind::WouldBlock.into() })
    }
}

struct ArrivedFile(Arc<Arrived>, FrameFile);

impl ReadAt for ArrivedFile {
    fn len(&self) -> io::Result<u64> {
        // The files of chunks may have any length.
        Ok(if self.1 == FrameFile::Main { self.0.len } else { u64::MAX })
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.read_at(offset..offset.saturating_add(buf.len() as u64))?;
        match bytes.len() == buf.len() {
            true => buf.copy_from_slice(&bytes),
            false => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let extent = Extent::at_most(self.1, range);
        self.0.find(&extent).ok_or_else(|| {
            self.0.lock().missing.push(extent);
            io::ErrorKind::WouldBlock.into()
        })
    }
}
