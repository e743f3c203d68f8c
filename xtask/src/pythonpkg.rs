//! `cargo xtask python`: builds, installs and tests the Python package.
//!
//! The environment is under `target/xtask/venv` and uses the newest Python available (`B2KIT_PYTHON` selects another
//! one). Skipped tests are listed at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::sh::Counts;
use crate::steps::minutes;
use crate::{root, sh};

/// What the tests need.
const NEEDED: &[&str] = &[
    "maturin>=1.10,<2",
    "numpy>=1.26",
    "pytest",
    "pytest-xdist",
    "hypothesis",
    "mypy",
    "tqdm",
    "typing_extensions",
    "fsspec",
];
/// Packages to test against, each with what is skipped without it.
const PEERS: &[(&[&str], &str)] = &[
    (&["blosc2==4.14.1"], "files and stores of python-blosc2"),
    (&["zarr>=3.1", "numcodecs>=0.13"], "the codecs for Zarr and numcodecs, their page, and their types"),
    (&["blosc"], "chunks of python-blosc"),
    (&["aiohttp", "obstore"], "URLs and object stores"),
    (&["jsonschema"], "the schemas of the codecs for Zarr"),
    (&["imagecodecs-zarr"], "arrays of imagecodecs-zarr"),
    (&["dask[array,distributed]"], "Dask, its page, and its types"),
    (&["xarray", "pandas", "pytest-asyncio", "cftime"], "xarray, its page, and its types"),
    (&["h5py", "hdf5plugin", "h5netcdf"], "copies of arrays of h5py, and the filters of HDF5"),
    (&["netCDF4"], "the filters of netCDF4 beside ours, and xarray's tests that write NetCDF"),
    (&["virtualizarr"], "references for VirtualiZarr"),
    (&["icechunk"], "references in Icechunk"),
    (&["pyright"], "the types of examples, by pyright"),
];
/// Documentation pages whose examples are run, with the module that each needs.
const PAGES: &[(&str, &str)] = &[
    ("crates/bindings/b2-python/README.md", "b2kit"),
    ("docs/training.md", "b2kit"),
    ("docs/zarr.md", "zarr"),
    ("docs/xarray.md", "dask, xarray"),
    ("docs/dask.md", "dask"),
];
/// The largest published wheel, in bytes.
const WHEEL: u64 = 8_000_000;
/// What makes published wheels smaller than maturin's default does: by 3 %, in a second.
const COMPRESSION: [&str; 2] = ["--compression-level", "9"];
/// The oldest and the newest minor version of Python 3 to look for.
const VERSIONS: (u32, u32) = (11, 20);

/// Build the Python package, install it in an environment of its own, and run its tests and checks of types.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build it as it is published, which takes longer.
    #[arg(long)]
    release: bool,
    /// Also a cluster whose workers are killed again and again, and eight times as many examples.
    #[arg(long)]
    full: bool,
    /// Only the tests whose names fit this expression of pytest.
    #[arg(short = 'k', long, value_name = "EXPRESSION")]
    only: Option<String>,
}

/// The results of the tests.
#[derive(Default)]
struct Tested {
    counts: Counts,
    /// What could not be tested here.
    skipped: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let tested = test(args)?;
    println!("\nthe Python package took {}", minutes(started.elapsed()));
    tested.skipped.iter().for_each(|what| println!("python: SKIPPED {what}"));
    tested.counts.print("python");
    tested.counts.verdict()
}

fn test(args: &Args) -> Result<Tested> {
    let package = root::workspace().join("crates/bindings/b2-python");
    let (base, minor) = newest()?;
    println!("Python 3.{minor}: {}", base.display());
    let mut tested = Tested::default();
    if minor < VERSIONS.0 + 1 {
        tested.skipped.push(format!("Python 3.{} or later is not there", VERSIONS.0 + 1));
    }
    let python = environment(&base, minor, &mut tested.skipped)?;

    let wheels = root::scratch("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut build = Command::new(&python);
    build.args(["-m", "maturin", "build", "--locked", "--out"]).arg(&wheels);
    if args.release {
        build.args(["--profile", "dist"]).args(COMPRESSION);
    } else {
        build.args(["--profile", "dev"]);
    }
    build.arg("--interpreter").arg(&python).arg("--manifest-path").arg(package.join("Cargo.toml"));
    sh::run(build)?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin has made no wheel")??;
    let size = wheel.metadata()?.len();
    println!("wheel: {size} bytes");
    ensure!(!args.release || size < WHEEL, "the wheel has {size} bytes, more than {WHEEL}");
    let mut install = pip(&python);
    install.args(["--force-reinstall", "--no-deps"]).arg(wheel.path());
    sh::run(install)?;

    // Run outside the source folder, which would otherwise be imported instead of the installed package.
    let elsewhere = root::scratch("python");
    fs::create_dir_all(&elsewhere)?;
    let module = |args: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(&elsewhere).arg("-m").args(args);
        command
    };
    let pytests = |args: &[&str]| {
        let mut command = module(&["pytest", "-p", "no:cacheprovider", "-W", "ignore", "-c"]);
        command.arg(package.join("pyproject.toml")).args(args);
        command
    };
    // One process uses little more than one processor.
    let mut tests = pytests(&["-rs", "--numprocesses", "auto"]);
    tests.arg(package.join("tests"));
    if args.full {
        tests.args(["-m", "full or not full"]).env("B2KIT_FULL", "1");
    }
    if let Some(only) = &args.only {
        tests.args(["-k", only]);
    }
    pytest(tests, &elsewhere, &mut tested)?;
    if args.only.is_some() {
        return Ok(tested);
    }
    let has = |modules: &str| {
        let mut probe = Command::new(&python);
        sh::output(probe.current_dir(&elsewhere).args(["-c", &format!("import {modules}")])).is_ok()
    };
    let modules = ["b2kit.zarr", "b2kit.dask", "b2kit.xarray"];
    let missing: Vec<&str> = modules.into_iter().filter(|name| !has(name)).collect();
    let mut examples = pytests(&["-q", "--doctest-modules", "--pyargs", "b2kit"]);
    if !missing.is_empty() {
        examples.arg("--doctest-ignore-import-errors");
    }
    pytest(examples, &elsewhere, &mut tested)?;
    let mut pages = pytests(&["-q", "--doctest-glob=*.md"]);
    for (page, modules) in PAGES {
        match has(modules) {
            true => drop(pages.arg(root::workspace().join(page))),
            false => tested.skipped.push(format!("{page}: {modules} are not there")),
        }
    }
    pytest(pages, &elsewhere, &mut tested)?;
    if missing.is_empty() {
        sh::run(module(&["mypy", "--strict", "-p", "b2kit"]))?;
        sh::run(module(&["mypy.stubtest", "b2kit"]))?;
    } else {
        tested.skipped.push(format!("mypy and stubtest: {} cannot be imported", missing.join(", ")));
    }
    Ok(tested)
}

