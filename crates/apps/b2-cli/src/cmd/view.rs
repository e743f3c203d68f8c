//! `b2kit view`

#[cfg(feature = "terminal")]
mod app;
#[cfg(feature = "terminal")]
mod graphics;
#[cfg(any(feature = "headless", all(test, feature = "terminal")))]
mod headless;
#[cfg(feature = "terminal")]
mod request;
#[cfg(feature = "terminal")]
mod screen;
#[cfg(feature = "terminal")]
mod terminal;
#[cfg(all(test, feature = "terminal"))]
mod testing;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "terminal")]
mod worker;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use b2_view::edges::{AxisMarks, edge};
use b2_view::limits::{Limits, NoLogarithm, scale};

use crate::args::{Global, Source};
use crate::files::{ModeOf, Output, is_stdin, members, refuse_same, urls};
use crate::print::figure::{Canvas, Image, Line, MAX_SIZE};
use crate::print::{Map, Scale, colours, columns, count, half_blocks, joined, printable};
use crate::process::{Usage, capture, say};
use crate::read::dims::{Labels, points};
use crate::read::sample::{self, Cost, Numbers, line, plane};
use crate::read::{Axis, Data, resolve, slice};

const EXAMPLES: &str = "\
Examples:
  b2kit view data.b2nd
  b2kit view data.b2nd -o data.png
  b2kit view data.b2nd --slice=0,::-1 --range=-2:32 -o january.svg
  b2kit view data.b2nd --range=2%:98% --map cividis > data.png
  b2kit view table.b2nd --field speed --log -o speed.png

In a terminal, without OUT, it uses the whole screen; ? lists the keys, and Ctrl-Z
suspends it.

Two dimensions are drawn as an image with a colour bar, one as a line. Of more, the
plane in the middle is drawn, and a message names it. NaN, values beyond 1e19 and those
of the attribute _FillValue are drawn as missing.

Each pixel of a large array shows one item. If these are in too many blocks, only
every n-th block is read, and the picture says so.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Only these items, in NumPy's notation
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    slice: Option<String>,
    /// Write the picture here instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Overwrite OUT
    #[arg(long)]
    force: bool,
    /// Format of the picture [default: from the extension of OUT, otherwise png]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Draw this field of records
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    /// Read the items as this type, such as '<f4' (for files without a dtype)
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// The colours
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    map: Map,
    /// Values of the first and the last colour
    ///
    /// LOW:HIGH are values. With % they are shares of the values that are drawn: 2%:98% leaves out the smallest and the
    /// largest of them. The default is from the smallest to the largest.
    #[arg(long, value_name = "LOW:HIGH", allow_hyphen_values = true)]
    range: Option<Limits>,
    /// Equal steps of colour are equal ratios of values
    #[arg(long)]
    log: bool,
    /// How to send pixels to a terminal [default: from its environment variables]
    #[cfg(feature = "terminal")]
    #[arg(long, value_enum, value_name = "HOW")]
    pixels: Option<graphics::Pixels>,
    /// For tests: press these keys without a terminal, and print the screen that follows
    #[cfg(feature = "headless")]
    #[arg(long, value_name = "KEYS", hide = true, conflicts_with_all = ["output", "format"])]
    keys: Option<String>,
    /// Show FILE, which may be a folder, in a browser: serve it on this computer only, until Ctrl-C
    #[arg(long, hide = cfg!(not(feature = "web")), conflicts_with_all = ["output", "format", "html"])]
    web: bool,
    /// Print the address, but open no browser
    #[arg(long, hide = cfg!(not(feature = "web")), requires = "web")]
    no_open: bool,
    /// Write a self-contained page that shows FILE
    #[arg(long, value_name = "OUT", hide = cfg!(not(feature = "web")), conflicts_with_all = ["output", "format"])]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Format {
    /// Pixels
    Png,
    /// Vectors; an image in it has one pixel for each item that was read
    Svg,
}

