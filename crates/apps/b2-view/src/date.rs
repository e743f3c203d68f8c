//! Formats points in time and time spans like NumPy's `datetime64` and `timedelta64`.

/// Steps between marks of times that are shorter than a month, in seconds.
const STEPS: [u32; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
    432_000, 864_000, 1_296_000,
];
/// The mean length of a month, in seconds.
const MONTH: f64 = 2_629_746.0;

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    pub(crate) count: i64,
    scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Generic,
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    /// A fraction of a second with this number of decimal places.
    Seconds(u32),
}

/// The units by their letters in a dtype, and their names.
const UNITS: [(&str, Scale, &str); 13] = [
    ("Y", Scale::Years, "years"),
    ("M", Scale::Months, "months"),
    ("W", Scale::Weeks, "weeks"),
    ("D", Scale::Days, "days"),
    ("h", Scale::Hours, "hours"),
    ("m", Scale::Minutes, "minutes"),
    ("s", Scale::Seconds(0), "seconds"),
    ("ms", Scale::Seconds(3), "milliseconds"),
    ("us", Scale::Seconds(6), "microseconds"),
    ("ns", Scale::Seconds(9), "nanoseconds"),
    ("ps", Scale::Seconds(12), "picoseconds"),
    ("fs", Scale::Seconds(15), "femtoseconds"),
    ("as", Scale::Seconds(18), "attoseconds"),
];

/// The value of a missing time ("not a time").
pub(crate) const NAT: i64 = i64::MIN;

impl TimeUnit {
    /// The unit of a dtype such as `<M8[ns]` or `<m8[25s]`.
    pub(crate) fn of(dtype: &str) -> Option<Self> {
        let Some((_, unit)) = dtype.split_once('[') else {
            return Some(Self { count: 1, scale: Scale::Generic });
        };
        let unit = unit.strip_suffix(']')?;
        let letters = unit.trim_start_matches(|c: char| c.is_ascii_digit());
        let count = &unit[..unit.len() - letters.len()];
        let count = if count.is_empty() { 1 } else { count.parse().ok()? };
        let scale = match letters {
            "generic" => Scale::Generic,
            "μs" => Scale::Seconds(6),
            letters => UNITS.iter().find(|(known, ..)| *known == letters)?.1,
        };
        Some(Self { count, scale })
    }

    /// Formats a point in time as in ISO 8601.
    pub(crate) fn date(self, value: i64) -> String {
        if value == NAT {
            return "NaT".into();
        }
        let value = i128::from(value) * i128::from(self.count);
        let per_day = match self.scale {
            Scale::Generic => return value.to_string(),
            Scale::Years => return year(1970 + value),
            Scale::Months => {
                let (y, m) = (1970 + value.div_euclid(12), value.rem_euclid(12) + 1);
                return format!("{}-{m:02}", year(y));
            }
            Scale::Weeks => return day(value * 7),
            Scale::Days => return day(value),
            Scale::Hours => 24,
            Scale::Minutes => 24 * 60,
            Scale::Seconds(places) => 86_400 * 10_i128.pow(places),
        };
        let (days, rest) = (value.div_euclid(per_day), value.rem_euclid(per_day));
        let clock = match self.scale {
            Scale::Hours => format!("{rest:02}"),
            Scale::Minutes => format!("{:02}:{:02}", rest / 60, rest % 60),
            Scale::Seconds(places) => {
                let second = 10_i128.pow(places);
                let (seconds, fraction) = (rest / second, rest % second);
                let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
                match places {
                    0 => clock,
                    places => format!("{clock}.{fraction:0width$}", width = places as usize),
                }
            }
            _ => String::new(),
        };
        format!("{}T{clock}", day(days))
    }

