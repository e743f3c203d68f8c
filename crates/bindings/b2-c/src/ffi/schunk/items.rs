//! Chunks and items of super-chunks.

use super::lazy::lazy_chunk;
use super::*;

/// Calls `work` with a chunk passed by a program: a copy, or the memory itself.
///
/// # Safety
/// `chunk` is a chunk; without `copy` it is from `malloc`.
unsafe fn return_chunk(
    state: &SchunkState,
    chunk: *mut u8,
    copy: bool,
    work: impl FnOnce(MallocBytes) -> Result<i64>,
) -> Result<i64> {
    // SAFETY: guaranteed by the caller: programs pass no size, it is in the header.
    let bytes = unsafe { chunk_at(chunk.cast(), i32::MAX) }?;
    let lazy = crate::core::header::is_lazy(bytes);
    ensure(!lazy, code::INVALID_PARAM)?;
    if copy || state.is_frame() {
        let n = work(MallocBytes::copy(bytes)?)?;
        if !copy {
            // SAFETY: ownership was passed, and it has been copied.
            unsafe { free(chunk) };
        }
        return Ok(n);
    }
    // SAFETY: the memory is from `malloc`; a smaller size keeps it valid where `realloc` fails.
    let shrunk = unsafe { libc::realloc(chunk.cast(), bytes.len()) }.cast::<u8>();
    // SAFETY: as above; ownership was passed.
    work(unsafe { MallocBytes::adopt(if shrunk.is_null() { chunk } else { shrunk }, bytes.len()) }?)
}

/// Appends a chunk. Returns the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk, `chunk` a chunk; without `copy` it is from `malloc`, and ownership is passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_append_chunk(
    schunk: *mut blosc2_schunk,
    chunk: *mut u8,
    copy: bool,
) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.change(|state| {
            let end = length(state.c.nchunks.get())?;
            // SAFETY: as above.
            unsafe { return_chunk(state, chunk, copy, |chunk| state.insert(end, chunk, code::CHUNK_APPEND)) }
        })
    })
}

/// Inserts a chunk. Returns the number of chunks.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.change(|state| {
            ensure((0..=state.c.nchunks.get()).contains(&nchunk), code::INVALID_PARAM)?;
            let place = length(nchunk)?;
            // SAFETY: as above.
            unsafe {
                return_chunk(state, chunk, copy, |chunk| state.insert(place, chunk, code::CHUNK_INSERT))
            }
        })
    })
}

/// Replaces a chunk. Returns the number of chunks.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.change(|state| {
            let nchunk = state.nchunk(nchunk)?;
            // SAFETY: as above.
            unsafe { return_chunk(state, chunk, copy, |chunk| state.update(nchunk, chunk)) }
        })
    })
}

/// Removes a chunk. Returns the number of chunks.
///
/// # Safety
/// `schunk` is null or a super-chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_delete_chunk(schunk: *mut blosc2_schunk, nchunk: i64) -> i64 {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { state(schunk) }?.change(|state| state.delete(state.nchunk(nchunk)?))
    })
}

/// Compresses bytes and appends them as a chunk. Returns the number of chunks.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let len = size(nbytes, code::MAX_BUFSIZE_EXCEEDED)?;
        let blank;
        let src = if src.is_null() && state.cctx()?.hooks.has_prefilter() {
            blank = b2_core::memory::zeroed(len)?;
            &blank[..]
        } else {
            // SAFETY: as above.
            unsafe { bytes(src, len) }?
        };
        state.change(|state| {
            let nchunk = length(state.c.nchunks.get())?;
            let chunk = state.compressed(nchunk, src)?;
            state.insert(nchunk, chunk, code::CHUNK_APPEND)
        })
    })
}

/// Decompresses a chunk. Returns its size.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        // As in C-Blosc2, whose frames are checked separately.
        let small = if state.is_frame() { code::WRITE_BUFFER } else { code::INVALID_PARAM };
        let (nchunk, chunk) = state.reading(false, |state| {
            let nchunk = state.nchunk(nchunk)?;
            // SAFETY: as above.
            let room = unsafe { bytes_mut(dest, size(nbytes, small)?) }?.len();
            ensure(state.chunk_nbytes(nchunk)? <= room, small)?;
            Ok((nchunk, state.chunk(nchunk)?))
        })?;
        state.c.current_nchunk.set(nchunk as i64);
        // SAFETY: as above.
        let dest = unsafe { bytes_mut(dest, size(nbytes, small)?) }?;
        // The lock was released: callbacks of the program may change the frame.
        Ok(state.dctx()?.decompress_for_program(&chunk, dest)? as c_int)
    })
}

