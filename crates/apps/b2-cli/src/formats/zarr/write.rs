//! Writing version 3: a directory that any reader of Zarr can read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use b2kit::base::memory;
use b2kit::chunk::Compatibility;
use b2kit::nd::Value;
use b2kit::{Chunk, CodecId, Compression, FilterId, NdArray};
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json, json};

use super::boxes::{Region, copy_shared};
use super::metadata::{DIMENSIONS, MISSING};
use super::{attributes, data_type, product};

/// How chunks are compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compressor {
    /// Blosc 1, with shuffle.
    Blosc {
        codec: CodecId,
        level: u8,
    },
    Gzip(u8),
}

impl Compressor {
    fn metadata(self, itemsize: usize) -> Result<Json> {
        Ok(match self {
            Self::Gzip(level) => json!({"name": "gzip", "configuration": {"level": level}}),
            Self::Blosc { codec, level } => {
                let name = match codec {
                    CodecId::BLOSCLZ => "blosclz",
                    CodecId::LZ4 => "lz4",
                    CodecId::LZ4HC => "lz4hc",
                    CodecId::ZLIB => "zlib",
                    CodecId::ZSTD => "zstd",
                    other => bail!("Blosc has no codec {other}"),
                };
                let shuffle = if itemsize > 1 { "shuffle" } else { "noshuffle" };
                json!({"name": "blosc", "configuration": {
                    "cname": name, "clevel": level, "shuffle": shuffle, "typesize": typesize(itemsize), "blocksize": 0,
                }})
            }
        })
    }
}

/// Blosc treats items of other sizes as bytes.
fn typesize(itemsize: usize) -> usize {
    if itemsize <= 255 { itemsize } else { 1 }
}

/// Writes groups and arrays into a directory that exists and is empty.
pub(crate) struct ZarrWriter {
    root: PathBuf,
    compressor: Compressor,
    sync: bool,
    groups: BTreeSet<String>,
}

impl ZarrWriter {
    pub(crate) fn new(root: &Path, compressor: Compressor, sync: bool) -> Self {
        Self { root: root.to_owned(), compressor, sync, groups: BTreeSet::new() }
    }

    /// Writes a group; the root is `""`.
    pub(crate) fn group(&mut self, path: &str, attrs: &[(String, Json)]) -> Result<()> {
        self.parents(path)?;
        self.groups.insert(path.to_owned());
        let attrs: Map<String, Json> = attrs.iter().cloned().collect();
        self.metadata(path, &json!({"zarr_format": 3, "node_type": "group", "attributes": attrs}))
    }

    /// Writes the groups above a path that have not been written.
    fn parents(&mut self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        for group in std::iter::once("").filter(|_| !path.is_empty()).chain(ends) {
            if !self.groups.contains(group) {
                self.groups.insert(group.to_owned());
                self.metadata(group, &json!({"zarr_format": 3, "node_type": "group", "attributes": {}}))?;
            }
        }
        Ok(())
    }

