//! Creating, opening, saving, copying and freeing super-chunks, and their properties.

use b2_frame::INDEXES;

use super::*;

pub(super) fn finish(this: Box<SchunkState>) -> *mut blosc2_schunk {
    Box::into_raw(this).cast()
}

/// Creates a super-chunk: in memory, in a file, or in a new directory. Nothing is replaced: it fails if the path
/// exists.
///
/// # Safety
/// `storage` is null or valid, and so are its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_new(storage: *mut blosc2_storage) -> *mut blosc2_schunk {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { new(storage, &[]) }.map(finish))
}

/// Creates a super-chunk with metalayers, a file in one write.
///
/// # Safety
/// As [`blosc2_schunk_new`].
pub(crate) unsafe fn new(storage: *const blosc2_storage, metas: &[NamedContent]) -> Result<Box<SchunkState>> {
    let known = |n: usize, name: &[u8]| metas.iter().take(n).any(|meta| meta.0 == name);
    let distinct = !metas.iter().enumerate().any(|(n, meta)| known(n, &meta.0));
    ensure(distinct && metas.len() <= MAX_METALAYERS, code::INVALID_PARAM)?;
    // SAFETY: guaranteed by the caller.
    let storage = unsafe { copy_storage(storage) }?;
    // SAFETY: it was just created.
    let this =
        unsafe { SchunkState::new(storage, ChunkStore::MemoryChunks(MemoryChunks::with_metas(metas))) }?;
    // SAFETY: as above.
    let contiguous = unsafe { copy_at(storage) }?.contiguous;
    if let Some(path) = this.path()? {
        let path = paths::trimmed(path);
        let (files, locking) = io::files(&this.io()?, true)?;
        ensure(io::is_custom(&this.io()?) || !path.exists(), code::FILE_OPEN)?;
        let path = path.to_owned();
        let params =
            metas.iter().fold(this.frame_params()?, |params, (name, value)| params.metalayer(name, value));
        let plugins = callbacks::plugins(&CallContext::new(this.cctx()?.cparams(), blosc2_dparams::DEFAULT));
        let frame = Frame::create(&path, files, locking, !contiguous, params, plugins)?;
        *this.store() = ChunkStore::Frame(Box::new(frame));
        this.c.frame.set(Arc::as_ptr(&this.store).cast_mut().cast());
    } else if contiguous {
        this.c.frame.set(Arc::as_ptr(&this.store).cast_mut().cast());
    }
    this.mirror_metas()?;
    Ok(this)
}

/// Creates the structure for an existing frame.
fn of_frame(mut frame: Frame, path: Option<&CStr>, io: &blosc2_io) -> Result<Box<SchunkState>> {
    // With locking on, nothing changes until everything has been read.
    let _unchanged = if frame.locks() { frame.refresh(true)?.1 } else { None };
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
    // SAFETY: everything it refers to is here.
    let storage = unsafe { copy_storage(&storage) }?;
    // SAFETY: it was just created.
    let this = unsafe { SchunkState::new(storage, ChunkStore::Frame(Box::new(frame))) }?;
    this.c.frame.set(Arc::as_ptr(&this.store).cast_mut().cast());
    this.c.flags2.set(u8::from(is_vl));
    this.counters()?;
    this.mirror_metas()?;
    Ok(this)
}

/// Frames in memory with more chunks than this stay frames: a few bytes can describe very many chunks of a repeated
/// value.
const MAX_LISTED: usize = 1 << 22;

impl SchunkState {
    /// Converts a frame in memory to a list of chunks.
    fn list_chunks(&mut self) -> Result<()> {
        let listed = match &mut *self.store() {
            ChunkStore::Frame(frame) => match frame.reader()?.nchunks() {
                0..=MAX_LISTED => MemoryChunks::of_frame(frame)?,
                _ => return Ok(()),
            },
            ChunkStore::MemoryChunks(_) => return Ok(()),
        };
        self.c.cbytes.set(listed.cbytes() as i64);
        *self.store() = ChunkStore::MemoryChunks(listed);
        self.c.frame.set(std::ptr::null_mut());
        // SAFETY: the storage comes from `copy_storage` and is not shared yet.
        unsafe {
            let storage = self.c.storage.get();
            put(storage, blosc2_storage { contiguous: false, ..copy_at(storage)? });
        }
        self.mirror();
        Ok(())
    }
}

fn plugins() -> b2_chunk::Plugins {
    callbacks::plugins(&CallContext::new(blosc2_cparams::DEFAULT, blosc2_dparams::DEFAULT))
}

