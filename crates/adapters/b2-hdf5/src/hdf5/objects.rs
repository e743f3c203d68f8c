//! The objects of a file as HDF5 stores them: by address, with unconverted items and attributes.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::datatype::Type;
use super::groups::Listing;
use super::header;
use super::items::Items;
use super::messages::{self, Layout, Space, Target};
use super::{Attrs, Data, DataSetMessages, DataSetParts, Hdf5, datatype, unfit};
use crate::boxes::product;
use crate::data_set::DataSet;
use crate::filters::Filter;
use crate::{Hdf5Error, hdf5};

/// The objects of an HDF5 file as they are stored, without any conversion.
///
/// Links and references identify objects by their addresses.
///
/// ```no_run
/// use b2_hdf5::{File, Target};
/// let file = File::open("x.h5")?;
/// let objects = file.objects().ok_or("NetCDF 3")?;
/// for (name, target) in objects.links(objects.root(), "/")?.0 {
///     if let Target::Object(address) = target {
///         println!("{name} {:?}", objects.kind(address, &name)?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Objects<'a>(pub(crate) &'a Hdf5);

impl std::fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A group.
    Group,
    /// A data set.
    DataSet,
    /// A named type.
    Type,
}

/// An attribute as it is stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawAttribute {
    /// Its name.
    pub name: String,
    /// The type of the items.
    pub kind: Type,
    /// The shape; `None` for a null dataspace, which has no items.
    pub shape: Option<Vec<u64>>,
    /// The items as they are stored.
    pub data: Vec<u8>,
}

/// Where the items of a data set are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredLayout {
    /// In the header of the data set.
    Compact,
    /// In one piece, at this position of the file; `None` if they were never written.
    Contiguous(Option<u64>),
    /// In chunks of this shape.
    Chunked(Vec<u32>),
    /// In other data sets: the mapping is in an object of a heap.
    Virtual(Bytes),
    /// In other files.
    External(Vec<ExternalPart>),
}

/// A part of the items of a data set, in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalPart {
    /// The name of the file.
    pub file: String,
    /// Where the part starts in it.
    pub offset: u64,
    /// How many bytes it has; `None` for no end.
    pub nbytes: Option<u64>,
}

/// A data set as the file describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The type of the items.
    pub kind: Type,
    /// The shape; `None` for a null dataspace, which has no items.
    pub shape: Option<Vec<u64>>,
    /// The maximum length of each dimension; `None` for unlimited.
    pub max_shape: Vec<Option<u64>>,
    /// Where the items are.
    pub layout: StoredLayout,
    /// The filters, in the order in which they were applied.
    pub filters: Vec<Filter>,
    /// The stored bytes of an item that was never written, if that is given.
    pub fill: Option<Vec<u8>>,
}

