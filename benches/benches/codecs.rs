//! Codecs on streams as in shuffled blocks: the bytes of one significance, from easy to hard.

use std::hint::black_box;

use b2_benches::{counter_i32, field_f32};
use b2_codecs::{CodecContext, Encoded, builtin};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// One stream for each byte of the items, and all of them in one.
fn streams() -> Vec<(String, Vec<u8>)> {
    let mut streams = Vec::new();
    for (name, data) in [("counter_i32", counter_i32(64 * 1024)), ("field_f32", field_f32(64 * 1024))] {
        for byte in 0..4 {
            let stream: Vec<u8> = data.iter().copied().skip(byte).step_by(4).collect();
            streams.push((format!("{name} byte {byte}"), stream));
        }
        let mut whole = vec![0; data.len()];
        b2_filters::bitshuffle(4, &data, &mut whole).expect("whole items");
        streams.push((format!("{name} bitshuffled"), whole));
    }
    streams
}

fn codecs(c: &mut Criterion) {
    for (name, plain) in streams() {
        for codec in builtin() {
            for clevel in [1, 5, 9] {
                let cx = CodecContext::new(clevel);
                let (Ok(mut encoder), Ok(mut decoder)) = (codec.encoder(&cx), codec.decoder(&cx)) else {
                    continue;
                };
                let mut packed = vec![0; plain.len()];
                // Incompressible streams are stored.
                let Ok(Encoded::Len(len)) = encoder.encode(&plain, &mut packed) else { continue };
                let mut back = vec![0; plain.len()];
                decoder.decode(&packed[..len], &mut back).expect("its own output");
                assert!(back == plain);
                let ratio = plain.len() as f64 / len as f64;
                let mut group =
                    c.benchmark_group(format!("{} {clevel}, {name} (ratio {ratio:.2})", codec.name()));
                group.throughput(Throughput::Bytes(plain.len() as u64)).sample_size(10);
                let mut room = vec![0; plain.len()];
                group.bench_function("encode", |b| b.iter(|| encoder.encode(black_box(&plain), &mut room)));
                group.bench_function("decode", |b| {
                    b.iter(|| decoder.decode(black_box(&packed[..len]), &mut back))
                });
                group.bench_function("decode the first sixteenth", |b| {
                    let part = &mut back[..plain.len() / 16];
                    b.iter(|| decoder.decode_start(black_box(&packed[..len]), part, plain.len()))
                });
                group.finish();
            }
        }
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
