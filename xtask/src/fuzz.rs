//! `cargo xtask fuzz`: builds and runs the targets in `fuzz/` without cargo-fuzz.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;
use std::{iter, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::{python, root, sh};

/// Run fuzz targets, starting from the fixtures and from files of our own writer. Fails when an input was found that
/// panics, hangs, takes too much memory or breaks a promise; the input is kept, and the line that repeats it is printed.
///
/// Needs a C++ compiler for libFuzzer. The package in fuzz/ is one of cargo-fuzz, too.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Which targets [default: all]
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60, conflicts_with = "runs")]
    seconds: u64,
    /// Executions of each target instead.
    #[arg(long)]
    runs: Option<u64>,
    /// Seconds for all targets together.
    #[arg(long, conflicts_with_all = ["seconds", "runs"])]
    total: Option<u64>,
    /// The address sanitizer needs a nightly compiler.
    #[arg(long, value_enum, default_value_t = Sanitizer::None)]
    sanitizer: Sanitizer,
    /// Targets at once [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Longest input, in bytes.
    #[arg(long, default_value_t = 4096)]
    max_len: u32,
    /// What `.ci/run` does: a minute over all targets.
    #[arg(long, conflicts_with_all = ["seconds", "runs", "total", "sanitizer"])]
    ci: bool,
    /// Leave out the target that compares with C-Blosc2 (no Python needed).
    #[arg(long)]
    no_peer: bool,
    /// List the targets and stop.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sanitizer {
    /// With the compiler at hand
    None,
    /// Reads and writes outside of what was allocated
    Address,
}

/// How the code reports coverage to libFuzzer; the same flags as cargo-fuzz sets.
const COVERAGE: [&str; 6] = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// The target that needs C-Blosc2.
const VERSUS: &str = "versus_c";
/// The binary that writes the corpora; it is not a target.
const SEEDS: &str = "seeds";
/// Seconds for all targets together in `--ci`.
const CI_SECONDS: u64 = 60;
/// Timeout for an input, in seconds of wall time, which includes other load on the machine.
const TIMEOUT: u64 = 30;
/// Memory limit of the process, in MiB. Targets limit the memory of each input themselves.
const MEMORY: u64 = 2048;

/// The result of a target.
struct Ran {
    executions: u64,
    seconds: u64,
    /// Number of edges reached.
    coverage: u64,
    findings: Vec<PathBuf>,
    /// The end of libFuzzer's output if the target failed.
    failure: Option<String>,
}

