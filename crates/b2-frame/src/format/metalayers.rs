//! Metalayers in the header and vlmetalayers in the trailer (docs/format/frame-contiguous.md, sections 3 and 6).
//!
//! ```text
//! 93                              three parts
//! CD u16                          size of the index, from the 93 (header) or after it (trailer) to its end
//! DE u16, N x { A0+len name, D2 i32 offset }     offsets count from the start of header or trailer
//! DC u16, N x { C6 u32 value }
//! ```

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use b2_chunk::{Chunk, Container, DParams};
use b2_core::memory;
use b2_msgpack::{Reader, Writer};
use bytes::Bytes;

use crate::error::{FORMAT, max_metadata, within};
use crate::{FrameError, Structure};

/// Length of the fixed part of the header, which the metalayers follow, in bytes.
pub(crate) const FIXED_HEADER_LEN: usize = 87;

/// The largest number of metalayers in a frame, and of vlmetalayers that C-Blosc2 writes.
pub(crate) const MAX_METALAYERS: usize = 16;
/// The largest number of vlmetalayers that readers accept.
pub(crate) const MAX_VLMETALAYERS: usize = 8192;
/// The longest name of a metalayer, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 31;

/// The metalayers of a frame: named byte strings of fixed size in the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metalayers(Entries);

/// The vlmetalayers of a frame: compressed, named byte strings of any size in the trailer.
#[derive(Clone, Debug, Default)]
pub struct VlMetalayers {
    entries: Entries,
    dparams: DParams,
}

/// Names and values in file order. Names are bytes, in most files UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entries(Vec<(Bytes, Bytes)>);

impl Entries {
    fn names(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.0.iter().map(|(name, _)| String::from_utf8_lossy(name))
    }

    fn get(&self, name: &[u8]) -> Option<&Bytes> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

impl Metalayers {
    /// Returns the names in file order. Bytes that are not UTF-8 become U+FFFD.
    pub fn names(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.0.names()
    }

    /// Returns the value of a metalayer. Names are compared as bytes.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.0.get(name.as_ref()).map(|value| &value[..])
    }

    /// Returns names and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.0.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    /// Parses the metalayers of a complete header.
    pub(crate) fn parse(header: &Bytes) -> Result<Self, FrameError> {
        let section = Section { bytes: header, base: 0, structure: Structure::Metalayers };
        section.parse(FIXED_HEADER_LEN, MAX_METALAYERS, None).map(Self)
    }

    /// Parses the remains of the metalayers of a damaged header. Names without a value are added to `lost`.
    pub(crate) fn parse_damaged(header: &Bytes, lost: &mut Vec<Bytes>) -> Result<Self, FrameError> {
        let section = Section { bytes: header, base: 0, structure: Structure::Metalayers };
        section.parse(FIXED_HEADER_LEN, MAX_METALAYERS, Some(lost)).map(Self)
    }

    /// Returns the byte range of a value in the header. `header` must be the one that was parsed.
    pub(crate) fn place(&self, header: &Bytes, name: &[u8]) -> Option<Range<usize>> {
        let value = self.0.get(name)?;
        let start = (value.as_ptr() as usize).checked_sub(header.as_ptr() as usize)?;
        let end = start.checked_add(value.len())?;
        (end <= header.len()).then_some(start..end)
    }

    /// Creates metalayers to be written: at most 16, with distinct names of 1 to 31 bytes.
    pub(crate) fn new(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Self, FrameError> {
        if entries.len() > MAX_METALAYERS {
            let what = format!("{} are too many, at most 16 fit", entries.len());
            return Err(FrameError::argument("metalayers", what));
        }
        let mut total = 0u64;
        for (i, (name, value)) in entries.iter().enumerate() {
            check_name(name)?;
            if entries.iter().take(i).any(|(earlier, _)| earlier == name) {
                return Err(FrameError::argument("metalayers", format!("{:?} occurs twice", show(name))));
            }
            total = total.saturating_add(value.len() as u64);
        }
        // `header_len` is an i32.
        within("metalayers, in bytes", total, (FORMAT, (1 << 31) - 4096))?;
        Ok(Self(Entries(entries.into_iter().map(|(n, v)| (n.into(), v.into())).collect())))
    }
}

impl VlMetalayers {
    /// Returns the names in file order. Bytes that are not UTF-8 become U+FFFD.
    pub fn names(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.entries.names()
    }

