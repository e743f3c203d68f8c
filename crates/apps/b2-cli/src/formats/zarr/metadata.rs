//! The metadata of an array.

use anyhow::{Context, Result, bail, ensure};
use b2kit::nd::Value;
use b2kit::{Dtype, Limits};
use serde_json::Value as Json;

use super::codecs::{Chain, is_big_endian, lengths};
use super::{attributes, data_type, product};

/// The attribute with the names of the dimensions, as xarray writes it in version 2.
pub(super) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";
/// The attribute with the value of missing items.
pub(super) const MISSING: &str = "_FillValue";

/// The metadata of an array.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) shape: Vec<u64>,
    pub(super) chunks: Vec<u64>,
    pub(super) dtype: Dtype,
    /// The item in chunks that are not stored.
    pub(super) fill: Vec<u8>,
    pub(super) chain: Chain,
    pub(super) keys: ChunkKeys,
    pub(super) attributes: Vec<(String, Value)>,
}

/// The scheme for the names of chunks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChunkKeys {
    prefix: &'static str,
    separator: char,
}

impl ChunkKeys {
    /// The name of a chunk.
    pub(super) fn of(&self, coords: &[u64]) -> String {
        let numbers: Vec<String> = coords.iter().map(u64::to_string).collect();
        let separator = self.separator.to_string();
        match (self.prefix, &numbers[..]) {
            ("", []) => "0".into(),
            ("", numbers) => numbers.join(&separator),
            (prefix, []) => prefix.into(),
            (prefix, numbers) => format!("{prefix}{separator}{}", numbers.join(&separator)),
        }
    }
}

impl Metadata {
    /// Reads `.zarray` and `.zattrs`.
    pub(super) fn version_2(json: &Json, attrs: Option<&Json>, limits: &Limits) -> Result<Self> {
        let field = |name: &str| json.get(name).unwrap_or(&Json::Null);
        let (shape, chunks) = shapes(json.get("shape"), json.get("chunks"))?;
        let dtype = data_type::of_version_2(field("dtype"))?;
        let fill = data_type::fill(field("fill_value"), &dtype)?;
        let chain =
            Chain::version_2(&dtype, shape.len(), field("order"), field("filters"), field("compressor"))?;
        let separator = match json.get("dimension_separator").and_then(Json::as_str) {
            Some("/") => '/',
            Some(".") | None => '.',
            Some(other) => bail!("dimension_separator {other} is not known"),
        };
        let mut attributes = attributes::values(attrs);
        // xarray interprets this in its own files as the value of missing items.
        let has = |name: &str| attributes.iter().any(|(own, _)| own == name);
        if has(DIMENSIONS) && !has(MISSING) {
            match (field("fill_value"), data_type::named_float(field("fill_value"))) {
                (_, Some(x)) => attributes.push((MISSING.into(), Value::F64(x))),
                (number @ (Json::Number(_) | Json::Bool(_)), _) => {
                    attributes.push((MISSING.into(), attributes::value(number)));
                }
                _ => {}
            }
        }
        let keys = ChunkKeys { prefix: "", separator };
        Self { shape, chunks, dtype, fill, chain, keys, attributes }.checked(limits)
    }

