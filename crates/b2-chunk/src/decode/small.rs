//! Decompresses a chunk of one block whose header is that of the chunk before, at the lowest fixed cost.
//!
//! In a chunk of 1 KiB, the streams take less time than parsing, tables and chains of filters. Their results are the same
//! for all chunks with the same header, so they are cached as a [`Plan`]. Unusual or malformed chunks are left to
//! [`BlockDecoder`](super::decoder::BlockDecoder), which starts over and reports errors.

use b2_core::memory::sized;
use b2_filters::{FilterContext, FilteredBlock};

use crate::DParams;
use crate::block::chain::SavedChain;
use crate::block::scratch::{MAX_PLANES, Plan, ROOM, Scratch};
use crate::decode::decoder::codec_context;
use crate::decode::lazy::recovery_candidate;
use crate::decode::streams::{Stream, Streams};
use crate::model::header::EXTENDED_HEADER_LEN;
use crate::model::layout::{Body, Layout};
use crate::model::params::Destination;

/// Returns the header at the start of a chunk, with `cbytes` set to 0, as two numbers.
#[inline]
fn header_of(chunk: &[u8]) -> Option<[u128; 2]> {
    const CBYTES: u128 = 0xFFFF_FFFF << 96;
    let header: &[u8; EXTENDED_HEADER_LEN] = chunk.first_chunk()?;
    let [first, second] = *header.as_chunks::<16>().0.first_chunk()?;
    Some([u128::from_le_bytes(first) & !CBYTES, u128::from_le_bytes(second)])
}

/// Returns how to decompress chunks like this one, or `None` if they need more than this module does.
pub(crate) fn plan(chunk: &[u8], layout: &Layout, chain: &SavedChain, dparams: &DParams) -> Option<Plan> {
    let header = &layout.header;
    let len = header.nbytes();
    if !header.is_extended()
        || layout.nblocks != 1
        || !matches!(layout.body, Body::Blocks { dict: None })
        || header.is_instrumented()
        || layout.needs_block0()
        || recovery_candidate(header, dparams).is_some()
    {
        return None;
    }
    let nstreams = if header.is_split() && len == layout.blocksize { header.itemsize() } else { 1 };
    let stream_len = len.checked_div(nstreams)?;
    if stream_len == 0 || stream_len.checked_mul(nstreams) != Some(len) {
        return None;
    }
    let filter = match &chain[..] {
        [] if nstreams == 1 => None,
        [(index, active)] => {
            let planes = active.planes_of(len).is_some_and(|planes| planes.count == nstreams);
            if nstreams != 1 && !(planes && nstreams <= MAX_PLANES) {
                return None;
            }
            Some((*index, active.meta))
        }
        _ => return None,
    };
    Some(Plan {
        header: header_of(chunk)?,
        codec: header.codec()?,
        filter,
        nstreams,
        stream_len,
        memory: layout.block_memory(len),
        itemsize: dparams.container.itemsize,
        frame_blocksize: dparams.container.frame_blocksize,
    })
}

/// Returns whether the plan is for this chunk and these parameters.
fn fits(plan: &Plan, chunk: &[u8], dparams: &DParams) -> bool {
    header_of(chunk).is_some_and(|header| header == plan.header)
        && plan.itemsize == dparams.container.itemsize
        && plan.frame_blocksize == dparams.container.frame_blocksize
        && !dparams.control.is_watched()
        && !dparams.has_postfilter()
}

/// Decompresses the chunk at the start of `bytes` into the start of `dst`, and returns the number of bytes. Its header is not
/// parsed: but for the size of the chunk, it is that of the last one. `None` as for [`like_last`].
pub(crate) fn starts_like_last(
    bytes: &[u8],
    dst: &mut [u8],
    dparams: &DParams,
    scratch: &mut Scratch,
) -> Option<usize> {
    let plan = scratch.layout.as_deref()?.plan.as_ref()?;
    let nbytes = plan.stream_len.checked_mul(plan.nstreams)?;
    let cbytes = i32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
    let chunk = bytes.get(..usize::try_from(cbytes).ok()?)?;
    like_last(chunk, dst.get_mut(..nbytes)?, dparams, scratch)?;
    Some(nbytes)
}

