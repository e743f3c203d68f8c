//! `cargo xtask salvage`: how much `salvage` recovers from files with one bad sector.

use std::fs;

use anyhow::{Result, ensure};

use crate::{python, root, sh};

/// Zero each sector of 512 bytes of ten files, one at a time, and random sectors of a large file, and tell how many of the
/// intact blocks are saved.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Random sectors of the large file.
    #[arg(long, default_value_t = 2000)]
    sectors: u64,
    /// Leave out the files of C-Blosc2 (no Python needed).
    #[arg(long)]
    no_peer: bool,
}

/// The test behind this task, which `cargo xtask test` runs on a sample.
const TESTS: &[&str] = &["test", "-p", "b2nd", "--test", "all", "--", "salvage_sectors::", "--nocapture"];

/// Runs the whole test; returns an error if less is recovered than promised.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = sh::cargo(TESTS);
    command.env("B2KIT_SALVAGE_EVERY", "1").env("B2KIT_SALVAGE_RANDOM", args.sectors.to_string());
    if args.no_peer {
        println!("C-Blosc2: NOT RUN (--no-peer)");
    } else {
        let folder = root::target().join("xtask").join("salvage");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let python = python::environment(python::PEER)?;
        sh::run({
            let mut script = python::script(&python, "salvage_files.py");
            script.arg("--dir").arg(&folder);
            script
        })?;
        command.env("B2KIT_SALVAGE_FILES", folder);
    }
    let counts = sh::run_tests(command)?;
    ensure!(counts.failed == 0, "{} failed", counts.failed);
    Ok(())
}
