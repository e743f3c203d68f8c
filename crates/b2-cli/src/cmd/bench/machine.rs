//! The machine form: one operation after the other on chunks of a raw file, one line of JSON each, so that other
//! programs can be measured beside this one.
//!
//! What is timed: every chunk goes through [`Chunk`] on its own, into buffers that are there (and paged in)
//! before. One thread is plain calls; more are a pool of which this thread is one.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::chunk::{EXTENDED_HEADER_LEN, MAX_CHUNK_NBYTES};
use b2kit::{CParams, Chunk, CodecId, DParams, Destination, FilterId, FilterSlot};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::args::Global;
use crate::error::Trouble;
use crate::output::Output;
use crate::pump::resize;
use crate::values::{Codec, parse_codec, parse_size};

use super::clock::{Clock, Spent};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "One measurement, for machines")]
#[group(skip)]
pub(super) struct Args {
    /// Measure on this file, taken as raw bytes
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Bytes per item
    #[arg(long, value_name = "N", default_value = "1")]
    typesize: NonZeroUsize,
    /// blosclz, lz4, lz4hc, zlib, zstd
    #[arg(long, value_name = "NAME", value_parser = one_codec, default_value = "blosclz")]
    codec: CodecId,
    /// 0 (store) to 9 (smallest)
    #[arg(long, value_name = "0..9", value_parser = clap::value_parser!(u8).range(0..=9), default_value_t = 5)]
    clevel: u8,
    /// The filters before the codec
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Pipeline::Shuffle)]
    filter: Pipeline,
    /// What to measure, in this order
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_values_t = [Op::Compress, Op::Decompress])]
    op: Vec<Op>,
    /// Measure each operation up to R times
    #[arg(long, value_name = "R", default_value = "5")]
    repeat: NonZeroUsize,
    /// Stop repeating an operation after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1e9, hide_default_value = true)]
    budget: f64,
    /// Uncompressed bytes per chunk
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "4M")]
    chunk: u64,
    /// Uncompressed bytes per block; 0: automatic
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    blocksize: u64,
    /// Take only the first bytes of the file
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    limit: Option<u64>,
    /// Items per call of getitem
    #[arg(long, value_name = "N", default_value = "1")]
    nitems: NonZeroUsize,
    /// Calls of getitem
    #[arg(long, value_name = "N", default_value = "20000")]
    calls: NonZeroUsize,
    /// Bits that truncprec keeps [default: 10, and 20 for items of 8 bytes]
    #[arg(long, value_name = "N")]
    truncbits: Option<u8>,
    /// Where decompress writes: through a large buffer, or always to the same place
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Dest::Stream)]
    dest: Dest,
}

