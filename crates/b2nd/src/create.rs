//! Sources of items that are computed: constants, functions of the position, iterators.

use std::io;

use b2_chunk::{Chunk, SpecialKind, memory};

use crate::element::encode;
use crate::geometry::{product, strides};
use crate::source::{ChunkContent, RegionSource, copy_region, invalid};
use crate::{Dtype, DtypeKind, Element, Geometry, NdError};

/// One value for all items. Nothing is compressed: such a chunk takes no space, or that of one item.
///
/// ```
/// use b2nd::{ArrayBuilder, Fill, NdArray};
///
/// let frame = ArrayBuilder::of::<f64>([1000, 1000, 1000]).to_memory(&mut Fill::zeros())?;
/// assert!(frame.len() < 400);
/// let frame = ArrayBuilder::of::<i16>([10]).to_memory(&mut Fill::value(-7i16))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<i16>()?, [-7; 10]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fill(Value);

#[derive(Clone, Debug)]
enum Value {
    Special(SpecialKind),
    Item(Vec<u8>),
}

impl Fill {
    /// Zeros.
    pub fn zeros() -> Self {
        Self(Value::Special(SpecialKind::Zeros))
    }

    /// Items whose value does not matter; they read as zeros.
    pub fn uninit() -> Self {
        Self(Value::Special(SpecialKind::Uninit))
    }

    /// NaNs, for floating-point and complex items.
    ///
    /// # Errors
    /// When items of `dtype` have no NaN.
    pub fn nans(dtype: &Dtype) -> Result<Self, NdError> {
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
            return Ok(Self(Value::Special(SpecialKind::NaN)));
        }
        let mut item = nan.repeat(dtype.itemsize() / width);
        if big_endian {
            item.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        Ok(Self(Value::Item(item)))
    }

    /// A value, little-endian.
    pub fn value<T: Element>(value: T) -> Self {
        let mut item = vec![0; T::ITEMSIZE];
        value.write_le(&mut item);
        Self::item(item)
    }

    /// The bytes of one item, as stored.
    pub fn item(item: impl Into<Vec<u8>>) -> Self {
        let item = item.into();
        match item.iter().all(|&b| b == 0) {
            true => Self::zeros(),
            false => Self(Value::Item(item)),
        }
    }

    /// The bytes of one item; empty for zeros.
    pub(crate) fn bytes(&self, itemsize: usize) -> io::Result<&[u8]> {
        match &self.0 {
            Value::Special(SpecialKind::NaN) if itemsize == 4 => Ok(&[0x00, 0x00, 0xC0, 0x7F]),
            Value::Special(SpecialKind::NaN) if itemsize == 8 => Ok(&[0, 0, 0, 0, 0, 0, 0xF8, 0x7F]),
            Value::Special(SpecialKind::NaN) => invalid(format!("no NaN of {itemsize} bytes")),
            Value::Special(_) => Ok(&[]),
            Value::Item(item) if item.len() == itemsize => Ok(item),
            Value::Item(item) => invalid(format!("a value of {} bytes, items have {itemsize}", item.len())),
        }
    }
}

impl RegionSource for Fill {
    fn read_region(&mut self, g: &Geometry, _: &[u64], _: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let item = self.bytes(g.itemsize())?;
        match item {
            [] => dst.fill(0),
            item => dst.chunks_exact_mut(item.len()).for_each(|to| to.copy_from_slice(item)),
        }
        Ok(())
    }

    fn chunk(&mut self, g: &Geometry, _: u64) -> io::Result<ChunkContent> {
        match (self.bytes(g.itemsize())?, &self.0) {
            (_, Value::Special(kind)) => Ok(ChunkContent::Special(*kind)),
            // Chunk headers have one byte for the width of a value.
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

/// Items from their number in C order.
///
/// ```
/// # use b2nd::{ArrayBuilder, ByIndex, NdArray};
/// let frame = ArrayBuilder::of::<u32>([2, 3]).to_memory(&mut ByIndex(|i| i as u32 * i as u32))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<u32>()?, [0, 1, 4, 9, 16, 25]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ByIndex<F>(pub F);

impl<T: Element, F: FnMut(u64) -> T> RegionSource for ByIndex<F> {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let f = &mut self.0;
        compute(g, start, shape, dst, |_, index| f(index))
    }
}

/// Items from their position.
///
/// ```
/// # use b2nd::{ArrayBuilder, ByPosition, NdArray};
/// let mut identity = ByPosition(|at: &[u64]| if at[0] == at[1] { 1.0f32 } else { 0.0 });
/// let frame = ArrayBuilder::of::<f32>([2, 2]).to_memory(&mut identity)?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ByPosition<F>(pub F);

impl<T: Element, F: FnMut(&[u64]) -> T> RegionSource for ByPosition<F> {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let f = &mut self.0;
        compute(g, start, shape, dst, |at, _| f(at))
    }
}

/// Boxes of items, filled by a function: it gets start and shape of a box and the bytes to fill, in C order.
/// A box is that of a chunk, or of several neighbours at once.
///
/// ```
/// # use b2nd::{ArrayBuilder, FromFn, NdArray};
/// let mut rows = FromFn(|start: &[u64], shape: &[u64], dst: &mut [u8]| {
///     for (row, items) in (start[0]..).zip(dst.chunks_mut(shape[1] as usize)) {
///         items.fill(row as u8);
///     }
///     Ok(())
/// });
/// let frame = ArrayBuilder::of::<u8>([2, 3]).to_memory(&mut rows)?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().read()?, [0, 0, 0, 1, 1, 1]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FromFn<F>(pub F);

impl<F: FnMut(&[u64], &[u64], &mut [u8]) -> io::Result<()>> RegionSource for FromFn<F> {
    fn read_region(&mut self, _: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        (self.0)(start, shape, dst)
    }
}

/// Numbers that [`Arange`] counts with.
pub trait Number: Element {
    /// `start + index * step`; integers wrap around.
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

/// Numbers at equal distances, in C order: `start + i * step`.
///
/// ```
/// # use b2nd::{Arange, ArrayBuilder, NdArray};
/// let frame = ArrayBuilder::of::<i32>([2, 2]).to_memory(&mut Arange { start: 10, step: -3 })?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<i32>()?, [10, 7, 4, 1]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Arange<T> {
    /// The first one.
    pub start: T,
    /// From one to the next.
    pub step: T,
}

impl<T: Number> RegionSource for Arange<T> {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        compute(g, start, shape, dst, |_, index| T::nth(self.start, self.step, index))
    }
}

