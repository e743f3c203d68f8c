//! Stops the run if one of our own cases hangs, which could otherwise be mistaken for a slow machine.

use std::process;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for a case. Cases take milliseconds; the longest known ones take a second.
const CASE_TIMEOUT: Duration = Duration::from_secs(180);

/// The cases in progress, in all threads.
static CURRENT: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

/// Marks a case as in progress until it is dropped.
pub(crate) struct CaseInProgress(String);

/// Marks case `id` as in progress.
pub(crate) fn enter(id: &str) -> CaseInProgress {
    lock().push((id.to_owned(), Instant::now()));
    CaseInProgress(id.to_owned())
}

impl Drop for CaseInProgress {
    fn drop(&mut self) {
        let mut current = lock();
        if let Some(at) = current.iter().position(|(id, _)| *id == self.0) {
            current.swap_remove(at);
        }
    }
}

/// Starts the watchdog.
pub(crate) fn start(seed: u64) {
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(5));
            if let Some((id, _)) = lock().iter().find(|(_, since)| since.elapsed() > CASE_TIMEOUT) {
                println!("case {id} of --seed {seed} hangs in this project's code; giving up");
                process::exit(1);
            }
        }
    });
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(String, Instant)>> {
    CURRENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
