//! `b2kit pack`: `.npy` of all kinds, raw bytes, formats, options.

use std::fs;

use crate::common::{Folder, counting, noise, npy};
use serde_json::json;

#[test]
fn every_codec_and_level_gives_the_data_back() {
    let folder = Folder::new();
    let raw = counting(20_000);
    folder.write("in.npy", &npy("<i4", false, "(100, 200)", &raw));
    for codec in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"] {
        for clevel in ["0", "1", "5", "9"] {
            for filters in ["none", "shuffle", "bitshuffle", "delta,shuffle"] {
                folder.ok(&[
                    "pack",
                    "--force",
                    "in.npy",
                    "out",
                    "--codec",
                    codec,
                    "--clevel",
                    clevel,
                    "--filters",
                    filters,
                    "--chunks",
                    "60,70",
                    "--blocks",
                    "20,32",
                ]);
                assert_eq!(folder.ok(&["cat", "out"]), raw, "{codec} {clevel} {filters}");
            }
        }
        let info = folder.info(&["out"]);
        assert_eq!((&info["codec"], &info["clevel"]), (&json!(codec), &json!(9)));
    }
}

#[test]
fn defaults() {
    let folder = Folder::new();
    folder.pack("a", &npy("<f8", false, "(1000,)", &noise(8000)), &[]);
    folder.pack("s", &noise(8000), &[]);
    for name in ["a", "s"] {
        let info = folder.info(&[name]);
        assert_eq!(info["codec"], "zstd");
        assert_eq!(info["clevel"], 5);
        assert_eq!(info["filters"], json!([{"name": "shuffle", "meta": 0}]));
        assert_eq!(info["storage"], "contiguous");
    }
    assert_eq!(folder.info(&["s"])["typesize"], 1);
    assert_eq!(folder.info(&["a"])["typesize"], 8);
}

/// Fortran order gives the same array in C order.
#[test]
fn fortran_order_is_turned_around() {
    let folder = Folder::new();
    let (rows, cols, planes) = (30, 20, 7);
    let c_order = counting(rows * cols * planes);
    let mut items = vec![];
    for k in 0..planes {
        for j in 0..cols {
            for i in 0..rows {
                items.extend(((i * cols + j) * planes + k).to_le_bytes());
            }
        }
    }
    folder.pack("f", &npy("<i4", true, "(30, 20, 7)", &items), &["--chunks", "8,9,5", "--blocks", "4,4,2"]);
    folder.pack(
        "c",
        &npy("<i4", false, "(30, 20, 7)", &c_order),
        &["--chunks", "8,9,5", "--blocks", "4,4,2"],
    );
    assert_eq!(folder.ok(&["cat", "f"]), c_order);
    assert_eq!(folder.read("f"), folder.read("c"), "the very same file");
    folder.pack("k", &npy("<i4", true, "(30, 20, 7)", &items), &["--format", "chunk"]);
    assert_eq!(folder.ok(&["cat", "k"]), c_order);
}

