//! Tests and examples of each crate, run with the sources of its archive.
//!
//! The archives are unpacked into an empty folder as the members of a workspace, where each finds the others through
//! `[patch.crates-io]`. Archives hold no integration tests, since those need crates and data that are not published; they
//! are laid beside the unpacked sources here. So a file that an archive lacks is noticed as its user would notice it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use super::metadata::{self, Crate};
use super::place::Release;
use super::{sums, tree};
use crate::{root, sh};

/// Crates that only tests use; they come from the repository.
const HELPERS: &[&str] = &["b2-testkit", "b2-storage-sim"];
/// The crates outside of the workspace: features for their tests, what these leave out, and which task runs that.
const OUTSIDE: &[(&str, &[&str], &str, &str)] = &[
    ("b2-object-store", &["--features", "blocking"], "tests of S3", "stores"),
    ("zarrs-b2nd", &["--all-features"], "arrays exchanged with zarr-python", "zarrs"),
];
/// What integration tests read in the repository.
const BESIDE: &[&str] = &["testdata", "docs", "packaging", "README.md"];

pub(super) fn test(release: &mut Release) -> Result<()> {
    let crates = metadata::crates(&release.tree)?;
    let stage = release.work.join("stage");
    root::empty(&stage)?;
    let (inside, outside): (Vec<_>, Vec<_>) = crates.iter().partition(|one| one.inside);
    for one in &crates {
        unpack(release, &stage, one)?;
    }
    for name in HELPERS {
        copy(&release.tree.join("crates").join(name), &stage.join("crates").join(name))?;
    }
    for name in BESIDE {
        tree::link(&release.tree.join(name), &stage.join(name))?;
    }
    let manifest: Table = fs::read_to_string(release.tree.join("Cargo.toml"))?.parse()?;
    fs::write(stage.join("Cargo.toml"), workspace(manifest.clone(), &inside)?)?;
    fs::copy(release.tree.join("Cargo.lock"), stage.join("Cargo.lock"))?;
    let target = release.work.join("staged-target");
    let cargo = |words: &[&str]| {
        let mut cargo = sh::cargo(words);
        cargo.current_dir(&stage).env("CARGO_TARGET_DIR", &target).envs(QUICK);
        cargo
    };

    // One by one, as each is by default: another may enable a feature that this one forgot.
    for one in &inside {
        sh::run(cargo(&["check", "--quiet", "--lib", "--bins", "--package", &one.name]))?;
    }
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]);
    tests.envs(FEWER.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
    let counts = sh::run_tests(tests)?;
    counts.verdict().context("tests of the archives")?;
    release.tried(format!(
        "{} tests of {} crates, with the sources of their archives",
        counts.passed,
        inside.len()
    ));

    let mut examples = 0;
    for one in &inside {
        release.say(&one.archive(&release.version), "its tests and examples here");
        for entry in fs::read_dir(stage.join(&one.folder).join("examples")).into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_none_or(|suffix| suffix != "rs") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            sh::run(cargo(&[
                "run",
                "--quiet",
                "--all-features",
                "--package",
                &one.name,
                "--example",
                &name,
            ]))?;
            examples += 1;
        }
    }
    ensure!(examples > 0, "the archives hold no example");
    release.tried(format!("{examples} examples ran from the archives"));

    for one in &outside {
        let folder = stage.join(&one.folder);
        let mut own: Table = fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
        own.insert("workspace".into(), Value::Table(Table::new()));
        own.insert("patch".into(), patch(&inside, "../..")?);
        own.insert("profile".into(), manifest["profile"].clone());
        // Overrides for crates that are not there are only a warning.
        fs::write(folder.join("Cargo.toml"), toml::to_string(&own)?)?;
        fs::copy(release.tree.join(&one.folder).join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let known = OUTSIDE.iter().find(|(name, ..)| *name == one.name);
        let (_, features, rest, task) =
            known.with_context(|| format!("{}: how to test it is not known", one.name))?;
        let mut tests = cargo(&["test", "--quiet", "--no-fail-fast"]);
        tests.args(*features).current_dir(&folder);
        let counts = sh::run_tests(tests)?;
        counts.verdict().context("tests of the archives")?;
        let name = one.archive(&release.version);
        release.ran(&name, &format!("its {} tests here", counts.passed));
        release.left(&name, rest, &format!("cargo xtask {task} runs them"));
    }
    Ok(())
}

