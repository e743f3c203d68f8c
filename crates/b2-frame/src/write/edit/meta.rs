//! Changes metalayers and vlmetalayers.

use std::sync::Arc;

use bytes::BytesMut;

use crate::FrameError;
use crate::format::metalayers::{Metalayers, VlMetalayers, show};
use crate::write::draft::Draft;
use crate::write::edit::FrameEditor;
use crate::write::state::StoredHeader;

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
        if let Some(old) = bytes.get_mut(place) {
            old.copy_from_slice(value);
        }
        let bytes = bytes.freeze();
        let (header, metalayers) = (head.header.clone(), Metalayers::parse(&bytes)?);
        self.draft.state.head = Arc::new(StoredHeader { header, metalayers, bytes });
        Ok(())
    }

    /// Returns the vlmetalayers, including uncommitted changes.
    pub fn vlmetalayers(&self) -> VlMetalayers {
        VlMetalayers::from_entries(self.draft.state.vlmetalayers.to_vec(), &self.draft.rules.dparams)
    }

    /// Returns what changes the vlmetalayers.
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
        self.0.set_vlmetalayer(name.as_ref(), value)
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
