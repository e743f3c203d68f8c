//! Reads msgpack item by item, without trees and recursion, so that neither lengths nor nesting in the data cost
//! memory.

/// A msgpack value. For arrays and maps only the header, which is followed by their items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'a> {
    /// Nil, a boolean or a number, including the marker.
    Scalar(&'a [u8]),
    /// A string, which may not be valid UTF-8.
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Ext(i8, &'a [u8]),
    /// An array with this many items.
    Array(u64),
    /// A map with this many pairs.
    Map(u64),
}

impl Item<'_> {
    /// Number of values that follow as the content.
    pub(super) fn inner(self) -> u64 {
        match self {
            Self::Array(n) => n,
            Self::Map(n) => 2 * n,
            _ => 0,
        }
    }
}

/// Removes a value, or the header of an array or map, from the front. `None` if it is truncated or starts with the
/// reserved marker.
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Option<Item<'a>> {
    let whole = *rest;
    let mut take = |n: u64| -> Option<&'a [u8]> { rest.split_off(..usize::try_from(n).ok()?) };
    let marker = *take(1)?.first()?;
    let mut number = |width: u64| Some(take(width)?.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)));
    Some(match marker {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Item::Scalar(whole.get(..1)?),
        0xc1 => return None,
        0x80..=0x8f => Item::Map(u64::from(marker & 15)),
        0x90..=0x9f => Item::Array(u64::from(marker & 15)),
        0xa0..=0xbf => Item::Str(take(u64::from(marker & 31))?),
        0xc4..=0xc6 => {
            let len = number(1 << (marker - 0xc4))?;
            Item::Bin(take(len)?)
        }
        0xc7..=0xc9 => {
            let len = number(1 << (marker - 0xc7))?;
            let code = take(1)?.first()?.cast_signed();
            Item::Ext(code, take(len)?)
        }
        0xca..=0xd3 => {
            // Floats of 4 and 8 bytes, then integers of 1 to 8, unsigned and signed.
            let len = match marker {
                0xca | 0xcb => 4 << (marker - 0xca),
                _ => 1 << ((marker - 0xcc) & 3),
            };
            take(len)?;
            Item::Scalar(whole.get(..1 + usize::try_from(len).ok()?)?)
        }
        0xd4..=0xd8 => {
            let code = take(1)?.first()?.cast_signed();
            Item::Ext(code, take(1 << (marker - 0xd4))?)
        }
        0xd9..=0xdb => {
            let len = number(1 << (marker - 0xd9))?;
            Item::Str(take(len)?)
        }
        0xdc | 0xdd => Item::Array(number(2 << (marker - 0xdc))?),
        0xde | 0xdf => Item::Map(number(2 << (marker - 0xde))?),
    })
}

/// Skips a value with all its content and returns the number of values; `None` if it is truncated.
pub(super) fn skip(rest: &mut &[u8]) -> Option<u64> {
    let (mut pending, mut count) = (1u64, 0u64);
    while pending > 0 {
        // Each value takes at least one byte, so neither sum can overflow.
        pending += next(rest)?.inner();
        pending -= 1;
        count += 1;
    }
    Some(count)
}
