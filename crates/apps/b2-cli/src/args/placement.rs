//! Where new files go: options that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;

/// The location of a new file that is not named after its input.
#[derive(Clone, Debug, Args)]
pub(crate) struct Placement {
    /// The new file (-: standard output)
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["directory", "stdout", "files_from"])]
    output: Option<PathBuf>,
    /// Write to standard output, like -o -
    #[arg(short = 'c', long, conflicts_with_all = ["directory", "files_from"])]
    stdout: bool,
    /// Include the files in folders, recursively
    ///
    /// New files are written next to their inputs; with -d DIR into the same folders below DIR. Links are not followed.
    #[arg(short, long, conflicts_with_all = ["output", "stdout"])]
    pub(crate) recursive: bool,
    /// Remove each input when its new file is complete and on disk
    ///
    /// Only regular files are removed, not links, and no file that another program has just changed. Where the new file
    /// does not keep everything, --rm needs --allow-lossy.
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) rm: bool,
    /// Copy the modification time of each input to its new file
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) keep_time: bool,
    /// Print the names of the new files, and write and remove nothing
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) dry_run: bool,
}

impl Placement {
    /// The new file that was named by an option.
    pub(crate) fn named(&self) -> Option<&Path> {
        if self.stdout { Some(Path::new("-")) } else { self.output.as_deref() }
    }
}
