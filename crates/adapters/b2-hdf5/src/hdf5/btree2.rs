//! B-trees of version 2. A node holds records in order, and one more child than records, if it has children: those before,
//! between and after the records.

use std::cmp::Ordering;

use super::cursor::{Cursor, NOWHERE};
use super::header::Below;

/// Maximum number of levels of a tree.
const DEEPEST: u16 = 32;
/// Bytes of a node around its records: signature, version and kind before, a checksum after.
const HEAD: u64 = 6;
const SUM: u64 = 4;

/// A B-tree of version 2.
pub(super) struct Tree {
    /// The kind of its records.
    pub(super) kind: u8,
    /// Bytes of a record.
    pub(super) record: usize,
    root: u64,
    /// Records in the root.
    count: u64,
    /// The levels, starting with the leaves.
    levels: Vec<Level>,
    offset_size: u8,
}

/// The nodes of a level.
struct Level {
    /// Maximum number of records of a node.
    most: u64,
    /// Bytes of the number of records of such a node, and of all records in it and below it.
    count: u8,
    total: u8,
}

impl Tree {
    pub(super) fn open(below: &Below, address: u64) -> Result<Self, String> {
        let wrong = || format!("the B-tree at {address} is malformed");
        let (offset_size, length_size) = (below.offset_size, below.length_size);
        let len = u64::from(offset_size).saturating_add(length_size.into()).saturating_add(22);
        let bytes = below.checked(address, len)?;
        let mut cursor = Cursor::new(&bytes);
        let mut parse = || {
            let is_tree = cursor.bytes(4)? == b"BTHD" && cursor.u8()? == 0;
            let kind = cursor.u8()?;
            let (node, record, depth) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
            cursor.skip(2)?;
            let (root, count) = (cursor.address(offset_size)?, cursor.u16()?);
            is_tree.then_some((kind, node, record, depth, root, count))
        };
        let (kind, node, record, depth, root, count) = parse().ok_or_else(wrong)?;
        let size = u64::from(record);
        let room = u64::from(node).saturating_sub(HEAD.saturating_add(SUM));
        if depth > DEEPEST || size == 0 {
            return Err(wrong());
        }
        let most = room / size;
        let width_of_counts = width(most);
        let mut levels = vec![Level { most, count: width_of_counts, total: 0 }];
        // Records of a node and all below it.
        let mut all = most;
        for _ in 0..depth {
            let total = levels.last().map_or(0, |level| level.total);
            let pointer =
                u64::from(offset_size).saturating_add(width_of_counts.into()).saturating_add(total.into());
            let most = room.saturating_sub(pointer) / size.saturating_add(pointer);
            all = most.saturating_add(1).saturating_mul(all).saturating_add(most);
            levels.push(Level { most, count: width_of_counts, total: width(all) });
        }
        Ok(Self { kind, record: record.into(), root, count: count.into(), levels, offset_size })
    }

    /// Calls `each` with the records for which `compare` returns `Equal`. For the others it returns whether
    /// they are before or after those.
    pub(super) fn select(
        &self,
        below: &Below,
        compare: &mut dyn FnMut(&[u8]) -> Result<Ordering, String>,
        each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.root == NOWHERE {
            return Ok(());
        }
        let depth = self.levels.len().saturating_sub(1);
        self.node(below, (self.root, self.count), depth, compare, each)
    }

    fn node(
        &self,
        below: &Below,
        (address, count): (u64, u64),
        depth: usize,
        compare: &mut dyn FnMut(&[u8]) -> Result<Ordering, String>,
        each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let wrong = || format!("the node of a B-tree at {address} is malformed");
        let level = self.levels.get(depth).ok_or_else(wrong)?;
        let child = depth.checked_sub(1).and_then(|depth| self.levels.get(depth));
        let pointer = child.map_or(0, |child| {
            u64::from(self.offset_size).saturating_add(child.count.into()).saturating_add(child.total.into())
        });
        if count > level.most {
            return Err(wrong());
        }
        let records = count.saturating_mul(self.record as u64);
        let pointers = count.saturating_add(1).saturating_mul(pointer);
        let len = records.saturating_add(pointers).saturating_add(HEAD).saturating_add(SUM);
        let bytes = below.checked(address, len)?;
        let mut cursor = Cursor::new(&bytes);
        let signature: &[u8; 4] = if child.is_some() { b"BTIN" } else { b"BTLF" };
        if cursor.bytes(4) != Some(&signature[..]) || cursor.bytes(2) != Some(&[0, self.kind]) {
            return Err(wrong());
        }
        let records = usize::try_from(records).ok().and_then(|len| cursor.bytes(len)).ok_or_else(wrong)?;
        // The position of the last record relative to the one searched for.
        let mut last = Ordering::Less;
        for record in records.chunks_exact(self.record).map(Some).chain([None]) {
            let place = record.map_or(Ok(Ordering::Greater), &mut *compare)?;
            if let Some(child) = child {
                let to = cursor.address(self.offset_size).ok_or_else(wrong)?;
                let count = cursor.uint(child.count).ok_or_else(wrong)?;
                cursor.skip(child.total.into()).ok_or_else(wrong)?;
                if last != Ordering::Greater && place != Ordering::Less {
                    self.node(below, (to, count), depth.saturating_sub(1), compare, each)?;
                }
            }
            if let (Some(record), Ordering::Equal) = (record, place) {
                each(record)?;
            }
            last = place;
        }
        Ok(())
    }
}

/// Returns the number of bytes that numbers up to `most` need.
pub(super) fn width(most: u64) -> u8 {
    let bits = u64::BITS.saturating_sub(most.max(1).leading_zeros());
    u8::try_from(bits.div_ceil(8)).unwrap_or(8)
}
