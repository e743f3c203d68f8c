//! Writes the items first, then trees, headers and heaps.

use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};

use b2_core::{Control, in_order, memory, workers};
use b2nd::{Dtype, DtypeKind, NdArray, Value};

use super::bytes::UNDEFINED;
use super::chunks::{self, Encoding, StoredChunk};
use super::codec::Codec;
use super::datatypes;
use super::header::{self, Header};
use super::heap::{self, Heaps};
use super::tree::{self, WrittenChunk};
use super::values::{self, Attribute, Content};
use crate::boxes::{BoxBounds, copy_shared};
use crate::error::Stop;
use crate::hdf5::NO_COORDINATE;
use crate::{Hdf5Error, attrs};

/// Writes an HDF5 file.
///
/// ```
/// use b2_hdf5::{Codec, File, Writer};
/// use b2nd::{ArrayBuilder, NdArray};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("x.h5");
/// let items: Vec<u8> = (0..200_u16).flat_map(u16::to_le_bytes).collect();
/// let array = NdArray::from_bytes(ArrayBuilder::new::<u16>([10, 20]).to_bytes(&items[..])?)?;
/// let mut writer = Writer::new(std::fs::File::create(&path)?, "x.h5")?;
/// writer.array("/group/data", &array, Codec::Blosc2)?;
/// writer.finish()?;
///
/// let data = File::open(&path)?.data_set("/group/data")?;
/// let mut found = vec![0; 400];
/// data.read_box(&[0, 0], &[10, 20], &mut found)?;
/// assert_eq!(found, items);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    name: String,
    /// The position of the next byte.
    at: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) left_out: Vec<String>,
    /// Scales without items that were added.
    pub(super) made: BTreeSet<usize>,
    /// Whether netCDF must be able to open the file.
    pub(super) netcdf: bool,
    control: Control,
}

/// A group or a data set.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) parent: usize,
    pub(super) kind: Kind,
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// The numbers of its entries.
    Group(Vec<usize>),
    Data(Data),
}

#[derive(Debug)]
pub(super) struct Data {
    pub(super) datatype: Vec<u8>,
    pub(super) space: Vec<u8>,
    pub(super) shape: Vec<u64>,
    pub(super) layout: Vec<u8>,
    pub(super) filters: Option<Vec<u8>>,
    /// The names of the dimensions; empty if they have none.
    pub(super) dims: Vec<String>,
    /// The unlimited dimensions.
    pub(super) unlimited: Vec<usize>,
}

/// The attribute with the names of the dimensions, and the one that holds attributes that fit nowhere else.
const DIMENSIONS: &str = attrs::DIMENSIONS;
const REST: &str = "attrs";
/// Attributes with a different meaning in HDF5.
const RESERVED: [&str; 3] = ["DIMENSION_LIST", "REFERENCE_LIST", "_ARRAY_ORDER"];
/// Those that only a scale has for itself.
pub(super) const OF_SCALE: [&str; 2] = ["CLASS", "NAME"];

impl<W: Write + Seek + Send> Writer<W> {
    /// Starts a file. `name` is its name in errors.
    ///
    /// # Errors
    /// Fails if nothing can be written.
    pub fn new(mut out: W, name: impl Into<String>) -> Result<Self, Hdf5Error> {
        let name = name.into();
        // The superblock comes last: until then the file is not HDF5.
        out.write_all(&[0; header::SUPERBLOCK as usize]).map_err(Hdf5Error::write(&name))?;
        let root = Node {
            name: String::new(),
            path: "/".into(),
            parent: 0,
            kind: Kind::Group(Vec::new()),
            attributes: Vec::new(),
        };
        let control = Control::new();
        Ok(Self {
            out,
            name,
            at: header::SUPERBLOCK,
            nodes: vec![root],
            left_out: Vec::new(),
            made: BTreeSet::new(),
            netcdf: false,
            control,
        })
    }

    /// Sets the control, whose callback receives the number of uncompressed bytes of each chunk and may stop the work.
    pub fn set_control(&mut self, control: Control) {
        self.control = control;
    }

    /// Sets whether the netCDF library must be able to open the file, which it refuses because of a single invalid name. Off by default.
    ///
    /// Names of more than 255 bytes and names that netCDF reserves are then refused, as are dimensions named like an unrelated
    /// data set, for example their own data set if it has several dimensions. Attributes with such names are left out.
    pub fn set_netcdf(&mut self, netcdf: bool) {
        self.netcdf = netcdf;
    }

