//! SHA-256 of files and folders.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Returns the SHA-256 in hexadecimal.
pub(crate) fn bytes(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of a file, or for a folder that of the lines `hash name` of its files, sorted by name.
pub(crate) fn path(path: &Path) -> Result<String> {
    if !path.is_dir() {
        return Ok(bytes(&fs::read(path).with_context(|| format!("reading {}", path.display()))?));
    }
    let mut lines = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        lines.push(format!("{} {}\n", bytes(&fs::read(entry.path())?), entry.file_name().to_string_lossy()));
    }
    // Sort by name, which starts after the hash.
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    Ok(bytes(lines.concat().as_bytes()))
}

/// Returns the size of a file, or of all files in a folder.
pub(crate) fn size(path: &Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    fs::read_dir(path)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