#[test]
fn dtypes_are_kept() {
    let folder = Folder::new();
    let cases: [(&str, usize, &str); 12] = [
        (">i4", 4, ">i4"),
        (">f8", 8, ">f8"),
        ("|u1", 1, "|u1"),
        ("|b1", 1, "|b1"),
        ("<U3", 12, "<U3"),
        (">U2", 8, ">U2"),
        ("|S5", 5, "|S5"),
        ("<M8[ns]", 8, "<M8[ns]"),
        ("<c16", 16, "<c16"),
        ("|V300", 300, "|V300"),
        ("[('a', '<i4'), ('b', '<f8', (2,))]", 20, "[('a', '<i4'), ('b', '<f8', (2,))]"),
        ("[('\u{e9}', '|i1'), ('x', [('y', '|S3')])]", 4, "[('\u{e9}', 'i1'), ('x', [('y', 'S3')])]"),
    ];
    for (descr, itemsize, stored) in cases {
        let items: Vec<u8> = counting(6 * itemsize as i32)[..6 * itemsize].to_vec();
        let file = npy(descr, false, "(2, 3)", &items);
        folder.pack("a", &file, &[]);
        assert_eq!(folder.ok(&["cat", "a"]), items, "{descr}");
        assert_eq!(folder.ok(&["cat", "a", "--npy"]), file, "{descr}");
        let info = folder.info(&["a"]);
        assert_eq!((&info["dtype"], &info["typesize"]), (&json!(stored), &json!(itemsize)));
    }
    // Fields with gaps are stored in dict form, and restored exactly.
    let padded = "[('a', '|i1'), ('', '|V7'), ('b', '<f8')]";
    let file = npy(padded, false, "(2,)", &noise(32));
    folder.pack("a", &file, &[]);
    assert_eq!(folder.ok(&["cat", "a", "--npy"]), file);
    let dict = "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16}";
    assert_eq!(folder.info(&["a"])["dtype"], dict);
}

#[test]
fn shapes_at_the_edge() {
    let folder = Folder::new();
    for (shape, list, nitems) in [
        ("()", json!([]), 1),
        ("(0,)", json!([0]), 0),
        ("(3, 0, 2)", json!([3, 0, 2]), 0),
        ("(1,)", json!([1]), 1),
        (
            "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)",
            json!([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]),
            2,
        ),
    ] {
        for fortran in [false, true] {
            let items = counting(nitems);
            folder.pack("a", &npy("<i4", fortran, shape, &items), &[]);
            assert_eq!(folder.info(&["a"])["shape"], list);
            assert_eq!(folder.ok(&["cat", "a"]), items, "{shape}");
            assert_eq!(folder.ok(&["cat", "a", "--npy"]), npy("<i4", false, shape, &items));
        }
    }
    folder.write(
        "in.npy",
        &npy("<i4", false, "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", &counting(1)),
    );
    assert!(folder.fails(1, &["pack", "in.npy", "b"]).contains("17 dimensions"));
}

#[test]
fn npy_files_that_are_wrong_are_told() {
    let folder = Folder::new();
    let good = npy("<i4", false, "(10,)", &counting(10));
    for (bytes, message) in [
        (
            good[..good.len() - 1].to_vec(),
            "in.npy: items: 40 bytes expected at offset 128, the file ends after 39",
        ),
        (good[..60].to_vec(), "in.npy: npy header (offset 10, 118 bytes): the file ends here"),
        (
            npy("|O", false, "(1,)", &[0; 8]),
            "in.npy: npy header (offset 10): descr: dtype \"|O\", byte 0: Python objects cannot be stored",
        ),
        (
            npy("<q9", false, "(1,)", &[0; 8]),
            "in.npy: npy header (offset 10): descr: dtype \"<q9\", byte 0: unknown type letter",
        ),
        (npy("<i4", false, "(-1,)", &[]), "in.npy: npy header (offset 10): shape: -1 is not a length"),
    ] {
        folder.write("in.npy", &bytes);
        folder.refuses(&["pack", "in.npy", "out"], message);
    }
    assert_eq!(folder.names(), ["in.npy"]);
}

#[test]
fn raw_bytes_as_super_chunk() {
    let folder = Folder::new();
    let raw = noise(10_001);
    for (options, chunksize, typesize) in [
        (&[][..], 10_001, 1),
        (&["--typesize", "4"], 10_000, 4),
        (&["--typesize", "4", "--chunksize", "4K"], 4096, 4),
        (&["--chunksize", "20000"], 20_000, 1),
        (&["--typesize", "300", "--chunksize", "3000"], 3000, 300),
        (&["--typesize", "8", "--blocksize", "512", "--chunksize", "2048"], 2048, 8),
    ] {
        folder.pack("s", &raw, options);
        let info = folder.info(&["s"]);
        assert_eq!(info["kind"], "schunk");
        assert_eq!(
            (&info["chunksize"], &info["typesize"]),
            (&json!(chunksize), &json!(typesize)),
            "{options:?}"
        );
        assert_eq!(info["nchunks"], 10_001u64.div_ceil(chunksize));
        assert_eq!(folder.ok(&["cat", "s"]), raw, "{options:?}");
    }
    folder.pack("s", b"", &["--typesize", "4"]);
    assert_eq!(folder.ok(&["cat", "s"]), b"");
}

