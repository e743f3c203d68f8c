//! The table of block starts: changes maintain it, and as a mere hint it cannot cause wrong values.

use b2_chunk::{CParams, Chunk, Compression};
use b2_core::Control;
use b2_frame::{
    Checksums, Durability, FrameEditor, FrameError, FrameParams, FrameWriter, Read, ReadTuning, Storage,
    Structure, SuperChunk, WriteOptions,
};
use b2_testkit::hostile::flipped;

use crate::common::{data, stride};

const CHUNK: usize = 240_000;
const BLOCK: usize = 4000;
/// Costs of a reader that never reads a whole chunk to get one block.
const FAR: ReadTuning = ReadTuning::REMOTE
    .whole_chunk_max(1000)
    .head_len(64)
    .coalesce_gap(100)
    .coalesce_max(50_000)
    .adaptive(false);

fn cparams() -> CParams {
    Compression::new().itemsize(1).level(1).blocksize(BLOCK).filters(&[][..]).build().unwrap()
}

fn chunk(seed: u64) -> Vec<u8> {
    // Half of the blocks shrink to almost nothing, so that the others are not where a reader would guess.
    let noise = data(CHUNK, seed);
    let keep = |i: usize| ((i / BLOCK) as u64 + seed) % 60 < 29;
    noise.iter().enumerate().map(|(i, byte)| if keep(i) { *byte } else { 1 }).collect()
}

fn options() -> WriteOptions {
    FrameWriter::options().durability(Durability::None).block_starts(true)
}

fn params() -> FrameParams {
    FrameParams::from_cparams(&cparams()).chunksize(CHUNK)
}

fn frame(nchunks: u64, options: &WriteOptions) -> Vec<u8> {
    let mut writer = options.memory(params()).unwrap();
    for n in 0..nchunks {
        writer.append(Chunk::compress_bytes(&chunk(n), &cparams()).unwrap()).unwrap();
    }
    writer.finish().unwrap().into_bytes().to_vec()
}

/// Reads single blocks of all chunks as from remote storage. Returns the largest number of rounds that one took.
fn rounds(schunk: &SuperChunk, expected: &[Vec<u8>]) -> usize {
    rounds_of_every(1, schunk, expected)
}

/// Reads single blocks of every n-th chunk.
fn rounds_of_every(step: usize, schunk: &SuperChunk, expected: &[Vec<u8>]) -> usize {
    let schunk = schunk.clone().with_tuning(FAR);
    let mut most = 0;
    assert_eq!(expected.len(), schunk.nchunks());
    for (nchunk, plain) in expected.iter().enumerate().step_by(step) {
        for nblock in [0, 7, 13, 24, 47] {
            let (mut block, start) = (vec![0; BLOCK], (nchunk * CHUNK + nblock * BLOCK) as u64);
            let (places, dst) = schunk.byte_reads(start, &mut block).next().unwrap().unwrap();
            let mut read = Read::new(&schunk, places, dst, Control::new());
            let mut count = 0;
            while let Some(first) = read.need().unwrap() {
                let others = std::iter::from_fn(|| read.need().unwrap());
                let requests: Vec<_> = std::iter::once(first).chain(others).collect();
                count += 1;
                for request in requests {
                    let bytes =
                        schunk.files().open(request.extent.file).unwrap().read(&request.extent).unwrap();
                    read.put(request.id, bytes).unwrap();
                }
                std::iter::from_fn(|| read.job()).for_each(|job| job.run().unwrap());
            }
            read.finish().unwrap();
            assert_eq!(block, plain[nblock * BLOCK..(nblock + 1) * BLOCK], "{nchunk}, {nblock}");
            most = most.max(count);
        }
    }
    most
}

#[test]
fn blocks_are_found_in_one_round() {
    let with_starts = SuperChunk::from_bytes(frame(40, &options())).unwrap();
    let all: Vec<_> = (0..40).map(chunk).collect();
    assert_eq!(rounds(&with_starts, &all), 1);
    let without = SuperChunk::from_bytes(frame(40, &options().block_starts(false))).unwrap();
    assert_eq!(rounds(&without, &all), 2, "these chunks can be guessed, which tests nothing");
    let len = with_starts.block_starts_len().unwrap();
    let copies = [&with_starts, &without].map(|schunk| schunk.start_copy_len().unwrap());
    assert_eq!(len + copies[0], with_starts.header().frame_len() - without.header().frame_len() + copies[1]);
    // Two bytes per block and three numbers per chunk, and the list of pages.
    assert_eq!(len, 40 * (2 * 60 + 6) + 2 * 24 + 40);
    assert_eq!(without.block_starts_len(), None);
    assert_eq!((with_starts.dead_bytes().unwrap(), without.dead_bytes().unwrap()), (0, 0));
    let (compact, copy) = (with_starts.to_frame().unwrap(), without.to_frame().unwrap());
    assert!(SuperChunk::from_bytes(compact).unwrap().block_starts_len().is_some());
    assert!(SuperChunk::from_bytes(copy).unwrap().block_starts_len().is_none());
}

