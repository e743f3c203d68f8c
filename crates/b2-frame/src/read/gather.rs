//! Reads many single items at once.

use std::ops::Range;

use b2_core::memory;

use crate::format::index::Entry;
use crate::read::fetch::Wanted;
use crate::read::sizes::ChunkSizes;
use crate::{FrameError, SuperChunk};

/// Items of one chunk to read: the offset of each in the chunk (ascending), and their destination.
struct Group<'a> {
    nchunk: usize,
    starts: Vec<usize>,
    dst: &'a mut [u8],
}

impl SuperChunk {
    /// Decompresses the items with these numbers, in this order. Numbers may repeat. Only the
    /// blocks that hold the items are read and decoded, each once, on the current rayon pool.
    ///
    /// # Errors
    /// When an item does not exist, or a chunk cannot be read or does not decode.
    pub fn gather(&self, items: &[u64]) -> Result<Vec<u8>, FrameError> {
        self.check_items(items)?;
        let typesize = self.typesize();
        let total = (items.len() as u64).saturating_mul(typesize as u64);
        let zeroed = || crate::storage::traits::zeroed(total);
        let mut order = memory::collect(0..items.len())?;
        let number = |at: usize| items.get(at).copied().unwrap_or_default();
        let ascending = items.is_sorted();
        if !ascending {
            order.sort_unstable_by_key(|at| (number(*at), *at));
        }
        let mut sorted = zeroed()?;
        let starts = order.iter().map(|at| number(*at) * typesize as u64);
        let (control, frame) = &self.begin(total);
        let groups = frame.groups(starts, &mut sorted)?;
        // Items that span two chunks have already been read by `groups`.
        let grouped = groups.iter().map(|group| group.dst.len() as u64).sum();
        control.advance(total.saturating_sub(grouped))?;
        b2_core::for_each(
            control,
            self.threads(),
            groups.into_iter(),
            total.saturating_mul(WORTH),
            || Ok(()),
            |(), group| {
                let nbytes = group.dst.len();
                frame.gather_group(group)?;
                control.advance(nbytes as u64).map_err(FrameError::from)
            },
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

    /// Makes the checks of [`gather`](Self::gather).
    #[doc(hidden)]
    pub fn check_items(&self, items: &[u64]) -> Result<(), FrameError> {
        let len = self.nitems();
        if let Some(&bad) = items.iter().find(|item| **item >= len) {
            return Err(FrameError::OutOfRange { what: "items", start: bad, end: bad + 1, len });
        }
        let total = (items.len() as u64).saturating_mul(self.typesize() as u64);
        self.check_chunks(0..self.nchunks(), total.min(self.nbytes()))
    }

    /// Groups items, given by their ascending offsets, by chunk. Items that span two chunks are
    /// read immediately.
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
                    // The item numbers were checked, so the offset is inside the data.
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
        if let Entry::Special(kind) = self.entry(nchunk)? {
            let mut items = starts.into_iter().zip(dst.chunks_exact_mut(typesize));
            return items.try_for_each(|(start, item)| self.fill_special(nchunk, kind, start, item));
        }
        let wanted = Wanted::Items { starts: starts.clone(), len: typesize };
        let stored =
            self.driver().run(self.plan_blocks(nchunk, wanted)?).map_err(|error| self.explain(error))?;
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

/// Estimated number of decoded bytes per requested byte, which decides whether threads are
/// worthwhile.
const WORTH: u64 = 256;