/// Numbers at equal distances from `start` to `stop`, both included, in C order.
///
/// ```
/// # use b2nd::{ArrayBuilder, Linspace, NdArray};
/// let frame = ArrayBuilder::of::<f64>([5]).to_memory(&mut Linspace { start: 0.0, stop: 1.0 })?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<f64>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Linspace {
    /// The first one.
    pub start: f64,
    /// The last one.
    pub stop: f64,
}

impl RegionSource for Linspace {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let last = g.nitems().saturating_sub(1);
        let step = (self.stop - self.start) / last.max(1) as f64;
        compute(g, start, shape, dst, |_, index| match index {
            // Exactly, whatever the step was rounded to.
            _ if index == last && last > 0 => self.stop,
            index => self.start + step * index as f64,
        })
    }
}

/// Items of an iterator, in C order.
///
/// Chunks are not in C order of items, so all items along a chunk's length in the first dimension are kept in
/// memory. Surplus items are left in the iterator.
///
/// ```
/// # use b2nd::{ArrayBuilder, Items, NdArray};
/// let squares = (0..6u16).map(|i| i * i);
/// let frame = ArrayBuilder::of::<u16>([3, 2]).chunkshape([2, 1]).to_memory(&mut Items::new(squares))?;
/// assert_eq!(NdArray::from_bytes(frame)?.all().to_vec::<u16>()?, [0, 1, 4, 9, 16, 25]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Items<I> {
    items: I,
    /// The rows taken last: first one, how many, their bytes.
    start: u64,
    len: u64,
    rows: Vec<u8>,
}

impl<I: Iterator<Item: Element>> Items<I> {
    /// Takes the items from an iterator.
    pub fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self { items: items.into_iter(), start: 0, len: 0, rows: Vec::new() }
    }
}

impl<I: Iterator<Item: Element>> RegionSource for Items<I> {
    fn read_region(&mut self, g: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        check_itemsize::<I::Item>(g)?;
        let (first, count) = (start.first().copied().unwrap_or(0), shape.first().copied().unwrap_or(1));
        if (first, count) != (self.start, self.len) {
            if first != self.start + self.len {
                return invalid(format!("items of row {first} are asked for out of order"));
            }
            let per_row = product(g.shape().iter().skip(1).copied()) as usize;
            let len = count as usize * per_row * g.itemsize();
            let more = len.saturating_sub(self.rows.len());
            memory::reserve(&mut self.rows, more).map_err(io::Error::other)?;
            self.rows.resize(len, 0);
            let mut items = self.rows.chunks_exact_mut(g.itemsize());
            for to in &mut items {
                let Some(item) = self.items.next() else {
                    return invalid("the iterator ends before the array".into());
                };
                item.write_le(to);
            }
            (self.start, self.len) = (first, count);
        }
        let (mut whole, mut from) = (g.shape().to_vec(), start.to_vec());
        if let (Some(rows), Some(first)) = (whole.first_mut(), from.first_mut()) {
            (*rows, *first) = (count, 0);
        }
        copy_region(&self.rows, &whole, &from, shape, g.itemsize(), dst);
        Ok(())
    }
}

fn check_itemsize<T: Element>(geometry: &Geometry) -> io::Result<()> {
    match geometry.itemsize() {
        itemsize if itemsize == T::ITEMSIZE => Ok(()),
        itemsize => invalid(format!("elements of type {}, the array's items have {itemsize} bytes", T::NAME)),
    }
}

/// Fills a box with items computed from their position and number.
fn compute<T: Element>(
    geometry: &Geometry,
    start: &[u64],
    shape: &[u64],
    dst: &mut [u8],
    mut item: impl FnMut(&[u64], u64) -> T,
) -> io::Result<()> {
    check_itemsize::<T>(geometry)?;
    let steps = strides(geometry.shape().iter().map(|&n| n as usize), 1);
    let mut at = start.to_vec();
    let mut index: u64 = at.iter().zip(&steps).map(|(&at, &step)| at * step as u64).sum();
    let items = std::iter::from_fn(|| {
        let value = item(&at, index);
        // The next position in the box, as an odometer.
        for dim in (0..at.len()).rev() {
            at[dim] += 1;
            index = index.wrapping_add(steps[dim] as u64);
            if at[dim] < start[dim] + shape[dim] {
                break;
            }
            index = index.wrapping_sub(steps[dim] as u64 * shape[dim]);
            at[dim] = start[dim];
        }
        Some(value)
    });
    encode(items, geometry.itemsize(), dst);
    Ok(())
}
