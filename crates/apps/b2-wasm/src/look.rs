//! Pictures of a file: numbers in one or two dimensions, and their colours.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use b2_view::colours::{Map, Scale};
use b2_view::edges::{Coordinates, edge};
use b2_view::grid::{ChunkedAxis, PixelGrid, pairs};
use b2_view::items;
use b2_view::limits::{Limits, NoLogarithm, scale};
use b2_view::numbers::{NoNumbers, Numbers};
use b2_view::slice::{Axis, parse, resolve};
use b2_view::ticks::ValueFormat;
use b2nd::Dtype;
use serde_json::{Value, json};

use crate::file::OpenFile;

/// Minimum cost of a block, in equivalent decoded bytes.
const MIN_BLOCK_COST: u64 = 16 << 10;
/// Lines longer than this are sampled at one item per pixel.
const MAX_WHOLE_LINE: u64 = 1 << 20;
/// Maximum number of marks of an axis.
const MAX_TICKS: usize = 50;
/// Number of bars of a histogram.
const HISTOGRAM_BARS: usize = 64;

/// A request for a picture.
#[derive(Clone, Debug)]
pub struct LookRequest {
    /// The selection, in NumPy's notation; empty for all.
    pub slice: String,
    /// The dimensions that are drawn: rows and columns, or one.
    pub dims: Vec<usize>,
    /// The parts of them that are shown, as positions in the selection.
    pub windows: Vec<Range<u64>>,
    /// Maximum height and width in pixels.
    pub most: [usize; 2],
    /// Maximum number of bytes to decode.
    pub decoded: u64,
    /// Number of the field of records.
    pub field: Option<usize>,
}

/// The numbers of a picture, one per pixel.
#[derive(Debug)]
pub struct Picture {
    dtype: Dtype,
    axes: Vec<Axis>,
    dims: Vec<usize>,
    /// The parts of the selection that are shown, along rows and columns.
    windows: [Range<u64>; 2],
    /// Positions in the selection along rows and columns.
    at: [Vec<u64>; 2],
    steps: [u64; 2],
    every: u64,
    /// The items that were read, and which of them each pixel shows.
    items: Vec<u8>,
    index: Vec<u32>,
    values: Vec<f64>,
    /// The smallest and the largest integer, which `values` may have rounded.
    integers: Option<(i128, i128)>,
    are_floats: bool,
    format: ValueFormat,
}

/// Resolves a selection.
///
/// # Errors
/// When it is malformed or out of range.
pub fn axes(slice: &str, shape: &[u64]) -> Result<Vec<Axis>> {
    let parts = if slice.trim().is_empty() { Vec::new() } else { parse(slice)? };
    resolve(&parts, shape)
}

/// Describes the axes of a selection.
///
/// # Errors
/// As for [`axes`].
pub fn describe(slice: &str, shape: &[u64]) -> Result<Value> {
    let axis = |Axis { start, step, len, dropped }| json!({"start": start, "step": step, "len": len, "dropped": dropped});
    Ok(json!({"axes": axes(slice, shape)?.into_iter().map(axis).collect::<Value>()}))
}

/// Returns the error for items that cannot be drawn.
fn number_error(no: NoNumbers) -> anyhow::Error {
    match no {
        NoNumbers::Records(_) | NoNumbers::NoFields | NoNumbers::NoSuchField(_) => {
            anyhow::anyhow!("choose a field of the records")
        }
        NoNumbers::Array => anyhow::anyhow!("a field that is an array cannot be drawn"),
        NoNumbers::Other(dtype) => anyhow::anyhow!("items of {dtype} cannot be drawn"),
    }
}

