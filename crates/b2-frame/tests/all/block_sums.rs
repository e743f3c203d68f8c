//! Sums of runs of blocks: parts of chunks are compared with them in every kind of read. Every flipped bit of a frame
//! is an error, is reported as a change, or has no effect on values.

use b2_chunk::{Chunk, CodecId, Compression, FilterSlot};
use b2_core::ErrorKind;
use b2_frame::{
    Checksums, Compare, Durability, FrameEditor, FrameError, FrameParams, FrameWriter, ReadTuning, Storage,
    Structure, SuperChunk,
};
use b2_testkit::Rng;

use crate::common::data;

/// A frame whose chunks have sums of runs: blocks of 4000 bytes, stored or compressed.
fn frame(rng: &mut Rng, chunk: usize, nchunks: usize, level: u8) -> (Vec<u8>, Vec<u8>) {
    let filters: &[&[FilterSlot]] = &[&[], &[FilterSlot::SHUFFLE], &[FilterSlot::DELTA]];
    let codec = *rng.pick(&[CodecId::LZ4, CodecId::BLOSCLZ, CodecId::LZ4HC]);
    let builder = Compression::new().itemsize(4).codec(codec).level(level).blocksize(4000);
    let cparams = builder.filters(*rng.pick(filters)).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
    let mut all = Vec::new();
    for n in 0..nchunks {
        let len = if n + 1 == nchunks { chunk / 2 / 4 * 4 } else { chunk };
        let mut plain = data(len, rng.next());
        // Half of it is compressible.
        plain.chunks_mut(8).for_each(|item| item[..4].fill(n as u8));
        writer.append(Chunk::compress_bytes(&plain, &cparams).unwrap()).unwrap();
        all.extend_from_slice(&plain);
    }
    (writer.finish().unwrap().into_bytes().to_vec(), all)
}

/// Reads the frame in several ways. Returns whether an error or a change was reported; panics if a value is wrong.
fn is_noticed(frame: Vec<u8>, plain: &[u8], rng: &mut Rng, tuning: ReadTuning) -> bool {
    let Ok(schunk) = SuperChunk::options().tuning(tuning).from_bytes(frame) else { return true };
    if schunk.checksums() != Checksums::Ok {
        return true;
    }
    let mut noticed = false;
    let mut compare = |what: &str, found: Result<Vec<u8>, FrameError>, expected: &[u8]| match found {
        Ok(found) => assert!(found == expected, "{what}: wrong values, silently"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {error}");
            noticed = true;
        }
    };
    for _ in 0..6 {
        let start = rng.below(plain.len());
        let end = start + rng.below((plain.len() - start).min(30_000));
        compare("range", schunk.read_bytes(start as u64..end as u64), &plain[start..end]);
        let item = rng.below(plain.len() / 4);
        compare("item", schunk.gather(&[item as u64]), &plain[item * 4..item * 4 + 4]);
    }
    compare("all", schunk.read_bytes(0..plain.len() as u64), plain);
    noticed
}

const FAR: ReadTuning = ReadTuning::REMOTE
    .whole_chunk_max(1000)
    .head_len(64)
    .coalesce_gap(100)
    .coalesce_max(50_000)
    .adaptive(false);

#[test]
fn no_flipped_bit_gives_wrong_values() {
    let rng = &mut Rng::new(19);
    let mut unseen = 0;
    for case in 0..24 {
        let level = [0, 1, 5][case % 3];
        let (good, plain) = frame(rng, [60_000, 140_000, 9_000][case / 3 % 3], 3, level);
        let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
        assert!(schunk.block_sums_len().is_some());
        for flip in 0..40 {
            let mut bad = good.clone();
            // Anywhere, but often in the tables after the chunks.
            let from = if flip % 4 == 0 { schunk.layout().data.end as usize } else { 0 };
            let at = from + rng.below(good.len() - from);
            bad[at] ^= 1 << rng.below(8);
            let tuning = *rng.pick(&[ReadTuning::LOCAL, ReadTuning::REMOTE, FAR]);
            let in_data = schunk.layout().data.contains(&(at as u64));
            let seen = is_noticed(bad, &plain, rng, tuning);
            assert!(seen || !in_data, "byte {at} of the data");
            unseen += usize::from(!seen);
        }
    }
    // Unnoticed are flips in the tables of block starts and block sums themselves, which readers can do without.
    assert!(unseen < 24 * 40 / 3, "{unseen}");
}

#[test]
fn damage_is_named_by_its_blocks() {
    let (mut bad, plain) = frame(&mut Rng::new(3), 200_000, 2, 0);
    let good = SuperChunk::from_bytes(bad.clone()).unwrap();
    let info = good.chunk_infos().next().unwrap().unwrap();
    let at = good.layout().data.start + info.offset().unwrap() + 32 + 100_000;
    bad[at as usize] ^= 1;
    let schunk = SuperChunk::from_bytes(bad).unwrap();
    let error = schunk.read_bytes(100_000..100_004).unwrap_err();
    let FrameError::Checksum { structure: Structure::Blocks { nchunk: 0, first, last }, .. } = error else {
        panic!("{error:?}")
    };
    // Five blocks of 4000 bytes make a run of at least 16 KiB.
    assert_eq!((first, last), (25, 29));
    assert_eq!(error.to_string(), "chunk 0, blocks 25 to 29 damaged: the bytes do not match the checksum");
    // Everything else is readable.
    assert_eq!(schunk.read_bytes(0..100_000).unwrap(), plain[..100_000]);
    assert_eq!(schunk.read_bytes(120_000..300_000).unwrap(), plain[120_000..300_000]);
}

