//! Changing items from many threads.

use std::sync::{Mutex, PoisonError};

use b2_chunk::CParams;

use crate::edit::ArrayEditor;
use crate::edit::set::{changed, to_bytes};
use crate::moves::Moves;
use crate::view::check_len;
use crate::{Element, NdArray, NdError, Select};

/// Changes items of one array from many threads at once. Made by [`ArrayEditor::share`].
///
/// Chunks that are selected whole are compressed by the calling thread while others do the same; only storing
/// them takes turns. Chunks that are not selected whole are read, changed and compressed one at a time, so that no
/// two threads lose each other's items. Which of two threads that set the same item comes last is open.
///
/// ```
/// # use b2nd::{ArrayBuilder, Fill, NdArray};
/// let frame = ArrayBuilder::of::<u8>([4, 100]).chunkshape([1, 100]).to_memory(&mut Fill::zeros())?;
/// let mut editor = NdArray::edit_bytes(frame)?;
/// let shared = editor.share()?;
/// std::thread::scope(|scope| {
///     let rows = [0, 1, 2, 3].map(|row| {
///         let shared = &shared;
///         scope.spawn(move || shared.set_slice([row], &[row as u8 + 1; 100]))
///     });
///     rows.into_iter().try_for_each(|row| row.join().unwrap())
/// })?;
/// drop(shared);
/// assert_eq!(editor.snapshot()?.slice([(..).into(), b2nd::SliceDim::Index(50)])?.read()?, [1, 2, 3, 4]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Debug)]
pub struct SharedEditor<'a> {
    editor: Mutex<&'a mut ArrayEditor>,
    /// As it was when it was shared; its geometry stays.
    array: NdArray,
    cparams: CParams,
}

impl ArrayEditor {
    /// Lets many threads change items at once. The shape cannot change meanwhile.
    ///
    /// # Errors
    /// When the frame's header names a codec or filter that is not at hand.
    pub fn share(&mut self) -> Result<SharedEditor<'_>, NdError> {
        self.usable()?;
        let (array, cparams) = (self.now()?.clone(), self.cparams()?);
        Ok(SharedEditor { editor: Mutex::new(self), array, cparams })
    }
}

impl SharedEditor<'_> {
    /// Length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        self.array.shape()
    }

    /// Sets the selected items, as [`ArrayEditor::set_slice`].
    ///
    /// # Errors
    /// As [`ArrayEditor::set_slice`].
    pub fn set_slice<D: Clone + Into<Select>>(
        &self,
        selection: impl AsRef<[D]>,
        items: &[u8],
    ) -> Result<(), NdError> {
        let slice = self.array.slice(selection)?;
        check_len(items.len(), slice.nbytes())?;
        let moves = slice.moves(0, &slice.strides())?;
        for npart in 0..moves.nparts() {
            let part = moves.part(npart)?;
            let ready =
                if part.whole { Some(changed(&self.array, &part, items, &self.cparams)?) } else { None };
            // A panic elsewhere left the editor broken, which shows.
            let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
            editor.guarded(|editor| {
                let chunk = match ready {
                    Some(chunk) => chunk,
                    // With what others have changed.
                    None => changed(editor.now()?, &part, items, &self.cparams)?,
                };
                Ok(editor.frame.update(part.nchunk, chunk)?)
            })?;
        }
        Ok(())
    }

    /// Sets the selected items to Rust values, as [`ArrayEditor::set_items`].
    ///
    /// # Errors
    /// As [`ArrayEditor::set_items`].
    pub fn set_items<D: Clone + Into<Select>, T: Element>(
        &self,
        selection: impl AsRef<[D]>,
        items: &[T],
    ) -> Result<(), NdError> {
        self.set_slice(selection, &to_bytes(self.array.dtype(), items)?)
    }
}
