//! What a frame holds, as a value: changes are made to a copy and become the committed state at a commit.

use std::sync::Arc;

use b2_chunk::{DParams, MAX_CHUNK_NBYTES};
use bytes::{Bytes, BytesMut};

use crate::checksums::{Checksums, Sums};
use crate::header::{FrameHeader, patch};
use crate::index::{Entry, Index, MAX_NCHUNKS};
use crate::metalayers::{Metalayers, VlMetalayers};
use crate::open::{Layout, Opened};
use crate::trailer::Trailer;
use crate::{FrameError, SuperChunk};

/// A frame but for its chunks. Cloning is cheap; the first change after that copies the index.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The header with its metalayers, as it was stored last; its lengths and counts are patched at a commit.
    /// All else in it, known or not, stays.
    pub(crate) header: Bytes,
    pub(crate) vlmetalayers: Arc<Vec<(Bytes, Bytes)>>,
    /// Index entries as stored. That of a last chunk which is not stored yet is any.
    pub(crate) entries: Arc<Vec<i64>>,
    pub(crate) sizes: Sizes,
    pub(crate) nbytes: u64,
    /// Whether chunks have variable-length blocks.
    pub(crate) vl_blocks: bool,
}

/// Uncompressed sizes of the chunks.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// No chunk, and nothing said about their size.
    Open,
    /// All have `chunksize` bytes, but the last has `last`. Without chunks `last` is `chunksize`.
    Equal { chunksize: usize, last: usize },
    /// Each has its own.
    Individual(Arc<Vec<u32>>),
}

impl State {
    /// The state of an opened frame.
    pub(crate) fn of(schunk: &SuperChunk) -> Result<Self, FrameError> {
        let limit = schunk.dparams().limits.max_metadata;
        let entries = schunk.index().to_entries(limit)?;
        let nchunks = entries.len();
        let sizes = match usize::try_from(schunk.header().stored_chunksize()) {
            Ok(chunksize) if chunksize > 0 => {
                let rest = (schunk.nbytes() % chunksize as u64) as usize;
                Sizes::Equal { chunksize, last: if rest == 0 { chunksize } else { rest } }
            }
            // Arrays without items say 0 as well; their first chunk decides.
            _ if nchunks == 0 => Sizes::Open,
            _ => {
                let nbytes = |nchunk| schunk.chunk_nbytes(nchunk).map(|nbytes| nbytes as u32);
                Sizes::Individual(Arc::new((0..nchunks).map(nbytes).collect::<Result<_, _>>()?))
            }
        };
        // The first chunk decides, as for C-Blosc2; what the header says is a hint.
        let first = (0..nchunks).find(|&n| matches!(schunk.entry(n), Ok(Entry::Stored(_))));
        let first = first.and_then(|nchunk| schunk.chunk_header(nchunk).ok().flatten());
        let vl_blocks = match first {
            Some(header) => header.is_vl(),
            None => nchunks > 0 && schunk.header().general_flags() & 0x80 != 0,
        };
        Ok(Self {
            // Not a part of whatever was read at once.
            header: Bytes::copy_from_slice(&schunk.opened().header_bytes),
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
        })
    }

    pub(crate) fn nchunks(&self) -> usize {
        self.entries.len()
    }

    /// Uncompressed size of chunk `nchunk`.
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

    /// Whether sizes stay equal when chunk `nchunk` (one past the last to append) is put in with `nbytes`.
    pub(crate) fn equal_with(&self, nchunk: usize, nbytes: usize) -> bool {
        match self.sizes {
            Sizes::Open => nbytes > 0,
            Sizes::Equal { chunksize, last } if nchunk == self.nchunks() => {
                last == chunksize && (1..=chunksize).contains(&nbytes)
            }
            Sizes::Equal { chunksize, .. } => nbytes == chunksize,
            Sizes::Individual(_) => false,
        }
    }

    /// Whether sizes stay equal when chunk `nchunk` gets `nbytes`.
    pub(crate) fn equal_after(&self, nchunk: usize, nbytes: usize) -> bool {
        match self.sizes {
            Sizes::Equal { chunksize, .. } if nchunk + 1 == self.nchunks() => {
                (1..=chunksize).contains(&nbytes)
            }
            Sizes::Equal { chunksize, .. } => nbytes == chunksize,
            Sizes::Open | Sizes::Individual(_) => false,
        }
    }

    /// Gives each chunk a size of its own. Special entries must have been replaced before.
    pub(crate) fn make_individual(&mut self) {
        if !self.is_individual() {
            let size = |nchunk| self.chunk_nbytes(nchunk).unwrap_or(0) as u32;
            self.sizes = Sizes::Individual(Arc::new((0..self.nchunks()).map(size).collect()));
        }
    }

    /// Puts a chunk in before `nchunk`. The sizes must allow it.
    pub(crate) fn insert(&mut self, nchunk: usize, raw: i64, nbytes: usize) {
        match &mut self.sizes {
            Sizes::Open => self.sizes = Sizes::Equal { chunksize: nbytes, last: nbytes },
            Sizes::Equal { last, .. } if nchunk == self.entries.len() => *last = nbytes,
            Sizes::Equal { .. } => {}
            Sizes::Individual(sizes) => Arc::make_mut(sizes).insert(nchunk, nbytes as u32),
        }
        self.nbytes += nbytes as u64;
        Arc::make_mut(&mut self.entries).insert(nchunk, raw);
    }

