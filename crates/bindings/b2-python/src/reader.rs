//! Reads items into NumPy memory.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;
use std::sync::{Mutex, PoisonError};

use b2kit::frame::{Destination, Read};
use b2kit::nd::{Batch, NdError, Piece, Selection, SelectionRead, Slice};
use b2kit::{Control, NdArray};
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use crate::control::How;
use crate::errors::{EngineError, OrRaise, argument, selection};
use crate::index::{ResolvedIndex, Style, View, numpy};

/// Approximate size in bytes of the pieces in which destinations with gaps are filled.
const PIECE_LEN: u64 = 32 << 20;
/// Size in bytes of the pieces in which masks are read; small enough to stay in the cache.
const MARKED: u64 = 768 << 10;
/// Results of up to this many bytes are read so quickly that the read need not be interruptible.
const QUICK: u64 = 4096;

/// The initial content of a new array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Uninitialized,
    Zeros,
}

/// Creates a NumPy array in C order.
pub(crate) fn new_array<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    memory: Memory,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let too_large = || argument(py, format!("an array of shape {shape:?} does not fit the memory"));
    let mut dims: Vec<npyffi::npy_intp> = Vec::with_capacity(shape.len());
    for &length in shape {
        dims.push(npyffi::npy_intp::try_from(length).map_err(|_| too_large())?);
    }
    let ndim = i32::try_from(dims.len()).map_err(|_| too_large())?;
    // NumPy gives texts without characters one character, which nothing is read into.
    let memory = if dtype.itemsize() == 0 { Memory::Zeros } else { memory };
    let (dtype, dims) = (dtype.clone().into_dtype_ptr(), dims.as_mut_ptr());
    // SAFETY: Type and dtype are live objects (the calls take over the reference to the dtype), and `dims` has `ndim`
    // lengths. Without data and strides NumPy allocates the memory in C order.
    unsafe {
        let array = match memory {
            Memory::Zeros => PY_ARRAY_API.PyArray_Zeros(py, ndim, dims, dtype, 0),
            Memory::Uninitialized => {
                let (class, null) =
                    (npyffi::get_type_object(py, NpyTypes::PyArray_Type), std::ptr::null_mut());
                PY_ARRAY_API.PyArray_NewFromDescr(
                    py,
                    class,
                    dtype,
                    ndim,
                    dims,
                    null,
                    std::ptr::null_mut(),
                    0,
                    std::ptr::null_mut(),
                )
            }
        };
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
    mut how: How,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    how.short |= view.slice.nbytes() <= QUICK && !slice_is_long(&view.slice);
    read_new(view.slice, &view.shape, dtype, how)
}

/// The target of one read.
trait Readable: Send + Sync + 'static {
    fn nbytes(&self) -> u64;
    fn with_control(self, control: Control) -> Self;
    fn read_to(&self, dst: Destination<'_>) -> Result<(), NdError>;
    fn begin<'d>(&self, dst: Destination<'d>) -> Result<Option<Read<'d, SelectionRead>>, NdError>;
}

macro_rules! readable {
    ($kind:ty) => {
        impl Readable for $kind {
            fn nbytes(&self) -> u64 {
                self.nbytes()
            }
            fn with_control(self, control: Control) -> Self {
                self.with_control(control)
            }
            fn read_to(&self, dst: Destination<'_>) -> Result<(), NdError> {
                self.read_to(dst).map(drop)
            }
            fn begin<'d>(&self, dst: Destination<'d>) -> Result<Option<Read<'d, SelectionRead>>, NdError> {
                self.begin(dst)
            }
        }
    };
}
readable!(Slice);
readable!(Batch);

/// Reads into a new NumPy array of this shape.
fn read_new<'py>(
    slice: impl Readable,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
    mut how: How,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let remote = how.remote.take();
    let memory = if remote.is_some() { Memory::Zeros } else { Memory::Uninitialized };
    let out = new_array(py, dtype, shape, memory)?;
    let nbytes = slice.nbytes();
    let have = (out.len() as u64).saturating_mul(dtype.itemsize() as u64);
    if have != nbytes {
        return Err(argument(py, format!("{have} bytes for {nbytes}")));
    }
    // SAFETY: `out` outlives the call (after Ctrl-C the reading thread keeps it alive), and no other code has seen its
    // memory, which is zeroed when a Python store is read.
    let dst = unsafe { Destination::from_raw(data(&out).cast(), nbytes as usize, remote.is_some()) };
    if let Some(remote) = remote {
        how.short = false;
        how.run(py, move |control| match slice.with_control(control).begin(dst)? {
            Some(mut read) => remote.drive(&mut read).and_then(|()| read.finish().map(drop)),
            None => Ok(()),
        })?;
    } else if how.on_server {
        let keep = out.clone().unbind();
        how.short = false;
        how.run_apart(py, move |control| {
            let done = slice.with_control(control).read_to(dst);
            drop(keep);
            done
        })?;
    } else if how.short {
        // Uses the control that the array was opened with: creating another would take longer than the read.
        py.detach(|| slice.read_to(dst)).or_raise(py)?;
    } else {
        how.run(py, move |control| slice.with_control(control).read_to(dst))?;
    }
    Ok(out)
}

