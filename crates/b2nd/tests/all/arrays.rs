//! Arrays against a plain model: all items in C order, slices by walking.

use b2_chunk::{CodecId, Compression, FilterId, FilterSlot};
use b2_frame::Storage;
use b2nd::{ArrayBuilder, Dtype, NdArray, NdError, Selection, range};
use proptest::prelude::*;

/// Items of all bytes different enough to notice a misplaced one.
fn items(nitems: usize, itemsize: usize) -> Vec<u8> {
    (0..nitems as u64)
        .flat_map(|i| {
            let mixed = (i / 3).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            (0..itemsize).map(move |k| mixed[k % 8].wrapping_add(k as u8))
        })
        .collect()
}

/// The positions a selection means, as Python walks them.
fn positions(selected: Selection, n: u64) -> Vec<u64> {
    let n = n as i64;
    match selected {
        Selection::Index(i) => vec![(if i < 0 { i + n } else { i }) as u64],
        Selection::Range { start, stop, step } => {
            let fix = |p: i64, low, high| (if p < 0 { p + n } else { p }).clamp(low, high);
            let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
            let (mut at, stop) = match step > 0 {
                true => (start.map_or(0, |s| fix(s, low, high)), stop.map_or(n, |s| fix(s, low, high))),
                false => (start.map_or(n - 1, |s| fix(s, low, high)), stop.map_or(-1, |s| fix(s, low, high))),
            };
            let mut out = Vec::new();
            while if step > 0 { at < stop } else { at > stop } {
                out.push(at as u64);
                at += step;
            }
            out
        }
        _ => unreachable!("not used here"),
    }
}

fn expected(raw: &[u8], shape: &[u64], itemsize: usize, selection: &[Selection]) -> Vec<u8> {
    let mut offsets = vec![0u64];
    for (dim, &n) in shape.iter().enumerate() {
        let selected = selection.get(dim).cloned().unwrap_or(Selection::ALL);
        let positions = positions(selected, n);
        offsets = offsets.iter().flat_map(|&o| positions.iter().map(move |&p| o * n + p)).collect();
    }
    offsets.iter().flat_map(|&o| raw[o as usize * itemsize..(o as usize + 1) * itemsize].to_vec()).collect()
}

