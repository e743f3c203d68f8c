//! Axes: their names, and items or coordinates along them.

use std::ops::Range;

use b2nd::{Dtype, DtypeKind};

use crate::items::{ItemReader, Value};
use crate::labels::Labels;
use crate::numbers::Numbers;
use crate::slice::Axis;
use crate::ticks::{ValueFormat, round};

/// Maximum number of coordinates to read. All are needed to determine whether they are evenly spaced.
pub const MAX_COORDINATES: u64 = 1 << 20;

/// An axis: its title, and marks along it, each with its position from 0 (start) to 1 (end).
#[derive(Clone, Debug, Default)]
pub struct AxisMarks {
    pub title: String,
    pub marks: Vec<(f64, String)>,
}

/// The coordinates of a dimension.
#[derive(Clone, Debug)]
pub struct Coordinates {
    simple: ItemReader,
    items: Vec<u8>,
    values: Vec<f64>,
    unit: String,
    format: ValueFormat,
}

impl Coordinates {
    /// Whether items of this type can be coordinates: numbers, points in time and spans.
    pub fn can_be(dtype: &Dtype) -> bool {
        matches!(dtype.kind(), DtypeKind::Simple { code: 'i' | 'u' | 'f' | 'M' | 'm', .. })
    }

    /// Takes the items of an array with one dimension as coordinates. Times of CF become points in time.
    pub fn new(dtype: &Dtype, items: Vec<u8>, labels: &Labels) -> Self {
        let numbers = |dtype: &Dtype, fills: &[f64], items: &[u8]| {
            let mut values = Vec::new();
            if let Ok(numbers) = Numbers::new(dtype, None, fills.to_vec()) {
                numbers.take(items, &mut values);
            }
            values
        };
        let found = labels.time.as_ref().and_then(|(time, name)| {
            let times = time.times(&numbers(dtype, &labels.fills, &items))?;
            let items: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
            Some((Dtype::parse("<M8[ms]").ok()?, items, name.clone()))
        });
        let (dtype, items, unit) = found.unwrap_or_else(|| (dtype.clone(), items, labels.unit.clone()));
        let simple = ItemReader::new(&dtype);
        Self { format: simple.format(), simple, values: numbers(&dtype, &[], &items), items, unit }
    }

    /// The coordinate of an item, with its unit.
    pub fn label(&self, position: u64) -> String {
        format!("{} {}", self.text(position), self.unit).trim_end().to_owned()
    }

    fn text(&self, position: u64) -> String {
        let (at, size) = (usize::try_from(position).unwrap_or(usize::MAX), self.simple.size());
        let start = at.saturating_mul(size);
        let item = self.items.get(start..start.saturating_add(size)).unwrap_or_default();
        match self.simple.value(item) {
            Value::Date(date) if self.format.time.is_some() => self.simple.short_date(date),
            _ => self.simple.plain(item),
        }
    }

    /// The first of these positions and the distance, if they are evenly spaced.
    fn even(&self, positions: &Range<u64>) -> Option<(f64, f64)> {
        let (start, end) = (usize::try_from(positions.start).ok()?, usize::try_from(positions.end).ok()?);
        let values = self.values.get(start..end).filter(|values| values.len() > 1)?;
        let (first, last) = (*values.first()?, *values.last()?);
        let step = (last - first) / (values.len() - 1) as f64;
        let near = |(k, x): (usize, &f64)| (first + k as f64 * step - x).abs() <= step.abs() * 1e-2;
        (step != 0.0 && step.is_finite() && values.iter().enumerate().all(near)).then_some((first, step))
    }
}

