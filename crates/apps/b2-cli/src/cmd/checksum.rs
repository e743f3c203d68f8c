//! `b2kit checksum`

use anyhow::Result;
use b2kit::SuperChunk;
use b2kit::frame::Checksums;

use crate::args::Global;
use crate::cmd::verify::verify;
use crate::write::{Target, Targets, VlmetaLimit, refuse_url};

const EXAMPLES: &str = "\
Examples:
  b2kit checksum add old.b2nd        also for files of other programs
  b2kit checksum add *.b2nd
  b2kit checksum remove data.b2nd

New files have checksums, and b2kit keeps them up to date. They take 8 bytes per
chunk and per run of blocks in it. C-Blosc2 reads files with checksums, and
drops the checksums when it changes such a file.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Decode everything, then write checksums of the data
    Add {
        #[command(flatten)]
        targets: Targets,
    },
    /// Remove the checksums
    Remove {
        #[command(flatten)]
        targets: Targets,
    },
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let (targets, add) = match &args.action {
        Action::Add { targets } => (targets, true),
        Action::Remove { targets } => (targets, false),
    };
    let plan = |target: &Target, frame: &SuperChunk| {
        let before = if add { verify(&target.file, global)?.checksums } else { frame.checksums() };
        let what = match (add, before) {
            (true, Checksums::Ok) => "the checksums are right",
            (true, Checksums::Changed) => "checksums would be renewed",
            (true, Checksums::None) => "checksums would be added",
            (false, Checksums::None) => "no checksums",
            (false, _) => "checksums would be removed",
        };
        Ok(what.to_owned())
    };
    targets.each(global, plan, |target| change(target, add, global))
}

fn change(target: &Target, add: bool, global: Global) -> Result<()> {
    // Checksums that are going to be removed need not be valid.
    let global = Global { no_checksums: !add, ..global };
    target.change(global, || {
        refuse_url(&target.file)?;
        // Verify first: checksums must not be written for damaged data.
        let before = if add { Some(verify(&target.file, global)?.checksums) } else { None };
        let mut frame = target.frame(VlmetaLimit::None, global)?;
        frame.set_checksums(add)?;
        let committed = frame.commit()?;
        let what = match before {
            Some(Checksums::Ok) if committed.bytes_written == 0 => "the checksums are right",
            Some(Checksums::Ok) => "the checksums are right; added those of blocks",
            Some(Checksums::Changed) => "checksums renewed",
            Some(Checksums::None) => "checksums added",
            None if committed.bytes_written == 0 => "no checksums",
            None => "checksums removed",
        };
        Ok((what, committed))
    })
}
