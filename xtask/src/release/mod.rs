//! `cargo xtask release`: makes everything that users install, and tries it as they would.
//!
//! All of it is made from a clone of the repository in `target/release-VERSION/tree`, in which the version is set, so the
//! work tree is never changed. What comes out is in `target/release-VERSION/artefacts`.

mod address;
mod archives;
mod binaries;
mod days;
mod deb;
mod deliver;
mod emulated;
mod files;
mod index;
mod install;
mod metadata;
pub(crate) mod notices;
mod place;
mod publish;
mod registry;
mod staged;
mod sums;
mod tools;
mod tree;
mod wheels;
mod workflows;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use place::Release;

use crate::root;
use crate::sh::Outcome;
use crate::steps::Steps;

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
    /// Programs, Debian packages and wheels only for targets with this in their name, such as x86_64-unknown-linux
    #[arg(long, requires = "dry_run", default_value = "")]
    target: String,
    /// Also the wheels for Pythons without the lock on other systems than this one; a release always has them
    #[arg(long)]
    every_wheel: bool,
    /// Remove what earlier runs built, so that everything is compiled again
    #[arg(long)]
    afresh: bool,
    /// Set the version here, in manifests, lock files, changelog and CITATION.cff, and the address of the repository that the
    /// root's Cargo.toml has wherever else it is named; and stop
    #[arg(long, conflicts_with_all = ["dry_run", "only"])]
    prepare: bool,
    /// Publish the crates of the tagged commit, and nothing else: they were made and tried before
    #[arg(long, conflicts_with_all = ["dry_run", "only", "prepare"])]
    crates_only: bool,
    /// With --crates-only, the folder with the archives that were tried; that of the dry run here by default
    #[arg(long, value_name = "FOLDER", requires = "crates_only")]
    made: Option<PathBuf>,
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

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        let checked = check()?;
        println!();
        checked.print();
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
    tools::needed()?;
    let target = root::absolute(&root::target())?;
    let tried = target.join(format!("release-{version}"));
    // The archives that are published are made beside those that were tried, and compared with them.
    let folder = if args.crates_only { target.join(format!("publish-{version}")) } else { tried.clone() };
    if args.afresh {
        // The sums of the run before stay: what is compiled again is to have the same bytes.
        for part in ["tree", "artefacts", "work"] {
            root::remove(&folder.join(part))?;
        }
    }
    let mut release = Release {
        version: version.to_owned(),
        dry_run: args.dry_run,
        tree: folder.join("tree"),
        artefacts: folder.join("artefacts"),
        work: folder.join("work"),
        target: args.target.clone(),
        every_wheel: args.every_wheel || !args.dry_run,
        epoch: 0,
        commit: String::new(),
        tried: Vec::new(),
        not_run: Vec::new(),
        said: BTreeMap::new(),
    };
    if args.crates_only {
        let made = args.made.clone().unwrap_or_else(|| tried.join("artefacts"));
        ensure!(
            made.is_dir(),
            "{} is not there: a dry run makes and tries what is published",
            made.display()
        );
        tree::lay(&mut release, true)?;
        archives::crates(&mut release)?;
        publish::same_as(&release, &made)?;
        return publish::crates(&release);
    }
    let wanted = |step: Step| args.only.is_empty() || args.only.contains(&step);
    let number = STEPS.iter().filter(|(step, _)| wanted(*step)).count();
    let steps = &mut Steps::new(1 + number + usize::from(!args.dry_run));
    steps.run("the tree", || tree::lay(&mut release, args.only.is_empty()))?;
    if !args.only.is_empty() {
        release.recall()?;
    }
    for (which, what) in STEPS.iter().filter(|(which, _)| wanted(*which)) {
        steps.run(what, || step(&mut release, *which))?;
        release.keep()?;
    }
    if !args.dry_run {
        steps.run("publishing", || publish::publish(&release))?;
    }
    steps.finish()?;
    report(&release, args.dry_run)
}

/// What the step of CI found.
pub(crate) struct Checked {
    /// How many crates can be published.
    crates: usize,
    workflows: Outcome,
}

impl Checked {
    pub(crate) fn print(&self) {
        println!("packages: {} crates can be published", self.crates);
        self.workflows.print("workflows", "faults in the workflow files of the forge are not known");
    }
}

/// Runs the step of CI, which needs no release to be made.
pub(crate) fn check() -> Result<Checked> {
    let crates = metadata::check(root::workspace())?;
    metadata::build_leaf(root::workspace())?;
    publish::arguments()?;
    let workflows = workflows::lint()?;
    if let Outcome::Ran(counts) = &workflows {
        counts.verdict().context("the workflow files")?;
    }
    Ok(Checked { crates, workflows })
}

/// Runs a step.
fn step(release: &mut Release, step: Step) -> Result<()> {
    match step {
        Step::Metadata => {
            let crates = metadata::check(&release.tree)?;
            release.tried(format!("metadata, file lists and licences of {crates} crates"));
            Ok(())
        }
        Step::Crates => archives::make(release),
        Step::Tests => staged::test(release),
        Step::Install => install::all(release),
        Step::Notices => notices::make(release),
        Step::Binaries => binaries::make(release),
        Step::Deb => deb::make(release),
        Step::Wheels => wheels::make(release),
        Step::Files => files::make(release),
        Step::Sums => sums::make(release),
    }
}

/// Prints what was made, what was tried, and what was not.
fn report(release: &Release, dry_run: bool) -> Result<()> {
    let mut text = release.table()?;
    text += "\n";
    release.tried.iter().for_each(|what| text += &format!("tried: {what}\n"));
    release.not_run.iter().for_each(|what| text += &format!("{what}\n"));
    println!("\nartefacts in {}\n\n{text}", release.artefacts.display());
    // Beside the artefacts, not among them: it differs from run to run.
    let file = release.artefacts.with_file_name("artefacts.txt");
    fs::write(&file, format!("b2kit {}, commit {}\n\n{text}", release.version, release.commit))?;
    println!("this table is in {}", file.display());
    let mode = if dry_run { "dry run, nothing was published" } else { "published" };
    println!(
        "release {}: {mode}; {} things tried, {} not run",
        release.version,
        release.tried.len(),
        release.not_run.len()
    );
    Ok(())
}
