//! Recognises files by their first bytes.

use FormatKind::{Blosc2, Hdf5, Nifti, Npy, Npz, Other, Packed, Store, Useless, Zarr};

/// The kind of a file, by what `b2kit` does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatKind {
    /// A Blosc2 file.
    Blosc2,
    /// A store of Blosc2 files.
    Store,
    /// A file of NumPy.
    Npy,
    /// An archive of files of NumPy.
    Npz,
    /// HDF5 or NetCDF.
    Hdf5,
    /// A NIfTI image.
    Nifti,
    /// The metadata of Zarr.
    Zarr,
    /// A format that no command reads.
    Other,
    /// A compressed file, or an archive.
    Packed,
    /// A file without data.
    Useless,
}

/// A format, and its name with an article.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its kind.
    pub kind: FormatKind,
    /// Its name, such as "an HDF5 file".
    pub what: &'static str,
}

/// Number of bytes from the start of a file that are enough for [`recognise`].
pub const LOOK_LEN: u64 = 4096;

/// The signature of HDF5.
pub const HDF5_MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";

/// HDF5, which [`recognise`] finds only in the bytes it gets.
pub const HDF5: Format = Format { kind: Hdf5, what: "an HDF5 file (or NetCDF 4)" };

/// Signatures, and where they are.
const SIGNATURES: [(usize, &[u8], &str, FormatKind); 62] = [
    (0, &b2_frame::MAGIC, "a Blosc2 file", Blosc2),
    (0, b"\x93NUMPY", "an .npy file", Npy),
    (0, b"CDF\x01", "a NetCDF file", Hdf5),
    (0, b"CDF\x02", "a NetCDF file", Hdf5),
    (0, b"CDF\x05", "a NetCDF file", Hdf5),
    (0, b"II*\0", "a TIFF image", Other),
    (0, b"MM\0*", "a TIFF image", Other),
    (0, b"II+\0", "a TIFF image", Other),
    (0, b"MM\0+", "a TIFF image", Other),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", Other),
    (0, b"\xff\xd8\xff", "a JPEG image", Other),
    (0, b"GIF87a", "a GIF image", Other),
    (0, b"GIF89a", "a GIF image", Other),
    (0, b"SIMPLE  =", "a FITS file", Other),
    (0, b"GRIB", "a GRIB file", Other),
    (0, b"PAR1", "a Parquet file", Other),
    (0, b"ARROW1", "an Arrow file", Other),
    (0, b"MATLAB 5.0 MAT", "a MATLAB file", Other),
    (0, b"SQLite format 3\0", "an SQLite database", Other),
    (0, b"%PDF-", "a PDF document", Other),
    (0, b"\x1f\x8b\x08", "a gzip file", Packed),
    (0, b"\xfd7zXZ\0", "an xz file", Packed),
    (0, b"LZIP\x01", "an lzip file", Packed),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file", Packed),
    (0, b"\x04\x22\x4d\x18", "an lz4 file", Packed),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", Packed),
    (0, b"Rar!\x1a\x07", "a RAR archive", Packed),
    (0, b"OggS", "an Ogg file", Other),
    (0, b"fLaC", "a FLAC file", Other),
    (0, b"ID3", "an MP3 file", Other),
    (0, b"\x1a\x45\xdf\xa3", "a Matroska film", Other),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 image", Other),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image", Other),
    (0, b"\x76\x2f\x31\x01", "an OpenEXR image", Other),
    (0, b"8BPS\0", "a Photoshop image", Other),
    (0, b"\x0e\x03\x13\x01", "an HDF4 file", Other),
    (0, b"BUFR", "a BUFR file", Other),
    (0, b"NRRD000", "an NRRD file", Other),
    (0, b"# vtk DataFile", "a VTK file", Other),
    (0, b"#ASDF ", "an ASDF file", Other),
    (0, b"Obj\x01", "an Avro file", Other),
    (0, b"ORC\x11", "an ORC file", Other),
    (0, b"FEA1", "a Feather file", Other),
    (0, b"GGUF", "a GGUF file", Other),
    (0, b"MATLAB 7.3 MAT", "a MATLAB file", Other),
    (0, b"\x80\x02}", "a pickle of Python", Other),
    (0, b"\x80\x03}", "a pickle of Python", Other),
    (0, b"\x80\x04\x95", "a pickle of Python", Other),
    (0, b"\x80\x05\x95", "a pickle of Python", Other),
    (0, b"{\\rtf", "a text document", Other),
    (0, b"\0asm", "a program", Useless),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document", Other),
    (0, b"\x7fELF", "a program", Useless),
    (0, b"PK\x05\x06", "a zip archive without members", Useless),
    (344, b"n+1\0", "a NIfTI file", Nifti),
    (344, b"ni1\0", "the header of a NIfTI file", Other),
    (4, b"n+2\0\r\n\x1a\n", "a NIfTI file", Nifti),
    (4, b"ni2\0\r\n\x1a\n", "the header of a NIfTI file", Other),
    (128, b"DICM", "a DICOM file", Other),
    (208, b"MAP \x44\x44\0\0", "an MRC file", Other),
    (4, b"ftyp", "a film or image (MP4, HEIF, AVIF)", Other),
    (257, b"ustar", "a tar archive", Packed),
];

