//! Reads of an array whose bytes the caller fetches in ranges: they return which bytes are needed next, and receive
//! them. For stores that only the caller can access, such as those of Zarr. Nothing here waits for I/O.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use b2_core::Control;
use b2_frame::{
    Destination, Extent, FrameError, FrameFile, FrameFiles, FrameHeader, OpenFile, OpenPlan, Plan, Read,
    ReadOptions, ReadTuning, Request, Step, Storage,
};
use bytes::Bytes;

use crate::read::selected::SelectionRead;
use crate::{NdArray, NdError, Slice};

/// Bytes of a contiguous frame that were fetched, by offset. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct FetchedRanges {
    parts: BTreeMap<u64, Bytes>,
    /// Length of the frame: the one in its header, or less if requests have run past its end.
    len: Option<u64>,
}

impl FetchedRanges {
    /// Stores the response to a request for `range`, which is shorter if the frame ends before the range does.
    pub fn put(&mut self, range: Range<u64>, bytes: Bytes) {
        let end = range.start.saturating_add(bytes.len() as u64);
        if end < range.end {
            self.len = Some(self.len.map_or(end, |len| len.min(end)));
        }
        let longer = self.parts.get(&range.start).is_none_or(|before| before.len() < bytes.len());
        if longer {
            self.parts.insert(range.start, bytes);
        }
    }

    /// Returns how many bytes were fetched.
    pub fn nbytes(&self) -> usize {
        self.parts.values().fold(0, |sum, part| sum.saturating_add(part.len()))
    }

    /// Returns the bytes of an extent, or the range of them that has to be fetched: its end, if the start was.
    fn get(&self, extent: &Extent) -> Result<Result<Bytes, Range<u64>>, FrameError> {
        let Range { mut start, end } = match self.len {
            Some(len) => extent.within(len)?,
            None => extent.range.clone(),
        };
        // The bytes that follow it in the part that extends the furthest.
        let rest = |at: u64| {
            let from = |start: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            let parts = self.parts.range(..=at).filter(|(start, part)| from(**start) < part.len());
            parts.map(|(start, part)| part.slice(from(*start)..)).max_by_key(Bytes::len)
        };
        let mut found = Vec::new();
        while start < end {
            let Some(mut part) = rest(start) else { return Ok(Err(start..end)) };
            part.truncate(usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX));
            start = start.saturating_add(part.len() as u64);
            found.push(part);
        }
        Ok(Ok(match &found[..] {
            [part] => part.clone(),
            parts => parts.concat().into(),
        }))
    }
}

/// No files: everything is read through plans.
#[derive(Debug)]
pub struct NoLocalFiles;

impl FrameFiles for NoLocalFiles {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        Err(FrameError::argument("frame", "its bytes are fetched by ranges"))
    }
}

/// Opens an array in a contiguous frame that is fetched in ranges.
#[derive(Debug)]
pub struct RangedOpening {
    options: ReadOptions,
    fetched: FetchedRanges,
    /// The last bytes of the frame, kept here until its length is known.
    end: Bytes,
    state: State,
}

#[derive(Debug)]
enum State {
    Start,
    Plan(Box<OpenPlan>, Vec<Extent>),
    Open(NdArray),
}

impl RangedOpening {
    /// Ranges with larger gaps are fetched separately, at the same time. Stores serve several requests in the time of one,
    /// but the bytes in a gap cost transfer time.
    pub const TUNING: ReadTuning = ReadTuning::LOCAL.head_len(0).coalesce_max(4 << 20);

    /// Begins with the first bytes of the frame, of which `asked` were requested, and its last ones, if they are known:
    /// they contain the checksums. The tuning of the options is replaced by [`TUNING`](Self::TUNING).
    pub fn new(options: ReadOptions, asked: u64, first: Bytes, end: Bytes) -> Self {
        let mut fetched = FetchedRanges::default();
        fetched.put(0..asked, first);
        Self { options: options.tuning(Self::TUNING), fetched, end, state: State::Start }
    }

    /// Starts from an open array, such as a [`lone_chunk`](NdArray::lone_chunk).
    pub fn opened_array(array: NdArray) -> Self {
        let options = ReadOptions::default();
        Self { options, fetched: FetchedRanges::default(), end: Bytes::new(), state: State::Open(array) }
    }

    /// Stores the response to a request for `range`, which is shorter if the frame ends before the range does.
    pub fn put(&mut self, range: Range<u64>, bytes: Bytes) {
        self.fetched.put(range, bytes);
    }

    /// Returns what was fetched.
    pub fn fetched(&self) -> &FetchedRanges {
        &self.fetched
    }

    /// Returns the array once it is open.
    pub fn array(&self) -> Option<&NdArray> {
        match &self.state {
            State::Open(array) => Some(array),
            _ => None,
        }
    }

