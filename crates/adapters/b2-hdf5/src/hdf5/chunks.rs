//! Where the chunks of a data set are.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use b2_core::memory;

use super::btree1::{self, TreeKind};
use super::btree2::Tree;
use super::cursor::{Cursor, NOWHERE};
use super::header::Below;
use super::messages::{ChunkedLayout, Index};
use super::slots::ChunkRecord;
use super::{extensible_array, fixed_array};
use crate::boxes::product;

/// Up to this many chunks are looked up individually. After that the whole index is read.
const MAX_LOOKUPS: usize = 8;
/// An index of more chunks is not cached when it was read only to check it.
const MAX_CACHED_CHUNKS: usize = 1 << 12;

/// Chunks that are stored, by their numbers in the grid.
type NumberedChunks = Vec<(u64, ChunkRecord)>;

/// The chunks of a data set, in the order of the grid. Chunks that were never written are missing.
///
/// The index is read when the first chunk is requested, and as a whole only if many are: in a remote file, one item
/// should cost only the path to its chunk.
pub(crate) struct Chunks {
    below: Arc<Below>,
    chunked: ChunkedLayout,
    /// The length of a chunk along each dimension.
    lengths: Vec<u64>,
    /// Bytes of a chunk without filters.
    plain: u64,
    is_filtered: bool,
    /// The number of chunks along each dimension.
    grid: Vec<u64>,
    /// How array indexes number chunks: the dimensions, the slowest first, and the maximum number of chunks along each.
    order: Vec<(usize, u64)>,
    all: Mutex<Option<Arc<NumberedChunks>>>,
    total: OnceLock<Result<ChunkTotals, String>>,
    /// Chunks that were looked up individually.
    few: Mutex<BTreeMap<u64, Option<ChunkRecord>>>,
}

/// Totals of all chunks.
#[derive(Clone, Copy, Debug)]
struct ChunkTotals {
    count: u64,
    /// Stored bytes.
    nbytes: u64,
    first: Option<(u64, ChunkRecord)>,
}

impl Chunks {
    /// Creates the index of a data set of `shape`, whose maximum shape is `most`. `is_filtered` states whether there are filters.
    ///
    /// # Errors
    /// Describes the problem.
    pub(crate) fn new(
        below: Arc<Below>,
        chunked: ChunkedLayout,
        (shape, most): (&[u64], Option<&[u64]>),
        itemsize: usize,
        is_filtered: bool,
    ) -> Result<Self, String> {
        let fits = chunked.shape.len() == shape.len() && most.is_none_or(|most| most.len() == shape.len());
        if !fits || chunked.shape.contains(&0) || itemsize == 0 {
            return Err(format!("chunks {:?} do not fit the shape {shape:?}", chunked.shape));
        }
        let lengths: Vec<u64> = chunked.shape.iter().map(|&length| length.into()).collect();
        let count = |lengths_of: &[u64]| -> Vec<u64> {
            lengths_of.iter().zip(&lengths).map(|(&n, &chunk)| n.div_ceil(chunk)).collect()
        };
        let most = most.unwrap_or(shape);
        if most.iter().zip(shape).any(|(most, length)| most < length) {
            return Err(format!("a shape {shape:?} that may be no larger than {most:?}"));
        }
        let mut order: Vec<(usize, u64)> = count(most).into_iter().enumerate().collect();
        let endless = most.iter().position(|&most| most == u64::MAX);
        match (chunked.index, endless) {
            (Index::FixedArray | Index::Implicit, Some(_)) | (Index::ExtensibleArray, None) => {
                return Err(format!("an index ({}) that does not fit the shape", chunked.index.name()));
            }
            // The unlimited dimension is the slowest.
            (Index::ExtensibleArray, Some(axis)) => {
                if let Some(part) = order.get_mut(..=axis) {
                    part.rotate_right(1);
                }
            }
            _ => {}
        }
        let grid = count(shape);
        let plain = product(&lengths).saturating_mul(itemsize as u64);
        let (all, total, few) = (Mutex::default(), OnceLock::new(), Mutex::default());
        Ok(Self { below, chunked, lengths, plain, is_filtered, grid, order, all, total, few })
    }

