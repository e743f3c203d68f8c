//! The rows about chunks: runs `b2kit bench --input` and the C side, and lets each side decode what the other
//! compressed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use b2_measure::Spent;
use serde_json::Value;

use super::data::Set;
use super::figures::{Pair, sides};
use super::peers::{self, Peers};
use super::{Plan, Rows};

/// Parameters of one cell.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) rows: Rows,
    pub(super) set: Set,
    pub(super) codec: &'static str,
    pub(super) filter: &'static str,
    pub(super) chunk: usize,
}

/// One operation of a case with this number of threads, on both sides.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) op: String,
    pub(super) pair: Pair,
    pub(super) nbytes: f64,
    pub(super) our_cbytes: f64,
    pub(super) c_cbytes: f64,
    /// Whether C's getitem returns wrong bytes here.
    pub(super) c_is_wrong: bool,
}

impl Cell {
    /// Returns the ratio of our size to C's.
    pub(super) fn size(&self) -> f64 {
        self.our_cbytes / self.c_cbytes
    }

    /// Returns whether C has streams to decode: its chunks are neither stored uncompressed nor special.
    pub(super) fn has_streams(&self) -> bool {
        let nchunks = (self.nbytes / self.case.chunk as f64).ceil();
        self.c_cbytes < self.nbytes && self.c_cbytes > 64.0 * nchunks
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
            cases.push(Case { rows, set: set.clone(), codec, filter, chunk });
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
                for line in peers::lines(program, &arguments(plan, case, threads))? {
                    note(&mut cells, case, threads, ours, &line)?;
                }
            }
        }
    }
    Ok(cells)
}

fn limit(plan: &Plan, codec: &str) -> usize {
    match (plan.quick, is_fast(codec)) {
        (false, true) => 32 * MIB,
        (false, false) => 8 * MIB,
        (true, true) => 12 * MIB,
        (true, false) => 4 * MIB,
    }
}

fn arguments(plan: &Plan, case: &Case, threads: usize) -> Vec<String> {
    let ops = match (case.rows, threads) {
        (Rows::Cells | Rows::Real, 1) => "compress,decompress,getitem",
        _ => "compress,decompress",
    };
    let mut args = vec!["bench".to_owned()];
    let mut add = |name: &str, value: String| args.extend([format!("--{name}"), value]);
    add("input", case.set.path.display().to_string());
    add("typesize", case.set.typesize.to_string());
    add("codec", case.codec.into());
    add("clevel", "5".into());
    add("filter", case.filter.into());
    add("threads", threads.to_string());
    add("op", ops.into());
    add("repeat", "100".into());
    add("calls", "4000".into());
    add("budget", plan.budget.to_string());
    add("chunk", case.chunk.to_string());
    add("limit", limit(plan, case.codec).to_string());
    args
}

/// Adds a line of output from one side.
fn note(cells: &mut Vec<Cell>, case: &Case, threads: usize, ours: bool, line: &Value) -> Result<()> {
    let op = line["op"].as_str().context("a line without an operation")?;
    let place = cells.iter().position(|cell| cell.op == op && cell.pair.threads == threads);
    let cell = match place {
        Some(place) => &mut cells[place],
        None => {
            cells.push(Cell {
                case: case.clone(),
                op: op.to_owned(),
                pair: Pair::new(threads),
                nbytes: 0.0,
                our_cbytes: 0.0,
                c_cbytes: 0.0,
                c_is_wrong: false,
            });
            cells.last_mut().context("just pushed")?
        }
    };
    if let Some(error) = line["error"].as_str() {
        if ours {
            bail!("{} {} {}: {op}: {error}", case.set.name, case.codec, case.filter);
        }
        cell.c_is_wrong = true;
        return Ok(());
    }
    let number = |key: &str| line[key].as_f64().with_context(|| format!("a line without {key}"));
    let time = Spent { wall: number("min_s")?, cpu: number("cpu_min_s")? };
    (cell.nbytes, cell.pair.bytes, cell.pair.calls) =
        (number("nbytes")?, number("bytes_per_rep")?, number("calls")?);
    if ours {
        cell.our_cbytes = number("cbytes")?;
        cell.pair.ours.push(time);
    } else {
        cell.c_cbytes = number("cbytes")?;
        cell.pair.c.push(time);
    }
    Ok(())
}

/// Measures `memcpy` with one thread in GB/s, over a buffer as large as that of the fast codecs.
pub(super) fn memcpy(peers: &Peers, plan: &Plan, set: &Set) -> Result<f64> {
    let limit = limit(plan, "lz4").to_string();
    let args = ["bench", "--op", "memcpy", "--repeat", "30", "--limit", &limit, "--input"];
    let mut args: Vec<String> = args.map(str::to_owned).into();
    args.push(set.path.display().to_string());
    let line = peers::lines(&peers.c, &args)?.pop().context("no line from memcpy")?;
    let number = |key: &str| line[key].as_f64().with_context(|| format!("a line without {key}"));
    Ok(number("bytes_per_rep")? / number("cpu_min_s")? / 1e9)
}

/// Lets each side decode what the other compressed, and compares with the input.
pub(super) fn cross(peers: &Peers, folder: &Path, case: &Case) -> Result<()> {
    let file = |name: &str| -> PathBuf { folder.join(name) };
    for (encoder, decoder, path) in
        [(&peers.c, &peers.ours, file("c.chunks")), (&peers.ours, &peers.c, file("ours.chunks"))]
    {
        for (program, what) in [(encoder, "encode"), (decoder, "decode")] {
            let mut command = Command::new(program);
            command.arg(what).arg("--path").arg(&path).arg("--input").arg(&case.set.path);
            command.args(["--typesize", &case.set.typesize.to_string(), "--codec", case.codec]);
            command.args(["--filter", case.filter, "--chunk", &case.chunk.to_string()]);
            // Several chunks, of which the last is shorter.
            command.args(["--limit", &(5 * MIB + 1234).to_string()]);
            peers::output(&mut command)
                .with_context(|| format!("{} {} {}, crosswise", case.set.name, case.codec, case.filter))?;
        }
    }
    Ok(())
}