/// Flips every bit of the table: values stay right, and comparing checksums detects the damage.
#[test]
fn damaged_tables_cost_time_only() {
    let all: Vec<_> = (0..3).map(chunk).collect();
    for checksums in [true, false] {
        let good = frame(3, &options().checksums(checksums));
        let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
        let end = schunk.layout().index.end as usize + if checksums { 24 } else { 0 };
        // Including the table of block sums, whose list follows.
        let sums = schunk.block_sums_len().unwrap_or(0);
        let sums = sums + schunk.start_copy_len().unwrap_or(0);
        let table = end..end + (schunk.block_starts_len().unwrap() + sums) as usize;
        for at in table {
            for bit in 0..8 {
                let bad = SuperChunk::from_bytes(flipped(&good, 8 * at + bit)).unwrap();
                if bit == at % 8 {
                    assert!(rounds(&bad, &all) <= 2);
                }
                match bad.verify_checksums() {
                    Err(FrameError::Checksum {
                        structure: Structure::BlockStarts | Structure::BlockSums,
                        ..
                    }) if checksums => {}
                    Ok(Checksums::None) if !checksums => {}
                    other => panic!("byte {at}, bit {bit}: {other:?}"),
                }
            }
        }
    }
}

/// Tables with wrong content but valid sums.
#[test]
fn lying_tables_cost_time_only() {
    // The table of other chunks, with the sum of this index: both indices are equal, since the chunks have equal sizes.
    let good = frame(6, &options().checksums(false));
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let (start, end) = (schunk.layout().index.end as usize, schunk.layout().trailer.start as usize);
    let list = end - 24 - 40;
    let all: Vec<_> = (0..6).map(chunk).collect();
    for seed in 0..300u64 {
        let mut bad = good.clone();
        let noise = data(600, seed);
        for (at, value) in noise.chunks(3).take(1 + seed as usize % 8).map(|n| (n[0], n[1])) {
            let at = start + (usize::from(at) * 256 + usize::from(noise[599])) % (list - start);
            bad[at] = value;
        }
        if seed % 5 == 0 {
            // Change page lengths and counts.
            bad[list + 8 + seed as usize % 16] ^= noise[5];
        }
        let sum = twox_hash::XxHash3_64::oneshot(&bad[start..list]).to_le_bytes();
        bad[list + 16..list + 24].copy_from_slice(&sum);
        let sum = twox_hash::XxHash3_64::oneshot(&bad[list..end - 8]).to_le_bytes();
        bad[end - 8..end].copy_from_slice(&sum);
        let bad = SuperChunk::from_bytes(bad).unwrap();
        // A head of another length takes one more round, blocks at other positions another.
        assert!(rounds(&bad, &all) <= 3, "{seed}");
    }
}

#[test]
fn other_versions_are_left_alone() {
    for version in [0u8, 2, 255] {
        let mut other = frame(3, &options());
        let schunk = SuperChunk::from_bytes(other.clone()).unwrap();
        // The list of block sums follows it, and the page of block sums precedes it.
        let sums = schunk.block_sums_len().unwrap() as usize - 24 - 48;
        let sums = sums + schunk.start_copy_len().unwrap() as usize - 24;
        let starts = schunk.block_starts_len().unwrap() as usize;
        let list = schunk.layout().index.end as usize + 24 + sums + starts;
        other[list - 33] = version;
        let covered = list - 64..list - 8;
        let sum = twox_hash::XxHash3_64::oneshot(&other[covered]).to_le_bytes();
        other[list - 8..list].copy_from_slice(&sum);
        let schunk = SuperChunk::from_bytes(other).unwrap();
        assert_eq!(schunk.block_starts_len(), None);
        assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok);
    }
}

