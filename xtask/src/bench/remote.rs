//! `cargo xtask bench --remote`: reads one array from a server on the loopback interface that counts and delays
//! requests, with this project, python-blosc2, and Zarr through obstore in turn.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use b2_testkit::web::{Counts, Server};

use crate::{python, root, sh};

/// The Python packages of the other sides. The first one names the folder of the environment.
const PEERS: &[&str] = &[
    "obstore==0.12.1",
    "blosc2==4.14.1",
    "zarr==3.1.6",
    "fsspec==2026.9.0",
    "aiohttp==3.14.5",
    "numpy==2.4.6",
];

const PARTS: [&str; 6] = ["open", "item", "plane0", "plane2", "box", "whole"];

/// The ways to read the array: name, program, and file.
const SIDES: [(&str, &str, &str); 6] = [
    ("b2kit", "ours", "ours.b2nd.starts"),
    ("b2kit, no block starts", "ours", "ours.b2nd"),
    ("b2kit, file of C", "ours", "c.b2nd"),
    ("python-blosc2", "blosc2", "c.b2nd"),
    ("zarr + obstore, chunks", "zarr", "chunks.zarr"),
    ("zarr + obstore, shards", "zarr", "shards.zarr"),
];

/// The networks: name, milliseconds until a response, and bytes per second of one connection and of all.
const NETWORKS: [(&str, u64, Option<u64>, Option<u64>); 4] = [
    ("0 ms", 0, None, None),
    ("20 ms", 20, None, None),
    ("20 ms, 50 MB/s per connection", 20, Some(50_000_000), None),
    ("20 ms, 50 MB/s per link", 20, None, Some(50_000_000)),
];

/// A program that receives commands.
struct Side {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Side {
    fn start(mut command: Command) -> Result<Self> {
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(name);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a side")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, input, output })
    }

