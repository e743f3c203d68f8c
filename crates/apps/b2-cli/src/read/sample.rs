//! Samples of a selection that is too large to be drawn item by item: planes and lines of numbers.
//!
//! One item is read for each pixel. If their blocks exceed a limit, only every n-th block along each
//! dimension is read, and pixels in between show the nearest item read.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use b2_view::grid::{ChunkedAxis, PixelGrid, list, pairs};
pub(crate) use b2_view::numbers::{NoNumbers, Numbers};
use b2_view::ticks::ValueFormat;
use b2kit::base::Cancelled;
use b2kit::{Control, Dtype, Selection};

use super::damage;
use super::input::Input;
use super::slice::Axis;
use super::view::{Data, View};
use crate::print::figure::Column;
use crate::print::{joined, printable};
use crate::process::signals;

/// Bytes of items to hold in memory at a time.
const MAX_CACHED_LEN: u64 = 48 << 20;
/// Bytes of items to read at a time for a line.
const LINE_LEN: u64 = 4 << 20;
/// Minimum cost of a block, in equivalent decoded bytes, since locating it also takes time.
const MIN_BLOCK_COST: u64 = 16 << 10;

/// Interprets the items, or a field of records, as numbers.
///
/// # Errors
/// Fails if they are not numbers, or if there is no such field.
pub(crate) fn numbers(dtype: &Dtype, field: Option<&str>, fills: Vec<f64>) -> Result<Numbers> {
    let names = |names: Vec<String>| {
        printable(&joined(&names.iter().map(|name| &name[..]).collect::<Vec<_>>(), ", "))
    };
    let field_name = || printable(field.unwrap_or_default());
    Numbers::new(dtype, field, fills).map_err(|no| match no {
        NoNumbers::NoFields => anyhow!("--field: the items have no fields"),
        NoNumbers::Records(all) => anyhow!("the items are records: --field picks one of {}", names(all)),
        NoNumbers::NoSuchField(all) => anyhow!("--field {}: there are {}", field_name(), names(all)),
        NoNumbers::Array => {
            anyhow!("--field {}: a field with an array in each record cannot be drawn", field_name())
        }
        NoNumbers::Other(dtype) => {
            anyhow!("items of {} cannot be drawn; `b2kit show` prints them", printable(&dtype))
        }
    })
}

/// The budget of one sample of a file.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// Bytes of blocks to decode. One block is always decoded.
    pub(crate) decoded: u64,
    /// The number of this request and that of the newest one, which cancels all others.
    pub(crate) looks: Option<(u64, Arc<AtomicU64>)>,
}

