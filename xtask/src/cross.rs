//! `cargo xtask cross`: runs the tests for another architecture.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{root, sh};

/// Run tests for another architecture: 64-bit ARM and s390x under emulation, 32-bit x86 directly.
///
/// It needs Rust's standard library for that architecture, a C compiler and linker, and QEMU, and says what is
/// missing; docs/other-machines.md tells how to get it, also without touching the system.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The architecture.
    #[arg(long, value_enum)]
    arch: Arch,
    /// Folder in which packages were unpacked instead of being installed [default: target/cross/root, if it exists]
    #[arg(long)]
    root: Option<PathBuf>,
    /// What cargo shall do [default: test all crates but xtask and benches]
    #[arg(last = true)]
    cargo: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arch {
    /// 64-bit ARM: the NEON kernels
    Aarch64,
    /// 32-bit x86: sizes of 32 bits
    I686,
    /// IBM Z: big-endian
    S390x,
}

/// Skips the tests that limit the address space of a program: an emulator reserves an arbitrary amount of it.
const SKIP: &str = "--skip=address_space::";

/// Under an emulator everything takes about thirty times as long, so randomized tests run fewer cases unless the
/// caller sets these variables. No test is left out.
const FEWER: &[(&str, &str)] = &[
    ("PROPTEST_CASES", "16"),
    ("B2KIT_CRASH_STATES", "50"),
    ("B2KIT_CRASH_KILLS", "15"),
    ("B2KIT_CRASH_COMMITS", "40"),
    ("B2KIT_DAMAGE", "100"),
    ("B2KIT_MEMORY_STEP", "10"),
];

impl Arch {
    /// The name of the architecture in those of its tools.
    fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::I686 => "i686",
            Self::S390x => "s390x",
        }
    }
    /// The target triple of Rust.
    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }
    /// The emulator, or `None` if this machine runs the programs directly.
    fn emulator(self) -> Option<&'static str> {
        match self {
            Self::Aarch64 if cfg!(target_arch = "aarch64") => None,
            Self::Aarch64 => Some("qemu-aarch64"),
            Self::I686 if cfg!(target_arch = "x86_64") => None,
            Self::I686 => Some("qemu-i386"),
            Self::S390x => Some("qemu-s390x"),
        }
    }
}

/// Runs cargo; returns an error if something is missing or a test fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let unpacked =
        args.root.clone().or_else(|| Some(target_folder().join("root")).filter(|root| root.is_dir()));
    if let Some(root) = unpacked.as_ref().filter(|root| !root.join("usr/bin").is_dir()) {
        bail!("{} holds no unpacked packages (no usr/bin in it)", root.display());
    }
    let tools = Tools::find(args.arch, unpacked.as_deref())?;
    let all: &[&str] = &["test", "--no-fail-fast"];
    let words: Vec<&str> = match &args.cargo[..] {
        [] if tools.emulator.is_some() => [all, sh::PORTABLE, &["--", SKIP]].concat(),
        [] => [all, sh::PORTABLE].concat(),
        words => words.iter().map(String::as_str).collect(),
    };
    let mut cargo = sh::cargo(&words);
    tools.set_environment(args.arch, &mut cargo);
    if words.first() != Some(&"test") {
        return sh::run(cargo);
    }
    let counts = sh::run_tests(cargo)?;
    println!();
    counts.print(&args.arch.target());
    counts.verdict()
}

fn target_folder() -> PathBuf {
    root::target().join("cross")
}

/// The tools that were found.
struct Tools {
    rustc: PathBuf,
    gcc: PathBuf,
    ar: PathBuf,
    emulator: Option<PathBuf>,
    /// `PATH` and `LD_LIBRARY_PATH` for the tools if packages were unpacked.
    paths: Option<(OsString, OsString)>,
}

impl Tools {
    /// Searches for all tools; the error lists everything that is missing.
    fn find(arch: Arch, unpacked: Option<&Path>) -> Result<Self> {
        let paths = match unpacked {
            Some(root) => Some(search_paths(&root.canonicalize()?)?),
            None => None,
        };
        let path = match &paths {
            Some((path, _)) => path.clone(),
            None => std::env::var_os("PATH").unwrap_or_default(),
        };
        let look_if = |names: &[String], good: &dyn Fn(&Path) -> bool| {
            std::env::split_paths(&path)
                .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
                .find(|file| file.is_file() && good(file))
        };
        let look = |names: &[String]| look_if(names, &|_| true);
        let mut missing = Vec::new();
        let mut need = |found: Option<PathBuf>, what: String| {
            found.unwrap_or_else(|| {
                missing.push(what);
                PathBuf::new()
            })
        };
        // Unpacked packages may provide several compilers.
        let good = |rustc: &Path| has_std(rustc, arch, paths.as_ref());
        let rustc = match std::env::var_os("RUSTC").map(PathBuf::from) {
            Some(rustc) => Some(rustc).filter(|rustc| good(rustc)),
            None => look_if(&["rustc".into()], &good),
        };
        let rustc = need(rustc, format!("Rust's standard library for {}", arch.target()));
        // Unpacked packages lack the symbolic link without a version.
        let versions = ["", "-15", "-14", "-13", "-12"];
        let prefix = format!("{}-linux-gnu-", arch.name());
        let gcc = look(&versions.map(|version| format!("{prefix}gcc{version}")));
        let gcc = need(gcc, format!("{prefix}gcc"));
        // Debian's compiler can be installed without it.
        if !gcc.as_os_str().is_empty() && !has_libc(&gcc, paths.as_ref()) {
            need(None, format!("the C library for {}, which libc6-dev-*-cross has", arch.target()));
        }
        let ar = need(look(&[format!("{prefix}ar")]), format!("{prefix}ar"));
        let emulator = arch.emulator().map(|name| {
            let names = [format!("{name}-static"), name.to_owned()];
            need(look(&names), format!("{name}-static"))
        });
        ensure!(
            missing.is_empty(),
            "missing for this architecture: {}.\ndocs/other-machines.md tells how to get it",
            missing.join("; ")
        );
        Ok(Self { rustc, gcc, ar, emulator, paths })
    }