/// Recognises a file by its first bytes, up to [`LOOK_LEN`] of them. `None` if its format is unknown.
pub fn recognise(head: &[u8]) -> Option<Format> {
    let starts = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    // HDF5 allows other bytes before its signature, such as those of MATLAB.
    let mut blocks = user_blocks(head.len() as u64).filter_map(|at| usize::try_from(at).ok());
    if blocks.any(|at| starts(at, HDF5_MAGIC)) {
        return Some(HDF5);
    }
    if starts(0, b"PK\x03\x04") {
        return Some(archive(head));
    }
    let (kind, what) = match SIGNATURES.iter().find(|(at, magic, ..)| starts(*at, magic)) {
        Some((.., what, kind)) => (*kind, *what),
        None if starts(0, b"BZh") && starts(4, b"1AY&SY") => (Packed, "a bzip2 file"),
        None if is_tar(head) => (Packed, "a tar archive"),
        None if is_zarr_metadata(head) => (Zarr, "the metadata of a Zarr array"),
        None if starts(0, b"RIFF") && starts(8, b"WAVE") => (Other, "a WAV file"),
        None if starts(0, b"RIFF") && starts(8, b"WEBP") => (Other, "a WebP image"),
        None => return None,
    };
    Some(Format { kind, what })
}

/// Offsets at which HDF5 may start in a file of this length: 0, or a power of two from 512 on.
pub fn user_blocks(len: u64) -> impl Iterator<Item = u64> {
    let blocks = std::iter::successors(Some(512_u64), |at| at.checked_mul(2));
    std::iter::once(0).chain(blocks).take_while(move |at| at.saturating_add(HDF5_MAGIC.len() as u64) <= len)
}

/// Whether the first block is one of a tar archive, which even without a signature contains its own checksum.
fn is_tar(head: &[u8]) -> bool {
    let (Some(block), Some(field)) = (head.get(..512), head.get(148..156)) else { return false };
    let stored = std::str::from_utf8(field).ok().map(|text| text.trim_matches([' ', '\0']));
    let stored = stored.filter(|text| text.len() >= 4).and_then(|text| u64::from_str_radix(text, 8).ok());
    let bytes = block.iter().enumerate();
    let sum =
        bytes.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum::<u64>();
    block.first() != Some(&0) && stored == Some(sum)
}

/// Whether this is one of the JSON files of Zarr.
fn is_zarr_metadata(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
    text.starts_with(b"{") && (has(b"\"zarr_format\"") || has(b"\"zarr_consolidated_format\""))
}

/// Recognises what a zip archive contains, by the name of its first member.
fn archive(head: &[u8]) -> Format {
    let name = head.get(26..28).and_then(|len| Some(usize::from(u16::from_le_bytes(len.try_into().ok()?))));
    let name = name.and_then(|len| head.get(30..30 + len)).unwrap_or_default();
    if name.ends_with(b".npy") {
        return Format { kind: Npz, what: "an .npz file, a zip archive of .npy files" };
    }
    if [&b".zarray"[..], b".zgroup", b".zattrs", b"zarr.json"].iter().any(|end| name.ends_with(end)) {
        return Format { kind: Packed, what: "a Zarr array in a zip archive" };
    }
    if [&b".b2nd"[..], b".b2f", b".b2b", b".b2e"].iter().any(|end| name.ends_with(end)) {
        return Format { kind: Store, what: "a store of Blosc2 files" };
    }
    Format { kind: Packed, what: "a zip archive" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content() {
        let what = |head: &[u8]| recognise(head).map(|found| found.what);
        assert_eq!(what(b"\x89HDF\r\n\x1a\n...."), Some("an HDF5 file (or NetCDF 4)"));
        assert_eq!(what(b"\x89PNG\r\n\x1a\n"), Some("a PNG image"));
        let mut zip = b"PK\x03\x04".to_vec();
        zip.resize(26, 0);
        zip.extend([9, 0, 0, 0]);
        zip.extend(b"arr_0.npy");
        assert_eq!(what(&zip), Some("an .npz file, a zip archive of .npy files"));
        assert_eq!(what(&zip[..20]), Some("a zip archive"));
        assert_eq!(what(b""), None);
        assert_eq!(what(b"BZh31AY&SY"), Some("a bzip2 file"));
        assert_eq!(what(b"{\n  \"zarr_format\": 2"), Some("the metadata of a Zarr array"));
        for (at, magic, name) in [(344, &b"n+1\0"[..], "a NIfTI file"), (128, b"DICM", "a DICOM file")] {
            let head = [&vec![b'a'; at][..], magic].concat();
            assert_eq!(what(&head), Some(name));
        }
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
}
