//! Work over threads: a queue that workers take from, each with state of its own. The crates above use it for blocks
//! and chunks.

/// Runs `work` on all items, on the calling thread and, when there is enough to do, on idle threads of the current
/// rayon pool too. `nbytes` tells how much work it is: the bytes that a fast decoder would produce in the same time.
/// Items are begun in their order. What is computed does not depend on the number of threads, but for which error is
/// reported when there are several. Without feature `rayon` it is a plain loop.
///
/// Items may be blocks of many chunks: `work` gets the state of its thread, which can keep what belongs to the chunk of
/// the item before (its [`BlockDecoder`](crate::BlockDecoder), say) and make it anew when another chunk begins.
///
/// # Errors
/// The first one that `state` or `work` return; items not yet begun are left out then.
pub fn for_each<T: Send, S, E: Send>(
    items: impl Iterator<Item = T> + Send,
    nbytes: u64,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    for_each_on(usize::MAX, items, nbytes, state, work)
}

/// As [`for_each`], on at most `threads` threads, the calling one included:
/// [`Limits::threads`](crate::Limits::threads) tells how many may be at work.
///
/// # Errors
/// As [`for_each`].
pub fn for_each_on<T: Send, S, E: Send>(
    threads: usize,
    items: impl Iterator<Item = T> + Send,
    nbytes: u64,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    #[cfg(feature = "rayon")]
    if threads > 1
        && let helpers @ 1.. = pool::helpers(nbytes, items.size_hint().1).min(threads - 1)
    {
        return pool::for_each(items, helpers, state, work);
    }
    #[cfg(not(feature = "rayon"))]
    let _ = (nbytes, threads);
    let mut items = items;
    let Some(first) = items.next() else { return Ok(()) };
    let mut state = state()?;
    work(&mut state, first)?;
    items.try_for_each(|item| work(&mut state, item))
}

#[cfg(feature = "rayon")]
mod pool {
    use std::sync::{Mutex, PoisonError};

    /// Below this many bytes a second thread costs more than it gives: about 40 us of work, of which waking a thread
    /// takes 5 to 10.
    const MIN_PARALLEL: u64 = 640 << 10;
    /// The same for a caller that is no thread of the pool: it cannot take back what no thread has begun when its own
    /// work is done, and waits for one to wake up.
    const MIN_PARALLEL_OUTSIDE: u64 = 3 << 19;
    /// Each thread has to have this much to do.
    const MIN_PER_THREAD: u64 = 256 << 10;

    /// How many threads to ask for help.
    pub(super) fn helpers(nbytes: u64, nitems: Option<usize>) -> usize {
        if nbytes < MIN_PARALLEL || nitems.is_some_and(|n| n < 2) {
            return 0;
        }
        if nbytes < MIN_PARALLEL_OUTSIDE && rayon::current_thread_index().is_none() {
            return 0;
        }
        let most = (nbytes / MIN_PER_THREAD).min(nitems.unwrap_or(usize::MAX) as u64);
        rayon::current_num_threads().min(most.try_into().unwrap_or(usize::MAX)).saturating_sub(1)
    }

    pub(super) fn for_each<T: Send, S, E: Send>(
        items: impl Iterator<Item = T> + Send,
        helpers: usize,
        state: impl Fn() -> Result<S, E> + Sync,
        work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        // Taking the lock is nothing beside the work on an item. After an error the queue is gone.
        let queue = Mutex::new(Some(items));
        let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || lock().as_mut().and_then(Iterator::next);
        let error = Mutex::new(None);
        let run = || {
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
        };
        rayon::in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| run());
            }
            run();
        });
        error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::for_each;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_item_is_worked_on_once() {
        for nbytes in [0, u64::MAX] {
            let mut done = vec![0; 1000];
            for_each(
                done.iter_mut(),
                nbytes,
                || Ok::<_, ()>(()),
                |(), slot| {
                    *slot += 1;
                    Ok(())
                },
            )
            .unwrap();
            assert!(done.iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        for nbytes in [0, u64::MAX] {
            let count = AtomicUsize::new(0);
            let result = for_each(
                0..usize::MAX,
                nbytes,
                || Ok(()),
                |(), n| {
                    count.fetch_add(1, Ordering::Relaxed);
                    if n == 100 { Err(n) } else { Ok(()) }
                },
            );
            assert_eq!(result, Err(100));
            assert!(count.into_inner() > 100);
        }
        assert_eq!(for_each(0..9, u64::MAX, || Err::<(), _>(7), |(), _| Ok(())), Err(7));
        assert_eq!(for_each(0..0, u64::MAX, || Err::<(), _>(7), |(), _| Ok(())), Ok(()));
    }
}
