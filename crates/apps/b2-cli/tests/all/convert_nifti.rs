//! `b2kit convert`: NIfTI. The tests of the Python package compare images with nibabel's.

use b2_testkit::Rng;

use crate::common::{Folder, counting};

/// A file of version 1 with an image of 3 x 4 x 5 int32, which is stored with the first dimension fastest.
fn nifti() -> Vec<u8> {
    let mut header = vec![0; 352];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348_i32.to_le_bytes());
    for (n, length) in [3_i16, 3, 4, 5].into_iter().enumerate() {
        put(40 + 2 * n, &length.to_le_bytes());
    }
    put(70, &8_i16.to_le_bytes());
    put(72, &32_i16.to_le_bytes());
    for (n, length) in [1_f32, 2.0, 3.0, 4.0].into_iter().enumerate() {
        put(76 + 4 * n, &length.to_le_bytes());
    }
    put(108, &352_f32.to_le_bytes());
    put(344, b"n+1\0");
    [header, counting(60)].concat()
}

/// The items in C order.
fn items() -> Vec<u8> {
    let at = |n: i32| (n / 20) + 3 * (n / 5 % 4) + 12 * (n % 5);
    (0..60).flat_map(|n| at(n).to_le_bytes()).collect()
}

#[test]
fn images_become_arrays() {
    let folder = Folder::new();
    folder.write("scan.nii", &nifti());
    assert_eq!(folder.ok_text(&["convert", "scan.nii", "--list"]), "/      group\n/scan  <i4 3 x 4 x 5\n");
    folder.change(&["convert", "scan.nii", "scan.b2nd", "--verify"]);
    assert_eq!(folder.ok(&["cat", "scan.b2nd"]), items());
    let info: serde_json::Value =
        serde_json::from_slice(&folder.ok(&["info", "--json", "scan.b2nd"])).unwrap();
    let attrs = &info["vlmetalayers"];
    assert_eq!(attrs["spacing"], serde_json::json!([2.0, 3.0, 4.0]));
    // Without a matrix in the header, the origin is in the middle, and x points to the left.
    let affine = [[-2.0, 0.0, 0.0, 2.0], [0.0, 3.0, 0.0, -4.5], [0.0, 0.0, 4.0, -8.0], [0.0, 0.0, 0.0, 1.0]];
    assert_eq!(attrs["affine"], serde_json::json!(affine));
    folder.change(&["convert", "scan.nii", "/scan", "named.b2nd"]);
    assert!(folder.fails(1, &["convert", "scan.nii", "/other", "o.b2nd"]).contains("no such image"));
    // The affine would be wrong for a part.
    assert!(folder.fails(1, &["convert", "scan.nii", "o.b2nd", "--slice=1"]).contains("affine"));
    // The message names the command to use.
    assert!(folder.fails(2, &["pack", "scan.nii", "p.b2nd"]).contains("b2kit convert"));
    // The report names what is not converted.
    let mut bytes = nifti();
    bytes.splice(352..352, [0; 32]);
    bytes[108..112].copy_from_slice(&384_f32.to_le_bytes());
    bytes.extend([1, 2, 3]);
    folder.write("more.nii", &bytes);
    let output = folder.change(&["convert", "more.nii", "more.b2nd"]);
    assert!(
        output.contains("extensions of the header (32 bytes)") && output.contains("3 bytes after"),
        "{output}"
    );
    assert_eq!(folder.ok(&["cat", "more.b2nd"]), items());
}

#[test]
fn contradictions_are_errors() {
    let folder = Folder::new();
    let cases: [(usize, &[u8], &str); 9] = [
        (40, &[0, 0], "0 dimensions"),
        (40, &[8, 0], "8 dimensions"),
        (42, &[0xff, 0xff], "length -1"),
        (42, &[0xff, 0x7f], "are missing"),
        (70, &[1, 0], "one bit"),
        (70, &[77, 0], "unknown type 77"),
        (108, &100_f32.to_le_bytes(), "start in the header"),
        (108, &f32::NAN.to_le_bytes(), "NaN"),
        (344, b"ni1", "another file"),
    ];
    for (at, bytes, expected) in cases {
        let mut file = nifti();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        folder.write("x.nii", &file);
        let message = folder.fails(1, &["convert", "x.nii", "x.b2nd"]);
        assert!(message.contains(expected), "{message}");
    }
    folder.write("cut.nii", &nifti()[..591]);
    assert!(folder.fails(1, &["convert", "cut.nii", "x.b2nd"]).contains("1 bytes of the items are missing"));
}

#[test]
fn any_bytes_are_an_image_or_an_error() {
    let folder = Folder::new();
    let mut rng = Rng::new(7);
    for turn in 0..150 {
        let mut file = nifti();
        for _ in 0..=rng.below(4) {
            let at = rng.below(352);
            file[at] = rng.below(256) as u8;
        }
        file.truncate(if turn % 3 == 0 { rng.below(file.len()) } else { file.len() });
        folder.write("x.nii", &file);
        let output = folder.run(&["convert", "x.nii", "x.b2nd", "--force"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !message.contains("panicked") && output.status.code().is_some_and(|code| code <= 2),
            "{message}"
        );
    }
}
