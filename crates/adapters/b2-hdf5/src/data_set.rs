//! Data sets, and how they become arrays.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use b2_core::{Control, Limits, for_each};
use b2_frame::ReadAt;
use b2nd::{
    Amount, ArrayBuilder, ChunkContent, Dtype, Geometry, NdArray, NdError, Region, RegionSource,
    SharedRegions, Slice, Value, default_chunkshape, source,
};

use crate::boxes::{BoxBounds, product};
use crate::error::Stop;
use crate::filters::Filter;
use crate::filters::blosc::MovableChunk;
use crate::hdf5::{Attrs, Data, DataSetParts, StoredChunk};
use crate::netcdf3::Variable;
use crate::parts::{BoxPart, Parts};
use crate::{Hdf5Error, attrs};

/// A data set of HDF5, or a variable of NetCDF.
pub struct DataSet {
    path: String,
    shape: Vec<u64>,
    max_shape: Vec<Option<u64>>,
    chunkshape: Option<Vec<u32>>,
    filters: Vec<Filter>,
    layout: &'static str,
    /// Bytes of the items, if the index of chunks need not be read for that.
    stored: Option<u64>,
    attrs: Attrs,
    is_dimension_only: bool,
    items: Items,
    /// The dtype of texts of variable length, once they have been measured.
    measured: OnceLock<Dtype>,
    outline: OnceLock<NdArray>,
    limits: Limits,
}

/// Maximum number of chunks of an outline; beyond it, chunks are made larger. This bounds the time that an outline takes,
/// whatever shape the file claims.
const SOME_CHUNKS: u64 = 1 << 16;
const MANY_CHUNKS: u64 = 1 << 20;

enum Items {
    Hdf5(Box<Data>),
    NetCdf3 { file: Arc<dyn ReadAt>, variable: Arc<Variable> },
}

