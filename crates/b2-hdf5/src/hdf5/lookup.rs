//! The way to one chunk in the trees over chunks: a node of each level is read, and nothing beside it.

use std::cmp::Ordering;

use hdf5_reader::btree_v1::{BTreeV1Key, BTreeV1Node};
use hdf5_reader::btree_v2::BTreeV2Header;
use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::chunk_index::ChunkEntry;
use hdf5_reader::io;

use super::cursor::{Cursor, NOWHERE};
use super::header::Below;

/// The most levels of a tree.
const DEEPEST: usize = 32;

/// Follows a B-tree of version 1 to the chunk at a position of the grid.
pub(super) fn in_tree1(
    below: &Below,
    root: u64,
    at: &[u64],
    dims: &[u32],
) -> Result<Option<ChunkEntry>, String> {
    let ndim = u32::try_from(at.len()).map_err(|error| error.to_string())?;
    let place = offsets(at, dims);
    let size = usize::from(below.offset_size);
    // The signature, kind, level and number of children, then the addresses of the neighbours.
    let head = 8 + 2 * size;
    let key = 16 + 8 * place.len();
    let mut address = root;
    for _ in 0..DEEPEST {
        let start = below.metadata(address, head as u64)?;
        let [b'T', b'R', b'E', b'E', 1, _, low, high, ..] = start[..] else {
            return Err("not a node of a tree of chunks".into());
        };
        let children = usize::from(u16::from_le_bytes([low, high]));
        let bytes = below.metadata(address, (head + (children + 1) * key + children * size) as u64)?;
        let mut cursor = io::Cursor::new(&bytes);
        let node = BTreeV1Node::parse(&mut cursor, below.offset_size, below.length_size, Some(ndim))
            .map_err(|error| error.to_string())?;
        // The last child that does not start behind the place.
        let mut found = None;
        for (own, &child) in node.keys.iter().zip(&node.children) {
            let BTreeV1Key::RawData { chunk_size, filter_mask, offsets } = own else {
                return Err("other entries than chunks".into());
            };
            let first = offsets.get(..place.len()).unwrap_or_default();
            if first > &place[..] {
                break;
            }
            found = Some((child, first == place, u64::from(*chunk_size), *filter_mask));
        }
        match found {
            Some((child, is_it, size, filter_mask)) if node.level == 0 => {
                let entry = ChunkEntry { address: child, size, filter_mask, offsets: place };
                return Ok(is_it.then_some(entry));
            }
            Some((child, ..)) => address = child,
            None => return Ok(None),
        }
    }
    Err(format!("more than {DEEPEST} levels"))
}

