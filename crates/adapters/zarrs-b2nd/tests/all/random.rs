//! Random arrays: round trips, whole and in parts, through both interfaces.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use b2_testkit::Rng;
use futures::executor::block_on;
use zarrs::array::codec::ShardingCodecBuilder;
use zarrs::array::codec::api::{ArrayToBytesCodecTraits, CodecOptions};
use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, DataType, FillValue, data_type};
use zarrs::metadata_ext::data_type::NumpyTimeUnit;
use zarrs::plugin::ExtensionName;
use zarrs_b2nd::{B2ndCodec, Blosc2Codec, Filter};

use crate::store::{CountingStore, asynchronous, cut, fixed, shape};

/// All kinds of types: Blosc2's own, and those stored as opaque bytes.
pub(crate) fn types() -> Vec<DataType> {
    let one = NonZeroU32::MIN;
    vec![
        data_type::bool(),
        data_type::int8(),
        data_type::int16(),
        data_type::int32(),
        data_type::int64(),
        data_type::uint8(),
        data_type::uint16(),
        data_type::uint32(),
        data_type::uint64(),
        data_type::float16(),
        data_type::float32(),
        data_type::float64(),
        data_type::complex64(),
        data_type::complex128(),
        data_type::bfloat16(),
        data_type::float8_e4m3(),
        data_type::complex_bfloat16(),
        data_type::int4(),
        data_type::raw_bits(3),
        data_type::raw_bits(300),
        data_type::fixed_length_utf32(NonZeroU64::new(20).unwrap()).unwrap(),
        data_type::numpy_datetime64(NumpyTimeUnit::Nanosecond, one),
        data_type::numpy_datetime64(NumpyTimeUnit::Microsecond, NonZeroU32::new(10).unwrap()),
        data_type::numpy_timedelta64(NumpyTimeUnit::Generic, one),
    ]
}

pub(crate) fn codec(rng: &mut Rng, chunk: &[u64]) -> B2ndCodec {
    let filters: [&[Filter]; 4] =
        [&[], &["shuffle".into()], &["bitshuffle".into()], &["delta".into(), "shuffle".into()]];
    let mut codec = B2ndCodec::new()
        .codec(*rng.pick(&["blosclz", "lz4", "lz4hc", "zlib", "zstd"]))
        .level(rng.below(10) as u8)
        .filters(rng.pick(&filters).to_vec());
    if rng.chance(70) {
        // Some are longer than the chunk.
        let blocks: Vec<u32> = chunk.iter().map(|&n| rng.within(1..=n as usize + 2) as u32).collect();
        codec = codec.blocks(blocks);
    }
    codec
}

/// One random array in a store.
struct RandomArray {
    store: Arc<CountingStore>,
    array: Array<CountingStore>,
    lengths: Vec<u64>,
    chunk: Vec<u64>,
    itemsize: usize,
    items: Vec<u8>,
    is_sharded: bool,
}

