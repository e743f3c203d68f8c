//! Compares the time of C calls with the same calls of the Rust API.

use std::ffi::c_void;

use b2_chunk::{
    CodecId, Compression, Compressor, Control, DParams, Decompressor, FilterId, FilterSlot, SplitMode,
};

use super::chunk::{blosc2_compress_ctx, blosc2_decompress_ctx};
use super::contexts::{blosc2_create_cctx, blosc2_create_dctx, blosc2_free_ctx};
use crate::abi::{blosc2_cparams, blosc2_dparams};

const ROUNDS: usize = 9;

/// A random walk of `f32` in steps of 0.01.
fn walk(bytes: usize) -> Vec<u8> {
    let (mut state, mut at) = (1_u32, 0_i32);
    let values = (0..bytes / 4).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        at += ((state >> 24) as i32 - 128) / 10;
        (at as f32 / 100.0).to_le_bytes()
    });
    values.collect()
}

/// Returns the CPU time of this thread in seconds, which other load disturbs less.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the median ratio of the times of the first and the second function.
fn ratio(mut first: impl FnMut(), mut second: impl FnMut()) -> f64 {
    let seconds = |work: &mut dyn FnMut(), times: usize| {
        let started = now();
        (0..times).for_each(|_| work());
        now() - started
    };
    seconds(&mut first, 1);
    let times = (0.004 / seconds(&mut second, 1).max(1e-7)) as usize + 1;
    let mut ratios: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            // Alternate.
            let early = (round % 2 == 0).then(|| seconds(&mut first, times));
            let other = seconds(&mut second, times);
            early.unwrap_or_else(|| seconds(&mut first, times)) / other
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ROUNDS / 2]
}

/// Returns the time of the C calls relative to the Rust API: compressing, decompressing.
fn cell(data: &[u8], codec: u8, clevel: u8, filter: u8) -> (f64, f64) {
    let mut filters = [0; 6];
    filters[5] = filter;
    let for_c = blosc2_cparams { compcode: codec, clevel, typesize: 4, filters, ..blosc2_cparams::DEFAULT };
    let slots = filters.map(|id| FilterSlot::new(FilterId(id), 0));
    let for_rust = Compression::new().itemsize(4).codec(CodecId(codec)).level(clevel).filters(slots);
    let alone = Control::new().threads(1);
    let cparams = for_rust.splitmode(SplitMode::ForwardCompat).control(alone.clone()).build().unwrap();
    let (mut compressor, mut decompressor) =
        (Compressor::new(cparams), Decompressor::new(DParams::default().control(alone)));
    let (mut one, mut other) = (vec![0; data.len() + 32], vec![0; data.len() + 32]);
    let (len, room) = (data.len() as i32, data.len() as i32 + 32);
    // SAFETY: the parameters have no pointers, and all buffers have the lengths given.
    unsafe {
        let cctx = blosc2_create_cctx(for_c);
        let dctx = blosc2_create_dctx(blosc2_dparams { nthreads: 1, ..blosc2_dparams::DEFAULT });
        let cbytes = blosc2_compress_ctx(cctx, data.as_ptr().cast(), len, one.as_mut_ptr().cast(), room);
        assert_eq!(cbytes, compressor.compress_into(data, &mut other).unwrap() as i32);
        let len_made = cbytes as usize;
        assert!(
            one[..len_made] == other[..len_made],
            "codec {codec}, level {clevel}, filter {filter}: other bytes"
        );
        let to: *mut c_void = one.as_mut_ptr().cast();
        let compress = ratio(
            || assert_eq!(blosc2_compress_ctx(cctx, data.as_ptr().cast(), len, to, room), cbytes),
            || assert_eq!(compressor.compress_into(data, &mut other).unwrap() as i32, cbytes),
        );
        let chunk = other[..len_made].to_vec();
        let mut back = vec![0; data.len()];
        let to: *mut c_void = one.as_mut_ptr().cast();
        let decompress = ratio(
            || assert_eq!(blosc2_decompress_ctx(dctx, chunk.as_ptr().cast(), cbytes, to, len), len),
            || assert_eq!(decompressor.decompress_into(&chunk, &mut back).unwrap() as i32, len),
        );
        assert!(one[..data.len()] == back && back == data);
        blosc2_free_ctx(cctx);
        blosc2_free_ctx(dctx);
        (compress, decompress)
    }
}

#[test]
#[ignore = "a measurement; README.md has the command"]
fn calls_for_c_beside_the_rust_api() {
    println!("time of a call for C divided by that of the Rust API, median of {ROUNDS} rounds");
    let large = walk(2 << 20);
    let mut most = [(0.0, String::new()), (0.0, String::new())];
    let mut note = |what: String, (compress, decompress): (f64, f64)| {
        println!("{what}: compress {compress:.3}, decompress {decompress:.3}");
        for (most, value) in most.iter_mut().zip([compress, decompress]) {
            if value > most.0 {
                *most = (value, what.clone());
            }
        }
    };
    for codec in [0, 1, 4, 5] {
        for clevel in [1, 5, 9] {
            for filter in [0, 1, 2] {
                let what = format!("codec {codec}, level {clevel}, filter {filter}, 2 MiB");
                note(what, cell(&large, codec, clevel, filter));
            }
        }
        for len in [1 << 10, 4 << 10, 16 << 10] {
            note(format!("codec {codec}, level 5, filter 1, {len} bytes"), cell(&large[..len], codec, 5, 1));
        }
    }
    println!("most: compress {} ({:.3}), decompress {} ({:.3})", most[0].1, most[0].0, most[1].1, most[1].0);
}
