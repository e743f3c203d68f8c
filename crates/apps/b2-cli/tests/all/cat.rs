//! `b2kit cat`: exact bytes, slices, `.npy` output, chunks, offsets, output files.

use crate::common;
use std::fs;

use crate::common::{Folder, counting, npy};

/// Packs a 3-d array of i32 that counts up in C order, with chunks and blocks that do not divide the shape.
fn counted_array(folder: &Folder) -> Vec<u8> {
    let raw = counting(13 * 11 * 7);
    folder.pack("a", &npy("<i4", false, "(13, 11, 7)", &raw), &["--chunks", "5,4,7", "--blocks", "2,3,4"]);
    raw
}

/// Returns the items of a counting 13 x 11 x 7 array at these indices, in C order.
fn pick(a: &[usize], b: &[usize], c: &[usize]) -> Vec<u8> {
    let mut out = vec![];
    for i in a {
        for j in b {
            for k in c {
                out.extend(((i * 11 + j) * 7 + k).try_into().map(i32::to_le_bytes).unwrap());
            }
        }
    }
    out
}

fn range(stop: usize) -> Vec<usize> {
    (0..stop).collect()
}

#[test]
fn arrays_come_in_c_order() {
    let folder = Folder::new();
    let raw = counted_array(&folder);
    assert_eq!(folder.ok(&["cat", "a"]), raw);
    assert_eq!(folder.ok(&["cat", "--raw", "a"]), raw);
    assert_eq!(folder.ok(&["cat", "a", "--npy"]), npy("<i4", false, "(13, 11, 7)", &raw));
}

#[test]
fn slices_have_numpys_meaning() {
    let folder = Folder::new();
    counted_array(&folder);
    let (all, rows, cols) = (range(13), range(11), range(7));
    let down = |from: usize| (0..=from).rev().collect::<Vec<_>>();
    let cases: [(&str, Vec<u8>, &str); 18] = [
        ("3", pick(&[3], &rows, &cols), "(11, 7)"),
        ("-1,2", pick(&[12], &[2], &cols), "(7,)"),
        ("12,10,6", pick(&[12], &[10], &[6]), "()"),
        (":", pick(&all, &rows, &cols), "(13, 11, 7)"),
        ("2:6,1:9:3", pick(&[2, 3, 4, 5], &[1, 4, 7], &cols), "(4, 3, 7)"),
        ("::5,:,::6", pick(&[0, 5, 10], &rows, &[0, 6]), "(3, 11, 2)"),
        ("-2:,5,-3:-1", pick(&[11, 12], &[5], &[4, 5]), "(2, 2)"),
        ("11:99,:0,2", vec![], "(2, 0)"),
        ("5:2", vec![], "(0, 11, 7)"),
        (":,:,3", pick(&all, &rows, &[3]), "(13, 11)"),
        ("...", pick(&all, &rows, &cols), "(13, 11, 7)"),
        ("...,3", pick(&all, &rows, &[3]), "(13, 11)"),
        (" 1 , ... , -1 ", pick(&[1], &rows, &[6]), "(11,)"),
        ("4,...,5,6", pick(&[4], &[5], &[6]), "()"),
        ("::-1", pick(&down(12), &rows, &cols), "(13, 11, 7)"),
        ("9:2:-3,::-1,2::-1", pick(&[9, 6, 3], &down(10), &[2, 1, 0]), "(3, 11, 3)"),
        ("...,99:-99:-6", pick(&all, &rows, &[6, 0]), "(13, 11, 2)"),
        ("1:2:-1,", vec![], "(0, 11, 7)"),
    ];
    for (spec, items, shape) in cases {
        let slice = format!("--slice={spec}");
        assert_eq!(folder.ok(&["cat", "a", &slice]), items, "{spec}");
        assert_eq!(folder.ok(&["cat", "a", &slice, "--npy"]), npy("<i4", false, shape, &items), "{spec}");
        assert_eq!(folder.ok(&["cat", "a", "--slice", spec]), items, "{spec}");
    }
}

#[test]
fn bad_slices_are_told() {
    let folder = Folder::new();
    counted_array(&folder);
    folder.refuses(
        &["cat", "a", "--slice=13"],
        "a: --slice: index 13 is out of range for dimension 0, which has 13 items",
    );
    folder.refuses(
        &["cat", "a", "--slice=0,-12"],
        "a: --slice: index -12 is out of range for dimension 1, which has 11 items",
    );
    folder.refuses(&["cat", "a", "--slice=0,0,0,0"], "a: --slice: 4 parts given, but there are 3 dimensions");
    folder.refuses(&["cat", "a", "--slice=::0"], "--slice=::0: the step of '::0' is 0");
    folder.refuses(&["cat", "a", "--slice=...,..."], "--slice=...,...: '...' may occur only once");
    assert!(folder.fails(1, &["cat", "a", "--slice=None,0"]).contains("'None' would add a dimension"));
    assert!(folder.fails(1, &["cat", "a", "--slice=[1,2]"]).contains("lists and masks are not supported"));
    folder.refuses(&["cat", "a", "--slice=1,x"], "--slice=1,x: 'x' is neither an index nor start:stop:step");
    folder.fails(1, &["cat", "a", "--slice="]);
}

