use std::path::Path;
use std::sync::Arc;

use b2_chunk::memory;
use b2_chunk::{Chunk, Container, DParams, MAX_BLOCKSIZE, MAX_CHUNK_NBYTES, SpecialKind};
use bytes::Bytes;

use crate::checksums::ChunkSums;
use crate::edit::compress_value;
use crate::ends::{self, Content};
use crate::fit::Fit;
use crate::header::{FrameHeader, Storage};
use crate::index::{Entry, MAX_NCHUNKS};
use crate::metalayers::{MAX_METALAYERS, MAX_VLMETALAYERS, Metalayers, check_name, show};
use crate::sink::{DirectorySink, FileSink, Sink};
use crate::staging::{Durability, Staged, Target};
use crate::storage::FileSystem;
use crate::{Disk, FrameError, FrameParams, Structure};

/// Writes a new frame, chunk by chunk. Only the index is kept in memory.
///
/// On disk the frame grows beside its target and takes its name in [`FrameWriter::finish`]: until then, and
/// after an error, the target is as it was, and dropping the writer removes what was written. C-Blosc2 can
/// open, read, append to and resize the result.
///
/// Chunks of zeros, NaNs and uninitialised items are kept in the index where C-Blosc2 can read them there,
/// else they are stored in a form it can read.
///
/// ```
/// use b2_chunk::{CParams, Chunk};
/// use b2_frame::{FrameParams, FrameWriter, SuperChunk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.b2frame");
/// let cparams = CParams::builder(2).build()?;
/// let mut writer = FrameWriter::contiguous(&path, FrameParams::from_cparams(&cparams))?;
/// writer.append(Chunk::compress(&[1, 0, 2, 0, 3, 0], &cparams)?)?;
/// writer.append(Chunk::compress(&[4, 0], &cparams)?)?; // the last one may be shorter
/// writer.set_vlmetalayer("station", b"\xa7north-3")?;
/// let written = writer.finish()?;
/// assert_eq!((written.nchunks, written.nbytes), (2, 8));
///
/// let schunk = SuperChunk::open(&path)?;
/// assert_eq!(schunk.read_items(2..4)?, [3, 0, 4, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FrameWriter {
    sink: Sink,
    header: FrameHeader,
    metalayers: Metalayers,
    vlmetalayers: Vec<(Bytes, Bytes)>,
    max_vlmetalayers: usize,
    sums: Option<ChunkSums>,
    entries: Vec<i64>,
    sizes: Sizes,
    nbytes: u64,
    /// Whether chunks have variable-length blocks; the first one decides.
    vl_blocks: bool,
    fit: Fit,
    abandoned: bool,
}

/// What is known about the chunks' uncompressed sizes.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// Nothing yet.
    Open,
    /// All have this one, but the last may be smaller; `last` is the size of the last one so far.
    Equal { chunksize: usize, last: usize },
    /// Each has its own.
    Individual,
}

/// What [`FrameWriter::finish`] has written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// Number of chunks.
    pub nchunks: usize,
    /// Uncompressed size, in bytes.
    pub nbytes: u64,
    /// Compressed size as the header tells it, in bytes.
    pub cbytes: u64,
    /// Size of the frame, or of the index file of a sparse frame, in bytes.
    pub frame_len: u64,
    bytes: Bytes,
}

impl Written {
    /// The frame, if it was written to memory; otherwise empty.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// How to write a new frame. Made by [`FrameWriter::options`].
#[derive(Clone, Debug)]
pub struct WriteOptions {
    target: Target,
    max_vlmetalayers: usize,
    checksums: bool,
}

impl WriteOptions {
    /// Whether a frame, or any regular file, that has the name already is replaced. A directory is only
    /// replaced if it holds a sparse frame and nothing else.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.target.overwrite = overwrite;
        self
    }

