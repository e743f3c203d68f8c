//! Our side of the rows of `bench.py speed` that `b2kit bench --input` does not cover: arrays, and files of chunks
//! that the C side reads. Takes the same options and prints the same lines as the C side (`benches/c/`).
#![forbid(unsafe_code)]

mod arrays;
mod chunks;
mod compression;
mod cuts;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Compress into a file of chunks
    Encode(chunks::Args),
    /// Decode a file of chunks and compare with the input
    Decode(chunks::Args),
    /// Print how fast arrays of 1 to 16 dimensions are cut into blocks, relative to memcpy
    Cuts(cuts::Args),
    /// Print which kernels are used
    Kernels,
    /// Time operations on an array of three dimensions
    Nd(arrays::Args),
}

fn main() -> Result<()> {
    match Args::parse().what {
        BenchCommand::Encode(args) => chunks::encode(&args),
        BenchCommand::Decode(args) => chunks::decode(&args),
        BenchCommand::Cuts(args) => cuts::run(&args),
        BenchCommand::Kernels => {
            println!("{}", b2_filters::kernels());
            Ok(())
        }
        BenchCommand::Nd(args) => arrays::run(&args),
    }
}
