//! `.npy` files with more bytes after their array: nothing may be dropped silently.

use crate::common::{Folder, counting, npy};

fn rows(first: i32, n: i32) -> Vec<u8> {
    let items: Vec<u8> = (first * 4..(first + n) * 4).flat_map(i32::to_le_bytes).collect();
    npy("<i4", false, &format!("({n}, 4)"), &items)
}

/// Returns a directory with an array of two rows, a file with two arrays, and one with an extra byte.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("one.npy", &rows(0, 2));
    folder.write("two.npy", &[rows(2, 2), rows(4, 3)].concat());
    folder.write("more.npy", &[rows(2, 2), b"x".to_vec()].concat());
    folder.change(&["pack", "one.npy", "a", "-q"]);
    folder
}

#[test]
fn what_follows_an_array_is_named() {
    let folder = folder();
    let before = folder.read("a");
    let names = folder.names();
    for args in [
        &["pack", "IN", "out"][..],
        &["append", "a", "IN"],
        &["set", "a", "IN", "--slice=:"],
        &["insert", "a", "IN", "--at", "1"],
        &["diff", "a", "IN"],
        &["diff", "IN", "a"],
        &["show", "IN"],
        &["view", "IN"],
        &["cat", "--csv", "IN"],
        &["bench", "--quick", "IN"],
    ] {
        for (input, why) in [
            ("two.npy", "176 bytes after the array, at offset 160: another array"),
            ("more.npy", "1 byte after the array, at offset 160"),
        ] {
            let args: Vec<&str> = args.iter().map(|arg| if *arg == "IN" { input } else { arg }).collect();
            let message = folder.fails(if args[0] == "diff" { 2 } else { 1 }, &args);
            assert!(message.contains(&format!("{input}: {why}")), "{args:?}: {message}");
        }
    }
    assert_eq!((folder.read("a"), folder.names()), (before, names));
}

#[test]
fn each_takes_array_by_array() {
    let folder = folder();
    folder.change(&["append", "a", "two.npy", "--each"]);
    assert_eq!(folder.ok(&["cat", "a"]), counting(28));
    folder.change(&["pack", "one.npy", "b", "-q"]);
    folder.change(&["insert", "b", "two.npy", "--each", "--at", "0"]);
    let expected: Vec<u8> = [8..28, 0..8].into_iter().flatten().flat_map(i32::to_le_bytes).collect();
    assert_eq!(folder.ok(&["cat", "b"]), expected);
    folder.change(&["pack", "-q", "--each", "-d", "out", "two.npy", "one.npy"]);
    assert_eq!(folder.ok(&["cat", "out/two.0.b2nd"]), counting(16)[32..]);
    assert_eq!(folder.ok(&["cat", "out/two.1.b2nd"]), counting(28)[64..]);
    assert_eq!(folder.ok(&["cat", "out/one.b2nd"]), counting(8));
    // All or nothing, also from standard input.
    let before = folder.read("a");
    assert!(folder.fails(1, &["append", "a", "more.npy", "--each"]).contains("1 byte after the array"));
    assert_eq!(folder.read("a"), before);
    folder.write("raw", &counting(4));
    assert!(folder.fails(1, &["append", "a", "raw", "--each"]).contains("not an .npy file"));
    let output = folder.with_input(&["append", "-q", "a", "-", "--each"], &folder.read("two.npy"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(folder.ok(&["cat", "a"]).len(), 4 * 48);
    // Bytes of super-chunks.
    folder.pack("s", &counting(8), &["--typesize", "4"]);
    folder.change(&["append", "s", "two.npy", "--each"]);
    assert_eq!(folder.ok(&["cat", "s"]), counting(28));
}
