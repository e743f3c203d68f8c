//! Reads items into NumPy memory.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;
use std::sync::{Mutex, PoisonError};

use b2kit::NdArray;
use b2kit::frame::Destination;
use b2kit::nd::{NdError, Piece, Selection, Slice};
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::control::How;
use crate::errors::{OrRaise, argument};
use crate::index::{View, numpy};

/// Approximate size in bytes of the pieces in which destinations with gaps are filled.
const PIECE: u64 = 32 << 20;
/// Size in bytes of the pieces in which masks are read; small enough to stay in the cache.
const MARKED: u64 = 4 << 20;
/// Results of up to this many bytes are read so quickly that the read need not be interruptible.
const QUICK: u64 = 4096;

/// Creates a NumPy array with uninitialized items.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let too_large = || argument(py, format!("an array of shape {shape:?} does not fit the memory"));
    let mut dims: Vec<npyffi::npy_intp> = Vec::with_capacity(shape.len());
    for &length in shape {
        dims.push(npyffi::npy_intp::try_from(length).map_err(|_| too_large())?);
    }
    let ndim = i32::try_from(dims.len()).map_err(|_| too_large())?;
    // SAFETY: Type and dtype are live objects (the call takes over the reference to the dtype), and `dims` has `ndim`
    // lengths. Without data and strides NumPy allocates the memory in C order.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            ndim,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

/// Creates a NumPy array of zeros.
pub(crate) fn zeros<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let too_large = || argument(py, format!("an array of shape {shape:?} does not fit the memory"));
    let mut dims: Vec<npyffi::npy_intp> = Vec::with_capacity(shape.len());
    for &length in shape {
        dims.push(npyffi::npy_intp::try_from(length).map_err(|_| too_large())?);
    }
    let ndim = i32::try_from(dims.len()).map_err(|_| too_large())?;
    // SAFETY: The dtype is a live object (the call takes over a reference), and `dims` has `ndim` lengths.
    unsafe {
        let array =
            PY_ARRAY_API.PyArray_Zeros(py, ndim, dims.as_mut_ptr(), dtype.clone().into_dtype_ptr(), 0);
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

fn data(array: &Bound<'_, PyUntypedArray>) -> *mut MaybeUninit<u8> {
    // SAFETY: The array is alive.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}

/// Reads a view into a new NumPy array.
pub(crate) fn read<'py>(
    view: View,
    dtype: &Bound<'py, PyArrayDescr>,
    scalar: bool,
    mut how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let View { slice, shape } = view;
    let remote = how.remote.take();
    let out = match remote {
        Some(_) => zeros(py, dtype, &shape)?,
        None => empty(py, dtype, &shape)?,
    };
    let nbytes = slice.nbytes();
    let have = (out.len() as u64).saturating_mul(dtype.itemsize() as u64);
    if have != nbytes {
        return Err(argument(py, format!("{have} bytes for {nbytes}")));
    }
    how.short |= scalar || nbytes <= QUICK && !slice_is_long(&slice);
    // SAFETY: `out` outlives the call (after Ctrl-C the reading thread keeps it alive), and no other code has seen its
    // memory, which is zeroed when a Python store is read.
    let dst = unsafe { Destination::from_raw(data(&out).cast(), nbytes as usize, remote.is_some()) };
    if let Some(remote) = remote {
        how.short = false;
        how.run(py, move |control| match slice.with_control(control).begin(dst)? {
            Some(mut read) => remote.drive(&mut read).and_then(|()| read.finish().map(drop)),
            None => Ok(()),
        })?;
    } else if how.far {
        let keep = out.clone().unbind();
        how.short = false;
        how.run_apart(py, move |control| {
            let done = slice.with_control(control).read_to(dst).map(drop);
            drop(keep);
            done
        })?;
    } else if how.short {
        // Uses the control that the array was opened with: creating another would take longer than the read.
        py.detach(|| slice.read_to(dst).map(drop)).or_raise(py)?;
    } else {
        how.run(py, move |control| slice.with_control(control).read_to(dst).map(drop))?;
    }
    if !scalar {
        return Ok(out.into_any());
    }
    // SAFETY: The call takes over the reference to the array and returns a new one.
    unsafe {
        let item = PY_ARRAY_API.PyArray_Return(py, out.into_ptr().cast());
        Bound::from_owned_ptr_or_err(py, item)
    }
}

/// If a mask marks more than one item in this many, unmarked items are read as well and then dropped.
const SPARSE: usize = 500;

/// Returns the index if it is a mask of the whole array that marks many items, with the number of marked items.
pub(crate) fn dense_mask<'py>(
    array: &NdArray,
    key: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyUntypedArray>, usize)>> {
    let py = key.py();
    let Ok(mask) = key.cast::<PyUntypedArray>() else { return Ok(None) };
    let fits = mask.ndim() > 0
        && mask.dtype().kind() == b'b'
        && mask.shape().iter().zip(array.shape()).all(|(&marks, &length)| marks as u64 == length)
        && mask.ndim() == array.ndim();
    if !fits || mask.is_empty() {
        return Ok(None);
    }
    let count: usize = numpy(py)?.call_method1(intern!(py, "count_nonzero"), (mask,))?.extract()?;
    Ok((count > mask.len() / SPARSE).then(|| (mask.clone(), count)))
}

