//! Reads a super-chunk in all possible ways.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use b2_testkit::Rng;
use b2kit::chunk::FilterSlot;
use b2kit::{CodecId, SuperChunk};
use serde_json::Value;

use super::checker::{Checker, Fields, same_bytes, same_lengths};
use super::params::SPLITS;

/// Reads the frame at `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let open = |offset| Ok(SuperChunk::options().offset(offset).open(path)?);
    let open_memory = |bytes| Ok(SuperChunk::from_bytes(bytes)?);
    opened(checker, case, path, (rng, 30), open, open_memory, |checker, schunk, rng| {
        contents(checker, case, schunk, raw, rng);
    });
}

/// Opens a file and compares its contents; sometimes once more from memory.
pub(crate) fn opened<T>(
    checker: &mut Checker,
    case: &Value,
    path: &Path,
    (rng, percent): (&mut Rng, usize),
    open: impl Fn(u64) -> Result<T>,
    open_memory: impl Fn(Vec<u8>) -> Result<T>,
    contents: impl Fn(&mut Checker, &T, &mut Rng),
) {
    let offset = case.number("offset").unwrap_or(0);
    let Some(file) = checker.run("open", || open(offset)) else { return };
    contents(checker, &file, rng);
    if path.is_file() && offset == 0 && rng.chance(percent) {
        let memory = checker.run("open from memory", || open_memory(std::fs::read(path)?));
        memory.inspect(|memory| contents(checker, memory, rng));
    }
}

