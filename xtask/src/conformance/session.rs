//! The shared state of all cases of one run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use b2kit::Plugins;
use serde_json::Value;
use tempfile::TempDir;

use super::report::{CaseOutcome, Report};
use crate::root;

/// One run.
pub(crate) struct Session {
    pub(crate) seed: u64,
    pub(crate) first: u64,
    pub(crate) folder: TempDir,
    pub(crate) report: Report,
    pub(super) failures: PathBuf,
}

impl Session {
    /// Counts a case, and removes its files, or keeps them if it failed.
    pub(super) fn finish(&mut self, outcome: &CaseOutcome, case: &Value) {
        let id = &outcome.id;
        let good = self.report.add(outcome);
        let keep = || -> Result<()> {
            fs::create_dir_all(&self.failures)?;
            fs::write(self.failures.join(format!("{id}.json")), serde_json::to_string_pretty(case)?)?;
            for path in files_of(self.folder.path(), id)? {
                root::copy(&path, &self.failures.join(path.file_name().context("a name")?))?;
            }
            Ok(())
        };
        if !good && let Err(e) = keep() {
            eprintln!("{id}: could not keep its files: {e:#}");
        }
        for path in files_of(self.folder.path(), id).unwrap_or_default() {
            // Remaining files are removed with the folder at the end.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

/// Returns the built-in codecs and filters, and those from other crates.
pub(crate) fn plugins() -> Plugins {
    Plugins::builtin().with_codecs(b2_zfp::codecs())
}

/// Returns the files and folders of a case, whose names contain its id.
fn files_of(folder: &Path, id: &str) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(id)));
    Ok(found)
}
