//! Standard input and output in place of files: `-`, and the system's names for them.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::frame::{Disk, FileSystem, Links, ReadAt};

use crate::capture;
use crate::error::one_line;
use crate::npy::source::ByteSource;
use crate::output::Output;
use crate::values::Format;
use crate::web;

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
/// Fails if it cannot be read or is a terminal, or if there is no room for it in the temporary folder.
pub(crate) fn spool_stdin() -> Result<Arc<dyn ReadAt>> {
    capture::check_stdin()?;
    let mut stdin = io::stdin().lock();
    ensure!(!stdin.is_terminal(), "standard input is a terminal: send a file to it, or name one");
    let mut file = tempfile::tempfile().context("a temporary file for standard input")?;
    let len = io::copy(&mut stdin, &mut file).context("standard input")?;
    ensure!(len > 0, "standard input is empty");
    Ok(spooled(file, len))
}

/// An unnamed temporary file of `len` bytes, to be read from its start.
pub(crate) fn spooled(file: File, len: u64) -> Arc<dyn ReadAt> {
    Arc::new(Spooled { file, len })
}

/// A file that no other process can open.
struct Spooled {
    file: File,
    len: u64,
}

impl ReadAt for Spooled {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        ByteSource::read_exact_at(&self.file, offset, buf)
    }
}

/// Calls `write` with the path of the new file.
///
/// Frames cannot be written front to back. If `path` is standard output, a pipe or a device, `write` therefore gets the
/// path of a temporary file, which is copied to the output when it is complete.
///
/// # Errors
/// Returns the errors of `write`. Also fails if the output is a terminal, or if `format` is a folder.
pub(crate) fn write_through(
    path: &Path,
    format: Format,
    force: bool,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let named = || path.display().to_string();
    if web::is_url(path) {
        return upload(path, format, force, write);
    }
    if !is_stream(path) {
        return write(path);
    }
    if format == Format::Sframe {
        bail!("{}: a sparse frame is a folder of files; it needs a name", named());
    }
    // Open the output first: if a pipe has no reader, this fails before the work is done.
    let mut output = Output::create(Some(path), true)?;
    ensure!(!output.is_terminal(), "{}: compressed data is not shown on a terminal", named());
    let folder = tempfile::Builder::new().prefix("b2kit-").tempdir().context("a temporary folder")?;
    let complete = folder.path().join("new");
    write(&complete).map_err(|error| renamed(error, &complete, path))?;
    let mut file = File::open(&complete)?;
    file.rewind()?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return output.finish(),
            n => output.send(&buffer[..n])?,
        }
    }
}

/// Calls `write` with the path of a temporary file, which is uploaded when it is complete.
fn upload(url: &Path, format: Format, force: bool, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let named = || url.display().to_string();
    web::check_upload(url).with_context(named)?;
    if format == Format::Sframe {
        bail!("{}: a sparse frame is a folder of files; only single files are uploaded", named());
    }
    if !force && web::kind(url).is_ok() {
        bail!("{}: is there already; --force overwrites it", named());
    }
    let folder = tempfile::Builder::new().prefix("b2kit-").tempdir().context("a temporary folder")?;
    let complete = folder.path().join("new");
    write(&complete).map_err(|error| renamed(error, &complete, url))?;
    let file = Disk.open(&complete, Links::Follow)?;
    web::upload(&*file, url, force).with_context(named)
}

/// Replaces the name of a temporary file in an error by the name that the user gave.
fn renamed(error: anyhow::Error, temporary: &Path, shown: &Path) -> anyhow::Error {
    let (text, temporary) = (one_line(&error), temporary.display().to_string());
    match text.contains(&temporary) {
        true => anyhow!("{}", text.replace(&temporary, &shown.display().to_string())),
        false => error,
    }
}

/// Whether bytes written to this path do not end up in a file of that name.
pub(crate) fn is_stream(path: &Path) -> bool {
    is_stdout(path) || fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}
