//! What the crates say about themselves, and what their archives hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::sh;

/// No file of an archive is larger: data of tests is in `testdata/`, and is not published.
const LARGEST: u64 = 100_000;

/// What an archive may hold.
const ALLOWED: &[&str] = &["src/", "examples/"];
const FILES: &[&str] = &["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json", "build.rs"];
const NEEDED: &[&str] = &["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// A crate that is published.
pub(super) struct Crate {
    pub(super) name: String,
    /// Its folder, under the root.
    pub(super) folder: String,
    /// Whether it is in the workspace of the root.
    pub(super) inside: bool,
    /// Our crates that must be published before.
    needs: BTreeSet<String>,
}

impl Crate {
    /// The name of its archive.
    pub(super) fn archive(&self, version: &str) -> String {
        format!("{}-{version}.crate", self.name)
    }
}

/// Returns whether this is a version with three numbers, perhaps followed by `-` and a name.
pub(super) fn is_version(text: &str) -> bool {
    let (numbers, name) = text.split_once('-').map_or((text, None), |(numbers, name)| (numbers, Some(name)));
    let number = |part: &str| !part.is_empty() && part.len() < 9 && part.bytes().all(|b| b.is_ascii_digit());
    let good = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    };
    numbers.split('.').count() == 3 && numbers.split('.').all(number) && name.is_none_or(good)
}

/// Returns the version of the workspace.
pub(super) fn version(manifest: &str) -> Option<String> {
    of_workspace(manifest, "version")
}

/// Returns the repository that the workspace names.
pub(super) fn repository(tree: &Path) -> Result<String> {
    let manifest = fs::read_to_string(tree.join("Cargo.toml"))?;
    of_workspace(&manifest, "repository").context("Cargo.toml: no repository")
}

fn of_workspace(manifest: &str, key: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    Some(manifest.get("workspace")?.get("package")?.get(key)?.as_str()?.to_owned())
}

/// Returns what the changelog says about this version.
pub(super) fn section(text: &str, version: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("## {version} - "))?;
    let (_, rest) = rest.split_once('\n')?;
    let section = rest.split("\n## ").next()?.trim();
    (!section.is_empty()).then(|| format!("{section}\n"))
}

/// Returns the day on which the changelog says that this version was released.
pub(super) fn released(text: &str, version: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("\n## {version} - "))?;
    rest.lines().next().map(|date| date.trim().to_owned())
}

/// Says what is wrong with CITATION.cff: its version and date are those of the changelog, and nothing is dated before.
fn citation_problem(citation: &str, changelog: &str, version: &str) -> Option<String> {
    if !citation.lines().any(|line| line == format!("version: {version}")) {
        return Some(format!("CITATION.cff is not about version {version}"));
    }
    let date = citation.lines().find_map(|line| line.strip_prefix("date-released: ")).map(str::to_owned);
    let released = released(changelog, version);
    (date != released).then(|| {
        let say = |date: Option<String>| date.unwrap_or_else(|| "nowhere".into());
        format!("{version} is released {} in CITATION.cff, and {} in CHANGELOG.md", say(date), say(released))
    })
}

/// Returns the crates that are published, each after those that it needs.
pub(super) fn crates(tree: &Path) -> Result<Vec<Crate>> {
    let mut problems = Vec::new();
    let found = read(tree, &mut problems)?;
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    in_order(found)
}

/// Checks all crates that are published; returns their number.
pub(super) fn check(tree: &Path) -> Result<usize> {
    let mut problems = Vec::new();
    let found = read(tree, &mut problems)?;
    let crates = in_order(found)?;
    for one in &crates {
        check_list(tree, one, &mut problems)?;
    }
    check_beside(tree, &mut problems)?;
    let changelog = fs::read_to_string(tree.join("CHANGELOG.md"))?;
    let version = version(&fs::read_to_string(tree.join("Cargo.toml"))?).context("Cargo.toml: no version")?;
    if !changelog.contains("## Unreleased\n") && section(&changelog, &version).is_none() {
        problems.push(format!("CHANGELOG.md has nothing about {version}, and nothing unreleased"));
    }
    let citation = fs::read_to_string(tree.join("CITATION.cff"))?;
    problems.extend(citation_problem(&citation, &changelog, &version));
    problems.iter().for_each(|problem| eprintln!("packages: {problem}"));
    ensure!(problems.is_empty(), "{} problems with what is published", problems.len());
    ensure!(crates.len() >= 15, "only {} crates were found", crates.len());
    Ok(crates.len())
}