/// Returns a new NumPy array of this shape whose items `read` writes, in C order.
pub(crate) fn filled<'py, E: EngineError + Send>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
    how: How,
    read: impl FnOnce(Control, &mut [u8]) -> Result<(), E> + Send,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let out = new_array(py, dtype, shape, Memory::Zeros)?;
    let len = out.len().saturating_mul(dtype.itemsize());
    // SAFETY: `out` outlives the call, its memory is zeroed and has this many bytes, and no other code has seen it.
    let items = unsafe { slice::from_raw_parts_mut(data(&out).cast::<u8>(), len) };
    how.run(py, move |control| read(control, items))?;
    Ok(out)
}

/// Lets `read` write items of this shape and dtype to an existing NumPy array or another buffer, in C order: through a new array if
/// it has another dtype or gaps.
pub(crate) fn fill<'py, E: EngineError + Send>(
    out: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    how: How,
    read: impl FnOnce(Control, &mut [u8]) -> Result<(), E> + Send,
) -> PyResult<()> {
    let py = out.py();
    let out = writable(out, dtype, shape)?;
    let _alone = FillGuard::begin(&out)?;
    if !out.dtype().is_equiv_to(dtype) || !out.is_c_contiguous() {
        return copy_to(out.as_any(), filled(shape, dtype, how, read)?.as_any());
    }
    let len = out.len().saturating_mul(dtype.itemsize());
    // SAFETY: `out` outlives the call, and has this many bytes. As usual with NumPy, its owner must not use its items meanwhile.
    let items = unsafe { slice::from_raw_parts_mut(data(&out).cast::<u8>(), len) };
    how.run(py, move |control| read(control, items))
}

/// Returns a new NumPy array of one dimension with these items, whose dtype has no Python objects.
pub(crate) fn array_of<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    items: &[u8],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let size = dtype.itemsize();
    if dtype.has_object() || size == 0 || !items.len().is_multiple_of(size) {
        return Err(argument(py, format!("{} bytes are not items of {dtype}", items.len())));
    }
    let out = new_array(py, dtype, &[items.len() / size], Memory::Uninitialized)?;
    // SAFETY: The new array has as many bytes, which no other code has seen.
    unsafe { data(&out).cast::<u8>().copy_from_nonoverlapping(items.as_ptr(), items.len()) };
    Ok(out)
}

/// Reads boxes of equal shape into `out`, or a new array, whose first dimension counts the boxes.
pub(crate) fn read_boxes<'py>(
    array: &NdArray,
    dtype: &Bound<'py, PyArrayDescr>,
    boxes: &Bound<'py, PyList>,
    out: Option<&Bound<'py, PyAny>>,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let (mut views, mut shape) = (Vec::with_capacity(boxes.len()), vec![boxes.len()]);
    for (n, key) in boxes.iter().enumerate() {
        let chosen = ResolvedIndex::new(&key, Style::Numpy, array.shape())?;
        if !chosen.is_basic() {
            return Err(selection(py, format!("box {n}: only slices, integers and `...` select a box")));
        }
        let view = chosen.view(py, array)?;
        if n == 0 {
            shape.extend_from_slice(&view.shape);
        }
        if shape[1..] != view.shape {
            let what = format!("box {n} has shape {:?}, the first one {:?}", view.shape, &shape[1..]);
            return Err(argument(py, what));
        }
        views.push(view.slice);
    }
    if views.is_empty() {
        return Err(argument(py, "there are no boxes to read"));
    }
    let batch = Batch::new(views).or_raise(py)?;
    let Some(given) = out else { return Ok(read_new(batch, &shape, dtype, how)?.into_any()) };
    let out = writable(given, dtype, &shape)?;
    let _alone = FillGuard::begin(&out)?;
    let is_local = how.remote.is_none() && !how.on_server;
    let len = out.len().saturating_mul(dtype.itemsize());
    if is_local && out.dtype().is_equiv_to(dtype) && out.is_c_contiguous() {
        // SAFETY: `out` outlives the call, and has this many bytes. As usual with NumPy, its owner must not use its items
        // meanwhile.
        let dst = unsafe { Destination::from_raw(data(&out).cast(), len, true) };
        how.run(py, move |control| Readable::read_to(&batch.with_control(control), dst))?;
    } else {
        copy_to(out.as_any(), read_new(batch, &shape, dtype, how)?.as_any())?;
    }
    Ok(given.clone())
}

