//! HDF5: names, data sets, and their items.

mod btree1;
mod btree2;
mod buffers;
mod cache;
mod chunks;
mod cursor;
mod data;
mod datatype;
mod extensible_array;
mod fixed_array;
mod fractal_heap;
mod global_heap;
mod groups;
mod header;
mod items;
mod lengths;
mod messages;
mod objects;
mod pages;
mod sequences;
mod shared;
mod slots;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use b2_core::Limits;
use b2_frame::ReadAt;
use b2nd::Value;

use self::cache::Cache;
use self::chunks::Chunks;
use self::cursor::NOWHERE;
pub(crate) use self::data::Data;
use self::data::Stores;
pub use self::datatype::{End, Member, OtherFloat, Type};
use self::groups::Listing;
use self::header::{Below, Message};
use self::items::{Items, UnsupportedItems};
pub use self::messages::Target;
use self::messages::{Attribute, Layout, Space};
pub use self::objects::{Description, ExternalPart, ObjectKind, Objects, RawAttribute, StoredLayout};
use self::pages::Pages;
pub use self::slots::StoredChunk;
use crate::boxes::product;
use crate::filters::{Filter, Pipeline};
use crate::{Hdf5Error, attrs};

/// Maximum length of a chain of soft links.
const MAX_LINKS: usize = 16;
/// Maximum number of cached names of groups.
const NAMES: usize = 1 << 18;
/// Maximum number of cached names of scales.
const SCALE_NAMES: usize = 1 << 12;
/// Number of cached indexes of chunks above which unused ones are dropped.
const INDEXES: usize = 256;
/// The text that netCDF writes for a dimension without a variable.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";
/// The prefix that netCDF adds to the name of a variable that is also the name of an unrelated dimension.
pub(crate) const NO_COORDINATE: &str = "_nc4_non_coord_";
/// The attribute with the labels of dimensions.
const LABELS: &str = "DIMENSION_LABELS";
/// Attributes that describe how data sets share dimensions. Their content is in `_ARRAY_DIMENSIONS`.
const OF_DIMENSIONS: [&str; 7] = [
    "DIMENSION_LIST",
    LABELS,
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "_NCProperties",
];

/// Returns where HDF5 starts in a file, if it is one.
pub(crate) fn find(file: &dyn ReadAt, len: u64) -> io::Result<Option<u64>> {
    let failed = Mutex::new(None);
    let head = |at: u64| {
        let mut bytes = [0; 8];
        if at.saturating_add(8) > len {
            return None;
        }
        match file.read_exact_at(at, &mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) => {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        }
    };
    let found = header::find(head, len);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// The name and the address of a scale.
type Scale = (String, u64);

/// An open file.
pub(crate) struct Hdf5 {
    below: Arc<Below>,
    limits: Limits,
    is_netcdf4: OnceLock<bool>,
    /// The indexes of chunks that are in use, by the addresses of their data sets, which may have several names.
    indexes: Mutex<HashMap<u64, Weak<Chunks>>>,
    /// The names in groups, by the addresses of the groups.
    listings: Cache<Listing>,
    /// The names that scales store in an attribute.
    scale_names: Cache<Option<String>>,
    /// The numbers of the scales in groups, by the addresses of the groups.
    dimension_numbers: Cache<BTreeMap<i64, Scale>>,
    /// The lengths of unlimited dimensions, by the address of the scale; `None` if netCDF did not write it.
    lengths: Mutex<BTreeMap<u64, Option<u64>>>,
}

/// The target of a name.
pub(crate) enum Object {
    Group(Group),
    DataSet(Box<DataSetParts>),
    /// A named type.
    Type,
    Link(String),
}

/// A group and its ancestors.
#[derive(Clone)]
pub(crate) struct Group {
    /// The address, preceded by those of its ancestors.
    chain: Vec<u64>,
    messages: Arc<Vec<Message>>,
}

impl Group {
    fn address(&self) -> u64 {
        self.chain.last().copied().unwrap_or(NOWHERE)
    }
}

/// The attributes of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attrs {
    pub(crate) values: Vec<(String, Value)>,
    /// Those that cannot be converted: their names and the reasons.
    pub(crate) left_out: Vec<String>,
}

