//! The header messages of a data set.

use super::cursor::{Cursor, NOWHERE, text_of};
use super::header::Below;

/// The shape of a data set or an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Space {
    /// No items, and no shape.
    Null,
    /// The lengths, and the maximum of each (`u64::MAX` for unlimited) if they may grow.
    Shape(Vec<u64>, Option<Vec<u64>>),
}

pub(crate) fn space(bytes: &[u8], length_size: u8) -> Option<Space> {
    let mut cursor = Cursor::new(bytes);
    let (version, rank, flags) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
    match version {
        1 => cursor.skip(5)?,
        2 if cursor.u8()? == 2 => return Some(Space::Null),
        2 => {}
        _ => return None,
    }
    let shape = (0..rank).map(|_| cursor.uint(length_size)).collect::<Option<_>>()?;
    let most = match flags & 1 {
        0 => None,
        _ => Some((0..rank).map(|_| cursor.address(length_size)).collect::<Option<_>>()?),
    };
    Some(Space::Shape(shape, most))
}

/// Where the items of a data set are.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Compact(Vec<u8>),
    Contiguous {
        address: u64,
        len: Option<u64>,
    },
    Chunked(ChunkedLayout),
    /// A heap with the positions of the items, and the number of the object in it.
    Virtual {
        heap: u64,
        index: u32,
    },
}

/// How the chunks of a data set are found.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedLayout {
    pub(crate) address: u64,
    /// The shape of a chunk, in items.
    pub(crate) shape: Vec<u32>,
    pub(crate) index: Index,
    /// Whether chunks that reach over the edge are stored without filters.
    pub(crate) has_plain_edges: bool,
}

/// The kind of an index of chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Index {
    BTree1,
    Single { stored: Option<(u64, u32)> },
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTree2,
}

impl Index {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BTree1 => "B-tree 1",
            Self::Single { .. } => "single",
            Self::Implicit => "implicit",
            Self::FixedArray => "fixed array",
            Self::ExtensibleArray => "extensible array",
            Self::BTree2 => "B-tree 2",
        }
    }
}

/// Parses a layout message. The error describes the problem.
pub(crate) fn layout(bytes: &[u8], below: &Below) -> Result<Layout, String> {
    let cut = || "the layout message is malformed".to_owned();
    let mut cursor = Cursor::new(bytes);
    match cursor.u8() {
        Some(1 | 2) => old_layout(&mut cursor, below).ok_or_else(cut),
        Some(version @ 3..=5) => new_layout(&mut cursor, version, below).ok_or_else(cut),
        Some(version) => Err(format!("a layout message of version {version}, which is not supported")),
        None => Err(cut()),
    }
}

fn old_layout(cursor: &mut Cursor<'_>, below: &Below) -> Option<Layout> {
    let (rank, class) = (cursor.u8()?, cursor.u8()?);
    cursor.skip(5)?;
    let address = if class == 0 { NOWHERE } else { cursor.address(below.offset_size)? };
    let lengths = (0..rank).map(|_| cursor.u32()).collect::<Option<Vec<_>>>()?;
    Some(match class {
        0 => {
            let len = usize::try_from(cursor.u32()?).ok()?;
            Layout::Compact(cursor.bytes(len)?.to_vec())
        }
        1 => Layout::Contiguous { address, len: None },
        2 => {
            // The last length is that of an item.
            let (_, shape) = lengths.split_last()?;
            let shape = shape.to_vec();
            Layout::Chunked(ChunkedLayout { address, shape, index: Index::BTree1, has_plain_edges: false })
        }
        _ => return None,
    })
}

