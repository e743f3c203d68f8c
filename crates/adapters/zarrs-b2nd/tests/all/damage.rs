//! Damaged and hostile chunks are errors: reads never return anything other than what was written.

use std::sync::Arc;

use b2_testkit::Rng;
use b2_testkit::hostile::{Walk, flipped};
use futures::executor::block_on;
use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, data_type};
use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::{ReadableStorageTraits, StoreKey, WritableStorageTraits};
use zarrs_b2nd::{B2ndCodec, Blosc2Codec};

use crate::store::{CountingStore, asynchronous, fixed};

/// 80 KB of items: too large to be fetched whole.
const SHAPE: [u64; 2] = [200, 100];

struct DamagedChunk {
    store: Arc<CountingStore>,
    array: Array<CountingStore>,
    key: StoreKey,
    good: Vec<u8>,
    items: Vec<u8>,
}

fn victim(blosc2: bool) -> DamagedChunk {
    let store = Arc::new(CountingStore::default());
    let mut builder = ArrayBuilder::new(SHAPE.to_vec(), SHAPE.to_vec(), data_type::float32(), 0.0f32);
    match blosc2 {
        true => builder.bytes_to_bytes_codecs(vec![Arc::new(Blosc2Codec::new().typesize(4))]),
        false => builder.array_to_bytes_codec(Arc::new(B2ndCodec::new().blocks([30, 40]))),
    };
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    let mut rng = Rng::new(3);
    let items: Vec<f32> =
        (0..20_000).map(|at| (at as f32 * 0.01).sin() + rng.below(100) as f32 * 1e-4).collect();
    let items: Vec<u8> = items.iter().flat_map(|item| item.to_ne_bytes()).collect();
    array.store_chunk(&[0, 0], ArrayBytes::new_flen(items.clone())).unwrap();
    let key = array.chunk_key(&[0, 0]);
    let good = store.inner.get(&key).unwrap().unwrap().to_vec();
    DamagedChunk { store, array, key, good, items }
}

/// Outcomes of reading a damaged chunk.
#[derive(Default, Debug)]
struct ReadOutcomes {
    errors: usize,
    same: usize,
    other: usize,
}

impl DamagedChunk {
    /// Reads a chunk with other bytes: all of it and a part, through both interfaces.
    fn read(&self, bytes: &[u8], seen: &mut ReadOutcomes) {
        self.store.set(&self.key, bytes.to_vec().into()).unwrap();
        self.store.take();
        let ranges = [90..130, 35..95];
        let part = ArraySubset::new_with_ranges(&ranges);
        let expected = crate::store::cut(&self.items, 4, &SHAPE, &ranges);
        let whole = ArraySubset::new_with_shape(SHAPE.to_vec());
        let asynchronous = block_on(Array::async_open(asynchronous(&self.store), "/a")).unwrap();
        let mut note = |found: Option<Vec<u8>>, expected: &[u8]| match found {
            None => seen.errors += 1,
            Some(found) if found == expected => seen.same += 1,
            Some(found) => {
                assert_eq!(found.len(), expected.len());
                seen.other += 1;
            }
        };
        note(self.array.retrieve_array_subset::<ArrayBytes>(&whole).ok().map(fixed), &self.items);
        note(self.array.retrieve_array_subset::<ArrayBytes>(&part).ok().map(fixed), &expected);
        note(
            block_on(asynchronous.async_retrieve_array_subset::<ArrayBytes>(&part)).ok().map(fixed),
            &expected,
        );
        // No request exceeds the maximum size of such a chunk.
        for range in self.store.take().ranges {
            let end = match range {
                ByteRange::FromStart(start, len) => start + len.unwrap_or(0),
                ByteRange::Suffix(len) => len,
            };
            assert!(end <= (17 << 20) + 4 * 80_000, "{range:?}");
        }
    }
}

#[test]
fn flipped_bits_are_errors_or_change_nothing() {
    let victim = victim(false);
    let (mut rng, mut seen) = (Rng::new(11), ReadOutcomes::default());
    for _ in 0..500 {
        let bit = rng.below(victim.good.len() * 8);
        victim.read(&flipped(&victim.good, bit), &mut seen);
    }
    // The checksums are verified, so no other values are returned.
    assert_eq!(seen.other, 0, "{seen:?}");
    assert!(seen.errors > 600 && seen.same > 0, "{seen:?}");
}

