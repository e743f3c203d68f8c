//! Crashes and errors while arrays change: shape and data are both old or both new.

#[path = "../../../b2-frame/tests/all/crash/mod.rs"]
mod crash;

use std::sync::Arc;

use self::crash::{PATH, Progress, Scenario};
use b2_chunk::{CodecId, Compression};
use b2_frame::{FrameError, FrameWriter, ReadOptions, Storage, SuperChunk};
use b2_storage_sim::SimFs;
use b2nd::{ArrayBuilder, ArrayEditor, Axis, NdArray, NdError};

fn options(fs: &SimFs) -> ReadOptions {
    SuperChunk::options().file_system(Arc::new(fs.clone()))
}

fn noise(items: usize, seed: u64) -> Vec<u8> {
    b2_testkit::Rng::case(seed, 0).bytes(items * 4)
}

fn frame_error(error: NdError) -> FrameError {
    match error {
        NdError::Frame(error) => error,
        // Appended items go through the editor's buffer first.
        NdError::Source(source) => FrameError::io("array")(source),
        other => panic!("{other:?}"),
    }
}

type Change<'a> = &'a dyn Fn(&mut ArrayEditor) -> Result<(), NdError>;

fn check_on(name: &str, builder: &dyn Fn() -> ArrayBuilder, changes: &[Change<'_>]) {
    for sparse in [false, true] {
        let start = |fs: &SimFs| {
            let builder = builder().write_options(FrameWriter::options().file_system(Arc::new(fs.clone())));
            let items: usize = builder.geometry().unwrap().shape().iter().product::<u64>() as usize;
            let data = noise(items, 1);
            match sparse {
                false => builder.write(PATH, &data[..]).unwrap(),
                true => builder.storage(Storage::Sparse).write(PATH, &data[..]).unwrap(),
            }
        };
        let steps = |fs: &SimFs, progress: &mut Progress<'_>| {
            let mut editor = NdArray::edit_with(PATH, &options(fs).into()).map_err(frame_error)?;
            for change in changes {
                change(&mut editor).and_then(|()| editor.commit()).map_err(frame_error)?;
                progress.committed();
            }
            // The shape that is read belongs to the chunks.
            if fs.failed().is_none() {
                NdArray::open_with(PATH, &options(fs))
                    .and_then(|array| array.all().read_bytes())
                    .map_err(frame_error)?;
            }
            Ok(())
        };
        let name = format!("array, {name}, {}", if sparse { "sparse" } else { "contiguous" });
        let scenario = Scenario { name: &name, start: &start, steps: &steps };
        scenario.survives_crashes();
        scenario.survives_errors();
    }
}

/// 40 x 30 items of four bytes in chunks of 16 x 16, those at two edges padded.
fn plane() -> ArrayBuilder {
    let cparams = Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).build().unwrap();
    ArrayBuilder::new::<u32>([40, 30]).chunks([16, 16]).blocks([8, 8]).compression(cparams)
}

#[test]
fn set_slice() {
    check_on("set a slice over chunks", &plane, &[&|e| e.set_bytes([10..30, 5..25], &noise(400, 2))]);
}

#[test]
fn resize() {
    check_on("grow, shrink", &plane, &[&|e| e.resize(&[50, 35]), &|e| e.resize(&[20, 33])]);
}

#[test]
fn append_and_set() {
    check_on(
        "append, set, append",
        &plane,
        &[&|e| {
            e.append(Axis(0), &noise(150, 3)[..])?;
            e.set_bytes([41..44, 0..30], &noise(90, 4))?;
            e.append(Axis(1), &noise(135, 5)[..])
        }],
    );
}

#[test]
fn insert_and_delete() {
    check_on(
        "insert, delete",
        &plane,
        &[&|e| e.insert(Axis(0), 7, &noise(120, 6)[..]), &|e| e.delete(1, 3..20)],
    );
}

#[test]
fn empty_and_grow() {
    check_on("empty, grow", &plane, &[&|e| e.resize(&[0, 30]), &|e| e.resize(&[17, 30])]);
}

/// A header of more than a sector: shape and chunks change in one write of several sectors.
#[test]
fn many_dimensions() {
    let many = || {
        let shape = [[1; 14].as_slice(), &[20, 30]].concat();
        let chunks = [[1; 14].as_slice(), &[16, 16]].concat();
        let cparams = Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).build().unwrap();
        let builder =
            ArrayBuilder::new::<u32>(shape).chunks(chunks.clone()).blocks(chunks).compression(cparams);
        (0..12).fold(builder, |builder, i| builder.metalayer(format!("layer{i}"), noise(40, i)))
    };
    let grown = [[1; 14].as_slice(), &[33, 30]].concat();
    check_on("16 dimensions, many metalayers", &many, &[&|e| e.resize(&grown)]);
}
