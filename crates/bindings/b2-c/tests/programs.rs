//! The programs in `tests/c`: with the library, under valgrind, and next to C-Blosc2 in one process.
//!
//! They need `cc`, `nm`, `readelf`, `pkg-config`, `python3` and valgrind; the ignored ones C-Blosc2 in the folder `B2KIT_C_BLOSC2`, such
//! as the package of python-blosc2.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs};

const SONAME: &str = "libblosc2.so.9";
/// Number of functions exported by libblosc2 3.3.5.
const SYMBOLS: usize = 164;

/// Defines tests of the programs, run directly and under valgrind.
macro_rules! programs {
    ($($name:ident $plain:literal $few:literal)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(mod $name {
            #[test]
            fn passes() {
                super::passes(&super::Program::new(stringify!($name), ""), $plain);
            }
            #[test]
            fn passes_under_valgrind() {
                super::passes(&super::Program::new(stringify!($name), "-valgrind").under_valgrind(), $few);
            }
        })*
    };
}
programs! {
    chunks "" ""
    schunks "" ""
    arrays "" ""
    callbacks "" ""
    edges "" ""
    threads "" ""
    hostile "3000" "60"
    drop_in "2000 limited" "20"
}

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a command that must succeed, and returns what it prints.
fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// Builds the libraries and returns their folder. Cargo does not build them for tests, since Rust cannot link them.
fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--locked",
            "--lib",
            "--package=b2-c",
            "--package=workspace-hack",
            "--profile",
            if name == "debug" { "dev" } else { name },
        ]);
        output(cargo.current_dir(package("")));
        folder
    })
}

/// Returns an empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("b2-c").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the folder of C-Blosc2, which has `lib` and `include`.
fn c_blosc2() -> PathBuf {
    let folder = env::var_os("B2KIT_C_BLOSC2").expect("B2KIT_C_BLOSC2 names the folder of C-Blosc2");
    let folder = PathBuf::from(folder);
    assert!(folder.join("lib/libblosc2.so").exists(), "{} has no lib/libblosc2.so", folder.display());
    folder
}

/// A program compiled into a separate folder, which also contains the library under its soname.
struct Program {
    folder: PathBuf,
    file: PathBuf,
    /// The start of the command line.
    runner: Vec<&'static str>,
}

impl Program {
    /// Compiles a program of `tests/c` with the shared library. The suffix distinguishes tests with the same program.
    fn new(name: &str, suffix: &str) -> Self {
        let search = format!("-L{}", libraries().display());
        Self::compiled(
            &format!("tests/c/{name}.c"),
            &format!("{name}{suffix}"),
            &package("include"),
            &[&search, "-lblosc2"],
        )
    }

    fn compiled(source: &str, name: &str, include: &Path, link: &[&str]) -> Self {
        let folder = folder(name);
        let file = folder.join("program");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include);
        output(cc.arg(package(source)).arg("-o").arg(&file).args(link).args(["-lpthread", "-ldl", "-lm"]));
        std::os::unix::fs::symlink(libraries().join("libblosc2.so"), folder.join(SONAME)).unwrap();
        Self { folder, file, runner: Vec::new() }
    }

    fn under_valgrind(mut self) -> Self {
        self.runner = "valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
                       --show-leak-kinds=definite,indirect"
            .split_whitespace()
            .collect();
        self
    }

    /// Returns the command that runs the program in an empty folder, with the library in this folder.
    fn command(&self, library: &Path) -> Command {
        let work = self.folder.join("work");
        let _ = fs::remove_dir_all(&work);
        fs::create_dir(&work).unwrap();
        let mut words =
            self.runner.iter().map(|word| (*word).into()).chain([self.file.clone().into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(work).env("LD_LIBRARY_PATH", library);
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BLOSC_")) {
            command.env_remove(name);
        }
        command
    }
}

/// Runs a program that must pass.
fn passes(program: &Program, arguments: &str) {
    passed(program.command(&program.folder).args(arguments.split_whitespace()));
}

/// Runs a command whose last line must be `NAME: N passed, 0 failed`, with N above 0.
fn passed(command: &mut Command) {
    let text = output(command);
    let counts =
        text.lines().last().and_then(|line| line.rsplit_once(": ")?.1.strip_suffix(" passed, 0 failed"));
    let count = counts.and_then(|count| count.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 0), "{command:?} does not say what passed:\n{text}");
    print!("{text}");
}

/// Not under valgrind, which has its own functions for memory.
#[test]
fn no_memory_passes() {
    passes(&Program::new("no_memory", ""), "");
}

