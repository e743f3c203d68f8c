//! Malformed frames: errors with field and offset, never a panic, never more memory than allowed.

use crate::common::*;
use b2_chunk::{Chunk, CodecId, Compression, Limits};
use b2_frame::{Extent, FrameError, FrameFile, FrameParams, Plan, Step, Storage, SuperChunk};
use b2_testkit::hostile::flips;
use bytes::Bytes;

/// Limits just above what the samples need.
fn limits() -> Limits {
    let mut limits = Limits::default().max_chunk_nbytes(1 << 16);
    limits.max_metadata = 1 << 16;
    limits.max_nchunks = 1000;
    limits
}

/// Reads everything in every way. Any result is acceptable as long as the limits are respected.
fn read_everything(frame: Bytes) -> Result<(), FrameError> {
    let schunk = SuperChunk::options().limits(limits()).from_bytes(frame)?;
    assert!(schunk.nchunks() <= 1000);
    let mut first_error = Ok(());
    let mut keep = |result: Result<(), FrameError>| {
        if first_error.is_ok() {
            first_error = result;
        }
    };
    for nchunk in 0..schunk.nchunks() {
        keep(schunk.chunk(nchunk).decompress().map(|plain| assert!(plain.len() <= 1 << 16)));
        keep(schunk.chunk(nchunk).header().map(drop));
        keep(schunk.chunk(nchunk).nbytes().map(drop));
        keep(schunk.chunk(nchunk).blocks(&[0], |_, block| assert!(block.len() <= 1 << 16)));
    }
    let nbytes = schunk.nbytes().min(1 << 16);
    keep(schunk.read_bytes(nbytes / 3..nbytes / 2).map(drop));
    keep(schunk.read_bytes(0..nbytes).map(drop));
    for (name, _) in schunk.vlmetalayers().iter() {
        keep(schunk.vlmetalayers().get(name).map(|value| assert!(value.unwrap().len() <= 1 << 16)));
    }
    first_error
}

#[test]
fn every_truncation_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.b2frame");
    for Sample { name, frame, .. } in samples() {
        for cut in 0..frame.len() {
            let error = SuperChunk::from_bytes(frame.slice(..cut)).expect_err(name);
            assert_eq!(cut < 10, matches!(error, FrameError::NotAFrame), "{name} cut to {cut}: {error}");
            assert_eq!(
                cut >= 10,
                matches!(error, FrameError::Truncated { .. }),
                "{name} cut to {cut}: {error}"
            );
        }
        for cut in (0..frame.len()).step_by(7) {
            std::fs::write(&path, &frame[..cut]).unwrap();
            assert!(SuperChunk::open(&path).is_err(), "{name} cut to {cut} in a file");
        }
    }
}

#[test]
fn trailing_bytes_are_ignored_in_files_and_refused_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.b2frame");
    for Sample { name, frame, raw } in samples() {
        for extra in [1, 5000, 2 << 20] {
            let long = [&frame[..], &vec![0xA5; extra]].concat();
            let error = SuperChunk::from_bytes(long.clone()).expect_err(name);
            assert!(matches!(error, FrameError::Field { field: "frame_len", offset: 16, .. }), "{error}");
            std::fs::write(&path, long).unwrap();
            assert_eq!(whole(&SuperChunk::open(&path).unwrap()), raw, "{name}");
        }
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    for Sample { frame, .. } in samples() {
        for (_, flipped) in flips(&frame, 1) {
            let _ = read_everything(flipped.into());
        }
    }
}

#[test]
fn overwritten_bytes_do_no_harm() {
    for Sample { frame, .. } in samples() {
        for at in 0..frame.len() {
            for value in [0u32, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
                for bytes in [value.to_be_bytes(), value.to_le_bytes()] {
                    let len = bytes.len().min(frame.len() - at);
                    let _ = read_everything(patched(&frame, at, &bytes[..len]));
                }
            }
        }
    }
}

/// Returns the field at which a patched frame fails.
#[track_caller]
fn check(frame: &[u8], offset: usize, bytes: &[u8], field: &str) {
    let error = read_everything(patched(frame, offset, bytes)).expect_err(field);
    let found = match &error {
        FrameError::Field { field, .. } | FrameError::Msgpack { field, .. } => field,
        FrameError::Truncated { .. } => "truncated",
        FrameError::Limit(b2_chunk::base::LimitExceeded { .. }) => "limit",
        FrameError::NewerVersion { .. } => "version",
        FrameError::Chunk { .. } => "chunk",
        other => panic!("{other}"),
    };
    assert_eq!(found, field, "{error}");
}