    /// Like [`date`](Self::date), without the zeros at the end of the time of day.
    pub(crate) fn short_date(self, value: i64) -> String {
        let mut text = self.date(value);
        if value == NAT {
            return text;
        }
        if text.contains('.') {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        if let Some((day, time)) = text.split_once('T') {
            let zeros = time.chars().all(|c| matches!(c, '0' | ':'));
            let seconds = if time.len() == 8 { time.strip_suffix(":00") } else { None };
            text.truncate(if zeros { day.len() } else { text.len() - if seconds.is_some() { 3 } else { 0 } });
        }
        text
    }

    /// At most `most + 1` round dates from `low` to `high`; `None` if the unit has no calendar.
    pub(crate) fn marks(self, low: f64, high: f64, most: usize) -> Option<Vec<(f64, String)>> {
        let count = self.count as f64;
        let (months, seconds) = match self.scale {
            Scale::Generic => return None,
            Scale::Years => (Some(12.0 * count), 12.0 * count * MONTH),
            Scale::Months => (Some(count), count * MONTH),
            Scale::Weeks => (None, count * 604_800.0),
            Scale::Days => (None, count * 86_400.0),
            Scale::Hours => (None, count * 3600.0),
            Scale::Minutes => (None, count * 60.0),
            Scale::Seconds(places) => (None, count / 10f64.powi(places.cast_signed())),
        };
        let step = (high / most.max(1) as f64 - low / most.max(1) as f64) * seconds;
        if let (None, Some(step)) = (months, round_step(step)) {
            let step = ((step / seconds).round() as i128).max(1);
            let marks = ((low as i128).div_euclid(step)..).map(|k| (k * step) as f64);
            let marks = marks.skip_while(|x| *x < low).take_while(|x| *x <= high).take(most + 1);
            return Some(marks.map(|x| (x, self.short_date(x as i64))).collect());
        }
        // Months, counted from year 0.
        let years = (0..12).flat_map(|k| [1, 2, 5].map(|n| 12 * n * 10_i128.pow(k)));
        let mut steps = [1, 2, 3, 6].into_iter().chain(years);
        let least = (0.999 * step / MONTH).max(months.unwrap_or(0.0));
        let step = steps.find(|months| *months as f64 >= least)?;
        let start = |month: i128| match months {
            Some(months) => (month - 1970 * 12) as f64 / months,
            None => days_before(month) as f64 * 86_400.0 / seconds,
        };
        let first = 1970 * 12 + (low * seconds / MONTH).floor() as i128 - 1;
        let marks = (first.div_euclid(step)..).map(|k| (k * step, start(k * step)));
        let marks = marks.skip_while(|(_, x)| *x < low).take_while(|(_, x)| *x <= high).take(most + 1);
        let label = |month: i128| match step % 12 {
            0 => year(month.div_euclid(12)),
            _ => format!("{}-{:02}", year(month.div_euclid(12)), month.rem_euclid(12) + 1),
        };
        Some(marks.map(|(month, x)| (x, label(month))).collect())
    }

    /// Formats a time span with its unit.
    pub(crate) fn span(self, value: i64) -> String {
        if value == NAT {
            return "NaT".into();
        }
        let named = UNITS.iter().find(|(_, scale, _)| *scale == self.scale);
        let unit = named.map_or("generic time units", |(.., name)| name);
        format!("{} {unit}", i128::from(value) * i128::from(self.count))
    }
}

/// The smallest round number of seconds that is at least `least`; `None` if it would be a month or more.
fn round_step(least: f64) -> Option<f64> {
    if least < 1.0 {
        let unit = 10f64.powf(least.log10().floor());
        return [1.0, 2.0, 5.0, 10.0].into_iter().map(|k| k * unit).find(|step| *step >= least * 0.999);
    }
    STEPS.into_iter().map(f64::from).find(|step| *step >= least * 0.999)
}

/// The days from 1 January 1970 to the start of a month, counted from January of year 0.
pub(crate) fn days_before(month: i128) -> i128 {
    // The year starts in March.
    let (years, months) = ((month - 2).div_euclid(12), (month - 2).rem_euclid(12));
    let leap = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    years * 365 + leap + (153 * months + 2) / 5 - 719_468
}

fn year(year: i128) -> String {
    // As in NumPy, the sign counts as one of the four characters.
    format!("{year:04}")
}

/// The date `days` after 1 January 1970, in the Gregorian calendar.
fn day(days: i128) -> String {
    // Count from 1 March of year 0, so that leap days come last.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let years = era * 400 + year_of_era + i128::from(month <= 2);
    format!("{}-{month:02}-{day:02}", year(years))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_dates() {
        let texts = |dtype: &str, low: f64, high: f64, most: usize| {
            let unit = TimeUnit::of(dtype).unwrap();
            let marks = unit.marks(low, high, most).unwrap_or_default();
            assert!(
                marks.len() <= most + 1 && marks.iter().all(|(x, _)| (low..=high).contains(x)),
                "{marks:?}"
            );
            // Each mark is where its text says.
            for (x, text) in marks.iter().filter(|(x, _)| x.fract() == 0.0 && x.abs() < 2f64.powi(53)) {
                assert!(unit.date(*x as i64).starts_with(text), "{text}: {}", unit.date(*x as i64));
            }
            marks.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        // 2021-03-01 to 2021-04-30.
        assert_eq!(
            texts("<M8[D]", 18_687.0, 18_747.0, 4),
            ["2021-03-04", "2021-03-19", "2021-04-03", "2021-04-18"]
        );
        assert_eq!(texts("<M8[D]", 18_687.0, 18_747.0, 2), ["2021-03", "2021-04"]);
        assert_eq!(texts("<M8[D]", -36_000.0, 18_747.0, 4), ["1900", "1950", "2000"]);
        assert_eq!(texts("<M8[ns]", 1.6e18, 1.6e18 + 7.2e12, 2), ["2020-09-13T13:00", "2020-09-13T14:00"]);
        assert_eq!(
            texts("<M8[ms]", 0.0, 40.0, 2),
            ["1970-01-01", "1970-01-01T00:00:00.02", "1970-01-01T00:00:00.04"]
        );
        assert_eq!(texts("<M8[M]", 0.0, 30.0, 3), ["1970", "1971", "1972"]);
        assert_eq!(texts("<M8[Y]", 0.0, 7.0, 4), ["1970", "1972", "1974", "1976"]);
        for unit in ["Y", "M", "W", "D", "h", "25s", "ns", "as"] {
            for (low, high) in [(-9.2e18, 9.2e18), (0.0, 0.0), (5.0, 6.0), (-1e6, 3.0)] {
                texts(&format!("<M8[{unit}]"), low, high, 5);
            }
        }
        assert_eq!(TimeUnit::of("<M8").unwrap().marks(0.0, 1.0, 5), None);
    }
}
