//! Selections of data sets, compared with the same selections of the array that was written.

use std::io;
use std::sync::Arc;

use b2_core::{Control, Limits};
use b2_frame::ReadAt;
use b2_hdf5::{Codec, File, Hdf5Error, Writer};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, Dtype, NdArray, Selection};
use bytes::Bytes;

/// A list of positions, some of them from the end.
fn list(rng: &mut Rng, length: u64, count: usize) -> Selection {
    let mut position = || rng.below(length as usize) as i64 - length as i64 * rng.below(2) as i64;
    Selection::List((0..count).map(|_| position()).collect())
}

#[test]
fn selections_are_those_of_the_array() {
    let mut rng = Rng::new(25);
    let dtype = Dtype::parse("[('a', '<u2'), ('b', '|i1', (3,))]").unwrap();
    for codec in [Codec::Blosc2, Codec::Gzip(1), Codec::None] {
        for _ in 0..30 {
            let shape: Vec<u64> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(20) as u64).collect();
            let chunks: Vec<u32> = shape.iter().map(|&n| 1 + rng.below(n as usize) as u32).collect();
            let blocks: Vec<u32> = chunks.iter().map(|&n| 1 + rng.below(n as usize) as u32).collect();
            let items: Vec<u8> =
                (0..shape.iter().product::<u64>() * 5).map(|n| (n * 7 + n / 256) as u8).collect();
            let builder = ArrayBuilder::of_dtype(shape.clone(), dtype.clone()).chunks(chunks).blocks(blocks);
            let array = NdArray::from_bytes(builder.to_bytes(&items[..]).unwrap()).unwrap();
            let mut writer = Writer::new(io::Cursor::new(Vec::new()), "memory").unwrap();
            writer.array("data", &array, codec).unwrap();
            let file: Arc<dyn ReadAt> = Arc::new(Bytes::from(writer.finish().unwrap().0.into_inner()));
            let file = File::from_reader(file, "memory", &Limits::default()).unwrap();
            let data = file.data_set("data").unwrap();
            let outline = data.outline().unwrap();
            for _ in 0..8 {
                let mut part = |length: u64| match rng.below(5) {
                    0 => Selection::Index(rng.below(length as usize) as i64),
                    1 => list(&mut rng, length, 4),
                    2 => Selection::mask((0..length).map(|_| rng.below(3) == 0).collect::<Vec<_>>()),
                    3 => Selection::Range { start: None, stop: None, step: [1, -1, 2, -3][rng.below(4)] },
                    _ => Selection::Range { start: Some(rng.below(3) as i64), stop: None, step: 1 },
                };
                let dims: Vec<Selection> = shape.iter().map(|&length| part(length)).collect();
                let points: Vec<Selection> = shape.iter().map(|&length| list(&mut rng, length, 5)).collect();
                let slices = |array: &NdArray| {
                    let all = [
                        array.slice(dims.clone()).unwrap(),
                        array.points(points.clone()).unwrap(),
                        array.all().transpose(),
                    ];
                    all.into_iter().flat_map(|slice| [slice.field("b").unwrap(), slice]).collect::<Vec<_>>()
                };
                for (own, expected) in slices(&outline).into_iter().zip(slices(&array)) {
                    let mut found = vec![9; own.nbytes() as usize];
                    let control = Control::new().threads(1 + rng.below(2));
                    data.read_slice(&own, &control, &mut found).unwrap();
                    assert_eq!(
                        found,
                        expected.read_bytes().unwrap(),
                        "{codec:?} {shape:?} {dims:?} {points:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_and_damaged_selections_are_errors() {
    let builder = ArrayBuilder::new::<u32>([40, 50]).chunks([10, 10]);
    let items: Vec<u32> = (0..2000).collect();
    let array = NdArray::from_bytes(builder.to_bytes(&items).unwrap()).unwrap();
    let mut writer = Writer::new(io::Cursor::new(Vec::new()), "memory").unwrap();
    writer.array("data", &array, Codec::Gzip(1)).unwrap();
    let mut bytes = writer.finish().unwrap().0.into_inner();
    let open = |bytes: &[u8]| {
        let file =
            File::from_reader(Arc::new(Bytes::copy_from_slice(bytes)), "memory", &Limits::default()).unwrap();
        file.data_set("data").unwrap()
    };
    let data = open(&bytes);
    let other = NdArray::from_bytes(ArrayBuilder::new::<u32>([3]).to_bytes(&[1_u32, 2, 3]).unwrap()).unwrap();
    let read = data.read_slice(&other.all(), &Control::new(), &mut [0; 12]);
    assert!(matches!(read, Err(Hdf5Error::Argument { .. })), "{read:?}");
    let slice = data.outline().unwrap().slice(([3, 1], ..)).unwrap();
    let read = data.read_slice(&slice, &Control::new(), &mut [0; 12]);
    assert!(read.is_err());
    // The chunks are damaged: the error is that of the data set.
    let starts: Vec<usize> = (0..bytes.len() - 1).filter(|&n| bytes[n..n + 2] == [0x78, 0x01]).collect();
    assert!(!starts.is_empty());
    starts.iter().for_each(|&n| bytes[n] = 0xFF);
    let data = open(&bytes);
    let mut rows = vec![0; slice.nbytes() as usize];
    let read = data.read_slice(&slice, &Control::new(), &mut rows);
    assert!(matches!(read, Err(Hdf5Error::Damaged { .. })), "{read:?}");
}

#[test]
fn a_full_disk_is_an_error_of_writing() {
    let items: Vec<u32> = (0..2000).collect();
    let builder = ArrayBuilder::new::<u32>([40, 50]).chunks([10, 10]);
    let array = NdArray::from_bytes(builder.to_bytes(&items).unwrap()).unwrap();
    for room in [10, 300, 1500] {
        let mut disk = vec![0; room];
        let written = Writer::new(io::Cursor::new(&mut disk[..]), "full.h5").and_then(|mut writer| {
            writer.array("data", &array, Codec::None)?;
            writer.finish().map(drop)
        });
        assert_eq!(written.unwrap_err().to_string(), "cannot write full.h5", "{room}");
    }
}
