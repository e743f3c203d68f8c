//! Super-chunks: the structure that C programs read and write, in front of a [`Store`].
//!
//! A super-chunk may be read from several threads at once, each with a context of its own (`blosc2_schunk_get_lazychunk` and
//! `blosc2_getitem_ctx`, as in functions for blocks); its own contexts and all changes need one thread at a time, as in C.

mod items;
mod lazy;
mod meta;
mod open;

pub(crate) use items::{fill_special, gather};
pub(crate) use lazy::behind;
use lazy::lazy_chunk;
pub(crate) use meta::{add_meta, update_meta};
pub(crate) use open::{
    blosc2_schunk_append_file, blosc2_schunk_free, from_buffer, new, open, to_frame, view_of,
};

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
pub(super) struct Lent {
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
pub(super) unsafe fn copy_storage(storage: *const blosc2_storage) -> Result<*mut blosc2_storage> {
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
pub(super) unsafe fn free_storage(storage: *mut blosc2_storage) {
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
pub(super) enum Held {
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
pub(super) fn copy_part(range: &Range<usize>, block: &Range<usize>, plain: &[u8], dst: &mut [u8]) {
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

pub(super) fn metalayer(name: &[u8], content: &[u8]) -> Result<*mut blosc2_metalayer> {
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
