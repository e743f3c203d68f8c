//! Runs the command under test in separate processes that handle many cases each: `b2kit batch`.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::lab::{CPU_TIMEOUT, PROGRAM, lock};

/// How to start workers.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSetup {
    /// The working directory: cases are named relative to it.
    pub(crate) folder: PathBuf,
    /// The inverse of the byte with which malloc fills memory (glibc's MALLOC_PERTURB_); 0 to leave memory as it is.
    pub(crate) perturb: u8,
    pub(crate) threads: u16,
    /// Limit of the address space in KiB, as for `ulimit -v`.
    pub(crate) address_kib: u64,
}

impl WorkerSetup {
    /// Returns a command with the limits applied.
    fn command(&self, args: &[&str]) -> Command {
        // A shell sets the limits, which avoids unsafe code here.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -c 0; ulimit -v \"$1\"; shift; exec \"$@\"", "sh"]);
        command.arg(self.address_kib.to_string()).arg(PROGRAM).args(args);
        command.current_dir(&self.folder).env("MALLOC_PERTURB_", self.perturb.to_string());
        command.env("RAYON_NUM_THREADS", self.threads.to_string()).env("RUST_BACKTRACE", "0");
        command
    }
}

/// The result of one command.
#[derive(Clone, Debug)]
pub(crate) struct CommandOutput {
    pub(crate) rc: u8,
    pub(crate) err: String,
    /// The first bytes of its output.
    pub(crate) out: Vec<u8>,
    /// Length of the whole output.
    pub(crate) len: u64,
    pub(crate) sha256: String,
}

/// How a process ended unexpectedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessDeath {
    Timeout,
    Code(i32),
    Signal(i32),
}

impl ProcessDeath {
    fn of(status: ExitStatus, timeout: bool) -> Self {
        match (timeout, status.signal()) {
            (true, _) => Self::Timeout,
            (_, Some(signal)) => Self::Signal(signal),
            _ => Self::Code(status.code().unwrap_or(-1)),
        }
    }
}

/// Maximum number of bytes of output that are kept of each command.
const MAX_OUTPUT_LEN: usize = 1 << 20;

/// A process that is killed if it takes too long.
struct ProcessGuard {
    child: Mutex<Child>,
    pid: u32,
    task: Mutex<Option<RunningCommand>>,
    late: AtomicBool,
    done: AtomicBool,
}

/// A running command.
#[derive(Clone, Copy)]
struct RunningCommand {
    began: Instant,
    /// The CPU time of the process before the command.
    cpu: Duration,
    /// When it was last seen to use CPU time, and its CPU time then.
    seen: (Instant, Duration),
}

/// A command that uses no CPU time for this long hangs. Even a busy machine schedules it more often.
const HANG_TIMEOUT: Duration = Duration::from_secs(40);
/// CPU time that counts as progress.
const MIN_PROGRESS: Duration = Duration::from_millis(30);

impl RunningCommand {
    fn new(pid: u32) -> Self {
        let (began, cpu) = (Instant::now(), cpu_time(pid));
        Self { began, cpu, seen: (began, cpu) }
    }

    /// Whether the command has used too much CPU time, or makes no progress. Time spent waiting for a processor does
    /// not count.
    fn is_late(&mut self, pid: u32) -> bool {
        if self.began.elapsed() <= CPU_TIMEOUT {
            return false;
        }
        let cpu = cpu_time(pid);
        if cpu.saturating_sub(self.seen.1) >= MIN_PROGRESS {
            self.seen = (Instant::now(), cpu);
        }
        cpu.saturating_sub(self.cpu) > CPU_TIMEOUT || self.seen.0.elapsed() > HANG_TIMEOUT
    }
}

/// Returns the CPU time of a process and all its threads.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain any characters.
    let words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = words.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    // The kernel reports it in hundredths of a second.
    Duration::from_millis(ticks * 10)
}

