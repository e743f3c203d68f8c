//! Frames and arrays without checksums, and crafted changes to them.

use b2kit::chunk::{CParams, Compression, FilterSlot};
use b2kit::frame::FrameParams;
use b2kit::{ArrayBuilder, Chunk, CodecId, Dtype, FrameWriter, SuperChunk};

/// Bytes that compress somewhat and never repeat.
pub(crate) fn data(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(|i| (i * i / 3).to_le_bytes()).take(len).collect()
}

pub(crate) fn cparams(typesize: usize) -> CParams {
    Compression::new()
        .itemsize(typesize)
        .codec(CodecId::BLOSCLZ)
        .filters([FilterSlot::SHUFFLE])
        .build()
        .unwrap()
}

/// A contiguous frame of these chunks.
pub(crate) fn frame_of(chunks: impl IntoIterator<Item = Chunk>, params: FrameParams) -> Vec<u8> {
    let mut writer = FrameWriter::options().checksums(false).memory(params).unwrap();
    for chunk in chunks {
        writer.append(chunk).unwrap();
    }
    writer.finish().unwrap().into_bytes().to_vec()
}

/// Three chunks of 400 bytes with items of 4 bytes.
pub(crate) fn frame() -> Vec<u8> {
    let raw = data(1200);
    let chunks = raw.chunks(400).map(|part| Chunk::compress_bytes(part, &cparams(4)).unwrap());
    frame_of(chunks, FrameParams::from_cparams(&cparams(4)).metalayer("note", [1, 2, 3]))
}

/// An array of 4 x 3 chunks of 8 x 8 items of 4 bytes, in blocks of 4 x 8.
pub(crate) fn array() -> Vec<u8> {
    let builder = ArrayBuilder::of_dtype([30, 22], Dtype::parse("<i4").unwrap())
        .compression(cparams(4))
        .chunks([8, 8])
        .blocks([4, 8])
        .write_options(FrameWriter::options().checksums(false));
    builder.to_bytes(&data(30 * 22 * 4)[..]).unwrap().to_vec()
}

/// A frame whose one chunk is these bytes, whatever they are. Its chunk size is `nbytes`.
pub(crate) fn around(chunk: &[u8], nbytes: usize, typesize: i32) -> Vec<u8> {
    let one = Chunk::compress_bytes(&data(nbytes), &cparams(1)).unwrap();
    let frame = frame_of([one], FrameParams::from_cparams(&cparams(1)));
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let (data, index) = (layout.data.start as usize, layout.index.start as usize);
    let mut odd = [&frame[..data], chunk, &frame[index..]].concat();
    let len = odd.len() as u64;
    odd[16..24].copy_from_slice(&len.to_be_bytes());
    odd[39..47].copy_from_slice(&(chunk.len() as u64).to_be_bytes());
    odd[48..52].copy_from_slice(&typesize.to_be_bytes());
    odd
}

/// A copy of `frame` with another index chunk, for frames without vlmetalayers.
pub(crate) fn with_index(frame: &[u8], index: &[u8]) -> Vec<u8> {
    let layout = SuperChunk::from_bytes(frame.to_vec()).unwrap().layout().clone();
    let (start, trailer) = (layout.index.start as usize, layout.trailer.start as usize);
    let mut odd = [&frame[..start], index, &frame[trailer..]].concat();
    let len = odd.len() as u64;
    odd[16..24].copy_from_slice(&len.to_be_bytes());
    odd
}

/// Offsets of all chunks, from the start of the frame.
pub(crate) fn places(frame: &[u8]) -> Vec<usize> {
    let schunk = SuperChunk::from_bytes(frame.to_vec()).unwrap();
    let start = schunk.layout().data.start;
    schunk.chunk_infos().map(|info| (start + info.unwrap().offset().unwrap()) as usize).collect()
}

/// A copy with other bytes at `offset`.
pub(crate) fn patched(bytes: &[u8], offset: usize, new: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    copy[offset..offset + new.len()].copy_from_slice(new);
    copy
}

/// A chunk with an extended header: version 5, these fields, then `body`.
pub(crate) fn chunk(flags: u8, typesize: u8, nbytes: u32, blocksize: u32, last: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![5, 1, flags, typesize];
    for field in [nbytes, blocksize, 32 + body.len() as u32] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend([0; 15]);
    bytes.push(last);
    bytes.extend(body);
    bytes
}

/// All plain bytes.
pub(crate) fn whole(frame: &[u8]) -> Result<Vec<u8>, b2kit::frame::FrameError> {
    let schunk = SuperChunk::from_bytes(frame.to_vec())?;
    schunk.read_bytes(0..schunk.nbytes())
}