fn dim() -> impl Strategy<Value = (u64, u32, u32, Selection)> {
    let edge = prop::option::of(-14..14i64);
    let step = prop_oneof![Just(1i64), Just(2), Just(3), Just(-1), Just(-2), Just(7)];
    (1..12u64, 1..9u32, 1..9u32, 0..4usize, edge.clone(), edge, step, 0..1000u64).prop_map(
        |(n, c, b, kind, start, stop, step, index)| {
            let selected = match kind {
                0 => Selection::Index((index % n) as i64 - if index % 2 == 0 { 0 } else { n as i64 }),
                _ => Selection::Range { start, stop, step },
            };
            (n, c, b.min(c), selected)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arrays_and_slices_match_the_model(
        dims in prop::collection::vec(dim(), 0..5),
        itemsize in prop::sample::select(vec![1usize, 2, 3, 4, 8, 12, 16, 300]),
        pipeline in 0..4usize,
        keep in 0..6usize,
    ) {
        let filters: &[FilterSlot] = match pipeline {
            0 => &[FilterSlot::SHUFFLE],
            1 => &[],
            2 => &[FilterSlot::DELTA, FilterSlot::SHUFFLE],
            _ => &[FilterSlot::BITSHUFFLE],
        };
        let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
        let selection: Vec<Selection> = dims.iter().map(|d| d.3.clone()).take(keep).collect();
        let raw = items(shape.iter().product::<u64>() as usize, itemsize);
        let cparams = Compression::new().itemsize(itemsize).codec(CodecId::LZ4).filters(filters).build().unwrap();
        let frame = ArrayBuilder::of_dtype(&shape[..], Dtype::parse(&format!("|V{itemsize}")).unwrap())
            .chunks(dims.iter().map(|d| d.1).collect::<Vec<_>>())
            .blocks(dims.iter().map(|d| d.2).collect::<Vec<_>>())
            .compression(cparams)
            .to_bytes(&raw[..])
            .unwrap();
        let array = NdArray::from_bytes(frame).unwrap();
        prop_assert_eq!(array.shape(), &shape[..]);
        prop_assert!(array.all().read_bytes().unwrap() == raw);
        let slice = array.slice(&selection).unwrap();
        let want = expected(&raw, &shape, itemsize, &selection);
        prop_assert_eq!(slice.nbytes() as usize, want.len());
        let mut dirty = vec![0xAA; want.len()];
        slice.read_bytes_into(&mut dirty).unwrap();
        prop_assert!(dirty == want, "{:?}", selection);
    }

    #[test]
    fn default_shapes_work_for_any_array(
        shape in prop::collection::vec(0..60u64, 0..4),
        itemsize in prop::sample::select(vec![1usize, 4, 7, 1000]),
    ) {
        let raw = items(shape.iter().product::<u64>() as usize, itemsize);
        let builder = ArrayBuilder::of_dtype(&shape[..], Dtype::parse(&format!("|V{itemsize}")).unwrap());
        let array = NdArray::from_bytes(builder.to_bytes(&raw[..]).unwrap()).unwrap();
        prop_assert!(array.all().read_bytes().unwrap() == raw);
    }
}

#[test]
fn sixteen_dimensions() {
    let shape = [2u64; 16];
    let raw = items(1 << 16, 2);
    let frame = ArrayBuilder::of_dtype(shape, Dtype::parse("<u2").unwrap())
        .chunks([1, 2, 1, 2, 1, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2])
        .blocks([1, 1, 1, 2, 1, 2, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2])
        .to_bytes(&raw[..])
        .unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    assert!(array.all().read_bytes().unwrap() == raw);
    let selection = [1; 15];
    assert_eq!(array.slice(selection).unwrap().read_bytes().unwrap(), raw[raw.len() - 4..]);
    assert!(matches!(
        ArrayBuilder::of_dtype([1u64; 17], Dtype::parse("<u2").unwrap()).to_bytes(&[0, 0][..]),
        Err(NdError::Geometry { .. })
    ));
}

#[test]
fn on_disk_contiguous_and_sparse() {
    let dir = tempfile::tempdir().unwrap();
    let raw = items(50 * 60 * 7, 4);
    let builder = ArrayBuilder::of_dtype([50, 60, 7], Dtype::parse("<i4").unwrap())
        .chunks([20, 20, 7])
        .metalayer("unit", b"\xa1K".to_vec())
        .vlmetalayer("history", b"\xa4made".to_vec());
    let (file, folder) = (dir.path().join("a.b2nd"), dir.path().join("b.b2nd"));
    builder.write(&file, &raw[..]).unwrap();
    builder.clone().storage(Storage::Sparse).write(&folder, &raw[..]).unwrap();
    for path in [&file, &folder] {
        let array = NdArray::open(path).unwrap();
        assert!(array.all().read_bytes().unwrap() == raw);
        let frame = array.super_chunk();
        assert_eq!(frame.metalayers().get("unit"), Some(&b"\xa1K"[..]));
        assert_eq!(frame.vlmetalayers().get("history").unwrap().unwrap(), b"\xa4made");
    }
    // Nothing is replaced by default.
    assert!(builder.write(&file, &raw[..]).is_err());
    builder
        .clone()
        .write_options(b2_frame::FrameWriter::options().overwrite(true))
        .write(&file, &raw[..])
        .unwrap();
    // A source that fails leaves neither the file nor litter.
    let short = &raw[1..];
    assert!(matches!(builder.write(dir.path().join("c"), short), Err(NdError::BufferLength { .. })));
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.b2nd", "b.b2nd"]);
}

#[cfg(feature = "rayon")]
#[test]
fn output_does_not_depend_on_the_number_of_threads() {
    let raw = items(300 * 301, 8);
    let builder = ArrayBuilder::of_dtype([300, 301], Dtype::parse("<f8").unwrap()).chunks([64, 64]);
    let write = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| builder.to_bytes(&raw[..]).unwrap())
    };
    let one = write(1);
    for threads in [2, 3, 8] {
        assert!(write(threads) == one);
    }
}

#[test]
fn many_threads_read_one_array() {
    let raw = items(200 * 200, 4);
    let frame = ArrayBuilder::of_dtype([200, 200], Dtype::parse("<i4").unwrap())
        .chunks([50, 50])
        .blocks([10, 50])
        .to_bytes(&raw[..])
        .unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8 {
            let (array, raw) = (&array, &raw);
            scope.spawn(move || {
                for i in 0..50 {
                    let (row, col) = ((i * 37 + t * 11) % 150, (i * 13 + t * 7) % 150);
                    let selection = [range(row..row + 30), range(col..col + 41)];
                    let got = array.slice(&selection).unwrap().read_bytes().unwrap();
                    assert!(got == expected(raw, &[200, 200], 4, &selection));
                }
            });
        }
    });
}

#[test]
fn bytedelta_without_a_parameter_uses_the_item_size() {
    let raw = items(1000, 4);
    let filters = [FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, 0)];
    let cparams = Compression::new().itemsize(4).filters(filters).build().unwrap();
    let builder = ArrayBuilder::of_dtype([1000], Dtype::parse("<i4").unwrap()).compression(cparams);
    let array = NdArray::from_bytes(builder.to_bytes(&raw[..]).unwrap()).unwrap();
    assert!(array.all().read_bytes().unwrap() == raw);
    // Otherwise C-Blosc2 changes the header when it changes a metalayer, and the header would not match its sum.
    assert_eq!(array.super_chunk().header().filters()[5], FilterSlot::new(FilterId::BYTEDELTA, 4));
}

