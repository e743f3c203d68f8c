//! Sources of items for new arrays and for changes: constants, functions of the position, iterators, readers.
//!
//! Values, arrays and views are sources themselves ([`RegionSource`]); these functions create other sources.
//!
//! ```
//! use b2nd::{ArrayBuilder, NdArray, source};
//!
//! let read = |frame| NdArray::from_bytes(frame)?.all().read::<Vec<i32>>();
//! let array = ArrayBuilder::new::<i32>([2, 2]);
//! assert_eq!(read(array.to_bytes(source::zeros())?)?, [0; 4]);
//! assert_eq!(read(array.to_bytes(source::value(-7))?)?, [-7; 4]);
//! assert_eq!(read(array.to_bytes(source::arange(10, -3))?)?, [10, 7, 4, 1]);
//! assert_eq!(read(array.to_bytes(source::items([4, 3, 2, 1]))?)?, [4, 3, 2, 1]);
//! # Ok::<(), b2nd::NdError>(())
//! ```

use std::io;

use b2_chunk::{Chunk, SpecialKind};
use b2_core::memory;

use crate::model::element::byte_order;
use crate::model::geometry::{product, strides};
use crate::write::source::{ChunkContent, Region, RegionSource, copy_region, encode, invalid, is_bytes};
use crate::{Dtype, DtypeKind, Element, Geometry, NdError};

/// A constant, made by [`zeros`], [`uninit`], [`nans`], [`value()`] and [`item`]. Its chunks are special chunks, which store
/// at most one item, so nothing is compressed.
#[derive(Clone, Debug)]
pub struct Fill(Value);

#[derive(Clone, Debug)]
enum Value {
    Special(SpecialKind),
    Item(Vec<u8>),
}

/// Returns a source of zeros.
pub fn zeros() -> Fill {
    Fill(Value::Special(SpecialKind::Zeros))
}

/// Returns a source of items whose value does not matter. They read as zeros.
pub fn uninit() -> Fill {
    Fill(Value::Special(SpecialKind::Uninit))
}

/// Returns a source of NaNs, for floating-point and complex items.
///
/// # Errors
/// [`NdError::Element`] when `dtype` has no NaN.
pub fn nans(dtype: &Dtype) -> Result<Fill, NdError> {
    let fail = || Err(NdError::Element { dtype: dtype.to_string(), asked: "a number with a NaN" });
    let DtypeKind::Simple { code: code @ ('f' | 'c'), big_endian } = *dtype.kind() else {
        return fail();
    };
    let width = if code == 'c' { dtype.itemsize() / 2 } else { dtype.itemsize() };
    let nan: &[u8] = match width {
        2 => &[0x00, 0x7E],
        4 => &[0x00, 0x00, 0xC0, 0x7F],
        8 => &[0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xF8, 0x7F],
        _ => return fail(),
    };
    if code == 'f' && width > 2 && !big_endian {
        return Ok(Fill(Value::Special(SpecialKind::NaN)));
    }
    let mut item = nan.repeat(dtype.itemsize() / width);
    if big_endian {
        item.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Ok(Fill(Value::Item(item)))
}

/// Returns a source that repeats `value`, stored as little-endian.
pub fn value<T: Element>(value: T) -> Fill {
    let mut item = vec![0; T::ITEMSIZE];
    value.write_le(&mut item);
    self::item(item)
}

/// Returns a source that repeats an item, given by its stored bytes.
pub fn item(item: impl Into<Vec<u8>>) -> Fill {
    Fill(Value::Item(item.into()))
}

impl Fill {
    /// Returns the bytes of one item, or nothing for zeros.
    fn bytes(&self, itemsize: usize) -> io::Result<&[u8]> {
        match &self.0 {
            Value::Special(SpecialKind::NaN) if itemsize == 4 => Ok(&[0x00, 0x00, 0xC0, 0x7F]),
            Value::Special(SpecialKind::NaN) if itemsize == 8 => Ok(&[0, 0, 0, 0, 0, 0, 0xF8, 0x7F]),
            Value::Special(SpecialKind::NaN) => invalid(format!("items of {itemsize} bytes have no NaN")),
            Value::Special(_) => Ok(&[]),
            Value::Item(item) if item.len() == itemsize => {
                Ok(if item.iter().all(|&b| b == 0) { &[] } else { item })
            }
            Value::Item(item) => {
                invalid(format!("the value has {} bytes, but items have {itemsize}", item.len()))
            }
        }
    }
}

impl RegionSource for Fill {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let item = self.bytes(region.itemsize())?;
        match item {
            [] => dst.fill(0),
            item => dst.chunks_exact_mut(item.len()).for_each(|to| to.copy_from_slice(item)),
        }
        Ok(())
    }

    fn constant(&self, itemsize: usize) -> Option<io::Result<Vec<u8>>> {
        Some(self.bytes(itemsize).map(|item| match item {
            [] => vec![0; itemsize],
            item => item.to_vec(),
        }))
    }

    fn chunk(&mut self, g: &Geometry, _: u64) -> io::Result<ChunkContent> {
        match (self.bytes(g.itemsize())?, &self.0) {
            (_, Value::Special(kind)) => Ok(ChunkContent::Special(*kind)),
            ([], Value::Item(_)) => Ok(ChunkContent::Special(SpecialKind::Zeros)),
            // The chunk header has one byte for the width of a value.
            (item, Value::Item(_)) if item.len() > 255 => Ok(ChunkContent::Items),
            (item, Value::Item(_)) => {
                let chunk = Chunk::special(
                    SpecialKind::Value,
                    item,
                    g.chunk_nbytes(),
                    g.itemsize(),
                    g.block_nbytes(),
                );
                chunk.map(ChunkContent::Chunk).map_err(io::Error::other)
            }
        }
    }
}