/// Reads the items that a mask marks, by reading all items of some rows at a time. `count` is the number of marked
/// items.
pub(crate) fn read_marked<'py>(
    array: &NdArray,
    dtype: &Bound<'py, PyArrayDescr>,
    mask: &Bound<'py, PyUntypedArray>,
    count: usize,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let py = mask.py();
    let out = empty(py, dtype, &[count])?;
    let (rows, row, itemsize) = (array.shape()[0], array.nbytes() / array.shape()[0], dtype.itemsize());
    if row.saturating_mul(rows) != (mask.len() as u64).saturating_mul(itemsize as u64) {
        return Err(argument(py, "the items have another size than the array tells"));
    }
    let flat = numpy(py)?.call_method1(intern!(py, "ascontiguousarray"), (mask,))?;
    let flat = flat.cast_into::<PyUntypedArray>()?;
    // SAFETY: `flat` outlives the call, and its marks are contiguous, one byte each. As usual with NumPy, nobody may
    // change them while they are read; whoever does gets an error or other items.
    let marks = unsafe { slice::from_raw_parts(data(&flat).cast::<u8>(), flat.len()) };
    // SAFETY: `out` outlives the call, and no other code has seen it.
    let dst = unsafe { slice::from_raw_parts_mut(data(&out), count * itemsize) };
    // A piece spans at least one row of blocks, so that no block is decoded twice.
    let at_once = MARKED.max(row.saturating_mul(array.blockshape()[0].into()));
    let (mut items, mut filled) = (Vec::new(), 0);
    for piece in array.all().pieces(at_once) {
        let Piece { positions: Range { start, end }, slice, .. } = piece.or_raise(py)?;
        let marks = &marks[(start * row) as usize / itemsize..(end * row) as usize / itemsize];
        filled = if how.remote.is_some() || how.far {
            let mut shape = mask.shape().to_vec();
            shape[0] = (end - start) as usize;
            let items = read(View { slice, shape }, dtype, false, how.part())?;
            let items = items.cast_into::<PyUntypedArray>()?;
            // SAFETY: The array is new, contiguous and completely read.
            let items = unsafe { slice::from_raw_parts(data(&items).cast::<u8>(), marks.len() * itemsize) };
            gather(items, marks, itemsize, dst, filled)
        } else {
            let (items, dst) = (&mut items, &mut *dst);
            how.part().run(py, move |control| {
                // The buffer is reused for all pieces, because new memory would cost as much as decoding.
                items.resize(marks.len() * itemsize, 0);
                if marks.iter().any(|&mark| mark != 0) {
                    slice.with_control(control).read_bytes_into(items)?;
                }
                Ok::<_, NdError>(gather(items, marks, itemsize, dst, filled))
            })?
        };
        if let Some(progress) = &how.progress {
            progress.call1(py, (row * end, array.nbytes()))?;
        }
    }
    match filled == dst.len() {
        true => Ok(out.into_any()),
        false => Err(argument(py, "the mask was changed while it was read")),
    }
}

