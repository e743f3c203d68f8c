//! Typed values, compression parameters, and borrowed chunks.

use b2_chunk::filters::{ByteDelta, Delta, Shuffle};
use b2_chunk::{
    Chunk, ChunkError, ChunkRef, CodecId, Compression, DParams, Element, ErrorKind, FilterId, FilterSlot,
    Limits, SpecialKind,
};

#[track_caller]
fn check<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| {
            let mut item = vec![0; T::ITEMSIZE];
            value.write_le(&mut item);
            item
        })
        .collect();
    for compression in [
        Compression::lz4(),
        Compression::new().level(0),
        Compression::new().codec(CodecId::ZLIB).no_filters(),
    ] {
        let chunk = Chunk::compress(values, &compression).unwrap();
        let cparams = compression.itemsize(T::ITEMSIZE).build().unwrap();
        assert_eq!(chunk, Chunk::compress_bytes(&bytes, &cparams).unwrap());
        assert_eq!(chunk.header().itemsize(), T::ITEMSIZE);
        assert_eq!(chunk.decompress::<T>().unwrap(), values);
        assert_eq!(chunk.decompress_bytes().unwrap(), bytes);
        let part = values.len() / 3..values.len() / 2;
        assert_eq!(chunk.get_items::<T>(part.clone(), &DParams::default()).unwrap(), values[part]);
        assert!(chunk.get_items::<T>(0..values.len() + 1, &DParams::default()).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = chunk.get_items::<T>(2..1, &DParams::default());
        assert!(matches!(backwards, Err(ChunkError::OutOfRange { what: "items", .. })));
    }
}

#[test]
fn values_of_all_types_come_back() {
    let floats: Vec<f64> = (0..5000).map(|i| f64::from(i).sqrt()).collect();
    check(&floats);
    check(&floats.iter().map(|&x| x as f32).collect::<Vec<_>>());
    check(&floats.iter().map(|&x| x as u8).collect::<Vec<_>>());
    check(&floats.iter().map(|&x| -x as i64).collect::<Vec<_>>());
    check(&floats.iter().map(|&x| (x as u64).is_multiple_of(2)).collect::<Vec<_>>());
    check::<u16>(&[]);
    check(&[f32::NAN.to_bits(); 300]);
}

