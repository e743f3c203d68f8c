//! Opening arrays and reading from them.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use b2_chunk::{Container, Limits, Plugins, parallel};
use b2_frame::{FrameError, OpenOptions, SuperChunk};
use bytes::Bytes;

use crate::geometry::{copy_box, for_each_position, strides};
use crate::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::slice::{Positions, SliceDim, resolve};
use crate::{Dtype, Geometry, NdError};

/// An N-dimensional array in a frame, open for reading. Any number of threads may read at once.
///
/// Opening reads header, index and trailer, never the data; reading a part decodes only the blocks it
/// touches.
///
/// ```
/// use b2nd::{ArrayBuilder, Dtype, NdArray, SliceDim};
///
/// let items: Vec<u8> = (0..60u32).flat_map(|i| i.to_le_bytes()).collect();
/// let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("<u4")?).to_memory(&mut &items[..])?;
///
/// let array = NdArray::from_bytes(frame)?;
/// assert_eq!(array.shape(), [3, 4, 5]);
/// let part = array.slice(&[SliceDim::Index(-1), SliceDim::range(1..3)])?;
/// assert_eq!(part.shape(), [2, 5]);
/// assert_eq!(part.to_vec::<u32>()?, [45, 46, 47, 48, 49, 50, 51, 52, 53, 54]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Debug)]
pub struct NdArray {
    frame: SuperChunk,
    meta: ArrayMeta,
    geometry: Geometry,
    dtype: Dtype,
}

