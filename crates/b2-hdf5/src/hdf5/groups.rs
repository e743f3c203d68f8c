//! The names in a group, and the attributes of an object.

use std::collections::HashMap;

use hdf5_reader::btree_v1::collect_btree_v1_leaves_storage;
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::fractal_heap::{FractalHeap, FractalHeapDirectBlockCache};

use super::cursor::{Cursor, text_of};
use super::header::{self, Below, Message};
use super::messages::{self, Attribute, Target};

/// Most names in a group, and most attributes.
const MOST: usize = 1 << 20;

impl Below {
    /// Returns the names in a group, in the order in which they were made, if that is kept.
    pub(crate) fn links(&self, found: &[Message]) -> Result<Vec<(String, Target)>, String> {
        let mut links = Vec::new();
        let mut numbered = Vec::new();
        let mut is_hashed = false;
        for message in found {
            let wrong = || "a link message is malformed".to_owned();
            match message.kind {
                header::SYMBOL_TABLE => self.old_links(&message.data, &mut links)?,
                header::LINK => {
                    let content = self.content(message)?;
                    numbered.push(messages::link(&content, self).ok_or_else(wrong)?);
                }
                header::LINK_INFO => {
                    let Some(place) = messages::heap(&message.data, 8, self).ok_or_else(wrong)? else {
                        continue;
                    };
                    is_hashed = true;
                    for bytes in self.heap_objects(place)? {
                        numbered.push(messages::link(&bytes, self).ok_or_else(wrong)?);
                    }
                }
                _ => {}
            }
            if links.len().max(numbered.len()) > MOST {
                return Err(format!("more than {MOST} names in a group"));
            }
        }
        match numbered.iter().all(|(.., order)| order.is_some()) {
            true => numbered.sort_by_key(|(.., order)| *order),
            // The order of the index is that of no one.
            false if is_hashed => numbered.sort_by(|(a, ..), (b, ..)| a.cmp(b)),
            false => {}
        }
        links.extend(numbered.into_iter().map(|(name, target, _)| (name, target)));
        Ok(links)
    }

    /// Returns the attributes of an object.
    pub(crate) fn attributes(&self, found: &[Message]) -> Result<Vec<Attribute>, String> {
        let mut attrs = Vec::new();
        for message in found {
            match message.kind {
                header::ATTRIBUTE => {
                    attrs.push(messages::attribute(&self.content(message)?, self)?);
                }
                header::ATTRIBUTE_INFO => {
                    let wrong = || "an attribute message is malformed".to_owned();
                    let Some(place) = messages::heap(&message.data, 2, self).ok_or_else(wrong)? else {
                        continue;
                    };
                    for bytes in self.heap_objects(place)? {
                        attrs.push(messages::attribute(&bytes, self)?);
                    }
                }
                _ => {}
            }
        }
        Ok(attrs)
    }

    /// Reads the objects of a fractal heap, in the order of an index.
    fn heap_objects(&self, (heap, index): (u64, u64)) -> Result<Vec<Vec<u8>>, String> {
        let text = |error: hdf5_reader::error::Error| error.to_string();
        let (offset_size, length_size) = (self.offset_size, self.length_size);
        let heap =
            FractalHeap::parse_at_storage(&self.pages, heap, offset_size, length_size).map_err(text)?;
        let tree =
            BTreeV2Header::parse_at_storage(&self.pages, index, offset_size, length_size).map_err(text)?;
        let records =
            collect_btree_v2_records_storage(&self.pages, &tree, offset_size, length_size, None, &[], None)
                .map_err(text)?;
        let mut blocks = FractalHeapDirectBlockCache::default();
        let mut objects = Vec::new();
        for record in records {
            let (BTreeV2Record::LinkNameHash { heap_id, .. }
            | BTreeV2Record::CreationOrder { heap_id, .. }
            | BTreeV2Record::AttributeNameHash { heap_id, .. }
            | BTreeV2Record::AttributeCreationOrder { heap_id, .. }) = record
            else {
                return Err("an index of names has other records than names".into());
            };
            if objects.len() > MOST {
                return Err(format!("more than {MOST} names"));
            }
            let object = heap.get_object_storage_cached_with_registry(
                &heap_id,
                &self.pages,
                offset_size,
                length_size,
                &mut blocks,
                None,
            );
            objects.push(object.map_err(text)?);
        }
        Ok(objects)
    }

