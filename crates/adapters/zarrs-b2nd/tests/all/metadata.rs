//! The metadata of the codecs, which other programs write as well.

use serde_json::{Value, json};
use zarrs::array::codec::api::{Codec, CodecMetadataOptions};
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::ExtensionName;
use zarrs_b2nd as _;

fn codec(metadata: &Value) -> Result<Codec, String> {
    let metadata: MetadataV3 = serde_json::from_value(metadata.clone()).map_err(|error| error.to_string())?;
    Codec::from_metadata(&metadata).map_err(|error| error.to_string())
}

#[test]
fn metadata_is_read_and_written_as_by_python() {
    let defaults = json!({"codec": "zstd", "level": 5, "filters": ["shuffle"]});
    for (name, given, written) in [
        ("b2kit.b2nd", json!({}), defaults.clone()),
        ("b2kit.blosc2", json!({}), defaults),
        (
            "b2kit.b2nd",
            json!({"codec": "lz4", "level": 0, "filters": [["trunc_prec", 10], "bitshuffle"], "blocks": [3, 4]}),
            json!({"codec": "lz4", "level": 0, "filters": [["trunc_prec", 10], "bitshuffle"], "blocks": [3, 4]}),
        ),
        // Readers follow the frame: unknown names are errors only for writing.
        (
            "b2kit.b2nd",
            json!({"codec": "unheard", "filters": []}),
            json!({"codec": "unheard", "level": 5, "filters": []}),
        ),
        (
            "b2kit.blosc2",
            json!({"level": 9, "typesize": 255}),
            json!({"codec": "zstd", "level": 9, "filters": ["shuffle"], "typesize": 255}),
        ),
        (
            "imagecodecs_b2nd",
            json!({"level": 12, "compressor": "LZ4", "shuffle": "bitshuffle", "blockshape": [3], "numthreads": 2}),
            json!({"level": 9, "compressor": "LZ4", "shuffle": "BITSHUFFLE", "blockshape": [3]}),
        ),
        (
            "imagecodecs_blosc2",
            json!({"level": null, "compressor": null, "shuffle": null, "typesize": null}),
            json!({"level": 5, "compressor": "ZSTD", "shuffle": "SHUFFLE"}),
        ),
    ] {
        let codec = codec(&json!({"name": name, "configuration": given})).unwrap();
        assert_eq!(codec.name_v3().unwrap(), name);
        let found = codec.configuration_v3(&CodecMetadataOptions::default()).unwrap();
        assert_eq!(serde_json::to_value(&found).unwrap(), written, "{name} {given}");
    }
}

#[test]
fn wrong_metadata_is_an_error() {
    for (name, given) in [
        ("b2kit.b2nd", json!({"level": 10})),
        ("b2kit.b2nd", json!({"level": true})),
        ("b2kit.b2nd", json!({"codec": 5})),
        ("b2kit.b2nd", json!({"filters": "shuffle"})),
        ("b2kit.b2nd", json!({"filters": [["shuffle", 256]]})),
        ("b2kit.b2nd", json!({"blocks": [0]})),
        ("b2kit.b2nd", json!({"blocks": [-1]})),
        ("b2kit.b2nd", json!({"blocks": [4294967296u64]})),
        ("b2kit.b2nd", json!({"typesize": 4})),
        ("b2kit.blosc2", json!({"typesize": 0})),
        ("b2kit.blosc2", json!({"typesize": 256})),
        ("b2kit.blosc2", json!({"blocks": [4]})),
        ("imagecodecs_b2nd", json!({"shuffle": "unheard"})),
    ] {
        codec(&json!({"name": name, "configuration": given})).expect_err(&format!("{name} {given}"));
    }
}

#[test]
fn what_cannot_be_stored_is_refused() {
    use std::sync::Arc;
    use zarrs::array::{ArrayBuilder, data_type};
    use zarrs::storage::store::MemoryStore;
    use zarrs_b2nd::{B2ndCodec, Blosc2Codec};

    let store = Arc::new(MemoryStore::new());
    let text = ArrayBuilder::new(vec![4], vec![4], data_type::string(), "")
        .array_to_bytes_codec(Arc::new(B2ndCodec::new()))
        .build(store.clone(), "/text")
        .map(|array| array.store_chunk(&[0], vec!["a"; 4]).is_err());
    assert!(text.unwrap_or(true), "strings have no fixed size");
    for codec in [
        B2ndCodec::new().codec("unheard"),
        B2ndCodec::new().filters(["unheard"]),
        B2ndCodec::new().filters(["shuffle"; 7]),
        B2ndCodec::new().blocks([2, 2]),
    ] {
        let array = ArrayBuilder::new(vec![4], vec![4], data_type::int16(), 0i16)
            .array_to_bytes_codec(Arc::new(codec.clone()))
            .build(store.clone(), "/a");
        let stored = array.map_err(|error| error.to_string());
        let stored = stored
            .and_then(|array| array.store_chunk(&[0], vec![1i16; 4]).map_err(|error| error.to_string()));
        stored.expect_err(&format!("{codec:?}"));
    }
    let array = ArrayBuilder::new(vec![4], vec![4], data_type::int16(), 0i16)
        .bytes_to_bytes_codecs(vec![Arc::new(Blosc2Codec::new().codec("unheard"))])
        .build(store, "/b")
        .unwrap();
    array.store_chunk(&[0], vec![1i16; 4]).unwrap_err();
}

/// The schemas for the Zarr extension registry match the specification here.
#[test]
fn the_schemas_to_register_are_those_of_the_specification() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |path: String| -> Value {
        let path = root.join(path);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    };
    for name in ["b2nd", "blosc2"] {
        let mut ours = read(format!("docs/reference/zarr-{name}.schema.json"));
        let theirs = read(format!("packaging/zarr-extensions/codecs/{name}/schema.json"));
        assert_eq!(theirs["properties"]["name"]["const"], name);
        ours["properties"]["name"] = json!({"const": name});
        let map = ours.as_object_mut().unwrap();
        map.remove("title");
        map.remove("description");
        assert_eq!(ours, theirs);
    }
}
