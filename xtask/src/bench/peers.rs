//! The programs that are timed: the command `b2kit`, our own program for the other rows, and the C side.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{root, sh};

pub(super) struct Peers {
    /// The C program for all rows.
    pub(super) c: PathBuf,
    pub(super) c_version: String,
    /// The command `b2kit`, for operations on chunks.
    pub(super) b2kit: PathBuf,
    /// Our program for all other rows.
    pub(super) ours: PathBuf,
    /// The instruction set of our kernels.
    pub(super) kernels: String,
}

/// Compiles both sides; the C side uses the headers and the library from the wheel.
pub(super) fn build(python: &Path, folder: &Path) -> Result<Peers> {
    sh::run(sh::cargo(&["build", "--release", "-p", "b2kit-cli", "-p", "b2-benches", "--bins"]))?;
    let release = root::target().join("release");
    let (b2kit, ours) = (release.join("b2kit"), release.join("b2-bench-peer"));

    let find = "import importlib.util as u; print(u.find_spec('blosc2').submodule_search_locations[0])";
    let found = sh::output(Command::new(python).args(["-c", find]))?;
    let wheel = PathBuf::from(found.trim());
    let (include, lib) = (wheel.join("include"), wheel.join("lib"));
    ensure!(include.join("blosc2.h").exists(), "this wheel of blosc2 has no headers");
    let (c, source) = (folder.join("c-peer"), root::workspace().join("xtask").join("c"));
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-Wall", "-o"]).arg(&c).arg("-I").arg(include);
    cc.args(["main.c", "chunks.c", "arrays.c"].map(|name| source.join(name)));
    cc.arg("-L").arg(&lib).args(["-lblosc2", "-lpthread"]).arg(format!("-Wl,-rpath,{}", lib.display()));
    let status = cc.status().context("cannot run the C compiler (another one: CC=...)")?;
    ensure!(status.success(), "the C side does not compile");
    let c_version = sh::output(Command::new(&c).arg("version"))?.trim().to_owned();
    let kernels = sh::output(Command::new(&ours).arg("kernels"))?.trim().to_owned();
    Ok(Peers { c, c_version, b2kit, ours, kernels })
}

/// Runs a program that prints lines of JSON.
pub(super) fn lines(program: &Path, what: &str, options: &[(&str, String)]) -> Result<Vec<Value>> {
    let mut command = Command::new(program);
    // Only the options set the number of threads.
    command.env_remove("BLOSC_NTHREADS").env_remove("RAYON_NUM_THREADS").arg(what);
    for (name, value) in options {
        command.args([&format!("--{name}"), value]);
    }
    sh::json_lines(&mut command)
}
