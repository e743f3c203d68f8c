//! `b2kit show`, the values printed by `cat`, and output to a terminal.

use std::process::{Command, Stdio};

use crate::common::{Folder, counting, noise, npy};

/// Reference output of NumPy 2.4.6: `str(array)` of arrays of all kinds.
const TEXTS: &str = include_str!("numpy_texts.json");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn values_look_as_in_numpy() {
    let folder = Folder::new();
    let cases: Vec<serde_json::Value> = serde_json::from_str(TEXTS).unwrap();
    assert!(cases.len() > 60);
    let commands: Vec<String> = (0..cases.len())
        .flat_map(|i| {
            [
                format!("[\"pack\",\"{i}.npy\",\"{i}.b2nd\"]"),
                format!("[\"show\",\"{i}.npy\"]"),
                format!("[\"show\",\"{i}.b2nd\"]"),
            ]
        })
        .collect();
    for (i, case) in cases.iter().enumerate() {
        let field = |name: &str| case[name].as_str().unwrap().to_owned();
        folder.write(
            &format!("{i}.npy"),
            &npy(&field("descr"), false, &field("shape"), &bytes(&field("items"))),
        );
    }
    let output = folder.with_input(&["batch"], commands.join("\n").as_bytes());
    let mut rest = &output.stdout[..];
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        for command in ["pack", "npy", "b2nd"] {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let head: serde_json::Value = serde_json::from_slice(&rest[..end]).unwrap();
            let (answer, after) = rest[end + 1..].split_at(head["out"].as_u64().unwrap() as usize);
            rest = after;
            assert_eq!(head["rc"], 0, "{case}: {head}");
            let answer = String::from_utf8(answer.to_vec()).unwrap();
            assert!(
                command == "pack" || answer.starts_with(&format!("{text}\n\nshape")),
                "{command}\n{answer}\n{text}"
            );
        }
    }
}

