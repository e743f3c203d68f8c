//! Opens files by their content, and streams their data in bounded memory.

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use b2kit::chunk::{ChunkHeader, DParams, FilterSlot};
use b2kit::frame::{Checksums, FileKind, FrameError, INDEX_NAME, Metalayers, ReadAt};
use b2kit::nd::{METALAYER, NdError, OLD_METALAYER};
use b2kit::{Chunk, CodecId, ErrorKind, NdArray, SuperChunk};

use crate::args::{Filters, Global, dparams};
use crate::files::recognition::open_regular;
use crate::files::{RecognisedFormat, is_pipe, is_stdin, recognition, spool_pipe, spool_stdin, urls};
use crate::print::thousands;
use crate::process::say;

/// An open file.
pub(crate) enum Input {
    Array(Box<NdArray>),
    SuperChunk(SuperChunk),
    Chunk(BareChunk),
}

/// A bare chunk: a file without a frame.
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
        if is_pipe(path) {
            return Self::open_spooled(&spool_pipe(path)?, offset, global);
        }
        if urls::is_url(path) {
            return match urls::kind(path)? {
                FileKind::Directory => {
                    ensure!(offset == 0, "--offset: this is a directory");
                    Self::of_frame(global.reading(path).open(path)?, global)
                }
                _ => {
                    let file = urls::open(path)?;
                    Self::open_file(&file, offset, global, || global.reading(path).offset(offset).open(path))
                }
            };
        }
        let there = fs::metadata(path)?;
        if there.is_dir() {
            ensure!(offset == 0, "--offset: this is a directory");
            if !path.join(INDEX_NAME).exists() {
                let none = matches!(b2_store::Store::open(path, &global.reading(path)), Ok(None));
                ensure!(none, "a store; --key picks a member, `b2kit ls` lists them");
                if let Some(RecognisedFormat { what, hint, .. }) = recognition::directory(path) {
                    bail!("{what}; {hint}");
                }
                bail!("a directory without {INDEX_NAME}: not a sparse frame");
            }
            let frame = global.reading(path).open(path).map_err(|error| cut_off_or(path, error.into()))?;
            return Self::of_frame(frame, global);
        }
        ensure!(there.is_file(), "neither a file nor a directory");
        let file = open_regular(path)?;
        Self::open_file(&file, offset, global, || global.reading(path).offset(offset).open(path))
    }

    /// Opens a copy of standard input.
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
        let head = file.read_at(offset..offset.saturating_add(recognition::LOOK).min(len))?;
        if head.starts_with(&b2kit::frame::MAGIC) {
            let opened = frame().map_err(|error| cut_frame(&head, have).unwrap_or_else(|| error.into()));
            return opened.and_then(|frame| Self::of_frame(frame, global));
        }
        // The start may be damaged but recoverable from the copy at the end.
        if offset == 0
            && let Ok(frame) = frame()
        {
            return Self::of_frame(frame, global);
        }
        // Recognise by content only: pass no file name.
        // With an offset, the frame is inside another file.
        let found = match offset {
            0 => recognition::recognise_file(Path::new(""), &head, have, |buf, at| {
                file.read_exact_at(at, buf)
            })?,
            _ => recognition::recognise(Path::new(""), &head, have),
        };
        match found {
            Some(RecognisedFormat { what: recognition::CHUNK, .. }) | None => {}
            Some(RecognisedFormat { what, hint, .. }) => bail!("not a Blosc2 file but {what}: {hint}"),
        }
        // A chunk has no signature, so it is tried last.
        let header = ChunkHeader::parse(&head).map_err(|error| {
            anyhow::Error::new(error)
                .context(format!("not a Blosc2 file ({})", recognition::first_bytes(&head)))
        })?;
        if header.cbytes() as u64 > have {
            // It may not be a chunk at all: other data that parses as a chunk header rarely has a plausible size.
            let what = "a chunk, or not a Blosc2 file";
            let start = recognition::first_bytes(&head);
            return Err(cut_off(header.cbytes() as u64, have).context(format!("{what} ({start})")));
        }
        let limits = global.limits(len);
        limits.check_memory("stored chunk, in bytes", header.cbytes() as u64)?;
        let bytes = file.read_at(offset..offset.saturating_add(header.cbytes() as u64))?;
        Ok(Self::from_chunk(Chunk::from_bytes(bytes)?, dparams(limits)))
    }

    /// A chunk that may be a part of a file.
    pub(crate) fn from_chunk(chunk: Chunk, dparams: DParams) -> Self {
        Self::Chunk(BareChunk { chunk, dparams })
    }

    /// Like [`from_frame`](Self::from_frame), and as a super-chunk if there are no items and the command reads none.
    pub(crate) fn of_frame(frame: SuperChunk, global: Global) -> Result<Self> {
        match global.opens_itemless && without_items(&frame).is_some() {
            true => Ok(Self::SuperChunk(frame)),
            false => Self::from_frame(frame),
        }
    }

    pub(crate) fn from_frame(frame: SuperChunk) -> Result<Self> {
        if is_array(frame.metalayers()) {
            return Ok(Self::Array(Box::new(NdArray::from_super_chunk(frame)?)));
        }
        NdArray::check_items(&frame)?;
        Ok(Self::SuperChunk(frame))
    }

    /// Warns on standard error if another program has changed the frame at `path` since its checksums were written, or
    /// if its header is damaged and was read from a copy. For commands whose output does not show this.
    pub(crate) fn say_changed(self, path: &Path) -> Self {
        if self.frame().is_some_and(SuperChunk::is_restored) {
            let path = path.display();
            say(&format!(
                "{path}: its header is damaged and was read from a copy; salvage writes an intact file"
            ));
        }
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

    /// The codec and its parameter; `None` if a chunk names none.
    pub(crate) fn codec(&self) -> Option<(CodecId, u8)> {
        match (self.frame(), self) {
            (Some(frame), _) => Some((frame.header().codec(), frame.header().codec_meta())),
            (None, Self::Chunk(chunk)) => Some((chunk.header().codec()?, chunk.header().codec_meta())),
            (None, _) => None,
        }
    }

    /// The filters in order of application.
    pub(crate) fn filters(&self) -> Vec<FilterSlot> {
        let slots = match (self.frame(), self) {
            (Some(frame), _) => frame.header().filters(),
            (None, Self::Chunk(chunk)) => chunk.header().filters(),
            (None, _) => return Vec::new(),
        };
        Filters::used(slots).0
    }

    /// Parameters for decoding.
    pub(crate) fn dparams(&self) -> &DParams {
        match self {
            Self::Array(array) => array.super_chunk().dparams(),
            Self::SuperChunk(frame) => frame.dparams(),
            Self::Chunk(chunk) => &chunk.dparams,
        }
    }

    /// Stored bytes, including unused ones.
    pub(crate) fn stored(&self) -> u64 {
        match self {
            Self::Chunk(chunk) => chunk.cbytes() as u64,
            _ => self.frame().map_or(0, |frame| frame.header().frame_len().max(frame.cbytes())),
        }
    }

    /// Checks the limit `--max-output` for data that is not backed by stored bytes. Does not expand anything.
    pub(crate) fn check_output(&self) -> Result<()> {
        match self {
            Self::Array(array) => Ok(array.check_output()?),
            Self::SuperChunk(frame) => Ok(frame.check_output()?),
            Self::Chunk(chunk) => Ok(chunk.dparams.limits.check_output(self.nbytes(), chunk.stored())?),
        }
    }

    /// Bytes of the data that are not backed by stored bytes, as in [`check_output`](Self::check_output). Counts only
    /// up to about `enough`.
    pub(crate) fn unstored(&self, enough: u64) -> Result<u64> {
        match (self, self.frame()) {
            (_, Some(frame)) if without_items(frame).is_some() => Ok(0),
            (Self::Chunk(chunk), _) => Ok(chunk.dparams.limits.unstored(self.nbytes(), chunk.stored())),
            (_, Some(frame)) => Ok(frame.unstored(0..frame.nchunks(), enough)?.total()),
            _ => Ok(0),
        }
    }

    /// Uncompressed size, as printed without a slice.
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
            Self::SuperChunk(frame) => frame.itemsize(),
            Self::Chunk(chunk) => chunk.header().itemsize(),
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

/// Returns what the frame is, such as "a lazy expression", if it stores no items because python-blosc2 computes or fetches them.
pub(crate) fn without_items(frame: &SuperChunk) -> Option<&'static str> {
    match NdArray::check_items(frame).err()?.detail() {
        NdError::NoItems { what, .. } => Some(what),
        _ => None,
    }
}

