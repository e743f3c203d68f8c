//! The programs that are timed: the command `b2kit`, our own program for the other rows, and the C side.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
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
    sh::run(sh::cargo(&["build", "--release", "-p", "b2-cli", "-p", "b2-benches", "--bins"]))?;
    let release = root::target().join("release");
    let (b2kit, ours) = (release.join("b2kit"), release.join("b2-bench-peer"));

    let find = "import importlib.util as u; print(u.find_spec('blosc2').submodule_search_locations[0])";
    let found = output(Command::new(python).args(["-c", find]))?;
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
    let c_version = output(Command::new(&c).arg("version"))?.trim().to_owned();
    let kernels = output(Command::new(&ours).arg("kernels"))?.trim().to_owned();
    Ok(Peers { c, c_version, b2kit, ours, kernels })
}

/// Runs a program and returns its standard output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    // Only the options set the number of threads.
    command.env_remove("BLOSC_NTHREADS").env_remove("RAYON_NUM_THREADS");
    let program = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot run {program:?}"))?;
    if !output.status.success() {
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{program:?} {} ended with {}: {}", args.join(" "), output.status, stderr.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a program that prints lines of JSON.
pub(super) fn lines(program: &Path, args: &[String]) -> Result<Vec<Value>> {
    let text = output(Command::new(program).args(args))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