#[test]
fn changes_keep_it() {
    let dir = tempfile::tempdir().unwrap();
    for (n, sparse) in [false, true].into_iter().enumerate() {
        let path = dir.path().join(n.to_string());
        let storage = if sparse { Storage::Sparse } else { Storage::Contiguous };
        let mut editor = FrameEditor::create(&path, params(), &options().storage(storage)).unwrap();
        editor.set_cparams(cparams()).unwrap();
        drop(editor);
        type Change = fn(&mut FrameEditor, &mut Vec<u64>);
        let changes: Vec<(&str, Change)> = vec![
            ("append", |e, all| {
                for n in 0..130 {
                    e.append_bytes(&chunk(n)).unwrap();
                    all.push(n);
                }
            }),
            ("append more", |e, all| {
                e.append_bytes(&chunk(2000)).unwrap();
                all.push(2000);
            }),
            ("update", |e, all| {
                e.update_bytes(1, &chunk(20)).unwrap();
                all[1] = 20;
            }),
            ("insert", |e, all| {
                e.insert_bytes(0, &chunk(30)).unwrap();
                all.insert(0, 30);
            }),
            ("delete", |e, all| {
                e.delete(90).unwrap();
                all.remove(90);
            }),
            ("reorder", |e, all| {
                let mut order: Vec<usize> = (0..all.len()).collect();
                order.swap(1, 3);
                e.reorder(&order).unwrap();
                all.swap(1, 3);
            }),
            ("vlmetalayer", |e, _| e.vlmeta().set("v", b"\x01").unwrap()),
            ("rolled back", |e, _| {
                e.append_bytes(&chunk(50)).unwrap();
                e.rollback();
            }),
            ("after a rollback", |e, all| {
                e.append_bytes(&chunk(50)).unwrap();
                e.rollback();
                e.append_bytes(&chunk(60)).unwrap();
                all.push(60);
            }),
            ("compact", |e, _| {
                e.compact().unwrap();
            }),
        ];
        let mut all = Vec::new();
        for (name, change) in changes {
            let mut editor = FrameEditor::options().durability(Durability::None).edit(&path).unwrap();
            editor.set_block_starts(true).unwrap();
            editor.set_cparams(cparams()).unwrap();
            change(&mut editor, &mut all);
            let before = editor.commit().unwrap().bytes_written;
            drop(editor);
            let schunk = SuperChunk::open(&path).unwrap();
            assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok, "{name}, sparse {sparse}");
            let len = schunk.block_starts_len().unwrap();
            assert!(len >= all.len() as u64 * 126 && len < all.len() as u64 * 140, "{name}: {len}");
            if name == "append more" && !sparse {
                // The pages of the other chunks are not moved.
                assert!(before < 60_000 + CHUNK as u64, "{before}");
            }
            // The first chunk of a page fetches it.
            let expected: Vec<_> = all.iter().map(|seed| chunk(*seed)).collect();
            let step = stride();
            rounds_of_every(step, &schunk, &expected);
            assert_eq!(rounds_of_every(step, &schunk, &expected), 1, "{name}, sparse {sparse}");
        }
        // Empty the frame, fill it again, and remove the table.
        let mut editor = FrameEditor::options().durability(Durability::None).edit(&path).unwrap();
        assert!(editor.has_block_starts());
        editor.set_cparams(cparams()).unwrap();
        (0..editor.nchunks()).for_each(|_| editor.delete(0).unwrap());
        editor.commit().unwrap();
        assert_eq!(SuperChunk::open(&path).unwrap().block_starts_len(), None);
        editor.append_bytes(&chunk(5)).unwrap();
        editor.commit().unwrap();
        assert!(SuperChunk::open(&path).unwrap().block_starts_len().is_some());
        editor.set_block_starts(false).unwrap();
        editor.commit().unwrap();
        assert_eq!(SuperChunk::open(&path).unwrap().block_starts_len(), None);
        assert_eq!(SuperChunk::open(&path).unwrap().verify_checksums().unwrap(), Checksums::Ok);
    }
}

#[test]
fn too_large_tables_are_left_out() {
    // 40 blocks of 1000 bytes in each of 15,000 chunks.
    let cparams = Compression::new().itemsize(1).level(0).blocksize(512).build().unwrap();
    let chunk = Chunk::compress_bytes(&data(20_480, 1), &cparams).unwrap();
    for (nchunks, fits) in [(5_000, true), (20_000, false)] {
        let params = FrameParams::from_cparams(&cparams).chunksize(20_480);
        let mut writer = options().memory(params).unwrap();
        for _ in 0..nchunks {
            writer.append(chunk.clone()).unwrap();
        }
        let schunk = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
        assert_eq!(schunk.block_starts_len().is_some(), fits);
        assert!(schunk.block_starts_len().is_none_or(|len| len <= 1 << 20));
        assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok);
    }
}
