//! `cargo xtask api`: the public API of the crates as text, its compatibility, and combinations of features and versions.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::sh::{Counts, Outcome};
use crate::{root, sh};

/// Compare the public API of each crate with its text in docs/api, which changes on purpose only.
///
/// Hidden items, which crates share with each other, are not part of it. Needs a nightly compiler;
/// the tools are installed in the target folder.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the texts instead of comparing them
    #[arg(long)]
    bless: bool,
    /// Also look for changes that break users since the last release, and check pairs of features and the oldest
    /// dependencies: takes many minutes
    #[arg(long)]
    all: bool,
}

/// The crates that others may depend on.
const CRATES: &[&str] = &[
    "b2-async",
    "b2-chunk",
    "b2-codecs",
    "b2-core",
    "b2-filters",
    "b2-frame",
    "b2-hdf5",
    "b2-http",
    "b2-msgpack",
    "b2-object-store",
    "b2-store",
    "b2-zfp",
    "b2kit",
    "b2nd",
    "zarrs-b2nd",
];

/// The tools with their versions: what they print differs from version to version.
const PUBLIC_API: (&str, &str) = ("cargo-public-api", "0.52.0");
const HACK: (&str, &str) = ("cargo-hack", "0.6.37");
const SEMVER: (&str, &str) = ("cargo-semver-checks", "0.51.0");

/// The nightly compiler whose rustdoc describes the items. What later ones print may differ.
const NIGHTLY: &str = "nightly-2026-05-20";

/// The first line of its `rustc --version`, by which it is also known under the name `nightly`.
const NIGHTLY_COMMIT: &str = "(e50aa6fba 2026-05-19)";

/// The commit that last changed this file is what the API is compared with until there is a release.
const BASELINE: &str = "docs/api/README.md";

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.bless {
        let nightly = nightly()?;
        installed(PUBLIC_API)?;
        for name in CRATES {
            let text = text(&nightly, name)?;
            fs::create_dir_all(file(name).with_file_name(""))?;
            println!("docs/api/{name}.txt: {} items", text.lines().count());
            fs::write(file(name), text)?;
        }
        return Ok(());
    }
    let mut counts = vec![("public API", compare()?)];
    if args.all {
        counts.push(("pairs of features", features()?));
        counts.push(("oldest dependencies", oldest_dependencies()?));
        counts.push(("compatibility", compatibility()?));
    }
    for (what, outcome) in &counts {
        outcome.print(what, "see above");
    }
    counts.iter().try_for_each(|(_, outcome)| outcome.verdict())
}

/// Compares the public API of each crate with its text.
pub(crate) fn compare() -> Result<Outcome> {
    if !CRATES.iter().any(|name| file(name).exists()) {
        return Ok(Outcome::NotRun("docs/api holds no texts: `cargo xtask api --bless` writes them".into()));
    }
    let nightly = match nightly().and_then(|nightly| installed(PUBLIC_API).map(|()| nightly)) {
        Ok(nightly) => nightly,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    println!("compared by {} {}, with rustdoc of {NIGHTLY}", PUBLIC_API.0, PUBLIC_API.1);
    let mut counts = Counts::default();
    for name in CRATES {
        let expected = fs::read_to_string(file(name)).unwrap_or_default();
        let found = text(&nightly, name)?;
        if found == expected {
            println!("{name}: {} items, as in docs/api", found.lines().count());
            counts.passed += 1;
        } else {
            counts.failed += 1;
            print!("{}", difference(name, &expected, &found));
        }
    }
    Ok(Outcome::Ran(counts))
}

fn file(name: &str) -> PathBuf {
    root::workspace().join("docs/api").join(format!("{name}.txt"))
}

/// Returns the public API of a crate with all its features but the internal one, an item a line.
fn text(nightly: &str, name: &str) -> Result<String> {
    let features = features_of(name)?.join(",");
    let toolchain = format!("+{nightly}");
    let mut command = cargo_with_tools(&[&toolchain, "public-api", "-sss", "--color=never", "-p", name]);
    command.args(["--no-default-features", "--features", &features]);
    // rustdoc's intermediate files are of no use to other builds.
    command.env("CARGO_TARGET_DIR", root::target().join("api"));
    sh::output(&mut command)
}

/// Returns what has changed, for people.
fn difference(name: &str, expected: &str, found: &str) -> String {
    let mut out =
        format!("{name}: the public API has changed; if on purpose, run `cargo xtask api --bless`\n");
    let (before, after): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    for (sign, these, others) in [("-", &before, &after), ("+", &after, &before)] {
        for line in these.iter().filter(|line| !others.contains(line)) {
            let _ = writeln!(out, "{sign} {line}");
        }
    }
    out
}

/// Returns the features of a crate that users may choose.
fn features_of(name: &str) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(root::package(name)?.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let features = manifest.get("features").and_then(toml::Value::as_table);
    let names = features.into_iter().flat_map(toml::Table::keys);
    Ok(names.filter(|name| !name.starts_with("__") && *name != "default").cloned().collect())
}

/// Builds each crate with each pair of features.
pub(crate) fn features() -> Result<Outcome> {
    installed(HACK)?;
    let mut counts = Counts::default();
    for name in CRATES {
        let mut command = cargo_with_tools(&["hack", "check", "--feature-powerset", "--depth=2", "-p", name]);
        command.env("RUSTFLAGS", "-Dwarnings").env("CARGO_TARGET_DIR", root::target().join("features"));
        match sh::status(&mut command)?.success() {
            true => counts.passed += 1,
            false => counts.failed += 1,
        }
    }
    Ok(Outcome::Ran(counts))
}

/// Builds the crates with the oldest versions of their dependencies that their manifests allow, in a copy of the sources.
pub(crate) fn oldest_dependencies() -> Result<Outcome> {
    let nightly = match nightly() {
        Ok(nightly) => nightly,
        Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let folder = root::temporary("oldest")?;
    let files = sh::output(&mut git(&["ls-files"]))?;
    for name in files.lines().filter(|name| !name.starts_with("testdata/")) {
        let (from, to) = (root::workspace().join(name), folder.path().join(name));
        fs::create_dir_all(to.with_file_name(""))?;
        fs::copy(from, to).with_context(|| name.to_owned())?;
    }
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.arg(format!("+{nightly}")).args(words).current_dir(folder.path());
        command.env("CARGO_TARGET_DIR", root::target().join("oldest"));
        command
    };
    sh::run(cargo(&["update", "-Zdirect-minimal-versions"]))?;
    let mut counts = Counts::default();
    for name in CRATES {
        match sh::status(&mut cargo(&["check", "--all-features", "-p", name]))?.success() {
            true => counts.passed += 1,
            false => counts.failed += 1,
        }
    }
    Ok(Outcome::Ran(counts))
}

/// Looks for changes since the last release that break users.
pub(crate) fn compatibility() -> Result<Outcome> {
    installed(SEMVER)?;
    let tag = sh::output(&mut git(&["describe", "--tags", "--abbrev=0", "--match=v*"]));
    let baseline = match tag {
        Ok(tag) => tag,
        Err(_) => sh::output(&mut git(&["log", "-1", "--format=%H", "--", BASELINE]))?,
    };
    let baseline = baseline.trim();
    ensure!(!baseline.is_empty(), "{BASELINE} has never been committed");
    let mut counts = Counts::default();
    for name in CRATES {
        let manifest = format!("{baseline}:crates/{name}/Cargo.toml");
        if sh::output(&mut git(&["cat-file", "-e", &manifest])).is_err() {
            println!("{name} is new since {baseline}: it has no users to break");
            continue;
        }
        let mut command = cargo_with_tools(&["semver-checks", "-p", name, "--baseline-rev", baseline]);
        command.args(["--only-explicit-features", "--features", &features_of(name)?.join(",")]);
        command.env("CARGO_TARGET_DIR", root::target().join("api"));
        match sh::status(&mut command)?.success() {
            true => counts.passed += 1,
            false => counts.failed += 1,
        }
    }
    ensure!(counts.passed + counts.failed > 0, "{baseline} has none of the crates");
    Ok(Outcome::Ran(counts))
}

fn git(words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root::workspace()).args(words);
    command
}

