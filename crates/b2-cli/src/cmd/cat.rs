//! `b2kit cat`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::args::{Global, Source};
use crate::input::{Input, Selection};
use crate::output::Output;
use crate::progress::Progress;
use crate::{npy, slice, table};

const EXAMPLES: &str = "\
Examples:
  b2kit cat data.b2nd | sha256sum
  b2kit cat data.b2nd --npy -o data.npy
  b2kit cat data.b2nd --npy --slice=0:24,100:200,-1 -o window.npy
  b2kit cat log.b2frame --chunk 3 | xxd | head
  b2kit cat store.b2z --key /group/array

A slice has one part per dimension, each an index or start:stop:step as in
NumPy. Super-chunks and chunks have one dimension, their items.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Decoded bytes in C order (the default)
    #[arg(long, conflicts_with = "npy")]
    raw: bool,
    /// An .npy file (arrays)
    #[arg(long)]
    npy: bool,
    /// Only these items
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true, conflicts_with = "chunk")]
    slice: Option<String>,
    /// Only the N-th chunk, as it is stored (frames)
    #[arg(long, value_name = "N", conflicts_with = "npy")]
    chunk: Option<usize>,
    /// Write here instead of to standard output; appears when it is complete
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Overwrite OUT
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let start = Instant::now();
    let parts = args.slice.as_deref().map(slice::parse).transpose()?;
    let named = || args.source.file.display().to_string();
    let mut input = Input::open_source(&args.source, global).with_context(named)?;
    if let Some(nchunk) = args.chunk {
        input = chunk(&input, nchunk).with_context(named)?;
    }
    let selection = match parts {
        Some(parts) => Selection::slice(&input, &parts).with_context(named)?,
        None => Selection::all(&input),
    };
    input.check_output().with_context(named)?;
    let header = match (&input, args.npy) {
        (_, false) => vec![],
        (Input::Array(array), true) => npy::header_bytes(&npy::shown_dtype(array), &selection.shape())
            .context("--npy")
            .with_context(named)?,
        _ => return Err(anyhow!("--npy: only arrays have a shape and a dtype").context(named())),
    };
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    output.send(&header)?;
    let mut progress = Progress::new(named(), selection.nbytes(), global.quiet || output.is_terminal());
    // The name is added to errors of reading only.
    let mut sent = Ok(());
    let streamed = selection.stream(
        |piece| match output.send(piece) {
            Ok(()) => Ok(()),
            Err(e) => {
                sent = Err(e);
                bail!("not written")
            }
        },
        &mut progress,
    );
    sent?;
    streamed.with_context(|| match args.chunk {
        Some(nchunk) => format!("{}: chunk {nchunk}", named()),
        None => named(),
    })?;
    drop(progress);
    output.finish()?;
    global.tell(|| {
        let seconds = start.elapsed().as_secs_f64();
        format!("{}: {} in {seconds:.2} s", named(), table::short_size(selection.nbytes()))
    });
    Ok(())
}

/// Chunk `nchunk` of a frame, as if it were a file of its own.
fn chunk(input: &Input, nchunk: usize) -> Result<Input> {
    let frame = input.frame().context("--chunk: this is a bare chunk, not a frame")?;
    if nchunk >= frame.nchunks() {
        bail!("--chunk {nchunk}: there are {} chunks", frame.nchunks());
    }
    Ok(Input::from_chunk(frame.chunk(nchunk)?, frame.dparams().clone()))
}
