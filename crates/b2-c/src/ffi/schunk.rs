//! Super-chunks: the structure that C programs read and write, in front of a [`Store`].
//!
//! A super-chunk may be read from several threads at once, each with a context of its own (`blosc2_schunk_get_lazychunk` and
//! `blosc2_getitem_ctx`, as in functions for blocks); its own contexts and all changes need one thread at a time, as in C.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use b2_chunk::{Chunk, ChunkHeader, SpecialKind};
use b2_frame::FrameParams;
use bytes::Bytes;

use crate::abi::{
    EXTENDED_HEADER, MAX_METALAYERS, MAX_OVERHEAD, MAX_VLMETALAYERS, METALAYER_NAME_MAXLEN, blosc2_cparams,
    blosc2_dparams, blosc2_io, blosc2_metalayer, blosc2_schunk, blosc2_storage, code,
};
use crate::core::context::{Context, special};
use crate::core::error::{Error, Result, ensure};
use crate::core::params;
use crate::core::store::{Frame, Memory, Store, Stored};
use crate::ffi::callbacks::Call;
use crate::ffi::contexts::{chunk_at, context, create_cctx, create_dctx, schunk_of};
use crate::ffi::memory::{self, Malloced, copied, copied_text, copied_value, free};
use crate::ffi::{at, bytes, bytes_mut, callbacks, guard, io, length, paths, put, text, values};

/// What is behind a `blosc2_schunk *`: what C sees, and after it what it does not.
#[repr(C)]
pub(crate) struct Full {
    pub(crate) c: blosc2_schunk,
    store: Arc<Mutex<Store>>,
    /// Whether the bytes of a frame in memory are freed with it.
    frees: Option<Arc<AtomicBool>>,
    /// The sizes of chunks, where they differ.
    spare: Vec<u8>,
}

/// Returns the super-chunk at a pointer.
///
/// # Safety
/// `schunk` is null or from this library, and nobody else changes it for `'a`.
pub(crate) unsafe fn full<'a>(schunk: *mut blosc2_schunk) -> Result<&'a mut Full> {
    // SAFETY: all super-chunks are made here, as the first field of this structure.
    unsafe { at(schunk.cast()) }
}

/// The bytes that a program gave as a frame.
struct Lent {
    data: *mut u8,
    len: usize,
    frees: Arc<AtomicBool>,
}

// SAFETY: the bytes are only read, and freed by the last owner.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the program promised these bytes for as long as the super-chunk lives.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.frees.load(Ordering::Relaxed) {
            // SAFETY: the program gave the bytes away, from `malloc`.
            unsafe { free(self.data) };
        }
    }
}

/// Copies where and how a super-chunk is stored, into memory of `malloc`.
///
/// # Safety
/// `storage` is null or valid, and so is what it refers to.
unsafe fn copy_storage(storage: *const blosc2_storage) -> Result<*mut blosc2_storage> {
    // SAFETY: the caller promises so.
    let from = unsafe { storage.as_ref() }.unwrap_or(&blosc2_storage::DEFAULT);
    // SAFETY: as above.
    let (cparams, dparams, io) = unsafe {
        (
            from.cparams.as_ref().copied().unwrap_or(blosc2_cparams::DEFAULT),
            from.dparams.as_ref().copied().unwrap_or(blosc2_dparams::DEFAULT),
            from.io.as_ref().copied().unwrap_or(io::DEFAULT),
        )
    };
    let urlpath = match from.urlpath.is_null() {
        true => std::ptr::null_mut(),
        false => {
            // SAFETY: as above.
            let path = paths::without_scheme(unsafe { text(from.urlpath) }?);
            copied_text(path)?
        }
    };
    copied_value(blosc2_storage {
        contiguous: from.contiguous,
        urlpath,
        cparams: copied_value(cparams)?,
        dparams: copied_value(dparams)?,
        io: copied_value(io)?,
    })
}

/// Frees a copied storage.
///
/// # Safety
/// It is null or from [`copy_storage`], and nobody uses it any more.
unsafe fn free_storage(storage: *mut blosc2_storage) {
    // SAFETY: the caller promises so; the program may have replaced parts, which are from `malloc` as well.
    unsafe {
        let Some(parts) = storage.as_mut() else { return };
        free(parts.urlpath);
        free(parts.cparams);
        free(parts.dparams);
        free(parts.io);
        free(storage);
    }
}

impl Full {
    /// Makes the structure for a storage, with contexts and no chunks.
    ///
    /// # Safety
    /// `storage` is from [`copy_storage`].
    unsafe fn new(storage: *mut blosc2_storage, store: Store) -> Result<Box<Self>> {
        let c = blosc2_schunk {
            version: 0,
            compcode: 0,
            compcode_meta: 0,
            clevel: 0,
            splitmode: 0,
            typesize: 0,
            blocksize: 0,
            chunksize: -1,
            flags2: 0,
            use_dict: 0,
            filters: [0; 6],
            filters_meta: [0; 6],
            nchunks: 0,
            current_nchunk: 0,
            nbytes: 0,
            cbytes: 0,
            data: std::ptr::null_mut(),
            data_len: 0,
            storage,
            frame: std::ptr::null_mut(),
            cctx: std::ptr::null_mut(),
            dctx: std::ptr::null_mut(),
            metalayers: [std::ptr::null_mut(); MAX_METALAYERS],
            nmetalayers: 0,
            vlmetalayers: [std::ptr::null_mut(); MAX_VLMETALAYERS],
            nvlmetalayers: 0,
            tuner_params: std::ptr::null_mut(),
            tuner_id: 0,
            ndim: 0,
            blockshape: std::ptr::null_mut(),
            view: false,
            change_tick: 0,
        };
        #[allow(clippy::arc_with_non_send_sync, reason = "the addresses in it are only shown to C")]
        let store = Arc::new(Mutex::new(store));
        let mut this = Box::new(Self { c, store, frees: None, spare: Vec::new() });
        let address = std::ptr::from_mut(&mut *this).cast::<c_void>();
        // SAFETY: the caller promises so.
        let parts = unsafe { at(storage) }?;
        // SAFETY: as above.
        let (cparams, dparams) = unsafe { (at(parts.cparams)?, at(parts.dparams)?) };
        (cparams.schunk, dparams.schunk) = (address, address);
        dparams.typesize = cparams.typesize;
        // SAFETY: as above.
        let (cctx, dctx) = unsafe { (create_cctx(cparams)?, create_dctx(dparams)?) };
        this.c.cctx = Box::into_raw(cctx).cast();
        this.c.dctx = Box::into_raw(dctx).cast();
        let c = &mut this.c;
        (c.compcode, c.compcode_meta, c.clevel) = (cparams.compcode, cparams.compcode_meta, cparams.clevel);
        (c.splitmode, c.use_dict) = (cparams.splitmode as u8, cparams.use_dict as u8);
        (c.typesize, c.blocksize) = (cparams.typesize, cparams.blocksize);
        (c.filters, c.filters_meta) = (cparams.filters, cparams.filters_meta);
        (c.tuner_params, c.tuner_id) = (cparams.tuner_params, cparams.tuner_id);
        Ok(this)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn is_frame(&self) -> bool {
        !self.c.frame.is_null()
    }

    fn io(&self) -> Result<blosc2_io> {
        // SAFETY: the storage is made by `copy_storage`; programs replace its parts only by valid ones.
        unsafe { Ok(*at(at(self.c.storage)?.io)?) }
    }

    pub(crate) fn path(&self) -> Result<Option<&CStr>> {
        // SAFETY: as above.
        let path = unsafe { at(self.c.storage)? }.urlpath;
        // SAFETY: as above.
        if path.is_null() { Ok(None) } else { unsafe { text(path) }.map(Some) }
    }

    /// Returns the context for compressing, which knows the shape of a block.
    pub(crate) fn cctx(&mut self) -> Result<&'static mut Context> {
        let shape = self.blockshape()?;
        // SAFETY: it is from this library, also where the program has replaced it.
        let context = unsafe { context(self.c.cctx) }?;
        context.set_blockshape(&shape);
        Ok(context)
    }

