//! What the index of the registry says about a version.
//!
//! Cargo is asked, by a lock file for a package that needs this version: so the registry is the one that cargo uses, by
//! its own configuration, and nothing here knows an address.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::sh;

/// Returns the checksum of a version's archive, or `None` if the index does not have the version.
pub(super) fn look(name: &str, version: &str) -> Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("src"))?;
    fs::write(folder.path().join("src").join("lib.rs"), "")?;
    let package = "[package]\nname = \"look\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    fs::write(
        folder.path().join("Cargo.toml"),
        format!("{package}[dependencies]\n{name} = \"={version}\"\n"),
    )?;
    let mut cargo: Command = sh::cargo(&["generate-lockfile", "--quiet"]);
    let output = cargo.current_dir(folder.path()).output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        if lacks(&said, name) {
            return Ok(None);
        }
        bail!("the index cannot be read: {}", said.trim());
    }
    checksum(&fs::read_to_string(folder.path().join("Cargo.lock"))?, name, version).map(Some)
}

/// Whether cargo says that the index has no such crate, or not this version of it. A version that was yanked is not seen.
fn lacks(said: &str, name: &str) -> bool {
    said.contains(&format!("no matching package named `{name}` found"))
        || said.contains(&format!("failed to select a version for the requirement `{name} ="))
}

/// Reads the checksum from a lock file.
fn checksum(lock: &str, name: &str, version: &str) -> Result<String> {
    let lock: toml::Table = lock.parse()?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("a lock file without packages")?;
    let of = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let package = packages.iter().find(|one| {
        of(one, "name").as_deref() == Some(name) && of(one, "version").as_deref() == Some(version)
    });
    let sum = package.and_then(|one| of(one, "checksum"));
    let sum = sum.with_context(|| format!("the lock file has no checksum of {name} {version}"))?;
    ensure!(sum.len() == 64, "the checksum of {name} {version} is {sum:?}");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Answers of cargo 1.95.
    const NO_CRATE: &str = "error: no matching package named `b2-core` found\nlocation searched: crates.io index\nrequired by package `look v0.0.0`\n";
    const NO_VERSION: &str = "error: failed to select a version for the requirement `b2-core = \"=99.0.0\"`\ncandidate versions found which didn't match: 1.0.19, 1.0.18, ...\nlocation searched: crates.io index\n";
    const NO_NETWORK: &str = "error: failed to get `b2-core` as a dependency of package `look v0.0.0`\n\nCaused by:\n  download of config.json failed\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"b2-core\"\nversion = \"0.1.0\"\nsource = \"registry\"\nchecksum = \"4a5f13b858c8d314ee3e8f639011f7ccefe71f97f96e50151fb991f267928e2c\"\n\n[[package]]\nname = \"look\"\nversion = \"0.0.0\"\ndependencies = [\n \"b2-core\",\n]\n";

    #[test]
    fn only_a_version_that_the_index_lacks_is_absent() {
        assert!(lacks(NO_CRATE, "b2-core") && lacks(NO_VERSION, "b2-core"));
        // What another crate lacks, or no network, says nothing about this one.
        assert!(!lacks(NO_CRATE, "b2kit") && !lacks(NO_NETWORK, "b2-core"));
    }

    #[test]
    fn the_checksum_is_read_from_the_lock_file() {
        let sum = checksum(LOCK, "b2-core", "0.1.0").unwrap();
        assert_eq!(sum, "4a5f13b858c8d314ee3e8f639011f7ccefe71f97f96e50151fb991f267928e2c");
        assert!(checksum(LOCK, "b2-core", "0.2.0").is_err());
        assert!(checksum(LOCK, "look", "0.0.0").is_err(), "a package without a checksum");
    }
}
