//! Whole chunks through filter and codec, with checked results.

use std::hint::black_box;

use b2_benches::{counter_i32, field_f32};
use b2kit::chunk::{Compression, DParams, FilterSlot};
use b2kit::{Chunk, CodecId};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn chunks(c: &mut Criterion) {
    let dparams = DParams::default();
    for (name, data) in [("field_f32", field_f32(1 << 20)), ("counter_i32", counter_i32(1 << 20))] {
        for codec in [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD] {
            for filter in [FilterSlot::SHUFFLE, FilterSlot::BITSHUFFLE] {
                let cparams = Compression::new()
                    .itemsize(4)
                    .codec(codec)
                    .filters([filter])
                    .build()
                    .expect("valid parameters");
                let chunk = Chunk::compress_bytes(&data, &cparams).expect("compressible");
                let mut out = vec![0; data.len()];
                chunk.decompress_bytes_into(&mut out, &dparams).expect("its own output");
                assert!(out == data);
                let ratio = data.len() as f64 / chunk.cbytes() as f64;
                let mut group = c.benchmark_group(format!("{name} {codec} {} (ratio {ratio:.2})", filter.id));
                group.throughput(Throughput::Bytes(data.len() as u64)).sample_size(10);
                group.bench_function("compress", |b| {
                    b.iter(|| Chunk::compress_bytes(black_box(&data), &cparams))
                });
                group.bench_function("decompress", |b| {
                    b.iter(|| black_box(&chunk).decompress_bytes_into(&mut out, &dparams))
                });
                let item = 4 * 123_456..4 * 123_457;
                group.bench_function("one item", |b| {
                    b.iter(|| black_box(&chunk).get_bytes(item.clone(), &dparams))
                });
                group.finish();
            }
        }
    }
}

criterion_group!(benches, chunks);
criterion_main!(benches);
