//! `cargo xtask c --suites`: the suites of python-blosc2, hdf5plugin and PyTables, built once from their source distributions against
//! a system's `libblosc2`, and run once with that of C-Blosc2 and once with ours.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{python, root, sh};

/// What the builds and the suites need. python-blosc2 is not among them: PyTables would load the library of its wheel.
const TOOLS: &[&str] = &[
    "scikit-build-core==1.1.2",
    "cmake==4.4.5",
    "cython==3.3.1",
    "fsspec==2026.9.0",
    "h2==4.4.1",
    "h5py==3.16.0",
    "hdf5plugin==7.1.0",
    "httpx==0.28.1",
    "msgpack==1.2.4",
    "ndindex==1.10.1",
    "ninja==1.13.2",
    "numexpr==2.14.2",
    "numpy==2.4.6",
    "packaging==26.4",
    "pandas==3.1.1",
    "pkgconfig==1.6.0",
    "psutil==7.2.2",
    "py-cpuinfo==9.0.0",
    "pyarrow==26.0.1",
    "pydantic==2.14.4",
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-timeout==2.4.0",
    "pytest-xdist==3.8.0",
    "rich==15.0.0",
    "setuptools==80.9.0",
    "threadpoolctl==3.8.0",
    "typing-extensions==4.16.0",
    "zarr==3.1.6",
];

/// Parts of python-blosc2 that its build would fetch from repositories, and what CMake calls them.
const PARTS: &[(&str, &str)] = &[("miniexpr", "MINIEXPR"), ("sleef", "SLEEF"), ("minicc", "TINYCC")];

/// The folder with these parts.
const SOURCES: &str = "B2KIT_PYTHON_BLOSC2_SOURCES";

/// The folder of HDF5, with `include` and `lib`.
const HDF5: &str = "HDF5_DIR";

/// What hdf5plugin would build beside the filter of Blosc2.
const OTHER_FILTERS: &str = "blosc,bshuf,bzip2,fcidecomp,htj2k,lz4,sperr,sz,sz3,zfp,zstd";

/// How a suite ended.
#[derive(Clone, Default)]
struct Results {
    passed: usize,
    /// The names of those that failed.
    failed: BTreeSet<String>,
}

/// Where a library is: the folder with `include` and `lib`.
struct Sides {
    theirs: PathBuf,
    ours: PathBuf,
}

/// Runs the suites with both libraries. `theirs` and `ours` have `lib` and `include`.
pub(super) fn run(theirs: &Path, ours: &Path) -> Result<()> {
    let tools = python::environment(TOOLS)?;
    let sides = Sides { theirs: theirs.to_owned(), ours: ours.to_owned() };
    let work = root::scratch("c").join("suites");
    fs::create_dir_all(&work)?;
    let mut worse = 0;
    // The short ones first.
    for suite in [hdf5plugin, pytables, python_blosc2] {
        worse += suite(&tools, &sides, &work)?;
    }
    println!(
        "{worse} tests pass with C-Blosc2 only; crates/bindings/b2-c/README.md says which are known, and why"
    );
    Ok(())
}

fn not_run(what: &str, why: &str) -> Result<usize> {
    println!("{what}: NOT RUN ({why})");
    Ok(0)
}

fn python_blosc2(tools: &Path, sides: &Sides, work: &Path) -> Result<usize> {
    let what = "python-blosc2's suite";
    let Some(sources) = std::env::var_os(SOURCES).map(PathBuf::from) else {
        let why = format!(
            "its build needs sources that no registry has; set {SOURCES} to a folder with miniexpr, sleef and minicc"
        );
        return not_run(what, &why);
    };
    let parts = PARTS.iter().map(|(folder, name)| {
        let folder = sources.join(folder);
        ensure!(folder.join("CMakeLists.txt").exists(), "{} has no sources", folder.display());
        Ok(format!("-DFETCHCONTENT_SOURCE_DIR_{name}={}", folder.display()))
    });
    let parts = parts.collect::<Result<Vec<_>>>()?.join(" ");
    let variables =
        [("USE_SYSTEM_BLOSC2", "1".into()), ("CMAKE_ARGS", parts), ("PKG_CONFIG_PATH", pkg_config(sides))];
    let built = build(tools, sides, work, "blosc2==4.14.1", &variables)?;
    compare(
        what,
        &with_both(tools, sides, work, &built, "blosc2", of_pytest, |run| {
            for part in ["tests", "examples", "pytest.ini", "conftest.py"] {
                symlink_or_copy(&built.source.join(part), &run.join(part))?;
            }
            // Its own options are to run a file in one process, and nothing heavy or with a network or a terminal.
            let words =
                "-m pytest tests -q -rpfE --tb=short -n 2 --dist loadfile --timeout 600 -p no:cacheprovider";
            Ok(words.split(' ').map(str::to_owned).collect())
        })?,
    )
}

