//! Reads a chunk in all possible ways.

use std::path::Path;

use anyhow::{Context, Result, bail};
use b2_testkit::Rng;
use b2kit::chunk::{Container, DParams, LazyChunk, LazyHead};
use b2kit::{Chunk, CodecId};
use serde_json::Value;

use super::checker::{Checker, Fields, same_bytes, same_lengths};
use super::read_frame::filters;

/// Reads the chunk in the file `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let Some(stored) = checker.run("file", || Ok(std::fs::read(path)?)) else { return };
    let container = Container::default().itemsize(case.number("itemsize").map(|n| n as usize));
    let dparams = DParams::default().container(container);
    let Some(chunk) = checker.run("header", || Ok(Chunk::from_bytes(stored.clone())?)) else { return };

    let header = chunk.header();
    checker.same("header cbytes", header.cbytes(), stored.len());
    checker.field(case, "nbytes", header.nbytes());
    checker.field(case, "typesize", header.itemsize());
    filters(checker, case, &header.filters());
    if let Some(codec) = case.text("codec").and_then(CodecId::from_name)
        && header.special().is_none()
        && !header.is_memcpyed()
    {
        // The codec format in a chunk does not distinguish lz4hc from lz4.
        let plain = |id: CodecId| if id == CodecId::LZ4HC { CodecId::LZ4 } else { id };
        checker.same("header codec", header.codec().map(plain), Some(plain(codec)));
    }
    contents(checker, &chunk, raw, &dparams, rng);
    if case["vl_blocks"].is_array() {
        checker.run("blocks", || {
            let blocks = chunk.blocks(&dparams)?;
            same_lengths(&blocks, &case["vl_blocks"])?;
            same_bytes(&blocks.concat(), raw.unwrap_or_default())
        });
    }
}

/// Decodes the whole chunk and parts of it, from memory and block by block. Without `raw` only the sizes are compared.
fn contents(checker: &mut Checker, chunk: &Chunk, raw: Option<&[u8]>, dparams: &DParams, rng: &mut Rng) {
    let Some(plain) = checker.run("whole", || {
        let plain = chunk.decompress_bytes_with(dparams)?;
        same_bytes(&plain, raw.unwrap_or(&vec![0; chunk.nbytes()]))?;
        Ok(plain)
    }) else {
        return;
    };
    // `get_items` has no container argument, so items are read as bytes too.
    for (name, unit) in [("items", chunk.header().itemsize()), ("bytes", 1)] {
        checker.parts(name, (rng, 6), (&plain, unit), |at| {
            Ok(chunk.get_bytes(at.start * unit..at.end * unit, dparams)?)
        });
    }
    checker.run("single blocks", || single_blocks(chunk.as_bytes(), &plain, dparams, rng));
}

/// Decodes some blocks from their own bytes, like a reader of files.
fn single_blocks(stored: &[u8], plain: &[u8], dparams: &DParams, rng: &mut Rng) -> Result<()> {
    let mut have = 16;
    let lazy = loop {
        match LazyChunk::parse(&stored[..have], stored.len() as u64, dparams)? {
            LazyHead::Need(len) if len <= have || len > stored.len() => {
                bail!("asks for {len} bytes of {} when it has {have}", stored.len());
            }
            LazyHead::Need(len) => have = len,
            LazyHead::Whole if have == stored.len() => bail!("asks for more than the whole"),
            LazyHead::Whole => have = stored.len(),
            LazyHead::Ready(lazy) => break lazy,
        }
    };
    if plain.is_empty() || lazy.header().is_vl() && have < stored.len() {
        // The lengths of these blocks precede them, so there is nothing to decode into yet.
        return Ok(());
    }
    let mut decoder = lazy.decoder(dparams)?;
    let mut decode = |nblock: usize, block0: Option<&[u8]>| -> Result<Vec<u8>> {
        let mut block = vec![0xA5; lazy.block_range(nblock).len()];
        let decoded = decoder.decode(nblock, &stored[lazy.block_extent(nblock)], block0, &mut block);
        decoded.with_context(|| format!("block {nblock}"))?;
        same_bytes(&block, &plain[lazy.block_range(nblock)]).with_context(|| format!("block {nblock}"))?;
        Ok(block)
    };
    let block0 = if lazy.needs_block0() { Some(decode(0, None)?) } else { None };
    for _ in 0..4 {
        let nblock = rng.within(0..=lazy.nblocks() - 1);
        decode(nblock, block0.as_deref().filter(|_| nblock > 0))?;
    }
    Ok(())
}
