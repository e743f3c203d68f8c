//! Out of memory is an error: it neither ends the process nor returns wrong data.
//!
//! Each operation is run again and again; the first time its first allocation fails, then its second, until it gets
//! through without a failure. Only allocations of [`LARGE`] bytes and more fail: Rust's boxes, lists of a handful
//! and error messages can only abort the process if a few bytes are not available.

// The one way to make allocations fail is to be the allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use b2kit::chunk::{ChunkReader, Compression, DParams, FilterSlot, SpecialKind};
use b2kit::frame::{FrameParams, Storage};
use b2kit::{
    ArrayBuilder, Chunk, CodecId, Dtype, FilterId, FrameEditor, FrameWriter, Limits, NdArray, SuperChunk,
};

/// Smaller allocations, in bytes, never fail. Some encoder tables of fixed size have 8 KiB.
const LARGE: usize = 16 << 10;

/// The system's allocator, of which one call can be made to fail.
struct Failing;

static ARMED: AtomicBool = AtomicBool::new(false);
/// How many large allocations succeed before one fails.
static BEFORE: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicUsize = AtomicUsize::new(0);
/// The largest allocation so far.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

impl Failing {
    fn fails(size: usize) -> bool {
        if size < LARGE || !ARMED.load(Relaxed) {
            return false;
        }
        LARGEST.fetch_max(size, Relaxed);
        let fails = BEFORE.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
            && FAILED.fetch_add(1, Relaxed) == 0;
        if fails && std::env::var_os("WHERE").is_some() {
            ARMED.store(false, Relaxed);
            eprintln!("{size} bytes: {}", std::backtrace::Backtrace::force_capture());
            ARMED.store(true, Relaxed);
        }
        fails
    }
}

// SAFETY: All calls go unchanged to the system's allocator, or return null, which means out of memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: The caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: As above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && Self::fails(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: As above.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: As above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Of an operation: a hash of its result, which takes no memory to make.
type Outcome = Result<u64, Box<dyn Error + Send + Sync>>;

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

/// Every n-th allocation fails in turn: each one, or with the step `B2KIT_MEMORY_STEP`, since emulators are slow.
static STEP: LazyLock<usize> =
    LazyLock::new(|| std::env::var("B2KIT_MEMORY_STEP").map_or(1, |text| text.parse().unwrap()));

/// Runs `work` until none of its allocations fails. It must give `expected` then, and an error or `expected` before.
fn check(what: &str, expected: u64, work: impl Fn() -> Outcome + Sync) {
    for threads in [1, 2] {
        let mut errors = 0;
        let mut n = 0;
        loop {
            // New threads, so that nothing is cached from the previous round.
            let pool = rayon_pool(threads);
            BEFORE.store(n, Relaxed);
            FAILED.store(0, Relaxed);
            let outcome = pool(&|| {
                ARMED.store(true, Relaxed);
                let outcome = work();
                ARMED.store(false, Relaxed);
                outcome
            });
            let failed = FAILED.load(Relaxed) > 0;
            match outcome {
                Ok(data) => assert!(data == expected, "{what}: other data after failure {n}"),
                Err(error) => {
                    assert!(failed, "{what}: {error}, without a failure");
                    errors += 1;
                }
            }
            if !failed {
                break;
            }
            n += *STEP;
            assert!(n < 5000, "{what}: no end");
        }
        assert!(errors > 0 || n == 0, "{what}: failures up to {n}, but no error");
        println!("{what}, {threads} threads: {n} allocations of {LARGE} bytes or more, {errors} errors");
    }
}

type Work<'w> = &'w (dyn Fn() -> Outcome + Sync);

fn rayon_pool(threads: usize) -> impl Fn(Work<'_>) -> Outcome {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    move |work| pool.install(work)
}

