//! Sums of single chunks, by index entry.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use b2_chunk::LazyChunk;

use crate::format::digest::sum;
use crate::format::runs;

/// The expected checksum of a stored chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkSum {
    /// The sum of the chunk as stored.
    pub(crate) whole: u64,
    /// The record with the sums of its runs; empty if it is not known.
    pub(crate) runs: Box<[u8]>,
}

impl ChunkSum {
    /// Computes the sums of a stored chunk. `chunk` is its head, if that could be parsed.
    pub(crate) fn of(stored: &[u8], chunk: Option<&LazyChunk>) -> Self {
        // Compute the sums of runs first, which leaves much of the chunk in the cache for its own sum.
        let runs = runs::record(stored, chunk);
        Self { whole: sum(stored), runs }
    }
}

/// Sums of stored chunks by index entry. Equal entries refer to the same bytes.
pub(crate) type SumsByEntry = HashMap<i64, ChunkSum, EntryHashing>;

/// Hashes numbers with one multiplication, since there is one number per chunk. The factors are
/// random, because a hostile file could otherwise make all numbers collide.
#[derive(Clone, Debug)]
pub(crate) struct EntryHashing {
    mask: u64,
    factor: u64,
}

impl Default for EntryHashing {
    fn default() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for EntryHashing {
    type Hasher = EntryHasher;

    fn build_hasher(&self) -> EntryHasher {
        EntryHasher { hash: self.mask, factor: self.factor }
    }
}

/// The hasher of [`EntryHashing`].
pub(crate) struct EntryHasher {
    hash: u64,
    factor: u64,
}

impl Hasher for EntryHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, n: u64) {
        let n = self.hash ^ n;
        let high = u128::from(n).wrapping_mul(self.factor.into()) >> 64;
        self.hash = high as u64 ^ n.wrapping_mul(self.factor);
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}
