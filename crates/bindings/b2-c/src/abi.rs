//! The structures and constants of `blosc2.h` and `b2nd.h` as C lays them out. `tests/programs.rs` compares sizes and
//! offsets with those of a C compiler for our headers and, if installed, those of C-Blosc2.

#![allow(non_camel_case_types, reason = "names of C; the types are in exported signatures")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicUsize,
    Ordering,
};

pub(crate) const MAX_FILTERS: usize = 6;
pub(crate) const MAX_METALAYERS: usize = 16;
pub(crate) const MAX_VLMETALAYERS: usize = 8 * 1024;
pub(crate) const METALAYER_NAME_MAXLEN: usize = 31;
pub(crate) const MAX_DIM: usize = 16;
pub(crate) const MIN_HEADER: usize = 16;
pub(crate) const EXTENDED_HEADER: usize = 32;
pub(crate) const MAX_OVERHEAD: usize = 32;
pub(crate) const MAX_BUFFERSIZE: i32 = i32::MAX - 32;
pub(crate) const MAX_BLOCKSIZE: i32 = 536_866_816;

/// The error codes of `blosc2.h`.
pub(crate) mod code {
    pub(crate) const FAILURE: i32 = -1;
    pub(crate) const DATA: i32 = -3;
    pub(crate) const MEMORY_ALLOC: i32 = -4;
    pub(crate) const READ_BUFFER: i32 = -5;
    pub(crate) const WRITE_BUFFER: i32 = -6;
    pub(crate) const CODEC_SUPPORT: i32 = -7;
    pub(crate) const CODEC_PARAM: i32 = -8;
    pub(crate) const CODEC_DICT: i32 = -9;
    pub(crate) const VERSION_SUPPORT: i32 = -10;
    pub(crate) const INVALID_HEADER: i32 = -11;
    pub(crate) const INVALID_PARAM: i32 = -12;
    pub(crate) const FILE_READ: i32 = -13;
    pub(crate) const FILE_WRITE: i32 = -14;
    pub(crate) const FILE_OPEN: i32 = -15;
    pub(crate) const NOT_FOUND: i32 = -16;
    pub(crate) const FILTER_PIPELINE: i32 = -18;
    pub(crate) const CHUNK_INSERT: i32 = -19;
    pub(crate) const CHUNK_APPEND: i32 = -20;
    pub(crate) const CHUNK_UPDATE: i32 = -21;
    pub(crate) const SCHUNK_COPY: i32 = -23;
    pub(crate) const FILE_TRUNCATE: i32 = -25;
    pub(crate) const POSTFILTER: i32 = -27;
    pub(crate) const FRAME_SPECIAL: i32 = -28;
    pub(crate) const SCHUNK_SPECIAL: i32 = -29;
    pub(crate) const PLUGIN_IO: i32 = -30;
    pub(crate) const FILE_REMOVE: i32 = -31;
    pub(crate) const NULL_POINTER: i32 = -32;
    pub(crate) const INVALID_INDEX: i32 = -33;
    pub(crate) const METALAYER_NOT_FOUND: i32 = -34;
    pub(crate) const MAX_BUFSIZE_EXCEEDED: i32 = -35;
    pub(crate) const TUNER: i32 = -36;
    pub(crate) const LOCK: i32 = -37;
}