/// A codec by name; none is chosen here.
fn one_codec(name: &str) -> Result<CodecId, String> {
    match parse_codec(name)? {
        Codec::Id(codec) => Ok(codec),
        Codec::Auto => Err("which one is to be measured?".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Pipeline {
    Nofilter,
    Shuffle,
    Bitshuffle,
    #[value(name = "delta+shuffle")]
    DeltaShuffle,
    /// Loses precision
    #[value(name = "truncprec+shuffle")]
    TruncprecShuffle,
}

impl Pipeline {
    fn slots(self, truncbits: u8) -> Vec<FilterSlot> {
        match self {
            Self::Nofilter => vec![],
            Self::Shuffle => vec![FilterSlot::SHUFFLE],
            Self::Bitshuffle => vec![FilterSlot::BITSHUFFLE],
            Self::DeltaShuffle => vec![FilterSlot::new(FilterId::DELTA, 0), FilterSlot::SHUFFLE],
            Self::TruncprecShuffle => {
                vec![FilterSlot::new(FilterId::TRUNC_PREC, truncbits), FilterSlot::SHUFFLE]
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Op {
    Compress,
    Decompress,
    /// Random items
    Getitem,
    /// Random whole blocks
    GetitemBlock,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Dest {
    Stream,
    Reuse,
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(super) fn run(args: &Args, global: Global) -> Result<()> {
    let src = read(&args.input, args.limit, args.typesize.get())
        .with_context(|| args.input.display().to_string())?;
    let threads = match global.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let mut output = Output::create(None, false)?;
    let mut bench = Bench::new(args, threads, src)?;
    for op in &args.op {
        let line = match *op {
            Op::Compress => bench.compress()?,
            Op::Decompress => bench.decompress()?,
            op => bench.getitem(op)?,
        };
        output.send(format!("{line}\n").as_bytes())?;
        output.flush_now()?;
    }
    output.finish()?;
    Ok(())
}

/// Whole items from the start of a file.
fn read(path: &Path, limit: Option<u64>, typesize: usize) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let nbytes = usize::try_from(limit.map_or(len, |limit| limit.min(len)))?;
    let nbytes = nbytes - nbytes % typesize;
    ensure!(nbytes > 0, "there is nothing to measure on");
    let mut bytes = Vec::new();
    resize(&mut bytes, nbytes)?;
    { file }.read_exact(&mut bytes)?;
    Ok(bytes)
}

struct Bench<'a> {
    args: &'a Args,
    threads: usize,
    src: Vec<u8>,
    /// As long as `src`.
    dst: Vec<u8>,
    chunksize: usize,
    cparams: CParams,
    dparams: DParams,
    chunks: Vec<Chunk>,
    /// Where the timed runs compress to.
    buffers: Vec<Vec<u8>>,
}

impl<'a> Bench<'a> {
    /// Compresses once, and verifies.
    fn new(args: &'a Args, threads: usize, src: Vec<u8>) -> Result<Self> {
        // This thread is one of the pool: nothing has to be handed over to the others and waited for.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread();
        pool.build_global().context("--threads")?;
        let typesize = args.typesize.get();
        let chunksize = usize::try_from(args.chunk)?;
        let chunksize = chunksize - chunksize % typesize;
        ensure!(
            (1..=MAX_CHUNK_NBYTES).contains(&chunksize),
            "--chunk: {} bytes, expected {typesize} to {MAX_CHUNK_NBYTES}",
            args.chunk
        );
        let truncbits = args.truncbits.unwrap_or(if typesize == 8 { 20 } else { 10 });
        let cparams = CParams::builder(typesize)
            .codec(args.codec)
            .clevel(args.clevel)
            .filters(args.filter.slots(truncbits))
            .blocksize(usize::try_from(args.blocksize)?)
            .build()?;
        let dst = vec![1; src.len()];
        let dparams = DParams::default().with_destination(match args.dest {
            Dest::Stream => Destination::Streaming,
            Dest::Reuse => Destination::Cached,
        });
        let parts = || src.chunks(chunksize);
        let chunks = parts().map(|part| Chunk::compress(part, &cparams)).collect::<Result<_, _>>()?;
        let buffers = parts().map(|part| vec![1; part.len() + EXTENDED_HEADER_LEN]).collect();
        let mut bench = Self { args, threads, src, dst, chunksize, cparams, dparams, chunks, buffers };
        bench.compress_all()?;
        let same = |(chunk, buffer): (&Chunk, &Vec<u8>)| buffer.starts_with(chunk.as_bytes());
        ensure_same(
            bench.chunks.iter().zip(&bench.buffers).all(same),
            "compressing twice gives other bytes",
        )?;
        bench.decompress_all(Dest::Stream)?;
        ensure_same(bench.lossy() || bench.src == bench.dst, "the round trip gives other bytes")?;
        Ok(bench)
    }

    fn lossy(&self) -> bool {
        self.args.filter == Pipeline::TruncprecShuffle
    }

    fn compress_all(&mut self) -> Result<()> {
        for (part, buffer) in self.src.chunks(self.chunksize).zip(&mut self.buffers) {
            Chunk::compress_into(part, buffer, &self.cparams)?;
        }
        Ok(())
    }

    fn decompress_all(&mut self, dest: Dest) -> Result<()> {
        for (i, chunk) in self.chunks.iter().enumerate() {
            let start = if dest == Dest::Stream { i * self.chunksize } else { 0 };
            chunk.decompress_into(&mut self.dst[start..start + chunk.nbytes()], &self.dparams)?;
        }
        Ok(())
    }

    fn compress(&mut self) -> Result<Value> {
        let times = self.repeat(|bench| {
            let clock = Clock::start();
            bench.compress_all()?;
            Ok(clock.stop())
        })?;
        Ok(self.line(Op::Compress, &times, self.src.len(), self.chunks.len()))
    }

    fn decompress(&mut self) -> Result<Value> {
        let dest = self.args.dest;
        let times = self.repeat(|bench| {
            let clock = Clock::start();
            bench.decompress_all(dest)?;
            Ok(clock.stop())
        })?;
        Ok(self.line(Op::Decompress, &times, self.src.len(), self.chunks.len()))
    }

    fn getitem(&mut self, op: Op) -> Result<Value> {
        let typesize = self.args.typesize.get();
        let calls = self.args.calls.get();
        let (calls, per) = match op {
            Op::GetitemBlock => ((calls / 20).max(1), self.chunks[0].header().blocksize() / typesize),
            _ => (calls, self.args.nitems.get()),
        };
        if let Some((nchunk, item)) = self.wrong_item()? {
            return Ok(json!({
                "impl": "b2kit",
                "op": name(op),
                "error": format!("wrong bytes (chunk {nchunk} item {item})"),
            }));
        }
        let mut bytes = 0;
        let mut items_read = vec![0; per * typesize];
        let times = self.repeat(|bench| {
            let mut random = SplitMix(42);
            let clock = Clock::start();
            let mut done = 0;
            for call in 0..calls {
                let nchunk = random.below(bench.chunks.len());
                let chunk = &bench.chunks[nchunk];
                let items = chunk.nbytes() / typesize;
                let mut start = random.below(items);
                if op == Op::GetitemBlock {
                    start -= start % per;
                }
                let end = items.min(start + per);
                let out = &mut items_read[..(end - start) * typesize];
                chunk.get_bytes_into(start * typesize, out, &bench.dparams)?;
                bytes += out.len();
                done += 1;
                if call % 256 == 255 && clock.wall() > bench.args.budget {
                    break;
                }
            }
            let scale = calls as f64 / f64::from(done);
            let Spent { wall, cpu } = clock.stop();
            Ok(Spent { wall: wall * scale, cpu: cpu * scale })
        })?;
        Ok(self.line(op, &times, bytes / times.len(), calls))
    }

    /// Reads a few items; the place of one that is wrong.
    fn wrong_item(&self) -> Result<Option<(usize, usize)>> {
        let typesize = self.args.typesize.get();
        let mut random = SplitMix(7);
        for _ in 0..if self.lossy() { 0 } else { 64 } {
            let nchunk = random.below(self.chunks.len());
            let chunk = &self.chunks[nchunk];
            let items = chunk.nbytes() / typesize;
            let start = random.below(items);
            let range = start * typesize..items.min(start + 3) * typesize;
            let at = nchunk * self.chunksize;
            if chunk.get_bytes(range.clone(), &self.dparams)? != self.src[at + range.start..at + range.end] {
                return Ok(Some((nchunk, start)));
            }
        }
        Ok(None)
    }

    /// Measures as often as was asked for, at least once.
    fn repeat(&mut self, mut measure: impl FnMut(&mut Self) -> Result<Spent>) -> Result<Vec<Spent>> {
        let mut times = vec![measure(self)?];
        let mut spent = times[0].wall;
        while times.len() < self.args.repeat.get() && spent < self.args.budget {
            let time = measure(self)?;
            spent += time.wall;
            times.push(time);
        }
        Ok(times)
    }

    fn line(&self, op: Op, times: &[Spent], bytes_per_rep: usize, calls: usize) -> Value {
        let seconds: Vec<f64> = times.iter().map(|time| time.wall).collect();
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        json!({
            "impl": "b2kit",
            "version": env!("CARGO_PKG_VERSION"),
            "op": name(op),
            "input": self.args.input.file_name().map(|name| name.to_string_lossy()),
            "codec": self.args.codec.to_string(),
            "clevel": self.args.clevel,
            "filter": name(self.args.filter),
            "typesize": self.args.typesize,
            "threads": self.threads,
            "chunk": self.chunksize,
            "blocksize": self.chunks[0].header().blocksize(),
            "nbytes": self.src.len(),
            "cbytes": self.chunks.iter().map(Chunk::cbytes).sum::<usize>(),
            "bytes_per_rep": bytes_per_rep,
            "calls": calls,
            "repeat": times.len(),
            "median_s": median,
            "min_s": sorted[0],
            "cpu_min_s": times.iter().map(|time| time.cpu).fold(f64::INFINITY, f64::min),
            "seconds": seconds,
        })
    }
}

/// A wrong answer is not a bad file: exit code 2.
fn ensure_same(same: bool, message: &str) -> Result<()> {
    if same { Ok(()) } else { Err(Trouble(anyhow!("{message}")).into()) }
}

/// SplitMix64, so that all programs ask for the same items.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `n` is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