impl std::fmt::Debug for DataSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataSet")
            .field("path", &self.path)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl DataSet {
    pub(crate) fn of_hdf5(path: String, found: DataSetParts) -> Self {
        let DataSetParts {
            data,
            mut attrs,
            filters,
            chunkshape,
            layout,
            stored,
            is_dimension_only,
            max_shape,
        } = found;
        mark_characters(&mut attrs.values, data.dtype());
        let inner = data.inner_dims().iter().map(|&length| u32::try_from(length).unwrap_or(u32::MAX));
        let chunkshape = chunkshape.map(|chunks| chunks.into_iter().chain(inner).collect());
        let (shape, limits) = (data.shape(), data.limits().clone());
        Self {
            path,
            shape,
            max_shape,
            chunkshape,
            filters,
            layout,
            stored,
            attrs,
            is_dimension_only,
            items: Items::Hdf5(Box::new(data)),
            measured: OnceLock::new(),
            outline: OnceLock::new(),
            limits,
        }
    }

    pub(crate) fn of_netcdf3(
        path: String,
        file: Arc<dyn ReadAt>,
        variable: Arc<Variable>,
        limits: &Limits,
    ) -> Self {
        let dims = variable.dims.iter().map(|name| name.as_str().into()).collect();
        let mut values = vec![(attrs::DIMENSIONS.to_owned(), Value::Array(dims))];
        values.extend(variable.attrs.iter().filter(|(name, _)| name != attrs::DIMENSIONS).cloned());
        mark_characters(&mut values, Some(&variable.dtype));
        Self {
            path,
            shape: variable.shape.clone(),
            max_shape: variable.max_shape(),
            chunkshape: None,
            filters: Vec::new(),
            layout: "NetCDF 3",
            stored: Some(variable.nbytes()),
            attrs: Attrs { values, left_out: Vec::new() },
            is_dimension_only: false,
            items: Items::NetCdf3 { file, variable },
            measured: OnceLock::new(),
            outline: OnceLock::new(),
            limits: limits.clone(),
        }
    }

    /// Returns the path from the root.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// Returns the shape of the array. Dimensions of items that are arrays come last.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }
    /// Returns the maximum length of each dimension in the file; `None` for unlimited.
    pub fn max_shape(&self) -> &[Option<u64>] {
        &self.max_shape
    }
    /// Returns the shape of the chunks, if the data set has chunks.
    pub fn chunkshape(&self) -> Option<&[u32]> {
        self.chunkshape.as_deref()
    }
    /// Returns the filters, in the order in which they were applied.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }
    /// Returns the kind of layout, or of the index of the chunks.
    pub fn layout(&self) -> &'static str {
        self.layout
    }
    /// Returns how many bytes of the items are stored. Reads the whole index of the chunks.
    pub fn stored_nbytes(&self) -> u64 {
        match (&self.stored, &self.items) {
            (Some(stored), _) => *stored,
            (None, Items::Hdf5(data)) => {
                data.begin();
                data.chunks_nbytes()
            }
            (None, Items::NetCdf3 { .. }) => 0,
        }
    }

    /// Returns the chunks that are stored, in the order of the grid. Reads the whole index of the chunks.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn stored_chunks(&self) -> Result<Vec<StoredChunk>, Hdf5Error> {
        let (Items::Hdf5(data), Some(lengths)) = (&self.items, &self.chunkshape) else {
            return Ok(Vec::new());
        };
        data.begin();
        let found = data.stored_chunks()?.into_iter().map(|(at, stored)| {
            let offset =
                at.iter().zip(lengths).map(|(&at, &length)| at.saturating_mul(length.into())).collect();
            StoredChunk::new(offset, data.position(stored), stored.len, stored.mask)
        });
        Ok(found.collect())
    }

    /// Reads the whole index of the chunks to validate it.
    pub(crate) fn load(&self) -> Result<(), Hdf5Error> {
        match &self.items {
            Items::Hdf5(data) => data.load(),
            Items::NetCdf3 { .. } => Ok(()),
        }
    }
    /// Returns the attributes: those of the file, the names of the dimensions (`_ARRAY_DIMENSIONS`) and of the values of
    /// enumerations (`_ENUM`), and a mark for characters that form texts along the last dimension (`_ARRAY_CHARACTERS`).
    pub fn attrs(&self) -> &[(String, Value)] {
        &self.attrs.values
    }
    /// Returns the attributes that msgpack cannot represent: their names and the reasons.
    pub fn attrs_left_out(&self) -> &[String] {
        &self.attrs.left_out
    }
    /// Returns whether this is only the placeholder of a NetCDF dimension, without items.
    pub fn is_dimension_only(&self) -> bool {
        self.is_dimension_only
    }

    /// Returns the dtype as text, or `text of variable length` if the length of the longest item is not known.
    pub fn kind(&self) -> String {
        match self.known_dtype() {
            Some(dtype) => dtype.as_str().to_owned(),
            None => "text of variable length".into(),
        }
    }

    fn known_dtype(&self) -> Option<&Dtype> {
        match &self.items {
            Items::Hdf5(data) => data.dtype().or_else(|| self.measured.get()),
            Items::NetCdf3 { variable, .. } => Some(&variable.dtype),
        }
    }

    /// Returns the dtype. Reads all texts of variable length to determine it.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub fn dtype(&self) -> Result<&Dtype, Hdf5Error> {
        if let (Items::Hdf5(data), None) = (&self.items, self.known_dtype())
            && let Some(text) = data.long_text()
        {
            data.begin();
            let dtype = text.dtype()?;
            return Ok(self.measured.get_or_init(|| dtype));
        }
        self.known_dtype().ok_or_else(|| Hdf5Error::damaged(&self.path, "no dtype"))
    }

    /// Returns the bytes of all items, if they do not have to be measured.
    pub fn nbytes(&self) -> Option<u64> {
        Some(product(&self.shape).saturating_mul(self.known_dtype()?.itemsize() as u64))
    }

    /// Reads a box of items in C order, in the [`dtype`](Self::dtype).
    ///
    /// # Errors
    /// Fails if the box is not inside the array, if `dst` does not have its size, or if the items cannot be read.
    pub fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<(), Hdf5Error> {
        self.read_part(start, shape, dst, &Control::new())
    }

    /// Reads a box. A chunk is decoded by the threads of `control`, which may cancel it.
    fn read_part(
        &self,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
        control: &Control,
    ) -> Result<(), Hdf5Error> {
        let dtype = self.dtype()?;
        let parts = start.iter().zip(shape).zip(&self.shape);
        let is_inside = start.len() == self.shape.len()
            && shape.len() == self.shape.len()
            && { parts }
                .all(|((&at, &length), &whole)| at.checked_add(length).is_some_and(|end| end <= whole))
            && product(shape).checked_mul(dtype.itemsize() as u64) == Some(dst.len() as u64);
        if !is_inside {
            let what = format!("items {start:?} {shape:?} of an array {:?}", self.shape);
            return Err(Hdf5Error::Argument { path: self.path.clone(), what });
        }
        match &self.items {
            Items::Hdf5(data) => {
                data.begin();
                match data.long_text() {
                    Some(text) => text.read_box(start, shape, dtype, dst),
                    None => data.read_box(start, shape, dst, control),
                }
            }
            Items::NetCdf3 { file, variable } => {
                variable.read_box(&**file, start, shape, dst).map_err(Hdf5Error::io(&self.path))
            }
        }
    }

    /// Like [`read_box`](Self::read_box), with the threads of `control`. A box that covers several chunks is read in parts, along the
    /// first dimension if it has several rows of chunks there, otherwise along another one. Parts of the latter, up to 4 MiB
    /// or a column of chunks for each thread, are decoded to a separate buffer first.
    ///
    /// # Errors
    /// Same as [`read_box`](Self::read_box), and if the call is cancelled.
    pub fn read_box_with(
        &self,
        control: &Control,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        let nbytes = dst.len() as u64;
        let control = control.begin(nbytes, 1);
        let Parts { parts, most } =
            Parts::of(BoxBounds { start, shape }, self.chunkshape.as_deref(), &control, &self.limits, dst);
        // Threads without a part help to decode the chunks of the others.
        let threads = control.max_threads().checked_div(parts.len()).unwrap_or(1).max(1);
        let within = control.quiet().threads(threads);
        let read = |buffer: &mut Vec<u8>, mut part: BoxPart<'_>| -> Result<(), Stop> {
            let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| -> Result<(), Stop> {
                self.read_part(start, shape, dst, &within).map_err(|error| match control.check() {
                    Ok(()) => error.into(),
                    // The error of a chunk that could not be decoded.
                    Err(cancelled) => cancelled.into(),
                })
            };
            part.fill(buffer, read)?;
            Ok(control.advance(part.nbytes())?)
        };
        for_each(&control, most, parts.into_iter(), nbytes, || Ok(Vec::new()), read)
            .map_err(|stop: Stop| stop.into_error(&self.path))
    }

    /// Returns an array of zeros with the shape and dtype of this one, for selecting from it: [`read_slice`](Self::read_slice)
    /// reads the selected items.
    ///
    /// # Errors
    /// Fails if the data set is too large for an array, or if texts of variable length cannot be read.
    pub fn outline(&self) -> Result<NdArray, Hdf5Error> {
        if let Some(outline) = self.outline.get() {
            return Ok(outline.clone());
        }
        let made = || -> Result<NdArray, NdError> {
            let (chunks, blocks) = self.outlined(SOME_CHUNKS).or_else(|_| self.outlined(MANY_CHUNKS))?;
            let builder = ArrayBuilder::of_dtype(
                self.shape.clone(),
                self.known_dtype().cloned().unwrap_or(Dtype::of::<u8>()),
            );
            NdArray::from_bytes(builder.chunks(chunks).blocks(blocks).to_bytes(source::zeros())?)
        };
        self.dtype()?;
        let made = made().map_err(Hdf5Error::array(&self.path))?;
        Ok(self.outline.get_or_init(|| made).clone())
    }

    /// Returns chunks and blocks of an outline: boxes that are read together. They are the chunks of the data set; in chunks that
    /// are arrays, the blocks of these. If that would be more than `most` chunks, they become larger.
    fn outlined(&self, most: u64) -> Result<(Vec<u32>, Vec<u32>), NdError> {
        let itemsize = self.known_dtype().map_or(1, Dtype::itemsize);
        let plain = || {
            let blocks = vec![1; self.shape.len()];
            let chunks = default_chunkshape(&self.shape, &blocks, itemsize);
            (chunks.clone(), chunks)
        };
        let is_possible = |chunks: &[u32], blocks: &[u32]| {
            Geometry::new(self.shape.clone(), chunks.to_vec(), blocks.to_vec(), itemsize)
        };
        let own = self.chunkshape.clone().map(|chunks| (chunks.clone(), chunks));
        let (mut chunks, blocks) = own.filter(|(own, _)| is_possible(own, own).is_ok()).unwrap_or_else(plain);
        let count = |chunks: &[u32]| {
            let grid = self.shape.iter().zip(chunks).map(|(&n, &chunk)| n.div_ceil(chunk.max(1).into()));
            grid.fold(1_u64, |product, n| product.saturating_mul(n))
        };
        if count(&chunks) <= most {
            let arrays = self.sample().ok().flatten();
            let finer = arrays.map(|array| array.blockshape().to_vec());
            let finer = finer.filter(|blocks| is_possible(&chunks, blocks).is_ok());
            return Ok((chunks, finer.unwrap_or(blocks)));
        }
        for axis in 0..chunks.len() {
            let Some(&length) = self.shape.get(axis) else { break };
            while count(&chunks) > most && chunks.get(axis).is_some_and(|&chunk| u64::from(chunk) < length) {
                let mut larger = chunks.clone();
                if let Some(chunk) = larger.get_mut(axis) {
                    *chunk = chunk.saturating_mul(2);
                }
                if is_possible(&larger, &blocks).is_err() {
                    break;
                }
                chunks = larger;
            }
        }
        if count(&chunks) > most {
            let what = format!("a shape {:?} of chunks {:?}, too many for a selection", self.shape, blocks);
            return Err(NdError::argument(what));
        }
        Ok((chunks, blocks))
    }

    /// Reads the items that a selection of the [outline](Self::outline) selects, in C order, in its dtype. Chunks are decoded by the
    /// threads of `control`: only chunks that the selection touches, and in arrays (filter 32026) only such blocks.
    ///
    /// ```no_run
    /// use b2_core::Control;
    /// let data = b2_hdf5::File::open("x.h5")?.data_set("/group/data")?;
    /// let slice = data.outline()?.slice(([5, 2, -1], 0..10))?;
    /// let mut rows = vec![0; slice.nbytes() as usize];
    /// data.read_slice(&slice, &Control::new(), &mut rows)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the selection is of an array of another shape, if `dst` does not have its size, or if the items cannot be read.
    pub fn read_slice(&self, slice: &Slice, control: &Control, dst: &mut [u8]) -> Result<(), Hdf5Error> {
        let array = slice.array();
        if array.shape() != self.shape || array.itemsize() != self.dtype()?.itemsize() {
            let what = format!("a selection of an array {:?}, not of {:?}", array.shape(), self.shape);
            return Err(Hdf5Error::Argument { path: self.path.clone(), what });
        }
        if let Some((start, shape)) = slice.as_box() {
            return self.read_box_with(control, &start, &shape, dst);
        }
        let control = control.begin(dst.len() as u64, array.itemsize() as u64);
        // Regions are read concurrently, so each has one thread.
        let within = control.quiet().threads(1);
        let source = BoxSource { data: self, within, error: Mutex::default() };
        let read = slice.read_from(&source, &control, dst);
        match source.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) if read.is_err() && control.check().is_ok() => Err(error),
            _ => read.map_err(Hdf5Error::array(&self.path)),
        }
    }

    /// Checks that the limit for output allows items of `nbytes`.
    ///
    /// # Errors
    /// Fails if that is more than the stored bytes and the limit allow.
    pub fn check_output(&self, nbytes: u64) -> Result<(), Hdf5Error> {
        // The index is read only if it matters.
        match self.limits.check_output(nbytes, 0) {
            Ok(()) => Ok(()),
            Err(_) => {
                let checked = self.limits.check_output(nbytes, self.stored_nbytes());
                checked.map_err(Hdf5Error::limit(&self.path))
            }
        }
    }

    /// Describes the array: shape, dtype, chunks and attributes of the data set. If its chunks are Blosc2 arrays
    /// (filter 32026), also their blocks and compression, so that [`source`](Self::source) copies them unchanged.
    ///
    /// # Errors
    /// Fails if the data set is too large for an array, or if texts of variable length cannot be read.
    pub fn builder(&self) -> Result<ArrayBuilder, Hdf5Error> {
        let dtype = self.dtype()?.clone();
        let nbytes = product(&self.shape).saturating_mul(dtype.itemsize() as u64);
        self.check_output(nbytes)?;
        let mut builder = ArrayBuilder::of_dtype(self.shape.clone(), dtype.clone());
        if let Some(chunks) = self.usable_chunks()? {
            builder = builder.chunks(chunks);
        }
        if let Some(sample) = self.sample()? {
            builder = builder.blocks(sample.blockshape());
            // Chunks that are copied unchanged may have a compression that is refused for new ones.
            if let Ok(cparams) = sample.cparams()
                && dtype.check_compression(&cparams).is_ok()
            {
                builder = builder.compression(cparams);
            }
        }
        for (name, value) in attrs::layers(&self.attrs.values) {
            builder = builder.vlmetalayer(name, value);
        }
        Ok(builder)
    }

    /// The chunk shape, if an array can have such chunks.
    fn usable_chunks(&self) -> Result<Option<Vec<u32>>, Hdf5Error> {
        let Some(chunks) = &self.chunkshape else { return Ok(None) };
        let itemsize = self.dtype()?.itemsize();
        let fits = ArrayBuilder::of_dtype(self.shape.clone(), self.dtype()?.clone()).chunks(chunks.clone());
        match fits.geometry() {
            Ok(_) => Ok(Some(chunks.clone())),
            Err(_) => Ok(Some(default_chunkshape(&self.shape, &vec![1; self.shape.len()], itemsize))),
        }
    }

    fn sample(&self) -> Result<Option<b2nd::NdArray>, Hdf5Error> {
        match &self.items {
            Items::Hdf5(data) => data.sample(),
            Items::NetCdf3 { .. } => Ok(None),
        }
    }

    /// Returns the items as a source for [`builder`](Self::builder). Chunks of filter 32026 are copied unchanged if the
    /// array has the same chunk and block shapes; all others are decoded, with one thread for each chunk.
    pub fn source(&self) -> impl RegionSource + '_ {
        Source { data: self, moves: self.moves() }
    }

    /// Returns the items as a source for an array of any chunks, blocks and compression. All chunks are decoded.
    pub fn decoded(&self) -> impl RegionSource + '_ {
        Source { data: self, moves: false }
    }

    /// Whether [`source`](Self::source) copies chunks unchanged.
    pub fn moves(&self) -> bool {
        self.sample().is_ok_and(|sample| sample.is_some())
    }
}