    /// Creates a group and missing parents, and adds attributes to it. `/` always exists.
    ///
    /// # Errors
    /// Fails if there is a data set with this name.
    pub fn group(&mut self, path: &str, attrs: &[(String, Value)]) -> Result<(), Hdf5Error> {
        let group = self.make_group(path)?;
        self.add_attributes(group, attrs, None);
        Ok(())
    }

    fn unsupported(path: &str, what: impl Into<String>) -> Hdf5Error {
        Hdf5Error::unsupported(path, what)
    }

    fn make_group(&mut self, path: &str) -> Result<usize, Hdf5Error> {
        let mut at = 0;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = match self.find(at, part) {
                Some(found) if matches!(self.nodes.get(found), Some(Node { kind: Kind::Group(_), .. })) => {
                    found
                }
                Some(_) => return Err(Self::unsupported(path, "both a data set and a group")),
                None => self.add(at, part, Kind::Group(Vec::new()))?,
            };
        }
        Ok(at)
    }

    pub(super) fn find(&self, group: usize, name: &str) -> Option<usize> {
        let Kind::Group(children) = &self.nodes.get(group)?.kind else { return None };
        children.iter().copied().find(|&child| self.nodes.get(child).is_some_and(|node| node.name == name))
    }

    pub(super) fn add(&mut self, parent: usize, name: &str, kind: Kind) -> Result<usize, Hdf5Error> {
        let above = self.nodes.get(parent).map_or("/", |node| &node.path).trim_end_matches('/').to_owned();
        let path = format!("{above}/{name}");
        if name == "." || name.contains('\0') || name.len() > 1 << 15 {
            return Err(Self::unsupported(&path, "HDF5 cannot have this name"));
        }
        if self.netcdf
            && let Some(why) = refused_by_netcdf(name)
        {
            return Err(Self::unsupported(&path, format!("netCDF cannot have this name: {why}")));
        }
        let number = self.nodes.len();
        let name = name.to_owned();
        self.nodes.push(Node { name, path, parent, kind, attributes: Vec::new() });
        if let Some(Node { kind: Kind::Group(children), .. }) = self.nodes.get_mut(parent) {
            children.push(number);
        }
        Ok(number)
    }

    fn add_attributes(&mut self, node: usize, attrs: &[(String, Value)], dtype: Option<&Dtype>) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        let is_scale =
            attrs.iter().any(|(name, value)| name == "CLASS" && value.as_str() == Some("DIMENSION_SCALE"));
        for (name, value) in attrs {
            if name == DIMENSIONS || name == attrs::CHARACTERS || RESERVED.contains(&&**name) {
                continue;
            }
            if is_scale && OF_SCALE.contains(&&**name) {
                continue;
            }
            let allowed = match refused_by_netcdf(name).filter(|_| self.netcdf) {
                Some(why) => Err(format!("netCDF cannot have this name: {why}")),
                None => Attribute::of(name, value, dtype),
            };
            // netCDF programs show texts of variable length as a different type.
            let allowed = allowed.map(|made| if self.netcdf { made.with_fixed_text() } else { made });
            let made = allowed.and_then(|made| match length(&made) {
                len if len <= header::LONGEST => Ok(made),
                len => Err(format!("{len} bytes, and at most {} fit", header::LONGEST)),
            });
            match made {
                Ok(made) => node.attributes.push(made),
                Err(what) => self.left_out.push(format!("{}: attribute {name}: {what}", node.path)),
            }
        }
    }

    /// Writes an array with its attributes. Missing groups are created.
    ///
    /// Dimensions that have names (`_ARRAY_DIMENSIONS`) get scales: the array of that name and length in the same group, or in a group
    /// above it, otherwise one without items, as netCDF creates it. Times become numbers with the CF attributes `units` and `calendar`;
    /// texts (`<U`) become texts of variable length.
    ///
    /// # Errors
    /// Fails if the array cannot be read, if HDF5 has no type for its items, or if the name exists.
    pub fn array(&mut self, path: &str, array: &NdArray, codec: Codec) -> Result<(), Hdf5Error> {
        let path = format!("/{}", path.trim_matches('/'));
        let (group, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name.is_empty() {
            return Err(Self::unsupported(&path, "a data set without a name"));
        }
        if array.ndim() > MOST_DIMENSIONS {
            return Err(Self::unsupported(&path, format!("{} dimensions", array.ndim())));
        }
        let parent = self.make_group(group)?;
        if self.find(parent, name).is_some() {
            return Err(Self::unsupported(&path, "there are two of this name"));
        }
        let mut attrs = attributes(array).map_err(Hdf5Error::source_of(&path))?;
        let dims = names(&attrs, array.ndim());
        let datatype = datatype(array.dtype(), &mut attrs).map_err(|what| Self::unsupported(&path, what))?;
        if datatype.as_ref().is_some_and(|datatype| datatype.len() > header::LONGEST) {
            return Err(Self::unsupported(&path, "a structure whose description has more than 64 KiB"));
        }
        let data = match datatype {
            Some(datatype) => self.items(&path, array, codec, datatype)?,
            None => self.texts(&path, array)?,
        };
        let unlimited = unlimited(array);
        if !unlimited.is_empty() && (array.ndim() == 0 || array.shape().contains(&0)) {
            self.left_out.push(format!("{path}: that dimensions are unlimited, since there are no items"));
        }
        let node = self.add(parent, name, Kind::Data(Data { dims, unlimited, ..data }))?;
        self.add_attributes(node, &attrs, Some(array.dtype()));
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<u64, Hdf5Error> {
        let at = self.at;
        self.out.write_all(bytes).map_err(Hdf5Error::write(&self.name))?;
        self.at = at.saturating_add(bytes.len() as u64);
        Ok(at)
    }

    /// Continues at the next multiple of eight.
    fn align(&mut self) -> Result<(), Hdf5Error> {
        let gap = self.at.next_multiple_of(8).saturating_sub(self.at);
        self.put([0; 8].get(..gap as usize).unwrap_or_default()).map(drop)
    }

    /// Writes the items of an array unchanged.
    fn items(
        &mut self,
        path: &str,
        array: &NdArray,
        codec: Codec,
        datatype: Vec<u8>,
    ) -> Result<Data, Hdf5Error> {
        let failed = |what: String| Self::unsupported(path, what);
        let (shape, itemsize) = (array.shape().to_vec(), array.itemsize());
        if array.ndim() == 0 || shape.contains(&0) {
            let items = array.all().read_bytes().map_err(Hdf5Error::source_of(path))?;
            self.align()?;
            let address = if items.is_empty() { UNDEFINED } else { self.put(&items)? };
            let layout = header::contiguous(address, items.len() as u64);
            let space = datatypes::space(&shape, None);
            return Ok(Data {
                datatype,
                space,
                shape,
                layout,
                filters: None,
                dims: Vec::new(),
                unlimited: Vec::new(),
            });
        }
        let itemsize = u32::try_from(itemsize).map_err(|_| failed(format!("items of {itemsize} bytes")))?;
        let nbytes =
            array.chunkshape().iter().fold(u64::from(itemsize), |n, &length| n.saturating_mul(length.into()));
        if u32::try_from(nbytes).is_err() {
            return Err(failed("chunks of 4 GiB or more".into()));
        }
        let encoding = Encoding::new(array, codec).map_err(failed)?;
        let filters = encoding.filters();
        let geometry = array.geometry().clone();
        let control = self.control.begin(array.nbytes(), itemsize.into());
        let mut stored = Vec::new();
        in_order(
            &control,
            usize::MAX,
            array.nbytes(),
            2 * workers(&control),
            0..geometry.nchunks(),
            |n| Ok((n, encoding.chunk(n).map_err(|what| failed(format!("chunk {n}: {what}")))?)),
            |(n, chunk)| {
                let (start, shape) = geometry.chunk_box(&geometry.chunk_coords(n));
                if let Some(StoredChunk { bytes, skipped }) = chunk {
                    let len = u32::try_from(bytes.len()).map_err(|_| failed("a chunk of 4 GiB".into()))?;
                    let address = self.put(&bytes)?;
                    stored.push(WrittenChunk { start, address, len, skipped });
                }
                let nbytes = shape.iter().fold(u64::from(itemsize), |n, &length| n.saturating_mul(length));
                control.advance(nbytes).map_err(Stop::from)
            },
        )
        .map_err(|stop: Stop| stop.into_error(path))?;
        let layout = self.tree(&stored, array.chunkshape(), itemsize)?;
        let filters = if filters.is_empty() { None } else { Some(header::filters(&filters)) };
        let space = growing(&shape, array.chunkshape(), &unlimited(array));
        Ok(Data { datatype, space, shape, layout, filters, dims: Vec::new(), unlimited: Vec::new() })
    }

    /// Writes the tree over chunks, and returns the layout.
    fn tree(
        &mut self,
        stored: &[WrittenChunk],
        chunkshape: &[u32],
        itemsize: u32,
    ) -> Result<Vec<u8>, Hdf5Error> {
        if stored.is_empty() {
            return Ok(header::chunked(UNDEFINED, chunkshape, itemsize));
        }
        self.align()?;
        let (root, nodes) = tree::write(stored, chunkshape, itemsize, self.at);
        self.put(&nodes)?;
        Ok(header::chunked(root, chunkshape, itemsize))
    }

    /// Writes texts as those of variable length, chunk by chunk.
    fn texts(&mut self, path: &str, array: &NdArray) -> Result<Data, Hdf5Error> {
        const ITEM: u32 = 16;
        let geometry = array.geometry().clone();
        let shape = array.shape().to_vec();
        let whole: Vec<u64> = array.chunkshape().iter().map(|&length| length.into()).collect();
        let mut stored = Vec::new();
        let mut contiguous = UNDEFINED;
        for n in 0..geometry.nchunks() {
            let (start, inner) = geometry.chunk_box(&geometry.chunk_coords(n));
            let items = chunks::read(array, &start, &inner).map_err(Hdf5Error::source_of(path))?;
            let texts = unicode(&items, array.dtype()).map_err(|what| Self::unsupported(path, what))?;
            let mut heap = Heap::default();
            // Once for the sizes, once with the addresses.
            texts.iter().for_each(|text| drop(heap.text(text)));
            self.align()?;
            let (addresses, _) = heap.heaps.addresses(self.at);
            let mut heap = Heap { addresses, ..Heap::default() };
            let places: Vec<u8> = texts.iter().flat_map(|text| heap.text(text)).collect();
            let heaps = heap.write();
            self.put(&heaps)?;
            if array.ndim() == 0 {
                contiguous = self.put(&places)?;
                continue;
            }
            let nbytes = whole.iter().fold(u64::from(ITEM), |n, &length| n.saturating_mul(length));
            let len =
                u32::try_from(nbytes).map_err(|_| Self::unsupported(path, "chunks of 4 GiB or more"))?;
            let mut padded =
                memory::zeroed(len as usize).map_err(|error| Self::unsupported(path, error.to_string()))?;
            let zeros = vec![0; whole.len()];
            let (from, to) =
                (BoxBounds { start: &zeros, shape: &inner }, BoxBounds { start: &zeros, shape: &whole });
            copy_shared(from, &places, to, &mut padded, ITEM as usize)
                .ok_or_else(|| Self::unsupported(path, "a chunk of another size"))?;
            let address = self.put(&padded)?;
            stored.push(WrittenChunk { start, address, len, skipped: 0 });
        }
        let layout = match array.ndim() == 0 || shape.contains(&0) {
            true => {
                let nbytes = shape.iter().fold(u64::from(ITEM), |n, &length| n.saturating_mul(length));
                header::contiguous(contiguous, nbytes)
            }
            false => self.tree(&stored, array.chunkshape(), ITEM)?,
        };
        let space = match array.ndim() == 0 || shape.contains(&0) {
            true => datatypes::space(&shape, None),
            false => growing(&shape, array.chunkshape(), &unlimited(array)),
        };
        let datatype = datatypes::long_text();
        Ok(Data { datatype, space, shape, layout, filters: None, dims: Vec::new(), unlimited: Vec::new() })
    }

    /// Writes the rest. Returns the writer, which is not flushed, and what HDF5 cannot represent and was left out: paths, names and
    /// reasons.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn finish(mut self) -> Result<(W, Vec<String>), Hdf5Error> {
        self.add_scales()?;
        self.align()?;
        // Once for the sizes, once with the addresses.
        let mut heap = Heap::default();
        let none = vec![0; self.nodes.len()];
        let mut addresses = Vec::with_capacity(self.nodes.len());
        let mut at = self.at;
        for node in &self.nodes {
            addresses.push(at);
            let len = render(node, &self.nodes, &none, &mut heap).len() as u64;
            at = at.saturating_add(len).next_multiple_of(8);
        }
        let (places, end) = heap.heaps.addresses(at);
        let mut heap = Heap { addresses: places, ..Heap::default() };
        for n in 0..self.nodes.len() {
            let header = match self.nodes.get(n) {
                Some(node) => render(node, &self.nodes, &addresses, &mut heap),
                None => continue,
            };
            self.put(&header)?;
            self.align()?;
        }
        let heaps = heap.write();
        self.put(&heaps)?;
        debug_assert_eq!(self.at, end);
        let root = addresses.first().copied().unwrap_or(UNDEFINED);
        let start = header::superblock(root, self.at);
        let written = self.out.seek(SeekFrom::Start(0)).and_then(|_| self.out.write_all(&start));
        written.map_err(Hdf5Error::write(&self.name))?;
        Ok((self.out, self.left_out))
    }
}

