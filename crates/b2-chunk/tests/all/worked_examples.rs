//! Bytes that the C library wrote (docs/format/chunk.md, section 13).

use b2_chunk::{Chunk, ChunkHeader, DParams, LazyChunk, LazyHead, SpecialKind};
use bytes::Bytes;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn chunk(bytes: Vec<u8>) -> Chunk {
    Chunk::from_bytes(Bytes::from(bytes)).unwrap()
}

/// 64 numbers 0x07000000 + i: a raw plane, two planes of zeros, a run of sevens.
fn example_a() -> Vec<u8> {
    let mut bytes =
        hex("05010504 00010000 00010000 75000000 000000000001 00 00 000000000000 00 00 24000000 40000000");
    bytes.extend(0..64u8);
    bytes.extend(hex("00000000 00000000 f9ffffff 01"));
    bytes
}

#[test]
fn split_streams_of_all_kinds() {
    let chunk = chunk(example_a());
    let expected: Vec<u8> = (0..64u32).flat_map(|i| (0x0700_0000 + i).to_le_bytes()).collect();
    assert_eq!(chunk.decompress_bytes().unwrap(), expected);
    assert_eq!(chunk.get_bytes(40..48, &DParams::default()).unwrap(), expected[40..48]);
    assert_eq!(chunk.get_items::<u32>(10..12, &DParams::default()).unwrap(), [0x0700_000A, 0x0700_000B]);
}

#[test]
fn a_blosclz_match_with_a_long_length() {
    let mut bytes =
        hex("05011501 40010000 40010000 41000000 000000000000 00 00 000000000000 00 00 24000000 19000000");
    bytes.push(0x2f);
    bytes.extend(b"abcdefghijklmnop");
    bytes.extend(hex("e0ff250f 026e6f70"));
    assert_eq!(chunk(bytes).decompress_bytes().unwrap(), b"abcdefghijklmnop".repeat(20));
}

#[test]
fn a_raw_variable_length_block() {
    let mut bytes =
        hex("06019501 0b000000 01000000 33000000 000000000000 05 00 000000000000 01 00 24000000 0b000000");
    bytes.extend(b"hello world");
    let chunk = chunk(bytes);
    assert_eq!(chunk.header().nblocks(), 1);
    assert_eq!(chunk.blocks(&DParams::default()).unwrap(), [b"hello world"]);
}

#[test]
fn special_kinds() {
    let special = |kind: u8, typesize: u8, nbytes: u32, value: &[u8]| {
        let mut bytes = vec![5, 1, 5, typesize];
        bytes.extend(nbytes.to_le_bytes());
        bytes.extend(nbytes.to_le_bytes());
        bytes.extend((32 + value.len() as u32).to_le_bytes());
        bytes.resize(31, 0);
        bytes.push(kind << 4);
        bytes.extend(value);
        Chunk::from_bytes(Bytes::from(bytes))
    };
    assert_eq!(special(1, 4, 10, &[]).unwrap().decompress_bytes().unwrap(), [0; 10]);
    assert_eq!(special(2, 4, 8, &[]).unwrap().decompress_bytes().unwrap(), hex("0000c07f 0000c07f"));
    assert_eq!(special(2, 8, 8, &[]).unwrap().decompress_bytes().unwrap(), hex("000000000000f87f"));
    assert_eq!(special(3, 1, 6, b"ab").unwrap().decompress_bytes().unwrap(), b"ababab");
    assert_eq!(special(4, 2, 4, &[]).unwrap().decompress_bytes().unwrap(), [0; 4]);
    assert_eq!(special(4, 2, 4, &[]).unwrap().header().special(), Some(SpecialKind::Uninit));
    // NaN of another width, a value whose width does not divide nbytes, undefined kinds.
    assert!(special(2, 2, 8, &[]).is_err());
    assert!(special(3, 1, 7, b"ab").is_err());
    assert!(special(3, 1, 0, b"ab").is_err());
    assert!(special(4, 4, 6, &[]).is_err());
    for kind in 5..8 {
        assert!(special(kind, 4, 8, &[]).is_err());
    }
}

