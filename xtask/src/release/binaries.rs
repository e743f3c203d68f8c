//! The command for each platform, with manual pages and completions: `b2kit-VERSION-TARGET.tar.gz`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::emulated::{self, Machine};
use super::place::Release;
use super::tools::{self, LANES, Tools};
use super::{install, notices, staged, sums};
use crate::{root, sh};

/// A platform, and whether programs for it are published as they are, for the Debian package, or both.
pub(super) struct Platform {
    pub(super) target: &'static str,
    /// The oldest C library.
    suffix: &'static str,
    pub(super) arch: &'static str,
    /// Debian's name of the architecture.
    pub(super) debian: Option<&'static str>,
    tarball: bool,
}

/// Programs without a C library run on every Linux; Debian's use its C library, whose allocator is faster.
pub(super) const PLATFORMS: &[Platform] = &[
    Platform { target: "x86_64-unknown-linux-musl", suffix: "", arch: "x86_64", debian: None, tarball: true },
    Platform {
        target: "aarch64-unknown-linux-musl",
        suffix: "",
        arch: "aarch64",
        debian: None,
        tarball: true,
    },
    Platform {
        target: "x86_64-unknown-linux-gnu",
        suffix: ".2.28",
        arch: "x86_64",
        debian: Some("amd64"),
        tarball: false,
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        suffix: ".2.28",
        arch: "aarch64",
        debian: Some("arm64"),
        tarball: false,
    },
];

impl Platform {
    /// How its archive is called.
    fn name(&self, release: &Release) -> String {
        format!("b2kit-{}-{}", release.version, self.target)
    }

    /// Which lane builds it.
    fn lane(&self) -> usize {
        usize::from(self.arch != "x86_64") % LANES
    }

    /// Where it is built.
    fn folder(&self, release: &Release) -> PathBuf {
        release.work.join("binaries-target").join(self.lane().to_string())
    }

    /// The command that was built.
    pub(super) fn program(&self, release: &Release) -> PathBuf {
        self.folder(release).join(self.target).join("release").join("b2kit")
    }
}

/// What the table calls a command that is no artefact of its own.
pub(super) fn loose(target: &str) -> String {
    format!("(command for {target})")
}

pub(super) fn make(release: &mut Release) -> Result<()> {
    let tools = Tools::install()?;
    let machine = Machine::new()?;
    let elsewhere = release.work.join("binaries");
    root::empty(&elsewhere)?;
    let mut wanted = Vec::new();
    for platform in PLATFORMS {
        let what = format!("the command for {}", platform.target);
        if !release.wants(platform.target, &what) {
            continue;
        }
        match tools::lacks(platform.target) {
            None => wanted.push(platform),
            Some(why) => release.not_run(&what, &why),
        }
    }
    let (here, tools, all) = (&*release, &tools, &wanted);
    sh::at_once((0..LANES).map(|lane| {
        move || all.iter().filter(|one| one.lane() == lane).try_for_each(|one| build(here, tools, one))
    }))?;
    for platform in wanted {
        let program = platform.program(release);
        // The Debian package has those that need a C library in it.
        let name = match platform.tarball {
            true => format!("{}.tar.gz", platform.name(release)),
            false => loose(platform.target),
        };
        release.made(&name);
        let emulator = tools::emulator(platform.arch);
        let ran = match (platform.arch == std::env::consts::ARCH, emulator, &machine) {
            (true, ..) => {
                install::try_command(release, &program, &elsewhere, &[])?;
                Ok("here")
            }
            (false, Some(emulator), _) if platform.tarball => {
                let emulator = emulator.to_str().context("a path that is not UTF-8")?;
                install::try_command(release, &program, &elsewhere, &[emulator])?;
                Ok("under QEMU")
            }
            (false, _, Ok(machine)) if platform.arch == emulated::ARCH.0 => {
                install::try_command(release, &program, &elsewhere, &machine.runner()?)?;
                Ok("under QEMU")
            }
            (_, _, Err(why)) => Err(why.as_str()),
            _ => Err("no emulator here"),
        };
        match ran {
            Ok(place) => release.ran(&name, &format!("pack, verify, cat with four codecs {place}")),
            Err(why) => release.left(&name, "built only", why),
        }
        if platform.tarball {
            let text = fs::read(&program)?;
            ensure!(!contains(&text, b"/lib/ld-"), "{} needs a C library", program.display());
            tarball(release, platform)?;
        }
    }
    Ok(())
}

/// Builds the command for a platform.
fn build(release: &Release, tools: &Tools, platform: &Platform) -> Result<()> {
    let target = format!("{}{}", platform.target, platform.suffix);
    let mut build =
        release.cargo(&["zigbuild", "--quiet", "--release", "--locked", "--package", "b2kit-cli"]);
    build.args(["--bin", "b2kit", "--target", &target]).env("CARGO_TARGET_DIR", platform.folder(release));
    tools.of(&mut build)?;
    sh::run(build)
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// Packs the command with all that belongs to it, and tries what comes out.
fn tarball(release: &mut Release, platform: &Platform) -> Result<()> {
    let name = platform.name(release);
    let folder = release.work.join("binaries").join(&name);
    root::empty(&folder)?;
    fs::copy(platform.program(release), folder.join("b2kit"))?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
        fs::copy(release.tree.join(file), folder.join(file))?;
    }
    fs::copy(release.tree.join("crates/b2-cli/README.md"), folder.join("README.md"))?;
    let notices = release.work.join(notices::FILE);
    fs::copy(&notices, folder.join(notices::FILE)).context("the step `notices` was not run")?;
    staged::copy(&pages(release)?, &folder.join("man"))?;
    staged::copy(&completions(release)?, &folder.join("completions"))?;
    let packed = sums::tarball(release, &folder)?;
    let again = release.work.join("binaries").join("unpacked");
    root::empty(&again)?;
    sums::unpack(&packed, &again)?;
    ensure!(fs::read(again.join("b2kit"))? == fs::read(folder.join("b2kit"))?, "{name} was not packed whole");
    Ok(())
}

/// The command that runs here.
fn own(release: &Release) -> Result<PathBuf> {
    let here = PLATFORMS.iter().filter(|platform| platform.arch == std::env::consts::ARCH);
    let program = here.map(|platform| platform.program(release)).find(|program| program.is_file());
    program.context("the step `binaries` has made no command that runs on this machine")
}

/// Writes the manual pages, one for each command; returns their folder.
pub(super) fn pages(release: &Release) -> Result<PathBuf> {
    let folder = release.work.join("man");
    root::empty(&folder)?;
    let mut man = Command::new(own(release)?);
    man.arg("man").arg("-d").arg(&folder).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    sh::output(&mut man)?;
    let number = fs::read_dir(&folder)?.count();
    ensure!(number >= 20, "only {number} manual pages");
    Ok(folder)
}

/// Writes the completions of three shells, under the names that these expect; returns their folder.
pub(super) fn completions(release: &Release) -> Result<PathBuf> {
    let folder = release.work.join("completions");
    root::empty(&folder)?;
    for (shell, file) in [("bash", "b2kit"), ("zsh", "_b2kit"), ("fish", "b2kit.fish")] {
        let mut command = Command::new(own(release)?);
        let text = sh::output(command.args(["completions", shell]))?;
        ensure!(text.contains("b2kit"), "no completions for {shell}");
        fs::write(folder.join(file), text)?;
    }
    Ok(folder)
}

/// Returns the files of a folder by name.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}
