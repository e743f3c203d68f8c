//! Details that users notice after the first hour.

use crate::common::{Folder, counting, noise, npy, slashes};
use crate::show::picture;

/// Messages name the option and the remedy, not the internal cause.
#[test]
fn messages_are_plain() {
    let folder = Folder::new();
    let items: Vec<u8> = (0..100_u32).flat_map(|i| (i as f32 * 1.1).to_le_bytes()).collect();
    folder.write("f.npy", &npy("<f4", false, "(100,)", &items));
    folder.pack("a", &npy("<i4", false, "(100,)", &counting(100)), &[]);
    for (args, message) in [
        (
            &["pack", "f.npy", "x", "--clevel", "10"][..],
            "invalid value '10' for '--clevel <0..9>': expected a whole number from 0 to 9",
        ),
        (&["pack", "f.npy", "x", "--typesize", "x"], "'--typesize <N>': expected a whole number"),
        (&["cat", "a", "--chunk", "one"], "'--chunk <N>': expected a whole number"),
        (&["cat", "a", "--offset", ""], "'--offset <N>'"),
        (&["info", "a", "-t", "0"], "'--threads <N>': expected a whole number from 1 to 65535"),
        (&["pack", "f.npy", "x", "--precision", "65"], "expected a whole number from 1 to 64"),
        (&["bench", "--input", "f.npy", "--typesize", "0"], "expected a whole number above 0"),
        (&["insert", "a", "f.npy", "--at", "x"], "'--at <I>': expected a whole number"),
    ] {
        let error_text = folder.fails(2, args);
        assert!(error_text.contains(message), "{message} in:\n{error_text}");
        assert!(error_text.contains("--help"), "{error_text}");
    }
    for (args, message) in [
        (&["pack", "f.npy", "x", "--chunks", "0"][..], "--chunks 0: each length is from 1 to 2147483647"),
        (
            &["pack", "f.npy", "x", "--chunks=10", "--blocks=0"],
            "--blocks 0: each length is from 1 to 2147483647",
        ),
        (&["copy", "a", "x", "--chunks", "0"], "--chunks 0: each length is from 1 to 2147483647"),
        (&["copy", "a", "x", "--chunks", "10,10"], "--chunks 10,10: give 1 length, for example 10"),
        (&["copy", "a", "x", "--blocks", "5,5"], "--blocks 5,5: give 1 length, for example 5"),
        (&["resize", "a", "--shape", "10,10"], "a: --shape 10,10: give 1 length, for example 10"),
        (&["cat", "a", "--slice", "0,0,0"], "a: --slice: 3 parts given, but there is 1 dimension"),
        (
            &["pack", "f.npy", "x", "--filters", "trunc_prec"],
            "--filters trunc_prec: add the number of bits to keep, for example trunc_prec:10",
        ),
        (
            &["pack", "f.npy", "x", "--filters", "trunc_prec:99"],
            "--filters: trunc_prec: parameter 99: give the number of mantissa bits to keep, up to 23 for items of 4 bytes \
             and 52 for 8 bytes, or minus the number to clear",
        ),
        (
            &["pack", "f.npy", "x", "--filters", "ndmean"],
            "--filters ndmean: add the side of a cell, in items, for example ndmean:4",
        ),
    ] {
        folder.refuses(args, message);
    }
    // The two numbers of a loss look different.
    let output = folder.run(&["pack", "f.npy", "l", "--filters", "trunc_prec:20"]);
    let error_text = String::from_utf8(output.stderr).unwrap();
    let (before, after) = error_text.split_once(" became ").unwrap_or_else(|| panic!("{error_text}"));
    let before = before.rsplit(' ').next().unwrap();
    assert!(!after.starts_with(&format!("{before})")), "{error_text}");
}

