//! Formats floats with the fewest digits that identify the number, rounded to a number of decimal places.

/// The size of a float, which decides how many digits identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Half,
    Single,
    Double,
}

impl Width {
    /// From this value on NumPy writes exponents.
    fn large(self) -> f64 {
        match self {
            Self::Half => 1e3,
            Self::Single => 1e6,
            Self::Double => 1e8,
        }
    }

    /// Below this value NumPy writes exponents: 0.0001 as a float of this size.
    fn small(self) -> f64 {
        match self {
            Self::Half => round_half(0.0001),
            Self::Single => f64::from(0.0001_f32),
            Self::Double => 0.0001,
        }
    }

    /// `max / min`, rounded as a float of this size.
    fn quotient(self, max: f64, min: f64) -> f64 {
        match self {
            Self::Half => round_half(max / min),
            Self::Single => f64::from(max as f32 / min as f32),
            Self::Double => max / min,
        }
    }
}

/// Converts a half-precision float.
pub(crate) fn from_half(bits: u16) -> f64 {
    let (exponent, fraction) = ((bits >> 10) & 31, f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1024.0 + fraction) * 2f64.powi(i32::from(e) - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Converts an 80-bit x87 float in the first ten bytes, which is NumPy's `longdouble` on most machines.
pub(crate) fn from_extended(bytes: [u8; 16]) -> f64 {
    let all = u128::from_le_bytes(bytes);
    let (mantissa, top) = (all as u64, (all >> 64) as u16);
    let exponent = i32::from(top & 0x7fff);
    let magnitude = match exponent {
        0x7fff if mantissa << 1 == 0 => f64::INFINITY,
        0x7fff => f64::NAN,
        // Multiply in two steps, since the factor alone may underflow.
        e => {
            let e = (e - 16383 - 63).clamp(-2200, 2200);
            mantissa as f64 * 2f64.powi(e / 2) * 2f64.powi(e - e / 2)
        }
    };
    if top >> 15 == 1 { -magnitude } else { magnitude }
}

/// The nearest half-precision float, ties to even.
fn round_half(x: f64) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let exponent = x.abs().log2().floor().max(-14.0) as i32;
    let unit = 2f64.powi(exponent - 10);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() >= 65520.0 { f64::INFINITY.copysign(x) } else { rounded }
}

/// The fewest digits that identify a finite number, and the exponent of the first one.
fn shortest(x: f64, width: Width) -> (Vec<u8>, i32) {
    let x = x.abs();
    let text = match width {
        Width::Double => format!("{x:e}"),
        Width::Single => format!("{:e}", x as f32),
        Width::Half => {
            let tells = |text: &String| text.parse().is_ok_and(|y: f64| round_half(y) == x);
            (0..17).map(|places| format!("{x:.places$e}")).find(tells).unwrap_or_else(|| format!("{x:e}"))
        }
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_digit).collect();
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    // Halfway between two numbers with that many digits NumPy takes the even one.
    let (even, power) = rounded_exp(x, digits.len().saturating_sub(1));
    let text = format!("{even}e{power}");
    let tells = match width {
        Width::Single => text.parse().is_ok_and(|y: f32| y == x as f32),
        Width::Double => text.parse().is_ok_and(|y: f64| y == x),
        Width::Half => false,
    };
    if tells {
        return (even.bytes().filter(u8::is_ascii_digit).collect(), power);
    }
    (digits, exponent.parse().unwrap_or(0))
}

/// Whether a number with [`MORE`] extra digits is exactly halfway between two shorter ones, the lower of which is even.
/// NumPy rounds to that one; `format!` rounds up.
fn is_even_tie(digits: &str) -> bool {
    let Some((head, tail)) = digits.len().checked_sub(MORE).and_then(|at| digits.split_at_checked(at)) else {
        return false;
    };
    let last = head.bytes().rfind(u8::is_ascii_digit).unwrap_or(b'0');
    tail.strip_prefix('5').is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'))
        && last.is_multiple_of(2)
}

/// Number of extra digits for detecting exact ties.
const MORE: usize = 30;

/// Rounds the exact value to this number of decimal places, ties to even.
fn rounded(x: f64, places: usize) -> String {
    let long = format!("{:.1$}", x.abs(), places + MORE);
    if is_even_tie(&long) {
        return long[..long.len() - MORE].to_owned();
    }
    format!("{:.places$}", x.abs())
}

/// Like [`rounded`], in scientific notation: the digits and the exponent.
fn rounded_exp(x: f64, places: usize) -> (String, i32) {
    let long = format!("{:.1$e}", x.abs(), places + MORE);
    let short = format!("{:.places$e}", x.abs());
    let (digits, exponent) = long.split_once('e').unwrap_or((&long, "0"));
    let (digits, exponent) = match is_even_tie(digits) {
        true => (digits.get(..digits.len() - MORE).unwrap_or(digits), exponent),
        false => short.split_once('e').unwrap_or((&short, "0")),
    };
    (digits.trim_end_matches('.').to_owned(), exponent.parse().unwrap_or(0))
}

fn sign(x: f64) -> &'static str {
    if x.is_sign_negative() { "-" } else { "" }
}

/// The digits before and after the decimal point, the latter at most `places` and without trailing zeros.
fn positional(x: f64, width: Width, places: usize) -> (String, String) {
    let (digits, exponent) = shortest(x, width);
    let fraction = (digits.len() as i32 - 1 - exponent).max(0) as usize;
    let (whole, fraction) = if fraction > places {
        let text = rounded(x, places);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
    } else {
        let digit = |place: i32| match usize::try_from(exponent - place) {
            Ok(i) => char::from(digits.get(i).copied().unwrap_or(b'0')),
            Err(_) => '0',
        };
        let whole = (0..=exponent.max(0)).rev().map(digit).collect();
        (whole, (1..=fraction as i32).map(|place| digit(-place)).collect::<String>())
    };
    let fraction = if fraction == "0" { String::new() } else { fraction };
    (format!("{}{whole}", sign(x)), fraction)
}

