//! Marks the indexes of python-blosc2 as outdated (docs/format/b2nd.md, "Indexes and tables of python-blosc2").
//!
//! `NDArray.create_index()` describes its indexes in a vlmetalayer, `{"version": 1, "indexes": {token: {..., "stale":
//! false, ...}}}` in msgpack, and readers trust a description until `stale` is true. All other bytes are unchanged.

use std::ops::Range;

/// The vlmetalayer that describes the indexes of an array.
pub const INDEXES: &str = "blosc2_indexes";

const TRUE: u8 = 0xC3;
const STALE: &[u8] = b"\xa5stale";

/// The value of a vlmetalayer after all indexes in it were marked as outdated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutdatedIndexes {
    /// All of them were marked before, or there are none.
    Same,
    /// The new value.
    New(Vec<u8>),
    /// The value cannot be parsed, and no reader should.
    Unreadable,
}

/// Marks all indexes of an array as outdated, given the value of [`INDEXES`].
pub fn outdate_indexes(value: &[u8]) -> OutdatedIndexes {
    IndexMarker::run(value, |marking| {
        let ItemHead::Map(n) = marking.head()? else { return None };
        for _ in 0..n {
            match marking.key()? {
                Some(b"indexes") => marking.descriptions()?,
                _ => marking.skip()?,
            }
        }
        Some(())
    })
}

/// Marks all indexes of a table as outdated, given the value of its vlmetalayer `index_catalog`.
pub fn outdate_catalog(value: &[u8]) -> OutdatedIndexes {
    IndexMarker::run(value, IndexMarker::descriptions)
}

/// The start of an item.
enum ItemHead<'a> {
    /// The number of entries that follow, each with a key and a value.
    Map(u32),
    /// The number of items that follow.
    Array(u32),
    Text(&'a [u8]),
    Other,
}

