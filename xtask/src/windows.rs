//! `cargo xtask windows`: runs the tests for Windows, under Wine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::sh::Outcome;
use crate::{root, sh};

/// Build the tests for Windows with MinGW and run them under Wine.
///
/// It needs Rust's standard library for that target, MinGW and Wine, and says what is missing; docs/other-machines.md
/// tells how to get it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What cargo shall do [default: test all crates but xtask and benches]
    #[arg(last = true)]
    cargo: Vec<String>,
}

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Everything except what runs only on the developer's machine.
const DEFAULT: &[&str] = &[
    "test",
    "--no-fail-fast",
    "--workspace",
    "--exclude=xtask",
    "--exclude=b2-benches",
    "--lib",
    "--bins",
    "--tests",
    "--",
    SKIP,
];

/// Locks, renames, memory maps and commits.
const SAMPLE: &[&str] = &[
    "test",
    "--no-fail-fast",
    "--package=b2-frame",
    "--lib",
    "--tests",
    "--",
    SKIP,
    "storage::",
    "edit::locks::",
    "edit::meta::",
    "edit::snapshots::",
    "failing::",
];

/// Left out because of a fault of Wine, which xtask/c/wine_locked_handles.c shows: its server keeps the descriptors of
/// files that others have locked. Eight readers that open a frame again and again use up all of them.
const SKIP: &str = "--skip=readers_without_locks_see_whole_commits";

/// Every call of the system takes a detour through Wine's server, so randomized tests run fewer cases unless the caller
/// sets these variables. No test is left out.
const FEWER: &[(&str, &str)] = &[
    ("PROPTEST_CASES", "32"),
    ("B2KIT_CRASH_STATES", "100"),
    ("B2KIT_CRASH_COMMITS", "40"),
    ("B2KIT_DAMAGE", "100"),
];

/// Where Debian puts Wine, which only its package `wine` links into the search path.
const PLACES: &[&str] = &["/usr/lib/wine", "/opt/wine-stable/bin"];

/// Runs cargo; returns an error if something is missing or a test fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = Tools::find();
    ensure!(
        tools.missing.is_empty(),
        "missing for Windows: {}.\ndocs/other-machines.md tells how to get it",
        tools.missing.join("; ")
    );
    let words: Vec<&str> = match &args.cargo[..] {
        [] => DEFAULT.to_vec(),
        words => words.iter().map(String::as_str).collect(),
    };
    let cargo = tools.cargo(&words)?;
    if words.first() != Some(&"test") || words.contains(&"--no-run") {
        return sh::run(cargo);
    }
    let counts = sh::run_tests(cargo)?;
    println!();
    counts.print(TARGET);
    counts.verdict()
}

/// Runs all tests, if this machine can.
pub(crate) fn all() -> Result<Outcome> {
    tests(DEFAULT)
}

/// Runs the tests of what differs on Windows, if this machine can.
pub(crate) fn sample() -> Result<Outcome> {
    tests(SAMPLE)
}

fn tests(words: &[&str]) -> Result<Outcome> {
    let tools = Tools::find();
    if !tools.missing.is_empty() {
        return Ok(Outcome::NotRun(format!("missing: {}", tools.missing.join("; "))));
    }
    Ok(Outcome::Ran(sh::run_tests(tools.cargo(words)?)?))
}

/// The tools that were found.
struct Tools {
    gcc: PathBuf,
    wine: PathBuf,
    missing: Vec<String>,
}

impl Tools {
    fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = || std::env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
        let look = |names: &[&str]| {
            names
                .iter()
                .flat_map(|name| folders().map(move |folder| folder.join(name)))
                .find(|file| file.is_file())
        };
        let mut missing = Vec::new();
        let mut need = |found: Option<PathBuf>, what: &str| {
            found.unwrap_or_else(|| {
                missing.push(what.to_owned());
                PathBuf::new()
            })
        };
        let gcc = need(look(&["x86_64-w64-mingw32-gcc"]), "x86_64-w64-mingw32-gcc (MinGW)");
        let wine = need(look(&["wine64", "wine"]), "wine64 (Wine)");
        if !has_std() {
            missing.push(format!("Rust's standard library for {TARGET}"));
        }
        Self { gcc, wine, missing }
    }

    /// Returns a cargo command that builds for Windows and runs programs under Wine, in a folder of their own that
    /// serves as the home of the emulated system.
    fn cargo(&self, words: &[&str]) -> Result<Command> {
        let folder = std::path::absolute(root::target())?.join("windows");
        let (libraries, prefix) = (folder.join("lib"), folder.join("prefix"));
        self.build_library(&libraries)?;
        let mut cargo = sh::cargo(words);
        cargo
            .env("CARGO_BUILD_TARGET", TARGET)
            .env("CARGO_TARGET_DIR", &folder)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", &self.gcc)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &self.wine)
            .env("CC_x86_64_pc_windows_gnu", &self.gcc)
            .env("WINEPATH", &libraries);
        if !prefix.is_dir() {
            // The first start makes the folder.
            let key = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"];
            let mut command = Command::new(&self.wine);
            command.args(key).stderr(Stdio::null());
            with_prefix(&mut command, &prefix);
            sh::run(command)?;
        }
        with_prefix(&mut cargo, &prefix);
        cargo.envs(FEWER.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
        Ok(cargo)
    }

    /// Builds the library of random numbers that Wine before 9.0 lacks. Later versions use their own.
    fn build_library(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let library = folder.join("bcryptprimitives.dll");
        if library.is_file() {
            return Ok(());
        }
        let mut gcc = Command::new(&self.gcc);
        gcc.args(["-shared", "-O2", "-o"]).arg(library);
        gcc.arg(root::workspace().join("xtask/c/bcryptprimitives.c")).arg("-ladvapi32");
        sh::run(gcc)
    }
}

/// Sets the folder of the emulated system. Its messages would mix with those of the tests.
fn with_prefix(command: &mut Command, prefix: &Path) {
    command.env("WINEPREFIX", prefix).env("WINEDEBUG", "-all");
}

fn has_std() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_a_name() {
        let tools = Tools::find();
        assert_eq!(tools.gcc.as_os_str().is_empty(), tools.missing.iter().any(|what| what.contains("MinGW")));
        assert_eq!(tools.wine.as_os_str().is_empty(), tools.missing.iter().any(|what| what.contains("Wine")));
    }
}
