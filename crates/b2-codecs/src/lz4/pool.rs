//! Tables kept by each thread from one encoder to the next, so that an encoder for each chunk costs little.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// What can be kept. Whoever takes it must not depend on what it holds.
pub(super) trait Reusable: Sized + 'static {
    fn make() -> Self;
    /// Where the thread keeps one.
    fn slot() -> &'static LocalKey<Cell<Option<Box<Self>>>>;
}

/// One of the thread's, given back when dropped.
pub(super) struct Pooled<T: Reusable>(Option<Box<T>>);

impl<T: Reusable> Pooled<T> {
    pub(super) fn take() -> Self {
        Self(Some(T::slot().take().unwrap_or_else(|| Box::new(T::make()))))
    }
}

impl<T: Reusable> Drop for Pooled<T> {
    fn drop(&mut self) {
        // There may be no place any more while the thread ends.
        let _ = T::slot().try_with(|slot| slot.set(self.0.take()));
    }
}

impl<T: Reusable> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("there until dropped")
    }
}

impl<T: Reusable> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("there until dropped")
    }
}
