//! Each sector of ten arrays is bad once: shape, dtype, attributes and all blocks outside of the sector come back.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use b2_chunk::{CodecId, Compression, DParams, FilterId, FilterSlot, LazyChunk, LazyHead};
use b2_frame::{
    Checksums, Condition, Durability, Entry, FrameWriter, ReadOptions, SalvageReport, Storage, SuperChunk,
    WriteOptions,
};
use b2nd::{ArrayBuilder, ArrayEditor, Axis, Dtype, NdArray, salvage_filled};

const SECTOR: usize = 512;

/// An array, its files, and where its blocks are.
struct Whole {
    path: PathBuf,
    array: NdArray,
    plain: Vec<u8>,
    blocks: Vec<Block>,
    /// Whether some chunks are not stored.
    has_special: bool,
    /// The positions of attributes and tables: the file, and the bytes after its chunks.
    tail: (PathBuf, u64),
}

/// A block: which file holds it, where, and what else it needs (delta filter: the head of its chunk, and block 0).
struct Block {
    nchunk: usize,
    nblock: usize,
    file: PathBuf,
    own: Range<u64>,
    reference: Range<u64>,
    /// The head of its chunk.
    head: Range<u64>,
}

/// Blocks that were lost with the head of their chunk.
static HEADLESS: AtomicUsize = AtomicUsize::new(0);

impl Whole {
    fn open(path: &Path) -> Self {
        // The file itself will change.
        let sound = path.with_extension("sound");
        if path.is_dir() {
            fs::create_dir(&sound).unwrap();
            for file in fs::read_dir(path).unwrap().map(Result::unwrap) {
                fs::copy(file.path(), sound.join(file.file_name())).unwrap();
            }
        } else {
            fs::copy(path, &sound).unwrap();
        }
        let array = NdArray::open(sound).unwrap();
        let frame = array.super_chunk();
        let mut blocks = Vec::new();
        for nchunk in 0..frame.nchunks() {
            let Entry::Stored(offset) = frame.chunk(nchunk).entry().unwrap() else { continue };
            let (file, start) = match path.is_dir() {
                true => (path.join(format!("{offset:08X}.chunk")), 0),
                false => (path.to_owned(), frame.layout().data.start + offset),
            };
            let chunk = frame.chunk(nchunk).read().unwrap();
            let bytes = chunk.as_bytes();
            let Ok(LazyHead::Ready(lazy)) = LazyChunk::parse(bytes, bytes.len() as u64, &DParams::default())
            else {
                panic!("{}: chunk {nchunk}", path.display());
            };
            let at = |range: Range<usize>| start + range.start as u64..start + range.end as u64;
            for nblock in 0..lazy.nblocks() {
                let own = at(lazy.block_extent(nblock));
                // Without block 0, whose position is in the head, the others do not decode.
                let first = 0..lazy.block_extent(0).end;
                let reference = if lazy.needs_block0() { at(first) } else { own.clone() };
                let head = at(0..lazy.block_extent(0).start);
                blocks.push(Block { nchunk, nblock, file: file.clone(), own, reference, head });
            }
        }
        let plain = array.all().read_bytes().unwrap();
        let mut entries = (0..frame.nchunks()).map(|nchunk| frame.chunk(nchunk).entry().unwrap());
        let has_special = entries.any(|entry| matches!(entry, Entry::Special(_)));
        let tail = match path.is_dir() {
            true => (path.join(b2_frame::INDEX_NAME), 0),
            false => (path.to_owned(), frame.layout().index.start),
        };
        Self { path: path.to_owned(), blocks, has_special, plain, tail, array }
    }

