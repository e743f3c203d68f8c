//! The names in a group, and the attributes of an object.

use std::cmp::Ordering;
use std::sync::Arc;

use super::btree1::{self, TreeKind};
use super::btree2::Tree;
use super::cache::Cache;
use super::cursor::{Cursor, text_of};
use super::fractal_heap::Heap;
use super::header::{self, Below, Message};
use super::messages::{self, Attribute, Target};

/// Maximum number of names in a group, and of attributes.
const MAX_NAMES: usize = 1 << 20;
/// Bytes of an identifier in an index of names, and in one of attributes.
const LINK_ID: usize = 7;
const ATTRIBUTE_ID: usize = 8;

/// The names in a group and their targets.
pub(crate) struct Listing {
    /// In the order of creation, if it is recorded.
    pub(crate) links: Vec<(String, Target)>,
    /// Whether the order of creation is recorded.
    pub(super) is_ordered: bool,
    /// The numbers of the links, in the order of the names, and of the addresses of objects.
    by_name: Vec<u32>,
    by_address: Vec<(u64, u32)>,
}

impl Listing {
    fn new(links: Vec<(String, Target)>, is_ordered: bool) -> Self {
        let mut by_name: Vec<u32> = (0..).take(links.len()).collect();
        let name = |n: &u32| links.get(*n as usize).map(|(name, _)| name.as_str());
        by_name.sort_by(|a, b| name(a).cmp(&name(b)));
        let numbered = (0..).zip(&links);
        let mut by_address: Vec<(u64, u32)> = numbered
            .filter_map(|(n, (_, target))| match target {
                Target::Object(address) => Some((*address, n)),
                _ => None,
            })
            .collect();
        by_address.sort_unstable();
        Self { links, is_ordered, by_name, by_address }
    }

    /// Returns the target of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Target> {
        let link = |n: &u32| self.links.get(*n as usize);
        let first = self.by_name.partition_point(|n| link(n).is_some_and(|(own, _)| own.as_str() < name));
        let (own, target) = self.by_name.get(first).and_then(link)?;
        (own == name).then_some(target)
    }

    /// Returns the links in the order of their names.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &(String, Target)> {
        self.by_name.iter().filter_map(|n| self.links.get(*n as usize))
    }

    /// Returns the first name of an object.
    pub(crate) fn name_of(&self, address: u64) -> Option<&str> {
        let first = self.by_address.partition_point(|(own, _)| *own < address);
        let (own, n) = self.by_address.get(first)?;
        let (name, _) = self.links.get(*n as usize)?;
        (*own == address).then_some(name)
    }
}

impl Below {
    /// Returns the names in the group at an address, which has these messages, from the cache if possible.
    pub(crate) fn listing(
        &self,
        known: &Cache<Listing>,
        address: u64,
        found: &[Message],
    ) -> Result<Arc<Listing>, String> {
        if let Some(listing) = known.get(address) {
            return Ok(listing);
        }
        let (links, is_ordered) = self.links(found)?;
        let count = links.len();
        Ok(known.keep(address, Listing::new(links, is_ordered), count))
    }

