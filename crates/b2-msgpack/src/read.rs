use rmp::Marker;

use crate::{Error, FixedWidth, Item};

/// Reads items from the front of a byte slice. It accepts only the prescribed encodings.
///
/// After an error the position is unchanged.
///
/// ```
/// let mut r = b2_msgpack::Reader::new(&[0xd2, 0, 0, 0, 97, 0xc3]);
/// assert_eq!(r.number::<i32>(), Ok(97));
/// assert_eq!(r.position(), 5);
/// assert_eq!(r.bool(), Ok(true));
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    /// Creates a reader at `position`. If that is past the end of `data`, nothing is left to read.
    pub fn at(data: &'a [u8], position: usize) -> Self {
        Self { data, position }
    }

    /// Returns the offset of the next item from the start of the data, in bytes.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.position..).unwrap_or_default()
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// Reads any single byte.
    ///
    /// # Errors
    /// [`Error::Truncated`] at the end of the data.
    pub fn byte(&mut self) -> Result<u8, Error> {
        self.raw(1).map(|bytes| bytes.first().copied().unwrap_or_default())
    }

    /// Reads `len` bytes without a marker.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fewer are left.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], Error> {
        self.item(Item::Raw, 0, len as u64)
    }

    /// Reads exactly the byte `expected`, for markers without a method of their own.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the byte differs.
    pub fn marker(&mut self, expected: u8) -> Result<(), Error> {
        let item = Item::Byte(expected);
        self.first(item).and_then(|got| self.skip_if(got == expected, item, got))
    }

    /// Reads an integer from 0 to 127, stored in one byte.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn fixint(&mut self) -> Result<u8, Error> {
        self.short(Item::Fixint, |marker| match marker {
            Marker::FixPos(value) => Some(value),
            _ => None,
        })
    }

    /// Reads the item count of an array of 0 to 15 items.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn fixarray(&mut self) -> Result<u8, Error> {
        self.short(Item::Fixarray, |marker| match marker {
            Marker::FixArray(count) => Some(count),
            _ => None,
        })
    }

    /// Reads a string of 0 to 31 bytes, which need not be UTF-8.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn fixstr(&mut self) -> Result<&'a [u8], Error> {
        let start = self.position;
        let len = self.short(Item::Fixstr, |marker| match marker {
            Marker::FixStr(len) => Some(len),
            _ => None,
        })?;
        self.position = start;
        self.item(Item::Fixstr, 1, u64::from(len))
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn bool(&mut self) -> Result<bool, Error> {
        self.short(Item::Bool, |marker| match marker {
            Marker::False => Some(false),
            Marker::True => Some(true),
            _ => None,
        })
    }

    /// Reads a number in the width of its type.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn number<T: FixedWidth>(&mut self) -> Result<T, Error> {
        let start = self.position;
        self.prescribed(T::ITEM)?;
        self.position = start;
        let bytes = self.item(T::ITEM, 1, size_of::<T::Bytes>() as u64)?;
        // The slice has this length; the error arm only avoids a panic.
        T::Bytes::try_from(bytes).map(T::from_wire).map_err(|_| self.truncated(T::ITEM, 0))
    }

    /// Reads the item count of an array, stored in 16 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn array16(&mut self) -> Result<u16, Error> {
        self.count(Item::Array16)
    }

    /// Reads the entry count of a map, stored in 16 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn map16(&mut self) -> Result<u16, Error> {
        self.count(Item::Map16)
    }

    /// Reads bytes with a 32-bit length.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn bin32(&mut self) -> Result<&'a [u8], Error> {
        self.long(Item::Bin32)
    }

    /// Reads a string with a 32-bit length, which need not be UTF-8.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn str32(&mut self) -> Result<&'a [u8], Error> {
        self.long(Item::Str32)
    }

    /// Reads a type byte and 16 bytes of data.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if the item is of another kind.
    pub fn fixext16(&mut self) -> Result<(u8, &'a [u8; 16]), Error> {
        let start = self.position;
        self.prescribed(Item::Fixext16)?;
        self.position = start;
        let bytes = self.item(Item::Fixext16, 1, 17)?;
        let split = bytes.split_first().and_then(|(kind, data)| Some((*kind, data.first_chunk()?)));
        split.ok_or_else(|| self.truncated(Item::Fixext16, 18))
    }

    fn count(&mut self, item: Item) -> Result<u16, Error> {
        let start = self.position;
        self.prescribed(item)?;
        self.position = start;
        let bytes = self.item(item, 1, 2)?;
        bytes.first_chunk().map(|b| u16::from_be_bytes(*b)).ok_or_else(|| self.truncated(item, 3))
    }

    fn long(&mut self, item: Item) -> Result<&'a [u8], Error> {
        let start = self.position;
        self.prescribed(item)?;
        self.position = start;
        let Some(len) = self.rest().get(1..).and_then(|rest| rest.first_chunk()) else {
            return Err(self.truncated(item, 5));
        };
        let len = u32::from_be_bytes(*len);
        self.item(item, 5, u64::from(len))
    }

    /// Reads an item that consists of `head` bytes and `len` bytes, and returns the latter.
    fn item(&mut self, item: Item, head: usize, len: u64) -> Result<&'a [u8], Error> {
        let need = len.saturating_add(head as u64);
        let all = usize::try_from(need).ok().and_then(|need| self.rest().get(..need));
        let Some(all) = all else { return Err(self.truncated(item, need)) };
        self.position = self.position.saturating_add(all.len());
        Ok(all.get(head..).unwrap_or_default())
    }

    /// Reads an item whose single byte is both marker and value.
    fn short<T>(&mut self, item: Item, value: impl Fn(Marker) -> Option<T>) -> Result<T, Error> {
        let got = self.first(item)?;
        let value = value(Marker::from_u8(got));
        self.skip_if(value.is_some(), item, got)?;
        value.ok_or_else(|| self.truncated(item, 1))
    }

    fn prescribed(&mut self, item: Item) -> Result<(), Error> {
        let got = self.first(item)?;
        self.skip_if(item.marker() == Some(Marker::from_u8(got)), item, got)
    }

    fn first(&self, item: Item) -> Result<u8, Error> {
        self.rest().first().copied().ok_or_else(|| self.truncated(item, 1))
    }

    fn skip_if(&mut self, fits: bool, item: Item, got: u8) -> Result<(), Error> {
        if !fits {
            return Err(Error::Marker { offset: self.position, expected: item, got });
        }
        self.position = self.position.saturating_add(1);
        Ok(())
    }

    fn truncated(&self, expected: Item, need: u64) -> Error {
        Error::Truncated { offset: self.position, expected, need, have: self.rest().len() }
    }
}
