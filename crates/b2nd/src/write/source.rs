//! Sources of items, for new arrays and for changes of existing ones.

use std::any::TypeId;
use std::io;

use b2_chunk::{Chunk, SpecialKind};

use crate::model::element::byte_order;
use crate::model::geometry::{for_each_position, product, strides};
use crate::read::output::{buffer, check_len};
use crate::select::copy::copy_box;
use crate::{Dtype, Element, Geometry, NdArray, NdError, Slice};

/// A source of items, for a new array or for a change of an existing one.
///
/// Implemented for:
/// - values in C order: `&[T]`, `Vec<T>`, `[T; N]`
/// - stored bytes in C order: the same types with `u8`, for items of more than one byte
/// - [`StridedItems`] memory
/// - arrays and views, which copies them in bounded memory and possibly into other chunks
/// - arrays of the crate `ndarray` (feature `ndarray`)
///
/// Constants, closures, iterators and readers become sources by the functions of [`source`](crate::source). A source passed
/// as `&mut` can be used again.
pub trait RegionSource {
    /// Reads the stored bytes of a region's items in C order. `dst` must be filled completely.
    ///
    /// Regions are requested in the order of the chunks and cover each item once, except for chunks
    /// that [`chunk`](Self::chunk) has returned.
    ///
    /// # Errors
    /// Any error when the items cannot be read; the call that reads them then fails with [`NdError::Source`]. An
    /// [`NdError`] inside the error is passed on unchanged, unless it is [`NdError::Frame`] or [`NdError::Chunk`]:
    /// return [`NdError::Element`] or [`NdError::BufferLength`] in this way when the items do not fit the region.
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()>;

    /// Returns the region as borrowed memory if the source holds it there. The region is then not
    /// read, and its chunks are not requested.
    fn lend_region(&self, _region: &Region<'_>) -> Option<StridedItems<'_>> {
        None
    }

    /// Returns the source in a form that several threads may read concurrently, if supported. Regions are then
    /// requested in any order, some more than once, and chunks are not.
    fn shared(&self) -> Option<&dyn SharedRegions> {
        None
    }

    /// Returns the content of chunk `nchunk` of an array with this geometry, if the source has it
    /// in compressed form.
    ///
    /// # Errors
    /// As for [`read_region`](Self::read_region), when the chunk cannot be read.
    fn chunk(&mut self, _geometry: &Geometry, _nchunk: u64) -> io::Result<ChunkContent> {
        Ok(ChunkContent::Items)
    }

    /// Returns the number of items.
    fn amount(&self) -> Amount {
        Amount::Endless
    }

    /// Returns the dtype of the items, if the source knows it.
    fn item_dtype(&self) -> Option<Dtype> {
        None
    }

    /// Returns the stored bytes of the item that the source repeats, if it is a constant. `itemsize` is the size of an
    /// item of the array.
    #[doc(hidden)]
    fn constant(&self, _itemsize: usize) -> Option<io::Result<Vec<u8>>> {
        None
    }

    /// Limits the source to `length` positions along the axis of an append or insert. Sources
    /// without an end need this.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Axis, NdArray, RegionSource, source};
    /// let frame = ArrayBuilder::new::<u8>([2, 2]).to_bytes(source::zeros())?;
    /// let mut editor = NdArray::edit_bytes(frame)?;
    /// editor.append(Axis(1), source::value(7u8).with_length(3))?;
    /// assert_eq!(editor.snapshot()?.slice(0)?.read_bytes()?, [0, 0, 7, 7, 7]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    fn with_length(self, length: u64) -> impl RegionSource
    where
        Self: Sized,
    {
        WithLength { source: self, length }
    }
}

/// A source that several threads may read concurrently; see [`RegionSource::shared`].
pub trait SharedRegions: Sync {
    /// Reads the stored bytes of a region's items in C order. `dst` must be filled completely.
    ///
    /// # Errors
    /// As for [`RegionSource::read_region`].
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()>;

