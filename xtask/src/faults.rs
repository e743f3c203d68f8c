//! `cargo xtask faults`: makes each system call of each writing command fail, or kills the process there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use b2_testkit::Rng;
use b2kit::SuperChunk;

use crate::sh::{self, Counts};
use crate::{digest, root};

/// Make each system call of the commands that write fail, and look at what is left (Linux, needs a C compiler).
///
/// A preloaded library (xtask/c/faults.c) lets the n-th call that concerns a file fail: with no space, an I/O error, a
/// quota, an interruption, or after half of the bytes; or it kills the process before, in or after the call. Then the
/// exit code must be true, the file must hold the old or the new state and pass `verify`, nothing temporary may be left,
/// and the command must succeed when it is run again. docs/reliability.md has the figures.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Try all calls and errors instead of a sample of a minute.
    #[arg(long)]
    full: bool,
    /// Seed of the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only commands whose names contain this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The result of the task.
pub(crate) enum Outcome {
    Ran(Counts),
    /// Why it did not run.
    NotRun(String),
}

/// A sample ends after this time, once each command has run.
const SAMPLE_TIME: Duration = Duration::from_secs(60);
/// Timeout for a command; none takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Part of the message that a change took effect but was not synced.
const NOT_SYNCED: &str = "may not survive a power loss";
/// Maximum number of failures to print.
const SHOWN: usize = 40;

