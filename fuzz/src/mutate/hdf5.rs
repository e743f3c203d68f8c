//! Mutates the metadata of HDF5 files.

use std::ops::Range;

use b2_hdf5::fuzzing::lookup3;
use b2_testkit::hdf5::{checked_blocks, seal};
use b2_testkit::hostile::Number;

use super::Rng;

/// The signatures of metadata blocks: of headers, indexes of chunks and members, heaps, and others.
const SIGNATURES: [&[u8; 4]; 22] = [
    b"\x89HDF", b"OHDR", b"OCHK", b"TREE", b"SNOD", b"BTHD", b"BTIN", b"BTLF", b"FAHD", b"FADB", b"EAHD",
    b"EAIB", b"EASB", b"EADB", b"HEAP", b"GCOL", b"FRHP", b"FHIB", b"FHDB", b"SMTB", b"SMLI", b"CDF\x01",
];

/// Bytes of a block without a checksum that are changed.
const START: usize = 512;

/// Changes a block of metadata, chosen by its kind, and computes its checksum again if it has one.
pub fn hdf5(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let checked = checked_blocks(bytes, lookup3);
    let block = match rng.0.pick_some(&checked) {
        Some(block) if rng.0.one_in(2) => Some(block.clone()),
        _ => {
            let signature = SIGNATURES[rng.0.below(SIGNATURES.len())];
            let found: Vec<usize> =
                (0..bytes.len().saturating_sub(4)).filter(|&at| bytes[at..].starts_with(signature)).collect();
            rng.0.pick_some(&found).map(|&at| at..bytes.len().min(at + START))
        }
    };
    let Some(block) = block else {
        let len = bytes.len();
        return rng.raw(bytes, 0..len, false);
    };
    change(bytes, block.clone(), rng);
    if let Some(block) = checked.iter().find(|checked| checked.start == block.start) {
        seal(bytes, block, lookup3);
    }
}

/// Changes a number or some bytes within a block, whose length stays.
fn change(bytes: &mut Vec<u8>, block: Range<usize>, rng: &mut Rng) {
    if rng.0.one_in(3) {
        return rng.raw(bytes, block, true);
    }
    let width = [1, 2, 4, 8][rng.0.below(4)];
    let Some(room) = block.len().checked_sub(width) else { return };
    let number = Number { at: block.start + rng.0.below(room + 1), width, big_endian: false };
    rng.one_of(bytes, &[number]);
}
