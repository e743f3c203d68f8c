//! Parses index expressions as NumPy does, and as `oindex` and `vindex` define them.

use b2kit::nd::{NdArray, Selection, Slice};
use numpy::npyffi::PY_ARRAY_API;
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyString, PyTuple};
use pyo3::{ffi, intern};

use crate::errors::{OrRaise, selection};

/// How index arrays are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As in NumPy.
    Numpy,
    /// Each index array selects along its own dimension.
    Orthogonal,
    /// Index arrays together are coordinates, whose dimensions come first in the result.
    Vectorized,
}

/// A parsed selection.
pub(crate) struct ResolvedIndex {
    /// Selections for the dimensions of the array, including new axes.
    pub(crate) selections: Vec<Selection>,
    /// Whether the lists are coordinates together, instead of one selection for each dimension.
    pub(crate) points: bool,
    /// Shape of the coordinates, and the axis they get in the result. The library treats them as one dimension.
    pub(crate) together: Option<JointAxes>,
    /// A field of structured items.
    pub(crate) field: Option<String>,
    /// Several fields of structured items; they are selected after whole items have been read.
    pub(crate) fields: Option<Vec<String>>,
    /// Whether a result without dimensions is a scalar.
    pub(crate) scalar: bool,
    /// A new axis of the result that must be empty, as for `a[False]`.
    empty: Option<usize>,
}

pub(crate) struct JointAxes {
    /// The axis of the coordinates in the library's result.
    pub(crate) from: usize,
    /// The first axis of the coordinates in NumPy's result.
    pub(crate) to: usize,
    pub(crate) shape: Vec<usize>,
}

/// A view, and the shape of its items in Python.
pub(crate) struct View {
    pub(crate) slice: Slice,
    pub(crate) shape: Vec<usize>,
}

