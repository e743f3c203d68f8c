//! A cache of parsed parts of a file, by address, limited in size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Parsed parts of a file. When they become too large, all are dropped.
pub(super) struct Cache<T> {
    most: usize,
    held: Mutex<BoxBounds<T>>,
}

struct BoxBounds<T> {
    parts: HashMap<u64, Arc<T>>,
    size: usize,
}

impl<T> Cache<T> {
    /// `most` is the largest sum of the sizes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Mutex::new(BoxBounds { parts: HashMap::new(), size: 0 }) }
    }

    pub(super) fn get(&self, address: u64) -> Option<Arc<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).parts.get(&address).cloned()
    }

    /// Caches a part of this size, and returns it.
    pub(super) fn keep(&self, address: u64, part: T, size: usize) -> Arc<T> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.size.saturating_add(size) > self.most {
            held.parts.clear();
            held.size = 0;
        }
        held.size = held.size.saturating_add(size);
        let part = Arc::new(part);
        held.parts.insert(address, part.clone());
        part
    }
}
