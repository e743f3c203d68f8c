//! Object headers: the messages that describe a group or a data set.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::cache::Cache;
use super::cursor::{Cursor, NOWHERE};
use super::global_heap::Collection;
use super::pages::Pages;
use crate::checksum::lookup3;

/// Maximum number of messages of an object.
const MAX_MESSAGES: usize = 1 << 16;
/// Maximum number of bytes before the messages of an object.
const PREFIX: u64 = 34;

pub(crate) const DATASPACE: u16 = 0x01;
pub(crate) const LINK_INFO: u16 = 0x02;
pub(crate) const DATATYPE: u16 = 0x03;
pub(crate) const OLD_FILL: u16 = 0x04;
pub(crate) const FILL: u16 = 0x05;
pub(crate) const LINK: u16 = 0x06;
pub(crate) const EXTERNAL: u16 = 0x07;
pub(crate) const LAYOUT: u16 = 0x08;
pub(crate) const FILTERS: u16 = 0x0B;
pub(crate) const ATTRIBUTE: u16 = 0x0C;
pub(super) const TABLES: u16 = 0x0F;
const CONTINUATION: u16 = 0x10;
pub(crate) const SYMBOL_TABLE: u16 = 0x11;
const CHANGED: u16 = 0x12;
/// The time of the last change as text, in old files.
const CHANGED_TEXT: u16 = 0x0E;
pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;

/// Bits of a message's flags.
pub(super) const SHARED: u8 = 2;

/// Maximum bytes of cached object headers and collections.
const HEADERS: usize = 16 << 20;
const COLLECTIONS: usize = 32 << 20;

/// A file, the sizes of its numbers, and a cache of its parsed parts.
pub(crate) struct Below {
    pub(crate) pages: Pages,
    pub(crate) offset_size: u8,
    pub(crate) length_size: u8,
    /// The address of the root group.
    pub(crate) root: u64,
    /// The superblock extension (an object header), or [`NOWHERE`].
    pub(super) extension: u64,
    headers: Cache<Vec<Message>>,
    pub(super) collections: Cache<Collection>,
    pub(super) tables: OnceLock<Result<Vec<Table>, String>>,
}

/// A heap of shared messages, and the kinds of messages that it has, one bit each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) kinds: u16,
    pub(super) heap: u64,
}

/// A message of an object header.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u8,
    /// Its number in the order of creation, if the object records it.
    pub(super) order: Option<u16>,
    pub(crate) data: Vec<u8>,
}

/// Positions where a superblock may be: at the start, or after a user block.
pub(crate) fn find(head: impl Fn(u64) -> Option<[u8; 8]>, len: u64) -> Option<u64> {
    let places = std::iter::once(0).chain((9..40).map(|bit| 1_u64 << bit));
    places.take_while(|&at| at < len).find(|&at| head(at) == Some(*b"\x89HDF\r\n\x1a\n"))
}

impl Message {
    /// Whether this is only the position of a shared message.
    pub(super) fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }
}

impl Below {
    /// Reads the superblock, which is at the start of the pages.
    pub(crate) fn open(pages: Pages) -> Result<Self, String> {
        let len = pages.len_from(0).min(256);
        let bytes = pages.metadata(0, len).map_err(|error| error.to_string())?;
        let Superblock { offset_size, length_size, root, extension } = superblock(&bytes)?;
        Ok(Self {
            pages,
            offset_size,
            length_size,
            root,
            extension,
            headers: Cache::new(HEADERS),
            collections: Cache::new(COLLECTIONS),
            tables: OnceLock::new(),
        })
    }

    pub(crate) fn metadata(&self, address: u64, len: u64) -> Result<Vec<u8>, String> {
        self.pages.metadata(address, len).map_err(|error| error.to_string())
    }