/// Opens a frame at a path.
///
/// # Safety
/// `urlpath` is null or a C string, `udio` is null or valid.
pub(crate) unsafe fn open(
    urlpath: *const c_char,
    offset: i64,
    udio: *const blosc2_io,
) -> Result<Box<SchunkState>> {
    // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { open(urlpath, 0, udio) }.map(finish))
}

/// Like [`blosc2_schunk_open_udio`], for a frame inside the file.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_open_offset_udio(
    urlpath: *const c_char,
    offset: i64,
    udio: *const blosc2_io,
) -> *mut blosc2_schunk {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { open(urlpath, offset, udio) }.map(finish))
}

/// Opens a frame in memory.
///
/// # Safety
/// `cframe` has `len` bytes; without `copy` they must stay valid until the super-chunk is freed.
pub(crate) unsafe fn from_buffer(cframe: *mut u8, len: i64, copy: bool) -> Result<Box<SchunkState>> {
    let len = length(len)?;
    ensure(!cframe.is_null(), code::NULL_POINTER)?;
    // The header has the length of the frame; the buffer may be longer.
    let frees = Arc::new(AtomicBool::new(false));
    let shared = if copy {
        // SAFETY: guaranteed by the caller.
        Bytes::from(b2_core::memory::copied(unsafe { bytes(cframe.cast(), len) }?)?)
    } else {
        Bytes::from_owner(BorrowedFrame { data: cframe, len, frees: frees.clone() })
    };
    let frame = Frame::from_bytes(shared, plugins())?;
    let mut this = of_frame(frame, None, &io::DEFAULT)?;
    if copy {
        // As in C, where programs then find the chunks in `schunk->data`.
        this.list_chunks()?;
    } else {
        this.frees = Some(frees);
    }
    Ok(this)
}

/// Opens a frame in memory.
///
/// # Safety
/// `cframe` has `len` bytes; without `copy` they must stay valid until the super-chunk is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_from_buffer(
    cframe: *mut u8,
    len: i64,
    copy: bool,
) -> *mut blosc2_schunk {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { from_buffer(cframe, len, copy) }.map(finish))
}

/// Sets whether the bytes of a frame in memory are kept when the super-chunk is freed (the default). Otherwise they
/// must be from `malloc`.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_avoid_cframe_free(
    schunk: *mut blosc2_schunk,
    avoid_cframe_free: bool,
) {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        if let Some(frees) = &unsafe { state(schunk) }?.frees {
            frees.store(!avoid_cframe_free, Ordering::Relaxed);
        }
        Ok(())
    });
}

/// Frees a super-chunk.
///
/// # Safety
/// `schunk` is null or a super-chunk that is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_free(schunk: *mut blosc2_schunk) -> c_int {
    if schunk.is_null() {
        return 0;
    }
    guard(|| {
        // SAFETY: it came from a box, and the caller returns it.
        let this = unsafe { Box::from_raw(schunk.cast::<SchunkState>()) };
        let io = this.io()?;
        // Close the files before calling the destroy function.
        drop(this);
        // SAFETY: the parameters of the program are still valid.
        let destroyed = unsafe { io::destroy(&io) };
        Ok(c_int::from(!destroyed))
    })
}

/// Creates another handle on the same chunks, for a view.
pub(crate) fn view_of(of: &SchunkState) -> Result<Box<SchunkState>> {
    // SAFETY: the storage of a super-chunk is valid.
    let storage = unsafe { copy_storage(of.c.storage.get()) }?;
    // SAFETY: it was just made; a view does no I/O itself.
    unsafe { put(copy_at(storage)?.io, io::DEFAULT) };
    // SAFETY: as above.
    let mut view = unsafe { SchunkState::new(storage, ChunkStore::MemoryChunks(MemoryChunks::default())) }?;
    view.store = of.store.clone();
    view.c.frame.set(of.c.frame.get());
    view.c.chunksize.set(of.c.chunksize.get());
    view.c.flags2.set(of.c.flags2.get());
    view.c.nchunks.set(of.c.nchunks.get());
    view.c.nbytes.set(of.c.nbytes.get());
    view.c.cbytes.set(of.c.cbytes.get());
    view.c.view.set(true);
    view.mirror();
    view.mirror_metas()?;
    Ok(view)
}

