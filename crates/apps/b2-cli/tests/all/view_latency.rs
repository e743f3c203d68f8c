//! How long keys of `b2kit view` take on a large array, and how much memory: a measurement, not a test of speed.
//!
//! `cargo test --release -p b2kit-cli --test all view_latency -- --ignored --nocapture`

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use b2kit::chunk::{Chunk, CodecId, Compression, FilterSlot, SpecialKind};
use b2kit::nd::{ChunkContent, Geometry, Region};
use b2kit::{ArrayBuilder, RegionSource};

use crate::common::Folder;
use crate::view_screen::Session;

/// 101 GB of floats in 45,000 chunks of 2.25 MB, of blocks of 90 KB.
const SHAPE: [u64; 3] = [50, 22_500, 22_500];
const CHUNKS: [u32; 3] = [1, 750, 750];
const BLOCKS: [u32; 3] = [1, 150, 150];
/// The plane whose chunks all have data; in the others, one chunk in nine has data.
const FULL: u64 = 25;

struct Content {
    /// Chunks that are repeated.
    known: Vec<Chunk>,
    real: u64,
}

impl Content {
    fn new() -> Self {
        let block = 4 * 150 * 150;
        let compression = Compression::new().itemsize(4).codec(CodecId::ZSTD).level(5);
        let compression = compression.filters([FilterSlot::SHUFFLE]).blocksize(block).build().unwrap();
        let chunk = |k: u32| {
            let item = |at: u32| {
                let (block, y, x) = (at / 22_500, at % 22_500 / 150, at % 150);
                let (y, x) = (block / 5 * 150 + y, block % 5 * 150 + x);
                // Quantised waves, so that they compress well.
                (((y + 40 * k) as f32 * 0.02).sin() * 12.0 + ((x + y) as f32 * 0.013).cos() * 8.0).round()
            };
            let bytes: Vec<u8> = (0..562_500).flat_map(|at| item(at).to_le_bytes()).collect();
            Chunk::compress_bytes(&bytes, &compression).unwrap()
        };
        Self { known: (0..16).map(chunk).collect(), real: 0 }
    }
}

impl RegionSource for Content {
    fn read_region(&mut self, _: &Region<'_>, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::other("all chunks are given"))
    }

    fn chunk(&mut self, _: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        Ok(match (nchunk / 900, nchunk % 9) {
            (FULL, _) | (_, 0) => {
                self.real += 1;
                ChunkContent::Chunk(self.known[nchunk as usize % self.known.len()].clone())
            }
            (_, 1..=3) => ChunkContent::Special(SpecialKind::NaN),
            (_, 4) => ChunkContent::Special(SpecialKind::Uninit),
            _ => ChunkContent::Special(SpecialKind::Zeros),
        })
    }
}

/// Writes the array. Returns the number of chunks with data.
fn write(path: &Path) -> u64 {
    let mut content = Content::new();
    ArrayBuilder::new::<f32>(SHAPE).chunks(CHUNKS).blocks(BLOCKS).write(path, &mut content).unwrap();
    content.real
}

/// Drops a file from the page cache.
fn forget(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Peak memory of a process, in KiB.
fn peak(session: &Session) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", session.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A typical session: planes, zoom, moves, other dimensions, the crosshair, values, chunks, an index.
fn keys() -> Vec<&'static str> {
    const RIGHT: &str = "\x1b[C";
    const DOWN: &str = "\x1b[B";
    const PAGE_DOWN: &str = "\x1b[6~";
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.extend([".", ".", ",", ",", "+", "+", RIGHT, DOWN, "+", "+", ".", ",", RIGHT, RIGHT, "-", "0"]);
        keys.extend([
            "i", RIGHT, RIGHT, DOWN, DOWN, "+", RIGHT, DOWN, "+", RIGHT, "\x1b", "c", "p", "l", "l", "p", "p",
        ]);
        keys.extend([
            "x", "o", ".", ".", "+", "+", "0", "o", "x", "2", RIGHT, DOWN, DOWN, "3", "4", "1", PAGE_DOWN,
        ]);
        keys.extend(["g", "2", "5", ",", "7", ",", "9", "\r", "+", "+", "+", "+", RIGHT, DOWN, "0", "\x1b"]);
    }
    keys
}

#[test]
#[ignore = "a measurement, which writes 100 MB: run it by its name on a quiet machine"]
fn keys_on_a_large_array() {
    let folder = Folder::new();
    let path = folder.path("large.b2nd");
    let real = write(&path);
    let stored = std::fs::metadata(&path).unwrap().len();
    println!("101 GB, {real} of 45000 chunks with data, {} MB stored", stored / 1_000_000);
    assert!(real >= 5000);
    for (what, pause) in
        [("cold, a key each 150 ms", 150), ("warm, a key each 150 ms", 150), ("warm, a key each 30 ms", 30)]
    {
        if what.starts_with("cold") {
            forget(&path);
        }
        let start = Instant::now();
        let mut session = Session::start(&folder, &["view", "large.b2nd", "--verbose"]);
        session.until("a picture", |screen| screen.text().contains("down: dimension"));
        let first = start.elapsed();
        for key in keys() {
            session.press(key);
            let pressed = Instant::now();
            while let Some(rest) = Duration::from_millis(pause).checked_sub(pressed.elapsed()) {
                session.take(rest);
            }
        }
        session.until("all read", |screen| !screen.text().contains("reading ..."));
        let peak = peak(&session);
        session.press("q");
        let (status, text) = session.end();
        assert!(status.success(), "{text}");
        println!("{what}: picture after {} ms, at most {} MB of memory", first.as_millis(), peak / 1024);
        for line in text.lines().filter(|line| line.contains("95 %")) {
            let output = line.rsplit("\x1b[?1049l").next().unwrap_or(line);
            println!("    {}", output.trim());
        }
        assert!(peak < 100 << 10, "{peak} KiB");
    }
}
