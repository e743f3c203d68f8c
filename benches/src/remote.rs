//! Our side of `benches/bench.py remote`, and its server: opens URLs and reads parts of arrays, one command per line of standard
//! input.
//!
//! `make RAW FRAME` stores the raw items as the array to read, and once more with a table of block starts as
//! `FRAME.starts`. `serve FOLDER` prints the URL of a server with all files of a folder; each line of standard input
//! then sets the delay of its responses in milliseconds, and prints the requests and bytes since the last one. `open
//! URL` and `read NAME` print a list in JSON: the time in seconds and a sum of the items.

use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use b2_testkit::web::Server;
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
    if let [_, serve, folder] = &args[..]
        && serve == "serve"
    {
        return self::serve(Path::new(folder));
    }
    let mut array: Option<NdArray> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let start = Instant::now();
        let (seconds, sum) = match line.split_once(' ').context("a command")? {
            ("open", url) => {
                // Use a new client, because a client caches what it has opened.
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

fn serve(folder: &Path) -> Result<()> {
    let server = Server::start()?;
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                server.put(&name, std::fs::read(&path)?);
            }
        }
    }
    println!("{}", server.url(""));
    for line in std::io::stdin().lock().lines() {
        server.delay(Duration::from_millis(line?.trim().parse()?));
        let counts = server.counts();
        println!("[{}, {}]", counts.requests, counts.bytes);
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
