//! Facts about chunks, scattered items, copies with other parameters.

use b2_chunk::{CodecId, FilterSlot, SpecialKind};
use b2_frame::{Entry, FrameError, FrameParams, FrameWriter, SuperChunk};

use crate::common::{compress, cparams, data, samples, whole};

/// Returns chunks of all kinds. Their sizes are equal, and not a multiple of the item size.
fn mixed(typesize: usize, chunksize: usize) -> SuperChunk {
    let cparams = cparams(typesize).to_builder().blocksize(1000).build().unwrap();
    let delta = cparams.to_builder().filters([FilterSlot::DELTA, FilterSlot::SHUFFLE]).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams).chunksize(chunksize)).unwrap();
    for seed in 0..3 {
        writer.append(compress(&data(chunksize, seed), &cparams)).unwrap();
        writer.append(compress(&data(chunksize, seed + 10), &delta)).unwrap();
        writer.append_special(SpecialKind::Zeros, chunksize).unwrap();
    }
    writer.append(compress(&data(chunksize / 3, 7), &cparams)).unwrap();
    SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap()
}

fn check_gather(schunk: &SuperChunk, items: &[u64]) {
    let raw = whole(schunk);
    let typesize = schunk.itemsize();
    let expected: Vec<u8> =
        items.iter().flat_map(|&i| raw[i as usize * typesize..][..typesize].to_vec()).collect();
    assert_eq!(schunk.gather(items).unwrap(), expected, "{typesize} {items:?}");
}

#[test]
fn scattered_items_are_gathered() {
    for (typesize, chunksize) in [(4, 8000), (4, 8002), (7, 8000), (300, 9000), (1500, 9000)] {
        let schunk = mixed(typesize, chunksize);
        let n = schunk.nitems();
        check_gather(&schunk, &[]);
        check_gather(&schunk, &[n - 1, 0, n / 2, 0, n - 1]);
        check_gather(&schunk, &(0..n).step_by(37).collect::<Vec<_>>());
        check_gather(&schunk, &(0..n).rev().step_by(7).collect::<Vec<_>>());
        check_gather(&schunk, &(0..500).map(|i| i * 7919 % n).collect::<Vec<_>>());
        check_gather(&schunk, &(0..n).collect::<Vec<_>>());
        assert!(matches!(schunk.gather(&[0, n]), Err(FrameError::OutOfRange { .. })));
    }
    for sample in samples() {
        let schunk = SuperChunk::from_bytes(sample.frame).unwrap();
        let n = schunk.nitems();
        check_gather(&schunk, &(0..n).rev().step_by(3).collect::<Vec<_>>());
    }
}

#[test]
fn infos_tell_what_chunks_are() {
    let schunk = mixed(4, 8000);
    let infos: Vec<_> = schunk.chunk_infos().map(Result::unwrap).collect();
    assert_eq!(infos.len(), 10);
    for (nchunk, info) in infos.iter().enumerate() {
        assert_eq!((info.nchunk, info.entry), (nchunk, schunk.chunk(nchunk).entry().unwrap()));
        assert_eq!(info.nbytes, schunk.chunk(nchunk).nbytes().unwrap());
        match info.entry {
            Entry::Special(kind) => {
                assert_eq!((info.special, info.cbytes, info.offset()), (Some(kind), 0, None));
            }
            Entry::Stored(offset) => {
                let chunk = schunk.chunk(nchunk).read().unwrap();
                assert_eq!((info.special, info.cbytes), (None, chunk.cbytes() as u64));
                assert_eq!(info.offset(), Some(offset));
            }
        }
    }
    assert_eq!(schunk.dead_bytes().unwrap(), 0);
}

#[test]
fn copies_have_the_same_data() {
    for sample in samples() {
        let schunk = SuperChunk::from_bytes(sample.frame.clone()).unwrap();
        let other = cparams(4).to_builder().codec(CodecId::LZ4).level(3).build().unwrap();
        let vl = sample.name == "variable-length blocks";
        for cparams in [None, Some(&other)] {
            for chunksize in [None, Some(64), Some(90), Some(1 << 20)] {
                let mut writer = FrameWriter::memory(FrameParams::from_cparams(&other)).unwrap();
                let copied = schunk.copy_into(&mut writer, cparams, chunksize);
                if vl && chunksize.is_some() {
                    assert!(matches!(copied, Err(FrameError::Argument { .. })));
                    continue;
                }
                copied.unwrap();
                let copy = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
                assert_eq!(whole(&copy), sample.raw, "{} {chunksize:?}", sample.name);
                assert_eq!(copy.vlmetalayers().iter().len(), schunk.vlmetalayers().iter().len());
                match chunksize {
                    Some(n) => assert_eq!(copy.nchunks(), sample.raw.len().div_ceil(n)),
                    None => assert_eq!(copy.nchunks(), schunk.nchunks()),
                }
                let first = copy.nchunks() > 0 && !sample.raw.is_empty();
                if first
                    && cparams.is_some()
                    && let Entry::Stored(_) = copy.chunk(0).entry().unwrap()
                {
                    let codec = copy.chunk(0).read().unwrap().header().codec_format();
                    assert!(vl || codec == CodecId::LZ4.format(), "{}", sample.name);
                }
            }
        }
    }
    let schunk = mixed(4, 8000);
    let mut writer = FrameWriter::memory(FrameParams::new(4)).unwrap();
    assert!(matches!(schunk.copy_into(&mut writer, None, Some(0)), Err(FrameError::Argument { .. })));
    schunk.copy_into(&mut writer, None, None).unwrap();
    let copy = SuperChunk::from_bytes(writer.finish().unwrap().into_bytes()).unwrap();
    // Copied as stored, including special chunks.
    for nchunk in 0..schunk.nchunks() {
        match schunk.chunk(nchunk).entry().unwrap() {
            Entry::Stored(_) => {
                assert_eq!(copy.chunk(nchunk).read().unwrap(), schunk.chunk(nchunk).read().unwrap())
            }
            special => assert_eq!(copy.chunk(nchunk).entry().unwrap(), special),
        }
    }
}