    fn files(&self) -> Vec<PathBuf> {
        if !self.path.is_dir() {
            return vec![self.path.clone()];
        }
        let mut files: Vec<_> =
            fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Zeroes each sector of each file once. Returns the number of sectors, and of blocks whose place was lost with the
    /// index.
    fn check(&self, reads: bool) -> (usize, usize) {
        let (mut sectors, mut unplaced_blocks) = (0, 0);
        for file in self.files() {
            let whole = fs::read(&file).unwrap();
            for start in (0..whole.len()).step_by(SECTOR) {
                let range = start..(start + SECTOR).min(whole.len());
                let mut bytes = whole.clone();
                bytes[range.clone()].fill(0);
                if bytes == whole {
                    continue;
                }
                fs::write(&file, bytes).unwrap();
                let what = format!("{} {range:?}", file.display());
                if reads {
                    self.reads_nothing_wrong(&what);
                }
                unplaced_blocks += self.saves_the_rest(&file, range.start as u64..range.end as u64, &what);
                fs::write(&file, &whole).unwrap();
                sectors += 1;
            }
        }
        (sectors, unplaced_blocks)
    }

    fn reads_nothing_wrong(&self, what: &str) {
        let Ok(array) = NdArray::open(&self.path) else { return };
        assert_eq!((array.shape(), array.dtype()), (self.array.shape(), self.array.dtype()), "{what}");
        // A metalayer that another program has changed looks like a damaged one.
        let changed = array.super_chunk().checksums() == Checksums::Changed;
        assert!(changed || array.verify().is_err(), "{what}");
        assert!(!array.super_chunk().is_restored() || NdArray::edit(&self.path).is_err(), "{what}");
        if let Ok(bytes) = array.all().read_bytes() {
            assert!(bytes == self.plain, "{what}");
        }
    }

    fn saves_the_rest(&self, file: &Path, bad: Range<u64>, what: &str) -> usize {
        let (report, out) = save(&self.path);
        let what = &format!("{what}: {report:?}");
        let saved = NdArray::open(&out).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((saved.shape(), saved.dtype()), (self.array.shape(), self.array.dtype()), "{what}");
        assert_eq!(saved.geometry(), self.array.geometry(), "{what}");
        let hit = |there: &Range<u64>| there.start < bad.end && bad.start < there.end;
        let in_tail = file == self.tail.0 && bad.end > self.tail.1;
        let names = |array: &NdArray| array.attrs().names().map(String::from).collect::<Vec<_>>();
        if !in_tail || file == self.path.join(b2_frame::INDEX_NAME) && bad.start == 0 && bad.end < 400 {
            assert_eq!(names(&saved), names(&self.array), "{what}");
        }
        for name in names(&saved) {
            let value = |array: &NdArray| array.super_chunk().vlmetalayers().get(&name).unwrap();
            assert!(value(&saved) == value(&self.array) || in_tail, "{name}: {what}");
        }
        let mut unplaced_blocks = 0;
        let (frame, geometry) = (self.array.super_chunk(), self.array.geometry());
        for block in &self.blocks {
            if block.file == file && (hit(&block.own) || hit(&block.reference)) {
                continue;
            }
            let same = |of: &NdArray| {
                let chunk = of.super_chunk().chunk(block.nchunk).decompress().unwrap();
                let start = block.nblock * geometry.block_nbytes();
                chunk[start..chunk.len().min(start + geometry.block_nbytes())].to_vec()
            };
            let is_saved = same(&saved) == same(&self.array);
            // Without the index, the positions of chunks that are not stored are unknown.
            let unplaced = file == self.tail.0 && hit(&frame.layout().index) && self.has_special;
            if block.file == file && hit(&block.head) && !is_saved {
                // The head of a chunk is rebuilt like those of others, which fails where they differ.
                HEADLESS.fetch_add(1, Ordering::Relaxed);
            } else if unplaced {
                unplaced_blocks += usize::from(!is_saved);
            } else {
                assert!(is_saved, "chunk {}, block {}: {what}", block.nchunk, block.nblock);
            }
        }
        unplaced_blocks
    }
}

fn save(path: &Path) -> (SalvageReport, PathBuf) {
    let out = path.with_extension("out");
    let _ = if out.is_dir() { fs::remove_dir_all(&out) } else { fs::remove_file(&out) };
    let write = FrameWriter::options().durability(Durability::None);
    let report = salvage_filled(path, &out, &ReadOptions::default(), &write, |_, _| Ok(Vec::new()));
    (report.unwrap_or_else(|error| panic!("{}: {error}", path.display())), out)
}

fn noise(len: usize) -> Vec<u8> {
    let mut rng = b2_testkit::Rng::new(len as u64);
    let mut at = 0u32;
    let mut next = || {
        at = at.wrapping_add(rng.below(900) as u32);
        at
    };
    (0..len.div_ceil(4)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

fn options() -> WriteOptions {
    FrameWriter::options().durability(Durability::None)
}

fn builder(dtype: &str, shape: &[u64], chunks: &[u32], blocks: &[u32], codec: CodecId) -> ArrayBuilder {
    let dtype = Dtype::parse(dtype).unwrap();
    let itemsize = dtype.itemsize();
    let cparams = Compression::new().itemsize(itemsize).codec(codec).filters([FilterSlot::SHUFFLE]);
    ArrayBuilder::of_dtype(shape, dtype)
        .chunks(chunks)
        .blocks(blocks)
        .compression(cparams.build().unwrap())
        .write_options(options())
}

/// Writes an array of noise, with zeros if `zeros` is set.
fn write(folder: &Path, name: &str, builder: &ArrayBuilder, nbytes: usize, zeros: Range<usize>) -> PathBuf {
    let path = folder.join(format!("{name}.b2nd"));
    let mut plain = noise(nbytes);
    plain[zeros].fill(0);
    builder.write(&path, &plain[..]).unwrap();
    path
}

/// Arrays of different shapes, dtypes, codecs, filters and storages; with attributes, special chunks, long metalayers,
/// tiny chunks.
fn arrays(folder: &Path) -> Vec<PathBuf> {
    let attr = |n: usize| [&[0xC4, n as u8][..], &noise(n)].concat();
    let write =
        |name: &str, builder: &ArrayBuilder, nbytes, zeros| write(folder, name, builder, nbytes, zeros);
    let zstd = builder("<i4", &[6000], &[1000], &[250], CodecId::ZSTD);
    let lz4 = builder("<f4", &[60, 70], &[20, 30], &[10, 10], CodecId::LZ4);
    let lz4 = lz4.vlmetalayer("units", b"\xA1K").vlmetalayer("long_name", attr(200));
    let blosclz = builder("<i8", &[12, 10, 14], &[5, 10, 6], &[5, 5, 3], CodecId::BLOSCLZ);
    let many = (0..8).fold(blosclz, |builder, n| builder.vlmetalayer(format!("attr{n}"), attr(100 + 20 * n)));
    let sparse = builder(">f8", &[40, 40], &[15, 20], &[5, 10], CodecId::ZLIB).storage(Storage::Sparse);
    let sparse = sparse.vlmetalayer("units", b"\xA1K");
    let one = builder("<u2", &[5000], &[5000], &[500], CodecId::LZ4HC);
    let special = builder("<i4", &[100, 100], &[10, 100], &[5, 50], CodecId::ZSTD);
    let tiny = builder("|u1", &[700], &[10], &[10], CodecId::LZ4);
    let metalayers = builder("<i4", &[3000], &[500], &[100], CodecId::ZSTD)
        .metalayer("long", noise(2500))
        .metalayer("short", noise(20));
    let fields = "[('a', '<f8'), ('b', '|S7'), ('c', '<i4', (3,))]";
    let delta = Compression::new()
        .itemsize(27)
        .codec(CodecId::ZSTD)
        .filters([FilterSlot::DELTA, FilterSlot::new(FilterId::SHUFFLE, 0)]);
    let fields = ArrayBuilder::of_dtype([400], Dtype::parse(fields).unwrap())
        .chunks([100])
        .blocks([25])
        .compression(delta.build().unwrap())
        .write_options(options())
        .vlmetalayer("comment", attr(40));
    let few = builder("<f8", &[10], &[10], &[10], CodecId::ZSTD).vlmetalayer("units", b"\xA1m");
    vec![
        write("zstd", &zstd, 24_000, 0..0),
        write("lz4", &lz4, 60 * 70 * 4, 0..0),
        write("attributes", &many, 12 * 10 * 14 * 8, 0..0),
        write("sparse", &sparse, 40 * 40 * 8, 0..0),
        write("one-chunk", &one, 10_000, 0..0),
        write("special", &special, 40_000, 0..12_000),
        write("tiny-chunks", &tiny, 700, 0..0),
        write("metalayers", &metalayers, 12_000, 0..0),
        write("fields", &fields, 27 * 400, 0..0),
        write("few", &few, 80, 0..0),
    ]
}

#[test]
fn each_sector_of_ten_arrays_may_be_bad() {
    let folder = tempfile::tempdir().unwrap();
    for path in arrays(folder.path()) {
        let (sectors, unplaced_blocks) = Whole::open(&path).check(true);
        println!(
            "{}: {sectors} sectors, {unplaced_blocks} blocks out of place without the index",
            path.display()
        );
    }
    let headless = HEADLESS.load(Ordering::Relaxed);
    assert!(headless <= 16, "{headless} blocks were lost with the heads of their chunks");
}

/// Each commit updates the copy, even if the data grow.
#[test]
fn changed_arrays_are_restored_as_well() {
    let folder = tempfile::tempdir().unwrap();
    for path in arrays(folder.path()) {
        let array = NdArray::open(&path).unwrap();
        let row: u64 = array.shape().iter().skip(1).product();
        let rows = noise(2 * row as usize * array.itemsize());
        drop(array);
        for _ in 0..3 {
            let mut editor: ArrayEditor = NdArray::edit(&path).unwrap();
            editor.append(Axis(0), &rows[..]).unwrap();
            editor.commit().unwrap();
        }
        let whole = Whole::open(&path);
        let file = whole.tail.0.clone();
        let sound = fs::read(&file).unwrap();
        let mut bytes = sound.clone();
        bytes[..SECTOR.min(sound.len())].fill(0);
        fs::write(&file, &bytes).unwrap();
        whole.reads_nothing_wrong("changed");
        let (report, _) = save(&path);
        assert!(matches!(report.header, Condition::Restored), "{}: {report:?}", path.display());
        whole.saves_the_rest(&file, 0..SECTOR as u64, "changed");
    }
}

/// Reads through the copy of the header return the same items, or an error.
#[test]
fn arrays_without_a_header_are_read_by_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    for path in arrays(folder.path()) {
        let whole = Whole::open(&path);
        let file = whole.tail.0.clone();
        let mut bytes = fs::read(&file).unwrap();
        bytes[..100].fill(0);
        fs::write(&file, &bytes).unwrap();
        let mut array = NdArray::open(&path).unwrap();
        assert!(array.super_chunk().is_restored());
        assert!(!array.refresh().unwrap(), "{}: it is unchanged", path.display());
        assert!(array.all().read_bytes().unwrap() == whole.plain, "{}", path.display());
        let error = array.verify().unwrap_err();
        assert!(b2_core::Report(&error).to_string().contains("salvage"), "{error}");
        let Err(error) = NdArray::edit(&path) else { panic!("{}", path.display()) };
        assert!(b2_core::Report(&error).to_string().contains("salvage"), "{error}");
        if path.is_file() {
            assert!(NdArray::from_bytes(bytes).unwrap().all().read_bytes().unwrap() == whole.plain);
        }
        assert!(SuperChunk::options().checksums(false).open(&path).is_err());
    }
}
