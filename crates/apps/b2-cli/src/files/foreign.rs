//! Recognises files of other formats by their first bytes, so that a user who means the array in a file does not store
//! the file itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use b2kit::chunk::ChunkHeader;
use b2kit::frame::{Disk, FileKind, Links, ReadAt, ReadFiles};

use super::stdio::is_stdin;
use super::urls;

/// Number of bytes to examine from the start of a file.
pub(crate) const LOOK: u64 = 4096;

/// A recognised format, such as "an HDF5 file", and advice for the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Foreign {
    pub(crate) what: &'static str,
    pub(crate) hint: &'static str,
}

impl Foreign {
    /// Whether it is a Blosc2 file.
    pub(crate) fn is_ours(self) -> bool {
        self.hint == OURS
    }
}

const EXPORT: &str = "save the array as .npy with a program that reads it, and pack that";
const CONVERT: &str = if cfg!(feature = "hdf5") {
    "b2kit convert makes arrays of it"
} else {
    "b2kit convert makes arrays of it, in a build with the feature hdf5"
};
const FOLDER: &str = if cfg!(feature = "hdf5") {
    "b2kit convert makes arrays of the folder that it is in"
} else {
    "b2kit convert makes arrays of the folder that it is in, in a build with the feature hdf5"
};
const NIFTI: &str = "a NIfTI file";
const NPZ: &str = "an .npz file, a zip archive of .npy files";
const ZARR: &str = "a Zarr array";
const UNPACKED: &str = "unpack it first";
/// Advice for a store.
pub(crate) const STORE: &str = "--key picks a member, b2kit ls lists them";
const OURS: &str = "b2kit copy rewrites it";

pub(crate) const CHUNK: &str = "a Blosc2 chunk";

/// Signatures at the start of files.
const MAGICS: [(&[u8], &str, &str); 54] = [
    (&b2kit::frame::MAGIC, "a Blosc2 file", OURS),
    (b"\x93NUMPY", "an .npy file", "pack it first"),
    (b"CDF\x01", "a NetCDF file", CONVERT),
    (b"CDF\x02", "a NetCDF file", CONVERT),
    (b"CDF\x05", "a NetCDF file", CONVERT),
    (b"II*\0", "a TIFF image", EXPORT),
    (b"MM\0*", "a TIFF image", EXPORT),
    (b"II+\0", "a TIFF image", EXPORT),
    (b"MM\0+", "a TIFF image", EXPORT),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", EXPORT),
    (b"\xff\xd8\xff", "a JPEG image", EXPORT),
    (b"GIF87a", "a GIF image", EXPORT),
    (b"GIF89a", "a GIF image", EXPORT),
    (b"SIMPLE  =", "a FITS file", EXPORT),
    (b"GRIB", "a GRIB file", EXPORT),
    (b"PAR1", "a Parquet file", EXPORT),
    (b"ARROW1", "an Arrow file", EXPORT),
    (b"MATLAB 5.0 MAT", "a MATLAB file", EXPORT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"%PDF-", "a PDF document", EXPORT),
    (b"\x1f\x8b\x08", "a gzip file", UNPACKED),
    (b"\xfd7zXZ\0", "an xz file", UNPACKED),
    (b"LZIP\x01", "an lzip file", UNPACKED),
    (b"\x28\xb5\x2f\xfd", "a zstd file", UNPACKED),
    (b"\x04\x22\x4d\x18", "an lz4 file", UNPACKED),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACKED),
    (b"Rar!\x1a\x07", "a RAR archive", UNPACKED),
    (b"OggS", "an Ogg file", EXPORT),
    (b"fLaC", "a FLAC file", EXPORT),
    (b"ID3", "an MP3 file", EXPORT),
    (b"\x1a\x45\xdf\xa3", "a Matroska film", EXPORT),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 image", EXPORT),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 image", EXPORT),
    (b"\x76\x2f\x31\x01", "an OpenEXR image", EXPORT),
    (b"8BPS\0", "a Photoshop image", EXPORT),
    (b"\x0e\x03\x13\x01", "an HDF4 file", EXPORT),
    (b"BUFR", "a BUFR file", EXPORT),
    (b"NRRD000", "an NRRD file", EXPORT),
    (b"# vtk DataFile", "a VTK file", EXPORT),
    (b"#ASDF ", "an ASDF file", EXPORT),
    (b"Obj\x01", "an Avro file", EXPORT),
    (b"ORC\x11", "an ORC file", EXPORT),
    (b"FEA1", "a Feather file", EXPORT),
    (b"GGUF", "a GGUF file", EXPORT),
    (b"MATLAB 7.3 MAT", "a MATLAB file", EXPORT),
    (b"\x80\x02}", "a pickle of Python", EXPORT),
    (b"\x80\x03}", "a pickle of Python", EXPORT),
    (b"\x80\x04\x95", "a pickle of Python", EXPORT),
    (b"\x80\x05\x95", "a pickle of Python", EXPORT),
    (b"{\\rtf", "a text document", EXPORT),
    (b"\0asm", "a program", "it is not data"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document", EXPORT),
    (b"\x7fELF", "a program", "it is not data"),
    (b"PK\x05\x06", "a zip archive without members", "there is nothing in it"),
];

