//! Where a release is made, and what it says at the end.

use std::path::PathBuf;
use std::process::Command;

use crate::sh;

/// Where a release is made, and what it says at the end.
pub(super) struct Release {
    pub(super) version: String,
    /// The clone.
    pub(super) tree: PathBuf,
    /// What users get.
    pub(super) artefacts: PathBuf,
    /// Everything else: what is built, unpacked, installed.
    pub(super) work: PathBuf,
    /// What the names of targets must contain.
    pub(super) target: String,
    /// Seconds since 1970 of the commit: the time in all archives.
    pub(super) epoch: u64,
    /// The commit that is released, in the clone.
    pub(super) commit: String,
    /// One line for each thing that was tried.
    pub(super) tried: Vec<String>,
    /// What could not be tried here.
    pub(super) not_run: Vec<String>,
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

    pub(super) fn tried(&mut self, what: String) {
        println!("{what}: good");
        self.tried.push(what);
    }

    pub(super) fn not_run(&mut self, what: &str, why: &str) {
        println!("{what}: NOT RUN ({why})");
        self.not_run.push(format!("{what}: NOT RUN ({why})"));
    }
}
