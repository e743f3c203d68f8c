//! A selection of items of an open file, read in pieces of bounded size.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};

use super::damage;
use super::input::Input;
use super::slice::{Axis, PieceSize, Pieces, resolve};
use crate::files::Output;
use crate::process::{PipelineLimits, Progress, pump, resize};

/// Items of a slice of a super-chunk are read one by one if the step is larger than this, in bytes, and larger than
/// half a block.
const FAR: u64 = 64 << 10;
/// Maximum bytes of decoded pieces in memory while a file is read from a server, unless three pieces are larger.
const FAR_AHEAD: u64 = 256 << 20;
/// Size of pieces of local files, in bytes: small enough to stay in the processor's cache and to cause few page faults.
const NEAR_PIECE: u64 = 12 << 20;
/// Pieces need not be smaller than this, in bytes.
const SMALLEST_PIECE: u64 = 64 << 10;

/// A selection of items of an open file.
pub(crate) struct Selection<'a> {
    input: &'a Input,
    axes: Vec<Axis>,
    itemsize: u64,
    chunks: Vec<u64>,
    blocks: Vec<u64>,
}

impl<'a> Selection<'a> {
    /// All data, including an incomplete last item.
    pub(crate) fn all(input: &'a Input) -> Self {
        let (shape, itemsize) = match input {
            Input::Array(array) => (array.shape().to_vec(), array.itemsize() as u64),
            // In bytes, since the last item may be incomplete.
            _ => (vec![input.nbytes()], 1),
        };
        let axes = resolve(&[], &shape).unwrap_or_default();
        Self::new(input, axes, itemsize)
    }

    /// Selects the items of a slice. Super-chunks and chunks have one dimension.
    ///
    /// # Errors
    /// Fails if there are too many parts or an index is out of range.
    pub(crate) fn slice(input: &'a Input, parts: &[b2kit::Selection]) -> Result<Self> {
        let itemsize = input.itemsize() as u64;
        let axes = match input {
            Input::Array(array) => resolve(parts, array.shape())?,
            _ => resolve(parts, &[input.nbytes() / itemsize])?,
        };
        Ok(Self::new(input, axes, itemsize))
    }

    fn new(input: &'a Input, axes: Vec<Axis>, itemsize: u64) -> Self {
        let (chunks, blocks) = match input {
            Input::Array(array) => {
                let widen = |dims: &[u32]| dims.iter().map(|n| u64::from(*n)).collect();
                (widen(array.chunkshape()), widen(array.blockshape()))
            }
            Input::SuperChunk(frame) => (
                vec![frame.chunksize() as u64 / itemsize],
                vec![frame.header().blocksize() as u64 / itemsize],
            ),
            Input::Chunk(chunk) => {
                (vec![chunk.nbytes() as u64 / itemsize], vec![chunk.header().blocksize() as u64 / itemsize])
            }
        };
        Self { input, axes, itemsize, chunks, blocks }
    }

