//! Handles Ctrl-C, TERM, HUP and QUIT while files are written: the change is undone and temporary files are removed.
//!
//! The work is stopped from inside, by the library's [`Control`] and by [`check`], so that everything is dropped in
//! order. A separate thread that removes files could interfere with a commit between two renames. While nothing is
//! being written, a signal ends the process immediately, as it would without this module.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};

use anyhow::Result;
use b2kit::base::Control;

use crate::print::thousands;

/// Number of the signal that asked to stop; 0: none.
static STOPPED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// Whether there is nothing to undo.
static IDLE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Number of files that this command has written or changed, and how many it was given; 0: one, or unknown.
static DONE: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The work was stopped by a signal. What was being written is undone; files that were complete stay.
#[derive(Debug, thiserror::Error)]
pub(crate) struct StoppedBySignal;

impl fmt::Display for StoppedBySignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize| thousands(n as u64);
        match (DONE.load(Ordering::SeqCst), ASKED.load(Ordering::SeqCst)) {
            (0, _) => f.write_str("stopped; nothing was changed"),
            (done, asked) if asked > done => {
                write!(f, "stopped after {} of {} files; these are complete, ", count(done), count(asked))?;
                f.write_str("the others were not changed")
            }
            (done, _) => {
                let files = if done == 1 { "file, which is" } else { "files, which are" };
                write!(f, "stopped after {} {files} complete", count(done))
            }
        }
    }
}

/// Resets the counters for a new command.
pub(crate) fn reset() {
    expect(0);
    DONE.store(0, Ordering::SeqCst);
}

/// Sets the number of files that the command was given.
pub(crate) fn expect(files: usize) {
    ASKED.store(files, Ordering::SeqCst);
}

/// Counts a file that was written or changed for good.
pub(crate) fn done() {
    DONE.fetch_add(1, Ordering::SeqCst);
}

/// Makes signals stop the work instead of the process. Call it when all input that may block has arrived.
pub(crate) fn begin() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(listen);
    IDLE.store(false, Ordering::SeqCst);
}

/// Makes signals end the process immediately again.
pub(crate) fn end() {
    IDLE.store(true, Ordering::SeqCst);
}

/// Marks the work as complete and its result as final. A signal received before is ignored; a later one ends the
/// process immediately.
pub(crate) fn too_late() {
    end();
    STOPPED.store(0, Ordering::SeqCst);
}

/// The exit code of a process that was asked to stop: 130 after Ctrl-C.
pub(crate) fn exit_code() -> Option<u8> {
    let signal = STOPPED.load(Ordering::SeqCst);
    (signal != 0).then(|| u8::try_from(128 + signal).unwrap_or(1))
}

/// Fails if a signal has asked to stop.
pub(crate) fn check() -> Result<(), StoppedBySignal> {
    if STOPPED.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(StoppedBySignal) }
}

/// Stops calls of the library as soon as a signal asks to.
pub(crate) fn control() -> Control {
    Control::new().progress(|_| match check() {
        Ok(()) => ControlFlow::Continue(()),
        Err(StoppedBySignal) => ControlFlow::Break(()),
    })
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail, instead of ending the process in the middle of it.
pub(crate) fn ignore_file_size() {
    #[cfg(unix)]
    {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // With any handler the write fails instead. If none can be installed, the process ends as usual.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
        });
    }
}

/// Installs handlers that need no thread, which would take tens of megabytes of address space.
#[cfg(unix)]
fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_shutdown, register_usize};

    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal)) {
        let again = Arc::new(AtomicBool::new(false));
        // Handlers run in this order: the first signal sets the flags, a second one ends the process.
        let registered = register_conditional_shutdown(signal, 128 + signal, Arc::clone(&IDLE))
            .and_then(|_| register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again)))
            .and_then(|_| register_usize(signal, Arc::clone(&STOPPED), signal.unsigned_abs() as usize))
            .and_then(|_| register(signal, again));
        // Ignore errors: without handlers a signal ends the process as usual, and leaves temporary files.
        let _ = registered;
    }
}

/// Whether the process was started with this signal ignored, as by `nohup`.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        // Unknown: assume that HUP is ignored, since `nohup` must work.
        return signal == signal_hook::consts::SIGHUP;
    };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn listen() {}
