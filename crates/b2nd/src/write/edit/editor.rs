//! Opens arrays for changing, commits the changes, and returns the staged array.

use std::path::Path;
use std::sync::Arc;

use b2_chunk::{CParams, Compatibility, Compression};
use b2_core::Control;
use b2_frame::{CommitReport, EditOptions, FrameEditor};
use bytes::Bytes;

use crate::model::meta::{METALAYER, OLD_METALAYER};
use crate::read::array::{ArrayInfo, check_chunksize};
use crate::write::produce::controlled;
use crate::{Dtype, Geometry, NdArray, NdError};

/// The number of a dimension, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis(pub usize);

impl From<usize> for Axis {
    fn from(axis: usize) -> Self {
        Self(axis)
    }
}

#[cfg(feature = "ndarray")]
impl From<ndarray::Axis> for Axis {
    fn from(axis: ndarray::Axis) -> Self {
        Self(axis.0)
    }
}

/// An array that is open for changing, in a contiguous file, a sparse directory, or a buffer.
///
/// Changes are staged until [`commit`](Self::commit) makes all of them visible in one step. After a
/// crash or a power loss at any moment, the array is exactly the old or exactly the new one, shape
/// and items together, for this crate and for C-Blosc2. Dropping the editor discards changes that
/// were not committed.
///
/// An operation that fails changes nothing; earlier staged changes remain.
///
/// ```
/// use b2nd::{ArrayBuilder, Axis, NdArray, RegionSource, source};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log.b2nd");
/// ArrayBuilder::new::<i32>([0, 3]).chunks([100, 3]).write(&path, source::zeros())?;
///
/// let mut editor = NdArray::edit(&path)?;
/// editor.append(Axis(0), [1, 2, 3, 4, 5, 6])?;
/// editor.set((.., 1), [20, 50])?;
/// editor.resize(&[3, 3])?;
/// editor.commit()?;
/// assert_eq!(NdArray::open(&path)?.all().read::<Vec<i32>>()?, [1, 20, 3, 4, 50, 6, 0, 0, 0]);
///
/// // Several operations, one commit; nothing happens if one of them fails.
/// editor.transaction(|editor| {
///     editor.delete(Axis(0), 0..1)?;
///     editor.insert(Axis(1), 0, source::value(-1).with_length(1))
/// })?;
/// assert_eq!(NdArray::open(&path)?.all().read::<Vec<i32>>()?, [-1, 4, 50, 6, -1, 0, 0, 0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Debug)]
pub struct ArrayEditor {
    pub(super) frame: FrameEditor,
    /// The geometry of the chunks in the frame.
    pub(super) geometry: Geometry,
    pub(super) dtype: Dtype,
    /// The properties of the array when it was opened. Everything but its geometry remains valid. The array itself
    /// would keep the file open, which Windows then cannot replace, and the memory of a frame replaced by a compaction.
    opened: Arc<ArrayInfo>,
    /// Compression of new chunks; `None` if this build lacks the codec or a filter.
    pub(super) cparams: Option<CParams>,
    /// Whether the frame header has the array's block size, which C-Blosc2 needs for special index
    /// entries.
    pub(super) has_blocksize: bool,
    pub(super) pending: PendingRows,
    /// The staged array, cached until the next change.
    pub(super) current: Option<NdArray>,
    pub(super) control: Control,
    /// Whether a rollback failed.
    broken: bool,
}

/// Rows appended along the first axis that are not in chunks yet.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    pub(super) items: Vec<u8>,
    /// The geometry of the array with these rows; `None` if there are none.
    pub(super) geometry: Option<Geometry>,
}

impl NdArray {
    /// Opens an array in a file or directory for changing. Other writers wait until the editor is
    /// dropped.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`EditOptions::edit`], for example [`FrameError::Lock`](b2_frame::FrameError::Lock)
    /// when the lock file cannot be created, or [`FrameError::ForeignBytes`](b2_frame::FrameError::ForeignBytes) when
    /// the file has bytes after the frame that are not part of it; as for [`open`](Self::open) when the frame is not an
    /// array.
    pub fn edit(path: impl AsRef<Path>) -> Result<ArrayEditor, NdError> {
        Self::edit_with(path, &EditOptions::default())
    }

