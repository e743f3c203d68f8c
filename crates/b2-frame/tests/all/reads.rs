//! How much is read: opening reads no data, and reading parts of chunks reads little else.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::common::*;
use b2_chunk::{CParams, CodecId, Compression, FilterSlot};
use b2_frame::{
    FrameError, FrameFile, FrameFiles, FrameParams, FrameWriter, OpenFile, ReadAt, Storage, SuperChunk,
};
use bytes::Bytes;

/// Storage that records what is read from it.
#[derive(Clone)]
struct Counting {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Counting {
    fn new(frame: &Bytes) -> Self {
        Self { bytes: frame.clone(), reads: Arc::default() }
    }

    fn open(&self) -> SuperChunk {
        SuperChunk::options().open_files(Arc::new(self.clone()), Storage::Contiguous, false).unwrap()
    }

    /// Returns what was read since the last call.
    fn taken(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl ReadAt for Counting {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.lock().unwrap().push(offset..offset + buf.len() as u64);
        self.bytes.read_exact_at(offset, buf)
    }
}

impl FrameFiles for Counting {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(Arc::new(self.clone()), "test", 0)
    }
}

fn total(reads: &[Range<u64>]) -> u64 {
    reads.iter().map(|range| range.end - range.start).sum()
}

/// Returns 40 chunks of 32 blocks of 4 KiB that hardly compress.
fn large() -> (Bytes, Vec<u8>, CParams) {
    let cparams =
        Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).no_filters().blocksize(4096).build().unwrap();
    let mut raw = data(40 * 131_072, 1);
    let mut rng = b2_testkit::Rng::new(1);
    raw.iter_mut().for_each(|byte| *byte ^= rng.below(64) as u8);
    (frame(&raw, 131_072, &cparams), raw, cparams)
}

#[test]
fn opening_reads_no_data() {
    let (frame, _, _) = large();
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    let layout = schunk.layout().clone();
    // One page that contains the header, then index and trailer.
    assert_eq!(counting.taken(), [0..4096, layout.index.start..layout.trailer.end]);
    assert!(layout.data.end - layout.data.start > 4 << 20);

    // A small frame takes one page, and bytes after it cost nothing.
    let small = Counting::new(&samples()[1].frame);
    small.open();
    assert_eq!(small.taken().len(), 1);
    let longer = Counting::new(&[&frame[..], &vec![0; 3 << 20]].concat().into());
    longer.open();
    assert_eq!(longer.taken(), [0..4096, layout.index.start..layout.trailer.end]);
}

#[test]
fn opening_skips_dead_space_behind_the_index() {
    let (frame, _, _) = large();
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let counting = Counting::new(&inserted(&frame, layout.index.end as usize, &vec![0xA5; 8 << 20]));
    counting.open();
    let reads = counting.taken();
    assert!(reads.len() <= 6 && total(&reads) < 200_000, "{reads:?}");
}