/// Locks the file of a super-chunk against other programs, if locking is on. Changes until the unlock become one
/// commit. Calls may be nested; each needs an unlock.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_lock(schunk: *mut blosc2_schunk) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let rewritten = match &mut *state.store() {
            ChunkStore::Frame(frame) => frame.lock()?,
            ChunkStore::MemoryChunks(_) => false,
        };
        if rewritten {
            state.refresh_counters()?;
        }
        Ok(0)
    })
}

/// Unlocks the file.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_unlock(schunk: *mut blosc2_schunk) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        if let ChunkStore::Frame(frame) = &mut *state.store() {
            frame.unlock()?;
        }
        state.reclaim();
        Ok(0)
    })
}

/// Checks whether another handle or program changed the file, and reloads. Returns 1 if it did.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_refresh(schunk: *mut blosc2_schunk) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { state(schunk) }?.refresh().map(c_int::from))
}

/// Returns the super-chunk as a contiguous frame, in memory that the caller frees.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let frame = to_frame(state)?;
        ensure(!cframe.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe {
            put(cframe, copied(&frame)?);
            put(needs_free, true);
        }
        Ok(frame.len() as i64)
    })
}

pub(crate) fn to_frame(state: &SchunkState) -> Result<Bytes> {
    if let Err(error) = state.refresh() {
        return state.store().as_last_seen(error);
    }
    let params = state.frame_params()?;
    state.store().as_frame(params)
}

/// Writes the super-chunk as a contiguous frame to a file. Returns its length.
///
/// As in C, only a contiguous super-chunk in memory replaces an existing file, and nothing replaces a directory.
///
/// # Safety
/// `schunk` is null or a super-chunk, `urlpath` null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_to_file(schunk: *mut blosc2_schunk, urlpath: *const c_char) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (state, path) = unsafe { (state(schunk)?, text(urlpath)?) };
        state.refresh()?;
        let params = state.frame_params()?;
        if state.is_contiguous()? && state.path()?.is_none() {
            let path = paths::of_file(path, code::FILE_OPEN)?;
            ensure(!path.is_dir(), code::FILE_OPEN)?;
            return Ok(state.store().save(path, params, to_write().overwrite(true))? as i64);
        }
        let path = paths::of_file(paths::without_scheme(path), code::SCHUNK_COPY)?;
        let saved = state.store().save(path, params, to_write());
        Ok(saved.map_err(|_| Error(code::SCHUNK_COPY))? as i64)
    })
}

/// Appends the super-chunk as a contiguous frame to a file, which is created if it does not exist. Returns its offset.
///
/// # Safety
/// As [`blosc2_schunk_to_file`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_append_file(
    schunk: *mut blosc2_schunk,
    urlpath: *const c_char,
) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (state, path) = unsafe { (state(schunk)?, text(urlpath)?) };
        state.refresh()?;
        let params = state.frame_params()?;
        let path = paths::of_file(path, code::FILE_OPEN)?;
        ensure(!path.is_dir(), code::FILE_OPEN)?;
        if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            state.store().save(path, params, to_write())?;
            return Ok(0);
        }
        let offset = state.store().append_to_file(path, params, &plugins())?;
        Ok(offset as i64)
    })
}

/// Copies a super-chunk. Chunks are recompressed if the parameters differ.
///
/// # Safety
/// `schunk` is null or a super-chunk, `storage` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_copy(
    schunk: *mut blosc2_schunk,
    storage: *mut blosc2_storage,
) -> *mut blosc2_schunk {
    // SAFETY: guaranteed by the caller.
    guard(|| unsafe { copy(state(schunk)?, copy_at(storage)?) }.map(finish))
}

