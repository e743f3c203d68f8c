//! Tests with a second driver, which has no threads, answers in any order and counts. It must
//! return the same items as the local driver.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use b2_chunk::{Chunk, CodecId, Compression, FilterSlot, SpecialKind};
use b2_frame::{Compare, FrameError, FrameParams, FrameWriter, Job, Read, ReadTuning, Request, SuperChunk};
use b2_testkit::Rng;
use bytes::Bytes;

use super::*;
use crate::select::copy_plan::extent;
use crate::{ArrayBuilder, METALAYER, Selection, Slice, range, source};

/// The ranges that a driver has fetched.
#[derive(Debug, Default, PartialEq, Eq)]
struct FetchedRanges {
    /// How often all open requests were fetched together.
    rounds: usize,
    ranges: usize,
    bytes: u64,
}

/// Fetches in rounds: takes all requests, then answers all of them.
fn in_rounds(read: &mut Read<'_, SelectionRead>) -> Result<FetchedRanges, NdError> {
    let frame = read.frame().clone();
    let mut fetched = FetchedRanges::default();
    loop {
        let mut requests = Vec::new();
        while let Some(request) = read.need()? {
            requests.push(request);
        }
        fetched.rounds += usize::from(!requests.is_empty());
        for Request { id, extent, .. } in &requests {
            let bytes = frame.files().open(extent.file)?.read(extent)?;
            fetched.ranges += 1;
            fetched.bytes += bytes.len() as u64;
            read.put(*id, bytes)?;
        }
        while let Some(job) = read.job() {
            job.run()?;
        }
        if requests.is_empty() {
            return Ok(fetched);
        }
    }
}