/// Appends the marked items after the first `filled` bytes of `dst`, as far as there is room. Returns the number of
/// bytes filled afterwards.
fn gather(items: &[u8], marks: &[u8], itemsize: usize, dst: &mut [MaybeUninit<u8>], filled: usize) -> usize {
    match itemsize {
        1 => gather_of::<1>(items, marks, dst, filled),
        2 => gather_of::<2>(items, marks, dst, filled),
        4 => gather_of::<4>(items, marks, dst, filled),
        8 => gather_of::<8>(items, marks, dst, filled),
        16 => gather_of::<16>(items, marks, dst, filled),
        _ => {
            let mut filled = filled;
            for (item, _) in items.chunks_exact(itemsize).zip(marks).filter(|&(_, &mark)| mark != 0) {
                filled = append(dst, filled, item);
            }
            filled
        }
    }
}

fn gather_of<const N: usize>(
    items: &[u8],
    marks: &[u8],
    dst: &mut [MaybeUninit<u8>],
    mut filled: usize,
) -> usize {
    const MANY: usize = 64;
    let mut found = [[0; N]; MANY];
    for (items, marks) in items.as_chunks::<N>().0.chunks(MANY).zip(marks.chunks(MANY)) {
        let mut count = 0;
        // Avoids a branch for each item: every item is copied, and overwritten by the next one unless it is marked.
        for (item, &mark) in items.iter().zip(marks) {
            found[count % MANY] = *item;
            count += usize::from(mark != 0);
        }
        filled = append(dst, filled, found[..count].as_flattened());
    }
    filled
}

fn append(dst: &mut [MaybeUninit<u8>], filled: usize, bytes: &[u8]) -> usize {
    let end = filled.saturating_add(bytes.len());
    // Without room, the returned count exceeds the destination, and the caller reports an error.
    let Some(room) = dst.get_mut(filled..end) else { return end };
    for (to, &from) in room.iter_mut().zip(bytes) {
        to.write(from);
    }
    end
}

/// Returns whether even a few bytes may come from many blocks, so that reading them may take long.
fn slice_is_long(slice: &Slice) -> bool {
    slice.len() > 64
}

/// Reads a view into an existing NumPy array with any strides.
pub(crate) fn read_into<'py>(
    view: View,
    dtype: &Bound<'py, PyArrayDescr>,
    out: &Bound<'py, PyAny>,
    how: How,
) -> PyResult<()> {
    let py = out.py();
    let out = as_array(out, dtype, &view.shape)?;
    if out.shape() != &view.shape[..] {
        let what = format!("`out` has shape {:?}, the result {:?}", out.shape(), view.shape);
        return Err(argument(py, what));
    }
    let writeable: bool = out.getattr(intern!(py, "flags"))?.getattr(intern!(py, "writeable"))?.extract()?;
    if !writeable {
        return Err(argument(py, "`out` is read-only"));
    }
    if view.slice.is_empty() {
        return Ok(());
    }
    let _alone = Filling::begin(&out)?;
    let alike = how.remote.is_none()
        && !how.far
        && out.dtype().is_equiv_to(dtype)
        && view.slice.ndim() == view.shape.len();
    if alike && let Some((slice, offset)) = laid_out(py, &view.slice, out.strides(), dtype.itemsize())? {
        let len = slice.nbytes() as usize;
        // The items fill `len` bytes without gaps, starting at the lowest one, at `offset`.
        // SAFETY: `out` outlives the call. As usual with NumPy, its owner must not use its items meanwhile.
        let dst =
            unsafe { Destination::from_raw(data(&out).wrapping_byte_offset(offset).cast(), len, false) };
        return how.run(py, move |control| slice.with_control(control).read_to(dst).map(drop));
    }
    in_pieces(py, view, dtype, &out, how)
}

/// Memory that calls in this process are reading into.
static FILLING: Mutex<Vec<Filled>> = Mutex::new(Vec::new());

/// The bytes that a call fills, from the lowest to one past the highest. If there are gaps, shape and strides say which
/// bytes of the range, so that two calls may fill different columns of the same memory, for example.
#[derive(Clone, Debug, PartialEq)]
struct Filled {
    process: u32,
    start: usize,
    end: usize,
    gaps: Option<(Vec<usize>, Vec<isize>)>,
}

impl Filled {
    fn meets(&self, other: &Self) -> bool {
        let overlap = self.process == other.process && self.start < other.end && other.start < self.end;
        overlap && (self.gaps.is_none() || other.gaps.is_none() || self == other)
    }
}

/// The exclusive right to read into some memory, held until it is dropped.
struct Filling(Filled);

