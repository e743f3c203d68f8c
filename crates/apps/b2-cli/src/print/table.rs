//! Formats text for people: aligned tables and readable sizes.

use b2_view::text::{count, thousands};

/// Rows of a name and a value, the values aligned.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<(String, String)>,
}

impl Table {
    pub(crate) fn row(&mut self, name: &str, value: impl Into<String>) {
        self.rows.push((name.to_owned(), value.into()));
    }

    /// Formats the rows, each indented by `indent` blanks and ending with a newline.
    pub(crate) fn render(&self, indent: usize) -> String {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.rows.iter().map(|(name, value)| format!("{:indent$}{name:<width$}  {value}\n", "")).collect()
    }
}

/// `5.29 MiB (5550336 bytes)`; the bytes alone below 1 KiB.
pub(crate) fn size(nbytes: u64) -> String {
    match short_size(nbytes) {
        short if nbytes < 1024 => short,
        short => format!("{short} ({nbytes} bytes)"),
    }
}

/// `5.29 MiB`, with three digits.
pub(crate) fn short_size(nbytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if nbytes < 1024 {
        return count(nbytes, "byte");
    }
    let mut value = nbytes as f64 / 1024.0;
    let mut unit = 0;
    // Use the next unit for values that would be shown as 1024 or more.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// `4.94 -> 1.77 MiB`: two sizes, the unit once where it is the same.
pub(crate) fn from_to(before: u64, after: u64) -> String {
    let (before, after) = (short_size(before), short_size(after));
    match (before.split_once(' '), after.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} -> {after}"),
        _ => format!("{before} -> {after}"),
    }
}

/// `10, 20` for a shape; `()` for none.
pub(crate) fn dims<T: ToString>(dims: &[T]) -> String {
    if dims.is_empty() { "()".into() } else { joined(dims, ", ") }
}

/// The items with a separator between them.
pub(crate) fn joined<T: ToString>(items: &[T], separator: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

/// `2.35x`, `20,000x`, or `-` when there is nothing to compare with.
pub(crate) fn ratio(nbytes: u64, cbytes: u64) -> String {
    match cbytes {
        0 => "-".into(),
        _ if nbytes / cbytes >= 1000 => format!("{}x", thousands(nbytes / cbytes)),
        _ => format!("{:.2}x", nbytes as f64 / cbytes as f64),
    }
}

/// Whether a character does more than display a glyph: it controls the terminal, changes the direction of text, ends
/// a line, or has no width, so that two names look alike.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Makes text from a file safe for a terminal by escaping these characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if acts(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// A name that should be UTF-8, for people: other bytes are escaped, so that different names look different.
pub(crate) fn printable_name(name: &[u8]) -> String {
    let parts = name.utf8_chunks().map(|part| {
        printable(part.valid())
            + &part.invalid().iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
    });
    parts.collect()
}

/// Escapes the same characters in JSON, where they occur only inside strings; line feeds between values stay.
pub(crate) fn printable_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) && c != '\n' {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_acts_on_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}"), "a\\u{1b}[2Jb\\u{9b}");
        assert_eq!(printable("gpj\u{202e}.txt\u{2069}\u{2028}"), "gpj\\u{202e}.txt\\u{2069}\\u{2028}");
        assert_eq!(printable("température"), "température");
        assert_eq!(printable("a\u{200b}b\u{feff}\x7f"), "a\\u{200b}b\\u{feff}\\u{7f}");
        let json = serde_json::json!({"a\u{202e}\u{9b}": "\u{e0041}\u{200d}\x1b é\n"});
        let text = printable_json(&serde_json::to_string_pretty(&json).unwrap());
        assert!(!text.chars().any(|c| acts(c) && c != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
    }

    #[test]
    fn sizes_read_well() {
        for (nbytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.00 KiB (1024 bytes)"),
            (10_239, "10.0 KiB (10239 bytes)"),
            (1_048_064, "1.00 MiB (1048064 bytes)"),
            (5_550_336, "5.29 MiB (5550336 bytes)"),
            (u64::MAX, "16.0 EiB (18446744073709551615 bytes)"),
        ] {
            assert_eq!(size(nbytes), text);
        }
    }

    #[test]
    fn tables_align() {
        let mut table = Table::default();
        table.row("a", "1");
        table.row("longer", dims(&[3, 4]));
        assert_eq!(table.render(2), "  a       1\n  longer  3, 4\n");
        assert_eq!(printable("a\u{1b}[1m\n"), "a\\u{1b}[1m\\n");
        assert_eq!((thousands(999).as_str(), thousands(1_296_000).as_str()), ("999", "1,296,000"));
        assert_eq!(from_to(5_180_000, 1_857_000), "4.94 -> 1.77 MiB");
        assert_eq!(from_to(2000, 400), "1.95 KiB -> 400 bytes");
        assert_eq!(ratio(8_000_000, 400), "20,000x");
        assert_eq!((ratio(10, 4).as_str(), ratio(1, 0).as_str()), ("2.50x", "-"));
    }
}
