//! Where the bytes of a command go: standard output, or a file that appears only when it is complete.

use std::fs::{self, File, Permissions};
use std::io::{self, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use b2kit::frame::INDEX_NAME;
use tempfile::NamedTempFile;

use crate::capture;
use crate::error::ClosedPipe;
use crate::signals;
use crate::stdio::{is_stdin, is_stdout, is_stream};

/// A sink for bytes. Nothing appears under the name of an output file before [`Output::finish`].
pub(crate) enum Output {
    Stdout(Stdout),
    /// Standard output of a command in a batch.
    Captured,
    /// Bytes that are wanted in memory.
    Buffer(Vec<u8>),
    File {
        temp: NamedTempFile,
        path: PathBuf,
        force: bool,
    },
    /// A terminal, pipe or device: written directly, since renaming onto it would replace it.
    Device {
        file: File,
        path: PathBuf,
    },
}

/// Bytes that went where they cannot be taken back.
static SENT: AtomicU64 = AtomicU64::new(0);

/// How many bytes have gone where they cannot be taken back: to standard output, a terminal or a pipe.
pub(crate) fn sent() -> u64 {
    SENT.load(Ordering::Relaxed)
}

impl Output {
    /// Standard output when there is no path, or `-`.
    ///
    /// # Errors
    /// When something of that name is there and `force` is not given; when the folder cannot be written.
    pub(crate) fn create(path: Option<&Path>, force: bool) -> Result<Self> {
        let Some(path) = path.filter(|path| !is_stdout(path)) else {
            return Ok(if capture::is_active() { Self::Captured } else { Self::Stdout(io::stdout()) });
        };
        refuse_existing(path, force)?;
        let opened = || -> Result<Self> {
            let path = resolve_link(path)?;
            match fs::metadata(&path) {
                Ok(there) if there.is_dir() => bail!("is a directory"),
                Ok(there) if !there.is_file() => {
                    Ok(Self::Device { file: File::options().write(true).open(&path)?, path })
                }
                _ => {
                    signals::begin();
                    Ok(Self::File { temp: temp_beside(&path)?, path, force })
                }
            }
        };
        opened().with_context(|| path.display().to_string())
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if matches!(self, Self::File { .. }) {
            signals::check()?;
        }
        let written = self.write_all(bytes);
        self.explain(written)
    }

    /// Passes on what was written so far.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn flush_now(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.explain(flushed)
    }

    /// The bytes of a buffer so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            _ => &[],
        }
    }

    /// Whether a person sees the bytes, and would see a progress bar between them.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout(stdout) => stdout.is_terminal(),
            Self::Captured | Self::Buffer(_) | Self::File { .. } => false,
            Self::Device { file, .. } => file.is_terminal(),
        }
    }

    /// Ends the output: a file gets its name now.
    ///
    /// # Errors
    /// [`ClosedPipe`] when nobody reads standard output any more; I/O errors with the name of the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush_now()?;
        match self {
            Self::Stdout(_) | Self::Captured | Self::Buffer(_) | Self::Device { .. } => Ok(()),
            Self::File { temp, path, force: true } => {
                temp.persist(&path).map(drop).map_err(|e| e.error).with_context(|| path.display().to_string())
            }
            Self::File { temp, path, force: false } => match temp.persist_noclobber(&path) {
                Ok(_) => Ok(()),
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
                Err(e) => Err(e.error).with_context(|| path.display().to_string()),
            },
        }
    }

    /// Names the output in an error of writing to it; a closed pipe becomes [`ClosedPipe`].
    fn explain<T>(&self, result: io::Result<T>) -> Result<T> {
        match (result, self) {
            (Ok(value), _) => Ok(value),
            (Err(e), Self::Stdout(_)) if e.kind() == io::ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
            (Err(e), Self::Stdout(_) | Self::Captured | Self::Buffer(_)) => Err(e).context("standard output"),
            (Err(e), Self::File { path, .. } | Self::Device { path, .. }) => {
                Err(e).with_context(|| path.display().to_string())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if matches!(self, Self::Stdout(_) | Self::Captured | Self::Device { .. }) {
            SENT.fetch_add(buf.len() as u64, Ordering::Relaxed);
        }
        match self {
            Self::Stdout(stdout) => stdout.write(buf),
            Self::Captured => capture::write(buf),
            Self::Buffer(bytes) => bytes.write(buf),
            Self::File { temp, .. } => temp.as_file_mut().write(buf),
            Self::Device { file, .. } => file.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Captured | Self::Buffer(_) => Ok(()),
            Self::File { temp, .. } => temp.as_file_mut().flush(),
            Self::Device { file, .. } => file.flush(),
        }
    }
}

/// Writes text to standard output.
///
/// # Errors
/// [`ClosedPipe`] when nobody reads it any more; other I/O errors.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = Output::create(None, false)?;
    output.send(text.as_bytes())?;
    output.finish()
}