#[test]
fn large_headers_and_trailers_are_read_as_they_are() {
    let value = data(100_000, 3);
    let params = FrameParams::new(1).metalayer("large", &value);
    let mut writer = FrameWriter::memory(params).unwrap();
    writer.append(compress(&data(50_000, 4), &cparams(1))).unwrap();
    let noise: Vec<u8> =
        (0..3_000_000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    writer.set_vlmetalayer("noise", &noise).unwrap();
    let frame = writer.finish().unwrap().into_bytes();
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    assert_eq!(schunk.metalayers().get("large"), Some(&value[..]));
    assert_eq!(schunk.vlmetalayers().get("noise").unwrap().unwrap(), noise);
    assert!(counting.taken().len() <= 5);
}

#[test]
fn a_chunk_is_one_read() {
    let (frame, raw, _) = large();
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    counting.taken();
    for nchunk in [0, 7, 39] {
        let chunk = schunk.chunk(nchunk).read().unwrap();
        let reads = counting.taken();
        assert_eq!((reads.len(), total(&reads)), (1, chunk.cbytes() as u64));
        assert_eq!(chunk.decompress_bytes().unwrap(), raw[nchunk * 131_072..][..131_072]);
    }
}

#[test]
fn blocks_are_read_alone() {
    let (frame, raw, _) = large();
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    counting.taken();
    let check = |nblocks: &[usize], max_reads: usize, max_bytes: u64| {
        let mut seen = Vec::new();
        schunk
            .chunk(5)
            .blocks(nblocks, |nblock, block| {
                assert_eq!(block, &raw[5 * 131_072 + nblock * 4096..][..4096]);
                seen.push(nblock);
            })
            .unwrap();
        assert_eq!(seen, nblocks);
        let reads = counting.taken();
        assert!(reads.len() <= max_reads && total(&reads) <= max_bytes, "{nblocks:?}: {reads:?}");
    };
    check(&[31], 2, 9000);
    check(&[20, 21, 22], 2, 4096 + 3 * 4200);
    check(&[30, 10], 3, 4096 + 2 * 4200);
    // Neighbours with a small gap, in any order.
    check(&[12, 10], 2, 4096 + 3 * 4200);
    check(&[], 1, 4096);
    let all: Vec<usize> = (0..32).collect();
    // As many as a single read may contain, 64 KiB.
    check(&all, 3, 131_072 + 4096);
    assert!(matches!(
        schunk.chunk(5).blocks(&[32], |_, _| ()),
        Err(FrameError::OutOfRange { start: 32, len: 32, .. })
    ));
    assert!(matches!(
        schunk.chunk(40).blocks(&[0], |_, _| ()),
        Err(FrameError::OutOfRange { start: 40, len: 40, .. })
    ));

    counting.taken();
    assert_eq!(schunk.read_items(1_000_000..1_000_010).unwrap(), raw[4_000_000..4_000_040]);
    let reads = counting.taken();
    assert!(reads.len() <= 2 && total(&reads) <= 9000, "{reads:?}");
}

#[test]
fn delta_reads_block_0_besides() {
    let (_, raw, cparams) = large();
    let filters = [FilterSlot::DELTA, FilterSlot::SHUFFLE];
    let cparams = cparams.to_builder().filters(filters).build().unwrap();
    let frame = frame(&raw[..131_072], 131_072, &cparams);
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    assert!(schunk.chunk(0).read().unwrap().header().cbytes() > 60_000);
    counting.taken();
    let mut seen = Vec::new();
    schunk.chunk(0).blocks(&[17, 0, 18], |n, block| seen.push((n, block.to_vec()))).unwrap();
    let expected = [17, 0, 18].map(|n| (n, raw[n * 4096..][..4096].to_vec()));
    assert_eq!(seen, expected);
    let reads = counting.taken();
    assert!(reads.len() <= 3 && total(&reads) < 20_000, "{reads:?}");
    assert_eq!(schunk.read_bytes(70_001..80_003).unwrap(), raw[70_001..80_003]);
}

#[test]
fn sizes_of_many_chunks_take_few_reads() {
    let cparams = cparams(1);
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
    let mut raw = Vec::new();
    for i in 0..3000 {
        let part = data(10 + i % 90, i as u64);
        writer.append(compress(&part, &cparams)).unwrap();
        raw.extend(part);
    }
    let frame = writer.finish().unwrap().into_bytes();
    let counting = Counting::new(&frame);
    let schunk = counting.open();
    counting.taken();
    let middle = raw.len() as u64 / 2;
    assert_eq!(schunk.read_bytes(middle..middle + 1).unwrap(), raw[middle as usize..][..1]);
    assert!(counting.taken().len() < 10);
    assert_eq!(schunk.chunk(5).nbytes().unwrap(), 15);
    assert!(counting.taken().is_empty());
    assert_eq!(schunk.read_bytes(0..raw.len() as u64).unwrap(), raw);
}

#[test]
fn special_chunks_are_not_read() {
    let mut writer = FrameWriter::memory(FrameParams::new(8).blocksize(800)).unwrap();
    writer.append_special(b2_chunk::SpecialKind::NaN, 8000).unwrap();
    writer.append_special(b2_chunk::SpecialKind::Zeros, 8000).unwrap();
    let counting = Counting::new(&writer.finish().unwrap().into_bytes());
    let schunk = counting.open();
    counting.taken();
    let nan = f64::NAN.to_le_bytes().repeat(1000);
    let plain = [nan, vec![0; 8000]].concat();
    assert_eq!(schunk.read_bytes(0..16_000).unwrap(), plain);
    assert_eq!(schunk.read_bytes(7_003..8_011).unwrap(), plain[7_003..8_011]);
    assert_eq!(whole(&schunk), plain);
    let mut blocks = Vec::new();
    schunk.chunk(0).blocks(&[9, 0], |n, block| blocks.push((n, block.len()))).unwrap();
    assert_eq!(blocks, [(9, 800), (0, 800)]);
    assert!(schunk.chunk(0).header().unwrap().is_none());
    assert!(counting.taken().is_empty());
}

/// A frame with a hole of many gibibytes in front of its chunk.
struct Holey {
    head: Bytes,
    tail_at: u64,
    tail: Bytes,
}

impl ReadAt for Holey {
    fn len(&self) -> io::Result<u64> {
        Ok(self.tail_at + self.tail.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (at, byte) in (offset..).zip(buf) {
            *byte = match at.checked_sub(self.tail_at) {
                Some(at) => self.tail[at as usize],
                None => self.head.get(at as usize).copied().unwrap_or(0),
            };
        }
        Ok(())
    }
}

#[test]
fn offsets_have_64_bits() {
    let (cparams, raw) = (cparams(4), data(10_000, 1));
    let small = frame(&raw, 10_000, &cparams);
    let layout = SuperChunk::from_bytes(small.clone()).unwrap().layout().clone();
    for hole in [1u64 << 31, 1 << 32, (1 << 40) + 5] {
        let mut head = small[..97].to_vec();
        head[16..24].copy_from_slice(&(small.len() as u64 + hole).to_be_bytes());
        head[39..47].copy_from_slice(&(layout.data.end - 97 + hole).to_be_bytes());
        let tail = patched(&small[97..], layout.index.start as usize - 97 + 32, &hole.to_le_bytes());
        let storage = Arc::new(Holey { head: head.into(), tail_at: 97 + hole, tail });
        struct Files(Arc<Holey>, u64);
        impl FrameFiles for Files {
            fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
                OpenFile::new(self.0.clone(), "holey", self.1)
            }
        }
        let files = Arc::new(Files(storage, 0));
        let schunk = SuperChunk::options().open_files(files, Storage::Contiguous, true).unwrap();
        assert_eq!(whole(&schunk), raw);
        assert_eq!(schunk.read_bytes(5_000..5_005).unwrap(), raw[5_000..5_005]);
    }
}

#[test]
fn many_threads_read_at_once() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let (frame, raw, _) = large();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.b2frame");
    std::fs::write(&path, &frame).unwrap();
    let schunk = SuperChunk::open(&path).unwrap();
    shared(&schunk);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (schunk, raw) = (&schunk, &raw);
            scope.spawn(move || {
                for i in 0..50 {
                    let start = (thread * 7919 + i * 104_729) % (raw.len() as u64 - 9000);
                    let range = start..start + 9000;
                    let expected = &raw[start as usize..start as usize + 9000];
                    assert_eq!(schunk.read_bytes(range).unwrap(), expected);
                }
            });
        }
    });
}

