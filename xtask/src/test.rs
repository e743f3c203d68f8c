//! `cargo xtask test`: every test there is.

use anyhow::{Result, bail};

use crate::sh::{self, Counts};
use crate::{conformance, crash, fixtures, pingpong, python};

/// Run all tests: unit, integration and documentation tests, with the default features, all features and the
/// pure-Rust codecs, the hashes of the fixtures, and conformance with C-Blosc2.
///
/// Conformance needs the peer, python-blosc2, which is installed from PyPI into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out conformance with C-Blosc2 (no Python needed).
    #[arg(long)]
    pub(crate) no_peer: bool,
    /// Number of conformance cases.
    #[arg(long, default_value_t = 2000)]
    cases: u64,
    /// Seed of the conformance cases; another one each time by default.
    #[arg(long)]
    seed: Option<u64>,
}

/// Crates that build with pure-Rust codecs only.
const LIBRARIES: &[&str] =
    &["-p", "b2-codecs", "-p", "b2-chunk", "-p", "b2-frame", "-p", "b2nd", "-p", "b2kit"];

/// Runs everything; an error when a test failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.no_peer {
        // Told at once, not after all other tests.
        python::base_interpreter()
            .map_err(|e| e.context("without Python, --no-peer leaves conformance out"))?;
    }
    let mut tests = Counts::default();
    let mut count = |command| -> Result<()> {
        let counts = sh::run_tests(command)?;
        tests.add_counts(counts);
        Ok(())
    };
    let mut workspace = sh::cargo(&["test", "--workspace", "--no-fail-fast"]);
    if !args.no_peer {
        crash::dump_few(&mut workspace)?;
    }
    count(workspace)?;
    count(sh::cargo(&[
        "test",
        "--no-fail-fast",
        "--all-features",
        "-p",
        "b2-codecs",
        "-p",
        "b2-frame",
        "-p",
        "b2nd",
        "-p",
        "b2kit",
    ]))?;
    let mut pure =
        vec!["test", "--no-fail-fast", "--no-default-features", "--features", "zstd-rs,miniz_oxide,lz4_flex"];
    pure.extend(LIBRARIES);
    count(sh::cargo_without_c(&pure))?;

    let peer = if args.no_peer {
        None
    } else {
        fixtures::check()?;
        let crashes = crash::judge_few()?;
        println!();
        let turns = pingpong::run(&pingpong::Args::new(args.seed))?;
        println!();
        Some((conformance::run(&conformance::Args::new(args.cases, args.seed))?, crashes, turns))
    };

    println!("\ntests: {} passed, {} failed", tests.passed, tests.failed);
    let mut total = tests;
    match peer {
        Some((cases, crashes, turns)) => {
            println!("conformance: {} passed, {} failed", cases.passed, cases.failed);
            println!(
                "crash states and appends that C-Blosc2 judged or made: {} passed, {} failed",
                crashes.passed, crashes.failed
            );
            println!("sequences by turns with C-Blosc2: {} passed, {} failed", turns.passed, turns.failed);
            total.add_counts(turns);
            total.passed += cases.passed;
            total.failed += cases.failed;
            total.add_counts(crashes);
        }
        None => println!("conformance: NOT RUN (--no-peer): nothing was compared with C-Blosc2"),
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed > 0 {
        bail!("{} failed", total.failed);
    }
    Ok(())
}
