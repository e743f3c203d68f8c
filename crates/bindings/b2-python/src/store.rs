//! Stores of python-blosc2, and frames that are not arrays.

use std::path::{Path, PathBuf};

use b2_store::{ATTRIBUTES, MemberKind, MemberLocation, StoreError, StoreLayout, StoreWriter};
use b2kit::SuperChunk;
use b2kit::frame::{FrameError, ReadTuning};
use b2kit::nd::NdArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::control::How;
use crate::errors::{OrRaise, wrong_type};
use crate::folder::Folder;
use crate::options::{read_options, verdict};
use crate::source::bytes_of;

/// An open frame with any content.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct FrameBase(SuperChunk);

#[pymethods]
impl FrameBase {
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = read_options();
        if let Ok(path) = source.extract::<PathBuf>() {
            return How::short(None).run(py, |_| options.open(path)).map(Self);
        }
        match bytes_of(source)? {
            Some(bytes) => How::short(None).run(py, |_| options.from_bytes(bytes)).map(Self),
            None => Err(wrong_type(format!("a frame cannot be opened from {}", source.get_type()))),
        }
    }

    #[getter]
    fn attr_names(&self) -> Vec<String> {
        self.0.vlmetalayers().names().map(std::borrow::Cow::into_owned).collect()
    }

    fn attr<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let bytes = self.0.vlmetalayers().get(name).or_raise(py)?;
        crate::attrs::of_layer(py, name, bytes, &self.0.dparams().limits)
    }

    /// Returns the bytes of an attribute as they are stored, without compression.
    fn attr_bytes<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = self.0.vlmetalayers().get(name).or_raise(py)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Returns the value of a metalayer, in a tuple.
    fn meta<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let bytes = self.0.metalayers().get(name).map(<[u8]>::to_vec);
        crate::attrs::of_layer(py, name, bytes, &self.0.dparams().limits)
    }

    /// Size of an item in bytes.
    #[getter]
    fn typesize(&self) -> usize {
        self.0.itemsize()
    }

    #[getter]
    fn nchunks(&self) -> usize {
        self.0.nchunks()
    }

    /// Returns the uncompressed bytes of a chunk.
    fn chunk<'py>(&self, py: Python<'py>, nchunk: usize) -> PyResult<Bound<'py, PyBytes>> {
        NdArray::check_items(&self.0).or_raise(py)?;
        let frame = self.0.clone();
        let bytes = How::threads(None)
            .run(py, move |control| frame.with_control(control).chunk(nchunk).decompress())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Size of the uncompressed bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }

    /// Size of the compressed bytes.
    #[getter]
    fn cbytes(&self) -> u64 {
        self.0.cbytes()
    }

    /// Names of the metalayers, which determine the kind of the frame.
    #[getter]
    fn meta_names(&self) -> Vec<String> {
        let names = self.0.metalayers().iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        names.collect()
    }

    /// Reads a range of the uncompressed bytes.
    fn read<'py>(&self, py: Python<'py>, start: u64, stop: u64) -> PyResult<Bound<'py, PyBytes>> {
        NdArray::check_items(&self.0).or_raise(py)?;
        let frame = self.0.clone();
        let bytes =
            How::threads(None).run(py, move |control| frame.with_control(control).read_bytes(start..stop))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[pyo3(signature = (threads = None, progress = None))]
    fn verify(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<&'static str> {
        let frame = self.0.clone();
        How { threads, progress, ..How::default() }.run(py, move |control| {
            Ok::<_, FrameError>(verdict(frame.with_control(control).verify()?.checksums))
        })
    }
}

/// A store in its state when it was opened. Keys start with a slash; the key of the root is empty.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Store(pub(crate) b2_store::Store);

impl Store {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&b2_store::Store) -> Result<T, StoreError> + Send,
    ) -> PyResult<T> {
        How::short(None).run(py, |_| work(&self.0))
    }
}

#[pymethods]
impl Store {
    /// Opens a store; `None` if there is something else.
    #[staticmethod]
    #[pyo3(signature = (path, allow_table_edit = false, lock = true))]
    fn open(py: Python<'_>, path: PathBuf, allow_table_edit: bool, lock: bool) -> PyResult<Option<Self>> {
        let found = How::short(None).run(py, |_| b2_store::Store::open(path, &read_options()))?;
        let found = found.map(|store| store.lock(lock));
        Ok(found.map(|store| Self(if allow_table_edit { store.allow_table_edits() } else { store })))
    }

