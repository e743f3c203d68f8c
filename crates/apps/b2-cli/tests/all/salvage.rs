//! `b2kit salvage`: recovers the readable data of a damaged frame.

use crate::common::{Folder, noise, npy};
use serde_json::Value;

#[test]
fn the_report_tells_what_is_lost() {
    let folder = Folder::new();
    let raw = noise(6000);
    let array = npy("|u1", false, "(60, 100)", &raw);
    folder.pack("a", &array, &["--chunks", "10,100", "--blocks", "5,100", "--vlmeta", "v=[1]"]);
    let text = folder.ok_text(&["salvage", "a", "b"]);
    assert!(text.contains("chunks        all 6 recovered\n"), "{text}");
    assert_eq!(folder.ok(&["diff", "a", "b"]), b"");

    let mut bytes = folder.read("a");
    let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
    let cbytes = u32::from_le_bytes(bytes[start + 12..start + 16].try_into().unwrap()) as usize;
    bytes[start + cbytes..start + cbytes + 8].fill(0xEE);
    folder.write("bad", &bytes);
    let output = folder.run(&["salvage", "bad", "c", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["recovered"], &report["lost"], &report["nchunks"]),
        (&5.into(), &1.into(), &6.into())
    );
    assert_eq!(
        (&report["lost_chunks"][0]["first"], &report["lost_chunks"][0]["filled"]),
        (&1.into(), &"zero".into())
    );
    let mut expected = raw.clone();
    expected[1000..2000].fill(0);
    assert_eq!(folder.ok(&["cat", "c"]), expected);
    let output = folder.run(&["salvage", "bad", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("5 recovered, 1 lost\n")
            && text.contains("chunk 1 (rows 10-19, columns 0-99), now zeros: "),
        "{text}"
    );
    assert_eq!(folder.run(&["salvage", "-q", "bad", "e"]).stdout, b"");

    // Destroy the whole header and the end of the file.
    let whole = folder.read("a");
    let mut bytes = whole[..whole.len() - 60].to_vec();
    bytes[..20].fill(0x20);
    folder.write("worse", &bytes);
    let report: Value =
        serde_json::from_slice(&folder.run(&["salvage", "worse", "f", "--json"]).stdout).unwrap();
    assert_eq!(report["recovered"], 6, "{report}");
    assert_eq!(folder.ok(&["cat", "f"]), raw);
}

/// If all chunks are saved but the metalayer that makes them an array is damaged, that is not a success.
#[test]
fn an_array_without_its_shape_is_told() {
    let folder = Folder::new();
    folder.pack("a", &npy("|u1", false, "(60, 100)", &noise(6000)), &["--no-checksums"]);
    let mut bytes = folder.read("a");
    let name = bytes.windows(4).position(|window| window == b"b2nd").unwrap();
    let value = u32::from_be_bytes(bytes[name + 5..name + 9].try_into().unwrap()) as usize + 5;
    bytes[value] = 0;
    folder.write("bad", &bytes);
    let output = folder.run(&["salvage", "bad", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains(" recovered\n"));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("the chunks are saved, but the metadata that describes them is lost")
            && message.contains("b2nd"),
        "{message}"
    );
}

#[test]
fn refusals() {
    let folder = Folder::new();
    folder.pack("s", &noise(500), &[]);
    folder.refuses(&["salvage", "s", "s"], "s: IN and OUT are the same file");
    folder.refuses(&["salvage", "s", "s", "--force"], "s: IN and OUT are the same file");
    folder.write("text", b"no frame, just text");
    assert!(folder.fails(1, &["salvage", "text", "out"]).starts_with("b2kit: text: "));
    assert!(folder.fails(1, &["salvage", "none", "out"]).starts_with("b2kit: none: "));
    assert_eq!(folder.names(), ["s", "text"]);
}

/// Three damaged bytes cost one block of a chunk, not the whole chunk.
#[test]
fn blocks_are_saved_where_the_head_of_the_chunk_is_whole() {
    let folder = Folder::new();
    let items: Vec<f32> = (0..200 * 300).map(|i| 20.0 + (i as f32 * 0.37).sin()).collect();
    let raw: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    for (sums, codec) in [(&[][..], "zstd"), (&["--no-checksums"], "zstd"), (&[], "zlib")] {
        let options = ["--chunks", "200,300", "--blocks", "20,300", "--codec", codec];
        folder.pack("a", &npy("<f4", false, "(200, 300)", &raw), &[&options[..], sums].concat());
        for (fill, value) in [("zero", 0.0f32), ("nan", f32::NAN), ("-9999", -9999.0)] {
            let mut bytes = folder.read("a");
            let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
            // The length of the first stream in block 3.
            let at = start + 32 + 3 * 4;
            let block = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            bytes[start + block..start + block + 3].copy_from_slice(&[0xFF, 0xFF, 0x7F]);
            folder.write("bad", &bytes);
            let output = folder.run(&["salvage", "bad", "out", "--force", "--json", "--fill", fill]);
            assert_eq!(output.status.code(), Some(1));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let lost = &report["lost_chunks"][0];
            assert_eq!((&report["lost"], &lost["blocks"]), (&1.into(), &10.into()), "{report}");
            assert_eq!(lost["lost_blocks"], serde_json::json!([3]));
            assert_eq!(lost["filled"], fill);
            let saved = folder.ok(&["cat", "out"]);
            let (from, to) = (3 * 20 * 300 * 4, 4 * 20 * 300 * 4);
            assert_eq!((&saved[..from], &saved[to..]), (&raw[..from], &raw[to..]), "{codec}");
            for item in saved[from..to].as_chunks::<4>().0 {
                let item = f32::from_le_bytes(*item);
                assert!(item == value || item.is_nan() && value.is_nan(), "{fill}: {item}");
            }
            let output = folder.run(&["salvage", "bad", "out", "--force"]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("1 of 10 blocks now zeros"), "{text}");
            assert!(text.contains("chunk 0 (rows 0-199, columns 0-299), rows 60-79"), "{text}");
        }
    }
}

/// Bytes that are stored uncompressed always decode: only the checksum reveals damage.
#[test]
fn damage_that_decodes_is_told() {
    let folder = Folder::new();
    let raw = noise(60_000);
    folder.pack("a", &npy("|u1", false, "(600, 100)", &raw), &["--chunks", "300,100", "--blocks", "50,100"]);
    let mut bytes = folder.read("a");
    let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
    bytes[start + 2000..start + 2003].iter_mut().for_each(|byte| *byte ^= 0xFF);
    folder.write("bad", &bytes);
    let salvage = |options: &[&str]| {
        let output = folder.run(&[&["salvage", "bad", "out", "--force"], options].concat());
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stdout).unwrap()
    };
    // Values that may be wrong are not kept unless requested.
    let text = salvage(&["--fill", "7"]);
    assert!(text.contains("1 recovered, 1 lost") && text.contains("now 7: its bytes do not fit"), "{text}");
    let saved = folder.ok(&["cat", "out"]);
    assert!(saved[..30_000].iter().all(|byte| *byte == 7) && saved[30_000..] == raw[30_000..]);
    let report: Value = serde_json::from_str(&salvage(&["--fill", "7", "--json"])).unwrap();
    let lost = &report["lost_chunks"][0];
    assert_eq!((&lost["filled"], &lost["blocks"]), (&"7".into(), &Value::Null));

    let text = salvage(&["--keep-suspect"]);
    assert!(text.contains("kept, but some values are wrong in 6 blocks"), "{text}");
    let saved = folder.ok(&["cat", "out"]);
    assert_eq!(saved.iter().zip(&raw).filter(|(a, b)| a != b).count(), 3);
    let report: Value = serde_json::from_str(&salvage(&["--keep-suspect", "--json"])).unwrap();
    let lost = &report["lost_chunks"][0];
    assert_eq!((&lost["filled"], &lost["lost_blocks"]), (&Value::Null, &serde_json::json!([])));
    assert_eq!(lost["suspect_blocks"], serde_json::json!([0, 1, 2, 3, 4, 5]));
}

