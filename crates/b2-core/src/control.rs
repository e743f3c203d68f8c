use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::sync::{Arc, Mutex};

use crate::{Cancelled, Pool};

/// Settings of a call: how many threads, which pool, and a callback that reports progress and can cancel.
///
/// Readers, writers, editors and parameters hold one and pass it to every call they make. Cloning is cheap. Results do
/// not depend on it.
///
/// ```
/// use std::ops::ControlFlow;
/// let control = b2_core::Control::new().threads(4).progress(|progress| {
///     eprintln!("{} of {} bytes", progress.nbytes, progress.total);
///     ControlFlow::Continue(())
/// });
/// # let _ = control;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Control {
    threads: Option<usize>,
    pool: Option<Pool>,
    executor: Option<Arc<dyn Executor>>,
    watch: Option<ProgressWatch>,
}

/// Runs jobs on threads that are not ours, for programs that bring their own.
#[doc(hidden)]
pub trait Executor: Send + Sync {
    /// Calls `job` `jobs` times, concurrently if possible, and returns when all calls have returned.
    fn run(&self, jobs: usize, job: &(dyn Fn() + Sync));
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Uncompressed bytes processed so far.
    pub nbytes: u64,
    /// Uncompressed bytes in total.
    pub total: u64,
    /// Item size in bytes; 1 if the data has no items.
    pub itemsize: u64,
}

impl Progress {
    /// Returns the number of items processed so far.
    pub fn items(&self) -> u64 {
        self.nbytes / self.itemsize.max(1)
    }
}

type Callback = Mutex<dyn FnMut(Progress) -> ControlFlow<()> + Send>;

#[derive(Clone)]
struct ProgressWatch {
    callback: Arc<Callback>,
    /// The running call.
    call: Option<Arc<CallProgress>>,
    /// Whether finished work is counted. False for parts of a call that does its own counting.
    counts: bool,
}

struct CallProgress {
    nbytes: AtomicU64,
    total: u64,
    itemsize: u64,
    stopped: AtomicBool,
}