    /// Returns the region as borrowed memory if the source holds it there.
    fn lend_region(&self, _region: &Region<'_>) -> Option<StridedItems<'_>> {
        None
    }

    /// Returns whether the items are stored uncompressed in C order, for example in a file. Reading many small regions
    /// then costs as little as reading a large one.
    fn is_plain(&self) -> bool {
        false
    }
}

/// A box of items that is requested from a [`RegionSource`].
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    pub(crate) whole: &'a [u64],
    pub(crate) dtype: &'a Dtype,
    pub(crate) start: &'a [u64],
    pub(crate) shape: &'a [u64],
}

impl<'a> Region<'a> {
    /// Returns the shape of everything that is requested: a new array, or all items of a change.
    pub fn whole(&self) -> &'a [u64] {
        self.whole
    }
    /// Returns the dtype of the items.
    pub fn dtype(&self) -> &'a Dtype {
        self.dtype
    }
    /// Returns the position of the first item along each dimension.
    pub fn start(&self) -> &'a [u64] {
        self.start
    }
    /// Returns the length along each dimension, in items.
    pub fn shape(&self) -> &'a [u64] {
        self.shape
    }
    /// Returns the number of items.
    pub fn nitems(&self) -> u64 {
        product(self.shape.iter().copied())
    }
    /// Returns the size of the items in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        self.nitems().saturating_mul(self.itemsize() as u64)
    }
    /// Returns the size of an item in bytes.
    pub(crate) fn itemsize(&self) -> usize {
        self.dtype.itemsize()
    }
    /// Returns the size in bytes of everything that is requested.
    fn whole_nbytes(&self) -> u64 {
        product(self.whole.iter().copied()).saturating_mul(self.itemsize() as u64)
    }
}

/// The number of items that a [`RegionSource`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amount {
    /// As many items as are requested.
    Endless,
    /// This many bytes of items in C order, for any shape.
    Bytes(u64),
    /// This many positions along the axis of the append or insert.
    Length(u64),
    /// The items of an array of this shape.
    Shape(Vec<u64>),
}

/// Items in memory with arbitrary strides, which may be negative.
///
/// ```
/// use b2nd::{ArrayBuilder, NdArray, StridedItems};
/// // As numpy.arange(6).reshape(2, 3)[:, ::-1].
/// let items = [0u8, 1, 2, 3, 4, 5];
/// let flipped = StridedItems::new(&items, [2, 3], 1, 2, [3, -1])?;
/// let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([2, 3]).to_bytes(flipped)?)?;
/// assert_eq!(array.all().read_bytes()?, [2, 1, 0, 5, 4, 3]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StridedItems<'a> {
    bytes: &'a [u8],
    shape: Vec<u64>,
    itemsize: usize,
    offset: usize,
    strides: Vec<isize>,
}

impl<'a> StridedItems<'a> {
    /// Describes items of `itemsize` stored bytes in `bytes`. `offset` is that of the first item;
    /// `strides` are the distances between neighbours along each dimension. Both are in bytes.
    ///
    /// # Errors
    /// [`NdError::Argument`] when an item is outside `bytes`.
    pub fn new(
        bytes: &'a [u8],
        shape: impl Into<Vec<u64>>,
        itemsize: usize,
        offset: usize,
        strides: impl Into<Vec<isize>>,
    ) -> Result<Self, NdError> {
        let (shape, strides) = (shape.into(), strides.into());
        let mut inside = strides.len() == shape.len() && isize::try_from(offset).is_ok();
        if inside && !shape.contains(&0) {
            // Along each dimension the offset of the last item is below or above that of the first.
            let (mut first, mut end) = (offset as i128, offset as i128 + itemsize as i128);
            for (&length, &stride) in shape.iter().zip(&strides) {
                let way = i128::from(length - 1).saturating_mul(stride as i128);
                first = first.saturating_add(way.min(0));
                end = end.saturating_add(way.max(0));
            }
            inside = first >= 0 && end <= bytes.len() as i128;
        }
        if !inside {
            return Err(NdError::argument("items of a region lie outside its memory"));
        }
        Ok(Self { bytes, shape, itemsize, offset, strides })
    }

