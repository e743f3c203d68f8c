//! The archives of the crates, and that of the sources.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::metadata::Crate;
use super::place::Release;
use super::registry::Registry;
use super::{metadata, publish, sums};
use crate::{root, sh};

/// Makes them all. Nothing is built: that is what the next steps do, from the archives.
pub(super) fn make(release: &mut Release) -> Result<()> {
    let crates = crates(release)?;
    sources(release)?;
    release.tried(format!("{crates} crates and the sources are archives"));
    Ok(())
}

/// Makes the archives of the crates, and sees that publishing would send the same bytes. Returns their number.
pub(super) fn crates(release: &mut Release) -> Result<usize> {
    let crates = metadata::crates(&release.tree)?;
    let packages = release.work.join("target").join("package");
    root::remove(&packages)?;
    let (inside, outside): (Vec<&Crate>, Vec<&Crate>) = crates.iter().partition(|one| one.inside);
    // All at once: what a lock file in an archive says of our other crates comes from this run, not from a registry.
    let mut package = release.cargo(&["package", "--locked", "--no-verify"]);
    for one in &inside {
        package.args(["--package", &one.name]);
    }
    sh::run(package)?;
    let manifest = |one: &&Crate| release.tree.join(&one.folder).join("Cargo.toml");
    let manifests = [release.tree.join("Cargo.toml")].into_iter().chain(outside.iter().map(manifest));
    let registry = Registry::lay(release, "registry-of-all", &manifests.collect::<Vec<_>>())?;
    let keep = |one: &Crate| -> Result<()> {
        let name = one.archive(&release.version);
        ensure!(packages.join(&name).is_file(), "cargo has made no {name}");
        fs::copy(packages.join(&name), release.artefacts.join(&name))?;
        registry.add(&release.artefacts.join(&name))?;
        Ok(())
    };
    for one in &inside {
        keep(one)?;
    }
    for one in &outside {
        // A workspace of its own cannot see the others before they are published. So they are taken as published, and its
        // lock file has their checksums, as it will have when it is published after them.
        let mut package = release.cargo(&["package", "--locked", "--no-verify", "--config"]);
        package.arg(&registry.config).arg("--manifest-path").arg(manifest(one));
        sh::run(package)?;
        keep(one)?;
    }
    for one in &crates {
        publish::rehearse(release, one, &registry)?;
        release.made(&one.archive(&release.version));
    }
    release.tried(format!("cargo publish would send the bytes of {} archives", crates.len()));
    Ok(crates.len())
}

/// Makes the archive of the sources.
fn sources(release: &mut Release) -> Result<()> {
    let name = format!("b2kit-{}", release.version);
    let sources = release.work.join("sources");
    root::empty(&sources)?;
    let tar = sources.join("sources.tar");
    let output = tar.to_str().context("a path that is not UTF-8")?;
    sh::git(&release.tree, &["archive", "--format=tar", &format!("--prefix={name}/"), "-o", output, "HEAD"])?;
    let archive = format!("{name}-source.tar.gz");
    sums::gzip(&tar, &release.artefacts.join(&archive))?;
    release.made(&archive);
    Ok(())
}
