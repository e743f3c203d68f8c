//! Reads a super-chunk in all possible ways.

use std::path::Path;

use b2_testkit::Rng;
use b2kit::chunk::SplitMode;
use b2kit::frame::FrameError;
use b2kit::{CodecId, SuperChunk};
use serde_json::Value;

use super::checker::{Checker, Fields, Verdict, same_bytes, text};
use super::read_chunk::{ranges, slots};

/// Reads the frame at `path` and compares it with the case.
pub(crate) fn check(checker: &mut Checker, case: &Value, path: &Path, raw: Option<&[u8]>, rng: &mut Rng) {
    let offset = case.number("offset").unwrap_or(0);
    let open =
        || if offset == 0 { SuperChunk::open(path) } else { SuperChunk::options().offset(offset).open(path) };
    let Some(schunk) = checker.get("open", || open().map_err(text)) else { return };
    contents(checker, case, &schunk, raw, rng);
    if path.is_file() && offset == 0 && rng.chance(30) {
        // Repeat everything from memory.
        let Some(memory) = checker.get("open from memory", || {
            SuperChunk::from_bytes(std::fs::read(path).map_err(text)?).map_err(text)
        }) else {
            return;
        };
        contents(checker, case, &memory, raw, rng);
    }
}

/// Compares properties, whole chunks, and parts of one or several chunks.
pub(crate) fn contents(
    checker: &mut Checker,
    case: &Value,
    schunk: &SuperChunk,
    raw: Option<&[u8]>,
    rng: &mut Rng,
) {
    facts(checker, case, schunk);
    layers(checker, case, schunk);
    let Some(raw) = raw else {
        checker.run("uninitialised chunks", || {
            for nchunk in 0..schunk.nchunks() {
                schunk.decompress_chunk(nchunk).map_err(|e| format!("chunk {nchunk}: {}", text(e)))?;
            }
            Ok(())
        });
        return;
    };
    let sizes = case.numbers("chunks").unwrap_or_default();
    checker.run("chunks", || chunks(schunk, raw, &sizes));
    checker.run("bytes", || {
        for range in ranges(rng, raw.len(), 8) {
            let found = schunk.read_bytes(range.start as u64..range.end as u64);
            let found = found.map_err(|e| format!("bytes {range:?}: {}", text(e)))?;
            same_bytes(&found, &raw[range.clone()]).map_err(|e| format!("bytes {range:?}: {e}"))?;
        }
        Ok(())
    });
    checker.run("items", || {
        let typesize = schunk.typesize();
        for range in ranges(rng, raw.len() / typesize, 4) {
            let found = schunk.read_items(range.start as u64..range.end as u64);
            let found = found.map_err(|e| format!("items {range:?}: {}", text(e)))?;
            let wanted = &raw[range.start * typesize..range.end * typesize];
            same_bytes(&found, wanted).map_err(|e| format!("items {range:?}: {e}"))?;
        }
        Ok(())
    });
    checker.run("single blocks", || blocks(schunk, raw, &sizes, rng));
    if let Some(lists) = case["vl_blocks"].as_array() {
        checker.run("variable-length blocks", || vl_blocks(schunk, lists));
    }
}

