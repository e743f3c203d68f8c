//! Runs the scripts of this folder, which create files, with the Python that `B2KIT_HDF5_PYTHON` names.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

pub(crate) fn python() -> OsString {
    std::env::var_os("B2KIT_HDF5_PYTHON").expect("B2KIT_HDF5_PYTHON names no Python")
}

/// Runs a script with these arguments, in which `FOLDER` is replaced by the path of a new folder.
pub(crate) fn made(script: &str, arguments: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let mut command = Command::new(python());
    command.arg("-B").arg(script);
    for argument in arguments {
        match *argument {
            "FOLDER" => command.arg(folder.path()),
            other => command.arg(other),
        };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    folder
}