#[test]
fn raw_bytes_as_array() {
    let folder = Folder::new();
    let raw = counting(60);
    folder.pack("a", &raw, &["--dtype", ">i4", "--shape", "4,15", "--chunks", "3,4", "--blocks", "2,2"]);
    let info = folder.info(&["a"]);
    assert_eq!(
        (&info["kind"], &info["dtype"], &info["shape"]),
        (&json!("ndarray"), &json!(">i4"), &json!([4, 15]))
    );
    assert_eq!((&info["chunks"], &info["blocks"]), (&json!([3, 4]), &json!([2, 2])));
    assert_eq!(folder.ok(&["cat", "a"]), raw);
    folder.pack("a", &raw, &["--dtype", "float32", "--shape", "60"]);
    assert_eq!(folder.info(&["a"])["dtype"], "<f4");
    folder.pack("a", &raw[..4], &["--dtype", "<i4", "--shape="]);
    assert_eq!(folder.info(&["a"])["shape"], json!([]));
    folder.write("in", &raw);
    folder.refuses(
        &["pack", "in", "b", "--dtype", "<i4", "--shape", "61"],
        "in: --shape 61 of <i4 takes 244 bytes, there are 240 (4 too few)",
    );
    folder.fails(1, &["pack", "in", "b", "--dtype", "<i4", "--shape", "4294967296,4294967296,4294967296"]);
    folder.fails(2, &["pack", "in", "b", "--dtype", "|O", "--shape", "60"]);
    folder.fails(2, &["pack", "in", "b", "--shape", "60"]);
}

#[test]
fn lengths_follow_from_the_bytes() {
    let folder = Folder::new();
    let raw = counting(60);
    for (shape, expected) in [
        (&[][..], json!([60])),
        (&["--shape", "10,-1"], json!([10, 6])),
        (&["--shape", "-1"], json!([60])),
        (&["--shape", "-1,2,3"], json!([10, 2, 3])),
        (&["--shape=60,-1"], json!([60, 1])),
    ] {
        folder.pack("a", &raw, &[&["--dtype", "<i4"], shape].concat());
        let info = folder.info(&["a"]);
        assert_eq!((&info["shape"], &info["dtype"]), (&expected, &json!("<i4")), "{shape:?}");
        assert_eq!(folder.ok(&["cat", "a"]), raw);
    }
    folder.ok(&["copy", "a", "b", "--shape", "4,-1"]);
    assert_eq!(folder.info(&["b"])["shape"], json!([4, 15]));
    folder.pack("none", b"", &["--dtype", "<f8", "--shape", "-1,3"]);
    assert_eq!(folder.info(&["none"])["shape"], json!([0, 3]));
    folder.write("in", &raw);
    folder.ok(&["pack", "in", "-d", "new", "--dtype", "<i4"]);
    assert_eq!(folder.info(&["new/in.b2nd"])["shape"], json!([60]));
    folder.write("odd", &raw[..239]);
    for (args, message) in [
        (
            &["odd", "x", "--dtype", "<i4"][..],
            "odd: --dtype <i4: 239 bytes are 59 items of 4 bytes and 3 more",
        ),
        (
            &["odd", "x", "--dtype", "<i4", "--shape", "10,-1"],
            "odd: --shape 10,-1 of <i4: 239 bytes are 5 times 40 bytes and 39 more",
        ),
        (
            &["in", "x", "--dtype", "<i4", "--shape", "59"],
            "in: --shape 59 of <i4 takes 236 bytes, there are 240 (4 too many)",
        ),
        (
            &["in", "x", "--dtype", "<i4", "--shape", "0,-1"],
            "in: --shape 0,-1: the other length cannot be inferred when one is 0",
        ),
    ] {
        folder.refuses(&[&["pack"], args].concat(), message);
    }
    let error_text = folder.fails(2, &["pack", "in", "x", "--dtype", "<i4", "--shape", "-1,-1"]);
    assert!(error_text.contains("only one length can be -1"), "{error_text}");
    folder.pack("f.npy.b2nd", &npy("<i4", false, "(60,)", &raw), &[]);
    folder.fails(2, &["resize", "f.npy.b2nd", "--shape", "-1"]);
}

