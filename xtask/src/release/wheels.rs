//! Wheels and the source distribution for Python.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::Release;
use super::tools::{self, Tools};
use super::{notices, sums};
use crate::{pythonpkg, root, sh};

/// A wheel that is made here.
struct Wheel {
    target: &'static str,
    /// The tag of the platform, where maturin is to check that the wheel keeps it.
    compatibility: Option<&'static str>,
    /// The interpreter that it is for.
    python: &'static str,
    /// How its name ends.
    tag: &'static str,
}

const fn wheel(
    target: &'static str,
    compatibility: Option<&'static str>,
    python: &'static str,
    tag: &'static str,
) -> Wheel {
    Wheel { target, compatibility, python, tag }
}

/// One wheel per platform for all versions from 3.11 on, and one per version without the interpreter's lock.
const WHEELS: &[Wheel] = &[
    wheel(
        "x86_64-unknown-linux-gnu",
        Some("manylinux_2_28"),
        "python3.11",
        "cp311-abi3-manylinux_2_28_x86_64",
    ),
    wheel(
        "x86_64-unknown-linux-gnu",
        Some("manylinux_2_28"),
        "python3.14t",
        "cp314-cp314t-manylinux_2_28_x86_64",
    ),
    wheel(
        "aarch64-unknown-linux-gnu",
        Some("manylinux_2_28"),
        "python3.11",
        "cp311-abi3-manylinux_2_28_aarch64",
    ),
    wheel(
        "x86_64-unknown-linux-musl",
        Some("musllinux_1_2"),
        "python3.11",
        "cp311-abi3-musllinux_1_2_x86_64",
    ),
    wheel(
        "aarch64-unknown-linux-musl",
        Some("musllinux_1_2"),
        "python3.11",
        "cp311-abi3-musllinux_1_2_aarch64",
    ),
    wheel("x86_64-pc-windows-gnu", None, "python3.11", "cp311-abi3-win_amd64"),
    wheel("aarch64-apple-darwin", None, "python3.11", "cp311-abi3-macosx_11_0_arm64"),
    wheel("x86_64-apple-darwin", None, "python3.11", "cp311-abi3-macosx_10_12_x86_64"),
];

/// No wheel is larger.
const LARGEST: u64 = 5_000_000;

pub(super) fn make(release: &mut Release) -> Result<()> {
    let tools = Tools::install()?;
    // Build tools put notices beside the licences into wheels.
    let notices = release.work.join(notices::OF_PYTHON);
    fs::copy(&notices, release.tree.join("crates/b2-python").join(notices::OF_PYTHON))
        .context("the step `notices` was not run")?;
    let pythons = pythonpkg::all();
    ensure!(!pythons.is_empty(), "no Python 3.11 or later is here");
    for wheel in WHEELS {
        let what = format!("the wheel {}", wheel.tag);
        if !release.wants(wheel.target, &what) {
            continue;
        }
        match build(release, &tools, wheel) {
            Ok(path) => try_wheel(release, &what, &path, wheel, &pythons)?,
            // A wheel of this machine must be made; for other systems something may be missing here.
            Err(e) if wheel.target.contains("linux") && !wheel.python.ends_with('t') => return Err(e),
            Err(e) => {
                release.not_run(&what, &format!("it cannot be built here: {}", tools::end(&format!("{e:#}"))))
            }
        }
    }
    let missing = "there is no such interpreter here";
    release.not_run(
        "a wheel for Python 3.13t",
        "CPython's developers call 3.14 the first supported one without the lock",
    );
    if free_threaded().is_none() {
        release.not_run("eight threads without the interpreter's lock", missing);
    }
    source_distribution(release, &tools, &pythons)
}

/// Builds a wheel; returns its path among the artefacts.
fn build(release: &Release, tools: &Tools, wheel: &Wheel) -> Result<PathBuf> {
    tools::standard_library(wheel.target)?;
    let out = release.work.join("wheels");
    root::empty(&out)?;
    let mut build = Command::new(tools.maturin());
    build.current_dir(release.tree.join("crates").join("b2-python"));
    release.reproducible(&mut build);
    build.env("CARGO_TARGET_DIR", release.work.join("wheels-target"));
    // The component list that maturin adds has a random number and the time in it; ours is an artefact.
    build
        .args(["build", "--quiet", "--release", "--locked", "--zig", "--target", wheel.target, "--out"])
        .arg(&out);
    if let Some(compatibility) = wheel.compatibility {
        build.args(["--compatibility", compatibility]);
    }
    build.args(["--interpreter", wheel.python]);
    tools.of(&mut build)?;
    let output = build.output().context("cannot start maturin")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "maturin build --target {}: {}", wheel.target, said);
    let entry = fs::read_dir(&out)?.next().context("maturin has made no wheel")??;
    let name = tools::name_of(&entry.path());
    ensure!(name == format!("b2kit-{}-{}.whl", release.version, wheel.tag), "maturin has made {name}");
    let size = entry.metadata()?.len();
    ensure!(size < LARGEST, "{name} has {size} bytes, more than {LARGEST}");
    let path = release.artefacts.join(&name);
    fs::copy(entry.path(), &path)?;
    println!("{name}: {size} bytes");
    Ok(path)
}

