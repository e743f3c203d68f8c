//! `b2kit salvage`: what is readable of a damaged frame.

mod common;

use common::{Folder, noise, npy};
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
    bytes[start + cbytes..start + cbytes + 8].fill(0);
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
    assert!(text.contains("5 recovered, 1 lost\n") && text.contains("chunk 1, now zeros: "), "{text}");
    assert_eq!(folder.run(&["salvage", "-q", "bad", "e"]).stdout, b"");

    // The whole header and the end of the file.
    let whole = folder.read("a");
    let mut bytes = whole[..whole.len() - 60].to_vec();
    bytes[..20].fill(0x20);
    folder.write("worse", &bytes);
    let report: Value =
        serde_json::from_slice(&folder.run(&["salvage", "worse", "f", "--json"]).stdout).unwrap();
    assert_eq!(report["recovered"], 6, "{report}");
    assert_eq!(folder.ok(&["cat", "f"]), raw);
}

/// All chunks are saved, but the metalayer that makes them an array is wrong: no success.
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
    assert!(String::from_utf8(output.stdout).unwrap().contains("chunks        all "));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("the chunks are saved, but not what they mean") && told.contains("b2nd"), "{told}");
}

#[test]
fn refusals() {
    let folder = Folder::new();
    folder.pack("s", &noise(500), &[]);
    folder.refuses(&["salvage", "s", "s"], "s: is there already; --force overwrites it");
    folder.refuses(&["salvage", "s", "s", "--force"], "s: IN and OUT are the same");
    folder.write("text", b"no frame, just text");
    assert!(folder.fails(1, &["salvage", "text", "out"]).starts_with("b2kit: text: "));
    assert!(folder.fails(1, &["salvage", "none", "out"]).starts_with("b2kit: none: "));
    assert_eq!(folder.names(), ["s", "text"]);
}