#[test]
fn bare_chunks() {
    let folder = Folder::new();
    let raw = counting(1000);
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4", "--codec", "blosclz"]);
    assert_eq!(folder.ok(&["cat", "c"]), raw);
    folder.pack("c", &npy("<i8", false, "(500,)", &raw), &["--format", "chunk"]);
    assert_eq!(folder.ok(&["cat", "c"]), raw);
    assert_eq!(folder.info(&["c"])["typesize"], 8);
    folder.pack("c", b"", &["--format", "chunk"]);
    assert_eq!(folder.ok(&["cat", "c"]), b"");
    folder.write("in", &raw);
    folder.refuses(
        &["pack", "in", "x", "--format", "chunk", "--meta", "a=1"],
        "--meta and --vlmeta: a bare chunk has no metalayers",
    );
}

#[test]
fn options_that_do_not_fit_are_told() {
    let folder = Folder::new();
    folder.write("raw", &counting(100));
    folder.write("in.npy", &npy("<i4", false, "(100,)", &counting(100)));
    for (args, message) in [
        (&["raw", "x", "--chunks", "5"][..], "--chunks applies to arrays; this is a super-chunk"),
        (&["raw", "x", "--blocks", "5"], "--blocks applies to arrays; this is a super-chunk"),
        (
            &["in.npy", "x", "--chunksize", "100"],
            "--chunksize applies to super-chunks; use --chunks for arrays",
        ),
        (&["in.npy", "x", "--blocksize", "100"], "--blocksize: the blocks of an array are set by --blocks"),
        (&["in.npy", "x", "--typesize", "2"], "--typesize conflicts with the array's dtype"),
        (
            &["raw", "x", "--format", "chunk", "--chunksize", "100"],
            "--chunksize does not apply to a bare chunk",
        ),
        (
            &["in.npy", "x", "--dtype", "<i4", "--shape", "100"],
            "--dtype and --shape are taken from the .npy file; remove them",
        ),
    ] {
        let args = [&["pack"], args].concat();
        folder.refuses(&args, message);
    }
    for args in [
        &["in.npy", "x", "--chunks", "5,5"][..],
        &["in.npy", "x", "--chunks", "0"],
        &["in.npy", "x", "--chunks", "4294967296"],
        &["raw", "x", "--typesize", "0"],
        &["raw", "x", "--chunksize", "0"],
        &["raw", "x", "--chunksize", "3G"],
        &["raw", "x", "--codec", "codec:200"],
        &["raw", "x", "--filters", "filter:200"],
        &["raw", "x", "--codec", "zlib", "--dict"],
        &["raw", "x", "--filters", "shuffle,shuffle,shuffle,shuffle,shuffle,shuffle,shuffle"],
        &["in.npy", "x", "--meta", "b2nd=1"],
    ] {
        let args = [&["pack"], args].concat();
        let message = folder.fails(1, &args);
        assert!(message.starts_with("b2kit: ") && message.lines().count() == 1, "{message}");
    }
    assert_eq!(folder.names(), ["in.npy", "raw"], "nothing was left");
}

