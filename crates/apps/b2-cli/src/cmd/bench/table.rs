//! The human-readable table: all combinations of codec, level and filters, one file at a time.

use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use b2_measure::{Clock, SplitMix64, TimeSpent, least, repeat};
use b2kit::{CodecId, NdArray, SuperChunk};
use serde_json::{Value, json};

use crate::args::options::Global;
use crate::args::plugins;
use crate::args::values::{Filters, filters_parser, plain_codec_parser};
use crate::files::destination;
use crate::print::json::of_file;
use crate::print::table::{dims, short_size};
use crate::process::progress::Progress;

use super::choice::{Cost, best, pareto};
use super::common::{BenchOptions, ensure_same, one_codec};
use super::quick;
use super::sample::{Sample, command_for, name};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// .npy files, Blosc2 files, or raw bytes
    #[arg(value_name = "FILE", required_unless_present = "input")]
    files: Vec<PathBuf>,
    /// Show five choices within three seconds, the smallest first
    #[arg(long, conflicts_with_all = ["input", "codecs", "clevels", "filters"])]
    quick: bool,
    /// Measure only these codecs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = plain_codec_parser(one_codec), hide_possible_values = true, default_value = "blosclz,lz4,lz4hc,zlib,zstd")]
    codecs: Vec<CodecId>,
    /// Measure only these levels
    #[arg(long, value_name = "0..9,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=9), default_value = "1,5,9")]
    clevels: Vec<u8>,
    /// Measure these filters (may be repeated)
    ///
    /// Written as for `b2kit pack`. The default is none, shuffle and bitshuffle, one after the other.
    #[arg(long, value_name = "LIST", value_parser = filters_parser(), hide_possible_values = true)]
    filters: Vec<Filters>,
}

/// Time for repeating each operation, in seconds; the best run counts.
const BUDGET: f64 = 0.05;
const ITEMS: usize = 200;
const SLICES: usize = 10;

/// One line of the table.
struct Measurement {
    codec: CodecId,
    clevel: u8,
    filters: String,
    cbytes: u64,
    /// Times in seconds.
    compress: f64,
    decompress: f64,
    item: f64,
    slice: f64,
}

pub(super) fn run(args: &Args, common: &BenchOptions, as_json: bool, global: Global) -> Result<()> {
    if args.quick {
        return quick::run(&args.files, common, as_json, global);
    }
    for file in &args.files {
        let sample = Sample::open(file, common, global)?;
        let rows = measure(args, file, &sample, global.quiet)?;
        let costs: Vec<Cost> = rows.iter().map(cost).collect();
        let (front, best) = (pareto(&costs), best(&costs).context("there is nothing to measure")?);
        let table = Table { file, sample, threads: common.threads, rows, front, best };
        destination::print(&if as_json { format!("{}\n", table.to_json()) } else { table.to_text() })?;
    }
    Ok(())
}

fn cost(row: &Measurement) -> Cost {
    Cost { cbytes: row.cbytes as f64, compress: row.compress * 1e9, decompress: row.decompress * 1e9 }
}

fn measure(args: &Args, file: &Path, sample: &Sample, quiet: bool) -> Result<Vec<Measurement>> {
    let default = ["none", "shuffle", "bitshuffle"];
    // Shuffling single bytes has no effect.
    let keep = |name: &str| sample.itemsize > 1 || name != "shuffle";
    let mut pipelines: Vec<Filters> = args.filters.clone();
    if pipelines.is_empty() {
        let parsed = default.iter().filter(|name| keep(name)).map(|name| name.parse());
        pipelines = parsed.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    }
    let n = args.codecs.len() * args.clevels.len() * pipelines.len();
    let nbytes = sample.plain.len() as u64;
    let mut progress = Progress::new(file.display().to_string(), n as u64 * nbytes, quiet);
    let mut dst = vec![1; sample.plain.len()];
    let mut rows = Vec::with_capacity(n);
    for &codec in &args.codecs {
        for &clevel in &args.clevels {
            for filters in &pipelines {
                let row = one(sample, codec, clevel, filters, &mut dst);
                let what = || format!("{}: {codec} level {clevel}, {}", file.display(), name(filters));
                rows.push(row.with_context(what)?);
                progress.add(nbytes);
            }
        }
    }
    Ok(rows)
}

fn one(
    sample: &Sample,
    codec: CodecId,
    clevel: u8,
    filters: &Filters,
    dst: &mut [u8],
) -> Result<Measurement> {
    let (itemsize, shape) = (sample.itemsize, &sample.shape);
    let builder = sample.builder(codec, clevel, filters)?;
    let mut frame = builder.to_bytes(&sample.plain)?;
    let cbytes = frame.len() as u64;
    let array = NdArray::from_super_chunk(
        SuperChunk::options().plugins(plugins::plugins()).from_bytes(frame.clone())?,
    )?;
    array.all().read_bytes_into(dst)?;
    ensure_same(is_lossy(filters) || dst == sample.plain, "the round trip changed the bytes")?;

    let compress = best_of(|| {
        frame = builder.to_bytes(&sample.plain)?;
        Ok(())
    })?;
    let decompress = best_of(|| Ok(array.all().read_bytes_into(dst)?))?;
    let mut boxes = |shape: &[u64], n: usize| -> Result<f64> {
        let nbytes = shape.iter().product::<u64>() as usize * itemsize;
        let seconds = best_of(|| {
            let mut random = SplitMix64(42);
            for _ in 0..n {
                let place = |(whole, part): (&u64, &u64)| {
                    let start = random.below((whole - part + 1) as usize) as i64;
                    start..start + *part as i64
                };
                let place: Vec<_> = sample.shape.iter().zip(shape).map(place).collect();
                array.slice(place)?.read_bytes_into(black_box(&mut dst[..nbytes]))?;
            }
            Ok(())
        })?;
        Ok(seconds / n as f64)
    };
    let item = boxes(&vec![1; shape.len()], ITEMS)?;
    let slice = boxes(&slice_shape(shape), SLICES)?;
    Ok(Measurement { codec, clevel, filters: name(filters), cbytes, compress, decompress, item, slice })
}

