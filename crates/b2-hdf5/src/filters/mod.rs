//! The filters of HDF5, from which a chunk is decoded.
//!
//! Zlib, zstd, LZ4, shuffle and bitshuffle are ours, since they are faster than what the crate below has; n-bit and
//! scale-offset are of that crate.

mod bitshuffle;
pub(crate) mod blosc;
pub(crate) mod codecs;
mod lzf;
mod szip;

use std::sync::LazyLock;

use b2_codecs::{CodecContext, CodecId};
use b2_core::{Limits, memory};
use b2_filters::{Filter as _, FilterContext, Shuffle};
use bytes::Bytes;
use hdf5_reader::FilterRegistry;
use hdf5_reader::messages::filter_pipeline::FilterDescription;

use self::codecs::codec;

const GZIP: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SZIP: u16 = 4;
const NBIT: u16 = 5;
const SCALE_OFFSET: u16 = 6;
const BZIP2: u16 = 307;
const LZF: u16 = 32000;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const BITSHUFFLE: u16 = 32008;
const ZSTD: u16 = 32015;
pub(crate) const BLOSC2: u16 = 32026;

/// How much larger than its input a filter's output may be that is neither the chunk nor of known size: scale-offset and
/// n-bit write a header.
const ROOM: usize = 1024;

/// A filter of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// The number under which it is registered.
    pub id: u16,
    /// Its parameters.
    pub params: Vec<u32>,
    /// The name in the file, if it has one.
    name: Option<String>,
}

impl Filter {
    pub(crate) fn new(id: u16, name: Option<String>, params: Vec<u32>) -> Self {
        Self { id, params, name }
    }

    /// Returns a name for people.
    pub fn name(&self) -> String {
        match (known(self.id), &self.name) {
            (Some(name), _) => name.into(),
            (None, Some(name)) if !name.is_empty() => format!("{name} ({})", self.id),
            (None, _) => format!("filter {}", self.id),
        }
    }

    /// Whether data with this filter can be read.
    pub fn is_known(&self) -> bool {
        use b2_codecs::CodecId as Id;
        match self.id {
            GZIP => codec(Id::ZLIB).is_some(),
            ZSTD => codec(Id::ZSTD).is_some(),
            SHUFFLE | FLETCHER32 | SZIP | NBIT | SCALE_OFFSET | LZF | BLOSC | LZ4 | BITSHUFFLE | BLOSC2 => {
                true
            }
            BZIP2 => true,
            _ => false,
        }
    }
}

fn known(id: u16) -> Option<&'static str> {
    Some(match id {
        GZIP => "gzip",
        SHUFFLE => "shuffle",
        FLETCHER32 => "fletcher32",
        SZIP => "szip",
        NBIT => "nbit",
        SCALE_OFFSET => "scaleoffset",
        BZIP2 => "bzip2",
        LZF => "lzf",
        BLOSC => "blosc",
        LZ4 => "lz4",
        BITSHUFFLE => "bitshuffle",
        32013 => "zfp",
        ZSTD => "zstd",
        32017 => "sz",
        32024 => "sz3",
        BLOSC2 => "blosc2",
        _ => return None,
    })
}

/// How a chunk is decoded.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) filters: Vec<Filter>,
    /// The chunk shape, in items.
    pub(crate) chunk: Vec<u64>,
    /// Bytes of an item.
    pub(crate) itemsize: usize,
    pub(crate) limits: Limits,
}

/// What a filter is decoded to.
enum Target<'d> {
    Exactly(&'d mut [u8]),
    AtMost(usize),
}

