//! Runs a command for several files.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::error::{ClosedPipe, Usage, one_line, say};
use crate::signals;

/// Errors for some of several files. The other files were processed.
#[derive(Debug, thiserror::Error)]
#[error("{} of {of} files failed", messages.len())]
pub(crate) struct Failures {
    /// One message for each file that failed.
    messages: Vec<String>,
    /// Total number of files.
    of: usize,
}

impl Failures {
    /// The messages, and a line with the number of failures.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.messages.iter().cloned().chain([self.to_string()]).collect()
    }
}

/// Runs a command for each file. A failure does not stop the others.
///
/// # Errors
/// For a single file returns its error; for several returns [`Failures`]. Stops at once if standard output was closed,
/// or if the command line is invalid.
pub(crate) fn each(files: &[PathBuf], mut run: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    if let [file] = files {
        return run(file);
    }
    signals::expect(files.len());
    let mut messages: Vec<String> = Vec::new();
    for file in files {
        match signals::check().map_err(Into::into).and_then(|()| run(file)) {
            Err(error) if error.is::<ClosedPipe>() || error.is::<Usage>() => return Err(error),
            Err(error) if signals::exit_code().is_some() => {
                messages.iter().for_each(|message| say(message));
                return Err(error);
            }
            Err(error) => messages.push(one_line(&error)),
            Ok(()) => {}
        }
    }
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
    let mut outputs: Vec<PathBuf> = Vec::new();
    for input in inputs {
        let output = dir.join(name(input)?);
        if let Some(i) = outputs.iter().position(|there| *there == output) {
            let (a, b) = (inputs[i].display(), input.display());
            return Err(Usage(format!("{a} and {b} would both become {}", output.display())).into());
        }
        outputs.push(output);
    }
    Ok(outputs)
}
