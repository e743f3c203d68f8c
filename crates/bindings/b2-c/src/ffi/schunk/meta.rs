//! Metalayers of super-chunks.

use super::*;
use crate::core::store::MAX_STORED_VLMETALAYERS;

/// Returns a name from C, of at most 31 bytes.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn name_at<'a>(name: *const c_char) -> Result<&'a [u8]> {
    ensure(!name.is_null(), code::INVALID_PARAM)?;
    // SAFETY: guaranteed by the caller.
    let name = unsafe { text(name) }?.to_bytes();
    ensure(name.len() <= METALAYER_NAME_MAXLEN, code::INVALID_PARAM)?;
    Ok(name)
}

/// # Safety
/// `content` is null or has `content_len` bytes.
unsafe fn content_at<'a>(content: *const u8, content_len: i32) -> Result<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    unsafe { bytes(content.cast(), length(content_len)?) }.map_err(|_| Error(code::INVALID_PARAM))
}

/// Adds a metalayer. Returns its index.
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
        // SAFETY: guaranteed by the caller.
        let (state, name, content) =
            unsafe { (state(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        state.change(|state| {
            let metas = state.store().metas()?;
            ensure(!metas.iter().any(|meta| meta.0 == name), code::INVALID_PARAM)?;
            ensure(metas.len() < MAX_METALAYERS, code::INVALID_PARAM)?;
            state.store().add_meta(name, content)?;
            state.mirror_metas()?;
            Ok(metas.len() as c_int)
        })
    })
}

/// Replaces the start of a metalayer. Returns its index.
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
        // SAFETY: guaranteed by the caller.
        let (state, name, content) =
            unsafe { (state(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        update_meta(state, name, content)
    })
}

pub(crate) fn update_meta(state: &SchunkState, name: &[u8], content: &[u8]) -> Result<c_int> {
    state.change(|state| {
        let metas = state.store().metas()?;
        let n = metas.iter().position(|meta| meta.0 == name).ok_or(Error(code::NOT_FOUND))?;
        let mut value = metas[n].1.clone();
        value.get_mut(..content.len()).ok_or(Error(code::INVALID_PARAM))?.copy_from_slice(content);
        state.store().update_meta(name, &value)?;
        state.mirror_metas()?;
        Ok(n as c_int)
    })
}

fn vlmeta_at(state: &SchunkState, name: &[u8]) -> Result<(usize, Bytes)> {
    let metas = state.store().vlmetas()?;
    let n = metas.iter().position(|meta| meta.0 == name).ok_or(Error(code::NOT_FOUND))?;
    Ok((n, metas[n].1.clone()))
}

/// Returns the index of a vlmetalayer.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_exists(schunk: *mut blosc2_schunk, name: *const c_char) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: guaranteed by the caller.
        let (state, name) = unsafe { (state(schunk)?, name_at(name)?) };
        state.refresh()?;
        Ok(vlmeta_at(state, name)?.0 as c_int)
    })
}

/// # Safety
/// `cparams` is null or valid.
unsafe fn set_vlmeta(
    state: &SchunkState,
    name: &[u8],
    content: &[u8],
    cparams: *mut blosc2_cparams,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let cparams = unsafe { cparams.as_ref() }.copied().unwrap_or(blosc2_cparams::DEFAULT);
    let cparams = blosc2_cparams { schunk: std::ptr::null_mut(), ..cparams };
    // SAFETY: as above.
    let context = unsafe { create_cctx(&cparams) }?;
    let mut chunk = b2_core::memory::zeroed(content.len() + MAX_OVERHEAD)?;
    let cbytes = context.compress(content, &mut chunk)?;
    chunk.truncate(cbytes);
    let chunksize = state.chunksize_to_store(state.c.chunksize.get());
    state.store().set_vlmeta(name, chunk.into(), chunksize)?;
    state.c.change_tick.add(1);
    state.mirror_metas()
}

/// Adds a vlmetalayer. Returns its index.
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
        // SAFETY: guaranteed by the caller.
        let (state, name, content) =
            unsafe { (state(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        state.change(|state| {
            let n = state.store().vlmetas()?.len();
            ensure(vlmeta_at(state, name).is_err() && n < MAX_VLMETALAYERS, code::INVALID_PARAM)?;
            ensure(n < MAX_STORED_VLMETALAYERS || !state.is_contiguous()?, code::FAILURE)?;
            // SAFETY: as above.
            unsafe { set_vlmeta(state, name, content, cparams) }?;
            Ok(n as c_int)
        })
    })
}

/// Replaces a vlmetalayer. Returns its index.
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
        // SAFETY: guaranteed by the caller.
        let (state, name, content) =
            unsafe { (state(schunk)?, name_at(name)?, content_at(content, content_len)?) };
        state.change(|state| {
            let (n, _) = vlmeta_at(state, name)?;
            // SAFETY: as above.
            unsafe { set_vlmeta(state, name, content, cparams) }?;
            Ok(n as c_int)
        })
    })
}

/// Returns the content of a vlmetalayer in memory that the caller frees; null if it is empty.
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
        // SAFETY: guaranteed by the caller.
        let (state, name) = unsafe { (state(schunk)?, name_at(name)?) };
        state.refresh()?;
        let (n, chunk) = vlmeta_at(state, name)?;
        let chunk = state.store().shown_vlmeta(name).unwrap_or(chunk);
        let plain = Chunk::from_bytes(chunk)?.decompress_bytes()?;
        // SAFETY: as above.
        unsafe {
            put(content, if plain.is_empty() { std::ptr::null_mut() } else { copied(&plain)? });
            put(content_len, plain.len() as i32);
        }
        Ok(n as c_int)
    })
}

/// Removes a vlmetalayer. Returns the number of remaining ones.
///
/// # Safety
/// `schunk` is null or a super-chunk, `name` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_delete(schunk: *mut blosc2_schunk, name: *const c_char) -> c_int {
    guard(|| {
        ensure(!schunk.is_null(), code::INVALID_PARAM)?;
        // SAFETY: guaranteed by the caller.
        let (state, name) = unsafe { (state(schunk)?, name_at(name)?) };
        state.change(|state| {
            vlmeta_at(state, name)?;
            state.store().delete_vlmeta(name)?;
            state.c.change_tick.add(1);
            state.mirror_metas()?;
            Ok(c_int::from(state.c.nvlmetalayers.get()))
        })
    })
}

/// Returns the names of the vlmetalayers, owned by the super-chunk.
///
/// # Safety
/// `schunk` is null or a super-chunk; there is room for as many names as it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_vlmeta_get_names(
    schunk: *mut blosc2_schunk,
    names: *mut *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let state = unsafe { state(schunk) }?;
        let _shown = locked(&state.shown);
        let n = usize::try_from(state.c.nvlmetalayers.get()).unwrap_or(0);
        for (place, meta) in state.c.vlmetalayers.iter().take(n).enumerate() {
            // SAFETY: as above; the metalayers were created by `mirror_metas`.
            unsafe { put(names.add(place), copy_at(meta.get())?.name) };
        }
        Ok(n as c_int)
    })
}