enum Part<'py> {
    Selection(Selection),
    /// Positions, in an array of any shape.
    Array(Bound<'py, PyAny>),
    Mask(Bound<'py, PyUntypedArray>),
    Truth(bool),
    Integer(i64),
    Ellipsis,
}

impl ResolvedIndex {
    /// Parses the index `key` for an array with these lengths.
    pub(crate) fn new<'py>(key: &Bound<'py, PyAny>, style: Style, lengths: &[u64]) -> PyResult<Self> {
        let (py, ndim) = (key.py(), lengths.len());
        if let Ok(name) = key.cast::<PyString>() {
            return Ok(Self { field: Some(name.extract()?), ..Self::all() });
        }
        if let Ok(names) = key.cast::<PyList>()
            && !names.is_empty()
            && names.iter().all(|name| name.is_instance_of::<PyString>())
        {
            return Ok(Self { fields: Some(names.extract()?), ..Self::all() });
        }
        let mut parts = Vec::new();
        let (mut integers, mut advanced) = (0usize, 0usize);
        {
            let mut each = |item: &Bound<'py, PyAny>| -> PyResult<()> {
                let part = part(item)?;
                match part {
                    Part::Integer(_) => integers += 1,
                    Part::Array(_) | Part::Mask(_) | Part::Truth(_) => advanced += 1,
                    _ => {}
                }
                parts.push(part);
                Ok(())
            };
            match key.cast::<PyTuple>() {
                Ok(tuple) => tuple.iter().try_for_each(|item| each(&item))?,
                Err(_) => each(key)?,
            }
        }
        // Number of dimensions that the index consumes.
        let named: usize = parts
            .iter()
            .map(|part| match part {
                Part::Mask(mask) => mask.ndim(),
                Part::Truth(_) | Part::Ellipsis | Part::Selection(Selection::NewAxis) => 0,
                _ => 1,
            })
            .sum();
        if named > ndim {
            let what =
                format!("too many indices for array: array is {ndim}-dimensional, but {named} were indexed");
            return Err(selection(py, what));
        }
        let mut ellipsis = false;
        let mut expanded = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Ellipsis if ellipsis => {
                    return Err(selection(py, "an index can only have a single ellipsis ('...')"));
                }
                Part::Ellipsis => {
                    ellipsis = true;
                    if named == ndim {
                        // It covers no dimensions here, but still separates the index arrays around it.
                        expanded.push(Part::Selection(Selection::Ellipsis));
                    }
                    let all = || Part::Selection(Selection::ALL);
                    expanded.extend(std::iter::repeat_with(all).take(ndim - named));
                }
                part => expanded.push(part),
            }
        }
        if advanced == 0 {
            let selections = expanded
                .into_iter()
                .map(|part| match part {
                    Part::Integer(index) => Selection::Index(index),
                    Part::Selection(selection) => selection,
                    _ => Selection::ALL,
                })
                .collect();
            return Ok(Self { selections, scalar: integers == ndim && !ellipsis, ..Self::all() });
        }
        match style {
            Style::Orthogonal => Self::orthogonal(py, expanded),
            Style::Numpy if advanced == 1 && integers == 0 => Self::single(py, expanded),
            _ => Self::combined(py, expanded, style, lengths),
        }
    }

    fn all() -> Self {
        Self {
            selections: Vec::new(),
            points: false,
            together: None,
            field: None,
            fields: None,
            scalar: false,
            empty: None,
        }
    }

    /// Returns whether there are only slices, integers, new axes and an ellipsis.
    pub(crate) fn is_basic(&self) -> bool {
        let special = self.points || self.together.is_some() || self.empty.is_some();
        let basic = |selection: &Selection| !matches!(selection, Selection::List(_) | Selection::Mask { .. });
        !special && self.field.is_none() && self.fields.is_none() && self.selections.iter().all(basic)
    }

    /// Parses an index whose arrays each select along their own dimension.
    fn orthogonal(py: Python<'_>, parts: Vec<Part<'_>>) -> PyResult<Self> {
        let mut selections = Vec::with_capacity(parts.len());
        for part in parts {
            selections.push(match part {
                Part::Selection(selection) => selection,
                Part::Integer(index) => Selection::Index(index),
                Part::Array(array) => {
                    let (shape, list) = positions(&array)?;
                    if shape.len() != 1 {
                        return Err(selection(py, "oindex takes lists of one dimension"));
                    }
                    Selection::List(list)
                }
                Part::Mask(mask) => {
                    if mask.ndim() != 1 {
                        return Err(selection(py, "oindex takes masks of one dimension"));
                    }
                    mask_of(&mask)?
                }
                Part::Truth(_) | Part::Ellipsis => {
                    return Err(selection(py, "oindex does not accept a single truth value"));
                }
            });
        }
        Ok(Self { selections, ..Self::all() })
    }

    /// Parses an index with a single index array or mask besides slices: its dimensions stay in place.
    fn single(py: Python<'_>, parts: Vec<Part<'_>>) -> PyResult<Self> {
        let mut chosen = Self::all();
        let mut at = 0;
        for part in parts {
            match part {
                Part::Array(array) => {
                    let (shape, list) = positions(&array)?;
                    if shape.len() != 1 {
                        chosen.together = Some(JointAxes { from: at, to: at, shape });
                    }
                    chosen.selections.push(Selection::List(list));
                    at += 1;
                }
                Part::Mask(mask) => {
                    chosen.selections.push(mask_of(&mask)?);
                    at += 1;
                }
                Part::Truth(truth) => {
                    chosen.selections.push(Selection::NewAxis);
                    chosen.empty = (!truth).then_some(at);
                    at += 1;
                }
                Part::Selection(selection) => {
                    at += usize::from(selection != Selection::Ellipsis);
                    chosen.selections.push(selection);
                }
                Part::Integer(_) | Part::Ellipsis => {
                    return Err(selection(py, "an index array is not allowed here"));
                }
            }
        }
        Ok(chosen)
    }

    /// Parses an index whose arrays, masks and integers together form coordinates.
    fn combined<'py>(
        py: Python<'py>,
        parts: Vec<Part<'py>>,
        style: Style,
        lengths: &[u64],
    ) -> PyResult<Self> {
        // One list of positions for each indexed dimension. Truth values index no dimension.
        let mut arrays = Vec::new();
        let mut plan = Vec::new();
        let mut dim = 0;
        for part in parts {
            match part {
                Part::Selection(selection) => {
                    dim += usize::from(!matches!(selection, Selection::NewAxis | Selection::Ellipsis));
                    plan.push(IndexPart::Selection(selection));
                }
                Part::Integer(index) => {
                    dim += 1;
                    plan.push(IndexPart::Integer(index));
                }
                Part::Array(array) => {
                    dim += 1;
                    plan.push(IndexPart::Array(arrays.len()));
                    arrays.push(array);
                }
                Part::Mask(mask) => {
                    let lists = mask.call_method0(intern!(py, "nonzero"))?.cast_into::<PyTuple>()?;
                    for (list, &marks) in lists.iter().zip(PyUntypedArrayMethods::shape(&mask)) {
                        let length = lengths.get(dim).copied().unwrap_or_default();
                        if length != marks as u64 {
                            let what = format!(
                                "boolean index did not match indexed array along axis {dim}; size of axis is \
                                 {length} but size of corresponding boolean axis is {marks}"
                            );
                            return Err(selection(py, what));
                        }
                        dim += 1;
                        plan.push(IndexPart::Array(arrays.len()));
                        arrays.push(list);
                    }
                }
                Part::Truth(truth) => {
                    plan.push(IndexPart::Nothing);
                    let zeros = numpy(py)?.call_method1(intern!(py, "zeros"), (usize::from(truth),))?;
                    arrays.push(zeros.call_method1(intern!(py, "astype"), (intern!(py, "int64"),))?);
                }
                Part::Ellipsis => {}
            }
        }
        let broadcast =
            match numpy(py)?.call_method1(intern!(py, "broadcast_arrays"), PyTuple::new(py, &arrays)?) {
                Ok(broadcast) => broadcast,
                Err(_) => {
                    let shapes: PyResult<Vec<String>> = arrays
                        .iter()
                        .map(|array| Ok(array.getattr(intern!(py, "shape"))?.str()?.to_string()))
                        .collect();
                    let what = format!(
                        "shape mismatch: indexing arrays could not be broadcast together with shapes {}",
                        shapes?.join(" ")
                    );
                    return Err(selection(py, what));
                }
            };
        let mut lists = Vec::with_capacity(arrays.len());
        let mut shape = Vec::new();
        for array in broadcast.try_iter()? {
            let (its_shape, list) = positions(&array?)?;
            shape = its_shape;
            lists.push(list);
        }
        let to = if style == Style::Vectorized { 0 } else { place_of_coordinates(plan.iter()) };

        // The selections passed to the library. If no index array selects a dimension, the points are a new axis.
        let any = plan.iter().any(|part| matches!(part, IndexPart::Array(_)));
        let mut chosen = Self::all();
        let empty = shape.contains(&0);
        if !any {
            // Truth values alone, or together with integers.
            let mut placed = false;
            let mut at = 0;
            for part in &plan {
                match part {
                    IndexPart::Nothing if !placed => {
                        placed = true;
                        chosen.selections.push(Selection::NewAxis);
                        chosen.empty = empty.then_some(at);
                        chosen.together = Some(JointAxes { from: at, to, shape: shape.clone() });
                        at += 1;
                    }
                    IndexPart::Integer(index) => chosen.selections.push(Selection::Index(*index)),
                    IndexPart::Selection(selection) => {
                        at += part.dims();
                        chosen.selections.push(selection.clone());
                    }
                    _ => {}
                }
            }
            return Ok(chosen);
        }
        // Truth values index no dimension, so they are not passed to the library.
        let seen = plan.iter().filter(|part| !matches!(part, IndexPart::Nothing));
        let from = place_of_coordinates(seen.clone());
        for part in seen {
            chosen.selections.push(match part {
                IndexPart::Selection(selection) => selection.clone(),
                IndexPart::Integer(index) => Selection::Index(*index),
                IndexPart::Array(n) => Selection::List(std::mem::take(&mut lists[*n])),
                IndexPart::Nothing => continue,
            });
        }
        chosen.points = true;
        chosen.together = Some(JointAxes { from, to, shape });
        Ok(chosen)
    }

    /// Returns the selected view of `array`.
    pub(crate) fn view(&self, py: Python<'_>, array: &NdArray) -> PyResult<View> {
        let mut slice = match (&self.selections[..], self.points) {
            ([], _) => array.all(),
            (selections, false) => array.slice(selections).or_raise(py)?,
            (selections, true) => array.points(selections).or_raise(py)?,
        };
        if let Some(axis) = self.empty {
            let mut selections = vec![Selection::ALL; axis];
            selections.push(Selection::Range { start: Some(0), stop: Some(0), step: 1 });
            slice = slice.slice(selections).or_raise(py)?;
        }
        if let Some(JointAxes { from, to, .. }) = &self.together
            && from != to
        {
            let mut axes: Vec<usize> = (0..slice.ndim()).collect();
            let axis = axes.remove(*from);
            axes.insert(*to, axis);
            slice = slice.permute(&axes).or_raise(py)?;
        }
        if (self.field.is_some() || self.fields.is_some()) && array.dtype().fields().is_none() {
            return Err(selection(py, ONLY));
        }
        if let Some(name) = &self.field {
            slice = slice.field(name).or_raise(py)?;
        }
        let mut shape = Vec::with_capacity(slice.ndim());
        for (dim, length) in slice.shape().into_iter().enumerate() {
            match &self.together {
                Some(together) if together.to == dim => shape.extend_from_slice(&together.shape),
                _ => shape.push(length as usize),
            }
        }
        Ok(View { slice, shape })
    }

    /// Reads the selected view by `read`, which gets the dtype of the result. Returns the same as NumPy: an array, a scalar, or
    /// some fields of an array.
    pub(crate) fn read<'py>(
        &self,
        py: Python<'py>,
        view: View,
        dtype: &Bound<'py, PyArrayDescr>,
        read: impl FnOnce(View, &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyUntypedArray>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.field.is_some() {
            let dtype = crate::dtype::to_numpy(py, view.slice.dtype())?;
            return Ok(read(view, &dtype)?.into_any());
        }
        let items = read(view, dtype)?;
        match &self.fields {
            Some(fields) => items.get_item(fields),
            None if self.scalar => scalar(items),
            None => Ok(items.into_any()),
        }
    }
}

