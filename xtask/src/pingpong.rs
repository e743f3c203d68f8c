//! `cargo xtask pingpong`: this project and C-Blosc2 take turns changing the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::frame::{Checksums, Durability, Storage};
use b2kit::frame::{FrameParams, ReadCosts};
use b2kit::{
    ArrayBuilder, ArrayEditor, CodecId, Dtype, Fill, FilterId, FrameEditor, FrameWriter, NdArray,
    RegionSource, Selection, SuperChunk,
};
use serde_json::{Value, json};

use crate::conformance::checker::{Checker, to_hex};
use crate::conformance::peer::{Peer, Reply};
use crate::conformance::watchdog;
use crate::sh::Counts;
use crate::{python, root};

/// Change files by turns with C-Blosc2: random sequences of operations, each turn by one side.
///
/// The files are contiguous and sparse, and begun by either side. After each turn both sides read all of the
/// file, which is compared with a plain copy of what it should hold. What the checksums say then must fit who has
/// changed the file: never that it is damaged, and never that all is as we wrote it after C-Blosc2 has changed data.
/// C-Blosc2 runs in a process of its own that is started again when it crashes or hangs; that is a difference too.
/// Known defects of it are left out, with their number and reason in the table.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of sequences, arrays and frames together.
    #[arg(long, default_value_t = 60)]
    sequences: u64,
    /// Seed of all random choices; printed at the end. Default: another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// First sequence number; with `--sequences 1` and `--only`, one sequence of a seed alone.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only one kind of file.
    #[arg(long, value_enum)]
    only: Option<Kind>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Chunks and vlmetalayers of frames.
    Frames,
    /// Items and shapes of arrays.
    Arrays,
}

impl Args {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { sequences: 60, seed, first: 0, only: None }
    }
}

/// What was done, for the table.
#[derive(Default)]
struct Report {
    /// Counts by kind of file, side and operation.
    operations: BTreeMap<(&'static str, &'static str, String), u64>,
    excluded: BTreeMap<String, u64>,
    /// The results of checksums before and after changes by C-Blosc2.
    verdicts: BTreeMap<String, u64>,
    /// How often a frame had a table of block starts or none, by who made the last change.
    tables: BTreeMap<String, u64>,
    counts: Counts,
}

/// Runs the task and prints its table. Sequences with a difference are counted, not an error of their own.
pub(crate) fn run(args: &Args) -> Result<Counts> {
    let started = Instant::now();
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(|| clock() % 1_000_000_000);
    println!("by turns with {}: {} sequences, --seed {seed}", python::PEER.join(", "), args.sequences);
    let python = python::environment(python::PEER)?;
    let folder = tempfile::Builder::new().prefix("pingpong-").tempdir_in(root::target().join("xtask"))?;
    let (arrays, frames) = match args.only {
        None => (args.sequences.div_ceil(2), args.sequences / 2),
        Some(Kind::Arrays) => (args.sequences, 0),
        Some(Kind::Frames) => (0, args.sequences),
    };
    watchdog::start(seed);
    let mut report = Report::default();
    for (kind, count) in [("arrays", arrays), ("frames", frames)] {
        let last = args.first + count;
        let mut next = args.first;
        while next < last {
            let mut command = python::script(&python, "pingpong.py");
            command.args(["--kind", kind, "--seed", &seed.to_string(), "--first", &next.to_string()]);
            command.args(["--last", &last.to_string(), "--dir"]).arg(folder.path());
            next = worker(command, kind, next, last, &mut report)?;
        }
    }
    report.print();
    let Counts { passed, failed } = report.counts;
    println!("seed {seed}, {:.1} s", started.elapsed().as_secs_f64());
    ensure!(passed + failed == args.sequences, "only {} sequences were run", passed + failed);
    if failed > 0 {
        println!("files of the sequences with a difference are in {}", folder.keep().display());
    }
    Ok(report.counts)
}

