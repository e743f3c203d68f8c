//! Builds the page: the engine as wasm, and its scripts as one file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    ensure!(crate::platforms::has_std(TARGET), "rustup cannot add {TARGET}");
    let small = has_sources();
    let wasm = engine(small)?;
    let size = gzipped(&wasm)?;
    let page = folder("page");
    root::empty(&page)?;
    fs::write(page.join("engine.wasm"), &wasm)?;
    let viewer = root::workspace().join("crates").join("b2-wasm").join("viewer");
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
    if small {
        println!("engine: {} bytes, {size} with gzip, at most {MOST}", wasm.len());
        ensure!(size <= MOST, "the engine has {size} bytes with gzip, more than {MOST}");
    } else {
        println!(
            "engine size: NOT CHECKED: rustup cannot add the sources of the standard library, without which it is larger: \
             {} bytes, {size} with gzip",
            wasm.len()
        );
    }
    Ok(page)
}

/// Whether there are the sources of the standard library, which rustup adds if it can.
fn has_sources() -> bool {
    let there = || {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
        sysroot.is_ok_and(|output| {
            let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file()
        })
    };
    there() || {
        let mut add = Command::new("rustup");
        add.args(["component", "add", "rust-src"]).stdout(Stdio::null()).stderr(Stdio::null());
        add.status().is_ok_and(|status| status.success()) && there()
    }
}

/// Vectors of 16 bytes, which all browsers have since 2023. The engine decodes only, so encoders are left out of it.
///
/// ruzstd copies 16 bytes at once only where it is told of SSE2 or NEON, otherwise an address, which has 4 bytes here. It
/// needs no instructions for that, and all other crates of the engine ask for NEON on ARM only.
const FLAGS: &str = "-C target-feature=+simd128 --cfg b2kit_decode_only -A explicit_builtin_cfgs_in_flags --cfg \
    target_feature=\"neon\"";
/// A panic ends the engine in any case, and the page starts another one; so nothing has to be told of it.
const SMALL: &str = "-Zlocation-detail=none -Zfmt-debug=shallow -Zunstable-options -Cpanic=immediate-abort";

/// Builds the engine. `small`: with a standard library that is built for it, of a fifth fewer bytes. The options for that
/// are not stable, so another compiler may need others.
fn engine(small: bool) -> Result<Vec<u8>> {
    let target = folder("wasm");
    let mut words = vec!["build", "--release", "--locked", "--target", TARGET];
    let mut flags = FLAGS.to_owned();
    if small {
        words.extend(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"]);
        flags = format!("{FLAGS} {SMALL}");
    }
    let mut cargo = sh::cargo_beside("b2-wasm", &words);
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", flags);
    if small {
        cargo.env("RUSTC_BOOTSTRAP", "1");
    }
    sh::run(cargo)?;
    let path = target.join(TARGET).join("release").join("b2_wasm.wasm");
    fs::read(&path).with_context(|| path.display().to_string())
}

fn gzipped(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

/// Lints and native tests of the engine.
pub(super) fn check() -> Result<Counts> {
    let of_it = |words: &[&str]| sh::cargo_beside("b2-wasm", words);
    sh::run(of_it(&["fmt", "--check"]))?;
    let mut clippy = of_it(&["clippy", "--locked", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    sh::run_tests(of_it(&["test", "--locked", "--no-fail-fast"]))
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
    let words = ["run", "--quiet", "--locked", "--profile", "native", "--example", "speed"];
    let mut cargo = sh::cargo_beside("b2-wasm", &words);
    cargo.arg("--").arg(file.canonicalize()?);
    sh::output(&mut cargo)?.trim().parse().context("no time")
}
