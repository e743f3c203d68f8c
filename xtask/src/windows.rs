//! `cargo xtask windows`: runs the tests for Windows, under Wine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::programs::{self, Runner};
use crate::sh::Counts;
use crate::{root, sh};

/// Build the tests for Windows with MinGW and run them under Wine.
///
/// It needs Rust's standard library for that target, MinGW and Wine, and says what is missing; docs/other-machines.md
/// tells how to get it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What cargo shall do [default: test all crates but xtask and benches, several test programs at once]
    #[arg(last = true)]
    cargo: Vec<String>,
}

const TARGET: &str = "x86_64-pc-windows-gnu";

/// The object stores. Their test of S3 starts a server, which is no program for Windows.
const STORES: &[&str] = &[
    "test",
    "--locked",
    "--package=b2-object-store",
    "--features=aws,gcp,azure,command",
    "--lib",
    "--bins",
    "--test=stores",
];

/// How long a test program may run without finishing a test. That is long enough for each test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Left out because of a fault of Wine, which xtask/c/wine_locked_handles.c shows: its server keeps the descriptors of
/// files that others have locked. Eight readers that open a frame again and again use up all of them.
const SKIP: &str = "--skip=readers_without_locks_see_whole_commits";

/// Every call of the system takes a detour through Wine's server, so randomized tests run fewer cases, and tests of damage
/// to each byte of files take fewer bytes, unless the caller sets these variables. No test is left out.
const FEWER: &[(&str, &str)] = &[
    ("PROPTEST_CASES", "32"),
    ("B2KIT_CRASH_STATES", "100"),
    ("B2KIT_CRASH_KILLS", "15"),
    ("B2KIT_CRASH_COMMITS", "40"),
    ("B2KIT_DAMAGE", "100"),
    ("B2KIT_MEMORY_STEP", "10"),
];

/// Where Debian puts Wine, which only its package `wine` links into the search path.
const PLACES: &[&str] = &["/usr/lib/wine", "/opt/wine-stable/bin"];

/// Runs the tests, or cargo; returns an error if something is missing or a test fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tools = Tools::find();
    ensure!(
        tools.missing.is_empty(),
        "missing for Windows: {}.\ndocs/other-machines.md tells how to get it",
        tools.missing.join("; ")
    );
    let words: Vec<&str> = args.cargo.iter().map(String::as_str).collect();
    let counts = match words.first() {
        None => {
            let all = [&["test", "--locked"], sh::PORTABLE, &["--lib", "--bins", "--tests"]].concat();
            tools.run(&[&all, STORES])?
        }
        Some(&"test") if !words.contains(&"--no-run") => sh::run_tests(tools.cargo(&words)?)?,
        Some(_) => return sh::run(tools.cargo(&words)?),
    };
    println!();
    counts.print(TARGET);
    counts.verdict()
}

/// The tools that were found.
struct Tools {
    gcc: PathBuf,
    wine: PathBuf,
    /// What is built, and the emulated systems.
    folder: PathBuf,
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
        let folder = root::target().join("windows");
        Self { gcc, wine, folder: std::path::absolute(&folder).unwrap_or(folder), missing }
    }

    /// Builds and runs tests, those with these names or all.
    fn run(&self, builds: &[&[&str]]) -> Result<Counts> {
        let mut programs = Vec::new();
        for words in builds {
            programs.extend(programs::build(self.cargo(words)?)?);
        }
        // Each emulated system has one server, which does one thing at a time.
        let lanes = available_parallelism().map_or(1, usize::from).min(programs.len());
        for lane in 0..lanes {
            self.make_system(lane)?;
        }
        let counts = programs::run(&programs, &[SKIP], self, lanes, PATIENCE);
        (0..lanes).for_each(|lane| self.end(lane));
        counts
    }

    /// Returns a cargo command that builds for Windows and runs programs under Wine.
    fn cargo(&self, words: &[&str]) -> Result<Command> {
        self.build_library()?;
        self.make_system(0)?;
        let mut cargo = sh::cargo(words);
        cargo
            .env("CARGO_BUILD_TARGET", TARGET)
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", &self.gcc)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &self.wine)
            .env("CC_x86_64_pc_windows_gnu", &self.gcc);
        self.set_environment(&mut cargo, 0);
        Ok(cargo)
    }

    /// Makes the emulated system of a lane, which is a folder of its own.
    fn make_system(&self, lane: usize) -> Result<()> {
        if self.prefix(lane).is_dir() {
            return Ok(());
        }
        // The first start makes the folder.
        let key = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"];
        let mut command = Command::new(&self.wine);
        command.args(key).stderr(Stdio::null());
        self.set_environment(&mut command, lane);
        sh::run(command)
    }

    fn prefix(&self, lane: usize) -> PathBuf {
        self.folder.join(if lane == 0 { "prefix".to_owned() } else { format!("prefix-{lane}") })
    }

    fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// Sets what programs for Windows, and Wine itself, find in the environment.
    fn set_environment(&self, command: &mut Command, lane: usize) {
        // Wine's messages would mix with those of the tests.
        command.env("WINEPREFIX", self.prefix(lane)).env("WINEDEBUG", "-all");
        command.env("WINEPATH", self.libraries());
        command.envs(FEWER.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
    }

    /// Builds the library of random numbers that Wine before 9.0 lacks. Later versions use their own.
    fn build_library(&self) -> Result<()> {
        let folder = self.libraries();
        std::fs::create_dir_all(&folder)?;
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

impl Runner for Tools {
    fn command(&self, lane: usize, program: &Path) -> Command {
        let mut command = Command::new(&self.wine);
        command.arg(program);
        self.set_environment(&mut command, lane);
        command
    }

    fn end(&self, lane: usize) {
        // The server ends all programs of its system, and then writes to the system's folder once more.
        for order in ["--kill", "--wait"] {
            let mut server = Command::new(self.wine.with_file_name("wineserver"));
            server.arg(order).env("WINEPREFIX", self.prefix(lane));
            // If it is not there, the program itself is still ended.
            let _ = server.status();
        }
    }
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
