//! The filters without HDF5.

use std::mem::MaybeUninit;

use b2_chunk::{Chunk, ChunkRef, CodecId, Compression};
use b2_frame::SuperChunk;
use b2nd::{ArrayBuilder, NdArray};

use crate::{Blosc, Blosc2, Dataset, Error, Filter, Memory, PlainBytes};

impl Memory for Vec<u8> {
    fn zeroed(len: usize) -> Option<Self> {
        // More memory than any chunk here may need.
        (len <= 1 << 24).then(|| vec![0; len])
    }
    fn filled<E>(
        len: usize,
        fill: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Option<Result<Self, E>> {
        let mut memory = Vec::new();
        if len > 1 << 24 {
            return None;
        }
        memory.resize(len, MaybeUninit::uninit());
        Some(fill(&mut memory).map(|bytes| bytes.to_vec()))
    }
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

fn decode<F: Filter>(parameters: &[u32], stored: &[u8]) -> Result<Vec<u8>, Error> {
    let PlainBytes { mut memory, nbytes } = F::decode::<Vec<u8>>(parameters, stored)?;
    memory.truncate(nbytes);
    Ok(memory)
}

fn ramp(nbytes: usize) -> Vec<u8> {
    (0..nbytes.div_ceil(4)).flat_map(|n| (n as u32 / 3).to_le_bytes()).take(nbytes).collect()
}

/// Bytes that do not compress.
pub(crate) fn noise(nbytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..nbytes).map(|_| byte()).collect()
}

fn dataset<'a>(itemsize: usize, chunk: &'a [u64]) -> Dataset<'a> {
    Dataset { itemsize, base_itemsize: itemsize, chunk }
}

#[test]
fn parameters_are_those_of_the_registry() {
    let of = |given: &[u32], chunk: &[u64]| Blosc2::parameters(given, &dataset(4, chunk)).unwrap();
    assert_eq!(of(&[], &[100]), [1, 0, 4, 400]);
    assert_eq!(of(&[], &[10, 20]), [1, 0, 4, 800, 5, 1, 0, 2, 10, 20]);
    assert_eq!(of(&[0, 512, 0, 0, 9, 2], &[10, 20]), [1, 512, 4, 800, 9, 2, 0, 2, 10, 20]);
    assert_eq!(of(&[0, 0, 0, 0, 9, 2, 5], &[3, 1, 2]), [1, 0, 4, 24, 9, 2, 5, 3, 3, 1, 2]);
    // Parameters of another data set are dropped, and so are dimensions that an array cannot have.
    assert_eq!(of(&[1, 0, 8, 99, 9, 2, 5, 2, 7, 7], &[6]), [1, 0, 4, 24, 9, 2, 5]);
    assert_eq!(of(&[0, 0, 0, 0, 9, 2, 5], &[1; 17]), [1, 0, 4, 4, 9, 2, 5]);

    let of = |given: &[u32], itemsize| Blosc::parameters(given, &dataset(itemsize, &[10, 20])).unwrap();
    assert_eq!(of(&[], 4), [2, 2, 4, 800]);
    assert_eq!(of(&[0, 0, 0, 0, 9, 2, 5, 7], 4), [2, 2, 4, 800, 9, 2, 5]);
    assert_eq!(of(&[0, 0, 0, 0, 9], 256), [2, 2, 1, 51200, 9]);
    let array = Dataset { itemsize: 12, base_itemsize: 4, chunk: &[10] };
    assert_eq!(Blosc::parameters(&[], &array).unwrap(), [2, 2, 4, 120]);

    for chunk in [&[1 << 30, 4][..], &[1 << 40, 1 << 40]] {
        assert!(Blosc2::parameters(&[], &dataset(1, chunk)).is_err());
        assert!(Blosc::parameters(&[], &dataset(1, chunk)).is_err());
    }
    assert!(Blosc2::parameters(&[], &dataset(0, &[1])).is_err());
}