/// Text is written in parts by all threads: lines and planes end where they should, and each number has the fewest
/// digits that read back as the same.
#[test]
fn text_of_many_numbers() {
    let folder = Folder::new();
    let bytes = noise(8 * 3 * 700 * 50);
    let digits = |text: &str| text.split('e').next().unwrap().bytes().filter(u8::is_ascii_digit).count();
    for (descr, double) in [("<f8", true), ("<f4", false)] {
        let size = if double { 8 } else { 4 };
        folder.pack("a", &npy(descr, false, "(3, 700, 50)", &bytes[..size * 3 * 700 * 50]), &[]);
        let text = folder.ok_text(&["cat", "a", "--text"]);
        assert_eq!(folder.ok_text(&["cat", "a", "--text", "-t", "1"]), text);
        let planes: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(planes.len(), 3);
        assert!(planes.iter().all(|plane| plane.lines().count() == 700));
        assert!(text.lines().all(|line| line.is_empty() || line.split(' ').count() == 50));
        let csv: String =
            (0..3).map(|k| folder.ok_text(&["cat", "a", "--csv", "--slice", &k.to_string()])).collect();
        assert_eq!(csv, text.replace(' ', ",").replace("\n\n", "\n"));
        assert_eq!(text.split_ascii_whitespace().count(), 3 * 700 * 50);
        for (word, item) in text.split_ascii_whitespace().zip(bytes.chunks_exact(size)) {
            let (x, back, shortest) = if double {
                let x = f64::from_le_bytes(item.try_into().unwrap());
                (x, word.parse().unwrap(), format!("{x:e}"))
            } else {
                let x = f32::from_le_bytes(item.try_into().unwrap());
                (f64::from(x), f64::from(word.parse::<f32>().unwrap()), format!("{x:e}"))
            };
            if x.is_nan() {
                assert_eq!(word, "nan");
                continue;
            }
            assert_eq!(back.to_bits(), x.to_bits(), "{word}");
            if x.abs() < 1e-4 || x.abs() >= 1e16 {
                assert_eq!(digits(word), digits(&shortest), "{word}, {shortest}");
            }
        }
    }
    folder.pack("i", &npy(">i2", false, "(3, 700, 50)", &bytes[..2 * 3 * 700 * 50]), &[]);
    let text = folder.ok_text(&["cat", "i", "--text"]);
    let expected = bytes.chunks_exact(2).map(|item| i16::from_be_bytes(item.try_into().unwrap()).to_string());
    assert!(text.split_ascii_whitespace().map(str::to_owned).eq(expected.take(3 * 700 * 50)));
}

/// The colour of a value in pictures: by a table of stops between which colours change evenly.
fn colour(x: f64, low: f64, high: f64) -> [u8; 4] {
    const STOPS: [[i32; 3]; 9] = [
        [68, 1, 84],
        [71, 44, 122],
        [59, 81, 139],
        [44, 113, 142],
        [33, 144, 141],
        [39, 173, 129],
        [92, 200, 99],
        [170, 220, 50],
        [253, 231, 37],
    ];
    if x.is_nan() || x <= -1e30 {
        return [0; 4];
    }
    let at = ((x - low) / (high - low)).clamp(0.0, 1.0) * 8.0;
    let stop = (at.floor() as usize).min(7);
    let mut out = [255; 4];
    for (c, byte) in out.iter_mut().take(3).enumerate() {
        let (from, to) = (f64::from(STOPS[stop][c]), f64::from(STOPS[stop + 1][c]));
        *byte = (from + (to - from) * (at - stop as f64)).round() as u8;
    }
    out
}

/// Pictures are written in bands by all threads. Their pixels are those that a plain computation gives, whether they
/// have a palette (few integers) or not.
#[test]
fn pictures_of_many_bands() {
    let folder = Folder::new();
    let (height, width) = (1500, 1100);
    let shape = format!("({height}, {width})");
    let kind = |png: &[u8]| png[25];
    let check = |name: &str, options: &[&str], values: &[f64], (low, high): (f64, f64), palette: bool| {
        let png = folder.ok(&[&["cat", name, "--png"], options].concat());
        assert_eq!(kind(&png), if palette { 3 } else { 2 }, "{name} {options:?}");
        assert_eq!(folder.ok(&[&["cat", name, "--png", "-t", "1"], options].concat()), png);
        let (w, h, pixels) = picture(&png);
        assert_eq!((h as usize, w as usize), (height, width));
        for (k, (pixel, x)) in pixels.chunks_exact(4).zip(values).enumerate() {
            let expected = colour(*x, low, high);
            // The plain computation may round a value between two colours to the other one.
            let near = pixel.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 1);
            let between =
                (-1..=1).any(|step| colour(x + f64::from(step) * (high - low) * 1e-12, low, high) == pixel);
            assert!(near && between, "{name} {options:?}: item {k}, {x}: {pixel:?}, not {expected:?}");
        }
    };
    // Smooth at the top, noise at the bottom.
    let noise = noise(height * width);
    let mut floats: Vec<f32> = (0..height * width)
        .map(|k| {
            let (y, x) = ((k / width) as f32, (k % width) as f32);
            (y / 90.0).sin() * (x / 130.0).cos() * 10.0
                + if y > 900.0 { f32::from(noise[k]) / 20.0 } else { 0.0 }
        })
        .collect();
    floats[5] = f32::NAN;
    floats[width * height - 1] = -1e34;
    let items: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
    // Chunks that do not end with bands, nor with rows.
    folder.pack("f", &npy("<f4", false, &shape, &items), &["--chunks", "130,170", "--blocks", "60,50"]);
    let values: Vec<f64> = floats.iter().map(|x| f64::from(*x)).collect();
    let usual = || values.iter().copied().filter(|x| *x > -1e30);
    let range = (usual().fold(f64::MAX, f64::min), usual().fold(f64::MIN, f64::max));
    check("f", &[], &values, range, false);
    check("f", &["--range=-3,4.5"], &values, (-3.0, 4.5), false);
    check("f", &["--max-memory", "1M"], &values, range, false);
    folder.pack("b", &npy("|u1", false, &shape, &noise), &[]);
    let bytes: Vec<f64> = noise.iter().map(|x| f64::from(*x)).collect();
    check("b", &[], &bytes, (0.0, 255.0), true);
    check("b", &["--range=10.5,90"], &bytes, (10.5, 90.0), true);
    let items: Vec<u8> = noise.iter().flat_map(|x| (i16::from(*x) * 100).to_be_bytes()).collect();
    folder.pack("i", &npy(">i2", false, &shape, &items), &[]);
    let shorts: Vec<f64> = bytes.iter().map(|x| x * 100.0).collect();
    check("i", &[], &shorts, (0.0, 25500.0), false);
}

