//! What is reused for chunks with the same parameters: encoders, decoders, and what the header says.

use std::sync::Arc;

use b2_codecs::{CodecContext, CodecId, Decoder, Encoder};

use crate::block::chain::KeptChain;
use crate::model::layout::Layout;
use crate::{ChunkHeader, Plugins};

/// A codec with the parameters that it was made with. Codecs with dictionaries are not kept.
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
            && *self.blockshape == *cx.blockshape
            && cx.dict.is_none()
    }
}

/// The layout of a chunk without a dictionary.
pub(crate) struct KeptLayout {
    plugins: Plugins,
    pub(crate) layout: Layout,
    /// The filters to undo, once a block has been decoded.
    pub(crate) chain: Option<KeptChain>,
}

impl KeptLayout {
    pub(crate) fn new(plugins: &Plugins, layout: Layout) -> Self {
        Self { plugins: plugins.clone(), layout, chain: None }
    }

    /// Adapts the layout to a chunk whose header differs in the compressed size at most. Returns `None` for others.
    pub(crate) fn adapt(mut self: Box<Self>, plugins: &Plugins, header: &ChunkHeader) -> Option<Box<Self>> {
        self.layout.header.cbytes = header.cbytes;
        (self.plugins.is(plugins) && self.layout.header == *header).then_some(self)
    }
}
