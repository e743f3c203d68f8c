//! `cargo xtask sanitize`: runs the tests under a sanitizer of the nightly compiler, or under valgrind.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::sh::{Counts, Outcome};
use crate::{root, sh};

/// Run the tests of all crates under the address sanitizer, which also looks for leaks; or for data races under the
/// thread sanitizer; or the kernels, for one instruction set after the other, under valgrind.
///
/// The sanitizers need a nightly compiler: `rustup toolchain install nightly`. For the thread sanitizer the standard
/// library is built, too: `rustup component add rust-src --toolchain nightly`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which one.
    #[arg(long, value_enum, default_value_t = Kind::Address)]
    kind: Kind,
    /// The toolchain with sanitizers.
    #[arg(long, default_value = "nightly")]
    toolchain: String,
    /// What `cargo test` shall test [default: unit and integration tests of all crates but xtask and benches; under
    /// valgrind the unit tests of b2-filters and b2-codecs]
    #[arg(last = true)]
    cargo: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Reads and writes outside of what was allocated, use after free, leaks
    Address,
    /// Data races
    Thread,
    /// Also reads of what was never written
    Valgrind,
}

/// The only target on which sanitizers are used here. Naming it keeps build scripts free of sanitizers.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Skips the tests that limit the address space of a program: a sanitizer reserves terabytes of it, and an emulator an
/// arbitrary amount.
pub(crate) const SKIP: &str = "--skip=address_space::";

/// Doctests are left out: rustdoc would need its own flags, and other tests cover the same code.
const ALL: &[&str] = &[
    "--workspace",
    "--exclude=xtask",
    "--exclude=b2-benches",
    "--lib",
    "--bins",
    "--tests",
    "--no-fail-fast",
    "--",
    SKIP,
];

/// The crates with `unsafe` code in registers, which no sanitizer can check.
const KERNELS: &[&str] = &["-pb2-filters", "-pb2-codecs", "--lib", "--", "--test-threads=1"];

/// The instruction sets that valgrind supports, as values of `B2KIT_SIMD`.
const SETS: &[&str] = &["avx2", "sse2", "generic"];

const VALGRIND: &str =
    "valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite";

/// Runs the tests; returns an error if one fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (tool, words, missing) = match args.kind {
        Kind::Valgrind => ("valgrind", vec!["--version"], "valgrind is not installed".to_owned()),
        _ => (
            "rustup",
            vec!["run", &args.toolchain, "rustc", "--version"],
            format!("rustup has no toolchain {0}; `rustup toolchain install {0}` gets it", args.toolchain),
        ),
    };
    let answer = Command::new(tool).args(words).output();
    ensure!(answer.is_ok_and(|answer| answer.status.success()), "{missing}");
    let mut counts = Counts::default();
    for command in commands(args) {
        counts.add_counts(sh::run_tests(command)?);
    }
    println!();
    counts.print(&format!("{:?}", args.kind));
    counts.verdict()
}

/// Looks for data races in the crates with threads and shared state.
pub(crate) fn threads() -> Result<Outcome> {
    let words = [
        "-pb2-core",
        "-pb2-frame",
        "-pb2nd",
        "--lib",
        "--tests",
        "--no-fail-fast",
        "--",
        SKIP,
        "--skip=crash_",
    ];
    nightly(Kind::Thread, &words)
}

/// Looks for wrong addresses and leaks in the crates with kernels.
pub(crate) fn kernels() -> Result<Outcome> {
    nightly(Kind::Address, &["-pb2-filters", "-pb2-codecs", "--lib", "--tests", "--no-fail-fast"])
}

fn nightly(kind: Kind, words: &[&str]) -> Result<Outcome> {
    let toolchain = "nightly".to_owned();
    let answer = Command::new("rustup").args(["run", &toolchain, "rustc", "--version"]).output();
    if !answer.is_ok_and(|answer| answer.status.success()) {
        return Ok(Outcome::NotRun("rustup has no toolchain nightly".into()));
    }
    let args = Args { kind, toolchain, cargo: words.iter().map(|word| (*word).to_owned()).collect() };
    let mut command = sanitized(&args);
    // Everything takes about ten times as long.
    if std::env::var_os("PROPTEST_CASES").is_none() {
        command.env("PROPTEST_CASES", "16");
    }
    Ok(Outcome::Ran(sh::run_tests(command)?))
}

fn commands(args: &Args) -> Vec<Command> {
    match args.kind {
        Kind::Valgrind => SETS.iter().map(|set| under_valgrind(args, set)).collect(),
        _ => vec![sanitized(args)],
    }
}

fn sanitized(args: &Args) -> Command {
    let mut command = Command::new("rustup");
    let words = ["run", &args.toolchain, "cargo", "test", "--target", TARGET];
    command.current_dir(root::workspace()).args(words);
    if args.kind == Kind::Address {
        command.env("RUSTFLAGS", "-Zsanitizer=address");
        // Some tests allocate more memory than there is, and expect an error.
        command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=1");
    } else {
        // The sanitizer must see the synchronization inside the standard library.
        command.arg("-Zbuild-std").env("RUSTFLAGS", "-Zsanitizer=thread");
        command.env("TSAN_OPTIONS", "allocator_may_return_null=1");
    }
    // Leave out the C library of zstd: instrumentation by another compiler would be incompatible.
    command.env("CFLAGS", "-fno-sanitize=all");
    // Use a separate target folder, so that neither this build nor the others are invalidated.
    command.env("CARGO_TARGET_DIR", root::target().join(format!("sanitize-{:?}", args.kind).to_lowercase()));
    with_words(&mut command, args, ALL);
    command
}

fn under_valgrind(args: &Args, set: &str) -> Command {
    let mut command = sh::cargo(&["test"]);
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", VALGRIND).env("B2KIT_SIMD", set);
    // Everything takes about fifty times as long.
    command.env("PROPTEST_CASES", "8");
    with_words(&mut command, args, KERNELS);
    command
}

fn with_words(command: &mut Command, args: &Args, default: &[&str]) {
    if args.cargo.is_empty() {
        command.args(default);
    } else {
        command.args(&args.cargo);
    }
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

    fn words(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    fn value(command: &Command, name: &str) -> String {
        let (_, value) = command.get_envs().find(|(key, _)| *key == name).unwrap();
        value.unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn every_sanitizer_has_its_flag_and_its_folder() {
        for (kind, flag) in [(Kind::Address, "address"), (Kind::Thread, "thread")] {
            let args = Args { kind, toolchain: "nightly".into(), cargo: vec!["-pb2-codecs".into()] };
            let [command] = &commands(&args)[..] else { panic!("one command") };
            assert_eq!(value(command, "RUSTFLAGS"), format!("-Zsanitizer={flag}"));
            assert!(value(command, "CARGO_TARGET_DIR").ends_with(&format!("sanitize-{flag}")));
            assert_eq!(words(command).last().unwrap(), "-pb2-codecs");
            assert!(words(command).contains(&TARGET.to_owned()));
        }
    }

    #[test]
    fn valgrind_sees_every_instruction_set_that_it_knows() {
        let args = Args { kind: Kind::Valgrind, toolchain: "nightly".into(), cargo: Vec::new() };
        let sets: Vec<_> = commands(&args).iter().map(|command| value(command, "B2KIT_SIMD")).collect();
        assert_eq!(sets, SETS);
        assert!(words(&commands(&args)[0]).contains(&"-pb2-filters".to_owned()));
    }
}
