//! Object headers: the messages that describe a group or a data set.
//!
//! They are read here, not by the crate below: that one keeps no more than size and order of a float, so a float that
//! NumPy does not have would be read as another, and a message that it does not know makes the whole header unreadable.

use std::collections::BTreeSet;

use super::cursor::{Cursor, NOWHERE};
use super::pages::Pages;

/// Most messages of an object.
const MOST: usize = 1 << 16;

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
const CONTINUATION: u16 = 0x10;
pub(crate) const SYMBOL_TABLE: u16 = 0x11;
pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;

/// Bits of a message's flags.
const SHARED: u8 = 2;

/// A file, and the sizes of its numbers.
pub(crate) struct Below {
    pub(crate) pages: Pages,
    pub(crate) offset_size: u8,
    pub(crate) length_size: u8,
    /// The address of the root group.
    pub(crate) root: u64,
}

/// A message of an object header.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u8,
    pub(crate) data: Vec<u8>,
}

/// Where a superblock may be: at the start, or behind a user block.
pub(crate) fn find(head: impl Fn(u64) -> Option<[u8; 8]>, len: u64) -> Option<u64> {
    let places = std::iter::once(0).chain((9..40).map(|bit| 1_u64 << bit));
    places.take_while(|&at| at < len).find(|&at| head(at) == Some(*b"\x89HDF\r\n\x1a\n"))
}

impl Below {
    /// Reads the superblock, which is at the start of the pages.
    pub(crate) fn open(pages: Pages) -> Result<Self, String> {
        let len = pages.behind(0).min(256);
        let bytes = pages.metadata(0, len).map_err(|error| error.to_string())?;
        let (offset_size, length_size, root) = superblock(&bytes)?;
        if !matches!(offset_size, 2 | 4 | 8) || !matches!(length_size, 2 | 4 | 8) {
            return Err(format!("addresses of {offset_size} bytes, lengths of {length_size}"));
        }
        Ok(Self { pages, offset_size, length_size, root })
    }

    pub(crate) fn metadata(&self, address: u64, len: u64) -> Result<Vec<u8>, String> {
        self.pages.metadata(address, len).map_err(|error| error.to_string())
    }

    /// Reads the messages of an object.
    pub(crate) fn messages(&self, address: u64) -> Result<Vec<Message>, String> {
        let start = self.metadata(address, self.pages.behind(address).min(16))?;
        let mut found = Vec::new();
        let mut later = Vec::new();
        let mut seen = BTreeSet::new();
        let is_new = start.starts_with(b"OHDR");
        let cut = || format!("the object header at {address} is malformed");
        let (at, len, flags) = match is_new {
            true => self.new_header(address, &start).ok_or_else(cut)?,
            false => old_header(address, &start).ok_or_else(cut)?,
        };
        later.push((at, len));
        while let Some((at, len)) = later.pop() {
            if !seen.insert(at) || found.len() > MOST {
                return Err(cut());
            }
            let bytes = self.metadata(at, len)?;
            let from = found.len();
            match is_new {
                true => new_messages(&bytes, flags, &mut found),
                false => old_messages(&bytes, &mut found),
            }
            let new = found.get(from..).unwrap_or_default();
            for message in new.iter().filter(|message| message.kind == CONTINUATION) {
                later.push(self.continuation(message, is_new).ok_or_else(cut)?);
            }
        }
        Ok(found)
    }

    /// Where the messages of a header of version 2 are, and its flags.
    fn new_header(&self, address: u64, start: &[u8]) -> Option<(u64, u64, u8)> {
        let mut cursor = Cursor::new(start);
        cursor.skip(4)?;
        if cursor.u8()? != 2 {
            return None;
        }
        let flags = cursor.u8()?;
        let mut at = 6_u64;
        // Times, and when attributes move to a heap.
        at = at.checked_add(if flags & 0x20 != 0 { 16 } else { 0 })?;
        at = at.checked_add(if flags & 0x10 != 0 { 4 } else { 0 })?;
        let width = 1_u8 << (flags & 3);
        let bytes = self.metadata(address.checked_add(at)?, width.into()).ok()?;
        let len = Cursor::new(&bytes).uint(width)?;
        Some((address.checked_add(at)?.checked_add(width.into())?, len, flags))
    }

