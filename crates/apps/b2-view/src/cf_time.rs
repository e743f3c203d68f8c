//! Times as the CF conventions store them: numbers with `units = "days since 2000-01-01"`.

use crate::date::{NAT, days_before};

/// The first day of the Gregorian calendar, 15 October 1582, in days since 1970. The calendar `standard` is Julian before.
const GREGORIAN: i64 = -141_427;
/// Times further from 1970 than this are missing values, in milliseconds.
const MAX_TIME: f64 = 1e17;

/// What numbers with such a unit mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CfTime {
    /// The length of the unit in milliseconds.
    unit: f64,
    /// The time of the number 0, in milliseconds since 1970.
    start: i64,
    /// Times before are in another calendar.
    first: i64,
}

impl CfTime {
    /// Parses a unit and a calendar. `None` if it is no unit of time, and for what has no dates here: calendars with
    /// years of 360, 365 or 366 days, units of months and years, and time zones.
    pub fn parse(units: &str, calendar: Option<&str>) -> Option<Self> {
        let first = match calendar.unwrap_or("standard").to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => GREGORIAN.saturating_mul(86_400_000),
            "proleptic_gregorian" => i64::MIN,
            _ => return None,
        };
        let (unit, start) = units.split_once(" since ")?;
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "days" | "day" | "d" => 86_400e3,
            "hours" | "hour" | "hrs" | "hr" | "h" => 3600e3,
            "minutes" | "minute" | "mins" | "min" => 60e3,
            "seconds" | "second" | "secs" | "sec" | "s" => 1e3,
            "milliseconds" | "millisecond" | "msecs" | "msec" | "ms" => 1.0,
            "microseconds" | "microsecond" => 1e-3,
            "nanoseconds" | "nanosecond" => 1e-6,
            _ => return None,
        };
        let start = start.trim();
        let start = start.strip_suffix("UTC").or_else(|| start.strip_suffix('Z')).unwrap_or(start).trim();
        let start =
            ["+00:00", "+0:00"].iter().find_map(|zone| start.strip_suffix(zone)).unwrap_or(start).trim();
        let (date, clock) = start.split_once(['T', ' ']).unwrap_or((start, ""));
        let start = day(date, first)?.checked_mul(86_400_000)?.checked_add(milliseconds(clock.trim())?)?;
        Some(Self { unit, start, first })
    }

    /// The times of numbers, in milliseconds since 1970. `None` if one is in another calendar.
    pub(crate) fn times(self, numbers: &[f64]) -> Option<Vec<i64>> {
        let time = |x: &f64| {
            let time = (x * self.unit).round() + self.start as f64;
            if time.is_nan() || time.abs() >= MAX_TIME {
                return Some(NAT);
            }
            Some(time as i64).filter(|time| *time >= self.first)
        };
        numbers.iter().map(time).collect()
    }
}

/// Days since 1970 of `2000-1-1`, of which month and day may be missing. Dates before `first` are Julian.
fn day(date: &str, first: i64) -> Option<i64> {
    let mut parts = date.split('-');
    let mut next = |default: Option<&str>| -> Option<i64> {
        let text = parts.next().or(default)?;
        let is_number = !text.is_empty() && text.len() <= 6 && text.bytes().all(|b| b.is_ascii_digit());
        if is_number { text.parse().ok() } else { None }
    };
    let (year, month, day) = (next(None)?, next(Some("1"))?, next(Some("1"))?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = i64::try_from(days_before(i128::from(year * 12 + month - 1))).ok()? + day - 1;
    if days >= first / 86_400_000 {
        return Some(days);
    }
    // In the year of the leap day that only this calendar has, it comes before the months from March on.
    let centuries = (if month < 3 { year - 1 } else { year }).div_euclid(100);
    Some(days + centuries - centuries.div_euclid(4) - 2)
}

/// The milliseconds of `12:30:00.5`; parts may be missing.
fn milliseconds(clock: &str) -> Option<i64> {
    let mut parts = clock.split(':');
    let mut next = |limit: f64| -> Option<f64> {
        let text = match parts.next() {
            None | Some("") => return Some(0.0),
            Some(text) => text.trim(),
        };
        let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if is_number { text.parse().ok().filter(|x: &f64| *x < limit) } else { None }
    };
    let (hours, minutes, seconds) = (next(24.0)?, next(60.0)?, next(61.0)?);
    if parts.next().is_some() || hours.fract() != 0.0 || minutes.fract() != 0.0 {
        return None;
    }
    Some(((hours * 3600.0 + minutes * 60.0 + seconds) * 1e3).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::TimeUnit;

    fn text(units: &str, calendar: Option<&str>, x: f64) -> Option<String> {
        let times = CfTime::parse(units, calendar)?.times(&[x])?;
        Some(TimeUnit::of("<M8[ms]")?.short_date(times[0]))
    }

    /// Compared with cftime's `num2date`.
    #[test]
    fn numbers_with_units_of_cf_are_times() {
        for (units, calendar, x, expected) in [
            ("days since 2000-01-01", None, 59.5, "2000-02-29T12:00"),
            ("days since 2000-1-1 00:00:0.0", Some("gregorian"), 366.0, "2001-01-01"),
            ("hours since 1900-01-01T12:00:00Z", Some("standard"), 12.0, "1900-01-02"),
            (
                "seconds since 1970-01-01 00:00:00 UTC",
                Some("proleptic_gregorian"),
                1.5,
                "1970-01-01T00:00:01.5",
            ),
            ("hours since 1-1-1 00:00:0.0", None, 17_522_904.0, "2000-01-01"),
            ("days since 1582-10-04", Some("standard"), 1.0, "1582-10-15"),
            ("days since 0001-01-01", Some("proleptic_gregorian"), 0.0, "0001-01-01"),
            ("days since 0001-01-01", Some("standard"), 577_737.0, "1582-10-15"),
            ("days since 2000-01-01", None, 9.96e36, "NaT"),
            ("days since 2000-01-01", None, f64::NAN, "NaT"),
        ] {
            assert_eq!(text(units, calendar, x).as_deref(), Some(expected), "{units} {calendar:?} {x}");
        }
    }

    #[test]
    fn other_calendars_and_units_stay_numbers() {
        for (units, calendar) in [
            ("days since 2000-01-01", Some("noleap")),
            ("days since 2000-01-01", Some("365_day")),
            ("days since 2000-01-01", Some("360_day")),
            ("days since 2000-01-01", Some("julian")),
            ("months since 2000-01-01", None),
            ("days since 2000-01-01 00:00 +5:00", None),
            ("days since 2000-13-01", None),
            ("days since", None),
            ("days since x", None),
            ("days since 999999999-01-01", None),
            ("K", None),
            ("", None),
        ] {
            assert_eq!(CfTime::parse(units, calendar), None, "{units} {calendar:?}");
        }
        // Before the Gregorian calendar.
        assert_eq!(text("days since 1582-10-15", None, -1.0), None);
    }
}
