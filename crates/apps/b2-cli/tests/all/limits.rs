//! Limits on the memory and output that a file may cause.

use crate::common::{Folder, noise, npy};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn max_output_counts_what_is_not_stored() {
    let folder = Folder::new();
    let zeros = vec![0; 2 << 20];
    folder.pack("z", &npy("|u1", false, "(2097152,)", &zeros), &["--chunks", "65536"]);
    folder.pack("n", &npy("|u1", false, "(2097152,)", &noise(2 << 20)), &["--chunks", "65536"]);
    folder.pack("s", &zeros, &["--chunksize", "65536"]);
    folder.pack("c", &zeros, &["--format", "chunk"]);
    let output = "max_output of 1048576 (--max-output BYTES raises it)";
    for name in ["z", "s", "c"] {
        let verify = folder.run(&["verify", "--max-output", "1M", name]);
        assert_eq!(verify.status.code(), Some(3));
        let line = text(&verify.stdout);
        assert!(
            line.starts_with(&format!("skipped\t-\t-\t{name}\tskipped: ")) && line.contains(output),
            "{line}"
        );
        for command in [&["cat", name][..], &["copy", name, "new", "--clevel", "1"]] {
            let args = [&["--max-output", "1M"], command].concat();
            let message = folder.fails(1, &args);
            assert!(
                message.starts_with(&format!("b2kit: {name}: ")) && message.contains(output),
                "{message}"
            );
            assert_eq!(message.lines().count(), 1);
        }
        let diff = folder.run(&["--max-output", "1M", "diff", name, name]);
        assert_eq!(diff.status.code(), Some(2), "{}", text(&diff.stderr));
        for limit in ["2M", "none", "0", "3000000"] {
            assert_eq!(folder.ok(&["--max-output", limit, "cat", name]), zeros);
        }
    }
    // Stored data never exceed the limit, nor do commands that only inspect.
    assert!(folder.ok_text(&["verify", "--max-output", "1", "n"]).starts_with("ok"));
    folder.ok(&["info", "--max-output", "1", "z"]);
    folder.fails(2, &["info", "--max-output", "many", "z"]);
    let help = folder.ok_text(&["--help"]);
    assert!(help.contains("--max-output <BYTES>") && help.contains("--max-memory <BYTES>"), "{help}");
}

/// The number of bytes that a message says to raise a limit to.
fn offered(message: &str) -> u64 {
    let (_, rest) = message.split_once("(--max-memory ").unwrap();
    rest.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn max_memory_is_kept() {
    let folder = Folder::new();
    let items = noise(1 << 20);
    folder.pack("a", &npy("|u1", false, "(1048576,)", &items), &["--chunks", "1048576"]);
    folder.pack("c", &items, &["--format", "chunk"]);
    for (command, name) in [("verify", "a"), ("verify", "c"), ("cat", "c")] {
        let output = folder.run(&["--max-memory", "100K", command, name]);
        assert_eq!(output.status.code(), Some(1));
        let error_text = text(&output.stdout) + &text(&output.stderr);
        assert!(error_text.contains("max_memory of 102400 (--max-memory "), "{command}: {error_text}");
        assert!(offered(&error_text) > 102_400, "{error_text}");
        assert_eq!(folder.ok(&["--max-memory", "8M", "cat", name]), items);
        assert_eq!(folder.ok(&["--max-memory", "none", "cat", name]), items);
    }
    let long = format!("note={:?}", "x".repeat(10_000));
    folder.pack("v", &items, &["--vlmeta", &long]);
    let message = folder.fails(1, &["--max-memory", "128K", "info", "--meta", "v"]);
    assert!(message.contains("max_metadata of 8192 (--max-memory "), "{message}");
    // The suggested limit is sufficient.
    folder.ok(&["--max-memory", &offered(&message).to_string(), "info", "--meta", "v"]);
    folder.ok(&["info", "--meta", "v"]);
}

#[test]
fn items_of_one_block_are_decoded_together() {
    let folder = Folder::new();
    let raw = noise(1 << 20);
    for (name, format) in [("c", "chunk"), ("f", "cframe")] {
        let block =
            ["--format", format, "--blocksize", "1048576", "--filters", "bitshuffle", "--typesize", "2"];
        folder.pack(name, &raw, &block);
        for step in [1_usize, 100, 40_000, 200_000, 300_000] {
            let expected: Vec<u8> = raw.chunks(2).step_by(step).flatten().copied().collect();
            let slice = format!("--slice=::{step}");
            assert!(folder.ok(&["cat", name, &slice]) == expected, "{name}, {step}");
            assert!(folder.ok(&["--max-memory", "8M", "cat", name, &slice]) == expected, "{name}, {step}");
        }
    }
}

/// Reads a part of a block whose filters have to be undone for the whole block.
#[test]
fn parts_of_blocks_are_counted() {
    let folder = Folder::new();
    let items: Vec<u8> = (0..1 << 20).map(|i| (i / 1000) as u8).collect();
    let cut = ["--chunks", "1048576", "--blocks", "1048576", "--filters", "shuffle,bytedelta:1"];
    folder.pack("a", &npy("|u1", false, "(1048576,)", &items), &cut);
    let slice = "--slice=1:600000";
    // Counted are the filtered block, the buffer between the filters, the plain block, and the part copied from it.
    let message = folder.fails(1, &["--max-memory", "3M", "cat", "a", slice]);
    assert!(
        message.contains("buffers for a block, in bytes: 3745727 is above the limit max_memory"),
        "{message}"
    );
    assert!(folder.ok(&["--max-memory", "6M", "cat", "a", slice]) == items[1..600_000]);
}

/// A member of a store that exceeds the limit does not prevent the others from being checked.
#[test]
fn members_over_the_limit_are_skipped() {
    let folder = Folder::new();
    folder.pack("z.b2nd", &npy("|u1", false, "(4000000,)", &vec![0; 4_000_000]), &[]);
    folder.pack("n.b2nd", &npy("|u1", false, "(1000,)", &noise(1000)), &[]);
    for (key, name) in [("big", "z.b2nd"), ("small", "n.b2nd")] {
        std::fs::create_dir_all(folder.path("s.b2d")).unwrap();
        std::fs::copy(folder.path(name), folder.path(&format!("s.b2d/{key}.b2nd"))).unwrap();
    }
    let output = folder.run(&["verify", "--max-output", "1M", "s.b2d", "--json"]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &printed["verdict"]), (Some(3), &"skipped".into()), "{printed}");
    assert_eq!(
        (&printed["nbytes"], &printed["skipped"][0]["key"]),
        (&1000.into(), &"/big".into()),
        "{printed}"
    );
    // Damage of the others is still a failure.
    let mut bytes = folder.read("s.b2d/small.b2nd");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    folder.write("s.b2d/small.b2nd", &bytes);
    let output = folder.run(&["verify", "--max-output", "1M", "s.b2d"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("FAIL\t-\t-\ts.b2d\t"), "{}", text(&output.stdout));
}