/// Signatures at other offsets.
const INSIDE: [(usize, &[u8], &str, &str); 8] = [
    (344, b"n+1\0", NIFTI, CONVERT),
    (344, b"ni1\0", "the header of a NIfTI file", EXPORT),
    (4, b"n+2\0\r\n\x1a\n", NIFTI, CONVERT),
    (4, b"ni2\0\r\n\x1a\n", "the header of a NIfTI file", EXPORT),
    (128, b"DICM", "a DICOM file", EXPORT),
    (208, b"MAP \x44\x44\0\0", "an MRC file", EXPORT),
    (4, b"ftyp", "a film or image (MP4, HEIF, AVIF)", EXPORT),
    (257, b"ustar", "a tar archive", UNPACKED),
];

const HDF5: Foreign = Foreign { what: "an HDF5 file (or NetCDF 4)", hint: CONVERT };

/// Recognises a file by its first bytes, up to [`LOOK`] of them, and tables also by their name. `None` if its format
/// is unknown.
pub(crate) fn recognise(path: &Path, head: &[u8], len: u64) -> Option<Foreign> {
    // HDF5 allows other bytes before its signature, such as those of MATLAB.
    if user_blocks(head.len() as u64).any(|at| {
        usize::try_from(at).ok().and_then(|at| head.get(at..)).is_some_and(|rest| rest.starts_with(SIGNATURE))
    }) {
        return Some(HDF5);
    }
    if let Some((_, what, hint)) = MAGICS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(Foreign { what, hint });
    }
    if head.starts_with(b"PK\x03\x04") {
        return Some(archive(head));
    }
    if let Some((.., what, hint)) =
        INSIDE.iter().find(|(at, magic, ..)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
    {
        return Some(Foreign { what, hint });
    }
    if head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY") {
        return Some(Foreign { what: "a bzip2 file", hint: UNPACKED });
    }
    if is_tar(head) {
        return Some(Foreign { what: "a tar archive", hint: UNPACKED });
    }
    if is_zarr_metadata(head) {
        return Some(Foreign { what: "the metadata of a Zarr array", hint: FOLDER });
    }
    if let (Some(b"RIFF"), Some(kind)) = (head.get(..4), head.get(8..12)) {
        match kind {
            b"WAVE" => return Some(Foreign { what: "a WAV file", hint: EXPORT }),
            b"WEBP" => return Some(Foreign { what: "a WebP image", hint: EXPORT }),
            _ => {}
        }
    }
    if ChunkHeader::parse(head).is_ok_and(|chunk| chunk.is_extended() && chunk.cbytes() as u64 == len) {
        return Some(Foreign { what: CHUNK, hint: OURS });
    }
    is_table(path, head).then_some(Foreign { what: "a table in text (CSV)", hint: EXPORT })
}

/// The signature of HDF5.
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Offsets at which HDF5 may start in a file of this length: 0, or a power of two from 512 on.
fn user_blocks(len: u64) -> impl Iterator<Item = u64> {
    let blocks = std::iter::successors(Some(512_u64), |at| at.checked_mul(2));
    std::iter::once(0).chain(blocks).take_while(move |at| at.saturating_add(SIGNATURE.len() as u64) <= len)
}

