//! Blocks of one chunk for many threads: the head is read once, then each thread reads what it decodes next.

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

use b2_chunk::LazyChunk;
use bytes::Bytes;

use crate::fetch::GAP;
use crate::head::{ChunkHead, HeadState};
use crate::index::Entry;
use crate::plan::{Extent, OpenFile, Step};
use crate::{FrameError, Structure, SuperChunk};

/// Blocks that are neighbours in the file are read at once up to this many bytes: few calls, and what was read
/// is still in the cache when it is decoded.
const AT_ONCE: u64 = 64 * 1024;

/// A chunk whose head was read, to read blocks of. Made by [`SuperChunk::block_reader`].
///
/// ```
/// # use b2_chunk::{CParams, Chunk, DParams};
/// # use b2_frame::{FrameParams, FrameWriter, SuperChunk};
/// # let cparams = CParams::builder(1).blocksize(1000).build()?;
/// # let raw: Vec<u8> = (0..10_000u32).map(|i| (i / 7) as u8).collect();
/// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams))?;
/// # writer.append(Chunk::compress(&raw, &cparams)?)?;
/// # let schunk = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
/// let reader = schunk.block_reader(0)?;
/// let dparams = schunk.dparams();
/// let mut decoder = reader.chunk().decoder(dparams)?;
/// let mut block = [0; 1000];
/// for together in reader.groups(&[1, 2, 7]) {
///     let stored = reader.read(together)?;
///     for &nblock in together {
///         decoder.decode(nblock, stored.of(nblock), None, &mut block)?;
///         assert_eq!(block, raw[nblock * 1000..(nblock + 1) * 1000]);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockReader(Source);

enum Source {
    /// Nothing is stored for any block.
    Made(LazyChunk),
    Stored(Box<ChunkHead>, OpenFile),
}

/// The stored bytes of blocks that were read together.
pub struct BlockBytes<'a> {
    reader: &'a BlockReader,
    bytes: Bytes,
    /// Where `bytes` are in the file.
    start: u64,
}

impl SuperChunk {
    /// Reads the head of chunk `nchunk`, so that its blocks can be read.
    ///
    /// # Errors
    /// As [`SuperChunk::chunk`].
    pub fn block_reader(&self, nchunk: usize) -> Result<BlockReader, FrameError> {
        let offset = match self.entry(nchunk)? {
            Entry::Stored(offset) => offset,
            Entry::Special(_) => {
                let lazy = self.chunk(nchunk)?.lazy(&self.dparams);
                return Ok(BlockReader(Source::Made(lazy.map_err(FrameError::chunk(Structure::Index))?)));
            }
        };
        let place = self.opened.place(nchunk, offset, &self.dparams)?;
        let file = self.files.open(place.file)?;
        let mut state = HeadState::new(place);
        let mut parts = Vec::new();
        loop {
            match state.step(parts, &self.dparams)? {
                Step::Done(head) => return Ok(BlockReader(Source::Stored(Box::new(head), file))),
                Step::Need(need) => parts = need.iter().map(|e| file.read(e)).collect::<Result<_, _>>()?,
            }
        }
    }

    /// Compares the chunk of which the `whole` is to be decoded, or a part, with its checksum: if there is one, and
    /// where [`Compare`](crate::Compare) says so. The rest of the chunk is read at once then.
    ///
    /// # Errors
    /// As [`SuperChunk::chunk`].
    pub fn compare_blocks(&self, reader: &mut BlockReader, whole: bool) -> Result<(), FrameError> {
        let BlockReader(Source::Stored(head, file)) = reader else { return Ok(()) };
        if self.compares(head.chunk().header(), whole) {
            let sum = head.sum(file)?;
            self.expect_sum(head.nchunk(), || sum)?;
        }
        Ok(())
    }
}

impl BlockReader {
    /// The chunk.
    pub fn chunk(&self) -> &LazyChunk {
        match &self.0 {
            Source::Made(lazy) => lazy,
            Source::Stored(head, _) => head.chunk(),
        }
    }

    /// Cuts a list of blocks into parts to be read at once: neighbours in the file, in about 64 KiB.
    pub fn groups<'b>(&'b self, nblocks: &'b [usize]) -> Groups<'b> {
        Groups { reader: self, rest: nblocks }
    }

    /// Reads all bytes from the first of these blocks to the last.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self, nblocks: &[usize]) -> Result<BlockBytes<'_>, FrameError> {
        let nothing = BlockBytes { reader: self, bytes: Bytes::new(), start: 0 };
        let Source::Stored(head, file) = &self.0 else { return Ok(nothing) };
        let extents = nblocks.iter().map(|n| head.to_read(*n)).filter(|extent| !extent.is_empty());
        let Some(all) = extents.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) else {
            return Ok(nothing);
        };
        let start = all.start;
        let bytes = file.read(&Extent::exactly(head.file(), all))?;
        Ok(BlockBytes { bytes, start, ..nothing })
    }

    /// The stored bytes of a block, read already or not.
    fn extent(&self, nblock: usize) -> Range<u64> {
        let extent = self.chunk().block_extent(nblock);
        extent.start as u64..extent.end as u64
    }
}

impl BlockBytes<'_> {
    /// The stored bytes of a block; empty for those that were not read.
    pub fn of(&self, nblock: usize) -> &[u8] {
        let Source::Stored(head, _) = &self.reader.0 else { return &[] };
        let extent = head.to_read(nblock);
        if extent.is_empty() {
            return head.at_hand(nblock);
        }
        let index = |at: u64| at.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        match (index(extent.start), index(extent.end)) {
            (Some(start), Some(end)) => self.bytes.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// Blocks to be read at once. Made by [`BlockReader::groups`].
pub struct Groups<'a> {
    reader: &'a BlockReader,
    rest: &'a [usize],
}

impl<'a> Iterator for Groups<'a> {
    type Item = &'a [usize];

    fn next(&mut self) -> Option<&'a [usize]> {
        let (first, others) = self.rest.split_first()?;
        let mut all = self.reader.extent(*first);
        let mut count = 1;
        for nblock in others {
            let next = self.reader.extent(*nblock);
            let near = next.start >= all.start && next.start <= all.end.saturating_add(GAP);
            if !(next.is_empty() || all.is_empty() || near && next.end.max(all.end) - all.start <= AT_ONCE) {
                break;
            }
            all = match (all.is_empty(), next.is_empty()) {
                (true, _) => next,
                (_, true) => all,
                _ => all.start..all.end.max(next.end),
            };
            count += 1;
        }
        let (group, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(group)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(!self.rest.is_empty()), Some(self.rest.len()))
    }
}

impl std::fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReader").field("chunk", self.chunk()).finish_non_exhaustive()
    }
}
