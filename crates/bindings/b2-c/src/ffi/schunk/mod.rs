//! Super-chunks: the structure visible to C programs, followed by a [`ChunkStore`].
//!
//! A super-chunk may be read from several threads concurrently, and by block functions during a call. All functions
//! here take it as a shared reference; its numbers are atomics, its chunks are behind a lock that is not held while
//! callbacks run. Changes need one thread at a time, as in C: they free memory visible to C, like `schunk->data`.

pub(super) mod items;
mod lazy;
pub(super) mod meta;
pub(super) mod open;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use b2_chunk::{Chunk, ChunkHeader, SpecialKind};
use b2_frame::{Entry, FrameParams, SuperChunk};
use bytes::Bytes;

use crate::abi::{
    EXTENDED_HEADER, Field, MAX_BUFFERSIZE, MAX_FILTERS, MAX_METALAYERS, MAX_OVERHEAD, MAX_VLMETALAYERS,
    METALAYER_NAME_MAXLEN, blosc2_cparams, blosc2_dparams, blosc2_io, blosc2_metalayer, blosc2_schunk,
    blosc2_storage, code, values_of,
};
use crate::core::context::{Context, special};
use crate::core::error::{Error, Result, ensure};
use crate::core::frame::{Frame, NamedContent, SharedLock, to_write};
use crate::core::params;
use crate::core::store::{ChunkBytes, ChunkStore, MemoryChunks};
use crate::ffi::callbacks::{CallContext, has_own_plugins};
use crate::ffi::contexts::{chunk_at, context, create_cctx, create_dctx, schunk_of};
use crate::ffi::memory::{self, MallocBytes, copied, copied_text, copied_value, free};
use crate::ffi::{
    bytes, bytes_mut, callbacks, copy_at, guard, io, length, locked, paths, put, shared, size, text, values,
};

pub(crate) use items::{fill_special, gather};
pub(crate) use lazy::{parsed_header, stored_after};
pub(crate) use meta::update_meta;
pub(crate) use open::{
    blosc2_schunk_append_file, blosc2_schunk_free, from_buffer, new, open, to_frame, view_of,
};

/// The target of a `blosc2_schunk *`: the fields visible to C, followed by private ones.
#[repr(C)]
pub(crate) struct SchunkState {
    pub(crate) c: blosc2_schunk,
    store: Arc<Mutex<ChunkStore>>,
    /// Whether the bytes of a frame in memory are freed with the super-chunk.
    frees: Option<Arc<AtomicBool>>,
    /// Buffer for compressing a chunk.
    spare: Mutex<Vec<u8>>,
    /// The shape of a block, which `c.blockshape` points to.
    blockshape: Mutex<Arc<[u32]>>,
    /// Locked while the metalayers visible to C are replaced.
    shown: Mutex<()>,
}

/// Returns the super-chunk at a pointer.
///
/// # Safety
/// `schunk` is null or from this library, and not freed for `'a`.
pub(crate) unsafe fn state<'a>(schunk: *mut blosc2_schunk) -> Result<&'a SchunkState> {
    // SAFETY: all super-chunks are created here as the first field of this structure, whose fields are atomics and
    // locks.
    unsafe { shared(schunk.cast_const().cast()) }
}

/// The bytes of a frame passed by a program.
pub(super) struct BorrowedFrame {
    data: *mut u8,
    len: usize,
    frees: Arc<AtomicBool>,
}

// SAFETY: the bytes are only read, and freed by the last owner.
unsafe impl Send for BorrowedFrame {}

// SAFETY: as above.
unsafe impl Sync for BorrowedFrame {}

