//! Opening frames for editing and reporting what was done: shared by all commands that change a file in place.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::frame::EditOptions;
use b2kit::frame::{CommitReport, Durability, FrameError, INDEX_NAME, PathKind, sniff};
use b2kit::{ArrayEditor, FrameEditor, NdArray, SuperChunk};

use super::lossy;
use crate::args::{FilesFrom, Global, Source};
use crate::files::{members, print, refuse_stdin, urls};
use crate::formats::npy;
use crate::print::{count, printable, short_size};
use crate::process::{batch, one_line, say, signals};
use crate::read::{Input, Items, Operand, input, store};

/// Holes up to this size, in bytes, are not worth a message.
const HOLES: u64 = 1 << 20;
/// Maximum number of chunks: with more, finding holes takes too long.
const MAX_SCANNED_CHUNKS: usize = 20_000;

/// The file to change, and options for safety.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// A frame, the directory of a sparse frame, or STORE.b2d::KEY; changed in place, in one step
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) care: Care,
}

/// The files to change, and options for safety.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Targets {
    /// Frames, directories of sparse frames, or STORE.b2d::KEY; each is changed in place, in one step
    #[arg(value_name = "FILE", required_unless_present = "files_from")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    listed: FilesFrom,
    /// Print what would be done to each file, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    care: Care,
}

impl Targets {
    /// Runs the command for each file, or with `--dry-run` prints what `plan` returns. A failure does not stop the others.
    pub(crate) fn each(
        &self,
        global: Global,
        plan: impl Fn(&Target, &SuperChunk) -> Result<String>,
        run: impl Fn(&Target) -> Result<()>,
    ) -> Result<()> {
        batch::each(&self.listed.and(&self.files)?, |file| {
            let target = Target { file: file.to_owned(), care: self.care };
            if !self.dry_run {
                return run(&target);
            }
            let planned = refuse_url(file).and_then(|()| {
                let source = Source::of(file).inside();
                // Only these have files of their own.
                ensure!(source.key.is_none() || source.file.is_dir(), store::UNCHANGEABLE);
                let input = Input::open_source(&source, global.opening_itemless())?;
                plan(&target, input.frame().context("not a frame: only frames can be changed")?)
            });
            let planned = planned.with_context(|| target.named())?;
            print(&format!("{}: {planned}\n", printable(&target.named())))
        })
    }
}

/// Options for safety when a file is changed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Care {
    /// Do not wait for the disk
    ///
    /// Faster, but a power loss may damage the file.
    #[arg(long, help_heading = "Care")]
    no_sync: bool,
    /// Do not lock the file against other programs that write it
    #[arg(long, help_heading = "Care")]
    no_lock: bool,
    /// Change the file even if other data may be lost
    ///
    /// That is: bytes after the frame are destroyed, and a file with several hard links is changed. The other names
    /// do not see the result of compact, and a concurrent change under one of them destroys the file.
    #[arg(long, help_heading = "Care")]
    force: bool,
    /// Change a table of python-blosc2 even if it becomes unreadable
    ///
    /// That is: the length of a single column changes, or _valid_rows, the mask of existing rows.
    #[arg(long, help_heading = "Care")]
    allow_table_edit: bool,
}

/// Maximum number of vlmetalayers of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VlmetaLimit {
    /// The number that C-Blosc2 preserves when it changes the file.
    Shared,
    None,
}

/// An array or a super-chunk, open for editing. The file does not change before the commit.
pub(crate) enum Editor {
    Array(Box<ArrayEditor>),
    SuperChunk(Box<FrameEditor>),
}

impl Target {
    fn named(&self) -> String {
        self.file.display().to_string()
    }

    /// The file to change: that of the member, if a member of a store is named.
    pub(crate) fn path(&self, global: Global) -> Result<PathBuf> {
        match members::split(&self.file) {
            Some((store, key)) if store.exists() => store::file_of(&store, &key, !self.care.no_lock, global),
            _ => Ok(self.file.clone()),
        }
    }