#[test]
fn super_chunks_and_their_items() {
    let folder = Folder::new();
    // 1001 bytes: 250 items of 4 bytes, and one extra byte.
    let raw = [counting(250), vec![77]].concat();
    for options in [
        &["--typesize", "4", "--chunksize", "96"][..],
        &["--typesize", "4", "--chunksize", "96", "--format", "sframe"],
        &["--typesize", "4", "--format", "chunk", "--blocksize", "64"],
        &["--typesize", "4", "--filters", "delta,shuffle", "--chunksize", "400", "--blocksize", "64"],
    ] {
        let _ = fs::remove_file(folder.path("s"));
        folder.pack("s", &raw, options);
        assert_eq!(folder.ok(&["cat", "s"]), raw, "{options:?}");
        for (spec, from, to, step) in [
            (":", 0, 250, 1),
            ("3", 3, 4, 1),
            ("-1", 249, 250, 1),
            ("20:77", 20, 77, 1),
            ("1:200:7", 1, 200, 7),
            ("::249", 0, 250, 249),
            ("100:100", 100, 100, 1),
            ("240:9999", 240, 250, 1),
        ] {
            let expected: Vec<u8> = (from..to).step_by(step).flat_map(|i: i32| i.to_le_bytes()).collect();
            assert_eq!(folder.ok(&["cat", "s", &format!("--slice={spec}")]), expected, "{options:?} {spec}");
        }
        for (spec, from, to, step) in [("::-1", 0, 250, 1), ("200:1:-7", 4, 201, 7), ("::-249", 0, 250, 249)]
        {
            let up: Vec<i32> = (from..to).step_by(step).collect();
            let expected: Vec<u8> = up.iter().rev().flat_map(|i| i.to_le_bytes()).collect();
            assert_eq!(folder.ok(&["cat", "s", &format!("--slice={spec}")]), expected, "{options:?} {spec}");
        }
        folder.refuses(
            &["cat", "s", "--slice=250"],
            "s: --slice: index 250 is out of range for dimension 0, which has 250 items",
        );
        folder.refuses(&["cat", "s", "--slice=0,0"], "s: --slice: 2 parts given, but there is 1 dimension");
        folder.refuses(&["cat", "s", "--npy"], "s: --npy: only arrays have a shape and a dtype");
        if folder.path("s").is_dir() {
            fs::remove_dir_all(folder.path("s")).unwrap();
        }
    }
}

#[test]
fn single_chunks_as_stored() {
    let folder = Folder::new();
    let raw = counting(250);
    folder.pack("s", &raw, &["--typesize", "4", "--chunksize", "400"]);
    assert_eq!(folder.ok(&["cat", "s", "--chunk", "0"]), raw[..400]);
    assert_eq!(folder.ok(&["cat", "s", "--chunk", "2"]), raw[800..]);
    folder.refuses(&["cat", "s", "--chunk", "3"], "s: --chunk 3: there are 3 chunks");

    // Chunks of arrays are printed with their padding, block by block: 2 x 2 chunks of 2 x 4, blocks of 2 x 2.
    let items: Vec<u8> = (1..=18).collect();
    folder.pack("a", &npy("|u1", false, "(3, 6)", &items), &["--chunks", "2,4", "--blocks", "2,2"]);
    assert_eq!(folder.ok(&["cat", "a", "--chunk", "0"]), [1, 2, 7, 8, 3, 4, 9, 10]);
    assert_eq!(folder.ok(&["cat", "a", "--chunk", "3"]), [17, 18, 0, 0, 0, 0, 0, 0]);

    folder.pack("c", &raw, &["--format", "chunk"]);
    folder.refuses(&["cat", "c", "--chunk", "0"], "c: --chunk: this is a bare chunk, not a frame");
}