    /// Reads `len` bytes, verifies the checksum in the last four, and returns the others.
    pub(super) fn checked(&self, address: u64, len: u64) -> Result<Vec<u8>, String> {
        let mut bytes = self.metadata(address, len)?;
        match bytes.split_last_chunk::<4>() {
            Some((content, sum)) if lookup3(content) == u32::from_le_bytes(*sum) => {
                bytes.truncate(content.len());
                Ok(bytes)
            }
            _ => Err(format!("the checksum of the {len} bytes at {address} is wrong")),
        }
    }

    /// Returns the messages of an object.
    pub(crate) fn messages(&self, address: u64) -> Result<Arc<Vec<Message>>, String> {
        if let Some(found) = self.headers.get(address) {
            return Ok(found);
        }
        let found = self.read_messages(address)?;
        let size = found.iter().map(|message| message.data.len().saturating_add(size_of::<Message>())).sum();
        Ok(self.headers.keep(address, found, size))
    }

    fn read_messages(&self, address: u64) -> Result<Vec<Message>, String> {
        let start = self.metadata(address, self.pages.len_from(address).min(PREFIX))?;
        let mut found = Vec::new();
        // Bytes of messages: where they are, and how many.
        let mut later = Vec::new();
        let mut seen = BTreeSet::new();
        let is_new = start.starts_with(b"OHDR");
        let mut declared = 0;
        let cut = || format!("the object header at {address} is malformed");
        let flags = match is_new {
            true => {
                let (head, len, flags) = new_header(&start).ok_or_else(cut)?;
                let whole =
                    len.checked_add(head as u64).and_then(|len| len.checked_add(4)).ok_or_else(cut)?;
                let bytes = self.checked(address, whole)?;
                new_messages(bytes.get(head..).unwrap_or_default(), flags, &mut found).ok_or_else(cut)?;
                flags
            }
            false => {
                let (count, len) = old_header(&start).ok_or_else(cut)?;
                declared = count.into();
                let bytes = self.metadata(address.saturating_add(16), len)?;
                old_messages(&bytes, &mut found).ok_or_else(cut)?;
                0
            }
        };
        let mut from = 0;
        loop {
            for message in found.get(from..).unwrap_or_default() {
                // Modification times are not used, but a single flipped bit turns the number of a continuation or an attribute
                // into theirs, so that it would be missed.
                let is_malformed = match message.kind {
                    CHANGED => message.data.first() != Some(&1),
                    CHANGED_TEXT => {
                        !message.data.get(..14).is_some_and(|date| date.iter().all(u8::is_ascii_digit))
                    }
                    _ => false,
                };
                if is_malformed {
                    return Err(cut());
                }
                if message.kind == CONTINUATION {
                    let mut cursor = Cursor::new(&message.data);
                    let place = cursor.address(self.offset_size).zip(cursor.uint(self.length_size));
                    later.push(place.ok_or_else(cut)?);
                }
            }
            from = found.len();
            let Some((at, len)) = later.pop() else {
                // A header of version 1 has no checksum, but states the number of its messages.
                return if is_new || found.len() == declared { Ok(found) } else { Err(cut()) };
            };
            if !seen.insert(at) || from > MAX_MESSAGES {
                return Err(cut());
            }
            match is_new {
                true => {
                    let bytes = self.checked(at, len)?;
                    let inner = bytes.strip_prefix(b"OCHK").ok_or_else(cut)?;
                    new_messages(inner, flags, &mut found).ok_or_else(cut)?;
                }
                false => old_messages(&self.metadata(at, len)?, &mut found).ok_or_else(cut)?,
            }
        }
    }

    /// Returns the content of a message, which may be stored in another object.
    pub(crate) fn content(&self, message: &Message) -> Result<Vec<u8>, String> {
        match message.is_shared() {
            false => Ok(message.data.clone()),
            true => self.shared(&message.data, message.kind),
        }
    }
}

/// The content of a superblock.
struct Superblock {
    offset_size: u8,
    length_size: u8,
    root: u64,
    extension: u64,
}