/// If a mask marks at most one item in this many bytes of the array, the marked items are read by their coordinates.
/// Otherwise all items around them are read, and those without a mark are dropped: almost every block has marks then, and
/// a mark more costs as much as passing over the items of this many bytes (measured with items of 2, 4 and 8 bytes).
const SPARSE: u64 = 2048;

/// A mask of all items of an array.
pub(crate) struct Mask<'py> {
    mask: Bound<'py, PyUntypedArray>,
    count: usize,
}

impl<'py> Mask<'py> {
    /// Returns the index if it is a mask of the whole array.
    pub(crate) fn of(array: &NdArray, key: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = key.py();
        let Ok(mask) = key.cast::<PyUntypedArray>() else { return Ok(None) };
        let fits = mask.ndim() > 0
            && mask.dtype().kind() == b'b'
            && mask.shape().iter().zip(array.shape()).all(|(&marks, &length)| marks as u64 == length)
            && mask.ndim() == array.ndim();
        if !fits || mask.is_empty() {
            return Ok(None);
        }
        let count = numpy(py)?.call_method1(intern!(py, "count_nonzero"), (mask,))?.extract()?;
        Ok(Some(Self { mask: mask.clone(), count }))
    }

    /// Reads the marked items.
    pub(crate) fn read(
        &self,
        array: &NdArray,
        dtype: &Bound<'py, PyArrayDescr>,
        how: How,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = dtype.py();
        let (shape, itemsize) = (self.mask.shape(), dtype.itemsize());
        if (self.mask.len() as u64).saturating_mul(itemsize as u64) != array.nbytes() {
            return Err(argument(py, "the size of the items is not that of the array"));
        }
        if self.count == 0 {
            return Ok(new_array(py, dtype, &[0], Memory::Uninitialized)?.into_any());
        }
        let sparse = (self.count as u64).saturating_mul(SPARSE) <= array.nbytes();
        // Few marks are found in the order in which they are in memory, which is faster than copying the mask.
        let transposed = sparse && !self.mask.is_c_contiguous() && self.mask.is_fortran_contiguous();
        let flat = match transposed {
            true => self.mask.clone(),
            false => numpy(py)?
                .call_method1(intern!(py, "ascontiguousarray"), (&self.mask,))?
                .cast_into::<PyUntypedArray>()?,
        };
        // SAFETY: `flat` outlives the call, and its marks are contiguous, one byte each. As usual with NumPy, nobody may
        // change them while they are read; that causes an error or other items.
        let marks = unsafe { slice::from_raw_parts(data(&flat).cast::<u8>(), flat.len()) };
        if !sparse {
            return read_dense(array, dtype, (marks, shape, self.count), how);
        }
        let lists = py.detach(|| coordinates(marks, shape, transposed));
        let slice = array.points(lists.into_iter().map(Selection::List).collect::<Vec<_>>()).or_raise(py)?;
        let shape = vec![slice.len() as usize];
        Ok(read(View { slice, shape }, dtype, how)?.into_any())
    }
}

/// Returns the coordinates of the marks in C order, one list for each dimension. With `transposed`, the first dimension
/// is contiguous in memory instead of the last.
fn coordinates(marks: &[u8], shape: &[usize], transposed: bool) -> Vec<Vec<i64>> {
    let mut lists = vec![Vec::new(); shape.len()];
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if transposed {
        order.reverse();
    }
    for (n, stretch) in marks.chunks(STRETCH).enumerate().filter(|(_, stretch)| any(stretch)) {
        for (k, _) in stretch.iter().enumerate().filter(|&(_, &mark)| mark != 0) {
            let mut at = n * STRETCH + k;
            for &dim in order.iter().rev() {
                lists[dim].push((at % shape[dim]) as i64);
                at /= shape[dim];
            }
        }
    }
    if transposed {
        let mut ranks: Vec<usize> = (0..lists.first().map_or(0, Vec::len)).collect();
        ranks.sort_unstable_by(|&a, &b| {
            lists.iter().map(|list| list[a]).cmp(lists.iter().map(|list| list[b]))
        });
        lists = lists.iter().map(|list| ranks.iter().map(|&rank| list[rank]).collect()).collect();
    }
    lists
}