/// Like [`recognise`], but also finds HDF5 at offsets beyond the end of `head`. `read` reads bytes at an offset.
pub(crate) fn recognise_file(
    path: &Path,
    head: &[u8],
    len: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Option<Foreign>> {
    if let Some(found) = recognise(path, head, len) {
        return Ok(Some(found));
    }
    let mut start = [0; SIGNATURE.len()];
    for at in user_blocks(len).filter(|at| *at >= LOOK) {
        read(&mut start, at)?;
        if start == SIGNATURE {
            return Ok(Some(HDF5));
        }
    }
    Ok(None)
}

/// Whether the first block is that of a tar archive, which even without a signature contains its own checksum.
fn is_tar(head: &[u8]) -> bool {
    let (Some(block), Some(field)) = (head.get(..512), head.get(148..156)) else { return false };
    let told = std::str::from_utf8(field).ok().map(|text| text.trim_matches([' ', '\0']));
    let told = told.filter(|text| text.len() >= 4).and_then(|text| u64::from_str_radix(text, 8).ok());
    let bytes = block.iter().enumerate();
    let sum =
        bytes.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum::<u64>();
    block.first() != Some(&0) && told == Some(sum)
}

/// Whether this is one of the JSON files of Zarr.
fn is_zarr_metadata(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
    text.starts_with(b"{") && (has(b"\"zarr_format\"") || has(b"\"zarr_consolidated_format\""))
}

/// Recognises what a zip archive contains, by the name of its first member.
fn archive(head: &[u8]) -> Foreign {
    let name = head.get(26..28).and_then(|len| Some(usize::from(u16::from_le_bytes(len.try_into().ok()?))));
    let name = name.and_then(|len| head.get(30..30 + len)).unwrap_or_default();
    if name.ends_with(b".npy") {
        return Foreign { what: NPZ, hint: CONVERT };
    }
    if [&b".zarray"[..], b".zgroup", b".zattrs", b"zarr.json"].iter().any(|end| name.ends_with(end)) {
        return Foreign { what: "a Zarr array in a zip archive", hint: UNPACKED };
    }
    if [&b".b2nd"[..], b".b2f", b".b2b", b".b2e"].iter().any(|end| name.ends_with(end)) {
        return Foreign { what: "a store of Blosc2 files", hint: STORE };
    }
    Foreign { what: "a zip archive", hint: UNPACKED }
}

/// Opens a regular file or a URL. Does not block if the path has become a FIFO in the meantime.
pub(crate) fn open_regular(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    if urls::is_url(path) { urls::open(path) } else { Disk.open(path, Links::Follow) }
}

/// Recognises an HDF5 or NetCDF file; `None` for other and unreadable files.
pub(crate) fn hdf5(path: &Path) -> Option<&'static str> {
    found(path)
        .filter(|found| found.hint == CONVERT && ![NPZ, NIFTI].contains(&found.what))
        .map(|found| found.what)
}

/// Recognises a file; `None` for unknown and unreadable ones.
fn found(path: &Path) -> Option<Foreign> {
    let is_file = match urls::is_url(path) {
        true => matches!(urls::kind(path), Ok(FileKind::File)),
        false => !is_stdin(path) && path.is_file(),
    };
    if !is_file {
        return None;
    }
    let file = open_regular(path).ok()?;
    let len = file.len().ok()?;
    let head = file.read_at(0..LOOK.min(len)).ok()?;
    recognise_file(Path::new(""), &head, len, |buf, at| file.read_exact_at(at, buf)).ok()?
}

/// Whether the file has the extension of a table, and its content is text.
fn is_table(path: &Path, head: &[u8]) -> bool {
    let named = super::members::extension(path);
    let named = matches!(named.as_deref(), Some("csv" | "tsv" | "tab"));
    // The last character may be incomplete.
    let text = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let clean = !head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace());
    named && text && clean && !head.is_empty()
}

/// Whether a directory is an array or a group of Zarr.
pub(crate) fn is_zarr(path: &Path) -> bool {
    [".zarray", "zarr.json", ".zgroup", ".zmetadata"].iter().any(|name| path.join(name).exists())
}

