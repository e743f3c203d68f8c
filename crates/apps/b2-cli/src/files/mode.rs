//! The mode and the time of new files, which are those of their inputs, as with `cp` and `gzip`.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use super::{members, stdio, urls};

/// Until this is dropped, new files get at most the permissions that `group` and `others` have on the inputs. A file that
/// replaces another one keeps the mode of the old file.
///
/// Sets the umask of the process, so that a private file is never readable by others, not even while it is written.
#[must_use]
pub(crate) struct ModeOf {
    #[cfg(unix)]
    before: rustix::fs::Mode,
}

impl ModeOf {
    pub(crate) fn inputs<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let rights = |input: &Path| {
                let file = (!urls::is_url(input) && !stdio::is_stdin(input)).then(|| members::file(input))?;
                let there = fs::metadata(file).ok()?;
                // The modes of pipes and devices do not describe the privacy of their data.
                (there.is_file() || there.is_dir()).then(|| there.permissions().mode())
            };
            let shared = inputs.into_iter().filter_map(rights).fold(0o777, |all, one| all & one);
            // Directories, such as sparse frames, need the execute permission wherever they are readable.
            let shared = shared | (shared & 0o044) >> 2;
            let before = rustix::process::umask(rustix::fs::Mode::empty());
            rustix::process::umask(
                before | rustix::fs::Mode::from_raw_mode(0o077 & !shared as rustix::fs::RawMode),
            );
            Self { before }
        }
        #[cfg(not(unix))]
        {
            let _ = inputs;
            Self {}
        }
    }
}

#[cfg(unix)]
impl Drop for ModeOf {
    fn drop(&mut self) {
        rustix::process::umask(self.before);
    }
}

/// Copies the modification time of an input to its new file, if both are local files or directories.
pub(crate) fn keep_time(input: &Path, output: &Path) -> Result<()> {
    if urls::is_url(input) || urls::is_url(output) || stdio::is_stdin(input) || stdio::is_stream(output) {
        return Ok(());
    }
    let set = || File::open(output)?.set_modified(fs::metadata(members::file(input))?.modified()?);
    set().with_context(|| format!("{}: --keep-time", output.display()))
}
