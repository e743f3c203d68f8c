//! No metalayer makes opening panic, and shapes that contradict the frame are refused.

use b2_chunk::{Chunk, Compression, Limits, SpecialKind};
use b2_core::ErrorKind;
use b2_frame::{EditOptions, FrameParams, FrameWriter, SuperChunk};
use b2_testkit::hostile::flips;
use b2nd::{ArrayBuilder, ArrayEditor, ArrayMeta, Axis, Dtype, NdArray, NdError, Selection, source};
use bytes::Bytes;
use proptest::prelude::*;

fn meta() -> ArrayMeta {
    ArrayMeta {
        shape: vec![10, 7],
        chunkshape: vec![5, 4],
        blockshape: vec![2, 4],
        dtype_format: 0,
        dtype: Some(b"<i4".to_vec()),
    }
}

/// A frame with this metalayer and four chunks of 6 x 4 items, as the shapes above need.
fn frame(name: &str, meta: &[u8]) -> Bytes {
    let cparams = Compression::new().itemsize(4).blocksize(32).build().unwrap();
    let params = FrameParams::from_cparams(&cparams).chunksize(96).metalayer(name, meta);
    let mut writer = FrameWriter::memory(params).unwrap();
    for i in 0..4u8 {
        writer.append(Chunk::compress_bytes(&[i; 96], &cparams).unwrap()).unwrap();
    }
    writer.finish().unwrap().into_bytes()
}

/// A frame may end with a short chunk, an array may not.
#[test]
fn a_short_last_chunk_is_damage() {
    let (meta, cparams) = (meta().to_bytes(), Compression::new().itemsize(4).blocksize(32).build().unwrap());
    for last in [None, Some(64)] {
        let params = FrameParams::from_cparams(&cparams).chunksize(96).metalayer("b2nd", &meta);
        let mut writer = FrameWriter::memory(params).unwrap();
        for i in 0..3u8 {
            writer.append(Chunk::compress_bytes(&[i, 1].repeat(48), &cparams).unwrap()).unwrap();
        }
        match last {
            Some(len) => writer.append(Chunk::compress_bytes(&noise(len), &cparams).unwrap()),
            None => writer.append_special(SpecialKind::Zeros, 64),
        }
        .unwrap();
        let bytes = writer.finish().unwrap().into_bytes();
        let array = NdArray::from_bytes(bytes.clone()).unwrap();
        assert!(array.slice((..5, ..4)).unwrap().read_bytes().is_ok());
        let damaged = |result: Result<(), NdError>| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            assert_eq!(error.to_string(), "chunk 3 has 64 bytes, the shape of the array needs 96");
        };
        damaged(array.all().read_bytes().map(drop));
        damaged(array.slice((9, 6)).unwrap().read::<Vec<i32>>().map(drop));
        damaged(array.points(([9], [6])).unwrap().read_bytes().map(drop));
        // Zeros of any length are as good as any others.
        if last.is_some() {
            let mut editor = NdArray::edit_bytes(bytes).unwrap();
            damaged(editor.set((9, 6), &[1i32]).and_then(|()| editor.commit().map(drop)));
        }
    }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Opens and reads; errors are fine.
fn exercise(bytes: Bytes) {
    if let Ok(array) = NdArray::from_bytes(bytes)
        && array.nbytes() < 1 << 24
    {
        let _ = array.all().read_bytes();
        let _ = array.all().read::<Vec<i32>>();
    }
}

#[test]
fn the_metalayer_survives_a_round_trip() {
    let bytes = meta().to_bytes();
    assert_eq!(ArrayMeta::parse("b2nd", &bytes).unwrap(), meta());
    assert_eq!(bytes.len(), 3 + (1 + 18) + 2 * (1 + 10) + 6 + 3);
    assert!(NdArray::from_bytes(frame("b2nd", &bytes)).is_ok());
}

#[test]
fn the_old_metalayer_is_read() {
    // Five parts, no dtype.
    let new = meta().to_bytes();
    let old = [&[0x95], &new[1..new.len() - 9]].concat();
    let array = NdArray::from_bytes(frame("caterva", &old)).unwrap();
    assert_eq!((array.shape(), array.itemsize(), array.dtype().as_str()), (&[10, 7][..], 4, "|V4"));
    assert_eq!(array.all().read_bytes().unwrap().len(), 280);
}

#[test]
fn a_dtype_that_makes_no_sense_leaves_opaque_items() {
    for dtype in [&b"<f8"[..], b"\xff\xfe", b"no such type", b"[('a', '<i2'", b""] {
        let meta = ArrayMeta { dtype: Some(dtype.to_vec()), ..meta() };
        let array = NdArray::from_bytes(frame("b2nd", &meta.to_bytes())).unwrap();
        assert_eq!(array.itemsize(), 4);
        assert_eq!(array.dtype().as_str(), String::from_utf8_lossy(dtype));
        assert!(array.all().read::<Vec<i32>>().is_err());
        assert!(array.all().read_bytes().is_ok());
    }
}

