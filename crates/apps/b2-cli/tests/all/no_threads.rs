//! A system that cannot start threads: each command then works on its main thread.

use std::process::Output;

use crate::common::{Folder, counting, npy, sha256};

/// Runs the command where no thread can be started, because stacks of the requested size are not available.
#[track_caller]
fn run(folder: &Folder, args: &[&str]) -> Output {
    let mut command = folder.command(args);
    command.env("RUST_MIN_STACK", (1u64 << 46).to_string());
    let output = command
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("no_proxy", "127.0.0.1,localhost")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    output
}

#[test]
fn every_command_works_alone() {
    let folder = Folder::new();
    let items = counting(2000 * 1000);
    folder.write("a.npy", &npy("<i4", false, "(2000, 1000)", &items));
    for threads in [&[][..], &["--threads", "3"]] {
        let run = |args: &[&str]| run(&folder, &[threads, args].concat()).stdout;
        for format in ["cframe", "sframe"] {
            run(&["pack", "-q", "--force", "a.npy", "a", "--format", format, "--chunks", "300,300"]);
            assert_eq!(sha256(&run(&["cat", "a"])), sha256(&items), "{format}");
            run(&["copy", "-q", "--force", "a", "b"]);
            run(&["copy", "-q", "--force", "a", "c", "--codec", "lz4"]);
            run(&["copy", "-q", "--force", "a", "d", "--chunks", "500,100"]);
            for copy in ["b", "c", "d", "a.npy"] {
                run(&["diff", "a", copy]);
            }
            run(&["show", "a"]);
            run(&["view", "a"]);
            run(&["info", "a", "--chunks"]);
            run(&["verify", "-q", "a", "b", "c", "d"]);
            run(&["salvage", "-q", "--force", "a", "s"]);
            run(&["unpack", "-q", "--force", "a", "-o", "u.npy"]);
            run(&["set", "-q", "a", "a.npy", "--slice", ":,:"]);
            run(&["append", "-q", "a", "a.npy"]);
            run(&["resize", "-q", "a", "--shape", "2000,1000"]);
            run(&["compact", "-q", "a"]);
            assert_eq!(sha256(&run(&["cat", "a"])), sha256(&items), "{format}");
        }
        run(&["bench", "--quick", "a.npy"]);
    }
}

#[cfg(feature = "http")]
#[test]
fn urls_are_read_without_threads() {
    let folder = Folder::new();
    let items = counting(2000 * 100);
    folder.pack("a", &npy("<i4", false, "(2000, 100)", &items), &["--chunks", "300,30"]);
    let server = b2_testkit::web::Server::start().unwrap();
    let url = server.put("a", folder.read("a"));
    // One of the hosts is a name that must be resolved.
    for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
        assert_eq!(sha256(&run(&folder, &["cat", &url]).stdout), sha256(&items));
        run(&folder, &["show", &url]);
        run(&folder, &["verify", "-q", &url]);
        run(&folder, &["diff", &url, "a"]);
        run(&folder, &["copy", "-q", "--force", &url, "b"]);
    }
}
