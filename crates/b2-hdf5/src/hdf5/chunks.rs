//! Where the chunks of a data set are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;

use super::cursor::NOWHERE;
use super::header::Below;
use super::lookup;
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

/// So many chunks are looked up one by one. After that the whole index is read.
const FEW: usize = 8;

/// Chunks that are stored, by their numbers in the grid.
type Numbered = Vec<(u64, Stored)>;

/// The chunks of a data set, in the order of the grid. Chunks that were never written are missing.
///
/// The index is not read before a chunk is asked for, and as a whole only if many are: of a file that is far away, the way to
/// one chunk is all that one item needs.
pub(crate) struct Chunks {
    below: Arc<Below>,
    chunked: Chunked,
    shape: Vec<u64>,
    most: Option<Vec<u64>>,
    itemsize: usize,
    is_filtered: bool,
    /// The number of chunks along each dimension.
    grid: Vec<u64>,
    all: OnceLock<Result<Numbered, String>>,
    /// Those that were looked up one by one.
    few: Mutex<BTreeMap<u64, Option<Stored>>>,
}

impl Chunks {
    /// Where the chunks of a data set of `shape` are, which may grow to `most`. `is_filtered` says whether there are filters.
    ///
    /// # Errors
    /// With what is wrong.
    pub(crate) fn new(
        below: Arc<Below>,
        chunked: Chunked,
        (shape, most): (&[u64], Option<&[u64]>),
        itemsize: usize,
        is_filtered: bool,
    ) -> Result<Self, String> {
        if chunked.shape.len() != shape.len() || chunked.shape.contains(&0) {
            return Err(format!("chunks {:?} do not fit the shape {shape:?}", chunked.shape));
        }
        let lengths = chunked.shape.iter().map(|&length| u64::from(length));
        let grid = shape.iter().zip(lengths).map(|(&n, chunk)| n.div_ceil(chunk)).collect();
        let (shape, most) = (shape.to_vec(), most.map(<[u64]>::to_vec));
        let (all, few) = (OnceLock::new(), Mutex::default());
        Ok(Self { below, chunked, shape, most, itemsize, is_filtered, grid, all, few })
    }

    /// Returns where the chunk at a position of the grid is, if it was written.
    ///
    /// # Errors
    /// With what is wrong with the index.
    pub(crate) fn get(&self, at: &[u64]) -> Result<Option<Stored>, String> {
        let Some(number) = linear(at, &self.grid) else { return Ok(None) };
        if self.all.get().is_none() {
            let mut few = self.few.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = few.get(&number) {
                return Ok(*found);
            }
            if few.len() < FEW {
                let found = self.numbered(Some(at))?;
                let found = found.into_iter().find(|(own, _)| *own == number).map(|(_, stored)| stored);
                few.insert(number, found);
                return Ok(found);
            }
        }
        let all = self.all()?;
        let n = all.binary_search_by_key(&number, |(number, _)| *number).ok();
        Ok(n.and_then(|n| all.get(n)).map(|(_, stored)| *stored))
    }

    /// Returns all chunks.
    ///
    /// # Errors
    /// With what is wrong with the index.
    pub(crate) fn all(&self) -> Result<&[(u64, Stored)], String> {
        match self.all.get_or_init(|| self.numbered(None)) {
            Ok(all) => Ok(all),
            Err(what) => Err(what.clone()),
        }
    }

    /// Returns the stored bytes of all chunks; 0 if the index cannot be read.
    pub(crate) fn nbytes(&self) -> u64 {
        let all = self.all().unwrap_or_default();
        all.iter().fold(0, |n, (_, stored)| n.saturating_add(stored.len))
    }

    /// Returns the first chunk that is stored, and its position in the grid.
    ///
    /// # Errors
    /// With what is wrong with the index.
    pub(crate) fn first(&self) -> Result<Option<(Vec<u64>, Stored)>, String> {
        let Some(&(number, stored)) = self.all()?.first() else { return Ok(None) };
        Ok(self.position(number).map(|at| (at, stored)))
    }

