//! Directories of stores, whose files are opened without following links.

use std::path::PathBuf;
use std::sync::Arc;

use b2kit::frame::{FrameError, ReadOptions, RootedDir};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::options::read_options;

/// The directory of a store. The paths of its files begin with its path.
#[pyclass(frozen, module = "b2kit._b2kit")]
pub(crate) struct Folder(pub(crate) Arc<RootedDir>);

#[pymethods]
impl Folder {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let name = path.display().to_string();
        let made = py.detach(|| RootedDir::new(path));
        made.map(|inside| Self(Arc::new(inside))).map_err(FrameError::io(name)).or_raise(py)
    }
}

/// Returns the directory of the store that contains a path. Only paths of class `b2kit._array.RootedDir` carry it.
pub(crate) fn of(path: &Bound<'_, PyAny>) -> PyResult<Option<Arc<RootedDir>>> {
    match path.getattr_opt(intern!(path.py(), "folder"))? {
        Some(folder) => Ok(folder.cast::<Folder>().ok().map(|folder| folder.get().0.clone())),
        None => Ok(None),
    }
}

/// Returns read options for files in a store, or for files outside any store.
pub(crate) fn reading(store: Option<&Arc<RootedDir>>) -> ReadOptions {
    match store {
        Some(inside) => read_options().file_system(inside.clone()),
        None => read_options(),
    }
}
