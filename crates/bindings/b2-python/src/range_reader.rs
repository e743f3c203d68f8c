//! Reading a frame or a single chunk whose bytes the caller fetches: reports which bytes are needed next and accepts
//! them. For Zarr stores, which may read asynchronously. Nothing here waits for I/O.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use b2kit::frame::Destination;
use b2kit::nd::{NdError, NoLocalFiles, RangedOpening, RangedRead};
use b2kit::{Dtype, Limits, NdArray, SuperChunk};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::control::How;
use crate::errors::{OrRaise, argument};
use crate::index::{ResolvedIndex, Style};
use crate::options::plugins;
use crate::reader::{Memory, new_array};
use crate::source::bytes_of;

/// Blocks of up to this many stored bytes are decoded as one job.
const DECODE_LEN: u64 = 256 << 10;

/// Reads a frame, or a chunk outside of one, that is fetched in ranges.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct RangeReader {
    state: Mutex<State>,
}

struct State {
    opening: RangedOpening,
    dtype: Option<Py<PyArrayDescr>>,
    reading: Option<PendingRead>,
}

impl RangeReader {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ranges<'py>(py: Python<'py>, ranges: Vec<Range<u64>>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, ranges.into_iter().map(|range| (range.start, range.end)))
}

/// A selection that is being read.
struct PendingRead {
    /// It writes to the memory of `out`, so it must be dropped first.
    read: RangedRead<'static>,
    out: Py<PyUntypedArray>,
}

impl PendingRead {
    fn begin(key: &Bound<'_, PyAny>, array: &NdArray, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        let py = key.py();
        let view = ResolvedIndex::new(key, Style::Numpy, array.shape())?.view(py, array)?;
        let out = new_array(py, dtype, &view.shape, Memory::Zeros)?;
        let nbytes = view.slice.nbytes();
        if (out.len() as u64).saturating_mul(dtype.itemsize() as u64) != nbytes {
            return Err(argument(py, "the result has another size than its shape says"));
        }
        // SAFETY: The zeros of the array are `nbytes` contiguous bytes. The array lives as long as the read and its
        // jobs, and no other code gets it before they are gone.
        let destination = unsafe {
            let data: *mut u8 = (*out.as_array_ptr()).fields.data.cast();
            Destination::from_raw(data, nbytes as usize, true)
        };
        let read = RangedRead::new(&view.slice, destination).or_raise(py)?;
        Ok(Self { read, out: out.unbind() })
    }
}

#[pymethods]
impl RangeReader {
    /// Creates a reader. `start` holds the first bytes of the frame, of which `asked` were requested; `end` holds its
    /// last bytes, which contain the checksums.
    #[new]
    fn new(py: Python<'_>, start: &Bound<'_, PyAny>, asked: u64, end: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (Some(start), Some(end)) = (bytes_of(start)?, bytes_of(end)?) else {
            return Err(argument(py, "these are not bytes"));
        };
        let options = SuperChunk::options().plugins(plugins()).limits(Limits::default());
        let opening = RangedOpening::new(options, asked, start, end);
        Ok(Self { state: Mutex::new(State { opening, dtype: None, reading: None }) })
    }

    /// Creates a reader of a chunk outside of a frame, whose uncompressed size follows from its shape. `blocks` is the
    /// shape of its blocks; without it, items are in C order. `blocksize` is the size of its blocks in bytes, or an
    /// estimate.
    #[staticmethod]
    #[pyo3(signature = (shape, dtype, blocksize, blocks = None))]
    fn chunk(
        shape: Vec<u64>,
        dtype: &Bound<'_, PyArrayDescr>,
        blocksize: usize,
        blocks: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let py = dtype.py();
        let options = SuperChunk::options().plugins(plugins()).limits(Limits::default());
        let options = options.tuning(RangedOpening::TUNING.whole_chunk_max(0).coalesce_max(DECODE_LEN));
        let items = Dtype::opaque(format!("|V{}", dtype.itemsize()), dtype.itemsize());
        let array = NdArray::lone_chunk(&options, &shape, items, blocks, blocksize, Arc::new(NoLocalFiles));
        let opening = RangedOpening::opened_array(array.or_raise(py)?);
        let dtype = Some(dtype.clone().unbind());
        Ok(Self { state: Mutex::new(State { opening, dtype, reading: None }) })
    }

    /// Returns which part of a chunk's blocks of `blocksize` bytes hold selected items.
    fn touched_part(&self, key: &Bound<'_, PyAny>, blocksize: usize) -> PyResult<f64> {
        let py = key.py();
        let Some(array) = self.lock().opening.array().cloned() else {
            return Err(argument(py, "it is not open yet"));
        };
        let view = ResolvedIndex::new(key, Style::Numpy, array.shape())?.view(py, &array)?;
        view.slice.touched_part(blocksize).or_raise(py)
    }

    /// Accepts requested bytes; fewer than requested if the frame ends before.
    fn put(&self, py: Python<'_>, start: u64, stop: u64, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(bytes) = bytes_of(bytes)? else {
            return Err(argument(py, "these are not bytes"));
        };
        self.lock().opening.put(start..stop.max(start), bytes);
        Ok(())
    }

    /// Continues opening. Returns the ranges to fetch first, or an empty list once the frame is open.
    fn open<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.lock();
        let missing = state.opening.step().or_raise(py)?;
        if let Some(array) = state.opening.array() {
            state.dtype = Some(crate::dtype::to_numpy(py, array.dtype())?.unbind());
        }
        ranges(py, missing)
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self.lock().opening.array() {
            Some(array) => PyTuple::new(py, array.shape()),
            None => Err(argument(py, "it is not open yet")),
        }
    }

    #[getter]
    fn itemsize(&self, py: Python<'_>) -> PyResult<usize> {
        match self.lock().opening.array() {
            Some(array) => Ok(array.dtype().itemsize()),
            None => Err(argument(py, "it is not open yet")),
        }
    }

    /// Reads a selection. Returns an array, or a list of the ranges to fetch first. Until an array is returned, the
    /// next call continues with the same selection.
    fn read<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let (begun, array, dtype, fetched) = {
            let mut state = self.lock();
            let (Some(array), Some(dtype)) = (state.opening.array(), &state.dtype) else {
                return Err(argument(py, "it is not open yet"));
            };
            // Cheap: the bytes themselves are shared.
            let fetched = state.opening.fetched().clone();
            let (array, dtype) = (array.clone(), dtype.clone_ref(py));
            (state.reading.take(), array, dtype, fetched)
        };
        let mut reading = match begun {
            Some(reading) => reading,
            None => PendingRead::begin(key, &array, dtype.bind(py))?,
        };
        let (mut reading, missing) = How::threads(None).run(py, move |control| {
            let missing = reading.read.step(&fetched, &control.begin(array.nbytes(), 1))?;
            Ok::<_, NdError>((reading, missing))
        })?;
        if missing.is_empty() {
            reading.read.finish().or_raise(py)?;
            return Ok(reading.out.bind(py).clone().into_any());
        }
        self.lock().reading = Some(reading);
        Ok(ranges(py, missing)?.into_any())
    }
}
