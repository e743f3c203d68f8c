//! The output of a command: standard output, or a file that appears only when it is complete.

#[cfg(unix)]
use std::fs::Permissions;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Stdout, Write};
#[cfg(feature = "hdf5")]
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use b2kit::frame::{Disk, FileSystem, INDEX_NAME, SuperChunk, Table, refuse_device};
#[cfg(not(unix))]
use b2kit::frame::{Links, ReadFiles};
use tempfile::NamedTempFile;

use super::stdio::{is_stdin, is_stdout, is_stream};
use super::{members, recognition, urls};
use crate::print::printable;
use crate::process::{ClosedPipe, WriteFailure, capture, signals};

/// A destination for bytes. An output file has a temporary name until [`Output::finish`].
pub(crate) enum Output {
    Stdout(Stdout),
    /// Standard output of a command in a batch.
    Captured,
    /// Keeps the bytes in memory.
    Buffer(Vec<u8>),
    File {
        temp: NamedTempFile,
        path: PathBuf,
        force: bool,
    },
    /// A terminal, pipe or device. It is written to directly, since renaming a file to it would replace it.
    Device {
        file: File,
        path: PathBuf,
    },
}

/// Number of bytes that cannot be undone.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Number of bytes that were sent to standard output, a terminal or a pipe, and cannot be undone.
pub(crate) fn sent() -> u64 {
    SENT.load(Ordering::Relaxed)
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        if capture::is_active() {
            return Self::Captured;
        }
        let stdout = io::stdout();
        widen(&stdout);
        Self::Stdout(stdout)
    }

    /// Creates an output. Without a path, or with `-`, this is standard output.
    ///
    /// # Errors
    /// Fails if the path exists and `force` is not given, or if the folder is not writable.
    pub(crate) fn create(path: Option<&Path>, force: bool) -> Result<Self> {
        let Some(path) = path.filter(|path| !is_stdout(path)) else { return Ok(Self::stdout()) };
        refuse_existing(path, force)?;
        let opened = || -> Result<Self> {
            let path = resolve_link(path)?;
            match fs::metadata(&path) {
                Ok(there) if there.is_dir() => bail!("is a directory"),
                Ok(there) if !there.is_file() => {
                    let file = File::options().write(true).open(&path)?;
                    widen(&file);
                    Ok(Self::Device { file, path })
                }
                _ => {
                    signals::begin();
                    Ok(Self::File { temp: temp_beside(&path)?, path, force })
                }
            }
        };
        opened().with_context(|| path.display().to_string())
    }

    /// Reserves space for a file of exactly this many bytes, if it is to replace another: ext4 otherwise allocates the space,
    /// and begins to write it, before the rename returns.
    pub(crate) fn reserve(&self, nbytes: u64) {
        #[cfg(target_os = "linux")]
        if let Self::File { temp, path, force: true } = self
            && path.exists()
        {
            use rustix::fs::{FallocateFlags, fallocate};
            // Other file systems allocate space when bytes are written.
            let _ = fallocate(temp.as_file(), FallocateFlags::KEEP_SIZE, 0, nbytes);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = nbytes;
    }

    /// Writes all of `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if matches!(self, Self::File { .. }) {
            signals::check()?;
        }
        let written = self.write_all(bytes);
        self.explain(written)
    }

    /// Flushes what was written so far.
    pub(crate) fn flush_now(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.explain(flushed)
    }

    /// The contents of a buffer so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            _ => &[],
        }
    }

    /// Whether the output is a terminal, where a progress bar would appear in the middle of it.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout(stdout) => stdout.is_terminal(),
            Self::Captured | Self::Buffer(_) | Self::File { .. } => false,
            Self::Device { file, .. } => file.is_terminal(),
        }
    }

    /// The temporary path of a new file.
    #[cfg(feature = "hdf5")]
    pub(crate) fn path_so_far(&self) -> Option<&Path> {
        match self {
            Self::File { temp, .. } => Some(temp.path()),
            _ => None,
        }
    }

    /// The length of a new file so far.
    #[cfg(feature = "hdf5")]
    pub(crate) fn len_so_far(&self) -> Option<u64> {
        match self {
            Self::File { temp, .. } => Some(temp.as_file().metadata().ok()?.len()),
            _ => None,
        }
    }

    /// Completes the output and renames a file to its final name.
    ///
    /// # Errors
    /// Returns [`ClosedPipe`] if standard output was closed; I/O errors name the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush_now()?;
        match self {
            Self::Stdout(_) | Self::Captured | Self::Buffer(_) | Self::Device { .. } => Ok(()),
            Self::File { temp, path, force: true } => {
                if path.is_file() {
                    let kept = Disk.copy_attributes(&path, temp.path());
                    kept.with_context(|| path.display().to_string())?;
                }
                temp.persist(&path).map(drop).map_err(|e| e.error).with_context(|| path.display().to_string())
            }
            Self::File { temp, path, force: false } => match temp.persist_noclobber(&path) {
                Ok(_) => Ok(()),
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
                Err(e) => Err(e.error).with_context(|| path.display().to_string()),
            },
        }
    }

    /// Like [`finish`](Self::finish), and waits until a file and its name are on disk.
    pub(crate) fn finish_synced(mut self) -> Result<()> {
        self.flush_now()?;
        let Self::File { temp, path, .. } = &self else { return self.finish() };
        temp.as_file().sync_all().with_context(|| path.display().to_string())?;
        let path = path.clone();
        self.finish()?;
        // Other systems cannot open folders, and sync names themselves.
        if cfg!(unix) {
            let synced = File::open(folder_of(&path)).and_then(|folder| folder.sync_all());
            synced.context(WriteFailure::Unsynced).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Adds the name of the output to an error of writing. A closed pipe becomes [`ClosedPipe`].
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

#[cfg(feature = "hdf5")]
impl Seek for Output {
    /// Only new files support writing at any position.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File { temp, .. } => temp.as_file_mut().seek(to),
            _ => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}

/// Enlarges the buffer of a pipe. Otherwise its reader has to run after each 64 KiB, and has to wait for that while all
/// processors are decoding.
#[cfg(target_os = "linux")]
fn widen(pipe: impl std::os::fd::AsFd) {
    /// The default limit of the system without privileges.
    const ROOM: usize = 1 << 20;
    // Fails for anything that is not a pipe. A pipe may already have a larger buffer.
    if rustix::pipe::fcntl_getpipe_size(&pipe).is_ok_and(|room| room < ROOM) {
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, ROOM);
    }
}

#[cfg(not(target_os = "linux"))]
fn widen<T>(_: T) {}

/// Writes text to standard output.
///
/// # Errors
/// Returns [`ClosedPipe`] if it was closed, or other I/O errors.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = Output::stdout();
    output.send(text.as_bytes())?;
    output.finish()
}

