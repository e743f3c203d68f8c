//! `cargo xtask stores`: builds `b2-object-store` with all of its stores and tests it, with moto as the S3 server.

use anyhow::{Result, ensure};

use crate::sh::Counts;
use crate::{python, sh};

/// The S3 server for the tests.
const MOTO: &[&str] = &["moto[server]==5.2.5"];

/// Build the object stores and the command with them, and run their tests.
///
/// S3 is tested against the server of moto, on the loopback, which is installed from PyPI into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// The results of the tests.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    /// Why S3 was not tested, if so.
    pub(crate) no_s3: Option<String>,
}

impl Outcome {
    pub(crate) fn print(&self) {
        if let Some(why) = &self.no_s3 {
            println!(
                "S3: NOT RUN (moto cannot be installed: {why}): a fault there would not have been noticed"
            );
        }
    }
}

pub(crate) fn run(_: &Args) -> Result<()> {
    let outcome = check()?;
    outcome.print();
    outcome.counts.print("object stores");
    ensure!(outcome.no_s3.is_none(), "S3 was not tested");
    outcome.counts.verdict()
}

/// Runs all tests that can run on this machine.
pub(crate) fn check() -> Result<Outcome> {
    let of_it = |words: &[&str]| sh::cargo_beside("b2-object-store", words);
    sh::run(of_it(&["fmt", "--check"]))?;
    let mut clippy = of_it(&["clippy", "--all-features", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    let mut tests = of_it(&["test", "--no-fail-fast"]);
    let no_s3 = match python::environment(MOTO) {
        Ok(python) => {
            tests.arg("--all-features").env("B2KIT_MOTO", python.with_file_name("moto_server"));
            None
        }
        Err(e) => {
            tests.args(["--features", "blocking"]);
            Some(format!("{e:#}"))
        }
    };
    Ok(Outcome { counts: sh::run_tests(tests)?, no_s3 })
}
