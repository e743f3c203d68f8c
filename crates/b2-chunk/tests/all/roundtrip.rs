//! Round trips of whole chunks and parts, for all kinds of parameters.

use std::ops::Range;

use b2_chunk::{
    CParams, Chunk, ChunkError, ChunkHeader, ChunkReader, CodecId, Compression, Container, DParams,
    Destination, FilterId, FilterSlot, HookError, LazyChunk, LazyHead, PlainBlocks, SplitMode,
};
use proptest::prelude::*;

fn data(kind: usize, len: usize, seed: u32) -> Vec<u8> {
    let mut rng = b2_testkit::Rng::new(seed.into());
    let mut random = move || rng.next() as u32;
    match kind {
        0 => vec![0; len],
        1 => vec![7; len],
        2 => (0..len).map(|_| random() as u8).collect(),
        3 => (0..len.div_ceil(4))
            .flat_map(|i| ((i as f32 * 0.01).sin() * 100.0).to_le_bytes())
            .take(len)
            .collect(),
        4 => (0..len.div_ceil(4)).flat_map(|i| (i as u32 + (random() & 3)).to_le_bytes()).take(len).collect(),
        // Mostly zeros, then noise: some blocks are runs.
        _ => (0..len).map(|i| if i % 10_000 < 9_000 { 0 } else { random() as u8 }).collect(),
    }
}

fn filters() -> impl Strategy<Value = Vec<FilterSlot>> {
    let bytedelta = FilterSlot::new(FilterId::BYTEDELTA, 0);
    prop::sample::select(vec![
        vec![],
        vec![FilterSlot::SHUFFLE],
        vec![FilterSlot::BITSHUFFLE],
        vec![FilterSlot::DELTA],
        vec![FilterSlot::DELTA, FilterSlot::SHUFFLE],
        vec![FilterSlot::SHUFFLE, bytedelta],
        vec![FilterSlot::new(FilterId::SHUFFLE, 3)],
        vec![FilterSlot::DELTA, FilterSlot::SHUFFLE, bytedelta, FilterSlot::BITSHUFFLE],
        vec![FilterSlot::SHUFFLE; 6],
    ])
}

fn cparams() -> impl Strategy<Value = CParams> {
    let codecs = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD]
        .into_iter()
        .filter(|&id| Compression::new().itemsize(1).codec(id).build().is_ok())
        .collect::<Vec<_>>();
    let modes = [SplitMode::Always, SplitMode::Never, SplitMode::Auto, SplitMode::ForwardCompat];
    (
        prop::sample::select(codecs),
        0..=9u8,
        prop::sample::select(vec![1usize, 2, 3, 4, 7, 8, 12, 16, 17, 32, 100, 255, 256, 1000]),
        filters(),
        prop::sample::select(modes.to_vec()),
        prop_oneof![Just(0usize), 1..50_000usize],
        any::<bool>(),
    )
        .prop_map(|(codec, clevel, typesize, filters, splitmode, blocksize, dict)| {
            let has_dict = matches!(codec, CodecId::ZSTD | CodecId::LZ4 | CodecId::LZ4HC);
            // zstd at level 9 takes seconds per megabyte.
            let clevel = if codec == CodecId::ZSTD { clevel.min(7) } else { clevel };
            Compression::new()
                .itemsize(typesize)
                .codec(codec)
                .level(clevel)
                .filters(filters)
                .splitmode(splitmode)
                .blocksize(blocksize)
                .use_dict(dict && has_dict && cfg!(feature = "zstd-c"))
                .build()
                .unwrap()
        })
}

/// The facts a frame provides.
fn knowing(cparams: &CParams) -> DParams {
    DParams::default().container(Container::default().itemsize(Some(cparams.itemsize())))
}

