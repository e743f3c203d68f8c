//! Redirects standard output and input for commands that run in a batch.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use tempfile::SpooledTempFile;

/// Captured output is kept in memory up to this many bytes; more goes to an unnamed temporary file.
const IN_MEMORY: usize = 16 << 20;

static OUTPUT: Mutex<Option<SpooledTempFile>> = Mutex::new(None);

fn output<T>(act: impl FnOnce(&mut Option<SpooledTempFile>) -> T) -> T {
    act(&mut OUTPUT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Starts capturing standard output.
pub(crate) fn start() {
    output(|output| *output = Some(SpooledTempFile::new(IN_MEMORY)));
}

/// Stops capturing and returns the output since [`start`].
pub(crate) fn finish() -> Option<SpooledTempFile> {
    output(Option::take)
}

/// Whether standard output is being captured.
pub(crate) fn is_active() -> bool {
    output(|output| output.is_some())
}

/// Appends to the captured output.
pub(crate) fn write(bytes: &[u8]) -> io::Result<usize> {
    output(|output| output.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes))
}

/// Checks that standard input may be read. In a batch it holds the commands.
///
/// # Errors
/// Fails in a batch.
pub(crate) fn check_stdin() -> Result<()> {
    ensure!(!is_active(), "standard input holds the commands of the batch");
    Ok(())
}

/// Appends all of `bytes` to the captured output.
pub(crate) fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = write(bytes)?;
        bytes = bytes.get(n..).unwrap_or_default();
    }
    Ok(())
}
