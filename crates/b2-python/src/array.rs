//! An open array.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use b2_http::{Http, HttpFile};
use b2kit::chunk::{FilterSlot, SpecialKind};
use b2kit::frame::{
    Checksums, Entry, FrameError, INDEX_NAME, Inside, ReadAt, ReadCosts, ReadOptions, SuperChunk,
};
use b2kit::nd::NdError;
use b2kit::{Control, FilterId, NdArray};
use bytes::Bytes;
use numpy::PyArrayDescr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyTuple};

use crate::control::{How, plugins};
use crate::errors::{OrRaise, argument, exception, is_changed, selection, wrong_type};
use crate::index::{Chosen, Style};
use crate::reader;
use crate::remote::Remote;
use crate::source::PyFile;
use crate::store::{Frame, FrameBase};

/// Base class of `b2kit.Array`.
#[pyclass(frozen, subclass, module = "b2kit._b2kit")]
pub(crate) struct ArrayBase {
    state: Mutex<State>,
    pub(crate) origin: Origin,
    /// The absolute path, or a URL or name in place of it.
    path: Option<String>,
    pub(crate) writable: bool,
    pub(crate) threads: Option<usize>,
    /// The source of the bytes, if many ranges are fetched at once.
    remote: Option<Arc<Remote>>,
    /// The file on a web server.
    web: Option<Arc<HttpFile>>,
}

struct State {
    array: NdArray,
    dtype: Py<PyArrayDescr>,
    /// The frame, if it is in memory.
    frame: Option<Bytes>,
}

#[derive(Clone)]
pub(crate) enum Origin {
    /// A path, and the store that contains it.
    Path(PathBuf, Option<Arc<Inside>>),
    Memory,
    /// Part of a file, a Python object or a server: read-only.
    Elsewhere,
}

pub(crate) fn read_options() -> ReadOptions {
    SuperChunk::options().plugins(plugins())
}

/// Sets the number of threads that an array uses by default.
fn controlled(array: NdArray, threads: Option<usize>) -> NdArray {
    match threads {
        Some(threads) => array.with_control(Control::new().with_threads(threads)),
        None => array,
    }
}

