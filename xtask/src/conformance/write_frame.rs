//! Writes random super-chunks.

use std::fs;

use anyhow::{Context, Result};
use b2_testkit::Rng;
use b2kit::chunk::{CParams, SpecialKind};
use b2kit::frame::{FrameParams, Storage};
use b2kit::{Chunk, FrameWriter};
use serde_json::{Map, Value};

use super::checker::to_hex;
use super::draft::Draft;
use super::params;

/// Writes a super-chunk of one of several kinds.
pub(crate) fn frame(draft: &mut Draft) -> Result<()> {
    let kind = *draft
        .rng
        .pick(&["chunks", "chunks", "chunks", "chunks", "many", "variable", "vlblocks", "uninit", "empty"]);
    draft.label("frame", kind);
    let typesize = match kind {
        "vlblocks" => *draft.rng.pick(&[1, 1, 4]),
        _ => *draft.rng.pick(&[1, 2, 3, 4, 4, 4, 8, 8, 12, 16, 33, 255, 300]),
    };
    let mut cparams = params::builder(draft, typesize, true).build().context("parameters")?;
    if kind == "vlblocks" {
        cparams = params::without_delta(&cparams)?;
        draft.label("pipe", "without delta");
    } else if draft.rng.chance(30) {
        let blocksize = typesize * draft.rng.within(1..=500);
        cparams = cparams.to_builder().blocksize(blocksize).build().context("parameters")?;
    }
    params::header_facts(draft, &cparams);
    draft.set("change", params::few_filters(&cparams));
    draft.set("typesize", typesize);

    let nitems = match kind {
        "many" => draft.rng.within(1..=12),
        _ => draft.rng.magnitude(1, 4000),
    };
    let chunksize = nitems * typesize;
    let mut frame = FrameParams::from_cparams(&cparams);
    if kind == "variable" {
        frame = frame.chunksize(0);
    } else if kind == "vlblocks" {
        // The unit of these frames is the block, so slices of items are not compared.
        draft.set("partial", false);
    } else if draft.rng.chance(70) || kind == "uninit" {
        frame = frame.chunksize(chunksize);
    }
    for (name, value) in random_layers(draft, 16, "meta", 200) {
        frame = frame.metalayer(&name, &value);
    }
    let storage = storage(draft);
    let path = draft.path(".b2frame");
    let writer = match storage {
        "contiguous" => FrameWriter::create(path, frame),
        "sparse" => FrameWriter::options().storage(Storage::Sparse).create(path, frame),
        _ => FrameWriter::memory(frame),
    };
    let mut writer = writer.context("starting the frame")?;
    let (rng, to) = (&mut draft.rng, &mut writer);
    let chunks = match kind {
        "variable" => variable(rng, to, &cparams)?,
        "vlblocks" => {
            let (chunks, blocks) = vl_blocks(rng, to, &cparams)?;
            draft.set("vl_blocks", blocks);
            chunks
        }
        "uninit" => uninit(rng, to, chunksize)?,
        "empty" => Vec::new(),
        kind => {
            let n = rng.within(if kind == "many" { 150..=700 } else { 1..=12 });
            fixed(rng, to, &cparams, chunksize, n)?
        }
    };
    for (name, value) in random_layers(draft, 16, "vlmeta", 9000) {
        writer.set_vlmetalayer(&name, &value).context("set_vlmetalayer")?;
    }
    let written = writer.finish().context("finishing the frame")?;
    if matches!(storage, "memory" | "offset") {
        save(draft, storage, &written.into_bytes(), ".b2frame")?;
    }

    let sizes: Vec<usize> = chunks.iter().map(Vec::len).collect();
    let variable =
        kind == "variable" || kind == "vlblocks" && sizes.windows(2).any(|pair| pair[0] != pair[1]);
    draft.set("chunksize", if variable { 0 } else { sizes.first().copied().unwrap_or(chunksize) });
    draft.set("chunks", sizes);
    draft.raw(&chunks.concat())?;
    if kind == "uninit" {
        // C returns uninitialized memory here.
        draft.set("raw", Value::Null);
        draft.set("change", false);
    }
    Ok(())
}

