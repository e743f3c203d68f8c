//! Callbacks of programs: codecs, filters, block functions, tuners.

use std::cell::UnsafeCell;
use std::error::Error as StdError;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use b2_chunk::codecs::{Codec, CodecContext, CodecError, CodecProperties, Decoder, Encoded, Encoder};
use b2_chunk::filters::{Filter, FilterContext, FilterError, FilterProperties};
use b2_chunk::{BlockInfo, CodecId, FilterId, Plugins};

use crate::abi::{
    Field, blosc2_codec, blosc2_cparams, blosc2_dparams, blosc2_filter, blosc2_postfilter_params,
    blosc2_prefilter_params, blosc2_schunk, blosc2_tuner, code, postfilter_fn, prefilter_fn,
};
use crate::core::error::{Error, Result, ensure};
use crate::core::names;
use crate::ffi::{copy_at, guard};

/// A value with pointers that are passed to callbacks on any thread.
///
/// The C program guarantees that its callbacks may be called from the threads that it requested.
#[derive(Clone, Copy)]
struct ProgramCallbacks<T>(T);
// SAFETY: the pointers are only passed to callbacks, which are documented to run on several threads.
unsafe impl<T> Send for ProgramCallbacks<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ProgramCallbacks<T> {}

impl<T> ProgramCallbacks<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

static CODECS: RwLock<Vec<ProgramCallbacks<blosc2_codec>>> = RwLock::new(Vec::new());
static FILTERS: RwLock<Vec<ProgramCallbacks<blosc2_filter>>> = RwLock::new(Vec::new());
static TUNERS: RwLock<Vec<ProgramCallbacks<blosc2_tuner>>> = RwLock::new(Vec::new());
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Returns the number of registrations so far.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Makes contexts reload the registered codecs and filters.
pub(crate) fn notify_contexts() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// Information about the current call for user-defined codecs and filters.
pub(crate) struct CallContext {
    params: ProgramCallbacks<(blosc2_cparams, blosc2_dparams)>,
    chunk: AtomicPtr<c_void>,
}

impl CallContext {
    pub(crate) fn new(cparams: blosc2_cparams, dparams: blosc2_dparams) -> Arc<Self> {
        Arc::new(Self { params: ProgramCallbacks((cparams, dparams)), chunk: AtomicPtr::default() })
    }

    /// Sets the chunk that is decompressed.
    pub(crate) fn set_chunk(&self, chunk: *const u8) {
        self.chunk.store(chunk.cast_mut().cast(), Ordering::Relaxed);
    }
}

/// Returns the codecs and filters of the engine and of the program.
pub(crate) fn plugins(call: &Arc<CallContext>) -> Plugins {
    let mut plugins = Plugins::builtin().with_codecs(b2_zfp::codecs());
    if let Ok(codecs) = CODECS.read() {
        for codec in codecs.iter() {
            plugins = plugins.with_codec(UserCodec { codec: *codec, call: call.clone() });
        }
    }
    if let Ok(filters) = FILTERS.read() {
        for filter in filters.iter() {
            plugins = plugins.with_filter(UserFilter { filter: *filter, call: call.clone() });
        }
    }
    plugins
}

/// Returns whether the program has registered codecs or filters.
pub(crate) fn has_own_plugins() -> bool {
    CODECS.read().is_ok_and(|codecs| !codecs.is_empty())
        || FILTERS.read().is_ok_and(|filters| !filters.is_empty())
}

/// Returns the id of a codec that was registered under a name, and the id of its library.
pub(crate) fn codec_of(name: &CStr) -> Option<(i32, i32)> {
    let codecs = CODECS.read().ok()?;
    // SAFETY: `blosc2_register_codec` accepts only names that are C strings and live as long as the codec.
    let named = |codec: &&ProgramCallbacks<blosc2_codec>| unsafe { CStr::from_ptr(codec.0.compname) } == name;
    codecs.iter().find(named).map(|codec| (i32::from(codec.0.compcode), i32::from(codec.0.complib)))
}

