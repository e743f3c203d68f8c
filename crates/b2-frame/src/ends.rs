//! What stands around the chunks of a frame: the header in front, index, checksums and trailer behind.

use b2_chunk::memory;
use bytes::Bytes;

use crate::checksums::{ChunkSums, Parts, block_len};
use crate::{FrameError, index, trailer};

pub(crate) struct Ends {
    pub(crate) header: Bytes,
    /// Index chunk, block of checksums, trailer.
    pub(crate) tail: Vec<u8>,
}

/// Encodes them for the chunks of these entries. `header` makes the header once the length of all that is behind the
/// chunks is known. Checksums are left out where that of a chunk is not known.
pub(crate) fn encode(
    entries: &[i64],
    vlmetalayers: &[(Bytes, Bytes)],
    sums: Option<&ChunkSums>,
    header: impl FnOnce(u64) -> Bytes,
) -> Result<Ends, FrameError> {
    let index = if entries.is_empty() { Bytes::new() } else { index::encode(entries)?.into_bytes() };
    let mut trailer = trailer::encode(vlmetalayers)?;
    let sums = match sums {
        Some(sums) => sums.all(entries)?,
        None => None,
    };
    let block_len = sums.as_ref().map_or(0, |sums| block_len(sums.len()));
    let len = index.len() + block_len + trailer.len();
    let header = header(len as u64);
    let mut tail = memory::list(len)?;
    tail.extend_from_slice(&index);
    if let Some(sums) = sums {
        let parts = Parts { header: &header, index: &index, vlmetalayers: trailer::values(&trailer) };
        let (block, fingerprint) = parts.encode(&sums)?;
        tail.extend_from_slice(&block);
        trailer::set_fingerprint(&mut trailer, fingerprint);
    }
    tail.extend_from_slice(&trailer);
    Ok(Ends { header, tail })
}
