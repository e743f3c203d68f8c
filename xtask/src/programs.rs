//! Runs test programs without cargo, where starting them takes more than that: several at once, and none for ever.
//!
//! A program that finishes no test for a long time is ended, and counts as failed, with the names of the tests that it
//! was at.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::sh::{self, Counts, at_once, lock};
use crate::steps::minutes;

/// A test program that was built.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The package and the test target.
    name: String,
    file: PathBuf,
    /// The folder of the package, in which cargo runs tests.
    folder: PathBuf,
}

/// Where test programs run. Each lane runs one program at a time.
pub(crate) trait Runner: Sync {
    /// Returns the command that runs a program.
    fn command(&self, lane: usize, program: &Path) -> Command;

    /// Ends everything that the last program of a lane has started.
    fn end(&self, lane: usize);
}

/// Builds test programs: `cargo` is a command without what tells it to run nothing.
pub(crate) fn build(mut cargo: Command) -> Result<Vec<Program>> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    println!("\n$ {}", sh::line(&cargo));
    let started = Instant::now();
    let output = cargo.stderr(Stdio::inherit()).output()?;
    sh::finished(started);
    ensure!(output.status.success(), "{} ended with {}", sh::line(&cargo), output.status);
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        programs.extend(program(&serde_json::from_str(line)?));
    }
    // Large ones have many tests. They come first, so that nothing waits for them in the end.
    let size = |program: &Program| program.file.metadata().map_or(0, |metadata| metadata.len());
    programs.sort_by_key(|program| std::cmp::Reverse(size(program)));
    Ok(programs)
}

/// Returns the test program of a message of cargo, if it is about one.
fn program(message: &Value) -> Option<Program> {
    let file = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_string_lossy();
    let (target, kind) = (message["target"]["name"].as_str()?, message["target"]["kind"][0].as_str()?);
    let name = format!("{package}, {kind} {target}");
    Some(Program { name, file: file.into(), folder: folder.to_owned() })
}

/// Runs programs in a number of lanes, each with these arguments, and counts their tests. A program that finishes no test for
/// as long as `patience` is ended.
pub(crate) fn run(
    programs: &[Program],
    args: &[&str],
    runner: &impl Runner,
    lanes: usize,
    patience: Duration,
) -> Result<Counts> {
    let started = Instant::now();
    let (left, all) = (Mutex::new(programs.iter()), Mutex::new((Counts::default(), 0)));
    at_once((0..lanes).map(|lane| {
        let (left, all) = (&left, &all);
        move || {
            while let Some(program) = next(left) {
                let mut command = runner.command(lane, &program.file);
                command.args(args).current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
                let ran =
                    Ran::of(command, patience, || runner.end(lane)).with_context(|| program.name.clone())?;
                let mut all = lock(all);
                ran.print(&program.name);
                all.0.add_counts(ran.counts);
                all.1 += ran.left_out;
            }
            Ok(())
        }
    }))?;
    sh::finished(started);
    let (counts, left_out) = *lock(&all);
    sh::tell_left_out(left_out);
    ensure!(counts.passed + counts.failed > 0, "no test ran");
    Ok(counts)
}

fn next<'a>(left: &Mutex<impl Iterator<Item = &'a Program>>) -> Option<&'a Program> {
    lock(left).next()
}

/// How a program ended.
struct Ran {
    lines: Vec<String>,
    counts: Counts,
    left_out: u64,
    /// What went wrong beside tests that failed.
    faults: Vec<String>,
    time: Duration,
}

impl Ran {
    /// Runs a program to its end, or until it has been silent for too long.
    fn of(mut command: Command, patience: Duration, end: impl Fn()) -> Result<Self> {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no pipe from the program")?;
        let (to, from) = channel();
        let reader = thread::spawn(move || {
            let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
            // Who listens may have given up.
            lines.map(|line| to.send(text(&line))).take_while(Result::is_ok).for_each(drop);
        });
        let (lines, silent) = listen(&from, patience);
        let status = if silent { kill(&mut child, &end)? } else { child.wait()? };
        drop(from);
        // What it has started may hold the pipe: only what was ended is waited for.
        if !silent {
            let _ = reader.join();
        }
        let (counts, left_out) = sh::counts(&lines);
        let mut ran = Self { counts, left_out, faults: Vec::new(), time: started.elapsed(), lines };
        ran.faults.extend(ran.fault(status, silent.then_some(patience)));
        ran.counts.failed += ran.faults.len() as u64;
        Ok(ran)
    }

    /// Returns what went wrong beside tests that failed.
    fn fault(&self, status: ExitStatus, silent: Option<Duration>) -> Option<String> {
        if let Some(patience) = silent {
            let names = unfinished(&self.lines).join(", ");
            return Some(format!(
                "finished no test for {}, and was ended; it was at: {names}",
                minutes(patience)
            ));
        }
        let told = self.lines.iter().any(|line| line.starts_with("test result:"));
        match status.success() || (told && self.counts.failed > 0) {
            true if told => None,
            _ => Some(format!("ended with {status} before it told its results")),
        }
    }