    /// Returns the context for decompressing.
    pub(crate) fn dctx(&mut self) -> Result<&'static mut Context> {
        let shape = self.blockshape()?;
        // SAFETY: as above.
        let context = unsafe { context(self.c.dctx) }?;
        if self.c.typesize > 255 && context.dparams.typesize != self.c.typesize {
            context.dparams.typesize = self.c.typesize;
            context.changed();
        }
        context.set_blockshape(&shape);
        Ok(context)
    }

    fn blockshape(&self) -> Result<Vec<u32>> {
        // SAFETY: `b2nd` sets it with as many sizes as dimensions.
        let shape = unsafe {
            values(self.c.blockshape, if self.c.blockshape.is_null() { 0 } else { length(self.c.ndim)? })
        }?;
        Ok(shape.iter().map(|size| u32::try_from(*size).unwrap_or(u32::MAX)).collect())
    }

    /// Sets the shape of a block, for codecs and filters that need it.
    pub(crate) fn set_blockshape(&mut self, shape: &[i32]) -> Result<()> {
        let shape: Vec<i64> = shape.iter().map(|size| i64::from(*size)).collect();
        // SAFETY: it is null or was made here.
        unsafe { free(self.c.blockshape) };
        self.c.blockshape = memory::copied_values(&shape)?;
        self.c.ndim = shape.len() as i8;
        Ok(())
    }

    /// Returns the parameters for the header of a frame.
    pub(crate) fn frame_params(&mut self) -> Result<FrameParams> {
        let chunksize = self.c.chunksize;
        // SAFETY: as in `cctx`.
        let context = self.cctx()?;
        let params = params::frame(context.compression()?, chunksize);
        Ok(params)
    }

    /// Shows C the addresses of the chunks.
    fn mirror(&mut self) {
        let (data, len) = self.store().pointers();
        (self.c.data, self.c.data_len) = (data, len);
        self.c.change_tick += 1;
    }

    /// Reads again what another handle may have changed.
    pub(crate) fn refresh(&mut self) -> Result<bool> {
        let newer = match &mut *self.store() {
            Store::Frame(frame) => frame.refresh()?,
            Store::Memory(_) => false,
        };
        if newer {
            self.counters()?;
            self.mirror_metas()?;
            self.c.change_tick += 1;
        }
        Ok(newer)
    }

    /// Takes the numbers in the structure from the frame.
    fn counters(&mut self) -> Result<()> {
        let (nchunks, nbytes, cbytes, chunksize) = match &mut *self.store() {
            Store::Frame(frame) => {
                let reader = frame.reader()?;
                (reader.nchunks(), reader.nbytes(), reader.cbytes(), reader.header().stored_chunksize())
            }
            Store::Memory(_) => return Ok(()),
        };
        (self.c.nchunks, self.c.nbytes, self.c.cbytes) = (nchunks as i64, nbytes as i64, cbytes as i64);
        self.c.chunksize = if nchunks == 0 && chunksize == 0 { -1 } else { chunksize };
        Ok(())
    }

    /// Shows C the metalayers.
    fn mirror_metas(&mut self) -> Result<()> {
        self.free_metas();
        let (metas, vlmetas) = {
            let mut store = self.store();
            (store.metas()?, store.vlmetas()?)
        };
        for (place, (name, value)) in self.c.metalayers.iter_mut().zip(&metas) {
            *place = metalayer(name, value)?;
        }
        self.c.nmetalayers = metas.len().min(MAX_METALAYERS) as u16;
        for (place, (name, chunk)) in self.c.vlmetalayers.iter_mut().zip(&vlmetas) {
            *place = metalayer(name, chunk)?;
        }
        self.c.nvlmetalayers = vlmetas.len().min(MAX_VLMETALAYERS) as i16;
        Ok(())
    }

    /// As [`mirror_metas`](Self::mirror_metas), for other modules.
    pub(crate) fn show_metas(&mut self) -> Result<()> {
        self.mirror_metas()
    }

    fn free_metas(&mut self) {
        let (n, nvl) = (usize::from(self.c.nmetalayers), usize::try_from(self.c.nvlmetalayers).unwrap_or(0));
        let metas = self.c.metalayers.iter_mut().take(n).chain(self.c.vlmetalayers.iter_mut().take(nvl));
        for place in metas {
            let meta = std::mem::replace(place, std::ptr::null_mut());
            // SAFETY: it was made by `metalayer`.
            unsafe {
                if let Some(parts) = meta.as_mut() {
                    free(parts.name);
                    free(parts.content);
                }
                free(meta);
            }
        }
        (self.c.nmetalayers, self.c.nvlmetalayers) = (0, 0);
    }

    fn nchunk(&self, nchunk: i64) -> Result<usize> {
        ensure((0..self.c.nchunks).contains(&nchunk), code::INVALID_PARAM)?;
        length(nchunk)
    }

    /// Checks a new chunk against those that are there, and sets the chunk size as C does.
    fn fit(&mut self, nchunk: usize, header: &ChunkHeader, replaces: bool, failed: i32) -> Result<()> {
        let (n, nbytes) = (self.c.nchunks as usize, header.nbytes() as i64);
        let others = n - usize::from(replaces);
        if others > 0 {
            let other = usize::from(replaces && nchunk == 0);
            let is_vl = self.store().header(other)?.0.is_vl();
            ensure(is_vl == header.is_vl(), failed)?;
        } else {
            self.c.flags2 = u8::from(header.is_vl());
        }
        if self.c.chunksize == -1 {
            self.c.chunksize = header.nbytes() as i32;
        } else if self.c.chunksize > 0 {
            let size = i64::from(self.c.chunksize);
            let last = if replaces || n == 0 { size } else { self.store().header(n - 1)?.0.nbytes() as i64 };
            let end = nchunk + usize::from(replaces) == n;
            if nbytes > size && (n > 0 || replaces) || last < size || !end && nbytes != size {
                self.c.chunksize = 0;
            }
            ensure(self.c.chunksize == 0 || nbytes <= size, failed)?;
        }
        Ok(())
    }

    fn stored(&self, header: &ChunkHeader) -> i64 {
        match header.special() {
            Some(SpecialKind::Value) | None => header.cbytes() as i64,
            Some(_) if self.is_frame() => 0,
            Some(_) => header.cbytes() as i64,
        }
    }

    pub(crate) fn insert(&mut self, nchunk: usize, chunk: Malloced, failed: i32) -> Result<i64> {
        let header = ChunkHeader::parse(&chunk)?;
        self.fit(nchunk, &header, false, failed)?;
        self.store().insert(nchunk, chunk)?;
        self.c.current_nchunk = nchunk as i64;
        self.c.nchunks += 1;
        self.c.nbytes += header.nbytes() as i64;
        self.c.cbytes += self.stored(&header);
        self.changed()
    }

    pub(crate) fn update(&mut self, nchunk: usize, chunk: Malloced) -> Result<i64> {
        let header = ChunkHeader::parse(&chunk)?;
        self.fit(nchunk, &header, true, code::CHUNK_UPDATE)?;
        let (old, old_cbytes) = self.store().header(nchunk)?;
        self.store().update(nchunk, chunk)?;
        self.c.current_nchunk = nchunk as i64;
        self.c.nbytes += header.nbytes() as i64 - old.nbytes() as i64;
        self.c.cbytes += self.stored(&header) - old_cbytes as i64;
        self.changed()
    }

    pub(crate) fn delete(&mut self, nchunk: usize) -> Result<i64> {
        let (old, old_cbytes) = self.store().header(nchunk)?;
        if nchunk as i64 + 1 != self.c.nchunks && self.c.chunksize > 0 {
            let last = self.store().header(self.c.nchunks as usize - 1)?.0.nbytes();
            if old.nbytes() != self.c.chunksize as usize || last > self.c.chunksize as usize {
                self.c.chunksize = 0;
            }
        }
        self.store().delete(nchunk)?;
        self.c.nchunks -= 1;
        self.c.nbytes -= old.nbytes() as i64;
        self.c.cbytes -= old_cbytes as i64;
        self.changed()
    }

    /// Makes several changes of a file one commit: all or, after an error, none.
    pub(crate) fn together<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let anew = match &mut *self.store() {
            Store::Frame(frame) => frame.begin()?,
            Store::Memory(_) => false,
        };
        if anew {
            self.counters()?;
            self.mirror_metas()?;
            self.c.change_tick += 1;
        }
        let result = work(self);
        let ended = match &mut *self.store() {
            Store::Frame(frame) => frame.end(result.is_ok()),
            Store::Memory(_) => return result,
        };
        if result.is_err() || ended.is_err() {
            self.counters()?;
            self.mirror_metas()?;
            self.c.change_tick += 1;
        }
        ended.and(result)
    }

    fn changed(&mut self) -> Result<i64> {
        self.mirror();
        if matches!(&*self.store(), Store::Frame(_)) && self.has_other_handles() {
            self.counters()?;
        }
        Ok(self.c.nchunks)
    }

    /// Whether another handle may have changed the frame since the numbers were counted.
    fn has_other_handles(&mut self) -> bool {
        let n = self.store().len();
        n.is_ok_and(|n| n as i64 != self.c.nchunks)
    }

    /// Compresses bytes into a chunk of its own.
    pub(crate) fn compressed(&mut self, nchunk: usize, src: &[u8]) -> Result<Malloced> {
        self.c.current_nchunk = nchunk as i64;
        let mut spare = std::mem::take(&mut self.spare);
        let room = b2_core::memory::sized(&mut spare, src.len() + MAX_OVERHEAD)?;
        let made = self.cctx().and_then(|context| context.compress(src, room));
        let chunk = made.and_then(|cbytes| Malloced::copy(spare.get(..cbytes).unwrap_or_default()));
        // A program with many super-chunks should not keep a buffer for each.
        if spare.len() <= 1 << 20 {
            self.spare = spare;
        }
        chunk
    }

    /// Decompresses a chunk into the start of `dst`. Returns its size.
    pub(crate) fn decompress(&mut self, nchunk: usize, dst: &mut [u8]) -> Result<usize> {
        self.c.current_nchunk = nchunk as i64;
        let dctx = self.dctx()?;
        dctx.decompress(&self.held(nchunk)?, dst)
    }

    /// Returns the bytes of a chunk without holding the store: codecs of programs may use the super-chunk meanwhile.
    fn held(&self, nchunk: usize) -> Result<Held> {
        let mut store = self.store();
        match store.listed(nchunk) {
            Some((data, len)) => Ok(Held::Listed(data, len)),
            None => match store.chunk(nchunk)? {
                Stored::Read(bytes) => Ok(Held::Read(bytes)),
                Stored::Listed(_) => Err(Error(code::FAILURE)),
            },
        }
    }

    /// Decompresses part of a chunk. Of a frame, only the blocks are read that hold it.
    pub(crate) fn read(&mut self, nchunk: usize, range: Range<usize>, dst: &mut [u8]) -> Result<()> {
        self.c.current_nchunk = nchunk as i64;
        let dctx = self.dctx()?;
        let frame = match &mut *self.store() {
            Store::Frame(frame) if dctx.hooks.postparams().is_null() => Some(frame.reader()?.clone()),
            _ => None,
        };
        if let Some(frame) = frame {
            let chunk = frame.chunk(nchunk);
            let head = chunk.head()?;
            ensure(range.end <= head.header().nbytes(), code::INVALID_PARAM)?;
            if !head.header().is_vl() && range.len() * 2 <= head.header().nbytes() {
                let numbers: Vec<usize> = head.blocks_of(range.clone()).collect();
                return Ok(chunk.blocks(&numbers, |nblock, plain| {
                    copy_part(&range, &head.block_range(nblock), plain, dst)
                })?);
            }
        }
        dctx.get_bytes(&self.held(nchunk)?, range, dst)
    }

    /// Returns the uncompressed size of a chunk.
    pub(crate) fn chunk_nbytes(&mut self, nchunk: usize) -> Result<usize> {
        let size = self.c.chunksize;
        if size > 0 && (nchunk as i64) + 1 < self.c.nchunks {
            return length(size);
        }
        Ok(self.store().header(nchunk)?.0.nbytes())
    }
}

