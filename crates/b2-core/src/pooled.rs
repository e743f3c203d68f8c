//! Encoder and decoder states that each thread keeps for the next chunk.
//!
//! Every chunk needs an encoder or decoder, and creating one can cost as much as coding a stream: zstd and zlib
//! allocate and clear tables of hundreds of KiB.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// The storage of one thread for states of type `T`: a `static` in `thread_local!`.
type PooledStates<T> = LocalKey<RefCell<Vec<T>>>;

/// Maximum number of states kept. Nested work needs a second one, such as a postfilter that reads another chunk.
const MAX_CACHED_STATES: usize = 2;

/// A state that returns to a thread's pool when it is dropped: the pool of the thread that drops it.
pub struct Pooled<T: 'static> {
    /// `None` only during drop.
    state: Option<T>,
    pool: &'static PooledStates<T>,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<T> Pooled<T> {
    /// Takes a kept state that fits, or makes a new one.
    ///
    /// # Errors
    /// Returns the errors of `make`.
    pub fn take<E>(
        pool: &'static PooledStates<T>,
        fit: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Self, E> {
        let kept = pool.with_borrow_mut(|pool| {
            let at = pool.iter().rposition(fit)?;
            Some(pool.swap_remove(at))
        });
        let state = match kept {
            Some(state) => state,
            None => make()?,
        };
        Ok(Self { state: Some(state), pool })
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.state.as_ref().expect("the state is present until drop")
    }
}

impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.state.as_mut().expect("the state is present until drop")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        // During thread exit the thread-local may already be gone.
        let _ = self.pool.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            // Drop the oldest, so that states for parameters no longer in use do not stay.
            if pool.len() == MAX_CACHED_STATES {
                pool.remove(0);
            }
            pool.extend(self.state.take());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static NUMBERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }

    fn take(fit: u32) -> Pooled<u32> {
        Pooled::take(&NUMBERS, |&n| n == fit, || Ok::<_, ()>(fit)).unwrap()
    }

    #[test]
    fn states_come_back() {
        let (mut a, b) = (take(1), take(1));
        *a += 10;
        drop((a, b));
        assert_eq!(NUMBERS.with_borrow(Clone::clone), [11, 1]);
        let eleven = take(11);
        assert_eq!(*eleven, 11);
        drop([take(2), take(3), eleven]);
        assert_eq!(NUMBERS.with_borrow(Clone::clone), [3, 11]);
        std::thread::spawn(|| drop([take(5)])).join().unwrap();
        assert_eq!(NUMBERS.with_borrow(Clone::clone), [3, 11]);
    }
}
