//! Groups of blocks of one chunk that are read at once and can be decoded in any order.

use std::ops::Range;

use crate::read::head::ChunkHead;
use crate::storage::files::Extent;
use crate::{ReadCosts, SuperChunk};

impl SuperChunk {
    /// Returns the read costs, which decide what is read at once.
    pub fn costs(&self) -> &ReadCosts {
        &self.costs
    }

    /// Sets the read costs, which decide what is read at once.
    #[must_use]
    pub fn with_costs(self, costs: ReadCosts) -> Self {
        Self { costs, ..self }
    }
}

impl ChunkHead {
    /// Divides a list of blocks into groups of neighbours in the file, to be read at once.
    pub(crate) fn groups<'a>(&'a self, nblocks: &'a [usize], costs: &ReadCosts) -> Groups<'a> {
        Groups { head: self, rest: nblocks, gap: costs.gap, at_once: costs.at_once }
    }

    /// Returns the part of the chunk that is needed for a block, whether it was read or not.
    fn extent(&self, nblock: usize) -> Range<u64> {
        let extent = self.span(nblock);
        extent.start as u64..extent.end as u64
    }
}

/// Blocks to be read at once. Returned by [`ChunkHead::groups`].
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    nblocks: &'a [usize],
    extent: Option<Extent>,
}

impl<'a> Group<'a> {
    /// Returns the numbers of the blocks.
    pub(crate) fn nblocks(&self) -> &'a [usize] {
        self.nblocks
    }

    /// Returns the range to read, or `None` if the blocks came with the head.
    pub(crate) fn extent(&self) -> &Option<Extent> {
        &self.extent
    }
}

/// An iterator over groups of blocks. Returned by [`ChunkHead::groups`].
#[derive(Clone, Debug)]
pub(crate) struct Groups<'a> {
    head: &'a ChunkHead,
    rest: &'a [usize],
    gap: u64,
    at_once: u64,
}

impl<'a> Iterator for Groups<'a> {
    type Item = Group<'a>;

    fn next(&mut self) -> Option<Group<'a>> {
        let (first, others) = self.rest.split_first()?;
        let mut all = self.head.extent(*first);
        let mut count = 1;
        for nblock in others {
            let next = self.head.extent(*nblock);
            let near = next.start >= all.start && next.start <= all.end.saturating_add(self.gap);
            if !(next.is_empty()
                || all.is_empty()
                || near && next.end.max(all.end) - all.start <= self.at_once)
            {
                break;
            }
            all = match (all.is_empty(), next.is_empty()) {
                (true, _) => next,
                (_, true) => all,
                _ => all.start..all.end.max(next.end),
            };
            count += 1;
        }
        let (nblocks, rest) = self.rest.split_at(count);
        self.rest = rest;
        // Blocks that came with the head need not be read.
        let extents = nblocks
            .iter()
            .map(|n| self.head.to_read(&self.head.span(*n)))
            .filter(|extent| !extent.is_empty());
        let all = extents.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        Some(Group { nblocks, extent: all.map(|all| Extent::exactly(self.head.file(), all)) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(!self.rest.is_empty()), Some(self.rest.len()))
    }
}
