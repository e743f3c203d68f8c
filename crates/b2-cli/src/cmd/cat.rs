//! `b2kit cat`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::Dtype;

use crate::args::{Global, Source};
use crate::error::Usage;
use crate::input::{Input, Selection};
use crate::lines::Lines;
use crate::output::{Output, refuse_same};
use crate::picture::Range;
use crate::print::Simple;
use crate::progress::Progress;
use crate::stats::Stats;
use crate::table::dims;
use crate::viewed::{Data, View};
use crate::{npy, slice, table};

const EXAMPLES: &str = "\
Examples:
  b2kit cat data.b2nd | sha256sum
  b2kit cat data.b2nd --npy -o data.npy
  b2kit cat data.b2nd --npy --slice=0:24,100:200,-1 -o window.npy
  b2kit cat log.b2frame --chunk 3 | xxd | head
  b2kit cat store.b2z --key /group/array
  b2kit cat data.b2nd --csv --slice=0 > january.csv
  b2kit cat data.b2nd --png --slice=0,::-1 --range=-2,32 -o january.png

A slice has one part per dimension, each an index or start:stop:step as in
NumPy. Super-chunks and chunks have one dimension, their items.

An OUT that ends in .npy, .csv or .png decides what is written, unless an option
does. --csv, --text and --png also read .npy files. In a picture NaN and values beyond
1e19 (missing ones, unless --range holds them) are transparent.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    form: Form,
    /// Only these items
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true, conflicts_with = "chunk")]
    slice: Option<String>,
    /// Only the N-th chunk, as it is stored (frames)
    #[arg(long, value_name = "N", conflicts_with_all = ["npy", "csv", "text", "png"])]
    chunk: Option<usize>,
    /// Write here instead of to standard output; appears when it is complete
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Values of the first and the last colour [default: the smallest and the largest value]
    #[arg(long, value_name = "LO,HI", allow_hyphen_values = true, requires = "png")]
    range: Option<Range>,
    /// Overwrite OUT; send bytes to a terminal
    #[arg(long)]
    force: bool,
}