/// Returns a source of items computed from their index in C order.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let frame = ArrayBuilder::new::<u32>([2, 3]).to_bytes(source::by_index(|i| i as u32 * i as u32))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<u32>>()?, [0, 1, 4, 9, 16, 25]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn by_index<T: Element, F: FnMut(u64) -> T>(item: F) -> impl RegionSource {
    ByIndex(item)
}

struct ByIndex<F>(F);

impl<T: Element, F: FnMut(u64) -> T> RegionSource for ByIndex<F> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let f = &mut self.0;
        compute(region, dst, |_, index| f(index))
    }
}

/// Returns a source of items computed from their position.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let identity = source::by_position(|at: &[u64]| if at[0] == at[1] { 1.0f32 } else { 0.0 });
/// let frame = ArrayBuilder::new::<f32>([2, 2]).to_bytes(identity)?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<f32>>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn by_position<T: Element, F: FnMut(&[u64]) -> T>(item: F) -> impl RegionSource {
    ByPosition(item)
}

struct ByPosition<F>(F);

impl<T: Element, F: FnMut(&[u64]) -> T> RegionSource for ByPosition<F> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let f = &mut self.0;
        compute(region, dst, |at, _| f(at))
    }
}

/// Returns a source that fills regions by calling a function with the region and the values to fill, in C order. A region
/// is the box of one chunk, or of several adjacent ones. If the items are not bytes, a function of `u8` fills in their
/// stored bytes.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let rows = source::from_fn(|region, out: &mut [u16]| {
///     for (row, items) in (region.start()[0]..).zip(out.chunks_mut(region.shape()[1] as usize)) {
///         items.fill(row as u16);
///     }
///     Ok(())
/// });
/// let frame = ArrayBuilder::new::<u16>([2, 3]).to_bytes(rows)?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<u16>>()?, [0, 0, 0, 1, 1, 1]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn from_fn<T: Element, F: FnMut(&Region<'_>, &mut [T]) -> io::Result<()>>(fill: F) -> impl RegionSource {
    FromFn { fill, values: Vec::new() }
}

struct FromFn<T, F> {
    fill: F,
    /// Buffer for values that cannot be written in place.
    values: Vec<T>,
}

