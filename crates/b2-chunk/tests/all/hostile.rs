//! No input makes the chunk reader panic, and truncation is always detected.

use b2_chunk::{
    Chunk, ChunkReader, CodecId, Compression, DParams, FilterId, FilterSlot, LazyChunk, SpecialKind,
};
use b2_testkit::hostile::flipped;
use bytes::Bytes;
use proptest::prelude::*;

/// Small chunks of every kind.
fn samples() -> Vec<Chunk> {
    let raw: Vec<u8> = (0..700u32).flat_map(|i| (i * i / 7).to_le_bytes()).collect();
    let mut chunks = Vec::new();
    for codec in [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD] {
        for filters in [
            &[FilterSlot::SHUFFLE][..],
            &[],
            &[FilterSlot::DELTA, FilterSlot::BITSHUFFLE],
            &[FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, 4)],
        ] {
            for blocksize in [0, 512] {
                let builder =
                    Compression::new().itemsize(4).codec(codec).filters(filters).blocksize(blocksize);
                let Ok(cparams) = builder.build() else { continue };
                chunks.push(Chunk::compress_bytes(&raw, &cparams).unwrap());
                if !filters.contains(&FilterSlot::DELTA) {
                    let blocks: Vec<&[u8]> = raw.chunks(300).collect();
                    chunks.push(Chunk::compress_vl(&blocks, &cparams).unwrap());
                }
            }
        }
    }
    let dict =
        Compression::new().itemsize(4).codec(CodecId::LZ4).use_dict(true).blocksize(1024).build().unwrap();
    let text: Vec<u8> = (0..4000).flat_map(|i| format!("{} ", i % 97).into_bytes()).collect();
    let chunk = Chunk::compress_bytes(&text, &dict).unwrap();
    assert!(chunk.header().has_dict());
    chunks.push(chunk);
    chunks.push(
        Chunk::compress_bytes(&raw, &Compression::new().itemsize(4).level(0).build().unwrap()).unwrap(),
    );
    chunks.push(Chunk::special(SpecialKind::Value, b"abcd", 400, 4, 0).unwrap());
    chunks.push(Chunk::special(SpecialKind::NaN, &[], 400, 8, 0).unwrap());
    chunks.push(Chunk::zero_runs(4000, 4, 400).unwrap());
    chunks
}

/// Reads the chunk in every way, ignoring errors.
fn exercise(bytes: &[u8]) {
    let limits = b2_chunk::Limits::default().max_chunk_nbytes(1 << 24);
    let dparams = DParams::default().limits(limits);
    for head in [32.min(bytes.len()), bytes.len()] {
        let _ = LazyChunk::parse(&bytes[..head], bytes.len() as u64, &dparams);
    }
    let Ok(chunk) = Chunk::from_bytes(Bytes::copy_from_slice(bytes)) else { return };
    let whole = chunk.decompress_bytes_with(&dparams);
    let (check, decoded) = chunk.check(&dparams);
    match (check, &whole) {
        (Ok(()), Ok(whole)) => assert!(decoded <= whole.len() as u64, "a block is decoded once"),
        (Err(_), Err(_)) => {}
        (check, whole) => panic!("{check:?}, but {:?}", whole.as_ref().map(Vec::len)),
    }
    let middle = chunk.nbytes() / 3..chunk.nbytes() / 2;
    let mut out = vec![0; 9.min(chunk.nbytes())];
    let at = chunk.nbytes() / 5 * 4;
    if at + out.len() <= chunk.nbytes() {
        let part = chunk.get_bytes_into(at, &mut out, &dparams);
        if let (Ok(whole), Ok(())) = (&whole, part) {
            assert_eq!(out, whole[at..at + out.len()], "part and whole differ");
        }
        if let Ok(mut reader) = ChunkReader::new(chunk.clone(), dparams.clone()) {
            for _ in 0..2 {
                if let (Ok(()), Ok(whole)) = (reader.read(at, &mut out), &whole) {
                    assert_eq!(out, whole[at..at + out.len()], "part and whole differ");
                }
            }
        }
    }
    if let (Ok(whole), Ok(part)) = (whole, chunk.get_bytes(middle.clone(), &dparams)) {
        assert_eq!(part, whole[middle], "part and whole differ");
    }
}

