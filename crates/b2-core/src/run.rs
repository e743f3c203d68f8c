//! Distributes work over threads: workers take items from a queue, each with its own state.

use std::sync::{Mutex, PoisonError};

use crate::{Cancelled, Control};

/// Runs `work` on all items, on the calling thread and, if there is enough to do, on idle threads of the pool.
///
/// At most `most` threads work, and no more than `control` allows. `nbytes` measures the work: the bytes that a fast
/// decoder would produce in the same time. Without feature `rayon` it is a plain loop.
///
/// Items are started in order. The results do not depend on the number of threads; if several items fail, which
/// error is returned does.
///
/// `work` gets the state of its thread. Items may be blocks of many chunks: the state can cache what belongs to the
/// current chunk (its decoder, for example) and replace it when another chunk begins.
///
/// # Errors
/// Returns the first error of `state` or `work`, or that the call was cancelled. Items that have not been started are
/// then skipped.
pub fn for_each<T: Send, S, E: Send + From<Cancelled>>(
    control: &Control,
    most: usize,
    items: impl Iterator<Item = T> + Send,
    nbytes: u64,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    control.check()?;
    if let Some(executor) = control.shared_executor()
        && let jobs @ 2.. = most.min(control.max_threads()).min(items.size_hint().1.unwrap_or(usize::MAX))
    {
        let work = |state: &mut S, item| {
            control.check()?;
            work(state, item)
        };
        return share(items, state, work, |job| executor.run(jobs, job));
    }
    #[cfg(feature = "rayon")]
    if let most @ 2.. = most.min(control.max_threads())
        && let Some(crew) = pool::HelperThreads::of(control, nbytes)
        && let helpers @ 1.. = crew.helpers(nbytes, items.size_hint().1).min(most - 1)
    {
        let work = |state: &mut S, item| {
            control.check()?;
            work(state, item)
        };
        return crew.for_each(items, helpers, state, work);
    }
    #[cfg(not(feature = "rayon"))]
    let _ = (nbytes, most);
    let mut items = items;
    let Some(first) = items.next() else { return Ok(()) };
    let mut state = state()?;
    work(&mut state, first)?;
    items.try_for_each(|item| {
        control.check()?;
        work(&mut state, item)
    })
}

