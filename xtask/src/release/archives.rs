//! The archives of the crates, and that of the sources.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::place::Release;
use super::{metadata, sums};
use crate::{root, sh};

/// Makes them all. Nothing is built: that is what the next steps do, from the archives.
pub(super) fn make(release: &mut Release) -> Result<()> {
    let crates = metadata::crates(&release.tree)?;
    let packages = release.work.join("target").join("package");
    root::remove(&packages)?;
    // All at once: what a lock file in an archive says of our other crates comes from this run, not from a registry.
    let mut package = release.cargo(&["package", "--locked", "--no-verify"]);
    for one in crates.iter().filter(|one| one.inside) {
        package.args(["--package", &one.name]);
    }
    sh::run(package)?;
    for one in crates.iter().filter(|one| !one.inside) {
        // A workspace of its own cannot see the others before they are published, so it has no lock file.
        let mut package = release.cargo(&["package", "--no-verify", "--exclude-lockfile", "--manifest-path"]);
        package.arg(release.tree.join(&one.folder).join("Cargo.toml"));
        sh::run(package)?;
    }
    for one in &crates {
        let name = format!("{}-{}.crate", one.name, release.version);
        let from = packages.join(&name);
        ensure!(from.is_file(), "cargo has made no {name}");
        fs::copy(from, release.artefacts.join(&name))?;
        release.made(&name);
    }
    let name = format!("b2kit-{}", release.version);
    let sources = release.work.join("sources");
    root::empty(&sources)?;
    let tar = sources.join("sources.tar");
    let output = tar.to_str().context("a path that is not UTF-8")?;
    sh::git(&release.tree, &["archive", "--format=tar", &format!("--prefix={name}/"), "-o", output, "HEAD"])?;
    let archive = format!("{name}-source.tar.gz");
    sums::gzip(&tar, &release.artefacts.join(&archive))?;
    release.made(&archive);
    release.tried(format!("{} crates and the sources are archives", crates.len()));
    Ok(())
}