/// Maximum number of dimensions in HDF5.
const MOST_DIMENSIONS: usize = 32;

/// The maximum length of an unlimited dimension.
pub(super) const UNLIMITED: u64 = u64::MAX;

/// The metalayer that lists the numbers of the dimensions that are unlimited in HDF5.
const UNLIMITED_LAYER: &str = "unlimited";

/// The unlimited dimensions.
fn unlimited(array: &NdArray) -> Vec<usize> {
    let layer = array.super_chunk().metalayers().get(UNLIMITED_LAYER);
    let listed = layer.and_then(|content| rmpv::decode::read_value(&mut &content[..]).ok());
    let dims = listed.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let dims = dims.iter().filter_map(|dim| usize::try_from(dim.as_u64()?).ok());
    dims.filter(|dim| *dim < array.ndim()).collect()
}

/// A dataspace. A chunk may exceed the current shape, but not the maximum shape.
fn growing(shape: &[u64], chunkshape: &[u32], unlimited: &[usize]) -> Vec<u8> {
    let most = |(dim, (&length, &chunk)): (usize, (&u64, &u32))| match unlimited.contains(&dim) {
        true => UNLIMITED,
        false => length.max(chunk.into()),
    };
    let most: Vec<u64> = shape.iter().zip(chunkshape).enumerate().map(most).collect();
    datatypes::space(shape, (most != shape).then_some(&most))
}

