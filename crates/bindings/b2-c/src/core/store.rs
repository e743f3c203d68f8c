//! The storage of a super-chunk's chunks: a list in memory, whose addresses are visible to C, or a frame.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use b2_chunk::{Chunk, ChunkHeader, Compression, Plugins, SpecialKind};
use b2_frame::{
    Entry, FrameParams, FrameWriter, INDEXES, OutdatedIndexes, SuperChunk, WriteOptions, outdate_indexes,
};
use bytes::Bytes;

use crate::abi::code;
use crate::core::error::{Error, Result, ensure};
use crate::core::frame::{
    Frame, NamedChunk, NamedContent, SharedLock, like, set_chunksize, to_read, to_write,
};
use crate::ffi::memory::MallocBytes;

/// Maximum number of vlmetalayers written to a frame: C-Blosc2 opens a frame with more, but destroys it with its next
/// change.
pub(crate) const MAX_STORED_VLMETALAYERS: usize = 16;

/// The bytes of a chunk, valid even if the chunk is removed in the meantime.
pub(crate) enum ChunkBytes {
    /// From the list.
    Listed(Arc<MallocBytes>),
    /// Read from a frame.
    Read(Bytes),
}

impl Deref for ChunkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Listed(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}

/// The chunks and metalayers of a super-chunk.
pub(crate) enum ChunkStore {
    MemoryChunks(MemoryChunks),
    Frame(Box<Frame>),
}

/// Chunks in memory.
#[derive(Default)]
pub(crate) struct MemoryChunks {
    chunks: Vec<Arc<MallocBytes>>,
    /// Their addresses, visible to C.
    pointers: ChunkPointers,
    metas: Vec<NamedContent>,
    vlmetas: Vec<NamedChunk>,
}

#[derive(Default)]
struct ChunkPointers(Vec<*mut u8>);

/// Reads a chunk of a frame.
pub(crate) fn whole_chunk(reader: &SuperChunk, nchunk: usize) -> Result<ChunkBytes> {
    let chunk = reader.chunk(nchunk);
    let bytes = chunk.read()?.into_bytes();
    if matches!(chunk.entry()?, Entry::Special(_)) {
        // Nothing was read that would have noticed a change of the index.
        reader.check_guard()?;
    }
    Ok(ChunkBytes::Read(bytes))
}

impl ChunkStore {
    /// Returns the number of chunks.
    pub(crate) fn len(&mut self) -> Result<usize> {
        match self {
            Self::MemoryChunks(memory) => Ok(memory.chunks.len()),
            Self::Frame(frame) => match &frame.editor {
                Some(editor) => Ok(editor.nchunks()),
                None => Ok(frame.reader()?.nchunks()),
            },
        }
    }

    fn refresh_locked(&mut self) -> Result<Option<SharedLock>> {
        match self {
            Self::MemoryChunks(_) => Ok(None),
            Self::Frame(frame) => frame.refresh_locked(),
        }
    }

    fn check(&mut self, nchunk: usize) -> Result<()> {
        ensure(nchunk < self.len()?, code::INVALID_PARAM)
    }

    /// Returns the bytes of a chunk.
    pub(crate) fn chunk(&mut self, nchunk: usize) -> Result<ChunkBytes> {
        self.check(nchunk)?;
        match self {
            Self::MemoryChunks(memory) => Ok(ChunkBytes::Listed(memory.chunks[nchunk].clone())),
            Self::Frame(frame) => frame.reading(|reader| whole_chunk(reader, nchunk)),
        }
    }

    /// Returns the address of a chunk in the list.
    pub(crate) fn listed(&self, nchunk: usize) -> Option<(*mut u8, usize)> {
        match self {
            Self::MemoryChunks(memory) => {
                memory.chunks.get(nchunk).map(|chunk| (chunk.as_ptr(), chunk.len()))
            }
            Self::Frame(_) => None,
        }
    }

    /// Returns the header of a chunk and its size in the store, which is 0 if the index of a frame fully describes it.
    pub(crate) fn header(&mut self, nchunk: usize) -> Result<(ChunkHeader, usize)> {
        self.check(nchunk)?;
        match self {
            Self::MemoryChunks(memory) => {
                let header = ChunkHeader::parse(&memory.chunks[nchunk])?;
                let cbytes = header.cbytes();
                Ok((header, cbytes))
            }
            Self::Frame(frame) => frame.reading(|reader| {
                let chunk = reader.chunk(nchunk);
                match (chunk.entry()?, chunk.header()?) {
                    (Entry::Stored(_), Some(header)) => {
                        let cbytes = header.cbytes();
                        Ok((header, cbytes))
                    }
                    _ => Ok((ChunkHeader::parse(&chunk.read()?.into_bytes())?, 0)),
                }
            }),
        }
    }

