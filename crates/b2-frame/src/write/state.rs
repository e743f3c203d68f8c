//! The content of a frame as a value. Changes are made to a copy, which a commit makes the
//! committed state.

use std::sync::Arc;

use b2_chunk::{DParams, MAX_CHUNK_NBYTES};
use b2_core::{OutOfMemory, memory};
use bytes::{Bytes, BytesMut};

use crate::format::checksums::{Checksums, Sums};
use crate::format::header::{FrameHeader, Storage, encode_with_metalayers, patch};
use crate::format::index::{Entry, Index, MAX_NCHUNKS};
use crate::format::metalayers::{Metalayers, VlMetalayers};
use crate::format::runs::VerifiedChunks;
use crate::format::trailer::Trailer;
use crate::read::open_plan::{FrameLayout, OpenedFrame};
use crate::{FrameError, SuperChunk};

/// The content of a frame except for its chunks. Cloning is cheap; the first change after that
/// copies the index.
#[derive(Clone, Debug)]
pub(crate) struct FrameState {
    /// The header as last stored. A commit updates lengths and counts in it.
    pub(crate) head: Arc<StoredHeader>,
    pub(crate) vlmetalayers: Arc<Vec<(Bytes, Bytes)>>,
    /// Index entries as stored. The entry of a last chunk that is not stored yet is arbitrary.
    pub(crate) entries: Arc<Vec<i64>>,
    pub(crate) sizes: Sizes,
    pub(crate) nbytes: u64,
    /// Whether chunks have variable-length blocks.
    pub(crate) vl_blocks: bool,
    /// Whether all chunks are known to be stored. Only meaningful with individual sizes.
    pub(crate) all_stored: bool,
    /// Whether items or the shape have changed since the last commit, and since the indexes of python-blosc2 were set.
    pub(crate) items_changed: bool,
}

/// A header with its metalayers, parsed and as stored. The stored bytes preserve fields that this
/// version does not know.
#[derive(Clone, Debug)]
pub(crate) struct StoredHeader {
    pub(crate) header: FrameHeader,
    pub(crate) metalayers: Metalayers,
    pub(crate) bytes: Bytes,
}

impl StoredHeader {
    /// Creates the header of a new frame.
    pub(crate) fn new(mut header: FrameHeader, metalayers: Metalayers) -> Self {
        let bytes = header.encode(&metalayers).into();
        Self { header, metalayers, bytes }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the same header with other metalayers, which may take more or less space.
    pub(crate) fn with_metalayers(&self, metalayers: &Metalayers) -> Result<Self, FrameError> {
        let bytes: Bytes = encode_with_metalayers(&self.bytes, metalayers).into();
        // The size of the metalayers has been checked.
        let header = FrameHeader { header_len: bytes.len() as u32, ..self.header.clone() };
        Ok(Self { header, metalayers: Metalayers::parse(&bytes)?, bytes })
    }

    /// Returns the same header with another size of blocks.
    pub(crate) fn with_blocksize(&self, blocksize: i32) -> Self {
        let mut bytes = BytesMut::from(&self.bytes[..]);
        patch::put(&mut bytes, patch::BLOCKSIZE, &blocksize.to_be_bytes());
        let header = FrameHeader { blocksize, ..self.header.clone() };
        Self { header, metalayers: self.metalayers.clone(), bytes: bytes.freeze() }
    }

    /// Returns the same header for a contiguous frame.
    pub(crate) fn contiguous(&self) -> Self {
        let mut bytes = BytesMut::from(&self.bytes[..]);
        patch::put(&mut bytes, patch::STORAGE, &[0]);
        let header = FrameHeader { storage: Storage::Contiguous, ..self.header.clone() };
        Self { header, metalayers: self.metalayers.clone(), bytes: bytes.freeze() }
    }
}

/// Uncompressed sizes of the chunks.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// There is no chunk, and the size of chunks is not defined.
    Open,
    /// All chunks have `chunksize` bytes except for the last, which has `last`. Without chunks
    /// `last` is `chunksize`.
    Equal { chunksize: usize, last: usize },
    /// Each chunk has its own size.
    Individual(Arc<Vec<u32>>),
}