/// Runs sequences in one Python process until it ends. Returns the first remaining sequence.
fn worker(
    command: std::process::Command,
    kind: &'static str,
    first: u64,
    last: u64,
    report: &mut Report,
) -> Result<u64> {
    let mut peer = Peer::start(command)?;
    let mut ours = Ours::default();
    let mut log: Vec<String> = Vec::new();
    let mut changed = String::new();
    let mut next = first;
    while next < last {
        let dead = match peer.receive()? {
            Reply::Line(message) => {
                if let Some(number) = message["begin"].as_u64() {
                    ensure!(number == next, "sequence {number} came instead of {next}");
                    // Every second sequence uses tables of block starts.
                    ours = Ours { block_starts: number.is_multiple_of(2), ..Ours::default() };
                    changed = "creating".to_owned();
                    log.clear();
                } else if let Some(words) = message["do"].as_array() {
                    let name = words.first().and_then(Value::as_str).context("no operation")?;
                    let reading = name.starts_with("read");
                    if !reading && name != "open" && name != "commit" {
                        report.count(kind, "this project", name.trim_end_matches(" chunk"));
                    }
                    let _work = watchdog::enter(&format!("{kind} {next}"));
                    let reply = ours.answer(words);
                    if name == "commit" {
                        changed = "a commit of ours".to_owned();
                    }
                    if let (true, Some(found)) = (ours.block_starts, reply["block starts"].as_bool()) {
                        let found = if found { "a table" } else { "no table" };
                        *report.tables.entry(format!("after {changed}: {found}")).or_default() += 1;
                    }
                    if !reading || reply["error"].is_string() {
                        let error = reply["error"].as_str().unwrap_or("ok");
                        log.push(format!("this project: {}: {error}", json!(words)));
                    }
                    peer.send(&reply);
                } else if let Some(name) = message["note"].as_str() {
                    report.count(kind, "C-Blosc2", name);
                    changed = format!("{name} by C-Blosc2");
                    log.push(format!("C-Blosc2: {name} {}", message["text"].as_str().unwrap_or("")));
                } else if let Some(reason) = message["excluded"].as_str() {
                    *report.excluded.entry(reason.to_owned()).or_default() += 1;
                } else if let Some(change) = message["verdict"].as_str() {
                    *report.verdicts.entry(change.to_owned()).or_default() += 1;
                } else if message["end"].as_u64() == Some(next) {
                    match message["wrong"].as_str() {
                        None => report.counts.passed += 1,
                        Some(wrong) => report.fail(kind, next, &log, wrong),
                    }
                    next += 1;
                } else {
                    bail!("the peer said {message}");
                }
                continue;
            }
            Reply::Ended(status) => format!("C-Blosc2 died: {status}"),
            Reply::Silent => "C-Blosc2 hangs".to_owned(),
        };
        report.fail(kind, next, &log, &dead);
        return Ok(next + 1);
    }
    Ok(next)
}

impl Report {
    fn count(&mut self, kind: &'static str, side: &'static str, operation: &str) {
        let name = operation.trim_end_matches(" array").trim_end_matches(" frame");
        *self.operations.entry((kind, side, name.to_owned())).or_default() += 1;
    }

    fn fail(&mut self, kind: &str, number: u64, log: &[String], wrong: &str) {
        self.counts.failed += 1;
        println!("DIFFERENCE in {kind}, sequence {number}: {wrong}");
        for line in log {
            println!("    {line}");
        }
    }

    fn print(&self) {
        println!("{:8} {:14} {:14} {:>8}", "kind", "side", "operation", "count");
        for ((kind, side, name), count) in &self.operations {
            println!("{kind:8} {side:14} {name:14} {count:8}");
        }
        for (reason, count) in &self.excluded {
            println!("left out {count} times: {reason}");
        }
        for (change, count) in &self.verdicts {
            println!("checksums, {change}: {count} times");
        }
        for (what, count) in &self.tables {
            println!("block starts, {what}: {count} times");
        }
        let Counts { passed, failed } = self.counts;
        let operations: u64 = self.operations.values().sum();
        println!("{operations} operations, {} sequences, {failed} with a difference", passed + failed);
    }
}

/// Costs of a remote reader, which uses the table of block starts even for small chunks.
const FAR: ReadCosts = ReadCosts { small: 100, head: 64, ..ReadCosts::REMOTE };

/// What this project has open.
#[derive(Default)]
struct Ours {
    array: Option<ArrayEditor>,
    frame: Option<FrameEditor>,
    /// Whether frames get a table of block starts.
    block_starts: bool,
}

impl Ours {
    /// Executes a request. A panic counts as an error.
    fn answer(&mut self, words: &[Value]) -> Value {
        let mut checker = Checker::default();
        let reply = checker.get("", || self.work(words).map_err(|e| format!("{e:#}")));
        reply.unwrap_or_else(|| json!({ "error": checker.failures.pop().map(|(_, message)| message) }))
    }