    /// Opens an array for changing with options: durability, locking, plugins, file system, and more.
    ///
    /// ```
    /// use b2_frame::{Durability, FrameEditor};
    /// # use b2nd::{ArrayBuilder, Axis, NdArray};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.b2nd");
    /// # NdArray::write(&path, [1u8])?;
    ///
    /// // Nobody else changes the file, and it can be made again after a power loss.
    /// let options = FrameEditor::options().lock(false).durability(Durability::None);
    /// let mut editor = NdArray::edit_with(&path, &options)?;
    /// editor.append(Axis(0), &[2u8, 3])?;
    /// editor.commit()?;
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`edit`](Self::edit); [`NdError::Frame`] with [`FrameError::Argument`](b2_frame::FrameError::Argument)
    /// when the options have an offset.
    pub fn edit_with(path: impl AsRef<Path>, options: &EditOptions) -> Result<ArrayEditor, NdError> {
        ArrayEditor::new(options.edit(path)?)
    }

    /// Opens an array in memory for changing. The buffer is copied only if others share it.
    /// [`ArrayEditor::into_bytes`] returns the changed frame.
    ///
    /// # Errors
    /// As for [`from_bytes`](Self::from_bytes).
    pub fn edit_bytes(frame: impl Into<Bytes>) -> Result<ArrayEditor, NdError> {
        ArrayEditor::new(EditOptions::default().edit_bytes(frame)?)
    }

    /// Updates an array on disk to its newest committed state, including its shape. Returns whether
    /// there was a newer one.
    ///
    /// # Errors
    /// As for [`open`](Self::open). After an error this array is unchanged.
    pub fn refresh(&mut self) -> Result<bool, NdError> {
        let mut frame = self.super_chunk().clone();
        if !frame.refresh()? {
            return Ok(false);
        }
        *self = Self::from_super_chunk(frame)?;
        Ok(true)
    }
}

impl ArrayEditor {
    /// Creates an editor for the array in a frame that is open for changing.
    ///
    /// # Errors
    /// As for [`NdArray::from_super_chunk`] when the frame is not an array, or its fields contradict each other; as for
    /// [`FrameEditor::snapshot`], in [`NdError::Frame`].
    pub fn new(mut frame: FrameEditor) -> Result<Self, NdError> {
        let array = NdArray::from_super_chunk(frame.snapshot()?)?;
        let chunksize = array.super_chunk().header().chunksize();
        if array.super_chunk().nchunks() == 0 && chunksize > 0 {
            // An empty array is readable even if its header is wrong, but the first chunk would not
            // be.
            let metalayers = array.super_chunk().metalayers();
            let name = if metalayers.get(METALAYER).is_some() { METALAYER } else { OLD_METALAYER };
            check_chunksize(name, array.meta(), array.geometry(), chunksize)?;
        }
        frame.set_container(array.super_chunk().dparams().container.clone());
        Ok(Self {
            geometry: array.geometry().clone(),
            dtype: array.dtype().clone(),
            cparams: array.cparams().ok(),
            has_blocksize: array.super_chunk().header().blocksize() == array.geometry().block_nbytes(),
            frame,
            pending: PendingRows::default(),
            control: array.super_chunk().dparams().control.clone(),
            opened: array.about(),
            current: Some(array),
            broken: false,
        })
    }

    /// Returns the length of each dimension, in items, including staged changes.
    pub fn shape(&self) -> &[u64] {
        self.geometry().shape()
    }
    /// Returns the geometry of the array, including staged changes.
    pub fn geometry(&self) -> &Geometry {
        self.pending.geometry.as_ref().unwrap_or(&self.geometry)
    }
    /// Returns the dtype of the items.
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// Sets the compression of new chunks. Item size, block size and block shape come from the
    /// array. The frame header, which gives other writers their defaults, is not changed.
    ///
    /// # Errors
    /// [`NdError::Chunk`] when the parameters do not fit the array, as for [`Compression::build`];
    /// [`NdError::Argument`] when they are for C-Blosc 1, or for items of another dtype ([`Dtype::check_compression`]).
    pub fn set_compression(&mut self, compression: impl Into<Compression>) -> Result<(), NdError> {
        let builder = compression.into().itemsize(self.geometry.itemsize());
        let builder = builder.blocksize(self.geometry.block_nbytes()).blockshape(self.geometry.blockshape());
        let cparams = builder.build()?;
        if cparams.compatibility() != Compatibility::Blosc2 {
            return Err(NdError::argument("arrays need chunks of Blosc2"));
        }
        self.dtype.check_compression(&cparams)?;
        self.cparams = Some(cparams);
        Ok(())
    }

    /// Sets the threads, the thread pool and the progress callback of further changes. The callback
    /// may cancel a change, which then fails and changes nothing.
    pub fn set_control(&mut self, control: Control) {
        self.control = control;
    }

