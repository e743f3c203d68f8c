#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use rmp::Marker;

use crate::{Error, Fixed, Item};

/// Takes items off the front of a byte slice, expecting exactly the prescribed encodings.
///
/// After an error the reader stands where it stood before the item.
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
    /// A reader at the start of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    /// A reader at `position`, which may lie outside `data`: then nothing is left to read.
    pub fn at(data: &'a [u8], position: usize) -> Self {
        Self { data, position }
    }

    /// Where the next item starts, in bytes from the start of the data.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.position..).unwrap_or_default()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// The next byte, whatever it is, and moves behind it.
    ///
    /// # Errors
    /// [`Error::Truncated`] at the end.
    pub fn byte(&mut self) -> Result<u8, Error> {
        self.raw(1).map(|bytes| bytes.first().copied().unwrap_or_default())
    }

    /// `len` bytes without a marker.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fewer are left.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], Error> {
        self.item(Item::Raw, 0, len as u64)
    }

    /// Exactly the byte `expected`, for markers this crate has no method for.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if another byte is there.
    pub fn marker(&mut self, expected: u8) -> Result<(), Error> {
        let item = Item::Byte(expected);
        self.first(item).and_then(|got| self.skip_if(got == expected, item, got))
    }

    /// An integer of 0 to 127 in one byte.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn fixint(&mut self) -> Result<u8, Error> {
        self.short(Item::Fixint, |marker| match marker {
            Marker::FixPos(value) => Some(value),
            _ => None,
        })
    }

    /// The count of an array of 0 to 15 items.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn fixarray(&mut self) -> Result<u8, Error> {
        self.short(Item::Fixarray, |marker| match marker {
            Marker::FixArray(count) => Some(count),
            _ => None,
        })
    }

    /// The bytes of a string of 0 to 31 bytes. They need not be UTF-8.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn fixstr(&mut self) -> Result<&'a [u8], Error> {
        let start = self.position;
        let len = self.short(Item::Fixstr, |marker| match marker {
            Marker::FixStr(len) => Some(len),
            _ => None,
        })?;
        self.position = start;
        self.item(Item::Fixstr, 1, u64::from(len))
    }

    /// False or true.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn bool(&mut self) -> Result<bool, Error> {
        self.short(Item::Bool, |marker| match marker {
            Marker::False => Some(false),
            Marker::True => Some(true),
            _ => None,
        })
    }

    /// A number in its type's own width.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn number<T: Fixed>(&mut self) -> Result<T, Error> {
        let start = self.position;
        self.prescribed(T::ITEM)?;
        self.position = start;
        let bytes = self.item(T::ITEM, 1, size_of::<T::Bytes>() as u64)?;
        // The slice has this length; the error arm only keeps the code free of panics.
        T::Bytes::try_from(bytes).map(T::from_wire).map_err(|_| self.truncated(T::ITEM, 0))
    }

    /// The count of an array with a 16-bit count.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn array16(&mut self) -> Result<u16, Error> {
        self.count(Item::Array16)
    }

    /// The count of a map with a 16-bit count.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn map16(&mut self) -> Result<u16, Error> {
        self.count(Item::Map16)
    }

    /// Bytes with a 32-bit length.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn bin32(&mut self) -> Result<&'a [u8], Error> {
        self.long(Item::Bin32)
    }

    /// A string with a 32-bit length. It need not be UTF-8.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
    pub fn str32(&mut self) -> Result<&'a [u8], Error> {
        self.long(Item::Str32)
    }

    /// A type byte and 16 bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Marker`] if something else is there.
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

    /// `len` bytes behind a head of `head` bytes; moves behind them.
    fn item(&mut self, item: Item, head: usize, len: u64) -> Result<&'a [u8], Error> {
        let need = len.saturating_add(head as u64);
        let all = usize::try_from(need).ok().and_then(|need| self.rest().get(..need));
        let Some(all) = all else { return Err(self.truncated(item, need)) };
        self.position = self.position.saturating_add(all.len());
        Ok(all.get(head..).unwrap_or_default())
    }

    /// The single byte that is marker and value in one.
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