fn hdf5plugin(tools: &Path, sides: &Sides, work: &Path) -> Result<usize> {
    let variables = [
        ("HDF5PLUGIN_SYSTEM_LIBRARIES", "blosc2".to_owned()),
        ("HDF5PLUGIN_STRIP", OTHER_FILTERS.to_owned()),
        ("PKG_CONFIG_PATH", pkg_config(sides)),
    ];
    let built = build(tools, sides, work, "hdf5plugin==7.1.0", &variables)?;
    compare(
        "hdf5plugin's suite",
        &with_both(tools, sides, work, &built, "hdf5plugin", of_unittest, |_| {
            Ok(["-m", "hdf5plugin.test"].map(str::to_owned).to_vec())
        })?,
    )
}

fn pytables(tools: &Path, sides: &Sides, work: &Path) -> Result<usize> {
    let what = "PyTables' suite";
    let Some(hdf5) = std::env::var_os(HDF5) else {
        return not_run(what, &format!("its build needs HDF5; set {HDF5} to a folder with include and lib"));
    };
    let blosc2 = sides.theirs.display().to_string();
    // A name that its sources use, and headers of C-Blosc2 3.3 do not have.
    let flags = "-DBLOSC2_MAX_DIM=B2ND_MAX_DIM".to_owned();
    let variables = [(HDF5, hdf5.to_string_lossy().into_owned()), ("BLOSC2_DIR", blosc2), ("CFLAGS", flags)];
    let built = build(tools, sides, work, "tables==3.11.1", &variables)?;
    compare(
        what,
        &with_both(tools, sides, work, &built, "tables", of_unittest, |_| {
            Ok(["-m", "tables.tests.test_all"].map(str::to_owned).to_vec())
        })?,
    )
}

/// Where pkg-config finds C-Blosc2.
fn pkg_config(sides: &Sides) -> String {
    sides.theirs.join("lib").join("pkgconfig").display().to_string()
}

/// Runs a suite with C-Blosc2 and with ours, each in an empty folder that `prepare` fills. It returns the arguments of Python.
fn with_both(
    tools: &Path,
    sides: &Sides,
    work: &Path,
    built: &Built,
    module: &str,
    read: fn(&str) -> Results,
    prepare: impl Fn(&Path) -> Result<Vec<String>>,
) -> Result<[Results; 2]> {
    let one = |side: &str, prefix: &Path| {
        let lib = prefix.join("lib");
        let run = work.join(format!("{module}-run"));
        root::remove(&run)?;
        fs::create_dir_all(&run)?;
        let mut suite = Command::new(tools);
        suite.args(prepare(&run)?).current_dir(&run);
        suite.env("PYTHONPATH", &built.site).env("LD_LIBRARY_PATH", &lib);
        ensure_loads(tools, built, module, &lib)?;
        Ok::<_, anyhow::Error>(read(&output(suite, &work.join(format!("{module}-{side}.log")))?))
    };
    Ok([one("c-blosc2", &sides.theirs)?, one("ours", &sides.ours)?])
}

/// Checks that a module gets its `libblosc2` from this folder and from nowhere else: a suite that ran with another one would prove
/// nothing.
fn ensure_loads(tools: &Path, built: &Built, module: &str, lib: &Path) -> Result<()> {
    // hdf5plugin loads its filter when HDF5 asks for it.
    let program = format!(
        "import {module}, h5py; h5py.h5z.filter_avail(32026)\n\
         with open('/proc/self/maps') as maps:\n    \
         print('\\n'.join(sorted({{line.split()[-1] for line in maps if '/libblosc2.' in line}})))"
    );
    let mut probe = Command::new(tools);
    probe.args(["-c", &program]).env("PYTHONPATH", &built.site).env("LD_LIBRARY_PATH", lib);
    let text = sh::output(&mut probe)?;
    let lib = fs::canonicalize(lib)?;
    let right = text.lines().all(|file| Path::new(file).parent() == Some(&lib));
    ensure!(
        right && !text.trim().is_empty(),
        "{module} loads {text:?}, not the library in {}",
        lib.display()
    );
    Ok(())
}

/// A package built from its source distribution.
struct Built {
    source: PathBuf,
    site: PathBuf,
}