/// Follows a B-tree of version 2 to the chunk at a position of the grid.
pub(super) fn in_tree2(
    below: &Below,
    header: u64,
    at: &[u64],
    dims: &[u32],
) -> Result<Option<ChunkEntry>, String> {
    let tree = BTreeV2Header::parse_at_storage(&below.pages, header, below.offset_size, below.length_size)
        .map_err(|error| error.to_string())?;
    let tree = Tree2::new(&tree, below.offset_size, at.len())?;
    let (mut address, mut count) = (tree.root, tree.root_count);
    for depth in (0..=tree.depth).rev() {
        if address == NOWHERE {
            return Ok(None);
        }
        let node = tree.node(below, address, count, depth)?;
        match node.find(&tree, at)? {
            Place::Here(stored) => return Ok(Some(ChunkEntry { offsets: offsets(at, dims), ..stored })),
            Place::Below(n) if depth > 0 => (address, count) = node.child(&tree, n, depth)?,
            Place::Below(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// The first item of a chunk.
fn offsets(at: &[u64], dims: &[u32]) -> Vec<u64> {
    at.iter().zip(dims).map(|(&at, &length)| at.saturating_mul(length.into())).collect()
}

/// A tree of version 2 over chunks. A node holds records in the order of the grid, and one more child than records, if it has
/// children: those in front of, between and behind the records.
struct Tree2 {
    kind: u8,
    root: u64,
    /// Records in the root.
    root_count: u16,
    depth: usize,
    /// Bytes of a record.
    record: usize,
    /// Bytes of an address.
    offset_size: u8,
    /// Bytes of the stored size of a chunk; none without filters.
    length: Option<u8>,
    /// Bytes of the number of records in a child.
    count: u8,
    /// Bytes of the number of records in a child and all below it, for the nodes of each level from 1 on. Those of level 1, whose
    /// children have nothing below, do not have this number.
    totals: Vec<u8>,
}

/// Bytes of a node around its records: signature, version and kind in front, a checksum behind.
const HEAD: usize = 6;
const SUM: usize = 4;

impl Tree2 {
    fn new(header: &BTreeV2Header, offset_size: u8, ndim: usize) -> Result<Self, String> {
        let record = usize::from(header.record_size);
        let fixed = usize::from(offset_size) + 8 * ndim;
        let length = match header.btree_type {
            10 if record == fixed => None,
            11 => {
                // The width of this number depends on the chunk, and follows from what the others leave.
                let width = record.checked_sub(fixed + 4).and_then(|width| u8::try_from(width).ok());
                Some(width.filter(|width| (1..=8).contains(width)).ok_or("records of another size")?)
            }
            10 => return Err("records of another size".into()),
            _ => return Err("other entries than chunks".into()),
        };
        let depth = usize::from(header.depth);
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} levels"));
        }
        let room = u64::from(header.node_size).saturating_sub((HEAD + SUM) as u64);
        let in_leaf = room / record as u64;
        let count = width(in_leaf);
        let mut totals = Vec::new();
        // The most records in a child of the level and below it.
        let (mut most, mut total) = (in_leaf, 0);
        for _ in 0..depth {
            totals.push(total);
            let pointer = u64::from(offset_size) + u64::from(count) + u64::from(total);
            let own = room.saturating_sub(pointer) / (record as u64).saturating_add(pointer);
            most = own.saturating_add(1).saturating_mul(most).saturating_add(own);
            total = width(most);
        }
        Ok(Self {
            kind: header.btree_type,
            root: header.root_node_address,
            root_count: header.num_records_in_root,
            depth,
            record,
            offset_size,
            length,
            count,
            totals,
        })
    }

    /// Bytes of what a node of this depth says of each child; a leaf has no children.
    fn pointer(&self, depth: usize) -> usize {
        match depth.checked_sub(1) {
            Some(level) => {
                let total = self.totals.get(level).copied().unwrap_or(0);
                usize::from(self.offset_size) + usize::from(self.count) + usize::from(total)
            }
            None => 0,
        }
    }

    fn node(&self, below: &Below, address: u64, count: u16, depth: usize) -> Result<Node, String> {
        let records = HEAD + usize::from(count) * self.record;
        let end = records + (usize::from(count) + 1) * self.pointer(depth);
        let bytes = below.metadata(address, (end + SUM) as u64)?;
        let signature: &[u8; 4] = if depth == 0 { b"BTLF" } else { b"BTIN" };
        if !bytes.starts_with(signature) || bytes.get(4..HEAD) != Some(&[0, self.kind]) {
            return Err("not a node of a tree of chunks".into());
        }
        let (content, sum) = bytes.split_at_checked(end).ok_or("a node is cut off")?;
        if sum != jenkins_lookup3(content).to_le_bytes() {
            return Err(format!("the checksum of the node at {address} is wrong"));
        }
        Ok(Node { bytes, count: usize::from(count), records })
    }
}

/// Returns how many bytes hold numbers up to `most`.
fn width(most: u64) -> u8 {
    let bits = u64::BITS.saturating_sub(most.max(1).leading_zeros());
    u8::try_from(bits.div_ceil(8)).unwrap_or(8)
}

/// A node that was read, and whose checksum is right.
struct Node {
    bytes: Vec<u8>,
    /// Its records.
    count: usize,
    /// Where they end.
    records: usize,
}

/// Where a chunk is, seen from a node.
enum Place {
    /// Without the offsets.
    Here(ChunkEntry),
    /// In the child with this number, if anywhere.
    Below(usize),
}

impl Node {
    fn find(&self, tree: &Tree2, at: &[u64]) -> Result<Place, String> {
        let cut = || "a record is cut off".to_owned();
        for n in 0..self.count {
            let start = HEAD + n * tree.record;
            let record = self.bytes.get(start..start + tree.record).ok_or_else(cut)?;
            let mut cursor = Cursor::new(record);
            let address = cursor.address(tree.offset_size).ok_or_else(cut)?;
            let (size, filter_mask) = match tree.length {
                Some(width) => (cursor.uint(width).ok_or_else(cut)?, cursor.u32().ok_or_else(cut)?),
                None => (0, 0),
            };
            let own = at.iter().map(|_| cursor.uint(8)).collect::<Option<Vec<_>>>().ok_or_else(cut)?;
            match own[..].cmp(at) {
                Ordering::Less => {}
                Ordering::Equal => {
                    let offsets = Vec::new();
                    return Ok(Place::Here(ChunkEntry { address, size, filter_mask, offsets }));
                }
                Ordering::Greater => return Ok(Place::Below(n)),
            }
        }
        Ok(Place::Below(self.count))
    }

    /// The address of a child, and the number of its records.
    fn child(&self, tree: &Tree2, n: usize, depth: usize) -> Result<(u64, u16), String> {
        let cut = || "a child is cut off".to_owned();
        let start = self.records + n * tree.pointer(depth);
        let mut cursor = Cursor::new(self.bytes.get(start..).ok_or_else(cut)?);
        let address = cursor.address(tree.offset_size).ok_or_else(cut)?;
        let count = cursor.uint(tree.count).ok_or_else(cut)?;
        let count = u16::try_from(count).map_err(|_| format!("{count} records in a node"))?;
        Ok((address, count))
    }
}
