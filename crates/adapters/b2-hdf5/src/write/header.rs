//! Object headers (version 2) and their messages.

use super::bytes::{Bytes, UNDEFINED};

/// Messages, by their numbers.
const SPACE: u8 = 0x01;
const LINK_INFO: u8 = 0x02;
const DATATYPE: u8 = 0x03;
const FILL: u8 = 0x05;
const LINK: u8 = 0x06;
const LAYOUT: u8 = 0x08;
const GROUP_INFO: u8 = 0x0A;
const FILTERS: u8 = 0x0B;
const ATTRIBUTE: u8 = 0x0C;
const ATTRIBUTE_INFO: u8 = 0x15;

/// Maximum length of a message.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// The header of a group or a data set.
#[derive(Debug, Default)]
pub(super) struct Header {
    messages: Bytes,
    attributes: u16,
}

impl Header {
    fn message(&mut self, kind: u8, order: u16, content: &[u8]) {
        // The caller has checked all lengths that could be too large.
        let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
        self.messages.u8(kind).u16(len).u8(0).u16(order).put(content);
    }

    /// A group with this many links, which are added in order.
    pub(super) fn group(links: usize) -> Self {
        let mut header = Self::default();
        let mut info = Bytes::default();
        // The creation order of links is recorded, and links are in this header.
        info.u8(0).u8(3).u64(links as u64).u64(UNDEFINED).u64(UNDEFINED).u64(UNDEFINED);
        header.message(LINK_INFO, 0, &info.0);
        header.message(GROUP_INFO, 0, &[0, 0]);
        header
    }

    pub(super) fn link(&mut self, order: usize, name: &str, address: u64) {
        let mut link = Bytes::default();
        // With creation order, in UTF-8, and a length of two bytes.
        link.u8(1).u8(0x15).u64(order as u64).u8(1).u16(u16::try_from(name.len()).unwrap_or(u16::MAX));
        link.put(name.as_bytes()).u64(address);
        self.message(LINK, 0, &link.0);
    }

    pub(super) fn data_set(datatype: &[u8], space: &[u8], layout: &[u8], filters: Option<&[u8]>) -> Self {
        let mut header = Self::default();
        header.message(SPACE, 0, space);
        header.message(DATATYPE, 0, datatype);
        // The fill value is zero; space is allocated when needed.
        header.message(FILL, 0, &[2, 3, 2, 1, 0, 0, 0, 0]);
        header.message(LAYOUT, 0, layout);
        if let Some(filters) = filters {
            header.message(FILTERS, 0, filters);
        }
        header
    }

    pub(super) fn attribute(&mut self, message: &[u8]) {
        self.message(ATTRIBUTE, self.attributes, message);
        self.attributes = self.attributes.saturating_add(1);
    }

    /// The bytes of the header.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut info = Bytes::default();
        // The creation order of attributes is recorded, and attributes are in this header.
        info.u8(0).u8(3).u16(self.attributes).u64(UNDEFINED).u64(UNDEFINED).u64(UNDEFINED);
        self.message(ATTRIBUTE_INFO, 0, &info.0);
        let mut out = Bytes::default();
        out.put(b"OHDR").u8(2).u8(0x0E).u32(self.messages.0.len() as u32).put(&self.messages.0).sum();
        out.0
    }
}

/// The message of an attribute.
pub(super) fn attribute(name: &str, datatype: &[u8], space: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = Bytes::default();
    let len = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    out.u8(3).u8(0).u16(len(name.len() + 1)).u16(len(datatype.len())).u16(len(space.len())).u8(1);
    out.put(name.as_bytes()).u8(0).put(datatype).put(space).put(data);
    out.0
}

/// Layout: contiguous items from this address on.
pub(super) fn contiguous(address: u64, nbytes: u64) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u8(3).u8(1).u64(address).u64(nbytes);
    out.0
}

/// Layout: chunks, with the address of the root of the tree.
pub(super) fn chunked(root: u64, chunkshape: &[u32], itemsize: u32) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u8(3).u8(2).u8(chunkshape.len() as u8 + 1).u64(root);
    chunkshape.iter().chain([&itemsize]).for_each(|&length| {
        out.u32(length);
    });
    out.0
}

/// Filters: number, name if the number is not one of HDF5's own, and parameters.
pub(super) fn filters(all: &[(u16, &str, Vec<u32>)]) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u8(2).u8(all.len() as u8);
    for (id, name, params) in all {
        out.u16(*id);
        if *id >= 256 {
            out.u16(name.len() as u16 + 1);
        }
        out.u16(0).u16(params.len() as u16);
        if *id >= 256 {
            out.put(name.as_bytes()).u8(0);
        }
        params.iter().for_each(|&param| {
            out.u32(param);
        });
    }
    out.0
}

/// The superblock, version 2.
pub(super) fn superblock(root: u64, end: u64) -> Vec<u8> {
    let mut out = Bytes::default();
    out.put(b"\x89HDF\r\n\x1a\n").u8(2).u8(8).u8(8).u8(0).u64(0).u64(UNDEFINED).u64(end).u64(root).sum();
    out.0
}

/// Bytes of the superblock.
pub(super) const SUPERBLOCK: u64 = 48;
