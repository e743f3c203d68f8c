//! Changes metalayers and vlmetalayers.

use std::sync::Arc;

use ::bytes::BytesMut;
use b2_chunk::Chunk;

use crate::FrameError;
use crate::format::metalayers::{Metalayers, VlMetalayers, show};
use crate::write::edit::FrameEditor;
use crate::write::state::Head;

impl FrameEditor {
    /// Returns the metalayers, including uncommitted changes.
    pub fn metalayers(&self) -> &Metalayers {
        &self.draft.state.head.metalayers
    }

    /// Returns the vlmetalayers, including uncommitted changes.
    pub fn vlmetalayers(&self) -> VlMetalayers {
        VlMetalayers::from_entries(self.draft.state.vlmetalayers.to_vec(), &self.draft.fit.dparams)
    }

    /// Changes the value of a metalayer. It becomes visible in the same write as the chunks of the
    /// commit.
    ///
    /// # Errors
    /// When the metalayer does not exist, or the new value has another length than the old one.
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
        self.draft.state.head = Arc::new(Head { header, metalayers, bytes });
        Ok(())
    }

    /// Compresses and sets a vlmetalayer. By convention the value is msgpack.
    ///
    /// # Errors
    /// When the name does not have 1 to 31 bytes, and for a new name if there are already 16 (see
    /// [`EditOptions::many_vlmetalayers`](crate::EditOptions::many_vlmetalayers)).
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        self.draft.set_vlmetalayer(name.as_ref(), value)
    }

    /// Sets a vlmetalayer to a compressed value.
    ///
    /// # Errors
    /// As for [`set_vlmetalayer`](Self::set_vlmetalayer).
    pub fn set_vlmetalayer_chunk(&mut self, name: impl AsRef<[u8]>, value: Chunk) -> Result<(), FrameError> {
        self.draft.set_vlmetalayer_chunk(name.as_ref(), value)
    }

    /// Removes a vlmetalayer. Returns whether it existed.
    pub fn remove_vlmetalayer(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let Some(place) = self.draft.state.vlmetalayers.iter().position(|(n, _)| n == name) else {
            return false;
        };
        Arc::make_mut(&mut self.draft.state.vlmetalayers).remove(place);
        true
    }
}