/// The first digit, the digits after the decimal point (at most `places`, without trailing zeros), and the exponent.
fn scientific(x: f64, width: Width, places: usize) -> (String, String, i32) {
    let (digits, exponent) = shortest(x, width);
    let (digits, exponent) = if digits.len() > places + 1 {
        let (digits, exponent) = rounded_exp(x, places);
        (digits.bytes().filter(u8::is_ascii_digit).collect(), exponent)
    } else {
        (digits, exponent)
    };
    let text: String = digits.iter().map(|digit| char::from(*digit)).collect();
    let (first, rest) = text.split_at_checked(1).unwrap_or((&text, ""));
    (format!("{}{first}", sign(x)), rest.trim_end_matches('0').to_owned(), exponent)
}

/// Like [`scientific`], with the given number of places. Digits beyond the shortest form that reads back as the number
/// are those of its exact value, not zeros.
fn filled(x: f64, width: Width, places: usize) -> (String, String, i32) {
    let (digits, _) = shortest(x, width);
    if digits.len() == places + 1 {
        return scientific(x, width, places);
    }
    let (digits, exponent) = rounded_exp(x, places);
    let (first, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    (format!("{}{first}", sign(x)), rest.to_owned(), exponent)
}

fn exponent_text(exponent: i32, digits: usize) -> String {
    format!("{}{:0digits$}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// Formats a single number like a NumPy scalar, so that it reads back as the same: `0.1`, `1.0`, `1e-05`, `nan`.
pub(crate) fn scalar(x: f64, width: Width) -> String {
    if !x.is_finite() {
        return special(x, false);
    }
    let large = if width == Width::Double { 1e16 } else { width.large() };
    if x == 0.0 || (1e-4..large).contains(&x.abs()) {
        let (whole, fraction) = positional(x, width, 400);
        return format!("{whole}.{}", if fraction.is_empty() { "0" } else { &fraction });
    }
    let (first, rest, exponent) = scientific(x, width, 400);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{first}{point}{rest}e{}", exponent_text(exponent, 2))
}

fn special(x: f64, plus: bool) -> String {
    let plus = if plus { "+" } else { "" };
    match () {
        () if x.is_nan() => format!("{plus}nan"),
        () if x > 0.0 => format!("{plus}inf"),
        () => "-inf".into(),
    }
}

/// How to format the floats of an array, with aligned decimal points.
#[derive(Clone, Debug)]
pub(crate) struct FloatFormat {
    width: Width,
    /// Whether positive numbers have a sign, too.
    plus: bool,
    /// Number of digits of the exponent, if there are exponents.
    exponent: Option<usize>,
    /// Characters before and after the decimal point, including exponents.
    left: usize,
    right: usize,
    places: usize,
}

/// Maximum number of decimal places.
const PRECISION: usize = 8;

impl FloatFormat {
    /// Determines the format for all of these numbers.
    pub(crate) fn new(numbers: impl Iterator<Item = f64> + Clone, width: Width, plus: bool) -> Self {
        let finite = numbers.clone().filter(|x| x.is_finite());
        let sizes = finite.clone().map(f64::abs).filter(|x| *x != 0.0);
        let (min, max) =
            sizes.fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), x| (min.min(x), max.max(x)));
        let exponents =
            max > 0.0 && (max >= width.large() || min < width.small() || width.quotient(max, min) > 1000.0);
        let mut this = Self { width, plus, exponent: None, left: 0, right: 0, places: PRECISION };
        let signed = |whole: &String| whole.len() + usize::from(plus && !whole.starts_with('-'));
        if exponents {
            let mut places = 0;
            let mut digits = 2;
            for x in finite {
                let (first, rest, exponent) = scientific(x, width, PRECISION);
                this.left = this.left.max(signed(&first));
                places = places.max(rest.len());
                digits = digits.max(exponent_text(exponent, 2).len() - 1);
            }
            (this.places, this.exponent, this.right) = (places, Some(digits), digits + 2 + places);
        } else {
            for x in finite {
                let (whole, fraction) = positional(x, width, PRECISION);
                this.left = this.left.max(signed(&whole));
                this.right = this.right.max(fraction.len());
            }
        }
        let mut other = numbers.filter(|x| !x.is_finite()).peekable();
        if other.peek().is_some() {
            let minus = plus || other.any(|x| x == f64::NEG_INFINITY);
            let longest = 3 + usize::from(minus);
            this.left = this.left.max(longest.saturating_sub(this.right + 1));
        }
        this
    }

    pub(crate) fn write(&self, x: f64) -> String {
        if !x.is_finite() {
            return format!("{:>1$}", special(x, self.plus), self.left + self.right + 1);
        }
        let sign = if self.plus && !x.is_sign_negative() { "+" } else { "" };
        if let Some(digits) = self.exponent {
            let (first, rest, exponent) = filled(x, self.width, self.places);
            let exponent = exponent_text(exponent, digits);
            let whole = format!("{sign}{first}");
            let (left, places) = (self.left, self.places);
            return format!("{whole:>left$}.{rest:0<places$}e{exponent}");
        }
        let (whole, fraction) = positional(x, self.width, PRECISION);
        format!("{:>1$}.{fraction:<2$}", format!("{sign}{whole}"), self.left, self.right)
    }
}