impl NdArray {
    /// Opens an array: a contiguous frame in a file, or the directory of a sparse one.
    ///
    /// # Errors
    /// When it cannot be read, is no frame or no array, or its parts contradict each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NdError> {
        Self::options().open(path)
    }

    /// Takes an array from a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(frame: impl Into<Bytes>) -> Result<Self, NdError> {
        Self::options().from_bytes(frame)
    }

    /// Options for opening.
    pub fn options() -> ArrayOptions {
        ArrayOptions::default()
    }

    /// Takes an array from an open frame.
    ///
    /// # Errors
    /// When the frame is no array, or its parts contradict each other.
    pub fn from_super_chunk(mut frame: SuperChunk) -> Result<Self, NdError> {
        let meta = if let Some(bytes) = frame.metalayers().get(METALAYER) {
            ArrayMeta::parse(METALAYER, bytes)?
        } else if let Some(bytes) = frame.metalayers().get(OLD_METALAYER) {
            ArrayMeta::parse(OLD_METALAYER, bytes)?
        } else {
            return Err(NdError::NotAnArray);
        };
        let chunksize = frame.header().chunksize();
        let itemsize = lost_itemsize(&meta, frame.header().typesize(), chunksize);
        let geometry =
            Geometry::new(meta.shape.clone(), meta.chunkshape.clone(), meta.blockshape.clone(), itemsize)?;
        if geometry.nchunks() != frame.nchunks() as u64 {
            return Err(NdError::geometry(format!(
                "shape {:?} in chunks of {:?} needs {} chunks, the frame has {}",
                meta.shape,
                meta.chunkshape,
                geometry.nchunks(),
                frame.nchunks()
            )));
        }
        if geometry.nchunks() > 0 && geometry.chunk_nbytes() != chunksize {
            return Err(NdError::geometry(format!(
                "chunks of {:?} padded to blocks of {:?} with items of {itemsize} bytes have {} bytes, the frame says {chunksize}",
                meta.chunkshape,
                meta.blockshape,
                geometry.chunk_nbytes(),
            )));
        }
        let dtype = dtype(&meta, itemsize);
        frame.set_container(Container {
            itemsize: Some(itemsize),
            frame_blocksize: frame.header().blocksize(),
            blockshape: meta.blockshape.as_slice().into(),
        });
        Ok(Self { frame, meta, geometry, dtype })
    }

    /// Length of each dimension, in items.
    pub fn shape(&self) -> &[u64] {
        self.geometry.shape()
    }
    /// Length of a chunk along each dimension, in items.
    pub fn chunkshape(&self) -> &[u32] {
        self.geometry.chunkshape()
    }
    /// Length of a block along each dimension, in items.
    pub fn blockshape(&self) -> &[u32] {
        self.geometry.blockshape()
    }
    /// All shapes and what follows from them.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// The item type. Opaque bytes when the file names none that can be understood.
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }
    /// The array metalayer as stored.
    pub fn meta(&self) -> &ArrayMeta {
        &self.meta
    }
    /// Size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.geometry.itemsize()
    }
    /// Size of all items in bytes.
    pub fn nbytes(&self) -> u64 {
        self.geometry.nbytes()
    }
    /// The frame that holds the array, with metalayers and vlmetalayers.
    pub fn super_chunk(&self) -> &SuperChunk {
        &self.frame
    }
    /// The frame that holds the array.
    pub fn into_super_chunk(self) -> SuperChunk {
        self.frame
    }

    /// Selects a part; nothing is read yet. Missing trailing dimensions are taken whole.
    ///
    /// Takes ranges, indices, or [`SliceDim`]s where they are mixed or have steps:
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray, SliceDim};
    /// # let frame = ArrayBuilder::new([8, 9], Dtype::parse("|u1")?).to_memory(&mut &[0; 72][..])?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.slice([2..4, 0..5])?.shape(), [2, 5]);
    /// assert_eq!(array.slice([-1])?.shape(), [9]);
    /// assert_eq!(array.slice([SliceDim::Index(3), SliceDim::range(1..).step_by(2)])?.shape(), [4]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When there are too many dimensions, an index is out of range, or a step is 0.
    pub fn slice<D: Clone + Into<SliceDim>>(&self, selection: impl AsRef<[D]>) -> Result<Slice<'_>, NdError> {
        let selection: Vec<SliceDim> = selection.as_ref().iter().cloned().map(Into::into).collect();
        let positions = resolve(&selection, self.shape())?;
        // Below the array's own size, which was checked.
        let nitems = positions.iter().map(|p| p.len).fold(1u64, u64::saturating_mul);
        Ok(Slice { array: self, positions, nitems })
    }

    /// Selects everything.
    pub fn all(&self) -> Slice<'_> {
        self.slice([SliceDim::ALL; 0]).expect("the whole array is a valid selection")
    }

    /// Decodes the given array blocks of a chunk and hands each to `visit`, in any order.
    fn visit_blocks(
        &self,
        nchunk: usize,
        nblocks: &[usize],
        visit: &(impl Fn(usize, &[u8]) + Sync),
    ) -> Result<(), NdError> {
        let size = self.geometry.block_nbytes();
        let stored = match self.frame.stored_blocks(nchunk, nblocks) {
            // The chunk is cut into fewer blocks than the array's.
            Err(FrameError::OutOfRange { what: "blocks", .. }) => None,
            stored => Some(stored?),
        };
        if let Some(stored) = stored.filter(|stored| stored.chunk().blocksize() == size) {
            self.check_chunk(nchunk, stored.chunk().header().nbytes())?;
            let dparams = self.frame.dparams();
            let block0 = stored.block0(dparams)?;
            return parallel::for_each(
                stored.iter(),
                (nblocks.len() * size) as u64,
                || Ok((stored.chunk().decoder(dparams)?, Vec::new())),
                |(decoder, block), (nblock, bytes)| {
                    // Every byte is overwritten.
                    block.resize(size, 0);
                    decoder.decode(nblock, bytes, block0.as_deref().filter(|_| nblock > 0), block)?;
                    visit(nblock, block);
                    Ok(())
                },
            );
        }
        // Another block size: legal to read, only the order of bytes in the chunk matters.
        let chunk = self.frame.decompress_chunk(nchunk)?;
        self.check_chunk(nchunk, chunk.len())?;
        for &nblock in nblocks {
            visit(nblock, &chunk[nblock * size..(nblock + 1) * size]);
        }
        Ok(())
    }

    fn check_chunk(&self, nchunk: usize, nbytes: usize) -> Result<(), NdError> {
        if nbytes != self.geometry.chunk_nbytes() {
            let need = self.geometry.chunk_nbytes();
            return Err(NdError::geometry(format!(
                "chunk {nchunk} has {nbytes} bytes, the array needs {need}"
            )));
        }
        Ok(())
    }
}

/// Options for opening an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayOptions {
    options: OpenOptions,
    offset: u64,
}

impl ArrayOptions {
    /// Codecs and filters beyond the built-in ones.
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.options = self.options.plugins(plugins);
        self
    }
    /// What the file may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options = self.options.limits(limits);
        self
    }
    /// The frame starts at this byte of the file.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }
    /// Opens an array in a file or directory.
    ///
    /// # Errors
    /// As [`NdArray::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<NdArray, NdError> {
        NdArray::from_super_chunk(match self.offset {
            0 => self.options.open(path)?,
            offset => self.options.open_at(path, offset)?,
        })
    }
    /// Takes an array from a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`NdArray::open`].
    pub fn from_bytes(&self, frame: impl Into<Bytes>) -> Result<NdArray, NdError> {
        NdArray::from_super_chunk(self.options.open_bytes(frame)?)
    }
}

