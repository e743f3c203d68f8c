//! Tests the library with an S3 server, moto, whose program is named by `B2KIT_MOTO`. `.ci/run` installs it. The tests
//! fail without it: a test that does nothing must not pass.

use std::io;
use std::sync::Arc;

use b2_frame::ReadAt;
use b2_object_store::Stores;
use b2_testkit::moto::Moto;
use b2nd::{ArrayBuilder, NdArray, source};
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;

fn item(i: u64) -> u32 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[test]
fn a_stopped_upload_leaves_nothing() {
    let moto = Moto::start();
    let store = AmazonS3Builder::new()
        .with_endpoint(moto.url())
        .with_allow_http(true)
        .with_bucket_name("bucket")
        .with_region("us-east-1")
        .with_access_key_id("a")
        .with_secret_access_key("b");
    let stores = Stores::new().unwrap();
    stores.insert("s3://bucket", store.build().unwrap());
    let frame = Bytes::from(vec![7; 50 << 20]);
    for after in [1, 3, 7] {
        let mut calls = 0;
        let mut going = || {
            calls += 1;
            if calls > after { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        let error = stores.upload("s3://bucket/x", &frame, false, &mut going).unwrap_err();
        assert_eq!(error.to_string(), "stopped");
        assert!(!moto.has_parts());
        assert!(moto.ask("GET", "/bucket/x").starts_with("HTTP/1.1 404"));
    }
    // An existing object stays unchanged.
    stores.upload("s3://bucket/x", &Bytes::from_static(b"old"), false, &mut || Ok(())).unwrap();
    let error = stores.upload("s3://bucket/x", &frame, false, &mut || Ok(())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let error = stores.upload("s3://bucket/x", &Bytes::from_static(b"new"), false, &mut || Ok(()));
    assert!(error.is_err(), "moto compares");
    assert!(moto.ask("GET", "/bucket/x").ends_with("old"));
    stores.upload("s3://bucket/x", &frame, true, &mut || Ok(())).unwrap();

    // An object that changes while it is open.
    let field = |n: u64| {
        let builder = ArrayBuilder::new::<u32>([1000, 1000]).chunks([100, 1000]);
        builder.to_bytes(source::by_index(move |i| item(i + n))).unwrap()
    };
    let (one, two): (Bytes, Bytes) = (field(0), field(1));
    stores.upload("s3://bucket/y", &one, false, &mut || Ok(())).unwrap();
    let options = b2_frame::SuperChunk::options().file_system(Arc::new(stores.clone()));
    let array = NdArray::open_with("s3://bucket/y", &options).unwrap();
    let read = || array.slice(500).unwrap().read_bytes();
    let before = read().unwrap();
    assert_eq!(before.len(), 4000);
    stores.upload("s3://bucket/y", &two, true, &mut || Ok(())).unwrap();
    let error = read().unwrap_err();
    assert!(
        format!("{error:?}").contains("has changed") || format!("{error:?}").contains("Changed"),
        "{error:?}"
    );
}

/// A file that fails in the middle.
struct FailingReader(Bytes);

impl ReadAt for FailingReader {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset > 20 << 20 {
            return Err(io::Error::other("the disk fails"));
        }
        self.0.read_exact_at(offset, buf)
    }
}

#[test]
fn a_file_that_fails_leaves_nothing() {
    let moto = Moto::start();
    let store = AmazonS3Builder::new()
        .with_endpoint(moto.url())
        .with_allow_http(true)
        .with_bucket_name("bucket")
        .with_access_key_id("a")
        .with_secret_access_key("b");
    let stores = Stores::new().unwrap();
    stores.insert("s3://bucket", store.build().unwrap());
    let file = FailingReader(Bytes::from(vec![7; 50 << 20]));
    let error = stores.upload("s3://bucket/x", &file, false, &mut || Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "the disk fails");
    assert!(!moto.has_parts());
    assert!(moto.ask("GET", "/bucket/x").starts_with("HTTP/1.1 404"));
}
