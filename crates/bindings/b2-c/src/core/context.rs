//! Contexts: parameters with their buffers, encoders and decoders.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use b2_chunk::{
    CParams, Chunk, ChunkHeader, ChunkRef, CodecId, Compressor, DParams, Decompressor, SpecialKind,
};
use b2_core::Pool;

use crate::abi::{EXTENDED_HEADER, MAX_BUFFERSIZE, MAX_OVERHEAD, blosc2_cparams, blosc2_dparams, code};
use crate::core::error::{Error, Result, ensure};
use crate::core::header::ChunkHead;
use crate::core::instrument;
use crate::core::params;
use crate::ffi::callbacks::{self, CallContext, Hooks, Tuner};
use crate::ffi::locked;
use crate::ffi::try_lock::TryLock;

/// The purpose of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextKind {
    Compress,
    Decompress,
}

/// A context of `blosc2_create_cctx` or `blosc2_create_dctx`.
///
/// Programs should not use one from two calls at a time, but block functions, codecs and threads of programs may do so.
/// The second call then uses temporary encoders and buffers, which is slower but equivalent.
pub(crate) struct Context {
    pub(crate) kind: ContextKind,
    pub(crate) hooks: Hooks,
    settings: Mutex<Settings>,
    /// Number of changes of the settings.
    changes: AtomicU64,
    /// The program's tuner, called before and after each compression.
    pub(crate) tuner: Option<Tuner>,
    /// The blocks that the next call skips.
    maskout: Mutex<Vec<bool>>,
    /// Whether any blocks are skipped.
    masked: AtomicBool,
    /// Whether chunks contain measurements instead of streams.
    instrumented: bool,
    /// The block size of the last compressed chunk; 0 if there is none.
    blocksize: AtomicI32,
    state: TryLock<ContextState>,
}

/// The parameters of a context.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) cparams: blosc2_cparams,
    pub(crate) dparams: blosc2_dparams,
    /// Whether chunks have a Blosc 1 header.
    pub(crate) blosc1: bool,
    blockshape: Arc<[u32]>,
}

/// State derived from the parameters, reused between calls.
struct ContextState {
    /// The version of the settings and of the registered codecs and filters when this was created.
    version: (u64, u64),
    call: Arc<CallContext>,
    /// The worker threads, which live at least as long as this.
    _pool: Option<Arc<Pool>>,
    /// Whether a dictionary is requested from a codec that has none.
    no_dict: bool,
    compressor: Option<Compressor>,
    decompressor: Option<Decompressor>,
    /// Buffer for chunks that may not fit into their destination.
    spare: Vec<u8>,
}

impl ContextState {
    fn compressor(&mut self, context: &Context) -> Result<&mut Compressor> {
        // Used in place: moving it out and back would take longer than a small chunk.
        if self.compressor.is_none() {
            let Settings { cparams, blosc1, blockshape, .. } = context.settings();
            let plugins = callbacks::plugins(&self.call);
            let mut builder = params::compression(&cparams, &blockshape, plugins, blosc1)?;
            if let Some(hook) = context.hooks.prefilter(&cparams, context.address()) {
                builder = builder.prefilter(hook);
            }
            self.compressor = Some(Compressor::new(builder.build()?));
        }
        self.compressor.as_mut().ok_or(Error(code::FAILURE))
    }

    fn decompressor(&mut self, context: &Context) -> &mut Decompressor {
        let call = &self.call;
        self.decompressor.get_or_insert_with(|| {
            let Settings { dparams, blockshape, .. } = context.settings();
            let plugins = callbacks::plugins(call);
            let mut params = params::dparams(dparams.nthreads, dparams.typesize, &blockshape, plugins);
            if let Some(hook) = context.hooks.postfilter(&dparams, context.address()) {
                params = params.postfilter(hook);
            }
            Decompressor::new(params)
        })
    }

