//! Runs cargo and other commands.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::root;

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
    println!("({} s)", started.elapsed().as_secs());
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

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
