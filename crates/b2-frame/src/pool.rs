//! Buffers that are used again. Fresh memory has to be mapped page by page and zeroed, which takes longer than
//! decoding a block: reading one item at a time took three times as long without this.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use b2_chunk::memory::OutOfMemory;
use bytes::Bytes;

use crate::storage::zeroed;

/// Buffers kept by each thread.
const KEPT: usize = 4;
/// Largest buffer that is kept, in bytes.
const LARGEST: usize = 8 << 20;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of some length with unspecified content. Goes back to the dropping thread's pool.
pub(crate) struct Pooled {
    /// Never shorter than `len`; what is behind has been in use before.
    buf: Vec<u8>,
    len: usize,
}

impl Pooled {
    /// A buffer of `len` bytes; running out of memory is an error.
    pub(crate) fn new(len: u64) -> Result<Self, OutOfMemory> {
        let fits = |buf: &Vec<u8>| buf.len() as u64 >= len;
        let taken = POOL.with_borrow_mut(|pool| pool.iter().position(fits).map(|at| pool.swap_remove(at)));
        let buf = match taken {
            Some(buf) => buf,
            None => zeroed(len)?,
        };
        // A buffer of this length is in memory, so the length fits.
        Ok(Self { buf, len: len as usize })
    }

    /// The content, shared; the buffer goes back when the last share is dropped.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.buf);
        if buf.is_empty() || buf.len() > LARGEST {
            return;
        }
        // While a thread ends there may be no pool any more.
        let _ = POOL.try_with(|pool| {
            let Ok(mut pool) = pool.try_borrow_mut() else { return };
            if pool.len() < KEPT {
                pool.push(buf);
            } else if let Some(smallest) = pool.iter_mut().min_by_key(|kept| kept.len())
                && smallest.len() < buf.len()
            {
                *smallest = buf;
            }
        });
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Pooled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buf.get_mut(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vec<usize> {
        let mut kept: Vec<usize> = POOL.with_borrow(|pool| pool.iter().map(Vec::len).collect());
        kept.sort_unstable();
        kept
    }

    #[test]
    fn buffers_come_back() {
        let first = Pooled::new(1000).unwrap().freeze();
        let address = first.as_ptr();
        assert_eq!(first.len(), 1000);
        let share = first.slice(10..20);
        drop(first);
        assert!(kept().is_empty());
        drop(share);
        assert_eq!(kept(), [1000]);
        // A smaller one uses the same memory, a larger one has its own.
        let smaller = Pooled::new(10).unwrap();
        assert_eq!((smaller.as_ptr(), smaller.len()), (address, 10));
        drop(smaller);
        drop(Pooled::new(2000).unwrap());
        assert_eq!(kept(), [1000, 2000]);
    }

    #[test]
    fn little_is_kept() {
        drop(Pooled::new(LARGEST as u64 + 1).unwrap());
        drop(Pooled::new(0).unwrap());
        assert!(kept().is_empty());
        let many: Vec<Pooled> = (1..10).map(|len| Pooled::new(len).unwrap()).collect();
        drop(many);
        assert_eq!(kept(), [6, 7, 8, 9]);
    }
}
