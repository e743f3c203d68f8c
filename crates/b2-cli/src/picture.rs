//! Draws numbers as colours: pictures in a terminal and PNG files.

use crate::stats::HUGE;

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
        // Halve both values, since the difference may overflow.
        let span = self.high / 2.0 - self.low / 2.0;
        let share = if span > 0.0 { ((x / 2.0 - self.low / 2.0) / span).clamp(0.0, 1.0) } else { 0.5 };
        let at = share * (STOPS.len() - 1) as f64;
        let i = (at as usize).min(STOPS.len() - 2);
        let [from, to] = [STOPS[i], STOPS[i + 1]];
        Some(std::array::from_fn(|c| (from[c] + (to[c] - from[c]) * (at - i as f64)).round() as u8))
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
    fn two_rows_are_one_line() {
        let (red, none) = (Some([255, 0, 0]), None);
        let picture = half_blocks(&[red, none, red, none, red, none], 2);
        assert_eq!(picture.lines().count(), 2);
        assert!(picture.contains("38;2;255;0;0;48;2;255;0;0m\u{2580}"), "{picture:?}");
    }
}
