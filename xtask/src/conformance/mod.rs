//! `cargo xtask conformance`: compares this project with the C library in both directions, with random parameters.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{python, root};
pub(crate) use report::CaseCounts;
use report::Report;
use session::Session;

pub(crate) mod checker;
mod draft;
mod params;
pub(crate) mod peer;
mod read_array;
mod read_chunk;
mod read_frame;
mod reading;
mod report;
mod session;
pub(crate) mod watchdog;
mod write_array;
mod write_chunk;
mod write_frame;
mod writing;

/// Compare with C-Blosc2 on random files, both ways, and print a table by class.
///
/// Half of the cases are written by C-Blosc2 and read here, whole and in parts; the oracle is the data that
/// went in, and C's own decoding of whole chunks only where the pipeline is lossy. The other half is written
/// here; C-Blosc2 reads it, then changes a copy, which is read here again. Compared are decoded bytes, header
/// fields, shapes, dtypes and metalayers; compressed streams are not.
///
/// The C library runs in separate Python processes (python-blosc2 from PyPI, in target/xtask/venv), which are restarted
/// when they crash or hang. testdata/expected-failures.toml lists the known gaps; a case listed there that passes is a
/// failure too. Files of failed cases are in target/xtask/failures.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of cases, both ways together.
    #[arg(long, default_value_t = 2000)]
    cases: u64,
    /// Seed of all random choices; printed at the start. Default: another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// First case number; with `--cases 1` and `--only`, one case of a seed alone.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only one way.
    #[arg(long, value_enum)]
    only: Option<CaseFilter>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CaseFilter {
    /// C-Blosc2 writes, this project reads.
    Reading,
    /// This project writes, C-Blosc2 reads.
    Writing,
}

impl Args {
    pub(crate) fn new(cases: u64, seed: Option<u64>) -> Self {
        Self { cases, seed, first: 0, only: None }
    }
}

/// Runs the task and prints its tables. Failed cases are counted, but do not make this return an error.
pub(crate) fn run(args: &Args) -> Result<CaseCounts> {
    let started = Instant::now();
    let seed = root::seed(args.seed);
    println!("conformance with {}: {} cases, --seed {seed}", python::PEER.join(", "), args.cases);
    let python = python::environment(python::PEER)?;
    let failures = root::scratch("failures");
    root::remove(&failures)?;
    let folder = root::temporary("conformance-")?;
    let mut session = Session { seed, first: args.first, folder, report: Report::new()?, failures };

    watchdog::start(seed);
    let (reading, writing) = match args.only {
        None => (args.cases.div_ceil(2), args.cases / 2),
        Some(CaseFilter::Reading) => (args.cases, 0),
        Some(CaseFilter::Writing) => (0, args.cases),
    };
    // Panics are caught and reported with their case, so suppress the default message.
    std::panic::set_hook(Box::new(|_| ()));
    reading::run(&mut session, &python, reading).context("reading what C-Blosc2 wrote")?;
    writing::run(&mut session, &python, writing).context("writing for C-Blosc2")?;
    let _ = std::panic::take_hook();

    let counts = session.report.print();
    println!("seed {seed}, {:.0} s", started.elapsed().as_secs_f64());
    if counts.passed + counts.failed < reading + writing {
        bail!("only {} of {} cases were run", counts.passed + counts.failed, reading + writing);
    }
    if counts.failed > 0 {
        println!("the failed cases, with their files, are in {}", session.failures.display());
        println!(
            "one of them again: cargo xtask conformance --seed {seed} --only WAY --first NUMBER --cases 1"
        );
        fs::write(session.failures.join("report.txt"), session.report.failures.join("\n"))?;
    }
    Ok(counts)
}
