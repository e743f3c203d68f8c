//! Lossy codecs and filters are requested by stating an error bound, and report how much was lost.
#![cfg(feature = "zfp")]

use crate::common::{Folder, counting, npy};

/// Returns waves between 10 and 30, as floats of 4 bytes.
fn waves(n: usize) -> Vec<f32> {
    (0..n).map(|i| 20.0 + 10.0 * (i as f32 * 0.013).sin()).collect()
}

fn bytes_of(items: &[f32]) -> Vec<u8> {
    items.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|item| f32::from_le_bytes(*item)).collect()
}

/// Returns the number after "largest error".
fn largest_error(output: &str) -> f64 {
    let rest = output.split_once("largest error ").unwrap_or_else(|| panic!("{output}")).1;
    rest.split([' ', ';', '\n']).next().unwrap().parse().unwrap()
}

#[test]
fn zfp_needs_to_be_told_how_much() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<f4", false, "(40, 50)", &bytes_of(&waves(2000))));
    folder.pack("plain", &folder.read("a.npy"), &[]);
    for codec in ["zfp_acc", "zfp_prec", "zfp_rate"] {
        for args in [["pack", "a.npy"], ["copy", "plain"]] {
            let message = folder.fails(2, &[args[0], args[1], "out", "--codec", codec]);
            assert!(message.contains("loses data") && message.contains("--codec-meta"), "{message}");
            assert!(!folder.path("out").exists());
        }
    }
    folder.fails(2, &["pack", "a.npy", "out", "--codec", "zfp_acc", "--rate", "8"]);
    folder.fails(2, &["pack", "a.npy", "out", "--codec", "zstd", "--tolerance", "1"]);
    folder.fails(2, &["pack", "a.npy", "out", "--tolerance", "-1"]);
    for (options, codec, meta) in [
        (&["--tolerance", "0.02"][..], "zfp_acc", 254),
        (&["--codec", "zfp_acc", "--codec-meta", "-3"], "zfp_acc", 253),
        (&["--precision", "20"], "zfp_prec", 20),
        (&["--rate", "16"], "zfp_rate", 50),
    ] {
        for args in [["pack", "a.npy"], ["copy", "plain"]] {
            let message = folder.change(&[&[args[0], args[1], "out", "--force"], options].concat());
            assert!(message.contains("lossy"), "{message}");
            let info = folder.info(&["out"]);
            assert_eq!((&info["codec"], &info["codec_meta"]), (&codec.into(), &meta.into()), "{options:?}");
            assert_eq!(info["lossy"], true);
            assert!(folder.ok_text(&["info", "out"]).contains(&format!("lossy           {codec}")));
        }
    }
    assert!(folder.info(&["plain"])["lossy"].is_null());
    assert!(!folder.ok_text(&["info", "plain"]).contains("lossy"));
}

#[test]
fn the_largest_error_is_measured() {
    let folder = Folder::new();
    let items = waves(30 * 77);
    for (shape, fortran) in [("(2310,)", false), ("(30, 77)", false), ("(5, 6, 77)", true)] {
        folder.write("a.npy", &npy("<f4", fortran, shape, &bytes_of(&items)));
        folder.change(&["pack", "a.npy", "plain", "--force"]);
        for options in [&["--tolerance", "0.1"][..], &["--rate", "6"], &["--filters", "trunc_prec:5,shuffle"]]
        {
            let output = folder.change(&[&["pack", "a.npy", "out", "--force"], options].concat());
            let before = floats(&folder.ok(&["cat", "plain"]));
            let after = floats(&folder.ok(&["cat", "out"]));
            let errors = before.iter().zip(&after).map(|(a, b)| f64::from(a - b).abs());
            let largest = errors.fold(0.0, f64::max);
            assert!((largest_error(&output) - largest).abs() <= largest * 1e-3, "{output}: {largest}");
            assert!(largest > 0.0);
            let output = folder.change(&[&["copy", "plain", "copy", "--force"], options].concat());
            assert!((largest_error(&output) - largest).abs() <= largest * 1e-3, "{output}: {largest}");
        }
    }
}