impl Outcome {
    pub(crate) fn print(&self) {
        match self {
            Self::Ran(Counts { passed, failed }) => println!("faults: {passed} passed, {failed} failed"),
            Self::NotRun(why) => {
                println!(
                    "faults: NOT RUN ({why}): what failing system calls leave behind would not have been noticed"
                );
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let outcome = check(args)?;
    outcome.print();
    match outcome {
        Outcome::Ran(Counts { failed: 0, .. }) => Ok(()),
        Outcome::Ran(Counts { failed, .. }) => bail!("{failed} faults were not handled"),
        Outcome::NotRun(why) => bail!("not run: {why}"),
    }
}

/// Runs the sample for `cargo xtask ci`.
pub(crate) fn sample() -> Result<Outcome> {
    check(&Args { full: false, seed: 1, only: None })
}

/// A command that writes.
struct Case {
    name: &'static str,
    /// Files and directories of the template that exist before the command.
    before: &'static [&'static str],
    args: &'static [&'static str],
    /// What the command creates or changes.
    target: &'static str,
}

/// Changes in place, of contiguous and sparse frames.
const CHANGES: &[(&str, &[&str], &[&str])] = &[
    ("append", &["more.npy"], &["append", "T", "more.npy"]),
    ("set", &["more.npy"], &["set", "T", "more.npy", "--slice=3:13"]),
    ("insert", &["more.npy"], &["insert", "T", "more.npy", "--at", "5"]),
    ("delete", &[], &["delete", "T", "--range", "2:17"]),
    ("grow", &[], &["resize", "T", "--shape", "90,16"]),
    ("shrink", &[], &["resize", "T", "--shape", "11,16"]),
    ("empty", &[], &["resize", "T", "--shape", "0,16"]),
    ("vlmeta set", &[], &["vlmeta", "set", "T", "unit", "K"]),
    ("vlmeta del", &[], &["vlmeta", "del", "T", "old"]),
    ("checksum add", &[], &["checksum", "add", "T"]),
    ("checksum remove", &[], &["checksum", "remove", "T"]),
    ("compact", &[], &["compact", "T"]),
    ("chunk append", &["chunk.bin"], &["chunk", "append", "T", "chunk.bin"]),
    ("chunk insert", &["chunk.bin"], &["chunk", "insert", "T", "1", "chunk.bin"]),
    ("chunk update", &["chunk.bin"], &["chunk", "update", "T", "1", "chunk.bin"]),
    ("chunk delete", &[], &["chunk", "delete", "T", "1"]),
];

/// Commands that write new files.
const CASES: &[Case] = &[
    Case { name: "pack", before: &["in.npy"], args: &["pack", "in.npy", "T"], target: "T" },
    Case {
        name: "pack, large",
        before: &["large.npy"],
        args: &["pack", "large.npy", "T", "--chunks", "40000"],
        target: "T",
    },
    Case {
        name: "pack, sparse",
        before: &["in.npy"],
        args: &["pack", "in.npy", "T", "--format", "sframe"],
        target: "T",
    },
    Case {
        name: "pack over a file",
        before: &["in.npy", "c.b2nd"],
        args: &["pack", "in.npy", "c.b2nd", "--force"],
        target: "c.b2nd",
    },
    Case {
        name: "pack over a directory",
        before: &["in.npy", "s.b2nd"],
        args: &["pack", "in.npy", "s.b2nd", "--format", "sframe", "--force"],
        target: "s.b2nd",
    },
    Case { name: "copy", before: &["s.b2nd"], args: &["copy", "s.b2nd", "T"], target: "T" },
    Case {
        name: "copy, sparse",
        before: &["c.b2nd"],
        args: &["copy", "c.b2nd", "T", "--format", "sframe"],
        target: "T",
    },
    Case {
        name: "copy over a file, other chunks",
        before: &["s.b2nd", "old.b2nd"],
        args: &["copy", "s.b2nd", "old.b2nd", "--force", "--chunks", "20,16", "--codec", "zstd"],
        target: "old.b2nd",
    },
    Case { name: "unpack", before: &["c.b2nd"], args: &["unpack", "c.b2nd", "-o", "T"], target: "T" },
    Case {
        name: "unpack over a file",
        before: &["c.b2nd", "more.npy"],
        args: &["unpack", "c.b2nd", "-o", "more.npy", "--force"],
        target: "more.npy",
    },
    Case {
        name: "cat to a file",
        before: &["s.b2nd"],
        args: &["cat", "s.b2nd", "--npy", "-o", "T"],
        target: "T",
    },
    Case { name: "salvage", before: &["cut.b2nd"], args: &["salvage", "cut.b2nd", "T"], target: "T" },
];

/// A command and its files.
struct Task {
    name: String,
    /// Names in the template, and in the folder of the run.
    before: Vec<(String, String)>,
    args: Vec<String>,
    target: String,
    /// The exit code if nothing fails.
    code: i32,
}

fn tasks() -> Vec<Task> {
    let mut all = Vec::new();
    for (name, with, args) in CHANGES {
        for (storage, start) in [("contiguous", "c"), ("sparse", "s")] {
            let kind = match *name {
                "checksum add" => "plain.b2nd",
                name if name.starts_with("chunk ") => ".b2frame",
                _ => ".b2nd",
            };
            let mut before = vec![(format!("{start}{kind}"), "T".to_owned())];
            before.extend(with.iter().map(|name| ((*name).to_owned(), (*name).to_owned())));
            all.push(Task {
                name: format!("{name}, {storage}"),
                before,
                args: args.iter().map(|word| (*word).to_owned()).collect(),
                target: "T".to_owned(),
                code: 0,
            });
        }
    }
    for case in CASES {
        all.push(Task {
            name: case.name.to_owned(),
            before: case.before.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect(),
            args: case.args.iter().map(|word| (*word).to_owned()).collect(),
            target: case.target.to_owned(),
            code: i32::from(case.name == "salvage"),
        });
    }
    all
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trouble {
    name: &'static str,
    /// The error number, or 0 to process only half of the bytes.
    errno: u8,
    /// Whether all later calls that need space fail too.
    lasting: bool,
    kill: Option<&'static str>,
    /// Whether the program must continue as if nothing had happened.
    harmless: bool,
}

const fn error(name: &'static str, errno: u8) -> Trouble {
    Trouble { name, errno, lasting: false, kill: None, harmless: false }
}

const fn kill(name: &'static str, when: &'static str) -> Trouble {
    Trouble { name, errno: 5, lasting: false, kill: Some(when), harmless: false }
}

const EIO: Trouble = error("EIO", 5);
const ENOSPC: Trouble = error("ENOSPC", 28);
const EDQUOT: Trouble = error("EDQUOT", 122);
const EMFILE: Trouble = error("EMFILE", 24);
/// Not every file system supports hard links.
const EPERM: Trouble = error("EPERM", 1);
const EINTR: Trouble = Trouble { harmless: true, ..error("EINTR", 4) };
const HALF: Trouble = Trouble { harmless: true, ..error("half of the bytes", 0) };
const FULL: Trouble = Trouble { lasting: true, ..error("no space from here on", 28) };
const HALF_FULL: Trouble = Trouble { lasting: true, ..error("half of the bytes, then no space", 0) };
const KILL: Trouble = kill("killed before", "before");
const KILL_HALF: Trouble = kill("killed after half of the bytes", "half");
const KILL_AFTER: Trouble = kill("killed after", "after");

/// Returns the ways in which a call can fail.
fn troubles(call: &str) -> &'static [Trouble] {
    match call {
        "write" | "writev" | "pwrite64" | "copy_file_range" => {
            &[ENOSPC, EIO, EDQUOT, EINTR, HALF, FULL, HALF_FULL, KILL, KILL_HALF, KILL_AFTER]
        }
        "fsync" | "fdatasync" => &[EIO, ENOSPC, EDQUOT, EINTR, FULL, KILL, KILL_AFTER],
        "ftruncate64" | "fallocate64" => &[EIO, EINTR, FULL, KILL, KILL_AFTER],
        "open-create" => &[ENOSPC, EIO, EDQUOT, EMFILE, EINTR, FULL, KILL, KILL_AFTER],
        "link" | "linkat" => &[ENOSPC, EIO, EDQUOT, EPERM, FULL, KILL, KILL_AFTER],
        "mkdir" | "rename" | "renameat2" => &[ENOSPC, EIO, EDQUOT, FULL, KILL, KILL_AFTER],
        "unlink" | "unlinkat" | "rmdir" | "chmod" => &[EIO, KILL, KILL_AFTER],
        "read" | "readv" | "pread64" => &[EIO, EINTR, HALF],
        "open" => &[EIO, EMFILE, EINTR],
        "flock" => &[EIO, EINTR, KILL_AFTER],
        // The result of `close` is ignored, since everything important was synced before.
        "close" => &[Trouble { harmless: true, ..EIO }, EINTR],
        "dup" => &[EMFILE],
        _ => &[EIO],
    }
}

/// Whether a call changes the content of the disk.
fn changes(call: &str) -> bool {
    troubles(call).contains(&KILL)
}

/// The content of a target: its data and metadata, or its bytes if it is not a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Bytes(String),
    Frame { contents: String, chunk_files: usize },
}

