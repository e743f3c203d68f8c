//! `b2kit salvage`

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use b2kit::frame::{Condition, Salvaged};
use b2kit::nd::salvage;
use serde_json::{Value, json};

use crate::args::Global;
use crate::error::Told;
use crate::input::Input;
use crate::output::{print, refuse_existing};
use crate::table::{Table, printable, size};

const EXAMPLES: &str = "\
Examples:
  b2kit salvage broken.b2nd rescued.b2nd
  b2kit salvage broken.b2nd rescued.b2nd --json | jq .lost_chunks

Recovers every intact chunk, also where header, index or trailer are damaged or
the end of the file is missing. Where there are checksums they tell what is
intact (--no-checksums: take whatever decodes). Lost chunks are replaced by zeros,
so that the others keep their places. IN is not changed. Exit code 0: all
chunks were recovered; 1: some were lost, or the metalayers, which tell what
the chunks mean, or nothing tells whether.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A damaged frame, or the directory of a sparse one
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The new frame, of the same storage
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Overwrite OUT
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let named = || args.input.display().to_string();
    refuse_existing(&args.output, args.force)?;
    let same =
        args.input.canonicalize().ok().is_some_and(|path| args.output.canonicalize().ok() == Some(path));
    ensure!(!same, "{}: IN and OUT are the same", named());
    let open = global.reading(&args.input);
    let write = global.writing().overwrite(args.force);
    let report = salvage(&args.input, &args.output, &open, &write).with_context(named)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&to_json(&report))?))?;
    } else if !global.quiet {
        print(&format!("{}\n{}", printable(&named()), to_table(&report).render(2)))?;
    }
    // Not only the chunks: what describes them may be wrong in a way that a frame does not care about.
    let meaningless = || format!("{}: the chunks are saved, but not what they mean", args.output.display());
    if let Input::Array(array) = Input::open(&args.output, 0, global).with_context(meaningless)? {
        let (frame, each) = (array.super_chunk(), array.geometry().chunk_nbytes() as u64);
        let needed = (frame.nchunks() as u64).saturating_mul(each);
        ensure!(
            frame.nbytes() == needed,
            "{}: {} bytes, the chunks of the array have {needed}",
            meaningless(),
            frame.nbytes()
        );
    }
    let all = report.nlost == 0 && report.certain && report.metalayers != Condition::Lost;
    if all { Ok(()) } else { Err(Told.into()) }
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Intact => "intact",
        Condition::Damaged => "damaged",
        _ => "lost",
    }
}

fn to_json(report: &Salvaged) -> Value {
    let lost = report.lost.iter().map(|group| {
        json!({
            "first": group.nchunks.start,
            "count": group.nchunks.len(),
            "filled": if group.filled { Some("zero") } else { None },
            "why": group.why,
        })
    });
    json!({
        "nchunks": report.nchunks,
        "nbytes": report.nbytes,
        "recovered": report.recovered,
        "verified": report.verified,
        "lost": report.nlost,
        "certain": report.certain,
        "lost_chunks": lost.collect::<Vec<_>>(),
        "lost_vlmetalayers": report.lost_vlmetalayers,
        "header": word(report.header),
        "metalayers": word(report.metalayers),
        "index": word(report.index),
        "trailer": word(report.trailer),
    })
}

fn to_table(report: &Salvaged) -> Table {
    let mut table = Table::default();
    let chunks = match (report.nlost, report.certain) {
        (0, true) => format!("all {} recovered", report.recovered),
        (0, false) => {
            format!("{} recovered, in the order of the file; others may be missing", report.recovered)
        }
        (lost, true) => format!("{} recovered, {lost} lost", report.recovered),
        (lost, false) => format!("{} recovered, {lost} lost; which ones is a guess", report.recovered),
    };
    table.row("chunks", chunks);
    if report.verified > 0 {
        table.row("checksums", format!("right for {}", report.verified));
    }
    table.row("uncompressed", size(report.nbytes));
    for (name, condition) in [
        ("header", report.header),
        ("metalayers", report.metalayers),
        ("index", report.index),
        ("trailer", report.trailer),
    ] {
        table.row(name, word(condition));
    }
    for name in &report.lost_vlmetalayers {
        table.row("lost vlmetalayer", printable(name));
    }
    for group in &report.lost {
        let (first, last) = (group.nchunks.start, group.nchunks.end.saturating_sub(1));
        let which =
            if first == last { format!("chunk {first}") } else { format!("chunks {first} to {last}") };
        let now = if group.filled { "now zeros" } else { "left out" };
        table.row("lost", format!("{which}, {now}: {}", printable(&group.why)));
    }
    table
}
