use b2_chunk::filters::{Effect, FilterProperties};
use b2_chunk::{
    Chunk, ChunkError, CodecId, Compression, Container, DParams, FilterId, FilterSlot, Plugins, SpecialKind,
    SplitMode,
};

use super::filter::{ID, Kind, SLOT, TestFilter};
use super::{items, reads_as, round_trip};

fn with(filter: &TestFilter) -> Plugins {
    Plugins::builtin().with_filter(filter.clone())
}

fn builder() -> Compression {
    Compression::new().itemsize(4).codec(CodecId::LZ4).filters([SLOT]).blocksize(20_000)
}

#[test]
fn every_kind_comes_back_alone_and_between_others() {
    for kind in [Kind::Bytes, Kind::Bits, Kind::Not, Kind::Reversed, Kind::Words, Kind::Sum] {
        for split in [SplitMode::Always, SplitMode::Never, SplitMode::Auto] {
            for others in [&[][..], &[FilterSlot::SHUFFLE], &[FilterSlot::BITSHUFFLE]] {
                let filter = TestFilter::new(kind);
                for filters in [[&[SLOT], others].concat(), [others, &[SLOT]].concat()] {
                    let builder = builder().filters(filters).splitmode(split);
                    round_trip(&items(33_000), builder, &with(&filter));
                }
            }
        }
        // An undeclared property.
        let mut filter = TestFilter::new(kind);
        if filter.properties.reference == b2_chunk::filters::Reference::None {
            filter.properties = FilterProperties::UNKNOWN.in_parts(true);
            if !matches!(kind, Kind::Bytes | Kind::Bits) {
                filter.properties.in_parts = false;
            }
            round_trip(&items(33_000), builder(), &with(&filter));
        }
    }
}

#[test]
fn planes_split_blocks_and_are_undone_in_parts() {
    let filter = TestFilter::new(Kind::Bytes);
    let chunk = round_trip(&items(100_000), builder(), &with(&filter));
    assert!(chunk.header().is_split());
    assert!(filter.seen.lock().unwrap().planes > 0);

    // In a single stream, planes are parts of the block.
    let filter = TestFilter::new(Kind::Bytes);
    round_trip(&items(100_000), builder().splitmode(SplitMode::Never), &with(&filter));
    let seen = filter.seen.lock().unwrap();
    assert!(seen.parts > 0 && seen.planes == 0, "{seen:?}");

    // Blocks are not split for bits, but if they are, the planes of bits are used.
    let filter = TestFilter::new(Kind::Bits);
    assert!(!round_trip(&items(100_000), builder(), &with(&filter)).header().is_split());
    assert_eq!(filter.seen.lock().unwrap().planes, 0);
    round_trip(&items(100_000), builder().splitmode(SplitMode::Always), &with(&filter));
    assert!(filter.seen.lock().unwrap().planes > 0);
}

#[test]
fn parts_take_less_memory_where_the_filter_works_in_parts() {
    let memory = |kind| {
        let plugins = with(&TestFilter::new(kind));
        let chunk = round_trip(&items(100_000), builder(), &plugins);
        let lazy = chunk.lazy(&DParams::default().plugins(plugins)).unwrap();
        (lazy.block_memory(), lazy.part_memory())
    };
    assert_eq!(memory(Kind::Bytes), (20_000, 20_000));
    assert_eq!(memory(Kind::Reversed), (20_000, 40_000));
    assert_eq!(memory(Kind::Sum), (40_000, 80_000));
}

#[test]
fn blocks_of_zeros_pass_filters_that_keep_them() {
    let mut plain = items(15_000);
    plain[20_000..40_000].fill(0);
    for (kind, effect) in [
        (Kind::Not, Effect::Any),
        (Kind::Reversed, Effect::Any),
        (Kind::Reversed, Effect::KeepsZeros),
        (Kind::Reversed, Effect::Reorders),
    ] {
        let mut filter = TestFilter::new(kind);
        filter.properties.effect = effect;
        let plugins = with(&filter);
        let cparams = builder().plugins(plugins.clone()).build().unwrap();
        let chunk = Chunk::compress_bytes(&plain, &cparams).unwrap();
        let applied = filter.seen.lock().unwrap().forward;
        assert_eq!(applied, if effect == Effect::Any { 3 } else { 2 });
        assert!(chunk.decompress_bytes_with(&DParams::default().plugins(plugins.clone())).unwrap() == plain);
        let undone = filter.seen.lock().unwrap().backward;
        assert_eq!(undone, if effect == Effect::Reorders { 2 } else { 3 });
        reads_as(&chunk, &plain, &plugins);
    }
}

#[test]
fn copies_are_left_out() {
    let filter = TestFilter::new(Kind::Even);
    let plain = items(50_000);
    let even: Vec<u8> = plain.iter().map(|byte| byte & !1).collect();
    let cparams = builder().plugins(with(&filter)).build().unwrap();
    let chunk = Chunk::compress_bytes(&plain, &cparams).unwrap();
    // Its `backward` panics.
    reads_as(&chunk, &even, &with(&filter));

    let mut filter = TestFilter::new(Kind::Not);
    (filter.properties.forward_is_copy, filter.properties.backward_is_copy) = (true, true);
    round_trip(&plain, builder(), &with(&filter));
    assert_eq!(filter.seen.lock().unwrap().forward, 0);
}

