//! Arrays that are read asynchronously.

use std::sync::Arc;

use b2_core::{Control, memory};
use b2nd::{Dtype, Element, IntoSelections, Mark, NdArray, NdError, Piece, Pieces, Slice};

use crate::frame::AsyncSuperChunk;
use crate::options::AsyncOptions;
use crate::reader::RangeReader;
use crate::remote::Remote;

/// An array that is read asynchronously. Cloning is cheap.
///
/// Its methods are those of [`NdArray`], with the same results. [`array`](Self::array) returns
/// everything that is known without reading: dtype, chunks, attributes.
pub struct AsyncNdArray<R> {
    remote: Arc<Remote<R>>,
    array: NdArray,
}

impl<R> std::fmt::Debug for AsyncNdArray<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncNdArray").field("array", &self.array).finish_non_exhaustive()
    }
}

impl<R> Clone for AsyncNdArray<R> {
    fn clone(&self) -> Self {
        Self { remote: self.remote.clone(), array: self.array.clone() }
    }
}

impl<R: RangeReader> AsyncNdArray<R> {
    /// Opens an array: reads header, index and trailer, but no data.
    ///
    /// # Errors
    /// [`NdError::Frame`] as for [`AsyncSuperChunk::open`] when the store fails or holds no frame; as for
    /// [`NdArray::from_super_chunk`] when the frame is not an array.
    pub async fn open(reader: R) -> Result<Self, NdError> {
        Self::open_with(reader, &AsyncOptions::default()).await
    }

    /// Opens an array with options: plugins, limits, checksums, tuning, bytes in flight, and the offset of a contiguous frame in
    /// its file.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`AsyncSuperChunk::open_with`].
    pub async fn open_with(reader: R, options: &AsyncOptions) -> Result<Self, NdError> {
        Self::from_super_chunk(AsyncSuperChunk::open_with(reader, options).await?)
    }

    /// Opens an array in an open frame.
    ///
    /// # Errors
    /// As for [`NdArray::from_super_chunk`], when the frame is not an array, or its fields contradict each other.
    pub fn from_super_chunk(frame: AsyncSuperChunk<R>) -> Result<Self, NdError> {
        let (remote, frame) = frame.into_parts();
        Ok(Self { remote, array: NdArray::from_super_chunk(frame)? })
    }

    /// Returns the frame that holds the array.
    pub fn super_chunk(&self) -> AsyncSuperChunk<R> {
        AsyncSuperChunk::from_parts(self.remote.clone(), self.array.super_chunk().clone())
    }

    /// Returns what is known without reading: geometry, dtype, metalayers and attributes. Reading
    /// from it fails.
    pub fn array(&self) -> &NdArray {
        &self.array
    }

    /// Returns whether a change of the file between two requests would be noticed. It would not if
    /// the store provides neither strong ETags nor modification times.
    pub fn is_guarded(&self) -> bool {
        self.remote.version().is_guarded()
    }

    /// Returns the same array with other threads, progress callback or cancellation.
    #[must_use]
    pub fn with_control(&self, control: Control) -> Self {
        Self { remote: self.remote.clone(), array: self.array.with_control(control) }
    }