#[test]
fn header_fields_are_checked() {
    let frame = &samples()[1].frame;
    let be64 = i64::to_be_bytes;
    let be32 = i32::to_be_bytes;
    for version in 4..16 {
        check(frame, 25, &[0x10 | version], "version");
    }
    check(frame, 26, &[1], "frame type");
    check(frame, 26, &[2], "frame type");
    for len in [0, 87, 96, -1, i32::MIN] {
        check(frame, 11, &be32(len), "header_len");
    }
    check(frame, 11, &be32(98), "chunk");
    check(frame, 11, &be32(frame.len() as i32 - 20), "cbytes");
    check(frame, 11, &be32(i32::MAX), "header_len");
    for len in [0, 131, -1, i64::MIN] {
        check(frame, 16, &be64(len), "frame_len");
    }
    check(frame, 16, &be64(frame.len() as i64 + 1), "truncated");
    check(frame, 16, &be64(i64::MAX), "truncated");
    check(frame, 16, &be64(frame.len() as i64 - 1), "frame_len");
    for nbytes in [-1, i64::MIN] {
        check(frame, 30, &be64(nbytes), "nbytes");
        check(frame, 39, &be64(nbytes), "cbytes");
    }
    check(frame, 30, &be64(i64::MAX), "nbytes");
    check(frame, 30, &be64(1 << 30), "limit");
    check(frame, 30, &be64(300), "nbytes");
    check(frame, 30, &be64(901), "nbytes");
    check(frame, 39, &be64(i64::MAX), "cbytes");
    check(frame, 39, &be64(0), "nbytes");
    for typesize in [0, -1, i32::MIN] {
        check(frame, 48, &be32(typesize), "typesize");
    }
    for chunksize in [-1, -2, i32::MIN] {
        check(frame, 58, &be32(chunksize), "chunksize");
    }
    check(frame, 58, &be32(i32::MAX), "nbytes");
    check(frame, 58, &be32(1), "nbytes");
    check(frame, 70, &[7], "filters");
    // Every marker that the reader relies on.
    for (at, field) in [
        (10, "header_len"),
        (15, "frame_len"),
        (24, "flags"),
        (29, "nbytes"),
        (38, "cbytes"),
        (47, "typesize"),
        (52, "blocksize"),
        (57, "chunksize"),
        (62, "nthreads"),
        (65, "nthreads"),
        (68, "has_vlmetalayers"),
        (69, "filters"),
        (87, "parts"),
        (88, "index size"),
        (91, "count"),
        (94, "values"),
    ] {
        check(frame, at, &[0xc0], field);
    }
    for at in 0..10 {
        let error = SuperChunk::from_bytes(patched(frame, at, &[0])).err();
        assert_eq!(at != 9, matches!(error, Some(FrameError::NotAFrame)), "magic, byte {at}");
    }
}

#[test]
fn metadata_is_checked() {
    let frame = &samples()[2].frame;
    let header_len = u32::from_be_bytes(frame[11..15].try_into().unwrap());
    check(frame, 92, &[0, 17], "count");
    check(frame, 92, &[0xff, 0xff], "count");
    check(frame, 92, &[0, 3], "name");
    let offset = 94 + 3 + 1;
    check(frame, offset, &(-1i32).to_be_bytes(), "offset");
    check(frame, offset, &header_len.to_be_bytes(), "offset");
    check(frame, offset, &(header_len - 1).to_be_bytes(), "value");
    check(frame, offset, &10u32.to_be_bytes(), "value");
    let value = u32::from_be_bytes(frame[offset..offset + 4].try_into().unwrap()) as usize;
    check(frame, value + 1, &[0xff; 4], "value");
    check(frame, value + 1, &[0x7f, 0xff, 0xff, 0xff], "value");

    let end = frame.len();
    for len in [0u32, 24, frame.len() as u32 - 86, u32::MAX] {
        check(frame, end - 22, &len.to_be_bytes(), "trailer_len");
    }
    check(frame, end - 22, &(frame.len() as u32 - 87).to_be_bytes(), "trailer_len");
    check(frame, end - 23, &[0xcd], "trailer_len");
    check(frame, end - 18, &[0xd7], "fingerprint");
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let trailer = layout.trailer.start as usize;
    check(frame, trailer, &[0x93], "parts");
    check(frame, trailer + 2, &[0x92], "parts");
    check(frame, trailer + 7, &[0xff, 0xff], "count");
    check(frame, trailer + 7, &[0x1f, 0xff], "name");
    let offset = trailer + 9 + 3 + 1;
    check(frame, offset, &0i32.to_be_bytes(), "value");
    let value = trailer + u32::from_be_bytes(frame[offset..offset + 4].try_into().unwrap()) as usize;
    let len = u32::from_be_bytes(frame[value + 1..value + 5].try_into().unwrap());
    // A value that is longer or shorter than its chunk.
    check(frame, value + 1, &(len + 1).to_be_bytes(), "cbytes");
    check(frame, value + 1, &(len - 1).to_be_bytes(), "chunk");
    check(frame, value + 1, &3u32.to_be_bytes(), "chunk");
    // A value that claims to be huge. It is compressed, whether or not this build's codec could do that.
    check(frame, value + 5 + 2, &[0x15, 1, 0xff, 0xff, 0xff, 0x7f], "limit");
}