#[test]
fn what_was_compared_is_not_compared_again_unless_always() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use b2_frame::ReadAt;

    /// Bytes in memory, one of which the test corrupts later.
    struct Later(Vec<u8>, usize, Arc<AtomicBool>);
    impl ReadAt for Later {
        fn len(&self) -> std::io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            let start = offset as usize;
            buf.copy_from_slice(&self.0[start..start + buf.len()]);
            if self.2.load(Ordering::SeqCst) && (start..start + buf.len()).contains(&self.1) {
                buf[self.1 - start] ^= 1;
            }
            Ok(())
        }
    }

    let (good, _) = frame(&mut Rng::new(5), 200_000, 2, 0);
    let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
    let at = (schunk.layout().data.start + 32 + 50_000) as usize;
    for (compare, tuning, again) in [
        (Compare::Once, ReadTuning::LOCAL, false),
        (Compare::Once, ReadTuning::REMOTE, true),
        (Compare::Always, ReadTuning::LOCAL, true),
    ] {
        let wrong = Arc::new(AtomicBool::new(false));
        let reader = Arc::new(Later(good.clone(), at, wrong.clone()));
        let schunk =
            SuperChunk::options().compare(compare).tuning(tuning).from_reader(reader, "later").unwrap();
        assert!(schunk.read_bytes(50_000..50_004).is_ok());
        wrong.store(true, Ordering::SeqCst);
        assert_eq!(schunk.read_bytes(50_000..50_004).is_err(), again, "{compare:?}");
        // Data that will be stored again are compared in any case.
        assert!(schunk.for_rewrite().chunk(0).decompress().is_err());
        assert!(
            SuperChunk::options().compare(compare).from_bytes(good.clone()).unwrap().chunk(0).read().is_ok()
        );
    }
}

/// Another program may commit between the moment when a reader takes the length of the file and that when it reads the
/// header. The header of the new state then does not match the copy at the end of the old one.
#[test]
fn files_that_grow_while_they_are_opened_are_not_damaged() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use b2_frame::ReadAt;

    /// The new state, of which only the first question for the length does not know.
    struct Growing(Vec<u8>, u64, AtomicBool);
    impl ReadAt for Growing {
        fn len(&self) -> std::io::Result<u64> {
            Ok(if self.2.swap(true, Ordering::SeqCst) { self.0.len() as u64 } else { self.1 })
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            buf.copy_from_slice(&self.0[offset as usize..offset as usize + buf.len()]);
            Ok(())
        }
    }

    let (old, _) = frame(&mut Rng::new(5), 200_000, 2, 0);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    std::fs::write(&path, &old).unwrap();
    let mut editor = FrameEditor::options().durability(Durability::None).edit(&path).unwrap();
    editor.vlmeta().set("name", &[0xc0]).unwrap();
    editor.commit().unwrap();
    drop(editor);
    let new = std::fs::read(&path).unwrap();
    let growing = Growing(new.clone(), old.len() as u64, AtomicBool::new(false));
    assert!(SuperChunk::options().from_reader(Arc::new(growing), "growing").is_err());
    // Without more bytes than these, it is the header that is damaged.
    let cut = SuperChunk::from_bytes(new[..old.len()].to_vec()).unwrap();
    assert!(cut.is_restored());
}

#[test]
fn tables_keep_to_their_budget() {
    let rng = &mut Rng::new(7);
    for chunk in [5_000, 20_000, 50_000, 100_000, 1_000_000] {
        let (with, _) = frame(rng, chunk, 12, 0);
        let schunk = SuperChunk::from_bytes(with.clone()).unwrap();
        let tables = schunk.block_sums_len().unwrap() + schunk.block_starts_len().unwrap_or(0);
        // The sums of the chunks always exist.
        let sums = 12 * 8 + 24 + 56;
        let budget = with.len() as u64 / 2000 + 300;
        let copy = schunk.start_copy_len().unwrap();
        assert!(tables + sums + copy <= (with.len() as u64 / 2000).max(1024), "{chunk}: {tables} + {copy}");
        assert!(tables + sums <= budget.max(sums + 48), "{chunk}: {tables} + {sums} of {}", with.len());
        assert_eq!(tables > 48, chunk >= 50_000, "{chunk}");
    }
}

