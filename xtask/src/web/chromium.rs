//! Finds Chromium and its driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::place::folder;
use crate::{root, sh};

/// The packages of Debian.
const PACKAGES: &[&str] = &["chromium", "chromium-driver"];

/// A browser that can be driven.
#[derive(Clone, Debug)]
pub(super) struct Browser {
    pub(super) program: PathBuf,
    pub(super) driver: PathBuf,
    /// Folders with libraries that the system does not have.
    pub(super) libraries: Vec<PathBuf>,
}

/// Returns the browser that `B2KIT_CHROMIUM` names, or that of PATH, or the one unpacked in target/web, which is
/// downloaded if need be.
pub(super) fn find() -> Result<Browser> {
    if let Some(program) = std::env::var_os("B2KIT_CHROMIUM").map(PathBuf::from) {
        let beside = program.with_file_name("chromedriver");
        let driver =
            if beside.is_file() { beside } else { in_path("chromedriver").context("no chromedriver")? };
        return works(Browser { program, driver, libraries: Vec::new() });
    }
    let installed = || {
        let program = in_path("chromium").or_else(|| in_path("chromium-browser"))?;
        works(Browser { program, driver: in_path("chromedriver")?, libraries: Vec::new() }).ok()
    };
    if let Some(browser) = installed() {
        return Ok(browser);
    }
    let unpacked = folder("chromium");
    unpacked_in(&unpacked).and_then(works).or_else(|_| {
        download(&unpacked)?;
        works(unpacked_in(&unpacked)?)
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn unpacked_in(folder: &Path) -> Result<Browser> {
    // The program itself: the script around it looks for it in /usr/lib.
    let program = folder.join("usr/lib/chromium/chromium");
    ensure!(program.is_file(), "{} is not there", program.display());
    let mut libraries = Vec::new();
    for entry in std::fs::read_dir(folder.join("usr/lib"))?.flatten() {
        if entry.file_name().to_string_lossy().contains("-linux-") {
            libraries.extend([entry.path(), entry.path().join("pulseaudio")]);
        }
    }
    Ok(Browser { program, driver: folder.join("usr/bin/chromedriver"), libraries })
}

/// Downloads the packages, with what they need and this system does not have, and unpacks them.
fn download(folder: &Path) -> Result<()> {
    println!("Chromium is not installed: packages of Debian are unpacked in {}", folder.display());
    let mut plan = Command::new("apt-get");
    plan.args(["install", "--simulate", "--no-install-recommends"]).args(PACKAGES);
    let plan = sh::output(&mut plan).context("apt-get knows no package chromium (apt-get update?)")?;
    let names: Vec<&str> =
        plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next()).collect();
    ensure!(!names.is_empty(), "apt-get says that Chromium is installed, but it does not run");
    root::empty(folder)?;
    let debs = folder.join("debs");
    std::fs::create_dir_all(&debs)?;
    let mut get = Command::new("apt-get");
    get.arg("download").args(&names).current_dir(&debs).stderr(Stdio::null());
    sh::output(&mut get).context("apt-get cannot download Chromium")?;
    for deb in std::fs::read_dir(&debs)?.flatten() {
        sh::output(Command::new("dpkg-deb").arg("-x").arg(deb.path()).arg(folder))?;
    }
    root::remove(&debs)
}

/// Checks that both programs start.
fn works(browser: Browser) -> Result<Browser> {
    for program in [&browser.program, &browser.driver] {
        let version = sh::output(browser.command(program).arg("--version"));
        let version = version.with_context(|| format!("{} does not run", program.display()))?;
        if !version.contains("Chrom") {
            bail!("{} is something else: {}", program.display(), version.trim());
        }
    }
    Ok(browser)
}

impl Browser {
    /// A command that finds the libraries.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if !self.libraries.is_empty() {
            let own = std::env::var_os("LD_LIBRARY_PATH");
            let all = self.libraries.iter().cloned().chain(own.iter().flat_map(std::env::split_paths));
            if let Ok(path) = std::env::join_paths(all) {
                command.env("LD_LIBRARY_PATH", path);
            }
        }
        command
    }
}
