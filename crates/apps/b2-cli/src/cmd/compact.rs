//! `b2kit compact`

use std::fs;
use std::path::Path;

use anyhow::Result;
use b2kit::frame::CommitReport;
use b2kit::{FrameEditor, SuperChunk};

use crate::args::Global;
use crate::print::short_size;
use crate::write::{Target, Targets, VlmetaLimit};

const EXAMPLES: &str = "\
Examples:
  b2kit compact data.b2nd
  b2kit compact *.b2nd
  b2kit compact --dry-run *.b2nd            what that would give back

A file whose chunks, index or vlmetalayers were changed has holes, since nothing
is overwritten. Chunks are copied as they are. There must be room for a second
file of the size that is left.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let plan = |_: &Target, frame: &SuperChunk| {
        Ok(match frame.dead_bytes()? {
            0 => "no holes".into(),
            dead => format!("{} would be freed", short_size(dead)),
        })
    };
    args.targets.each(global, plan, |target| {
        target.change(global, || {
            let path = &target.path(global)?;
            // Measure the size first: opening the frame removes leftovers of an interrupted change.
            let before = size_on_disk(path).unwrap_or(0);
            compact(&mut target.frame(VlmetaLimit::Shared, global)?, path, before)
        })
    })
}

fn compact(frame: &mut FrameEditor, path: &Path, before: u64) -> Result<(String, CommitReport)> {
    let committed = if frame.dead_bytes()? == 0 { Some(frame.commit()?) } else { None };
    // If the commit dropped checksums, there is a hole now.
    if let Some(committed) = committed
        && frame.dead_bytes()? == 0
    {
        let removed = before.saturating_sub(size_on_disk(path)?);
        let what = match removed {
            0 => "no holes".into(),
            n => {
                format!("no holes; {} left after the frame by an interrupted change freed", short_size(n))
            }
        };
        return Ok((what, committed));
    }
    let committed = frame.compact()?;
    let after = size_on_disk(path)?;
    let saved = short_size(before.saturating_sub(after));
    Ok((format!("{saved} freed, {} now", short_size(after)), committed))
}

/// Size of a file, or of all files of a sparse frame, in bytes.
fn size_on_disk(path: &Path) -> Result<u64> {
    let there = fs::metadata(path)?;
    if !there.is_dir() {
        return Ok(there.len());
    }
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}