/// Bytes of blocks to decode for a picture: of local files, and of those on servers.
const LOCAL: u64 = 1 << 30;
const REMOTE: u64 = 128 << 20;

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let _mode = ModeOf::inputs([&*args.source.file]);
    #[cfg(not(feature = "web"))]
    if args.web || args.html.is_some() {
        debug_assert!(!args.no_open || args.web);
        let how = "rustup target add wasm32-unknown-unknown && cargo install --path crates/apps/b2-cli --features web";
        return Err(Usage(format!("--web and --html are not in this build. In a clone, run: {how}")).into());
    }
    #[cfg(feature = "web")]
    if args.web || args.html.is_some() {
        let Args { source, slice, field, map, range, log, no_open, .. } = args;
        if args.dtype.is_some() {
            return Err(
                Usage("--dtype: not with --web and --html, which show the items as they are".into()).into()
            );
        }
        let (slice, field, source) = (slice.as_deref(), field.as_deref(), &source.inside());
        let shown =
            web::BrowserView { source, slice, field, map: *map, range: *range, log: *log, opens: !no_open };
        return match &args.html {
            Some(output) => web::write(&shown, output, args.force),
            None => web::serve(&shown, global),
        };
    }
    if let Some(output) = &args.output {
        refuse_same(output, &args.source.file)?;
    }
    let format = format(args)?;
    let named = || args.source.file.display().to_string();
    let parts = args.slice.as_deref().map(slice::parse).transpose()?.unwrap_or_default();
    #[cfg(feature = "headless")]
    let keys = args.keys.as_deref();
    #[cfg(all(feature = "terminal", not(feature = "headless")))]
    let keys = None::<&str>;
    #[cfg(feature = "terminal")]
    if keys.is_some() || is_interactive(args) {
        let Args { source, dtype, map, log, range, field, .. } = args;
        let app = app::App::new(&named(), source.key.clone(), *map, *log, *range).with_field(field.clone());
        let opening = request::ViewSource { source: source.inside(), parts, dtype: dtype.clone(), global };
        #[cfg(feature = "headless")]
        if let Some(keys) = keys {
            let screen = headless::run(app, opening, keys).with_context(named)?;
            let mut output = Output::create(None, false)?;
            output.send(screen.as_bytes())?;
            return output.finish();
        }
        let pixels = args.pixels.unwrap_or_else(|| graphics::detect(|name| std::env::var(name).ok()));
        return terminal::run(app, opening, pixels).with_context(named);
    }
    let data = Data::open(&args.source, global).with_context(named)?;
    let mut output = Output::create(args.output.as_deref(), args.force)?;
    let terminal = args.output.is_none() && io::stdout().is_terminal() && !capture::is_active();
    let bytes = (|| {
        let picture = Picture::new(args, &data, &parts, global)?;
        if terminal && format == Format::Png {
            return Ok(picture.text()?.into_bytes());
        }
        let canvas = picture.draw()?;
        Ok::<_, anyhow::Error>(match format {
            Format::Png => canvas.png()?,
            Format::Svg => canvas.svg()?.into_bytes(),
        })
    })()
    .with_context(named)?;
    output.send(&bytes)?;
    output.finish()
}

/// Whether standard input and output are both terminals.
pub(crate) fn is_interactive(args: &Args) -> bool {
    if args.web || args.html.is_some() {
        return false;
    }
    let plain = cfg!(not(feature = "terminal"))
        || args.output.is_some()
        || args.format.is_some()
        || capture::is_active()
        || console::is_dumb();
    !plain && io::stdout().is_terminal() && io::stdin().is_terminal() && !is_stdin(&args.source.file)
}

/// The format: as requested, otherwise from the extension of OUT.
fn format(args: &Args) -> Result<Format> {
    let ending = args.output.as_deref().and_then(members::extension);
    match (args.format, ending.as_deref(), &args.output) {
        (Some(format), ..) => Ok(format),
        (None, Some("png"), _) | (None, None, None) => Ok(Format::Png),
        (None, Some("svg"), _) => Ok(Format::Svg),
        (None, _, Some(path)) if crate::files::stdio::is_stream(path) => Ok(Format::Png),
        _ => Err(Usage("OUT must end in .png or .svg, or give --format".into()).into()),
    }
}

/// A picture: the data, and how it is drawn.
struct Picture<'a> {
    args: &'a Args,
    data: &'a Data,
    numbers: Numbers,
    labels: Labels,
    /// The selected items, with a single position in dimensions that are not drawn.
    axes: Vec<Axis>,
    /// The dimensions that are drawn: rows and columns, or just one.
    drawn: Vec<usize>,
    cost: Cost,
    global: Global,
}