impl Pipeline {
    /// Decodes a chunk, which fills `dst`, with at most so many threads. The filters in `mask` were not applied to it.
    ///
    /// # Errors
    /// With what is wrong, which starts with the name of the filter.
    pub(crate) fn decode(
        &self,
        stored: Bytes,
        mask: u32,
        dst: &mut [u8],
        threads: usize,
    ) -> Result<(), String> {
        let applied = self.applied(mask);
        let Some((first, later)) = applied.split_first() else {
            return copy_whole(&stored, dst);
        };
        let mut bytes = stored;
        for (n, filter) in later.iter().enumerate().rev() {
            // What the filters before this one made of the chunk.
            let before = applied.get(..=n).unwrap_or_default();
            let known = before.iter().try_fold(dst.len(), |len, filter| match filter.id {
                SHUFFLE => Some(len),
                BITSHUFFLE if filter.params.get(4).is_none_or(|&compression| compression == 0) => Some(len),
                FLETCHER32 => len.checked_add(4),
                _ => None,
            });
            let made = match known {
                Some(len) => {
                    let mut made = memory::zeroed(len).map_err(|error| error.to_string())?;
                    self.undo(filter, bytes, Target::Exactly(&mut made), threads)?;
                    made
                }
                None => {
                    let most = dst.len().saturating_add(dst.len() / 8).saturating_add(ROOM);
                    self.undo(filter, bytes, Target::AtMost(most), threads)?
                }
            };
            bytes = made.into();
        }
        self.undo(first, bytes, Target::Exactly(dst), threads).map(drop)
    }

    /// Returns the filters that were applied to a chunk.
    fn applied(&self, mask: u32) -> Vec<&Filter> {
        let skipped = |n: usize| n < 32 && mask >> n & 1 == 1;
        self.filters.iter().enumerate().filter(|(n, _)| !skipped(*n)).map(|(_, filter)| filter).collect()
    }

    /// Whether a chunk is stored as its items are. The filters in `mask` were not applied to it.
    pub(crate) fn is_plain(&self, mask: u32) -> bool {
        self.applied(mask).is_empty()
    }

    /// Whether a chunk is one of Blosc 1, and nothing else.
    pub(crate) fn is_blosc(&self, mask: u32) -> bool {
        matches!(self.applied(mask)[..], [only] if only.id == BLOSC)
    }

    /// Returns the frame of Blosc2 that a chunk is, if it is one, perhaps with a checksum around it.
    pub(crate) fn frame(&self, stored: &Bytes, mask: u32) -> Result<Option<Bytes>, String> {
        match &self.applied(mask)[..] {
            [only] if only.id == BLOSC2 => Ok(Some(stored.clone())),
            [first, sum] if (first.id, sum.id) == (BLOSC2, FLETCHER32) => {
                Ok(Some(stored.slice(..checked(stored)?.len())))
            }
            _ => Ok(None),
        }
    }

    /// Undoes one filter. Returns the bytes that were asked for with [`Target::AtMost`].
    fn undo(&self, filter: &Filter, src: Bytes, into: Target<'_>, threads: usize) -> Result<Vec<u8>, String> {
        let wrong = || format!("{}: the data of a chunk does not fit", filter.name());
        let dst = match (filter.id, into) {
            (_, Target::Exactly(dst)) => dst,
            // These make as many bytes as they get.
            (SHUFFLE, Target::AtMost(_)) => {
                let mut dst = memory::zeroed(src.len()).map_err(|error| error.to_string())?;
                self.undo(filter, src, Target::Exactly(&mut dst), threads)?;
                return Ok(dst);
            }
            (FLETCHER32, Target::AtMost(_)) => return Ok(checked(&src)?.to_vec()),
            (_, Target::AtMost(most)) => return below(filter, &src, self.itemsize, most),
        };
        let params = &filter.params;
        match filter.id {
            SHUFFLE => {
                let size = params.first().map_or(Some(self.itemsize), |&size| usize::try_from(size).ok());
                let size = size.filter(|&size| size > 0).ok_or_else(wrong)?;
                if src.len() != dst.len() {
                    return Err(wrong());
                }
                Shuffle.backward(&FilterContext::new(size), 0, &src, dst).map_err(|_| wrong())?;
            }
            FLETCHER32 => copy_whole(checked(&src)?, dst)?,
            GZIP => stream(CodecId::ZLIB, &src, dst).ok_or_else(wrong)?,
            ZSTD => stream(CodecId::ZSTD, &src, dst).ok_or_else(wrong)?,
            LZF => lzf::decode(&src, dst).ok_or_else(wrong)?,
            LZ4 => bitshuffle::decode_lz4(&src, dst).ok_or_else(wrong)?,
            BITSHUFFLE => bitshuffle::decode(params, &src, dst).ok_or_else(wrong)?,
            SZIP => szip::decode(params, &src, dst).ok_or_else(wrong)?,
            BZIP2 => bzip2(&src, dst).ok_or_else(wrong)?,
            BLOSC => {
                blosc::decode(&src, dst, &self.limits, threads).map_err(|what| format!("blosc: {what}"))?
            }
            BLOSC2 => blosc::decode_frame(src, (&self.chunk, self.itemsize), dst, &self.limits, threads)
                .map_err(|what| format!("blosc2: {what}"))?,
            NBIT | SCALE_OFFSET => copy_whole(&below(filter, &src, self.itemsize, dst.len())?, dst)?,
            _ => return Err(format!("{}, which is not supported", filter.name())),
        }
        Ok(Vec::new())
    }
}

