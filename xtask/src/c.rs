//! `cargo xtask c`: builds `libblosc2` of `b2-c`, installs it into a folder, and tests it with programs in C: alone, under valgrind,
//! and beside C-Blosc2 in one process.

mod prefix;
mod suites;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use prefix::SONAME;

use crate::sh::{Counts, Outcome as Ran};
use crate::{python, root, sh};

/// What nobody notices if C-Blosc2 does not read and write the same.
pub(crate) const UNNOTICED: &str = "a chunk or array that C-Blosc2 or our libblosc2 writes and the other cannot read would not have been noticed";

/// What nobody notices without valgrind.
pub(crate) const LEAKS_UNNOTICED: &str =
    "memory that libblosc2 leaks or reads uninitialised would not have been noticed";

/// The programs in `tests/c` that need nothing but the library, with their arguments as they are and under valgrind.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("chunks", "", ""),
    ("schunks", "", ""),
    ("arrays", "", ""),
    ("callbacks", "", ""),
    ("edges", "", ""),
    ("drop_in", "2000 limited", "20"),
    ("threads", "", ""),
    ("hostile", "3000", "60"),
];

/// How many functions libblosc2 3.3.5 exports.
const SYMBOLS: usize = 164;

/// Build libblosc2 for C, and test it with programs in C, under valgrind and beside C-Blosc2.
///
/// Needs `cc`, `nm` and `pkg-config`. C-Blosc2 comes with python-blosc2 from PyPI, into target/xtask/venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only build with optimisations, and install into this folder.
    #[arg(long, value_name = "PREFIX")]
    install: Option<PathBuf>,
    /// Remove what `--install` has put into this folder.
    #[arg(long, value_name = "PREFIX", conflicts_with = "install")]
    uninstall: Option<PathBuf>,
    /// Measure speed beside C-Blosc2, in one process, instead of testing.
    #[arg(long)]
    bench: bool,
    /// Run the suites of python-blosc2, PyTables and hdf5plugin with C-Blosc2 and with ours, instead of testing. This takes most of an
    /// hour. crates/bindings/b2-c/README.md says which variables name what no registry has.
    #[arg(long)]
    suites: bool,
    /// Write the table of functions and the tests that call them.
    #[arg(long)]
    bless: bool,
}

/// The results of the tests.
pub(crate) struct Outcome {
    /// Unit tests and programs in C.
    pub(crate) tests: Counts,
    /// Programs under valgrind.
    pub(crate) leaks: Ran,
    /// What was exchanged with C-Blosc2.
    pub(crate) exchanged: Ran,
    /// What of the rest could not run here.
    skipped: Vec<String>,
}