/// Compares properties, whole chunks, and parts of one or several chunks.
fn contents(checker: &mut Checker, case: &Value, schunk: &SuperChunk, raw: Option<&[u8]>, rng: &mut Rng) {
    facts(checker, case, schunk);
    layers(checker, case, schunk);
    let Some(raw) = raw else {
        checker.run("uninitialised chunks", || {
            (0..schunk.nchunks()).try_for_each(|nchunk| {
                schunk.chunk(nchunk).decompress().map(drop).with_context(|| format!("chunk {nchunk}"))
            })
        });
        return;
    };
    let sizes = case["chunks"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let sizes: Vec<usize> = sizes.map(|size| size as usize).collect();
    checker.run("chunks", || chunks(schunk, raw, &sizes));
    checker.parts("bytes", (rng, 8), (raw, 1), |at| Ok(schunk.read_bytes(at.start as u64..at.end as u64)?));
    let read_items = |at: std::ops::Range<usize>| Ok(schunk.read_items(at.start as u64..at.end as u64)?);
    checker.parts("items", (rng, 4), (raw, schunk.itemsize()), read_items);
    checker.run("single blocks", || blocks(schunk, raw, &sizes, rng));
    if let Some(lists) = case["vl_blocks"].as_array() {
        checker.run("variable-length blocks", || {
            lists.iter().enumerate().try_for_each(|(nchunk, list)| {
                same_lengths(&schunk.chunk(nchunk).all_blocks()?, list)
                    .with_context(|| format!("chunk {nchunk}"))
            })
        });
    }
}

/// Compares the header with the properties in the case.
pub(crate) fn facts(checker: &mut Checker, case: &Value, schunk: &SuperChunk) {
    let header = schunk.header();
    checker.field_if_known(case, "nchunks", schunk.nchunks());
    checker.field_if_known(case, "nbytes", schunk.nbytes());
    checker.field_if_known(case, "typesize", schunk.itemsize());
    if schunk.nchunks() > 0 {
        checker.field_if_known(case, "chunksize", schunk.chunksize());
    }
    if let Some(codec) = case.text("codec").and_then(CodecId::from_name) {
        checker.same("header codec", header.codec(), codec);
    }
    checker.field_if_known(case, "clevel", header.level());
    checker.field_if_known(case, "use_dict", header.use_dict());
    filters(checker, case, &header.filters());
    if let Some((_, mode)) = SPLITS.iter().find(|(name, _)| case["split"] == *name) {
        checker.same("header split mode", header.splitmode(), *mode);
    }
}

/// Compares the six filter slots with those of the case: id and meta.
pub(crate) fn filters(checker: &mut Checker, case: &Value, found: &[FilterSlot]) {
    checker.field_if_known(
        case,
        "filters",
        found.iter().map(|slot| vec![slot.id.0, slot.meta]).collect::<Value>(),
    );
}

/// Compares names and bytes of metalayers and vlmetalayers.
pub(crate) fn layers(checker: &mut Checker, case: &Value, schunk: &SuperChunk) {
    if case["metalayers"].is_object() {
        let mut found: Vec<(String, Vec<u8>)> = schunk
            .metalayers()
            .iter()
            .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
            .collect();
        found.sort();
        // Cases that this project wrote list only the user's metalayers.
        let wanted = case.layers("metalayers");
        found.retain(|(name, _)| name != "b2nd" || wanted.iter().any(|(wanted, _)| wanted == name));
        checker.same("metalayers", found, wanted);
    }
    if case["vlmetalayers"].is_object() {
        checker.run("vlmetalayers", || {
            let layers = schunk.vlmetalayers();
            let mut names: Vec<_> = layers.names().map(|name| name.into_owned()).collect();
            names.sort();
            let wanted = case.layers("vlmetalayers");
            ensure!(
                names.iter().eq(wanted.iter().map(|(name, _)| name)),
                "names {names:?}, expected those of {wanted:?}"
            );
            wanted.iter().try_for_each(|(name, wanted)| {
                let found = layers.get(name.as_bytes())?.context("it is gone")?;
                same_bytes(&found, wanted).with_context(|| name.clone())
            })
        });
    }
}

fn chunks(schunk: &SuperChunk, raw: &[u8], sizes: &[usize]) -> Result<()> {
    let mut rest = raw;
    for (nchunk, size) in sizes.iter().enumerate() {
        let (wanted, after) = rest.split_at(*size);
        let same = || -> Result<()> {
            same_bytes(&schunk.chunk(nchunk).decompress()?, wanted)?;
            ensure!(
                schunk.chunk(nchunk).nbytes()? == *size as u64,
                "chunk_nbytes says something else than {size}"
            );
            Ok(())
        };
        same().with_context(|| format!("chunk {nchunk}"))?;
        rest = after;
    }
    ensure!(schunk.chunk(sizes.len()).read().is_err(), "there is a chunk {}", sizes.len());
    Ok(())
}

/// Compares some blocks of some chunks, each read from its own bytes.
fn blocks(schunk: &SuperChunk, raw: &[u8], sizes: &[usize], rng: &mut Rng) -> Result<()> {
    if sizes.is_empty() {
        return Ok(());
    }
    for _ in 0..3 {
        let nchunk = rng.within(0..=sizes.len() - 1);
        let start = sizes[..nchunk].iter().sum::<usize>();
        let plain = &raw[start..start + sizes[nchunk]];
        let mut same = || -> Result<()> {
            let chunk = schunk.chunk(nchunk).read()?;
            let lazy = chunk.lazy(schunk.dparams())?;
            if lazy.nblocks() == 0 {
                return Ok(());
            }
            let wanted: Vec<usize> =
                (0..rng.within(1..=3)).map(|_| rng.within(0..=lazy.nblocks() - 1)).collect();
            let (mut numbers, mut found) = (Vec::new(), Vec::new());
            schunk.chunk(nchunk).blocks(&wanted, |nblock, block| {
                numbers.push(nblock);
                found.push(block.to_vec());
            })?;
            ensure!(numbers == wanted, "other blocks than {wanted:?}");
            numbers.iter().zip(&found).try_for_each(|(nblock, block)| {
                same_bytes(block, &plain[lazy.block_range(*nblock)])
                    .with_context(|| format!("block {nblock}"))
            })
        };
        same().with_context(|| format!("chunk {nchunk}"))?;
    }
    Ok(())
}
