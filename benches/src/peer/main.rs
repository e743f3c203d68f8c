//! Our side of the rows of `cargo xtask bench` that `b2kit bench --input` does not cover: arrays, and files of chunks
//! that the C side reads. Takes the same options and prints the same lines as the C side (`xtask/c/`).
#![forbid(unsafe_code)]

mod arrays;
mod chunks;
mod cuts;

use anyhow::Result;
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::{CodecId, FilterId};
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
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

/// Parameters for compressing chunks.
#[derive(Debug, clap::Args)]
struct Compression {
    #[arg(long, default_value = "blosclz", value_parser = codec)]
    codec: CodecId,
    #[arg(long, default_value_t = 5)]
    clevel: u8,
    #[arg(long, default_value = "shuffle")]
    filter: String,
}

fn codec(name: &str) -> Result<CodecId, String> {
    CodecId::from_name(name).ok_or_else(|| "unknown codec".into())
}

impl Compression {
    fn cparams(&self, typesize: usize) -> Result<CParams> {
        let names = self.filter.split('+').filter(|name| *name != "nofilter");
        let slot = |name| match FilterId::from_name(name) {
            Some(id) => Ok(FilterSlot::new(id, 0)),
            None => Err(anyhow::anyhow!("no filter '{name}'")),
        };
        let filters = names.map(slot).collect::<Result<Vec<_>>>()?;
        let builder = CParams::builder(typesize).codec(self.codec).level(self.clevel);
        Ok(builder.filters(filters).build()?)
    }
}

fn main() -> Result<()> {
    match Args::parse().what {
        What::Encode(args) => chunks::encode(&args),
        What::Decode(args) => chunks::decode(&args),
        What::Cuts(args) => cuts::run(&args),
        What::Kernels => {
            println!("{}", b2_filters::kernels());
            Ok(())
        }
        What::Nd(args) => arrays::run(&args),
    }
}
