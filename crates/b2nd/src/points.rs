//! Single items at given coordinates: coordinate ("fancy") selection and masks.

use std::ops::Range;

use b2_chunk::memory::{self, OutOfMemory};

use crate::geometry::{coords, product, strides};
use crate::moves::{Move, Moves, Part, linear};
use crate::read::read_moves;
use crate::view::{buffer, check_len};
use crate::{Dtype, Element, Geometry, NdArray, NdError};

/// Items at given coordinates of an array; reading is what costs, and only reads the blocks that hold them,
/// each once.
///
/// Coordinates may name only the leading dimensions; then each stands for all items of the others.
#[derive(Clone, Debug)]
pub struct Points<'a> {
    array: &'a NdArray,
    places: Places,
}

/// Where the points are.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    geometry: Geometry,
    /// How many dimensions coordinates name.
    lead: usize,
    /// By chunk, then block; equal points in the order given.
    points: Vec<Point>,
    /// Where the points of each chunk are in `points`.
    groups: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
struct Point {
    /// Number of the chunk and block among the leading dimensions.
    chunk: u64,
    block: u64,
    /// Offset of its first item in the block, in bytes.
    offset: usize,
    /// Where it is in the result.
    place: usize,
}

impl NdArray {
    /// Selects single items by their coordinates, as `a[rows, columns]` in NumPy or `vindex` in Zarr. Points
    /// may be in any order and come repeatedly; negative numbers count from the end.
    ///
    /// All points name as many dimensions, from the first on; the others are taken whole.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray};
    /// # let items: Vec<u8> = (0..60).collect();
    /// # let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("|u1")?).to_memory(&mut &items[..])?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// assert_eq!(array.points(&[[2, 0, 4], [0, -1, 1]])?.read()?, [44, 16]);
    /// let rows = array.points(&[[2, 0], [0, 3]])?;
    /// assert_eq!((rows.shape(), &rows.read()?[5..]), (vec![2, 5], &[15, 16, 17, 18, 19][..]));
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When points differ in length, name more dimensions than there are, or are out of range.
    pub fn points<P: AsRef<[i64]>>(&self, points: &[P]) -> Result<Points<'_>, NdError> {
        Ok(Points { array: self, places: Places::new(self.geometry(), points)? })
    }

    /// Selects the items that are marked; there must be a mark for each item, in C order. The result has one
    /// dimension. For marks along single dimensions see [`Select::Mask`](crate::Select::Mask).
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, Dtype, NdArray};
    /// # let items: Vec<u8> = (0..60).collect();
    /// # let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("|u1")?).to_memory(&mut &items[..])?;
    /// # let array = NdArray::from_bytes(frame)?;
    /// let thirteens: Vec<bool> = array.all().to_vec::<u8>()?.iter().map(|n| n % 13 == 0).collect();
    /// assert_eq!(array.mask(&thirteens)?.read()?, [0, 13, 26, 39, 52]);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// When there are more or fewer marks than items.
    pub fn mask(&self, marks: &[bool]) -> Result<Points<'_>, NdError> {
        Ok(Points { array: self, places: Places::marked(self.geometry(), marks)? })
    }
}

impl Points<'_> {
    /// Shape of the result: the number of points, then the dimensions that they do not name.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = vec![self.places.points.len() as u64];
        shape.extend(&self.places.geometry.shape()[self.places.lead..]);
        shape
    }

    /// Number of items.
    pub fn nitems(&self) -> u64 {
        product(self.shape())
    }

    /// Size of the result in bytes.
    pub fn nbytes(&self) -> u64 {
        self.places.nbytes()
    }

    /// Type of the items.
    pub fn dtype(&self) -> &Dtype {
        self.array.dtype()
    }

    /// Reads the items, as stored, in the order of the points.
    ///
    /// # Errors
    /// When reading or decoding fails, or there is not enough memory.
    pub fn read(&self) -> Result<Vec<u8>, NdError> {
        self.array.check_result(self.nbytes())?;
        let mut out = buffer(self.nbytes())?;
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// Reads the items into `dst`, which must have exactly [`nbytes`](Self::nbytes) bytes. Chunks are
    /// decoded in parallel on the current rayon pool (feature `rayon`).
    ///
    /// # Errors
    /// As [`read`](Self::read). The content of `dst` is unspecified then.
    pub fn read_into(&self, dst: &mut [u8]) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        read_moves(self.array, &self.places, dst)
    }

    /// Reads the items as Rust values, in the order of the points.
    ///
    /// # Errors
    /// [`NdError::Element`] when the items have another dtype, else as [`read`](Self::read).
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, NdError> {
        let big_endian = crate::element::byte_order::<T>(self.dtype())?;
        let mut bytes = self.read()?;
        Ok(crate::element::decode(&mut bytes, self.dtype().itemsize(), big_endian))
    }
}