fn new_layout(cursor: &mut Cursor<'_>, version: u8, below: &Below) -> Option<Layout> {
    Some(match (cursor.u8()?, version) {
        (0, _) => {
            let len = cursor.u16()?.into();
            Layout::Compact(cursor.bytes(len)?.to_vec())
        }
        (1, _) => {
            let address = cursor.address(below.offset_size)?;
            Layout::Contiguous { address, len: Some(cursor.uint(below.length_size)?) }
        }
        (2, 3) => {
            let rank = cursor.u8()?;
            let address = cursor.address(below.offset_size)?;
            let lengths = (0..rank).map(|_| cursor.u32()).collect::<Option<Vec<_>>>()?;
            let (_, shape) = lengths.split_last()?;
            let shape = shape.to_vec();
            Layout::Chunked(ChunkedLayout { address, shape, index: Index::BTree1, has_plain_edges: false })
        }
        (2, _) => {
            let (flags, rank, width) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
            let lengths = (0..rank)
                .map(|_| cursor.uint(width).and_then(|length| u32::try_from(length).ok()))
                .collect::<Option<Vec<_>>>()?;
            let (_, shape) = lengths.split_last()?;
            let index = match cursor.u8()? {
                1 => {
                    let stored = match flags & 2 {
                        0 => None,
                        _ => Some((cursor.uint(below.length_size)?, cursor.u32()?)),
                    };
                    Index::Single { stored }
                }
                2 => Index::Implicit,
                3 => {
                    cursor.skip(1)?;
                    Index::FixedArray
                }
                4 => {
                    cursor.skip(5)?;
                    Index::ExtensibleArray
                }
                5 => {
                    cursor.skip(6)?;
                    Index::BTree2
                }
                _ => return None,
            };
            let address = cursor.address(below.offset_size)?;
            Layout::Chunked(ChunkedLayout {
                address,
                shape: shape.to_vec(),
                index,
                has_plain_edges: flags & 1 != 0,
            })
        }
        (3, 4 | 5) => Layout::Virtual { heap: cursor.address(below.offset_size)?, index: cursor.u32()? },
        _ => return None,
    })
}

/// Parses a fill value message: the stored bytes of an item, if they are given.
pub(crate) fn fill(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut cursor = Cursor::new(bytes);
    let version = cursor.u8()?;
    let has_value = match version {
        1 | 2 => {
            cursor.skip(2)?;
            cursor.u8()? != 0 || version == 1
        }
        3 => cursor.u8()? & 0x20 != 0,
        _ => return None,
    };
    if has_value { value(&mut cursor) } else { Some(None) }
}

/// Returns whether a fill value message states that items are never filled.
pub(crate) fn is_never_filled(bytes: &[u8]) -> bool {
    match bytes {
        [1 | 2, _, time, ..] => *time == 1,
        [3, flags, ..] => flags >> 2 & 3 == 1,
        _ => false,
    }
}

/// Parses a fill value message of the oldest kind.
pub(crate) fn old_fill(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    value(&mut Cursor::new(bytes))
}

fn value(cursor: &mut Cursor<'_>) -> Option<Option<Vec<u8>>> {
    // A negative size means that there is none.
    let size = cursor.u32()?;
    if size == 0 || size > i32::MAX as u32 {
        return Some(None);
    }
    cursor.bytes(usize::try_from(size).ok()?).map(|value| Some(value.to_vec()))
}

/// A filter: its number, its name and its parameters.
pub(crate) type FoundFilter = (u16, Option<String>, Vec<u32>);

pub(crate) fn filters(bytes: &[u8]) -> Option<Vec<FoundFilter>> {
    let mut cursor = Cursor::new(bytes);
    let (version, count) = (cursor.u8()?, cursor.u8()?);
    match version {
        1 => cursor.skip(6)?,
        2 => {}
        _ => return None,
    }
    (0..count)
        .map(|_| {
            let id = cursor.u16()?;
            let named = if version == 1 || id >= 256 { cursor.u16()? } else { 0 };
            cursor.skip(2)?;
            let params = cursor.u16()?;
            let name = cursor.bytes(named.into())?;
            if version == 1 {
                cursor.skip(usize::from(named).wrapping_neg() % 8)?;
            }
            let values = (0..params).map(|_| cursor.u32()).collect::<Option<Vec<_>>>()?;
            if version == 1 && params % 2 == 1 {
                cursor.skip(4)?;
            }
            Some((id, Some(text_of(name)).filter(|name| !name.is_empty()), values))
        })
        .collect()
}

/// A part of the items of a data set, in another file: where its name is in the heap of names, where it starts, and how many
/// bytes it has.
pub(crate) type FoundPart = (u64, u64, u64);

