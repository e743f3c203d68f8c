//! Whether the crates compile for other platforms, on most of which nothing can be run here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::sh::Outcome;
use crate::{python, root, sh};

/// A platform, and what compiles for it without a C compiler.
struct Platform {
    target: &'static str,
    crates: &'static [&'static str],
    /// What CI compiles.
    sample: &'static [&'static str],
}

const LIBRARY: &[&str] = &["-p=b2kit"];
/// With everything that touches files and terminals.
const COMMAND: &[&str] = &["-p=b2kit", "-p=b2kit-cli"];

const PLATFORMS: &[Platform] = &[
    Platform { target: "aarch64-apple-darwin", crates: COMMAND, sample: COMMAND },
    Platform { target: "x86_64-apple-darwin", crates: COMMAND, sample: LIBRARY },
    Platform { target: "aarch64-pc-windows-msvc", crates: COMMAND, sample: LIBRARY },
    Platform { target: "x86_64-pc-windows-gnu", crates: COMMAND, sample: COMMAND },
    Platform { target: "i686-unknown-linux-gnu", crates: COMMAND, sample: LIBRARY },
    Platform { target: "s390x-unknown-linux-gnu", crates: COMMAND, sample: LIBRARY },
    Platform { target: "wasm32-unknown-unknown", crates: LIBRARY, sample: LIBRARY },
];

/// Codecs without C. TLS needs it, so `http` is left out.
const PURE: &[&str] = &["--no-default-features", "--features", "zstd-rs,miniz_oxide"];

/// Zig compiles C for macOS without its development kit.
const ZIG: &[&str] = &["ziglang==0.13.0"];

/// Checks all platforms without C. Returns how many compile; the others are named on the way.
pub(crate) fn check() -> Result<Outcome> {
    compile(|platform| platform.crates)
}

/// Checks the library for all platforms, and the command for two of them.
pub(crate) fn sample() -> Result<Outcome> {
    compile(|platform| platform.sample)
}

fn compile(crates: fn(&Platform) -> &'static [&'static str]) -> Result<Outcome> {
    let mut counts = sh::Counts::default();
    let mut absent = Vec::new();
    for platform in PLATFORMS {
        if !has_std(platform.target) {
            println!("{}: NOT CHECKED: rustup cannot add this target", platform.target);
            absent.push(platform.target);
            continue;
        }
        let words = [&["check", "--locked", "--target", platform.target], crates(platform), PURE].concat();
        let mut cargo = sh::cargo_without_c(&words);
        cargo.env("CARGO_TARGET_DIR", folder());
        count(&mut counts, platform.target, sh::run(cargo));
    }
    if counts.passed + counts.failed == 0 {
        return Ok(Outcome::NotRun(format!("no target of {}", absent.join(", "))));
    }
    Ok(Outcome::Ran(counts))
}

/// Checks macOS with the default features, of which zstd and TLS are C.
pub(crate) fn macos_with_c() -> Result<Outcome> {
    let python = match python::environment(ZIG) {
        Ok(python) => python,
        Err(error) => return Ok(Outcome::NotRun(format!("no zig: {error:#}"))),
    };
    let mut counts = sh::Counts::default();
    for (target, zig) in [("aarch64-apple-darwin", "aarch64-macos"), ("x86_64-apple-darwin", "x86_64-macos")]
    {
        if !has_std(target) {
            return Ok(Outcome::NotRun(format!("rustup cannot add {target}")));
        }
        let compiler = compiler(&python, zig)?;
        let mut cargo = sh::cargo(&["check", "--locked", "--target", target, "-p=b2kit", "-p=b2kit-cli"]);
        let name = target.replace('-', "_");
        cargo.env(format!("CC_{name}"), &compiler).env("CARGO_TARGET_DIR", folder());
        // The flags that the crate `cc` adds for Apple's compiler mean nothing to zig.
        cargo.env(format!("AR_{name}"), "ar").env("CRATE_CC_NO_DEFAULTS", "1");
        count(&mut counts, target, sh::run(cargo));
    }
    Ok(Outcome::Ran(counts))
}

/// Writes a script that calls zig as a C compiler for one platform.
fn compiler(python: &Path, zig: &str) -> Result<PathBuf> {
    let script = root::scratch(&format!("zig-cc-{zig}"));
    let text = format!("#!/bin/sh\nexec '{}' -m ziglang cc -target {zig} \"$@\"\n", python.display());
    std::fs::write(&script, text)?;
    let mut executable = Command::new("chmod");
    executable.arg("+x").arg(&script);
    sh::output(&mut executable)?;
    Ok(std::path::absolute(script)?)
}

fn count(counts: &mut sh::Counts, target: &str, result: Result<()>) {
    match result {
        Ok(()) => counts.passed += 1,
        Err(error) => {
            println!("{target}: FAILED: {error:#}");
            counts.failed += 1;
        }
    }
}

fn folder() -> PathBuf {
    root::target().join("platforms")
}

/// Whether there is a standard library for the target, which rustup adds if it can.
pub(crate) fn has_std(target: &str) -> bool {
    let there = || {
        let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
        output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
    };
    there() || {
        let add = Command::new("rustup")
            .args(["target", "add", target])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        add.is_ok_and(|status| status.success()) && there()
    }
}
