//! Measures boxes of 32^3 items: `b2kit.b2nd` with blocks of 32^3, compared with zarrs' sharding with inner chunks of
//! 32^3.
//!
//! ```sh
//! cargo run --release --example boxes
//! ```
//!
//! float32 data with noise, (512, 256, 256) in chunks of 256^3, in a folder. The variants alternate. Prints bytes and
//! requests of a box, and the median and the best of the times, local and with 20 ms for each round of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{ShardingCodecBuilder, ZstdCodec};
use zarrs::array::{Array, ArrayBuilder, ArraySubset, data_type};
use zarrs::filesystem::FilesystemStore;
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::{
    MaybeBytes, MaybeBytesIterator, ReadableStorageTraits, ReadableWritableStorage, StorageError, StoreKey,
};
use zarrs_b2nd::{B2ndCodec, Blosc2Codec};

const SHAPE: [u64; 3] = [512, 256, 256];
const CHUNK: [u64; 3] = [256; 3];
const BOX: u64 = 32;
const TURNS: usize = 40;

/// A folder that counts requests and optionally delays each by 20 ms.
struct CountingFolder {
    inner: FilesystemStore,
    bytes: AtomicUsize,
    rounds: AtomicUsize,
    is_remote: AtomicBool,
}

impl CountingFolder {
    fn wait(&self) {
        self.rounds.fetch_add(1, Relaxed);
        if self.is_remote.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl ReadableStorageTraits for CountingFolder {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        self.wait();
        let found = self.inner.get(key)?;
        self.bytes.fetch_add(found.as_ref().map_or(0, |found| found.len()), Relaxed);
        Ok(found)
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        self.wait();
        let parts = self.inner.get_partial_many(key, byte_ranges)?;
        let count = |part: &Result<_, _>| {
            let len = part.as_ref().map_or(0, |part: &zarrs::storage::Bytes| part.len());
            self.bytes.fetch_add(len, Relaxed);
        };
        Ok(parts.map(|parts| Box::new(parts.inspect(count)) as Box<_>))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

/// Smooth data with noise, as in `crates/bindings/b2-python/benches/zarr_boxes.py`.
fn field() -> Vec<f32> {
    let mut state = 5u64;
    let mut noise = || {
        // A sum of uniform numbers is nearly normally distributed.
        let mut sum = 0.0f32;
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
        }
        sum * 1.4e-3
    };
    let wave: Vec<Vec<f32>> = SHAPE
        .iter()
        .enumerate()
        .map(|(dim, &n)| (0..n).map(|at| (at as f32 * 3.0 / (n - 1) as f32 + dim as f32).sin()).collect())
        .collect();
    let mut items = Vec::with_capacity(SHAPE.iter().product::<u64>() as usize);
    for x in &wave[0] {
        for y in &wave[1] {
            items.extend(wave[2].iter().map(|z| x + y + z + noise()));
        }
    }
    items
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store: ReadableWritableStorage = Arc::new(FilesystemStore::new(folder.path())?);
    let items = field();
    let inner = vec![BOX.try_into()?; 3];
    let float = data_type::float32();
    let mut zstd = ShardingCodecBuilder::new(inner.clone(), &float);
    zstd.bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(5, false))]);
    let mut blosc2 = ShardingCodecBuilder::new(inner, &float);
    blosc2.bytes_to_bytes_codecs(vec![Arc::new(Blosc2Codec::new().typesize(4))]);
    let variants: [(&str, Arc<dyn ArrayToBytesCodecTraits>); 3] = [
        ("sharding, zstd", zstd.build_arc()),
        ("sharding, Blosc2 (zstd, shuffle)", blosc2.build_arc()),
        ("b2kit.b2nd (zstd, shuffle)", Arc::new(B2ndCodec::new().blocks([BOX as u32; 3]))),
    ];
    let mut arrays = Vec::new();
    let counted = Arc::new(CountingFolder {
        inner: FilesystemStore::new(folder.path())?,
        bytes: AtomicUsize::new(0),
        rounds: AtomicUsize::new(0),
        is_remote: AtomicBool::new(false),
    });
    for (n, (name, codec)) in variants.into_iter().enumerate() {
        let path = format!("/{n}");
        let mut builder = ArrayBuilder::new(SHAPE.to_vec(), CHUNK.to_vec(), float.clone(), 0.0f32);
        let array = builder.array_to_bytes_codec(codec).build(store.clone(), &path)?;
        array.store_metadata()?;
        array.store_array_subset(&ArraySubset::new_with_shape(SHAPE.to_vec()), &items)?;
        arrays.push((name, Array::open(counted.clone(), &path)?));
    }
    let starts: [(&str, [u64; 3]); 2] = [("aligned box", [64, 96, 128]), ("box anywhere", [75, 101, 139])];
    for (what, start) in starts {
        let ranges = start.map(|start| start..start + BOX);
        let cut = ArraySubset::new_with_ranges(&ranges);
        for is_remote in [false, true] {
            counted.is_remote.store(is_remote, Relaxed);
            let mut times = vec![Vec::new(); arrays.len()];
            let mut costs = vec![(0, 0); arrays.len()];
            let mut first: Option<Vec<f32>> = None;
            for _ in 0..TURNS {
                for (n, (_, array)) in arrays.iter().enumerate() {
                    counted.bytes.store(0, Relaxed);
                    counted.rounds.store(0, Relaxed);
                    let begin = Instant::now();
                    let found: Vec<f32> = array.retrieve_array_subset(&cut)?;
                    times[n].push(begin.elapsed());
                    costs[n] = (counted.bytes.load(Relaxed), counted.rounds.load(Relaxed));
                    assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
                }
            }
            let place = if is_remote { "20 ms" } else { "local" };
            for (n, (name, _)) in arrays.iter().enumerate() {
                times[n].sort();
                let (median, best) = (times[n][TURNS / 2], times[n][0]);
                let (bytes, rounds) = costs[n];
                println!(
                    "{what}, {place}: {name}: {bytes} bytes, {rounds} calls, median {median:.2?}, best {best:.2?}"
                );
            }
        }
    }
    Ok(())
}
