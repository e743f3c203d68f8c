//! Builds the page: the engine as wasm, and its scripts as one file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::place::folder;
use crate::sh::Counts;
use crate::{root, sh};

/// The largest engine, in bytes with gzip.
const MOST: usize = 650_000;
const TARGET: &str = "wasm32-unknown-unknown";
/// The scripts of the page, in the order in which they need each other.
const SCRIPTS: &[&str] = &["engine.js", "draw.js", "main.js"];
/// What is copied as it is.
const PARTS: &[&str] = &["index.html", "style.css", "worker.js"];

/// Builds the page and returns its folder.
pub(super) fn page() -> Result<PathBuf> {
    sh::output(Command::new("rustup").args(["target", "add", TARGET]))?;
    let wasm = engine()?;
    let size = gzipped(&wasm)?;
    let page = folder("page");
    root::empty(&page)?;
    fs::write(page.join("engine.wasm"), &wasm)?;
    let viewer = root::workspace().join("crates/apps/b2-wasm/viewer");
    let mut script = String::from("\"use strict\";\n(() => {\n");
    for name in SCRIPTS {
        let path = viewer.join(name);
        script += &fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    }
    script += "})();\n";
    fs::write(page.join("page.js"), script)?;
    for name in PARTS {
        root::copy(&viewer.join(name), &page.join(name))?;
    }
    println!("page: {}", page.display());
    println!("engine: {} bytes, {size} with gzip, at most {MOST}", wasm.len());
    ensure!(size <= MOST, "the engine has {size} bytes with gzip, more than {MOST}");
    Ok(page)
}

/// Vectors of 16 bytes, which all browsers have since 2023. The engine decodes only, so encoders are left out of it.
///
/// ruzstd copies 16 bytes at once only where it is told of SSE2 or NEON, otherwise an address, which has 4 bytes here. It
/// needs no instructions for that, and all other crates of the engine ask for NEON on ARM only.
const FLAGS: &str = "-C target-feature=+simd128 --cfg b2kit_decode_only -A explicit_builtin_cfgs_in_flags --cfg \
    target_feature=\"neon\"";
/// Builds the engine.
fn engine() -> Result<Vec<u8>> {
    let target = folder("wasm");
    let words = ["build", "--locked", "-p", "b2-wasm", "--profile", "web", "--target", TARGET];
    let mut cargo = sh::cargo(&words);
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", FLAGS);
    sh::run(cargo)?;
    let path = target.join(TARGET).join("web").join("b2_wasm.wasm");
    fs::read(&path).with_context(|| path.display().to_string())
}

fn gzipped(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

/// Native tests of the engine.
pub(super) fn check() -> Result<Counts> {
    sh::run_tests(sh::cargo(&["test", "--locked", "--no-fail-fast", "-p", "b2-wasm"]))
}

/// Lints of the command with the page inside, and the tests of what it adds.
pub(super) fn command(page: &Path) -> Result<Counts> {
    let page = page.canonicalize()?;
    let with = |words: &[&str]| {
        let mut cargo = sh::cargo(&[words, &["-p", "b2kit-cli", "--features", "web"]].concat());
        cargo.env("B2KIT_WEB_PAGE", &page);
        cargo
    };
    let mut clippy = with(&["clippy", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    let mut tests = with(&["test", "--no-fail-fast", "--lib"]);
    tests.args(["--", "view::web"]);
    sh::run(with(&["build"]))?;
    sh::run_tests(tests)
}

/// The command that [`command`] has built.
pub(super) fn program() -> PathBuf {
    root::target().join("debug").join(format!("b2kit{}", std::env::consts::EXE_SUFFIX))
}

/// Seconds that native code takes to decode a file, on one thread, with the same crates.
pub(super) fn native_speed(file: &Path) -> Result<f64> {
    let words = ["run", "--quiet", "--locked", "--release", "-p", "b2-wasm", "--example", "speed"];
    let mut cargo = sh::cargo(&words);
    cargo.arg("--").arg(file.canonicalize()?);
    sh::output(&mut cargo)?.trim().parse().context("no time")
}
