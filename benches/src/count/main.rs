//! Fixed workloads whose instructions `bench.py count` counts under callgrind. `b2-count-cases NAME` runs
//! one; without a name it lists them. Only what [`counted`](case::counted) calls is counted.
#![forbid(unsafe_code)]

mod arrays;
mod case;

use std::hint::black_box;
use std::process::ExitCode;

use b2_benches::{counter_i32, field_f32};
use b2_codecs::{CodecContext, Encoded};
use b2kit::chunk::{Compression, DParams, FilterSlot};
use b2kit::{Chunk, CodecId, Plugins};
use case::{Case, Error, counted};

type Kernel = fn(usize, &[u8], &mut [u8]) -> Result<(), b2_filters::FilterError>;

const BLOCK: usize = 32 * 1024;
const CHUNK_ITEMS: usize = 96 * 1024;

fn cases() -> Vec<(String, Case)> {
    let mut cases: Vec<(String, Case)> = Vec::new();
    let mut add = |name: String, case: Case| cases.push((name, case));
    let kernels: [(&str, Kernel); 4] = [
        ("shuffle", b2_filters::shuffle),
        ("unshuffle", b2_filters::unshuffle),
        ("bitshuffle", b2_filters::bitshuffle),
        ("bitunshuffle", b2_filters::bitunshuffle),
    ];
    for (name, kernel) in kernels {
        for typesize in [2, 4, 7, 8, 12] {
            add(format!("{name}-{typesize}"), Box::new(move || kernel_case(typesize, kernel)));
        }
    }
    for codec in [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB] {
        add(format!("{codec}-encode"), Box::new(move || stream_case(codec, true)));
        add(format!("{codec}-decode"), Box::new(move || stream_case(codec, false)));
    }
    for (codec, filter) in [
        (CodecId::BLOSCLZ, FilterSlot::SHUFFLE),
        (CodecId::LZ4, FilterSlot::SHUFFLE),
        (CodecId::LZ4, FilterSlot::BITSHUFFLE),
    ] {
        for work in ["compress", "decompress", "item"] {
            let name = format!("chunk-{codec}-{}-{work}", filter.id);
            add(name, Box::new(move || chunk_case(codec, filter, work)));
        }
    }
    add("chunks-stored-planes-decompress".into(), Box::new(stored_planes_case));
    cases.extend(arrays::cases());
    cases
}

fn kernel_case(typesize: usize, kernel: Kernel) -> Result<(), Error> {
    let src = field_f32(BLOCK / 4);
    let src = &src[..BLOCK - BLOCK % typesize];
    let mut dst = vec![0; src.len()];
    // An uncounted call first, because it detects the processor's features.
    kernel(typesize, src, &mut dst)?;
    Ok(counted(|| kernel(typesize, black_box(src), &mut dst))?)
}

/// Returns the second byte of each item, which is a separate stream in a shuffled block.
fn plane() -> Vec<u8> {
    counter_i32(2 * BLOCK).into_iter().skip(1).step_by(4).collect()
}

fn stream_case(codec: CodecId, encode: bool) -> Result<(), Error> {
    let plain = plane();
    let codec = Plugins::builtin().codec(codec)?.clone();
    let cx = CodecContext::new(5);
    let (mut encoder, mut decoder) = (codec.encoder(&cx)?, codec.decoder(&cx)?);
    let (mut packed, mut back) = (vec![0; plain.len()], vec![0; plain.len()]);
    let mut pack = || match encoder.encode(black_box(&plain), &mut packed)? {
        Encoded::Len(len) => Ok(len),
        Encoded::TooBig => Err(Error::from("does not compress")),
    };
    // An uncounted call first, because it allocates tables.
    let mut len = pack()?;
    if encode {
        len = counted(pack)?;
    }
    decoder.decode(&packed[..len], &mut back)?;
    if !encode {
        counted(|| decoder.decode(black_box(&packed[..len]), &mut back))?;
    }
    if back != plain { Err("the round trip changed the bytes".into()) } else { Ok(()) }
}

fn chunk_case(codec: CodecId, filter: FilterSlot, work: &str) -> Result<(), Error> {
    let plain = counter_i32(CHUNK_ITEMS);
    let cparams = Compression::new().itemsize(4).codec(codec).filters([filter]).build()?;
    let dparams = DParams::default();
    let chunk = Chunk::compress_bytes(&plain, &cparams)?;
    let mut back = vec![0; plain.len()];
    chunk.decompress_bytes_into(&mut back, &dparams)?;
    if back != plain {
        return Err("the round trip changed the bytes".into());
    }
    match work {
        "compress" => drop(counted(|| Chunk::compress_bytes(black_box(&plain), &cparams))?),
        "decompress" => counted(|| black_box(&chunk).decompress_bytes_into(&mut back, &dparams))?,
        _ => {
            let at = 4 * (CHUNK_ITEMS / 2 + 77);
            let item = counted(|| black_box(&chunk).get_bytes(at..at + 4, &dparams))?;
            if item != plain[at..at + 4] {
                return Err("the wrong item".into());
            }
        }
    }
    Ok(())
}

/// Decompresses 100 chunks of 1 KiB whose streams are noise or runs, so that none needs the codec.
fn stored_planes_case() -> Result<(), Error> {
    let plain: Vec<u8> =
        (0..128u32).flat_map(|n| u64::from(n.wrapping_mul(0x9E37_79B9) >> 24).to_le_bytes()).collect();
    let chunk = Chunk::compress_bytes(&plain, &Compression::lz4().itemsize(8).build()?)?;
    let mut back = vec![0; plain.len()];
    let mut decompress =
        || (0..100).try_for_each(|_| black_box(&chunk).decompress_bytes_into(&mut back, &DParams::default()));
    decompress()?;
    counted(decompress)?;
    if back != plain { Err("the round trip changed the bytes".into()) } else { Ok(()) }
}

fn main() -> ExitCode {
    // Run on a new thread: the main thread's stack starts where the environment ends, and the size of the environment
    // alone changed counts by 0.2 %.
    std::thread::spawn(run).join().unwrap_or(ExitCode::FAILURE)
}

fn run() -> ExitCode {
    let cases = cases();
    let Some(wanted) = std::env::args().nth(1) else {
        cases.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    // With a single thread, the instructions are the same in every run.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    let outcome = match cases.into_iter().find(|(name, _)| *name == wanted) {
        None => Err(format!("no case '{wanted}'").into()),
        Some((_, case)) => pool.build_global().map_err(Error::from).and_then(|()| case()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{wanted}: {error}");
            ExitCode::FAILURE
        }
    }
}
