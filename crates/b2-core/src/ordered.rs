//! Makes results on several threads and hands them over in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::run::HelperThreads;
use crate::{Cancelled, Control};

/// Makes a result from each item in parallel. `each` receives the results in the order of the items, on any thread,
/// while others are still being made.
///
/// At most `most` threads work; `nbytes` measures the work as in [`for_each`](crate::for_each). At most `ahead` items
/// are begun or waiting to be handed over at a time, but always as many as there are threads. A thread that may not
/// begin another item stops working here instead of waiting, because a waiting thread of a pool could be the one that
/// others wait for.
///
/// # Errors
/// Returns the first error of `make` or `each`, or that the call was cancelled. Nothing is handed over after an error.
pub fn in_order<T: Send, R: Send, E: Send + From<Cancelled>>(
    control: &Control,
    most: usize,
    nbytes: u64,
    ahead: usize,
    items: impl Iterator<Item = T> + Send,
    make: impl Fn(T) -> Result<R, E> + Sync,
    mut each: impl FnMut(R) -> Result<(), E> + Send,
) -> Result<(), E> {
    control.check()?;
    let most = most.min(control.max_threads()).saturating_sub(1);
    let helpers = |crew: HelperThreads| crew.helpers(nbytes, items.size_hint().1).min(most);
    let crew = HelperThreads::of(control, nbytes).map(|crew| (crew, helpers(crew)));
    let Some((crew, helpers @ 1..)) = crew else {
        for item in items {
            control.check()?;
            each(make(item)?)?;
        }
        return Ok(());
    };
    let line = Pipeline {
        state: Mutex::new(PipelineState {
            items: Some(items),
            begun: 0,
            made: VecDeque::new(),
            handed_over: 0,
            stopped: 0,
            error: None,
        }),
        ahead: ahead.max(helpers + 1) as u64,
        make: |item| {
            control.check()?;
            make(item)
        },
        each: Mutex::new(each),
    };
    crew.work_in_scope(helpers, &|more| line.work(more));
    match line.state.into_inner().unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct Pipeline<I, R, E, M, C> {
    state: Mutex<PipelineState<I, R, E>>,
    ahead: u64,
    make: M,
    each: Mutex<C>,
}

struct PipelineState<I, R, E> {
    /// `None` after an error.
    items: Option<I>,
    /// Number of items begun.
    begun: u64,
    /// Results that wait to be handed over, from number `handed_over` on.
    made: VecDeque<Option<R>>,
    /// Number of results that were handed over, or are being handed over.
    handed_over: u64,
    /// Number of threads that stopped because too many results were ahead.
    stopped: usize,
    error: Option<E>,
}

impl<I: Iterator, R, E, M: Fn(I::Item) -> Result<R, E>, C: FnMut(R) -> Result<(), E>>
    Pipeline<I, R, E, M, C>
{
    fn lock(&self) -> MutexGuard<'_, PipelineState<I, R, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until nothing is left to begin. `more` asks for another thread.
    fn work(&self, more: &dyn Fn()) {
        loop {
            let (number, item) = {
                let mut state = self.lock();
                if state.begun - state.handed_over >= self.ahead {
                    state.stopped += 1;
                    return;
                }
                let Some(item) = state.items.as_mut().and_then(Iterator::next) else { return };
                state.begun += 1;
                (state.begun - 1, item)
            };
            match (self.make)(item) {
                Ok(result) => {
                    self.lock().put(number, result);
                    self.hand_over(more);
                }
                Err(error) => self.lock().fail(error),
            }
        }
    }

    /// Hands over all results that are ready, unless another thread is doing that.
    fn hand_over(&self, more: &dyn Fn()) {
        // That thread checks once more after releasing the lock, so no result is left behind.
        while self.lock().is_ready() {
            let Ok(mut each) = self.each.try_lock() else { return };
            loop {
                let (result, wanted) = {
                    let mut state = self.lock();
                    let Some(result) = state.take() else { break };
                    (result, std::mem::take(&mut state.stopped))
                };
                if let Err(error) = each(result) {
                    // Record the error before releasing `each`: another thread would hand over the next result.
                    self.lock().fail(error);
                    return;
                }
                (0..wanted).for_each(|_| more());
            }
        }
    }
}

impl<I, R, E> PipelineState<I, R, E> {
    fn put(&mut self, number: u64, result: R) {
        if self.error.is_some() {
            return;
        }
        // No more than `ahead` results wait.
        let at = (number - self.handed_over) as usize;
        while self.made.len() <= at {
            self.made.push_back(None);
        }
        self.made[at] = Some(result);
    }

    fn fail(&mut self, error: E) {
        self.items = None;
        self.made.clear();
        self.error.get_or_insert(error);
    }

    fn is_ready(&self) -> bool {
        matches!(self.made.front(), Some(Some(_)))
    }

    fn take(&mut self) -> Option<R> {
        if !self.is_ready() {
            return None;
        }
        self.handed_over += 1;
        self.made.pop_front().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Pool, for_each};

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

    fn controls() -> [Control; 4] {
        [
            Control::new(),
            Control::new().threads(1),
            Control::new().pool(Pool::new(3)),
            Control::new().pool(Pool::new(8)).threads(3),
        ]
    }

    /// Takes longer for some items than for others.
    fn work(k: usize) {
        let steps = if k.is_multiple_of(7) { 20_000 } else { 10 };
        std::hint::black_box((0..steps).fold(k, |a, b| a.wrapping_mul(31) ^ b));
    }

    #[test]
    fn results_come_in_order_and_few_are_ahead() {
        for control in controls() {
            for (ahead, nbytes) in [(1, u64::MAX), (5, u64::MAX), (5, 0)] {
                let (begun, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let mut got = Vec::new();
                let make = |k: usize| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    work(k);
                    Ok::<_, Failure>(k)
                };
                let each = |k| {
                    most.fetch_max(begun.load(Ordering::SeqCst) - got.len(), Ordering::SeqCst);
                    got.push(k);
                    Ok(())
                };
                in_order(&control, usize::MAX, nbytes, ahead, 0..2000, make, each).unwrap();
                assert!(got.iter().copied().eq(0..2000));
                // The result being handed over no longer counts.
                let threads = control.max_threads().min(crate::workers(&control)).max(1);
                let most = most.into_inner();
                assert!(most <= ahead.max(threads) + 1, "{most} with {ahead}");
            }
        }
    }

    #[test]
    fn parallel_work_inside_does_not_lock_up() {
        for control in controls() {
            let mut sum = 0;
            let make = |k: usize| {
                let inner = AtomicUsize::new(0);
                for_each(
                    &control,
                    usize::MAX,
                    0..20,
                    u64::MAX,
                    || Ok::<_, Failure>(()),
                    |(), j| {
                        work(j);
                        inner.fetch_add(k, Ordering::Relaxed);
                        Ok(())
                    },
                )?;
                Ok(inner.into_inner())
            };
            let each = |k| {
                sum += k;
                Ok::<_, Failure>(())
            };
            in_order(&control, usize::MAX, u64::MAX, 2, 0..300, make, each).unwrap();
            assert_eq!(sum, 20 * (0..300).sum::<usize>());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let bad = [(100, usize::MAX), (usize::MAX, 100)];
        // It is rare that another thread is about to hand over at the moment of the error.
        for control in controls() {
            for (bad, bad_each) in bad.repeat(500) {
                let mut got = 0;
                let make = |k: usize| if k == bad { Err(Failure::Of(k)) } else { Ok(k) };
                let each = |k| {
                    assert_eq!(k, got);
                    got += 1;
                    if k == bad_each { Err(Failure::Of(k)) } else { Ok(()) }
                };
                let result = in_order(&control, usize::MAX, u64::MAX, 4, 0..usize::MAX, make, each);
                assert_eq!(result, Err(Failure::Of(100)));
                assert!(got <= 101);
            }
        }
    }

    #[test]
    fn a_stopped_call_begins_nothing_more() {
        for control in controls() {
            let stop = |progress: crate::Progress| match progress.nbytes {
                ..10 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            };
            let control = control.clone().progress(stop).begin(1000, 1);
            let begun = AtomicUsize::new(0);
            let make = |_| {
                begun.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failure>(())
            };
            let result =
                in_order(&control, usize::MAX, u64::MAX, 4, 0..1000, make, |()| Ok(control.advance(1)?));
            assert_eq!(result, Err(Failure::Cancelled));
            assert!((10..30).contains(&begun.into_inner()));
        }
    }
}