impl Outcome {
    pub(crate) fn print(&self) {
        self.skipped.iter().for_each(|line| println!("libblosc2: {line}"));
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(prefix) = &args.install {
        prefix::install(&folder(), &build("dist")?, prefix)?;
        let configs = prefix.join("lib").join("pkgconfig");
        println!("installed; PKG_CONFIG_PATH={} pkg-config --cflags --libs blosc2", configs.display());
        return Ok(());
    }
    if let Some(prefix) = &args.uninstall {
        prefix::uninstall(prefix)?;
        println!("removed from {}", prefix.display());
        return Ok(());
    }
    if args.bench {
        return bench();
    }
    if args.suites {
        let prefix = root::scratch("c").join("prefix");
        root::remove(&prefix)?;
        prefix::install(&folder(), &build("dist")?, &prefix)?;
        return suites::run(&peer()?, &prefix);
    }
    if args.bless {
        return fs::write(table_path(), table()?).context("cannot write the table of functions");
    }
    let outcome = check()?;
    outcome.print();
    outcome.leaks.print("libblosc2 under valgrind", LEAKS_UNNOTICED);
    outcome.exchanged.print("libblosc2 with C-Blosc2", UNNOTICED);
    outcome.tests.print("libblosc2");
    outcome.leaks.verdict()?;
    outcome.exchanged.verdict()?;
    outcome.tests.verdict()
}

fn folder() -> PathBuf {
    root::workspace().join("crates/bindings/b2-c")
}

fn of_it(words: &[&str]) -> Command {
    sh::cargo(&[words, &["--locked", "-p", "b2-c"]].concat())
}

/// Builds the libraries and returns where they are.
fn build(profile: &str) -> Result<PathBuf> {
    sh::run(of_it(&["build", "--profile", profile]))?;
    Ok(root::target().join(if profile == "dev" { "debug" } else { profile }))
}

/// Runs all tests that can run on this machine.
pub(crate) fn check() -> Result<Outcome> {
    let mut tests = sh::run_tests(of_it(&["test", "--no-fail-fast"]))?;
    let libraries = build("dev")?;
    symbols(&libraries)?;
    let known = fs::read_to_string(table_path()).unwrap_or_default();
    ensure!(known == table()?, "{} is not up to date: cargo xtask c --bless", table_path().display());
    let prefix = root::scratch("c").join("prefix");
    root::remove(&prefix)?;
    prefix::install(&folder(), &libraries, &prefix)?;
    let mut skipped = Vec::new();
    let out = root::scratch("c").join("programs");
    root::remove(&out)?;
    fs::create_dir_all(&out)?;
    let valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    let mut leaks = Counts::default();
    for (name, plain, few) in PROGRAMS {
        let program = compile(name, &out, &prefix, Link::Shared)?;
        tests.add_counts(run_program(Command::new(&program), &out, &prefix, plain)?);
        if valgrind {
            let mut under = Command::new("valgrind");
            under.args([
                "--quiet",
                "--error-exitcode=9",
                "--leak-check=full",
                "--errors-for-leak-kinds=definite,indirect",
                "--show-leak-kinds=definite,indirect",
            ]);
            under.arg(&program);
            leaks.add_counts(run_program(under, &out, &prefix, few)?);
        }
    }
    // The same linked statically.
    let program = compile("chunks", &out, &prefix, Link::Static)?;
    tests.add_counts(run_program(Command::new(&program), &out, &prefix, "")?);
    if Command::new("pkg-config").arg("--version").output().is_err() {
        skipped.push("pkg-config: NOT RUN (it is not installed)".to_owned());
    } else {
        let mut flags = Command::new("pkg-config");
        flags.args(["--cflags", "--libs", "blosc2"]);
        flags.env("PKG_CONFIG_PATH", prefix.join("lib").join("pkgconfig"));
        let flags = sh::output(&mut flags)?;
        let mut cc = Command::new("cc");
        let program = out.join("example");
        cc.arg(folder().join("examples").join("roundtrip.c")).arg("-o").arg(&program);
        sh::run(with(cc, flags.split_whitespace()))?;
        tests.add_counts(run_program(Command::new(&program), &out, &prefix, "")?);
    }
    let leaks = if valgrind { Ran::Ran(leaks) } else { Ran::NotRun("valgrind is not installed".to_owned()) };
    let exchanged = match peer() {
        Err(error) => Ran::NotRun(format!("{error:#}")),
        Ok(peer) => {
            let mut counts = layout(&out, &prefix, &peer)?;
            let program = compile("exchange", &out, &prefix, Link::None)?;
            let ours = prefix.join("lib").join(SONAME).display().to_string();
            let theirs = peer.join("lib").join("libblosc2.so").display().to_string();
            let arguments = format!("{ours} {theirs} 400");
            counts.add_counts(run_program(Command::new(&program), &out, &prefix, &arguments)?);
            // What `edges` expects is what C-Blosc2 answers.
            counts.add_counts(run_program(Command::new(out.join("edges")), &out, &peer, "")?);
            Ran::Ran(counts)
        }
    };
    prefix::uninstall(&prefix)?;
    let left = fs::read_dir(&prefix)?.count();
    ensure!(left == 0, "{left} entries of {} are left after uninstalling", prefix.display());
    Ok(Outcome { tests, leaks, exchanged, skipped })
}

/// Returns the folder of python-blosc2, which has `lib` and `include` of C-Blosc2.
fn peer() -> Result<PathBuf> {
    let python = python::environment(python::PEER)?;
    let mut find = Command::new(python);
    find.args([
        "-c",
        "import importlib.util as u; print(u.find_spec('blosc2').submodule_search_locations[0])",
    ]);
    let folder = PathBuf::from(sh::output(&mut find)?.trim());
    ensure!(folder.join("lib").join("libblosc2.so").exists(), "python-blosc2 has no libblosc2.so");
    Ok(folder)
}

enum Link {
    Shared,
    Static,
    /// The program loads libraries itself.
    None,
}

fn with<'a>(mut command: Command, words: impl IntoIterator<Item = &'a str>) -> Command {
    command.args(words);
    command
}

