//! Every data set that `matrix.py` writes, value by value against the library that wrote it, and as an array.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use b2_hdf5::{DataSet, File, Hdf5Error};
use b2nd::{Dtype, NdArray};
use serde_json::Value;

use crate::common::{as_json, same_items, spelled};

/// Minimum number of data sets, and the percentage that must be equal.
const MIN_DATA_SETS: usize = 76;
const EQUAL: usize = 92;

/// The items of an `.npy` file, and its shape.
fn npy(path: &Path) -> (Vec<u64>, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY"));
    let (len, start) = match bytes[6] {
        1 => (u16::from_le_bytes([bytes[8], bytes[9]]) as usize, 10),
        _ => (u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize, 12),
    };
    let header = std::str::from_utf8(&bytes[start..start + len]).unwrap();
    assert!(header.contains("'fortran_order': False"), "{header}");
    let shape = header.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
    let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
    (lengths.map(|length| length.parse().unwrap()).collect(), bytes[start + len..].to_vec())
}

/// Compares a data set with what is expected of it.
fn check(entry: &Value, folder: &Path) -> Result<(), String> {
    let text = |error: Hdf5Error| {
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text.push_str(&format!(": {source}"));
        }
        text
    };
    let file = File::open(folder.join(entry["file"].as_str().unwrap())).map_err(text)?;
    let data = file.data_set(entry["path"].as_str().unwrap()).map_err(text)?;
    if entry["expect"] == "error" {
        let builder = data.builder().map_err(text)?;
        let written = builder.to_bytes(data.source());
        return written.map(drop).map_err(|error| {
            let mut text = String::new();
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                text.push_str(&format!("{error}: "));
                cause = error.source();
            }
            text
        });
    }
    let (shape, expected) = npy(&folder.join(format!("{}.npy", entry["name"].as_str().unwrap())));
    let dtype = data.dtype().map_err(text)?.clone();
    let wanted = spelled(&entry["dtype"]);
    if dtype.as_str() != wanted || data.shape() != shape {
        return Err(format!("{dtype} {:?}, expected {wanted} {shape:?}", data.shape()));
    }
    let mut found = vec![0xAA; expected.len()];
    data.read_box(&vec![0; shape.len()], &shape, &mut found).map_err(text)?;
    same_items(&dtype, &found, &expected)?;
    parts(&data, &dtype, &shape, &expected)?;
    array(&data, &dtype, &expected, entry)
}

/// Reads every half of every dimension.
fn parts(data: &DataSet, dtype: &Dtype, shape: &[u64], expected: &[u8]) -> Result<(), String> {
    let size = dtype.itemsize();
    for axis in 0..shape.len() {
        let half = shape[axis] / 2;
        let mut start = vec![0; shape.len()];
        start[axis] = half;
        let mut lengths = shape.to_vec();
        lengths[axis] -= half;
        let inner: usize = shape[axis + 1..].iter().map(|&length| length as usize).product::<usize>() * size;
        let row = shape[axis] as usize * inner;
        let want: Vec<u8> = match row {
            0 => Vec::new(),
            _ => expected.chunks(row).flat_map(|row| row[half as usize * inner..].to_vec()).collect(),
        };
        let mut found = vec![0xAA; want.len()];
        data.read_box(&start, &lengths, &mut found).map_err(|error| error.to_string())?;
        same_items(dtype, &found, &want).map_err(|what| format!("half of dimension {axis}: {what}"))?;
    }
    Ok(())
}

/// Converts it to an array, once with chunks copied unchanged where possible, and once decoded.
fn array(data: &DataSet, dtype: &Dtype, expected: &[u8], entry: &Value) -> Result<(), String> {
    let builder = data.builder().map_err(|error| error.to_string())?;
    let text = |error: b2nd::NdError| format!("as an array: {error} {:?}", std::error::Error::source(&error));
    let frame = builder.to_bytes(data.source()).map_err(text)?;
    let array = NdArray::from_bytes(frame).map_err(text)?;
    same_items(dtype, &array.all().read_bytes().map_err(text)?, expected)?;
    array.super_chunk().verify().map_err(|error| error.to_string())?;
    let again = NdArray::from_bytes(builder.to_bytes(data.decoded()).map_err(text)?).map_err(text)?;
    same_items(dtype, &again.all().read_bytes().map_err(text)?, expected)?;
    if let Some(chunks) = entry["chunks"].as_array() {
        let found: Vec<u64> = array.chunkshape().iter().map(|&length| length.into()).collect();
        let wanted: Vec<u64> = chunks.iter().map(|length| length.as_u64().unwrap()).collect();
        if found != wanted {
            return Err(format!("chunks {found:?}, expected {wanted:?}"));
        }
    }
    let lost: &[&str] = match entry["name"].as_str() {
        Some("scale_and_labels") => &["DIMENSION_LABELS: \"north\" (dimension 0 is \"lat\")"],
        Some("labels" | "scales") => &[],
        _ => return attributes(&array, entry),
    };
    if data.attrs_left_out() != lost {
        return Err(format!("left out: {:?}", data.attrs_left_out()));
    }
    attributes(&array, entry)
}

fn attributes(array: &NdArray, entry: &Value) -> Result<(), String> {
    let text = |error: b2nd::NdError| format!("as an array: {error} {:?}", std::error::Error::source(&error));
    let rest = array.attrs().get("attrs").map_err(text)?.map(|rest| as_json(&rest));
    for (name, wanted) in entry["attrs"].as_object().into_iter().flatten() {
        let own = array.attrs().get(name).map_err(text)?.map(|value| as_json(&value));
        let found = own.or_else(|| rest.as_ref().and_then(|rest| rest.get(name).cloned()));
        if found.as_ref() != Some(wanted) {
            return Err(format!("attribute {name} is {found:?}, expected {wanted}"));
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs Python with h5py, hdf5plugin, tables and netCDF4 (B2KIT_HDF5_PYTHON)"]
fn every_data_set_is_equal_or_a_clear_error() {
    let kept = crate::made::made("matrix.py", &["FOLDER"]);
    let folder = kept.path();
    let entries: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(folder.join("matrix.json")).unwrap()).unwrap();
    let mut counts = BTreeMap::from([("equal", 0), ("clear errors", 0), ("absent", 0)]);
    let mut wrong = Vec::new();
    for entry in &entries {
        let name = entry["name"].as_str().unwrap();
        match (entry["expect"].as_str().unwrap(), ()) {
            ("absent", ()) => {
                println!("absent: {name}: {}", entry["tool"].as_str().unwrap());
                *counts.get_mut("absent").unwrap() += 1;
            }
            (expect, ()) => match (expect, check(entry, folder)) {
                ("equal", Ok(())) => *counts.get_mut("equal").unwrap() += 1,
                ("error", Err(what)) if what.contains(entry["word"].as_str().unwrap()) => {
                    println!("clear error: {name}: {what}");
                    *counts.get_mut("clear errors").unwrap() += 1;
                }
                (_, found) => wrong.push(format!("{name} ({}): {found:?}", entry["kind"])),
            },
        }
    }
    println!("{counts:?}, {} wrong", wrong.len());
    for line in &wrong {
        println!("WRONG {line}");
    }
    let there = entries.len() - counts["absent"];
    assert!(there >= MIN_DATA_SETS, "{there} data sets");
    assert!(counts["equal"] * 100 >= there * EQUAL, "{counts:?} of {there}");
    assert!(wrong.is_empty(), "{} wrong", wrong.len());
}
