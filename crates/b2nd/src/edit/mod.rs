//! Arrays that change.
//!
//! - here: opening, committing, looking at the staged array
//! - `set`: changing items
//! - `shape`: growing and shrinking, which never shows old values
//! - `splice`: inserting and removing along an axis
//! - `pending`: appending in small pieces
//! - `chunks`: how chunks are put into the frame
//! - `shared`: changing items from many threads

mod chunks;
mod pending;
mod set;
mod shape;
mod shared;
mod splice;

use std::path::Path;

use b2_chunk::CParams;
use b2_frame::{Committed, FrameEditor};
use bytes::Bytes;

use self::pending::Pending;
pub use self::shared::SharedEditor;
use crate::array::check_chunksize;
use crate::meta::{METALAYER, OLD_METALAYER};
use crate::{ArrayOptions, Dtype, Geometry, NdArray, NdError};

/// An array, open for changing: in a contiguous file, a sparse directory, or a buffer.
///
/// Changes are staged until [`commit`](Self::commit) makes all of them visible in one step: after a crash or a
/// power loss at any moment the array is exactly the old or exactly the new one, shape and items together, for
/// this crate and for C-Blosc2. Dropping the editor forgets what was not committed.
///
/// An operation that fails changes nothing; what was staged before stays.
///
/// ```
/// use b2nd::{ArrayBuilder, Fill, NdArray, SliceDim};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("log.b2nd");
/// ArrayBuilder::of::<i32>([0, 3]).chunkshape([100, 3]).create(&path, &mut Fill::zeros())?;
///
/// let mut editor = NdArray::edit(&path)?;
/// let rows: Vec<u8> = (1..=6i32).flat_map(i32::to_le_bytes).collect();
/// editor.append(0, 2, &mut &rows[..])?;
/// editor.set_items([(..).into(), SliceDim::Index(1)], &[20, 50])?;
/// editor.resize(&[3, 3])?;
/// editor.commit()?;
/// assert_eq!(NdArray::open(&path)?.all().to_vec::<i32>()?, [1, 20, 3, 4, 50, 6, 0, 0, 0]);
///
/// // Several operations, one commit; nothing happens if one of them fails.
/// editor.transaction(|editor| {
///     editor.delete(0, 0..1)?;
///     editor.insert(1, 0, 1, &mut Fill::value(-1))
/// })?;
/// assert_eq!(NdArray::open(&path)?.all().to_vec::<i32>()?, [-1, 4, 50, 6, -1, 0, 0, 0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Debug)]
pub struct ArrayEditor {
    frame: FrameEditor,
    geometry: Geometry,
    dtype: Dtype,
    /// How new chunks are compressed; `None` if that cannot be done here.
    cparams: Option<CParams>,
    /// Whether the header has the size of the array's blocks, which C-Blosc2 needs for special entries.
    tells_blocks: bool,
    /// What was appended and is not in chunks yet.
    pending: Pending,
    /// The staged array, once it was looked at.
    current: Option<NdArray>,
    /// Whether a rollback failed.
    broken: bool,
}

impl ArrayOptions {
    /// Opens an array in a file or directory for changing. Other writers have to wait until the editor is
    /// dropped.
    ///
    /// # Errors
    /// As [`NdArray::open`], for arrays at an offset of a file, and when the lock file cannot be created or
    /// there are bytes behind the frame that are not part of it.
    pub fn edit(&self, path: impl AsRef<Path>) -> Result<ArrayEditor, NdError> {
        if self.offset != 0 {
            return Err(NdError::geometry("an array that does not start its file cannot be changed"));
        }
        ArrayEditor::new(self.options.edit(path)?)
    }

    /// Opens an array in memory for changing; [`ArrayEditor::into_bytes`] gives it back. The buffer is not
    /// copied unless others share it.
    ///
    /// # Errors
    /// As [`NdArray::from_bytes`].
    pub fn edit_bytes(&self, frame: impl Into<Bytes>) -> Result<ArrayEditor, NdError> {
        ArrayEditor::new(self.options.edit_bytes(frame)?)
    }
}

impl NdArray {
    /// Opens an array for changing, with default options.
    ///
    /// # Errors
    /// As [`ArrayOptions::edit`].
    pub fn edit(path: impl AsRef<Path>) -> Result<ArrayEditor, NdError> {
        Self::options().edit(path)
    }

    /// Opens an array in memory for changing, with default options.
    ///
    /// # Errors
    /// As [`ArrayOptions::edit_bytes`].
    pub fn edit_bytes(frame: impl Into<Bytes>) -> Result<ArrayEditor, NdError> {
        Self::options().edit_bytes(frame)
    }

    /// Brings an array on disk to its newest committed state, shape included; tells whether there was one.
    ///
    /// # Errors
    /// As opening; this array stays as it was then.
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
    /// Takes an array from a frame that is open for changing.
    ///
    /// # Errors
    /// When the frame is no array, or its parts contradict each other.
    pub fn new(mut frame: FrameEditor) -> Result<Self, NdError> {
        let array = NdArray::from_super_chunk(frame.snapshot()?)?;
        let chunksize = array.super_chunk().header().chunksize();
        if array.super_chunk().nchunks() == 0 && chunksize > 0 {
            // Nothing to read contradicts the header, but the first chunk would.
            let metalayers = array.super_chunk().metalayers();
            let name = if metalayers.get(METALAYER).is_some() { METALAYER } else { OLD_METALAYER };
            check_chunksize(name, array.meta(), array.geometry(), chunksize)?;
        }
        frame.set_container(array.super_chunk().dparams().container.clone());
        Ok(Self {
            geometry: array.geometry().clone(),
            dtype: array.dtype().clone(),
            cparams: array.cparams().ok(),
            tells_blocks: array.super_chunk().header().blocksize() == array.geometry().block_nbytes(),
            frame,
            pending: Pending::default(),
            current: Some(array),
            broken: false,
        })
    }