fn lazy(chunk: &Chunk, dparams: &DParams) -> LazyChunk {
    let stored = chunk.as_bytes();
    let mut have = 0;
    loop {
        match LazyChunk::parse(&stored[..have], stored.len() as u64, dparams).unwrap() {
            LazyHead::Need(len) => {
                assert!(len > have, "asks for bytes it has");
                have = len;
            }
            LazyHead::Whole => have = stored.len(),
            LazyHead::Ready(lazy) => return lazy,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn chunks_round_trip(
        cparams in cparams(),
        kind in 0..6usize,
        len in prop_oneof![0..200usize, 0..150_000usize],
        seed: u32,
        parts in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64), 4),
    ) {
        let raw = data(kind, len, seed);
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        prop_assert!(chunk.cbytes() <= len + 32);
        prop_assert_eq!(ChunkHeader::parse(chunk.as_bytes()).unwrap(), chunk.header().clone());
        let mut out = vec![0xAA; len];
        let dparams = knowing(&cparams);
        chunk.decompress_bytes_into(&mut out, &dparams).unwrap();
        prop_assert!(out == raw);
        let lazy = lazy(&chunk, &dparams);
        for (a, b) in parts {
            let (start, end) = ((a * len as f64) as usize, (b * len as f64) as usize);
            let (start, end) = (start.min(end), start.max(end));
            prop_assert!(chunk.get_bytes(start..end, &dparams).unwrap() == raw[start..end]);
            // Through the lazy interface, each block from its own bytes only.
            let mut decoder = lazy.decoder(&dparams).unwrap();
            let mut block0 = vec![0x55; lazy.block_range(0).len()];
            decoder.decode(0, &chunk.as_bytes()[lazy.block_extent(0)], None, &mut block0).unwrap();
            for nblock in lazy.blocks_of(start..end) {
                let mut block = vec![0x55; lazy.block_range(nblock).len()];
                let stored = &chunk.as_bytes()[lazy.block_extent(nblock)];
                decoder.decode(nblock, stored, Some(&block0), &mut block).unwrap();
                prop_assert!(block == raw[lazy.block_range(nblock)]);
            }
        }
    }

    #[test]
    fn small_parts_are_those_of_the_whole(
        cparams in cparams(),
        kind in 0..6usize,
        len in 200..150_000usize,
        seed: u32,
        places in prop::collection::vec((0.0..1.0f64, 1..50usize), 8),
    ) {
        let raw = data(kind, len, seed);
        let dparams = knowing(&cparams);
        let mut buffer = vec![0x55; len + 40];
        let cbytes = Chunk::compress_bytes_into(&raw, &mut buffer, &cparams).unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        prop_assert!(chunk.as_bytes()[..] == buffer[..cbytes]);
        for destination in [Destination::Cached, Destination::Streaming] {
            let mut out = vec![0xAA; len];
            chunk.decompress_bytes_into(&mut out, &dparams.clone().destination(destination)).unwrap();
            prop_assert!(out == raw);
        }
        let lazy = lazy(&chunk, &dparams);
        let stored = |nblock| &chunk.as_bytes()[lazy.block_extent(nblock)];
        let mut decoder = lazy.decoder(&dparams).unwrap();
        let mut block0 = vec![0x55; lazy.block_range(0).len()];
        decoder.decode(0, stored(0), None, &mut block0).unwrap();
        let mut reader = ChunkReader::new(chunk.clone(), dparams.clone()).unwrap();
        for (place, size) in places {
            let start = (place * (len - size) as f64) as usize;
            let expected = &raw[start..start + size];
            let mut out = vec![0xAA; size];
            chunk.get_bytes_into(start, &mut out, &dparams).unwrap();
            prop_assert!(out == expected);
            // The second read caches the block, and the third uses it.
            for _ in 0..3 {
                out.fill(0x55);
                reader.read(start, &mut out).unwrap();
                prop_assert!(out == expected);
            }
            for nblock in lazy.blocks_of(start..start + size) {
                let block = lazy.block_range(nblock);
                let (first, end) = (start.max(block.start), (start + size).min(block.end));
                let out = &mut out[..end - first];
                out.fill(0x55);
                let part = first - block.start..end - block.start;
                decoder.decode_part(nblock, stored(nblock), Some(&block0), part, out).unwrap();
                prop_assert!(*out == raw[first..end]);
            }
        }
    }

    #[test]
    fn vl_chunks_round_trip(
        cparams in cparams(),
        lens in prop::collection::vec(1..5000usize, 1..40),
        seed: u32,
    ) {
        let filters: Vec<FilterSlot> =
            cparams.filters().into_iter().filter(|slot| slot.id != FilterId::DELTA && slot.id != FilterId::NONE).collect();
        let cparams = cparams.to_builder().filters(filters).build().unwrap();
        let blocks: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(i, &len)| data(i % 6, len, seed.wrapping_add(i as u32))).collect();
        let slices: Vec<&[u8]> = blocks.iter().map(|b| &b[..]).collect();
        let chunk = Chunk::compress_vl(&slices, &cparams).unwrap();
        prop_assert_eq!(chunk.nbytes(), lens.iter().sum::<usize>());
        prop_assert!(chunk.blocks(&knowing(&cparams)).unwrap() == blocks);
        let plain = blocks.concat();
        let middle = plain.len() / 3..plain.len() / 2;
        prop_assert!(chunk.get_bytes(middle.clone(), &knowing(&cparams)).unwrap() == plain[middle]);
    }
}