/// # Safety
/// `storage` and its pointers are valid.
unsafe fn copy(from: &SchunkState, mut storage: blosc2_storage) -> Result<Box<SchunkState>> {
    let own = from.cctx()?.cparams();
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
    // SAFETY: guaranteed by the caller.
    let wanted = unsafe { copy_at(storage.cparams) }?;
    // SAFETY: as above.
    let io = unsafe { storage.io.as_ref() }.copied().unwrap_or(io::DEFAULT);
    let _unchanged = from.lock_to_decode(false)?.filter(|_| !calls_program(&wanted, &io));
    let blocksize = if wanted.blocksize == 0 { own.blocksize } else { wanted.blocksize };
    let key = |c: &blosc2_cparams, blocksize: i32| {
        (c.typesize, c.clevel, c.compcode, c.use_dict != 0, blocksize, c.filters, c.filters_meta)
    };
    let hooked = own.prefilter.is_some() || from.dctx()?.hooks.has_postfilter();
    let equal = key(&wanted, blocksize) == key(&own, own.blocksize) && !hooked;
    let metas = from.store().metas()?;
    // SAFETY: as above.
    let to = unsafe { new(&storage, &metas) }?;
    to.c.chunksize.set(from.c.chunksize.get());
    to.c.flags2.set(from.c.flags2.get());
    let mut plain = Vec::new();
    for nchunk in 0..length(from.c.nchunks.get())? {
        let chunk = if equal || from.c.flags2.get() & 1 != 0 {
            MallocBytes::copy(&from.chunk(nchunk)?)?
        } else {
            let nbytes = from.chunk_nbytes(nchunk)?;
            let plain = b2_core::memory::sized(&mut plain, nbytes)?;
            from.decompress(nchunk, plain)?;
            to.compressed(nchunk, plain)?
        };
        to.insert(nchunk, chunk, code::CHUNK_APPEND)?;
    }
    // The files of the indexes of python-blosc2 are not copied.
    for (name, chunk) in from.store().vlmetas()?.into_iter().filter(|meta| meta.0 != INDEXES.as_bytes()) {
        // A damaged one is an error.
        Chunk::from_bytes(chunk.clone())?.decompress_bytes()?;
        to.store().set_vlmeta(&name, chunk, None)?;
    }
    to.mirror_metas()?;
    Ok(to)
}

/// Returns the parameters for compressing, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk, `cparams` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_cparams(
    schunk: *mut blosc2_schunk,
    cparams: *mut *mut blosc2_cparams,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let c = &state.c;
        let nthreads = if c.cctx.get().is_null() {
            crate::ffi::threads::nthreads()
        } else {
            // SAFETY: it is from this library.
            unsafe { context(c.cctx.get()) }?.cparams().nthreads
        };
        let answer = blosc2_cparams {
            compcode: c.compcode.get(),
            compcode_meta: c.compcode_meta.get(),
            clevel: c.clevel.get(),
            use_dict: c_int::from(c.use_dict.get()),
            typesize: c.typesize.get(),
            nthreads,
            blocksize: c.blocksize.get(),
            splitmode: i32::from(c.splitmode.get()),
            schunk: schunk.cast(),
            filters: values_of(&c.filters),
            filters_meta: values_of(&c.filters_meta),
            ..blosc2_cparams::DEFAULT
        };
        ensure(!cparams.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(cparams, copied_value(answer)?) };
        Ok(0)
    })
}

/// Returns the parameters for decompressing, in memory that the caller frees.
///
/// # Safety
/// As [`blosc2_schunk_get_cparams`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_get_dparams(
    schunk: *mut blosc2_schunk,
    dparams: *mut *mut blosc2_dparams,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let nthreads = if state.c.dctx.get().is_null() {
            crate::ffi::threads::nthreads()
        } else {
            // SAFETY: it is from this library.
            unsafe { context(state.c.dctx.get()) }?.dparams().nthreads
        };
        let answer = blosc2_dparams { nthreads, schunk: schunk.cast(), ..blosc2_dparams::DEFAULT };
        ensure(!dparams.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(dparams, copied_value(answer)?) };
        Ok(0)
    })
}

/// Returns the length of the super-chunk as a contiguous frame, or of its index file.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_frame_len(schunk: *mut blosc2_schunk) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.refresh()?;
        if let ChunkStore::Frame(frame) = &mut *state.store() {
            return Ok(frame.reader()?.header().frame_len() as i64);
        }
        Ok(to_frame(state)?.len() as i64)
    })
}

/// Returns the offsets of the chunks in the frame, in memory that the caller frees.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_frame_get_offsets(schunk: *mut blosc2_schunk) -> *mut i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.refresh()?;
        ensure(state.is_frame(), code::NULL_POINTER)?;
        let in_frame = match &mut *state.store() {
            ChunkStore::Frame(frame) => Some(offsets_of(frame)?),
            ChunkStore::MemoryChunks(_) => None,
        };
        let offsets = match in_frame {
            Some(offsets) => offsets,
            None => offsets_of(&mut Frame::from_bytes(to_frame(state)?, plugins())?)?,
        };
        memory::copied_values(&offsets)
    })
}

fn offsets_of(frame: &mut Frame) -> Result<Vec<i64>> {
    let reader = frame.reader()?;
    let mut offsets = b2_core::memory::list(reader.nchunks())?;
    for nchunk in 0..reader.nchunks() {
        offsets.push(reader.chunk(nchunk).entry()?.to_raw());
    }
    Ok(offsets)
}
