//! Floats of 80 bits, NumPy's `longdouble` on most machines, with all their digits.

use std::cmp::Ordering;

/// A whole number of any size: digits to the base 2^32, the lowest first, without zeros at the end.
#[derive(Clone, Debug, PartialEq)]
struct Big(Vec<u32>);

impl Big {
    fn new(n: u64) -> Self {
        let [low, high] = [n as u32, (n >> 32) as u32];
        Self(vec![low, high]).trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn times(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for digit in &mut self.0 {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            (*digit, carry) = (product as u32, product >> 32);
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times_ten_to(&mut self, exponent: u32) {
        (0..exponent / 9).for_each(|_| self.times(1_000_000_000));
        self.times(10_u32.pow(exponent % 9));
    }

    fn shifted(mut self, bits: u32) -> Self {
        self.times(1 << (bits % 32));
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, (bits / 32) as usize));
        }
        self
    }

    fn plus(&self, other: &Self) -> Self {
        let len = self.0.len().max(other.0.len());
        let at = |own: &Self, n: usize| u64::from(own.0.get(n).copied().unwrap_or(0));
        let mut carry = 0;
        let mut sum: Vec<u32> = (0..len)
            .map(|n| {
                let next = at(self, n) + at(other, n) + carry;
                carry = next >> 32;
                next as u32
            })
            .collect();
        sum.push(carry as u32);
        Self(sum).trimmed()
    }

    /// Subtracts a number that is not larger.
    fn minus(&mut self, other: &Self) {
        let mut borrow = 0;
        for (n, digit) in self.0.iter_mut().enumerate() {
            let next = i64::from(*digit) - i64::from(other.0.get(n).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(next < 0);
            *digit = next as u32;
        }
        *self = std::mem::replace(self, Self(Vec::new())).trimmed();
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let lengths = self.0.len().cmp(&other.0.len());
        Some(lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())))
    }
}

/// The shortest number that is read as this float of 80 bits, in its first ten bytes, as NumPy prints it.
pub(crate) fn shortest(bytes: [u8; 16]) -> String {
    let [m0, m1, m2, m3, m4, m5, m6, m7, e0, e1, ..] = bytes;
    let mantissa = u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    let biased = u16::from_le_bytes([e0, e1]) & 0x7FFF;
    let sign = if e1 & 0x80 != 0 { "-" } else { "" };
    if biased == 0x7FFF {
        return if mantissa << 1 == 0 { format!("{sign}inf") } else { "nan".into() };
    }
    if mantissa == 0 {
        return format!("{sign}0.0");
    }
    let (digits, exponent) = digits(mantissa, i32::from(biased.max(1)) - 16383 - 63);
    format!("{sign}{}", positional(&digits, exponent))
}

/// The fewest digits that identify `mantissa` times 2 to the `exponent` among all floats, and the power of ten of the
/// first one (Steele and White).
fn digits(mantissa: u64, exponent: i32) -> (String, i32) {
    let (up, down) = (exponent.max(0).unsigned_abs(), exponent.min(0).unsigned_abs());
    // The number is rest / whole; from half the distance to the next number on, `above` and `below`, the others begin.
    let is_power = mantissa == 1 << 63;
    let factor = if is_power { 2 } else { 1 };
    let mut rest = Big::new(mantissa).shifted(up + factor);
    let mut whole = Big::new(1).shifted(down + factor);
    let mut above = Big::new(1).shifted(up + factor - 1);
    let mut below = Big::new(1).shifted(up);
    let is_even = mantissa & 1 == 0;
    let bits = 64 - mantissa.leading_zeros() as i32 + exponent;
    let mut power = (f64::from(bits - 1) * std::f64::consts::LOG10_2).floor() as i32;
    if power >= 0 {
        whole.times_ten_to(power.unsigned_abs());
    } else {
        [&mut rest, &mut above, &mut below]
            .into_iter()
            .for_each(|big| big.times_ten_to(power.unsigned_abs()));
    }
    let reaches = |rest: &Big, above: &Big, whole: &Big| match rest.plus(above).partial_cmp(whole) {
        Some(Ordering::Greater) => true,
        Some(Ordering::Equal) => is_even,
        _ => false,
    };
    // The first digit is below ten: the estimate may be one too low.
    let mut ten = whole.clone();
    ten.times(10);
    if reaches(&rest, &above, &ten) {
        (whole, power) = (ten, power + 1);
    }
    let mut text = String::new();
    loop {
        let mut digit = 0_u8;
        while rest >= whole {
            rest.minus(&whole);
            digit += 1;
        }
        let low = rest < below || is_even && rest == below;
        let high = reaches(&rest, &above, &whole);
        if low || high {
            let mut twice = rest.clone();
            twice.times(2);
            if high && (!low || twice >= whole) {
                digit += 1;
            }
            text.push(char::from(b'0' + digit));
            return (text, power);
        }
        text.push(char::from(b'0' + digit));
        [&mut rest, &mut above, &mut below].into_iter().for_each(|big| big.times(10));
    }
}

/// Digits with the point, or with an exponent where NumPy writes one.
fn positional(digits: &str, exponent: i32) -> String {
    if !(-4..16).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        return format!("{first}{rest}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((whole, "")) => format!("{whole}.0"),
        Some((whole, rest)) => format!("{whole}.{rest}"),
        None => format!("{digits}{}.0", "0".repeat(whole - digits.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mantissa: u64, exponent: u16) -> String {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
        bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
        shortest(bytes)
    }

    /// What `str(np.longdouble(...))` returns.
    #[test]
    fn digits_are_those_of_numpy() {
        for (mantissa, exponent, text) in [
            (0xC90F_DAA2_2168_C235, 0x4000, "3.1415926535897932385"),
            (0xCCCC_CCCC_CCCC_CCCD, 0x3FFB, "0.1"),
            (0x8000_0000_0000_0000, 0x3FFF, "1.0"),
            (0x8000_0000_0000_0000, 0xBFFF, "-1.0"),
            (0xAAAA_AAAA_AAAA_AAAB, 0x3FFD, "0.33333333333333333334"),
            (0xFFFF_FFFF_FFFF_FFFF, 0x7FFE, "1.189731495357231765e+4932"),
            (0x8000_0000_0000_0000, 0x0001, "3.3621031431120935063e-4932"),
            (1, 0, "4e-4951"),
            (0x8E1B_C9BF_0400_0000, 0x4034, "1e+16"),
            (0xE35F_A931_A000_0000, 0x4030, "1000000000000000.0"),
            (0xD1B7_1758_E219_652C, 0x3FF1, "0.0001"),
            (0x8000_0000_0000_0000, 0x7FFF, "inf"),
            (0xC000_0000_0000_0000, 0xFFFF, "nan"),
            (0, 0x8000, "-0.0"),
            (0xF000_0000_0000_0000, 0x4006, "240.0"),
        ] {
            assert_eq!(of(mantissa, exponent), text, "{mantissa:x} {exponent:x}");
        }
    }
}