#[test]
fn a_memcpyed_chunk_with_a_stray_dictionary_bit_is_recovered() {
    let mut bytes = hex("05018701 05000000 05000000 25000000 000000000000 05 00 000000000000 00 01");
    bytes.extend(b"hello");
    assert_eq!(chunk(bytes).decompress_bytes().unwrap(), b"hello");
}

#[test]
fn headers_from_the_future_are_refused() {
    let mut bytes = example_a();
    bytes[0] = 7;
    assert!(ChunkHeader::parse(&bytes).is_ok());
    bytes[0x1E] = 0x80;
    assert!(ChunkHeader::parse(&bytes).is_err());
    bytes[0] = 5;
    assert!(ChunkHeader::parse(&bytes).is_ok());
}

#[test]
fn version_3_has_garbage_in_its_last_slot() {
    let mut bytes = example_a();
    (bytes[0], bytes[0x15]) = (3, 77);
    let planes = chunk(bytes).decompress_bytes().unwrap();
    assert_eq!(planes[..64], (0..64).collect::<Vec<u8>>());
}

#[test]
fn a_blosc1_chunk_takes_its_pipeline_from_the_flags() {
    // The streams of example (a) after a 16-byte header: shuffle is bit 0.
    let a = example_a();
    let mut bytes = hex("02010104 00010000 00010000 65000000 14000000");
    bytes.extend(&a[36..]);
    let chunk = chunk(bytes);
    assert!(!chunk.header().is_extended());
    assert_eq!(chunk.decompress_bytes().unwrap()[..8], hex("00000007 01000007"));
}

#[test]
fn unknown_codecs_matter_only_where_a_stream_needs_them() {
    for format in [2u8, 5, 7] {
        let mut bytes = example_a();
        bytes[2] |= format << 5;
        assert!(chunk(bytes).decompress_bytes().is_ok(), "format {format}");
    }
    let mut bytes = example_a();
    bytes[2] |= 6 << 5;
    bytes[0x16] = 200;
    // A stream of 63 bytes cannot be raw.
    bytes[36] = 63;
    let error = chunk(bytes.clone()).decompress_bytes().unwrap_err().to_string();
    assert!(error.contains("200"), "{error}");
    bytes[2] |= 7 << 5;
    let error = chunk(bytes).decompress_bytes().unwrap_err().to_string();
    assert!(error.contains("format 7"), "{error}");
    let mut bytes = example_a();
    bytes[0x10] = 99;
    let error = chunk(bytes).decompress_bytes().unwrap_err().to_string();
    assert!(error.contains("99"), "{error}");
}

#[test]
fn blocks_may_be_stored_in_any_order() {
    let streams = |value: u8| [(-i32::from(value)).to_le_bytes().to_vec(), vec![1]].concat();
    let mut bytes = hex("05011501 60000000 20000000 00000000 000000000000 00 00 000000000000 00 00");
    bytes.extend([54u32, 44, 49].iter().flat_map(|b| b.to_le_bytes()));
    bytes.extend([streams(2), streams(3), streams(1)].concat());
    let cbytes = bytes.len() as u32;
    bytes[12..16].copy_from_slice(&cbytes.to_le_bytes());
    let expected = [[1; 32], [2; 32], [3; 32]].concat();
    assert_eq!(chunk(bytes.clone()).decompress_bytes().unwrap(), expected);
    let dparams = DParams::default();
    let LazyHead::Ready(lazy) = LazyChunk::parse(&bytes[..44], cbytes.into(), &dparams).unwrap() else {
        panic!("the head is complete")
    };
    assert_eq!((lazy.block_extent(0), lazy.block_extent(1)), (54..59, 44..49));
}
