//! `b2kit salvage`

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::frame::{Condition, LostBlocks, SalvageReport};
use b2kit::nd::{DtypeKind, NdError, salvage_as, salvage_filled};
use b2kit::{ArrayBuilder, Dtype, NdArray};
use serde_json::{Value, json};

use crate::args::{Dims, Global};
use crate::files::{ModeOf, check_folder, claim, print, refuse_other_format, stdio};
use crate::print::{Table, count, printable, printable_json, size};
use crate::process::{AlreadyReported, Usage, say, signals};
use crate::read::{Input, damage};

const EXAMPLES: &str = "\
Examples:
  b2kit salvage broken.b2nd rescued.b2nd
  b2kit salvage broken.b2nd rescued.b2nd --json | jq .lost_chunks
  b2kit salvage headless.b2nd rescued.b2nd --like january.b2nd
  b2kit salvage headless.b2nd rescued.b2nd --dtype '<f4' --shape 365,720,1440 \
    --chunks 1,720,1440 --blocks 1,90,1440

Recovers every intact chunk, even if header, index or trailer are damaged or the
end of the file is missing. If there are checksums, chunks that match them are intact
(--no-checksums: all that decode); those whose checksum is lost are kept if they
decode, but may have wrong values. If some blocks of a damaged chunk do not decode, the
others are kept. If all of them decode, some values are wrong, and it is not known
which: the chunk is lost, or kept with --keep-suspect. Lost data is replaced by zeros
(or --fill), so that the rest keeps its position. IN is not changed. OUT appears when it
is complete, and --force does not replace an OUT that has more intact chunks than could
be recovered. If shape and dtype are lost (files of b2kit contain a copy of them), give
--like or --dtype, --shape, --chunks and --blocks; values that IN still has take precedence. Exit code 0: all chunks were recovered;
1: chunks or the metalayers that describe them were lost, or may have been.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A damaged frame, or the directory of a sparse one
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The new frame, of the same storage
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Replacement for lost items
    #[arg(long, value_name = "nan|zero|VALUE", allow_hyphen_values = true, default_value = "zero")]
    fill: String,
    /// Keep damaged chunks in which all blocks decode, although some of their values are wrong
    #[arg(long)]
    keep_suspect: bool,
    /// Take shape, dtype, chunk and block shape from this array if IN has lost them
    #[arg(long, value_name = "FILE", help_heading = "If the header is lost")]
    like: Option<PathBuf>,
    /// Shape of the array
    #[arg(long, value_name = "A,B,...", help_heading = "If the header is lost")]
    shape: Option<Dims>,
    /// NumPy type of the items, like '<f4'
    #[arg(long, value_name = "DTYPE", help_heading = "If the header is lost")]
    dtype: Option<String>,
    /// Shape of the chunks, in items
    #[arg(long, value_name = "A,B,...", help_heading = "If the header is lost")]
    chunks: Option<Dims>,
    /// Shape of the blocks, in items
    #[arg(long, value_name = "A,B,...", help_heading = "If the header is lost")]
    blocks: Option<Dims>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Overwrite OUT, unless more of its chunks are intact than can be saved
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let named = || args.input.display().to_string();
    stdio::refuse_stdin(&args.input, "cannot be salvaged: name the damaged file")?;
    ensure!(!stdio::is_stream(&args.output), "{}: salvage writes a file; name it", args.output.display());
    check_folder(&args.output)?;
    refuse_other_format(&args.output)?;
    claim(&args.output, args.force, &[&args.input])?;
    let _mode = ModeOf::inputs([&*args.input]);
    signals::begin();
    let open = global.reading(&args.input);
    let write = global.writing().overwrite(args.force).keep_better(true).keep_suspect(args.keep_suspect);
    let fill = |dtype: Option<&Dtype>, itemsize: usize| fill_item(&args.fill, dtype, itemsize);
    if args.fill != "nan" && args.fill != "zero" && args.fill.parse::<f64>().is_err() {
        return Err(Usage(format!("--fill {}: expected nan, zero or a number", args.fill)).into());
    }
    let report = match args.known(global)? {
        Some(known) => salvage_as(&args.input, &args.output, &known, &open, &write, fill),
        None => salvage_filled(&args.input, &args.output, &open, &write, fill).map_err(NdError::from),
    };
    let report = report.with_context(named)?;
    // The output exists, so the message "nothing was changed" would be wrong.
    signals::too_late();
    let opened = Input::open(&args.output, 0, global.opening_itemless());
    let array = match &opened {
        Ok(Input::Array(array)) => Some(array.as_ref()),
        _ => None,
    };
    // Same size as in `info`: without the padding of an array's chunks.
    let nbytes = array.map_or(report.nbytes, NdArray::nbytes);
    if args.json {
        let json = serde_json::to_string_pretty(&to_json(&report, nbytes, &args.fill))?;
        print(&format!("{}\n", printable_json(&json)))?;
    } else if !global.quiet {
        let table = to_table(&report, array, nbytes, &args.fill);
        print(&format!("{}\n{}", printable(&named()), table.render(2)))?;
    }
    if report.metalayers == Condition::Lost {
        say(&format!(
            "{}: shape and dtype, if it was an array, are lost; --like FILE (an array like it), or --dtype, --shape, \
             --chunks and --blocks say them",
            printable(&named())
        ));
    }
    // Intact chunks are not enough: metalayers that a frame does not check, such as the shape of an array, may be
    // wrong.
    let meaningless = || {
        format!(
            "{}: the chunks are saved, but the metadata that describes them {}",
            args.output.display(),
            if report.metalayers == Condition::Given { "does not fit them as given" } else { "is lost" }
        )
    };
    if let Input::Array(array) = opened.with_context(meaningless)? {
        let (frame, each) = (array.super_chunk(), array.geometry().chunk_nbytes() as u64);
        let needed = (frame.nchunks() as u64).saturating_mul(each);
        ensure!(
            frame.nbytes() == needed,
            "{}: {} bytes, the chunks of the array have {needed}",
            meaningless(),
            frame.nbytes()
        );
    }
    let compared = report.uncompared == 0;
    let all = report.nlost == 0 && report.certain && compared && report.metalayers != Condition::Lost;
    if all { Ok(()) } else { Err(AlreadyReported.into()) }
}

