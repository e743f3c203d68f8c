//! Files of other formats are recognised and named, not stored as bytes by mistake.

use std::fs;

use crate::common::{Folder, counting, npy};

fn zip(name: &str) -> Vec<u8> {
    let mut out = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend((name.len() as u16).to_le_bytes());
    out.extend([0, 0]);
    out.extend(name.as_bytes());
    out
}

#[test]
fn pack_refuses_other_formats() {
    let folder = Folder::new();
    folder.pack("array", &npy("<i4", false, "(300,)", &counting(300)), &[]);
    folder.pack("chunk", &counting(300), &["--format", "chunk", "--typesize", "4"]);
    let mut late = vec![7; 512];
    late.extend(b"\x89HDF\r\n\x1a\n and more");
    let cases = [
        (folder.read("array"), "Blosc2"),
        (folder.read("chunk"), "Blosc2"),
        (b"\x89HDF\r\n\x1a\n and more".to_vec(), "HDF5"),
        (late, "HDF5"),
        (b"CDF\x01\0\0\0\0\0\0\0".to_vec(), "NetCDF"),
        (b"CDF\x05\0\0\0\0\0\0\0".to_vec(), "NetCDF"),
        (b"II*\0\x08\0\0\0".to_vec(), "TIFF"),
        (b"MM\0*\0\0\0\x08".to_vec(), "TIFF"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), "PNG"),
        (zip("arr_0.npy"), ".npz"),
        (zip("x/.zarray"), "Zarr"),
        (zip("notes.txt"), "zip"),
        (b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "gzip"),
        (b"BZh51AY&SY\0\0\0".to_vec(), "bzip2"),
        ([&[b'a'; 344][..], b"n+1\0"].concat(), "NIfTI"),
        ([&[0x1c, 2, 0, 0][..], b"n+2\0\r\n\x1a\n"].concat(), "NIfTI"),
        (b"{\"zarr_format\": 3}".to_vec(), "Zarr"),
        ([&[b'#'; 8192][..], b"\x89HDF\r\n\x1a\n and more"].concat(), "HDF5"),
    ];
    for (bytes, word) in cases {
        // The name does not matter.
        for name in ["in.bin", "in.npy", "in.dat"] {
            folder.write(name, &bytes);
            let message = folder.fails(2, &["pack", name, "out"]);
            assert!(message.contains(word) && message.contains("--raw"), "{message}");
            assert!(!folder.path("out").exists());
        }
        let output = folder.with_input(&["pack", "-", "out"], &bytes);
        assert_eq!(output.status.code(), Some(2), "{word}");
        folder.change(&["pack", "in.bin", "out", "--raw"]);
        assert_eq!(folder.ok(&["cat", "out"]), bytes, "{word}");
        fs::remove_file(folder.path("out")).unwrap();
    }
    // Tables are recognised by name and content.
    let table = b"time,value\n0,1.5\n1,2.5\n";
    folder.write("t.csv", table);
    assert!(folder.fails(2, &["pack", "t.csv", "out"]).contains("CSV"));
    folder.write("t.bin", table);
    folder.change(&["pack", "t.bin", "out"]);
    folder.write("u.csv", &[0, 1, 2, 255]);
    folder.change(&["pack", "u.csv", "out", "--force"]);
    // An .npy file packed as bytes.
    let array = npy("<i4", false, "(300,)", &counting(300));
    folder.write("a.npy", &array);
    folder.change(&["pack", "a.npy", "out", "--raw", "--force"]);
    assert_eq!(folder.ok(&["cat", "out"]), array);
    assert_eq!(folder.info(&["out"])["kind"], "schunk");
}