/// Returns the value of a row in the table below the values.
fn row(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with("  ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).trim().to_owned()
}

#[test]
fn statistics_are_told() {
    let folder = Folder::new();
    let floats: Vec<u8> =
        [1.5_f32, f32::NAN, -2.25, 1e34, 0.75].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.pack("f", &npy("<f4", false, "(5,)", &floats), &["--chunks", "2"]);
    let text = folder.ok_text(&["show", "f"]);
    assert_eq!((row(&text, "minimum"), row(&text, "maximum")), ("-2.25".into(), "1e+34".into()));
    assert_eq!((row(&text, "NaN"), row(&text, "mean without")), ("1 of 5".into(), "0.0".into()));
    assert_eq!(row(&text, "maximum without"), "1.5");
    folder.pack("i", &npy("<i4", false, "(60, 40)", &counting(2400)), &["--chunks", "7,9"]);
    let text = folder.ok_text(&["show", "i", "--slice=1::2, ..., ::-1"]);
    assert_eq!(row(&text, "shape"), "30, 40");
    assert_eq!(
        (row(&text, "minimum"), row(&text, "maximum"), row(&text, "mean")),
        ("40".into(), "2399".into(), "1219.5".into())
    );
    assert!(text.starts_with("[[  79   78   77 ...   42   41   40]\n"), "{text}");
    folder.pack("b", &npy("|b1", false, "(3,)", &[1, 0, 1]), &[]);
    assert_eq!(row(&folder.ok_text(&["show", "b"]), "True"), "2 of 3");
    folder.pack("none", &npy("<f8", false, "(0,)", &[]), &[]);
    assert_eq!(row(&folder.ok_text(&["show", "none"]), "NaN"), "0 of 0");
    let be: Vec<u8> = [1.0_f64, 4.0].iter().flat_map(|x| x.to_be_bytes()).collect();
    folder.pack("be", &npy(">f8", false, "(2,)", &be), &[]);
    assert_eq!(row(&folder.ok_text(&["show", "be"]), "mean"), "2.5");
}

#[test]
fn files_without_a_dtype_and_standard_input() {
    let folder = Folder::new();
    folder.pack("s", &counting(10), &["--typesize", "4"]);
    assert!(folder.ok_text(&["show", "s"]).starts_with("[0 1 2 3 4 5 6 7 8 9]\n"));
    assert!(folder.ok_text(&["show", "s", "--slice=-3:", "--dtype", "<i4"]).starts_with("[7 8 9]\n"));
    folder.pack("c", &noise(6), &["--typesize", "3", "--format", "chunk"]);
    assert!(folder.ok_text(&["show", "c"]).starts_with("[b'\\x"));
    assert!(folder.fails(1, &["show", "s", "--dtype", "<f8"]).contains("items of 8 bytes"));
    for name in ["s", "in.npy"] {
        folder.write("in.npy", &npy("<i4", true, "(2, 2)", &counting(4)));
        let output = folder.with_input(&["show", "-"], &folder.read(name));
        let expected = if name == "s" { "[0 1 2 3" } else { "[[0 2]\n [1 3]]" };
        assert!(output.stdout.starts_with(expected.as_bytes()), "{output:?}");
    }
    folder.refuses(
        &["show", "s", "--slice=10"],
        "s: --slice: index 10 is out of range for dimension 0, which has 10 items",
    );
}

#[test]
fn csv_and_text() {
    let folder = Folder::new();
    let floats: Vec<u8> =
        [0.1_f64, f64::NAN, -1e-9, 4.0, 5.5, f64::INFINITY].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.pack("f", &npy("<f8", false, "(2, 3)", &floats), &[]);
    assert_eq!(folder.ok_text(&["cat", "f", "--csv"]), "0.1,nan,-1e-09\n4.0,5.5,inf\n");
    assert_eq!(folder.ok_text(&["cat", "f", "--text", "--slice=::-1,0"]), "4.0\n0.1\n");
    assert_eq!(folder.ok_text(&["cat", "f", "--csv", "--slice=0,0"]), "0.1\n");
    folder.pack("i", &npy("<i4", false, "(2, 2, 2)", &counting(8)), &["--chunks", "1,2,1"]);
    assert_eq!(folder.ok_text(&["cat", "i", "--text"]), "0 1\n2 3\n\n4 5\n6 7\n");
    assert!(folder.fails(1, &["cat", "i", "--csv"]).contains("3 dimensions"));
    assert_eq!(folder.ok_text(&["cat", "i", "--csv", "--slice=...,1"]), "1,3\n5,7\n");
    let text: Vec<u8> = "a,b\"q  ".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    folder.write("u.npy", &npy("<U3", false, "(2,)", &text[..24]));
    assert_eq!(folder.ok_text(&["cat", "u.npy", "--csv"]), "\"a,b\"\n\"\"\"q \"\n");
    let descr = "[('a', '<i4'), ('p', '|u1', (2,)), ('s', '|S2')]";
    folder.pack("r", &npy(descr, false, "(2,)", b"\x01\0\0\0\x02\x03x\0\xff\xff\xff\xff\x04\x05y,"), &[]);
    assert_eq!(folder.ok_text(&["cat", "r", "--csv"]), "a,p[0],p[1],s\n1,2,3,x\n-1,4,5,\"y,\"\n");
    folder.pack("none", &npy("<f8", false, "(0, 3)", &[]), &[]);
    assert_eq!(folder.ok_text(&["cat", "none", "--csv"]), "");
    folder.ok(&["cat", "f", "--csv", "-o", "f.csv"]);
    assert_eq!(folder.read("f.csv"), b"0.1,nan,-1e-09\n4.0,5.5,inf\n");
    folder.fails(2, &["cat", "f", "--csv", "--npy"]);
}

/// Returns width, height and RGBA bytes.
pub(crate) fn picture(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

#[test]
fn pictures() {
    let folder = Folder::new();
    let floats: Vec<u8> =
        [0.0_f32, f32::NAN, 10.0, 5.0, -1e34, 20.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.pack("f", &npy("<f4", false, "(2, 3)", &floats), &[]);
    let (width, height, pixels) = picture(&folder.ok(&["cat", "f", "--png"]));
    assert_eq!((width, height), (3, 2));
    assert_eq!(pixels[..8], [68, 1, 84, 255, 0, 0, 0, 0], "the smallest value; NaN is transparent");
    assert_eq!(
        pixels[16..],
        [0, 0, 0, 0, 253, 231, 37, 255],
        "so is what stands for missing; the largest value"
    );
    let (_, _, pixels) = picture(&folder.ok(&["cat", "f", "--png", "--range=0,10", "--slice=::-1"]));
    assert_eq!(pixels[8..12], [253, 231, 37, 255], "beyond the range: its last colour");
    assert_eq!(pixels[12..16], [68, 1, 84, 255]);
    folder.pack("i", &npy(">u2", false, "(70, 300)", &noise(42_000)), &["--chunks", "9,50"]);
    folder.ok(&["cat", "i", "--png", "-o", "i.png"]);
    assert_eq!(picture(&folder.read("i.png")).0, 300);
    assert!(folder.fails(1, &["cat", "f", "--png", "--slice=0"]).contains("two dimensions"));
    folder.pack("u", &npy("<U1", false, "(1, 1)", &[65, 0, 0, 0]), &[]);
    assert!(folder.fails(1, &["cat", "u", "--png"]).contains("no colours"));
    folder.fails(2, &["cat", "f", "--png", "--range=3"]);
    let text = folder.ok_text(&["show", "i", "--picture"]);
    assert!(text.contains("\u{1b}[0;38;2;") && text.contains('\u{2580}'));
    assert!(!folder.ok_text(&["show", "i"]).contains('\u{1b}'), "no terminal, no picture");
    assert!(folder.fails(1, &["show", "i", "--picture", "--slice=0"]).contains("1 dimension"));
}

/// Runs the line in a terminal; `None` if `script` (util-linux) is not available.
fn in_terminal(folder: &Folder, line: &str) -> Option<(Option<i32>, String)> {
    let mut command = Command::new("script");
    command.args(["-qefc", line, "/dev/null"]).current_dir(folder.path(".")).stdin(Stdio::null());
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let output = command.output().ok()?;
    Some((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_gets_no_bytes() {
    let folder = Folder::new();
    folder.pack("f", &npy("<i4", false, "(60, 40)", &counting(2400)), &[]);
    let b2kit = env!("CARGO_BIN_EXE_b2kit");
    let Some((code, output)) = in_terminal(&folder, &format!("{b2kit} cat f")) else {
        eprintln!("there is no `script` to make a terminal with: not tested");
        return;
    };
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("b2kit: f: bytes are not shown on a terminal; `b2kit show f`"), "{output}");
    for option in ["--npy", "--raw", "--png", "--chunk 0"] {
        let (code, output) = in_terminal(&folder, &format!("{b2kit} cat f {option}")).unwrap();
        assert!(code == Some(1) && output.contains("b2kit show f"), "{option}: {output}");
    }
    let (code, output) = in_terminal(&folder, &format!("{b2kit} cat f --csv --slice=0,:3")).unwrap();
    assert_eq!((code, output.trim()), (Some(0), "0\r\n1\r\n2"));
    let (code, output) = in_terminal(&folder, &format!("{b2kit} cat f --force --slice=0,0")).unwrap();
    assert_eq!((code, output.as_bytes()), (Some(0), &b"\0\0\0\0"[..]));
    let (code, output) = in_terminal(&folder, &format!("{b2kit} show f")).unwrap();
    assert!(code == Some(0) && output.contains('\u{2580}'), "a picture: {output}");
    let (_, output) = in_terminal(&folder, &format!("{b2kit} show f --no-picture")).unwrap();
    assert!(!output.contains('\u{2580}'));
}