#[test]
fn frames_at_an_offset_and_trailing_bytes() {
    let folder = Folder::new();
    let raw = counting(100);
    folder.pack("s", &raw, &["--typesize", "4"]);
    folder.pack("a", &npy("<i4", false, "(10, 10)", &raw), &[]);
    folder.pack("c", &raw, &["--format", "chunk", "--typesize", "4"]);
    for name in ["s", "a", "c"] {
        let inside = [b"some bytes before".to_vec(), folder.read(name), vec![0x9e; 300]].concat();
        folder.write("file", &inside);
        assert_eq!(folder.ok(&["cat", "file", "--offset", "17"]), raw, "{name}");
        let rows = if name == "a" { 200..280 } else { 20..28 };
        assert_eq!(folder.ok(&["cat", "file", "--offset", "17", "--slice=5:7"]), raw[rows], "{name}");
        assert_eq!(folder.info(&["file", "--offset", "17"])["kind"], folder.info(&[name])["kind"]);
        folder.fails(1, &["cat", "file", "--offset", "16"]);
        folder.fails(1, &["cat", "file", "--offset", "18446744073709551615"]);
        folder.write("trailing", &inside[17..]);
        assert_eq!(folder.ok(&["cat", "trailing"]), raw, "{name}");
    }
    folder.pack("d", &raw, &["--format", "sframe"]);
    folder.refuses(&["cat", "d", "--offset", "1"], "d: --offset: this is a directory");
}

#[test]
fn output_files() {
    let folder = Folder::new();
    let raw = counted_array(&folder);
    assert_eq!(folder.ok(&["cat", "a", "-o", "out"]), b"");
    assert_eq!(folder.read("out"), raw);
    folder.refuses(&["cat", "a", "--npy", "-o", "out"], "out: already exists; --force overwrites it");
    assert_eq!(folder.read("out"), raw);
    folder.ok(&["cat", "a", "--npy", "--output", "out", "--force"]);
    assert_eq!(folder.read("out"), npy("<i4", false, "(13, 11, 7)", &raw));
    fs::create_dir(folder.path("sub")).unwrap();
    folder.ok(&["cat", "a", "-o", "sub/out"]);
    folder.refuses(
        &["cat", "a", "-o", "sub", "--force"],
        "sub: a directory that is not a sparse frame is never replaced",
    );
    assert!(folder.fails(1, &["cat", "a", "-o", "none/out"]).starts_with("b2kit: none/out: "));
    assert_eq!(folder.names(), ["a", "out", "sub"], "no temporary file stays");
}

#[test]
fn a_failed_cat_leaves_the_output_as_it_was() {
    let folder = Folder::new();
    folder.pack("s", &common::noise(100_000), &["--chunksize", "10K", "--clevel", "0"]);
    let mut bytes = folder.read("s");
    // Give a chunk in the middle an impossible size.
    let chunk = 97 + 5 * (10_240 + 32);
    bytes[chunk + 4..chunk + 8].copy_from_slice(&[0xff; 4]);
    folder.write("bad", &bytes);
    folder.write("out", b"precious");
    folder.fails(1, &["cat", "bad", "-o", "out", "--force"]);
    folder.fails(1, &["cat", "bad", "-o", "new"]);
    assert_eq!(folder.read("out"), b"precious");
    assert_eq!(folder.names(), ["bad", "out", "s"]);
    // What was decoded before the damage has been written.
    let output = folder.run(&["cat", "bad"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("b2kit: bad: ") && message.contains("chunk 5"), "{message}");
}

#[cfg(unix)]
#[test]
fn outputs_follow_links_and_keep_devices() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = Folder::new();
    let raw = counted_array(&folder);
    folder.write("target", b"old");
    symlink("target", folder.path("link")).unwrap();
    folder.refuses(&["cat", "a", "-o", "link"], "link: already exists; --force overwrites it");
    folder.ok(&["cat", "a", "-o", "link", "--force"]);
    assert_eq!(folder.read("target"), raw);
    assert!(folder.path("link").symlink_metadata().unwrap().is_symlink());
    folder.ok(&["cat", "a", "-o", "/dev/null", "--force"]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    folder.ok(&["cat", "a", "-o", "plain"]);
    let mode = fs::metadata(folder.path("plain")).unwrap().permissions().mode();
    let reference = folder.write("reference", b"");
    assert_eq!(mode, fs::metadata(reference).unwrap().permissions().mode(), "as any new file");
}

/// An empty text is not a missing value.
#[test]
fn empty_texts_are_quoted_in_csv() {
    let folder = Folder::new();
    folder.pack("t", &npy("|S2", false, "(2, 2)", b"ab\0\0\0\0c,"), &[]);
    assert_eq!(folder.ok_text(&["cat", "t", "--csv"]), "ab,\"\"\n\"\",\"c,\"\n");
}

/// Bytes in another encoding than UTF-8 stay as they are.
#[test]
fn texts_of_bytes_are_written_as_they_are() {
    let folder = Folder::new();
    folder.pack("t", &npy("|S4", false, "(2, 2)", b"caf\xe9a,\xff\0b\0\0\0\xff\0\"\0"), &[]);
    assert_eq!(folder.ok(&["cat", "t", "--csv"]), b"caf\xe9,\"a,\xff\"\nb,\"\xff\0\"\"\"\n");
    assert_eq!(folder.ok(&["cat", "t", "--text"]), b"caf\xe9 a,\xff\nb \xff\0\"\n");
}
