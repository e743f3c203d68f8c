//! `cargo xtask bench`: compares this project with C-Blosc2, in the same run and with the same data.
//!
//! - `data`, `peers`: the data, and the programs that are timed
//! - `chunks`, `arrays`: the rows of the tables, with both sides interleaved
//! - `figures`, `goals`: compute ratios from times, and compare them with the goals
//! - `report`, `chart`, `machine`: the output
//! - `remote`: reading from a server, compared with python-blosc2 and Zarr
//! - `counts`: instructions instead of time, for CI

mod arrays;
mod chart;
mod chunks;
pub(crate) mod counts;
mod data;
mod figures;
mod goals;
mod machine;
mod peers;
mod plan;
mod remote;
mod report;
mod results;

use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use self::plan::{Plan, Rows};
use self::results::Results;
use crate::{python, root};

/// Time this project beside C-Blosc2: chunks, arrays, threads, memory. Prints tables of ratios and writes them to
/// `benches/results/DATE-KERNELS.md` (one for each class of CPU; `B2KIT_SIMD=avx2` measures that class on any newer one), with a chart in docs/images/speed.svg.
///
/// Needs a C compiler and, for the library to compare with, python3 with venv and pip. Every round trip is verified,
/// and each side decodes what the other compressed. A figure is the median over the rounds of the ratio of both
/// sides' best repeat: CPU time with one thread, wall time with two (which needs a quiet machine).
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// About 3 minutes: fewer rounds, less data, some rows left out. Written to target/xtask/bench/quick.md.
    #[arg(long)]
    quick: bool,
    /// Only these data sets.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    sets: Vec<String>,
    /// Only these codecs, where they are compared.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = chunks::CODECS)]
    codecs: Vec<String>,
    /// Only these rows.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    rows: Vec<Rows>,
    /// Rounds of all programs in turn [default: 5, quick: 3]
    #[arg(long)]
    rounds: Option<usize>,
    /// More real arrays, beside those in testdata/arrays.
    #[arg(long, value_name = "FILE.npy")]
    array: Vec<PathBuf>,
    /// Write the report here.
    #[arg(long, value_name = "FILE.md")]
    output: Option<PathBuf>,
    /// Count instructions of a few fixed cases instead, and compare with those stored.
    #[arg(long)]
    count: bool,
    /// Read an array from a server on the loopback instead, beside python-blosc2 and Zarr: requests, bytes and time.
    /// Written to `benches/results/remote-DATE.md`.
    #[arg(long, conflicts_with = "count")]
    remote: bool,
    /// With `--remote`: a Python interpreter that has the package `b2kit`, to measure it as well.
    #[arg(long, value_name = "PYTHON", requires = "remote")]
    package: Option<PathBuf>,
    /// With --count: store what was counted.
    #[arg(long, requires = "count")]
    update: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.count {
        return counts::run(args.update);
    }
    if args.remote {
        return remote::run(args.quick, args.rounds, args.output.as_deref(), args.package.as_deref());
    }
    use clap::ValueEnum;
    let started = Instant::now();
    let folder = root::scratch("bench");
    fs::create_dir_all(&folder)?;
    // Two runs at the same time would disturb each other.
    let lock = File::create(folder.join("lock"))?;
    lock.try_lock().context("another run is going on")?;

    let codecs = match (&args.codecs[..], args.quick) {
        ([], true) => ["blosclz", "lz4", "zstd"].map(str::to_owned).into(),
        ([], false) => chunks::CODECS.map(str::to_owned).into(),
        (codecs, _) => codecs.to_vec(),
    };
    let rows = if args.rows.is_empty() { Rows::value_variants().to_vec() } else { args.rows.clone() };
    let plan = Plan {
        quick: args.quick,
        whole: !args.quick && args.sets.is_empty() && args.codecs.is_empty() && args.rows.is_empty(),
        rows,
        codecs,
        rounds: args.rounds.unwrap_or(if args.quick { 3 } else { 5 }).max(1),
        budget: if args.quick { 0.02 } else { 0.05 },
    };
    let python = python::environment(python::PEER)?;
    let peers = peers::build(&python, &folder)?;
    let mut sets = data::make(&python, &folder.join("data"), &args.sets, &args.array)?;
    let field = sets.iter().position(|set| set.name == data::FIELD).context("no field")?;
    let field = sets.remove(field);
    for name in &args.sets {
        ensure!(sets.iter().any(|set| set.name == *name), "no data set '{name}'");
    }
    sets.retain(|set| args.sets.is_empty() || args.sets.contains(&set.name));

    let mut machine = machine::describe(&peers.c_version, &peers.kernels)?;
    let results = measure(&plan, &peers, &folder, &sets, &field)?;
    machine.finish(started.elapsed());
    let report = report::markdown(&plan, &results, &machine);
    println!("{report}");
    let output = match &args.output {
        Some(path) => path.clone(),
        None if plan.whole => {
            let name = format!("{}-{}.md", machine.date, peers.kernels);
            root::workspace().join("benches").join("results").join(name)
        }
        None => folder.join(if plan.quick { "quick.md" } else { "part.md" }),
    };
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&output, &report).with_context(|| output.display().to_string())?;
    println!("written to {}", output.display());
    if plan.whole {
        let chart = root::workspace().join("docs").join("images").join("speed.svg");
        fs::write(&chart, chart::svg(&results, &machine))?;
        println!("chart in {}", chart.display());
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    peers: &peers::Peers,
    folder: &std::path::Path,
    sets: &[data::Set],
    field: &data::Set,
) -> Result<Results> {
    let mut results = Results { cells: vec![], scratch: vec![], memcpy: vec![], crossed: 0 };
    results.memcpy.push(chunks::memcpy(peers, plan, field)?);
    let cases = chunks::cases(plan, sets);
    for (i, case) in cases.iter().enumerate() {
        progress(&format!("{}/{} {} {} {}", i + 1, cases.len(), case.set.name, case.codec, case.filter));
        results.cells.extend(chunks::measure(peers, plan, case)?);
        if plan.rows.contains(&Rows::Cross) && !matches!(case.rows, Rows::Threads | Rows::Small) {
            chunks::cross(peers, folder, case)?;
            results.crossed += 1;
        }
        if i % 20 == 19 {
            results.memcpy.push(chunks::memcpy(peers, plan, field)?);
        }
    }
    if plan.rows.contains(&Rows::Arrays) {
        progress("arrays");
        let (cells, scratch) = arrays::measure(peers, plan, folder, field)?;
        results.cells.extend(cells);
        results.scratch = scratch;
        results.memcpy.push(chunks::memcpy(peers, plan, field)?);
    }
    progress("");
    Ok(results)
}

/// Shows the current step on standard error if that is a terminal.
fn progress(what: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{what}");
    }
}
