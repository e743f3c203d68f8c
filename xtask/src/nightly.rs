//! `cargo xtask nightly`: what takes too long for every change, with a result that is kept.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use crate::sh::{Counts, Outcome};
use crate::steps::minutes;
use crate::{api, cross, platforms, root, sanitize, sh, toolchains, windows};

/// Run what takes too long for every change, and record the results in docs/nightly.md: Miri over small cases of the
/// unsafe code, also for other processors, all tests for Windows under Wine, the sanitizers for addresses and threads, the kernels
/// for 64-bit ARM under emulation, a check that the crates compile for platforms on which nothing can be run here, and for each
/// pair of features and the oldest dependencies, and a search for changes of the API that break users.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these; the others keep their last results.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Undefined behaviour in unsafe code
    Miri,
    /// All tests under Wine
    Windows,
    /// Data races in b2-core, b2-frame and b2nd
    Thread,
    /// Addresses and leaks in the kernels
    Address,
    /// The kernels for 64-bit ARM, under QEMU
    Arm,
    /// Platforms that are only compiled for
    Platforms,
    /// macOS with the C code of zstd and TLS
    Macos,
    /// Each pair of features of each crate
    Features,
    /// The oldest dependencies that the manifests allow
    Oldest,
    /// Changes of the API that break users, since the last release
    Semver,
}

const PARTS: &[Part] = &[
    Part::Miri,
    Part::Arm,
    Part::Platforms,
    Part::Macos,
    Part::Address,
    Part::Thread,
    Part::Windows,
    Part::Features,
    Part::Oldest,
    Part::Semver,
];

const HEAD: &str = "\
# Results of the nightly run

`cargo xtask nightly` runs what takes too long for every change, and writes this file. `--only` runs some of it; the
others keep their last results. What cannot run on a machine is NOT RUN, with the reason.

| what | passed | failed | date | commit | machine | time |
| --- | --- | --- | --- | --- | --- | --- |
";

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Miri => "Miri: small cases of unsafe code, three processors",
            Self::Windows => "Windows under Wine: tests of all crates",
            Self::Thread => "thread sanitizer: b2-core, b2-frame, b2nd",
            Self::Address => "address sanitizer: b2-filters, b2-codecs",
            Self::Arm => "64-bit ARM under QEMU: b2-filters, b2-codecs",
            Self::Platforms => "compiled for other platforms, without C",
            Self::Macos => "compiled for macOS, with C",
            Self::Features => "each crate with each pair of its features",
            Self::Oldest => "each crate with the oldest dependencies",
            Self::Semver => "changes of the API that break users (cargo-semver-checks)",
        }
    }

    fn run(self) -> Result<Outcome> {
        match self {
            Self::Miri => toolchains::miri_all(),
            Self::Windows => windows::all(),
            Self::Thread => sanitize::threads(),
            Self::Address => sanitize::kernels(),
            Self::Arm => cross::kernels(),
            Self::Platforms => platforms::check(),
            Self::Macos => platforms::macos_with_c(),
            Self::Features => api::features(),
            Self::Oldest => api::oldest_dependencies(),
            Self::Semver => api::compatibility(),
        }
    }
}

/// Runs everything, records the results, and returns an error if anything failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let parts = if args.only.is_empty() { PARTS } else { &args.only[..] };
    let path = root::workspace().join("docs/nightly.md");
    let mut failed = Vec::new();
    for part in parts {
        println!("\n{}", part.name());
        let started = Instant::now();
        // What does not even build has failed, and the rest still runs.
        let outcome = part.run().unwrap_or_else(|error| {
            println!("{}: FAILED: {error:#}", part.name());
            Outcome::Ran(Counts { passed: 0, failed: 1 })
        });
        outcome.print(part.name(), "its faults would not have been noticed");
        let row = row(*part, &outcome, &minutes(started.elapsed()))?;
        let text = with_row(&fs::read_to_string(&path).unwrap_or_default(), part.name(), row);
        fs::write(&path, text)?;
        if outcome.verdict().is_err() && matches!(outcome, Outcome::Ran(_)) {
            failed.push(part.name());
        }
    }
    println!("\nrecorded in docs/nightly.md");
    ensure!(failed.is_empty(), "failed: {}", failed.join("; "));
    Ok(())
}

/// Returns the row of a result.
fn row(part: Part, outcome: &Outcome, time: &str) -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(root::workspace()).args(["rev-parse", "--short=9", "HEAD"]);
    let commit = sh::output(&mut git).unwrap_or_default();
    let (passed, failed) = match outcome {
        Outcome::Ran(counts) => (counts.passed.to_string(), counts.failed.to_string()),
        Outcome::NotRun(why) => (format!("NOT RUN: {}", why.replace(['|', '\n'], " ")), "-".into()),
    };
    let date = date(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400);
    let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    Ok(format!("| {} | {passed} | {failed} | {date} | {} | {machine} | {time} |", part.name(), commit.trim()))
}

/// Returns the document with a new row, in the order of the parts.
fn with_row(old: &str, name: &str, row: String) -> String {
    let cell =
        |line: &str| line.strip_prefix("| ").and_then(|rest| rest.split(" | ").next()).map(str::to_owned);
    let mut rows: BTreeMap<usize, String> = BTreeMap::new();
    let place = |name: &str| PARTS.iter().position(|part| part.name() == name);
    for line in old.lines() {
        if let Some(at) = cell(line).and_then(|name| place(&name)) {
            rows.insert(at, line.to_owned());
        }
    }
    rows.extend(place(name).map(|at| (at, row)));
    rows.into_values().fold(HEAD.to_owned(), |text, row| text + &row + "\n")
}

/// Returns the date of a day since 1970.
fn date(days: u64) -> String {
    // Years begin in March here, so that the day of the leap year is the last one. Counted from the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_781, "2026-11-24"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_result_replaces_the_last_one_of_its_kind() {
        let row = |part: Part, passed| row(part, &Outcome::Ran(Counts { passed, failed: 0 }), "1 s").unwrap();
        let one = with_row("", Part::Windows.name(), row(Part::Windows, 7));
        let two = with_row(&one, Part::Miri.name(), row(Part::Miri, 8));
        let three = with_row(&two, Part::Windows.name(), row(Part::Windows, 9));
        let found: Vec<&str> = three.lines().skip(7).collect();
        assert_eq!(found.len(), 2, "{three}");
        assert!(found[0].contains("| 8 | 0 |") && found[1].contains("| 9 | 0 |"), "{three}");
        assert!(three.starts_with(HEAD));
        let not = Outcome::NotRun("no | wine".into());
        assert!(super::row(Part::Windows, &not, "0 s").unwrap().contains("| NOT RUN: no   wine | - |"));
    }
}
