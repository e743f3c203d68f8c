//! Benchmark with JSON output: runs one operation after the other on chunks of a raw file and prints a line of JSON for
//! each, so that other programs can be compared with this one.
//!
//! Each chunk is compressed or decompressed separately as a [`Chunk`] and timed; buffers are allocated
//! and paged in beforehand; random items are read through one [`ChunkReader`] per chunk. With one thread these are
//! plain calls; with more, a thread pool that includes the calling thread.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use b2_measure::{Clock, SplitMix64, TimeSpent, least, median, repeat};
use b2kit::chunk::{CParams, Compression, DParams, FilterSlot};
use b2kit::chunk::{ChunkReader, Destination, EXTENDED_HEADER_LEN, MAX_CHUNK_NBYTES};
use b2kit::{Chunk, CodecId, FilterId};
use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::args::values::{parse_size, plain_codec_parser};
use crate::files::destination::Output;
use crate::process::pipeline::resize;

use super::common::{BenchOptions, ensure_same, one_codec};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "One measurement, for machines")]
#[group(skip)]
pub(super) struct Args {
    /// Measure on this file, taken as raw bytes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "codecs", "clevels", "filters"])]
    input: Option<PathBuf>,
    /// Codec: blosclz, lz4, lz4hc, zlib or zstd
    #[arg(long, conflicts_with = "files", value_name = "NAME", value_parser = plain_codec_parser(one_codec), hide_possible_values = true, default_value = "blosclz")]
    codec: CodecId,
    /// Level, from 0 (store) to 9 (smallest)
    #[arg(long, conflicts_with = "files", value_name = "0..9", value_parser = clap::value_parser!(u8).range(0..=9), default_value_t = 5)]
    clevel: u8,
    /// Filters before the codec
    #[arg(long, conflicts_with = "files", value_name = "NAME", value_enum, default_value_t = Pipeline::Shuffle)]
    filter: Pipeline,
    /// Operations to measure, in this order
    #[arg(long, conflicts_with = "files", value_name = "LIST", value_enum, value_delimiter = ',', default_values_t = [Op::Compress, Op::Decompress])]
    op: Vec<Op>,
    /// Measure each operation up to R times
    #[arg(long, conflicts_with = "files", value_name = "R", default_value = "5")]
    repeat: NonZeroUsize,
    /// Stop repeating an operation after this many seconds
    #[arg(
        long,
        requires = "input",
        value_name = "SECONDS",
        default_value_t = 1e9,
        hide_default_value = true
    )]
    budget: f64,
    /// Uncompressed bytes per chunk
    #[arg(long, conflicts_with = "files", value_name = "BYTES", value_parser = parse_size, default_value = "4M")]
    chunk: u64,
    /// Uncompressed bytes per block; 0: automatic
    #[arg(long, conflicts_with = "files", value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    blocksize: u64,
    /// Items per call of getitem
    #[arg(long, conflicts_with = "files", value_name = "N", default_value = "1")]
    nitems: NonZeroUsize,
    /// Calls of getitem
    #[arg(long, conflicts_with = "files", value_name = "N", default_value = "20000")]
    calls: NonZeroUsize,
    /// Bits that truncprec keeps [default: 10, and 20 for items of 8 bytes]
    #[arg(long, conflicts_with = "files", value_name = "N")]
    truncbits: Option<u8>,
    /// Where to decompress to: a large buffer, or always the same memory
    #[arg(long, conflicts_with = "files", value_name = "HOW", value_enum, default_value_t = Dest::Stream)]
    dest: Dest,
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

impl Args {
    /// The file to measure on, if `--input` was given.
    pub(super) fn input(&self) -> Option<&Path> {
        self.input.as_deref()
    }
}

pub(super) fn run(args: &Args, input: &Path, common: &BenchOptions) -> Result<()> {
    let typesize = common.typesize.map_or(1, NonZeroUsize::get);
    let src = read(input, common.limit, typesize).with_context(|| input.display().to_string())?;
    let mut output = Output::create(None, false)?;
    let mut bench = Bench::new(args, input, common.threads, typesize, src)?;
    for op in &args.op {
        let line = match *op {
            Op::Compress => bench.whole(*op, Bench::compress_all)?,
            Op::Decompress => bench.whole(*op, |bench| bench.decompress_all(args.dest))?,
            op => bench.getitem(op)?,
        };
        output.send(format!("{line}\n").as_bytes())?;
        output.flush_now()?;
    }
    output.finish()?;
    Ok(())
}

