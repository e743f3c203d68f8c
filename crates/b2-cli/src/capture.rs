//! Standard output and standard input of a command that runs in a batch.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use tempfile::SpooledTempFile;

/// Bytes that are kept in memory; more go to a nameless file.
const IN_MEMORY: usize = 16 << 20;

static OUTPUT: Mutex<Option<SpooledTempFile>> = Mutex::new(None);

fn output<T>(act: impl FnOnce(&mut Option<SpooledTempFile>) -> T) -> T {
    act(&mut OUTPUT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From now on standard output is kept.
pub(crate) fn start() {
    output(|output| *output = Some(SpooledTempFile::new(IN_MEMORY)));
}

/// What was kept since [`start`].
pub(crate) fn finish() -> Option<SpooledTempFile> {
    output(Option::take)
}

/// Whether standard output is kept.
pub(crate) fn is_active() -> bool {
    output(|output| output.is_some())
}

/// Takes what is written to standard output.
pub(crate) fn write(bytes: &[u8]) -> io::Result<usize> {
    output(|output| output.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes))
}

/// Refuses to read standard input, which holds the commands of the batch.
///
/// # Errors
/// In a batch.
pub(crate) fn check_stdin() -> Result<()> {
    ensure!(!is_active(), "standard input holds the commands of the batch");
    Ok(())
}

/// Writes all of it to where standard output goes.
pub(crate) fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = write(bytes)?;
        bytes = bytes.get(n..).unwrap_or_default();
    }
    Ok(())
}