/// A walk over msgpack that records the replacements.
struct IndexMarker<'a> {
    bytes: &'a [u8],
    at: usize,
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl<'a> IndexMarker<'a> {
    fn run(bytes: &'a [u8], walk: impl FnOnce(&mut Self) -> Option<()>) -> OutdatedIndexes {
        let mut marking = Self { bytes, at: 0, edits: Vec::new() };
        if walk(&mut marking).is_none() || marking.at != bytes.len() {
            return OutdatedIndexes::Unreadable;
        }
        if marking.edits.is_empty() {
            return OutdatedIndexes::Same;
        }
        let (mut new, mut from) = (Vec::with_capacity(bytes.len()), 0);
        for (place, with) in marking.edits {
            new.extend_from_slice(bytes.get(from..place.start).unwrap_or_default());
            new.extend(with);
            from = place.end;
        }
        new.extend_from_slice(bytes.get(from..).unwrap_or_default());
        OutdatedIndexes::New(new)
    }

    /// Marks the descriptions in a map.
    fn descriptions(&mut self) -> Option<()> {
        let ItemHead::Map(n) = self.head()? else { return None };
        for _ in 0..n {
            self.skip()?;
            self.description()?;
        }
        Some(())
    }

    fn description(&mut self) -> Option<()> {
        let start = self.at;
        let ItemHead::Map(n) = self.head()? else { return None };
        let (body, mut found) = (self.at, false);
        for _ in 0..n {
            let is_stale = self.key()? == Some(b"stale");
            let value = self.at;
            self.skip()?;
            found |= is_stale;
            if is_stale && self.bytes.get(value..self.at) != Some(&[TRUE]) {
                self.edits.push((value..self.at, vec![TRUE]));
            }
        }
        if !found {
            // At the front, where no later edit comes before it.
            let mut head = vec![0xDF];
            head.extend(n.checked_add(1)?.to_be_bytes());
            head.extend(STALE);
            head.push(TRUE);
            self.edits.push((start..body, head));
        }
        Some(())
    }

    /// Passes a key, and returns it if it is text.
    fn key(&mut self) -> Option<Option<&'a [u8]>> {
        let start = self.at;
        self.skip()?;
        let key = Self { bytes: self.bytes, at: start, edits: Vec::new() }.head()?;
        Some(if let ItemHead::Text(text) = key { Some(text) } else { None })
    }

    /// Passes an item with all that it contains.
    fn skip(&mut self) -> Option<()> {
        let mut left = 1u64;
        while left > 0 {
            left = left.checked_sub(1)?;
            let inside = match self.head()? {
                ItemHead::Map(n) => u64::from(n).checked_mul(2)?,
                ItemHead::Array(n) => u64::from(n),
                ItemHead::Text(_) | ItemHead::Other => 0,
            };
            left = left.checked_add(inside)?;
        }
        Some(())
    }

    /// Passes an item, but not the members of a map or an array.
    fn head(&mut self) -> Option<ItemHead<'a>> {
        let marker = self.number(1)?;
        let few = marker & 0x0F;
        let len = match marker {
            0x80..=0x8F => return Some(ItemHead::Map(few)),
            0x90..=0x9F => return Some(ItemHead::Array(few)),
            0xDC => return self.number(2).map(ItemHead::Array),
            0xDD => return self.number(4).map(ItemHead::Array),
            0xDE => return self.number(2).map(ItemHead::Map),
            0xDF => return self.number(4).map(ItemHead::Map),
            0xA0..=0xBF => return self.take(marker & 0x1F).map(ItemHead::Text),
            0xD9..=0xDB => {
                let len = self.number(1 << (marker & 0x03).checked_sub(1)?)?;
                return self.take(len).map(ItemHead::Text);
            }
            0x00..=0x7F | 0xC0 | 0xC2 | 0xC3 | 0xE0..=0xFF => 0,
            0xC4..=0xC6 => self.number(1 << (marker & 0x03))?,
            // Extensions have a type before their content.
            0xC7 => self.number(1)?.checked_add(1)?,
            0xC8 => self.number(2)?.checked_add(1)?,
            0xC9 => self.number(4)?.checked_add(1)?,
            0xCC | 0xD0 => 1,
            0xCD | 0xD1 | 0xD4 => 2,
            0xD5 => 3,
            0xCA | 0xCE | 0xD2 => 4,
            0xD6 => 5,
            0xCB | 0xCF | 0xD3 => 8,
            0xD7 => 9,
            0xD8 => 17,
            // 0xC1 is not used.
            _ => return None,
        };
        self.take(len).map(|_| ItemHead::Other)
    }

    fn take(&mut self, len: u32) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn number(&mut self, width: u32) -> Option<u32> {
        Some(self.take(width)?.iter().fold(0u32, |n, byte| n << 8 | u32::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"version": 1, "indexes": {"a": {"kind": "full", "stale": <stale>, "shape": ["__tuple__", 7]}}}`
    fn value(stale: &[u8]) -> Vec<u8> {
        let mut value = b"\x82\xa7version\x01\xa7indexes\x81\xa1a\x83\xa4kind\xa4full\xa5stale".to_vec();
        value.extend(stale);
        value.extend(b"\xa5shape\x92\xa9__tuple__\x07");
        value
    }

    #[test]
    fn only_the_mark_changes() {
        assert_eq!(outdate_indexes(&value(b"\xc2")), OutdatedIndexes::New(value(b"\xc3")));
        assert_eq!(outdate_indexes(&value(b"\xc3")), OutdatedIndexes::Same);
        assert_eq!(outdate_indexes(&value(b"\xd9\x03yes")), OutdatedIndexes::New(value(b"\xc3")));
        assert_eq!(outdate_indexes(b"\x82\xa7version\x01\xa7indexes\x80"), OutdatedIndexes::Same);
        assert_eq!(outdate_indexes(b"\x80"), OutdatedIndexes::Same);
    }

    #[test]
    fn a_description_without_a_mark_gets_one() {
        let catalog = b"\x82\xa1a\x81\xa4kind\xa4full\xa1b\x80";
        let marked = b"\x82\xa1a\xdf\0\0\0\x02\xa5stale\xc3\xa4kind\xa4full\xa1b\xdf\0\0\0\x01\xa5stale\xc3";
        assert_eq!(outdate_catalog(catalog), OutdatedIndexes::New(marked.to_vec()));
        assert_eq!(outdate_catalog(marked), OutdatedIndexes::Same);
    }

    #[test]
    fn malformed_values_are_unreadable() {
        let whole = value(b"\xc2");
        for len in 0..whole.len() {
            assert_eq!(outdate_indexes(&whole[..len]), OutdatedIndexes::Unreadable, "{len} bytes");
        }
        for bytes in [
            &b"\x07"[..],
            b"\x80\0",
            b"\xc1",
            b"\x81\xa7indexes\x07",
            b"\x81\xa7indexes\x81\xa1a\x07",
            b"\xdf\xff\xff\xff\xff",
            b"\x81\x01\xdd\xff\xff\xff\xff\xdf\xff\xff\xff\xff",
            b"\x81\x01\xc9\xff\xff\xff\xff",
            b"\x81\x01\xdb\xff\xff\xff\xff",
        ] {
            assert_eq!(outdate_indexes(bytes), OutdatedIndexes::Unreadable, "{bytes:?}");
        }
        // Deep nesting takes no stack.
        let deep = [&b"\x81\xa1a"[..], &[0x91; 100_000], b"\x01"].concat();
        assert_eq!(outdate_indexes(&deep), OutdatedIndexes::Same);
    }
}
