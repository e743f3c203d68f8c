//! Filter kernels on one block that stays in cache.

use std::hint::black_box;

use b2_benches::field_f32;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn kernels(c: &mut Criterion) {
    let src = field_f32(32 * 1024);
    let mut dst = vec![0; src.len()];
    for typesize in [2, 3, 4, 8, 12, 16] {
        let mut group = c.benchmark_group(format!("typesize {typesize}"));
        group.throughput(Throughput::Bytes(src.len() as u64));
        group.bench_function("shuffle", |b| {
            b.iter(|| b2_filters::shuffle(typesize, black_box(&src), &mut dst))
        });
        group.bench_function("unshuffle", |b| {
            b.iter(|| b2_filters::unshuffle(typesize, black_box(&src), &mut dst))
        });
        group.bench_function("bitshuffle", |b| {
            b.iter(|| b2_filters::bitshuffle(typesize, black_box(&src), &mut dst))
        });
        group.bench_function("bitunshuffle", |b| {
            b.iter(|| b2_filters::bitunshuffle(typesize, black_box(&src), &mut dst))
        });
        group.finish();
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
