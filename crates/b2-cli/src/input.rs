//! Opens files by their content, and streams their data in bounded memory.

use std::fs;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use b2kit::chunk::{ChunkHeader, DParams};
use b2kit::frame::{Checksums, Disk, FileKind, FileSystem, FrameError, INDEX_NAME, Links, ReadAt};
use b2kit::nd::{METALAYER, OLD_METALAYER};
use b2kit::{Chunk, ErrorKind, NdArray, SuperChunk};

use crate::args::{Global, Source};
use crate::error::say;
use crate::foreign::{self, Foreign};
use crate::place;
use crate::plugins::dparams;
use crate::progress::Progress;
use crate::pump::{pump, resize};
use crate::slice::{Axis, PieceSize, Pieces, resolve};
use crate::stdio::{is_stdin, refuse_stdin, spool_stdin};
use crate::store::{self, Store};
use crate::table::thousands;
use crate::web;

/// Items of a slice of a super-chunk are read one by one if the step is larger than this, in bytes, and larger than
/// half a block.
const FAR: u64 = 64 << 10;
/// Pieces need not be smaller than this, in bytes.
const SMALLEST_PIECE: u64 = 64 << 10;

/// An open file.
pub(crate) enum Input {
    Array(Box<NdArray>),
    SuperChunk(SuperChunk),
    Chunk(BareChunk),
}

/// A bare chunk, which is a file of its own.
pub(crate) struct BareChunk {
    chunk: Chunk,
    dparams: DParams,
}

impl Deref for BareChunk {
    type Target = Chunk;

    fn deref(&self) -> &Chunk {
        &self.chunk
    }
}

impl Input {
    /// Opens a frame, a directory with a sparse frame, or a chunk, at byte `offset` of the file; `-` is standard input.
    ///
    /// All commands that read a file use this function, including for URLs.
    ///
    /// # Errors
    /// Errors do not name the file; callers add its name.
    pub(crate) fn open(path: &Path, offset: u64, global: Global) -> Result<Self> {
        if is_stdin(path) {
            return Self::open_spooled(&spool_stdin()?, offset, global);
        }
        if web::is_url(path) {
            return match web::kind(path)? {
                FileKind::Directory => {
                    ensure!(offset == 0, "--offset: this is a directory");
                    Self::from_frame(global.reading(path).open(path)?)
                }
                _ => {
                    let file = web::open(path)?;
                    Self::open_file(&file, offset, global, || global.reading(path).offset(offset).open(path))
                }
            };
        }
        let there = fs::metadata(path)?;
        if there.is_dir() {
            ensure!(offset == 0, "--offset: this is a directory");
            if !path.join(INDEX_NAME).exists() {
                ensure!(!store::has_member(path), "a store; --key picks a member, `b2kit ls` lists them");
                if let Some(Foreign { what, hint }) = foreign::directory(path) {
                    bail!("{what}; {hint}");
                }
                bail!("a directory without {INDEX_NAME}: not a sparse frame");
            }
            let frame = global.reading(path).open(path).map_err(|error| cut_off_or(path, error.into()))?;
            return Self::from_frame(frame);
        }
        ensure!(there.is_file(), "neither a file nor a directory");
        let file = open_regular(path)?;
        Self::open_file(&file, offset, global, || global.reading(path).offset(offset).open(path))
    }

