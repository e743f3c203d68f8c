//! Where the chunks of a data set are.

use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;

use super::cursor::NOWHERE;
use super::header::Below;
use super::messages::{Chunked, Index};
use crate::boxes::product;

/// Where a stored chunk is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) address: u64,
    /// Stored bytes.
    pub(crate) len: u64,
    /// The filters that were not applied, one bit each.
    pub(crate) mask: u32,
}

/// The chunks of a data set, in the order of the grid. Chunks that were never written are missing.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// By the number in the grid.
    stored: Vec<(u64, Stored)>,
    /// The number of chunks along each dimension.
    grid: Vec<u64>,
}

impl Chunks {
    /// Returns where the chunk at a position of the grid is, if it was written.
    pub(crate) fn get(&self, at: &[u64]) -> Option<Stored> {
        let number = linear(at, &self.grid)?;
        let n = self.stored.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.stored.get(n).map(|(_, stored)| *stored)
    }

    /// Returns the stored bytes of all chunks.
    pub(crate) fn nbytes(&self) -> u64 {
        self.stored.iter().fold(0, |n, (_, stored)| n.saturating_add(stored.len))
    }

    /// Returns the first chunk that is stored, and its position in the grid.
    pub(crate) fn first(&self) -> Option<(Vec<u64>, Stored)> {
        let &(number, stored) = self.stored.first()?;
        Some((self.position(number)?, stored))
    }

    /// Returns the positions in the grid of all chunks that are stored.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Vec<u64>> {
        self.stored.iter().filter_map(|&(number, _)| self.position(number))
    }

    /// Whether all chunks were written.
    pub(crate) fn is_complete(&self) -> bool {
        self.stored.len() as u64 == product(&self.grid)
    }

    /// The position in the grid of the chunk with this number.
    fn position(&self, mut number: u64) -> Option<Vec<u64>> {
        let mut at = Vec::new();
        for &count in self.grid.iter().rev() {
            at.push(number.checked_rem(count)?);
            number = number.checked_div(count)?;
        }
        at.reverse();
        Some(at)
    }
}

/// Whether an address is none. Those of fewer than 8 bytes are all ones in these.
fn is_nowhere(address: u64, size: u8) -> bool {
    address == NOWHERE || size < 8 && address == (1 << (u32::from(size) * 8)) - 1
}

fn linear(at: &[u64], grid: &[u64]) -> Option<u64> {
    let mut number = 0_u64;
    for (&at, &count) in at.iter().zip(grid) {
        if at >= count {
            return None;
        }
        number = number.checked_mul(count)?.checked_add(at)?;
    }
    Some(number)
}

/// Finds the chunks of a data set of `shape`, which may grow to `most`. `is_filtered` says whether there are filters. The error is what is wrong.
pub(crate) fn find(
    below: &Below,
    chunked: &Chunked,
    (shape, most): (&[u64], Option<&[u64]>),
    itemsize: usize,
    is_filtered: bool,
) -> Result<Chunks, String> {
    if chunked.shape.len() != shape.len() || chunked.shape.contains(&0) {
        return Err(format!("chunks {:?} do not fit the shape {shape:?}", chunked.shape));
    }
    let lengths: Vec<u64> = chunked.shape.iter().map(|&length| length.into()).collect();
    let grid: Vec<u64> = shape.iter().zip(&lengths).map(|(&n, &chunk)| n.div_ceil(chunk)).collect();
    let plain = product(&lengths).saturating_mul(itemsize as u64);
    if chunked.address == NOWHERE || product(shape) == 0 {
        return Ok(Chunks { stored: Vec::new(), grid });
    }
    let mut stored = Vec::new();
    for entry in entries(below, chunked, (shape, most), itemsize)? {
        if is_nowhere(entry.address, below.offset_size) || entry.offsets.len() < shape.len() {
            continue;
        }
        let at: Vec<u64> =
            entry.offsets.iter().zip(&lengths).map(|(&offset, &chunk)| offset / chunk).collect();
        let is_aligned =
            entry.offsets.iter().zip(&lengths).all(|(&offset, &chunk)| offset.is_multiple_of(chunk));
        // Chunks behind the edge are left over from when the data set was longer.
        let Some(number) = linear(&at, &grid) else { continue };
        if !is_aligned {
            return Err(format!("a chunk at {:?} is not on the grid of {lengths:?}", entry.offsets));
        }
        let len = if is_filtered && entry.size > 0 { entry.size } else { plain };
        stored.push((number, Stored { address: entry.address, len, mask: entry.filter_mask }));
    }
    stored.sort_by_key(|(number, _)| *number);
    if stored.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
        return Err("two chunks are at the same place".into());
    }
    Ok(Chunks { stored, grid })
}

fn entries(
    below: &Below,
    chunked: &Chunked,
    (shape, most): (&[u64], Option<&[u64]>),
    itemsize: usize,
) -> Result<Vec<ChunkEntry>, String> {
    let text = |error: hdf5_reader::error::Error| format!("the index of chunks: {error}");
    let (offset_size, length_size) = (below.offset_size, below.length_size);
    let ndim = u32::try_from(shape.len()).map_err(|error| error.to_string())?;
    let (pages, address, dims) = (&below.pages, chunked.address, &chunked.shape[..]);
    match chunked.index {
        Index::BTree1 => {
            let leaves = collect_btree_v1_leaves_storage(
                pages,
                address,
                offset_size,
                length_size,
                Some(ndim),
                dims,
                None,
            )
            .map_err(text)?;
            leaves
                .into_iter()
                .map(|(key, address)| match key {
                    BTreeV1Key::RawData { chunk_size, filter_mask, mut offsets } => {
                        offsets.truncate(shape.len());
                        Ok(ChunkEntry { address, size: chunk_size.into(), filter_mask, offsets })
                    }
                    _ => Err("the index of chunks has other entries than chunks".to_owned()),
                })
                .collect()
        }
        Index::Single { stored } => {
            let (size, filter_mask) = stored.unwrap_or_default();
            Ok(vec![ChunkEntry { address, size, filter_mask, offsets: vec![0; shape.len()] }])
        }
        Index::Implicit => {
            collect_implicit_chunk_entries(address, shape, dims, itemsize, None, pages.behind(0))
                .map_err(text)
        }
        Index::FixedArray => collect_fixed_array_chunk_entries_storage(
            pages,
            address,
            offset_size,
            length_size,
            shape,
            dims,
            None,
        )
        .map_err(text),
        Index::ExtensibleArray => collect_extensible_array_chunk_entries_storage(
            pages,
            address,
            offset_size,
            length_size,
            shape,
            most,
            dims,
            None,
        )
        .map_err(text),
        Index::BTree2 => {
            collect_v2_chunk_entries_storage(pages, address, offset_size, length_size, ndim, dims, None)
                .map_err(text)
        }
    }
}
