//! NumPy's `.npy` files: headers, dtypes, and reading boxes of items.

pub(crate) mod descr;
pub(crate) mod header;
pub(crate) mod source;
mod start;
mod transpose;

pub(crate) use header::{MAGIC, NpyHeader, header_bytes, nbytes};
pub(crate) use source::RawSource;
pub(crate) use start::behind;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use b2kit::{Dtype, NdArray};

/// Whether the file at `path` has the signature of an `.npy` file. False if there is no such file, or if nobody may read
/// it: opening it says so.
///
/// # Errors
/// Fails if the file cannot be read now, so that nobody takes it for something else.
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

/// The dtype to show an array with. Also accepts dtype strings that are not in NumPy's own notation.
pub(crate) fn shown_dtype(array: &NdArray) -> Dtype {
    match Dtype::parse(array.dtype().as_str()) {
        Ok(dtype) if dtype.itemsize() == array.itemsize() => dtype,
        _ => array.dtype().clone(),
    }
}