#[test]
fn chunks_come_back() {
    let shapes: [&[u64]; 6] = [&[1], &[1000], &[33, 31], &[1, 7, 200], &[5, 4, 3, 7], &[2; 9]];
    for codec in [0, 1, 2, 4, 5] {
        for (shape, itemsize) in shapes.iter().flat_map(|shape| [1, 2, 4, 7, 300].map(|size| (shape, size))) {
            let nbytes = itemsize * shape.iter().product::<u64>() as usize;
            for (plain, level, filter) in
                [(ramp(nbytes), 5, 1), (ramp(nbytes), 9, 2), (noise(nbytes), 1, 0), (vec![0; nbytes], 0, 1)]
            {
                let given = [0, [0, 64, 4096][level as usize % 3], 0, 0, level, filter, codec];
                let parameters = Blosc2::parameters(&given, &dataset(itemsize, shape)).unwrap();
                let chunk = Blosc2::encode(&parameters, &plain).unwrap().unwrap();
                assert_eq!(decode::<Blosc2>(&parameters, &chunk).unwrap(), plain, "{parameters:?}");
                let frame = SuperChunk::from_bytes(chunk).unwrap();
                assert_eq!((frame.nchunks(), frame.metalayers().get("b2nd").is_some()), (1, shape.len() > 1));

                let parameters = Blosc::parameters(&given, &dataset(itemsize, shape)).unwrap();
                if let Some(chunk) = Blosc::encode(&parameters, &plain).unwrap() {
                    assert!(chunk.len() <= plain.len() && chunk[0] == 2);
                    assert_eq!(decode::<Blosc>(&parameters, &chunk).unwrap(), plain, "{parameters:?}");
                }
            }
        }
    }
}

#[test]
fn arrays_have_the_shape_of_the_chunk() {
    let parameters = Blosc2::parameters(&[0, 0, 0, 0, 5, 1, 1], &dataset(4, &[30, 50])).unwrap();
    let chunk = Blosc2::encode(&parameters, &ramp(6000)).unwrap().unwrap();
    let array = NdArray::from_bytes(chunk).unwrap();
    assert_eq!(
        (array.shape(), array.chunkshape(), array.dtype().as_str()),
        (&[30, 50][..], &[30, 50][..], "|V4")
    );

    let parameters = Blosc2::parameters(&[0, 400, 0, 0, 5, 1, 1], &dataset(4, &[30, 50])).unwrap();
    let array = NdArray::from_bytes(Blosc2::encode(&parameters, &ramp(6000)).unwrap().unwrap()).unwrap();
    assert_eq!(array.blockshape(), [2, 50]);

    // An earlier filter has added four bytes.
    let chunk = Blosc2::encode(&parameters, &ramp(6004)).unwrap().unwrap();
    assert_eq!(decode::<Blosc2>(&parameters, &chunk).unwrap(), ramp(6004));
    assert!(NdArray::from_bytes(chunk).is_err());
}

#[test]
fn arrays_of_other_writers_are_read() {
    // One-dimensional, with several blocks and another dtype, as written by python-blosc2.
    let values: Vec<f64> = (0..1000).map(f64::from).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let frame = ArrayBuilder::new::<f64>([1000]).chunks([1000]).blocks([300]).to_bytes(&values).unwrap();
    for parameters in [&[1, 0, 8, 8000][..], &[1, 0, 8, 8000, 5, 1, 0, 1, 1000]] {
        assert_eq!(decode::<Blosc2>(parameters, &frame).unwrap(), bytes);
    }
    let other = decode::<Blosc2>(&[1, 0, 8, 8000, 5, 1, 0, 1, 1001], &frame);
    assert!(matches!(other, Err(Error::Mismatch(_))), "{other:?}");
}

#[test]
fn zfp_is_read() {
    let plugins = b2_chunk::Plugins::builtin().with_codec(b2_zfp::FixedRate);
    let compression =
        Compression::new().plugins(plugins).codec(CodecId::ZFP_FIXED_RATE).codec_meta(50).no_filters();
    let values: Vec<f32> = (0..64 * 64).map(|n| (n as f32).sin()).collect();
    let builder = ArrayBuilder::new::<f32>([64, 64]).compression(compression);
    let frame = builder.to_bytes(&values).unwrap();
    let found = decode::<Blosc2>(&[1, 0, 4, 16384, 5, 0, 0, 2, 64, 64], &frame).unwrap();
    let close =
        |(bytes, value): (&[u8], &f32)| (f32::from_le_bytes(bytes.try_into().unwrap()) - value).abs() < 0.01;
    assert!(found.chunks(4).zip(&values).all(close));
}

