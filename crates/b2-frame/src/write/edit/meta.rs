//! Changes metalayers, vlmetalayers, and what else is in the header.

use std::sync::Arc;

use b2_chunk::{Chunk, MAX_BLOCKSIZE, MAX_CHUNK_NBYTES};
use bytes::BytesMut;

use crate::FrameError;
use crate::format::indexes::{INDEXES, OutdatedIndexes, outdate_indexes};
use crate::format::metalayers::{Metalayers, VlMetalayers, show};
use crate::write::draft::Draft;
use crate::write::edit::FrameEditor;
use crate::write::state::{Sizes, StoredHeader};

/// Changes the vlmetalayers of a frame. Returned by [`FrameEditor::vlmeta`].
pub struct EditVlMeta<'e>(&'e mut Draft);

impl FrameEditor {
    /// Returns the metalayers, including uncommitted changes.
    pub fn metalayers(&self) -> &Metalayers {
        &self.draft.state.head.metalayers
    }

    /// Changes the value of a metalayer. It becomes visible in the same write as the chunks of the
    /// commit.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the metalayer does not exist, or the new value has another length than the old
    /// one.
    pub fn set_metalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let name = name.as_ref();
        let head = &self.draft.state.head;
        let Some(place) = Metalayers::parse(&head.bytes)?.place(&head.bytes, name) else {
            return Err(FrameError::argument("metalayer", format!("{:?} does not exist", show(name))));
        };
        if place.len() != value.len() {
            let what =
                format!("{:?} has {} bytes, but the new value has {}", show(name), place.len(), value.len());
            return Err(FrameError::argument("metalayer", what));
        }
        let mut bytes = BytesMut::from(&head.bytes[..]);
        // The shape of an array is in a metalayer.
        let mut changed = false;
        if let Some(old) = bytes.get_mut(place) {
            changed = old != value;
            old.copy_from_slice(value);
        }
        let bytes = bytes.freeze();
        let (header, metalayers) = (head.header.clone(), Metalayers::parse(&bytes)?);
        self.draft.state.head = Arc::new(StoredHeader { header, metalayers, bytes });
        self.draft.state.items_changed |= changed;
        Ok(())
    }

    /// Adds a metalayer. By convention the value is msgpack.
    ///
    /// The header grows, and in a contiguous frame the chunks follow the header. So the commit rewrites such a frame
    /// next to the old one, without dead space, and replaces it; in all other respects it is a commit like others. Of a
    /// sparse frame only the index is written, as always.
    ///
    /// ```
    /// # use b2_frame::{FrameEditor, FrameError, FrameParams, SuperChunk};
    /// let mut editor = FrameEditor::memory(FrameParams::new(1).chunksize(4))?;
    /// editor.append_bytes(&[1, 2, 3, 4, 5])?;
    /// editor.add_metalayer("unit", b"\xa1m")?;
    /// editor.commit()?;
    /// let schunk = SuperChunk::from_bytes(editor.into_bytes().unwrap_or_default())?;
    /// assert_eq!(schunk.metalayers().get("unit"), Some(&b"\xa1m"[..]));
    /// # Ok::<(), FrameError>(())
    /// ```
    ///
    /// # Errors
    /// [`FrameError::Argument`] when there is one of this name already, when there are 16, or when the name does not
    /// have 1 to 31 bytes; [`FrameError::Limit`] when all values together exceed 2 GiB.
    pub fn add_metalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let head = &self.draft.state.head;
        let old = head.metalayers.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        let metalayers = Metalayers::new(old.chain([(name.as_ref().to_vec(), value.to_vec())]).collect())?;
        self.draft.state.head = Arc::new(head.with_metalayers(&metalayers)?);
        Ok(())
    }

    /// Sets the uncompressed size of every chunk except possibly the last, in bytes, as long as there are no chunks.
    /// Otherwise the first chunk decides.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when there are chunks, or when the size is 0 or exceeds that of a chunk.
    pub fn set_chunksize(&mut self, chunksize: usize) -> Result<(), FrameError> {
        if self.nchunks() > 0 {
            return Err(FrameError::argument("chunksize", "cannot be set when there are chunks"));
        }
        if chunksize == 0 || chunksize > MAX_CHUNK_NBYTES {
            let what = format!("{chunksize} bytes, expected 1 to {MAX_CHUNK_NBYTES}");
            return Err(FrameError::argument("chunksize", what));
        }
        let state = &mut self.draft.state;
        state.sizes = Sizes::Equal { chunksize, last: chunksize };
        state.head = state.head(state.head.header.cbytes, state.head.header.frame_len);
        Ok(())
    }

    /// Sets the size of the blocks of special chunks, in bytes, as long as there are no chunks.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when there are chunks, or when the size is 0 or exceeds that of a block.
    pub fn set_blocksize(&mut self, blocksize: usize) -> Result<(), FrameError> {
        if self.nchunks() > 0 {
            return Err(FrameError::argument("blocksize", "cannot be set when there are chunks"));
        }
        let Some(stored) = i32::try_from(blocksize).ok().filter(|_| (1..=MAX_BLOCKSIZE).contains(&blocksize))
        else {
            let what = format!("{blocksize} bytes, expected 1 to {MAX_BLOCKSIZE}");
            return Err(FrameError::argument("blocksize", what));
        };
        self.draft.state.head = Arc::new(self.draft.state.head.with_blocksize(stored));
        self.draft.settle_rules();
        Ok(())
    }

    /// Returns the vlmetalayers, including uncommitted changes.
    pub fn vlmetalayers(&self) -> VlMetalayers {
        VlMetalayers::from_entries(self.draft.state.vlmetalayers.to_vec(), &self.draft.rules.dparams)
    }

    /// Marks the indexes that python-blosc2 keeps of the items as outdated, so that it does not use them. A description that
    /// cannot be read is removed.
    pub(super) fn outdate_indexes(&mut self) -> Result<(), FrameError> {
        if !self.draft.state.vlmetalayers.iter().any(|(name, _)| name == INDEXES.as_bytes()) {
            return Ok(());
        }
        let value = self.vlmetalayers().get(INDEXES).ok().flatten();
        match value.map_or(OutdatedIndexes::Unreadable, |value| outdate_indexes(&value)) {
            OutdatedIndexes::Same => {}
            OutdatedIndexes::New(value) => self.draft.set_vlmetalayer(INDEXES.as_bytes(), &value)?,
            OutdatedIndexes::Unreadable => {
                self.vlmeta().remove(INDEXES);
            }
        }
        Ok(())
    }

    /// Returns the vlmetalayers for changing.
    pub fn vlmeta(&mut self) -> EditVlMeta<'_> {
        EditVlMeta(&mut self.draft)
    }
}