    /// Whether the frame must survive a power loss once it is finished (the default).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.target.durability = durability;
        self
    }

    /// Sets the file system that paths are looked up in.
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.target.fs = fs;
        self
    }

    /// Whether more than 16 vlmetalayers may be written. C-Blosc2 opens such a frame, but destroys it when it
    /// changes it.
    pub fn many_vlmetalayers(mut self, many: bool) -> Self {
        self.max_vlmetalayers = if many { MAX_VLMETALAYERS } else { MAX_METALAYERS };
        self
    }

    /// Whether the frame gets checksums (the default): damage is told when it is read, and which chunk it hit.
    /// C-Blosc2 reads such frames; when it changes them the checksums are gone. They take 8 bytes for each chunk.
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = checksums;
        self
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// How to open what was written so.
    pub(crate) fn to_open(&self, params: &FrameParams) -> crate::OpenOptions {
        crate::OpenOptions {
            dparams: DParams::default().with_plugins(params.plugins.clone()),
            fs: self.target.fs.clone(),
            durability: self.target.durability,
            max_vlmetalayers: self.max_vlmetalayers,
            checksums: self.checksums,
            ..crate::OpenOptions::default()
        }
    }

    /// Starts a contiguous frame in a file.
    ///
    /// # Errors
    /// When the parameters do not fit each other, or the file cannot be created or replaced.
    pub fn contiguous(&self, path: impl AsRef<Path>, params: FrameParams) -> Result<FrameWriter, FrameError> {
        let mut writer = FrameWriter::new(params, Storage::Contiguous, self)?;
        let (staged, file) = Staged::file(self.target.clone(), path.as_ref())?;
        writer.sink = Sink::File(FileSink::new(staged, file, writer.header.header_len())?);
        Ok(writer)
    }

    /// Starts a sparse frame in a directory.
    ///
    /// # Errors
    /// When the parameters do not fit each other, or the directory cannot be created or replaced.
    pub fn sparse(&self, path: impl AsRef<Path>, params: FrameParams) -> Result<FrameWriter, FrameError> {
        let mut writer = FrameWriter::new(params, Storage::Sparse, self)?;
        writer.sink =
            Sink::Directory(DirectorySink::new(Staged::directory(self.target.clone(), path.as_ref())?));
        Ok(writer)
    }

    /// Starts a contiguous frame in memory.
    ///
    /// # Errors
    /// When the parameters do not fit each other.
    pub fn memory(&self, params: FrameParams) -> Result<FrameWriter, FrameError> {
        FrameWriter::new(params, Storage::Contiguous, self)
    }
}

impl FrameWriter {
    /// Starts a contiguous frame in a file that is not there yet.
    ///
    /// # Errors
    /// [`FrameError::Exists`] if it is there; else as [`WriteOptions::contiguous`].
    pub fn contiguous(path: impl AsRef<Path>, params: FrameParams) -> Result<Self, FrameError> {
        Self::options().contiguous(path, params)
    }

    /// Starts a sparse frame in a directory that is not there yet.
    ///
    /// # Errors
    /// [`FrameError::Exists`] if it is there; else as [`WriteOptions::sparse`].
    pub fn sparse(path: impl AsRef<Path>, params: FrameParams) -> Result<Self, FrameError> {
        Self::options().sparse(path, params)
    }

    /// Starts a contiguous frame in memory.
    ///
    /// # Errors
    /// As [`WriteOptions::memory`].
    pub fn memory(params: FrameParams) -> Result<Self, FrameError> {
        Self::options().memory(params)
    }

    /// Options for writing: replacing, durability, file system.
    pub fn options() -> WriteOptions {
        let target = Target { fs: Arc::new(Disk), overwrite: false, durability: Durability::Sync };
        WriteOptions { target, max_vlmetalayers: MAX_METALAYERS, checksums: true }
    }

