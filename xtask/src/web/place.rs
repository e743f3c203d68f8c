//! Where this task keeps what it makes.

use std::path::PathBuf;

use crate::root;

/// A folder of this task.
pub(super) fn folder(name: &str) -> PathBuf {
    root::target().join("web").join(name)
}
