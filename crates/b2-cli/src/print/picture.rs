//! Draws numbers as colours: pictures in a terminal and PNG files.

use super::items::Simple;
use super::stats::HUGE;

/// Colour map from dark blue over green to yellow. Equal steps look equal, also in grey and to colour-blind people.
const STOPS: [[f64; 3]; 9] = [
    [68., 1., 84.],
    [71., 44., 122.],
    [59., 81., 139.],
    [44., 113., 142.],
    [33., 144., 141.],
    [39., 173., 129.],
    [92., 200., 99.],
    [170., 220., 50.],
    [253., 231., 37.],
];

/// The values of the first and the last colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl std::str::FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected two numbers, such as -2,30");
        let (low, high) = text.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(wrong);
        let (low, high) = (number(low)?, number(high)?);
        if low <= high {
            Ok(Self { low, high })
        } else {
            Err(format!("'{text}': the first is above the second"))
        }
    }
}

impl Range {
    /// The colour of a value. `None`, which is transparent, for NaN, and for huge values outside of the range, since
    /// they stand for missing ones.
    pub(crate) fn colour(self, x: f64) -> Option<[u8; 3]> {
        if x.is_nan() || (x.is_finite() && x.abs() >= HUGE && !(self.low..=self.high).contains(&x)) {
            return None;
        }
        Some(colour_at(self.place(x)))
    }

    /// Where the colour of a value is between the stops, counted from 0.
    fn place(self, x: f64) -> f64 {
        // Halve both values, since the difference may overflow.
        let span = self.high / 2.0 - self.low / 2.0;
        let share = if span > 0.0 { ((x / 2.0 - self.low / 2.0) / span).clamp(0.0, 1.0) } else { 0.5 };
        share * (STOPS.len() - 1) as f64
    }

    /// The range of numbers, `None` if there are none. Of floats, those that stand for missing values do not count.
    pub(crate) fn of(numbers: &[f64], are_floats: bool) -> Option<Self> {
        let most = if are_floats { HUGE } else { f64::INFINITY };
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = numbers.iter().fold(none, |(low, high), x| {
            // NaN is never less.
            if x.abs() < most {
                (if *x < low { *x } else { low }, if *x > high { *x } else { high })
            } else {
                (low, high)
            }
        });
        (low <= high).then_some(Self { low, high })
    }