impl Filling {
    /// Rejects memory that another call is reading into: codecs read back what they wrote, and would report items of
    /// the other call as damage.
    fn begin(out: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        let (mut start, itemsize) = (data(out) as usize, out.dtype().itemsize());
        let mut span = itemsize;
        for (&length, &stride) in out.shape().iter().zip(out.strides()) {
            let reach = stride.unsigned_abs().saturating_mul(length.saturating_sub(1));
            span = span.saturating_add(reach);
            if stride < 0 {
                start = start.saturating_sub(reach);
            }
        }
        let dense = span == out.len().saturating_mul(itemsize);
        let gaps = (!dense).then(|| (out.shape().to_vec(), out.strides().to_vec()));
        let mine = Filled { process: std::process::id(), start, end: start.saturating_add(span), gaps };
        let mut all = FILLING.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|other| other.meets(&mine)) {
            drop(all);
            return Err(argument(out.py(), "another call is reading into `out` at the same time"));
        }
        all.push(mine.clone());
        Ok(Self(mine))
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let mut all = FILLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|filled| *filled == self.0) {
            all.swap_remove(at);
        }
    }
}

/// Returns `out` as an array: an array unchanged, any other buffer as items of `dtype`.
fn as_array<'py>(
    out: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = out.py();
    if let Ok(array) = out.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let flat = numpy(py)?.call_method1(intern!(py, "frombuffer"), (out, dtype))?;
    if flat.len()? != shape.iter().product::<usize>() {
        let what = format!(
            "`out` has room for {} items, the result has {}",
            flat.len()?,
            shape.iter().product::<usize>()
        );
        return Err(argument(py, what));
    }
    let array = flat.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

/// Returns the same items in their order in memory and the offset of the lowest one; `None` if there are gaps between
/// items, or items overlap.
fn laid_out(
    py: Python<'_>,
    slice: &Slice,
    strides: &[isize],
    itemsize: usize,
) -> PyResult<Option<(Slice, isize)>> {
    let shape = slice.shape();
    let mut offset = 0isize;
    let mut selections = Vec::with_capacity(shape.len());
    for (&length, &stride) in shape.iter().zip(strides) {
        let back = stride < 0 && length > 1;
        if back {
            offset += stride * (length as isize - 1);
        }
        selections.push(Selection::Range { start: None, stop: None, step: if back { -1 } else { 1 } });
    }
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    // Dimensions of length 1 may have any stride.
    axes.sort_by_key(|&axis| (shape[axis] != 1, std::cmp::Reverse(strides[axis].unsigned_abs())));
    let mut expected = itemsize;
    for &axis in axes.iter().rev().filter(|&&axis| shape[axis] != 1) {
        if strides[axis].unsigned_abs() != expected {
            return Ok(None);
        }
        expected = expected.saturating_mul(shape[axis] as usize);
    }
    let slice = slice.slice(selections).or_raise(py)?.permute(&axes).or_raise(py)?;
    Ok(Some((slice, offset)))
}

/// Reads piece by piece and lets NumPy copy the items, because the bytes between them must stay unchanged.
fn in_pieces(
    py: Python<'_>,
    view: View,
    dtype: &Bound<'_, PyArrayDescr>,
    out: &Bound<'_, PyUntypedArray>,
    how: How,
) -> PyResult<()> {
    let same_dims = view.slice.ndim() == view.shape.len();
    if !same_dims || view.shape.is_empty() || view.slice.nbytes() <= PIECE {
        let part = read(view, dtype, false, how)?;
        return copy_to(out.as_any(), &part);
    }
    for piece in view.slice.pieces(PIECE) {
        let Piece { positions, slice, .. } = piece.or_raise(py)?;
        let (start, end) = (positions.start as isize, positions.end as isize);
        let mut shape = view.shape.clone();
        shape[0] = (end - start) as usize;
        let part = read(View { slice, shape }, dtype, false, how.part())?;
        copy_to(&out.get_item(PySlice::new(py, start, end, 1))?, &part)?;
    }
    Ok(())
}

/// Copies items, converting them as NumPy's `same_kind` casting allows.
fn copy_to(to: &Bound<'_, PyAny>, from: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = to.py();
    numpy(py)?.call_method1(intern!(py, "copyto"), (to, from)).map(drop)
}
