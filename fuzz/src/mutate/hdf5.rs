//! Mutates the metadata of HDF5 files.

use std::ops::Range;

use b2_testkit::hdf5::{SIGNATURES, checked_blocks, seal};
use b2_testkit::hostile::Number;

use super::{Rng, raw};
use crate::internals::lookup3;

/// The signatures of metadata blocks without a checksum.
const UNCHECKED: [&[u8; 4]; 6] = [b"TREE", b"SNOD", b"HEAP", b"GCOL", b"FHDB", b"CDF\x01"];

/// Bytes of a block without a checksum that are changed.
const START: usize = 512;

/// Changes a block of metadata, chosen by its kind, and computes its checksum again if it has one.
pub fn hdf5(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let checked = checked_blocks(bytes, lookup3);
    let block = match rng.pick_some(&checked) {
        Some(block) if rng.one_in(2) => Some(block.clone()),
        _ => {
            let signature = *rng.pick(&[&SIGNATURES[..], &UNCHECKED].concat());
            let found: Vec<usize> =
                (0..bytes.len().saturating_sub(4)).filter(|&at| bytes[at..].starts_with(signature)).collect();
            rng.pick_some(&found).map(|&at| at..bytes.len().min(at + START))
        }
    };
    let Some(block) = block else {
        let len = bytes.len();
        return raw(bytes, 0..len, false);
    };
    change(bytes, block.clone(), rng);
    if let Some(block) = checked.iter().find(|checked| checked.start == block.start) {
        seal(bytes, block, lookup3);
    }
}

/// Changes a number or some bytes within a block, whose length stays.
fn change(bytes: &mut Vec<u8>, block: Range<usize>, rng: &mut Rng) {
    if rng.one_in(3) {
        return raw(bytes, block, true);
    }
    let width = [1, 2, 4, 8][rng.below(4)];
    let Some(room) = block.len().checked_sub(width) else { return };
    let number = Number { at: block.start + rng.below(room + 1), width, big_endian: false };
    Number::damage_one(&[number], bytes, rng);
}
