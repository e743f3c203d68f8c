//! Fractal heaps, which hold many links, attributes or shared messages.
//!
//! Objects are in direct blocks, whose sizes follow from their position in a table: the rows of the table have the same number of
//! blocks, and from the second row on those of each row are twice as large as those of the row before. Rows of blocks that are
//! too large hold tables themselves (indirect blocks). An identifier states where an object starts in the concatenation of all blocks.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::btree2::{Tree, width};
use super::cursor::{Cursor, NOWHERE};
use super::header::Below;
use crate::checksum::lookup3;

/// Maximum bytes of cached blocks.
const MAX_CACHED_LEN: usize = 4 << 20;
/// Maximum nesting of tables. Each covers at most half as many bytes as the one that contains it.
const DEEPEST: u32 = 64;

/// A fractal heap.
pub(super) struct Heap {
    address: u64,
    /// Bytes of an identifier.
    id: usize,
    has_sums: bool,
    /// Maximum size of an object in a block, in bytes.
    most: u64,
    /// The index of the objects that are not in blocks.
    huge: u64,
    /// Blocks of a row.
    columns: u64,
    /// Bytes of the smallest blocks and of the largest direct ones.
    least: u64,
    largest: u64,
    /// Widths of the position of an object and of its length, in bytes.
    offset: u8,
    length: u8,
    root: u64,
    /// Rows of the root; none if it is a direct block.
    rows: u64,
    /// Cached blocks by address, and their total size in bytes.
    blocks: HashMap<u64, Arc<Vec<u8>>>,
    held: usize,
}

impl Heap {
    pub(super) fn open(below: &Below, address: u64) -> Result<Self, String> {
        let wrong = || format!("the fractal heap at {address} is malformed");
        let (offset_size, length_size) = (below.offset_size, below.length_size);
        let sizes = u64::from(length_size).saturating_mul(12).saturating_add(u64::from(offset_size) * 3);
        let bytes = below.checked(address, sizes.saturating_add(26)).or_else(|error| {
            // Filters make the header longer.
            let start = below.metadata(address, 9)?;
            match start.get(7..9) {
                Some([0, 0]) | None => Err(error),
                Some(_) => Err("a fractal heap with filters, which is not supported".into()),
            }
        })?;
        let mut cursor = Cursor::new(&bytes);
        let lengths =
            |cursor: &mut Cursor<'_>, n: usize| cursor.skip(usize::from(length_size).checked_mul(n)?);
        let mut parse = || {
            let is_heap = cursor.bytes(4)? == b"FRHP" && cursor.u8()? == 0;
            let (id, filters, flags, most) = (cursor.u16()?, cursor.u16()?, cursor.u8()?, cursor.u32()?);
            lengths(&mut cursor, 1)?;
            let huge = cursor.address(offset_size)?;
            lengths(&mut cursor, 1)?;
            cursor.address(offset_size)?;
            lengths(&mut cursor, 8)?;
            let columns = u64::from(cursor.u16()?);
            let (least, largest) = (cursor.uint(length_size)?, cursor.uint(length_size)?);
            let bits = cursor.u16()?;
            cursor.skip(2)?;
            let (root, rows) = (cursor.address(offset_size)?, cursor.u16()?);
            let is_right = is_heap
                && filters == 0
                && id > 0
                && bits <= 64
                && columns.is_power_of_two()
                && least.is_power_of_two()
                && largest.is_power_of_two()
                && least <= largest;
            let offset = u8::try_from(bits.div_ceil(8)).ok()?;
            let length = u8::try_from(largest.checked_ilog2()?.div_ceil(8)).ok()?.min(width(most.into()));
            is_right.then_some(Self {
                address,
                id: id.into(),
                has_sums: flags & 2 != 0,
                most: most.into(),
                huge,
                columns,
                least,
                largest,
                offset,
                length,
                root,
                rows: rows.into(),
                blocks: HashMap::new(),
                held: 0,
            })
        };
        parse().ok_or_else(wrong)
    }

