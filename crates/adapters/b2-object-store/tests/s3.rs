//! Tests the command and the library with an S3 server, moto, whose program is named by `B2KIT_MOTO`. `.ci/run`
//! installs it. The test fails without it: a test that does nothing must not pass.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use b2_frame::ReadAt;
use b2_object_store::Stores;
use b2nd::{ArrayBuilder, NdArray, source};
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;

struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    fn start() -> Self {
        let program = std::env::var_os("B2KIT_MOTO")
            .expect("B2KIT_MOTO must name moto_server, from `pip install moto[server]`");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moto = Self { child, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "moto does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(moto.ask("PUT", "/bucket").starts_with("HTTP/1.1 200"));
        moto
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // The server identifies services by this.
        let signed = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, \
                      SignedHeaders=host, Signature=0";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{signed}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.port
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn run(&self, folder: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_b2kit-stores"));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(name);
        }
        command
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("AWS_REGION", "us-east-1");
        command
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command.current_dir(folder).args(args).output().unwrap()
    }

    fn ok(&self, folder: &Path, args: &[&str]) -> Vec<u8> {
        let output = self.run(folder, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn fails(&self, folder: &Path, args: &[&str]) -> String {
        let output = self.run(folder, args);
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn has_parts(&self) -> bool {
        let answer = self.ask("GET", "/bucket?uploads");
        assert!(answer.contains("ListMultipartUploadsResult"), "{answer}");
        answer.contains("<UploadId>")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn item(i: u64) -> u32 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[test]
fn the_command_reads_and_writes_objects() {
    let moto = Moto::start();
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    // 24 MB that do not compress, hence several parts; and a file of one part.
    let large = ArrayBuilder::new::<u32>([3000, 2000]).chunks([300, 500]).blocks([50, 100]);
    large.write(here.join("large.b2nd"), source::by_index(item)).unwrap();
    let small = ArrayBuilder::new::<u32>([30, 20]);
    small.write(here.join("small.b2nd"), source::by_index(item)).unwrap();
    let raw: Vec<u8> = (0..500_000).flat_map(|i| item(i).to_le_bytes()).collect();
    std::fs::write(here.join("raw"), &raw).unwrap();
    for name in ["large", "small"] {
        let (file, url) = (format!("{name}.b2nd"), format!("s3://bucket/a folder/{name}.b2nd"));
        moto.ok(here, &["copy", &file, &url]);
        moto.ok(here, &["verify", &url]);
        assert!(moto.ok(here, &["cat", &url]) == moto.ok(here, &["cat", &file]), "{name}");
        let slice = "--slice=17,3:9";
        assert_eq!(moto.ok(here, &["cat", &url, slice]), moto.ok(here, &["cat", &file, slice]));
        let error = moto.fails(here, &["copy", &file, &url]);
        assert!(error.contains("already exists"), "{error}");
        moto.ok(here, &["copy", "--force", "--block-starts", &file, &url]);
        let info = String::from_utf8(moto.ok(here, &["info", &url])).unwrap();
        assert_eq!(info.contains("block starts"), name == "large", "{info}");
        // And back.
        moto.ok(here, &["copy", &url, &format!("{name}.back")]);
        moto.ok(here, &["diff", &file, &format!("{name}.back")]);
    }
    moto.ok(
        here,
        &["pack", "--raw", "--dtype", "<u4", "--shape", "1000,500", "raw", "s3://bucket/packed.b2nd"],
    );
    assert!(moto.ok(here, &["cat", "s3://bucket/packed.b2nd"]) == raw);
    let told = moto.run(here, &["-v", "cat", "s3://bucket/packed.b2nd", "--slice=3,4"]);
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("requests to stores"), "{told}");
    assert!(!moto.has_parts());
    let error = moto.fails(here, &["info", "s3://bucket/none.b2nd"]);
    assert!(error.contains("s3://bucket/none.b2nd"), "{error}");
    let error = moto.fails(here, &["copy", "small.b2nd", "s3://nowhere/x"]);
    assert!(error.contains("s3://nowhere/x"), "{error}");
    let error = moto.fails(here, &["copy", "small.b2nd", "https://127.0.0.1/x"]);
    assert!(error.contains("nothing is uploaded to web servers"), "{error}");
    let error = moto.fails(here, &["copy", "--format", "sframe", "small.b2nd", "s3://bucket/x"]);
    assert!(error.contains("folder"), "{error}");
}

#[test]
fn a_stopped_upload_leaves_nothing() {
    let moto = Moto::start();
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://127.0.0.1:{}", moto.port))
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
        .with_endpoint(format!("http://127.0.0.1:{}", moto.port))
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