    fn print(&self, name: &str) {
        println!("\n{name} ({})", minutes(self.time));
        self.lines.iter().filter(|line| !line.is_empty()).for_each(|line| println!("{line}"));
        self.faults.iter().for_each(|fault| println!("{name}: FAILED: {fault}"));
    }
}

/// Collects lines until there are no more, or until none has come for a time. A line that a test takes long is none.
fn listen(from: &Receiver<String>, patience: Duration) -> (Vec<String>, bool) {
    let (mut lines, mut last) = (Vec::new(), Instant::now());
    loop {
        match from.recv_timeout(patience.saturating_sub(last.elapsed())) {
            Ok(line) => {
                if !line.contains(SLOW) {
                    last = Instant::now();
                }
                lines.push(line);
            }
            Err(RecvTimeoutError::Timeout) => return (lines, true),
            Err(RecvTimeoutError::Disconnected) => return (lines, false),
        }
    }
}

fn kill(child: &mut Child, end: &impl Fn()) -> Result<ExitStatus> {
    end();
    // It may have ended by that.
    let _ = child.kill();
    Ok(child.wait()?)
}

/// What a test program says of a test after a minute.
const SLOW: &str = " has been running for over ";

/// Returns the tests that were running for long and have not ended.
fn unfinished(lines: &[String]) -> Vec<&str> {
    let mut slow = BTreeSet::new();
    for line in lines {
        let Some(rest) = line.strip_prefix("test ") else { continue };
        match (rest.split_once(SLOW), rest.split_once(" ... ")) {
            (Some((name, _)), _) => slow.insert(name),
            (None, Some((name, _))) => slow.remove(name),
            _ => false,
        };
    }
    slow.into_iter().collect()
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs shell scripts.
    struct Shell;

    impl Runner for Shell {
        fn command(&self, _: usize, program: &Path) -> Command {
            let mut command = Command::new("sh");
            command.arg(program);
            command
        }

        fn end(&self, _: usize) {}
    }

    fn ran(script: &str, patience: Duration) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Ran::of(command, patience, || ()).unwrap()
    }

    const FOR_EVER: Duration = Duration::from_secs(1 << 30);

    #[test]
    fn what_programs_tell_is_counted() {
        let good =
            ran("echo 'running 2 tests'; echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'", FOR_EVER);
        assert_eq!((good.counts.passed, good.counts.failed, good.faults.len()), (2, 0, 0));
        let bad = ran(
            "echo 'running 2 tests'; echo 'test result: FAILED. 1 passed; 1 failed;'; exit 101",
            FOR_EVER,
        );
        assert_eq!((bad.counts.passed, bad.counts.failed, bad.faults.len()), (1, 1, 0));
        for script in [
            "echo 'running 2 tests'; exit 3",
            "echo 'running 2 tests'",
            "exit 1",
            "true",
            "echo 'test result: ok. 2 passed; 0 failed;'; exit 5",
        ] {
            let ended = ran(script, FOR_EVER);
            assert_eq!(ended.counts.failed, 1, "{script}");
            assert!(ended.faults[0].contains("before it told"), "{script}: {:?}", ended.faults);
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let hung = ran("exec sleep 1000000", Duration::from_millis(100));
        assert_eq!((hung.counts.passed, hung.counts.failed), (0, 1));
        assert!(hung.faults[0].contains("was ended"), "{:?}", hung.faults);
    }

    #[test]
    fn tests_that_hang_are_named() {
        let (to, from) = channel();
        for line in [
            "test a ... ok",
            "test b has been running for over 60 seconds",
            "test c has been running for over 60 seconds",
            "test b ... ok",
        ] {
            to.send(line.to_owned()).unwrap();
        }
        let (lines, silent) = listen(&from, Duration::from_millis(1));
        assert!(silent);
        assert_eq!(unfinished(&lines), ["c"]);
        drop(to);
        assert!(!listen(&from, FOR_EVER).1);
    }

    #[test]
    fn all_programs_run_in_all_lanes() {
        let folder = tempfile::tempdir().unwrap();
        let programs: Vec<Program> = (0..7)
            .map(|n| {
                let file = folder.path().join(n.to_string());
                std::fs::write(&file, format!("echo 'test result: ok. {n} passed; 0 failed;'")).unwrap();
                Program { name: n.to_string(), file, folder: folder.path().to_owned() }
            })
            .collect();
        let counts = run(&programs, &[], &Shell, 3, FOR_EVER).unwrap();
        assert_eq!((counts.passed, counts.failed), (21, 0));
        assert!(run(&[], &[], &Shell, 1, FOR_EVER).is_err());
    }

    #[test]
    fn messages_of_cargo_name_test_programs() {
        let message = serde_json::json!({
            "executable": "/t/x-1.exe", "profile": {"test": true}, "manifest_path": "/p/Cargo.toml",
            "target": {"name": "all", "kind": ["test"]},
        });
        assert_eq!(program(&message).unwrap().name, "p, test all");
        let mut other = message.clone();
        other["profile"]["test"] = false.into();
        assert!(program(&other).is_none());
        let mut library = message;
        library["executable"] = Value::Null;
        assert!(program(&library).is_none());
    }
}