/// Returns the item of an array without dimensions.
fn scalar(array: Bound<'_, PyUntypedArray>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    // SAFETY: The call takes over the reference to the array and returns a new one.
    unsafe {
        let item = PY_ARRAY_API.PyArray_Return(py, array.into_ptr().cast());
        Bound::from_owned_ptr_or_err(py, item)
    }
}

const ONLY: &str = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean \
                    arrays are valid indices";

enum IndexPart {
    Selection(Selection),
    Integer(i64),
    /// The list of positions with this number.
    Array(usize),
    /// A truth value, which indexes no dimension.
    Nothing,
}

impl IndexPart {
    /// The dimensions that this gives the result if it is a selection.
    fn dims(&self) -> usize {
        usize::from(!matches!(self, Self::Selection(Selection::Ellipsis)))
    }
}

/// Returns the axis that coordinates get in the result: in place of the parts they are from if these are consecutive,
/// otherwise the first.
fn place_of_coordinates<'a>(plan: impl Iterator<Item = &'a IndexPart> + Clone) -> usize {
    let is_named = |part: &&IndexPart| !matches!(part, IndexPart::Selection(_));
    let before = plan.clone().take_while(|part| !is_named(part));
    let mut after = plan.skip_while(|part| !is_named(part)).skip_while(is_named);
    if after.any(|part| is_named(&part)) { 0 } else { before.map(IndexPart::dims).sum() }
}