impl Picture {
    /// Reads the requested picture.
    ///
    /// # Errors
    /// When the selection does not fit, or the file cannot be read or is damaged.
    pub async fn read(opened: &OpenFile, wanted: &LookRequest) -> Result<Self> {
        let (dtype, labels, shape) = opened.items()?;
        let field = match (wanted.field, dtype.fields()) {
            (Some(k), Some(fields)) => Some(fields.get(k).context("there is no such field")?.name.clone()),
            _ => None,
        };
        let numbers = Numbers::new(&dtype, field.as_deref(), labels.fills).map_err(number_error)?;
        let axes = axes(&wanted.slice, &shape)?;
        ensure!(axes.iter().all(|axis| axis.len > 0), "no items are selected");
        let axis = |dim: usize| axes.get(dim).copied().context("there is no such dimension");
        // One dimension is drawn as a single row.
        let (dims, windows) = match (&wanted.dims[..], &wanted.windows[..]) {
            ([dim], [window]) => ([*dim, *dim], [0..1, window.clone()]),
            ([rows, columns], [down, across]) if rows != columns => {
                ([*rows, *columns], [down.clone(), across.clone()])
            }
            _ => bail!("only one or two dimensions can be drawn"),
        };
        let line = dims[0] == dims[1];
        for (d, (window, dim)) in windows.iter().zip(dims).enumerate() {
            let len = if line && d == 0 { 1 } else { axis(dim)?.len };
            ensure!(window.start < window.end && window.end <= len, "the window is outside of the selection");
        }
        axis(dims[0])?;
        let (cuts, nbytes) = cuts(opened, dims, line);
        let mut most = wanted.most;
        if line && windows[1].end - windows[1].start <= MAX_WHOLE_LINE {
            most[1] = MAX_WHOLE_LINE as usize;
        }
        let position = |d: usize, k: u64| match dims.get(d).and_then(|dim| axes.get(*dim)) {
            Some(axis) if !(line && d == 0) => axis.position(k),
            _ => 0,
        };
        let grid = PixelGrid::new(&windows, most, numbers.itemsize(), position, cuts, nbytes, wanted.decoded);
        let places = [0, 1].map(|d| grid.places(d).map(|k| position(d, k)).collect::<Vec<_>>());
        let items = gather(opened, &axes, dims, places).await?;
        let count = u32::try_from(items.len() / numbers.itemsize().max(1)).context("too many items")?;
        let mut found = Vec::with_capacity(count as usize);
        numbers.take(&items, &mut found);
        let values = grid.spread(found);
        let index = grid.spread((0..count).collect());
        let PixelGrid { at, every, steps, .. } = grid;
        let are_floats = numbers.is_float();
        let (integers, format) = (numbers.integers(&items), numbers.format());
        let dims = if line { vec![dims[1]] } else { dims.to_vec() };
        Ok(Self {
            dtype,
            axes,
            dims,
            windows,
            at,
            steps,
            every,
            items,
            index,
            values,
            integers,
            are_floats,
            format,
        })
    }

    /// Describes what was read.
    #[must_use]
    pub fn describe(&self) -> Value {
        let [height, width] = self.at.each_ref().map(Vec::len);
        json!({"height": height, "width": width, "steps": self.steps, "every": self.every})
    }

    /// Returns the positions of the pixels along rows or columns in the selection.
    #[must_use]
    pub fn places(&self, d: usize) -> &[u64] {
        self.at.get(d).map_or(&[], Vec::as_slice)
    }

    /// Returns the numbers, row by row, NaN for those that are missing on this scale.
    pub fn values(&self, scale: Scale) -> impl Iterator<Item = f64> {
        self.values.iter().map(move |x| if scale.range.is_missing(*x) { f64::NAN } else { *x })
    }

    /// Returns the scale of the colours.
    ///
    /// # Errors
    /// When the range is malformed or starts below 0 on a logarithmic scale.
    pub fn scale(&self, range: &str, map: Map, log: bool) -> Result<Scale> {
        let limits = match range.trim() {
            "" => None,
            text => Some(text.parse::<Limits>().map_err(anyhow::Error::msg)?),
        };
        scale(&self.values, limits, map, log, self.are_floats)
            .map_err(|NoLogarithm| anyhow::anyhow!("a logarithmic range starts above 0"))
    }

    /// Colours the pixels: returns a legend, and red, green, blue and opacity, row by row.
    #[must_use]
    pub fn paint(&self, scale: Scale) -> (Value, Vec<u8>) {
        let mut pixels = Vec::with_capacity(self.values.len().saturating_mul(4));
        let (mut missing, mut bars) = (0, [0_u64; HISTOGRAM_BARS]);
        for value in &self.values {
            let colour = scale.colour(*value);
            match colour {
                Some(_) => {
                    let bar = (scale.share(*value) * HISTOGRAM_BARS as f64) as usize;
                    if let Some(bar) = bars.get_mut(bar.min(HISTOGRAM_BARS - 1)) {
                        *bar = bar.saturating_add(1);
                    }
                }
                None => missing += 1,
            }
            let [r, g, b] = colour.unwrap_or_else(|| scale.map.missing());
            pixels.extend([r, g, b, 255]);
        }
        let ends = self.integers.map(|(low, high)| [low, high]);
        (legend(scale, self.format, ends, missing, &bars), pixels)
    }

