//! Small files that demand a lot of memory, time or depth.

use anyhow::Result;
use b2_testkit::Rng;
use b2kit::chunk::Compression;
use b2kit::{Chunk, CodecId};

use super::content::{Content, Node};
use super::expect::Expect;
use super::groups::Group;
use super::rebuild::{FrameParts, b2nd, chunk_header, entry, memcpyed, special, stream, streams};
use super::relations;

/// A case that is built from scratch.
pub(crate) struct BuiltCase {
    pub(crate) group: Group,
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) expect: Expect,
}

/// Largest uncompressed size of a chunk.
const MAX_CHUNK_LEN: u32 = 2_147_483_615;
/// Largest number of chunks that an index chunk can describe.
const MAX_NCHUNKS: u32 = MAX_CHUNK_LEN / 8;

struct CaseMaker {
    group: Group,
    out: Vec<BuiltCase>,
}

impl CaseMaker {
    fn add(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.put(name, Content::file(bytes), Expect::Any);
    }

    fn put(&mut self, name: impl Into<String>, content: Content, expect: Expect) {
        self.out.push(BuiltCase { group: self.group, name: name.into(), content, expect });
    }
}

/// Returns bombs, and files with deep nesting or many parts.
pub(crate) fn all(seed: u64) -> Result<Vec<BuiltCase>> {
    let mut maker = CaseMaker { group: Group::Bombs, out: Vec::new() };
    special_frames(&mut maker);
    chunks(&mut maker);
    compressed(&mut maker)?;
    codec_lies(&mut maker, &mut Rng::case(seed, 77));
    arrays(&mut maker);
    holes(&mut maker);
    maker.group = Group::Nesting;
    nesting(&mut maker);
    Ok(maker.out)
}

/// Adds frames with many chunks that are not stored.
fn special_frames(maker: &mut CaseMaker) {
    for (what, kind, typesize) in [("zeros", 1, 1), ("NaN", 2, 8), ("uninit", 4, 1)] {
        for nchunks in [1 << 10, 1 << 20, 1 << 24, 1 << 27, MAX_NCHUNKS] {
            for chunksize in [8, 4096, 1 << 20, MAX_CHUNK_LEN / 8 * 8] {
                let nbytes = u64::from(nchunks) * u64::from(chunksize);
                let mut parts = FrameParts::empty(typesize, chunksize, nbytes);
                parts.index = special(3, &entry(kind).to_le_bytes(), 8, nchunks * 8, 8);
                maker.add(format!("{nchunks} chunks of {chunksize} {what}"), parts.encode_plain());
            }
        }
    }
    // All entries refer to the same small chunk.
    for (what, chunk) in [
        ("values", special(3, b"abcd", 4, 1 << 20, 1 << 16)),
        ("values of 2 GiB", special(3, b"abcd", 4, MAX_CHUNK_LEN / 4 * 4, 1 << 16)),
        ("runs", streams(0, 1 << 20, 1 << 16, &[&[0; 4]], true)),
        ("runs of ones", streams(0, 1 << 20, 1 << 16, &[&[0xFF, 0xFF, 0xFF, 0xFF, 1]], true)),
        ("stored", memcpyed(&[7; 4096], 4)),
    ] {
        let chunksize = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
        for nchunks in [1000, 1 << 20, 1 << 24, MAX_NCHUNKS] {
            let mut parts = FrameParts::empty(4, chunksize, u64::from(nchunks) * u64::from(chunksize));
            parts.data = chunk.clone();
            parts.index = special(1, b"", 8, nchunks * 8, 8);
            maker.add(format!("{nchunks} times one chunk of {what}"), parts.clone().encode_plain());
            if nchunks == 1000 {
                parts.set(58, &[0; 4]);
                maker.add(format!("{nchunks} times one chunk of {what}, variable"), parts.encode_plain());
            }
        }
    }
    for nbytes in [1, u64::MAX >> 1, u64::MAX, 1 << 60, 1 << 62] {
        for chunksize in [0, 1, MAX_CHUNK_LEN, u32::MAX >> 1, u32::MAX] {
            let mut parts = FrameParts::empty(1, chunksize, nbytes);
            parts.index = special(3, &entry(1).to_le_bytes(), 8, MAX_NCHUNKS * 8, 8);
            maker.add(format!("{nbytes} bytes in chunks of {chunksize}"), parts.encode_plain());
        }
    }
    for typesize in [i32::MAX as u32, 536_866_816, 1 << 20] {
        let mut parts = FrameParts::empty(typesize, typesize, u64::from(typesize) * 3);
        parts.set_entries(&[entry(1), entry(4), entry(2)]);
        maker.add(format!("items of {typesize} bytes"), parts.encode_plain());
    }
}

