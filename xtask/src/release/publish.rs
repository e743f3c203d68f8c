//! What happens only without `--dry-run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::deliver::{self, World};
use super::metadata::{self, Crate};
use super::place::Release;
use super::registry::Registry;
use super::tools::Tools;
use super::{address, index, sums};
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
    let text = fs::read_to_string(here.join("Cargo.toml"))?;
    if metadata::version(&text).as_deref() != Some(version) {
        missing.push(format!(
            "Cargo.toml has another version: `cargo xtask release {version} --prepare` sets it"
        ));
    }
    let changelog = fs::read_to_string(here.join("CHANGELOG.md"))?;
    if metadata::section(&changelog, version).is_none() {
        missing.push(format!("CHANGELOG.md has no section about {version}"));
    }
    missing.extend(address::left(here)?);
    let credentials = &CREDENTIALS[..if python { 2 } else { 1 }];
    for name in credentials.iter().filter(|name| std::env::var_os(name).is_none_or(|value| value.is_empty()))
    {
        missing.push(format!("{name} is not set"));
    }
    ensure!(missing.is_empty(), "this cannot be published:\n  {}", missing.join("\n  "));
    Ok(())
}

/// How a crate is published. Its archive was built and tried before.
const PUBLISH: [&str; 4] = ["publish", "--locked", "--no-verify", "--manifest-path"];

/// Returns the command that publishes the crate in this folder of the clone.
fn command(release: &Release, folder: &str) -> Command {
    let mut cargo = release.cargo(&PUBLISH);
    cargo.arg(release.tree.join(folder).join("Cargo.toml"));
    cargo
}

/// Asks cargo whether it takes the arguments of publishing. Nothing is sent, and no network is needed.
pub(super) fn arguments() -> Result<()> {
    let mut cargo = sh::cargo(&PUBLISH);
    cargo.arg(root::workspace().join("crates/b2-msgpack/Cargo.toml"));
    takes(cargo)
}

fn takes(mut cargo: Command) -> Result<()> {
    cargo.args(["--dry-run", "--offline", "--allow-dirty"]);
    let output = cargo.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // The first that it would do is to look into the index.
    ensure!(
        output.status.success() || said.contains("--offline was specified"),
        "cargo cannot publish so: {}",
        said.trim()
    );
    Ok(())
}

/// Publishes a crate up to the moment when its archive would be sent, and compares that with the one that was made. What it
/// needs of ours is taken as published.
pub(super) fn rehearse(release: &Release, one: &Crate, registry: &Registry) -> Result<()> {
    let target = release.work.join("rehearsal");
    root::empty(&target)?;
    let mut cargo = command(release, &one.folder);
    // The registry that it would be sent to must be named where another stands in for it.
    cargo.args(["--dry-run", "--registry", "crates-io", "--config"]).arg(&registry.config);
    sh::output(cargo.env("CARGO_TARGET_DIR", &target))?;
    let name = one.archive(&release.version);
    let sent = find(&target, &name)?.with_context(|| format!("cargo publish leaves no {name}"))?;
    let same = fs::read(&sent)? == fs::read(release.artefacts.join(&name))?;
    ensure!(same, "cargo publish would send another {name} than the one that was made");
    Ok(())
}

/// Finds a file under a folder.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|file| file == name) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the crates in the order in which they are published, with the checksums of their archives in a folder.
fn archives(release: &Release, folder: &Path) -> Result<Vec<(String, String)>> {
    let sum = |one: Crate| {
        let path = folder.join(one.archive(&release.version));
        let archive = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok((one.name, sums::sha256(&archive)))
    };
    metadata::crates(&release.tree)?.into_iter().map(sum).collect()
}

/// Refuses to publish if an archive is not the one in this folder, which was tried and perhaps attested.
pub(super) fn same_as(release: &Release, made: &Path) -> Result<()> {
    let before = archives(release, made).context("the dry run makes and tries what is published")?;
    for ((name, now), (_, before)) in archives(release, &release.artefacts)?.iter().zip(&before) {
        ensure!(now == before, "{name}: the archive is not the one that was tried, in {}", made.display());
    }
    println!("{} archives have the bytes of those in {}", before.len(), made.display());
    Ok(())
}

/// Publishes the crates. What was made and tried before is what is sent.
pub(super) fn crates(release: &Release) -> Result<()> {
    let archives = archives(release, &release.artefacts)?;
    let done =
        deliver::deliver(&archives, &mut Outside { release, crates: metadata::crates(&release.tree)? })?;
    println!("crates: {} published, {} were there already", done.sent, done.there);
    Ok(())
}

/// The registry, and time.
struct Outside<'a> {
    release: &'a Release,
    crates: Vec<Crate>,
}

impl World for Outside<'_> {
    fn look(&mut self, name: &str) -> Result<Option<String>> {
        index::look(name, &self.release.version)
    }

    fn publish(&mut self, name: &str) -> Result<(bool, String)> {
        let one = self.crates.iter().find(|one| one.name == name).context("an unknown crate")?;
        println!("\npublishing {name} {}", self.release.version);
        // Cargo waits until the next can use it.
        let output = command(self.release, &one.folder).output().context("cannot start cargo")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        print!("{said}");
        Ok((output.status.success(), said))
    }

    fn now(&mut self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }

    fn sleep(&mut self, seconds: u64) {
        std::thread::sleep(Duration::from_secs(seconds));
    }
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
    for entry in fs::read_dir(&release.artefacts)? {
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
    use super::*;

    #[test]
    fn a_version_without_a_tag_is_refused() {
        let error = ready("987.6.5", true).unwrap_err().to_string();
        assert!(error.contains("no tag v987.6.5") && error.contains("another version"), "{error}");
        for name in address::left(root::workspace()).unwrap() {
            assert!(error.contains(&name), "{error}");
        }
    }

    #[test]
    fn cargo_takes_the_arguments_of_publishing() {
        arguments().unwrap();
        let mut cargo = sh::cargo(&["publish", "--exclude-lockfile", "--manifest-path"]);
        cargo.arg(root::workspace().join("crates/b2-msgpack/Cargo.toml"));
        let error = takes(cargo).unwrap_err().to_string();
        assert!(error.contains("unexpected argument"), "{error}");
    }
}