impl Args {
    /// Returns the array that the options describe, if any are given.
    fn known(&self, global: Global) -> Result<Option<ArrayBuilder>> {
        let parts =
            [self.shape.is_some(), self.dtype.is_some(), self.chunks.is_some(), self.blocks.is_some()];
        let mut known = match (&self.like, &self.dtype, &self.shape) {
            (None, None, None) if parts == [false; 4] => return Ok(None),
            (Some(like), dtype, _) => {
                let named = || format!("--like {}", like.display());
                let Input::Array(array) = Input::open(like, 0, global).with_context(named)? else {
                    return Err(anyhow!("{}: not an array", named()));
                };
                match dtype {
                    None => ArrayBuilder::like(&array),
                    Some(dtype) => ArrayBuilder::of_dtype(array.shape(), parse_dtype(dtype)?)
                        .chunks(array.chunkshape())
                        .blocks(array.blockshape()),
                }
            }
            (None, Some(dtype), Some(shape)) => ArrayBuilder::of_dtype(&shape.0[..], parse_dtype(dtype)?),
            (None, dtype, _) => {
                let missing = if dtype.is_none() { "--dtype" } else { "--shape" };
                return Err(Usage(format!("{missing} is missing: give both, or --like FILE")).into());
            }
        };
        if let Some(shape) = &self.shape {
            known = known.shape(&shape.0[..]);
        }
        if let Some(chunks) = &self.chunks {
            known = known.chunks(narrow("--chunks", chunks)?);
        }
        if let Some(blocks) = &self.blocks {
            known = known.blocks(narrow("--blocks", blocks)?);
        }
        known.geometry()?;
        Ok(Some(known))
    }
}

fn parse_dtype(text: &str) -> Result<Dtype> {
    Dtype::parse(text).with_context(|| format!("--dtype {text}"))
}

fn narrow(option: &str, dims: &Dims) -> Result<Vec<u32>> {
    let lengths = dims.0.iter().map(|n| u32::try_from(*n));
    lengths.collect::<Result<_, _>>().with_context(|| format!("{option}: a length is too large"))
}

/// The bytes of an item with this value; empty for zeros.
fn fill_item(text: &str, dtype: Option<&Dtype>, itemsize: usize) -> Result<Vec<u8>, String> {
    if text == "zero" {
        return Ok(Vec::new());
    }
    let Some(dtype) = dtype else {
        return Err(format!("{text}: the type of the items of {itemsize} bytes is unknown; only zero fits"));
    };
    let DtypeKind::Simple { code, big_endian } = dtype.kind() else {
        return Err(format!("{text}: items of {dtype} are not plain numbers; only zero fits"));
    };
    let out_of_range = || format!("{text} is not a value of {dtype}");
    let mut bytes = match (code, itemsize) {
        ('f', 4) => text.parse::<f32>().map_err(|_| out_of_range())?.to_le_bytes().to_vec(),
        ('f', 8) => text.parse::<f64>().map_err(|_| out_of_range())?.to_le_bytes().to_vec(),
        ('i' | 'u', 1..=8) => {
            let value = text.parse::<i128>().map_err(|_| out_of_range())?;
            let bits = 8 * itemsize as u32;
            let range = if *code == 'i' { -(1 << (bits - 1))..1 << (bits - 1) } else { 0..1 << bits };
            if !range.contains(&value) {
                return Err(out_of_range());
            }
            value.to_le_bytes().into_iter().take(itemsize).collect()
        }
        _ => return Err(format!("{text}: items of {dtype} are not plain numbers; only zero fits")),
    };
    if *big_endian {
        bytes.reverse();
    }
    Ok(bytes)
}

fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Intact => "intact",
        Condition::Damaged => "damaged",
        Condition::Found => "found",
        Condition::Restored => "damaged, restored from its copy",
        Condition::Given => "lost, as given",
        _ => "lost",
    }
}

/// `nbytes`: uncompressed bytes, without the padding of an array's chunks.
fn to_json(report: &SalvageReport, nbytes: u64, fill: &str) -> Value {
    let lost = report.lost.iter().map(|group| {
        let blocks = group.blocks.as_ref();
        json!({
            "blocks": blocks.map(|blocks| blocks.nblocks),
            "lost_blocks": blocks.map(|blocks| &blocks.lost),
            "suspect_blocks": blocks.map(|blocks| &blocks.suspect),
            "first": group.nchunks.start,
            "count": group.nchunks.len(),
            "filled": if group.filled { Some(fill) } else { None },
            "why": group.why,
        })
    });
    json!({
        "nchunks": report.nchunks,
        "nbytes": nbytes,
        "recovered": report.recovered,
        "verified": report.verified,
        "uncompared": report.uncompared,
        "lost": report.nlost,
        "certain": report.certain,
        "lost_chunks": lost.collect::<Vec<_>>(),
        "lost_vlmetalayers": report.lost_vlmetalayers,
        "header": word(report.header),
        "metalayers": word(report.metalayers),
        "index": word(report.index),
        "trailer": word(report.trailer),
    })
}

/// `array`: the saved array, if it is one. It maps chunks and blocks to items.
fn to_table(report: &SalvageReport, array: Option<&NdArray>, nbytes: u64, fill: &str) -> Table {
    let mut table = Table::default();
    let chunks = match (report.nlost, report.certain) {
        (0, true) if report.recovered == 1 => "1 recovered".into(),
        (0, true) => format!("all {} recovered", report.recovered),
        (0, false) => {
            format!("{} recovered, in the order of the file; others may be missing", report.recovered)
        }
        (lost, true) => format!("{} recovered, {lost} lost", report.recovered),
        (lost, false) => format!("{} recovered, {lost} lost; which ones is uncertain", report.recovered),
    };
    table.row("chunks", chunks);
    match (report.verified, report.uncompared) {
        (0, 0) => {}
        (verified, 0) => table.row("checksums", format!("right for {verified}")),
        (verified, lost) => {
            table.row(
                "checksums",
                format!("right for {verified}, lost for {lost}: values may be wrong in these"),
            );
        }
    }
    table.row("uncompressed", size(nbytes));
    for (name, condition) in [
        ("header", report.header),
        ("metalayers", report.metalayers),
        ("index", report.index),
        ("trailer", report.trailer),
    ] {
        let vlmetalayers = name == "trailer" && condition == Condition::Lost;
        table.row(name, if vlmetalayers { "lost, and all vlmetalayers with it" } else { word(condition) });
    }
    for name in &report.lost_vlmetalayers {
        table.row("lost vlmetalayer", printable(name));
    }
    for group in &report.lost {
        let (first, last) = (group.nchunks.start, group.nchunks.end.saturating_sub(1));
        let which = match (first == last, array.and_then(|array| damage::of_chunk(array, first))) {
            (true, Some(items)) => {
                format!("chunk {first} ({items}){}", of_blocks(array, first, group.blocks.as_ref()))
            }
            (true, None) => format!("chunk {first}"),
            (false, _) => format!("chunks {first} to {last}"),
        };
        let fill = if fill == "zero" { "zeros" } else { fill };
        let now = match (&group.blocks, group.filled) {
            (Some(blocks), _) if blocks.lost.is_empty() => {
                let all = count(blocks.suspect.len() as u64, "block");
                format!("kept, but some values are wrong in {all}")
            }
            (Some(blocks), _) => {
                let (lost, all) = (blocks.lost.len(), blocks.nblocks);
                format!("{lost} of {all} blocks now {fill}, the others decode")
            }
            (None, true) => format!("now {fill}"),
            (None, false) => "left out".to_owned(),
        };
        table.row("lost", format!("{which}, {now}: {}", printable(&group.why)));
    }
    table
}

/// Describes the items of the lost blocks, if there are only a few.
fn of_blocks(array: Option<&NdArray>, nchunk: usize, blocks: Option<&LostBlocks>) -> String {
    const MAX_LISTED_BLOCKS: usize = 4;
    let (Some(array), Some(blocks)) = (array, blocks) else { return String::new() };
    let places = blocks.lost.iter().filter_map(|nblock| damage::of_block(array, nchunk, *nblock));
    let mut places: Vec<String> = places.take(MAX_LISTED_BLOCKS + 1).collect();
    if places.len() > MAX_LISTED_BLOCKS {
        places.truncate(MAX_LISTED_BLOCKS);
        places.push("...".into());
    }
    places.iter().map(|items| format!(", {items}")).collect()
}