    /// Returns the bytes of all stored chunks, if they had to be counted for the first change that makes some dead.
    pub(crate) fn count(&mut self) -> Result<Option<u64>> {
        match self {
            Self::MemoryChunks(_) => Ok(None),
            Self::Frame(frame) => frame.count(),
        }
    }

    /// Compacts the file of a frame if much of it is dead. `live` are the bytes of all stored chunks.
    pub(crate) fn reclaim(&mut self, live: u64) {
        if let Self::Frame(frame) = self {
            frame.reclaim(live);
        }
    }

    /// Inserts a chunk; at the end, it is appended. `chunksize` is used if no chunk defines it.
    pub(crate) fn insert(
        &mut self,
        nchunk: usize,
        chunk: MallocBytes,
        chunksize: Option<usize>,
    ) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                ensure(nchunk <= memory.chunks.len(), code::INVALID_PARAM)?;
                memory.outdate_indexes()?;
                memory.reserve(1)?;
                memory.pointers.0.insert(nchunk, chunk.as_ptr());
                memory.chunks.insert(nchunk, Arc::new(chunk));
                Ok(())
            }
            Self::Frame(frame) => {
                let chunk = Chunk::from_bytes(Bytes::from_owner(MallocOwner(chunk)))?;
                frame.change_items(&mut |editor| {
                    set_chunksize(editor, chunksize)?;
                    editor.insert(nchunk, chunk.clone())
                })
            }
        }
    }

    /// Replaces a chunk.
    pub(crate) fn update(&mut self, nchunk: usize, chunk: MallocBytes) -> Result<()> {
        self.check(nchunk)?;
        match self {
            Self::MemoryChunks(memory) => {
                memory.outdate_indexes()?;
                memory.pointers.0[nchunk] = chunk.as_ptr();
                memory.chunks[nchunk] = Arc::new(chunk);
                Ok(())
            }
            Self::Frame(frame) => {
                let chunk = Chunk::from_bytes(Bytes::from_owner(MallocOwner(chunk)))?;
                frame.change_items(&mut |editor| editor.update(nchunk, chunk.clone()))
            }
        }
    }

    /// Removes a chunk.
    pub(crate) fn delete(&mut self, nchunk: usize) -> Result<()> {
        self.check(nchunk)?;
        match self {
            Self::MemoryChunks(memory) => {
                memory.outdate_indexes()?;
                memory.pointers.0.remove(nchunk);
                memory.chunks.remove(nchunk);
                Ok(())
            }
            Self::Frame(frame) => frame.change_items(&mut |editor| editor.delete(nchunk)),
        }
    }

    /// Reorders the chunks.
    pub(crate) fn reorder(&mut self, order: &[usize]) -> Result<()> {
        let len = self.len()?;
        let mut seen = vec![false; len];
        let once = |nchunk: &usize| seen.get_mut(*nchunk).is_some_and(|seen| !std::mem::replace(seen, true));
        ensure(order.len() == len && order.iter().all(once), code::DATA)?;
        match self {
            Self::MemoryChunks(memory) => {
                memory.outdate_indexes()?;
                let ordered = order.iter().map(|nchunk| memory.chunks[*nchunk].clone());
                memory.chunks = b2_core::memory::collect(ordered)?;
                for (pointer, chunk) in memory.pointers.0.iter_mut().zip(&memory.chunks) {
                    *pointer = chunk.as_ptr();
                }
                Ok(())
            }
            Self::Frame(frame) => frame.change_items(&mut |editor| editor.reorder(order)),
        }
    }

    /// Fills an empty super-chunk with chunks of `chunksize` bytes that repeat a value, `nbytes` in all. For the list in memory,
    /// `chunk` is one of them, and `rest` the last one, if it is smaller.
    pub(crate) fn fill_special(
        &mut self,
        kind: SpecialKind,
        nbytes: u64,
        chunksize: usize,
        (chunk, rest): (Option<Chunk>, Option<Chunk>),
    ) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                let chunk = chunk.ok_or(Error(code::FAILURE))?;
                let more = usize::try_from(nbytes / chunksize as u64).unwrap_or(usize::MAX);
                memory.reserve(more.saturating_add(1))?;
                let copies = (0..nbytes / chunksize as u64).map(|_| &chunk).chain(&rest);
                // All of them or none.
                let mut made = b2_core::memory::list(more.saturating_add(1))?;
                for chunk in copies {
                    made.push(MallocBytes::copy(chunk.as_bytes())?);
                }
                made.into_iter().for_each(|chunk| memory.push(chunk));
                Ok(())
            }
            Self::Frame(frame) => frame.change_items(&mut |editor| {
                set_chunksize(editor, Some(chunksize))?;
                editor.append_special(kind, nbytes)
            }),
        }
    }

    pub(crate) fn metas(&mut self) -> Result<Vec<NamedContent>> {
        match self {
            Self::MemoryChunks(memory) => Ok(memory.metas.clone()),
            Self::Frame(frame) => frame.metas(),
        }
    }

    pub(crate) fn vlmetas(&mut self) -> Result<Vec<NamedChunk>> {
        match self {
            Self::MemoryChunks(memory) => Ok(memory.vlmetas.clone()),
            Self::Frame(frame) => frame.vlmetas(),
        }
    }

    /// Returns the content to show to the program instead of a stored vlmetalayer.
    pub(crate) fn shown_vlmeta(&self, name: &[u8]) -> Option<Bytes> {
        match self {
            Self::Frame(frame) if name == INDEXES.as_bytes() => frame.shown_indexes(),
            _ => None,
        }
    }

    /// Adds a metalayer.
    pub(crate) fn add_meta(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                memory.metas.push((name.to_vec(), value.to_vec()));
                Ok(())
            }
            Self::Frame(frame) => frame.add_meta(name, value),
        }
    }

    /// Replaces the content of a metalayer by one of the same length.
    pub(crate) fn update_meta(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                memory.outdate_indexes()?;
                let meta =
                    memory.metas.iter_mut().find(|meta| meta.0 == name).ok_or(Error(code::NOT_FOUND))?;
                meta.1 = value.to_vec();
                Ok(())
            }
            Self::Frame(frame) => frame.change_items(&mut |editor| editor.set_metalayer(name, value)),
        }
    }

    /// Sets a vlmetalayer, given as a chunk. `chunksize` is used if no chunk defines it.
    pub(crate) fn set_vlmeta(&mut self, name: &[u8], chunk: Bytes, chunksize: Option<usize>) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                match memory.vlmetas.iter_mut().find(|meta| meta.0 == name) {
                    Some(meta) => meta.1 = chunk,
                    None => memory.vlmetas.push((name.to_vec(), chunk)),
                }
                Ok(())
            }
            Self::Frame(frame) => {
                let layers = frame.vlmetas()?;
                let is_new = layers.iter().all(|layer| layer.0 != name);
                ensure(!is_new || layers.len() < MAX_STORED_VLMETALAYERS, code::FAILURE)?;
                let chunk = Chunk::from_bytes(chunk)?;
                frame.change(&mut |editor| {
                    set_chunksize(editor, chunksize)?;
                    editor.vlmeta().set_chunk(name, chunk.clone())
                })?;
                if name == INDEXES.as_bytes() {
                    frame.forget_indexes();
                }
                Ok(())
            }
        }
    }

    pub(crate) fn delete_vlmeta(&mut self, name: &[u8]) -> Result<()> {
        match self {
            Self::MemoryChunks(memory) => {
                memory.vlmetas.retain(|meta| meta.0 != name);
                Ok(())
            }
            Self::Frame(frame) => {
                frame.change(&mut |editor| {
                    editor.vlmeta().remove(name);
                    Ok(())
                })?;
                if name == INDEXES.as_bytes() {
                    frame.forget_indexes();
                }
                Ok(())
            }
        }
    }

    /// Returns the chunk addresses of the list, and their size in bytes.
    pub(crate) fn pointers(&mut self) -> (*mut *mut u8, usize) {
        match self {
            Self::MemoryChunks(memory) if !memory.chunks.is_empty() => {
                let pointers = &mut memory.pointers.0;
                (pointers.as_mut_ptr(), pointers.len() * size_of::<*mut u8>())
            }
            _ => (std::ptr::null_mut(), 0),
        }
    }

    /// Writes all chunks and metalayers, except for the description of python-blosc2's indexes, whose files are not
    /// copied.
    fn write(&mut self, mut writer: FrameWriter) -> Result<b2_frame::WrittenFrame> {
        match self {
            Self::MemoryChunks(memory) => {
                for chunk in &memory.chunks {
                    writer.append(Chunk::from_bytes(b2_core::memory::copied(chunk)?)?)?;
                }
                for (name, chunk) in memory.vlmetas.iter().filter(|meta| meta.0 != INDEXES.as_bytes()) {
                    writer.set_vlmetalayer_chunk(name, Chunk::from_bytes(chunk.clone())?)?;
                }
            }
            Self::Frame(frame) => {
                let vlmetas = frame.vlmetas()?;
                frame.reader()?.copy_into(&mut writer, None, None)?;
                for (name, chunk) in vlmetas.into_iter().filter(|meta| meta.0 != INDEXES.as_bytes()) {
                    writer.set_vlmetalayer_chunk(name, Chunk::from_bytes(chunk)?)?;
                }
            }
        }
        Ok(writer.finish()?)
    }

    fn frame_params(&mut self, params: FrameParams) -> Result<FrameParams> {
        let metas = self.metas()?;
        Ok(metas.iter().fold(params, |params, (name, value)| params.metalayer(name, value)))
    }

    /// Returns everything as a contiguous frame. `params` are those of a list in memory.
    pub(crate) fn as_frame(&mut self, params: FrameParams) -> Result<Bytes> {
        match self {
            Self::Frame(frame) => frame.reading(|reader| Ok(reader.to_frame()?)),
            Self::MemoryChunks(_) => {
                let params = self.frame_params(params)?;
                Ok(self.write(to_write().memory(params)?)?.into_bytes())
            }
        }
    }

    /// Returns the last known state of a frame without chunks, if its file cannot be read because of `error`. The state
    /// is complete without the file: programs may empty a file before they write this result to it.
    pub(crate) fn as_last_seen(&mut self, error: Error) -> Result<Bytes> {
        let Self::Frame(frame) = self else { return Err(error) };
        let reader = frame.reader.as_ref().filter(|reader| reader.nchunks() == 0).ok_or(error)?;
        let params = like(reader);
        let params = self.frame_params(params)?;
        Ok(self.write(to_write().memory(params)?)?.into_bytes())
    }

    /// Writes everything to a new file or directory, or to a replaced one if `options` allows it. Returns its length.
    pub(crate) fn save(&mut self, path: &Path, params: FrameParams, options: WriteOptions) -> Result<u64> {
        let _unchanged = self.refresh_locked()?;
        let params = match self {
            Self::Frame(frame) => FrameParams::like(frame.reader()?.header()),
            Self::MemoryChunks(_) => params,
        };
        let params = self.frame_params(params)?;
        Ok(self.write(options.create(path, params)?)?.frame_len)
    }

    /// Appends everything as a frame to a file. Returns its offset.
    pub(crate) fn append_to_file(
        &mut self,
        path: &Path,
        params: FrameParams,
        plugins: &Plugins,
    ) -> Result<u64> {
        let _unchanged = self.refresh_locked()?;
        match self {
            Self::Frame(frame) => Ok(frame.reader()?.append_to_file(path, &to_write())?),
            Self::MemoryChunks(_) => {
                let bytes = self.as_frame(params)?;
                let frame = to_read(None, plugins, 0).from_bytes(bytes)?;
                Ok(frame.append_to_file(path, &to_write())?)
            }
        }
    }
}

