//! Verifies that all of an array can be read.

use b2_frame::{Entry, FrameError, VerifyReport};

use crate::{Geometry, NdArray, NdError, Selection};

/// Number of block numbers read at a time.
const BLOCK_BATCH_LEN: usize = 256;

impl NdArray {
    /// Checks the whole array: compares the checksums, reads every item, decodes the padding and every vlmetalayer,
    /// and, unless checksums match, compares the headers with each other. An array that passes can be read.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// # let mut bytes = ArrayBuilder::new::<u32>([300, 4]).to_bytes(source::by_index(|i| i as u32 * i as u32))?.to_vec();
    /// NdArray::from_bytes(bytes.clone())?.verify()?;
    /// let middle = bytes.len() / 2;
    /// bytes[middle] ^= 1;
    /// assert!(NdArray::from_bytes(bytes).and_then(|array| array.verify()).is_err());
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// The first damaged or unreadable part, as for [`Slice::read_bytes`](crate::Slice::read_bytes) and
    /// [`SuperChunk::verify`](b2_frame::SuperChunk::verify).
    pub fn verify(&self) -> Result<VerifyReport, NdError> {
        let (frame, geometry) = (self.super_chunk(), self.geometry());
        let dparams = frame.dparams();
        let control = &dparams.control.begin(frame.nbytes(), self.itemsize() as u64);
        let quiet = &self.with_control(control.quiet());
        quiet.verify_reading(|| {
            let mut next = 0;
            let runs = std::iter::from_fn(|| {
                if next >= frame.nchunks() {
                    return None;
                }
                let run = frame.chunk(next).run();
                next = run.as_ref().map_or(usize::MAX, |(_, run)| run.end);
                Some(run)
            });
            let chunk = geometry.chunk_nbytes() as u64;
            let threads = dparams.limits.threads(chunk.saturating_mul(2));
            let init = || Ok(());
            b2_core::for_each(control, threads, runs, frame.nbytes(), init, |(), run| {
                let (entry, run) = run?;
                let last = run.end.saturating_sub(1).max(run.start);
                // Among equal chunks, the last one may be shorter.
                let ends = if last > run.start { vec![run.start, last] } else { vec![last] };
                for nchunk in ends {
                    let (start, mut shape) = geometry.chunk_box(&geometry.chunk_coords(nchunk as u64));
                    if matches!(entry, Entry::Special(_)) {
                        // All its items are equal, so one is enough.
                        shape.iter_mut().for_each(|len| *len = (*len).min(1));
                    }
                    quiet.slice(ranges(&start, &shape)?)?.read_bytes()?;
                }
                Ok::<_, NdError>(control.advance((run.len() as u64).saturating_mul(chunk))?)
            })
        })
    }

    /// As [`verify`](Self::verify), but the caller reads all items, for example to hash them at the same time: `read`
    /// must read every item.
    ///
    /// # Errors
    /// As for [`verify`](Self::verify), and those of `read`.
    pub fn verify_reading<E: From<NdError> + From<FrameError>>(
        &self,
        read: impl FnOnce() -> Result<(), E>,
    ) -> Result<VerifyReport, E> {
        self.super_chunk().verify_reading(true, || {
            read()?;
            Ok(self.decode_padding()?)
        })
    }

    /// Decodes the blocks that hold padding: reading the items skips these blocks, or stops at the last item.
    fn decode_padding(&self) -> Result<(), NdError> {
        let (frame, geometry) = (self.super_chunk(), self.geometry());
        let mut nchunk = 0;
        while nchunk < frame.nchunks() {
            let (entry, run) = frame.chunk(nchunk).run()?;
            if matches!(entry, Entry::Stored(_)) {
                let (_, lens) = geometry.chunk_box(&geometry.chunk_coords(nchunk as u64));
                self.decode_padding_of(nchunk, &lens)?;
            }
            nchunk = run.end;
        }
        Ok(())
    }

    /// `lens` is the number of the array's items in the chunk along each dimension.
    fn decode_padding_of(&self, nchunk: usize, lens: &[u64]) -> Result<(), NdError> {
        let (frame, geometry) = (self.super_chunk(), self.geometry());
        let Some(padding) = Padding::of(geometry, lens) else { return Ok(()) };
        let chunk = frame.chunk(nchunk).head()?;
        if chunk.header().special().is_some() {
            return Ok(());
        }
        // If the chunk is divided into blocks of another size than the array's, decode all of them.
        let same_blocks =
            chunk.blocksize() == geometry.block_nbytes() && chunk.nblocks() == geometry.nblocks();
        let mut blocks = (0..chunk.nblocks()).filter(|nblock| !same_blocks || padding.has(*nblock));
        loop {
            let some: Vec<usize> = blocks.by_ref().take(BLOCK_BATCH_LEN).collect();
            if some.is_empty() {
                return Ok(());
            }
            frame.chunk(nchunk).blocks(&some, |_, _| ())?;
        }
    }
}

/// The blocks of a chunk that hold padding.
struct Padding {
    /// For each dimension: the number of blocks, and how many of them contain only items.
    dims: Vec<(u64, u64)>,
}

impl Padding {
    /// `None` if there are no such blocks.
    fn of(geometry: &Geometry, lens: &[u64]) -> Option<Self> {
        let shapes = geometry.blocks().iter().zip(geometry.blockshape());
        let dims = shapes.zip(lens).map(|((count, block), len)| {
            (u64::from(*count), len.checked_div(u64::from(*block)).unwrap_or(0))
        });
        let dims: Vec<(u64, u64)> = dims.collect();
        dims.iter().any(|(count, full)| full < count).then_some(Self { dims })
    }

    fn has(&self, nblock: usize) -> bool {
        let mut rest = nblock as u64;
        self.dims.iter().rev().any(|(count, full)| {
            let at = rest.checked_rem(*count).unwrap_or(0);
            rest = rest.checked_div(*count).unwrap_or(0);
            at >= *full
        })
    }
}

/// Returns the ranges of the box of items at `start`.
fn ranges(start: &[u64], shape: &[u64]) -> Result<Vec<Selection>, NdError> {
    let too_large = |_| NdError::geometry("the array is too large");
    let range = |(start, len): (&u64, &u64)| {
        let end = i64::try_from(start.saturating_add(*len)).map_err(too_large)?;
        Ok(Selection::from(i64::try_from(*start).map_err(too_large)?..end))
    };
    start.iter().zip(shape).map(range).collect()
}