impl ArrayBase {
    /// Locks the state. Held only briefly, and never while waiting for the interpreter's lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> NdArray {
        self.lock().array.clone()
    }

    pub(crate) fn both(&self, py: Python<'_>) -> (NdArray, Py<PyArrayDescr>) {
        let state = self.lock();
        (state.array.clone(), state.dtype.clone_ref(py))
    }

    pub(crate) fn frame(&self) -> Option<Bytes> {
        self.lock().frame.clone()
    }

    pub(crate) fn set(&self, py: Python<'_>, array: NdArray, frame: Option<Bytes>) -> PyResult<()> {
        let dtype = crate::dtype::to_numpy(py, array.dtype())?.unbind();
        let array = controlled(array, self.threads);
        let old = std::mem::replace(&mut *self.lock(), State { array, dtype, frame });
        drop(old);
        Ok(())
    }

    pub(crate) fn threads_of(&self, threads: Option<usize>) -> Option<usize> {
        threads.or(self.threads)
    }

    fn how(&self, threads: Option<usize>, progress: Option<Py<PyAny>>) -> How {
        How {
            threads: self.threads_of(threads),
            progress,
            short: false,
            remote: self.remote.clone(),
            far: self.web.is_some(),
        }
    }

    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        style: Style,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        self.again(py, |array, dtype| {
            let progress = progress.as_ref().map(|progress| progress.clone_ref(py));
            get(array, dtype, key, style, self.how(threads, progress))
        })
    }

    /// Reads, and retries in the newest state if the file was changed so that the state of this array is gone. Each
    /// result comes from one state. If the new state has another shape or dtype, the caller's selection may not apply,
    /// so the error is returned.
    fn again<'py, T>(
        &self,
        py: Python<'py>,
        mut read: impl FnMut(&NdArray, &Bound<'py, PyArrayDescr>) -> PyResult<T>,
    ) -> PyResult<T> {
        const TRIES: u32 = 20;
        let mut n = 0;
        loop {
            let (array, dtype) = self.both(py);
            match read(&array, dtype.bind(py)) {
                Err(error) if n < TRIES && is_changed(&error, py) => {
                    py.detach(|| std::thread::sleep(Duration::from_millis(1 << n.min(6))));
                    py.check_signals()?;
                    n += 1;
                    if !self.follow(py, &array)? {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Moves to the newest state if its geometry and dtype equal those of `old`. Returns whether they do.
    fn follow(&self, py: Python<'_>, old: &NdArray) -> PyResult<bool> {
        if !matches!(self.origin, Origin::Path(..)) {
            return Ok(false);
        }
        let mut newest = old.clone();
        let newest = How::short(None).run(py, move |_| {
            newest.refresh()?;
            Ok::<_, NdError>(newest)
        })?;
        let same = newest.geometry() == old.geometry() && newest.dtype().as_str() == old.dtype().as_str();
        if same {
            self.set(py, newest, None)?;
        }
        Ok(same)
    }
}

/// Reads the items that the index `key` selects.
pub(crate) fn get<'py>(
    array: &NdArray,
    dtype: &Bound<'py, PyArrayDescr>,
    key: &Bound<'py, PyAny>,
    style: Style,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let py = key.py();
    if let Some((mask, count)) = reader::dense_mask(array, key)? {
        return reader::read_marked(array, dtype, &mask, count, how);
    }
    let chosen = Chosen::new(key, style, array.shape())?;
    let view = chosen.view(py, array)?;
    match (&chosen.field, &chosen.fields) {
        (Some(_), _) => {
            let dtype = crate::dtype::to_numpy(py, view.slice.dtype())?;
            reader::read(view, &dtype, false, how)
        }
        (None, Some(fields)) => {
            let whole = reader::read(view, dtype, false, how)?;
            whole.get_item(fields)
        }
        (None, None) => reader::read(view, dtype, chosen.scalar, how),
    }
}

fn style(name: &str) -> PyResult<Style> {
    match name {
        "numpy" => Ok(Style::Numpy),
        "orthogonal" => Ok(Style::Orthogonal),
        "vectorized" => Ok(Style::Vectorized),
        _ => Err(wrong_type(format!("no such way of indexing: {name}"))),
    }
}

pub(crate) fn style_of(name: Option<&str>) -> PyResult<Style> {
    name.map_or(Ok(Style::Numpy), style)
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (source, mode = "r", threads = None, *, offset = 0, part = None, name = None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        mode: &str,
        threads: Option<usize>,
        offset: u64,
        part: Option<(u64, u64)>,
        name: Option<String>,
    ) -> PyResult<Self> {
        let writable = match mode {
            "r" => false,
            "a" => true,
            _ => return Err(argument(py, format!("mode {mode:?}, expected \"r\" or \"a\""))),
        };
        let how = How::short(threads);
        let (opened, origin, path, frame);
        let (mut remote, mut web) = (None, None);
        if let Ok(url) = source.extract::<String>()
            && b2_http::is_url(&url)
        {
            let found = how.run_apart(py, move |_| open_url(&url, offset))?;
            (opened, path, frame) = (found.array, Some(found.name), None);
            (origin, web) = (Origin::Elsewhere, Some(found.file));
        } else if let Ok(given) = source.extract::<PathBuf>() {
            // An absolute path stays valid after a change of directory.
            let given = std::path::absolute(&given)
                .map_err(|error| exception(py, "IoError", &format!("{}: {error}", given.display())))?;
            let text = given.to_string_lossy().into_owned();
            let store = crate::folder::of(source)?;
            let options =
                NdArray::options().frame_options(crate::folder::reading(store.as_ref())).offset(offset);
            origin = if offset == 0 { Origin::Path(given.clone(), store) } else { Origin::Elsewhere };
            opened = how.run(py, |_| options.open(&given))?;
            (path, frame) = (Some(text), None);
        } else if let Some(bytes) = bytes_of(source)? {
            opened =
                how.run(py, |_| NdArray::options().frame_options(read_options()).from_bytes(bytes.clone()))?;
            (origin, path, frame) = (Origin::Memory, name, Some(bytes));
        } else if let (Ok(frame_of_all), Some((offset, len))) = (source.cast::<FrameBase>(), part) {
            let reader: Arc<dyn ReadAt> = Arc::new(frame_of_all.get().part(py, offset, len)?);
            let name = name.unwrap_or_default();
            opened = how.run(py, |_| {
                NdArray::options().frame_options(read_options()).from_reader(reader, name.as_str())
            })?;
            (origin, path, frame) = (Origin::Elsewhere, Some(name), None);
        } else if source.hasattr(intern!(py, "fetch"))? && source.hasattr(intern!(py, "size"))? {
            let name = name.unwrap_or_default();
            let ranges = Arc::new(Remote::new(source, &name)?);
            let reader: Arc<dyn ReadAt> = ranges.clone();
            let options =
                NdArray::options().frame_options(read_options().costs(ReadCosts::REMOTE)).offset(offset);
            opened = how.run(py, |_| options.from_reader(reader, name.as_str()))?;
            remote = Some(ranges);
            (origin, path, frame) = (Origin::Elsewhere, Some(name), None);
        } else if source.hasattr(intern!(py, "read"))? && source.hasattr(intern!(py, "seek"))? {
            let file: Arc<dyn ReadAt> = Arc::new(PyFile::new(source)?);
            let name = match name {
                Some(name) => name,
                None => match source.getattr_opt(intern!(py, "name"))? {
                    Some(name) => name.str()?.to_string(),
                    None => source.get_type().name()?.to_string(),
                },
            };
            let options = NdArray::options().frame_options(read_options()).offset(offset);
            opened = how.run(py, |_| options.from_reader(file, name.as_str()))?;
            (origin, path, frame) = (Origin::Elsewhere, Some(name), None);
        } else {
            return Err(wrong_type(format!("an array cannot be opened from {}", source.get_type())));
        }
        if writable && matches!(origin, Origin::Elsewhere) {
            return Err(argument(
                py,
                "only files, directories and memory can be changed: open with mode=\"r\"",
            ));
        }
        if opened.super_chunk().checksums() == Checksums::Changed {
            let category = py.import("b2kit.errors")?.getattr("ChangedWarning")?;
            let name = path.as_deref().unwrap_or("the array");
            let message = format!(
                "{name}: another program has changed it since its checksums were written, perhaps its shape"
            );
            PyErr::warn(py, &category, &CString::new(message).unwrap_or_default(), 2)?;
        }
        let dtype = crate::dtype::to_numpy(py, opened.dtype())?.unbind();
        let state = Mutex::new(State { array: controlled(opened, threads), dtype, frame });
        Ok(Self { state, origin, path, writable, threads, remote, web })
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now().shape())
    }
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyArrayDescr> {
        self.lock().dtype.clone_ref(py)
    }
    #[getter]
    fn ndim(&self) -> usize {
        self.now().ndim()
    }
    #[getter]
    fn size(&self) -> u64 {
        self.now().len()
    }
    #[getter]
    fn itemsize(&self) -> usize {
        self.now().itemsize()
    }
    #[getter]
    fn nbytes(&self) -> u64 {
        self.now().nbytes()
    }
    #[getter]
    fn cbytes(&self) -> u64 {
        self.now().super_chunk().cbytes()
    }
    #[getter]
    fn nchunks(&self) -> u64 {
        self.now().nchunks()
    }
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now().chunkshape())
    }
    #[getter]
    fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now().blockshape())
    }
    #[getter]
    fn codec(&self) -> String {
        self.now().super_chunk().header().codec().to_string()
    }
    #[getter]
    fn level(&self) -> u8 {
        self.now().super_chunk().header().level()
    }
    #[getter]
    fn _filters(&self) -> Vec<(String, u8)> {
        let filters: Vec<FilterSlot> = self.now().super_chunk().header().filters().into();
        filters
            .iter()
            .filter(|slot| slot.id != FilterId::NONE)
            .map(|slot| (slot.id.to_string(), slot.meta))
            .collect()
    }
    #[getter]
    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }
    #[getter]
    fn mode(&self) -> &'static str {
        if self.writable { "a" } else { "r" }
    }
    #[getter]
    fn threads(&self) -> Option<usize> {
        self.threads
    }
    /// Version of the content as the web server reports it: ETag, time of last modification, length.
    #[getter]
    fn _version(&self) -> Option<(Option<String>, Option<String>, Option<u64>)> {
        let version = self.web.as_ref()?.version().clone();
        Some((version.etag, version.last_modified, version.len))
    }
    /// Where the array comes from: "path", "web", "memory" or "elsewhere". It decides how to open the array again.
    #[getter]
    fn _origin(&self) -> &'static str {
        match self.origin {
            _ if self.web.is_some() => "web",
            Origin::Path(..) => "path",
            Origin::Memory => "memory",
            Origin::Elsewhere => "elsewhere",
        }
    }
    /// The directory of the store that contains the array.
    #[getter]
    fn _store(&self) -> Option<std::ffi::OsString> {
        match &self.origin {
            Origin::Path(_, Some(inside)) => Some(inside.path().as_os_str().to_owned()),
            _ => None,
        }
    }
    /// The item type as it is stored in the file.
    #[getter]
    fn _stored_dtype(&self) -> String {
        self.now().dtype().to_string()
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.now().shape().first() {
            Some(&length) => Ok(usize::try_from(length)?),
            None => Err(wrong_type("len() of an array without dimensions")),
        }
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(key, Style::Numpy, None, None)
    }

    #[pyo3(signature = (key, style, threads = None, progress = None))]
    fn _get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        style: &str,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.get(key, style_of(Some(style))?, threads, progress)
    }

    #[pyo3(signature = (key, out, threads = None, progress = None))]
    fn _read_into(
        &self,
        key: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = out.py();
        self.again(py, |array, dtype| {
            let chosen = Chosen::new(key, Style::Numpy, array.shape())?;
            if chosen.fields.is_some() {
                return Err(selection(py, "several fields cannot be read with `out`"));
            }
            let view = chosen.view(py, array)?;
            let how = self.how(threads, progress.as_ref().map(|progress| progress.clone_ref(py)));
            match chosen.field {
                Some(_) => {
                    let dtype = crate::dtype::to_numpy(py, view.slice.dtype())?;
                    reader::read_into(view, &dtype, out, how)
                }
                None => reader::read_into(view, dtype, out, how),
            }
        })
    }

    /// Moves to the newest committed state. Returns whether there was a newer one.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        if !matches!(self.origin, Origin::Path(..)) {
            return Ok(false);
        }
        let mut array = self.now();
        let (array, newer) = How::short(None).run(py, move |_| {
            let newer = array.refresh()?;
            Ok::<_, NdError>((array, newer))
        })?;
        if newer {
            self.set(py, array, None)?;
        }
        Ok(newer)
    }

    /// Compares all checksums and decodes everything. Returns the state of the checksums: "ok", "changed" or "none".
    #[pyo3(signature = (threads = None, progress = None))]
    fn _verify(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<&'static str> {
        let array = self.now();
        let how = self.how(threads, progress);
        let verify =
            move |control| Ok::<_, NdError>(verdict(array.with_control(control).verify()?.checksums));
        if how.far { how.run_apart(py, verify) } else { how.run(py, verify) }
    }

    /// Returns the stored bytes of a chunk.
    fn _chunk<'py>(&self, py: Python<'py>, nchunk: usize) -> PyResult<Bound<'py, PyBytes>> {
        let array = self.now();
        let fetch = move |_| array.super_chunk().chunk(nchunk);
        let chunk = match self.web {
            Some(_) => How::short(None).run_apart(py, fetch)?,
            None => How::short(None).run(py, fetch)?,
        };
        Ok(PyBytes::new(py, chunk.as_bytes()))
    }

    /// Returns the kind of chunk `nchunk`: "stored", or the special value of its items.
    fn _chunk_kind(&self, py: Python<'_>, nchunk: usize) -> PyResult<&'static str> {
        let array = self.now();
        let entry = move |_| array.super_chunk().entry(nchunk);
        let entry = match self.web {
            Some(_) => How::short(None).run_apart(py, entry)?,
            None => How::short(None).run(py, entry)?,
        };
        Ok(match entry {
            Entry::Stored(_) => "stored",
            Entry::Special(SpecialKind::Zeros) => "zeros",
            Entry::Special(SpecialKind::NaN) => "nan",
            Entry::Special(SpecialKind::Uninit) => "uninit",
            Entry::Special(_) => "value",
        })
    }

    /// Returns the whole frame if it is in memory.
    fn _frame<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.frame().map(|frame| PyBytes::new(py, &frame))
    }

    fn _attr_names(&self) -> Vec<String> {
        self.now().attrs().names().map(std::borrow::Cow::into_owned).collect()
    }

    /// Returns an attribute in a tuple, since its value may be `None`; `None` if there is no such attribute.
    fn _attr<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        match self.now().attrs().get_object(name).or_raise(py)? {
            Some(value) => Ok(Some((crate::attrs::to_object(py, value)?,))),
            None => Ok(None),
        }
    }
}

