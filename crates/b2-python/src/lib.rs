//! The extension module of the Python package `b2kit`. The modules in `python/b2kit` are the interface for users.
//!
//! Everything that takes time runs without the interpreter's lock (`control`). NumPy memory is read and written in
//! place (`reader`, `source`).

mod array;
mod attrs;
mod buffer;
mod control;
mod dtype;
mod edit;
mod errors;
mod folder;
mod index;
mod parts;
mod ranges;
mod reader;
mod remote;
mod source;
mod store;
mod write;

use pyo3::prelude::*;

/// Sets the default number of threads for a call; 0 means all available. Returns the previous value.
#[pyfunction]
fn set_threads(threads: usize) -> usize {
    control::set_threads(threads)
}

/// Sets whether redirects of web servers to other hosts are followed. Returns the previous value.
#[pyfunction]
fn set_other_hosts(follow: bool) -> bool {
    array::connections().set_other_hosts(follow)
}

/// Runs the command-line program. The first argument is its name. Returns the exit code.
#[pyfunction]
fn run_command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| b2_cli::run_from(args))
}

#[pymodule(gil_used = false)]
fn _b2kit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::ArrayBase>()?;
    module.add_class::<edit::EditorBase>()?;
    module.add_class::<store::Frame>()?;
    module.add_class::<folder::Folder>()?;
    module.add_class::<ranges::RangeReader>()?;
    module.add_class::<store::FrameBase>()?;
    module.add_function(wrap_pyfunction!(set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_other_hosts, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_items, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_constant, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_called, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_joined, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_parts, module)?)?;
    module.add_function(wrap_pyfunction!(store::write_frame, module)?)?;
    module.add_function(wrap_pyfunction!(store::edit_frame_attrs, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::compress, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::decompress, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::chunk_sizes, module)?)?;
    Ok(())
}