    /// Continues with the bytes fetched so far. Returns the ranges that are missing, or none once the array is open.
    ///
    /// # Errors
    /// When this is not an array, or its bytes are inconsistent.
    pub fn step(&mut self) -> Result<Vec<Range<u64>>, NdError> {
        let (mut plan, mut wanted) = match std::mem::replace(&mut self.state, State::Start) {
            State::Start => {
                let start = self.fetched.parts.get(&0).cloned().unwrap_or_default();
                let len = match self.fetched.len {
                    Some(len) => len,
                    None => FrameHeader::parse(&start)?.frame_len(),
                };
                self.fetched.len = Some(len);
                let end = std::mem::take(&mut self.end);
                if let Some(at) = len.checked_sub(end.len() as u64) {
                    self.fetched.put(at..len, end);
                }
                let plan = self.options.open_plan(len, Storage::Contiguous).first(start.len() as u64);
                let mut plan = Box::new(plan);
                match plan.step(Vec::new())? {
                    Step::Need(wanted) => (plan, wanted),
                    Step::Done(opened) => return self.opened(opened),
                }
            }
            State::Plan(plan, wanted) => (plan, wanted),
            open @ State::Open(_) => {
                self.state = open;
                return Ok(Vec::new());
            }
        };
        loop {
            let mut missing = Vec::new();
            let mut answers = Vec::with_capacity(wanted.len());
            for extent in &wanted {
                match self.fetched.get(extent)? {
                    Ok(bytes) => answers.push(bytes),
                    Err(range) => add(&mut missing, range),
                }
            }
            if !missing.is_empty() {
                self.state = State::Plan(plan, wanted);
                return Ok(missing);
            }
            match plan.step(answers)? {
                Step::Need(more) => wanted = more,
                Step::Done(opened) => return self.opened(opened),
            }
        }
    }

    fn opened(&mut self, opened: b2_frame::OpenedFrame) -> Result<Vec<Range<u64>>, NdError> {
        let frame = self.options.opened(opened, Arc::new(NoLocalFiles));
        self.state = State::Open(NdArray::from_super_chunk(frame)?);
        Ok(Vec::new())
    }
}

/// Adds a range, once.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    if !ranges.contains(&range) {
        ranges.push(range);
    }
}

/// A selection that is read from fetched ranges.
#[derive(Debug)]
pub struct RangedRead<'d> {
    /// `None` once nothing is left to read.
    read: Option<Read<'d, SelectionRead>>,
    waiting: Vec<Request>,
}

impl<'d> RangedRead<'d> {
    /// Begins to read the stored items of a view in C order, like [`Slice::begin`].
    ///
    /// # Errors
    /// As for [`Slice::begin`].
    pub fn new(slice: &Slice, destination: impl Into<Destination<'d>>) -> Result<Self, NdError> {
        Ok(Self { read: slice.begin(destination)?, waiting: Vec::new() })
    }

    /// Decodes what was fetched, on the threads that `control` allows. Returns the ranges that are missing, or none when
    /// everything was decoded.
    ///
    /// # Errors
    /// When the bytes are damaged, or the call was cancelled.
    pub fn step(&mut self, fetched: &FetchedRanges, control: &Control) -> Result<Vec<Range<u64>>, NdError> {
        let Some(read) = &mut self.read else { return Ok(Vec::new()) };
        loop {
            while let Some(request) = read.need()? {
                self.waiting.push(request);
            }
            let before = self.waiting.len();
            let (mut still, mut missing) = (Vec::new(), Vec::new());
            for request in self.waiting.drain(..) {
                match fetched.get(&request.extent)? {
                    Ok(bytes) => read.put(request.id, bytes)?,
                    Err(range) => {
                        still.push(request);
                        add(&mut missing, range);
                    }
                }
            }
            self.waiting = still;
            let jobs: Vec<_> = std::iter::from_fn(|| read.job()).collect();
            let work = jobs.iter().fold(0u64, |sum, job| sum.saturating_add(job.work()));
            let done = |(): &mut (), job: b2_frame::Job<'d, SelectionRead>| {
                let work = job.work();
                job.run()?;
                control.advance(work).map_err(NdError::from)
            };
            b2_core::for_each(control, read.workers(), jobs.into_iter(), work, || Ok(()), done)?;
            if self.waiting.len() == before {
                return Ok(missing);
            }
        }
    }

    /// Ends the read, after a [`step`](Self::step) that returned no ranges.
    ///
    /// # Errors
    /// When the read is not complete.
    pub fn finish(&mut self) -> Result<(), NdError> {
        match self.read.take() {
            Some(read) => read.finish().map(drop),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use b2_frame::SuperChunk;

    use super::*;
    use crate::{ArrayBuilder, source};

    #[test]
    fn a_box_is_read_from_ranges() {
        let item = |i: usize| (i * 40503 % 65521) as u16;
        let store = ArrayBuilder::new::<u16>([300, 200])
            .blocks([20, 30])
            .to_bytes(source::by_index(move |i| item(i as usize)))
            .unwrap();
        let fetch = |range: &Range<u64>| store.slice(range.start as usize..range.end as usize);

        let mut opening = RangedOpening::new(SuperChunk::options(), 100, fetch(&(0..100)), Bytes::new());
        loop {
            let missing = opening.step().unwrap();
            if missing.is_empty() {
                break;
            }
            missing.iter().for_each(|range| opening.put(range.clone(), fetch(range)));
        }
        let slice = opening.array().unwrap().slice([250..251, 7..9]).unwrap();
        let (mut items, mut fetched) = ([0; 4], opening.fetched().clone());
        let mut read = RangedRead::new(&slice, &mut items[..]).unwrap();
        loop {
            let missing = read.step(&fetched, &Control::new()).unwrap();
            if missing.is_empty() {
                break;
            }
            missing.iter().for_each(|range| fetched.put(range.clone(), fetch(range)));
        }
        read.finish().unwrap();
        drop(read);
        assert_eq!(items, [item(50007).to_le_bytes(), item(50008).to_le_bytes()].concat()[..]);
        assert!(fetched.nbytes() < store.len() / 2);
    }
}