    /// Measures the compression, for `instr_codec`; `None` if there is nothing to measure.
    fn measure(&mut self, context: &Context, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>> {
        let Settings { cparams, blosc1, blockshape, .. } = context.settings();
        let plugins = callbacks::plugins(&self.call);
        let builder = || params::compression(&cparams, &blockshape, plugins.clone(), blosc1);
        let made;
        let src = match context.hooks.prefilter(&cparams, context.address()) {
            None => src,
            Some(hook) => {
                let copying = builder()?.level(0).no_filters().use_dict(false).prefilter(hook).build()?;
                made =
                    Chunk::compress_bytes(src, &copying).map_err(Error::compressing)?.decompress_bytes()?;
                &made[..]
            }
        };
        instrument::compress(&builder()?.use_dict(false).build()?, src, dst)
    }

    fn compress(&mut self, context: &Context, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        ensure(!self.no_dict, code::CODEC_PARAM)?;
        if context.instrumented
            && let Some(cbytes) = self.measure(context, src, dst)?
        {
            return Ok(cbytes);
        }
        if dst.len() >= src.len() + MAX_OVERHEAD {
            return self.compressor(context)?.compress_into(src, dst).map_err(Error::compressing);
        }
        let mut spare = std::mem::take(&mut self.spare);
        let room = b2_core::memory::sized(&mut spare, src.len() + MAX_OVERHEAD)?;
        let compressed = self
            .compressor(context)
            .and_then(|compressor| compressor.compress_into(src, room).map_err(Error::compressing));
        let result = compressed.map(|cbytes| match (dst.get_mut(..cbytes), spare.get(..cbytes)) {
            (Some(dst), Some(chunk)) => {
                dst.copy_from_slice(chunk);
                cbytes
            }
            _ => 0,
        });
        self.spare = spare;
        result
    }
}

impl Context {
    pub(crate) fn compressing(cparams: blosc2_cparams, hooks: Hooks, tuner: Option<Tuner>) -> Self {
        let dparams = blosc2_dparams { nthreads: cparams.nthreads, ..blosc2_dparams::DEFAULT };
        Self { tuner, ..Self::new(ContextKind::Compress, cparams, dparams, hooks) }
    }

    pub(crate) fn decompressing(dparams: blosc2_dparams, hooks: Hooks) -> Self {
        Self::new(ContextKind::Decompress, blosc2_cparams::DEFAULT, dparams, hooks)
    }

    fn new(kind: ContextKind, cparams: blosc2_cparams, dparams: blosc2_dparams, hooks: Hooks) -> Self {
        let settings = Settings { cparams, dparams, blosc1: false, blockshape: Arc::default() };
        let state = TryLock::new(Self::state_of(&settings, (0, callbacks::generation())));
        Self {
            kind,
            hooks,
            settings: Mutex::new(settings),
            changes: AtomicU64::new(0),
            tuner: None,
            maskout: Mutex::default(),
            masked: AtomicBool::new(false),
            instrumented: cparams.instr_codec,
            blocksize: AtomicI32::new(0),
            state,
        }
    }

    fn state_of(settings: &Settings, version: (u64, u64)) -> ContextState {
        let call = CallContext::new(settings.cparams, settings.dparams);
        let codec = CodecId(settings.cparams.compcode);
        let no_dict =
            settings.cparams.use_dict != 0 && !callbacks::plugins(&call).codec_properties(codec).dictionaries;
        let nthreads = settings.cparams.nthreads.max(settings.dparams.nthreads);
        let pool = crate::ffi::threads::pool(nthreads);
        ContextState {
            version,
            call,
            _pool: pool,
            no_dict,
            compressor: None,
            decompressor: None,
            spare: Vec::new(),
        }
    }

    /// Returns the parameters.
    pub(crate) fn settings(&self) -> Settings {
        locked(&self.settings).clone()
    }

    pub(crate) fn cparams(&self) -> blosc2_cparams {
        locked(&self.settings).cparams
    }

    pub(crate) fn dparams(&self) -> blosc2_dparams {
        locked(&self.settings).dparams
    }

    /// Changes parameters, if `change` returns true. State derived from the old ones is discarded.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Settings) -> bool) {
        if change(&mut locked(&self.settings)) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets the shape of a block for codecs and filters that need it.
    pub(crate) fn set_blockshape(&self, blockshape: &Arc<[u32]>) {
        self.change(|settings| {
            let other = settings.blockshape != *blockshape;
            if other {
                settings.blockshape = blockshape.clone();
            }
            other
        });
    }

    /// Sets which blocks the next call skips.
    pub(crate) fn set_maskout(&self, mask: &[bool]) {
        let mut maskout = locked(&self.maskout);
        self.masked.store(!mask.is_empty(), Ordering::Relaxed);
        *maskout = mask.to_vec();
    }

