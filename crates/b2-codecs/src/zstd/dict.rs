//! A cache of digested zstd dictionaries.

use b2_core::memory;
use std::sync::{Arc, Mutex, PoisonError};
use zstd::zstd_safe::{CDict, DDict};

/// A dictionary, digested for encoding or decoding.
pub(crate) struct Dict {
    bytes: Vec<u8>,
    digest: Digest,
}

enum Digest {
    Encoding { level: i32, dict: CDict<'static> },
    Decoding(DDict<'static>),
}

impl Dict {
    pub(crate) fn encoding(&self) -> Option<&CDict<'static>> {
        match &self.digest {
            Digest::Encoding { dict, .. } => Some(dict),
            Digest::Decoding(_) => None,
        }
    }
    pub(crate) fn decoding(&self) -> Option<&DDict<'static>> {
        match &self.digest {
            Digest::Decoding(dict) => Some(dict),
            Digest::Encoding { .. } => None,
        }
    }
}

/// The most recently used dictionaries. Digesting one takes as long as several streams, and every thread that works on
/// a chunk needs it, as does every read of an item.
pub(crate) static DICTS: Dicts = Dicts(Mutex::new(Vec::new()));

pub(crate) struct Dicts(Mutex<Vec<Arc<Dict>>>);

/// Maximum number of cached dictionaries, and maximum length of each.
const MAX_CACHED_DICTS: usize = 4;
const MAX_CACHED_LEN: usize = 1 << 20;

impl Dicts {
    /// Returns `None` if the library rejects the dictionary.
    pub(crate) fn for_encoding(&self, bytes: &[u8], level: i32) -> Option<Arc<Dict>> {
        let same = |dict: &Dict| match dict.digest {
            Digest::Encoding { level: other, .. } => other == level,
            Digest::Decoding(_) => false,
        };
        let make = || Some(Digest::Encoding { level, dict: CDict::try_create(bytes, level)? });
        self.find_or_make(bytes, same, make)
    }

    /// Returns `None` if the library rejects the dictionary.
    pub(crate) fn for_decoding(&self, bytes: &[u8]) -> Option<Arc<Dict>> {
        let make = || Some(Digest::Decoding(DDict::try_create(bytes)?));
        self.find_or_make(bytes, |dict| matches!(dict.digest, Digest::Decoding(_)), make)
    }

    /// Holds the lock while digesting, so that threads which need the same dictionary wait for one of them.
    fn find_or_make(
        &self,
        bytes: &[u8],
        same: impl Fn(&Dict) -> bool,
        make: impl FnOnce() -> Option<Digest>,
    ) -> Option<Arc<Dict>> {
        let mut dicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = dicts.iter().position(|dict| same(dict) && *dict.bytes == *bytes) {
            // The most recently used dictionary comes first.
            dicts[..=at].rotate_right(1);
            return Some(Arc::clone(&dicts[0]));
        }
        let dict = Arc::new(Dict { bytes: memory::copied(bytes).ok()?, digest: make()? });
        if bytes.len() <= MAX_CACHED_LEN {
            dicts.truncate(MAX_CACHED_DICTS - 1);
            dicts.insert(0, Arc::clone(&dict));
        }
        Some(dict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_digested_once() {
        let dicts = Dicts(Mutex::new(Vec::new()));
        let (a, b) = (b"some words that streams repeat".as_slice(), b"other words".as_slice());
        let first = dicts.for_encoding(a, 3).unwrap();
        assert!(Arc::ptr_eq(&first, &dicts.for_encoding(a, 3).unwrap()));
        assert!(first.encoding().is_some() && first.decoding().is_none());
        for other in [dicts.for_encoding(a, 4), dicts.for_encoding(b, 3), dicts.for_decoding(a)] {
            assert!(!Arc::ptr_eq(&first, &other.unwrap()));
        }
        assert!(Arc::ptr_eq(&first, &dicts.for_encoding(a, 3).unwrap()));
        // The least recently used dictionary is evicted.
        for n in 0..MAX_CACHED_DICTS as u8 - 1 {
            dicts.for_decoding(&[n; 20]).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &dicts.for_encoding(a, 3).unwrap()));
        assert_eq!(dicts.0.lock().unwrap().len(), MAX_CACHED_DICTS);
        // A long dictionary is not cached.
        dicts.for_decoding(&vec![0; MAX_CACHED_LEN + 1]).unwrap();
        assert!(Arc::ptr_eq(&first, &dicts.0.lock().unwrap()[0]));
    }
}
