//! The files in folders and their folders (`-r`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::stdio::is_stdin;
use super::urls;
use crate::args::Global;
use crate::print::{count, printable};
use crate::process::say;

/// What to do with a file or folder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WalkDecision {
    /// An input: a file, or a folder that counts as one file.
    Yes,
    /// Not an input, for this reason.
    No(&'static str),
    /// A folder to be searched.
    Inside,
}

/// A file that was found.
#[derive(Debug, PartialEq)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    /// The folder of the file below the operand; empty for an operand that is a file.
    pub(crate) below: PathBuf,
}

impl InputFile {
    /// A file named on the command line.
    pub(crate) fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), below: PathBuf::new() }
    }
}

/// Finds the inputs among `operands` and in folders, sorted by name. Operands that are files are always inputs; `judge` decides
/// about files in folders. Links in folders are not followed, and `outputs`, the folder for new files, is not
/// searched.
///
/// # Errors
/// Fails if an operand or a folder cannot be read, or if there is no input.
pub(crate) fn walk(
    operands: &[PathBuf],
    outputs: Option<&Path>,
    global: Global,
    judge: impl Fn(&Path) -> Result<WalkDecision>,
) -> Result<Vec<InputFile>> {
    let outputs = outputs.and_then(|folder| folder.canonicalize().ok());
    let mut walk = FolderWalk { outputs, global, judge, found: Vec::new(), left: 0 };
    for operand in operands {
        let named = || operand.display().to_string();
        ensure!(!is_stdin(operand) && !urls::is_url(operand), "{}: -r takes files and folders", named());
        let there = fs::metadata(operand).with_context(named)?;
        match there.is_dir() && (walk.judge)(operand)? == WalkDecision::Inside {
            true => walk.folder(operand, Path::new(""))?,
            false => walk.found.push(InputFile::named(operand)),
        }
    }
    if walk.left > 0 && !global.quiet {
        say(&format!("-r: {} left out (-v says why)", count(walk.left, "file")));
    }
    if walk.found.is_empty() {
        bail!("-r: there are no inputs in {}", crate::print::joined(&names(operands), ", "));
    }
    Ok(walk.found)
}

fn names(operands: &[PathBuf]) -> Vec<String> {
    operands.iter().map(|path| path.display().to_string()).collect()
}

struct FolderWalk<J> {
    outputs: Option<PathBuf>,
    global: Global,
    judge: J,
    found: Vec<InputFile>,
    /// Number of files that are not inputs.
    left: u64,
}

impl<J: Fn(&Path) -> Result<WalkDecision>> FolderWalk<J> {
    fn folder(&mut self, folder: &Path, below: &Path) -> Result<()> {
        let named = || folder.display().to_string();
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).with_context(named)? {
            let entry = entry.with_context(named)?;
            entries.push((entry.file_name(), entry.file_type().with_context(named)?));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in entries {
            let path = folder.join(&name);
            if self.outputs.is_some() && path.canonicalize().ok() == self.outputs {
                continue;
            }
            let take = match () {
                () if kind.is_symlink() => WalkDecision::No("a link"),
                () if !kind.is_dir() && !kind.is_file() => WalkDecision::No("neither a file nor a folder"),
                () => (self.judge)(&path).with_context(|| path.display().to_string())?,
            };
            match take {
                WalkDecision::Yes => self.found.push(InputFile { path, below: below.to_owned() }),
                WalkDecision::Inside => self.folder(&path, &below.join(&name))?,
                WalkDecision::No(why) => {
                    self.left += 1;
                    self.global
                        .log(|| format!("{}: left out: {why}", printable(&path.display().to_string())));
                }
            }
        }
        Ok(())
    }
}
