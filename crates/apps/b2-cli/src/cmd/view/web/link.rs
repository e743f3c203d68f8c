//! Names of files, and texts as parts of addresses.

use std::path::Path;

use anyhow::{Context, Result};

/// A text as part of an address.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The name of a file.
pub(super) fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().with_context(|| format!("{}: not a file name", path.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
