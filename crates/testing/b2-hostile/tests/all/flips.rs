//! Flips single bits anywhere in arrays of many codecs, dtypes and sizes, contiguous and sparse, and reads each as a
//! whole, by box, item and mask, and asynchronously: the result must be an error, a reported change, or the right
//! values. Some go through `b2kit view`: without a message it must show the intact array.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use b2_async::AsyncNdArray;
use b2_testkit::Rng;
use b2kit::chunk::{CodecId, Compression, FilterSlot};
use b2kit::frame::{Checksums, Durability, FrameWriter, Storage};
use b2kit::nd::{ArrayBuilder, Dtype, NdArray, range};
use bytes::Bytes;

use crate::commands::VIEW_KEYS;
use crate::number;
use crate::worker::{CommandOutput, Worker, WorkerSetup};

const ARRAYS: u64 = 40;
/// One of this many flips goes through `b2kit view`.
const VIEW_EVERY: u64 = 8;

/// The results of the flips.
#[derive(Debug, Default)]
struct FlipCounts {
    errors: u64,
    changes: u64,
    right: u64,
    /// Pictures and screens of damaged arrays: those that report the damage, and those that show the intact array.
    reported: u64,
    intact: u64,
}

#[test]
fn no_flipped_bit_goes_unnoticed() -> Result<()> {
    let (seed, flips) = (number("B2KIT_FLIPS_SEED", 2)?, number("B2KIT_FLIPS", 50)?);
    let only = std::env::var_os("B2KIT_FLIPS_ARRAY").is_some().then(|| number("B2KIT_FLIPS_ARRAY", 0));
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("arrays");
    fs::create_dir(&dir)?;
    let mut viewer = Viewer::new(&dir);
    let mut counts = FlipCounts::default();
    let arrays = match only.transpose()? {
        Some(number) => number..number + 1,
        None => 0..ARRAYS,
    };
    for number in arrays {
        let rng = &mut Rng::case(seed, number);
        let path = dir.join(format!("{number}.b2nd"));
        let what = make(&path, number, rng)?;
        check(&path, flips, rng, &mut viewer, &mut counts).with_context(|| {
            format!(
                "{what}\n    B2KIT_FLIPS_SEED={seed} B2KIT_FLIPS={flips} B2KIT_FLIPS_ARRAY={number} \
                 cargo nextest run -p b2-hostile no_flipped_bit"
            )
        })?;
    }
    println!("{counts:?}");
    ensure!(counts.errors > 0 && counts.reported > 0 && counts.intact > 0, "{counts:?}");
    Ok(())
}

/// Writes an array with random properties.
fn make(path: &Path, number: u64, rng: &mut Rng) -> Result<String> {
    let dtype = *rng.pick(&["|u1", "<i2", "<f4", "<f8", ">i4", "<u8", "|S5", "<c16"]);
    let codec = *rng.pick(&[CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD]);
    let filters: &[FilterSlot] = rng.pick::<&[FilterSlot]>(&[
        &[],
        &[FilterSlot::SHUFFLE],
        &[FilterSlot::BITSHUFFLE],
        &[FilterSlot::DELTA, FilterSlot::SHUFFLE],
    ]);
    let level = *rng.pick(&[0, 1, 5, 9]);
    let ndim = 1 + rng.below(3);
    // From a hundred items to a few hundred thousand.
    let total = 100usize << rng.below(11);
    let side = (total as f64).powf(1.0 / ndim as f64) as u64 + 1;
    let shape: Vec<u64> = (0..ndim).map(|_| side + rng.below(5) as u64).collect();
    let chunks: Vec<u32> = shape.iter().map(|&n| (n as u32).div_ceil(1 + rng.below(3) as u32)).collect();
    let blocks: Vec<u32> = chunks.iter().map(|&n| n.div_ceil(1 + rng.below(5) as u32)).collect();
    let storage = if number.is_multiple_of(4) { Storage::Sparse } else { Storage::Contiguous };
    let dtype_of = Dtype::parse(dtype)?;
    let nbytes = shape.iter().product::<u64>() as usize * dtype_of.itemsize();
    // Noise, smooth data, or small numbers.
    let kind = rng.below(3);
    let noise = rng.bytes(nbytes);
    let items: Vec<u8> = match kind {
        0 => noise,
        1 => (0..nbytes).map(|at| (at / 64) as u8).collect(),
        _ => noise.iter().enumerate().map(|(at, byte)| if at % 4 == 0 { byte & 0x0F } else { 0 }).collect(),
    };
    let what = format!("{dtype} {shape:?} in {chunks:?} in {blocks:?}, {codec:?}, {storage:?}, data {kind}");
    let options = FrameWriter::options().durability(Durability::None).storage(storage);
    ArrayBuilder::of_dtype(shape, dtype_of)
        .chunks(chunks)
        .blocks(blocks)
        .compression(Compression::new().codec(codec).level(level).filters(filters))
        .write_options(options)
        .write(path, &items[..])
        .with_context(|| what.clone())?;
    Ok(what)
}

