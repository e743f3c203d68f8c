//! Makes each system call of each writing command fail, or kills the process there (Linux with glibc and a C compiler).
//!
//! A preloaded library (faults.c) makes the n-th call that concerns a file fail (no space, I/O error, quota,
//! interruption, or after half of the bytes), or kills the process before, during or after the call. Then the exit code
//! must be correct, the file must hold the old or the new state and pass `verify`, no temporary files may remain, and
//! the command must succeed when run again. docs/explanation/reliability-tests.md has the figures.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use b2_testkit::Rng;
use b2kit::SuperChunk;

use crate::{digest, number};

/// The command under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_b2-durability");
/// Number of sampled cases, over all commands.
const SAMPLE_CASES: u64 = 1200;
/// Timeout for a command; none takes this long.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Part of the message that a change took effect but was not synced.
const NOT_SYNCED: &str = "may not survive a power loss";
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

/// Commands that write new files: name, files and directories of the template that exist before, arguments, and what the
/// command creates or changes.
const CASES: &[(&str, &[&str], &[&str], &str)] = &[
    ("pack", &["in.npy"], &["pack", "in.npy", "T"], "T"),
    ("pack, large", &["large.npy"], &["pack", "large.npy", "T", "--chunks", "40000"], "T"),
    ("pack, sparse", &["in.npy"], &["pack", "in.npy", "T", "--format", "sframe"], "T"),
    ("pack over a file", &["in.npy", "c.b2nd"], &["pack", "in.npy", "c.b2nd", "--force"], "c.b2nd"),
    (
        "pack over a directory",
        &["in.npy", "s.b2nd"],
        &["pack", "in.npy", "s.b2nd", "--format", "sframe", "--force"],
        "s.b2nd",
    ),
    ("pack -d", &["in.npy"], &["pack", "-d", ".", "in.npy"], "in.b2nd"),
    // If the input is removed too early, the command cannot succeed when run again.
    ("pack --rm", &["in.npy"], &["pack", "in.npy", "T", "--rm"], "T"),
    ("pack -d --rm", &["in.npy"], &["pack", "-d", ".", "in.npy", "--rm"], "in.b2nd"),
    ("unpack --rm", &["c.b2nd"], &["unpack", "c.b2nd", "-o", "T", "--rm", "--force", "--allow-lossy"], "T"),
    ("copy", &["s.b2nd"], &["copy", "s.b2nd", "T"], "T"),
    ("copy, sparse", &["c.b2nd"], &["copy", "c.b2nd", "T", "--format", "sframe"], "T"),
    (
        "copy over a file, other chunks",
        &["s.b2nd", "old.b2nd"],
        &["copy", "s.b2nd", "old.b2nd", "--force", "--chunks", "20,16", "--codec", "zstd"],
        "old.b2nd",
    ),
    ("unpack", &["c.b2nd"], &["unpack", "c.b2nd", "-o", "T"], "T"),
    (
        "unpack over a file",
        &["c.b2nd", "more.npy"],
        &["unpack", "c.b2nd", "-o", "more.npy", "--force"],
        "more.npy",
    ),
    ("cat to a file", &["s.b2nd"], &["cat", "s.b2nd", "--npy", "-o", "T"], "T"),
    ("salvage", &["cut.b2nd"], &["salvage", "cut.b2nd", "T"], "T"),
    ("view", &["c.b2nd"], &["view", "c.b2nd", "-o", "T", "--format", "png"], "T"),
    (
        "view over a file",
        &["s.b2nd", "in.npy"],
        &["view", "s.b2nd", "-o", "in.npy", "--format", "svg", "--force"],
        "in.npy",
    ),
];

/// A command and its files.
struct CommandCase {
    name: String,
    /// The file of the template that is the target before the command.
    start: Option<String>,
    /// Other files of the template that exist before the command.
    before: &'static [&'static str],
    args: &'static [&'static str],
    target: &'static str,
    /// The exit code if nothing fails.
    code: i32,
}