    /// Makes cargo build for the architecture and link statically: some versions of QEMU hang with programs that load
    /// shared libraries at startup, which would also require the other architecture's libraries.
    fn set_environment(&self, arch: Arch, cargo: &mut Command) {
        let target = arch.target();
        let upper = target.to_uppercase().replace('-', "_");
        let lower = target.replace('-', "_");
        let set = |cargo: &mut Command, name: &str, value: &Path| {
            cargo.env(name.replace("{T}", &upper).replace("{t}", &lower), value);
        };
        cargo.env("CARGO_BUILD_TARGET", &target).env("CARGO_TARGET_DIR", target_folder());
        set(cargo, "RUSTC", &self.rustc);
        set(cargo, "CARGO_TARGET_{T}_LINKER", &self.gcc);
        set(cargo, "CC_{t}", &self.gcc);
        set(cargo, "AR_{t}", &self.ar);
        if let Some(emulator) = &self.emulator {
            set(cargo, "CARGO_TARGET_{T}_RUNNER", emulator);
            // For programs that the tests start.
            set(cargo, "B2KIT_TEST_RUNNER", emulator);
            cargo.envs(FEWER.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
        }
        let flags = Path::new("-C target-feature=+crt-static");
        set(cargo, "CARGO_TARGET_{T}_RUSTFLAGS", flags);
        // Doctests are linked by rustdoc, which has its own flags.
        set(cargo, "CARGO_TARGET_{T}_RUSTDOCFLAGS", flags);
        let rustdoc = self.rustc.with_file_name("rustdoc");
        if rustdoc.is_file() {
            set(cargo, "RUSTDOC", &rustdoc);
        }
        if let Some((path, libraries)) = &self.paths {
            cargo.env("PATH", path).env("LD_LIBRARY_PATH", libraries);
        }
    }
}

/// Returns the search paths for programs and libraries, with unpacked packages first.
fn search_paths(root: &Path) -> Result<(OsString, OsString)> {
    let joined = |first: &[PathBuf], variable: &str| {
        let old = std::env::var_os(variable).unwrap_or_default();
        let old = std::env::split_paths(&old).filter(|path| !path.as_os_str().is_empty());
        std::env::join_paths(first.iter().cloned().chain(old)).context("a path with a colon in it")
    };
    // Debian's directory for the libraries of this machine.
    let libraries = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let path = joined(&[root.join("usr/bin")], "PATH")?;
    Ok((path, joined(&[root.join("usr").join(&libraries), root.join(&libraries)], "LD_LIBRARY_PATH")?))
}

/// Whether the C compiler finds a C library to link statically.
fn has_libc(gcc: &Path, paths: Option<&(OsString, OsString)>) -> bool {
    let mut command = Command::new(gcc);
    command.arg("-print-file-name=libc.a");
    if let Some((path, libraries)) = paths {
        command.env("PATH", path).env("LD_LIBRARY_PATH", libraries);
    }
    // A file that is not found is printed without a folder.
    command
        .output()
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_absolute())
}

/// Whether the compiler has the standard library for this architecture.
fn has_std(rustc: &Path, arch: Arch, paths: Option<&(OsString, OsString)>) -> bool {
    let mut command = Command::new(rustc);
    command.args(["--print", "target-libdir", "--target", &arch.target()]);
    if let Some((path, libraries)) = paths {
        command.env("PATH", path).env("LD_LIBRARY_PATH", libraries);
    }
    let Ok(output) = command.output() else { return false };
    let folder = String::from_utf8_lossy(&output.stdout);
    Path::new(folder.trim()).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_at_once() {
        let empty = tempfile::tempdir().unwrap();
        let args = Args { arch: Arch::Aarch64, root: Some(empty.path().into()), cargo: Vec::new() };
        assert!(run(&args).unwrap_err().to_string().contains("no unpacked packages"));
    }

    #[test]
    fn variables_carry_the_target() {
        let tools = Tools {
            rustc: "rustc".into(),
            gcc: "gcc".into(),
            ar: "ar".into(),
            emulator: Some("qemu".into()),
            paths: None,
        };
        let mut command = Command::new("cargo");
        tools.set_environment(Arch::S390x, &mut command);
        let value = |name: &str| {
            let (_, value) = command.get_envs().find(|(key, _)| *key == name).unwrap();
            value.unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(value("CARGO_BUILD_TARGET"), "s390x-unknown-linux-gnu");
        assert_eq!(value("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER"), "qemu");
        assert_eq!(value("B2KIT_TEST_RUNNER"), "qemu");
        // Keep what the caller has set.
        if std::env::var_os("PROPTEST_CASES").is_none() {
            assert_eq!(value("PROPTEST_CASES"), "16");
        }
        assert_eq!(value("CC_s390x_unknown_linux_gnu"), "gcc");
        assert!(value("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUSTFLAGS").contains("crt-static"));
    }
}