    /// Describes contiguous items in C order.
    pub(crate) fn packed(bytes: &'a [u8], shape: &[u64], itemsize: usize) -> Result<Self, NdError> {
        let strides = strides(shape.iter().map(|&n| n as usize), itemsize);
        Self::new(bytes, shape, itemsize, 0, strides)
    }

    /// Returns a box of the items.
    fn part(&self, start: &[u64], shape: &[u64]) -> Option<Self> {
        let inside = start.len() == self.shape.len()
            && shape.len() == self.shape.len()
            && start
                .iter()
                .zip(shape)
                .zip(&self.shape)
                .all(|((&start, &len), &n)| start.checked_add(len).is_some_and(|end| end <= n));
        if !inside {
            return None;
        }
        let steps = start.iter().zip(&self.strides);
        // This is inside the memory unless there are no items.
        let offset = steps
            .fold(self.offset, |at, (&n, &stride)| at.wrapping_add_signed((n as isize).wrapping_mul(stride)));
        Some(Self { offset, shape: shape.to_vec(), strides: self.strides.clone(), ..*self })
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }
}

/// The content of a chunk of a new array.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChunkContent {
    /// Items that have to be read and compressed.
    Items,
    /// Zeros, NaNs or uninitialised items, which only take an entry in the frame's index.
    Special(SpecialKind),
    /// A compressed chunk that is divided into blocks like the new array.
    Chunk(Chunk),
}

/// A source with a length; see [`RegionSource::with_length`].
#[derive(Clone, Debug)]
struct WithLength<S> {
    source: S,
    length: u64,
}

/// Forwards all methods but `amount` to an inner source.
macro_rules! forward {
    ($self:ident => $inner:expr) => {
        fn read_region(&mut $self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
            $inner.read_region(region, dst)
        }
        fn lend_region(&$self, region: &Region<'_>) -> Option<StridedItems<'_>> {
            $inner.lend_region(region)
        }
        fn shared(&$self) -> Option<&dyn SharedRegions> {
            $inner.shared()
        }
        fn chunk(&mut $self, geometry: &Geometry, nchunk: u64) -> io::Result<ChunkContent> {
            $inner.chunk(geometry, nchunk)
        }
        fn item_dtype(&$self) -> Option<Dtype> {
            $inner.item_dtype()
        }
        fn constant(&$self, itemsize: usize) -> Option<io::Result<Vec<u8>>> {
            $inner.constant(itemsize)
        }
    };
}

impl<S: RegionSource> RegionSource for WithLength<S> {
    forward!(self => self.source);
    fn amount(&self) -> Amount {
        Amount::Length(self.length)
    }
}

impl<S: RegionSource + ?Sized> RegionSource for &mut S {
    forward!(self => (**self));
    fn amount(&self) -> Amount {
        (**self).amount()
    }
}

impl<S: RegionSource + ?Sized> RegionSource for Box<S> {
    forward!(self => (**self));
    fn amount(&self) -> Amount {
        (**self).amount()
    }
}

/// Values in C order, converted for big-endian arrays. Bytes are taken as stored if the items are
/// not bytes.
impl<T: Element> RegionSource for &[T] {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        check_length(self, region)?;
        if let Some(bytes) = stored(self, region.dtype)? {
            copy_region(bytes, region, dst);
            return Ok(());
        }
        // Copy rows that are contiguous in the source and in the region.
        let along = region.shape.iter().zip(region.whole).rposition(|(len, whole)| len != whole).unwrap_or(0);
        let mut rows: Vec<_> = region.shape.iter().map(|&n| 0..n).collect();
        rows.iter_mut().skip(along).for_each(|range| *range = 0..1);
        let run = product(region.shape.iter().skip(along).copied()) as usize;
        let steps = strides(region.whole.iter().map(|&n| n as usize), 1);
        let first = place(region.start, &steps);
        let mut rest = dst;
        for_each_position(&rows, |at| -> Result<(), NdError> {
            let from = first + place(at, &steps);
            let (row, after) = std::mem::take(&mut rest).split_at_mut(run * T::ITEMSIZE);
            encode(self[from..from + run].iter().copied(), region.dtype, row)?;
            rest = after;
            Ok(())
        })
        .map_err(io::Error::other)
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        lend(self, region)
    }

    fn amount(&self) -> Amount {
        Amount::Bytes((self.len() as u64).saturating_mul(T::ITEMSIZE as u64))
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(Dtype::of::<T>())
    }
}

