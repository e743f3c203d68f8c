//! Where a release is made, and what it says at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::sh;

/// The file in which partial runs keep what they said.
const SAID: &str = "said.tsv";

/// Where a release is made, and what it says at the end.
pub(super) struct Release {
    pub(super) version: String,
    /// Whether nothing is published.
    pub(super) dry_run: bool,
    /// The clone.
    pub(super) tree: PathBuf,
    /// What users get.
    pub(super) artefacts: PathBuf,
    /// Everything else: what is built, unpacked, installed.
    pub(super) work: PathBuf,
    /// What the names of targets must contain.
    pub(super) target: String,
    /// Whether wheels for Pythons without the lock are made for other systems, too.
    pub(super) every_wheel: bool,
    /// Seconds since 1970 of the commit: the time in all archives.
    pub(super) epoch: u64,
    /// The commit that is released, in the clone.
    pub(super) commit: String,
    /// One line for each thing that was tried.
    pub(super) tried: Vec<String>,
    /// What could not be tried here.
    pub(super) not_run: Vec<String>,
    /// What was done with each artefact.
    pub(super) said: BTreeMap<String, Vec<String>>,
}

impl Release {
    /// Returns a cargo command in the clone. What it compiles says nothing about folders of this machine.
    pub(super) fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = sh::cargo(words);
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", self.work.join("target"));
        self.reproducible(&mut cargo);
        cargo
    }

    /// Sets what makes output the same on every machine.
    pub(super) fn reproducible(&self, command: &mut Command) {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default();
        let (tree, home) = (self.tree.display(), home.display());
        command
            .env("SOURCE_DATE_EPOCH", self.epoch.to_string())
            .env("B2KIT_COMMIT", self.commit.get(..10).unwrap_or_default())
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTFLAGS", format!("--remap-path-prefix={tree}=/b2kit --remap-path-prefix={home}=/cargo"))
            .env("CFLAGS", format!("-ffile-prefix-map={tree}=/b2kit -ffile-prefix-map={home}=/cargo"));
    }

    /// Whether something is to be made for this target. What is left out is told at the end.
    pub(super) fn wants(&mut self, target: &str, what: &str) -> bool {
        let wanted = target.contains(&self.target);
        if !wanted {
            self.not_run(what, "left out by --target");
        }
        wanted
    }

    /// Notes that an artefact was made; what was said about an older one of this name is gone.
    pub(super) fn made(&mut self, artefact: &str) {
        self.said.insert(artefact.to_owned(), Vec::new());
    }

    /// Notes for the table what was done with an artefact.
    pub(super) fn say(&mut self, artefact: &str, what: &str) {
        self.said.entry(artefact.to_owned()).or_default().push(what.to_owned());
    }

    /// Notes that an artefact was tried.
    pub(super) fn ran(&mut self, artefact: &str, what: &str) {
        self.say(artefact, what);
        self.tried(format!("{artefact}: {what}"));
    }

    /// Notes that an artefact could not be tried, or not be made.
    pub(super) fn left(&mut self, artefact: &str, what: &str, why: &str) {
        self.say(artefact, &format!("{what}, NOT RUN ({why})"));
        self.not_run(&format!("{artefact}: {what}"), why);
    }

    /// Reads what earlier runs of some of the steps said, if they were of the same sources.
    pub(super) fn recall(&mut self) -> Result<()> {
        let Ok(text) = fs::read_to_string(self.work.join(SAID)) else { return Ok(()) };
        let mut lines = text.lines();
        if lines.next() == Some(&self.sources()?) {
            for (name, what) in lines.filter_map(|line| line.split_once('\t')) {
                if what.is_empty() {
                    self.made(name);
                } else {
                    self.say(name, what);
                }
            }
        }
        Ok(())
    }

    /// Keeps what was said for later runs.
    pub(super) fn keep(&self) -> Result<()> {
        let mut text = format!("{}\n", self.sources()?);
        for (name, said) in &self.said {
            text += &format!("{name}\t\n");
            said.iter().for_each(|what| text += &format!("{name}\t{what}\n"));
        }
        Ok(fs::write(self.work.join(SAID), text)?)
    }

    /// Names the content of the clone.
    fn sources(&self) -> Result<String> {
        Ok(sh::git(&self.tree, &["rev-parse", "HEAD^{tree}"])?.trim().to_owned())
    }

    /// Returns a table of the artefacts: size, name, and what was done with each.
    pub(super) fn table(&self) -> Result<String> {
        let sizes: BTreeMap<_, _> = list(&self.artefacts)?.into_iter().collect();
        let names = sizes.keys().chain(self.said.keys().filter(|name| !sizes.contains_key(*name)));
        let width = sizes.keys().chain(self.said.keys()).map(String::len).max().unwrap_or(0);
        let mut text = format!("{:>9}  {:width$}  what was done with it\n", "bytes", "artefact");
        for name in names {
            let size = sizes.get(name).map_or("-".to_owned(), u64::to_string);
            let said = self.said.get(name).filter(|said| !said.is_empty());
            let said = said.map_or("made".to_owned(), |said| said.join("; "));
            text += &format!("{size:>9}  {name:width$}  {said}\n");
        }
        Ok(text)
    }

    pub(super) fn tried(&mut self, what: String) {
        println!("{what}: good");
        self.tried.push(what);
    }

    pub(super) fn not_run(&mut self, what: &str, why: &str) {
        println!("{what}: NOT RUN ({why})");
        self.not_run.push(format!("{what}: NOT RUN ({why})"));
    }
}

/// Returns names and sizes of the artefacts.
pub(super) fn list(artefacts: &Path) -> Result<Vec<(String, u64)>> {
    let mut list = Vec::new();
    for entry in fs::read_dir(artefacts)? {
        let entry = entry?;
        list.push((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()));
    }
    list.sort();
    Ok(list)
}
