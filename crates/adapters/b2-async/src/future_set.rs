//! Futures that are polled together.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Futures of one type that are polled together. Each wake polls all of them, which is cheap for the few requests in
/// flight.
pub(crate) struct FutureSet<F>(Vec<Pin<Box<F>>>);

impl<F: Future> FutureSet<F> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, future: F) {
        self.0.push(Box::pin(future));
    }

    /// Waits for any of the futures; `None` if there are none.
    pub(crate) async fn next(&mut self) -> Option<F::Output> {
        poll_fn(|context| {
            if self.0.is_empty() {
                return Poll::Ready(None);
            }
            let mut done = None;
            for (i, future) in self.0.iter_mut().enumerate() {
                // The next call polls the remaining ones, and it follows immediately.
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    done = Some((i, output));
                    break;
                }
            }
            match done {
                Some((i, output)) => {
                    drop(self.0.swap_remove(i));
                    Poll::Ready(Some(output))
                }
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Polls all futures once, so that each starts or continues, and returns the outputs of those
    /// that are done.
    pub(crate) async fn ready(&mut self) -> Vec<F::Output> {
        let mut done = Vec::new();
        poll_fn(|context| {
            self.0.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Ready(output) => {
                    done.push(output);
                    false
                }
                Poll::Pending => true,
            });
            Poll::Ready(())
        })
        .await;
        done
    }
}
