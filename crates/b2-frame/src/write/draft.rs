//! The draft of a frame in a writer or editor: the stored chunks, the future content of the frame, and the rules that
//! its chunks follow so that C-Blosc2 can read them (docs/format/frame-contiguous.md, sections 5.3 and 5.4).

use std::sync::Arc;

use b2_chunk::{
    CParams, Chunk, ChunkError, ChunkHeader, CodecId, Compatibility, Compression, DParams,
    EXTENDED_HEADER_LEN, NAN4, NAN8, Plugins, SpecialKind,
};
use b2_core::Control;
use bytes::{Bytes, BytesMut};

use crate::format::checksums::{ChunkSum, ChunkSums, Sums};
use crate::format::header::MIN_TRAILER_LEN;
use crate::format::index::Entry;
use crate::format::metalayers::{check_name, show};
use crate::format::runs;
use crate::format::starts::ChunkStarts;
use crate::read::sizes::ChunkSizes;
use crate::write::state::{FrameState, Sizes, Sizing, room_for};
use crate::write::store::Store;
use crate::{FrameError, FrameHeader, Structure, SuperChunk};

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

    /// Fails if the frame would mix chunks with and without variable-length blocks, or have too many chunks, with a new
    /// chunk in addition to `others` that remain.
    pub(crate) fn check_chunk(&self, others: usize, vl_blocks: bool) -> Result<(), FrameError> {
        if others > 0 && self.state.vl_blocks != vl_blocks {
            let what = "chunks with and without variable-length blocks cannot be mixed";
            return Err(FrameError::argument("chunk", what));
        }
        room_for(others + 1)
    }

    /// Compresses and sets a vlmetalayer.
    pub(crate) fn set_vlmetalayer(&mut self, name: &[u8], value: &[u8]) -> Result<(), FrameError> {
        self.set_vlmetalayer_chunk(name, self.compressed(name, value)?)
    }

    /// Compresses the value of a vlmetalayer.
    pub(crate) fn compressed(&self, name: &[u8], value: &[u8]) -> Result<Chunk, FrameError> {
        let chunk = compress_value(value, &self.rules.dparams.plugins);
        chunk.map_err(|error| FrameError::chunk(Structure::VlMetalayer(show(name)))(error))
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

/// Longest value for which a chunk of one repeated value is made, in bytes.
const MAX_VALUE_LEN: usize = 4096;

/// Largest number of runs in a chunk of zeros.
const MAX_RUNS: usize = 256;

/// The properties of a frame that its chunks must match.
#[derive(Debug)]
pub(crate) struct ChunkRules {
    pub(crate) typesize: usize,
    pub(crate) blocksize: usize,
    pub(crate) dparams: DParams,
}

impl ChunkRules {
    /// Returns the rules for chunks of a frame with this header.
    pub(crate) fn of(header: &FrameHeader, dparams: DParams) -> Self {
        let (typesize, blocksize) = (header.itemsize(), header.blocksize());
        // As in new frames: with a block smaller than an item, C-Blosc2 refuses chunks of NaNs.
        Self { typesize, blocksize: if blocksize < typesize { 0 } else { blocksize }, dparams }
    }

    /// Returns the item size for chunk headers.
    fn chunk_typesize(&self) -> usize {
        if self.typesize > 255 { 1 } else { self.typesize }
    }

    pub(crate) fn nan_fits(&self, nbytes: usize) -> bool {
        matches!(self.typesize, 4 | 8) && nbytes.is_multiple_of(self.typesize)
    }

    /// Returns the kind of a special chunk that an index entry could represent.
    pub(crate) fn as_entry(&self, chunk: &Chunk) -> Option<SpecialKind> {
        let header = chunk.header();
        match header.special()? {
            _ if chunk.nbytes() == 0 => None,
            SpecialKind::NaN if header.itemsize() != self.typesize => None,
            SpecialKind::Value => None,
            kind => Some(kind),
        }
    }

    /// Creates a stored chunk with the content of a special one.
    pub(crate) fn special(&self, kind: SpecialKind, nbytes: usize) -> Result<Chunk, ChunkError> {
        let value = match (kind, self.typesize) {
            (SpecialKind::NaN, 4) => NAN4.to_vec(),
            (SpecialKind::NaN, _) => NAN8.to_vec(),
            (_, typesize) if typesize <= MAX_VALUE_LEN => vec![0; typesize],
            _ => Vec::new(),
        };
        if value.is_empty() || !nbytes.is_multiple_of(value.len()) {
            // Each block stores a run, so with tiny blocks a chunk of zeros would be twice its
            // plain size. Larger blocks avoid that.
            let blocksize = match self.blocksize {
                0 => 0,
                blocksize => blocksize.max(nbytes.div_ceil(MAX_RUNS)),
            };
            return Chunk::zero_runs(nbytes, self.typesize, blocksize);
        }
        Chunk::special(SpecialKind::Value, &value, nbytes, self.typesize, self.blocksize)
    }

    /// Returns the chunk unchanged if C-Blosc2 can read it in this frame, otherwise a recompressed
    /// one.
    pub(crate) fn fit(&self, chunk: Chunk) -> Result<Chunk, ChunkError> {
        let header = chunk.header();
        if chunk.nbytes() == 0 {
            return Chunk::compress_bytes(&[], &self.cparams()?);
        }
        if header.is_vl() && header.itemsize() != self.chunk_typesize() {
            let blocks = chunk.blocks(&self.dparams)?;
            let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
            return Chunk::compress_vl(&blocks, &self.cparams()?);
        }
        if !self.fits(header) {
            let plain = chunk.decompress_bytes_with(&self.dparams)?;
            let recompressed = Chunk::compress_bytes(&plain, &self.cparams()?)?;
            return match recompressed.header().special() {
                Some(SpecialKind::Value) | None => Ok(recompressed),
                Some(kind) => self.special(kind, plain.len()),
            };
        }
        without_stray_dict(chunk)
    }

    fn fits(&self, header: &ChunkHeader) -> bool {
        let typesize = header.itemsize();
        let plain = header.is_memcpyed() || header.special().is_some() || header.is_vl();
        // C-Blosc2 rounds block sizes down to whole items, regardless of the header.
        let rounded =
            plain || header.blocksize() <= self.typesize || header.blocksize().is_multiple_of(self.typesize);
        header.is_extended()
            && typesize == self.chunk_typesize()
            && rounded
            && match header.special() {
                None => true,
                Some(SpecialKind::Value) => header.cbytes() == EXTENDED_HEADER_LEN + self.typesize,
                Some(_) => false,
            }
    }

    fn cparams(&self) -> Result<CParams, ChunkError> {
        let builder = || {
            Compression::new()
                .itemsize(self.typesize)
                .blocksize(self.blocksize)
                .plugins(self.dparams.plugins.clone())
        };
        // A build without any compressor can still store the data uncompressed.
        builder().build().or_else(|_| builder().codec(CodecId::BLOSCLZ).level(0).build())
    }
}

/// Fails if chunks made with these parameters lack the header that frames need.
pub(crate) fn check_layout(cparams: &CParams) -> Result<(), FrameError> {
    match cparams.compatibility() {
        Compatibility::Blosc2 => Ok(()),
        _ => Err(FrameError::argument("cparams", "frames need chunks of Blosc2")),
    }
}

/// Clears a stray dictionary bit: C-Blosc2 leaves it set in chunks that it stores uncompressed, and
/// then cannot read them.
fn without_stray_dict(chunk: Chunk) -> Result<Chunk, ChunkError> {
    const FLAGS_AT: usize = EXTENDED_HEADER_LEN - 1;
    const DICT: u8 = 1;
    let stray = chunk.as_bytes().get(FLAGS_AT).is_some_and(|flags| flags & DICT != 0);
    if !stray || chunk.header().has_dict() {
        return Ok(chunk);
    }
    let mut bytes = BytesMut::from(chunk.as_bytes());
    if let Some(flags) = bytes.get_mut(FLAGS_AT) {
        *flags &= !DICT;
    }
    Chunk::from_bytes(bytes.freeze())
}
