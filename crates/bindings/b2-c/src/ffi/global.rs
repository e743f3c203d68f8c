//! The interface of Blosc 1 and the state of the process: one set of parameters and one pair of contexts. A lock guards
//! the choice of contexts, and is not held while they work.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::{blosc2_cparams, blosc2_dparams, blosc2_io, blosc2_stdio_mmap, blosc2_storage, code};
use crate::core::context::Context;
use crate::core::environment::{self, Environment};
use crate::core::error::{Error, Result, describe, ensure};
use crate::core::names;
use crate::ffi::callbacks::{self, Hooks};
use crate::ffi::contexts::{chunk_at, code_of, code_of_text};
use crate::ffi::{bytes, bytes_mut, guard, length, memory, put, size, text, threads};

struct GlobalState {
    compressor: u8,
    blocksize: i32,
    splitmode: i32,
    delta: bool,
    nthreads: i16,
    compress: Option<Arc<Context>>,
    decompress: Option<Arc<Context>>,
}

// SAFETY: its contexts contain no pointers of programs: no hooks, no super-chunks.
unsafe impl Send for GlobalState {}

static GLOBAL: Mutex<GlobalState> = Mutex::new(GlobalState::NEW);

impl GlobalState {
    const NEW: Self = Self {
        compressor: 0,
        blocksize: 0,
        splitmode: 4,
        delta: false,
        nthreads: 1,
        compress: None,
        decompress: None,
    };

    fn lock() -> MutexGuard<'static, Self> {
        GLOBAL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_nthreads(&mut self, nthreads: i16) -> i16 {
        let before = std::mem::replace(&mut self.nthreads, nthreads);
        threads::set_nthreads(nthreads);
        if before != nthreads {
            (self.compress, self.decompress) = (None, None);
        }
        before
    }

    /// Returns the context for compressing, which works without the lock.
    fn compressor(&mut self, (clevel, shuffle, typesize): (c_int, c_int, i32)) -> Result<Arc<Context>> {
        let environment = Environment::read();
        if let Some(delta) = environment.delta {
            self.delta = delta;
        }
        if let Some(nthreads) = environment.nthreads {
            self.set_nthreads(nthreads);
        }
        if let Some(blocksize) = environment.blocksize {
            self.blocksize = blocksize;
        }
        if let Some(splitmode) = environment.splitmode {
            self.splitmode = splitmode;
        }
        if let Some(name) = environment.compressor.as_deref() {
            match code_of_text(name) {
                // As for `blosc1_set_compressor`.
                Some(code) if code >= 6 => {}
                code => self.compressor = code.unwrap_or(environment::NO_CODEC),
            }
        }
        let clevel = environment.clevel.map_or(clevel, c_int::from);
        ensure((0..=9).contains(&clevel), code::CODEC_PARAM)?;
        let shuffle = environment.shuffle.map_or(shuffle, c_int::from);
        let typesize = environment.typesize.unwrap_or(typesize);
        let mut cparams = blosc2_cparams {
            compcode: self.compressor,
            clevel: clevel as u8,
            typesize: typesize.max(1),
            nthreads: self.nthreads,
            blocksize: self.blocksize,
            splitmode: self.splitmode,
            filters: [0; 6],
            ..blosc2_cparams::DEFAULT
        };
        environment::filters(Some(shuffle), self.delta, &mut cparams);
        let blosc1 = environment::is_set("BLOSC_BLOSC1_COMPAT");
        let fits = |context: &&Arc<Context>| {
            let settings = context.settings();
            same(&settings.cparams, &cparams) && settings.blosc1 == blosc1
        };
        if let Some(context) = self.compress.as_ref().filter(fits) {
            return Ok(context.clone());
        }
        // Another call may still use the old one, so it is replaced instead of changed.
        let context = Context::compressing(cparams, Hooks::default(), None);
        context.change(|settings| std::mem::replace(&mut settings.blosc1, blosc1) != blosc1);
        Ok(self.compress.insert(arced(context)).clone())
    }

    /// Returns the context for decompressing, which works without the lock.
    fn decompressor(&mut self) -> Result<Arc<Context>> {
        ensure(!environment::wrong_nthreads(), code::INVALID_PARAM)?;
        if let Some(nthreads) = environment::nthreads() {
            self.set_nthreads(nthreads);
        }
        let dparams = blosc2_dparams { nthreads: self.nthreads, ..blosc2_dparams::DEFAULT };
        let new = || arced(Context::decompressing(dparams, Hooks::default()));
        Ok(self.decompress.get_or_insert_with(new).clone())
    }
}