    /// Describes the axes: their titles, and about `most` items or coordinates along each, with their positions from 0
    /// to 1.
    #[must_use]
    pub fn edges<'a>(
        &self,
        names: &[String],
        most: &[usize],
        points: impl Fn(usize) -> Option<&'a Coordinates>,
    ) -> Value {
        // A line has columns only.
        let windows = self.windows.iter().skip(2 - self.dims.len());
        let edges = self.dims.iter().zip(windows).zip(most).filter_map(|((dim, window), most)| {
            let name = names.get(*dim).cloned().unwrap_or_else(|| format!("dimension {dim}"));
            let edge = edge(&name, points(*dim), *self.axes.get(*dim)?, window, (*most).min(MAX_TICKS));
            Some(json!({"title": edge.title, "marks": edge.marks}))
        });
        json!({"edges": edges.collect::<Value>()})
    }

    /// Describes a pixel: the position of its item, its coordinates if any, and its value formatted like NumPy.
    ///
    /// # Errors
    /// When there is no such pixel.
    pub fn cell<'a>(
        &self,
        row: usize,
        column: usize,
        points: impl Fn(usize) -> Option<&'a Coordinates>,
    ) -> Result<Value> {
        let size = self.dtype.itemsize();
        let place = |d: usize, k: usize| self.places(d).get(k).copied().context("there is no such pixel");
        let places = [place(0, row)?, place(1, column)?];
        let wide = self.at[1].len();
        let at =
            row.checked_mul(wide).and_then(|at| at.checked_add(column)).context("there is no such pixel")?;
        let index = *self.index.get(at).context("there is no such pixel")? as usize;
        let start = index.saturating_mul(size);
        let item = self.items.get(start..start.saturating_add(size)).unwrap_or_default();
        let mut position: Vec<u64> = self.axes.iter().map(|axis| axis.start).collect();
        let own = if self.dims.len() == 1 { &places[1..] } else { &places[..] };
        for (dim, place) in self.dims.iter().zip(own) {
            if let (Some(position), Some(axis)) = (position.get_mut(*dim), self.axes.get(*dim)) {
                *position = axis.position(*place);
            }
        }
        let label =
            |(dim, at): (usize, &u64)| points(dim).map_or_else(String::new, |points| points.label(*at));
        Ok(json!({
            "position": position,
            "points": position.iter().enumerate().map(label).collect::<Value>(),
            "value": items::item(&self.dtype, item),
            "number": self.values.get(at),
        }))
    }
}

fn legend(
    scale: Scale,
    format: ValueFormat,
    integers: Option<[i128; 2]>,
    missing: u64,
    bars: &[u64],
) -> Value {
    // Integers have all of their digits.
    let end = |k: usize, x: f64| match integers.and_then(|ends| ends.get(k).copied()) {
        Some(int) if int as f64 == x => int.to_string(),
        _ => format.date(x).unwrap_or_default(),
    };
    let (low, high) = (scale.range.low, scale.range.high);
    let marks = format.marks(low, high, 5, scale.log).into_iter();
    // From the top.
    let marks = marks.map(|(x, text)| json!([1.0 - scale.share(x), text]));
    let colours = (0..=32).map(|k| json!(scale.map.at(f64::from(k) / 32.0)));
    json!({
        "low": low,
        "high": high,
        "first": end(0, low),
        "last": end(1, high),
        "marks": marks.collect::<Value>(),
        "missing": missing,
        "bars": bars,
        "colours": colours.collect::<Value>(),
        "none": scale.map.missing(),
    })
}

/// The chunks and blocks along the drawn dimensions, and the cost of a block.
fn cuts(opened: &OpenFile, dims: [usize; 2], line: bool) -> ([ChunkedAxis; 2], u64) {
    let (mut cuts, nbytes) = match opened {
        OpenFile::Array(array) => {
            let array = array.array();
            (dims.map(|dim| ChunkedAxis::of(array, dim)), array.geometry().block_nbytes() as u64)
        }
        OpenFile::Frame(frame) => {
            let frame = frame.super_chunk();
            let size = frame.itemsize().max(1) as u64;
            // The header of a frame need not define the block size.
            let block = Some(frame.header().blocksize() as u64).filter(|size| *size > 0);
            let block = block.unwrap_or(frame.chunksize() as u64);
            (dims.map(|_| ChunkedAxis::new(frame.chunksize() as u64 / size, block / size)), block)
        }
        OpenFile::Store(_) => (dims.map(|_| ChunkedAxis::new(1, 1)), 0),
    };
    if line {
        cuts[0] = ChunkedAxis::new(1, 1);
    }
    (cuts, nbytes.max(MIN_BLOCK_COST))
}

/// Reads the items at all pairs of these positions, row by row.
async fn gather(
    opened: &OpenFile,
    axes: &[Axis],
    dims: [usize; 2],
    positions: [Vec<u64>; 2],
) -> Result<Vec<u8>> {
    let line = dims[0] == dims[1];
    match opened {
        OpenFile::Array(array) => {
            let selections = pairs(axes, dims, &positions)?;
            let slice = array.slice(selections)?;
            let slice = if dims[0] > dims[1] { slice.map(|slice| Ok(slice.transpose()))? } else { slice };
            Ok(slice.read_bytes().await?)
        }
        OpenFile::Frame(frame) => {
            ensure!(line, "only one dimension can be drawn");
            let [_, positions] = positions;
            Ok(frame.gather(&positions).await?)
        }
        OpenFile::Store(_) => bail!("a store itself has no items"),
    }
}

/// Returns a colour map by name.
///
/// # Errors
/// When there is no such map.
pub fn map(name: &str) -> Result<Map> {
    Ok(match name {
        "viridis" => Map::Viridis,
        "cividis" => Map::Cividis,
        "grey" => Map::Grey,
        "diverging" => Map::Diverging,
        _ => bail!("there is no such colour map"),
    })
}