/// A data set.
pub(crate) struct DataSetParts {
    pub(crate) data: Data,
    pub(crate) attrs: Attrs,
    pub(crate) filters: Vec<Filter>,
    pub(crate) chunkshape: Option<Vec<u32>>,
    pub(crate) layout: &'static str,
    pub(crate) stored: Option<u64>,
    /// Whether it is a dimension of netCDF that has no variable, and no items.
    pub(crate) is_dimension_only: bool,
    /// The maximum length of each dimension; `None` for unlimited.
    pub(crate) max_shape: Vec<Option<u64>>,
}

impl Hdf5 {
    pub(crate) fn open(
        file: Arc<dyn ReadAt>,
        base: u64,
        len: u64,
        name: &str,
        limits: &Limits,
    ) -> Result<Self, Hdf5Error> {
        let most = limits.max_metadata.min(limits.max_memory);
        let below = Below::open(Pages::new(file, base, len, most));
        let below = below.map_err(|what| Hdf5Error::damaged(name, what))?;
        Ok(Self {
            below: Arc::new(below),
            limits: limits.clone(),
            is_netcdf4: OnceLock::new(),
            indexes: Mutex::default(),
            listings: Cache::new(NAMES),
            scale_names: Cache::new(SCALE_NAMES),
            dimension_numbers: Cache::new(SCALE_NAMES),
            lengths: Mutex::default(),
        })
    }

    /// Begins a call with a new budget for metadata.
    pub(crate) fn begin(&self) {
        self.below.pages.begin();
    }