/// Forwards to the slice of the values.
macro_rules! as_slices {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> RegionSource for $type {
            fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
                (&self[..]).read_region(region, dst)
            }
            fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
                lend(&self[..], region)
            }
            fn amount(&self) -> Amount {
                (&self[..]).amount()
            }
            fn item_dtype(&self) -> Option<Dtype> {
                Some(Dtype::of::<T>())
            }
        }
    )*};
}
as_slices! {
    [T: Element] Vec<T>;
    [T: Element] &Vec<T>;
    [T: Element, const N: usize] [T; N];
    [T: Element, const N: usize] &[T; N];
}

/// Returns a region of the values as borrowed memory, if the memory layout is that of stored items.
pub(crate) fn lend<'a, T: Element>(items: &'a [T], region: &Region<'_>) -> Option<StridedItems<'a>> {
    check_length(items, region).ok()?;
    let bytes = stored(items, region.dtype).ok()??;
    StridedItems::packed(bytes, region.whole, region.itemsize()).ok()?.part(region.start, region.shape)
}

fn place(at: &[u64], steps: &[isize]) -> usize {
    at.iter().zip(steps).map(|(&at, &step)| at as usize * step as usize).sum()
}

/// Fails unless there are exactly as many items as requested.
fn check_length<T: Element>(items: &[T], region: &Region<'_>) -> io::Result<()> {
    check_len(items.len().saturating_mul(T::ITEMSIZE), region.whole_nbytes()).map_err(io::Error::other)
}

/// Items in memory, taken as stored.
impl RegionSource for StridedItems<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read(region, dst)
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        let fits = self.shape == region.whole && self.itemsize == region.itemsize();
        fits.then(|| self.part(region.start, region.shape))?
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape.clone())
    }
}

impl StridedItems<'_> {
    /// Copies the items of a region.
    pub(crate) fn read(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let Some(part) = self.lend_region(region) else {
            let (shape, itemsize) = (&self.shape, self.itemsize);
            return invalid(format!("the source has shape {shape:?} and items of {itemsize} bytes"));
        };
        let counts: Vec<usize> = region.shape.iter().map(|&n| n as usize).collect();
        let to = strides(counts.iter().copied(), self.itemsize);
        copy_box(&counts, self.itemsize, (part.bytes, part.offset, &part.strides), (dst, 0, &to));
        Ok(())
    }
}

/// Items are decoded and compressed again; [`Concat`](crate::Concat) copies chunks without that.
impl RegionSource for Slice {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        SharedRegions::read_region(self, region, dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(self)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(self.dtype().clone())
    }
}

