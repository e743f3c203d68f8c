//! Describes where damage is in terms of the data: rows and columns instead of bytes of a file.

use anyhow::{Error, anyhow};
use b2kit::base::Report;
use b2kit::frame::{FrameError, Structure};
use b2kit::{ErrorKind, NdArray};

use super::input::Input;
use super::slice::block_box;
use crate::process::error::frame_error;

/// The items in a chunk of an array, without padding: `rows 1000-1499, columns 1000-1999`.
pub(crate) fn of_chunk(array: &NdArray, nchunk: usize) -> Option<String> {
    let geometry = array.geometry();
    if nchunk as u64 >= geometry.nchunks() {
        return None;
    }
    let (start, shape) = geometry.chunk_box(&geometry.chunk_coords(nchunk as u64));
    words(&start, &shape)
}

/// The items in a block of a chunk of an array; `None` if the block is nothing but padding.
pub(crate) fn of_block(array: &NdArray, nchunk: usize, nblock: usize) -> Option<String> {
    let geometry = array.geometry();
    if nchunk as u64 >= geometry.nchunks() || nblock >= geometry.nblocks() {
        return None;
    }
    let (start, shape) = block_box(geometry, nchunk as u64, nblock as u64);
    words(&start, &shape)
}

/// Describes a box of items: rows and columns of a table, otherwise in the notation of `--slice`.
fn words(start: &[u64], shape: &[u64]) -> Option<String> {
    if shape.contains(&0) {
        return None;
    }
    let range = |what: &str, dim: usize| match (start[dim], start[dim] + shape[dim] - 1) {
        (first, last) if first == last => format!("{what} {first}"),
        (first, last) => format!("{what}s {first}-{last}"),
    };
    match shape.len() {
        0 => None,
        1 => Some(range("item", 0)),
        2 => Some(format!("{}, {}", range("row", 0), range("column", 1))),
        _ => {
            let parts: Vec<String> =
                start.iter().zip(shape).map(|(start, len)| format!("{start}:{}", start + len)).collect();
            Some(format!("items [{}]", parts.join(",")))
        }
    }
}

/// The bytes in a chunk of a super-chunk whose chunks all have the same size.
fn of_bytes(input: &Input, nchunk: usize) -> Option<String> {
    let frame = input.frame()?;
    let chunksize = frame.chunksize() as u64;
    let start =
        (nchunk as u64).checked_mul(chunksize).filter(|start| chunksize > 0 && *start < frame.nbytes())?;
    let itemsize = frame.itemsize() as u64;
    let end = start.saturating_add(chunksize).min(frame.nbytes());
    match (start % itemsize, itemsize) {
        (0, 2..) => words(&[start / itemsize], &[(end - start).div_ceil(itemsize)]),
        _ => Some(format!("bytes {start}-{}", end - 1)),
    }
}

/// Replaces the place in the file in an error of reading by the items that are damaged.
pub(crate) fn locate(input: &Input, error: Error) -> Error {
    let Some(found) = error.chain().find_map(frame_error).filter(|found| found.kind() == ErrorKind::Damaged)
    else {
        return error;
    };
    let (structure, detail) = match found {
        FrameError::Chunk { structure, source, .. } => (structure, Report(source).to_string()),
        FrameError::Checksum { structure, what, .. } => (structure, (*what).to_owned()),
        FrameError::Truncated { structure, .. }
        | FrameError::Field { structure, .. }
        | FrameError::Msgpack { structure, .. } => (structure, Report(found).to_string()),
        _ => return error,
    };
    let (Structure::Chunk(nchunk) | Structure::StoredChunk { nchunk, .. }) = structure else { return error };
    let items = match input {
        Input::Array(array) => of_chunk(array, *nchunk),
        _ => of_bytes(input, *nchunk),
    };
    match items {
        Some(items) => anyhow!("chunk {nchunk} ({items}) damaged: {detail}"),
        None => anyhow!("chunk {nchunk} damaged: {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_in_words() {
        assert_eq!(words(&[1000, 1000], &[500, 1000]).unwrap(), "rows 1000-1499, columns 1000-1999");
        assert_eq!(words(&[3, 0], &[1, 1]).unwrap(), "row 3, column 0");
        assert_eq!(words(&[30], &[12]).unwrap(), "items 30-41");
        assert_eq!(words(&[8, 0, 7], &[4, 180, 1]).unwrap(), "items [8:12,0:180,7:8]");
        assert_eq!((words(&[], &[]), words(&[0], &[0])), (None, None));
    }
}
