//! The `b2kit` command: look into, read and write Blosc2 files.
//!
//! A library only so that the fuzz targets reach it; nothing here is an interface for others.
#![forbid(unsafe_code)]

mod args;
mod auto;
mod capture;
mod change;
mod cli;
mod cmd;
mod cross;
mod encode;
mod error;
mod foreign;
mod help;
mod input;
mod json;
mod lines;
mod lossy;
mod many;
mod npy;
mod operand;
mod output;
mod picture;
mod place;
mod plugins;
mod print;
mod progress;
mod pump;
mod signals;
mod slice;
mod stats;
mod stdio;
mod store;
mod summary;
mod table;
mod values;
mod version;
mod viewed;
mod web;

use std::process::ExitCode;

/// Runs the command that the arguments of this process tell.
pub fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(cli) => error::report(cli.run()),
        Err(error) => error.exit(),
    }
}

/// Runs one line of a batch in this process: exit code, standard output and what is wrong.
#[doc(hidden)]
pub fn batch_line(line: &[u8]) -> (u8, Vec<u8>, String) {
    cmd::batch::one(line, cli::in_batch)
}