    /// Returns the positions in the grid of all chunks that are stored.
    ///
    /// # Errors
    /// With what is wrong with the index.
    pub(crate) fn positions(&self) -> Result<impl Iterator<Item = Vec<u64>>, String> {
        Ok(self.all()?.iter().filter_map(|&(number, _)| self.position(number)))
    }

    /// Whether all chunks were written.
    ///
    /// # Errors
    /// With what is wrong with the index.
    pub(crate) fn is_complete(&self) -> Result<bool, String> {
        Ok(self.all()?.len() as u64 == product(&self.grid))
    }

    /// Finds all chunks, or only that at a position of the grid.
    fn numbered(&self, only: Option<&[u64]>) -> Result<Numbered, String> {
        let lengths: Vec<u64> = self.chunked.shape.iter().map(|&length| length.into()).collect();
        let plain = product(&lengths).saturating_mul(self.itemsize as u64);
        if self.chunked.address == NOWHERE || product(&self.shape) == 0 {
            return Ok(Vec::new());
        }
        let mut stored = Vec::new();
        let sizes = (&self.shape[..], self.most.as_deref());
        for entry in entries(&self.below, &self.chunked, sizes, self.itemsize, only)? {
            if is_nowhere(entry.address, self.below.offset_size) || entry.offsets.len() < self.shape.len() {
                continue;
            }
            let at: Vec<u64> =
                entry.offsets.iter().zip(&lengths).map(|(&offset, &chunk)| offset / chunk).collect();
            let is_aligned =
                entry.offsets.iter().zip(&lengths).all(|(&offset, &chunk)| offset.is_multiple_of(chunk));
            // Chunks behind the edge are left over from when the data set was longer.
            let Some(number) = linear(&at, &self.grid) else { continue };
            if !is_aligned {
                return Err(format!("a chunk at {:?} is not on the grid of {lengths:?}", entry.offsets));
            }
            let len = if self.is_filtered && entry.size > 0 { entry.size } else { plain };
            stored.push((number, Stored { address: entry.address, len, mask: entry.filter_mask }));
        }
        stored.sort_by_key(|(number, _)| *number);
        if stored.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Err("two chunks are at the same place".into());
        }
        Ok(stored)
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

/// Reads the index, or the way to the chunk at a position of the grid. Others may be found, too.
fn entries(
    below: &Below,
    chunked: &Chunked,
    (shape, most): (&[u64], Option<&[u64]>),
    itemsize: usize,
    only: Option<&[u64]>,
) -> Result<Vec<ChunkEntry>, String> {
    let bounds = only.map(|at| (at, at));
    let text = |error: hdf5_reader::error::Error| format!("the index of chunks: {error}");
    let (offset_size, length_size) = (below.offset_size, below.length_size);
    let ndim = u32::try_from(shape.len()).map_err(|error| error.to_string())?;
    let (pages, address, dims) = (&below.pages, chunked.address, &chunked.shape[..]);
    let found = match (chunked.index, only) {
        (Index::BTree1, Some(at)) => Some(lookup::in_tree1(below, address, at, dims)),
        (Index::BTree2, Some(at)) => Some(lookup::in_tree2(below, address, at, dims)),
        _ => None,
    };
    if let Some(found) = found {
        return Ok(found.map_err(|what| format!("the index of chunks: {what}"))?.into_iter().collect());
    }
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
            collect_implicit_chunk_entries(address, shape, dims, itemsize, bounds, pages.behind(0))
                .map_err(text)
        }
        Index::FixedArray => collect_fixed_array_chunk_entries_storage(
            pages,
            address,
            offset_size,
            length_size,
            shape,
            dims,
            bounds,
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
            bounds,
        )
        .map_err(text),
        Index::BTree2 => {
            collect_v2_chunk_entries_storage(pages, address, offset_size, length_size, ndim, dims, None)
                .map_err(text)
        }
    }
}
