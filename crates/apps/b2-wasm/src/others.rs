//! Guesses what other files are by their first bytes.

/// `b2kit convert` reads versions 3 and 4 of NetCDF; the latter is HDF5.
const HDF5: &str = "an HDF5 or NetCDF file; `b2kit convert` converts it to arrays";
const PICTURE: &str = "a picture; convert it to a `.npy` file with NumPy and Pillow, then use `b2kit pack`";

/// First bytes of other common files, and messages for them.
const OTHER_FORMATS: &[(&[u8], &str)] = &[
    (
        b"\x93NUMPY",
        "a NumPy file; `b2kit pack` converts it to an array, and `b2kit view` draws it in a terminal",
    ),
    (b"\x89HDF\r\n", HDF5),
    (b"CDF", HDF5),
    (b"\x89PNG", PICTURE),
    (b"\xff\xd8\xff", PICTURE),
    (b"GIF8", PICTURE),
    (b"II*\0", PICTURE),
    (b"MM\0*", PICTURE),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"PAR1", "a Parquet file, which `b2kit` does not read"),
    (b"%PDF", "a PDF document"),
    (b"<", "apparently a web page; check the address"),
    (b"{", "apparently JSON; for a Zarr array it has only the metadata"),
];

/// Guesses the format of another file.
pub(crate) fn guess(first: &[u8]) -> String {
    let other = OTHER_FORMATS.iter().find(|(start, _)| first.starts_with(start));
    other.map_or_else(String::new, |(_, what)| format!(". It is {what}"))
}

/// Guesses the format of a zip archive without Blosc2 files from the name of its first file.
pub(crate) fn guess_zip(first: &[u8]) -> &'static str {
    let len = match first.get(26..28) {
        Some([low, high]) => usize::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    };
    let name = first.get(30..30 + len).unwrap_or_default();
    if name.ends_with(b".npy") {
        ". It contains NumPy arrays (.npz): unpack it and use `b2kit pack` on the `.npy` files"
    } else if [&b"zarr.json"[..], b".zarray", b".zgroup", b".zattrs"].iter().any(|end| name.ends_with(end)) {
        ". It is a Zarr store, which the page does not support"
    } else {
        ""
    }
}
