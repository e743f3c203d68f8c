//! `cargo xtask deny`: licences, sources and versions of all dependencies, and known advisories.
//!
//! The rules stand in `deny.toml`, in the words of the tool cargo-deny. Building that tool takes minutes, more than the
//! checks are worth to every run, so those that need nothing but `cargo metadata` are made here. Where the tool is
//! installed it says its opinion, too, and asks the database of advisories.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{root, sh};

/// Check licences, sources and versions of all dependencies by deny.toml; with cargo-deny also known advisories.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail where advisories cannot be looked up.
    #[arg(long)]
    advisories: bool,
}

/// What was found.
pub(crate) struct Report {
    crates: usize,
    problems: Vec<String>,
    /// Why no advisories were looked up, if so.
    not_checked: Option<String>,
}

/// Checks and reports; an error when there is a problem.
pub(crate) fn run(args: &Args) -> Result<()> {
    let report = check()?;
    report.print();
    if args.advisories && report.not_checked.is_some() {
        bail!("advisories were not checked");
    }
    report.verdict()
}

/// Looks at all crates, of all platforms, with all features.
pub(crate) fn check() -> Result<Report> {
    let mut metadata = sh::cargo(&["metadata", "--format-version=1", "--locked", "--all-features"]);
    let output = metadata.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cargo metadata ended with {}", output.status);
    let packages = packages(&serde_json::from_slice(&output.stdout)?)?;
    let rules = Rules::read(&std::fs::read_to_string(root::workspace().join("deny.toml"))?)?;
    let mut report =
        Report { crates: packages.len(), problems: rules.problems(&packages), not_checked: None };
    ensure!(report.crates > 0, "cargo names no crate");
    if !succeeds(&["deny", "--version"]) {
        report.not_checked = Some("cargo-deny is not installed".into());
        return Ok(report);
    }
    let mut deny = |words: &[&str]| {
        if let Err(e) = sh::run(sh::cargo(words)) {
            report.problems.push(e.to_string());
        }
    };
    deny(&["deny", "--locked", "check", "licenses", "bans", "sources"]);
    if succeeds(&["deny", "fetch", "db"]) {
        deny(&["deny", "--locked", "check", "advisories"]);
    } else {
        report.not_checked = Some("the database of advisories cannot be reached".into());
    }
    Ok(report)
}

/// Whether a cargo command ends well. What it prints is of no interest.
fn succeeds(words: &[&str]) -> bool {
    let mut command: Command = sh::cargo(words);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Report {
    /// The lines that end a run.
    pub(crate) fn print(&self) {
        for problem in &self.problems {
            println!("problem: {problem}");
        }
        println!("dependencies: {} crates checked, {} problems", self.crates, self.problems.len());
        match &self.not_checked {
            None => println!("advisories: checked"),
            Some(why) => {
                println!(
                    "advisories: NOT CHECKED ({why}): a known vulnerability would not have been noticed"
                );
            }
        }
    }

    /// An error when there is a problem.
    pub(crate) fn verdict(&self) -> Result<()> {
        match self.problems.len() {
            0 => Ok(()),
            n => bail!("{n} problems with dependencies"),
        }
    }
}

/// What is known of one crate.
struct Package {
    name: String,
    version: String,
    /// An expression of SPDX.
    license: Option<String>,
    /// `None`: a crate of this repository.
    source: Option<String>,
}

fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let text = |package: &Value, key: &str| package[key].as_str().map(str::to_owned);
    metadata["packages"]
        .as_array()
        .context("no packages in what cargo says")?
        .iter()
        .map(|package| {
            Ok(Package {
                name: text(package, "name").context("a crate without name")?,
                version: text(package, "version").context("a crate without version")?,
                license: text(package, "license"),
                source: text(package, "source"),
            })
        })
        .collect()
}

/// The part of `deny.toml` that is checked here.
struct Rules {
    licenses: BTreeSet<String>,
    registries: BTreeSet<String>,
    /// `name@version` of crates that may be there beside another version.
    doubles: BTreeSet<String>,
}

impl Rules {
    fn read(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let list = |section: &str, key: &str| {
            let entry = table.get(section).and_then(|section| section.get(key));
            entry.and_then(|entry| entry.as_array()).with_context(|| format!("deny.toml: no {section}.{key}"))
        };
        let texts = |section: &str, key: &str| -> Result<BTreeSet<String>> {
            list(section, key)?
                .iter()
                .map(|text| text.as_str().map(str::to_owned).context("deny.toml: not a text"))
                .collect()
        };
        let doubles = list("bans", "skip")?.iter().map(|entry| {
            let name = entry.get("crate").and_then(|name| name.as_str());
            ensure!(entry.get("reason").is_some(), "deny.toml: bans.skip: an entry without reason");
            name.map(str::to_owned).context("deny.toml: bans.skip: an entry without crate")
        });
        Ok(Self {
            licenses: texts("licenses", "allow")?,
            registries: texts("sources", "allow-registry")?,
            doubles: doubles.collect::<Result<_>>()?,
        })
    }

