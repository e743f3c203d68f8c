//! `cargo xtask bench --remote`: reads one array from a server on the loopback interface that counts and delays
//! requests, with this project, python-blosc2, and Zarr through obstore in turn.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use b2_measure::{median, table};
use b2_testkit::web::{Counts, Server};

use super::machine::today;
use crate::conformance::peer::{Peer, Reply};
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

/// A way to read the array: name, program, and file.
type Side = (&'static str, &'static str, &'static str);

/// A way to copy the array: name, number of the side, and file.
type Copier = (&'static str, Option<usize>, &'static str);

const SIDES: [Side; 6] = [
    ("b2kit", "ours", "ours.b2nd.starts"),
    ("b2kit, no block starts", "ours", "ours.b2nd"),
    ("b2kit, file of C", "ours", "c.b2nd"),
    ("python-blosc2", "blosc2", "c.b2nd"),
    ("zarr + obstore, chunks", "zarr", "chunks.zarr"),
    ("zarr + obstore, shards", "zarr", "shards.zarr"),
];

/// The Python package, if it is installed somewhere.
const PACKAGE: Side = ("b2kit, Python", "package", "ours.b2nd.starts");

/// The networks: name, milliseconds until a response, and bytes per second of one connection and of all.
const NETWORKS: [(&str, u64, Option<u64>, Option<u64>); 5] = [
    ("0 ms", 0, None, None),
    ("20 ms", 20, None, None),
    ("80 ms", 80, None, None),
    ("20 ms, 50 MB/s per connection", 20, Some(50_000_000), None),
    ("20 ms, 50 MB/s per link", 20, None, Some(50_000_000)),
];

/// The ways to copy the whole array elsewhere. The first one is the command, whose
/// start is included; the others are those sides, running already.
const COPIERS: [Copier; 3] = [
    ("b2kit cat", None, "ours.b2nd.starts"),
    ("python-blosc2", Some(3), "c.b2nd"),
    ("zarr + obstore, chunks", Some(4), "chunks.zarr"),
];

const COPY_BY_PACKAGE: Copier = (PACKAGE.0, Some(SIDES.len()), PACKAGE.2);

/// Where the array is copied to.
const TARGETS: [&str; 2] = ["file", "pipe"];

/// Runs `b2kit cat`, to a file or through a pipe that `cat` reads; returns the seconds.
fn cat(b2kit: &Path, url: &str, target: &str, file: &Path) -> Result<f64> {
    let start = Instant::now();
    let mut command = Command::new(b2kit);
    command.args(["cat", "-q", "--force", url]);
    without_proxy(&mut command);
    if target == "file" {
        command.arg("-o").arg(file);
        sh::run(command)?;
        return Ok(start.elapsed().as_secs_f64());
    }
    let mut cat = command.stdout(Stdio::piped()).spawn()?;
    let pipe = cat.stdout.take().context("a pipe")?;
    let mut reader = Command::new("cat").stdin(pipe).stdout(Stdio::null()).spawn()?;
    let ended = [cat.wait()?, reader.wait()?];
    ensure!(ended.iter().all(|status| status.success()), "b2kit cat {url}: {ended:?}");
    Ok(start.elapsed().as_secs_f64())
}

fn without_proxy(command: &mut Command) {
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
}

/// Runs a command on one side; returns the seconds and the sum of the items.
fn ask(side: &mut Peer, command: &str) -> Result<(f64, u64)> {
    side.send_line(command);
    match side.receive()? {
        Reply::Line(answer) => Ok(serde_json::from_value(answer)?),
        Reply::Ended(status) => bail!("{command}: the side ended with {status}"),
        Reply::Silent => bail!("{command}: no answer"),
    }
}

/// The measurements of one side for one part.
#[derive(Clone, Default)]
struct Taken {
    seconds: Vec<f64>,
    counts: Counts,
}

/// `package` is a Python interpreter that has the package.
pub(super) fn run(
    quick: bool,
    rounds: Option<usize>,
    output: Option<&Path>,
    package: Option<&Path>,
) -> Result<()> {
    let all: Vec<_> = SIDES.into_iter().chain(package.map(|_| PACKAGE)).collect();
    let copiers: Vec<_> = COPIERS.into_iter().chain(package.map(|_| COPY_BY_PACKAGE)).collect();
    let rounds = rounds.unwrap_or(if quick { 1 } else { 5 }).max(1);
    let folder = root::scratch("bench/remote");
    let python = python::environment(PEERS)?;
    let packages = ["-p", "b2-benches", "--bin", "b2-bench-remote", "-p", "b2kit-cli", "--bin", "b2kit"];
    sh::run(sh::cargo(&[&["build", "--release"], &packages[..]].concat()))?;
    let b2kit = root::target().join("release").join("b2kit");
    let ours = root::target().join("release").join("b2-bench-remote");
    if !folder.join("ours.b2nd.starts").exists() || !folder.join("whole").exists() {
        root::empty(&folder)?;
        sh::output(python::script(&python, "bench_remote.py").arg("make").arg(&folder))?;
        let files = ["raw", "ours.b2nd"].map(|name| folder.join(name));
        sh::output(Command::new(&ours).arg("make").args(files))?;
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
    let mut taken = vec![vec![vec![Taken::default(); PARTS.len()]; all.len()]; NETWORKS.len()];
    let mut copied = vec![vec![vec![Vec::new(); TARGETS.len()]; copiers.len()]; NETWORKS.len()];
    let whole = folder.join("copy");
    for ((network, of_network), copied) in NETWORKS.iter().zip(&mut taken).zip(&mut copied) {
        eprintln!("{}", network.0);
        let mut sides = Vec::new();
        for &(_, program, _) in &all {
            server.delay(Duration::ZERO);
            let mut command = match (program, package) {
                ("ours", _) => Command::new(&ours),
                ("package", Some(python)) => python::script(python, "bench_remote.py"),
                _ => python::script(&python, "bench_remote.py"),
            };
            if program != "ours" {
                // The peers may use any number of threads here, since they mostly wait.
                command.arg(program).env_remove("BLOSC_NTHREADS").env_remove("OMP_NUM_THREADS");
            }
            without_proxy(&mut command);
            sides.push(Peer::start(command)?);
        }
        // The first round only warms up connections and interpreters.
        for round in 0..=rounds {
            for ((side, (_, _, file)), of_side) in sides.iter_mut().zip(&all).zip(of_network.iter_mut()) {
                server.delay(Duration::from_millis(network.1));
                server.speed(network.2, network.3);
                for ((part, taken), sum) in PARTS.iter().zip(of_side).zip(&mut sums) {
                    server.counts();
                    let opened = ask(side, &format!("open {}", server.url(file)))?;
                    let (seconds, found) = match *part {
                        "open" => opened,
                        part => {
                            server.counts();
                            ask(side, &format!("read {part}"))?
                        }
                    };
                    ensure!(*sum.get_or_insert(found) == found, "{file}: {part}: other items than elsewhere");
                    if round > 0 {
                        taken.seconds.push(seconds);
                        taken.counts = server.counts();
                    }
                }
            }
            for ((_, side, file), copied) in copiers.iter().zip(copied.iter_mut()) {
                for (target, copied) in TARGETS.iter().zip(copied) {
                    let url = server.url(file);
                    let seconds = match side.and_then(|side| sides.get_mut(side)) {
                        Some(side) => ask(side, &format!("{target} {url} {}", whole.display()))?.0,
                        None => cat(&b2kit, &url, target, &whole)?,
                    };
                    if round > 0 {
                        copied.push(seconds);
                    }
                }
            }
        }
    }
    fs::remove_file(&whole)?;
    let report = report((&taken, &all), (&copied, &copiers), rounds)?;
    print!("{report}");
    let default = match quick {
        true => root::scratch("bench/remote-quick.md"),
        false => root::workspace().join("benches/results").join(format!("remote-{}.md", today()?)),
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

/// How long copies took, in seconds: a list for each side and way.
type Seconds = Vec<Vec<Vec<f64>>>;

fn report(
    (taken, sides): (&[Vec<Vec<Taken>>], &[Side]),
    (copied, copiers): (&[Seconds], &[Copier]),
    rounds: usize,
) -> Result<String> {
    let mut out = String::from(
        "# Reading from a server\n\nfloat32, 400 x 400 x 256, in chunks of 100 x 100 x 128 and blocks of 25 x 25 x 32 (the \
         inner chunks of the shards), zstd 5 and shuffle, about 40 MB stored, behind a server on the loopback that answers \
         ranges, counts, waits and limits its speed. `plane0` is one position of the first axis, `plane2` of the last, `box` \
         is 32 x 32 x 32. Before each part the array is opened anew, which is not counted with it. All sides read the same \
         items. Made by `cargo xtask bench --remote`.\n\n## Requests and bytes\n\n",
    );
    let names = Vec::from_iter(sides.iter().map(|(name, ..)| *name)).join(" | ");
    // One row for each part.
    let parts = |of_network: &[Vec<Taken>], cell: &dyn Fn(&Taken) -> String| {
        let row = |(at, part): (usize, &&str)| {
            let cells: Vec<String> = of_network.iter().map(|of_side| cell(&of_side[at])).collect();
            format!("{part} | {}", cells.join(" | "))
        };
        PARTS.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    let counts = parts(&taken[1], &|taken| {
        format!("{} / {}", taken.counts.requests, taken.counts.bytes.div_ceil(1000))
    });
    out += &table(&format!("requests / KB | {names}"), counts);
    writeln!(out, "\n## Milliseconds\n\nMedians of {rounds} rounds of all sides in turn.")?;
    for ((name, ..), of_network) in NETWORKS.iter().zip(taken) {
        let seconds = |taken: &Taken| format!("{:.1}", median(taken.seconds.iter().copied()) * 1e3);
        let rows = parts(of_network, &seconds);
        writeln!(out, "\n**{name}**\n\n{}", table(&format!("ms | {names}"), rows).trim_end())?;
    }
    writeln!(
        out,
        "\n## Milliseconds to copy the whole array elsewhere\n\nOpened, read, and written to a file, or to a pipe that `cat` \
         reads. With `b2kit cat` that includes the start of the process; the others run already.\n"
    )?;
    let rows = NETWORKS.iter().zip(copied).flat_map(|((network, ..), of_network)| {
        TARGETS.iter().enumerate().map(move |(at, target)| {
            let cell = |taken: &Vec<Vec<f64>>| format!("{:.0}", median(taken[at].iter().copied()) * 1e3);
            format!("{network}, {target} | {}", of_network.iter().map(cell).collect::<Vec<_>>().join(" | "))
        })
    });
    let names = Vec::from_iter(copiers.iter().map(|(name, ..)| *name)).join(" | ");
    out += &table(&format!("ms | {names}"), rows);
    Ok(out)
}
