//! Crashes and errors while arrays change: shape and data are both old or both new.

#[path = "../../b2-frame/tests/crash/mod.rs"]
mod crash;

use std::sync::Arc;

use b2_chunk::{CParams, CodecId};
use b2_frame::{FrameError, FrameWriter, SuperChunk};
use b2_storage_sim::SimFs;
use b2nd::{ArrayBuilder, ArrayEditor, NdArray, NdError};
use crash::{PATH, Progress, Scenario};

/// What the shared part takes from its neighbours.
mod common {
    /// Bytes that compress somewhat, different for each seed.
    pub(crate) fn data(len: usize, seed: u64) -> Vec<u8> {
        (0..len as u64).map(|i| ((i * (seed + 3)) >> 4) as u8).collect()
    }
}

fn options(fs: &SimFs) -> b2nd::ArrayOptions {
    NdArray::options().frame_options(SuperChunk::options().file_system(Arc::new(fs.clone())))
}

fn noise(items: usize, seed: u64) -> Vec<u8> {
    b2_storage_sim::Rng::new(seed).bytes(items * 4)
}

fn frame_error(error: NdError) -> FrameError {
    match error {
        NdError::Frame(error) => error,
        // What is appended goes through a buffer of the editor's first.
        NdError::Source(source) => FrameError::Io { name: "array".into(), source },
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
                false => builder.create(PATH, &mut &data[..]).unwrap(),
                true => builder.create_sparse(PATH, &mut &data[..]).unwrap(),
            }
        };
        let steps = |fs: &SimFs, progress: &mut Progress<'_>| {
            let mut editor = options(fs).edit(PATH).map_err(frame_error)?;
            for change in changes {
                change(&mut editor).and_then(|()| editor.commit()).map_err(frame_error)?;
                progress.committed();
            }
            // The shape that is read belongs to the chunks.
            if fs.failed().is_none() {
                options(fs).open(PATH).and_then(|array| array.all().read()).map_err(frame_error)?;
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
    let cparams = CParams::builder(4).codec(CodecId::BLOSCLZ).build().unwrap();
    ArrayBuilder::of::<u32>([40, 30]).chunkshape([16, 16]).blockshape([8, 8]).cparams(cparams)
}

#[test]
fn set_slice() {
    check_on("set a slice over chunks", &plane, &[&|e| e.set_slice([10..30, 5..25], &noise(400, 2))]);
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
            e.append(0, 5, &mut &noise(150, 3)[..])?;
            e.set_slice([41..44, 0..30], &noise(90, 4))?;
            e.append(1, 3, &mut &noise(135, 5)[..])
        }],
    );
}

#[test]
fn insert_and_delete() {
    check_on(
        "insert, delete",
        &plane,
        &[&|e| e.insert(0, 7, 4, &mut &noise(120, 6)[..]), &|e| e.delete(1, 3..20)],
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
        let cparams = CParams::builder(4).codec(CodecId::BLOSCLZ).build().unwrap();
        let builder =
            ArrayBuilder::of::<u32>(shape).chunkshape(chunks.clone()).blockshape(chunks).cparams(cparams);
        (0..12).fold(builder, |builder, i| builder.metalayer(format!("layer{i}"), noise(40, i)))
    };
    let grown = [[1; 14].as_slice(), &[33, 30]].concat();
    check_on("16 dimensions, many metalayers", &many, &[&|e| e.resize(&grown)]);
}