/// Runs targets; returns an error if there is a finding or a target did not run.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = targets()?;
    if args.list {
        all.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    for target in &args.targets {
        ensure!(all.contains(target), "there is no target {target}; --list lists them");
    }
    let chosen: Vec<&str> = match &args.targets[..] {
        [] => {
            // On damaged frames C-Blosc2 may return uninitialized memory, so a difference must be examined, but should
            // not fail CI.
            let with_peer = !args.no_peer && !args.ci;
            all.iter().map(String::as_str).filter(|target| with_peer || *target != VERSUS).collect()
        }
        some => some.iter().map(String::as_str).collect(),
    };
    let binaries = build(args.sanitizer)?;
    let corpus = root::target().join("fuzz-corpus");
    let mut seeds = Command::new(binaries.join(SEEDS));
    seeds.arg(&corpus).arg(root::testdata());
    sh::run(seeds)?;

    // Python packages come from PyPI, and only this target needs them.
    let peer = match chosen.contains(&VERSUS) {
        true => Some(python::environment(python::PEER)?),
        false => None,
    };
    let run = Run { binaries, corpus, peer };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cores).clamp(1, chosen.len());
    let total = if args.ci { Some(CI_SECONDS) } else { args.total };
    let seconds = match total {
        Some(total) => (total * jobs as u64 / chosen.len() as u64).max(1),
        None => args.seconds,
    };
    let mut limit = vec![match args.runs {
        Some(runs) => format!("-runs={runs}"),
        None => format!("-max_total_time={seconds}"),
    }];
    if args.ci {
        // Use the same inputs each time, so that the result depends on the change and not on luck.
        limit.push("-seed=1".into());
    }
    println!("fuzzing {} targets, {jobs} at once, {} each", chosen.len(), limit.join(" "));
    let queue = Mutex::new(chosen.iter());
    let done = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let next = || sh::lock(&queue).next();
                for target in iter::from_fn(next) {
                    let ran = run.fuzz(target, &limit, args.max_len);
                    sh::lock(&done).insert(*target, ran);
                }
            });
        }
    });
    if run.peer.is_some() {
        print_classes();
    }
    report(done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Prints the table and the summary line.
fn report(done: BTreeMap<&str, Result<Ran>>) -> Result<()> {
    let (mut executions, mut findings) = (0, 0);
    let mut idle = Vec::new();
    println!("\n{:<14} {:>12} {:>9} {:>8} {:>8}", "target", "executions", "per s", "edges", "findings");
    for (target, ran) in done {
        let ran = ran.with_context(|| target.to_owned())?;
        let rate = ran.executions / ran.seconds.max(1);
        let found = ran.findings.len().max(usize::from(ran.failure.is_some()));
        println!("{target:<14} {:>12} {rate:>9} {:>8} {found:>8}", ran.executions, ran.coverage);
        executions += ran.executions;
        findings += found;
        if ran.executions == 0 {
            idle.push(target);
        }
        for finding in &ran.findings {
            println!("  {}", finding.display());
            print_input(finding);
        }
        if let Some(failure) = &ran.failure {
            println!("{}", failure.trim_end());
        }
    }
    println!("\nfuzzing: {executions} executions, {findings} findings");
    ensure!(idle.is_empty(), "no executions: {}", idle.join(", "));
    if findings > 0 {
        bail!("{findings} findings; the binary with the name of the target repeats one: TARGET FILE");
    }
    Ok(())
}

/// Prints a small input, since the machine that found it may not be accessible later; `xxd -r -p` converts it to a
/// file.
fn print_input(path: &Path) {
    const MOST: usize = 4096;
    if let Ok(input) = fs::read(path)
        && input.len() <= MOST
    {
        for line in input.chunks(60) {
            println!("    {}", line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
}

/// Returns the names of the targets, from the manifest of their package.
fn targets() -> Result<Vec<String>> {
    let manifest = root::workspace().join("fuzz").join("Cargo.toml");
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(&manifest)?)?;
    let bins =
        manifest.get("bin").and_then(toml::Value::as_array).context("no binaries in fuzz/Cargo.toml")?;
    let names = bins.iter().filter_map(|bin| bin.get("name")?.as_str());
    Ok(names.filter(|name| *name != SEEDS).map(str::to_owned).collect())
}

/// Builds all targets. Returns the folder that contains them.
fn build(sanitizer: Sanitizer) -> Result<PathBuf> {
    let host = host()?;
    let mut flags: Vec<&str> = COVERAGE.to_vec();
    let (mut command, folder) = match sanitizer {
        Sanitizer::None => (sh::cargo(&[]), "fuzz"),
        Sanitizer::Address => {
            flags.push("-Zsanitizer=address");
            let mut rustup = Command::new("rustup");
            rustup.current_dir(root::workspace()).args(["run", "nightly", "cargo"]);
            (rustup, "fuzz-address")
        }
    };
    let folder = root::target().join(folder);
    command.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    // The flags must not apply to build scripts, so name the target triple explicitly.
    command.env("RUSTFLAGS", flags.join(" ")).env("CARGO_TARGET_DIR", &folder);
    sh::run(command).context("building the fuzz targets, which need a C++ compiler for libFuzzer")?;
    Ok(folder.join(host).join("release"))
}

/// Returns the target triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not tell its host")
}

/// Settings that all targets share.
struct Run {
    binaries: PathBuf,
    corpus: PathBuf,
    /// The interpreter that has C-Blosc2.
    peer: Option<PathBuf>,
}

impl Run {
    /// Runs one target to its limit, or until its first finding.
    fn fuzz(&self, target: &str, limit: &[String], max_len: u32) -> Result<Ran> {
        let corpus = self.corpus.join(target);
        let artifacts = root::target().join("fuzz-artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let before = entries(&artifacts)?;
        let log = artifacts.with_extension("log");
        let started = Instant::now();
        let mut command = Command::new(self.binaries.join(target));
        command
            .arg(&corpus)
            .args(limit)
            .arg("-print_final_stats=1")
            .arg(format!("-timeout={TIMEOUT}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-malloc_limit_mb={MEMORY}"))
            .arg(format!("-max_len={max_len}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0")
            .stdout(File::create(log.with_extension("out"))?)
            .stderr(File::create(&log)?);
        if let Some(python) = &self.peer {
            command.env("B2KIT_FUZZ_PYTHON", python).env("B2KIT_FUZZ_CLASSES", classes());
        }
        let status = command.status().with_context(|| format!("cannot start {target}"))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let findings = entries(&artifacts)?.into_iter().filter(|path| !before.contains(path)).collect();
        Ok(Ran {
            executions: executions(&text),
            seconds: started.elapsed().as_secs().max(1),
            coverage: last_number(&text, " cov: ").unwrap_or(0),
            findings,
            failure: (!status.success()).then(|| failure(&text)),
        })
    }
}

/// The file with the classes of results of the comparison with C-Blosc2.
fn classes() -> PathBuf {
    root::target().join("fuzz-classes")
}

/// Prints the counts of the last comparison with C-Blosc2. The reasons are only in the file.
fn print_classes() {
    let text = fs::read_to_string(classes().join("counts.txt")).unwrap_or_default();
    let counts = summed(&text);
    if !counts.is_empty() {
        println!("\nours and C-Blosc2 (reasons and examples in {}):", classes().display());
    }
    for (class, count) in counts {
        println!("{count:>9}  {class}");
    }
}

/// Sums the counts by class, from lines with a count and a class. The reason why we reject an input is cut off.
fn summed(text: &str) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for (count, class) in text.lines().filter_map(|line| line.trim_start().split_once("  ")) {
        let end = class.find("we reject").and_then(|at| Some(at + class[at..].find(": ")?));
        *counts.entry(&class[..end.unwrap_or(class.len())]).or_default() += count.parse().unwrap_or(0);
    }
    counts
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns the number of executions, from libFuzzer's final statistics or its last progress line.
fn executions(text: &str) -> u64 {
    let told = last_number(text, "stat::number_of_executed_units:");
    let progress = || {
        text.lines().rev().find_map(|line| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok())
    };
    told.or_else(progress).unwrap_or(0)
}

/// Returns the number after the last `label`.
fn last_number(text: &str, label: &str) -> Option<u64> {
    let (_, behind) = text.rsplit_once(label)?;
    behind.split_whitespace().next()?.parse().ok()
}

/// Returns the cause of a failure: everything after the panic, or the end of the text.
fn failure(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| line.len() < 300).collect();
    let last = |what: &str| lines.iter().rposition(|line| line.contains(what));
    let start = last("panicked at").or_else(|| last("ERROR:"));
    let start = start.unwrap_or(lines.len().saturating_sub(12));
    lines.iter().skip(start).take(12).flat_map(|line| ["    ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_ci_are_accepted() -> Result<()> {
        let args: Args = sh::parsed(&["--ci", "--no-peer"])?;
        assert!(args.ci && args.no_peer && args.targets.is_empty() && !args.list);
        assert!(args.runs.is_none() && args.total.is_none() && args.jobs.is_none());
        assert_eq!(args.max_len, 4096);
        Ok(())
    }

    #[test]
    fn executions_are_found_in_the_output() {
        let text = "#2\tINITED cov: 7 ft: 8 corp: 1/1b\n#4096\tpulse  cov: 265 ft: 1486 corp: 3\n";
        assert_eq!((executions(text), last_number(text, " cov: ")), (4096, Some(265)));
        let text = format!("{text}Done 5000 runs\nstat::number_of_executed_units: 5000\nstat::x: 1\n");
        assert_eq!(executions(&text), 5000);
        assert_eq!(executions("no such thing"), 0);
    }

    #[test]
    fn classes_are_summed_without_reasons() {
        let text = "        3  C crashes\n        2  only we reject: a: b\n        5  only we reject: c\n";
        assert_eq!(summed(text), BTreeMap::from([("C crashes", 3), ("only we reject", 7)]));
    }

    #[test]
    fn targets_that_did_not_run_or_found_something_fail() {
        let ran = |executions, failure: Option<&str>| {
            let failure = failure.map(str::to_owned);
            Ok(Ran { executions, seconds: 1, coverage: 1, findings: Vec::new(), failure })
        };
        assert!(report(BTreeMap::from([("a", ran(5, None))])).is_ok());
        assert!(report(BTreeMap::from([("a", ran(5, None)), ("b", ran(0, None))])).is_err());
        assert!(report(BTreeMap::from([("a", ran(5, Some("panicked")))])).is_err());
    }

    #[test]
    fn every_target_has_a_file_and_every_file_a_target() {
        let folder = root::workspace().join("fuzz").join("fuzz_targets");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut targets = targets().unwrap();
        files.sort();
        targets.sort();
        assert_eq!(files, targets);
    }
}
