//! Reads a chunk in all possible ways.

use std::ops::Range;
use std::path::Path;

use b2_testkit::Rng;
use b2kit::chunk::{Container, DParams, LazyChunk, LazyHead};
use b2kit::{Chunk, CodecId};
use serde_json::Value;

use super::checker::{Checker, Fields, Verdict, same_bytes, text};

/// Reads the chunk in the file `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let Some(stored) = checker.get("file", || std::fs::read(path).map_err(text)) else { return };
    let container =
        Container { itemsize: case.number("itemsize").map(|n| n as usize), ..Container::default() };
    let dparams = DParams::default().with_container(container);
    let Some(chunk) = checker.get("header", || Chunk::from_bytes(stored.clone()).map_err(text)) else {
        return;
    };

    let header = chunk.header();
    checker.same("header cbytes", header.cbytes(), stored.len());
    checker.same("header nbytes", Some(header.nbytes() as u64), case.number("nbytes"));
    checker.same("header typesize", Some(header.typesize() as u64), case.number("typesize"));
    if let Some(slots) = slots(case) {
        let found: Vec<[u64; 2]> =
            header.filters().iter().map(|slot| [slot.id.0.into(), slot.meta.into()]).collect();
        checker.same("header filters", found, slots);
    }
    if let Some(codec) = case.text("codec").and_then(CodecId::from_name)
        && header.special().is_none()
        && !header.is_memcpyed()
    {
        // The codec format in a chunk does not distinguish lz4hc from lz4.
        let plain = |id: CodecId| if id == CodecId::LZ4HC { CodecId::LZ4 } else { id };
        checker.same("header codec", header.codec().map(plain), Some(plain(codec)));
    }
    contents(checker, &chunk, raw, &dparams, rng);
    if let Some(sizes) = case.numbers("vl_blocks") {
        checker.run("blocks", || {
            let blocks = chunk.blocks(&dparams).map_err(text)?;
            let found: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
            if found != sizes {
                return Err(format!("lengths {found:?}, expected {sizes:?}"));
            }
            same_bytes(&blocks.concat(), raw.unwrap_or_default())
        });
    }
}

/// Returns the six filter slots of a case: id and meta.
pub(crate) fn slots(case: &Value) -> Option<Vec<[u64; 2]>> {
    let list = case["filters"].as_array()?;
    Some(list.iter().map(|slot| [slot[0].as_u64().unwrap_or(0), slot[1].as_u64().unwrap_or(0)]).collect())
}

/// Decodes the whole chunk and parts of it, from memory and block by block. Without `raw` only the sizes are compared.
pub(crate) fn contents(
    checker: &mut Checker,
    chunk: &Chunk,
    raw: Option<&[u8]>,
    dparams: &DParams,
    rng: &mut Rng,
) {
    let Some(plain) = checker.get("whole", || {
        let plain = chunk.decompress_bytes_with(dparams).map_err(text)?;
        same_bytes(&plain, raw.unwrap_or(&vec![0; chunk.nbytes()]))?;
        Ok(plain)
    }) else {
        return;
    };
    let typesize = chunk.header().typesize();
    let nitems = plain.len() / typesize;
    checker.run("items", || {
        for range in ranges(rng, nitems, 6) {
            // `get_items` has no container argument; these chunks are decoded as bytes below.
            let bytes = range.start * typesize..range.end * typesize;
            let part = chunk
                .get_bytes_with(bytes.clone(), dparams)
                .map_err(|e| format!("items {range:?}: {}", text(e)))?;
            same_bytes(&part, &plain[bytes]).map_err(|e| format!("items {range:?}: {e}"))?;
        }
        Ok(())
    });
    checker.run("bytes", || {
        for range in ranges(rng, plain.len(), 6) {
            let part = chunk
                .get_bytes_with(range.clone(), dparams)
                .map_err(|e| format!("bytes {range:?}: {}", text(e)))?;
            same_bytes(&part, &plain[range.clone()]).map_err(|e| format!("bytes {range:?}: {e}"))?;
        }
        Ok(())
    });
    checker.run("single blocks", || single_blocks(chunk.as_bytes(), &plain, dparams, rng));
}

/// Decodes some blocks from their own bytes, as a reader of files does.
fn single_blocks(stored: &[u8], plain: &[u8], dparams: &DParams, rng: &mut Rng) -> Verdict {
    let mut have = 16;
    let lazy = loop {
        match LazyChunk::parse(&stored[..have], stored.len() as u64, dparams).map_err(text)? {
            LazyHead::Need(len) if len <= have || len > stored.len() => {
                return Err(format!("asks for {len} bytes of {} when it has {have}", stored.len()));
            }
            LazyHead::Need(len) => have = len,
            LazyHead::Whole if have == stored.len() => return Err("asks for more than the whole".into()),
            LazyHead::Whole => have = stored.len(),
            LazyHead::Ready(lazy) => break lazy,
        }
    };
    if plain.is_empty() || lazy.header().is_vl() && have < stored.len() {
        // The lengths of these blocks precede them, so there is nothing to decode into yet.
        return Ok(());
    }
    let mut decoder = lazy.decoder(dparams).map_err(text)?;
    let mut decode = |nblock: usize, block0: Option<&[u8]>| {
        let mut block = vec![0xA5; lazy.block_range(nblock).len()];
        decoder
            .decode(nblock, &stored[lazy.block_extent(nblock)], block0, &mut block)
            .map_err(|e| format!("block {nblock}: {}", text(e)))?;
        same_bytes(&block, &plain[lazy.block_range(nblock)]).map_err(|e| format!("block {nblock}: {e}"))?;
        Ok::<_, String>(block)
    };
    let block0 = if lazy.needs_block0() { Some(decode(0, None)?) } else { None };
    for _ in 0..4 {
        let nblock = rng.within(0..=lazy.nblocks() - 1);
        decode(nblock, block0.as_deref().filter(|_| nblock > 0))?;
    }
    Ok(())
}

/// Returns random parts of `0..len`, including the empty and the whole range.
pub(crate) fn ranges(rng: &mut Rng, len: usize, n: usize) -> Vec<Range<usize>> {
    let mut out = vec![0..len, len..len];
    for _ in 0..n {
        let start = rng.within(0..=len);
        let end =
            if rng.chance(50) { rng.within(start..=len) } else { (start + rng.within(1..=20)).min(len) };
        out.push(start..end);
    }
    out
}
