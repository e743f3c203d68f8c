//! `cargo xtask notices`: the licences of what a program or library contains.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::sh;

/// Print the licences of all crates that a package contains, and of the C code that they bring.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The package, such as b2-python
    package: String,
}

/// A crate of another author.
struct Component {
    name: String,
    licence: String,
    repository: String,
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    print!("{}", of_package(&args.package)?);
    Ok(())
}

/// Returns the licences of what a package contains.
pub(crate) fn of_package(package: &str) -> Result<String> {
    let components = components(package)?;
    ensure!(components.iter().any(|one| one.name.starts_with("zstd-sys ")), "the licences are not complete");
    notices(&components)
}

/// Returns the crates of others that are compiled into a package on any platform, with its default features.
fn components(package: &str) -> Result<Vec<Component>> {
    let mut tree = sh::cargo(&["tree", "--locked", "--package", package, "--edges", "no-dev"]);
    tree.args(["--target", "all", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let tree = sh::output(&mut tree)?;
    let named = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut wanted: BTreeSet<String> = tree.lines().map(named).collect();
    let metadata = sh::output(&mut sh::cargo(&["metadata", "--locked", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut components = Vec::new();
    for package in metadata["packages"].as_array().context("cargo names no packages")? {
        let name = format!("{} v{}", text(&package["name"]), text(&package["version"]));
        if !wanted.remove(&name) || package["source"].is_null() {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        components.push(Component {
            name: name.replace(" v", " "),
            licence: text(&package["license"]).replace(" / ", "/").replace('/', " OR "),
            repository: text(&package["repository"]),
            folder: manifest.parent().context("a manifest without a folder")?.to_owned(),
        });
    }
    ensure!(wanted.is_empty(), "cargo knows nothing about {wanted:?}");
    components.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(components)
}

/// Collects the licence texts; a text that several crates share is there once.
fn notices(components: &[Component]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    for one in components {
        ensure!(!one.licence.is_empty(), "{} has no licence", one.name);
        list += &format!("{}: {}  {}\n", one.name, one.licence, one.repository);
        let mut files = Vec::new();
        licence_files(&one.folder, 3, &mut files)?;
        files.sort();
        if files.is_empty() {
            let text = format!("This crate comes without the text of its licence, {}.", one.licence);
            texts.entry(text).or_default().push(one.name.clone());
        }
        for file in files {
            let text = String::from_utf8_lossy(&fs::read(&file)?).replace("\r\n", "\n");
            let name = file.strip_prefix(&one.folder).unwrap_or(&file).display().to_string();
            texts.entry(text.trim_end().to_owned()).or_default().push(format!("{} ({name})", one.name));
        }
    }
    let mut sorted: Vec<_> = texts.into_iter().collect();
    sorted.sort_by(|a, b| a.1.cmp(&b.1));
    let mut out = format!(
        "b2kit contains these crates, and C code that some of them bring. Each text below is the licence of what is named \
         above it.\n\n{list}"
    );
    for (text, crates) in sorted {
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), crates.join("\n"));
    }
    Ok(out)
}

/// Finds files with licences, also those of C code that a crate brings.
fn licence_files(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() {
            // Tests and documents are not compiled.
            if depth > 0 && !["TESTS", "DOCS", "EXAMPLES", "BENCHES"].contains(&&*name) {
                licence_files(&path, depth - 1, found)?;
            }
        } else if ["LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start))
            && ![".RS", ".TOML", ".JSON"].iter().any(|end| name.ends_with(end))
        {
            found.push(path);
        }
    }
    Ok(())
}