    /// Returns the decompressed value of a vlmetalayer. Names are compared as bytes.
    ///
    /// # Errors
    /// [`FrameError::Field`] or [`FrameError::Chunk`] if the value is not exactly one chunk or does not decode,
    /// [`FrameError::Limit`] if it exceeds the limit on metadata.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, FrameError> {
        let name = name.as_ref();
        let Some(chunk) = self.chunk(name)? else { return Ok(None) };
        within(
            "decompressed vlmetalayer, in bytes",
            chunk.header().nbytes() as u64,
            max_metadata(&self.dparams),
        )?;
        chunk
            .decompress_bytes_with(&self.dparams)
            .map(Some)
            .map_err(FrameError::chunk(Structure::VlMetalayer(show(name))))
    }

    /// Returns the compressed value of a vlmetalayer.
    ///
    /// # Errors
    /// [`FrameError::Chunk`] if the value is not a chunk, [`FrameError::Field`] if other bytes follow the chunk.
    pub fn chunk(&self, name: impl AsRef<[u8]>) -> Result<Option<Chunk>, FrameError> {
        let name = name.as_ref();
        let Some(value) = self.entries.get(name) else { return Ok(None) };
        let structure = || Structure::VlMetalayer(show(name));
        let chunk = Chunk::from_bytes(value.clone()).map_err(FrameError::chunk(structure()))?;
        if chunk.cbytes() != value.len() {
            let cbytes = chunk.cbytes() as u64;
            return Err(FrameError::field(structure(), "cbytes", 12, cbytes, "the length of the value"));
        }
        Ok(Some(chunk))
    }

    /// Returns names and compressed values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Bytes)> {
        self.entries.0.iter().map(|(name, value)| (&name[..], value))
    }

    /// Creates vlmetalayers with these names and compressed values.
    pub(crate) fn from_entries(entries: Vec<(Bytes, Bytes)>, dparams: &DParams) -> Self {
        Self { entries: Entries(entries), dparams: dparams.clone().container(Container::default()) }
    }

    /// Parses the vlmetalayers of a complete trailer, which starts at offset `base` of the frame.
    pub(crate) fn parse(trailer: &Bytes, base: u64, dparams: &DParams) -> Result<Self, FrameError> {
        let section = Section { bytes: trailer, base, structure: Structure::VlMetalayers };
        let entries = section.parse(2, MAX_VLMETALAYERS, None)?;
        Ok(Self { entries, dparams: dparams.clone().container(Container::default()) })
    }

    /// Parses the remains of the vlmetalayers of a damaged trailer. Names without a value are added to `lost`.
    pub(crate) fn parse_damaged(
        trailer: &Bytes,
        dparams: &DParams,
        lost: &mut Vec<Bytes>,
    ) -> Result<Self, FrameError> {
        let section = Section { bytes: trailer, base: 0, structure: Structure::VlMetalayers };
        let entries = section.parse(2, MAX_VLMETALAYERS, Some(lost))?;
        Ok(Self { entries, dparams: dparams.clone().container(Container::default()) })
    }
}

/// A section of named values in a header or trailer.
struct Section<'a> {
    bytes: &'a Bytes,
    /// Offset of `bytes` in the frame, for errors.
    base: u64,
    structure: Structure,
}

