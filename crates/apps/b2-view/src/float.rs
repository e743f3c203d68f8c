//! Formats floats with the fewest digits that identify the number, rounded to a number of decimal places.

/// The size of a float, which determines how many digits identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Half,
    Single,
    Double,
}

impl Width {
    /// NumPy writes exponents from this value on.
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

/// The parts of an 80-bit x87 float in the first ten bytes, which is NumPy's `longdouble` on most machines: whether it
/// is negative, exponent and mantissa.
fn extended_parts(bytes: [u8; 16]) -> (bool, i32, u64) {
    let all = u128::from_le_bytes(bytes);
    let top = (all >> 64) as u16;
    (top >> 15 == 1, i32::from(top & 0x7fff), all as u64)
}

/// Multiplies the mantissa of an 80-bit float by two to the power of its exponent, given as stored.
fn scaled(mantissa: f64, exponent: i32) -> f64 {
    // Multiply in two steps, since the factor alone may underflow.
    let e = (exponent - 16383 - 63).clamp(-2000, 2000);
    mantissa * 2f64.powi(e / 2) * 2f64.powi(e - e / 2)
}

/// Converts an 80-bit float.
pub(crate) fn from_extended(bytes: [u8; 16]) -> f64 {
    let (negative, exponent, mantissa) = extended_parts(bytes);
    let magnitude = match exponent {
        0x7fff if mantissa << 1 == 0 => f64::INFINITY,
        0x7fff => f64::NAN,
        exponent => scaled(mantissa as f64, exponent),
    };
    if negative { -magnitude } else { magnitude }
}

/// Absolute difference of two 80-bit floats, neither of them NaN. It is not 0 where only their last digits differ, and
/// infinite beyond the range of a double.
pub(crate) fn extended_distance(pair: [[u8; 16]; 2]) -> f64 {
    let mut parts = pair.map(extended_parts);
    parts.sort_by_key(|(_, exponent, _)| *exponent);
    let [(negative, low, small), (other, high, large)] = parts;
    if high == 0x7fff {
        return if (negative, low) == (other, high) { 0.0 } else { f64::INFINITY };
    }
    // Subnormal numbers have the exponent of the smallest normal ones.
    let (low, high) = (low.max(1), high.max(1));
    let apart = (high - low).unsigned_abs();
    let shift = apart.min(63);
    let large = u128::from(large) << shift;
    let small = u128::from(small).checked_shr(apart - shift).unwrap_or(0);
    let sum = if negative == other { large.abs_diff(small) } else { large + small };
    scaled(sum as f64, high - shift as i32)
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
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digits {
    text: [u8; Self::MAX_DIGITS],
    len: usize,
    exponent: i32,
}

impl Digits {
    /// Maximum number of digits that a double needs.
    const MAX_DIGITS: usize = 17;

    /// Parses a number in source notation, such as `0.0012` or `1.5e-7`.
    fn of(number: &str) -> Self {
        let (number, power) = number.split_once('e').unwrap_or((number, "0"));
        let mut this =
            Self { text: [b'0'; Self::MAX_DIGITS], len: 0, exponent: power.parse().unwrap_or(0) - 1 };
        let mut whole = true;
        for byte in number.bytes() {
            match byte {
                b'.' => whole = false,
                b'0' if this.len == 0 => this.exponent -= i32::from(!whole),
                _ => {
                    this.exponent += i32::from(whole);
                    if let Some(place) = this.text.get_mut(this.len) {
                        *place = byte;
                        this.len += 1;
                    }
                }
            }
        }
        while this.len > 1 && this.text.get(this.len - 1) == Some(&b'0') {
            this.len -= 1;
        }
        if this.len == 0 { Self { len: 1, exponent: 0, ..this } } else { this }
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }
}

/// Ties between two numbers with that many digits go to the even one, as in NumPy.
fn shortest(x: f64, width: Width) -> Digits {
    let x = x.abs();
    match width {
        Width::Double => Digits::of(zmij::Buffer::new().format_finite(x)),
        Width::Single => Digits::of(zmij::Buffer::new().format_finite(x as f32)),
        Width::Half => shortest_half(x),
    }
}

/// The same for a half-precision float. It has so few bits that doubles are precise enough: every tie is exact, and
/// nothing else comes close to one.
fn shortest_half(x: f64) -> Digits {
    let bits = half::f16::from_f64(x).to_bits();
    let neighbour = |bits| half::f16::from_bits(bits).to_f64();
    // Everything between these rounds to `x`.
    let below = if bits == 0 { return Digits::of("0") } else { f64::midpoint(neighbour(bits - 1), x) };
    let above = if x < 65504.0 { f64::midpoint(neighbour(bits + 1), x) } else { 65520.0 };
    let is_even = bits.is_multiple_of(2);
    let rounds_back = |y: f64| (below < y && y < above) || (is_even && (y == below || y == above));
    /// The powers of ten from -8, that of the smallest float.
    const POWERS: [f64; 13] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4];
    let power = POWERS.partition_point(|power| *power <= x) as i32 - 9;
    for digits in 1..=5 {
        // The last of the digits.
        let last = power + 1 - digits;
        let unit = 10f64.powi(last.abs());
        let exact = if last < 0 { x * unit } else { x / unit };
        // Ties go to the even number, unless only the other one is close enough: below a power of two floats are
        // denser.
        let even = exact.round_ties_even();
        let found = [even, exact.floor() + exact.ceil() - even].into_iter().find(|number| {
            (number - exact).abs() <= 0.5 && rounds_back(if last < 0 { number / unit } else { number * unit })
        });
        if let Some(number) = found {
            let mut digits = Digits::of(itoa::Buffer::new().format(number as u32));
            digits.exponent += last;
            return digits;
        }
    }
    Digits::of(&format!("{x:e}"))
}

/// Whether a number with [`TIE_DIGITS`] extra digits is exactly halfway between two shorter ones, the lower of which is even.
/// NumPy rounds to that one; `format!` rounds up.
fn is_even_tie(digits: &str) -> bool {
    let Some((head, tail)) = digits.len().checked_sub(TIE_DIGITS).and_then(|at| digits.split_at_checked(at))
    else {
        return false;
    };
    let last = head.bytes().rfind(u8::is_ascii_digit).unwrap_or(b'0');
    tail.strip_prefix('5').is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'))
        && last.is_multiple_of(2)
}

/// Number of extra digits for detecting exact ties.
const TIE_DIGITS: usize = 30;

/// Rounds the exact value to this number of decimal places, ties to even.
fn rounded(x: f64, places: usize) -> String {
    let long = format!("{:.1$}", x.abs(), places + TIE_DIGITS);
    if is_even_tie(&long) {
        return long[..long.len() - TIE_DIGITS].to_owned();
    }
    format!("{:.places$}", x.abs())
}

/// Like [`rounded`], in scientific notation: the digits and the exponent.
fn rounded_exp(x: f64, places: usize) -> (String, i32) {
    let long = format!("{:.1$e}", x.abs(), places + TIE_DIGITS);
    let short = format!("{:.places$e}", x.abs());
    let (digits, exponent) = long.split_once('e').unwrap_or((&long, "0"));
    let (digits, exponent) = match is_even_tie(digits) {
        true => (digits.get(..digits.len() - TIE_DIGITS).unwrap_or(digits), exponent),
        false => short.split_once('e').unwrap_or((&short, "0")),
    };
    (digits.trim_end_matches('.').to_owned(), exponent.parse().unwrap_or(0))
}

fn sign(x: f64) -> &'static str {
    if x.is_sign_negative() { "-" } else { "" }
}