/// A selection is sparse if fewer than one in this many items is marked.
const FEW: usize = 20;

/// Number of marks that are skipped together if none is set.
const STRETCH: usize = 256;

/// Returns whether a mark is set. Without an early end, so that the compiler can use vectors.
fn any(marks: &[u8]) -> bool {
    marks.iter().fold(0, |any, mark| any | mark) != 0
}

/// Reads the items that a mask marks, by reading the items around them piece by piece. `count` is the number of marked
/// items.
fn read_dense<'py>(
    array: &NdArray,
    dtype: &Bound<'py, PyArrayDescr>,
    (marks, shape, count): (&[u8], &[usize], usize),
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, itemsize) = (dtype.py(), dtype.itemsize());
    let out = new_array(py, dtype, &[count], Memory::Uninitialized)?;
    // SAFETY: `out` outlives the call, and no other code has seen it.
    let dst = unsafe { slice::from_raw_parts_mut(data(&out), count * itemsize) };
    let row = marks.len() / shape[0];
    // A piece spans at least one row of blocks, so that no block is decoded twice.
    let blocks = (row as u64 * itemsize as u64).saturating_mul(array.blockshape()[0].into());
    let of_items = (itemsize, gather(itemsize, count < marks.len() / FEW));
    let (mut items, mut filled) = (Vec::new(), 0);
    for piece in array.all().pieces(MARKED.max(blocks)) {
        let Piece { positions: Range { start, end }, slice, .. } = piece.or_raise(py)?;
        let marks = &marks[start as usize * row..end as usize * row];
        let mut shape = shape.to_vec();
        shape[0] = (end - start) as usize;
        if let Some(hull) = py.detach(|| hull(marks, &shape)) {
            let range = |range: &Range<usize>| Selection::from(range.start as i64..range.end as i64);
            let slice = slice.slice(hull.iter().map(range).collect::<Vec<_>>()).or_raise(py)?;
            let lengths: Vec<usize> = hull.iter().map(Range::len).collect();
            let nbytes = lengths.iter().product::<usize>() * itemsize;
            let marked = (marks, &shape[..], &hull[..]);
            filled = if how.remote.is_some() || how.on_server {
                let items = read(View { slice, shape: lengths }, dtype, how.part())?;
                // SAFETY: The array is new, contiguous and completely read.
                let items = unsafe { slice::from_raw_parts(data(&items).cast::<u8>(), nbytes) };
                gather_box(items, marked, of_items, dst, filled)
            } else {
                let (items, dst) = (&mut items, &mut *dst);
                how.part().run(py, move |control| {
                    // The buffer is reused for all pieces, because new memory would cost as much as decoding.
                    items.resize(nbytes, 0);
                    slice.with_control(control).read_bytes_into(items)?;
                    Ok::<_, NdError>(gather_box(items, marked, of_items, dst, filled))
                })?
            };
        }
        if let Some(progress) = &how.progress {
            progress.call1(py, (end * (row * itemsize) as u64, array.nbytes()))?;
        }
    }
    match filled == dst.len() {
        true => Ok(out.into_any()),
        false => Err(argument(py, "the mask was changed while it was read")),
    }
}

/// Returns the smallest box that holds all marks; `None` if there are none.
fn hull(marks: &[u8], shape: &[usize]) -> Option<Vec<Range<usize>>> {
    let (&row, outer) = shape.split_last()?;
    let mut found: Option<Vec<Range<usize>>> = None;
    let (mut at, mut columns) = (vec![0; outer.len()], vec![0; row]);
    let widen = |range: &mut Range<usize>, at| *range = range.start.min(at)..range.end.max(at + 1);
    for marks in marks.chunks_exact(row) {
        if any(marks) {
            columns.iter_mut().zip(marks).for_each(|(column, mark)| *column |= mark);
            let hull = found.get_or_insert_with(|| at.iter().map(|&at| at..at + 1).collect());
            hull.iter_mut().zip(&at).for_each(|(range, &at)| widen(range, at));
            let full = columns[0] != 0 && columns[row - 1] != 0;
            if full && hull.iter().zip(outer).all(|(range, &length)| range.len() == length) {
                break;
            }
        }
        for (at, &length) in at.iter_mut().zip(outer).rev() {
            *at += 1;
            if *at < length {
                break;
            }
            *at = 0;
        }
    }
    let mut hull = found?;
    let first = columns.iter().position(|&column| column != 0)?;
    let last = columns.iter().rposition(|&column| column != 0)?;
    hull.push(first..last + 1);
    Some(hull)
}