    fn new(params: FrameParams, storage: Storage, options: &WriteOptions) -> Result<Self, FrameError> {
        let FrameParams { typesize, chunksize, blocksize, .. } = params;
        if typesize == 0 || typesize > MAX_BLOCKSIZE {
            return Err(FrameError::argument(
                "typesize",
                format!("{typesize}, expected 1 to {MAX_BLOCKSIZE}"),
            ));
        }
        if blocksize > MAX_BLOCKSIZE {
            return Err(FrameError::argument("blocksize", format!("{blocksize}, at most {MAX_BLOCKSIZE}")));
        }
        if chunksize.is_some_and(|size| size > MAX_CHUNK_NBYTES) {
            return Err(FrameError::argument("chunksize", format!("at most {MAX_CHUNK_NBYTES} bytes")));
        }
        if params.clevel > 15 {
            return Err(FrameError::argument("clevel", format!("{}, at most 15", params.clevel)));
        }
        // A block of less than an item makes C-Blosc2 refuse chunks of NaNs.
        let blocksize = if blocksize < typesize { 0 } else { blocksize };
        let sizes = match chunksize {
            None => Sizes::Open,
            Some(0) => Sizes::Individual,
            Some(chunksize) => Sizes::Equal { chunksize, last: chunksize },
        };
        let metalayers = Metalayers::new(params.metalayers)?;
        let mut header = FrameHeader {
            header_len: 0,
            frame_len: 0,
            general_flags: 0,
            storage,
            clevel: params.clevel,
            splitmode: params.splitmode,
            nbytes: 0,
            cbytes: 0,
            typesize: typesize as u32,
            blocksize: blocksize as i32,
            chunksize: -1,
            // Not the numbers used: the same data gives the same frame on every machine.
            nthreads: (1, 1),
            has_vlmetalayers: false,
            filters: params.filters,
            codec: params.codec,
            codec_meta: params.codec_meta,
            use_dict: params.use_dict,
        };
        let header_len = header.encode(&metalayers).len();
        let container =
            Container { itemsize: Some(typesize), frame_blocksize: blocksize, ..Container::default() };
        let dparams = DParams::default().with_plugins(params.plugins).with_container(container);
        Ok(Self {
            sink: Sink::Memory(memory::zeroed(header_len)?),
            header,
            metalayers,
            vlmetalayers: Vec::new(),
            max_vlmetalayers: options.max_vlmetalayers,
            sums: options.checksums.then(ChunkSums::default),
            entries: Vec::new(),
            sizes,
            nbytes: 0,
            vl_blocks: false,
            fit: Fit { typesize, blocksize, dparams },
            abandoned: false,
        })
    }

    /// Number of chunks so far.
    pub fn nchunks(&self) -> usize {
        self.entries.len()
    }

    /// Uncompressed size so far, in bytes.
    pub fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// Appends a chunk.
    ///
    /// It is stored as it is unless C-Blosc2 could not read it in a frame (an item size other than the
    /// frame's, the 16-byte header of Blosc1); then it is compressed anew, with default parameters. A chunk
    /// larger than the others, or one behind a smaller one, gives the frame chunks of individual sizes.
    ///
    /// # Errors
    /// When the frame has variable-length blocks and the chunk has not (or the other way round), when it
    /// cannot be written, or decoded where it must be compressed anew.
    pub fn append(&mut self, chunk: Chunk) -> Result<(), FrameError> {
        self.check_vl_blocks(chunk.header().is_vl())?;
        let nbytes = chunk.nbytes();
        if let Some(kind) = self.fit.as_entry(&chunk) {
            return self.guarded(|writer| writer.append_kind(kind, nbytes));
        }
        let chunk = self.fit.fit(chunk).map_err(FrameError::chunk(Structure::Chunk(self.entries.len())))?;
        self.guarded(|writer| {
            writer.make_room(nbytes)?;
            writer.store(&chunk).and_then(|entry| Ok(memory::push(&mut writer.entries, entry)?))
        })
    }