impl<T: Element, F: FnMut(&Region<'_>, &mut [T]) -> io::Result<()>> RegionSource for FromFn<T, F> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let raw = is_bytes::<T>();
        let swapped = !raw && byte_order::<T>(region.dtype()).map_err(io::Error::other)?;
        if !swapped && let Some(values) = T::as_values_mut(dst) {
            return (self.fill)(region, values);
        }
        let len = dst.len() / T::ITEMSIZE;
        let more = len.saturating_sub(self.values.len());
        memory::reserve(&mut self.values, more).map_err(NdError::from).map_err(io::Error::other)?;
        self.values.resize(len, T::read_le(&vec![0; T::ITEMSIZE]));
        (self.fill)(region, &mut self.values)?;
        encode(self.values.iter().copied(), region.dtype(), dst).map_err(io::Error::other)
    }
}

/// A number type that [`arange`] can count with.
pub trait Number: Element {
    /// Returns `start + index * step`. Integers wrap around.
    fn nth(start: Self, step: Self, index: u64) -> Self;
}

macro_rules! numbers {
    ($($int:ident)* ; $($float:ident)*) => {
        $(impl Number for $int {
            fn nth(start: Self, step: Self, index: u64) -> Self {
                start.wrapping_add(step.wrapping_mul(index as Self))
            }
        })*
        $(impl Number for $float {
            fn nth(start: Self, step: Self, index: u64) -> Self {
                start + step * index as Self
            }
        })*
    };
}
numbers! { i8 i16 i32 i64 u8 u16 u32 u64; f32 f64 }

/// Returns a source of equally spaced numbers in C order: `start + i * step`. Integers wrap around.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let frame = ArrayBuilder::new::<i32>([2, 2]).to_bytes(source::arange(10, -3))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<i32>>()?, [10, 7, 4, 1]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn arange<T: Number>(start: T, step: T) -> impl RegionSource {
    Arange { start, step }
}

struct Arange<T> {
    start: T,
    step: T,
}

impl<T: Number> RegionSource for Arange<T> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        compute(region, dst, |_, index| T::nth(self.start, self.step, index))
    }
}

/// Returns a source of equally spaced numbers from `start` to `stop`, both included, in C order.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let frame = ArrayBuilder::new::<f64>([5]).to_bytes(source::linspace(0.0, 1.0))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<f64>>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn linspace(start: f64, stop: f64) -> impl RegionSource {
    Linspace { start, stop }
}

struct Linspace {
    start: f64,
    stop: f64,
}

impl RegionSource for Linspace {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let last = product(region.whole().iter().copied()).saturating_sub(1);
        let step = (self.stop - self.start) / last.max(1) as f64;
        compute(region, dst, |_, index| match index {
            // The last item is exact, however the step was rounded.
            _ if index == last && last > 0 => self.stop,
            index => self.start + step * index as f64,
        })
    }
}

/// Returns a source of the items of an iterator, in C order.
///
/// Chunks do not follow the C order of items, so a slab as thick as one chunk along the first
/// dimension is kept in memory. Surplus items are left in the iterator.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let squares = (0..6u16).map(|i| i * i);
/// let frame = ArrayBuilder::new::<u16>([3, 2]).chunks([2, 1]).to_bytes(source::items(squares))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<u16>>()?, [0, 1, 4, 9, 16, 25]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn items<I: IntoIterator<Item: Element>>(items: I) -> impl RegionSource {
    Items { items: items.into_iter(), rows: Rows::default() }
}

struct Items<I> {
    items: I,
    rows: Rows,
}

impl<I: Iterator<Item: Element>> RegionSource for Items<I> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let big_endian = byte_order::<I::Item>(region.dtype()).map_err(io::Error::other)?;
        let items = &mut self.items;
        self.rows.read(region, dst, |rows| {
            for to in rows.chunks_exact_mut(region.itemsize()) {
                let Some(item) = items.next() else {
                    return invalid("the iterator has fewer items than the array".into());
                };
                item.write_le(to);
            }
            if big_endian {
                rows.chunks_exact_mut(I::Item::WORD).for_each(<[u8]>::reverse);
            }
            Ok(())
        })
    }
}

