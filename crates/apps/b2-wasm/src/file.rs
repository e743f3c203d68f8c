//! Open files: arrays, other frames and stores, and their descriptions.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use b2_async::{AsyncNdArray, AsyncSuperChunk};
use b2_chunk::SpecialKind;
use b2_frame::{Checksums, Entry, INDEXES, SuperChunk};
use b2_store::{MemberKind, MemberLocation};
use b2_view::edges::{Coordinates, MAX_COORDINATES};
use b2_view::items;
use b2_view::labels::{Labels, shown_dtype};
use b2_view::numbers::Numbers;
use b2nd::{Dtype, NdArray};
use serde_json::{Map, Value, json};

use crate::frame;
use crate::host::Host;
use crate::others::guess;
use crate::source::{File, Source};
use crate::store;

/// Longer metadata texts are truncated.
const MAX_TEXT_LEN: usize = 4000;

/// An open file.
#[derive(Debug)]
pub enum OpenFile {
    /// An array.
    Array(AsyncNdArray<Source>),
    /// A super-chunk that is not an array.
    Frame(AsyncSuperChunk<Source>),
    /// A store of several frames.
    Store(store::OpenStore),
}

impl OpenFile {
    /// Opens a file of the page.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or is something else.
    pub async fn open(host: &Host, number: u32, name: &str) -> Result<Self> {
        let file = Arc::new(File::open(host, number, name).await.context("cannot read the file")?);
        if file.is_empty() {
            bail!("the file is empty");
        }
        let first = file.first().clone();
        if first.starts_with(b"PK") {
            return Ok(Self::Store(store::OpenStore::archive(file).await?));
        }
        if !first.starts_with(&b2_frame::MAGIC) {
            bail!("this is not a Blosc2 file: neither a frame nor a store{}", guess(&first));
        }
        let frame = Self::frame(Source::File(file.clone())).await?;
        if let Self::Frame(frame) = &frame
            && let Some(store) = store::OpenStore::frame(file, frame)?
        {
            return Ok(Self::Store(store));
        }
        Ok(frame)
    }

    /// Opens a frame.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub async fn frame(source: Source) -> Result<Self> {
        let frame = frame::open(source).await?;
        if frame.metalayers().get("b2nd").is_none() && frame.metalayers().get("caterva").is_none() {
            return Ok(Self::Frame(frame));
        }
        Ok(Self::Array(AsyncNdArray::from_super_chunk(frame)?))
    }

    /// Describes the file.
    #[must_use]
    pub fn describe(&self) -> Value {
        match self {
            Self::Array(array) => of_array(array.array()),
            Self::Frame(frame) => {
                let shape = [items(frame)];
                let frame = frame.super_chunk();
                let size = frame.itemsize().max(1);
                let [chunks, blocks] = [frame.chunksize(), frame.header().blocksize()].map(|n| [n / size]);
                let array = json!({"kind": "frame", "shape": shape, "chunks": chunks, "blocks": blocks});
                joined([array, of_items(&plain_dtype(frame.itemsize())), of_frame(frame)])
            }
            Self::Store(store) => {
                let member = |(key, member): (&String, &b2_store::Member)| {
                    let kind = match member.kind {
                        MemberKind::Array => "array",
                        MemberKind::SuperChunk => "super-chunk",
                        MemberKind::Batches => "batches",
                        _ => "",
                    };
                    let (len, why) = match &member.place {
                        MemberLocation::Archived { len, .. } => (*len, ""),
                        MemberLocation::Embedded(range) => (range.end.saturating_sub(range.start), ""),
                        MemberLocation::Unreadable(why) => (0, why.as_str()),
                        _ => (0, ""),
                    };
                    json!({"key": key, "kind": kind, "len": len, "why": why})
                };
                json!({"kind": "store", "members": store.members().iter().map(member).collect::<Value>()})
            }
        }
    }

    /// Returns the dtype of the items, the numbers that mark missing ones, and the shape.
    ///
    /// # Errors
    /// When it is a store.
    pub fn items(&self) -> Result<(Dtype, Labels, Vec<u64>)> {
        match self {
            Self::Array(array) => {
                Ok((shown_dtype(array.array()), Labels::of(array.array()), array.shape().to_vec()))
            }
            Self::Frame(frame) => {
                Ok((plain_dtype(frame.super_chunk().itemsize()), Labels::default(), vec![items(frame)]))
            }
            Self::Store(_) => bail!("a store itself has no items"),
        }
    }

    /// Reads the item of a zero-dimensional array, formatted like NumPy.
    ///
    /// # Errors
    /// When it is not such an array, or cannot be read.
    pub async fn item(&self) -> Result<String> {
        let Self::Array(array) = self else { bail!("only arrays have a single item") };
        if !array.shape().is_empty() {
            bail!("this array has dimensions");
        }
        Ok(items::item(&shown_dtype(array.array()), &array.all().read_bytes().await?))
    }

    /// Reads an array as the coordinates of a dimension with `len` items.
    ///
    /// # Errors
    /// When it is not such an array, or cannot be read.
    pub async fn points(&self, len: u64) -> Result<Coordinates> {
        let Self::Array(array) = self else { bail!("coordinates must be an array") };
        let dtype = shown_dtype(array.array());
        if array.shape() != [len] || !(1..=MAX_COORDINATES).contains(&len) || !Coordinates::can_be(&dtype) {
            bail!("these are not coordinates of {len} items");
        }
        Ok(Coordinates::new(&dtype, array.all().read_bytes().await?, &Labels::of(array.array())))
    }

    /// Returns the index entry of each chunk: the number of bytes up to the next one, or a negative number for chunks
    /// that are not stored: -1 zeros, -2 NaN, -3 uninitialised, -4 damaged.
    ///
    /// # Errors
    /// When it is a store.
    pub fn chunks(&self) -> Result<Vec<f64>> {
        let frame = match self {
            Self::Array(array) => array.array().super_chunk(),
            Self::Frame(frame) => frame.super_chunk(),
            Self::Store(_) => bail!("a store itself has no chunks"),
        };
        let entries: Vec<_> = (0..frame.nchunks()).map(|n| frame.chunk(n).entry().ok()).collect();
        let mut starts: Vec<u64> = entries
            .iter()
            .filter_map(|entry| match entry {
                Some(Entry::Stored(at)) => Some(*at),
                _ => None,
            })
            .chain([frame.cbytes()])
            .collect();
        starts.sort_unstable();
        let size = |at: u64| {
            let next = starts.partition_point(|start| *start <= at);
            starts.get(next).map_or(0, |next| next.saturating_sub(at))
        };
        Ok(entries
            .into_iter()
            .map(|entry| match entry {
                Some(Entry::Stored(at)) => size(at) as f64,
                Some(Entry::Special(SpecialKind::Zeros)) => -1.0,
                Some(Entry::Special(SpecialKind::NaN)) => -2.0,
                Some(Entry::Special(_)) => -3.0,
                None => -4.0,
            })
            .collect())
    }
}

