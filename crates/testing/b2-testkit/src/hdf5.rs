//! The metadata blocks of HDF5 files that end with a checksum. The caller passes the function that computes it.

use std::ops::Range;

/// Computes a checksum.
pub type Sum = fn(&[u8]) -> u32;

/// The signatures of blocks that end with a checksum.
pub const SIGNATURES: [&[u8; 4]; 16] = [
    b"\x89HDF", b"OHDR", b"OCHK", b"FRHP", b"FHIB", b"BTHD", b"BTIN", b"BTLF", b"FAHD", b"FADB", b"EAHD",
    b"EAIB", b"EASB", b"EADB", b"SMTB", b"SMLI",
];
/// Maximum block length to search.
const MAX_BLOCK_LEN: usize = 5000;

/// Returns the ranges that checksums cover. The four bytes after each are the checksum.
#[must_use]
pub fn checked_blocks(bytes: &[u8], sum: Sum) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 4 < bytes.len() {
        let is_block = SIGNATURES.iter().any(|signature| bytes[at..].starts_with(*signature));
        let ends = at + 4..bytes.len().min(at + MAX_BLOCK_LEN).saturating_sub(3);
        let end = ends
            .filter(|_| is_block)
            .find(|&end| bytes.get(end..end + 4) == Some(&sum(&bytes[at..end]).to_le_bytes()[..]));
        found.extend(end.map(|end| at..end));
        at = end.unwrap_or(at + 1);
    }
    found
}

/// Recomputes the checksum of a changed block.
pub fn seal(bytes: &mut [u8], block: &Range<usize>, sum: Sum) {
    let sum = sum(&bytes[block.clone()]);
    bytes[block.end..block.end + 4].copy_from_slice(&sum.to_le_bytes());
}
