//! Files that `Writer` writes: read by this crate, and by h5py, netCDF4 and xarray (`written.py`).

use std::fs;
use std::path::Path;
use std::process::Command;

use b2_hdf5::{Codec, File, Writer};
use b2nd::{ArrayBuilder, Dtype, NdArray, Value};
use serde_json::json;

const CODECS: [(&str, Codec); 3] =
    [("blosc2", Codec::Blosc2), ("gzip", Codec::Gzip(6)), ("none", Codec::None)];

/// An array whose items look like numbers of its dtype, with this shape and these chunks.
fn array(dtype: &str, shape: &[u64], chunks: &[u32], attrs: &[(&str, Value)]) -> NdArray {
    let dtype = Dtype::parse(dtype).unwrap();
    let mut builder = ArrayBuilder::of_dtype(shape, dtype.clone()).chunks(chunks);
    for (name, value) in attrs {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, value).unwrap();
        builder = builder.vlmetalayer(*name, bytes);
    }
    let bytes = items(&dtype, shape.iter().product());
    NdArray::from_bytes(builder.to_bytes(&bytes[..]).unwrap()).unwrap()
}

fn items(dtype: &Dtype, count: u64) -> Vec<u8> {
    let size = dtype.itemsize();
    let text = dtype.as_str();
    let item = |n: u64| -> Vec<u8> {
        let ascii = format!("t{}", n % 1000);
        match text {
            "<f4" => (n as f32 / 4.0).to_le_bytes().to_vec(),
            ">f8" => (n as f64 / 8.0).to_be_bytes().to_vec(),
            "<f8" => (n as f64 / 8.0).to_le_bytes().to_vec(),
            "|b1" => vec![n.is_multiple_of(3) as u8],
            // Noise, which gzip cannot shrink.
            "|V1" | "|V6" => {
                let mixed = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_be_bytes()[..size].to_vec()
            }
            _ if text.contains('U') => {
                let text: String = if n.is_multiple_of(5) { String::new() } else { format!("{ascii}ä日") };
                let mut out: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
                out.resize(size, 0);
                out
            }
            _ if text.starts_with("|S") => {
                let mut out = ascii.into_bytes();
                out.resize(size, 0);
                out
            }
            _ => {
                let mut out: Vec<u8> = n.to_le_bytes().to_vec();
                out.resize(size, 0);
                if text.starts_with('>') {
                    out.reverse();
                }
                out
            }
        }
    };
    (0..count).flat_map(item).collect()
}

/// Arrays of all kinds: name, dtype, shape, chunks.
fn kinds() -> Vec<(String, &'static str, Vec<u64>, Vec<u32>)> {
    let mut out = Vec::new();
    let simple = [
        "|i1", "|u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f8", "|b1",
        "<c8", ">c16", "|S6", "|V5", "<U9",
    ];
    for dtype in simple {
        let name = format!("kind-{}", dtype.replace(['<', '|'], "").replace('>', "big-"));
        out.push((name, dtype, vec![11, 7], vec![4, 3]));
    }
    let nested = "[('a', '<i2'), ('b', [('x', '<f4'), ('y', '|S3')]), ('c', '<i4', (2, 2))]";
    let gaps = "{'names': ['a', 'b'], 'formats': ['|i1', '<i8'], 'offsets': [2, 8], 'itemsize': 20}";
    let wide = "[('a', '|S300'), ('b', '<i2')]";
    for (name, dtype) in [("nested", nested), ("gaps", gaps), ("wide", wide)] {
        out.push((name.into(), dtype, vec![30], vec![7]));
    }
    out.push(("times".into(), "<M8[ms]", vec![50], vec![20]));
    out.push(("spans".into(), "<m8[h]", vec![50], vec![20]));
    out.push(("scalar".into(), "<i8", vec![], vec![]));
    out.push(("scalar-text".into(), "<U9", vec![], vec![]));
    out.push(("empty".into(), "<f4", vec![0, 5], vec![1, 5]));
    out.push(("one".into(), "<f4", vec![1], vec![1]));
    out.push(("long-chunk".into(), "<f4", vec![5, 3], vec![8, 8]));
    out.push(("line".into(), "<i4", vec![100_000], vec![30_000]));
    out.push(("deep".into(), "|u1", vec![3, 4, 5, 6, 7], vec![2, 3, 2, 5, 4]));
    out.push(("noise".into(), "|V6", vec![50_000], vec![20_000]));
    out.push(("noise-of-bytes".into(), "|V1", vec![70_000], vec![30_000]));
    // Trees of two and of three levels.
    out.push(("two-levels".into(), "<i2", vec![40, 40], vec![2, 3]));
    out.push(("three-levels".into(), "<i2", vec![5000], vec![1]));
    out
}

