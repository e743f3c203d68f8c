use std::fmt;
use std::marker::PhantomData;

use rmp::Marker;

use crate::Item;

/// A number with a fixed encoding: a marker byte, then the value in big-endian order.
///
/// Implemented for `u16`, `u32`, `u64`, `i16`, `i32` and `i64`. The trait is sealed.
pub trait FixedWidth: Copy + sealed::Sealed {
    /// The kind of item that the number is written as.
    const ITEM: Item;
    #[doc(hidden)]
    type Bytes: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]>;
    #[doc(hidden)]
    fn to_wire(self) -> Self::Bytes;
    #[doc(hidden)]
    fn from_wire(bytes: Self::Bytes) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! fixed {
    ($($int:ty => $item:ident),*) => {$(
        impl sealed::Sealed for $int {}
        impl FixedWidth for $int {
            const ITEM: Item = Item::$item;
            type Bytes = [u8; size_of::<$int>()];
            fn to_wire(self) -> Self::Bytes {
                self.to_be_bytes()
            }
            fn from_wire(bytes: Self::Bytes) -> Self {
                Self::from_be_bytes(bytes)
            }
        }
    )*};
}
fixed!(u16 => Uint16, u32 => Uint32, u64 => Uint64, i16 => Int16, i32 => Int32, i64 => Int64);

/// The position of a number that [`Writer::patch`] can set later.
pub struct Slot<T> {
    offset: usize,
    number: PhantomData<fn() -> T>,
}

impl<T> Slot<T> {
    /// Returns the offset of the value (after the marker) from the start of the writer, in bytes.
    pub fn offset(self) -> usize {
        self.offset
    }
}

// Not derived, which would require `T: Clone`.
impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Slot<T> {}
impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.offset)
    }
}

/// Writes items in the widths that frames prescribe.
///
/// ```
/// let mut w = b2_msgpack::Writer::new();
/// w.number(97i32);
/// w.bool(true);
/// assert_eq!(w.into_bytes(), [0xd2, 0, 0, 0, 97, 0xc3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a writer that appends to these bytes.
    ///
    /// ```
    /// let mut w = b2_msgpack::Writer::appending_to(Vec::with_capacity(100));
    /// w.bool(false);
    /// assert_eq!(w.into_bytes(), [0xc2]);
    /// ```
    pub fn appending_to(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes written, which is also the offset of the next item.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes written, without copying.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a marker or any other single byte.
    pub fn marker(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes bytes without a marker.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an integer from 0 to 127 in one byte.
    ///
    /// # Panics
    /// If `value` is above 127.
    pub fn fixint(&mut self, value: u8) {
        assert!(value < 0x80, "{value} does not fit a fixint");
        self.marker(Marker::FixPos(value).to_u8());
    }

    /// Writes the item count of an array of 0 to 15 items.
    ///
    /// # Panics
    /// If `count` is above 15.
    pub fn fixarray(&mut self, count: u8) {
        assert!(count < 0x10, "{count} items do not fit a fixarray");
        self.marker(Marker::FixArray(count).to_u8());
    }

    /// Writes a string of 0 to 31 bytes.
    ///
    /// # Panics
    /// If `bytes` is longer than 31.
    pub fn fixstr(&mut self, bytes: &[u8]) {
        let len = u8::try_from(bytes.len()).ok().filter(|len| *len < 0x20);
        let Some(len) = len else { panic!("{} bytes do not fit a fixstr", bytes.len()) };
        self.marker(Marker::FixStr(len).to_u8());
        self.raw(bytes);
    }

    /// Writes a boolean.
    pub fn bool(&mut self, value: bool) {
        self.marker(if value { Marker::True } else { Marker::False }.to_u8());
    }

    /// Writes a number in the width of its type.
    pub fn number<T: FixedWidth>(&mut self, value: T) {
        self.start(T::ITEM);
        self.raw(value.to_wire().as_ref());
    }

    /// Writes zero for a number that is not known yet. [`Writer::patch`] sets it later.
    pub fn slot<T: FixedWidth + Default>(&mut self) -> Slot<T> {
        let slot = Slot { offset: self.len() + 1, number: PhantomData };
        self.number(T::default());
        slot
    }

    /// Sets a number that was written with [`Writer::slot`].
    ///
    /// # Panics
    /// If the slot comes from another writer and is past the end of this one.
    pub fn patch<T: FixedWidth>(&mut self, slot: Slot<T>, value: T) {
        let wire = value.to_wire();
        let wire = wire.as_ref();
        self.bytes[slot.offset..][..wire.len()].copy_from_slice(wire);
    }

    /// Writes the item count of an array in 16 bits.
    pub fn array16(&mut self, count: u16) {
        self.start(Item::Array16);
        self.raw(&count.to_be_bytes());
    }

    /// Writes the entry count of a map in 16 bits.
    pub fn map16(&mut self, count: u16) {
        self.start(Item::Map16);
        self.raw(&count.to_be_bytes());
    }

    /// Writes bytes with a 32-bit length.
    ///
    /// # Panics
    /// If there are 2³² bytes or more.
    pub fn bin32(&mut self, bytes: &[u8]) {
        self.long(Item::Bin32, bytes);
    }

    /// Writes a string with a 32-bit length.
    ///
    /// # Panics
    /// If there are 2³² bytes or more.
    pub fn str32(&mut self, bytes: &[u8]) {
        self.long(Item::Str32, bytes);
    }

    /// Writes a type byte and 16 bytes of data.
    pub fn fixext16(&mut self, kind: u8, data: &[u8; 16]) {
        self.start(Item::Fixext16);
        self.marker(kind);
        self.raw(data);
    }

    fn long(&mut self, item: Item, bytes: &[u8]) {
        let Ok(len) = u32::try_from(bytes.len()) else {
            panic!("{} bytes do not fit a {item}", bytes.len());
        };
        self.start(item);
        self.raw(&len.to_be_bytes());
        self.raw(bytes);
    }

    fn start(&mut self, item: Item) {
        if let Some(marker) = item.marker() {
            self.marker(marker.to_u8());
        }
    }
}