impl SharedRegions for Slice {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        if self.shape() != region.whole || self.dtype().itemsize() != region.itemsize() {
            let itemsize = self.dtype().itemsize();
            return invalid(format!("the source has shape {:?} and items of {itemsize} bytes", self.shape()));
        }
        let nd = self.own_shape().len();
        let (inner_start, inner_shape) = (&region.start[nd..], &region.shape[nd..]);
        let view = self.boxed(&region.start[..nd], &region.shape[..nd]).map_err(io::Error::other)?;
        if *inner_shape == region.whole[nd..] {
            return view.read_to_keep(dst).map_err(io::Error::other);
        }
        // For a part of a field's sub-array, the whole sub-arrays are read first.
        view.array().check_result(view.nbytes()).map_err(io::Error::other)?;
        let mut whole = buffer(view.nbytes()).map_err(io::Error::other)?;
        view.read_to_keep(&mut whole).map_err(io::Error::other)?;
        let from = [&vec![0; nd], inner_start].concat();
        copy_region(&whole, &Region { whole: &view.shape(), start: &from, ..*region }, dst);
        Ok(())
    }
}

/// Reads all items of the array.
impl RegionSource for &NdArray {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        RegionSource::read_region(&mut self.all(), region, dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(*self)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape().to_vec())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(NdArray::dtype(self).clone())
    }
}

impl SharedRegions for NdArray {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        SharedRegions::read_region(&self.all(), region, dst)
    }
}

/// A source without the axis of the append, seen as one position along it.
pub(crate) struct ExpandedSource<'a> {
    source: &'a mut dyn RegionSource,
    axis: usize,
}

impl<'a> ExpandedSource<'a> {
    pub(crate) fn new(source: &'a mut dyn RegionSource, axis: usize) -> Self {
        Self { source, axis }
    }

    fn without(&self, lengths: &[u64]) -> Vec<u64> {
        let mut lengths = lengths.to_vec();
        lengths.remove(self.axis);
        lengths
    }
}

impl RegionSource for ExpandedSource<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let [whole, start, shape] = [region.whole, region.start, region.shape].map(|n| self.without(n));
        let (whole, start, shape) = (&whole[..], &start[..], &shape[..]);
        self.source.read_region(&Region { whole, start, shape, dtype: region.dtype }, dst)
    }

    fn lend_region(&self, region: &Region<'_>) -> Option<StridedItems<'_>> {
        let [whole, start, shape] = [region.whole, region.start, region.shape].map(|n| self.without(n));
        let (whole, start, shape) = (&whole[..], &start[..], &shape[..]);
        let mut strided = self.source.lend_region(&Region { whole, start, shape, dtype: region.dtype })?;
        strided.shape.insert(self.axis, 1);
        strided.strides.insert(self.axis, 0);
        Some(strided)
    }
}

/// The extent of a source along an axis.
pub(crate) enum SourceExtent {
    /// This many positions.
    Axis(u64),
    /// It lacks the axis, so it is one position.
    NoAxis,
}

/// Returns how many positions a source has along `axis` of an array of `shape`.
pub(crate) fn length_along(
    amount: &Amount,
    shape: &[u64],
    axis: usize,
    itemsize: usize,
) -> Result<SourceExtent, NdError> {
    let mut others = shape.to_vec();
    others.remove(axis);
    match amount {
        Amount::Length(length) => Ok(SourceExtent::Axis(*length)),
        Amount::Endless => Err(NdError::argument("the source has no end: set a length with `with_length`")),
        Amount::Bytes(nbytes) => match product(others.iter().copied()).saturating_mul(itemsize as u64) {
            _ if *nbytes == 0 => Ok(SourceExtent::Axis(0)),
            per @ 1.. if nbytes.is_multiple_of(per) => Ok(SourceExtent::Axis(nbytes / per)),
            per => Err(NdError::argument(format!(
                "{nbytes} bytes are not a whole number of positions along axis {axis}, which need {per} bytes each"
            ))),
        },
        Amount::Shape(own) if *own == others => Ok(SourceExtent::NoAxis),
        Amount::Shape(own) => match own.get(axis) {
            Some(&length)
                if own.len() == shape.len()
                    && own[..axis] == others[..axis]
                    && own[axis + 1..] == others[axis..] =>
            {
                Ok(SourceExtent::Axis(length))
            }
            _ => Err(NdError::argument(format!(
                "items of shape {own:?} do not fit an array of shape {shape:?} along axis {axis}"
            ))),
        },
    }
}

