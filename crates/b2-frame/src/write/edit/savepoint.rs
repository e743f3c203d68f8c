//! Savepoints, which make several operations succeed or fail together before the commit.

use std::sync::Arc;

use crate::FrameError;
use crate::write::edit::FrameEditor;
use crate::write::state::FrameState;

/// The staged changes at some moment. Returned by [`FrameEditor::savepoint`].
#[derive(Clone, Debug)]
pub struct Savepoint {
    staged: FrameState,
    epoch: Arc<()>,
}

impl FrameEditor {
    /// Records what is staged, so that a failed operation can be undone.
    ///
    /// ```
    /// use b2_frame::{FrameEditor, FrameError, FrameParams};
    ///
    /// let mut editor = FrameEditor::memory(FrameParams::new(1).chunksize(4))?;
    /// editor.append_bytes(&[1, 2, 3, 4, 5])?;
    /// let before = editor.savepoint()?;
    /// editor.append_bytes(&[6, 7])?;
    /// editor.delete(0)?;
    /// assert!(editor.restore(&before));
    /// assert_eq!(editor.snapshot()?.read_bytes(0..5)?, [1, 2, 3, 4, 5]);
    ///
    /// editor.commit()?;
    /// assert!(!editor.restore(&before));
    /// # Ok::<(), FrameError>(())
    /// ```
    ///
    /// # Errors
    /// [`FrameError::Chunk`] or [`FrameError::Io`] when a buffered last chunk cannot be compressed or written,
    /// [`FrameError::Abandoned`] after a sync that failed.
    pub fn savepoint(&mut self) -> Result<Savepoint, FrameError> {
        self.flush_tail()?;
        self.collect_garbage();
        Ok(Savepoint { staged: self.draft.state.clone(), epoch: self.epoch.clone() })
    }

    /// Frees the memory of chunks that are not used any more, unless something could bring them back. New chunks may get
    /// their index entries, so nothing that compares entries may run meanwhile: `prepare` and `install` never call this.
    pub(super) fn collect_garbage(&mut self) {
        if Arc::strong_count(&self.epoch) == 1 {
            self.draft.store.collect_garbage(&self.draft.state.entries);
        }
    }

    /// Undoes all changes since a savepoint. Returns `false` and does nothing if there was a commit
    /// or a rollback since, or if the savepoint belongs to another editor. Chunks stored since then
    /// take space until the frame is compacted.
    pub fn restore(&mut self, savepoint: &Savepoint) -> bool {
        let valid = Arc::ptr_eq(&savepoint.epoch, &self.epoch);
        if valid {
            self.tail = None;
            self.draft.state = savepoint.staged.clone();
            self.draft.settle_rules();
        }
        valid
    }
}
