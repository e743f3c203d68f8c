//! Bytes that are not backed by stored data are counted, and no others.

use b2_chunk::{Chunk, Compression, Limits, SpecialKind};
use b2_frame::{FrameError, FrameParams, FrameWriter, Storage, SuperChunk};

const CHUNK: usize = 100_000;

fn params() -> FrameParams {
    FrameParams::from_cparams(&Compression::new().itemsize(4).build().unwrap())
}

fn noise(seed: u32) -> Vec<u8> {
    b2_testkit::Rng::new(seed.into()).bytes(CHUNK)
}

fn chunk(raw: &[u8]) -> Chunk {
    Chunk::compress_bytes(raw, &Compression::new().itemsize(4).build().unwrap()).unwrap()
}

/// Writes stored noise, special chunks and runs.
fn mixed(mut writer: FrameWriter) -> FrameWriter {
    for seed in 0..5 {
        writer.append(chunk(&noise(seed))).unwrap();
        writer.append_special(SpecialKind::Zeros, CHUNK).unwrap();
        writer.append_special(SpecialKind::NaN, CHUNK).unwrap();
        // 7 is repeated: the chunk consists of its header and one item.
        writer.append(chunk(&[7, 0, 0, 0].repeat(CHUNK / 4))).unwrap();
        writer.append(Chunk::zero_runs(CHUNK, 4, 0).unwrap()).unwrap();
    }
    writer
}

fn limits(max_ratio: u64, max_output: u64) -> Limits {
    Limits::default().max_ratio(max_ratio).max_output(max_output)
}

fn check(open: impl Fn(Limits) -> SuperChunk) {
    let nchunks = 0..25;
    // With a ratio of one, nearly all bytes of chunks of one repeated value count, since each is stored in 32 to 36 bytes.
    let all = open(limits(1, u64::MAX)).unstored(nchunks.clone(), u64::MAX).unwrap();
    assert_eq!((all.special, all.special_chunks, all.shared_chunks), (10 * CHUNK as u64, 10, 0));
    assert!((10 * (CHUNK as u64 - 100)..10 * CHUNK as u64).contains(&all.stored), "{all:?}");
    // 36 bytes or more account for the whole chunk.
    let all = open(limits(3200, u64::MAX)).unstored(nchunks.clone(), u64::MAX).unwrap();
    assert_eq!((all.special, all.stored), (10 * CHUNK as u64, 0));
    let few = open(limits(1, u64::MAX)).unstored(0..3, u64::MAX).unwrap();
    assert_eq!((few.special, few.stored), (2 * CHUNK as u64, 0));

    let total = 25 * CHUNK as u64;
    let unstored = 10 * CHUNK as u64;
    open(limits(3200, unstored)).check_output().unwrap();
    let over = open(limits(3200, unstored - 1));
    for result in [over.check_output(), over.read_bytes(0..total).map(drop)] {
        match result.unwrap_err().into_detail() {
            FrameError::Limit(b2_chunk::base::LimitExceeded { name: "max_output", limit, .. }) => {
                assert_eq!(limit, unstored - 1)
            }
            error => panic!("{error}"),
        }
    }
    // A part below the limit can be read, also into the caller's buffer.
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

/// Stored bytes shared by several chunks count once.
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
    // Three entries are stored: make the second refer to the first chunk.
    let second = (chunk(&raw).cbytes() as u64).to_le_bytes();
    let at = frame.windows(8).rposition(|bytes| bytes == second).unwrap();
    let mut shared = frame.to_vec();
    shared[at..at + 8].fill(0);
    // The space up to the next chunk counts for both: it is enough for both, unless the ratio allows less.
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
        let limits = Limits::default().max_memory(most);
        SuperChunk::options().limits(limits).from_bytes(frame.clone()).unwrap()
    };
    let small = open(50_000);
    for result in [small.chunk(0).read().map(drop), small.chunk(0).decompress().map(drop)] {
        let error = result.unwrap_err();
        assert!(
            matches!(
                error,
                FrameError::Limit(b2_chunk::base::LimitExceeded { name: "max_memory", limit: 50_000, .. })
            ),
            "{error}"
        );
    }
    assert_eq!(small.chunk(1).decompress().unwrap(), [0; CHUNK]);
    assert_eq!(open(500_000).chunk(0).decompress().unwrap(), noise(0));
}

/// The result is the same with any number of threads.
#[test]
fn threads_are_limited() {
    let frame = mixed(FrameWriter::memory(params()).unwrap()).finish().unwrap().into_bytes();
    let read = |limits: Limits| {
        let schunk = SuperChunk::options().limits(limits).from_bytes(frame.clone()).unwrap();
        schunk.read_bytes(0..schunk.nbytes()).unwrap()
    };
    let all = read(Limits::default());
    assert!(read(Limits::default().max_memory(400_000)) == all);
}