impl Cost {
    /// Stops calls of the library at a signal or a newer request.
    fn control(&self) -> Control {
        let Some((own, newest)) = self.looks.clone() else { return signals::control() };
        Control::new().progress(move |_| {
            match newest.load(Ordering::Relaxed) == own && signals::check().is_ok() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
    }

    /// Fails if the work is to stop.
    ///
    /// # Errors
    /// [`Cancelled`], or the error for a signal.
    pub(crate) fn check(&self) -> Result<()> {
        signals::check()?;
        let old = |(own, newest): &(u64, Arc<AtomicU64>)| newest.load(Ordering::Relaxed) != *own;
        if self.looks.as_ref().is_some_and(old) { Err(Cancelled.into()) } else { Ok(()) }
    }
}

/// Numbers of two dimensions, one for each pixel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlaneSample {
    /// Positions in the selection along both dimensions that the pixels represent.
    pub(crate) at: [Vec<u64>; 2],
    /// Row by row.
    pub(crate) values: Vec<f64>,
    /// Every n-th block was read.
    pub(crate) every: u64,
    /// Distance of pixels in items.
    pub(crate) steps: [u64; 2],
    pub(crate) format: ValueFormat,
}

/// The block length of a file along each dimension, and the decoded size of its blocks.
fn cut(data: &Data, dim: usize) -> (ChunkedAxis, u64) {
    let of = |chunk: u64, block: u64, nbytes: u64| (ChunkedAxis::new(chunk, block), nbytes);
    match data {
        Data::Blosc(Input::Array(array)) => {
            (ChunkedAxis::of(array, dim), (array.geometry().block_nbytes() as u64).max(MIN_BLOCK_COST))
        }
        Data::Blosc(input @ Input::SuperChunk(frame)) => {
            let itemsize = input.itemsize() as u64;
            let chunk = frame.chunksize() as u64;
            // The header of a frame need not define the block size.
            let block = Some(frame.header().blocksize() as u64).filter(|size| *size > 0).unwrap_or(chunk);
            match chunk {
                // Chunks of different sizes.
                0 => of(LINE_LEN / itemsize, LINE_LEN / itemsize, LINE_LEN),
                _ => of(chunk / itemsize, block / itemsize, block.max(MIN_BLOCK_COST)),
            }
        }
        Data::Blosc(input @ Input::Chunk(chunk)) => {
            let itemsize = input.itemsize() as u64;
            let block = chunk.header().blocksize() as u64;
            of(chunk.nbytes() as u64 / itemsize, block / itemsize, block.max(MIN_BLOCK_COST))
        }
        // Without chunks, items can be read individually; the system reads pages.
        Data::ExternalArray(array) => {
            let itemsize = array.dtype().itemsize().max(1) as u64;
            if let Some(chunks) = array.chunkshape() {
                let chunk = chunks.get(dim).copied().unwrap_or(1).into();
                let nbytes = chunks.iter().fold(itemsize, |n, &length| n.saturating_mul(length.into()));
                return of(chunk, chunk, nbytes.max(MIN_BLOCK_COST));
            }
            let items = (4096 / itemsize).max(1);
            let last = dim + 1 == array.shape().len();
            of(u64::MAX / 2, if last { items } else { 1 }, 2048)
        }
    }
}

/// Samples two dimensions of a selection. `axes` are the items selected along all dimensions of the file, a single one
/// except along `dims` (rows, columns). `windows` are the parts of `dims` that are shown.
pub(crate) fn plane(
    data: &Data,
    numbers: &Numbers,
    axes: &[Axis],
    dims: [usize; 2],
    windows: &[Range<u64>; 2],
    most: [usize; 2],
    cost: &Cost,
) -> Result<PlaneSample> {
    let position = |d: usize, k: u64| axes[dims[d]].position(k);
    let cuts = [0, 1].map(|d| cut(data, dims[d]));
    let nbytes = cuts[0].1;
    let grid = PixelGrid::new(
        windows,
        most,
        numbers.itemsize(),
        position,
        cuts.map(|cut| cut.0),
        nbytes,
        cost.decoded,
    );
    let places = [0, 1].map(|d| grid.places(d).map(|k| position(d, k)).collect());
    let items = gather(data, numbers, axes, dims, places, cost)?;
    let mut found = Vec::with_capacity(items.len() / numbers.itemsize().max(1));
    numbers.take(&items, &mut found);
    drop(items);
    let values = grid.spread(found);
    let PixelGrid { at, every, steps, .. } = grid;
    Ok(PlaneSample { at, values, every, steps, format: numbers.format() })
}

/// Reads the items at all pairs of these positions, row by row.
fn gather(
    data: &Data,
    numbers: &Numbers,
    axes: &[Axis],
    dims: [usize; 2],
    positions: [Vec<u64>; 2],
    cost: &Cost,
) -> Result<Vec<u8>> {
    if let Data::Blosc(input @ Input::Array(array)) = data {
        let selections = pairs(axes, dims, &positions)?;
        let slice = array.with_control(cost.control()).slice(selections)?;
        let slice = if dims[0] > dims[1] { slice.transpose() } else { slice };
        return slice.read_bytes().map_err(|error| damage::locate(input, error.into()));
    }
    // In other kinds of files, each row is read separately.
    let view = data.view(&[])?;
    let mut out = Vec::new();
    let mut buffer = Vec::new();
    let mut axes = axes.to_vec();
    let alone = |position: u64| Axis { start: position, step: 1, len: 1, dropped: true };
    for row in &positions[0] {
        cost.check()?;
        axes[dims[0]] = alone(*row);
        read_positions(&view, numbers, &mut axes, dims[1], &positions[1], &mut buffer, &mut out)?;
    }
    Ok(out)
}

/// Reads the items at these positions of one dimension; neighbours are read together.
fn read_positions(
    view: &View<'_>,
    numbers: &Numbers,
    axes: &mut [Axis],
    dim: usize,
    positions: &[u64],
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = numbers.itemsize();
    // Up to this distance, reading the items in between costs less than another call.
    let near = (4096 / size.max(1)).max(1) as u64;
    let mut rest = positions;
    while let [first, ..] = rest {
        let most = (LINE_LEN / size.max(1) as u64).max(1);
        let far = |pair: &[u64]| pair[0].abs_diff(pair[1]) > near || pair[1].abs_diff(*first) >= most;
        let count = rest.windows(2).position(far).map_or(rest.len(), |k| k + 1);
        let (now, later) = rest.split_at(count);
        let (low, high) = now.iter().fold((*first, *first), |(low, high), k| (low.min(*k), high.max(*k)));
        axes[dim] = Axis { start: low, step: 1, len: high - low + 1, dropped: false };
        view.read(axes, buffer)?;
        for position in now {
            let at = usize::try_from(position - low)? * size;
            out.extend_from_slice(buffer.get(at..at + size).unwrap_or_default());
        }
        rest = later;
    }
    Ok(())
}

/// Numbers of one dimension, in as many columns as there are pixels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LineSample {
    pub(crate) columns: Vec<Column>,
    /// Every n-th block was read.
    pub(crate) every: u64,
    pub(crate) format: ValueFormat,
}