/// A chunk that is lost completely is filled in as well.
#[test]
fn lost_chunks_are_filled() {
    let folder = Folder::new();
    for (dtype, fill, item) in [
        ("<f4", "nan", f32::NAN.to_le_bytes().to_vec()),
        (">f8", "-1.5", (-1.5f64).to_be_bytes().to_vec()),
        ("<i2", "-7", (-7i16).to_le_bytes().to_vec()),
        ("|u1", "255", vec![255]),
    ] {
        let size = item.len();
        let raw = noise(60 * 100 * size);
        folder.pack("a", &npy(dtype, false, "(60, 100)", &raw), &["--chunks", "10,100", "--blocks", "5,100"]);
        let mut bytes = folder.read("a");
        let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
        let cbytes = u32::from_le_bytes(bytes[start + 12..start + 16].try_into().unwrap()) as usize;
        bytes[start + cbytes..start + cbytes + 8].fill(0xEE);
        folder.write("bad", &bytes);
        let output = folder.run(&["salvage", "bad", "out", "--force", "--fill", fill]);
        assert_eq!(output.status.code(), Some(1), "{dtype}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("chunk 1 (rows 10-19, columns 0-99), now"), "{text}");
        let expected = [&raw[..1000 * size], &item.repeat(1000), &raw[2000 * size..]].concat();
        assert!(folder.ok(&["cat", "out"]) == expected, "{dtype} {fill}");
        for wrong in ["1e400x", "none"] {
            folder.fails(2, &["salvage", "bad", "other", "--fill", wrong]);
        }
    }
    folder.pack("a", &npy("<i2", false, "(60, 100)", &noise(12_000)), &[]);
    assert!(folder.fails(1, &["salvage", "a", "other", "--fill", "nan"]).contains("nan"));
    assert!(folder.fails(1, &["salvage", "a", "other", "--fill", "40000"]).contains("40000"));
}

/// `--force` replaces an output, but not with one that holds fewer chunks.
#[test]
fn a_better_output_is_kept() {
    let folder = Folder::new();
    let raw = noise(60_000);
    folder.pack("a", &npy("|u1", false, "(600, 100)", &raw), &["--chunks", "100,100"]);
    let whole = folder.read("a");
    let start = u32::from_be_bytes(whole[11..15].try_into().unwrap()) as usize;
    let cbytes = u32::from_le_bytes(whole[start + 12..start + 16].try_into().unwrap()) as usize;
    let mut bytes = whole.clone();
    // Destroy the heads of two chunks.
    bytes[start + cbytes..start + cbytes + 40].fill(0xEE);
    bytes[start + 2 * cbytes..start + 2 * cbytes + 40].fill(0xEE);
    folder.write("bad", &bytes);

    folder.write("out", &whole);
    let message = folder.fails(1, &["salvage", "bad", "out", "--force"]);
    assert_eq!(
        message.trim_end(),
        "b2kit: bad: out: not replaced, since it holds more intact chunks than the 4 that could be saved"
    );
    assert_eq!(folder.read("out"), whole);
    // With the same number of chunks, the output is replaced, repeatedly.
    bytes[start + 3 * cbytes..start + 3 * cbytes + 40].fill(0xEE);
    folder.write("worse", &bytes);
    folder.write("out", &bytes);
    for input in ["worse", "bad", "bad"] {
        assert_eq!(folder.run(&["salvage", input, "out", "--force"]).status.code(), Some(1), "{input}");
    }
    assert!(folder.ok(&["cat", "out"])[30_000..] == raw[30_000..]);
    folder.fails(1, &["salvage", "worse", "out", "--force"]);
    assert!(folder.ok(&["cat", "out"])[30_000..] == raw[30_000..]);
    // A file that is not a frame is replaced as usual.
    folder.write("text", b"no frame");
    assert_eq!(folder.run(&["salvage", "bad", "text", "--force"]).status.code(), Some(1));
    assert_eq!(folder.ok(&["cat", "text"]), folder.ok(&["cat", "out"]));
}

#[test]
fn the_size_is_that_of_the_array() {
    let folder = Folder::new();
    folder.pack("a", &npy("|u1", false, "(50, 70)", &noise(3500)), &["--chunks", "40,40"]);
    let report: Value = serde_json::from_slice(&folder.ok(&["salvage", "a", "b", "--json"])).unwrap();
    assert_eq!((&report["nbytes"], &report["nchunks"]), (&3500.into(), &4.into()));
}

/// Header, metalayers and the head of the first chunk are lost: the others are found from the index. The index itself
/// is not data, although it is also a chunk of items of 8 bytes.
#[test]
fn the_first_sector_may_be_bad() {
    let folder = Folder::new();
    let items: Vec<i64> = (0..12_000).map(|i: i64| i * i % 100_003).collect();
    let raw: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    for options in [&["--no-checksums"][..], &[], &["--no-checksums", "--codec", "blosclz"]] {
        let shape = ["--chunks", "1000", "--blocks", "100"];
        folder.pack("a", &npy("<i8", false, "(12000,)", &raw), &[&shape[..], options].concat());
        let mut bytes = folder.read("a");
        bytes[..512].fill(0);
        folder.write("bad", &bytes);
        let output = folder.run(&["salvage", "bad", "out", "--force", "--json"]);
        // The checksums contain a copy of it.
        let lost = u64::from(!options.is_empty());
        assert_eq!(output.status.code(), Some(lost as i32));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let counts = ["nchunks", "recovered", "lost", "nbytes"].map(|name| report[name].as_u64().unwrap());
        assert_eq!(counts, [12, 12 - lost, lost, 96_000], "{options:?}: {report}");
        if lost == 0 {
            assert_eq!(folder.ok(&["diff", "a", "out"]), b"");
        } else {
            // Without it, shape and dtype are given, or taken from a similar array.
            let whole: Vec<i64> = items.iter().map(|item| item + 1).collect();
            let whole: Vec<u8> = whole.iter().flat_map(|x| x.to_le_bytes()).collect();
            folder.pack("like", &npy("<i8", false, "(12000,)", &whole), &shape);
            let given = [
                &["--dtype", "<i8", "--shape", "12000", "--chunks", "1000", "--blocks", "100"][..],
                &["--like", "like"],
            ];
            for given in given {
                folder.run(&[&["salvage", "bad", "given", "--force"], given].concat());
                let info: Value = serde_json::from_slice(&folder.ok(&["info", "given", "--json"])).unwrap();
                assert_eq!(info["shape"], serde_json::json!([12_000]), "{info}");
                assert_eq!(info["dtype"], "<i8");
                assert!(folder.ok(&["cat", "given"])[8000..] == raw[8000..]);
            }
            let message = folder.fails(
                1,
                &["salvage", "bad", "other", "--dtype", "<i8", "--shape", "12000", "--chunks", "500"],
            );
            assert!(message.contains("8000"), "{message}");
            folder.fails(2, &["salvage", "bad", "other", "--shape", "12000"]);
            std::fs::remove_file(folder.path("like")).unwrap();
        }
        assert!(folder.ok(&["cat", "out"])[8000..] == raw[8000..], "{options:?}");
    }
}

/// One of two chunks is left, and could belong in either position. Random chunks of about the same size.
#[test]
fn the_first_sector_of_few_chunks_may_be_bad() {
    let folder = Folder::new();
    let bytes = noise(10 * 3000 * 2);
    for (seed, noise) in bytes.chunks(3000 * 2).enumerate() {
        let raw: Vec<u8> = noise.chunks(2).flat_map(|two| [two[0], two[1] >> (seed % 7), 0, 0]).collect();
        for (nchunks, options) in [(2, &["--no-checksums"][..]), (2, &[]), (3, &[]), (3, &["--no-checksums"])]
        {
            let raw = &raw[..nchunks * 4000];
            let array = npy("<i4", false, &format!("({},)", nchunks * 1000), raw);
            folder.pack("a", &array, &[&["--chunks", "1000", "--blocks", "1000"][..], options].concat());
            let (mut bytes, out) = (folder.read("a"), format!("{seed}-{nchunks}{}", options.concat()));
            bytes[..512].fill(0);
            folder.write("bad", &bytes);
            let output = folder.run(&["salvage", "bad", &out, "--json"]);
            let lost = usize::from(!options.is_empty());
            assert_eq!(output.status.code(), Some(lost as i32));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let counts = ["nchunks", "recovered", "lost"].map(|name| report[name].as_u64().unwrap() as usize);
            assert_eq!(counts, [nchunks, nchunks - lost, lost], "{seed} {options:?}: {report}");
            let conditions = ["header", "index", "trailer"].map(|name| &report[name]);
            let restored = ["damaged, restored from its copy", "intact", "intact"];
            assert_eq!(conditions, if lost == 0 { restored } else { ["lost", "found", "found"] });
            assert!(folder.ok(&["cat", &out])[4000..] == raw[4000..], "{seed} {options:?}");
        }
    }
}

/// Without the header and the head of the only chunk, everything is lost. The file is still reported as a Blosc2 frame.
#[test]
fn the_first_sector_of_a_single_chunk_is_all_there_is() {
    let folder = Folder::new();
    folder.pack("a", &npy("|u1", false, "(3500,)", &noise(3500)), &["--no-checksums"]);
    let mut bytes = folder.read("a");
    bytes[..512].fill(0);
    folder.write("bad", &bytes);
    let output = folder.run(&["salvage", "bad", "out"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("nothing to recover: ") && text.contains("the end of a Blosc2 frame"), "{text}");
    assert!(!folder.path("out").exists());
}

/// Random bytes in a damaged chunk look like the head of a chunk of zeros that spans the rest of the file.
#[test]
fn what_looks_like_many_zeros_is_no_data() {
    let folder = Folder::new();
    let raw = noise(60_000);
    folder.pack("a", &npy("|u1", false, "(600, 100)", &raw), &["--chunks", "100,100", "--no-checksums"]);
    let mut bytes = folder.read("a");
    let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
    bytes[..start + 40].fill(0);
    // Version 5, an extended header, 2 GB of zeros in 40,000 bytes.
    let head = [5, 1, 0x05, 1, 0, 0, 0, 0x70, 0, 0, 1, 0, 0x40, 0x9C, 0, 0];
    bytes[start + 100..start + 116].copy_from_slice(&head);
    bytes[start + 116..start + 132].fill(0);
    bytes[start + 131] = 0x10;
    // The index is destroyed too.
    let len = bytes.len();
    bytes[len - 60..].fill(0);
    folder.write("bad", &bytes);
    let output = folder.run(&["salvage", "bad", "out", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["recovered"], &report["nbytes"]), (&5.into(), &50_000.into()), "{report}");
    assert!(folder.ok(&["cat", "out"]) == raw[10_000..]);
}

/// The remaining part of the last chunk of a truncated file is saved.
#[test]
fn the_end_may_be_missing() {
    let folder = Folder::new();
    let items: Vec<f32> = (0..200 * 300).map(|i| 20.0 + (i as f32 * 0.37).sin()).collect();
    let raw: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let options = ["--chunks", "100,300", "--blocks", "10,300", "--codec", "zstd"];
    folder.pack("a", &npy("<f4", false, "(200, 300)", &raw), &options);
    let bytes = folder.read("a");
    let start = u32::from_be_bytes(bytes[11..15].try_into().unwrap()) as usize;
    let second = start + u32::from_le_bytes(bytes[start + 12..start + 16].try_into().unwrap()) as usize;
    // Keep everything up to the third last block of the second chunk.
    let at = second + 32 + 7 * 4;
    let block = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    folder.write("bad", &bytes[..second + block + 5]);
    let output = folder.run(&["salvage", "bad", "out", "--json", "--fill", "nan"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["recovered"], 1, "{report}");
    assert_eq!(report["lost_chunks"][0]["lost_blocks"], serde_json::json!([7, 8, 9]), "{report}");
    let (saved, there) = (folder.ok(&["cat", "out"]), (100 + 7 * 10) * 300 * 4);
    assert!(saved[..there] == raw[..there]);
    assert!(saved[there..].as_chunks::<4>().0.iter().all(|item| f32::from_le_bytes(*item).is_nan()));
}

/// Removed checksums are still somewhere in the file. They must not be compared with the new state.
#[test]
fn a_file_whose_checksums_were_removed_is_whole() {
    let folder = Folder::new();
    let raw = noise(240_000);
    folder.pack(
        "a.b2nd",
        &npy("|u1", false, "(600, 400)", &raw),
        &["--chunks", "300,100", "--vlmeta", "unit=\"K\""],
    );
    folder.run(&["checksum", "remove", "a.b2nd"]);
    let output = folder.run(&["salvage", "a.b2nd", "out.b2nd", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(
        (&report["header"], &report["metalayers"], &report["certain"]),
        (&"intact".into(), &"intact".into(), &true.into())
    );
    assert_eq!((&report["recovered"], &report["verified"]), (&8.into(), &0.into()));
    assert_eq!(folder.ok(&["cat", "out.b2nd"]), raw);
}

/// The report names lost checksums and vlmetalayers: values may be wrong, and attributes missing.
#[test]
fn a_damaged_end_is_reported() {
    let folder = Folder::new();
    folder.pack(
        "a",
        &npy("|u1", false, "(600,)", &noise(600)),
        &["--chunks", "300", "--vlmeta", "unit=\"K\""],
    );
    let bytes = folder.read("a");
    let block = bytes.windows(6).rposition(|there| there == b"b2sums").unwrap();
    let mut damaged = bytes.clone();
    damaged[block + 20] ^= 1;
    folder.write("bad", &damaged);
    let output = folder.run(&["salvage", "bad", "out"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("right for 0, lost for 2: values may be wrong in these"), "{text}");
    assert!(text.contains("trailer       intact\n"), "{text}");
    folder.write("short", &bytes[..block]);
    let output = folder.run(&["salvage", "short", "saved"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("trailer       lost, and all vlmetalayers with it\n"), "{text}");
}
