//! Reusable memory: the system takes longer to provide fresh memory than decoding takes to fill it.

use std::sync::{Arc, Mutex, PoisonError};

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

/// Maximum bytes of idle buffers.
const MAX_POOLED_LEN: usize = 64 << 20;

/// Idle buffers.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Returns a buffer with arbitrary contents, to be overwritten.
    pub(super) fn take(&self, len: usize) -> Result<Vec<u8>, OutOfMemory> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that is large enough, since the sizes of chunks and blocks differ much.
        let fits = spare.iter().enumerate().filter(|(_, bytes)| bytes.capacity() >= len);
        match fits.min_by_key(|(_, bytes)| bytes.capacity()).map(|(n, _)| n) {
            Some(n) => {
                let mut bytes = spare.swap_remove(n);
                drop(spare);
                bytes.resize(len, 0);
                Ok(bytes)
            }
            None => {
                // Buffers that are too small for the current read are dropped.
                spare.clear();
                drop(spare);
                memory::zeroed(len)
            }
        }
    }

    /// Returns a buffer to the pool.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = spare.iter().map(Vec::capacity).sum();
        if held.saturating_add(bytes.capacity()) <= MAX_POOLED_LEN {
            spare.push(bytes);
        }
    }

    /// Wraps a buffer that returns to the pool when it is dropped.
    pub(super) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(PooledBytes { bytes, to: self.clone() })
    }
}

struct PooledBytes {
    bytes: Vec<u8>,
    to: Arc<Buffers>,
}

impl AsRef<[u8]> for PooledBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        self.to.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back() {
        let buffers = Arc::new(Buffers::default());
        let (small, large) = (buffers.take(10).unwrap(), buffers.take(1000).unwrap());
        let places = (small.as_ptr(), large.as_ptr());
        buffers.give_back(small);
        let lent = buffers.lend(large);
        let part = lent.slice(990..);
        drop(lent);
        assert_eq!(part[..], [0; 10]);
        drop(part);
        let (large, small) = (buffers.take(900).unwrap(), buffers.take(5).unwrap());
        assert_eq!((small.as_ptr(), large.as_ptr()), places);
    }
}
