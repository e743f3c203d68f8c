//! The threads of the process, and how many files it may have open.

use std::error::Error;
use std::io;

use anyhow::{Context, Result};

/// Starts the thread pool, which includes this thread. If the system cannot start any threads, this thread works alone.
pub(crate) fn begin(threads: usize) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread();
    match pool.build_global() {
        Err(error) if error.source().is_some_and(|cause| cause.is::<io::Error>()) => Ok(()),
        result => result.context("--threads"),
    }
}

/// Lets the process have as many open files as the system permits. Often 1,024 are allowed at first.
pub(crate) fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Ignore errors: opening too many files fails with its own message.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
