//! Changing an array: all changes between opening an editor and its commit take effect together, or not at all.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use b2kit::frame::{EditOptions, is_locked};
use b2kit::nd::{Axis, DtypeKind, NdError, RegionSource};
use b2kit::{ArrayEditor, Control, NdArray, source};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::array::{ArrayBase, Origin, get, style_of};
use crate::control::{How, in_callback};
use crate::errors::{OrRaise, argument, exception, ours, wrong_type};
use crate::index::{JointAxes, ResolvedIndex, is_masked, numpy};
use crate::options::{compression, durability, read_options};
use crate::source::Items;

/// Arrays that are being edited in this process. A second edit of the same array from the same thread would deadlock.
static UNDER_WAY: Mutex<Vec<(u32, Key, ThreadId)>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Path(PathBuf),
    Memory(usize),
}

/// The exclusive right to edit an array, held until it is dropped.
#[derive(Debug)]
struct EditTurn(Key);

impl EditTurn {
    /// Waits until nothing else in this process is editing the array and no other process holds its lock. Ctrl-C
    /// interrupts the wait.
    fn wait(py: Python<'_>, key: Key) -> PyResult<Self> {
        let (process, thread) = (std::process::id(), thread::current().id());
        loop {
            // Never held while waiting for the interpreter's lock, which could deadlock.
            let mut all = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
            match all.iter().find(|(its_process, its, _)| *its_process == process && *its == key) {
                None => {
                    all.push((process, key.clone(), thread));
                    break;
                }
                // The edit in progress may be the one that is waiting for this callback.
                Some(_) if in_callback() => return Err(argument(py, CALLBACK)),
                Some((_, _, its_thread)) if *its_thread == thread => {
                    return Err(argument(
                        py,
                        "this thread is already changing the array: use the object of `edit()`",
                    ));
                }
                // Another thread is editing the array: wait for it.
                Some(_) => {}
            }
            drop(all);
            pause(py)?;
        }
        let turn = Self(key);
        if let Key::Path(path) = &turn.0 {
            // The library's own wait for the lock cannot be interrupted. So wait here first; the library then waits
            // only if another process takes the lock in between, and reports any error of the lock.
            while let Ok(true) = py.detach(|| is_locked(path)) {
                pause(py)?;
            }
        }
        Ok(turn)
    }
}

impl Drop for EditTurn {
    fn drop(&mut self) {
        let process = std::process::id();
        let mut all = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(its_process, key, _)| *its_process != process || *key != self.0);
    }
}

fn pause(py: Python<'_>) -> PyResult<()> {
    py.detach(|| thread::sleep(Duration::from_millis(10)));
    py.check_signals()
}

const CALLBACK: &str = "a progress callback cannot use the change that it reports on";

/// An edit in progress: the base class of `b2kit.Edit`.
#[pyclass(frozen, subclass, module = "b2kit._b2kit")]
pub(crate) struct EditorBase {
    array: Py<ArrayBase>,
    turn: Mutex<Option<EditTurn>>,
    dtype: Py<PyArrayDescr>,
    /// `None` once the edit is closed. Locked only without the interpreter's lock.
    editor: Mutex<Option<ArrayEditor>>,
    threads: Option<usize>,
}

fn closed() -> NdError {
    NdError::argument("the change is over: it was committed or abandoned")
}

impl EditorBase {
    /// Runs an operation without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        how: How,
        work: impl FnOnce(&mut ArrayEditor) -> Result<T, NdError> + Send,
    ) -> PyResult<T> {
        if in_callback() && matches!(self.editor.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(argument(py, CALLBACK));
        }
        how.run(py, |control| {
            let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
            let editor = editor.as_mut().ok_or_else(closed)?;
            editor.set_control(control);
            let done = work(editor);
            // The progress callback is valid for this call only.
            editor.set_control(Control::new());
            done
        })
    }

    fn how(&self) -> How {
        How::threads(self.threads)
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<NdArray> {
        self.run(py, How::short(None), ArrayEditor::snapshot)
    }

    /// Converts `value` to `dtype` and lets NumPy broadcast it to `shape`.
    fn items<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        shape: &[usize],
        dtype: &Bound<'py, PyArrayDescr>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = value.py();
        let mut value = as_items(value, dtype)?;
        // In assignments NumPy accepts additional leading dimensions of length 1.
        while value.ndim() > shape.len() && value.shape()[0] == 1 {
            // With the ellipsis the last one leaves an array, not a scalar.
            value = value.get_item((0, py.Ellipsis()))?.cast_into::<PyUntypedArray>()?;
        }
        let shape = PyTuple::new(py, shape)?;
        match numpy(py)?.call_method1(intern!(py, "broadcast_to"), (&value, &shape)) {
            Ok(items) => Ok(items.cast_into::<PyUntypedArray>()?),
            Err(_) => {
                let has = PyTuple::new(py, value.shape())?;
                let what = format!("could not broadcast input array from shape {has} into shape {shape}");
                Err(argument(py, what))
            }
        }
    }
}

