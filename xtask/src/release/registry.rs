//! A folder that stands in for the registry: what our crates depend on, and the archives that were laid there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::place::Release;
use super::sums;
use crate::{root, sh};

/// A folder that stands in for the registry.
pub(super) struct Registry {
    folder: PathBuf,
    /// The configuration of cargo that names it.
    pub(super) config: PathBuf,
}

impl Registry {
    /// Lays what the lock files beside these manifests name. Cargo downloads what is not there.
    pub(super) fn lay(release: &Release, name: &str, manifests: &[PathBuf]) -> Result<Self> {
        let folder = release.work.join(name);
        root::remove(&folder)?;
        let mut command = release.cargo(&["vendor", "--quiet", "--locked", "--versioned-dirs"]);
        for (at, manifest) in manifests.iter().enumerate() {
            command.arg(if at == 0 { "--manifest-path" } else { "--sync" }).arg(manifest);
        }
        sh::output(command.arg(&folder))?;
        let config = release.work.join(format!("{name}.toml"));
        fs::write(&config, config_of(&folder)?)?;
        Ok(Self { folder, config })
    }

    /// Lays an archive of ours, as if it had been published.
    pub(super) fn add(&self, archive: &Path) -> Result<()> {
        let name = archive.file_stem().context("an archive without a name")?;
        let folder = self.folder.join(name);
        sums::unpack(archive, &folder)?;
        let sum = sums::sha256(&fs::read(archive)?);
        let sums = serde_json::json!({ "files": {}, "package": sum });
        Ok(fs::write(folder.join(".cargo-checksum.json"), sums.to_string())?)
    }
}

/// Returns the configuration with which cargo takes everything from this folder.
fn config_of(folder: &Path) -> Result<String> {
    let folder = serde_json::to_string(folder)?;
    Ok(format!("[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\ndirectory = {folder}\n"))
}