    /// Opens the file for editing, whether it holds an array or a super-chunk.
    ///
    /// # Errors
    /// Errors do not name the file; callers add its name.
    pub(crate) fn frame(&self, limit: VlmetaLimit, global: Global) -> Result<FrameEditor> {
        refuse_stdin(&self.file, "cannot be changed in place: name the file")?;
        refuse_url(&self.file)?;
        let path = &self.path(global)?;
        let there = fs::metadata(path)?;
        ensure!(there.is_dir() || there.is_file(), "neither a file nor a directory");
        match sniff(path)? {
            PathKind::ContiguousFrame => {}
            PathKind::SparseFrame => {
                ensure!(
                    path.join(INDEX_NAME).exists(),
                    "a directory without {INDEX_NAME}: not a sparse frame"
                );
            }
            _ => bail!("not a frame: only frames can be changed"),
        }
        let care = self.care;
        let durability = if care.no_sync { Durability::None } else { Durability::Sync };
        let options = EditOptions::from(global.reading(path)).durability(durability).lock(!care.no_lock);
        let options = options.force(care.force).many_vlmetalayers(limit == VlmetaLimit::None);
        let frame = options.allow_table_edit(care.allow_table_edit).edit(path);
        let frame = frame.map_err(|error| cannot_lock(input::cut_off_or(path, error.into())))?;
        // Not earlier: waiting for the lock may take long, and a signal should end that immediately.
        signals::begin();
        Ok(frame)
    }

    /// Opens the file for editing.
    pub(crate) fn open(&self, global: Global) -> Result<Editor> {
        let mut frame = self.frame(VlmetaLimit::Shared, global)?;
        Ok(match input::is_array(frame.metalayers()) {
            true => Editor::Array(Box::new(ArrayEditor::new(frame)?)),
            false => {
                NdArray::check_items(&frame.snapshot()?)?;
                Editor::SuperChunk(Box::new(frame))
            }
        })
    }

    /// Opens the file for writing data into it, and warns if its codec or filters are lossy.
    pub(crate) fn open_for_data(&self, global: Global) -> Result<Editor> {
        let mut editor = self.open(global)?;
        match &mut editor {
            Editor::Array(array) => self.tell_lossy(array.snapshot()?.super_chunk(), global),
            Editor::SuperChunk(frame) => self.tell_lossy(&frame.snapshot()?, global),
        }
        Ok(editor)
    }

    /// Warns that data written into this file loses precision, if its codec or filters are lossy.
    pub(crate) fn tell_lossy(&self, frame: &SuperChunk, global: Global) {
        let header = frame.header();
        let what = lossy::what_loses(Some((header.codec(), header.codec_meta())), &header.filters());
        if let Some(what) = what.filter(|_| !global.quiet) {
            let named = printable(&self.named());
            say(&format!(
                "{named}: lossy ({what}): what is put into it loses precision, and what is near it in its chunks may \
                 lose more"
            ));
        }
    }

    /// Runs a command: `change` opens the file, changes it, and returns what it did and the commit, which is reported.
    ///
    /// # Errors
    /// Returns the errors of `change` with the name of the file.
    pub(crate) fn change<T: AsRef<str>>(
        &self,
        global: Global,
        change: impl FnOnce() -> Result<(T, CommitReport)>,
    ) -> Result<()> {
        let (what, committed) = change().with_context(|| self.named())?;
        self.report(global, what.as_ref(), committed);
        Ok(())
    }

    /// Opens an array for editing.
    ///
    /// # Errors
    /// Same as [`frame`](Self::frame). Also fails for super-chunks.
    pub(crate) fn array(&self, global: Global) -> Result<Box<ArrayEditor>> {
        match self.open(global)? {
            Editor::Array(array) => Ok(array),
            Editor::SuperChunk(_) => bail!("this is a super-chunk: only arrays have dimensions"),
        }
    }

    /// Reports on standard error what was done, unless `--quiet` is given.
    fn report(&self, global: Global, what: &str, committed: CommitReport) {
        signals::done();
        if global.quiet {
            return;
        }
        let written = match committed.bytes_written {
            0 => "nothing written".into(),
            n => format!("{} written", short_size(n)),
        };
        let named = printable(&self.named());
        // Ignore errors: standard error may be closed.
        let _ = writeln!(io::stderr(), "{named}: {what}; {written}");
        if let Some((dead, len)) = self.holes(global).filter(|_| committed.bytes_written > 0) {
            let (dead, len) = (short_size(dead), short_size(len));
            let _ =
                writeln!(io::stderr(), "{named}: {dead} of {len} are holes, which b2kit compact gives back");
        }
    }