/// Installs a wheel in new environments, and tries it with each Python that is here.
fn try_wheel(
    release: &mut Release,
    what: &str,
    path: &Path,
    wheel: &Wheel,
    pythons: &[(PathBuf, u32)],
) -> Result<()> {
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    if wheel.target != here || !cfg!(target_env = "gnu") {
        release.not_run(what, "built only: this is another system");
        return Ok(());
    }
    if wheel.python.ends_with('t') {
        match free_threaded() {
            Some(python) => {
                try_in(release, &python, path, &[])?;
                release.tried(format!("{what}: installed and used, with eight threads"));
            }
            None => release.not_run(what, "built only: there is no such interpreter here"),
        }
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for (python, minor) in pythons {
        if seen.insert(*minor) {
            try_in(release, python, path, &[])?;
        }
    }
    let versions: Vec<_> = seen.iter().map(|minor| format!("3.{minor}")).collect();
    release.tried(format!("{what}: installed and used with Python {}", versions.join(", ")));
    Ok(())
}

/// Installs a package in a new environment, uses it, and removes it again.
fn try_in(release: &Release, python: &Path, package: &Path, options: &[&str]) -> Result<()> {
    let folder = release.work.join("venv");
    root::empty(&folder)?;
    let clean = |program: &Path| {
        let mut command = Command::new(program);
        command
            .current_dir(&folder)
            .env_remove("PYTHONPATH")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS");
        command
    };
    sh::output(clean(python).args(["-m", "venv", "env"]))?;
    let own = folder.join("env").join("bin").join("python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    sh::run({
        let mut install = clean(&own);
        install.args(pip).args(options).arg(package);
        install
    })?;
    let mut try_it = clean(&own);
    try_it.arg(release.tree.join("packaging/python/try_package.py")).arg(&release.version);
    sh::run(try_it)?;
    sh::output(clean(&own).args(["-m", "pip", "uninstall", "--quiet", "--yes", "b2kit"]))?;
    let gone = !tools::works(clean(&own).args(["-c", "import b2kit"]));
    ensure!(gone && !folder.join("env/bin/b2kit").exists(), "pip uninstall has left b2kit there");
    Ok(())
}

/// Makes the source distribution, and builds and installs the package from it alone.
fn source_distribution(release: &mut Release, tools: &Tools, pythons: &[(PathBuf, u32)]) -> Result<()> {
    let out = release.work.join("sdist");
    root::empty(&out)?;
    let mut make = Command::new(tools.maturin());
    make.current_dir(release.tree.join("crates").join("b2-python")).args(["sdist", "--out"]).arg(&out);
    release.reproducible(&mut make);
    tools.of(&mut make)?;
    sh::run(make)?;
    let name = format!("b2kit-{}.tar.gz", release.version);
    let made = out.join(&name);
    ensure!(made.is_file(), "maturin has made no {name}");
    let path = release.artefacts.join(&name);
    fs::copy(made, &path)?;
    let unpacked = release.work.join("sdist-unpacked");
    root::empty(&unpacked)?;
    sums::unpack(&path, &unpacked)?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        let found = [unpacked.join(file), unpacked.join("crates/b2-python").join(file)];
        ensure!(found.iter().any(|path| path.is_file()), "the source distribution lacks {file}");
    }
    let (python, minor) = pythons.last().context("no Python is here")?;
    // pip brings maturin; Rust and a C compiler are those of this machine.
    try_in(release, python, &path, &["--no-binary", "b2kit"])?;
    release
        .tried(format!("the source distribution: built in an empty environment, used with Python 3.{minor}"));
    Ok(())
}

/// Returns an interpreter without the lock.
fn free_threaded() -> Option<PathBuf> {
    tools::program("python3.14t")
}
