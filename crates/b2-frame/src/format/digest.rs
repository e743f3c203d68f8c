//! The algorithm of the checksums: XXH3 with 64 bits and seed 0.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Computes the sum of bytes.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Computes the sum of bytes that arrive in pieces.
#[derive(Default)]
pub(crate) struct Sum(XxHash3_64);

impl Sum {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.write(piece);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
}
