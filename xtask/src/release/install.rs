//! `cargo install` and `cargo add`, as users type them, from the archives.
//!
//! A folder with all dependencies and our archives stands in for the registry, so that nothing else is taken.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::metadata;
use super::place::Release;
use super::registry::Registry;
use crate::{root, sh};

pub(super) fn all(release: &mut Release) -> Result<()> {
    let registry = registry(release)?;
    let home = release.work.join("installed");
    root::empty(&home)?;
    let target = release.work.join("installed-target");
    // Outside of this workspace, of which `cargo new` would make the project a member.
    let elsewhere = tempfile::tempdir()?;
    let elsewhere = elsewhere.path();
    let cargo = |words: &[&str]| {
        let mut cargo = sh::cargo(words);
        cargo.current_dir(elsewhere).env("CARGO_TARGET_DIR", &target);
        cargo.arg("--config").arg(&registry.config);
        cargo
    };
    let version = format!("={}", release.version);
    let mut install = cargo(&["install", "b2kit-cli", "--locked", "--offline", "--version", &version]);
    install.arg("--root").arg(&home);
    sh::run(install)?;
    try_command(release, &home.join("bin").join("b2kit"), elsewhere, &[])?;
    let of = |name: &str| format!("{name}-{}.crate", release.version);
    let (command, library) = (of("b2kit-cli"), of("b2kit"));
    release.ran(&command, "cargo install, pack, verify, cat, cargo uninstall here");
    let mut uninstall = sh::cargo(&["uninstall", "b2kit-cli", "--root"]);
    uninstall.current_dir(elsewhere).arg(&home);
    sh::run(uninstall)?;
    ensure!(!home.join("bin").join("b2kit").exists(), "cargo uninstall has left the command there");

    // What the README of the library shows, in a project of one's own.
    sh::run(cargo(&["new", "--quiet", "--vcs=none", "mine"]))?;
    let mine = elsewhere.join("mine");
    let mut add = cargo(&["add", "--quiet", "--offline", &format!("b2kit@{version}"), "tempfile"]);
    sh::run({
        add.current_dir(&mine);
        add
    })?;
    let readme = fs::read_to_string(release.tree.join("crates/b2kit/README.md"))?;
    fs::write(mine.join("src/main.rs"), program(&readme).context("the README of b2kit has no example")?)?;
    let mut run = cargo(&["run", "--quiet", "--offline"]);
    sh::run({
        run.current_dir(&mine);
        run
    })?;
    release.ran(&library, "cargo add and the example of its README here");
    Ok(())
}

/// Lays the folder that stands in for the registry: what the root's lock file names, and our archives.
fn registry(release: &Release) -> Result<Registry> {
    let registry = Registry::lay(release, "registry", &[release.tree.join("Cargo.toml")])?;
    for one in metadata::crates(&release.tree)? {
        registry.add(&release.artefacts.join(one.archive(&release.version)))?;
    }
    Ok(registry)
}

/// Makes a program of the first example of a README.
fn program(readme: &str) -> Option<String> {
    let (_, rest) = readme.split_once("```rust\n")?;
    let (body, _) = rest.split_once("```")?;
    let lines = body.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
    let body: String = lines.map(|line| format!("    {line}\n")).collect();
    Some(format!(
        "fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{}}}\n",
        body.replace("Ok::<(), b2kit::Error>(())", "Ok(())")
    ))
}

/// Tries the command: its version, and writing and reading an array. Another machine's needs a program to run it.
pub(super) fn try_command(release: &Release, b2kit: &Path, folder: &Path, runner: &[&str]) -> Result<()> {
    let run = |words: &[&str]| -> Result<String> {
        let mut command = match runner {
            [emulator, options @ ..] => {
                let mut command = Command::new(emulator);
                command.args(options).arg(b2kit);
                command
            }
            [] => Command::new(b2kit),
        };
        sh::output(command.current_dir(folder).args(words))
    };
    let said = run(&["--version"])?;
    ensure!(said.contains(&release.version), "{} says that it is {said}", b2kit.display());
    let array = release.tree.join("testdata/arrays/sea_surface_temperature.npy");
    let array = array.to_str().context("a path that is not UTF-8")?;
    for codec in ["zstd", "lz4", "zlib", "blosclz"] {
        run(&["pack", "--force", array, "sst.b2nd", "--codec", codec])?;
        run(&["verify", "sst.b2nd"])?;
        run(&["cat", "sst.b2nd", "--npy", "--force", "-o", "sst.npy"])?;
        ensure!(fs::read(folder.join("sst.npy"))? == fs::read(array)?, "{codec}: other values came back");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_becomes_a_program() {
        let text =
            program("# x\n```rust\nuse b2kit::X;\n# let a = 1;\nb();\n# Ok::<(), b2kit::Error>(())\n```\n")
                .unwrap();
        assert!(text.contains("    let a = 1;\n    b();\n    Ok(())\n}"), "{text}");
    }
}
