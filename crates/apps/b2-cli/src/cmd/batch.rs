//! `b2kit batch`

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::print::count;
use crate::process::{ClosedPipe, capture, signals};

const EXAMPLES: &str = "\
Examples:
  echo '[\"info\", \"data.b2nd\", \"--json\"]' | b2kit batch

Each line of standard input is a command, as a JSON array of its arguments. Each
is answered by a line {\"rc\": 0, \"out\": N, \"err\": \"...\"} and the N bytes the
command would have put on standard output. rc is its exit code, err its error
message. Blank lines are skipped. The commands cannot read standard input.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Runs a command with the given arguments and returns the exit code and message.
pub(crate) type RunCommand = fn(Vec<String>) -> (u8, String);

pub(crate) fn run(run: RunCommand) -> Result<()> {
    let mut input = io::stdin().lock();
    for answered in 1_u64.. {
        let mut line = Vec::new();
        input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).context("standard input")?;
        if line.is_empty() {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        capture::start();
        let (rc, err) = answer(&line, run);
        let kept = capture::finish();
        let sent = send(rc, &err, kept);
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return Err(ClosedPipe.into());
        }
        sent.context("standard output")?;
        if signals::exit_code().is_some() {
            bail!("stopped after {}, which were answered", count(answered, "command"));
        }
    }
    Ok(())
}

/// Runs one command. Returns the exit code, the captured standard output, and the message.
pub(crate) fn one(line: &[u8], run: RunCommand) -> (u8, Vec<u8>, String) {
    capture::start();
    let (rc, err) = answer(line, run);
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

/// Parses a line and runs its command. Returns the exit code and message.
fn answer(line: &[u8], run: RunCommand) -> (u8, String) {
    match serde_json::from_slice(line) {
        Ok(args) => run(args),
        Err(error) => (2, format!("expected a JSON array of strings: {error}")),
    }
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