#[test]
fn snappy_is_read_and_written_as_lz4() {
    // Two blocks, each one stream: 8 literals, and a copy of 56 bytes.
    let stream = [&[64, 7 << 2][..], b"abcdefgh", &[(55 << 2) | 2, 8, 0]].concat();
    let starts = [24u32, 24 + 4 + stream.len() as u32];
    let mut chunk = vec![2, 1, 0x50, 1];
    let len = starts[1] + 4 + stream.len() as u32;
    chunk.extend([128u32, 64, len].iter().chain(&starts).flat_map(|n| n.to_le_bytes()));
    for _ in 0..2 {
        chunk.extend((stream.len() as u32).to_le_bytes());
        chunk.extend(&stream);
    }
    assert_eq!(decode::<Blosc>(&[2, 2, 1, 128], &chunk).unwrap(), b"abcdefgh".repeat(16));
    chunk[28] = 65;
    assert!(decode::<Blosc>(&[2, 2, 1, 128], &chunk).is_err());

    let chunk = Blosc::encode(&[2, 2, 4, 4000, 5, 1, 3], &ramp(4000)).unwrap().unwrap();
    assert_eq!(ChunkRef::from_slice(&chunk).unwrap().header().codec(), Some(CodecId::LZ4));
}

#[test]
fn claims_are_compared_before_memory_is_allocated() {
    let zeros = Chunk::special(b2_chunk::SpecialKind::Zeros, &[], 1 << 30, 4, 4096).unwrap().into_bytes();
    assert!(matches!(decode::<Blosc>(&[2, 2, 4, 4000], &zeros), Err(Error::Mismatch(_))));
    let frame = ArrayBuilder::new::<f32>([1 << 14, 1 << 14])
        .chunks([1 << 14, 1 << 14])
        .to_bytes(b2nd::source::zeros());
    let frame = frame.unwrap();
    let refused = [&[1, 0, 4, 4000][..], &[1, 0, 4, 4000, 5, 1, 1, 2, 10, 100]];
    assert!(refused.iter().all(|parameters| decode::<Blosc2>(parameters, &frame).is_err()));
    // HDF5 gets a whole chunk even if fewer bytes were decoded.
    let chunk = Chunk::compress(&[7u8; 100], &Compression::lz4()).unwrap().into_bytes();
    let plain = Blosc::decode::<Vec<u8>>(&[2, 2, 1, 4000], &chunk).unwrap();
    assert_eq!((plain.nbytes, plain.memory.len(), plain.memory[100]), (100, 4000, 0));
}

#[test]
fn parameters_without_sense_are_errors() {
    let plain = ramp(800);
    for (at, value) in
        [(4, 10), (4, 256), (5, 77), (5, 256), (6, 6), (6, 3), (6, 33), (6, 256), (7, 0), (7, 17), (7, 3)]
    {
        let mut parameters = vec![1, 0, 4, 800, 5, 1, 1, 2, 10, 20];
        parameters[at] = value;
        assert!(Blosc2::encode(&parameters, &plain).is_err(), "{parameters:?}");
    }
    for (at, value) in [(4, 10), (5, 3), (6, 6), (6, 33), (6, 1000)] {
        let mut parameters = vec![2, 2, 4, 800, 5, 1, 1];
        parameters[at] = value;
        assert!(Blosc::encode(&parameters, &plain).is_err(), "{parameters:?}");
    }
    for len in 0..4 {
        assert!(
            Blosc2::encode(&[1; 4][..len], &plain).is_err() && Blosc::encode(&[1; 4][..len], &plain).is_err()
        );
        assert!(
            decode::<Blosc2>(&[1; 4][..len], &plain).is_err()
                && decode::<Blosc>(&[1; 4][..len], &plain).is_err()
        );
    }
}

#[test]
fn damaged_chunks_are_errors_or_values() {
    fn damage<F: Filter>(parameters: &[u32], plain: &[u8]) {
        let chunk = F::encode(parameters, plain).unwrap().unwrap();
        let mut changed = chunk.to_vec();
        let mut errors = 0;
        for at in 0..chunk.len() {
            errors += usize::from(decode::<F>(parameters, &chunk[..at]).is_err());
            for byte in [0, 0x7f, 0xff, chunk[at] ^ 1, chunk[at] ^ 0x80] {
                changed[at] = byte;
                let _ = decode::<F>(parameters, &changed);
            }
            changed[at] = chunk[at];
        }
        assert_eq!(errors, chunk.len());
    }
    damage::<Blosc>(&[2, 2, 4, 800, 5, 1, 1], &ramp(800));
    damage::<Blosc2>(&[1, 0, 4, 800, 5, 1, 1], &ramp(800));
    damage::<Blosc2>(&[1, 0, 4, 800, 5, 1, 1, 2, 10, 20], &ramp(800));
}