fn attrs() -> Vec<(&'static str, Value)> {
    let ints = vec![Value::from(1), Value::from(-2)];
    let array = |shape: &[u64]| {
        let array = Value::Map(vec![
            ("dtype".into(), Value::Map(vec![("str".into(), "<i4".into())])),
            ("shape".into(), Value::Array(shape.iter().map(|&length| length.into()).collect())),
            ("data".into(), Value::Binary([5_i32, 6].iter().flat_map(|n| n.to_le_bytes()).collect())),
        ]);
        let mut packed = Vec::new();
        rmpv::encode::write_value(&mut packed, &array).unwrap();
        Value::Ext(46, packed)
    };
    vec![
        ("text", "bänk".into()),
        ("none", "".into()),
        ("int", (-5).into()),
        ("large", u64::MAX.into()),
        ("float", Value::F64(0.1)),
        ("single", Value::F32(0.5)),
        ("truth", true.into()),
        ("ints", Value::Array(ints)),
        ("floats", Value::Array(vec![Value::F64(0.5), 2.into()])),
        ("texts", Value::Array(vec!["a".into(), "".into(), "ü".into()])),
        ("array", array(&[2])),
        ("square", array(&[2, 1])),
        ("complex", Value::Ext(44, [1.5_f64.to_be_bytes(), (-2.0_f64).to_be_bytes()].concat())),
        ("_FillValue", 7.into()),
        ("map", Value::Map(vec![("a".into(), 1.into())])),
    ]
}

/// Writes a file of each codec with all kinds of arrays, and returns what is in them.
fn write_kinds(folder: &Path) -> Vec<serde_json::Value> {
    let mut entries = Vec::new();
    for (codec_name, codec) in CODECS {
        let name = format!("kinds-{codec_name}.h5");
        let mut writer = Writer::new(fs::File::create(folder.join(&name)).unwrap(), &*name).unwrap();
        writer.group("/", &[("title".into(), "all".into())]).unwrap();
        for (path, dtype, shape, chunks) in kinds() {
            let array = array(dtype, &shape, &chunks, &[]);
            writer.array(&format!("group/{path}"), &array, codec).unwrap();
            fs::write(folder.join(format!("{path}.bin")), array.all().read_bytes().unwrap()).unwrap();
            entries.push(json!({
                "file": name, "path": format!("group/{path}"), "bin": format!("{path}.bin"),
                "dtype": array.dtype().as_str(), "shape": shape, "chunks": chunks, "codec": codec_name,
            }));
        }
        let array = array("<i4", &[6], &[6], &attrs());
        writer.array("attrs", &array, codec).unwrap();
        let (_, left_out) = writer.finish().unwrap();
        let [array, map] = &left_out[..] else { panic!("{left_out:?}") };
        assert!(array.contains("attribute square: an array of 2 dimensions"), "{array}");
        assert!(map.contains("attribute map: a map"), "{map}");
    }
    entries
}

fn dims(names: &[&str]) -> (&'static str, Value) {
    ("_ARRAY_DIMENSIONS", Value::Array(names.iter().map(|&name| name.into()).collect()))
}