    /// Opens a copy of standard input.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub(crate) fn open_spooled(file: &Arc<dyn ReadAt>, offset: u64, global: Global) -> Result<Self> {
        let options = global.reading_stored(file.len()?).offset(offset);
        Self::open_file(file, offset, global, || options.from_reader(file.clone(), "standard input"))
    }

    /// Opens a file by its content; `frame` opens it as a frame.
    fn open_file(
        file: &Arc<dyn ReadAt>,
        offset: u64,
        global: Global,
        frame: impl FnOnce() -> Result<SuperChunk, FrameError>,
    ) -> Result<Self> {
        let len = file.len()?;
        ensure!(offset <= len, "--offset {offset}: the file has {len} bytes");
        let have = len - offset;
        let head = file.read_at(offset..offset.saturating_add(foreign::LOOK).min(len))?;
        if head.starts_with(&b2kit::frame::MAGIC) {
            let opened = frame().map_err(|error| cut_frame(&head, have).unwrap_or_else(|| error.into()));
            return opened.and_then(Self::from_frame);
        }
        // By content only: pass no file name.
        match foreign::recognise(Path::new(""), &head, have) {
            Some(Foreign { what: foreign::CHUNK, .. }) | None => {}
            Some(Foreign { what, hint }) => bail!("not a Blosc2 file but {what}: {hint}"),
        }
        // A chunk has no signature, so it is what remains.
        let header = ChunkHeader::parse(&head).map_err(|error| {
            anyhow::Error::new(error).context(format!("not a Blosc2 file ({})", foreign::first_bytes(&head)))
        })?;
        if header.cbytes() as u64 > have {
            // It may not be a chunk at all: other data that parses as a chunk header rarely has a plausible size.
            let what = "a chunk, or not a Blosc2 file";
            let start = foreign::first_bytes(&head);
            return Err(cut_off(header.cbytes() as u64, have).context(format!("{what} ({start})")));
        }
        let limits = global.limits(len);
        limits.check_memory("stored chunk, in bytes", header.cbytes() as u64)?;
        let bytes = file.read_at(offset..offset.saturating_add(header.cbytes() as u64))?;
        Ok(Self::from_chunk(Chunk::from_bytes(bytes)?, dparams(limits)))
    }

    /// A chunk that need not be a whole file.
    pub(crate) fn from_chunk(chunk: Chunk, dparams: DParams) -> Self {
        Self::Chunk(BareChunk { chunk, dparams })
    }

    /// Opens the file or the member of a store that the command line names.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub(crate) fn open_source(source: &Source, global: Global) -> Result<Self> {
        let Some(key) = &source.key else { return Self::open(&source.file, source.offset, global) };
        refuse_stdin(&source.file, "cannot be a store: name the file")?;
        let store = Store::open(&source.file, source.offset, global)?;
        let none = || find_cut_off(&source.file).unwrap_or_else(|| anyhow!("--key: not a store"));
        store.ok_or_else(none)?.member(key)
    }

    pub(crate) fn from_frame(frame: SuperChunk) -> Result<Self> {
        let metalayers = frame.metalayers();
        if metalayers.get(METALAYER).is_some() || metalayers.get(OLD_METALAYER).is_some() {
            return Ok(Self::Array(Box::new(NdArray::from_super_chunk(frame)?)));
        }
        NdArray::check_items(&frame)?;
        Ok(Self::SuperChunk(frame))
    }

    /// Warns on standard error if another program has changed the frame at `path` since its checksums were written. For
    /// commands whose output does not show this.
    pub(crate) fn say_changed(self, path: &Path) -> Self {
        if self.frame().is_some_and(|frame| frame.checksums() == Checksums::Changed) {
            let path = path.display();
            say(&format!(
                "{path}: another program has changed it since its checksums were written, perhaps its shape"
            ));
        }
        self
    }

    /// The frame, unless this is a bare chunk.
    pub(crate) fn frame(&self) -> Option<&SuperChunk> {
        match self {
            Self::Array(array) => Some(array.super_chunk()),
            Self::SuperChunk(frame) => Some(frame),
            Self::Chunk(_) => None,
        }
    }

    /// Parameters for decoding.
    fn dparams(&self) -> &DParams {
        match self {
            Self::Array(array) => array.super_chunk().dparams(),
            Self::SuperChunk(frame) => frame.dparams(),
            Self::Chunk(chunk) => &chunk.dparams,
        }
    }

    /// Stored bytes, including unused ones.
    fn stored(&self) -> u64 {
        match self {
            Self::Chunk(chunk) => chunk.cbytes() as u64,
            _ => self.frame().map_or(0, |frame| frame.header().frame_len().max(frame.cbytes())),
        }
    }

    /// Checks the limit `--max-output` for data that is not backed by stored bytes. Does not expand anything.
    ///
    /// # Errors
    /// Fails if the limit is exceeded, or if the index cannot be read.
    pub(crate) fn check_output(&self) -> Result<()> {
        match self {
            Self::Array(array) => Ok(array.check_output()?),
            Self::SuperChunk(frame) => Ok(frame.check_output()?),
            Self::Chunk(chunk) => Ok(chunk.dparams.limits.check_output(self.nbytes(), chunk.stored())?),
        }
    }

    /// Bytes of the data that are not backed by stored bytes, as in [`check_output`](Self::check_output). Counts only
    /// up to about `enough`.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub(crate) fn unstored(&self, enough: u64) -> Result<u64> {
        match (self, self.frame()) {
            (Self::Chunk(chunk), _) => Ok(chunk.dparams.limits.unstored(self.nbytes(), chunk.stored())),
            (_, Some(frame)) => Ok(frame.unstored(0..frame.nchunks(), enough)?.total()),
            _ => Ok(0),
        }
    }

    /// Uncompressed size: what is printed without a slice.
    pub(crate) fn nbytes(&self) -> u64 {
        match self {
            Self::Array(array) => array.nbytes(),
            Self::SuperChunk(frame) => frame.nbytes(),
            Self::Chunk(chunk) => chunk.nbytes() as u64,
        }
    }

    /// Item size in bytes.
    pub(crate) fn itemsize(&self) -> usize {
        match self {
            Self::Array(array) => array.itemsize(),
            Self::SuperChunk(frame) => frame.typesize(),
            Self::Chunk(chunk) => chunk.header().typesize(),
        }
    }

    /// Reads uncompressed bytes from `start` on. Not for arrays, whose items are in another order.
    pub(crate) fn read_linear(&self, start: u64, dst: &mut [u8]) -> Result<()> {
        match self {
            Self::Array(_) => bail!("arrays are read by their shape"),
            Self::SuperChunk(frame) => Ok(frame.read_bytes_into(start, dst)?),
            Self::Chunk(chunk) if start == 0 && dst.len() == chunk.nbytes() => {
                Ok(chunk.decompress_bytes_into(dst, &chunk.dparams)?)
            }
            Self::Chunk(chunk) => Ok(chunk.get_bytes_into(usize::try_from(start)?, dst, &chunk.dparams)?),
        }
    }
}

