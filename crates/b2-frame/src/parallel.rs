//! Work over threads: a queue that workers take from, each with scratch of its own.

use crate::FrameError;

/// Below this many bytes a second thread costs more than it gives.
#[cfg(feature = "rayon")]
const MIN_PARALLEL: u64 = 256 * 1024;

/// Runs `work` on all items, on the current rayon pool when there is enough to do. What is computed does not
/// depend on the number of threads.
pub(crate) fn for_each<T: Send, S>(
    items: Vec<T>,
    nbytes: u64,
    state: impl Fn() -> Result<S, FrameError> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), FrameError> + Sync,
) -> Result<(), FrameError> {
    #[cfg(feature = "rayon")]
    if nbytes >= MIN_PARALLEL && items.len() > 1 && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        let workers = rayon::current_num_threads().min(items.len());
        let queue = std::sync::Mutex::new(items.into_iter());
        let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        return (0..workers).into_par_iter().with_max_len(1).try_for_each(|_| {
            let Some(mut item) = next() else { return Ok(()) };
            let mut state = state()?;
            loop {
                work(&mut state, item)?;
                match next() {
                    Some(following) => item = following,
                    None => return Ok(()),
                }
            }
        });
    }
    #[cfg(not(feature = "rayon"))]
    let _ = nbytes;
    let mut state = state()?;
    items.into_iter().try_for_each(|item| work(&mut state, item))
}