    /// What is wrong, one line each.
    fn problems(&self, packages: &[Package]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for package in packages {
            let name = format!("{}@{}", package.name, package.version);
            match package.license.as_deref().map(|license| (license, self.allows(license))) {
                None => problems.push(format!("{name} names no licence")),
                Some((license, None)) => problems.push(format!("{name}: no licence expression: {license:?}")),
                Some((license, Some(false))) => problems.push(format!("{name} is under {license:?}")),
                Some((_, Some(true))) => {}
            }
            if let Some(source) = &package.source {
                let registry = source.strip_prefix("registry+").or(source.strip_prefix("sparse+"));
                if !registry.is_some_and(|registry| self.registries.contains(registry)) {
                    problems.push(format!("{name} comes from {source}"));
                }
            }
            versions.entry(&package.name).or_default().push(name);
        }
        for (crate_name, names) in &versions {
            let unlisted = names.iter().filter(|name| !self.doubles.contains(*name)).count();
            if unlisted > 1 {
                problems.push(format!("{crate_name} is there more than once: {}", names.join(", ")));
            }
        }
        for double in &self.doubles {
            let name = double.split('@').next().unwrap_or_default();
            if !versions.get(name).is_some_and(|names| names.len() > 1 && names.contains(double)) {
                problems.push(format!("deny.toml lists {double}, which is not there beside another version"));
            }
        }
        problems
    }

    /// Whether a licence expression can be met with what is allowed; `None` if it is none.
    fn allows(&self, expression: &str) -> Option<bool> {
        // Crates of old separate alternatives by a slash.
        let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let mut words = spaced.split_whitespace().peekable();
        let answer = self.any(&mut words)?;
        words.next().is_none().then_some(answer)
    }

    fn any(&self, words: &mut Words<'_>) -> Option<bool> {
        let mut answer = self.all(words)?;
        while words.next_if_eq(&"OR").is_some() {
            answer |= self.all(words)?;
        }
        Some(answer)
    }

    fn all(&self, words: &mut Words<'_>) -> Option<bool> {
        let mut answer = self.one(words)?;
        while words.next_if_eq(&"AND").is_some() {
            answer &= self.one(words)?;
        }
        Some(answer)
    }

    fn one(&self, words: &mut Words<'_>) -> Option<bool> {
        match words.next()? {
            "(" => {
                let answer = self.any(words)?;
                (words.next()? == ")").then_some(answer)
            }
            ")" | "OR" | "AND" | "WITH" => None,
            license => {
                let mut license = license.to_owned();
                if words.next_if_eq(&"WITH").is_some() {
                    license = format!("{license} WITH {}", words.next()?);
                }
                Some(self.licenses.contains(&license))
            }
        }
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules::read(
            r#"
            licenses.allow = ["MIT", "Zlib", "GPL-2.0 WITH Classpath-exception-2.0"]
            sources.allow-registry = ["https://registry"]
            bans.skip = [{ crate = "old@1.0.0", reason = "why" }]
            "#,
        )
        .unwrap()
    }

    fn package(name: &str, version: &str) -> Package {
        let source = Some("registry+https://registry".into());
        Package { name: name.into(), version: version.into(), license: Some("MIT".into()), source }
    }

    /// What `rules` listed as a double, beside its other version.
    fn both() -> [Package; 2] {
        [package("old", "1.0.0"), package("old", "2.0.0")]
    }

    #[test]
    fn licence_expressions() {
        let rules = rules();
        for (expression, answer) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("MIT AND Zlib", Some(true)),
            ("GPL-3.0 AND MIT OR Zlib", Some(true)),
            ("GPL-3.0 AND (MIT OR Zlib)", Some(false)),
            ("(GPL-3.0 OR MIT) AND (Zlib)", Some(true)),
            ("GPL-2.0 WITH Classpath-exception-2.0", Some(true)),
            ("GPL-2.0", Some(false)),
            ("MIT WITH Classpath-exception-2.0", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("MIT Zlib", None),
            ("(MIT", None),
            ("MIT)", None),
            ("GPL-2.0 WITH", None),
        ] {
            assert_eq!(rules.allows(expression), answer, "{expression}");
        }
    }

    #[test]
    fn good_crates_are_no_problem() {
        let mut packages = Vec::from(both());
        packages.push(Package { source: None, ..package("ours", "0.1.0") });
        assert_eq!(rules().problems(&packages), [""; 0]);
    }

    #[test]
    fn each_problem_is_told() {
        for (bad, told) in [
            (vec![Package { license: None, ..package("a", "1.0.0") }], "a@1.0.0 names no licence"),
            (
                vec![Package { license: Some("MIT OR".into()), ..package("a", "1.0.0") }],
                "no licence expression",
            ),
            (
                vec![Package { license: Some("GPL-3.0".into()), ..package("a", "1.0.0") }],
                "a@1.0.0 is under \"GPL-3.0\"",
            ),
            (
                vec![Package { source: Some("git+https://registry".into()), ..package("a", "1.0.0") }],
                "a@1.0.0 comes from git+",
            ),
            (
                vec![Package { source: Some("registry+https://other".into()), ..package("a", "1.0.0") }],
                "a@1.0.0 comes from registry+https://other",
            ),
            (vec![package("a", "1.0.0"), package("a", "1.1.0")], "a is there more than once"),
        ] {
            let packages = both().into_iter().chain(bad).collect::<Vec<_>>();
            let problems = rules().problems(&packages);
            assert!(problems.len() == 1 && problems[0].contains(told), "{told}: {problems:?}");
        }
    }

    #[test]
    fn a_double_that_went_away_is_told() {
        let problems = rules().problems(&[package("old", "2.0.0")]);
        assert!(problems.len() == 1 && problems[0].contains("lists old@1.0.0"), "{problems:?}");
    }

    /// The licence check must see what cargo says, not an empty list.
    #[test]
    fn what_cargo_says_is_understood() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "a", "version": "1.0.0", "license": "MIT", "source": null },
            { "name": "b", "version": "2.0.0", "license": null, "source": "registry+https://registry" },
        ] });
        let packages = packages(&metadata).unwrap();
        assert_eq!((packages[0].license.as_deref(), packages[0].source.as_deref()), (Some("MIT"), None));
        assert_eq!(packages[1].license, None);
        assert!(super::packages(&serde_json::json!({})).is_err());
    }
}
