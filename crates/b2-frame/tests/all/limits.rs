//! What no stored data stands for is counted, and no more than that.

use b2_chunk::{CParams, Chunk, Limits, SpecialKind};
use b2_frame::{FrameError, FrameParams, FrameWriter, Storage, SuperChunk};

const CHUNK: usize = 100_000;

fn params() -> FrameParams {
    FrameParams::from_cparams(&CParams::builder(4).build().unwrap())
}

fn noise(seed: u32) -> Vec<u8> {
    b2_testkit::Rng::new(seed.into()).bytes(CHUNK)
}

fn chunk(raw: &[u8]) -> Chunk {
    Chunk::compress_bytes(raw, &CParams::builder(4).build().unwrap()).unwrap()
}

/// Stored noise, special chunks and runs, as the frame is stored.
fn mixed(mut writer: FrameWriter) -> FrameWriter {
    for seed in 0..5 {
        writer.append(chunk(&noise(seed))).unwrap();
        writer.append_special(SpecialKind::Zeros, CHUNK).unwrap();
        writer.append_special(SpecialKind::NaN, CHUNK).unwrap();
        // 7 is repeated: a chunk of its header and one item.
        writer.append(chunk(&[7, 0, 0, 0].repeat(CHUNK / 4))).unwrap();
        writer.append(Chunk::zero_runs(CHUNK, 4, 0).unwrap()).unwrap();
    }
    writer
}

fn limits(max_ratio: u64, max_output: u64) -> Limits {
    Limits::default().with_max_ratio(max_ratio).with_max_output(max_output)
}

fn check(open: impl Fn(Limits) -> SuperChunk) {
    let nchunks = 0..25;
    // One for one: of 32 to 36 bytes in stored chunks of one value, nearly all counts.
    let all = open(limits(1, u64::MAX)).unstored(nchunks.clone(), u64::MAX).unwrap();
    assert_eq!((all.special, all.special_chunks, all.shared_chunks), (10 * CHUNK as u64, 10, 0));
    assert!((10 * (CHUNK as u64 - 100)..10 * CHUNK as u64).contains(&all.stored), "{all:?}");
    // 36 bytes or more stand for all of a chunk.
    let all = open(limits(3200, u64::MAX)).unstored(nchunks.clone(), u64::MAX).unwrap();
    assert_eq!((all.special, all.stored), (10 * CHUNK as u64, 0));
    let few = open(limits(1, u64::MAX)).unstored(0..3, u64::MAX).unwrap();
    assert_eq!((few.special, few.stored), (2 * CHUNK as u64, 0));

    let total = 25 * CHUNK as u64;
    let unstored = 10 * CHUNK as u64;
    open(limits(3200, unstored)).check_output().unwrap();
    let over = open(limits(3200, unstored - 1));
    for result in [over.check_output(), over.read_bytes(0..total).map(drop)] {
        match result.unwrap_err() {
            FrameError::Limit(b2_chunk::core::LimitExceeded { name: "max_output", limit, .. }) => {
                assert_eq!(limit, unstored - 1)
            }
            error => panic!("{error}"),
        }
    }
    // A part that is below the limit is read, also into a buffer of the caller's.
    assert_eq!(over.read_bytes(0..10).unwrap(), noise(0)[..10]);
    let mut dst = vec![1; total as usize];
    over.read_bytes_into(0, &mut dst).unwrap();
    assert_eq!(dst[..CHUNK], noise(0));
    assert!(dst[CHUNK..2 * CHUNK].iter().all(|&byte| byte == 0));
}

#[test]
fn contiguous_frames() {
    let frame = mixed(FrameWriter::memory(params()).unwrap()).finish().unwrap().into_bytes();
    check(|limits| SuperChunk::options().limits(limits).from_bytes(frame.clone()).unwrap());
}

#[test]
fn sparse_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    mixed(FrameWriter::options().storage(Storage::Sparse).create(&path, params()).unwrap()).finish().unwrap();
    check(|limits| SuperChunk::options().limits(limits).open(&path).unwrap());
}

/// Chunks that have their stored bytes in common count those once.
#[test]
fn shared_chunks() {
    let mut writer = FrameWriter::options().checksums(false).memory(params()).unwrap();
    let raw = noise(1);
    writer.append(chunk(&raw)).unwrap();
    writer.append(chunk(&raw)).unwrap();
    writer.append_special(SpecialKind::Zeros, CHUNK).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    let count = |frame: &[u8], ratio| {
        let options = SuperChunk::options().limits(limits(ratio, u64::MAX));
        options.from_bytes(frame.to_vec()).unwrap().unstored(0..3, u64::MAX).unwrap()
    };
    let plain = count(&frame, 1);
    assert_eq!((plain.special, plain.stored, plain.shared_chunks), (CHUNK as u64, 0, 0));
    // Three entries are stored as they are: let the second name the first chunk.
    let second = (chunk(&raw).cbytes() as u64).to_le_bytes();
    let at = frame.windows(8).rposition(|bytes| bytes == second).unwrap();
    let mut shared = frame.to_vec();
    shared[at..at + 8].fill(0);
    // What lies up to the next chunk is theirs: enough for both, but not if it stands for less than it is.
    let both = count(&shared, 1);
    assert_eq!((both.special, both.stored, both.shared_chunks), (CHUNK as u64, 0, 1));
    assert_eq!(count(&shared, 0).stored, 2 * CHUNK as u64);
    let schunk = SuperChunk::from_bytes(shared).unwrap();
    assert_eq!(schunk.read_bytes(0..2 * CHUNK as u64).unwrap(), [&raw[..], &raw].concat());
}

#[test]
fn memory_for_stored_chunks_is_limited() {
    let frame = mixed(FrameWriter::memory(params()).unwrap()).finish().unwrap().into_bytes();
    let open = |most| {
        let limits = Limits::default().with_max_memory(most);
        SuperChunk::options().limits(limits).from_bytes(frame.clone()).unwrap()
    };
    let small = open(50_000);
    for result in [small.chunk(0).map(drop), small.decompress_chunk(0).map(drop)] {
        let error = result.unwrap_err();
        assert!(
            matches!(
                error,
                FrameError::Limit(b2_chunk::core::LimitExceeded { name: "max_memory", limit: 50_000, .. })
            ),
            "{error}"
        );
    }
    assert_eq!(small.decompress_chunk(1).unwrap(), [0; CHUNK]);
    assert_eq!(open(500_000).decompress_chunk(0).unwrap(), noise(0));
}

/// The same result on any number of threads.
#[test]
fn threads_are_limited() {
    let frame = mixed(FrameWriter::memory(params()).unwrap()).finish().unwrap().into_bytes();
    let read = |limits: Limits| {
        let schunk = SuperChunk::options().limits(limits).from_bytes(frame.clone()).unwrap();
        schunk.read_bytes(0..schunk.nbytes()).unwrap()
    };
    let all = read(Limits::default());
    assert!(read(Limits::default().with_max_memory(400_000)) == all);
}