/// Takes requests, answers and runs jobs in random order.
fn in_any_order(read: &mut Read<'_, SelectionRead>, dice: &mut Rng) -> Result<(), NdError> {
    let frame = read.frame().clone();
    let (mut requests, mut jobs, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    loop {
        match dice.below(3) {
            0 => {
                if let Some(request) = read.need()? {
                    assert!(seen.insert(request.id));
                    requests.push(request);
                }
            }
            1 if !requests.is_empty() => {
                let Request { id, extent, .. } = requests.swap_remove(dice.below(requests.len()));
                read.put(id, frame.files().open(extent.file)?.read(&extent)?)?;
                assert!(read.put(id, Bytes::new()).is_err());
            }
            _ if !jobs.is_empty() => {
                let job: Job<'_, SelectionRead> = jobs.swap_remove(dice.below(jobs.len()));
                job.run()?;
            }
            _ => {}
        }
        jobs.extend(read.job());
        if read.is_done() && jobs.is_empty() {
            return Ok(());
        }
    }
}

/// Stores the chunks of an array of 4-byte items again in every form: plain, delta-filtered, with
/// other blocks, with a dictionary, as special chunks, or all with variable-length blocks. Also
/// returns a twin with the same items in plain chunks.
fn mixed(array: &NdArray, dice: &mut Rng, sparse: Option<&std::path::Path>) -> (SuperChunk, NdArray) {
    let frame = array.super_chunk();
    let geometry = array.geometry();
    let native = geometry.block_nbytes();
    let cparams = |filters: &[FilterSlot], blocksize: usize| {
        Compression::new().itemsize(4).codec(CodecId::ZSTD).filters(filters).blocksize(blocksize)
    };
    let plain = cparams(&[FilterSlot::SHUFFLE], native).build().unwrap();
    let params = FrameParams::from_cparams(&plain)
        .chunksize(geometry.chunk_nbytes())
        .blocksize(native)
        .metalayer(METALAYER, frame.metalayers().get(METALAYER).unwrap());
    let mut twin = FrameWriter::memory(params.clone()).unwrap();
    let variable = dice.below(6) == 0;
    let mut writer = match sparse {
        Some(path) => FrameWriter::options().storage(b2_frame::Storage::Sparse).create(path, params).unwrap(),
        None => FrameWriter::memory(params).unwrap(),
    };
    for nchunk in 0..frame.nchunks() {
        let content = frame.chunk(nchunk).decompress().unwrap();
        let chunk = match if variable { 3 } else { dice.below(7) } {
            0 => Chunk::compress_bytes(
                &content,
                &cparams(&[FilterSlot::DELTA, FilterSlot::SHUFFLE], native).build().unwrap(),
            ),
            1 => {
                let blocksize = 4 * (1 + dice.below(content.len() / 4 + 1));
                Chunk::compress_bytes(&content, &cparams(&[FilterSlot::SHUFFLE], blocksize).build().unwrap())
            }
            2 => Chunk::compress_bytes(&content, &cparams(&[], native).use_dict(true).build().unwrap()),
            3 if variable => {
                let step = 4 * (1 + dice.below(content.len() / 4 + 1));
                let blocks: Vec<&[u8]> = content.chunks(step).collect();
                let vl = Compression::new().itemsize(1).codec(CodecId::ZSTD).no_filters().build().unwrap();
                Chunk::compress_vl(&blocks, &vl)
            }
            4 if dice.below(2) == 0 => {
                let (kind, value): (_, &[u8]) =
                    [(SpecialKind::Zeros, &[][..]), (SpecialKind::Value, &[1, 2, 3, 4])][dice.below(2)];
                let blocksize = [native, 4 * (1 + dice.below(content.len() / 4 + 1))][dice.below(2)];
                Chunk::special(kind, value, content.len(), 4, blocksize.min(content.len()))
            }
            5 => Chunk::compress_bytes(&content, &cparams(&[], native).level(0).build().unwrap()),
            _ => Chunk::compress_bytes(&content, &plain),
        };
        let chunk = chunk.unwrap();
        twin.append(Chunk::compress_bytes(&chunk.decompress_bytes().unwrap(), &plain).unwrap()).unwrap();
        writer.append(chunk).unwrap();
    }
    let frame = match (writer.finish().unwrap(), sparse) {
        (_, Some(path)) => SuperChunk::open(path).unwrap(),
        (written, None) => SuperChunk::from_bytes(written.into_bytes()).unwrap(),
    };
    (frame, NdArray::from_bytes(twin.finish().unwrap().into_bytes()).unwrap())
}

fn array(shape: &[u64], dice: &mut Rng) -> NdArray {
    let n: u64 = shape.iter().product();
    let items: Vec<u8> =
        (0..n as u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()).collect();
    let chunks: Vec<u32> = shape.iter().map(|&n| 1 + dice.below(n as usize + 2) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + dice.below(c as usize) as u32).collect();
    let frame =
        ArrayBuilder::new::<u32>(shape.to_vec()).chunks(chunks).blocks(blocks).to_bytes(&items[..]).unwrap();
    NdArray::from_bytes(frame).unwrap()
}

/// Returns a random selection of any kind along each dimension.
fn selection(shape: &[u64], dice: &mut Rng) -> Vec<Selection> {
    let mut along = |n: u64| {
        let n = n as i64;
        let at = |dice: &mut Rng| dice.below(n as usize) as i64;
        match dice.below(6) {
            0 => Selection::from(at(dice)),
            1 => (at(dice)..n).into(),
            2 => range(..).step(-1 - at(dice) / 2),
            // Positions in any order, possibly repeated.
            3 => Selection::List((0..dice.below(6)).map(|_| at(dice) - n * (dice.below(2) as i64)).collect()),
            4 => Selection::mask((0..n).map(|_| dice.below(3) == 0).collect::<Vec<bool>>()),
            _ => (..).into(),
        }
    };
    shape.iter().map(|&n| along(n)).collect()
}

/// Reads a selection with both drivers, and with the second one in rounds and in random order.
fn compare(twin: &NdArray, view: &Slice, dice: &mut Rng) {
    let nbytes = view.nbytes() as usize;
    let (mut rounds, mut any) = (vec![2; nbytes], vec![3; nbytes]);
    let local = view.read_bytes().unwrap();
    let mut expected = vec![4; nbytes];
    read_selection(twin, view.moves(0, &view.strides()).unwrap(), &mut expected[..]).unwrap();
    assert!(local == expected);
    if let Some(mut read) = view.begin(&mut rounds[..]).unwrap() {
        let fetched = in_rounds(&mut read).unwrap();
        // Heads and tables come first, then blocks or the rest of the chunk; checksums come with the
        // heads.
        assert!(fetched.rounds <= 4, "{fetched:?}");
        read.finish().unwrap();
    }
    assert!(local == rounds);
    if let Some(mut read) = view.begin(&mut any[..]).unwrap() {
        in_any_order(&mut read, dice).unwrap();
        read.finish().unwrap();
    }
    assert!(local == any);
}

#[test]
fn any_order_of_arrival_gives_the_same() {
    let dice = &mut Rng::new(7);
    let dir = tempfile::tempdir().unwrap();
    for case in 0..250 {
        let shape: Vec<u64> = (0..dice.below(4)).map(|_| 1 + dice.below(12) as u64).collect();
        let base = array(&shape, dice);
        let path = dir.path().join(case.to_string());
        let (frame, twin) = mixed(&base, dice, (case % 10 == 0).then_some(&path));
        // `tiny` fetches as little as a single byte at a time.
        let tiny = ReadTuning::LOCAL
            .whole_chunk_max(0)
            .head_len(0)
            .coalesce_gap(0)
            .coalesce_max(0)
            .prefetch(case % 2 == 0);
        let tuning = [ReadTuning::LOCAL, ReadTuning::REMOTE, tiny][dice.below(3)];
        let compares = [Compare::Never, Compare::Once, Compare::Always];
        let frame = frame.with_tuning(tuning).with_compare(compares[dice.below(3)]);
        let array = NdArray::from_super_chunk(frame).unwrap();
        for _ in 0..4 {
            let view = array.slice(selection(&shape, dice)).unwrap();
            compare(&twin, &view, dice);
        }
        let lead = dice.below(shape.len() + 1);
        let npoints = dice.below(9);
        let points = shape[..lead]
            .iter()
            .map(|&n| Selection::List((0..npoints).map(|_| dice.below(n as usize) as i64).collect()));
        let view = array.points(points.collect::<Vec<_>>()).unwrap();
        compare(&twin, &view, dice);
    }
}

/// Returns an array of 4 x 4 chunks of 16 incompressible blocks of 16 KiB each.
fn noise(filters: &[FilterSlot]) -> NdArray {
    let items = |i: u64| (i as u32).wrapping_mul(2_654_435_761).rotate_left((i % 32) as u32);
    let cparams = Compression::new().itemsize(4).level(0).filters(filters).build().unwrap();
    let frame =
        ArrayBuilder::new::<u32>([1024, 1024]).chunks([256, 256]).blocks([64, 64]).compression(cparams);
    NdArray::from_bytes(frame.to_bytes(source::by_index(items)).unwrap()).unwrap()
}

fn counted(array: &NdArray, selection: Vec<Selection>) -> FetchedRanges {
    let view = array.slice(selection).unwrap();
    let (mut fetched, mut dst) = (FetchedRanges::default(), vec![0; view.nbytes() as usize]);
    if let Some(mut read) = view.begin(&mut dst[..]).unwrap() {
        fetched = in_rounds(&mut read).unwrap();
        read.finish().unwrap();
    }
    assert!(dst == view.read_bytes().unwrap());
    fetched
}

/// Checks the formula of docs/explanation/reading.md: rounds = heads + blocks, however many chunks are touched.
#[test]
fn rounds_follow_the_formula() {
    let with = |array: &NdArray, tuning: ReadTuning, compare: Compare| {
        let frame = array.super_chunk().clone().with_tuning(tuning).with_compare(compare);
        NdArray::from_super_chunk(frame).unwrap()
    };
    let item = || vec![Selection::from(700), Selection::from(300)];
    let plane = || vec![Selection::from(700), Selection::from(..)];
    let all = || vec![Selection::from(..), Selection::from(..)];
    let base = noise(&[]);
    let far = ReadTuning::REMOTE.whole_chunk_max(0).prefetch(false);
    for compare in [Compare::Never, Compare::Once] {
        let array = with(&base, far, compare);
        assert_eq!(counted(&array, item()).rounds, 2);
        assert_eq!(
            counted(&array, plane()),
            FetchedRanges { rounds: 2, ranges: 8, bytes: 4 * (far.head_len + 4 * (16 << 10)) }
        );
        assert_eq!(counted(&array, all()).rounds, 2);
    }
    // Blocks of equal size are at the positions where they are expected.
    let ahead = ReadTuning::REMOTE.whole_chunk_max(0);
    for compare in [Compare::Never, Compare::Once, Compare::Always] {
        let array = with(&base, ahead, compare);
        assert_eq!(counted(&array, item()).rounds, 1);
        let plane = counted(&array, plane());
        assert_eq!((plane.rounds, plane.ranges), (1, 8));
        assert_eq!((counted(&array, all()).rounds, counted(&array, all()).ranges), (1, 16));
    }
    // Small chunks come with their heads.
    let whole = ReadTuning::REMOTE.whole_chunk_max(1 << 20);
    let array = with(&base, whole, Compare::Never);
    assert_eq!(
        (counted(&array, item()).rounds, counted(&array, all())),
        (1, FetchedRanges { rounds: 1, ranges: 16, bytes: 16 * (32 + (256 << 10)) })
    );
    // Here each block is compared on its own. The checksums came with the trailer and cost nothing.
    let array = with(&base, far, Compare::Always);
    assert_eq!(counted(&array, item()).rounds, 2);
    // Heads of unexpected size need one more round.
    let narrow = ReadTuning::REMOTE.whole_chunk_max(0).head_len(0);
    let cparams =
        Compression::new().itemsize(4).codec(CodecId::ZSTD).no_filters().use_dict(true).build().unwrap();
    let builder = ArrayBuilder::new::<u32>([64, 64]).chunks([64, 64]).blocks([8, 8]).compression(cparams);
    let frame = builder.to_bytes(source::by_index(|i| (i % 977) as u32)).unwrap();
    let array = with(&NdArray::from_bytes(frame).unwrap(), narrow, Compare::Never);
    let rounds = counted(&array, vec![Selection::from(60), Selection::from(60)]).rounds;
    // The pure-Rust zstd trains no dictionary, and without one all blocks are where expected.
    let least = if cfg!(feature = "zstd-c") { 2 } else { 1 };
    assert!((least..=4).contains(&rounds), "{rounds}");
    // Nothing is stored, so nothing is read.
    let zeros = ArrayBuilder::new::<u32>([64, 64]).chunks([16, 16]).blocks([8, 8]);
    let zeros = NdArray::from_bytes(zeros.to_bytes(source::by_index(|_| 0u32)).unwrap()).unwrap();
    assert_eq!(counted(&zeros, all()), FetchedRanges::default());
}

#[test]
fn damage_is_noticed_and_drivers_have_to_finish() {
    let array = noise(&[FilterSlot::DELTA]);
    let view = array.slice([0..10, 0..10]).unwrap();
    let mut dst = vec![0; view.nbytes() as usize];
    let mut unfinished = view.begin(&mut dst[..]).unwrap().unwrap();
    assert!(unfinished.need().unwrap().is_some());
    let error = unfinished.finish().map(drop);
    assert!(matches!(error, Err(NdError::Frame(FrameError::Argument { name: "read", .. }))));
    // A job is still running.
    let mut read = view.begin(&mut dst[..]).unwrap().unwrap();
    let files = array.super_chunk().files();
    let mut jobs = Vec::new();
    while let Some(Request { id, extent, .. }) = read.need().unwrap() {
        read.put(id, files.open(extent.file).unwrap().read(&extent).unwrap()).unwrap();
        jobs.extend(std::iter::from_fn(|| read.job()));
    }
    assert!(read.is_done() && !jobs.is_empty());
    assert!(read.finish().is_err());
    // A job that nobody ran.
    let mut read = view.begin(&mut dst[..]).unwrap().unwrap();
    while let Some(Request { id, extent, .. }) = read.need().unwrap() {
        read.put(id, files.open(extent.file).unwrap().read(&extent).unwrap()).unwrap();
    }
    drop(std::iter::from_fn(|| read.job()).collect::<Vec<_>>());
    assert!(read.is_done());
    assert!(read.finish().is_err());
    // Responses of the wrong length.
    let mut short = view.begin(&mut dst[..]).unwrap().unwrap();
    let mut answer = || {
        while let Some(Request { id, extent, .. }) = short.need()? {
            short.put(id, Bytes::from(vec![0; (extent.range.end - extent.range.start) as usize / 2]))?;
            while let Some(job) = short.job() {
                job.run()?;
            }
        }
        Ok::<_, NdError>(())
    };
    assert!(answer().is_err());
}

struct Dice(Rng);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    fn array(&mut self, shape: &[u64], kind: usize) -> NdArray {
        let n: u64 = shape.iter().product();
        let items: Vec<u8> = match kind {
            0 => vec![0; n as usize * 4],
            1 => [7, 8, 9, 10].repeat(n as usize),
            _ => (0..n as u32).flat_map(|i| (i * 7 + 1).to_le_bytes()).collect(),
        };
        let chunks: Vec<u32> = shape.iter().map(|&n| 1 + self.below(n as usize + 2) as u32).collect();
        let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + self.below(c as usize) as u32).collect();
        let filters: &[FilterSlot] =
            [&[FilterSlot::SHUFFLE][..], &[FilterSlot::DELTA, FilterSlot::SHUFFLE], &[]][self.below(3)];
        let frame = ArrayBuilder::new::<u32>(shape.to_vec())
            .chunks(chunks)
            .blocks(blocks)
            .compression(b2_chunk::Compression::lz4().filters(filters))
            .to_bytes(items)
            .unwrap();
        NdArray::from_bytes(frame).unwrap()
    }

    fn view(&mut self, array: &NdArray) -> Slice {
        let dims = array.shape().iter().map(|&n| {
            let n = n as i64;
            match self.below(3) {
                0 => Selection::List((0..self.below(5)).map(|_| self.below(n as usize) as i64).collect()),
                1 => (self.below(n as usize) as i64..n).into(),
                _ => (..).into(),
            }
        });
        let dims: Vec<Selection> = dims.collect();
        let view = array.slice(dims).unwrap();
        if self.below(2) == 0 { view.transpose() } else { view }
    }
}

