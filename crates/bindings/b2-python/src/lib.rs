//! The extension module of the Python package `b2kit`. The modules in `python/b2kit` are the interface for users.
//!
//! Everything that takes time runs without the interpreter's lock (`control`). NumPy memory is read and written in
//! place (`reader`, `source`).

mod array;
mod assembly;
mod attrs;
mod chunk;
mod control;
mod dtype;
mod edit;
mod errors;
mod files;
mod folder;
#[cfg(unix)]
mod hdf5;
mod hdf5_objects;
mod hdf5_read;
mod index;
mod options;
mod range_reader;
mod reader;
mod remote;
mod source;
mod store;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use b2kit::frame::{Disk, FileKind, FileSystem, FrameError, Links, ReadFiles, ReadOptions, Table};
use pyo3::prelude::*;

/// Sets the default number of threads for a call; 0 means all available. Returns the previous value.
#[pyfunction]
fn set_threads(threads: usize) -> usize {
    control::set_threads(threads)
}

/// Sets whether redirects of web servers to other hosts are followed. Returns the previous value.
#[pyfunction]
fn set_other_hosts(follow: bool) -> bool {
    remote::connections().set_other_hosts(follow)
}

/// Sets the time limit of a request to a web server, in seconds. Returns the previous value.
#[pyfunction]
fn set_timeout(py: Python<'_>, seconds: f64) -> PyResult<f64> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() => Ok(remote::connections().set_timeout(timeout).as_secs_f64()),
        _ => Err(errors::argument(py, format!("a time limit of {seconds} seconds"))),
    }
}

/// Copies permissions and attributes from a directory and its files to those that replace them.
fn copy_all_attributes(from: &Path, to: &Path) -> io::Result<()> {
    let mut pending = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pending.pop() {
        let [old, new] = [&from, &to].map(|path| Disk.kind(path, Links::Refuse));
        match (old, new?) {
            (Ok(FileKind::Directory), FileKind::Directory) => {
                let entries = Disk.list(&to)?;
                pending.extend(entries.into_iter().map(|name| (from.join(&name), to.join(name))));
            }
            // The same file under both names is unchanged.
            (Ok(FileKind::File), FileKind::File)
                if Disk.identity(&from, Links::Refuse)? != Disk.identity(&to, Links::Refuse)? => {}
            _ => continue,
        }
        Disk.copy_attributes(&from, &to)?;
    }
    Ok(())
}

/// Returns a URL without user, password and query, which may be secret.
#[pyfunction]
fn redact(url: &str) -> String {
    b2kit::frame::redact(url)
}

/// Fails if a file belongs to a table of python-blosc2, which cannot be read without it.
#[pyfunction]
fn check_replacement(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    control::How::short(None).run(py, |_| match Table::needing(&path, &ReadOptions::default()) {
        Some(table) => Err(FrameError::argument("overwrite", table.refusal())),
        None => Ok(()),
    })
}

/// Copies permissions and attributes from a file to the one that is about to replace it.
#[pyfunction]
fn copy_attributes(py: Python<'_>, replaced: PathBuf, new: PathBuf) -> PyResult<()> {
    let io = FrameError::io(replaced.display().to_string());
    control::How::short(None).run(py, |_| Disk.copy_attributes(&replaced, &new).map_err(io))
}

/// Renames a directory to its final name. With `replace`, an existing one with that name gets the old name of the first one, in one
/// step if the system supports it. Returns whether there was one.
#[pyfunction]
fn publish(py: Python<'_>, new: PathBuf, target: PathBuf, replace: bool) -> PyResult<bool> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => FrameError::exists(target.clone()),
        _ => FrameError::io(target.display().to_string())(source),
    };
    control::How::short(None).run(py, |_| {
        if !replace || std::fs::symlink_metadata(&target).is_err() {
            return Disk.rename_new(&new, &target).map(|()| false).map_err(io);
        }
        copy_all_attributes(&target, &new).map_err(io)?;
        if Disk.exchange(&new, &target).is_ok() {
            return Ok(true);
        }
        // Not every system supports it. A process that is killed in between leaves the old directory under the third name.
        let old = new.with_extension("old");
        Disk.rename(&target, &old).map_err(io)?;
        if let Err(error) = Disk.rename(&new, &target) {
            let _ = Disk.rename(&old, &target);
            return Err(io(error));
        }
        Disk.rename(&old, &new).map(|()| true).map_err(io)
    })
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
    module.add_class::<source::Frame>()?;
    module.add_class::<folder::Folder>()?;
    module.add_class::<range_reader::RangeReader>()?;
    module.add_class::<store::FrameBase>()?;
    module.add_class::<store::Store>()?;
    module.add_function(wrap_pyfunction!(set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_other_hosts, module)?)?;
    module.add_function(wrap_pyfunction!(set_timeout, module)?)?;
    module.add_function(wrap_pyfunction!(publish, module)?)?;
    module.add_function(wrap_pyfunction!(redact, module)?)?;
    module.add_function(wrap_pyfunction!(check_replacement, module)?)?;
    module.add_function(wrap_pyfunction!(copy_attributes, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_items, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_constant, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_called, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_joined, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_parts, module)?)?;
    module.add_function(wrap_pyfunction!(chunk::compress, module)?)?;
    module.add_function(wrap_pyfunction!(chunk::decompress, module)?)?;
    module.add_function(wrap_pyfunction!(chunk::decompress_into, module)?)?;
    module.add_function(wrap_pyfunction!(chunk::chunk_sizes, module)?)?;
    module.add_class::<hdf5_read::Hdf5File>()?;
    module.add_class::<hdf5_read::Hdf5Data>()?;
    module.add_class::<hdf5_objects::Hdf5Objects>()?;
    #[cfg(unix)]
    module.add_function(wrap_pyfunction!(hdf5::hdf5_filters, module)?)?;
    Ok(())
}
