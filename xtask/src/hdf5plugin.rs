//! `cargo xtask hdf5plugin`: builds the filters of HDF5 in `b2-hdf5-plugin`, and tests them beside hdf5plugin and others.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::sh::{Counts, Outcome as Ran};
use crate::{python, root, sh};

/// Who reads and writes the same files.
const PEERS: &[&str] = &["hdf5plugin", "h5py", "numpy", "tables", "netCDF4", "blosc2"];

/// What nobody notices if they do not.
pub(crate) const UNNOTICED: &str =
    "a file that one program writes and another cannot read would not have been noticed";

/// Build the filters of HDF5 and run their tests, alone and in h5py, PyTables and netCDF.
///
/// hdf5plugin and the others are installed from PyPI into target/xtask/venv; h5repack and h5dump are used where they are installed.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// The results of the tests.
pub(crate) struct Outcome {
    pub(crate) tests: Counts,
    /// Files exchanged with other programs.
    pub(crate) exchanged: Ran,
    /// What of that could not run here.
    skipped: Vec<String>,
}

impl Outcome {
    pub(crate) fn print(&self) {
        self.skipped.iter().for_each(|line| println!("hdf5plugin: {line}"));
    }
}

pub(crate) fn run(_: &Args) -> Result<()> {
    let outcome = check()?;
    outcome.print();
    outcome.exchanged.print("HDF5 with other programs", UNNOTICED);
    outcome.tests.print("filters of HDF5");
    outcome.exchanged.verdict()?;
    outcome.tests.verdict()
}

/// Runs all tests that can run on this machine.
pub(crate) fn check() -> Result<Outcome> {
    let folder = root::workspace().join("crates").join("b2-hdf5-plugin");
    let of_it = |words: &[&str]| sh::cargo_beside("b2-hdf5-plugin", words);
    sh::run(of_it(&["fmt", "--all", "--check"]))?;
    let mut clippy = of_it(&["clippy", "--locked", "--workspace", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    // In the profile of the libraries, so that what both need is compiled once.
    let as_tested = ["--locked", "--workspace", "--profile", "tests"];
    let tests = sh::run_tests(of_it(&[&["test", "--no-fail-fast"][..], &as_tested].concat()))?;
    let python = match python::environment(PEERS) {
        Ok(python) => python,
        Err(error) => {
            return Ok(Outcome { tests, exchanged: Ran::NotRun(format!("{error:#}")), skipped: Vec::new() });
        }
    };
    sh::run(of_it(&[&["build"][..], &as_tested].concat()))?;
    let mut script = Command::new(python);
    script.arg("-B").arg(folder.join("tests").join("run.py"));
    script.arg("--libraries").arg(sh::beside().join("tests"));
    let output = script.output().context("cannot run tests/run.py")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let exchanged = counts(&text);
    ensure!(exchanged.passed > 0, "tests/run.py has tested nothing");
    ensure!(output.status.success() || exchanged.failed > 0, "tests/run.py ended with {}", output.status);
    let skipped = text.lines().filter(|line| line.contains(": NOT RUN ")).map(str::to_owned).collect();
    Ok(Outcome { tests, exchanged: Ran::Ran(exchanged), skipped })
}

/// Sums lines such as `reading 32001 of hdf5plugin: 700 passed, 0 failed`.
fn counts(text: &str) -> Counts {
    let mut sum = Counts::default();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        let number = |what: &str| {
            let before = line.split_once(what)?.0;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        sum.passed += number(" passed").unwrap_or(0);
        sum.failed += number(" failed").unwrap_or(0);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed() {
        let text = "a 32001: 700 passed, 2 failed, 3 not filtered\n    b: 9 passed\nPyTables: NOT RUN (no module)\nc: 5 passed, 0 failed\n";
        let Counts { passed, failed } = counts(text);
        assert_eq!((passed, failed), (705, 2));
    }
}
