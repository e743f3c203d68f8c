//! Filters on one block that stays in cache.

use std::hint::black_box;

use b2_benches::field_f32;
use b2_filters::{FilterContext, builtin};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The public functions, at sizes with and without specialized kernels.
fn kernels(c: &mut Criterion) {
    let field = field_f32(32 * 1024);
    let mut dst = vec![0; field.len()];
    for typesize in [1, 2, 3, 4, 7, 8, 12, 16, 24, 32] {
        let src = &field[..field.len() - field.len() % typesize];
        let dst = &mut dst[..src.len()];
        let mut group = c.benchmark_group(format!("{} typesize {typesize}", b2_filters::kernels()));
        group.throughput(Throughput::Bytes(src.len() as u64));
        group.bench_function("shuffle", |b| b.iter(|| b2_filters::shuffle(typesize, black_box(src), dst)));
        group
            .bench_function("unshuffle", |b| b.iter(|| b2_filters::unshuffle(typesize, black_box(src), dst)));
        group.bench_function("bitshuffle", |b| {
            b.iter(|| b2_filters::bitshuffle(typesize, black_box(src), dst))
        });
        group.bench_function("bitunshuffle", |b| {
            b.iter(|| b2_filters::bitunshuffle(typesize, black_box(src), dst))
        });
        group.finish();
    }
}

/// Every built-in filter that takes plain items, both ways, in block 0 and in a later one.
fn filters(c: &mut Criterion) {
    let (src, reference) = (field_f32(32 * 1024), field_f32(64 * 1024).split_off(128 * 1024));
    let mut filtered = vec![0; src.len()];
    let mut dst = vec![0; src.len()];
    for filter in builtin() {
        for (block, reference) in [("block 0", None), ("a later block", Some(&reference[..]))] {
            let cx = FilterContext::new(4).reference(reference);
            // Ten bits of precision; other filters interpret it differently or ignore it.
            let meta = 10;
            if filter.forward(&cx, meta, &src, &mut filtered).is_err() {
                continue;
            }
            let mut group = c.benchmark_group(format!("{}, {block}", filter.name()));
            group.throughput(Throughput::Bytes(src.len() as u64));
            group.bench_function("forward", |b| {
                b.iter(|| filter.forward(&cx, meta, black_box(&src), &mut dst))
            });
            group.bench_function("backward", |b| {
                b.iter(|| filter.backward(&cx, meta, black_box(&filtered), &mut dst))
            });
            group.finish();
            // Only delta uses block 0.
            if filter.id() != b2_filters::FilterId::DELTA {
                break;
            }
        }
    }
}

criterion_group!(benches, kernels, filters);
criterion_main!(benches);