fn items(frame: &AsyncSuperChunk<Source>) -> u64 {
    frame.nbytes() / frame.super_chunk().itemsize().max(1) as u64
}

/// Items without a dtype are treated as unsigned integers if they have a suitable size.
fn plain_dtype(size: usize) -> Dtype {
    let opaque = || Dtype::opaque(format!("|V{size}"), size);
    match size {
        1 | 2 | 4 | 8 => Dtype::parse(&format!("<u{size}")).unwrap_or_else(|_| opaque()),
        _ => opaque(),
    }
}

/// An object with the members of all of these.
fn joined(objects: impl IntoIterator<Item = Value>) -> Value {
    let members = objects.into_iter().filter_map(|object| match object {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect::<Map<_, _>>())
}

fn of_items(dtype: &Dtype) -> Value {
    let drawn = |field: Option<&str>| Numbers::new(dtype, field, Vec::new()).is_ok();
    let field = |field: &b2nd::Field| json!({"name": field.name, "dtype": field.dtype.as_str(), "drawn": drawn(Some(&field.name))});
    json!({
        "dtype": short(dtype.as_str()),
        "itemsize": dtype.itemsize(),
        "drawn": drawn(None),
        "fields": dtype.fields().unwrap_or_default().iter().map(field).collect::<Value>(),
    })
}

fn of_array(array: &NdArray) -> Value {
    let labels = Labels::of(array);
    let own = json!({
        "kind": "array",
        "shape": array.shape(),
        "chunks": array.chunkshape(),
        "blocks": array.blockshape(),
        "names": labels.names.iter().map(|name| short(name)).collect::<Value>(),
        "unit": short(&labels.unit),
    });
    joined([own, of_items(&shown_dtype(array)), of_frame(array.super_chunk())])
}

fn of_frame(frame: &SuperChunk) -> Value {
    let header = frame.header();
    let filters = header.filters();
    let filters = filters.iter().filter(|slot| slot.id.0 != 0).map(|slot| slot.id.to_string());
    let meta = frame.metalayers().iter().map(|(name, value)| pair(&String::from_utf8_lossy(name), value));
    let names = frame.vlmetalayers().names().filter(|name| name != INDEXES);
    let attrs = names.map(|name| {
        pair(&name, &frame.vlmetalayers().get(name.as_bytes()).ok().flatten().unwrap_or_default())
    });
    json!({
        "nbytes": frame.nbytes(),
        "cbytes": frame.cbytes(),
        "nchunks": frame.nchunks(),
        "codec": header.codec().to_string(),
        "level": header.level(),
        "filters": filters.collect::<Value>(),
        "checksums": match frame.checksums() {
            Checksums::None => "none",
            Checksums::Ok => "yes: verified when reading",
            Checksums::Changed => "outdated: changed by a program that does not update them",
        },
        "meta": meta.collect::<Value>(),
        "attrs": attrs.collect::<Value>(),
    })
}

/// A metalayer: its name, and its value as text.
fn pair(name: &str, value: &[u8]) -> Value {
    json!([short(name), msgpack(value)])
}

/// The value of a metalayer as text.
fn msgpack(mut bytes: &[u8]) -> String {
    let len = bytes.len();
    match rmpv::decode::read_value_with_max_depth(&mut bytes, 64) {
        Ok(value) if bytes.is_empty() => short(&value.to_string()),
        _ => format!("{len} bytes"),
    }
}

/// The start of a long text.
fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_LEN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
