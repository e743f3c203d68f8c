//! Thread pools that survive a fork of the process.
//!
//! A child process has only the thread that called fork, so work handed to a pool of the parent would wait for ever.
//! Each pool therefore remembers which process started its threads. In another process it starts new ones. It leaks the
//! old ones, because ending them would mean waiting for threads that do not exist.

#[cfg(feature = "rayon")]
pub(crate) use threads::Shared;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A pool of threads that help calls. Clones share the threads, which start at the first use.
///
/// If no pool is set in [`Control`](crate::Control), a call uses the rayon pool in which it runs, or else a pool shared
/// by the whole process. In a child process after a fork the pool starts new threads.
#[derive(Clone)]
pub struct Pool {
    nthreads: NonZeroUsize,
    #[cfg(feature = "rayon")]
    pub(crate) shared: Arc<Shared>,
    #[cfg(not(feature = "rayon"))]
    _shared: Arc<()>,
}

impl Pool {
    /// Creates a pool of `nthreads` threads; 0 counts as 1. The calling thread works in addition to them.
    pub fn new(nthreads: usize) -> Self {
        let nthreads = NonZeroUsize::new(nthreads).unwrap_or(NonZeroUsize::MIN);
        #[cfg(feature = "rayon")]
        return Self { nthreads, shared: Arc::new(Shared::new(nthreads.get())) };
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
    use std::mem::ManuallyDrop;

    use once_cell::race::OnceBox;
    use rayon::{ThreadPool, ThreadPoolBuilder};

    use crate::ProcessId;

    /// A linked list of thread pools, one for each process that used this pool: its creator, a child, a grandchild...
    pub(crate) struct Shared {
        /// 0 for rayon's default.
        nthreads: usize,
        first: Generation,
    }

    /// Initialised without locks, because a lock held during a fork stays locked in the child.
    struct Generation {
        threads: OnceBox<Threads>,
        next: OnceBox<Generation>,
    }

    struct Threads {
        process: ProcessId,
        /// `None` if threads could not be started.
        pool: ManuallyDrop<Option<ThreadPool>>,
    }

    /// The pool shared by the whole process.
    static SHARED: Shared = Shared { nthreads: 0, first: Generation::empty() };

    impl Generation {
        const fn empty() -> Self {
            Self { threads: OnceBox::new(), next: OnceBox::new() }
        }
    }

    impl Shared {
        pub(crate) fn new(nthreads: usize) -> Self {
            Self { nthreads, first: Generation::empty() }
        }

        pub(crate) fn of_process() -> &'static Self {
            &SHARED
        }

        /// Returns the threads of this process, or `None` if there are none and the caller has to work alone.
        pub(crate) fn threads(&self) -> Option<&ThreadPool> {
            let process = ProcessId::current();
            let mut generation = &self.first;
            loop {
                let threads =
                    generation.threads.get_or_init(|| Box::new(Threads::start(self.nthreads, process)));
                if threads.process == process {
                    return threads.pool.as_ref();
                }
                generation = generation.next.get_or_init(|| Box::new(Generation::empty()));
            }
        }
    }

    impl Threads {
        fn start(nthreads: usize, process: ProcessId) -> Self {
            let builder = ThreadPoolBuilder::new().num_threads(nthreads);
            let pool = builder.thread_name(|n| format!("b2kit-{n}")).build().ok();
            Self { process, pool: ManuallyDrop::new(pool) }
        }
    }

    impl Drop for Threads {
        fn drop(&mut self) {
            if self.process.is_current() {
                drop(self.pool.take());
            }
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
