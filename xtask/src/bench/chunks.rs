//! The rows about chunks: runs `b2kit bench --input` and the C side, and lets each side decode what the other
//! compressed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::data::Set;
use super::figures::{Pair, sides};
use super::peers::{self, Peers};
use super::plan::{Plan, Rows};

/// Parameters of one cell.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) rows: Rows,
    pub(super) set: Set,
    pub(super) codec: &'static str,
    pub(super) filter: &'static str,
    pub(super) chunk: usize,
    /// Where an array is; chunks are in memory.
    pub(super) storage: &'static str,
}

/// One operation of a case with this number of threads, on both sides.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) op: String,
    pub(super) pair: Pair,
    /// Whether C's getitem returns wrong bytes here.
    pub(super) c_is_wrong: bool,
}

impl Cell {
    /// Returns whether C has streams to decode: its chunks are neither stored uncompressed nor special.
    pub(super) fn has_streams(&self) -> bool {
        let Pair { nbytes, c_cbytes, .. } = self.pair;
        let nchunks = (nbytes / self.case.chunk as f64).ceil();
        c_cbytes < nbytes && c_cbytes > 64.0 * nchunks
    }
}

pub(super) const CODECS: [&str; 5] = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"];
pub(super) const FILTERS: [&str; 2] = ["shuffle", "bitshuffle"];
const MIB: usize = 1 << 20;

fn is_fast(codec: &str) -> bool {
    matches!(codec, "blosclz" | "lz4")
}

/// Returns the cases of a plan in the order of measurement.
pub(super) fn cases(plan: &Plan, sets: &[Set]) -> Vec<Case> {
    let mut cases = Vec::new();
    let wanted = |codec: &&str| plan.codecs.iter().any(|name| name == codec);
    let mut add = |rows, set: &Set, codec, filter, chunk| {
        if plan.rows.contains(&rows) && wanted(&codec) {
            cases.push(Case { rows, set: set.clone(), codec, filter, chunk, storage: "memory" });
        }
    };
    for set in sets {
        let odd = set.name.starts_with("items_") || set.name == "constant_f32";
        for codec in CODECS {
            for filter in FILTERS {
                if set.real {
                    add(Rows::Real, set, codec, filter, 4 * MIB);
                } else if !odd {
                    add(Rows::Cells, set, codec, filter, 4 * MIB);
                }
                if odd && (codec == "lz4" || (matches!(codec, "blosclz" | "zstd") && filter == "shuffle")) {
                    add(Rows::Special, set, codec, filter, 4 * MIB);
                }
                if ["walk_f32", "counter_i32", "linspace_f64"].contains(&set.name.as_str())
                    && is_fast(codec)
                    && (codec, filter) != ("blosclz", "bitshuffle")
                {
                    let sizes: &[usize] = if plan.quick { &[64, 512] } else { &[64, 128, 256, 512] };
                    for kib in sizes {
                        add(Rows::Threads, set, codec, filter, kib * 1024);
                    }
                }
                let some = set.real || ["walk_f32", "counter_i32"].contains(&set.name.as_str());
                if some && !odd && matches!(codec, "blosclz" | "lz4" | "zstd") {
                    for chunk in [1024, 4096, 16_384, 5250 * set.typesize] {
                        add(Rows::Small, set, codec, filter, chunk);
                    }
                }
            }
        }
    }
    cases
}

/// Measures a case: each round runs both sides with each number of threads.
pub(super) fn measure(peers: &Peers, plan: &Plan, case: &Case) -> Result<Vec<Cell>> {
    let threads: &[usize] = match case.rows {
        Rows::Cells | Rows::Threads if !plan.quick || case.rows == Rows::Threads => &[1, 2],
        _ => &[1],
    };
    let mut cells: Vec<Cell> = Vec::new();
    for round in 0..plan.rounds {
        for &threads in threads {
            for ours in sides(round) {
                let program = if ours { &peers.b2kit } else { &peers.c };
                let lines = peers::lines(program, "bench", &options(plan, case, threads))?;
                note(&mut cells, case, threads, ours, &lines)?;
            }
        }
    }
    Ok(cells)
}