/// Decodes with the crate below, at most `most` bytes.
fn below(filter: &Filter, src: &[u8], itemsize: usize, most: usize) -> Result<Vec<u8>, String> {
    static REGISTRY: LazyLock<FilterRegistry> = LazyLock::new(FilterRegistry::new);
    if !matches!(filter.id, GZIP | NBIT | SCALE_OFFSET) {
        return Err(format!("{} behind another compression, which is not supported", filter.name()));
    }
    let description = FilterDescription { id: filter.id, name: None, client_data: filter.params.clone() };
    REGISTRY
        .apply_with_limit(&description, src, itemsize, Some(most))
        .map_err(|error| format!("{}: {error}", filter.name()))
}

fn copy_whole(src: &[u8], dst: &mut [u8]) -> Result<(), String> {
    if src.len() != dst.len() {
        return Err(format!("a chunk of {} bytes, expected {}", src.len(), dst.len()));
    }
    dst.copy_from_slice(src);
    Ok(())
}

fn stream(id: CodecId, src: &[u8], dst: &mut [u8]) -> Option<()> {
    codec(id)?.decoder(&CodecContext::new(0)).ok()?.decode(src, dst).ok()
}

fn bzip2(src: &[u8], dst: &mut [u8]) -> Option<()> {
    use std::io::Read;
    bzip2::read::BzDecoder::new(src).read_exact(dst).ok()
}

/// Compares the checksum behind the data, and returns the data.
fn checked(src: &[u8]) -> Result<&[u8], String> {
    let (data, sum) = src.split_last_chunk::<4>().ok_or("fletcher32: the checksum is missing")?;
    let (stored, found) = (u32::from_le_bytes(*sum), fletcher32(data));
    // HDF5 before 1.6.3 stored the bytes of both halves in the other order, and is still read.
    let swapped = (found & 0x00FF_00FF) << 8 | found >> 8 & 0x00FF_00FF;
    if stored != found && stored != swapped {
        return Err("fletcher32: the data does not match its checksum".into());
    }
    Ok(data)
}

/// Fletcher's checksum of big-endian words of 16 bits.
fn fletcher32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (0_u32, 0_u32);
    let fold = |sum: u32| (sum & 0xFFFF).wrapping_add(sum >> 16);
    let (words, odd) = data.as_chunks::<2>();
    // Sums of as many words as cannot overflow.
    for words in words.chunks(360) {
        for word in words {
            low = low.wrapping_add(u16::from_be_bytes(*word).into());
            high = high.wrapping_add(low);
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [byte] = odd {
        low = low.wrapping_add(u32::from(*byte) << 8);
        high = high.wrapping_add(low);
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_hdf5() {
        assert_eq!(fletcher32(&[0, 1, 0, 2]), 0x0004_0003);
        assert_eq!(fletcher32(&[1, 2, 3]), 0x0504_0402);
        let data: Vec<u8> = (0..2000_u32).map(|n| (n * 7) as u8).collect();
        let mut stored = [&data[..], &fletcher32(&data).to_le_bytes()].concat();
        assert_eq!(checked(&stored).unwrap(), data);
        stored[1000] ^= 1;
        assert!(checked(&stored).is_err());
    }
}
