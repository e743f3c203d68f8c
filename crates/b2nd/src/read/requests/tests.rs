//! Tests with a second driver, which has no threads, answers in any order and counts. It must read
//! what the local driver reads.

use std::collections::BTreeSet;

use b2_chunk::{CParams, Chunk, CodecId, FilterSlot, SpecialKind};
use b2_frame::{Compare, Driver, FrameParams, FrameWriter, ReadCosts, SuperChunk};
use b2_testkit::Rng;

use super::*;
use crate::read::jobs::read_selection;
use crate::{ArrayBuilder, METALAYER, Selection, range};

/// What a driver has fetched.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fetched {
    /// How often all open requests were fetched together.
    rounds: usize,
    ranges: usize,
    bytes: u64,
}

/// Fetches in rounds: takes all requests, then answers all of them.
fn in_rounds(plan: &mut SelectionPlan<'_>, frame: &SuperChunk) -> Result<Fetched, NdError> {
    let (mut driver, mut fetched) = (Driver::new(frame.files()), Fetched::default());
    loop {
        let mut requests = Vec::new();
        while let Some(request) = plan.request()? {
            requests.push(request);
        }
        fetched.rounds += usize::from(!requests.is_empty());
        for Request { id, extent } in &requests {
            let bytes = driver.read(std::slice::from_ref(extent))?.remove(0);
            fetched.ranges += 1;
            fetched.bytes += bytes.len() as u64;
            plan.answer(*id, bytes)?;
        }
        while let Some(job) = plan.job() {
            job.run()?;
        }
        if requests.is_empty() {
            return Ok(fetched);
        }
    }
}

