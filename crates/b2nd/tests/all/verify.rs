//! `NdArray::verify`: every accepted array can be read in every way.

use b2_chunk::{Chunk, CodecId, Compression, FilterSlot};
use b2_frame::{Checksums, FrameParams, FrameWriter, SuperChunk, WriteOptions};
use b2_testkit::Rng;
use b2_testkit::hostile::overwrite;
use b2nd::{ArrayBuilder, ArrayMeta, NdArray, Selection};

/// A frame of an array of 10 x 7 items of 4 bytes in four chunks; `last`: bytes in the last of them, which needs 96.
fn with_last_chunk(last: usize) -> Vec<u8> {
    let meta = ArrayMeta {
        shape: vec![10, 7],
        chunkshape: vec![5, 4],
        blockshape: vec![2, 4],
        dtype_format: 0,
        dtype: Some(b"<i4".to_vec()),
    };
    let cparams = Compression::new().itemsize(4).blocksize(32).build().unwrap();
    let params = FrameParams::from_cparams(&cparams).chunksize(96).metalayer("b2nd", meta.to_bytes());
    let mut writer = FrameWriter::memory(params).unwrap();
    for len in [96, 96, 96, last] {
        writer.append(Chunk::compress_bytes(&vec![7; len], &cparams).unwrap()).unwrap();
    }
    writer.finish().unwrap().into_bytes().to_vec()
}

#[test]
fn a_last_chunk_that_is_too_short_is_found() {
    NdArray::from_bytes(with_last_chunk(96)).unwrap().verify().unwrap();
    for len in [4, 64, 92] {
        let array = NdArray::from_bytes(with_last_chunk(len)).unwrap();
        assert!(array.all().read_bytes().is_err());
        let message = array.verify().unwrap_err().to_string();
        assert!(message.contains(&format!("chunk 3 has {len} bytes")), "{message}");
    }
}

/// Arrays of many kinds, in frames with checksums and without.
fn some_array(rng: &mut Rng) -> Vec<u8> {
    let ndim = rng.within(1..=3);
    let shape: Vec<u64> = (0..ndim).map(|_| rng.within(1..=24) as u64).collect();
    let chunks: Vec<u32> = shape.iter().map(|n| rng.within(1..=*n as usize + 3) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|n| rng.within(1..=*n as usize) as u32).collect();
    let nitems: u64 = shape.iter().product();
    let fill = rng.below(4);
    let items: Vec<u8> = (0..nitems)
        .flat_map(|i| match fill {
            0 => 0u32.to_le_bytes(),
            1 if i > nitems / 2 => f32::NAN.to_le_bytes(),
            _ => ((i as u32).wrapping_mul(2_654_435_761) >> rng.below(24)).to_le_bytes(),
        })
        .collect();
    let codec = *rng.pick(&[CodecId::LZ4, CodecId::ZSTD, CodecId::BLOSCLZ, CodecId::ZLIB]);
    let filters = *rng.pick(&[
        &[][..],
        &[FilterSlot::SHUFFLE],
        &[FilterSlot::BITSHUFFLE],
        &[FilterSlot::DELTA, FilterSlot::SHUFFLE],
    ]);
    let options = WriteOptions::default().checksums(rng.chance(30));
    let builder = ArrayBuilder::new::<f32>(shape).chunks(chunks).blocks(blocks).write_options(options);
    let builder = builder.compression(Compression::lz4().codec(codec).filters(filters));
    let builder = builder.vlmetalayer("note", [&[0xc4, 200][..], &rng.bytes(200)].concat());
    builder.to_bytes(items).unwrap().to_vec()
}

/// Another number of chunks, or of bytes in them, than the shape needs; or bytes that differ.
fn damage(rng: &mut Rng, good: &[u8]) -> Vec<u8> {
    let mut frame = good.to_vec();
    match rng.below(5) {
        0 => {
            let old = SuperChunk::from_bytes(frame.clone()).unwrap();
            let cparams = Compression::new().itemsize(4).build().unwrap();
            let chunksize = old.chunksize();
            let mut params = FrameParams::from_cparams(&cparams).chunksize(chunksize);
            for (name, content) in old.metalayers().iter() {
                params = params.metalayer(name, content);
            }
            let options = WriteOptions::default().checksums(rng.chance(50));
            let mut writer = options.memory(params).unwrap();
            for _ in 1..old.nchunks() {
                writer.append(Chunk::compress_bytes(&rng.bytes(chunksize), &cparams).unwrap()).unwrap();
            }
            let last = rng.within(1..=chunksize / 4) * 4;
            writer.append(Chunk::compress_bytes(&rng.bytes(last), &cparams).unwrap()).unwrap();
            frame = writer.finish().unwrap().into_bytes().to_vec();
        }
        1..=3 => overwrite(&mut frame, 16, rng),
        // A byte of the header, where most fields are.
        _ => {
            let end = frame.len().min(220);
            overwrite(&mut frame[..end], 1, rng);
        }
    }
    frame
}

#[test]
fn what_verify_accepts_can_be_read() {
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..1500 {
        let rng = &mut Rng::case(19, case);
        let good = some_array(rng);
        NdArray::from_bytes(good.clone()).unwrap().verify().unwrap();
        let Ok(array) = NdArray::from_bytes(damage(rng, &good)) else { continue };
        if array.nbytes() > 1 << 24 {
            continue;
        }
        match array.verify() {
            Ok(_) => accepted += 1,
            Err(_) => {
                refused += 1;
                continue;
            }
        }
        let read = |what: &str, result: Result<Vec<u8>, b2nd::NdError>| {
            result.unwrap_or_else(|error| panic!("case {case}, {what}: {}", b2_core::Report(&error)))
        };
        let all = read("whole", array.all().read_bytes());
        assert_eq!(all.len() as u64, array.nbytes());
        for _ in 0..4 {
            let part = array.shape().iter().map(|len| {
                let range = rng.range(*len as usize);
                match rng.below(3) {
                    0 => Selection::from(rng.below(*len as usize) as i64),
                    _ => Selection::from(range.start as i64..range.end as i64),
                }
            });
            read("part", array.slice(part.collect::<Vec<_>>()).and_then(|part| part.read_bytes()));
        }
        let frame = array.super_chunk();
        for nchunk in 0..frame.nchunks() {
            read("chunk", frame.chunk(nchunk).decompress().map_err(Into::into));
        }
        for (name, _) in array.super_chunk().vlmetalayers().iter() {
            array.super_chunk().vlmetalayers().get(name).unwrap();
        }
        let schunk = frame.verify().unwrap_or_else(|error| panic!("case {case}, as a super-chunk: {error}"));
        assert!(schunk.checksums != Checksums::Ok || frame.checksums() == Checksums::Ok);
    }
    assert!(accepted > 30 && refused > 300, "{accepted} accepted, {refused} refused");
}