#[allow(
    clippy::arc_with_non_send_sync,
    reason = "contexts may be used by several threads; only their C addresses are not `Send`"
)]
fn arced(context: Context) -> Arc<Context> {
    Arc::new(context)
}

fn same(one: &blosc2_cparams, other: &blosc2_cparams) -> bool {
    let key = |c: &blosc2_cparams| {
        (c.compcode, c.clevel, c.typesize, c.nthreads, c.blocksize, c.splitmode, c.filters)
    };
    key(one) == key(other)
}

/// Does nothing: the library needs no initialization. `BLOSC_NTHREADS` takes effect with the first call that compresses
/// or decompresses.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_init() {}

/// Resets the settings and frees the buffers of the process.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_destroy() {
    guard(|| {
        *GlobalState::lock() = GlobalState::NEW;
        threads::set_nthreads(GlobalState::NEW.nthreads);
        Ok(())
    });
}

/// Frees the buffers of the process.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_free_resources() -> c_int {
    guard(|| {
        let mut global = GlobalState::lock();
        (global.compress, global.decompress) = (None, None);
        Ok(0)
    })
}

/// Compresses a buffer with the settings of the process.
///
/// # Safety
/// The buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_compress(
    clevel: c_int,
    doshuffle: c_int,
    typesize: i32,
    src: *const c_void,
    srcsize: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (src, dest) = unsafe {
            (bytes(src, length(srcsize)?)?, bytes_mut(dest, size(destsize, code::MAX_BUFSIZE_EXCEEDED)?)?)
        };
        let context = GlobalState::lock().compressor((clevel, doshuffle, typesize))?;
        Ok(context.compress(src, dest)? as c_int)
    })
}

/// As [`blosc2_compress`], with the types of Blosc 1.
///
/// # Safety
/// The buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_compress(
    clevel: c_int,
    doshuffle: c_int,
    typesize: usize,
    nbytes: usize,
    src: *const c_void,
    dest: *mut c_void,
    destsize: usize,
) -> c_int {
    guard(|| {
        ensure(nbytes <= crate::abi::MAX_BUFFERSIZE as usize, code::MAX_BUFSIZE_EXCEEDED)?;
        // SAFETY: guaranteed by the caller. More than the format holds is never written.
        let (src, dest) = unsafe { (bytes(src, nbytes)?, bytes_mut(dest, destsize.min(i32::MAX as usize))?) };
        let typesize = i32::try_from(typesize).map_err(|_| Error(code::INVALID_PARAM))?;
        let context = GlobalState::lock().compressor((clevel, doshuffle, typesize))?;
        Ok(context.compress(src, dest)? as c_int)
    })
}

/// Decompresses a chunk.
///
/// # Safety
/// The buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_decompress(
    src: *const c_void,
    srcsize: i32,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (src, dest) =
            unsafe { (chunk_at(src, srcsize)?, bytes_mut(dest, size(destsize, code::WRITE_BUFFER)?)?) };
        let context = GlobalState::lock().decompressor()?;
        Ok(context.decompress(src, dest)? as c_int)
    })
}

/// As [`blosc2_decompress`]. The length is taken from the chunk's header, which must be trusted.
///
/// # Safety
/// `src` is a whole chunk, `dest` has `destsize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_decompress(src: *const c_void, dest: *mut c_void, destsize: usize) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { blosc2_decompress(src, i32::MAX, dest, destsize.min(i32::MAX as usize) as i32) }
}

/// Decompresses `nitems` items from the item `start` on.
///
/// # Safety
/// The buffers have the sizes given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_getitem(
    src: *const c_void,
    srcsize: i32,
    start: c_int,
    nitems: c_int,
    dest: *mut c_void,
    destsize: i32,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (src, dest) =
            unsafe { (chunk_at(src, srcsize)?, bytes_mut(dest, size(destsize, code::WRITE_BUFFER)?)?) };
        // As in C, this call takes no lock.
        let dparams = blosc2_dparams::DEFAULT;
        Ok(Context::decompressing(dparams, Hooks::default()).get_items(src, start, nitems, dest)? as c_int)
    })
}

/// As [`blosc2_getitem`], with the length from the chunk's header, into a buffer for these items.
///
/// # Safety
/// `src` is a whole chunk, `dest` has room for the items.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_getitem(
    src: *const c_void,
    start: c_int,
    nitems: c_int,
    dest: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let chunk = unsafe { chunk_at(src, i32::MAX) }?;
        let itemsize = usize::from(crate::core::header::ChunkHead::parse(chunk)?.typesize);
        // SAFETY: as above.
        let dest =
            unsafe { bytes_mut(dest, length(nitems)?.saturating_mul(itemsize).min(i32::MAX as usize)) }?;
        let dparams = blosc2_dparams::DEFAULT;
        Ok(Context::decompressing(dparams, Hooks::default()).get_items(chunk, start, nitems, dest)? as c_int)
    })
}