#[test]
fn short_chunks_are_errors() {
    let victim = victim(false);
    let mut seen = ReadOutcomes::default();
    let len = victim.good.len();
    let lengths = (0..300).chain((300..len).step_by(97)).chain([4095, 4096, 4097, len - 1]);
    let count = lengths.clone().count();
    for cut in lengths {
        victim.read(&victim.good[..cut], &mut seen);
    }
    assert_eq!((seen.errors, seen.same, seen.other), (3 * count, 0, 0));
}

#[test]
fn hostile_numbers_are_errors_within_limits() {
    let victim = victim(false);
    let numbers = Walk::numbers(&victim.good, |walk| drop(walk.frame().unwrap()));
    let (mut rng, mut seen) = (Rng::new(13), ReadOutcomes::default());
    assert!(numbers.len() > 80);
    for number in &numbers {
        for _ in 0..4 {
            let mut bytes = victim.good.clone();
            number.damage(rng.next() as u32 % number.nvalues(), &mut bytes, &numbers, &mut rng);
            victim.read(&bytes, &mut seen);
        }
    }
    assert!(seen.errors > numbers.len() * 4, "{seen:?}");
}

#[test]
fn frames_of_other_shapes_and_types_are_errors() {
    let victim = victim(false);
    let builder = |shape: [u64; 2], dtype: &str| {
        let dtype = b2nd::Dtype::parse(dtype).unwrap();
        b2nd::ArrayBuilder::of_dtype(shape, dtype)
    };
    let zeros = |builder: b2nd::ArrayBuilder| builder.to_bytes(b2nd::source::zeros()).unwrap();
    for (frame, what) in [
        (zeros(builder([100, 200], "<f4")), "shape"),
        (zeros(builder(SHAPE, "<u4")), "dtype"),
        (zeros(builder(SHAPE, "<f8")), "dtype"),
        (zeros(builder(SHAPE, "[('a', '<u2'), ('b', '<u2')]")), "dtype"),
    ] {
        victim.store.set(&victim.key, frame.to_vec().into()).unwrap();
        for ranges in [[0..200, 0..100], [3..4, 5..6]] {
            let error =
                victim.array.retrieve_array_subset::<ArrayBytes>(&ArraySubset::new_with_ranges(&ranges));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(what), "{what}: {error}");
        }
    }
    // Opaque items, swapped byte order, several chunks.
    let swapped: Vec<u8> = victim.items.chunks(4).flat_map(|item| item.iter().rev().copied()).collect();
    let other = if cfg!(target_endian = "big") { "<f4" } else { ">f4" };
    for frame in [
        builder(SHAPE, "|V4").to_bytes(&victim.items[..]).unwrap(),
        builder(SHAPE, other).to_bytes(&swapped[..]).unwrap(),
        builder(SHAPE, "<f4").chunks([70, 33]).blocks([20, 33]).to_bytes(&victim.items[..]).unwrap(),
    ] {
        let mut seen = ReadOutcomes::default();
        victim.read(&frame, &mut seen);
        assert_eq!((seen.same, seen.errors, seen.other), (3, 0, 0));
    }
}

#[test]
fn damaged_chunks_of_bytes_are_errors_or_bytes() {
    let victim = victim(true);
    let (mut rng, mut seen) = (Rng::new(17), ReadOutcomes::default());
    for _ in 0..300 {
        let most = if rng.chance(50) { 64 } else { victim.good.len() };
        let mut bytes = flipped(&victim.good, rng.below(most * 8));
        if rng.chance(20) {
            bytes.truncate(rng.below(bytes.len()));
        }
        victim.read(&bytes, &mut seen);
    }
    // Such chunks have no checksums.
    assert!(seen.errors > 200, "{seen:?}");
    // A chunk that claims two gigabytes is rejected before allocation.
    let mut bytes = victim.good.clone();
    bytes[4..8].copy_from_slice(&(i32::MAX - 100).to_le_bytes());
    let mut seen = ReadOutcomes::default();
    victim.read(&bytes, &mut seen);
    assert_eq!((seen.errors, seen.same, seen.other), (3, 0, 0));
}
