//! Dates of the calendar, which Rust's standard library does not have.

/// Days from 0000-03-01 to 1970-01-01.
const BEFORE: u64 = 719_468;

/// Returns the day of this time, given in seconds since 1970, as 2026-11-24.
pub(super) fn date(epoch: u64) -> String {
    // Days since 0000-03-01: leap days are at the end of years, and 400 years have 146097 days.
    let days = epoch / 86_400 + BEFORE;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + carry)
}

/// Reads a time as in "Thu, 12 Dec 2024 14:24:53 GMT", perhaps followed by other words. Returns seconds since 1970.
pub(super) fn of_http(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split_whitespace();
    let day: u64 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok().filter(|part| *part < 61));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if !words.next()?.starts_with("GMT") || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days.checked_sub(BEFORE).map(|days| days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (epoch, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_795_499_052, "2026-11-24"),
        ] {
            assert_eq!(date(epoch), day);
        }
    }

    #[test]
    fn times_of_http_are_read() {
        for (text, epoch) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Tue, 31 Dec 2024 23:59:59 GMT and see", 1_735_689_599),
            ("Thu, 12 Dec 2024 14:24:53 GMT.", 1_734_013_493),
        ] {
            assert_eq!(of_http(text), Some(epoch), "{text}");
        }
        for bad in [
            "",
            "soon",
            "Thu, 12 Foo 2024 14:24:53 GMT",
            "Thu, 12 Dec 2024 14:24 GMT",
            "Thu, 99999999999999999999 Dec 2024 14:24:53 GMT",
        ] {
            assert_eq!(of_http(bad), None, "{bad}");
        }
    }
}