impl AsRef<[u8]> for BorrowedFrame {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the program guarantees these bytes as long as the super-chunk lives.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Drop for BorrowedFrame {
    fn drop(&mut self) {
        if self.frees.load(Ordering::Relaxed) {
            // SAFETY: the program passed ownership of the bytes, from `malloc`.
            unsafe { free(self.data) };
        }
    }
}

/// Copies the storage of a super-chunk into memory from `malloc`.
///
/// # Safety
/// `storage` is null or valid, and so are its pointers.
pub(super) unsafe fn copy_storage(storage: *const blosc2_storage) -> Result<*mut blosc2_storage> {
    // SAFETY: guaranteed by the caller.
    let from = unsafe { storage.as_ref() }.copied().unwrap_or(blosc2_storage::DEFAULT);
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
/// It is null or from [`copy_storage`], and no longer in use.
pub(super) unsafe fn free_storage(storage: *mut blosc2_storage) {
    // SAFETY: guaranteed by the caller; the program may have replaced parts with others from `malloc`.
    unsafe {
        let Ok(parts) = copy_at(storage) else { return };
        free(parts.urlpath);
        free(parts.cparams);
        free(parts.dparams);
        free(parts.io);
        free(storage);
    }
}

impl SchunkState {
    /// Creates the structure for a storage, with contexts and no chunks.
    ///
    /// # Safety
    /// `storage` is from [`copy_storage`].
    unsafe fn new(storage: *mut blosc2_storage, store: ChunkStore) -> Result<Box<Self>> {
        #[allow(clippy::arc_with_non_send_sync, reason = "the addresses in it are only shown to C")]
        let store = Arc::new(Mutex::new(store));
        let (spare, blockshape, shown) = (Mutex::default(), Mutex::default(), Mutex::default());
        // The structure for C has 64 KiB, mostly pointers to metalayers, so it is not created on the stack and copied.
        // SAFETY: the layout is not empty.
        let memory = unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::new::<Self>()) }.cast::<Self>();
        ensure(!memory.is_null(), code::MEMORY_ALLOC)?;
        // SAFETY: the memory has the layout of a box. All fields of `c` are numbers and pointers, for which zeros are
        // valid; the others are written here.
        let this = unsafe {
            (&raw mut (*memory).store).write(store);
            (&raw mut (*memory).frees).write(None);
            (&raw mut (*memory).spare).write(spare);
            (&raw mut (*memory).blockshape).write(blockshape);
            (&raw mut (*memory).shown).write(shown);
            Box::from_raw(memory)
        };
        this.c.chunksize.set(-1);
        this.c.storage.set(storage);
        let address = std::ptr::from_ref(&*this).cast_mut().cast::<c_void>();
        // SAFETY: guaranteed by the caller.
        let parts = unsafe { copy_at(storage) }?;
        // SAFETY: as above.
        let (mut cparams, mut dparams) = unsafe { (copy_at(parts.cparams)?, copy_at(parts.dparams)?) };
        (cparams.schunk, dparams.schunk) = (address, address);
        dparams.typesize = cparams.typesize;
        // SAFETY: as above.
        unsafe {
            put(parts.cparams, cparams);
            put(parts.dparams, dparams);
        }
        // SAFETY: as above.
        let (cctx, dctx) = unsafe { (create_cctx(&cparams)?, create_dctx(&dparams)?) };
        let c = &this.c;
        c.cctx.set(Box::into_raw(cctx).cast());
        c.dctx.set(Box::into_raw(dctx).cast());
        c.compcode.set(cparams.compcode);
        c.compcode_meta.set(cparams.compcode_meta);
        c.clevel.set(cparams.clevel);
        c.splitmode.set(cparams.splitmode as u8);
        c.use_dict.set(cparams.use_dict as u8);
        c.typesize.set(cparams.typesize);
        c.blocksize.set(cparams.blocksize);
        for n in 0..MAX_FILTERS {
            c.filters[n].set(cparams.filters[n]);
            c.filters_meta[n].set(cparams.filters_meta[n]);
        }
        c.tuner_params.set(cparams.tuner_params);
        c.tuner_id.set(cparams.tuner_id);
        Ok(this)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, ChunkStore> {
        locked(&self.store)
    }

    pub(crate) fn is_frame(&self) -> bool {
        !self.c.frame.get().is_null()
    }

    fn io(&self) -> Result<blosc2_io> {
        // SAFETY: the storage comes from `copy_storage`; programs replace its parts only with valid ones.
        unsafe { copy_at(copy_at(self.c.storage.get())?.io) }
    }

    pub(crate) fn path(&self) -> Result<Option<&CStr>> {
        // SAFETY: as above.
        let path = unsafe { copy_at(self.c.storage.get())? }.urlpath;
        // SAFETY: as above.
        if path.is_null() { Ok(None) } else { unsafe { text(path) }.map(Some) }
    }

    /// Returns whether the super-chunk is one frame, not a list of chunks or a directory.
    pub(crate) fn is_contiguous(&self) -> Result<bool> {
        // SAFETY: as above.
        Ok(unsafe { copy_at(self.c.storage.get()) }?.contiguous)
    }

    /// Returns whether this is another handle on the same chunks, such as a view.
    pub(crate) fn has_chunks_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Returns the context for compressing, with the shape of a block set.
    pub(crate) fn cctx(&self) -> Result<&Context> {
        // SAFETY: it is from this library, even if the program has replaced it, and is freed with the super-chunk.
        let context = unsafe { context(self.c.cctx.get()) }?;
        context.set_blockshape(&locked(&self.blockshape));
        Ok(context)
    }

    /// Returns the context for decompressing.
    pub(crate) fn dctx(&self) -> Result<&Context> {
        // SAFETY: as above.
        let context = unsafe { context(self.c.dctx.get()) }?;
        let typesize = self.c.typesize.get();
        if typesize > 255 {
            context
                .change(|settings| std::mem::replace(&mut settings.dparams.typesize, typesize) != typesize);
        }
        context.set_blockshape(&locked(&self.blockshape));
        Ok(context)
    }

    /// Sets the shape of a block, for codecs and filters that need it.
    pub(crate) fn set_blockshape(&self, shape: &[i32]) -> Result<()> {
        let mut blockshape = locked(&self.blockshape);
        let sizes: Vec<i64> = shape.iter().map(|size| i64::from(*size)).collect();
        let shown = self.c.blockshape.swap(memory::copied_values(&sizes)?, Ordering::AcqRel);
        // SAFETY: it is null or was created here.
        unsafe { free(shown) };
        self.c.ndim.set(shape.len() as i8);
        *blockshape = shape.iter().map(|size| u32::try_from(*size).unwrap_or(u32::MAX)).collect();
        Ok(())
    }

    /// The shape of a block if it was requested earlier; empty otherwise.
    pub(crate) fn known_blockshape(&self) -> Arc<[u32]> {
        locked(&self.blockshape).clone()
    }

    /// Returns the parameters for the header of a frame.
    pub(crate) fn frame_params(&self) -> Result<FrameParams> {
        Ok(params::frame(&self.cctx()?.compression()?, self.c.chunksize.get()))
    }

    /// Updates the chunk addresses visible to C.
    fn mirror(&self) {
        let (data, len) = self.store().pointers();
        self.c.data.set(data);
        self.c.data_len.set(len);
        self.c.change_tick.add(1);
    }

    /// Reloads changes of other handles.
    pub(crate) fn refresh(&self) -> Result<bool> {
        self.refresh_locked(false).map(|(newer, _)| newer)
    }

    /// Like [`refresh`](Self::refresh). With locking on, the frame cannot change as long as the result lives, not even
    /// by this handle. `to_read`: only chunks are read next, which finds changes, too.
    fn refresh_locked(&self, to_read: bool) -> Result<(bool, Option<SharedLock>)> {
        let (newer, shared) = match &mut *self.store() {
            ChunkStore::Frame(frame) => frame.refresh(to_read)?,
            ChunkStore::MemoryChunks(_) => (false, None),
        };
        if newer {
            self.refresh_counters()?;
        }
        Ok((newer, shared))
    }

    /// Reloads changes of other handles before a read. With locking on, they cannot change the frame again as long as the
    /// result lives, so that the read returns one state of it. There is no lock if callbacks of the program may run in the
    /// meantime: they may change the frame.
    pub(crate) fn lock_to_decode(&self, to_read: bool) -> Result<Option<SharedLock>> {
        let (_, shared) = self.refresh_locked(to_read)?;
        let callbacks = shared.is_some() && (has_own_plugins() || self.dctx()?.hooks.has_postfilter());
        Ok(shared.filter(|_| !callbacks))
    }

    /// Reads chunks in one state of the frame, after reloading changes of other handles. With locking on, these wait, unless
    /// `read` decodes and callbacks of the program may run. Without a lock, a read that fails next to a change is repeated.
    fn reading<T>(&self, decodes: bool, mut read: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        let shared = if decodes { self.lock_to_decode(true)? } else { self.refresh_locked(true)?.1 };
        let result = read(self);
        if result.is_err() && shared.is_none() && self.refresh().is_ok_and(|newer| newer) {
            return read(self);
        }
        result
    }

    /// Refreshes the fields visible to C.
    fn refresh_counters(&self) -> Result<()> {
        self.counters()?;
        self.mirror_metas()?;
        self.c.change_tick.add(1);
        Ok(())
    }

    /// Updates the numbers in the structure from the frame.
    fn counters(&self) -> Result<()> {
        let (nchunks, nbytes, cbytes, chunksize) = match &mut *self.store() {
            ChunkStore::Frame(frame) => {
                frame.forget_count();
                let reader = frame.reader()?;
                // The number in the header includes remains of an old index, even if nothing else is stored.
                let mut entries = (0..reader.nchunks()).map(|nchunk| reader.chunk(nchunk).entry());
                let nothing = entries.all(|entry| matches!(entry, Ok(Entry::Special(_))));
                let cbytes = if nothing { 0 } else { reader.cbytes() };
                (reader.nchunks(), reader.nbytes(), cbytes, reader.header().stored_chunksize())
            }
            ChunkStore::MemoryChunks(_) => return Ok(()),
        };
        self.c.nchunks.set(nchunks as i64);
        self.c.nbytes.set(nbytes as i64);
        self.c.cbytes.set(cbytes as i64);
        // Without chunks, the program may still set their size.
        if nchunks > 0 || chunksize > 0 {
            self.c.chunksize.set(chunksize);
        }
        Ok(())
    }

    /// Updates the metalayers visible to C.
    pub(crate) fn mirror_metas(&self) -> Result<()> {
        let (metas, vlmetas) = {
            let mut store = self.store();
            (store.metas()?, store.vlmetas()?)
        };
        let shown = locked(&self.shown);
        self.free_metas(&shown);
        for (place, (name, value)) in self.c.metalayers.iter().zip(&metas) {
            place.set(metalayer(name, value)?);
            self.c.nmetalayers.add(1);
        }
        for (place, (name, chunk)) in self.c.vlmetalayers.iter().zip(&vlmetas) {
            place.set(metalayer(name, chunk)?);
            self.c.nvlmetalayers.add(1);
        }
        Ok(())
    }

    fn free_metas(&self, _shown: &MutexGuard<'_, ()>) {
        let n = usize::from(self.c.nmetalayers.get());
        let nvl = usize::try_from(self.c.nvlmetalayers.get()).unwrap_or(0);
        self.c.nmetalayers.set(0);
        self.c.nvlmetalayers.set(0);
        for place in self.c.metalayers.iter().take(n).chain(self.c.vlmetalayers.iter().take(nvl)) {
            let meta = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: it was created by `metalayer`, and the lock excludes other users in this library.
            unsafe {
                if let Ok(parts) = copy_at(meta) {
                    free(parts.name);
                    free(parts.content);
                }
                free(meta);
            }
        }
    }

    fn nchunk(&self, nchunk: i64) -> Result<usize> {
        ensure((0..self.c.nchunks.get()).contains(&nchunk), code::INVALID_PARAM)?;
        length(nchunk)
    }

    /// Checks a new chunk against existing ones, and sets the chunk size like C.
    fn fit(&self, nchunk: usize, header: &ChunkHeader, replaces: bool, failed: i32) -> Result<()> {
        let (n, nbytes) = (self.c.nchunks.get() as usize, header.nbytes() as i64);
        let others = n - usize::from(replaces);
        if others > 0 {
            let other = usize::from(replaces && nchunk == 0);
            let is_vl = self.store().header(other)?.0.is_vl();
            ensure(is_vl == header.is_vl(), failed)?;
        } else {
            self.c.flags2.set(u8::from(header.is_vl()));
        }
        let size = i64::from(self.c.chunksize.get());
        if size == -1 {
            self.c.chunksize.set(header.nbytes() as i32);
        } else if size > 0 {
            let last = if replaces || n == 0 { size } else { self.store().header(n - 1)?.0.nbytes() as i64 };
            let end = nchunk + usize::from(replaces) == n;
            if nbytes > size && (n > 0 || replaces) || last < size || !end && nbytes != size {
                self.c.chunksize.set(0);
            }
            ensure(self.c.chunksize.get() == 0 || nbytes <= size, failed)?;
        }
        Ok(())
    }

    /// Returns the chunk size set by the program in the structure, while no chunk defines it.
    fn chunksize_to_store(&self, size: i32) -> Option<usize> {
        usize::try_from(size).ok().filter(|size| *size > 0 && self.c.nchunks.get() == 0)
    }

    fn stored(&self, header: &ChunkHeader) -> i64 {
        match header.special() {
            Some(SpecialKind::Value) | None => header.cbytes() as i64,
            Some(_) if self.is_frame() => 0,
            Some(_) => header.cbytes() as i64,
        }
    }

    pub(crate) fn insert(&self, nchunk: usize, chunk: MallocBytes, failed: i32) -> Result<i64> {
        let header = ChunkHeader::parse(&chunk)?;
        let size = self.c.chunksize.get();
        self.fit(nchunk, &header, false, failed)?;
        let chunksize = self.chunksize_to_store(size).filter(|size| *size != header.nbytes());
        self.store().insert(nchunk, chunk, chunksize)?;
        self.c.current_nchunk.set(nchunk as i64);
        self.c.nchunks.add(1);
        self.c.nbytes.add(header.nbytes() as i64);
        self.c.cbytes.add(self.stored(&header));
        self.changed()
    }

    pub(crate) fn update(&self, nchunk: usize, chunk: MallocBytes) -> Result<i64> {
        let header = ChunkHeader::parse(&chunk)?;
        self.fit(nchunk, &header, true, code::CHUNK_UPDATE)?;
        self.count()?;
        let (old, old_cbytes) = self.store().header(nchunk)?;
        self.store().update(nchunk, chunk)?;
        self.c.current_nchunk.set(nchunk as i64);
        self.c.nbytes.add(header.nbytes() as i64 - old.nbytes() as i64);
        self.c.cbytes.add(self.stored(&header) - old_cbytes as i64);
        self.reclaim();
        self.changed()
    }

    pub(crate) fn delete(&self, nchunk: usize) -> Result<i64> {
        self.count()?;
        let (old, old_cbytes) = self.store().header(nchunk)?;
        let (nchunks, size) = (self.c.nchunks.get(), self.c.chunksize.get());
        if nchunk as i64 + 1 != nchunks && size > 0 {
            let last = self.store().header(nchunks as usize - 1)?.0.nbytes();
            if old.nbytes() != size as usize || last > size as usize {
                self.c.chunksize.set(0);
            }
        }
        self.store().delete(nchunk)?;
        self.c.nchunks.add(-1);
        self.c.nbytes.add(-(old.nbytes() as i64));
        self.c.cbytes.add(-(old_cbytes as i64));
        self.reclaim();
        self.changed()
    }

    /// Corrects the number of stored bytes before a change that makes part of the file dead, since the header counts
    /// dead bytes.
    fn count(&self) -> Result<()> {
        if let Some(live) = self.store().count()? {
            self.c.cbytes.set(live as i64);
        }
        Ok(())
    }

    /// Compacts the file if much of it is dead.
    pub(crate) fn reclaim(&self) {
        self.store().reclaim(u64::try_from(self.c.cbytes.get()).unwrap_or(0));
    }

    /// Makes a change. With locking on, the lock is taken before `work` reads anything, so others cannot change
    /// anything in between.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let locks = matches!(&*self.store(), ChunkStore::Frame(frame) if frame.locks());
        if locks {
            return self.in_transaction(work);
        }
        self.refresh()?;
        work(self)
    }