/// Checks that an output may be written. It must never be one of the inputs, and must not exist unless `force` is
/// given. Even then the only directory that may be replaced is a sparse frame.
pub(crate) fn claim(path: &Path, force: bool, inputs: &[&Path]) -> Result<()> {
    for input in inputs {
        refuse_same(path, input)?;
    }
    refuse_existing(path, force)
}

/// Prints the inputs and the name of a new file, for `--dry-run`.
pub(crate) fn print_plan(inputs: &[&Path], output: &Path) -> Result<()> {
    let inputs: Vec<String> = inputs.iter().map(|input| input.display().to_string()).collect();
    print(&format!("{}\n", printable(&format!("{} -> {}", inputs.join(", "), output.display()))))
}

/// Extensions of formats that commands read or that users pack. A Blosc2 file with such a name is a mistake, usually because a
/// shell expanded `*.npy` to an input and an output.
const OTHER_FORMATS: [&str; 50] = [
    "7z",
    "arrow",
    "bmp",
    "bz2",
    "cdf",
    "csv",
    "dcm",
    "feather",
    "fit",
    "fits",
    "gif",
    "grb",
    "grb2",
    "grib",
    "grib2",
    "gz",
    "h5",
    "h5ad",
    "hdf",
    "hdf5",
    "he5",
    "jpeg",
    "jpg",
    "json",
    "lz4",
    "mat",
    "mrc",
    "nc",
    "nc4",
    "nii",
    "npy",
    "npz",
    "nrrd",
    "nwb",
    "parquet",
    "pickle",
    "pkl",
    "png",
    "pt",
    "safetensors",
    "tar",
    "tgz",
    "tif",
    "tiff",
    "tsv",
    "wav",
    "xz",
    "zarr",
    "zip",
    "zst",
];

/// Rejects an extension of another format for a Blosc2 file.
pub(crate) fn refuse_other_format(output: &Path) -> Result<()> {
    // A link is written through.
    let target = if output.is_symlink() { real_name(output).ok() } else { None };
    let names = [Some(output), target.as_deref()].into_iter().flatten();
    let mut endings = names.filter_map(members::extension);
    endings.find(|ending| OTHER_FORMATS.contains(&ending.as_str())).map_or(Ok(()), |ending| {
        bail!(
            "{}: the new file is Blosc2, and .{ending} is the name of another format: name it .b2nd or .b2frame",
            output.display()
        )
    })
}

/// Rejects the extension of a Blosc2 file for decompressed data.
pub(crate) fn refuse_blosc2_name(output: &Path) -> Result<()> {
    if let Some(ending @ ("b2nd" | "b2frame" | "b2f" | "b2d" | "b2e" | "b2z")) =
        members::extension(output).as_deref()
    {
        bail!(
            "{}: the new file holds decompressed data, and .{ending} is the name of Blosc2 files; b2kit copy writes one",
            output.display()
        );
    }
    Ok(())
}

