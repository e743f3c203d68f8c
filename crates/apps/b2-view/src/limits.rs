//! The colour range: requested by the user, or taken from the numbers.

use crate::colours::{ColourRange, Map, Scale};

/// A logarithmic scale does not start at 0 or below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLogarithm;

/// The ends of the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limits {
    /// Values.
    Values(ColourRange),
    /// Shares of the values, from 0 to 1.
    Shares(f64, f64),
}

impl std::str::FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected two numbers, such as -2:30 or 2%:98%");
        let (low, high) = text.split_once([':', ',']).ok_or_else(wrong)?;
        match (low.trim().strip_suffix('%'), high.trim().strip_suffix('%')) {
            (None, None) => format!("{low},{high}").parse().map(Self::Values),
            (Some(low), Some(high)) => {
                let share = |text: &str| {
                    text.trim().parse().ok().filter(|x| (0.0..=100.0).contains(x)).ok_or_else(wrong)
                };
                let (low, high): (f64, f64) = (share(low)?, share(high)?);
                if low < high {
                    Ok(Self::Shares(low / 100.0, high / 100.0))
                } else {
                    Err(format!("'{text}': the first is not below the second"))
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// The notation of command lines and links.
impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Values(ColourRange { low, high }) => write!(f, "{low}:{high}"),
            Self::Shares(low, high) => write!(f, "{}%:{}%", low * 100.0, high * 100.0),
        }
    }
}

/// The scale for these numbers; NaN marks missing values.
///
/// # Errors
/// When the limits do not fit a logarithmic scale.
pub fn scale(
    numbers: &[f64],
    limits: Option<Limits>,
    map: Map,
    log: bool,
    are_floats: bool,
) -> Result<Scale, NoLogarithm> {
    // Values not above 0 have no logarithm.
    let drawn: Vec<f64> = numbers.iter().copied().filter(|x| !log || *x > 0.0).collect();
    let all = ColourRange::of(&drawn, are_floats);
    let found = match (limits, all) {
        (Some(Limits::Values(range)), _) => {
            if log && range.low <= 0.0 {
                return Err(NoLogarithm);
            }
            return Ok(Scale { range, map, log });
        }
        (Some(Limits::Shares(low, high)), Some(all)) => {
            let mut sorted: Vec<f64> =
                drawn.into_iter().filter(|x| !all.is_missing(*x) && x.is_finite()).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let at = |share: f64| {
                sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied()
            };
            at(low).zip(at(high)).map(|(low, high)| ColourRange { low, high })
        }
        (_, all) => all,
    };
    let range = match found {
        // Zero is the middle of the colours.
        Some(ColourRange { low, high }) if map == Map::Diverging && low < 0.0 && high > 0.0 && !log => {
            let far = high.max(-low);
            ColourRange { low: -far, high: far }
        }
        Some(range) => range,
        None => ColourRange { low: if log { 1.0 } else { 0.0 }, high: 1.0 },
    };
    Ok(Scale { range, map, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_values_or_shares() {
        let values = |low, high| Ok(Limits::Values(ColourRange { low, high }));
        assert_eq!("-2:30".parse(), values(-2.0, 30.0));
        assert_eq!("-2, 30".parse(), values(-2.0, 30.0));
        assert_eq!("2%:98%".parse(), Ok(Limits::Shares(0.02, 0.98)));
        for text in ["", "1", "2:1", "a:b", "nan:1", "5%:1", "98%:2%", "0%:101%", "1:2:3"] {
            assert!(text.parse::<Limits>().is_err(), "{text}");
        }
    }

    #[test]
    fn scales_fit_the_numbers() {
        let of = |numbers: &[f64], limits: Option<&str>, map, log| {
            let scale = scale(numbers, limits.map(|text| text.parse().unwrap()), map, log, true).unwrap();
            (scale.range.low, scale.range.high)
        };
        let hundred: Vec<f64> = (0..=100).map(f64::from).chain([f64::NAN, 1e34]).collect();
        assert_eq!(of(&hundred, None, Map::Viridis, false), (0.0, 100.0));
        assert_eq!(of(&hundred, None, Map::Viridis, true), (1.0, 100.0));
        assert_eq!(of(&hundred, Some("10%:90%"), Map::Viridis, false), (10.0, 90.0));
        assert_eq!(of(&[-1.0, 4.0], None, Map::Diverging, false), (-4.0, 4.0));
        assert_eq!(of(&[1.0, 4.0], None, Map::Diverging, false), (1.0, 4.0));
        assert_eq!(of(&[f64::NAN], None, Map::Grey, false), (0.0, 1.0));
        assert_eq!(of(&[-1.0], Some("1%:2%"), Map::Grey, true), (1.0, 1.0));
        assert!(scale(&[], Some("0:1".parse().unwrap()), Map::Grey, true, true).is_err());
    }
}