    fn take_maskout(&self) -> Option<Vec<bool>> {
        if !self.masked.load(Ordering::Relaxed) {
            return None;
        }
        let mut maskout = locked(&self.maskout);
        self.masked.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut *maskout)).filter(|mask| !mask.is_empty())
    }

    /// Runs `work` with the cached state or, if another call uses it, with a temporary one.
    #[inline]
    fn with<T>(&self, work: impl FnOnce(&mut ContextState) -> T) -> T {
        let version = (self.changes.load(Ordering::Acquire), callbacks::generation());
        match self.state.try_lock() {
            Some(mut state) => {
                if state.version != version {
                    *state = Self::state_of(&self.settings(), version);
                }
                work(&mut state)
            }
            None => work(&mut Self::state_of(&self.settings(), version)),
        }
    }

    /// The address passed to callbacks as `ctx`.
    pub(crate) fn address(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns the parameters for compressing.
    pub(crate) fn compression(&self) -> Result<CParams> {
        self.with(|state| Ok(state.compressor(self)?.cparams().clone()))
    }

    /// Returns the parameters for decompressing.
    pub(crate) fn decompression(&self) -> DParams {
        self.with(|state| state.decompressor(self).dparams().clone())
    }

    /// Compresses `src` into `dst` and returns the size of the chunk, or 0 if it does not fit.
    pub(crate) fn compress(&self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        ensure(self.kind == ContextKind::Compress, code::INVALID_PARAM)?;
        ensure(src.len() <= MAX_BUFFERSIZE as usize, code::MAX_BUFSIZE_EXCEEDED)?;
        if dst.len() < MAX_OVERHEAD {
            let least = if self.settings().blosc1 { crate::abi::MIN_HEADER } else { MAX_OVERHEAD };
            ensure(dst.len() >= least, code::MAX_BUFSIZE_EXCEEDED)?;
        }
        let cbytes = self.tuned(|| self.with(|state| state.compress(self, src, dst)))?;
        if let Ok(head) = ChunkHead::parse(&dst[..cbytes]) {
            self.blocksize.store(head.blocksize, Ordering::Relaxed);
        }
        Ok(cbytes)
    }

    /// Returns the parameters visible to programs, with the block size of the last chunk.
    pub(crate) fn last_cparams(&self) -> blosc2_cparams {
        let mut cparams = self.cparams();
        match self.blocksize.load(Ordering::Relaxed) {
            0 => {}
            used => cparams.blocksize = used,
        }
        cparams
    }

    /// Reports a compression to the program's tuner.
    fn tuned<T>(&self, compress: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.tuner {
            Some(tuner) => tuner.around(self.address(), compress),
            None => compress(),
        }
    }

    /// Compresses blocks of arbitrary lengths into a chunk.
    pub(crate) fn compress_blocks(&self, blocks: &[&[u8]]) -> Result<Chunk> {
        ensure(self.kind == ContextKind::Compress, code::INVALID_PARAM)?;
        ensure(!self.instrumented, code::CODEC_SUPPORT)?;
        ensure(!self.with(|state| state.no_dict), code::CODEC_PARAM)?;
        self.tuned(|| Chunk::compress_vl(blocks, &self.compression()?).map_err(Error::compressing))
    }

    /// Decompresses a chunk into the start of `dst`, which may be longer, and returns its size. Blocks skipped by the
    /// mask are not written.
    pub(crate) fn decompress(&self, chunk: &[u8], dst: &mut [u8]) -> Result<usize> {
        ensure(self.kind == ContextKind::Decompress, code::INVALID_PARAM)?;
        if let Some(mask) = self.take_maskout() {
            return self.decompress_masked(chunk, &mask, dst);
        }
        let decompressed = self.with(|state| {
            state.call.set_chunk(chunk.as_ptr());
            state.decompressor(self).decompress_into(chunk, dst)
        });
        let error = match decompressed {
            Ok(nbytes) => return Ok(nbytes),
            Err(error) => error,
        };
        // The error code of C for wrong sizes.
        let head = ChunkHead::parse(chunk)?;
        head.check_len(chunk)?;
        ensure(dst.len() >= head.nbytes as usize, code::WRITE_BUFFER)?;
        Err(error.into())
    }

    /// Like [`decompress`](Self::decompress), into memory of the program, which a chunk of uninitialised items leaves
    /// unchanged.
    pub(crate) fn decompress_for_program(&self, chunk: &[u8], dst: &mut [u8]) -> Result<usize> {
        let plain = self.kind == ContextKind::Decompress && !self.hooks.has_postfilter();
        if plain
            && let Ok(header) = ChunkHeader::parse(chunk)
            && header.special() == Some(SpecialKind::Uninit)
            && header.nbytes() <= dst.len()
            && !self.masked.load(Ordering::Relaxed)
        {
            return Ok(header.nbytes());
        }
        self.decompress(chunk, dst)
    }

    fn decompress_masked(&self, chunk: &[u8], mask: &[bool], dst: &mut [u8]) -> Result<usize> {
        let chunk = ChunkRef::from_slice(chunk)?;
        let nbytes = chunk.nbytes();
        ensure(dst.len() >= nbytes, code::WRITE_BUFFER)?;
        let blocksize = chunk.header().blocksize().max(1);
        ensure(mask.len() == nbytes.div_ceil(blocksize), code::DATA)?;
        self.with(|state| {
            state.call.set_chunk(chunk.as_bytes().as_ptr());
            let dparams = state.decompressor(self).dparams();
            for (nblock, _) in mask.iter().enumerate().filter(|(_, out)| !**out) {
                let range = nblock * blocksize..nbytes.min((nblock + 1) * blocksize);
                chunk.get_bytes_into(range.start, &mut dst[range], dparams)?;
            }
            Ok(nbytes)
        })
    }

    /// Decompresses the bytes `range` of a chunk into `dst` of the same length.
    pub(crate) fn get_bytes(&self, chunk: &[u8], range: Range<usize>, dst: &mut [u8]) -> Result<()> {
        ensure(self.kind == ContextKind::Decompress, code::INVALID_PARAM)?;
        let chunk = ChunkRef::from_slice(chunk)?;
        ensure(range.end <= chunk.nbytes() && !chunk.header().is_vl(), code::INVALID_PARAM)?;
        self.with(|state| {
            state.call.set_chunk(chunk.as_bytes().as_ptr());
            Ok(chunk.get_bytes_into(range.start, dst, state.decompressor(self).dparams())?)
        })
    }

    /// Decompresses `nitems` items from the item `start` on. Returns the number of bytes.
    pub(crate) fn get_items(&self, chunk: &[u8], start: i32, nitems: i32, dst: &mut [u8]) -> Result<usize> {
        if nitems == 0 {
            return Ok(0);
        }
        let itemsize = i64::from(ChunkHead::parse(chunk)?.typesize);
        self.get_range(chunk, i64::from(start) * itemsize, i64::from(nitems) * itemsize, dst)
    }

    /// Decompresses `len` bytes from `start` on, which must be whole items.
    pub(crate) fn get_item_bytes(&self, chunk: &[u8], start: i32, len: i32, dst: &mut [u8]) -> Result<usize> {
        ensure(start >= 0 && len >= 0, code::INVALID_PARAM)?;
        let itemsize = i32::from(ChunkHead::parse(chunk)?.typesize);
        ensure(start % itemsize == 0 && len % itemsize == 0, code::INVALID_PARAM)?;
        if len == 0 {
            return Ok(0);
        }
        self.get_range(chunk, i64::from(start), i64::from(len), dst)
    }

    fn get_range(&self, chunk: &[u8], start: i64, len: i64, dst: &mut [u8]) -> Result<usize> {
        let head = ChunkHead::parse(chunk)?;
        head.check_len(chunk)?;
        ensure(start >= 0 && len >= 0, code::INVALID_PARAM)?;
        ensure(start + len <= i64::from(head.nbytes), code::INVALID_PARAM)?;
        let (start, len) = (start as usize, len as usize);
        let dst = dst.get_mut(..len).ok_or(Error(code::WRITE_BUFFER))?;
        self.get_bytes(chunk, start..start + len, dst)?;
        Ok(len)
    }

    /// Decompresses the blocks of a chunk with variable-length blocks.
    pub(crate) fn blocks(&self, chunk: &[u8]) -> Result<Vec<Vec<u8>>> {
        let chunk = ChunkRef::from_slice(chunk)?;
        ensure(chunk.header().is_vl(), code::INVALID_PARAM)?;
        Ok(chunk.blocks(&self.decompression())?)
    }

    /// Decompresses one block of such a chunk.
    pub(crate) fn block(&self, chunk: &[u8], nblock: usize) -> Result<Vec<u8>> {
        let chunk = ChunkRef::from_slice(chunk)?;
        ensure(chunk.header().is_vl(), code::INVALID_PARAM)?;
        let dparams = &self.decompression();
        let lazy = chunk.lazy(dparams)?;
        ensure(nblock < lazy.nblocks(), code::INVALID_PARAM)?;
        let mut block = b2_core::memory::zeroed(lazy.block_range(nblock).len())?;
        let stored = chunk.as_bytes().get(lazy.block_extent(nblock)).unwrap_or_default();
        lazy.decoder(dparams)?.decode(nblock, stored, None, &mut block)?;
        Ok(block)
    }
}

