//! Selections of items that are not in a frame: the boxes that hold them are read from a source.

use std::sync::{Mutex, PoisonError};

use b2_core::memory::sized;
use b2_core::{Control, for_each};
use b2_frame::Target;

use crate::model::geometry::{coords, strides};
use crate::read::output::check_len;
use crate::select::copy::copy_box;
use crate::select::copy_plan::{ChunkPart, CopyPlan};
use crate::select::resolved::{AxisSelection, OutDim};
use crate::write::source::{Region, SharedRegions};
use crate::{NdArray, NdError, Slice};

/// Blocks of a chunk are requested together as long as the box around them has at most this many bytes.
const MAX_HULL_LEN: usize = 64 << 20;

impl Slice {
    /// Returns the first item and the shape of the box of the array that is selected, if the result is that box: its items in
    /// C order, unchanged.
    #[doc(hidden)]
    pub fn as_box(&self) -> Option<(Vec<u64>, Vec<u64>)> {
        let (along, out) = self.dims()?;
        if self.itemsize() != self.array().itemsize() {
            return None;
        }
        let dims = out.iter().filter_map(|dim| if let OutDim::Of(dim) = dim { Some(*dim) } else { None });
        let is_plain = dims.is_sorted_by(|a, b| a < b) && !out.contains(&OutDim::New(0));
        let ranges = along.iter().map(|along| match along {
            AxisSelection::Steps(steps) if steps.step == 1 || steps.len <= 1 => {
                Some((steps.start, steps.len))
            }
            _ => None,
        });
        let found: Option<(Vec<u64>, Vec<u64>)> = ranges.collect();
        found.filter(|_| is_plain)
    }

    /// Reads the selected items from a source that has the items of the array, in place of the array's own. Its regions are
    /// boxes of whole blocks. The result is in C order, as stored.
    ///
    /// # Errors
    /// [`NdError::BufferLength`] when `dst` has another length, [`NdError::Source`] when the source fails,
    /// [`NdError::Cancelled`], [`NdError::OutOfMemory`].
    #[doc(hidden)]
    pub fn read_from(
        &self,
        source: &dyn SharedRegions,
        control: &Control,
        dst: &mut [u8],
    ) -> Result<(), NdError> {
        check_len(dst.len(), self.nbytes())?;
        let moves = self.moves(0, &self.strides())?;
        let control = control.begin(self.nbytes(), self.itemsize() as u64);
        let geometry = self.array().geometry();
        let work = moves.nparts().saturating_mul(geometry.block_nbytes() as u64);
        // Copying takes little time compared with the source.
        let dst = Mutex::new(dst);
        let read = |reader: &mut Reader<'_>, npart: u64| -> Result<(), NdError> {
            let part = moves.part(npart)?;
            let copied = reader.read(&*moves, &part, &dst)?;
            Ok(control.advance(copied as u64)?)
        };
        let reader = || Ok(Reader { array: self.array(), source, items: Vec::new(), block: Vec::new() });
        for_each(&control, usize::MAX, 0..moves.nparts(), work, reader, read)
    }
}

/// Reads the selected items of chunks, on one thread.
struct Reader<'a> {
    array: &'a NdArray,
    source: &'a dyn SharedRegions,
    /// The items of some blocks, as a box.
    items: Vec<u8>,
    block: Vec<u8>,
}

