//! `cargo xtask pingpong`: this project and C-Blosc2 take turns changing the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use b2kit::chunk::{CParams, Compression, FilterSlot};
use b2kit::frame::{Checksums, Durability, Storage};
use b2kit::frame::{FrameParams, ReadTuning};
use b2kit::{
    ArrayBuilder, ArrayEditor, CodecId, Dtype, FilterId, FrameEditor, FrameWriter, NdArray, RegionSource,
    Selection, SuperChunk, source,
};
use serde_json::{Value, json};

use crate::conformance::checker::{caught, to_hex};
use crate::conformance::peer::{Peer, Reply};
use crate::conformance::{CaseCounts, watchdog};
use crate::{python, root};

/// Change files in turn with C-Blosc2: random sequences of operations, alternating between the sides.
///
/// The files are contiguous and sparse, and created by either side. After each turn both sides read the whole file,
/// which is compared with the expected content. The checksums must then match the history: they never report damage,
/// and never that the file is unchanged after C-Blosc2 has changed data. C-Blosc2 runs in a separate process that is
/// restarted when it crashes or hangs, which counts as a difference. Its known defects are skipped, with their number
/// and reason in the table.
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
    only: Option<FileKind>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FileKind {
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

/// The changes, for the table.
#[derive(Default)]
struct ChangeReport {
    /// Counts by kind of file, side and operation.
    operations: BTreeMap<(&'static str, &'static str, String), u64>,
    /// Counts of skipped results by reason, of checksum results after changes by C-Blosc2, and of frames with or
    /// without block starts by the side of the last change.
    notes: BTreeMap<String, u64>,
    counts: CaseCounts,
}

/// Runs the task and prints its table. Sequences with a difference are counted, but are not an error here.
pub(crate) fn run(args: &Args) -> Result<CaseCounts> {
    let started = Instant::now();
    let seed = root::seed(args.seed);
    println!("in turn with {}: {} sequences, --seed {seed}", python::PEER.join(", "), args.sequences);
    let python = python::environment(python::PEER)?;
    let folder = root::temporary("pingpong-")?;
    let (arrays, frames) = match args.only {
        None => (args.sequences.div_ceil(2), args.sequences / 2),
        Some(FileKind::Arrays) => (args.sequences, 0),
        Some(FileKind::Frames) => (0, args.sequences),
    };
    watchdog::start(seed);
    let mut report = ChangeReport::default();
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
    let CaseCounts { passed, failed } = report.counts;
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
    report: &mut ChangeReport,
) -> Result<u64> {
    let mut peer = Peer::start(command)?;
    let mut ours = OpenFile::default();
    let mut log: Vec<String> = Vec::new();
    let mut changed = String::new();
    let mut next = first;
    while next < last {
        let dead = match peer.receive()? {
            Reply::Line(message) => {
                if let Some(number) = message["begin"].as_u64() {
                    ensure!(number == next, "sequence {number} came instead of {next}");
                    // Every second sequence uses tables of block starts.
                    ours = OpenFile { block_starts: number.is_multiple_of(2), ..OpenFile::default() };
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
                        report.note(format!("block starts, after {changed}: {found}"));
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
                    report.note(format!("left out, {reason}"));
                } else if let Some(change) = message["verdict"].as_str() {
                    report.note(format!("checksums, {change}"));
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

impl ChangeReport {
    fn count(&mut self, kind: &'static str, side: &'static str, operation: &str) {
        let name = operation.trim_end_matches(" array").trim_end_matches(" frame");
        *self.operations.entry((kind, side, name.to_owned())).or_default() += 1;
    }

    fn note(&mut self, what: String) {
        *self.notes.entry(what).or_default() += 1;
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
        for (what, count) in &self.notes {
            println!("{what}: {count} times");
        }
        let CaseCounts { passed, failed } = self.counts;
        let operations: u64 = self.operations.values().sum();
        println!("{operations} operations, {} sequences, {failed} with a difference", passed + failed);
    }
}

/// Costs of a remote reader, which uses the table of block starts even for small chunks.
const REMOTE_TUNING: ReadTuning = ReadTuning::REMOTE.whole_chunk_max(100).head_len(64);

/// The file that this project has open.
#[derive(Default)]
struct OpenFile {
    array: Option<ArrayEditor>,
    frame: Option<FrameEditor>,
    /// Whether frames get a table of block starts.
    block_starts: bool,
}

impl OpenFile {
    /// Executes a request. A panic counts as an error.
    fn answer(&mut self, words: &[Value]) -> Value {
        caught(|| self.work(words)).unwrap_or_else(|error| json!({ "error": format!("{error:#}") }))
    }

    fn work(&mut self, words: &[Value]) -> Result<Value> {
        let at = |i: usize| words.get(i).with_context(|| format!("word {i} is missing"));
        let text = |i: usize| at(i)?.as_str().context("not a text");
        let number = |i: usize| at(i)?.as_u64().context("not a number");
        let data = |i: usize| Ok::<_, anyhow::Error>(fs::read(text(i)?)?);
        // These tests do not simulate power losses.
        let options = FrameEditor::options().durability(Durability::None);
        match (text(0)?, &mut self.array, &mut self.frame) {
            ("create array", ..) => create_array(words)?,
            ("create frame", ..) => create_frame(words)?,
            ("read array", ..) => return read_array(Path::new(text(1)?), Path::new(text(2)?)),
            ("read frame", ..) => return read_frame(Path::new(text(1)?)),
            ("open", array, frame) => {
                let mut editor = options.edit(text(1)?)?;
                editor.set_block_starts(self.block_starts)?;
                match SuperChunk::open(text(1)?)?.metalayers().get("b2nd") {
                    Some(_) => *array = Some(ArrayEditor::new(editor)?),
                    None => *frame = Some(editor),
                }
            }
            (name @ ("add checksums" | "remove checksums"), ..) => {
                let mut editor = options.edit(text(1)?)?;
                editor.set_checksums(name == "add checksums")?;
                editor.commit()?;
            }
            ("commit", array, frame) => {
                // Drop these even after an error, because they hold a lock.
                let (array, frame) = (array.take(), frame.take());
                array.map(|mut editor| editor.commit()).transpose()?;
                frame.map(|mut editor| editor.commit()).transpose()?;
            }
            ("set", Some(array), _) => array.set_bytes(selection(at(1)?)?, &data(2)?)?,
            ("fill", Some(array), _) => array.set(selection(at(1)?)?, source::item(data(2)?))?,
            ("resize", Some(array), _) => array.resize(&parsed::<Vec<u64>>(at(1)?)?)?,
            ("append", Some(array), _) => {
                array.append(number(1)? as usize, data(4)?.with_length(number(3)?))?;
            }
            ("insert", Some(array), _) => {
                array.insert(number(1)? as usize, number(2)?, data(4)?.with_length(number(3)?))?;
            }
            ("delete", Some(array), _) => array.delete(number(1)? as usize, number(2)?..number(3)?)?,
            ("append chunk", _, Some(frame)) => {
                let data = data(2)?;
                // A frame that C-Blosc2 has emptied does not define a chunk size. In that case this is the
                // first chunk, which defines it.
                if frame.chunksize() == data.len() {
                    frame.append_bytes(&data)?;
                } else {
                    frame.insert_bytes(frame.nchunks(), &data)?;
                }
            }
            ("insert chunk", _, Some(frame)) => frame.insert_bytes(number(1)? as usize, &data(2)?)?,
            ("update chunk", _, Some(frame)) => frame.update_bytes(number(1)? as usize, &data(2)?)?,
            ("delete chunk", _, Some(frame)) => frame.delete(number(1)? as usize)?,
            ("set layer", _, Some(frame)) => frame.vlmeta().set(text(1)?, &data(2)?)?,
            ("remove layer", _, Some(frame)) => {
                ensure!(frame.vlmeta().remove(text(1)?), "no such vlmetalayer");
            }
            _ => bail!("unknown operation, or nothing is open"),
        }
        Ok(json!({}))
    }
}

/// Reads all items, which go to the file `items`, and some rows as from remote storage.
fn read_array(path: &Path, items: &Path) -> Result<Value> {
    let array = NdArray::open(path)?;
    let all = array.all().read_bytes()?;
    let remote = NdArray::open_with(path, &SuperChunk::options().tuning(REMOTE_TUNING))?;
    ensure!(remote.all().read_bytes()? == all, "read as from remote storage, the items differ");
    if let [len, ..] = *array.shape()
        && len > 0
    {
        for at in [0, len / 3, len - 1] {
            let row = |array: &NdArray| -> Result<Vec<u8>> {
                Ok(array.slice(Selection::from(i64::try_from(at)?))?.read_bytes()?)
            };
            ensure!(row(&remote)? == row(&array)?, "read as from remote storage, row {at} differs");
        }
    }
    fs::write(items, all)?;
    let frame = array.super_chunk();
    let (checksums, starts) = (verdict(frame)?, frame.block_starts_len().is_some());
    Ok(json!({ "shape": array.shape(), "checksums": checksums, "block starts": starts }))
}

fn read_frame(path: &Path) -> Result<Value> {
    let schunk = SuperChunk::open(path)?;
    let chunk = |nchunk| Ok(to_hex(&schunk.chunk(nchunk).decompress()?));
    let chunks: Vec<String> = (0..schunk.nchunks()).map(chunk).collect::<Result<_>>()?;
    let mut layers = BTreeMap::new();
    for name in schunk.vlmetalayers().names() {
        let value = schunk.vlmetalayers().get(&*name)?.context("a vlmetalayer without a value")?;
        layers.insert(name.into_owned(), to_hex(&value));
    }
    let remote = schunk.clone().with_tuning(REMOTE_TUNING);
    let mut start = 0;
    for nchunk in 0..schunk.nchunks() {
        let plain = schunk.chunk(nchunk).decompress()?;
        for at in [0, plain.len() / 3, plain.len().saturating_sub(1)] {
            let end = plain.len().min(at + 1);
            let read = remote.read_bytes(start + at as u64..start + end as u64)?;
            ensure!(read == plain[at..end], "read as from remote storage, chunk {nchunk} differs");
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

/// Parses a word, or all of them.
fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).with_context(|| value.to_string())
}

/// Codec, level, filters, and whether the file is contiguous.
type StorageParams = (String, u8, Vec<u8>, bool);

fn create_array(words: &[Value]) -> Result<()> {
    let (path, shape, chunks, blocks, dtype): (PathBuf, Vec<u64>, Vec<u32>, Vec<u32>, String) =
        parsed(&words[1..6].into())?;
    let (written, items): (StorageParams, PathBuf) = (parsed(&words[6..10].into())?, parsed(&words[10])?);
    let dtype = Dtype::parse(&dtype)?;
    let cparams = cparams(dtype.itemsize(), &written)?;
    let builder = ArrayBuilder::of_dtype(shape, dtype).compression(cparams).chunks(chunks).blocks(blocks);
    Ok(builder.storage(storage(&written)).write(path, &fs::read(items)?[..])?)
}

fn create_frame(words: &[Value]) -> Result<()> {
    let (path, typesize, chunksize): (PathBuf, usize, usize) = parsed(&words[1..4].into())?;
    let written: StorageParams = parsed(&words[4..8].into())?;
    let params = FrameParams::from_cparams(&cparams(typesize, &written)?).chunksize(chunksize);
    let options = FrameWriter::options().durability(Durability::None).storage(storage(&written));
    FrameEditor::create(path, params, &options)?;
    Ok(())
}

fn storage((.., contiguous): &StorageParams) -> Storage {
    if *contiguous { Storage::Contiguous } else { Storage::Sparse }
}

fn cparams(typesize: usize, (codec, clevel, filters, _): &StorageParams) -> Result<CParams> {
    let codec = CodecId::from_name(codec).context("unknown codec")?;
    let slots: Vec<FilterSlot> = filters.iter().map(|id| FilterSlot::new(FilterId(*id), 0)).collect();
    Ok(Compression::new().itemsize(typesize).codec(codec).level(*clevel).filters(&slots).build()?)
}

/// Parses an index, or start, stop and step, for each dimension.
fn selection(value: &Value) -> Result<Vec<Selection>> {
    let dim = |dim: &Value| -> Result<Selection> {
        if let Some(at) = dim.as_i64() {
            return Ok(Selection::from(at));
        }
        let (start, stop, step): (Option<i64>, Option<i64>, Option<i64>) = parsed(dim)?;
        Ok(Selection::Range { start, stop, step: step.unwrap_or(1) })
    };
    value.as_array().context("not a list")?.iter().map(dim).collect()
}
