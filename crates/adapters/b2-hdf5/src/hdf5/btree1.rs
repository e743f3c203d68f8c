//! B-trees of version 1: over the tables of names of a group, or over the chunks of a data set.

use super::cursor::Cursor;
use super::header::Below;

/// Decides by the key of a child and the next key whether the child is needed.
type Wants<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> bool + 'a;
/// Receives the key and the address of a child.
type Each<'a> = dyn FnMut(&[u8], u64) -> Result<(), String> + 'a;

/// The kind of entries of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) enum TreeKind<'a> {
    /// Tables of names.
    Names,
    /// Chunks of this shape, in items.
    Chunks(&'a [u64]),
}

impl TreeKind<'_> {
    /// Bytes of a key.
    fn key(self, below: &Below) -> usize {
        match self {
            Self::Names => below.length_size.into(),
            // The stored size, a filter mask, and the first item, which has one dimension more.
            Self::Chunks(shape) => shape.len().saturating_mul(8).saturating_add(16),
        }
    }

    /// Checks that the first item of a chunk is on the grid.
    fn check(self, key: &[u8]) -> Result<(), String> {
        let Self::Chunks(shape) = self else { return Ok(()) };
        let mut cursor = Cursor::new(key);
        cursor.skip(8).ok_or_else(cut)?;
        for &length in shape {
            let offset = cursor.uint(8).ok_or_else(cut)?;
            if !offset.is_multiple_of(length) {
                return Err(format!("a chunk at {offset} is not on a grid of {length}"));
            }
        }
        Ok(())
    }
}

fn cut() -> String {
    "a node of a B-tree is cut off".to_owned()
}

/// Calls `each` with the entries of the leaves: the key and the address of the child. Children are skipped unless `wants` is
/// true for their key and the next one; the last child of a node has no next one.
pub(super) fn walk(
    below: &Below,
    root: u64,
    over: TreeKind<'_>,
    wants: &mut Wants<'_>,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let size = below.offset_size;
    // Signature, kind, level and number of children, then the addresses of the neighbours.
    let head = usize::from(size).saturating_mul(2).saturating_add(8);
    let key = over.key(below);
    // A stack of nodes to be read and their levels; only the root determines the level.
    let mut left = vec![(root, None)];
    while let Some((address, level)) = left.pop() {
        let start = below.metadata(address, head as u64)?;
        let kind = if matches!(over, TreeKind::Names) { 0 } else { 1 };
        let [b'T', b'R', b'E', b'E', found, own, low, high, ..] = start[..] else {
            return Err(format!("no node of a B-tree at {address}"));
        };
        if found != kind || level.is_some_and(|level| level != own) {
            return Err(format!("the node of a B-tree at {address} is of another kind or level"));
        }
        let count = usize::from(u16::from_le_bytes([low, high]));
        let entry = key.saturating_add(size.into());
        let len = count.saturating_mul(entry).saturating_add(key);
        let bytes = below.metadata(address.saturating_add(head as u64), len as u64)?;
        let mut cursor = Cursor::new(&bytes);
        let from = left.len();
        for n in 1..=count {
            let own_key = cursor.bytes(key).ok_or_else(cut)?;
            let child = cursor.address(size).ok_or_else(cut)?;
            let next = if n == count { None } else { cursor.rest().get(..key) };
            over.check(own_key)?;
            if !wants(own_key, next) {
                continue;
            }
            match own.checked_sub(1) {
                None => each(own_key, child)?,
                level => left.push((child, level)),
            }
        }
        // The upper end of the last child.
        over.check(cursor.bytes(key).ok_or_else(cut)?)?;
        left.get_mut(from..).unwrap_or_default().reverse();
    }
    Ok(())
}
