//! Random data sets that `generated.py` writes, compared with what h5py and netCDF4 read.
//!
//! `B2KIT_HDF5_GENERATED` sets their number.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use b2_hdf5::{DataSet, File, Hdf5Error};
use b2nd::Dtype;
use serde_json::Value;

use crate::common::{as_json, same_items, spelled};

/// The result for a data set.
enum Outcome {
    Equal,
    Refused(String),
}

fn whole(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", whole(source)),
        None => error.to_string(),
    }
}

fn text(error: Hdf5Error) -> String {
    whole(&error)
}

/// Recently opened files.
type OpenFiles = BTreeMap<String, File>;

fn check(entry: &Value, folder: &Path, expected: &[u8], opened: &mut OpenFiles) -> Result<Outcome, String> {
    let (name, path) = (entry["file"].as_str().unwrap(), entry["path"].as_str().unwrap());
    if !opened.contains_key(name) {
        opened.clear();
        opened.insert(name.to_owned(), File::open(folder.join(name)).map_err(text)?);
    }
    let data = match opened[name].data_set(path) {
        Err(error @ Hdf5Error::Unsupported { .. }) if entry["word"].is_string() => {
            let (what, word) = (text(error), entry["word"].as_str().unwrap());
            return if what.contains(word) { Ok(Outcome::Refused(word.to_owned())) } else { Err(what) };
        }
        Err(error) => return Err(text(error)),
        Ok(_) if entry["word"].is_string() => return Err("was to be refused".into()),
        Ok(data) => data,
    };
    let dtype = data.dtype().map_err(text)?.clone();
    let shape: Vec<u64> = numbers(&entry["shape"]);
    let wanted = spelled(&entry["dtype"]);
    if dtype.as_str() != wanted || data.shape() != shape {
        return Err(format!("{dtype} {:?}, expected {wanted} {shape:?}", data.shape()));
    }
    // Parts first: they look chunks up one by one.
    for one in entry["boxes"].as_array().unwrap() {
        let (start, lengths) = (numbers(&one[0]), numbers(&one[1]));
        let wanted = part(expected, &shape, &start, &lengths, dtype.itemsize());
        let mut found = vec![0xAA; wanted.len()];
        data.read_box(&start, &lengths, &mut found).map_err(text)?;
        same_items(&dtype, &found, &wanted).map_err(|what| format!("box {one}: {what}"))?;
    }
    let mut found = vec![0xAA; expected.len()];
    data.read_box(&vec![0; shape.len()], &shape, &mut found).map_err(text)?;
    same_items(&dtype, &found, expected)?;
    attributes(&data, entry)?;
    as_array(&data, &dtype, expected)?;
    Ok(Outcome::Equal)
}

/// Converts a data set to an array.
fn as_array(data: &DataSet, dtype: &Dtype, expected: &[u8]) -> Result<(), String> {
    let text = |error: b2nd::NdError| format!("as an array: {}", whole(&error));
    let frame = data.builder().map_err(|error| whole(&error))?.to_bytes(data.source()).map_err(text)?;
    let array = b2nd::NdArray::from_bytes(frame).map_err(text)?;
    same_items(dtype, &array.all().read_bytes().map_err(text)?, expected)
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

/// The items of a box.
fn part(items: &[u8], shape: &[u64], start: &[u64], lengths: &[u64], itemsize: usize) -> Vec<u8> {
    let Some((&length, lengths)) = lengths.split_first() else { return items.to_vec() };
    let row = shape[1..].iter().product::<u64>() as usize * itemsize;
    let rows = (start[0]..start[0] + length).map(|n| &items[n as usize * row..(n as usize + 1) * row]);
    rows.flat_map(|items| part(items, &shape[1..], &start[1..], lengths, itemsize)).collect()
}

fn attributes(data: &DataSet, entry: &Value) -> Result<(), String> {
    for (name, wanted) in entry["attrs"].as_object().into_iter().flatten() {
        let found = data.attrs().iter().find(|(own, _)| own == name).map(|(_, value)| value);
        let found = found.ok_or_else(|| format!("no attribute {name}: {:?}", data.attrs_left_out()))?;
        let is_same = match (wanted, found) {
            (Value::Object(wanted), b2nd::Value::Ext(_, bytes)) => {
                let array = rmpv::decode::read_value(&mut &bytes[..]).unwrap();
                let part = |key: &str| {
                    array.as_map().unwrap().iter().find(|(k, _)| k.as_str() == Some(key)).unwrap().1.clone()
                };
                let shape: Vec<Value> = part("shape").as_array().unwrap().iter().map(as_json).collect();
                let hex: String =
                    part("data").as_slice().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
                part("dtype").as_map().unwrap()[0].1.as_str() == wanted["dtype"].as_str()
                    && Value::Array(shape) == wanted["shape"]
                    && Some(&*hex) == wanted["hex"].as_str()
            }
            (Value::Object(_), _) => false,
            (wanted, b2nd::Value::Ext(..)) => {
                return Err(format!("attribute {name} is an array, expected {wanted}"));
            }
            // Python spells some numbers differently.
            (Value::Number(wanted), b2nd::Value::F64(found)) => wanted.as_f64() == Some(*found),
            (wanted, found) => as_json(found) == *wanted,
        };
        if !is_same {
            return Err(format!("attribute {name} is {found:?}, expected {wanted}"));
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs Python with h5py, hdf5plugin and netCDF4 (B2KIT_HDF5_PYTHON)"]
fn random_data_sets_are_those_that_were_written() {
    let count = std::env::var("B2KIT_HDF5_GENERATED").unwrap_or_else(|_| "1000".to_owned());
    let kept = crate::made::made("generated.py", &["FOLDER", &count]);
    let folder = kept.path();
    let list = fs::read_to_string(folder.join("generated.json")).unwrap();
    let entries: Vec<Value> = serde_json::from_str(&list).unwrap();
    let expected = fs::read(folder.join("expected.bin")).unwrap();
    let (mut equal, mut refused, mut wrong) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    let mut opened = OpenFiles::new();
    for entry in &entries {
        let number = |key: &str| entry[key].as_u64().unwrap_or(0) as usize;
        let items = &expected[number("at")..number("at") + number("len")];
        match check(entry, folder, items, &mut opened) {
            Ok(Outcome::Equal) => equal += 1,
            Ok(Outcome::Refused(word)) => *refused.entry(word).or_default() += 1,
            Err(what) => {
                wrong.push(format!("{}::{} ({}): {what}", entry["file"], entry["path"], entry["about"]))
            }
        }
    }
    for line in wrong.iter().take(40) {
        println!("WRONG {}", line.chars().take(600).collect::<String>());
    }
    println!("{} data sets: {equal} equal, refused {refused:?}, {} wrong", entries.len(), wrong.len());
    assert!(wrong.is_empty() && equal > 0, "{} wrong", wrong.len());
}