/// Returns the name under which a codec was registered.
pub(crate) fn codec_name(code: i32) -> Option<&'static CStr> {
    let codecs = CODECS.read().ok()?;
    let codec = codecs.iter().find(|codec| i32::from(codec.0.compcode) == code)?;
    // SAFETY: as above; names of registered codecs live forever.
    Some(unsafe { CStr::from_ptr(codec.0.compname) })
}

#[derive(Clone)]
struct UserCodec {
    codec: ProgramCallbacks<blosc2_codec>,
    call: Arc<CallContext>,
}

impl std::fmt::Debug for UserCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UserCodec").field(&self.codec.0.compcode).finish()
    }
}

struct UserStreams {
    codec: UserCodec,
    meta: u8,
}

impl Codec for UserCodec {
    fn id(&self) -> CodecId {
        CodecId(self.codec.0.compcode)
    }
    fn name(&self) -> &str {
        "a codec of the program"
    }
    fn properties(&self) -> CodecProperties {
        CodecProperties::BYTES
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(UserStreams { codec: self.clone(), meta: cx.meta }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(UserStreams { codec: self.clone(), meta: cx.meta }))
    }
}

impl Encoder for UserStreams {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let id = self.codec.id();
        let encoder = self.codec.codec.get().encoder;
        let encoder = encoder.ok_or_else(|| CodecError::unsupported(id, "encoding"))?;
        let mut params = self.codec.call.params.get().0;
        let chunk = self.codec.call.chunk.load(Ordering::Relaxed);
        let (from, len) = (src.as_ptr(), src.len() as i32);
        let room = dst.len().min(i32::MAX as usize) as i32;
        // SAFETY: the function was registered for this; the buffers have the given lengths.
        let written = unsafe { encoder(from, len, dst.as_mut_ptr(), room, self.meta, &mut params, chunk) };
        match usize::try_from(written) {
            Ok(written) if written > dst.len() => Err(CodecError::backend(id, "wrote beyond its buffer")),
            Ok(0) => Ok(Encoded::TooBig),
            Ok(written) => Ok(Encoded::Len(written)),
            Err(_) => Err(CodecError::backend(id, format!("failed with {written}"))),
        }
    }
}

impl Decoder for UserStreams {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let id = self.codec.id();
        let decoder = self.codec.codec.get().decoder;
        let decoder = decoder.ok_or_else(|| CodecError::unsupported(id, "decoding"))?;
        let mut params = self.codec.call.params.get().1;
        let chunk = self.codec.call.chunk.load(Ordering::Relaxed);
        let (from, len, room) = (src.as_ptr(), src.len() as i32, dst.len() as i32);
        // SAFETY: the function was registered for this; the buffers have the given lengths.
        let written = unsafe { decoder(from, len, dst.as_mut_ptr(), room, self.meta, &mut params, chunk) };
        if written != room {
            let got = usize::try_from(written).unwrap_or(0);
            return Err(CodecError::wrong_length(id, got, dst.len()));
        }
        Ok(())
    }
}

struct UserFilter {
    filter: ProgramCallbacks<blosc2_filter>,
    call: Arc<CallContext>,
}

impl std::fmt::Debug for UserFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UserFilter").field(&self.filter.0.id).finish()
    }
}

impl Filter for UserFilter {
    fn id(&self) -> FilterId {
        FilterId(self.filter.0.id)
    }
    fn name(&self) -> &str {
        "a filter of the program"
    }
    fn properties(&self, _: &FilterContext<'_>, _: u8) -> FilterProperties {
        FilterProperties::UNKNOWN.shapeless(true)
    }
    fn forward(
        &self,
        _: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let refused = || FilterError::container(self.id(), "the program's function failed");
        let forward = self.filter.get().forward.ok_or_else(refused)?;
        let mut params = self.call.params.get().0;
        let (from, to, len) = (src.as_ptr(), dst.as_mut_ptr(), src.len() as i32);
        // SAFETY: the function was registered for this; both buffers have this length.
        match unsafe { forward(from, to, len, meta, &mut params, self.filter.0.id) } {
            0 => Ok(()),
            _ => Err(refused()),
        }
    }
    fn backward(
        &self,
        _: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        let refused = || FilterError::container(self.id(), "the program's function failed");
        let backward = self.filter.get().backward.ok_or_else(refused)?;
        let mut params = self.call.params.get().1;
        let (from, to, len) = (src.as_ptr(), dst.as_mut_ptr(), src.len() as i32);
        // SAFETY: the function was registered for this; both buffers have this length.
        match unsafe { backward(from, to, len, meta, &mut params, self.filter.0.id) } {
            0 => Ok(()),
            _ => Err(refused()),
        }
    }
}

