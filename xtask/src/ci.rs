//! `cargo xtask ci`: the checks that every change must pass.

use anyhow::{Result, ensure};

use crate::bench::counts;
use crate::disk::Tidy;
use crate::sh::{Counts, Outcome};
use crate::steps::Steps;
use crate::{
    api, c, cross, deny, faults, flips, fuzz, hdf5, hdf5plugin, hostile, platforms, pythonpkg, release, sh,
    stores, test, toolchains, web, windows, zarrs,
};

/// Run all checks: formatting, licences and sources of dependencies, lints, documentation, the public API, what is published, a build
/// without any C compiler, instruction counts (where valgrind is installed), a minute of fuzzing, samples of hostile files, of flipped
/// bits and of failing system calls, then `test`, and the tests again with all features and with the pure-Rust codecs, then those of the Python package, of the
/// object stores, of the codecs for zarrs (where Rust is new enough), of HDF5 files, of the filters of HDF5, of libblosc2, and of the page in a browser. Last the oldest Rust that is promised builds the crates, Miri runs small cases of the unsafe code (rustup installs
/// both toolchains where it can), the crates are compiled for other platforms, and where there are emulators a part of
/// the tests runs on 64-bit ARM and on Windows. `cargo xtask nightly` runs more of that.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    test: test::Args,
    /// Remove what a step compiled as soon as no later step needs it
    #[arg(long)]
    tidy: bool,
}

/// Number of steps besides those of `test`.
const STEPS: usize = 26;

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
    let tidy = Tidy { on: args.tidy };
    steps.run("formatting", || {
        sh::run(sh::cargo(&["fmt", "--all", "--check"]))?;
        for beside in [
            "fuzz",
            "crates/b2-object-store",
            "crates/b2-python",
            "crates/b2-wasm",
            "crates/zarrs-b2nd",
            "crates/b2-hdf5-plugin",
            "crates/b2-c",
        ] {
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
        let features = "--features=b2-benches/criterion";
        sh::run(sh::cargo(&["clippy", "--workspace", "--all-targets", features, "--", "-D", "warnings"]))
    })?;
    steps.run("documentation", || {
        let mut doc = sh::cargo(&["doc", "--workspace", "--no-deps"]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        sh::run(doc)
    })?;
    let public = steps.run("public API", api::compare)?;
    tidy.folders(&["api", "tools"]);
    let packages = steps.run("what is published", release::check)?;
    steps.run("the command without a C compiler", || {
        // CC=/bin/false shows that no C compiler is needed.
        let pure = ["build", "-p", "b2kit-cli", "--no-default-features", "--features", "zstd-rs,miniz_oxide"];
        sh::run(sh::cargo_without_c(&pure))
    })?;
    let counted = steps.run("instruction counts", || counts::check(false))?;
    let few: &[&str] = if args.test.no_peer { &["--ci", "--no-peer"] } else { &["--ci"] };
    steps.run("fuzzing", || fuzz::run(&sh::parsed(few)?))?;
    tidy.folders(&["fuzz"]);
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
    tidy.folders(&["no-c"]);
    let (python, skipped) = steps.run("the Python package", pythonpkg::check)?;
    tidy.workspace("b2-python");
    let object_stores = steps.run("object stores", stores::check)?;
    let zarrs = steps.run("zarrs", zarrs::check)?;
    let hdf5 = steps.run("HDF5 files", hdf5::check)?;
    let filters = steps.run("filters of HDF5", hdf5plugin::check)?;
    let libblosc2 = steps.run("libblosc2 for C", c::check)?;
    let page = steps.run("the page in a browser", web::check)?;
    // The tests were the last that needed these.
    tidy.folders(&["web", "beside", "debug/deps", "release"]);
    let minimum_rust = steps.run("the oldest Rust", toolchains::minimum_rust)?;
    tidy.folders(&["minimum-rust"]);
    let miri = steps.run("Miri", toolchains::miri)?;
    tidy.folders(&["miri"]);
    let platforms = steps.run("other platforms", platforms::sample)?;
    tidy.folders(&["platforms"]);
    let arm = steps.run("filters on 64-bit ARM", cross::sample)?;
    tidy.folders(&["cross"]);
    let windows = steps.run("Windows", windows::sample)?;
    steps.finish()?;
    println!();
    outcome.print();
    skipped.iter().for_each(|what| println!("python: SKIPPED {what}"));
    object_stores.print();
    zarrs.print();
    filters.print();
    libblosc2.print();
    dependencies.print();
    packages.print();
    match minimum_rust {
        Outcome::Ran(version) => println!("oldest Rust: {version} builds all crates"),
        Outcome::NotRun(why) => {
            println!("oldest Rust: NOT RUN ({why}): that it builds all crates is not known");
        }
    }
    // Report all of these at the end, since nobody would see them in the middle of the output.
    let mut failed = Vec::new();
    for (what, outcome, unnoticed) in [
        ("tests with all features", Outcome::Ran(all_features), ""),
        ("tests without a C compiler", Outcome::Ran(pure), ""),
        ("hostile files", Outcome::Ran(hostile), ""),
        ("flipped bits", Outcome::Ran(flips), ""),
        ("object stores", Outcome::Ran(object_stores.counts), ""),
        ("zarrs", zarrs.tests, zarrs::UNNOTICED),
        ("HDF5 files", Outcome::Ran(hdf5.tests), ""),
        ("HDF5 files of other programs", hdf5.matrix, hdf5::UNNOTICED),
        ("filters of HDF5", Outcome::Ran(filters.tests), ""),
        ("HDF5 with other programs", filters.exchanged, hdf5plugin::UNNOTICED),
        ("libblosc2", Outcome::Ran(libblosc2.tests), ""),
        ("libblosc2 under valgrind", libblosc2.leaks, c::LEAKS_UNNOTICED),
        ("libblosc2 with C-Blosc2", libblosc2.exchanged, c::UNNOTICED),
        ("b2-wasm", Outcome::Ran(page.native), ""),
        ("view --web", Outcome::Ran(page.command), ""),
        ("page", page.browser, web::UNNOTICED),
        ("Miri", miri, "undefined behaviour would not have been noticed"),
        ("other platforms", platforms, "that the crates compile for them is not known"),
        ("64-bit ARM", arm, "a fault of the NEON kernels would not have been noticed"),
        ("Windows", windows, "a fault of locks, renames and commits on Windows would not have been noticed"),
        ("python", python, "a fault of the Python package would not have been noticed"),
        ("faults", faults, faults::UNNOTICED),
        ("public API", public, api::UNNOTICED),
        ("instruction counts", counted, "a slower kernel would not have been noticed"),
    ] {
        outcome.print(what, unnoticed);
        if let Outcome::Ran(Counts { failed: n @ 1.., .. }) = outcome {
            failed.push(format!("{what}: {n} failed"));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    outcome.verdict()
}