    /// Reads `zarr.json`.
    pub(super) fn version_3(json: &Json, limits: &Limits) -> Result<Self> {
        let (grid, parameters) = data_type::named(json.get("chunk_grid").context("chunk_grid: is missing")?)?;
        ensure!(grid == "regular", "chunk_grid {grid} is not supported");
        let (shape, chunks) = shapes(json.get("shape"), parameters.get("chunk_shape"))?;
        let codecs = json.get("codecs").and_then(Json::as_array).context("codecs: is missing")?;
        let big_endian = is_big_endian(codecs);
        let dtype =
            data_type::of_version_3(json.get("data_type").context("data_type: is missing")?, big_endian)?;
        let fill = data_type::fill(json.get("fill_value").unwrap_or(&Json::Null), &dtype)?;
        let chain = Chain::version_3(&dtype, &chunks, codecs)?;
        let keys = match json.get("chunk_key_encoding") {
            None => ChunkKeys { prefix: "c", separator: '/' },
            Some(encoding) => {
                let (name, parameters) = data_type::named(encoding)?;
                let separator = parameters.get("separator").and_then(Json::as_str);
                match (name, separator) {
                    ("default", None | Some("/")) => ChunkKeys { prefix: "c", separator: '/' },
                    ("default", Some(".")) => ChunkKeys { prefix: "c", separator: '.' },
                    ("v2", None | Some(".")) => ChunkKeys { prefix: "", separator: '.' },
                    ("v2", Some("/")) => ChunkKeys { prefix: "", separator: '/' },
                    _ => bail!("chunk_key_encoding {encoding} is not supported"),
                }
            }
        };
        let transformers = json.get("storage_transformers").and_then(Json::as_array);
        ensure!(transformers.is_none_or(Vec::is_empty), "storage_transformers are not supported");
        let mut attributes = attributes::values(json.get("attributes"));
        if let Some(names) = json.get("dimension_names").and_then(Json::as_array) {
            ensure!(
                names.len() == shape.len(),
                "dimension_names: {} for {} dimensions",
                names.len(),
                shape.len()
            );
            let name =
                |(n, name): (usize, &Json)| name.as_str().map_or_else(|| format!("dim_{n}"), str::to_owned);
            if names.iter().any(Json::is_string) {
                attributes.retain(|(name, _)| name != DIMENSIONS);
                let names = names.iter().enumerate().map(|each| Value::from(name(each)));
                attributes.push((DIMENSIONS.into(), Value::Array(names.collect())));
            }
        }
        for (name, value) in &mut attributes {
            if name == MISSING
                && let Some(decoded) = attributes::decoded_missing(value, &dtype)
            {
                *value = decoded;
            }
        }
        Self { shape, chunks, dtype, fill, chain, keys, attributes }.checked(limits)
    }

    fn checked(self, limits: &Limits) -> Result<Self> {
        let nbytes = product(&self.chunks).saturating_mul(self.dtype.itemsize() as u64);
        limits.check_memory("chunk, in bytes", nbytes)?;
        self.chain.check(&self.chunks, self.dtype.itemsize(), limits)?;
        Ok(self)
    }
}

/// The shape of an array, and that of its chunks.
fn shapes(shape: Option<&Json>, chunks: Option<&Json>) -> Result<(Vec<u64>, Vec<u64>)> {
    let shape = lengths(shape).context("shape")?;
    let chunks = lengths(chunks).context("chunks")?;
    let fits = chunks.len() == shape.len() && chunks.iter().all(|&length| length > 0);
    ensure!(fits, "chunks {chunks:?} do not fit the shape {shape:?}");
    Ok((shape, chunks))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_chunks() {
        let name = |prefix, separator, coords: &[u64]| ChunkKeys { prefix, separator }.of(coords);
        assert_eq!(name("", '.', &[1, 20]), "1.20");
        assert_eq!((name("", '.', &[]), name("c", '/', &[])), ("0".to_owned(), "c".to_owned()));
        assert_eq!(name("c", '/', &[1, 20]), "c/1/20");
    }

    #[test]
    fn metadata_that_claims_too_much_is_refused() {
        let limits = Limits::default();
        let two = |shape: Json, chunks: Json| {
            Metadata::version_2(
                &json!({"shape": shape, "chunks": chunks, "dtype": "<f8", "fill_value": 1.5}),
                None,
                &limits,
            )
        };
        assert_eq!(two(json!([3, 4]), json!([2, 4])).unwrap().fill, 1.5_f64.to_le_bytes());
        for (shape, chunks) in [
            (json!([3]), json!([0])),
            (json!([3]), json!([1, 1])),
            (json!([-3]), json!([1])),
            (json!([3]), json!([1_u64 << 62])),
            (json!([3, 3]), json!([1_u64 << 32, 1_u64 << 32])),
            (json!([u64::MAX]), json!([1])),
            (json!(3), json!([1])),
            (Json::Null, json!([1])),
            (json!(vec![1; 65]), json!(vec![1; 65])),
        ] {
            two(shape.clone(), chunks.clone()).unwrap_err();
            let three = json!({"shape": shape, "data_type": "float64", "fill_value": 0, "codecs": ["bytes"],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}}});
            Metadata::version_3(&three, &limits).unwrap_err();
        }
    }
}
