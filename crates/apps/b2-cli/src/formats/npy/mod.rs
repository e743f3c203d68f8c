//! NumPy's `.npy` files: reading them, and boxes of items.

pub(crate) mod header;
#[cfg_attr(
    not(test),
    expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "boxes are compared with the shape"
    )
)]
mod source;
mod start;
#[cfg_attr(
    not(test),
    expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "boxes are compared with the shape"
    )
)]
mod transpose;

pub(crate) use b2_view::labels::shown_dtype;
pub(crate) use b2_view::npy::{MAGIC, descr, header_bytes};
pub(crate) use header::{NpyHeader, nbytes};
pub(crate) use source::RawSource;
pub(crate) use start::data_after;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Whether the file at `path` has the signature of an `.npy` file. False if there is no such file, or if access is denied,
/// which opening it reports.
///
/// # Errors
/// Fails if the file cannot be read now, so that it is not mistaken for another format.
pub(crate) fn is_npy(path: &Path) -> io::Result<bool> {
    let look = || -> io::Result<bool> {
        // Reading from a pipe would consume its data.
        if !path.metadata()?.is_file() {
            return Ok(false);
        }
        let mut start = [0; MAGIC.len()];
        File::open(path)?.read_exact(&mut start)?;
        Ok(start[..] == *MAGIC)
    };
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, UnexpectedEof};
    match look() {
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied | UnexpectedEof) => {
            Ok(false)
        }
        looked => looked,
    }
}