fn tasks() -> Vec<CommandCase> {
    let mut all = Vec::new();
    for &(name, before, args) in CHANGES {
        for (storage, start) in [("contiguous", "c"), ("sparse", "s")] {
            let kind = match name {
                "checksum add" => "plain.b2nd",
                name if name.starts_with("chunk ") => ".b2frame",
                _ => ".b2nd",
            };
            let (name, start) = (format!("{name}, {storage}"), Some(format!("{start}{kind}")));
            all.push(CommandCase { name, start, before, args, target: "T", code: 0 });
        }
    }
    all.extend(CASES.iter().map(|&(name, before, args, target)| CommandCase {
        name: name.to_owned(),
        start: None,
        before,
        args,
        target,
        code: i32::from(name == "salvage"),
    }));
    all
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallFailure {
    name: &'static str,
    /// The error number, or 0 to process only half of the bytes.
    errno: u8,
    /// Whether all later calls that need space fail too.
    lasting: bool,
    kill: Option<&'static str>,
    /// Whether the program must continue as if nothing had happened.
    harmless: bool,
}

const fn error(name: &'static str, errno: u8) -> CallFailure {
    CallFailure { name, errno, lasting: false, kill: None, harmless: false }
}

const fn kill(name: &'static str, when: &'static str) -> CallFailure {
    CallFailure { name, errno: 5, lasting: false, kill: Some(when), harmless: false }
}

const EIO: CallFailure = error("EIO", 5);
const ENOSPC: CallFailure = error("ENOSPC", 28);
const EDQUOT: CallFailure = error("EDQUOT", 122);
const EMFILE: CallFailure = error("EMFILE", 24);
/// Not every file system supports hard links.
const EPERM: CallFailure = error("EPERM", 1);
const EINTR: CallFailure = CallFailure { harmless: true, ..error("EINTR", 4) };
const HALF: CallFailure = CallFailure { harmless: true, ..error("half of the bytes", 0) };
const FULL: CallFailure = CallFailure { lasting: true, ..error("no space from here on", 28) };
const HALF_FULL: CallFailure = CallFailure { lasting: true, ..error("half of the bytes, then no space", 0) };
const KILL: CallFailure = kill("killed before", "before");
const KILL_HALF: CallFailure = kill("killed after half of the bytes", "half");
const KILL_AFTER: CallFailure = kill("killed after", "after");

/// Returns the ways in which a call can fail.
fn troubles(call: &str) -> &'static [CallFailure] {
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
        "close" => &[CallFailure { harmless: true, ..EIO }, EINTR],
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
enum TargetState {
    Missing,
    Bytes(String),
    Frame { contents: String, chunk_files: usize },
}

fn state(path: &Path) -> Result<TargetState> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(TargetState::Missing);
    }
    let bytes = if path.is_dir() { None } else { Some(fs::read(path)?) };
    let starts: [&[u8]; 3] = [b"\x93NUMPY", b"\x89PNG", b"<"];
    if let Some(bytes) = bytes.filter(|bytes| starts.iter().any(|start| bytes.starts_with(start))) {
        return Ok(TargetState::Bytes(digest(&bytes)));
    }
    let frame = || -> Result<String> {
        let frame = SuperChunk::open(path)?;
        let mut all = vec![format!("checksums: {:?}", frame.checksums())];
        for nchunk in 0..frame.nchunks() {
            let chunk = frame.chunk(nchunk).decompress()?;
            all.push(format!("chunk of {} bytes: {}", chunk.len(), digest(&chunk)));
        }
        all.extend(frame.metalayers().iter().map(|(name, value)| format!("{name:?} {value:?}")));
        for (name, _) in frame.vlmetalayers().iter() {
            all.push(format!("vl {name:?} {:?}", frame.vlmetalayers().get(name)?));
        }
        Ok(all.join("\n"))
    };
    let contents = frame().context("cannot be read")?;
    let names = if path.is_dir() { names(path) } else { Vec::new() };
    let chunk_files = names.iter().filter(|name| name.ends_with(".chunk")).count();
    Ok(TargetState::Frame { contents, chunk_files })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The state after a run.
struct RunResult {
    status: ExitStatus,
    message: String,
}

/// The paths used by the tests.
struct FaultLab {
    library: PathBuf,
    template: PathBuf,
    folder: PathBuf,
}

