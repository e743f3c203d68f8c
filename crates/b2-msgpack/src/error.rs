use std::fmt;

use rmp::Marker;

/// The error type of [`Reader`](crate::Reader).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data ends inside an item.
    #[error("byte {offset}: {expected} needs {need} bytes, only {have} left")]
    #[non_exhaustive]
    Truncated {
        /// Offset of the item, in bytes.
        offset: usize,
        /// The item that was expected.
        expected: Item,
        /// Bytes that the item needs from `offset` on, if known.
        need: u64,
        /// Bytes available from `offset` on.
        have: usize,
    },
    /// The marker is not the prescribed one.
    #[error("byte {offset}: expected {expected}, found {got:#04x}")]
    #[non_exhaustive]
    Marker {
        /// Offset of the marker, in bytes.
        offset: usize,
        /// The item that was expected.
        expected: Item,
        /// The byte found.
        got: u8,
    },
}

impl Error {
    /// Returns the offset of the item from the start of the reader's data, in bytes.
    pub fn offset(&self) -> usize {
        match self {
            Self::Truncated { offset, .. } | Self::Marker { offset, .. } => *offset,
        }
    }

    /// Returns the error with `base` added to its offset, for data that starts at `base` of a larger buffer.
    #[must_use]
    pub fn at(mut self, base: usize) -> Self {
        match &mut self {
            Self::Truncated { offset, .. } | Self::Marker { offset, .. } => {
                *offset = offset.saturating_add(base);
            }
        }
        self
    }
}

/// The kinds of item in the subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Item {
    /// Integer 0 to 127 in one byte.
    Fixint,
    /// Array of 0 to 15 items.
    Fixarray,
    /// String of 0 to 31 bytes.
    Fixstr,
    /// Boolean.
    Bool,
    /// Bytes with a 32-bit length.
    Bin32,
    /// 16-bit unsigned integer.
    Uint16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit unsigned integer.
    Uint64,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// A type byte and 16 bytes.
    Fixext16,
    /// String with a 32-bit length.
    Str32,
    /// Array with a 16-bit count.
    Array16,
    /// Map with a 16-bit count.
    Map16,
    /// One prescribed byte.
    Byte(u8),
    /// Bytes without a marker.
    Raw,
}

impl Item {
    /// Returns the marker of the item, if it is always the same byte.
    pub(crate) const fn marker(self) -> Option<Marker> {
        Some(match self {
            Self::Bin32 => Marker::Bin32,
            Self::Uint16 => Marker::U16,
            Self::Uint32 => Marker::U32,
            Self::Uint64 => Marker::U64,
            Self::Int16 => Marker::I16,
            Self::Int32 => Marker::I32,
            Self::Int64 => Marker::I64,
            Self::Fixext16 => Marker::FixExt16,
            Self::Str32 => Marker::Str32,
            Self::Array16 => Marker::Array16,
            Self::Map16 => Marker::Map16,
            Self::Fixint | Self::Fixarray | Self::Fixstr | Self::Bool | Self::Byte(_) | Self::Raw => {
                return None;
            }
        })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixint => "fixint",
            Self::Fixarray => "fixarray",
            Self::Fixstr => "fixstr",
            Self::Bool => "bool",
            Self::Bin32 => "bin32",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Fixext16 => "fixext16",
            Self::Str32 => "str32",
            Self::Array16 => "array16",
            Self::Map16 => "map16",
            Self::Byte(byte) => return write!(f, "{byte:#04x}"),
            Self::Raw => "bytes",
        })
    }
}
