//! Where the items of a new array come from.

use std::io;

use b2_chunk::{Chunk, SpecialKind};

use crate::copy::copy_box;
use crate::geometry::strides;
use crate::view::buffer;
use crate::{Geometry, NdArray, NdError, Slice};

/// Where the items of a new array come from.
///
/// Implemented for byte slices that hold all items in C order, for arrays and views of them (which copies,
/// and cuts into other chunks, in bounded memory), for constants ([`Fill`](crate::Fill)), closures
/// ([`ByIndex`](crate::ByIndex), [`ByPosition`](crate::ByPosition), [`FromFn`](crate::FromFn)) and iterators
/// ([`Items`](crate::Items)). A file reader can implement it to write arrays larger than memory.
pub trait RegionSource {
    /// Reads the box of items that starts at `start` and has `shape`, in C order, into all of `dst`.
    ///
    /// `geometry` is that of the new array. Boxes are asked for in the order of the chunks and cover each item
    /// once, but for chunks that [`chunk`](Self::chunk) has answered.
    ///
    /// # Errors
    /// When the items cannot be read.
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()>;

    /// The same box where it lies in memory, if the source has it there: it is then not read. What is answered
    /// for a box is asked for once.
    fn region(&self, _geometry: &Geometry, _start: &[u64], _shape: &[u64]) -> Option<Region<'_>> {
        None
    }

    /// What makes up chunk `nchunk` of the new array, where items need not be compressed for it.
    ///
    /// # Errors
    /// When it cannot be had.
    fn chunk(&mut self, _geometry: &Geometry, _nchunk: u64) -> io::Result<ChunkContent> {
        Ok(ChunkContent::Items)
    }
}

/// A box of items in memory.
#[derive(Clone, Debug)]
pub struct Region<'a> {
    bytes: &'a [u8],
    offset: usize,
    strides: Vec<isize>,
}

impl<'a> Region<'a> {
    /// The items of a box of `shape` in `bytes`: `offset` is that of the first one, `strides` are the distances
    /// between neighbours along each dimension, in bytes.
    ///
    /// # Errors
    /// When the items are not all inside.
    pub fn new(
        bytes: &'a [u8],
        shape: &[u64],
        itemsize: usize,
        offset: usize,
        strides: impl Into<Vec<usize>>,
    ) -> Result<Self, NdError> {
        let strides: Vec<usize> = strides.into();
        let last = shape.iter().zip(&strides).try_fold(offset as u128, |at, (&len, &stride)| {
            // Below 2^128: there are at most 16 dimensions, and each product is below 2^127.
            at.checked_add(u128::from(len.saturating_sub(1)).checked_mul(stride as u128)?)
        });
        let inside = shape.contains(&0)
            || last.is_some_and(|last| last.saturating_add(itemsize as u128) <= bytes.len() as u128);
        if !inside || strides.len() != shape.len() || isize::try_from(offset).is_err() {
            return Err(NdError::geometry("the items of a region are not inside its memory"));
        }
        // Strides that matter are shorter than the memory.
        let strides = strides.into_iter().map(|stride| stride as isize).collect();
        Ok(Self { bytes, offset, strides })
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

/// What a chunk of a new array is made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChunkContent {
    /// Items, to be read and compressed.
    Items,
    /// Zeros, NaNs or uninitialised items: only the frame's index tells.
    Special(SpecialKind),
    /// A chunk that is compressed already, cut into blocks as the new array is.
    Chunk(Chunk),
}

/// All items in C order.
impl RegionSource for &[u8] {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()> {
        if self.len() as u64 != geometry.nbytes() {
            return invalid(format!("{} bytes, the array has {}", self.len(), geometry.nbytes()));
        }
        copy_region(self, geometry.shape(), start, shape, geometry.itemsize(), dst);
        Ok(())
    }

    fn region(&self, geometry: &Geometry, start: &[u64], shape: &[u64]) -> Option<Region<'_>> {
        if self.len() as u64 != geometry.nbytes() {
            return None;
        }
        let strides = strides(geometry.shape().iter().map(|&n| n as usize), geometry.itemsize());
        let strides: Vec<usize> = strides.into_iter().map(|stride| stride as usize).collect();
        let offset = start.iter().zip(&strides).map(|(&at, &stride)| at as usize * stride).sum();
        Region::new(self, shape, geometry.itemsize(), offset, strides).ok()
    }
}

/// Items are decoded and compressed anew; [`Concat`](crate::Concat) copies chunks as they are.
impl RegionSource for Slice<'_> {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()> {
        if self.shape() != geometry.shape() || self.dtype().itemsize() != geometry.itemsize() {
            let itemsize = self.dtype().itemsize();
            return invalid(format!("the source has shape {:?} and items of {itemsize} bytes", self.shape()));
        }
        let nd = self.own_shape().len();
        let (inner_start, inner_shape) = (&start[nd..], &shape[nd..]);
        let view = self.boxed(&start[..nd], &shape[..nd]).map_err(io::Error::other)?;
        if *inner_shape == geometry.shape()[nd..] {
            return view.read_to_keep(dst).map_err(io::Error::other);
        }
        // A part of a field's sub-array: whole ones are read first.
        view.array().check_result(view.nbytes()).map_err(io::Error::other)?;
        let mut whole = buffer(view.nbytes()).map_err(io::Error::other)?;
        view.read_to_keep(&mut whole).map_err(io::Error::other)?;
        let from = [&vec![0; nd], inner_start].concat();
        copy_region(&whole, &view.shape(), &from, shape, geometry.itemsize(), dst);
        Ok(())
    }
}

/// As its [`all`](NdArray::all).
impl RegionSource for &NdArray {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> io::Result<()> {
        self.all().read_region(geometry, start, shape, dst)
    }
}

/// Copies a box out of a buffer with all items of `whole` in C order.
pub(crate) fn copy_region(
    src: &[u8],
    whole: &[u64],
    start: &[u64],
    shape: &[u64],
    itemsize: usize,
    dst: &mut [u8],
) {
    let src_strides = strides(whole.iter().map(|&n| n as usize), itemsize);
    let dst_strides = strides(shape.iter().map(|&n| n as usize), itemsize);
    let counts: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    let offset: isize = start.iter().zip(&src_strides).map(|(&at, &stride)| at as isize * stride).sum();
    copy_box(&counts, itemsize, (src, offset as usize, &src_strides), (dst, 0, &dst_strides));
}

pub(crate) fn invalid<T>(what: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
