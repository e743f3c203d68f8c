//! Chunks that C-Blosc 1 reads (docs/format/chunk.md, section 9).

use b2_chunk::{
    Chunk, ChunkHeader, CodecId, Compatibility, Compression, DParams, FilterId, FilterSlot, SplitMode,
};
use b2_testkit::Rng;

const CODECS: [CodecId; 5] = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];

fn blosc1(typesize: usize) -> Compression {
    Compression::new().itemsize(typesize).compatibility(Compatibility::Blosc1)
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Asserts that a chunk has nothing that C-Blosc 1 does not know.
fn check_layout(bytes: &[u8], nbytes: usize, typesize: usize) {
    assert_eq!((bytes[0], bytes[1], usize::from(bytes[3])), (2, 1, typesize));
    let flags = bytes[2];
    assert_ne!(flags & 5, 5, "the mark of an extended header");
    assert_eq!(flags & 8, 0, "delta");
    assert_eq!((u32_at(bytes, 4), u32_at(bytes, 12)), (nbytes, bytes.len()));
    let blocksize = u32_at(bytes, 8);
    assert!(blocksize >= 1 && blocksize <= nbytes.max(1));
    if flags & 2 != 0 {
        assert_eq!(bytes.len(), nbytes + 16);
        return;
    }
    assert!(bytes.len() < nbytes + 16);
    let nblocks = nbytes.div_ceil(blocksize);
    for nblock in 0..nblocks {
        let len = blocksize.min(nbytes - nblock * blocksize);
        let nstreams = if flags & 0x10 == 0 && len == blocksize { typesize } else { 1 };
        assert!(nstreams == 1 || (typesize <= 16 && blocksize / typesize >= 128));
        let mut at = u32_at(bytes, 16 + 4 * nblock);
        for _ in 0..nstreams {
            let csize = u32_at(bytes, at);
            assert!(csize > 0 && csize <= len / nstreams, "no runs: {csize}");
            at += 4 + csize;
        }
        assert!(at <= bytes.len());
    }
}

#[test]
fn chunks_have_only_what_c_blosc_1_knows() {
    let mut random = Rng::new(11);
    let mut plain = 0;
    for round in 0..600 {
        let typesize = *random.pick(&[1, 2, 3, 4, 7, 8, 12, 16, 17, 33, 100, 255]);
        let nbytes = match round % 4 {
            0 => random.below(300),
            1 => random.below(5000),
            2 => random.below(40_000) / typesize * typesize,
            _ => 30_000 + random.below(600_000),
        };
        let (_, mut data) = random.data(nbytes);
        if random.one_in(6) {
            data.fill(random.next() as u8 & 1);
        }
        let mut builder = blosc1(typesize)
            .codec(*random.pick(&CODECS))
            .level(random.below(7) as u8)
            .splitmode(*random.pick(&[SplitMode::Auto, SplitMode::Always, SplitMode::Never]))
            .no_filters();
        if let Some(filter) = random.pick(&[None, Some(FilterId::SHUFFLE), Some(FilterId::BITSHUFFLE)]) {
            builder = builder.filter(*filter);
        }
        if random.one_in(3) {
            builder = builder.blocksize(1 + random.below(20_000));
        }
        let Ok(cparams) = builder.build() else {
            continue; // zstd in a build without it
        };
        let chunk = Chunk::compress_bytes(&data, &cparams).unwrap();
        check_layout(chunk.as_bytes(), nbytes, typesize);
        assert_eq!(ChunkHeader::parse(chunk.as_bytes()).unwrap(), *chunk.header(), "{cparams:?}");
        assert!(chunk.decompress_bytes().unwrap() == data, "{cparams:?} {nbytes}");
        let range = random.range(nbytes);
        assert!(chunk.get_bytes(range.clone(), &DParams::default()).unwrap() == data[range], "{cparams:?}");
        // The other functions return the same.
        let mut room = vec![0; nbytes + 32];
        let len = Chunk::compress_bytes_into(&data, &mut room, &cparams).unwrap();
        assert!(room[..len] == *chunk.as_bytes());
        plain += usize::from(!chunk.header().is_memcpyed());
    }
    assert!(plain > 200, "{plain}");
}

#[test]
fn bits_are_shuffled_in_blocks_of_whole_groups() {
    // 12 bytes do not divide the automatic block size into groups of 8 items.
    let data: Vec<u8> =
        (0..100_000u32).flat_map(|i| [i / 7, 5, 1 << 20]).flat_map(u32::to_le_bytes).collect();
    let cparams = blosc1(12).filters([FilterSlot::BITSHUFFLE]).codec(CodecId::LZ4).build().unwrap();
    let chunk = Chunk::compress_bytes(&data, &cparams).unwrap();
    assert_eq!(chunk.header().blocksize() % 96, 0);
    assert!(chunk.nbytes() > 20 * chunk.cbytes(), "{}", chunk.cbytes());
    // An input that ends within an item is not shuffled, since some versions lose its last bytes.
    let odd = Chunk::compress_bytes(&data[..data.len() - 5], &cparams).unwrap();
    assert_eq!(odd.header().filters(), [FilterSlot::EMPTY; 6]);
    assert!(odd.decompress_bytes().unwrap() == data[..data.len() - 5]);
    // Nor are blocks that end within an item.
    let small = blosc1(100).filters([FilterSlot::BITSHUFFLE]).blocksize(60).build().unwrap();
    let small = Chunk::compress_bytes(&data[..6000], &small).unwrap();
    assert_eq!((small.header().blocksize(), small.header().filters()), (60, [FilterSlot::EMPTY; 6]));
}

#[test]
fn what_blosc1_lacks_is_refused() {
    let refused = |compression: Compression, what: &str| {
        let error = compression.build().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    refused(blosc1(256), "items of 1 to 255 bytes");
    refused(
        blosc1(4).filters([FilterId::DELTA, FilterId::SHUFFLE].map(|id| FilterSlot::new(id, 0))),
        "one filter",
    );
    refused(blosc1(4).filter(FilterId::DELTA), "one filter");
    refused(blosc1(4).filters([FilterSlot::new(FilterId::SHUFFLE, 2)]), "one filter");
    refused(blosc1(4).codec(CodecId::NDLZ), "");
    refused(blosc1(4).codec(CodecId::LZ4).use_dict(true), "dictionaries");
    let cparams = blosc1(4).build().unwrap();
    let error = Chunk::compress_vl(&[b"one", b"two"], &cparams).unwrap_err().to_string();
    assert!(error.contains("variable-length blocks"), "{error}");
}