/// Returns a chunk, and whether the caller must free it.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.reading(false, |state| {
            let nchunk = state.nchunk(nchunk)?;
            state.c.current_nchunk.set(nchunk as i64);
            // SAFETY: as above.
            unsafe { copy_chunk(state, nchunk, chunk, needs_free, ChunkStore::chunk) }
        })
    })
}

/// Returns a chunk; a lazy chunk if it is in a file, whose blocks are read on demand by a context of this super-chunk.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.reading(false, |state| {
            let nchunk = state.nchunk(nchunk)?;
            state.c.current_nchunk.set(nchunk as i64);
            // SAFETY: as above.
            unsafe { copy_chunk(state, nchunk, chunk, needs_free, lazy_chunk) }
        })
    })
}

/// # Safety
/// As [`blosc2_schunk_get_chunk`].
unsafe fn copy_chunk(
    state: &SchunkState,
    nchunk: usize,
    chunk: *mut *mut u8,
    needs_free: *mut bool,
    read: impl FnOnce(&mut ChunkStore, usize) -> Result<ChunkBytes>,
) -> Result<c_int> {
    ensure(!chunk.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
    let mut store = state.store();
    let (data, len, free) = match store.listed(nchunk) {
        Some((data, len)) => (data, len, false),
        None => {
            let bytes = read(&mut store, nchunk)?;
            (copied(&bytes)?, bytes.len(), true)
        }
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        put(chunk, data);
        put(needs_free, free);
    }
    Ok(len as c_int)
}

/// Decompresses one variable-length block into memory that the caller frees.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let _unchanged = state.lock_to_decode(false)?;
        let nchunk = state.nchunk(nchunk)?;
        ensure(!dest.is_null() && !destsize.is_null(), code::NULL_POINTER)?;
        let dctx = state.dctx()?;
        let block = dctx.block(&state.chunk(nchunk)?, length(nblock)?)?;
        // SAFETY: as above.
        unsafe {
            put(dest, copied(&block)?);
            put(destsize, block.len() as i32);
        }
        Ok(block.len() as c_int)
    })
}

/// Converts a range of items to bytes.
fn range_of(state: &SchunkState, start: i64, stop: i64) -> Result<(u64, usize)> {
    let size = i64::from(state.c.typesize.get());
    ensure(start <= stop && size > 0, code::INVALID_PARAM)?;
    let end = stop.checked_mul(size).filter(|end| start >= 0 && *end <= state.c.nbytes.get());
    let end = end.ok_or(Error(code::FAILURE))?;
    Ok(((start * size) as u64, length(end - start * size)?))
}

/// Calls `work` for each chunk that overlaps a range of bytes, with the range in the chunk and its position in the
/// given range.
fn for_chunks(
    state: &SchunkState,
    start: u64,
    len: usize,
    mut work: impl FnMut(&SchunkState, usize, Range<usize>, usize) -> Result<()>,
) -> Result<()> {
    let (mut at, mut nchunk) = (0_u64, 0_usize);
    if state.c.chunksize.get() > 0 {
        let size = state.c.chunksize.get() as u64;
        nchunk = (start / size) as usize;
        at = nchunk as u64 * size;
    }
    let end = start + len as u64;
    while at < end {
        let nbytes = state.chunk_nbytes(nchunk)? as u64;
        let (from, to) = (start.max(at), end.min(at + nbytes));
        if from < to {
            work(state, nchunk, (from - at) as usize..(to - at) as usize, (from - start) as usize)?;
        }
        at += nbytes;
        nchunk += 1;
    }
    Ok(())
}

/// Decompresses the items `start..stop`.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.reading(true, |state| {
            let (start, len) = range_of(state, start, stop)?;
            // SAFETY: as above.
            let buffer = unsafe { bytes_mut(buffer, len) }?;
            for_chunks(state, start, len, |state, nchunk, range, at| {
                let dst = &mut buffer[at..at + range.len()];
                match range.len() == state.chunk_nbytes(nchunk)? {
                    true => state.decompress(nchunk, dst).map(|_| ()),
                    false => state.read(nchunk, range, dst),
                }
            })
        })?;
        Ok(0)
    })
}

