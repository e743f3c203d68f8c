//! Encoder and decoder states, and buffers, that each thread keeps for the next chunk.
//!
//! Every chunk needs an encoder or decoder, and creating one can cost as much as coding a stream: zstd and zlib
//! allocate and clear tables of hundreds of KiB. Fresh memory for a buffer must be mapped page by page and zeroed, which
//! takes longer than decoding a block: without reuse, reading single items takes three times as long.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use bytes::Bytes;

use crate::OutOfMemory;
use crate::memory::zeroed;

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
        f.debug_struct("Pooled").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<T> Pooled<T> {
    /// Takes a matching cached state, or creates a new one.
    ///
    /// # Errors
    /// Returns the errors of `make`.
    pub fn take<E>(
        pool: &'static PooledStates<T>,
        fit: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Self, E> {
        let pooled = pool.with_borrow_mut(|pool| {
            let at = pool.iter().rposition(fit)?;
            Some(pool.swap_remove(at))
        });
        let state = match pooled {
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

/// Maximum number of buffers kept per thread.
const MAX_CACHED_BUFFERS: usize = 4;
/// Largest buffer that is kept, in bytes.
const MAX_CACHED_LEN: usize = 8 << 20;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with unspecified content. When dropped, it returns to the pool of the dropping thread.
#[derive(Debug)]
pub struct Buffer {
    /// At least `len` bytes. The bytes after `len` are left from an earlier use.
    buf: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Allocates a buffer of `len` bytes, or reuses one that is long enough.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough memory.
    pub fn new(len: u64) -> Result<Self, OutOfMemory> {
        let fits = |buf: &Vec<u8>| buf.len() as u64 >= len;
        let taken = POOL.with_borrow_mut(|pool| pool.iter().position(fits).map(|at| pool.swap_remove(at)));
        let buf = match taken {
            Some(buf) => buf,
            None => zeroed(usize::try_from(len).unwrap_or(usize::MAX))?,
        };
        // The buffer exists, so its length fits a usize.
        Ok(Self { buf, len: len as usize })
    }

    /// Converts the buffer into shared bytes. It returns to a pool when the last reference is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.buf);
        if buf.is_empty() || buf.len() > MAX_CACHED_LEN {
            return;
        }
        // During thread exit the thread-local may already be gone.
        let _ = POOL.try_with(|pool| {
            let Ok(mut pool) = pool.try_borrow_mut() else { return };
            if pool.len() < MAX_CACHED_BUFFERS {
                pool.push(buf);
            } else if let Some(smallest) = pool.iter_mut().min_by_key(|buffer| buffer.len())
                && smallest.len() < buf.len()
            {
                *smallest = buf;
            }
        });
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buf.get_mut(..self.len).unwrap_or_default()
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

    fn pooled_lengths() -> Vec<usize> {
        let mut lens: Vec<usize> = POOL.with_borrow(|pool| pool.iter().map(Vec::len).collect());
        lens.sort_unstable();
        lens
    }

    #[test]
    fn buffers_come_back() {
        let first = Buffer::new(1000).unwrap().freeze();
        let address = first.as_ptr();
        assert_eq!(first.len(), 1000);
        let share = first.slice(10..20);
        drop(first);
        assert!(pooled_lengths().is_empty());
        drop(share);
        assert_eq!(pooled_lengths(), [1000]);
        // A smaller one uses the same memory, a larger one has its own.
        let smaller = Buffer::new(10).unwrap();
        assert_eq!((smaller.as_ptr(), smaller.len()), (address, 10));
        drop(smaller);
        drop(Buffer::new(2000).unwrap());
        assert_eq!(pooled_lengths(), [1000, 2000]);
    }

    #[test]
    fn little_is_kept() {
        drop(Buffer::new(MAX_CACHED_LEN as u64 + 1).unwrap());
        drop(Buffer::new(0).unwrap());
        assert!(pooled_lengths().is_empty());
        let many: Vec<Buffer> = (1..10).map(|len| Buffer::new(len).unwrap()).collect();
        drop(many);
        assert_eq!(pooled_lengths(), [6, 7, 8, 9]);
    }
}
