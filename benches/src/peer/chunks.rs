//! Files of chunks: the size of each chunk (4 bytes, little-endian), followed by its bytes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use b2kit::Chunk;
use bytes::Bytes;

use crate::compression::Compression;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    input: PathBuf,
    /// The file of chunks
    #[arg(long)]
    path: PathBuf,
    #[arg(long, default_value_t = 1)]
    typesize: usize,
    #[arg(long, default_value_t = 4 << 20)]
    chunk: usize,
    #[arg(long, default_value_t = 0)]
    limit: usize,
    #[command(flatten)]
    compression: Compression,
}

impl Args {
    fn input(&self) -> Result<Vec<u8>> {
        let mut input = fs::read(&self.input)?;
        if self.limit > 0 {
            input.truncate(self.limit);
        }
        input.truncate(input.len() - input.len() % self.typesize);
        Ok(input)
    }
}

pub(crate) fn encode(args: &Args) -> Result<()> {
    let cparams = args.compression.cparams(args.typesize)?;
    let mut out = Vec::new();
    for part in args.input()?.chunks(args.chunk - args.chunk % args.typesize) {
        let chunk = Chunk::compress_bytes(part, &cparams)?;
        out.extend(u32::try_from(chunk.cbytes())?.to_le_bytes());
        out.extend_from_slice(chunk.as_bytes());
    }
    Ok(fs::write(&args.path, out)?)
}

pub(crate) fn decode(args: &Args) -> Result<()> {
    let input = args.input()?;
    let file = fs::read(&args.path)?;
    let (mut rest, mut plain) = (&file[..], Vec::with_capacity(input.len()));
    while let Some((len, after)) = rest.split_first_chunk() {
        let chunk = after.split_at_checked(u32::from_le_bytes(*len) as usize);
        let (chunk, after) = chunk.context("the file of chunks is cut off")?;
        plain.extend(Chunk::from_bytes(Bytes::copy_from_slice(chunk))?.decompress_bytes()?);
        rest = after;
    }
    ensure!(plain == input, "the chunks hold other bytes");
    Ok(())
}
