//! Puts images and lines on a canvas, with titles, axes and a colour bar.

use b2_view::edges::AxisMarks;
use b2_view::ticks::ValueFormat;

use super::canvas::{Anchor, Canvas, Colour, INK, Mark};
use super::font;
use crate::print::{Map, Scale};

/// Maximum width and height of an image, in pixels. Smaller ones are enlarged up to this size.
pub(crate) const MAX_SIZE: [usize; 2] = [720, 540];
/// Minimum width and height of an image, so that its axes are readable.
const MIN_SIZE: [usize; 2] = [160, 120];
/// Size of the plot of a line.
const LINE: [usize; 2] = [MAX_SIZE[0], 360];

/// Space around and between what is drawn, in pixels.
const GAP: usize = 10;
/// Length of a tick on an axis.
const TICK: usize = 5;
/// Distance between lines of text.
const ROW: usize = 24;
const BAR: usize = 20;
/// Colour of lines.
const BLUE: Colour = [31, 95, 168];

/// Two dimensions of numbers, drawn as colours.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    pub(crate) titles: &'a [String],
    /// Width and height, in numbers.
    pub(crate) shape: [usize; 2],
    /// Row by row. NaN marks missing numbers.
    pub(crate) values: &'a [f64],
    pub(crate) scale: Scale,
    pub(crate) format: ValueFormat,
    /// Name and unit of the numbers.
    pub(crate) unit: &'a str,
    pub(crate) across: AxisMarks,
    pub(crate) down: AxisMarks,
}

/// One pixel column of a line: the range of its items, without missing ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) first: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) last: f64,
    pub(crate) count: u64,
    pub(crate) missing: u64,
}

impl Column {
    pub(crate) const NONE: Self =
        Self { first: f64::NAN, low: f64::NAN, high: f64::NAN, last: f64::NAN, count: 0, missing: 0 };

    /// Appends an item.
    pub(crate) fn add(&mut self, x: f64) {
        if x.is_nan() {
            self.missing += 1;
            return;
        }
        if self.count == 0 {
            self.first = x;
        }
        self.count += 1;
        self.low = self.low.min(x);
        self.high = self.high.max(x);
        self.last = x;
    }
}

/// One dimension of numbers, drawn as a line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) titles: &'a [String],
    pub(crate) columns: &'a [Column],
    pub(crate) scale: Scale,
    pub(crate) format: ValueFormat,
    pub(crate) unit: &'a str,
    pub(crate) across: AxisMarks,
}

impl Image<'_> {
    pub(crate) fn draw(self) -> Canvas {
        let Self { titles, shape: [w, h], values, scale, format, unit, across, down } = self;
        let once = (MAX_SIZE[0] / w.max(1)).min(MAX_SIZE[1] / h.max(1)).max(1);
        // A pixel is square unless the image would be too narrow for its axes.
        let zoom = |n: usize, least: usize| once.max(least.div_ceil(n.max(1)));
        let size = [w * zoom(w, MIN_SIZE[0]), h * zoom(h, MIN_SIZE[1])];
        let colours = colour_marks(scale, format, size[1]);
        let widest = colours.marks.iter().map(|(_, text)| font::width(text)).max().unwrap_or(0);
        let has_missing = values.iter().any(|x| scale.colour(*x).is_none());
        let words = if has_missing { font::width("missing") } else { 0 };
        let bar_width = GAP + BAR + TICK + 3 + widest.max(words);
        let right = bar_width + GAP + if unit.is_empty() { 0 } else { ROW };
        let (mut canvas, at) = begin(titles, size, &across, &down, right);
        let pixels = values.iter().flat_map(|x| scale.colour(*x).unwrap_or(scale.map.missing())).collect();
        canvas.marks.push(Mark::Image { at, size, shape: [w, h], pixels });
        canvas.frame(at, size);
        // The colour bar, its largest value at the top.
        let bar = [at[0] + size[0] + GAP, at[1]];
        let steps = 256;
        let pixels = (0..steps).rev().flat_map(|k| scale.map.at(k as f64 / (steps - 1) as f64)).collect();
        canvas.marks.push(Mark::Image { at: bar, size: [BAR, size[1]], shape: [1, steps], pixels });
        canvas.frame(bar, [BAR, size[1]]);
        for (place, text) in colours.marks {
            let y = bar[1] + ((1.0 - place) * (size[1] - 1) as f64).round() as usize;
            canvas.rect([bar[0] + BAR + 1, y], [TICK, 1], INK);
            canvas.text([bar[0] + BAR + TICK + 4, y + font::CAP / 2], Anchor::Start, text);
        }
        let below = at[1] + size[1] + TICK + 3 + font::CAP;
        if has_missing {
            canvas.rect([bar[0], below - font::CAP], [BAR, font::CAP], scale.map.missing());
            canvas.frame([bar[0], below - font::CAP], [BAR, font::CAP]);
            canvas.text([bar[0] + BAR + TICK + 4, below], Anchor::Start, "missing");
        }
        let middle = [at[0] + size[0] + bar_width + ROW, at[1] + size[1] / 2];
        canvas.upward(middle, fitted(unit, size[1]));
        canvas
    }
}

