//! Counts the instructions of a few fixed cases with callgrind, to detect slower code in CI, where times are noise.
//!
//! The counts in `benches/counts.toml` are for a processor with AVX2 (valgrind supports nothing newer, and
//! `B2KIT_SIMD=avx2` ensures the same with future versions) and for one compiler, whose version is stored with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::sh::{Counts, Outcome};
use crate::{root, sh};

/// A count that is larger than the stored one by more than this is a regression; one that is smaller by more asks for
/// an update.
const TOLERANCE: f64 = 0.05;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    rustc: String,
    counts: BTreeMap<String, u64>,
}

/// `cargo xtask bench --count`: unlike in CI, it is an error if nothing can be counted.
pub(super) fn run(update: bool) -> Result<()> {
    let outcome = check(update)?;
    outcome.print("instruction counts", "");
    outcome.verdict()
}

/// Counts all cases, and either compares the counts with the stored ones or stores them.
///
/// # Errors
/// When a case needs more instructions than stored, beyond the tolerance.
pub(crate) fn check(update: bool) -> Result<Outcome> {
    if let Some(why) = cannot_count() {
        return Ok(Outcome::NotRun(why));
    }
    // Build together with b2kit-cli, which uses the same profile: other features would rebuild everything.
    let packages = ["-p", "b2-benches", "-p", "b2kit-cli"];
    sh::run(sh::cargo(&[&["build", "--release", "--bin", "b2-count-cases"][..], &packages].concat()))?;
    let program = root::target().join("release").join("b2-count-cases");
    let names = sh::output(&mut Command::new(&program))?;
    let names: Vec<&str> = names.lines().collect();
    let counted = count_all(&program, &names)?;
    let rustc = super::machine::rustc();
    let file = root::workspace().join("benches").join("counts.toml");
    if update {
        fs::write(&file, store(Stored { rustc, counts: counted.clone() })?)?;
        println!("stored in {}", file.display());
        return Ok(Outcome::Ran(Counts { passed: counted.len() as u64, failed: 0 }));
    }
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let stored = parse(&text).with_context(|| file.display().to_string())?;
    if stored.rustc != rustc {
        println!("the stored counts are of {}, this is {rustc}", stored.rustc);
    }
    compare(&stored.counts, &counted)?;
    Ok(Outcome::Ran(Counts { passed: counted.len() as u64, failed: 0 }))
}

/// Returns the reason why counts would be meaningless here, if there is one.
fn cannot_count() -> Option<String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Some("valgrind is not installed".into());
    }
    #[cfg(target_arch = "x86_64")]
    let comparable = std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let comparable = false;
    (!comparable).then(|| "the stored counts are of x86-64 with AVX2".into())
}

/// Counts several cases at a time, each in its own callgrind process.
fn count_all(program: &Path, names: &[&str]) -> Result<BTreeMap<String, u64>> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let folder = tempfile::tempdir()?;
    let queue = std::sync::Mutex::new(names.iter());
    let next = || queue.lock().map_or(None, |mut names| names.next());
    let work = || -> Result<Vec<(String, u64)>> {
        let mut counted = Vec::new();
        while let Some(name) = next() {
            let out = folder.path().join(name);
            counted
                .push(((*name).to_owned(), count(program, name, &out).with_context(|| (*name).to_owned())?));
        }
        Ok(counted)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let mut all = BTreeMap::new();
        for worker in workers {
            match worker.join() {
                Ok(counted) => all.extend(counted?),
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(all)
    })
}

fn count(program: &Path, name: &str, out: &PathBuf) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--toggle-collect=*counted*", "--quiet"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(program).arg(name);
    sh::output(valgrind.env("B2KIT_SIMD", "avx2"))?;
    let text = fs::read_to_string(out).context("callgrind wrote nothing")?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    let total: u64 = total.context("callgrind counted nothing")?.trim().parse()?;
    ensure!(total > 0, "callgrind did not find the function to count in");
    Ok(total)
}

fn store(stored: Stored) -> Result<String> {
    let head = "# Instructions of the cases of benches/src/count, by callgrind: the guard against slower code.\n\
                # Written by `cargo xtask bench --count --update`.\n";
    Ok(format!("{head}\n{}", toml::to_string(&stored)?))
}

fn parse(text: &str) -> Result<Stored> {
    let stored: Stored = toml::from_str(text)?;
    ensure!(stored.counts.values().all(|count| *count > 0), "a count of nothing");
    Ok(stored)
}

/// Prints a table; returns an error if there is a regression, or a case is not in the list.
fn compare(stored: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> Result<()> {
    let mut failed = Vec::new();
    println!("\n{:40} {:>12} {:>12} {:>8}", "instructions", "stored", "now", "");
    for (name, &now) in counted {
        let Some(&before) = stored.get(name) else {
            failed.push(format!("{name} is not stored"));
            continue;
        };
        let change = now as f64 / before as f64 - 1.0;
        let word = match change {
            change if change > TOLERANCE => "SLOWER",
            change if change < -TOLERANCE => "faster: store it with --update",
            _ => "",
        };
        println!("{name:40} {before:>12} {now:>12} {:>+7.1}% {word}", change * 100.0);
        if change > TOLERANCE {
            failed.push(format!("{name} takes {:.1} % more", change * 100.0));
        }
    }
    failed.extend(
        stored.keys().filter(|name| !counted.contains_key(*name)).map(|name| format!("{name} is gone")),
    );
    ensure!(
        failed.is_empty(),
        "instruction counts: {} failed: {} (if it is meant: cargo xtask bench --count --update)",
        failed.len(),
        failed.join("; ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn regressions_and_forgotten_cases_fail() {
        let stored = counts(&[("a", 1000), ("b", 1000)]);
        assert!(compare(&stored, &counts(&[("a", 1049), ("b", 500)])).is_ok());
        let error = compare(&stored, &counts(&[("a", 1051), ("c", 1)])).unwrap_err().to_string();
        for what in ["a takes 5.1 % more", "b is gone", "c is not stored"] {
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let list = counts(&[("chunk-lz4-shuffle-item", 7), ("shuffle-2", 9)]);
        let stored = || Stored { rustc: "rustc 1.0".into(), counts: list.clone() };
        assert_eq!(parse(&store(stored()).unwrap()).unwrap(), stored());
    }
}
