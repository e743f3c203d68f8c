//! Paths in the repository, and temporary files of the tasks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The root of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => workspace().join("target"),
    }
}

/// A file or folder of these tasks in the target folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    target().join("xtask").join(name)
}

/// The fixtures.
pub(crate) fn testdata() -> PathBuf {
    workspace().join("testdata")
}

/// Creates a folder in the target folder that is removed at the end.
pub(crate) fn temporary(prefix: &str) -> Result<TempDir> {
    let parent = scratch("");
    fs::create_dir_all(&parent)?;
    Ok(tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?)
}

/// Removes a folder and its contents, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Creates a folder, or empties it.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    remove(folder)?;
    Ok(fs::create_dir_all(folder)?)
}

/// Copies a file or a flat folder.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Returns the given seed, or a new one that is short enough to type.
pub(crate) fn seed(wanted: Option<u64>) -> u64 {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    wanted.unwrap_or_else(|| clock() % 1_000_000_000)
}
