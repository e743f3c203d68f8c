//! Reading a frame whose bytes the caller fetches: reports which bytes are needed next and accepts them. For Zarr
//! stores, which may read asynchronously. Nothing here waits for I/O.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use b2kit::frame::{
    Destination, Extent, FrameError, FrameFile, FrameFiles, FrameHeader, OpenFile, OpenPlan, Opened, Plan,
    Read, ReadCosts, ReadOptions, Request, Step, Storage, SuperChunk,
};
use b2kit::nd::{NdError, Selected};
use b2kit::{Control, Limits, NdArray};
use bytes::Bytes;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::control::How;
use crate::errors::{OrRaise, argument};
use crate::index::{Chosen, Style};
use crate::options::plugins;
use crate::reader::{Memory, new_array};
use crate::source::bytes_of;

/// Ranges with larger gaps are fetched separately, at the same time. Stores serve several requests in the time of one,
/// but the bytes in a gap cost transfer time.
const COSTS: ReadCosts = ReadCosts::LOCAL.head(0).at_once(4 << 20);

/// Reads a frame that is fetched in ranges.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct RangeReader {
    state: Mutex<State>,
}

struct State {
    fetched: Fetched,
    /// The last bytes of the frame, kept here until its length is known.
    end: Bytes,
    opening: Opening,
    reading: Option<Reading>,
}

enum Opening {
    Start,
    Plan(Box<OpenPlan>, Vec<Extent>),
    Open(NdArray, Py<PyArrayDescr>),
}

/// Fetched bytes, by offset.
#[derive(Clone, Default)]
struct Fetched {
    parts: BTreeMap<u64, Bytes>,
    /// Length of the frame, if requests have run past its end.
    len: Option<u64>,
}

impl Fetched {
    fn put(&mut self, range: Range<u64>, bytes: Bytes) {
        let end = range.start.saturating_add(bytes.len() as u64);
        if end < range.end {
            self.len = Some(self.len.map_or(end, |len| len.min(end)));
        }
        let longer = self.parts.get(&range.start).is_none_or(|before| before.len() < bytes.len());
        if longer {
            self.parts.insert(range.start, bytes);
        }
    }

    /// Returns the bytes of an extent, or `None` if they have to be fetched.
    fn get(&self, extent: &Extent) -> Result<Option<Bytes>, FrameError> {
        let Range { start, mut end } = extent.range;
        if let Some(len) = self.len.filter(|&len| len < end) {
            if !extent.or_less {
                let what = "bytes of the frame";
                return Err(FrameError::out_of_range(what, start, end, len));
            }
            end = len.max(start);
        }
        if start == end {
            return Ok(Some(Bytes::new()));
        }
        for (at, bytes) in self.parts.range(..=start).rev() {
            let from = usize::try_from(start - at).unwrap_or(usize::MAX);
            let to = usize::try_from(end - at).unwrap_or(usize::MAX);
            if to <= bytes.len() {
                return Ok(Some(bytes.slice(from..to)));
            }
        }
        Ok(None)
    }

    fn first(&self) -> Bytes {
        self.parts.get(&0).cloned().unwrap_or_default()
    }
}

/// No files: everything is read through plans.
struct Nowhere;

impl FrameFiles for Nowhere {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        Err(FrameError::argument("frame", "its bytes are fetched by ranges"))
    }
}

impl RangeReader {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ranges<'py>(py: Python<'py>, extents: &[Extent]) -> PyResult<Bound<'py, PyList>> {
    let mut told: Vec<(u64, u64)> = Vec::with_capacity(extents.len());
    for Extent { range, .. } in extents {
        let range = (range.start, range.end);
        if !told.contains(&range) {
            told.push(range);
        }
    }
    PyList::new(py, told)
}

impl State {
    /// Continues opening with the bytes fetched so far. Returns the missing extents, or none once the frame is open.
    fn open(&mut self, py: Python<'_>) -> PyResult<Vec<Extent>> {
        let options = SuperChunk::options().plugins(plugins()).limits(Limits::default()).costs(COSTS);
        let (mut plan, mut wanted) = match std::mem::replace(&mut self.opening, Opening::Start) {
            Opening::Start => {
                let start = self.fetched.first();
                let len = match self.fetched.len {
                    Some(len) => len,
                    None => FrameHeader::parse(&start).or_raise(py)?.frame_len(),
                };
                let end = std::mem::take(&mut self.end);
                if let Some(at) = len.checked_sub(end.len() as u64) {
                    self.fetched.put(at..len, end);
                }
                let plan = options.open_plan(len, Storage::Contiguous).first(start.len() as u64);
                let mut plan = Box::new(plan);
                match plan.step(Vec::new()).or_raise(py)? {
                    Step::Need(wanted) => (plan, wanted),
                    Step::Done(opened) => {
                        self.opened(py, opened, &options)?;
                        return Ok(Vec::new());
                    }
                }
            }
            Opening::Plan(plan, wanted) => (plan, wanted),
            open @ Opening::Open(..) => {
                self.opening = open;
                return Ok(Vec::new());
            }
        };
        loop {
            let mut missing = Vec::new();
            let mut answers = Vec::with_capacity(wanted.len());
            for extent in &wanted {
                match self.fetched.get(extent).or_raise(py)? {
                    Some(bytes) => answers.push(bytes),
                    None => missing.push(extent.clone()),
                }
            }
            if !missing.is_empty() {
                self.opening = Opening::Plan(plan, wanted);
                return Ok(missing);
            }
            match plan.step(answers).or_raise(py)? {
                Step::Need(more) => wanted = more,
                Step::Done(opened) => {
                    self.opened(py, opened, &options)?;
                    return Ok(Vec::new());
                }
            }
        }
    }

