//! Reading many single items at once.

use std::ops::Range;

use b2_chunk::memory;

use crate::fetch::{BlocksPlan, Wanted};
use crate::index::Entry;
use crate::plan::drive;
use crate::sizes::ChunkSizes;
use crate::{FrameError, SuperChunk};

/// Items of one chunk that are wanted: first byte of each in the chunk, ascending, and where they go.
struct Group<'a> {
    nchunk: usize,
    starts: Vec<usize>,
    dst: &'a mut [u8],
}

impl SuperChunk {
    /// Decompresses the items with these numbers, in this order; a number may come several times. Only the
    /// blocks that hold them are read and decoded, each once, on the current rayon pool.
    ///
    /// # Errors
    /// When there is no such item, or a chunk cannot be read or does not decode.
    pub fn gather(&self, items: &[u64]) -> Result<Vec<u8>, FrameError> {
        let len = self.nitems();
        if let Some(&bad) = items.iter().find(|item| **item >= len) {
            return Err(FrameError::OutOfRange { what: "items", start: bad, end: bad + 1, len });
        }
        let typesize = self.typesize();
        let total = (items.len() as u64).saturating_mul(typesize as u64);
        self.check_chunks(0..self.nchunks(), total.min(self.nbytes()))?;
        let zeroed = || crate::storage::zeroed(total);
        let mut order = memory::collect(0..items.len())?;
        let number = |at: usize| items.get(at).copied().unwrap_or_default();
        let ascending = items.is_sorted();
        if !ascending {
            order.sort_unstable_by_key(|at| (number(*at), *at));
        }
        let mut sorted = zeroed()?;
        let starts = order.iter().map(|at| number(*at) * typesize as u64);
        let groups = self.groups(starts, &mut sorted)?;
        b2_chunk::parallel::for_each_on(
            self.threads(),
            groups.into_iter(),
            total.saturating_mul(WORTH),
            || Ok(()),
            |(), group| self.gather_group(group),
        )?;
        if ascending {
            return Ok(sorted);
        }
        let mut out = zeroed()?;
        for (at, item) in order.into_iter().zip(sorted.chunks_exact(typesize)) {
            if let Some(slot) = out.get_mut(at * typesize..(at + 1) * typesize) {
                slot.copy_from_slice(item);
            }
        }
        Ok(out)
    }

    /// Items that start at these bytes, ascending, by chunk. Those that lie in two chunks are read at once.
    fn groups<'a>(
        &self,
        starts: impl Iterator<Item = u64>,
        sorted: &'a mut [u8],
    ) -> Result<Vec<Group<'a>>, FrameError> {
        let typesize = self.typesize();
        let chunksize = self.chunksize() as u64;
        let equal = ChunkSizes::default();
        let sizes = if chunksize == 0 && !sorted.is_empty() { self.chunk_sizes()? } else { &equal };
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut rest = sorted;
        let mut chunk = 0..0;
        let mut group: Option<(usize, Vec<usize>)> = None;
        let mut close = |group: Option<(usize, Vec<usize>)>, rest: &mut &'a mut [u8]| {
            let Some((nchunk, starts)) = group else { return Ok(()) };
            if let Some((dst, others)) = std::mem::take(rest).split_at_mut_checked(starts.len() * typesize) {
                memory::push(&mut groups, Group { nchunk, starts, dst })?;
                *rest = others;
            }
            Ok::<_, FrameError>(())
        };
        for start in starts {
            if !chunk.contains(&start) || group.is_none() {
                close(group.take(), &mut rest)?;
                let (nchunk, range) = match start.checked_div(chunksize) {
                    Some(nchunk) => {
                        let first = nchunk * chunksize;
                        (nchunk as usize, first..first.saturating_add(chunksize).min(self.nbytes()))
                    }
                    // Inside the data, as the numbers were checked.
                    None => match sizes.chunk_at(start) {
                        Some((nchunk, range, _)) => (nchunk, range),
                        None => (0, 0..0),
                    },
                };
                chunk = range;
                group = Some((nchunk, Vec::new()));
            }
            if start + typesize as u64 > chunk.end {
                close(group.take(), &mut rest)?;
                if let Some((item, others)) = std::mem::take(&mut rest).split_at_mut_checked(typesize) {
                    self.read_bytes_into(start, item)?;
                    rest = others;
                }
            } else if let Some((_, starts)) = &mut group {
                memory::push(starts, (start - chunk.start) as usize)?;
            }
        }
        close(group, &mut rest)?;
        Ok(groups)
    }

    fn gather_group(&self, group: Group<'_>) -> Result<(), FrameError> {
        let Group { nchunk, starts, dst } = group;
        let typesize = self.typesize();
        let offset = match self.entry(nchunk)? {
            Entry::Stored(offset) => offset,
            Entry::Special(kind) => {
                let mut items = starts.into_iter().zip(dst.chunks_exact_mut(typesize));
                return items.try_for_each(|(start, item)| self.fill_special(nchunk, kind, start, item));
            }
        };
        self.compare_part(nchunk)?;
        let place = self.opened.place(nchunk, offset, &self.dparams)?;
        let wanted = Wanted::Items { starts: starts.clone(), len: typesize };
        let plan = BlocksPlan::stored(place, wanted, self.dparams.clone());
        let stored = drive(plan, &*self.files)?;
        stored.decode(&self.dparams, |nblock, plain| {
            let block = stored.chunk().block_range(nblock);
            let first = starts.partition_point(|start| start + typesize <= block.start);
            let last = starts.partition_point(|start| *start < block.end);
            for at in first..last {
                let start = starts.get(at).copied().unwrap_or_default();
                let both = start.max(block.start)..(start + typesize).min(block.end);
                let to = at * typesize + both.start - start;
                copy(dst, to, plain, both.start - block.start..both.end - block.start);
            }
        })
    }
}

fn copy(dst: &mut [u8], to: usize, src: &[u8], range: Range<usize>) {
    if let (Some(dst), Some(src)) = (dst.get_mut(to..to + range.len()), src.get(range)) {
        dst.copy_from_slice(src);
    }
}

/// Bytes decoded for each byte wanted, as a guess: decides whether threads are worth it.
const WORTH: u64 = 256;
