//! Inputs that are removed when their new files are complete and on disk (`--rm`).

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
#[cfg(not(unix))]
use b2kit::frame::{Disk, FileId, Links, ReadFiles};

use super::destination::refuse_table_member;
use super::stdio::{is_stdin, is_stream};
use super::urls;
use crate::args::Global;
use crate::print::printable;
use crate::process::WriteFailure;

/// An input that will be removed.
pub(crate) struct InputRemoval {
    path: PathBuf,
    before: State,
}

/// Metadata that changes when another program writes or replaces a file.
#[derive(PartialEq)]
struct State {
    len: u64,
    modified: Option<SystemTime>,
    /// Device and inode of the file, and the time of its last status change.
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
    #[cfg(not(unix))]
    identity: Option<FileId>,
}

impl State {
    fn of(path: &Path, there: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        let _ = path;
        Self {
            len: there.len(),
            modified: there.modified().ok(),
            #[cfg(unix)]
            identity: (there.dev(), there.ino(), there.ctime(), there.ctime_nsec()),
            #[cfg(not(unix))]
            identity: Disk.identity(path, Links::Refuse).ok().flatten(),
        }
    }
}

impl InputRemoval {
    /// Records the state of an input before it is opened.
    ///
    /// # Errors
    /// Fails if the input is not a regular file.
    pub(crate) fn of(input: &Path) -> Result<Self> {
        let named = || input.display().to_string();
        let keeps = "--rm removes only regular files, not links";
        ensure!(!is_stdin(input) && !urls::is_url(input), "{}: {keeps}", named());
        let there = fs::symlink_metadata(input).with_context(named)?;
        ensure!(there.is_file(), "{}: {keeps}", named());
        refuse_table_member(input)?;
        Ok(Self { path: input.to_owned(), before: State::of(input, &there) })
    }

    /// Checks that the new file will be on disk.
    ///
    /// # Errors
    /// Fails if the output is a stream, a device or a URL.
    pub(crate) fn check_output(&self, output: &Path) -> Result<()> {
        let safe = !is_stream(output) && !urls::is_url(output);
        ensure!(safe, "{}: --rm needs an output file on disk", output.display());
        Ok(())
    }

    /// Removes the input, whose data is on disk elsewhere.
    ///
    /// # Errors
    /// Fails if it has changed since, or cannot be removed.
    pub(crate) fn finish(self, global: Global) -> Result<()> {
        let named = || self.path.display().to_string();
        let there = fs::symlink_metadata(&self.path).context(WriteFailure::NotRemoved).with_context(named)?;
        if State::of(&self.path, &there) != self.before {
            bail!("{}: not removed (--rm): it changed while it was read", named());
        }
        fs::remove_file(&self.path).context(WriteFailure::NotRemoved).with_context(named)?;
        global.log(|| format!("{}: removed", printable(&named())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_stays() {
        let global = Global::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"some").unwrap();
        let removal = InputRemoval::of(&path).unwrap();
        fs::write(&path, b"more bytes").unwrap();
        let message = removal.finish(global).unwrap_err().to_string();
        assert!(message.ends_with("a: not removed (--rm): it changed while it was read"), "{message}");
        let removal = InputRemoval::of(&path).unwrap();
        // Another file of the same size under this name.
        fs::write(folder.path().join("b"), b"other byte").unwrap();
        fs::rename(folder.path().join("b"), &path).unwrap();
        assert!(removal.finish(global).is_err());
        InputRemoval::of(&path).unwrap().finish(global).unwrap();
        assert!(!path.exists());
    }
}
