//! Shared by several tests: data, small frames of every kind, patches.

use std::fs;
use std::path::Path;

use b2_chunk::{CParams, Chunk, CodecId, Compression, FilterSlot, SpecialKind};
use b2_frame::{
    CommitReport, Durability, FrameEditor, FrameError, FrameParams, FrameWriter, Storage, SuperChunk,
};
use bytes::Bytes;

/// Returns bytes that compress somewhat, different for each seed.
pub(crate) fn data(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = 0u32;
    let mut out = Vec::with_capacity(len + 4);
    while out.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value = value.wrapping_add((state >> 60) as u32);
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Number of random cases of damage to each frame that is a file: 2,000, or the value of `B2KIT_DAMAGE`.
pub(crate) fn damages() -> usize {
    std::env::var("B2KIT_DAMAGE").map_or(MANY, |text| text.parse().expect("B2KIT_DAMAGE: a number"))
}

const MANY: usize = 2000;

/// Of how many places one is taken where files are slow: every one, but fewer if `B2KIT_DAMAGE` is smaller than usual.
/// An odd number, so that each bit of a byte has its turn if that depends on the place.
pub(crate) fn stride() -> usize {
    (MANY / damages().max(1)).max(1) | 1
}

/// Compacts a frame that is being read. Not every Windows file system can replace an open file: then the error states
/// that, and nothing has changed. Returns whether the frame was compacted.
pub(crate) fn compact_beside_readers(editor: &mut FrameEditor) -> bool {
    let result = editor.compact();
    let compacted = !is_in_use(&result);
    if compacted {
        result.unwrap();
    }
    compacted
}

/// Commits while others open the frame again and again. On Windows this may have to be tried again.
pub(crate) fn commit_beside_readers(editor: &mut FrameEditor) {
    loop {
        let result = editor.commit();
        if !is_in_use(&result) {
            result.unwrap();
            return;
        }
    }
}

fn is_in_use(result: &Result<CommitReport, FrameError>) -> bool {
    match result {
        Err(FrameError::Io { source, .. }) if cfg!(windows) => {
            assert!(source.to_string().contains("until it is closed"), "{source}");
            true
        }
        _ => false,
    }
}

/// Returns parameters that every build supports for compression.
pub(crate) fn cparams(typesize: usize) -> CParams {
    Compression::new().itemsize(typesize).codec(CodecId::BLOSCLZ).build().unwrap()
}

pub(crate) fn compress(raw: &[u8], cparams: &CParams) -> Chunk {
    Chunk::compress_bytes(raw, cparams).unwrap()
}

/// A frame in memory and its uncompressed bytes.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) frame: Bytes,
    pub(crate) raw: Vec<u8>,
}

/// Returns small frames of every kind, for tests that change each of their bytes. They have no checksums, which would
/// hide what the other checks find.
pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |name, params: FrameParams, fill: &dyn Fn(&mut FrameWriter)| {
        let mut writer = bare(params);
        fill(&mut writer);
        let frame = writer.finish().unwrap().into_bytes();
        let raw = whole(&SuperChunk::from_bytes(frame.clone()).unwrap());
        samples.push(Sample { name, frame, raw });
    };
    let cparams = cparams(4);
    let params = || FrameParams::from_cparams(&cparams);
    add("empty", params(), &|_| {});
    add("plain", params(), &|w| {
        for part in data(700, 1).chunks(300) {
            w.append(compress(part, &cparams)).unwrap();
        }
    });
    add("metadata", params().metalayer("m1", [1, 2, 3]).metalayer("other", []), &|w| {
        w.append(compress(&data(200, 2), &cparams)).unwrap();
        w.set_vlmetalayer("v1", &data(90, 3)).unwrap();
        w.set_vlmetalayer("v2", b"").unwrap();
    });
    add("special", params(), &|w| {
        w.append_special(SpecialKind::Zeros, 64).unwrap();
        w.append_special(SpecialKind::NaN, 64).unwrap();
        w.append_special(SpecialKind::Uninit, 64).unwrap();
        w.append(Chunk::special(SpecialKind::Value, &[1, 2, 3, 4], 64, 4, 0).unwrap()).unwrap();
    });
    add("individual sizes", params(), &|w| {
        for (i, len) in [40, 100, 52].into_iter().enumerate() {
            w.append(compress(&data(len, i as u64), &cparams)).unwrap();
        }
    });
    let delta = cparams
        .to_builder()
        .filters([FilterSlot::DELTA, FilterSlot::SHUFFLE])
        .blocksize(128)
        .build()
        .unwrap();
    add("delta", FrameParams::from_cparams(&delta), &|w| {
        w.append(compress(&data(512, 4), &delta)).unwrap();
    });
    add("variable-length blocks", params(), &|w| {
        let blocks = [&data(50, 5)[..], b"x", &[7; 30]];
        w.append(Chunk::compress_vl(&blocks, &cparams).unwrap()).unwrap();
        w.append(Chunk::compress_vl(&blocks[..2], &cparams).unwrap()).unwrap();
    });
    samples
}