/// How debug builds are made that are only tried: nobody debugs them, and they are compiled once.
pub(super) const QUICK: [(&str, &str); 2] = [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// Fewer cases of the randomized tests that take longest: the tests of the repository have run all of them on the same sources,
/// and here it is to be seen whether the archives are complete.
const FEWER: &[(&str, &str)] = &[
    ("B2KIT_CRASH_STATES", "100"),
    ("B2KIT_CRASH_KILLS", "15"),
    ("B2KIT_CRASH_COMMITS", "40"),
    ("B2KIT_DAMAGE", "100"),
];

/// Unpacks an archive, and lays its integration tests beside it.
fn unpack(release: &Release, stage: &Path, one: &Crate) -> Result<()> {
    let folder = stage.join(&one.folder);
    sums::unpack(&release.artefacts.join(one.archive(&release.version)), &folder)?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
    let original = fs::read_to_string(folder.join("Cargo.toml.orig"))?.parse()?;
    fs::write(folder.join("Cargo.toml"), with_tests(manifest, &original)?)?;
    ensure!(!folder.join("tests").exists(), "the archive of {} holds tests", one.name);
    let tests = release.tree.join(&one.folder).join("tests");
    if tests.is_dir() {
        copy(&tests, &folder.join("tests"))?;
    }
    Ok(())
}

/// Puts back what cargo left out of the manifest: crates that are only for tests, and the tests.
fn with_tests(mut manifest: Table, original: &Table) -> Result<String> {
    let needed = original.get("dev-dependencies").and_then(Value::as_table).cloned().unwrap_or_default();
    let mut there = manifest.get("dev-dependencies").and_then(Value::as_table).cloned().unwrap_or_default();
    for name in needed.keys().filter(|name| HELPERS.contains(&name.as_str())) {
        let mut path = Table::new();
        path.insert("path".into(), format!("../{name}").into());
        ensure!(there.insert(name.clone(), path.into()).is_none(), "{name} would be published");
    }
    manifest.insert("dev-dependencies".into(), there.into());
    let package = manifest.get_mut("package").and_then(Value::as_table_mut).context("no package")?;
    package.insert("autotests".into(), true.into());
    if let Some(tests) = original.get("test") {
        manifest.insert("test".into(), tests.clone());
    }
    Ok(toml::to_string(&manifest)?)
}

/// The manifest of the folder: that of the repository, for other members.
fn workspace(mut manifest: Table, crates: &[&Crate]) -> Result<String> {
    let table = manifest.get_mut("workspace").and_then(Value::as_table_mut).context("no workspace")?;
    let helpers = HELPERS.iter().map(|name| format!("crates/{name}"));
    let members = crates.iter().map(|one| one.folder.clone()).chain(helpers);
    table.insert("members".into(), members.map(Value::from).collect::<Vec<_>>().into());
    manifest.insert("patch".into(), patch(crates, ".")?);
    // Overrides for packages that are not there.
    for profile in manifest.get_mut("profile").and_then(Value::as_table_mut).into_iter().flatten() {
        if let Some(packages) = profile.1.get_mut("package").and_then(Value::as_table_mut) {
            packages.remove("xtask");
        }
    }
    Ok(toml::to_string(&manifest)?)
}

/// Says where the crates are that the registry does not have.
fn patch(crates: &[&Crate], root: &str) -> Result<Value> {
    let mut ours = Table::new();
    for one in crates {
        let mut path = Table::new();
        path.insert("path".into(), format!("{root}/{}", one.folder).into());
        ours.insert(one.name.clone(), path.into());
    }
    let mut patch = Table::new();
    patch.insert("crates-io".into(), ours.into());
    Ok(patch.into())
}

/// Copies a folder with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_tests_come_back() {
        let manifest = "[package]\nname = \"x\"\nautotests = false\n[dev-dependencies]\nsha2 = \"1\"\n";
        let original = "[dev-dependencies]\nb2-testkit.workspace = true\nsha2.workspace = true\n[[test]]\nname = \"s3\"\n";
        let text = with_tests(manifest.parse().unwrap(), &original.parse().unwrap()).unwrap();
        let table: Table = text.parse().unwrap();
        assert_eq!(table["dev-dependencies"]["b2-testkit"]["path"].as_str(), Some("../b2-testkit"));
        assert_eq!(table["dev-dependencies"]["sha2"].as_str(), Some("1"));
        assert_eq!(table["package"]["autotests"].as_bool(), Some(true));
        assert_eq!(table["test"][0]["name"].as_str(), Some("s3"));
    }
}
