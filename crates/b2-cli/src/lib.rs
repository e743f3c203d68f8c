//! The `b2kit` command: look into, read and write Blosc2 files.
//!
//! A library only so that the fuzz targets reach it; nothing here is an interface for others.
#![forbid(unsafe_code)]

mod args;
mod auto;
mod base64;
mod capture;
mod change;
mod cmd;
mod cross;
mod encode;
mod error;
mod input;
mod json;
mod npy;
mod operand;
mod output;
mod plugins;
mod progress;
mod pump;
mod slice;
mod store;
mod table;
mod values;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::args::{Cli, Command};

/// Runs the command that the arguments of this process tell.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    error::report(run(&cli))
}

/// Runs one line of a batch in this process: exit code, standard output and what is wrong.
#[doc(hidden)]
pub fn batch_line(line: &[u8]) -> (u8, Vec<u8>, String) {
    cmd::batch::one(line)
}

fn run(cli: &Cli) -> Result<()> {
    let global = cli.global;
    if let Command::Bench(args) = &cli.command {
        // Measures with pools of its own.
        return cmd::bench::run(args, global);
    }
    if let Some(threads) = global.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        pool.build_global().context("--threads")?;
    }
    match &cli.command {
        Command::Info(args) => cmd::info::run(args, global),
        Command::Cat(args) => cmd::cat::run(args, global),
        Command::Verify(args) => cmd::verify::run(args, global),
        Command::Pack(args) => cmd::pack::run(args, global),
        Command::Copy(args) => cmd::copy::run(args, global),
        Command::Append(args) => cmd::append::run(args, global),
        Command::Set(args) => cmd::set::run(args, global),
        Command::Resize(args) => cmd::resize::run(args, global),
        Command::Insert(args) => cmd::insert::run(args, global),
        Command::Delete(args) => cmd::delete::run(args, global),
        Command::Chunk(args) => cmd::chunk::run(args, global),
        Command::Vlmeta(args) => cmd::vlmeta::run(args, global),
        Command::Checksum(args) => cmd::checksum::run(args, global),
        Command::Compact(args) => cmd::compact::run(args, global),
        Command::Diff(args) => cmd::diff::run(args, global),
        Command::Salvage(args) => cmd::salvage::run(args, global),
        Command::Bench(args) => cmd::bench::run(args, global),
        Command::Ls(args) => cmd::ls::run(args, global),
        Command::Items(args) => cmd::items::run(args, global),
        Command::Batch(_) => cmd::batch::run(),
        Command::Completions(args) => cmd::completions::run(args),
    }
}
