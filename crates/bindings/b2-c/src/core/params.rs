//! Converts parameters of C to those of the engine.

use std::sync::Arc;

use b2_chunk::{
    CParams, CodecId, Compatibility, Compression, Control, DParams, FilterId, FilterSlot, Limits, Plugins,
    SplitMode,
};
use b2_frame::FrameParams;

use crate::abi::{MAX_BLOCKSIZE, blosc2_cparams, code};
use crate::core::error::{Error, Result, ensure};

/// Programs in C choose the sizes of their buffers themselves.
pub(crate) fn limits() -> Limits {
    Limits::default().max_output(u64::MAX).max_memory(1 << 40)
}

pub(crate) fn control(nthreads: i16) -> Control {
    let control = Control::new().threads(usize::try_from(nthreads).unwrap_or(1).max(1));
    if nthreads > 1 { crate::ffi::threads::with(control) } else { control }
}

pub(crate) fn splitmode(mode: i32) -> SplitMode {
    match mode {
        1 => SplitMode::Always,
        2 => SplitMode::Never,
        3 => SplitMode::Auto,
        _ => SplitMode::ForwardCompat,
    }
}

pub(crate) fn splitmode_of(mode: SplitMode) -> u8 {
    match mode {
        SplitMode::Always => 1,
        SplitMode::Never => 2,
        SplitMode::Auto => 3,
        _ => 4,
    }
}

fn slots(cparams: &blosc2_cparams) -> impl Iterator<Item = FilterSlot> {
    let metas = cparams.filters_meta;
    cparams.filters.into_iter().zip(metas).map(|(id, meta)| FilterSlot::new(FilterId(id), meta))
}

/// Returns the requested block size, limited by the format, or 0 for automatic.
pub(crate) fn blocksize(cparams: &blosc2_cparams) -> usize {
    usize::try_from(cparams.blocksize.min(MAX_BLOCKSIZE)).unwrap_or(0)
}

/// Returns a builder with these parameters, without its hook.
///
/// # Errors
/// `CODEC_PARAM` for a level above 9 or an item size below 1.
pub(crate) fn compression(
    cparams: &blosc2_cparams,
    blockshape: &Arc<[u32]>,
    plugins: Plugins,
    blosc1: bool,
) -> Result<Compression> {
    ensure(cparams.clevel <= 9, code::CODEC_PARAM)?;
    let itemsize = usize::try_from(cparams.typesize).ok().filter(|size| *size > 0);
    let codec = CodecId(cparams.compcode);
    let dict = cparams.use_dict != 0 && plugins.codec_properties(codec).dictionaries;
    Ok(Compression::new()
        .itemsize(itemsize.ok_or(Error(code::CODEC_PARAM))?)
        .codec(codec)
        .codec_meta(cparams.compcode_meta)
        .level(cparams.clevel)
        .filters(slots(cparams))
        .splitmode(splitmode(cparams.splitmode))
        .blocksize(blocksize(cparams))
        .use_dict(dict)
        .blockshape(blockshape.clone())
        .compatibility(if blosc1 { Compatibility::Blosc1 } else { Compatibility::Blosc2 })
        .limits(limits())
        .control(control(cparams.nthreads))
        .plugins(plugins))
}

pub(crate) fn dparams(nthreads: i16, typesize: i32, blockshape: &Arc<[u32]>, plugins: Plugins) -> DParams {
    let itemsize = usize::try_from(typesize).ok().filter(|size| *size > 255);
    let container = b2_chunk::Container::default().itemsize(itemsize).blockshape(blockshape.clone());
    DParams::default().limits(limits()).control(control(nthreads)).plugins(plugins).container(container)
}

/// Returns the header of a frame for chunks with these parameters.
///
/// # Errors
/// As [`compression`].
pub(crate) fn frame(cparams: &CParams, chunksize: i32) -> FrameParams {
    let params = FrameParams::from_cparams(cparams);
    match usize::try_from(chunksize) {
        Ok(chunksize) if chunksize > 0 => params.chunksize(chunksize),
        _ => params,
    }
}