#[cfg(feature = "rayon")]
#[test]
fn output_does_not_depend_on_the_number_of_threads() {
    let raw = data(4, 3_000_000, 5);
    let builder = rayon::ThreadPoolBuilder::new;
    for filters in [vec![FilterSlot::SHUFFLE], vec![FilterSlot::DELTA, FilterSlot::SHUFFLE]] {
        let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).filters(filters).build().unwrap();
        let one = builder()
            .num_threads(1)
            .build()
            .unwrap()
            .install(|| Chunk::compress_bytes(&raw, &cparams).unwrap());
        for threads in [2, 3, 8] {
            let pool = builder().num_threads(threads).build().unwrap();
            let many = pool.install(|| Chunk::compress_bytes(&raw, &cparams).unwrap());
            assert_eq!(many.as_bytes(), one.as_bytes());
            // Also from outside the pool.
            let mut into = vec![0; raw.len() + 32];
            let len = Chunk::compress_bytes_into(&raw, &mut into, &cparams).unwrap();
            assert_eq!(into[..len], one.as_bytes()[..]);
            assert_eq!(pool.install(|| many.decompress_bytes().unwrap()), raw);
        }
    }
}

#[test]
fn special_chunks_stand_for_their_values() {
    use b2_chunk::SpecialKind::*;
    let nan = 0x7FC0_0000u32.to_le_bytes().repeat(50);
    let check = |chunk: Chunk, expected: &[u8]| {
        assert_eq!(chunk.decompress_bytes().unwrap(), expected);
        let part = expected.len() / 3..expected.len() / 2;
        assert_eq!(chunk.get_bytes(part.clone(), &DParams::default()).unwrap(), expected[part]);
        assert_eq!(Chunk::from_bytes(chunk.to_bytes()).unwrap(), chunk);
    };
    check(Chunk::special(Zeros, &[], 101, 4, 0).unwrap(), &[0; 101]);
    check(Chunk::special(NaN, &[], 200, 4, 64).unwrap(), &nan);
    check(Chunk::special(Value, b"abc", 99, 3, 50).unwrap(), &b"abc".repeat(33));
    check(Chunk::special(Value, &[9; 300], 900, 300, 0).unwrap(), &[9; 900]);
    check(Chunk::special(Uninit, &[], 400, 8, 0).unwrap(), &[0; 400]);
    check(Chunk::zero_runs(100_001, 4, 1000).unwrap(), &vec![0; 100_001]);
    check(Chunk::zero_runs(5, 4, 0).unwrap(), &[0; 5]);
    assert!(Chunk::special(NaN, &[], 200, 2, 0).is_err());
    assert!(Chunk::special(Value, b"abc", 100, 3, 0).is_err());
    assert!(Chunk::special(Value, b"", 100, 3, 0).is_err());
    assert!(Chunk::special(Zeros, b"x", 100, 3, 0).is_err());
    assert!(Chunk::special(Uninit, &[], 30, 4, 0).is_err());
}