pub(crate) fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    static NUMPY: pyo3::sync::PyOnceLock<Py<PyModule>> = pyo3::sync::PyOnceLock::new();
    Ok(NUMPY.get_or_try_init(py, || PyModule::import(py, "numpy").map(Bound::unbind))?.bind(py).clone())
}

/// Returns whether this is a masked array. Its mask would be lost.
pub(crate) fn is_masked(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Plain arrays, the most frequent case, need no look at the module.
    if object.is_exact_instance_of::<PyUntypedArray>() || !object.is_instance_of::<PyUntypedArray>() {
        return Ok(false);
    }
    let class = numpy(object.py())?.getattr(intern!(object.py(), "ma"))?.getattr("MaskedArray")?;
    object.is_instance(&class)
}

/// Refuses a masked array as an index: it is not known whether masked positions are selected.
pub(crate) fn refuse_masked(item: &Bound<'_, PyAny>) -> PyResult<()> {
    match is_masked(item)? {
        true => Err(selection(item.py(), "a masked array cannot be an index: fill it first")),
        false => Ok(()),
    }
}

/// Parses one element of an index expression.
fn part<'py>(item: &Bound<'py, PyAny>) -> PyResult<Part<'py>> {
    let py = item.py();
    if item.is_none() {
        return Ok(Part::Selection(Selection::NewAxis));
    }
    if let Ok(slice) = item.cast::<PySlice>() {
        return range(slice).map(Part::Selection);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Part::Ellipsis);
    }
    if let Ok(truth) = item.cast::<PyBool>() {
        return Ok(Part::Truth(truth.is_true()));
    }
    if item.is_instance_of::<PyInt>() {
        return integer(item).map(Part::Integer);
    }
    refuse_masked(item)?;
    let is_array = item.is_instance_of::<PyUntypedArray>();
    let array = match is_array {
        true => item.clone(),
        false => {
            // NumPy scalars, and anything else with `__index__`.
            let scalar = !item.is_instance_of::<PyList>() && !item.is_instance_of::<PyTuple>();
            if scalar && let Ok(truth) = item.extract::<bool>() {
                return Ok(Part::Truth(truth));
            }
            if scalar && item.hasattr(intern!(py, "__index__"))? {
                return integer(item).map(Part::Integer);
            }
            if item.is_instance_of::<PyString>() {
                return Err(selection(py, "a field name stands alone in the brackets"));
            }
            numpy(py)?.call_method1(intern!(py, "asarray"), (item,))?
        }
    };
    let array = array.cast_into::<PyUntypedArray>()?;
    let kind: char = array.dtype().getattr(intern!(py, "kind"))?.extract()?;
    match (kind, array.ndim()) {
        ('b', 0) => Ok(Part::Truth(array.is_truthy()?)),
        ('b', _) => Ok(Part::Mask(array)),
        ('i' | 'u', 0) => integer(&array.call_method0(intern!(py, "item"))?).map(Part::Integer),
        ('i' | 'u', _) => Ok(Part::Array(array.into_any())),
        // An empty list, which NumPy converts to float64.
        (_, 1..) if !is_array && array.is_empty() => {
            Ok(Part::Array(array.call_method1(intern!(py, "astype"), (intern!(py, "int64"),))?))
        }
        _ if is_array || item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() => {
            Err(selection(py, "arrays used as indices must be of integer (or boolean) type"))
        }
        _ => Err(selection(py, ONLY)),
    }
}

