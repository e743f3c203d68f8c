//! Open files: arrays, other frames and stores, and their descriptions.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use b2_async::{AsyncNdArray, AsyncSuperChunk};
use b2_chunk::SpecialKind;
use b2_frame::{Checksums, Entry, INDEXES, Metalayers, SuperChunk};
use b2_store::{MemberKind, MemberLocation};
use b2_view::edges::{Coordinates, MAX_COORDINATES};
use b2_view::items;
use b2_view::labels::{Labels, shown_dtype};
use b2_view::numbers::Numbers;
use b2nd::{Dtype, NdArray};

use crate::frame;
use crate::host::Host;
use crate::json::{Object, quoted};
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
    pub fn describe(&self) -> String {
        match self {
            Self::Array(array) => of_array(array),
            Self::Frame(frame) => {
                let object = Object::new().text("kind", "frame").ints("shape", &[items(frame)]);
                let chunk = frame.super_chunk().chunksize() as u64;
                let block = frame.super_chunk().header().blocksize() as u64;
                let size = frame.super_chunk().itemsize().max(1) as u64;
                let dtype = plain_dtype(frame.super_chunk().itemsize());
                let object = object.ints("chunks", &[chunk / size]).ints("blocks", &[block / size]);
                of_frame(of_items(object, &dtype), frame.super_chunk()).finish()
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
                    Object::new()
                        .text("key", key)
                        .text("kind", kind)
                        .int("len", len)
                        .text("why", why)
                        .finish()
                };
                Object::new()
                    .text("kind", "store")
                    .list("members", store.members().iter().map(member))
                    .finish()
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

fn of_items(object: Object, dtype: &Dtype) -> Object {
    let drawn = |field: Option<&str>| Numbers::new(dtype, field, Vec::new()).is_ok();
    let field = |field: &b2nd::Field| {
        let drawn = drawn(Some(&field.name));
        Object::new()
            .text("name", &field.name)
            .text("dtype", field.dtype.as_str())
            .flag("drawn", drawn)
            .finish()
    };
    object
        .text("dtype", &short(dtype.as_str()))
        .int("itemsize", dtype.itemsize() as u64)
        .flag("drawn", drawn(None))
        .list("fields", dtype.fields().unwrap_or_default().iter().map(field))
}

fn of_array(array: &AsyncNdArray<Source>) -> String {
    let known: &NdArray = array.array();
    let labels = Labels::of(known);
    let object = Object::new()
        .text("kind", "array")
        .ints("shape", known.shape())
        .ints("chunks", known.chunkshape())
        .ints("blocks", known.blockshape())
        .list("names", labels.names.iter().map(|name| quoted(&short(name))))
        .text("unit", &short(&labels.unit));
    of_frame(of_items(object, &shown_dtype(known)), known.super_chunk()).finish()
}

fn of_frame(object: Object, frame: &SuperChunk) -> Object {
    let header = frame.header();
    let filters = header.filters();
    let filters = filters.iter().filter(|slot| slot.id.0 != 0).map(|slot| quoted(&slot.id.to_string()));
    let names = frame.vlmetalayers().names().filter(|name| name != INDEXES);
    let attrs = names.map(|name| {
        let value = frame.vlmetalayers().get(name.as_bytes()).ok().flatten().unwrap_or_default();
        pair(&name, &msgpack(&value))
    });
    object
        .int("nbytes", frame.nbytes())
        .int("cbytes", frame.cbytes())
        .int("nchunks", frame.nchunks() as u64)
        .text("codec", &header.codec().to_string())
        .int("level", header.level().into())
        .list("filters", filters)
        .text(
            "checksums",
            match frame.checksums() {
                Checksums::None => "none",
                Checksums::Ok => "yes: verified when reading",
                Checksums::Changed => "outdated: changed by a program that does not update them",
            },
        )
        .list("meta", metalayers(frame.metalayers()))
        .list("attrs", attrs.collect::<Vec<_>>())
}

fn metalayers(layers: &Metalayers) -> Vec<String> {
    layers.iter().map(|(name, value)| pair(&String::from_utf8_lossy(name), &msgpack(value))).collect()
}

fn pair(name: &str, value: &str) -> String {
    format!("[{},{}]", quoted(&short(name)), quoted(value))
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