/// Builds the archive of the smallest crate that needs none of the others, and the crate from it.
pub(super) fn build_leaf(tree: &Path) -> Result<()> {
    let mut package = sh::cargo(&["package", "--package", "b2-msgpack", "--allow-dirty"]);
    package.current_dir(tree);
    sh::run(package)
}

fn metadata(tree: &Path, manifest: &str) -> Result<Value> {
    let mut command = sh::cargo(&["metadata", "--format-version=1", "--no-deps", "--manifest-path"]);
    command.arg(tree.join(manifest));
    Ok(serde_json::from_str(&sh::output(&mut command)?)?)
}

/// Reads the manifests, and says what is wrong with them.
fn read(tree: &Path, problems: &mut Vec<String>) -> Result<Vec<Crate>> {
    let mut packages = Vec::new();
    let beside = ["crates/b2-object-store/Cargo.toml", "crates/zarrs-b2nd/Cargo.toml"];
    let manifests = [("Cargo.toml", true)].into_iter().chain(beside.map(|manifest| (manifest, false)));
    for (manifest, inside) in manifests {
        let metadata = metadata(tree, manifest)?;
        let list = metadata["packages"].as_array().context("cargo names no packages")?.clone();
        packages.extend(list.into_iter().map(|package| (package, inside)));
    }
    let hidden = |package: &Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let published: BTreeSet<String> = packages
        .iter()
        .filter(|(package, _)| !hidden(package))
        .map(|(package, _)| text(&package["name"]))
        .collect();
    let first = packages.iter().find(|(package, _)| package["name"] == "b2kit");
    let first = first.context("there is no crate b2kit")?.0.clone();
    let mut crates = Vec::new();
    for (package, inside) in packages.iter().filter(|(package, _)| !hidden(package)) {
        let name = text(&package["name"]);
        let mut problem = |what: String| problems.push(format!("{name}: {what}"));
        for key in [
            "version",
            "license",
            "repository",
            "rust_version",
            "authors",
            "categories",
            "keywords",
            "edition",
        ] {
            // What needs a later Rust is outside of the workspace, and says so in its manifest.
            let later = key == "rust_version" && !inside && text(&package[key]) > text(&first[key]);
            if package[key] != first[key] && !later {
                problem(format!("{key} is {}, and {} in b2kit", package[key], first[key]));
            }
        }
        let description = text(&package["description"]);
        if description.len() < 20 || description.ends_with('.') {
            problem(format!("its description is {description:?}"));
        }
        if package["readme"] != "README.md" {
            problem(format!("its readme is {}", package["readme"]));
        }
        if package["metadata"]["docs"]["rs"]["all-features"] != true {
            problem("docs.rs is not told to show all features".into());
        }
        let mut needs = BTreeSet::new();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let (other, wanted) = (text(&dependency["name"]), text(&dependency["req"]));
            if dependency["path"].is_null() {
                continue;
            }
            // Cargo leaves out what is only for tests and has no version.
            let left_out = dependency["kind"] == "dev" && wanted == "*";
            if left_out {
                continue;
            }
            if !published.contains(&other) {
                problem(format!("it needs {other}, which is not published"));
            }
            let version = text(&package["version"]);
            if wanted != format!("^{version}") && wanted != format!("={version}") {
                problem(format!("it wants version {wanted} of {other}, which has {version}"));
            }
            needs.insert(other);
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().and_then(Path::file_name).context("a manifest without a folder")?;
        let folder = format!("crates/{}", folder.to_string_lossy());
        crates.push(Crate { name, folder, inside: *inside, needs });
    }
    let repository = text(&first["repository"]);
    if repository.is_empty() || text(&first["license"]) != "MIT OR Apache-2.0" {
        problems.push("b2kit: no repository, or another licence".into());
    }
    let keywords = first["keywords"].as_array().map_or(0, Vec::len);
    if !(1..=5).contains(&keywords) {
        problems.push(format!("b2kit: {keywords} keywords, and the registry takes 1 to 5"));
    }
    Ok(crates)
}

/// Sorts: each crate after those that it needs.
fn in_order(crates: Vec<Crate>) -> Result<Vec<Crate>> {
    let mut left: BTreeMap<String, Crate> = crates.into_iter().map(|one| (one.name.clone(), one)).collect();
    let mut sorted: Vec<Crate> = Vec::new();
    while !left.is_empty() {
        let ready = left.values().find(|one| !one.needs.iter().any(|other| left.contains_key(other)));
        let names = || left.keys().cloned().collect::<Vec<_>>().join(", ");
        let name = ready.map(|one| one.name.clone());
        let name = name
            .with_context(|| format!("these need each other, so none can be published first: {}", names()))?;
        sorted.extend(left.remove(&name));
    }
    Ok(sorted)
}

