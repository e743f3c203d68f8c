//! The clone that a release is made from, and the version in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::Release;
use super::{address, days, metadata};
use crate::{root, sh};

/// Manifests beside that of the workspace, each with a lock file of its own.
pub(super) const BESIDE: &[&str] = &[
    "crates/b2-c",
    "crates/b2-hdf5-plugin",
    "crates/b2-object-store",
    "crates/b2-python",
    "crates/b2-wasm",
    "crates/zarrs-b2nd",
    "fuzz",
];

/// Lays the clone: the last commit with what has changed since, and the version set. A full run starts with no artefacts.
pub(super) fn lay(release: &mut Release, full: bool) -> Result<()> {
    let (here, tree) = (root::workspace(), release.tree.clone());
    if full {
        root::empty(&release.artefacts)?;
    }
    fs::create_dir_all(&release.artefacts)?;
    fs::create_dir_all(&release.work)?;
    root::remove(&tree)?;
    let source = root::absolute(here)?;
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(format!("file://{}", source.display())).arg(&tree);
    sh::run(clone).context("a release is made from a clone of the repository by git")?;
    if !sh::git(here, &["status", "--porcelain"])?.is_empty() {
        println!("the work tree has changes that are not committed; this run contains them");
        overlay(&source, &tree)?;
    }
    release.epoch = sh::git(&tree, &["log", "-1", "--format=%ct"])?.trim().parse()?;
    set_version(&tree, &release.version, &days::date(release.epoch))?;
    let changed = sh::git(&tree, &["status", "--porcelain"])?;
    if !changed.is_empty() {
        // Archives name the commit that they were made from; others must be able to find it.
        ensure!(release.dry_run, "`--prepare` would still change this, and is to be committed:\n{changed}");
        sh::git(&tree, &["add", "--all"])?;
        // The same commit in every run.
        let date = format!("{} +0000", release.epoch);
        let mut commit = Command::new("git");
        commit.current_dir(&tree).env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        commit.args(["-c", "user.name=b2kit", "-c", "user.email=b2kit@example.org"]);
        commit.args(["commit", "--quiet", "--no-verify", "-m", &format!("Release {}", release.version)]);
        sh::output(&mut commit)?;
    }
    release.commit = sh::git(&tree, &["rev-parse", "HEAD"])?.trim().to_owned();
    println!("version {}, commit {}, time {}", release.version, release.commit, release.epoch);
    Ok(())
}

/// Copies the files that git sees here, and removes those that it does not.
fn overlay(here: &Path, tree: &Path) -> Result<()> {
    let names = |words: &[&str]| -> Result<Vec<String>> {
        let text = sh::git(here, &[&["ls-files", "-z"], words].concat())?;
        Ok(text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    };
    for name in names(&["--cached", "--others", "--exclude-standard"])? {
        let (from, to) = (here.join(&name), tree.join(&name));
        let Ok(kind) = fs::symlink_metadata(&from) else { continue };
        fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        if kind.is_symlink() {
            let _ = fs::remove_file(&to);
            link(&fs::read_link(&from)?, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| name.clone())?;
        }
    }
    for name in names(&["--deleted"])? {
        let _ = fs::remove_file(tree.join(name));
    }
    Ok(())
}

/// Makes a symbolic link.
pub(super) fn link(to: &Path, at: &Path) -> Result<()> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::symlink(to, at)?);
    #[cfg(not(unix))]
    bail!("{}: a link to {} cannot be made on this system", at.display(), to.display());
}

/// Sets the version in manifests and lock files, the changelog and CITATION.cff, and the address of the repository wherever it
/// is named.
pub(super) fn set_version(tree: &Path, version: &str, date: &str) -> Result<()> {
    let manifest = tree.join("Cargo.toml");
    let old = metadata::version(&fs::read_to_string(&manifest)?).context("Cargo.toml: no version")?;
    for folder in [""].iter().chain(BESIDE) {
        let path = tree.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&path)?;
        fs::write(&path, in_manifest(&text, &old, version))?;
    }
    address::set(tree)?;
    edit(&tree.join("CHANGELOG.md"), |text| in_changelog(text, version, date))?;
    // A version that is released already keeps its date.
    let changelog = fs::read_to_string(tree.join("CHANGELOG.md"))?;
    let date = metadata::released(&changelog, version).context("CHANGELOG.md: no date")?;
    edit(&tree.join("CITATION.cff"), |text| in_citation(text, version, &date))?;
    if old != version {
        // Cargo writes the new version into the lock files, and changes nothing else there.
        for folder in ["."].iter().chain(BESIDE) {
            let path = tree.join(folder).join("Cargo.toml");
            let words = ["metadata", "--format-version=1", "--manifest-path"];
            sh::output(sh::cargo(&words).arg(path)).context("the lock files cannot be brought up to date")?;
        }
    }
    Ok(())
}