#[test]
fn input_of_one_item_becomes_a_special_chunk() {
    use b2_chunk::SpecialKind;
    let special = |item: &[u8], filters: &[FilterSlot]| {
        let raw = item.repeat(30_000 / item.len());
        let cparams = Compression::new().itemsize(item.len()).filters(filters).build().unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        assert!(chunk.decompress_bytes().unwrap() == raw);
        // One item less, and a different last item.
        for other in [&raw[..raw.len() - item.len()], &[&raw[1..], &[0x77]].concat()] {
            assert!(Chunk::compress_bytes(other, &cparams).unwrap().decompress_bytes().unwrap() == other);
        }
        chunk.header().special()
    };
    let shuffle = &[FilterSlot::SHUFFLE];
    assert_eq!(special(&1.5f64.to_le_bytes(), shuffle), Some(SpecialKind::Value));
    assert_eq!(special(&[9], &[]), Some(SpecialKind::Value));
    assert_eq!(special(b"abc", &[FilterSlot::DELTA, FilterSlot::SHUFFLE]), Some(SpecialKind::Value));
    assert_eq!(special(&[b'a'; 300], shuffle), Some(SpecialKind::Value));
    assert_eq!(special(&0x7FC0_0000u32.to_le_bytes(), shuffle), Some(SpecialKind::NaN));
    assert_eq!(special(&0x7FF8_0000_0000_0000u64.to_le_bytes(), shuffle), Some(SpecialKind::NaN));
    // A NaN with other bits is stored as a repeated value.
    assert_eq!(special(&0xFFC0_0000u32.to_le_bytes(), shuffle), Some(SpecialKind::Value));
    assert_eq!(special(&[0; 12], shuffle), Some(SpecialKind::Zeros));
    // Not with a lossy filter, which may change the item.
    let trunc =
        Compression::new().itemsize(4).filters([FilterSlot::new(FilterId::TRUNC_PREC, 4)]).build().unwrap();
    let chunk = Chunk::compress_bytes(&1.1f32.to_le_bytes().repeat(1000), &trunc).unwrap();
    assert_eq!(chunk.decompress_bytes().unwrap(), 1.0625f32.to_le_bytes().repeat(1000));
}

#[test]
fn all_zero_input_becomes_a_special_chunk() {
    let chunk =
        Chunk::compress_bytes(&[0; 100_000], &Compression::new().itemsize(8).build().unwrap()).unwrap();
    assert_eq!(chunk.cbytes(), 32);
    assert_eq!(chunk.header().special(), Some(b2_chunk::SpecialKind::Zeros));
}

#[test]
fn lossy_filters_before_delta_stay_lossy_only_once() {
    // The decoder sees block 0 without the truncated bits; so must the encoder.
    let raw = data(3, 40_000, 1);
    let trunc = FilterSlot::new(FilterId::TRUNC_PREC, 8);
    let with = |filters: &[FilterSlot]| {
        let cparams = Compression::new().itemsize(4).filters(filters).blocksize(8000).build().unwrap();
        Chunk::compress_bytes(&raw, &cparams).unwrap().decompress_bytes().unwrap()
    };
    assert_eq!(with(&[trunc, FilterSlot::DELTA]), with(&[trunc]));
    assert_ne!(with(&[trunc]), raw);
}

#[test]
fn delta_is_left_out_where_c_would_lose_the_tail() {
    let raw = data(4, 40_002, 1);
    let cparams = Compression::new().itemsize(4).filters([FilterSlot::DELTA]).build().unwrap();
    let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
    assert!(chunk.header().filters().iter().all(|slot| slot.id != FilterId::DELTA));
    let chunk = Chunk::compress_bytes(&raw[..40_000], &cparams).unwrap();
    assert_eq!(chunk.header().filters()[5], FilterSlot::DELTA);
}