/// Takes requests, answers and runs jobs in random order.
fn in_any_order(plan: &mut SelectionPlan<'_>, frame: &SuperChunk, dice: &mut Rng) -> Result<(), NdError> {
    let mut driver = Driver::new(frame.files());
    let (mut requests, mut jobs, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    loop {
        match dice.below(3) {
            0 => {
                if let Some(request) = plan.request()? {
                    assert!(seen.insert(request.id));
                    requests.push(request);
                }
            }
            1 if !requests.is_empty() => {
                let Request { id, extent } = requests.swap_remove(dice.below(requests.len()));
                plan.answer(id, driver.read(&[extent])?.remove(0))?;
                assert!(plan.answer(id, Bytes::new()).is_err());
            }
            _ if !jobs.is_empty() => {
                let job: DecodeJob<'_> = jobs.swap_remove(dice.below(jobs.len()));
                job.run()?;
            }
            _ => {}
        }
        jobs.extend(plan.job());
        if plan.is_done() && jobs.is_empty() {
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
        CParams::builder(4).codec(CodecId::ZSTD).filters(filters).blocksize(blocksize)
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
        let content = frame.decompress_chunk(nchunk).unwrap();
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
                let vl = CParams::builder(1).codec(CodecId::ZSTD).no_filters().build().unwrap();
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
fn compare(array: &NdArray, twin: &NdArray, moves: &dyn Moves, dice: &mut Rng) {
    let frame = array.super_chunk();
    let nbytes = moves.nbytes() as usize;
    let (mut local, mut rounds, mut any) = (vec![1; nbytes], vec![2; nbytes], vec![3; nbytes]);
    read_selection(array, moves, &mut local[..]).unwrap();
    let mut expected = vec![4; nbytes];
    read_selection(twin, moves, &mut expected[..]).unwrap();
    assert!(local == expected);
    let mut fetched = Fetched::default();
    read_by_requests(array, frame, moves, Destination::from(&mut rounds[..]), |plan| {
        fetched = in_rounds(plan, frame)?;
        Ok(())
    })
    .unwrap();
    assert!(local == rounds);
    // Heads and tables come first, then blocks or the rest of the chunk; checksums come with the
    // heads.
    assert!(fetched.rounds <= 4, "{fetched:?}");
    read_by_requests(array, frame, moves, Destination::from(&mut any[..]), |plan| {
        in_any_order(plan, frame, dice)
    })
    .unwrap();
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
        let tiny = ReadCosts { small: 0, head: 0, gap: 0, at_once: 0, ahead: case % 2 == 0 };
        let costs = [ReadCosts::LOCAL, ReadCosts::REMOTE, tiny][dice.below(3)];
        let compares = [Compare::Never, Compare::Once, Compare::Always];
        let frame = frame.with_costs(costs).with_compare(compares[dice.below(3)]);
        let array = NdArray::from_super_chunk(frame).unwrap();
        for _ in 0..4 {
            let view = array.slice(selection(&shape, dice)).unwrap();
            compare(&array, &twin, &*view.moves(0, &view.strides()).unwrap(), dice);
        }
        let lead = dice.below(shape.len() + 1);
        let npoints = dice.below(9);
        let points = shape[..lead]
            .iter()
            .map(|&n| Selection::List((0..npoints).map(|_| dice.below(n as usize) as i64).collect()));
        let view = array.points(points.collect::<Vec<_>>()).unwrap();
        compare(&array, &twin, &*view.moves(0, &view.strides()).unwrap(), dice);
    }
}

/// Returns an array of 4 x 4 chunks of 16 incompressible blocks of 16 KiB each.
fn noise(filters: &[FilterSlot]) -> NdArray {
    let items = |i: u64| (i as u32).wrapping_mul(2_654_435_761).rotate_left((i % 32) as u32);
    let cparams = CParams::builder(4).level(0).filters(filters).build().unwrap();
    let frame =
        ArrayBuilder::new::<u32>([1024, 1024]).chunks([256, 256]).blocks([64, 64]).compression(cparams);
    NdArray::from_bytes(frame.to_bytes(crate::ByIndex(items)).unwrap()).unwrap()
}

fn counted(array: &NdArray, selection: Vec<Selection>) -> Fetched {
    let view = array.slice(selection).unwrap();
    let (mut fetched, mut dst) = (Fetched::default(), vec![0; view.nbytes() as usize]);
    let result = view.read_with(&mut dst, |plan| {
        fetched = in_rounds(plan, array.super_chunk())?;
        Ok(())
    });
    result.unwrap();
    assert!(dst == view.read_bytes().unwrap());
    fetched
}

/// Checks the formula of docs/reading.md: rounds = heads + blocks, however many chunks are touched.
#[test]
fn rounds_follow_the_formula() {
    let with = |array: &NdArray, costs: ReadCosts, compare: Compare| {
        let frame = array.super_chunk().clone().with_costs(costs).with_compare(compare);
        NdArray::from_super_chunk(frame).unwrap()
    };
    let item = || vec![Selection::from(700), Selection::from(300)];
    let plane = || vec![Selection::from(700), Selection::from(..)];
    let all = || vec![Selection::from(..), Selection::from(..)];
    let base = noise(&[]);
    let far = ReadCosts { small: 0, ahead: false, ..ReadCosts::REMOTE };
    for compare in [Compare::Never, Compare::Once] {
        let array = with(&base, far, compare);
        assert_eq!(counted(&array, item()).rounds, 2);
        assert_eq!(
            counted(&array, plane()),
            Fetched { rounds: 2, ranges: 8, bytes: 4 * (far.head + 4 * (16 << 10)) }
        );
        assert_eq!(counted(&array, all()).rounds, 2);
    }
    // Blocks of equal size are where they are looked for.
    let ahead = ReadCosts { small: 0, ..ReadCosts::REMOTE };
    for compare in [Compare::Never, Compare::Once, Compare::Always] {
        let array = with(&base, ahead, compare);
        assert_eq!(counted(&array, item()).rounds, 1);
        let plane = counted(&array, plane());
        assert_eq!((plane.rounds, plane.ranges), (1, 8));
        assert_eq!((counted(&array, all()).rounds, counted(&array, all()).ranges), (1, 16));
    }
    // Small chunks come with their heads.
    let whole = ReadCosts { small: 1 << 20, ..ReadCosts::REMOTE };
    let array = with(&base, whole, Compare::Never);
    assert_eq!(
        (counted(&array, item()).rounds, counted(&array, all())),
        (1, Fetched { rounds: 1, ranges: 16, bytes: 16 * (32 + (256 << 10)) })
    );
    // What is compared is a block here. The checksums came with the trailer and cost nothing.
    let array = with(&base, far, Compare::Always);
    assert_eq!(counted(&array, item()).rounds, 2);
    // Heads of unexpected size need one more round.
    let narrow = ReadCosts { small: 0, head: 0, ..ReadCosts::REMOTE };
    let cparams = CParams::builder(4).codec(CodecId::ZSTD).no_filters().use_dict(true).build().unwrap();
    let builder = ArrayBuilder::new::<u32>([64, 64]).chunks([64, 64]).blocks([8, 8]).compression(cparams);
    let frame = builder.to_bytes(crate::ByIndex(|i| (i % 977) as u32)).unwrap();
    let array = with(&NdArray::from_bytes(frame).unwrap(), narrow, Compare::Never);
    let rounds = counted(&array, vec![Selection::from(60), Selection::from(60)]).rounds;
    // Pure-Rust zstd trains no dictionary, and without one all is where it is looked for.
    let least = if cfg!(feature = "zstd-c") { 2 } else { 1 };
    assert!((least..=4).contains(&rounds), "{rounds}");
    // Nothing is stored, so nothing is read.
    let zeros = ArrayBuilder::new::<u32>([64, 64]).chunks([16, 16]).blocks([8, 8]);
    let zeros = NdArray::from_bytes(zeros.to_bytes(crate::ByIndex(|_| 0u32)).unwrap()).unwrap();
    assert_eq!(counted(&zeros, all()), Fetched::default());
}

#[test]
fn damage_is_noticed_and_drivers_have_to_finish() {
    let array = noise(&[FilterSlot::DELTA]);
    let view = array.slice([0..10, 0..10]).unwrap();
    let mut dst = vec![0; view.nbytes() as usize];
    let unfinished = view.read_with(&mut dst, |plan| plan.request().map(|_| ()));
    assert!(matches!(unfinished, Err(NdError::Frame(FrameError::Argument { name: "drive", .. }))));
    // Answers of the wrong length.
    let short = view.read_with(&mut dst, |plan| {
        while let Some(Request { id, extent }) = plan.request()? {
            plan.answer(id, Bytes::from(vec![0; (extent.range.end - extent.range.start) as usize / 2]))?;
            while let Some(job) = plan.job() {
                job.run()?;
            }
        }
        Ok(())
    });
    assert!(short.is_err());
}
