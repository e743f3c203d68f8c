//! Names, units and coordinates of dimensions, by the convention for xarray (docs/xarray.md).

use std::ops::Range;
use std::path::Path;

pub(crate) use b2_view::labels::Labels;
use b2_view::labels::unit;
use b2kit::{Dtype, NdArray};

use super::input::Input;
use super::slice::Axis;
use super::store::Store;
use super::view::Data;
use crate::args::{Global, Source};
use crate::files::{is_stdin, urls};
use crate::npy::shown_dtype;
use crate::print::Simple;
use crate::print::figure::{Edge, label, round};

/// More coordinates are not read, since all of them are needed to tell whether they are evenly spaced.
const MOST: u64 = 1 << 20;

/// The coordinates of a dimension.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    simple: Simple,
    items: Vec<u8>,
    values: Vec<f64>,
    unit: String,
    is_number: bool,
}

impl Points {
    /// Looks for the coordinates of dimension `dim` of an array: an array beside it with the name of the dimension.
    pub(crate) fn find(
        source: &Source,
        data: &Data,
        labels: &Labels,
        dim: usize,
        global: Global,
    ) -> Option<Self> {
        let Data::Blosc(Input::Array(array)) = data else { return None };
        let name = labels.names.get(dim).filter(|name| is_name(name))?;
        let len = *array.shape().get(dim)?;
        let found = match &source.key {
            Some(key) => {
                let group = key.rsplit_once('/').map_or("", |(group, _)| group);
                let beside = format!("{group}/{name}");
                if beside.trim_start_matches('/') == key.trim_start_matches('/') {
                    return None;
                }
                Store::open(&source.file, source.offset, global).ok()??.member(&beside).ok()?
            }
            None if source.offset > 0 || is_stdin(&source.file) || urls::is_url(&source.file) => return None,
            None => {
                let path = source.file.with_file_name(format!("{name}.b2nd"));
                if path == source.file {
                    return None;
                }
                Input::open(&path, 0, global).ok()?
            }
        };
        let Input::Array(points) = found else { return None };
        let fits = points.shape() == [len] && (1..=MOST).contains(&len);
        if !fits { None } else { Self::read(&points) }
    }

    fn read(points: &NdArray) -> Option<Self> {
        let dtype = shown_dtype(points);
        let (simple, is_number) = (Simple::new(&dtype), is_number(&dtype));
        if !is_number && !matches!(dtype.kind(), b2kit::nd::DtypeKind::Simple { code: 'M' | 'm', .. }) {
            return None;
        }
        let items = points.all().read_bytes().ok()?;
        let mut values = Vec::new();
        simple.numbers(&items, &mut values);
        Some(Self { simple, items, values, unit: unit(points), is_number })
    }

    /// The coordinate of an item, with its unit.
    #[cfg(feature = "terminal")]
    pub(crate) fn label(&self, position: u64) -> String {
        format!("{} {}", self.text(position), self.unit).trim_end().to_owned()
    }

    fn text(&self, position: u64) -> String {
        let (at, size) = (usize::try_from(position).unwrap_or(usize::MAX), self.simple.size());
        let item = at.checked_mul(size).and_then(|at| self.items.get(at..at + size)).unwrap_or_default();
        let text = self.simple.plain(item);
        // Days need no time of the day.
        let day = text.split_once('T').filter(|(_, time)| time.chars().all(|c| matches!(c, '0' | ':' | '.')));
        day.map_or(text.clone(), |(day, _)| day.to_owned())
    }

    /// The first of these positions and the distance, if they are evenly spaced.
    fn even(&self, positions: &Range<u64>) -> Option<(f64, f64)> {
        let (start, end) = (usize::try_from(positions.start).ok()?, usize::try_from(positions.end).ok()?);
        let values = self.values.get(start..end).filter(|values| self.is_number && values.len() > 1)?;
        let (first, last) = (*values.first()?, *values.last()?);
        let step = (last - first) / (values.len() - 1) as f64;
        let near = |(k, x): (usize, &f64)| (first + k as f64 * step - x).abs() <= step.abs() * 1e-2;
        (step != 0.0 && step.is_finite() && values.iter().enumerate().all(near)).then_some((first, step))
    }
}

