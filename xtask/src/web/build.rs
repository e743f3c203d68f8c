//! Builds the page: the engine as wasm, and its scripts as one file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// The largest engine, in bytes with gzip.
const MOST: usize = 400_000;
const TARGET: &str = "wasm32-unknown-unknown";
/// The scripts of the page, in the order in which they need each other.
const SCRIPTS: &[&str] = &["engine.js", "draw.js", "main.js"];
/// What is copied as it is.
const PARTS: &[&str] = &["index.html", "style.css", "worker.js"];

fn manifest() -> String {
    root::workspace().join("crates").join("b2-wasm").join("Cargo.toml").display().to_string()
}

/// Builds the page and returns its folder.
pub(super) fn page() -> Result<PathBuf> {
    ensure!(crate::platforms::has_std(TARGET), "rustup cannot add {TARGET}");
    let wasm = engine()?;
    let size = gzipped(&wasm)?;
    println!("engine: {} bytes, {size} with gzip, at most {MOST}", wasm.len());
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
    if std::env::var_os("B2KIT_WEB_ANY_SIZE").is_none() {
        ensure!(size <= MOST, "the engine has {size} bytes with gzip, more than {MOST}");
    }
    Ok(page)
}

fn engine() -> Result<Vec<u8>> {
    let target = folder("wasm");
    let mut cargo =
        sh::cargo(&["build", "--release", "--locked", "--target", TARGET, "--manifest-path", &manifest()]);
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", FLAGS);
    sh::run(cargo)?;
    let path = target.join(TARGET).join("release").join("b2_wasm.wasm");
    fs::read(&path).with_context(|| path.display().to_string())
}

/// Vectors of 16 bytes, which all browsers have since 2023. The engine decodes only, so encoders are left out of it.
const FLAGS: &str = "-C target-feature=+simd128 --cfg b2kit_decode_only";

fn gzipped(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

/// Lints and native tests of the engine.
pub(super) fn check() -> Result<Counts> {
    let of_it = |words: &[&str]| sh::cargo(&[words, &["--manifest-path", &manifest()]].concat());
    sh::run(of_it(&["fmt", "--check"]))?;
    let mut clippy = of_it(&["clippy", "--locked", "--all-targets"]);
    clippy.args(["--", "-D", "warnings"]);
    sh::run(clippy)?;
    sh::run_tests(of_it(&["test", "--locked", "--no-fail-fast"]))
}
