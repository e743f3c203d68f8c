//! The cost of partial reads in bytes and rounds.

use std::sync::Arc;

use futures::executor::block_on;
use zarrs::array::codec::{ShardingCodecBuilder, ZstdCodec};
use zarrs::array::{Array, ArrayBuilder, ArraySubset, data_type};
use zarrs::storage::ReadableStorageTraits;
use zarrs_b2nd::B2ndCodec;

use crate::store::{CountingStore, asynchronous, shape};

const N: u64 = 96;

/// Smooth data with noise.
pub(crate) fn field(n: u64) -> Vec<f32> {
    let mut rng = b2_testkit::Rng::new(5);
    let wave = |at: u64| (at as f32 * 3.0 / n as f32).sin();
    let mut items = Vec::new();
    for at in 0..n * n * n {
        let (x, y, z) = (at / n / n, at / n % n, at % n);
        let noise = (rng.below(1000) as f32 - 500.0) * 2e-6;
        items.push(wave(x) + wave(y) + wave(z) + noise);
    }
    items
}

fn store() -> Arc<CountingStore> {
    let store = Arc::new(CountingStore::default());
    let build = |name: &str, codec| {
        let mut builder = ArrayBuilder::new(vec![N; 3], vec![N; 3], data_type::float32(), 0.0f32);
        let array = builder.array_to_bytes_codec(codec).build(store.clone(), name).unwrap();
        array.store_metadata().unwrap();
        array.store_chunk(&[0, 0, 0], field(N)).unwrap();
    };
    build("/b2nd", Arc::new(B2ndCodec::new().blocks([16, 16, 16])));
    let mut sharding = ShardingCodecBuilder::new(shape(&[16; 3]), &data_type::float32());
    sharding.bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(5, false))]);
    build("/sharding", sharding.build_arc());
    store
}

#[test]
fn a_box_costs_two_rounds_and_its_blocks() {
    let store = store();
    let items = field(N);
    let cut = ArraySubset::new_with_ranges(&[16..32, 32..48, 64..80]);
    let expected: Vec<f32> =
        cut.indices().into_iter().map(|at| items[((at[0] * N + at[1]) * N + at[2]) as usize]).collect();
    let read = |name: &str| {
        let array = Array::open(store.clone(), name).unwrap();
        store.take();
        let found: Vec<f32> = array.retrieve_array_subset(&cut).unwrap();
        assert_eq!(found, expected);
        store.take()
    };
    let (ours, theirs) = (read("/b2nd"), read("/sharding"));
    assert_eq!(ours.rounds, 2, "{ours:?}");
    assert!(ours.ranges.len() <= 3, "{ours:?}");
    // Head and end of 4 KiB each, and coalesced reads of blocks of 16 KiB.
    assert!(ours.bytes <= 8192 + 2 * 16384, "{ours:?}");
    println!("a box: {} bytes, sharding {}", ours.bytes, theirs.bytes);

    // The same asynchronously.
    let array = block_on(Array::async_open(asynchronous(&store), "/b2nd")).unwrap();
    store.take();
    let found: Vec<f32> = block_on(array.async_retrieve_array_subset(&cut)).unwrap();
    assert_eq!(found, expected);
    let again = store.take();
    // Head and end in separate rounds.
    assert_eq!(again.rounds, 3);
    assert!(again.bytes <= ours.bytes, "{again:?}");
}

#[test]
fn a_kept_decoder_fetches_only_blocks() {
    let store = store();
    let array = Array::open(store.clone(), "/b2nd").unwrap();
    let decoder = array.partial_decoder(&[0, 0, 0]).unwrap();
    let options = Default::default();
    let read = |start: u64| {
        let cut = ArraySubset::new_with_ranges(&[start..start + 1, 0..1, 0..1]);
        store.take();
        decoder.partial_decode(&cut, &options).unwrap();
        store.take().rounds
    };
    assert_eq!((read(0), read(40), read(80)), (2, 1, 1));
    assert!(decoder.size_held() >= 8192);
}

#[test]
fn a_whole_chunk_is_one_request() {
    let store = store();
    let array = Array::open(store.clone(), "/b2nd").unwrap();
    store.take();
    let decoder = array.partial_decoder(&[0, 0, 0]).unwrap();
    decoder.partial_decode(&ArraySubset::new_with_shape(vec![N; 3]), &Default::default()).unwrap();
    let whole = store.take();
    assert_eq!((whole.rounds, whole.ranges.len()), (1, 1));
}

#[test]
fn a_small_chunk_is_one_request_and_a_missing_one_none_more() {
    let store = Arc::new(CountingStore::default());
    let mut builder = ArrayBuilder::new(vec![200], vec![100], data_type::int16(), -7i16);
    let array = builder.array_to_bytes_codec(Arc::new(B2ndCodec::new())).build(store.clone(), "/a").unwrap();
    array.store_chunk(&[0], (0..100i16).collect::<Vec<_>>()).unwrap();
    store.take();
    let found: Vec<i16> =
        array.retrieve_array_subset(&ArraySubset::new_with_ranges(std::slice::from_ref(&(98..102)))).unwrap();
    assert_eq!(found, [98, 99, -7, -7]);
    assert_eq!(store.take().rounds, 2);
}

#[test]
fn inner_chunks_of_shards_are_read_in_parts() {
    let store = Arc::new(CountingStore::default());
    let codec = Arc::new(B2ndCodec::new().blocks([16, 16, 16]));
    let inner = ShardingCodecBuilder::new(shape(&[N / 2; 3]), &data_type::float32())
        .array_to_bytes_codec(codec)
        .build_arc();
    let mut builder = ArrayBuilder::new(vec![N; 3], vec![N; 3], data_type::float32(), 0.0f32);
    let array = builder.array_to_bytes_codec(inner).build(store.clone(), "/a").unwrap();
    let items = field(N);
    array.store_chunk(&[0, 0, 0], items.clone()).unwrap();
    let size = store.inner.size_key(&array.chunk_key(&[0, 0, 0])).unwrap().unwrap();
    store.take();
    let found: Vec<f32> =
        array.retrieve_array_subset(&ArraySubset::new_with_ranges(&[50..51, 50..51, 50..51])).unwrap();
    assert_eq!(found, [items[((50 * N + 50) * N + 50) as usize]]);
    let counts = store.take();
    // The index of the shard, then head, end and block of the inner chunk, whose length is unknown.
    assert_eq!(counts.rounds, 4, "{counts:?}");
    assert!((counts.bytes as u64) < size / 20, "{counts:?} of {size}");
}
