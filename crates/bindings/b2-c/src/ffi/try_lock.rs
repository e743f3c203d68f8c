//! A value that one call at a time can use; others fail instead of waiting.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A try-lock. Unlike a mutex it never waits: a callback on another thread would otherwise wait forever for its caller.
#[derive(Default)]
pub(crate) struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only one thread has access at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Locks the value until the result is dropped; `None` if it is locked already, even by this thread.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) { None } else { Some(TryLockGuard(self)) }
    }
}

/// A locked value.
pub(crate) struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one `TryLockGuard` at a time, since only the call whose swap returned `false` creates it.
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
