//! An open array.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use b2_core::memory;
use b2_http::HttpFile;
use b2_store::MemberLocation;
use b2kit::chunk::{FilterSlot, SpecialKind};
use b2kit::frame::{
    Checksums, Entry, FrameError, INDEX_NAME, ReadAt, ReadTuning, RetryPolicy, RootedDir, Storage,
    retry_on_change,
};
use b2kit::nd::NdError;
use b2kit::{Control, FilterId, NdArray};
use bytes::Bytes;
use numpy::PyArrayDescr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::control::How;
use crate::errors::{OrRaise, argument, exception, is_changed, selection, wrong_type};
use crate::index::{ResolvedIndex, Style};
use crate::options::{read_options, verdict};
use crate::reader;
use crate::remote::{Remote, connections};
use crate::source::{PyFile, bytes_of};
use crate::store::Store;

/// Base class of `b2kit.Array`.
#[pyclass(frozen, subclass, module = "b2kit._b2kit")]
pub(crate) struct ArrayBase {
    state: Mutex<State>,
    origin: Origin,
    /// The file to which an embedded member of a store was moved.
    file: OnceLock<PathBuf>,
    /// The absolute path, or a URL or name in place of it.
    path: Option<String>,
    pub(crate) writable: bool,
    /// Whether the file is locked while it is changed.
    pub(crate) locks: bool,
    pub(crate) threads: Option<usize>,
    /// Whether it is on a web server.
    on_server: bool,
}

/// The state that closing releases.
struct State {
    /// `None` once the array is closed.
    array: Option<NdArray>,
    dtype: Py<PyArrayDescr>,
    /// The frame, if it is in memory.
    frame: Option<Bytes>,
    /// The directory of the store that contains the array.
    store: Option<Arc<RootedDir>>,
    /// The source of the bytes, if many ranges are fetched concurrently.
    remote: Option<Arc<Remote>>,
    /// The file on a web server.
    web: Option<Arc<HttpFile>>,
}

#[derive(Clone)]
pub(crate) enum Origin {
    Path(PathBuf),
    Memory,
    /// A member of the store in a directory, in its frame with small members.
    Embedded {
        store: PathBuf,
        key: String,
    },
    /// Part of a file, a Python object or a server: read-only.
    Elsewhere,
}

/// The metalayers with the shape of an array.
const OWN: [&[u8]; 2] = [b"b2nd", b"caterva"];

/// Sets the number of threads that an array uses by default.
fn controlled(array: NdArray, threads: Option<usize>) -> NdArray {
    match threads {
        Some(threads) => array.with_control(Control::new().threads(threads)),
        None => array,
    }
}

