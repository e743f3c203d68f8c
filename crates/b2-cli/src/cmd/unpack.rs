//! `b2kit unpack`

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::args::Global;
use crate::error::{Usage, one_line};
use crate::input::{Input, Selection};
use crate::output::Output;
use crate::progress::Progress;
use crate::table::{printable, short_size};
use crate::{many, npy, signals, stdio, web};

const EXAMPLES: &str = "\
Examples:
  b2kit unpack data.b2nd                 writes data.npy
  b2kit unpack data.b2nd -o copy.npy
  b2kit unpack -d plain *.b2nd
  b2kit unpack - -o - < data.b2nd > data.npy
  b2kit unpack https://example.org/data.b2nd    data.npy in this folder

Arrays become .npy files, everything else raw bytes: log.b2frame becomes log. The
packed file stays. For parts of a file, or the raw bytes of an array: b2kit cat.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Frames, directories of sparse frames, or chunks (-: standard input)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The new file (-: standard output)
    #[arg(short, long, value_name = "OUT", conflicts_with = "directory")]
    output: Option<PathBuf>,
    /// Put the new files into this folder
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    if args.output.is_some() && args.files.len() > 1 {
        return Err(Usage("-o OUT is for one file; -d DIR takes several".into()).into());
    }
    if args.output.is_none() && args.files.iter().any(|file| stdio::is_stdin(file)) {
        return Err(Usage("standard input has no name: give -o OUT".into()).into());
    }
    if let Some(dir) = &args.directory {
        // Detect files of the same name in different folders.
        many::outputs(&args.files, dir, |file| {
            Ok(new_name(&local_name(file)?, "npy").file_name().unwrap_or_default().into())
        })?;
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    many::each(&args.files, |file| unpack(args, file, global))
}

fn unpack(args: &Args, file: &Path, global: Global) -> Result<()> {
    let named = || file.display().to_string();
    let input = Input::open(file, 0, global).with_context(named)?.say_changed(file);
    input.check_output().with_context(named)?;
    let selection = Selection::all(&input);
    let (header, ending) = match &input {
        Input::Array(array) => {
            let header = npy::header_bytes(&npy::shown_dtype(array), array.shape());
            (header.context("as an .npy file (b2kit cat writes raw bytes)").with_context(named)?, "npy")
        }
        _ => (Vec::new(), ""),
    };
    let path = match (&args.output, &args.directory) {
        (Some(output), _) => output.clone(),
        (None, Some(dir)) => dir.join(new_name(&local_name(file)?, ending).file_name().unwrap_or_default()),
        (None, None) => new_name(&local_name(file)?, ending),
    };
    let mut output = Output::create(Some(&path), args.force)?;
    if output.is_terminal() {
        bail!("{}: binary data is not shown on a terminal", named());
    }
    output.send(&header)?;
    let mut progress = Progress::new(named(), selection.nbytes(), global.quiet);
    // Add the file name only to errors of reading, not of writing.
    let mut sent = Ok(());
    let streamed = selection.stream(
        |piece| {
            sent = output.send(piece);
            ensure!(sent.is_ok());
            Ok(())
        },
        &mut progress,
    );
    sent?;
    streamed.with_context(named)?;
    drop(progress);
    output.finish()?;
    signals::done();
    if !global.quiet && !stdio::is_stdout(&path) {
        let (from, to) = (printable(&named()), printable(&path.display().to_string()));
        // Ignore errors: standard error may be closed.
        let _ = writeln!(io::stderr(), "{from} -> {to}  {}", short_size(selection.nbytes()));
    }
    Ok(())
}

/// The name of the file; for a URL, its last part as a name in the current folder.
fn local_name(file: &Path) -> Result<Cow<'_, Path>> {
    if !web::is_url(file) {
        return Ok(Cow::Borrowed(file));
    }
    let name = web::file_name(file).with_context(|| file.display().to_string());
    Ok(Cow::Owned(name.map_err(|error| Usage(one_line(&error)))?.into()))
}

/// The name of the output file next to `file`.
fn new_name(file: &Path, ending: &str) -> PathBuf {
    let known = ["b2nd", "b2frame", "b2f", "b2", "chunk", "blosc2", "bl2"];
    let old = file.extension().and_then(|old| old.to_str()).filter(|old| known.contains(old));
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