/// The bytes of a chunk, also after the store is released.
enum Held {
    Listed(*mut u8, usize),
    Read(Bytes),
}

impl std::ops::Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: chunks in the list stay where they are until the program changes the super-chunk, which it must not do
            // while another call reads it.
            Self::Listed(data, len) => unsafe { std::slice::from_raw_parts(*data, *len) },
            Self::Read(bytes) => bytes,
        }
    }
}

/// Copies the part of a range of a chunk that is in a block.
fn copy_part(range: &Range<usize>, block: &Range<usize>, plain: &[u8], dst: &mut [u8]) {
    let (start, end) = (range.start.max(block.start), range.end.min(block.end));
    if start < end
        && let Some(to) = dst.get_mut(start - range.start..end - range.start)
        && let Some(from) = plain.get(start - block.start..end - block.start)
    {
        to.copy_from_slice(from);
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        self.free_metas();
        // SAFETY: the contexts are from this library, the rest was made here from `malloc`.
        unsafe {
            crate::ffi::contexts::blosc2_free_ctx(self.c.cctx);
            crate::ffi::contexts::blosc2_free_ctx(self.c.dctx);
            free(self.c.blockshape);
            free_storage(self.c.storage);
        }
    }
}

fn metalayer(name: &[u8], content: &[u8]) -> Result<*mut blosc2_metalayer> {
    let text: Vec<u8> = name.iter().copied().chain([0]).collect();
    copied_value(Plain {
        name: copied(&text)?.cast(),
        content: copied(content)?,
        content_len: content.len() as i32,
    })
    .map(|meta| meta.cast())
}

/// [`blosc2_metalayer`], as a value to copy.
#[repr(C)]
#[derive(Clone, Copy)]
struct Plain {
    name: *mut c_char,
    content: *mut u8,
    content_len: i32,
}

/// Returns the whole chunk behind one without its blocks, which the context's super-chunk has.
///
/// # Safety
/// The context's super-chunk is null or valid.
pub(crate) unsafe fn behind(context: &Context, lazy: &[u8]) -> Result<Bytes> {
    // SAFETY: the caller promises so.
    let full = unsafe { full(schunk_of(context)) }?;
    let nchunk = lazy_nchunk(lazy)?;
    let chunk = match full.store().chunk(nchunk)? {
        Stored::Read(bytes) => bytes,
        Stored::Listed(bytes) => Bytes::from(b2_core::memory::copied(bytes)?),
    };
    // The chunk may have been replaced since.
    ensure(chunk.get(4..8) == lazy.get(4..8), code::READ_BUFFER)?;
    Ok(chunk)
}

/// Returns which chunk a lazy chunk stands for.
fn lazy_nchunk(lazy: &[u8]) -> Result<usize> {
    let int = |at: usize| {
        let bytes = lazy.get(at..at.checked_add(4)?)?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    };
    let find = || {
        let (nbytes, blocksize) = (length(int(4)?).ok()?, length(int(8)?).ok()?);
        let nblocks = nbytes.div_ceil(blocksize.max(1));
        let starts = if lazy.get(2)? & 2 != 0 { 0 } else { nblocks };
        length(int(EXTENDED_HEADER + 4 * starts)?).ok()
    };
    find().ok_or(Error(code::INVALID_HEADER))
}

