//! Reads several views of an array in one call.

use std::ops::Range;

use b2_core::Control;
use b2_core::{OutOfMemory, memory};
use b2_frame::Destination;

use crate::read::output::check_len;
use crate::read::selected::{SliceRead, begin_read, read_selection};
use crate::select::copy_plan::{ChunkPart, CopyPlan, CopyRegion, Units};
use crate::{NdArray, NdError, Slice};

/// Views of one array that are read in one call, one after the other: crops for a training step, for example.
///
/// Threads share the work of all views, and a block in which several views have items is decoded once.
///
/// ```
/// use b2nd::{ArrayBuilder, Batch, NdArray, source};
///
/// let array = NdArray::from_bytes(ArrayBuilder::new::<u8>([10, 20]).to_bytes(source::by_index(|i| i as u8))?)?;
/// let batch = Batch::new([array.slice([0..2, 3..5])?, array.slice([5..7, 0..2])?])?;
/// let mut items = vec![0; 8];
/// batch.read_to(&mut items[..])?;
/// assert_eq!(items, [3, 4, 23, 24, 100, 101, 120, 121]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    array: NdArray,
    views: Vec<Slice>,
}

impl Batch {
    /// Creates a batch of views. Their shapes may differ.
    ///
    /// # Errors
    /// [`NdError::Argument`] when there are no views, or they are not all of the same open array, or of the same field
    /// of its items.
    pub fn new(views: impl IntoIterator<Item = Slice>) -> Result<Self, NdError> {
        let views: Vec<Slice> = views.into_iter().collect();
        let Some(first) = views.first() else { return Err(NdError::argument("no views to read")) };
        if !views.iter().all(|view| first.has_same_items(view)) {
            return Err(NdError::argument("the views are not of the same array and field"));
        }
        Ok(Self { array: first.array().clone(), views })
    }

    /// Returns the views.
    pub fn views(&self) -> &[Slice] {
        &self.views
    }

    /// Returns the size of all items in bytes.
    pub fn nbytes(&self) -> u64 {
        self.views.iter().fold(0, |sum, view| sum.saturating_add(view.nbytes()))
    }

    /// Returns the same views with other threads, progress callback or cancellation.
    #[must_use]
    pub fn with_control(self, control: Control) -> Self {
        Self { array: self.array.with_control(control), ..self }
    }

    /// Reads the items of all views, each in C order, into possibly uninitialised memory, like
    /// [`Slice::read_to`]. It must have exactly [`nbytes`](Self::nbytes) bytes.
    ///
    /// # Errors
    /// As for [`Slice::read_to`].
    pub fn read_to<'d>(&self, destination: impl Into<Destination<'d>>) -> Result<&'d mut [u8], NdError> {
        let destination = destination.into();
        check_len(destination.len(), self.nbytes())?;
        let dst = read_selection(&self.array, self.moves()?, destination)?;
        if let Some(first) = self.views.first() {
            first.to_native(dst);
        }
        Ok(dst)
    }

    /// Begins to read the stored items for a driver of your own, like [`Slice::begin`].
    ///
    /// # Errors
    /// As for [`Slice::begin`].
    pub fn begin<'d>(
        &self,
        destination: impl Into<Destination<'d>>,
    ) -> Result<Option<SliceRead<'d>>, NdError> {
        let destination = destination.into();
        check_len(destination.len(), self.nbytes())?;
        begin_read(&self.array, self.moves()?, destination)
    }

    fn moves(&self) -> Result<Box<dyn CopyPlan>, OutOfMemory> {
        let mut all = memory::list(self.views.len())?;
        let mut offset = 0;
        for view in &self.views {
            all.push(view.moves(offset, &view.strides())?);
            offset += view.nbytes() as usize;
        }
        Ok(Box::new(BatchMoves::new(all)?))
    }
}

/// The copy plans of several selections, with separate places in one buffer.
struct BatchMoves {
    all: Vec<Box<dyn CopyPlan>>,
    /// The chunk of each part of each selection, the number of the selection, and that of the part; sorted.
    shares: Vec<(usize, usize, u64)>,
    /// The range of `shares` of each chunk.
    chunks: Vec<Range<usize>>,
}

impl BatchMoves {
    fn new(all: Vec<Box<dyn CopyPlan>>) -> Result<Self, OutOfMemory> {
        let count = all.iter().fold(0, |count: usize, moves| count.saturating_add(moves.nparts() as usize));
        let mut shares = memory::list(count)?;
        for (n, moves) in all.iter().enumerate() {
            shares.extend((0..moves.nparts()).map(|npart| (moves.nchunk(npart), n, npart)));
        }
        shares.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for same in shares.chunk_by(|a, b| a.0 == b.0) {
            memory::push(&mut chunks, start..start + same.len())?;
            start += same.len();
        }
        Ok(Self { all, shares, chunks })
    }

    fn shares(&self, npart: u64) -> &[(usize, usize, u64)] {
        &self.shares[self.chunks[npart as usize].clone()]
    }
}