/// Writes a file with dimensions that have names.
fn write_dims(path: &Path, codec: Codec) {
    let mut writer = Writer::new(fs::File::create(path).unwrap(), "dims").unwrap();
    let mut put = |name: &str, dtype: &str, shape: &[u64], more: &[(&str, Value)]| {
        let chunks: Vec<u32> = shape.iter().map(|&length| (length as u32).min(3)).collect();
        writer.array(name, &array(dtype, shape, &chunks, more), codec).unwrap();
    };
    let kelvin = ("units", Value::from("K"));
    put("temperature", "<f4", &[4, 5, 6], &[dims(&["time", "lat", "lon"]), kelvin.clone()]);
    put("lat", "<f8", &[5], &[dims(&["lat"])]);
    put("lon", "<f8", &[6], &[dims(&["lon"])]);
    put("time", "<M8[s]", &[4], &[dims(&["time"])]);
    put("names", "<U9", &[5], &[dims(&["lat"])]);
    put("flags", "|i1", &[5, 2], &[dims(&["lat", "corner"])]);
    put("plain", "<i4", &[3], &[]);
    // In a group: a dimension of the group around it, one of this group, and one whose name means something else.
    put("inner/wind", "<f4", &[5, 7], &[dims(&["lat", "level"]), kelvin]);
    put("inner/odd", "<f4", &[8], &[dims(&["wind"])]);
    let (_, left_out) = writer.finish().unwrap();
    let [odd] = &left_out[..] else { panic!("{left_out:?}") };
    assert!(odd.starts_with("/inner/odd: dimension \"wind\" of length 8"), "{odd}");
}

/// Writes all files. Returns what is in those of `write_kinds`.
fn write(folder: &Path) -> Vec<serde_json::Value> {
    let entries = write_kinds(folder);
    for (name, codec) in CODECS {
        write_dims(&folder.join(format!("dims-{name}.h5")), codec);
    }
    entries
}