/// Replaces the items `start..stop`.
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
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let mut plain = Vec::new();
        state.in_transaction(|state| {
            let (start, len) = range_of(state, start, stop)?;
            // SAFETY: as above.
            let buffer = unsafe { bytes(buffer, len) }?;
            for_chunks(state, start, len, |state, nchunk, range, at| {
                let nbytes = state.chunk_nbytes(nchunk)?;
                let new = &buffer[at..at + range.len()];
                let chunk = if range.len() == nbytes {
                    state.compressed(nchunk, new)?
                } else {
                    let plain = b2_core::memory::sized(&mut plain, nbytes)?;
                    state.decompress(nchunk, plain)?;
                    plain[range].copy_from_slice(new);
                    state.compressed(nchunk, plain)?
                };
                state.update(nchunk, chunk).map(|_| ())
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
        // SAFETY: guaranteed by the caller.
        let (state, coords) = unsafe { (state(schunk)?, values(coords, length(ncoords)?)?) };
        let _unchanged = state.lock_to_decode(false)?;
        let (size, chunksize) = (length(state.c.typesize.get())?, length(state.c.chunksize.get())?);
        ensure(size > 0 && chunksize > 0 && chunksize.is_multiple_of(size), code::INVALID_PARAM)?;
        ensure(state.c.flags2.get() & 1 == 0, code::INVALID_PARAM)?;
        let nitems = state.c.nbytes.get() / size as i64;
        ensure(coords.iter().all(|at| (0..nitems).contains(at)), code::INVALID_PARAM)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, coords.len().saturating_mul(size)) }?;
        let mut order = b2_core::memory::collect(0..coords.len())?;
        order.sort_unstable_by_key(|n| coords[*n]);
        gather(state, size, chunksize, &mut order.iter().map(|n| (*n, coords[*n] as usize)), buffer)?;
        Ok(0)
    })
}

/// The items to read: their positions in the buffer, and the bytes of their chunks at which they start.
type Items = Vec<(usize, usize)>;

/// Those in one block.
struct BlockItems {
    nchunk: usize,
    /// The bytes of the block in its chunk.
    block: Range<usize>,
    /// Where its items are in the list of all items.
    items: Range<usize>,
    /// The chunk, if it is in memory.
    listed: Option<ChunkBytes>,
}

impl BlockItems {
    /// Reads the block, and copies its items to their positions.
    fn copy(
        &self,
        (items, size): (&Items, usize),
        block: &mut Vec<u8>,
        buffer: &Mutex<&mut [u8]>,
        mut read: impl FnMut(Range<usize>, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let bytes = b2_core::memory::sized(block, self.block.len())?;
        read(self.block.clone(), bytes)?;
        let mut buffer = locked(buffer);
        for &(place, at) in items.get(self.items.clone()).unwrap_or_default() {
            let room = buffer.get_mut(place * size..(place + 1) * size).ok_or(Error(code::INVALID_PARAM))?;
            match bytes.get(at - self.block.start..at - self.block.start + size) {
                Some(item) => room.copy_from_slice(item),
                // Blocks may end inside an item.
                None => read(at..at + size, room)?,
            }
        }
        Ok(())
    }
}

/// Copies items, given in order as pairs of position in `buffer` and number. Each block is decompressed once, on several
/// threads if the context has them and no callbacks of the program may run.
pub(crate) fn gather(
    state: &SchunkState,
    size: usize,
    chunksize: usize,
    items: &mut dyn Iterator<Item = (usize, usize)>,
    buffer: &mut [u8],
) -> Result<()> {
    let (mut list, mut blocks) = (Items::new(), Vec::<BlockItems>::new());
    let mut sizes = (usize::MAX, 0, 1);
    for (place, item) in items {
        let byte = item * size;
        let (nchunk, at) = (byte / chunksize, byte % chunksize);
        b2_core::memory::push(&mut list, (place, at))?;
        if let Some(last) = blocks.last_mut().filter(|last| last.nchunk == nchunk && last.block.contains(&at))
        {
            last.items.end = list.len();
            continue;
        }
        if sizes.0 != nchunk {
            let (header, _) = state.store().header(nchunk)?;
            sizes = (nchunk, header.nbytes(), header.blocksize().max(1));
        }
        let (_, nbytes, blocksize) = sizes;
        let start = at / blocksize * blocksize;
        let end = nbytes.min((start + blocksize).max(at + size));
        ensure(at + size <= end, code::DATA)?;
        let listed = match &mut *state.store() {
            ChunkStore::Frame(_) => None,
            memory => Some(memory.chunk(nchunk)?),
        };
        let block = BlockItems { nchunk, block: start..end, items: list.len() - 1..list.len(), listed };
        b2_core::memory::push(&mut blocks, block)?;
    }
    let buffer = Mutex::new(buffer);
    // After an error, for example because another handle has replaced a chunk, chunks are read as a whole.
    if gather_in_parallel(state, (&list, size), &blocks, &buffer).is_ok_and(|done| done) {
        return Ok(());
    }
    let mut plain = Vec::new();
    blocks.iter().try_for_each(|block| {
        block.copy((&list, size), &mut plain, &buffer, |range, dst| state.read(block.nchunk, range, dst))
    })
}

/// Returns whether the blocks were read.
fn gather_in_parallel(
    state: &SchunkState,
    items: (&Items, usize),
    blocks: &[BlockItems],
    buffer: &Mutex<&mut [u8]>,
) -> Result<bool> {
    let dctx = state.dctx()?;
    if dctx.dparams().nthreads < 2 || dctx.hooks.has_postfilter() || has_own_plugins() {
        return Ok(false);
    }
    let dparams = &dctx.decompression();
    let frame = match &mut *state.store() {
        ChunkStore::Frame(frame) => Some(frame.reader()?.clone()),
        ChunkStore::MemoryChunks(_) => None,
    };
    let nbytes = blocks.iter().map(|block| block.block.len() as u64).sum();
    let read = |plain: &mut Vec<u8>, block: &BlockItems| {
        block.copy(items, plain, buffer, |range, dst| {
            if let Some(chunk) = &block.listed {
                return Ok(b2_chunk::ChunkRef::from_slice(chunk)?.get_bytes_into(
                    range.start,
                    dst,
                    dparams,
                )?);
            }
            let frame = frame.as_ref().ok_or(Error(code::FAILURE))?;
            let start = part_of_frame(frame, block.nchunk, &range).ok_or(Error(code::FAILURE))?;
            Ok(frame.read_bytes_into(start, dst)?)
        })
    };
    b2_core::for_each(&dparams.control, usize::MAX, blocks.iter(), nbytes, || Ok(Vec::new()), read)?;
    Ok(true)
}

/// Reorders the chunks: chunk n is the old chunk `offsets_order[n]`.
///
/// # Safety
/// `schunk` is null or a super-chunk, there are as many numbers as chunks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_schunk_reorder_offsets(
    schunk: *mut blosc2_schunk,
    offsets_order: *mut i64,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        state.change(|state| {
            // SAFETY: as above.
            let order = unsafe { values(offsets_order, length(state.c.nchunks.get())?) }?;
            ensure(order.iter().all(|n| usize::try_from(*n).is_ok()), code::DATA)?;
            let order = b2_core::memory::collect(order.iter().map(|n| *n as usize))?;
            state.store().reorder(&order)?;
            state.mirror();
            Ok(0)
        })
    })
}

