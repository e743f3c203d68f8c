//! `cargo xtask crash`: crashes, power losses, I/O errors, kills and concurrent writers, checked by C-Blosc2.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use b2kit::chunk::{CParams, Compression};
use b2kit::frame::Durability;
use b2kit::frame::{FrameParams, Storage};
use b2kit::{Chunk, CodecId, FrameEditor, FrameWriter, SuperChunk};

use crate::sh::{self, Counts};
use crate::{python, root};

/// Run the crash tests with counts: each operation is killed after and in each write, loses power in 1,000 ways, and
/// meets an error at each call; processes are killed; many write and read at once. C-Blosc2 judges a sample.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lose power in 10,000 ways for each operation, kill 2,000 processes, read beside 8,000 commits.
    #[arg(long)]
    long: bool,
    /// Power losses for each operation.
    #[arg(long, conflicts_with = "long")]
    states: Option<u64>,
    /// Seed of the power losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out C-Blosc2 (no Python needed).
    #[arg(long)]
    no_peer: bool,
    /// Be one of the writers: append to a frame.
    #[arg(long, hide = true, num_args = 3, value_names = ["PATH", "WRITER", "COUNT"])]
    append: Option<Vec<String>>,
}

/// Number of states that C-Blosc2 checks, for each operation and kind of state.
const JUDGED: &str = "60";
/// The same within `cargo xtask test`.
const JUDGED_FEW: &str = "6";
/// Number of appends by each of six writers.
const APPENDS: u32 = 500;
/// Size of each appended chunk, in bytes.
const CHUNKSIZE: usize = 800;

/// The tests in modules with these prefixes.
const TESTS: &str =
    "test --no-fail-fast -p b2-frame -p b2nd --test all -- crash_ --nocapture --test-threads=2";

/// Runs all crash tests; returns an error if any of them fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(append) = &args.append {
        return append_chunks(append);
    }
    let states = args.states.unwrap_or(if args.long { 10_000 } else { 1000 });
    let peer = if args.no_peer { None } else { Some(python::environment(python::PEER)?) };
    let mut command = sh::cargo(&Vec::from_iter(TESTS.split(' ')));
    command.env("B2KIT_CRASH_STATES", states.to_string()).env("B2KIT_CRASH_SEED", args.seed.to_string());
    if args.long {
        command.env("B2KIT_CRASH_KILLS", "1000").env("B2KIT_CRASH_COMMITS", "4000");
    }
    if peer.is_some() {
        dump_states(&mut command, JUDGED)?;
    }
    let mut total = sh::run_tests(command)?;
    match &peer {
        Some(python) => total.add_counts(judge(python, APPENDS)?),
        None => println!("C-Blosc2: NOT RUN (--no-peer)"),
    }
    println!();
    total.print("crashes");
    total.verdict()
}

/// Makes a test command write a small sample of states for [`judge_few`].
pub(crate) fn dump_few(command: &mut Command) -> Result<()> {
    dump_states(command, JUDGED_FEW)
}

/// Lets C-Blosc2 check the sample, and a shorter run of concurrent writers.
pub(crate) fn judge_few(python: &Path) -> Result<Counts> {
    judge(python, APPENDS / 10)
}

fn dump_states(command: &mut Command, states: &str) -> Result<()> {
    let folder = root::scratch("crash");
    root::empty(&folder)?;
    command.env("B2KIT_CRASH_DUMP", folder.join("states")).env("B2KIT_CRASH_DUMPS", states);
    Ok(())
}

fn judge(python: &Path, appends: u32) -> Result<Counts> {
    println!();
    let mut counts = judge_states(python)?;
    for storage in [Storage::Contiguous, Storage::Sparse] {
        counts.add_counts(six_writers(python, storage, appends)?);
    }
    Ok(counts)
}

fn judge_states(python: &Path) -> Result<Counts> {
    let mut command = python::script(python, "check_crashes.py");
    command.arg("--dir").arg(root::scratch("crash/states")).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start C-Blosc2")?;
    let mut last = String::new();
    for line in BufReader::new(child.stdout.take().context("no pipe")?).lines() {
        last = line?;
        println!("{last}");
    }
    let status = child.wait()?;
    // `C-Blosc2: 96 states, 0 wrong`
    let numbers: Vec<u64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [states, wrong] = numbers[..] else { bail!("C-Blosc2 ended with {status} before it was done") };
    Ok(Counts { passed: states - wrong, failed: wrong })
}

/// Runs three writers that use C-Blosc2 and three of ours on one frame, all with locking. No append may be lost.
fn six_writers(python: &Path, storage: Storage, appends: u32) -> Result<Counts> {
    let folder = root::scratch("crash/writers");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{storage:?}"));
    let options = FrameWriter::options().overwrite(true);
    let params = FrameParams::from_cparams(&cparams()?).chunksize(CHUNKSIZE);
    let writer = options.storage(storage).create(&path, params);
    writer?.finish()?;
    let ours = |writer: u32| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["crash", "--append"]).arg(&path);
        command.args([writer.to_string(), appends.to_string()]).spawn()
    };
    let theirs = |writer: u32| {
        let mut command = python::script(python, "append_locked.py");
        command.arg(&path).args([writer.to_string(), appends.to_string()]).spawn()
    };
    let children: Vec<Child> = (0..6)
        .map(|writer| if writer < 3 { ours(writer) } else { theirs(writer) })
        .collect::<Result<_, _>>()?;
    for (writer, mut child) in children.into_iter().enumerate() {
        let status = child.wait()?;
        ensure!(status.success(), "writer {writer} ended with {status}");
    }
    let schunk = SuperChunk::open(&path)?;
    let mut seen = [0u32; 6];
    let mut wrong = 0u64;
    for nchunk in 0..schunk.nchunks() {
        let chunk = schunk.chunk(nchunk).decompress()?;
        let (writer, number) = numbers(&chunk).with_context(|| format!("chunk {nchunk} is damaged"))?;
        let next = seen.get_mut(writer as usize).context("a chunk of nobody")?;
        wrong += u64::from(number != *next);
        *next += 1;
    }
    let all = u64::from(appends) * 6;
    let lost = all.saturating_sub(schunk.nchunks() as u64) + wrong;
    println!("six writers, three of them C-Blosc2, {storage:?}: {all} appends, {lost} lost or out of order");
    Ok(Counts { passed: all - lost.min(all), failed: lost })
}

fn cparams() -> Result<CParams> {
    Ok(Compression::new().itemsize(8).codec(CodecId::BLOSCLZ).build()?)
}

/// Does the same as append_locked.py.
fn append_chunks(args: &[String]) -> Result<()> {
    let [path, writer, count] = args else { bail!("expected PATH WRITER COUNT") };
    let (writer, count): (u32, u32) = (writer.parse()?, count.parse()?);
    let cparams = cparams()?;
    for number in 0..count {
        let pair = [writer.to_le_bytes(), number.to_le_bytes()].concat();
        let mut editor = FrameEditor::options().durability(Durability::None).edit(path)?;
        editor.append(Chunk::compress_bytes(&pair.repeat(CHUNKSIZE / pair.len()), &cparams)?)?;
        editor.commit()?;
    }
    Ok(())
}

/// Returns the writer and the number of an intact chunk.
fn numbers(chunk: &[u8]) -> Option<(u32, u32)> {
    let (first, _) = chunk.split_first_chunk::<8>()?;
    if chunk.len() != CHUNKSIZE || chunk.chunks(8).any(|pair| pair != first) {
        return None;
    }
    let word = |at: usize| first[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    Some((word(0)?, word(4)?))
}