impl ProcessGuard {
    fn start(child: Child) -> Arc<Self> {
        let guard = Arc::new(Self {
            pid: child.id(),
            child: Mutex::new(child),
            task: Mutex::new(None),
            late: AtomicBool::new(false),
            done: AtomicBool::new(false),
        });
        let watched = guard.clone();
        thread::spawn(move || {
            while !watched.done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
                let late = lock(&watched.task).as_mut().is_some_and(|task| task.is_late(watched.pid));
                if late {
                    watched.late.store(true, Ordering::Relaxed);
                    // Ignore the error: the process may have ended already.
                    let _ = lock(&watched.child).kill();
                    return;
                }
            }
        });
        guard
    }

    /// Starts the timeout of a command.
    fn begin(&self) {
        *lock(&self.task) = Some(RunningCommand::new(self.pid));
    }

    fn end(&self) {
        *lock(&self.task) = None;
    }

    fn ended(&self) -> Result<ProcessDeath> {
        let status = lock(&self.child).wait()?;
        self.done.store(true, Ordering::Relaxed);
        Ok(ProcessDeath::of(status, self.late.load(Ordering::Relaxed)))
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.guard.done.store(true, Ordering::Relaxed);
        let mut child = lock(&self.guard.child);
        // The process may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

struct RunningWorker {
    guard: Arc<ProcessGuard>,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Memory use before the first command, in KiB.
    idle_kib: u64,
}

/// A process that is started when it is first needed, and restarted after it dies.
pub(crate) struct Worker {
    pub(crate) setup: WorkerSetup,
    stderr: PathBuf,
    seen: u64,
    running: Option<RunningWorker>,
}

impl Worker {
    /// Creates a worker, whose standard error goes to a file next to its folder.
    pub(crate) fn new(setup: WorkerSetup) -> Self {
        let stderr = setup.folder.with_extension("stderr");
        Self { setup, stderr, seen: 0, running: None }
    }

    fn running(&mut self) -> Result<&mut RunningWorker> {
        if self.running.is_none() {
            let threads = self.setup.threads.to_string();
            let mut command = self.setup.command(&["--quiet", "--threads", &threads, "batch"]);
            let stderr = File::options().create(true).append(true).open(&self.stderr)?;
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
            let mut child = command.spawn().context("starting b2kit")?;
            let stdin = child.stdin.take().context("no pipe")?;
            let stdout = BufReader::new(child.stdout.take().context("no pipe")?);
            let running = RunningWorker { guard: ProcessGuard::start(child), stdin, stdout, idle_kib: 0 };
            let running = self.running.insert(running);
            // Wait for a first response, since until then the shell would be measured.
            running.ask(&["--version".into()])?;
            running.idle_kib = memory_kib(running.guard.pid, "VmHWM:").unwrap_or(0);
        }
        self.running.as_mut().context("no worker")
    }

    /// Runs one command.
    pub(crate) fn run(&mut self, args: &[String]) -> Result<Result<CommandOutput, ProcessDeath>> {
        let running = self.running()?;
        match running.ask(args) {
            Ok(answer) => Ok(Ok(answer)),
            Err(_) => {
                let death = running.guard.ended()?;
                self.running = None;
                Ok(Err(death))
            }
        }
    }

    /// Starts measuring memory.
    pub(crate) fn mark(&mut self) -> Result<()> {
        let pid = self.running()?.guard.pid;
        // This resets the high-water mark. Where it is not allowed, the maximum over all cases so far is reported.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Ok(())
    }

    /// Returns the memory use since [`mark`](Self::mark) above that of an idle process, in KiB. Ends a process that
    /// still uses more than `keep_kib`.
    pub(crate) fn over_kib(&mut self, keep_kib: u64) -> u64 {
        let Some(running) = &self.running else { return 0 };
        let over = |name| memory_kib(running.guard.pid, name).unwrap_or(0).saturating_sub(running.idle_kib);
        let (peak, left) = (over("VmHWM:"), over("VmRSS:"));
        if left > keep_kib {
            self.running = None;
        }
        peak
    }

    /// Returns what the process has written to standard error since the last call.
    pub(crate) fn said(&mut self) -> String {
        let Ok(len) = fs::metadata(&self.stderr).map(|there| there.len()) else { return String::new() };
        if len == self.seen {
            return String::new();
        }
        let text = fs::read(&self.stderr).unwrap_or_default();
        let new = text.get(self.seen as usize..).unwrap_or_default();
        self.seen = text.len() as u64;
        String::from_utf8_lossy(new).into_owned()
    }
}

impl RunningWorker {
    fn ask(&mut self, args: &[String]) -> Result<CommandOutput> {
        self.guard.begin();
        let mut line = serde_json::to_vec(args)?;
        line.push(b'\n');
        self.stdin.write_all(&line)?;
        let mut head = String::new();
        self.stdout.read_line(&mut head)?;
        let head: Value = serde_json::from_str(&head)?;
        let len = head["out"].as_u64().context("no length")?;
        let (mut left, mut hasher, mut out) = (len, Sha256::new(), Vec::new());
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let part = buffer.len().min(left as usize);
            self.stdout.read_exact(&mut buffer[..part])?;
            hasher.update(&buffer[..part]);
            out.extend_from_slice(&buffer[..part.min(MAX_OUTPUT_LEN - out.len().min(MAX_OUTPUT_LEN))]);
            left -= part as u64;
        }
        self.guard.end();
        let sha256 = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let rc = head["rc"].as_u64().context("no exit code")? as u8;
        let err = head["err"].as_str().unwrap_or_default().to_owned();
        Ok(CommandOutput { rc, err, out, len, sha256 })
    }
}

/// Returns a value of `/proc/PID/status`, in KiB.
fn memory_kib(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The result of a command in its own process.
#[derive(Clone, Debug)]
pub(crate) struct SeparateProcess {
    pub(crate) death: ProcessDeath,
    pub(crate) peak_kib: u64,
    pub(crate) stderr: String,
}

impl fmt::Display for SeparateProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} KiB {}", self.death, self.peak_kib, self.stderr.trim())
    }
}

/// Runs one command in its own process, without batch mode.
pub(crate) fn alone(setup: &WorkerSetup, args: &[String]) -> Result<SeparateProcess> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let errors = setup.folder.join("alone.stderr");
    let mut command = setup.command(&args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
    let guard = ProcessGuard::start(command.spawn().context("starting b2kit")?);
    guard.begin();
    let mut peak_kib = 0;
    let status = loop {
        peak_kib = peak_kib.max(memory_kib(guard.pid, "VmHWM:").unwrap_or(0));
        if let Some(status) = lock(&guard.child).try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_micros(300));
    };
    guard.done.store(true, Ordering::Relaxed);
    let death = ProcessDeath::of(status, guard.late.load(Ordering::Relaxed));
    let stderr = String::from_utf8_lossy(&fs::read(&errors)?).into_owned();
    Ok(SeparateProcess { death, peak_kib, stderr })
}