/// Returns a source of the stored bytes of items in C order, from a reader such as a file, a pipe or a decompressor.
///
/// Chunks do not follow the C order of items, so a slab as thick as one chunk along the first
/// dimension is kept in memory. Surplus bytes are left in the reader.
///
/// ```
/// # use b2nd::{ArrayBuilder, NdArray, source};
/// let reader = std::io::Cursor::new([1, 0, 2, 0, 3, 0, 4, 0]);
/// let frame = ArrayBuilder::new::<u16>([2, 2]).to_bytes(source::reader(reader))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read::<Vec<u16>>()?, [1, 2, 3, 4]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
pub fn reader<R: io::Read>(reader: R) -> impl RegionSource {
    FromReader { reader, rows: Rows::default() }
}

struct FromReader<R> {
    reader: R,
    rows: Rows,
}

impl<R: io::Read> RegionSource for FromReader<R> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.rows.read(region, dst, |rows| self.reader.read_exact(rows))
    }
}

/// The rows last taken from a sequential source.
#[derive(Default)]
struct Rows {
    start: u64,
    len: u64,
    items: Vec<u8>,
}

impl Rows {
    /// Reads a region. `take` fills in the next rows of the source.
    fn read(
        &mut self,
        region: &Region<'_>,
        dst: &mut [u8],
        take: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (start, shape, whole) = (region.start(), region.shape(), region.whole());
        let (first, count) = (start.first().copied().unwrap_or(0), shape.first().copied().unwrap_or(1));
        let next = self.start + self.len;
        // Whole rows are read straight to their destination.
        if first == next && shape.get(1..) == whole.get(1..) {
            take(dst)?;
            (self.start, self.len) = (first + count, 0);
            return Ok(());
        }
        if (first, count) != (self.start, self.len) {
            if first != next {
                return invalid(format!("items of row {first} were requested out of order"));
            }
            let per_row = product(whole.iter().skip(1).copied()).saturating_mul(region.itemsize() as u64);
            let len = usize::try_from(count.saturating_mul(per_row)).unwrap_or(usize::MAX);
            take(memory::sized(&mut self.items, len).map_err(NdError::from).map_err(io::Error::other)?)?;
            (self.start, self.len) = (first, count);
        }
        let (mut whole, mut from) = (whole.to_vec(), start.to_vec());
        if let (Some(rows), Some(first)) = (whole.first_mut(), from.first_mut()) {
            (*rows, *first) = (count, 0);
        }
        copy_region(&self.items, &Region { whole: &whole, start: &from, ..*region }, dst);
        Ok(())
    }
}

/// Fills a region with items computed from their position and index.
fn compute<T: Element>(
    region: &Region<'_>,
    dst: &mut [u8],
    mut item: impl FnMut(&[u64], u64) -> T,
) -> io::Result<()> {
    let big_endian = byte_order::<T>(region.dtype()).map_err(io::Error::other)?;
    let (start, shape) = (region.start(), region.shape());
    let steps = strides(region.whole().iter().map(|&n| n as usize), 1);
    let mut at = start.to_vec();
    let mut index: u64 = at.iter().zip(&steps).map(|(&at, &step)| at * step as u64).sum();
    for to in dst.chunks_exact_mut(T::ITEMSIZE) {
        item(&at, index).write_le(to);
        // Advance to the next position of the box, like an odometer.
        for dim in (0..at.len()).rev() {
            at[dim] += 1;
            index = index.wrapping_add(steps[dim] as u64);
            if at[dim] < start[dim] + shape[dim] {
                break;
            }
            index = index.wrapping_sub(steps[dim] as u64 * shape[dim]);
            at[dim] = start[dim];
        }
    }
    if big_endian {
        dst.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
    }
    Ok(())
}
