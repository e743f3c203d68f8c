use std::fmt;

use once_cell::race::OnceBox;

/// Identifies the process that owns a resource.
///
/// After a fork the child has copies of all values, but not the other threads, and files on disk still belong to the
/// parent. So the child must not wait for threads, and must not roll back or remove files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(u32);

impl ProcessId {
    /// Returns the id of this process. Takes one system call.
    pub fn current() -> Self {
        // On wasm there is only one process.
        Self(if cfg!(all(target_family = "wasm", target_os = "unknown")) { 0 } else { std::process::id() })
    }

    /// Returns whether this is still the same process: `false` in a child after a fork.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}

/// A value of which each process has its own, such as threads or connections.
///
/// After a fork the child makes a new one, and never drops that of its parent: dropping it could mean waiting for
/// threads that do not exist, or ending connections that the parent still uses.
pub struct PerProcess<T>(Generation<T>);

/// The value of one process, followed by that of its child.
///
/// Initialised without locks, because a lock held during a fork stays locked in the child.
struct Generation<T> {
    made: OnceBox<ProcessValue<T>>,
    next: OnceBox<Self>,
}

struct ProcessValue<T> {
    process: ProcessId,
    value: Option<T>,
}

impl<T> PerProcess<T> {
    /// Creates it without a value.
    pub const fn new() -> Self {
        Self(Generation::empty())
    }

    /// Creates it with a value that looks like the parent's, as in a child after a fork; for tests.
    #[doc(hidden)]
    pub fn inherited(value: T) -> Self {
        let this = Self::new();
        let process = ProcessId(ProcessId::current().0 ^ 1);
        let _ = this.0.made.set(Box::new(ProcessValue { process, value: Some(value) }));
        this
    }

    /// Returns the value of this process. If there is none yet, `make` creates it; its argument is the value of the
    /// parent process, if that has one.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_try_init<E>(&self, make: impl Fn(Option<&T>) -> Result<T, E>) -> Result<&T, E> {
        let process = ProcessId::current();
        let (mut generation, mut parent) = (&self.0, None);
        loop {
            let made = match generation.made.get() {
                Some(made) => made,
                None => {
                    let value = Some(make(parent)?);
                    generation.made.get_or_init(|| Box::new(ProcessValue { process, value }))
                }
            };
            match &made.value {
                Some(value) if made.process == process => return Ok(value),
                value => parent = value.as_ref(),
            }
            generation = generation.next.get_or_init(|| Box::new(Generation::empty()));
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

impl<T> Generation<T> {
    const fn empty() -> Self {
        Self { made: OnceBox::new(), next: OnceBox::new() }
    }
}

impl<T> Drop for ProcessValue<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_makes_its_value_once() {
        let numbers = PerProcess::new();
        assert!(numbers.get_or_try_init(|_| Err("not today")).is_err());
        for n in [7, 8] {
            let earlier = |parent: Option<&u32>| match parent {
                None => Ok::<_, &str>(n),
                Some(_) => Err("there is no parent's value"),
            };
            assert_eq!(numbers.get_or_try_init(earlier), Ok(&7));
        }
    }
}
