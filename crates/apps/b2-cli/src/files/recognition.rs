//! Recognises files of other formats by their first bytes, so that a user who means the array in a file does not store
//! the file itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use b2_view::formats::{self, Format, FormatKind, HDF5_MAGIC, user_blocks};
use b2kit::chunk::ChunkHeader;
use b2kit::frame::{Disk, FileKind, Links, ReadAt, ReadFiles};

use super::stdio::is_stdin;
use super::urls;

pub(crate) use b2_view::formats::LOOK_LEN as LOOK;

/// A recognised format, such as "an HDF5 file", and advice for the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecognisedFormat {
    pub(crate) kind: FormatKind,
    pub(crate) what: &'static str,
    pub(crate) hint: &'static str,
}

impl RecognisedFormat {
    /// Whether it is a Blosc2 file.
    pub(crate) fn is_ours(self) -> bool {
        self.kind == FormatKind::Blosc2
    }

    /// A format, with the advice of this build.
    fn of(Format { kind, what }: Format) -> Self {
        Self::new(kind, what)
    }

    fn new(kind: FormatKind, what: &'static str) -> Self {
        let has_hdf5 = cfg!(feature = "hdf5");
        let hint = match kind {
            FormatKind::Blosc2 => "b2kit copy rewrites it",
            FormatKind::Store => "--key picks a member, b2kit ls lists them",
            FormatKind::Npy => "pack it first",
            FormatKind::Npz | FormatKind::Hdf5 | FormatKind::Nifti if has_hdf5 => {
                "b2kit convert makes arrays of it"
            }
            FormatKind::Npz | FormatKind::Hdf5 | FormatKind::Nifti => {
                "b2kit convert makes arrays of it, in a build with the feature hdf5"
            }
            FormatKind::Zarr if has_hdf5 => "b2kit convert makes arrays of the folder that it is in",
            FormatKind::Zarr => {
                "b2kit convert makes arrays of the folder that it is in, in a build with the feature hdf5"
            }
            FormatKind::Other => "save the array as .npy with a program that reads it, and pack that",
            FormatKind::Packed => "unpack it first",
            FormatKind::Useless => "there is no data in it",
        };
        Self { kind, what, hint }
    }
}

pub(crate) const CHUNK: &str = "a Blosc2 chunk";

/// Recognises a file by its first bytes, up to [`LOOK`] of them, and tables also by their name. `None` if its
/// format is unknown.
pub(crate) fn recognise(path: &Path, head: &[u8], len: u64) -> Option<RecognisedFormat> {
    if let Some(format) = formats::recognise(head) {
        return Some(RecognisedFormat::of(format));
    }
    if ChunkHeader::parse(head).is_ok_and(|chunk| chunk.is_extended() && chunk.cbytes() as u64 == len) {
        return Some(RecognisedFormat::new(FormatKind::Blosc2, CHUNK));
    }
    is_table(path, head).then(|| RecognisedFormat::new(FormatKind::Other, "a table in text (CSV)"))
}

/// Like [`recognise`], but also finds HDF5 at offsets beyond the end of `head`. `read` reads bytes at an offset.
pub(crate) fn recognise_file(
    path: &Path,
    head: &[u8],
    len: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Option<RecognisedFormat>> {
    if let Some(found) = recognise(path, head, len) {
        return Ok(Some(found));
    }
    let mut start = [0; HDF5_MAGIC.len()];
    for at in user_blocks(len).filter(|at| *at >= LOOK) {
        read(&mut start, at)?;
        if start == HDF5_MAGIC {
            return Ok(Some(RecognisedFormat::of(formats::HDF5)));
        }
    }
    Ok(None)
}

/// Opens a regular file or a URL. Does not block if the path has become a FIFO in the meantime.
pub(crate) fn open_regular(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    if urls::is_url(path) { urls::open(path) } else { Disk.open(path, Links::Follow) }
}

/// Recognises an HDF5 or NetCDF file; `None` for other and unreadable files.
pub(crate) fn hdf5(path: &Path) -> Option<&'static str> {
    recognise_path(path).filter(|found| found.kind == FormatKind::Hdf5).map(|found| found.what)
}

/// Recognises a file; `None` for unknown and unreadable ones.
fn recognise_path(path: &Path) -> Option<RecognisedFormat> {
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
    recognise_path(path).is_some_and(|found| found.kind == FormatKind::Npz)
}

/// Recognises a directory that is not a sparse frame.
pub(crate) fn directory(path: &Path) -> Option<RecognisedFormat> {
    if is_zarr(path) {
        let hint = RecognisedFormat::new(FormatKind::Npz, "").hint;
        return Some(RecognisedFormat { kind: FormatKind::Zarr, what: "a Zarr array", hint });
    }
    if path.join(b2kit::frame::INDEX_NAME).exists() {
        return Some(RecognisedFormat::new(FormatKind::Blosc2, "a Blosc2 file (a sparse frame)"));
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
    fn tables_are_told_by_name_and_content() {
        let what =
            |name: &str, head: &[u8]| recognise(Path::new(name), head, 1 << 20).map(|found| found.what);
        assert_eq!(what("x.csv", b"a,b\n1,2\n"), Some("a table in text (CSV)"));
        assert_eq!(what("x.csv", b"a,b\n\xc3"), Some("a table in text (CSV)"), "a character that is cut");
        assert_eq!(what("x.csv", b"\0\x01\x02"), None);
        assert_eq!(what("x.raw", b"a,b\n1,2\n"), None);
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
                let file = [&vec![lead; block][..], HDF5_MAGIC, &[0; 600]].concat();
                let head = &file[..file.len().min(LOOK as usize)];
                assert_eq!(whole(head, &file), Some(RecognisedFormat::of(formats::HDF5)), "{block}");
            }
        }
        let file = [&[b'a'; 600][..], HDF5_MAGIC].concat();
        assert_eq!(whole(&file, &file), None);
    }

    #[test]
    fn starts_are_shown() {
        assert_eq!(first_bytes(b"hello, this"), "it starts with \"hello, t\"");
        assert_eq!(first_bytes(b"\x00\x01"), "it starts with the bytes 00 01");
        assert_eq!(first_bytes(b""), "it is empty");
    }
}