impl MemoryChunks {
    /// Creates a list without chunks.
    pub(crate) fn with_metas(metas: &[NamedContent]) -> Self {
        Self { metas: metas.to_vec(), ..Self::default() }
    }

    /// Copies all chunks and metalayers of a frame.
    pub(crate) fn of_frame(frame: &mut Frame) -> Result<Self> {
        let (metas, vlmetas) = (frame.metas()?, frame.vlmetas()?);
        let mut this = Self { metas, vlmetas, ..Self::default() };
        let reader = frame.reader()?;
        this.reserve(reader.nchunks())?;
        for nchunk in 0..reader.nchunks() {
            this.push(MallocBytes::copy(&reader.chunk(nchunk).read()?.into_bytes())?);
        }
        Ok(this)
    }

    /// Marks python-blosc2's indexes as outdated, since the items change.
    fn outdate_indexes(&mut self) -> Result<()> {
        let Some(n) = self.vlmetas.iter().position(|meta| meta.0 == INDEXES.as_bytes()) else {
            return Ok(());
        };
        let value = Chunk::from_bytes(self.vlmetas[n].1.clone()).and_then(|chunk| chunk.decompress_bytes());
        match value.map_or(OutdatedIndexes::Unreadable, |value| outdate_indexes(&value)) {
            OutdatedIndexes::Same => {}
            OutdatedIndexes::New(value) => {
                let cparams = Compression::new().itemsize(1).build()?;
                self.vlmetas[n].1 = Chunk::compress_bytes(&value, &cparams)?.into_bytes();
            }
            OutdatedIndexes::Unreadable => drop(self.vlmetas.remove(n)),
        }
        Ok(())
    }

    /// Returns the bytes of all chunks.
    pub(crate) fn cbytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Makes room for chunks.
    fn reserve(&mut self, more: usize) -> Result<()> {
        b2_core::memory::reserve(&mut self.chunks, more)?;
        Ok(b2_core::memory::reserve(&mut self.pointers.0, more)?)
    }

    /// Appends a chunk, for which there is room.
    fn push(&mut self, chunk: MallocBytes) {
        self.pointers.0.push(chunk.as_ptr());
        self.chunks.push(Arc::new(chunk));
    }
}

/// Bytes from `malloc` as the memory of a chunk.
struct MallocOwner(MallocBytes);

impl AsRef<[u8]> for MallocOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
