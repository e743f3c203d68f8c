//! The elements of fixed and extensible arrays: where the chunks of a data set are.

use super::cursor::{Cursor, NOWHERE};
use super::header::Below;

/// A chunk that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredChunk {
    /// Its first item.
    pub offset: Vec<u64>,
    /// Where it starts in the file.
    pub position: u64,
    /// How many bytes it has.
    pub nbytes: u64,
    /// The filters that were not applied, one bit each.
    pub mask: u32,
}

impl StoredChunk {
    pub(crate) fn new(offset: Vec<u64>, position: u64, nbytes: u64, mask: u32) -> Self {
        Self { offset, position, nbytes, mask }
    }
}

/// Where a stored chunk is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChunkRecord {
    pub(crate) address: u64,
    /// Stored bytes.
    pub(crate) len: u64,
    /// The filters that were not applied, one bit each.
    pub(crate) mask: u32,
}

/// Receives the number of an element, and the location of its chunk.
pub(super) type Each<'a> = dyn FnMut(u64, ChunkRecord) -> Result<(), String> + 'a;

/// The form of the elements of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    offset_size: u8,
    /// Bytes of the stored size of a chunk; `None` without filters.
    width: Option<u8>,
    /// Bytes of an element.
    pub(super) size: u64,
    client: u8,
}

impl Slots {
    /// `client` is the purpose of the array, and `size` the bytes of an element.
    pub(super) fn new(below: &Below, client: u8, size: u8, is_filtered: bool) -> Option<Self> {
        let width = match client {
            0 if size == below.offset_size => None,
            1 => Some(size.checked_sub(below.offset_size)?.checked_sub(4).filter(|n| (1..=8).contains(n))?),
            _ => return None,
        };
        let slots = Self { offset_size: below.offset_size, width, size: size.into(), client };
        (width.is_some() == is_filtered).then_some(slots)
    }

    /// Bytes of the head of each block.
    pub(super) fn head(&self) -> u64 {
        u64::from(self.offset_size).saturating_add(6)
    }

    /// Reads a block of the array whose header is at `header`: `len` bytes and a checksum. Returns what follows the head.
    pub(super) fn block(
        &self,
        below: &Below,
        signature: [u8; 4],
        (address, header): (u64, u64),
        len: u64,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = below.checked(address, self.head().saturating_add(len).saturating_add(4))?;
        let mut cursor = Cursor::new(&bytes);
        let is_right = cursor.bytes(4) == Some(&signature[..])
            && cursor.bytes(2) == Some(&[0, self.client])
            && cursor.address(self.offset_size) == Some(header);
        if !is_right {
            return Err(format!("the block of an array at {address} is malformed"));
        }
        let head = bytes.len().saturating_sub(cursor.rest().len());
        bytes.drain(..head);
        Ok(bytes)
    }

    /// Calls `each` with the elements in `bytes`, the first of which has the number `first`.
    pub(super) fn each(&self, bytes: &[u8], first: u64, each: &mut Each<'_>) -> Result<(), String> {
        let cut = || "an element of an array is cut off".to_owned();
        let mut cursor = Cursor::new(bytes);
        for number in first.. {
            if cursor.rest().is_empty() {
                break;
            }
            let address = cursor.address(self.offset_size).ok_or_else(cut)?;
            let (len, mask) = match self.width {
                Some(width) => (cursor.uint(width).ok_or_else(cut)?, cursor.u32().ok_or_else(cut)?),
                None => (0, 0),
            };
            if address != NOWHERE {
                each(number, ChunkRecord { address, len, mask })?;
            }
        }
        Ok(())
    }

    /// Reads a page of elements, which is followed by its checksum.
    pub(super) fn page(
        &self,
        below: &Below,
        address: u64,
        (first, count): (u64, u64),
        each: &mut Each<'_>,
    ) -> Result<(), String> {
        let bytes = below.checked(address, count.saturating_mul(self.size).saturating_add(4))?;
        self.each(&bytes, first, each)
    }
}

/// Whether a bit is set. The first bit is the highest of the first byte.
pub(super) fn bit(bytes: &[u8], n: u64) -> bool {
    let byte = usize::try_from(n / 8).ok().and_then(|at| bytes.get(at));
    byte.is_some_and(|byte| byte << (n % 8) & 0x80 != 0)
}