#[test]
fn every_truncation_is_an_error() {
    for chunk in samples() {
        let bytes = chunk.to_bytes();
        for len in 0..bytes.len() {
            assert!(Chunk::from_bytes(bytes.slice(..len)).is_err(), "{len} of {}", bytes.len());
            // Also if the header states the truncated length.
            if len >= 32 {
                let mut cut = bytes[..len].to_vec();
                cut[12..16].copy_from_slice(&(len as u32).to_le_bytes());
                let result = Chunk::from_bytes(Bytes::from(cut)).and_then(|chunk| chunk.decompress_bytes());
                // With a shorter repeated value it may be a valid chunk.
                if chunk.header().special() != Some(SpecialKind::Value) {
                    assert!(result.is_err(), "{len} of {}: {:?}", bytes.len(), chunk.header());
                }
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    for chunk in samples() {
        let bytes = chunk.as_bytes();
        let step = (bytes.len() * 8 / 600).max(1);
        for bit in (0..bytes.len().min(60) * 8).chain((0..bytes.len() * 8).step_by(step)) {
            exercise(&flipped(bytes, bit));
        }
    }
}

#[test]
fn extreme_header_fields_never_panic() {
    for chunk in samples() {
        for at in [4, 8, 12, 32, 36, 40, 44] {
            for value in [0, 1, -1, 2, 255, 256, i32::MAX, i32::MIN, i32::MAX - 32, 0x1FFF_FE00, 0x1FFF_FE01]
            {
                let mut bytes = chunk.as_bytes().to_vec();
                if let Some(field) = bytes.get_mut(at..at + 4) {
                    field.copy_from_slice(&value.to_le_bytes());
                    exercise(&bytes);
                }
            }
        }
    }
}

#[test]
fn limits_are_checked_before_allocating() {
    let bomb = Chunk::special(SpecialKind::Zeros, &[], b2_chunk::MAX_CHUNK_NBYTES, 1, 0).unwrap();
    let limits = b2_chunk::Limits::default().max_chunk_nbytes(1 << 20);
    let error = bomb.decompress_bytes_with(&DParams::default().limits(limits)).unwrap_err();
    assert!(
        matches!(
            error,
            b2_chunk::ChunkError::Limit(b2_chunk::base::LimitExceeded {
                name: "max_chunk_nbytes",
                limit: 0x10_0000,
                ..
            })
        ),
        "{error}"
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), flags in 0..8u8) {
        exercise(&bytes);
        // Mutations of valid chunks.
        if bytes.len() >= 48 {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&[5, 1, flags | 0x14, 4]);
            bytes[4..8].copy_from_slice(&800u32.to_le_bytes());
            bytes[8..12].copy_from_slice(&400u32.to_le_bytes());
            bytes[12..16].copy_from_slice(&len.to_le_bytes());
            if flags & 5 == 5 {
                bytes[16..32].fill(0);
                bytes[32..36].copy_from_slice(&40u32.to_le_bytes());
            } else {
                bytes[16..20].copy_from_slice(&24u32.to_le_bytes());
            }
            exercise(&bytes);
        }
    }
}

/// A million blocks with equal starts: finding the end of each must not take a scan of all others.
#[test]
fn blocks_that_share_a_start_are_found_quickly() {
    let (nblocks, blocksize) = (1u32 << 20, 64u32);
    let mut chunk = vec![5, 1, 0x15, 1];
    for number in [nblocks * blocksize, blocksize, 32 + 4 * nblocks + 8] {
        chunk.extend_from_slice(&number.to_le_bytes());
    }
    chunk.resize(32, 0);
    for _ in 0..nblocks {
        chunk.extend_from_slice(&(32 + 4 * nblocks).to_le_bytes());
    }
    // A stream with `csize` 0: zeros.
    chunk.extend_from_slice(&[0; 8]);
    let chunk = Chunk::from_bytes(chunk).unwrap();
    let middle = 1000..chunk.nbytes() - 1000;
    assert!(chunk.get_bytes(middle, &DParams::default()).unwrap().iter().all(|&byte| byte == 0));
}

/// Blocks in any order, some with equal starts: each ends at the next larger start.
#[test]
fn blocks_in_any_order_end_where_the_next_begins() {
    let (nblocks, blocksize) = (1000u32, 64u32);
    let table_end = 32 + 4 * nblocks;
    // Stored blocks of 5 to 8 bytes: a run each, and bytes that nobody reads. Block n uses the slot n * 7 % 300.
    let nslots = 300;
    let slot_at = |slot: u32| table_end + (0..slot).map(|slot| 5 + slot % 4).sum::<u32>();
    let mut chunk = vec![5, 1, 0x15, 1];
    for number in [nblocks * blocksize, blocksize, slot_at(nslots)] {
        chunk.extend_from_slice(&number.to_le_bytes());
    }
    chunk.resize(32, 0);
    let slot_of = |nblock: u32| nblock * 7 % nslots;
    for nblock in 0..nblocks {
        chunk.extend_from_slice(&slot_at(slot_of(nblock)).to_le_bytes());
    }
    for slot in 0..nslots {
        chunk.extend_from_slice(&(-((slot % 200) as i32) - 1).to_le_bytes());
        chunk.push(1);
        chunk.resize(slot_at(slot + 1) as usize, 0xEE);
    }
    let chunk = Chunk::from_bytes(chunk).unwrap();
    let lazy = chunk.lazy(&DParams::default()).unwrap();
    let plain = chunk.decompress_bytes().unwrap();
    for nblock in 0..nblocks {
        let slot = slot_of(nblock);
        let extent = slot_at(slot) as usize..slot_at(slot + 1) as usize;
        assert_eq!(lazy.block_extent(nblock as usize), extent, "block {nblock}");
        let range = (nblock * blocksize) as usize..((nblock + 1) * blocksize) as usize;
        assert!(plain[range].iter().all(|byte| u32::from(*byte) == slot % 200 + 1), "block {nblock}");
    }
}

/// Blocks above the memory limit are decoded in pieces, which still detects damage.
#[test]
fn large_blocks_are_checked_by_pieces() {
    let raw: Vec<u8> = (0..100_000u32).flat_map(|i| (i / 9).to_le_bytes()).collect();
    let cparams = Compression::new().itemsize(4).blocksize(raw.len()).build().unwrap();
    let chunk = Chunk::compress_bytes(&raw, &cparams).unwrap();
    let limits = b2_chunk::Limits::default().max_memory(raw.len() as u64 + 50_000);
    let dparams = DParams::default().limits(limits);
    assert_eq!(chunk.check(&dparams), (Ok(()), raw.len() as u64));
    let mut bytes = chunk.as_bytes().to_vec();
    let last = bytes.len() - 1;
    bytes[last - 40..last].fill(0xFF);
    let damaged = Chunk::from_bytes(bytes).unwrap();
    assert_eq!(damaged.check(&dparams).0.is_ok(), damaged.decompress_bytes().is_ok());
    // Runs are not expanded.
    let zeros = Chunk::zero_runs(1 << 30, 1, 1 << 28).unwrap();
    let limits = b2_chunk::Limits::default().max_memory(1 << 29);
    assert_eq!(zeros.check(&dparams.limits(limits)), (Ok(()), 0));
}
