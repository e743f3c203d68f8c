//! `cargo xtask hdf5`: `b2-hdf5` and `b2kit convert`, beside h5py, netCDF4, PyTables and hdf5plugin.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::sh::{Counts, Outcome as Ran};
use crate::{python, root, sh};

/// Who writes the files, and says what is in them.
const PEERS: &[&str] = &["h5netcdf", "h5py", "hdf5plugin", "netCDF4", "numpy", "tables", "xarray"];

/// Damaged files to read.
const MUTANTS: &str = "20000";

/// Random data sets beside h5py and netCDF4.
const GENERATED: &str = "1000";

/// What nobody notices if they do not.
pub(crate) const UNNOTICED: &str = "a wrong value of an HDF5 file would not have been noticed";

/// Test reading and converting HDF5 and NetCDF files, also those that other programs make.
///
/// h5py and the others are installed from PyPI into target/xtask/venv; h5repack is used where it is installed.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// The results of the tests.
pub(crate) struct Outcome {
    pub(crate) tests: Counts,
    /// Files of other programs.
    pub(crate) matrix: Ran,
}

pub(crate) fn run(_: &Args) -> Result<()> {
    let outcome = check()?;
    outcome.matrix.print("HDF5 files of other programs", UNNOTICED);
    outcome.tests.print("HDF5 files");
    outcome.matrix.verdict()?;
    outcome.tests.verdict()
}

/// Runs all tests that can run on this machine.
pub(crate) fn check() -> Result<Outcome> {
    // The command with HDF5 is tested with all others.
    let without = ["test", "-p", "b2kit-cli", "--no-default-features", "--features", "zstd-rs,zlib-rs,http"];
    let command = [&without[..], &["--test", "all", "--", "foreign", "hdf5", "help"]].concat();
    let tests = sh::run_tests(sh::cargo(&command))?;
    let python = match python::environment(PEERS) {
        Ok(python) => python,
        Err(error) => return Ok(Outcome { tests, matrix: Ran::NotRun(format!("{error:#}")) }),
    };
    let files = root::scratch("hdf5-matrix");
    root::empty(&files)?;
    let make_with = |script: &str, files: &Path, args: &[&str]| {
        let script = root::workspace().join("crates/adapters/b2-hdf5/tests").join(script);
        let made = sh::output(Command::new(&python).arg("-B").arg(script).arg(files).args(args));
        made.with_context(|| format!("the files in {} could not be made", files.display()))
    };
    let make = |script: &str, files: &Path| make_with(script, files, &[]);
    make("matrix.py", &files)?;
    let scaled = root::scratch("hdf5-scaled");
    root::empty(&scaled)?;
    make("scaled.py", &scaled)?;
    let far = root::scratch("hdf5-far");
    root::empty(&far)?;
    make("far.py", &far)?;
    let generated = root::scratch("hdf5-generated");
    root::empty(&generated)?;
    make_with("generated.py", &generated, &[GENERATED])?;
    let handmade = root::scratch("hdf5-handmade");
    root::empty(&handmade)?;
    make("handmade.py", &handmade)?;
    let flips = root::scratch("hdf5-flips");
    root::empty(&flips)?;
    let script = root::workspace().join("crates/adapters/b2-hdf5/tests/flips.py");
    sh::output(Command::new(&python).arg("-B").arg(script).arg("make").arg(&flips))?;
    let mut matrix = sh::cargo(&["test", "-p", "b2-hdf5", "--", "--include-ignored", "--nocapture"]);
    matrix
        .env("B2KIT_HDF5_MATRIX", files)
        .env("B2KIT_HDF5_MUTANTS", MUTANTS)
        .env("B2KIT_HDF5_SCALED", scaled)
        .env("B2KIT_HDF5_FAR", far)
        .env("B2KIT_HDF5_GENERATED", generated)
        .env("B2KIT_HDF5_HANDMADE", handmade)
        .env("B2KIT_HDF5_FLIPS", flips);
    matrix.env("B2KIT_HDF5_PYTHON", &python);
    Ok(Outcome { tests, matrix: Ran::Ran(sh::run_tests(matrix)?) })
}
