//! URLs in place of files, from a server on the loopback interface.

use std::process::Output;
use std::time::Duration;

use b2_testkit::Rng;
use b2_testkit::web::{Misbehavior, Server};

use crate::common::{Folder, counting, npy, slashes};
use crate::stores::zip;

/// Runs the command without the proxies of this machine.
fn run(folder: &Folder, args: &[&str]) -> Output {
    folder.command(args).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").output().unwrap()
}

#[track_caller]
fn ok(folder: &Folder, args: &[&str]) -> Vec<u8> {
    let output = run(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    output.stdout
}

#[track_caller]
fn fails(folder: &Folder, args: &[&str]) -> String {
    let output = run(folder, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

/// Creates an array of 200 x 600 in a file and on a server.
fn served(folder: &Folder) -> (Server, String) {
    let array = npy("<i4", false, "(200, 600)", &counting(200 * 600));
    folder.pack("a.b2nd", &array, &["--chunks", "50,100", "--blocks", "10,100", "--clevel", "1"]);
    let server = Server::start().unwrap();
    let url = server.put("data/a.b2nd", folder.read("a.b2nd"));
    (server, url)
}

#[test]
fn urls_are_read_wherever_files_are() {
    let folder = Folder::new();
    let (server, url) = served(&folder);
    let same = |command: &[&str]| {
        let (remote, near) = ([command, &[&url]].concat(), [command, &["a.b2nd"]].concat());
        let remote = String::from_utf8_lossy(&ok(&folder, &remote)).replace(&url, "a.b2nd");
        assert_eq!(remote, String::from_utf8_lossy(&ok(&folder, &near)), "{command:?}");
    };
    same(&["cat"]);
    same(&["cat", "--slice=3:9,-1"]);
    same(&["show"]);
    same(&["view", "--format", "svg"]);
    same(&["verify", "-q"]);
    same(&["info"]);
    ok(&folder, &["diff", &url, "a.b2nd"]);
    ok(&folder, &["copy", "-q", &url, "b.b2nd", "--chunks", "20,20"]);
    ok(&folder, &["diff", "b.b2nd", "a.b2nd"]);
    let path = slashes(folder.path("a.b2nd").display().to_string());
    let file = format!("file://{}{path}", if cfg!(windows) { "/" } else { "" });
    assert_eq!(ok(&folder, &["cat", &file]), ok(&folder, &["cat", "a.b2nd"]));
    // Few requests, as `-v` reports.
    server.counts();
    let output = run(&folder, &["cat", "-v", &url, "--slice=3,5"]);
    let counts = server.counts();
    assert!(counts.requests <= 4, "{counts:?}");
    let text = format!("{} requests to servers", counts.requests);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&text), "{stderr}");
    // URLs cannot be written to.
    assert!(fails(&folder, &["append", &url, "a.b2nd"]).contains("127.0.0.1"));
}

/// Several pieces are fetched and decoded concurrently if latency is high.
#[test]
fn pieces_from_far_away_are_written_in_order() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(600, 10000)", &counting(6_000_000));
    folder.pack("a.b2nd", &array, &["--chunks", "50,10000", "--blocks", "10,10000", "--clevel", "1"]);
    let server = Server::start().unwrap();
    let url = server.put("a.b2nd", folder.read("a.b2nd"));
    server.delays(&[50, 150, 45, 90, 60].map(Duration::from_millis));
    let near = folder.ok(&["cat", "a.b2nd"]);
    assert!(ok(&folder, &["cat", &url]) == near);
    server.counts();
    ok(&folder, &["cat", &url, "-o", "a.raw"]);
    let requests = server.counts().requests;
    assert!(folder.read("a.raw") == near);
    // Responses that stop in the middle: an error in time, and no file.
    server.delay(Duration::ZERO);
    server.spoil(Misbehavior::Freeze, requests as usize - 1, usize::MAX);
    assert!(fails(&folder, &["cat", "--timeout", "1", &url, "-o", "b.raw"]).contains("timed out"));
    assert!(!folder.path("b.raw").exists());
}

/// `copy` has several chunks in flight, whether or not it compresses them again.
#[test]
fn chunks_are_copied_concurrently() {
    let folder = Folder::new();
    folder.write("a.raw", &Rng::new(5).bytes(3 << 20));
    folder.ok(&["pack", "a.raw", "a.b2frame", "--chunksize", "256K"]);
    let server = Server::start().unwrap();
    let url = server.put("a.b2frame", folder.read("a.b2frame"));
    server.delay(Duration::from_millis(100));
    for encoding in [&["--clevel", "9"][..], &[]] {
        server.counts();
        ok(&folder, &[&["copy", "-q", "--force", &url, "copy.b2frame"], encoding].concat());
        let counts = server.counts();
        assert!(counts.most > 4, "{counts:?}");
        folder.ok(&["diff", "copy.b2frame", "a.b2frame"]);
    }
    assert_eq!(folder.read("copy.b2frame"), folder.read("a.b2frame"));
}