impl FaultLab {
    fn command(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
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

    fn run(&self, mut command: Command) -> Result<RunResult> {
        let mut child = command.spawn().context(PROGRAM)?;
        // The output is short and fits into a pipe.
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        while child.try_wait()?.is_none() {
            if started.elapsed() > COMMAND_TIMEOUT {
                child.kill()?;
                bail!("it hangs");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        Ok(RunResult {
            status: output.status,
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    fn watched(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = self.command(folder, args);
        command.env("LD_PRELOAD", &self.library).env("B2KIT_FAULT_FOLDER", folder);
        command.env("B2KIT_FAULT_LOG", log_of(folder));
        command
    }

    /// Creates a folder that contains only what the command needs.
    fn prepare(&self, worker: &str, task: &CommandCase) -> Result<PathBuf> {
        let folder = self.folder.join(worker);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        let _ = fs::remove_file(log_of(&folder));
        if let Some(start) = &task.start {
            copy(&self.template.join(start), &folder.join(task.target))?;
        }
        for name in task.before {
            copy(&self.template.join(name), &folder.join(name))?;
        }
        Ok(folder)
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.with_extension("log")
}

/// A run of a command in which nothing fails.
struct ReferenceRun {
    old: TargetState,
    new: TargetState,
    calls: Vec<String>,
}

impl FaultLab {
    fn learn(&self, task: &CommandCase) -> Result<ReferenceRun> {
        let folder = self.prepare("learn", task)?;
        let target = folder.join(task.target);
        let old = state(&target)?;
        let ran = self.run(self.watched(&folder, task.args))?;
        ensure!(ran.status.code() == Some(task.code), "{}: {}: {}", task.name, ran.status, ran.message);
        let new = state(&target)?;
        ensure!(old != new || task.name.starts_with("compact"), "{} changes nothing", task.name);
        let log = fs::read_to_string(log_of(&folder))?;
        let calls: Vec<String> =
            log.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
        ensure!(calls.len() > 10, "{}: only {} system calls were seen", task.name, calls.len());
        Ok(ReferenceRun { old, new, calls })
    }

    /// Makes one call fail, and checks what is left.
    fn try_one(
        &self,
        worker: &str,
        task: &CommandCase,
        known: &ReferenceRun,
        at: usize,
        trouble: CallFailure,
    ) -> Result<()> {
        let folder = self.prepare(worker, task)?;
        let mut command = self.watched(&folder, task.args);
        command.env("B2KIT_FAULT_AT", at.to_string()).env("B2KIT_FAULT_ERROR", trouble.errno.to_string());
        if trouble.lasting {
            command.env("B2KIT_FAULT_LAST", "1");
        }
        if let Some(when) = trouble.kill {
            command.env("B2KIT_FAULT_KILL", when);
        }
        let ran = self.run(command)?;
        let hit = fs::read_to_string(log_of(&folder)).unwrap_or_default();
        let tag =
            || format!("{} (call {at}): {}; {}; {:?}", trouble.name, hit.trim(), ran.status, ran.message);
        self.judge(&folder, task, known, trouble, &hit, &ran).with_context(tag)
    }

    /// Checks what a command has left after a call was made to fail.
    fn judge(
        &self,
        folder: &Path,
        task: &CommandCase,
        known: &ReferenceRun,
        trouble: CallFailure,
        hit: &str,
        ran: &RunResult,
    ) -> Result<()> {
        ensure!(!hit.is_empty(), "no call was made to fail");
        let target = folder.join(task.target);
        let found = state(&target)?;
        let (is_old, is_new) = (same(&found, &known.old), same(&found, &known.new));
        ensure!(is_old || is_new, "neither the old nor the new state: {found:?}");
        let done = ran.status.code() == Some(task.code) && ran.message_is_fine(task);
        match ran.status.code() {
            None if trouble.kill.is_some() && ran.status.signal() == Some(9) => {}
            _ if done => ensure!(is_new, "reports success, but the state is old"),
            Some(1) => {
                ensure!(!trouble.harmless, "not retried");
                ensure!(!ran.message.is_empty(), "fails without a message");
                // The change may have taken effect, but then the message must say so.
                let warns = [NOT_SYNCED, "written, but", "compacted, but", "chunks are saved, but"];
                let warns = warns.iter().any(|words| ran.message.contains(words));
                ensure!(is_old || warns, "reports failure, but the state is new");
                ensure!(is_old || !ran.message.contains("nothing was"), "claims that nothing was written");
            }
            _ => bail!("unexpected exit"),
        }
        // A command that cannot remove files leaves them, and a killed one cannot remove any.
        let cleaned =
            ["unlink", "unlinkat", "rmdir", "opendir", "readdir"].iter().any(|call| hit.starts_with(call));
        if trouble.kill.is_none() && !cleaned {
            let before = if is_old { &known.old } else { &known.new };
            no_litter(folder, task, &ran.message, (&found, before))?;
        }
        if matches!(found, TargetState::Frame { .. }) {
            let ran = self.run(self.command(folder, &["verify", task.target]))?;
            ensure!(ran.status.success(), "verify: {}", ran.message);
        }
        // Now the command must succeed.
        if !is_new {
            let ran = self.run(self.command(folder, task.args))?;
            let found = state(&target).context("again")?;
            let good = ran.status.code() == Some(task.code) && same(&found, &known.new);
            ensure!(good, "again: {}; {:?}: {found:?}", ran.status, ran.message);
        }
        Ok(())
    }
}

/// Checks that nothing new remains except the target.
fn no_litter(
    folder: &Path,
    task: &CommandCase,
    message: &str,
    (found, known): (&TargetState, &TargetState),
) -> Result<()> {
    let lock = format!("{}.b2lock", task.target);
    let expected = |name: &String| {
        *name == task.target || *name == lock || task.before.iter().any(|before| before == name)
    };
    let target = folder.join(task.target);
    let mut litter: Vec<String> = names(folder).into_iter().filter(|name| !expected(name)).collect();
    if target.is_dir() {
        let member =
            |name: &String| name.ends_with(".chunk") || name == "chunks.b2frame" || name == ".b2lock";
        litter.extend(names(&target).into_iter().filter(|name| !member(name)));
    }
    ensure!(litter.is_empty(), "left behind: {}", litter.join(", "));
    // Chunks of the old state stay if a power loss could bring that state back.
    if let (TargetState::Frame { chunk_files: found, .. }, TargetState::Frame { chunk_files: known, .. }) =
        (found, known)
    {
        let same = found == known || message.contains(NOT_SYNCED);
        ensure!(same, "{found} chunk files instead of {known}");
    }
    Ok(())
}

impl RunResult {
    /// Salvaging a truncated file exits with 1 and no message even if nothing fails.
    fn message_is_fine(&self, task: &CommandCase) -> bool {
        task.code == 0 || !self.message.contains("b2kit: ") || self.message.contains("recovered")
    }
}

fn same(a: &TargetState, b: &TargetState) -> bool {
    match (a, b) {
        (TargetState::Frame { contents: a, .. }, TargetState::Frame { contents: b, .. }) => a == b,
        _ => a == b,
    }
}

/// Creates the files that the commands start with.
fn make_template(lab: &FaultLab) -> Result<()> {
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
        let raw = ["--raw", "--typesize", "4", "--chunksize", "700", "--format", format];
        run(&[&["pack", "in.npy", &frame][..], &raw].concat())?;
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

/// Copies a file or a flat folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Compiles the library to preload.
fn compile(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("faults.so");
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/faults.c");
    let mut command = Command::new(&cc);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    let status = command.status().with_context(|| format!("no C compiler: {}", cc.display()))?;
    ensure!(status.success(), "{} ended with {status}", cc.display());
    Ok(library)
}

/// Tries a sample of all calls and errors, chosen by the seed, at least one of each command; `B2KIT_FAULTS=all`: all.
#[test]
fn failing_system_calls_leave_the_old_or_the_new_state() -> Result<()> {
    let seed = number("B2KIT_FAULTS_SEED", 1)?;
    let temporary = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let folder = temporary.path().canonicalize()?;
    let lab = FaultLab { library: compile(&folder)?, template: folder.join("template"), folder };
    make_template(&lab)?;
    let tasks = tasks();
    let known = tasks.iter().map(|task| lab.learn(task)).collect::<Result<Vec<ReferenceRun>>>()?;
    let mut cases = Vec::new();
    for (task, known) in known.iter().enumerate() {
        // Salvage treats unreadable data as lost and continues.
        let salvage = tasks[task].name == "salvage";
        for (at, call) in known.calls.iter().enumerate() {
            let all = troubles(call).iter().filter(|trouble| !salvage || changes(call) || trouble.harmless);
            cases.extend(all.map(|trouble| (task, at, *trouble)));
        }
    }
    if std::env::var("B2KIT_FAULTS").as_deref() != Ok("all") {
        Rng::case(seed, 0).shuffle(&mut cases);
        let first: Vec<usize> =
            (0..tasks.len()).filter_map(|task| cases.iter().position(|case| case.0 == task)).collect();
        let mut n = 0..;
        let wanted = number("B2KIT_FAULTS", SAMPLE_CASES)? as usize;
        cases.retain(|_| n.next().is_some_and(|n| n < wanted || first.contains(&n)));
    }
    let count = cases.len();
    let next = Mutex::new(cases.into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (lab, tasks, known, next, failures) = (&lab, &tasks, &known, &next, &failures);
            scope.spawn(move || {
                let worker = format!("worker{worker}");
                loop {
                    let case = next.lock().expect("no panic").next();
                    let Some((task, at, trouble)) = case else { break };
                    if let Err(error) = lab.try_one(&worker, &tasks[task], &known[task], at, trouble) {
                        failures.lock().expect("no panic").push(format!("{}: {error:#}", tasks[task].name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner()?;
    ensure!(
        failures.is_empty(),
        "{} of {count} cases failed:\n{}\n    B2KIT_FAULTS_SEED={seed} cargo nextest run -p b2-durability failing_",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    ensure!(count >= 500, "only {count} cases were run");
    println!("{} commands, {count} cases", tasks.len());
    Ok(())
}