#[test]
fn fill_values_are_warned_of() {
    let folder = Folder::new();
    for fill in [-1e34f32, 1e20, 9999.0] {
        let mut items = waves(4000);
        items.iter_mut().step_by(7).for_each(|x| *x = fill);
        folder.write("a.npy", &npy("<f4", false, "(50, 80)", &bytes_of(&items)));
        let output =
            folder.change(&["pack", "a.npy", "out", "--tolerance", "0.001", "--force", "--allow-lossy"]);
        assert!(output.contains("warning: ") && output.contains("far outside"), "{output}");
        assert!(output.contains("(572 items)"), "{output}");
        assert_eq!(
            folder.ok(&["pack", "a.npy", "out", "-q", "--tolerance", "0.001", "--force", "--allow-lossy"]),
            b""
        );
    }
    folder.write("a.npy", &npy("<f4", false, "(50, 80)", &bytes_of(&waves(4000))));
    let output = folder.change(&["pack", "a.npy", "out", "--tolerance", "0.001", "--force"]);
    assert!(!output.contains("warning"), "{output}");
}

#[test]
fn integers_are_not_for_zfp_but_for_int_trunc() {
    let folder = Folder::new();
    folder.write("i.npy", &npy("<i4", false, "(40, 50)", &counting(2000)));
    folder.write("big.npy", &npy(">f4", false, "(40, 50)", &bytes_of(&waves(2000))));
    assert!(folder.fails(1, &["pack", "i.npy", "out", "--tolerance", "1"]).contains("floats"));
    assert!(folder.fails(1, &["pack", "big.npy", "out", "--tolerance", "1"]).contains("little-endian"));
    let output = folder.change(&["pack", "i.npy", "out", "--filters", "int_trunc:-4,shuffle"]);
    assert_eq!(largest_error(&output), 15.0, "{output}");
    assert!(folder.ok_text(&["info", "out"]).contains("lossy           int_trunc clears 4 bits"));
    // For raw bytes, the filter determines the item type.
    folder.write("raw", &counting(1000));
    let options = ["--typesize", "4", "--filters", "int_trunc:-3"];
    assert_eq!(largest_error(&folder.change(&[&["pack", "raw", "s"], &options[..]].concat())), 7.0);
    let options = ["--format", "chunk", "--typesize", "4", "--filters", "int_trunc:-2"];
    assert_eq!(largest_error(&folder.change(&[&["pack", "raw", "c"], &options[..]].concat())), 3.0);
}

/// Blocks whose shape was not requested are chosen so that zfp accepts them.
#[test]
fn small_blocks_are_fitted() {
    let folder = Folder::new();
    for shape in ["(3, 50)", "(2, 3, 5)", "(1,)", "(2, 300, 400)", "(3, 2, 1, 7)"] {
        let n = shape
            .trim_matches(['(', ')'])
            .split(',')
            .filter_map(|n| n.trim().parse::<usize>().ok())
            .product();
        folder.write("a.npy", &npy("<f4", false, shape, &bytes_of(&waves(n))));
        let output = folder.change(&["pack", "a.npy", "out", "--tolerance", "0.01", "--force"]);
        assert!(largest_error(&output) <= 0.01, "{shape}: {output}");
        folder.change(&["pack", "a.npy", "plain", "--force"]);
        folder.change(&["copy", "plain", "out", "--tolerance", "0.01", "--force"]);
    }
}

