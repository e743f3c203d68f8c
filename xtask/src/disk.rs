//! The disk that long tasks fill: how much is free, and what may go before the end.

use std::path::Path;

use crate::root;

/// Returns the number of bytes that are free where a path is, if the system tells.
pub(crate) fn free(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// What is free for the target folder, for people, such as `12.5 GB of disk free`.
pub(crate) fn told() -> Option<String> {
    // The target folder may not be there yet.
    let bytes = free(&root::target()).or_else(|| free(root::workspace()))?;
    Some(format!("{:.1} GB of disk free", bytes as f64 / 1e9))
}

/// Removes what was compiled for steps that are over, if asked to.
pub(crate) struct Tidy {
    pub(crate) on: bool,
}

impl Tidy {
    /// Removes folders of the target folder.
    pub(crate) fn folders(&self, names: &[&str]) {
        if self.on {
            names.iter().for_each(|name| remove(&root::target().join(name)));
        }
    }

    /// Removes the target folder of a crate that is a workspace of its own.
    pub(crate) fn workspace(&self, name: &str) {
        let shared = std::env::var_os("CARGO_TARGET_DIR").is_some();
        if self.on && !shared {
            remove(&root::workspace().join("crates").join(name).join("target"));
        }
    }
}

/// Removes a folder. What stays only takes room: it is no fault of what is checked, so it is told and that is all.
fn remove(folder: &Path) {
    if let Err(error) = root::remove(folder) {
        println!("not removed, so there is less room for the next steps: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_known_where_there_is_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free(folder.path()).unwrap() > 0);
        assert!(free(&folder.path().join("not there")).is_none());
        assert!(told().unwrap().ends_with(" GB of disk free"));
    }

    #[test]
    fn what_cannot_be_removed_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (file, full) = (folder.path().join("file"), folder.path().join("full"));
        std::fs::create_dir_all(full.join("inner")).unwrap();
        std::fs::write(&file, "no folder").unwrap();
        remove(&full);
        remove(&file);
        remove(&folder.path().join("not there"));
        assert!(!full.exists());
        assert!(file.exists());
    }
}
