//! States of encoders and decoders, kept by each thread from one chunk to the next.
//!
//! Making a state costs up to as much as a stream does (zstd and zlib allocate and clear tables of hundreds of
//! KiB), and encoders and decoders are made for every chunk.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use crate::CodecError;
use crate::memory::OutOfMemory;

/// Where one thread keeps states of type `T`.
pub(crate) type Pool<T> = LocalKey<RefCell<Vec<T>>>;

/// States kept at most: nested work (a postfilter that reads another chunk, say) needs a second one.
const KEPT: usize = 2;

/// A state that goes back to its thread's pool in the end; on whichever thread that happens.
pub(crate) struct Pooled<T: 'static> {
    /// `None` only while dropping.
    state: Option<T>,
    pool: &'static Pool<T>,
}

impl<T> Pooled<T> {
    /// A kept state that is fit, or a new one.
    pub(crate) fn take(
        pool: &'static Pool<T>,
        fit: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, CodecError>,
    ) -> Result<Self, CodecError> {
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

    /// Any kept state, or a new one: where all of them do, whatever they hold.
    pub(crate) fn any(
        pool: &'static Pool<T>,
        make: impl FnOnce() -> Result<T, OutOfMemory>,
    ) -> Result<Self, OutOfMemory> {
        let state = match pool.with_borrow_mut(Vec::pop) {
            Some(state) => state,
            None => make()?,
        };
        Ok(Self { state: Some(state), pool })
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.state.as_ref().expect("there is a state until the end")
    }
}

impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.state.as_mut().expect("there is a state until the end")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        // While a thread ends there may be nothing to keep it in any more.
        let _ = self.pool.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            // The oldest goes, so that states for parameters no longer used do not stay.
            if pool.len() == KEPT {
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
        Pooled::take(&NUMBERS, |&n| n == fit, || Ok(fit)).unwrap()
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
