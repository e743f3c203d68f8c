//! What happens only without `--dry-run`.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::metadata;
use super::place::Release;
use super::tools::Tools;
use crate::{root, sh};

/// Environment variables with the credentials of the two registries.
const CREDENTIALS: [&str; 2] = ["CARGO_REGISTRY_TOKEN", "MATURIN_PYPI_TOKEN"];

/// Refuses to publish what is not a finished, tagged state, and without credentials.
pub(super) fn ready(version: &str, python: bool) -> Result<()> {
    let here = root::workspace();
    let mut missing = Vec::new();
    if !sh::git(here, &["status", "--porcelain"])?.is_empty() {
        missing.push("the work tree has changes that are not committed".to_owned());
    }
    let tags = sh::git(here, &["tag", "--points-at", "HEAD"])?;
    if !tags.lines().any(|tag| tag == format!("v{version}")) {
        missing.push(format!("the last commit has no tag v{version}"));
    }
    let text = std::fs::read_to_string(here.join("Cargo.toml"))?;
    if metadata::version(&text).as_deref() != Some(version) {
        missing.push(format!(
            "Cargo.toml has another version: `cargo xtask release {version} --prepare` sets it"
        ));
    }
    let changelog = std::fs::read_to_string(here.join("CHANGELOG.md"))?;
    if metadata::section(&changelog, version).is_none() {
        missing.push(format!("CHANGELOG.md has no section about {version}"));
    }
    if metadata::repository(here)?.contains(metadata::PLACEHOLDER) {
        missing.push("the repository in Cargo.toml is a placeholder".to_owned());
    }
    let credentials = &CREDENTIALS[..if python { 2 } else { 1 }];
    for name in credentials.iter().filter(|name| std::env::var_os(name).is_none_or(|value| value.is_empty()))
    {
        missing.push(format!("{name} is not set"));
    }
    ensure!(missing.is_empty(), "this cannot be published:\n  {}", missing.join("\n  "));
    Ok(())
}

/// Publishes the crates. What was made and tried before is what is sent.
pub(super) fn crates(release: &Release) -> Result<()> {
    let crates = metadata::crates(&release.tree)?;
    // Cargo waits for each until the next can use it.
    let mut publish = release.cargo(&["publish", "--locked", "--no-verify"]);
    for one in crates.iter().filter(|one| one.inside) {
        publish.args(["--package", &one.name]);
    }
    sh::run(publish)?;
    for one in crates.iter().filter(|one| !one.inside) {
        let mut publish = release.cargo(&["publish", "--no-verify", "--exclude-lockfile", "--manifest-path"]);
        publish.arg(release.tree.join(&one.folder).join("Cargo.toml"));
        sh::run(publish)?;
    }
    Ok(())
}

/// Publishes the crates and the Python package.
pub(super) fn publish(release: &Release) -> Result<()> {
    if !release.not_run.is_empty() {
        println!("not tried here: {}", release.not_run.join("; "));
    }
    crates(release)?;
    let mut upload = Command::new(Tools::install()?.maturin());
    upload.arg("upload").arg("--non-interactive").arg("--skip-existing");
    let mut found = 0;
    for entry in std::fs::read_dir(&release.artefacts)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".whl") || name == format!("b2kit-{}.tar.gz", release.version) {
            upload.arg(path);
            found += 1;
        }
    }
    if found == 0 {
        bail!("there is no wheel");
    }
    sh::run(upload).context("the crates are published, the Python package is not")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_without_a_tag_is_refused() {
        let error = super::ready("987.6.5", true).unwrap_err().to_string();
        assert!(error.contains("no tag v987.6.5") && error.contains("another version"), "{error}");
    }
}