    /// The bytes in holes and the length of the file, if the holes are larger than the rest.
    fn holes(&self, global: Global) -> Option<(u64, u64)> {
        let path = &self.path(global).ok()?;
        let len = fs::metadata(path).ok().filter(|there| there.is_file() && there.len() > HOLES)?.len();
        let frame = SuperChunk::open(path).ok()?;
        // Finding holes needs the headers of all chunks.
        let dead = if frame.nchunks() <= MAX_SCANNED_CHUNKS { frame.dead_bytes().ok()? } else { 0 };
        (dead > HOLES && dead > len - dead.min(len)).then_some((dead, len))
    }
}

/// Rejects bytes, or `whole` chunks, for a frame in a format of python-blosc2, which it could not read afterwards.
pub(crate) fn refuse_objects(frame: &FrameEditor, whole: bool) -> Result<()> {
    let has = |name: &str| frame.metalayers().get(name).is_some();
    ensure!(
        !has("batcharray"),
        "a list of batches of python-blosc2 (BatchArray), which counts the items of each: change it there"
    );
    ensure!(
        whole || !has("vlarray"),
        "an object list of python-blosc2, whose chunks are its entries: `b2kit chunk` changes whole ones"
    );
    ensure!(
        !["b2embed", "b2dict", "b2tree"].into_iter().any(has),
        "a store of python-blosc2, whose bytes are its members: change a store in a directory (.b2d)"
    );
    Ok(())
}

/// Rejects a URL for a command that changes a file.
pub(crate) fn refuse_url(path: &Path) -> Result<()> {
    ensure!(!urls::is_url(path), "a URL: files on servers are only read, never changed in place");
    Ok(())
}

/// Explains why the lock file, which is next to the frame, could not be used.
fn cannot_lock(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(FrameError::Lock { path, source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) && fs::symlink_metadata(path).is_err() =>
        {
            anyhow!("cannot lock: the folder is not writable (--no-lock continues without a lock)")
        }
        Some(FrameError::Lock { .. }) => {
            let message = one_line(&error);
            anyhow!("{message} (--no-lock continues without it)")
        }
        _ => error,
    }
}

/// Resolves the dimension that an option names. Negative numbers count from the end.
pub(crate) fn axis(option: &str, given: i64, ndim: usize) -> Result<usize> {
    let counted = if given < 0 { given.checked_add_unsigned(ndim as u64) } else { Some(given) };
    counted
        .and_then(|axis| usize::try_from(axis).ok())
        .filter(|axis| *axis < ndim)
        .with_context(|| format!("{option} {given}: the array has {}", count(ndim as u64, "dimension")))
}

/// The items of inputs that are to be put into an array along `axis`, one after the other, and their length along it.
///
/// # Errors
/// Fails if the dtype or the shape of an input does not fit the array.
pub(crate) fn join(
    array: &mut ArrayEditor,
    inputs: Vec<Operand>,
    axis: usize,
    global: Global,
) -> Result<(Items, u64)> {
    let itemsize = array.geometry().itemsize();
    let (mut parts, mut length) = (Vec::with_capacity(inputs.len()), 0_u64);
    for input in inputs {
        check_dtype(array, &input)?;
        let mut shape = array.shape().to_vec();
        shape[axis] = input.length_along(axis, &shape, itemsize)?;
        length = length.checked_add(shape[axis]).context("the array is too large")?;
        parts.push((input, shape));
    }
    Ok((Operand::join(parts, axis, itemsize, global.quiet)?, length))
}

/// Checks that the items of an `.npy` file fit the array.
///
/// # Errors
/// Fails if the dtypes differ. Raw bytes have no dtype and always pass.
pub(crate) fn check_dtype(array: &mut ArrayEditor, input: &Operand) -> Result<()> {
    let array = array.snapshot()?;
    let dtype = array.meta().dtype.is_some().then(|| npy::shown_dtype(&array));
    input.check_dtype(dtype.as_ref(), array.itemsize())
}