#[test]
fn many_pages_stand_in_front_of_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.b2frame");
    let cparams = Compression::new().itemsize(1).level(0).blocksize(20 << 10).build().unwrap();
    let chunk = Chunk::compress_bytes(&data(1 << 20, 1), &cparams).unwrap();
    let options = FrameWriter::options().durability(Durability::None);
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let params = FrameParams::from_cparams(&cparams).chunksize(1 << 20);
        let mut writer = options.clone().overwrite(true).storage(storage).create(&path, params).unwrap();
        (0..300).for_each(|_| {
            writer.append(chunk.clone()).unwrap();
        });
        writer.finish().unwrap();
        let schunk = SuperChunk::open(&path).unwrap();
        let (layout, len) = (schunk.layout().clone(), schunk.header().frame_len());
        if storage == Storage::Contiguous {
            assert!(len - layout.index.start < 16 << 10, "{layout:?}");
            assert!(schunk.block_sums_len().unwrap() > 60_000);
            assert_eq!(schunk.cbytes(), layout.index.start - layout.header.end);
            assert_eq!(schunk.dead_bytes().unwrap(), 0);
        }
        assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok);
        assert_eq!(schunk.read_bytes(290 << 20..(290 << 20) + 100).unwrap(), data(1 << 20, 1)[..100]);
        // A change rewrites one page of them.
        let mut editor = FrameEditor::options().durability(Durability::None).edit(&path).unwrap();
        editor.append(chunk.clone()).unwrap();
        let written = editor.commit().unwrap().bytes_written - chunk.cbytes() as u64;
        assert!(storage == Storage::Sparse || written < 24 << 10, "{written}");
        drop(editor);
        let schunk = SuperChunk::open(&path).unwrap();
        assert_eq!(schunk.verify_checksums().unwrap(), Checksums::Ok);
        // Windows removes no folder with an open file in it: the reader has the lock file open.
        drop(schunk);
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path)).unwrap();
    }
}

#[test]
fn damage_in_front_of_the_index_is_seen_or_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.b2frame");
    let cparams = Compression::new().itemsize(1).level(0).blocksize(20 << 10).build().unwrap();
    let chunk = Chunk::compress_bytes(&data(1 << 20, 1), &cparams).unwrap();
    let options = FrameWriter::options().durability(Durability::None);
    let params = FrameParams::from_cparams(&cparams).chunksize(1 << 20);
    let mut writer = options.create(&path, params).unwrap();
    (0..250).for_each(|_| {
        writer.append(chunk.clone()).unwrap();
    });
    writer.finish().unwrap();
    let good = std::fs::read(&path).unwrap();
    let schunk = SuperChunk::open(&path).unwrap();
    let pages = schunk.layout().index.start - schunk.block_sums_len().unwrap();
    let mut bad = good.clone();
    bad[pages as usize + 5000] ^= 1;
    let schunk = SuperChunk::from_bytes(bad).unwrap();
    for nchunk in 0..250u64 {
        assert!(schunk.read_bytes(nchunk << 20..(nchunk << 20) + 10).is_ok(), "{nchunk}");
    }
    let error = schunk.verify_checksums().unwrap_err();
    assert!(
        matches!(
            error,
            FrameError::Checksum {
                structure: Structure::BlockSums | Structure::BlockStarts | Structure::Checksums,
                ..
            }
        ),
        "{error}"
    );
}

/// Files of earlier versions have no block sums. Here a page of them is damaged, with few pages and with many.
#[test]
fn missing_sums_of_blocks_are_added() {
    for (chunk, nchunks, step) in [(200_000, 3, 1), (4 << 20, 20, 1009)] {
        let (good, plain) = frame(&mut Rng::case(31, 0), chunk, nchunks, 0);
        let schunk = SuperChunk::from_bytes(good.clone()).unwrap();
        let tables = schunk.layout().index.end as usize..schunk.layout().trailer.start as usize;
        let mut healed = 0;
        for at in tables.step_by(step) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let found = SuperChunk::from_bytes(bad.clone()).and_then(|schunk| schunk.verify_checksums());
            let Err(FrameError::Checksum { structure: Structure::BlockSums, .. }) = found else { continue };
            let mut editor = FrameEditor::options().edit_bytes(bad.clone()).unwrap();
            editor.set_checksums(true).unwrap();
            assert!(editor.commit().unwrap().bytes_written > 0, "{at}");
            // The second time there is nothing to add.
            editor.set_checksums(true).unwrap();
            assert_eq!(editor.commit().unwrap().bytes_written, 0, "{at}");
            let whole = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
            whole.verify_checksums().unwrap();
            assert!(whole.read_bytes(0..plain.len() as u64).unwrap() == plain);
            assert_eq!(whole.block_sums_len(), schunk.block_sums_len());

            // A damaged chunk must not get new sums. If it has its own, it is not read again.
            bad[schunk.layout().index.start as usize / 2] ^= 1;
            let mut editor = FrameEditor::options().edit_bytes(bad).unwrap();
            let result = editor.set_checksums(true).and_then(|()| {
                editor.commit()?;
                let frame = SuperChunk::from_bytes(editor.into_bytes().unwrap())?;
                frame.read_bytes(0..plain.len() as u64)
            });
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Damaged, "{at}");
            healed += 1;
        }
        assert!(healed > 10, "{healed}");
    }
}