/// The digits before and after the decimal point, the latter at most `places` and without trailing zeros.
fn positional(x: f64, width: Width, places: usize) -> (String, String) {
    let shortest = shortest(x, width);
    let (digits, exponent) = (shortest.as_bytes(), shortest.exponent);
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
    let shortest = shortest(x, width);
    let (text, exponent): (String, i32) = if shortest.len > places + 1 {
        let (digits, exponent) = rounded_exp(x, places);
        (digits.chars().filter(char::is_ascii_digit).collect(), exponent)
    } else {
        (shortest.as_bytes().iter().map(|digit| char::from(*digit)).collect(), shortest.exponent)
    };
    let (first, rest) = text.split_at_checked(1).unwrap_or((&text, ""));
    (format!("{}{first}", sign(x)), rest.trim_end_matches('0').to_owned(), exponent)
}

/// Like [`scientific`], with the given number of places. Digits beyond the shortest form that reads back as the number
/// are those of its exact value, not zeros.
fn filled(x: f64, width: Width, places: usize) -> (String, String, i32) {
    if shortest(x, width).len == places + 1 {
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
    let mut out = String::new();
    push_scalar(&mut out, x, width);
    out
}

/// Appends a number as [`scalar`] formats it.
pub(crate) fn push_scalar(out: &mut String, x: f64, width: Width) {
    if !x.is_finite() {
        return out.push_str(&special(x, Sign::Negative));
    }
    let large = if width == Width::Double { 1e16 } else { width.large() };
    if x == 0.0 || (1e-4..large).contains(&x.abs()) {
        let mut buffer = zmij::Buffer::new();
        // In this range NumPy writes no exponents.
        return match width {
            Width::Double => out.push_str(buffer.format_finite(x)),
            Width::Single => out.push_str(buffer.format_finite(x as f32)),
            Width::Half => {
                let digits = shortest(x, width);
                let least = (digits.len as i32 - 1 - digits.exponent).max(1);
                out.push_str(sign(x));
                for place in (-least..=digits.exponent.max(0)).rev() {
                    if place == -1 {
                        out.push('.');
                    }
                    let digit = usize::try_from(digits.exponent - place).ok();
                    let digit = digit.and_then(|k| digits.as_bytes().get(k));
                    out.push(digit.map_or('0', |digit| char::from(*digit)));
                }
            }
        };
    }
    let digits = shortest(x, width);
    out.push_str(sign(x));
    for (k, digit) in digits.as_bytes().iter().enumerate() {
        if k == 1 {
            out.push('.');
        }
        out.push(char::from(*digit));
    }
    out.push('e');
    out.push_str(&exponent_text(digits.exponent, 2));
}

fn special(x: f64, sign: Sign) -> String {
    let plus = if sign == Sign::Always { "+" } else { "" };
    match () {
        () if x.is_nan() => format!("{plus}nan"),
        () if x > 0.0 => format!("{plus}inf"),
        () => "-inf".into(),
    }
}

/// Which numbers have a sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    Negative,
    Always,
}