fn raw(len: usize) -> Vec<u8> {
    (0..len as u32 / 4).flat_map(|i| (i / 3 * 1000 + i % 7).to_le_bytes()).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut x = 1u64;
    let next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn chunks() {
    let data = raw(1 << 20);
    let codecs = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    let filters: [&[FilterSlot]; 4] = [
        &[],
        &[FilterSlot::SHUFFLE],
        &[FilterSlot::DELTA, FilterSlot::BITSHUFFLE],
        &[FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, 4)],
    ];
    for codec in codecs {
        for filters in filters {
            let cparams = Compression::new()
                .itemsize(4)
                .codec(codec)
                .filters(filters)
                .blocksize(1 << 16)
                .build()
                .unwrap();
            let name = format!("{codec}, {} filters", filters.len());
            let chunk = Chunk::compress_bytes(&data, &cparams).unwrap();
            check(&format!("compress, {name}"), hash(&[chunk.as_bytes()]), || {
                Ok(hash(&[Chunk::compress_bytes(&data, &cparams)?.as_bytes()]))
            });
            check(&format!("decompress, {name}"), hash(&[&data]), || Ok(hash(&[&chunk.decompress_bytes()?])));
            let part = 100_001..500_003;
            check(&format!("part, {name}"), hash(&[&data[part.clone()]]), || {
                Ok(hash(&[&chunk.get_bytes(part.clone(), &DParams::default())?]))
            });
            check(&format!("reader, {name}"), hash(&[&data[70_000..70_100]]), || {
                let mut reader = ChunkReader::new(chunk.clone(), DParams::default())?;
                let mut out = [0; 100];
                reader.read(100, &mut out)?;
                reader.read(70_050, &mut out)?;
                reader.read(70_000, &mut out)?;
                Ok(hash(&[&out]))
            });
        }
        let cparams = Compression::new()
            .itemsize(1)
            .codec(codec)
            .use_dict(codec != CodecId::BLOSCLZ && codec != CodecId::ZLIB);
        let cparams = cparams.build().unwrap();
        let blocks: Vec<&[u8]> = data.chunks(30_000).collect();
        let chunk = Chunk::compress_vl(&blocks, &cparams).unwrap();
        check(&format!("compress_vl, {codec}"), hash(&[chunk.as_bytes()]), || {
            Ok(hash(&[Chunk::compress_vl(&blocks, &cparams)?.as_bytes()]))
        });
        let parts =
            |blocks: &[Vec<u8>]| blocks.iter().fold(0, |sum: u64, block| sum.rotate_left(1) ^ hash(&[block]));
        let expected = parts(&blocks.iter().map(|block| block.to_vec()).collect::<Vec<_>>());
        check(&format!("blocks, {codec}"), expected, || Ok(parts(&chunk.blocks(&DParams::default())?)));
    }
    let value = noise(100_000);
    let special = Chunk::special(SpecialKind::Value, &value, 300_000, 1, 0).unwrap();
    check("a long repeated value", hash(&[&value.repeat(3)]), || Ok(hash(&[&special.decompress_bytes()?])));
    // Enough blocks for a large table.
    let cparams =
        Compression::new().itemsize(1).codec(CodecId::LZ4).no_filters().blocksize(64).build().unwrap();
    let many = Chunk::compress_bytes(&data, &cparams).unwrap();
    check("many blocks", hash(&[&data]), || Ok(hash(&[&many.decompress_bytes()?])));
}

fn frames() {
    let data = raw(1 << 20);
    let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).blocksize(1 << 14).build().unwrap();
    let long: Vec<u8> = noise(100_000);
    let write = |mut writer: FrameWriter, individual: bool| -> Result<_, Box<dyn Error + Send + Sync>> {
        for (n, part) in data.chunks(1 << 18).enumerate() {
            let part = if individual { &part[..part.len() - 4 * n] } else { part };
            writer.append(Chunk::compress_bytes(part, &cparams)?)?;
        }
        if !individual {
            writer.append_special(SpecialKind::Zeros, 1 << 18)?;
        }
        writer.set_vlmetalayer("long", &long)?;
        Ok(writer.finish()?)
    };
    let params = |individual| {
        let params = FrameParams::from_cparams(&cparams);
        if individual { params.chunksize(0) } else { params }
    };
    let read = |schunk: SuperChunk| -> Outcome {
        let all = schunk.read_bytes(0..schunk.nbytes())?;
        let items = schunk.read_items(50_000..120_001)?;
        let some = schunk.gather(&[200_000, 3, 77_777, 3, 131_071])?;
        for nchunk in 0..schunk.nchunks() {
            schunk.chunk(nchunk).decompress()?;
            schunk.chunk(nchunk).blocks(&[0, 2], |_, _| ())?;
        }
        schunk.verify_checksums()?;
        schunk.dead_bytes()?;
        schunk.unstored(0..schunk.nchunks(), u64::MAX)?;
        let long = schunk.vlmetalayers().get("long")?.unwrap_or_default();
        Ok(hash(&[&all, &items, &some, &long]))
    };
    let dir = tempfile::tempdir().unwrap();
    for individual in [false, true] {
        let name = if individual { "individual sizes" } else { "equal sizes" };
        let frame = write(FrameWriter::memory(params(individual)).unwrap(), individual).unwrap().into_bytes();
        let expected = read(SuperChunk::from_bytes(frame.clone()).unwrap()).unwrap();
        check(&format!("frame in memory, {name}"), expected, || {
            read(SuperChunk::options().limits(Limits::default()).from_bytes(frame.clone())?)
        });
        let path = dir.path().join(format!("{individual}.b2frame"));
        std::fs::write(&path, &frame).unwrap();
        check(&format!("frame in a file, {name}"), expected, || read(SuperChunk::open(&path)?));
        let sparse = dir.path().join(format!("{individual}.dir"));
        write(
            FrameWriter::options().storage(Storage::Sparse).create(&sparse, params(individual)).unwrap(),
            individual,
        )
        .unwrap();
        check(&format!("sparse frame, {name}"), expected, || read(SuperChunk::open(&sparse)?));
        check(&format!("write a frame, {name}"), hash(&[&frame]), || {
            Ok(hash(&[&write(FrameWriter::memory(params(individual))?, individual)?.into_bytes()]))
        });
    }
    // Many chunks: index and sums are large.
    let mut writer = FrameWriter::memory(params(false)).unwrap();
    for n in 0..20_000u32 {
        writer
            .append(
                Chunk::compress_bytes(
                    &[n, n, n + 1, n * n, 1, 2, 3, 4].map(u32::to_le_bytes).concat(),
                    &cparams,
                )
                .unwrap(),
            )
            .unwrap();
    }
    let frame = writer.finish().unwrap().into_bytes();
    let expected = SuperChunk::from_bytes(frame.clone()).unwrap().read_bytes(0..20_000 * 32).unwrap();
    check("many chunks", hash(&[&expected]), || {
        let schunk = SuperChunk::from_bytes(frame.clone())?;
        schunk.unstored(0..schunk.nchunks(), u64::MAX)?;
        schunk.dead_bytes()?;
        Ok(hash(&[&schunk.read_bytes(0..schunk.nbytes())?]))
    });
    let path = dir.path().join("changed.b2frame");
    let small = write(FrameWriter::memory(params(false)).unwrap(), false).unwrap().into_bytes();
    let other = noise(1 << 18);
    // Nothing is changed by an attempt that fails: each starts from the same frame.
    check("change a frame", 5, || {
        ARMED.store(false, Relaxed);
        std::fs::write(&path, &small)?;
        ARMED.store(true, Relaxed);
        let mut editor = FrameEditor::options().edit(&path)?;
        editor.update(1, Chunk::compress_bytes(&other, &cparams)?)?;
        editor.vlmeta().set("long", &long[..50_000])?;
        editor.commit()?;
        Ok(SuperChunk::open(&path)?.nchunks() as u64)
    });
}