impl Control {
    /// Returns the defaults: all threads of the pool, no callback.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of threads per call, including the calling one; 0 counts as 1.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads.max(1)), ..self }
    }

    /// Sets the pool whose threads help the calling one.
    pub fn pool(self, pool: Pool) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Sets a callback that reports the progress of each call. It cancels the call by returning [`ControlFlow::Break`].
    ///
    /// A cancelled call fails with an error of kind [`Cancelled`](crate::ErrorKind::Cancelled) and changes nothing.
    ///
    /// The callback runs after each piece of work (some blocks or a chunk), on any of the worker threads, but never on
    /// two concurrently. Work that finishes while it runs is reported by its next run, so a slow callback does not
    /// block other threads.
    pub fn progress(self, callback: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) -> Self {
        Self {
            watch: Some(ProgressWatch { callback: Arc::new(Mutex::new(callback)), call: None, counts: true }),
            ..self
        }
    }

    /// Returns the maximum number of threads per call.
    pub fn max_threads(&self) -> usize {
        self.threads.unwrap_or(usize::MAX)
    }

    /// Sets who runs the work on blocks, instead of a pool.
    #[doc(hidden)]
    pub fn executor(self, executor: Arc<dyn Executor>) -> Self {
        Self { executor: Some(executor), ..self }
    }

    pub(crate) fn shared_executor(&self) -> Option<&dyn Executor> {
        self.executor.as_deref()
    }

    /// Returns the pool, if one was set.
    #[cfg(feature = "rayon")]
    pub(crate) fn shared_pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Returns whether there is a callback.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Begins a call over `total` bytes and returns its control. `itemsize` is used by [`Progress::items`]. If a call
    /// has already begun, returns the control of that call.
    #[doc(hidden)]
    pub fn begin(&self, total: u64, itemsize: u64) -> Self {
        let mut control = self.clone();
        if let Some(watch) = &mut control.watch {
            watch.call.get_or_insert_with(|| {
                let (nbytes, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
                Arc::new(CallProgress { nbytes, total, itemsize, stopped })
            });
        }
        control
    }

    /// Returns a control for parts of a call that does its own counting: they can be cancelled, but are not counted.
    #[doc(hidden)]
    pub fn quiet(&self) -> Self {
        let mut control = self.clone();
        if let Some(watch) = &mut control.watch {
            watch.counts = false;
        }
        control
    }

    /// Returns a control with the same threads and no callback. Used for metadata, which is not part of the progress.
    #[doc(hidden)]
    pub fn unwatched(&self) -> Self {
        Self { watch: None, ..self.clone() }
    }

    /// Checks whether the call has been cancelled.
    ///
    /// # Errors
    /// [`Cancelled`] if so.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Cancelled> {
        match &self.watch {
            Some(ProgressWatch { call: Some(call), .. }) if call.stopped.load(Relaxed) => Err(Cancelled),
            _ => Ok(()),
        }
    }

    /// Counts `nbytes` more bytes as processed and runs the callback.
    ///
    /// # Errors
    /// [`Cancelled`] if the callback has cancelled the call.
    #[doc(hidden)]
    pub fn advance(&self, nbytes: u64) -> Result<(), Cancelled> {
        let Some(ProgressWatch { callback, call: Some(call), counts }) = &self.watch else { return Ok(()) };
        if *counts {
            call.nbytes.fetch_add(nbytes, Relaxed);
        }
        loop {
            // Pairs with the fence below: either this thread gets the lock, or its holder sees what was just counted.
            fence(SeqCst);
            // If the callback is running, do not wait: it may be this thread's own, reading through the library.
            let Ok(mut callback) = callback.try_lock() else { break };
            self.check()?;
            let CallProgress { total, itemsize, .. } = **call;
            let reported = call.nbytes.load(Relaxed);
            if callback(Progress { nbytes: reported, total, itemsize }).is_break() {
                call.stopped.store(true, Relaxed);
            }
            drop(callback);
            fence(SeqCst);
            // Report again if other threads have counted more in the meantime.
            if call.nbytes.load(Relaxed) == reported {
                break;
            }
        }
        self.check()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, pool, executor, watch } = self;
        let mut debug = f.debug_struct("Control");
        debug
            .field("threads", threads)
            .field("pool", pool)
            .field("executor", &executor.is_some())
            .field("watched", &watch.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_and_stops() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&seen);
        let control = Control::new().progress(move |progress| {
            tell.lock().unwrap().push((progress.nbytes, progress.items()));
            if progress.nbytes < 30 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // No call has begun.
        assert_eq!(control.advance(100), Ok(()));
        let call = control.begin(100, 4);
        assert_eq!((call.advance(10), call.quiet().advance(50), call.check()), (Ok(()), Ok(()), Ok(())));
        // These belong to the same call.
        assert_eq!(call.begin(7, 1).advance(20), Err(Cancelled));
        assert_eq!((call.check(), call.quiet().check()), (Err(Cancelled), Err(Cancelled)));
        assert_eq!(*seen.lock().unwrap(), [(10, 2), (10, 2), (30, 7)]);
        // The next call starts at 0.
        assert_eq!(control.begin(100, 4).advance(10), Ok(()));
    }

    #[test]
    fn what_is_done_while_the_callback_runs_is_told_after_it() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let slot = Arc::new(Mutex::new(None::<Control>));
        let (tell, other) = (Arc::clone(&seen), Arc::clone(&slot));
        let control = Control::new().progress(move |progress| {
            tell.lock().unwrap().push(progress.nbytes);
            // Acts like another thread that finishes work while the callback runs.
            if let Some(call) = other.lock().unwrap().take() {
                assert_eq!(call.advance(60), Ok(()));
            }
            if progress.nbytes < 60 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let call = control.begin(100, 1);
        *slot.lock().unwrap() = Some(call.clone());
        assert_eq!(call.advance(10), Err(Cancelled));
        assert_eq!(*seen.lock().unwrap(), [10, 70]);
    }

    #[test]
    fn nobody_watching_costs_nothing() {
        let call = Control::new().begin(5, 1);
        assert!(!call.is_watched());
        assert_eq!((call.advance(5), call.check()), (Ok(()), Ok(())));
        assert_eq!((call.max_threads(), Control::new().threads(0).max_threads()), (usize::MAX, 1));
    }
}
