//! Texts as parts of addresses and of HTML.

use std::path::Path;

use anyhow::{Context, Result};

/// A text as part of an address.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Escapes a text for HTML, also for attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The name of a file.
///
/// # Errors
/// Fails if the path has none.
pub(super) fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().with_context(|| format!("{}: not a file name", path.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