/// Parses a message about items in other files: the heap of their names, and the parts.
pub(crate) fn external(bytes: &[u8], below: &Below) -> Option<(u64, Vec<FoundPart>)> {
    let mut cursor = Cursor::new(bytes);
    if cursor.u8()? != 1 {
        return None;
    }
    cursor.skip(5)?;
    let count = cursor.u16()?;
    let heap = cursor.address(below.offset_size)?;
    let width = below.length_size;
    let mut part = || Some((cursor.uint(width)?, cursor.uint(width)?, cursor.address(width)?));
    Some((heap, (0..count).map(|_| part()).collect::<Option<_>>()?))
}

/// A stored attribute.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) kind: Vec<u8>,
    pub(crate) space: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// Parses an attribute message. The error describes the problem.
pub(crate) fn attribute(bytes: &[u8], below: &Below) -> Result<Attribute, String> {
    let mut cursor = Cursor::new(bytes);
    let mut parse = || {
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        let sizes = [cursor.u16()?, cursor.u16()?, cursor.u16()?];
        if version == 3 {
            cursor.skip(1)?;
        }
        let mut part = |size: u16| {
            let bytes = cursor.bytes(size.into())?;
            if version == 1 {
                cursor.skip(usize::from(size).wrapping_neg() % 8)?;
            }
            Some(bytes)
        };
        let [name, kind, space] = sizes;
        let (name, kind, space) = (part(name)?, part(kind)?, part(space)?);
        // It has the stated length and ends with a zero.
        let name = name.strip_suffix(&[0]).filter(|name| !name.contains(&0)).map(text_of)?;
        (1..=3).contains(&version).then_some((name, flags, kind, space))
    };
    let (name, flags, kind, space) = parse().ok_or("an attribute message is malformed")?;
    let of = |bytes: &[u8], bit: u8, message: u16| match flags & bit {
        0 => Ok(bytes.to_vec()),
        _ => below.shared(bytes, message),
    };
    Ok(Attribute {
        name,
        kind: of(kind, 1, super::header::DATATYPE)?,
        space: of(space, 2, super::header::DATASPACE)?,
        data: cursor.rest().to_vec(),
    })
}

/// The target of a name in a group.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// To the object at an address.
    Object(u64),
    /// To a path.
    Soft(String),
    /// To a path in another file.
    #[non_exhaustive]
    External {
        /// The other file.
        file: String,
        /// The path in it.
        path: String,
    },
    /// A link of a kind that is not known.
    Unknown(u8),
}

/// Parses a link message: the name, the target, and the number in the order of creation, if it is recorded.
pub(crate) fn link(bytes: &[u8], below: &Below) -> Option<(String, Target, Option<u64>)> {
    let mut cursor = Cursor::new(bytes);
    let (version, flags) = (cursor.u8()?, cursor.u8()?);
    let kind = if flags & 8 != 0 { cursor.u8()? } else { 0 };
    let order = if flags & 4 != 0 { Some(cursor.uint(8)?) } else { None };
    cursor.skip(if flags & 0x10 != 0 { 1 } else { 0 })?;
    let len = usize::try_from(cursor.uint(1 << (flags & 3))?).ok()?;
    let name = text_of(cursor.bytes(len)?);
    let target = match kind {
        0 => Target::Object(cursor.address(below.offset_size)?),
        1 => {
            let len = cursor.u16()?.into();
            Target::Soft(text_of(cursor.bytes(len)?))
        }
        64 => {
            let len = cursor.u16()?.into();
            let mut inner = Cursor::new(cursor.bytes(len)?);
            inner.skip(1)?;
            Target::External { file: text_of(inner.text()?), path: text_of(inner.rest()) }
        }
        other => Target::Unknown(other),
    };
    (version == 1).then_some((name, target, order))
}

/// The storage of many links or attributes: a heap, an index of names, and whether the order in which they
/// were created is recorded.
pub(crate) fn heap(bytes: &[u8], counter: usize, below: &Below) -> Option<Option<(u64, u64, bool)>> {
    let mut cursor = Cursor::new(bytes);
    let (_version, flags) = (cursor.u8()?, cursor.u8()?);
    cursor.skip(if flags & 1 != 0 { counter } else { 0 })?;
    let (heap, index) = (cursor.address(below.offset_size)?, cursor.address(below.offset_size)?);
    Some((heap != NOWHERE && index != NOWHERE).then_some((heap, index, flags & 1 != 0)))
}