    pub(crate) fn damaged(path: &str) -> impl Fn(String) -> Hdf5Error + '_ {
        |what| Hdf5Error::damaged(path, what)
    }

    fn messages(&self, address: u64, path: &str) -> Result<Arc<Vec<Message>>, Hdf5Error> {
        self.below.messages(address).map_err(Self::damaged(path))
    }

    pub(crate) fn root(&self) -> Result<Group, Hdf5Error> {
        Ok(Group { chain: vec![self.below.root], messages: self.messages(self.below.root, "/")? })
    }

    /// Returns the object at a path. Soft links are followed.
    pub(crate) fn resolve(&self, path: &str) -> Result<Object, Hdf5Error> {
        let mut followed = 0;
        let mut group = self.root()?;
        let mut parts = split(path);
        loop {
            let Some(part) = parts.pop() else { return Ok(Object::Group(group)) };
            let names = self.names(&group, path)?;
            let missing = || Hdf5Error::NoSuchPath { path: path.to_owned() };
            let target = names.get(&part).ok_or_else(missing)?;
            match target {
                Target::Soft(target) => {
                    followed += 1;
                    if followed > MAX_LINKS {
                        return Err(Hdf5Error::damaged(path, "soft links that lead to each other"));
                    }
                    if target.starts_with('/') {
                        group = self.root()?;
                    }
                    parts.extend(split(target));
                }
                Target::Object(_) if parts.is_empty() => return self.object(&group, &part, target, path),
                target => match self.object(&group, &part, target, path)? {
                    Object::Group(inner) => group = inner,
                    Object::Link(what) => return Err(Hdf5Error::unsupported(path, what)),
                    _ => return Err(missing()),
                },
            }
        }
    }

    /// Returns the names in a group and their targets.
    pub(crate) fn names(&self, group: &Group, path: &str) -> Result<Arc<Listing>, Hdf5Error> {
        self.below.listing(&self.listings, group.address(), &group.messages).map_err(Self::damaged(path))
    }

    /// Returns the target of a name in a group. Soft links are not followed.
    pub(crate) fn object(
        &self,
        group: &Group,
        name: &str,
        target: &Target,
        path: &str,
    ) -> Result<Object, Hdf5Error> {
        let address = match target {
            Target::Object(address) => *address,
            Target::Soft(target) => return Ok(Object::Link(format!("a link to {target}"))),
            Target::External { file, path } => {
                return Ok(Object::Link(format!("an external link to {path} in the file {file}")));
            }
            Target::Unknown(kind) => return Ok(Object::Link(format!("a link of the unknown kind {kind}"))),
        };
        let found = self.messages(address, path)?;
        // Cached entries count, too, since they are copied for each name.
        let nbytes = found.iter().fold(0_u64, |n, message| n.saturating_add(message.data.len() as u64));
        self.below.pages.spend(nbytes).map_err(|error| Hdf5Error::damaged(path, error.to_string()))?;
        let has = |kind| found.iter().any(|message: &Message| message.kind == kind);
        if has(header::DATATYPE) && has(header::DATASPACE) {
            return Ok(Object::DataSet(Box::new(self.data_set(group, (name, address), &found, path)?)));
        }
        if has(header::DATATYPE) {
            return Ok(Object::Type);
        }
        if group.chain.contains(&address) {
            return Ok(Object::Link("another name of a group around it".into()));
        }
        let chain = group.chain.iter().copied().chain([address]).collect();
        Ok(Object::Group(Group { chain, messages: found }))
    }

    /// Returns a number that is the same for all names of a group.
    pub(crate) fn identity(group: &Group) -> u64 {
        group.address()
    }

    pub(crate) fn group_attrs(&self, group: &Group, path: &str) -> Result<Attrs, Hdf5Error> {
        let stored = self.below.attributes(&group.messages).map_err(Self::damaged(path))?;
        Ok(self.attrs(&stored))
    }

    /// Reads the messages of a data set.
    fn described(&self, found: &[Message], path: &str) -> Result<DataSetMessages, Hdf5Error> {
        let damaged = Self::damaged(path);
        let content = |kind| {
            let message = found.iter().find(|message: &&Message| message.kind == kind);
            message.map(|message| self.below.content(message)).transpose()
        };
        let wrong = |what: &str| Hdf5Error::damaged(path, format!("the {what} message is malformed"));
        let missing = |what: &str| Hdf5Error::damaged(path, format!("the {what} message is missing"));
        let kind = content(header::DATATYPE).map_err(&damaged)?.ok_or_else(|| missing("datatype"))?;
        let kind = datatype::parse(&kind).ok_or_else(|| wrong("datatype"))?;
        let space = content(header::DATASPACE).map_err(&damaged)?.ok_or_else(|| missing("dataspace"))?;
        let space = messages::space(&space, self.below.length_size).ok_or_else(|| wrong("dataspace"))?;
        let layout = content(header::LAYOUT).map_err(&damaged)?.ok_or_else(|| missing("layout"))?;
        let layout = messages::layout(&layout, &self.below).map_err(&damaged)?;
        let filters = match content(header::FILTERS).map_err(&damaged)? {
            Some(bytes) => messages::filters(&bytes).ok_or_else(|| wrong("filter"))?,
            None => Vec::new(),
        };
        let filters = filters.into_iter().map(|(id, name, params)| Filter::new(id, name, params)).collect();
        let fill = match content(header::FILL).map_err(&damaged)? {
            Some(bytes) => messages::fill(&bytes).ok_or_else(|| wrong("fill value"))?,
            None => match content(header::OLD_FILL).map_err(&damaged)? {
                Some(bytes) => messages::old_fill(&bytes).ok_or_else(|| wrong("fill value"))?,
                None => None,
            },
        };
        let is_external = found.iter().any(|message| message.kind == header::EXTERNAL);
        // As in HDF5, items that were never written and are never filled are zero.
        let is_never_filled =
            content(header::FILL).map_err(&damaged)?.is_some_and(|bytes| messages::is_never_filled(&bytes));
        Ok(DataSetMessages { kind, space, layout, filters, fill, is_never_filled, is_external })
    }

    fn data_set(
        &self,
        group: &Group,
        (name, address): (&str, u64),
        found: &[Message],
        path: &str,
    ) -> Result<DataSetParts, Hdf5Error> {
        let damaged = Self::damaged(path);
        let wrong = |what: &str| Hdf5Error::damaged(path, format!("the {what} message is malformed"));
        let DataSetMessages { kind, space, layout, filters, fill, is_never_filled, is_external } =
            self.described(found, path)?;
        let stored = self.below.attributes(found).map_err(&damaged)?;
        let Space::Shape(shape, most) = space else {
            return Err(Hdf5Error::unsupported(path, "no items and no shape (a null dataspace)"));
        };
        if is_external {
            return Err(Hdf5Error::unsupported(path, "the items are in external files"));
        }
        if matches!(layout, Layout::Virtual { .. }) {
            return Err(Hdf5Error::unsupported(path, "a virtual data set, whose items are in others"));
        }
        let items = Items::new(&kind, self.below.offset_size).map_err(unfit(path))?;
        let fill = fill.filter(|fill| fill.len() == items.stored || !items.is_long_text);
        if fill.as_ref().is_some_and(|fill| fill.len() != items.stored) {
            return Err(wrong("fill value"));
        }
        let nbytes = product(&shape).saturating_mul(items.stored as u64);
        let lengths = (&shape[..], most.as_deref());
        let placed = self.place(address, layout, lengths, &items, &filters, nbytes).map_err(&damaged)?;
        let dims = self.dimensions(group, name, &stored, shape.len()).map_err(&damaged)?;
        let extent = self.extent(group, &stored, &shape, most.as_deref()).map_err(&damaged)?;
        let mut attrs = self.attrs(&stored);
        let is_scale = is_scale(&stored);
        attrs.values.retain(|(name, _)| !OF_DIMENSIONS.contains(&&**name));
        attrs.left_out.retain(|text| !OF_DIMENSIONS.iter().any(|name| text.starts_with(name)));
        attrs.left_out.extend(self.lost_labels(&stored, dims.as_deref().unwrap_or_default()));
        if is_scale {
            attrs.values.retain(|(name, _)| name != "CLASS" && name != "NAME");
        }
        // An item that is an array has dimensions without names.
        if let (Some(dims), true) = (dims, items.dims.is_empty()) {
            let dims = dims.iter().map(|name| name.as_str().into()).collect();
            // An attribute of this name in the file means nothing to HDF5.
            attrs.values.retain(|(name, _)| name != attrs::DIMENSIONS);
            attrs.values.insert(0, (attrs::DIMENSIONS.into(), Value::Array(dims)));
        }
        if let Some(names) = &items.names {
            attrs.values.push((attrs::ENUM.into(), names.clone()));
        }
        let most = most.as_deref().unwrap_or(&shape).iter();
        let most = most.map(|&most| (most != u64::MAX).then_some(most));
        let max_shape = most.chain(items.dims.iter().copied().map(Some)).collect();
        let is_dimension_only = is_scale && text_of(&stored, "NAME").starts_with(NO_VARIABLE);
        let data = Data {
            path: path.to_owned(),
            below: self.below.clone(),
            limits: self.limits.clone(),
            shape,
            extent,
            items,
            beyond: fill.clone().or_else(|| datatype::default_fill(&kind)),
            fill: fill.filter(|_| !is_never_filled),
            place: placed.stores,
            cache: Mutex::default(),
            buffers: Arc::default(),
        };
        Ok(DataSetParts {
            data,
            attrs,
            filters,
            chunkshape: placed.chunks,
            layout: placed.layout,
            stored: placed.stored,
            is_dimension_only,
            max_shape,
        })
    }

    /// Finds the items.
    fn place(
        &self,
        address: u64,
        layout: Layout,
        (shape, most): (&[u64], Option<&[u64]>),
        items: &Items,
        filters: &[Filter],
        nbytes: u64,
    ) -> Result<ItemStorage, String> {
        Ok(match layout {
            Layout::Compact(bytes) => {
                // An empty one was never written.
                let place = match bytes.len() as u64 {
                    0 => Stores::Nothing,
                    len if len == nbytes => Stores::Memory(bytes),
                    len => return Err(format!("{len} bytes of items, expected {nbytes}")),
                };
                ItemStorage { stores: place, chunks: None, layout: "compact", stored: Some(nbytes) }
            }
            Layout::Contiguous { address: NOWHERE, .. } => {
                ItemStorage { stores: Stores::Nothing, chunks: None, layout: "contiguous", stored: Some(0) }
            }
            Layout::Contiguous { address, len } => {
                let len = len.unwrap_or(nbytes);
                let is_other = len < nbytes || nbytes == 0 && len > 0;
                if is_other || nbytes > self.below.pages.len_from(address) {
                    return Err(format!("{len} bytes of items at {address}, expected {nbytes}"));
                }
                let stores = Stores::Contiguous(self.below.pages.position(address));
                ItemStorage { stores, chunks: None, layout: "contiguous", stored: Some(nbytes) }
            }
            Layout::Chunked(chunked) => {
                let (name, has_plain_edges) = (chunked.index.name(), chunked.has_plain_edges);
                let chunkshape = chunked.shape.clone();
                let pipeline = Pipeline {
                    filters: filters.to_vec(),
                    chunk: chunkshape.iter().map(|&length| length.into()).collect(),
                    itemsize: items.stored,
                    limits: self.limits.clone(),
                };
                let new = || {
                    let below = self.below.clone();
                    Chunks::new(below, chunked, (shape, most), items.stored, !filters.is_empty())
                };
                let chunks = self.chunks_of(address, new)?;
                let stores = Stores::Chunks { chunks, pipeline, has_plain_edges };
                ItemStorage { stores, chunks: Some(chunkshape), layout: name, stored: None }
            }
            Layout::Virtual { .. } => return Err("a virtual data set".into()),
        })
    }

    /// Returns the chunks of the data set at an address, shared by all names of the data set.
    fn chunks_of(
        &self,
        address: u64,
        new: impl FnOnce() -> Result<Chunks, String>,
    ) -> Result<Arc<Chunks>, String> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunks) = indexes.get(&address).and_then(Weak::upgrade) {
            return Ok(chunks);
        }
        let chunks = Arc::new(new()?);
        // Before the map grows, unused entries are dropped.
        if indexes.len() >= INDEXES && indexes.len() == indexes.capacity() {
            indexes.retain(|_, chunks| chunks.strong_count() > 0);
        }
        indexes.insert(address, Arc::downgrade(&chunks));
        Ok(chunks)
    }

    /// The names of the dimensions, if they have some.
    ///
    /// # Errors
    /// Fails if a name cannot be read.
    fn dimensions(
        &self,
        group: &Group,
        name: &str,
        stored: &[Attribute],
        ndim: usize,
    ) -> Result<Option<Vec<String>>, String> {
        if let Some(scales) = self.scales(stored)? {
            let names = scales.into_iter().map(|scale| scale.map_or(Ok(None), |at| self.name_of(group, at)));
            let names = names.collect::<Result<Vec<_>, _>>();
            let names = names.map_err(|what| format!("the name of a dimension: {what}"))?;
            let labels = self.labels(stored).unwrap_or_default();
            let named = names.iter().enumerate().map(|(axis, name)| {
                let label = labels
                    .get(axis)
                    .filter(|label| !label.is_empty() && !names.contains(&Some((*label).clone())));
                name.as_ref().or(label).cloned().unwrap_or_else(|| format!("dim_{axis}"))
            });
            return Ok(Some(named.collect()).filter(|_| names.len() == ndim));
        }
        if is_scale(stored) && ndim == 1 {
            return Ok(Some(vec![name.to_owned()]));
        }
        if let Some(scales) = self.numbered_scales(group, stored, ndim)? {
            let names = scales.into_iter().enumerate();
            let names =
                names.map(|(axis, scale)| scale.map_or_else(|| format!("dim_{axis}"), |(name, _)| name));
            return Ok(Some(names.collect()));
        }
        let labels = self.labels(stored).map_err(|what| format!("the names of dimensions: {what}"))?;
        let names = labels
            .into_iter()
            .enumerate()
            .map(|(axis, label)| if label.is_empty() { format!("dim_{axis}") } else { label });
        Ok(Some(names.collect::<Vec<_>>()).filter(|names| !names.is_empty() && names.len() == ndim))
    }

    /// The labels of the dimensions, empty for those without one.
    fn labels(&self, stored: &[Attribute]) -> Result<Vec<String>, String> {
        let Some(labels) = stored.iter().find(|attr| attr.name == LABELS) else { return Ok(Vec::new()) };
        let Value::Array(labels) = self.value(labels)? else { return Ok(Vec::new()) };
        Ok(labels.iter().map(|label| label.as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Names the labels of dimensions that got other names, which are mostly those of their scales.
    fn lost_labels(&self, stored: &[Attribute], dims: &[String]) -> Vec<String> {
        let labels = match self.labels(stored) {
            Ok(labels) => labels,
            Err(what) => return vec![format!("{LABELS}: {what}")],
        };
        let lost = labels.iter().zip(dims).enumerate();
        let lost = lost.filter(|(_, (label, name))| !label.is_empty() && label != name);
        lost.map(|(axis, (label, name))| format!("{LABELS}: {label:?} (dimension {axis} is {name:?})"))
            .collect()
    }

    /// The scales of the dimensions of a netCDF variable that is a scale and has several dimensions: their names and addresses.
    /// Such a variable has their numbers in place of references to scales.
    fn numbered_scales(
        &self,
        group: &Group,
        stored: &[Attribute],
        ndim: usize,
    ) -> Result<Option<Vec<Option<Scale>>>, String> {
        let numbers = self.numbers(stored, "_Netcdf4Coordinates");
        if ndim < 2 || !is_scale(stored) || numbers.len() != ndim {
            return Ok(None);
        }
        let mut found: Vec<Option<Scale>> = vec![None; ndim];
        for &around in group.chain.iter().rev() {
            if found.iter().all(Option::is_some) {
                break;
            }
            let known = self.dimension_numbers(around)?;
            for (scale, number) in found.iter_mut().zip(&numbers).filter(|(scale, _)| scale.is_none()) {
                *scale = known.get(number).cloned();
            }
        }
        Ok(Some(found))
    }

    /// The scales in a group by their numbers, if netCDF has numbered them.
    fn dimension_numbers(&self, group: u64) -> Result<Arc<BTreeMap<i64, Scale>>, String> {
        if let Some(known) = self.dimension_numbers.get(group) {
            return Ok(known);
        }
        let listing = self.below.listing(&self.listings, group, &self.below.messages(group)?)?;
        let mut found = BTreeMap::new();
        for (name, target) in listing.by_name() {
            let Target::Object(address) = target else { continue };
            // Damaged ones are ignored.
            let Ok(messages) = self.below.messages(*address) else { continue };
            if !messages.iter().any(|message| message.kind == header::DATASPACE) {
                continue;
            }
            let Ok(stored) = self.below.attributes(&messages) else { continue };
            if let (true, [number]) = (is_scale(&stored), &self.numbers(&stored, "_Netcdf4Dimid")[..]) {
                found.insert(*number, (name.clone(), *address));
            }
        }
        let count = found.len();
        Ok(self.dimension_numbers.keep(group, found, count.max(1)))
    }

    /// The integers of an attribute; none if it has others.
    fn numbers(&self, stored: &[Attribute], name: &str) -> Vec<i64> {
        let attr = stored.iter().find(|attr| attr.name == name);
        let value = attr.and_then(|attr| self.value(attr).ok());
        let numbers = value.map(|value| attrs::numbers(&value)).unwrap_or_default();
        numbers.iter().map(Value::as_i64).collect::<Option<_>>().unwrap_or_default()
    }

    /// The addresses of the scales of the dimensions, the first one of each; `None` if no dimension has ever had one.
    fn scales(&self, stored: &[Attribute]) -> Result<Option<Vec<Option<u64>>>, String> {
        let Some(list) = stored.iter().find(|attr| attr.name == "DIMENSION_LIST") else { return Ok(None) };
        let (width, wrong) =
            (self.below.offset_size, || "a reference to the scale of a dimension is malformed".to_owned());
        let Some(Type::Sequence { base }) = datatype::parse(&list.kind) else { return Err(wrong()) };
        let size = base.size(width).ok_or_else(wrong)?;
        let scales = list.data.chunks_exact(datatype::reference_size(width).max(1)).map(|reference| {
            let (count, scales) = self.below.sequence(reference, size)?;
            if count == 0 {
                return Ok(None);
            }
            base.object(&scales, width).map(Some).ok_or_else(wrong)
        });
        scales.collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// The name of a scale: that in the group or an ancestor, otherwise the one in its attribute, if any.
    fn name_of(&self, group: &Group, address: u64) -> Result<Option<String>, String> {
        for &around in group.chain.iter().rev() {
            let listing = self.below.listing(&self.listings, around, &self.below.messages(around)?)?;
            if let Some(name) = listing.name_of(address) {
                return Ok(Some(name.to_owned()));
            }
        }
        if let Some(name) = self.scale_names.get(address) {
            return Ok((*name).clone());
        }
        let found = self.below.messages(address)?;
        let name = text_of(&self.below.attributes(&found)?, "NAME");
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok((*self.scale_names.keep(address, name, 1)).clone())
    }

    fn attrs(&self, stored: &[Attribute]) -> Attrs {
        let mut attrs = Attrs::default();
        for attr in stored {
            match self.value(attr) {
                Ok(value) => attrs.values.push((attr.name.clone(), value)),
                Err(what) => attrs.left_out.push(format!("{}: {what}", attr.name)),
            }
        }
        attrs
    }

    /// Converts an attribute. The error describes it.
    fn value(&self, attr: &Attribute) -> Result<Value, String> {
        let damaged = || "damaged".to_owned();
        let kind = datatype::parse(&attr.kind).ok_or_else(damaged)?;
        let space = messages::space(&attr.space, self.below.length_size).ok_or_else(damaged)?;
        let shape = match space {
            Space::Shape(shape, _) => shape,
            // Empty texts of netCDF.
            Space::Null if matches!(kind, Type::Text { .. } | Type::LongText { .. }) => return Ok("".into()),
            Space::Null => return Err("no items and no shape (a null dataspace)".into()),
        };
        let items = Items::new(&kind, self.below.offset_size).map_err(|unfit| match unfit {
            UnsupportedItems::Unsupported(what) => what,
            UnsupportedItems::Damaged => damaged(),
            UnsupportedItems::Array(error) => error.to_string(),
        })?;
        let count = usize::try_from(product(&shape)).map_err(|_| damaged())?;
        let data =
            count.checked_mul(items.stored).and_then(|len| attr.data.get(..len)).ok_or_else(damaged)?;
        if items.is_long_text {
            let texts = data
                .chunks_exact(items.stored.max(1))
                .map(|reference| self.below.sequence(reference, 1).map(|(_, bytes)| attrs::text(&bytes)));
            let found = attrs::texts(&attr.name, &shape, texts.collect::<Result<_, _>>()?);
            return found.ok_or_else(|| "texts in several dimensions".into());
        }
        if items.dtype.fields().is_some() {
            return Err("a compound".into());
        }
        let mut data = data.to_vec();
        items.mend(&mut data);
        let shape: Vec<u64> = shape.iter().chain(&items.dims).copied().collect();
        Ok(attrs::value(&items.dtype, &shape, &data))
    }
}

/// The header messages of a data set, parsed.
struct DataSetMessages {
    kind: Type,
    space: Space,
    layout: Layout,
    filters: Vec<Filter>,
    fill: Option<Vec<u8>>,
    /// Whether items that were never written do not get the fill value.
    is_never_filled: bool,
    /// Whether the items are in other files.
    is_external: bool,
}

fn unfit(path: &str) -> impl Fn(UnsupportedItems) -> Hdf5Error + '_ {
    |unfit| match unfit {
        UnsupportedItems::Unsupported(what) => Hdf5Error::unsupported(path, what),
        UnsupportedItems::Damaged => Hdf5Error::damaged(path, "the datatype message is malformed"),
        UnsupportedItems::Array(error) => Hdf5Error::array(path)(error),
    }
}

/// The parts of a path, the first one last.
fn split(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.rev().map(str::to_owned).collect()
}

fn is_scale(stored: &[Attribute]) -> bool {
    text_of(stored, "CLASS") == "DIMENSION_SCALE"
}

/// An attribute that is a text of fixed length.
fn text_of(stored: &[Attribute], name: &str) -> String {
    let attr = stored.iter().find(|attr| attr.name == name);
    attr.map(|attr| cursor::text_of(&attr.data)).unwrap_or_default()
}

/// The storage of items, and its description.
struct ItemStorage {
    stores: Stores,
    chunks: Option<Vec<u32>>,
    layout: &'static str,
    /// Stored bytes of the items; `None` if only the index of the chunks has it.
    stored: Option<u64>,
}