/// Whether the chunks of a frame have equal sizes, except for a shorter last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    Equal,
    Individual,
}

impl FrameState {
    /// Returns the state of an opened frame.
    pub(crate) fn of(schunk: &SuperChunk) -> Result<Self, FrameError> {
        let limit = schunk.dparams().limits.max_metadata;
        let entries = schunk.index().to_entries(limit)?;
        let nchunks = entries.len();
        let sizes = match usize::try_from(schunk.header().stored_chunksize()) {
            Ok(chunksize) if chunksize > 0 => {
                let rest = (schunk.nbytes() % chunksize as u64) as usize;
                Sizes::Equal { chunksize, last: if rest == 0 { chunksize } else { rest } }
            }
            // Arrays without items have a chunk size of 0 too; their first chunk decides.
            _ if nchunks == 0 => Sizes::Open,
            _ => {
                let nbytes = |nchunk| schunk.chunk_nbytes(nchunk).map(|nbytes| nbytes as u32);
                Sizes::Individual(Arc::new((0..nchunks).map(nbytes).collect::<Result<_, _>>()?))
            }
        };
        // The first chunk decides, as in C-Blosc2; the header's flag is only a hint.
        let first = (0..nchunks).find(|&n| matches!(schunk.entry(n), Ok(Entry::Stored(_))));
        let first = first.and_then(|nchunk| schunk.chunk(nchunk).header().ok().flatten());
        let vl_blocks = match first {
            Some(header) => header.is_vl(),
            None => nchunks > 0 && schunk.header().general_flags() & 0x80 != 0,
        };
        // Copy the header, so that it does not keep a larger read buffer alive.
        let bytes = Bytes::copy_from_slice(&schunk.opened().header_bytes);
        Ok(Self {
            head: Arc::new(StoredHeader {
                header: schunk.header().clone(),
                metalayers: Metalayers::parse(&bytes)?,
                bytes,
            }),
            vlmetalayers: Arc::new(
                schunk
                    .vlmetalayers()
                    .iter()
                    .map(|(name, value)| (Bytes::copy_from_slice(name), value.clone()))
                    .collect(),
            ),
            entries,
            sizes,
            nbytes: schunk.nbytes(),
            vl_blocks,
            all_stored: false,
            items_changed: false,
        })
    }

    pub(crate) fn nchunks(&self) -> usize {
        self.entries.len()
    }

    /// Returns the uncompressed size of chunk `nchunk`, in bytes.
    pub(crate) fn chunk_nbytes(&self, nchunk: usize) -> Option<usize> {
        let n = self.nchunks();
        match &self.sizes {
            Sizes::Open => None,
            Sizes::Equal { last, .. } if nchunk + 1 == n => Some(*last),
            Sizes::Equal { chunksize, .. } => (nchunk < n).then_some(*chunksize),
            Sizes::Individual(sizes) => sizes.get(nchunk).map(|nbytes| *nbytes as usize),
        }
    }

    pub(crate) fn is_individual(&self) -> bool {
        matches!(self.sizes, Sizes::Individual(_))
    }

    pub(crate) fn sizing(&self) -> Sizing {
        if self.is_individual() { Sizing::Individual } else { Sizing::Equal }
    }

    /// Returns the sizing after a chunk of `nbytes` is inserted before `nchunk` (or appended).
    pub(crate) fn sizing_with(&self, nchunk: usize, nbytes: usize) -> Sizing {
        let equal = match self.sizes {
            Sizes::Open => nbytes > 0,
            Sizes::Equal { chunksize, last } if nchunk == self.nchunks() => {
                last == chunksize && (1..=chunksize).contains(&nbytes)
            }
            Sizes::Equal { chunksize, .. } => nbytes == chunksize,
            Sizes::Individual(_) => false,
        };
        if equal { Sizing::Equal } else { Sizing::Individual }
    }

