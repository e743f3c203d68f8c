//! Tests the command with an S3 server, moto, whose program is named by `B2KIT_MOTO`. `.ci/run` installs it. The test
//! fails without it: a test that does nothing must not pass.
#![cfg(feature = "stores")]

use std::path::Path;
use std::process::{Command, Output};

use b2_testkit::moto::Moto;
use b2kit::{ArrayBuilder, source};

fn run(moto: &Moto, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_b2kit"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "us-east-1");
    command.env("AWS_ALLOW_HTTP", "true").env("AWS_ENDPOINT_URL", moto.url());
    command.current_dir(folder).args(args).output().unwrap()
}

fn ok(moto: &Moto, folder: &Path, args: &[&str]) -> Vec<u8> {
    let output = run(moto, folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn fails(moto: &Moto, folder: &Path, args: &[&str]) -> String {
    let output = run(moto, folder, args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn item(i: u64) -> u32 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[test]
fn the_command_reads_and_writes_objects() {
    let moto = Moto::start();
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    // 24 MB of incompressible data, hence several parts; and a file of one part.
    let large = ArrayBuilder::new::<u32>([3000, 2000]).chunks([300, 500]).blocks([50, 100]);
    large.write(here.join("large.b2nd"), source::by_index(item)).unwrap();
    let small = ArrayBuilder::new::<u32>([30, 20]);
    small.write(here.join("small.b2nd"), source::by_index(item)).unwrap();
    let raw: Vec<u8> = (0..500_000).flat_map(|i| item(i).to_le_bytes()).collect();
    std::fs::write(here.join("raw"), &raw).unwrap();
    for name in ["large", "small"] {
        let (file, url) = (format!("{name}.b2nd"), format!("s3://bucket/a folder/{name}.b2nd"));
        ok(&moto, here, &["copy", &file, &url]);
        ok(&moto, here, &["verify", &url]);
        assert!(ok(&moto, here, &["cat", &url]) == ok(&moto, here, &["cat", &file]), "{name}");
        let slice = "--slice=17,3:9";
        assert_eq!(ok(&moto, here, &["cat", &url, slice]), ok(&moto, here, &["cat", &file, slice]));
        let error = fails(&moto, here, &["copy", &file, &url]);
        assert!(error.contains("already exists"), "{error}");
        ok(&moto, here, &["copy", "--force", "--block-starts", &file, &url]);
        let info = String::from_utf8(ok(&moto, here, &["info", &url])).unwrap();
        assert_eq!(info.contains("block starts"), name == "large", "{info}");
        // And back.
        ok(&moto, here, &["copy", &url, &format!("{name}.back")]);
        ok(&moto, here, &["diff", &file, &format!("{name}.back")]);
    }
    ok(
        &moto,
        here,
        &["pack", "--raw", "--dtype", "<u4", "--shape", "1000,500", "raw", "s3://bucket/packed.b2nd"],
    );
    assert!(ok(&moto, here, &["cat", "s3://bucket/packed.b2nd"]) == raw);
    let output = run(&moto, here, &["-v", "cat", "s3://bucket/packed.b2nd", "--slice=3,4"]);
    let output = String::from_utf8(output.stderr).unwrap();
    assert!(output.contains("requests to stores"), "{output}");
    assert!(!moto.has_parts());
    let error = fails(&moto, here, &["info", "s3://bucket/none.b2nd"]);
    assert!(error.contains("s3://bucket/none.b2nd"), "{error}");
    let error = fails(&moto, here, &["copy", "small.b2nd", "s3://nowhere/x"]);
    assert!(error.contains("s3://nowhere/x"), "{error}");
    let error = fails(&moto, here, &["copy", "small.b2nd", "https://127.0.0.1/x"]);
    assert!(error.contains("web servers accept no uploads"), "{error}");
    let error = fails(&moto, here, &["copy", "--format", "sframe", "small.b2nd", "s3://bucket/x"]);
    assert!(error.contains("folder"), "{error}");
}