    /// The range of what is in either.
    pub(crate) fn join(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

fn colour_at(place: f64) -> [u8; 3] {
    let i = (place as usize).min(STOPS.len() - 2);
    let [from, to] = [STOPS[i], STOPS[i + 1]];
    std::array::from_fn(|c| (from[c] + (to[c] - from[c]) * (place - i as f64)).round() as u8)
}

/// Colours many numbers: each as [`Range::colour`] does, but several times as fast.
pub(crate) struct Painter {
    range: Option<Range>,
    inks: Inks,
}

enum Inks {
    /// For integers of few values, from `low` to `high`: the number of each one's colour in the palette, and that of none.
    Few { palette: Vec<Option<[u8; 3]>>, low: f64, high: f64, indices: Vec<u8>, clear: u8 },
    /// For each of [`STEPS`] steps between two stops the colour, if it is the same at both ends of the step.
    Many(Vec<Option<[u8; 3]>>),
}

/// Steps between two stops. So many that there are two colours in only one of 50 steps.
const STEPS: usize = 4096;
/// Most values for which the colours are determined one by one.
const FEW: f64 = 1024.0;

impl Painter {
    pub(crate) fn new(simple: &Simple, range: Option<Range>) -> Self {
        let few = range.zip(simple.limits()).and_then(|(range, limits)| Self::few(range, limits));
        let many = || {
            // In between, colours change in one direction.
            let end = |step: usize| colour_at(step as f64 / STEPS as f64);
            let steps = (0..(STOPS.len() - 1) * STEPS).map(|step| (end(step), end(step + 1)));
            Inks::Many(
                steps
                    .map(|(a, b)| (a == b).then_some(a))
                    .chain([Some(end((STOPS.len() - 1) * STEPS))])
                    .collect(),
            )
        };
        Self { range, inks: few.unwrap_or_else(many) }
    }

    /// A palette of the integers from `least` to `most`; `None` if they have too many colours.
    fn few(range: Range, (least, most): (f64, f64)) -> Option<Inks> {
        // All that is beyond the range has the colours of the numbers next to it.
        let high = (range.high.floor() + 1.0).clamp(least, most);
        let low = (range.low.ceil() - 1.0).clamp(least, high);
        if high - low > FEW {
            return None;
        }
        let mut palette = Vec::new();
        let mut index = |colour: Option<[u8; 3]>| {
            let at = palette.iter().position(|there| *there == colour).unwrap_or(palette.len());
            if at == palette.len() {
                palette.push(colour);
            }
            u8::try_from(at).ok()
        };
        // Only the largest integers may have no colour.
        let clear = if most >= HUGE { index(None)? } else { 0 };
        let values = 0..=(high - low) as u32;
        let indices = values.map(|k| index(range.colour(low + f64::from(k)))).collect::<Option<_>>()?;
        Some(Inks::Few { palette, low, high, indices, clear })
    }

    /// The colours that [`paint`](Self::paint) numbers; `None` if it writes red, green and blue, and black for none.
    pub(crate) fn palette(&self) -> Option<&[Option<[u8; 3]>]> {
        match &self.inks {
            Inks::Few { palette, .. } => Some(palette),
            Inks::Many(_) => None,
        }
    }

    /// Appends the pixels of these numbers.
    pub(crate) fn paint(&self, numbers: &[f64], out: &mut Vec<u8>) {
        let Some(range) = self.range else {
            return out.resize(out.len() + 3 * numbers.len(), 0);
        };
        let is_missing = |x: f64| x.abs() >= HUGE && x.is_finite() && !(range.low..=range.high).contains(&x);
        match &self.inks {
            Inks::Few { low, high, indices, clear, .. } => out.extend(numbers.iter().map(|x| {
                if is_missing(*x) {
                    return *clear;
                }
                indices.get((x.clamp(*low, *high) - low) as usize).copied().unwrap_or(0)
            })),
            Inks::Many(steps) => {
                let pixel = |x: &f64| {
                    if x.is_nan() || is_missing(*x) {
                        return [0; 3];
                    }
                    let place = range.place(*x);
                    let step = steps.get((place * STEPS as f64) as usize).copied().flatten();
                    step.unwrap_or_else(|| colour_at(place))
                };
                out.extend(numbers.iter().flat_map(pixel));
            }
        }
    }
}

/// Draws two rows of pixels per line of text. `None`: no colour.
pub(crate) fn half_blocks(pixels: &[Option<[u8; 3]>], width: usize) -> String {
    let mut out = String::new();
    let rows: Vec<_> = pixels.chunks(width.max(1)).collect();
    for pair in rows.chunks(2) {
        for column in 0..width {
            let pixel = |row: usize| pair.get(row).and_then(|row| row.get(column).copied().flatten());
            out.push_str(&match (pixel(0), pixel(1)) {
                (None, None) => "\x1b[0m ".into(),
                (Some([r, g, b]), None) => format!("\x1b[0;38;2;{r};{g};{b}m\u{2580}"),
                (None, Some([r, g, b])) => format!("\x1b[0;38;2;{r};{g};{b}m\u{2584}"),
                (Some([r, g, b]), Some([s, h, c])) => {
                    format!("\x1b[0;38;2;{r};{g};{b};48;2;{s};{h};{c}m\u{2580}")
                }
            });
        }
        out.push_str("\x1b[0m\n");
    }
    out
}

/// Whether the user wants colours in a terminal, and the terminal has them (<https://no-color.org>).
pub(crate) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !console::is_dumb()
}

/// Width of the terminal on standard output, in columns.
pub(crate) fn columns() -> usize {
    let told = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    #[cfg(unix)]
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let size: Option<usize> = None;
    size.filter(|columns| *columns > 0).or_else(told).unwrap_or(80).clamp(1, 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_colours() {
        let range: Range = "-2, 30".parse().unwrap();
        assert_eq!(range, Range { low: -2.0, high: 30.0 });
        assert_eq!(range.colour(-2.0), Some([68, 1, 84]));
        assert_eq!((range.colour(30.0), range.colour(1e6)), (Some([253, 231, 37]), Some([253, 231, 37])));
        assert_eq!(range.colour(14.0), Some([33, 144, 141]), "the middle");
        assert_eq!((range.colour(f64::NAN), range.colour(-1e34)), (None, None));
        assert_eq!(Range { low: 1.0, high: 1.0 }.colour(1.0), Some([33, 144, 141]));
        for text in ["", "1", "2,1", "a,b", "nan,1", "1,inf", "1,2,3"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn many_numbers_have_the_colours_of_each() {
        let check = |dtype: &str, range: Range, numbers: &[f64], few: bool| {
            let painter = Painter::new(&Simple::new(&b2kit::Dtype::parse(dtype).unwrap()), Some(range));
            assert_eq!(painter.palette().is_some(), few, "{dtype} {range:?}");
            let mut out = Vec::new();
            painter.paint(numbers, &mut out);
            let colours: Vec<_> = match painter.palette() {
                Some(palette) => out.iter().map(|k| palette[usize::from(*k)]).collect(),
                None => out.chunks(3).map(|c| (c != [0; 3]).then(|| c.try_into().unwrap())).collect(),
            };
            assert_eq!(
                colours,
                numbers.iter().map(|x| range.colour(*x)).collect::<Vec<_>>(),
                "{dtype} {range:?}"
            );
        };
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e19, -1e34, 1e300, 0.0, -0.0];
        for (low, high) in
            [(0.0, 1.0), (-2.5, 7.25), (1e-300, 1e300), (-f64::MAX, f64::MAX), (3.0, 3.0), (-1e20, 1e20)]
        {
            let range = Range { low, high };
            let numbers: Vec<f64> =
                (-100..100_100).map(|k| low + (high / 1e5 - low / 1e5) * f64::from(k)).collect();
            check("<f8", range, &[&numbers, &special[..]].concat(), false);
        }
        let bytes: Vec<f64> = (0..256).map(f64::from).collect();
        for (low, high) in
            [(0.0, 255.0), (-3.7, 90.5), (100.2, 100.4), (-9.0, -8.0), (300.0, 400.0), (0.0, 0.0)]
        {
            check("|u1", Range { low, high }, &bytes, true);
            check("|b1", Range { low, high }, &[0.0, 1.0], true);
        }
        let shorts: Vec<f64> = (-32768..32768).map(f64::from).collect();
        check("<i2", Range { low: -40.0, high: 70.0 }, &shorts, true);
        check("<i2", Range { low: -32768.0, high: 32767.0 }, &shorts, false);
        check("<i2", Range { low: 0.0, high: 1000.0 }, &shorts, false);
        let longs = [0.0, 5.0, 99.0, 100.0, 101.0, 9e18, 1e19, 1.8e19];
        check("<u8", Range { low: 5.0, high: 100.0 }, &longs, true);
        check("<u8", Range { low: 5.0, high: 1.2e19 }, &longs, false);
    }

    #[test]
    fn two_rows_are_one_line() {
        let (red, none) = (Some([255, 0, 0]), None);
        let picture = half_blocks(&[red, none, red, none, red, none], 2);
        assert_eq!(picture.lines().count(), 2);
        assert!(picture.contains("38;2;255;0;0;48;2;255;0;0m\u{2580}"), "{picture:?}");
    }
}