/// Returns the name of the nightly compiler, after installing it if needed.
fn nightly() -> Result<String> {
    let has = |name: &str| {
        let version = sh::output(Command::new("rustup").args(["run", name, "rustc", "--version"]));
        version.is_ok_and(|version| version.trim_end().ends_with(NIGHTLY_COMMIT))
    };
    if let Some(name) = [NIGHTLY, "nightly"].into_iter().find(|name| has(name)) {
        return Ok(name.to_owned());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", NIGHTLY, "--profile", "minimal"]).stderr(Stdio::null());
    ensure!(install.status().is_ok_and(|status| status.success()), "rustup cannot install {NIGHTLY}");
    ensure!(has(NIGHTLY), "{NIGHTLY} is not the compiler {NIGHTLY_COMMIT}");
    Ok(NIGHTLY.to_owned())
}

/// Where tools are installed.
fn tools() -> PathBuf {
    root::scratch("tools")
}

/// Installs a tool if it is not there in this version.
fn installed((name, version): (&str, &str)) -> Result<()> {
    let list = fs::read_to_string(tools().join(".crates.toml")).unwrap_or_default();
    if list.contains(&format!("\"{name} {version} ")) {
        return Ok(());
    }
    let root = tools();
    // Without optimization, which would take longer than all that the tools are used for.
    let mut command = sh::cargo(&["install", "--debug", "--locked", name, "--version", version, "--root"]);
    command.arg(root).env("CARGO_TARGET_DIR", root::target().join("tools"));
    sh::run(command).with_context(|| format!("cannot install {name}"))
}

/// Returns a cargo command that finds the installed tools. Toolchains are chosen by rustup's cargo, so it is not the
/// cargo that runs this task.
fn cargo_with_tools(words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root::workspace()).args(words).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    let path = env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools().join("bin")).chain(env::split_paths(&path));
    if let Ok(path) = env::join_paths(paths) {
        command.env("PATH", path);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_that_is_published_has_its_text() {
        let mut published = Vec::new();
        for folder in root::packages(root::workspace()).unwrap() {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let manifest: toml::Table = manifest.parse().unwrap();
            let library = folder.join("src/lib.rs").exists();
            let shared = manifest["package"].as_table().unwrap().get("publish").is_none();
            if library && shared {
                published.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        // The command, what it measures and what it draws with are libraries for this repository only.
        published.retain(|name| !["b2-cli", "b2-measure", "b2-view"].contains(&name.as_str()));
        published.sort();
        assert_eq!(published, CRATES);
        let texts = CRATES.iter().filter(|name| file(name).exists()).count();
        assert!(texts == 0 || texts == CRATES.len(), "{texts} of {} texts", CRATES.len());
    }

    #[test]
    fn differences_are_shown_by_line() {
        let shown = difference("x", "pub fn a()\npub fn b()\n", "pub fn b()\npub fn c()\n");
        assert!(shown.ends_with("- pub fn a()\n+ pub fn c()\n"), "{shown}");
    }

    #[test]
    fn the_internal_feature_is_not_for_users() {
        let features = features_of("b2-chunk").unwrap();
        assert!(features.contains(&"rayon".to_owned()) && !features.iter().any(|name| name.starts_with('_')));
    }
}