    fn opened(&mut self, py: Python<'_>, opened: Opened, options: &ReadOptions) -> PyResult<()> {
        let frame = options.opened(opened, Arc::new(Nowhere));
        let array = NdArray::from_super_chunk(frame).or_raise(py)?;
        let dtype = crate::dtype::to_numpy(py, array.dtype())?.unbind();
        self.opening = Opening::Open(array, dtype);
        Ok(())
    }
}

/// A selection that is being read.
struct Reading {
    /// `None` once nothing is left to read. It writes to the memory of `out`, so it must be dropped first.
    read: Option<Read<'static, Selected>>,
    waiting: Vec<Request>,
    out: Py<PyUntypedArray>,
}

impl Reading {
    fn begin(key: &Bound<'_, PyAny>, array: &NdArray, dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        let py = key.py();
        let view = Chosen::new(key, Style::Numpy, array.shape())?.view(py, array)?;
        let out = new_array(py, dtype, &view.shape, Memory::Zeros)?;
        let nbytes = view.slice.nbytes();
        if (out.len() as u64).saturating_mul(dtype.itemsize() as u64) != nbytes {
            return Err(argument(py, "the result has another size than its shape says"));
        }
        // SAFETY: The zeros of the array are `nbytes` contiguous bytes. The array is kept as long as the read and its
        // jobs, and no other code gets it before they are gone.
        let destination = unsafe {
            let data: *mut u8 = (*out.as_array_ptr()).fields.data.cast();
            Destination::from_raw(data, nbytes as usize, true)
        };
        let read = view.slice.begin(destination).or_raise(py)?;
        Ok(Self { read, waiting: Vec::new(), out: out.unbind() })
    }

    /// Passes the fetched bytes to the read and decodes them. Returns the missing extents.
    fn go_on(&mut self, fetched: &Fetched, control: &Control) -> Result<Vec<Extent>, NdError> {
        let Some(read) = &mut self.read else { return Ok(Vec::new()) };
        loop {
            while let Some(request) = read.need()? {
                self.waiting.push(request);
            }
            let before = self.waiting.len();
            let mut still = Vec::new();
            for request in self.waiting.drain(..) {
                match fetched.get(&request.extent)? {
                    Some(bytes) => read.put(request.id, bytes)?,
                    None => still.push(request),
                }
            }
            self.waiting = still;
            while let Some(job) = read.job() {
                let work = job.work();
                job.run()?;
                control.advance(work)?;
            }
            if self.waiting.len() == before {
                return Ok(self.waiting.iter().map(|request| request.extent.clone()).collect());
            }
        }
    }
}

#[pymethods]
impl RangeReader {
    /// Creates a reader. `start` holds the first bytes of the frame, of which `asked` were requested; `end` holds its
    /// last bytes, which contain the checksums.
    #[new]
    fn new(py: Python<'_>, start: &Bound<'_, PyAny>, asked: u64, end: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(end) = bytes_of(end)? else {
            return Err(argument(py, "these are no bytes"));
        };
        let state = State { fetched: Fetched::default(), end, opening: Opening::Start, reading: None };
        let reader = Self { state: Mutex::new(state) };
        reader.put(py, 0, asked, start)?;
        Ok(reader)
    }

    /// Accepts requested bytes; fewer than requested if the frame ends before.
    fn put(&self, py: Python<'_>, start: u64, stop: u64, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(bytes) = bytes_of(bytes)? else {
            return Err(argument(py, "these are no bytes"));
        };
        self.lock().fetched.put(start..stop.max(start), bytes);
        Ok(())
    }

    /// Continues opening. Returns the ranges to fetch first, or an empty list once the frame is open.
    fn open<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let missing = self.lock().open(py)?;
        ranges(py, &missing)
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match &self.lock().opening {
            Opening::Open(array, _) => PyTuple::new(py, array.shape()),
            _ => Err(argument(py, "it is not open yet")),
        }
    }

    /// Reads a selection. Returns an array, or a list of the ranges to fetch first. Until an array is returned, the
    /// next call continues with the same selection.
    fn read<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let (begun, array, dtype, fetched) = {
            let mut state = self.lock();
            let Opening::Open(array, dtype) = &state.opening else {
                return Err(argument(py, "it is not open yet"));
            };
            // Cheap: the bytes themselves are shared.
            let (array, dtype, fetched) = (array.clone(), dtype.clone_ref(py), state.fetched.clone());
            (state.reading.take(), array, dtype, fetched)
        };
        let mut reading = match begun {
            Some(reading) => reading,
            None => Reading::begin(key, &array, dtype.bind(py))?,
        };
        let (mut reading, missing) = How::threads(None).run(py, move |control| {
            let missing = reading.go_on(&fetched, &control.begin(array.nbytes(), 1))?;
            Ok::<_, NdError>((reading, missing))
        })?;
        if missing.is_empty() {
            if let Some(read) = reading.read.take() {
                read.finish().map(drop).or_raise(py)?;
            }
            return Ok(reading.out.bind(py).clone().into_any());
        }
        self.lock().reading = Some(reading);
        Ok(ranges(py, &missing)?.into_any())
    }
}