    /// Returns where the chunk at a position of the grid is, if it was written.
    ///
    /// # Errors
    /// Describes the problem with the index.
    pub(crate) fn get(&self, at: &[u64]) -> Result<Option<ChunkRecord>, String> {
        let Some(number) = linear(at.iter().copied(), &self.grid) else { return Ok(None) };
        if let Some(first) = self.implicit()? {
            return Ok(self.implied(first, number));
        }
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = match all {
            Some(all) => all,
            None => {
                let mut few = self.few.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = few.get(&number) {
                    return Ok(*found);
                }
                if few.len() < MAX_LOOKUPS {
                    let found = self.numbered(Some(at))?;
                    let found = found.into_iter().find(|(own, _)| *own == number).map(|(_, stored)| stored);
                    few.insert(number, found);
                    return Ok(found);
                }
                self.all()?
            }
        };
        let n = all.binary_search_by_key(&number, |(number, _)| *number).ok();
        Ok(n.and_then(|n| all.get(n)).map(|(_, stored)| *stored))
    }

    /// Reads and caches the whole index.
    fn all(&self) -> Result<Arc<NumberedChunks>, String> {
        // A damaged index is not read again.
        if let Some(Err(what)) = self.total.get() {
            return Err(what.clone());
        }
        let mut cache = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = &*cache {
            return Ok(all.clone());
        }
        let found = self.numbered(None).and_then(|all| Ok((self.summed(&all)?, all)));
        let found = found.map(|(total, all)| (total, Arc::new(all)));
        let _ = self.total.set(found.as_ref().map(|(total, _)| *total).map_err(Clone::clone));
        let (_, all) = found?;
        *cache = Some(all.clone());
        Ok(all)
    }

