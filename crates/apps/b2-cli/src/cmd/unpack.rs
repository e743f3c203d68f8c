//! `b2kit unpack`

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use b2kit::frame::{INDEX_NAME, INDEXES, MAGIC};

use crate::args::{FilesFrom, Global, Placement, Source};
use crate::files::{
    InputRemoval, ModeOf, Output, WalkDecision, claim, keep_time, members, print_plan, refuse_blosc2_name,
    refuse_same, stdio, urls, walk,
};
use crate::formats::npy;
use crate::print::{printable, short_size};
use crate::process::{Progress, Usage, batch, signals};
use crate::read::{Input, Selection, is_array_layer};

const EXAMPLES: &str = "\
Examples:
  b2kit unpack data.b2nd                 writes data.npy
  b2kit unpack data.b2nd -o copy.npy
  b2kit unpack -d plain *.b2nd
  b2kit unpack -r packed -d plain        with the folders in it
  b2kit unpack -c - < data.b2nd > data.npy
  b2kit unpack https://example.org/data.b2nd    data.npy in this folder

Arrays become .npy files, everything else raw bytes: log.b2frame becomes log. The
packed file stays, unless --rm is given. For parts of a file, or the raw bytes of
an array: b2kit cat.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Frames, directories of sparse frames, chunks, or FILE::KEY in a store (-: standard input)
    #[arg(value_name = "FILE", required_unless_present = "files_from")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    listed: FilesFrom,
    #[command(flatten)]
    placement: Placement,
    /// Put the new files into this folder
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Read this member of a store, like FILE::KEY
    #[arg(long, value_name = "KEY", conflicts_with_all = ["recursive", "rm"])]
    key: Option<String>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// With --rm, also remove files with data that the new file does not keep, such as metalayers
    #[arg(long, requires = "rm")]
    allow_lossy: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let files = args.listed.and(&args.files)?;
    if args.placement.recursive {
        return unpack_folders(args, &files, global);
    }
    let named = args.placement.named();
    if named.is_some() && files.len() > 1 {
        return Err(Usage("-o OUT and -c take one file; -d DIR takes several".into()).into());
    }
    if named.is_none() && files.iter().any(|file| stdio::is_stdin(file)) {
        return Err(Usage("standard input has no name: give -o OUT, or -c for standard output".into()).into());
    }
    if let ([_, second], None, None) = (&args.files[..], named, &args.directory)
        && !urls::is_url(second)
        && !is_packed(second, global)
    {
        // Probably meant as in `pack IN OUT`, so fail before anything is unpacked.
        return Err(Usage(format!(
            "{}: not a packed file: -o names the new file, -d DIR its folder",
            second.display()
        ))
        .into());
    }
    if let Some(dir) = &args.directory {
        // Detect files of the same name in different folders.
        batch::outputs(&files, dir, |file| {
            let source = Source { file: file.to_owned(), offset: 0, key: args.key.clone() }.inside();
            Ok(new_name(&unpacked_name(&source)?, "npy").file_name().unwrap_or_default().into())
        })?;
        if !args.placement.dry_run {
            fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
    }
    batch::each(&files, |file| unpack(args, file, args.directory.as_deref(), global))
}

/// Unpacks all packed files in folders.
fn unpack_folders(args: &Args, files: &[PathBuf], global: Global) -> Result<()> {
    let found = walk(files, args.directory.as_deref(), global, |path| {
        Ok(match path.is_dir() {
            true if path.join(INDEX_NAME).is_file() => WalkDecision::Yes,
            // Any folder with frames in it can be opened as a store.
            true if path.extension().is_some_and(|end| end == "b2d") => {
                WalkDecision::No("a store; b2kit ls lists its members")
            }
            true => WalkDecision::Inside,
            // Reading errors are reported when the file is unpacked.
            false if extension(path).is_some() || is_frame(path).unwrap_or(true) => WalkDecision::Yes,
            false => WalkDecision::No("not packed"),
        })
    })?;
    let folders: Vec<Option<PathBuf>> =
        found.iter().map(|found| Some(args.directory.as_ref()?.join(&found.below))).collect();
    let inputs: Vec<PathBuf> = found.into_iter().map(|found| found.path).collect();
    let place = |(file, folder): (&PathBuf, &Option<PathBuf>)| {
        let new = new_name(file, "npy");
        folder.as_ref().map_or_else(|| new.clone(), |folder| folder.join(new.file_name().unwrap_or_default()))
    };
    let outputs: Vec<PathBuf> = inputs.iter().zip(&folders).map(place).collect();
    batch::distinct(&inputs, &outputs)?;
    let mut folders = folders.iter();
    batch::each(&inputs, |file| {
        let folder = folders.next().and_then(Option::as_deref);
        if let Some(folder) = folder.filter(|_| !args.placement.dry_run) {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        unpack(args, file, folder, global)
    })
}

/// Whether a path is a Blosc2 file, or cannot be read, which is reported when it is unpacked.
fn is_packed(path: &Path, global: Global) -> bool {
    match fs::metadata(path) {
        _ if members::split(path).is_some() => true,
        Ok(there) if there.is_dir() => path.join(INDEX_NAME).is_file(),
        Ok(there) if there.is_file() => {
            extension(path).is_some()
                || is_frame(path).unwrap_or(true)
                || Input::open(path, 0, global).is_ok()
        }
        found => found.is_ok(),
    }
}

/// Whether a file starts as a frame.
fn is_frame(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    fs::File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == MAGIC)
}