/// Samples one dimension of a selection; see [`plane`].
pub(crate) fn line(
    data: &Data,
    numbers: &Numbers,
    axes: &[Axis],
    dim: usize,
    window: &Range<u64>,
    most: usize,
    cost: &Cost,
) -> Result<LineSample> {
    let len = window.end - window.start;
    let wide = len.min(most as u64).max(1);
    let mut columns = vec![Column::NONE; usize::try_from(wide)?];
    let axis = axes[dim];
    let (cut, nbytes) = cut(data, dim);
    let ends = [window.start, window.end.saturating_sub(1).max(window.start)]
        .map(|k| cut.block_of(axis.position(k)));
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let blocks = (high - low + 1).min(len);
    let every = blocks.div_ceil((cost.decoded / nbytes).max(1)).max(1);
    // Items in small gaps are read as well.
    let step = axis.step.unsigned_abs().min(64);
    // A large block is decoded again for each piece.
    let piece = (nbytes.clamp(LINE_LEN, MAX_CACHED_LEN) / (numbers.itemsize().max(1) as u64 * step)).max(1);
    let mut found = Vec::new();
    let mut add = |ranges: &mut Vec<Range<u64>>| -> Result<()> {
        cost.check()?;
        let bytes = ranges_of(data, axes, dim, ranges, cost)?;
        let mut items = ranges.drain(..).flatten();
        // Numbers take up to eight times the memory of items.
        for part in bytes.chunks(numbers.itemsize().max(1) << 14) {
            found.clear();
            numbers.take(part, &mut found);
            for (x, k) in found.iter().zip(items.by_ref()) {
                let column = (u128::from(k - window.start) * u128::from(wide) / u128::from(len)) as usize;
                columns[column].add(if numbers.is_missing(*x) { f64::NAN } else { *x });
            }
        }
        Ok(())
    };
    let mut ranges = Vec::new();
    if every == 1 {
        let mut start = window.start;
        while start < window.end {
            let end = start.saturating_add(piece).min(window.end);
            ranges.push(start..end);
            add(&mut ranges)?;
            start = end;
        }
    } else {
        // Each item may be in a different block, or several may share one.
        let alone = axis.step.unsigned_abs() >= cut.block;
        let (first, last) = if alone { (window.start, window.end - 1) } else { (low, high) };
        let (mut next, mut count) = (Some(first.saturating_add(every / 2).min(last)), 0);
        while let Some(n) = next {
            let items = if alone { n..n + 1 } else { within(axis, &cut.span(n)) };
            let start = items.start.max(window.start);
            let end = items.end.min(window.end).min(start.saturating_add(piece));
            if start < end {
                count += end - start;
                ranges.push(start..end);
            }
            next = n.checked_add(every).filter(|n| *n <= last);
            // Read many blocks together, as concurrent requests to a server.
            if count >= piece || next.is_none() {
                add(&mut ranges)?;
                count = 0;
            }
        }
    }
    if every > 1 {
        spread(&mut columns);
    }
    Ok(LineSample { columns, every, format: numbers.format() })
}

/// Reads these ranges of items of a dimension, with a single position in the others.
fn ranges_of(data: &Data, axes: &[Axis], dim: usize, ranges: &[Range<u64>], cost: &Cost) -> Result<Vec<u8>> {
    if let (Data::Blosc(input @ Input::Array(array)), [_, _, ..]) = (data, ranges) {
        let single = |axis: &Axis| Ok(Selection::Index(i64::try_from(axis.start)?));
        let mut selections = axes.iter().map(single).collect::<Result<Vec<_>>>()?;
        let positions: Vec<u64> = ranges.iter().cloned().flatten().map(|k| axes[dim].position(k)).collect();
        selections[dim] = list(&positions)?;
        let slice = array.with_control(cost.control()).slice(selections)?;
        return slice.read_bytes().map_err(|error| damage::locate(input, error.into()));
    }
    let view = data.view(&[])?;
    let (mut axes, mut buffer, mut out) = (axes.to_vec(), Vec::new(), Vec::new());
    let axis = axes[dim];
    for range in ranges {
        cost.check()?;
        axes[dim] = axis.part(range.start, range.end);
        view.read(&axes, &mut buffer)?;
        if ranges.len() == 1 {
            return Ok(buffer);
        }
        out.extend_from_slice(&buffer);
    }
    Ok(out)
}