    /// Returns a key that sorts objects by position.
    pub(super) fn place(&self, id: &[u8]) -> u64 {
        let mut cursor = Cursor::new(id);
        cursor.u8().and_then(|_| cursor.uint(self.offset)).unwrap_or_default()
    }

    /// Reads an object.
    pub(super) fn get(&mut self, below: &Below, id: &[u8]) -> Result<Vec<u8>, String> {
        let wrong = || "an identifier of an object in a fractal heap is malformed".to_owned();
        let mut cursor = Cursor::new(id.get(..self.id).ok_or_else(wrong)?);
        let head = cursor.u8().ok_or_else(wrong)?;
        match head >> 4 {
            0 => {
                let mut parse = || Some((cursor.uint(self.offset)?, cursor.uint(self.length)?));
                let (at, len) = parse().ok_or_else(wrong)?;
                if len > self.most {
                    return Err(wrong());
                }
                self.managed(below, at, len)
            }
            1 => self.huge(below, cursor.rest()),
            2 => {
                // The object is in its identifier, after its length in one or two bytes.
                let low = usize::from(head & 0xF);
                let len = match self.id > 17 {
                    true => low << 8 | usize::from(cursor.u8().ok_or_else(wrong)?),
                    false => low,
                };
                let object = len.checked_add(1).and_then(|len| cursor.bytes(len));
                Ok(object.ok_or_else(wrong)?.to_vec())
            }
            _ => Err(wrong()),
        }
    }

    /// Reads an object that is in a direct block.
    fn managed(&mut self, below: &Below, at: u64, len: u64) -> Result<Vec<u8>, String> {
        let wrong = || format!("an object at {at} is not in its fractal heap");
        let (mut address, mut rows) = (self.root, self.rows);
        // Where the block starts, and where the object is in it.
        let (mut start, mut rest, mut size) = (0_u64, at, self.least);
        for _ in 0..DEEPEST {
            if address == NOWHERE {
                return Err(wrong());
            }
            if rows == 0 {
                let block = self.direct(below, address, start, size)?;
                let object = usize::try_from(rest).ok().zip(usize::try_from(len).ok());
                let object = object.and_then(|(at, len)| block.get(at..at.checked_add(len)?));
                below.pages.spend(len).map_err(|error| error.to_string())?;
                return Ok(object.ok_or_else(wrong)?.to_vec());
            }
            // The first two rows are equal.
            let row = (rest / self.least / self.columns).checked_ilog2().map_or(0, |row| u64::from(row) + 1);
            let steps = u32::try_from(row.saturating_sub(1)).map_err(|_| wrong())?;
            size =
                self.least.checked_shl(steps).filter(|size| size >> steps == self.least).ok_or_else(wrong)?;
            let before = if row == 0 { 0 } else { size.checked_mul(self.columns).ok_or_else(wrong)? };
            let column = rest.saturating_sub(before) / size;
            if row >= rows || column >= self.columns {
                return Err(wrong());
            }
            let entry = row.saturating_mul(self.columns).saturating_add(column);
            address = self.child(below, address, start, rows, entry)?;
            let skipped = before.saturating_add(column.saturating_mul(size));
            (start, rest) = (start.saturating_add(skipped), rest.saturating_sub(skipped));
            rows = match size <= self.largest {
                true => 0,
                // The rows that cover this many bytes.
                false => (size / self.least / self.columns)
                    .checked_ilog2()
                    .map(|rows| u64::from(rows) + 1)
                    .ok_or_else(wrong)?,
            };
        }
        Err(wrong())
    }

    /// Reads a direct block, including its head.
    fn direct(&mut self, below: &Below, address: u64, start: u64, size: u64) -> Result<Arc<Vec<u8>>, String> {
        if let Some(block) = self.blocks.get(&address) {
            return Ok(block.clone());
        }
        let mut bytes = below.metadata(address, size)?;
        let head = self.check_head(below, (address, start), *b"FHDB", &bytes)?;
        if self.has_sums {
            let wrong = || format!("the checksum at {address} is wrong");
            // The checksum is computed with zeros in place of the checksum itself.
            let place = bytes.get_mut(head..head.saturating_add(4)).ok_or_else(wrong)?;
            let mut sum = [0; 4];
            sum.copy_from_slice(place);
            place.fill(0);
            if lookup3(&bytes) != u32::from_le_bytes(sum) {
                return Err(wrong());
            }
        }
        Ok(self.keep(address, bytes))
    }

