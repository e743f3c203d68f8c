//! Formats strings and bytes like Python.

/// The quote that Python uses: double quotes only if that saves an escape.
fn quote(has: impl Fn(char) -> bool) -> char {
    if has('\'') && !has('"') { '"' } else { '\'' }
}

/// Formats a string like `repr`.
pub fn string(text: &str) -> String {
    let quote = quote(|c| text.contains(c));
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match u32::from(c) {
                n @ ..=0xff => format!("\\x{n:02x}"),
                n @ ..=0xffff => format!("\\u{n:04x}"),
                n => format!("\\U{n:08x}"),
            }),
        }
    }
    out.push(quote);
    out
}

fn is_printable(c: char) -> bool {
    // Test it after a letter, since combining characters are escaped only at the start.
    matches!(c, '\'' | '"' | '\\') || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// Formats bytes like `repr`.
pub fn bytes(bytes: &[u8]) -> String {
    let quote = quote(|c| bytes.contains(&(c as u8)));
    let mut out = format!("b{quote}");
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte if char::from(*byte) == quote => out.extend(['\\', quote]),
            b' '..=b'~' => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
    out
}

/// Formats bytes without a known meaning, each as a number.
pub fn void(bytes: &[u8]) -> String {
    let bytes: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("b'{bytes}'")
}

/// `1,296,000`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 item`, `2 items`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
