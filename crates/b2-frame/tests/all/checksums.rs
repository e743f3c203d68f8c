//! Checksums: damage is detected and located, distinguished from changes by other programs, and our own changes keep
//! the checksums correct.

use std::fs;
use std::path::Path;

use crate::common::{compress, cparams, data, stride};
use b2_chunk::{Chunk, Compression, SpecialKind};
use b2_frame::{
    Checksums, Compare, Durability, EditOptions, FrameEditor, FrameError, FrameParams, FrameWriter, Storage,
    Structure, SuperChunk,
};
use b2_testkit::hostile::flipped;

const CHUNK: usize = 3000;

/// Writes five chunks (one of them only in the index), a metalayer and a vlmetalayer.
fn fill(writer: &mut FrameWriter) {
    for nchunk in 0..5 {
        match nchunk {
            2 => writer.append_special(SpecialKind::Zeros, CHUNK).unwrap(),
            n => writer.append(compress(&data(CHUNK, n), &cparams(4))).unwrap(),
        };
    }
    writer.set_vlmetalayer("note", b"\xa5hello").unwrap();
}

fn params() -> FrameParams {
    FrameParams::from_cparams(&cparams(4)).chunksize(CHUNK).metalayer("m", b"\x01\x02\x03")
}

fn frame() -> Vec<u8> {
    let mut writer = FrameWriter::memory(params()).unwrap();
    fill(&mut writer);
    writer.finish().unwrap().into_bytes().to_vec()
}

fn verdict(frame: Vec<u8>) -> Result<Checksums, FrameError> {
    SuperChunk::from_bytes(frame)?.verify_checksums()
}

fn fast() -> EditOptions {
    FrameEditor::options().durability(Durability::None)
}

#[test]
fn new_frames_have_them_and_they_cost_little() {
    let with = frame();
    assert_eq!(verdict(with.clone()).unwrap(), Checksums::Ok);
    let mut writer = FrameWriter::options().checksums(false).memory(params()).unwrap();
    fill(&mut writer);
    let without = writer.finish().unwrap().into_bytes();
    assert_eq!(verdict(without.to_vec()).unwrap(), Checksums::None);
    assert_eq!(with.len(), without.len() + 56 + 24 + 8 * 4 + 48 + 24 + 512);
}

/// Flips every bit of a contiguous frame without holes.
#[test]
fn every_flipped_bit_is_seen() {
    let good = frame();
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let mut placed = 0;
    for at in 0..good.len() {
        for bit in 0..8 {
            match verdict(flipped(&good, 8 * at + bit)) {
                Ok(Checksums::Ok | Checksums::None) => panic!("byte {at} bit {bit} is not seen"),
                Ok(Checksums::Changed) => assert!((at as u64) < schunk.layout().header.end, "byte {at}"),
                Err(FrameError::Checksum { structure: Structure::Chunk(nchunk), .. }) => {
                    let infos: Vec<_> = schunk.chunk_infos().map(Result::unwrap).collect();
                    let start = schunk.layout().data.start + infos[nchunk].offset().unwrap();
                    assert!(
                        (start..start + infos[nchunk].cbytes).contains(&(at as u64)),
                        "byte {at}: {nchunk}"
                    );
                    placed += 1;
                }
                Err(_) => {}
            }
        }
    }
    assert!(placed > 1000, "damage in chunks is placed: {placed}");
}

#[test]
fn overwritten_sectors_and_lost_ends_are_seen() {
    let good = frame();
    for len in [1, 64, 512, 4096] {
        for start in (0..good.len()).step_by(173) {
            for value in [0, 0xFF, 0x5A] {
                let mut bad = good.clone();
                let end = (start + len).min(bad.len());
                bad[start..end].fill(value);
                if bad != good {
                    assert!(
                        !matches!(verdict(bad), Ok(Checksums::Ok | Checksums::None)),
                        "{start}..{end} {value}"
                    );
                }
            }
        }
    }
    for len in 0..good.len() {
        assert!(verdict(good[..len].to_vec()).is_err(), "{len}");
    }
}

#[test]
fn damage_in_the_files_of_a_sparse_frame_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let mut writer = FrameWriter::options()
        .durability(Durability::None)
        .storage(Storage::Sparse)
        .create(&path, params())
        .unwrap();
    fill(&mut writer);
    writer.finish().unwrap();
    let verdict = |path: &Path| SuperChunk::open(path)?.verify_checksums();
    assert_eq!(verdict(&path).unwrap(), Checksums::Ok);
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(stride()) {
            fs::write(&file, flipped(&good, 8 * at + at % 8)).unwrap();
            assert!(
                !matches!(verdict(&path), Ok(Checksums::Ok | Checksums::None)),
                "{} byte {at}",
                file.display()
            );
        }
        fs::write(&file, good).unwrap();
    }
    assert_eq!(verdict(&path).unwrap(), Checksums::Ok);
}