    /// Returns the length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        self.array.shape()
    }
    /// Returns the type of the items.
    pub fn dtype(&self) -> &Dtype {
        self.array.dtype()
    }

    fn view(&self, slice: Slice) -> AsyncSlice<R> {
        AsyncSlice { remote: self.remote.clone(), slice }
    }

    /// Selects the whole array.
    pub fn all(&self) -> AsyncSlice<R> {
        self.view(self.array.all())
    }

    /// Selects a part of the array as a lazy view, like [`NdArray::slice`].
    ///
    /// # Errors
    /// As for [`NdArray::slice`].
    pub fn slice(&self, selection: impl IntoSelections) -> Result<AsyncSlice<R>, NdError> {
        Ok(self.view(self.array.slice(selection)?))
    }

    /// Selects single positions by their coordinates, like [`NdArray::points`].
    ///
    /// # Errors
    /// As for [`NdArray::points`].
    pub fn points(&self, selection: impl IntoSelections) -> Result<AsyncSlice<R>, NdError> {
        Ok(self.view(self.array.points(selection)?))
    }

    /// Selects the items whose mark is set, like [`NdArray::mask`].
    ///
    /// # Errors
    /// As for [`NdArray::mask`].
    pub fn mask<M: Mark>(&self, marks: impl AsRef<[M]>) -> Result<AsyncSlice<R>, NdError> {
        Ok(self.view(self.array.mask(marks)?))
    }

    /// Reads any view of [`array`](Self::array) asynchronously: transposed, of a field, and so on.
    ///
    /// # Errors
    /// [`NdError::Argument`] when the view is of an array with another shape or dtype.
    pub fn read_from(&self, view: Slice) -> Result<AsyncSlice<R>, NdError> {
        let own = view.array().shape() == self.shape() && view.array().dtype() == self.dtype();
        match own {
            true => Ok(self.view(view)),
            false => Err(NdError::argument("a view of another array")),
        }
    }
}

/// A checked selection of an [`AsyncNdArray`]: nothing has been read yet.
pub struct AsyncSlice<R> {
    remote: Arc<Remote<R>>,
    slice: Slice,
}

impl<R> std::fmt::Debug for AsyncSlice<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncSlice").field("slice", &self.slice).finish_non_exhaustive()
    }
}

impl<R> Clone for AsyncSlice<R> {
    fn clone(&self) -> Self {
        Self { remote: self.remote.clone(), slice: self.slice.clone() }
    }
}

impl<R: RangeReader> AsyncSlice<R> {
    /// Returns the view: its shape, dtype and size. Reading from it fails.
    pub fn view(&self) -> &Slice {
        &self.slice
    }