/// The items of a data set.
struct Source<'a> {
    data: &'a DataSet,
    moves: bool,
}

impl RegionSource for Source<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        SharedRegions::read_region(self, region, dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        // Chunks are not requested from a source that several threads read.
        if self.moves { None } else { Some(self) }
    }

    fn chunk(&mut self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
        let (true, Items::Hdf5(data)) = (self.moves, &self.data.items) else {
            return Ok(ChunkContent::Items);
        };
        if self.data.chunkshape.as_deref() != Some(geometry.chunkshape()) {
            return Ok(ChunkContent::Items);
        }
        let at = geometry.chunk_coords(nchunk);
        Ok(match data.ready(&at, geometry.blockshape()).map_err(io::Error::other)? {
            Some(MovableChunk::Special(kind)) => ChunkContent::Special(kind),
            Some(MovableChunk::Chunk(chunk)) => ChunkContent::Chunk(chunk),
            None => ChunkContent::Items,
        })
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.data.shape.clone())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        self.data.known_dtype().cloned()
    }
}

impl SharedRegions for Source<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.data.read_box(region.start(), region.shape(), dst).map_err(io::Error::other)
    }

    fn is_plain(&self) -> bool {
        self.data.filters.is_empty() && self.data.chunkshape.is_none()
    }
}

/// Marks characters of netCDF, which xarray joins to texts. Other items of one character are not marked.
fn mark_characters(values: &mut Vec<(String, Value)>, dtype: Option<&Dtype>) {
    let is_named = values.iter().any(|(name, _)| name == attrs::DIMENSIONS);
    if is_named && dtype.is_some_and(|dtype| dtype.as_str() == "|S1") {
        values.push((attrs::CHARACTERS.to_owned(), true.into()));
    }
}

/// The items of a data set, and the first error of reading them.
struct BoxSource<'a> {
    data: &'a DataSet,
    /// For the work within a region.
    within: Control,
    error: Mutex<Option<Hdf5Error>>,
}

impl SharedRegions for BoxSource<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.data.read_part(region.start(), region.shape(), dst, &self.within).map_err(|error| {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
            io::ErrorKind::Other.into()
        })
    }
}
