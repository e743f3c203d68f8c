//! Groups of blocks of one chunk that are read at once and can be decoded in any order.

use std::ops::Range;

use crate::read::head::ChunkHead;
use crate::storage::files::Extent;
use crate::{FrameError, ReadCosts, SuperChunk};

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
    ///
    /// ```
    /// # use b2_chunk::{CParams, Chunk, DParams};
    /// # use b2_frame::{Driver, FrameParams, FrameWriter, SuperChunk};
    /// # let cparams = CParams::builder(1).blocksize(1000).build()?;
    /// # let raw: Vec<u8> = (0..10_000u32).map(|i| (i / 7) as u8).collect();
    /// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
    /// # writer.append(Chunk::compress_bytes(&raw, &cparams)?)?;
    /// # let schunk = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
    /// // Any driver can be used.
    /// let mut driver = Driver::new(schunk.files());
    /// let head = driver.run(schunk.head_plan(0)?)?;
    /// let mut decoder = head.chunk().decoder(schunk.dparams())?;
    /// let mut block = [0; 1000];
    /// for group in head.groups(&[1, 2, 7], schunk.costs()) {
    ///     // Nothing has to be read if the block came with the head.
    ///     let bytes = driver.read(group.extent().as_slice())?.pop().unwrap_or_default();
    ///     for &nblock in group.nblocks() {
    ///         decoder.decode(nblock, group.stored(&head, nblock, &bytes)?, None, &mut block)?;
    ///         assert_eq!(block, raw[nblock * 1000..(nblock + 1) * 1000]);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn groups<'a>(&'a self, nblocks: &'a [usize], costs: &ReadCosts) -> Groups<'a> {
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
pub struct Group<'a> {
    nblocks: &'a [usize],
    extent: Option<Extent>,
}

impl<'a> Group<'a> {
    /// Returns the numbers of the blocks.
    pub fn nblocks(&self) -> &'a [usize] {
        self.nblocks
    }

    /// Returns the range to read, or `None` if the blocks came with the head.
    pub fn extent(&self) -> &Option<Extent> {
        &self.extent
    }

    /// Returns the stored bytes of one of the blocks. `read` are the bytes of the group's extent.
    ///
    /// # Errors
    /// When the stored bytes do not match their checksum.
    pub fn stored<'b>(
        &self,
        head: &'b ChunkHead,
        nblock: usize,
        read: &'b [u8],
    ) -> Result<&'b [u8], FrameError> {
        head.stored(nblock, self.extent.as_ref(), read)
    }
}

/// An iterator over groups of blocks. Returned by [`ChunkHead::groups`].
#[derive(Clone, Debug)]
pub struct Groups<'a> {
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
