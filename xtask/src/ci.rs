//! `cargo xtask ci`: what has to pass before a change lands.

use anyhow::{Result, ensure};

use crate::bench::counts::{self, Outcome};
use crate::{deny, fuzz, hostile, sh, test};

/// Run all checks: formatting, licences and sources of dependencies, lints, documentation, a build without any C
/// compiler, instruction counts (where valgrind is installed), a minute of fuzzing, a sample of hostile files, and then
/// `test`.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    test: test::Args,
}

/// Runs the checks; stops at the first that fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    sh::run(sh::cargo(&["fmt", "--all", "--check"]))?;
    sh::run(sh::cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    let dependencies = deny::check()?;
    dependencies.verdict().inspect_err(|_| dependencies.print())?;
    sh::run(sh::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = sh::cargo(&["doc", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    sh::run(doc)?;
    // The command-line tool in pure Rust: CC=/bin/false shows that nothing in it needs a C compiler.
    let pure = ["build", "-p", "b2-cli", "--no-default-features", "--features", "zstd-rs,miniz_oxide"];
    sh::run(sh::cargo_without_c(&pure))?;
    let counted = counts::check(false)?;
    fuzz::run(&fuzz::Args::ci(args.test.no_peer))?;
    let hostile = hostile::sample()?;
    let outcome = test::run(&args.test);
    dependencies.print();
    println!("hostile files: {} passed, {} failed", hostile.passed, hostile.failed);
    match counted {
        Outcome::Passed(n) => println!("instruction counts: {n} passed, 0 failed"),
        // Not in the middle of the output, where nobody would see it.
        Outcome::NotRun(why) => {
            println!("instruction counts: NOT RUN ({why}): a slower kernel would not have been noticed");
        }
    }
    ensure!(hostile.failed == 0, "{} of the hostile files failed", hostile.failed);
    outcome
}
