//! Stops the run when one of our own cases does not come to an end: a hang must not look like a slow machine.

use std::process;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A case takes milliseconds; the longest known ones take a second.
const LIMIT: Duration = Duration::from_secs(180);

/// What is being worked on, by whichever thread.
static CURRENT: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

/// Work on a case, until dropped.
pub(crate) struct Work(String);

/// Notes that work on `id` begins.
pub(crate) fn enter(id: &str) -> Work {
    lock().push((id.to_owned(), Instant::now()));
    Work(id.to_owned())
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut current = lock();
        if let Some(at) = current.iter().position(|(id, _)| *id == self.0) {
            current.swap_remove(at);
        }
    }
}

/// Starts watching.
pub(crate) fn start(seed: u64) {
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(5));
            if let Some((id, _)) = lock().iter().find(|(_, since)| since.elapsed() > LIMIT) {
                println!("case {id} of --seed {seed} hangs in this project's code; giving up");
                process::exit(1);
            }
        }
    });
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(String, Instant)>> {
    CURRENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