#[test]
fn values_have_the_size_of_the_items() {
    let chunk = Chunk::compress(&[1u32, 2, 3, 4], &Compression::lz4()).unwrap();
    assert_eq!(chunk.decompress::<f64>().unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(chunk.get_items::<u8>(0..1, &DParams::default()).unwrap_err().kind(), ErrorKind::Argument);
    // Items of one byte convert to any type of fitting length.
    let bytes = Chunk::compress(&[0u8; 40], &Compression::lz4()).unwrap();
    assert_eq!(bytes.decompress::<u64>().unwrap(), [0; 5]);
    assert!(Chunk::compress(&[0u8; 41], &Compression::lz4()).unwrap().decompress::<u64>().is_err());
    // Bytes other than 0 and 1 read as `true`.
    let bytes = Chunk::compress(&[0u8, 1, 7], &Compression::lz4()).unwrap();
    assert_eq!(bytes.decompress::<bool>().unwrap(), [false, true, true]);
}

#[test]
fn limits_hold_for_values() {
    let zeros = Chunk::special(SpecialKind::Zeros, &[], 1 << 30, 8, 0).unwrap();
    let small = DParams::default().limits(Limits::default().max_output(1 << 20));
    assert_eq!(zeros.decompress_with::<u64>(&small).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(zeros.get_items::<u64>(0..1 << 20, &small).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(zeros.get_items::<u64>(0..9, &small).unwrap(), [0; 9]);
}

#[test]
fn a_borrowed_chunk_reads_as_its_own() {
    let values: Vec<u32> = (0..100_000).map(|i| i / 7).collect();
    let dict = Compression::zstd(3).use_dict(true).blocksize(4000);
    let delta = Compression::lz4().filter(Delta).filter(Shuffle).blocksize(4000);
    let mut chunks: Vec<Chunk> = [dict, delta, Compression::new().level(0)]
        .iter()
        .map(|c| Chunk::compress(&values, c).unwrap())
        .collect();
    chunks.push(Chunk::special(SpecialKind::Value, b"abcd", 400_000, 4, 0).unwrap());
    for chunk in chunks {
        let mut stored = chunk.as_bytes().to_vec();
        stored.extend(b"what follows is cut off");
        let borrowed = ChunkRef::from_slice(&stored).unwrap();
        assert_eq!(borrowed, chunk);
        assert_eq!(borrowed.as_bytes().as_ptr(), stored.as_ptr());
        assert_eq!(borrowed.decompress::<u32>().unwrap(), chunk.decompress::<u32>().unwrap());
        assert_eq!(
            borrowed.get_items::<u32>(777..8888, &DParams::default()).unwrap(),
            chunk.get_items::<u32>(777..8888, &DParams::default()).unwrap()
        );
        assert_eq!(borrowed.check(&DParams::default()).0, Ok(()));
        stored.truncate(chunk.cbytes() - 1);
        assert!(matches!(ChunkRef::from_slice(&stored), Err(ChunkError::Truncated { .. })));
    }
    // Functions that take a borrowed chunk also take an owned one.
    fn first(chunk: &ChunkRef<'_>) -> u8 {
        chunk.get_bytes(0..1, &DParams::default()).unwrap()[0]
    }
    assert_eq!(first(&Chunk::compress(&[9u8; 3], &Compression::lz4()).unwrap()), 9);
}

#[test]
fn filters_are_asked_for_in_many_ways() {
    let slots = |compression: Compression| compression.itemsize(4).build().unwrap().filters();
    let used =
        |compression| slots(compression).into_iter().filter(|slot| slot.id != FilterId::NONE).collect();
    let used = |compression: Compression| -> Vec<FilterSlot> { used(compression) };
    let cut = FilterSlot::new(FilterId::TRUNC_PREC, 12);
    assert_eq!(used(Compression::new()), [FilterSlot::SHUFFLE]);
    assert_eq!(used(Compression::new().no_filters()), []);
    assert_eq!(used(Compression::new().filter(Delta)), [FilterSlot::DELTA]);
    let three = Compression::lz4().filter(cut).filter(FilterId::SHUFFLE).filter(ByteDelta);
    assert_eq!(used(three.clone()), [cut, FilterSlot::SHUFFLE, FilterId::BYTEDELTA.into()]);
    assert_eq!(used(three.clone().filters([FilterId::BITSHUFFLE])), [FilterSlot::BITSHUFFLE]);
    assert_eq!(used(three.clone().filters([cut, cut].iter())), [cut, cut]);
    // Checked parameters can be changed again; new filters are appended.
    let built = three.itemsize(4).build().unwrap();
    assert_eq!(slots(Compression::from(&built)), built.filters());
    assert_eq!(used(built.to_builder().filter(Shuffle)).len(), 4);
    let seven = (0..7).fold(Compression::new(), |compression, _| compression.filter(Shuffle));
    assert!(matches!(seven.itemsize(4).build(), Err(ChunkError::Argument { name: "filters", .. })));
}

#[test]
fn the_item_size_is_asked_for_where_nobody_knows_it() {
    let error = Compression::zstd(9).build().unwrap_err();
    assert!(matches!(error, ChunkError::Argument { name: "itemsize", .. }), "{error}");
    assert!(Chunk::compress(&[1u16; 9], &Compression::zstd(9).itemsize(0)).is_ok());
    let codecs = [
        (Compression::zstd(9), CodecId::ZSTD, 9),
        (Compression::lz4(), CodecId::LZ4, 5),
        (Compression::lz4().codec(CodecId::LZ4HC).level(4), CodecId::LZ4HC, 4),
    ];
    for (compression, codec, level) in codecs {
        let cparams = compression.itemsize(4).build().unwrap();
        assert_eq!((cparams.codec(), cparams.level()), (codec, level));
    }
    assert!(Compression::zstd(10).itemsize(4).build().is_err());
}

/// Memory limit of compression: the buffers of one thread must fit, and more threads are used only if theirs fit too.
#[test]
fn compressing_has_limits() {
    let raw: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
    let base = || Compression::new().itemsize(4).codec(CodecId::LZ4).blocksize(1_000_000);
    let whole = Chunk::compress_bytes(&raw, &base().build().unwrap()).unwrap();
    let with = |compression: Compression, most| {
        let cparams = compression.limits(Limits::default().max_memory(most)).build()?;
        Chunk::compress_bytes(&raw, &cparams)
    };
    assert_eq!(with(base(), 2_000_000).unwrap(), whole);
    assert_eq!(with(base(), 1_999_999).unwrap_err().kind(), ErrorKind::Limit);
    assert!(with(base().no_filters(), 1_000_000).is_ok());
    let delta = base().filters([FilterSlot::DELTA, FilterSlot::SHUFFLE]);
    assert!(with(delta.clone(), 4_000_000).is_ok() && with(delta, 3_999_999).is_err());
    let copied = base().prefilter(|_, src, dst| {
        dst.copy_from_slice(src);
        Ok(())
    });
    assert!(with(copied.clone(), 6_000_000).is_ok() && with(copied, 5_999_999).is_err());
    // Special and stored chunks need no buffers.
    assert!(with(base().level(0), 0).is_ok());
    let cparams = base().limits(Limits::default().max_memory(1000)).build().unwrap();
    assert_eq!(Chunk::compress_vl(&[&raw], &cparams).unwrap_err().kind(), ErrorKind::Limit);
}