fn state(path: &Path) -> Result<State, String> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(State::Missing);
    }
    let bytes = if path.is_dir() { None } else { Some(fs::read(path).map_err(|error| error.to_string())?) };
    if let Some(bytes) = bytes.filter(|bytes| bytes.starts_with(b"\x93NUMPY")) {
        return Ok(State::Bytes(digest::bytes(&bytes)));
    }
    let frame = || -> Result<String> {
        let frame = SuperChunk::open(path)?;
        let mut all = vec![format!("checksums: {:?}", frame.checksums())];
        for nchunk in 0..frame.nchunks() {
            let chunk = frame.decompress_chunk(nchunk)?;
            all.push(format!("chunk of {} bytes: {}", chunk.len(), digest::bytes(&chunk)));
        }
        all.extend(frame.metalayers().iter().map(|(name, value)| format!("{name:?} {value:?}")));
        for (name, _) in frame.vlmetalayers().iter() {
            all.push(format!("vl {name:?} {:?}", frame.vlmetalayers().get(name)?));
        }
        Ok(all.join("\n"))
    };
    let contents = frame().map_err(|error| format!("cannot be read: {error:#}"))?;
    let names = if path.is_dir() { names(path) } else { Vec::new() };
    let chunk_files = names.iter().filter(|name| name.ends_with(".chunk")).count();
    Ok(State::Frame { contents, chunk_files })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What a run left behind.
struct Ran {
    status: ExitStatus,
    message: String,
}

/// The paths of everything that is needed.
struct Lab {
    program: PathBuf,
    library: PathBuf,
    template: PathBuf,
    folder: PathBuf,
}

