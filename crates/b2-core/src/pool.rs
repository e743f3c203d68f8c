//! Thread pools that survive a fork of the process.
//!
//! A child process has only the thread that called fork, so work handed to a pool of the parent would wait for ever.
//! In another process a pool therefore starts new threads.

#[cfg(feature = "rayon")]
pub(crate) use threads::PoolThreads;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A pool of threads that help calls. Clones share the threads, which start at the first use.
///
/// If no pool is set in [`Control`](crate::Control), a call uses the rayon pool in which it runs, or else a pool shared
/// by the whole process. In a child process after a fork the pool starts new threads.
///
/// A program whose `main` is in Rust should not fork while it starts or ends its own threads: Rust's standard library
/// (1.95) may then prevent any thread from starting in the child. C and Python programs are not affected.
#[derive(Clone)]
pub struct Pool {
    nthreads: NonZeroUsize,
    #[cfg(feature = "rayon")]
    pub(crate) shared: Arc<PoolThreads>,
    #[cfg(not(feature = "rayon"))]
    _shared: Arc<()>,
}

impl Pool {
    /// Creates a pool of `nthreads` threads; 0 counts as 1. The calling thread works in addition to them.
    pub fn new(nthreads: usize) -> Self {
        let nthreads = NonZeroUsize::new(nthreads).unwrap_or(NonZeroUsize::MIN);
        #[cfg(feature = "rayon")]
        return Self { nthreads, shared: Arc::new(PoolThreads::new(nthreads.get())) };
        #[cfg(not(feature = "rayon"))]
        return Self { nthreads, _shared: Arc::default() };
    }

    /// Returns the number of threads.
    pub fn nthreads(&self) -> usize {
        self.nthreads.get()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("nthreads", &self.nthreads).finish_non_exhaustive()
    }
}

#[cfg(feature = "rayon")]
mod threads {
    use std::convert::Infallible;

    use rayon::{ThreadPool, ThreadPoolBuilder};

    use crate::PerProcess;

    /// The threads of a pool.
    pub(crate) struct PoolThreads {
        /// 0 for rayon's default.
        nthreads: usize,
        /// `None` if threads could not be started.
        threads: PerProcess<Option<ThreadPool>>,
    }

    /// The pool shared by the whole process.
    static SHARED: PoolThreads = PoolThreads::new(0);

    impl PoolThreads {
        pub(crate) const fn new(nthreads: usize) -> Self {
            Self { nthreads, threads: PerProcess::new() }
        }

        pub(crate) fn of_process() -> &'static Self {
            &SHARED
        }

        /// Returns the threads of this process, or `None` if there are none and the caller has to work alone.
        pub(crate) fn threads(&self) -> Option<&ThreadPool> {
            let start = |_: Option<&Option<ThreadPool>>| {
                let builder = ThreadPoolBuilder::new().num_threads(self.nthreads);
                let pool = builder.thread_name(|n| format!("b2kit-{n}")).build().ok();
                // A thread that is starting holds a lock of the standard library for a moment. A child of a fork at that
                // moment can start no threads, so wait until all of these run.
                if let Some(pool) = &pool {
                    pool.broadcast(|_| ());
                }
                Ok::<_, Infallible>(pool)
            };
            let Ok(threads) = self.threads.get_or_try_init(start);
            threads.as_ref()
        }
    }
}

#[cfg(all(test, feature = "rayon"))]
mod tests {
    use super::*;

    #[test]
    fn clones_share_their_threads() {
        let pool = Pool::new(3);
        assert_eq!(pool.nthreads(), 3);
        let threads = pool.shared.threads().unwrap();
        assert_eq!(threads.current_num_threads(), 3);
        assert!(std::ptr::eq(threads, pool.clone().shared.threads().unwrap()));
        assert_eq!(Pool::new(0).nthreads(), 1);
    }
}