/// Returns the files of an array with their contents.
fn files(path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    if path.is_file() {
        return Ok(vec![(path.to_owned(), fs::read(path)?)]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        files.push((path.clone(), fs::read(&path)?));
    }
    files.sort();
    Ok(files)
}

fn check(path: &Path, flips: u64, rng: &mut Rng, viewer: &mut Viewer, counts: &mut FlipCounts) -> Result<()> {
    let good = NdArray::open(path)?;
    let good_view = viewer.view(path)?;
    let (shape, items) = (good.shape().to_vec(), good.all().read_bytes()?);
    let files = files(path)?;
    let total: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    for flip in 0..flips {
        let mut at = rng.below(total);
        let mut number = 0;
        while at >= files[number].1.len() {
            at -= files[number].1.len();
            number += 1;
        }
        let (file, bytes) = &files[number];
        let bit = rng.below(8);
        let mut bad = bytes.clone();
        bad[at] ^= 1 << bit;
        fs::write(file, &bad)?;
        let outcome = read(path, &shape, &items, &good, rng);
        let place = || format!("bit {bit} of byte {at} of {}", file.display());
        let outcome = outcome.with_context(place)?;
        if flip.is_multiple_of(VIEW_EVERY) {
            for (view, good) in viewer.view(path).with_context(place)?.iter().zip(&good_view) {
                match view.compare(good, &outcome).with_context(place)? {
                    true => counts.intact += 1,
                    false => counts.reported += 1,
                }
            }
        }
        match outcome {
            FlipOutcome::Error => counts.errors += 1,
            FlipOutcome::Changed => counts.changes += 1,
            FlipOutcome::Right => counts.right += 1,
        }
        fs::write(file, bytes)?;
    }
    Ok(())
}

/// Shows arrays with `b2kit view` in a separate process.
struct Viewer(Worker);

/// The output: a picture, or a screen after some keys.
struct View {
    command: String,
    answer: CommandOutput,
}

impl Viewer {
    fn new(folder: &Path) -> Self {
        Self(Worker::new(WorkerSetup {
            folder: folder.to_owned(),
            perturb: 0,
            threads: 1,
            address_kib: 4_000_000,
        }))
    }

    fn view(&mut self, path: &Path) -> Result<Vec<View>> {
        let name = path.file_name().and_then(|name| name.to_str()).context("no name")?;
        let pictures = ["--format", "png"];
        let mut views = Vec::new();
        for more in [pictures, ["--keys", VIEW_KEYS[0]], ["--keys", VIEW_KEYS[2]]] {
            let args: Vec<String> =
                ["view", "-q", name].iter().chain(&more).map(|arg| (*arg).into()).collect();
            let command = args.join(" ");
            let answer = self.0.run(&args)?;
            let answer = answer.map_err(|death| anyhow!("{command}: {death:?}: {}", self.0.said()))?;
            let said = self.0.said();
            ensure!(!said.contains("panicked"), "{command}: {said}");
            views.push(View { command, answer });
        }
        Ok(views)
    }
}

impl View {
    /// Returns whether it shows the intact array; otherwise the output must give a reason.
    fn compare(&self, good: &Self, outcome: &FlipOutcome) -> Result<bool> {
        let Self { command, answer } = self;
        ensure!(answer.rc <= 1, "{command} ends with {}: {}", answer.rc, answer.err);
        if answer.rc == good.answer.rc && answer.sha256 == good.answer.sha256 {
            return Ok(true);
        }
        let text = String::from_utf8_lossy(&answer.out);
        let reported = answer.rc == 1 && !answer.err.is_empty() || text.contains("damaged");
        ensure!(
            reported || matches!(outcome, FlipOutcome::Changed),
            "{command} shows something else: {}\n{text}",
            answer.err
        );
        Ok(false)
    }
}

enum FlipOutcome {
    Error,
    Changed,
    Right,
}

/// Reads a damaged array in all ways, each after opening it again.
fn read(path: &Path, shape: &[u64], items: &[u8], good: &NdArray, rng: &mut Rng) -> Result<FlipOutcome> {
    let mut failed = false;
    let at: Vec<i64> = shape.iter().map(|&n| rng.below(n as usize) as i64).collect();
    let some: Vec<_> = at.iter().map(|&n| range(n..n + 3)).collect();
    let marks: Vec<bool> = (0..shape.iter().product::<u64>()).map(|_| rng.chance(2)).collect();
    for way in ["whole", "box", "item", "mask", "async"] {
        let array = match NdArray::open(path) {
            Ok(array) => array,
            Err(_) => return Ok(FlipOutcome::Error),
        };
        if array.super_chunk().checksums() != Checksums::Ok {
            return Ok(FlipOutcome::Changed);
        }
        let select = |array: &NdArray| match way {
            "box" => array.slice(some.clone()),
            "item" => array.slice(at.clone()),
            "mask" => array.mask(&marks),
            _ => Ok(array.all()),
        };
        let expected = match way {
            "whole" | "async" => items.to_vec(),
            _ => {
                // The intact file has been overwritten, but its content is in memory.
                let intact = OriginalItems { items, shape, itemsize: good.dtype().itemsize() };
                intact.select(way, &some_of(&at, shape), &marks)
            }
        };
        let found = match way {
            "async" if path.is_file() => {
                let store = Bytes::from(fs::read(path)?);
                block_on(async { AsyncNdArray::open(store).await?.all().read_bytes().await })
            }
            _ => select(&array).and_then(|slice| slice.read_bytes()),
        };
        match found {
            Ok(found) => ensure!(found == expected, "{way}: wrong values, silently"),
            Err(_) => failed = true,
        }
    }
    Ok(if failed { FlipOutcome::Error } else { FlipOutcome::Right })
}

/// Returns the half-open ranges of a box of three items along each dimension, clipped at the end.
fn some_of(at: &[i64], shape: &[u64]) -> Vec<std::ops::Range<u64>> {
    at.iter().zip(shape).map(|(&at, &n)| at as u64..(at as u64 + 3).min(n)).collect()
}

/// The original items.
struct OriginalItems<'a> {
    items: &'a [u8],
    shape: &'a [u64],
    itemsize: usize,
}

impl OriginalItems<'_> {
    fn item(&self, n: u64) -> &[u8] {
        &self.items[n as usize * self.itemsize..][..self.itemsize]
    }

    fn select(&self, way: &str, ranges: &[std::ops::Range<u64>], marks: &[bool]) -> Vec<u8> {
        if way == "mask" {
            let marked = (0..marks.len()).filter(|&n| marks[n]);
            return marked.flat_map(|n| self.item(n as u64)).copied().collect();
        }
        let mut numbers = vec![0];
        for (range, &length) in ranges.iter().zip(self.shape) {
            let range = if way == "item" { range.start..range.start + 1 } else { range.clone() };
            numbers = numbers.iter().flat_map(|n| range.clone().map(move |i| n * length + i)).collect();
        }
        numbers.iter().flat_map(|&n| self.item(n)).copied().collect()
    }
}

/// Polls a future that is never pending.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}
