//! Stores that are written, changed and read, and stores that were made to lead elsewhere.

mod changes;
mod hostile;
mod roundtrip;

use std::path::Path;

use b2_frame::{FrameEditor, FrameParams, ReadOptions, SuperChunk};
use b2_store::{Store, StoreError};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, NdArray};

fn options() -> ReadOptions {
    SuperChunk::options()
}

fn open(path: impl AsRef<Path>) -> Store {
    Store::open(path, &options()).expect("opens").expect("a store")
}

/// An array with random shape and items.
fn array(rng: &mut Rng) -> (Vec<u32>, SuperChunk) {
    let shape: Vec<u64> = (0..rng.within(1..=3)).map(|_| rng.within(1..=20) as u64).collect();
    let items: Vec<u32> = (0..shape.iter().product()).map(|_| rng.below(1000) as u32).collect();
    let frame = ArrayBuilder::new::<u32>(shape).to_bytes(&items[..]).expect("an array");
    (items, SuperChunk::from_bytes(frame).expect("a frame"))
}

fn items(frame: SuperChunk) -> Vec<u32> {
    NdArray::from_super_chunk(frame).expect("an array").slice(..).expect("all").read().expect("items")
}

/// A frame with the given bytes.
fn bytes(data: &[u8]) -> SuperChunk {
    let mut editor = FrameEditor::memory(FrameParams::new(1)).expect("a frame");
    editor.append_bytes(data).expect("bytes");
    editor.commit().expect("a commit");
    SuperChunk::from_bytes(editor.into_bytes().expect("in memory")).expect("a frame")
}

/// The bytes of a contiguous frame.
fn raw(frame: &SuperChunk) -> Vec<u8> {
    frame.to_frame().expect("a frame").to_vec()
}

/// A frame of an `EmbedStore` with this map, whose bytes are `data`.
fn embedding(data: &[u8], map: &str) -> SuperChunk {
    let params = FrameParams::new(1).chunksize(8192).metalayer("b2embed", b"\x80");
    let mut editor = FrameEditor::memory(params).expect("a frame");
    editor.append_bytes(data).expect("bytes");
    let mut layer = Vec::new();
    let value: serde_json::Value = serde_json::from_str(map).expect("JSON");
    pack(&value, &mut layer);
    editor.vlmeta().set("estore_metadata", &layer).expect("a layer");
    editor.commit().expect("a commit");
    SuperChunk::from_bytes(editor.into_bytes().expect("in memory")).expect("a frame")
}

/// Writes JSON as msgpack.
fn pack(value: &serde_json::Value, out: &mut Vec<u8>) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            rmp::encode::write_map_len(out, map.len() as u32).expect("memory");
            for (key, value) in map {
                rmp::encode::write_str(out, key).expect("memory");
                pack(value, out);
            }
        }
        Value::String(text) => rmp::encode::write_str(out, text).expect("memory"),
        Value::Number(number) => match number.as_u64() {
            Some(number) => drop(rmp::encode::write_uint(out, number).expect("memory")),
            None => drop(rmp::encode::write_sint(out, number.as_i64().expect("a number")).expect("memory")),
        },
        _ => rmp::encode::write_nil(out).expect("memory"),
    }
}

fn refused<T>(result: Result<T, StoreError>, what: &str) {
    let error = result.err().expect("an error");
    let text = b2_core::Report(&error).to_string();
    assert!(text.contains(what), "{text:?} does not say {what:?}");
}