/// Returns a chunk of a frame without its blocks.
fn lazy_chunk(store: &mut Store, nchunk: usize) -> Result<Vec<u8>> {
    let (header, _) = store.header(nchunk)?;
    if header.special().is_some() || header.is_vl() || header.nbytes() == 0 {
        return Ok(store.chunk(nchunk)?.to_vec());
    }
    let Store::Frame(frame) = store else { return Ok(store.chunk(nchunk)?.to_vec()) };
    let chunk = frame.reader()?.chunk(nchunk);
    let head = chunk.head()?;
    let offset = match chunk.entry()? {
        b2_frame::Entry::Stored(offset) => offset as i64,
        b2_frame::Entry::Special(_) => 0,
    };
    let mut lazy = header.to_bytes().to_vec();
    lazy[31] |= 8;
    let extents = || (0..head.nblocks()).map(|nblock| head.block_extent(nblock));
    if !header.is_memcpyed() {
        extents().for_each(|extent| lazy.extend_from_slice(&(extent.start as i32).to_le_bytes()));
    }
    lazy.extend_from_slice(&(nchunk as i32).to_le_bytes());
    lazy.extend_from_slice(&offset.to_le_bytes());
    extents().for_each(|extent| lazy.extend_from_slice(&(extent.len() as i32).to_le_bytes()));
    Ok(lazy)
}

fn finish(this: Box<Full>) -> *mut blosc2_schunk {
    Box::into_raw(this).cast()
}

/// Makes a super-chunk: in memory, in a file, or in a new directory. Nothing is replaced: what is at the path already makes it
/// fail.
///
/// # Safety
/// `storage` is null or valid, and so is what it refers to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_new(storage: *mut blosc2_storage) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { new(storage) }.map(finish))
}

/// # Safety
/// As [`blosc2_schunk_new`].
pub(crate) unsafe fn new(storage: *const blosc2_storage) -> Result<Box<Full>> {
    // SAFETY: the caller promises so.
    let storage = unsafe { copy_storage(storage) }?;
    // SAFETY: it was just made.
    let mut this = unsafe { Full::new(storage, Store::Memory(Memory::default())) }?;
    // SAFETY: as above.
    let contiguous = unsafe { at(storage) }?.contiguous;
    if let Some(path) = this.path()? {
        let path = paths::trimmed(path);
        let (files, locking) = io::files(&this.io()?, true)?;
        ensure(io::is_custom(&this.io()?) || !path.exists(), code::FILE_OPEN)?;
        let path = path.to_owned();
        let params = this.frame_params()?;
        let plugins = callbacks::plugins(&Call::new(this.cctx()?.cparams, blosc2_dparams::DEFAULT));
        let frame = Frame::create(&path, files, locking, !contiguous, params, plugins)?;
        *this.store() = Store::Frame(Box::new(frame));
        this.c.frame = Arc::as_ptr(&this.store).cast_mut().cast();
    } else if contiguous {
        this.c.frame = Arc::as_ptr(&this.store).cast_mut().cast();
    }
    Ok(this)
}

/// Makes the structure for a frame that is there already.
fn of_frame(mut frame: Frame, path: Option<&CStr>, io: &blosc2_io) -> Result<Box<Full>> {
    let reader = frame.reader()?;
    let header = reader.header();
    let filters = header.filters();
    let mut cparams = blosc2_cparams {
        compcode: header.codec().0,
        compcode_meta: header.codec_meta(),
        clevel: header.level().min(9),
        use_dict: c_int::from(header.use_dict()),
        typesize: header.itemsize() as i32,
        blocksize: header.blocksize() as i32,
        splitmode: i32::from(params::splitmode_of(header.splitmode())),
        filters: filters.map(|slot| slot.id.0),
        filters_meta: filters.map(|slot| slot.meta),
        nthreads: crate::ffi::threads::nthreads(),
        ..blosc2_cparams::DEFAULT
    };
    if cparams.blocksize == 0
        && reader.nchunks() > 0
        && let Ok(Some(first)) = reader.chunk(0).header()
    {
        cparams.blocksize = if first.is_vl() { 0 } else { first.blocksize() as i32 };
    }
    let is_vl = reader.nchunks() > 0 && reader.chunk(0).header()?.is_some_and(|first| first.is_vl());
    let contiguous = header.storage() == b2_frame::Storage::Contiguous;
    let mut dparams = blosc2_dparams { nthreads: cparams.nthreads, ..blosc2_dparams::DEFAULT };
    let mut io = *io;
    let storage = blosc2_storage {
        contiguous,
        urlpath: path.map_or(std::ptr::null_mut(), |path| path.as_ptr().cast_mut()),
        cparams: &mut cparams,
        dparams: &mut dparams,
        io: &mut io,
    };
    // SAFETY: all that it refers to is here.
    let storage = unsafe { copy_storage(&storage) }?;
    // SAFETY: it was just made.
    let mut this = unsafe { Full::new(storage, Store::Frame(Box::new(frame))) }?;
    this.c.frame = Arc::as_ptr(&this.store).cast_mut().cast();
    this.c.flags2 = u8::from(is_vl);
    this.counters()?;
    this.mirror_metas()?;
    Ok(this)
}

fn plugins() -> b2_chunk::Plugins {
    callbacks::plugins(&Call::new(blosc2_cparams::DEFAULT, blosc2_dparams::DEFAULT))
}

/// Opens a frame at a path.
///
/// # Safety
/// `urlpath` is null or a C string, `udio` is null or valid.
pub(crate) unsafe fn open(urlpath: *const c_char, offset: i64, udio: *const blosc2_io) -> Result<Box<Full>> {
    // SAFETY: the caller promises so.
    let path = paths::without_scheme(unsafe { text(urlpath) }?);
    // SAFETY: as above.
    let io = unsafe { udio.as_ref() }.copied().unwrap_or(io::DEFAULT);
    let (files, locking) = io::files(&io, false)?;
    let offset = u64::try_from(offset).map_err(|_| Error(code::INVALID_PARAM))?;
    let frame = Frame::open(paths::trimmed(path), files, offset, locking, plugins())?;
    of_frame(frame, Some(path), &io)
}

/// Opens a file or directory.
///
/// # Safety
/// `urlpath` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_open(urlpath: *const c_char) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { open(urlpath, 0, std::ptr::null()) }.map(finish))
}

/// Opens a frame inside a file.
///
/// # Safety
/// `urlpath` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_open_offset(
    urlpath: *const c_char,
    offset: i64,
) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { open(urlpath, offset, std::ptr::null()) }.map(finish))
}

/// Opens a file through functions of the program, or mapped.
///
/// # Safety
/// `urlpath` is null or a C string, `udio` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_open_udio(
    urlpath: *const c_char,
    udio: *const blosc2_io,
) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { open(urlpath, 0, udio) }.map(finish))
}

/// As [`blosc2_schunk_open_udio`], for a frame inside the file.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_open_offset_udio(
    urlpath: *const c_char,
    offset: i64,
    udio: *const blosc2_io,
) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { open(urlpath, offset, udio) }.map(finish))
}

/// Opens a frame in memory.
///
/// # Safety
/// `cframe` has `len` bytes; without `copy` they stay until the super-chunk is freed.
pub(crate) unsafe fn from_buffer(cframe: *mut u8, len: i64, copy: bool) -> Result<Box<Full>> {
    let len = length(len)?;
    ensure(!cframe.is_null(), code::NULL_POINTER)?;
    // Its header says how long the frame is; the buffer may be longer.
    let frees = Arc::new(AtomicBool::new(false));
    let shared = if copy {
        // SAFETY: the caller promises so.
        Bytes::from(b2_core::memory::copied(unsafe { bytes(cframe.cast(), len) }?)?)
    } else {
        Bytes::from_owner(Lent { data: cframe, len, frees: frees.clone() })
    };
    let frame = Frame::from_bytes(shared, plugins())?;
    let mut this = of_frame(frame, None, &io::DEFAULT)?;
    if !copy {
        this.frees = Some(frees);
    }
    Ok(this)
}

/// Opens a frame in memory.
///
/// # Safety
/// `cframe` has `len` bytes; without `copy` they stay until the super-chunk is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_from_buffer(
    cframe: *mut u8,
    len: i64,
    copy: bool,
) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { from_buffer(cframe, len, copy) }.map(finish))
}

/// Sets whether the bytes of a frame in memory stay when the super-chunk is freed, as they do unless this says otherwise; then
/// they are from `malloc`.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_avoid_cframe_free(
    schunk: *mut blosc2_schunk,
    avoid_cframe_free: bool,
) {
    guard(|| {
        // SAFETY: the caller promises so.
        if let Some(frees) = &unsafe { full(schunk) }?.frees {
            frees.store(!avoid_cframe_free, Ordering::Relaxed);
        }
        Ok(())
    });
}

