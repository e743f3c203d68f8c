//! Every bit of small files flipped: no wrong value where h5py finds the damage.
//!
//! `flips.py` makes the files, and is asked about the flips that were not noticed. `B2KIT_HDF5_FLIPS_STEP` sets the distance between flips in bits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use b2_core::Limits;
use b2_hdf5::File;
use b2_testkit::hostile::flipped;
use bytes::Bytes;

/// Bits between flips unless another number is asked for.
const STEP: usize = 47;
/// Flips that gave values where h5py has an error: of chunks and the end of their index that are not on the grid, lengths of
/// texts and names, an encoding, kind and number of messages, a length of 0.
const FOUND: [(&str, usize); 9] = [
    ("single_earliest.h5", 2464 * 8),
    ("single_earliest.h5", 1955 * 8 + 1),
    ("texts.h5", 2092 * 8 + 1),
    ("texts.h5", 2048 * 8),
    ("contiguous_earliest.h5", 1968 * 8 + 1),
    ("contiguous_earliest.h5", 1872 * 8 + 3),
    ("contiguous_earliest.h5", 1938 * 8 + 5),
    ("contiguous_earliest.h5", 1978 * 8 + 1),
    ("contiguous_earliest.h5", 1992 * 8 + 1),
];

/// Everything of `/g/d` that is compared, as text.
fn read(bytes: Vec<u8>) -> Option<String> {
    let limits = Limits::default().max_memory(16 << 20);
    let file = File::from_reader(Arc::new(Bytes::from(bytes)), "flipped", &limits).ok()?;
    let data = file.data_set("/g/d").ok()?;
    let dtype = data.dtype().ok()?.clone();
    let nbytes = data.nbytes().filter(|&nbytes| nbytes < 1 << 20)?;
    let mut items = vec![0; nbytes as usize];
    data.read_box(&vec![0; data.shape().len()], data.shape(), &mut items).ok()?;
    // An attribute that cannot be read is reported by name, which is not a wrong value.
    if !data.attrs_left_out().is_empty() {
        return None;
    }
    Some(format!("{dtype} {:?} {:?} {items:?}", data.shape(), data.attrs()))
}

#[test]
#[ignore = "needs Python with h5py and hdf5plugin (B2KIT_HDF5_PYTHON)"]
fn flips_that_h5py_notices_are_errors() {
    let kept = crate::made::made("flips.py", &["make", "FOLDER"]);
    let (folder, python) = (kept.path(), crate::made::python());
    let step = std::env::var("B2KIT_HDF5_FLIPS_STEP").map_or(STEP, |step| step.parse().unwrap());
    let mut names: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|end| end == "h5"));
    names.sort();
    assert!(names.len() >= 30, "{} files", names.len());
    let (mut count, mut errors, mut unnoticed) = (0, 0, BTreeMap::<String, Vec<usize>>::new());
    for path in &names {
        let original = fs::read(path).unwrap();
        let wanted = read(original.clone());
        assert!(wanted.is_some(), "{}", path.display());
        let found = FOUND.iter().filter(|(name, _)| path.ends_with(name)).map(|&(_, bit)| bit);
        for bit in (0..original.len() * 8).step_by(step).chain(found) {
            count += 1;
            match read(flipped(&original, bit)) {
                None => errors += 1,
                found if found == wanted => {}
                _ => {
                    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                    unnoticed.entry(name).or_default().push(bit);
                }
            }
        }
    }
    let wrong: usize = unnoticed.values().map(Vec::len).sum();
    fs::write(folder.join("flips.json"), serde_json::to_string(&unnoticed).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("flips.py");
    let status = Command::new(python).arg(script).arg("judge").arg(folder).status().unwrap();
    assert!(status.success());
    let judged: BTreeMap<String, Vec<usize>> =
        serde_json::from_slice(&fs::read(folder.join("judged.json")).unwrap()).unwrap();
    println!("{count} flips in {} files: {errors} errors, {wrong} other values", names.len());
    for (name, bits) in &unnoticed {
        println!("{name}: {} flips gave other values", bits.len());
    }
    for (name, bits) in &judged {
        println!("WRONG {name}: h5py refuses bits {:?}", bits.iter().take(40).collect::<Vec<_>>());
    }
    assert!(judged.is_empty(), "values where h5py has an error");
}