    /// Reads the whole index, and caches it if it is small.
    ///
    /// # Errors
    /// Describes the problem with the index.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.total().map(drop)
    }

    fn total(&self) -> Result<ChunkTotals, String> {
        if let Some(total) = self.total.get() {
            return total.clone();
        }
        if let Some(first) = self.implicit()? {
            let count = product(&self.grid);
            let nbytes = count.saturating_mul(self.plain).min(self.below.pages.len_from(0));
            return Ok(ChunkTotals {
                count,
                nbytes,
                first: self.implied(first, 0).map(|stored| (0, stored)),
            });
        }
        let all = self.all()?;
        let total = self.summed(&all)?;
        if all.len() > MAX_CACHED_CHUNKS {
            *self.all.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(total)
    }

    fn summed(&self, all: &[(u64, ChunkRecord)]) -> Result<ChunkTotals, String> {
        let nbytes = all.iter().fold(0_u64, |n, (_, stored)| n.saturating_add(stored.len));
        if nbytes > self.below.pages.len_from(0) {
            return Err(format!("its chunks have {nbytes} bytes, more than the file"));
        }
        Ok(ChunkTotals { count: all.len() as u64, nbytes, first: all.first().copied() })
    }

    /// Returns the stored bytes of all chunks; 0 if the index cannot be read.
    pub(crate) fn nbytes(&self) -> u64 {
        self.total().map_or(0, |total| total.nbytes)
    }

    /// Returns the first chunk that is stored, and its position in the grid.
    ///
    /// # Errors
    /// Describes the problem with the index.
    pub(crate) fn first(&self) -> Result<Option<(Vec<u64>, ChunkRecord)>, String> {
        let Some((number, stored)) = self.total()?.first else { return Ok(None) };
        Ok(self.position(number).map(|at| (at, stored)))
    }

    /// Calls `each` with the positions in the grid of all chunks that are stored.
    ///
    /// # Errors
    /// Those of `each`, and problems with the index.
    pub(crate) fn positions<E>(
        &self,
        wrong: impl Fn(String) -> E,
        mut each: impl FnMut(Vec<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut number = |n: u64| self.position(n).map_or(Ok(()), &mut each);
        match self.implicit().map_err(&wrong)? {
            Some(_) => (0..product(&self.grid)).try_for_each(number),
            None => self.all().map_err(wrong)?.iter().try_for_each(|(n, _)| number(*n)),
        }
    }

    /// Returns the position in the grid of all chunks that are stored, and where they are.
    ///
    /// # Errors
    /// Describes the problem with the index.
    pub(crate) fn stored(&self) -> Result<Vec<(Vec<u64>, ChunkRecord)>, String> {
        let place = |(number, stored): &(u64, ChunkRecord)| Some((self.position(*number)?, *stored));
        match self.implicit()? {
            Some(first) => {
                let numbers = 0..product(&self.grid);
                let all = numbers.filter_map(|n| self.implied(first, n).map(|stored| (n, stored)));
                Ok(all.filter_map(|chunk| place(&chunk)).collect())
            }
            None => Ok(self.all()?.iter().filter_map(place).collect()),
        }
    }

    /// Whether all chunks were written.
    ///
    /// # Errors
    /// Describes the problem with the index.
    pub(crate) fn is_complete(&self) -> Result<bool, String> {
        Ok(self.total()?.count == product(&self.grid))
    }

    /// Returns where the chunks start if they follow each other without an index.
    fn implicit(&self) -> Result<Option<u64>, String> {
        let (address, pages) = (self.chunked.address, &self.below.pages);
        if self.chunked.index != Index::Implicit || address == NOWHERE || product(&self.grid) == 0 {
            return Ok(None);
        }
        let count = self.order.iter().fold(1_u64, |n, (_, count)| n.saturating_mul(*count));
        match count.checked_mul(self.plain).filter(|&len| len <= pages.len_from(address)) {
            Some(_) => Ok(Some(address)),
            None => Err(format!("{count} chunks of {} bytes are more than the file has", self.plain)),
        }
    }

    /// Returns the location of the chunk with this number if all chunks are contiguous.
    fn implied(&self, first: u64, number: u64) -> Option<ChunkRecord> {
        let index = self.index_of(&self.position(number)?)?;
        let address = index.checked_mul(self.plain)?.checked_add(first)?;
        Some(ChunkRecord { address, len: self.plain, mask: 0 })
    }

    /// The number that an array gives to the chunk at a position of the grid.
    fn index_of(&self, at: &[u64]) -> Option<u64> {
        let mut index = 0_u64;
        for (axis, count) in &self.order {
            index = index.checked_mul(*count)?.checked_add(*at.get(*axis)?)?;
        }
        Some(index)
    }

    /// The number in the grid of the chunk at an index of an array. `None` if it is outside the data set.
    fn number_of(&self, mut index: u64) -> Option<u64> {
        let mut at = vec![0; self.order.len()];
        for (n, (axis, count)) in self.order.iter().enumerate().rev() {
            let place = at.get_mut(*axis)?;
            match n {
                0 => *place = index,
                _ => {
                    *place = index.checked_rem(*count)?;
                    index = index.checked_div(*count)?;
                }
            }
        }
        linear(at.into_iter(), &self.grid)
    }

    /// Finds all chunks, or at least that at a position of the grid.
    fn numbered(&self, only: Option<&[u64]>) -> Result<NumberedChunks, String> {
        let mut found = Vec::new();
        if self.chunked.address == NOWHERE || product(&self.grid) == 0 {
            return Ok(found);
        }
        // Chunks outside the grid remain from a larger shape.
        let mut add = |number: Option<u64>, mut stored: ChunkRecord| -> Result<(), String> {
            let Some(number) = number.filter(|_| stored.address != NOWHERE) else { return Ok(()) };
            if !self.is_filtered || stored.len == 0 {
                stored.len = self.plain;
            }
            memory::push(&mut found, (number, stored)).map_err(|error| error.to_string())
        };
        self.read_index(only, &mut add).map_err(|what| format!("the index of chunks: {what}"))?;
        found.sort_unstable_by_key(|(number, _)| *number);
        if found.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Err("two chunks are at the same place".into());
        }
        Ok(found)
    }

    /// Reads the index, or the path to the chunk at a position of the grid.
    fn read_index(
        &self,
        only: Option<&[u64]>,
        add: &mut dyn FnMut(Option<u64>, ChunkRecord) -> Result<(), String>,
    ) -> Result<(), String> {
        let (below, address, is_filtered) = (&*self.below, self.chunked.address, self.is_filtered);
        // Only array indexes number chunks; at most one of their dimensions is unlimited.
        let index = only.and_then(|at| self.index_of(at));
        match self.chunked.index {
            Index::BTree1 => self.in_tree1(only, add),
            Index::BTree2 => self.in_tree2(only, add),
            Index::Single { stored } => {
                let (len, mask) = stored.unwrap_or_default();
                add(Some(0), ChunkRecord { address, len, mask })
            }
            // There is none.
            Index::Implicit => Ok(()),
            Index::FixedArray => fixed_array::read(below, address, is_filtered, index, &mut |n, stored| {
                add(self.number_of(n), stored)
            }),
            Index::ExtensibleArray => {
                extensible_array::read(below, address, is_filtered, index, &mut |n, stored| {
                    add(self.number_of(n), stored)
                })
            }
        }
    }

    fn in_tree1(
        &self,
        only: Option<&[u64]>,
        add: &mut dyn FnMut(Option<u64>, ChunkRecord) -> Result<(), String>,
    ) -> Result<(), String> {
        let cut = || "a key is cut off".to_owned();
        // Compares the first item of a chunk with the requested one.
        let compare = |key: &[u8], at: &[u64]| {
            let mut cursor = Cursor::new(key);
            cursor.skip(8)?;
            at.iter().zip(&self.lengths).try_fold(Ordering::Equal, |known, (&at, &length)| {
                let own = cursor.uint(8)?;
                Some(known.then(own.cmp(&at.saturating_mul(length))))
            })
        };
        let mut wants = |key: &[u8], next: Option<&[u8]>| {
            only.is_none_or(|at| {
                compare(key, at).is_none_or(Ordering::is_le)
                    && next.is_none_or(|next| compare(next, at).is_none_or(Ordering::is_gt))
            })
        };
        let over = TreeKind::Chunks(&self.lengths);
        btree1::walk(&self.below, self.chunked.address, over, &mut wants, &mut |key, address| {
            let mut cursor = Cursor::new(key);
            let (len, mask) = cursor.u32().zip(cursor.u32()).ok_or_else(cut)?;
            let mut number = Some(0_u64);
            for (&length, &count) in self.lengths.iter().zip(&self.grid) {
                number = step(number, cursor.uint(8).ok_or_else(cut)? / length, count);
            }
            add(number, ChunkRecord { address, len: len.into(), mask })
        })
    }

    fn in_tree2(
        &self,
        only: Option<&[u64]>,
        add: &mut dyn FnMut(Option<u64>, ChunkRecord) -> Result<(), String>,
    ) -> Result<(), String> {
        let cut = || "a record is cut off".to_owned();
        let tree = Tree::open(&self.below, self.chunked.address)?;
        let offset_size = self.below.offset_size;
        let fixed = self.grid.len().saturating_mul(8).saturating_add(offset_size.into());
        let width = match (tree.kind, self.is_filtered) {
            (10, false) if tree.record == fixed => 0,
            // The width of the stored size depends on the chunk, and is the rest of the record.
            (11, true) => {
                let width = tree.record.checked_sub(fixed.saturating_add(4));
                let width = width.and_then(|width| u8::try_from(width).ok());
                width.filter(|width| (1..=8).contains(width)).ok_or("records of another size")?
            }
            _ => return Err("other records than those of its chunks".into()),
        };
        let head = usize::from(offset_size).saturating_add(match width {
            0 => 0,
            width => usize::from(width).saturating_add(4),
        });
        let mut compare = |record: &[u8]| {
            let Some(at) = only else { return Ok(Ordering::Equal) };
            let mut cursor = Cursor::new(record.get(head..).ok_or_else(cut)?);
            at.iter().try_fold(Ordering::Equal, |known, at| {
                Ok(known.then(cursor.uint(8).ok_or_else(cut)?.cmp(at)))
            })
        };
        tree.select(&self.below, &mut compare, &mut |record| {
            let mut cursor = Cursor::new(record);
            let address = cursor.address(offset_size).ok_or_else(cut)?;
            let (len, mask) = match width {
                0 => (0, 0),
                width => cursor.uint(width).zip(cursor.u32()).ok_or_else(cut)?,
            };
            let mut number = Some(0_u64);
            for &count in &self.grid {
                number = step(number, cursor.uint(8).ok_or_else(cut)?, count);
            }
            add(number, ChunkRecord { address, len, mask })
        })
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

/// Adds a dimension to the number of a chunk.
fn step(number: Option<u64>, at: u64, count: u64) -> Option<u64> {
    (at < count).then_some(())?;
    number?.checked_mul(count)?.checked_add(at)
}

fn linear(at: impl Iterator<Item = u64>, grid: &[u64]) -> Option<u64> {
    at.zip(grid).try_fold(0, |number, (at, &count)| step(Some(number), at, count))
}
