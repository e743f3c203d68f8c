//! Stores that count requests, and arrays in them.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use zarrs::array::ArrayBytes;
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrs::storage::storage_adapter::sync_to_async::{SyncToAsyncSpawnBlocking, SyncToAsyncStorageAdapter};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{
    Bytes, MaybeBytes, MaybeBytesIterator, OffsetBytesIterator, ReadableStorageTraits, StorageError,
    StoreKey, StorePrefix, WritableStorageTraits,
};

/// A store in memory that counts requests. Ranges beyond the end of an object are errors; a suffix longer than the
/// object panics.
#[derive(Default)]
pub(crate) struct CountingStore {
    pub(crate) inner: MemoryStore,
    counts: Mutex<Counts>,
}

/// What was asked of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Calls, each of which may request several ranges.
    pub(crate) rounds: usize,
    pub(crate) ranges: Vec<ByteRange>,
    pub(crate) bytes: usize,
}

impl CountingStore {
    /// Returns the counts since the last call.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().unwrap())
    }
}

impl ReadableStorageTraits for CountingStore {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        let found = self.inner.get(key)?;
        let mut counts = self.counts.lock().unwrap();
        counts.rounds += 1;
        counts.ranges.push(ByteRange::FromStart(0, None));
        counts.bytes += found.as_ref().map_or(0, |bytes| bytes.len());
        Ok(found)
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        self.counts.lock().unwrap().rounds += 1;
        let counted = byte_ranges.inspect(|range| self.counts.lock().unwrap().ranges.push(*range));
        let found = self.inner.get_partial_many(key, Box::new(counted))?;
        Ok(found.map(|parts| {
            let parts = parts.inspect(|part| {
                self.counts.lock().unwrap().bytes += part.as_ref().map_or(0, |part| part.len());
            });
            Box::new(parts) as Box<_>
        }))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl WritableStorageTraits for CountingStore {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        self.inner.set(key, value)
    }
    fn set_partial_many(&self, key: &StoreKey, values: OffsetBytesIterator) -> Result<(), StorageError> {
        self.inner.set_partial_many(key, values)
    }
    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        self.inner.erase(key)
    }
    fn erase_prefix(&self, prefix: &StorePrefix) -> Result<(), StorageError> {
        self.inner.erase_prefix(prefix)
    }
    fn supports_set_partial(&self) -> bool {
        true
    }
}

/// Runs blocking tasks inline.
pub(crate) struct InlineSpawner;

impl SyncToAsyncSpawnBlocking for InlineSpawner {
    async fn spawn_blocking<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        f()
    }
}

pub(crate) fn asynchronous(
    store: &Arc<CountingStore>,
) -> Arc<SyncToAsyncStorageAdapter<CountingStore, InlineSpawner>> {
    Arc::new(SyncToAsyncStorageAdapter::new(store.clone(), InlineSpawner))
}

pub(crate) fn shape(lengths: &[u64]) -> Vec<NonZeroU64> {
    lengths.iter().map(|&length| NonZeroU64::new(length).unwrap()).collect()
}

pub(crate) fn fixed(bytes: ArrayBytes<'_>) -> Vec<u8> {
    bytes.into_fixed().unwrap().into_owned()
}

/// Returns the items of a box of an array in C order.
pub(crate) fn cut(
    items: &[u8],
    itemsize: usize,
    lengths: &[u64],
    ranges: &[std::ops::Range<u64>],
) -> Vec<u8> {
    let mut found = Vec::new();
    let mut at: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    if ranges.iter().any(|range| range.is_empty()) {
        return found;
    }
    loop {
        let flat = at.iter().zip(lengths).fold(0, |flat, (at, length)| flat * length + at) as usize;
        found.extend_from_slice(&items[flat * itemsize..(flat + 1) * itemsize]);
        let mut dim = at.len();
        loop {
            if dim == 0 {
                return found;
            }
            dim -= 1;
            at[dim] += 1;
            if at[dim] < ranges[dim].end {
                break;
            }
            at[dim] = ranges[dim].start;
        }
    }
}
