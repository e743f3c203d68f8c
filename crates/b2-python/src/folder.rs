//! Directories of stores: listing, creating and removing entries without following links.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use b2kit::frame::{FileKind, FileSystem, FrameError, Inside, Links, ReadOptions};
use pyo3::intern;
use pyo3::prelude::*;

use crate::array::read_options;
use crate::errors::OrRaise;

/// The directory of a store. The paths passed to its methods begin with the path of the directory.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Folder(Arc<Inside>);

impl Folder {
    fn told<T>(&self, py: Python<'_>, path: PathBuf, result: std::io::Result<T>) -> PyResult<T> {
        let name = path.display().to_string();
        result.map_err(|source| FrameError::Io { name, source }).or_raise(py)
    }
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

#[pymethods]
impl Folder {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let name = path.display().to_string();
        let made = py.detach(|| Inside::new(path));
        made.map(|inside| Self(Arc::new(inside)))
            .map_err(|source| FrameError::Io { name, source })
            .or_raise(py)
    }

    #[getter]
    fn path(&self) -> OsString {
        self.0.path().as_os_str().to_owned()
    }

    /// Returns the kind of a path: "file", "directory", "link" or "other"; `None` if it does not exist.
    fn kind(&self, py: Python<'_>, path: PathBuf) -> PyResult<Option<&'static str>> {
        match py.detach(|| self.0.kind(&path, Links::Refuse)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            found => Ok(Some(word(self.told(py, path, found)?))),
        }
    }

    /// Returns the names in a directory and their kinds.
    fn entries(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<(OsString, &'static str)>> {
        let found = py.detach(|| self.0.entries(&path));
        let found = self.told(py, path, found)?;
        Ok(found.into_iter().map(|(name, kind)| (name, word(kind))).collect())
    }

    /// Creates a directory and its parents.
    fn make(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let made = py.detach(|| self.0.create_dirs(&path));
        self.told(py, path, made)
    }

    /// Removes a file, or a directory and all its contents.
    fn remove(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let removed = py.detach(|| self.0.remove_all(&path));
        self.told(py, path, removed)
    }
}

/// Returns the directory of the store that contains a path. Only paths of class `b2kit._array.Inside` carry it.
pub(crate) fn of(path: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Inside>>> {
    match path.getattr_opt(intern!(path.py(), "folder"))? {
        Some(folder) => Ok(folder.cast::<Folder>().ok().map(|folder| folder.get().0.clone())),
        None => Ok(None),
    }
}

/// Returns read options for files in a store, or for files outside any store.
pub(crate) fn reading(store: Option<&Arc<Inside>>) -> ReadOptions {
    match store {
        Some(inside) => read_options().file_system(inside.clone()),
        None => read_options(),
    }
}