fn limit(plan: &Plan, rows: Rows, codec: &str) -> usize {
    match (plan.quick, is_fast(codec)) {
        _ if rows == Rows::Small => MIB / 2,
        (false, true) => 32 * MIB,
        (false, false) => 8 * MIB,
        (true, true) => 12 * MIB,
        (true, false) => 4 * MIB,
    }
}

fn options(plan: &Plan, case: &Case, threads: usize) -> [(&'static str, String); 11] {
    let ops = match (case.rows, threads) {
        (Rows::Cells | Rows::Real, 1) => "compress,decompress,getitem",
        _ => "compress,decompress",
    };
    [
        ("input", case.set.path.display().to_string()),
        ("typesize", case.set.typesize.to_string()),
        ("codec", case.codec.into()),
        ("filter", case.filter.into()),
        ("threads", threads.to_string()),
        ("op", ops.into()),
        ("repeat", "100".into()),
        ("calls", "4000".into()),
        ("budget", plan.budget.to_string()),
        ("chunk", case.chunk.to_string()),
        ("limit", limit(plan, case.rows, case.codec).to_string()),
    ]
}

/// Adds the lines of output from one side.
pub(super) fn note(
    cells: &mut Vec<Cell>,
    case: &Case,
    threads: usize,
    ours: bool,
    lines: &[Value],
) -> Result<()> {
    for line in lines {
        let op = line["op"].as_str().context("a line without an operation")?;
        let same = |cell: &Cell| {
            (cell.case.codec, cell.case.storage, cell.op.as_str(), cell.pair.threads)
                == (case.codec, case.storage, op, threads)
        };
        let place = cells.iter().position(same).unwrap_or_else(|| {
            let (case, pair) = (case.clone(), Pair { threads, ..Pair::default() });
            cells.push(Cell { case, op: op.to_owned(), pair, c_is_wrong: false });
            cells.len() - 1
        });
        match line["error"].as_str() {
            None => cells[place].pair.note(ours, line)?,
            Some(error) if ours => bail!("{} {} {}: {op}: {error}", case.set.name, case.codec, case.filter),
            Some(_) => cells[place].c_is_wrong = true,
        }
    }
    Ok(())
}

/// Measures `memcpy` with one thread in GB/s, over a buffer as large as that of the fast codecs.
pub(super) fn memcpy(peers: &Peers, plan: &Plan, set: &Set) -> Result<f64> {
    let options = [
        ("op", "memcpy".into()),
        ("repeat", "30".into()),
        ("limit", limit(plan, Rows::Cells, "lz4").to_string()),
        ("input", set.path.display().to_string()),
    ];
    let line = peers::lines(&peers.c, "bench", &options)?.pop().context("no line from memcpy")?;
    let number = |key: &str| line[key].as_f64().with_context(|| format!("a line without {key}"));
    Ok(number("bytes_per_rep")? / number("cpu_min_s")? / 1e9)
}

/// Lets each side decode what the other compressed, and compares with the input.
pub(super) fn cross(peers: &Peers, folder: &Path, case: &Case) -> Result<()> {
    for (encoder, decoder, path) in
        [(&peers.c, &peers.ours, "c.chunks"), (&peers.ours, &peers.c, "ours.chunks")]
    {
        let options = [
            ("path", folder.join(path).display().to_string()),
            ("input", case.set.path.display().to_string()),
            ("typesize", case.set.typesize.to_string()),
            ("codec", case.codec.into()),
            ("filter", case.filter.into()),
            ("chunk", case.chunk.to_string()),
            // Several chunks, of which the last is shorter.
            ("limit", (5 * MIB + 1234).to_string()),
        ];
        for (program, what) in [(encoder, "encode"), (decoder, "decode")] {
            peers::lines(program, what, &options)
                .with_context(|| format!("{} {} {}, crosswise", case.set.name, case.codec, case.filter))?;
        }
    }
    Ok(())
}