    /// Returns the address of an entry of a table with this many rows.
    fn child(
        &mut self,
        below: &Below,
        address: u64,
        start: u64,
        rows: u64,
        entry: u64,
    ) -> Result<u64, String> {
        let wrong = || format!("the table of a fractal heap at {address} is malformed");
        let size = u64::from(below.offset_size);
        let head = size.saturating_add(self.offset.into()).saturating_add(5);
        let block = match self.blocks.get(&address) {
            Some(block) => block.clone(),
            None => {
                let entries = rows.saturating_mul(self.columns).saturating_mul(size);
                let bytes = below.checked(address, head.saturating_add(entries).saturating_add(4))?;
                self.check_head(below, (address, start), *b"FHIB", &bytes)?;
                self.keep(address, bytes)
            }
        };
        let at = usize::try_from(entry.saturating_mul(size).saturating_add(head)).map_err(|_| wrong())?;
        block.get(at..).and_then(|bytes| Cursor::new(bytes).address(below.offset_size)).ok_or_else(wrong)
    }

    /// Checks the header of a block, and returns its length.
    fn check_head(
        &self,
        below: &Below,
        (address, start): (u64, u64),
        signature: [u8; 4],
        bytes: &[u8],
    ) -> Result<usize, String> {
        let mut cursor = Cursor::new(bytes);
        let is_right = cursor.bytes(4) == Some(&signature[..])
            && cursor.u8() == Some(0)
            && cursor.address(below.offset_size) == Some(self.address)
            && cursor.uint(self.offset) == Some(start);
        match is_right {
            true => Ok(bytes.len().saturating_sub(cursor.rest().len())),
            false => Err(format!("the block of a fractal heap at {address} is malformed")),
        }
    }

    fn keep(&mut self, address: u64, bytes: Vec<u8>) -> Arc<Vec<u8>> {
        if self.held.saturating_add(bytes.len()) > MAX_CACHED_LEN {
            self.blocks.clear();
            self.held = 0;
        }
        self.held = self.held.saturating_add(bytes.len());
        let bytes = Arc::new(bytes);
        self.blocks.insert(address, bytes.clone());
        bytes
    }

    /// Reads an object that is stored separately. `rest` is its identifier after the first byte.
    fn huge(&self, below: &Below, rest: &[u8]) -> Result<Vec<u8>, String> {
        let wrong = || "a large object of a fractal heap is not in its index".to_owned();
        let (offset_size, length_size) = (below.offset_size, below.length_size);
        let place = |bytes: &[u8]| {
            let mut cursor = Cursor::new(bytes);
            Some((cursor.address(offset_size)?, cursor.uint(length_size)?))
        };
        if rest.len() >= usize::from(offset_size).saturating_add(length_size.into()) {
            let (address, len) = place(rest).ok_or_else(wrong)?;
            return below.metadata(address, len);
        }
        // The key of the object in the index.
        let size = u8::try_from(rest.len()).map_or(length_size, |len| len.min(length_size));
        let number = Cursor::new(rest).uint(size).ok_or_else(wrong)?;
        let tree = Tree::open(below, self.huge)?;
        if tree.kind != 1 {
            return Err(wrong());
        }
        let mut compare = |record: &[u8]| -> Result<Ordering, String> {
            let mut cursor = Cursor::new(record);
            cursor.skip(offset_size.into()).ok_or_else(wrong)?;
            cursor.skip(length_size.into()).ok_or_else(wrong)?;
            Ok(cursor.uint(length_size).ok_or_else(wrong)?.cmp(&number))
        };
        let mut found = None;
        tree.select(below, &mut compare, &mut |record| {
            found = place(record);
            Ok(())
        })?;
        let (address, len) = found.ok_or_else(wrong)?;
        below.metadata(address, len)
    }
}
