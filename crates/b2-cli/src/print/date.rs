//! Formats points in time and time spans like NumPy's `datetime64` and `timedelta64`.

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) count: i64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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

/// Stands for a missing time ("not a time").
pub(crate) const NAT: i64 = i64::MIN;

impl Unit {
    /// The unit of a dtype such as `<M8[ns]` or `<m8[25s]`.
    pub(crate) fn of(dtype: &str) -> Option<Self> {
        let Some((_, unit)) = dtype.split_once('[') else {
            return Some(Self { count: 1, kind: Kind::Generic });
        };
        let unit = unit.strip_suffix(']')?;
        let letters = unit.trim_start_matches(|c: char| c.is_ascii_digit());
        let count = &unit[..unit.len() - letters.len()];
        let count = if count.is_empty() { 1 } else { count.parse().ok()? };
        let kind = match letters {
            "Y" => Kind::Years,
            "M" => Kind::Months,
            "W" => Kind::Weeks,
            "D" => Kind::Days,
            "h" => Kind::Hours,
            "m" => Kind::Minutes,
            "s" => Kind::Seconds(0),
            "ms" => Kind::Seconds(3),
            "us" | "μs" => Kind::Seconds(6),
            "ns" => Kind::Seconds(9),
            "ps" => Kind::Seconds(12),
            "fs" => Kind::Seconds(15),
            "as" => Kind::Seconds(18),
            "generic" => Kind::Generic,
            _ => return None,
        };
        Some(Self { count, kind })
    }

    /// Formats a point in time as in ISO 8601.
    pub(crate) fn date(self, value: i64) -> String {
        if value == NAT {
            return "NaT".into();
        }
        let value = i128::from(value) * i128::from(self.count);
        let per_day = match self.kind {
            Kind::Generic => return value.to_string(),
            Kind::Years => return year(1970 + value),
            Kind::Months => {
                let (y, m) = (1970 + value.div_euclid(12), value.rem_euclid(12) + 1);
                return format!("{}-{m:02}", year(y));
            }
            Kind::Weeks => return day(value * 7),
            Kind::Days => return day(value),
            Kind::Hours => 24,
            Kind::Minutes => 24 * 60,
            Kind::Seconds(places) => 86_400 * 10_i128.pow(places),
        };
        let (days, rest) = (value.div_euclid(per_day), value.rem_euclid(per_day));
        let clock = match self.kind {
            Kind::Hours => format!("{rest:02}"),
            Kind::Minutes => format!("{:02}:{:02}", rest / 60, rest % 60),
            Kind::Seconds(places) => {
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

    /// Formats a time span with its unit.
    pub(crate) fn span(self, value: i64) -> String {
        if value == NAT {
            return "NaT".into();
        }
        let unit = match self.kind {
            Kind::Generic => "generic time units",
            Kind::Years => "years",
            Kind::Months => "months",
            Kind::Weeks => "weeks",
            Kind::Days => "days",
            Kind::Hours => "hours",
            Kind::Minutes => "minutes",
            Kind::Seconds(0) => "seconds",
            Kind::Seconds(3) => "milliseconds",
            Kind::Seconds(6) => "microseconds",
            Kind::Seconds(9) => "nanoseconds",
            Kind::Seconds(12) => "picoseconds",
            Kind::Seconds(15) => "femtoseconds",
            Kind::Seconds(_) => "attoseconds",
        };
        format!("{} {unit}", i128::from(value) * i128::from(self.count))
    }
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
