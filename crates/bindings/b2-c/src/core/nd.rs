//! Shapes of arrays, positions of items in chunks, and copies of boxes between buffers.
//!
//! A chunk holds its blocks one after the other, and a block its items, both in C order. Chunks at the edges have all their
//! blocks, and blocks at the edges all their items.

use std::ops::Range;

use crate::abi::{MAX_DIM, code};
use crate::core::error::{Error, Result, ensure};

/// The shape of an array, of its chunks and of its blocks, in items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    pub(crate) shape: Vec<i64>,
    pub(crate) chunk: Vec<i32>,
    pub(crate) block: Vec<i32>,
}

/// A dtype in NumPy's notation, and its format.
pub(crate) type DtypeText = (Vec<u8>, i8);

/// Rounds up to a multiple of `part`; 0 if `part` is 0.
fn padded(len: i64, part: i64) -> i64 {
    if part == 0 { 0 } else { (len / part + i64::from(len % part != 0)).saturating_mul(part) }
}

/// Returns the strides in items.
pub(crate) fn strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

fn product(shape: &[i64]) -> Result<i64> {
    shape.iter().try_fold(1_i64, |product, len| product.checked_mul(*len)).ok_or(Error(code::INVALID_PARAM))
}

/// Returns the index along each dimension of the i-th item.
pub(crate) fn index_of(shape: &[i64], i: i64) -> Vec<i64> {
    let mut rest = i;
    let mut index: Vec<i64> = shape
        .iter()
        .rev()
        .map(|len| {
            let at = rest.checked_rem(*len).unwrap_or(0);
            rest = rest.checked_div(*len).unwrap_or(0);
            at
        })
        .collect();
    index.reverse();
    index
}

impl Shapes {
    /// Checks the shapes of an array.
    ///
    /// # Errors
    /// `INVALID_PARAM` for inconsistent lengths, or lengths too large for chunks.
    pub(crate) fn new(shape: &[i64], chunk: &[i32], block: &[i32], itemsize: i64) -> Result<Self> {
        let this = Self::resizable(shape, chunk, block, itemsize)?;
        this.check()?;
        Ok(this)
    }

    /// Fails if there are items but no chunks for them.
    pub(crate) fn check(&self) -> Result<()> {
        let has_items = self.shape.iter().all(|len| *len > 0);
        let has_chunks = self.chunk.iter().chain(&self.block).all(|len| *len > 0);
        ensure(has_chunks || !has_items, code::INVALID_PARAM)
    }

    /// Checks shapes of which the array shape may still change.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn resizable(shape: &[i64], chunk: &[i32], block: &[i32], itemsize: i64) -> Result<Self> {
        let (n, invalid) = (shape.len(), code::INVALID_PARAM);
        ensure(n <= MAX_DIM && chunk.len() == n && block.len() == n, invalid)?;
        for axis in 0..n {
            let (len, chunk, block) = (shape[axis], chunk[axis], block[axis]);
            ensure(len >= 0 && chunk >= 0 && block >= 0, invalid)?;
            ensure(len == 0 || chunk == 0 || block > 0, invalid)?;
        }
        let this = Self { shape: shape.to_vec(), chunk: chunk.to_vec(), block: block.to_vec() };
        product(&this.ext())?.checked_mul(itemsize).ok_or(Error(invalid))?;
        for lens in [this.chunk64(), this.block64()] {
            ensure(product(&lens)? <= i64::from(i32::MAX), invalid)?;
        }
        // Too large chunks are an error when they are created.
        product(&this.ext_chunk())?.checked_mul(itemsize).ok_or(Error(invalid))?;
        Ok(this)
    }

    pub(crate) fn ndim(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn chunk64(&self) -> Vec<i64> {
        self.chunk.iter().map(|len| i64::from(*len)).collect()
    }

    pub(crate) fn block64(&self) -> Vec<i64> {
        self.block.iter().map(|len| i64::from(*len)).collect()
    }

    /// The shape rounded up to chunks.
    pub(crate) fn ext(&self) -> Vec<i64> {
        self.shape.iter().zip(&self.chunk).map(|(len, chunk)| padded(*len, i64::from(*chunk))).collect()
    }

    /// The shape of a chunk rounded up to blocks.
    pub(crate) fn ext_chunk(&self) -> Vec<i64> {
        self.chunk
            .iter()
            .zip(&self.block)
            .map(|(len, block)| padded(i64::from(*len), i64::from(*block)))
            .collect()
    }

    /// The number of chunks along each dimension.
    pub(crate) fn grid(&self) -> Vec<i64> {
        self.ext()
            .iter()
            .zip(&self.chunk)
            .map(|(ext, chunk)| ext.checked_div(i64::from(*chunk)).unwrap_or(0))
            .collect()
    }

    /// The number of blocks of a chunk along each dimension.
    pub(crate) fn blocks(&self) -> Vec<i64> {
        let blocks = self.ext_chunk();
        blocks
            .iter()
            .zip(&self.block)
            .map(|(ext, block)| ext.checked_div(i64::from(*block)).unwrap_or(0))
            .collect()
    }

    pub(crate) fn nitems(&self) -> i64 {
        self.shape.iter().product()
    }

    pub(crate) fn block_nitems(&self) -> i64 {
        self.block64().iter().product()
    }

    /// The number of items that a chunk stores.
    pub(crate) fn chunk_stored(&self) -> i64 {
        self.ext_chunk().iter().product()
    }

    pub(crate) fn nchunks(&self) -> i64 {
        self.grid().iter().product()
    }

    /// The start of a chunk in the array.
    pub(crate) fn chunk_start(&self, nchunk: i64) -> Vec<i64> {
        index_of(&self.grid(), nchunk).iter().zip(&self.chunk).map(|(at, len)| at * i64::from(*len)).collect()
    }

    /// Returns, per dimension, what an index contributes to the offset of an item in its chunk.
    pub(crate) fn offset_in_chunk(&self, axis: usize, at: i64) -> i64 {
        let block = i64::from(self.block[axis]).max(1);
        let (blocks, items) = (strides(&self.blocks()), strides(&self.block64()));
        at / block * blocks[axis] * self.block_nitems() + at % block * items[axis]
    }
}

