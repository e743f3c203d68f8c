//! `cargo xtask ci`: the checks that every change must pass.

use anyhow::{Result, ensure};

use crate::bench::counts::{self, Outcome};
use crate::sh::Counts;
use crate::steps::Steps;
use crate::{deny, faults, flips, fuzz, hostile, pythonpkg, sh, stores, test, toolchains};

/// Run all checks: formatting, licences and sources of dependencies, lints, documentation, a build without any C
/// compiler, instruction counts (where valgrind is installed), a minute of fuzzing, samples of hostile files, of flipped
/// bits and of failing system calls, then `test`, and the tests again with all features and with the pure-Rust codecs, then those of the Python package and of the
/// object stores. Last the oldest Rust that is promised builds the crates, and Miri runs small cases of the unsafe code; rustup installs
/// both toolchains where it can.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    test: test::Args,
}

/// Number of steps besides those of `test`.
const STEPS: usize = 16;

/// Crates whose tests depend on features.
const WITH_FEATURES: &[&str] = &["-p", "b2-codecs", "-p", "b2-frame", "-p", "b2nd", "-p", "b2kit"];

/// The crates that can be built with pure-Rust codecs only.
const LIBRARIES: &[&str] =
    &["-p", "b2-codecs", "-p", "b2-chunk", "-p", "b2-frame", "-p", "b2nd", "-p", "b2kit"];

/// The features that replace the C libraries.
const PURE: &[&str] = &["--no-default-features", "--features", "zstd-rs,miniz_oxide,lz4_flex"];

/// Crash tests take minutes and do not depend on features, so run them only once.
const ONCE: &[&str] = &["--", "--skip", "crash_"];

/// Runs the checks. Stops at the first one that fails, but runs all tests before failing.
pub(crate) fn run(args: &Args) -> Result<()> {
    let steps = &mut Steps::new(STEPS + args.test.steps());
    steps.run("formatting", || {
        sh::run(sh::cargo(&["fmt", "--all", "--check"]))?;
        for beside in ["fuzz", "crates/b2-object-store", "crates/b2-python"] {
            sh::run(sh::cargo(&["fmt", "--manifest-path", &format!("{beside}/Cargo.toml"), "--check"]))?;
        }
        Ok(())
    })?;
    let dependencies = steps.run("dependencies", || {
        let report = deny::check()?;
        report.verdict().inspect_err(|_| report.print())?;
        Ok(report)
    })?;
    steps.run("lints", || {
        let benches = "--features=b2-benches/criterion";
        sh::run(sh::cargo(&["clippy", "--workspace", "--all-targets", benches, "--", "-D", "warnings"]))
    })?;
    steps.run("documentation", || {
        let mut doc = sh::cargo(&["doc", "--workspace", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        sh::run(doc)
    })?;
    steps.run("the command without a C compiler", || {
        // CC=/bin/false shows that no C compiler is needed.
        let pure = ["build", "-p", "b2-cli", "--no-default-features", "--features", "zstd-rs,miniz_oxide"];
        sh::run(sh::cargo_without_c(&pure))
    })?;
    let counted = steps.run("instruction counts", || counts::check(false))?;
    steps.run("fuzzing", || fuzz::run(&fuzz::Args::ci(args.test.no_peer)))?;
    let hostile = steps.run("hostile files", hostile::sample)?;
    let flips = steps.run("flipped bits", flips::sample)?;
    let faults = steps.run("failing system calls", faults::sample)?;
    let outcome = test::all(&args.test, steps)?;
    let all_features = steps.run("tests with all features", || {
        let words = [&["test", "--no-fail-fast", "--all-features"], WITH_FEATURES, ONCE].concat();
        sh::run_tests(sh::cargo(&words))
    })?;
    let pure = steps.run("tests without a C compiler", || {
        let words = [&["test", "--no-fail-fast"], PURE, LIBRARIES, ONCE].concat();
        sh::run_tests(sh::cargo_without_c(&words))
    })?;
    let python = steps.run("the Python package", pythonpkg::check)?;
    let object_stores = steps.run("object stores", stores::check)?;
    let minimum_rust = steps.run("the oldest Rust", toolchains::minimum_rust)?;
    let miri = steps.run("Miri", toolchains::miri)?;
    steps.finish()?;
    println!();
    outcome.print();
    // Report all of these at the end, since nobody would see them in the middle of the output.
    let again = [("tests with all features", all_features), ("tests without a C compiler", pure)];
    let mut others = Vec::from(again);
    others.push(("hostile files", hostile));
    others.push(("flipped bits", flips));
    match miri {
        toolchains::Outcome::Ran(counts) => others.push(("Miri", counts)),
        toolchains::Outcome::NotRun(why) => {
            println!("Miri: NOT RUN ({why}): undefined behaviour would not have been noticed");
        }
    }
    let mut failed = Vec::new();
    for (what, Counts { passed, failed: n }) in others {
        println!("{what}: {passed} passed, {n} failed");
        if n > 0 {
            failed.push(format!("{what}: {n} failed"));
        }
    }
    match python {
        pythonpkg::Outcome::Ran(tested) => {
            tested.print();
            if tested.counts.failed > 0 {
                failed.push(format!("python: {} failed", tested.counts.failed));
            }
        }
        pythonpkg::Outcome::NotRun(why) => {
            println!("python: NOT RUN ({why}): a fault of the Python package would not have been noticed");
        }
    }
    object_stores.print();
    if object_stores.counts.failed > 0 {
        failed.push(format!("object stores: {} failed", object_stores.counts.failed));
    }
    faults.print();
    if let faults::Outcome::Ran(Counts { failed: n @ 1.., .. }) = faults {
        failed.push(format!("faults: {n} failed"));
    }
    dependencies.print();
    match counted {
        Outcome::Passed(n) => println!("instruction counts: {n} passed, 0 failed"),
        Outcome::NotRun(why) => {
            println!("instruction counts: NOT RUN ({why}): a slower kernel would not have been noticed");
        }
    }
    match minimum_rust {
        toolchains::Outcome::Ran(version) => println!("oldest Rust: {version} builds all crates"),
        toolchains::Outcome::NotRun(why) => {
            println!("oldest Rust: NOT RUN ({why}): that it builds all crates is not known");
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    outcome.verdict()
}