impl Places {
    pub(crate) fn new<P: AsRef<[i64]>>(geometry: &Geometry, points: &[P]) -> Result<Self, NdError> {
        let lead = points.first().map_or(geometry.ndim(), |point| point.as_ref().len());
        let mut places = Self::empty(geometry, lead)?;
        let mut at = vec![0; lead];
        for (place, point) in points.iter().enumerate() {
            let point = point.as_ref();
            let fail =
                |dim, what: String| Err(NdError::Slice { dim, what: format!("point {place}: {what}") });
            if point.len() != lead {
                return fail(0, format!("{} coordinates, the first point has {lead}", point.len()));
            }
            for (dim, (at, &index)) in at.iter_mut().zip(point).enumerate() {
                let n = geometry.shape()[dim] as i64;
                let position = if index < 0 { index.saturating_add(n) } else { index };
                if position < 0 || position >= n {
                    return fail(dim, format!("index {index} is out of range for length {n}"));
                }
                *at = position as u64;
            }
            places.push(&at, place)?;
        }
        places.sorted()
    }

    pub(crate) fn marked(geometry: &Geometry, marks: &[bool]) -> Result<Self, NdError> {
        if marks.len() as u64 != geometry.nitems() {
            let what = format!("{} marks for {} items", marks.len(), geometry.nitems());
            return Err(NdError::Slice { dim: 0, what });
        }
        let mut places = Self::empty(geometry, geometry.ndim())?;
        for (n, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            places.push(&coords(n as u64, geometry.shape()), places.points.len())?;
        }
        places.sorted()
    }

    fn empty(geometry: &Geometry, lead: usize) -> Result<Self, NdError> {
        if lead > geometry.ndim() {
            let what = format!("the array has only {} dimensions", geometry.ndim());
            return Err(NdError::Slice { dim: geometry.ndim(), what });
        }
        Ok(Self { geometry: geometry.clone(), lead, points: Vec::new(), groups: Vec::new() })
    }

    fn push(&mut self, at: &[u64], place: usize) -> Result<(), OutOfMemory> {
        let geometry = &self.geometry;
        let (mut chunk, mut block, mut item) = (0, 0, 0);
        for (dim, &at) in at.iter().enumerate() {
            let (c, b) = (u64::from(geometry.chunkshape()[dim]), u64::from(geometry.blockshape()[dim]));
            chunk = chunk * geometry.grid()[dim] + at / c;
            block = block * u64::from(geometry.blocks()[dim]) + at % c / b;
            item = item * b + at % c % b;
        }
        let rest: usize = geometry.blockshape()[self.lead..].iter().map(|&b| b as usize).product();
        let offset = item as usize * rest * geometry.itemsize();
        memory::push(&mut self.points, Point { chunk, block, offset, place })
    }

    fn sorted(mut self) -> Result<Self, NdError> {
        self.points.sort_unstable_by_key(|point| (point.chunk, point.block, point.place));
        let mut start = 0;
        for group in self.points.chunk_by(|a, b| a.chunk == b.chunk) {
            memory::push(&mut self.groups, start..start + group.len())?;
            start += group.len();
        }
        // Repeated points can make a result larger than its array.
        match self.nbytes() <= i64::MAX as u64 {
            true => Ok(self),
            false => Err(NdError::TooLarge { asked: self.nbytes() }),
        }
    }