/// An axis with about `most` marks for the items `window` of `axis`.
pub fn edge(
    name: &str,
    points: Option<&Coordinates>,
    axis: Axis,
    window: &Range<u64>,
    most: usize,
) -> AxisMarks {
    let len = window.end.saturating_sub(window.start);
    if len == 0 {
        return AxisMarks::default();
    }
    let (first, last) = (axis.position(window.start), axis.position(window.end - 1));
    // The position of an item along the axis: the middle of its pixel.
    let place = |position: f64| {
        let k = (position - first as f64) / axis.step as f64;
        (k + 0.5) / len as f64
    };
    let span = first.min(last)..first.max(last).saturating_add(1);
    let even = points.and_then(|points| points.even(&span));
    let unit = points.map_or("", |points| &points.unit);
    let title = match (name, unit) {
        (name, "") => name.to_owned(),
        ("", unit) => unit.to_owned(),
        (name, unit) => format!("{name}, {unit}"),
    };
    let marks = if let Some((start, step)) = even {
        let end = start + step * (span.end - span.start - 1) as f64;
        let format = points.map_or_else(ValueFormat::default, |points| points.format);
        let marks = format.marks(start.min(end), start.max(end), most, false);
        let position = |x: f64| span.start as f64 + (x - start) / step;
        marks.into_iter().map(|(x, text)| (place(position(x)), text)).collect()
    } else {
        let (positions, _) = round(span.start as f64, (span.end - 1) as f64, most, false);
        let whole = positions.into_iter().filter(|x| x.fract() == 0.0);
        let text = |x: f64| match points {
            Some(points) => points.text(x as u64),
            None => (x as u64).to_string(),
        };
        whole.map(|x| (place(x), text(x))).collect()
    };
    AxisMarks { title, marks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cf_time::CfTime;

    #[test]
    fn marks_are_in_the_middle_of_their_pixels() -> anyhow::Result<()> {
        let axis = Axis { start: 0, step: 1, len: 360, dropped: false };
        let marks = |axis: Axis, points: Option<&Coordinates>, window: Range<u64>| {
            edge("x", points, axis, &window, 6).marks
        };
        assert_eq!(marks(axis, None, 0..360)[1], (100.5 / 360.0, "100".into()));
        let back = Axis { start: 359, step: -1, len: 360, dropped: false };
        assert_eq!(marks(back, None, 0..360)[0], (359.5 / 360.0, "0".into()));
        let every = Axis { start: 10, step: 5, len: 20, dropped: false };
        assert_eq!(marks(every, None, 0..20)[0].1, "20");
        assert_eq!(marks(axis, None, 7..8), [(0.5, "7".to_owned())]);
        let dtype = Dtype::parse("<f8")?;
        assert!(Coordinates::can_be(&dtype) && !Coordinates::can_be(&Dtype::parse("<U4")?));
        let of = |values: Vec<f64>| {
            let items = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            Coordinates::new(&dtype, items, &Labels { unit: "degrees".into(), ..Labels::default() })
        };
        let even = of((0..360).map(|k| -89.75 + f64::from(k) * 0.5).collect());
        let found = edge("lat", Some(&even), axis, &(0..360), 6);
        assert_eq!(found.title, "lat, degrees");
        let texts: Vec<&str> = found.marks.iter().map(|(_, text)| &text[..]).collect();
        assert_eq!(texts, ["-50", "0", "50"]);
        assert!((found.marks[1].0 - 0.5).abs() < 0.01, "{found:?}");
        assert_eq!(even.label(1), "-89.25 degrees");
        let odd = of((0..360).map(|k| f64::from(k * k)).collect());
        assert_eq!(marks(axis, Some(&odd), 0..360)[1].1, "10000.0");
        // Times of CF, evenly spaced and not.
        let time = CfTime::parse("days since 2000-01-01", None).unwrap();
        let labels = Labels { time: Some((time, "time".into())), unit: "days".into(), ..Labels::default() };
        let days = |step: fn(i32) -> f64| {
            let items = (0..360).flat_map(|k| step(k).to_le_bytes()).collect();
            Coordinates::new(&dtype, items, &labels)
        };
        let even = edge("t", Some(&days(f64::from)), axis, &(0..360), 3);
        assert_eq!((&*even.title, &*even.marks[1].1), ("t, time", "2000-07"));
        assert_eq!(days(|k| f64::from(k * k) + 0.5).label(2), "2000-01-05T12:00 time");
        assert_eq!(days(|_| f64::NAN).label(2), "NaT time");
        // Fewer coordinates than items are not an error.
        assert_eq!(edge("x", Some(&of(vec![1.0, 2.0])), axis, &(0..360), 6).marks.len(), 4);
        Ok(())
    }
}