/// Frees a super-chunk.
///
/// # Safety
/// `schunk` is null or a super-chunk that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_free(schunk: *mut blosc2_schunk) -> c_int {
    if schunk.is_null() {
        return 0;
    }
    guard(|| {
        // SAFETY: it came from a box, and the caller gives it back.
        let this = unsafe { Box::from_raw(schunk.cast::<Full>()) };
        let io = this.io()?;
        // Closes the files before their functions are told that it is over.
        drop(this);
        // SAFETY: the parameters of the program are still valid.
        let destroyed = unsafe { io::destroy(&io) };
        Ok(c_int::from(!destroyed))
    })
}

/// Makes another handle on the same chunks, for a view.
pub(crate) fn view_of(of: &mut Full) -> Result<Box<Full>> {
    // SAFETY: the storage of a super-chunk is valid.
    let storage = unsafe { copy_storage(of.c.storage) }?;
    // SAFETY: it was just made; a view does no I/O of its own.
    unsafe { *at(at(storage)?.io)? = io::DEFAULT };
    // SAFETY: as above.
    let mut view = unsafe { Full::new(storage, Store::Memory(Memory::default())) }?;
    view.store = of.store.clone();
    view.c.frame = of.c.frame;
    (view.c.chunksize, view.c.flags2) = (of.c.chunksize, of.c.flags2);
    (view.c.nchunks, view.c.nbytes, view.c.cbytes) = (of.c.nchunks, of.c.nbytes, of.c.cbytes);
    view.c.view = true;
    view.mirror();
    view.mirror_metas()?;
    Ok(view)
}

/// Locks the file of a super-chunk against other programs, if locking is switched on for it. Changes until the unlock become one
/// commit in any case.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_lock(schunk: *mut blosc2_schunk) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        if let Store::Frame(frame) = &mut *full.store() {
            frame.lock()?;
        }
        if full.is_frame() {
            full.counters()?;
            full.mirror_metas()?;
            full.c.change_tick += 1;
        }
        Ok(0)
    })
}

/// Unlocks it.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_unlock(schunk: *mut blosc2_schunk) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        if let Store::Frame(frame) = &mut *unsafe { full(schunk) }?.store() {
            frame.unlock()?;
        }
        Ok(0)
    })
}

/// Looks whether another handle or program has changed the file, and reads anew what it must. Answers 1 if it has.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_refresh(schunk: *mut blosc2_schunk) -> c_int {
    // SAFETY: the caller promises so.
    guard(|| unsafe { full(schunk) }?.refresh().map(c_int::from))
}

/// Answers the super-chunk as a contiguous frame, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_to_buffer(
    schunk: *mut blosc2_schunk,
    cframe: *mut *mut u8,
    needs_free: *mut bool,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        let frame = to_frame(full)?;
        ensure(!cframe.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe {
            put(cframe, copied(&frame)?);
            put(needs_free, true);
        }
        Ok(frame.len() as i64)
    })
}

pub(crate) fn to_frame(full: &mut Full) -> Result<Bytes> {
    let params = full.frame_params()?;
    full.store().as_frame(params)
}

/// Writes the super-chunk as a contiguous frame into a new file. Answers its length.
///
/// # Safety
/// `schunk` is null or a super-chunk, `urlpath` null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_to_file(schunk: *mut blosc2_schunk, urlpath: *const c_char) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let (full, path) = unsafe { (full(schunk)?, text(urlpath)?) };
        let params = full.frame_params()?;
        let len = full.store().save(paths::trimmed(paths::without_scheme(path)), params)?;
        Ok(len as i64)
    })
}

/// Appends the super-chunk as a contiguous frame to a file. Answers where it starts.
///
/// # Safety
/// As [`blosc2_schunk_to_file`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_append_file(
    schunk: *mut blosc2_schunk,
    urlpath: *const c_char,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let (full, path) = unsafe { (full(schunk)?, text(urlpath)?) };
        let params = full.frame_params()?;
        let path: &Path = paths::trimmed(paths::without_scheme(path));
        let offset = full.store().append_to_file(path, params, &plugins())?;
        Ok(offset as i64)
    })
}

/// Copies a super-chunk. Chunks are compressed anew where the parameters differ.
///
/// # Safety
/// `schunk` is null or a super-chunk, `storage` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_copy(
    schunk: *mut blosc2_schunk,
    storage: *mut blosc2_storage,
) -> *mut blosc2_schunk {
    // SAFETY: the caller promises so.
    guard(|| unsafe { copy(full(schunk)?, at(storage)?) }.map(finish))
}

/// # Safety
/// `storage` and what it refers to is valid.
unsafe fn copy(from: &mut Full, storage: &blosc2_storage) -> Result<Box<Full>> {
    let mut storage = *storage;
    let own = from.cctx()?.cparams;
    let mut same = blosc2_cparams {
        nthreads: own.nthreads,
        tuner_params: std::ptr::null_mut(),
        tuner_id: 0,
        prefilter: None,
        preparams: std::ptr::null_mut(),
        ..own
    };
    if storage.cparams.is_null() {
        storage.cparams = &mut same;
    }
    // SAFETY: the caller promises so.
    let wanted = *unsafe { at(storage.cparams) }?;
    let blocksize = if wanted.blocksize == 0 { own.blocksize } else { wanted.blocksize };
    let key = |c: &blosc2_cparams, blocksize: i32| {
        (c.typesize, c.clevel, c.compcode, c.use_dict != 0, blocksize, c.filters, c.filters_meta)
    };
    let hooked = own.prefilter.is_some() || from.dctx()?.dparams.postfilter.is_some();
    let equal = key(&wanted, blocksize) == key(&own, own.blocksize) && !hooked;
    // SAFETY: as above.
    let mut to = unsafe { new(&storage) }?;
    (to.c.chunksize, to.c.flags2) = (from.c.chunksize, from.c.flags2);
    for (name, value) in from.store().metas()? {
        to.store().add_meta(&name, &value)?;
    }
    let mut plain = Vec::new();
    for nchunk in 0..length(from.c.nchunks)? {
        let chunk = if equal || from.c.flags2 & 1 != 0 {
            Malloced::copy(&from.store().chunk(nchunk)?)?
        } else {
            let nbytes = from.chunk_nbytes(nchunk)?;
            let plain = b2_core::memory::sized(&mut plain, nbytes)?;
            from.decompress(nchunk, plain)?;
            to.compressed(nchunk, plain)?
        };
        to.insert(nchunk, chunk, code::CHUNK_APPEND)?;
    }
    for (name, chunk) in from.store().vlmetas()? {
        let value = Chunk::from_bytes(chunk.clone())?.decompress_bytes()?;
        to.store().set_vlmeta(&name, chunk, &value)?;
    }
    to.mirror_metas()?;
    Ok(to)
}

/// Takes a chunk that a program gives: a copy of it, or the memory itself.
///
/// # Safety
/// `chunk` is a chunk; without `copy` it is from `malloc`.
unsafe fn given(full: &Full, chunk: *mut u8, copy: bool) -> Result<(Malloced, bool)> {
    // SAFETY: the caller promises so: a program gives no size, the header has it.
    let bytes = unsafe { chunk_at(chunk.cast(), i32::MAX) }?;
    let lazy = crate::core::header::is_lazy(bytes);
    ensure(!lazy, code::INVALID_PARAM)?;
    if copy || full.is_frame() {
        return Ok((Malloced::copy(bytes)?, !copy));
    }
    // SAFETY: the memory is from `malloc`; a smaller size keeps it valid where `realloc` fails.
    let shrunk = unsafe { libc::realloc(chunk.cast(), bytes.len()) }.cast::<u8>();
    // SAFETY: as above; the program has given it away.
    Ok((unsafe { Malloced::adopt(if shrunk.is_null() { chunk } else { shrunk }, bytes.len()) }?, false))
}