/// Reads next to a process that writes with another library.
fn reads_next_to_a_writer(name: &str, writer: Option<&Path>, reads: &str) {
    let program = Program::compiled("tests/c/locked_reads.c", name, &package("include"), &[]);
    let own = program.folder.join(SONAME);
    let mut run = program.command(&program.folder);
    passed(run.arg(&own).arg(writer.unwrap_or(&own)).arg(reads));
}

#[test]
fn reads_next_to_a_writer_are_of_one_state() {
    reads_next_to_a_writer("locked_reads", None, "3000");
}

#[test]
fn chunks_passes_linked_statically() {
    let library = libraries().join("libblosc2.a");
    let program = Program::compiled(
        "tests/c/chunks.c",
        "chunks-static",
        &package("include"),
        &[library.to_str().unwrap()],
    );
    fs::remove_file(program.folder.join(SONAME)).unwrap();
    passes(&program, "");
}

#[test]
fn an_installed_library_is_found_by_pkg_config_and_uninstalled_completely() {
    let prefix = folder("prefix");
    let script = |words: &[&str]| {
        let mut python = Command::new("python3");
        python.arg("-B").arg(package("../../../packaging/libblosc2.py")).args(words).arg(&prefix);
        python
    };
    let library = libraries().to_str().unwrap();
    let install = ["install", "--libraries", library];
    fs::create_dir(prefix.join("include")).unwrap();
    fs::write(prefix.join("include/b2nd.h"), "not ours").unwrap();
    assert!(!script(&install).status().unwrap().success(), "a file of another program was replaced");
    assert_eq!(fs::read_to_string(prefix.join("include/b2nd.h")).unwrap(), "not ours");
    assert_eq!(fs::read_dir(&prefix).unwrap().count(), 1, "a part was installed");
    assert!(!script(&["uninstall"]).status().unwrap().success(), "nothing was installed");
    fs::write(prefix.join("include/other.h"), "not ours").unwrap();
    fs::remove_file(prefix.join("include/b2nd.h")).unwrap();
    // Files of an earlier version are removed.
    output(&mut script(&install));
    let list = prefix.join("share/doc/libblosc2-b2kit/FILES");
    fs::write(prefix.join("include/old.h"), "ours").unwrap();
    fs::write(&list, fs::read_to_string(&list).unwrap() + "include/old.h\n").unwrap();
    output(&mut script(&install));
    assert!(!prefix.join("include/old.h").exists());

    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "blosc2"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = output(&mut flags);
    let program = folder("roundtrip").join("roundtrip");
    let mut cc = Command::new("cc");
    output(cc.arg(package("examples/roundtrip.c")).arg("-o").arg(&program).args(flags.split_whitespace()));
    let run = |program: &Path| {
        let mut run = Command::new(program);
        run.current_dir(program.parent().unwrap()).env("LD_LIBRARY_PATH", prefix.join("lib"));
        run
    };
    passed(&mut run(&program));

    let kept = fs::read_to_string(&list).unwrap();
    fs::write(prefix.parent().unwrap().join("precious"), "x").unwrap();
    fs::write(&list, "../precious\n").unwrap();
    assert!(!script(&["uninstall"]).status().unwrap().success(), "a file outside of the folder was removed");
    assert!(prefix.parent().unwrap().join("precious").exists());
    fs::write(&list, kept).unwrap();
    output(&mut script(&["uninstall"]));
    let left =
        |folder: &Path| Vec::from_iter(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()));
    assert_eq!(
        (left(&prefix), left(&prefix.join("include"))),
        (vec!["include".into()], vec!["other.h".into()])
    );
}

