//! Converts errors of the library to exceptions of `b2kit.errors`, with the library's messages.

use std::error::Error;
use std::io;

use b2_store::StoreError;
use b2kit::chunk::ChunkError;
use b2kit::frame::FrameError;
use b2kit::nd::NdError;
use b2kit::{ErrorKind, Report};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An error of one of the crates.
pub(crate) trait EngineError: Error + 'static {
    fn kind(&self) -> ErrorKind;
    /// Returns the exception class if the kind is not specific enough.
    fn class(&self) -> Option<&'static str> {
        None
    }
    /// Returns whether the lock of a file could not be taken.
    fn is_of_lock(&self) -> bool {
        false
    }
}

impl EngineError for ChunkError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
}

impl EngineError for FrameError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
    fn class(&self) -> Option<&'static str> {
        matches!(self, Self::Exists { .. }).then_some("ExistsError")
    }
    fn is_of_lock(&self) -> bool {
        matches!(self.detail(), Self::Lock { .. })
    }
}

impl EngineError for StoreError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
    fn class(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchKey(_) | Self::Key(_) => Some("NoSuchKeyError"),
            Self::Exists(_) => Some("ExistsError"),
            Self::Frame(error) => error.class(),
            _ => None,
        }
    }
    fn is_of_lock(&self) -> bool {
        matches!(self, Self::Frame(error) if error.is_of_lock())
    }
}

impl EngineError for NdError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
    fn class(&self) -> Option<&'static str> {
        match self {
            Self::Slice { .. } => Some("SelectionError"),
            Self::Frame(error) => error.class(),
            _ => None,
        }
    }
    fn is_of_lock(&self) -> bool {
        matches!(self, Self::Frame(error) if error.is_of_lock())
    }
}

/// Returns the exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &dyn EngineError) -> PyErr {
    let mut io = None;
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // An exception raised by Python code that the library called, such as a source or a file object.
            if let Some(raised) = error.get_ref().and_then(|inner| inner.downcast_ref::<PyErr>()) {
                return raised.clone_ref(py);
            }
            io = Some(error);
        }
        cause = error.source();
    }
    let class = error.class().unwrap_or(match error.kind() {
        ErrorKind::NotBlosc => "NotBloscError",
        ErrorKind::NewerVersion => "NewerVersionError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Damaged => "DamagedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Memory => "OutOfMemoryError",
        ErrorKind::Argument => "ArgumentError",
        ErrorKind::Changed => "ChangedError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Io => match io.map(io::Error::kind) {
            Some(io::ErrorKind::NotFound) => "NotFoundError",
            Some(io::ErrorKind::AlreadyExists) => "ExistsError",
            Some(io::ErrorKind::PermissionDenied) => "NoPermissionError",
            _ => "IoError",
        },
        _ => "Error",
    });
    let mut message = Report(error).to_string();
    if error.is_of_lock() {
        message.push_str(" (lock=False in open continues without a lock)");
    }
    let raised = exception(py, class, &message);
    if let Some(errno) = io.and_then(io::Error::raw_os_error) {
        // If the attribute cannot be set, the exception is not an OSError and needs no errno.
        let _ = raised.value(py).setattr("errno", errno);
    }
    raised
}

/// Turns errors of the crates into exceptions.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: EngineError> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}

/// Creates an exception of a class in `b2kit.errors`.
pub(crate) fn exception(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let module =
            MODULE.get_or_try_init(py, || PyModule::import(py, "b2kit.errors").map(Bound::unbind))?;
        Ok(PyErr::from_value(module.bind(py).getattr(class)?.call1((message,))?))
    };
    made().unwrap_or_else(|error| error)
}

/// Returns whether the exception means that another program changed the file.
pub(crate) fn is_changed(error: &PyErr, py: Python<'_>) -> bool {
    error.get_type(py).name().is_ok_and(|name| name == "ChangedError")
}

pub(crate) fn argument(py: Python<'_>, message: impl AsRef<str>) -> PyErr {
    exception(py, "ArgumentError", message.as_ref())
}

pub(crate) fn selection(py: Python<'_>, message: impl AsRef<str>) -> PyErr {
    exception(py, "SelectionError", message.as_ref())
}

pub(crate) fn wrong_type(message: impl AsRef<str>) -> PyErr {
    Python::attach(|py| exception(py, "WrongTypeError", message.as_ref()))
}

/// Converts an exception that NumPy raises for invalid arguments to one of `b2kit.errors`.
pub(crate) fn ours(py: Python<'_>, error: PyErr) -> PyErr {
    let convert = || -> PyResult<PyErr> {
        let of_python = PyModule::import(py, "b2kit.errors")?.getattr("of_python")?;
        Ok(PyErr::from_value(of_python.call1((error.value(py),))?))
    };
    convert().unwrap_or_else(|failed| failed)
}