/// Numbers for threads that are running a hook: each gets the smallest free one.
#[derive(Default)]
struct ThreadSlots(AtomicU64);

impl ThreadSlots {
    fn take(&self) -> u32 {
        let mut taken = 0;
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |bits| {
            taken = bits.trailing_ones().min(63);
            Some(bits | 1 << taken)
        });
        taken
    }

    fn give(&self, slot: u32) {
        self.0.fetch_and(!(1 << slot), Ordering::AcqRel);
    }
}

/// The block functions of a context, with copies of their parameters.
#[derive(Default)]
pub(crate) struct Hooks {
    pre: Option<(prefilter_fn, Box<UnsafeCell<blosc2_prefilter_params>>)>,
    post: Option<(postfilter_fn, Box<UnsafeCell<blosc2_postfilter_params>>)>,
}

type CallbackResult = std::result::Result<(), Box<dyn StdError + Send + Sync>>;

impl Hooks {
    /// Copies the block functions of the parameters of a new context.
    ///
    /// # Safety
    /// `preparams` is null or valid.
    pub(crate) unsafe fn of_cparams(cparams: &blosc2_cparams) -> Result<Self> {
        let Some(function) = cparams.prefilter else { return Ok(Self::default()) };
        // SAFETY: guaranteed by the caller.
        let params = Box::new(UnsafeCell::new(unsafe { copy_at(cparams.preparams) }?));
        Ok(Self { pre: Some((function, params)), post: None })
    }

    /// Copies the block functions of the parameters of a new context.
    ///
    /// # Safety
    /// `postparams` is null or valid.
    pub(crate) unsafe fn of_dparams(dparams: &blosc2_dparams) -> Result<Self> {
        let Some(function) = dparams.postfilter else { return Ok(Self::default()) };
        // SAFETY: guaranteed by the caller.
        let params = Box::new(UnsafeCell::new(unsafe { copy_at(dparams.postparams) }?));
        Ok(Self { pre: None, post: Some((function, params)) })
    }

    /// Returns whether there is a prefilter.
    pub(crate) fn has_prefilter(&self) -> bool {
        self.pre.is_some()
    }

    /// Returns whether there is a postfilter.
    pub(crate) fn has_postfilter(&self) -> bool {
        self.post.is_some()
    }

    /// The address of the copied parameters, as returned by `blosc2_ctx_get_cparams`.
    pub(crate) fn preparams(&self) -> *mut blosc2_prefilter_params {
        self.pre.as_ref().map_or(std::ptr::null_mut(), |(_, params)| params.get())
    }

    /// As [`preparams`](Self::preparams).
    pub(crate) fn postparams(&self) -> *mut blosc2_postfilter_params {
        self.post.as_ref().map_or(std::ptr::null_mut(), |(_, params)| params.get())
    }

