//! Changes items from many threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use b2_core::{Control, memory};
use b2_frame::{Entry, PreparedChunk};

use crate::select::selection::IntoSelections;
use crate::write::edit::editor::ArrayEditor;
use crate::write::edit::set::{ItemUpdate, NewValues, check_values};
use crate::write::source::RegionSource;
use crate::{NdArray, NdError, Slice};

/// Changes items of one array concurrently from many threads. Returned by [`ArrayEditor::share`].
///
/// Each operation is atomic: it sets all its items at one moment, or none. The calling thread
/// reads, changes, compresses and stores its chunks while other threads do the same. It then takes
/// a lock, redoes chunks that it sets only in part and that others have changed in the meantime, and puts
/// all its chunks in place. So no thread loses the items of another. If two threads set the same
/// item, either value may remain.
///
/// An operation holds one chunk in memory at a time, and a few bytes for each finished chunk.
/// Chunks stored by an operation that fails take space in the file until it is compacted.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let frame = ArrayBuilder::new::<u8>([4, 100]).chunks([1, 100]).to_bytes(source::zeros())?;
/// let mut editor = NdArray::edit_bytes(frame)?;
/// let shared = editor.share()?;
/// std::thread::scope(|scope| {
///     let rows = [0, 1, 2, 3].map(|row| {
///         let shared = &shared;
///         scope.spawn(move || shared.set([row], [row as u8 + 1; 100]))
///     });
///     rows.into_iter().try_for_each(|row| row.join().unwrap())
/// })?;
/// drop(shared);
/// assert_eq!(editor.snapshot()?.slice((.., 50))?.read_bytes()?, [1, 2, 3, 4]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Debug)]
pub struct SharedEditor<'a> {
    editor: Mutex<&'a mut ArrayEditor>,
    /// The array when it was shared. Its geometry stays valid.
    array: NdArray,
    control: Control,
    has_blocksize: bool,
}

impl ArrayEditor {
    /// Lets many threads change items concurrently. The shape cannot change in the meantime.
    ///
    /// # Errors
    /// [`NdError::Frame`] when the frame header names an unknown codec or filter, otherwise as for
    /// [`snapshot`](Self::snapshot).
    pub fn share(&mut self) -> Result<SharedEditor<'_>, NdError> {
        self.usable()?;
        self.cparams(&self.control)?;
        let (array, control, has_blocksize) = (self.now()?.clone(), self.control.clone(), self.has_blocksize);
        Ok(SharedEditor { editor: Mutex::new(self), array, control, has_blocksize })
    }
}

/// A stored chunk, and the index entry it was made from if others may have changed that.
struct StagedChunk {
    npart: u64,
    prepared: PreparedChunk,
    base: Option<Entry>,
}

impl<'e> SharedEditor<'e> {
    /// Sets the selected items, like [`ArrayEditor::set`].
    ///
    /// # Errors
    /// As for [`ArrayEditor::set`].
    pub fn set(&self, selection: impl IntoSelections, mut values: impl RegionSource) -> Result<(), NdError> {
        check_values(self.array.dtype(), &values)?;
        self.set_view(&self.array.slice(selection)?, &mut values)
    }

    /// Sets the selected items to stored bytes, like [`ArrayEditor::set_bytes`].
    ///
    /// # Errors
    /// As for [`ArrayEditor::set_bytes`].
    pub fn set_bytes(&self, selection: impl IntoSelections, items: &[u8]) -> Result<(), NdError> {
        self.set_view(&self.array.slice(selection)?, &mut &*items)
    }

    fn set_view(&self, slice: &Slice, values: &mut dyn RegionSource) -> Result<(), NdError> {
        let items = NewValues::of_view(values, slice)?;
        let moves = slice.moves(items.offset, &items.strides)?;
        let whole = items.whole(self.array.geometry(), self.has_blocksize)?;
        let control = self.control.begin(moves.nbytes(), self.array.itemsize() as u64);
        let (array, cparams) = {
            let mut editor = self.turn();
            (editor.now()?.clone().with_control(control.quiet()), editor.cparams(&control)?)
        };
        let setting = ItemUpdate { array: &array, moves: &*moves, items: &items.bytes, whole, cparams };
        let mut ready = memory::list(usize::try_from(moves.nparts()).unwrap_or(usize::MAX))?;
        for npart in 0..moves.nparts() {
            let part = moves.part(npart)?;
            let chunk = setting.chunk(&part)?;
            let base = if part.whole { None } else { Some(array.super_chunk().chunk(part.nchunk).entry()?) };
            let prepared = self.turn().frame.prepare(part.nchunk, chunk)?;
            ready.push(StagedChunk { npart, prepared, base });
            control.advance(setting.share(npart))?;
        }
        if ready.is_empty() {
            return Ok(());
        }
        let mut editor = self.turn();
        // The array with the changes of other threads, if any of them touched our chunks.
        let mut now = None;
        for StagedChunk { npart, prepared, base } in &mut ready {
            if base.is_none() || *base == editor.frame.entry(prepared.nchunk()) {
                continue;
            }
            let array = match &mut now {
                Some(array) => array,
                None => now.insert(editor.now()?.clone().with_control(control.quiet())),
            };
            let setting = ItemUpdate { array, whole: None, cparams: setting.cparams.clone(), ..setting };
            let chunk = setting.chunk(&moves.part(*npart)?)?;
            *prepared = editor.frame.prepare(prepared.nchunk(), chunk)?;
            control.check()?;
        }
        let prepared: Vec<PreparedChunk> = ready.into_iter().map(|ready| ready.prepared).collect();
        editor.current = None;
        Ok(editor.frame.install(&prepared)?)
    }

    /// Locks the editor. A panic of another thread leaves the editor unchanged, so poisoning is
    /// ignored.
    fn turn(&self) -> MutexGuard<'_, &'e mut ArrayEditor> {
        self.editor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