/// Compiles a program of `tests/c`.
fn compile(name: &str, out: &Path, prefix: &Path, link: Link) -> Result<PathBuf> {
    let program = out.join(match link {
        Link::Static => format!("{name}-static"),
        _ => name.to_owned(),
    });
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    cc.arg("-I").arg(prefix.join("include"));
    cc.arg(folder().join("tests").join("c").join(format!("{name}.c"))).arg("-o").arg(&program);
    match link {
        Link::Shared => drop(cc.arg("-L").arg(prefix.join("lib")).arg("-lblosc2")),
        Link::Static => drop(cc.arg(prefix.join("lib").join("libblosc2.a"))),
        Link::None => {}
    }
    cc.args(["-lpthread", "-ldl", "-lm"]);
    sh::run(cc).with_context(|| format!("cannot compile {name}.c"))?;
    Ok(program)
}

/// Runs a program whose last line is `NAME: N passed, M failed`.
fn run_program(mut command: Command, out: &Path, prefix: &Path, arguments: &str) -> Result<Counts> {
    let work = out.join("work");
    root::remove(&work)?;
    fs::create_dir_all(&work)?;
    command.args(arguments.split_whitespace()).current_dir(&work);
    command.env("LD_LIBRARY_PATH", prefix.join("lib"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BLOSC_")) {
        command.env_remove(name);
    }
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(counts) = text.lines().last().and_then(counted) else {
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
        bail!("{command:?} ended with {} and says no result", output.status);
    };
    let good = output.status.success() && counts.failed == 0 && counts.passed > 0;
    if !good {
        print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    ensure!(good || counts.failed > 0, "{command:?} ended with {}", output.status);
    Ok(counts)
}

/// Reads `NAME: N passed, M failed`.
fn counted(line: &str) -> Option<Counts> {
    let (_, rest) = line.rsplit_once(": ")?;
    let (passed, failed) = rest.strip_suffix(" failed")?.split_once(" passed, ")?;
    Some(Counts { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

/// Compares the structures of our headers with those of C-Blosc2.
fn layout(out: &Path, prefix: &Path, peer: &Path) -> Result<Counts> {
    let mut texts = Vec::new();
    for (name, include) in [("layout-ours", prefix.join("include")), ("layout-theirs", peer.join("include"))]
    {
        let program = out.join(name);
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-w"]).arg("-I").arg(include);
        cc.arg(folder().join("tests").join("c").join("layout.c")).arg("-o").arg(&program);
        // The inline functions of the headers are not called.
        cc.arg("-L").arg(prefix.join("lib")).arg("-lblosc2");
        sh::run(cc)?;
        let mut run = Command::new(&program);
        run.env("LD_LIBRARY_PATH", prefix.join("lib"));
        texts.push(sh::output(&mut run)?);
    }
    let (ours, theirs) = (&texts[0], &texts[1]);
    let mut counts = Counts::default();
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        if ours == theirs {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            println!("ours: {ours}, C-Blosc2: {theirs}");
        }
    }
    ensure!(counts.passed + counts.failed > 100, "layout.c printed nothing");
    Ok(counts)
}

/// Returns the functions that our headers declare.
fn declared() -> Result<BTreeSet<String>> {
    let include = folder().join("include");
    let mut names = BTreeSet::new();
    for header in ["blosc2.h", "b2nd.h", "blosc2/blosc2-stdio.h"] {
        let text = fs::read_to_string(include.join(header))?;
        for declaration in text.split("BLOSC_EXPORT ").skip(1) {
            let head = declaration.split('(').next().unwrap_or_default();
            let name =
                head.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    ensure!(names.len() == SYMBOLS, "the headers declare {} functions, expected {SYMBOLS}", names.len());
    Ok(names)
}

/// Checks that the shared library exports exactly what the headers declare, under its name.
fn symbols(libraries: &Path) -> Result<()> {
    let library = libraries.join("libblosc2.so");
    let listed = sh::output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library))?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned));
    let (exported, declared) = (names.collect::<BTreeSet<_>>(), declared()?);
    let more: Vec<_> = exported.difference(&declared).collect();
    let fewer: Vec<_> = declared.difference(&exported).collect();
    ensure!(
        more.is_empty() && fewer.is_empty(),
        "exported but not declared: {more:?}; not exported: {fewer:?}"
    );
    let head = sh::output(Command::new("readelf").arg("-d").arg(&library))?;
    ensure!(head.contains(&format!("soname: [{SONAME}]")), "the library is not called {SONAME}");
    Ok(())
}

fn table_path() -> PathBuf {
    folder().join("SYMBOLS.md")
}

/// Returns the table of functions, and which programs call each.
fn table() -> Result<String> {
    let mut callers: BTreeMap<String, Vec<&str>> =
        declared()?.into_iter().map(|name| (name, Vec::new())).collect();
    for (program, ..) in PROGRAMS {
        let text = fs::read_to_string(folder().join("tests").join("c").join(format!("{program}.c")))?;
        for (name, list) in &mut callers {
            let calls = text.match_indices(name.as_str()).any(|(at, _)| {
                let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let (before, after) = (&text[..at], &text[at + name.len()..]);
                !before.ends_with(part) && after.starts_with('(')
            });
            if calls {
                list.push(program);
            }
        }
    }
    let untested: Vec<&String> =
        callers.iter().filter(|(_, list)| list.is_empty()).map(|(name, _)| name).collect();
    ensure!(untested.is_empty(), "no program in tests/c calls {untested:?}");
    let mut text = String::from(
        "# The functions, and the programs in tests/c that call them\n\nWritten by `cargo xtask c --bless`, and compared by \
         `cargo xtask c`.\n\n| Function | Called by |\n| --- | --- |\n",
    );
    for (name, list) in callers {
        text.push_str(&format!("| `{name}` | {} |\n", list.join(", ")));
    }
    Ok(text)
}

/// Measures speed beside C-Blosc2, and beside the Rust API.
fn bench() -> Result<()> {
    let peer = peer()?;
    let prefix = root::scratch("c").join("prefix");
    root::remove(&prefix)?;
    prefix::install(&folder(), &build("dist")?, &prefix)?;
    let out = root::scratch("c").join("programs");
    fs::create_dir_all(&out)?;
    let program = compile("bench", &out, &prefix, Link::None)?;
    let mut run = Command::new(program);
    run.arg(prefix.join("lib").join(SONAME)).arg(peer.join("lib").join("libblosc2.so"));
    sh::run(run)?;
    sh::run(with(of_it(&["test", "--release"]), ["beside_rust", "--", "--ignored", "--nocapture"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_program_is_its_result() {
        let counts = counted("chunks: 12 passed, 3 failed").unwrap();
        assert_eq!((counts.passed, counts.failed), (12, 3));
        assert!(counted("chunks: not so").is_none());
    }

    #[test]
    fn each_function_is_declared_and_called_by_a_program() {
        assert_eq!(table().unwrap().lines().filter(|line| line.starts_with("| `")).count(), SYMBOLS);
    }
}