/// Creates a chunk that repeats a value.
pub(crate) fn special(
    cparams: &blosc2_cparams,
    kind: SpecialKind,
    value: &[u8],
    nbytes: i32,
) -> Result<Chunk> {
    let itemsize = usize::try_from(cparams.typesize).map_err(|_| Error(code::DATA))?;
    let nbytes = usize::try_from(nbytes).map_err(|_| Error(code::DATA))?;
    ensure(itemsize > 0 && nbytes.is_multiple_of(itemsize), code::DATA)?;
    let blocksize = match params::blocksize(cparams) {
        0 => automatic_blocksize(cparams, nbytes)?,
        asked => asked,
    };
    Chunk::special(kind, value, nbytes, itemsize, blocksize).map_err(|_| Error(code::DATA))
}

/// Creates an empty chunk of a repeated value like C-Blosc2. The engine creates only empty chunks of zeros.
pub(crate) fn empty_special(cparams: &blosc2_cparams, kind: SpecialKind, value: &[u8]) -> Result<Vec<u8>> {
    let itemsize = usize::try_from(cparams.typesize).map_err(|_| Error(code::DATA))?;
    let zeros = Chunk::special(SpecialKind::Zeros, &[], 0, itemsize, 1).map_err(|_| Error(code::DATA))?;
    let mut bytes = zeros.as_bytes().to_vec();
    bytes.extend_from_slice(value);
    let cbytes = i32::try_from(bytes.len()).map_err(|_| Error(code::DATA))?;
    bytes[12..16].copy_from_slice(&cbytes.to_le_bytes());
    // The kind is in the upper half of the last byte of the header.
    bytes[EXTENDED_HEADER - 1] = kind.code() << 4;
    Ok(bytes)
}

