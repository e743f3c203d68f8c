//! Measures how fast arrays are cut into blocks, relative to `memcpy`. A codec that ignores its input replaces
//! compression.

use std::hint::black_box;

use anyhow::{Result, ensure};
use b2_codecs::{Codec, CodecContext, CodecError, CodecProperties, Decoder, Encoded, Encoder};
use b2_measure::{Clock, least, table};
use b2kit::chunk::{Compression, FilterSlot};
use b2kit::{ArrayBuilder, CodecId, Control, Dtype, Plugins};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds, each of memcpy and all shapes in turn
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Encodes everything as one byte, without reading it.
#[derive(Debug)]
struct OneByteCodec;

impl Codec for OneByteCodec {
    fn id(&self) -> CodecId {
        CodecId(200)
    }
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn properties(&self) -> CodecProperties {
        // Not lossless, so that the library does not check whether all items are equal.
        CodecProperties::BYTES.lossless(false)
    }
    fn encoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(Self))
    }
    fn decoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Err(CodecError::unsupported(self.id(), "decoding"))
    }
}

impl Encoder for OneByteCodec {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        black_box(src);
        Ok(dst.first_mut().map_or(Encoded::TooBig, |byte| {
            *byte = 0;
            Encoded::Len(1)
        }))
    }
}

struct Case {
    itemsize: usize,
    shape: Vec<u64>,
    chunks: Vec<u32>,
    blocks: Vec<u32>,
}

/// Returns arrays of about 64 MB, in chunks and blocks of usual sizes. In the ones with a name, the last chunk and
/// block along some dimensions are shorter and must be padded with zeros.
fn cases() -> Vec<Case> {
    let case = |itemsize, shape: &[u64], chunks: &[u32], blocks: &[u32]| Case {
        itemsize,
        shape: shape.into(),
        chunks: chunks.into(),
        blocks: blocks.into(),
    };
    let mut cases = vec![
        case(4, &[16 << 20], &[1 << 19], &[1 << 15]),
        case(4, &[4096, 4096], &[1024, 512], &[256, 128]),
        case(4, &[4096, 4096], &[4096, 128], &[256, 128]),
        case(4, &[4000, 4000], &[700, 700], &[200, 200]),
        case(4, &[256, 256, 256], &[64, 64, 128], &[32, 32, 32]),
        case(4, &[250, 250, 250], &[64, 64, 128], &[30, 30, 30]),
        case(4, &[64, 64, 64, 64], &[32, 32, 32, 16], &[16, 16, 16, 8]),
        case(4, &[32, 32, 32, 32, 16], &[16, 16, 16, 16, 16], &[8, 8, 8, 8, 8]),
    ];
    // Each block spans all of the last dimensions and half of the one before them.
    for (ndim, len) in [(6, 16), (8, 8), (12, 4), (16, 3)] {
        let shape = vec![len; ndim];
        let mut chunks = vec![1; ndim];
        let mut nitems = 1;
        for chunk in chunks.iter_mut().rev() {
            if nitems * len > 1 << 19 {
                break;
            }
            (*chunk, nitems) = (len as u32, nitems * len);
        }
        let mut blocks = chunks.clone();
        let mut halved = 0;
        for block in blocks.iter_mut().rev().skip(1).filter(|block| **block > 1) {
            if halved < 4 {
                (*block, halved) = (block.div_ceil(2), halved + 1);
            }
        }
        cases.push(case(4, &shape, &chunks, &blocks));
    }
    for itemsize in [1, 2, 3, 8, 16, 24, 100, 300] {
        let block = (128_000.0 / itemsize as f64).cbrt() as u32;
        cases.push(case(itemsize, &[u64::from(block) * 8; 3], &[block * 2; 3], &[block; 3]));
    }
    cases
}

pub(crate) fn run(args: &Args) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global()?;
    let cases = cases();
    let longest = cases.iter().map(Case::nbytes).max().unwrap_or_default();
    let src: Vec<u8> = (0..longest as u64).map(|k| (k.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let mut times = vec![Vec::new(); cases.len() + 1];
    for _ in 0..args.rounds {
        times[0].push(copy(&src));
        for (case, times) in cases.iter().zip(&mut times[1..]) {
            times.push(case.cut(&src)?);
        }
    }
    let memcpy = longest as f64 / least(times[0].iter().copied());
    println!("memcpy, large buffer to 128 KiB: {:.1} GB/s\n", memcpy / 1e9);
    let rows = cases.iter().zip(&times[1..]).map(|(case, times)| {
        let ratio = case.nbytes() as f64 / least(times.iter().copied()) / memcpy;
        let Case { itemsize, shape, chunks, blocks } = case;
        format!("{itemsize} | {} | {} | {} | {ratio:.2}", dims(shape), dims(chunks), dims(blocks))
    });
    print!("{}", table("item | shape | chunks | blocks | of memcpy", rows));
    Ok(())
}

fn dims<T: ToString>(dims: &[T]) -> String {
    dims.iter().map(T::to_string).collect::<Vec<_>>().join(" x ")
}

/// Returns the CPU time of copying all bytes to a buffer of block size, which stays in the cache.
fn copy(src: &[u8]) -> f64 {
    let mut block = vec![0; 128 << 10];
    let clock = Clock::start();
    for part in src.chunks(block.len()) {
        block[..part.len()].copy_from_slice(black_box(part));
        black_box(&mut block);
    }
    clock.stop().cpu
}

impl Case {
    fn nbytes(&self) -> usize {
        self.shape.iter().product::<u64>() as usize * self.itemsize
    }

    /// Returns the CPU time of writing a frame in memory.
    fn cut(&self, src: &[u8]) -> Result<f64> {
        let plugins = Plugins::default().with_codec(OneByteCodec);
        let cparams = Compression::new()
            .itemsize(self.itemsize)
            .codec(CodecId(200))
            .plugins(plugins)
            .filters([] as [FilterSlot; 0]);
        let builder = ArrayBuilder::of_dtype(&self.shape[..], Dtype::parse(&format!("|V{}", self.itemsize))?)
            .chunks(&self.chunks[..])
            .blocks(&self.blocks[..])
            .control(Control::new().threads(1))
            .compression(cparams.build()?);
        let clock = Clock::start();
        let frame = builder.to_bytes(&src[..self.nbytes()])?;
        let spent = clock.stop();
        ensure!(frame.len() < self.nbytes() / 2, "{}: something was stored after all", dims(&self.shape));
        Ok(spent.cpu)
    }
}