/// Reads whole items from the start of a file.
fn read(path: &Path, limit: Option<u64>, typesize: usize) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let nbytes = usize::try_from(limit.map_or(len, |limit| limit.min(len)))?;
    let nbytes = nbytes - nbytes % typesize;
    ensure!(nbytes > 0, "the file has no data to measure");
    let mut bytes = Vec::new();
    resize(&mut bytes, nbytes)?;
    { file }.read_exact(&mut bytes)?;
    Ok(bytes)
}

struct Bench<'a> {
    args: &'a Args,
    input: &'a Path,
    threads: usize,
    typesize: usize,
    src: Vec<u8>,
    /// Output buffer, as long as `src`.
    dst: Vec<u8>,
    chunksize: usize,
    cparams: CParams,
    dparams: DParams,
    /// For each chunk, a buffer for the compressed bytes and how many of them are used.
    packed: Vec<(Vec<u8>, usize)>,
    /// The compressed chunks, parsed for reading.
    chunks: Vec<Chunk>,
}

impl<'a> Bench<'a> {
    /// Compresses and decompresses once, and verifies the result.
    fn new(args: &'a Args, input: &'a Path, threads: usize, typesize: usize, src: Vec<u8>) -> Result<Self> {
        let chunksize = usize::try_from(args.chunk)?;
        let chunksize = chunksize - chunksize % typesize;
        ensure!(
            (1..=MAX_CHUNK_NBYTES).contains(&chunksize),
            "--chunk: {} bytes, expected {typesize} to {MAX_CHUNK_NBYTES}",
            args.chunk
        );
        let truncbits = args.truncbits.unwrap_or(if typesize == 8 { 20 } else { 10 });
        let cparams = Compression::new()
            .itemsize(typesize)
            .codec(args.codec)
            .level(args.clevel)
            .filters(args.filter.slots(truncbits))
            .blocksize(usize::try_from(args.blocksize)?)
            .build()?;
        let dst = vec![1; src.len()];
        let room = |part: &[u8]| (vec![1; part.len() + EXTENDED_HEADER_LEN], 0);
        let packed = src.chunks(chunksize).map(room).collect();
        let dparams = DParams::default().destination(match args.dest {
            // Each chunk has its own part of the output, which exceeds the caches if the data do.
            Dest::Stream if src.len() > CACHES => Destination::Streaming,
            Dest::Stream => Destination::Auto,
            Dest::Reuse => Destination::Cached,
        });
        let mut bench = Self {
            args,
            input,
            threads,
            typesize,
            src,
            dst,
            chunksize,
            cparams,
            dparams,
            packed,
            chunks: vec![],
        };
        bench.compress_all()?;
        let chunk = |(room, len): &(Vec<u8>, usize)| Chunk::from_bytes(Bytes::copy_from_slice(&room[..*len]));
        bench.chunks = bench.packed.iter().map(chunk).collect::<Result<_, _>>()?;
        bench.decompress_all(Dest::Stream)?;
        ensure_same(bench.lossy() || bench.src == bench.dst, "the round trip changed the bytes")?;
        Ok(bench)
    }

    fn lossy(&self) -> bool {
        self.args.filter == Pipeline::TruncprecShuffle
    }

    fn compress_all(&mut self) -> Result<()> {
        for (part, (room, len)) in self.src.chunks(self.chunksize).zip(&mut self.packed) {
            *len = Chunk::compress_bytes_into(part, room, &self.cparams)?;
        }
        Ok(())
    }

    fn decompress_all(&mut self, dest: Dest) -> Result<()> {
        for (i, chunk) in self.chunks.iter().enumerate() {
            let start = if dest == Dest::Stream { i * self.chunksize } else { 0 };
            chunk.decompress_bytes_into(&mut self.dst[start..start + chunk.nbytes()], &self.dparams)?;
        }
        Ok(())
    }