/// An array on a web server.
struct OnServer {
    array: NdArray,
    file: Arc<HttpFile>,
    /// The URL without user, password and query.
    name: String,
}

/// Returns the HTTP connections, which all arrays share.
pub(crate) fn connections() -> &'static Http {
    static CONNECTIONS: LazyLock<Http> = LazyLock::new(Http::default);
    &CONNECTIONS
}

fn open_url(url: &str, offset: u64) -> Result<OnServer, NdError> {
    let http = connections().afresh();
    let name = http.hide(url);
    let options = read_options().costs(ReadCosts::REMOTE).file_system(Arc::new(http.clone()));
    let array = NdArray::options().frame_options(options).offset(offset).open(&name)?;
    let file = match http.open_file(name.as_ref()) {
        Ok(file) => file,
        // A sparse frame: use its index file, which changes with each commit.
        Err(_) => {
            let index = Path::new(&name).join(INDEX_NAME);
            http.open_file(&index).map_err(|source| FrameError::Io { name: name.clone(), source })?
        }
    };
    Ok(OnServer { array, file, name })
}

/// Returns the name for the state of the checksums of a verified frame.
pub(crate) fn verdict(checksums: Checksums) -> &'static str {
    match checksums {
        Checksums::Changed => "changed",
        Checksums::None => "none",
        _ => "ok",
    }
}

/// Returns the bytes of a buffer. Those of a `bytes` object are not copied.
pub(crate) fn bytes_of(source: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    if let Ok(frame) = source.cast::<Frame>() {
        return Ok(Some(frame.get().0.clone()));
    }
    if source.is_instance_of::<PyBytes>() || source.is_instance_of::<PyByteArray>() {
        return Ok(Some(Bytes::from_owner(source.extract::<PyBackedBytes>()?)));
    }
    if source.hasattr(intern!(source.py(), "__fspath__"))? || source.hasattr(intern!(source.py(), "read"))? {
        return Ok(None);
    }
    match PyMemoryView::from(source) {
        Ok(view) => {
            let bytes: PyBackedBytes = view.call_method0(intern!(source.py(), "tobytes"))?.extract()?;
            Ok(Some(Bytes::from_owner(bytes)))
        }
        Err(_) => Ok(None),
    }
}
