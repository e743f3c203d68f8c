use b2_chunk::codecs::{CodecProperties, Trial};
use b2_chunk::{Chunk, ChunkError, Compression, FilterSlot, Goal, Plugins, SpecialKind};

use super::codec::{ID, TestCodec};
use super::{items, round_trip};

fn with(codec: &TestCodec) -> Plugins {
    Plugins::builtin().with_codec(codec.clone())
}

fn builder() -> Compression {
    Compression::new().itemsize(4).codec(ID)
}

#[test]
fn a_codec_that_says_nothing_works() {
    let codec = TestCodec::default();
    let plain = items(100_000);
    for filters in [&[][..], &[FilterSlot::SHUFFLE], &[FilterSlot::DELTA, FilterSlot::BITSHUFFLE]] {
        let chunk = round_trip(&plain, builder().filters(filters), &with(&codec));
        assert!(chunk.header().codec() == Some(ID) && !chunk.header().is_split());
    }
    assert!(codec.seen.lock().unwrap().encoded > 0);
}

#[test]
fn dictionaries_are_trained_and_used_by_those_that_take_them() {
    let plain = items(200_000);
    let none = TestCodec::new(CodecProperties::BYTES);
    let refused = builder().plugins(with(&none)).use_dict(true).build();
    assert!(matches!(refused, Err(ChunkError::Argument { name: "use_dict", .. })));

    let codec = TestCodec::new(CodecProperties::BYTES.dictionaries(true));
    let chunk = round_trip(&plain, builder().use_dict(true).blocksize(8192), &with(&codec));
    assert!(chunk.header().has_dict());
    let seen = codec.seen.lock().unwrap();
    assert_eq!(seen.trained, 1);
    assert!(seen.dicts.0 > 0 && seen.dicts.1 > 0, "{seen:?}");
}

#[test]
fn blocks_are_split_up_to_the_level_it_says() {
    let plain = items(300_000);
    let codec = TestCodec::new(CodecProperties::BYTES.splits_up_to(5));
    for (clevel, filter, split) in [
        (1, FilterSlot::SHUFFLE, true),
        (5, FilterSlot::SHUFFLE, true),
        (6, FilterSlot::SHUFFLE, false),
        (1, FilterSlot::BITSHUFFLE, false),
    ] {
        let chunk = round_trip(&plain, builder().level(clevel).filters([filter]), &with(&codec));
        assert_eq!(chunk.header().is_split(), split, "{clevel} {filter:?}");
    }
}

#[test]
fn long_windows_get_large_blocks() {
    let plain = items(500_000);
    let blocksize = |long_windows| {
        let codec = TestCodec::new(CodecProperties::BYTES.long_windows(long_windows));
        round_trip(&plain, builder(), &with(&codec)).header().blocksize()
    };
    assert_eq!((blocksize(false), blocksize(true)), (128 << 10, 256 << 10));
}

#[test]
fn repeated_items_are_special_only_where_nothing_could_become_of_them() {
    let plain = 0x0102_0304u32.to_le_bytes().repeat(5000);
    for (lossless, shapeless) in [(true, true), (false, true), (true, false)] {
        let codec = TestCodec::new(CodecProperties::UNKNOWN.lossless(lossless).shapeless(shapeless));
        let chunk = round_trip(&plain, builder().no_filters(), &with(&codec));
        let special = (lossless && shapeless).then_some(SpecialKind::Value);
        assert_eq!(chunk.header().special(), special);
        assert_eq!(codec.seen.lock().unwrap().encoded == 0, special.is_some());
    }
}

#[test]
fn shapes_are_handed_over() {
    let codec = TestCodec::new(CodecProperties::UNKNOWN);
    let cparams = builder().blockshape([30, 40]).blocksize(4800).plugins(with(&codec)).build().unwrap();
    Chunk::compress_bytes(&items(12_000), &cparams).unwrap();
    assert_eq!(codec.seen.lock().unwrap().shapes, [vec![30, 40]].into());
}

#[test]
fn nothing_that_makes_other_bytes_of_floats_comes_before_a_codec_of_floats() {
    let plugins = with(&TestCodec::new(CodecProperties::UNKNOWN.takes_floats(true)));
    let build = |filters: &[FilterSlot]| builder().filters(filters).plugins(plugins.clone()).build();
    let truncate = FilterSlot::new(b2_chunk::FilterId::TRUNC_PREC, 10);
    assert!(build(&[]).is_ok() && build(&[truncate]).is_ok());
    for filters in [&[FilterSlot::SHUFFLE][..], &[truncate, FilterSlot::DELTA]] {
        assert!(matches!(build(filters), Err(ChunkError::Argument { name: "filters", .. })));
    }
}

#[test]
fn costs_of_decoding_are_told_by_the_header() {
    let codec = TestCodec::new(CodecProperties::BYTES.decoding_cost(17));
    let plugins = with(&codec);
    let chunk = round_trip(&items(10_000), builder(), &plugins);
    assert_eq!(plugins.decoding_cost(chunk.header()), 17);
    assert_eq!(Plugins::builtin().decoding_cost(chunk.header()), 6);
    let stored = round_trip(&items(10_000), builder().level(0), &plugins);
    assert_eq!(plugins.decoding_cost(stored.header()), 1);
}

#[test]
#[cfg(feature = "rayon")]
fn costs_of_encoding_tell_when_threads_pay() {
    use b2_chunk::{Control, Pool};
    let plain = items(100_000);
    for (level_5, threads) in [(1, 1), (1000, 2)] {
        let mut encoding_cost = [1; 10];
        encoding_cost[5] = level_5;
        let mut codec = TestCodec::new(CodecProperties::BYTES.encoding_cost(encoding_cost));
        codec.waits = threads > 1;
        let control = Control::new().pool(Pool::new(2)).threads(2);
        let cparams = builder().blocksize(50_000).control(control).plugins(with(&codec)).build().unwrap();
        Chunk::compress_bytes(&plain, &cparams).unwrap();
        assert_eq!(codec.seen.lock().unwrap().threads.len(), threads);
    }
}

#[test]
fn levels_that_it_names_are_tried_where_parameters_are_chosen() {
    const TRIALS: &[Trial] = &[Trial::new(3, 0.01, 0.01), Trial::new(7, 0.02, 0.01).smallest(true)];
    let plain = items(100_000);
    let choose = |properties: CodecProperties, goal| {
        let plugins = with(&TestCodec::new(properties.trials(TRIALS)));
        let cparams = Compression::new().itemsize(4).plugins(plugins).auto(&plain, goal).unwrap();
        (cparams.codec(), cparams.level())
    };
    // As small as LZ4 and cheaper.
    assert_eq!(choose(CodecProperties::BYTES, Goal::Speed).0, ID);
    assert_ne!(choose(CodecProperties::UNKNOWN, Goal::Speed).0, ID, "nothing lossy is chosen");
    // The level that is not among the smallest is not tried, and the others have a better ratio than other codecs.
    assert_ne!(choose(CodecProperties::BYTES, Goal::Size), (ID, 3));
}