/// Values of variable length, and their positions.
#[derive(Default)]
struct Heap {
    heaps: Heaps,
    /// The addresses of the heaps, once they are known.
    addresses: Vec<u64>,
    objects: Vec<Vec<u8>>,
}

impl Heap {
    /// Adds an object of `count` items, and returns its reference.
    fn put(&mut self, count: usize, object: Vec<u8>) -> Vec<u8> {
        if object.is_empty() {
            return vec![0; 16];
        }
        let place = self.heaps.add(object.len());
        self.objects.push(object);
        let address = self.addresses.get(place.heap).copied().unwrap_or(0);
        heap::item(count, address, place.index)
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        self.put(text.len(), text.as_bytes().to_vec())
    }

    fn write(self) -> Vec<u8> {
        self.heaps.write(self.objects)
    }
}

/// The bytes of an object's header.
fn render(node: &Node, nodes: &[Node], addresses: &[u64], heap: &mut Heap) -> Vec<u8> {
    let address = |n: usize| addresses.get(n).copied().unwrap_or(0);
    let mut out = match &node.kind {
        Kind::Group(children) => {
            let mut out = Header::group(children.len());
            for (order, &child) in children.iter().enumerate() {
                out.link(order, nodes.get(child).map_or("", |node| &node.name), address(child));
            }
            out
        }
        Kind::Data(data) => {
            Header::data_set(&data.datatype, &data.space, &data.layout, data.filters.as_deref())
        }
    };
    for Attribute { name, datatype, space, content } in &node.attributes {
        let bytes = match content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Texts(texts) => texts.iter().flat_map(|text| heap.text(text)).collect(),
            Content::Objects(lists) => {
                let list = |list: &Vec<usize>| {
                    list.iter().flat_map(|&n| address(n).to_le_bytes()).collect::<Vec<_>>()
                };
                lists.iter().flat_map(|objects| heap.put(objects.len(), list(objects))).collect()
            }
            Content::Referrers(all) => {
                let one = |&(n, dim): &(usize, u32)| {
                    [&address(n).to_le_bytes()[..], &dim.to_le_bytes(), &[0; 4]].concat()
                };
                all.iter().flat_map(one).collect()
            }
        };
        out.attribute(&header::attribute(name, datatype, space, &bytes));
    }
    out.finish()
}