/// Works on all items in each call of the job that `start` gets and calls on any threads.
fn share<T: Send, S, E: Send>(
    items: impl Iterator<Item = T> + Send,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
    start: impl FnOnce(&(dyn Fn() + Sync)),
) -> Result<(), E> {
    // The lock costs little compared with the work on an item. After an error the queue is `None`.
    let queue = Mutex::new(Some(items));
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || lock().as_mut().and_then(Iterator::next);
    let error = Mutex::new(None);
    start(&|| {
        let Some(mut item) = next() else { return };
        let take_all = || {
            let mut state = state()?;
            loop {
                work(&mut state, item)?;
                match next() {
                    Some(following) => item = following,
                    None => return Ok(()),
                }
            }
        };
        if let Err(e) = take_all() {
            *lock() = None;
            error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
    });
    error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Returns how many threads may work for `control`, including the calling one.
pub fn workers(control: &Control) -> usize {
    #[cfg(feature = "rayon")]
    return control
        .max_threads()
        .min(pool::HelperThreads::of(control, u64::MAX).map_or(1, |crew| crew.size()));
    #[cfg(not(feature = "rayon"))]
    return {
        _ = control;
        1
    };
}

#[cfg(feature = "rayon")]
pub(crate) use pool::HelperThreads;

/// Without feature `rayon` there are no helpers.
#[cfg(not(feature = "rayon"))]
#[derive(Clone, Copy)]
pub(crate) enum HelperThreads {}

#[cfg(not(feature = "rayon"))]
impl HelperThreads {
    pub(crate) fn of(_: &Control, _: u64) -> Option<Self> {
        None
    }
    pub(crate) fn helpers(self, _: u64, _: Option<usize>) -> usize {
        match self {}
    }
    pub(crate) fn work_in_scope(self, _: usize, _: &(dyn Fn(&dyn Fn()) + Sync)) {
        match self {}
    }
}

#[cfg(feature = "rayon")]
mod pool {
    use rayon::{Scope, ThreadPool};

    use crate::Control;
    use crate::pool::PoolThreads;

    /// Below this many bytes a second thread costs more than it saves: the work takes about 40 us, and waking a thread
    /// 5 to 10.
    const MIN_PARALLEL: u64 = 640 << 10;
    /// Threshold for callers outside the pool. They cannot take back work that no thread has started, and have to wait
    /// for a thread to wake up.
    const MIN_PARALLEL_OUTSIDE: u64 = 3 << 19;
    /// Minimum work per thread, in bytes.
    const MIN_PER_THREAD: u64 = 256 << 10;

    /// The threads that may help.
    #[derive(Clone, Copy)]
    pub(crate) enum HelperThreads<'a> {
        /// The calling thread belongs to a rayon pool; its other threads help.
        Current,
        Of(&'a ThreadPool),
    }

    impl<'a> HelperThreads<'a> {
        /// Returns `None` if there is too little work for helpers, or if there are no threads.
        pub(crate) fn of(control: &'a Control, nbytes: u64) -> Option<Self> {
            // For one thread the threads of the process are not started, either.
            if nbytes < MIN_PARALLEL || control.max_threads() < 2 {
                return None;
            }
            let inside = rayon::current_thread_index().is_some();
            match control.shared_pool() {
                // A thread of this pool takes back work that no other thread has started.
                Some(pool) => match pool.shared.threads()? {
                    threads if threads.current_thread_index().is_some() => Some(Self::Current),
                    threads => (nbytes >= MIN_PARALLEL_OUTSIDE).then_some(Self::Of(threads)),
                },
                None if inside => Some(Self::Current),
                None if nbytes < MIN_PARALLEL_OUTSIDE => None,
                None => PoolThreads::of_process().threads().map(Self::Of),
            }
        }

        /// Returns how many threads can work, including the calling one.
        pub(crate) fn size(self) -> usize {
            match self {
                Self::Current => rayon::current_num_threads(),
                Self::Of(threads) => threads.current_num_threads(),
            }
        }

        /// Returns how many threads to ask for help.
        pub(crate) fn helpers(self, nbytes: u64, nitems: Option<usize>) -> usize {
            if nitems.is_some_and(|n| n < 2) {
                return 0;
            }
            let most = (nbytes / MIN_PER_THREAD).min(nitems.unwrap_or(usize::MAX) as u64);
            self.size().min(most.try_into().unwrap_or(usize::MAX)).saturating_sub(1)
        }

        /// Runs `work` on the calling thread and on `helpers` others. It gets a function that asks for one more thread.
        pub(crate) fn work_in_scope(self, helpers: usize, work: &(dyn Fn(&dyn Fn()) + Sync)) {
            fn start<'scope>(scope: &Scope<'scope>, work: &'scope (dyn Fn(&dyn Fn()) + Sync)) {
                scope.spawn(move |scope| work(&|| start(scope, work)));
            }
            self.scope(|scope| {
                (0..helpers).for_each(|_| start(scope, work));
                work(&|| start(scope, work));
            });
        }

        fn scope<'scope>(self, work: impl FnOnce(&Scope<'scope>)) {
            match self {
                Self::Current => rayon::in_place_scope(work),
                Self::Of(threads) => threads.in_place_scope(work),
            }
        }
    }

    impl HelperThreads<'_> {
        pub(crate) fn for_each<T: Send, S, E: Send>(
            self,
            items: impl Iterator<Item = T> + Send,
            helpers: usize,
            state: impl Fn() -> Result<S, E> + Sync,
            work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
        ) -> Result<(), E> {
            super::share(items, state, work, |job| {
                self.scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|_| job());
                    }
                    job();
                });
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Pool;

    #[derive(Debug, PartialEq)]
    enum Failure {
        Of(usize),
        Cancelled,
    }

    impl From<Cancelled> for Failure {
        fn from(_: Cancelled) -> Self {
            Self::Cancelled
        }
    }

    fn controls() -> [Control; 3] {
        [Control::new(), Control::new().threads(1), Control::new().pool(Pool::new(3))]
    }

    /// Runs jobs on threads of the test.
    struct TestExecutor(AtomicUsize);

    impl crate::Executor for TestExecutor {
        fn run(&self, jobs: usize, job: &(dyn Fn() + Sync)) {
            self.0.fetch_add(jobs, Ordering::Relaxed);
            std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(job))));
        }
    }

    #[test]
    fn an_executor_gets_the_work_where_several_threads_may_work() {
        for (threads, jobs) in [(1, 0), (3, 3), (100, 10)] {
            let own = std::sync::Arc::new(TestExecutor(AtomicUsize::new(0)));
            let control = Control::new().threads(threads).executor(own.clone());
            let done = AtomicUsize::new(0);
            for_each(
                &control,
                usize::MAX,
                0..10,
                1,
                || Ok::<_, Failure>(()),
                |(), n| {
                    done.fetch_add(n, Ordering::Relaxed);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!((done.into_inner(), own.0.load(Ordering::Relaxed)), (45, jobs));
            let failed = for_each(
                &control,
                usize::MAX,
                0..10,
                1,
                || Ok(()),
                |(), n| match n {
                    7 => Err(Failure::Of(n)),
                    _ => Ok(()),
                },
            );
            assert_eq!(failed, Err(Failure::Of(7)));
        }
    }

    #[test]
    fn every_item_is_worked_on_once() {
        for control in controls() {
            for nbytes in [0, u64::MAX] {
                let mut done = vec![0; 1000];
                let count = |(): &mut (), slot: &mut i32| {
                    *slot += 1;
                    Ok(())
                };
                for_each(&control, usize::MAX, done.iter_mut(), nbytes, || Ok::<_, Failure>(()), count)
                    .unwrap();
                assert!(done.iter().all(|&n| n == 1));
            }
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        for control in controls() {
            let run =
                |items: std::ops::Range<usize>, nbytes, state: Result<(), usize>, count: &AtomicUsize| {
                    let work = |(): &mut (), n| {
                        count.fetch_add(1, Ordering::Relaxed);
                        if n == 100 { Err(Failure::Of(n)) } else { Ok(()) }
                    };
                    for_each(&control, usize::MAX, items, nbytes, || state.map_err(Failure::Of), work)
                };
            for nbytes in [0, u64::MAX] {
                let count = AtomicUsize::new(0);
                assert_eq!(run(0..usize::MAX, nbytes, Ok(()), &count), Err(Failure::Of(100)));
                assert!(count.into_inner() > 100);
            }
            let count = AtomicUsize::new(0);
            assert_eq!(run(0..9, u64::MAX, Err(7), &count), Err(Failure::Of(7)));
            assert_eq!(run(0..0, u64::MAX, Err(7), &count), Ok(()));
        }
    }

    #[test]
    fn a_stopped_call_begins_nothing_more() {
        for control in controls() {
            for nbytes in [0, u64::MAX] {
                let stop = |progress: crate::Progress| match progress.nbytes {
                    ..10 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                };
                let control = control.clone().progress(stop).begin(1000, 1);
                let count = AtomicUsize::new(0);
                let work = |(): &mut (), _| {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(control.advance(1)?)
                };
                let result = for_each(&control, 4, 0..1000, nbytes, || Ok::<_, Failure>(()), work);
                assert_eq!(result, Err(Failure::Cancelled));
                assert!((10..20).contains(&count.into_inner()));
            }
        }
    }
}