    /// Makes several changes of a file in one transaction.
    pub(crate) fn in_transaction<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let rewritten = match &mut *self.store() {
            ChunkStore::Frame(frame) => frame.begin()?,
            ChunkStore::MemoryChunks(_) => false,
        };
        if rewritten {
            self.refresh_counters()?;
        }
        let result = work(self);
        let ended = match &mut *self.store() {
            ChunkStore::Frame(frame) => frame.end(result.is_ok()),
            ChunkStore::MemoryChunks(_) => return result,
        };
        if result.is_err() || ended.is_err() {
            self.refresh_counters()?;
        }
        self.reclaim();
        ended.and(result)
    }

    fn changed(&self) -> Result<i64> {
        self.mirror();
        if matches!(&*self.store(), ChunkStore::Frame(_)) && self.has_other_handles() {
            self.counters()?;
        }
        Ok(self.c.nchunks.get())
    }

    /// Returns whether another handle may have changed the frame since the numbers were counted.
    fn has_other_handles(&self) -> bool {
        let n = self.store().len();
        n.is_ok_and(|n| n as i64 != self.c.nchunks.get())
    }

    /// Compresses bytes into a new chunk.
    pub(crate) fn compressed(&self, nchunk: usize, src: &[u8]) -> Result<MallocBytes> {
        self.c.current_nchunk.set(nchunk as i64);
        let mut spare = std::mem::take(&mut *locked(&self.spare));
        let room = b2_core::memory::sized(&mut spare, src.len() + MAX_OVERHEAD)?;
        let made = self.cctx().and_then(|context| context.compress(src, room));
        let chunk = made.and_then(|cbytes| MallocBytes::copy(spare.get(..cbytes).unwrap_or_default()));
        // A program with many super-chunks should not keep a buffer for each.
        if spare.len() <= 1 << 20 {
            *locked(&self.spare) = spare;
        }
        chunk
    }

    /// Decompresses a chunk into the start of `dst`. Returns its size.
    pub(crate) fn decompress(&self, nchunk: usize, dst: &mut [u8]) -> Result<usize> {
        self.c.current_nchunk.set(nchunk as i64);
        let chunk = self.chunk(nchunk)?;
        self.dctx()?.decompress(&chunk, dst)
    }

    /// Returns the bytes of a chunk without holding the store's lock: callbacks may use the super-chunk while the chunk
    /// is decompressed.
    pub(crate) fn chunk(&self, nchunk: usize) -> Result<ChunkBytes> {
        self.store().chunk(nchunk)
    }

    /// Decompresses part of a chunk. From a frame, only the required blocks are read.
    pub(crate) fn read(&self, nchunk: usize, range: Range<usize>, dst: &mut [u8]) -> Result<()> {
        self.c.current_nchunk.set(nchunk as i64);
        let dctx = self.dctx()?;
        let frame = match &mut *self.store() {
            ChunkStore::Frame(frame) if !dctx.hooks.has_postfilter() => Some(frame.reader()?.clone()),
            _ => None,
        };
        if let Some(frame) = frame
            && let Some(start) = part_of_frame(&frame, nchunk, &range)
            // If another handle has replaced the chunk, it is read as a whole below.
            && self.c.flags2.get() & 1 == 0
            && frame.read_bytes_into(start, dst).is_ok()
        {
            return Ok(());
        }
        let chunk = self.chunk(nchunk)?;
        dctx.get_bytes(&chunk, range, dst)
    }

    /// Returns the uncompressed size of a chunk.
    pub(crate) fn chunk_nbytes(&self, nchunk: usize) -> Result<usize> {
        let size = self.c.chunksize.get();
        if size > 0 && (nchunk as i64) + 1 < self.c.nchunks.get() {
            return length(size);
        }
        Ok(self.store().header(nchunk)?.0.nbytes())
    }
}