/// What the data is written as.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(multiple = false)]
struct Form {
    /// Decoded bytes in C order (the default, unless OUT ends in .npy, .csv or .png)
    #[arg(long)]
    raw: bool,
    /// An .npy file (arrays)
    #[arg(long)]
    npy: bool,
    /// Lines of values between commas: one or two dimensions, or records
    #[arg(long)]
    csv: bool,
    /// Lines of values between blanks; an empty line between planes
    #[arg(long)]
    text: bool,
    /// A picture of two dimensions, the first row at the top
    #[arg(long)]
    png: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    if let Some(output) = &args.output {
        refuse_same(output, &args.source.file)?;
    }
    let form = form(args)?;
    if form.csv || form.text || form.png {
        return values(args, form, global);
    }
    let start = Instant::now();
    let parts = args.slice.as_deref().map(slice::parse).transpose()?;
    let named = || args.source.file.display().to_string();
    let mut input =
        Input::open_source(&args.source, global).with_context(named)?.say_changed(&args.source.file);
    if let Some(nchunk) = args.chunk {
        input = chunk(&input, nchunk).with_context(named)?;
    }
    let selection = match parts {
        Some(parts) => Selection::slice(&input, &parts).with_context(named)?,
        None => Selection::all(&input),
    };
    input.check_output().with_context(named)?;
    let header = match (&input, form.npy) {
        (_, false) => vec![],
        (Input::Array(array), true) => npy::header_bytes(&npy::shown_dtype(array), &selection.shape())
            .context("--npy")
            .with_context(named)?,
        _ => {
            let why = match args.form.npy {
                true => "--npy: only arrays have a shape and a dtype",
                false => "OUT ends in .npy: only arrays have a shape and a dtype; --raw writes the bytes",
            };
            return Err(anyhow!(why).context(named()));
        }
    };
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    refuse_terminal(&output, args)?;
    output.send(&header)?;
    let mut progress = Progress::new(named(), selection.nbytes(), global.quiet || output.is_terminal());
    // Add the file name only to errors of reading, not of writing.
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

/// The output format: as requested, otherwise from the extension of OUT.
///
/// # Errors
/// Returns [`Usage`] if the extension asks for a format that a stored chunk cannot be written in.
fn form(args: &Args) -> Result<Form> {
    let given = args.form;
    if given.raw || given.npy || given.csv || given.text || given.png {
        return Ok(given);
    }
    let ending = args.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    let form = match &*ending {
        "npy" => Form { npy: true, ..given },
        "csv" => Form { csv: true, ..given },
        "png" => Form { png: true, ..given },
        _ => return Ok(given),
    };
    if args.chunk.is_some() {
        let why =
            format!("--chunk writes plain bytes, and OUT ends in .{ending}: --raw says that this is meant");
        return Err(Usage(why).into());
    }
    Ok(form)
}

/// Refuses to write binary data to a terminal, since control characters may lock it up.
fn refuse_terminal(output: &Output, args: &Args) -> Result<()> {
    let file = args.source.file.display();
    ensure!(
        args.force || !output.is_terminal(),
        "{file}: bytes are not shown on a terminal; `b2kit show {file}` prints the values, -o OUT writes a file, and \
         --force sends them nevertheless"
    );
    Ok(())
}

/// Writes values as text or as a picture.
fn values(args: &Args, form: Form, global: Global) -> Result<()> {
    let parts = args.slice.as_deref().map(slice::parse).transpose()?.unwrap_or_default();
    let named = || args.source.file.display().to_string();
    let data = Data::open(&args.source, global).with_context(named)?;
    data.check_output().with_context(named)?;
    let dtype = data.dtype();
    let view = data.view(&parts).with_context(named)?;
    if form.png {
        return picture(args, &dtype, &view, global);
    }
    let mut lines = Lines::new(&dtype, &view.shape(), form.csv).with_context(named)?;
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    output.send(lines.head().as_bytes())?;
    let mut progress = Progress::new(named(), view.nbytes(), global.quiet || output.is_terminal());
    let mut buffer = Vec::new();
    for piece in view.pieces() {
        view.read(&piece, &mut buffer).with_context(named)?;
        // Convert a few items at a time: text is several times as large as the values.
        for part in buffer.chunks(dtype.itemsize().max(1).saturating_mul(1 << 14)) {
            output.send(lines.write(part).as_bytes())?;
        }
        progress.add(buffer.len() as u64);
    }
    drop(progress);
    output.finish()
}

fn picture(args: &Args, dtype: &Dtype, view: &View<'_>, global: Global) -> Result<()> {
    let named = || args.source.file.display().to_string();
    let shape = view.shape();
    let size = |length: &u64| u32::try_from(*length).ok().filter(|length| (1..=1 << 16).contains(length));
    let [Some(height), Some(width)] = shape.iter().map(size).collect::<Vec<_>>()[..] else {
        let shape = dims(&shape);
        return Err(anyhow!(
            "--png: shape {shape}, a picture has two dimensions of at most 65536; --slice picks them"
        )
        .context(named()));
    };
    let simple = Simple::new(dtype);
    let is_number = dtype.fields().is_none() && simple.value(&vec![0; dtype.itemsize()]).number().is_some();
    if !is_number {
        return Err(anyhow!("--png: items of {dtype} have no colours, only numbers have").context(named()));
    }
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    refuse_terminal(&output, args)?;
    let mut buffer = Vec::new();
    let mut stats = Stats::new(dtype);
    if args.range.is_none() {
        for piece in view.pieces() {
            view.read(&piece, &mut buffer).with_context(named)?;
            stats.add(&buffer);
        }
    }
    let range = args.range.or(stats.range().map(|(low, high)| Range { low, high }));
    let mut encoder = png::Encoder::new(&mut output, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    let mut stream = writer.stream_writer()?;
    let mut progress = Progress::new(named(), view.nbytes(), global.quiet);
    for piece in view.pieces() {
        view.read(&piece, &mut buffer).with_context(named)?;
        for part in buffer.chunks(dtype.itemsize().max(1).saturating_mul(1 << 14)) {
            let colours = part.chunks_exact(dtype.itemsize().max(1)).flat_map(|item| {
                let colour = simple.value(item).number().and_then(|x| range?.colour(x));
                colour.map_or([0; 4], |[r, g, b]| [r, g, b, 255])
            });
            stream.write_all(&colours.collect::<Vec<u8>>())?;
        }
        progress.add(buffer.len() as u64);
    }
    stream.finish()?;
    writer.finish()?;
    drop(progress);
    output.finish()
}

/// Chunk `nchunk` of a frame, as a bare chunk.
fn chunk(input: &Input, nchunk: usize) -> Result<Input> {
    let frame = input.frame().context("--chunk: this is a bare chunk, not a frame")?;
    if nchunk >= frame.nchunks() {
        bail!("--chunk {nchunk}: there are {} chunks", frame.nchunks());
    }
    Ok(Input::from_chunk(frame.chunk(nchunk)?, frame.dparams().clone()))
}
