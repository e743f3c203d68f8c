//! Real kills: a process that appends is repeatedly killed at random times.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{cparams, data};
use b2_chunk::Chunk;
use b2_frame::{Durability, FrameEditor, FrameParams, FrameWriter, Storage, SuperChunk};
use b2_testkit::Rng;

/// Number of kills in each test; `B2KIT_CRASH_KILLS` overrides it.
const KILLS: u32 = 150;
/// Set for the process to be killed: the path of the frame.
const CHILD: &str = "B2KIT_CRASH_CHILD";
/// Set for the process to be killed: whether it syncs.
const SYNC: &str = "B2KIT_CRASH_CHILD_SYNC";
const CHUNKSIZE: usize = 400;
/// Compact after this many commits.
const COMPACT: usize = 8;

/// Returns the content of chunk `n`. Its version is how often it was updated.
fn plain(n: usize, version: usize) -> Vec<u8> {
    data(CHUNKSIZE, (n * 1000 + version) as u64)
}

/// Returns how often chunk `n` has been updated when there are `nchunks`: each append updates chunk `nchunks / 2`.
fn version(n: usize, nchunks: usize) -> usize {
    (1..=nchunks).filter(|after| after / 2 == n && *after > n + 1).count()
}

/// Appends until it is killed. Prints a line after each commit.
fn child(path: &Path) -> ! {
    let durability = if env::var_os(SYNC).is_some() { Durability::Sync } else { Durability::None };
    let mut editor = FrameEditor::options().durability(durability).edit(path).unwrap();
    let cparams = cparams(4);
    loop {
        let n = editor.nchunks();
        editor.append(Chunk::compress_bytes(&plain(n, 0), &cparams).unwrap()).unwrap();
        let nchunks = n + 1;
        let half = nchunks / 2;
        if half < n {
            let raw = plain(half, version(half, nchunks));
            editor.update(half, Chunk::compress_bytes(&raw, &cparams).unwrap()).unwrap();
        }
        editor.vlmeta().set("nchunks", nchunks.to_string().as_bytes()).unwrap();
        editor.commit().unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "committed {nchunks}").unwrap();
        out.flush().unwrap();
        drop(out);
        if nchunks % COMPACT == 0 {
            editor.compact().unwrap();
        }
    }
}

struct KilledWriter {
    /// Number of chunks in its last report.
    committed: Option<usize>,
}

/// Starts a process, kills it after `commits` commits and another `delay`, and returns what it reported.
fn kill(test: &str, path: &Path, sync: bool, commits: usize, delay: Duration) -> KilledWriter {
    let mut command = b2_storage_sim::program(env::current_exe().unwrap());
    command
        .args([
            "--exact",
            &format!("{}::{test}", module_path!().split_once("::").unwrap().1),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, path);
    if sync {
        command.env(SYNC, "1");
    }
    let mut child: Child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut killed = KilledWriter { committed: None };
    let mut hear = |line: std::io::Result<String>| {
        // The test harness may have written the start of the line.
        let line = line.unwrap();
        let number = line.split_once("committed ").map(|(_, number)| number.parse::<usize>().unwrap());
        killed.committed = number.or(killed.committed);
        usize::from(number.is_some())
    };
    let mut heard = 0;
    while heard < commits {
        match lines.next() {
            Some(line) => heard += hear(line),
            None => panic!("the writer ended by itself: {:?}", child.wait().unwrap()),
        }
    }
    thread::sleep(delay);
    child.kill().unwrap();
    for line in lines {
        hear(line);
    }
    let status = child.wait().unwrap();
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    // A program that panics ends with 101.
    #[cfg(windows)]
    assert_eq!(status.code(), Some(1), "{status}");
    killed
}

fn check(path: &Path, committed: usize, all: bool) -> usize {
    let schunk = SuperChunk::open(path).unwrap();
    let nchunks = schunk.nchunks();
    // One more commit may have completed than was reported.
    assert!((committed..=committed + 1).contains(&nchunks), "{nchunks} chunks, {committed} were committed");
    let said = schunk.vlmetalayers().get("nchunks").unwrap().unwrap();
    assert_eq!(said, nchunks.to_string().as_bytes());
    for n in (0..nchunks).filter(|n| all || *n + 40 > nchunks || n.abs_diff(nchunks / 2) < 20) {
        assert!(
            schunk.chunk(n).decompress().unwrap() == plain(n, version(n, nchunks)),
            "chunk {n} of {nchunks}"
        );
    }
    nchunks
}

fn run(test: &str, storage: Storage) {
    if let Some(path) = env::var_os(CHILD) {
        child(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frame");
    let params = FrameParams::from_cparams(&cparams(4)).chunksize(CHUNKSIZE);
    let mut writer = FrameWriter::options().storage(storage).create(&path, params).unwrap();
    writer.set_vlmetalayer("nchunks", b"0").unwrap();
    writer.finish().unwrap();

    let kills = env::var("B2KIT_CRASH_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut rng = Rng::case(std::process::id().into(), 0);
    let (mut committed, mut unheard, mut none) = (0, 0, 0);
    for round in 0..kills {
        // Sometimes before the first commit, sometimes after several.
        let commits = rng.below(6);
        let delay = Duration::from_micros(rng.next() % if commits == 0 { 20_000 } else { 2000 });
        let killed = kill(test, &path, rng.chance(50), commits, delay);
        none += u32::from(killed.committed.is_none());
        committed = killed.committed.unwrap_or(committed);
        let found = check(&path, committed, round % 25 == 0);
        unheard += found - committed;
        committed = found;
    }
    check(&path, committed, true);
    println!(
        "crash: {kills} processes killed, {storage:?}: {committed} commits, none lost; {none} killed before \
         their first commit was reported, {unheard} commits made but not reported"
    );
}

#[test]
fn killed_writers_lose_nothing_contiguous() {
    run("killed_writers_lose_nothing_contiguous", Storage::Contiguous);
}

#[test]
fn killed_writers_lose_nothing_sparse() {
    run("killed_writers_lose_nothing_sparse", Storage::Sparse);
}