fn superblock(bytes: &[u8]) -> Result<Superblock, String> {
    let cut = || "the superblock is malformed".to_owned();
    let mut cursor = Cursor::new(bytes);
    cursor.skip(8).ok_or_else(cut)?;
    let version = cursor.u8().ok_or_else(cut)?;
    let mut parse = || match version {
        0 | 1 => {
            cursor.skip(4)?;
            let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
            cursor.skip(if version == 0 { 9 } else { 13 })?;
            // Four addresses, then the entry of the root group: where its name is, and its address.
            cursor.skip(usize::from(offset_size).checked_mul(4)?)?;
            cursor.skip(length_size.into())?;
            let root = cursor.address(offset_size)?;
            Some(Superblock { offset_size, length_size, root, extension: NOWHERE })
        }
        _ => {
            let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
            cursor.skip(1)?;
            cursor.address(offset_size)?;
            let extension = cursor.address(offset_size)?;
            cursor.address(offset_size)?;
            let root = cursor.address(offset_size)?;
            Some(Superblock { offset_size, length_size, root, extension })
        }
    };
    if version > 3 {
        return Err(format!("a superblock of version {version}, which is not supported"));
    }
    let found = parse().filter(|found| found.root != NOWHERE).ok_or_else(cut)?;
    if version > 1 {
        let content = bytes.get(..bytes.len().saturating_sub(cursor.rest().len())).unwrap_or_default();
        if cursor.u32() != Some(lookup3(content)) {
            return Err("the checksum of the superblock is wrong".into());
        }
    }
    if !matches!(found.offset_size, 2 | 4 | 8) || !matches!(found.length_size, 2 | 4 | 8) {
        return Err(format!("addresses of {} bytes, lengths of {}", found.offset_size, found.length_size));
    }
    Ok(found)
}

/// The number of bytes before the messages of a header of version 2, that of the messages, and the flags.
fn new_header(start: &[u8]) -> Option<(usize, u64, u8)> {
    let mut cursor = Cursor::new(start);
    cursor.skip(4)?;
    if cursor.u8()? != 2 {
        return None;
    }
    let flags = cursor.u8()?;
    // Times, and the limits above which attributes move to a heap.
    cursor.skip(if flags & 0x20 != 0 { 16 } else { 0 })?;
    cursor.skip(if flags & 0x10 != 0 { 4 } else { 0 })?;
    let len = cursor.uint(1 << (flags & 3))?;
    Some((start.len().checked_sub(cursor.rest().len())?, len, flags))
}

/// The number of messages of a header of version 1, and the bytes of those that follow it.
fn old_header(start: &[u8]) -> Option<(u16, u64)> {
    let mut cursor = Cursor::new(start);
    if cursor.u8()? != 1 {
        return None;
    }
    cursor.skip(1)?;
    let count = cursor.u16()?;
    cursor.skip(4)?;
    Some((count, cursor.u32()?.into()))
}

/// Parses messages. A remainder too short for the head of a message is a gap. `None` if a message is truncated.
fn old_messages(bytes: &[u8], found: &mut Vec<Message>) -> Option<()> {
    let mut cursor = Cursor::new(bytes);
    while cursor.rest().len() >= 8 {
        let (kind, len, flags) = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
        cursor.skip(3)?;
        found.push(Message { kind, flags, order: None, data: cursor.bytes(len.into())?.to_vec() });
    }
    Some(())
}

fn new_messages(bytes: &[u8], header_flags: u8, found: &mut Vec<Message>) -> Option<()> {
    // The order of creation, where that is tracked.
    let order = if header_flags & 4 != 0 { 2 } else { 0 };
    let mut cursor = Cursor::new(bytes);
    while cursor.rest().len() >= order + 4 {
        let (kind, len, flags) = (cursor.u8()?, cursor.u16()?, cursor.u8()?);
        let order = if order > 0 { Some(cursor.u16()?) } else { None };
        found.push(Message { kind: kind.into(), flags, order, data: cursor.bytes(len.into())?.to_vec() });
    }
    Some(())
}
