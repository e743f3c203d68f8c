//! Paths in the repository.

use std::path::{Path, PathBuf};

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

/// The fixtures.
pub(crate) fn testdata() -> PathBuf {
    workspace().join("testdata")
}
