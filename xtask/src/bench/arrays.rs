//! The rows about arrays: reading, writing, opening, many readers, memory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use b2_measure::{Spent, least};
use serde_json::Value;

use super::Plan;
use super::data::Set;
use super::figures::{Pair, sides};
use super::peers::{self, Peers};

/// One operation on the array.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) codec: &'static str,
    pub(super) storage: &'static str,
    pub(super) op: String,
    pub(super) pair: Pair,
    pub(super) our_cbytes: f64,
    pub(super) c_cbytes: f64,
}

/// Peak memory of an operation, in KiB.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    pub(super) op: &'static str,
    pub(super) threads: usize,
    pub(super) ours: f64,
    pub(super) c: f64,
}

pub(super) const SHAPE: &str = "400,1000,100";
pub(super) const CHUNKS: &str = "100,100,100";
/// The block shape that python-blosc2 chooses for these chunks.
pub(super) const BLOCKS: &str = "5,100,100";
/// Size of such a block in KiB.
pub(super) const BLOCK_KIB: f64 = 200_000.0 / 1024.0;

const OPS: &str = "write,read,plane0,plane1,plane2,box,element,append,set";

struct Job<'a> {
    set: &'a Set,
    codec: &'static str,
    storage: &'static str,
    threads: usize,
    ops: &'a str,
    path: PathBuf,
    budget: f64,
}

impl Job<'_> {
    fn arguments(&self) -> Vec<String> {
        let mut args = vec!["nd".to_owned()];
        let mut add = |name: &str, value: &str| args.extend([format!("--{name}"), value.to_owned()]);
        add("input", &self.set.path.display().to_string());
        add("shape", SHAPE);
        add("chunks", CHUNKS);
        add("blocks", BLOCKS);
        add("codec", self.codec);
        add("storage", self.storage);
        add("path", &self.path.display().to_string());
        add("threads", &self.threads.to_string());
        add("op", self.ops);
        add("repeat", "20");
        add("budget", &self.budget.to_string());
        args
    }
}

/// Measures all operations on arrays.
pub(super) fn measure(
    peers: &Peers,
    plan: &Plan,
    folder: &Path,
    set: &Set,
) -> Result<(Vec<Row>, Vec<Scratch>)> {
    let mut rows = Vec::new();
    let file = |side: &str, codec: &str| folder.join(format!("{side}-{codec}.b2nd"));
    let codecs: &[&'static str] = if plan.quick { &["lz4"] } else { &["lz4", "zstd"] };
    for &codec in codecs {
        for storage in ["memory", "disk"] {
            for round in 0..plan.rounds {
                for threads in [1, 2] {
                    for ours in sides(round) {
                        let path = file(if ours { "ours" } else { "c" }, codec);
                        let job = Job { set, codec, storage, threads, ops: OPS, path, budget: plan.budget };
                        note(&mut rows, peers, &job, ours)?;
                    }
                }
            }
        }
        // Each side reads everything that the other wrote, compares it with the uncompressed items, then opens it
        // repeatedly and reads from several threads.
        for round in 0..plan.rounds {
            for ours in sides(round) {
                let path = file(if ours { "c" } else { "ours" }, codec);
                let mut job = Job {
                    set,
                    codec,
                    storage: "disk",
                    threads: 1,
                    ops: "read,open",
                    path,
                    budget: plan.budget,
                };
                note(&mut Vec::new(), peers, &job, ours)?;
                job.path = file(if ours { "ours" } else { "c" }, codec);
                job.ops = "open";
                note(&mut rows, peers, &job, ours)?;
                job.ops = "readers";
                for threads in [1, 2] {
                    job.threads = threads;
                    note(&mut rows, peers, &job, ours)?;
                }
            }
        }
    }
    let mut scratch = Vec::new();
    for op in ["read", "plane2", "box"] {
        for threads in [1, 2] {
            let ops = format!("scratch-{op}");
            let peak = |ours: bool| -> Result<f64> {
                let path = file(if ours { "ours" } else { "c" }, "lz4");
                let job = Job { set, codec: "lz4", storage: "disk", threads, ops: &ops, path, budget: 0.0 };
                let program = if ours { &peers.ours } else { &peers.c };
                let line = peers::lines(program, &job.arguments())?.pop().context("no line about memory")?;
                line["kib"].as_f64().context("a line without kib")
            };
            scratch.push(Scratch { op, threads, ours: peak(true)?, c: peak(false)? });
        }
    }
    for codec in codecs {
        for side in ["ours", "c"] {
            fs::remove_file(file(side, codec))?;
        }
    }
    Ok((rows, scratch))
}

/// Runs one side and adds its lines of output.
fn note(rows: &mut Vec<Row>, peers: &Peers, job: &Job, ours: bool) -> Result<()> {
    let program = if ours { &peers.ours } else { &peers.c };
    for line in peers::lines(program, &job.arguments())? {
        let op = line["op"].as_str().context("a line without an operation")?;
        let same = |row: &Row| {
            (row.codec, row.storage, row.op.as_str(), row.pair.threads)
                == (job.codec, job.storage, op, job.threads)
        };
        let place = rows.iter().position(same).unwrap_or_else(|| {
            rows.push(Row {
                codec: job.codec,
                storage: job.storage,
                op: op.to_owned(),
                pair: Pair::new(job.threads),
                our_cbytes: 0.0,
                c_cbytes: 0.0,
            });
            rows.len() - 1
        });
        let row = &mut rows[place];
        let number = |key: &str| line[key].as_f64().with_context(|| format!("a line without {key}"));
        let best = |key: &str| -> Result<f64> {
            let times = line[key].as_array().with_context(|| format!("a line without {key}"))?;
            Ok(least(times.iter().filter_map(Value::as_f64)))
        };
        let time = Spent { wall: best("wall")?, cpu: best("cpu")? };
        (row.pair.bytes, row.pair.calls) = (number("bytes")?, number("calls")?);
        if ours {
            row.our_cbytes = number("cbytes")?;
            row.pair.ours.push(time);
        } else {
            row.c_cbytes = number("cbytes")?;
            row.pair.c.push(time);
        }
    }
    Ok(())
}