/// Changes that C-Blosc2 makes in place without knowing about checksums.
#[test]
fn changed_values_and_thread_counts_are_told_from_damage() {
    let good = frame();
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let header = &good[..schunk.layout().header.end as usize];
    let value = schunk.metalayers().get("m").unwrap();
    let value = header.windows(value.len()).rposition(|bytes| bytes == value).unwrap();
    for at in [value, value + 2, 63, 64, 66, 67] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        let schunk = SuperChunk::from_bytes(changed.clone()).unwrap();
        assert_eq!(schunk.checksums(), Checksums::Changed, "byte {at}");
        // Chunks are still compared.
        assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Changed);
        changed[header.len() + 40] ^= 1;
        assert!(verdict(changed).is_err());
    }
    // Replace the trailer by a new one without fingerprint.
    let mut changed = good.clone();
    let end = changed.len();
    changed[end - 17..].fill(0);
    assert_eq!(verdict(changed).unwrap(), Checksums::Changed);
    // A partial fingerprint counts as damage.
    for range in [end - 17..end - 16, end - 16..end, end - 1..end] {
        let mut bad = good.clone();
        bad[range].fill(0);
        assert!(matches!(
            verdict(bad),
            Err(FrameError::Checksum { structure: Structure::Trailer | Structure::Checksums, .. })
        ));
    }
}

#[test]
fn chunks_are_compared_when_read_unless_switched_off() {
    let mut bad = frame();
    let schunk = SuperChunk::from_bytes(bad.clone()).unwrap();
    let info = schunk.chunk_infos().nth(3).unwrap().unwrap();
    let at = schunk.layout().data.start + info.offset().unwrap() + info.cbytes - 1;
    bad[at as usize] ^= 0x10;
    let schunk = SuperChunk::from_bytes(bad.clone()).unwrap();
    assert!(schunk.chunk(1).read().is_ok());
    let error = schunk.chunk(3).decompress().unwrap_err();
    assert!(matches!(error, FrameError::Checksum { structure: Structure::Chunk(3), .. }), "{error}");
    assert_eq!(error.to_string(), "chunk 3 damaged: the bytes do not match the checksum");
    assert!(schunk.read_bytes(0..schunk.nbytes()).is_err());
    let unchecked = SuperChunk::options().checksums(false).from_bytes(bad).unwrap();
    assert_eq!(unchecked.checksums(), Checksums::None);
    assert!(unchecked.chunk(3).read().is_ok());
}

#[test]
fn every_change_of_ours_keeps_them_right() {
    let dir = tempfile::tempdir().unwrap();
    let options = FrameWriter::options().durability(Durability::None);
    for (n, sparse) in [false, true].into_iter().enumerate() {
        let path = dir.path().join(n.to_string());
        let storage = if sparse { Storage::Sparse } else { Storage::Contiguous };
        drop(FrameEditor::create(&path, params(), &options.clone().storage(storage)).unwrap());
        type Change = fn(&mut FrameEditor);
        let changes: Vec<(&str, Change)> = vec![
            ("append", |e| e.append_bytes(&data(4 * CHUNK + 100, 1)).unwrap()),
            ("update", |e| e.update_bytes(1, &data(CHUNK, 2)).unwrap()),
            ("insert", |e| e.insert_bytes(0, &data(CHUNK, 3)).unwrap()),
            ("delete", |e| e.delete(2).unwrap()),
            ("reorder", |e| e.reorder(&[1, 0, 2, 3, 4]).unwrap()),
            ("write", |e| e.write_bytes(100, &[7; 5000]).unwrap()),
            ("metalayer", |e| e.set_metalayer("m", b"\x09\x09\x09").unwrap()),
            ("vlmetalayer", |e| e.vlmeta().set("v", b"\x01").unwrap()),
            ("rolled back", |e| {
                e.append_bytes(&data(CHUNK, 4)).unwrap();
                e.rollback();
            }),
            ("compact", |e| {
                e.compact().unwrap();
            }),
            ("emptied", |e| (0..e.nchunks()).for_each(|_| e.delete(0).unwrap())),
            ("filled", |e| e.append_bytes(&data(CHUNK, 5)).unwrap()),
        ];
        for (name, change) in changes {
            let mut editor = fast().edit(&path).unwrap();
            change(&mut editor);
            editor.commit().unwrap();
            drop(editor);
            let schunk = SuperChunk::open(&path).unwrap();
            assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok, "{name} sparse {sparse}");
        }
        // Copies of the whole frame have them too.
        let copy = SuperChunk::open(&path).unwrap().to_frame().unwrap();
        assert_eq!(verdict(copy.to_vec()).unwrap(), Checksums::Ok);
    }
}

