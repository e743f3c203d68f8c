//! The threads of the process.

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