#[test]
fn stores_on_servers_have_members() {
    let folder = Folder::new();
    let (server, _) = served(&folder);
    let member = folder.read("a.b2nd");
    let url = server.put("store.b2z", zip(&[("x/a.b2nd", &member), ("b.b2nd", &member)], 0, 3));
    assert_eq!(ok(&folder, &["ls", &url]), b"/b\n/x/a\n");
    assert_eq!(ok(&folder, &["cat", &url, "--key", "/x/a"]), ok(&folder, &["cat", "a.b2nd"]));
    ok(&folder, &["verify", "-q", &url]);
}

#[test]
fn damage_far_away_is_found() {
    let folder = Folder::new();
    let (server, _) = served(&folder);
    let mut bad = folder.read("a.b2nd");
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    let url = server.put("bad.b2nd", bad);
    let output = run(&folder, &["verify", &url]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.starts_with(b"FAIL"));
    assert!(fails(&folder, &["cat", "--compare", "always", "-o", "x", &url]).contains("checksum"));
    assert!(fails(&folder, &["copy", &url, "c.b2nd"]).contains("checksum"));
}

#[test]
fn servers_that_refuse_are_told_in_words() {
    let folder = Folder::new();
    let (server, url) = served(&folder);
    let secret = format!("{}?token=SECRET", url.replace("127", "me:SECRET@127"));
    let missing = server.url("none.b2nd");
    let message = fails(&folder, &["info", &missing]);
    assert_eq!(message, format!("b2kit: {missing}: no such file (404 Not Found)\n"));
    for (manner, what) in [
        (Misbehavior::Status(403, false), "refuses access"),
        (Misbehavior::Whole, "does not support range requests"),
        (Misbehavior::Redirect("ftp://127.0.0.1/a".to_owned()), "not http or https"),
    ] {
        server.spoil(manner, 0, usize::MAX);
        for args in
            [&["info", &secret][..], &["cat", &secret], &["copy", &secret, "x.b2nd"], &["ls", &secret]]
        {
            let message = fails(&folder, args);
            assert!(message.contains(what) && !message.contains("SECRET"), "{args:?}: {message}");
        }
    }
    let output = run(&folder, &["verify", &secret]);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("SECRET"));
    let other = Server::start().unwrap();
    server.spoil(Misbehavior::Redirect(other.url("a.b2nd")), 0, usize::MAX);
    assert!(fails(&folder, &["info", "--same-host", &url]).contains("another host"));
    assert!(other.heads().is_empty());
    // A server that never answers.
    server.spoil(Misbehavior::Slow, 0, usize::MAX);
    assert!(fails(&folder, &["info", "--timeout", "1", &url]).contains("timed out"));
    server.spoil(Misbehavior::Unguarded, 0, usize::MAX);
    let output = run(&folder, &["cat", &url]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("strong ETag"));
    assert!(fails(&folder, &["info", "ftp://host/a"]).contains("only http and https"));
    #[cfg(not(feature = "stores"))]
    assert!(fails(&folder, &["info", "s3://bucket/a.b2nd"]).contains("the feature `stores`"));
    // Only object stores accept new files.
    folder.write("raw", b"0123456789");
    #[cfg(not(feature = "stores"))]
    assert!(fails(&folder, &["pack", "raw", "s3://bucket/a.b2frame"]).contains("the feature `stores`"));
    for url in [&*url, "ftp://host/a"] {
        assert!(fails(&folder, &["pack", "--force", "raw", url]).contains("web servers accept no uploads"));
    }
}

/// The new file is created in the current directory, with the last part of the URL as its name.
#[test]
fn unpack_names_the_new_file_after_the_url() {
    let folder = Folder::new();
    let (server, url) = served(&folder);
    let plain = folder.ok(&["cat", "--npy", "a.b2nd"]);
    ok(&folder, &["unpack", "-q", &url]);
    assert_eq!(folder.read("a.npy"), plain);
    assert_eq!(folder.names(), ["a.b2nd", "a.npy"]);
    ok(&folder, &["unpack", "-q", "-d", "plain", &format!("{url}?token=secret")]);
    assert_eq!(folder.read("plain/a.npy"), plain);
    ok(&folder, &["unpack", "-q", &url, "-o", "other.npy"]);
    assert_eq!(folder.read("other.npy"), plain);
    let hidden = server.put("data/.profile", folder.read("a.b2nd"));
    let output = run(&folder, &["unpack", &hidden]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("has no name for a new file: give -o OUT"), "{message}");
    assert_eq!(folder.names(), ["a.b2nd", "a.npy", "other.npy", "plain"]);
}
