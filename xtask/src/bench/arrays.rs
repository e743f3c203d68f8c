//! The rows about arrays: reading, writing, opening, many readers, memory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::chunks::{self, Case, Cell};
use super::data::Set;
use super::figures::sides;
use super::peers::{self, Peers};
use super::plan::{Plan, Rows};

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

/// One run of a program.
struct Job<'a> {
    case: &'a Case,
    threads: usize,
    ops: &'a str,
    /// The array of which side.
    of_ours: bool,
    budget: f64,
}

/// The programs, and the folder of their files.
struct Lab<'a> {
    peers: &'a Peers,
    folder: &'a Path,
}

impl Lab<'_> {
    fn file(&self, ours: bool, codec: &str) -> PathBuf {
        self.folder.join(format!("{}-{codec}.b2nd", if ours { "ours" } else { "c" }))
    }

    fn run(&self, job: &Job, ours: bool) -> Result<Vec<Value>> {
        let options = [
            ("input", job.case.set.path.display().to_string()),
            ("shape", SHAPE.into()),
            ("chunks", CHUNKS.into()),
            ("blocks", BLOCKS.into()),
            ("codec", job.case.codec.into()),
            ("storage", job.case.storage.into()),
            ("path", self.file(job.of_ours, job.case.codec).display().to_string()),
            ("threads", job.threads.to_string()),
            ("op", job.ops.into()),
            ("repeat", "20".into()),
            ("budget", job.budget.to_string()),
        ];
        peers::lines(if ours { &self.peers.ours } else { &self.peers.c }, "nd", &options)
    }
}

/// Measures all operations on arrays.
pub(super) fn measure(
    peers: &Peers,
    plan: &Plan,
    folder: &Path,
    set: &Set,
) -> Result<(Vec<Cell>, Vec<Scratch>)> {
    let lab = Lab { peers, folder };
    let mut cells = Vec::new();
    let case = |codec, storage| Case {
        rows: Rows::Arrays,
        set: set.clone(),
        codec,
        filter: "shuffle",
        chunk: 0,
        storage,
    };
    let codecs: &[&'static str] = if plan.quick { &["lz4"] } else { &["lz4", "zstd"] };
    for &codec in codecs {
        let mut run = |storage, round, jobs: &[(&str, usize)]| -> Result<()> {
            let case = case(codec, storage);
            for ours in sides(round) {
                for &(ops, threads) in jobs {
                    let job = Job { case: &case, threads, ops, of_ours: ours, budget: plan.budget };
                    chunks::note(&mut cells, &case, threads, ours, &lab.run(&job, ours)?)?;
                }
            }
            Ok(())
        };
        for storage in ["memory", "disk"] {
            for round in 0..plan.rounds {
                run(storage, round, &[(OPS, 1)])?;
                run(storage, round, &[(OPS, 2)])?;
            }
        }
        // Each side reads everything that the other wrote, compares it with the uncompressed items, then opens it
        // repeatedly and reads from several threads.
        for round in 0..plan.rounds {
            for ours in sides(round) {
                let case = &case(codec, "disk");
                lab.run(
                    &Job { case, threads: 1, ops: "read,open", of_ours: !ours, budget: plan.budget },
                    ours,
                )?;
            }
            run("disk", round, &[("open", 1), ("readers", 1), ("readers", 2)])?;
        }
    }
    let mut scratch = Vec::new();
    for op in ["read", "plane2", "box"] {
        for threads in [1, 2] {
            let (case, ops) = (&case("lz4", "disk"), &format!("scratch-{op}"));
            let peak = |ours: bool| -> Result<f64> {
                let job = Job { case, threads, ops, of_ours: ours, budget: 0.0 };
                let line = lab.run(&job, ours)?.pop().context("no line about memory")?;
                line["kib"].as_f64().context("a line without kib")
            };
            scratch.push(Scratch { op, threads, ours: peak(true)?, c: peak(false)? });
        }
    }
    for codec in codecs {
        for ours in [true, false] {
            fs::remove_file(lab.file(ours, codec))?;
        }
    }
    Ok((cells, scratch))
}