    /// Returns the sizing after chunk `nchunk` is replaced by one of `nbytes`.
    pub(crate) fn sizing_after(&self, nchunk: usize, nbytes: usize) -> Sizing {
        let equal = match self.sizes {
            Sizes::Equal { chunksize, .. } if nchunk + 1 == self.nchunks() => {
                (1..=chunksize).contains(&nbytes)
            }
            Sizes::Equal { chunksize, .. } => nbytes == chunksize,
            Sizes::Open | Sizes::Individual(_) => false,
        };
        if equal { Sizing::Equal } else { Sizing::Individual }
    }

    /// Gives each chunk its own size. The caller has replaced special entries before.
    pub(crate) fn make_individual(&mut self) {
        self.all_stored = true;
        if !self.is_individual() {
            let size = |nchunk| self.chunk_nbytes(nchunk).unwrap_or(0) as u32;
            self.sizes = Sizes::Individual(Arc::new((0..self.nchunks()).map(size).collect()));
        }
    }

    /// Reserves memory for `more` chunks.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        if let Sizes::Individual(sizes) = &mut self.sizes {
            memory::reserve(Arc::make_mut(sizes), more)?;
        }
        memory::reserve(Arc::make_mut(&mut self.entries), more)
    }

    /// Inserts a chunk before `nchunk`. Its size must be compatible with `sizes`.
    #[inline]
    pub(crate) fn insert(&mut self, nchunk: usize, raw: i64, nbytes: usize) {
        self.items_changed = true;
        match &mut self.sizes {
            Sizes::Open => self.sizes = Sizes::Equal { chunksize: nbytes, last: nbytes },
            Sizes::Equal { last, .. } if nchunk == self.entries.len() => *last = nbytes,
            Sizes::Equal { .. } => {}
            Sizes::Individual(sizes) => Arc::make_mut(sizes).insert(nchunk, nbytes as u32),
        }
        self.nbytes += nbytes as u64;
        Arc::make_mut(&mut self.entries).insert(nchunk, raw);
    }

    /// Replaces chunk `nchunk`. The new size must be compatible with `sizes`.
    pub(crate) fn replace(&mut self, nchunk: usize, raw: i64, nbytes: usize) {
        self.items_changed = true;
        let old = self.chunk_nbytes(nchunk).unwrap_or(0);
        let is_last = nchunk + 1 == self.nchunks();
        match &mut self.sizes {
            Sizes::Equal { last, .. } if is_last => *last = nbytes,
            Sizes::Individual(sizes) => {
                if let Some(size) = Arc::make_mut(sizes).get_mut(nchunk) {
                    *size = nbytes as u32;
                }
            }
            Sizes::Open | Sizes::Equal { .. } => {}
        }
        self.nbytes = self.nbytes - old as u64 + nbytes as u64;
        if let Some(entry) = Arc::make_mut(&mut self.entries).get_mut(nchunk) {
            *entry = raw;
        }
    }

    pub(crate) fn remove(&mut self, nchunk: usize) {
        let Some(old) = self.chunk_nbytes(nchunk) else { return };
        self.items_changed = true;
        let is_last = nchunk + 1 == self.nchunks();
        match &mut self.sizes {
            Sizes::Equal { chunksize, last } if is_last => *last = *chunksize,
            Sizes::Individual(sizes) => drop(Arc::make_mut(sizes).remove(nchunk)),
            Sizes::Open | Sizes::Equal { .. } => {}
        }
        self.nbytes -= old as u64;
        Arc::make_mut(&mut self.entries).remove(nchunk);
        if self.is_individual() && self.entries.is_empty() {
            // The next first chunk defines the sizes again, as after opening.
            self.sizes = Sizes::Open;
            self.all_stored = false;
        }
    }

    /// Reorders the chunks: chunk `n` becomes the old chunk `order[n]`. `order` must be a
    /// permutation.
    pub(crate) fn reorder(&mut self, order: &[usize]) {
        self.items_changed = true;
        let pick = |n: &usize| self.entries.get(*n).copied().unwrap_or_default();
        self.entries = Arc::new(order.iter().map(pick).collect());
        if let Sizes::Individual(sizes) = &mut self.sizes {
            *sizes = Arc::new(order.iter().map(|n| sizes.get(*n).copied().unwrap_or_default()).collect());
        }
    }

    /// Checks conditions that concern the whole state.
    pub(crate) fn check(&self) -> Result<(), FrameError> {
        if self.nbytes == 0 && !self.entries.is_empty() {
            return Err(FrameError::argument("chunks", "all of them are empty"));
        }
        room_for(self.nchunks())
    }

    /// Returns the header to be stored.
    pub(crate) fn head(&self, cbytes: u64, frame_len: u64) -> Arc<StoredHeader> {
        let mut header = self.head.header.clone();
        let individual = self.is_individual();
        if !self.entries.is_empty() {
            let version = match header.general_flags & 0x0F {
                _ if individual || self.vl_blocks => 3,
                3 => 2,
                version => version,
            };
            header.general_flags = header.general_flags & 0x30
                | version
                | u8::from(individual) << 6
                | u8::from(self.vl_blocks) << 7;
        }
        header.chunksize = match self.sizes {
            // Keep -1 or 0.
            Sizes::Open => header.chunksize.min(0),
            // This is at most MAX_CHUNK_NBYTES.
            Sizes::Equal { chunksize, .. } => chunksize as i32,
            Sizes::Individual(_) => 0,
        };
        (header.nbytes, header.cbytes, header.frame_len) = (self.nbytes, cbytes, frame_len);
        header.has_vlmetalayers = !self.vlmetalayers.is_empty();
        let mut bytes = BytesMut::from(&self.head.bytes[..]);
        patch::put(&mut bytes, patch::FLAGS, &[header.general_flags]);
        patch::put(&mut bytes, patch::CHUNKSIZE, &header.chunksize.to_be_bytes());
        patch::put(&mut bytes, patch::NBYTES, &header.nbytes.to_be_bytes());
        patch::put(&mut bytes, patch::CBYTES, &cbytes.to_be_bytes());
        patch::put(&mut bytes, patch::FRAME_LEN, &frame_len.to_be_bytes());
        patch::put(&mut bytes, patch::HAS_VLMETALAYERS, &[0xC2 | u8::from(header.has_vlmetalayers)]);
        Arc::new(StoredHeader { header, metalayers: self.head.metalayers.clone(), bytes: bytes.freeze() })
    }

    /// Returns what opening the frame would return. `head` comes from [`FrameState::head`]; `sums`
    /// are those of chunks that existed before.
    pub(crate) fn opened(
        &self,
        head: &StoredHeader,
        layout: FrameLayout,
        sums: Option<Sums>,
        dparams: &DParams,
    ) -> OpenedFrame {
        let vlmetalayers = VlMetalayers::from_entries(self.vlmetalayers.to_vec(), dparams);
        OpenedFrame {
            header: head.header.clone(),
            header_bytes: head.bytes.clone(),
            metalayers: head.metalayers.clone(),
            index: Index::from_entries(self.entries.clone()),
            trailer: Trailer { vlmetalayers, fingerprint_kind: 0, fingerprint: [0; 16] },
            tail_sum: 0,
            layout,
            // There is no trailer with a fingerprint yet.
            checksums: Checksums::None,
            sums,
            starts: None,
            runs: None,
            compared: VerifiedChunks::default(),
        }
    }
}

/// Checks that a frame may have this many chunks.
pub(crate) fn room_for(nchunks: usize) -> Result<(), FrameError> {
    if nchunks > MAX_NCHUNKS {
        let what = format!("{nchunks} are too many, at most {MAX_NCHUNKS} fit");
        return Err(FrameError::argument("chunks", what));
    }
    Ok(())
}

/// Checks the uncompressed size of a new chunk.
pub(crate) fn check_nbytes(nbytes: usize) -> Result<(), FrameError> {
    if nbytes > MAX_CHUNK_NBYTES {
        let what = format!("{nbytes} bytes are too many, at most {MAX_CHUNK_NBYTES} fit");
        return Err(FrameError::argument("chunk", what));
    }
    Ok(())
}
