//! `cargo xtask zarrs`: builds and tests `zarrs-b2nd`, the codecs for Rust's Zarr, also against zarr-python.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::sh;
use crate::{pythonpkg, root, toolchains};

/// What nobody notices if it does not run.
pub(crate) const UNNOTICED: &str = "a fault of the codecs for zarrs would not have been noticed";

/// Build the codecs for zarrs, and run their tests. zarrs needs a later Rust than the other crates.
///
/// Arrays are exchanged with zarr-python where `cargo xtask python` has installed it and the Python package.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// The results of the tests.
pub(crate) struct Outcome {
    pub(crate) tests: sh::Outcome,
    /// Why no arrays were exchanged with zarr-python, if so.
    no_python: Option<String>,
}

impl Outcome {
    pub(crate) fn print(&self) {
        if let Some(why) = &self.no_python {
            println!(
                "zarrs with zarr-python: NOT RUN ({why}): an array that one writes and the other cannot read would not \
                 have been noticed"
            );
        }
    }
}

pub(crate) fn run(_: &Args) -> Result<()> {
    let outcome = check()?;
    outcome.print();
    outcome.tests.print("zarrs", UNNOTICED);
    ensure!(outcome.no_python.is_none(), "arrays were not exchanged with zarr-python");
    outcome.tests.verdict()
}

/// Runs all tests that can run on this machine.
pub(crate) fn check() -> Result<Outcome> {
    let folder = root::workspace().join("crates").join("zarrs-b2nd");
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let wanted = toolchains::minimum(&text).context("zarrs-b2nd: no rust-version")?;
    let have = sh::output(sh::cargo(&["--version"]).current_dir(&folder))?;
    if minor(have.split_whitespace().nth(1).unwrap_or_default()) < minor(&wanted) {
        let why = format!("{} is older than Rust {wanted}", have.trim());
        return Ok(Outcome { tests: sh::Outcome::NotRun(why.clone()), no_python: Some(why) });
    }
    let of_it = |words: &[&str]| sh::cargo_beside("zarrs-b2nd", words);
    sh::run(of_it(&["fmt", "--check"]))?;
    let mut clippy = of_it(&["clippy", "--locked", "--all-features", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    let mut tests = of_it(&["test", "--locked", "--no-fail-fast", "--all-features"]);
    let no_python = match pythonpkg::with_zarr() {
        Ok(python) => {
            tests.env("B2KIT_ZARR_PYTHON", python).args(["--", "--include-ignored"]);
            None
        }
        Err(error) => Some(format!("{error:#}")),
    };
    Ok(Outcome { tests: sh::Outcome::Ran(sh::run_tests(tests)?), no_python })
}

/// Returns the second number of a version.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(minor("1.89.0") < minor("1.91"));
        assert!(minor("1.100.0-nightly") > minor("1.91"));
    }
}
