//! Checks that need other toolchains: the oldest supported Rust, and Miri.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::sh::{Counts, Outcome};
use crate::{root, sh};

/// What runs under Miri: each module with `unsafe` code that needs no system calls, with the smallest possible cases.
/// Miri is about a thousand times slower than the processor.
const MIRI: &[&[&str]] = &[
    &["-p=b2-filters", "--lib", "--", "kernels::tests::small_"],
    &["-p=b2-codecs", "--no-default-features", "--lib", "--", "tests::small_"],
    &["-p=b2-frame", "--no-default-features", "--lib", "--", "read::disjoint::"],
    &["--manifest-path=crates/b2-c/Cargo.toml", "--", "ffi::small::", "ffi::exclusive::"],
    &["--manifest-path=crates/b2-hdf5-plugin/Cargo.toml", "--lib", "--", "ffi::small::"],
];

/// What else Miri can run: reads that fill buffers through the promises of `read/disjoint.rs`. It cannot run system calls
/// (`writeback.rs`, `mmap.rs`, `windows.rs`), what looks into loaded libraries (the plugin's `lookup.rs`) and AVX-512.
const MIRI_REST: &[&[&str]] = &[
    &["-p=b2-frame", "--no-default-features", "--test=all", "--", "reads::small_"],
    &["-p=b2nd", "--no-default-features", "--test=all", "--", "selections::small_"],
];

/// The kernels for other processors: the target, and its instruction sets.
const MIRI_KERNELS: &[(&str, &str)] =
    &[("x86_64-unknown-linux-gnu", ""), ("aarch64-unknown-linux-gnu", ""), ("s390x-unknown-linux-gnu", "")];

/// Miri does not detect the processor, so the instruction sets are set at compile time.
const MIRI_SETS: &str = "-Ctarget-feature=+avx2,+bmi1,+bmi2";

/// Builds the library crates and the command with the oldest Rust version that Cargo.toml promises. Returns the
/// version.
pub(crate) fn minimum_rust() -> Result<Outcome<String>> {
    let manifest = std::fs::read_to_string(root::workspace().join("Cargo.toml"))?;
    let version = minimum(&manifest).context("Cargo.toml: no rust-version")?;
    let install = ["toolchain", "install", &version, "--profile", "minimal"];
    if !succeeds(&["run", &version, "cargo", "--version"]) && !succeeds(&install) {
        return Ok(Outcome::NotRun(format!("rustup cannot install Rust {version}")));
    }
    let mut check = rustup(&["run", &version, "cargo", "check", "--locked", "--workspace"]);
    check.args(["--exclude=xtask", "--exclude=b2-benches", "--all-features"]);
    check.env("CARGO_TARGET_DIR", root::target().join("minimum-rust"));
    sh::run(check)?;
    Ok(Outcome::Ran(version))
}

/// Runs the small cases of the unsafe modules under Miri.
pub(crate) fn miri() -> Result<Outcome> {
    let commands: Vec<_> = MIRI.iter().map(|words| (*words, None, MIRI_SETS)).collect();
    run_miri(&commands)
}

/// Runs the same, reads of frames and arrays, and the filters and codecs also without vectors, for NEON, and for a
/// big-endian processor.
pub(crate) fn miri_all() -> Result<Outcome> {
    let here = MIRI.iter().chain(MIRI_REST).map(|words| (*words, None, MIRI_SETS));
    let others = MIRI_KERNELS
        .iter()
        .flat_map(|(target, sets)| MIRI.iter().take(2).map(move |words| (*words, Some(*target), *sets)));
    run_miri(&here.chain(others).collect::<Vec<_>>())
}

/// Runs tests under Miri: what, the target if it is not this machine, and compiler flags.
fn run_miri(commands: &[(&[&str], Option<&str>, &str)]) -> Result<Outcome> {
    let there = || succeeds(&["run", "nightly", "cargo", "miri", "--version"]);
    if !there() {
        let _ = succeeds(&["toolchain", "install", "nightly", "--profile", "minimal"]);
        let _ = succeeds(&["component", "add", "miri", "rust-src", "--toolchain", "nightly"]);
        if !there() {
            return Ok(Outcome::NotRun("rustup cannot install nightly Rust with Miri".into()));
        }
    }
    let mut counts = Counts::default();
    for (words, target, flags) in commands {
        let mut command = rustup(&["run", "nightly", "cargo", "miri", "test", "--locked"]);
        if let Some(target) = target {
            command.args(["--target", *target]);
        }
        command.args(*words).env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", root::target().join("miri"));
        counts.add_counts(sh::run_tests(command)?);
    }
    ensure!(counts.passed + counts.failed > 0, "Miri ran no test");
    Ok(Outcome::Ran(counts))
}

fn rustup(words: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(root::workspace()).args(words);
    command
}

fn succeeds(words: &[&str]) -> bool {
    let status = rustup(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Returns the oldest Rust version that a manifest promises to support.
pub(crate) fn minimum(manifest: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let shared = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let package = shared.or_else(|| manifest.get("package"))?;
    Some(package.get("rust-version")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rust_is_that_of_the_manifest() {
        assert_eq!(minimum("[workspace.package]\nrust-version = \"1.2\"").as_deref(), Some("1.2"));
        assert_eq!(minimum("[workspace.package]\nversion = \"1.2\""), None);
    }
}