#[test]
fn they_are_added_and_removed() {
    let mut writer = FrameWriter::options().checksums(false).memory(params()).unwrap();
    fill(&mut writer);
    let without = writer.finish().unwrap().into_bytes();
    let mut editor = fast().edit_bytes(without).unwrap();
    assert!(!editor.has_checksums());
    editor.append_bytes(&data(CHUNK, 8)).unwrap();
    editor.commit().unwrap();
    assert_eq!(editor.snapshot().unwrap().checksums(), Checksums::None);
    editor.set_checksums(true).unwrap();
    editor.rollback();
    assert!(!editor.has_checksums());
    editor.set_checksums(true).unwrap();
    editor.update_bytes(0, &data(CHUNK, 9)).unwrap();
    editor.commit().unwrap();
    let with = editor.into_bytes().unwrap();
    assert_eq!(verdict(with.to_vec()).unwrap(), Checksums::Ok);

    let mut editor = fast().edit_bytes(with).unwrap();
    assert!(editor.has_checksums());
    editor.set_checksums(false).unwrap();
    editor.commit().unwrap();
    editor.append_bytes(&data(CHUNK, 10)).unwrap();
    editor.compact().unwrap();
    let without = editor.into_bytes().unwrap();
    assert_eq!(verdict(without.to_vec()).unwrap(), Checksums::None);
}

#[test]
fn chunks_and_parts_of_them_are_compared_however_they_are_read() {
    // A stored chunk and one of runs. The stored one takes longer to compare than to read.
    let plain = data(CHUNK, 3);
    let runs = [[0; CHUNK / 2], [9; CHUNK / 2]].concat();
    let mut writer = FrameWriter::memory(params()).unwrap();
    for (clevel, bytes) in [(0, &plain), (5, &runs)] {
        let cparams = Compression::new().itemsize(4).level(clevel).build().unwrap();
        writer.append(Chunk::compress_bytes(bytes, &cparams).unwrap()).unwrap();
    }
    let good = writer.finish().unwrap().into_bytes();
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let infos: Vec<_> = schunk.chunk_infos().map(|info| info.unwrap()).collect();
    for (nchunk, info) in infos.iter().enumerate() {
        // Flip a bit where it changes the decoded data: in a stored byte, or the value of a run.
        let end = (schunk.layout().data.start + info.offset().unwrap() + info.cbytes) as usize;
        let decodes = |bad: &[u8]| {
            let unchecked = SuperChunk::options().checksums(false).from_bytes(bad.to_vec()).unwrap();
            unchecked.chunk(nchunk).decompress().is_ok()
        };
        let damaged = (end - info.cbytes as usize + 32..end).rev().map(|at| {
            let mut bad = good.to_vec();
            bad[at] ^= 0x04;
            bad
        });
        let bad = damaged.into_iter().find(|bad| decodes(bad)).unwrap();
        let start = (nchunk * CHUNK) as u64;
        // The damage is in the last block, or in the first one if blocks are runs.
        let last = schunk.chunk(nchunk).head().unwrap().nblocks() - 1;
        let end = start + CHUNK as u64;
        for compare in [Compare::Never, Compare::Once, Compare::Always] {
            let bad_one = SuperChunk::options().compare(compare).from_bytes(bad.clone()).unwrap();
            let fails = compare != Compare::Never;
            // Each alone, and again: chunks that failed are compared again.
            for _ in 0..2 {
                assert_eq!(bad_one.chunk(nchunk).decompress().is_err(), fails, "{nchunk} {compare:?}");
                assert_eq!(bad_one.read_bytes(start..end).is_err(), fails);
                assert_eq!(bad_one.read_bytes(end - 100..end).is_err(), fails);
                assert_eq!(bad_one.gather(&[end / 4 - 1]).is_err(), fails);
                assert_eq!(bad_one.chunk(nchunk).blocks(&[last], |_, _| ()).is_err(), fails);
                assert_eq!(bad_one.chunk(nchunk).read().is_err(), fails);
            }
            assert!(bad_one.chunk(1 - nchunk).decompress().is_ok());
        }
        let schunk = SuperChunk::from_bytes(bad.clone()).unwrap();
        // Also without sums of blocks.
        assert!(schunk.for_rewrite().read_bytes(start..start + 100).is_err());
    }
}

#[test]
fn large_chunks_are_summed_up_in_pieces() {
    let cparams = Compression::new().itemsize(4).level(0).blocksize(64 << 10).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
    writer.append(Chunk::compress_bytes(&data(10 << 20, 3), &cparams).unwrap()).unwrap();
    let mut frame = writer.finish().unwrap().into_bytes().to_vec();
    for damage in [0, 1] {
        frame[9 << 20] ^= damage;
        let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
        assert_eq!(schunk.for_rewrite().read_bytes(0..100).is_err(), damage == 1);
        // Its blocks are compared one by one.
        let last = schunk.nbytes() - 1;
        assert!(schunk.read_bytes(0..100).is_ok() && schunk.read_bytes(last..last + 1).is_ok());
        let at = (9 << 20) - schunk.layout().data.start - 32;
        assert_eq!(schunk.read_bytes(at - 100..at + 100).is_err(), damage == 1);
    }
}