fn case(seed: u64, number: u64) -> RandomArray {
    let mut rng = Rng::case(seed, number);
    let ndim = rng.within(1..=4);
    let most = [0, 30_000, 200, 34, 13][ndim];
    let lengths: Vec<u64> = (0..ndim).map(|_| rng.within(1..=most) as u64).collect();
    let kind = rng.pick(&types()).clone();
    let itemsize = kind.fixed_size().unwrap();
    let is_sharded = rng.chance(30);
    let inner: Vec<u64> = lengths.iter().map(|&n| rng.within(1..=n as usize) as u64).collect();
    let inner: Vec<u64> = inner.iter().map(|&n| if is_sharded { n.div_ceil(2) } else { n }).collect();
    let chunk: Vec<u64> = if is_sharded { inner.iter().map(|n| n * 2).collect() } else { inner.clone() };
    let codec = Arc::new(codec(&mut rng, &inner));
    let outer: Arc<dyn ArrayToBytesCodecTraits> = match is_sharded {
        true => ShardingCodecBuilder::new(shape(&inner), &kind).array_to_bytes_codec(codec).build_arc(),
        false => codec,
    };
    // Any bytes are valid integers, but not valid floats, texts or booleans in the metadata.
    let name = kind.name_v3().unwrap();
    let is_plain =
        ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"].contains(&&*name);
    let fill = if is_plain { rng.bytes(itemsize) } else { vec![0; itemsize] };
    let mut builder =
        ArrayBuilder::new(lengths.clone(), chunk.clone(), kind.clone(), FillValue::new(fill.clone()));
    builder.array_to_bytes_codec(outer);
    if rng.chance(15) {
        builder.bytes_to_bytes_codecs(vec![Arc::new(
            Blosc2Codec::new().codec("lz4").filters(["shuffle"]).typesize(3),
        )]);
    }
    let store = Arc::new(CountingStore::default());
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    let nitems = lengths.iter().product::<u64>() as usize;
    let (_, mut items) = rng.data(nitems * itemsize);
    if *kind.name_v3().unwrap() == *"bool" {
        items.iter_mut().for_each(|item| *item &= 1);
    }
    let whole = ArraySubset::new_with_shape(lengths.clone());
    array.store_array_subset(&whole, ArrayBytes::new_flen(items.clone())).unwrap();
    if rng.chance(30) {
        // A missing chunk has the fill value.
        let at: Vec<u64> =
            lengths.iter().zip(&chunk).map(|(n, c)| rng.below(n.div_ceil(*c) as usize) as u64).collect();
        let cut = array.chunk_subset_bounded(&at).unwrap();
        array.erase_chunk(&at).unwrap();
        for position in cut.indices().into_iter() {
            let flat =
                position.iter().zip(&lengths).fold(0, |flat, (at, length)| flat * length + at) as usize;
            items[flat * itemsize..(flat + 1) * itemsize].copy_from_slice(&fill);
        }
    }
    // Open it by its metadata, like a reader.
    let array = Array::open(store.clone(), "/a").unwrap();
    assert_eq!(array.data_type(), &kind);
    RandomArray { store, array, lengths, chunk, itemsize, items, is_sharded }
}

pub(crate) fn a_box(rng: &mut Rng, lengths: &[u64]) -> Vec<std::ops::Range<u64>> {
    lengths
        .iter()
        .map(|&n| {
            let start = rng.below(n as usize) as u64;
            start..start + rng.within(1..=(n - start) as usize) as u64
        })
        .collect()
}