    /// Puts another chunk in the place of `nchunk`. The sizes must allow it.
    pub(crate) fn replace(&mut self, nchunk: usize, raw: i64, nbytes: usize) {
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
        let is_last = nchunk + 1 == self.nchunks();
        match &mut self.sizes {
            Sizes::Equal { chunksize, last } if is_last => *last = *chunksize,
            Sizes::Individual(sizes) => drop(Arc::make_mut(sizes).remove(nchunk)),
            Sizes::Open | Sizes::Equal { .. } => {}
        }
        self.nbytes -= old as u64;
        Arc::make_mut(&mut self.entries).remove(nchunk);
        if self.is_individual() && self.entries.is_empty() {
            // The next first chunk decides anew, as it does after opening.
            self.sizes = Sizes::Open;
        }
    }

    /// Chunk `n` of the new order is chunk `order[n]` of the old one; must be a permutation.
    pub(crate) fn reorder(&mut self, order: &[usize]) {
        let pick = |n: &usize| self.entries.get(*n).copied().unwrap_or_default();
        self.entries = Arc::new(order.iter().map(pick).collect());
        if let Sizes::Individual(sizes) = &mut self.sizes {
            *sizes = Arc::new(order.iter().map(|n| sizes.get(*n).copied().unwrap_or_default()).collect());
        }
    }

    /// Checks what only shows when all is put together.
    pub(crate) fn check(&self) -> Result<(), FrameError> {
        if self.nbytes == 0 && !self.entries.is_empty() {
            return Err(FrameError::argument("chunks", "all of them are empty"));
        }
        room_for(self.nchunks())
    }

    /// The header as it has to be stored.
    pub(crate) fn encode_header(&self, cbytes: u64, frame_len: u64) -> Bytes {
        let mut header = BytesMut::from(&self.header[..]);
        let individual = self.is_individual();
        let old_flags = self.header.get(patch::FLAGS).copied().unwrap_or_default();
        let mut flags = old_flags;
        if !self.entries.is_empty() {
            let version = match flags & 0x0F {
                _ if individual || self.vl_blocks => 3,
                3 => 2,
                version => version,
            };
            flags = flags & 0x30 | version | u8::from(individual) << 6 | u8::from(self.vl_blocks) << 7;
        }
        patch::put(&mut header, patch::FLAGS, &[flags]);
        let stored = header.get(patch::CHUNKSIZE..).and_then(|bytes| bytes.first_chunk());
        let chunksize = match self.sizes {
            // -1 or 0, as it was.
            Sizes::Open => stored.map_or(0, |bytes| i32::from_be_bytes(*bytes)).min(0),
            Sizes::Equal { chunksize, .. } => chunksize as i32,
            Sizes::Individual(_) => 0,
        };
        patch::put(&mut header, patch::CHUNKSIZE, &chunksize.to_be_bytes());
        patch::put(&mut header, patch::NBYTES, &self.nbytes.to_be_bytes());
        patch::put(&mut header, patch::CBYTES, &cbytes.to_be_bytes());
        patch::put(&mut header, patch::FRAME_LEN, &frame_len.to_be_bytes());
        let vlmetalayers = if self.vlmetalayers.is_empty() { 0xC2 } else { 0xC3 };
        patch::put(&mut header, patch::HAS_VLMETALAYERS, &[vlmetalayers]);
        header.freeze()
    }

    /// The same as opening would find. `header` is what [`State::encode_header`] made; `sums` are of chunks that were there
    /// before.
    pub(crate) fn opened(
        &self,
        header: &Bytes,
        layout: Layout,
        sums: Option<Sums>,
        dparams: &DParams,
    ) -> Result<Opened, FrameError> {
        let vlmetalayers = VlMetalayers::from_entries(self.vlmetalayers.to_vec(), dparams);
        Ok(Opened {
            header: FrameHeader::parse(header)?,
            header_bytes: header.clone(),
            metalayers: Metalayers::parse(header)?,
            index: Index::from_entries(self.entries.clone()),
            trailer: Trailer { version: 1, vlmetalayers, fingerprint_kind: 0, fingerprint: [0; 16] },
            layout,
            // There is no trailer that could say something.
            checksums: Checksums::None,
            sums,
        })
    }
}

/// Checks that a frame may have that many chunks.
pub(crate) fn room_for(nchunks: usize) -> Result<(), FrameError> {
    if nchunks > MAX_NCHUNKS {
        return Err(FrameError::argument("chunks", format!("{nchunks}, at most {MAX_NCHUNKS}")));
    }
    Ok(())
}

/// Checks the uncompressed size of a chunk that is to be made.
pub(crate) fn check_nbytes(nbytes: usize) -> Result<(), FrameError> {
    if nbytes > MAX_CHUNK_NBYTES {
        return Err(FrameError::argument("chunk", format!("{nbytes} bytes, at most {MAX_CHUNK_NBYTES}")));
    }
    Ok(())
}