/// Bytes of the message of an attribute.
fn length(attribute: &Attribute) -> usize {
    let Attribute { name, datatype, space, .. } = attribute;
    header::attribute(name, datatype, space, &[]).len().saturating_add(attribute.len())
}

/// The attributes of an array, including those that share a layer.
fn attributes(array: &NdArray) -> Result<Vec<(String, Value)>, b2nd::NdError> {
    let attrs = array.attrs();
    let mut out = Vec::new();
    for name in attrs.names() {
        match attrs.get(&*name)? {
            Some(Value::Map(rest)) if name == REST => {
                let named =
                    rest.into_iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value)));
                out.extend(named);
            }
            Some(value) => out.push((name.into_owned(), value)),
            None => {}
        }
    }
    Ok(out)
}

/// Why netCDF cannot open a file with this name.
fn refused_by_netcdf(name: &str) -> Option<String> {
    /// One byte less than `NC_MAX_NAME`: the library copies that many bytes without a final zero.
    const LONGEST: usize = 255;
    /// Attributes that netCDF reserves for its own metadata.
    const OWN: [&str; 6] = [
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        "_NCProperties",
        "_IsNetcdf4",
        "_SuperblockVersion",
    ];
    if name.len() > LONGEST {
        Some(format!("{} bytes, and at most {LONGEST} fit", name.len()))
    } else if name.starts_with(NO_COORDINATE) || OWN.contains(&name) {
        Some("it is reserved".to_owned())
    } else {
        None
    }
}