/// C-Blosc2 may write 1 for item sizes above 255; the chunk size tells the real one (docs/format/b2nd.md,
/// section 1.1).
fn lost_itemsize(meta: &ArrayMeta, typesize: usize, chunksize: usize) -> usize {
    if typesize != 1 {
        return typesize;
    }
    let nitems = meta
        .chunkshape
        .iter()
        .zip(&meta.blockshape)
        .try_fold(1u64, |n, (&c, &b)| n.checked_mul(u64::from(c).checked_next_multiple_of(b.into())?));
    match nitems {
        Some(n @ 1..) if (chunksize as u64).is_multiple_of(n) && chunksize as u64 / n > 255 => {
            (chunksize as u64 / n) as usize
        }
        _ => typesize,
    }
}

/// The stored dtype; a text that cannot be understood, or says another item size, leaves opaque bytes.
fn dtype(meta: &ArrayMeta, itemsize: usize) -> Dtype {
    let Some(stored) = &meta.dtype else { return Dtype::opaque(format!("|V{itemsize}"), itemsize) };
    let text = String::from_utf8_lossy(stored);
    if meta.dtype_format == 0
        && let Ok(dtype) = Dtype::parse(&text)
        && dtype.itemsize() == itemsize
        && dtype.as_str() == text
    {
        return dtype;
    }
    Dtype::opaque(text, itemsize)
}

/// A checked selection of an array; reading is what costs.
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    array: &'a NdArray,
    positions: Vec<Positions>,
    nitems: u64,
}