/// Appends a chunk. Answers the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk, `chunk` a chunk; without `copy` it is from `malloc`, and given away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_append_chunk(
    schunk: *mut blosc2_schunk,
    chunk: *mut u8,
    copy: bool,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        // SAFETY: as above.
        let (owned, rest) = unsafe { given(full, chunk, copy) }?;
        let n = full.insert(length(full.c.nchunks)?, owned, code::CHUNK_APPEND)?;
        if rest {
            // SAFETY: it was given away, and has been copied into the frame.
            unsafe { free(chunk) };
        }
        Ok(n)
    })
}

/// Inserts a chunk. Answers the number of chunks.
///
/// # Safety
/// As [`blosc2_schunk_append_chunk`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_insert_chunk(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    chunk: *mut u8,
    copy: bool,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        ensure((0..=full.c.nchunks).contains(&nchunk), code::INVALID_PARAM)?;
        // SAFETY: as above.
        let (owned, rest) = unsafe { given(full, chunk, copy) }?;
        let n = full.insert(length(nchunk)?, owned, code::CHUNK_INSERT)?;
        if rest {
            // SAFETY: as above.
            unsafe { free(chunk) };
        }
        Ok(n)
    })
}

/// Replaces a chunk. Answers the number of chunks.
///
/// # Safety
/// As [`blosc2_schunk_append_chunk`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_update_chunk(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    chunk: *mut u8,
    copy: bool,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let nchunk = full.nchunk(nchunk)?;
        // SAFETY: as above.
        let (owned, rest) = unsafe { given(full, chunk, copy) }?;
        let n = full.update(nchunk, owned)?;
        if rest {
            // SAFETY: as above.
            unsafe { free(chunk) };
        }
        Ok(n)
    })
}

/// Removes a chunk. Answers the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_delete_chunk(schunk: *mut blosc2_schunk, nchunk: i64) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let nchunk = full.nchunk(nchunk)?;
        full.delete(nchunk)
    })
}

/// Compresses bytes and appends them as a chunk. Answers the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk, `src` has `nbytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_append_buffer(
    schunk: *mut blosc2_schunk,
    src: *const c_void,
    nbytes: i32,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let len = length(nbytes)?;
        let blank;
        let src = if src.is_null() && full.cctx()?.cparams.prefilter.is_some() {
            blank = b2_core::memory::zeroed(len)?;
            &blank[..]
        } else {
            // SAFETY: as above.
            unsafe { bytes(src, len) }?
        };
        let nchunk = length(full.c.nchunks)?;
        let chunk = full.compressed(nchunk, src)?;
        full.insert(nchunk, chunk, code::CHUNK_APPEND)
    })
}

/// Decompresses a chunk. Answers its size.
///
/// # Safety
/// `schunk` is null or a super-chunk, `dest` has `nbytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_decompress_chunk(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    dest: *mut c_void,
    nbytes: i32,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let nchunk = full.nchunk(nchunk)?;
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, length(nbytes)?) }?;
        ensure(full.chunk_nbytes(nchunk)? <= dest.len(), code::INVALID_PARAM)?;
        Ok(full.decompress(nchunk, dest)? as c_int)
    })
}

/// Answers a chunk, and whether the caller frees it.
///
/// # Safety
/// `schunk` is null or a super-chunk, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_chunk(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    chunk: *mut *mut u8,
    needs_free: *mut bool,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let nchunk = full.nchunk(nchunk)?;
        full.c.current_nchunk = nchunk as i64;
        // SAFETY: as above.
        unsafe { answer(full, nchunk, chunk, needs_free, |store, nchunk| Ok(store.chunk(nchunk)?.to_vec())) }
    })
}

/// Answers a chunk; of a file, without its blocks, which a context of this super-chunk reads when it needs them.
///
/// # Safety
/// As [`blosc2_schunk_get_chunk`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_lazychunk(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    chunk: *mut *mut u8,
    needs_free: *mut bool,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let nchunk = full.nchunk(nchunk)?;
        full.c.current_nchunk = nchunk as i64;
        // SAFETY: as above.
        unsafe { answer(full, nchunk, chunk, needs_free, lazy_chunk) }
    })
}

/// # Safety
/// As [`blosc2_schunk_get_chunk`].
unsafe fn answer(
    full: &mut Full,
    nchunk: usize,
    chunk: *mut *mut u8,
    needs_free: *mut bool,
    read: impl FnOnce(&mut Store, usize) -> Result<Vec<u8>>,
) -> Result<c_int> {
    ensure(!chunk.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
    let mut store = full.store();
    let (data, len, free) = match store.listed(nchunk) {
        Some((data, len)) => (data, len, false),
        None => {
            let bytes = read(&mut store, nchunk)?;
            (copied(&bytes)?, bytes.len(), true)
        }
    };
    // SAFETY: the caller promises so.
    unsafe {
        put(chunk, data);
        put(needs_free, free);
    }
    Ok(len as c_int)
}

/// Decompresses one block of any length, into memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_vlblock(
    schunk: *mut blosc2_schunk,
    nchunk: i64,
    nblock: i32,
    dest: *mut *mut u8,
    destsize: *mut i32,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        let nchunk = full.nchunk(nchunk)?;
        ensure(!dest.is_null() && !destsize.is_null(), code::NULL_POINTER)?;
        let dctx = full.dctx()?;
        let block = dctx.block(&full.store().chunk(nchunk)?, length(nblock)?)?;
        // SAFETY: as above.
        unsafe {
            put(dest, copied(&block)?);
            put(destsize, block.len() as i32);
        }
        Ok(block.len() as c_int)
    })
}

/// A range of items as bytes.
fn range_of(full: &Full, start: i64, stop: i64) -> Result<(u64, usize)> {
    let size = i64::from(full.c.typesize);
    ensure(start >= 0 && start <= stop && size > 0, code::INVALID_PARAM)?;
    let end = stop.checked_mul(size).filter(|end| *end <= full.c.nbytes).ok_or(Error(code::INVALID_PARAM))?;
    Ok(((start * size) as u64, length(end - start * size)?))
}

/// Calls `work` with each chunk that a range of bytes touches, its part of the range, and the place of that in the range.
fn for_chunks(
    full: &mut Full,
    start: u64,
    len: usize,
    mut work: impl FnMut(&mut Full, usize, Range<usize>, usize) -> Result<()>,
) -> Result<()> {
    let (mut at, mut nchunk) = (0_u64, 0_usize);
    if full.c.chunksize > 0 {
        let size = full.c.chunksize as u64;
        nchunk = (start / size) as usize;
        at = nchunk as u64 * size;
    }
    let end = start + len as u64;
    while at < end {
        let nbytes = full.chunk_nbytes(nchunk)? as u64;
        let (from, to) = (start.max(at), end.min(at + nbytes));
        if from < to {
            work(full, nchunk, (from - at) as usize..(to - at) as usize, (from - start) as usize)?;
        }
        at += nbytes;
        nchunk += 1;
    }
    Ok(())
}

/// Decompresses the items from `start` to before `stop`.
///
/// # Safety
/// `schunk` is null or a super-chunk, `buffer` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_slice_buffer(
    schunk: *mut blosc2_schunk,
    start: i64,
    stop: i64,
    buffer: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let (start, len) = range_of(full, start, stop)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, len) }?;
        for_chunks(full, start, len, |full, nchunk, range, at| {
            let dst = &mut buffer[at..at + range.len()];
            match range.len() == full.chunk_nbytes(nchunk)? {
                true => full.decompress(nchunk, dst).map(|_| ()),
                false => full.read(nchunk, range, dst),
            }
        })?;
        Ok(0)
    })
}

/// Replaces the items from `start` to before `stop`.
///
/// # Safety
/// As [`blosc2_schunk_get_slice_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_set_slice_buffer(
    schunk: *mut blosc2_schunk,
    start: i64,
    stop: i64,
    buffer: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        full.refresh()?;
        let (start, len) = range_of(full, start, stop)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes(buffer, len) }?;
        let mut plain = Vec::new();
        full.together(|full| {
            for_chunks(full, start, len, |full, nchunk, range, at| {
                let nbytes = full.chunk_nbytes(nchunk)?;
                let new = &buffer[at..at + range.len()];
                let chunk = if range.len() == nbytes {
                    full.compressed(nchunk, new)?
                } else {
                    let plain = b2_core::memory::sized(&mut plain, nbytes)?;
                    full.decompress(nchunk, plain)?;
                    plain[range].copy_from_slice(new);
                    full.compressed(nchunk, plain)?
                };
                full.update(nchunk, chunk).map(|_| ())
            })
        })?;
        Ok(0)
    })
}