/// Downloads and builds a package, once.
fn build(
    tools: &Path,
    sides: &Sides,
    work: &Path,
    requirement: &str,
    variables: &[(&str, String)],
) -> Result<Built> {
    let name = requirement.replace("==", "-");
    let built = Built { source: work.join(&name), site: work.join(format!("{name}-site")) };
    if built.site.join("complete").exists() {
        return Ok(built);
    }
    let bin = tools.parent().context("the interpreter is in no folder")?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let pip = |words: &[&str]| {
        let mut command = Command::new(tools);
        command.args(["-m", "pip", "--disable-pip-version-check"]).args(words);
        command.args(["--no-deps", "--no-build-isolation"]).env("PATH", &path);
        // What the build runs to look for the library is linked to it.
        command.env("LD_LIBRARY_PATH", sides.theirs.join("lib")).envs(variables.iter().cloned());
        command
    };
    let package = requirement.split('=').next().unwrap_or_default();
    let mut download = pip(&["download", "--quiet", "--no-binary", package, requirement]);
    sh::run(with_folder(&mut download, "-d", work))?;
    let archive = work.join(format!("{name}.tar.gz"));
    root::remove(&built.source)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(work);
    sh::run(tar)?;
    root::remove(&built.site)?;
    let source = built.source.display().to_string();
    let mut install = pip(&["install", "--quiet", &source]);
    sh::run(with_folder(&mut install, "--target", &built.site))?;
    fs::write(built.site.join("complete"), "")?;
    Ok(built)
}

fn with_folder(command: &mut Command, option: &str, folder: &Path) -> Command {
    let mut whole = Command::new(command.get_program());
    whole.args(command.get_args()).arg(option).arg(folder);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            whole.env(name, value);
        }
    }
    whole
}

fn symlink_or_copy(from: &Path, to: &Path) -> Result<()> {
    // Tests write beside themselves: folders are copied.
    if from.is_dir() {
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(from).arg(to);
        return sh::run(copy);
    }
    symlink(from, to).with_context(|| format!("cannot link {}", from.display()))
}

/// Runs a suite, whose result is in what it prints, and keeps that in a file.
fn output(mut command: Command, log: &Path) -> Result<String> {
    eprintln!("running a suite; its output goes to {}", log.display());
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = [&output.stdout[..], &output.stderr].concat();
    fs::write(log, &text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads pytest's summary: `PASSED tests/a.py::test`, `FAILED tests/a.py::test - why`.
fn of_pytest(text: &str) -> Results {
    let mut results = Results::default();
    for (word, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
        let name = rest.split(" - ").next().unwrap_or(rest);
        match word {
            "PASSED" if name.contains("::") => results.passed += 1,
            "FAILED" | "ERROR" if name.contains("::") => drop(results.failed.insert(name.to_owned())),
            _ => {}
        }
    }
    results
}

/// Reads what unittest prints: `FAIL: test (module.Case.test)`, `Ran 12 tests in 3.4s`, `FAILED (failures=1, skipped=2)`.
fn of_unittest(text: &str) -> Results {
    let mut results = Results::default();
    let (mut ran, mut skipped) = (0, 0);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            results.failed.insert(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("Ran ") {
            ran = rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        } else if let Some((_, rest)) = line.split_once("skipped=") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            skipped = digits.parse().unwrap_or(0);
        }
    }
    results.passed = usize::saturating_sub(ran, skipped + results.failed.len());
    results
}

/// Prints the counts, and what fails with ours only. Returns how many these are, and those that did not run.
fn compare(what: &str, results: &[Results]) -> Result<usize> {
    let [theirs, ours] = results else { anyhow::bail!("two runs were expected") };
    ensure!(theirs.passed > 0, "{what}: nothing passed with C-Blosc2; see the log");
    let worse: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    println!("{what}: {} pass with C-Blosc2, {} with ours", theirs.passed, ours.passed);
    worse.iter().for_each(|name| println!("  fails with ours only: {name}"));
    let missing = theirs.passed.saturating_sub(ours.passed + worse.len());
    if missing > 0 {
        println!("  {missing} tests did not run with ours: see the log");
    }
    Ok(worse.len() + missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_suites_print() {
        let pytest = "PASSED tests/a.py::test_a[1-x]\nFAILED tests/a.py::test_b - ValueError: no\n.... [ 3%]\nERROR t.py::d\nFAILED (x)";
        let results = of_pytest(pytest);
        assert_eq!((results.passed, results.failed.len()), (1, 2));
        assert!(results.failed.contains("tests/a.py::test_b"));
        let unittest = "FAIL: test01 (a.B.test01)\nRan 20 tests in 1.2s\n\nFAILED (failures=1, skipped=3)";
        let results = of_unittest(unittest);
        assert_eq!((results.passed, results.failed.len()), (16, 1));
    }

    #[test]
    fn what_fails_with_ours_only_is_counted() {
        let results = |passed: usize, failed: &[&str]| Results {
            passed,
            failed: failed.iter().map(|name| (*name).to_owned()).collect(),
        };
        let theirs = results(10, &["a"]);
        assert_eq!(compare("a suite", &[theirs.clone(), results(9, &["a", "b"])]).unwrap(), 1);
        assert_eq!(compare("a suite", &[theirs.clone(), results(7, &["b"])]).unwrap(), 3);
        assert!(compare("a suite", &[Results::default(), theirs]).is_err());
    }
}