/// The names of the dimensions; empty if they have none.
fn names(attrs: &[(String, Value)], ndim: usize) -> Vec<String> {
    let found = attrs.iter().find(|(name, _)| name == DIMENSIONS).map(|(_, value)| value);
    match found {
        Some(Value::Array(names)) if names.len() == ndim => {
            names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// The datatype of the items; `None` for texts of variable length. The unit of times becomes an attribute, and the attribute
/// with the names of an enumeration becomes part of the type.
fn datatype(dtype: &Dtype, attrs: &mut Vec<(String, Value)>) -> Result<Option<Vec<u8>>, String> {
    let size = dtype.itemsize();
    match dtype.kind() {
        DtypeKind::Simple { code: 'U', .. } => Ok(None),
        DtypeKind::Simple { code: code @ ('M' | 'm'), big_endian } => {
            let unit = dtype.as_str().split_once('[').and_then(|(_, unit)| unit.strip_suffix(']'));
            let unit = match unit.unwrap_or_default() {
                "D" => "days",
                "h" => "hours",
                "m" => "minutes",
                "s" => "seconds",
                "ms" => "milliseconds",
                "us" => "microseconds",
                "ns" => "nanoseconds",
                _ => return Err(format!("HDF5 has no type for items {dtype}, and CF no unit")),
            };
            let has = |wanted: &str| attrs.iter().any(|(name, _)| name == wanted);
            if has("units") || has("calendar") {
                return Err(format!(
                    "items {dtype} with attributes units or calendar, which would be theirs"
                ));
            }
            let is_time = *code == 'M';
            let units = if is_time { format!("{unit} since 1970-01-01") } else { unit.to_owned() };
            attrs.push(("units".into(), units.as_str().into()));
            if is_time {
                attrs.push(("calendar".into(), "proleptic_gregorian".into()));
            }
            Ok(Some(datatypes::integer(size, true, *big_endian)))
        }
        DtypeKind::Simple { code: code @ ('i' | 'u'), big_endian } => {
            let base = datatypes::integer(size, *code == 'i', *big_endian);
            let Some(at) = attrs.iter().position(|(name, _)| name == attrs::ENUM) else {
                return Ok(Some(base));
            };
            let members = match attrs.get(at) {
                Some((_, Value::Map(pairs))) => values::members(pairs, dtype),
                _ => None,
            };
            match members {
                Some(members) => {
                    attrs.remove(at);
                    Ok(Some(datatypes::enumeration(size, base, &members)))
                }
                None => Ok(Some(base)),
            }
        }
        _ => datatypes::of(dtype).map(Some),
    }
}

/// The texts of items `<U` or `>U`, without trailing zeros.
fn unicode(items: &[u8], dtype: &Dtype) -> Result<Vec<String>, String> {
    let is_big = matches!(dtype.kind(), DtypeKind::Simple { big_endian: true, .. });
    if dtype.itemsize() == 0 {
        return Err("texts of length zero".into());
    }
    let text = |item: &[u8]| {
        let mut text = String::new();
        let mut zeros = 0;
        for unit in item.chunks_exact(4) {
            let bytes = unit.try_into().unwrap_or([0; 4]);
            let number = if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
            let found = char::from_u32(number).ok_or_else(|| format!("{number:#x} is not a character"))?;
            if found == '\0' {
                zeros += 1;
                continue;
            }
            if zeros > 0 {
                return Err("a text with a zero in it".to_owned());
            }
            text.push(found);
        }
        Ok(text)
    };
    items.chunks_exact(dtype.itemsize()).map(text).collect()
}