    /// Returns whether the file at an http URL, or of a source that fetches ranges, is a store.
    #[staticmethod]
    #[pyo3(signature = (url, source = None))]
    fn is_at(py: Python<'_>, url: String, source: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let (file, name) = crate::files::file_reader(py, url, source)?;
        let options = read_options().tuning(ReadTuning::REMOTE);
        let opened =
            How::short(None).run(py, move |_| b2_store::Store::from_reader(file, &name, &options))?;
        Ok(opened.is_some())
    }

    /// Creates an empty store in a directory.
    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf) -> PyResult<()> {
        How::short(None).run(py, |_| StoreWriter::create(path, StoreLayout::Directory, false)?.finish())
    }

    /// Returns the keys below a group, relative to it, including those of attributes.
    fn below(&self, group: &str) -> Vec<&str> {
        let start = format!("{group}/");
        let below = self.0.members().range(start.clone()..);
        below.map_while(|(key, _)| key.strip_prefix(&start)).collect()
    }

    /// Returns the bytes of an archive that a member has; `None` for other stores and members.
    fn window(&self, py: Python<'_>, key: &str) -> PyResult<Option<(u64, u64)>> {
        Ok(self.run(py, |store| store.window(key))?.map(|range| (range.start, range.end)))
    }

    /// Compares the directory of an archive with the headers of its members.
    fn verify_directory(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, b2_store::Store::verify_directory)
    }

    /// Returns "member", "group", or "elsewhere" for members that cannot be opened; `None` if there is nothing.
    fn kind(&self, key: &str) -> Option<&'static str> {
        if key.rsplit('/').next() != Some(ATTRIBUTES)
            && let Some(member) = self.0.members().get(key)
        {
            return Some(if matches!(member.place, MemberLocation::Unreadable(_)) {
                "elsewhere"
            } else {
                "member"
            });
        }
        (!self.below(key).is_empty()).then_some("group")
    }

    /// Returns whether a member is an array, by its name.
    fn is_array(&self, key: &str) -> bool {
        self.0.member(key).is_ok_and(|member| member.kind == MemberKind::Array)
    }

    /// Opens a member with any content as a frame.
    fn frame(&self, py: Python<'_>, key: &str) -> PyResult<FrameBase> {
        self.run(py, |store| store.frame(key, &read_options())).map(FrameBase)
    }

    /// The directory of the store.
    fn folder(&self) -> Option<Folder> {
        self.0.inside().cloned().map(Folder)
    }

    /// Returns the path for a new array.
    fn place(&self, py: Python<'_>, key: &str, overwrite: bool) -> PyResult<std::ffi::OsString> {
        self.run(py, |store| store.place_for(key, MemberKind::Array, overwrite)).map(PathBuf::into_os_string)
    }

    /// Takes members off the list of the frame with small members.
    fn forget(&self, py: Python<'_>, key: String) -> PyResult<()> {
        self.run(py, |store| store.forget(&[key]))
    }

    fn create_group(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        self.run(py, |store| store.create_group(key))
    }

    fn remove(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        self.run(py, |store| store.remove(key))
    }

    /// Notifies other handles that members were added or replaced.
    fn announce(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, b2_store::Store::announce)
    }

    /// Whether a member is an index of an array or a table.
    fn is_index(&self, key: &str) -> bool {
        self.0.is_index(key)
    }

    fn attrs(&self, py: Python<'_>, group: &str) -> PyResult<Option<FrameBase>> {
        Ok(self.run(py, |store| store.attributes(group, &read_options()))?.map(FrameBase))
    }

    fn set_attrs(
        &self,
        py: Python<'_>,
        group: &str,
        changed: &Bound<'_, PyDict>,
        removed: Vec<String>,
    ) -> PyResult<()> {
        let mut layers = Vec::new();
        for (name, value) in changed {
            layers.push((name.extract()?, crate::attrs::layer(&value)?));
        }
        self.run(py, |store| store.set_attributes(group, &layers, &removed, &read_options()))
    }

    /// Writes a copy of a group to a new store, whose layout follows from its name.
    fn save(&self, py: Python<'_>, group: &str, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let layout = match path.extension().and_then(|end| end.to_str()) {
            Some("b2z") => StoreLayout::Archive,
            Some("b2e") => StoreLayout::Frame,
            _ => StoreLayout::Directory,
        };
        self.run(py, |store| {
            let mut writer = StoreWriter::create(Path::new(&path), layout, overwrite)?;
            writer.copy(store, group, &read_options())?;
            writer.finish()
        })
    }
}