impl<'a> Picture<'a> {
    fn new(args: &'a Args, data: &'a Data, parts: &[b2kit::Selection], global: Global) -> Result<Self> {
        let labels = data.labels();
        let dtype = data.dtype_or(args.dtype.as_deref())?;
        let mut numbers = sample::numbers(&dtype, args.field.as_deref(), labels.fills.clone())?;
        if let Some(Limits::Values(range)) = args.range {
            numbers = numbers.known(range);
        }
        let mut axes = resolve(parts, &data.shape())?;
        ensure!(axes.iter().all(|axis| axis.len > 0), "there is nothing to draw: no items are selected");
        let long: Vec<usize> =
            (0..axes.len()).filter(|dim| !axes[*dim].dropped && axes[*dim].len > 1).collect();
        ensure!(!long.is_empty(), "a single item cannot be drawn; `b2kit show` prints it");
        let (others, drawn) = long.split_at(long.len().saturating_sub(2));
        for dim in others {
            let axis = &mut axes[*dim];
            *axis = Axis { dropped: true, step: 1, ..axis.part(axis.len / 2, axis.len / 2 + 1) };
        }
        let drawn = drawn.to_vec();
        let decoded = if urls::is_url(&args.source.file) { REMOTE } else { LOCAL };
        let cost = Cost { decoded, looks: None };
        let picture = Self { args, data, numbers, labels, axes, drawn, cost, global };
        if !others.is_empty() && !global.quiet {
            let file = printable(&args.source.file.display().to_string());
            let all = count(long.len() as u64, "dimension");
            say(&format!("{file}: {all}; {} is the plane through the middle", picture.place()));
        }
        Ok(picture)
    }

    /// The plane or line in the notation of `--slice`.
    fn place(&self) -> String {
        let shape = self.data.shape();
        let parts = self.axes.iter().zip(shape).map(|(axis, length)| match axis {
            Axis { dropped: true, start, .. } => start.to_string(),
            Axis { start: 0, step: 1, len, .. } if *len == length => ":".into(),
            Axis { start, step: -1, len, .. } if *len == length && start + 1 == length => "::-1".into(),
            axis => {
                let last = axis.position(axis.len - 1);
                let stop = match axis.step {
                    1.. => (last + 1).to_string(),
                    _ => last.checked_sub(1).map_or(String::new(), |stop| stop.to_string()),
                };
                let step = if axis.step == 1 { String::new() } else { format!(":{}", axis.step) };
                format!("{}:{stop}{step}", axis.start)
            }
        });
        format!("[{}]", parts.collect::<Vec<_>>().join(", "))
    }

    /// The lines above the picture. `thinned`: one item of this many along each dimension is drawn.
    fn titles(&self, thinned: &[u64], every: u64) -> Vec<String> {
        let Args { source, field, .. } = self.args;
        let file = source.file.file_name().map_or("".into(), |name| name.to_string_lossy().into_owned());
        let key = source.key.as_ref().map(|key| format!(" {key}")).unwrap_or_default();
        let field = field.as_ref().map(|field| format!(" {field}")).unwrap_or_default();
        let dtype = self.data.dtype();
        let dtype = if dtype.fields().is_some() { "records".to_owned() } else { dtype.as_str().to_owned() };
        let mut titles = vec![
            format!("{file}{key}{field}"),
            format!("{dtype} ({}), {}", joined(&self.data.shape(), ", "), self.place()),
        ];
        let by = |lens: &[u64]| lens.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
        let mut left_out = Vec::new();
        if thinned.iter().any(|n| *n > 1) {
            left_out.push(format!("one item of {}", by(thinned)));
        }
        if every > 1 {
            left_out.push(format!("one block of {}", by(&vec![every; self.drawn.len()])));
        }
        if !left_out.is_empty() {
            titles.push(left_out.join(", "));
        }
        titles
    }

    /// The scale for these numbers.
    fn scale(&self, numbers: &[f64]) -> Result<Scale> {
        let Args { map, log, .. } = *self.args;
        let scale = scale(numbers, self.args.range, map, log, self.numbers.is_float());
        scale.map_err(|NoLogarithm| Usage("--log: --range must start above 0".into()).into())
    }

