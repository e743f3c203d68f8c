//! Runs a command for several files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result};

use super::error::{ClosedPipe, Failures, Usage, one_line, say};
use super::signals;

/// Runs a command for each file. A failure does not stop the others.
///
/// # Errors
/// For a single file returns its error; for several returns [`Failures`]. Stops immediately if standard output was closed,
/// or if the command line is invalid.
pub(crate) fn each(files: &[PathBuf], run: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    each_then(files, run, |_| vec![])
}

/// Like [`each`], for deferred work: `finish` performs it and returns its errors. It is called after each file, and with `true`
/// at the end, even if the command stops early.
pub(crate) fn each_then(
    files: &[PathBuf],
    mut run: impl FnMut(&Path) -> Result<()>,
    mut finish: impl FnMut(bool) -> Vec<Error>,
) -> Result<()> {
    let [file] = files else { return all_then(files, run, finish) };
    let result = run(file);
    let mut errors = result.err().into_iter().chain(finish(true));
    let first = errors.next();
    errors.for_each(|error| say(&one_line(&error)));
    first.map_or(Ok(()), Err)
}

/// Like [`each`], but returns [`Failures`] even for a single file.
pub(crate) fn all(files: &[PathBuf], run: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    all_then(files, run, |_| vec![])
}

fn all_then(
    files: &[PathBuf],
    mut run: impl FnMut(&Path) -> Result<()>,
    mut finish: impl FnMut(bool) -> Vec<Error>,
) -> Result<()> {
    signals::expect(files.len());
    let mut messages: Vec<String> = Vec::new();
    for file in files {
        let result = signals::check().map_err(Into::into).and_then(|()| run(file));
        let stops =
            |error: &Error| error.is::<ClosedPipe>() || error.is::<Usage>() || signals::exit_code().is_some();
        let last = result.as_ref().is_err_and(stops);
        messages.extend(finish(last).iter().map(one_line));
        match result {
            Err(error) if error.is::<ClosedPipe>() || error.is::<Usage>() => return Err(error),
            Err(error) if last => {
                messages.iter().for_each(|message| say(message));
                return Err(error);
            }
            Err(error) => messages.push(one_line(&error)),
            Ok(()) => {}
        }
    }
    messages.extend(finish(true).iter().map(one_line));
    if messages.is_empty() { Ok(()) } else { Err(Failures { messages, of: files.len() }.into()) }
}

/// The new file for each of several inputs, all in the folder `dir`. `name` derives its name from that of the input.
///
/// # Errors
/// Returns [`Usage`] if an input has no name, or if two new files would have the same name.
pub(crate) fn outputs(
    inputs: &[PathBuf],
    dir: &Path,
    name: impl Fn(&Path) -> Result<PathBuf>,
) -> Result<Vec<PathBuf>> {
    let outputs = inputs.iter().map(|input| Ok(dir.join(name(input)?))).collect::<Result<Vec<_>>>()?;
    distinct(inputs, &outputs)?;
    Ok(outputs)
}

/// Checks that the new files of several inputs have different names.
///
/// # Errors
/// Returns [`Usage`] if two would have the same.
pub(crate) fn distinct(inputs: &[PathBuf], outputs: &[PathBuf]) -> Result<()> {
    let mut there = HashMap::new();
    for (input, output) in inputs.iter().zip(outputs) {
        if let Some(other) = there.insert(output, input) {
            let (a, b) = (other.display(), input.display());
            return Err(Usage(format!("{a} and {b} would both become {}", output.display())).into());
        }
    }
    Ok(())
}