/// Returns all uncompressed bytes, read as whole chunks.
pub(crate) fn whole(schunk: &SuperChunk) -> Vec<u8> {
    (0..schunk.nchunks()).flat_map(|nchunk| schunk.chunk(nchunk).decompress().unwrap()).collect()
}

/// A frame with chunks of `raw`, `chunksize` bytes each, in memory.
/// Writes a frame without checksums, whose bytes tests may change.
pub(crate) fn bare(params: FrameParams) -> FrameWriter {
    FrameWriter::options().checksums(false).memory(params).unwrap()
}

pub(crate) fn frame(raw: &[u8], chunksize: usize, cparams: &CParams) -> Bytes {
    let mut writer = bare(FrameParams::from_cparams(cparams));
    append_all(&mut writer, raw, chunksize, cparams);
    writer.finish().unwrap().into_bytes()
}

pub(crate) fn append_all(writer: &mut FrameWriter, raw: &[u8], chunksize: usize, cparams: &CParams) {
    for part in raw.chunks(chunksize) {
        writer.append(compress(part, cparams)).unwrap();
    }
}

/// Returns a copy with other bytes at `offset`.
pub(crate) fn patched(frame: &[u8], offset: usize, bytes: &[u8]) -> Bytes {
    let mut copy = frame.to_vec();
    copy[offset..offset + bytes.len()].copy_from_slice(bytes);
    copy.into()
}

/// Returns a copy with `extra` inserted at `offset` and `frame_len` increased to match.
pub(crate) fn inserted(frame: &[u8], offset: usize, extra: &[u8]) -> Bytes {
    let mut copy = frame.to_vec();
    copy.splice(offset..offset, extra.iter().copied());
    let len = copy.len() as u64;
    copy[16..24].copy_from_slice(&len.to_be_bytes());
    copy.into()
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes three chunks and a vlmetalayer.
pub(crate) fn fill(mut writer: FrameWriter, seed: u64) -> Result<(), FrameError> {
    for i in 0..3 {
        writer.append(compress(&data(500, seed + i), &cparams(4)))?;
    }
    writer.append_special(SpecialKind::Zeros, 500)?;
    writer.set_vlmetalayer("v", b"value")?;
    writer.finish().map(drop)
}

pub(crate) fn plain(seed: u64) -> Vec<u8> {
    [data(500, seed), data(500, seed + 1), data(500, seed + 2), vec![0; 500]].concat()
}

pub(crate) fn create(path: &Path, storage: Storage, overwrite: bool) -> Result<FrameWriter, FrameError> {
    let options = FrameWriter::options().overwrite(overwrite).durability(Durability::None);
    options.storage(storage).create(path, FrameParams::new(4))
}