fn arrays() {
    let data = raw(600 * 500 * 4);
    let build = || {
        ArrayBuilder::of_dtype([600, 500], Dtype::parse("<u4").unwrap()).chunks([200, 300]).blocks([50, 70])
    };
    let frame = build().to_bytes(&data[..]).unwrap();
    let array = NdArray::from_bytes(frame.clone()).unwrap();
    let diagonal: Vec<i64> = (0..500).collect();
    let read = |array: &NdArray| -> Outcome {
        let all = array.all().read_bytes()?;
        let part = array.slice([100..450, 33..402])?.read_bytes()?;
        let lists = array.slice(&[vec![5, 400, 17], vec![499, 0]])?.read_bytes()?;
        let points = array.points([&diagonal[..], &diagonal])?.read_bytes()?;
        array.check_output()?;
        Ok(hash(&[&all, &part, &lists, &points]))
    };
    let expected = read(&array).unwrap();
    check("array", expected, || read(&NdArray::from_bytes(frame.clone())?));
    check("write an array", hash(&[&frame]), || Ok(hash(&[&build().to_bytes(&data[..])?])));
    let zeros = build().to_bytes(&vec![0u8; data.len()][..]).unwrap();
    let expected = read(&NdArray::from_bytes(zeros.clone()).unwrap()).unwrap();
    check("array of zeros", expected, || read(&NdArray::from_bytes(zeros.clone())?));
}

/// One test: the allocator is that of the whole process.
#[test]
#[cfg_attr(
    not(all(feature = "zlib-rs", feature = "zstd-c")),
    ignore = "miniz_oxide and ruzstd end the process when there is no memory for their state"
)]
fn a_lack_of_memory_is_an_error() {
    chunks();
    frames();
    arrays();
    assert!(LARGEST.load(Relaxed) >= 1 << 20);
    lies();
}

/// Sizes that contradict each other are found before anything of such a size is allocated.
fn lies() {
    let size = 2_147_483_615u32;
    // Two variable-length blocks, each of which claims to have all bytes of the chunk.
    let mut bytes = vec![6, 1, 0x95, 1];
    for number in [size, 2, 60] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.resize(30, 0);
    bytes.extend_from_slice(&[1, 0]);
    for number in [40, 50, size, 0x0707_0707] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.resize(50, 7);
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.resize(60, 7);
    let chunk = Chunk::from_bytes(bytes).unwrap();
    assert!(chunk.header().is_vl());
    let dparams = DParams::default();
    LARGEST.store(0, Relaxed);
    BEFORE.store(usize::MAX, Relaxed);
    ARMED.store(true, Relaxed);
    let errors = [
        chunk.decompress_bytes_with(&dparams).is_err(),
        chunk.get_bytes(0..size as usize, &dparams).is_err(),
        chunk.blocks(&dparams).is_err(),
        chunk.check(&dparams).0.is_err(),
        ChunkReader::new(chunk.clone(), dparams).is_err(),
    ];
    ARMED.store(false, Relaxed);
    assert_eq!(errors, [true; 5]);
    assert_eq!(LARGEST.load(Relaxed), 0);
}
