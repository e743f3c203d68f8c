//! Reading without I/O: a plan requests ranges of bytes, a driver fetches them, and this repeats
//! until the plan is done. This module's driver is synchronous; an asynchronous driver can run the
//! same plans.

use std::ops::Range;

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

use crate::FrameError;
use crate::names::FrameFile;
use crate::storage::files::{Extent, FrameFiles, OpenFile};

/// A computation that requests bytes instead of reading them.
pub trait Plan {
    /// The result of the plan.
    type Output;

    /// Continues with the requested bytes. `parts` answers the last [`Step::Need`] in order, and is
    /// empty on the first call.
    ///
    /// # Errors
    /// When the bytes violate the format. The plan is unusable afterwards.
    fn step(&mut self, parts: Vec<Bytes>) -> Result<Step<Self::Output>, FrameError>;
}

/// The result of one step of a [`Plan`].
#[derive(Clone, Debug)]
pub enum Step<T> {
    /// Fetch these extents and call again.
    Need(Vec<Extent>),
    /// The plan has ended with this result.
    Done(T),
}

/// Returns the error for a plan that is continued after its end.
pub(crate) fn ended() -> FrameError {
    FrameError::argument("plan", "has ended")
}

/// Runs a plan to its end with positioned reads, one after the other, on the calling thread.
///
/// # Errors
/// Any error of the plan or the files.
pub fn drive<P: Plan>(plan: P, files: &dyn FrameFiles) -> Result<P::Output, FrameError> {
    Driver::new(files).run(plan)
}

/// Fetches the bytes that plans request with positioned reads, one after the other, on the calling
/// thread. The most recently used files stay open, since the steps of a plan, and plans for parts
/// of one chunk, usually read the same files.
pub(crate) struct Driver<'a> {
    files: &'a dyn FrameFiles,
    main: Option<OpenFile>,
    chunk: Option<(FrameFile, OpenFile)>,
    guarded: bool,
}

impl<'a> Driver<'a> {
    /// Creates a driver without open files.
    pub(crate) fn new(files: &'a dyn FrameFiles) -> Self {
        Self { files, main: None, chunk: None, guarded: true }
    }

    /// Sets whether each read checks the guard of the frame. Otherwise the caller checks it after the last one
    /// ([`SuperChunk::check_guard`](crate::SuperChunk::check_guard)).
    pub(crate) fn guarded(self, guarded: bool) -> Self {
        Self { guarded, ..self }
    }

    /// Returns a file, opening it if it is not open yet.
    ///
    /// # Errors
    /// As for [`FrameFiles::open`].
    pub(crate) fn file(&mut self, file: FrameFile) -> Result<&OpenFile, FrameError> {
        if file == FrameFile::Main {
            return match &mut self.main {
                Some(main) => Ok(main),
                none => Ok(none.insert(self.files.open(file)?)),
            };
        }
        if self.chunk.as_ref().is_none_or(|(name, _)| *name != file) {
            self.chunk = None;
        }
        match &mut self.chunk {
            Some((_, chunk)) => Ok(chunk),
            none => Ok(&none.insert((file, self.files.open(file)?)).1),
        }
    }

    /// Reads extents in the given order.
    ///
    /// # Errors
    /// When an extent cannot be read.
    pub(crate) fn read(&mut self, extents: &[Extent]) -> Result<Vec<Bytes>, FrameError> {
        if extents.len() > 1 && self.files.in_flight() > 1 {
            return self.files.read_all(extents);
        }
        let mut parts = memory::list(extents.len())?;
        for extent in extents {
            let guarded = self.guarded;
            let file = self.file(extent.file)?;
            parts.push(if guarded { file.read(extent)? } else { file.read_unguarded(extent)? });
        }
        Ok(parts)
    }

    /// Runs several plans to their ends, all one step at a time, so that their requests are in flight concurrently. The
    /// results include errors of single plans.
    ///
    /// # Errors
    /// Any error of the files, or when there is not enough memory.
    pub(crate) fn run_all<P: Plan>(
        &mut self,
        plans: Vec<P>,
    ) -> Result<Vec<Result<P::Output, FrameError>>, FrameError> {
        let mut results = memory::list(plans.len())?;
        let mut running = memory::collect(plans.into_iter().enumerate().map(|(i, plan)| (i, plan, 0)))?;
        let mut answers = Vec::new();
        while !running.is_empty() {
            let mut parts = answers.into_iter();
            let mut extents = Vec::new();
            let mut waiting = memory::list(running.len())?;
            for (i, mut plan, count) in running {
                match plan.step(parts.by_ref().take(count).collect()) {
                    Ok(Step::Need(need)) => {
                        waiting.push((i, plan, need.len()));
                        for extent in need {
                            memory::push(&mut extents, extent)?;
                        }
                    }
                    Ok(Step::Done(output)) => results.extend([(i, Ok(output))]),
                    Err(error) => results.extend([(i, Err(error))]),
                }
            }
            answers = self.read(&extents)?;
            running = waiting;
        }
        results.sort_unstable_by_key(|(i, _)| *i);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Runs a plan to its end.
    ///
    /// # Errors
    /// Any error of the plan or the files.
    pub(crate) fn run<P: Plan>(&mut self, mut plan: P) -> Result<P::Output, FrameError> {
        let mut parts = Vec::new();
        loop {
            match plan.step(parts)? {
                Step::Done(output) => return Ok(output),
                Step::Need(extents) => parts = self.read(&extents)?,
            }
        }
    }
}

/// Ranges to read for a list of wanted ranges; neighbours are joined to one read.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoalescedRanges {
    /// The ranges to read, in ascending order.
    pub(crate) reads: Vec<Range<u64>>,
    /// For each wanted range, the read that contains it and its range in that read.
    places: Vec<(usize, Range<u64>)>,
}

impl CoalescedRanges {
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

    /// Returns the bytes of wanted range `i`, given the answers to `reads`.
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
        let coalesced = CoalescedRanges::new(wanted, gap).unwrap();
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
        // Any order, overlaps, repetitions and empty ranges.
        check(&[20..30, 3..7, 25..40, 3..7, 5..5, 22..23], 4, &[3..7, 20..40]);
        check(&[0..100, 10..20, 90..120], 0, slice::from_ref(&(0..120)));
    }
}
