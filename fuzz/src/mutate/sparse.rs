//! Mutates several files in one input: those of a sparse frame.

use b2_testkit::hostile::Number;

use super::{Rng, chunk, frame, raw};
use crate::sparse::{pack, unpack};

/// Mutates one of the files, or the list of files.
pub fn sparse(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let mut files: Vec<(u32, Vec<u8>)> = unpack(bytes).map(|(id, file)| (id, file.to_vec())).collect();
    if files.is_empty() {
        let len = bytes.len();
        raw(bytes, 0..len, false);
        return;
    }
    let n = rng.below(files.len());
    match rng.below(10) {
        0..=4 => match files.iter().position(|(id, _)| *id == 0) {
            Some(index) if rng.one_in(2) => frame(&mut files[index].1, rng),
            _ if n > 0 => chunk(&mut files[n].1, rng),
            _ => frame(&mut files[n].1, rng),
        },
        5 => {
            let mut id = files[n].0.to_le_bytes();
            Number::damage_one(&[Number { at: 0, width: 4, big_endian: false }], &mut id, rng);
            files[n].0 = u32::from_le_bytes(id);
        }
        6 => {
            let other = rng.below(files.len());
            files[n].1 = files[other].1.clone();
        }
        7 => drop(files.remove(n)),
        8 => {
            let keep = rng.below(files[n].1.len() + 1);
            files[n].1.truncate(keep);
        }
        _ => {
            let id = files[n].0;
            files[n].0 = files[0].0;
            files[0].0 = id;
        }
    }
    *bytes = pack(&files);
}