/// Appends chunks of one size, special ones among them, and sometimes a shorter one at the end.
fn fixed(
    rng: &mut Rng,
    writer: &mut FrameWriter,
    cparams: &CParams,
    chunksize: usize,
    n: usize,
) -> Result<Vec<Vec<u8>>> {
    let typesize = cparams.itemsize();
    let mut chunks = Vec::new();
    for nchunk in 0..n {
        let mut size = chunksize;
        if nchunk + 1 == n && n > 1 && rng.chance(40) {
            size = typesize * rng.within(1..=chunksize / typesize);
        }
        chunks.push(match rng.within(0..=9) {
            0 => special(writer, SpecialKind::Zeros, &vec![0; typesize], size)?,
            1 if typesize == 4 => special(writer, SpecialKind::NaN, &f32::NAN.to_le_bytes(), size)?,
            1 if typesize == 8 => special(writer, SpecialKind::NaN, &f64::NAN.to_le_bytes(), size)?,
            2 => {
                let value = rng.bytes(typesize);
                let chunk = Chunk::special(SpecialKind::Value, &value, size, typesize, cparams.blocksize());
                writer.append(chunk.context("a repeated value")?).context("append")?;
                value.repeat(size / typesize)
            }
            _ => regular(rng, writer, cparams, size)?,
        });
    }
    Ok(chunks)
}

fn regular(rng: &mut Rng, writer: &mut FrameWriter, cparams: &CParams, size: usize) -> Result<Vec<u8>> {
    let raw = rng.data(size).1;
    writer.append(Chunk::compress_bytes(&raw, cparams).context("compressing")?).context("append")?;
    Ok(raw)
}

fn special(writer: &mut FrameWriter, kind: SpecialKind, item: &[u8], size: usize) -> Result<Vec<u8>> {
    writer.append_special(kind, size).context("append_special")?;
    Ok(item.repeat(size / item.len()))
}

/// Appends chunks of individual sizes, including zeros.
fn variable(rng: &mut Rng, writer: &mut FrameWriter, cparams: &CParams) -> Result<Vec<Vec<u8>>> {
    let typesize = cparams.itemsize();
    let mut chunks = Vec::new();
    for _ in 0..rng.within(1..=14) {
        let size = typesize * rng.within(1..=900);
        chunks.push(match rng.chance(15) {
            true => special(writer, SpecialKind::Zeros, &vec![0; typesize], size)?,
            false => regular(rng, writer, cparams, size)?,
        });
    }
    Ok(chunks)
}

fn vl_blocks(rng: &mut Rng, writer: &mut FrameWriter, cparams: &CParams) -> Result<(Vec<Vec<u8>>, Value)> {
    let (mut chunks, mut lengths) = (Vec::new(), Vec::new());
    for _ in 0..rng.within(1..=8) {
        let n = rng.within(1..=12);
        let blocks = params::blocks(rng, n, 2000);
        writer.append(params::compress_vl(&blocks, cparams)?).context("append")?;
        lengths.push(Value::from(blocks.iter().map(Vec::len).collect::<Vec<_>>()));
        chunks.push(blocks.concat());
    }
    Ok((chunks, lengths.into()))
}

fn uninit(rng: &mut Rng, writer: &mut FrameWriter, chunksize: usize) -> Result<Vec<Vec<u8>>> {
    let n = rng.within(1..=20);
    for _ in 0..n {
        writer.append_special(SpecialKind::Uninit, chunksize).context("append_special")?;
    }
    Ok(vec![vec![0; chunksize]; n])
}

/// Returns random names and values of metalayers, at most `limit`, and stores them as fields of the case.
pub(crate) fn random_layers(
    draft: &mut Draft,
    limit: usize,
    class: &str,
    longest: usize,
) -> Vec<(String, Vec<u8>)> {
    let rng = &mut draft.rng;
    let n = *rng.pick(&[0, 0, 1, 2, 5, limit]);
    let layers = Vec::from_iter((0..n).map(|i| {
        let mut name = format!("layer {i}");
        name.extend(std::iter::repeat_n('x', rng.within(0..=31 - name.len())));
        let nbytes = rng.magnitude(1, longest);
        (name, rng.data(nbytes).1)
    }));
    let hex = layers.iter().map(|(name, value)| (name.clone(), Value::from(to_hex(value))));
    draft.set(&format!("{class}layers"), hex.collect::<Map<_, _>>());
    draft.label(class, n);
    layers
}

/// Chooses the storage of a frame.
pub(crate) fn storage(draft: &mut Draft) -> &'static str {
    let storage = *draft.rng.pick(&["contiguous", "contiguous", "sparse", "memory", "offset"]);
    draft.label("storage", storage);
    storage
}

/// Writes a frame from memory to its file; `offset` surrounds it with other bytes.
pub(crate) fn save(draft: &mut Draft, storage: &str, frame: &[u8], suffix: &str) -> Result<()> {
    let path = draft.path(suffix);
    if storage != "offset" {
        return Ok(fs::write(path, frame)?);
    }
    let (before, after) = (draft.rng.within(1..=5000), draft.rng.within(0..=300));
    let content = [draft.rng.bytes(before), frame.to_vec(), draft.rng.bytes(after)].concat();
    draft.set("offset", before);
    // C truncates such a file at the wrong position when it changes it.
    draft.set("change", false);
    Ok(fs::write(path, content)?)
}