impl Reader<'_> {
    /// Returns the size of the copied items in bytes.
    fn read(
        &mut self,
        moves: &dyn CopyPlan,
        part: &ChunkPart,
        dst: &Mutex<&mut [u8]>,
    ) -> Result<usize, NdError> {
        let hull = self.hull(part, &part.nblocks);
        let size = hull.shape.iter().try_fold(self.array.itemsize(), |n, &len| n.checked_mul(len as usize));
        if size.is_some_and(|size| size <= MAX_HULL_LEN) {
            return self.read_blocks(moves, part, (&part.nblocks, &hull), dst);
        }
        let mut copied = 0;
        for nblock in part.nblocks.chunks(1) {
            let own = self.hull(part, nblock);
            copied += self.read_blocks(moves, part, (nblock, &own), dst)?;
        }
        Ok(copied)
    }

    /// Returns the box around some blocks of a chunk, without the padding at the edge of the array.
    fn hull(&self, part: &ChunkPart, nblocks: &[usize]) -> BoundingBox {
        let geometry = self.array.geometry();
        let (origin, real) = geometry.chunk_box(&geometry.chunk_coords(part.nchunk as u64));
        let counts: Vec<u64> = geometry.blocks().iter().map(|&n| n.into()).collect();
        let (mut low, mut high) = (counts.clone(), vec![0; counts.len()]);
        for &nblock in nblocks {
            for (dim, at) in coords(nblock as u64, &counts).into_iter().enumerate() {
                low[dim] = low[dim].min(at);
                high[dim] = high[dim].max(at + 1);
            }
        }
        let blocks = geometry.blockshape().iter().map(|&n| u64::from(n));
        let ends = low.iter().zip(&high).zip(blocks.zip(origin.iter().zip(&real)));
        let (start, shape) = ends
            .map(|((&low, &high), (block, (&origin, &real)))| {
                let (start, end) = ((low * block).min(real), (high * block).min(real));
                (origin + start, end - start)
            })
            .unzip();
        BoundingBox { origin, start, shape }
    }

    fn read_blocks(
        &mut self,
        moves: &dyn CopyPlan,
        part: &ChunkPart,
        (nblocks, hull): (&[usize], &BoundingBox),
        dst: &Mutex<&mut [u8]>,
    ) -> Result<usize, NdError> {
        let geometry = self.array.geometry();
        let itemsize = geometry.itemsize();
        let region = Region {
            whole: geometry.shape(),
            dtype: self.array.dtype(),
            start: &hull.start,
            shape: &hull.shape,
        };
        let nbytes = region.nbytes();
        let len = usize::try_from(nbytes).map_err(|_| NdError::TooLarge { asked: nbytes })?;
        let items = sized(&mut self.items, len)?;
        self.source.read_region(&region, items).map_err(NdError::Source)?;
        let hull_strides = strides(hull.shape.iter().map(|&n| n as usize), itemsize);
        let block_strides = strides(geometry.blockshape().iter().map(|&n| n as usize), itemsize);
        let counts: Vec<u64> = geometry.blocks().iter().map(|&n| n.into()).collect();
        let mut copied = 0;
        for &nblock in nblocks {
            let at = coords(nblock as u64, &counts);
            // Where the block starts in the box, and how many of its items are there.
            let (mut from, mut lens) = (0, Vec::with_capacity(at.len()));
            for (dim, (&at, &block)) in at.iter().zip(geometry.blockshape()).enumerate() {
                let within = hull.origin[dim] + at * u64::from(block) - hull.start[dim];
                from += within as usize * hull_strides[dim] as usize;
                lens.push(hull.shape[dim].saturating_sub(within).min(block.into()) as usize);
            }
            let is_whole = lens.iter().zip(geometry.blockshape()).all(|(&len, &block)| len == block as usize);
            let plain = match is_whole && hull.shape.iter().zip(&lens).all(|(&all, &len)| all == len as u64) {
                true => &items[..],
                false => {
                    let block = sized(&mut self.block, geometry.block_nbytes())?;
                    copy_box(&lens, itemsize, (items, from, &hull_strides), (block, 0, &block_strides));
                    &block[..]
                }
            };
            let mut dst = dst.lock().unwrap_or_else(PoisonError::into_inner);
            moves.visit(part, nblock, &mut |step| {
                if let Some((from, to, len)) = step.item() {
                    dst.put(to, &plain[from..from + len]);
                    copied += len;
                } else if let Some(loops) = step.to_buffer() {
                    loops.copy(plain, &mut **dst);
                    copied += loops.nbytes();
                }
            });
        }
        Ok(copied)
    }
}