    /// Length of each dimension, in items, with all changes.
    pub fn shape(&self) -> &[u64] {
        self.geometry.shape()
    }
    /// All shapes and what follows from them, with all changes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// The item type.
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// Sets how new chunks are compressed. Item size, block size and block shape come from the array. The
    /// header, which others go by, stays as it is.
    ///
    /// # Errors
    /// When the parameters do not fit the array.
    pub fn set_cparams(&mut self, cparams: CParams) -> Result<(), NdError> {
        let builder = cparams.to_builder().typesize(self.geometry.itemsize());
        let builder = builder.blocksize(self.geometry.block_nbytes()).blockshape(self.geometry.blockshape());
        self.cparams = Some(builder.build()?);
        Ok(())
    }

    /// The array with all changes, committed or not, for reading. Later changes do not show in it, and it must
    /// not be used after a [`rollback`](Self::rollback).
    ///
    /// # Errors
    /// When something buffered cannot be written.
    pub fn snapshot(&mut self) -> Result<NdArray, NdError> {
        self.usable()?;
        Ok(self.now()?.clone())
    }

    /// Sets a vlmetalayer, in the same commit as all other changes.
    ///
    /// # Errors
    /// As [`FrameEditor::set_vlmetalayer`].
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), NdError> {
        self.current = None;
        Ok(self.frame.set_vlmetalayer(name, value)?)
    }

    /// Removes a vlmetalayer; tells whether there was one.
    pub fn remove_vlmetalayer(&mut self, name: impl AsRef<[u8]>) -> bool {
        self.current = None;
        self.frame.remove_vlmetalayer(name)
    }

    /// Changes the value of a metalayer, which keeps its length.
    ///
    /// # Errors
    /// As [`FrameEditor::set_metalayer`], and for the array's own.
    pub fn set_metalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), NdError> {
        let name = name.as_ref();
        if [METALAYER.as_bytes(), OLD_METALAYER.as_bytes()].contains(&name) {
            return Err(NdError::geometry("the array's own metalayer changes with its shape only"));
        }
        self.current = None;
        Ok(self.frame.set_metalayer(name, value)?)
    }

    /// Makes all changes visible at once.
    ///
    /// # Errors
    /// As [`FrameEditor::commit`]: the array is as it was, and so are the staged changes.
    pub fn commit(&mut self) -> Result<Committed, NdError> {
        self.usable()?;
        self.flush()?;
        // A snapshot may keep a buffer from being changed in place.
        self.current = None;
        Ok(self.frame.commit()?)
    }

    /// Forgets all changes since the last commit.
    ///
    /// # Errors
    /// When the committed array cannot be looked at; the editor is of no use then.
    pub fn rollback(&mut self) -> Result<(), NdError> {
        self.current = None;
        self.forget_pending();
        self.broken = true;
        self.frame.rollback();
        let array = NdArray::from_super_chunk(self.frame.snapshot()?)?;
        self.geometry = array.geometry().clone();
        self.current = Some(array);
        self.broken = false;
        Ok(())
    }

    /// Runs operations and commits them; if one fails, or the commit, all changes since the last commit are
    /// forgotten.
    ///
    /// # Errors
    /// What the operations or the commit answer.
    pub fn transaction<T>(
        &mut self,
        operations: impl FnOnce(&mut Self) -> Result<T, NdError>,
    ) -> Result<T, NdError> {
        let result = operations(self).and_then(|output| self.commit().map(|_| output));
        if result.is_err() {
            // What went wrong first counts; without a rollback the editor stays unusable.
            let _ = self.rollback();
        }
        result
    }

    /// Commits, and gives the space back that nothing refers to.
    ///
    /// # Errors
    /// As [`FrameEditor::compact`].
    pub fn compact(&mut self) -> Result<Committed, NdError> {
        self.usable()?;
        self.flush()?;
        self.current = None;
        Ok(self.frame.compact()?)
    }

    /// Bytes in the frame that nothing refers to, as committed.
    ///
    /// # Errors
    /// As [`FrameEditor::dead_bytes`].
    pub fn dead_bytes(&mut self) -> Result<u64, NdError> {
        Ok(self.frame.dead_bytes()?)
    }

    /// The frame as last committed, if it is one in memory.
    pub fn into_bytes(mut self) -> Option<Bytes> {
        self.current = None;
        self.frame.into_bytes()
    }

    /// The frame that holds the array, with all changes. What is changed there must leave an array.
    ///
    /// # Errors
    /// When something buffered cannot be written.
    pub fn into_frame(mut self) -> Result<FrameEditor, NdError> {
        self.usable()?;
        self.flush()?;
        Ok(self.frame)
    }

    fn usable(&self) -> Result<(), NdError> {
        match self.broken {
            false => Ok(()),
            true => Err(NdError::Frame(b2_frame::FrameError::Abandoned)),
        }
    }

    /// The staged array.
    fn now(&mut self) -> Result<&NdArray, NdError> {
        self.flush()?;
        let array = match self.current.take() {
            Some(array) => array,
            None => NdArray::from_super_chunk(self.frame.snapshot()?)?,
        };
        Ok(self.current.insert(array))
    }

    fn cparams(&self) -> Result<CParams, NdError> {
        match &self.cparams {
            Some(cparams) => Ok(cparams.clone()),
            // Says why.
            None => Ok(self.frame.cparams()?),
        }
    }

    /// Runs a change; if it fails, all is as it was before.
    fn guarded<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T, NdError>) -> Result<T, NdError> {
        self.usable()?;
        let (before, geometry) = (self.frame.savepoint()?, self.geometry.clone());
        // Should it panic.
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