/// Storage that receives several concurrent range requests, like a web server.
struct Waiting(Bytes);

impl FrameFiles for Waiting {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(Arc::new(self.0.clone()), "test", 0)
    }

    fn in_flight(&self) -> usize {
        2
    }
}

/// A subset that is fast enough for Miri: whole blocks, parts of them, and items in any order, from memory and from
/// storage that waits.
#[test]
fn small_reads() {
    let cparams = Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).blocksize(64).build().unwrap();
    let raw = data(400, 1);
    let frame = frame(&raw, 160, &cparams);
    let waiting = Waiting(frame.clone());
    for schunk in [
        SuperChunk::from_bytes(frame).unwrap(),
        SuperChunk::options().open_files(Arc::new(waiting), Storage::Contiguous, false).unwrap(),
    ] {
        assert_eq!(schunk.read_bytes(0..400).unwrap(), raw);
        assert_eq!(schunk.read_bytes(30..350).unwrap(), raw[30..350]);
        assert_eq!(schunk.read_items(3..90).unwrap(), raw[12..360]);
        assert_eq!(schunk.gather(&[99, 0, 41, 41, 40]).unwrap()[4..12], [&raw[..4], &raw[164..168]].concat());
        assert_eq!(schunk.chunk(1).all_blocks().unwrap().concat(), raw[160..320]);
        let mut got = Vec::new();
        schunk.chunk(2).blocks(&[1, 0], |n, block| got.push((n, block.to_vec()))).unwrap();
        got.sort();
        assert_eq!(got, [(0, raw[320..384].to_vec()), (1, raw[384..].to_vec())]);
    }
}
