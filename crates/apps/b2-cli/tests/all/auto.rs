//! `--codec auto`: parameters chosen from the data.

use std::fs;

use crate::common::{Folder, counting, noise, npy};

/// Returns floats of a sine wave.
fn waves(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (i as f32 * 0.001).sin().to_le_bytes()).collect()
}

fn size(folder: &Folder, name: &str) -> u64 {
    fs::metadata(folder.path(name)).unwrap().len()
}

#[test]
fn goals_make_different_files_with_the_same_data() {
    let folder = Folder::new();
    let raw = waves(600 * 700);
    folder.write("in.npy", &npy("<f4", false, "(600, 700)", &raw));
    folder.write("in.raw", &raw);
    folder.ok(&["pack", "in.npy", "default"]);
    for input in [vec!["in.npy"], vec!["in.raw", "--typesize", "4"]] {
        let mut sizes = Vec::new();
        for goal in ["speed", "balance", "size"] {
            let command =
                [&["pack", "--force", input[0], goal, "--codec", "auto", "--goal", goal], &input[1..]]
                    .concat();
            folder.ok(&command);
            assert_eq!(folder.ok(&["cat", goal]), raw, "{input:?} {goal}");
            sizes.push(size(&folder, goal));
        }
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{input:?} {sizes:?}");
        assert!(sizes[2] < size(&folder, "default"), "{input:?} {sizes:?}");
        folder.ok(&[&["pack", "--force", input[0], "plain", "--codec", "auto"], &input[1..]].concat());
        assert_eq!(folder.read("plain"), folder.read("balance"), "balance is the default goal");
    }
}

#[test]
fn noise_is_stored_and_small_things_work() {
    let folder = Folder::new();
    let raw = noise(300_000);
    folder.pack("n", &raw, &["--codec", "auto"]);
    assert_eq!(folder.info(&["n"])["clevel"], 0);
    for (descr, shape, len) in [("<i4", "(0, 5)", 0), ("<i4", "()", 4), ("<i2", "(3, 5)", 30)] {
        let items = &counting(30)[..len];
        folder.pack("a", &npy(descr, false, shape, items), &["--codec", "auto", "--goal", "size"]);
        assert_eq!(folder.ok(&["cat", "a"]), items, "{shape}");
    }
    for len in [0, 1, 31, 5000] {
        folder.pack("c", &raw[..len], &["--format", "chunk", "--codec", "auto"]);
        assert_eq!(folder.ok(&["cat", "c"]), &raw[..len], "{len}");
    }
}

#[test]
fn copies_are_made_with_it_too() {
    let folder = Folder::new();
    let raw = waves(200_000);
    folder.pack("a", &npy("<f4", true, "(400, 500)", &raw), &["--codec", "blosclz", "--chunks", "100,90"]);
    folder.pack("s", &raw, &["--codec", "blosclz", "--typesize", "4", "--chunksize", "100K"]);
    folder.pack("c", &raw, &["--codec", "blosclz", "--typesize", "4", "--format", "chunk"]);
    for name in ["a", "s", "c"] {
        folder.ok(&["copy", name, "out", "--force", "--codec", "auto", "--goal", "size"]);
        assert_eq!(folder.ok(&["cat", "out"]), folder.ok(&["cat", name]), "{name}");
        assert!(size(&folder, "out") < size(&folder, name), "{name}");
    }
}

#[test]
fn what_it_chooses_cannot_be_given() {
    let folder = Folder::new();
    folder.write("in", &noise(100));
    for option in ["--clevel=3", "--filters=none", "--splitmode=never", "--dict", "--codec-meta=1"] {
        let message = folder.fails(2, &["pack", "in", "out", "--codec", "auto", option]);
        assert!(message.contains("conflicts with --codec auto"), "{message}");
    }
    let message = folder.fails(2, &["pack", "in", "out", "--goal", "speed"]);
    assert!(message.contains("--goal"), "{message}");
    assert_eq!(folder.names(), ["in"]);
}
