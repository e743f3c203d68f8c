//! Writes random chunks.

use std::fs;

use anyhow::{Context, Result, ensure};
use b2kit::Chunk;
use b2kit::chunk::{CParams, SpecialKind};

use super::draft::Draft;
use super::params;

/// Writes a regular chunk, or a special one with a single value.
pub(crate) fn chunk(draft: &mut Draft) -> Result<()> {
    if draft.rng.chance(8) {
        return special(draft);
    }
    let typesize = params::itemsize(&mut draft.rng);
    let nbytes = length(draft, typesize);
    let mut builder = params::builder(draft, typesize, false);
    let rng = &mut draft.rng;
    let block = match rng.within(0..=9) {
        0..=5 => "auto",
        // Any block size, which the writer rounds.
        6 => "unrounded",
        _ => "user",
    };
    if block != "auto" {
        let mut blocksize = typesize * rng.within(1..=(30_000 / typesize).max(1));
        if block == "unrounded" {
            blocksize += rng.within(0..=typesize - 1);
        }
        builder = builder.blocksize(blocksize.max(nbytes / 2000));
    }
    let (data, raw) = rng.data(nbytes);
    let cparams = builder.build().context("parameters")?;
    let chunk = Chunk::compress_bytes(&raw, &cparams).context("compressing")?;
    let plain = chunk.decompress_bytes().context("decompressing what was compressed")?;
    // C leaves the bytes after the last whole item unchanged, and so does this project.
    let wanted = params::truncated(&raw, typesize, &cparams.filters());
    let stored = chunk.header().is_memcpyed();
    ensure!(plain == wanted || stored && plain == raw, "does not round-trip");
    draft.label("block", block);
    draft.label("data", data);
    finish(draft, &chunk, &plain)
}

/// Returns a random length, often small or odd.
fn length(draft: &mut Draft, typesize: usize) -> usize {
    let rng = &mut draft.rng;
    let (name, nbytes) = match rng.within(0..=5) {
        0 => ("tiny", rng.within(0..=130)),
        1 => ("small", rng.within(1..=60) * typesize),
        2 => ("large", rng.within(60_000..=200_000) / typesize * typesize),
        3 => ("ragged", rng.magnitude(150, 36_000) / typesize * typesize + rng.within(0..=typesize - 1)),
        _ => ("items", (rng.magnitude(150, 36_000) / typesize).max(1) * typesize),
    };
    draft.label("length", name);
    nbytes
}

fn special(draft: &mut Draft) -> Result<()> {
    let rng = &mut draft.rng;
    let kinds = [
        (SpecialKind::Zeros, "zero"),
        (SpecialKind::NaN, "nan"),
        (SpecialKind::Value, "value"),
        (SpecialKind::Uninit, "uninit"),
    ];
    let (kind, name) = *rng.pick(&kinds);
    let typesize = if kind == SpecialKind::NaN { *rng.pick(&[4, 8]) } else { params::itemsize(rng) };
    let nitems = rng.within(1..=3000);
    let value = if kind == SpecialKind::Value { rng.bytes(typesize) } else { Vec::new() };
    let blocksize = if rng.chance(50) { rng.within(1..=20_000) } else { 0 };
    let chunk =
        Chunk::special(kind, &value, nitems * typesize, typesize, blocksize).context("a special chunk")?;
    let item = match kind {
        SpecialKind::NaN if typesize == 4 => f32::NAN.to_le_bytes().to_vec(),
        SpecialKind::NaN => f64::NAN.to_le_bytes().to_vec(),
        SpecialKind::Value => value,
        _ => vec![0; typesize],
    };
    let plain = chunk.decompress_bytes().context("decompressing")?;
    ensure!(plain == item.repeat(nitems), "does not round-trip");
    draft.label("special", name);
    draft.label("typesize", typesize);
    draft.set("special", true);
    draft.set("partial", false);
    finish(draft, &chunk, &plain)?;
    if kind == SpecialKind::Uninit {
        // C returns uninitialized memory here.
        draft.set("raw", serde_json::Value::Null);
    }
    Ok(())
}

/// Writes a chunk with blocks of individual lengths.
pub(crate) fn vl_chunk(draft: &mut Draft) -> Result<()> {
    let typesize = *draft.rng.pick(&[1, 1, 2, 4, 8]);
    let cparams = params::builder(draft, typesize, true).build().context("parameters")?;
    // Avoid delta in these chunks, because C decodes it differently from call to call.
    let cparams = params::without_delta(&cparams)?;
    let n = draft.rng.within(1..=40);
    let blocks = params::blocks(&mut draft.rng, n, 3000);
    let chunk = params::compress_vl(&blocks, &cparams)?;
    draft.set("vl_blocks", blocks.iter().map(Vec::len).collect::<Vec<_>>());
    draft.label("pipe", names(&cparams));
    finish(draft, &chunk, &blocks.concat())
}

fn names(cparams: &CParams) -> String {
    let ids: Vec<String> =
        cparams.filters().iter().filter(|slot| slot.id.0 != 0).map(|slot| slot.id.to_string()).collect();
    if ids.is_empty() { "none".into() } else { ids.join("+") }
}

fn finish(draft: &mut Draft, chunk: &Chunk, plain: &[u8]) -> Result<()> {
    draft.set("nbytes", chunk.nbytes());
    draft.set("typesize", chunk.header().itemsize());
    draft.raw(plain)?;
    let path = draft.path(".chunk");
    fs::write(path, chunk.as_bytes())?;
    Ok(())
}
