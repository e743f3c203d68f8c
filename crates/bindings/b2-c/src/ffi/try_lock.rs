//! A value that one call at a time uses, and of which the others are told that it is in use.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value for whoever comes first. Unlike a mutex it never waits: a callback that runs on another thread while its caller holds
/// the value would wait for ever.
#[derive(Default)]
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: of all threads, one has the value at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value until the result is dropped. `None` if it is taken already, also by this thread.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) { None } else { Some(TryLockGuard(self)) }
    }
}

/// A taken value.
pub(crate) struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one `TryLockGuard` at a time, since only the one whose swap found `false` made it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
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
        let value = TryLock::new(0_u64);
        let worked = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if let Some(mut value) = value.try_lock() {
                            *value += 1;
                            worked.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(*value.try_lock().unwrap(), worked.into_inner());
    }

    #[test]
    fn second_try_lock_fails() {
        let value = TryLock::new(1);
        let taken = value.try_lock().unwrap();
        assert!(value.try_lock().is_none());
        drop(taken);
        assert!(value.try_lock().is_some());
    }
}