/// The items of an axis whose positions are in a range.
fn within(axis: Axis, span: &Range<u64>) -> Range<u64> {
    let step = axis.step.unsigned_abs().max(1);
    let range = if axis.step > 0 {
        let count = |end: u64| end.saturating_sub(axis.start).div_ceil(step);
        count(span.start)..count(span.end)
    } else {
        // Items from the start down to this position.
        let count = |low: u64| if axis.start >= low { (axis.start - low) / step + 1 } else { 0 };
        count(span.end)..count(span.start)
    };
    range.start.min(axis.len)..range.end.min(axis.len)
}

/// Fills columns without items from the nearest column.
fn spread(columns: &mut [Column]) {
    let read: Vec<usize> =
        (0..columns.len()).filter(|k| columns[*k].count + columns[*k].missing > 0).collect();
    let mut next = 0;
    for k in 0..columns.len() {
        while next + 1 < read.len() && read[next + 1].abs_diff(k) <= read[next].abs_diff(k) {
            next += 1;
        }
        if let Some(from) = read.get(next) {
            columns[k] = columns[*from];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_block() {
        for (start, step, len) in [(0, 1, 30), (5, 3, 8), (29, -1, 30), (28, -3, 9), (4, 1, 1)] {
            let axis = Axis { start, step, len, dropped: false };
            for span in [0..4, 4..8, 8..10, 27..30, 10..10, 0..30] {
                let expected: Vec<u64> = (0..len).filter(|k| span.contains(&axis.position(*k))).collect();
                let found: Vec<u64> = within(axis, &span).collect();
                assert_eq!(found, expected, "{axis:?} {span:?}");
            }
        }
        let mut columns = vec![Column::NONE; 7];
        columns[1].add(1.0);
        columns[5].add(5.0);
        spread(&mut columns);
        let firsts: Vec<f64> = columns.iter().map(|column| column.first).collect();
        assert_eq!(firsts, [1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0]);
    }
}

#[cfg(test)]
mod reading {
    use std::sync::atomic::AtomicU64;

    use b2kit::ArrayBuilder;
    use b2kit::frame::SuperChunk;

    use super::*;
    use crate::read::resolve;

    /// Items whose value is their position.
    fn array() -> Data {
        let items: Vec<f32> = (0..3 * 60 * 80).map(|k| k as f32).collect();
        let builder = ArrayBuilder::new::<f32>([3, 60, 80]).chunks([2, 30, 40]).blocks([1, 10, 10]);
        let frame = builder.to_bytes(&items[..]).unwrap();
        Data::Blosc(Input::from_frame(SuperChunk::from_bytes(frame).unwrap()).unwrap())
    }

    fn cost(decoded: u64) -> Cost {
        Cost { decoded, looks: None }
    }

    #[test]
    fn planes_are_the_items_or_the_nearest_that_were_read() {
        let data = array();
        let numbers = numbers(&data.dtype(), None, Vec::new()).unwrap();
        let take = |spec: &str, dims: [usize; 2], most: [usize; 2], decoded: u64| {
            let axes = resolve(&crate::read::slice::parse(spec).unwrap(), &[3, 60, 80]).unwrap();
            let windows = dims.map(|dim| 0..axes[dim].len);
            let plane = plane(&data, &numbers, &axes, dims, &windows, most, &cost(decoded)).unwrap();
            (axes, plane)
        };
        let all = u64::MAX;
        for (spec, dims) in
            [("1,:,:", [1, 2]), ("1,::-1,::-1", [1, 2]), ("1,:,:", [2, 1]), (":,7,::3", [0, 2])]
        {
            let (axes, plane) = take(spec, dims, [1000, 1000], all);
            let mut values = plane.values.iter();
            for row in &plane.at[0] {
                for column in &plane.at[1] {
                    let mut at = [axes[0].start, axes[1].start, axes[2].start];
                    at[dims[0]] = axes[dims[0]].position(*row);
                    at[dims[1]] = axes[dims[1]].position(*column);
                    let expected = (at[0] * 4800 + at[1] * 80 + at[2]) as f64;
                    assert_eq!(values.next(), Some(&expected), "{spec} {dims:?} {at:?}");
                }
            }
            assert_eq!((values.next(), plane.every), (None, 1));
        }
        let (_, plane) = take("0,:,:", [1, 2], [20, 20], all);
        assert_eq!((plane.at[0].len(), plane.at[1].len(), plane.steps), (20, 20, [3, 4]));
        assert_eq!((plane.values[0], plane.values[1]), (82.0, 86.0), "the middle of what they stand for");
        // Room for four blocks of 48: every fourth along each dimension.
        let (_, plane) = take("0,:,:", [1, 2], [1000, 1000], 4 * MIN_BLOCK_COST);
        assert_eq!(plane.every, 4);
        let row = &plane.values[25 * 80..26 * 80];
        assert_eq!((row[0], row[19], row[20], row[29], row[39]), (2020.0, 2020.0, 2020.0, 2029.0, 2029.0));
    }

    #[test]
    fn lines_are_the_extremes_of_their_columns() {
        let data = array();
        let numbers = numbers(&data.dtype(), None, vec![4.0]).unwrap();
        let axes = resolve(&crate::read::slice::parse("0,0,:").unwrap(), &[3, 60, 80]).unwrap();
        let found = line(&data, &numbers, &axes, 2, &(0..80), 8, &cost(u64::MAX)).unwrap();
        assert_eq!((found.columns.len(), found.every), (8, 1));
        let first = found.columns[0];
        assert_eq!((first.low, first.high, first.count, first.missing), (0.0, 9.0, 9, 1));
        // Two of eight blocks.
        let found = line(&data, &numbers, &axes, 2, &(0..80), 8, &cost(2 * MIN_BLOCK_COST)).unwrap();
        assert_eq!(found.every, 4);
        let lows: Vec<f64> = found.columns.iter().map(|column| column.low).collect();
        assert_eq!(lows, [20.0, 20.0, 20.0, 20.0, 60.0, 60.0, 60.0, 60.0]);
        let strided = resolve(&crate::read::slice::parse("0,0,::-10").unwrap(), &[3, 60, 80]).unwrap();
        let found = line(&data, &numbers, &strided, 2, &(0..8), 8, &cost(4 * MIN_BLOCK_COST)).unwrap();
        let firsts: Vec<f64> = found.columns.iter().map(|column| column.first).collect();
        assert_eq!((found.every, firsts), (2, vec![69.0, 69.0, 49.0, 49.0, 29.0, 29.0, 9.0, 9.0]));
        let back = resolve(&crate::read::slice::parse("0,0,::-1").unwrap(), &[3, 60, 80]).unwrap();
        let found = line(&data, &numbers, &back, 2, &(10..30), 2, &cost(u64::MAX)).unwrap();
        assert_eq!((found.columns[0].first, found.columns[1].last), (69.0, 50.0));
    }

    #[test]
    fn a_newer_look_ends_an_older_one() {
        let data = array();
        let numbers = numbers(&data.dtype(), None, Vec::new()).unwrap();
        let axes = resolve(&[Selection::Index(0)], &[3, 60, 80]).unwrap();
        let old = Cost { decoded: u64::MAX, looks: Some((1, Arc::new(AtomicU64::new(2)))) };
        let found = plane(&data, &numbers, &axes, [1, 2], &[0..60, 0..80], [100, 100], &old);
        assert!(found.is_err());
        let found = line(&data, &numbers, &axes, 2, &(0..80), 8, &old);
        assert!(found.is_err());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let of = |dtype: &str, field: Option<&str>| numbers(&Dtype::parse(dtype).unwrap(), field, Vec::new());
        let records = "[('a\u{1b}', '<i4'), ('b', '<f8', (2,)), ('c', '<U3'), ('d', '<c16')]";
        let message = of(records, None).unwrap_err().to_string();
        assert!(message.contains("--field") && !message.contains('\u{1b}'), "{message}");
        assert!(
            of(records, Some("b")).is_err()
                && of(records, Some("c")).is_err()
                && of(records, Some("e")).is_err()
        );
        assert!(of("<U3", None).is_err() && of("<i4", Some("a")).is_err());
        let numbers = of(records, Some("d")).unwrap();
        let mut item = vec![0; 4 + 16 + 12];
        item.extend([3.0_f64, -4.0].iter().flat_map(|x| x.to_le_bytes()));
        let mut out = Vec::new();
        numbers.take(&item, &mut out);
        assert_eq!(out, [5.0]);
        let dates = of("<M8[D]", None).unwrap();
        dates.take(&[i64::MIN.to_le_bytes(), 7_i64.to_le_bytes()].concat(), &mut out);
        assert!(out[1].is_nan() && out[2] == 7.0);
    }
}