impl std::fmt::Debug for EditVlMeta<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EditVlMeta").finish_non_exhaustive()
    }
}

impl EditVlMeta<'_> {
    /// Compresses and sets a vlmetalayer. By convention the value is msgpack.
    ///
    /// # Errors
    /// [`FrameError::Argument`] when the name does not have 1 to 31 bytes, and for a new name if there are already 16
    /// (see [`EditOptions::many_vlmetalayers`](crate::EditOptions::many_vlmetalayers)); [`FrameError::Chunk`] when the
    /// value is too long for a chunk.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let name = name.as_ref();
        self.set_chunk(name, self.0.compressed(name, value)?)
    }

    /// Like [`set`](Self::set), with a value that is compressed.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    #[doc(hidden)]
    pub fn set_chunk(&mut self, name: impl AsRef<[u8]>, value: Chunk) -> Result<(), FrameError> {
        let name = name.as_ref();
        self.0.set_vlmetalayer_chunk(name, value)?;
        if name == INDEXES.as_bytes() {
            // They describe the current items.
            self.0.state.items_changed = false;
        }
        Ok(())
    }

    /// Removes a vlmetalayer. Returns whether it existed.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let Some(place) = self.0.state.vlmetalayers.iter().position(|(n, _)| n == name) else {
            return false;
        };
        Arc::make_mut(&mut self.0.state.vlmetalayers).remove(place);
        true
    }
}