    /// Returns another view of the same array. `change` makes it from this one, for example by
    /// transposing, selecting again, or taking a field.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn map(&self, change: impl FnOnce(&Slice) -> Result<Slice, NdError>) -> Result<Self, NdError> {
        Ok(Self { remote: self.remote.clone(), slice: change(&self.slice)? })
    }

    /// Returns the shape of the result.
    pub fn shape(&self) -> Vec<u64> {
        self.slice.shape()
    }

    /// Checks the part of the result that is not stored in the file against the output limit.
    async fn check(&self) -> Result<(), NdError> {
        let array = self.slice.array();
        self.remote.run(array.super_chunk().sizes_plan()).await?;
        array.check_result(self.slice.nbytes())
    }

    /// Reads the items in C order as Rust values, like [`Slice::read`].
    ///
    /// # Errors
    /// As for [`Slice::read`]: [`NdError::Frame`] with [`FrameError::Io`](b2_frame::FrameError::Io) when the store
    /// fails, and with [`FrameError::Changed`](b2_frame::FrameError::Changed) when the file has changed.
    pub async fn read<T: Element>(&self) -> Result<Vec<T>, NdError> {
        self.slice.check_element::<T>()?;
        self.check().await?;
        let too_large = |_| NdError::too_large(self.slice.nbytes());
        let len = usize::try_from(self.slice.len()).unwrap_or(usize::MAX);
        let mut items = T::zeroed(len).map_err(too_large)?;
        self.read_into(&mut items).await?;
        Ok(items)
    }

    /// Reads the items as an array of the crate `ndarray`.
    ///
    /// # Errors
    /// [`NdError::Argument`] when the number of dimensions differs, otherwise as for [`read`](Self::read).
    #[cfg(feature = "ndarray")]
    pub async fn read_array<T: Element, D: b2nd::ndarray::Dimension>(
        &self,
    ) -> Result<b2nd::ndarray::Array<T, D>, NdError> {
        let items = self.read().await?;
        let shape: Vec<usize> =
            self.shape().iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        b2nd::ndarray::ArrayD::from_shape_vec(shape, items)
            .and_then(b2nd::ndarray::ArrayBase::into_dimensionality)
            .map_err(|error| NdError::argument(error.to_string()))
    }

    /// Reads the items in C order into `dst`, like [`Slice::read_into`].
    ///
    /// # Errors
    /// As for [`Slice::read_into`]: [`NdError::Frame`] with [`FrameError::Io`](b2_frame::FrameError::Io) when the store
    /// fails, and with [`FrameError::Changed`](b2_frame::FrameError::Changed) when the file has changed.
    pub async fn read_into<T: Element>(&self, dst: &mut [T]) -> Result<(), NdError> {
        self.slice.read_into_by(dst, &*self.remote).await
    }

    /// Reads the bytes of the items in C order, like [`Slice::read_bytes`].
    ///
    /// # Errors
    /// As for [`Slice::read_bytes`]: [`NdError::Frame`] with [`FrameError::Io`](b2_frame::FrameError::Io) when the
    /// store fails, and with [`FrameError::Changed`](b2_frame::FrameError::Changed) when the file has changed.
    pub async fn read_bytes(&self) -> Result<Vec<u8>, NdError> {
        self.check().await?;
        let nbytes = self.slice.nbytes();
        let len = usize::try_from(nbytes).unwrap_or(usize::MAX);
        let mut bytes = memory::zeroed(len).map_err(|_| NdError::too_large(nbytes))?;
        self.read_bytes_into(&mut bytes).await?;
        Ok(bytes)
    }

    /// Reads the bytes of the items in C order into `dst`, like [`Slice::read_bytes_into`].
    ///
    /// # Errors
    /// As for [`Slice::read_bytes_into`]: [`NdError::Frame`] with [`FrameError::Io`](b2_frame::FrameError::Io) when the
    /// store fails, and with [`FrameError::Changed`](b2_frame::FrameError::Changed) when the file has changed.
    pub async fn read_bytes_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        self.slice.read_bytes_into_by(dst, &*self.remote).await
    }

    /// Reads the selection in parts of about `nbytes` bytes along the first dimension of the
    /// result, like [`Slice::pieces`].
    pub fn parts(&self, nbytes: u64) -> SliceParts<R> {
        SliceParts { remote: self.remote.clone(), pieces: self.slice.pieces(nbytes), next: None }
    }
}

/// A part of a selection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlicePart {
    /// The positions along the first dimension of the result; `0..1` for a single item.
    pub positions: std::ops::Range<u64>,
    /// The items in C order, as [`AsyncSlice::read_bytes`] returns them.
    pub bytes: Vec<u8>,
}

/// The parts of a selection, in order. Returned by [`AsyncSlice::parts`].
///
/// To get a `Stream`, use `futures::stream::try_unfold(parts, async |mut parts| ...)`.
pub struct SliceParts<R> {
    remote: Arc<Remote<R>>,
    pieces: Pieces,
    /// The part being read. It is tried again after an error.
    next: Option<Piece>,
}

impl<R> std::fmt::Debug for SliceParts<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<R: RangeReader> SliceParts<R> {
    /// Reads the next part; `None` after the last one. A part whose reading failed or was cancelled
    /// can be read again.
    ///
    /// # Errors
    /// As for [`AsyncSlice::read_bytes`].
    pub async fn next(&mut self) -> Result<Option<SlicePart>, NdError> {
        if self.next.is_none() {
            self.next = self.pieces.next().transpose()?;
        }
        let Some(piece) = &self.next else { return Ok(None) };
        let slice = AsyncSlice { remote: self.remote.clone(), slice: piece.slice.clone() };
        let part = SlicePart { positions: piece.positions.clone(), bytes: slice.read_bytes().await? };
        self.next = None;
        Ok(Some(part))
    }
}