/// Refuses an output that must not be written: one of the inputs, always; and what is there already, unless `force` is
/// given. Even then only a directory that is a sparse frame is replaced.
///
/// # Errors
/// That it must not be.
pub(crate) fn claim(path: &Path, force: bool, inputs: &[&Path]) -> Result<()> {
    for input in inputs {
        refuse_same(path, input)?;
    }
    refuse_existing(path, force)
}

/// Refuses an output that is the input, also by another name or through links, or that lies inside of it or around it.
///
/// # Errors
/// That it is.
pub(crate) fn refuse_same(output: &Path, input: &Path) -> Result<()> {
    // Standard input may be redirected from the file.
    let input = if is_stdin(input) { Path::new("/dev/stdin") } else { input };
    if is_stdout(output) {
        return Ok(());
    }
    let (Ok(from), Ok(to)) = (input.canonicalize(), real_name(output)) else { return Ok(()) };
    ensure!(from != to && !same_file(input, output), "{}: IN and OUT are the same file", output.display());
    ensure!(!to.starts_with(&from), "{}: OUT is inside of IN", output.display());
    ensure!(!from.starts_with(&to), "{}: IN is inside of OUT", output.display());
    Ok(())
}

/// The name without links of a file that need not be there.
fn real_name(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let name = path.file_name().ok_or(error)?;
        Ok(folder_of(path).canonicalize()?.join(name))
    })
}

/// Whether both names are of one file or directory: hard links, too.
fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| {
            let there = fs::metadata(path).ok()?;
            // Writing to a device that is also read is no loss.
            (there.is_file() || there.is_dir()).then(|| (there.dev(), there.ino()))
        };
        identity(a).is_some_and(|a| identity(b) == Some(a))
    }
    #[cfg(not(unix))]
    {
        let _ = (a, b);
        false
    }
}

/// Refuses an output that is there already, unless `force` is given, and a directory that is not a sparse frame. Pipes
/// and devices are not replaced.
///
/// # Errors
/// When it is there, a dangling link included.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<()> {
    if is_stream(path) || fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(there) if there.is_dir() && !path.join(INDEX_NAME).is_file() => {
            bail!("{}: is a directory, and not a sparse frame: never replaced", path.display())
        }
        Ok(there) if !force && there.is_dir() => {
            bail!("{}: is there already (a whole sparse frame); --force overwrites it", path.display())
        }
        _ if !force => Err(exists(path)),
        _ => Ok(()),
    }
}

/// Finds out early that there is no folder for an output.
///
/// # Errors
/// When there is none.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let there = fs::metadata(folder_of(path)).with_context(|| path.display().to_string())?;
    ensure!(there.is_dir(), "{}: not in a folder", path.display());
    Ok(())
}

/// A nameless file in the folder of an output, which must have room for data of this size anyway.
///
/// # Errors
/// When it cannot be created.
pub(crate) fn spool_beside(path: &Path) -> Result<File> {
    tempfile::tempfile_in(folder_of(path)).map_err(plain).with_context(|| path.display().to_string())
}

/// The folder that holds a file of this name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{}: is there already; --force overwrites it", path.display())
}

/// Where a link points to: the link stays and its target is replaced.
fn resolve_link(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => fs::canonicalize(path),
        _ => Ok(path.to_owned()),
    }
}

fn temp_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".b2kit-").suffix(".tmp");
    #[cfg(unix)]
    let permissions = {
        use std::os::unix::fs::PermissionsExt;
        // The umask still applies.
        Permissions::from_mode(0o666)
    };
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(folder_of(path)).map_err(plain)
}

/// The error without the name of the temporary file, which means nothing to people.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    // The crate appends it, and gives the error without it to nobody.
    let own = text.rsplit_once(" at path ").map_or(&*text, |(own, _)| own);
    io::Error::new(error.kind(), own)
}