    fn continuation(&self, message: &Message, is_new: bool) -> Option<(u64, u64)> {
        let mut cursor = Cursor::new(&message.data);
        let (at, len) = (cursor.address(self.offset_size)?, cursor.uint(self.length_size)?);
        match is_new {
            // A signature before, a checksum behind.
            true => Some((at.checked_add(4)?, len.checked_sub(8)?)),
            false => Some((at, len)),
        }
    }

    /// Returns the content of a message, which another object may hold.
    pub(crate) fn content(&self, message: &Message) -> Result<Vec<u8>, String> {
        match message.flags & SHARED {
            0 => Ok(message.data.clone()),
            _ => self.shared(&message.data, message.kind),
        }
    }

    /// Follows a reference to a message of another object, such as a named type.
    pub(crate) fn shared(&self, reference: &[u8], kind: u16) -> Result<Vec<u8>, String> {
        let wrong = || "a reference to a shared message is malformed".to_owned();
        let mut cursor = Cursor::new(reference);
        let (version, place) = (cursor.u8().ok_or_else(wrong)?, cursor.u8().ok_or_else(wrong)?);
        if version == 1 {
            cursor.skip(6).ok_or_else(wrong)?;
        }
        if version == 3 && place == 1 {
            return Err("messages in a table of the file, which is not supported".into());
        }
        let address = cursor.address(self.offset_size).ok_or_else(wrong)?;
        let found = self.messages(address)?;
        let message = found.into_iter().find(|message| message.kind == kind && message.flags & SHARED == 0);
        Ok(message.ok_or_else(wrong)?.data)
    }
}

fn superblock(bytes: &[u8]) -> Result<(u8, u8, u64), String> {
    let cut = || "the superblock is cut off".to_owned();
    let mut cursor = Cursor::new(bytes);
    cursor.skip(8).ok_or_else(cut)?;
    let version = cursor.u8().ok_or_else(cut)?;
    let found = match version {
        0 | 1 => (|| {
            cursor.skip(4)?;
            let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
            cursor.skip(if version == 0 { 9 } else { 13 })?;
            // Four addresses, then the entry of the root group: where its name is, and its address.
            cursor.skip(usize::from(offset_size).checked_mul(5)?)?;
            Some((offset_size, length_size, cursor.address(offset_size)?))
        })(),
        2 | 3 => (|| {
            let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
            cursor.skip(1)?;
            cursor.skip(usize::from(offset_size).checked_mul(3)?)?;
            Some((offset_size, length_size, cursor.address(offset_size)?))
        })(),
        _ => return Err(format!("a superblock of version {version}, which is not supported")),
    };
    found.filter(|(.., root)| *root != NOWHERE).ok_or_else(cut)
}

/// Where the messages of a header of version 1 are.
fn old_header(address: u64, start: &[u8]) -> Option<(u64, u64, u8)> {
    let mut cursor = Cursor::new(start);
    if cursor.u8()? != 1 {
        return None;
    }
    cursor.skip(7)?;
    Some((address.checked_add(16)?, cursor.u32()?.into(), 0))
}

fn old_messages(bytes: &[u8], found: &mut Vec<Message>) {
    let mut cursor = Cursor::new(bytes);
    let mut next = || {
        let (kind, len, flags) = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
        cursor.skip(3)?;
        Some(Message { kind, flags, data: cursor.bytes(len.into())?.to_vec() })
    };
    // What is too short for a message is a gap.
    while let Some(message) = next() {
        found.push(message);
    }
}

fn new_messages(bytes: &[u8], header_flags: u8, found: &mut Vec<Message>) {
    let mut cursor = Cursor::new(bytes);
    let mut next = || {
        let (kind, len, flags) = (cursor.u8()?, cursor.u16()?, cursor.u8()?);
        // The order of creation, where that is tracked.
        cursor.skip(if header_flags & 4 != 0 { 2 } else { 0 })?;
        Some(Message { kind: kind.into(), flags, data: cursor.bytes(len.into())?.to_vec() })
    };
    while let Some(message) = next() {
        found.push(message);
    }
}
