//! Interoperability with zarr-python with the package b2kit, and with imagecodecs if installed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use b2_testkit::Rng;
use zarrs::array::codec::ShardingCodecBuilder;
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, FillValue};
use zarrs::filesystem::FilesystemStore;
use zarrs::plugin::ExtensionName;
use zarrs_b2nd::{B2ndCodec, Blosc2Codec};

use crate::random::{a_box, codec, types};
use crate::store::{cut, fixed, shape};

const SHAPE: [u64; 2] = [110, 70];
const CHUNK: [u64; 2] = [60, 50];

/// Returns whether zarr-python has this data type as well.
fn shared(name: &str) -> bool {
    let only_here = ["bfloat16", "float8_e4m3", "complex_bfloat16", "int4"];
    // Each names raw bytes in a way the other does not know.
    !only_here.contains(&name) && !name.starts_with('r')
}

/// Writes arrays of all types, each with a file of its items in C order. Returns their number.
fn write(folder: &Path) -> usize {
    let mut count = 0;
    let mut write = |name: String, builder: &ArrayBuilder, itemsize: usize, is_bool: bool, is_text: bool| {
        let path = folder.join(format!("{name}.zarr"));
        let array = builder.build(Arc::new(FilesystemStore::new(&path).unwrap()), "/").unwrap();
        array.store_metadata().unwrap();
        let mut rng = Rng::case(81, count as u64);
        let nitems = (SHAPE[0] * SHAPE[1]) as usize;
        let mut items: Vec<u8> = (0..nitems * itemsize).map(|_| rng.below(4) as u8).collect();
        if is_bool {
            items.iter_mut().for_each(|item| *item &= 1);
        }
        if is_text {
            items = (0..nitems * itemsize / 4)
                .flat_map(|_| u32::from(*rng.pick(&['a', 'ä', '€'])).to_ne_bytes())
                .collect();
        }
        let whole = ArraySubset::new_with_shape(SHAPE.to_vec());
        array.store_array_subset(&whole, ArrayBytes::new_flen(items.clone())).unwrap();
        fs::write(folder.join(format!("{name}.bytes")), items).unwrap();
        count += 1;
    };
    for (n, kind) in types().into_iter().enumerate() {
        let name = kind.name_v3().unwrap().to_string();
        if !shared(&name) {
            continue;
        }
        let size = kind.fixed_size().unwrap();
        let (is_bool, is_text) = (name == "bool", name == "fixed_length_utf32");
        let fill = FillValue::new(vec![0; size]);
        let builder = || ArrayBuilder::new(SHAPE.to_vec(), CHUNK.to_vec(), kind.clone(), fill.clone());
        let mut rng = Rng::case(82, n as u64);
        let mut with = |label: &str, outer: Arc<dyn ArrayToBytesCodecTraits>| {
            let mut builder = builder();
            builder.array_to_bytes_codec(outer);
            write(format!("{label}-{n}"), &builder, size, is_bool, is_text);
        };
        with("b2nd", Arc::new(codec(&mut rng, &CHUNK)));
        let inner = Arc::new(codec(&mut rng, &[30, 25]));
        with(
            "sharded",
            ShardingCodecBuilder::new(shape(&[30, 25]), &kind).array_to_bytes_codec(inner).build_arc(),
        );
        let mut builder = builder();
        builder.bytes_to_bytes_codecs(vec![Arc::new(Blosc2Codec::new().codec("lz4").typesize(size as u8))]);
        write(format!("blosc2-{n}"), &builder, size, is_bool, is_text);
    }
    // The defaults, also in the metadata.
    let mut builder =
        ArrayBuilder::new(SHAPE.to_vec(), CHUNK.to_vec(), zarrs::array::data_type::int32(), 5i32);
    builder.array_to_bytes_codec(Arc::new(B2ndCodec::new()));
    write("defaults".to_owned(), &builder, 4, false, false);
    count
}

/// Reads such arrays, whole and in parts, and compares their items. Returns their number.
fn read(folder: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "zarr") {
            continue;
        }
        let expected = fs::read(path.with_extension("bytes")).unwrap();
        let name = path.display();
        let array = Array::open(Arc::new(FilesystemStore::new(&path).unwrap()), "/");
        let array = array.unwrap_or_else(|error| panic!("{name}: {error}"));
        let lengths = array.shape().to_vec();
        let itemsize = array.data_type().fixed_size().unwrap();
        let read = |subset: &ArraySubset| {
            let found = array.retrieve_array_subset::<ArrayBytes>(subset);
            fixed(found.unwrap_or_else(|error| panic!("{name}: {error}")))
        };
        assert!(read(&ArraySubset::new_with_shape(lengths.clone())) == expected, "{name}");
        let mut rng = Rng::case(83, count as u64);
        for _ in 0..8 {
            let ranges = a_box(&mut rng, &lengths);
            let subset = ArraySubset::new_with_ranges(&ranges);
            assert!(
                read(&subset) == cut(&expected, itemsize, &lengths, &subset.to_ranges()),
                "{name} {ranges:?}"
            );
        }
        count += 1;
    }
    count
}

/// `B2KIT_ZARR_PYTHON` is a Python with zarr 3.1 and this repository's package; `.ci/run` sets it.
#[test]
#[ignore = "needs a Python with zarr and b2kit, named by B2KIT_ZARR_PYTHON"]
fn zarr_python_reads_what_zarrs_writes_and_the_other_way_round() {
    let python = std::env::var_os("B2KIT_ZARR_PYTHON").expect("B2KIT_ZARR_PYTHON must name a Python");
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("rust");
    fs::create_dir(&ours).unwrap();
    let written = write(&ours);
    assert!(written >= 50, "{written}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("interop.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    let number = |word: &str| -> usize {
        let line = said.lines().find_map(|line| line.strip_prefix(word)).expect("a line of the script");
        line.trim().parse().unwrap()
    };
    assert_eq!(number("read"), written, "{said}");
    assert_eq!(read(&folder.path().join("python")), number("written"), "{said}");
    assert!(number("written") >= 54);
    println!("{said}");
}