impl Section<'_> {
    /// With `lost`, damaged values are skipped, and their names added to it.
    fn parse(
        &self,
        start: usize,
        max: usize,
        mut lost: Option<&mut Vec<Bytes>>,
    ) -> Result<Entries, FrameError> {
        let mut r = Reader::at(self.bytes, start);
        self.field("parts", r.marker(0x93))?;
        // Readers rely on the map. The size of the index and the count after it may be wrong.
        let _index_size: u16 = self.field("index size", r.number())?;
        let count_at = r.position();
        let count = self.field("count", r.map16())?;
        if usize::from(count) > max {
            let expected = "at most 16 (8192 for vlmetalayers)";
            return Err(FrameError::field(
                self.structure.clone(),
                "count",
                self.offset_after(count_at),
                count,
                expected,
            ));
        }
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..count {
            let name = match (r.fixstr(), &lost) {
                // The rest of the index is damaged.
                (Err(_), Some(_)) => return Ok(Entries(entries)),
                (name, _) => self.field("name", name)?,
            };
            let at = r.position();
            let offset: i32 = match (r.number(), &lost) {
                (Err(_), Some(_)) => return Ok(Entries(entries)),
                (offset, _) => self.field("offset", offset)?,
            };
            if let Some(lost) = &mut lost {
                let value = usize::try_from(offset).ok().filter(|offset| *offset < self.bytes.len());
                let value = value.and_then(|offset| Reader::at(self.bytes, offset).bin32().ok());
                let name = self.bytes.slice_ref(name);
                match value {
                    Some(value) => memory::push(&mut entries, (name, self.bytes.slice_ref(value)))?,
                    None => memory::push(*lost, name)?,
                }
                continue;
            }
            let Some(offset) = usize::try_from(offset).ok().filter(|o| *o < self.bytes.len()) else {
                let (at, expected) = (self.offset_after(at), "an offset inside the section");
                return Err(FrameError::field(self.structure.clone(), "offset", at, offset, expected));
            };
            let value = self.field("value", Reader::at(self.bytes, offset).bin32())?;
            // If a name is repeated, the first one counts.
            if seen.insert(name) {
                entries.push((self.bytes.slice_ref(name), self.bytes.slice_ref(value)));
            }
        }
        if lost.is_none() {
            self.field("values", r.array16())?;
        }
        Ok(Entries(entries))
    }

    /// Returns the offset in the frame of the byte after a marker.
    fn offset_after(&self, marker_at: usize) -> u64 {
        self.base.saturating_add(marker_at as u64).saturating_add(1)
    }

    fn field<T>(&self, field: &'static str, item: Result<T, b2_msgpack::Error>) -> Result<T, FrameError> {
        item.map_err(|source| FrameError::Msgpack {
            structure: self.structure.clone(),
            field,
            source: source.at(usize::try_from(self.base).unwrap_or(usize::MAX)),
        })
    }
}

/// Appends the metalayer section to a header.
pub(crate) fn write_metalayers(w: &mut Writer, metalayers: &Metalayers) {
    write_section(w, &metalayers.0.0, true);
}

/// Appends the vlmetalayer section to a trailer.
pub(crate) fn write_vlmetalayers(w: &mut Writer, entries: &[(Bytes, Bytes)]) {
    write_section(w, entries, false);
}

#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "writes; counts and lengths are checked by the callers"
)]
fn write_section(w: &mut Writer, entries: &[(Bytes, Bytes)], count_marker: bool) {
    let count = entries.len() as u16;
    let start = w.len() + usize::from(!count_marker);
    w.fixarray(3);
    let index_size = w.slot::<u16>();
    w.map16(count);
    let mut slots = Vec::with_capacity(entries.len());
    for (name, _) in entries {
        w.fixstr(name);
        slots.push(w.slot::<i32>());
    }
    // With thousands of vlmetalayers the index exceeds this field; readers ignore it.
    w.patch(index_size, u16::try_from(w.len() - start).unwrap_or(u16::MAX));
    w.array16(count);
    for ((_, value), slot) in entries.iter().zip(slots) {
        w.patch(slot, w.len() as i32);
        w.bin32(value);
    }
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), FrameError> {
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        let what = format!("{:?} has {} bytes, expected 1 to 31", show(name), name.len());
        return Err(FrameError::argument("metalayer name", what));
    }
    Ok(())
}

pub(crate) fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
