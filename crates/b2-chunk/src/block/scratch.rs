//! State reused from chunk to chunk: buffers, and encoders, decoders and data derived from the header for chunks with the
//! same parameters.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use b2_codecs::{CodecContext, CodecId, Decoder, Encoder};
use b2_core::memory::sized;
use b2_core::{OutOfMemory, Pooled};

use crate::block::chain::{Chain, SavedChain, Shortcut};
use crate::model::layout::Layout;
use crate::{CParams, ChunkHeader, Compatibility, FilterSlot, Plugins, SplitMode};

/// Maximum number of streams that are passed to a filter as separate planes.
pub(crate) const MAX_PLANES: usize = 16;

/// Padding after planes, in bytes. Without it, planes a power of two apart would compete for the same cache sets.
/// Decoders may write to it.
const GAP: usize = 192;

/// Bytes allocated after a contiguous stream for the same purpose.
pub(crate) const ROOM: usize = 128;

/// Larger buffers are freed after use, in bytes.
const MAX_CACHED_LEN: usize = 8 << 20;

/// Buffers for one block each, whose contents are unspecified, except for [`Planes`]; and the codecs of the last chunk.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) planes: Planes,
    pub(crate) a: Vec<u8>,
    pub(crate) b: Vec<u8>,
    pub(crate) block: Vec<u8>,
    pub(crate) plain: Vec<u8>,
    /// The first block of a chunk that is compressed block by block.
    pub(crate) first: Vec<u8>,
    /// State of the last chunk that was read without a list of its blocks.
    pub(crate) layout: Option<Box<CachedLayout>>,
    pub(crate) decoder: Option<CachedDecoder>,
    pub(crate) encoder: Option<CachedEncoder>,
    /// State of the last chunk that was compressed.
    pub(crate) header: Option<CachedHeader>,
}

thread_local! {
    #[expect(clippy::vec_box, reason = "several hundred bytes that move for each chunk")]
    /// The scratch last used on this thread. Mapping fresh memory page by page takes longer than decoding a block
    /// into it.
    static SCRATCH: RefCell<Vec<Box<Scratch>>> = const { RefCell::new(Vec::new()) };
}

/// A [`Scratch`] in use.
pub(crate) enum ScratchGuard<'a> {
    /// Returns to the thread that drops it.
    Thread(Pooled<Box<Scratch>>),
    /// Belongs to a [`Compressor`](crate::Compressor) or [`Decompressor`](crate::Decompressor).
    Held(&'a mut Scratch),
    /// Borrowed from another user, in place of the thread's.
    OfThread(&'a mut Scratch),
}

impl ScratchGuard<'_> {
    /// Takes the scratch of this thread, or an empty one if it is in use.
    pub(crate) fn of_thread() -> Self {
        let made = Pooled::take(&SCRATCH, |_| true, || Ok::<_, Infallible>(Box::default()));
        match made {
            Ok(scratch) => Self::Thread(scratch),
            Err(never) => match never {},
        }
    }

    /// Borrows it.
    pub(crate) fn lend(&mut self) -> ScratchGuard<'_> {
        match self {
            Self::Thread(scratch) => ScratchGuard::OfThread(scratch),
            Self::Held(scratch) => ScratchGuard::Held(scratch),
            Self::OfThread(scratch) => ScratchGuard::OfThread(scratch),
        }
    }

    /// Returns whether state created with these plugins may stay in it. Threads outlive the plugins of users.
    pub(crate) fn may_keep(&self, plugins: &Plugins) -> bool {
        matches!(self, Self::Held(_)) || plugins.is_builtin()
    }
}

impl Deref for ScratchGuard<'_> {
    type Target = Scratch;
    fn deref(&self) -> &Scratch {
        match self {
            Self::Thread(scratch) => scratch,
            Self::Held(scratch) | Self::OfThread(scratch) => scratch,
        }
    }
}

impl DerefMut for ScratchGuard<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        match self {
            Self::Thread(scratch) => scratch,
            Self::Held(scratch) | Self::OfThread(scratch) => scratch,
        }
    }
}