    /// Appends a chunk of `nbytes` zeros, NaNs or uninitialised items.
    ///
    /// # Errors
    /// For repeated values (those are chunks to [`append`](Self::append)), when NaNs do not fit the item size,
    /// and as [`append`](Self::append).
    pub fn append_special(&mut self, kind: SpecialKind, nbytes: usize) -> Result<(), FrameError> {
        if kind == SpecialKind::Value {
            return Err(FrameError::argument("kind", "repeated values are stored chunks"));
        }
        if nbytes == 0 || nbytes > MAX_CHUNK_NBYTES {
            return Err(FrameError::argument(
                "nbytes",
                format!("{nbytes}, expected 1 to {MAX_CHUNK_NBYTES}"),
            ));
        }
        if kind == SpecialKind::NaN && !self.fit.nan_fits(nbytes) {
            return Err(FrameError::argument("nbytes", "NaN needs whole items of 4 or 8 bytes"));
        }
        self.check_vl_blocks(false)?;
        self.guarded(|writer| writer.append_kind(kind, nbytes))
    }

    /// Sets a vlmetalayer, compressed. By convention the value is msgpack. The last value set for a name
    /// counts.
    ///
    /// # Errors
    /// For names that are not 1 to 31 bytes long, and more than 16 of them (see
    /// [`WriteOptions::many_vlmetalayers`]).
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let name = name.as_ref();
        let chunk = compress_value(value, &self.fit.dparams.plugins);
        let chunk = chunk.map_err(FrameError::chunk(Structure::VlMetalayer(show(name))))?;
        self.set_vlmetalayer_chunk(name, chunk)
    }

    /// Sets a vlmetalayer to a value that is compressed already.
    ///
    /// # Errors
    /// As [`set_vlmetalayer`](Self::set_vlmetalayer).
    pub fn set_vlmetalayer_chunk(&mut self, name: impl AsRef<[u8]>, value: Chunk) -> Result<(), FrameError> {
        let name = name.as_ref();
        check_name(name)?;
        let value = value.into_bytes();
        if let Some((_, old)) = self.vlmetalayers.iter_mut().find(|(n, _)| n == name) {
            *old = value;
            return Ok(());
        }
        if self.vlmetalayers.len() >= self.max_vlmetalayers {
            let what = format!("more than {}", self.max_vlmetalayers);
            return Err(FrameError::argument("vlmetalayers", what));
        }
        self.vlmetalayers.push((Bytes::copy_from_slice(name), value));
        Ok(())
    }

    /// Writes index, trailer and header; on disk the frame then takes its name.
    ///
    /// # Errors
    /// When something cannot be written, the target must not be replaced, an earlier call failed, or there
    /// are chunks but all of them are empty (a frame cannot tell them from none). [`FrameError::NotSynced`] alone
    /// says that the frame is there.
    pub fn finish(mut self) -> Result<Written, FrameError> {
        if self.abandoned {
            return Err(FrameError::Abandoned);
        }
        if self.nbytes == 0 && !self.entries.is_empty() {
            return Err(FrameError::argument("chunks", "all of them are empty"));
        }
        let header_len = self.header.header_len() as u64;
        let (chunksize, individual) = match self.sizes {
            Sizes::Open => (-1, false),
            // At most MAX_CHUNK_NBYTES.
            Sizes::Equal { chunksize, .. } => (chunksize as i32, false),
            Sizes::Individual => (0, true),
        };
        let version = if self.vl_blocks || individual { 3 } else { 2 };
        let header = &mut self.header;
        header.general_flags = 0x10 | version | u8::from(individual) << 6 | u8::from(self.vl_blocks) << 7;
        header.chunksize = chunksize;
        header.nbytes = self.nbytes;
        header.cbytes = self.sink.cbytes(header_len);
        header.has_vlmetalayers = !self.vlmetalayers.is_empty();
        let index_at = self.sink.index_at(header_len);
        let content = Content {
            entries: &self.entries,
            vlmetalayers: &self.vlmetalayers,
            sums: self.sums.as_ref(),
            kept: &[],
            index_at,
        };
        let ends = ends::encode(&content, |tail_len| {
            header.frame_len = index_at + tail_len;
            header.encode(&self.metalayers).into()
        })?;
        let bytes = self.sink.finish(&ends.header, &ends.tail)?;
        Ok(Written {
            nchunks: self.entries.len(),
            nbytes: self.nbytes,
            cbytes: self.header.cbytes,
            frame_len: self.header.frame_len,
            bytes,
        })
    }

    /// Runs a change; if it fails half way the frame can no longer be finished.
    fn guarded(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        if self.abandoned {
            return Err(FrameError::Abandoned);
        }
        if self.entries.len() >= MAX_NCHUNKS {
            return Err(FrameError::argument("chunks", format!("more than {MAX_NCHUNKS}")));
        }
        self.abandoned = true;
        let result = change(self);
        self.abandoned = result.is_err();
        result
    }

    fn append_kind(&mut self, kind: SpecialKind, nbytes: usize) -> Result<(), FrameError> {
        self.make_room(nbytes)?;
        let entry = match self.sizes {
            Sizes::Equal { .. } if nbytes.is_multiple_of(self.fit.typesize) => Entry::Special(kind).to_raw(),
            _ => self.store_special(kind, nbytes)?,
        };
        memory::push(&mut self.entries, entry)?;
        Ok(())
    }

    fn check_vl_blocks(&mut self, vl: bool) -> Result<(), FrameError> {
        if self.entries.is_empty() {
            self.vl_blocks = vl;
        }
        if self.vl_blocks != vl {
            let what = "chunks with and without variable-length blocks cannot be mixed";
            return Err(FrameError::argument("chunk", what));
        }
        Ok(())
    }

    /// Accounts for another chunk of `nbytes`.
    fn make_room(&mut self, nbytes: usize) -> Result<(), FrameError> {
        self.sizes = match self.sizes {
            Sizes::Open if nbytes > 0 => Sizes::Equal { chunksize: nbytes, last: nbytes },
            // Behind a smaller chunk none can follow, and an empty one would not be counted.
            Sizes::Equal { chunksize, last } if last == chunksize && (1..=chunksize).contains(&nbytes) => {
                Sizes::Equal { chunksize, last: nbytes }
            }
            Sizes::Equal { chunksize, last } => {
                self.store_specials(chunksize, last)?;
                Sizes::Individual
            }
            Sizes::Open | Sizes::Individual => Sizes::Individual,
        };
        self.nbytes += nbytes as u64;
        Ok(())
    }

    /// Stores what only the index told: with individual sizes it could not tell how large those chunks are.
    fn store_specials(&mut self, chunksize: usize, last: usize) -> Result<(), FrameError> {
        for nchunk in 0..self.entries.len() {
            let raw = self.entries.get(nchunk).copied().unwrap_or_default();
            if let Some(Entry::Special(kind)) = Entry::from_raw(raw) {
                let nbytes = if nchunk + 1 == self.entries.len() { last } else { chunksize };
                let stored = self.store_special(kind, nbytes)?;
                if let Some(entry) = self.entries.get_mut(nchunk) {
                    *entry = stored;
                }
            }
        }
        Ok(())
    }

    fn store_special(&mut self, kind: SpecialKind, nbytes: usize) -> Result<i64, FrameError> {
        let chunk = self.fit.special(kind, nbytes);
        let chunk = chunk.map_err(FrameError::chunk(Structure::Chunk(self.entries.len())))?;
        self.store(&chunk)
    }

    fn store(&mut self, chunk: &Chunk) -> Result<i64, FrameError> {
        let offset = self.sink.append(chunk.as_bytes(), self.header.header_len() as u64)?;
        let raw = Entry::Stored(offset).to_raw();
        if let Some(sums) = &mut self.sums {
            sums.put(raw, chunk.as_bytes())?;
        }
        Ok(raw)
    }
}
