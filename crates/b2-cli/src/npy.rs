//! NumPy's `.npy` files: headers, dtypes, and reading boxes of items.

pub(crate) mod descr;
pub(crate) mod header;
pub(crate) mod source;
mod transpose;

pub(crate) use header::{MAGIC, NpyHeader, header_bytes, nbytes};
pub(crate) use source::RawSource;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use b2kit::{Dtype, NdArray};

/// Whether the file at `path` has the signature of an `.npy` file. False if it cannot be read.
pub(crate) fn is_npy(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    // Reading from a pipe would consume its data.
    let regular = path.metadata().is_ok_and(|there| there.is_file());
    regular
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start[..] == *MAGIC
}

/// The dtype to show an array with. Also accepts dtype strings that are not in NumPy's own notation.
pub(crate) fn shown_dtype(array: &NdArray) -> Dtype {
    match Dtype::parse(array.dtype().as_str()) {
        Ok(dtype) if dtype.itemsize() == array.itemsize() => dtype,
        _ => array.dtype().clone(),
    }
}