/// Unpacks a file, into this folder if one is given.
fn unpack(args: &Args, file: &Path, folder: Option<&Path>, global: Global) -> Result<()> {
    let named = || file.display().to_string();
    let source = Source { file: file.to_owned(), offset: 0, key: args.key.clone() }.inside();
    if args.placement.rm && source.key.is_some() {
        return Err(Usage(format!("{}: --rm: a member of a store is not a file", named())).into());
    }
    let removal = args.placement.rm.then(|| InputRemoval::of(file)).transpose()?;
    let input = Input::open_source(&source, global).with_context(named)?.say_changed(&source.file);
    input.check_output().with_context(named)?;
    let selection = Selection::all(&input);
    let (header, ending) = match &input {
        Input::Array(array) => {
            let header = npy::header_bytes(&npy::shown_dtype(array), array.shape());
            (header.context("as an .npy file (b2kit cat writes raw bytes)").with_context(named)?, "npy")
        }
        _ => (Vec::new(), ""),
    };
    let path = match (args.placement.named(), folder) {
        (Some(output), _) => output.to_owned(),
        (None, Some(dir)) => {
            dir.join(new_name(&unpacked_name(&source)?, ending).file_name().unwrap_or_default())
        }
        (None, None) => new_name(&unpacked_name(&source)?, ending),
    };
    if !urls::is_url(file) {
        refuse_same(&path, file)?;
    }
    if matches!(input, Input::Array(_)) {
        refuse_blosc2_name(&path)?;
    }
    if let Some(removal) = &removal {
        removal.check_output(&path)?;
        if let (Some(what), false) = (left_behind(file, &input).with_context(named)?, args.allow_lossy) {
            bail!("{}: --rm: {what}; --allow-lossy removes it all the same", named());
        }
    }
    if args.placement.dry_run {
        claim(&path, args.force, &[])?;
        return print_plan(&[file], &path);
    }
    let _mode = ModeOf::inputs([file]);
    let mut output = Output::create(Some(&path), args.force)?;
    if output.is_terminal() {
        bail!("{}: binary data is not shown on a terminal", named());
    }
    output.send(&header)?;
    let mut progress = Progress::new(named(), selection.nbytes(), global.quiet);
    selection.send(&mut output, &mut progress, named)?;
    drop(progress);
    match &removal {
        Some(_) => output.finish_synced()?,
        None => output.finish()?,
    }
    if args.placement.keep_time {
        keep_time(file, &path)?;
    }
    signals::done();
    if !global.quiet && !stdio::is_stdout(&path) {
        let (from, to) = (printable(&named()), printable(&path.display().to_string()));
        // Ignore errors: standard error may be closed.
        let _ = writeln!(io::stderr(), "{from} -> {to}  {}", short_size(selection.nbytes()));
    }
    removal.map_or(Ok(()), |removal| removal.finish(global))
}

/// Describes the contents of a file that the unpacked file does not keep; `None` if there are none.
fn left_behind(file: &Path, input: &Input) -> Result<Option<&'static str>> {
    let end = match input {
        Input::Chunk(chunk) => chunk.cbytes() as u64,
        _ => input.frame().map_or(0, |frame| frame.header().frame_len()),
    };
    if fs::metadata(file)?.len() > end {
        return Ok(Some("it has other bytes after the data"));
    }
    let Some(frame) = input.frame() else { return Ok(None) };
    let layers = frame.metalayers().iter().any(|(name, _)| !is_array_layer(name));
    let layers = layers || frame.vlmetalayers().iter().any(|(name, _)| name != INDEXES.as_bytes());
    Ok(layers.then_some("its metalayers are not unpacked"))
}

/// The path of the packed file; for a member of a store, the last part of its key in the folder of the store, as if it were
/// a packed file.
fn unpacked_name(source: &Source) -> Result<PathBuf> {
    let file = urls::local_name(&source.file)?;
    let Some(key) = &source.key else { return Ok(file.into_owned()) };
    let last = key.trim_end_matches('/').rsplit('/').next().filter(|last| !last.is_empty() && *last != "..");
    let last =
        last.with_context(|| format!("{}: has no name: -o names the new file", source.file.display()))?;
    Ok(file.with_file_name(format!("{last}.b2nd")))
}

/// The extension of a file, if it is that of packed files.
fn extension(file: &Path) -> Option<&str> {
    let known = ["b2nd", "b2frame", "b2f", "b2", "chunk", "blosc2", "bl2"];
    file.extension().and_then(|old| old.to_str()).filter(|old| known.contains(old))
}

/// The name of the output file next to `file`.
fn new_name(file: &Path, ending: &str) -> PathBuf {
    let old = extension(file);
    let stem = if old.is_some() { file.with_extension("") } else { file.to_owned() };
    let mut name = stem.into_os_string();
    match (old, ending) {
        (Some(_), "") => {}
        (None, "") => name.push(".raw"),
        (_, ending) => {
            name.push(".");
            name.push(ending);
        }
    }
    name.into()
}