/// Returns the chunks that overlap the box `start..stop`, in order.
pub(crate) fn chunks_of(shapes: &Shapes, start: &[i64], stop: &[i64]) -> Vec<i64> {
    let grid = strides(&shapes.grid());
    let ranges: Vec<Range<i64>> = (0..shapes.ndim())
        .map(|axis| {
            let (chunk, stop) = (i64::from(shapes.chunk[axis]).max(1), stop[axis].min(shapes.shape[axis]));
            if start[axis] >= stop { 0..0 } else { start[axis] / chunk..(stop - 1) / chunk + 1 }
        })
        .collect();
    let mut chunks = Vec::new();
    for_each_index(&ranges, &mut |index| {
        chunks.push(index.iter().zip(&grid).map(|(at, stride)| at * stride).sum());
    });
    chunks
}

/// Calls `work` for each index of a box in C order.
pub(crate) fn for_each_index(ranges: &[Range<i64>], work: &mut dyn FnMut(&[i64])) {
    if ranges.iter().any(|range| range.is_empty()) {
        return;
    }
    let mut index: Vec<i64> = ranges.iter().map(|range| range.start).collect();
    loop {
        work(&index);
        let mut axis = ranges.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < ranges[axis].end {
                break;
            }
            index[axis] = ranges[axis].start;
        }
    }
}

/// A box of a buffer: the shape of the buffer, and where the box starts in it.
#[derive(Clone, Copy)]
pub(crate) struct BoxPart<'a> {
    pub(crate) shape: &'a [i64],
    pub(crate) start: &'a [i64],
}

/// Copies a box of `lens` items from one buffer to another.
///
/// # Errors
/// `INVALID_PARAM` if the box is not inside both.
pub(crate) fn copy(
    lens: &[i64],
    itemsize: usize,
    src: &[u8],
    from: BoxPart<'_>,
    dst: &mut [u8],
    to: BoxPart<'_>,
) -> Result<()> {
    if lens.contains(&0) {
        return Ok(());
    }
    let size = itemsize as i64;
    let check = |part: BoxPart<'_>, len: usize| {
        let inside =
            part.start.iter().zip(lens).zip(part.shape).all(|((at, n), len)| {
                *at >= 0 && *n >= 0 && at.checked_add(*n).is_some_and(|end| end <= *len)
            });
        let bytes = part.shape.iter().try_fold(size, |bytes, len| bytes.checked_mul(*len));
        ensure(inside && bytes.is_some_and(|bytes| bytes <= len as i64), code::INVALID_PARAM)
    };
    check(from, src.len())?;
    check(to, dst.len())?;
    let (src_strides, dst_strides) = (strides(from.shape), strides(to.shape));
    let offset =
        |start: &[i64], strides: &[i64]| -> i64 { start.iter().zip(strides).map(|(at, n)| at * n).sum() };
    let (mut src_at, mut dst_at) = (offset(from.start, &src_strides), offset(to.start, &dst_strides));
    // Dimensions that are contiguous in both buffers are merged.
    let mut axis = lens.len();
    let mut run = 1;
    while axis > 0 {
        axis -= 1;
        run *= lens[axis];
        if lens[axis] != from.shape[axis] || lens[axis] != to.shape[axis] {
            break;
        }
    }
    let run = (run * size) as usize;
    let outer = &lens[..axis];
    let mut index = vec![0_i64; axis];
    loop {
        let (s, d) = ((src_at * size) as usize, (dst_at * size) as usize);
        dst[d..d + run].copy_from_slice(&src[s..s + run]);
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            index[axis] += 1;
            src_at += src_strides[axis];
            dst_at += dst_strides[axis];
            if index[axis] < outer[axis] {
                break;
            }
            src_at -= src_strides[axis] * outer[axis];
            dst_at -= dst_strides[axis] * outer[axis];
            index[axis] = 0;
        }
    }
}

