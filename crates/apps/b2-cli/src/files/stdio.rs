//! Standard input and output in place of files: `-`, and the system's names for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use b2kit::frame::ReadAt;

use crate::process::capture;

/// Whether this names standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    is_one_of(path, ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
}

/// Whether this names standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    is_one_of(path, ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
}

fn is_one_of(path: &Path, names: [&str; 4]) -> bool {
    path.to_str().is_some_and(|path| names.contains(&path))
}

/// Rejects standard input for a command that needs a named file.
///
/// # Errors
/// Fails for the names of standard input. `why` completes "standard input ...".
pub(crate) fn refuse_stdin(path: &Path, why: &str) -> Result<()> {
    ensure!(!is_stdin(path), "standard input {why}");
    Ok(())
}

/// Copies standard input to an unnamed temporary file, so that it can be read in any order.
///
/// # Errors
/// Fails if it cannot be read or is a terminal, or if the temporary folder is full.
pub(crate) fn spool_stdin() -> Result<Arc<dyn ReadAt>> {
    capture::check_stdin()?;
    let mut stdin = io::stdin().lock();
    ensure!(!stdin.is_terminal(), "standard input is a terminal: send a file to it, or name one");
    let mut file = tempfile::tempfile().context("a temporary file for standard input")?;
    let len = io::copy(&mut stdin, &mut file).context("standard input")?;
    ensure!(len > 0, "standard input is empty");
    Ok(spooled(file, len))
}

/// Whether this names a pipe that the shell created for this process, as in `b2kit info <(command)`. Other pipes are not read,
/// since they may never get a writer.
pub(crate) fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let named =
            ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.parent() == Some(Path::new(folder)));
        named && fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Copies a pipe to an unnamed temporary file. Every call for a path returns the same file, since a pipe can be read once.
///
/// # Errors
/// Fails if it cannot be read, or if the temporary folder is full.
pub(crate) fn spool_pipe(path: &Path) -> Result<Arc<dyn ReadAt>> {
    static READ: Mutex<BTreeMap<PathBuf, Arc<dyn ReadAt>>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = read.get(path) {
        return Ok(file.clone());
    }
    let mut file = tempfile::tempfile().context("a temporary file for a pipe")?;
    let len = io::copy(&mut File::open(path)?, &mut file)?;
    ensure!(len > 0, "the pipe is empty");
    let file = spooled(file, len);
    read.insert(path.to_owned(), file.clone());
    Ok(file)
}

/// An unnamed temporary file of `len` bytes, to be read from its start.
pub(crate) fn spooled(file: File, len: u64) -> Arc<dyn ReadAt> {
    Arc::new(SpoolFile { file, len })
}

/// A file that no other process can open.
struct SpoolFile {
    file: File,
    len: u64,
}

impl ReadAt for SpoolFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(offset, buf)
    }
}

/// Whether bytes written to this path do not end up in a file of that name.
pub(crate) fn is_stream(path: &Path) -> bool {
    is_stdout(path) || fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}