impl Objects<'_> {
    /// Returns the address of the root group.
    pub fn root(self) -> u64 {
        self.0.below.root
    }

    /// Returns the number of bytes before the HDF5 data (the user block).
    pub fn user_block(self) -> u64 {
        self.0.below.pages.position(0)
    }

    /// Returns how many bytes an address has in the file. References to objects are addresses.
    pub fn address_size(self) -> u8 {
        self.0.below.offset_size
    }

    /// Returns the kind of the object at an address. `name` is for errors, here and in the other methods.
    ///
    /// # Errors
    /// Fails if the address has no object.
    pub fn kind(self, address: u64, name: &str) -> Result<ObjectKind, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        let has = |kind| found.iter().any(|message| message.kind == kind);
        Ok(match (has(header::DATATYPE), has(header::DATASPACE)) {
            (true, true) => ObjectKind::DataSet,
            (true, false) => ObjectKind::Type,
            (false, _) => ObjectKind::Group,
        })
    }

    fn listing(self, address: u64, name: &str) -> Result<Arc<Listing>, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        self.0.below.listing(&self.0.listings, address, &found).map_err(Hdf5::damaged(name))
    }

    /// Returns the links of the group at an address, and whether they are in the order of creation; otherwise they
    /// are sorted by name.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub fn links(self, address: u64, name: &str) -> Result<(Vec<(String, Target)>, bool), Hdf5Error> {
        let listing = self.listing(address, name)?;
        let links = match listing.is_ordered {
            true => listing.links.clone(),
            false => listing.by_name().cloned().collect(),
        };
        Ok((links, listing.is_ordered))
    }

    /// Returns the target of a name in the group at an address.
    ///
    /// # Errors
    /// Fails if the names cannot be read.
    pub fn link(self, address: u64, link: &str, name: &str) -> Result<Option<Target>, Hdf5Error> {
        Ok(self.listing(address, name)?.get(link).cloned())
    }

    /// Returns the attributes of the object at an address: in the order of creation, if it is recorded, otherwise in
    /// that of their names.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub fn attributes(self, address: u64, name: &str) -> Result<Vec<RawAttribute>, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        let stored = self.0.below.attributes(&found).map_err(Hdf5::damaged(name))?;
        let is_ordered = found.iter().any(|message| {
            let is_tracked = message.data.get(1).is_some_and(|flags| flags & 1 != 0);
            message.order.is_some() || message.kind == header::ATTRIBUTE_INFO && is_tracked
        });
        let parsed = stored.into_iter().map(|attr| {
            let wrong = || Hdf5Error::damaged(name, format!("attribute {}: malformed", attr.name));
            let kind = datatype::parse(&attr.kind).ok_or_else(wrong)?;
            let space = messages::space(&attr.space, self.0.below.length_size).ok_or_else(wrong)?;
            let shape = match space {
                Space::Shape(shape, _) => Some(shape),
                Space::Null => None,
            };
            let count = shape.as_deref().map_or(0, product);
            let size = kind.size(self.0.below.offset_size).ok_or_else(wrong)?;
            let nbytes = count.checked_mul(size as u64).and_then(|len| usize::try_from(len).ok());
            let mut data = attr.data;
            // The rest is padding.
            data.truncate(nbytes.filter(|&nbytes| nbytes <= data.len()).ok_or_else(wrong)?);
            if let Ok(items) = Items::as_stored(&kind, self.0.below.offset_size) {
                items.mend(&mut data);
            }
            Ok(RawAttribute { name: attr.name, kind, shape, data })
        });
        let mut attrs = parsed.collect::<Result<Vec<_>, Hdf5Error>>()?;
        if !is_ordered {
            attrs.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(attrs)
    }

    /// Returns the named type at an address.
    ///
    /// # Errors
    /// Fails if the address has no type, or if the type is malformed.
    pub fn named_type(self, address: u64, name: &str) -> Result<Type, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        let message = found.iter().find(|message| message.kind == header::DATATYPE);
        let message = message.ok_or_else(|| Hdf5Error::damaged(name, "no type"))?;
        let bytes = self.0.below.content(message).map_err(Hdf5::damaged(name))?;
        datatype::parse(&bytes).ok_or_else(|| Hdf5Error::damaged(name, "the datatype message is malformed"))
    }

    /// Returns the address of the named type that a data set shares, if it does.
    ///
    /// # Errors
    /// Fails if the data set cannot be read.
    pub fn type_address(self, address: u64, name: &str) -> Result<Option<u64>, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        let message = found.iter().find(|message| message.kind == header::DATATYPE);
        Ok(message
            .filter(|message| message.is_shared())
            .and_then(|message| self.0.below.committed(&message.data)))
    }

    /// Returns the description of the data set at an address.
    ///
    /// # Errors
    /// Fails if the address has no data set, or if its description cannot be read.
    pub fn description(self, address: u64, name: &str) -> Result<Description, Hdf5Error> {
        self.0.begin();
        let found = self.0.messages(address, name)?;
        let damaged = Hdf5::damaged(name);
        let DataSetMessages { kind, space, layout, filters, fill, is_external, .. } =
            self.0.described(&found, name)?;
        let (shape, most) = match space {
            Space::Shape(shape, most) => (Some(shape), most),
            Space::Null => (None, None),
        };
        let most = most.as_deref().or(shape.as_deref()).unwrap_or_default().iter();
        let max_shape = most.map(|&most| (most != u64::MAX).then_some(most)).collect();
        let layout = match layout {
            _ if is_external => StoredLayout::External(self.external(&found, name)?),
            Layout::Compact(_) => StoredLayout::Compact,
            Layout::Contiguous { address, .. } => {
                let is_written = address != hdf5::cursor::NOWHERE;
                StoredLayout::Contiguous(is_written.then(|| self.0.below.pages.position(address)))
            }
            Layout::Chunked(chunked) => StoredLayout::Chunked(chunked.shape),
            Layout::Virtual { heap: hdf5::cursor::NOWHERE, .. } => StoredLayout::Virtual(Bytes::new()),
            Layout::Virtual { heap, index } => {
                StoredLayout::Virtual(self.0.below.heap_object(heap, index).map_err(damaged)?)
            }
        };
        Ok(Description { kind, shape, max_shape, layout, filters, fill })
    }

    fn external(self, found: &[header::Message], name: &str) -> Result<Vec<ExternalPart>, Hdf5Error> {
        let damaged = Hdf5::damaged(name);
        let wrong = || Hdf5Error::damaged(name, "the message about external files is malformed");
        let message = found.iter().find(|message| message.kind == header::EXTERNAL).ok_or_else(wrong)?;
        let bytes = self.0.below.content(message).map_err(&damaged)?;
        let (heap, parts) = messages::external(&bytes, &self.0.below).ok_or_else(wrong)?;
        let names = self.0.below.local_heap(heap).map_err(&damaged)?;
        let parts = parts.into_iter().map(|(at, offset, nbytes)| {
            let bytes = usize::try_from(at).ok().and_then(|at| names.get(at..)).ok_or_else(wrong)?;
            let nbytes = (nbytes != u64::MAX).then_some(nbytes);
            Ok(ExternalPart { file: hdf5::cursor::text_of(bytes), offset, nbytes })
        });
        parts.collect()
    }

    /// Opens the data set at an address. Its items are bytes as they are stored, of dtype `|V`; only texts of fixed length
    /// end with zeros. It has no attributes.
    ///
    /// # Errors
    /// Fails if the address has no data set, or if its items are in another file or missing.
    pub fn data_set(self, address: u64, name: &str) -> Result<DataSet, Hdf5Error> {
        self.0.begin();
        let hdf5 = self.0;
        let found = hdf5.messages(address, name)?;
        let DataSetMessages { kind, space, layout, filters, fill, is_never_filled, is_external } =
            hdf5.described(&found, name)?;
        let Space::Shape(shape, most) = space else {
            return Err(Hdf5Error::unsupported(name, "no items and no shape (a null dataspace)"));
        };
        if is_external || matches!(layout, Layout::Virtual { .. }) {
            return Err(Hdf5Error::unsupported(name, "the items are elsewhere"));
        }
        let items = Items::as_stored(&kind, hdf5.below.offset_size).map_err(unfit(name))?;
        let fill = fill.filter(|fill| fill.len() == items.stored || !kind.is_in_heap());
        if fill.as_ref().is_some_and(|fill| fill.len() != items.stored) {
            return Err(Hdf5Error::damaged(name, "the fill value message is malformed"));
        }
        let fill = fill.filter(|_| !is_never_filled);
        let nbytes = product(&shape).saturating_mul(items.stored as u64);
        let lengths = (&shape[..], most.as_deref());
        let placed = hdf5.place(address, layout, lengths, &items, &filters, nbytes);
        let placed = placed.map_err(Hdf5::damaged(name))?;
        let most = most.as_deref().unwrap_or(&shape).iter();
        let max_shape = most.map(|&most| (most != u64::MAX).then_some(most)).collect();
        let data = Data {
            path: name.to_owned(),
            below: hdf5.below.clone(),
            limits: hdf5.limits.clone(),
            extent: shape.clone(),
            shape,
            items,
            beyond: fill.clone(),
            fill,
            place: placed.stores,
            cache: Mutex::default(),
            buffers: Arc::default(),
        };
        let found = DataSetParts {
            data,
            attrs: Attrs::default(),
            filters,
            chunkshape: placed.chunks,
            layout: placed.layout,
            stored: placed.stored,
            is_dimension_only: false,
            max_shape,
        };
        Ok(DataSet::of_hdf5(name.to_owned(), found))
    }

    /// Returns the elements of sequences and texts of variable length. `references` are items of
    /// such a type as they are stored, and an element has `size` bytes. A null reference has no elements.
    ///
    /// # Errors
    /// Fails if a reference is invalid.
    pub fn sequences(self, references: &[u8], size: usize, name: &str) -> Result<Vec<Bytes>, Hdf5Error> {
        self.0.begin();
        let below = &self.0.below;
        let parts = references.chunks_exact(datatype::reference_size(below.offset_size));
        let mut last = None;
        let found = parts.map(|reference| Ok(below.sequence_near(reference, size, &mut last)?.1));
        found.collect::<Result<_, String>>().map_err(Hdf5::damaged(name))
    }

    /// Returns an object of a heap, such as the target of a region reference.
    ///
    /// # Errors
    /// Fails if the heap has no such object.
    pub fn heap_object(self, address: u64, index: u32, name: &str) -> Result<Bytes, Hdf5Error> {
        self.0.begin();
        self.0.below.heap_object(address, index).map_err(Hdf5::damaged(name))
    }

    /// Reads bytes of the file, such as those of a chunk.
    ///
    /// # Errors
    /// Fails if they are outside the file, or exceed the limit for memory.
    pub fn bytes(self, position: u64, nbytes: u64, name: &str) -> Result<Bytes, Hdf5Error> {
        self.0.limits.check_memory("chunk, in bytes", nbytes).map_err(Hdf5Error::limit(name))?;
        let pages = &self.0.below.pages;
        let address = position.checked_sub(pages.position(0));
        let address = address.ok_or_else(|| Hdf5Error::damaged(name, "bytes in front of the file"))?;
        pages.data(address, nbytes).map_err(Hdf5Error::io(name))
    }
}
