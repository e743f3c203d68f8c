//! Prefilters and postfilters get the correct chunk and block numbers, however a frame is written and read.

use std::error::Error;

use b2_chunk::{BlockInfo, CParams, Chunk, CodecId, Compression, SpecialKind};
use b2_frame::{FrameParams, FrameWriter, SuperChunk};

const CHUNK: usize = 4000;
const BLOCK: usize = 1000;

/// Adds the chunk and block numbers to each byte.
fn add_numbers(info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let nchunk = info.nchunk.ok_or("no chunk number")?;
    assert_eq!((info.offset, info.itemsize), (info.nblock * BLOCK, 4));
    dst.iter_mut().zip(src).for_each(|(d, s)| *d = s.wrapping_add((10 * nchunk + info.nblock) as u8));
    Ok(())
}

fn numbered(plain: &[u8]) -> Vec<u8> {
    let number = |i: usize| (10 * (i / CHUNK) + i % CHUNK / BLOCK) as u8;
    plain.iter().enumerate().map(|(i, byte)| byte.wrapping_add(number(i))).collect()
}

fn cparams() -> CParams {
    Compression::new().itemsize(4).codec(CodecId::LZ4).blocksize(BLOCK).build().unwrap()
}

/// Five chunks: two equal ones, a special one, one of other bytes, and a short one.
fn frame() -> (SuperChunk, Vec<u8>) {
    let cparams = cparams();
    let ramp: Vec<u8> = (0..CHUNK / 4).flat_map(|i| (i as u32 / 3).to_le_bytes()).collect();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams).chunksize(CHUNK)).unwrap();
    let mut plain = Vec::new();
    for part in [&ramp[..], &ramp, &[0; CHUNK], &[7; CHUNK], &ramp[..1200]] {
        match part[0] {
            0 if part[4..] == part[..part.len() - 4] => {
                writer.append_special(SpecialKind::Zeros, part.len()).unwrap();
            }
            _ => {
                writer.append(Chunk::compress_bytes(part, &cparams).unwrap()).unwrap();
            }
        }
        plain.extend_from_slice(part);
    }
    (SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap(), plain)
}

#[test]
fn postfilters_are_told_the_chunk() {
    let (frame, plain) = frame();
    let expected = numbered(&plain);
    let frame = frame.with_postfilter(add_numbers);
    for nchunk in 0..frame.nchunks() {
        let part = nchunk * CHUNK..(nchunk * CHUNK + CHUNK).min(plain.len());
        assert!(frame.chunk(nchunk).decompress().unwrap() == expected[part.clone()], "chunk {nchunk}");
        let len = part.len();
        let mut blocks = vec![0; len];
        let all: Vec<usize> = (0..len.div_ceil(BLOCK)).collect();
        frame
            .chunk(nchunk)
            .blocks(&all, |nblock, block| blocks[nblock * BLOCK..][..block.len()].copy_from_slice(block))
            .unwrap();
        assert!(blocks == expected[part], "blocks of chunk {nchunk}");
    }
    for range in [0..plain.len(), 5..CHUNK + 5, CHUNK..2 * CHUNK, 2 * CHUNK + 1500..plain.len() - 1] {
        let read = frame.read_bytes(range.start as u64..range.end as u64).unwrap();
        assert!(read == expected[range.clone()], "{range:?}");
    }
}

#[test]
fn a_postfilter_that_fails_ends_the_read() {
    let (frame, plain) = frame();
    let frame = frame.with_postfilter(|info, src, dst| {
        dst.copy_from_slice(src);
        if info.nchunk == Some(3) { Err("broken".into()) } else { Ok(()) }
    });
    assert!(frame.read_bytes(0..3 * CHUNK as u64).unwrap() == plain[..3 * CHUNK]);
    let error = frame.read_bytes(0..plain.len() as u64).unwrap_err();
    assert_eq!(error.kind(), b2_chunk::ErrorKind::Argument);
    assert!(
        b2_chunk::base::Report(&error).to_string().contains("broken"),
        "{}",
        b2_chunk::base::Report(&error)
    );
}

#[test]
fn prefilters_are_told_the_chunk() {
    let (frame, plain) = frame();
    let filtered = cparams().to_builder().prefilter(add_numbers).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&filtered).chunksize(CHUNK)).unwrap();
    frame.copy_into(&mut writer, Some(&filtered), Some(CHUNK)).unwrap();
    let copy = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    assert!(copy.read_bytes(0..plain.len() as u64).unwrap() == numbered(&plain));
}