    /// Chunks along the dimensions that points do not name.
    fn rest_grid(&self) -> &[u64] {
        &self.geometry.grid()[self.lead..]
    }
}

impl Moves for Places {
    fn nbytes(&self) -> u64 {
        let rest = self.geometry.shape()[self.lead..].iter().copied();
        let nitems = product(rest.chain([self.points.len() as u64]));
        nitems.saturating_mul(self.geometry.itemsize() as u64)
    }

    fn nparts(&self) -> u64 {
        product(self.rest_grid().iter().copied().chain([self.groups.len() as u64]))
    }

    fn disjoint(&self) -> bool {
        // The place of a point in the list is its own, and so are those of the items behind it.
        true
    }

    fn item(&self) -> std::ops::Range<usize> {
        0..self.geometry.itemsize()
    }

    fn nchunk(&self, npart: u64) -> usize {
        let nrest = product(self.rest_grid().iter().copied());
        let points = &self.points[self.groups[(npart / nrest) as usize].clone()];
        (points[0].chunk * nrest + npart % nrest) as usize
    }

    fn unblocked(&self, _npart: u64) -> Result<Option<Part<'_>>, OutOfMemory> {
        Ok(None)
    }

    fn part(&self, npart: u64) -> Result<Part<'_>, OutOfMemory> {
        let (geometry, lead) = (&self.geometry, self.lead);
        let nrest = product(self.rest_grid().iter().copied());
        let points = &self.points[self.groups[(npart / nrest) as usize].clone()];
        let grid = coords(npart % nrest, self.rest_grid());
        // The items of the chunk along the other dimensions.
        let starts: Vec<u64> =
            grid.iter().zip(&geometry.chunkshape()[lead..]).map(|(&g, &c)| g * u64::from(c)).collect();
        let lens: Vec<u64> = starts
            .iter()
            .zip(geometry.shape()[lead..].iter().zip(&geometry.chunkshape()[lead..]))
            .map(|(&start, (&s, &c))| (s - start).min(c.into()))
            .collect();
        let blockshape = &geometry.blockshape()[lead..];
        let rest_blocks: Vec<u64> = geometry.blocks()[lead..].iter().map(|&n| n.into()).collect();
        let in_use: Vec<u64> = lens.iter().zip(blockshape).map(|(&n, &b)| n.div_ceil(b.into())).collect();
        let per_block = product(rest_blocks.iter().copied());
        let mut nblocks = Vec::new();
        for same in points.chunk_by(|a, b| a.block == b.block) {
            for n in 0..product(in_use.iter().copied()) {
                let block = linear(&coords(n, &in_use), &rest_blocks);
                memory::push(&mut nblocks, (same[0].block * per_block + block) as usize)?;
            }
        }

        let block_strides = strides(blockshape.iter().map(|&b| b as usize), geometry.itemsize());
        let rest_shape = geometry.shape()[lead..].iter().map(|&n| n as usize);
        let buffer_strides = strides(rest_shape, geometry.itemsize());
        let row = product(geometry.shape()[lead..].iter().copied()) as usize * geometry.itemsize();
        let moves = move |nblock: usize, each: &mut dyn FnMut(Move<'_>)| {
            let (block, rest) = (nblock as u64 / per_block, nblock as u64 % per_block);
            let at = coords(rest, &rest_blocks);
            let mut counts = Vec::with_capacity(at.len());
            let mut within = 0;
            for (dim, &j) in at.iter().enumerate() {
                let b = u64::from(blockshape[dim]);
                counts.push(lens[dim].saturating_sub(j * b).min(b) as usize);
                within += (starts[dim] + j * b) as usize * buffer_strides[dim] as usize;
            }
            let first = points.partition_point(|point| point.block < block);
            for point in points[first..].iter().take_while(|point| point.block == block) {
                let buffer = (point.place * row + within, &buffer_strides[..]);
                each(Move::new(&counts, geometry.itemsize(), (point.offset, &block_strides), buffer));
            }
        };
        Ok(Part { nchunk: self.nchunk(npart), nblocks, whole: false, moves: Box::new(moves) })
    }
}
