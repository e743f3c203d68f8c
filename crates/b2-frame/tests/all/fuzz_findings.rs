//! Inputs that fuzzing found (docs/contributing/fuzzing.md), one test each.

use std::fs;
use std::path::Path;

use b2_chunk::SpecialKind;
use b2_frame::{Durability, FrameParams, FrameWriter, SuperChunk, salvage};

fn input(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("findings").join(name)
}

/// 447 bytes that claim 4095 chunks of 4 MiB in blocks of 4 bytes: each lost chunk was replaced by one of 8 MB.
#[test]
fn salvage_of_a_small_file_writes_a_small_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out");
    let write = FrameWriter::options().durability(Durability::None);
    let report =
        salvage(input("salvage-tiny-blocks.b2frame"), &output, &SuperChunk::options(), &write).unwrap();
    assert_eq!(report.recovered, 0);
    assert!(fs::metadata(&output).unwrap().len() < 16 << 20, "{}", fs::metadata(&output).unwrap().len());
}

/// The same when such zeros are appended deliberately.
#[test]
fn zeros_in_tiny_blocks_stay_small() {
    let params = FrameParams::new(4).blocksize(4).chunksize(1 << 20);
    let mut writer = FrameWriter::memory(params).unwrap();
    // Not a multiple of the item size, so that an index entry cannot represent it.
    let nbytes = (1 << 20) - 3;
    writer.append_special(SpecialKind::Zeros, nbytes).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    assert!(frame.len() < 64 << 10, "{}", frame.len());
    let schunk = SuperChunk::from_bytes(frame).unwrap();
    assert_eq!(schunk.chunk(0).decompress().unwrap(), vec![0; nbytes]);
}