/// Appends the marked items of a box, whose items are contiguous, as [`Gather`] does. `marks` and `shape` are those of
/// the array around the box.
fn gather_box(
    items: &[u8],
    (marks, shape, hull): (&[u8], &[usize], &[Range<usize>]),
    (itemsize, gather): (usize, Option<Gather>),
    dst: &mut [MaybeUninit<u8>],
    mut filled: usize,
) -> usize {
    // From this dimension on, the marks of the box are contiguous.
    let axis = hull.iter().zip(shape).rposition(|(range, &length)| range.len() < length).unwrap_or(0);
    let inner: usize = shape[axis + 1..].iter().product();
    let run = hull[axis].len() * inner;
    for (n, items) in items.chunks_exact(run * itemsize).enumerate() {
        let (mut rest, mut start, mut stride) = (n, hull[axis].start * inner, inner * shape[axis]);
        for (range, &length) in hull[..axis].iter().zip(shape).rev() {
            start += (range.start + rest % range.len()) * stride;
            rest /= range.len();
            stride *= length;
        }
        let marks = &marks[start..start + run];
        filled = match gather {
            Some(gather) => gather(items, marks, dst, filled),
            None => gather_any(items, marks, itemsize, dst, filled),
        };
    }
    filled
}

/// Appends the marked items after the first `filled` bytes of `dst`, as far as there is room. Returns the number of
/// bytes filled afterwards. The arguments are items, their marks, `dst` and `filled`.
type Gather = fn(&[u8], &[u8], &mut [MaybeUninit<u8>], usize) -> usize;

/// Returns the function for items of this size, where `few` or many of them are marked.
fn gather(itemsize: usize, few: bool) -> Option<Gather> {
    Some(match (itemsize, few) {
        (1, false) => gather_many::<1>,
        (2, false) => gather_many::<2>,
        (4, false) => gather_many::<4>,
        (8, false) => gather_many::<8>,
        (16, false) => gather_many::<16>,
        (1, true) => gather_few::<1>,
        (2, true) => gather_few::<2>,
        (4, true) => gather_few::<4>,
        (8, true) => gather_few::<8>,
        (16, true) => gather_few::<16>,
        _ => return None,
    })
}

/// As [`Gather`], for items of any size.
fn gather_any(
    items: &[u8],
    marks: &[u8],
    itemsize: usize,
    dst: &mut [MaybeUninit<u8>],
    filled: usize,
) -> usize {
    let marked = items.chunks_exact(itemsize).zip(marks).filter(|&(_, &mark)| mark != 0);
    marked.fold(filled, |filled, (item, _)| append(dst, filled, item))
}

/// Skips many marks together if none is set.
fn gather_few<const N: usize>(
    items: &[u8],
    marks: &[u8],
    dst: &mut [MaybeUninit<u8>],
    mut filled: usize,
) -> usize {
    const MANY: usize = 32;
    let (items, last) = items.as_chunks::<N>().0.as_chunks::<MANY>();
    let (marks, rest) = marks.as_chunks::<MANY>();
    for (items, marks) in items.iter().zip(marks) {
        let words = marks.as_chunks::<8>().0;
        if words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word)) == 0 {
            continue;
        }
        let mut set = bits(marks);
        while let Some(item) = items.get(set.trailing_zeros() as usize) {
            filled = append(dst, filled, item);
            set &= set.wrapping_sub(1);
        }
    }
    let marked = last.iter().zip(rest).filter(|(_, mark)| **mark != 0);
    marked.fold(filled, |filled, (item, _)| append(dst, filled, item))
}

