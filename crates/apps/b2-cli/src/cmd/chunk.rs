//! `b2kit chunk`

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use b2kit::FrameEditor;
use b2kit::chunk::MAX_CHUNK_NBYTES;

use crate::args::Global;
use crate::print::{count, short_size};
use crate::process::buffer;
use crate::read::Operand;
use crate::write::{Editor, Target, edit};

const EXAMPLES: &str = "\
Examples:
  b2kit chunk append log.b2frame chunk.bin
  b2kit chunk insert log.b2frame 0 chunk.bin
  b2kit chunk update log.b2frame 3 - < chunk.bin
  b2kit chunk delete log.b2frame 3

IN holds the uncompressed bytes of one chunk. If its size differs from that of the
others, the frame has chunks of different sizes from then on. To add data at the
end, b2kit append fills up a short last chunk first and keeps all sizes equal.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a chunk at the end
    Append {
        #[command(flatten)]
        target: Target,
        /// An .npy file or raw bytes (-: standard input)
        #[arg(value_name = "IN")]
        input: PathBuf,
    },
    /// Insert a chunk before chunk N
    Insert {
        #[command(flatten)]
        target: Target,
        /// The number of the new chunk
        #[arg(value_name = "N")]
        nchunk: usize,
        /// An .npy file or raw bytes (-: standard input)
        #[arg(value_name = "IN")]
        input: PathBuf,
    },
    /// Replace chunk N
    Update {
        #[command(flatten)]
        target: Target,
        /// The number of the chunk
        #[arg(value_name = "N")]
        nchunk: usize,
        /// An .npy file or raw bytes (-: standard input)
        #[arg(value_name = "IN")]
        input: PathBuf,
    },
    /// Remove chunk N
    Delete {
        #[command(flatten)]
        target: Target,
        /// The number of the chunk
        #[arg(value_name = "N")]
        nchunk: usize,
    },
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    match &args.action {
        Action::Append { target, input } => change(target, Some(input), global, |frame, plain| {
            let nchunk = frame.nchunks();
            frame.insert_bytes(nchunk, plain)?;
            Ok(format!("chunk {nchunk} appended"))
        }),
        Action::Insert { target, nchunk, input } => change(target, Some(input), global, |frame, plain| {
            let nchunks = frame.nchunks();
            ensure!(
                *nchunk <= nchunks,
                "cannot insert at {nchunk}: there are {}",
                count(nchunks as u64, "chunk")
            );
            frame.insert_bytes(*nchunk, plain)?;
            Ok(format!("chunk {nchunk} inserted"))
        }),
        Action::Update { target, nchunk, input } => change(target, Some(input), global, |frame, plain| {
            check(frame, *nchunk)?;
            frame.update_bytes(*nchunk, plain)?;
            Ok(format!("chunk {nchunk} updated"))
        }),
        Action::Delete { target, nchunk } => change(target, None, global, |frame, _| {
            check(frame, *nchunk)?;
            frame.delete(*nchunk)?;
            Ok(format!("chunk {nchunk} deleted"))
        }),
    }
}

fn check(frame: &FrameEditor, nchunk: usize) -> Result<()> {
    let nchunks = frame.nchunks();
    ensure!(nchunk < nchunks, "no chunk {nchunk}: there are {}", count(nchunks as u64, "chunk"));
    Ok(())
}

fn change(
    target: &Target,
    input: Option<&PathBuf>,
    global: Global,
    operation: impl FnOnce(&mut FrameEditor, &[u8]) -> Result<String>,
) -> Result<()> {
    let input = input.map(|path| Operand::open(path, &target.file)).transpose()?;
    target.change(global, || {
        let opened = if input.is_some() { target.open_for_data(global) } else { target.open(global) };
        let Editor::SuperChunk(mut frame) = opened? else {
            bail!("this is an array: use append, insert, delete, set or resize");
        };
        edit::refuse_objects(&frame, true)?;
        let plain = match input {
            Some(input) => read(input, target, frame.itemsize(), global)?,
            None => vec![],
        };
        let what = operation(&mut frame, &plain)?;
        let committed = frame.commit()?;
        let (total, chunks) = (short_size(committed.nbytes), count(committed.nchunks as u64, "chunk"));
        Ok((format!("{what}, {total} in {chunks} now"), committed))
    })
}

/// Reads the uncompressed bytes of one chunk.
fn read(input: Operand, target: &Target, typesize: usize, global: Global) -> Result<Vec<u8>> {
    input.check_itemsize(typesize)?;
    let nbytes = input.nbytes();
    match nbytes {
        0 => bail!("{}: empty, but a chunk has at least one byte", input.name),
        n if n > MAX_CHUNK_NBYTES as u64 => {
            bail!("{}: {n} bytes, one chunk holds at most {MAX_CHUNK_NBYTES}", input.name)
        }
        _ => {}
    }
    let mut plain = buffer(usize::try_from(nbytes)?)?;
    input.into_bytes(&target.file, global.quiet)?.read(&[0], &[nbytes], &mut plain)?;
    Ok(plain)
}