/// A box around blocks of a chunk.
struct BoundingBox {
    /// The first item of the chunk.
    origin: Vec<u64>,
    start: Vec<u64>,
    shape: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use std::io;

    use b2_testkit::Rng;

    use super::*;
    use crate::{ArrayBuilder, Dtype, RegionSource, Selection};

    /// Items in memory.
    struct Items(Vec<u8>);

    impl SharedRegions for Items {
        fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
            RegionSource::read_region(&mut &self.0[..], region, dst)
        }
    }

    #[test]
    fn selections_of_a_source_are_those_of_an_array() {
        let mut rng = Rng::new(11);
        let dtype = Dtype::parse("[('a', '<u2'), ('b', '|i1', (3,))]").unwrap();
        for _ in 0..300 {
            let shape: Vec<u64> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(9) as u64).collect();
            let chunks: Vec<u32> = shape.iter().map(|&n| 1 + rng.below(n as usize + 2) as u32).collect();
            let blocks: Vec<u32> = chunks.iter().map(|&n| 1 + rng.below(n as usize) as u32).collect();
            let bytes: Vec<u8> =
                (0..shape.iter().product::<u64>() * 5).map(|n| (n * 7 + n / 256) as u8).collect();
            let builder = ArrayBuilder::of_dtype(shape.clone(), dtype.clone()).chunks(chunks).blocks(blocks);
            let array = NdArray::from_bytes(builder.to_bytes(&bytes[..]).unwrap()).unwrap();
            let source = Items(bytes);
            let list = |rng: &mut Rng, n: u64, len: usize| {
                Selection::List(
                    (0..len)
                        .map(|_| rng.below(n as usize) as i64 - (n as i64) * rng.below(2) as i64)
                        .collect(),
                )
            };
            let mut dims = Vec::new();
            for &n in &shape {
                dims.push(match rng.below(4) {
                    0 => Selection::Index(rng.below(n as usize) as i64),
                    1 => list(&mut rng, n, 4),
                    2 => Selection::Range { start: None, stop: None, step: [1, -1, 2, -3][rng.below(4)] },
                    _ => Selection::Range { start: Some(rng.below(3) as i64), stop: None, step: 1 },
                });
            }
            let points: Vec<Selection> = shape.iter().map(|&n| list(&mut rng, n, 5)).collect();
            for slice in [array.slice(dims).unwrap(), array.points(points).unwrap(), array.all().transpose()]
            {
                for slice in [slice.clone(), slice.field("a").unwrap(), slice.field("b").unwrap()] {
                    let mut found = vec![9; slice.nbytes() as usize];
                    let control = Control::new().threads(1 + rng.below(2));
                    slice.read_from(&source, &control, &mut found).unwrap();
                    assert_eq!(found, slice.read_bytes().unwrap());
                    if let Some((start, len)) = slice.as_box() {
                        let region = Region { whole: &shape, dtype: &dtype, start: &start, shape: &len };
                        let mut whole = vec![9; found.len()];
                        SharedRegions::read_region(&source, &region, &mut whole).unwrap();
                        assert_eq!(whole, found);
                    }
                }
            }
        }
        // A source that fails.
        struct FailingSource;
        impl SharedRegions for FailingSource {
            fn read_region(&self, _: &Region<'_>, _: &mut [u8]) -> io::Result<()> {
                Err(io::ErrorKind::NotFound.into())
            }
        }
        let array =
            NdArray::from_bytes(ArrayBuilder::new::<u8>([4]).to_bytes([1_u8, 2, 3, 4]).unwrap()).unwrap();
        let read = array.all().read_from(&FailingSource, &Control::new(), &mut [0; 4]);
        assert!(matches!(read, Err(NdError::Source(_))));
    }
}