impl Drop for ScratchGuard<'_> {
    fn drop(&mut self) {
        self.free_large();
    }
}

impl Scratch {
    /// Frees all buffers if one of them is large.
    fn free_large(&mut self) {
        let Self { planes, a, b, block, plain, first, .. } = self;
        if [&planes.bytes, a, b, block, plain, first].iter().any(|b| b.len() > MAX_CACHED_LEN) {
            *self = Self::default();
        }
    }
}

/// Buffers for the planes of one block. They remember which planes hold a single byte value, so that constant planes
/// are filled once rather than for every block.
#[derive(Default)]
pub(crate) struct Planes {
    bytes: Vec<u8>,
    len: usize,
    runs: [Option<u8>; MAX_PLANES],
}

impl Planes {
    /// Allocates `count` planes, at most [`MAX_PLANES`], of `len` bytes.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn prepare(&mut self, count: usize, len: usize) -> Result<(), OutOfMemory> {
        let need = count * stride(len);
        if self.len != len || self.bytes.len() < need {
            (self.len, self.runs) = (len, Default::default());
        }
        sized(&mut self.bytes, need).map(|_| ())
    }

    /// Returns plane `j` for writing.
    pub(crate) fn plane_mut(&mut self, j: usize) -> &mut [u8] {
        self.runs[j] = None;
        &mut self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Returns plane `j` for writing, with the padding after it, whose content does not matter.
    pub(crate) fn plane_with_room(&mut self, j: usize) -> &mut [u8] {
        self.runs[j] = None;
        let stride = stride(self.len);
        &mut self.bytes[j * stride..][..stride]
    }

    /// Fills plane `j` with one byte value.
    pub(crate) fn fill(&mut self, j: usize, value: u8) {
        if self.runs[j] != Some(value) {
            self.plane_mut(j).fill(value);
            self.runs[j] = Some(value);
        }
    }

    /// Returns plane `j`.
    pub(crate) fn plane(&self, j: usize) -> &[u8] {
        &self.bytes[j * stride(self.len)..][..self.len]
    }

    /// Returns whether all bytes of plane `j` are known to be `value`.
    pub(crate) fn holds(&self, j: usize, value: u8) -> bool {
        self.runs[j] == Some(value)
    }
}

fn stride(len: usize) -> usize {
    len.next_multiple_of(64) + GAP
}

/// A codec with the parameters of its creation. Codecs with dictionaries are not cached.
pub(crate) struct CachedCodec<C: ?Sized> {
    plugins: Plugins,
    id: CodecId,
    level: u8,
    meta: u8,
    itemsize: usize,
    blockshape: Arc<[u32]>,
    pub(crate) codec: Box<C>,
}

pub(crate) type CachedDecoder = CachedCodec<dyn Decoder>;
pub(crate) type CachedEncoder = CachedCodec<dyn Encoder>;

impl<C: ?Sized> CachedCodec<C> {
    pub(crate) fn new(
        plugins: &Plugins,
        id: CodecId,
        cx: &CodecContext<'_>,
        blockshape: &Arc<[u32]>,
        codec: Box<C>,
    ) -> Self {
        let CodecContext { level, meta, itemsize, .. } = *cx;
        let (plugins, blockshape) = (plugins.clone(), Arc::clone(blockshape));
        Self { plugins, id, level, meta, itemsize, blockshape, codec }
    }

    /// Returns whether the codec of these parameters, without a dictionary, would be the same.
    pub(crate) fn fits(&self, plugins: &Plugins, id: CodecId, cx: &CodecContext<'_>) -> bool {
        self.plugins.is(plugins)
            && (self.id, self.level, self.meta, self.itemsize) == (id, cx.level, cx.meta, cx.itemsize)
            && (self.blockshape.is_empty() && cx.blockshape.is_empty() || *self.blockshape == *cx.blockshape)
            && cx.dict.is_none()
    }
}

/// The header of the chunks that are compressed with some parameters, without `cbytes`, and their filters.
pub(crate) struct CachedHeader {
    plugins: Plugins,
    codec: CodecId,
    codec_meta: u8,
    level: u8,
    itemsize: usize,
    filters: [FilterSlot; 6],
    splitmode: SplitMode,
    blocksize: usize,
    compatibility: Compatibility,
    header: ChunkHeader,
    chain: Option<(SavedChain, Shortcut)>,
}