/// Of 40 blocks, some are zeros and the others noise.
#[test]
fn chunks_that_save_less_than_a_twentieth_with_blosclz_are_stored() {
    let raw = |nzeros: usize| {
        let mut raw = data(2, 40 << 12, 9);
        raw[..nzeros << 12].fill(0);
        raw
    };
    for (codec, level, fewest) in
        [(CodecId::BLOSCLZ, 5, 3), (CodecId::BLOSCLZ, 6, 3), (CodecId::BLOSCLZ, 7, 1), (CodecId::LZ4, 5, 1)]
    {
        let cparams = Compression::new().codec(codec).level(level).no_filters().blocksize(1 << 12);
        let cparams = cparams.itemsize(1).build().unwrap();
        let chunk = |nzeros| Chunk::compress_bytes(&raw(nzeros), &cparams).unwrap();
        for nzeros in [1, 3, 39] {
            let chunk = chunk(nzeros);
            assert_eq!(chunk.header().is_memcpyed(), nzeros < fewest, "{codec:?} {level} {nzeros}");
            assert!(chunk.decompress_bytes().unwrap() == raw(nzeros));
        }
        // The same where blocks are replaced.
        let noise = &data(2, 40 << 12, 9)[1 << 12..3 << 12];
        let (first, second) = noise.split_at(1 << 12);
        let made = chunk(3).with_blocks(&[(1, first), (2, second)], &cparams, &DParams::default()).unwrap();
        assert_eq!(made.is_none(), fewest > 1);
        assert!(made.is_none_or(|made| made.as_bytes() == chunk(1).as_bytes()));
    }
}

#[test]
fn blocks_that_cannot_pay_for_their_table_entries_are_stored() {
    // Two values, so that it does not become a special chunk.
    let raw = [data(1, 5000, 1), vec![8; 3]].concat();
    for (blocksize, stored) in [(1, true), (8, true), (10, false), (64, false)] {
        let cparams = Compression::new().itemsize(1).no_filters().blocksize(blocksize).build().unwrap();
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        assert_eq!(chunk.cbytes() == raw.len() + 32, stored, "{blocksize}");
        assert_eq!(chunk.header().blocksize(), blocksize);
        assert_eq!(chunk.decompress_bytes().unwrap(), raw);
        assert_eq!(chunk.get_bytes(17..4999, &DParams::default()).unwrap(), raw[17..4999]);
        let zeros = Chunk::compress_bytes(&[0; 5003], &cparams).unwrap();
        assert_eq!(zeros.header().special(), Some(b2_chunk::SpecialKind::Zeros));
    }
}

#[test]
fn parts_of_chunks_without_streams_ignore_the_blocks() {
    let width = 7;
    let value: Vec<u8> = (1..=width as u8).collect();
    let raw = value.repeat(500);
    let special = b2_chunk::SpecialKind::Value;
    let mut chunks = vec![Chunk::special(special, &value, raw.len(), 7, 35).unwrap()];
    let mut bytes = chunks[0].as_bytes().to_vec();
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    chunks.push(Chunk::from_bytes(bytes).unwrap());
    for blocksize in [1, 70, 5000] {
        let cparams = Compression::new().itemsize(1).level(0).blocksize(blocksize).build().unwrap();
        chunks.push(Chunk::compress_bytes(&raw, &cparams).unwrap());
    }
    for chunk in chunks {
        assert_eq!(chunk.decompress_bytes().unwrap(), raw);
        for range in [0..0, 0..1, 3..8, 34..36, 100..2999, 3499..3500, 0..3500, 3500..3500] {
            assert_eq!(chunk.get_bytes(range.clone(), &DParams::default()).unwrap(), raw[range]);
        }
    }
}

