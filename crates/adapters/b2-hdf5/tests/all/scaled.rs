//! Packed numbers, compared with the values that xarray decodes: files and values of `scaled.py`.

use std::fs;
use std::path::Path;

use b2_hdf5::{File, Scale};

/// Minimum number of combinations of number types and attributes.
const MIN_KINDS: usize = 400;

/// Whether two items are the same number. Not numbers are, whatever their bits.
fn same(a: &[u8], b: &[u8]) -> bool {
    let is_nan = |item: &[u8]| match item.len() {
        4 => f32::from_le_bytes(item.try_into().unwrap()).is_nan(),
        _ => f64::from_le_bytes(item.try_into().unwrap()).is_nan(),
    };
    a == b || is_nan(a) && is_nan(b)
}

fn check(folder: &Path, name: &str) -> Result<(), String> {
    let file = File::open(folder.join(format!("{name}.nc"))).map_err(|error| error.to_string())?;
    let data = file.data_set("v").map_err(|error| error.to_string())?;
    let scale = Scale::of(&data).map_err(|error| error.to_string())?.ok_or("nothing to apply")?;
    let npy = fs::read(folder.join(format!("{name}.npy"))).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let (header, expected) = (String::from_utf8_lossy(&npy[10..start]), &npy[start..]);
    let dtype = scale.dtype().unwrap();
    if !header.contains(&format!("'{dtype}'")) {
        return Err(format!("{dtype}, expected {header}"));
    }
    let mut packed = vec![0; scale.packed_nbytes(expected.len())];
    data.read_box(&[0], data.shape(), &mut packed).map_err(|error| error.to_string())?;
    let mut found = vec![0xAA; expected.len()];
    scale.apply(&packed, &mut found);
    let size = dtype.itemsize();
    match found.chunks(size).zip(expected.chunks(size)).position(|(a, b)| !same(a, b)) {
        None => Ok(()),
        Some(n) => {
            let item = |bytes: &[u8]| match &bytes[n * size..(n + 1) * size] {
                four if size == 4 => f32::from_le_bytes(four.try_into().unwrap()).to_string(),
                eight => f64::from_le_bytes(eight.try_into().unwrap()).to_string(),
            };
            Err(format!("item {n}: {}, expected {}", item(&found), item(expected)))
        }
    }
}

#[test]
#[ignore = "needs Python with xarray and netCDF4 (B2KIT_HDF5_PYTHON)"]
fn packed_numbers_are_what_xarray_makes_of_them() {
    let kept = crate::made::made("scaled.py", &["FOLDER"]);
    let folder = kept.path();
    let names = fs::read_to_string(folder.join("names.txt")).unwrap();
    let wrong: Vec<String> = names
        .lines()
        .filter_map(|name| check(folder, name).err().map(|what| format!("{name}: {what}")))
        .collect();
    println!("{} kinds of packed numbers, {} wrong", names.lines().count(), wrong.len());
    wrong.iter().for_each(|line| println!("WRONG {line}"));
    assert!(names.lines().count() >= MIN_KINDS);
    assert!(wrong.is_empty());
}