#[cfg(feature = "zfp")]
#[test]
fn zfp_takes_floats_without_filters() {
    let folder = Folder::new();
    let plain: Vec<f32> = (0..64 * 64).map(|i| (i as f32 * 0.01).sin() * 100.0).collect();
    let raw: Vec<u8> = plain.iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.pack("z", &npy("<f4", false, "(64, 64)", &raw), &["--codec", "zfp_acc", "--codec-meta", "-2"]);
    let info = folder.info(&["z"]);
    assert_eq!((&info["codec"], &info["codec_meta"]), (&json!("zfp_acc"), &json!(254)));
    assert_eq!(info["filters"], json!([]));
    let back = folder.ok(&["cat", "z"]);
    for (x, y) in plain.iter().zip(back.as_chunks().0) {
        assert!((x - f32::from_le_bytes(*y)).abs() <= 0.01);
    }
    folder.write("in.npy", &npy("<f4", false, "(64, 64)", &raw));
    folder.refuses(
        &["pack", "in.npy", "y", "--tolerance", "1", "--filters", "shuffle"],
        "filters: zfp_acc compresses unfiltered floats: no filter may come before it",
    );
    folder.pack("s", &npy("<f4", false, "(64, 64)", &raw), &[]);
    folder.fails(1, &["copy", "s", "y", "--codec", "zfp_rate", "--codec-meta", "50", "--filters", "shuffle"]);
    // The shuffle of "s" is dropped.
    folder.ok(&["copy", "s", "y", "--codec", "zfp_rate", "--codec-meta", "50"]);
    assert_eq!(folder.info(&["y"])["filters"], json!([]));
}

#[cfg(feature = "pco")]
#[test]
fn pco_takes_numbers_without_filters() {
    let folder = Folder::new();
    let prices: Vec<u8> = (0..300 * 200)
        .flat_map(|i: i64| {
            ((i.wrapping_mul(0x5851_F42D_4C95_7F2D) >> 40).rem_euclid(10_000) as f64 / 100.0).to_le_bytes()
        })
        .collect();
    folder.pack("p", &npy("<f8", false, "(300, 200)", &prices), &["--codec", "pco"]);
    let info = folder.info(&["p"]);
    assert_eq!((&info["codec"], &info["filters"]), (&json!("pco"), &json!([])));
    assert_eq!(folder.ok(&["cat", "p"]), prices);
    folder.ok(&["verify", "p"]);
    // Rows, other codecs and back, super-chunks.
    assert_eq!(folder.ok(&["cat", "p", "--slice=17:19"]), prices[17 * 1600..19 * 1600]);
    folder.pack("z", &npy("<f8", false, "(300, 200)", &prices), &["--codec", "zstd"]);
    assert!(folder.read("p").len() * 3 < folder.read("z").len() * 2);
    folder.ok(&["copy", "z", "q", "--codec", "pco"]);
    folder.ok(&["diff", "p", "q"]);
    folder.ok(&["copy", "q", "y", "--codec", "lz4", "--filters", "shuffle"]);
    folder.ok(&["diff", "p", "y"]);
    folder.pack("s", &prices, &["--codec", "pco", "--typesize", "8"]);
    assert_eq!(folder.ok(&["cat", "s"]), prices);
    folder.refuses(
        &["copy", "z", "x", "--codec", "pco", "--filters", "shuffle"],
        "filters: pco compresses unfiltered numbers: no filter may come before it",
    );
    folder.write("bytes.npy", &npy("|u1", false, "(4000,)", &noise(4000)));
    folder.refuses(
        &["pack", "bytes.npy", "x", "--codec", "pco"],
        "block 0, stream 0 cannot be encoded: pco does not support items of other than 2, 4, 8 or 16 bytes",
    );
}