/// Rejects an existing output that has the extension of the input and is not Blosc2: it is probably
/// meant as a second input.
pub(crate) fn refuse_second_input(input: &Path, output: &Path) -> Result<()> {
    let alike = output.extension().is_some_and(|ending| input.extension() == Some(ending));
    let is_file = |path: &Path| fs::metadata(path).is_ok_and(|there| there.is_file());
    if !alike || urls::is_url(output) || !is_file(output) {
        return Ok(());
    }
    let head = || -> io::Result<Vec<u8>> {
        let file = recognition::open_regular(output)?;
        Ok(file.read_at(0..recognition::LOOK.min(file.len()?))?.to_vec())
    };
    let head = head().with_context(|| output.display().to_string())?;
    let len = fs::metadata(output)?.len();
    let ours = recognition::recognise(output, &head, len).is_some_and(recognition::RecognisedFormat::is_ours);
    ensure!(
        ours || head.is_empty(),
        "{}: holds data that are not Blosc2; several inputs need -d DIR; -o OUT --force replaces it",
        output.display()
    );
    Ok(())
}

/// Rejects an output that is the input, even under another name or through links, or that is inside it or contains
/// it.
pub(crate) fn refuse_same(output: &Path, input: &Path) -> Result<()> {
    // Standard input may be redirected from the file.
    let input = &if is_stdin(input) { PathBuf::from("/dev/stdin") } else { members::file(input) };
    if is_stdout(output) {
        return Ok(());
    }
    let (Ok(from), Ok(to)) = (input.canonicalize(), real_name(output)) else { return Ok(()) };
    ensure!(from != to && !same_file(input, output), "{}: IN and OUT are the same file", output.display());
    ensure!(!to.starts_with(&from), "{}: OUT is inside of IN", output.display());
    ensure!(!from.starts_with(&to), "{}: IN is inside of OUT", output.display());
    Ok(())
}

/// Resolves the links in a path. The file itself need not exist.
fn real_name(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let name = path.file_name().ok_or(error)?;
        Ok(folder_of(path).canonicalize()?.join(name))
    })
}

/// Whether both paths refer to the same file or directory, including through hard links.
fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| {
            let there = fs::metadata(path).ok()?;
            // Writing to a device that is also read is harmless.
            (there.is_file() || there.is_dir()).then(|| (there.dev(), there.ino()))
        };
        identity(a).is_some_and(|a| identity(b) == Some(a))
    }
    #[cfg(not(unix))]
    {
        let identity = |path: &Path| Disk.identity(path, Links::Follow).ok().flatten();
        identity(a).is_some_and(|a| identity(b) == Some(a))
    }
}

/// Rejects an output that exists, unless `force` is given, and always a directory that is not a sparse frame. Accepts
/// pipes and devices, which are not replaced, but not the names that Windows has for devices.
///
/// # Errors
/// Fails if it exists, even as a dangling link.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<()> {
    refuse_device(path).with_context(|| path.display().to_string())?;
    if is_stream(path) || fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(there) if there.is_dir() && !path.join(INDEX_NAME).is_file() => {
            bail!("{}: a directory that is not a sparse frame is never replaced", path.display())
        }
        Ok(there) if !force && there.is_dir() => {
            bail!("{}: already exists (a whole sparse frame); --force overwrites it", path.display())
        }
        _ if !force => Err(exists(path)),
        _ => refuse_table_member(path),
    }
}

/// Rejects the removal or replacement of a member of a table of python-blosc2.
pub(crate) fn refuse_table_member(path: &Path) -> Result<()> {
    match Table::needing(path, &SuperChunk::options()) {
        Some(table) => bail!("{}: {}", path.display(), table.refusal()),
        None => Ok(()),
    }
}

/// Checks early that the folder of an output exists.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let there = fs::metadata(folder_of(path)).with_context(|| path.display().to_string())?;
    ensure!(there.is_dir(), "{}: not in a folder", path.display());
    Ok(())
}

/// An unnamed temporary file in the folder of an output, or of the store that has it, which needs space for data of this size anyway.
pub(crate) fn spool_beside(path: &Path) -> Result<File> {
    tempfile::tempfile_in(folder_of(&members::file(path)))
        .map_err(plain)
        .with_context(|| path.display().to_string())
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{}: already exists; --force overwrites it", path.display())
}

/// Resolves a link, so that its target is replaced and not the link.
fn resolve_link(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => fs::canonicalize(path),
        _ => Ok(path.to_owned()),
    }
}

fn temp_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".b2kit-").suffix(".tmp");
    // A replacement gets the permissions of the old file at the end, and is readable only by its owner until then.
    #[cfg(unix)]
    if !path.exists() {
        use std::os::unix::fs::PermissionsExt;
        // The umask still applies.
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(path)).map_err(plain)
}

/// The error without the path of the temporary file, which users do not know.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    // The crate appends the path and does not give access to the original error.
    let own = text.rsplit_once(" at path ").map_or(&*text, |(own, _)| own);
    io::Error::new(error.kind(), own)
}
