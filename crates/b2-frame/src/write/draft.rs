//! The draft of a frame in a writer or editor: the stored chunks, and the future content of the
//! frame.

use std::sync::Arc;

use b2_chunk::{Chunk, CodecId, Compression, Plugins, SpecialKind};
use b2_core::Control;
use bytes::Bytes;

use crate::format::checksums::{ChunkSum, ChunkSums, Sums};
use crate::format::header::MIN_TRAILER_LEN;
use crate::format::index::Entry;
use crate::format::metalayers::{check_name, show};
use crate::format::runs;
use crate::format::starts::ChunkStarts;
use crate::read::sizes::ChunkSizes;
use crate::write::chunk_rules::ChunkRules;
use crate::write::state::{FrameState, Sizes, Sizing, room_for};
use crate::write::store::Store;
use crate::{FrameError, Structure, SuperChunk};

/// A chunk goes to the store first and then into the state, so an error leaves the state unchanged.
pub(crate) struct Draft {
    pub(crate) store: Store,
    pub(crate) state: FrameState,
    pub(crate) rules: ChunkRules,
    /// Checksums of the chunks, if they are known.
    pub(crate) sums: Option<ChunkSums>,
    /// Where the blocks of the chunks are, if the frame gets a table of block starts.
    pub(crate) starts: Option<ChunkStarts>,
    pub(crate) max_vlmetalayers: usize,
}

/// A chunk in a form that C-Blosc2 can read in this frame.
pub(crate) struct FittedChunk {
    content: FittedContent,
    pub(crate) nbytes: usize,
    vl_blocks: bool,
}

enum FittedContent {
    Stored(Chunk),
    /// A special chunk, which only takes an index entry if its size follows from the header.
    Special(SpecialKind),
}

impl FittedChunk {
    pub(crate) fn special(kind: SpecialKind, nbytes: usize) -> Self {
        Self { content: FittedContent::Special(kind), nbytes, vl_blocks: false }
    }
}

impl Draft {
    /// Takes the rules for chunks from the header of the state.
    pub(crate) fn settle_rules(&mut self) {
        self.rules = ChunkRules::of(&self.state.head.header, self.rules.dparams.clone());
    }

    /// Returns a frame for reading, with everything stored so far.
    pub(crate) fn snapshot(&mut self) -> Result<SuperChunk, FrameError> {
        let (files, layout) = self.store.snapshot()?;
        // No trailer is written yet; the length of the shortest one makes `frame_len` valid.
        let frame_len = layout.trailer.end + MIN_TRAILER_LEN as u64;
        let head = self.state.head(layout.data.end - layout.data.start, frame_len);
        let dparams = self.rules.dparams.clone();
        let sums = self.sums.as_ref().map(|sums| Sums::Known(sums.old().clone()));
        let opened = self.state.opened(&head, layout, sums, &dparams);
        let mut schunk = SuperChunk::new(opened, files, dparams.clone());
        schunk.set_container(dparams.container);
        schunk.trusted_from = self.store.trusted_from();
        if let Sizes::Individual(sizes) = &self.state.sizes {
            // The sizes are known, so the snapshot need not read them.
            let _ = schunk.sizes.set(ChunkSizes::of(sizes));
        }
        Ok(schunk)
    }

    pub(crate) fn nchunks(&self) -> usize {
        self.state.nchunks()
    }

    /// Returns the control of the calls.
    pub(crate) fn control(&self) -> &Control {
        &self.rules.dparams.control
    }

    /// Begins a call that handles `nbytes` uncompressed bytes, and returns its control.
    pub(crate) fn begin(&self, nbytes: u64) -> Control {
        self.control().begin(nbytes, self.rules.typesize as u64)
    }

    /// Converts a chunk to a form that C-Blosc2 can read in this frame.
    pub(crate) fn fit(&self, nchunk: usize, chunk: Chunk) -> Result<FittedChunk, FrameError> {
        let (nbytes, vl_blocks) = (chunk.nbytes(), chunk.header().is_vl());
        let content = match self.rules.as_entry(&chunk) {
            Some(kind) => FittedContent::Special(kind),
            None => {
                let fitted = self.rules.fit(chunk);
                FittedContent::Stored(fitted.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?)
            }
        };
        Ok(FittedChunk { content, nbytes, vl_blocks })
    }

    /// Inserts a chunk before chunk `nchunk`.
    pub(crate) fn insert(&mut self, nchunk: usize, chunk: FittedChunk) -> Result<(), FrameError> {
        let sizing = self.state.sizing_with(nchunk, chunk.nbytes);
        let (nbytes, vl_blocks) = (chunk.nbytes, chunk.vl_blocks);
        let raw = self.put_sized(nchunk, chunk, sizing)?;
        self.state.reserve(1)?;
        if self.nchunks() == 0 {
            self.state.vl_blocks = vl_blocks;
        }
        self.state.insert(nchunk, raw, nbytes);
        Ok(())
    }

    /// Replaces chunk `nchunk`.
    pub(crate) fn replace(&mut self, nchunk: usize, chunk: FittedChunk) -> Result<(), FrameError> {
        let sizing = self.state.sizing_after(nchunk, chunk.nbytes);
        let (nbytes, vl_blocks) = (chunk.nbytes, chunk.vl_blocks);
        let raw = self.put_sized(nchunk, chunk, sizing)?;
        if self.nchunks() == 1 {
            self.state.vl_blocks = vl_blocks;
        }
        self.state.replace(nchunk, raw, nbytes);
        Ok(())
    }