/// Fails if a source has another number of items than `shape`.
pub(crate) fn check_amount(amount: &Amount, shape: &[u64], itemsize: usize) -> Result<(), NdError> {
    match amount {
        Amount::Endless => Ok(()),
        Amount::Bytes(nbytes) => {
            let need = product(shape.iter().copied()).saturating_mul(itemsize as u64);
            check_len(usize::try_from(*nbytes).unwrap_or(usize::MAX), need)
        }
        Amount::Length(length) if Some(length) == shape.first() => Ok(()),
        Amount::Shape(own) if own == shape => Ok(()),
        other => Err(NdError::argument(format!("items of {other:?} do not fit the shape {shape:?}"))),
    }
}

/// Converts the error of a source. An `NdError` about the arguments of the call is returned unchanged.
pub(crate) fn failed(error: io::Error) -> NdError {
    match error.downcast::<NdError>() {
        Ok(NdError::Frame(e)) => NdError::Source(io::Error::other(NdError::Frame(e))),
        Ok(NdError::Chunk(e)) => NdError::Source(io::Error::other(NdError::Chunk(e))),
        Ok(error) => error,
        Err(error) => NdError::Source(error),
    }
}

/// Returns whether the values are bytes, which represent stored items of any dtype.
pub(crate) fn is_bytes<T: Element>() -> bool {
    TypeId::of::<T>() == TypeId::of::<u8>()
}

/// Returns values as stored bytes of `dtype`, if they have the same form in memory.
fn stored<'a, T: Element>(items: &'a [T], dtype: &Dtype) -> io::Result<Option<&'a [u8]>> {
    if is_bytes::<T>() {
        return Ok(T::as_le_bytes(items));
    }
    let big_endian = byte_order::<T>(dtype).map_err(io::Error::other)?;
    Ok(if big_endian { None } else { T::as_le_bytes(items) })
}

/// Writes values as stored bytes of `dtype`.
pub(crate) fn encode<T: Element>(
    items: impl IntoIterator<Item = T>,
    dtype: &Dtype,
    dst: &mut [u8],
) -> Result<(), NdError> {
    let big_endian = byte_order::<T>(dtype)?;
    for (item, out) in items.into_iter().zip(dst.chunks_exact_mut(T::ITEMSIZE)) {
        item.write_le(out);
    }
    if big_endian {
        dst.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
    }
    Ok(())
}

/// Reads the items of a whole region into memory.
pub(crate) fn read_whole(source: &mut dyn RegionSource, region: &Region<'_>) -> Result<Vec<u8>, NdError> {
    let mut items = buffer(region.whole_nbytes())?;
    if !items.is_empty() {
        source.read_region(region, &mut items).map_err(failed)?;
    }
    Ok(items)
}

/// Copies a region from a buffer that holds all items in C order.
pub(crate) fn copy_region(src: &[u8], region: &Region<'_>, dst: &mut [u8]) {
    let itemsize = region.itemsize();
    let src_strides = strides(region.whole.iter().map(|&n| n as usize), itemsize);
    let dst_strides = strides(region.shape.iter().map(|&n| n as usize), itemsize);
    let counts: Vec<usize> = region.shape.iter().map(|&n| n as usize).collect();
    copy_box(
        &counts,
        itemsize,
        (src, place(region.start, &src_strides), &src_strides),
        (dst, 0, &dst_strides),
    );
}

/// Returns the error of a source that does not fit the array. The call that reads the source gives it as
/// [`NdError::Argument`].
pub(crate) fn invalid<T>(what: String) -> io::Result<T> {
    Err(io::Error::other(NdError::argument(what)))
}
