//! Files that a person submits elsewhere, filled in: the formula for Homebrew, the recipe for conda-forge, the notes.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::Release;
use super::{metadata, staged, sums, tools};
use crate::{root, sh};

/// Templates in `packaging/`, and the names that they get.
const TEMPLATES: &[(&str, &str)] = &[("homebrew/b2kit.rb", "b2kit.rb"), ("conda/recipe.yaml", "recipe.yaml")];

pub(super) fn make(release: &mut Release) -> Result<()> {
    let packaging = release.tree.join("packaging");
    let sources = format!("b2kit-{}-source.tar.gz", release.version);
    let sum =
        sums::sha256(&fs::read(release.artefacts.join(&sources)).context("the step `crates` was not run")?);
    let repository = metadata::repository(&release.tree)?;
    let notes = metadata::section(&fs::read_to_string(release.tree.join("CHANGELOG.md"))?, &release.version);
    let notes = notes.with_context(|| format!("the changelog has no section about {}", release.version))?;
    fs::write(release.artefacts.join(format!("b2kit-{}-notes.md", release.version)), notes)?;
    for (from, to) in TEMPLATES {
        let text = fs::read_to_string(packaging.join(from))?;
        let text = text
            .replace("@VERSION@", &release.version)
            .replace("@SHA256@", &sum)
            .replace("@REPOSITORY@", &repository);
        ensure!(!text.contains('@'), "{from} has a place that is not filled in");
        fs::write(release.artefacts.join(to), text)?;
        release.made(to);
    }
    try_sources(release, &sources)?;
    try_magic(release)?;
    release.say(&sources, "the command installed from it here");
    release.left("b2kit.rb", "what it runs was tried", "Homebrew is not here");
    release.left("recipe.yaml", "its install is that of the source distribution", "conda is not here");
    Ok(())
}

/// Does what formula and recipe do: installs the command from the sources, and makes pages and completions.
fn try_sources(release: &mut Release, sources: &str) -> Result<()> {
    let folder = release.work.join("from-sources");
    let prefix = release.work.join("prefix");
    root::empty(&folder)?;
    root::empty(&prefix)?;
    sums::unpack(&release.artefacts.join(sources), &folder)?;
    let mut install =
        sh::cargo(&["install", "--quiet", "--locked", "--no-track", "--path", "crates/b2-cli", "--root"]);
    // A debug build shows the same, and takes a third of the time.
    install.arg(&prefix).arg("--debug").current_dir(&folder);
    install.env("CARGO_TARGET_DIR", release.work.join("staged-target")).envs(staged::QUICK);
    sh::run(install)?;
    let b2kit = prefix.join("bin").join("b2kit");
    let said = sh::output(Command::new(&b2kit).arg("--version"))?;
    ensure!(said.contains(&release.version), "the command says that it is {said}");
    sh::output(Command::new(&b2kit).args(["man", "-d"]).arg(&prefix))?;
    ensure!(prefix.join("b2kit.1").is_file(), "no manual page was written");
    sh::output(Command::new(&b2kit).args(["completions", "bash"]))?;
    // The test of the formula.
    fs::write(prefix.join("raw"), vec![0; 4096])?;
    let run = |words: &[&str]| sh::output(Command::new(&b2kit).current_dir(&prefix).args(words));
    run(&["pack", "raw", "a.b2nd", "--raw"])?;
    ensure!(run(&["verify", "a.b2nd"])?.starts_with("ok"), "the test of the formula fails");
    release.tried("the command from the archive of the sources, as formula and recipe build it".into());
    Ok(())
}

/// Asks file(1) what files are, with the magic of `packaging/`.
fn try_magic(release: &mut Release) -> Result<()> {
    let Some(file) = tools::program("file") else {
        release.not_run("magic for file(1)", "there is no file(1)");
        return Ok(());
    };
    let (magic, testdata) = (release.tree.join("packaging/magic/blosc2"), release.tree.join("testdata"));
    let ask = |name: &str| {
        let mut command = Command::new(&file);
        sh::output(command.arg("-b").arg("-m").arg(&magic).arg(testdata.join(name)))
    };
    let mut seen = 0;
    let manifest: toml::Table = fs::read_to_string(testdata.join("MANIFEST.toml"))?.parse()?;
    for fixture in manifest["fixture"].as_array().context("no fixtures")? {
        let of = |key: &str| fixture.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let path = testdata.join(of("path"));
        if !["frame", "array"].contains(&of("kind")) || !path.is_file() || fixture.get("offset").is_some() {
            continue;
        }
        let said = ask(of("path"))?;
        let wanted = if of("kind") == "array" { "Blosc2 array" } else { "Blosc2" };
        ensure!(said.starts_with(wanted), "file(1) says that {} is {said}", of("path"));
        seen += 1;
    }
    ensure!(seen > 50, "only {seen} files were asked about");
    for other in ["MANIFEST.toml", "arrays/sea_surface_temperature.npy"] {
        ensure!(!ask(other)?.contains("Blosc2"), "file(1) takes {other} for Blosc2");
    }
    release.tried(format!("file(1) recognises {seen} files with our magic"));
    Ok(())
}