pub(crate) type prefilter_fn = unsafe extern "C" fn(*mut blosc2_prefilter_params) -> c_int;
pub(crate) type postfilter_fn = unsafe extern "C" fn(*mut blosc2_postfilter_params) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_prefilter_params {
    pub user_data: *mut c_void,
    pub input: *const u8,
    pub output: *mut u8,
    pub output_size: i32,
    pub output_typesize: i32,
    pub output_offset: i32,
    pub nchunk: i64,
    pub nblock: i32,
    pub tid: i32,
    pub ttmp: *mut u8,
    pub ttmp_nbytes: usize,
    pub ctx: *mut c_void,
    pub output_is_disposable: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_postfilter_params {
    pub user_data: *mut c_void,
    pub input: *const u8,
    pub output: *mut u8,
    pub size: i32,
    pub typesize: i32,
    pub offset: i32,
    pub nchunk: i64,
    pub nblock: i32,
    pub tid: i32,
    pub ttmp: *mut u8,
    pub ttmp_nbytes: usize,
    pub ctx: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_cparams {
    pub compcode: u8,
    pub compcode_meta: u8,
    pub clevel: u8,
    pub use_dict: c_int,
    pub typesize: i32,
    pub nthreads: i16,
    pub blocksize: i32,
    pub splitmode: i32,
    pub schunk: *mut c_void,
    pub filters: [u8; MAX_FILTERS],
    pub filters_meta: [u8; MAX_FILTERS],
    pub prefilter: Option<prefilter_fn>,
    pub preparams: *mut blosc2_prefilter_params,
    pub tuner_params: *mut c_void,
    pub tuner_id: c_int,
    pub instr_codec: bool,
    pub codec_params: *mut c_void,
    pub filter_params: [*mut c_void; MAX_FILTERS],
}

impl blosc2_cparams {
    /// `BLOSC2_CPARAMS_DEFAULTS`.
    pub(crate) const DEFAULT: Self = Self {
        compcode: 0,
        compcode_meta: 0,
        clevel: 5,
        use_dict: 0,
        typesize: 8,
        nthreads: 1,
        blocksize: 0,
        splitmode: 4,
        schunk: std::ptr::null_mut(),
        filters: [0, 0, 0, 0, 0, 1],
        filters_meta: [0; MAX_FILTERS],
        prefilter: None,
        preparams: std::ptr::null_mut(),
        tuner_params: std::ptr::null_mut(),
        tuner_id: 0,
        instr_codec: false,
        codec_params: std::ptr::null_mut(),
        filter_params: [std::ptr::null_mut(); MAX_FILTERS],
    };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_dparams {
    pub nthreads: i16,
    pub schunk: *mut c_void,
    pub postfilter: Option<postfilter_fn>,
    pub postparams: *mut blosc2_postfilter_params,
    pub typesize: i32,
}

impl blosc2_dparams {
    /// `BLOSC2_DPARAMS_DEFAULTS`.
    pub(crate) const DEFAULT: Self = Self {
        nthreads: 1,
        schunk: std::ptr::null_mut(),
        postfilter: None,
        postparams: std::ptr::null_mut(),
        typesize: 8,
    };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_io {
    pub id: u8,
    pub name: *const c_char,
    pub params: *mut c_void,
}

pub type open_cb = unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void) -> *mut c_void;
pub type close_cb = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type size_cb = unsafe extern "C" fn(*mut c_void) -> i64;
pub type write_cb = unsafe extern "C" fn(*const c_void, i64, i64, i64, *mut c_void) -> i64;
pub type read_cb = unsafe extern "C" fn(*mut *mut c_void, i64, i64, i64, *mut c_void) -> i64;
pub type truncate_cb = unsafe extern "C" fn(*mut c_void, i64) -> c_int;
pub type destroy_cb = unsafe extern "C" fn(*mut c_void) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_io_cb {
    pub id: u8,
    pub name: *mut c_char,
    pub is_allocation_necessary: bool,
    pub open: Option<open_cb>,
    pub close: Option<close_cb>,
    pub size: Option<size_cb>,
    pub write: Option<write_cb>,
    pub read: Option<read_cb>,
    pub truncate: Option<truncate_cb>,
    pub destroy: Option<destroy_cb>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_storage {
    pub contiguous: bool,
    pub urlpath: *mut c_char,
    pub cparams: *mut blosc2_cparams,
    pub dparams: *mut blosc2_dparams,
    pub io: *mut blosc2_io,
}

impl blosc2_storage {
    /// `BLOSC2_STORAGE_DEFAULTS`.
    pub(crate) const DEFAULT: Self = Self {
        contiguous: false,
        urlpath: std::ptr::null_mut(),
        cparams: std::ptr::null_mut(),
        dparams: std::ptr::null_mut(),
        io: std::ptr::null_mut(),
    };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_metalayer {
    pub name: *mut c_char,
    pub content: *mut u8,
    pub content_len: i32,
}

/// A field of a structure that threads share, with the layout of its plain type: C programs may read a super-chunk or
/// array from several threads, and reading sets some fields. Atomics avoid data races.
pub(crate) trait Field<T: Copy> {
    fn get(&self) -> T;
    fn set(&self, value: T);
    /// Adds to the value, not atomically: callers must not do so from two threads.
    fn add(&self, value: T)
    where
        T: std::ops::Add<Output = T>,
    {
        self.set(self.get() + value);
    }
}

macro_rules! fields {
    ($($atomic:ty: $plain:ty),*) => {
        $(impl Field<$plain> for $atomic {
            fn get(&self) -> $plain {
                self.load(Ordering::Relaxed)
            }
            fn set(&self, value: $plain) {
                self.store(value, Ordering::Relaxed);
            }
        })*
    };
}

fields!(AtomicBool: bool, AtomicI8: i8, AtomicI16: i16, AtomicI32: i32, AtomicI64: i64);
fields!(AtomicU8: u8, AtomicU16: u16, AtomicUsize: usize);

impl<T> Field<*mut T> for AtomicPtr<T> {
    // The target of a pointer is written before the pointer.
    fn get(&self) -> *mut T {
        self.load(Ordering::Acquire)
    }
    fn set(&self, value: *mut T) {
        self.store(value, Ordering::Release);
    }
}

/// Returns the values of consecutive fields.
pub(crate) fn values_of<T: Copy, F: Field<T>, const N: usize>(fields: &[F; N]) -> [T; N] {
    std::array::from_fn(|n| fields[n].get())
}

#[repr(C)]
pub struct blosc2_schunk {
    pub version: AtomicU8,
    pub compcode: AtomicU8,
    pub compcode_meta: AtomicU8,
    pub clevel: AtomicU8,
    pub splitmode: AtomicU8,
    pub typesize: AtomicI32,
    pub blocksize: AtomicI32,
    pub chunksize: AtomicI32,
    pub flags2: AtomicU8,
    pub use_dict: AtomicU8,
    pub filters: [AtomicU8; MAX_FILTERS],
    pub filters_meta: [AtomicU8; MAX_FILTERS],
    pub nchunks: AtomicI64,
    pub current_nchunk: AtomicI64,
    pub nbytes: AtomicI64,
    pub cbytes: AtomicI64,
    pub data: AtomicPtr<*mut u8>,
    pub data_len: AtomicUsize,
    pub storage: AtomicPtr<blosc2_storage>,
    pub frame: AtomicPtr<c_void>,
    pub cctx: AtomicPtr<c_void>,
    pub dctx: AtomicPtr<c_void>,
    pub metalayers: [AtomicPtr<blosc2_metalayer>; MAX_METALAYERS],
    pub nmetalayers: AtomicU16,
    pub vlmetalayers: [AtomicPtr<blosc2_metalayer>; MAX_VLMETALAYERS],
    pub nvlmetalayers: AtomicI16,
    pub tuner_params: AtomicPtr<c_void>,
    pub tuner_id: AtomicI32,
    pub ndim: AtomicI8,
    pub blockshape: AtomicPtr<i64>,
    pub view: AtomicBool,
    pub change_tick: AtomicI64,
}

#[repr(C)]
pub struct chunk_cache_s {
    pub data: AtomicPtr<u8>,
    pub nchunk: AtomicI64,
}

#[repr(C)]
pub struct b2nd_array_t {
    pub sc: AtomicPtr<blosc2_schunk>,
    pub shape: [AtomicI64; MAX_DIM],
    pub chunkshape: [AtomicI32; MAX_DIM],
    pub extshape: [AtomicI64; MAX_DIM],
    pub blockshape: [AtomicI32; MAX_DIM],
    pub extchunkshape: [AtomicI64; MAX_DIM],
    pub nitems: AtomicI64,
    pub chunknitems: AtomicI32,
    pub extnitems: AtomicI64,
    pub blocknitems: AtomicI32,
    pub extchunknitems: AtomicI64,
    pub ndim: AtomicI8,
    pub chunk_cache: chunk_cache_s,
    pub item_array_strides: [AtomicI64; MAX_DIM],
    pub item_chunk_strides: [AtomicI64; MAX_DIM],
    pub item_extchunk_strides: [AtomicI64; MAX_DIM],
    pub item_block_strides: [AtomicI64; MAX_DIM],
    pub block_chunk_strides: [AtomicI64; MAX_DIM],
    pub chunk_array_strides: [AtomicI64; MAX_DIM],
    pub dtype: AtomicPtr<c_char>,
    pub dtype_format: AtomicI8,
    pub last_tick: AtomicI64,
}

pub type encoder_cb =
    unsafe extern "C" fn(*const u8, i32, *mut u8, i32, u8, *mut blosc2_cparams, *const c_void) -> c_int;
pub type decoder_cb =
    unsafe extern "C" fn(*const u8, i32, *mut u8, i32, u8, *mut blosc2_dparams, *const c_void) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_codec {
    pub compcode: u8,
    pub compname: *mut c_char,
    pub complib: u8,
    pub version: u8,
    pub encoder: Option<encoder_cb>,
    pub decoder: Option<decoder_cb>,
}

pub type forward_cb = unsafe extern "C" fn(*const u8, *mut u8, i32, u8, *mut blosc2_cparams, u8) -> c_int;
pub type backward_cb = unsafe extern "C" fn(*const u8, *mut u8, i32, u8, *mut blosc2_dparams, u8) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_filter {
    pub id: u8,
    pub name: *mut c_char,
    pub version: u8,
    pub forward: Option<forward_cb>,
    pub backward: Option<backward_cb>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_tuner {
    pub init: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int>,
    pub next_blocksize: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub next_cparams: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub update: Option<unsafe extern "C" fn(*mut c_void, f64) -> c_int>,
    pub free: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub id: c_int,
    pub name: *mut c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_stdio_file {
    pub file: *mut libc::FILE,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_stdio_params {
    pub locking: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct blosc2_stdio_mmap {
    pub mode: *const c_char,
    pub initial_mapping_size: usize,
    pub needs_free: bool,
    pub addr: *mut c_char,
    pub urlpath: *mut c_char,
    pub file_size: usize,
    pub mapping_size: usize,
    pub is_memory_only: bool,
    pub file: *mut libc::FILE,
    pub fd: c_int,
    pub access_flags: i64,
    pub map_flags: i64,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Compiles and runs `tests/c/layout.c`. Fails without a C compiler.
    fn in_c() -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = std::env::temp_dir().join(format!("b2-c-layout-{}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-Wall", "-Werror"]).arg("-I").arg(folder.join("include"));
        cc.arg(folder.join("tests/c/layout.c")).arg("-o").arg(&program);
        assert!(cc.status().unwrap().success());
        let output = Command::new(&program).output().unwrap();
        std::fs::remove_file(&program).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn structures_are_laid_out_as_in_c() {
        let in_rust = [
            ("blosc2_cparams", size_of::<blosc2_cparams>()),
            ("blosc2_cparams.use_dict", offset_of!(blosc2_cparams, use_dict)),
            ("blosc2_cparams.typesize", offset_of!(blosc2_cparams, typesize)),
            ("blosc2_cparams.nthreads", offset_of!(blosc2_cparams, nthreads)),
            ("blosc2_cparams.blocksize", offset_of!(blosc2_cparams, blocksize)),
            ("blosc2_cparams.splitmode", offset_of!(blosc2_cparams, splitmode)),
            ("blosc2_cparams.schunk", offset_of!(blosc2_cparams, schunk)),
            ("blosc2_cparams.filters", offset_of!(blosc2_cparams, filters)),
            ("blosc2_cparams.filters_meta", offset_of!(blosc2_cparams, filters_meta)),
            ("blosc2_cparams.prefilter", offset_of!(blosc2_cparams, prefilter)),
            ("blosc2_cparams.preparams", offset_of!(blosc2_cparams, preparams)),
            ("blosc2_cparams.tuner_id", offset_of!(blosc2_cparams, tuner_id)),
            ("blosc2_cparams.instr_codec", offset_of!(blosc2_cparams, instr_codec)),
            ("blosc2_cparams.codec_params", offset_of!(blosc2_cparams, codec_params)),
            ("blosc2_cparams.filter_params", offset_of!(blosc2_cparams, filter_params)),
            ("blosc2_dparams", size_of::<blosc2_dparams>()),
            ("blosc2_dparams.schunk", offset_of!(blosc2_dparams, schunk)),
            ("blosc2_dparams.postfilter", offset_of!(blosc2_dparams, postfilter)),
            ("blosc2_dparams.postparams", offset_of!(blosc2_dparams, postparams)),
            ("blosc2_dparams.typesize", offset_of!(blosc2_dparams, typesize)),
            ("blosc2_prefilter_params", size_of::<blosc2_prefilter_params>()),
            ("blosc2_prefilter_params.output_offset", offset_of!(blosc2_prefilter_params, output_offset)),
            ("blosc2_prefilter_params.nchunk", offset_of!(blosc2_prefilter_params, nchunk)),
            ("blosc2_prefilter_params.tid", offset_of!(blosc2_prefilter_params, tid)),
            ("blosc2_prefilter_params.ttmp", offset_of!(blosc2_prefilter_params, ttmp)),
            ("blosc2_prefilter_params.ctx", offset_of!(blosc2_prefilter_params, ctx)),
            (
                "blosc2_prefilter_params.output_is_disposable",
                offset_of!(blosc2_prefilter_params, output_is_disposable),
            ),
            ("blosc2_postfilter_params", size_of::<blosc2_postfilter_params>()),
            ("blosc2_postfilter_params.offset", offset_of!(blosc2_postfilter_params, offset)),
            ("blosc2_postfilter_params.nchunk", offset_of!(blosc2_postfilter_params, nchunk)),
            ("blosc2_postfilter_params.tid", offset_of!(blosc2_postfilter_params, tid)),
            ("blosc2_postfilter_params.ctx", offset_of!(blosc2_postfilter_params, ctx)),
            ("blosc2_io", size_of::<blosc2_io>()),
            ("blosc2_io.params", offset_of!(blosc2_io, params)),
            ("blosc2_io_cb", size_of::<blosc2_io_cb>()),
            ("blosc2_io_cb.is_allocation_necessary", offset_of!(blosc2_io_cb, is_allocation_necessary)),
            ("blosc2_io_cb.open", offset_of!(blosc2_io_cb, open)),
            ("blosc2_io_cb.destroy", offset_of!(blosc2_io_cb, destroy)),
            ("blosc2_storage", size_of::<blosc2_storage>()),
            ("blosc2_storage.urlpath", offset_of!(blosc2_storage, urlpath)),
            ("blosc2_storage.io", offset_of!(blosc2_storage, io)),
            ("blosc2_metalayer", size_of::<blosc2_metalayer>()),
            ("blosc2_metalayer.content_len", offset_of!(blosc2_metalayer, content_len)),
            ("blosc2_schunk", size_of::<blosc2_schunk>()),
            ("blosc2_schunk.typesize", offset_of!(blosc2_schunk, typesize)),
            ("blosc2_schunk.blocksize", offset_of!(blosc2_schunk, blocksize)),
            ("blosc2_schunk.chunksize", offset_of!(blosc2_schunk, chunksize)),
            ("blosc2_schunk.flags2", offset_of!(blosc2_schunk, flags2)),
            ("blosc2_schunk.filters", offset_of!(blosc2_schunk, filters)),
            ("blosc2_schunk.nchunks", offset_of!(blosc2_schunk, nchunks)),
            ("blosc2_schunk.current_nchunk", offset_of!(blosc2_schunk, current_nchunk)),
            ("blosc2_schunk.nbytes", offset_of!(blosc2_schunk, nbytes)),
            ("blosc2_schunk.cbytes", offset_of!(blosc2_schunk, cbytes)),
            ("blosc2_schunk.data", offset_of!(blosc2_schunk, data)),
            ("blosc2_schunk.data_len", offset_of!(blosc2_schunk, data_len)),
            ("blosc2_schunk.storage", offset_of!(blosc2_schunk, storage)),
            ("blosc2_schunk.frame", offset_of!(blosc2_schunk, frame)),
            ("blosc2_schunk.cctx", offset_of!(blosc2_schunk, cctx)),
            ("blosc2_schunk.dctx", offset_of!(blosc2_schunk, dctx)),
            ("blosc2_schunk.metalayers", offset_of!(blosc2_schunk, metalayers)),
            ("blosc2_schunk.nmetalayers", offset_of!(blosc2_schunk, nmetalayers)),
            ("blosc2_schunk.vlmetalayers", offset_of!(blosc2_schunk, vlmetalayers)),
            ("blosc2_schunk.nvlmetalayers", offset_of!(blosc2_schunk, nvlmetalayers)),
            ("blosc2_schunk.tuner_id", offset_of!(blosc2_schunk, tuner_id)),
            ("blosc2_schunk.ndim", offset_of!(blosc2_schunk, ndim)),
            ("blosc2_schunk.blockshape", offset_of!(blosc2_schunk, blockshape)),
            ("blosc2_schunk.view", offset_of!(blosc2_schunk, view)),
            ("blosc2_schunk.change_tick", offset_of!(blosc2_schunk, change_tick)),
            ("b2nd_array_t", size_of::<b2nd_array_t>()),
            ("b2nd_array_t.shape", offset_of!(b2nd_array_t, shape)),
            ("b2nd_array_t.chunkshape", offset_of!(b2nd_array_t, chunkshape)),
            ("b2nd_array_t.extshape", offset_of!(b2nd_array_t, extshape)),
            ("b2nd_array_t.blockshape", offset_of!(b2nd_array_t, blockshape)),
            ("b2nd_array_t.extchunkshape", offset_of!(b2nd_array_t, extchunkshape)),
            ("b2nd_array_t.nitems", offset_of!(b2nd_array_t, nitems)),
            ("b2nd_array_t.chunknitems", offset_of!(b2nd_array_t, chunknitems)),
            ("b2nd_array_t.extnitems", offset_of!(b2nd_array_t, extnitems)),
            ("b2nd_array_t.blocknitems", offset_of!(b2nd_array_t, blocknitems)),
            ("b2nd_array_t.extchunknitems", offset_of!(b2nd_array_t, extchunknitems)),
            ("b2nd_array_t.ndim", offset_of!(b2nd_array_t, ndim)),
            ("b2nd_array_t.chunk_cache", offset_of!(b2nd_array_t, chunk_cache)),
            ("b2nd_array_t.item_array_strides", offset_of!(b2nd_array_t, item_array_strides)),
            ("b2nd_array_t.chunk_array_strides", offset_of!(b2nd_array_t, chunk_array_strides)),
            ("b2nd_array_t.dtype", offset_of!(b2nd_array_t, dtype)),
            ("b2nd_array_t.dtype_format", offset_of!(b2nd_array_t, dtype_format)),
            ("b2nd_array_t.last_tick", offset_of!(b2nd_array_t, last_tick)),
            ("blosc2_codec", size_of::<blosc2_codec>()),
            ("blosc2_codec.complib", offset_of!(blosc2_codec, complib)),
            ("blosc2_codec.encoder", offset_of!(blosc2_codec, encoder)),
            ("blosc2_filter", size_of::<blosc2_filter>()),
            ("blosc2_filter.forward", offset_of!(blosc2_filter, forward)),
            ("blosc2_tuner", size_of::<blosc2_tuner>()),
            ("blosc2_tuner.id", offset_of!(blosc2_tuner, id)),
            ("blosc2_stdio_file", size_of::<blosc2_stdio_file>()),
            ("blosc2_stdio_params", size_of::<blosc2_stdio_params>()),
            ("blosc2_stdio_mmap", size_of::<blosc2_stdio_mmap>()),
            ("blosc2_stdio_mmap.needs_free", offset_of!(blosc2_stdio_mmap, needs_free)),
            ("blosc2_stdio_mmap.addr", offset_of!(blosc2_stdio_mmap, addr)),
            ("blosc2_stdio_mmap.file_size", offset_of!(blosc2_stdio_mmap, file_size)),
            ("blosc2_stdio_mmap.file", offset_of!(blosc2_stdio_mmap, file)),
            ("blosc2_stdio_mmap.map_flags", offset_of!(blosc2_stdio_mmap, map_flags)),
        ];
        let in_rust: String = in_rust.iter().map(|(what, number)| format!("{what} {number}\n")).collect();
        assert_eq!(in_c(), in_rust);
    }
}