/// Whether a filter loses data, so that the round trip cannot be compared.
fn is_lossy(filters: &Filters) -> bool {
    let plugins = plugins::plugins();
    filters.0.iter().any(|slot| !plugins.filter_properties(*slot, 1).lossless)
}

/// Shape of the slice to read: an eighth of each dimension, 1 to 64 positions; 1000 items if there is only one
/// dimension.
fn slice_shape(shape: &[u64]) -> Vec<u64> {
    match shape {
        [n] => vec![1000.min(*n)],
        shape => shape.iter().map(|n| (n / 8).clamp(1, 64)).collect(),
    }
}

fn best_of(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let measure = || -> Result<TimeSpent> {
        let clock = Clock::start();
        work()?;
        Ok(clock.stop())
    };
    let times = repeat(usize::MAX, BUDGET, measure)?;
    Ok(least(times.iter().map(|time| time.wall)).max(1e-9))
}

const BEST: [&str; 3] = ["balance", "smallest", "fastest"];

/// All rows, the Pareto-optimal ones among them, and the three best.
struct Table<'a> {
    file: &'a Path,
    sample: Sample,
    threads: usize,
    rows: Vec<Measurement>,
    front: Vec<bool>,
    best: [usize; 3],
}

impl Table<'_> {
    /// Returns the name of each of the best rows, its number, and the command that writes the file with its parameters.
    fn commands(&self) -> impl Iterator<Item = (&'static str, usize, String)> {
        BEST.into_iter().zip(self.best).map(move |(name, place)| {
            let Measurement { codec, clevel, filters, .. } = &self.rows[place];
            (name, place, command_for(self.file, &self.sample, *codec, *clevel, filters))
        })
    }

    fn to_text(&self) -> String {
        let Self { file, sample, threads, rows, front, .. } = self;
        let nbytes = sample.plain.len() as f64;
        let part = if sample.plain.len() as u64 == sample.whole {
            short_size(sample.whole)
        } else {
            format!("{} of {}", short_size(sample.plain.len() as u64), short_size(sample.whole))
        };
        let mut out = format!(
            "{}: {part}, shape {}, items of {} bytes; {threads} thread{}\n\n",
            crate::print::table::printable(&file.display().to_string()),
            dims(&sample.whole_shape),
            sample.itemsize,
            if *threads == 1 { "" } else { "s" }
        );
        let width = rows.iter().map(|row| row.filters.len()).max().unwrap_or(0).max(7);
        let _ = writeln!(
            out,
            "  {:8} level  {:width$} {:>9} {:>10} {:>10} {:>9} {:>9}",
            "codec", "filters", "ratio", "compress", "decompress", "item", "slice"
        );
        let _ = writeln!(
            out,
            "  {:8} {:5}  {:width$} {:>9} {:>10} {:>10} {:>9} {:>9}",
            "", "", "", "", "GB/s", "GB/s", "us", "us"
        );
        for (row, on_front) in rows.iter().zip(front) {
            let _ = writeln!(
                out,
                "{} {:8} {:>5}  {:width$} {:>8.2}x {:>10.3} {:>10.3} {:>9.2} {:>9.1}",
                if *on_front { '*' } else { ' ' },
                row.codec.to_string(),
                row.clevel,
                row.filters,
                nbytes / row.cbytes as f64,
                nbytes / row.compress / 1e9,
                nbytes / row.decompress / 1e9,
                row.item * 1e6,
                row.slice * 1e6,
            );
        }
        out.push_str("\n* no other choice is both smaller and faster\n\n");
        for (name, _, command) in self.commands() {
            let _ = writeln!(out, "{name:9} {command}");
        }
        out
    }

    fn to_json(&self) -> Value {
        let Self { file, sample, threads, rows, front, .. } = self;
        let nbytes = sample.plain.len() as f64;
        let results: Vec<Value> = rows
            .iter()
            .zip(front)
            .map(|(row, on_front)| {
                json!({
                    "codec": row.codec.to_string(),
                    "clevel": row.clevel,
                    "filters": row.filters,
                    "cbytes": row.cbytes,
                    "ratio": nbytes / row.cbytes as f64,
                    "compress_s": row.compress,
                    "decompress_s": row.decompress,
                    "item_s": row.item,
                    "slice_s": row.slice,
                    "pareto": on_front,
                })
            })
            .collect();
        let facts = json!({
            "nbytes": sample.whole,
            "measured_nbytes": sample.plain.len(),
            "shape": sample.whole_shape,
            "measured_shape": sample.shape,
            "typesize": sample.itemsize,
            "threads": threads,
            "results": results,
        });
        let mut object = of_file(file, facts);
        for (name, place, command) in self.commands() {
            object[name] = json!({"result": place, "command": command});
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_have_the_names_that_pack_takes() {
        for text in ["none", "shuffle", "delta,shuffle", "trunc_prec:10,bitshuffle"] {
            assert_eq!(name(&text.parse().unwrap()), text);
        }
    }
}