fn gather_many<const N: usize>(
    items: &[u8],
    marks: &[u8],
    dst: &mut [MaybeUninit<u8>],
    mut filled: usize,
) -> usize {
    const MANY: usize = 64;
    let stretches = items.as_chunks::<N>().0.chunks(STRETCH).zip(marks.chunks(STRETCH));
    let some = stretches.filter(|(_, marks)| any(marks));
    for (items, marks) in some.flat_map(|(items, marks)| items.chunks(MANY).zip(marks.chunks(MANY))) {
        let mut set = bits(marks);
        let count = set.count_ones() as usize;
        if count == items.len() {
            filled = append(dst, filled, items.as_flattened());
            continue;
        }
        let end = filled.saturating_add(count * N);
        // Goes from one set bit to the next: most of their distances cannot be predicted, so a branch for each item would
        // take longer.
        for to in dst.get_mut(filled..end).unwrap_or_default().as_chunks_mut::<N>().0 {
            let Some(item) = items.get(set.trailing_zeros() as usize) else { break };
            *to = item.map(MaybeUninit::new);
            set &= set.wrapping_sub(1);
        }
        // Without room, the returned count exceeds the destination, and the caller reports an error.
        filled = end;
    }
    filled
}

/// Returns a bit for each of up to 64 marks, from the lowest.
fn bits(marks: &[u8]) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (eights, rest) = marks.as_chunks::<8>();
    let mut bits = 0;
    for (n, eight) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        // The highest bit of each byte that is not 0, moved to the lowest; then these bits, side by side.
        let set = ((((eight & LOW) + LOW) | eight) & !LOW) >> 7;
        bits |= (set.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * n);
    }
    let rest = rest.iter().zip(8 * eights.len()..).filter(|(mark, _)| **mark != 0);
    rest.fold(bits, |bits, (_, n)| bits | 1 << n)
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
    let out = writable(out, dtype, &view.shape)?;
    if view.slice.is_empty() {
        return Ok(());
    }
    let _alone = FillGuard::begin(&out)?;
    let alike = how.remote.is_none()
        && !how.on_server
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
static FILL_RANGES: Mutex<Vec<FillRange>> = Mutex::new(Vec::new());

/// The bytes that a call fills, from the lowest to one past the highest. If there are gaps, shape and strides say which
/// bytes of the range, so that two calls may fill different columns of the same memory, for example.
#[derive(Clone, Debug, PartialEq)]
struct FillRange {
    process: u32,
    start: usize,
    end: usize,
    gaps: Option<(Vec<usize>, Vec<isize>)>,
}

impl FillRange {
    fn meets(&self, other: &Self) -> bool {
        let overlap = self.process == other.process && self.start < other.end && other.start < self.end;
        overlap && (self.gaps.is_none() || other.gaps.is_none() || self == other)
    }
}

/// The exclusive right to read into some memory, held until it is dropped.
struct FillGuard(FillRange);

impl FillGuard {
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
        let mine = FillRange { process: std::process::id(), start, end: start.saturating_add(span), gaps };
        let mut all = FILL_RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|other| other.meets(&mine)) {
            drop(all);
            return Err(argument(out.py(), "another call is reading into `out` at the same time"));
        }
        all.push(mine.clone());
        Ok(Self(mine))
    }
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        let mut all = FILL_RANGES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|filled| *filled == self.0) {
            all.swap_remove(at);
        }
    }
}

/// Returns `out` as an array that can be written, and has this shape.
fn writable<'py>(
    out: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = out.py();
    let out = as_array(out, dtype, shape)?;
    if out.shape() != shape {
        let what = format!("`out` has shape {:?}, the result {shape:?}", out.shape());
        return Err(argument(py, what));
    }
    let writeable: bool = out.getattr(intern!(py, "flags"))?.getattr(intern!(py, "writeable"))?.extract()?;
    if !writeable {
        return Err(argument(py, "`out` is read-only"));
    }
    Ok(out)
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
    if !same_dims || view.shape.is_empty() || view.slice.nbytes() <= PIECE_LEN {
        let part = read(view, dtype, how)?;
        return copy_to(out.as_any(), &part);
    }
    for piece in view.slice.pieces(PIECE_LEN) {
        let Piece { positions, slice, .. } = piece.or_raise(py)?;
        let (start, end) = (positions.start as isize, positions.end as isize);
        let mut shape = view.shape.clone();
        shape[0] = (end - start) as usize;
        let part = read(View { slice, shape }, dtype, how.part())?;
        copy_to(&out.get_item(PySlice::new(py, start, end, 1))?, &part)?;
    }
    Ok(())
}

/// Copies items, converting them as NumPy's `same_kind` casting allows.
fn copy_to(to: &Bound<'_, PyAny>, from: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = to.py();
    numpy(py)?.call_method1(intern!(py, "copyto"), (to, from)).map(drop)
}
