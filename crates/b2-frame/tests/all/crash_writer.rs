//! Crashes while a new frame is written.

use crate::crash;

use std::sync::Arc;

use crate::common::{compress, cparams, data};
use b2_frame::{FrameError, FrameParams, FrameWriter, Storage, WriteOptions};
use b2_storage_sim::SimFs;
use crash::{PATH, Progress, Scenario};

fn fill(mut writer: FrameWriter, seed: u64) -> Result<(), FrameError> {
    for i in 0..4 {
        writer.append(compress(&data(3000, seed + i), &cparams(4)))?;
    }
    writer.append_special(b2_chunk::SpecialKind::Zeros, 3000)?;
    writer.set_vlmetalayer("v", &data(2000, seed))?;
    writer.finish().map(drop)
}

fn options(fs: &SimFs) -> WriteOptions {
    FrameWriter::options().overwrite(true).file_system(Arc::new(fs.clone()))
}

fn params() -> FrameParams {
    FrameParams::from_cparams(&cparams(4)).metalayer("m", b"value")
}

fn contiguous(fs: &SimFs, seed: u64) -> Result<(), FrameError> {
    fill(options(fs).create(PATH, params())?, seed)
}

fn check(name: &str, start: &dyn Fn(&SimFs), steps: &dyn Fn(&SimFs) -> Result<(), FrameError>) {
    let steps = |fs: &SimFs, progress: &mut Progress<'_>| {
        steps(fs)?;
        progress.committed();
        Ok(())
    };
    let scenario = Scenario { name, start, steps: &steps };
    scenario.survives_crashes();
    scenario.survives_errors();
}

#[test]
fn a_new_contiguous_frame_is_there_whole_or_not_at_all() {
    check("new frame, contiguous", &|_| {}, &|fs| contiguous(fs, 1));
}

#[test]
fn a_new_sparse_frame_is_there_whole_or_not_at_all() {
    check("new frame, sparse", &|_| {}, &|fs| {
        fill(options(fs).storage(Storage::Sparse).create(PATH, params())?, 1)
    });
}

#[test]
fn a_contiguous_frame_is_replaced_whole_or_not_at_all() {
    check("replaced frame, contiguous", &|fs| contiguous(fs, 1).unwrap(), &|fs| contiguous(fs, 2));
}
