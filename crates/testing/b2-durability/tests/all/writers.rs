//! Three threads of ours and three processes with C-Blosc2 append to one frame, all with locking. No append may be lost.

use std::path::Path;
use std::process::{Child, Command};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::chunk::{CParams, Compression};
use b2kit::frame::{Durability, FrameParams, Storage};
use b2kit::{Chunk, CodecId, FrameEditor, FrameWriter, SuperChunk};

use crate::number;

/// Size of each appended chunk, in bytes.
const CHUNKSIZE: usize = 800;

#[test]
#[ignore = "needs Python with blosc2, named by B2KIT_PEER"]
fn no_append_of_six_writers_is_lost() -> Result<()> {
    let appends = u32::try_from(number("B2KIT_APPENDS", 50)?)?;
    let folder = tempfile::tempdir()?;
    for storage in [Storage::Contiguous, Storage::Sparse] {
        six_writers(&folder.path().join(format!("{storage:?}")), storage, appends)
            .with_context(|| format!("{storage:?}"))?;
    }
    Ok(())
}

fn six_writers(path: &Path, storage: Storage, appends: u32) -> Result<()> {
    let python = std::env::var_os("B2KIT_PEER").context("B2KIT_PEER must name a Python")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/append_locked.py");
    let params = FrameParams::from_cparams(&cparams()?).chunksize(CHUNKSIZE);
    FrameWriter::options().storage(storage).create(path, params)?.finish()?;
    let theirs = |writer: u32| {
        let mut command = Command::new(&python);
        command.arg("-B").arg(&script).arg(path).args([writer.to_string(), appends.to_string()]);
        command.env("BLOSC_NTHREADS", "1").spawn()
    };
    let children: Vec<Child> = (3..6).map(theirs).collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let ours: Vec<_> = (0..3).map(|writer| scope.spawn(move || append(path, writer, appends))).collect();
        ours.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a writer panicked"))?)
    })?;
    for mut child in children {
        let status = child.wait()?;
        ensure!(status.success(), "a writer ended with {status}");
    }
    let frame = SuperChunk::open(path)?;
    let mut seen = [0u32; 6];
    for nchunk in 0..frame.nchunks() {
        let chunk = frame.chunk(nchunk).decompress()?;
        let (writer, number) = numbers(&chunk).with_context(|| format!("chunk {nchunk} is damaged"))?;
        let next = seen.get_mut(writer as usize).context("a chunk of an unknown writer")?;
        ensure!(number == *next, "chunk {nchunk}: append {number} of writer {writer}, expected {next}");
        *next += 1;
    }
    ensure!(seen == [appends; 6], "appends were lost: {seen:?}");
    Ok(())
}

fn cparams() -> Result<CParams> {
    Ok(Compression::new().itemsize(8).codec(CodecId::BLOSCLZ).build()?)
}

/// Does the same as append_locked.py.
fn append(path: &Path, writer: u32, count: u32) -> Result<()> {
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