/// Returns the block size that the engine chooses for these parameters.
fn automatic_blocksize(cparams: &blosc2_cparams, nbytes: usize) -> Result<usize> {
    Ok(automatic(cparams)?.blocksize_for(nbytes))
}

/// Returns the parameters that determine it.
fn automatic(cparams: &blosc2_cparams) -> Result<CParams> {
    let plain = blosc2_cparams { prefilter: None, clevel: cparams.clevel.min(9), ..*cparams };
    let plugins = callbacks::plugins(&CallContext::new(plain, blosc2_dparams::DEFAULT));
    Ok(params::compression(&plain, &Arc::default(), plugins, false)?.build()?)
}

#[cfg(test)]
mod tests {
    use b2_chunk::ChunkHeader;

    use super::*;

    /// The block size of a compressed chunk of zeros.
    fn compressed(cparams: &blosc2_cparams, nbytes: usize) -> Option<usize> {
        let chunk = Chunk::compress_bytes(&vec![0; nbytes], &automatic(cparams).ok()?).ok()?;
        Some(ChunkHeader::parse(chunk.as_bytes()).unwrap().blocksize())
    }

    #[test]
    fn special_chunks_have_the_blocks_of_compressed_ones() {
        let mut seen = std::collections::BTreeSet::new();
        for compcode in [0, 1, 2, 4, 5] {
            for clevel in 0..=9 {
                for (typesize, splitmode) in
                    [(1, 1), (3, 2), (4, 4), (8, 3), (16, 1), (17, 4), (255, 4), (300, 3)]
                {
                    for filter in 0..=2 {
                        for nitems in [0, 1, 5, 100, 1023, 8192, 33000, 170_001] {
                            let filters = [0, 0, 0, 0, 0, filter];
                            let cparams = blosc2_cparams {
                                compcode,
                                clevel,
                                typesize,
                                splitmode,
                                filters,
                                ..blosc2_cparams::DEFAULT
                            };
                            let nbytes = nitems * typesize as usize;
                            if nbytes > 1 << 20 {
                                continue;
                            }
                            let blocksize = automatic_blocksize(&cparams, nbytes).ok();
                            let what = (compcode, clevel, typesize, splitmode, filter, nbytes);
                            assert_eq!(blocksize, compressed(&cparams, nbytes), "{what:?}");
                            seen.insert(blocksize);
                        }
                    }
                }
            }
        }
        assert!(seen.len() > 50, "{}", seen.len());
    }

    #[test]
    fn large_special_chunks_take_no_memory() {
        let cparams = blosc2_cparams { typesize: 8, ..blosc2_cparams::DEFAULT };
        let nbytes = i32::MAX / 8 * 8 - 32;
        let chunk = special(&cparams, SpecialKind::Zeros, &[], nbytes).unwrap();
        assert_eq!((chunk.nbytes(), chunk.cbytes()), (nbytes as usize, 32));
    }
}