/// Decompresses single items, in any order.
///
/// # Safety
/// `schunk` is null or a super-chunk, there are `ncoords` coordinates and room for as many items.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_sparse_buffer(
    schunk: *mut blosc2_schunk,
    ncoords: i64,
    coords: *const i64,
    buffer: *mut c_void,
) -> c_int {
    guard(|| {
        ensure(ncoords >= 0, code::INVALID_PARAM)?;
        if ncoords == 0 {
            return Ok(0);
        }
        ensure(!coords.is_null() && !buffer.is_null() && !schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, coords) = unsafe { (full(schunk)?, values(coords, length(ncoords)?)?) };
        let (size, chunksize) = (length(full.c.typesize)?, length(full.c.chunksize)?);
        ensure(size > 0 && chunksize > 0 && chunksize.is_multiple_of(size), code::INVALID_PARAM)?;
        ensure(full.c.flags2 & 1 == 0, code::INVALID_PARAM)?;
        let nitems = full.c.nbytes / size as i64;
        ensure(coords.iter().all(|at| (0..nitems).contains(at)), code::INVALID_PARAM)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, coords.len().saturating_mul(size)) }?;
        let mut order: Vec<usize> = (0..coords.len()).collect();
        order.sort_unstable_by_key(|n| coords[*n]);
        gather(full, size, chunksize, &mut order.iter().map(|n| (*n, coords[*n] as usize)), buffer)?;
        Ok(0)
    })
}

/// Copies items, given in order as their place in `buffer` and their number. Each block is decompressed once.
pub(crate) fn gather(
    full: &mut Full,
    size: usize,
    chunksize: usize,
    items: &mut dyn Iterator<Item = (usize, usize)>,
    buffer: &mut [u8],
) -> Result<()> {
    let (mut block, mut held) = (Vec::new(), (usize::MAX, 0..0));
    let mut sizes = (usize::MAX, 0, 1);
    for (place, item) in items {
        let byte = item * size;
        let (nchunk, at) = (byte / chunksize, byte % chunksize);
        if held.0 != nchunk || !held.1.contains(&at) {
            if sizes.0 != nchunk {
                let (header, _) = full.store().header(nchunk)?;
                sizes = (nchunk, header.nbytes(), header.blocksize().max(1));
            }
            let (_, nbytes, blocksize) = sizes;
            let start = at / blocksize * blocksize;
            // Blocks may end inside of an item.
            let end = nbytes.min((start + blocksize).max(at + size));
            ensure(at + size <= end, code::DATA)?;
            let block = b2_core::memory::sized(&mut block, end - start)?;
            full.read(nchunk, start..end, block)?;
            held = (nchunk, start..end);
        }
        let from = at - held.1.start;
        if at + size > held.1.end {
            full.read(nchunk, at..at + size, &mut buffer[place * size..(place + 1) * size])?;
            continue;
        }
        buffer[place * size..(place + 1) * size].copy_from_slice(&block[from..from + size]);
    }
    Ok(())
}

/// Answers the parameters for compressing, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk, `cparams` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_cparams(
    schunk: *mut blosc2_schunk,
    cparams: *mut *mut blosc2_cparams,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        let c = &full.c;
        let nthreads = if c.cctx.is_null() {
            crate::ffi::threads::nthreads()
        } else {
            // SAFETY: it is from this library.
            unsafe { context(c.cctx) }?.cparams.nthreads
        };
        let answer = blosc2_cparams {
            compcode: c.compcode,
            compcode_meta: c.compcode_meta,
            clevel: c.clevel,
            use_dict: c_int::from(c.use_dict),
            typesize: c.typesize,
            nthreads,
            blocksize: c.blocksize,
            splitmode: i32::from(c.splitmode),
            schunk: schunk.cast(),
            filters: c.filters,
            filters_meta: c.filters_meta,
            ..blosc2_cparams::DEFAULT
        };
        ensure(!cparams.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(cparams, copied_value(answer)?) };
        Ok(0)
    })
}

/// Answers the parameters for decompressing, in memory that the caller frees.
///
/// # Safety
/// As [`blosc2_schunk_get_cparams`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_dparams(
    schunk: *mut blosc2_schunk,
    dparams: *mut *mut blosc2_dparams,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        let nthreads = if full.c.dctx.is_null() {
            crate::ffi::threads::nthreads()
        } else {
            // SAFETY: it is from this library.
            unsafe { context(full.c.dctx) }?.dparams.nthreads
        };
        let answer = blosc2_dparams { nthreads, schunk: schunk.cast(), ..blosc2_dparams::DEFAULT };
        ensure(!dparams.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(dparams, copied_value(answer)?) };
        Ok(0)
    })
}

/// Puts the chunks into another order: the new n-th is the old `offsets_order[n]`-th.
///
/// # Safety
/// `schunk` is null or a super-chunk, there are as many numbers as chunks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_reorder_offsets(
    schunk: *mut blosc2_schunk,
    offsets_order: *mut i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        // SAFETY: as above.
        let order = unsafe { values(offsets_order, length(full.c.nchunks)?) }?;
        let order: Result<Vec<usize>> =
            order.iter().map(|n| usize::try_from(*n).map_err(|_| Error(code::DATA))).collect();
        full.store().reorder(&order?)?;
        full.mirror();
        Ok(0)
    })
}

/// Answers the length that the super-chunk has as a contiguous frame, or that its index file has.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_frame_len(schunk: *mut blosc2_schunk) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        if let Store::Frame(frame) = &mut *full.store() {
            return Ok(frame.reader()?.header().frame_len() as i64);
        }
        Ok(to_frame(full)?.len() as i64)
    })
}

/// Fills an empty super-chunk with chunks of a repeated value, of `chunksize` bytes. Answers the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_fill_special(
    schunk: *mut blosc2_schunk,
    nitems: i64,
    special_value: c_int,
    chunksize: i32,
) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        fill_special(unsafe { full(schunk) }?, nitems, special_value, chunksize)
    })
}

pub(crate) fn fill_special(full: &mut Full, nitems: i64, value: c_int, chunksize: i32) -> Result<i64> {
    if nitems == 0 {
        return Ok(0);
    }
    let size = full.c.typesize;
    ensure(nitems > 0 && size > 0 && chunksize >= size, code::INVALID_PARAM)?;
    ensure(full.c.nbytes == 0 && full.c.nchunks == 0, code::FRAME_SPECIAL)?;
    let kind = match value {
        1 => SpecialKind::Zeros,
        2 => SpecialKind::NaN,
        4 => SpecialKind::Uninit,
        _ => return Err(Error(code::SCHUNK_SPECIAL)),
    };
    let chunksize = chunksize / size * size;
    let nbytes = nitems.checked_mul(i64::from(size)).ok_or(Error(code::SCHUNK_SPECIAL))?;
    let nchunks = (nbytes - 1) / i64::from(chunksize) + 1;
    ensure(nchunks <= i64::from(i32::MAX), code::SCHUNK_SPECIAL)?;
    let cparams = full.cctx()?.cparams;
    let make = |nbytes: usize| special(&cparams, kind, &[], nbytes as i32);
    full.store()
        .fill_special(kind, nbytes as u64, chunksize as usize, &make)
        .map_err(|error| if error.0 == code::MEMORY_ALLOC { error } else { Error(code::SCHUNK_SPECIAL) })?;
    (full.c.chunksize, full.c.nbytes, full.c.nchunks) = (chunksize, nbytes, nchunks);
    if !full.is_frame() {
        full.c.cbytes = nchunks * EXTENDED_HEADER as i64;
    }
    full.mirror();
    Ok(nchunks)
}