#[test]
fn random_arrays_are_read_whole_and_in_parts() {
    let mut nparts = 0;
    for number in 0..60 {
        let RandomArray { store, array, lengths, chunk, itemsize, items, is_sharded } = case(71, number);
        let mut rng = Rng::case(72, number);
        let whole = ArraySubset::new_with_shape(lengths.clone());
        let found = fixed(array.retrieve_array_subset::<ArrayBytes>(&whole).unwrap());
        assert_eq!(found, items, "case {number}: all of {lengths:?} in {chunk:?}");
        let asynchronous = block_on(Array::async_open(asynchronous(&store), "/a")).unwrap();
        for _ in 0..6 {
            let ranges = a_box(&mut rng, &lengths);
            let expected = cut(&items, itemsize, &lengths, &ranges);
            let subset = ArraySubset::new_with_ranges(&ranges);
            let found = fixed(array.retrieve_array_subset::<ArrayBytes>(&subset).unwrap());
            assert_eq!(found, expected, "case {number}: {ranges:?} of {lengths:?} in {chunk:?}");
            let found = block_on(asynchronous.async_retrieve_array_subset::<ArrayBytes>(&subset)).unwrap();
            assert_eq!(fixed(found), expected, "case {number}: {ranges:?} of {lengths:?}, asynchronously");
            nparts += 1;
        }
        // Parts of one chunk, through a cached decoder.
        let at: Vec<u64> =
            lengths.iter().zip(&chunk).map(|(n, c)| rng.below(n.div_ceil(*c) as usize) as u64).collect();
        let plain = fixed(array.retrieve_chunk::<ArrayBytes>(&at).unwrap());
        let decoder = array.partial_decoder(&at).unwrap();
        let options = CodecOptions::default();
        for _ in 0..3 {
            let ranges = a_box(&mut rng, &chunk);
            let subset = ArraySubset::new_with_ranges(&ranges);
            let found = fixed(decoder.partial_decode(&subset, &options).unwrap());
            assert_eq!(found, cut(&plain, itemsize, &chunk, &ranges), "case {number}: {ranges:?} of a chunk");
            // Several boxes, read as single items.
            let boxes = vec![subset, ArraySubset::new_with_ranges(&a_box(&mut rng, &chunk))];
            let expected: Vec<u8> =
                boxes.iter().flat_map(|one| cut(&plain, itemsize, &chunk, &one.to_ranges())).collect();
            if !is_sharded && chunk.iter().product::<u64>() < 5_000 {
                let found = fixed(decoder.partial_decode(&boxes, &options).unwrap());
                assert_eq!(found, expected, "case {number}: two boxes of a chunk");
            }
        }
        // Beyond the chunk. (Shards of zarrs do not expect that.)
        if !is_sharded {
            let outside: Vec<_> = chunk.iter().map(|&n| n..n + 1).collect();
            decoder.partial_decode(&ArraySubset::new_with_ranges(&outside), &options).unwrap_err();
            let flat = ArraySubset::new_with_shape(vec![1; chunk.len() + 1]);
            decoder.partial_decode(&flat, &options).unwrap_err();
        }
    }
    assert_eq!(nparts, 360);
}

#[cfg(feature = "pco")]
#[test]
fn pcodec_is_read_whole_and_in_parts() {
    let store = Arc::new(CountingStore::default());
    let mut builder = ArrayBuilder::new(vec![60, 50], vec![30, 50], data_type::float32(), 0.0f32);
    let codec = B2ndCodec::new().codec("pco").filters::<Filter>([]).blocks([10, 10]);
    builder.array_to_bytes_codec(Arc::new(codec));
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    let items: Vec<u8> = (0..3000).flat_map(|at| (at as f32 / 10.0).round().to_ne_bytes()).collect();
    let whole = ArraySubset::new_with_shape(vec![60, 50]);
    array.store_array_subset(&whole, ArrayBytes::new_flen(items.clone())).unwrap();
    let array = Array::open(store, "/a").unwrap();
    assert_eq!(fixed(array.retrieve_array_subset::<ArrayBytes>(&whole).unwrap()), items);
    let ranges = [25..44, 3..9];
    let part = array.retrieve_array_subset::<ArrayBytes>(&ArraySubset::new_with_ranges(&ranges)).unwrap();
    assert_eq!(fixed(part), cut(&items, 4, &[60, 50], &ranges));
}

#[test]
fn parts_are_written() {
    for number in 0..15 {
        let RandomArray { array, lengths, itemsize, mut items, .. } = case(73, number);
        let mut rng = Rng::case(74, number);
        for _ in 0..3 {
            let ranges = a_box(&mut rng, &lengths);
            let subset = ArraySubset::new_with_ranges(&ranges);
            let mut new = rng.bytes(subset.num_elements_usize() * itemsize);
            if *array.data_type().name_v3().unwrap() == *"bool" {
                new.iter_mut().for_each(|item| *item &= 1);
            }
            array.store_array_subset(&subset, ArrayBytes::new_flen(new.clone())).unwrap();
            for (position, new) in subset.indices().into_iter().zip(new.chunks(itemsize)) {
                let flat =
                    position.iter().zip(&lengths).fold(0, |flat, (at, length)| flat * length + at) as usize;
                items[flat * itemsize..(flat + 1) * itemsize].copy_from_slice(new);
            }
        }
        let found = array.retrieve_array_subset::<ArrayBytes>(&ArraySubset::new_with_shape(lengths)).unwrap();
        assert_eq!(fixed(found), items, "case {number}");
    }
}
