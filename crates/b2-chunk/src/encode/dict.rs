//! Trains the dictionary of a chunk.

use crate::block::scratch::ScratchGuard;
use crate::encode::encoder::BlockEncoder;
use crate::model::header::MAX_DICT_LEN;
use crate::{CParams, ChunkError, ChunkHeader};
use b2_core::memory;

/// Trains a dictionary for the chunk (docs/format/writer-choices.md, section 6). Returns `None` if the chunk is too
/// small.
pub(crate) fn train(
    src: &[u8],
    cparams: &CParams,
    header: &ChunkHeader,
    block0: Option<&[u8]>,
    split: bool,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let max_len = MAX_DICT_LEN.min(src.len() / 20);
    let nsamples = (header.nblocks() * if split { header.itemsize() } else { 1 }).max(8);
    let sample_len = src.len() / nsamples / 16;
    if max_len < 256 || sample_len == 0 {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None, ScratchGuard::of_thread())?;
    let mut samples = memory::list(src.len())?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (nblock, block) in src.chunks(header.blocksize()).enumerate() {
        let reference = block0.filter(|_| nblock > 0);
        samples.extend_from_slice(encoder.apply_filters(nblock, block, reference, &mut a, &mut b)?);
    }
    let lens = memory::collect(std::iter::repeat_n(sample_len, nsamples))?;
    train_with(cparams, &samples, &lens, max_len)
}

/// Trains a dictionary for a chunk with variable-length blocks.
pub(crate) fn train_vl(
    blocks: &[&[u8]],
    cparams: &CParams,
    header: &ChunkHeader,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let max_len = MAX_DICT_LEN.min(header.nbytes() / 20);
    if max_len < 256 {
        return Ok(None);
    }
    let encoder = BlockEncoder::new(cparams, header, None, ScratchGuard::of_thread())?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut samples = memory::list(header.nbytes())?;
    for (nblock, block) in blocks.iter().enumerate() {
        samples.extend_from_slice(encoder.apply_filters(nblock, block, None, &mut a, &mut b)?);
    }
    let lens = memory::collect(blocks.iter().map(|block| block.len()))?;
    train_with(cparams, &samples, &lens, max_len)
}

fn train_with(
    cparams: &CParams,
    samples: &[u8],
    lens: &[usize],
    max_len: usize,
) -> Result<Option<Vec<u8>>, ChunkError> {
    let dict = cparams
        .plugins()
        .codec(cparams.codec())?
        .train_dict(samples, lens, max_len)
        .map_err(|source| ChunkError::Codec { nblock: 0, nstream: 0, source })?;
    Ok(dict.filter(|dict| !dict.is_empty() && dict.len() <= MAX_DICT_LEN))
}