/// Fills an empty super-chunk with chunks of a repeated value, of `chunksize` bytes. Returns the number of chunks.
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
        // SAFETY: guaranteed by the caller.
        unsafe { state(schunk) }?.change(|state| fill_special(state, nitems, special_value, chunksize))
    })
}

pub(crate) fn fill_special(state: &SchunkState, nitems: i64, value: c_int, chunksize: i32) -> Result<i64> {
    if nitems == 0 {
        return Ok(0);
    }
    let size = state.c.typesize.get();
    ensure(nitems > 0 && size > 0 && chunksize >= size, code::INVALID_PARAM)?;
    ensure(state.c.nbytes.get() == 0 && state.c.nchunks.get() == 0, code::FRAME_SPECIAL)?;
    let failed = if state.is_frame() { code::FRAME_SPECIAL } else { code::SCHUNK_SPECIAL };
    let kind = match value {
        1 => SpecialKind::Zeros,
        2 => SpecialKind::NaN,
        4 => SpecialKind::Uninit,
        _ => return Err(Error(failed)),
    };
    ensure(kind != SpecialKind::NaN || matches!(size, 4 | 8), failed)?;
    ensure(chunksize % size == 0 && chunksize <= MAX_BUFFERSIZE, failed)?;
    let nbytes = nitems.checked_mul(i64::from(size)).ok_or(Error(failed))?;
    let nchunks = (nbytes - 1) / i64::from(chunksize) + 1;
    ensure(nchunks <= i64::from(i32::MAX), failed)?;
    let cparams = state.cctx()?.cparams();
    // Before the lock is taken, since callbacks of the program may run. Frames need only the kind.
    let listed = matches!(&*state.store(), ChunkStore::MemoryChunks(_));
    let make =
        |nbytes: i32| if listed && nbytes > 0 { Some(special(&cparams, kind, &[], nbytes)) } else { None };
    let rest = (nbytes % i64::from(chunksize)) as i32;
    let chunks = (make(chunksize).transpose()?, make(rest).transpose()?);
    state
        .store()
        .fill_special(kind, nbytes as u64, chunksize as usize, chunks)
        .map_err(|error| if error.0 == code::MEMORY_ALLOC { error } else { Error(failed) })?;
    state.c.chunksize.set(chunksize);
    state.c.nbytes.set(nbytes);
    state.c.nchunks.set(nchunks);
    if !state.is_frame() {
        state.c.cbytes.set(nchunks * EXTENDED_HEADER as i64);
    }
    state.mirror();
    Ok(nchunks)
}