#[test]
fn folders_are_told() {
    let folder = Folder::new();
    for (name, file) in [("v2.zarr", ".zarray"), ("v3", "zarr.json"), ("group", ".zgroup")] {
        fs::create_dir(folder.path(name)).unwrap();
        folder.write(&format!("{name}/{file}"), b"{}");
        let message = folder.fails(2, &["pack", name, "out"]);
        assert!(message.contains("a Zarr array; b2kit convert makes arrays of it"), "{message}");
        let message = folder.fails(1, &["show", name]);
        assert!(message.contains("a Zarr array; b2kit convert makes arrays of it"), "{message}");
    }
    folder.pack("dir", &counting(30), &["--format", "sframe"]);
    assert!(folder.fails(2, &["pack", "dir", "out"]).contains("Blosc2"));
}

/// A file of another format is hardly meant as the bytes of items, even where its length fits.
#[test]
fn changes_refuse_other_formats() {
    let folder = Folder::new();
    folder.pack("a", &npy("<u1", false, "(4, 16)", &[1; 64]), &[]);
    let before = folder.read("a");
    let mut hdf5 = b"\x89HDF\r\n\x1a\n".to_vec();
    hdf5.resize(16, 0);
    folder.write("in", &hdf5);
    for args in
        [&["append", "a", "in"][..], &["insert", "a", "in", "--at", "0"], &["set", "a", "in", "--slice=0"]]
    {
        let message = folder.fails(1, args);
        assert!(
            message.contains("in: an HDF5 file") && message.contains("standard input"),
            "{args:?}: {message}"
        );
    }
    assert_eq!(folder.read("a"), before);
    let output = folder.with_input(&["append", "a", "-", "-q"], &hdf5);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(folder.ok(&["cat", "a", "--slice=4"]), hdf5);
    // A super-chunk takes any bytes.
    folder.pack("s", &[1; 64], &["--chunksize", "16"]);
    folder.change(&["append", "s", "in", "-q"]);
    assert_eq!(folder.ok(&["cat", "s", "--slice=64:"]), hdf5);
}

/// The name of the file counts, not that of a link to it.
#[cfg(unix)]
#[test]
fn links_to_files_of_other_formats_are_not_written_through() {
    let folder = Folder::new();
    let array = npy("<i4", false, "(300,)", &counting(300));
    folder.write("in.npy", &array);
    folder.write("other.npy", &array);
    std::os::unix::fs::symlink("other.npy", folder.path("link.b2nd")).unwrap();
    let message = folder.fails(1, &["pack", "in.npy", "link.b2nd", "--force"]);
    assert!(message.contains("name of another format"), "{message}");
    assert_eq!(folder.read("other.npy"), array);
}

#[test]
fn readers_tell_what_they_were_given() {
    let folder = Folder::new();
    folder.write("text", b"hello, this is no array");
    folder.write("a.npy", &npy("<i4", false, "(300,)", &counting(300)));
    folder.write("a.npz", &zip("arr_0.npy"));
    folder.write("p", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and more of it");
    for command in ["info", "cat"] {
        let output_of = |name| folder.fails(1, &[command, name]);
        assert!(
            output_of("text").contains("not a Blosc2 file (it starts with \"hello, t\")"),
            "{}",
            output_of("text")
        );
        assert!(output_of("a.npy").contains("not a Blosc2 file but an .npy file: pack it first"));
        assert!(output_of("p").contains("a PNG image"));
    }
    let answer = String::from_utf8(folder.run(&["verify", "text"]).stdout).unwrap();
    assert!(
        answer.starts_with("FAIL\t-\t-\ttext\tnot a Blosc2 file (it starts with \"hello, t\")"),
        "{answer}"
    );
}

#[test]
fn a_file_that_is_cut_off_tells_how_much_is_there() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(100, 3000)", &crate::common::noise(1_200_000)), &[]);
    let whole = folder.read("a");
    for have in [100_000, 700_001, whole.len() - 1] {
        folder.write("cut", &whole[..have]);
        let message = folder.fails(1, &["info", "cut"]);
        assert!(message.contains("cut off: needs 1,20") && message.contains("b2kit salvage"), "{message}");
        assert!(message.contains(&format!("({} %)", have * 100 / whole.len())), "{message}");
    }
}
