//! A small box of a 2 GB array: which bytes of the file are read, and how much memory it takes.
//!
//! Shape (500, 1000, 1000) of float32, chunks of (100, 250, 250), blocks of (20, 50, 50); the box
//! [60:167, 130:346, 390:606] holds 1 % of the items and lies within two chunks along each axis.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use b2_chunk::{CodecId, Compression};
use b2_frame::{
    Disk, FrameError, FrameFile, FrameFiles, Links, OpenFile, ReadAt, ReadFiles, Storage, SuperChunk,
};
use b2nd::{ArrayBuilder, Dtype, NdArray, Region, RegionSource, Selection, range};

const SHAPE: [u64; 3] = [500, 1000, 1000];
const START: [i64; 3] = [60, 130, 390];
const STOP: [i64; 3] = [167, 346, 606];
/// Read of each chunk's head beyond header and block starts, and joined into one read, at most.
const SLACK: u64 = 4096;

fn item(i: u64, j: u64, k: u64) -> f32 {
    // A smooth field with digitised noise.
    let noise = (i * 31 + j * 17 + k).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
    (i * 50 + j * 2 + k / 4) as f32 * 0.25 + noise as f32 * 0.125
}

struct Field;

impl RegionSource for Field {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let (start, shape) = (region.start(), region.shape());
        let mut out = dst.as_chunks_mut::<4>().0.iter_mut();
        for i in start[0]..start[0] + shape[0] {
            for j in start[1]..start[1] + shape[1] {
                for (k, out) in (start[2]..start[2] + shape[2]).zip(&mut out) {
                    *out = item(i, j, k).to_le_bytes();
                }
            }
        }
        Ok(())
    }
}

/// A file that counts what is read from it.
struct Counting {
    file: Arc<dyn ReadAt>,
    bytes: Arc<AtomicU64>,
    calls: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl ReadAt for Counting {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.calls.lock().unwrap().push((offset, buf.len() as u64));
        self.file.read_exact_at(offset, buf)
    }
}

struct One(OpenFile);

impl FrameFiles for One {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        assert_eq!(file, FrameFile::Main);
        Ok(self.0.clone())
    }
}

fn selection() -> [Selection; 3] {
    std::array::from_fn(|dim| range(START[dim]..STOP[dim]))
}

fn check(items: &[u8]) {
    let mut items = items.as_chunks::<4>().0.iter();
    for i in START[0]..STOP[0] {
        for j in START[1]..STOP[1] {
            for k in START[2]..STOP[2] {
                assert_eq!(f32::from_le_bytes(*items.next().unwrap()), item(i as u64, j as u64, k as u64));
            }
        }
    }
    assert!(items.next().is_none());
}

/// In a process of its own, so that the peak is that of reading alone.
const CHILD: &str = "B2ND_TEST_LARGE_CHILD";

#[test]
fn a_box_of_one_percent_reads_its_blocks_only_in_little_memory() {
    if let Some(path) = std::env::var_os(CHILD) {
        check(&NdArray::open(path).unwrap().slice(selection()).unwrap().read_bytes().unwrap());
        #[cfg(target_os = "linux")]
        {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
            println!("peak {peak} KiB");
            assert!(peak < 200_000, "peak {peak} KiB");
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.b2nd");
    ArrayBuilder::of_dtype(SHAPE, Dtype::parse("<f4").unwrap())
        .chunks([100, 250, 250])
        .blocks([20, 50, 50])
        .compression(Compression::new().itemsize(4).codec(CodecId::LZ4).level(1).build().unwrap())
        .write(&path, Field)
        .unwrap();

    let bytes = Arc::new(AtomicU64::new(0));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let file = Disk.open(&path, Links::Follow).unwrap();
    let counting = Counting { file, bytes: bytes.clone(), calls: calls.clone() };
    let files = Arc::new(One(OpenFile::new(Arc::new(counting), "large.b2nd", 0).unwrap()));
    let frame = SuperChunk::options().open_files(files, Storage::Contiguous, false).unwrap();
    let layout = frame.layout().clone();
    let metadata = layout.header.end + (layout.trailer.end - layout.index.start);
    assert!(bytes.load(Ordering::Relaxed) <= metadata + SLACK, "opening reads more than the metadata");
    let array = NdArray::from_super_chunk(frame).unwrap();
    let slice = array.slice(selection()).unwrap();
    assert!(slice.len() * 100 >= array.geometry().nitems() * 99 / 100);
    check(&slice.read_bytes().unwrap());
    let read = bytes.load(Ordering::Relaxed);

    // What had to be read: of each touched chunk header, block starts and touched blocks.
    let geometry = array.geometry().clone();
    let frame = array.super_chunk();
    let (mut needed, mut touched) = (0, 0);
    for nchunk in 0..geometry.nchunks() {
        let coords = geometry.chunk_coords(nchunk);
        let overlaps =
            |dim: usize, start: u64, len: u64| start < STOP[dim] as u64 && start + len > START[dim] as u64;
        let (start, len) = geometry.chunk_box(&coords);
        if !(0..3).all(|dim| overlaps(dim, start[dim], len[dim])) {
            continue;
        }
        touched += 1;
        let lazy = frame.chunk(nchunk as usize).read().unwrap().lazy(frame.dparams()).unwrap();
        needed += 32 + 4 * lazy.nblocks() as u64;
        for nblock in 0..lazy.nblocks() {
            let mut rest = nblock as u64;
            let inside = (0..3).rev().all(|dim| {
                let b = u64::from(geometry.blockshape()[dim]);
                let at = rest % u64::from(geometry.blocks()[dim]);
                rest /= u64::from(geometry.blocks()[dim]);
                overlaps(dim, start[dim] + at * b, b)
            });
            if inside {
                needed += lazy.block_extent(nblock).len() as u64;
            }
        }
    }
    assert_eq!(touched, 8);
    let reads = calls.lock().unwrap().len() as u64;
    println!("file {} bytes, needed {needed}, read {read} in {reads} reads", layout.trailer.end);
    // Blocks are compared in runs of 16 KiB, of which the first and the last of each chunk may reach beyond.
    let needed = needed + touched * 2 * (16 << 10);
    assert!(read <= needed + metadata + (touched + 1) * SLACK, "read {read} bytes, {needed} are needed");

    // The child checks its peak memory where the system tells it.
    let child = b2_storage_sim::program(std::env::current_exe().unwrap())
        .args([
            "large_array::a_box_of_one_percent_reads_its_blocks_only_in_little_memory",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    println!("{output}");
}