impl ArrayBase {
    /// Locks the state. Held only briefly, and never while waiting for the interpreter's lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> PyResult<NdArray> {
        let array = self.lock().array.clone();
        array.ok_or_else(|| Python::attach(|py| argument(py, "the array is closed")))
    }

    pub(crate) fn both(&self, py: Python<'_>) -> PyResult<(NdArray, Py<PyArrayDescr>)> {
        let array = self.now()?;
        Ok((array, self.lock().dtype.clone_ref(py)))
    }

    pub(crate) fn origin(&self) -> Origin {
        self.file.get().map_or_else(|| self.origin.clone(), |path| Origin::Path(path.clone()))
    }

    /// Moves an embedded member of a store to a separate file, so that it can be changed.
    pub(crate) fn give_file(&self, py: Python<'_>) -> PyResult<()> {
        let Origin::Embedded { store, key } = self.origin() else { return Ok(()) };
        self.now()?;
        let locks = self.locks;
        let (path, inside, array) = How::short(None).run(py, move |_| {
            let opened = b2_store::Store::open(store, &read_options())?;
            let opened = opened.ok_or_else(|| b2_store::StoreError::NoSuchKey(key.clone()))?.lock(locks);
            let path = opened.file_of(&key, &read_options())?;
            let inside = opened.inside().cloned();
            let frame = crate::folder::reading(inside.as_ref()).open(&path)?;
            Ok::<_, b2_store::StoreError>((path, inside, frame))
        })?;
        self.set(py, NdArray::from_super_chunk(array).or_raise(py)?, None)?;
        self.lock().store = inside;
        let _ = self.file.set(path);
        Ok(())
    }

    pub(crate) fn frame(&self) -> Option<Bytes> {
        self.lock().frame.clone()
    }

    /// Returns the directory of the store that contains the array.
    pub(crate) fn store(&self) -> Option<Arc<RootedDir>> {
        self.lock().store.clone()
    }

    pub(crate) fn set(&self, py: Python<'_>, array: NdArray, frame: Option<Bytes>) -> PyResult<()> {
        let dtype = crate::dtype::to_numpy(py, array.dtype())?.unbind();
        let array = controlled(array, self.threads);
        let mut state = self.lock();
        // If it was closed in the meantime, it stays closed.
        let old = match state.array {
            Some(_) => (state.array.replace(array), std::mem::replace(&mut state.dtype, dtype)),
            None => (Some(array), dtype),
        };
        if state.array.is_some() {
            state.frame = frame;
        }
        drop(state);
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
            remote: self.lock().remote.clone(),
            on_server: self.on_server,
        }
    }

    /// For calls that read a few bytes.
    fn short_how(&self) -> How {
        How { on_server: self.on_server, ..How::short(None) }
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
        let attempt = |last: &mut Option<NdArray>| {
            let (array, dtype) = self.both(py)?;
            read(last.insert(array), dtype.bind(py))
        };
        let recover = |last: &mut Option<NdArray>, error: &PyErr, pause| match last {
            Some(last) if is_changed(error, py) => {
                py.detach(|| std::thread::sleep(pause));
                py.check_signals()?;
                self.follow(py, last)
            }
            _ => Ok(false),
        };
        retry_on_change(RetryPolicy::default(), &mut None, attempt, recover)
    }

    /// Moves to the newest state if its geometry and dtype equal those of `old`. Returns whether they do.
    fn follow(&self, py: Python<'_>, old: &NdArray) -> PyResult<bool> {
        if !matches!(self.origin(), Origin::Path(..)) {
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
    crate::index::refuse_masked(key)?;
    if let Some(mask) = reader::Mask::of(array, key)? {
        return mask.read(array, dtype, how);
    }
    let chosen = ResolvedIndex::new(key, style, array.shape())?;
    let view = chosen.view(py, array)?;
    chosen.read(py, view, dtype, |view, dtype| reader::read(view, dtype, how))
}

fn style(name: &str) -> PyResult<Style> {
    match name {
        "numpy" => Ok(Style::Numpy),
        "orthogonal" => Ok(Style::Orthogonal),
        "vectorized" => Ok(Style::Vectorized),
        _ => Err(wrong_type(format!("unknown kind of indexing: {name}"))),
    }
}

pub(crate) fn style_of(name: Option<&str>) -> PyResult<Style> {
    name.map_or(Ok(Style::Numpy), style)
}

fn special(kind: SpecialKind) -> &'static str {
    match kind {
        SpecialKind::Zeros => "zeros",
        SpecialKind::NaN => "nan",
        SpecialKind::Uninit => "uninit",
        _ => "value",
    }
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (source, mode = "r", threads = None, *, offset = 0, key = None, name = None, lock = true))]
    #[expect(clippy::too_many_arguments, reason = "the parameters of the constructor in Python")]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        mode: &str,
        threads: Option<usize>,
        offset: u64,
        key: Option<String>,
        name: Option<String>,
        lock: bool,
    ) -> PyResult<Self> {
        let writable = match mode {
            "r" => false,
            "a" => true,
            _ => return Err(argument(py, format!("mode {mode:?}, expected \"r\" or \"a\""))),
        };
        let how = How::short(threads);
        let (opened, origin, path, frame);
        let (mut remote, mut web, mut inside) = (None, None, None);
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
            let options = crate::folder::reading(store.as_ref()).offset(offset);
            origin = if offset == 0 { Origin::Path(given.clone()) } else { Origin::Elsewhere };
            inside = store;
            opened = how.run(py, |_| NdArray::open_with(&given, &options))?;
            (path, frame) = (Some(text), None);
        } else if let Some(bytes) = bytes_of(source)? {
            opened = how.run(py, |_| NdArray::from_super_chunk(read_options().from_bytes(bytes.clone())?))?;
            (origin, path, frame) = (Origin::Memory, name, Some(bytes));
        } else if let (Ok(store), Some(key)) = (source.cast::<Store>(), key) {
            let store = &store.get().0;
            let member = store.member(&key).or_raise(py)?;
            let frame_of_member = how.run(py, |_| store.frame(&key, &read_options()))?;
            (origin, path) = match &member.place {
                MemberLocation::Path(path) => {
                    let text = path.to_string_lossy().into_owned();
                    inside = store.inside().cloned();
                    (Origin::Path(path.clone()), Some(text))
                }
                MemberLocation::Embedded(_) if store.inside().is_some() => {
                    let root = store.inside().map(|inside| inside.path().to_owned()).unwrap_or_default();
                    (Origin::Embedded { store: root, key: key.clone() }, name)
                }
                _ => (Origin::Elsewhere, name),
            };
            (opened, frame) = (NdArray::from_super_chunk(frame_of_member).or_raise(py)?, None);
        } else if source.hasattr(intern!(py, "fetch"))? && source.hasattr(intern!(py, "size"))? {
            let name = name.unwrap_or_default();
            let ranges = Arc::new(Remote::new(source, &name)?);
            let options = read_options().tuning(ReadTuning::REMOTE).offset(offset);
            opened = how
                .run(py, |_| NdArray::from_super_chunk(options.from_reader(ranges.file(), name.as_str())?))?;
            remote = Some(ranges);
            (origin, path, frame) = (Origin::Elsewhere, Some(name), None);
        } else if source.hasattr(intern!(py, "read"))? && source.hasattr(intern!(py, "seek"))? {
            let file: Arc<dyn ReadAt> = Arc::new(PyFile::new(source)?);
            let name = match name {
                Some(name) => name,
                None => match source.getattr_opt(intern!(py, "name"))? {
                    Some(name) => b2kit::frame::redact(&name.str()?.to_string()),
                    None => source.get_type().name()?.to_string(),
                },
            };
            let options = read_options().offset(offset);
            opened = how.run(py, |_| NdArray::from_super_chunk(options.from_reader(file, name.as_str())?))?;
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
        let array = Some(controlled(opened, threads));
        let on_server = web.is_some();
        let state = Mutex::new(State { array, dtype, frame, store: inside, remote, web });
        Ok(Self { state, origin, file: OnceLock::new(), path, writable, locks: lock, threads, on_server })
    }

    /// The length of each dimension, in items.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now()?.shape())
    }
    /// The type of the items.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyArrayDescr>> {
        Ok(self.both(py)?.1)
    }
    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> PyResult<usize> {
        Ok(self.now()?.ndim())
    }
    /// The number of items.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.now()?.len())
    }
    /// The size of an item in bytes.
    #[getter]
    fn itemsize(&self) -> PyResult<usize> {
        Ok(self.now()?.itemsize())
    }
    /// The size of all items in bytes, uncompressed.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.now()?.nbytes())
    }
    /// The size of the compressed data in bytes.
    #[getter]
    fn cbytes(&self) -> PyResult<u64> {
        Ok(self.now()?.super_chunk().cbytes())
    }
    /// The number of chunks.
    #[getter]
    fn nchunks(&self) -> PyResult<u64> {
        Ok(self.now()?.geometry().nchunks())
    }
    /// The shape of a chunk: the items that are compressed together, and appended or replaced as a whole.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now()?.chunkshape())
    }
    /// The shape of a block: the items that are decoded together.
    #[getter]
    fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.now()?.blockshape())
    }
    /// The name of the codec, such as `"zstd"`.
    #[getter]
    fn codec(&self) -> PyResult<String> {
        Ok(self.now()?.super_chunk().header().codec().to_string())
    }
    /// The compression level, 0 to 9.
    #[getter]
    fn level(&self) -> PyResult<u8> {
        Ok(self.now()?.super_chunk().header().level())
    }
    #[getter]
    fn _filters(&self) -> PyResult<Vec<(String, u8)>> {
        let filters: Vec<FilterSlot> = self.now()?.super_chunk().header().filters().into();
        let applied = filters.iter().filter(|slot| slot.id != FilterId::NONE);
        Ok(applied.map(|slot| (slot.id.to_string(), slot.meta)).collect())
    }
    /// The absolute path, the URL without user, password and query, or the name of the source; `None` in memory.
    #[getter]
    fn path(&self) -> Option<String> {
        let file = self.file.get().map(|path| path.to_string_lossy().into_owned());
        file.or_else(|| self.path.clone())
    }
    /// `"r"` for reading, or `"a"` for reading and changing.
    #[getter]
    fn mode(&self) -> &'static str {
        if self.writable { "a" } else { "r" }
    }
    /// Whether the file is locked while it is changed.
    #[getter]
    fn _lock(&self) -> bool {
        self.locks
    }
    /// The number of threads for one call; `None` for that of `set_threads`.
    #[getter]
    fn threads(&self) -> Option<usize> {
        self.threads
    }
    /// Version of the content as the web server reports it: ETag, time of last modification, length.
    #[getter]
    fn _version(&self) -> Option<(Option<String>, Option<String>, Option<u64>)> {
        let version = self.lock().web.as_ref()?.version().clone();
        Some((version.etag, version.last_modified, version.len))
    }
    /// Where the array comes from: "path", "web", "memory" or "elsewhere". It decides how to open the array again.
    #[getter]
    fn _origin(&self) -> &'static str {
        match self.origin() {
            _ if self.on_server => "web",
            Origin::Path(..) => "path",
            Origin::Memory => "memory",
            Origin::Embedded { .. } | Origin::Elsewhere => "elsewhere",
        }
    }
    /// The directory of the store that contains the array.
    #[getter]
    fn _store(&self) -> Option<std::ffi::OsString> {
        Some(self.store()?.path().as_os_str().to_owned())
    }
    /// The item type as it is stored in the file.
    #[getter]
    fn _stored_dtype(&self) -> PyResult<String> {
        Ok(self.now()?.dtype().to_string())
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.now()?.shape().first() {
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
            let chosen = ResolvedIndex::new(key, Style::Numpy, array.shape())?;
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

    #[pyo3(signature = (boxes, out = None, threads = None, progress = None))]
    fn _read_boxes<'py>(
        &self,
        boxes: &Bound<'py, PyList>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = boxes.py();
        self.again(py, |array, dtype| {
            let how = self.how(threads, progress.as_ref().map(|progress| progress.clone_ref(py)));
            reader::read_boxes(array, dtype, boxes, out, how)
        })
    }

    /// Moves to the newest committed state of a file. Returns whether there was a newer one.
    fn _refresh(&self, py: Python<'_>) -> PyResult<bool> {
        if !matches!(self.origin(), Origin::Path(..)) {
            return Ok(false);
        }
        let mut array = self.now()?;
        let (array, newer) = How::short(None).run(py, move |_| {
            let newer = array.refresh()?;
            Ok::<_, NdError>((array, newer))
        })?;
        if newer {
            self.set(py, array, None)?;
        }
        Ok(newer)
    }

    /// Takes over the state of an array that was opened from the same source.
    fn _follow(&self, other: &Self) -> PyResult<()> {
        self.now()?;
        other.now()?;
        let mut state = other.lock();
        let array = state.array.take();
        let (dtype, frame) = (Python::attach(|py| state.dtype.clone_ref(py)), state.frame.take());
        let (store, remote, web) = (state.store.take(), state.remote.take(), state.web.take());
        drop(state);
        let old = std::mem::replace(&mut *self.lock(), State { array, dtype, frame, store, remote, web });
        drop(old);
        Ok(())
    }

    /// Compares all checksums and decodes everything. Returns the state of the checksums: "ok", "changed" or "none".
    #[pyo3(signature = (threads = None, progress = None))]
    fn _verify(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<&'static str> {
        let array = self.now()?;
        let how = self.how(threads, progress);
        let verify =
            move |control| Ok::<_, NdError>(verdict(array.with_control(control).verify()?.checksums));
        how.run_near_or_apart(py, verify)
    }

    /// Returns the stored bytes of a chunk.
    fn _chunk<'py>(&self, py: Python<'py>, nchunk: usize) -> PyResult<Bound<'py, PyBytes>> {
        let array = self.now()?;
        let fetch = move |_| array.super_chunk().chunk(nchunk).read();
        let chunk = self.short_how().run_near_or_apart(py, fetch)?;
        Ok(PyBytes::new(py, chunk.as_bytes()))
    }

    /// Returns the kind of chunk `nchunk`: "stored", or the special value of its items.
    fn _chunk_kind(&self, py: Python<'_>, nchunk: usize) -> PyResult<&'static str> {
        let array = self.now()?;
        let entry = move |_| array.super_chunk().chunk(nchunk).entry();
        Ok(match self.short_how().run_near_or_apart(py, entry)? {
            Entry::Stored(_) => "stored",
            Entry::Special(kind) => special(kind),
        })
    }

    /// Returns where the chunks of a contiguous frame are: the kind of each, a byte, and the starts and ends of their
    /// ranges in the file or buffer that the frame starts in, as integers of 64 bits. A range may have more bytes than the
    /// chunk. Kinds are stored (0), and the special ones zeros, nan, uninit and value.
    fn _chunk_places<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let array = self.now()?;
        if array.super_chunk().storage() != Storage::Contiguous {
            return Err(argument(py, "the chunks of this array are separate files"));
        }
        let places = move |_| {
            let frame = array.super_chunk();
            let data = frame.layout().data.clone();
            let count = frame.nchunks();
            let mut kinds = memory::list(count)?;
            let (mut starts, mut ends, mut sorted) =
                (memory::list(count)?, memory::list(count)?, memory::list(count)?);
            for nchunk in 0..frame.nchunks() {
                let (kind, start) = match frame.chunk(nchunk).entry()? {
                    Entry::Stored(offset) => (0, data.start.saturating_add(offset)),
                    Entry::Special(SpecialKind::Zeros) => (1, 0),
                    Entry::Special(SpecialKind::NaN) => (2, 0),
                    Entry::Special(SpecialKind::Uninit) => (3, 0),
                    Entry::Special(_) => (4, 0),
                };
                kinds.push(kind);
                starts.push(start);
                if kind == 0 {
                    sorted.push(start);
                }
            }
            // A chunk ends where the next one starts, or before.
            sorted.sort_unstable();
            for (&kind, start) in kinds.iter().zip(&starts) {
                let next = sorted.partition_point(|at| at <= start);
                let end = sorted.get(next).copied().unwrap_or(data.end).min(data.end);
                ends.push(if kind == 0 { end } else { 0 });
            }
            Ok::<_, FrameError>((kinds, starts, ends))
        };
        let (kinds, starts, ends) = self.short_how().run_near_or_apart(py, places)?;
        let numbers = |list: &[u64]| {
            PyBytes::new_with(py, list.len().saturating_mul(8), |into| {
                for (into, number) in into.chunks_exact_mut(8).zip(list) {
                    into.copy_from_slice(&number.to_ne_bytes());
                }
                Ok(())
            })
        };
        let kinds = PyBytes::new_with(py, kinds.len(), |into| {
            into.copy_from_slice(&kinds);
            Ok(())
        })?;
        Ok((kinds, numbers(&starts)?, numbers(&ends)?))
    }

    /// Releases the file, or the memory. A read that runs in another thread ends first.
    fn _close(&self, py: Python<'_>) {
        let mut state = self.lock();
        let held = (state.array.take(), state.frame.take(), state.store.take());
        let remote = (state.remote.take(), state.web.take());
        drop(state);
        py.detach(move || drop(held));
        drop(remote);
    }
    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().array.is_none()
    }

    /// Returns the whole frame if it is in memory.
    fn _frame<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.frame().map(|frame| PyBytes::new(py, &frame))
    }

    /// Returns the names of the attributes, and of the layer that is not an attribute.
    fn _attr_names(&self) -> PyResult<Vec<String>> {
        let array = self.now()?;
        Ok(array.super_chunk().vlmetalayers().names().map(std::borrow::Cow::into_owned).collect())
    }

    /// Returns an attribute in a tuple, since its value may be `None`; `None` if there is no such attribute.
    fn _attr<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let array = self.now()?;
        let bytes = array.super_chunk().vlmetalayers().get(name).or_raise(py)?;
        crate::attrs::of_layer(py, name, bytes, &array.super_chunk().dparams().limits)
    }

    /// Returns the bytes of an attribute as they are stored, without compression.
    fn _attr_bytes<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = self.now()?.super_chunk().vlmetalayers().get(name).or_raise(py)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Returns the names and values of the metalayers that are not the array's own.
    fn _meta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (array, found) = (self.now()?, PyDict::new(py));
        let frame = array.super_chunk();
        for (name, bytes) in frame.metalayers().iter().filter(|(name, _)| !OWN.contains(name)) {
            let name = String::from_utf8_lossy(name);
            let value = crate::attrs::of_layer(py, &name, Some(bytes.to_vec()), &frame.dparams().limits)?;
            found.set_item(&*name, value.map(|(value,)| value))?;
        }
        Ok(found)
    }
}

/// An array on a web server.
struct OnServer {
    array: NdArray,
    file: Arc<HttpFile>,
    /// The URL without user, password and query.
    name: String,
}

fn open_url(url: &str, offset: u64) -> Result<OnServer, NdError> {
    let http = connections().reopened();
    let name = http.hide(url);
    let options = read_options().tuning(ReadTuning::REMOTE).file_system(Arc::new(http.clone()));
    let array = NdArray::open_with(&name, &options.offset(offset))?;
    let file = match http.open_file(name.as_ref()) {
        Ok(file) => file,
        // A sparse frame: use its index file, which changes with each commit.
        Err(_) => {
            let index = Path::new(&name).join(INDEX_NAME);
            http.open_file(&index).map_err(FrameError::io(name.clone()))?
        }
    };
    Ok(OnServer { array, file, name })
}