/// Whether a frame with these metalayers is an object list of python-blosc2, whose chunks are its entries.
pub(crate) fn is_object_list(layers: &Metalayers) -> bool {
    ["vlarray", "batcharray"].iter().any(|name| layers.get(name).is_some())
}

/// The metalayer with the dimensions that have no end in HDF5: a list of their numbers, from which HDF5 is written again.
pub(crate) const UNLIMITED: &str = "unlimited";

/// Whether a metalayer of this name makes the frame an array.
pub(crate) fn is_array_layer(name: &[u8]) -> bool {
    [METALAYER, OLD_METALAYER].iter().any(|layer| layer.as_bytes() == name)
}

/// Whether these are the metalayers of an array.
pub(crate) fn is_array(metalayers: &Metalayers) -> bool {
    metalayers.iter().any(|(name, _)| is_array_layer(name))
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

/// Returns an error for a truncated frame, or a truncated index of a sparse frame; otherwise
/// `error`.
pub(crate) fn cut_off_or(path: &Path, error: anyhow::Error) -> anyhow::Error {
    // Other errors, such as those of the lock or the disk, are not caused by truncation.
    match crate::process::error::kind_of(&error) {
        Some(ErrorKind::Damaged) => find_cut_off(path).unwrap_or(error),
        _ => error,
    }
}

/// The error for a truncated frame, or index of a sparse frame; `None` if it is not truncated.
pub(crate) fn find_cut_off(path: &Path) -> Option<anyhow::Error> {
    let look = |path: &Path| -> io::Result<Option<anyhow::Error>> {
        let file = open_regular(path)?;
        let len = file.len()?;
        let head = file.read_at(0..recognition::LOOK.min(len))?;
        Ok(head.starts_with(&b2kit::frame::MAGIC).then(|| cut_frame(&head, len)).flatten())
    };
    if urls::is_url(path) {
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