#[test]
fn index_and_chunks_are_checked() {
    let frame = &samples()[1].frame;
    let layout = SuperChunk::from_bytes(frame.clone()).unwrap().layout().clone();
    let index = layout.index.start as usize;
    let (data, len) = (97, (layout.data.end - 97) as i64);
    check(frame, index + 12, &[0xff, 0xff, 0xff, 0x7f], "chunk");
    let entry = index + 32;
    for offset in [len - 15, len, len + 1, i64::MAX] {
        check(frame, entry, &offset.to_le_bytes(), "entry");
    }
    for kind in [0x80, 0x88, 0xf8] {
        check(frame, entry, &[0, 0, 0, 0, 0, 0, 0, kind], "entry");
    }
    check(frame, entry, &(len - 16).to_le_bytes(), "chunk");
    // The chunk's sizes contradict the frame's.
    check(frame, data + 4, &[0x2b, 1, 0, 0], "nbytes");
    check(frame, data + 4, &[0xff, 0xff, 0xff, 0x7f], "nbytes");
    check(frame, data + 12, &(len as i32 + 1).to_le_bytes(), "truncated");
    check(frame, data + 12, &i32::MAX.to_le_bytes(), "truncated");
    check(frame, data + 12, &[0; 4], "chunk");

    // NaNs need whole items of 4 or 8 bytes; special values cannot store individual sizes.
    let special = &samples()[3].frame;
    check(special, 48, &[0, 0, 0, 2], "chunk");
    let sizes = &samples()[4].frame;
    let index = SuperChunk::from_bytes(sizes.clone()).unwrap().layout().index.start as usize;
    let zeros = [0, 0, 0, 0, 0, 0, 0, 0x81];
    check(sizes, index + 32, &[zeros, zeros].concat(), "entry");
    check(sizes, 30, &193i64.to_be_bytes(), "nbytes");
    check(sizes, index + 4, &[23, 0, 0, 0], "chunk");
}

#[test]
fn limits_are_kept() {
    let frame = &samples()[1].frame;
    let open = |limits: Limits| SuperChunk::options().limits(limits).from_bytes(frame.clone());
    let mut few = limits();
    few.max_nchunks = 2;
    assert!(matches!(
        open(few),
        Err(FrameError::Limit(b2_chunk::base::LimitExceeded { asked: 3, limit: 2, .. }))
    ));
    let small = open(limits().max_chunk_nbytes(299)).unwrap();
    assert!(matches!(
        small.chunk(0).read(),
        Err(FrameError::Limit(b2_chunk::base::LimitExceeded { asked: 300, limit: 299, .. }))
    ));
    assert!(small.read_bytes(0..1).is_err());
    assert!(small.chunk(2).read().is_ok());
    let mut short = limits();
    short.max_metadata = 96;
    assert!(matches!(
        open(short),
        Err(FrameError::Limit(b2_chunk::base::LimitExceeded { asked: 97, limit: 96, .. }))
    ));
}

/// A frame of a few hundred bytes with 2^27 chunks costs as much as its length, whatever it claims.
#[test]
fn bombs_stay_small() {
    let nchunks = 1usize << 27;
    let zeros = [0, 0, 0, 0, 0, 0, 0, 0x81];
    let special = Chunk::special(b2_chunk::SpecialKind::Value, &zeros, 8 * nchunks, 8, 16 << 10).unwrap();
    let cparams = Compression::new().itemsize(1).codec(CodecId::BLOSCLZ).build().unwrap();
    let shared = Chunk::zero_runs(8 * nchunks, 8, 64 << 20).unwrap();
    let byte = Chunk::compress_bytes(&[7], &cparams).unwrap();
    for (index, data, expected) in [(special, Bytes::new(), 0), (shared, byte.into_bytes(), 7)] {
        let frame = bare(FrameParams::new(1).chunksize(1));
        let frame = frame.finish().unwrap().into_bytes();
        let mut bomb = [&frame[..97], &data, index.as_bytes(), &frame[97..]].concat();
        bomb[39..47].copy_from_slice(&(data.len() as i64).to_be_bytes());
        bomb[30..38].copy_from_slice(&(nchunks as i64).to_be_bytes());
        let len = bomb.len() as u64;
        bomb[16..24].copy_from_slice(&len.to_be_bytes());
        assert!(bomb.len() < 1000);
        let schunk = SuperChunk::from_bytes(bomb).unwrap();
        assert_eq!(schunk.nchunks(), nchunks);
        assert_eq!(schunk.chunk(nchunks - 1).decompress().unwrap(), [expected]);
        let (_, run) = schunk.chunk(5).run().unwrap();
        assert_eq!(run, 5..nchunks);
        // 2^24 chunks of one byte, read as one piece.
        assert!(schunk.read_bytes(3..1 << 24).unwrap().iter().all(|byte| *byte == expected));
    }
}

