//! `b2kit cat`

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2_view::limits::{Limits, NoLogarithm, scale};
use b2kit::Dtype;
use b2kit::base::{Control, in_order, workers};

use crate::args::{Global, Source};
use crate::files::{ModeOf, Output, members, refuse_blosc2_name, refuse_same};
use crate::formats::npy;
use crate::print::{Lines, Map, Png, Range, Scale, Simple, Stream, dims, table};
use crate::process::{Progress, Usage, signals};
use crate::read::external::ExternalArray;
use crate::read::{Data, Hdf5, Input, Selection, View, slice};

const EXAMPLES: &str = "\
Examples:
  b2kit cat data.b2nd | sha256sum
  b2kit cat data.b2nd --npy -o data.npy
  b2kit cat data.b2nd --npy --slice=0:24,100:200,-1 -o window.npy
  b2kit cat log.b2frame --chunk 3 | xxd | head
  b2kit cat store.b2z --key /group/array
  b2kit cat x.h5::/group/dataset --npy -o x.npy    (docs/reference/hdf5.md)
  b2kit cat data.b2nd --csv --slice=0 > january.csv
  b2kit cat data.b2nd --png --slice=0,::-1 --range=-2:32 -o january.png

A slice has one part per dimension, each an index or start:stop:step as in
NumPy. Super-chunks and chunks have one dimension, their items.

The extension of OUT (.npy, .csv or .png) determines the format, unless an option
does. --csv, --text and --png also read .npy files. In a picture NaN and values beyond
1e19 (missing ones, unless --range holds them) are transparent.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    form: OutputForm,
    /// Only these items
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true, conflicts_with = "chunk")]
    slice: Option<String>,
    /// Only the N-th chunk, as it is stored (frames)
    #[arg(long, value_name = "N", conflicts_with_all = ["npy", "csv", "text", "png"])]
    chunk: Option<usize>,
    /// Write to this file, which appears when it is complete
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Values of the first and the last colour [default: the smallest and the largest value]
    ///
    /// LOW:HIGH are values. With % they are shares of the values that are drawn: 2%:98% leaves out the smallest and the
    /// largest of them.
    #[arg(long, value_name = "LOW:HIGH", allow_hyphen_values = true, requires = "png")]
    range: Option<Limits>,
    /// Overwrite OUT; send bytes to a terminal
    #[arg(long)]
    force: bool,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(multiple = false)]
struct OutputForm {
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
    let _mode = ModeOf::inputs([&*args.source.file]);
    let form = form(args)?;
    if form.csv || form.text || form.png {
        args.output.as_deref().map_or(Ok(()), refuse_blosc2_name)?;
        return values(args, form, global);
    }
    let start = Instant::now();
    let parts = args.slice.as_deref().map(slice::parse).transpose()?;
    let named = || args.source.file.display().to_string();
    let source = args.source.inside();
    let mut input = match Input::open_source(&source, global) {
        Ok(input) => input.say_changed(&source.file),
        Err(error) if source.offset > 0 || args.chunk.is_some() => return Err(error.context(named())),
        Err(error) => {
            let file = Hdf5::open_or(&source.file, global, error).with_context(named)?;
            let array = file.pick(source.key.as_deref()).with_context(named)?;
            return plain(args, form, &*array, &parts.unwrap_or_default(), global);
        }
    };
    if let Some(nchunk) = args.chunk {
        input = chunk(&input, nchunk).with_context(named)?;
    }
    let selection = match parts {
        Some(parts) => Selection::slice(&input, &parts).with_context(named)?,
        None => Selection::all(&input),
    };
    input.check_output().with_context(named)?;
    if let (Input::Array(_), Some(output)) = (&input, &args.output) {
        refuse_blosc2_name(output)?;
    }
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
    output.reserve(selection.nbytes().saturating_add(header.len() as u64));
    output.send(&header)?;
    let mut progress = Progress::new(named(), selection.nbytes(), global.quiet || output.is_terminal());
    selection.send(&mut output, &mut progress, || match args.chunk {
        Some(nchunk) => format!("{}: chunk {nchunk}", named()),
        None => named(),
    })?;
    drop(progress);
    output.finish()?;
    report(&named(), selection.nbytes(), start, global);
    Ok(())
}