/// A change would give the rest of a damaged chunk a new, valid checksum. So it is refused, and the frame stays as it
/// was.
#[test]
fn damage_is_not_read_into_new_chunks() {
    let cparams = Compression::new().itemsize(4).level(0).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
    for len in [CHUNK, CHUNK, 1000] {
        writer.append(Chunk::compress_bytes(&data(len, 3), &cparams).unwrap()).unwrap();
    }
    let good = writer.finish().unwrap().into_bytes();
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let infos: Vec<_> = schunk.chunk_infos().map(|info| info.unwrap()).collect();
    type Change = fn(&mut FrameEditor) -> Result<(), FrameError>;
    let cases: [(usize, Change); 3] = [
        (0, |e| e.write_bytes(100, &[7; 50])),
        (1, |e| e.write_bytes(CHUNK as u64 - 10, &[7; 50])),
        (2, |e| e.append_bytes(&[7; 50])),
    ];
    for (nchunk, change) in cases {
        let mut bad = good.to_vec();
        let info = &infos[nchunk];
        let at = schunk.layout().data.start + info.offset().unwrap() + info.cbytes - 1;
        bad[at as usize] ^= 1;
        let mut editor = fast().edit_bytes(bad.clone()).unwrap();
        let error = change(&mut editor).unwrap_err();
        assert!(
            matches!(error, FrameError::Checksum { structure: Structure::Chunk(n), .. } if n == nchunk),
            "{error}"
        );
        editor.commit().unwrap();
        assert_eq!(editor.into_bytes().unwrap(), bad, "nothing was changed");
        // With other chunk boundaries, and with other parameters.
        let schunk = SuperChunk::from_bytes(bad.clone()).unwrap();
        for (cparams, chunksize) in [(None, None), (Some(&cparams), None), (None, Some(CHUNK / 2))] {
            let mut writer = FrameWriter::memory(params()).unwrap();
            assert!(schunk.copy_into(&mut writer, cparams, chunksize).is_err());
        }
        // After replacing the whole chunk, the frame is intact again. The same without checksums.
        let mut editor = fast().edit_bytes(bad.clone()).unwrap();
        editor.update_bytes(nchunk, &data(info.nbytes as usize, 4)).unwrap();
        editor.commit().unwrap();
        assert_eq!(verdict(editor.into_bytes().unwrap().to_vec()).unwrap(), Checksums::Ok);
        let mut editor = EditOptions::from(SuperChunk::options().checksums(false)).edit_bytes(bad).unwrap();
        change(&mut editor).unwrap();
    }
}

/// The same for a chunk that the editor itself wrote, in an earlier commit.
#[cfg(unix)]
#[test]
fn damage_since_an_earlier_commit_is_not_read_into_new_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let cparams = Compression::new().itemsize(4).level(0).build().unwrap();
    let options = FrameWriter::options().durability(Durability::None);
    let mut editor = FrameEditor::create(&path, FrameParams::from_cparams(&cparams), &options).unwrap();
    for seed in 0..2 {
        editor.append(Chunk::compress_bytes(&data(CHUNK, seed), &cparams).unwrap()).unwrap();
    }
    editor.commit().unwrap();
    let info = SuperChunk::open(&path).unwrap().chunk_infos().next().unwrap().unwrap();
    let at = SuperChunk::open(&path).unwrap().layout().data.start + info.offset().unwrap() + 200;
    let old = fs::read(&path).unwrap()[at as usize];
    // In place, as a faulty disk would.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[old ^ 1], at).unwrap();
    assert!(editor.write_bytes(100, &[7; 50]).is_err());
    editor.write_bytes(info.nbytes + 100, &[7; 50]).unwrap();
    editor.commit().unwrap();
    assert!(SuperChunk::open(&path).unwrap().verify_checksums().is_err());
}

/// Changes do not hide damage: old sums are kept.
#[test]
fn damage_stays_visible_through_changes() {
    let mut bad = frame();
    let schunk = SuperChunk::from_bytes(bad.clone()).unwrap();
    let at =
        schunk.layout().data.start + schunk.chunk_infos().next().unwrap().unwrap().offset().unwrap() + 50;
    bad[at as usize] ^= 4;
    let mut editor = fast().edit_bytes(bad).unwrap();
    editor.delete(4).unwrap();
    editor.commit().unwrap();
    let frame = editor.into_bytes().unwrap().to_vec();
    assert!(matches!(verdict(frame), Err(FrameError::Checksum { structure: Structure::Chunk(0), .. })));
}