impl Line<'_> {
    pub(crate) fn draw(self) -> Canvas {
        let Self { titles, columns, scale, format, unit, across } = self;
        let down = colour_marks(scale, format, LINE[1]);
        // From the top.
        let marks = down.marks.into_iter().map(|(place, text)| (1.0 - place, text)).collect();
        let missing = columns.iter().any(|column| column.count == 0 && column.missing > 0);
        let down = AxisMarks { title: unit.to_owned(), marks };
        let (mut canvas, at) = begin(titles, LINE, &across, &down, 2 * GAP);
        let wide = LINE[0] as f64 / columns.len().max(1) as f64;
        let x = |k: usize| at[0] as f64 + (k as f64 + 0.5) * wide;
        let y = |value: f64| at[1] as f64 + (1.0 - scale.share(value)) * LINE[1] as f64;
        let gap = Map::Viridis.missing();
        for k in (0..columns.len()).filter(|k| columns[*k].count == 0 && columns[*k].missing > 0) {
            let start = (x(k) - wide / 2.0).floor() as usize;
            let end = ((x(k) + wide / 2.0).ceil() as usize).min(at[0] + LINE[0]);
            canvas.rect([start, at[1]], [end.saturating_sub(start), LINE[1]], gap);
        }
        for (start, run) in runs(columns) {
            let mut points: Vec<[f64; 2]> = Vec::new();
            for (k, column) in run.iter().enumerate() {
                let values = [column.first, column.low, column.high, column.last];
                for value in values {
                    let point = [x(start + k), y(value)];
                    if points.last() != Some(&point) {
                        points.push(point);
                    }
                }
            }
            if columns.len() <= LINE[0] / 12 || points.len() == 1 {
                for [x, y] in &points {
                    canvas.rect([(x - 1.5).max(0.0) as usize, (y - 1.5).max(0.0) as usize], [4, 4], BLUE);
                }
            }
            canvas.marks.push(Mark::Line { points, colour: BLUE, width: 1.5 });
        }
        canvas.frame(at, LINE);
        if missing {
            let below = at[1] + LINE[1] + TICK + 3 + font::CAP + ROW;
            let right = canvas.size[0] - GAP;
            canvas.text([right, below], Anchor::End, "missing");
            let swatch = [right - font::width("missing") - GAP - BAR, below - font::CAP];
            canvas.rect(swatch, [BAR, font::CAP], gap);
            canvas.frame(swatch, [BAR, font::CAP]);
        }
        canvas
    }
}

/// The runs of columns that have items, each with its position.
fn runs(columns: &[Column]) -> Vec<(usize, &[Column])> {
    let mut start = 0;
    let parts = columns.split(|column| column.count == 0).map(|run| {
        let here = (start, run);
        start += run.len() + 1;
        here
    });
    parts.filter(|(_, run)| !run.is_empty()).collect()
}

/// Round values of a scale, and their positions in it.
fn colour_marks(scale: Scale, format: ValueFormat, height: usize) -> AxisMarks {
    let marks = format.marks(scale.range.low, scale.range.high, (height / 45).max(2), scale.log);
    let marks = marks.into_iter().map(|(x, text)| (scale.share(x), text)).collect();
    AxisMarks { title: String::new(), marks }
}