impl Slice<'_> {
    /// Shape of the result: dimensions selected by an index are gone.
    pub fn shape(&self) -> Vec<u64> {
        self.positions.iter().filter(|p| !p.dropped).map(|p| p.len).collect()
    }

    /// Number of items.
    pub fn nitems(&self) -> u64 {
        self.nitems
    }

    /// Size of the result in bytes.
    pub fn nbytes(&self) -> u64 {
        self.nitems * self.array.itemsize() as u64
    }

    /// Reads the items, as stored, in C order.
    ///
    /// # Errors
    /// When reading or decoding fails, or there is not enough memory.
    pub fn read(&self) -> Result<Vec<u8>, NdError> {
        let too_large = || NdError::TooLarge { asked: self.nbytes() };
        let len = usize::try_from(self.nbytes()).map_err(|_| too_large())?;
        let mut out = Vec::new();
        out.try_reserve_exact(len).map_err(|_| too_large())?;
        out.resize(len, 0);
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// Reads the items into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes. Chunks are
    /// decoded in parallel on the current rayon pool (feature `rayon`).
    ///
    /// # Errors
    /// As [`read`](Self::read). The content of `dst` is unspecified then.
    pub fn read_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        if dst.len() as u64 != self.nbytes() {
            return Err(NdError::BufferLength { have: dst.len(), need: self.nbytes() as usize });
        }
        if self.nitems == 0 {
            return Ok(());
        }
        let dst_strides = strides(self.positions.iter().map(|p| p.len as usize), self.array.itemsize());
        let chunks = self.chunks();
        let dst = Mutex::new(dst);
        // Chunks in parallel; a single one, or few, in parallel by blocks.
        parallel::for_each(
            chunks.iter(),
            self.nbytes(),
            || Ok(()),
            |(), part| self.read_chunk(part, &dst, &dst_strides),
        )
    }

    /// The chunks that hold selected items.
    fn chunks(&self) -> Vec<ChunkPart> {
        let geometry = &self.array.geometry;
        // Along each dimension: which chunks, and which of the selected positions each holds.
        let along: Vec<Vec<(u64, Range<u64>)>> = self
            .positions
            .iter()
            .zip(geometry.chunkshape())
            .map(|(p, &c)| {
                let (c, bounds) = (u64::from(c), p.bounds());
                (bounds.start / c..bounds.end.div_ceil(c))
                    .map(|g| (g, p.within(g * c, (g + 1) * c)))
                    .filter(|(_, within)| !within.is_empty())
                    .collect()
            })
            .collect();
        let ranges: Vec<Range<u64>> = along.iter().map(|chunks| 0..chunks.len() as u64).collect();
        let mut parts = Vec::new();
        let done: Result<(), std::convert::Infallible> = for_each_position(&ranges, |at| {
            let chosen = at.iter().zip(&along).map(|(&i, chunks)| &chunks[i as usize]);
            let (coords, within): (Vec<u64>, Vec<Range<u64>>) = chosen.cloned().unzip();
            let nchunk = coords.iter().zip(geometry.grid()).fold(0, |n, (&g, &len)| n * len + g);
            parts.push(ChunkPart { nchunk: nchunk as usize, coords, within });
            Ok(())
        });
        let Ok(()) = done;
        parts
    }

    fn read_chunk(
        &self,
        part: &ChunkPart,
        dst: &Mutex<&mut [u8]>,
        dst_strides: &[isize],
    ) -> Result<(), NdError> {
        let geometry = &self.array.geometry;
        let nd = geometry.ndim();
        // Along each dimension: which blocks of the chunk, and which positions each holds.
        let along: Vec<Vec<(u64, Range<u64>)>> = (0..nd)
            .map(|dim| {
                let (p, b) = (&self.positions[dim], u64::from(geometry.blockshape()[dim]));
                let start = part.coords[dim] * u64::from(geometry.chunkshape()[dim]);
                let limit = &part.within[dim];
                (0..u64::from(geometry.blocks()[dim]))
                    .map(|j| {
                        let within = p.within(start + j * b, start + (j + 1) * b);
                        (j, within.start.max(limit.start)..within.end.min(limit.end))
                    })
                    .filter(|(_, within)| !within.is_empty())
                    .collect()
            })
            .collect();
        let ranges: Vec<Range<u64>> = along.iter().map(|blocks| 0..blocks.len() as u64).collect();
        let mut nblocks = Vec::new();
        let done: Result<(), std::convert::Infallible> = for_each_position(&ranges, |at| {
            let chosen = at.iter().zip(&along).map(|(&i, blocks)| blocks[i as usize].0);
            let nblock = chosen.zip(geometry.blocks()).fold(0, |n, (j, &len)| n * u64::from(len) + j);
            nblocks.push(nblock as usize);
            Ok(())
        });
        let Ok(()) = done;

        let itemsize = geometry.itemsize();
        let block_strides = strides(geometry.blockshape().iter().map(|&b| b as usize), itemsize);
        let src_strides: Vec<isize> = block_strides
            .iter()
            .zip(&self.positions)
            .map(|(&s, p)| s.wrapping_mul(p.step as isize))
            .collect();
        self.array.visit_blocks(part.nchunk, &nblocks, &|nblock, block| {
            let mut rest = nblock as u64;
            let (mut counts, mut src_offset, mut dst_offset) = (vec![0; nd], 0isize, 0isize);
            for dim in (0..nd).rev() {
                let len = u64::from(geometry.blocks()[dim]);
                let j = rest % len;
                rest /= len;
                // The block was chosen, so it is there.
                let Some((_, within)) = along[dim].iter().find(|(chosen, _)| *chosen == j) else { return };
                let b = u64::from(geometry.blockshape()[dim]);
                let block_start = part.coords[dim] * u64::from(geometry.chunkshape()[dim]) + j * b;
                let first = self.positions[dim].position(within.start) - block_start;
                counts[dim] = (within.end - within.start) as usize;
                src_offset += first as isize * block_strides[dim];
                dst_offset += within.start as isize * dst_strides[dim];
            }
            let mut dst = dst.lock().unwrap_or_else(PoisonError::into_inner);
            copy_box(
                &counts,
                itemsize,
                (block, src_offset as usize, &src_strides),
                (&mut dst[..], dst_offset as usize, dst_strides),
            );
        })
    }

    /// Reads the items as Rust values, in C order.
    ///
    /// # Errors
    /// [`NdError::Element`] when the array has another dtype, else as [`read`](Self::read).
    pub fn to_vec<T: crate::Element>(&self) -> Result<Vec<T>, NdError> {
        let big_endian = crate::element::byte_order::<T>(&self.array.dtype)?;
        let mut bytes = self.read()?;
        Ok(crate::element::decode(&mut bytes, self.array.itemsize(), big_endian))
    }
}

/// A chunk and the selected positions it holds, along each dimension.
struct ChunkPart {
    nchunk: usize,
    coords: Vec<u64>,
    within: Vec<Range<u64>>,
}
