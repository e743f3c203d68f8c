//! Work over threads: a queue that workers take from, each with scratch of its own. The crates above use it
//! for blocks and chunks.

/// Below this many bytes a second thread costs more than it gives.
#[cfg(feature = "rayon")]
const MIN_PARALLEL: u64 = 256 * 1024;

/// Runs `work` on all items, on the current rayon pool when there is enough to do (`nbytes` handled in all).
/// What is computed does not depend on the number of threads, but for which error is reported when there are
/// several. Without feature `rayon` it is a plain loop.
///
/// # Errors
/// The first one that `state` or `work` return; items not yet begun are left out then.
pub fn for_each<T: Send, S, E: Send>(
    items: impl Iterator<Item = T> + Send,
    nbytes: u64,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    #[cfg(feature = "rayon")]
    if nbytes >= MIN_PARALLEL && items.size_hint().1 != Some(1) && rayon::current_num_threads() > 1 {
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
    let mut items = items.peekable();
    if items.peek().is_none() {
        return Ok(());
    }
    let mut state = state()?;
    items.try_for_each(|item| work(&mut state, item))
}