/// Writes the items of a data set of HDF5.
fn plain(
    args: &Args,
    form: OutputForm,
    array: &dyn ExternalArray,
    parts: &[b2kit::Selection],
    global: Global,
) -> Result<()> {
    let start = Instant::now();
    let named = || args.source.file.display().to_string();
    array.check_output().with_context(named)?;
    args.output.as_deref().map_or(Ok(()), refuse_blosc2_name)?;
    let view = View::of(array, parts).with_context(named)?;
    let header = match form.npy {
        true => npy::header_bytes(array.dtype(), &view.shape()).context("--npy").with_context(named)?,
        false => vec![],
    };
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    refuse_terminal(&output, args)?;
    output.reserve(view.nbytes().saturating_add(header.len() as u64));
    output.send(&header)?;
    let mut progress = Progress::new(named(), view.nbytes(), global.quiet || output.is_terminal());
    let mut buffer = Vec::new();
    for piece in view.pieces() {
        signals::check()?;
        view.read(&piece, &mut buffer).with_context(named)?;
        output.send(&buffer)?;
        progress.add(buffer.len() as u64);
    }
    drop(progress);
    output.finish()?;
    report(&named(), view.nbytes(), start, global);
    Ok(())
}

/// Reports what was written, for `--verbose`.
fn report(name: &str, nbytes: u64, start: Instant, global: Global) {
    global.log(|| {
        let seconds = start.elapsed().as_secs_f64();
        format!("{name}: {} in {seconds:.2} s", table::short_size(nbytes))
    });
}