#[test]
fn many_data_sets_are_opened_one_after_the_other() {
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), "many").unwrap();
    let one = array("<i4", &[3], &[3], &[]);
    for n in 0..3000 {
        writer.array(&format!("/a{n}"), &one, Codec::None).unwrap();
    }
    let bytes = writer.finish().unwrap().0.into_inner();
    let file = File::from_reader(std::sync::Arc::new(bytes::Bytes::from(bytes)), "many", &Default::default());
    let file = file.unwrap();
    for n in (0..3000).rev() {
        let mut items = [0; 12];
        file.data_set(&format!("/a{n}")).unwrap().read_box(&[0], &[3], &mut items).unwrap();
        assert_eq!(items, [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    }
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for entry in write(folder.path()) {
        let text = |key: &str| entry[key].as_str().unwrap();
        let file = File::open(folder.path().join(text("file"))).unwrap();
        let data = file.data_set(text("path")).unwrap();
        let shape: Vec<u64> = serde_json::from_value(entry["shape"].clone()).unwrap();
        let chunks: Vec<u32> = serde_json::from_value(entry["chunks"].clone()).unwrap();
        assert_eq!(data.shape(), shape, "{entry}");
        if !shape.is_empty() && !shape.contains(&0) {
            assert_eq!(data.chunkshape().unwrap(), chunks, "{entry}");
        }
        let dtype = data.dtype().unwrap().clone();
        let wanted = Dtype::parse(text("dtype")).unwrap();
        match text("dtype") {
            "<M8[ms]" | "<m8[h]" => assert_eq!(dtype.as_str(), "<i8"),
            other if other.contains('U') => assert!(dtype.as_str().contains('U'), "{entry}"),
            _ => assert_eq!(dtype, wanted, "{entry}"),
        }
        let expected = fs::read(folder.path().join(text("bin"))).unwrap();
        let count = expected.len() / wanted.itemsize();
        let mut found = vec![0; count * dtype.itemsize()];
        data.read_box(&vec![0; shape.len()], &shape, &mut found).unwrap();
        if found.len() == expected.len() {
            assert_eq!(found, expected, "{entry}");
        } else {
            // Texts of variable length come back as long as the longest.
            let items = found.chunks(dtype.itemsize()).zip(expected.chunks(wanted.itemsize()));
            items.for_each(|(found, expected)| {
                assert_eq!(found, &expected[..found.len()], "{entry}");
            });
        }
        // Chunks of Blosc2 come back as they were.
        let is_blosc2 = text("codec") == "blosc2" && shape.len() > 1 && !shape.contains(&0);
        assert_eq!(data.moves(), is_blosc2 && !text("dtype").contains('U'), "{entry}");
    }
}

#[test]
fn attributes_and_scales_come_back() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for (codec, _) in CODECS {
        let file = File::open(folder.path().join(format!("kinds-{codec}.h5"))).unwrap();
        assert_eq!(file.group_attrs("/").unwrap().values, [("title".into(), "all".into())]);
        let data = file.data_set("attrs").unwrap();
        let found = |name: &str| &data.attrs().iter().find(|(own, _)| own == name).unwrap().1;
        for (name, value) in attrs() {
            match name {
                "map" | "square" => continue,
                // Lists of numbers are arrays.
                "ints" | "floats" => assert!(matches!(found(name), Value::Ext(46, _)), "{name}"),
                _ => assert_eq!(*found(name), value, "{name}"),
            }
        }
        let file = File::open(folder.path().join(format!("dims-{codec}.h5"))).unwrap();
        let names = |path: &str| {
            let data = file.data_set(path).unwrap();
            let found = data.attrs().iter().find(|(name, _)| name == "_ARRAY_DIMENSIONS");
            found.map(|(_, value)| value.to_string())
        };
        assert_eq!(names("temperature").unwrap(), r#"["time", "lat", "lon"]"#);
        assert_eq!(names("inner/wind").unwrap(), r#"["lat", "level"]"#);
        assert_eq!(names("flags").unwrap(), r#"["lat", "corner"]"#);
        assert!(file.data_set("corner").unwrap().is_dimension_only());
        assert!(!file.data_set("lat").unwrap().is_dimension_only());
    }
}

#[test]
fn lists_of_integers_are_exact_or_named() {
    let list = |numbers: [Value; 2]| Value::Array(numbers.to_vec());
    let own: [(&str, Value); 3] = [
        ("large", list([u64::MAX.into(), 1.into()])),
        ("mixed", list([u64::MAX.into(), (-1).into()])),
        ("rounded", list([((1_i64 << 53) + 1).into(), 0.5.into()])),
    ];
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), "memory").unwrap();
    writer.array("a", &array("<i4", &[3], &[3], &own), Codec::None).unwrap();
    let (bytes, left_out) = writer.finish().unwrap();
    let [mixed, rounded] = &left_out[..] else { panic!("{left_out:?}") };
    assert!(mixed.starts_with("/a: attribute mixed: a list of integers"), "{mixed}");
    assert!(rounded.starts_with("/a: attribute rounded: a list of integers"), "{rounded}");
    let bytes = std::sync::Arc::new(bytes::Bytes::from(bytes.into_inner()));
    let file = File::from_reader(bytes, "memory", &Default::default()).unwrap();
    let data = file.data_set("a").unwrap();
    let [(_, Value::Ext(46, large))] = data.attrs() else { panic!("{:?}", data.attrs()) };
    let items = [u64::MAX.to_le_bytes(), 1_u64.to_le_bytes()].concat();
    assert!(large.windows(3).any(|part| part == b"<u8") && large.ends_with(&items), "{large:?}");
}

#[test]
fn attributes_with_names_of_scales_are_kept_unless_it_is_a_scale() {
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), "memory").unwrap();
    let own: [(&str, Value); 2] = [("CLASS", "IMAGE".into()), ("NAME", 5.into())];
    let owned: Vec<_> = own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    writer.group("/", &owned).unwrap();
    let mut put = |name: &str, attrs: &[(&str, Value)]| {
        writer.array(name, &array("<i4", &[3], &[3], attrs), Codec::None).unwrap();
    };
    put("image", &own);
    put("former", &[("CLASS", "DIMENSION_SCALE".into()), ("NAME", "former".into())]);
    put("x", &[dims(&["x"]), own[0].clone()]);
    let (bytes, left_out) = writer.finish().unwrap();
    assert_eq!(left_out, ["/x: attribute CLASS: dimension scales have one of their own"]);
    let bytes = std::sync::Arc::new(bytes::Bytes::from(bytes.into_inner()));
    let file = File::from_reader(bytes, "memory", &Default::default()).unwrap();
    assert_eq!(file.group_attrs("/").unwrap().values, owned);
    assert_eq!(file.data_set("image").unwrap().attrs(), owned);
    assert_eq!(file.data_set("former").unwrap().attrs(), []);
    assert_eq!(file.data_set("x").unwrap().attrs().len(), 1);
}