    /// Returns the prefilter.
    pub(crate) fn prefilter(
        &self,
        cparams: &blosc2_cparams,
        ctx: *mut c_void,
    ) -> Option<impl Fn(&BlockInfo, &[u8], &mut [u8]) -> CallbackResult + Send + Sync + 'static> {
        let (function, params) = self.pre.as_ref()?;
        // SAFETY: only the program, which has the address, writes there, and not during calls of the library.
        let params = unsafe { params.get().read() };
        let shared = ProgramCallbacks((*function, params, ctx, cparams.schunk, cparams.typesize));
        let slots = ThreadSlots::default();
        Some(move |info: &BlockInfo, src: &[u8], dst: &mut [u8]| {
            let (function, params, ctx, schunk, typesize) = *shared.get();
            let typesize = typesize.max(1);
            let output_typesize = if params.output_typesize > 0 { params.output_typesize } else { typesize };
            let output_size = (src.len() as i32 / typesize).saturating_mul(output_typesize);
            if output_size as usize > dst.len() {
                return Err("the output of the function is larger than its block".into());
            }
            dst.fill(0);
            let slot = slots.take();
            let mut scratch = scratch(src.len(), typesize)?;
            let mut params = blosc2_prefilter_params {
                input: src.as_ptr(),
                output: dst.as_mut_ptr(),
                output_size,
                output_typesize,
                output_offset: info.offset as i32,
                nchunk: nchunk(info, schunk),
                nblock: info.nblock as i32,
                tid: slot as i32,
                ttmp: scratch.as_mut_ptr(),
                ttmp_nbytes: scratch.len(),
                ctx,
                ..params
            };
            // SAFETY: the program passed this function for blocks; the buffers have the given lengths.
            let result = unsafe { function(&mut params) };
            slots.give(slot);
            outcome(result, params.output_is_disposable)
        })
    }

    /// Returns the postfilter.
    pub(crate) fn postfilter(
        &self,
        dparams: &blosc2_dparams,
        ctx: *mut c_void,
    ) -> Option<impl Fn(&BlockInfo, &[u8], &mut [u8]) -> CallbackResult + Send + Sync + 'static> {
        let (function, params) = self.post.as_ref()?;
        // SAFETY: as for the prefilter.
        let params = unsafe { params.get().read() };
        let shared = ProgramCallbacks((*function, params, ctx, dparams.schunk));
        let slots = ThreadSlots::default();
        Some(move |info: &BlockInfo, src: &[u8], dst: &mut [u8]| {
            let (function, params, ctx, schunk) = *shared.get();
            let slot = slots.take();
            let mut scratch = scratch(src.len(), info.itemsize as i32)?;
            let mut params = blosc2_postfilter_params {
                input: src.as_ptr(),
                output: dst.as_mut_ptr(),
                size: dst.len() as i32,
                typesize: info.itemsize as i32,
                offset: info.offset as i32,
                nchunk: nchunk(info, schunk),
                nblock: info.nblock as i32,
                tid: slot as i32,
                ttmp: scratch.as_mut_ptr(),
                ttmp_nbytes: scratch.len(),
                ctx,
                ..params
            };
            // SAFETY: as for the prefilter.
            let result = unsafe { function(&mut params) };
            slots.give(slot);
            outcome(result, false)
        })
    }
}

/// Scratch memory for the functions, of the size used by C-Blosc2.
fn scratch(blocksize: usize, typesize: i32) -> std::result::Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
    let len = blocksize.saturating_add(usize::try_from(typesize).unwrap_or(0).saturating_mul(4));
    Ok(b2_core::memory::zeroed(len.saturating_mul(4))?)
}

fn nchunk(info: &BlockInfo, schunk: *mut c_void) -> i64 {
    // SAFETY: a context's super-chunk lives as long as the context is used; null is handled.
    let schunk = unsafe { schunk.cast::<blosc2_schunk>().as_ref() };
    match (info.nchunk, schunk) {
        (_, Some(schunk)) => schunk.current_nchunk.get(),
        (Some(nchunk), None) => nchunk as i64,
        (None, None) => -1,
    }
}

fn outcome(result: c_int, disposable: bool) -> CallbackResult {
    match result {
        0 => Ok(()),
        _ if disposable => Ok(()),
        result => Err(format!("the function of the program failed with {result}").into()),
    }
}

/// Registers a codec with an id of at least 160.
///
/// # Safety
/// `codec` is null or valid, and its name lives forever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_register_codec(codec: *mut blosc2_codec) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let codec = unsafe { copy_at(codec) }?;
        ensure(codec.compcode >= 160, code::CODEC_PARAM)?;
        ensure(!codec.compname.is_null(), code::CODEC_PARAM)?;
        let mut codecs = CODECS.write().map_err(|_| Error(code::FAILURE))?;
        if let Some(same) = codecs.iter().find(|other| other.0.compcode == codec.compcode) {
            // SAFETY: both are C strings.
            let same = unsafe { CStr::from_ptr(same.0.compname) == CStr::from_ptr(codec.compname) };
            return if same { Ok(0) } else { Err(Error(code::CODEC_PARAM)) };
        }
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(codec.compname) };
        ensure(names::code_of(name).is_none(), code::CODEC_PARAM)?;
        codecs.push(ProgramCallbacks(codec));
        GENERATION.fetch_add(1, Ordering::AcqRel);
        Ok(0)
    })
}

