//! Headers against each other, in frames without checksums.

use std::fs;
use std::path::Path;

use crate::common::*;
use b2kit::chunk::{Compression, FilterSlot};
use b2kit::frame::CrossCheck;
use b2kit::frame::FrameParams;
use b2kit::{Chunk, NdArray, SuperChunk};

fn check(frame: &[u8], uniform: bool) -> CrossCheck {
    SuperChunk::from_bytes(frame.to_vec()).unwrap().cross_check(uniform).unwrap()
}

#[track_caller]
fn damaged(frame: &[u8], says: &str) {
    let found = check(frame, true);
    let first = found.damage.first().map(ToString::to_string).unwrap_or_default();
    assert!(first.contains(says), "{found:?}");
}

#[track_caller]
fn odd(frame: &[u8], uniform: bool, says: &str) {
    let found = check(frame, uniform);
    let first = found.odd.first().map(ToString::to_string).unwrap_or_default();
    assert!(found.damage.is_empty() && first.contains(says), "{found:?}");
}

#[test]
fn nothing_is_odd_about_files_of_c_blosc2() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/c-blosc2");
    let mut seen = 0;
    for release in fs::read_dir(releases).unwrap() {
        for kind in ["frame", "array"] {
            for file in fs::read_dir(release.as_ref().unwrap().path().join(kind)).into_iter().flatten() {
                let path = file.unwrap().path();
                // Stores are there as well.
                let Ok(frame) = SuperChunk::open(&path) else { continue };
                let found = frame.cross_check(kind == "array").unwrap();
                assert!(found.damage.is_empty() && found.odd.is_empty(), "{}: {found:?}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen} files");
}

#[test]
fn nothing_is_odd_about_our_own() {
    for frame in [frame(), array()] {
        let found = check(&frame, true);
        assert!(found.damage.is_empty() && found.odd.is_empty() && found.more == 0, "{found:?}");
    }
}

#[test]
fn a_chunk_of_an_array_with_another_pipeline_is_damaged() {
    let array = array();
    let place = places(&array)[5];
    damaged(&patched(&array, place + 0x15, &[3]), "field `filters` at byte 21 is 3, expected what the frame");
    damaged(&patched(&array, place + 0x1D, &[0x40]), "field `filters_meta` at byte 29 is 64");
    damaged(&patched(&array, place + 3, &[5]), "field `typesize` at byte 3 is 5, expected the item size");
    damaged(&patched(&array, place + 0x1F, &[0x80]), "instrumented");
    // More than one bit, or more than one chunk, may be meant.
    odd(&patched(&array, place + 0x15, &[2]), true, "field `filters` at byte 21 is 2");
    let two = patched(&patched(&array, place + 0x15, &[3]), places(&array)[2] + 0x15, &[3]);
    odd(&two, true, "field `filters` at byte 21 is 3");
    // So may anything in a super-chunk.
    odd(&patched(&array, place + 0x15, &[3]), false, "field `filters` at byte 21 is 3");
    odd(&patched(&array, place + 3, &[5]), false, "field `typesize` at byte 3 is 5");
}

#[test]
fn a_special_chunk_with_blocks_is_damaged() {
    let array = array();
    for kind in [1, 2, 4] {
        let odd = patched(&array, places(&array)[4] + 0x1F, &[kind << 4]);
        damaged(&odd, "field `cbytes` at byte 12 is");
        assert!(NdArray::from_bytes(odd).unwrap().all().read_bytes().is_ok(), "read all the same");
    }
}

#[test]
fn chunks_that_overlap_are_odd() {
    let params = || FrameParams::from_cparams(&cparams(4));
    let stored = Compression::new().itemsize(4).level(0).build().unwrap();
    let raw = data(1200);
    let parts: Vec<Chunk> =
        raw.chunks(400).map(|part| Chunk::compress_bytes(part, &stored).unwrap()).collect();
    // A whole chunk inside another one.
    let inner = Chunk::compress_bytes(&raw[..300], &stored).unwrap();
    let outer = Chunk::compress_bytes(inner.as_bytes(), &stored).unwrap();
    let frame = frame_of([outer, inner.clone(), parts[0].clone()], params());
    let at = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.start as usize;
    odd(&patched(&frame, at + 32 + 8, &32u64.to_le_bytes()), false, "decoded index field `entry` at byte 8");
    let frame = frame_of(parts, params());
    let at = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.start as usize;
    odd(&patched(&frame, at + 32 + 16, &0u64.to_le_bytes()), true, "bytes that belong to no other chunk");
    assert_eq!(check(&frame, true).odd.len(), 0);
}

#[test]
fn blocks_of_variable_lengths_in_some_chunks_are_odd() {
    let cparams = cparams(1);
    let vl = || Chunk::compress_vl(&[&data(100), &data(50)], &cparams).unwrap();
    let frame = frame_of([vl(), vl()], FrameParams::from_cparams(&cparams));
    assert!(check(&frame, false).odd.is_empty());
    // The second made an ordinary chunk of the same size, in the same place.
    let at = places(&frame)[1];
    let room = vl().cbytes() - 32;
    let body = [&36u32.to_le_bytes()[..], &(-7i32).to_le_bytes(), &[1]].concat();
    let mut plain = chunk(0x15, 1, 150, 150, 0, &[&body[..], &vec![0; room - body.len()]].concat());
    plain[21] = frame[at + 21];
    odd(&patched(&frame, at, &plain), false, "field `flags2` at byte 30");
}

/// Reliability: hardly any single bit of a header changes the data unnoticed.
#[test]
fn flipped_header_bits_are_told() {
    let mut filters = [FilterSlot::EMPTY; 6];
    filters[5] = FilterSlot::BITSHUFFLE;
    let raw = data(1200);
    let zstd = Compression::new().itemsize(4).filters(filters).build().unwrap();
    let chunks = raw.chunks(400).map(|part| Chunk::compress_bytes(part, &zstd).unwrap());
    let super_chunk = frame_of(chunks, FrameParams::from_cparams(&zstd));
    for (frame, uniform) in [(array(), true), (super_chunk, false)] {
        let read = |frame: &[u8]| match uniform {
            true => NdArray::from_bytes(frame.to_vec()).ok()?.all().read_bytes().ok(),
            false => whole(frame).ok(),
        };
        let raw = read(&frame).unwrap();
        let (mut flips, mut silent) = (0, Vec::new());
        let headers = places(&frame).into_iter().chain([0]);
        for (header, len) in headers.map(|at| (at, if at == 0 { 87 } else { 32 })) {
            for bit in 0..len * 8 {
                let at = header + bit / 8;
                let flipped = patched(&frame, at, &[frame[at] ^ 1 << (bit % 8)]);
                flips += 1;
                if read(&flipped).is_some_and(|plain| plain != raw) {
                    let found = check(&flipped, uniform);
                    if found.damage.is_empty() && found.odd.is_empty() {
                        silent.push((at - header, bit % 8));
                    }
                }
            }
        }
        assert!(silent.len() * 100 <= flips, "{} of {flips}: {silent:?}", silent.len());
    }
}