fn edit(path: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let new = change(&text).with_context(|| path.display().to_string())?;
    if new != text {
        fs::write(path, new)?;
    }
    Ok(())
}

/// Replaces the version of the package or workspace, and the one that our crates want of each other.
fn in_manifest(text: &str, old: &str, new: &str) -> String {
    let line = |line: &str| {
        if line.starts_with("version = ") || (line.contains("path = \"") && line.contains("version = ")) {
            let line = line.replace(&format!("version = \"{old}\""), &format!("version = \"{new}\""));
            line.replace(&format!("version = \"={old}\""), &format!("version = \"={new}\""))
        } else {
            line.to_owned()
        }
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Gives what is not released yet the version and a date.
fn in_changelog(text: &str, version: &str, date: &str) -> Result<String> {
    let heading = format!("## {version} - ");
    let new = if text.contains(&heading) {
        text.to_owned()
    } else {
        text.replacen("## Unreleased\n", &format!("{heading}{date}\n"), 1)
    };
    ensure!(
        metadata::section(&new, version).is_some(),
        "no section about {version}, and none that is called Unreleased"
    );
    Ok(new)
}

/// Sets the version, and the date of its release, which stands below it.
fn in_citation(text: &str, version: &str, date: &str) -> Result<String> {
    let mut found = 0;
    let mut new = String::new();
    for line in text.lines() {
        match line.split_once(':') {
            Some(("version", _)) => {
                found += 1;
                new += &format!("version: {version}\ndate-released: {date}\n");
            }
            Some(("date-released", _)) => {}
            _ => new += &format!("{line}\n"),
        }
    }
    ensure!(found == 1, "{found} lines with the version");
    Ok(new)
}

pub(super) fn today() -> Result<String> {
    Ok(days::date(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_set_where_it_is_ours() {
        let text = "version = \"0.1.0\"\nb2-core = { path = \"a\", version = \"=0.1.0\" }\nx = { path = \"b\", version = \"0.1.0\" }\nother = { version = \"0.1.0\" }\n";
        let new = "version = \"0.2.0\"\nb2-core = { path = \"a\", version = \"=0.2.0\" }\nx = { path = \"b\", version = \"0.2.0\" }\nother = { version = \"0.1.0\" }\n";
        assert_eq!(in_manifest(text, "0.1.0", "0.2.0"), new);
    }

    #[test]
    fn what_is_unreleased_gets_the_version() {
        let text = "# Changelog\n\n## Unreleased\n\n### Added\n- this\n\n## 0.0.9 - 2026-01-01\n- that\n";
        let new = in_changelog(text, "0.1.0", "2026-11-24").unwrap();
        assert!(new.contains("## 0.1.0 - 2026-11-24\n\n### Added"));
        assert_eq!(metadata::section(&new, "0.1.0").unwrap(), "### Added\n- this\n");
        assert_eq!(metadata::section(&new, "0.0.9").unwrap(), "- that\n");
        assert_eq!(in_changelog(&new, "0.1.0", "2027-01-01").unwrap(), new);
        assert!(in_changelog("# Changelog\n", "0.1.0", "2026-11-24").is_err());
    }

    #[test]
    fn a_citation_has_version_and_date() {
        let unreleased = "title: b2kit\nversion: 0.1.0\nlicense: MIT\n";
        let new = in_citation(unreleased, "0.1.0", "2026-11-24").unwrap();
        assert_eq!(new, "title: b2kit\nversion: 0.1.0\ndate-released: 2026-11-24\nlicense: MIT\n");
        assert_eq!(in_citation(&new, "0.1.0", "2026-11-24").unwrap(), new);
        let next = in_citation(&new, "0.2.0", "2027-01-01").unwrap();
        assert_eq!(next, "title: b2kit\nversion: 0.2.0\ndate-released: 2027-01-01\nlicense: MIT\n");
        assert!(in_citation("title: b2kit\n", "0.2.0", "2026-11-24").is_err());
    }
}