    fn work(&mut self, words: &[Value]) -> Result<Value> {
        let at = |i: usize| words.get(i).with_context(|| format!("word {i} is missing"));
        let text = |i: usize| at(i)?.as_str().context("not a text");
        let number = |i: usize| at(i)?.as_u64().context("not a number");
        let name = text(0)?;
        match name {
            "create array" | "create frame" => create(words)?,
            "read array" => {
                let array = NdArray::open(text(1)?)?;
                let items = array.all().read_bytes()?;
                let far =
                    NdArray::options().frame_options(SuperChunk::options().costs(FAR)).open(text(1)?)?;
                ensure!(far.all().read_bytes()? == items, "read as from far away, the items are others");
                if let [len, ..] = *array.shape()
                    && len > 0
                {
                    for at in [0, len / 3, len - 1] {
                        let row = |array: &NdArray| -> Result<Vec<u8>> {
                            Ok(array.slice(Selection::from(i64::try_from(at)?))?.read_bytes()?)
                        };
                        ensure!(row(&far)? == row(&array)?, "read as from far away, row {at} is another one");
                    }
                }
                fs::write(text(2)?, items)?;
                let frame = array.super_chunk();
                let (checksums, starts) = (verdict(frame)?, frame.block_starts_len().is_some());
                return Ok(json!({ "shape": array.shape(), "checksums": checksums, "block starts": starts }));
            }
            "read frame" => return read_frame(Path::new(text(1)?)),
            "open" => self.open(Path::new(text(1)?))?,
            "add checksums" | "remove checksums" => {
                let options = FrameEditor::options().durability(Durability::None);
                let mut editor = options.edit(text(1)?)?;
                editor.set_checksums(name == "add checksums")?;
                editor.commit()?;
            }
            "commit" => {
                // Drop these even after an error, because they hold a lock.
                if let Some(mut editor) = self.array.take() {
                    editor.commit()?;
                }
                if let Some(mut editor) = self.frame.take() {
                    editor.commit()?;
                }
            }
            _ if self.array.is_some() => {
                let editor = self.array.as_mut().context("no array")?;
                match name {
                    "set" => editor.set_bytes(selection(at(1)?)?, &fs::read(text(2)?)?)?,
                    "fill" => editor.set(selection(at(1)?)?, Fill::item(fs::read(text(2)?)?))?,
                    "resize" => editor.resize(&numbers(at(1)?)?)?,
                    "append" => {
                        editor.append(number(1)? as usize, fs::read(text(4)?)?.with_length(number(3)?))?;
                    }
                    "insert" => {
                        let data = fs::read(text(4)?)?;
                        editor.insert(number(1)? as usize, number(2)?, data.with_length(number(3)?))?;
                    }
                    "delete" => editor.delete(number(1)? as usize, number(2)?..number(3)?)?,
                    _ => bail!("unknown operation"),
                }
            }
            _ => {
                let editor = self.frame.as_mut().context("nothing is open")?;
                match name {
                    "append chunk" => {
                        let data = fs::read(text(2)?)?;
                        // A frame that C-Blosc2 has emptied does not define a chunk size. In that case this is the
                        // first chunk, which defines it.
                        if editor.chunksize() == data.len() {
                            editor.append_bytes(&data)?;
                        } else {
                            editor.insert_bytes(editor.nchunks(), &data)?;
                        }
                    }
                    "insert chunk" => editor.insert_bytes(number(1)? as usize, &fs::read(text(2)?)?)?,
                    "update chunk" => editor.update_bytes(number(1)? as usize, &fs::read(text(2)?)?)?,
                    "delete chunk" => editor.delete(number(1)? as usize)?,
                    "set layer" => editor.set_vlmetalayer(text(1)?, &fs::read(text(2)?)?)?,
                    "remove layer" => ensure!(editor.remove_vlmetalayer(text(1)?), "no such vlmetalayer"),
                    _ => bail!("unknown operation"),
                }
            }
        }
        Ok(json!({}))
    }

    fn open(&mut self, path: &Path) -> Result<()> {
        // These tests do not simulate power losses.
        let options = FrameEditor::options().durability(Durability::None);
        if SuperChunk::open(path)?.metalayers().get("b2nd").is_some() {
            let mut frame = options.edit(path)?;
            frame.set_block_starts(self.block_starts)?;
            self.array = Some(ArrayEditor::new(frame)?);
        } else {
            let mut frame = options.edit(path)?;
            frame.set_block_starts(self.block_starts)?;
            self.frame = Some(frame);
        }
        Ok(())
    }
}

