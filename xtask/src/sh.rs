//! Runs cargo and other commands, and prints each command.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::root;
use crate::steps::minutes;

/// Returns a cargo command in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root::workspace()).args(args);
    command
}

/// Returns a cargo command that cannot use a C compiler: a build script that asks for one fails. It has its own target
/// folder, so that nothing built with C is reused.
pub(crate) fn cargo_without_c(args: &[&str]) -> Command {
    let mut command = cargo(args);
    for name in ["CC", "CXX", "HOST_CC", "TARGET_CC", "CMAKE"] {
        command.env(name, "/bin/false");
    }
    command.env("CARGO_TARGET_DIR", root::target().join("no-c"));
    command
}

/// Prints and runs a command; returns an error if it fails.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let started = announce(&command);
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    finished(started);
    if !status.success() {
        bail!("{} ended with {status}", line(&command));
    }
    Ok(())
}

/// Prints and runs a command; returns whether it succeeded.
pub(crate) fn status(command: &mut Command) -> Result<bool> {
    let started = announce(command);
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    finished(started);
    Ok(status.success())
}

/// Number of tests that passed and failed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Runs `cargo test` and counts the tests. A command that fails without a failed test, for example because it does not
/// compile, is an error.
pub(crate) fn run_tests(mut command: Command) -> Result<Counts> {
    let started = announce(&command);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("no pipe from cargo")?;
    let (mut counts, mut left_out, mut unfinished) = (Counts::default(), 0, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        counts.add(&line);
        left_out += number(&line, " ignored;") + number(&line, " filtered out;");
        unfinished += program(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    let status = child.wait()?;
    finished(started);
    if left_out > 0 {
        println!("{left_out} tests were left out: ignored, or by name");
    }
    if unfinished > 0 {
        println!("{unfinished} test programs ended before they told their results");
        counts.failed += unfinished.unsigned_abs();
    }
    if !status.success() && counts.failed == 0 {
        bail!("{} ended with {status}", line(&command));
    }
    if counts.passed + counts.failed == 0 {
        bail!("{} ran no test", line(&command));
    }
    Ok(counts)
}

impl Counts {
    /// Adds other counts.
    pub(crate) fn add_counts(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Adds a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        self.passed += number(line, " passed;");
        self.failed += number(line, " failed;");
    }
}

/// Returns 1 for the first line of a test program and -1 for its last one.
fn program(line: &str) -> i64 {
    let first =
        line.strip_prefix("running ").is_some_and(|rest| rest.ends_with(" test") || rest.ends_with(" tests"));
    i64::from(first) - i64::from(line.starts_with("test result:"))
}

/// Returns the number before these words in a line with a test result.
fn number(line: &str, what: &str) -> u64 {
    if !line.trim_start().starts_with("test result:") {
        return 0;
    }
    let before = line.split(what).next().unwrap_or_default();
    before.rsplit([' ', '.']).find(|word| !word.is_empty()).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn announce(command: &Command) -> Instant {
    println!("\n$ {}", line(command));
    Instant::now()
}

fn finished(started: Instant) {
    println!("({})", minutes(started.elapsed()));
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    if command.get_envs().any(|(name, value)| name == "CC" && value.is_some()) {
        words.insert(0, "CC=/bin/false".into());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_summed() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.10s",
        );
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s");
        counts.add("test some::name ... ok");
        assert_eq!((counts.passed, counts.failed), (15, 2));
        let line =
            "test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 13 filtered out; finished in 0.10s";
        assert_eq!((number(line, " ignored;"), number(line, " filtered out;")), (2, 13));
        assert_eq!(number("1 ignored;", " ignored;"), 0);
        let lines = ["running 3 tests", "test some::name ... ok", "running 1 test", line, "running 2 tests"];
        assert_eq!(lines.map(program).iter().sum::<i64>(), 2);
    }
}
