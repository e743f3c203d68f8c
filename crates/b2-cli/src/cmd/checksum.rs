//! `b2kit checksum`

use anyhow::{Context, Result};
use b2kit::frame::Checksums;

use crate::args::Global;
use crate::change::Target;
use crate::cmd::verify::verify;

const EXAMPLES: &str = "\
Examples:
  b2kit checksum add old.b2nd       also for files of other programs
  b2kit checksum remove data.b2nd

New files get checksums by themselves, and changes by b2kit keep them right. They
take 8 bytes for each chunk; C-Blosc2 reads such files, and drops the checksums
when it changes them.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Decode everything, then write checksums of it as it is now
    Add {
        #[command(flatten)]
        target: Target,
    },
    /// Remove the checksums
    Remove {
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let (target, add) = match &args.action {
        Action::Add { target } => (target, true),
        Action::Remove { target } => (target, false),
    };
    let named = || target.named();
    // To be removed, they need not be right.
    let global = Global { no_checksums: !add, ..global };
    let changed = || -> Result<_> {
        // What is damaged must not get checksums that say it is well.
        let before = if add { Some(verify(&target.file, global)?.checksums) } else { None };
        let mut frame = target.frame(true, global)?;
        frame.set_checksums(add)?;
        let committed = frame.commit()?;
        let what = match before {
            Some(Checksums::Ok) => "the checksums are right",
            Some(Checksums::Changed) => "checksums renewed",
            Some(Checksums::None) => "checksums added",
            None if committed.bytes_written == 0 => "no checksums",
            None => "checksums removed",
        };
        Ok((what, committed))
    };
    let (what, committed) = changed().with_context(named)?;
    target.tell(global, what, committed);
    Ok(())
}