fn read_frame(path: &Path) -> Result<Value> {
    let schunk = SuperChunk::open(path)?;
    let chunk = |nchunk| Ok(to_hex(&schunk.decompress_chunk(nchunk)?));
    let chunks: Vec<String> = (0..schunk.nchunks()).map(chunk).collect::<Result<_>>()?;
    let mut layers = BTreeMap::new();
    for name in schunk.vlmetalayers().names() {
        let value = schunk.vlmetalayers().get(&*name)?.context("a vlmetalayer without a value")?;
        layers.insert(name.into_owned(), to_hex(&value));
    }
    let far = schunk.clone().with_costs(FAR);
    let mut start = 0;
    for nchunk in 0..schunk.nchunks() {
        let plain = schunk.decompress_chunk(nchunk)?;
        for at in [0, plain.len() / 3, plain.len().saturating_sub(1)] {
            let end = plain.len().min(at + 1);
            let read = far.read_bytes(start + at as u64..start + end as u64)?;
            ensure!(read == plain[at..end], "read as from far away, chunk {nchunk} is another one");
        }
        start += plain.len() as u64;
    }
    let (checksums, starts) = (verdict(&schunk)?, schunk.block_starts_len().is_some());
    Ok(json!({ "chunks": chunks, "layers": layers, "checksums": checksums, "block starts": starts }))
}

/// Returns the result of the checksums; damage is an error.
fn verdict(schunk: &SuperChunk) -> Result<&'static str> {
    Ok(match schunk.verify_checksums()? {
        Checksums::None => "none",
        Checksums::Ok => "ok",
        Checksums::Changed => "changed",
    })
}

fn create(words: &[Value]) -> Result<()> {
    match words {
        [_, path, shape, chunks, blocks, dtype, codec, clevel, filters, contiguous, items] => {
            let path = PathBuf::from(path.as_str().context("path")?);
            let dtype = Dtype::parse(dtype.as_str().context("dtype")?)?;
            let small = |value| -> Result<Vec<u32>> {
                numbers(value)?.into_iter().map(|n| Ok(u32::try_from(n)?)).collect()
            };
            let cparams = cparams(dtype.itemsize(), codec, clevel, filters)?;
            let builder = ArrayBuilder::with_dtype(numbers(shape)?, dtype).compression(cparams);
            let builder = builder.chunks(small(chunks)?).blocks(small(blocks)?);
            let items = fs::read(items.as_str().context("items")?)?;
            match contiguous.as_bool() {
                Some(true) => builder.write(path, &items[..])?,
                _ => builder.storage(Storage::Sparse).write(path, &items[..])?,
            }
        }
        [_, path, typesize, chunksize, codec, clevel, filters, contiguous] => {
            let path = PathBuf::from(path.as_str().context("path")?);
            let typesize = typesize.as_u64().context("typesize")? as usize;
            let chunksize = chunksize.as_u64().context("chunksize")? as usize;
            let cparams = cparams(typesize, codec, clevel, filters)?;
            let params = FrameParams::from_cparams(&cparams).chunksize(chunksize);
            let options = FrameWriter::options().durability(Durability::None);
            let storage = match contiguous.as_bool() {
                Some(true) => Storage::Contiguous,
                _ => Storage::Sparse,
            };
            FrameEditor::create(path, params, &options.storage(storage))?;
        }
        _ => bail!("wrong number of words"),
    }
    Ok(())
}

fn cparams(typesize: usize, codec: &Value, clevel: &Value, filters: &Value) -> Result<CParams> {
    let codec = match codec.as_str() {
        Some("lz4") => CodecId::LZ4,
        Some("zstd") => CodecId::ZSTD,
        Some("blosclz") => CodecId::BLOSCLZ,
        Some("zlib") => CodecId::ZLIB,
        _ => bail!("unknown codec"),
    };
    let slot = |id| Ok(FilterSlot { id: FilterId(u8::try_from(id)?), meta: 0 });
    let slots: Vec<FilterSlot> = numbers(filters)?.into_iter().map(slot).collect::<Result<_>>()?;
    let clevel = clevel.as_u64().context("clevel")? as u8;
    Ok(CParams::builder(typesize).codec(codec).level(clevel).filters(&slots).build()?)
}

fn numbers(value: &Value) -> Result<Vec<u64>> {
    let list = value.as_array().context("not a list")?;
    list.iter().map(|n| n.as_u64().context("not a number")).collect()
}

/// Parses an index, or start, stop and step, for each dimension.
fn selection(value: &Value) -> Result<Vec<Selection>> {
    let dim = |dim: &Value| match dim.as_array().map(Vec::as_slice) {
        None => Ok(Selection::from(dim.as_i64().context("not an index")?)),
        Some([start, stop, step]) => {
            let step = step.as_i64().unwrap_or(1);
            Ok(Selection::Range { start: start.as_i64(), stop: stop.as_i64(), step })
        }
        Some(_) => bail!("not a slice"),
    };
    value.as_array().context("not a list")?.iter().map(dim).collect()
}