/// Whether this is the name of a file in the same folder, and nothing else.
fn is_name(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|own| own == name) && !name.contains(['/', '\\', ':', '\0'])
}

fn is_number(dtype: &Dtype) -> bool {
    matches!(dtype.kind(), b2kit::nd::DtypeKind::Simple { code: 'i' | 'u' | 'f', .. })
}

/// An axis with about `most` marks, for a part of a dimension of the file: items `window` of `axis`.
pub(crate) fn edge(
    name: &str,
    points: Option<&Points>,
    axis: Axis,
    window: &Range<u64>,
    most: usize,
) -> Edge {
    let len = window.end.saturating_sub(window.start);
    if len == 0 {
        return Edge::default();
    }
    let (first, last) = (axis.position(window.start), axis.position(window.end - 1));
    // Where an item is along the axis: in the middle of its pixel.
    let place = |position: f64| {
        let k = (position - first as f64) / axis.step as f64;
        (k + 0.5) / len as f64
    };
    let span = first.min(last)..first.max(last) + 1;
    let even = points.and_then(|points| points.even(&span));
    let unit = points.map_or("", |points| &points.unit);
    let title = match (name, unit) {
        (name, "") => name.to_owned(),
        ("", unit) => unit.to_owned(),
        (name, unit) => format!("{name}, {unit}"),
    };
    let marks = if let Some((start, step)) = even {
        let end = start + step * (span.end - span.start - 1) as f64;
        let (values, apart) = round(start.min(end), start.max(end), most, false);
        let position = |x: f64| span.start as f64 + (x - start) / step;
        values.into_iter().map(|x| (place(position(x)), label(x, apart))).collect()
    } else {
        let (positions, _) = round(span.start as f64, (span.end - 1) as f64, most, false);
        let whole = positions.into_iter().filter(|x| x.fract() == 0.0);
        let text = |x: f64| match points {
            Some(points) => points.text(x as u64),
            None => (x as u64).to_string(),
        };
        whole.map(|x| (place(x), text(x))).collect()
    };
    Edge { title, marks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_the_middle_of_their_pixels() {
        let axis = Axis { start: 0, step: 1, len: 360, dropped: false };
        let marks = |axis: Axis, points: Option<&Points>, window: Range<u64>| {
            edge("x", points, axis, &window, 6).marks
        };
        assert_eq!(marks(axis, None, 0..360)[1], (100.5 / 360.0, "100".into()));
        let back = Axis { start: 359, step: -1, len: 360, dropped: false };
        assert_eq!(marks(back, None, 0..360)[0], (359.5 / 360.0, "0".into()));
        let every = Axis { start: 10, step: 5, len: 20, dropped: false };
        assert_eq!(marks(every, None, 0..20)[0].1, "20");
        assert_eq!(marks(axis, None, 7..8), [(0.5, "7".to_owned())]);
        let simple = Simple::number_of('f', false, 8);
        let of = |values: Vec<f64>| {
            let items = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            Points { simple: simple.clone(), items, values, unit: "degrees".into(), is_number: true }
        };
        let even = of((0..360).map(|k| -89.75 + f64::from(k) * 0.5).collect());
        let found = edge("lat", Some(&even), axis, &(0..360), 6);
        assert_eq!(found.title, "lat, degrees");
        let texts: Vec<&str> = found.marks.iter().map(|(_, text)| &text[..]).collect();
        assert_eq!(texts, ["-50", "0", "50"]);
        assert!((found.marks[1].0 - 0.5).abs() < 0.01, "{found:?}");
        let odd = of((0..360).map(|k| f64::from(k * k)).collect());
        assert_eq!(marks(axis, Some(&odd), 0..360)[1].1, "10000.0");
        assert!(["../x", "a/b", "", "..", "a\\b", "C:x"].iter().all(|name| !is_name(name)) && is_name("lat"));
    }
}
