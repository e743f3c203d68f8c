//! Where new files go: options that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;

/// The location of a new file that is not named after its input.
#[derive(Clone, Debug, Args)]
pub(crate) struct Placement {
    /// The new file (-: standard output)
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["directory", "stdout", "files_from"])]
    output: Option<PathBuf>,
    /// Write to standard output, as -o -
    #[arg(short = 'c', long, conflicts_with_all = ["directory", "files_from"])]
    stdout: bool,
    /// Take the files in folders, and in their folders
    ///
    /// New files are written next to their inputs; with -d DIR into the same folders below DIR. Links are not followed.
    #[arg(short, long, conflicts_with_all = ["output", "stdout"])]
    pub(crate) recursive: bool,
    /// Remove each input when its new file is complete and on disk
    ///
    /// Only regular files are removed, no links, and none that another program has changed meanwhile. Where the new file
    /// does not keep everything, --rm needs --allow-lossy.
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) rm: bool,
    /// Give each new file the time of modification of its input
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) keep_time: bool,
    /// Print which new files there would be, and write and remove nothing
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) dry_run: bool,
}

impl Placement {
    /// The new file that was named by an option.
    pub(crate) fn named(&self) -> Option<&Path> {
        if self.stdout { Some(Path::new("-")) } else { self.output.as_deref() }
    }
}
