//! Wheels and the source distribution for Python.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::emulated::{self, Machine};
use super::place::Release;
use super::tools::{self, LANES, Tools};
use super::{notices, sums};
use crate::steps::minutes;
use crate::{pythonpkg, root, sh};

/// A platform that wheels are made for.
struct Platform {
    target: &'static str,
    /// The tag of the platform, where maturin is to check that the wheel keeps it.
    compatibility: Option<&'static str>,
    /// How the names of its wheels end.
    tag: &'static str,
    /// Which lane builds them; that of this machine's has two.
    lane: usize,
}

const PLATFORMS: &[Platform] = &[
    Platform {
        target: "x86_64-unknown-linux-gnu",
        compatibility: Some("manylinux_2_28"),
        tag: "manylinux_2_28_x86_64",
        lane: 0,
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        compatibility: Some("manylinux_2_28"),
        tag: "manylinux_2_28_aarch64",
        lane: 1,
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        compatibility: Some("musllinux_1_2"),
        tag: "musllinux_1_2_x86_64",
        lane: 0,
    },
    Platform {
        target: "aarch64-unknown-linux-musl",
        compatibility: Some("musllinux_1_2"),
        tag: "musllinux_1_2_aarch64",
        lane: 1,
    },
    Platform { target: "x86_64-pc-windows-gnu", compatibility: None, tag: "win_amd64", lane: 1 },
    Platform { target: "aarch64-apple-darwin", compatibility: None, tag: "macosx_11_0_arm64", lane: 1 },
    Platform { target: "x86_64-apple-darwin", compatibility: None, tag: "macosx_10_12_x86_64", lane: 0 },
];

/// What wheels are for: an interpreter, and its tag. One wheel is for all versions from 3.11 on; each version without the
/// interpreter's lock needs its own. PyO3 has given up 3.13 without it.
pub(super) const PYTHONS: &[(&str, &str)] = &[("python3.11", "cp311-abi3"), ("python3.14t", "cp314-cp314t")];