/// The output format: as requested, otherwise from the extension of OUT.
///
/// # Errors
/// Returns [`Usage`] if the extension implies a format that a stored chunk cannot be written in.
fn form(args: &Args) -> Result<OutputForm> {
    let given = args.form;
    if given.raw || given.npy || given.csv || given.text || given.png {
        return Ok(given);
    }
    let ending = args.output.as_deref().and_then(members::extension).unwrap_or_default();
    let form = match &*ending {
        "npy" => OutputForm { npy: true, ..given },
        "csv" => OutputForm { csv: true, ..given },
        "png" => OutputForm { png: true, ..given },
        _ => return Ok(given),
    };
    if args.chunk.is_some() {
        let why = format!("--chunk writes plain bytes, and OUT ends in .{ending}; --raw confirms this");
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
fn values(args: &Args, form: OutputForm, global: Global) -> Result<()> {
    let parts = args.slice.as_deref().map(slice::parse).transpose()?.unwrap_or_default();
    let named = || args.source.file.display().to_string();
    let data = Data::open(&args.source, global).with_context(named)?;
    data.check_output().with_context(named)?;
    let dtype = data.dtype();
    let view = data.view(&parts).with_context(named)?;
    if form.png {
        return picture(args, &dtype, &view, global);
    }
    let lines = Lines::new(&dtype, &view.shape(), form.csv).with_context(named)?;
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    output.send(&lines.head())?;
    let mut progress = Progress::new(named(), view.nbytes(), global.quiet || output.is_terminal());
    let itemsize = dtype.itemsize().max(1);
    let batch = lines.batch().saturating_mul(itemsize);
    let control = Control::new();
    let (mut buffer, mut first) = (Vec::new(), 0);
    let texts = Mutex::new(Vec::new());
    let pool = || texts.lock().unwrap_or_else(PoisonError::into_inner);
    for piece in view.pieces() {
        view.read(&piece, &mut buffer).with_context(named)?;
        let make = |(k, part): (usize, &[u8])| {
            let mut text: Vec<u8> = pool().pop().unwrap_or_default();
            lines.write(first + (k * lines.batch()) as u64, part, &mut text);
            anyhow::Ok(text)
        };
        let send = |mut text: Vec<u8>| {
            output.send(&text)?;
            text.clear();
            pool().push(text);
            Ok(())
        };
        // Formatting a number takes much longer than decoding it.
        let work = (buffer.len() as u64).saturating_mul(16);
        let parts = buffer.chunks(batch).enumerate();
        in_order(&control, usize::MAX, work, 2 * workers(&control), parts, make, send)?;
        first += (buffer.len() / itemsize) as u64;
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
        return Err(
            anyhow!("--png: items of {dtype} are not numbers, so they have no colours").context(named())
        );
    }
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    refuse_terminal(&output, args)?;
    let range = match args.range {
        Some(Limits::Values(range)) => Some(range),
        Some(shares @ Limits::Shares(..)) => {
            Some(range_of_shares(&simple, view, shares).with_context(named)?)
        }
        None => range_of(&simple, view).with_context(named)?,
    };
    let png = Png::new(simple, range.map(Scale::from), width, height);
    let mut stream = Stream::default();
    output.send(&png.head())?;
    let mut progress = Progress::new(named(), view.nbytes(), global.quiet);
    let row = (width as usize).saturating_mul(dtype.itemsize().max(1));
    // Rows that are not written yet: pieces may end within a row.
    let (mut buffer, mut rest) = (Vec::new(), Vec::new());
    for piece in view.pieces() {
        view.read(&piece, &mut buffer).with_context(named)?;
        progress.add(buffer.len() as u64);
        if rest.is_empty() && buffer.len().is_multiple_of(row) {
            bands(&png, &mut stream, &buffer, row, &mut output)?;
            continue;
        }
        rest.try_reserve(buffer.len())?;
        rest.extend_from_slice(&buffer);
        let whole = rest.len() - rest.len() % row;
        bands(&png, &mut stream, &rest[..whole], row, &mut output)?;
        rest.drain(..whole);
    }
    output.send(&stream.tail())?;
    drop(progress);
    output.finish()
}

/// Most pixels of a picture of which shares are found, since all numbers are sorted in memory.
const MAX_SORTED: u64 = 1 << 27;

/// The range between two shares of the numbers of a picture.
fn range_of_shares(simple: &Simple, view: &View<'_>, shares: Limits) -> Result<Range> {
    let pixels = view.shape().iter().fold(1, |n: u64, &length| n.saturating_mul(length));
    ensure!(pixels <= MAX_SORTED, "--range: with more than {MAX_SORTED} pixels in values, not in shares");
    let (mut buffer, mut numbers) = (Vec::new(), Vec::new());
    numbers.try_reserve_exact(usize::try_from(pixels)?)?;
    for piece in view.pieces() {
        view.read(&piece, &mut buffer)?;
        simple.numbers(&buffer, &mut numbers);
    }
    let scale = scale(&numbers, Some(shares), Map::default(), false, simple.is_float());
    scale.map(|scale| scale.range).map_err(|NoLogarithm| anyhow!("--range: no logarithm"))
}

/// The range of all numbers of a picture.
fn range_of(simple: &Simple, view: &View<'_>) -> Result<Option<Range>> {
    let (mut buffer, mut all) = (Vec::new(), None);
    for piece in view.pieces() {
        view.read(&piece, &mut buffer)?;
        let parts = buffer.chunks(simple.size().max(1) << 14);
        let make = |part: &[u8]| {
            let mut numbers = Vec::new();
            simple.numbers(part, &mut numbers);
            anyhow::Ok(Range::of(&numbers, simple.is_float()))
        };
        let join = |found: Option<Range>| {
            let joined = all.zip(found).map(|(all, found): (Range, Range)| all.join(found));
            all = joined.or(all).or(found);
            Ok(())
        };
        in_order(&Control::new(), usize::MAX, buffer.len() as u64, 64, parts, make, join)?;
    }
    Ok(all)
}

/// Writes rows of a picture, band by band.
fn bands(png: &Png, stream: &mut Stream, rows: &[u8], row: usize, output: &mut Output) -> Result<()> {
    let control = Control::new();
    let parts = rows.chunks(row.saturating_mul(png.band_height()));
    let send = |band| output.send(&stream.data(&band));
    // Compressing takes much longer than decoding.
    let work = (rows.len() as u64).saturating_mul(16);
    in_order(&control, usize::MAX, work, 2 * workers(&control), parts, |rows| png.band(rows), send)
}

/// Chunk `nchunk` of a frame, as a bare chunk.
fn chunk(input: &Input, nchunk: usize) -> Result<Input> {
    let frame = input.frame().context("--chunk: this is a bare chunk, not a frame")?;
    if nchunk >= frame.nchunks() {
        bail!("--chunk {nchunk}: there are {} chunks", frame.nchunks());
    }
    Ok(Input::from_chunk(frame.chunk(nchunk).read()?, frame.dparams().clone()))
}