    /// Stores a chunk for a frame that will have this sizing, and returns its entry.
    fn put_sized(&mut self, nchunk: usize, chunk: FittedChunk, sizing: Sizing) -> Result<i64, FrameError> {
        if sizing == Sizing::Equal || self.state.is_individual() && self.state.all_stored {
            return self.put(nchunk, chunk, sizing);
        }
        let before = self.state.clone();
        let result = self.make_individual().and_then(|()| self.put(nchunk, chunk, sizing));
        if result.is_err() {
            self.state = before;
        }
        result
    }

    /// Stores a chunk in a form that a frame with this sizing needs, and returns its entry.
    pub(crate) fn put(
        &mut self,
        nchunk: usize,
        chunk: FittedChunk,
        sizing: Sizing,
    ) -> Result<i64, FrameError> {
        match chunk.content {
            FittedContent::Stored(stored) => self.put_stored(stored),
            FittedContent::Special(kind)
                if sizing == Sizing::Equal && chunk.nbytes.is_multiple_of(self.rules.typesize) =>
            {
                self.store.check()?;
                Ok(Entry::Special(kind).to_raw())
            }
            FittedContent::Special(kind) => {
                let stored = self.rules.special(kind, chunk.nbytes);
                self.put_stored(stored.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?)
            }
        }
    }

    fn put_stored(&mut self, chunk: Chunk) -> Result<i64, FrameError> {
        self.store.check()?;
        let head = runs::parse(chunk.as_bytes(), &self.rules.dparams);
        let sum = self.sums.as_ref().map(|_| ChunkSum::of(chunk.as_bytes(), head.as_ref()));
        let raw = Entry::Stored(self.store.put(chunk.into_bytes())?).to_raw();
        if let (Some(sums), Some(sum)) = (&mut self.sums, sum) {
            sums.put(raw, sum)?;
        }
        if let Some(starts) = &mut self.starts {
            starts.put(raw, head.as_ref());
        }
        Ok(raw)
    }

    /// Switches to individual chunk sizes. An index entry cannot express the size of a special
    /// chunk then, so all special chunks are stored. The content does not change.
    pub(crate) fn make_individual(&mut self) -> Result<(), FrameError> {
        if self.state.is_individual() && self.state.all_stored {
            return Ok(());
        }
        let mut stored = Vec::new();
        for nchunk in 0..self.nchunks() {
            let raw = self.state.entries.get(nchunk).copied().unwrap_or_default();
            if let Some(Entry::Special(kind)) = Entry::from_raw(raw) {
                let nbytes = self.state.chunk_nbytes(nchunk).unwrap_or_default();
                if kind == SpecialKind::NaN && !self.rules.nan_fits(nbytes) {
                    let expected = "NaN in whole items of 4 or 8 bytes";
                    let at = nchunk as u64 * 8;
                    return Err(FrameError::field(Structure::Index, "entry", at, raw, expected));
                }
                stored.push((
                    nchunk,
                    self.put(nchunk, FittedChunk::special(kind, nbytes), Sizing::Individual)?,
                    nbytes,
                ));
            }
        }
        let items_changed = self.state.items_changed;
        for (nchunk, raw, nbytes) in stored {
            self.state.replace(nchunk, raw, nbytes);
        }
        self.state.items_changed = items_changed;
        self.state.make_individual();
        Ok(())
    }

    /// Fails if the frame would mix chunks with and without variable-length blocks, or have too
    /// many chunks, with a new chunk beside `others` that remain.
    pub(crate) fn check_chunk(&self, others: usize, vl_blocks: bool) -> Result<(), FrameError> {
        if others > 0 && self.state.vl_blocks != vl_blocks {
            let what = "chunks with and without variable-length blocks cannot be mixed";
            return Err(FrameError::argument("chunk", what));
        }
        room_for(others + 1)
    }

    /// Compresses and sets a vlmetalayer.
    pub(crate) fn set_vlmetalayer(&mut self, name: &[u8], value: &[u8]) -> Result<(), FrameError> {
        let chunk = compress_value(value, &self.rules.dparams.plugins);
        self.set_vlmetalayer_chunk(
            name,
            chunk.map_err(FrameError::chunk(Structure::VlMetalayer(show(name))))?,
        )
    }

    /// Sets a vlmetalayer to a compressed value.
    pub(crate) fn set_vlmetalayer_chunk(&mut self, name: &[u8], value: Chunk) -> Result<(), FrameError> {
        check_name(name)?;
        let place = self.state.vlmetalayers.iter().position(|(n, _)| n == name);
        if place.is_none() && self.state.vlmetalayers.len() >= self.max_vlmetalayers {
            let what = format!("more than {} are not allowed", self.max_vlmetalayers);
            return Err(FrameError::argument("vlmetalayers", what));
        }
        let vlmetalayers = Arc::make_mut(&mut self.state.vlmetalayers);
        match place.and_then(|place| vlmetalayers.get_mut(place)) {
            Some((_, old)) => *old = value.into_bytes(),
            None => vlmetalayers.push((Bytes::copy_from_slice(name), value.into_bytes())),
        }
        Ok(())
    }
}

/// Compresses the value of a vlmetalayer.
fn compress_value(value: &[u8], plugins: &Plugins) -> Result<Chunk, b2_chunk::ChunkError> {
    let cparams = Compression::new().itemsize(1).plugins(plugins.clone()).build();
    // A build without any compressor can still store it uncompressed.
    let cparams =
        cparams.or_else(|_| Compression::new().itemsize(1).codec(CodecId::BLOSCLZ).level(0).build());
    Chunk::compress_bytes(value, &cparams?)
}