/// The same with individual sizes, which have to be read from the chunks.
#[test]
fn bombs_of_individual_sizes_stay_small() {
    let nchunks = 1usize << 27;
    let data = Chunk::compress_bytes(&[7], &cparams(1)).unwrap().into_bytes();
    let zeros = [0, 0, 0, 0, 0, 0, 0, 0x81];
    let special = Chunk::special(b2_chunk::SpecialKind::Value, &zeros, 8 * nchunks, 8, 16 << 10).unwrap();
    let shared = Chunk::special(b2_chunk::SpecialKind::Zeros, &[], 8 * nchunks, 8, 0).unwrap();
    let bomb = |index: &Chunk| {
        let frame = bare(FrameParams::new(1).chunksize(0));
        let frame = frame.finish().unwrap().into_bytes();
        let mut bomb = [&frame[..97], &data, index.as_bytes(), &frame[97..]].concat();
        bomb[39..47].copy_from_slice(&(data.len() as i64).to_be_bytes());
        bomb[30..38].copy_from_slice(&(nchunks as i64).to_be_bytes());
        let len = bomb.len() as u64;
        bomb[16..24].copy_from_slice(&len.to_be_bytes());
        SuperChunk::from_bytes(bomb).unwrap()
    };
    let schunk = bomb(&shared);
    assert_eq!(schunk.nchunks(), nchunks);
    assert!(schunk.read_bytes(3..1 << 24).unwrap().iter().all(|byte| *byte == 7));
    assert_eq!(schunk.chunk(nchunks - 1).nbytes().unwrap(), 1);
    assert!(schunk.chunk(nchunks).nbytes().is_err());
    assert!(bomb(&special).read_bytes(0..1).is_err());
}

#[test]
fn chunks_of_two_gibibytes_are_told_without_being_made() {
    let frame = bare(FrameParams::new(8).chunksize(2_147_483_608));
    let mut frame = frame.finish().unwrap().into_bytes().to_vec();
    // As many chunks of zeros as fit: half an exbibyte.
    let n = b2_frame::MAX_NCHUNKS;
    let entry = [0, 0, 0, 0, 0, 0, 0, 0x81];
    let index = Chunk::special(b2_chunk::SpecialKind::Value, &entry, 8 * n, 8, 0).unwrap();
    frame.splice(97..97, index.as_bytes().iter().copied());
    let total = 2_147_483_608 * n as i64;
    frame[30..38].copy_from_slice(&total.to_be_bytes());
    let len = frame.len() as u64;
    frame[16..24].copy_from_slice(&len.to_be_bytes());
    let schunk = SuperChunk::from_bytes(frame).unwrap();
    assert_eq!((schunk.nchunks(), schunk.nbytes()), (n, total as u64));
    let end = schunk.nbytes();
    assert_eq!(schunk.read_bytes(end - 5..end).unwrap(), [0; 5]);
    assert_eq!(schunk.read_items(7..9).unwrap(), [0; 16]);
}

/// A driver that returns other bytes than requested must not make a plan panic.
#[test]
fn plans_survive_wrong_answers() {
    for Sample { frame, .. } in samples() {
        for wrong in 0..4 {
            let mut plan = SuperChunk::options().open_plan(frame.len() as u64 + 100_000, Storage::Contiguous);
            let mut parts = Vec::new();
            for round in 0..6 {
                match plan.step(std::mem::take(&mut parts)) {
                    Ok(Step::Done(_)) | Err(_) => break,
                    Ok(Step::Need(extents)) => {
                        let answer = |extent: &Extent| {
                            assert_eq!(extent.file, FrameFile::Main);
                            let end = (extent.range.end as usize).min(frame.len());
                            frame.slice((extent.range.start as usize).min(end)..end)
                        };
                        parts = extents.iter().map(answer).collect();
                        if round == wrong {
                            parts = match wrong {
                                0 => Vec::new(),
                                1 => {
                                    parts.iter().map(|part| [&part[..], &part[..]].concat().into()).collect()
                                }
                                2 => parts.iter().map(|part| part.slice(..part.len() / 2)).collect(),
                                _ => vec![Bytes::from(vec![0; 1 << 20]); parts.len()],
                            };
                        }
                    }
                }
            }
        }
    }
}