/// How to format the floats of an array, with aligned decimal points.
#[derive(Clone, Debug)]
pub(crate) struct FloatFormat {
    width: Width,
    sign: Sign,
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
    pub(crate) fn new(numbers: impl Iterator<Item = f64> + Clone, width: Width, sign: Sign) -> Self {
        let plus = sign == Sign::Always;
        let finite = numbers.clone().filter(|x| x.is_finite());
        let sizes = finite.clone().map(f64::abs).filter(|x| *x != 0.0);
        let (min, max) =
            sizes.fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), x| (min.min(x), max.max(x)));
        let exponents =
            max > 0.0 && (max >= width.large() || min < width.small() || width.quotient(max, min) > 1000.0);
        let mut this = Self { width, sign, exponent: None, left: 0, right: 0, places: PRECISION };
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
            return format!("{:>1$}", special(x, self.sign), self.left + self.right + 1);
        }
        let sign = if self.sign == Sign::Always && !x.is_sign_negative() { "+" } else { "" };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_extended_floats_are_exact() {
        let float = |mantissa: u64, exponent: u16| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
            bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
            bytes
        };
        let (one, negative) = (1 << 63, 0x8000);
        let infinite = float(one, 0x7fff);
        for (a, b, expected) in [
            (float(one, 16383), float(one, 16384), 1.0),
            (float(one, 16383), float(one, 16383 + negative), 2.0),
            (float(one, 16383), float(one + 1, 16383), 2f64.powi(-63)),
            (float(u64::MAX, 16382), float(one, 16383), 2f64.powi(-64)),
            (float(u64::MAX, 16446), float(u64::MAX, 16446 + negative), 2f64.powi(65)),
            (float(one, 16383), float(one, 16383 + 200), 2f64.powi(200)),
            (float(0, 0), float(0, negative), 0.0),
            (float(0, 0), float(one, 16383 - 1000), 2f64.powi(-1000)),
            (float(one, 0x7000), float(one, 0x7001), f64::INFINITY),
            (float(one, 0x7000), float(one, 0x7000), 0.0),
            (float(one, 0x7000), infinite, f64::INFINITY),
            (infinite, infinite, 0.0),
            (infinite, float(one, 0xffff), f64::INFINITY),
        ] {
            assert_eq!(extended_distance([a, b]), expected, "{a:x?} {b:x?}");
            assert_eq!(extended_distance([b, a]), expected, "{b:x?} {a:x?}");
        }
    }

    /// The shortest digits by the exact arithmetic of the standard library, which takes microseconds.
    fn exact(x: f64, width: Width) -> Digits {
        let text = match width {
            Width::Double => format!("{x:e}"),
            Width::Single => format!("{:e}", x as f32),
            Width::Half => {
                let rounds_back = |text: &String| text.parse().is_ok_and(|y: f64| round_half(y) == x);
                // NumPy rounds this tie to the odd number, since the even one would be a different float.
                let odd = ["1.563e-2".to_owned()].into_iter().filter(|_| x == 0.015625);
                odd.chain((0..17).map(|places| format!("{x:.places$e}"))).find(rounds_back).unwrap()
            }
        };
        let shortest = Digits::of(&text);
        // The standard library rounds ties up.
        let (even, power) = rounded_exp(x, shortest.len - 1);
        let text = format!("{even}e{power}");
        let rounds_back = match width {
            Width::Single => text.parse().is_ok_and(|y: f32| y == x as f32),
            Width::Double => text.parse().is_ok_and(|y: f64| y == x),
            Width::Half => false,
        };
        if rounds_back { Digits::of(&text) } else { shortest }
    }

    fn check(x: f64, width: Width) {
        let x = x.abs();
        if x.is_finite() {
            assert_eq!(shortest(x, width), exact(x, width), "{x:e} as {width:?}");
        }
    }

    #[test]
    fn digits_are_the_shortest_and_the_nearest() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        for _ in 0..20_000 {
            let bits = random();
            check(f64::from_bits(bits), Width::Double);
            check(f64::from(f32::from_bits(bits as u32)), Width::Single);
            // Large integers, for which ties are common, and few digits.
            check((bits >> (bits & 15)) as f64, Width::Double);
            check(f64::from((bits >> (32 + (bits & 15))) as f32), Width::Single);
            check((bits >> 40) as f64 / 1000.0, Width::Double);
            check(f64::from((bits >> 50) as f32 / 100.0), Width::Single);
        }
        for exponent in -1074..1024 {
            let power = 2f64.powi(exponent.max(-1022)) * 2f64.powi(exponent.min(-1022) + 1022);
            for bits in [power.to_bits().saturating_sub(1), power.to_bits(), power.to_bits() + 1] {
                check(f64::from_bits(bits), Width::Double);
            }
            if (-149..128).contains(&exponent) {
                let bits = (power as f32).to_bits();
                (bits - 1..=bits + 1).for_each(|bits| check(f64::from(f32::from_bits(bits)), Width::Single));
            }
        }
        (0..0x7c00).for_each(|bits| check(half::f16::from_bits(bits).to_f64(), Width::Half));
    }
}