/// Converts any value to an array of `dtype`. A value that does not fit is an error.
pub(crate) fn as_items<'py>(
    value: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    converted(value, dtype).map_err(|error| ours(value.py(), error))
}

fn converted<'py>(
    value: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    if is_masked(value)? {
        return Err(wrong_type("a masked array would lose its mask: fill it first"));
    }
    let array = match value.cast::<PyUntypedArray>() {
        Ok(array) if array.dtype().is(dtype) => return Ok(array.clone()),
        _ => py.import("b2kit._cast")?.call_method1(intern!(py, "cast"), (value, dtype))?,
    };
    // Converts matrices and other subclasses to plain arrays.
    Ok(numpy(py)?.call_method1(intern!(py, "asarray"), (array,))?.cast_into::<PyUntypedArray>()?)
}

/// Returns a fill value made of a single item.
pub(crate) fn constant(item: &Bound<'_, PyUntypedArray>) -> PyResult<source::Fill> {
    let bytes: Vec<u8> = item.call_method0(intern!(item.py(), "tobytes"))?.extract()?;
    Ok(source::item(bytes))
}

#[pymethods]
impl EditorBase {
    #[new]
    #[pyo3(signature = (array, sync = true, allow_table_edit = false))]
    fn new(py: Python<'_>, array: Py<ArrayBase>, sync: bool, allow_table_edit: bool) -> PyResult<Self> {
        let base = array.get();
        if !base.writable {
            return Err(exception(py, "ReadOnlyError", "the array is open for reading: use mode=\"a\""));
        }
        base.give_file(py)?;
        let origin = base.origin();
        let key = match &origin {
            Origin::Path(path) => Key::Path(fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
            _ => Key::Memory(array.as_ptr() as usize),
        };
        let turn = EditTurn::wait(py, key)?;
        base.now()?;
        let (store, frame, threads, locks) = (base.store(), base.frame(), base.threads, base.locks);
        let editor = How::short(threads).run(py, move |_| match (origin, frame) {
            (Origin::Path(path), _) => {
                let read = crate::folder::reading(store.as_ref());
                let edit = EditOptions::from(read).durability(durability(sync)).lock(locks);
                ArrayEditor::new(edit.allow_table_edit(allow_table_edit).edit(&path)?)
            }
            (_, Some(frame)) => ArrayEditor::new(EditOptions::from(read_options()).edit_bytes(frame)?),
            _ => Err(closed()),
        })?;
        let dtype = crate::dtype::to_numpy(py, editor.dtype())?.unbind();
        Ok(Self { array, turn: Mutex::new(Some(turn)), dtype, editor: Mutex::new(Some(editor)), threads })
    }

    /// The length of each dimension, with the changes so far.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let shape = self.run(py, How::short(None), |editor| Ok(editor.shape().to_vec()))?;
        PyTuple::new(py, shape)
    }
    /// The type of the items.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyArrayDescr> {
        self.dtype.clone_ref(py)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.snapshot(py)?;
        get(&array, self.dtype.bind(py), key, style_of(None)?, self.how())
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self._set(key, value, "numpy", None)
    }

    #[pyo3(signature = (key, value, style, progress = None))]
    fn _set(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        style: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = key.py();
        let array = self.snapshot(py)?;
        let chosen = ResolvedIndex::new(key, style_of(Some(style))?, array.shape())?;
        if chosen.fields.is_some() {
            return Err(argument(py, "several fields cannot be set together: set one after the other"));
        }
        let view = chosen.view(py, &array)?;
        drop(array);
        let how = How { progress, ..self.how() };
        let ResolvedIndex { selections, points, together, field, .. } = chosen;
        let dtype = match &field {
            Some(_) => crate::dtype::to_numpy(py, view.slice.dtype())?,
            None => self.dtype.bind(py).clone(),
        };
        let value = self.items(value, &view.shape, &dtype)?;
        if view.slice.is_empty() {
            return Ok(());
        }
        // All positions get the same item.
        let single =
            value.strides().iter().zip(value.shape()).all(|(&stride, &length)| stride == 0 || length == 1);
        let plain = field.is_none() || matches!(view.slice.dtype().kind(), DtypeKind::Simple { .. });
        if single && plain {
            let zero = PyTuple::new(py, vec![0usize; value.ndim()])?;
            let item = numpy(py)?.call_method1(intern!(py, "asarray"), (value.get_item(zero)?, &dtype))?;
            let fill = constant(item.cast::<PyUntypedArray>()?)?;
            return self.run(py, how, move |editor| put(editor, selections, points, field, fill));
        }
        // Moves the dimensions of the values to the order that the library uses.
        let mut value = value;
        if let Some(JointAxes { from, to, shape }) = &together {
            let mut flat: Vec<usize> = value.shape().to_vec();
            flat.splice(*to..*to + shape.len(), [shape.iter().product()]);
            let reshaped = value.call_method1(intern!(py, "reshape"), (PyTuple::new(py, flat)?,))?;
            let moved = numpy(py)?.call_method1(intern!(py, "moveaxis"), (reshaped, *to, *from))?;
            value = moved.cast_into::<PyUntypedArray>()?;
        }
        let items = Items::new(&value);
        self.run(py, how, move |editor| put(editor, selections, points, field, items.strided()?))
    }

    #[pyo3(signature = (value, axis, progress = None))]
    fn _append(&self, value: &Bound<'_, PyAny>, axis: usize, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let py = value.py();
        let value = as_items(value, self.dtype.bind(py))?;
        let items = Items::new(&value);
        let how = How { progress, ..self.how() };
        self.run(py, how, move |editor| editor.append(Axis(axis), items.strided()?))
    }

    #[pyo3(signature = (at, value, axis, progress = None))]
    fn _insert(
        &self,
        at: u64,
        value: &Bound<'_, PyAny>,
        axis: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = value.py();
        let value = as_items(value, self.dtype.bind(py))?;
        let items = Items::new(&value);
        let how = How { progress, ..self.how() };
        self.run(py, how, move |editor| editor.insert(Axis(axis), at, items.strided()?))
    }

    #[pyo3(signature = (start, stop, axis, progress = None))]
    fn _delete(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        axis: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let how = How { progress, ..self.how() };
        self.run(py, how, move |editor| editor.delete(Axis(axis), start..stop))
    }

    fn _resize(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<()> {
        self.run(py, self.how(), move |editor| editor.resize(&shape))
    }

    fn _set_compression(
        &self,
        py: Python<'_>,
        codec: &str,
        level: u8,
        filters: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let compression = compression(py, codec, level, filters)?;
        self.run(py, How::short(None), move |editor| editor.set_compression(compression))
    }

    fn _set_attr(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = crate::attrs::layer(value)?;
        self.run(py, How::short(None), move |editor| editor.set_vlmetalayer(name, &value))
    }

    /// Removes an attribute. Returns whether it existed.
    fn _remove_attr(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.run(py, How::short(None), move |editor| Ok(editor.attrs_mut().remove(name)))
    }

    fn _attr_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let array = self.snapshot(py)?;
        Ok(array.super_chunk().vlmetalayers().names().map(std::borrow::Cow::into_owned).collect())
    }

    fn _attr<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let array = self.snapshot(py)?;
        let bytes = array.super_chunk().vlmetalayers().get(name).or_raise(py)?;
        crate::attrs::of_layer(py, name, bytes, &array.super_chunk().dparams().limits)
    }

    fn _attr_bytes<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = self.snapshot(py)?.super_chunk().vlmetalayers().get(name).or_raise(py)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Commits, and returns the space of replaced and removed chunks to the file system.
    fn _compact(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, self.how(), |editor| editor.compact().map(drop))
    }

    /// Makes all changes visible in one step and ends the edit.
    fn _commit(&self, py: Python<'_>) -> PyResult<()> {
        let base = self.array.get();
        // Taken before the interpreter's lock is released: a fork must not copy a state lock that is held.
        let mut array = base.now()?;
        let committed = How::short(self.threads).run(py, move |_| -> Result<_, NdError> {
            let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
            let mut open = editor.take().ok_or_else(closed)?;
            open.commit()?;
            if let Origin::Path(..) = base.origin() {
                drop(open);
                array.refresh()?;
                return Ok((array, None));
            }
            let frame = open.into_bytes().ok_or_else(closed)?;
            Ok((NdArray::from_super_chunk(read_options().from_bytes(frame.clone())?)?, Some(frame)))
        })?;
        base.set(py, committed.0, committed.1)?;
        self.end();
        Ok(())
    }

    /// Discards uncommitted changes and ends the edit.
    fn _close(&self, py: Python<'_>) {
        py.detach(|| drop(self.editor.lock().unwrap_or_else(PoisonError::into_inner).take()));
        self.end();
    }
}

impl EditorBase {
    fn end(&self) {
        drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn put(
    editor: &mut ArrayEditor,
    selections: Vec<b2kit::Selection>,
    points: bool,
    field: Option<String>,
    values: impl RegionSource,
) -> Result<(), NdError> {
    match (field, points) {
        (Some(field), _) => editor.set_field(selections, &field, values),
        (None, true) => editor.set_points(selections, values),
        (None, false) => editor.set(selections, values),
    }
}