/// Registers a filter with an id of at least 160.
///
/// # Safety
/// `filter` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_register_filter(filter: *mut blosc2_filter) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let filter = unsafe { copy_at(filter) }?;
        ensure(filter.id >= 160, code::FAILURE)?;
        let mut filters = FILTERS.write().map_err(|_| Error(code::FAILURE))?;
        if let Some(other) = filters.iter().find(|other| other.0.id == filter.id) {
            // SAFETY: names of filters are null or C strings.
            let same = unsafe {
                other.0.name == filter.name
                    || !other.0.name.is_null()
                        && !filter.name.is_null()
                        && CStr::from_ptr(other.0.name) == CStr::from_ptr(filter.name)
            };
            return if same { Ok(0) } else { Err(Error(code::FAILURE)) };
        }
        filters.push(ProgramCallbacks(filter));
        GENERATION.fetch_add(1, Ordering::AcqRel);
        Ok(0)
    })
}

/// Registers a tuner with an id of at least 160. Contexts with its id call its functions: `init`; before each
/// compression `next_cparams` and `next_blocksize`, after it `update`; `free` at the end. As in C, all but `init` only
/// if the context has `tuner_params`. A tuner reads the parameters through `blosc2_ctx_get_cparams`; fields of
/// C-Blosc2's private contexts do not exist.
///
/// # Safety
/// `tuner` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_register_tuner(tuner: *mut blosc2_tuner) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let tuner = unsafe { copy_at(tuner) }?;
        ensure(tuner.id >= 160 && tuner.id < 256, code::FAILURE)?;
        let mut tuners = TUNERS.write().map_err(|_| Error(code::TUNER))?;
        ensure(tuners.iter().all(|other| other.0.id != tuner.id), code::FAILURE)?;
        tuners.push(ProgramCallbacks(tuner));
        Ok(0)
    })
}

/// The tuner functions of a program.
#[derive(Clone)]
pub(crate) struct Tuner {
    functions: ProgramCallbacks<blosc2_tuner>,
    /// Whether its context has tuner parameters; without them, only `init` is called.
    active: bool,
}

impl Tuner {
    /// Initializes a tuner for a context.
    pub(crate) fn init(&self, params: *mut c_void, context: *mut c_void) -> Result<()> {
        let Some(init) = self.functions.get().init else { return Ok(()) };
        // SAFETY: the program registered the function for this.
        ensure(unsafe { init(params, context, std::ptr::null_mut()) } >= 0, code::TUNER)
    }

    /// Compresses with the tuner's parameters, and reports the time to it in seconds.
    pub(crate) fn around<T>(&self, ctx: *mut c_void, compress: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.active {
            return compress();
        }
        let tuner = self.functions.get();
        for choose in [tuner.next_cparams, tuner.next_blocksize].into_iter().flatten() {
            // SAFETY: the program registered the function for this.
            ensure(unsafe { choose(ctx) } >= 0, code::TUNER)?;
        }
        let started = std::time::Instant::now();
        let result = compress()?;
        if let Some(update) = tuner.update {
            // SAFETY: as above.
            ensure(unsafe { update(ctx, started.elapsed().as_secs_f64()) } >= 0, code::TUNER)?;
        }
        Ok(result)
    }

    /// Frees the tuner.
    pub(crate) fn free(&self, context: *mut c_void) {
        if let Some(free) = self.functions.get().free.filter(|_| self.active) {
            // SAFETY: as above.
            unsafe { free(context) };
        }
    }
}

/// Returns the tuner of the parameters; `None` for the default one, the engine's choice of block sizes.
pub(crate) fn tuner(cparams: &blosc2_cparams) -> Result<Option<Tuner>> {
    if cparams.tuner_id <= 0 {
        return Ok(None);
    }
    let tuners = TUNERS.read().map_err(|_| Error(code::TUNER))?;
    let functions = tuners.iter().find(|tuner| tuner.0.id == cparams.tuner_id).ok_or(Error(code::TUNER))?;
    Ok(Some(Tuner { functions: *functions, active: !cparams.tuner_params.is_null() }))
}