/// Whether a file is an `.npz` file; false if it cannot be read.
#[cfg(feature = "hdf5")]
pub(crate) fn is_npz(path: &Path) -> bool {
    found(path).is_some_and(|found| found.what == NPZ)
}

/// Recognises a directory that is not a sparse frame.
pub(crate) fn directory(path: &Path) -> Option<Foreign> {
    if is_zarr(path) {
        return Some(Foreign { what: ZARR, hint: CONVERT });
    }
    if path.join(b2kit::frame::INDEX_NAME).exists() {
        return Some(Foreign { what: "a Blosc2 file (a sparse frame)", hint: OURS });
    }
    None
}

/// How an unknown file starts: `hello, t` in quotes, or binary data in hexadecimal.
pub(crate) fn first_bytes(head: &[u8]) -> String {
    let head = head.get(..8).unwrap_or(head);
    match std::str::from_utf8(head) {
        Ok("") => "it is empty".into(),
        Ok(text) if !text.chars().any(char::is_control) => format!("it starts with \"{text}\""),
        _ => {
            let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("it starts with the bytes {}", hex.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content() {
        let what =
            |name: &str, head: &[u8]| recognise(Path::new(name), head, 1 << 20).map(|found| found.what);
        assert_eq!(what("x.bin", b"\x89HDF\r\n\x1a\n...."), Some("an HDF5 file (or NetCDF 4)"));
        assert_eq!(what("x.png", b"\x89PNG\r\n\x1a\n"), Some("a PNG image"));
        assert_eq!(what("x.csv", b"a,b\n1,2\n"), Some("a table in text (CSV)"));
        assert_eq!(what("x.csv", b"a,b\n\xc3"), Some("a table in text (CSV)"), "a character that is cut");
        assert_eq!(what("x.csv", b"\0\x01\x02"), None);
        assert_eq!(what("x.raw", b"a,b\n1,2\n"), None);
        let mut zip = b"PK\x03\x04".to_vec();
        zip.resize(26, 0);
        zip.extend([9, 0, 0, 0]);
        zip.extend(b"arr_0.npy");
        assert_eq!(what("x", &zip), Some("an .npz file, a zip archive of .npy files"));
        assert_eq!(what("x", &zip[..20]), Some("a zip archive"));
        assert_eq!(what("x", b""), None);
        assert_eq!(what("x", b"BZh31AY&SY"), Some("a bzip2 file"));
        assert_eq!(what("x", b"{\n  \"zarr_format\": 2"), Some("the metadata of a Zarr array"));
        for (at, magic, name) in [(344, &b"n+1\0"[..], "a NIfTI file"), (128, b"DICM", "a DICOM file")] {
            let head = [&vec![b'a'; at][..], magic].concat();
            assert_eq!(what("x", &head), Some(name));
        }
    }

    #[test]
    fn hdf5_is_found_behind_other_bytes() {
        let whole = |head: &[u8], file: &[u8]| {
            let read = |buf: &mut [u8], at: u64| {
                buf.copy_from_slice(&file[at as usize..][..buf.len()]);
                Ok(())
            };
            recognise_file(Path::new("x"), head, file.len() as u64, read).unwrap()
        };
        for block in [0_usize, 512, 1024, 2048, 4096, 8192, 1 << 20] {
            for lead in [0, b'a'] {
                let file = [&vec![lead; block][..], SIGNATURE, &[0; 600]].concat();
                let head = &file[..file.len().min(LOOK as usize)];
                assert_eq!(whole(head, &file), Some(HDF5), "{block}");
            }
        }
        let file = [&[b'a'; 600][..], SIGNATURE].concat();
        assert_eq!(whole(&file, &file), None);
    }

    /// Old archives have no signature.
    #[test]
    fn tar_is_told_by_its_sum() {
        let mut block = vec![0; 512];
        block[..5].copy_from_slice(b"a.txt");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert!(is_tar(&block));
        block[0] += 1;
        assert!(!is_tar(&block));
    }

    #[test]
    fn starts_are_shown() {
        assert_eq!(first_bytes(b"hello, this"), "it starts with \"hello, t\"");
        assert_eq!(first_bytes(b"\x00\x01"), "it starts with the bytes 00 01");
        assert_eq!(first_bytes(b""), "it is empty");
    }
}
