//! `b2kit show`

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, anyhow, ensure};
use b2_view::limits::{Limits, NoLogarithm, scale};
use b2kit::Dtype;

use crate::args::{Global, Source};
use crate::files::print;
use crate::print::{
    Map, Range, Simple, Stats, Table, colours, columns, count, dims, half_blocks, items, printable,
};
use crate::process::{Progress, capture};
use crate::read::{Data, View, slice};

const EXAMPLES: &str = "\
Examples:
  b2kit show data.b2nd
  b2kit show data.npy --slice='0, ..., ::-1'
  b2kit show log.b2frame --dtype '<f4' --slice=-10:
  b2kit cat data.b2nd | b2kit pack - - | b2kit show -
  b2kit show x.h5::/group/dataset

The values are printed as by NumPy: of more than 1000 items, three at each end of
each dimension. In a terminal, two dimensions are drawn as well, unless NO_COLOR is
set; NaN and values beyond 1e19, which mark missing ones, have no colour.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Only these items, in NumPy's notation
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    slice: Option<String>,
    /// Read the items as this type, such as '<f4' (for files without a dtype)
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Draw two dimensions, even if the output is not a terminal
    #[arg(long, overrides_with = "no_picture")]
    picture: bool,
    /// Draw nothing
    #[arg(long)]
    no_picture: bool,
    /// Do not compute statistics, which reads all items
    #[arg(long)]
    no_stats: bool,
    /// Values of the first and the last colour [default: the smallest and the largest value]
    ///
    /// LOW:HIGH are values. With % they are shares of the values that are drawn: 2%:98% leaves out the smallest and the
    /// largest of them.
    #[arg(long, value_name = "LOW:HIGH", allow_hyphen_values = true)]
    range: Option<Limits>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let global = global.with_output_limit();
    let parts = args.slice.as_deref().map(slice::parse).transpose()?.unwrap_or_default();
    let named = || args.source.file.display().to_string();
    let text = (|| {
        let data = Data::open(&args.source, global)?;
        let dtype = data.dtype_or(args.dtype.as_deref())?;
        let view = data.view(&parts)?;
        text(args, &data, &dtype, &view, global)
    })()
    .with_context(named)?;
    print(&text)
}

/// The complete output for these items.
fn text(args: &Args, data: &Data, dtype: &Dtype, view: &View<'_>, global: Global) -> Result<String> {
    let shape = view.shape();
    let summarised = items::is_summarised(&shape);
    let values = items::array(dtype, &shape, &view.edges(summarised)?);
    let mut table = Table::default();
    table.row("shape", dims(&shape));
    table.row("dtype", printable(dtype.as_str()));
    let mut stats = Stats::new(dtype);
    let computes = stats.is_any() && !args.no_stats;
    // Check the limit only if decoding the selection would take long.
    let limited = view.nbytes() > global.limits(0).max_output;
    match if limited { data.check_output() } else { Ok(()) } {
        Err(limit) if computes => {
            table.row("statistics", format!("none: {}", crate::process::error::one_line(&limit)))
        }
        _ if computes => {
            let mut progress =
                Progress::new(args.source.file.display().to_string(), view.nbytes(), global.quiet);
            let mut buffer = Vec::new();
            for piece in view.pieces() {
                view.read(&piece, &mut buffer)?;
                stats.add(&buffer);
                progress.add(buffer.len() as u64);
            }
            stats.report(&mut table);
        }
        _ => {}
    }
    let mut out = format!("{}\n\n{}", printable_lines(&values), table.render(0));
    let terminal = io::stdout().is_terminal() && !capture::is_active();
    if args.picture || (terminal && colours() && !args.no_picture) {
        let limits = || stats.range().map(|(low, high)| Limits::Values(Range { low, high }));
        let range = args.range.or_else(limits);
        match (&shape[..], range) {
            ([height, width], Some(range)) if *height > 1 && *width > 1 => {
                out.push('\n');
                out.push_str(&picture(view, dtype, range)?);
            }
            _ if args.picture => {
                ensure!(
                    shape.len() == 2,
                    "--picture: {}, two are needed; --slice picks them",
                    count(shape.len() as u64, "dimension")
                );
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Height of a picture in lines.
const HEIGHT: u64 = 24;

fn picture(view: &View<'_>, dtype: &Dtype, range: Limits) -> Result<String> {
    let shape = view.shape();
    let [height, width] = shape[..] else { return Ok(String::new()) };
    // A pixel is about square: one column wide and half a line high. Both dimensions are scaled by the same factor.
    let (rows, columns) = (2 * HEIGHT, columns() as u64);
    let step = width.div_ceil(columns.max(1)).max(height.div_ceil(rows)).max(1);
    let (shape, items) = view.thinned(&[height.div_ceil(step), width.div_ceil(step)])?;
    let simple = Simple::new(dtype);
    let items = items.chunks_exact(dtype.itemsize().max(1));
    let numbers: Vec<_> = items.map(|item| simple.value(item).number().unwrap_or(f64::NAN)).collect();
    let scale = scale(&numbers, Some(range), Map::default(), false, simple.is_float());
    let scale = scale.map_err(|NoLogarithm| anyhow!("--range: no logarithm"))?;
    let pixels: Vec<_> = numbers.iter().map(|x| scale.colour(*x)).collect();
    Ok(half_blocks(&pixels, usize::try_from(shape.get(1).copied().unwrap_or(0))?))
}

/// Replaces control characters, except for newlines.
fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}
