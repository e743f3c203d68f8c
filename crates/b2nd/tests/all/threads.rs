//! Arrays written and read by any number of threads, against plain indexing.
#![cfg(feature = "rayon")]

use b2_chunk::{CodecId, Compression, FilterSlot, SplitMode};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, Axis, Dtype, NdArray, Selection, range};

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Items that compress, in part: the high bytes change slowly, some of the low ones are noise.
fn items(rng: &mut Rng, count: usize, itemsize: usize) -> Vec<u8> {
    let noisy = rng.below(3);
    (0..count)
        .flat_map(|i| {
            let low = rng.below(256) as u8;
            (0..itemsize).map(move |j| match j {
                _ if noisy == 0 => 7,
                0 if noisy == 2 => low,
                _ => (i as u64 >> (4 * j).min(40)) as u8,
            })
        })
        .collect()
}

/// The positions that NumPy's basic indexing selects along a dimension, in order.
fn selection(rng: &mut Rng, length: u64) -> (Selection, Vec<u64>) {
    let n = length as i64;
    match rng.below(6) {
        0 => (Selection::ALL, (0..length).collect()),
        1 if n > 0 => {
            let at = rng.below(n as usize) as i64;
            (Selection::Index(at), vec![at as u64])
        }
        2 if n > 0 => {
            let (from, step) = (rng.below(n as usize) as i64, 1 + rng.below(4) as i64);
            let dim = Selection::Range { start: Some(from), stop: None, step: -step };
            (dim, (0..=from).rev().step_by(step as usize).map(|at| at as u64).collect())
        }
        _ => {
            let (a, b) = (rng.below(n as usize + 1) as i64, rng.below(n as usize + 1) as i64);
            let (from, to, step) = (a.min(b), a.max(b), if rng.below(3) == 0 { 2 } else { 1 });
            (range(from..to).step(step), (from..to).step_by(step as usize).map(|at| at as u64).collect())
        }
    }
}

/// The items at every combination of positions.
fn expected(all: &[u8], itemsize: usize, shape: &[u64], positions: &[Vec<u64>]) -> Vec<u8> {
    let mut out = Vec::new();
    let total: usize = positions.iter().map(Vec::len).product();
    for n in 0..total {
        let (mut rest, mut at, mut stride) = (n, 0, 1);
        for (chosen, &length) in positions.iter().zip(shape).rev() {
            at += chosen[rest % chosen.len()] as usize * stride;
            rest /= chosen.len();
            stride *= length as usize;
        }
        out.extend_from_slice(&all[at * itemsize..(at + 1) * itemsize]);
    }
    out
}