    /// Writes an array; the root is `""`. `each` is called after each chunk, with the bytes of its items.
    ///
    /// # Errors
    /// Fails if Zarr has no such data type, if the array cannot be read or the files not be written, or as `each` does.
    pub(crate) fn array(
        &mut self,
        path: &str,
        array: &NdArray,
        attrs: &[(String, Value)],
        as_json: impl Fn(&Value) -> Json,
        mut each: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let geometry = array.geometry();
        let dtype = array.dtype();
        let itemsize = dtype.itemsize();
        let (data_type, fill, big_endian) = data_type::to_version_3(dtype)?;
        self.parents(path)?;
        let mut codecs = vec![match data_type::has_order(dtype) {
            true => {
                let endian = if big_endian { "big" } else { "little" };
                json!({"name": "bytes", "configuration": {"endian": endian}})
            }
            false => json!({"name": "bytes"}),
        }];
        codecs.push(self.compressor.metadata(itemsize)?);
        let chunks: Vec<u64> = array.chunkshape().iter().map(|&length| u64::from(length).max(1)).collect();
        let mut names = None;
        let mut own = Map::new();
        for (name, value) in attrs {
            match (&**name, value) {
                (DIMENSIONS, Value::Array(list))
                    if list.len() == chunks.len() && list.iter().all(Value::is_str) =>
                {
                    names = Some(list.iter().map(as_json_text).collect::<Vec<_>>());
                }
                (MISSING, value) => {
                    let shown = as_json(value);
                    let missing = attributes::encoded_missing(value, &shown, dtype);
                    own.insert(name.clone(), missing.unwrap_or(shown));
                }
                _ => {
                    own.insert(name.clone(), as_json(value));
                }
            }
        }
        let mut metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": array.shape(),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": own,
        });
        if let (Some(names), Some(object)) = (names, metadata.as_object_mut()) {
            object.insert("dimension_names".into(), names.into());
        }
        self.metadata(path, &metadata)?;
        let nbytes = product(&chunks).saturating_mul(itemsize as u64);
        let mut whole = memory::zeroed(usize::try_from(nbytes)?)?;
        let dir = self.dir(path);
        for n in 0..geometry.nchunks() {
            let coords = geometry.chunk_coords(n);
            let (start, shape) = geometry.chunk_box(&coords);
            let ranges: Vec<_> =
                start.iter().zip(&shape).map(|(at, len)| *at..at.saturating_add(*len)).collect();
            let items = array.slice(&ranges[..])?.read_bytes()?;
            each(items.len() as u64)?;
            // Readers use it for missing chunks.
            if items.iter().all(|byte| *byte == 0) {
                continue;
            }
            let full = match shape == chunks {
                true => &items[..],
                false => {
                    whole.fill(0);
                    let from = Region { start: &start, shape: &shape };
                    copy_shared(
                        from,
                        &items,
                        Region { start: &start, shape: &chunks },
                        &mut whole,
                        itemsize,
                    )?;
                    &whole[..]
                }
            };
            let key = coords.iter().fold(dir.join("c"), |path, at| path.join(at.to_string()));
            self.file(&key, &self.encoded(full, itemsize)?)?;
        }
        Ok(())
    }

    fn encoded(&self, items: &[u8], itemsize: usize) -> Result<Vec<u8>> {
        match self.compressor {
            Compressor::Gzip(level) => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(level.into()));
                encoder.write_all(items)?;
                Ok(encoder.finish()?)
            }
            Compressor::Blosc { codec, level } => {
                let size = typesize(itemsize);
                let mut compression = Compression::new().codec(codec).level(level).itemsize(size);
                compression = compression.compatibility(Compatibility::Blosc1);
                compression = if size > 1 {
                    compression.filters([FilterId::SHUFFLE])
                } else {
                    compression.no_filters()
                };
                let chunk = Chunk::compress_bytes(items, &compression.build()?)?;
                Ok(chunk.into_bytes().to_vec())
            }
        }
    }

    fn dir(&self, path: &str) -> PathBuf {
        path.split('/').filter(|part| !part.is_empty()).fold(self.root.clone(), |dir, part| dir.join(part))
    }

    fn metadata(&self, path: &str, json: &Json) -> Result<()> {
        let text = attributes::print(json)?;
        self.file(&self.dir(path).join("zarr.json"), text.as_bytes())
    }

    /// Writes a file that does not exist.
    fn file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let parent = path.parent().context("a file without a folder")?;
        fs::create_dir_all(parent)?;
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        if self.sync {
            file.sync_all()?;
        }
        Ok(())
    }

    /// Whether a key can be the path of a group or an array.
    pub(crate) fn check_key(key: &str) -> Result<()> {
        let mut parts = key.split('/');
        let fits = |part: &str| {
            !part.is_empty() && part != "zarr.json" && !part.starts_with('.') && !part.starts_with("__")
        };
        ensure!(parts.all(fits), "{key} cannot be the path of an array of Zarr");
        Ok(())
    }
}

fn as_json_text(value: &Value) -> Json {
    value.as_str().map_or(Json::Null, Json::from)
}