/// Returns the number of threads of the process's settings.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_nthreads() -> i16 {
    GlobalState::lock().nthreads
}

/// Sets the number of threads and returns the previous one.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_set_nthreads(nthreads: i16) -> i16 {
    if nthreads <= 0 {
        return code::INVALID_PARAM as i16;
    }
    GlobalState::lock().set_nthreads(nthreads)
}

/// Returns the name of the process's codec.
#[unsafe(no_mangle)]
pub extern "C" fn blosc1_get_compressor() -> *const c_char {
    let code = c_int::from(GlobalState::lock().compressor);
    names::name_of(code).or_else(|| callbacks::codec_name(code)).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Sets the process's codec and returns its id.
///
/// # Safety
/// `compname` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc1_set_compressor(compname: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let code = code_of(unsafe { text(compname) }?).filter(|code| *code < 6).ok_or(Error(-1))?;
        GlobalState::lock().compressor = code as u8;
        Ok(code)
    })
}

/// Sets whether the process's filters include delta.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_set_delta(dodelta: c_int) {
    GlobalState::lock().delta = dodelta != 0;
}

/// Returns the process's block size, 0 for automatic.
#[unsafe(no_mangle)]
pub extern "C" fn blosc1_get_blocksize() -> c_int {
    GlobalState::lock().blocksize
}

/// Sets the process's block size.
#[unsafe(no_mangle)]
pub extern "C" fn blosc1_set_blocksize(blocksize: usize) {
    GlobalState::lock().blocksize = i32::try_from(blocksize).unwrap_or(0);
}

/// Sets the split mode of the process.
#[unsafe(no_mangle)]
pub extern "C" fn blosc1_set_splitmode(splitmode: c_int) {
    GlobalState::lock().splitmode = splitmode;
}

/// Writes the name of a codec. Returns its id, or -1 if there is none.
///
/// # Safety
/// `compname` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_compcode_to_compname(compcode: c_int, compname: *mut *const c_char) -> c_int {
    guard(|| {
        let name = names::name_of(compcode).or_else(|| callbacks::codec_name(compcode));
        // SAFETY: guaranteed by the caller.
        unsafe { put(compname, name.map_or(std::ptr::null(), CStr::as_ptr)) };
        if name.is_some() { Ok(compcode) } else { Err(Error(-1)) }
    })
}

/// Returns the id of a codec, or -1.
///
/// # Safety
/// `compname` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_compname_to_compcode(compname: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller.
    guard(|| code_of(unsafe { text(compname) }?).ok_or(Error(-1)))
}

/// Returns the names of the codecs, separated by commas.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_list_compressors() -> *const c_char {
    names::CODEC_LIST.as_ptr()
}

/// Returns the version of C-Blosc2 whose interface this library implements.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_version_string() -> *const c_char {
    names::VERSION.as_ptr()
}

/// Returns the library of a codec and its version, as texts that the caller frees.
///
/// # Safety
/// The pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_get_complib_info(
    compname: *const c_char,
    complib: *mut *mut c_char,
    version: *mut *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(compname) }?;
        let registered =
            || callbacks::codec_of(name).map(|(_, library)| (library, name, names::UNKNOWN_VERSION));
        let (library, called, numbered) = names::library_of(name).or_else(registered).ok_or(Error(-1))?;
        // SAFETY: as above.
        unsafe {
            if !complib.is_null() {
                put(complib, memory::copied_text(called)?);
            }
            if !version.is_null() {
                put(version, memory::copied_text(numbered)?);
            }
        }
        Ok(library)
    })
}

/// Returns a description of an error code.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_error_string(error_code: c_int) -> *const c_char {
    describe(error_code).as_ptr()
}

/// Returns the default parameters.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_blosc2_cparams_defaults() -> blosc2_cparams {
    blosc2_cparams::DEFAULT
}

/// Returns the default parameters.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_blosc2_dparams_defaults() -> blosc2_dparams {
    blosc2_dparams::DEFAULT
}

/// Returns the default storage: memory.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_blosc2_storage_defaults() -> blosc2_storage {
    blosc2_storage::DEFAULT
}

/// Returns the default file I/O.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_blosc2_io_defaults() -> blosc2_io {
    crate::ffi::io::DEFAULT
}

/// Returns the default parameters of file mapping.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_blosc2_stdio_mmap_defaults() -> blosc2_stdio_mmap {
    crate::ffi::stdio::MMAP_DEFAULT
}