#[test]
fn any_number_of_threads_writes_and_reads_the_same() {
    let mut rng = Rng::new(2);
    let pools = [1, 2, 5].map(pool);
    for round in 0..60 {
        let itemsize = *rng.pick(&[1, 2, 3, 4, 8, 12, 16, 20]);
        let nd = 1 + rng.below(4);
        // Some of them large enough for several threads.
        let longest = if round % 4 == 0 { [400_000, 600, 90, 30][nd - 1] } else { [900, 60, 20, 9][nd - 1] };
        let shape: Vec<u64> = (0..nd).map(|_| 1 + rng.below(longest) as u64).collect();
        let chunks: Vec<u32> =
            shape.iter().map(|&n| 1 + rng.below(n as usize) as u32).map(|c| c.max(3)).collect();
        let blocks: Vec<u32> = chunks.iter().map(|&c| 1 + rng.below(c as usize) as u32).collect();
        let codec = *rng.pick(&[CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD, CodecId::ZLIB]);
        let filters = rng
            .pick(&[
                vec![FilterSlot::SHUFFLE],
                vec![FilterSlot::SHUFFLE],
                vec![FilterSlot::BITSHUFFLE],
                vec![FilterSlot::DELTA, FilterSlot::SHUFFLE],
                vec![],
            ])
            .clone();
        let split = *rng.pick(&[SplitMode::Auto, SplitMode::Always, SplitMode::Never]);
        let cparams = Compression::new()
            .itemsize(itemsize)
            .codec(codec)
            .level(*rng.pick(&[0, 1, 5]))
            .filters(filters)
            .splitmode(split)
            .build()
            .unwrap();
        let count = shape.iter().product::<u64>() as usize;
        let grid: u64 = shape.iter().zip(&chunks).map(|(&s, &c)| s.div_ceil(c.into())).product();
        if count * itemsize > 4 << 20 || grid > 2000 {
            continue;
        }
        let all = items(&mut rng, count, itemsize);
        let dtype = Dtype::parse(&format!("|V{itemsize}")).unwrap();
        let builder =
            ArrayBuilder::of_dtype(&shape[..], dtype).chunks(chunks).blocks(blocks).compression(cparams);
        let frames = pools.each_ref().map(|pool| pool.install(|| builder.to_bytes(&all[..]).unwrap()));
        assert!(frames.iter().all(|frame| *frame == frames[0]), "the bytes depend on the threads");
        // Through a source that is read, not borrowed.
        let array = NdArray::from_bytes(frames[0].clone()).unwrap();
        assert_eq!(builder.to_bytes(&array).unwrap(), frames[0]);

        for _ in 0..12 {
            let chosen: Vec<_> = shape.iter().map(|&length| selection(&mut rng, length)).collect();
            let (dims, positions): (Vec<Selection>, Vec<Vec<u64>>) = chosen.into_iter().unzip();
            let want = expected(&all, itemsize, &shape, &positions);
            let view = array.slice(dims).unwrap();
            for pool in &pools {
                let mut got = vec![0xA5; want.len()];
                pool.install(|| view.read_bytes_into(&mut got)).unwrap();
                assert!(got == want, "{:?} of {shape:?}", view.shape());
            }
            let transposed = view.transpose();
            let mut order: Vec<Vec<u64>> = positions;
            // The same items with the dimensions the other way round.
            let strides: Vec<u64> = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
            order.reverse();
            let mut want = Vec::new();
            let total: usize = order.iter().map(Vec::len).product();
            for n in 0..total {
                let (mut rest, mut at) = (n, 0);
                for (k, chosen) in order.iter().enumerate().rev() {
                    at += chosen[rest % chosen.len()] * strides[shape.len() - 1 - k];
                    rest /= chosen.len();
                }
                want.extend_from_slice(&all[at as usize * itemsize..][..itemsize]);
            }
            let mut got = vec![0x5A; want.len()];
            pools[1].install(|| transposed.read_bytes_into(&mut got)).unwrap();
            assert!(got == want, "transposed {:?} of {shape:?}", view.shape());
        }
    }
}

#[test]
fn many_threads_read_one_array() {
    let shape = [40u64, 50, 60];
    let all: Vec<u8> = (0..120_000u32).flat_map(u32::to_le_bytes).collect();
    let builder = ArrayBuilder::new::<u32>(shape).chunks([16, 16, 60]).blocks([4, 8, 60]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.b2nd");
    builder.write(&path, &all[..]).unwrap();
    let array = NdArray::open(&path).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (array, all) = (&array, &all);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..100 {
                    let chosen: Vec<_> = shape.iter().map(|&length| selection(&mut rng, length)).collect();
                    let (dims, positions): (Vec<Selection>, Vec<Vec<u64>>) = chosen.into_iter().unzip();
                    let got = array.slice(dims).unwrap().read_bytes().unwrap();
                    assert_eq!(got, expected(all, 4, &shape, &positions));
                }
            });
        }
    });
}

#[test]
fn appended_items_do_not_depend_on_threads() {
    let rows: Vec<u8> = (0..90_000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
    let frames = [1, 2, 5].map(|threads| {
        pool(threads).install(|| {
            let builder = ArrayBuilder::new::<u32>([10, 300]).chunks([7, 90]).blocks([3, 90]);
            let frame = builder.to_bytes(&rows[..12_000]).unwrap();
            let mut editor = NdArray::edit_bytes(frame).unwrap();
            editor.append(Axis(0), &rows[12_000..]).unwrap();
            editor.commit().unwrap();
            editor.into_bytes().unwrap()
        })
    });
    assert_eq!(frames[0], frames[1]);
    assert_eq!(frames[0], frames[2]);
    assert_eq!(NdArray::from_bytes(frames[0].clone()).unwrap().all().read_bytes().unwrap(), rows);
}