/// The length of a frame according to its header (docs/format/frame-contiguous.md, section 2).
fn frame_len(head: &[u8]) -> Option<u64> {
    match head.get(15..24)? {
        [0xCF, len @ ..] => Some(u64::from_be_bytes(len.try_into().ok()?)),
        _ => None,
    }
}

/// The error for a truncated frame, in a file of `have` bytes that starts with `head`; `None` if it is not truncated.
fn cut_frame(head: &[u8], have: u64) -> Option<anyhow::Error> {
    frame_len(head).filter(|need| *need > have).map(|need| cut_off(need, have))
}

/// Returns an error that says that the frame, or the index of a sparse frame, is truncated, if it is; otherwise
/// `error`.
pub(crate) fn cut_off_or(path: &Path, error: anyhow::Error) -> anyhow::Error {
    // Other errors, such as those of the lock or of the disk, have other causes.
    match crate::error::kind_of(&error) {
        Some(ErrorKind::Damaged) => find_cut_off(path).unwrap_or(error),
        _ => error,
    }
}

/// The error for a truncated frame, or index of a sparse frame; `None` if it is not truncated.
pub(crate) fn find_cut_off(path: &Path) -> Option<anyhow::Error> {
    let look = |path: &Path| -> io::Result<Option<anyhow::Error>> {
        let file = open_regular(path)?;
        let len = file.len()?;
        let head = file.read_at(0..foreign::LOOK.min(len))?;
        Ok(head.starts_with(&b2kit::frame::MAGIC).then(|| cut_frame(&head, len)).flatten())
    };
    if web::is_url(path) {
        return None;
    }
    match path.is_dir() {
        true => look(&path.join(INDEX_NAME)).ok()?.map(|cut| cut.context(INDEX_NAME)),
        false => look(path).ok()?,
    }
}

/// The error for a truncated file.
fn cut_off(need: u64, have: u64) -> anyhow::Error {
    let percent = (u128::from(have) * 100).checked_div(need.into()).unwrap_or(0);
    anyhow!(
        "cut off: needs {} bytes, has {} ({percent} %); b2kit salvage may recover a part",
        thousands(need),
        thousands(have)
    )
}

/// Opens a regular file or a URL. Does not block if the path has become a FIFO meanwhile.
pub(crate) fn open_regular(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    if web::is_url(path) { web::open(path) } else { Disk.open(path, Links::Follow) }
}

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
    ///
    /// # Errors
    /// Returns the first error of decoding or of `write`.
    pub(crate) fn stream(
        &self,
        write: impl FnMut(&[u8]) -> Result<()>,
        progress: &mut Progress,
    ) -> Result<()> {
        self.input.dparams().limits.check_memory("a piece of the data, in bytes", SMALLEST_PIECE)?;
        let memory = self.input.dparams().limits.max_memory;
        let ahead = self.piece_size().max.saturating_mul(6) <= memory;
        pump(self.pieces(), ahead, |piece, buffer| self.read(&piece, buffer), write, progress)
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
        PieceSize { target: target.min(max), max }
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
    ///
    /// # Errors
    /// Fails if decoding fails.
    pub(crate) fn read(&self, axes: &[Axis], buffer: &mut Vec<u8>) -> Result<()> {
        self.read_piece(axes, buffer).map_err(|error| place::locate(self.input, error))
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
