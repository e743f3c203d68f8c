//! `cargo xtask release`: makes everything that users install, and tries it as they would.
//!
//! All of it is made from a clone of the repository in `target/release-VERSION/tree`, in which the version is set, so the
//! work tree is never changed. What comes out is in `target/release-VERSION/artefacts`.

mod archives;
mod binaries;
mod deb;
mod files;
mod install;
mod metadata;
mod notices;
mod publish;
mod staged;
mod sums;
mod tools;
mod tree;
mod wheels;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::steps::Steps;
use crate::{root, sh};

/// Make everything that users install: crates, wheels, a Debian package, programs; and try each as users would.
///
/// With --dry-run nothing leaves this machine. Without it, the tree must be clean and tagged, and credentials must be
/// there; the crates and the Python package are published at the end. docs/releasing.md has the whole way.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The version, such as 0.1.0
    #[arg(required_unless_present = "check")]
    version: Option<String>,
    /// Make and try everything, but publish nothing
    #[arg(long)]
    dry_run: bool,
    /// Only these steps; what they need from others must be there from an earlier run
    #[arg(long, value_enum, conflicts_with = "check")]
    only: Vec<Step>,
    /// Remove what earlier runs built, so that everything is compiled again
    #[arg(long)]
    afresh: bool,
    /// Set the version here, in manifests, lock files, changelog and CITATION.cff, and stop
    #[arg(long, conflicts_with_all = ["dry_run", "only"])]
    prepare: bool,
    /// Publish the crates of the tagged commit, and nothing else: they were made and tried before
    #[arg(long, conflicts_with_all = ["dry_run", "only", "prepare"])]
    crates_only: bool,
    /// Only compare metadata, file lists and licences of the crates, as CI does
    #[arg(long)]
    check: bool,
}

/// The steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// Metadata, file lists and licences
    Metadata,
    /// Archives of the crates, and of the sources
    Crates,
    /// Tests and examples of each crate, from its archive
    Tests,
    /// `cargo install` and `cargo add` from the archives
    Install,
    /// Licences of dependencies, and the list of components
    Notices,
    /// The command for each platform
    Binaries,
    /// The Debian package
    Deb,
    /// Wheels and the source distribution for Python
    Wheels,
    /// Formula, recipe and notes
    Files,
    /// Checksums, and the comparison with the run before
    Sums,
}

/// All steps; the names are those of `--only`.
const STEPS: &[(Step, &str)] = &[
    (Step::Metadata, "metadata"),
    (Step::Crates, "crates: archives"),
    (Step::Tests, "tests and examples from the archives"),
    (Step::Install, "cargo install and cargo add from the archives"),
    (Step::Notices, "notices: licences of dependencies, components"),
    (Step::Binaries, "binaries: the command"),
    (Step::Deb, "deb: the Debian package"),
    (Step::Wheels, "wheels and source distribution for Python"),
    (Step::Files, "files: formula, recipe, notes"),
    (Step::Sums, "sums"),
];

/// Where a release is made, and what it says at the end.
struct Release {
    version: String,
    /// The clone.
    tree: PathBuf,
    /// What users get.
    artefacts: PathBuf,
    /// Everything else: what is built, unpacked, installed.
    work: PathBuf,
    /// Seconds since 1970 of the commit: the time in all archives.
    epoch: u64,
    /// The commit that is released, in the clone.
    commit: String,
    /// One line for each thing that was tried.
    tried: Vec<String>,
    /// What could not be tried here.
    not_run: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        let crates = check()?;
        println!("\npackages: {crates} crates can be published");
        return Ok(());
    }
    let version = args.version.as_deref().context("a version is needed")?;
    ensure!(metadata::is_version(version), "{version:?} is not a version such as 0.1.0");
    if args.prepare {
        return tree::set_version(root::workspace(), version, &tree::today()?);
    }
    if !args.dry_run {
        ensure!(args.only.is_empty(), "--only is for dry runs");
        publish::ready(version, !args.crates_only)?;
    }
    let folder = root::absolute(&root::target())?.join(format!("release-{version}"));
    if args.afresh {
        root::remove(&folder)?;
    }
    let mut release = Release {
        version: version.to_owned(),
        tree: folder.join("tree"),
        artefacts: folder.join("artefacts"),
        work: folder.join("work"),
        epoch: 0,
        commit: String::new(),
        tried: Vec::new(),
        not_run: Vec::new(),
    };
    if args.crates_only {
        tree::lay(&mut release, true)?;
        return publish::crates(&release);
    }
    let wanted = |step: Step| args.only.is_empty() || args.only.contains(&step);
    let number = STEPS.iter().filter(|(step, _)| wanted(*step)).count();
    let steps = &mut Steps::new(1 + number + usize::from(!args.dry_run));
    steps.run("the tree", || tree::lay(&mut release, args.only.is_empty()))?;
    for (step, what) in STEPS.iter().filter(|(step, _)| wanted(*step)) {
        steps.run(what, || release.step(*step))?;
    }
    if !args.dry_run {
        steps.run("publishing", || publish::publish(&release))?;
    }
    steps.finish()?;
    release.report(args.dry_run)
}

/// Runs the step of CI, which needs no release to be made. Returns how many crates can be published.
pub(crate) fn check() -> Result<usize> {
    let crates = metadata::check(root::workspace())?;
    metadata::build_leaf(root::workspace())?;
    Ok(crates)
}

impl Release {
    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Metadata => {
                let crates = metadata::check(&self.tree)?;
                self.tried(format!("metadata, file lists and licences of {crates} crates"));
                Ok(())
            }
            Step::Crates => archives::make(self),
            Step::Tests => staged::test(self),
            Step::Install => install::all(self),
            Step::Notices => notices::make(self),
            Step::Binaries => binaries::make(self),
            Step::Deb => deb::make(self),
            Step::Wheels => wheels::make(self),
            Step::Files => files::make(self),
            Step::Sums => sums::make(self),
        }
    }

    /// Returns a cargo command in the clone. What it compiles says nothing about folders of this machine.
    fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = sh::cargo(words);
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", self.work.join("target"));
        self.reproducible(&mut cargo);
        cargo
    }

    /// Sets what makes output the same on every machine.
    fn reproducible(&self, command: &mut Command) {
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

    fn tried(&mut self, what: String) {
        println!("{what}: good");
        self.tried.push(what);
    }

    fn not_run(&mut self, what: &str, why: &str) {
        println!("{what}: NOT RUN ({why})");
        self.not_run.push(format!("{what}: NOT RUN ({why})"));
    }

    fn report(&self, dry_run: bool) -> Result<()> {
        println!("\nartefacts in {}", self.artefacts.display());
        for (name, size) in sums::list(&self.artefacts)? {
            println!("{size:>12}  {name}");
        }
        println!();
        self.tried.iter().for_each(|what| println!("tried: {what}"));
        self.not_run.iter().for_each(|what| println!("{what}"));
        let mode = if dry_run { "dry run, nothing was published" } else { "published" };
        println!(
            "release {}: {mode}; {} things tried, {} not run",
            self.version,
            self.tried.len(),
            self.not_run.len()
        );
        Ok(())
    }
}
