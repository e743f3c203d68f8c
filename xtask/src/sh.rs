//! Runs cargo and other commands, and prints each command.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::root;
use crate::steps::minutes;

/// Returns a cargo command in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root::workspace()).args(args);
    command
}

/// Prints and runs a command; returns an error if it fails.
pub(crate) fn run(mut command: Command) -> Result<()> {
    println!("\n$ {}", line(&command));
    let started = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    finished(started);
    ensure!(status.success(), "{} ended with {status}", line(&command));
    Ok(())
}

/// Runs a command without printing it and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", line(command), output.status, stderr.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a script that prints lines of JSON.
pub(crate) fn json_lines(command: &mut Command) -> Result<Vec<Value>> {
    output(command)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Number of tests that passed and failed.
#[derive(Clone, Copy, Default)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Runs `cargo test` and counts the tests. A command that fails without a failed test, for example because it does not
/// compile, is an error.
pub(crate) fn run_tests(mut command: Command) -> Result<TestCounts> {
    println!("\n$ {}", line(&command));
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("no pipe from cargo")?;
    let (mut counts, mut others, mut unfinished) = (TestCounts::default(), 0, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        counts.add(&line);
        others += skipped(&line);
        unfinished += program(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    let status = child.wait()?;
    finished(started);
    print_skipped(others);
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

/// Runs `cargo nextest run` and counts the tests.
pub(crate) fn run_nextest(mut command: Command) -> Result<TestCounts> {
    println!("\n$ {}", line(&command));
    let started = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take().context("no pipe from cargo")?;
    let mut counts = TestCounts::default();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        if line.trim_start().starts_with("Summary [") {
            let before = |what: &str| line.split_once(what)?.0.rsplit(' ').next()?.parse::<u64>().ok();
            let sum = |words: &[&str]| words.iter().filter_map(|word| before(word)).sum();
            counts = TestCounts {
                passed: sum(&[" passed"]),
                failed: sum(&[" failed", " timed out", " exec failed"]),
            };
        }
        eprintln!("{line}");
    }
    let status = child.wait()?;
    finished(started);
    ensure!(status.success() || counts.failed > 0, "{} ended with {status}", line(&command));
    ensure!(counts.passed + counts.failed > 0, "{} ran no test", line(&command));
    Ok(counts)
}

/// Says how many tests were left out.
fn print_skipped(number: u64) {
    if number > 0 {
        println!("{number} tests were left out: ignored, or by name");
    }
}

fn skipped(line: &str) -> u64 {
    number(line, " ignored;") + number(line, " filtered out;")
}

impl TestCounts {
    /// Prints the final line of a check.
    pub(crate) fn print(&self, what: &str) {
        println!("{what}: {} passed, {} failed", self.passed, self.failed);
    }

    /// Returns an error if anything failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        match self.failed {
            0 => Ok(()),
            n => bail!("{n} failed"),
        }
    }

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

fn finished(started: Instant) {
    println!("({})", minutes(started.elapsed()));
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_summed() {
        let mut counts = TestCounts::default();
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