/// Many small files are synced and renamed together. Each one exists or is reported, and no temporary files remain.
#[test]
fn many_small_files_are_packed_together() {
    let folder = Folder::new();
    let names: Vec<String> = (0..150).map(|k| format!("{k:03}.npy")).collect();
    for (k, name) in names.iter().enumerate() {
        folder.write(name, &npy("<i4", false, "(64,)", &counting(64 + k as i32)[4 * k..]));
    }
    let mut args = vec!["pack", "-d", "d"];
    args.extend(names.iter().map(String::as_str));
    std::fs::create_dir(folder.path("d")).unwrap();
    folder.write("d/007.b2nd", b"mine");
    folder.write("031.npy", b"\x93NUMPY\x01\x00broken");
    let error_text = slashes(folder.fails(1, &args));
    assert!(error_text.contains("d/007.b2nd: already exists; --force overwrites it"), "{error_text}");
    assert!(error_text.contains("031.npy"), "{error_text}");
    assert_eq!(error_text.lines().filter(|line| line.contains(".npy -> d/")).count(), 148, "{error_text}");
    let there = |folder: &Folder| {
        let files = std::fs::read_dir(folder.path("d")).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let expected: Vec<String> = (0..150).filter(|k| *k != 31).map(|k| format!("{k:03}.b2nd")).collect();
    assert_eq!(there(&folder), expected);
    assert_eq!(folder.read("d/007.b2nd"), b"mine");
    assert_eq!(folder.ok(&["cat", "d/140.b2nd"]), &counting(204)[4 * 140..]);
    // Existing files are also replaced together, and keep their permissions.
    folder.write("031.npy", &npy("<i4", false, "(1,)", &[1, 0, 0, 0]));
    #[cfg(unix)]
    std::fs::set_permissions(folder.path("d/007.b2nd"), std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .unwrap();
    args.push("--force");
    folder.ok(&args);
    assert_eq!(there(&folder).len(), 150);
    assert_eq!(folder.ok(&["cat", "d/007.b2nd"]), &counting(71)[4 * 7..]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path("d/007.b2nd")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
    let mut verify = vec!["verify".to_owned()];
    verify.extend(there(&folder).iter().map(|name| format!("d/{name}")));
    folder.ok(&verify.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The response of a server without TLS to a TLS handshake gives a clear message.
#[cfg(feature = "http")]
#[test]
fn https_to_a_plain_server_is_named() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in server.incoming().flatten() {
            // If it were closed with unread bytes, the connection would be reset before the response arrives.
            let _ = stream.read(&mut vec![0; 1 << 16]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let message = Folder::new().fails(1, &["info", &format!("https://127.0.0.1:{port}/a.b2nd")]);
    assert!(message.contains("the server does not support https here (try http://)"), "{message}");
}

/// Several inputs become one array, in the order of the command line.
#[test]
fn inputs_are_joined_along_any_axis() {
    let item = |n: u32| n.to_le_bytes();
    for axis in [0_usize, 1, 2] {
        for fortran in [false, true] {
            let folder = Folder::new();
            let lengths = [3_usize, 0, 1, 4];
            let total: usize = lengths.iter().sum();
            let mut whole = [5_usize, 6, 7];
            whole[axis] = total;
            let number = |at: [usize; 3]| ((at[0] * whole[1] + at[1]) * whole[2] + at[2]) as u32;
            let (mut first, mut args) = (0, vec!["pack".to_owned(), "-q".into(), "--concat".into()]);
            args.push(if fortran { format!("{}", axis as i64 - 3) } else { axis.to_string() });
            for (n, &length) in lengths.iter().enumerate() {
                let mut shape = whole;
                shape[axis] = length;
                let mut bytes = Vec::new();
                // In Fortran order the first index varies fastest.
                let order = if fortran { [2, 1, 0] } else { [0, 1, 2] };
                for a in 0..shape[order[0]] {
                    for b in 0..shape[order[1]] {
                        for c in 0..shape[order[2]] {
                            let mut at = [0; 3];
                            (at[order[0]], at[order[1]], at[order[2]]) = (a, b, c);
                            at[axis] += first;
                            bytes.extend(item(number(at)));
                        }
                    }
                }
                let shape = format!("({}, {}, {})", shape[0], shape[1], shape[2]);
                folder.write(&format!("{n}.npy"), &npy("<u4", fortran, &shape, &bytes));
                args.push(format!("{n}.npy"));
                first += length;
            }
            args.push("whole".into());
            args.extend(["--chunks", "2,3,4", "--blocks", "1,2,3"].map(String::from));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            folder.ok(&args);
            let expected: Vec<u8> = (0..whole.iter().product::<usize>() as u32).flat_map(item).collect();
            assert_eq!(folder.ok(&["cat", "whole"]), expected, "axis {axis}, fortran {fortran}");

            // The same by appending to the first one, in one change.
            let axis = axis.to_string();
            folder.ok(&["pack", "0.npy", "grown", "--chunks", "2,3,4"]);
            let output = folder.change(&["append", "grown", "1.npy", "2.npy", "3.npy", "--axis", &axis]);
            assert!(
                output.starts_with(&format!("grown: 5 positions appended to dimension {axis}, ")),
                "{output}"
            );
            assert_eq!(folder.ok(&["cat", "grown"]), expected);
            // And by inserting the middle ones.
            folder.ok(&["pack", "--concat", &axis, "0.npy", "3.npy", "filled"]);
            folder.change(&["insert", "filled", "1.npy", "2.npy", "--axis", &axis, "--at", "3"]);
            assert_eq!(folder.ok(&["cat", "filled"]), expected);
        }
    }
}

#[test]
fn inputs_are_stacked_along_a_new_axis() {
    let folder = Folder::new();
    let days: Vec<Vec<u8>> = (0..3_u8).map(|day| (0..6).map(|i| day * 10 + i).collect()).collect();
    for (n, day) in days.iter().enumerate() {
        folder.write(&format!("{n}.npy"), &npy("|u1", false, "(2, 3)", day));
        folder.write(&format!("{n}.raw"), day);
    }
    for (stack, shape, expected) in [
        ("--stack", "[3,2,3]", days.concat()),
        ("--stack=0", "[3,2,3]", days.concat()),
        (
            "--stack=1",
            "[2,3,3]",
            (0..2).flat_map(|i| (0..3).flat_map(move |d| (0..3).map(move |j| d * 10 + i * 3 + j))).collect(),
        ),
        ("--stack=-1", "[2,3,3]", (0..6).flat_map(|i| (0..3).map(move |d| d * 10 + i)).collect()),
    ] {
        folder.ok(&["pack", stack, "0.npy", "1.npy", "2.npy", "days", "--force"]);
        assert_eq!(folder.info(&["days"])["shape"].to_string(), shape, "{stack}");
        assert_eq!(folder.ok(&["cat", "days"]), expected, "{stack}");
        folder.ok(&[
            "pack", stack, "0.raw", "1.raw", "2.raw", "raw", "--force", "--dtype", "|u1", "--shape", "2,3",
        ]);
        assert_eq!(folder.ok(&["cat", "raw"]), expected, "{stack} of raw bytes");
    }
    // Numbers without dimensions, and arrays that numpy.save wrote into one file.
    folder.write("one.npy", &npy("|u1", false, "()", &[7]));
    let many = [npy("|u1", false, "(2,)", &[1, 2]), npy("|u1", false, "(2,)", &[3, 4])].concat();
    folder.write("many.npy", &many);
    folder.ok(&["pack", "--stack", "one.npy", "one.npy", "ones"]);
    assert_eq!(
        (folder.ok(&["cat", "ones"]), folder.info(&["ones"])["shape"].to_string()),
        (vec![7, 7], "[2]".into())
    );
    folder.ok(&["pack", "--concat", "0", "--each", "many.npy", "many.npy", "all"]);
    assert_eq!(folder.ok(&["cat", "all"]), [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn inputs_that_do_not_fit_are_refused_by_name() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("|u1", false, "(2, 3)", &[0; 6]));
    folder.write("b.npy", &npy("|u1", false, "(2, 4)", &[0; 8]));
    folder.write("c.npy", &npy("|i1", false, "(2, 3)", &[0; 6]));
    folder.write("d.raw", &[0; 6]);
    for (args, message) in [
        (
            &["pack", "--concat", "0", "a.npy", "b.npy", "x"][..],
            "b.npy: the shape is 2, 4, the array has 2, 3: all but dimension 0 must be the same",
        ),
        (&["pack", "--concat", "2", "a.npy", "a.npy", "x"], "--concat 2: the array has 2 dimensions"),
        (&["pack", "--stack=3", "a.npy", "a.npy", "x"], "--stack 3: the array has 3 dimensions"),
        (&["pack", "--stack", "a.npy", "b.npy", "x"], "b.npy: the shape is 2, 4, expected 2, 3"),
        (&["pack", "--stack", "a.npy", "c.npy", "x"], "c.npy: the dtype is |i1, the array has |u1"),
        (&["pack", "--stack", "a.npy", "d.raw", "x"], "d.raw: not an .npy file, as the others are"),
        (
            &["pack", "--stack", "d.raw", "d.raw", "x"],
            "d.raw: raw bytes: --concat and --stack join arrays, so add --dtype",
        ),
    ] {
        folder.refuses(args, message);
    }
    // Shapes that follow from the bytes of each file.
    folder.write("e.raw", &[0; 12]);
    let raw = ["--dtype", "|u1", "--shape", "2,-1"];
    for (join, message) in [
        ("--concat=0", "e.raw: the shape is 2, 6, the array has 2, 3: all but dimension 0 must be the same"),
        ("--stack", "e.raw: the shape is 2, 6, expected 2, 3"),
    ] {
        folder.refuses(&[&["pack", join, "d.raw", "e.raw", "x"][..], &raw].concat(), message);
    }
    folder.ok(&[&["pack", "--concat=1", "d.raw", "e.raw", "y"][..], &raw].concat());
    assert_eq!(folder.info(&["y"])["shape"].to_string(), "[2,9]");
    for name in ["e.raw", "y"] {
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    for args in [
        &["pack", "a.npy", "b.npy", "x"][..],
        &["pack", "--stack", "--concat", "0", "a.npy", "x"],
        &["pack", "--stack", "-d", "x", "a.npy"],
        &["pack", "--each", "a.npy", "x"],
        &["append", "a", "-", "-"],
    ] {
        folder.fails(2, args);
    }
    assert_eq!(folder.names(), ["a.npy", "b.npy", "c.npy", "d.raw"]);
}

/// More inputs than a process may have open files by default.
#[test]
fn very_many_inputs_are_joined() {
    let folder = Folder::new();
    folder.write("a.npy", &npy("<u2", false, "(1, 2)", &[1, 2, 3, 4]));
    let args = [&["pack", "--concat", "0"][..], &["a.npy"; 1500], &["whole"]].concat();
    folder.ok(&args);
    assert_eq!(folder.info(&["whole"])["shape"].to_string(), "[1500,2]");
    folder.change(&[&["append", "whole"][..], &["a.npy"; 1500]].concat());
    assert_eq!(folder.ok(&["cat", "whole"]), [1, 2, 3, 4].repeat(3000));
}

/// A file that is mostly holes says so when it changes.
#[test]
fn holes_are_told() {
    let folder = Folder::new();
    let noise = crate::common::noise(2 << 20);
    folder.pack("a", &npy("|u1", false, "(2097152,)", &noise), &["--chunks", "1048576"]);
    folder.write("b.npy", &npy("|u1", false, "(2097152,)", &noise));
    let first = folder.change(&["set", "a", "b.npy", "--slice=:"]);
    let second = folder.change(&["set", "a", "b.npy", "--slice=:"]);
    assert!(!first.contains("holes"), "half of it is in use: {first}");
    assert!(second.contains("a: 4.00 MiB of 6.0") && second.contains("b2kit compact"), "{second}");
    assert_eq!(folder.change(&["set", "-q", "a", "b.npy", "--slice=:"]), "");
    assert!(!folder.change(&["compact", "a"]).contains("holes,"), "nothing is left");
}