    /// Reads the names, and whether the order of creation is recorded.
    fn links(&self, found: &[Message]) -> Result<(Vec<(String, Target)>, bool), String> {
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
                    let Some((heap, index, _)) = messages::heap(&message.data, 8, self).ok_or_else(wrong)?
                    else {
                        continue;
                    };
                    is_hashed = true;
                    let tree = Tree::open(self, index)?;
                    if tree.kind != 5 || tree.record != LINK_ID + 4 {
                        return Err("an index of names has other records than names".into());
                    }
                    let mut ids = Vec::new();
                    tree.select(self, &mut |_| Ok(Ordering::Equal), &mut |record| {
                        let id = record.get(4..).and_then(|id| id.first_chunk::<LINK_ID>());
                        ids.push(*id.ok_or_else(wrong)?);
                        limit(ids.len())
                    })?;
                    let mut heap = Heap::open(self, heap)?;
                    // Neighbours are in the same block.
                    ids.sort_by_cached_key(|id| heap.place(id));
                    for id in ids {
                        let link = heap.get(self, &id)?;
                        numbered.push(messages::link(&link, self).ok_or_else(wrong)?);
                    }
                }
                _ => {}
            }
            limit(links.len().max(numbered.len()))?;
        }
        let is_ordered = !numbered.is_empty() && numbered.iter().all(|(.., order)| order.is_some());
        match is_ordered {
            true => numbered.sort_by_key(|(.., order)| *order),
            // The index is sorted by hash, an order without meaning.
            false if is_hashed => numbered.sort_by(|(a, ..), (b, ..)| a.cmp(b)),
            false => {}
        }
        links.extend(numbered.into_iter().map(|(name, target, _)| (name, target)));
        Ok((links, is_ordered))
    }

    /// Returns the attributes of an object, in the order of creation, if it is recorded.
    pub(crate) fn attributes(&self, found: &[Message]) -> Result<Vec<Attribute>, String> {
        let mut attrs = Vec::new();
        let mut numbered: Vec<(u16, Attribute)> = Vec::new();
        for message in found {
            match message.kind {
                header::ATTRIBUTE => {
                    let attr = messages::attribute(&self.content(message)?, self)?;
                    numbered.push((message.order.unwrap_or_default(), attr));
                }
                header::ATTRIBUTE_INFO => self.many_attributes(&message.data, &mut attrs)?,
                _ => {}
            }
        }
        // Attributes are either in messages or in a heap.
        numbered.sort_by_key(|(order, _)| *order);
        attrs.extend(numbered.into_iter().map(|(_, attr)| attr));
        Ok(attrs)
    }

    /// Reads attributes that are in a heap: in the order of creation, if it is recorded, otherwise in that of their
    /// names.
    fn many_attributes(&self, info: &[u8], attrs: &mut Vec<Attribute>) -> Result<(), String> {
        let wrong = || "an attribute message is malformed".to_owned();
        let Some((heap, index, is_ordered)) = messages::heap(info, 2, self).ok_or_else(wrong)? else {
            return Ok(());
        };
        let tree = Tree::open(self, index)?;
        // The identifier, the flags of the message, the order and a hash of the name.
        if tree.kind != 8 || tree.record != ATTRIBUTE_ID + 9 {
            return Err("an index of attributes has other records than attributes".into());
        }
        let mut records = Vec::new();
        tree.select(self, &mut |_| Ok(Ordering::Equal), &mut |record| {
            let mut cursor = Cursor::new(record);
            let id = cursor.rest().first_chunk::<ATTRIBUTE_ID>().copied().ok_or_else(wrong)?;
            cursor.skip(ATTRIBUTE_ID).ok_or_else(wrong)?;
            let (flags, order) = (cursor.u8().ok_or_else(wrong)?, cursor.u32().ok_or_else(wrong)?);
            records.push((id, flags, order));
            limit(records.len())
        })?;
        let mut heap = Heap::open(self, heap)?;
        records.sort_by_cached_key(|(id, ..)| heap.place(id));
        let mut found = Vec::new();
        for (id, flags, order) in records {
            let bytes = match flags & header::SHARED {
                0 => heap.get(self, &id)?,
                _ => self.table_message(&id, header::ATTRIBUTE)?,
            };
            found.push((order, messages::attribute(&bytes, self)?));
        }
        match is_ordered {
            true => found.sort_by_key(|(order, _)| *order),
            false => found.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name)),
        }
        attrs.extend(found.into_iter().map(|(_, attr)| attr));
        Ok(())
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
            bytes.and_then(|bytes| Cursor::new(bytes).text()).map(text_of).ok_or_else(wrong)
        };
        // The position of the name, an address, the kind of the entry, and space for cached metadata of the object.
        let size = usize::from(self.offset_size).saturating_add(self.length_size.into()).saturating_add(24);
        btree1::walk(self, tree, TreeKind::Names, &mut |_, _| true, &mut |_, at| {
            let head = self.metadata(at, 8)?;
            let mut cursor = Cursor::new(&head);
            if cursor.bytes(4) != Some(&b"SNOD"[..]) || cursor.u8() != Some(1) {
                return Err(wrong());
            }
            cursor.skip(1).ok_or_else(wrong)?;
            let count = usize::from(cursor.u16().ok_or_else(wrong)?);
            let bytes = self.metadata(at.saturating_add(8), size.saturating_mul(count) as u64)?;
            for entry in bytes.chunks_exact(size) {
                let mut cursor = Cursor::new(entry);
                let mut parse = || {
                    let (name, address) = (cursor.uint(self.length_size)?, cursor.address(self.offset_size)?);
                    let kind = cursor.u32()?;
                    cursor.skip(4)?;
                    Some((name, address, kind, cursor.u32()?))
                };
                let (at, address, kind, value) = parse().ok_or_else(wrong)?;
                // The third kind of entry is a soft link.
                let target = match kind {
                    2 => Target::Soft(name(value.into())?),
                    _ => Target::Object(address),
                };
                let own = name(at)?;
                self.pages.spend(own.len() as u64).map_err(|error| error.to_string())?;
                links.push((own, target));
            }
            limit(links.len())
        })
    }

    pub(super) fn local_heap(&self, address: u64) -> Result<Vec<u8>, String> {
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

fn limit(count: usize) -> Result<(), String> {
    match count > MAX_NAMES {
        true => Err(format!("more than {MAX_NAMES} names")),
        false => Ok(()),
    }
}
