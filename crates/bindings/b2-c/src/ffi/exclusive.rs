//! A value that one call at a time uses, and of which the others are told that it is in use.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value for whoever comes first. Unlike a mutex it never waits: a callback that runs on another thread while its caller holds
/// the value would wait for ever.
#[derive(Default)]
pub(crate) struct Exclusive<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: of all threads, one has the value at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value until the result is dropped. `None` if it is taken already, also by this thread.
    #[inline]
    pub(crate) fn take(&self) -> Option<Taken<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) { None } else { Some(Taken(self)) }
    }
}

/// A taken value.
pub(crate) struct Taken<'a, T>(&'a Exclusive<T>);

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one `Taken` at a time, since only the one whose swap found `false` made it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_has_the_value_at_a_time() {
        let value = Exclusive::new(0_u64);
        let worked = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if let Some(mut value) = value.take() {
                            *value += 1;
                            worked.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(*value.take().unwrap(), worked.into_inner());
    }

    #[test]
    fn who_has_it_does_not_get_it_again() {
        let value = Exclusive::new(1);
        let taken = value.take().unwrap();
        assert!(value.take().is_none());
        drop(taken);
        assert!(value.take().is_some());
    }
}