/// Returns whether callbacks of the program may run while a super-chunk with these parameters is filled.
pub(crate) fn calls_program(cparams: &blosc2_cparams, io: &blosc2_io) -> bool {
    cparams.prefilter.is_some() || cparams.tuner_id > 0 || io::is_custom(io)
}

/// Returns where a part of a chunk starts in the data of a frame, if its chunks have one size and the part is not most
/// of the chunk.
fn part_of_frame(frame: &SuperChunk, nchunk: usize, range: &Range<usize>) -> Option<u64> {
    let chunksize = frame.chunksize() as u64;
    let start = (nchunk as u64).checked_mul(chunksize)?;
    let nbytes = frame.nbytes().checked_sub(start)?.min(chunksize);
    let fits = range.end as u64 <= nbytes && range.len() as u64 * 2 <= nbytes;
    fits.then_some(start + range.start as u64)
}

impl Drop for SchunkState {
    fn drop(&mut self) {
        self.free_metas(&locked(&self.shown));
        // SAFETY: the contexts are from this library, the rest was allocated here with `malloc`.
        unsafe {
            crate::ffi::contexts::blosc2_free_ctx(self.c.cctx.get());
            crate::ffi::contexts::blosc2_free_ctx(self.c.dctx.get());
            free(self.c.blockshape.get());
            free_storage(self.c.storage.get());
        }
    }
}

fn metalayer(name: &[u8], content: &[u8]) -> Result<*mut blosc2_metalayer> {
    let text: Vec<u8> = name.iter().copied().chain([0]).collect();
    copied_value(blosc2_metalayer {
        name: copied(&text)?.cast(),
        content: copied(content)?,
        content_len: content.len() as i32,
    })
}
