//! Reads every fixture of `testdata/MANIFEST.toml`: files that seven releases of the C library wrote.
//!
//! Of each the SHA-256 of the decoded data is compared, read in different ways, and the facts that the manifest
//! states. The manifest is written by `cargo xtask fixtures`.

use std::path::{Path, PathBuf};

use b2kit::chunk::DParams;
use b2kit::{Chunk, NdArray, Plugins, SuperChunk};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

/// Calls `check` for each fixture of a kind, and reports all failures.
fn each(kind: &str, at_least: usize, check: impl Fn(&Path, &Table) -> Result<(), String>) {
    let testdata = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let manifest: Table = std::fs::read_to_string(testdata.join("MANIFEST.toml")).unwrap().parse().unwrap();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for fixture in manifest["fixture"].as_array().unwrap() {
        let fixture = fixture.as_table().unwrap();
        if fixture["kind"].as_str() != Some(kind) {
            continue;
        }
        seen += 1;
        let path = fixture["path"].as_str().unwrap();
        if let Err(e) = check(&testdata.join(path), fixture) {
            wrong.push(format!("{path}: {e}"));
        }
    }
    assert!(seen >= at_least, "only {seen} fixtures of kind {kind}");
    assert!(wrong.is_empty(), "{} of {seen} fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn chunks() {
    each("chunk", 310, |path, fixture| {
        let chunk = Chunk::from_bytes(read(path)?).map_err(text)?;
        let plain = chunk.decompress_bytes_with(&dparams()).map_err(text)?;
        same_data(&plain, fixture)?;
        // The same in pieces.
        let mut pieces = Vec::new();
        for start in (0..plain.len()).step_by(701) {
            let end = (start + 701).min(plain.len());
            pieces.extend(chunk.get_bytes(start..end, &dparams()).map_err(text)?);
        }
        same_data(&pieces, fixture)?;
        if let Some(sizes) = fixture.get("vl_blocks") {
            let blocks = chunk.blocks(&dparams()).map_err(text)?;
            let found: Vec<Value> = blocks.iter().map(|block| Value::from(block.len() as i64)).collect();
            if Some(&found) != sizes.as_array() {
                return Err(format!("block lengths {found:?}, expected {sizes:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn frames() {
    each("frame", 72, |path, fixture| {
        let options = SuperChunk::options().plugins(plugins());
        let schunk = match fixture.get("offset") {
            Some(offset) => options.offset(offset.as_integer().unwrap() as u64).open(path),
            None => options.open(path),
        };
        let schunk = schunk.map_err(text)?;
        same_data(&schunk.read_bytes(0..schunk.nbytes()).map_err(text)?, fixture)?;
        let mut chunks = Vec::new();
        for nchunk in 0..schunk.nchunks() {
            chunks.extend(schunk.chunk(nchunk).decompress().map_err(text)?);
        }
        same_data(&chunks, fixture)?;
        let nchunks = fixture["nchunks"].as_integer().unwrap();
        if schunk.nchunks() as i64 != nchunks {
            return Err(format!("{} chunks, expected {nchunks}", schunk.nchunks()));
        }
        layers(&schunk, fixture)
    });
}

#[test]
fn arrays() {
    each("array", 69, |path, fixture| {
        let array = NdArray::open_with(path, &SuperChunk::options().plugins(plugins())).map_err(text)?;
        same_data(&array.all().read_bytes().map_err(text)?, fixture)?;
        let shape: Vec<Value> = array.shape().iter().map(|n| Value::from(*n as i64)).collect();
        if Some(&shape) != fixture["shape"].as_array() {
            return Err(format!("shape {shape:?}"));
        }
        if Some(array.dtype().as_str()) != fixture["dtype"].as_str() {
            return Err(format!("dtype {}", array.dtype()));
        }
        layers(array.super_chunk(), fixture)
    });
}

/// Metalayers and vlmetalayers, if the manifest has them.
fn layers(schunk: &SuperChunk, fixture: &Table) -> Result<(), String> {
    for (name, value) in fixture.get("metalayers").and_then(Value::as_table).into_iter().flatten() {
        let found = schunk.metalayers().get(name).map(hex);
        if found.as_deref() != value.as_str() {
            return Err(format!("metalayer {name} is {found:?}, expected {value}"));
        }
    }
    let wanted = fixture.get("vlmetalayers").and_then(Value::as_table);
    for (name, value) in wanted.into_iter().flatten() {
        let found = schunk.vlmetalayers().get(name).map_err(text)?.map(|bytes| hex(&bytes));
        if found.as_deref() != value.as_str() {
            return Err(format!("vlmetalayer {name} is {found:?}, expected {value}"));
        }
    }
    match wanted {
        Some(wanted) if wanted.len() != schunk.vlmetalayers().iter().len() => {
            Err("other vlmetalayers".into())
        }
        _ => Ok(()),
    }
}

fn same_data(plain: &[u8], fixture: &Table) -> Result<(), String> {
    let (nbytes, wanted) = (&fixture["nbytes"], &fixture["data_sha256"]);
    if Some(plain.len() as i64) != nbytes.as_integer() {
        return Err(format!("{} bytes, expected {nbytes}", plain.len()));
    }
    match Some(hex(&Sha256::digest(plain)).as_str()) == wanted.as_str() {
        true => Ok(()),
        false => Err("other data".into()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(text)
}

fn plugins() -> Plugins {
    Plugins::builtin().with_codecs(b2_zfp::codecs())
}

fn dparams() -> DParams {
    DParams::default().plugins(plugins())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}