/// A canvas with titles and axes around a plot of this size, and the position of the plot.
fn begin(
    titles: &[String],
    size: [usize; 2],
    across: &AxisMarks,
    down: &AxisMarks,
    right: usize,
) -> (Canvas, [usize; 2]) {
    let widest = down.marks.iter().map(|(_, text)| font::width(text)).max().unwrap_or(0);
    let left = GAP + ROW + widest + TICK + 3;
    let top = GAP + titles.len() * ROW + GAP / 2;
    let width = left + size[0] + right;
    // Titles make a narrow picture wider, up to the width of the largest.
    let long = titles.iter().map(|title| font::width(title)).max().unwrap_or(0) + 2 * GAP;
    let width = width.max(long.min(MAX_SIZE[0] + 200));
    let height = top + size[1] + TICK + 3 + font::CAP + ROW + 2 * GAP;
    let mut canvas = Canvas { size: [width, height], marks: Vec::new() };
    for (k, title) in titles.iter().enumerate() {
        canvas.text([GAP, GAP + font::CAP + k * ROW], Anchor::Start, fitted(title, width - 2 * GAP));
    }
    let at = [left, top];
    let place =
        |share: f64, length: usize| (share.clamp(0.0, 1.0) * length as f64).min(length as f64 - 1.0) as usize;
    let mut free = 0;
    for (share, text) in &across.marks {
        let x = left + place(*share, size[0]);
        let half = font::width(text) / 2;
        canvas.rect([x, top + size[1] + 1], [1, TICK], INK);
        // Skip labels that overlap another one or the edge.
        if x >= free + half && x + half <= width {
            canvas.text([x, top + size[1] + TICK + 3 + font::CAP], Anchor::Middle, text.clone());
            free = x + half + GAP;
        }
    }
    for (share, text) in &down.marks {
        let y = top + place(*share, size[1]);
        canvas.rect([left - 1 - TICK, y], [TICK, 1], INK);
        canvas.text([left - TICK - 4, y + font::CAP / 2], Anchor::End, text.clone());
    }
    let title = fitted(&across.title, size[0].max(MIN_SIZE[0]));
    canvas.text([left + size[0] / 2, top + size[1] + TICK + 3 + font::CAP + ROW], Anchor::Middle, title);
    canvas.upward([GAP + font::CAP, top + size[1] / 2], fitted(&down.title, size[1]));
    (canvas, at)
}

/// Truncates a text that is too long, and appends dots.
fn fitted(text: &str, room: usize) -> String {
    let text = crate::print::printable(text);
    let most = room / font::ADVANCE;
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::Range;

    fn scale(low: f64, high: f64) -> Scale {
        Scale::from(Range { low, high })
    }

    #[test]
    fn columns_keep_peaks() {
        let mut column = Column::NONE;
        [2.0, f64::NAN, 9.0, -1.0, 3.0].into_iter().for_each(|x| column.add(x));
        assert_eq!(column, Column { first: 2.0, low: -1.0, high: 9.0, last: 3.0, count: 4, missing: 1 });
        let mut none = Column::NONE;
        none.add(f64::NAN);
        let columns = [column, none, column, column, none];
        assert_eq!(
            runs(&columns).iter().map(|(k, run)| (*k, run.len())).collect::<Vec<_>>(),
            [(0, 1), (2, 2)]
        );
    }

    #[test]
    fn hostile_names_are_text() {
        let titles = ["<script>\u{1b}[2J & \u{202e}".to_owned()];
        let edge = AxisMarks { title: "\"><".into(), marks: vec![(0.5, "<".into())] };
        let image = Image {
            titles: &titles,
            shape: [2, 1],
            values: &[1.0, f64::NAN],
            scale: scale(0.0, 1.0),
            format: ValueFormat::default(),
            unit: "]]>",
            across: edge.clone(),
            down: edge,
        };
        let canvas = image.draw();
        let svg = canvas.svg().unwrap();
        assert!(svg.contains("&lt;script&gt;\\u{1b}[2J &amp; \\u{202e}"), "{svg}");
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && svg.contains("]]&gt;"));
        canvas.png().unwrap();
    }

    #[test]
    fn odd_sizes_are_drawn() {
        for shape in [[1, 1], [1, 540], [720, 1], [720, 540], [3, 500]] {
            let values = vec![1.0; shape[0] * shape[1]];
            let edge =
                || AxisMarks { title: "x".repeat(500), marks: vec![(0.0, "0".into()), (1.0, "1".into())] };
            let titles = ["t".repeat(1000)];
            let scale = scale(1.0, 1.0);
            let unit = &"u".repeat(300);
            let format = ValueFormat::default();
            let (across, down) = (edge(), edge());
            let image = Image { titles: &titles, shape, values: &values, scale, format, unit, across, down };
            let canvas = image.draw();
            assert!(canvas.size[0] <= 1300 && canvas.size[1] <= 800, "{shape:?}: {:?}", canvas.size);
            canvas.png().unwrap();
        }
        for n in [1, 2, 59, 720] {
            let mut columns = vec![Column::NONE; n];
            columns.iter_mut().step_by(2).for_each(|column| column.add(3.0));
            columns.iter_mut().skip(1).step_by(2).for_each(|column| column.add(f64::NAN));
            let line = Line {
                titles: &[],
                columns: &columns,
                scale: scale(0.0, 5.0),
                format: ValueFormat::default(),
                unit: "",
                across: AxisMarks::default(),
            };
            line.draw().png().unwrap();
        }
    }
}
