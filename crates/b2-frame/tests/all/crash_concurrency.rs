//! Several writers, and readers next to a writer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common::{commit_beside_readers, compact_beside_readers, cparams, data};
use b2_chunk::Chunk;
use b2_frame::{
    Durability, EditOptions, FrameEditor, FrameError, FrameParams, FrameWriter, Storage, SuperChunk,
};
use b2_testkit::Rng;

const CHUNKSIZE: usize = 400;
const BOTH: [Storage; 2] = [Storage::Contiguous, Storage::Sparse];

fn create(dir: &Path, storage: Storage) -> PathBuf {
    let path = dir.join("frame");
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(CHUNKSIZE);
    let mut writer = FrameWriter::options().storage(storage).create(&path, params).unwrap();
    writer.set_vlmetalayer("state", &encode(&[])).unwrap();
    writer.finish().unwrap();
    path
}

fn options() -> EditOptions {
    FrameEditor::options().durability(Durability::None)
}

fn chunk(seed: u64) -> Chunk {
    Chunk::compress_bytes(&data(CHUNKSIZE, seed), &cparams(4)).unwrap()
}

#[test]
fn writers_with_locks_lose_nothing() {
    const WRITERS: u64 = 3;
    const APPENDS: u64 = 500;
    for storage in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = create(dir.path(), storage);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let path = &path;
                scope.spawn(move || {
                    for k in 0..APPENDS {
                        let mut editor = options().edit(path).unwrap();
                        editor.append(chunk(writer << 32 | k)).unwrap();
                        editor.commit().unwrap();
                    }
                });
            }
        });
        let schunk = SuperChunk::open(&path).unwrap();
        assert_eq!(schunk.nchunks() as u64, WRITERS * APPENDS);
        let mut next = [0; WRITERS as usize];
        for nchunk in 0..schunk.nchunks() {
            let found = schunk.chunk(nchunk).decompress().unwrap();
            // The chunks of each writer are in its order.
            let of = (0..WRITERS).find(|w| found == data(CHUNKSIZE, w << 32 | next[*w as usize]));
            next[of.unwrap_or_else(|| panic!("chunk {nchunk}: {next:?}")) as usize] += 1;
        }
        assert_eq!(next, [APPENDS; WRITERS as usize]);
    }
}

/// Encodes the seeds of all chunks, for a vlmetalayer.
fn encode(seeds: &[u64]) -> Vec<u8> {
    seeds.iter().flat_map(|seed| seed.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|seed| u64::from_le_bytes(seed.try_into().unwrap())).collect()
}

/// Reads everything, and compares it with the seeds recorded in the frame.
fn consistent(schunk: &SuperChunk) -> Result<usize, FrameError> {
    let seeds = decode(&schunk.vlmetalayers().get("state")?.unwrap());
    assert_eq!(schunk.nchunks(), seeds.len(), "index and trailer are of one commit");
    for (nchunk, seed) in seeds.iter().enumerate() {
        assert!(
            schunk.chunk(nchunk).decompress()? == data(CHUNKSIZE, *seed),
            "chunk {nchunk} of another commit"
        );
    }
    Ok(seeds.len())
}

/// Changes some chunks, and records the new seeds in the same commit.
fn change(editor: &mut FrameEditor, seeds: &mut Vec<u64>, rng: &mut Rng) {
    let seed = rng.next() >> 8;
    let at = rng.below(seeds.len() + 1);
    match rng.below(if seeds.len() > 20 { 5 } else { 4 }) {
        0 | 1 => {
            editor.append(chunk(seed)).unwrap();
            seeds.push(seed);
        }
        2 => {
            editor.insert(at, chunk(seed)).unwrap();
            seeds.insert(at, seed);
        }
        3 if at < seeds.len() => {
            editor.update(at, chunk(seed)).unwrap();
            seeds[at] = seed;
        }
        4 if at < seeds.len() => {
            editor.delete(at).unwrap();
            seeds.remove(at);
        }
        _ => {}
    }
    editor.vlmeta().set("state", &encode(seeds)).unwrap();
    commit_beside_readers(editor);
}

#[test]
fn readers_without_locks_see_whole_commits() {
    const READERS: u64 = 8;
    let commits = std::env::var("B2KIT_CRASH_COMMITS").map_or(400, |text| text.parse().unwrap());
    for storage in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = create(dir.path(), storage);
        let done = AtomicBool::new(false);
        let (reads, stale) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _end = Finally(&done);
            for reader in 0..READERS {
                let (path, done, reads, stale) = (&path, &done, &reads, &stale);
                scope.spawn(move || {
                    let mut kept = SuperChunk::open(path).unwrap();
                    let mut last = false;
                    while !last {
                        // Read again after the writer has ended.
                        last = done.load(Ordering::SeqCst);
                        if reader % 2 == 0 {
                            kept = SuperChunk::open(path).unwrap();
                        } else {
                            kept.refresh().unwrap();
                        }
                        match consistent(&kept) {
                            Ok(_) => reads.fetch_add(1, Ordering::Relaxed),
                            // A later commit has removed files of this state.
                            Err(_) if kept.refresh().unwrap() => stale.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{storage:?}: {error}"),
                        };
                    }
                });
            }
            let mut rng = Rng::case(5, 0);
            let mut seeds = Vec::new();
            let mut editor = options().edit(&path).unwrap();
            for commit in 0..commits {
                change(&mut editor, &mut seeds, &mut rng);
                if commit % 50 == 49 {
                    compact_beside_readers(&mut editor);
                }
            }
        });
        println!(
            "crash: {READERS} readers next to {commits} commits, {storage:?}: {} whole reads, {} overtaken by a \
             later commit",
            reads.into_inner(),
            stale.into_inner()
        );
    }
}

/// Stops the readers, even if the writer panics.
struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