#[test]
fn repeated_items_are_special_only_where_nothing_could_become_of_them() {
    let plain = 0x0103_0507u32.to_le_bytes().repeat(20_000);
    for (lossless, shapeless) in [(true, true), (false, true), (true, false)] {
        let mut filter = TestFilter::new(Kind::Not);
        (filter.properties.lossless, filter.properties.shapeless) = (lossless, shapeless);
        let chunk = round_trip(&plain, builder(), &with(&filter));
        let special = (lossless && shapeless).then_some(SpecialKind::Value);
        assert_eq!(chunk.header().special(), special);
    }
    // The items after a lossy filter.
    let filter = TestFilter::new(Kind::Even);
    let chunk = Chunk::compress_bytes(&plain, &builder().plugins(with(&filter)).build().unwrap()).unwrap();
    reads_as(&chunk, &0x0002_0406u32.to_le_bytes().repeat(20_000), &with(&filter));
}

#[test]
fn references_are_block_0_as_it_is_decoded() {
    for kind in [Kind::Words, Kind::Sum] {
        let filter = TestFilter::new(kind);
        let plugins = with(&filter);
        let chunk = round_trip(&items(50_000), builder(), &plugins);
        let dparams = DParams::default().plugins(plugins.clone());
        let lazy = chunk.lazy(&dparams).unwrap();
        assert!(lazy.needs_block0());
        assert!(filter.seen.lock().unwrap().references > 0);
        let mut block = vec![0; lazy.blocksize()];
        let stored = &chunk.as_bytes()[lazy.block_extent(1)];
        assert!(lazy.decoder(&dparams).unwrap().decode(1, stored, None, &mut block).is_err());

        // Words need block 0 only at their own position.
        if kind == Kind::Words {
            let (start, mut part) = (&items(50_000)[..16], [0; 4]);
            lazy.decoder(&dparams).unwrap().decode_part(1, stored, Some(start), 4..8, &mut part).unwrap();
            assert_eq!(part, items(50_000)[20_004..20_008]);
        }

        let twice = builder().filters([SLOT, FilterSlot::DELTA]).plugins(plugins.clone()).build();
        assert!(matches!(twice, Err(ChunkError::Argument { name: "filters", .. })));
        let cparams = builder().plugins(plugins).build().unwrap();
        assert!(Chunk::compress_vl(&[&[1; 100], &[2; 50]], &cparams).is_err());
    }
}

#[test]
fn a_lossy_filter_before_a_reference_gives_what_readers_see() {
    let filter = TestFilter::new(Kind::Words);
    let truncate = FilterSlot::new(FilterId::INT_TRUNC, 4_i8.wrapping_neg() as u8);
    let plain = items(50_000);
    let cparams = builder().filters([truncate, SLOT]).plugins(with(&filter)).build().unwrap();
    let chunk = Chunk::compress_bytes(&plain, &cparams).unwrap();
    let cleared: Vec<u8> =
        plain.chunks(4).flat_map(|item| [item[0] & 0xF0, item[1], item[2], item[3]]).collect();
    reads_as(&chunk, &cleared, &with(&filter));
}

#[test]
fn chunks_that_are_not_whole_go_without() {
    let filter = TestFilter::new(Kind::Words);
    let plain = items(30_001);
    let chunk = round_trip(&plain, builder(), &with(&filter));
    assert!(chunk.header().filters().iter().all(|slot| slot.id == FilterId::NONE));
    assert_eq!(filter.seen.lock().unwrap().forward, 0);
    let chunk = round_trip(&plain[4..], builder(), &with(&filter));
    assert_eq!(chunk.header().filters()[5].id, ID);
}

#[test]
fn a_parameter_that_stands_for_the_item_size_is_written_as_it() {
    for (zero_is_itemsize, meta) in [(true, 4), (false, 0)] {
        let mut filter = TestFilter::new(Kind::Not);
        filter.properties.zero_is_itemsize = zero_is_itemsize;
        let chunk = round_trip(&items(10_000), builder(), &with(&filter));
        assert_eq!(chunk.header().filters()[5], FilterSlot::new(ID, meta));
        assert_eq!(filter.seen.lock().unwrap().metas, [meta].into());
    }
}

#[test]
fn shapes_are_handed_over() {
    let filter = TestFilter::new(Kind::Not);
    let plain = items(10_000);
    let plugins = with(&filter);
    let cparams = builder().blockshape([50, 100]).plugins(plugins.clone()).build().unwrap();
    let chunk = Chunk::compress_bytes(&plain, &cparams).unwrap();
    let container = Container::default().blockshape([50, 100]);
    let dparams = DParams::default().plugins(plugins).container(container);
    assert!(chunk.decompress_bytes_with(&dparams).unwrap() == plain);
    assert_eq!(filter.seen.lock().unwrap().shapes, [vec![50, 100]].into());
}

#[test]
fn a_codec_of_floats_takes_filters_that_keep_them() {
    use super::codec;
    use b2_chunk::codecs::CodecProperties;
    let floats = CodecProperties::UNKNOWN.takes_floats(true);
    for keeps_floats in [true, false] {
        let mut filter = TestFilter::new(Kind::Even);
        filter.properties.keeps_floats = keeps_floats;
        let plugins = with(&filter).with_codec(codec::TestCodec::new(floats));
        assert_eq!(builder().codec(codec::ID).plugins(plugins).build().is_ok(), keeps_floats);
    }
}