    /// The items selected along each dimension of the file.
    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Shape of the selection, without dropped dimensions.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect()
    }

    /// Uncompressed size of the selection. At most that of the file.
    pub(crate) fn nbytes(&self) -> u64 {
        bytes_of(&self.axes, self.itemsize)
    }

    /// Decodes the items piece by piece and passes them to `write` in C order.
    pub(crate) fn stream(
        &self,
        write: impl FnMut(&[u8]) -> Result<()>,
        progress: &mut Progress,
    ) -> Result<()> {
        self.input.dparams().limits.check_memory("a piece of the data, in bytes", SMALLEST_PIECE)?;
        pump(self.pieces(), self.ahead(), |piece, buffer| self.read(&piece, buffer), write, progress)
    }

    /// How far decoding may be ahead of writing.
    fn ahead(&self) -> PipelineLimits {
        let memory = self.input.dparams().limits.max_memory;
        if self.piece_size().max.saturating_mul(6) > memory {
            return PipelineLimits::NONE;
        }
        // While the last responses of a piece are awaited and decoded, the requests for the next pieces are in flight; more of
        // them for higher latencies.
        let in_flight = self.input.frame().map_or(1, |frame| frame.files().in_flight());
        let first = self.pieces().next().map_or(1, |axes| bytes_of(&axes, self.itemsize).max(1));
        let room = usize::try_from(FAR_AHEAD.min(memory / 3) / first).unwrap_or(usize::MAX);
        let decoders = (in_flight / 16).min(room.saturating_sub(2)).clamp(1, 4);
        PipelineLimits { decoders, pieces: decoders + 2 }
    }

    /// Decodes the items and sends them to an output. Only errors of reading, not of writing, get the context.
    pub(crate) fn send(
        &self,
        output: &mut Output,
        progress: &mut Progress,
        context: impl FnOnce() -> String,
    ) -> Result<()> {
        let mut sent = Ok(());
        let write = |piece: &[u8]| {
            sent = output.send(piece);
            ensure!(sent.is_ok());
            Ok(())
        };
        let streamed = self.stream(write, progress);
        sent?;
        streamed.with_context(context)
    }

    /// Splits the selection into pieces of bounded size, in C order.
    pub(crate) fn pieces(&self) -> Pieces {
        Pieces::new(&self.axes, &self.chunks, &self.blocks, self.unit(), self.piece_size())
    }

    /// Small files are read in small pieces, unless their blocks are large: a block is decoded again for each piece.
    fn piece_size(&self) -> PieceSize {
        let PieceSize { target, max } = PieceSize::default();
        let bytes_of = |lens: &[u64]| lens.iter().fold(self.itemsize, |all, len| all.saturating_mul(*len));
        let memory = self.input.dparams().limits.max_memory;
        let most = (memory / 4).clamp(SMALLEST_PIECE, max);
        // Blocks larger than the file can decompress to are runs of a repeated value, which can be read from the middle
        // at no cost.
        let stored = self.input.stored();
        let blocks = bytes_of(&self.blocks).min(stored.saturating_mul(self.input.dparams().limits.max_ratio));
        let fit = stored.saturating_mul(64).max(8 << 20).max(blocks).min(most);
        let max = match self.input {
            // Each chunk and block of an array costs memory while it is read.
            Input::Array(_) => {
                let smallest = bytes_of(&self.chunks).min(bytes_of(&self.blocks)).max(1);
                fit.min(smallest.saturating_mul(1 << 18).max(SMALLEST_PIECE))
            }
            _ => fit,
        };
        // A whole row of blocks is decoded at a time, since cutting them would decode them several times. A server is asked
        // for whole rows of chunks.
        let lens = self.axes.iter().zip(&self.blocks).map(|(axis, block)| axis.len.min(*block)).take(1);
        let row = lens.chain(self.axes.iter().skip(1).map(|axis| axis.len));
        let row = row.fold(self.itemsize, u64::saturating_mul);
        if row <= NEAR_PIECE && !self.waits() {
            return PieceSize { target: NEAR_PIECE.min(max), max: NEAR_PIECE.min(max) };
        }
        PieceSize { target: target.min(max), max }
    }

    /// Whether reading mostly waits for a server.
    fn waits(&self) -> bool {
        self.input.frame().is_some_and(|frame| frame.files().in_flight() > 1)
    }

    /// Number of bytes to decode for each item.
    fn unit(&self) -> u64 {
        match (self.input, self.axes.as_slice()) {
            // The items in between are decoded as well.
            (Input::SuperChunk(_) | Input::Chunk(_), [axis]) if self.is_near(axis) => {
                self.itemsize * axis.step.unsigned_abs()
            }
            _ => self.itemsize,
        }
    }

    /// Whether several of the items are in the same block, which would be decoded again for each if they were read one
    /// by one.
    fn is_near(&self, axis: &Axis) -> bool {
        let in_block = self.blocks.first().map_or(0, |block| block.saturating_mul(self.itemsize) / 2);
        axis.step.unsigned_abs().saturating_mul(self.itemsize) <= FAR.max(in_block)
    }

    /// Decodes one of the [`pieces`](Self::pieces) of this selection, or of another one of the same shape.
    pub(crate) fn read(&self, axes: &[Axis], buffer: &mut Vec<u8>) -> Result<()> {
        self.read_piece(axes, buffer).map_err(|error| damage::locate(self.input, error))
    }

    fn read_piece(&self, axes: &[Axis], buffer: &mut Vec<u8>) -> Result<()> {
        resize(buffer, usize::try_from(bytes_of(axes, self.itemsize))?)?;
        match (self.input, axes) {
            (Input::Array(array), _) => {
                let dims: Vec<b2kit::Selection> =
                    axes.iter().map(|axis| axis.selection()).collect::<Result<_>>()?;
                Ok(array.slice(&dims)?.read_bytes_into(buffer)?)
            }
            (_, [axis]) => self.read_axis(axis, buffer),
            _ => bail!("super-chunks and chunks have one dimension"),
        }
    }

    fn read_axis(&self, axis: &Axis, dst: &mut [u8]) -> Result<()> {
        let itemsize = usize::try_from(self.itemsize)?;
        if axis.step == 1 {
            return self.input.read_linear(axis.start * self.itemsize, dst);
        }
        if !self.is_near(axis) {
            for (k, item) in dst.chunks_exact_mut(itemsize).enumerate() {
                self.input.read_linear(axis.position(k as u64) * self.itemsize, item)?;
            }
            return Ok(());
        }
        let Range { start, end } = axis.span();
        let mut span = Vec::new();
        resize(&mut span, usize::try_from((end - start) * self.itemsize)?)?;
        self.input.read_linear(start * self.itemsize, &mut span)?;
        for (k, item) in dst.chunks_exact_mut(itemsize).enumerate() {
            let at = usize::try_from(axis.position(k as u64) - start)? * itemsize;
            item.copy_from_slice(&span[at..at + itemsize]);
        }
        Ok(())
    }
}

fn bytes_of(axes: &[Axis], itemsize: u64) -> u64 {
    // The size of a part of a file cannot overflow, but a zero may follow lengths whose product does.
    axes.iter().fold(itemsize, |total, axis| total.saturating_mul(axis.len))
}