impl CachedHeader {
    pub(crate) fn new(cparams: &CParams, header: ChunkHeader) -> Self {
        Self {
            plugins: cparams.plugins().clone(),
            codec: cparams.codec(),
            codec_meta: cparams.codec_meta(),
            level: cparams.level(),
            itemsize: cparams.itemsize(),
            filters: cparams.filters(),
            splitmode: cparams.splitmode(),
            blocksize: cparams.blocksize(),
            compatibility: cparams.compatibility(),
            header,
            chain: None,
        }
    }

    /// Returns the header for `nbytes` bytes and these parameters, if it is the same.
    pub(crate) fn get(&self, cparams: &CParams, nbytes: usize) -> Option<&ChunkHeader> {
        let same = self.header.nbytes() == nbytes
            && self.plugins.is(cparams.plugins())
            && self.codec == cparams.codec()
            && self.codec_meta == cparams.codec_meta()
            && self.level == cparams.level()
            && self.itemsize == cparams.itemsize()
            && self.filters == cparams.filters()
            && self.splitmode == cparams.splitmode()
            && self.blocksize == cparams.blocksize()
            && self.compatibility == cparams.compatibility();
        same.then_some(&self.header)
    }

    /// Returns the filters of a header, if they are known.
    pub(crate) fn filters<'p>(
        &self,
        plugins: &'p Plugins,
        header: &ChunkHeader,
    ) -> Option<(Chain<'p>, Shortcut)> {
        let (chain, shortcut) = self.chain.as_ref().filter(|_| self.has_filters_of(plugins, header))?;
        Some((Chain::restored(plugins, chain)?, *shortcut))
    }

    /// Caches the filters of a header, if it is this one.
    pub(crate) fn keep_filters(
        &mut self,
        plugins: &Plugins,
        header: &ChunkHeader,
        filters: &Chain<'_>,
        shortcut: Shortcut,
    ) {
        if self.has_filters_of(plugins, header) {
            self.chain = filters.saved(plugins).map(|chain| (chain, shortcut));
        }
    }

    fn has_filters_of(&self, plugins: &Plugins, header: &ChunkHeader) -> bool {
        let Self { header: own, .. } = self;
        self.plugins.is(plugins)
            && own.version == header.version
            && own.filters == header.filters
            && own.typesize == header.typesize
    }
}

/// How to decompress a chunk of one block with one filter at most.
pub(crate) struct Plan {
    /// The header of the chunk, with `cbytes` set to 0.
    pub(crate) header: [u128; 2],
    pub(crate) codec: CodecId,
    /// The index of the filter in the plugins, and its parameter.
    pub(crate) filter: Option<(usize, u8)>,
    pub(crate) nstreams: usize,
    pub(crate) stream_len: usize,
    /// Maximum memory that decoding takes, in bytes.
    pub(crate) memory: u64,
    /// The container's facts about the chunk.
    pub(crate) itemsize: Option<usize>,
    pub(crate) frame_blocksize: usize,
}

/// The layout of a chunk without a dictionary.
pub(crate) struct CachedLayout {
    pub(crate) plugins: Plugins,
    pub(crate) layout: Layout,
    /// The filters to undo, once a block has been decoded.
    pub(crate) chain: Option<SavedChain>,
    /// The short way to decompress chunks with this header, if there is one.
    pub(crate) plan: Option<Plan>,
}

impl CachedLayout {
    pub(crate) fn new(plugins: &Plugins, layout: Layout) -> Self {
        Self { plugins: plugins.clone(), layout, chain: None, plan: None }
    }

    /// Adapts the layout to a chunk whose header differs in the compressed size at most. Returns `None` for others.
    pub(crate) fn adapt(mut self: Box<Self>, plugins: &Plugins, header: &ChunkHeader) -> Option<Box<Self>> {
        self.layout.header.cbytes = header.cbytes;
        (self.plugins.is(plugins) && self.layout.header == *header).then_some(self)
    }
}