#[test]
fn bytedelta_gets_a_parameter_that_is_read_without_a_container() {
    let raw = data(4, 50_000, 1);
    let filters = [FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, 0)];
    let check = |typesize: usize, meta: Option<u8>| {
        let cparams = Compression::new().itemsize(typesize).filters(filters).build().unwrap();
        // python-blosc2 opens values up to 127.
        let given = cparams.filters()[5].meta;
        let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
        let of_chunk = chunk.header().filters()[5].meta;
        assert!((1..=127).contains(&of_chunk), "{typesize}: {of_chunk}");
        assert_eq!(given, if typesize <= 127 { 0 } else { of_chunk });
        assert!(meta.is_none_or(|meta| meta == of_chunk), "{typesize}: {of_chunk}");
        assert!(chunk.decompress_bytes().unwrap() == raw, "{typesize}");
        assert!(chunk.decompress_bytes_with(&knowing(&cparams)).unwrap() == raw, "{typesize}");
    };
    for (typesize, meta) in
        [(1, 1), (4, 4), (127, 127), (128, 64), (131, 1), (255, 85), (256, 64), (1000, 125)]
    {
        check(typesize, Some(meta));
    }
    (1..=600).step_by(7).for_each(|typesize| check(typesize, None));
}

/// Hands out blocks of a slice in a buffer, and fails at one of them if asked.
struct Blocks<'a> {
    bytes: &'a [u8],
    fails_at: Option<usize>,
}

impl PlainBlocks for Blocks<'_> {
    fn nbytes(&self) -> usize {
        self.bytes.len()
    }
    fn block<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ChunkError> {
        if self.fails_at.is_some_and(|at| range.contains(&at)) {
            return Err(ChunkError::Source(HookError::new("no such block".into())));
        }
        buffer.clear();
        buffer.extend_from_slice(&self.bytes[range]);
        Ok(buffer)
    }
}

#[test]
fn blocks_one_by_one_give_the_same_chunk() {
    let mut rng = b2_testkit::Rng::new(29);
    let filters = [
        vec![],
        vec![FilterSlot::SHUFFLE],
        vec![FilterSlot::BITSHUFFLE],
        vec![FilterSlot::DELTA, FilterSlot::SHUFFLE],
    ];
    let (mut special, mut stored, mut failed) = (0, 0, 0);
    for round in 0..300 {
        let typesize = [1, 2, 4, 7, 8][rng.below(5)];
        let kind = round % 5;
        let values = [1, 2, 5, 256, 256][kind];
        let mut bytes: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.below(values) as u8).collect();
        if kind == 1 && !bytes.is_empty() {
            // A chunk that begins as if it repeated one item.
            let len = bytes.len();
            bytes[..len * 3 / 4].fill(7);
        }
        let cparams = Compression::new()
            .itemsize(typesize)
            .codec([CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD][rng.below(3)])
            .level([0, 1, 5, 9][rng.below(4)])
            .filters(filters[rng.below(4)].clone())
            .blocksize([0, 16, 256, 1000, 4096][rng.below(5)])
            .use_dict(rng.below(8) == 0)
            .build();
        let Ok(cparams) = cparams else { continue };
        let whole = Chunk::compress_bytes(&bytes, &cparams).unwrap();
        special += usize::from(whole.header().special().is_some());
        stored += usize::from(whole.header().is_memcpyed());
        let mut dst = vec![0xEE; bytes.len() + 40];
        let blocks = Blocks { bytes: &bytes, fails_at: None };
        let len = Chunk::compress_blocks_into(&blocks, &mut dst, &cparams).unwrap();
        assert!(dst[..len] == *whole.as_bytes(), "{} bytes, {cparams:?}", bytes.len());
        assert!(Chunk::compress_blocks_into(&blocks, &mut dst[..bytes.len() + 31], &cparams).is_err());
        if !bytes.is_empty() {
            let blocks = Blocks { fails_at: Some(rng.below(bytes.len())), ..blocks };
            let error = Chunk::compress_blocks_into(&blocks, &mut dst, &cparams).unwrap_err();
            assert!(matches!(error, ChunkError::Source(_)), "{error:?}");
            failed += 1;
        }
    }
    assert!(special > 20 && stored > 20 && failed > 200, "{special} {stored} {failed}");
}
