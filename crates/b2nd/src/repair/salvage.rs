//! Makes a readable array from a damaged one.

use std::path::Path;

use b2_chunk::Container;
use b2_frame::{
    ChunkUse, FrameError, FrameHeader, KnownHeader, Metalayers, ReadOptions, SalvageReport, WriteOptions,
    salvage_with,
};

use crate::model::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
use crate::read::array::lost_itemsize;
use crate::{ArrayBuilder, Dtype, NdError};

/// As [`b2_frame::salvage`], for arrays and super-chunks: some codecs and filters need the shape of an array's blocks,
/// which is in its metalayer. If that metalayer is lost, chunks whose checksums match are still saved.
///
/// # Errors
/// As [`b2_frame::salvage`].
pub fn salvage(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &ReadOptions,
    write: &WriteOptions,
) -> Result<SalvageReport, FrameError> {
    salvage_with(input, output, options, write, container, ChunkUse::Intact, None, |_, _| Ok(Vec::new()))
}

/// As [`salvage`]; `fill` returns the item that replaces lost ones. It gets the dtype, if there is one, and the item
/// size in bytes; no bytes mean zeros. Chunks that decode but do not match their checksums are used as well, and
/// counted as lost: some of their values are wrong, and nothing shows which.
///
/// # Errors
/// As [`salvage`], and [`FrameError::Argument`] with the problem that `fill` reports.
pub fn salvage_filled(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &ReadOptions,
    write: &WriteOptions,
    fill: impl Fn(Option<&Dtype>, usize) -> Result<Vec<u8>, String>,
) -> Result<SalvageReport, FrameError> {
    save(input.as_ref(), output.as_ref(), options, write, None, fill)
}

/// As [`salvage_filled`], for files that may have lost shape and dtype: those of `known`, with its chunk and block
/// shape, are used instead. Information still in the file takes precedence.
///
/// # Errors
/// As [`salvage_filled`]; [`NdError::Geometry`] if the shapes contradict each other; [`FrameError::Argument`] if they do
/// not fit the chunks in the file, with the sizes of those.
pub fn salvage_as(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    known: &ArrayBuilder,
    options: &ReadOptions,
    write: &WriteOptions,
    fill: impl Fn(Option<&Dtype>, usize) -> Result<Vec<u8>, String>,
) -> Result<SalvageReport, NdError> {
    let (params, nbytes) = known.frame_params()?;
    let given = KnownHeader { params, nbytes };
    Ok(save(input.as_ref(), output.as_ref(), options, write, Some(&given), fill)?)
}

fn save(
    input: &Path,
    output: &Path,
    options: &ReadOptions,
    write: &WriteOptions,
    given: Option<&KnownHeader>,
    fill: impl Fn(Option<&Dtype>, usize) -> Result<Vec<u8>, String>,
) -> Result<SalvageReport, FrameError> {
    salvage_with(input, output, options, write, container, ChunkUse::Blocks, given, |metalayers, itemsize| {
        let meta = metalayers.and_then(array_meta);
        let text = meta.and_then(|meta| String::from_utf8(meta.dtype?).ok());
        let dtype = text.and_then(|text| Dtype::parse(&text).ok());
        fill(dtype.as_ref(), itemsize).map_err(|what| FrameError::argument("fill", what))
    })
}

fn array_meta(metalayers: &Metalayers) -> Option<ArrayMeta> {
    [METALAYER, OLD_METALAYER].into_iter().find_map(|name| {
        let stored = metalayers.get(name)?;
        ArrayMeta::parse(name, stored).ok()
    })
}

fn container(header: &FrameHeader, metalayers: &Metalayers) -> Option<Container> {
    let meta = array_meta(metalayers)?;
    let container = Container::default()
        .itemsize(Some(lost_itemsize(&meta, header.itemsize(), header.chunksize())))
        .frame_blocksize(header.blocksize())
        .blockshape(meta.blockshape.as_slice());
    Some(container)
}
