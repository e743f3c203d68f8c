//! Several operations that succeed or fail together, inside of what will be one commit.

use std::sync::Arc;

use crate::FrameError;
use crate::edit::FrameEditor;
use crate::edit::state::State;

/// The staged changes of a moment. Made by [`FrameEditor::savepoint`].
#[derive(Clone, Debug)]
pub struct Savepoint {
    staged: State,
    epoch: Arc<()>,
}

impl FrameEditor {
    /// Remembers what is staged, to go back to it when an operation fails.
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
    /// When something buffered cannot be written.
    pub fn savepoint(&mut self) -> Result<Savepoint, FrameError> {
        self.settle()?;
        Ok(Savepoint { staged: self.staged.clone(), epoch: self.epoch.clone() })
    }

    /// Forgets all changes since a savepoint. `false`, and nothing happens, if there was a commit or a rollback
    /// since, or the savepoint is another editor's. Chunks that were put since take space until they are
    /// compacted away.
    pub fn restore(&mut self, savepoint: &Savepoint) -> bool {
        let valid = Arc::ptr_eq(&savepoint.epoch, &self.epoch);
        if valid {
            self.tail = None;
            self.staged = savepoint.staged.clone();
        }
        valid
    }
}