    /// Returns the array with all changes, committed or not, for reading. Later changes do not
    /// affect it. It must not be used after a [`rollback`](Self::rollback).
    ///
    /// # Errors
    /// [`NdError::Frame`] or [`NdError::Chunk`] when buffered rows cannot be compressed or written, or an earlier
    /// [`rollback`](Self::rollback) failed; [`NdError::Limit`], [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    pub fn snapshot(&mut self) -> Result<NdArray, NdError> {
        self.usable()?;
        Ok(self.now()?.clone())
    }

    /// Sets a vlmetalayer. The change becomes visible with the next commit.
    ///
    /// A commit that changes items or the shape marks the indexes of python-blosc2 as outdated, which `blosc2_indexes`
    /// describes: set that one in a commit that follows.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`EditVlMeta::set`](b2_frame::EditVlMeta::set).
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), NdError> {
        self.current = None;
        Ok(self.frame.vlmeta().set(name, value)?)
    }

    /// Removes a vlmetalayer. Returns whether it existed.
    pub fn remove_vlmetalayer(&mut self, name: impl AsRef<[u8]>) -> bool {
        self.current = None;
        self.frame.vlmeta().remove(name)
    }

    /// Replaces the value of a metalayer by one of the same length.
    ///
    /// # Errors
    /// [`NdError::Argument`] for the array's own metalayer, otherwise [`NdError::Frame`] as for
    /// [`FrameEditor::set_metalayer`].
    pub fn set_metalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), NdError> {
        let name = name.as_ref();
        if [METALAYER.as_bytes(), OLD_METALAYER.as_bytes()].contains(&name) {
            return Err(NdError::argument("the array's own metalayer changes only with its shape"));
        }
        self.current = None;
        Ok(self.frame.set_metalayer(name, value)?)
    }

    /// Makes all staged changes visible atomically.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`FrameEditor::commit`], which names the errors after which the commit has taken
    /// effect nevertheless; as for [`snapshot`](Self::snapshot) when buffered rows cannot be written. After any other
    /// error the array on disk is unchanged, and the changes are still staged.
    pub fn commit(&mut self) -> Result<CommitReport, NdError> {
        self.usable()?;
        self.flush()?;
        // Drop our snapshot: in memory, the chunks that it holds cannot be freed.
        self.current = None;
        Ok(self.frame.commit()?)
    }

    /// Discards all changes since the last commit.
    ///
    /// # Errors
    /// As for [`NdArray::open`] when the committed array cannot be opened; the editor is unusable then: its calls fail
    /// with [`NdError::Frame`], of the variant [`FrameError::Abandoned`](b2_frame::FrameError::Abandoned).
    pub fn rollback(&mut self) -> Result<(), NdError> {
        self.current = None;
        self.pending = PendingRows::default();
        self.broken = true;
        self.frame.rollback();
        let array = NdArray::from_super_chunk(self.frame.snapshot()?)?;
        self.geometry = array.geometry().clone();
        self.current = Some(array);
        self.broken = false;
        Ok(())
    }

    /// Runs operations and commits them. If an operation or the commit fails, all changes since the
    /// last commit are rolled back.
    ///
    /// # Errors
    /// Those of `operations`, and as for [`commit`](Self::commit).
    pub fn transaction<T>(
        &mut self,
        operations: impl FnOnce(&mut Self) -> Result<T, NdError>,
    ) -> Result<T, NdError> {
        let result = operations(self).and_then(|output| self.commit().map(|_| output));
        if result.is_err() {
            // Return the first error. If the rollback fails too, the editor stays unusable.
            let _ = self.rollback();
        }
        result
    }

    /// Commits, and reclaims the space of dead bytes.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`FrameEditor::compact`], and as for [`snapshot`](Self::snapshot) when buffered rows
    /// cannot be written.
    pub fn compact(&mut self) -> Result<CommitReport, NdError> {
        self.usable()?;
        self.flush()?;
        self.current = None;
        Ok(self.frame.compact()?)
    }

    /// Returns the number of dead bytes in the committed frame, to which nothing refers.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`FrameEditor::dead_bytes`].
    pub fn dead_bytes(&mut self) -> Result<u64, NdError> {
        Ok(self.frame.dead_bytes()?)
    }

    /// Returns the frame as last committed, as [`FrameEditor::into_bytes`] does.
    pub fn into_bytes(self) -> Option<Bytes> {
        let Self { frame, current, .. } = self;
        // While it exists, the frame would have to be copied.
        drop(current);
        frame.into_bytes()
    }

    pub(super) fn usable(&self) -> Result<(), NdError> {
        match self.broken {
            false => Ok(()),
            true => Err(NdError::Frame(b2_frame::FrameError::Abandoned)),
        }
    }

    /// Returns the staged array.
    pub(super) fn now(&mut self) -> Result<&NdArray, NdError> {
        self.flush()?;
        let array = match self.current.take() {
            Some(array) => array,
            None => self.opened.staged(self.frame.snapshot()?, self.geometry.clone()),
        };
        Ok(self.current.insert(array))
    }

    /// Returns the compression parameters for the chunks of one call.
    pub(super) fn cparams(&self, control: &Control) -> Result<CParams, NdError> {
        let cparams = match &self.cparams {
            Some(cparams) => controlled(cparams, control),
            // Building the parameters again returns the reason why that is impossible.
            None => controlled(&self.frame.cparams()?, control),
        }?;
        self.dtype.check_compression(&cparams)?;
        Ok(cparams)
    }

    /// Runs a change and undoes it if it fails.
    pub(super) fn guarded<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, NdError>,
    ) -> Result<T, NdError> {
        self.usable()?;
        let (before, geometry) = (self.frame.savepoint()?, self.geometry.clone());
        // The editor stays marked as broken if the change panics.
        self.broken = true;
        let result = change(self);
        self.current = None;
        self.broken = result.is_err() && !self.frame.restore(&before);
        if result.is_err() {
            self.geometry = geometry;
        }
        result
    }
}