/// Decompresses a chunk like the last one into `dst`. Returns `None` if it is another one, or if anything fails.
pub(crate) fn like_last(
    bytes: &[u8],
    dst: &mut [u8],
    dparams: &DParams,
    scratch: &mut Scratch,
) -> Option<()> {
    let Scratch { layout, decoder, planes, a, .. } = scratch;
    let last = layout.as_deref()?;
    let plan = last.plan.as_ref()?;
    if !fits(plan, bytes, dparams) || !last.plugins.is(&dparams.plugins) {
        return None;
    }
    dparams.limits.check_chunk(dst.len() as u64).ok()?;
    dparams.limits.check_memory("buffers for a block, in bytes", plan.memory).ok()?;
    let cx = codec_context(&last.layout, dparams);
    // Not there before the first encoded stream; noise and runs need none.
    let mut codec = decoder.as_mut().filter(|cached| cached.fits(&dparams.plugins, plan.codec, &cx));

    // The table of block starts has one entry.
    let (table, _) = bytes.get(EXTENDED_HEADER_LEN..)?.split_first_chunk::<4>()?;
    let start = u32::from_le_bytes(*table) as usize;
    if start < EXTENDED_HEADER_LEN.saturating_add(4) {
        return None;
    }
    let stored = bytes.get(start..)?;
    let Plan { nstreams, stream_len, .. } = *plan;
    let mut streams = Streams::new(stored, stream_len);
    let (index, meta) = match plan.filter {
        Some(filter) => filter,
        None => {
            return match streams.next().ok()? {
                Stream::Run(_) => None,
                Stream::Stored(bytes) if bytes.len() == dst.len() => {
                    dst.copy_from_slice(bytes);
                    Some(())
                }
                Stream::Stored(_) => None,
                Stream::Encoded(bytes) => codec?.codec.decode(bytes, dst).ok(),
            };
        }
    };
    let filter = dparams.plugins.filter_at(index)?;
    let header = &last.layout.header;
    let itemsize = header.itemsize();
    let cx = FilterContext::new(itemsize)
        .full_itemsize(dparams.container.itemsize.or(Some(itemsize).filter(|&size| size > 1)))
        .chunk_version(header.version())
        .blockshape(&dparams.container.blockshape)
        .streaming(dparams.destination == Destination::Streaming);
    if nstreams == 1 {
        let src = match streams.next().ok()? {
            Stream::Run(_) => return None,
            Stream::Stored(bytes) => bytes,
            Stream::Encoded(bytes) => {
                let room = sized(a, stream_len.checked_add(ROOM)?).ok()?;
                codec?.codec.decode_with_room(streams.from(bytes), bytes.len(), room, stream_len).ok()?;
                room.get(..stream_len)?
            }
        };
        return filter.backward(&cx, meta, src, dst).ok();
    }
    // The locations of the planes that are stored uncompressed.
    let mut stored: [&[u8]; MAX_PLANES] = [&[]; MAX_PLANES];
    planes.prepare(nstreams, stream_len).ok()?;
    for (j, stored) in stored.get_mut(..nstreams)?.iter_mut().enumerate() {
        match streams.next().ok()? {
            Stream::Run(value) => planes.fill(j, value),
            Stream::Stored(bytes) => *stored = bytes,
            Stream::Encoded(bytes) => {
                let plane = planes.plane_with_room(j);
                let codec = &mut codec.as_mut()?.codec;
                codec.decode_with_room(streams.from(bytes), bytes.len(), plane, stream_len).ok()?;
            }
        }
    }
    let parts = stored.get_mut(..nstreams)?;
    for (j, part) in parts.iter_mut().enumerate() {
        if part.is_empty() {
            *part = planes.plane(j);
        }
    }
    let all = 0..dst.len();
    filter.backward_part(&cx, meta, FilteredBlock::Planes(parts), all, dst).ok()
}
