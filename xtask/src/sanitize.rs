//! `cargo xtask sanitize`: the tests under a sanitizer of the nightly compiler.

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{root, sh};

/// Run the tests of all crates under the address sanitizer, which also looks for leaks (or under the thread sanitizer).
///
/// It needs a nightly compiler, which rustup installs: `rustup toolchain install nightly`. For the thread sanitizer the
/// standard library is built anew: `rustup component add rust-src --toolchain nightly`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which one.
    #[arg(long, value_enum, default_value_t = Kind::Address)]
    kind: Kind,
    /// The toolchain.
    #[arg(long, default_value = "nightly")]
    toolchain: String,
    /// What cargo shall test [default: unit and integration tests of all crates but xtask and benches].
    #[arg(last = true)]
    cargo: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Reads and writes outside of what was allocated, use after free, leaks
    Address,
    /// Data races
    Thread,
}

/// Only machines of this kind: a sanitizer must not be applied to build scripts, so the target is named.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Programs in the documentation are left out: rustdoc would need flags of its own, and they test nothing that other
/// tests do not.
const DEFAULT: &[&str] = &[
    "--workspace",
    "--exclude",
    "xtask",
    "--exclude",
    "b2-benches",
    "--lib",
    "--bins",
    "--tests",
    "--no-fail-fast",
];

/// Runs the tests; an error when one failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = Command::new("rustup").args(["run", &args.toolchain, "rustc", "--version"]).output();
    ensure!(
        known.is_ok_and(|known| known.status.success()),
        "rustup has no toolchain {0}; `rustup toolchain install {0}` gets it",
        args.toolchain
    );
    let counts = sh::run_tests(command(args))?;
    println!("\n{:?} sanitizer: {} passed, {} failed", args.kind, counts.passed, counts.failed);
    if counts.failed > 0 {
        bail!("{} failed", counts.failed);
    }
    Ok(())
}

fn command(args: &Args) -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(root::workspace()).args([
        "run",
        &args.toolchain,
        "cargo",
        "test",
        "--target",
        TARGET,
    ]);
    match args.kind {
        Kind::Address => {
            command.env("RUSTFLAGS", "-Zsanitizer=address");
            // Tests ask for more memory than there is, and want to be told.
            command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=1");
        }
        Kind::Thread => {
            // The standard library synchronises, which the sanitizer has to see.
            command.arg("-Zbuild-std").env("RUSTFLAGS", "-Zsanitizer=thread");
            command.env("TSAN_OPTIONS", "allocator_may_return_null=1");
        }
    }
    // The C library of zstd is left out: instrumented by another compiler, it would not fit.
    command.env("CFLAGS", "-fno-sanitize=all");
    // Nothing built otherwise is thrown away, and this is not either.
    command.env("CARGO_TARGET_DIR", root::target().join(format!("sanitize-{:?}", args.kind).to_lowercase()));
    if args.cargo.is_empty() {
        command.args(DEFAULT);
    } else {
        command.args(&args.cargo);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_that_is_not_there_is_named() {
        let args = Args { kind: Kind::Address, toolchain: "no-such-toolchain".into(), cargo: Vec::new() };
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("no-such-toolchain"), "{error}");
    }

    #[test]
    fn every_kind_has_its_flag_and_its_folder() {
        for (kind, flag) in [(Kind::Address, "address"), (Kind::Thread, "thread")] {
            let args = Args { kind, toolchain: "nightly".into(), cargo: vec!["-pb2-codecs".into()] };
            let command = command(&args);
            let value = |name: &str| {
                let (_, value) = command.get_envs().find(|(key, _)| *key == name).unwrap();
                value.unwrap().to_string_lossy().into_owned()
            };
            assert_eq!(value("RUSTFLAGS"), format!("-Zsanitizer={flag}"));
            assert!(value("CARGO_TARGET_DIR").ends_with(&format!("sanitize-{flag}")));
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(words.last().unwrap(), "-pb2-codecs");
            assert!(words.contains(&TARGET.to_owned()));
        }
    }
}
