//! State reused for chunks with the same parameters: encoders, decoders, and data derived from the header.

use std::sync::Arc;

use b2_codecs::{CodecContext, CodecId, Decoder, Encoder};

use crate::block::chain::{Chain, SavedChain, Shortcut};
use crate::model::layout::Layout;
use crate::{CParams, ChunkHeader, Compatibility, FilterSlot, Plugins, SplitMode};

/// A codec with the parameters of its creation. Codecs with dictionaries are not cached.
pub(crate) struct KeptCodec<C: ?Sized> {
    plugins: Plugins,
    id: CodecId,
    level: u8,
    meta: u8,
    itemsize: usize,
    blockshape: Arc<[u32]>,
    pub(crate) codec: Box<C>,
}

pub(crate) type KeptDecoder = KeptCodec<dyn Decoder>;
pub(crate) type KeptEncoder = KeptCodec<dyn Encoder>;

impl<C: ?Sized> KeptCodec<C> {
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
pub(crate) struct KeptHeader {
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

impl KeptHeader {
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
pub(crate) struct KeptLayout {
    pub(crate) plugins: Plugins,
    pub(crate) layout: Layout,
    /// The filters to undo, once a block has been decoded.
    pub(crate) chain: Option<SavedChain>,
    /// The short way to decompress chunks with this header, if there is one.
    pub(crate) plan: Option<Plan>,
}

impl KeptLayout {
    pub(crate) fn new(plugins: &Plugins, layout: Layout) -> Self {
        Self { plugins: plugins.clone(), layout, chain: None, plan: None }
    }

    /// Adapts the layout to a chunk whose header differs in the compressed size at most. Returns `None` for others.
    pub(crate) fn adapt(mut self: Box<Self>, plugins: &Plugins, header: &ChunkHeader) -> Option<Box<Self>> {
        self.layout.header.cbytes = header.cbytes;
        (self.plugins.is(plugins) && self.layout.header == *header).then_some(self)
    }
}
