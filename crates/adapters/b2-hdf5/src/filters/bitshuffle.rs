//! Bitshuffle (filter 32008) and LZ4 (filter 32004), which store blocks in the same way.

use b2_codecs::{CodecContext, CodecId};
use b2_filters::{BitShuffle, Filter as _, FilterContext};

use super::codecs::codec;

/// Default bytes of a block.
const TARGET: usize = 8192;
/// Minimum number of items of a block of default size.
const MIN_ITEMS: usize = 128;
/// Blocks consist of whole groups of this many items.
const GROUP: usize = 8;

/// Decodes a chunk of bitshuffle into `dst`. Returns `None` for invalid data or parameters.
pub(super) fn decode(params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
    let number = |n: usize| params.get(n).map_or(Some(0), |&value| usize::try_from(value).ok());
    let (itemsize, per_block, compression) = (number(2)?, number(3)?, number(4)?);
    if itemsize == 0 || !dst.len().is_multiple_of(itemsize) {
        return None;
    }
    let (src, per_block, mut blocks) = match compression {
        0 => (src, per_block, Blocks::Plain),
        2 | 3 => {
            let (header, rest) = src.split_first_chunk::<12>()?;
            let (len, block) = header.split_first_chunk::<8>()?;
            if usize::try_from(u64::from_be_bytes(*len)).ok()? != dst.len() {
                return None;
            }
            let nbytes = usize::try_from(u32::from_be_bytes(block.try_into().ok()?)).ok()?;
            let codec = codec(if compression == 2 { CodecId::LZ4 } else { CodecId::ZSTD })?;
            (rest, nbytes / itemsize, Blocks::Coded(codec.decoder(&CodecContext::new(0)).ok()?))
        }
        _ => return None,
    };
    let per_block = match per_block {
        0 => (TARGET / itemsize / GROUP * GROUP).max(MIN_ITEMS),
        given if given.is_multiple_of(GROUP) => given,
        _ => return None,
    };
    let whole = dst.len() / itemsize / GROUP * GROUP;
    let (shuffled, tail) = dst.split_at_mut_checked(whole.checked_mul(itemsize)?)?;
    let mut src = src;
    let mut plain = Vec::new();
    for block in shuffled.chunks_mut(per_block.checked_mul(itemsize)?) {
        let bits = match &mut blocks {
            Blocks::Plain => {
                let (bits, rest) = src.split_at_checked(block.len())?;
                src = rest;
                bits
            }
            Blocks::Coded(decoder) => {
                let (len, rest) = src.split_first_chunk::<4>()?;
                let (coded, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
                src = rest;
                plain.resize(block.len(), 0);
                decoder.decode(coded, &mut plain).ok()?;
                &plain
            }
        };
        BitShuffle.backward(&FilterContext::new(itemsize), 0, bits, block).ok()?;
    }
    // Items that do not fill a group are stored unshuffled.
    tail.copy_from_slice(src.get(..tail.len())?);
    Some(())
}

enum Blocks {
    Plain,
    Coded(Box<dyn b2_codecs::Decoder>),
}

/// Decodes a chunk of the LZ4 filter into `dst`. Returns `None` for invalid data.
pub(super) fn decode_lz4(src: &[u8], dst: &mut [u8]) -> Option<()> {
    let (header, mut src) = src.split_first_chunk::<12>()?;
    let (len, block) = header.split_first_chunk::<8>()?;
    let block = usize::try_from(u32::from_be_bytes(block.try_into().ok()?)).ok()?;
    if usize::try_from(u64::from_be_bytes(*len)).ok()? != dst.len() || block == 0 {
        return None;
    }
    let mut decoder = codec(CodecId::LZ4)?.decoder(&CodecContext::new(0)).ok()?;
    for dst in dst.chunks_mut(block) {
        let (len, rest) = src.split_first_chunk::<4>()?;
        let (coded, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        src = rest;
        // A block that did not shrink is stored uncompressed.
        match coded.len() == dst.len() {
            true => dst.copy_from_slice(coded),
            false => decoder.decode(coded, dst).ok()?,
        }
    }
    Some(())
}