#[test]
fn an_installation_has_a_folder_of_libraries_and_a_destination() {
    let dest = folder("destination");
    let script = |what: &str| {
        let mut python = Command::new("python3");
        python.arg("-B").arg(package("../../../packaging/libblosc2.py")).env("DESTDIR", &dest);
        python
            .args([what, "--libdir", "lib/x86_64-linux-gnu", "--libraries"])
            .arg(libraries())
            .arg("/opt/b2");
        output(&mut python)
    };
    script("install");
    let lib = dest.join("opt/b2/lib/x86_64-linux-gnu");
    assert!(lib.join(SONAME).is_file() && lib.join("libblosc2.so").is_symlink());
    let asked = |sysroot: &Path| {
        let mut flags = Command::new("pkg-config");
        flags.args(["--cflags", "--libs", "blosc2"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        output(flags.env("PKG_CONFIG_SYSROOT_DIR", sysroot))
    };
    let flags = asked(Path::new(""));
    assert!(
        flags.contains("-I/opt/b2/include") && flags.contains("-L/opt/b2/lib/x86_64-linux-gnu"),
        "{flags}"
    );
    let program = folder("destination-program").join("roundtrip");
    let mut cc = Command::new("cc");
    cc.arg(package("examples/roundtrip.c")).arg("-o").arg(&program).args(asked(&dest).split_whitespace());
    output(&mut cc);
    // The paths in the file for CMake lead from its folder to the libraries and headers.
    let config = fs::read_to_string(lib.join("cmake/blosc2/Blosc2Config.cmake")).unwrap();
    assert!(config.contains("\"${_blosc2_lib}/../..\" ABSOLUTE") && !config.contains('@'), "{config}");
    script("uninstall");
    assert_eq!(fs::read_dir(dest.join("opt/b2")).unwrap().count(), 0);
}

/// Returns the functions declared by our headers.
fn declared() -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for header in ["blosc2.h", "b2nd.h", "blosc2/blosc2-stdio.h"] {
        let text = fs::read_to_string(package("include").join(header)).unwrap();
        for declaration in text.split("BLOSC_EXPORT ").skip(1) {
            let head = declaration.split('(').next().unwrap();
            names.insert(head.rsplit(|c| !part(c)).next().unwrap().to_owned());
        }
    }
    assert_eq!(names.len(), SYMBOLS, "declared functions");
    names
}

#[test]
fn the_library_exports_what_the_headers_declare() {
    let library = libraries().join("libblosc2.so");
    let listed = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect();
    assert_eq!(exported, declared());
    let head = output(Command::new("readelf").arg("-d").arg(&library));
    assert!(head.contains(&format!("soname: [{SONAME}]")), "{head}");
}

#[test]
fn each_function_is_called_by_a_program_that_symbols_md_names() {
    let mut callers: BTreeMap<String, Vec<&str>> =
        declared().into_iter().map(|name| (name, Vec::new())).collect();
    for program in PROGRAMS {
        let text = fs::read_to_string(package(&format!("tests/c/{program}.c"))).unwrap();
        let words: BTreeSet<&str> = text
            .split('(')
            .map(|before| before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap())
            .collect();
        callers
            .iter_mut()
            .filter(|(name, _)| words.contains(name.as_str()))
            .for_each(|(_, list)| list.push(program));
    }
    let mut text = String::from(
        "# The functions, and the programs in tests/c that call them\n\nCompared by `cargo nextest run -p b2-c`, and written \
         with `B2KIT_BLESS=1`.\n\n| Function | Called by |\n| --- | --- |\n",
    );
    for (name, list) in callers {
        assert!(!list.is_empty(), "no program in tests/c calls {name}");
        text += &format!("| `{name}` | {} |\n", list.join(", "));
    }
    if env::var_os("B2KIT_BLESS").is_some() {
        fs::write(package("SYMBOLS.md"), &text).unwrap();
    }
    assert!(
        fs::read_to_string(package("SYMBOLS.md")).unwrap() == text,
        "SYMBOLS.md is not up to date: B2KIT_BLESS=1"
    );
}

#[test]
#[ignore = "needs C-Blosc2 (B2KIT_C_BLOSC2)"]
fn structures_are_those_of_c_blosc2() {
    let printed = |name: &str, include: &Path| {
        let search = format!("-L{}", libraries().display());
        let program = Program::compiled("tests/c/layout.c", name, include, &[&search, "-lblosc2", "-w"]);
        output(&mut program.command(&program.folder))
    };
    let ours = printed("layout-ours", &package("include"));
    let theirs = printed("layout-theirs", &c_blosc2().join("include"));
    assert!(ours.lines().count() > 100, "{ours}");
    assert_eq!(ours, theirs);
}

#[test]
#[ignore = "needs C-Blosc2 (B2KIT_C_BLOSC2)"]
fn c_blosc2_and_the_library_read_what_the_other_writes() {
    let program = Program::compiled("tests/c/exchange.c", "exchange", &package("include"), &[]);
    let mut run = program.command(&program.folder);
    run.arg(program.folder.join(SONAME)).arg(c_blosc2().join("lib/libblosc2.so")).arg("400");
    passed(&mut run);
}

#[test]
#[ignore = "needs C-Blosc2 (B2KIT_C_BLOSC2)"]
fn reads_next_to_c_blosc2_are_of_one_state() {
    let theirs = c_blosc2().join("lib/libblosc2.so");
    reads_next_to_a_writer("locked_reads-c-blosc2", Some(&theirs), "10000");
}

#[test]
#[ignore = "needs C-Blosc2 (B2KIT_C_BLOSC2)"]
fn c_blosc2_returns_what_edges_expects() {
    let program = Program::new("edges", "-c-blosc2");
    passed(&mut program.command(&c_blosc2().join("lib")));
}

#[test]
fn the_page_for_c_shows_the_example() {
    let page = fs::read_to_string(package("../../../docs/how-to/c.md")).unwrap();
    let example = fs::read_to_string(package("examples/roundtrip.c")).unwrap();
    assert!(page.contains(&format!("```c\n{example}```\n")));
}
