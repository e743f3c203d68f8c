//! Blocks over threads: a queue that workers take from, each with scratch of its own.

use crate::ChunkError;

/// Below this many bytes a second thread costs more than it gives.
#[cfg(feature = "rayon")]
const MIN_PARALLEL: usize = 256 * 1024;

/// Runs `work` on all items, on the current rayon pool when there is enough to do. The result does not
/// depend on the number of threads, but for which error is reported when there are several.
pub(crate) fn for_each_block<T: Send, S>(
    items: impl Iterator<Item = T> + Send,
    nbytes: usize,
    state: impl Fn() -> Result<S, ChunkError> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), ChunkError> + Sync,
) -> Result<(), ChunkError> {
    #[cfg(feature = "rayon")]
    if nbytes >= MIN_PARALLEL && rayon::current_num_threads() > 1 {
        use rayon::prelude::*;
        let queue = std::sync::Mutex::new(items);
        let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        return (0..rayon::current_num_threads()).into_par_iter().with_max_len(1).try_for_each(|_| {
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