/// zfp cannot keep a tolerance next to huge values, and cannot store NaN.
#[test]
fn a_tolerance_is_kept_or_there_is_no_file() {
    let folder = Folder::new();
    let mut huge = waves(4000);
    huge.iter_mut().step_by(7).for_each(|x| *x = -1e34);
    let mut nan = waves(4000);
    nan[77] = f32::NAN;
    folder.write("huge.npy", &npy("<f4", false, "(50, 80)", &bytes_of(&huge)));
    folder.write("nan.npy", &npy("<f4", false, "(50, 80)", &bytes_of(&nan)));
    folder.write("old", b"what was there");
    for name in ["huge", "nan"] {
        let plain = folder.pack("plain", &folder.read(&format!("{name}.npy")), &[]).to_owned();
        let input = format!("{name}.npy");
        let why = if name == "huge" {
            "the tolerance 0.03 is not kept: largest error"
        } else {
            "1 NaN or infinite values would become others"
        };
        for format in ["cframe", "sframe"] {
            for args in [
                &["pack", &input, "out", "--tolerance", "0.03"][..],
                &["copy", &plain, "out", "--tolerance", "0.03"],
                &["copy", &plain, "out", "--tolerance", "0.03", "--chunks", "20,20"],
                &["copy", &plain, "out", "--tolerance", "0.03", "--shape", "4000", "--dtype", "<f4"],
                &["pack", "-q", &input, "out", "--tolerance", "0.03"],
            ] {
                let names = folder.names();
                let message = folder.fails(1, &[args, &["--format", format]].concat());
                assert!(
                    message.contains("out: not written: lossy (zfp_acc") && message.contains(why),
                    "{args:?}: {message}"
                );
                assert_eq!(folder.names(), names, "{args:?}");
            }
        }
        // Overwriting does not accept a loss, and accepting a loss does not overwrite.
        let message = folder.fails(1, &["pack", &input, "old", "--tolerance", "0.03", "--force"]);
        assert!(message.contains(why) && message.contains("--allow-lossy accepts that"), "{message}");
        folder.fails(1, &["copy", &plain, "old", "--tolerance", "0.03", "--force"]);
        let message = folder.fails(1, &["pack", &input, "old", "--tolerance", "0.03", "--allow-lossy"]);
        assert!(message.contains("already exists"), "{message}");
        assert_eq!(folder.read("old"), b"what was there");
        let message = folder.change(&["pack", &input, "out", "--tolerance", "0.03", "--allow-lossy"]);
        assert!(message.contains("out: warning: ") && message.contains("lossy"), "{message}");
        std::fs::remove_file(folder.path("out")).unwrap();
    }
    // The same with the codec's parameter byte; NaN is a problem for the other codecs too.
    assert!(
        folder
            .fails(1, &["pack", "huge.npy", "out", "--codec", "zfp_acc", "--codec-meta", "-2"])
            .contains("0.01 is not kept")
    );
    for lossy in [["--rate", "16"], ["--precision", "20"]] {
        assert!(folder.fails(1, &[&["pack", "nan.npy", "out"], &lossy[..]].concat()).contains("NaN"));
    }
    folder.write("good.npy", &npy("<f4", false, "(50, 80)", &bytes_of(&waves(4000))));
    folder.change(&["pack", "good.npy", "out", "--tolerance", "0.03"]);
    assert_eq!(folder.read("old"), b"what was there");
}

#[test]
fn changes_of_a_lossy_file_say_so() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<f4", false, "(40, 50)", &bytes_of(&waves(2000))));
    folder.change(&["pack", "a.npy", "out", "--tolerance", "0.01"]);
    for args in [
        &["append", "out", "a.npy"][..],
        &["set", "out", "a.npy", "--slice=:40"],
        &["insert", "out", "a.npy", "--at", "3"],
    ] {
        let output = folder.change(args);
        assert!(output.contains("out: lossy (zfp_acc, tolerance 1e-2): "), "{args:?}: {output}");
        assert_eq!(folder.change(&[&["-q"], args].concat()), "");
    }
    folder.change(&["pack", "a.npy", "plain"]);
    assert!(!folder.change(&["append", "plain", "a.npy"]).contains("lossy"));
}

#[test]
fn int_trunc_is_not_for_floats() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<f4", false, "(40, 50)", &bytes_of(&waves(2000))));
    folder.pack("plain", &folder.read("a.npy"), &[]);
    for args in [
        &["pack", "a.npy", "out"][..],
        &["pack", "a.npy", "out", "--format", "chunk"],
        &["copy", "plain", "out"],
        &["copy", "plain", "out", "--chunks", "7,7"],
    ] {
        let message = folder.fails(1, &[args, &["--filters", "int_trunc:-4,shuffle"]].concat());
        assert!(
            message.contains("int_trunc takes integers of 1, 2, 4 or 8 bytes, the dtype is <f4"),
            "{args:?}: {message}"
        );
        assert!(!folder.path("out").exists());
    }
}