/// Returns strides of a random layout without overlaps: dimensions in any order, with or
/// without gaps, forward or backward.
fn layout(dice: &mut Dice, shape: &[u64], gaps: bool) -> Vec<isize> {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, dice.below(i + 1));
    }
    let (mut step, mut strides) = (4, vec![0; shape.len()]);
    for dim in order {
        step += if gaps { dice.below(3) } else { 0 };
        strides[dim] = if dice.below(3) == 0 { -(step as isize) } else { step as isize };
        step *= shape[dim].max(1) as usize;
    }
    strides
}

#[test]
fn memory_of_any_layout_is_filled() {
    let dice = &mut Dice(Rng::new(10));
    for case in 0..600 {
        let shape: Vec<u64> = (0..dice.below(4)).map(|_| 1 + dice.below(9) as u64).collect();
        let array = dice.array(&shape, case % 4);
        let view = dice.view(&array);
        let (plain, shape) = (view.read_bytes().unwrap(), view.shape());
        // Uninitialised memory in C order.
        let mut memory = vec![MaybeUninit::uninit(); plain.len()];
        let moves = view.moves(0, &view.strides()).unwrap();
        assert_eq!(read_selection(&array, moves, &mut memory[..]).unwrap(), plain);
        let expect = |strides: &[isize], (offset, len): (usize, usize), before: u8| {
            let mut expected = vec![before; len];
            let from = (&plain[..], 0, &view.strides()[..]);
            let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
            crate::select::copy::copy_box(&counts, 4, from, (&mut expected, offset, strides));
            expected
        };
        // Memory of any layout.
        for gaps in [false, true] {
            let strides = layout(dice, &shape, gaps);
            let (offset, len) = extent(&shape, &strides, 4).unwrap();
            let moves = || view.moves(offset, &strides).unwrap();
            assert!(moves().disjoint());
            let mut memory = vec![9; len];
            read_selection(&array, moves(), &mut memory[..]).unwrap();
            assert_eq!(memory, expect(&strides, (offset, len), 9), "{shape:?} {strides:?}");
            let mut memory = vec![MaybeUninit::uninit(); len];
            let read = read_selection(&array, moves(), &mut memory[..]).unwrap();
            assert_eq!(read, expect(&strides, (offset, len), 0));
        }
        // All items along a dimension share one place.
        if !shape.is_empty() && shape.iter().all(|&n| n > 0) {
            let mut strides = view.strides();
            let dim = dice.below(shape.len());
            strides[dim] = 0;
            let (offset, len) = extent(&shape, &strides, 4).unwrap();
            let moves = view.moves(offset, &strides).unwrap();
            assert!(shape[dim] == 1 || !moves.disjoint());
            let mut memory = vec![MaybeUninit::uninit(); len];
            let read = read_selection(&array, moves, &mut memory[..]).unwrap();
            assert!(plain.len() >= 4 && read.len() == len);
        }
    }
}