    /// Measures work on all chunks.
    fn whole(&mut self, op: Op, work: impl Fn(&mut Self) -> Result<()>) -> Result<Value> {
        let times = self.repeat(|bench, clock| {
            work(bench)?;
            Ok(clock.stop())
        })?;
        Ok(self.line(op, &times, self.src.len(), self.chunks.len()))
    }

    fn getitem(&mut self, op: Op) -> Result<Value> {
        let typesize = self.typesize;
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
        let mut readers = self.readers()?;
        let mut bytes = 0;
        let times = self.repeat(|bench, clock| {
            let mut random = SplitMix64(42);
            let mut done = 0;
            for call in 0..calls {
                let reader = &mut readers[random.below(bench.chunks.len())];
                let items = reader.chunk().nbytes() / typesize;
                let mut start = random.below(items);
                if op == Op::GetitemBlock {
                    start -= start % per;
                }
                let dst = &mut bench.dst[..(items.min(start + per) - start) * typesize];
                reader.read(start * typesize, dst)?;
                bytes += dst.len();
                done += 1;
                if call % 256 == 255 && clock.wall() > bench.args.budget {
                    break;
                }
            }
            let scale = calls as f64 / f64::from(done);
            let TimeSpent { wall, cpu } = clock.stop();
            Ok(TimeSpent { wall: wall * scale, cpu: cpu * scale })
        })?;
        Ok(self.line(op, &times, bytes / times.len(), calls))
    }

    /// One reader per chunk, as in a program that reads many parts of the same chunks.
    fn readers(&self) -> Result<Vec<ChunkReader>> {
        // The items are used right after they are read.
        let dparams = self.dparams.clone().destination(Destination::Cached);
        let reader = |chunk: &Chunk| Ok(ChunkReader::new(chunk.clone(), dparams.clone())?);
        self.chunks.iter().map(reader).collect()
    }

    /// Reads a few random items and compares them. Returns the chunk and item number of the first mismatch.
    fn wrong_item(&self) -> Result<Option<(usize, usize)>> {
        let typesize = self.typesize;
        let (mut random, mut readers) = (SplitMix64(7), self.readers()?);
        for _ in 0..if self.lossy() { 0 } else { 64 } {
            let nchunk = random.below(self.chunks.len());
            let chunk = &self.chunks[nchunk];
            let items = chunk.nbytes() / typesize;
            let start = random.below(items);
            let range = start * typesize..items.min(start + 3) * typesize;
            let at = nchunk * self.chunksize;
            let mut got = vec![0; range.len()];
            readers[nchunk].read(range.start, &mut got)?;
            if got != self.src[at + range.start..at + range.end] {
                return Ok(Some((nchunk, start)));
            }
        }
        Ok(None)
    }

    /// Measures as often as requested, at least once.
    fn repeat(
        &mut self,
        mut measure: impl FnMut(&mut Self, Clock) -> Result<TimeSpent>,
    ) -> Result<Vec<TimeSpent>> {
        repeat(self.args.repeat.get(), self.args.budget, || measure(self, Clock::start()))
    }

    fn line(&self, op: Op, times: &[TimeSpent], bytes_per_rep: usize, calls: usize) -> Value {
        let seconds: Vec<f64> = times.iter().map(|time| time.wall).collect();
        json!({
            "impl": "b2kit",
            "version": env!("CARGO_PKG_VERSION"),
            "op": name(op),
            "input": self.input.file_name().map(|name| name.to_string_lossy()),
            "codec": self.args.codec.to_string(),
            "clevel": self.args.clevel,
            "filter": name(self.args.filter),
            "typesize": self.typesize,
            "threads": self.threads,
            "chunk": self.chunksize,
            "blocksize": self.chunks[0].header().blocksize(),
            "nbytes": self.src.len(),
            "cbytes": self.packed.iter().map(|(_, len)| len).sum::<usize>(),
            "bytes_per_rep": bytes_per_rep,
            "calls": calls,
            "repeat": times.len(),
            "median_s": median(seconds.iter().copied()),
            "min_s": least(seconds.iter().copied()),
            "cpu_min_s": least(times.iter().map(|time| time.cpu)),
            "seconds": seconds,
        })
    }
}

/// Data larger than this, in bytes, does not stay in the CPU caches.
const CACHES: usize = 16 << 20;