#[test]
fn cells_need_the_shape_of_blocks_and_get_it() {
    let raw = items(40 * 30, 4);
    let filters = [FilterSlot::new(FilterId::NDCELL, 4), FilterSlot::SHUFFLE];
    let cparams = Compression::new().itemsize(4).filters(filters).build().unwrap();
    let builder = ArrayBuilder::of_dtype([40, 30], Dtype::parse("<i4").unwrap())
        .chunks([20, 15])
        .blocks([10, 7])
        .compression(cparams);
    let array = NdArray::from_bytes(builder.to_bytes(&raw[..]).unwrap()).unwrap();
    assert!(array.all().read_bytes().unwrap() == raw);
    let selection = [range(3..17), Selection::Index(11)];
    assert!(
        array.slice(&selection).unwrap().read_bytes().unwrap() == expected(&raw, &[40, 30], 4, &selection)
    );
}

#[test]
fn typed_reads_check_the_dtype_and_swap_bytes() {
    let raw: Vec<u8> = (0..100i32).flat_map(|i| i.to_be_bytes()).collect();
    let frame = ArrayBuilder::of_dtype([100], Dtype::parse(">i4").unwrap()).to_bytes(&raw[..]).unwrap();
    let array = NdArray::from_bytes(frame).unwrap();
    assert_eq!(array.all().read::<Vec<i32>>().unwrap(), (0..100).collect::<Vec<_>>());
    assert!(matches!(array.all().read::<Vec<f32>>(), Err(NdError::Element { .. })));
    // The file keeps its order.
    assert!(array.all().read_bytes().unwrap() == raw);
}

#[test]
fn structured_dtypes_survive() {
    let text = "[('a', '<i4'), ('b', '<f8', (2,))]";
    let dtype = Dtype::parse(text).unwrap();
    let raw = items(10, dtype.itemsize());
    let array = NdArray::from_bytes(ArrayBuilder::of_dtype([10], dtype).to_bytes(&raw[..]).unwrap()).unwrap();
    assert_eq!(array.dtype().as_str(), text);
    assert_eq!(array.dtype().fields().unwrap().len(), 2);
    assert!(array.all().read_bytes().unwrap() == raw);
}

#[test]
fn plain_super_chunks_are_no_arrays() {
    let writer = b2_frame::FrameWriter::memory(b2_frame::FrameParams::new(4)).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    assert!(matches!(NdArray::from_bytes(frame), Err(NdError::NotAnArray)));
}

#[cfg(feature = "ndarray")]
#[test]
fn ndarray_goes_in_and_out() {
    use ndarray::{Array3, ShapeBuilder, s};
    let source = Array3::from_shape_fn((20, 30, 8), |(i, j, k)| (i * 1000 + j * 10 + k) as f64);
    let fortran = Array3::from_shape_fn((20, 30, 8).f(), |(i, j, k)| (i * 1000 + j * 10 + k) as f64);
    for array in [&source, &fortran] {
        let builder = ArrayBuilder::new::<f64>([20, 30, 8]).chunks([7, 8, 8]);
        let stored = NdArray::from_bytes(builder.to_bytes(array).unwrap()).unwrap();
        assert_eq!(stored.dtype().as_str(), "<f8");
        assert_eq!(stored.all().read::<ndarray::ArrayD<f64>>().unwrap(), source.clone().into_dyn());
        let got =
            stored.slice((2..9, 5, range(..).step(-3))).unwrap().read::<ndarray::ArrayD<f64>>().unwrap();
        assert_eq!(got, source.slice(s![2..9, 5, ..;-3]).into_dyn());
    }
}

/// The offset of the options and that of their frame options are one.
#[test]
fn an_offset_holds_however_it_is_set_and_the_array_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let raw = items(60, 4);
    let frame = ArrayBuilder::of_dtype([5, 12], Dtype::parse("<i4").unwrap()).to_bytes(&raw[..]).unwrap();
    let archive = bytes::Bytes::from([b"before", &frame[..]].concat());
    std::fs::write(&path, &archive).unwrap();
    let inside = b2_frame::SuperChunk::options().offset(6);
    for options in [inside.clone(), inside.clone().offset(1).offset(6)] {
        let reader = std::sync::Arc::new(archive.clone());
        let frames = [options.from_reader(reader, "archive"), options.from_bytes(archive.clone())];
        for frame in frames.into_iter().chain([options.open(&path)]) {
            let array = NdArray::from_super_chunk(frame.unwrap()).unwrap();
            assert_eq!(array.all().read_bytes().unwrap(), raw);
        }
        assert_eq!(NdArray::open_with(&path, &options).unwrap().all().read_bytes().unwrap(), raw);
        // Frames inside of files are not changed.
        let error = NdArray::edit_with(&path, &options.into()).unwrap_err();
        assert!(error.to_string().contains("does not start at the beginning"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), archive);
    }
    let mut editing = b2_frame::EditOptions::from(inside);
    assert!(editing.edit_bytes(archive.clone()).is_err());
    editing = b2_frame::EditOptions::default();
    assert!(editing.edit_bytes(frame).is_ok());
}