#[test]
fn layouts_beyond_memory_are_refused() {
    assert_eq!(extent(&[2, 3], &[-12, 4], 4), Some((12, 24)));
    assert_eq!(extent(&[2, 0], &[isize::MIN, 4], 4), Some((0, 0)));
    assert_eq!(extent(&[], &[], 4), Some((0, 4)));
    assert_eq!(extent(&[2, 2], &[isize::MAX, isize::MIN], 4), None);
    assert_eq!(extent(&[u64::MAX], &[2], 4), None);
    assert_eq!(extent(&[2], &[isize::MAX - 1], 4), None);
}

#[test]
fn reading_tells_its_progress_and_stops() {
    use std::ops::ControlFlow;
    use std::sync::{Arc, Mutex};

    let array = Dice(Rng::new(3)).array(&[40, 30], 2);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let control = Control::new().progress(move |progress| {
        tell.lock().unwrap().push(progress);
        ControlFlow::Continue(())
    });
    let view = array.slice([3..20, 5..9]).unwrap();
    let mut dst = vec![0; view.nbytes() as usize];
    let mut read = |control: Control| {
        let frame = array.super_chunk().clone().with_control(control);
        let moves = view.moves(0, &view.strides()).unwrap();
        read_from(&array, &frame, moves, Destination::from(&mut dst[..])).map(drop)
    };
    read(control).unwrap();
    let seen = seen.lock().unwrap();
    let last = seen.last().unwrap();
    assert_eq!((last.nbytes, last.total, last.items()), (17 * 4 * 4, 17 * 4 * 4, 17 * 4));
    let stop = Control::new().progress(|_| ControlFlow::Break(()));
    assert!(matches!(read(stop), Err(NdError::Cancelled(_))));
}