/// Compares the header with the properties in the case.
pub(crate) fn facts(checker: &mut Checker, case: &Value, schunk: &SuperChunk) {
    let header = schunk.header();
    if let Some(nchunks) = case.number("nchunks") {
        checker.same("nchunks", schunk.nchunks() as u64, nchunks);
    }
    if let Some(nbytes) = case.number("nbytes") {
        checker.same("nbytes", schunk.nbytes(), nbytes);
    }
    if let Some(typesize) = case.number("typesize") {
        checker.same("typesize", schunk.typesize() as u64, typesize);
    }
    if let (Some(chunksize), true) = (case.number("chunksize"), schunk.nchunks() > 0) {
        checker.same("chunksize", schunk.chunksize() as u64, chunksize);
    }
    if let Some(codec) = case.text("codec").and_then(CodecId::from_name) {
        checker.same("header codec", header.codec(), codec);
    }
    if let Some(clevel) = case.number("clevel") {
        checker.same("header clevel", u64::from(header.level()), clevel);
    }
    if let Some(use_dict) = case["use_dict"].as_bool() {
        checker.same("header use_dict", header.use_dict(), use_dict);
    }
    if let Some(slots) = slots(case) {
        let found: Vec<[u64; 2]> =
            header.filters().iter().map(|slot| [slot.id.0.into(), slot.meta.into()]).collect();
        checker.same("header filters", found, slots);
    }
    let mode = case.text("split").and_then(|name| {
        let modes = [SplitMode::Always, SplitMode::Never, SplitMode::Auto, SplitMode::ForwardCompat];
        Some(modes[["always", "never", "auto", "forward"].iter().position(|mode| *mode == name)?])
    });
    if let Some(mode) = mode {
        checker.same("header split mode", header.splitmode(), mode);
    }
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
            let mut found = Vec::new();
            for name in layers.names() {
                let value = layers.get(name.as_bytes()).map_err(|e| format!("{name}: {}", text(e)))?;
                found.push((name.clone().into_owned(), value.ok_or_else(|| format!("{name} is gone"))?));
            }
            found.sort();
            let wanted = case.layers("vlmetalayers");
            let names =
                |list: &[(String, Vec<u8>)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            if names(&found) != names(&wanted) {
                return Err(format!("names {:?}, expected {:?}", names(&found), names(&wanted)));
            }
            for ((name, found), (_, wanted)) in found.iter().zip(&wanted) {
                same_bytes(found, wanted).map_err(|e| format!("{name}: {e}"))?;
            }
            Ok(())
        });
    }
}

fn chunks(schunk: &SuperChunk, raw: &[u8], sizes: &[u64]) -> Verdict {
    let mut at = 0;
    for (nchunk, size) in sizes.iter().enumerate() {
        let name = |e: FrameError| format!("chunk {nchunk}: {}", text(e));
        let plain = schunk.decompress_chunk(nchunk).map_err(name)?;
        same_bytes(&plain, &raw[at..at + *size as usize]).map_err(|e| format!("chunk {nchunk}: {e}"))?;
        if schunk.chunk_nbytes(nchunk).map_err(name)? != *size {
            return Err(format!("chunk {nchunk}: chunk_nbytes says something else than {size}"));
        }
        at += plain.len();
    }
    if schunk.chunk(sizes.len()).is_ok() {
        return Err(format!("there is a chunk {}", sizes.len()));
    }
    Ok(())
}

/// Compares some blocks of some chunks, each read from its own bytes.
fn blocks(schunk: &SuperChunk, raw: &[u8], sizes: &[u64], rng: &mut Rng) -> Verdict {
    if sizes.is_empty() {
        return Ok(());
    }
    for _ in 0..3 {
        let nchunk = rng.within(0..=sizes.len() - 1);
        let start = sizes[..nchunk].iter().sum::<u64>() as usize;
        let plain = &raw[start..start + sizes[nchunk] as usize];
        let name = |e: String| format!("chunk {nchunk}: {e}");
        let chunk = schunk.chunk(nchunk).map_err(|e| name(text(e)))?;
        let lazy = chunk.lazy(schunk.dparams()).map_err(|e| name(text(e)))?;
        if lazy.nblocks() == 0 {
            continue;
        }
        let wanted: Vec<usize> = (0..rng.within(1..=3)).map(|_| rng.within(0..=lazy.nblocks() - 1)).collect();
        let mut found = Vec::new();
        schunk
            .blocks(nchunk, &wanted, |nblock, block| found.push((nblock, block.to_vec())))
            .map_err(|e| name(text(e)))?;
        if found.iter().map(|(nblock, _)| *nblock).collect::<Vec<_>>() != wanted {
            return Err(name(format!("other blocks than {wanted:?}")));
        }
        for (nblock, block) in &found {
            same_bytes(block, &plain[lazy.block_range(*nblock)])
                .map_err(|e| name(format!("block {nblock}: {e}")))?;
        }
    }
    Ok(())
}

fn vl_blocks(schunk: &SuperChunk, lists: &[Value]) -> Verdict {
    for (nchunk, list) in lists.iter().enumerate() {
        let blocks = schunk.chunk_blocks(nchunk).map_err(|e| format!("chunk {nchunk}: {}", text(e)))?;
        let found: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
        let wanted: Vec<u64> = list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        if found != wanted {
            return Err(format!("chunk {nchunk}: lengths {found:?}, expected {wanted:?}"));
        }
    }
    Ok(())
}
