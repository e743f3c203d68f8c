//! `b2kit batch`

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Value, json};

use crate::args::{Cli, Command};
use crate::error::{ClosedPipe, outcome};
use crate::{capture, run as run_command};

const EXAMPLES: &str = "\
Examples:
  echo '[\"info\", \"data.b2nd\", \"--json\"]' | b2kit batch

Each line of standard input is a command, as a JSON array of its arguments. Each
is answered by a line {\"rc\": 0, \"out\": N, \"err\": \"...\"} and the N bytes the
command would have put on standard output. rc is its exit code, err what is
wrong. Blank lines are skipped. The commands cannot read standard input.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// Longest line, in bytes.
const MAX_LINE: u64 = 16 << 20;

pub(crate) fn run() -> Result<()> {
    let mut input = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).context("standard input")?;
        if line.is_empty() {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        capture::start();
        let (rc, err) = answer(&line);
        let kept = capture::finish();
        let sent = send(rc, &err, kept);
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return Err(ClosedPipe.into());
        }
        sent.context("standard output")?;
    }
}

/// Runs one command: exit code, what it would have put on standard output, and message.
pub(crate) fn one(line: &[u8]) -> (u8, Vec<u8>, String) {
    capture::start();
    let (rc, err) = answer(line);
    let mut out = Vec::new();
    let read = capture::finish().map_or(Ok(0), |mut kept| {
        kept.rewind()?;
        kept.read_to_end(&mut out)
    });
    match read {
        Ok(_) => (rc, out, err),
        Err(error) => (1, out, error.to_string()),
    }
}

/// Runs one command. Exit code and message.
fn answer(line: &[u8]) -> (u8, String) {
    let args: Vec<String> = match serde_json::from_slice(line) {
        Ok(args) => args,
        Err(error) => return (2, format!("expected a JSON array of strings: {error}")),
    };
    let cli = match Cli::try_parse_from(std::iter::once("b2kit".to_owned()).chain(args)) {
        Ok(cli) => cli,
        // Help and version are no errors, and go to standard output.
        Err(error) if !error.use_stderr() => {
            return match write_all(error.to_string().as_bytes()) {
                Ok(()) => (0, String::new()),
                Err(error) => (1, error.to_string()),
            };
        }
        Err(error) => return (2, error.to_string().trim_end().to_owned()),
    };
    if matches!(cli.command, Command::Batch(_)) {
        return (2, "a batch cannot hold another one".into());
    }
    if matches!(cli.command, Command::Bench(_)) {
        return (2, "a batch cannot measure".into());
    }
    if cli.global.threads.is_some() {
        return (2, "--threads: only for the batch as a whole".into());
    }
    let (rc, message) = outcome(&run_command(&cli));
    (rc, message.unwrap_or_default())
}

fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = capture::write(bytes)?;
        bytes = bytes.get(n..).unwrap_or_default();
    }
    Ok(())
}

fn send(rc: u8, err: &str, kept: Option<impl Read + Seek>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let mut head = |len: u64| -> io::Result<()> {
        let head: Value = json!({"rc": rc, "out": len, "err": err});
        writeln!(stdout, "{head}")
    };
    match kept {
        None => head(0)?,
        Some(mut kept) => {
            head(kept.seek(SeekFrom::End(0))?)?;
            kept.rewind()?;
            io::copy(&mut kept, &mut stdout)?;
        }
    }
    stdout.flush()
}