/// Runs pytest and counts the tests.
fn pytest(mut command: Command, folder: &Path, tested: &mut Tested) -> Result<()> {
    let report = folder.join("report.xml");
    let _ = fs::remove_file(&report);
    command.arg("--junitxml").arg(&report);
    let status = sh::status(&mut command)?;
    let text = fs::read_to_string(&report).context("pytest has told no results")?;
    let suite = text.split("<testsuite ").nth(1).context("pytest has told no results")?;
    let number = |name: &str| -> Result<u64> {
        let value = suite.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok()).with_context(|| format!("pytest has told no {name}"))
    };
    let failed = number("errors")? + number("failures")?;
    let skipped = number("skipped")?;
    let passed = number("tests")?.saturating_sub(failed + skipped);
    ensure!(status.success() || failed > 0, "pytest failed, and told no failed test");
    ensure!(passed + failed > 0, "pytest ran no test");
    tested.counts.add_counts(Counts { passed, failed });
    if skipped > 0 {
        tested.skipped.push(format!("{skipped} tests, whose reasons pytest has told"));
    }
    Ok(())
}

/// Returns where the environment for this version is.
fn folder(minor: u32) -> PathBuf {
    root::scratch(&format!("venv/package-3.{minor}"))
}

/// Returns the environment for this version, with everything that can be installed.
fn environment(base: &Path, minor: u32, skipped: &mut Vec<String>) -> Result<PathBuf> {
    let folder = folder(minor);
    let python = folder.join("bin").join("python");
    if !python.exists() {
        let _ = fs::remove_dir_all(&folder);
        let mut make = Command::new(base);
        make.args(["-m", "venv"]).arg(&folder);
        sh::run(make)?;
    }
    let install = |packages: &[&str]| {
        let mut install = pip(&python);
        install.args(["--only-binary", ":all:"]).args(packages);
        sh::run(install)
    };
    // Try one run of pip instead of eight.
    let peers = PEERS.iter().flat_map(|(peers, _)| *peers);
    if install(&Vec::from_iter(NEEDED.iter().chain(peers).copied())).is_ok() {
        return Ok(python);
    }
    let mut needed = pip(&python);
    needed.args(NEEDED);
    sh::run(needed)?;
    for (peers, what) in PEERS {
        if install(peers).is_err() {
            skipped.push(format!("{what}: {} cannot be installed", peers.join(", ")));
        }
    }
    Ok(python)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// Returns where a Python may be.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let names = (VERSIONS.0..=VERSIONS.1).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let installed = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let installed = installed.or_else(|| Some(std::env::home_dir()?.join(".pyenv")));
    let versions = installed.and_then(|folder| fs::read_dir(folder.join("versions")).ok());
    let versions =
        versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin").join("python"));
    names.chain([PathBuf::from("python3")]).chain(versions)
}

/// Returns the newest Python available, and its minor version.
fn newest() -> Result<(PathBuf, u32)> {
    if let Some(python) = std::env::var_os("B2KIT_PYTHON") {
        let python = PathBuf::from(python);
        let minor = version(&python).with_context(|| format!("{} is no Python 3", python.display()))?;
        ensure!(minor >= VERSIONS.0, "Python 3.{minor} is too old: 3.{} at least", VERSIONS.0);
        return Ok((python, minor));
    }
    let good = candidates()
        .filter_map(|python| Some((version(&python).filter(|minor| *minor >= VERSIONS.0)?, python)));
    let newest = good.max_by_key(|(minor, _)| *minor).map(|(minor, python)| (python, minor));
    newest
        .with_context(|| format!("no Python 3.{} or later is at hand; name one in B2KIT_PYTHON", VERSIONS.0))
}

/// Returns the minor version of an interpreter that has the lock, works and can create environments.
fn version(python: &Path) -> Option<u32> {
    // Those without the lock load other extensions.
    let probe = "import sys, sysconfig, venv; assert not sysconfig.get_config_var('Py_GIL_DISABLED'); \
        print(sys.version_info[0], sys.version_info[1])";
    let text = sh::output(Command::new(python).args(["-c", probe])).ok()?;
    text.trim().strip_prefix("3 ")?.parse().ok()
}
