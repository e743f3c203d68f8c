//! One word for what went wrong, whichever crate says so.

use std::error::Error;

use crate::common::*;
use b2kit::chunk::DParams;
use b2kit::nd::NdError;
use b2kit::{Chunk, ErrorKind, Limits, NdArray, Report, SuperChunk};

fn open(frame: Vec<u8>) -> Result<(), NdError> {
    let read = NdArray::from_bytes(frame).and_then(|array| array.all().read_bytes());
    read.map(drop)
}

#[test]
fn callers_tell_ten_kinds_apart() {
    let good = array();
    let kind = |frame: Vec<u8>| open(frame).unwrap_err().kind();
    assert_eq!(
        kind(b"PK\x03\x04 something else that is longer than a header".repeat(4)),
        ErrorKind::NotBlosc
    );
    assert_eq!(kind(frame()), ErrorKind::NotBlosc);
    assert_eq!(kind(patched(&good, 25, &[0x14])), ErrorKind::NewerVersion);
    assert_eq!(kind(good[..good.len() - 1].to_vec()), ErrorKind::Damaged);
    assert_eq!(kind(patched(&good, 38, &[0xC1])), ErrorKind::Damaged);

    let chunk = Chunk::compress_bytes(&data(4000), &cparams(4)).unwrap();
    // The stream of a codec that is not there.
    let foreign = patched(chunk.as_bytes(), 2, &[chunk.as_bytes()[2] | 6 << 5]);
    let foreign = Chunk::from_bytes(patched(&foreign, 0x16, &[200])).unwrap();
    assert_eq!(foreign.decompress_bytes().unwrap_err().kind(), ErrorKind::Unsupported);
    let few = DParams::default().limits(Limits::default().max_chunk_nbytes(100));
    assert_eq!(chunk.decompress_bytes_with(&few).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(
        chunk.decompress_bytes_into(&mut [0; 7], &DParams::default()).unwrap_err().kind(),
        ErrorKind::Argument
    );
    assert_eq!(SuperChunk::open("/no/such/frame").unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn messages_say_each_thing_once() {
    let frame = frame();
    let error = SuperChunk::from_bytes(patched(&frame, 24, &[0xC1])).unwrap_err();
    let (own, cause) = (error.to_string(), error.source().expect("a cause").to_string());
    assert!(!own.contains(&cause), "{own} / {cause}");
    assert_eq!(Report(&error).to_string(), format!("{own}: {cause}"));
    let all = b2kit::Error::from(error);
    assert_eq!((all.to_string(), all.source().map(ToString::to_string)), (own, Some(cause)));
}