#[test]
fn netcdf_opens_what_is_written_for_it() {
    let write = |name: &str, dims_of: &[&str], attr: &str, netcdf: bool| {
        let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), "memory").unwrap();
        writer.set_netcdf(netcdf);
        let square = array("<f4", &[3, 4], &[3, 4], &[dims(dims_of)]);
        writer.group("/", &[(attr.to_owned(), 1.into())]).unwrap();
        writer.array(name, &square, Codec::None).map_err(|error| error.to_string())?;
        writer.finish().map(|(_, left_out)| left_out.join("; ")).map_err(|error| error.to_string())
    };
    let (fits, long) = ("n".repeat(255), "n".repeat(256));
    assert_eq!(write(&fits, &["x", "y"], &fits, true).unwrap(), "");
    for (name, dims) in [(&*long, ["x", "y"]), ("a", ["x", &long]), ("_nc4_non_coord_a", ["x", "y"])] {
        let error = write(name, &dims, "title", true).unwrap_err();
        assert!(error.contains("netCDF cannot have this name"), "{error}");
        assert!(write(name, &dims, "title", false).is_ok(), "{name}");
    }
    // A variable of two dimensions named like one of them.
    for name in ["x", "y"] {
        let error = write(name, &["x", "y"], "title", true).unwrap_err();
        assert!(error.contains(&format!("dimension {name:?}")), "{error}");
    }
    for attr in ["_Netcdf4Dimid", "_NCProperties", &long] {
        assert!(write("a", &["x", "y"], attr, true).unwrap().contains("netCDF cannot have this name"));
        assert_eq!(write("a", &["x", "y"], attr, false).unwrap(), "");
    }
}

#[test]
fn what_cannot_be_written_is_named() {
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), "memory").unwrap();
    let ramp = array("<i4", &[4], &[4], &[]);
    writer.array("a", &ramp, Codec::None).unwrap();
    for (path, what) in
        [("a", "two of this name"), ("a/b", "both a data set and a group"), ("/", "without a name")]
    {
        let error = writer.array(path, &ramp, Codec::None).unwrap_err().to_string();
        assert!(error.contains(what), "{path}: {error}");
    }
    for (dtype, what) in [("<M8[Y]", "no unit"), ("<f16", "no type for items"), ("<M8", "no unit")] {
        let Ok(dtype) = Dtype::parse(dtype) else { continue };
        let odd = ArrayBuilder::of_dtype([2], dtype.clone()).to_bytes(b2nd::source::zeros()).unwrap();
        let error =
            writer.array("odd", &NdArray::from_bytes(odd).unwrap(), Codec::None).unwrap_err().to_string();
        assert!(error.contains(what), "{dtype}: {error}");
    }
    // A refused array leaves nothing behind, and the rest is written.
    let bytes = writer.finish().unwrap().0.into_inner();
    let file = File::from_reader(
        std::sync::Arc::new(bytes::Bytes::from(bytes)),
        "memory",
        &b2_core::Limits::default(),
    )
    .unwrap();
    let paths: Vec<String> = file.tree().unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["/", "/a"]);
}

#[test]
#[ignore = "needs Python with h5py, hdf5plugin, netCDF4, h5netcdf and xarray (B2KIT_HDF5_PYTHON)"]
fn other_libraries_read_what_is_written() {
    let python = std::env::var_os("B2KIT_HDF5_PYTHON").expect("B2KIT_HDF5_PYTHON names no Python");
    let folder = tempfile::tempdir().unwrap();
    let entries = write(folder.path());
    fs::write(folder.path().join("entries.json"), serde_json::to_string(&entries).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("written.py");
    let output = Command::new(python).arg("-B").arg(script).arg(folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    println!("{out}");
}