impl Lab {
    fn command(&self, folder: &Path, args: &[impl AsRef<std::ffi::OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // With one thread, the calls have the same order in each run.
        command.env("RAYON_NUM_THREADS", "1").env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, mut command: Command) -> Result<Ran> {
        let mut child = command.spawn().with_context(|| self.program.display().to_string())?;
        // The output is short and fits into a pipe.
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        while child.try_wait()?.is_none() {
            if started.elapsed() > PATIENCE {
                child.kill()?;
                bail!("it hangs");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        Ok(Ran { status: output.status, message: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
    }

    fn watched(&self, folder: &Path, args: &[String]) -> Command {
        let mut command = self.command(folder, args);
        command.env("LD_PRELOAD", &self.library).env("B2KIT_FAULT_FOLDER", folder);
        command.env("B2KIT_FAULT_LOG", log_of(folder));
        command
    }

    /// Creates a folder that contains only what the command needs.
    fn prepare(&self, worker: &str, task: &Task) -> Result<PathBuf> {
        let folder = self.folder.join(worker);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let _ = fs::remove_file(log_of(&folder));
        fs::create_dir(&folder)?;
        for (from, to) in &task.before {
            copy(&self.template.join(from), &folder.join(to)).with_context(|| from.clone())?;
        }
        Ok(folder)
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.with_extension("log")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir(to)?;
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name))?;
    }
    Ok(())
}

/// What a command does if nothing fails.
struct Known {
    old: State,
    new: State,
    calls: Vec<String>,
}

impl Lab {
    fn learn(&self, task: &Task) -> Result<Known> {
        let folder = self.prepare("learn", task)?;
        let target = folder.join(&task.target);
        let old = state(&target).map_err(anyhow::Error::msg)?;
        let ran = self.run(self.watched(&folder, &task.args))?;
        ensure!(ran.status.code() == Some(task.code), "{}: {}: {}", task.name, ran.status, ran.message);
        let new = state(&target).map_err(anyhow::Error::msg)?;
        ensure!(old != new || task.name.starts_with("compact"), "{} changes nothing", task.name);
        let log = fs::read_to_string(log_of(&folder))?;
        let calls: Vec<String> =
            log.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
        ensure!(calls.len() > 10, "{}: only {} system calls were seen", task.name, calls.len());
        Ok(Known { old, new, calls })
    }

    /// Makes one call fail, and checks what is left.
    fn try_one(
        &self,
        worker: &str,
        task: &Task,
        known: &Known,
        at: usize,
        trouble: Trouble,
    ) -> Result<(), String> {
        let text = |error: anyhow::Error| format!("{error:#}");
        let folder = self.prepare(worker, task).map_err(text)?;
        let target = folder.join(&task.target);
        let mut command = self.watched(&folder, &task.args);
        command.env("B2KIT_FAULT_AT", at.to_string()).env("B2KIT_FAULT_ERROR", trouble.errno.to_string());
        if trouble.lasting {
            command.env("B2KIT_FAULT_LAST", "1");
        }
        if let Some(when) = trouble.kill {
            command.env("B2KIT_FAULT_KILL", when);
        }
        let ran = self.run(command).map_err(text)?;
        let hit = fs::read_to_string(log_of(&folder)).unwrap_or_default();
        let tag = format!("{} (call {at}): {}; {}; {:?}", trouble.name, hit.trim(), ran.status, ran.message);
        if hit.is_empty() {
            return Err(format!("{tag}: no call was made to fail"));
        }
        let found = state(&target).map_err(|error| format!("{tag}: {error}"))?;
        let (is_old, is_new) = (same(&found, &known.old), same(&found, &known.new));
        if !is_old && !is_new {
            return Err(format!("{tag}: neither the old nor the new state: {found:?}"));
        }
        let done = ran.status.code() == Some(task.code) && ran.message_is_fine(task);
        match ran.status.code() {
            None if trouble.kill.is_some() && ran.status.signal() == Some(9) => {}
            _ if done => {
                if !is_new {
                    return Err(format!("{tag}: says that it is done, but it is not"));
                }
            }
            Some(1) => {
                if trouble.harmless {
                    return Err(format!("{tag}: not retried"));
                }
                if ran.message.is_empty() {
                    return Err(format!("{tag}: fails without a word"));
                }
                // The change may have taken effect, but then the message must not claim the contrary.
                let tells = [NOT_SYNCED, "written, but", "compacted, but", "chunks are saved, but"];
                if !is_old && !tells.iter().any(|words| ran.message.contains(words)) {
                    return Err(format!("{tag}: says that it failed, but it is done"));
                }
                if !is_old && ran.message.contains("nothing was") {
                    return Err(format!("{tag}: says that nothing was written"));
                }
            }
            _ => return Err(format!("{tag}: a bad end")),
        }
        // A command that cannot remove files leaves them, and a killed one cannot remove any.
        let cleaned =
            ["unlink", "unlinkat", "rmdir", "opendir", "readdir"].iter().any(|call| hit.starts_with(call));
        if trouble.kill.is_none() && !cleaned {
            self.no_litter(
                &folder,
                task,
                &ran.message,
                (&found, if is_old { &known.old } else { &known.new }),
            )
            .map_err(|error| format!("{tag}: {error}"))?;
        }
        if matches!(found, State::Frame { .. }) {
            let ran = self.run(self.command(&folder, &["verify", &task.target])).map_err(text)?;
            if !ran.status.success() {
                return Err(format!("{tag}: verify: {}", ran.message));
            }
        }
        // Now the command must succeed.
        if !is_new {
            let ran = self.run(self.command(&folder, &task.args)).map_err(text)?;
            let found = state(&target).map_err(|error| format!("{tag}: again: {error}"))?;
            if ran.status.code() != Some(task.code) || !same(&found, &known.new) {
                return Err(format!("{tag}: again: {}; {:?}: {found:?}", ran.status, ran.message));
            }
        }
        Ok(())
    }

    /// Whether nothing was left behind that is new and not part of the target.
    fn no_litter(
        &self,
        folder: &Path,
        task: &Task,
        message: &str,
        (found, known): (&State, &State),
    ) -> Result<(), String> {
        let lock = format!("{}.b2lock", task.target);
        let expected = |name: &String| {
            *name == task.target || *name == lock || task.before.iter().any(|(_, before)| before == name)
        };
        let target = folder.join(&task.target);
        let mut litter: Vec<String> = names(folder).into_iter().filter(|name| !expected(name)).collect();
        if target.is_dir() {
            let member =
                |name: &String| name.ends_with(".chunk") || name == "chunks.b2frame" || name == ".b2lock";
            litter.extend(names(&target).into_iter().filter(|name| !member(name)));
        }
        if !litter.is_empty() {
            return Err(format!("left behind: {}", litter.join(", ")));
        }
        match (found, known) {
            // Chunks of the old state stay if a power loss could bring that state back.
            (State::Frame { chunk_files: found, .. }, State::Frame { chunk_files: known, .. })
                if found != known && !message.contains(NOT_SYNCED) =>
            {
                Err(format!("{found} chunk files instead of {known}"))
            }
            _ => Ok(()),
        }
    }
}

impl Ran {
    /// Salvaging a truncated file exits with 1 and no message even if nothing fails.
    fn message_is_fine(&self, task: &Task) -> bool {
        task.code == 0 || !self.message.contains("b2kit: ") || self.message.contains("recovered")
    }
}

fn same(a: &State, b: &State) -> bool {
    match (a, b) {
        (State::Frame { contents: a, .. }, State::Frame { contents: b, .. }) => a == b,
        _ => a == b,
    }
}

/// Creates the files that the commands start with.
fn make_template(lab: &Lab) -> Result<()> {
    let folder = &lab.template;
    fs::create_dir(folder)?;
    let mut rng = Rng::case(19, 0);
    let npy = |name: &str, shape: &str, values: &[u8]| -> Result<()> {
        let mut header = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({shape}), }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let len = u16::try_from(header.len())?.to_le_bytes();
        fs::write(folder.join(name), [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), values].concat())?;
        Ok(())
    };
    npy("in.npy", "40, 16", &rng.bytes(40 * 16 * 4))?;
    npy("more.npy", "10, 16", &rng.bytes(10 * 16 * 4))?;
    npy("large.npy", "600000,", &rng.bytes(600_000 * 4))?;
    let run = |args: &[&str]| -> Result<()> {
        let ran = lab.run(lab.command(folder, args))?;
        ensure!(ran.status.success(), "{}: {}", args.join(" "), ran.message);
        Ok(())
    };
    for (name, format) in [("c", "cframe"), ("s", "sframe")] {
        let array = format!("{name}.b2nd");
        run(&["pack", "in.npy", &array, "--chunks", "8,16", "--format", format])?;
        // This leaves holes and a vlmetalayer.
        run(&["vlmeta", "set", &array, "old", "[1, 2, 3]"])?;
        run(&["set", &array, "more.npy", "--slice=20:30"])?;
        let plain = format!("{name}plain.b2nd");
        run(&["copy", &array, &plain, "--format", format])?;
        run(&["checksum", "remove", &plain])?;
        let frame = format!("{name}.b2frame");
        run(&[
            "pack",
            "in.npy",
            &frame,
            "--raw",
            "--typesize",
            "4",
            "--chunksize",
            "700",
            "--format",
            format,
        ])?;
    }
    run(&["copy", "c.b2nd", "old.b2nd"])?;
    fs::write(folder.join("chunk.bin"), rng.bytes(700))?;
    let whole = fs::read(folder.join("c.b2nd"))?;
    fs::write(folder.join("cut.b2nd"), &whole[..whole.len() * 2 / 3])?;
    // Lock files of the changes above.
    for name in names(folder) {
        if name.ends_with(".b2lock") {
            fs::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}

fn check(args: &Args) -> Result<Outcome> {
    if !cfg!(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")) {
        return Ok(Outcome::NotRun("only for 64-bit Linux with glibc".into()));
    }
    let home = root::target().join("xtask");
    fs::create_dir_all(&home)?;
    let library = home.join("faults.so");
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = root::workspace().join("xtask").join("c").join("faults.c");
    let mut compile = Command::new(&cc);
    compile.args(["-shared", "-fPIC", "-O1", "-o"]);
    match compile.arg(&library).arg(source).arg("-ldl").status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("{} ended with {status}", cc.display()),
        Err(error) => return Ok(Outcome::NotRun(format!("no C compiler: {}: {error}", cc.display()))),
    }
    sh::run(sh::cargo(&["build", "-p", "b2-cli", "--bin", "b2kit", "-p", "xtask"]))?;
    let folder = tempfile::Builder::new().prefix("faults-").tempdir_in(&home)?;
    let folder_path = folder.path().canonicalize()?;
    let lab = Lab {
        program: root::target().join("debug").join("b2kit").canonicalize()?,
        library: library.canonicalize()?,
        template: folder_path.join("template"),
        folder: folder_path,
    };
    make_template(&lab)?;
    let wanted = |task: &Task| args.only.as_ref().is_none_or(|only| task.name.contains(only.as_str()));
    let tasks: Vec<Task> = tasks().into_iter().filter(wanted).collect();
    ensure!(!tasks.is_empty(), "no such command");
    let known = tasks.iter().map(|task| lab.learn(task)).collect::<Result<Vec<Known>>>()?;
    let counts = run_all(&lab, &tasks, &known, args)?;
    Ok(Outcome::Ran(counts))
}

/// Runs all cases, or as many as time permits, in an order given by the seed.
fn run_all(lab: &Lab, tasks: &[Task], known: &[Known], args: &Args) -> Result<Counts> {
    let mut cases = Vec::new();
    for (task, known) in known.iter().enumerate() {
        // Salvage treats unreadable data as lost and continues.
        let salvage = tasks[task].name == "salvage";
        for (at, call) in known.calls.iter().enumerate() {
            let all = troubles(call).iter().filter(|trouble| !salvage || changes(call) || trouble.harmless);
            cases.extend(all.map(|trouble| (task, at, *trouble)));
        }
    }
    let all = cases.len();
    let mut rng = Rng::case(args.seed, 0);
    if !args.full {
        for i in (1..all).rev() {
            cases.swap(i, rng.below(i + 1));
        }
    }
    let deadline = (!args.full).then(|| Instant::now() + SAMPLE_TIME);
    let next = Mutex::new(cases.into_iter());
    let results = Mutex::new((Counts::default(), Vec::new(), BTreeMap::<&str, u64>::new()));
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (next, results) = (&next, &results);
            scope.spawn(move || {
                let worker = format!("worker{worker}");
                while deadline.is_none_or(|deadline| Instant::now() < deadline) {
                    let case = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((task, at, trouble)) = case else { break };
                    let result = lab.try_one(&worker, &tasks[task], &known[task], at, trouble);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    *results.2.entry(trouble.name).or_default() += 1;
                    match result {
                        Ok(()) => results.0.passed += 1,
                        Err(error) => {
                            results.0.failed += 1;
                            results.1.push(format!("{}: {error}", tasks[task].name));
                        }
                    }
                }
            });
        }
    });
    let (counts, mut reports, by_trouble) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort();
    for report in reports.iter().take(SHOWN) {
        println!("FAULT {report}");
    }
    if reports.len() > SHOWN {
        println!("and {} more", reports.len() - SHOWN);
    }
    let calls: usize = known.iter().map(|known| known.calls.len()).sum();
    println!(
        "{} commands, {calls} calls, {} of {all} cases were run:",
        tasks.len(),
        counts.passed + counts.failed
    );
    for (trouble, n) in by_trouble {
        println!("{n:7}  {trouble}");
    }
    ensure!(counts.passed + counts.failed >= tasks.len() as u64, "too few cases were run");
    Ok(counts)
}