    fn unit(&self) -> String {
        match (self.labels.unit.as_str(), self.numbers.is_complex()) {
            (unit, false) => unit.to_owned(),
            ("", true) => "absolute value".to_owned(),
            (unit, true) => format!("absolute value of {unit}"),
        }
    }

    fn name(&self, dim: usize) -> String {
        match self.labels.names.get(dim) {
            Some(name) => name.clone(),
            None if self.axes.len() == 1 => "item".into(),
            None => format!("dimension {dim}"),
        }
    }

    /// The marks along a dimension.
    fn edge(&self, dim: usize, most: usize) -> AxisMarks {
        let points = points(&self.args.source.inside(), self.data, &self.labels, dim, self.global);
        let axis = self.axes[dim];
        edge(&self.name(dim), points.as_ref(), axis, &(0..axis.len), most)
    }

    fn draw(&self) -> Result<Canvas> {
        let most = [MAX_SIZE[1], MAX_SIZE[0]];
        if let [dim] = self.drawn[..] {
            let window = 0..self.axes[dim].len;
            let found = line(self.data, &self.numbers, &self.axes, dim, &window, most[1], &self.cost)?;
            let ends: Vec<f64> = found.columns.iter().flat_map(|column| [column.low, column.high]).collect();
            let thinned = window.end.div_ceil(found.columns.len().max(1) as u64);
            let mut titles = self.titles(&[], found.every);
            if thinned > 1 {
                titles.push(format!("{thinned} items for each pixel, from the smallest to the largest"));
            }
            let (scale, unit) = (self.scale(&ends)?, self.unit());
            let line = Line {
                titles: &titles,
                columns: &found.columns,
                scale,
                format: self.numbers.format(),
                unit: &unit,
                across: self.edge(dim, 8),
            };
            return Ok(line.draw());
        }
        let [rows, across] = self.drawn[..] else { return Err(anyhow::anyhow!("there is nothing to draw")) };
        let windows = [0..self.axes[rows].len, 0..self.axes[across].len];
        let found = plane(self.data, &self.numbers, &self.axes, [rows, across], &windows, most, &self.cost)?;
        let (titles, unit) = (self.titles(&found.steps, found.every), self.unit());
        let image = Image {
            titles: &titles,
            shape: [found.at[1].len(), found.at[0].len()],
            values: &found.values,
            scale: self.scale(&found.values)?,
            format: self.numbers.format(),
            unit: &unit,
            across: self.edge(across, 7),
            down: self.edge(rows, 7),
        };
        Ok(image.draw())
    }

    /// The picture as text, for a terminal.
    fn text(&self) -> Result<String> {
        let wide = columns();
        let mut drawn = self.drawn.clone();
        if drawn.len() == 1 {
            // A line is one row of pixels, a few lines high.
            drawn.insert(0, drawn[0]);
        }
        let [rows, across] = drawn[..] else { return Ok(String::new()) };
        let (values, shape) = if rows == across {
            let window = 0..self.axes[rows].len;
            let found = line(self.data, &self.numbers, &self.axes, rows, &window, wide, &self.cost)?;
            let row: Vec<f64> = found.columns.iter().map(|column| column.high).collect();
            (row.repeat(4), [row.len(), 4])
        } else {
            let windows = [0..self.axes[rows].len, 0..self.axes[across].len];
            let found = plane(
                self.data,
                &self.numbers,
                &self.axes,
                [rows, across],
                &windows,
                [48, wide],
                &self.cost,
            )?;
            (found.values, [found.at[1].len(), found.at[0].len()])
        };
        let scale = self.scale(&values)?;
        let mut out =
            self.titles(&[], 1).iter().map(|title| format!("{}\n", printable(title))).collect::<String>();
        if colours() {
            let pixels: Vec<_> = values.iter().map(|x| scale.colour(*x)).collect();
            out.push_str(&half_blocks(&pixels, shape[0]));
        }
        let value = |x: f64| self.numbers.format().date(x).unwrap_or_else(|| x.to_string());
        out.push_str(&format!("from {} to {}\n", value(scale.range.low), value(scale.range.high)));
        Ok(out)
    }
}
