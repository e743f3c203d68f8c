//! Round numbers and dates along an axis.

use crate::date::TimeUnit;

/// How values are formatted: as numbers, or as points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueFormat {
    pub(crate) time: Option<TimeUnit>,
}

impl ValueFormat {
    /// At most `most + 1` round values from `low` to `high`, as text.
    pub fn marks(self, low: f64, high: f64, most: usize, log: bool) -> Vec<(f64, String)> {
        if let Some(marks) = self.time.and_then(|unit| unit.marks(low, high, most)) {
            return marks;
        }
        let (marks, step) = round(low, high, most, log);
        marks.into_iter().map(|x| (x, label(x, step))).collect()
    }

    /// Formats a point in time; `None` if values are numbers.
    pub fn date(self, x: f64) -> Option<String> {
        Some(self.time?.short_date(x as i64))
    }
}

/// At most `most` round numbers from `low` to `high`, and the distance between them; with `log`, powers of ten if there
/// are enough.
pub(crate) fn round(low: f64, high: f64, most: usize, log: bool) -> (Vec<f64>, f64) {
    if !(low.is_finite() && high.is_finite()) || low >= high {
        return (if low.is_finite() { vec![low] } else { Vec::new() }, 1.0);
    }
    if log && low > 0.0 {
        let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
        if last > first {
            let every = (last - first + 1).unsigned_abs().div_ceil(most.max(1) as u32).max(1);
            let powers = (first..=last).step_by(every as usize).map(|k| 10f64.powi(k));
            return (powers.collect(), 0.0);
        }
    }
    // The difference itself may overflow.
    let least = high / most.max(1) as f64 - low / most.max(1) as f64;
    let unit = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|k| k * unit).find(|step| *step >= least * 0.999_999);
    let step = step.unwrap_or(least);
    let first = (low / step - 1e-9).ceil();
    let marks = (0..=most)
        .map(|k| (first + k as f64) * step)
        .take_while(|x| x.is_finite() && *x <= high + step * 1e-9);
    // Adding 0 turns -0 into 0. Steps may be smaller than the precision.
    let mut marks: Vec<f64> = marks.map(|x| x + 0.0).filter(|x| *x >= low - step * 1e-9).collect();
    marks.dedup();
    (marks, step)
}

/// Formats a number with enough digits to distinguish it from others `step` away.
pub(crate) fn label(x: f64, step: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let size = x.abs().max(step.abs());
    if !(1e-4..1e6).contains(&size) || (step == 0.0 && x.abs() < 1e-3) {
        // Digits of the mantissa below the step are meaningless.
        let digits =
            if step > 0.0 { (size.log10().floor() - step.log10().floor()).clamp(0.0, 16.0) } else { 0.0 };
        return format!("{x:.0$e}", digits as usize);
    }
    let decimals = if step > 0.0 {
        (-step.log10().floor()).clamp(0.0, 9.0)
    } else {
        (-x.abs().log10().floor()).max(0.0)
    };
    format!("{x:.0$}", decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        let texts = |low: f64, high: f64, most: usize, log: bool| {
            let (marks, step) = round(low, high, most, log);
            assert!(marks.len() <= most + 1, "{low} {high}: {marks:?}");
            assert!(marks.iter().all(|x| (low - step..=high + step).contains(x)), "{low} {high}: {marks:?}");
            marks.iter().map(|x| label(*x, step)).collect::<Vec<_>>()
        };
        assert_eq!(texts(0.0, 360.0, 6, false), ["0", "100", "200", "300"]);
        assert_eq!(texts(-1.8, 31.2, 6, false), ["0", "10", "20", "30"]);
        assert_eq!(texts(-0.3, 0.25, 6, false), ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2"]);
        assert_eq!(texts(1.0, 1e4, 6, true), ["1", "10", "100", "1000", "10000"]);
        assert_eq!(texts(2.0, 7.0, 5, true), ["2", "3", "4", "5", "6", "7"]);
        assert_eq!(texts(1e-9, 5e-9, 5, false), ["1e-9", "2e-9", "3e-9", "4e-9", "5e-9"]);
        assert_eq!(texts(3.0, 3.0, 5, false), ["3"]);
        assert_eq!(texts(1e9, 1e9 + 9.0, 3, false), ["1.000000000e9", "1.000000005e9"]);
        for (low, high) in
            [(-f64::MAX, f64::MAX), (0.0, f64::MIN_POSITIVE), (1.0, 1.0 + f64::EPSILON), (-5e-324, 0.0)]
        {
            texts(low, high, 5, false);
            texts(low, high, 5, true);
        }
        assert!(round(f64::NAN, 1.0, 5, false).0.is_empty());
    }
}