    /// Runs a command; returns the seconds and the sum of the items.
    fn run(&mut self, command: &str) -> Result<(f64, u64)> {
        writeln!(self.input, "{command}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let (seconds, sum) = line.trim().split_once(' ').with_context(|| format!("{command}: no answer"))?;
        Ok((seconds.parse()?, sum.parse()?))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // It is idle and has nothing to clean up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The measurements of one side for one part.
#[derive(Clone, Default)]
struct Taken {
    seconds: Vec<f64>,
    counts: Counts,
}

impl Taken {
    fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

pub(super) fn run(quick: bool, rounds: Option<usize>, output: Option<&Path>) -> Result<()> {
    let rounds = rounds.unwrap_or(if quick { 1 } else { 5 }).max(1);
    let folder = root::target().join("xtask").join("bench").join("remote");
    let python = python::environment(PEERS)?;
    sh::run(sh::cargo(&["build", "--release", "-p", "b2-benches", "--bin", "b2-bench-remote"]))?;
    let ours = root::target().join("release").join("b2-bench-remote");
    if !folder.join("ours.b2nd.starts").exists() || !folder.join("whole").exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        sh::run({
            let mut make = python::script(&python, "bench_remote.py");
            make.arg("make").arg(&folder);
            make
        })?;
        sh::run({
            let mut make = Command::new(&ours);
            make.arg("make").arg(folder.join("raw")).arg(folder.join("ours.b2nd"));
            make
        })?;
        fs::write(folder.join("whole"), "")?;
    }
    let server = Server::start()?;
    for name in ["ours.b2nd", "ours.b2nd.starts", "c.b2nd"] {
        server.put(name, fs::read(folder.join(name))?);
    }
    for name in ["chunks.zarr", "shards.zarr"] {
        serve(&server, &folder.join(name), name)?;
    }
    let mut sums = [None; PARTS.len()];
    let mut taken = vec![vec![vec![Taken::default(); PARTS.len()]; SIDES.len()]; NETWORKS.len()];
    for (network, of_network) in NETWORKS.iter().zip(&mut taken) {
        eprintln!("{}", network.0);
        let mut sides = Vec::new();
        for (_, program, _) in SIDES {
            server.delay(Duration::ZERO);
            let mut command = match program {
                "ours" => Command::new(&ours),
                _ => python::script(&python, "bench_remote.py"),
            };
            if program != "ours" {
                // The peers may use any number of threads here, since they mostly wait.
                command.arg(program).env_remove("BLOSC_NTHREADS").env_remove("OMP_NUM_THREADS");
            }
            sides.push(Side::start(command)?);
        }
        // The first round only warms up connections and interpreters.
        for round in 0..=rounds {
            for ((side, (_, _, file)), of_side) in sides.iter_mut().zip(SIDES).zip(of_network.iter_mut()) {
                server.delay(Duration::from_millis(network.1));
                server.speed(network.2, network.3);
                for ((part, taken), sum) in PARTS.iter().zip(of_side).zip(&mut sums) {
                    server.counts();
                    let opened = side.run(&format!("open {}", server.url(file)))?;
                    let (seconds, found) = match *part {
                        "open" => opened,
                        part => {
                            server.counts();
                            side.run(&format!("read {part}"))?
                        }
                    };
                    ensure!(*sum.get_or_insert(found) == found, "{file}: {part}: other items than elsewhere");
                    if round > 0 {
                        taken.seconds.push(seconds);
                        taken.counts = server.counts();
                    }
                }
            }
        }
    }
    let report = report(&taken, rounds)?;
    print!("{report}");
    let date = Command::new("date").arg("+%Y-%m-%d").output()?.stdout;
    let date = String::from_utf8_lossy(&date);
    let default = match quick {
        true => root::target().join("xtask").join("bench").join("remote-quick.md"),
        false => root::workspace().join("benches/results").join(format!("remote-{}.md", date.trim())),
    };
    let path = output.unwrap_or(&default);
    fs::write(path, report).with_context(|| path.display().to_string())
}

/// Adds all files of a folder to the server.
fn serve(server: &Server, folder: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => serve(server, &entry.path(), &name)?,
            false => drop(server.put(&name, fs::read(entry.path())?)),
        }
    }
    Ok(())
}

fn report(taken: &[Vec<Vec<Taken>>], rounds: usize) -> Result<String> {
    let mut out = String::from(
        "# Reading from a server\n\nfloat32, 400 x 400 x 256, in chunks of 100 x 100 x 128 and blocks of 25 x 25 x 32 (the \
         inner chunks of the shards), zstd 5 and shuffle, about 40 MB stored, behind a server on the loopback that answers \
         ranges, counts, waits and limits its speed. `plane0` is one position of the first axis, `plane2` of the last, `box` \
         is 32 x 32 x 32. Before each part the array is opened anew, which is not counted with it. All sides read the same \
         items. Made by `cargo xtask bench --remote`.\n\n## Requests and bytes\n\n",
    );
    let head = |out: &mut String, first: &str| {
        let names: Vec<&str> = SIDES.iter().map(|(name, ..)| *name).collect();
        writeln!(out, "| {first} | {} |\n| --- |{}", names.join(" | "), " --- |".repeat(SIDES.len()))
    };
    head(&mut out, "requests / KB")?;
    for (at, part) in PARTS.iter().enumerate() {
        let cells = taken[1].iter().map(|of_side| {
            let Counts { requests, bytes, .. } = of_side[at].counts;
            format!("{requests} / {}", bytes.div_ceil(1000))
        });
        writeln!(out, "| {part} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    writeln!(out, "\n## Milliseconds\n\nMedians of {rounds} rounds of all sides in turn.")?;
    for ((name, ..), of_network) in NETWORKS.iter().zip(taken) {
        writeln!(out, "\n**{name}**\n")?;
        head(&mut out, "ms")?;
        for (at, part) in PARTS.iter().enumerate() {
            let cells = of_network.iter().map(|of_side| format!("{:.1}", of_side[at].median() * 1e3));
            writeln!(out, "| {part} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
        }
    }
    Ok(out)
}
