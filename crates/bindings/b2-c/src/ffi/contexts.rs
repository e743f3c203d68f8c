//! Contexts, and chunks passed by programs.

use std::ffi::{CStr, c_int, c_void};

use crate::abi::{MIN_HEADER, blosc2_cparams, blosc2_dparams, blosc2_schunk, code};
use crate::core::context::{Context, ContextKind};
use crate::core::environment::{self, Environment};
use crate::core::error::{Result, ensure};
use crate::core::header::{self, ChunkHead};
use crate::core::names;
use crate::ffi::callbacks::{self, Hooks};
use crate::ffi::{bytes, guard, length, put, shared, size, values};

/// Returns the id of a built-in or registered codec.
pub(crate) fn code_of(name: &CStr) -> Option<i32> {
    names::code_of(name).or_else(|| callbacks::codec_of(name).map(|(code, _)| code))
}

/// Like [`code_of`], for the value of an environment variable.
pub(crate) fn code_of_text(name: &str) -> Option<u8> {
    let name = std::ffi::CString::new(name).ok()?;
    u8::try_from(code_of(&name)?).ok()
}

/// Returns the bytes of a chunk: at most `len`, and not more than the size in its header, since callers may not know
/// the size.
///
/// # Safety
/// `chunk` is null or points to a chunk of at most `len` bytes, or to `len` arbitrary bytes.
pub(crate) unsafe fn chunk_at<'a>(chunk: *const c_void, len: i32) -> Result<&'a [u8]> {
    let len = size(len, code::READ_BUFFER)?;
    ensure(!chunk.is_null(), code::NULL_POINTER)?;
    ensure(len >= MIN_HEADER, code::READ_BUFFER)?;
    // SAFETY: the caller guarantees these bytes.
    let head = unsafe { bytes(chunk, MIN_HEADER) }?;
    let cbytes = ChunkHead::parse(head)?.cbytes as usize;
    // SAFETY: a chunk has as many bytes as its header states; other data have `len` bytes.
    let chunk_bytes = unsafe { bytes(chunk, len.min(cbytes)) }?;
    if len < i32::MAX as usize && header::is_lazy(chunk_bytes) {
        // The header of a lazy chunk has the size with its blocks, which are missing, so `len` counts. SAFETY: the
        // caller guarantees `len` bytes if it knows the length.
        return unsafe { bytes(chunk, len) };
    }
    Ok(chunk_bytes)
}

/// Like [`chunk_at`], for callers that parse the header: with a size, it is not read here.
///
/// # Safety
/// `chunk` is null or has `len` bytes; with the largest `len`, it is a whole chunk.
pub(crate) unsafe fn chunk_in<'a>(chunk: *const c_void, len: i32) -> Result<&'a [u8]> {
    if len < MIN_HEADER as i32 || len == i32::MAX {
        // SAFETY: guaranteed by the caller.
        return unsafe { chunk_at(chunk, len) };
    }
    // SAFETY: as above.
    unsafe { bytes(chunk, len as usize) }
}

/// Creates a context for compressing.
///
/// # Safety
/// Pointers in `cparams` are null or valid.
pub(crate) unsafe fn create_cctx(cparams: &blosc2_cparams) -> Result<Box<Context>> {
    let mut cparams = *cparams;
    Environment::read().apply(&mut cparams, code_of_text);
    let undefined = |id: u8| (5..=31).contains(&id) || (37..=159).contains(&id);
    ensure(!cparams.filters.iter().any(|id| undefined(*id)), code::FILTER_PIPELINE)?;
    let shuffled = cparams.filters.iter().any(|id| matches!(id, 1 | 2));
    ensure(!((33..=35).contains(&cparams.compcode) && shuffled), code::CODEC_PARAM)?;
    // SAFETY: guaranteed by the caller.
    let hooks = unsafe { Hooks::of_cparams(&cparams) }?;
    let tuner = callbacks::tuner(&cparams)?;
    let context = Box::new(Context::compressing(cparams, hooks, tuner.clone()));
    if let Some(tuner) = tuner {
        tuner.init(cparams.tuner_params, context.address())?;
    }
    Ok(context)
}

/// Creates a context for decompressing.
///
/// # Safety
/// Pointers in `dparams` are null or valid.
pub(crate) unsafe fn create_dctx(dparams: &blosc2_dparams) -> Result<Box<Context>> {
    let mut dparams = *dparams;
    if let Some(nthreads) = environment::nthreads() {
        dparams.nthreads = nthreads;
    }
    // SAFETY: guaranteed by the caller.
    let hooks = unsafe { Hooks::of_dparams(&dparams) }?;
    Ok(Box::new(Context::decompressing(dparams, hooks)))
}

/// Returns the context at a pointer.
///
/// # Safety
/// `context` is null or from this library, and not freed for `'a`.
pub(crate) unsafe fn context<'a>(context: *mut c_void) -> Result<&'a Context> {
    // SAFETY: guaranteed by the caller; all that changes in a context is in atomics and locks.
    unsafe { shared(context.cast_const().cast()) }
}

/// Creates a context for compressing, or returns null for invalid parameters.
///
/// # Safety
/// Pointers in `cparams` are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_create_cctx(cparams: blosc2_cparams) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    guard(|| Ok(Box::into_raw(unsafe { create_cctx(&cparams) }?).cast::<c_void>()))
}

/// Creates a context for decompressing.
///
/// # Safety
/// Pointers in `dparams` are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_create_dctx(dparams: blosc2_dparams) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    guard(|| Ok(Box::into_raw(unsafe { create_dctx(&dparams) }?).cast::<c_void>()))
}

/// Frees a context.
///
/// # Safety
/// `context` is null or from this library, and no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_free_ctx(context: *mut c_void) {
    if context.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: it came from a box, and the caller returns it.
        let context = unsafe { Box::from_raw(context.cast::<Context>()) };
        if let Some(tuner) = &context.tuner {
            tuner.free(context.address());
        }
        Ok(())
    });
}

/// Returns the parameters of a context. After a compression, the block size is that of the last chunk.
///
/// # Safety
/// Both pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_ctx_get_cparams(ctx: *mut c_void, cparams: *mut blosc2_cparams) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let context = unsafe { self::context(ctx) }?;
        ensure(!cparams.is_null(), code::NULL_POINTER)?;
        let own = blosc2_cparams { preparams: context.hooks.preparams(), ..context.last_cparams() };
        // SAFETY: as above.
        unsafe { put(cparams, own) };
        Ok(0)
    })
}

/// Returns the parameters of a context.
///
/// # Safety
/// Both pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_ctx_get_dparams(ctx: *mut c_void, dparams: *mut blosc2_dparams) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let context = unsafe { self::context(ctx) }?;
        ensure(!dparams.is_null(), code::NULL_POINTER)?;
        let own = blosc2_dparams { postparams: context.hooks.postparams(), ..context.dparams() };
        // SAFETY: as above.
        unsafe { put(dparams, own) };
        Ok(0)
    })
}

/// Sets which blocks the next call skips.
///
/// # Safety
/// `ctx` is a context, `maskout` has `nblocks` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_set_maskout(ctx: *mut c_void, maskout: *mut bool, nblocks: c_int) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (context, mask) = unsafe { (self::context(ctx)?, values(maskout, length(nblocks)?)?) };
        context.set_maskout(mask);
        Ok(0)
    })
}

/// Returns the super-chunk of a context.
pub(crate) fn schunk_of(context: &Context) -> *mut blosc2_schunk {
    match context.kind {
        ContextKind::Compress => context.cparams().schunk.cast(),
        ContextKind::Decompress => context.dparams().schunk.cast(),
    }
}