#[test]
fn contradictions_are_refused() {
    let with = |change: fn(&mut ArrayMeta)| {
        let mut meta = meta();
        change(&mut meta);
        NdArray::from_bytes(frame("b2nd", &meta.to_bytes())).map(|_| ())
    };
    assert!(with(|_| ()).is_ok());
    assert!(with(|m| m.shape[0] = 11).is_err());
    assert!(with(|m| m.shape[0] = 0).is_err());
    assert!(with(|m| m.shape[0] = u64::MAX / 2).is_err());
    assert!(with(|m| m.chunkshape[0] = 0).is_err());
    assert!(with(|m| m.blockshape[1] = 0).is_err());
    assert!(with(|m| m.blockshape[1] = 1 << 30).is_err());
    assert!(with(|m| m.shape.pop().map_or((), |_| ())).is_err());
    assert!(with(|m| m.chunkshape = vec![5, 3]).is_err());
}

#[test]
fn every_truncation_and_flip_of_the_metalayer_is_survived() {
    let bytes = meta().to_bytes();
    for len in 0..bytes.len() {
        assert!(ArrayMeta::parse("b2nd", &bytes[..len]).is_err(), "{len}");
        exercise(frame("b2nd", &bytes[..len]));
    }
    for (_, flipped) in flips(&bytes, 1) {
        exercise(frame("b2nd", &flipped));
    }
}

#[test]
fn flipped_bits_of_whole_frames_are_survived() {
    let raw: Vec<u8> = (0..3000u16).flat_map(|i| (i / 5).to_le_bytes()).collect();
    let frame = ArrayBuilder::of_dtype([50, 60], Dtype::parse("<u2").unwrap())
        .chunks([20, 30])
        .to_bytes(&raw[..])
        .unwrap();
    for (_, flipped) in flips(&frame, 1) {
        exercise(flipped.into());
    }
}

proptest! {
    #[test]
    fn any_metalayer_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        exercise(frame("b2nd", &bytes));
        exercise(frame("b2nd", &[&[0x97, 0, 2, 0x92, 0xd3][..], &bytes].concat()));
    }
}

/// An array without chunks can be read regardless of the chunk fields of its header; the first chunk would make it
/// unreadable.
#[test]
fn empty_arrays_whose_header_lies_are_not_changed() {
    let empty = |typesize: u32, chunksize: u32| {
        let array = ArrayBuilder::of_dtype([0, 7], Dtype::parse("<i4").unwrap()).chunks([5, 4]);
        let array = array.blocks([2, 4]).write_options(FrameWriter::options().checksums(false));
        let mut bytes = array.to_bytes([0u8; 0]).unwrap().to_vec();
        bytes[48..52].copy_from_slice(&typesize.to_be_bytes());
        bytes[58..62].copy_from_slice(&chunksize.to_be_bytes());
        bytes
    };
    for (typesize, chunksize) in [(1028, 96), (4, 100), (8, 96)] {
        let bytes = empty(typesize, chunksize);
        assert_eq!(NdArray::from_bytes(bytes.clone()).unwrap().nbytes(), 0);
        let error = NdArray::edit_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains("chunkshape"), "{error}");
    }
    // Unknown is not wrong.
    for chunksize in [96, 0] {
        let mut editor = NdArray::edit_bytes(empty(4, chunksize)).unwrap();
        editor.append(Axis(0), &[7u8; 28]).unwrap();
        editor.commit().unwrap();
        let array = NdArray::from_bytes(editor.into_bytes().unwrap());
        assert_eq!(array.unwrap().all().read_bytes().unwrap(), [7; 28]);
    }
}

/// A few bytes can describe a chunk of gigabytes; changing one item expands all of it.
#[test]
fn chunks_above_the_limit_for_memory_are_not_changed() {
    let builder = ArrayBuilder::new::<u8>([1 << 20]).chunks([1 << 20]).blocks([1 << 10]);
    let bytes = builder.to_bytes(source::zeros()).unwrap();
    for (max_memory, fits) in [(1 << 20, false), (2 << 20, true)] {
        let options = SuperChunk::options().limits(Limits::default().max_memory(max_memory));
        let frame = EditOptions::from(options).edit_bytes(bytes.clone()).unwrap();
        let mut editor = ArrayEditor::new(frame).unwrap();
        assert_eq!(editor.set([Selection::Index(5)], &[1u8]).is_ok(), fits);
        assert_eq!(editor.append(Axis(0), [1u8, 2, 3]).and_then(|()| editor.commit()).is_ok(), fits);
    }
}
