//! References to texts and sequences of variable length.

use std::sync::Arc;

use bytes::Bytes;

use super::cursor::{Cursor, NOWHERE};
use super::global_heap::Collection;
use super::header::Below;

/// Bytes of a collection that reading one object of it may take without being counted: those that HDF5 makes for small
/// objects have as many, and each may be read again for each of its objects.
const USUAL: u64 = 4096;

impl Below {
    /// Returns the object that an item refers to: the number of elements, which have `size` bytes each, and their
    /// bytes. A null reference has no elements.
    pub(crate) fn sequence(&self, reference: &[u8], size: usize) -> Result<(u32, Bytes), String> {
        self.sequence_near(reference, size, &mut None)
    }

    /// Like [`sequence`](Self::sequence), for many references, of which neighbours are often in the same collection: `last` is that of
    /// the previous one, with its address.
    pub(crate) fn sequence_near(
        &self,
        reference: &[u8],
        size: usize,
        last: &mut Option<(u64, Arc<Collection>)>,
    ) -> Result<(u32, Bytes), String> {
        let wrong = || "a reference to a heap is malformed".to_owned();
        let mut cursor = Cursor::new(reference);
        let mut parse = || Some((cursor.u32()?, cursor.address(self.offset_size)?, cursor.u32()?));
        let (count, address, index) = parse().ok_or_else(wrong)?;
        if address == 0 || count == 0 && address == NOWHERE {
            return Ok((0, Bytes::new()));
        }
        let collection = match last {
            Some((own, collection)) if *own == address => collection,
            _ => &mut last.insert((address, self.collection(address)?)).1,
        };
        let object = match collection.get(index) {
            None if count == 0 => Bytes::new(),
            object => object.ok_or_else(wrong)?,
        };
        if usize::try_from(count).ok().and_then(|count| count.checked_mul(size)) != Some(object.len()) {
            return Err(format!("{count} elements of {size} bytes in a heap are {} bytes", object.len()));
        }
        // Objects may share bytes in a damaged file, and may be referred to any number of times.
        self.pages.spend(object.len() as u64).map_err(|error| error.to_string())?;
        Ok((count, object))
    }

    /// Returns an object of a heap.
    pub(crate) fn heap_object(&self, address: u64, index: u32) -> Result<Bytes, String> {
        let object = self.collection(address)?.get(index);
        let object = object.ok_or_else(|| format!("object {index} of the heap at {address} is missing"))?;
        self.pages.spend(object.len() as u64).map_err(|error| error.to_string())?;
        Ok(object)
    }

    fn collection(&self, address: u64) -> Result<Arc<Collection>, String> {
        if let Some(collection) = self.collections.get(address) {
            return Ok(collection);
        }
        let wrong = || "a heap of texts is malformed".to_owned();
        let width = self.length_size;
        // The heads of the collection and of its objects are filled up to multiples of 8 bytes.
        let head = u64::from(width).saturating_add(8).next_multiple_of(8);
        let start = self.metadata(address, head)?;
        let mut cursor = Cursor::new(&start);
        if cursor.bytes(4) != Some(&b"GCOL"[..]) || cursor.u8() != Some(1) {
            return Err(wrong());
        }
        cursor.skip(3).ok_or_else(wrong)?;
        let len = cursor.uint(width).ok_or_else(wrong)?;
        self.pages.spend(len.saturating_sub(USUAL)).map_err(|error| error.to_string())?;
        let bytes = self.pages.unspent(address, len).map_err(|error| error.to_string())?;
        let collection = Collection::parse(bytes, start.len(), width).ok_or_else(wrong)?;
        let size = collection.size();
        Ok(self.collections.keep(address, collection, size))
    }
}