fn chunks(maker: &mut CaseMaker) {
    for nbytes in [MAX_CHUNK_LEN, MAX_CHUNK_LEN / 8 * 8, 1 << 30, i32::MAX as u32, u32::MAX] {
        for blocksize in [1, 8, 1 << 16, 536_866_816, i32::MAX as u32] {
            for (what, kind, value) in [
                ("zeros", 1, &b""[..]),
                ("NaN", 2, b""),
                ("uninit", 4, b""),
                ("values", 3, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
            ] {
                maker.add(
                    format!("{nbytes} bytes of {what} in blocks of {blocksize}"),
                    special(kind, value, 8, nbytes, blocksize),
                );
            }
        }
    }
    for (nbytes, blocksize) in
        [(MAX_CHUNK_LEN, 1 << 20), (MAX_CHUNK_LEN, 536_866_816), (1 << 30, 1024), (1 << 24, 8), (1 << 24, 1)]
    {
        maker.add(
            format!("{nbytes} zeros as runs of {blocksize}"),
            streams(0, nbytes, blocksize, &[&[0; 4]], true),
        );
        maker.add(
            format!("{nbytes} ones as runs of {blocksize}"),
            streams(1, nbytes, blocksize, &[&[0xFF, 0xFF, 0xFF, 0xFF, 1]], true),
        );
    }
    // Sizes that are announced but not present.
    for nbytes in [1 << 20, 1 << 30, MAX_CHUNK_LEN, i32::MAX as u32] {
        for flags in [0x05, 0x07, 0x15, 0x35, 0x75, 0x95] {
            for cbytes in [32, 40, 100] {
                let mut chunk = chunk_header(flags, 4, nbytes, nbytes, cbytes);
                chunk.resize(cbytes as usize, 0);
                maker.add(format!("{nbytes} bytes announced, {cbytes} there, flags {flags:#x}"), chunk);
            }
        }
    }
    for count in [1, 2, 1 << 20, i32::MAX as u32] {
        for size in [1u32, 1 << 31, i32::MAX as u32] {
            let mut chunk = chunk_header(0x95, 1, MAX_CHUNK_LEN, count, 60);
            (chunk[0], chunk[30]) = (6, 1);
            chunk.extend_from_slice(&40u32.to_le_bytes());
            chunk.extend_from_slice(&50u32.to_le_bytes());
            chunk.extend_from_slice(&size.to_le_bytes());
            chunk.resize(50, 7);
            chunk.extend_from_slice(&size.to_le_bytes());
            chunk.resize(60, 7);
            maker.add(format!("{count} blocks of variable length, of {size} bytes"), chunk);
        }
    }
}

/// Adds files that really contain much data in few bytes.
fn compressed(maker: &mut CaseMaker) -> Result<()> {
    let plain = b"all work and no play ".repeat(3 << 20);
    for (name, codec) in [
        ("zstd", CodecId::ZSTD),
        ("zlib", CodecId::ZLIB),
        ("lz4", CodecId::LZ4),
        ("blosclz", CodecId::BLOSCLZ),
    ] {
        for blocksize in [plain.len(), 1 << 20] {
            let cparams = Compression::new()
                .itemsize(1)
                .codec(codec)
                .no_filters()
                .level(1)
                .blocksize(blocksize)
                .build()?;
            let chunk = Chunk::compress_bytes(&plain, &cparams)?.as_bytes().to_vec();
            let mut parts = FrameParts::empty(1, plain.len() as u32, 20 * plain.len() as u64);
            parts.data = chunk.clone();
            parts.set_entries(&[0; 20]);
            if codec == CodecId::ZSTD {
                maker.add(
                    format!(
                        "20 times {} bytes of text in one {name} chunk, blocks of {blocksize}",
                        plain.len()
                    ),
                    parts.encode_plain(),
                );
            }
            maker.add(format!("{} bytes of text as {name}, blocks of {blocksize}", plain.len()), chunk);
        }
    }
    Ok(())
}

/// Adds streams whose own headers are wrong.
fn codec_lies(maker: &mut CaseMaker, rng: &mut Rng) {
    let zstd = |descriptor: u8, rest: &[u8]| [b"\x28\xb5\x2f\xfd", &[descriptor][..], rest].concat();
    let huge = 1u64 << 60;
    let raw = |len: usize| {
        [&[(len << 3) as u8 | 1, (len >> 5) as u8, (len >> 13) as u8][..], &vec![9; len]].concat()
    };
    let zstd_cases = [
        ("a content of 2^60 bytes", zstd(0xE0, &[&huge.to_le_bytes()[..], &raw(40)].concat())),
        ("a content of 2^64 - 1 bytes", zstd(0xE0, &[&[0xFF; 8][..], &raw(40)].concat())),
        ("a content of 0 bytes", zstd(0x20, &[&[0][..], &raw(40)].concat())),
        ("a window of 2^41 bytes", zstd(0x00, &[&[0xFF][..], &raw(40)].concat())),
        ("a window of 2^31 bytes", zstd(0x00, &[&[21 << 3][..], &raw(40)].concat())),
        ("a window of 2^27 bytes", zstd(0x00, &[&[17 << 3][..], &raw(40)].concat())),
        ("a dictionary nobody has", zstd(0x23, &[&[1, 2, 3, 4, 40][..], &raw(40)].concat())),
        ("a reserved bit", zstd(0x28, &[&[40][..], &raw(40)].concat())),
        ("a run of 2^21 bytes", zstd(0x00, b"\x88\xfb\xff\xff\x07")),
        ("a skippable frame of 4 GiB", b"\x50\x2a\x4d\x18\xff\xff\xff\xff".to_vec()),
        ("skippable frames", b"\x50\x2a\x4d\x18\0\0\0\0".repeat(2000)),
        ("frames of nothing", zstd(0x20, b"\0\x01\0\0").repeat(2000)),
        ("a compressed block of nothing", zstd(0x20, b"\x28\x05\0\0")),
    ];
    for (what, bytes) in zstd_cases {
        for nbytes in [40, 1 << 20, MAX_CHUNK_LEN] {
            let blocksize = nbytes.min(1 << 29);
            let chunk = streams(4, nbytes, blocksize, &[&stream(&bytes)], true);
            maker.add(format!("zstd: {what}, {nbytes} bytes"), chunk);
        }
    }
    let fills: [(&str, Vec<u8>); 7] = [
        ("0xFF", vec![0xFF; 3000]),
        ("lengths without end", [vec![0x1F], vec![0xFF; 3000]].concat()),
        ("matches without end", [vec![0x0F, 0, 0], vec![0xFF; 3000]].concat()),
        ("zeros", vec![0; 3000]),
        ("a far match", b"\x10a\xff\xff\0".to_vec()),
        ("a zlib header", b"\x78\x9c".to_vec()),
        ("noise", rng.bytes(3000)),
    ];
    for (what, bytes) in &fills {
        for format in [0, 1, 2, 3, 4, 5, 6, 7] {
            for nbytes in [2999, 1 << 16, 1 << 28] {
                let mut chunk = streams(format, nbytes, nbytes, &[&stream(bytes)], true);
                maker.add(format!("format {format}: {what}, {nbytes} bytes"), chunk.clone());
                if format == 6 {
                    for codec in [32, 33, 34, 35, 36, 160, 255] {
                        chunk[22] = codec;
                        chunk[23] = rng.next() as u8;
                        maker.add(format!("codec {codec}: {what}, {nbytes} bytes"), chunk.clone());
                    }
                }
            }
        }
    }
    // An invalid dictionary.
    for (what, size) in
        [("empty", 0u32), ("too long", 40_000), ("longer than the chunk", 3000), ("negative", u32::MAX)]
    {
        let mut chunk = chunk_header(0x95, 1, 100, 100, 0);
        chunk[31] = 1;
        chunk.extend_from_slice(&200u32.to_le_bytes());
        chunk.extend_from_slice(&size.to_le_bytes());
        chunk.resize(200, 0x37);
        chunk.extend_from_slice(&stream(&zstd(0x20, &[&[100][..], &raw(100)].concat())));
        let cbytes = chunk.len() as u32;
        chunk[12..16].copy_from_slice(&cbytes.to_le_bytes());
        maker.add(format!("a dictionary that is {what}"), chunk);
    }
}

/// Frames with the metalayer of arrays.
fn array(shape: &[u64], chunks: &[u32], blocks: &[u32], dtype: &[u8], typesize: u32) -> FrameParts {
    let product =
        |dims: &[u32]| dims.iter().fold(u64::from(typesize), |n, d| n.saturating_mul(u64::from(*d)));
    // Padded to whole blocks.
    let padded: Vec<u32> =
        chunks.iter().zip(blocks).map(|(c, b)| c.div_ceil((*b).max(1)).saturating_mul(*b)).collect();
    let chunk = product(&padded);
    let nchunks =
        shape.iter().zip(chunks).fold(1u64, |n, (s, c)| n.saturating_mul(s.div_ceil(u64::from(*c).max(1))));
    let mut parts =
        FrameParts::empty(typesize, chunk.min(u64::from(u32::MAX)) as u32, nchunks.saturating_mul(chunk));
    parts.set(53, &(product(blocks).min(u64::from(u32::MAX)) as u32).to_be_bytes());
    parts.metalayers.push((b"b2nd".to_vec(), b2nd(shape, chunks, blocks, dtype)));
    parts.index = special(3, &entry(1).to_le_bytes(), 8, nchunks.min(u64::from(MAX_NCHUNKS)) as u32 * 8, 8);
    parts
}

fn arrays(maker: &mut CaseMaker) {
    let rows: &[(&[u64], &[u32], &[u32])] = &[
        (&[1 << 58], &[1 << 30], &[1 << 20]),
        (&[1 << 29, 1 << 29], &[1 << 15, 1 << 15], &[1 << 10, 1 << 10]),
        (&[1 << 60], &[1 << 30], &[1]),
        (&[1 << 62], &[1 << 30], &[1 << 30]),
        (&[1 << 27], &[1], &[1]),
        (&[1 << 24, 1], &[1, 1], &[1, 1]),
        (&[1, 1 << 27], &[1, 1], &[1, 1]),
        (&[1 << 30], &[1 << 30], &[1]),
        (&[1 << 15, 1 << 15], &[1 << 15, 1 << 15], &[1, 1]),
        (&[1 << 15, 1 << 15], &[1 << 15, 1 << 15], &[1, 1 << 15]),
        (&[4; 15], &[4; 15], &[1; 15]),
        (&[4; 15], &[1; 15], &[1; 15]),
        (&[3; 16], &[3; 16], &[2; 16]),
        (&[5; 13], &[3; 13], &[2; 13]),
        (&[1], &[i32::MAX as u32], &[i32::MAX as u32]),
        (&[1, 1], &[1 << 15, 1 << 15], &[1 << 15, 1 << 15]),
        (&[i64::MAX as u64], &[1 << 30], &[1 << 30]),
        (&[1 << 32, 1 << 32], &[1 << 15, 1 << 15], &[1 << 15, 1 << 15]),
        (&[0, 1 << 62], &[1, 1], &[1, 1]),
        (&[1 << 20], &[1 << 20], &[(1 << 20) - 1]),
    ];
    for (shape, chunks, blocks) in rows {
        for (dtype, typesize) in [("|u1", 1), ("<f8", 8), ("|V1000", 1000)] {
            let parts = array(shape, chunks, blocks, dtype.as_bytes(), typesize);
            maker.add(format!("array {shape:?} {chunks:?} {blocks:?} of {dtype}"), parts.encode_plain());
        }
    }
    // Filters and codecs that use the shape of blocks.
    let wide: &[&[u32]] =
        &[&[1 << 10, 1 << 10], &[1; 9], &[2; 9], &[1, 1], &[3, 5], &[0, 0], &[1 << 15, 1 << 14], &[1]];
    for blocks in wide {
        for (filter, meta) in
            [(32, 0), (32, 1), (32, 4), (32, 255), (33, 0), (33, 4), (33, 255), (35, 0), (36, 128)]
        {
            let shape: Vec<u64> = blocks.iter().map(|n| u64::from(*n)).collect();
            let mut parts = array(&shape, blocks, blocks, b"<f4", 4);
            let nbytes = u32::try_from(shape.iter().product::<u64>() * 4).unwrap_or(0);
            let mut chunk = streams(0, nbytes.max(1), nbytes.max(1), &[&[0, 0, 0, 0]], true);
            (chunk[3], chunk[16], chunk[24]) = (4, filter, meta);
            parts.data = chunk.clone();
            parts.set_entries(&[0]);
            maker.add(format!("filter {filter}:{meta} on blocks {blocks:?}"), parts.clone().encode_plain());
            for codec in [32, 33, 34, 35] {
                let mut chunk = streams(
                    6,
                    nbytes.max(1),
                    nbytes.max(1),
                    &[&stream(&[2, 0, 0, 0, 8, 0, 0, 0, 8, 1, 2, 3])],
                    true,
                );
                (chunk[3], chunk[22], chunk[23]) = (4, codec, meta);
                parts.data = chunk;
                maker.add(format!("codec {codec}:{meta} on blocks {blocks:?}"), parts.clone().encode_plain());
            }
        }
    }
    for (n, dtype) in relations::long_dtypes().into_iter().enumerate() {
        for typesize in [4, 1] {
            let mut parts = array(&[10], &[5], &[5], &dtype, typesize);
            maker.add(format!("a long dtype ({n}), items of {typesize}"), parts.clone().encode_plain());
            // Also as a metalayer with another name.
            parts.metalayers[0].0 = b"other".to_vec();
            maker.add(format!("a long metalayer ({n}), items of {typesize}"), parts.encode_plain());
        }
    }
}

/// Adds files with a hole: long, but almost empty.
fn holes(maker: &mut CaseMaker) {
    for len in [1u64 << 31, 1 << 40] {
        let mut put = |name: String, bytes: &[u8], expect| {
            maker.put(name, Content::node(Node::Hole(bytes.to_vec(), len)), expect);
        };
        let mut parts = FrameParts::empty(1, 1000, 1000);
        parts.set_entries(&[entry(1)]);
        let mut bytes = parts.encode_plain();
        put(format!("a frame and {len} bytes of nothing"), &bytes, Expect::Same);
        bytes[16..24].copy_from_slice(&len.to_be_bytes());
        put(format!("a frame of {len} bytes"), &bytes, Expect::Reject);
        bytes[11..15].copy_from_slice(&(i32::MAX as u32 - 97).to_be_bytes());
        put(format!("a long header in {len} bytes"), &bytes, Expect::Reject);
        for flags in [0x07, 0x95, 0x15] {
            let cbytes = if flags == 7 { MAX_CHUNK_LEN } else { i32::MAX as u32 };
            let chunk = chunk_header(flags, 1, MAX_CHUNK_LEN - 32, 1 << 20, cbytes);
            put(format!("a chunk of 2 GiB in {len} bytes, flags {flags:#x}"), &chunk, Expect::Any);
        }
        put(format!("{len} bytes of nothing"), b"", Expect::Reject);
    }
}

/// Names of metalayers whose values are parsed, and one that is not.
const NAMES: [&str; 6] =
    ["any", "vlarray", "batcharray", "b2embed", "_batch_array_metadata", "estore_metadata"];

fn nesting(maker: &mut CaseMaker) {
    let with = |name: &str, value: Vec<u8>, vl: bool| {
        let mut parts = FrameParts::empty(1, 1000, 1000);
        parts.set_entries(&[entry(1)]);
        if vl {
            parts.vlmetalayers.push((name.into(), memcpyed(&value, 1)));
        } else {
            parts.metalayers.push((name.into(), value));
        }
        parts.encode_plain()
    };
    let values: Vec<(&str, Vec<u8>)> = vec![
        ("arrays", vec![0x91; 1000]),
        ("arrays", vec![0x91; 1_000_000]),
        ("arrays, closed", [vec![0x91; 100_000], vec![0xC0]].concat()),
        ("maps", [b"\x81\xa1a".repeat(100_000), vec![0xC0]].concat()),
        ("maps as keys", [vec![0x81; 100_000], vec![0xC0]].concat()),
        ("long arrays", [b"\xdc\0\x01".repeat(100_000), vec![0xC0]].concat()),
        ("an array of 2^32", b"\xdd\xff\xff\xff\xff\xc0".to_vec()),
        ("a map of 2^32", b"\xdf\xff\xff\xff\xff\xc0".to_vec()),
        ("many nils", [b"\xdd\0\x0f\x42\x40".to_vec(), vec![0xC0; 1_000_000]].concat()),
        ("many empty maps", [b"\xdd\0\x0f\x42\x40".to_vec(), vec![0x80; 1_000_000]].concat()),
        ("a long text", [b"\xdb\0\x0f\x42\x40".to_vec(), vec![b'"'; 1_000_000]].concat()),
        ("bytes of 4 GiB", b"\xc6\xff\xff\xff\xff".to_vec()),
    ];
    for (what, value) in values {
        for vl in [false, true] {
            for name in NAMES {
                maker.add(format!("{what} in {name}, {vl}"), with(name, value.clone(), vl));
            }
        }
    }
    for count in [16, 17, 1000, 65_535] {
        let mut parts = FrameParts::empty(1, 1000, 1000);
        parts.set_entries(&[entry(1)]);
        parts.metalayers = (0..count).map(|_| (b"same".to_vec(), vec![])).collect();
        maker.add(format!("{count} metalayers"), parts.clone().encode_plain());
        parts.vlmetalayers = std::mem::take(&mut parts.metalayers);
        parts.vlmetalayers.iter_mut().for_each(|(_, value)| *value = memcpyed(b"\xc0", 1));
        maker.add(format!("{count} vlmetalayers"), parts.encode_plain());
    }
}
