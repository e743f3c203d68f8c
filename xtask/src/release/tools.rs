//! Tools that are not part of Rust: zig, which compiles and links for other systems, and maturin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{python, sh};

/// So many platforms are built at once: most of the time one thread puts a whole program together. Each lane builds its platforms
/// in one folder after the other, so what runs on this machine (build scripts, macros) is compiled once in each lane; builds at once
/// in one folder would wait for each other.
pub(super) const LANES: usize = 2;

/// From PyPI, as everything here that is not Rust.
const TOOLS: &[&str] = &["maturin==1.16.0", "ziglang==0.17.1", "cargo-zigbuild==0.24.0"];

/// The oldest Debian that our package is for.
pub(super) const OLDEST_DEBIAN: &str = "bookworm";

/// The folder with the tools.
pub(super) struct Tools(PathBuf);

impl Tools {
    /// Installs the tools where they are missing.
    pub(super) fn install() -> Result<Self> {
        let python = python::environment(TOOLS).context("zig and maturin cannot be installed")?;
        Ok(Self(python.parent().context("an interpreter without a folder")?.to_owned()))
    }

    /// Lets a command find the tools.
    pub(super) fn of(&self, command: &mut Command) -> Result<()> {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([self.0.clone()].into_iter().chain(std::env::split_paths(&old)))?;
        command.env("PATH", path);
        Ok(())
    }

    pub(super) fn maturin(&self) -> PathBuf {
        self.0.join("maturin")
    }
}

/// Says what is missing for programs of this target, after trying to install it.
pub(super) fn lacks(target: &str) -> Option<String> {
    let mingw = "x86_64-w64-mingw32-gcc";
    if target.contains("windows") && program(mingw).is_none() {
        return Some(format!("there is no {mingw}; on Debian: gcc-mingw-w64-x86-64"));
    }
    let mut rustc = Command::new("rustc");
    let libraries = sh::output(rustc.args(["--print", "target-libdir", "--target", target]));
    if libraries.is_ok_and(|folder| Path::new(folder.trim()).is_dir()) {
        return None;
    }
    let error = sh::output(Command::new("rustup").args(["target", "add", target])).err()?;
    Some(format!("no standard library of Rust for {target}: {}", end(&format!("{error:#}"))))
}

/// Says what is not there that no run can do without, all at once, and how to get it.
pub(super) fn needed() -> Result<()> {
    const NEEDED: &[(&str, &str)] = &[
        ("git", "git"),
        ("tar", "GNU tar"),
        ("gzip", "gzip"),
        ("sha256sum", "coreutils"),
        ("cc", "a C compiler, such as gcc"),
    ];
    let mut missing: Vec<String> = NEEDED
        .iter()
        .filter(|(name, _)| program(name).is_none())
        .map(|(name, what)| format!("{name} ({what})"))
        .collect();
    if let Err(error) = python::base_interpreter() {
        missing.push(format!("Python: {error:#}"));
    }
    ensure!(missing.is_empty(), "a release cannot be made without\n  {}", missing.join("\n  "));
    const USED: &[(&str, &str)] = &[
        ("rustup", "programs and wheels for other systems"),
        ("qemu-aarch64-static", "running those of 64-bit ARM"),
        ("x86_64-w64-mingw32-gcc", "the wheels for Windows (on Debian: gcc-mingw-w64-x86-64)"),
        ("dpkg-deb", "the Debian packages"),
        ("mmdebstrap", "installing one in a clean root, as root"),
        ("file", "trying the magic for file(1)"),
        ("python3.14t", "running its wheel"),
    ];
    for (name, what) in USED.iter().filter(|(name, _)| program(name).is_none()) {
        println!("{name} is not here, which is used for {what}; that will be NOT RUN");
    }
    Ok(())
}

/// Returns the path of a program, if it is there.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns what runs a program of another processor, if it is there.
pub(super) fn emulator(arch: &str) -> Option<PathBuf> {
    [format!("qemu-{arch}-static"), format!("qemu-{arch}")].iter().find_map(|name| program(name))
}

/// Whether a command succeeds; what it prints is not shown.
pub(super) fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether this user may change another root folder.
pub(super) fn is_root() -> bool {
    sh::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Returns the last lines of a text.
pub(super) fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

/// Removes the last part of a path's name.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
