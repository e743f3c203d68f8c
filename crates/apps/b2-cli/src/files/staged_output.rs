//! New files that are first written to a temporary file, because the output is a pipe, a device or an object store.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::frame::{Disk, Links, ReadFiles};

use super::destination::Output;
use super::stdio::is_stream;
use super::urls;
use crate::args::Format;
use crate::process::error::WithheldMessages;
use crate::process::one_line;

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
    if urls::is_url(path) {
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
    // The file is complete only when the output has received it.
    let hold = WithheldMessages::start();
    write(&complete).map_err(|error| renamed(error, &complete, path))?;
    let mut file = File::open(&complete)?;
    file.rewind()?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => {
                output.finish()?;
                hold.release();
                return Ok(());
            }
            n => output.send(&buffer[..n])?,
        }
    }
}

/// Calls `write` with the path of a temporary file, which is uploaded when it is complete.
fn upload(url: &Path, format: Format, force: bool, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let named = || url.display().to_string();
    urls::check_upload(url).with_context(named)?;
    if format == Format::Sframe {
        bail!("{}: a sparse frame is a folder of files; only single files are uploaded", named());
    }
    if !force && urls::kind(url).is_ok() {
        bail!("{}: already exists; --force overwrites it", named());
    }
    let folder = tempfile::Builder::new().prefix("b2kit-").tempdir().context("a temporary folder")?;
    let complete = folder.path().join("new");
    let hold = WithheldMessages::start();
    write(&complete).map_err(|error| renamed(error, &complete, url))?;
    let file = Disk.open(&complete, Links::Follow)?;
    urls::upload(&*file, url, force).with_context(named)?;
    hold.release();
    Ok(())
}

/// Replaces the name of a temporary file in an error by the name that the user gave.
fn renamed(error: anyhow::Error, temporary: &Path, shown: &Path) -> anyhow::Error {
    let (text, temporary) = (one_line(&error), temporary.display().to_string());
    match text.contains(&temporary) {
        true => anyhow!("{}", text.replace(&temporary, &shown.display().to_string())),
        false => error,
    }
}