/// Checks the list of files of an archive.
fn check_list(tree: &Path, one: &Crate, problems: &mut Vec<String>) -> Result<()> {
    let folder = tree.join(&one.folder);
    let mut list = sh::cargo(&["package", "--list", "--allow-dirty", "--manifest-path"]);
    list.arg(folder.join("Cargo.toml"));
    let list = sh::output(&mut list)?;
    let files: Vec<&str> = list.lines().collect();
    let mut problem = |what: String| problems.push(format!("{}: {what}", one.name));
    for file in &files {
        let file = file.replace('\\', "/");
        let allowed = ALLOWED.iter().any(|start| file.starts_with(start));
        if !allowed && !FILES.contains(&&*file) && !NEEDED.contains(&&*file) {
            problem(format!("its archive would hold {file}"));
        }
        // Some files are made by cargo.
        let size = fs::metadata(folder.join(&file)).map_or(0, |meta| meta.len());
        if size > LARGEST && file != "Cargo.lock" {
            problem(format!("its archive would hold {file}, which has {size} bytes"));
        }
    }
    for file in NEEDED {
        if !files.contains(file) {
            problem(format!("its archive would lack {file}"));
        }
        if file.starts_with("LICENSE") && fs::read(folder.join(file)).ok() != fs::read(tree.join(file)).ok() {
            problem(format!("its {file} is not that of the repository"));
        }
    }
    // Examples, and what a build script is to be run with, are lost silently where the list forgets them.
    for part in ["examples", "build.rs"] {
        if folder.join(part).exists() && !files.iter().any(|file| file.starts_with(part)) {
            problem(format!("its archive would lack {part}"));
        }
    }
    Ok(())
}

/// Packages that are given to users in another form than a crate.
const BESIDE: &[&str] = &["b2-c", "b2-hdf5-plugin", "b2-python"];

/// Checks that the packages beside the crates say what the crates say.
fn check_beside(tree: &Path, problems: &mut Vec<String>) -> Result<()> {
    let of = |name: &str| -> Result<Value> {
        let metadata = metadata(tree, &format!("crates/{name}/Cargo.toml"))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        Ok(packages.into_iter().find(|package| package["name"] == name).cloned().unwrap_or_default())
    };
    let first = of("b2kit")?;
    for name in BESIDE {
        let other = of(name)?;
        for key in ["version", "license", "repository", "rust_version", "authors", "edition"] {
            if other[key] != first[key] || first[key].is_null() {
                problems.push(format!("{name}: {key} is {}, and {} in b2kit", other[key], first[key]));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_recognised() {
        for good in ["0.1.0", "1.20.3", "1.0.0-rc.1", "1.0.0-a-b"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.x", "1.0.0-", "1.0.0-a b", "1..0", "../1.0.0"] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn a_citation_has_no_date_before_the_changelog_has() {
        let (unreleased, released) = ("# C\n\n## Unreleased\n- a\n", "# C\n\n## 0.1.0 - 2026-11-24\n- a\n");
        let (bare, dated) = ("version: 0.1.0\n", "version: 0.1.0\ndate-released: 2026-11-24\n");
        assert_eq!(citation_problem(bare, unreleased, "0.1.0"), None);
        assert_eq!(citation_problem(dated, released, "0.1.0"), None);
        for (citation, changelog, version) in [
            (dated, unreleased, "0.1.0"),
            (bare, released, "0.1.0"),
            ("version: 0.1.0\ndate-released: 2026-01-01\n", released, "0.1.0"),
            (dated, released, "0.2.0"),
        ] {
            assert!(
                citation_problem(citation, changelog, version).is_some(),
                "{citation}{changelog}{version}"
            );
        }
    }

    #[test]
    fn the_page_about_releases_counts_the_crates() {
        let tree = crate::root::workspace();
        let page = fs::read_to_string(tree.join("docs/releasing.md")).unwrap();
        let number = crates(tree).unwrap().len();
        assert!(page.contains(&format!("the other {} crates", number - 2)), "there are {number}");
        assert!(page.contains(&format!("for these {number})")), "there are {number}");
    }

    fn one(name: &str, needs: &[&str]) -> Crate {
        let needs = needs.iter().map(|name| (*name).to_owned()).collect();
        Crate { name: name.into(), folder: name.into(), inside: true, needs }
    }

    #[test]
    fn crates_are_published_after_what_they_need() {
        let sorted = in_order(vec![one("c", &["a", "b"]), one("a", &["b"]), one("b", &[])]).unwrap();
        assert_eq!(sorted.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["b", "a", "c"]);
        assert!(in_order(vec![one("a", &["b"]), one("b", &["a"])]).is_err());
    }
}