/// Encodes the metalayer `b2nd` (docs/format/b2nd.md).
pub(crate) fn serialize(shapes: &Shapes, dtype: &[u8], dtype_format: i8) -> Vec<u8> {
    let n = shapes.ndim() as u8;
    let mut meta = vec![0x97, 0, n, 0x90 + n];
    for len in &shapes.shape {
        meta.push(0xd3);
        meta.extend_from_slice(&len.to_be_bytes());
    }
    for lens in [&shapes.chunk, &shapes.block] {
        meta.push(0x90 + n);
        for len in lens {
            meta.push(0xd2);
            meta.extend_from_slice(&len.to_be_bytes());
        }
    }
    meta.extend_from_slice(&[dtype_format as u8, 0xdb]);
    meta.extend_from_slice(&(dtype.len() as i32).to_be_bytes());
    meta.extend_from_slice(dtype);
    meta
}

/// Decodes the metalayer: shapes, the dtype if any, and the encoded length.
///
/// # Errors
/// `FAILURE` for bytes that are not such a metalayer.
pub(crate) fn deserialize(meta: &[u8]) -> Result<(Shapes, Option<DtypeText>, usize)> {
    let mut at = 0;
    let mut take = |n: usize| {
        let bytes = meta.get(at..at + n).ok_or(Error(code::FAILURE));
        at += n;
        bytes
    };
    take(2)?;
    let n = usize::from(take(1)?[0]);
    ensure(n <= MAX_DIM, code::FAILURE)?;
    take(1)?;
    let mut shape = Vec::new();
    for _ in 0..n {
        let bytes = take(9)?;
        shape.push(i64::from_be_bytes(bytes[1..].try_into().unwrap_or_default()));
    }
    let mut lens = [Vec::new(), Vec::new()];
    for lens in &mut lens {
        take(1)?;
        for _ in 0..n {
            let bytes = take(5)?;
            lens.push(i32::from_be_bytes(bytes[1..].try_into().unwrap_or_default()));
        }
    }
    let [chunk, block] = lens;
    let mut dtype = None;
    if at < meta.len() {
        let mut take = |n: usize| {
            let bytes = meta.get(at..at.checked_add(n)?);
            at += n;
            bytes
        };
        let head = take(6).ok_or(Error(code::FAILURE))?;
        ensure(head[1] == 0xdb, code::FAILURE)?;
        let len = i32::from_be_bytes(head[2..].try_into().unwrap_or_default());
        let len = usize::try_from(len).map_err(|_| Error(code::FAILURE))?;
        let text = take(len).ok_or(Error(code::FAILURE))?;
        dtype = Some((text.to_vec(), head[0] as i8));
    }
    Ok((Shapes { shape, chunk, block }, dtype, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_copied_item_by_item() {
        let src: Vec<u8> = (0..4 * 5 * 6).collect();
        let (from, to) = ([1, 2, 3], [0, 1, 2]);
        let mut dst = vec![0; 3 * 4 * 5];
        let (shape, room) = ([4, 5, 6], [3, 4, 5]);
        let lens = [3, 2, 2];
        copy(
            &lens,
            1,
            &src,
            BoxPart { shape: &shape, start: &from },
            &mut dst,
            BoxPart { shape: &room, start: &to },
        )
        .unwrap();
        for_each_index(&[0..3, 0..4, 0..5], &mut |at| {
            let inside = (0..3).all(|axis| (to[axis]..to[axis] + lens[axis]).contains(&at[axis]));
            let from = (0..3).map(|axis| (at[axis] - to[axis] + from[axis]) * [30, 6, 1][axis]).sum::<i64>();
            let place = (at[0] * 20 + at[1] * 5 + at[2]) as usize;
            assert_eq!(dst[place], if inside { from as u8 } else { 0 });
        });
        let outside = copy(
            &lens,
            1,
            &src,
            BoxPart { shape: &shape, start: &[2, 0, 0] },
            &mut dst,
            BoxPart { shape: &room, start: &to },
        );
        assert_eq!(outside, Err(Error(code::INVALID_PARAM)));
    }

    #[test]
    fn metalayers_come_back_and_damage_is_an_error() {
        let shapes = Shapes::new(&[10, 0, 7], &[4, 3, 7], &[2, 3, 1], 8).unwrap();
        let meta = serialize(&shapes, b"<f8", 0);
        let (back, dtype, len) = deserialize(&meta).unwrap();
        assert_eq!((back, dtype, len), (shapes, Some((b"<f8".to_vec(), 0)), meta.len()));
        for len in 0..meta.len() {
            let shorter = deserialize(&meta[..len]);
            // Metalayers of old versions end before the dtype.
            assert!(shorter.is_err() || len == meta.len() - 9, "{len}");
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        for (shape, chunk, block) in [(5, 0, 0), (-1, 2, 1), (5, 2, 0)] {
            assert!(Shapes::new(&[shape], &[chunk], &[block], 1).is_err());
        }
        assert!(Shapes::new(&[i64::MAX], &[i32::MAX], &[1], 8).is_err());
    }
}