/// What is compiled from the sources for a trial need not be small and fast: without this it takes three times as long. The
/// wheels show what full optimization makes of the same sources.
const HASTE: &[(&str, &str)] =
    &[("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];

/// No wheel is larger.
const LARGEST: u64 = 15_000_000;

pub(super) fn make(release: &mut Release) -> Result<()> {
    let tools = Tools::install()?;
    // Build tools put notices beside the licences into wheels. The list of components is put there by name.
    for file in [notices::OF_PYTHON, notices::SBOM_OF_PYTHON] {
        fs::copy(release.work.join(file), release.tree.join("crates/b2-python").join(file))
            .context("the step `notices` was not run")?;
    }
    let pythons = pythonpkg::all();
    ensure!(!pythons.is_empty(), "no Python 3.11 or later is here");
    let mut wanted = Vec::new();
    for platform in PLATFORMS {
        if !release.wants(platform.target, &format!("the wheels for {}", platform.tag)) {
            continue;
        }
        match tools::lacks(platform.target) {
            None => {
                let here = platform.target == format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
                for (python, tag) in PYTHONS {
                    if here || release.every_wheel || !python.ends_with('t') {
                        wanted.push((platform, *python, *tag));
                    } else {
                        let name = name(release, platform, tag);
                        release.left(&name, "not built", "--every-wheel builds it");
                    }
                }
            }
            Some(why) => {
                for (_, tag) in PYTHONS {
                    release.left(&name(release, platform, tag), "not built", &why);
                }
            }
        }
    }
    let (here, tools, all) = (&*release, &tools, &wanted);
    let work = |lane: usize| -> Result<Vec<(String, String)>> {
        let mut failed = Vec::new();
        for (platform, python, tag) in all.iter().filter(|(platform, ..)| platform.lane % LANES == lane) {
            match build(here, tools, platform, python, tag) {
                Ok(()) => {}
                // For other systems something may be missing here that we do not know of.
                Err(e) if !platform.target.contains("linux") => {
                    println!("{e:#}");
                    failed.push((name(here, platform, tag), tools::end(&format!("{e:#}"))));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(failed)
    };
    let lanes = (0..LANES).map(|lane| move || work(lane));
    let failed: BTreeMap<_, _> = sh::at_once(lanes)?.into_iter().flatten().collect();
    for (platform, python, tag) in &wanted {
        let name = name(release, platform, tag);
        release.made(&name);
        if let Some(why) = failed.get(&name) {
            release.left(&name, "not built", &format!("it cannot be built here: {why}"));
            continue;
        }
        try_wheel(release, &name, platform, python, &pythons)?;
    }
    source_distribution(release, tools, &pythons)
}

/// The name of a wheel.
fn name(release: &Release, platform: &Platform, tag: &str) -> String {
    format!("b2kit-{}-{tag}-{}.whl", release.version, platform.tag)
}

/// Builds a wheel, and puts it among the artefacts.
fn build(release: &Release, tools: &Tools, platform: &Platform, python: &str, tag: &str) -> Result<()> {
    let (began, target) = (Instant::now(), platform.target);
    let out = release.work.join("wheels").join(target);
    root::empty(&out)?;
    let mut build = Command::new(tools.maturin());
    build.current_dir(release.tree.join("crates").join("b2-python"));
    release.reproducible(&mut build);
    build.env("CARGO_TARGET_DIR", release.work.join("wheels-target").join(platform.lane.to_string()));
    build.args(["build", "--quiet", "--release", "--locked", "--target", target, "--out"]).arg(&out);
    build.args(pythonpkg::COMPRESSION).args(["--sbom-include", notices::SBOM_OF_PYTHON]);
    // For Windows MinGW is there, and zig cannot link Rust's standard library.
    if !target.contains("windows") {
        build.arg("--zig");
    }
    if let Some(compatibility) = platform.compatibility {
        build.args(["--compatibility", compatibility]);
    }
    build.args(["--interpreter", python]);
    // For other systems maturin would take an interpreter without a lock for the one that is meant, if there is one here.
    if !target.starts_with(std::env::consts::ARCH) || !target.ends_with("linux-gnu") {
        build.env("PYO3_CROSS_PYTHON_VERSION", python.trim_start_matches("python"));
    }
    tools.of(&mut build)?;
    let output = build.output().context("cannot start maturin")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "maturin build --target {target}: {said}");
    let entry = fs::read_dir(&out)?.next().context("maturin has made no wheel")??;
    let (made, name) = (tools::name_of(&entry.path()), name(release, platform, tag));
    ensure!(made == name, "maturin has made {made} and not {name}");
    let size = entry.metadata()?.len();
    ensure!(size < LARGEST, "{name} has {size} bytes, more than {LARGEST}");
    fs::copy(entry.path(), release.artefacts.join(&name))?;
    println!("{name}: {size} bytes, built in {}", minutes(began.elapsed()));
    Ok(())
}

/// Installs a wheel in new environments, and tries it with each Python that is here.
fn try_wheel(
    release: &mut Release,
    name: &str,
    platform: &Platform,
    python: &str,
    pythons: &[(PathBuf, u32)],
) -> Result<()> {
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = release.artefacts.join(name);
    if platform.target != here || !cfg!(target_env = "gnu") {
        let debian = platform.target == format!("{}-unknown-linux-gnu", emulated::ARCH.0);
        if debian && python == "python3.11" {
            let (here, _) = pythons.last().context("no Python is here")?;
            match Machine::new()? {
                Ok(machine) => {
                    let said = machine.try_wheel(release, here, &path)?;
                    release.ran(name, &format!("installed, used under QEMU with Python 3.11: {said}"));
                }
                Err(why) => release.left(name, "built only", &why),
            }
            return Ok(());
        }
        release.left(name, "built only", "no Python of that system is here");
        return Ok(());
    }
    if python.ends_with('t') {
        match tools::program(python) {
            Some(python) => {
                let said = try_in(release, &python, &path, &[], &[])?;
                ensure!(said.contains("lock is off"), "{name} switches the interpreter's lock on");
                release.ran(name, &format!("installed, upgraded, used, removed here: {said}"));
            }
            None => release.left(name, "built only", &format!("there is no {python} here")),
        }
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for (python, minor) in pythons {
        if seen.insert(*minor) {
            try_in(release, python, &path, &[], &[])?;
        }
    }
    let versions: Vec<_> = seen.iter().map(|minor| format!("3.{minor}")).collect();
    release
        .ran(name, &format!("installed, upgraded, used, removed here with Python {}", versions.join(", ")));
    Ok(())
}

/// Installs a package in a new environment, with these options of pip and settings, a wheel over an older one; uses it, and removes
/// it again. Returns what the threads of the trial said.
fn try_in(
    release: &Release,
    python: &Path,
    package: &Path,
    options: &[&str],
    settings: &[(&str, &str)],
) -> Result<String> {
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
    let scripts = release.tree.join("packaging/python");
    if package.extension().is_some_and(|end| end == "whl") {
        let older = sh::output(clean(&own).arg(scripts.join("older.py")).arg(package).arg(&folder))?;
        sh::run({
            let mut install = clean(&own);
            install.args(pip).arg(older.trim());
            install
        })?;
    }
    sh::run({
        let mut install = clean(&own);
        install.args(pip).arg("--upgrade").args(options).arg(package).envs(settings.iter().copied());
        install
    })?;
    let mut try_it = clean(&own);
    try_it.arg(scripts.join("try_package.py")).arg(&release.version);
    if package.extension().is_some_and(|end| end == "whl") {
        try_it.arg("--released");
    }
    let said = sh::output(&mut try_it)?;
    print!("{said}");
    sh::output(clean(&own).args(["-m", "pip", "uninstall", "--quiet", "--yes", "b2kit"]))?;
    let gone = !tools::works(clean(&own).args(["-c", "import b2kit"]));
    ensure!(gone && !folder.join("env/bin/b2kit").exists(), "pip uninstall has left b2kit there");
    Ok(said.lines().next().unwrap_or_default().to_owned())
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
    release.made(&name);
    let unpacked = release.work.join("sdist-unpacked");
    root::empty(&unpacked)?;
    sums::unpack(&path, &unpacked)?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        let found = [unpacked.join(file), unpacked.join("crates/b2-python").join(file)];
        ensure!(found.iter().any(|path| path.is_file()), "the source distribution lacks {file}");
    }
    let (python, minor) = pythons.last().context("no Python is here")?;
    // pip brings maturin; Rust and a C compiler are those of this machine.
    try_in(release, python, &path, &["--no-binary", "b2kit"], HASTE)?;
    release.ran(&name, &format!("built in an empty environment and used here with Python 3.{minor}"));
    Ok(())
}