impl CopyPlan for BatchMoves {
    fn nbytes(&self) -> u64 {
        self.all.iter().map(|moves| moves.nbytes()).sum()
    }

    fn nparts(&self) -> u64 {
        self.chunks.len() as u64
    }

    fn nchunk(&self, npart: u64) -> usize {
        self.shares[self.chunks[npart as usize].start].0
    }

    fn part(&self, npart: u64) -> Result<ChunkPart, OutOfMemory> {
        let mut members = memory::list(self.shares(npart).len())?;
        let mut nblocks = Vec::new();
        for &(_, n, npart) in self.shares(npart) {
            let part = self.all[n].part(npart)?;
            memory::reserve(&mut nblocks, part.nblocks.len())?;
            nblocks.extend_from_slice(&part.nblocks);
            members.push((n, part));
        }
        nblocks.sort_unstable();
        nblocks.dedup();
        Ok(ChunkPart::of_members(self.nchunk(npart), nblocks, Units::Blocks, members))
    }

    fn unblocked(&self, npart: u64) -> Result<Option<ChunkPart>, OutOfMemory> {
        let mut members = memory::list(self.shares(npart).len())?;
        for &(_, n, npart) in self.shares(npart) {
            let Some(part) = self.all[n].unblocked(npart)? else { return Ok(None) };
            members.push((n, part));
        }
        Ok(Some(ChunkPart::of_members(self.nchunk(npart), vec![0], Units::WholeChunk, members)))
    }

    fn visit(&self, part: &ChunkPart, nblock: usize, each: &mut dyn FnMut(CopyRegion<'_>)) {
        for (n, member) in &part.members {
            if member.nblocks.binary_search(&nblock).is_ok() {
                self.all[*n].visit(member, nblock, each);
            }
        }
    }

    fn item(&self) -> Range<usize> {
        self.all.first().map_or(0..0, |moves| moves.item())
    }

    fn disjoint(&self) -> bool {
        // Each has a separate part of the buffer.
        self.all.iter().all(|moves| moves.disjoint())
    }
}

#[cfg(test)]
mod tests {
    use b2_testkit::Rng;

    use super::*;
    use crate::{ArrayBuilder, Dtype, Selection, source};

    /// Views of any kind, together and one by one.
    #[test]
    fn a_batch_is_its_views_one_behind_the_other() {
        let mut rng = Rng::new(7);
        let items: Vec<u8> = (0..30 * 40 * 4).map(|_| rng.below(5) as u8).collect();
        let file = ArrayBuilder::of_dtype([30, 40], Dtype::parse(">i4").unwrap())
            .chunks([16, 11])
            .blocks([5, 4])
            .to_bytes(&items[..])
            .unwrap();
        let constant = ArrayBuilder::of_dtype([30, 40], Dtype::parse(">i4").unwrap())
            .chunks([16, 11])
            .to_bytes(source::value(7i32))
            .unwrap();
        for file in [file, constant] {
            let array = NdArray::from_bytes(file).unwrap();
            for round in 0..60 {
                let view = |_| {
                    let (a, b) = (rng.below(31) as i64, rng.below(31) as i64);
                    let (c, d) = (rng.below(41) as i64, rng.below(41) as i64);
                    let range =
                        |start, stop, step| Selection::Range { start: Some(start), stop: Some(stop), step };
                    let view = match rng.below(4) {
                        0 => array.points(([1, 29, 1, 7], [3, 39, 3, rng.below(40) as i64])),
                        1 => array.slice((range(a, b, 3), Selection::List(vec![c.min(39), 2, 2]))),
                        2 => array.slice((range(b.max(a), a.min(b), -1), range(c.min(d), c.max(d), 2))),
                        _ => array.slice((range(a.min(b), a.max(b), 1), range(c.min(d), c.max(d), 1))),
                    };
                    let view = view.unwrap();
                    if round % 2 == 0 { view.native() } else { view }
                };
                let views: Vec<Slice> = (0..1 + round % 7).map(view).collect();
                let expected: Vec<u8> = views.iter().flat_map(|view| view.read_bytes().unwrap()).collect();
                let batch = Batch::new(views).unwrap();
                assert_eq!(batch.nbytes(), expected.len() as u64);
                let mut memory = Box::new_uninit_slice(expected.len());
                assert_eq!(batch.read_to(&mut memory[..]).unwrap(), expected);
                let mut wrong = vec![0; expected.len() + 1];
                assert!(matches!(batch.read_to(&mut wrong[..]), Err(NdError::BufferLength { .. })));
            }
        }
    }

    #[test]
    fn views_must_belong_together() {
        let file = ArrayBuilder::new::<u8>([4]).to_bytes(source::zeros()).unwrap();
        let open = || NdArray::from_bytes(file.clone()).unwrap();
        let array = open();
        assert!(Batch::new([]).is_err());
        assert!(Batch::new([array.all(), open().all()]).is_err());
        assert_eq!(
            Batch::new([array.all(), array.with_control(Control::new()).all()]).unwrap().views().len(),
            2
        );
        assert!(Batch::new([array.all(), array.all().native()]).is_ok());
    }
}
