//! The licences of what the command and the Python package contain, and the lists of their components (SBOMs in the form of
//! CycloneDX).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::place::Release;
use crate::sh;

/// The file with the licences.
pub(super) const FILE: &str = "THIRD-PARTY.txt";
/// That of the Python package. Build tools put what begins so into wheels.
pub(super) const OF_PYTHON: &str = "NOTICE-THIRD-PARTY.txt";
/// The components of the Python package, which are put into wheels too.
pub(super) const SBOM_OF_PYTHON: &str = "b2kit-python.cdx.json";

/// A program whose parts are listed: the package, its workspace, the files.
struct Program {
    package: &'static str,
    workspace: &'static str,
    licences: &'static str,
    sbom: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { package: "b2kit-cli", workspace: ".", licences: FILE, sbom: "b2kit.cdx.json" },
    Program {
        package: "b2-python",
        workspace: "crates/b2-python",
        licences: OF_PYTHON,
        sbom: SBOM_OF_PYTHON,
    },
];

/// A crate that the command contains.
struct Component {
    name: String,
    version: String,
    licence: String,
    repository: String,
    folder: PathBuf,
    ours: bool,
    /// Name and version of what it uses.
    uses: BTreeSet<(String, String)>,
}

pub(super) fn make(release: &mut Release) -> Result<()> {
    for program in PROGRAMS {
        let folder = release.tree.join(program.workspace);
        let components = components(&|words| release.cargo(words), &folder, program.package)?;
        ensure!(components.len() > 50, "only {} crates were found", components.len());
        let ours = components.iter().filter(|one| one.ours).count();
        fs::write(release.work.join(program.licences), notices(&components)?)?;
        let sbom = format!("{:#}\n", sbom(release, program, &components)?);
        fs::write(release.work.join(program.sbom), &sbom)?;
        fs::write(release.artefacts.join(program.sbom), &sbom)?;
        release.made(program.sbom);
        release.say(program.sbom, &format!("CycloneDX 1.5 with {} components", components.len()));
        release.tried(format!(
            "licence texts of the {} crates that {} contains, and its {} components with checksums",
            components.len() - ours,
            program.package,
            components.len()
        ));
    }
    Ok(())
}

/// Returns the licences of what a package in a folder of this repository contains.
pub(crate) fn of_package(folder: &Path, package: &str) -> Result<String> {
    notices(&components(&sh::cargo, folder, package)?)
}

/// Returns all crates that are compiled into a package on any platform, with its default features.
fn components(cargo: &dyn Fn(&[&str]) -> Command, folder: &Path, package: &str) -> Result<Vec<Component>> {
    let mut tree = cargo(&["tree", "--locked", "--package", package, "--edges", "no-dev"]);
    tree.current_dir(folder);
    tree.args(["--target", "all", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let mut wanted = BTreeSet::new();
    for line in sh::output(&mut tree)?.lines() {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        wanted.insert((name.to_owned(), version.trim_start_matches('v').to_owned()));
    }
    let mut metadata = cargo(&["metadata", "--locked", "--format-version=1"]);
    metadata.current_dir(folder);
    let metadata: Value = serde_json::from_str(&sh::output(&mut metadata)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let names: BTreeMap<&str, (String, String)> = packages
        .iter()
        .filter_map(|one| Some((one["id"].as_str()?, (text(&one["name"]), text(&one["version"])))))
        .collect();
    let mut uses: BTreeMap<(String, String), BTreeSet<(String, String)>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        let Some(name) = node["id"].as_str().and_then(|id| names.get(id)) else { continue };
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array().map_or(&[][..], Vec::as_slice);
            let other = dependency["pkg"].as_str().and_then(|id| names.get(id));
            if let Some(other) = other.filter(|other| wanted.contains(other))
                && kinds.iter().any(|kind| kind["kind"] != "dev")
            {
                uses.entry(name.clone()).or_default().insert(other.clone());
            }
        }
    }
    let mut components = Vec::new();
    for package in packages {
        let key = (text(&package["name"]), text(&package["version"]));
        if !wanted.remove(&key) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        components.push(Component {
            uses: uses.remove(&key).unwrap_or_default(),
            name: key.0,
            version: key.1,
            licence: text(&package["license"]).replace(" / ", "/").replace('/', " OR "),
            repository: text(&package["repository"]),
            folder: manifest.parent().context("a manifest without a folder")?.to_owned(),
            ours: package["source"].is_null(),
        });
    }
    ensure!(wanted.is_empty(), "cargo knows nothing about {wanted:?}");
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

/// Collects the licence texts; a text that several crates share is there once.
fn notices(components: &[Component]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    for one in components.iter().filter(|one| !one.ours) {
        ensure!(!one.licence.is_empty(), "{} {} has no licence", one.name, one.version);
        list += &format!("{} {}: {}  {}\n", one.name, one.version, one.licence, one.repository);
        let mut files = Vec::new();
        licence_files(&one.folder, 3, &mut files)?;
        files.sort();
        if files.is_empty() {
            let text = format!("This crate comes without the text of its licence, {}.", one.licence);
            texts.entry(text).or_default().push(format!("{} {}", one.name, one.version));
        }
        for file in files {
            let text = String::from_utf8_lossy(&fs::read(&file)?).replace("\r\n", "\n");
            let name = file.strip_prefix(&one.folder).unwrap_or(&file).display().to_string();
            texts
                .entry(text.trim_end().to_owned())
                .or_default()
                .push(format!("{} {} ({name})", one.name, one.version));
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

/// Describes the components in the form of CycloneDX 1.5.
fn sbom(release: &Release, program: &Program, components: &[Component]) -> Result<Value> {
    let lock: toml::Table =
        fs::read_to_string(release.tree.join(program.workspace).join("Cargo.lock"))?.parse()?;
    let mut sums = BTreeMap::new();
    for package in lock.get("package").and_then(toml::Value::as_array).into_iter().flatten() {
        let of = |key: &str| package.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        sums.insert((of("name"), of("version")), of("checksum"));
    }
    let purl = |name: &str, version: &str| format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
    let mut list = Vec::new();
    for one in components.iter().filter(|one| one.name != program.package) {
        let mut component = json!({
            "type": "library",
            "bom-ref": purl(&one.name, &one.version),
            "name": one.name,
            "version": one.version,
            "purl": purl(&one.name, &one.version),
            "licenses": [{ "expression": one.licence }],
        });
        if !one.ours {
            let sum = sums.get(&(&*one.name, &*one.version)).filter(|sum| !sum.is_empty());
            let sum = sum.with_context(|| format!("Cargo.lock has no checksum of {}", one.name))?;
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        list.push(component);
    }
    // C code, whose version the crate tells behind a plus sign.
    let bundled = components.iter().find(|one| one.name == "zstd-sys");
    if let Some((_, version)) = bundled.and_then(|one| one.version.split_once("+zstd.")) {
        let purl = format!("pkg:generic/zstd@{version}");
        list.push(
            json!({ "type": "library", "bom-ref": purl, "name": "zstd", "version": version, "purl": purl,
            "licenses": [{ "expression": "BSD-3-Clause" }] }),
        );
    }
    let dependencies = components.iter().map(|one| {
        let uses: Vec<_> = one.uses.iter().map(|(name, version)| purl(name, version)).collect();
        json!({ "ref": purl(&one.name, &one.version), "dependsOn": uses })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": purl(program.package, &release.version),
            "name": program.package,
            "version": release.version,
            "purl": purl(program.package, &release.version),
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        } },
        "components": list,
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}