    /// The names of a group in the old format: a B-tree of tables, with the names in a heap.
    fn old_links(&self, table: &[u8], links: &mut Vec<(String, Target)>) -> Result<(), String> {
        let wrong = || "a table of names is malformed".to_owned();
        let mut cursor = Cursor::new(table);
        let mut address = || cursor.address(self.offset_size).ok_or_else(wrong);
        let (tree, heap) = (address()?, address()?);
        let names = self.local_heap(heap)?;
        let name = |offset: u64| {
            let bytes = usize::try_from(offset).ok().and_then(|offset| names.get(offset..));
            bytes.and_then(text_of).ok_or_else(wrong)
        };
        let leaves = collect_btree_v1_leaves_storage(
            &self.pages,
            tree,
            self.offset_size,
            self.length_size,
            None,
            &[],
            None,
        )
        .map_err(|error| error.to_string())?;
        for (_, at) in leaves {
            let head = self.metadata(at, 8)?;
            let mut cursor = Cursor::new(&head);
            if cursor.bytes(4) != Some(&b"SNOD"[..]) || cursor.u8() != Some(1) || links.len() > MOST {
                return Err(wrong());
            }
            cursor.skip(1).ok_or_else(wrong)?;
            let count = cursor.u16().ok_or_else(wrong)?;
            let size = u64::from(self.offset_size).saturating_mul(2).saturating_add(24);
            let bytes = self.metadata(at.saturating_add(8), size.saturating_mul(count.into()))?;
            let mut cursor = Cursor::new(&bytes);
            for _ in 0..count {
                let mut entry = || {
                    let (name, address) = (cursor.uint(self.offset_size)?, cursor.address(self.offset_size)?);
                    let kind = cursor.u32()?;
                    cursor.skip(4)?;
                    let value = cursor.u32()?;
                    cursor.skip(12)?;
                    Some((name, address, kind, value))
                };
                let (at, address, kind, value) = entry().ok_or_else(wrong)?;
                // The third kind of entry is a soft link.
                let target = match kind {
                    2 => Target::Soft(name(value.into())?),
                    _ => Target::Object(address),
                };
                links.push((name(at)?, target));
            }
        }
        Ok(())
    }

    fn local_heap(&self, address: u64) -> Result<Vec<u8>, String> {
        let wrong = || "a heap of names is malformed".to_owned();
        let len = u64::from(self.length_size).saturating_mul(2).saturating_add(self.offset_size.into());
        let head = self.metadata(address, len.saturating_add(8))?;
        let mut cursor = Cursor::new(&head);
        if cursor.bytes(4) != Some(&b"HEAP"[..]) {
            return Err(wrong());
        }
        cursor.skip(4).ok_or_else(wrong)?;
        let len = cursor.uint(self.length_size).ok_or_else(wrong)?;
        cursor.skip(self.length_size.into()).ok_or_else(wrong)?;
        let at = cursor.address(self.offset_size).ok_or_else(wrong)?;
        self.metadata(at, len)
    }
}

/// Texts and sequences of variable length, which are kept in collections.
#[derive(Default)]
pub(crate) struct Heaps {
    /// The collections that were read last, by their address.
    read: HashMap<u64, Collection>,
    held: usize,
}

struct Collection {
    bytes: Vec<u8>,
    /// Where each object is.
    objects: HashMap<u32, (usize, usize)>,
}

impl Heaps {
    /// Bytes of collections that are kept.
    const KEPT: usize = 16 << 20;

    /// Returns what a reference of an item leads to: the number of elements, and their bytes. A reference to nothing has no
    /// elements.
    pub(crate) fn get(&mut self, reference: &[u8], below: &Below) -> Result<(u32, &[u8]), String> {
        let wrong = || "a reference to a heap is malformed".to_owned();
        let mut cursor = Cursor::new(reference);
        let mut parse = || Some((cursor.u32()?, cursor.address(below.offset_size)?, cursor.u32()?));
        let (count, address, index) = parse().ok_or_else(wrong)?;
        if count == 0 || address == 0 {
            return Ok((0, &[]));
        }
        if !self.read.contains_key(&address) {
            if self.held > Self::KEPT {
                self.read.clear();
                self.held = 0;
            }
            let collection = Collection::read(address, below)?;
            self.held = self.held.saturating_add(collection.bytes.len());
            self.read.insert(address, collection);
        }
        let collection = self.read.get(&address).ok_or_else(wrong)?;
        let &(at, len) = collection.objects.get(&index).ok_or_else(wrong)?;
        let bytes = at.checked_add(len).and_then(|end| collection.bytes.get(at..end)).ok_or_else(wrong)?;
        Ok((count, bytes))
    }
}

impl Collection {
    fn read(address: u64, below: &Below) -> Result<Self, String> {
        let wrong = || "a heap of texts is malformed".to_owned();
        let width = below.length_size;
        let head = below.metadata(address, u64::from(width).saturating_add(8))?;
        let mut cursor = Cursor::new(&head);
        if cursor.bytes(4) != Some(&b"GCOL"[..]) {
            return Err(wrong());
        }
        cursor.skip(4).ok_or_else(wrong)?;
        let len = cursor.uint(width).ok_or_else(wrong)?;
        let bytes = below.metadata(address, len)?;
        let mut objects = HashMap::new();
        let mut cursor = Cursor::new(&bytes);
        cursor.skip(head.len()).ok_or_else(wrong)?;
        let mut next = || {
            let index = cursor.u16()?;
            cursor.skip(6)?;
            let len = usize::try_from(cursor.uint(width)?).ok()?;
            let at = bytes.len().checked_sub(cursor.rest().len())?;
            // Object 0 is what is free.
            if index == 0 {
                return None;
            }
            cursor.skip(len)?;
            let _ = cursor.skip(len.wrapping_neg() % 8);
            Some((u32::from(index), (at, len)))
        };
        while let Some((index, place)) = next() {
            objects.insert(index, place);
        }
        Ok(Self { bytes, objects })
    }
}
