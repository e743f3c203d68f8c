//! `bench --quick`: how well a file would compress, in five lines and a few seconds.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use b2_measure::Clock;
use b2kit::{CodecId, NdArray, SuperChunk};
use serde_json::{Value, json};

use crate::args::options::Global;
use crate::args::plugins;
use crate::args::values::Filters;
use crate::files::destination;
use crate::print::json::of_file;
use crate::print::table::{dims, printable, short_size};
use crate::process::batch;

use super::common::{BenchOptions, ensure_same};
use super::sample::{Sample, command_for, name};

/// Size of the sample, taken from the middle of the file, in bytes: a second of work for the slowest choice.
const SAMPLE: u64 = 4 << 20;
/// Minimum size in bytes: below it, the results depend more on headers and noise than on the data.
const MIN_SAMPLE: u64 = 64 << 10;

/// Codecs, levels and filters from fastest to smallest, and the codecs for single bytes.
const CHOICES: [(CodecId, u8, &str, CodecId); 5] = [
    (CodecId::LZ4, 5, "shuffle", CodecId::LZ4),
    (CodecId::LZ4, 5, "bitshuffle", CodecId::LZ4HC),
    (CodecId::ZSTD, 1, "shuffle", CodecId::ZSTD),
    (CodecId::ZSTD, 5, "shuffle", CodecId::ZSTD),
    (CodecId::ZSTD, 7, "bitshuffle", CodecId::ZSTD),
];
/// Result of one choice.
struct CodecResult {
    ratio: f64,
    /// Bytes per second.
    compress: f64,
    decompress: f64,
    command: String,
}

pub(super) fn run(files: &[PathBuf], common: &BenchOptions, as_json: bool, global: Global) -> Result<()> {
    let common = BenchOptions { limit: common.limit.or(Some(SAMPLE)), ..*common };
    batch::each(files, |file| {
        let sample = Sample::open(file, &common, global)?;
        let lines = CHOICES.iter().map(|(codec, level, filters, bytes)| match sample.itemsize {
            // Shuffling single bytes has no effect.
            1 => measure(file, &sample, *bytes, *level, "none"),
            _ => measure(file, &sample, *codec, *level, filters),
        });
        let mut lines =
            lines.collect::<Result<Vec<CodecResult>>>().with_context(|| file.display().to_string())?;
        lines.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        destination::print(&if as_json {
            to_json(file, &sample, &lines)
        } else {
            to_text(file, &sample, &lines)
        })
    })
}

/// Compresses and decompresses once, and verifies the result.
fn measure(file: &Path, sample: &Sample, codec: CodecId, level: u8, filters: &str) -> Result<CodecResult> {
    let filters: Filters = filters.parse().map_err(anyhow::Error::msg)?;
    let builder = sample.builder(codec, level, &filters)?;
    let clock = Clock::start();
    let frame = builder.to_bytes(&sample.plain)?;
    let compress = clock.wall().max(1e-9);
    let ratio = sample.plain.len() as f64 / frame.len() as f64;
    let array =
        NdArray::from_super_chunk(SuperChunk::options().plugins(plugins::plugins()).from_bytes(frame)?)?;
    let mut back = vec![1; sample.plain.len()];
    let clock = Clock::start();
    array.all().read_bytes_into(&mut back)?;
    let decompress = clock.wall().max(1e-9);
    ensure_same(back == sample.plain, "the round trip changed the bytes")?;
    let nbytes = sample.plain.len() as f64;
    Ok(CodecResult {
        ratio,
        compress: nbytes / compress,
        decompress: nbytes / decompress,
        command: command_for(file, sample, codec, level, &name(&filters)),
    })
}

fn is_small(sample: &Sample) -> bool {
    sample.whole < MIN_SAMPLE
}

fn to_text(file: &Path, sample: &Sample, lines: &[CodecResult]) -> String {
    let measured = match sample.plain.len() as u64 {
        n if n == sample.whole => String::new(),
        n => format!(", measured on {} from the middle", short_size(n)),
    };
    let mut out = format!(
        "{}: {}, shape {}, items of {} byte{}{measured}\n",
        printable(&file.display().to_string()),
        short_size(sample.whole),
        dims(&sample.whole_shape),
        sample.itemsize,
        if sample.itemsize == 1 { "" } else { "s" },
    );
    if is_small(sample) {
        let _ = writeln!(out, "too small: below {} results are not meaningful", short_size(MIN_SAMPLE));
    }
    let _ = writeln!(out, "{:>9} {:>13} {:>13}", "ratio", "compress", "decompress");
    for CodecResult { ratio, compress, decompress, command } in lines {
        let (compress, decompress) = (compress / 1e6, decompress / 1e6);
        let _ = writeln!(out, "{ratio:>8.2}x {compress:>8.0} MB/s {decompress:>8.0} MB/s  {command}");
    }
    out
}

fn to_json(file: &Path, sample: &Sample, lines: &[CodecResult]) -> String {
    let results = lines.iter().map(|line| {
        json!({
            "ratio": line.ratio,
            "compress_bytes_per_s": line.compress,
            "decompress_bytes_per_s": line.decompress,
            "command": line.command,
        })
    });
    let facts = json!({
        "nbytes": sample.whole,
        "measured_nbytes": sample.plain.len(),
        "typesize": sample.itemsize,
        "too_small": is_small(sample),
        "results": results.collect::<Vec<Value>>(),
    });
    format!("{}\n", of_file(file, facts))
}