#[test]
fn the_output_is_replaced() {
    let folder = Folder::new();
    folder.write("s", b"something else");
    folder.pack("s", b"one", &[]);
    folder.pack("s", b"two", &[]);
    assert_eq!(folder.ok(&["cat", "s"]), b"two");
    folder.pack("d", &noise(5000), &["--format", "sframe", "--chunksize", "1000"]);
    folder.pack("d", &noise(2000), &["--format", "sframe", "--chunksize", "1000"]);
    assert_eq!(folder.ok(&["cat", "d"]), noise(2000));
    assert_eq!(fs::read_dir(folder.path("d")).unwrap().count(), 3, "index and two chunks");
    // A directory that is not a sparse frame is left alone.
    fs::create_dir(folder.path("home")).unwrap();
    folder.write("home/letter", b"dear");
    folder.write("in", b"x");
    for format in ["cframe", "sframe", "chunk"] {
        folder.fails(1, &["pack", "in", "home", "--force", "--format", format]);
        assert_eq!(folder.read("home/letter"), b"dear");
    }
    // A failed pack leaves the old file in place.
    folder.fails(1, &["pack", "in", "s", "--force", "--typesize", "0"]);
    assert_eq!(folder.ok(&["cat", "s"]), b"two");
    assert_eq!(folder.names(), ["d", "home", "in", "s"]);
}

#[test]
fn standard_input() {
    let folder = Folder::new();
    let raw = noise(100_000);
    let output = folder.with_input(&["-q", "pack", "--force", "-", "s", "--chunksize", "30000"], &raw);
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    assert_eq!(folder.ok(&["cat", "s"]), raw);
    let output =
        folder.with_input(&["-q", "pack", "--force", "-", "a"], &npy(">i4", true, "(2, 3)", &counting(6)));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(folder.info(&["a"])["shape"], json!([2, 3]));
}

#[test]
fn too_few_lengths_are_answered_with_an_example() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<i4", false, "(7, 18, 36)", &counting(7 * 18 * 36)));
    let message = folder.fails(1, &["pack", "a.npy", "a.b2nd", "--chunks", "7"]);
    assert!(message.contains("--chunks 7: give 3 lengths, for example 7,18,36"), "{message}");
    let message = folder.fails(1, &["pack", "a.npy", "a.b2nd", "--chunks", "7,9,9", "--blocks", "1,2,3,4"]);
    assert!(message.contains("--blocks 1,2,3,4: give 3 lengths, for example 1,2,3"), "{message}");
    assert_eq!(folder.names(), ["a.npy"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_in_words() {
    let folder = Folder::new();
    let array = folder.pack("a", &counting(100_000), &["--typesize", "4", "--codec", "lz4"]);
    let message = folder.fails(1, &["cat", array, "-o", "/dev/full"]);
    assert!(message.contains("no space left on the disk") && !message.contains("os error"), "{message}");
}

#[test]
fn block_starts_are_told_on_request_and_kept_by_copies() {
    let folder = Folder::new();
    let raw = noise(400_000);
    folder.write("in.npy", &npy("<i4", false, "(100, 1000)", &raw));
    let shapes = ["--chunks", "50,500", "--blocks", "10,100"];
    folder.ok(&[&["pack", "in.npy", "plain.b2nd"][..], &shapes].concat());
    folder.ok(&[&["pack", "in.npy", "given.b2nd", "--block-starts"][..], &shapes].concat());
    folder.ok(&["copy", "given.b2nd", "copied.b2nd"]);
    folder.ok(&["copy", "plain.b2nd", "made.b2nd", "--block-starts", "--format", "sframe"]);
    assert_eq!(folder.info(&["plain.b2nd"]).get("block_starts"), None);
    for name in ["given.b2nd", "copied.b2nd", "made.b2nd"] {
        let info = folder.info(&[name]);
        // Two bytes per block and six per chunk, one page, and the list of pages.
        assert_eq!(info["block_starts"], json!(4 * (2 * 25 + 6) + 24 + 40), "{name}");
        assert_eq!(info["dead"], json!(0), "{name}");
        folder.ok(&["verify", name]);
        assert_eq!(folder.ok(&["cat", name]), raw);
    }
}
