//! Formats points in time and time spans like NumPy's `datetime64` and `timedelta64`.

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
