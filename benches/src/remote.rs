//! Our side of `cargo xtask bench --remote`: opens URLs and reads parts of arrays, one command per line of standard
//! input.
//!
//! `make RAW FRAME` stores the raw items as the array to read, and once more with a table of block starts as
//! `FRAME.starts`. `open URL` and `read NAME` print a list in JSON: the time in seconds and a sum of the items.

use std::io::BufRead;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use b2kit::nd::{Selection, Slice};
use b2kit::{ArrayBuilder, Compression, FilterId, FrameWriter, NdArray};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, make, raw, frame] = &args[..]
        && make == "make"
    {
        store(raw, frame, false)?;
        return store(raw, &format!("{frame}.starts"), true);
    }
    let mut array: Option<NdArray> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let start = Instant::now();
        let (seconds, sum) = match line.split_once(' ').context("a command")? {
            ("open", url) => {
                // Use a new client, because a client remembers what it has opened.
                array = Some(NdArray::open_with(url, &b2_http::options())?);
                (start.elapsed(), 0)
            }
            ("read", name) => {
                let items: Vec<f32> = part(array.as_ref().context("nothing is open")?, name)?.read()?;
                let seconds = start.elapsed();
                (seconds, items.iter().fold(0u64, |sum, item| sum.wrapping_add(item.to_bits().into())))
            }
            (other, _) => bail!("no command {other}"),
        };
        println!("[{}, {sum}]", seconds.as_secs_f64());
    }
    Ok(())
}

/// Returns a part of the array. All sides read the same parts.
fn part(array: &NdArray, name: &str) -> Result<Slice> {
    let all = || Selection::from(..);
    let range = |start: i64| Selection::from(start..start + 32);
    let selection = match name {
        "item" => vec![137.into(), 201.into(), 77.into()],
        "plane0" => vec![137.into(), all(), all()],
        "plane2" => vec![all(), all(), 77.into()],
        "box" => vec![range(110), range(110), range(40)],
        "whole" => vec![all(), all(), all()],
        _ => bail!("no part {name}"),
    };
    Ok(array.slice(selection)?)
}

fn store(raw: &str, frame: &str, starts: bool) -> Result<()> {
    let items = std::fs::read(raw)?;
    let compression = Compression::zstd(5).filters([FilterId::SHUFFLE]);
    let builder = ArrayBuilder::new::<f32>([400, 400, 256]).chunks([100, 100, 128]).blocks([25, 25, 32]);
    let options = FrameWriter::options().block_starts(starts);
    Ok(builder.compression(compression).write_options(options).write(frame, &items[..])?)
}
