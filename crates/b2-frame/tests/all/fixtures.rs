//! Frames written by C-Blosc2, from all releases for which there are fixtures.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::common::*;
use b2_chunk::{Chunk, Plugins};
use b2_frame::{Durability, FrameEditor, FrameParams, FrameWriter, Storage, SuperChunk};
use sha2::{Digest, Sha256};

/// Returns the entries of the manifest as strings.
fn fixtures(manifest: &str) -> Vec<HashMap<&str, &str>> {
    manifest
        .split("[[fixture]]")
        .skip(1)
        .map(|table| {
            let lines = table.lines().filter_map(|line| line.split_once(" = "));
            lines.map(|(key, value)| (key, value.trim_matches('"'))).collect()
        })
        .collect()
}

fn hash(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls `check` with name, path, super-chunk and manifest entry of each frame that this build decodes.
fn each_frame(mut check: impl FnMut(&str, &Path, SuperChunk, &HashMap<&str, &str>)) {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let manifest = fs::read_to_string(testdata.join("MANIFEST.toml")).unwrap();
    let mut seen = 0;
    for fixture in fixtures(&manifest) {
        if fixture["kind"] != "frame" {
            continue;
        }
        let (name, path) = (fixture["path"], testdata.join(fixture["path"]));
        let schunk = match fixture.get("offset") {
            Some(offset) => SuperChunk::options().offset(offset.parse().unwrap()).open(&path),
            None => SuperChunk::open(&path),
        };
        let schunk = schunk.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(schunk.nbytes().to_string(), fixture["nbytes"], "{name}");
        if let Some(nchunks) = fixture.get("nchunks") {
            assert_eq!(schunk.nchunks().to_string(), *nchunks, "{name}");
        }
        if Plugins::builtin().codec(schunk.header().codec()).is_err() {
            // Not supported by this build.
            continue;
        }
        check(name, &path, schunk, &fixture);
        seen += 1;
    }
    assert!(seen >= 20, "{seen} frames");
}

#[test]
fn all_frames_are_read_and_copied() {
    each_frame(|name, _, schunk, fixture| {
        let raw = whole(&schunk);
        assert_eq!(hash(&raw), fixture["data_sha256"], "{name}");
        assert_eq!(schunk.read_bytes(0..schunk.nbytes()).unwrap(), raw, "{name}");
        for start in (0..raw.len()).step_by(raw.len() / 20 + 1) {
            let end = (start + 777).min(raw.len());
            let part = schunk.read_bytes(start as u64..end as u64).unwrap();
            assert_eq!(part, raw[start..end], "{name}: {start}..{end}");
        }

        let dir = tempfile::tempdir().unwrap();
        for storage in [Storage::Contiguous, Storage::Sparse] {
            let path = dir.path().join(format!("{storage:?}"));
            let params = schunk
                .metalayers()
                .iter()
                .fold(FrameParams::like(schunk.header()), |params, (name, value)| {
                    params.metalayer(name, value)
                });
            let options = FrameWriter::options().durability(Durability::None);
            let mut writer = options.storage(storage).create(&path, params).unwrap();
            for nchunk in 0..schunk.nchunks() {
                writer.append(schunk.chunk(nchunk).read().unwrap()).unwrap();
            }
            for (name, _) in schunk.vlmetalayers().iter() {
                let value = schunk.vlmetalayers().chunk(name).unwrap().unwrap();
                writer.set_vlmetalayer_chunk(name, value).unwrap();
            }
            writer.finish().unwrap();
            let copy = SuperChunk::open(&path).unwrap();
            assert_eq!(whole(&copy), raw, "copy of {name}");
            assert_eq!(copy.metalayers(), schunk.metalayers());
            assert!(copy.vlmetalayers().iter().eq(schunk.vlmetalayers().iter()));
            let header = |schunk: &SuperChunk| {
                let header = schunk.header();
                (header.codec(), header.level(), header.filters(), header.splitmode(), header.use_dict())
            };
            assert_eq!(header(&copy), header(&schunk));
        }
    });
}

#[test]
fn all_frames_can_be_changed() {
    each_frame(|name, path, schunk, fixture| {
        if fixture.contains_key("offset") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy");
        if path.is_dir() {
            fs::create_dir(&copy).unwrap();
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
        } else {
            fs::copy(path, &copy).unwrap();
        }
        let mut chunks: Vec<Vec<u8>> =
            (0..schunk.nchunks()).map(|nchunk| schunk.chunk(nchunk).decompress().unwrap()).collect();
        let vl = !chunks.is_empty() && schunk.chunk(0).read().unwrap().header().is_vl();
        let cparams = cparams(schunk.itemsize());
        let nbytes = chunks.first().map_or(schunk.itemsize() * 50, Vec::len);
        let raw = data(nbytes, 77);
        let new = || match vl {
            true => Chunk::compress_vl(&[&raw], &cparams).unwrap(),
            false => compress(&raw, &cparams),
        };
        let options = FrameEditor::options().durability(Durability::None);
        // One of them already has 16.
        let mut editor = options.many_vlmetalayers(true).edit(&copy).unwrap();
        editor.insert(0, new()).unwrap();
        chunks.insert(0, raw.clone());
        editor.vlmeta().set("added", b"value").unwrap();
        editor.commit().unwrap();
        if chunks.len() > 1 {
            editor.update(1, new()).unwrap();
            chunks[1] = raw.clone();
            editor.delete(0).unwrap();
            chunks.remove(0);
            editor.commit().unwrap();
        }
        for compacted in [false, true] {
            let changed = SuperChunk::open(&copy).unwrap();
            let found: Vec<Vec<u8>> =
                (0..changed.nchunks()).map(|nchunk| changed.chunk(nchunk).decompress().unwrap()).collect();
            assert!(found == chunks, "{name}");
            assert_eq!(changed.metalayers(), schunk.metalayers(), "{name}");
            assert_eq!(changed.vlmetalayers().iter().len(), schunk.vlmetalayers().iter().len() + 1, "{name}");
            assert_eq!(changed.vlmetalayers().get("added").unwrap().unwrap(), b"value");
            if compacted {
                assert_eq!(changed.dead_bytes().unwrap(), 0, "{name}");
            } else if !compact_beside_readers(&mut editor) {
                drop(changed);
                editor.compact().unwrap();
            }
        }
    });
}