/// Converts an integer. Those beyond 64 bits are clipped, which leaves them out of range.
fn integer(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    // SAFETY: The object is alive. With a null exception type the result is clipped.
    let value = unsafe { ffi::PyNumber_AsSsize_t(item.as_ptr(), std::ptr::null_mut()) };
    if value == -1
        && let Some(error) = PyErr::take(item.py())
    {
        return Err(error);
    }
    Ok(value as i64)
}

fn range(slice: &Bound<'_, PySlice>) -> PyResult<Selection> {
    let py = slice.py();
    let edge = |name: &Bound<'_, PyString>| -> PyResult<Option<i64>> {
        let edge = slice.getattr(name)?;
        if edge.is_none() { Ok(None) } else { integer(&edge).map(Some) }
    };
    let step = edge(intern!(py, "step"))?.unwrap_or(1);
    if step == 0 {
        return Err(crate::errors::argument(py, "slice step cannot be zero"));
    }
    let (start, stop) = (edge(intern!(py, "start"))?, edge(intern!(py, "stop"))?);
    Ok(Selection::Range { start, stop, step: step.max(-i64::MAX) })
}

/// Returns the shape and the items of an integer array, in C order.
fn positions(array: &Bound<'_, PyAny>) -> PyResult<(Vec<usize>, Vec<i64>)> {
    let py = array.py();
    let flat = numpy(py)?.call_method1(intern!(py, "ascontiguousarray"), (array, intern!(py, "int64")))?;
    let shape = array.cast::<PyUntypedArray>()?.shape().to_vec();
    let flat = flat.cast_into::<numpy::PyArrayDyn<i64>>()?;
    let list = numpy::PyArrayMethods::to_vec(&flat)?;
    Ok((shape, list))
}

fn mask_of(mask: &Bound<'_, PyUntypedArray>) -> PyResult<Selection> {
    let py = mask.py();
    let flat = numpy(py)?.call_method1(intern!(py, "ascontiguousarray"), (mask,))?;
    let flat = flat.call_method1(intern!(py, "view"), (intern!(py, "uint8"),))?;
    let flat = flat.cast_into::<numpy::PyArrayDyn<u8>>()?;
    let shape: Vec<u64> = mask.shape().iter().map(|&n| n as u64).collect();
    let marks = numpy::PyArrayMethods::readonly(&flat);
    Ok(Selection::mask_of(shape, marks.as_slice()?))
}