/// Answers where the chunks are in the frame, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_frame_get_offsets(schunk: *mut blosc2_schunk) -> *mut i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        ensure(full.is_frame(), code::NULL_POINTER)?;
        let offsets = |reader: &b2_frame::SuperChunk| -> Result<Vec<i64>> {
            let entries = (0..reader.nchunks()).map(|nchunk| reader.chunk(nchunk).entry());
            entries.map(|entry| Ok(entry?.to_raw())).collect()
        };
        let offsets = match &mut *full.store() {
            Store::Frame(frame) => Some(offsets(frame.reader()?)?),
            Store::Memory(_) => None,
        };
        let offsets = match offsets {
            Some(offsets) => offsets,
            None => {
                let mut frame = Frame::from_bytes(to_frame(full)?, plugins())?;
                offsets_of(&mut frame)?
            }
        };
        memory::copied_values(&offsets)
    })
}

fn offsets_of(frame: &mut Frame) -> Result<Vec<i64>> {
    let reader = frame.reader()?;
    (0..reader.nchunks()).map(|nchunk| Ok(reader.chunk(nchunk).entry()?.to_raw())).collect()
}

/// Answers a name from C, of at most 31 bytes.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn name_at<'a>(name: *const c_char) -> Result<&'a [u8]> {
    ensure(!name.is_null(), code::INVALID_PARAM)?;
    // SAFETY: the caller promises so.
    let name = unsafe { text(name) }?.to_bytes();
    ensure(name.len() <= METALAYER_NAME_MAXLEN, code::INVALID_PARAM)?;
    Ok(name)
}

/// # Safety
/// `content` is null or has `content_len` bytes.
unsafe fn content_at<'a>(content: *const u8, content_len: i32) -> Result<&'a [u8]> {
    // SAFETY: the caller promises so.
    unsafe { bytes(content.cast(), length(content_len)?) }.map_err(|_| Error(code::INVALID_PARAM))
}

/// Adds a metalayer. Answers its number.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string, `content` has `content_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_meta_add(
    schunk: *mut blosc2_schunk,
    name: *const c_char,
    content: *mut u8,
    content_len: i32,
) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name, content) =
            unsafe { (full(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        add_meta(full, name, content)
    })
}

pub(crate) fn add_meta(full: &mut Full, name: &[u8], content: &[u8]) -> Result<c_int> {
    let metas = full.store().metas()?;
    ensure(!metas.iter().any(|meta| meta.0 == name), code::INVALID_PARAM)?;
    ensure(metas.len() < MAX_METALAYERS, code::INVALID_PARAM)?;
    full.store().add_meta(name, content)?;
    full.mirror_metas()?;
    Ok(metas.len() as c_int)
}

/// Replaces the start of a metalayer. Answers its number.
///
/// # Safety
/// As [`blosc2_meta_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_meta_update(
    schunk: *mut blosc2_schunk,
    name: *const c_char,
    content: *mut u8,
    content_len: i32,
) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name, content) =
            unsafe { (full(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        update_meta(full, name, content)
    })
}

pub(crate) fn update_meta(full: &mut Full, name: &[u8], content: &[u8]) -> Result<c_int> {
    full.refresh()?;
    let metas = full.store().metas()?;
    let n = metas.iter().position(|meta| meta.0 == name).ok_or(Error(code::NOT_FOUND))?;
    let mut value = metas[n].1.clone();
    value.get_mut(..content.len()).ok_or(Error(code::INVALID_PARAM))?.copy_from_slice(content);
    full.store().update_meta(name, &value)?;
    full.mirror_metas()?;
    Ok(n as c_int)
}

fn vlmeta_at(full: &mut Full, name: &[u8]) -> Result<(usize, Bytes)> {
    let metas = full.store().vlmetas()?;
    let n = metas.iter().position(|meta| meta.0 == name).ok_or(Error(code::NOT_FOUND))?;
    Ok((n, metas[n].1.clone()))
}

/// Answers the number of a metalayer of any length.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_exists(schunk: *mut blosc2_schunk, name: *const c_char) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name) = unsafe { (full(schunk)?, name_at(name)?) };
        full.refresh()?;
        Ok(vlmeta_at(full, name)?.0 as c_int)
    })
}

/// # Safety
/// `cparams` is null or valid.
unsafe fn set_vlmeta(
    full: &mut Full,
    name: &[u8],
    content: &[u8],
    cparams: *mut blosc2_cparams,
) -> Result<()> {
    // SAFETY: the caller promises so.
    let cparams = unsafe { cparams.as_ref() }.copied().unwrap_or(blosc2_cparams::DEFAULT);
    let cparams = blosc2_cparams { schunk: std::ptr::null_mut(), ..cparams };
    // SAFETY: as above.
    let mut context = unsafe { create_cctx(&cparams) }?;
    let mut chunk = b2_core::memory::zeroed(content.len() + MAX_OVERHEAD)?;
    let cbytes = context.compress(content, &mut chunk)?;
    chunk.truncate(cbytes);
    full.store().set_vlmeta(name, chunk.into(), content)?;
    full.c.change_tick += 1;
    full.mirror_metas()
}

/// Adds a metalayer of any length. Answers its number.
///
/// # Safety
/// As [`blosc2_meta_add`]; `cparams` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_add(
    schunk: *mut blosc2_schunk,
    name: *const c_char,
    content: *mut u8,
    content_len: i32,
    cparams: *mut blosc2_cparams,
) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name, content) =
            unsafe { (full(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        full.refresh()?;
        let n = full.store().vlmetas()?.len();
        ensure(vlmeta_at(full, name).is_err() && n < MAX_VLMETALAYERS, code::INVALID_PARAM)?;
        // SAFETY: as above.
        unsafe { set_vlmeta(full, name, content, cparams) }?;
        Ok(n as c_int)
    })
}

/// Replaces a metalayer of any length. Answers its number.
///
/// # Safety
/// As [`blosc2_vlmeta_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_update(
    schunk: *mut blosc2_schunk,
    name: *const c_char,
    content: *mut u8,
    content_len: i32,
    cparams: *mut blosc2_cparams,
) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name, content) =
            unsafe { (full(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        full.refresh()?;
        let (n, _) = vlmeta_at(full, name)?;
        // SAFETY: as above.
        unsafe { set_vlmeta(full, name, content, cparams) }?;
        Ok(n as c_int)
    })
}

/// Answers the content of a metalayer of any length, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_get(
    schunk: *mut blosc2_schunk,
    name: *const c_char,
    content: *mut *mut u8,
    content_len: *mut i32,
) -> c_int {
    guard(|| {
        ensure(!schunk.is_null() && !content.is_null() && !content_len.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name) = unsafe { (full(schunk)?, name_at(name)?) };
        full.refresh()?;
        let (n, chunk) = vlmeta_at(full, name)?;
        let plain = Chunk::from_bytes(chunk)?.decompress_bytes()?;
        // SAFETY: as above.
        unsafe {
            put(content, copied(&plain)?);
            put(content_len, plain.len() as i32);
        }
        Ok(n as c_int)
    })
}

/// Removes a metalayer of any length. Answers how many are left.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_delete(schunk: *mut blosc2_schunk, name: *const c_char) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (full, name) = unsafe { (full(schunk)?, name_at(name)?) };
        full.refresh()?;
        vlmeta_at(full, name)?;
        full.store().delete_vlmeta(name)?;
        full.mirror_metas()?;
        Ok(c_int::from(full.c.nvlmetalayers))
    })
}

/// Answers the names of the metalayers of any length, which belong to the super-chunk.
///
/// # Safety
/// `schunk` is null or a super-chunk; there is room for as many names as it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_get_names(
    schunk: *mut blosc2_schunk,
    names: *mut *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        let n = usize::try_from(full.c.nvlmetalayers).unwrap_or(0);
        for (place, meta) in full.c.vlmetalayers.iter().take(n).enumerate() {
            // SAFETY: as above; the metalayers were made by `mirror_metas`.
            unsafe { put(names.add(place), at(*meta)?.name) };
        }
        Ok(n as c_int)
    })
}
